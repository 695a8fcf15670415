# SPDX-License-Identifier: Apache-2.0
"""Pulses on a parallel port, answered by the kernel module, in counted mode.

A LapLink cable joins two ports (kmod/tests/laplink.c). A log host uses one port by ppdev. The
module answers on the other port. Each edge must have one answer, and a second boot must give the
same bit for bit. kmod/tests/parallel.c tests the calls themselves.
"""

from __future__ import annotations

from typing import Final

import pytest

from lab_boots import (
    BUSYBOX,
    NEEDS_X86,
    Boot,
    Booted,
    assert_delayed,
    assert_later_further_up,
    assert_no_complaint,
    assert_same_samples,
    assert_tap,
    on_boards,
    pair_orders,
    row_of,
    series_of,
    shell,
    streams_of,
)
from rtgauge.stream import SeriesInfo

pytestmark = NEEDS_X86
BOARDS: Final = ("x86_64-rt-6.12", "x86_64-stock-6.12")
EVENTS: Final = 1_000
DELAY_NS: Final = 5_000_000
HUNDRED: Final = "--samples 100"
PORT: Final = "/dev/parport0"
FAR: Final = "/dev/parport1"
PROGRAMS: Final = (
    ("/parallel", "kmod/tests/parallel.c"),
    ("/interface", "kmod/tests/interface.c"),
)
LAPLINK: Final = (("/laplink.ko", "kmod/tests/laplink.c"),)
DEBIAN: Final = ("parport", "ppdev", "lp")


def pair(
    name: str, context: str, board: str = "", host: str = ""
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    lines = (f"parallel:{FAR}", f"parallel:{PORT}")
    return pair_orders(name, host, board, context, lines)


CONTEXTS: Final = ("irq", "kernel", "user")
DEFERRED: Final = ("softirq", "workqueue")
PAIRS: Final = tuple(
    order for one in CONTEXTS for order in pair(one, one, host=f"--samples {EVENTS} --interval 2ms")
)
MORE: Final = (
    *(order for one in DEFERRED for order in pair(one, one, host=f"{HUNDRED} --interval 2ms")),
    *(
        order
        for one in ("irq", "kernel")
        for order in (
            *pair(
                f"{one}.late",
                one,
                "--delay 5ms --delay-every 10",
                f"{HUNDRED} --interval 10ms",
            ),
            *pair(
                f"{one}.falling", one, "--edge falling", f"--edge falling {HUNDRED} --interval 2ms"
            ),
            *pair(
                f"{one}.low", one, "--active-low yes", f"--active-low yes {HUNDRED} --interval 2ms"
            ),
        )
    ),
)
# What cannot be answered: the words, and of the message and its remedy.
REFUSED: Final = {
    "threaded": ("threaded", PORT, (), 2, "no threaded handler", "softirq"),
    "debounce": ("irq", PORT, ("--debounce", "1ms"), 2, "cannot debounce", "omit --debounce"),
    "no interrupt": ("irq", "/dev/parport2", (), 2, "has no interrupt", "irq=7"),
    "not in a handler": (
        "kernel",
        "/dev/parport3",
        (),
        77,
        "cannot drive its lines in an interrupt handler",
        "--context user",
    ),
    "no port": ("irq", "/dev/parport7", (), 77, "no such parallel port", "modprobe parport_pc"),
}
REFUSALS: Final = tuple(
    (name, ("run", "response", "--context", context, "--line", f"parallel:{port}", *words))
    for name, (context, port, words, _, _, _) in REFUSED.items()
)
# An agent that is killed with the port in use. No module can be removed before that.
KILLED: Final = f"""
/agent run response --context kernel --line parallel:{PORT} --output /k >/dev/null & P=$!
{BUSYBOX} sleep 1
rmmod rtgauge_parport 2>/dev/null; echo $?
kill -9 $P; wait $P; echo $?
{BUSYBOX} sleep 1
cat /sys/module/rtgauge_parport/refcnt
/agent run response --context user --line parallel:{PORT} --for 100ms --output /k2 >/dev/null
echo $?
"""
# The driver of printers has each port for itself in part, as long as it is loaded.
PRINTER: Final = f"""
insmod /lp.ko
/agent run response --context irq --line parallel:{PORT} --for 1s --output /b; echo $?
rmmod lp
/agent run response --context irq --line parallel:{PORT} --for 100ms --output /b2 >/dev/null
echo $?
"""
LEFT: Final = """
grep -c rtgauge /proc/modules; cat /proc/[0-9]*/comm | grep -c '^rtgauge/'
ls /sys/bus/parport/devices | grep -c rtgauge
"""
TRIED: Final = (
    ("calls", ("/parallel", "calls")),
    ("fuzz", ("/interface", "fuzz", "3", "10000")),
    *REFUSALS,
    ("killed agent", shell(KILLED)),
    ("printer", shell(PRINTER)),
    ("killed", ("/parallel", "killed", "40")),
    ("left", shell(LEFT)),
    ("again", shell("insmod /modules/rtgauge.ko && insmod /modules/rtgauge_parport.ko")),
    ("unplugged", ("/parallel", "unplugged")),
    ("no cable", shell("rmmod rtgauge && rmmod laplink && rmmod ppdev && rmmod parport")),
    ("without ports", shell("insmod /modules/rtgauge.ko && rmmod rtgauge")),
)
CABLE: Final = (
    "cable",
    shell(
        "insmod /parport.ko; insmod /ppdev.ko; insmod /laplink.ko; "
        "insmod /modules/rtgauge_parport.ko"
    ),
)
BOOTS: Final = {
    board: Boot(
        board,
        (CABLE, *PAIRS, *MORE, *TRIED),
        "quiet",
        programs=PROGRAMS,
        modules=LAPLINK,
        debian=DEBIAN,
    )
    for board in BOARDS
}
AGAIN: Final = {
    board: Boot(
        board,
        (CABLE, *PAIRS),
        "busy",
        turn=2,
        programs=PROGRAMS,
        modules=LAPLINK,
        debian=DEBIAN,
    )
    for board in BOARDS
}
each_board = on_boards(BOOTS)


@pytest.mark.study(45)
@each_board
@pytest.mark.parametrize(
    ("name", "count"),
    [
        *((one, EVENTS) for one in CONTEXTS),
        *((one, 100) for one in DEFERRED),
        *((f"{one}.{how}", 100) for one in ("irq", "kernel") for how in ("falling", "low", "late")),
    ],
)
def test_every_pulse_has_one_answer(
    booted: list[Booted], board: str, name: str, count: int
) -> None:
    assert booted[0].steps["cable"].code == 0, booted[0].steps["cable"].said
    found = streams_of(booted[0], name)
    assert row_of(found["host"]) == (count, count, 0, 0, 0, 0, 0), board
    assert row_of(found["board"])[:3] == (count, count, 0)
    response, ours = series_of(found["host"])["response"], series_of(found["board"])
    expected = {"user": ("turn-around",), "irq": ("answer",)}
    assert tuple(ours) == expected.get(name.split(".", maxsplit=1)[0], ("wake-up", "answer"))
    assert {len(values) for values in (response, *ours.values())} == {count}
    assert all(bool((values > 0).all()) for values in (response, *ours.values()))
    labels = [one.labels["line"] for one in found["board"] if isinstance(one, SeriesInfo)]
    assert set(labels) == {"parallel"}


@each_board
def test_the_further_up_the_later(booted: list[Booted], board: str) -> None:
    assert_later_further_up(booted[0], CONTEXTS)


@each_board
@pytest.mark.parametrize("context", ["irq", "kernel"])
def test_delayed_answers_are_found(booted: list[Booted], board: str, context: str) -> None:
    assert_delayed(booted[0], f"{context}.late", DELAY_NS)


@on_boards(BOOTS, AGAIN, names=CONTEXTS)
def test_two_boots_measure_the_same(booted: list[Booted], board: str, name: str) -> None:
    assert_same_samples(booted, name)


@each_board
@pytest.mark.parametrize("name", ["calls", "fuzz", "killed", "unplugged"])
def test_what_is_refused_and_how_it_ends(booted: list[Booted], board: str, name: str) -> None:
    assert_tap(booted[0].steps[name])


@each_board
@pytest.mark.parametrize("name", REFUSED)
def test_what_the_agent_refuses(booted: list[Booted], board: str, name: str) -> None:
    step = booted[0].steps[name]
    *_, code, reason, remedy = REFUSED[name]
    assert step.code == code, (board, step.said)
    assert reason in step.said
    assert remedy in step.said


@each_board
def test_a_port_that_the_driver_of_printers_has(booted: list[Booted], board: str) -> None:
    step = booted[0].steps["printer"]
    assert step.stream.split() == [b"77", b"0"], (board, step.said)
    assert "the parallel port is in use" in step.said
    assert "unload the driver lp" in step.said


@each_board
def test_nothing_is_left(booted: list[Booted], board: str) -> None:
    """A killed agent leaves nothing. No module can be removed as long as it has the port."""
    steps = booted[0].steps
    killed, left = steps["killed agent"], steps["left"]
    assert killed.stream.split() == [b"1", b"137", b"0", b"0"], (board, killed.said)
    assert left.stream.split() == [b"0", b"0", b"0"], (board, left.said)
    for name in ("again", "no cable", "without ports"):
        assert steps[name].code == 0, steps[name].said
    assert_no_complaint(booted[0].log)
