# SPDX-License-Identifier: Apache-2.0
"""What rules find in samples: when each was taken, what comes back at regular times, two lines
instead of one, and growth with a number. docs/reference/statistics.md says what is claimed of each.

Step 9 of the path of a sample: ``Pace.laid()`` lays samples that share a time one after the other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rtgauge.stats.counts import Counts, bucket_low, bucket_of
from rtgauge.stats.rhythm import LEAST_HITS, SAME_RATE, Comb, Exposure, comb, folded
from rtgauge.stats.special import beta_part

__all__ = [
    "Line",
    "Pace",
    "Slope",
    "Valley",
    "disturber",
    "pace",
    "placed",
    "second_line",
    "slope",
    "valley",
]

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

TICKS_HZ: Final = (100, 250, 300, 1000)
"""The rates for which kernels are built."""

_SAME_PLACE: Final = 0.3

_NEAR: Final = 0.12
_GATHERED: Final = 5
_BY_CHANCE: Final = 1e-4
_RARE: Final = 0.01


@dataclass(frozen=True)
class Pace:
    """How samples of test loops follow each other: so far apart, if they take the median.

    ``error_ns``: two standard errors of the distance."""

    distance_ns: float
    median_ns: float
    error_ns: float = 0.0

    def within(self, begin_ns: float, values: Int64) -> Float64:
        """When the samples of a loop began that begins then."""
        excess = values - self.median_ns
        return begin_ns + np.arange(len(values)) * self.distance_ns + np.cumsum(excess) - excess

    def laid(self, due_ns: Int64, values: Int64) -> Int64:
        """When each sample of a series without a time grid began: from the time of its test loop
        on, and not after the next loop of the series. Samples that follow each other, as in
        ``placed``."""
        first = np.flatnonzero(np.diff(due_ns, prepend=due_ns[0] - 1))
        number = np.diff(first, append=len(due_ns))
        times = self.within(0.0, values)
        times -= np.repeat(times[first], number)
        room = np.append(np.maximum(np.diff(due_ns[first]), 0), 1 << 62)
        return due_ns + np.clip(times, 0, np.repeat(room, number)).astype(np.int64)


def pace(due_ns: Int64, values: Int64, starts: Int64) -> Pace:
    """The pace of a series without a time grid; what is taken and given is as in ``placed``."""
    if not len(due_ns):
        return Pace(0.0, 0.0)
    median = float(np.median(values))
    first, number, end = _loops(due_ns, values, starts)
    known = np.isfinite(end)
    spare = end - due_ns[first] - np.add.reduceat(values - median, first)
    each = np.sort(np.maximum((spare / number)[known], median))
    if not len(each):
        return Pace(median, median)
    # A loop that ends late says nothing of its samples: no mean with another one.
    at = (len(each) - 1) // 4
    off = math.ceil(2 * math.sqrt(3 / 16 * len(each)))
    low, high = each[max(at - off, 0)], each[min(at + off, len(each) - 1)]
    return Pace(float(each[at]), median, float(max(high - each[at], each[at] - low)))


def _loops(due_ns: Int64, values: Int64, starts: Int64) -> tuple[Int64, Int64, Float64]:
    """The first sample of each loop, its number of samples, and when the next loop begins."""
    first = np.flatnonzero(np.diff(due_ns, prepend=due_ns[0] - 1))
    number = np.diff(first, append=len(due_ns))
    took = np.maximum(np.add.reduceat(values, first), 1)
    after = np.searchsorted(starts, due_ns[first] + took, side="left")
    following = starts[np.minimum(after, len(starts) - 1)] if len(starts) else due_ns[first]
    return first, number, np.where(after < len(starts), following, np.inf)


def placed(due_ns: Int64, values: Int64, starts: Int64, *, seamless: bool = False) -> Float64:
    """When each sample of a series without a time grid began, in ns.

    ``due_ns`` is the time of the test loop that a sample belongs to, the same for all of a loop;
    ``values`` are durations in ns. ``starts``, rising, are the times of all test loops of the step,
    those of other series too: where the next one begins, a loop has ended. Within a loop, the
    samples are as far apart as in most loops of the series, and what one took more than the median
    delays all after it. ``seamless``: each begins where the one before it ended.
    """
    if not len(due_ns):
        return np.zeros(0)
    median = float(np.median(values))
    rhythm = Pace(median, median) if seamless else pace(due_ns, values, starts)
    first, number, end = _loops(due_ns, values, starts)
    times = rhythm.within(0.0, values)
    begin = np.repeat(due_ns[first].astype(np.float64), number)
    times += begin - np.repeat(times[first], number)
    # No sample begins before its loop, or after the one that follows.
    return np.clip(times, begin, np.repeat(end, number))


@dataclass(frozen=True)
class Line:
    """A second line above the first: ``number`` samples that come back every ``comb.period_ns``,
    of which half took at least ``excess_ns`` more than the median of all, the largest ``worst_ns``
    more (``_reach``: larger ones recur by chance alone). They are among the ``large`` samples that
    took at least ``least_ns`` more; ``fold``: the number of events in each part of the period, the
    rhythm in the middle. ``multiples``: further lines at whole multiples of ``excess_ns``, and the
    number of samples on each."""

    comb: Comb
    number: int
    excess_ns: float
    worst_ns: float
    large: int
    least_ns: float
    fold: Sequence[int]
    multiples: Mapping[int, int]


def second_line(
    times: Float64,
    excess: Float64,
    rates: Sequence[float] = TICKS_HZ,
    place: Float64 | None = None,
    *,
    interval_ns: float = 0.0,
    late_ns: Float64 | None = None,
    least_ns: float = 1.0,
) -> Line | None:
    """Samples that are larger at regular times than the others, if any.

    ``times``: when each sample was taken (ns); ``excess``: by how much it is above the median of
    its series. ``place``: where in its test loop each was taken, from 0 to 1; what comes at the
    same place of many loops is the rhythm of the loops, and found only if it has one of the
    ``rates``. ``interval_ns``: as in ``comb``. ``late_ns``: by how much each time is wrong if the
    pace of its loop is wrong by its error, which adds to the error of the period. ``least_ns``:
    the excess that a sample may have because of the clock. The samples searched are those of
    ``disturber``.
    """
    if len(times) < 4 * LEAST_HITS:
        return None
    body = float(np.quantile(excess, 0.9))
    large = np.flatnonzero(excess > max(2 * body, least_ns))

    def stays(some: NDArray[np.intp], found: Comb) -> bool:
        # The error of the pace is not yet part of that of the period.
        if place is None or found.near(rates, SAME_RATE):
            return True
        return abs(complex(np.exp(2j * np.pi * place[large[some]]).mean())) < _SAME_PLACE

    line = disturber(
        times[large], excess[large], Exposure(times), len(times), stays, interval_ns=interval_ns
    )
    if line is None or late_ns is None:
        return line
    found = line.comb
    some = large[(excess[large] >= line.least_ns) & found.within(times[large])]
    turn = np.floor((times[some] - found.phase_ns) / found.period_ns + 0.5)
    turn -= turn.mean()
    error = found.error_ns + abs(float((turn * late_ns[some]).sum() / (turn**2).sum()))
    return replace(line, comb=replace(found, error_ns=error))


def disturber(
    times: Float64,
    excess: Float64,
    exposure: Exposure,
    samples: int,
    stays: Callable[[NDArray[np.intp], Comb], bool] = lambda some, found: True,
    *,
    interval_ns: float = 0.0,
    dithered: bool = False,
) -> Line | None:
    """The most certain rhythm of the largest 24, 96, 384, … of the samples that are clear of the
    body (above twice its 90 % point), a fifth of all at most. ``stays``: what else a rhythm of some
    of them has to fulfil."""
    order = np.argsort(-excess, kind="stable")
    most = min(len(times), samples // 5)
    best: tuple[Comb, NDArray[np.intp]] | None = None
    number = 2 * LEAST_HITS
    while number // 4 < most:
        some = order[: min(number, most)]
        found = comb(times[some], exposure, interval_ns=interval_ns, dithered=dithered)
        better = found is not None and (best is None or found.power > best[0].power)
        if found is not None and better and stays(some, found):
            best = found, some
        number *= 4
    if best is None:
        return None
    found, some = best
    inside = excess[some][found.within(times[some])]
    middle = float(np.median(inside))
    return Line(
        found,
        len(inside),
        middle,
        _reach(times[some], excess[some], found, interval_ns > 0),
        len(some),
        float(excess[some].min()),
        folded(times[some], found),
        multiples(excess[found.within(times)], middle),
    )


def _reach(times: Float64, excess: Float64, found: Comb, woken: bool) -> float:
    """The largest sample that is within the rhythm's part of the period not by chance alone.

    ``excess`` is descending. Its samples are added, the largest first, until the binomial
    probability of the number of them within that part is at most 1 in 100. Those up to twice as
    large as the last one may then be due to the rhythm. Samples of one turn count once within the
    part and once outside, because one event may delay several."""
    within = found.within(times)
    turn = np.floor((times - found.phase_ns) / found.period_ns + 0.5)
    _, first = np.unique(2 * turn + within, return_index=True)
    new = np.zeros(len(times), bool)
    new[first] = True
    events, hits = np.cumsum(new), np.cumsum(new & within)
    part = found.width_ns / found.period_ns
    for at in np.flatnonzero(new & within).tolist():
        if beta_part(int(hits[at]), int(events[at] - hits[at]) + 1, part) <= _RARE:
            held = found.within(times, excess if woken else 0.0)
            return float(excess[held & (excess <= 2 * excess[at])].max())
    return float(np.median(excess[within]))


def multiples(excess: Float64, unit: float) -> dict[int, int]:
    """The multiples of ``unit``, from 2 to 8, near which values gather, and their number.

    Near is within 0.12 of the multiple. They gather where at least 5 values are near, and more than
    are near the halves before and after it: with values that fall or rise evenly from half to half,
    each is near the multiple with a probability of 1/3 at most, and the exact binomial probability
    of as many is at most 1 in 10 000.
    """
    ratio = excess / unit
    found = {}
    for number in range(2, 9):
        near, before, after = (
            int(np.count_nonzero(np.abs(ratio - number - off) <= _NEAR)) for off in (0, -0.5, 0.5)
        )
        if near >= _GATHERED and beta_part(near, before + after + 1, 1 / 3) <= _BY_CHANCE:
            found[number] = near
    return found


@dataclass(frozen=True)
class Valley:
    """Two groups of values with next to nothing between them: the median of each, and the number
    of samples in the upper one."""

    low: int
    high: int
    above: int


def valley(counts: Counts, step: int = 0) -> Valley | None:
    """Whether values fall into two groups, each with a hundredth of the samples and ten at least.

    Looked for in a histogram of bins of an eighth: between the groups a bin holds at most a tenth
    of the fullest of the lesser group, over at least half an octave; and the upper group's median
    is at least half as large again as the lower's, and 100 above it. ``step``: of the clock.
    Values at most that far apart are neighbours.
    """
    if counts.count < 100 or not counts.exact or counts.values[0] < 0:
        return None
    bits = 3
    number = bucket_of(counts.values, bits)
    first = int(number[0])
    bins = np.zeros(int(number[-1]) - first + 1, np.int64)
    np.add.at(bins, number - first, counts.counts)
    enough = max(counts.count / 100, 10)
    below = np.cumsum(bins)
    before = np.maximum.accumulate(bins)
    after = np.maximum.accumulate(bins[::-1])[::-1]
    least = bucket_low(first + np.arange(len(bins)), bits).tolist()
    begins = np.searchsorted(number, first + np.arange(len(bins)))
    best: tuple[int, Valley] | None = None
    for start in range(1, len(bins) - 1):
        between = np.maximum.accumulate(bins[start:-1])
        lesser = np.minimum(before[start - 1], after[start + 1 :])
        stop = start + int(np.count_nonzero(10 * between <= lesser))
        lower = int(below[(start + stop) // 2 - 1])
        upper = counts.count - lower
        width = least[stop] / max(least[start], 1)
        if min(lower, upper) < enough or width < math.sqrt(2):
            continue
        if counts.values[begins[stop]] - counts.values[begins[start] - 1] <= step:
            continue
        low = _median(counts, 0, lower)
        high = _median(counts, counts.count - upper, counts.count)
        found = Valley(low, high, upper)
        if high >= max(1.5 * low, low + 100) and (best is None or stop - start > best[0]):
            best = stop - start, found
    return None if best is None else best[1]


def _median(counts: Counts, start: int, stop: int) -> int:
    """The median of the samples from one rank to before another."""
    rank = start + (stop - start + 1) // 2
    return int(counts.values[int(np.searchsorted(counts.cumulative, rank))])


@dataclass(frozen=True)
class Slope:
    """By how much a quantity grows for each one of a number, and between what limits."""

    each: float
    low: float
    high: float


def slope(points: Sequence[tuple[float, float, float, float]]) -> Slope | None:
    """The slope of a line through points (x, value, min, max): the median of the slopes of
    all pairs (H. Theil, 1950; P. K. Sen, Journal of the American Statistical Association 63, 1968).

    The value may be from ``min`` to ``max``. From six different x on the limits are Sen's 95 %
    interval, widened by them. With fewer they are the min and max slope that a pair may have.
    None with fewer than three x.
    """
    if len({one[0] for one in points}) < 3:
        return None
    pairs = [
        (
            (b[1] - a[1]) / (b[0] - a[0]),
            (b[2] - a[3]) / (b[0] - a[0]),
            (b[3] - a[2]) / (b[0] - a[0]),
        )
        for a, b in itertools.combinations(sorted(points), 2)
        if b[0] > a[0]
    ]
    middle, low, high = (np.sort([pair[k] for pair in pairs]) for k in range(3))
    each = float(np.median(middle))
    number = len(points)
    if len({one[0] for one in points}) < 6:
        return Slope(each, float(low[0]), float(high[-1]))
    sigma = math.sqrt(number * (number - 1) * (2 * number + 5) / 18)
    off = round((len(pairs) - 1.96 * sigma) / 2)
    at = max(off - 1, 0)  # ranks count from 1
    return Slope(each, float(low[at]), float(high[len(pairs) - 1 - at]))
