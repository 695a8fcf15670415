# SPDX-License-Identifier: Apache-2.0
"""How often each value occurred: the exact table that every figure of a series is read from.

Step 9 of the path of a sample: sealed samples -> here -> percentiles, bound, verdict, pictures.

A table of 2e8 latencies has some ten thousand rows, so that everything after this module costs
next to nothing and is exact. Values come as 32-bit or 64-bit integers in chunks; memory does not
grow with their number, only with the number of different values. Series of which only the agent's
histogram exists become a table too, with the resolution of its buckets (docs/formats/stream.md,
type 5).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "SUB_BITS",
    "Counts",
    "CountsBuilder",
    "Percent",
    "bucket_high",
    "bucket_low",
    "bucket_of",
    "fraction_of",
    "rank_of",
]

Integers = NDArray[np.signedinteger[Any]]
Int64 = NDArray[np.int64]
Percent = str | int | float | Decimal | Fraction

SUB_BITS = 7
"""Resolution of the agent's histograms: a bucket is at most 1/128 of its values wide."""

_INT64_MAX = (1 << 63) - 1


def _shift_of(magnitude: Int64, sub_bits: int) -> Int64:
    """How far values >= 0 are shifted right so that sub_bits + 1 bits remain.

    Where the conversion to float64 rounds up to a power of two the shift is one too large; the
    bucket is the same, because buckets have no gaps there.
    """
    exponent = np.frexp(magnitude.astype(np.float64))[1].astype(np.int64) - 1
    shift: Int64 = np.maximum(np.minimum(exponent, 62) - sub_bits, 0)
    return shift


def bucket_of(values: Integers | int, sub_bits: int = SUB_BITS) -> Int64:
    """The log-linear bucket of each value, as docs/formats/stream.md defines it; any shape, any
    int64."""
    whole = np.asarray(values, dtype=np.int64)
    magnitude = np.where(whole < 0, ~whole, whole)
    shift = _shift_of(magnitude, sub_bits)
    bucket = (shift << sub_bits) + (magnitude >> shift)
    return np.where(whole < 0, ~bucket, bucket)


def _bucket_ends(buckets: Integers | int, sub_bits: int) -> tuple[Int64, Int64]:
    number = np.asarray(buckets, dtype=np.int64)
    positive = np.where(number < 0, ~number, number)
    shift = np.maximum((positive >> sub_bits) - 1, 0)
    if np.any(shift > 62 - sub_bits):
        raise ValueError("a bucket number lies beyond 64 bits")
    low = (positive - (shift << sub_bits)) << shift
    high = low + ((np.int64(1) << shift) - 1)
    return np.where(number < 0, ~high, low), np.where(number < 0, ~low, high)


def bucket_low(buckets: Integers | int, sub_bits: int = SUB_BITS) -> Int64:
    """The smallest value of each bucket. ValueError for a bucket that no int64 falls into."""
    return _bucket_ends(buckets, sub_bits)[0]


def bucket_high(buckets: Integers | int, sub_bits: int = SUB_BITS) -> Int64:
    """The largest value of each bucket. ValueError for a bucket that no int64 falls into."""
    return _bucket_ends(buckets, sub_bits)[1]


def fraction_of(percent: Percent) -> Fraction:
    """A percentage as an exact fraction of 1: what is written counts, "99.9" and 99.9 alike.

    ValueError if it is not a number from 0 to 100.
    """
    try:
        exact = Fraction(repr(percent) if isinstance(percent, float) else percent) / 100
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise ValueError(f"not a percentage: {percent}") from error
    if not 0 <= exact <= 1:
        raise ValueError(f"not a percentage from 0 to 100: {percent}")
    return exact


def rank_of(percent: Percent, count: int) -> int:
    """The nearest rank of a percentile of that many samples, from 1."""
    return max(1, math.ceil(fraction_of(percent) * count))


def _exact_dot(values: Int64, counts: Int64) -> int:
    """The sum of values * counts as a whole number of any size."""
    if not len(values):
        return 0
    largest = max(abs(int(values[0])), abs(int(values[-1])), 1)
    if largest * int(counts.sum()) <= _INT64_MAX:
        return int(np.dot(values, counts))
    return _long_dot(values, counts)


def _long_dot(values: Int64, counts: Int64) -> int:
    return sum(v * c for v, c in zip(values.tolist(), counts.tolist(), strict=True))


def _combine(parts: Sequence[tuple[Int64, Int64]]) -> tuple[Int64, Int64]:
    """One sorted table from several."""
    if len(parts) == 1:
        return parts[0]
    values = np.concatenate([part[0] for part in parts])
    counts = np.concatenate([part[1] for part in parts])
    order = np.argsort(values, kind="stable")
    values, counts = values[order], counts[order]
    if not len(values):
        return values, counts
    starts = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
    return values[starts], np.add.reduceat(counts, starts)


@dataclass(frozen=True, eq=False)
class Counts:
    """The distinct values of a series, rising, and how often each occurred.

    ``sub_bits`` is None if the table is exact. Otherwise it was made from a log-linear histogram:
    every value stands for its bucket by the bucket's upper end (the last by the maximum), so that
    percentiles and exceedances err to the high side by at most 1/2**sub_bits. ``min``, ``max``,
    ``sum`` and ``count`` are exact in either case. ``min`` and ``max`` are None without samples.
    """

    values: Int64
    counts: Int64
    sum: int
    min: int | None
    max: int | None
    sub_bits: int | None = None

    @staticmethod
    def of_table(values: Int64, counts: Int64) -> Counts:
        """An exact table from rising values and their counts, each at least 1."""
        return Counts(
            values,
            counts,
            _exact_dot(values, counts),
            int(values[0]) if len(values) else None,
            int(values[-1]) if len(values) else None,
        )

    @staticmethod
    def from_arrays(arrays: Iterable[Integers]) -> Counts:
        """The exact table of all values of all arrays (int8 to int64)."""
        builder = CountsBuilder()
        for array in arrays:
            builder.add(array)
        return builder.build()

    @staticmethod
    def from_log_linear(
        buckets: Iterable[tuple[int, int]] | Int64,
        *,
        count: int,
        min: int,
        max: int,
        sum: int,
        sub_bits: int = SUB_BITS,
    ) -> Counts:
        """A table from a histogram of the stream: pairs (bucket number, count) by rising number.

        ValueError if the buckets contradict each other or count, min and max.
        """
        pairs = np.asarray(
            buckets if isinstance(buckets, np.ndarray) else list(buckets), dtype=np.int64
        ).reshape(-1, 2)
        numbers, counts = pairs[:, 0].copy(), pairs[:, 1].copy()
        if len(pairs) == 0:
            if count:
                raise ValueError("a histogram without buckets cannot have samples")
            return Counts.of_table(numbers, counts)
        if np.any(counts < 1) or np.any(numbers[1:] <= numbers[:-1]):
            raise ValueError("buckets are not occupied and rising")
        if _long_dot(np.ones_like(counts), counts) != count:
            raise ValueError("the buckets' counts do not add up to the count")
        low, high = _bucket_ends(numbers, sub_bits)
        if not (low[0] <= min <= high[0] and low[-1] <= max <= high[-1] and min <= max):
            raise ValueError("minimum or maximum lies outside its bucket")
        return Counts(np.minimum(high, max), counts, int(sum), int(min), int(max), sub_bits)

    @staticmethod
    def merged(tables: Iterable[Counts]) -> Counts:
        """The table of the samples of all tables; as coarse as the coarsest of them."""
        present = [table for table in tables if table.count]
        if not present:
            return _EMPTY
        if len(present) == 1:
            return present[0]
        values, counts = _combine([(table.values, table.counts) for table in present])
        resolutions = [table.sub_bits for table in present if table.sub_bits is not None]
        return Counts(
            values,
            counts,
            sum(table.sum for table in present),
            min(table.min for table in present if table.min is not None),
            max(table.max for table in present if table.max is not None),
            min(resolutions) if resolutions else None,
        )

    def merge(self, *others: Counts) -> Counts:
        """The table of the samples of this one and the others."""
        return Counts.merged((self, *others))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counts):
            return NotImplemented
        return (
            np.array_equal(self.values, other.values)
            and np.array_equal(self.counts, other.counts)
            and (self.sum, self.min, self.max, self.sub_bits)
            == (other.sum, other.min, other.max, other.sub_bits)
        )

    __hash__ = None  # type: ignore[assignment]

    @functools.cached_property
    def cumulative(self) -> Int64:
        """For each value, the number of samples up to and including it."""
        return np.cumsum(self.counts)

    @property
    def count(self) -> int:
        """Number of samples."""
        return int(self.cumulative[-1]) if len(self.counts) else 0

    @property
    def exact(self) -> bool:
        """Whether every value is known to the last digit."""
        return self.sub_bits is None

    @property
    def resolution(self) -> Fraction:
        """How far a value can lie above the true one, as a part of it; 0 if exact."""
        return Fraction(0) if self.sub_bits is None else Fraction(1, 1 << self.sub_bits)

    @property
    def mean(self) -> float | None:
        """Exact sum over count, rounded once; None without samples."""
        return float(Fraction(self.sum, self.count)) if self.count else None

    def rank(self, value: int) -> int:
        """Number of samples at or below the value."""
        position = int(np.searchsorted(self.values, value, side="right"))
        return int(self.cumulative[position - 1]) if position else 0

    def exceeding(self, value: int) -> int:
        """Number of samples above the value; from a histogram never too few."""
        return self.count - self.rank(value)

    def unsure(self, value: int) -> int:
        """Number of those samples above the value that may be at or below it: in a histogram, those
        of its bucket. A maximum above it is sure."""
        if self.sub_bits is None or self.max is None or self.max <= value:
            return 0
        low = self.values - (np.abs(self.values) >> self.sub_bits)
        near = (low <= value) & (value < self.values)
        return int(self.counts[near].sum()) - int(near[-1])

    def value_at_rank(self, rank: int, *, low: bool = False) -> int:
        """The rank-th smallest sample, from 1.

        From a histogram it is the upper end of that sample's bucket, or with ``low`` a value that
        is not above its lower end. ValueError if there is no such sample.
        """
        if not 1 <= rank <= self.count or self.min is None:
            raise ValueError(f"no sample of rank {rank} among {self.count}")
        value = int(self.values[np.searchsorted(self.cumulative, rank)])
        if low and self.sub_bits is not None:
            value = max(value - (abs(value) >> self.sub_bits), self.min)
        return value

    def percentile(self, percent: Percent) -> int:
        """The nearest-rank percentile: the smallest value that at least p*n samples do not exceed.

        Definition 1 of Hyndman & Fan (1996), in whole numbers throughout. ValueError without
        samples, or for a percentage outside 0 to 100.
        """
        return self.value_at_rank(rank_of(percent, self.count))


_EMPTY = Counts.of_table(np.empty(0, np.int64), np.empty(0, np.int64))


class CountsBuilder:
    """Makes a ``Counts`` from arrays that come one after the other.

    Values inside a window (1 ms early to 4 ms late, for latencies practically all) are counted by
    their number in a flat table of 40 MiB, the others are sorted in batches. Several builders may
    work in parallel, each on its own part, and be merged.
    """

    LOW = -(1 << 20)
    HIGH = 1 << 22
    _PIECE = 1 << 16  # samples that fit the second-level cache together with what they touch
    _BATCH = 1 << 20

    def __init__(self) -> None:
        self._table: Int64 | None = None
        self._used_low = self.HIGH
        self._used_high = self.LOW
        self._waiting: list[Int64] = []
        self._waiting_count = 0
        self._sorted: list[tuple[Int64, Int64]] = []

    def add(self, values: Integers) -> None:
        """Counts all values of an array of signed integers; TypeError for any other array."""
        if values.dtype.kind != "i":
            raise TypeError(f"samples are signed integers, not {values.dtype}")
        flat = values.ravel()
        if self._table is None:
            if self._waiting_count + len(flat) <= self._PIECE:
                self._wait(flat)
                return
            self._table = np.zeros(self.HIGH - self.LOW, np.int64)
            few, self._waiting, self._waiting_count = self._waiting, [], 0
            for array in few:
                self.add(array)
        for start in range(0, len(flat), self._PIECE):
            self._add_piece(flat[start : start + self._PIECE])

    def _add_piece(self, piece: Integers) -> None:
        assert self._table is not None
        low, high = int(piece.min()), int(piece.max())
        if low < self.LOW or high >= self.HIGH:
            inside = (piece >= self.LOW) & (piece < self.HIGH)
            self._wait(piece[~inside])
            piece = piece[inside]
            if not len(piece):
                return
            low, high = max(low, self.LOW), min(high, self.HIGH - 1)
        self._used_low = min(self._used_low, low)
        self._used_high = max(self._used_high, high)
        # Negative values index from the table's end: it holds 0 ... HIGH-1, then LOW ... -1.
        np.add.at(self._table, piece, 1)

    def _wait(self, values: Integers) -> None:
        self._waiting.append(values.astype(np.int64))
        self._waiting_count += len(values)
        if self._waiting_count > self._BATCH:
            self._sort()

    def _sort(self) -> None:
        if self._waiting:
            values, counts = np.unique(np.concatenate(self._waiting), return_counts=True)
            self._sorted.append((values, counts.astype(np.int64)))
            self._waiting, self._waiting_count = [], 0
        # Tables double in size from one to the next, so that each row is moved a few times only.
        while len(self._sorted) > 1 and len(self._sorted[-1][0]) * 2 > len(self._sorted[-2][0]):
            self._sorted[-2:] = [_combine(self._sorted[-2:])]

    def _window(self) -> tuple[Int64, Int64]:
        assert self._table is not None
        low, high = self._used_low, self._used_high + 1
        parts = []
        if low < 0:
            table = self._table[low : high if high < 0 else None]
            at = np.flatnonzero(table)
            parts.append((at + low, table[at]))
        if high > 0:
            start = max(low, 0)
            table = self._table[start:high]
            at = np.flatnonzero(table)
            parts.append((at + start, table[at]))
        return (
            np.concatenate([values for values, _ in parts]).astype(np.int64, copy=False),
            np.concatenate([counts for _, counts in parts]),
        )

    def merge(self, other: CountsBuilder) -> None:
        """Adds what another builder has counted."""
        table = other.build()
        self._sorted.append((table.values, table.counts))
        self._sort()

    def build(self) -> Counts:
        """The table of everything added so far; more may be added afterwards."""
        self._sort()
        parts = list(self._sorted)
        if self._table is not None and self._used_low <= self._used_high:
            parts.append(self._window())
        return Counts.of_table(*_combine(parts)) if parts else _EMPTY
