# SPDX-License-Identifier: Apache-2.0
"""Edges from outside, answered by the kernel module, on emulated boards in counted mode.

A peer drives a line that is wired to the module's input, and reads the module's output on another:
kmod/tests/response.c, and the agent as log host of an agent that answers. Each edge must have one
answer. A second boot must give the same bit for bit. bench/response_contexts.py does it with 10 000
events.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from lab_boots import LINES_CHIP as CHIP
from lab_boots import (
    NEEDS_ARM,
    Boot,
    Booted,
    assert_no_complaint,
    assert_same_samples,
    assert_tap,
    on_boards,
    pair_orders,
    series_of,
    streams_of,
)
from rtgauge.stream import Table, Verdict, Work

pytestmark = NEEDS_ARM
BOARDS = ("arm64-rt-6.1", "arm64-stock-6.1")
CONTEXTS = ("irq", "kernel")
DELAY_NS = 5_000_000
PROGRAM = (("/response", "kmod/tests/response.c"),)
CHIPS = (("/chip.ko", "kmod/tests/chip.c"),)


# Events of each order, the distance of delayed answers, and the further words. An answer that is
# held back for 5 ms has to be there before the next edge.
ANSWERS = {
    "softirq": (200, 100, ("6000", "5000", "100")),
    "threaded": (200, 100, ("6000", "5000", "100")),
    "workqueue": (200, 100, ("6000", "5000", "100")),
    "irq": (1_000, 1_000, ("6000", "5000", "1000")),
    "kernel": (1_000, 1_000, ("6000", "5000", "1000")),
    "kernel asleep": (1_000, 100, ("6000", "5000", "100", "sleep")),
    "irq at once": (1_000, 0, ("100",)),
    "kernel at once": (1_000, 0, ("100",)),
}
ORDERS = tuple(
    (name, ("/response", "answers", name.split()[0], f"{events}", *words))
    for name, (events, _, words) in ANSWERS.items()
)
# A log host and the context that answers it.
EVENTS = 1_000
DELAYED = (f"--samples {EVENTS} --interval 8ms", "--delay 5ms --delay-every 1000")
AT_ONCE = (f"--samples {EVENTS} --interval 500us", "")
PAIRS = {
    **{f"pair-{context}": (context, AT_ONCE) for context in (*CONTEXTS, "user")},
    **{f"pair-{context}-delayed": (context, DELAYED) for context in CONTEXTS},
}
FOUND = {f"find-{context}": context for context in (*CONTEXTS, "user")}
FOUND_ORDERS = tuple(
    order
    for name, context in FOUND.items()
    for order in pair_orders(name, "--samples 300 --interval 2ms", "--load find", context)
)
PAIR_ORDERS = tuple(
    order
    for name, (context, words) in PAIRS.items()
    for order in pair_orders(name, *words, context)
)
LOOPBACK = ("run", "response", "--samples", "1000", "--line", f"loopback:{CHIP}:0:1", "--context")
LOOPBACKS = tuple((f"loopback {context}", (*LOOPBACK, context)) for context in CONTEXTS)
# What cannot be answered, the exit code, and a word of the reason.
REFUSED = {
    "sleeps, irq": ("irq", "gpio:rtgauge-sleeps:0:1", (), 77, "the chip can sleep"),
    "sleeps, kernel": ("kernel", "gpio:rtgauge-sleeps:0:1", (), 77, "the chip can sleep"),
    "mute, irq": ("irq", "gpio:rtgauge-mute:0:1", (), 77, "does not raise the requested"),
    "mute, kernel": ("kernel", "gpio:rtgauge-mute:0:1", (), 77, "raises no interrupt"),
    "too long": ("irq", f"gpio:{CHIP}:2:1", ("--delay", "20ms"), 2, "at most 10 ms"),
    "no chip": ("kernel", "net:7000", (), 2, "only on lines of a GPIO chip"),
}
REFUSALS = tuple(
    (name, ("run", "response", "--context", context, "--line", line, "--for", "1s", *words))
    for name, (context, line, words, _, _) in REFUSED.items()
)
# What the module could leave behind: itself, an interrupt, a thread.
LEFT = """
grep -c rtgauge /proc/modules; grep -c rtgauge /proc/interrupts
cat /proc/[0-9]*/comm | grep -c '^rtgauge/'
"""
TRIED = (
    ("calls", ("/response", "calls")),
    ("storm", ("/response", "storm")),
    ("killed", ("/response", "killed", "50")),
    ("chips", ("/bin/busybox", "insmod", "/chip.ko")),
    ("refused", ("/response", "refused", "rtgauge-sleeps", "rtgauge-mute")),
    *REFUSALS,
    ("fit generic", ("/response", "fit", "rtgauge-generic", "1")),
    ("removed", ("/bin/busybox", "rmmod", "rtgauge")),
    ("reload", ("/response", "reload", "/modules/rtgauge.ko", "50")),
    ("left", ("/bin/busybox", "sh", "-c", LEFT)),
    ("free", ("run", "log-host", "--line", f"gpio:{CHIP}:0:1", "--short-circuit", "100")),
    ("gone", ("run", "response", "--context", "irq", "--line", f"gpio:{CHIP}:2:1", "--for", "1s")),
)


def _own(board: str) -> tuple[str, tuple[str, ...]]:
    """On PREEMPT_RT the handler leaves chips alone whose functions are unknown."""
    fit = "0" if "-rt-" in board else "1"
    script = (
        f"/bin/busybox insmod /chip.ko && /response fit rtgauge-own {fit} && "
        "/bin/busybox rmmod chip"
    )
    return "fit own", ("/bin/busybox", "sh", "-c", script)


# With two CPUs what is done at the same time really is.
TOGETHER = (
    ("offline", ("/response", "offline", "1")),
    ("killed", ("/response", "killed", "50")),
    ("removed", ("/bin/busybox", "rmmod", "rtgauge")),
    ("reload", ("/response", "reload", "/modules/rtgauge.ko", "50")),
)
LINES = "lines=0:1+2:3"
# The one with less to do has the busy host. What is put on the board has to be the same on both: it
# takes instructions as well.
FIRST = {
    board: Boot(
        f"{board},{LINES}",
        (*ORDERS, *PAIR_ORDERS, *FOUND_ORDERS, *LOOPBACKS, _own(board), *TRIED),
        "quiet",
        programs=PROGRAM,
        modules=CHIPS,
    )
    for board in BOARDS
}
AGAIN = {
    board: Boot(
        f"{board},{LINES}",
        (*ORDERS, *PAIR_ORDERS),
        "busy",
        turn=2,
        programs=PROGRAM,
        modules=CHIPS,
    )
    for board in BOARDS
}
PLAIN = Boot(f"arm64-rt-6.1,{LINES},mode=plain,cpus=2", TOGETHER, "quiet", turn=3, programs=PROGRAM)


def _told(booted: Booted, name: str) -> dict[str, Any]:
    step = booted.steps[name]
    assert step.code == 0, (name, step.said, booted.log[-2000:])
    found: dict[str, Any] = json.loads(step.stream)
    return found


@pytest.mark.study(40, 41, 42)
@on_boards(FIRST, names=ANSWERS)
def test_every_edge_is_answered_once(booted: list[Booted], board: str, name: str) -> None:
    told = _told(booted[0], name)
    counts = [told[key] for key in ("raised", "answered", "events", "records")]
    assert counts == [ANSWERS[name][0]] * 4, board
    names = ("unanswered", "wrong", "double", "lost", "gaps", "repeated", "cut", "waited")
    assert {key: told[key] for key in names} == dict.fromkeys(names, 0)
    # the session ended by itself, with the last event
    assert told["state"] == 3


@on_boards(FIRST)
def test_the_handler_answers_before_the_thread(booted: list[Booted], board: str) -> None:
    irq, kernel = (_told(booted[0], f"{name} at once") for name in CONTEXTS)
    # minimum, mean, maximum in counted ns. The kernel's tick may come with an edge: no maximum of
    # one against a minimum of the other
    assert 0 < irq["answer"][1] < kernel["wake"][0], board
    assert all(0 < one["answer"][0] < one["response"][1] for one in (irq, kernel))
    assert irq["response"][1] < kernel["response"][0]
    assert kernel["wake"][2] < kernel["answer"][2]


@on_boards(FIRST, names=ANSWERS)
def test_what_was_delayed_is_found(booted: list[Booted], board: str, name: str) -> None:
    events, every, _ = ANSWERS[name]
    told = _told(booted[0], name)
    assert told["delayed"] == (events // every if every else 0), board
    assert told["answer"][2] < DELAY_NS
    if every:
        assert told["delayed_answer"][0] >= DELAY_NS
        assert told["response"][2] >= DELAY_NS


@on_boards(FIRST, AGAIN, names=ANSWERS)
def test_two_boots_are_equal_bit_for_bit(booted: list[Booted], board: str, name: str) -> None:
    first, again = (_told(one, name) for one in booted)
    assert first == again, board


@pytest.mark.study(44)
@on_boards(FIRST, names=PAIRS)
def test_both_views_of_every_event(booted: list[Booted], board: str, name: str) -> None:
    context, _ = PAIRS[name]
    pair = streams_of(booted[0], name)
    rows = {side: [one.rows for one in pair[side] if isinstance(one, Table)] for side in pair}
    assert rows["host"] == [((EVENTS, EVENTS, 0, 0, 0, 0, 0),)], board
    assert rows["board"] == [((EVENTS, EVENTS, 0, 0),)]
    response, found = series_of(pair["host"])["response"], series_of(pair["board"])
    assert tuple(found) == (("answer",) if context == "irq" else ("wake-up", "answer"))
    assert {len(values) for values in (response, *found.values())} == {EVENTS}
    held = [EVENTS - 1] if "delayed" in name else []
    for values in (response, found["answer"]):
        assert np.flatnonzero(values >= DELAY_NS).tolist() == held
        # a handler that waits keeps other interrupts waiting, which come before the log host's
        assert (values[held] < DELAY_NS * 1.01).all()
    if context == "irq":
        # the edge is on its way to the handler before the answer's time begins
        assert (response > found["answer"])[: EVENTS - 1].all()
    else:
        # the answer is seen while it is being driven: the wake-up is over by then
        assert (found["wake-up"] > 0).all()
        assert (found["wake-up"] < np.minimum(found["answer"], response)).all()


@pytest.mark.study(116)
@pytest.mark.study(
    121,
    lacks="that a kernel thread under load is as late as a user thread without it: this"
    " requires caches, which counted mode does not model (5.8 against 21.2 µs)",
)
@on_boards(FIRST)
def test_the_further_up_the_later(booted: list[Booted], board: str) -> None:
    irq, kernel, user = (
        series_of(streams_of(booted[0], f"pair-{context}")["host"])["response"]
        for context in ("irq", "kernel", "user")
    )
    assert np.median(irq) < np.median(kernel) < np.median(user), board
    pairs = [streams_of(booted[0], name) for name in FOUND]
    loaded = [series_of(pair["host"])["response"] for pair in pairs]
    assert [len(one) for one in loaded] == [300] * 3
    for pair in pairs:
        assert sum(one.count for one in pair["board"] if isinstance(one, Work)) > 100
    assert np.median(loaded[0]) < np.median(loaded[1]) < np.median(loaded[2]), board


@on_boards(FIRST, AGAIN, names=PAIRS)
def test_the_agents_measure_the_same_twice(booted: list[Booted], board: str, name: str) -> None:
    assert_same_samples(booted, name)


@on_boards(FIRST, names=CONTEXTS)
def test_the_module_raises_on_a_loopback(booted: list[Booted], board: str, name: str) -> None:
    step = booted[0].steps[f"loopback {name}"]
    assert (step.code, step.trailer.state) == (0, "complete"), (board, step.said)
    verdicts = [(one.rule, one.result) for one in step.records if isinstance(one, Verdict)]
    assert verdicts == [("every-event-answered", "pass")]
    assert {(one.count, one.missed, one.lost) for one in step.trailer.series} == {(1_000, 0, 0)}
    found = series_of(step.records)
    assert tuple(found) == (("response", "wake-up") if name == "kernel" else ("response",))


@on_boards(FIRST, names=REFUSED)
def test_what_the_agent_refuses(booted: list[Booted], board: str, name: str) -> None:
    step = booted[0].steps[name]
    _, _, _, code, reason = REFUSED[name]
    assert (step.code, reason in step.said) == (code, True), (board, step.said)


@on_boards(FIRST)
def test_nothing_is_left_of_the_module(booted: list[Booted], board: str) -> None:
    left, free, gone = (booted[0].steps[name] for name in ("left", "free", "gone"))
    assert left.stream.split() == [b"0", b"0", b"0"], (board, left.stream)
    assert (free.code, free.trailer.state) == (0, "complete"), free.said
    assert gone.code == 77
    assert "/dev/rtgauge" in gone.said


@on_boards(FIRST, names=("calls", "storm", "killed", "refused", "fit generic", "fit own", "reload"))
def test_what_is_refused_and_how_it_ends(booted: list[Booted], board: str, name: str) -> None:
    assert_tap(booted[0].steps[name])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.boots(PLAIN))
        for name in ("offline", "killed", "reload")
    ],
)
def test_the_same_on_two_processors(booted: list[Booted], name: str) -> None:
    assert_tap(booted[0].steps[name])


@pytest.mark.parametrize(
    "boot", [pytest.param(one, marks=pytest.mark.boots(one)) for one in (*FIRST.values(), PLAIN)]
)
def test_the_kernel_has_nothing_to_complain_about(booted: list[Booted], boot: Boot) -> None:
    assert "pl061_gpio 9030000.pl061" in booted[0].log, boot.board
    assert_no_complaint(booted[0].log)
