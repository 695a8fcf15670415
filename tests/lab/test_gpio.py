# SPDX-License-Identifier: Apache-2.0
"""Interrupts of wired GPIO lines, on emulated boards in counted mode.

The module's source ``gpio`` raises an output of the board's chip, which QEMU wires to an input.
Each rise is to be one event, and the kernel is to have counted as many interrupts; a second boot
is to measure the same bit for bit.
"""

from __future__ import annotations

import numpy as np
import pytest

from lab_boots import LINES_CHIP as CHIP
from lab_boots import NEEDS_ARM, Boot, Booted, on_boards, series_of
from rtgauge.stream import SeriesInfo

pytestmark = NEEDS_ARM
BOARDS = ("arm64-rt-6.1", "arm64-stock-6.1")
EVENTS = {"irq-latency": 10_000, "irq-dispatch": 1_000, "irq-to-thread": 1_000}
SERIES = {
    "irq-latency": ("handler", "acknowledged"),
    "irq-dispatch": ("dispatch",),
    "irq-to-thread": ("wake-to-thread", "handler-to-thread"),
}
# Counted nanoseconds within which the median of each series is: it ran, and measured no nonsense.
MEDIANS = {
    "handler": (300, 1_500),
    "acknowledged": (300, 2_000),
    "dispatch": (200, 1_500),
    "wake-to-thread": (1_500, 10_000),
    "handler-to-thread": (1_500, 10_000),
}
REFUSED = {"not wired": "2:3", "against the wire": "1:0", "no such line": "0:8"}


def _words(name: str, events: int, interval: str, lines: str = "0:1") -> tuple[str, ...]:
    source = ("--source", "gpio", "--gpio", f"{CHIP}:{lines}")
    return ("run", name, *source, "--samples", f"{events}", "--for", "0", "--interval", interval)


_RESPONSE = ("run", "response", "--line", f"loopback:{CHIP}:0:1", "--interval", "1ms", "--for", "0")
_ANSWERED = 500
# In the middle the chip has no character device, as on kernels before Linux 4.8.
_OLD = (
    ("line", (*_RESPONSE, "--samples", f"{_ANSWERED}")),
    ("hide", ("/bin/busybox", "mv", "/dev/gpiochip0", "/hidden")),
    ("old line", (*_RESPONSE, "--samples", f"{_ANSWERED}")),
    ("show", ("/bin/busybox", "mv", "/hidden", "/dev/gpiochip0")),
    ("exported", ("/bin/busybox", "ls", "/sys/class/gpio")),
)
_COUNTED = ("/bin/busybox", "grep", CHIP, "/proc/interrupts")
ORDERS = (
    ("irq-latency", _words("irq-latency", EVENTS["irq-latency"], "200us")),
    ("interrupts", _COUNTED),
    ("irq-dispatch", _words("irq-dispatch", EVENTS["irq-dispatch"], "100us")),
    ("irq-to-thread", _words("irq-to-thread", EVENTS["irq-to-thread"], "100us")),
    *((name, _words("irq-latency", 10, "1ms", lines)) for name, lines in REFUSED.items()),
    *_OLD,
)
BUSY = {board: Boot(f"{board},lines=0:1", ORDERS, "busy") for board in BOARDS}
AGAIN = {board: Boot(f"{board},lines=0:1", ORDERS, "quiet", turn=2) for board in BOARDS}


@pytest.mark.study(13)
@on_boards(BUSY, names=SERIES)
def test_every_rise_of_the_line_is_one_event(booted: list[Booted], board: str, name: str) -> None:
    step = booted[0].steps[name]
    assert (step.code, step.trailer.state) == (0, "complete"), (board, step.said)
    counts = [(one.count, one.missed, one.lost) for one in step.trailer.series]
    assert counts == [(EVENTS[name], 0, 0)] * len(SERIES[name])
    infos = [one for one in step.records if isinstance(one, SeriesInfo)]
    assert {one.labels["source"] for one in infos} == {"gpio"}
    found = series_of(step.records)
    assert tuple(found) == SERIES[name]
    for series, values in found.items():
        low, high = MEDIANS[series]
        assert len(values) == EVENTS[name]
        assert low < np.median(values) < high, series
    earlier, later = found[SERIES[name][0]], found[SERIES[name][-1]]
    assert len(found) == 1 or bool((earlier < later).all())


@pytest.mark.study(14)
@on_boards(BUSY)
def test_lines_through_sysfs_are_answered(booted: list[Booted], board: str) -> None:
    """Each event, as through the character device, and the lines are given back."""
    steps = booted[0].steps
    medians = {}
    for name, kind in (("line", "loopback"), ("old line", "loopback-sysfs")):
        step = steps[name]
        assert (step.code, step.trailer.state) == (0, "complete"), (board, name, step.said)
        infos = [one for one in step.records if isinstance(one, SeriesInfo)]
        assert {one.labels["line"] for one in infos} == {kind}
        counts = [(one.count, one.missed, one.lost) for one in step.trailer.series]
        assert counts == [(_ANSWERED, 0, 0)] * len(infos)
        medians[kind] = {
            one: float(np.median(values)) for one, values in series_of(step.records).items()
        }
    shared = medians["loopback"].keys() & medians["loopback-sysfs"].keys()
    assert shared
    assert all(5_000 < both[one] < 100_000 for both in medians.values() for one in shared)
    left = steps["exported"].stream.decode().split()
    assert [one for one in left if "chip" not in one] == ["export", "unexport"]


@on_boards(BUSY)
def test_the_kernel_counts_as_many_interrupts(booted: list[Booted], board: str) -> None:
    """And one more at most: a chip may keep the edge of SETUP's check for a wire."""
    counted = booted[0].steps["interrupts"].stream.decode().split()
    assert counted[2] == CHIP, board
    assert int(counted[1]) - EVENTS["irq-latency"] in (0, 1)


@on_boards(BUSY, AGAIN, names=[name for name, words in ORDERS if "mv" not in words])
def test_two_boots_are_equal_bit_for_bit(booted: list[Booted], board: str, name: str) -> None:
    busy, again = (one.steps[name] for one in booted)
    assert len(busy.stream) > 0, board
    assert busy.measured() == again.measured()
    assert busy.records or busy.stream == again.stream


@on_boards(BUSY, names=REFUSED)
def test_lines_without_a_wire_are_refused(booted: list[Booted], board: str, name: str) -> None:
    step = booted[0].steps[name]
    assert (step.code, step.trailer.state) == (77, "skipped"), (board, step.said)
    assert "the input is not wired to the output" in step.trailer.reason
    assert step.trailer.remedy == "wire the output to the input, or name other lines"


@on_boards(BUSY)
def test_the_kernel_has_nothing_to_complain_about(booted: list[Booted], board: str) -> None:
    assert "pl061_gpio 9030000.pl061" in booted[0].log, board
    for word in ("BUG:", "WARNING:", "Oops", "Call trace", "Call Trace"):
        assert word not in booted[0].log
