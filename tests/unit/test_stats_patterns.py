# SPDX-License-Identifier: Apache-2.0
"""Patterns in samples, against made-up ones of which all is known, and against brute force."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom, linregress

from rtgauge import stats
from rtgauge.stats import patterns, rhythm

MS = 1e6


def _exposed(random: np.random.Generator, count: int, seconds: float) -> NDArray[np.float64]:
    """Times of samples in test loops of 40 ms with rests of 10 ms between."""
    inside = np.sort(random.uniform(0, seconds * 0.8e9, count))
    return inside + np.floor(inside / (40 * MS)) * 10 * MS


# --- when samples were taken ------------------------------------------------------------------


def test_samples_are_placed_within_their_loops() -> None:
    """Loops of a known rhythm, with a hit in one of them: every sample stands where it was taken,
    to within the disturbance of the estimate."""
    random = np.random.default_rng(1)
    at, true, due, values, starts = 0.0, [], [], [], []
    for _ in range(40):
        starts.append(int(at))
        begin = at
        for _ in range(200):
            value = 1000 + int(random.integers(0, 20)) + (50_000 if random.random() < 2e-3 else 0)
            true.append(at)
            due.append(int(begin))
            values.append(value)
            at += value + 300  # what lies between two samples
        at += 5000
    found = stats.placed(
        np.array(due, np.int64), np.array(values, np.int64), np.array(starts, np.int64)
    )
    assert np.abs(found - np.array(true)).max() < 10_000
    assert np.abs(found - np.array(due)).max() > 250_000  # else the loop's start would do


def test_the_loops_of_other_series_end_a_loop() -> None:
    """Two series in turn: what lies between the loops of one is not taken for its samples."""
    due = np.repeat(np.arange(10) * 1_000_000, 100)
    values = np.full(1000, 500, np.int64)
    starts = np.sort(
        np.concatenate([np.arange(10) * 1_000_000, np.arange(10) * 1_000_000 + 60_000])
    )
    found = stats.placed(due, values, starts)
    assert found.max() - due.max() == pytest.approx(60_000 * 0.99)
    assert not len(stats.placed(due[:0], values[:0], starts))


@pytest.mark.parametrize("harmonics", [1, 2, 4])
def test_sums_over_harmonics_equal_those_of_each_frequency(harmonics: int) -> None:
    random = np.random.default_rng(harmonics)
    for number in (*range(1, 20), 257, 1000):
        power = random.exponential(size=number + int(random.integers(0, 9)))
        for top, total in enumerate(rhythm._sums(power, harmonics, number).tolist()):
            added = power[top]
            for harmonic in range(1, harmonics):
                added += power[math.floor(harmonic * top / harmonics + 0.5)]
            assert total == added


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 10**6)), min_size=1, max_size=20),
    st.integers(0, 2**20),
)
@settings(max_examples=50, deadline=None)
def test_no_sample_leaves_its_loop(loops: list[tuple[int, int]], seed: int) -> None:
    random = np.random.default_rng(seed)
    starts = np.cumsum([1 + gap for _, gap in loops]).astype(np.int64)
    due = np.repeat(starts, [number for number, _ in loops])
    values = random.integers(0, 10**5, len(due))
    found = stats.placed(due, values, starts)
    end = {int(a): float(b) for a, b in itertools.pairwise(starts)}
    for at, begin, value in zip(found, due, values, strict=True):
        assert at >= begin
        taken = values[due == begin].sum()
        later = [s for s in starts if s >= begin + max(taken, 1)]
        assert not later or at <= later[0]
        assert value >= 0 and end is not None


def test_a_series_without_samples_has_no_pace() -> None:
    none = np.zeros(0, np.int64)
    assert stats.pace(none, none, none) == stats.Pace(0.0, 0.0)


def test_a_loop_ends_where_another_begins_that_is_not_within_it() -> None:
    """Two loops of 10 samples of 100 ns, one nanosecond apart by their times."""
    due, values = np.repeat([5, 6], 10), np.full(20, 100)
    apart = stats.pace(due, values, np.array([5, 6, 700, 3005]))
    # the loops took 1000 ns each: what begins at 700 is not after them, what begins at 3005 is
    assert apart.distance_ns == pytest.approx(299.9) and apart.median_ns == 100.0
    unknown = stats.pace(due, values, np.array([5, 6]))
    assert unknown == stats.Pace(100.0, 100.0)
    assert stats.pace(due, values, np.zeros(0, np.int64)) == stats.Pace(100.0, 100.0)
    crowded = stats.pace(due, values, np.array([5, 6, 1006]))  # begins as the loops end
    assert crowded.distance_ns == pytest.approx(100.0)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(0, 5000), st.lists(st.integers(0, 900), min_size=1, max_size=9)),
        min_size=1,
        max_size=8,
    ),
    st.integers(0, 400),
)
def test_samples_are_laid_one_after_the_other(
    loops: list[tuple[int, list[int]]], distance: int
) -> None:
    """Each a distance after the one before, and later by what that took more than the median; not
    before its loop, nor after the next one began."""
    begins = np.cumsum([1 + gap for gap, _ in loops])
    due = np.repeat(begins, [len(values) for _, values in loops])
    every = np.array([value for _, values in loops for value in values])
    rhythm = stats.Pace(float(distance), 200.0)
    expected = []
    for at, (_, values) in enumerate(loops):
        offset, begin = 0, int(begins[at])
        for value in values:
            room = int(begins[at + 1]) - begin if at + 1 < len(loops) else 1 << 62
            expected.append(begin + min(max(offset, 0), room))
            offset += distance + value - 200
    assert rhythm.laid(due, every).tolist() == expected


# --- what comes back ------------------------------------------------------------------------------


@pytest.mark.parametrize("hz", [100, 250, 300, 1000, 137, 41.3])
def test_a_comb_is_found_with_its_period(hz: float) -> None:
    random = np.random.default_rng(int(hz))
    exposure = _exposed(random, 40_000, 2.0)
    ticks = np.arange(0.37e9 / hz, exposure.max(), 1e9 / hz)
    near = np.searchsorted(exposure, ticks)
    hits = exposure[np.unique(near[near < len(exposure)])]
    hits = hits[np.abs((hits * hz / 1e9 - 0.37) % 1.0) < 0.02]
    found = stats.comb(hits + random.uniform(0, 2e3, len(hits)), stats.Exposure(exposure))
    assert found is not None
    assert found.period_ns == pytest.approx(1e9 / hz, rel=2e-3)
    assert found.share > 0.95


def test_a_few_hits_of_the_tick_are_enough_and_random_ones_are_not() -> None:
    random = np.random.default_rng(3)
    exposure = _exposed(random, 20_000, 1.5)
    ticks = np.sort(random.choice(np.arange(1, 370), 14, replace=False)) * 4 * MS
    found = stats.comb(ticks + random.uniform(0, 1e5, 14), stats.Exposure(exposure))
    assert found is not None
    assert found.period_ns == pytest.approx(4 * MS, rel=1e-3)
    assert stats.comb(ticks[:9], stats.Exposure(exposure)) is None


@pytest.mark.slow
def test_hits_at_random_are_no_comb() -> None:
    """Hardly one of 300 sets of hits at random samples, with loops and rests, is taken for a comb:
    the rhythm of the sampling is not a finding."""
    wrong = 0
    for seed in range(300):
        random = np.random.default_rng(seed)
        exposure = _exposed(random, 5_000, 1.5)
        hits = random.choice(exposure, int(random.integers(12, 400)), replace=False)
        wrong += stats.comb(hits, stats.Exposure(exposure)) is not None
    assert wrong <= 3


@pytest.mark.slow
@pytest.mark.parametrize(("width_ns", "bursts", "each"), [(2e6, 3, 6), (1.5e6, 10, 5)])
def test_a_few_bursts_of_hits_are_no_comb(width_ns: float, bursts: int, each: int) -> None:
    grid = np.arange(0, 5e9, 3e5)
    wrong = 0
    for seed in range(30):
        random = np.random.default_rng(seed)
        excess = np.abs(random.normal(0, 10, len(grid)))
        for begin in random.uniform(0, 5e9 - width_ns, bursts):
            inside = np.flatnonzero((grid > begin) & (grid < begin + width_ns))
            hit = random.choice(inside, min(each, len(inside)), replace=False)
            excess[hit] += random.uniform(5000, 9000, len(hit))
        wrong += stats.second_line(grid, excess, (100,)) is not None
    assert wrong <= 1


def test_hits_that_follow_a_grid_of_samples_are_no_comb() -> None:
    """Samples every millisecond: hits on that grid say nothing."""
    random = np.random.default_rng(5)
    exposure: NDArray[np.float64] = np.arange(4000, dtype=np.float64) * MS
    for _ in range(20):
        hits = np.sort(random.choice(exposure, 60, replace=False))
        assert stats.comb(hits, stats.Exposure(exposure)) is None
    found = stats.comb(exposure[::7], stats.Exposure(exposure))  # but every seventh is
    assert found is not None
    assert found.period_ns == pytest.approx(7 * MS, rel=1e-3)


def test_the_second_line_is_sized_and_timed() -> None:
    """One sample of some hundred lies 1.9 us above the others, every 4 ms; five lie anywhere."""
    random = np.random.default_rng(7)
    times = _exposed(random, 60_000, 2.0)
    excess = random.normal(0, 20, len(times))
    ticks = np.arange(MS, times.max(), 4 * MS)
    at = np.searchsorted(times, ticks)
    at = np.unique(at[(at < len(times))])
    at = at[(times[at] - MS) % (4 * MS) < 2e5]
    excess[at] += 1900 + random.normal(0, 60, len(at))
    excess[random.choice(len(times), 5, replace=False)] += 9000
    line = stats.second_line(times, excess)
    assert line is not None
    assert line.comb.period_ns == pytest.approx(4 * MS, rel=1e-3)
    assert line.excess_ns == pytest.approx(1900, abs=60)
    assert len(at) * 0.8 <= line.number <= len(at) + 5
    assert stats.second_line(times, random.exponential(100, len(times))) is None
    assert stats.second_line(times[:20], excess[:20]) is None


def _ticks(random: np.random.Generator, share: dict[int, float]) -> stats.Line | None:
    """10 s of loops with a tick of 2 us every 4 ms, that share of which counts so many times."""
    times = np.sort(random.uniform(0, 10e9, 200_000))
    excess = random.normal(0, 20, len(times)) + random.exponential(30, len(times))
    ticks = np.arange(MS, 10e9, 4 * MS)
    at = np.unique(np.searchsorted(times, ticks)[:-1])
    at = at[(times[at] - MS) % (4 * MS) < 2e5]
    each = random.choice([1, *share], len(at), p=[1 - sum(share.values()), *share.values()])
    excess[at] += 2000 * each + random.normal(0, 80, len(at)) + random.exponential(150, len(at))
    return stats.second_line(times, excess, (250,))


@pytest.mark.slow
@pytest.mark.study(97)
def test_lines_at_multiples_of_the_tick_are_found() -> None:
    random = np.random.default_rng(23)
    line = _ticks(random, {2: 0.06, 3: 0.02})
    assert line is not None
    assert line.excess_ns == pytest.approx(2100, abs=80)
    assert set(line.multiples) == {2, 3}
    assert line.multiples[2] > line.multiples[3] > 10
    for _ in range(20):
        alone = _ticks(random, {})
        assert alone is not None
        assert not alone.multiples


@pytest.mark.slow
def test_a_tail_has_no_lines_at_multiples() -> None:
    """Without lines: at most one set of values in a hundred seems to have some."""
    random = np.random.default_rng(29)
    wrong = 0
    for number in range(600):
        shape = 0.3 + 0.7 * (number % 10) / 10
        tail = 1 + random.exponential(shape, 3000)
        wrong += bool(patterns.multiples(tail, 1.0))
        wrong += bool(patterns.multiples(random.lognormal(0.2, shape, 3000), 1.0))
    assert wrong <= 12


@pytest.mark.slow
@given(st.lists(st.floats(0.5, 9), max_size=60), st.integers(2, 8), st.integers(0, 40))
def test_multiples_are_those_of_the_definition(values: list[float], number: int, more: int) -> None:
    excess = np.array([*values, *([float(number)] * more)])
    expected = {}
    for k in range(2, 9):
        near = [sum(abs(one - k - off) <= 0.12 for one in excess) for off in (0, -0.5, 0.5)]
        tail = binom.sf(near[0] - 1, sum(near), 1 / 3)
        if near[0] >= 5 and tail <= 1e-4:
            expected[k] = near[0]
    assert patterns.multiples(excess, 1.0) == expected


@pytest.mark.parametrize("dithered", [False, True])
def test_a_disturbance_between_the_periods_is_timed_with_dither(dithered: bool) -> None:
    """200 us every 7.301 ms, seen by wake-ups every ms for 10 s: as the agent's dither moves them
    (docs/measurements/timer.md), and exactly on the grid: the end of a delay tells the period,
    where the due time would show an alias, 24.3 ms."""
    random = np.random.default_rng(11)
    number = np.arange(10_000)
    sweep = 2 * np.abs((number * (0x04F1BBCD / 2**32)) % 1.0 - 0.5)
    due = (number + (sweep if dithered else 0.0)) * MS
    latency = 3500 + random.normal(0, 100, len(due))
    into = due % 7.301e6
    latency += np.where(into < 2e5, 2e5 - into, 0)
    excess = latency - float(np.median(latency))
    line = stats.second_line(due + latency, excess, (250,), interval_ns=0 if dithered else MS)
    found = 0.0 if line is None else line.comb.period_ns
    assert line is not None
    assert found == pytest.approx(7.301e6, abs=line.comb.error_ns)
    assert line.comb.error_ns < 500
    assert line.worst_ns == pytest.approx(200_000, rel=0.05)


def _on_grid(
    random: np.random.Generator, seconds: float, interval_ns: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Wake-ups on a time grid: when each came, and its excess over the median."""
    count = int(seconds * 1e9 / interval_ns)
    latency = random.lognormal(np.log(5000), 0.25, count)
    return np.arange(count, dtype=np.float64) * interval_ns, latency


def _found(
    grid: NDArray[np.float64], latency: NDArray[np.float64], interval_ns: int
) -> stats.Line | None:
    excess = latency - float(np.median(latency))
    return stats.second_line(grid + latency, excess, (250,), interval_ns=interval_ns)


@pytest.mark.parametrize(
    ("interval_ns", "lengths"),
    [
        (MS, (4.0,)),  # one noisy episode
        (MS, (0.3, 0.2)),  # bursts
        (MS, (0.05,) * 4),
        (10 * MS, (4.0,)),
        (10 * MS, (2.0, 1.0)),
    ],
)
@pytest.mark.slow
def test_the_rhythm_of_the_grid_is_no_second_line(
    interval_ns: int, lengths: tuple[float, ...]
) -> None:
    """Where the large samples come in episodes, the grid's own frequency stands out."""
    wrong = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        grid, latency = _on_grid(random, 25.0, interval_ns)
        for length in lengths:
            begin = random.uniform(0, 25.0 - length) * 1e9
            noisy = (grid >= begin) & (grid < begin + length * 1e9)
            latency[noisy] *= random.lognormal(1.0, 0.5, int(noisy.sum()))
        wrong += _found(grid, latency, interval_ns) is not None
    assert wrong == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("interval_ns", "period_ns", "length_ns"),
    [
        (MS, 37_130_000, 1_200_000),
        (MS, 14_370_000, 1_200_000),
        (10 * MS, 150 * MS, 12 * MS),
        (10 * MS, 377_700_000, 12 * MS),
    ],
)
def test_a_true_period_is_found_on_a_grid(interval_ns: int, period_ns: int, length_ns: int) -> None:
    """An event of that length holds up what would wake up within it, until it ends."""
    for seed in range(5):
        random = np.random.default_rng(seed)
        grid, latency = _on_grid(random, 25.0, interval_ns)
        events = np.arange(random.uniform(0, period_ns), 25e9 - 2 * interval_ns, period_ns)
        at = np.searchsorted(grid, events)
        held = events + length_ns - grid[at]
        latency[at[held > 0]] += held[held > 0]
        found = _found(grid, latency, interval_ns)
        assert found is not None
        # a tenth of what 25 s resolve
        assert 1e9 / found.comb.period_ns == pytest.approx(1e9 / period_ns, abs=0.004)


def test_the_rhythm_of_the_loops_is_no_second_line() -> None:
    """The hundredth of each 300 samples is slow: periodic, but of the measurement's making."""
    random = np.random.default_rng(13)
    loops, number = 400, 300
    place = np.tile(np.arange(number) / number, loops)
    times = np.repeat(np.arange(loops) * 7.3 * MS, number) + place * 5 * MS
    excess = np.abs(random.normal(0, 20, len(times)))
    excess[100::number] += 1900
    assert stats.second_line(times, excess) is not None
    assert stats.second_line(times, excess, place=place) is None
    known = stats.second_line(times, excess, (1000 / 7.3,), place)
    assert known is not None and known.comb.period_ns == pytest.approx(7.3 * MS, rel=1e-3)


def test_aliases_have_the_same_phases_on_the_grid() -> None:
    """Whatever the multiple of the interval at which a sample is taken."""
    points = np.arange(50) * 1e6
    for period in (7.301e6, 2.9e6, 41.7e6):
        for other in stats.aliases(period, 1e6):
            assert other != pytest.approx(period)
            true, seen = (points / one % 1.0 for one in (period, other))
            alike = np.abs(true - seen), np.abs((true + seen) % 1.0)
            assert min(np.minimum(one, 1 - one).max() for one in alike) < 1e-6


@pytest.mark.slow
def test_the_period_found_is_the_longest_that_explains_the_hits() -> None:
    """Every third hit of a rhythm missing at random leaves its period, not a part or a multiple."""
    random = np.random.default_rng(17)
    span = np.array([0.0, 60e9])
    for _ in range(20):
        period = random.uniform(20e6, 900e6)
        ticks = np.arange(random.uniform(0, period), 60e9, period)
        hits = ticks[random.random(len(ticks)) < 0.66]
        found = stats.comb(hits + random.normal(0, 1e5, len(hits)), stats.Exposure(span))
        assert found is not None
        assert found.period_ns == pytest.approx(period, rel=1e-4)
        assert found.share > 0.95
        assert sum(stats.folded(hits, found)) == len(hits)
        middle = stats.folded(hits, found, 10)
        assert middle[4] + middle[5] > 0.95 * len(hits)


# --- two groups ----------------------------------------------------------------------------------


def test_two_groups_of_values_are_told_apart() -> None:
    random = np.random.default_rng(9)
    low, high = random.normal(900, 60, 9000), random.normal(4200, 300, 1000)
    found = stats.valley(stats.Counts.from_arrays([np.concatenate([low, high]).astype(np.int64)]))
    assert found is not None
    assert found.above == 1000
    assert found.low == pytest.approx(np.median(low), rel=0.01)
    assert found.high == pytest.approx(np.median(high), rel=0.01)


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(1).lognormal(8, 0.6, 20_000),
        np.random.default_rng(2).uniform(1000, 5000, 5000),
        np.random.default_rng(3).exponential(2000, 20_000),
        np.concatenate([np.full(995, 1000), np.full(5, 90_000)]),  # too few to be a group
        np.repeat([13, 33], [5000, 5000]),  # the steps of a clock
        np.full(1000, 7),
        np.arange(50),
    ],
)
def test_one_group_is_one(values: np.ndarray) -> None:
    assert stats.valley(stats.Counts.from_arrays([values.astype(np.int64)])) is None


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [(1000, 1540, True), (1000, 1530, False), (100, 199, False), (100, 200, True)],
)
def test_groups_of_one_value_each(low: int, high: int, found: bool) -> None:
    """From the end of the bin of 1000, 1024, to the bin of 1540, which begins at 1536, is just
    more than half an octave; the bin of 1530 begins at 1408. And 100 between the medians."""
    for number in (500, 4000):
        values = np.repeat([low, high], [number, 500])
        valley = stats.valley(stats.Counts.from_arrays([values]))
        assert valley == (stats.Valley(low, high, 500) if found else None)


@pytest.mark.parametrize(
    ("lower", "upper", "outliers"), [(9900, 100, 0), (9100, 900, 0), (9901, 99, 0), (9850, 145, 5)]
)
def test_a_narrow_upper_group_of_a_hundredth_is_found(
    lower: int, upper: int, outliers: int
) -> None:
    """Although it is less than a tenth of the lower group's fullest bin."""
    values = np.repeat([1000, 4000, 10**6], [lower, upper, outliers])
    found = stats.valley(stats.Counts.from_arrays([values]))
    assert found == (stats.Valley(1000, 4000, upper + outliers) if upper >= 100 else None)


def _two_groups(values: list[int]) -> stats.Valley | None:
    """The definition, bin by bin: the widest stretch between two groups, the lowest of equals."""

    def bin_of(value: int) -> int:
        shift = max(value.bit_length() - 4, 0)
        return shift * 8 + (value >> shift)

    def begin_of(number: int) -> int:
        shift = max(number // 8 - 1, 0)
        return (number - shift * 8) << shift

    values = sorted(values)
    held = Counter(map(bin_of, values))
    lowest, highest = bin_of(values[0]), bin_of(values[-1])
    best, width = None, 0
    for start in range(lowest + 1, highest):
        fits = [
            stop
            for stop in range(start + 1, highest + 1)
            if max(held[n] for n in range(start, stop)) * 10
            <= min(
                max(held[n] for n in range(lowest, start)),
                max(held[n] for n in range(stop, highest + 1)),
            )
        ]
        if not fits or begin_of(fits[-1]) / max(begin_of(start), 1) < 2**0.5:
            continue
        parted = lowest + (start + fits[-1] - 2 * lowest) // 2
        lower = [value for value in values if bin_of(value) < parted]
        upper = values[len(lower) :]
        if min(len(lower), len(upper)) < max(len(values) / 100, 10):
            continue
        low, high = lower[(len(lower) - 1) // 2], upper[(len(upper) - 1) // 2]
        if high >= max(1.5 * low, low + 100) and fits[-1] - start > width:
            best, width = stats.Valley(low, high, len(upper)), fits[-1] - start
    return best


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(5, 5000), st.integers(1, 30), st.integers(1, 400)),
        min_size=2,
        max_size=4,
    )
)
@settings(max_examples=60)
def test_two_groups_are_those_of_the_definition(groups: list[tuple[int, int, int]]) -> None:
    """Groups of some values each, narrow or wide, near or apart, large or small."""
    values = [
        middle + step % width for middle, width, number in groups for step in range(number + 20)
    ]
    found = stats.valley(stats.Counts.from_arrays([np.array(values, np.int64)]))
    assert found == (_two_groups(values) if len(values) >= 100 else None)


@pytest.mark.slow
@given(st.lists(st.integers(0, 10**7), min_size=100, max_size=400))
@settings(max_examples=60, deadline=None)
def test_what_is_called_two_groups_are_two(values: list[int]) -> None:
    found = stats.valley(stats.Counts.from_arrays([np.array(values, np.int64)]))
    if found is not None:
        assert min(found.above, len(values) - found.above) >= 10
        upper = sorted(values)[-found.above :]
        assert found.high in upper
        assert found.low in sorted(values)[: -found.above]
        assert found.high == upper[(len(upper) + 1) // 2 - 1]


# --- growth --------------------------------------------------------------------------------------


def _plain(points: list[tuple[float, float, float, float]]) -> float:
    pairs = [
        (b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.product(points, points) if b[0] > a[0]
    ]
    return float(np.median(pairs))


numbers = st.integers(-(10**6), 10**6)


@given(
    st.lists(st.tuples(st.integers(0, 200), numbers, st.integers(0, 99)), min_size=3, max_size=12)
)
@settings(max_examples=100, deadline=None)
def test_the_slope_is_the_median_of_all_pairs(rows: list[tuple[int, int, int]]) -> None:
    points = [(float(x), float(v), float(v - w), float(v + w)) for x, v, w in rows]
    found = stats.slope(points)
    if len({x for x, _, _ in rows}) < 3:
        assert found is None
        return
    assert found is not None
    assert found.each == pytest.approx(_plain(points))
    assert found.low <= found.high


def test_the_interval_of_a_slope_holds_it() -> None:
    """Sen's interval holds the true slope of at least 95 % of 200 lines of 12 points."""
    random = np.random.default_rng(11)
    inside = 0
    for _ in range(200):
        values = 50 + 3.0 * np.arange(12) + random.normal(0, 4, 12)
        found = stats.slope([(float(x), v, v, v) for x, v in enumerate(values.tolist())])
        assert found is not None
        inside += found.low <= 3.0 <= found.high
    assert inside >= 185
    few = stats.slope([(0, 5, 4, 6), (1, 6, 5, 7), (2, 7, 6, 8)])
    assert few is not None
    assert (few.each, few.low, few.high) == (1.0, -1.0, 3.0)


def test_a_slope_of_many_points_at_one_place_has_the_widest_limits() -> None:
    """Sen's interval would reach beyond all pairs."""
    points = [(0.0, 0.0, 0.0, 0.0)] * 100 + [(float(x), 2.0 * x * x, 0.0, 0.0) for x in range(1, 6)]
    found = stats.slope([(x, v, v - 1, v + 1) for x, v, _, _ in points])
    assert found is not None
    assert (found.low, found.high) == (0.0, 20.0)  # (2-1) - (0+1) over 1; (50+1) - (32-1) over 1


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(-50, 50), st.integers(0, 9), st.integers(0, 9)),
        min_size=4,
        max_size=14,
    )
)
def test_the_limits_of_a_slope_are_sens(rows: list[tuple[int, int, int, int]]) -> None:
    """Written out: all pairs of different x, each from its min to its max slope."""
    points = [(float(x), float(v), float(v - a), float(v + b)) for x, v, a, b in rows]
    found = stats.slope(points)
    places = len({x for x, *_ in rows})
    if places < 3:
        assert found is None
        return
    lows, highs = [], []
    for one, other in itertools.permutations(points, 2):
        if other[0] > one[0]:
            lows.append((other[2] - one[3]) / (other[0] - one[0]))
            highs.append((other[3] - one[2]) / (other[0] - one[0]))
    number = len(rows)
    spread = 1.96 * (number * (number - 1) * (2 * number + 5) / 18) ** 0.5
    rank = max(round((len(lows) - spread) / 2), 1) if places >= 6 else 1
    assert found is not None
    assert found.low == pytest.approx(sorted(lows)[rank - 1])
    assert found.high == pytest.approx(sorted(highs)[len(highs) - rank])


@pytest.mark.slow
def test_the_interval_of_a_slope_covers_it_as_often_as_it_promises() -> None:
    """In all orders of seven values, which have no slope on average."""
    covered = 0
    for order in itertools.permutations(range(7)):
        found = stats.slope([(float(x), float(v), float(v), float(v)) for x, v in enumerate(order)])
        assert found is not None
        covered += found.low <= 0 <= found.high
    assert covered >= 0.95 * math.factorial(7)


@pytest.mark.parametrize("hz", [137.0, 250.0, 41.0])
def test_the_spectrum_is_the_statistic_at_each_frequency(hz: float) -> None:
    """With the rhythm of the samples, loops of 5 ms every 7.3 ms (137 Hz), taken out."""
    random = np.random.default_rng(int(hz))
    inside = np.sort(random.uniform(0, 5 * MS, (280, 40)), axis=1)
    times = 3e9 + (inside + np.arange(280)[:, None] * 7.3 * MS).ravel()
    hits = random.choice(times[(times * hz / 1e9) % 1.0 < 0.3], 90, replace=False)
    exposure = stats.Exposure(times)
    hits = np.sort(hits) - exposure.origin
    beyond, free = exposure.beyond(hits, exposure.frequencies), exposure.free
    assert free is not None
    slow = int(500 / exposure.step_hz)
    for at in np.argsort(-beyond[:slow])[:20].tolist():
        turn = 2j * np.pi * at * exposure.step_hz / 1e9
        mean = np.exp(turn * (times - exposure.origin)).mean()
        power = abs(np.exp(turn * hits).sum() - 90 * mean) ** 2
        assert beyond[at] == pytest.approx(power, rel=0.1)  # bins of 0.1 ms
        assert free[at] == pytest.approx(1 - abs(mean) ** 2, abs=0.02)
    assert hz == 137.0 or abs(int(np.argmax(beyond[:slow])) * exposure.step_hz - hz) < 0.5


@pytest.mark.parametrize("length", [1, 2, 5, 1023, 1024])
def test_the_median_of_each_row_is_that_of_numpy(length: int) -> None:
    rows = np.random.default_rng(length).exponential(1, (7, length))
    rows[1, : length // 3] = 0.0
    medians = np.median(rows, axis=1, keepdims=True)
    assert rhythm._medians(rows).tolist() == medians.tolist()


def test_twelve_hits_of_a_known_rate_are_enough() -> None:
    exposure = np.arange(0, 2e9, 1.7e5)
    ticks = np.array([1, 3, 8, 17, 29, 46, 61, 78, 90, 113, 131, 148]) * 10 * MS
    found = stats.comb(ticks, stats.Exposure(exposure))
    assert found is not None and found.period_ns == pytest.approx(10 * MS, rel=1e-3)
    assert stats.comb(ticks[1:], stats.Exposure(exposure)) is None
    near = np.sort(np.concatenate([ticks[1:], ticks[1:] + 200_000]))  # hits within 200 us are one
    assert stats.comb(near, stats.Exposure(exposure)) is None


def _densest(turns: NDArray[np.float64], widths: NDArray[np.float64]) -> tuple[float, float]:
    """Width and held part of the arc that holds the most events beyond chance, by counting."""
    best = (-math.inf, 0.0, 0.0)
    number = len(turns)
    for width in widths.tolist():
        most = max(int(((turns - one) % 1.0 <= width).sum()) for one in turns)
        beyond = most - number * width - 3 * math.sqrt(number * width * (1 - width))
        best = max(best, (beyond, width, most / number), key=lambda one: one[0])
    return best[1], best[2]


@pytest.mark.slow
@pytest.mark.parametrize("bounded", [0, 1 << 17])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.6, 1.0])
@pytest.mark.parametrize("spread", [1e-4, 0.01, 0.1])
def test_the_densest_part_of_a_turn(
    monkeypatch: pytest.MonkeyPatch, bounded: int, share: float, spread: float
) -> None:
    """Against counting from each event on, with bounds that leave widths out and without."""
    monkeypatch.setattr(rhythm, "_BOUNDED", bounded)
    random = np.random.default_rng(11)
    turns = random.random(300)
    regular = random.random(300) < share
    turns[regular] = (0.95 + random.normal(0, spread, int(regular.sum()))) % 1.0
    found = rhythm._arc(turns, rhythm._WIDTHS)
    width, inside = _densest(turns, rhythm._WIDTHS)
    assert (found.width, found.inside) == (width, inside)
    held = np.abs((turns - found.middle + 0.5) % 1.0 - 0.5) <= width / 2 + 1e-12
    assert held.mean() == inside


@pytest.mark.parametrize("parts", [1 << 6, 1 << 16])
def test_bounds_of_the_densest_part_hold(monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    """No part of a turn has more events than its bound, and fine bounds are within a few."""
    monkeypatch.setattr(rhythm, "_PARTS", parts)
    random = np.random.default_rng(12)
    widths = np.array([0.001, 1 / 64, 0.0473, 0.25, 0.5])
    for turns in (random.random(500), np.arange(500) / 500, np.full(500, 0.999), np.zeros(9)):
        phase = np.sort(turns)
        bounds = rhythm._most(np.concatenate((phase, phase + 1.0)), widths)
        for width, bound in zip(widths.tolist(), bounds.tolist(), strict=True):
            most = max(int(((phase - one) % 1.0 <= width).sum()) for one in phase)
            assert most <= bound <= len(phase)
            if parts == 1 << 16:
                assert bound <= most + 2


@pytest.mark.slow
@pytest.mark.parametrize("extra", [0, 10])
def test_a_rhythm_of_few_periods_has_its_own_period(extra: int) -> None:
    """15 events, one each second, and some at random: no shorter period that holds them, too."""
    found = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        ticks = (np.arange(15) + random.uniform(0, 1)) * 1e9 + random.normal(0, 5e4, 15)
        hits = np.append(ticks, random.uniform(0, 15e9, extra))
        one = stats.comb(hits, stats.Exposure(np.array([0, 16e9])), interval_ns=MS, dithered=True)
        found += [] if one is None else [one.period_ns]
    assert len(found) >= 19
    assert found == pytest.approx([1e9] * len(found), rel=1e-3)


@pytest.mark.slow
def test_events_in_few_of_many_periods_have_their_own_period() -> None:
    """12 to 20 of 100 periods: that most of them are even by chance is not a rhythm of two."""
    found = []
    for seed in range(80):
        random = np.random.default_rng([seed, 100])
        number = int(random.integers(12, 21))
        turns = random.choice(100, number, replace=False) + random.uniform(0, 1)
        hits = turns * 1e9 + random.normal(0, 5e4, number)
        one = stats.comb(hits, stats.Exposure(np.array([0, 101e9])))
        found += [] if one is None else [one.period_ns]
    assert len(found) >= 70
    assert found == pytest.approx([1e9] * len(found), rel=1e-3)


@pytest.mark.parametrize(("seed", "draws", "jitter_ns"), [(1, 604, 12_500), (10, 331, 125_000)])
def test_a_rhythm_that_is_found_at_a_multiple_is_not_taken_for_pairs(
    seed: int, draws: int, jitter_ns: float
) -> None:
    """Found at 4 times its rate. Events once a period also come twice in two periods."""
    random = np.random.default_rng([2311, 5, seed])
    for _ in range(draws):  # the last set is one of few where that happens
        period = 5e9 / random.uniform(100, 800)
        turns = random.choice(np.arange(1, int(5e9 / period) - 1), 80, replace=False)
        ticks = turns * period + random.uniform(0, period) + random.normal(0, jitter_ns, 80)
        hits = np.concatenate((ticks, random.uniform(0, 5e9, 320)))
    one = stats.comb(hits, stats.Exposure(np.array([0, 5e9])))
    assert one is not None
    assert one.period_ns == pytest.approx(period, rel=1e-3)


@pytest.mark.slow
def test_events_in_each_second_turn_have_twice_the_period() -> None:
    """Found at twice its rate, a rhythm with events at random in between gets its own period."""
    for seed in range(20):
        random = np.random.default_rng([seed, 2])
        ticks = np.arange(40) * 2e9 + random.normal(0, 5e6, 40)
        hits = np.append(ticks, random.uniform(0, 80e9, 40))
        one = stats.comb(np.clip(hits, 0, 80e9), stats.Exposure(np.array([0, 80e9])))
        assert one is not None
        assert one.period_ns == pytest.approx(2e9, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("off", [0.25, 1 / 3, 0.37, 0.413])
@pytest.mark.parametrize("number", [6, 8, 10, 20, 30])
def test_two_events_a_period_are_not_taken_for_a_part_of_it(off: float, number: int) -> None:
    """With enough periods their own is found, with fewer none."""
    for seed in range(5):
        random = np.random.default_rng(seed)
        ticks = (np.arange(number) + random.uniform(0, 1 - off))[:, None] + [0, off]
        hits = ticks.ravel() * 1e9 + random.normal(0, 5e4, 2 * number)
        found = stats.comb(hits, stats.Exposure(np.array([0, number * 1e9])))
        if number < 20:
            assert found is None or found.period_ns == pytest.approx(1e9, rel=1e-3)
        else:
            assert found is not None
            assert found.period_ns == pytest.approx(1e9, rel=1e-3)


@pytest.mark.slow
@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=60),
    st.integers(3, 9),
    st.sampled_from([0.0, 0.1, 0.25]),
)
def test_pairs_are_those_of_the_least_chance(turns: list[int], period: int, share: float) -> None:
    """Each part of the rate is counted: two turns of it hold three quarters of the events beyond
    chance."""
    turns += [period * turn + first for turn in range(20) for first in (0, 1)]
    arc = rhythm._Arc(0.0, 0.1, 1.0 - share, 1.0 - share)
    others = share * 0.1 / (1 - share)
    each = sorted(set(turns))
    expected, least = 1, 1.0
    for divisor in range(3, (each[-1] - each[0]) // 2 + 1):
        counted = Counter(turn % divisor for turn in each).most_common(2)
        two = sum(number for _, number in counted)
        held = (two / len(each) - others * 2 / divisor) / (1 - others)
        chance = math.comb(divisor, 2) * binom.sf(two - 1, len(each), 2 / divisor)
        if held >= 0.75 and (held >= 0.9 or chance <= 1e-4) and chance < least * (1 - 1e-9):
            expected, least = divisor, chance
    divisor, doubt = rhythm._in_pairs(np.array(turns, np.float64), arc)
    assert doubt == pytest.approx(least, rel=1e-6)
    assert divisor in (expected, expected / 2)


def test_events_in_each_turn_are_not_searched_for_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """No part of the rate holds most of them in two turns, so none is counted."""
    counted = []
    count = np.bincount

    def counting(*words: Any, **more: Any) -> Any:
        counted.append(len(words[0]))
        return count(*words, **more)

    monkeypatch.setattr(np, "bincount", counting)
    for step in (1, 2, 30):
        counted.clear()
        turns = np.arange(0, 100_000 * step, step, dtype=np.float64)
        found = rhythm._in_pairs(turns, rhythm._Arc(0.0, 0.1, 1.0, 1.0))
        assert sum(counted) <= 3 * turns[-1]
        assert (found[1] < 1) == (step > 1)


def test_loops_of_which_the_last_ends_late_do_not_stretch_the_times() -> None:
    """A tick of 4 ms in two loops of 256 samples, one each 138 us; after the last comes a rest.
    What the loops leave open of the times is part of the period's error."""
    right = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        true = np.arange(512) * 138e3
        tick = random.uniform(0, 4 * MS)
        value = 600 + 10 * random.integers(0, 4, 512)
        value += 60 * (np.diff(np.floor((np.append(true, 512 * 138e3) - tick) / (4 * MS))) > 0)
        due, starts = np.repeat([0, 256 * 138_000], 256), np.array([0, 256 * 138_000, 75_356_000])
        times, pace = stats.placed(due, value, starts), stats.pace(due, value, starts)
        assert pace.distance_ns == pytest.approx(138e3, rel=1e-3)
        assert pace.error_ns == pytest.approx(4.7e6 / 256, rel=1e-2)
        excess = value - np.median(value)
        late = np.asarray(np.arange(512) % 256 * pace.error_ns, np.float64)
        alone = stats.second_line(times, excess)
        line = stats.second_line(times, excess, late_ns=late)
        if line is not None and alone is not None:
            assert line.comb.period_ns == pytest.approx(4 * MS, abs=line.comb.error_ns)
            assert line.comb.error_ns > 10 * alone.comb.error_ns
            right += line.comb.near([250])
    assert right >= 18


def test_the_pace_is_that_of_the_quicker_quarter_of_the_loops() -> None:
    """Loops of 4 samples, and the time from each to the next: a quarter of the way up."""
    starts = np.cumsum([0, 4000, 8000, 6000, 12_000, 10_000])
    due, values = np.repeat(starts, 4), np.full(24, 100)
    found = stats.pace(due, values, starts)
    assert found.distance_ns == np.quantile([1000, 2000, 1500, 3000, 2500], 0.25) == 1500
    assert found.error_ns == 1000  # two ranks of a binomial spread, as far as there are loops
    # samples that took no time do not end their loop where it begins
    assert stats.pace(due, np.zeros(24, np.int64), starts).distance_ns == 1500


@pytest.mark.parametrize(("between", "found"), [(100, True), (101, False)])
def test_a_tenth_of_the_lesser_group_may_lie_between(between: int, found: bool) -> None:
    values = np.repeat([1000, 1400, 2000], [9000, between, 1000])
    assert (stats.valley(stats.Counts.from_arrays([values])) is not None) == found


@pytest.mark.parametrize(("apart_ns", "hits"), [(200_000, 12), (200_001, 24)])
def test_events_that_are_200_us_apart_are_one(apart_ns: int, hits: int) -> None:
    ticks = np.array([1, 3, 8, 17, 29, 46, 61, 78, 90, 113, 131, 148]) * 10 * MS
    exposure = stats.Exposure(np.arange(0, 2e9, 1.7e5))
    found = stats.comb(np.concatenate([ticks, ticks + apart_ns]), exposure)
    assert found is not None
    assert found.hits == hits
    assert found.period_ns == pytest.approx(10 * MS, rel=1e-3)


@pytest.mark.parametrize(("period", "found"), [(1999, 1999), (2000, 2000), (2001, 667)])
def test_pairs_come_back_within_2000_turns(period: int, found: int) -> None:
    """A period of 2001 turns is three of 667, and those are tried."""
    turns = (np.arange(20)[:, None] * period + [0, 1]).ravel().astype(np.float64)
    assert rhythm._in_pairs(turns, rhythm._Arc(0.0, 0.1, 1.0, 1.0))[0] == found


@pytest.mark.parametrize("hz", [3.0, 137.0, 2500.0])
def test_means_are_those_of_all_samples(hz: float) -> None:
    """Samples in a loop of 7.3 ms, from the first one on."""
    random = np.random.default_rng(19)
    times = 2e9 + np.sort(np.arange(3000) // 10 * 7.3 * MS + random.uniform(0, 2 * MS, 3000))
    means = rhythm._means(stats.Exposure(times), hz, 4)
    since = times - times[0]
    for harmonic, mean in enumerate(means.tolist(), 1):
        turn = 2 * math.pi * harmonic * hz * since / 1e9
        expected = complex(np.cos(turn).mean(), np.sin(turn).mean())
        assert mean == pytest.approx(expected, abs=1e-9)
    assert abs(means[0]) > 1e-3
    ends = rhythm._means(stats.Exposure(times[[0, -1]]), hz, 3)  # samples everywhere
    assert ends.tolist() == [0.0] * 3


@pytest.mark.parametrize(
    ("periods", "found"), [(10.5, False), (10.999, False), (11, True), (11.001, True)]
)
def test_a_slower_rhythm_has_twelve_events_in_its_span(periods: float, found: bool) -> None:
    """Events once a second, found at twice that rate."""
    hits: NDArray[np.float64] = np.arange(int(periods) + 1, dtype=np.float64) * 1e9
    exposure = stats.Exposure(np.array([0.0, periods * 1e9]))
    arc = rhythm._arc(hits * 2 / 1e9, rhythm._WIDTHS)
    slower = rhythm._slower(hits, exposure, 2.0, arc)
    assert (slower is not None) == found
    assert slower is None or (slower[0], slower[1].width) == (1.0, arc.width / 2)


@pytest.mark.parametrize(
    ("at_limit", "beyond", "times"), [(0, 0, 1.0), (4, 0, 4 / 3), (4, 4, 2.0), (24, 0, 5.0)]
)
def test_the_period_has_the_error_of_the_line(at_limit: int, beyond: int, times: float) -> None:
    """That of scipy.stats.linregress through events within 0.075 of a turn, divided by the part
    that is left when those near that limit, more than a fifth even, hold the line: none of 40,
    a quarter and a half of what an even spread has there, or more than four fifths of it."""
    off = np.tile([0.01, -0.01, -0.01, 0.01], 10)
    turns = np.arange(40) + off
    turns[:at_limit] += np.sign(off[:at_limit]) * 0.06
    more = 3 + np.arange(beyond) * 7 + np.resize([0.085, -0.085, -0.085, 0.085], beyond)
    every = np.append(turns, more)
    hits = np.sort(every) * MS + 0.3e6
    arc = rhythm._Arc(0.3, 0.05, 0.9, 0.95)
    found = rhythm._fitted(hits, 5e9, 1000.0, arc, 12.0)
    line = linregress(np.arange(40), turns * MS + 0.3e6)
    assert found.period_ns == pytest.approx(line.slope, rel=1e-9)
    assert found.phase_ns == pytest.approx((line.intercept + 5e9) % line.slope, abs=1e-2)
    assert found.error_ns == pytest.approx(2 * line.stderr * times, rel=1e-6)
    assert found.width_ns == pytest.approx(0.05 * found.period_ns)
    assert (found.hits, found.share, found.inside, found.power) == (len(every), 0.9, 0.95, 12.0)


@pytest.mark.parametrize("width", [0.05, 0.4])
def test_the_line_goes_through_what_lies_near_the_rhythm(width: float) -> None:
    """One and a half times the width away at most, and never more than 0.3 of a turn."""
    reach = min(1.5 * width, 0.3)
    hits = np.arange(40.0) * MS
    hits[[12, 27]] += (reach - 0.001) * MS  # within
    hits[[13, 26]] += (reach + 0.002) * MS
    found = rhythm._fitted(hits, 0.0, 1000.0, rhythm._Arc(0.0, width, 0.9, 0.95), 12.0)
    near = np.delete(np.arange(40), [13, 26])
    line = linregress(near, hits[near])
    assert found.period_ns == pytest.approx(line.slope, rel=1e-12)


def test_parts_of_a_turn_from_a_thousandth_to_a_half_are_tried() -> None:
    """Events at the same moment of each turn, and all over one half of the turns."""
    for turns, width in ((np.arange(50.0), 0.001), (np.linspace(0, 0.5, 501), 0.5)):
        found = rhythm._arc(turns, rhythm._WIDTHS)
        assert (found.width, found.inside) == (width, 1.0)
        assert found.share == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("within", "harmonics"),
    [
        (np.arange(40) / 40, 4),
        (np.arange(4) / 4, 3),  # the fourth is the rhythm of the samples
        (np.arange(40) / 80, 4),  # a mean of 0.64 at the first, 0.2 at the third
        (np.arange(40) / 100, 3),  # a mean of 0.76 at the first: 0.43 of its variance are left
        (np.arange(40) / 400, 0),
    ],
)
def test_harmonics_of_the_sampling_do_not_count(
    within: NDArray[np.float64], harmonics: int
) -> None:
    """200 events at the same place of loops of 4 ms: each harmonic adds as many as there are."""
    times = (np.arange(200)[:, None] + within).ravel() * 4 * MS
    hits: NDArray[np.float64] = np.arange(200, dtype=np.float64) * 4 * MS
    found = rhythm._judged(hits, stats.Exposure(times), 4, 250.0, 1000, 0.0)
    assert (found is not None) == (harmonics > 0)
    if found is not None:
        total = 200.0 * harmonics
        chance = math.log(sum(total**k / math.factorial(k) for k in range(4))) - total
        assert found.power == pytest.approx(-chance - math.log(1000), rel=1e-6)


@pytest.mark.parametrize(
    ("periods", "others", "share", "found"),
    [
        (20, 13, 1.0, True), (20, 14, 1.0, False), (15, 10, 1.0, True), (15, 11, 1.0, False),
        (20, 27, 0.5, True), (20, 28, 0.5, False),
    ],
)  # fmt: skip
def test_pairs_hold_three_quarters_of_the_events(
    periods: int, others: int, share: float, found: bool
) -> None:
    """Two of each ten turns, and further ones between. With a share of 0.5 in an arc of 0.4 that
    holds 0.7 of the events, 2 of 7 are there by chance, and 2/35 of them in the two turns."""
    pairs = (np.arange(periods)[:, None] * 10 + [0, 1]).ravel()
    more = [10 * (5 * at % (periods - 1)) + 2 + at % 8 for at in range(others)]
    turns = np.sort(np.append(pairs, more)).astype(np.float64)
    assert len(np.unique(turns)) == 2 * periods + others
    arc = rhythm._Arc(0.0, 0.4, share, 0.7 if share < 1 else 1.0)
    assert (rhythm._in_pairs(turns, arc)[0] == 10) == found


# --- at the ends of what is claimed ---------------------------------------------------------------


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.lists(st.integers(0, 3), min_size=1, max_size=4)),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.integers(0, 60), max_size=8),
)
def test_a_loop_ends_where_the_next_one_begins(
    loops: list[tuple[int, list[int]]], others: list[int]
) -> None:
    """The first of all loops that begin when its samples are over, and a nanosecond later at
    least."""
    begins = np.cumsum([gap for gap, _ in loops])
    starts = np.sort([*begins.tolist(), *others])
    due = np.repeat(begins, [len(values) for _, values in loops])
    every = np.array([value for _, values in loops for value in values])
    first, number, end = patterns._loops(due, every, starts)
    assert number.tolist() == [len(values) for _, values in loops]
    assert due[first].tolist() == begins.tolist()
    expected = [
        min(
            (one for one in starts.tolist() if one >= begin + max(sum(values), 1)), default=math.inf
        )
        for begin, (_, values) in zip(begins.tolist(), loops, strict=True)
    ]
    assert end.tolist() == expected


@pytest.mark.parametrize("number", [*range(1, 30), 100, 101, 102, 103])
def test_the_pace_of_any_number_of_loops(number: int) -> None:
    """Loops of 4 samples: the lower quartile, and as many ranks about it as two standard deviations
    of a binomial number."""
    lengths = np.random.default_rng(number).permutation(number) * 40 + 1000
    starts = np.concatenate(([0], np.cumsum(lengths)))
    due, values = np.repeat(starts[:-1], 4), np.full(4 * number, 100)
    found = stats.pace(due, values, starts)
    each = np.sort(lengths / 4)
    assert found.distance_ns == np.quantile(each, 0.25, method="lower")
    at = int(np.searchsorted(each, found.distance_ns))
    ranks = math.ceil(2 * float(binom.std(number, 0.25)))
    limits = each[max(at - ranks, 0)], each[min(at + ranks, number - 1)]
    assert found.error_ns == max(abs(limit - found.distance_ns) for limit in limits)


def test_loops_whose_times_fall_are_laid_where_they_begin() -> None:
    """As in a hostile stream: none before its loop, and no loop has room for a second sample."""
    due, values = np.array([50, 50, 40, 40, 40, 10]), np.array([3, 9, 3, 9, 9, 3])
    assert stats.Pace(5.0, 3.0).laid(due, values).tolist() == [50, 50, 40, 40, 40, 10]


def test_a_pace_without_an_error_has_none() -> None:
    assert stats.Pace(5.0, 3.0).error_ns == 0
    # times wrong by a nanosecond would not be on the grid
    assert stats.Pace(5.0, 3.0).within(0.0, np.array([3, 4, 3])).tolist() == [0, 5, 11]


def _ticked(
    tick: float, *, hz: float = 41.3, body: float = 0.0, seconds: float = 4.0
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
    """Samples at random, of which the first of each period took ``tick`` more than the median, and
    three of twenty ``body`` more. Gives times, excess, and which have the tick."""
    random = np.random.default_rng(31)
    times = np.sort(random.uniform(0, seconds * 1e9, 60_000))
    excess = np.where(random.random(len(times)) < 0.15, body, 0.0)
    ticks = np.arange(0.31e9 / hz, seconds * 1e9, 1e9 / hz)
    at = np.unique(np.searchsorted(times, ticks))
    at = at[at < len(times)]
    excess[at] = tick
    return times, excess, at


@pytest.mark.parametrize(
    ("tick", "body", "found"),
    [(1.0, 0.0, False), (1.5, 0.0, True), (200.0, 100.0, False), (201.0, 100.0, True)],
)
def test_a_line_is_above_twice_the_body_and_a_nanosecond(
    tick: float, body: float, found: bool
) -> None:
    times, excess, at = _ticked(tick, body=body)
    line = stats.second_line(times, excess)
    assert (line is not None) == found
    if line is not None:
        assert line.comb.period_ns == pytest.approx(1e9 / 41.3, rel=1e-4)
        assert (line.large, line.worst_ns, line.least_ns) == (len(at), tick, tick)


@pytest.mark.parametrize(
    ("hz", "places", "found"),
    [
        *((rate * off, [0.5], True) for rate in (100, 250, 300, 1000) for off in (0.9955, 1.0045)),
        *((rate * off, [0.5], False) for rate in (100, 250, 300, 1000) for off in (0.9945, 1.0055)),
        (137, [0.25, 0.75], True),  # the two are opposite
        (137, [0.25, 0.25, 0.25, 0.75], False),
        (137, [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], True),
    ],
)
def test_a_rhythm_at_one_place_of_the_loops_is_found_at_a_rate_of_kernels(
    hz: float, places: list[float], found: bool
) -> None:
    """At any rate if it is at places all over the loops, else within half a percent."""
    times, excess, at = _ticked(500.0, hz=hz)
    place = np.random.default_rng(1).random(len(times))
    place[at] = np.resize(places, len(at))
    assert (stats.second_line(times, excess, place=place) is not None) == found


@pytest.mark.slow
def test_the_error_of_the_times_adds_to_that_of_the_period() -> None:
    """As much as a line through the errors of the hits rises in a period."""
    times, excess, at = _ticked(500.0)
    excess[at] += np.random.default_rng(2).permutation(len(at))
    late = np.random.default_rng(3).uniform(0, 9000, len(times))
    for part in (0.0, 0.25, 0.5, 0.75):
        known = stats.second_line(times, excess)
        assert known is not None
        times = times + part * known.comb.period_ns - known.comb.phase_ns  # the phase is that part
        alone = stats.second_line(times, excess)
        line = stats.second_line(times, excess, late_ns=late)
        assert alone is not None and line is not None
        assert alone.large == len(at)
        hits = at[alone.comb.within(times[at])]
        turns = np.rint((times[hits] - alone.comb.phase_ns) / alone.comb.period_ns)
        slope = linregress(turns, late[hits]).slope
        assert line.comb.error_ns == pytest.approx(alone.comb.error_ns + abs(slope), rel=1e-9)
        assert abs(slope) > 1e-3 * alone.comb.error_ns


@pytest.mark.parametrize("samples", [121, 200, 500, 4000])
def test_a_fifth_of_the_samples_is_searched(samples: int) -> None:
    """The largest 24, 96 and so on, up to that: of a rhythm of 300 hits, the more the better."""
    times: NDArray[np.float64] = np.arange(300, dtype=np.float64) * 24.3e6
    excess = np.random.default_rng(5).permutation(times) / 24.3e6 + 1000
    line = stats.disturber(times, excess, stats.Exposure(np.array([0, 300 * 24.3e6])), samples)
    assert line is not None
    assert line.large == min(samples // 5, 300)
    assert line.least_ns == np.sort(excess)[-line.large]


@pytest.mark.parametrize(("near", "found"), [(8, False), (9, True)])
def test_nine_values_near_a_multiple_are_a_line(near: int, found: bool) -> None:
    """Eight are by chance with a probability of 1.5 in 10 000."""
    assert (1 / 3) ** 9 < 1e-4 < (1 / 3) ** 8
    assert patterns.multiples(np.full(near, 2.0), 1.0) == ({2: near} if found else {})


@pytest.mark.parametrize(
    ("others", "found"), [(1.5, False), (2.5, False), (1.37, True), (2.63, True), (1.0, True)]
)
def test_values_near_the_halves_around_a_multiple_speak_against_it(
    others: float, found: bool
) -> None:
    """Twelve of eighteen are by chance with a probability of 4 in 1000."""
    assert 1e-4 < binom.sf(11, 18, 1 / 3) < 0.005
    values = np.array([2.0] * 12 + [others] * 6)
    assert patterns.multiples(values, 1.0) == ({2: 12} if found else {})


@pytest.mark.parametrize(
    ("groups", "low"),
    [
        ({0: 500, 1000: 500}, 0),
        ({1000: 190, 5000: 10}, 1000),
        ({1000: 191, 5000: 9}, None),
        ({1024: 100, 2048: 100, 4096: 100}, 1024),  # equally far apart
        ({1000: 50, 3000: 100, 24_000: 100}, 3000),  # the wider one
        ({1000: 100, 8192: 100, 16_384: 100}, 1000),
        # from 0 to 2, the group that begins there has its median above 100
        ({0: 300} | dict.fromkeys(range(2, 100), 31) | dict.fromkeys(range(100, 300), 40), 0),
        ({1000: 500, 1300: 50, 2000: 500}, 1000),
        # the fullest bin of the lower group is not its first or its last
        ({800: 20, 900: 500, 1000: 20, 1300: 30, 2000: 500}, 900),
        # 1 has more than a tenth of 0, although not of 2
        ({0: 90, 1: 15, 2: 200} | dict.fromkeys(range(3, 100), 25) | {100: 2000, 110: 2000}, None),
        # half an octave of nothing, and less than half as large again
        ({1400: 500, 2050: 500}, None),
        ({1400: 500, 2100: 500}, 1400),
    ],
)
def test_two_groups_of_given_values(groups: dict[int, int], low: int | None) -> None:
    values = [value for value, number in groups.items() for _ in range(number)]
    found = stats.valley(stats.Counts.from_arrays([np.array(values, np.int64)]))
    assert found == _two_groups(values)
    assert (None if found is None else found.low) == low


def _reached(
    comb: rhythm.Comb, times: NDArray[np.float64], excess: NDArray[np.float64], woken: bool
) -> float:
    """The docstring of ``patterns._reach``, word for word."""
    half = comb.width_ns / 2

    def held(at: int, before: float) -> bool:
        first = (times[at] - before - comb.phase_ns - half) / comb.period_ns
        last = (times[at] - comb.phase_ns + half) / comb.period_ns
        return bool(math.floor(last) >= math.ceil(first))

    inside: set[int] = set()
    outside: set[int] = set()
    for at in range(len(times)):
        turn = round((times[at] - comb.phase_ns) / comb.period_ns)
        (inside if held(at, 0) else outside).add(turn)
        both = len(inside) + len(outside)
        chance = binom.sf(len(inside) - 1, both, comb.width_ns / comb.period_ns)
        if inside and chance <= 0.01:
            return max(
                float(excess[other])
                for other in range(len(times))
                if excess[other] <= 2 * excess[at] and held(other, excess[other] if woken else 0)
            )
    return float(np.median([excess[at] for at in range(len(times)) if held(at, 0)]))


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.integers(1, 60), st.integers(1, 9)),
        min_size=1,
        max_size=40,
    ),
    st.integers(1, 9),
    st.booleans(),
)
def test_a_line_reaches_as_far_as_chance_does_not(
    samples: list[tuple[int, int, int]], width: int, woken: bool
) -> None:
    """Samples in the middle and at the end of a turn of 10, against brute force."""
    times, excess = (
        np.array(row, float)
        for row in zip(
            *sorted(((10 * turn + place, 10 * high) for turn, high, place in samples),
                    key=lambda one: -one[1]),
            strict=True,
        )
    )  # fmt: skip
    comb = rhythm.Comb(10.0, 5.25, width / 2 + 0.1, len(times), 0.5, 0.5, 20.0, 0.1)
    if not comb.within(times).any():
        return
    assert patterns._reach(times, excess, comb, woken) == _reached(comb, times, excess, woken)


@pytest.mark.parametrize(("own", "named"), [(True, 700_000), (False, 70_000)])
def test_a_late_wakeup_at_a_time_of_the_rhythm_is_not_part_of_it(own: bool, named: int) -> None:
    """Delays of 60 to 70 us every 20 ms, and one of 0.7 ms that happens to come with one of them.
    If all are as long, the rhythm reaches the maximum."""
    random = np.random.default_rng(5)
    due = np.arange(20_000) * MS + random.uniform(0, MS / 10, 20_000)
    excess = random.normal(0, 100, len(due))
    at = np.arange(17, len(due), 20)
    excess[at] = 10_000 * np.linspace(6, 7, len(at)) * (10 if own else 1)
    excess[at[500]] = 700_000
    line = stats.second_line(due + excess, excess, interval_ns=MS)
    assert line is not None
    assert line.comb.period_ns == pytest.approx(20e6, rel=1e-3)
    assert line.worst_ns == pytest.approx(named, rel=1e-9)


@pytest.mark.parametrize(("part", "reached"), [(0.0075, 100.0), (0.0125, 10.0)])
def test_one_sample_in_a_hundredth_of_the_period_is_not_there_by_chance(
    part: float, reached: float
) -> None:
    comb = rhythm.Comb(10.0, 5.0, 10 * part, 2, 0.5, 0.5, 20.0, 0.1)
    times, excess = np.array([35.0, 65.0]), np.array([100.0, 10.0])
    assert patterns._reach(times, excess, comb, woken=False) == reached
