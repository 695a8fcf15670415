# SPDX-License-Identifier: Apache-2.0
"""When a sample was taken that does not begin at its due time.

Such a sample is the difference of two readings of the clock, and the recorder has every reading. So
the sample is the pair of readings that are as far apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rtgauge.causes.cut import Step, in_interrupt

__all__ = ["operation", "pair", "tolerance_ns"]

Int64s = NDArray[np.int64]

# Readings between those of one sample, by other tasks.
BETWEEN: Final = 8
# Neighbours of an operation that are compared, before it and after it.
NEIGHBOURS: Final = 3
# A pair that begins this much later than the first one does not belong to the sample.
SOON_NS: Final = 100_000
# The guest's clock has a resolution of 16 ns on arm64, and of 1 ns on x86-64.
_COARSE: Final = 17
_FINE: Final = 2


def tolerance_ns(machine: str) -> int:
    """By how much the difference of two readings of a processor's clock may be off."""
    return _FINE if machine in ("x86_64", "i686") else _COARSE


def operation(
    readings: Int64s, values: Sequence[int], place: int, tolerance: int
) -> tuple[int, bool] | None:
    """When an operation of a test loop began, and whether only one fits. None: none fits.

    ``readings``: when user space read the clock, in the time of the recorder. ``values``: what the
    operations of the loop took, with the cost of the time stamp. ``place``: the one that is wanted.
    """
    begins = [_pairs(readings, values[place], tolerance)]
    if not len(begins[0]):
        return None
    found = begins[0]
    score = np.zeros(len(found), np.int64)
    for away in range(1, NEIGHBOURS + 1):
        for near in (place - away, place + away):
            if not 0 <= near < len(values):
                continue
            others = _pairs(readings, values[near], tolerance)
            after = np.searchsorted(others, found, "right" if near > place else "left")
            # at most as many readings away as that many operations have
            reach = BETWEEN * away
            if near > place:
                known = after < len(others)
                score[known] += others[after[known]] - found[known] <= reach
            else:
                known = after > 0
                score[known] += found[known] - others[after[known] - 1] <= reach
    best = np.flatnonzero(score == score.max())
    return int(readings[found[best[0]]]), len(best) == 1


def _pairs(readings: Int64s, length: int, tolerance: int) -> Int64s:
    """The places of readings after which another one follows as much later, ascending."""
    found = [np.empty(0, np.int64)]
    for apart in range(1, min(BETWEEN, len(readings) - 1) + 1):
        off = np.abs(readings[apart:] - readings[:-apart] - length)
        found.append(np.flatnonzero(off <= tolerance))
    return np.unique(np.concatenate(found))


def pair(
    readings: Int64s,
    ends: Int64s,
    at: Callable[[int], Step | None],
    due: int,
    length: int,
    limits: tuple[int, int],
    *,
    handler: bool,
) -> tuple[int, int] | None:
    """Begin and end of a sample that began with an event after ``due``, in the recorder's time.
    None: no readings are as far apart.

    ``readings``: those of user space, and of the kernel's clock. ``ends``: those of them that may
    be the last one. ``at``: what ran at a time. ``limits``: by how much the difference of two
    readings may be off, and a due time. ``handler``: only the handler may have read the clock, if
    the device knows when it was due.
    """
    tolerance, near = limits
    found: list[tuple[bool, int, int, int]] = []
    for begin in readings[readings >= due - near].tolist():
        first = np.searchsorted(ends, begin + max(length - tolerance, 1))
        last = np.searchsorted(ends, begin + length + tolerance, "right")
        step = at(begin)
        task = step is None or not in_interrupt(step)
        found += [
            (task, abs(end - begin - length), begin, end) for end in ends[first:last].tolist()
        ]
    if found:
        # an event comes soon after it is due: later readings are as far apart by chance
        first = min(begin for *_, begin, _ in found)
        return min(one for one in found if one[2] - first <= SOON_NS)[2:]
    off = np.abs(ends - due - length)
    if not handler or not len(off) or off.min() > near:
        return None
    end = int(ends[off.argmin()])
    return end - length, end
