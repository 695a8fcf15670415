# SPDX-License-Identifier: Apache-2.0
"""The samples that a report shows one by one: those around the maximum, and the first ones."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rtgauge.store import Chunk

__all__ = ["LOOP", "REACH", "Part", "Peak", "Window", "part_of"]

Int64 = NDArray[np.int64]

REACH: Final = 200
"""Number of samples shown on each side of the maximum."""

FIRST: Final = 100
"""Number of samples shown at the beginning."""

LOOP: Final = 600
"""Number of samples kept on each side of the maximum within its test loop."""


@dataclass(frozen=True)
class Window:
    """Consecutive samples: index, due time (with its dither) and value. ``at`` is the position of
    the sample that they are shown for. ``loop``: they belong to one test loop of a series without a
    grid, and ``due_ns`` is the approximate time at which each was taken."""

    index: Int64
    due_ns: Int64
    value: Int64
    at: int
    loop: bool = False


Part = tuple[Int64, Int64, Int64]
"""Index, due time (ns) and value of consecutive samples."""


def part_of(chunk: Chunk, start: int, stop: int) -> Part:
    """The samples of a chunk from ``start`` to before ``stop``."""
    part = slice(max(start, 0), stop)
    return (
        chunk.index[part].astype(np.int64),
        chunk.due_ns[part].astype(np.int64),
        chunk.value[part].astype(np.int64),
    )


class Peak:
    """Finds the maximum and keeps the samples around it, for chunks in any order.

    The ends of each chunk are kept until no neighbour can contain the maximum any more. All chunks
    but the last must have at least ``reach`` samples (those of the store have a million).
    """

    def __init__(self, reach: int = REACH) -> None:
        self._reach = reach
        self._lock = threading.Lock()
        self._expected: set[int] = set()
        self._ends: dict[int, tuple[Part, Part]] = {}
        self._first: Part | None = None
        self._best: tuple[int, int] | None = None
        """The largest value and the negated number of its chunk: the earliest of equal values
        counts."""
        self._middle: tuple[Part, int, int] | None = None
        """The samples of that chunk around it, its position among them, and how many follow in the
        chunk."""

    def expect(self, number: int) -> None:
        """Announce a chunk that will be added."""
        with self._lock:
            self._expected.add(number)

    def add(self, number: int, chunk: Chunk) -> None:
        """Look through a chunk."""
        size = len(chunk.value)
        at = int(chunk.value.argmax())
        rank = (int(chunk.value[at]), -number)
        with self._lock:
            self._expected.discard(number)
            if number == 0:
                self._first = part_of(chunk, 0, FIRST)
            if self._best is None or rank > self._best:
                self._best = rank
                part = part_of(chunk, at - self._reach, at + self._reach + 1)
                self._middle = (part, min(at, self._reach), size - 1 - at)
            self._ends[number] = (
                part_of(chunk, 0, self._reach),
                part_of(chunk, size - self._reach, size),
            )
            best, low = -self._best[1], min(self._expected, default=number + 1)
            for known in [k for k in self._ends if k < low - 1 and abs(k - best) > 1]:
                del self._ends[known]

    def when(self) -> tuple[int, int] | None:
        """Index and due time of the largest sample; None without one."""
        if self._middle is None:
            return None
        (index, due_ns, _), at, _ = self._middle
        return int(index[at]), int(due_ns[at])

    def around(self, scale: int) -> Window | None:
        """The samples around the largest one, up to ``reach`` on each side; None without samples.
        ``scale``: multiplies the values."""
        if self._middle is None or self._best is None:
            return None
        middle, at, following = self._middle
        best = -self._best[1]
        parts = [middle]
        if at < self._reach and best - 1 in self._ends:
            tail = self._ends[best - 1][1]
            lacking = min(self._reach - at, len(tail[0]))
            parts.insert(0, _last(tail, lacking))
            at += lacking
        if following < self._reach and best + 1 in self._ends:
            parts.append(_leading(self._ends[best + 1][0], self._reach - following))
        return _window(parts, at, scale)

    def begin(self, scale: int) -> Window | None:
        """The first samples of the series."""
        return None if self._first is None else _window([self._first], 0, scale)


def _last(part: Part, number: int) -> Part:
    start = len(part[0]) - number
    return part[0][start:], part[1][start:], part[2][start:]


def _leading(part: Part, number: int) -> Part:
    return part[0][:number], part[1][:number], part[2][:number]


def _window(parts: Sequence[Part], at: int, scale: int) -> Window:
    index, due_ns, value = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Window(index, due_ns, value * scale, at)
