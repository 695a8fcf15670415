# SPDX-License-Identifier: Apache-2.0
"""Edges of recorded lines; pure functions.

A position counts samples from the beginning of the recording. A digital line's edge is at the
first sample with the new level, so it happened up to one sample earlier. An analogue line's edge is
where the straight line between two samples crosses the threshold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Edges", "Schmitt", "logic_edges", "state_levels"]

Positions = NDArray[np.float64]
Levels = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges of a line: positions, rising, and the level after each."""

    at: Positions
    level: Levels

    def __len__(self) -> int:
        return len(self.at)

    def only(self, level: bool) -> Edges:
        """The rising (True) or the falling ones."""
        kept = self.level == level
        return Edges(self.at[kept], self.level[kept])


def logic_edges(chunks: Iterable[NDArray[np.uint8]], most: int) -> tuple[Edges, Edges, int]:
    """The edges of two lines, bits 0 and 1 of each sample, and how many samples there were.

    OverflowError when there are more than ``most`` edges.
    """
    found: list[tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint8]]] = []
    last: int | None = None
    length = many = 0
    for chunk in chunks:
        if not len(chunk):
            continue
        changed = np.flatnonzero(chunk[1:] != chunk[:-1]) + 1
        if last is not None and last != int(chunk[0]):
            changed = np.concatenate(([0], changed))
        before = chunk[changed - 1]  # of a chunk's first sample put right below
        if len(changed) and changed[0] == 0:
            assert last is not None
            before[0] = last
        if len(changed):
            found.append((changed + length, before, chunk[changed]))
            many += len(changed)
            if many > most:
                raise OverflowError
        last = int(chunk[-1])
        length += len(chunk)
    if not found:
        none = Edges(np.zeros(0), np.zeros(0, np.bool_))
        return none, none, length
    at, before, after = (np.concatenate(column) for column in zip(*found, strict=True))

    def line(bit: int) -> Edges:
        moved = ((before ^ after) & bit) != 0
        return Edges(at[moved].astype(np.float64), (after[moved] & bit) != 0)

    return line(1), line(2), length


class Schmitt:
    """Edges of an analogue line, chunk by chunk, with hysteresis: the level is high once a sample
    reaches ``high``, low once one falls to ``low``, and stays as it was between. The edge is where
    the line crossed ``threshold`` last before that. A sample that is not a number counts
    as the one before it."""

    def __init__(self, threshold: float, hysteresis: float) -> None:
        self._threshold = threshold
        self._high = threshold + hysteresis / 2
        self._low = threshold - hysteresis / 2
        self._length = 0
        self._state = 0
        self._last = np.nan
        self._crossed = {True: np.nan, False: np.nan}
        self._found: list[tuple[Positions, Levels]] = []
        self.count = 0

    def feed(self, samples: NDArray[np.floating]) -> None:
        if not len(samples):
            return
        joined = np.concatenate(([self._last], samples.astype(np.float64)))
        bad = ~np.isfinite(joined)
        if bad.any():
            kept = np.where(bad, 0, np.arange(len(joined)))
            joined = joined[np.maximum.accumulate(kept)]
        offset = self._length - 1
        mark = np.where(joined >= self._high, 1, np.where(joined <= self._low, -1, 0))
        mark[0] = self._state
        place = np.flatnonzero(mark)
        if not len(place):
            place = np.zeros(1, np.int64)
        filled = mark[place]
        turned = np.flatnonzero((filled[1:] != filled[:-1]) & (filled[:-1] != 0)) + 1
        below = joined[:-1] < self._threshold
        up = np.flatnonzero(below & (joined[1:] >= self._threshold)) + 1
        down = np.flatnonzero(~below & (joined[1:] < self._threshold)) + 1
        at = place[turned]
        level = filled[turned] > 0
        where = np.empty(len(at))
        for direction, crossings in ((True, up), (False, down)):
            chosen = level == direction
            k = np.searchsorted(crossings, at[chosen], side="right") - 1
            there = k >= 0
            x = np.full(len(k), self._crossed[direction])
            c = crossings[k[there]]
            x[there] = c + offset - 1 + self._part(joined, c)
            where[chosen] = x
            if len(crossings):
                c = crossings[-1:]
                self._crossed[direction] = float((c + offset - 1 + self._part(joined, c))[0])
        if len(at):
            self._found.append((where, level))
            self.count += len(at)
        self._state = int(filled[-1]) if filled[-1] else self._state
        self._last = float(joined[-1])
        self._length += len(samples)

    def _part(self, joined: Positions, at: NDArray[np.int64]) -> Positions:
        """How far between the sample before and that at ``at`` the threshold lies."""
        before, after = joined[at - 1], joined[at]
        part: Positions = (self._threshold - before) / (after - before)
        return part

    def edges(self) -> Edges:
        if not self._found:
            return Edges(np.zeros(0), np.zeros(0, np.bool_))
        at, level = (np.concatenate(column) for column in zip(*self._found, strict=True))
        return Edges(at, level)


def state_levels(
    chunks: Iterator[NDArray[np.floating]], low: float, high: float
) -> tuple[float, float]:
    """The low and the high state of a line whose samples lie from ``low`` to ``high``: the most
    frequent value of the lower and of the upper half, from a histogram of 256 bins (IEEE 181)."""
    if not high > low:
        return low, high
    counts = np.zeros(256, np.int64)
    for chunk in chunks:
        counts += np.histogram(chunk, 256, (low, high))[0]
    width = (high - low) / 256
    below, above = int(counts[:128].argmax()), 128 + int(counts[128:].argmax())
    return low + (below + 0.5) * width, low + (above + 0.5) * width
