# SPDX-License-Identifier: Apache-2.0
"""The distribution corrected for coordinated omission: what the skipped periods would have shown.

On the path of a sample: counts -> here -> verdict and report, next to the distribution as measured.

The latency of a skipped point is wake - due. The wake-up is that of the sample before the gap, or
the due time of the last skipped point if that is later. docs/reference/statistics.md, "The
corrected distribution", gives the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from .counts import (
    Counts,
    CountsBuilder,
    Int64,
    Integers,
    bucket_high,
    bucket_low,
    bucket_of,
)

__all__ = ["Corrected", "GapOffsets", "corrected", "missed_values", "values_at"]

_BLOCK = 1 << 18
_EXACT_POINTS = 1 << 22
_LONG_GAP = 1 << 12
_LONG_GAP_BITS = 10
_FURTHEST = 1 << 62
_WORD = np.iinfo(np.int32)


@dataclass(frozen=True)
class Corrected:
    """The corrected table with what went into it."""

    counts: Counts
    added: int
    """Skipped points whose latency was added."""
    uncorrectable_gaps: int
    """Gaps whose preceding sample was not kept, so that the wake-up is unknown."""
    uncorrectable: int
    """Skipped points in those gaps."""


def values_at(
    chunks: Iterable[tuple[Integers, Integers]], wanted: Integers
) -> tuple[Int64, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """The values of a series at given indexes, and which of them exist.

    ``chunks`` yields (index, value) arrays, the index rising within a chunk and from one chunk to
    the next; ``wanted`` is rising. Memory is that of one chunk and the result.
    """
    sought = np.asarray(wanted, dtype=np.int64)
    values = np.zeros(len(sought), np.int64)
    known = np.zeros(len(sought), np.bool_)
    for index, value in chunks:
        if not len(index):
            continue
        first, last = np.searchsorted(sought, (index[0], index[-1] + 1))
        if first == last:
            continue
        part = sought[first:last]
        at = np.searchsorted(index, part)
        there = index[at] == part
        values[first:last][there] = value[at[there]]
        known[first:last] |= there
    return values, known


class GapOffsets:
    """The offsets (dither) of the grid points at which gaps begin and of those skipped in them.

    Reads the companion series once and keeps only what ``corrected`` needs, 4 bytes for each
    point, or 8 if an offset is beyond 32 bits. A point that the companion does not have counts as
    undithered, and so do gaps that are added by bucket. ValueError unless the gaps are rising and
    apart.
    """

    def __init__(
        self, chunks: Iterable[tuple[Integers, Integers]], index: Integers, count: Integers
    ) -> None:
        many = np.asarray(count, dtype=np.int64)
        kept = ~_too_long(many)
        begin, lengths = np.asarray(index, dtype=np.int64)[kept], many[kept] + 1
        end = begin + lengths
        if np.any(lengths < 1) or np.any(begin[1:] < end[:-1]):
            raise ValueError("gaps overlap or are out of order")
        self._starts = np.concatenate(([0], np.cumsum(lengths)))
        self._offsets = np.zeros(int(self._starts[-1]), np.int32)
        for at, value in chunks:
            if not len(at):
                continue
            first = int(np.searchsorted(end, at[0], side="right"))
            last = int(np.searchsorted(begin, at[-1], side="right"))
            if first >= last:
                continue
            base = begin[first:last] - (self._starts[first:last] - self._starts[first])
            points = np.repeat(base, lengths[first:last])
            points += np.arange(len(points))
            found, there = values_at([(at, value)], points)
            if np.abs(found).max() > _WORD.max:
                self._offsets = self._offsets.astype(np.int64)
            into = self._offsets[self._starts[first] : self._starts[last]]
            into[there] = found[there]

    def of(self, gap: Int64, step: Int64) -> Int64:
        """Offsets ``step`` grid points after the beginning of each of the kept gaps numbered."""
        return self._offsets[self._starts[gap] + step].astype(np.int64)


def _too_long(count: Int64) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Gaps that are added by bucket instead of point by point: the long ones of too many."""
    if float(count.sum(dtype=np.float64)) <= _EXACT_POINTS:
        return np.zeros(len(count), np.bool_)
    return count > _LONG_GAP


def missed_values(
    latency: Integers,
    count: Integers,
    interval_ns: int,
    offsets: GapOffsets | None = None,
    first: int = 0,
) -> Iterator[Int64]:
    """The latencies wake - due of all skipped points, in arrays of bounded length.

    Gap k has ``count[k]`` points after a sample of ``latency[k]``; it is gap ``first`` + k of those
    that ``offsets`` was made of (some may be left out here by a count of 0).
    """
    late = np.asarray(latency, dtype=np.int64)
    many = np.asarray(count, dtype=np.int64)
    start = 0
    while start < len(many):
        ends = np.cumsum(many[start : start + _BLOCK])
        stop = start + max(int(np.searchsorted(ends, _BLOCK, side="right")), 1)
        lengths = many[start:stop]
        gap = np.repeat(np.arange(start, stop), lengths)
        step = np.arange(1, len(gap) + 1) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        if offsets is None:
            wake = np.maximum(late[gap], many[gap] * interval_ns)
            yield wake - step * interval_ns
        else:
            whole = np.arange(first + start, first + stop)
            wake = np.maximum(
                late[start:stop] + offsets.of(whole, np.zeros_like(whole)),
                lengths * interval_ns + offsets.of(whole, lengths),
            )
            yield wake[gap - start] - step * interval_ns - offsets.of(first + gap, step)
        start = stop


def _long_gap(latency: int, count: int, interval_ns: int) -> Counts:
    """The skipped points of one very long gap, counted by bucket (to 0.1 %, rounded up)."""
    wake = max(latency, count * interval_ns)
    lowest, highest = wake - count * interval_ns, wake - interval_ns
    numbers = np.arange(
        int(bucket_of(lowest, _LONG_GAP_BITS)), int(bucket_of(highest, _LONG_GAP_BITS)) + 1
    )
    low = np.maximum(bucket_low(numbers, _LONG_GAP_BITS), lowest)
    high = np.minimum(bucket_high(numbers, _LONG_GAP_BITS), highest)
    inside = (high - lowest) // interval_ns - (low - 1 - lowest) // interval_ns
    occupied = inside > 0
    total = count * wake - interval_ns * (count * (count + 1) // 2)
    return Counts(high[occupied], inside[occupied], total, lowest, highest, _LONG_GAP_BITS)


def corrected(
    counts: Counts,
    latency: Integers,
    count: Integers,
    interval_ns: int,
    *,
    known: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None,
    offsets: GapOffsets | None = None,
) -> Corrected:
    """The table as measured plus every skipped point at wake - due.

    ``latency`` is the value of the sample before each gap, where ``known`` says that it was kept
    (``values_at`` gives both); ``count`` the points skipped. ``offsets`` must have been made of
    the same gaps, known or not. Exact up to 4 million skipped points. Beyond that, gaps of more
    than 4096 points are added by bucket, 0.1 % wide and rounded up, so that no stop, however
    long, exhausts memory. In addition to the arguments it takes a byte for each gap.
    ValueError for gaps without a grid.
    """
    late = np.asarray(latency, dtype=np.int64)
    many = np.asarray(count, dtype=np.int64)
    if not len(late) == len(many):
        raise ValueError("each gap needs its latency and its count")
    if len(many) and interval_ns <= 0:
        raise ValueError("periods can only be missed on a time grid")
    if np.any(many < 0):
        raise ValueError("a gap cannot have a negative number of points")
    long = _too_long(many)
    builder = CountsBuilder()
    tables: list[Counts] = []
    lost_gaps = lost = numbered = 0
    for start in range(0, len(many), _BLOCK):
        part = slice(start, start + _BLOCK)
        usable = many[part] <= _FURTHEST // max(interval_ns, 1)
        usable &= np.abs(late[part]) <= _FURTHEST
        if known is not None:
            usable &= known[part]
        short = ~long[part]
        present = np.where(usable, many[part], 0)[short]
        for block in missed_values(late[part][short], present, interval_ns, offsets, numbered):
            builder.add(block)
        numbered += len(present)
        tables.extend(
            _long_gap(int(late[gap]), int(many[gap]), interval_ns)
            for gap in start + np.flatnonzero(usable & ~short)
        )
        unknown = many[part][~usable & (many[part] > 0)]
        lost_gaps += len(unknown)
        lost += sum(unknown.tolist())
    added = Counts.merged((builder.build(), *tables))
    return Corrected(
        counts=Counts.merged((counts, added)),
        added=added.count,
        uncorrectable_gaps=lost_gaps,
        uncorrectable=lost,
    )
