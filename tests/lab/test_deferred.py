# SPDX-License-Identifier: Apache-2.0
"""Contexts that an interrupt handler defers its work to, under load, in counted mode.

The handler of a device's interrupt runs first, a tasklet right behind it, then the threads: the
interrupt's own and a kernel thread, at the same priority, and last a user's thread. On PREEMPT_RT
tasklets run in a thread without real-time priority: there they come last. A second boot is to
measure the same bit for bit.
"""

from __future__ import annotations

import numpy as np
import pytest

from lab_boots import LINES_CHIP as CHIP
from lab_boots import NEEDS_ARM, NEEDS_X86, Boot, Booted, assert_no_complaint

DEFERRED = ("softirq", "threaded", "kernel", "workqueue")
CONTEXTS = ("irq", *DEFERRED, "user")
# Without real-time priority, the load keeps a context from answering many events in time.
SAMPLES = {one: 300 if one in ("softirq", "workqueue") else 150 for one in CONTEXTS}
FEW = 20  # enough for a median
LOAD = ("--load", "sched:groups=1")


def _limits(context: str) -> tuple[str, ...]:
    return ("--samples", f"{SAMPLES[context]}", "--for", "0", "--interval", "1ms")


# The HPET interrupts; what it wakes is timed from the handler's first stamp, and the handler itself
# from the comparator.
INTERRUPTS = (
    ("irq", ("run", "irq-latency", *_limits("irq"), *LOAD)),
    *(
        (one, ("run", "irq-to-thread", "--context", one, *_limits(one), *LOAD))
        for one in CONTEXTS[1:]
    ),
)
WIRE = ("--line", f"loopback:{CHIP}:0:1")
LINE = tuple(
    (one, ("run", "response", "--context", one, *WIRE, *_limits(one), *LOAD)) for one in CONTEXTS
)
NO_INTERRUPT = (
    *("run", "irq-to-thread", "--context", "threaded", "--source", "hrtimer"),
    *_limits("threaded"),
)
BOARDS = {
    "x86_64-stock-6.12": INTERRUPTS,
    "x86_64-rt-6.12": INTERRUPTS,
    "arm64-stock-6.1,lines=0:1": LINE,
    "arm64-rt-6.1,lines=0:1": LINE,
}
FIRST = {
    board: Boot(board, (*orders, ("no interrupt", NO_INTERRUPT)), "quiet")
    for board, orders in BOARDS.items()
}
# one board of each processor, and of each kind of kernel
AGAIN = {
    board: Boot(board, FIRST[board].orders, "busy", turn=2)
    for board in ("x86_64-rt-6.12", "arm64-stock-6.1,lines=0:1")
}


def _each(*boots: dict[str, Boot]) -> list[object]:
    return [
        pytest.param(
            board,
            marks=[
                pytest.mark.boots(*(one[board] for one in boots)),
                NEEDS_ARM if board.startswith("arm64") else NEEDS_X86,
            ],
        )
        for board in BOARDS
        if all(board in one for one in boots)
    ]


def _medians(booted: Booted, rt: bool) -> dict[str, float]:
    """The median of each context, over all samples of its series."""
    found = {}
    for context in CONTEXTS:
        step, samples = booted.steps[context], SAMPLES[context]
        counts = {(one.count, one.missed, one.lost) for one in step.trailer.series}
        if context == "workqueue" or (context == "softirq" and rt):
            assert (step.code in (0, 3), step.trailer.state) == (True, "complete"), context
            ((count, missed, lost),) = counts
            assert FEW <= count <= count + missed <= samples, context
            assert lost == 0, context
        else:
            assert (step.code, step.trailer.state) == (0, "complete"), (context, step.said)
            assert counts == {(samples, 0, 0)}, context
        found[context] = float(np.median(step.samples(context)))
    return found


@pytest.mark.study(109, 119)
@pytest.mark.parametrize("board", _each(FIRST))
def test_contexts_come_in_the_order_of_theory(booted: list[Booted], board: str) -> None:
    median = _medians(booted[0], "-rt-" in board)
    threads = median["threaded"], median["kernel"]
    if "-stock-" in board:
        assert median["irq"] < median["softirq"] < min(threads)
        assert max(threads) < median["workqueue"]
    else:
        assert median["irq"] < min(threads)
        assert max(threads) < min(median["softirq"], median["workqueue"])
    assert max(threads) < median["user"]
    # the interrupt's thread is woken by the kernel when the handler has returned
    assert max(threads) < 1.25 * min(threads)


@pytest.mark.parametrize("board", _each(FIRST))
def test_a_timer_has_no_threaded_handler(booted: list[Booted], board: str) -> None:
    step = booted[0].steps["no interrupt"]
    assert (step.code, step.trailer.state) == (77, "skipped"), board
    assert "has no interrupt of its own" in step.trailer.reason


@pytest.mark.parametrize("board", _each(FIRST, AGAIN))
def test_two_boots_are_equal_bit_for_bit(booted: list[Booted], board: str) -> None:
    for name in CONTEXTS:
        first, again = (one.steps[name] for one in booted)
        assert first.measured() == again.measured(), (board, name)


@pytest.mark.parametrize("board", _each(FIRST))
def test_the_kernel_has_nothing_to_complain_about(booted: list[Booted], board: str) -> None:
    assert "rtgauge" in booted[0].log, board
    assert_no_complaint(booted[0].log)
