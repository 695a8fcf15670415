# SPDX-License-Identifier: Apache-2.0
"""Changes of a serial port's DCD, answered by the kernel module, in counted mode.

A null-modem cable joins two ports (kmod/tests/nullmodem.c). A log host drives DTR of one port,
which is DCD of the other port, where the module answers. Each edge must have one answer, and a
second boot must give the same bit for bit. kmod/tests/serial.c tests the calls themselves.
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
PORT: Final = "/dev/ttyNM0"
FAR: Final = "/dev/ttyNM1"
PROGRAMS: Final = (
    ("/serial", "kmod/tests/serial.c"),
    ("/interface", "kmod/tests/interface.c"),
)
MODEM: Final = (("/nullmodem.ko", "kmod/tests/nullmodem.c"),)


def pair(name: str, context: str, board: str, host: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    lines = (f"serial:{FAR}:{host}", f"serial:{PORT}:{board}")
    return pair_orders(name, "", "", context, lines)


AT_ONCE: Final = ("rts:dcd", f"dtr:cts --samples {EVENTS} --interval 2ms")
CONTEXTS: Final = ("irq", "kernel", "user")
# The two further contexts of the kernel, with the other output.
DEFERRED: Final = ("softirq", "workqueue")
PAIRS: Final = tuple(order for one in CONTEXTS for order in pair(one, one, *AT_ONCE))
MORE: Final = (
    *(
        order
        for one in DEFERRED
        for order in pair(one, one, "dtr:dcd", "dtr:dcd --samples 100 --interval 2ms")
    ),
    *(
        order
        for one in ("irq", "kernel")
        for order in (
            *pair(
                f"{one}.late",
                one,
                "rts:dcd --delay 5ms --delay-every 10",
                "dtr:cts --samples 100 --interval 10ms",
            ),
            *pair(
                f"{one}.rising",
                one,
                "rts:dcd --edge rising",
                "dtr:cts --edge rising --samples 100 --interval 2ms",
            ),
            *pair(
                f"{one}.low",
                one,
                "rts:dcd --active-low yes",
                "dtr:cts --active-low yes --samples 100 --interval 2ms",
            ),
        )
    ),
)
# What cannot be answered: the words, and of the message and its remedy.
REFUSED: Final = {
    "cts": ("irq", f"serial:{PORT}:rts:cts", (), "answer only to changes of dcd", "rts:dcd"),
    "dsr": ("kernel", f"serial:{PORT}:rts:dsr", (), "answer only to changes of dcd", "rts:dcd"),
    "bytes": ("irq", f"serial:{PORT}", (), "on dcd of a serial port", "serial:DEVICE:rts:dcd"),
    "threaded": ("threaded", f"serial:{PORT}:rts:dcd", (), "no threaded handler", "softirq"),
    "debounce": (
        "irq",
        f"serial:{PORT}:rts:dcd",
        ("--debounce", "1ms"),
        "cannot debounce its lines",
        "omit --debounce",
    ),
    "pseudo": (
        "irq",
        "serial:/pts/ptmx:rts:dcd",
        (),
        "has no modem-control lines",
        "name a port that has them",
    ),
    "no port": ("irq", "serial:/dev/ttyNM7:rts:dcd", (), "is not a serial port", "/dev/ttyS0"),
}
REFUSALS: Final = tuple(
    (name, ("run", "response", "--context", context, "--line", line, "--for", "1s", *words))
    for name, (context, line, words, _, _) in REFUSED.items()
)
# An agent that is killed with the port in use. The module cannot be removed before that.
KILLED: Final = f"""
/agent run response --context kernel --line serial:{PORT}:rts:dcd --output /k >/dev/null & P=$!
{BUSYBOX} sleep 1
rmmod rtgauge 2>/dev/null; echo $?
kill -9 $P; wait $P; echo $?
{BUSYBOX} sleep 1
cat /sys/module/rtgauge/refcnt
/agent run response --context user --line serial:{PORT}:rts:dcd --for 100ms --output /k2 >/dev/null
echo $?
"""
BUSY: Final = f"""
{BUSYBOX} sleep 3 <{PORT} &
{BUSYBOX} sleep 1
/agent run response --context irq --line serial:{PORT}:rts:dcd --for 1s --output /b; echo $?
wait
"""
# On PREEMPT_RT the port's handler has to have had its turn before the module's log is read.
LEFT: Final = """
grep -c rtgauge /proc/modules; cat /proc/[0-9]*/comm | grep -c '^rtgauge/'
grep -c rtgauge /proc/tty/ldiscs
"""
TRIED: Final = (
    ("calls", ("/serial", "calls", PORT, FAR)),
    ("fuzz", ("/interface", "fuzz", "3", "10000")),
    ("ptmx", shell("mkdir /pts && mount -t devpts -o ptmxmode=0666 devpts /pts")),
    *REFUSALS,
    ("killed agent", shell(KILLED)),
    ("busy", shell(BUSY)),
    ("killed", ("/serial", "killed", PORT, FAR, "40")),
    ("left", shell(LEFT)),
    ("gone", ("run", "response", "--context", "irq", "--line", f"serial:{PORT}:rts:dcd")),
    ("no cable", shell("rmmod nullmodem")),
)
CABLE: Final = ("cable", shell("insmod /nullmodem.ko"))
BOOTS: Final = {
    board: Boot(board, (CABLE, *PAIRS, *MORE, *TRIED), "quiet", programs=PROGRAMS, modules=MODEM)
    for board in BOARDS
}
AGAIN: Final = {
    board: Boot(board, (CABLE, *PAIRS), "busy", turn=2, programs=PROGRAMS, modules=MODEM)
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
        *((f"{one}.{how}", 100) for one in ("irq", "kernel") for how in ("rising", "low", "late")),
    ],
)
def test_every_change_has_one_answer(
    booted: list[Booted], board: str, name: str, count: int
) -> None:
    """The log host's opening of its port is seen by the board, too; what it raises is answered."""
    assert booted[0].steps["cable"].code == 0, booted[0].steps["cable"].said
    found = streams_of(booted[0], name)
    assert row_of(found["host"]) == (count, count, 0, 0, 0, 0, 0), board
    seen, answered, lost, _ = row_of(found["board"])
    assert seen == answered >= count
    assert lost == 0
    response, ours = series_of(found["host"])["response"], series_of(found["board"])
    expected = {"user": ("turn-around",), "irq": ("answer",)}
    assert tuple(ours) == expected.get(name.split(".", maxsplit=1)[0], ("wake-up", "answer"))
    assert len(response) == count
    assert {len(values) for values in ours.values()} == {answered}
    assert all(bool((values > 0).all()) for values in (response, *ours.values()))
    labels = [one.labels["line"] for one in found["board"] if isinstance(one, SeriesInfo)]
    assert set(labels) == {"serial-modem"}


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
@pytest.mark.parametrize("name", ["calls", "fuzz", "killed"])
def test_what_is_refused_and_how_it_ends(booted: list[Booted], board: str, name: str) -> None:
    assert_tap(booted[0].steps[name])


@each_board
@pytest.mark.parametrize("name", REFUSED)
def test_what_the_agent_refuses(booted: list[Booted], board: str, name: str) -> None:
    step = booted[0].steps[name]
    _, _, _, reason, remedy = REFUSED[name]
    assert step.code == 2, (board, step.said)
    assert reason in step.said
    assert remedy in step.said


@each_board
def test_a_port_that_somebody_has(booted: list[Booted], board: str) -> None:
    step = booted[0].steps["busy"]
    assert step.stream == b"1\n", (board, step.said)
    assert f"cannot give the serial port {PORT} to the kernel module" in step.said
    assert "fuser names it" in step.said


@each_board
def test_nothing_is_left(booted: list[Booted], board: str) -> None:
    """A killed agent leaves nothing. The module cannot be removed as long as it has the port."""
    killed, left, gone = (booted[0].steps[name] for name in ("killed agent", "left", "gone"))
    assert killed.stream.split() == [b"1", b"137", b"0", b"0"], (board, killed.said)
    assert left.stream.split() == [b"0", b"0", b"0"], (board, left.said)
    assert gone.code == 77, gone.said
    assert "/dev/rtgauge" in gone.said
    assert booted[0].steps["no cable"].code == 0, booted[0].steps["no cable"].said
    assert_no_complaint(booted[0].log)
