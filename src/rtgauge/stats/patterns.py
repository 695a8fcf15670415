# SPDX-License-Identifier: Apache-2.0
"""What rules find in samples: when each was taken, what comes back at regular times, two lines
instead of one, and growth with a number. docs/reference/statistics.md says what is claimed of each.

Step 9 of the path of a sample: ``Pace.laid()`` lays samples that share a time one after the other.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rtgauge.stats.counts import Counts, bucket_low, bucket_of
from rtgauge.stats.special import beta_part

__all__ = [
    "Comb",
    "Line",
    "Pace",
    "Slope",
    "Valley",
    "comb",
    "pace",
    "placed",
    "second_line",
    "slope",
    "valley",
]

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

TICKS_HZ: Final = (100, 250, 300, 1000)
"""The rates for which kernels are built: they are looked for with fewer hits than any other."""

_BIN_NS: Final = 100_000
_BINS: Final = 1 << 16
_LEAST_HITS: Final = 12
_ENOUGH: Final = 28
_FREE: Final = 0.5
_PERIODS: Final = 20
_KNOWN: Final = 11.0
_ANY: Final = 27.0
_CONCENTRATED: Final = 0.5
_SAME_PLACE: Final = 0.3
_SAME_RATE: Final = 0.005
_APART_NS: Final = 200_000
_NEAR: Final = 0.12
_GATHERED: Final = 5
_BY_CHANCE: Final = 1e-4


@dataclass(frozen=True)
class Pace:
    """How samples of test loops follow each other: so far apart, if they take the median."""

    distance_ns: float
    median_ns: float

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
    each = (spare / number)[known]
    distance = max(float(np.quantile(each, 0.25)) if len(each) else median, median)
    return Pace(distance, median)


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
    other series' too: where the next one begins, a loop has ended. Within a loop the samples stand
    so far apart as in most loops of the series, and what one took more than the median delays all
    after it. ``seamless``: each begins where the one before it ended.
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
class Comb:
    """Moments that come back: every ``period_ns``, at ``phase_ns`` of it. ``share``: the part of
    the hits that is within a tenth of the period of that; of hits at random times it would be a
    fifth. ``power``: how far from random (exponential with mean 1 for hits at random times).
    ``error_ns``: two standard errors of the period, which is fitted to the hits."""

    period_ns: float
    phase_ns: float
    share: float
    power: float
    error_ns: float

    def near(self, rates: Sequence[float]) -> bool:
        """Whether they come at one of these rates (Hz)."""
        return any(abs(self.period_ns * rate / 1e9 - 1) < _SAME_RATE for rate in rates)


def comb(
    hits: Float64,
    exposure: Float64,
    rates: Sequence[float] = TICKS_HZ,
    *,
    interval_ns: float = 0.0,
) -> Comb | None:
    """Whether hits come at regular times; None if they do not, or there are too few to say.

    ``exposure``: the times of all samples, hits or not. Hits at random come more often where there
    are more samples; that is taken into account, so that the rhythm of the sampling is not found.
    Hits within 200 us are one; periods from 800 us on are looked for. At least 20 periods must
    have been seen.

    The statistic at a frequency is |sum of exp(2 pi i f t) - its mean|^2 / its variance, with mean
    and variance of as many of the samples chosen at random (Lord Rayleigh, Philosophical Magazine
    37, 1919, with the window taken out). It must exceed 27 at any of up to 65 536 frequencies, or
    11 at one of the few ``rates`` (by default those for which kernels are built), and half of the
    hits be in phase.

    ``interval_ns``: of the grid on which the samples were taken, if any. On it a frequency f looks
    like its distance from each multiple of the sampling rate; hits must recur at that distance,
    too. One noisy episode does not.
    """
    return _comb(hits, _Exposure(exposure), rates, interval_ns) if len(exposure) else None


def _comb(
    hits: Float64, exposure: _Exposure, rates: Sequence[float], interval_ns: float
) -> Comb | None:
    hits = np.sort(hits)
    if len(hits):
        hits = hits[np.diff(hits, prepend=-np.inf) > _APART_NS]
    if len(hits) < _LEAST_HITS or exposure.span <= 0:
        return None
    origin, span = exposure.origin, exposure.span
    hits = hits - origin
    found = [_Peak(f, *_power(hits, exposure, f)) for f in _seen(rates, span)]
    found = [one for one in found if one.power >= _KNOWN]
    if len(hits) >= _ENOUGH:
        found += _search(hits, exposure, interval_ns)
    found = [_refined(hits, exposure, one) for one in found]
    found = [one for one in found if one.strength >= _CONCENTRATED]
    found = [
        one
        for one in found
        if _recurs(hits, exposure, one, _known(one.hz, rates))
        and (not interval_ns or _beats(hits, exposure, one, 1e9 / interval_ns))
    ]
    if not found:
        return None
    # A comb is as strong at each multiple of its rate: the lowest is its own.
    strongest = max(one.strength for one in found)
    # What comes twice in a period of the tick is the tick and something else between.
    named = [one for one in found if _known(one.hz, rates)]
    enough = [one for one in named if one.strength >= 0.6 * strongest]
    enough = enough or [one for one in found if one.strength >= 0.8 * strongest]
    best = min(enough, key=lambda one: one.hz)
    period = 1e9 / best.hz
    turns = hits / period
    mean = math.atan2(
        float(np.sin(2 * np.pi * turns).mean()), float(np.cos(2 * np.pi * turns).mean())
    ) / (2 * math.pi)
    off = np.abs((turns - mean + 0.5) % 1.0 - 0.5)
    share = float((off <= 0.1).mean())
    if share < _CONCENTRATED:
        return None
    # The slope of a line through many points that are evenly spread.
    spread = math.sqrt(float((off**2).mean()) * 12 / len(hits))
    error = 2 * period * spread / max(float(turns[-1] - turns[0]), 1.0)
    return Comb(period, (mean * period + origin) % period, share, best.power, error)


def _known(hz: float, rates: Sequence[float]) -> bool:
    return any(abs(hz / rate - 1) < _SAME_RATE for rate in rates)


@dataclass(frozen=True)
class _Peak:
    hz: float
    power: float
    strength: float


def _seen(rates: Sequence[float], span_ns: float) -> list[float]:
    """The rates of which enough periods were seen."""
    return [float(hz) for hz in rates if hz * span_ns / 1e9 >= _PERIODS]


_WINDOW: Final = 20_000


class _Exposure:
    """The times of all samples, from the first of them on, and their spectrum."""

    def __init__(self, times: Float64) -> None:
        self.origin = float(times.min())
        self.span = float(times.max()) - self.origin
        self.times = times - self.origin
        self.bin_ns = max(float(_BIN_NS), self.span / _BINS)
        self.bins = int(self.span / self.bin_ns) + 1
        self.size = 1 << (2 * self.bins - 1).bit_length()
        step = max(len(times) // _WINDOW, 1)
        self._some = self.times[::step]
        self._means: dict[float, complex] = {}

    @functools.cached_property
    def spectrum(self) -> NDArray[np.complex128]:
        """At each frequency the mean of all samples."""
        return self.transformed(self.times) / len(self.times)

    def transformed(self, times: Float64) -> NDArray[np.complex128]:
        """At each frequency the sum over some times."""
        row = np.bincount((times / self.bin_ns).astype(np.int64), minlength=self.bins)
        return np.fft.rfft(row[: self.bins], self.size)

    def mean(self, hz: float) -> complex:
        """The mean of all samples at one frequency."""
        if hz not in self._means:
            self._means[hz] = complex(np.exp(2j * np.pi * hz / 1e9 * self._some).mean())
        return self._means[hz]


def _power(hits: Float64, exposure: _Exposure, hz: float) -> tuple[float, float]:
    """The statistic at one frequency, and how concentrated hits are beyond their chances."""
    turn = 2j * np.pi * hz / 1e9
    window = exposure.mean(hz)
    return _statistic(complex(np.exp(turn * hits).sum()), window, len(hits))


def _statistic(total: complex, window: complex, number: int) -> tuple[float, float]:
    free = 1 - abs(window) ** 2
    if free < _FREE:  # the sampling has this rhythm itself: nothing can be seen
        return 0.0, 0.0
    beyond = abs(total - number * window)
    return beyond**2 / (number * free), beyond / number


def _search(hits: Float64, exposure: _Exposure, interval_ns: float) -> list[_Peak]:
    """The frequencies at which the statistic stands out, of all up to half the bins' rate, but for
    those that the samples' grid cannot tell from fewer than 20 periods."""
    total, window = exposure.transformed(hits), exposure.spectrum
    free = 1 - np.abs(window) ** 2
    beyond = np.abs(total - len(hits) * window) ** 2
    power = np.where(free < _FREE, 0.0, beyond / (len(hits) * np.maximum(free, _FREE)))
    hz = np.arange(len(power)) * 1e9 / (exposure.size * exposure.bin_ns)
    beat = np.abs(hz - np.round(hz * interval_ns / 1e9) * 1e9 / interval_ns) if interval_ns else hz
    power[beat < _PERIODS * 1e9 / exposure.span] = 0.0
    # That hits keep 200 us apart is a rhythm by itself, of a few of these.
    power[hz > 1e9 / (4 * _APART_NS)] = 0.0
    top = float(power.max(initial=0.0))
    if top < _ANY:
        return []
    peaks = np.flatnonzero(power >= max(_ANY, 0.4 * top))
    # Neighbours are the sides of one peak: the largest counts.
    groups = np.split(peaks, np.flatnonzero(np.diff(peaks) > 4) + 1)
    best = [int(group[np.argmax(power[group])]) for group in groups]
    return [
        _Peak(float(hz[at]), float(power[at]), math.sqrt(float(beyond[at])) / len(hits))
        for at in best[:8]
    ]


def _refined(hits: Float64, exposure: _Exposure, peak: _Peak) -> _Peak:
    """The frequency nearby at which the hits are most concentrated."""
    width = 1e9 / exposure.span
    tried = peak.hz + np.linspace(-width, width, 81)
    sums = np.abs(np.exp(2j * np.pi * np.outer(tried / 1e9, hits)).sum(axis=1))
    hz = float(tried[int(np.argmax(sums))])
    return _Peak(hz, *_power(hits, exposure, hz))


def _recurs(hits: Float64, exposure: _Exposure, peak: _Peak, known: bool) -> bool:
    """Whether hits are as far from random if those of one period count as one, in their middle:
    a few bursts of many hits each are not a rhythm."""
    phasors = np.exp(2j * np.pi * peak.hz / 1e9 * hits)
    middle = float(np.angle(phasors.sum())) / (2 * math.pi)
    turns = np.floor(hits * peak.hz / 1e9 - middle + 0.5)
    _, period, number = np.unique(turns, return_inverse=True, return_counts=True)
    if len(number) < _LEAST_HITS:
        return False
    total = complex((phasors / number[period]).sum())
    power, _ = _statistic(total, exposure.mean(peak.hz), len(number))
    return power >= (_KNOWN if known else _ANY)


def _beats(hits: Float64, exposure: _Exposure, peak: _Peak, sampling_hz: float) -> bool:
    """Whether hits recur also at the distance of a frequency from the nearest multiple of the
    sampling rate, which on the grid of the samples is the same, with 20 periods seen."""
    beat_hz = abs(peak.hz - round(peak.hz / sampling_hz) * sampling_hz)
    if beat_hz * exposure.span < _PERIODS * 1e9:
        return False
    return _recurs(hits, exposure, _Peak(beat_hz, *_power(hits, exposure, beat_hz)), True)


@dataclass(frozen=True)
class Line:
    """A second line above the first: ``number`` samples that come back every ``comb.period_ns``,
    of which half took at least ``excess_ns`` more than the median of all, the largest ``worst_ns``
    more. ``multiples``: further lines at whole multiples of ``excess_ns``, and the number of
    samples on each."""

    comb: Comb
    number: int
    excess_ns: float
    worst_ns: float
    multiples: Mapping[int, int]


def second_line(
    times: Float64,
    excess: Float64,
    rates: Sequence[float] = TICKS_HZ,
    place: Float64 | None = None,
    *,
    interval_ns: float = 0.0,
) -> Line | None:
    """Samples that are larger at regular times than the others, if there are such.

    ``times``: when each sample was taken (ns); ``excess``: by how much it is above the median of
    its series. Looked at are the largest samples, in turn 12, 24, 48, … of them, as long as they
    are clear of the body: above twice its 90 % point. ``place``: where in its test loop each was
    taken, from 0 to 1; what comes at the same place of many loops is the rhythm of the loops, and
    found only if it has one of the ``rates``. ``interval_ns``: as in ``comb``.
    """
    if len(times) < 4 * _LEAST_HITS:
        return None
    body = float(np.quantile(excess, 0.9))
    order = np.argsort(-excess, kind="stable")
    clear = int(np.count_nonzero(excess > max(2 * body, 1.0)))
    best: tuple[float, Comb, Float64] | None = None
    exposure = _Exposure(times)
    number = _LEAST_HITS
    while number // 2 < min(clear, len(times) // 5):
        some = order[: min(number, clear, len(times) // 5)]
        found = _comb(times[some], exposure, rates, interval_ns)
        if found is not None and place is not None and not found.near(rates):
            turns = np.exp(2j * np.pi * place[some])
            found = None if abs(turns.mean()) >= _SAME_PLACE else found
        if found is not None and (best is None or found.power > best[0]):
            best = found.power, found, excess[some][_phased(times[some], found)]
        number *= 2
    if best is None:
        return None
    _, found, which = best
    middle = float(np.median(which))
    several = multiples(excess[_phased(times, found)], middle)
    return Line(found, len(which), middle, float(which.max()), several)


def _phased(times: Float64, found: Comb) -> NDArray[np.bool_]:
    """Which times are within a tenth of a period of the comb."""
    turns = (times - found.phase_ns) / found.period_ns
    return np.asarray(np.abs((turns + 0.5) % 1.0 - 0.5) <= 0.1)


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


def valley(counts: Counts) -> Valley | None:
    """Whether values fall into two groups, each with a hundredth of the samples and ten at least.

    Looked for in a histogram of bins of an eighth: between the groups a bin holds at most a tenth
    of the fullest of the lesser group, over at least half an octave; and the upper group's median
    is at least half as large again as the lower's, and 100 above it.
    """
    if counts.count < 100 or not counts.exact or counts.values[0] < 0:
        return None
    bits = 3
    number = bucket_of(counts.values, bits)
    first = int(number[0])
    bins = np.zeros(int(number[-1]) - first + 1, np.int64)
    np.add.at(bins, number - first, counts.counts)
    least = max(counts.count / 100, 10)
    below = np.cumsum(bins)
    before = np.maximum.accumulate(bins)
    after = np.maximum.accumulate(bins[::-1])[::-1]
    best: tuple[int, Valley] | None = None
    for start in range(1, len(bins) - 1):
        between = np.maximum.accumulate(bins[start:-1])
        lesser = np.minimum(before[start - 1], after[start + 1 :])
        stop = start + int(np.count_nonzero(10 * between <= lesser))
        lower = int(below[(start + stop) // 2 - 1])
        upper = counts.count - lower
        width = int(bucket_low(first + stop, bits)) / max(int(bucket_low(first + start, bits)), 1)
        if min(lower, upper) < least or width < math.sqrt(2):
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
    at = max(off, 0)
    return Slope(each, float(low[at]), float(high[len(pairs) - 1 - at]))
