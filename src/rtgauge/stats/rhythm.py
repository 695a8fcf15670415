# SPDX-License-Identifier: Apache-2.0
"""Rhythms in the times of events: the spectrum of an event train, summed over harmonics.

The power at a frequency is |sum of exp(2 pi i f t) - its mean|^2 / its variance, with mean and
variance of as many of the samples chosen at random (Lord Rayleigh, Philosophical Magazine 37,
1919, with the window of the sampling taken out). Events in clusters have more power at low
frequencies: it is divided by the median of its surroundings. For events without a rhythm it is then
exponential with mean 1, and the sum over the first 1, 2 or 4 harmonics follows a gamma distribution
(Z^2_m: R. Buccheri et al., Astronomy and Astrophysics 128, 1983). A short event at regular times
is as strong at each harmonic, so the sum finds a small share of such events among others.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtgauge.stats.special import beta_part

__all__ = ["APART_NS", "LEAST_HITS", "SAME_RATE", "Comb", "Exposure", "aliases", "comb", "folded"]

Float64 = NDArray[np.float64]
Complex = NDArray[np.complex128]

APART_NS: Final = 200_000
"""Events closer than that are one."""
LEAST_HITS: Final = 12
"""Minimum number of periods with an event."""

CLOCKS: Final = 1e-4
"""Relative difference that two clocks may have."""
SAME_RATE: Final = 0.005
"""Relative difference of rates that count as the same if one of them is only roughly known."""

_BIN_NS: Final = 100_000
_FINE: Final = 1 << 18
_LONG_BIN_NS: Final = 1_000_000
_BINS: Final = 1 << 22  # at most: the transform has twice as many
_FREE: Final = 0.5
_HARMONICS: Final = (1, 2, 4)
_CHANCE: Final = 1e-4
_SURROUNDINGS: Final = 1024
_TRIED: Final = 6
_DIVISORS: Final = [n for n in range(2, 1000) if all(n % k for k in range(2, n))]
_ENOUGH: Final = 20_000
_WIDTHS: Final = np.geomspace(1e-3, 0.5, 28)
_EXPLAINED: Final = 0.05
_FITS: Final = 4
_MOST: Final = 0.6
_FACTOR: Final = 100.0
_TURNS: Final = 2000
_MANY: Final = 0.75
_NEARLY_ALL: Final = 0.9
_DOUBT: Final = 0.05
_BOUNDED: Final = 1 << 17
"""Number of events above which bounds decide which widths are tried."""
_PARTS: Final = 1 << 16


@dataclass(frozen=True)
class Comb:
    """Moments that come back: every ``period_ns``, at ``phase_ns`` of it, for ``width_ns``.

    ``hits``: the number of events, those closer than 200 us being one. ``share``: the part of them
    that the rhythm explains: those within the width, less as many as lie there by chance.
    ``inside``: the part of them within the width. ``power``: minus the natural logarithm of the
    chance that events without a rhythm are as regular anywhere in the spectrum. ``error_ns``: two
    standard errors of the period, which is fitted to the events within the width.
    """

    period_ns: float
    phase_ns: float
    width_ns: float
    hits: int
    share: float
    inside: float
    power: float
    error_ns: float

    def near(self, rates: Sequence[float], tolerance: float = CLOCKS) -> bool:
        """Whether they come at one of these rates (Hz), within the error of the period and the
        relative tolerance. An error above ``SAME_RATE`` says nothing, and counts as that."""
        most = max(min(self.error_ns / self.period_ns, SAME_RATE), tolerance)
        return any(abs(self.period_ns * rate / 1e9 - 1) <= most for rate in rates)

    def within(self, times: Float64, before: Float64 | float = 0.0) -> NDArray[np.bool_]:
        """Which of these times, or of the ``before`` ns until then, are within the width of the
        rhythm."""
        half = self.width_ns / self.period_ns / 2
        turns = (times - self.phase_ns) / self.period_ns + half
        return turns % 1.0 <= 2 * half + before / self.period_ns + 2e-12


class Exposure:
    """The times at which events could be seen, from the first of them on, and their spectrum.

    ``times``: those of all samples, events or not. Two times stand for all between them.
    """

    def __init__(self, times: Float64) -> None:
        self.origin = float(times.min())
        self.span = float(times.max()) - self.origin
        self.times = times - self.origin if len(times) > 2 else None
        long = min(float(_LONG_BIN_NS), max(float(_BIN_NS), self.span / _FINE))
        self.bin_ns = max(long, self.span / (_BINS - 1))
        self.bins = int(self.span / self.bin_ns) + 1
        self.size = 1 << (2 * self.bins - 1).bit_length()
        self._unseen: dict[tuple[float, bool, int], NDArray[np.bool_]] = {}

    @functools.cached_property
    def spectrum(self) -> Complex | None:
        """At each frequency the mean of all samples; None where they are everywhere."""
        return None if self.times is None else self._transformed(self.times) / len(self.times)

    @functools.cached_property
    def free(self) -> Float64 | None:
        """At each frequency the part of the variance that the window leaves to see; None where that
        is all of it."""
        return None if self.spectrum is None else 1 - np.abs(self.spectrum) ** 2

    def beyond(self, hits: Float64, number: int) -> Float64:
        """At each of the lowest frequencies the square of the sum over events less that of as many
        samples."""
        if self.spectrum is None:
            total = self._transformed(hits, len(hits) / self.bins)[:number]
        else:
            total = self._transformed(hits)[:number] - len(hits) * self.spectrum[:number]
        return np.abs(total) ** 2

    def _transformed(self, times: Float64, level: float = 0.0) -> Complex:
        row = np.bincount((times / self.bin_ns).astype(np.int64), minlength=self.bins)
        return np.fft.rfft(row[: self.bins] - level, self.size)

    def unseen(self, interval_ns: float, dithered: bool, number: int) -> NDArray[np.bool_]:
        """At which of the lowest frequencies nothing can be seen; ``comb`` describes the
        sampling."""
        sampling = interval_ns, dithered, number
        if sampling not in self._unseen:
            beat = hz = np.arange(number) * self.step_hz
            if interval_ns:
                beat = np.abs(hz - np.round(hz * interval_ns / 1e9) * 1e9 / interval_ns)
            unseen = beat < (LEAST_HITS - 1) * 1e9 / self.span
            if dithered:
                unseen |= hz > 0.5e9 / interval_ns
            if self.free is not None:
                unseen |= self.free[:number] < _FREE
            self._unseen[sampling] = unseen
        return self._unseen[sampling]

    @property
    def frequencies(self) -> int:
        """The number of frequencies."""
        return self.size // 2 + 1

    @property
    def step_hz(self) -> float:
        """The distance of the frequencies."""
        return 1e9 / (self.size * self.bin_ns)


def comb(
    hits: Float64, exposure: Exposure, *, interval_ns: float = 0.0, dithered: bool = False
) -> Comb | None:
    """Whether events come at regular times; None if they do not, or there are too few to say.

    Times are in ns. Events without a rhythm come more often where there are more samples; that is
    taken into account, so that the rhythm of the sampling is not found. At least 12 periods must
    have had an event. Events of one period count as one cluster: a few bursts of many events are
    not a rhythm. The chance of a result is at most 1 in 10 000 for events without a rhythm, counted
    over all frequencies that are tried.

    ``interval_ns``: of the grid on which the samples were taken, if any. Periods below two
    intervals are not searched then, because each looks like a longer one (``aliases``).
    ``dithered``: the samples sweep the interval. They have a rhythm of their own near the sampling
    rate, so nothing above half of it is used.
    """
    hits = _events(hits) - exposure.origin
    if len(hits) < LEAST_HITS or exposure.span <= 0:
        return None
    places = _places(exposure, 1e9 / max(4 * APART_NS, 2 * interval_ns))
    power = _power(hits, exposure, interval_ns, dithered, max(places.values()))
    tested = sum(places.values())
    found = []
    for harmonics, number in places.items():
        if number:
            found += _peaks(power, exposure, harmonics, number, tested)
    found.sort(key=lambda one: one[0])
    grid_ns = 0.0 if dithered else interval_ns
    judged = (_judged(hits, exposure, *one[1:], tested, grid_ns) for one in found[:_TRIED])
    return next((one for one in judged if one is not None), None)


def _events(hits: Float64) -> Float64:
    """The times of events in their order, without those that are part of the event before them."""
    hits = np.sort(hits)
    return hits[np.diff(hits, prepend=-np.inf) > APART_NS]


def aliases(period_ns: float, interval_ns: float, number: int = 2) -> list[float]:
    """The longest other periods whose events look alike to samples on a grid: events at f, and at
    each multiple of the sampling rate plus or minus f."""
    hz, sampling_hz = 1 / period_ns, 1 / interval_ns
    rest = hz % sampling_hz
    alike = {abs(multiple * sampling_hz + sign * rest) for multiple in range(3) for sign in (1, -1)}
    others = sorted(one for one in alike if one > 0 and abs(one / hz - 1) > 1e-9)
    return [1 / one for one in others[:number]]


def folded(hits: Float64, found: Comb, bins: int = 60) -> list[int]:
    """The number of events in each part of the period, with the middle of the rhythm in the middle
    of the parts."""
    phase = ((_events(hits) - found.phase_ns) / found.period_ns + 0.5) % 1.0
    counts: list[int] = np.bincount((phase * bins).astype(np.int64), minlength=bins).tolist()
    return counts[:bins]


def _power(
    hits: Float64, exposure: Exposure, interval_ns: float, dithered: bool, number: int
) -> Float64:
    """The power at each of the lowest frequencies and at those that surround them, 1 on average
    without a rhythm; 0 where nothing can be seen."""
    number = min(-(-number // _SURROUNDINGS) * _SURROUNDINGS, exposure.frequencies)
    power = exposure.beyond(hits, number)
    free = exposure.free
    power /= len(hits) * (1.0 if free is None else np.maximum(free[:number], _FREE))
    power[exposure.unseen(interval_ns, dithered, number)] = 0.0
    whole = len(power) // _SURROUNDINGS * _SURROUNDINGS
    for some in (power[:whole].reshape(-1, _SURROUNDINGS), power[np.newaxis, whole:]):
        if some.size:
            level = _medians(some) / math.log(2)
            np.divide(some, np.maximum(level, 1.0), out=some)
    return power


def _medians(rows: Float64) -> Float64:
    """The median of each row. ``np.median`` takes several times as long."""
    half = rows.shape[1] // 2
    parted = np.partition(rows, half, axis=1)
    upper = parted[:, half : half + 1]
    if rows.shape[1] % 2:
        return upper
    lower: Float64 = parted[:, :half].max(axis=1, keepdims=True)
    return (lower + upper) / 2


def _places(exposure: Exposure, fastest_hz: float) -> dict[int, int]:
    """Harmonics that are added -> number of frequencies that are tried: of the highest harmonic,
    as far as the spectrum goes."""
    fastest = fastest_hz / exposure.step_hz
    return {some: min(exposure.frequencies, int(fastest * some) + 1) for some in _HARMONICS}


def _peaks(
    power: Float64, exposure: Exposure, harmonics: int, number: int, tested: int
) -> list[tuple[float, int, float]]:
    """The logarithm of the chance, the number of harmonics and the frequency of the strongest
    sums that are less likely than allowed."""
    total = _sums(power, harmonics, number)
    allowed = math.log(_CHANCE / tested)
    found = []
    for _ in range(_TRIED):
        at = int(np.argmax(total))
        chance = _log_chance(float(total[at]), harmonics)
        if chance > allowed:
            break
        found.append((chance, harmonics, at / harmonics * exposure.step_hz))
        total[max(at - 4 * harmonics, 0) : at + 4 * harmonics + 1] = 0.0
    return found


def _sums(power: Float64, harmonics: int, number: int) -> Float64:
    """For each of the lowest frequencies the power there and at the nearest ones to its parts, as
    the highest of so many harmonics."""
    total = power[:number].copy()
    for harmonic in range(1, harmonics):
        for first in range(harmonics):  # slices take a fraction of the time of indices
            some = total[first::harmonics]
            nearest = (2 * harmonic * first + harmonics) // (2 * harmonics)
            some += power[nearest::harmonic][: len(some)]
    return total


def _log_chance(total: float, harmonics: int) -> float:
    """The logarithm of the chance that the sum of ``harmonics`` exponentials is as large."""
    terms = sum(total**k / math.factorial(k) for k in range(harmonics))
    return math.log(terms) - total


def _judged(
    hits: Float64, exposure: Exposure, harmonics: int, hz: float, tested: int, interval_ns: float
) -> Comb | None:
    """The rhythm near a frequency with its own period, if single periods confirm it."""

    few = hits[:: len(hits) // _ENOUGH + 1]
    for width in (0.5, 0.1):
        tried = hz + np.linspace(-width, width, 11) * 1e9 / exposure.span
        strong = [_strength(few * one / 1e9, harmonics) for one in tried]
        hz = float(tried[int(np.argmax(strong))])
    # A comb is as strong at each multiple of its rate: the lowest rate that explains it is its own.
    arc = _arc(few * hz / 1e9, _WIDTHS)
    while slower := _slower(few, exposure, hz, arc):
        hz, arc = slower
    arc = _arc(hits * hz / 1e9, _WIDTHS)
    divisor, doubt = _in_pairs(hits * hz / 1e9, arc)
    if doubt <= _DOUBT:
        hz /= divisor
        if doubt > _CHANCE or hz * exposure.span < (LEAST_HITS - 1) * 1e9:
            return None
        harmonics = _HARMONICS[-1]
        arc = _arc(hits * hz / 1e9, np.array([arc.width / divisor]))
    if arc.share < _EXPLAINED:
        return None
    turns = hits * hz / 1e9
    cycles = np.floor(turns - arc.middle + 0.5)
    if len(np.unique(cycles)) < LEAST_HITS:
        return None
    total = 0.0
    for harmonic, mean in enumerate(_means(exposure, hz, harmonics), 1):
        # On a grid a harmonic looks like its distance from a multiple of the sampling rate.
        rate = harmonic * hz
        beat = (
            abs(rate - round(rate * interval_ns / 1e9) * 1e9 / interval_ns) if interval_ns else hz
        )
        slow = cycles if beat >= hz else np.floor(hits * beat / 1e9)
        row = np.exp(2j * np.pi * harmonic * turns) - mean
        cycle = np.unique(slow, return_inverse=True)[1]
        each = np.bincount(cycle, row.real) + 1j * np.bincount(cycle, row.imag)
        if 1 - abs(mean) ** 2 >= _FREE:
            total += float(abs(row.sum()) ** 2 / (np.abs(each) ** 2).sum())
    chance = _log_chance(total, harmonics) + math.log(tested)
    if chance > math.log(_CHANCE):
        return None
    return _fitted(hits, exposure.origin, hz, arc, -chance)


def _means(exposure: Exposure, hz: float, harmonics: int) -> Complex:
    """The mean of all samples at the harmonics of a frequency."""
    if exposure.times is None:
        return np.zeros(harmonics, np.complex128)
    some = exposure.times[:: max(len(exposure.times) // 20_000, 1)]
    turns = 2j * np.pi * hz / 1e9 * some
    return np.array([np.exp(one * turns).mean() for one in range(1, harmonics + 1)])


def _strength(turns: Float64, harmonics: int) -> float:
    """The sum over harmonics of how concentrated turns are."""
    phasor = np.exp(2j * np.pi * turns)
    return sum(float(abs((phasor**one).sum())) ** 2 for one in range(1, harmonics + 1))


def _slower(hits: Float64, exposure: Exposure, hz: float, arc: _Arc) -> tuple[float, _Arc] | None:
    """A part of the rate at which the events of as short a time are as conspicuous."""
    for divisor in _DIVISORS:
        lower = hz / divisor
        if lower * exposure.span >= (LEAST_HITS - 1) * 1e9:
            other = _arc(hits * lower / 1e9, np.array([arc.width / divisor]))
            # Half of the events in half the time are less conspicuous; all of them are more so.
            most = other.share >= _MOST * arc.share and other.conspicuous >= arc.conspicuous
            if most and _of_one(hits * hz / 1e9, arc, divisor):
                return lower, other
    return None


def _of_one(turns: Float64, arc: _Arc, divisor: int) -> bool:
    """Whether the turns with an event within the arc are each time the same of ``divisor`` turns,
    apart from those with another event: at least ``_FACTOR`` times as likely as that the rhythm is
    the faster one, with events in any turns. If those are few, most may be the same by chance."""
    cycles = _cycles(turns, arc)
    number, same = len(cycles), int(np.bincount(cycles % divisor, minlength=divisor).max())
    outside = len(turns) * (1 - arc.inside) + 1
    others = min(outside * arc.width / (1 - arc.width) / (len(turns) * arc.inside), 1.0)
    ratio = same * math.log(divisor - others * (divisor - 1)) + (number - same) * math.log(others)
    return ratio - math.log(divisor) >= math.log(_FACTOR)


def _cycles(turns: Float64, arc: _Arc) -> NDArray[np.int64]:
    """The turns with an event within the arc, in their order."""
    inside = np.abs((turns - arc.middle + 0.5) % 1.0 - 0.5) <= arc.width / 2 + 1e-12
    return np.unique(np.floor(turns[inside] - arc.middle + 0.5)).astype(np.int64)


def _in_pairs(turns: Float64, arc: _Arc) -> tuple[int, float]:
    """The part of the rate at which the events within the arc come once or twice a period, and the
    chance that as many do if they come in any turns; 1.0 if at no part."""
    cycles = _cycles(turns, arc)
    number = len(cycles)
    if not number:
        return 1, 1.0
    others = (1 - arc.share) * arc.width / arc.inside
    found = 1, 1.0
    span = int(cycles[-1] - cycles[0])
    for divisor in range(3, min(span // 2, _TURNS) + 1):
        # No more than two turns of each period can hold an event.
        if 2 * (span // divisor + 1) / number - others * 2 / divisor < _MANY * (1 - others):
            continue
        each = np.bincount(cycles % divisor, minlength=divisor)
        # Two turns hold at most twice as many as the fullest one.
        if 2 * int(each.max()) / number - others * 2 / divisor < _MANY * (1 - others):
            continue
        first, second = np.argpartition(each, -2)[-2:].tolist()
        two = int(each[first] + each[second])
        held = (two / number - others * 2 / divisor) / (1 - others)
        if held >= _MANY:
            chance = math.comb(divisor, 2) * beta_part(two, number - two + 1, 2 / divisor)
            if chance < found[1] and (held >= _NEARLY_ALL or chance <= _CHANCE):
                # Two events half a period apart are one of half the period.
                half = 2 * abs(first - second) == divisor
                found = divisor // 2 if half else divisor, chance
    return found


class _Arc(NamedTuple):
    """A part of a turn: its middle, its width, the share of the events that it holds beyond chance,
    and the part of them that it holds."""

    middle: float
    width: float
    share: float
    inside: float

    @property
    def conspicuous(self) -> float:
        """The share in standard deviations of that of events at random, for one event."""
        return self.share * math.sqrt((1 - self.width) / self.width)


def _arc(turns: Float64, widths: Float64) -> _Arc:
    """The part of a turn, as wide as one of these, that holds the most events beyond its width."""
    phase = np.sort(turns % 1.0)
    number = len(phase)
    both = np.concatenate((phase, phase + 1.0))
    best = _Arc(0.0, 1.0, 0.0, 1.0)
    score, chosen = -math.inf, len(widths)
    # Some wider parts hold a few more by chance.
    by_chance = number * widths + 3 * np.sqrt(number * widths * (1 - widths))
    many = number > _BOUNDED and len(widths) > 1
    bounds = (_most(both, widths) if many else number) - by_chance
    for place in np.argsort(-bounds, kind="stable").tolist():
        if bounds[place] < score:
            break
        width = float(widths[place])
        held = np.searchsorted(both, phase + width, side="right") - np.arange(number)
        at = int(np.argmax(held))
        most = int(held[at])
        strength = float(most - by_chance[place])
        if strength > score or (strength == score and place < chosen):
            inside = most / number
            middle = float(phase[at] + both[at + most - 1]) / 2
            score, chosen = strength, place
            best = _Arc(middle, width, (inside - width) / (1 - width), inside)
    return best


def _most(both: Float64, widths: Float64) -> NDArray[np.int64]:
    """For each width a number of events that no part of a turn exceeds. ``both``: the sorted phases
    of one turn, then those of the next."""
    edges = np.arange(2 * _PARTS + 1) / _PARTS
    before = np.searchsorted(both, edges)
    most = []
    for width in widths.tolist():
        parts = min(int(width * _PARTS) + 3, _PARTS)  # two at its ends, one for rounding
        most.append(int((before[parts : parts + _PARTS] - before[:_PARTS]).max()))
    return np.array(most)


def _fitted(hits: Float64, origin: float, hz: float, arc: _Arc, power: float) -> Comb:
    """A line through the events within the arc: number of periods against time."""
    period, phase = 1e9 / hz, arc.middle * 1e9 / hz
    reach = min(1.5 * arc.width, 0.3)
    for _ in range(_FITS):
        turns = (hits - phase) / period
        number = np.floor(turns + 0.5)
        near = np.abs(turns - number) <= reach
        at, times = number[near], hits[near]
        off = at - at.mean()
        squares = float((off**2).sum())
        period = float((off * times).sum() / squares)
        phase = float(times.mean() - period * at.mean())
    left = times - times.mean() - period * off
    error = 2 * math.sqrt(float((left**2).sum()) / max(len(at) - 2, 1) / squares)
    # Events at the limits move with the line and so hold it where it is.
    edge = np.abs(np.abs(turns - number) - reach) <= 0.2 * reach
    error /= 1 - min(float(np.count_nonzero(edge)) / (0.4 * len(at)), 0.8)
    return Comb(
        period,
        (phase + origin) % period,
        arc.width * period,
        len(hits),
        arc.share,
        arc.inside,
        power,
        error,
    )
