# SPDX-License-Identifier: Apache-2.0
"""The pass over time, and the points of the pictures, against looking at every sample."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rtgauge.stats import (
    Counts,
    CountsBuilder,
    ExcursionsBuilder,
    TimelineBuilder,
    bins_for,
    bucket_high,
    bucket_of,
    ccdf_points,
    clustering,
    extremal_index,
    histogram_points,
)
from rtgauge.stats.timeline import _column_table, _Largest

Array = NDArray[np.int64]


def series_of(seed: int, count: int, kind: str) -> tuple[Array, NDArray[np.int32]]:
    """Due times with gaps, and latencies of several shapes."""
    random = np.random.default_rng(seed)
    due = np.cumsum(random.integers(0, 4, count)) * 1000 + 5_000
    if kind == "wide":
        values = random.integers(-(1 << 31), 1 << 31, count)
    elif kind == "negative":
        values = -random.integers(1, 5000, count)
    elif kind == "constant":
        values = np.full(count, 77)
    else:
        values = (2000 + random.gamma(2.0, 300.0, count)).astype(np.int64)
        values[random.random(count) < 0.01] *= 50
    return due, values.astype(np.int32)


def whole(
    due: Array, values: NDArray[np.int32], bins: int, chunk: int, **options: int
) -> TimelineBuilder:
    builder = TimelineBuilder(int(due[0]), int(due[-1]), bins=bins, **options)
    for start in range(0, len(due), chunk):
        builder.add(due[start : start + chunk], values[start : start + chunk])
    return builder


@pytest.mark.parametrize("kind", ["normal", "wide", "negative"])
@pytest.mark.parametrize("gap", [False, True])
def test_the_medians_of_parts_of_the_time(kind: str, gap: bool) -> None:
    """Against the samples of as many filled bins, with those that share a bucket."""
    due, values = series_of(5, 3000, kind)
    if gap:
        keep = (due < due[800]) | (due > due[1500])
        due, values = due[keep], values[keep]
    builder = TimelineBuilder(int(due[0]), int(due[-1]), bins=97)
    builder.add(due, values)
    line = builder.timeline()
    filled = np.flatnonzero(line.count)
    found = line.medians(10)
    for part in range(10):
        bins = filled[-(-part * len(filled) // 10) : -(-(part + 1) * len(filled) // 10)]
        inside = (due >= line.edges_ns[bins[0]]) & (due < line.edges_ns[bins[-1] + 1])
        row = np.sort(values[inside].astype(np.int64))
        middle = row[(len(row) - 1) // 2]
        assert found[part] == min(int(bucket_high(bucket_of(middle))), row[-1])
    assert len(line.medians(len(filled))) == len(filled)
    assert len(line.medians(len(filled) + 1)) == 0


@pytest.mark.parametrize("kind", ["usual", "wide", "negative", "constant"])
@pytest.mark.parametrize(
    ("count", "bins", "chunk"), [(1, 5, 1), (50, 7, 9), (3000, 100, 512), (200_000, 40, 70_000)]
)
def test_bins_equal_brute_force(kind: str, count: int, bins: int, chunk: int) -> None:
    due, values = series_of(count, count, kind)
    builder = whole(due, values, bins, chunk)
    line = builder.timeline()
    edges = line.edges_ns
    assert len(edges) - 1 <= bins
    assert edges[0] == due[0] and edges[-1] > due[-1]
    assert len(set(np.diff(edges).tolist())) == 1
    quantiles = {part: line.quantile(part) for part in (0.5, 0.99, 1.0)}
    for k in range(len(edges) - 1):
        inside = np.sort(values[(edges[k] <= due) & (due < edges[k + 1])]).astype(np.int64)
        assert line.count[k] == len(inside)
        if not len(inside):
            assert line.min[k] == line.max[k] == line.mean[k] == 0
            continue
        assert (line.min[k], line.max[k]) == (inside[0], inside[-1])
        assert line.mean[k] == pytest.approx(inside.mean(), rel=1e-12)
        for part, found in quantiles.items():
            true = inside[max(0, int(np.ceil(part * len(inside))) - 1)]
            assert true <= found[k] <= true + abs(true) / 128
    assert builder.counts() == Counts.from_arrays([values])


@pytest.mark.parametrize("kind", ["usual", "wide", "negative"])
def test_merged_parts_equal_the_whole(kind: str) -> None:
    """Every other chunk to another builder, one of them sent through a pickle."""
    due, values = series_of(9, 120_000, kind)
    one = whole(due, values, 64, 10_000)
    parts = [TimelineBuilder(int(due[0]), int(due[-1]), bins=64) for _ in "abc"]
    for number, start in enumerate(range(0, len(due), 10_000)):
        parts[number % 2].add(due[start : start + 10_000], values[start : start + 10_000])
    parts[2].merge(parts[0])
    parts[2].merge(pickle.loads(pickle.dumps(parts[1])))
    first, second = one.timeline(), parts[2].timeline()
    for name in ("edges_ns", "count", "min", "max", "mean"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name
    assert np.array_equal(first.quantile(0.5), second.quantile(0.5))
    assert parts[2].counts() == one.counts()
    with pytest.raises(ValueError, match="different bins"):
        one.merge(TimelineBuilder(0, 10))


@pytest.mark.parametrize("start", [0, 3, 17_001])
def test_range_of_due_times_equals_the_array(start: int) -> None:
    values = np.random.default_rng(4).integers(0, 9000, 50_000).astype(np.int32)
    due = range(start, start + 50_000 * 7, 7)
    builders = [TimelineBuilder(start, due[-1], bins=90) for _ in "ab"]
    for at in range(0, 50_000, 999):
        builders[0].add(due[at : at + 999], values[at : at + 999])
        builders[1].add(np.array(due[at : at + 999]), values[at : at + 999])
    one, two = (builder.timeline() for builder in builders)
    assert np.array_equal(one.count, two.count) and np.array_equal(one.max, two.max)
    assert np.array_equal(one.quantile(0.9), two.quantile(0.9))


def test_bins_hold_whole_periods() -> None:
    line = TimelineBuilder(0, 99_900, bins=30, interval_ns=100)
    line.add(range(0, 100_000, 100), np.arange(1000, dtype=np.int32))
    found = line.timeline()
    assert set(np.diff(found.edges_ns).tolist()) == {3400}
    assert set(found.count[:-1].tolist()) == {34}


def test_samples_out_of_order_or_outside_are_kept() -> None:
    builder = TimelineBuilder(100, 199, bins=10)
    builder.add(np.array([150, 110, 900, 20]), np.array([1, 2, 3, 4], np.int32))
    line = builder.timeline()
    assert line.count.tolist() == [1, 1, 0, 0, 0, 1, 0, 0, 0, 1]
    assert line.min.tolist() == [4, 2, 0, 0, 0, 1, 0, 0, 0, 3]
    assert line.max.tolist() == [4, 2, 0, 0, 0, 1, 0, 0, 0, 3]
    assert int(line.count.sum()) == builder.counts().count


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_samples_may_come_in_any_order(order: tuple[int, ...]) -> None:
    due, values = np.array([100, 120, 140, 160]), np.array([7, -2, 900, 3])
    builder = TimelineBuilder(100, 179, bins=4)
    builder.add(due[list(order)], values[list(order)])
    line = builder.timeline()
    for found in (line.min, line.max, line.quantile(0.5)):
        assert found.tolist() == pytest.approx(values.tolist(), rel=1 / 128)


def test_values_that_grow_far_beyond_the_first_ones() -> None:
    values = np.array([5, 5_000, -(1 << 40), 1 << 40, -(1 << 63), (1 << 63) - 1], np.int64)
    builder = TimelineBuilder(0, 5, bins=3)
    for k, value in enumerate(values):
        builder.add(np.array([k]), values[k : k + 1])
        assert int(builder.timeline().max[k // 2]) >= value
    assert builder.timeline().quantile(1.0).tolist() == [5_000, 1 << 40, (1 << 63) - 1]


def test_empty_timeline() -> None:
    builder = TimelineBuilder(0, 1000, bins=10)
    builder.add(np.empty(0, np.int64), np.empty(0, np.int32))
    line = builder.timeline()
    assert line.count.tolist() == [0] * 10 and line.quantile(0.5).tolist() == [0] * 10
    heat = line.heat(4, 120)
    assert (heat.counts.shape, len(heat.low)) == ((4, 0), 0)
    assert [one.tolist() for one in line.above(5)] == [[0] * 10] * 2
    assert ExcursionsBuilder().clustering() is None and builder.counts().count == 0
    builder.merge(TimelineBuilder(0, 1000, bins=10))
    assert builder.timeline().count.tolist() == [0] * 10
    filled = TimelineBuilder(0, 1000, bins=10)
    filled.add(np.array([5, 999]), np.array([7, -300]))
    builder.merge(filled)
    filled.merge(TimelineBuilder(0, 1000, bins=10))
    for one in (builder, filled):
        assert one.timeline().quantile(1.0).tolist() == [7, *[0] * 8, -300]


def test_impossible_arguments() -> None:
    with pytest.raises(ValueError):
        TimelineBuilder(5, 4)
    with pytest.raises(ValueError):
        TimelineBuilder(0, 4, bins=0)
    with pytest.raises(ValueError, match="due time"):
        TimelineBuilder(0, 4).add(range(3), np.zeros(2, np.int32))


def test_bins_for_small_series() -> None:
    assert [bins_for(n) for n in (0, 3, 7, 8, 4796, 4800, 10**9)] == [1, 1, 1, 2, 1199, 1200, 1200]
    assert [bins_for(n, 5) for n in (19, 20, 10**9)] == [4, 5, 5]


@pytest.mark.parametrize("kind", ["usual", "wide", "negative", "constant"])
@pytest.mark.parametrize(("columns", "rows"), [(300, 120), (7, 20), (1, 200)])
def test_heat_map_equals_brute_force(kind: str, columns: int, rows: int) -> None:
    due, values = series_of(6, 5000, kind)
    line = whole(due, values, 100, 2000).timeline()
    heat = line.heat(columns, rows)
    fine = line.edges_ns.tolist()
    step = next(n for n in range(1, 101) if len(range(0, len(fine) - 1, n)) <= columns)
    assert heat.edges_ns.tolist() == [*fine[:-1:step], fine[-1]]
    assert heat.counts.shape == (len(heat.edges_ns) - 1, len(heat.low))
    assert heat.counts.sum() == 5000 and heat.edges_ns[0] == due[0]
    ends = [int(bucket_high(int(bucket_of(int(end))))) for end in (values.min(), values.max())]
    spans = [int(np.ptp(bucket_of(np.array(ends), bits))) for bits in range(8)]
    finest = max((bits for bits in range(8) if spans[bits] < rows), default=0)
    assert len(heat.low) == spans[finest] + 1
    assert len(heat.edges_ns) - 1 <= columns
    assert len(heat.low) <= max(rows, 64)
    assert np.array_equal(heat.low[1:], heat.high[:-1] + 1)
    for column in range(heat.counts.shape[0]):
        inside = values[(heat.edges_ns[column] <= due) & (due < heat.edges_ns[column + 1])]
        expected = [
            int(((low <= inside) & (inside <= high)).sum())
            for low, high in zip(heat.low.tolist(), heat.high.tolist(), strict=True)
        ]
        assert heat.counts[column].tolist() == expected


EVERY, PAIRS = list(range(32)), [32, 34, 36, 38]
FOURS = [*range(16), *range(16, 32, 2), 32, 36]


@pytest.mark.parametrize(
    ("first", "rows", "low"),
    [
        (0, 40, [*EVERY, *range(32, 40)]), (0, 39, [*EVERY, *PAIRS]), (0, 36, [*EVERY, *PAIRS]),
        (0, 35, FOURS), (0, 26, FOURS), (0, 7, [0, 1, 2, 4, 8, 16, 32]), (31, 2, [31, 32]),
        (32, 1, [32]), (39, 120, [39]),
    ],
)  # fmt: skip
def test_heat_maps_have_as_many_rows_as_they_may(first: int, rows: int, low: list[int]) -> None:
    """Values to 39 in rows of one value each, or as many more in each as the rows need."""
    values = np.arange(first, 40)
    builder = TimelineBuilder(0, 39, bins=2)
    builder.add(values, values)
    heat = builder.timeline().heat(2, rows)
    high = [*(end - 1 for end in low[1:]), 39]
    assert (heat.low.tolist(), heat.high.tolist()) == (low, high)
    assert heat.counts.tolist() == [
        [sum(one <= value <= other for value in some) for one, other in zip(low, high, strict=True)]
        for some in (values[values < 20], values[values >= 20])
    ]


# --- points of the pictures ----------------------------------------------------------------

VALUES = st.lists(
    st.one_of(st.integers(-30, 30), st.integers(-(10**9), 10**9)), min_size=1, max_size=80
)


@pytest.mark.slow
@given(VALUES, st.integers(1, 60), st.sampled_from([1, 10, 40]))
def test_histogram_bins_hold_exactly_their_samples(
    values: list[int], bins: int, grain: int
) -> None:
    array = np.array(values, np.int64) * grain
    points = histogram_points(Counts.from_arrays([array]), bins)
    assert int(points.count.sum()) == len(values)
    assert np.all(points.low[1:] > points.high[:-1])
    for low, high, count in zip(points.low, points.high, points.count, strict=True):
        assert low <= high and count == ((low <= array) & (array <= high)).sum() > 0
    assert len(points.low) <= bins + 4
    assert points.low[0] <= array.min() and points.high[-1] >= array.max()


def test_bins_of_a_coarse_clock_hold_equally_many_possible_values() -> None:
    """A 40 ns clock: every bin between its bounds has as many ticks as its width says."""
    array = np.arange(2000, 20_000, 40)
    points = histogram_points(Counts.from_arrays([array]), 100)
    assert np.array_equal(points.count, (points.high - points.low + 1) // 40)


def test_bins_grow_with_their_values() -> None:
    points = histogram_points(Counts.from_arrays([np.arange(1000, 1_000_000)]), 300)
    ratio = (points.high + 1) / points.low
    assert len(points.low) == pytest.approx(300, abs=2)
    assert ratio.max() < 1.03 and ratio.min() > 1.02


@pytest.mark.slow
@given(VALUES, st.integers(4, 60), st.integers(1, 60))
def test_ccdf_points_are_exact(values: list[int], points: int, tail: int) -> None:
    array = np.array(values, np.int64)
    curve = ccdf_points(Counts.from_arrays([array]), points, tail)
    assert len(curve.value) <= points
    for value, at_least in zip(curve.value, curve.at_least, strict=True):
        assert at_least == (array >= value).sum()
    distinct = np.unique(array)
    kept = min(len(distinct), tail, points - 3)
    assert curve.value[-kept:].tolist() == distinct[-kept:].tolist()
    assert curve.value[0] == distinct[0]


def test_ccdf_of_many_values_stays_close_between_its_points() -> None:
    values = (2000 + np.random.default_rng(8).gamma(2.0, 3000.0, 300_000)).astype(np.int64)
    counts = Counts.from_arrays([values])
    curve = ccdf_points(counts)
    assert 300 <= len(curve.value) <= 600
    body = curve.at_least[curve.at_least > 1000]
    assert (body[:-1] / body[1:]).max() < 1.1
    assert len(ccdf_points(Counts.from_arrays([])).value) == 0
    assert len(histogram_points(Counts.from_arrays([])).low) == 0


# --- independence --------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 5, 20])
def test_clusters_are_found_at_their_size(size: int) -> None:
    """A moving maximum over ``size`` samples has the extremal index 1/size."""
    random = np.random.default_rng(size)
    noise = random.random(200_000)
    moving = np.lib.stride_tricks.sliding_window_view(noise, size).max(axis=1)
    index = extremal_index(np.flatnonzero(moving > np.quantile(moving, 0.995)))
    assert index == pytest.approx(1 / size, rel=0.2)


def test_extremal_index_by_hand() -> None:
    """Gaps of 1, 10, 1, 30: 2 (9 + 29)^2 / (4 (9 x 8 + 29 x 28))."""
    assert extremal_index(np.array([0, 1, 11, 12, 42])) == pytest.approx(2 * 38**2 / (4 * 884))


def test_one_long_stall_is_one_cluster() -> None:
    assert extremal_index(np.arange(500, 700)) == pytest.approx(1 / 200)
    assert extremal_index(np.array([3])) is None


@pytest.mark.parametrize(("burst", "clustered"), [(1, False), (10, True)])
def test_timeline_says_when_large_values_come_in_groups(burst: int, clustered: bool) -> None:
    random = np.random.default_rng(12)
    values = random.integers(1000, 2000, 100_000).astype(np.int32)
    begins = random.choice(100_000 - burst, 1000 // burst, replace=False)
    for k in range(burst):
        values[begins + k] = random.integers(50_000, 90_000, len(begins))
    parts = [ExcursionsBuilder() for _ in range(3)]
    for start in range(0, 100_000, 12_500):  # in any order, on several threads
        part = slice(start, start + 12_500)
        parts[start // 12_500 % 3].add(np.arange(100_000)[part], values[part])
    builder = parts[2]
    builder.merge(parts[0])
    builder.merge(parts[1])
    found = builder.clustering()
    assert found is not None and found.clustered == clustered
    if clustered:
        assert found.group == pytest.approx(burst, rel=0.3)
        assert found.lower < found.index
    assert clustering(np.arange(15), 3) is None


# --- the largest samples ---------------------------------------------------------------------


def kept_by_definition(times: list[int], values: list[int], limit: int) -> list[tuple[int, int]]:
    """The largest, of equals the earliest, by time."""
    order = sorted(range(len(values)), key=lambda at: (-values[at], times[at]))
    return sorted((times[at], values[at]) for at in order[:limit])


@pytest.mark.slow
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=300),
    st.integers(1, 12),
    st.integers(1, 30),
    st.integers(1, 4),
)
def test_the_largest_samples_of_parts(
    values: list[int], limit: int, chunk: int, number: int
) -> None:
    """Every sample above the mark is there, and none below it; without a mark, every sample. The
    others of its value are counted."""
    parts = [_Largest(limit) for _ in range(number)]
    for start in range(0, len(values), chunk):
        part = parts[start // chunk % number]
        piece = np.array(values[start : start + chunk])
        part.add(start + np.arange(len(piece)), piece)
    for one in parts[1:]:
        parts[0].merge(one)
    parts[0].shrink()
    found = sorted(zip(parts[0].times.tolist(), parts[0].values.tolist(), strict=True))
    everything = list(enumerate(values))
    mark = parts[0].above
    if mark is None:
        assert found == everything and len(found) <= limit
        return
    assert len(found) <= limit < len(values)
    assert [one for one in found if one[1] > mark] == [one for one in everything if one[1] > mark]
    assert all(value >= mark for _, value in found)
    assert parts[0].left_out == values.count(mark) - sum(value == mark for _, value in found)
    if number == 1:
        assert found == kept_by_definition(list(range(len(values))), values, limit)
        assert mark == sorted(values)[-limit - 1]


def test_the_largest_of_many() -> None:
    values = np.random.default_rng(3).integers(0, 10**6, 5000)
    largest = _Largest(40)
    for start in range(0, 5000, 13):
        largest.add(np.arange(start, min(start + 13, 5000)), values[start : start + 13])
        assert len(largest.values) <= 80
    largest.shrink()
    assert np.sort(largest.values).tolist() == np.sort(values)[-40:].tolist()
    assert largest.above == np.sort(values)[-41]
    largest.add(np.arange(5000, 6000), np.arange(1000))
    assert len(largest.values) <= 80
    largest.shrink()
    assert np.sort(largest.values).tolist() == np.sort(values)[-40:].tolist()
    before = largest.times
    largest.shrink()
    assert largest.times is before


def test_samples_above_a_value_of_each_bin() -> None:
    """And those not below it; buckets below 256 are one value wide."""
    values = np.random.default_rng(4).integers(20, 90, 500).astype(np.int32)
    builder = TimelineBuilder(0, 499, bins=5)
    builder.add(range(500), values)
    line = builder.timeline()
    rows = values.reshape(5, 100)
    for value in (-3, 0, 19, 20, 21, 55, 88, 89, 90, 200):
        above, least = line.above(value)
        assert above.tolist() == (rows > value).sum(axis=1).tolist()
        assert least.tolist() == (rows >= value).sum(axis=1).tolist()


def test_histograms_widen_to_either_side() -> None:
    builder = TimelineBuilder(0, 5, bins=1)
    values = [1000, 990, 1001, 3, 10**6, -5]
    for at, value in enumerate(values):
        builder.add(np.array([at]), np.array([value]))
        above, _ = builder.timeline().above(995)
        assert above.tolist() == [sum(one > 995 for one in values[: at + 1])]


def test_the_first_sample_may_be_the_largest() -> None:
    builder = ExcursionsBuilder(3)
    builder.add(np.arange(7, 107), np.array([9, *[1] * 97, 3, 4]))
    assert sorted(builder._largest.times.tolist())[:1] == [7]


@pytest.mark.slow
def test_columns_of_the_window_are_its_buckets() -> None:
    values = np.arange(CountsBuilder.LOW, CountsBuilder.HIGH)
    expected = bucket_of(values) - bucket_of(-(1 << 63))
    assert np.array_equal(_column_table.__wrapped__()[values], expected)


@pytest.mark.parametrize("edge", [CountsBuilder.LOW, 0, CountsBuilder.HIGH])
def test_values_at_the_ends_of_the_window_are_in_their_own_columns(edge: int) -> None:
    """Many samples take their columns from a table that ends there."""
    values = np.full(100_000, edge, np.int64)
    values[::2] = edge - 1
    values[1::4] = edge + 1 if edge < 0 else edge
    for shown in (values, np.minimum(values, edge), np.maximum(values, edge)):
        due = np.arange(len(shown)) * 1000
        line = whole(due, shown.astype(np.int32), 1, 30_000).timeline()
        for part in (0.1, 0.4, 0.6, 1.0):
            true = int(np.sort(shown)[int(np.ceil(part * len(shown))) - 1])
            (found,) = line.quantile(part).tolist()
            assert true <= found <= true + abs(true) / 128


def test_groups_are_looked_for_among_the_largest_hundredth_alone() -> None:
    """Groups among smaller samples are not those of the largest."""
    random = np.random.default_rng(4)
    values = random.integers(0, 1000, 20_000)
    values[5000:7000] += 2000  # a group, below the largest hundredth
    large = random.choice(20_000, 200, replace=False)
    values[large] = 10_000 + np.arange(200)
    builder = ExcursionsBuilder()
    builder.add(np.arange(20_000), values.astype(np.int32))
    found = builder.clustering()
    expected, number = [], 200
    while number > 1:
        threshold = int(np.sort(values)[-number])
        some = clustering(np.flatnonzero(values > threshold), threshold)
        expected += [some] if some is not None else []
        number //= 2
    assert found == min(expected, key=lambda one: one.lower)
    every = clustering(np.flatnonzero(values > 1500), 1500)
    assert every is not None and found is not None and every.lower < found.lower / 2


def test_4096_excursions_are_kept() -> None:
    """As docs/reference/statistics.md has it."""
    found = ExcursionsBuilder()
    found.add(np.arange(10_000, dtype=np.int64), np.arange(10_000))
    times, values = found.largest()
    assert sorted(values.tolist()) == list(range(10_000 - 4096, 10_000))
    assert sorted(times.tolist()) == sorted(values.tolist())
    assert found.above() == 10_000 - 4096 - 1


@pytest.mark.parametrize("bins", [1, 2, 5])
def test_long_chunks_of_which_parts_lie_in_one_bin(bins: int) -> None:
    """300 000 samples at once, with small values in the first half and large ones in the other."""
    values = np.random.default_rng(6).integers(0, 200, 300_000) + np.repeat([0, 10**7], 150_000)
    for shown in (values, values[::-1]):
        builder = TimelineBuilder(0, 299_999, bins=bins)
        builder.add(range(300_000), shown)
        line = builder.timeline()
        parts = [shown[one : one + 300_000 // bins] for one in range(0, 300_000, 300_000 // bins)]
        for value in (-1, 0, 99, 199, 200):
            above, least = line.above(value)
            assert above.tolist() == [int((part > value).sum()) for part in parts]
            assert least.tolist() == [int((part >= value).sum()) for part in parts]


def test_groups_among_the_very_largest_alone_are_found() -> None:
    """The largest 100 of 40 000 come in tens, the next 300 anywhere."""
    random = np.random.default_rng(8)
    places = random.permutation(4000)
    values = random.integers(0, 1000, 40_000)
    values[places[10:310] * 10] = 5000 + np.arange(300)
    values[(places[:10, None] * 10 + np.arange(10)).ravel()] = 9000 + random.permutation(100)
    builder = ExcursionsBuilder()
    builder.add(np.arange(40_000), values)
    found = builder.clustering()
    expected = []
    for number in (400, 200, 100, 50):
        threshold = int(np.sort(values)[-number])
        one = clustering(np.flatnonzero(values > threshold), threshold)
        assert one is not None
        expected.append(one)
    assert found == min(expected, key=lambda one: one.lower)
    assert found is not None and found.threshold == 9000


@pytest.mark.parametrize(("equal", "judged"), [(30, 30), (60, 60), (1500, 1500), (1501, None)])
def test_equal_values_are_judged_together(equal: int, judged: int | None) -> None:
    """3000 samples, of which the largest 1 % are equal: up to half of them are judged."""
    values = np.random.default_rng(11).permutation(3000)
    values[1000 : 1000 + equal] = 5000
    builder = ExcursionsBuilder()
    builder.add(np.arange(3000), values)
    found = builder.clustering()
    if judged is None:
        assert found is None
        return
    assert found is not None and found.clustered
    assert (found.exceedances, found.index, found.threshold) == (judged, 1 / judged, 4999)


@pytest.mark.parametrize(("above", "judged"), [(18, 48), (19, 49), (20, 20), (21, 21)])
def test_equal_values_count_if_too_few_exceed_them(above: int, judged: int) -> None:
    """30 equal values, and others above them, in 4000 samples: the largest 1 % end among them."""
    values = np.arange(4000) % 1000
    places = np.random.default_rng(14).choice(4000, above + 30, replace=False)
    values[places] = 2000
    values[places[:above]] = 3000 + np.arange(above)
    builder = ExcursionsBuilder()
    builder.add(np.arange(4000), values)
    threshold = 1999 if judged > above else 2000
    assert builder.clustering() == clustering(np.flatnonzero(values > threshold), threshold)
    assert np.count_nonzero(values > threshold) == judged


def test_a_single_value_after_equal_ones_is_judged_as_the_smallest() -> None:
    """2100 samples, of which 20 are equal and the 21st is smaller."""
    values = np.arange(2100) % 1000
    values[::105] = 3000
    values[1000] = 2000
    builder = ExcursionsBuilder()
    builder.add(np.arange(2100), values)
    assert builder.clustering() == clustering(np.arange(0, 2100, 105), 2000)


@pytest.mark.parametrize("size", [1, 50])
def test_equal_values_that_are_not_all_kept_are_judged_from_the_first_on(size: int) -> None:
    """2 % of 600 000 samples of a coarse clock, and eight larger ones, in parts of any order."""
    random = np.random.default_rng(13)
    values = np.repeat((random.random(600_000 // size) < 0.02).astype(np.int64), size)
    values[random.choice(600_000, 8, replace=False)] = 2
    parts = [ExcursionsBuilder() for _ in range(3)]
    for part, start in zip(parts, (0, 200_000, 400_000), strict=True):
        part.add(np.arange(start, start + 200_000), values[start : start + 200_000])
    builder = ExcursionsBuilder()
    for part in (parts[2], parts[0], parts[1]):
        builder.merge(part)
    found = builder.clustering()
    large = np.flatnonzero(values)
    kept = large[: np.flatnonzero(np.cumsum(values[large] == 1) == 4096 - 8)[0] + 1]
    assert found == clustering(kept, 0)
    assert found is not None and found.clustered is (size == 50)
    assert found.index == pytest.approx(1 / size, rel=0.3)


@pytest.mark.parametrize(("equal", "judged"), [(4096, 4096), (5000, 4096), (500_000, 4096)])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_a_long_burst_of_equal_values_is_one_group(
    equal: int, judged: int, order: tuple[int, int, int]
) -> None:
    """Half of a million samples at most, one after the other, also if not all of them are kept."""
    values = np.zeros(1_000_000, np.int32)
    values[298_000 : 298_000 + equal] = 1
    parts = [ExcursionsBuilder() for _ in range(3)]
    for part, start, end in zip(
        parts, (0, 300_000, 340_000), (300_000, 340_000, 1_000_000), strict=True
    ):
        part.add(np.arange(start, end), values[start:end])
    builder = ExcursionsBuilder()
    for at in order:
        builder.merge(parts[at])
    found = builder.clustering()
    assert found is not None and found.exceedances == judged
    assert found.index == pytest.approx(1 / judged)


@pytest.mark.parametrize(("equal", "judged"), [(500_000, True), (500_001, False)])
def test_equal_values_count_also_if_they_are_not_kept(equal: int, judged: bool) -> None:
    """At the start they are few, as are those that are kept."""
    values = np.zeros(1_000_000, np.int32)
    values[: 4096 * 50 : 50] = values[1_000_000 - equal + 4096 :] = 3
    builder = ExcursionsBuilder()
    builder.add(np.arange(1_000_000), values)
    assert (builder.clustering() is not None) is judged


@pytest.mark.parametrize("samples", [3000, 100_000])
def test_a_series_of_one_value_has_no_groups(samples: int) -> None:
    builder = ExcursionsBuilder()
    builder.add(np.arange(samples), np.full(samples, 7, np.int32))
    assert builder.clustering() is None


def test_equal_values_anywhere_are_no_groups() -> None:
    """A coarse clock gives one of 25 samples the largest value."""
    values = np.zeros(3000, np.int64)
    values[np.random.default_rng(12).choice(3000, 120, replace=False)] = 1
    builder = ExcursionsBuilder()
    builder.add(np.arange(3000), values)
    found = builder.clustering()
    assert found is not None and found.exceedances == 120 and not found.clustered


@pytest.mark.parametrize("unshrunk", [0, 15])
def test_no_more_than_the_limit_are_given_and_judged(unshrunk: int) -> None:
    """The largest 30 of 10 000, a hundredth of which would be 100; up to 60 are held."""
    values = np.random.default_rng(9).permutation(10_000)
    values[:unshrunk] = 20_000 + np.arange(unshrunk)
    builders = [ExcursionsBuilder(30) for _ in "abc"]
    for builder in builders:
        for start in range(unshrunk, 10_000, 13):
            builder.add(np.arange(start, 10_000)[:13], values[start:][:13])
        builder.add(np.arange(unshrunk), values[:unshrunk])
    threshold = int(np.sort(values)[-30])
    expected = clustering(np.flatnonzero(values > threshold), threshold)
    assert expected is not None
    assert builders[0].clustering() == expected
    times, largest = builders[1].largest()
    assert np.sort(largest).tolist() == np.sort(values)[-30:].tolist()
    assert values[times].tolist() == largest.tolist()
    assert builders[2].above() == np.sort(values)[-31]


def test_what_was_left_out_of_a_part_is_left_out_of_the_whole() -> None:
    """Also where the part is the first, and its samples fit."""
    part, whole_ = _Largest(5), _Largest(5)
    part.add(np.arange(20), np.arange(20))
    part.shrink()
    whole_.merge(part)
    assert (whole_.above, sorted(whole_.values.tolist())) == (14, [15, 16, 17, 18, 19])
    other = _Largest(5)
    other.add(np.arange(20, 22), np.array([3, 14]))
    whole_.merge(other)
    assert (whole_.above, sorted(whole_.values.tolist())) == (14, [15, 16, 17, 18, 19])


def test_the_mark_of_a_merge_is_the_higher_one() -> None:
    """The second part dropped a 15, so that not every sample above 12 is there."""
    parts = [_Largest(3) for _ in range(3)]
    parts[0].add(np.arange(7), np.array([1, 2, 10, 11, 12, 9, 3]))
    parts[1].add(np.arange(7, 14), np.array([15, 20, 31, 32, 33, 4, 5]))
    for part in parts:
        part.shrink()
    assert [part.above for part in parts] == [9, 20, None]
    parts[0].merge(parts[1])
    assert (parts[0].above, sorted(parts[0].values.tolist())) == (20, [31, 32, 33])
    equal = _Largest(3)
    equal.add(np.arange(7), np.full(7, 8))
    parts[2].merge(equal)
    assert (parts[2].above, parts[2].times.tolist()) == (8, [0, 1, 2])


@pytest.mark.slow
@given(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=30), st.floats(0, 1))
def test_quantiles_of_any_part(values: list[int], part: float) -> None:
    builder = TimelineBuilder(0, 9, bins=1)
    builder.add(np.zeros(len(values), np.int64), np.array(values))
    true = sorted(values)[max(math.ceil(part * len(values)) - 1, 0)]
    (found,) = builder.timeline().quantile(part).tolist()
    assert true <= found <= min(true + abs(true) / 128, max(values))


@pytest.mark.parametrize(("samples", "judged"), [(2099, False), (2100, True)])
def test_a_hundredth_of_the_samples_are_judged_if_20_exceed_the_last(
    samples: int, judged: bool
) -> None:
    values = np.random.default_rng(10).permutation(samples)
    whole_, part = ExcursionsBuilder(), ExcursionsBuilder()
    whole_.add(np.arange(1000), values[:1000])
    part.add(np.arange(1000, samples), values[1000:])
    whole_.merge(part)
    assert (whole_.clustering() is not None) == judged
