# SPDX-License-Identifier: Apache-2.0
"""Latency over time in one pass over the samples, together with the table of all values.

Step 9 of the path of a sample: sealed samples -> here -> pictures of the report.

The duration of a step is cut into equal bins (``BINS`` at most). Each bin
keeps its count, exact minimum, maximum and mean, and a log-linear histogram from which quantiles
and the heat map are read (to 0.8 %, rounded up). Maxima are never averaged away. The same pass
fills a ``CountsBuilder``. ``ExcursionsBuilder`` keeps the largest samples with their indices.
Its cost is about 5 ns for each sample; builders of several parts can be merged.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .counts import (
    SUB_BITS,
    Counts,
    CountsBuilder,
    Int64,
    Integers,
    bucket_high,
    bucket_low,
    bucket_of,
)
from .independence import FEWEST, Clustering, clustering

__all__ = ["BINS", "ExcursionsBuilder", "HeatMap", "Timeline", "TimelineBuilder", "bins_for"]

BINS = 1200
EXCURSIONS = 4096
_PIECE = 1 << 16
_FEW = 1 << 15
_FIRST_BUCKET = int(bucket_of(-(1 << 63)))
_COLUMNS = int(bucket_of((1 << 63) - 1)) - _FIRST_BUCKET + 1
_MARGIN = 2 << SUB_BITS


def bins_for(count: int, most: int = BINS) -> int:
    """The number of bins for ``count`` samples: on average four in each, at most ``most``."""
    return max(1, min(most, count // 4))


@functools.cache
def _column_table() -> NDArray[np.int16]:
    """Column of each value of the counts' window, by index: 0 ... HIGH-1, then LOW ... -1."""
    low, high = CountsBuilder.LOW, CountsBuilder.HIGH

    def columns(first: int, stop: int) -> NDArray[np.int16]:
        numbers = np.arange(int(bucket_of(first)), int(bucket_of(stop)))  # both begin a bucket
        widths = np.diff(bucket_high(numbers), prepend=first - 1)
        return np.repeat((numbers - _FIRST_BUCKET).astype(np.int16), widths)

    return np.concatenate((columns(0, high), columns(low, 0)))


@dataclass(frozen=True, eq=False)
class HeatMap:
    """Counts over time x latency: ``counts[i, j]`` samples of time bin i in latency row j."""

    edges_ns: Int64
    """Time edges, one more than there are bins."""
    low: Int64
    """Smallest value of each row, rising. All rows are log-linear, without a gap between them."""
    high: Int64
    """Largest value of each row."""
    counts: Int64


@dataclass(frozen=True, eq=False)
class Timeline:
    """What happened when; times in ns from the step's start, values in the unit of the samples.

    Bin k holds the samples due in ``edges_ns[k] <= due < edges_ns[k+1]``. Where ``count`` is 0 the
    other figures of a bin are 0 and mean nothing.
    """

    edges_ns: Int64
    count: Int64
    min: Int64
    max: Int64
    mean: NDArray[np.float64]
    _histogram: NDArray[np.int64]
    _first_bucket: int

    def quantile(self, part: float) -> Int64:
        """The value that a part of the samples does not exceed, for each bin.

        To 0.8 %, rounded up, and never beyond the bin's own minimum and maximum.
        """
        result = np.zeros(len(self.count), np.int64)
        filled = np.flatnonzero(self.count)
        wanted = np.ceil(part * self.count[filled])
        columns = [
            int(np.searchsorted(np.cumsum(self._histogram[row]), rank))
            for row, rank in zip(filled, wanted.astype(np.int64), strict=True)
        ]
        value = bucket_high(self._first_bucket + np.array(columns, np.int64))
        result[filled] = np.minimum(np.maximum(value, self.min[filled]), self.max[filled])
        return result

    def medians(self, parts: int) -> Int64:
        """The medians of ``parts`` parts of the time. The numbers of bins with samples in two parts
        differ by one at most. To 0.8 %, rounded up. Empty if there are fewer such bins."""
        filled = np.flatnonzero(self.count)
        if len(filled) < parts:
            return filled[:0]
        starts = -(-np.arange(parts) * len(filled) // parts)
        sums = np.cumsum(np.add.reduceat(self._histogram[filled], starts), axis=1)
        columns = (2 * sums >= sums[:, -1:]).argmax(axis=1)
        high = np.maximum.reduceat(self.max[filled], starts)
        found: Int64 = np.minimum(bucket_high(self._first_bucket + columns), high)
        return found

    def above(self, value: int) -> tuple[Int64, Int64]:
        """The number of samples above a value and the number not below it, for each bin. Exact to
        the bucket that holds the value."""
        column = int(bucket_of(value)) - self._first_bucket
        upper = self._histogram[:, max(column + 1, 0) :].sum(axis=1)
        return upper, self._histogram[:, max(column, 0) :].sum(axis=1)

    def heat(self, columns: int, rows: int) -> HeatMap:
        """The counts over time and latency on at most ``columns`` x ``rows`` cells."""
        step = -(-len(self.count) // columns)
        starts = np.arange(0, len(self.count), step)
        edges = np.append(self.edges_ns[starts], self.edges_ns[-1])
        used = np.flatnonzero(self._histogram.any(axis=0))
        if not len(used):
            empty = np.empty(0, np.int64)
            return HeatMap(edges, empty, empty, np.zeros((len(starts), 0), np.int64))
        fine = np.arange(used[0], used[-1] + 1)
        tops = bucket_high(fine + self._first_bucket)
        for bits in range(SUB_BITS, -1, -1):
            coarse = bucket_of(tops, bits)
            if coarse[-1] - coarse[0] < rows:
                break
        begins = np.flatnonzero(np.diff(coarse, prepend=coarse[0] - 1))
        summed = np.add.reduceat(self._histogram[:, used[0] : used[-1] + 1], begins, axis=1)
        ends = np.append(begins[1:], len(tops)) - 1
        high = tops[ends]
        low = np.append(bucket_low(fine[0] + self._first_bucket), high[:-1] + 1)
        return HeatMap(edges, low, high, np.add.reduceat(summed, starts, axis=0))


class _Largest:
    """The largest samples and their times, in bounded memory."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.times: Int64 = np.empty(0, np.int64)
        self.values: Int64 = np.empty(0, np.int64)
        self.above: int | None = None
        self.left_out = 0  # samples of the value ``above`` that are not kept

    def add(self, times: Int64, values: Int64) -> None:
        self.times = np.concatenate((self.times, times))
        self.values = np.concatenate((self.values, values))
        if len(self.values) > 2 * self.limit:
            self.shrink()

    def shrink(self) -> None:
        if len(self.values) <= self.limit:
            return
        next_one = len(self.values) - self.limit - 1  # the largest that is not kept
        cut = int(np.partition(self.values, next_one)[next_one])
        larger = np.flatnonzero(self.values > cut)
        equal = np.flatnonzero(self.values == cut)
        kept = self.limit - len(larger)
        self.mark(cut, len(equal) - kept)
        equal = equal[np.argsort(self.times[equal], kind="stable")][:kept]
        keep = np.concatenate((larger, equal))
        self.times, self.values = self.times[keep], self.values[keep]

    def mark(self, cut: int, left_out: int) -> None:
        """Notes samples of the value ``cut`` that are not kept; nor are any of lower values."""
        if self.above is None or cut > self.above:
            self.above, self.left_out = cut, left_out
        elif cut == self.above:
            self.left_out += left_out

    def merge(self, other: _Largest) -> None:
        self.add(other.times, other.values)
        self.shrink()
        if other.above is not None:
            self.mark(other.above, other.left_out)
        if self.above is not None:
            keep = self.values >= self.above
            self.times, self.values = self.times[keep], self.values[keep]


class ExcursionsBuilder:
    """Keeps the largest samples (1 % of all, 4096 at most) with their indices, to see whether they
    come in groups. Parts come in any order."""

    def __init__(self, limit: int = EXCURSIONS) -> None:
        self._largest = _Largest(limit)
        self._samples = 0

    def add(self, index: Int64, values: Integers) -> None:
        """Adds samples with their indices: numbers of samples, or of periods on a grid."""
        self._samples += len(values)
        for start in range(0, len(values), _PIECE):
            piece, above = values[start : start + _PIECE], self._largest.above
            at = np.arange(len(piece)) if above is None else np.flatnonzero(piece > above)
            if above is not None:
                self._largest.mark(above, int(np.count_nonzero(piece == above)))
            if len(at):
                self._largest.add(index[start + at], piece[at].astype(np.int64))

    def merge(self, other: ExcursionsBuilder) -> None:
        """Adds what another builder has taken."""
        self._samples += other._samples
        self._largest.merge(other._largest)

    def largest(self) -> tuple[Int64, Int64]:
        """Indices and values of what is kept."""
        self._largest.shrink()
        return self._largest.times, self._largest.values

    def above(self) -> int | None:
        """Every sample above this value is kept; None if all samples are."""
        self._largest.shrink()
        return self._largest.above

    def clustering(self) -> Clustering | None:
        """The strongest clustering among the largest 1 %, 1/2 %, 1/4 %, … of the samples: groups
        may show among the very largest alone. If fewer than ``FEWEST`` exceed the smallest of the
        largest 1 %, all samples equal to it count as large, too, up to half of the samples. None
        if there are too few to tell, or too many equal ones."""
        self._largest.shrink()
        order = np.argsort(-self._largest.values, kind="stable")
        values, positions = self._largest.values[order], self._largest.times[order]
        number = min(len(values), self._samples // 100)
        if number > FEWEST and values[FEWEST - 1] == values[number - 1]:
            return self._clustering_of_equals(int(values[number - 1]))
        best: Clustering | None = None
        while number:
            threshold = int(values[number - 1])
            some = positions[: int(np.searchsorted(-values, -threshold))]
            found = clustering(np.sort(some), threshold)
            if found is not None and (best is None or found.lower < best.lower):
                best = found
            number //= 2
        return best

    def _clustering_of_equals(self, least: int) -> Clustering | None:
        """The clustering of all samples of at least this value. If only the first of the samples
        equal to it are kept, that of the samples up to the last kept one."""
        values, positions = self._largest.values, self._largest.times
        some = np.sort(positions[values >= least])
        number = len(some)
        if self._largest.above == least:
            number += self._largest.left_out
            some = some[some <= positions[values == least].max()]
        return clustering(some, least - 1) if number <= self._samples // 2 else None


class TimelineBuilder:
    """Takes a series chunk by chunk, in the order of time or in any other."""

    def __init__(
        self,
        first_ns: int,
        last_ns: int,
        *,
        bins: int = BINS,
        interval_ns: int = 0,
    ) -> None:
        """For due times from ``first_ns`` to ``last_ns``, inclusive; others go to the outer bins.

        With ``interval_ns`` every bin spans a whole number of periods, so that all hold equally
        many due points. There can be fewer bins than asked for, never more.
        """
        if bins < 1 or last_ns < first_ns:
            raise ValueError("a timeline needs at least one bin and an end after its start")
        span = last_ns - first_ns + 1
        width = -(-span // bins)
        if interval_ns > 0:
            width = -(-width // interval_ns) * interval_ns
        number = -(-span // width)
        self._edges: Int64 = first_ns + width * np.arange(number + 1, dtype=np.int64)
        self._count: Int64 = np.zeros(number, np.int64)
        self._sum: Int64 = np.zeros(number, np.int64)
        self._min: Int64 = np.full(number, np.iinfo(np.int64).max)
        self._max: Int64 = np.full(number, np.iinfo(np.int64).min)
        self._histogram: Int64 = np.zeros((number, 0), np.int64)
        self._first_column = 0
        self._counts = CountsBuilder()

    def add(self, due_ns: Int64 | range, values: Integers) -> None:
        """Adds samples with their due times: an array, or a ``range`` where no period is missing.

        ValueError if there are not as many of one as of the other.
        """
        if len(due_ns) != len(values):
            raise ValueError("each sample needs one due time")
        if not len(values):
            return
        if not isinstance(due_ns, range) and np.any(due_ns[1:] < due_ns[:-1]):
            order = np.argsort(due_ns, kind="stable")
            due_ns, values = due_ns[order], values[order]
        self._counts.add(values)
        rows, starts, lengths = self._segments(due_ns, len(values))
        self._count[rows] += lengths
        self._sum[rows] += np.add.reduceat(values, starts, dtype=np.int64)
        self._min[rows] = np.minimum(self._min[rows], np.minimum.reduceat(values, starts))
        self._max[rows] = np.maximum(self._max[rows], np.maximum.reduceat(values, starts))
        self._make_room()
        self._add_histogram(values, rows, starts, lengths)

    def _segments(self, due_ns: Int64 | range, total: int) -> tuple[Int64, Int64, Int64]:
        """The bins that occur in a chunk, where each begins in it, and how many samples it has."""
        inner = self._edges[1:-1]
        if isinstance(due_ns, range):
            begins = np.clip(-((due_ns.start - inner) // due_ns.step), 0, total)
        else:
            begins = np.searchsorted(due_ns, inner)
        bounds = np.concatenate(([0], begins, [total])).astype(np.int64)
        lengths = np.diff(bounds)
        rows = np.flatnonzero(lengths)
        return rows, bounds[rows], lengths[rows]

    def _make_room(self) -> None:
        """Widens the histograms so that they hold every value up to now, and some beyond."""
        first, stop = self._used_columns()
        begin, end = self._first_column, self._first_column + self._histogram.shape[1]
        if begin == end:
            begin = end = first
        elif begin <= first and stop <= end:
            return
        left = begin - max(first - _MARGIN, 0) if first < begin else 0
        right = min(stop + _MARGIN, _COLUMNS) - end if stop > end else 0
        self._histogram = np.pad(self._histogram, ((0, 0), (left, right)))
        self._first_column = begin - left

    def _add_histogram(self, values: Integers, rows: Int64, starts: Int64, lengths: Int64) -> None:
        low, high = CountsBuilder.LOW, CountsBuilder.HIGH
        table = _column_table() if self._count.sum() > _FEW else None
        flat, width = self._histogram.reshape(-1), self._histogram.shape[1]
        ends = starts + lengths
        for start in range(0, len(values), _PIECE):
            piece = values[start : start + _PIECE]
            columns: NDArray[np.signedinteger[Any]]
            if table is not None and int(piece.min()) >= low and int(piece.max()) < high:
                columns = table.take(piece)
                columns -= self._first_column
            else:
                columns = bucket_of(piece) - (_FIRST_BUCKET + self._first_column)
            first = int(np.searchsorted(ends, start, side="right"))
            last = int(np.searchsorted(starts, start + len(piece)))
            if last - first == 1:
                np.add.at(self._histogram[rows[first]], columns, 1)
                continue
            inside = np.minimum(ends[first:last], start + len(piece)) - np.maximum(
                starts[first:last], start
            )
            np.add.at(flat, np.repeat(rows[first:last] * width, inside) + columns, 1)

    def merge(self, other: TimelineBuilder) -> None:
        """Adds what another builder for the same bins has taken; ValueError for other bins."""
        if not np.array_equal(self._edges, other._edges):
            raise ValueError("timelines with different bins cannot be merged")
        self._count += other._count
        self._sum += other._sum
        self._min = np.minimum(self._min, other._min)
        self._max = np.maximum(self._max, other._max)
        if other._count.any():
            self._make_room()
            first, stop = other._used_columns()
            self._histogram[:, first - self._first_column : stop - self._first_column] += (
                other._histogram[:, first - other._first_column : stop - other._first_column]
            )
        self._counts.merge(other._counts)

    def _used_columns(self) -> tuple[int, int]:
        """The columns from the smallest to the largest value; none without samples, as the minimum
        lies above the maximum then."""
        ends = bucket_of(np.array((self._min.min(), self._max.max()))) - _FIRST_BUCKET
        return int(ends[0]), int(ends[1]) + 1

    def counts(self) -> Counts:
        """The exact table of all values added."""
        return self._counts.build()

    def timeline(self) -> Timeline:
        """Results up to now."""
        occupied = self._count > 0
        first, stop = self._used_columns()
        return Timeline(
            edges_ns=self._edges,
            count=self._count.copy(),
            min=np.where(occupied, self._min, 0),
            max=np.where(occupied, self._max, 0),
            mean=self._sum / np.maximum(self._count, 1),
            _histogram=self._histogram[
                :, first - self._first_column : stop - self._first_column
            ].copy(),
            _first_bucket=first + _FIRST_BUCKET,
        )
