# SPDX-License-Identifier: Apache-2.0
"""The pass over time, and the points of the pictures, against looking at every sample."""

from __future__ import annotations

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


@pytest.mark.parametrize("kind", ["usual", "wide", "constant"])
def test_records_and_largest_equal_brute_force(kind: str) -> None:
    due, values = series_of(5, 150_000, kind)
    line = whole(due, values, 30, 33_333, excursions=500).timeline()
    records, top = [], None
    for time, value in zip(due.tolist(), values.tolist(), strict=True):
        if top is None or value > top:
            records.append((time, value))
            top = value
    assert list(zip(line.record_ns.tolist(), line.record.tolist(), strict=True)) == records
    assert np.array_equal(np.sort(line.excursion), np.sort(values)[-500:])
    assert np.all(np.diff(line.excursion_ns) >= 0)
    assert line.excursions_above is not None
    above = values > line.excursions_above
    found = line.excursion > line.excursions_above
    assert np.array_equal(line.excursion_ns[found], due[above])
    times, largest = line.largest(200)
    assert largest.tolist() == sorted(values.tolist())[::-1][:200]
    assert set(zip(times.tolist(), largest.tolist(), strict=True)) <= set(
        zip(due.tolist(), values.tolist(), strict=True)
    )


def test_few_samples_are_all_excursions() -> None:
    due, values = series_of(2, 100, "usual")
    line = whole(due, values, 10, 100).timeline()
    assert line.excursions_above is None and len(line.excursion) == 100
    assert len(line.largest(7)[0]) == 7


@pytest.mark.parametrize("kind", ["usual", "wide", "negative"])
def test_merged_parts_equal_the_whole(kind: str) -> None:
    """Every other chunk to another builder, one of them sent through a pickle."""
    due, values = series_of(9, 120_000, kind)
    one = whole(due, values, 64, 10_000, excursions=300)
    parts = [TimelineBuilder(int(due[0]), int(due[-1]), bins=64, excursions=300) for _ in "abc"]
    for number, start in enumerate(range(0, len(due), 10_000)):
        parts[number % 2].add(due[start : start + 10_000], values[start : start + 10_000])
    parts[2].merge(parts[0])
    parts[2].merge(pickle.loads(pickle.dumps(parts[1])))
    first, second = one.timeline(), parts[2].timeline()
    for name in ("edges_ns", "count", "min", "max", "mean", "record_ns", "record", "excursion"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name
    assert first.excursions_above == second.excursions_above
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
    assert np.array_equal(one.excursion_ns, two.excursion_ns)
    assert np.array_equal(one.record_ns, two.record_ns)


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
    assert line.record.tolist() == [4] and line.record_ns.tolist() == [20]
    assert line.min.tolist() == [4, 2, 0, 0, 0, 1, 0, 0, 0, 3]
    assert line.max.tolist() == [4, 2, 0, 0, 0, 1, 0, 0, 0, 3]
    assert int(line.count.sum()) == builder.counts().count


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
    assert len(line.record) == len(line.excursion) == len(line.heat().low) == 0
    assert ExcursionsBuilder().clustering() is None and builder.counts().count == 0


def test_impossible_arguments() -> None:
    with pytest.raises(ValueError):
        TimelineBuilder(5, 4)
    with pytest.raises(ValueError):
        TimelineBuilder(0, 4, bins=0)
    with pytest.raises(ValueError, match="due time"):
        TimelineBuilder(0, 4).add(range(3), np.zeros(2, np.int32))


def test_bins_for_small_series() -> None:
    assert [bins_for(n) for n in (0, 3, 8, 4800, 10**9)] == [1, 1, 2, 1200, 1200]


@pytest.mark.parametrize("kind", ["usual", "wide", "negative", "constant"])
@pytest.mark.parametrize(("columns", "rows"), [(300, 120), (7, 20), (1, 200)])
def test_heat_map_equals_brute_force(kind: str, columns: int, rows: int) -> None:
    due, values = series_of(6, 5000, kind)
    heat = whole(due, values, 100, 2000).timeline().heat(columns, rows)
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


# --- points of the pictures ----------------------------------------------------------------

VALUES = st.lists(
    st.one_of(st.integers(-30, 30), st.integers(-(10**9), 10**9)), min_size=1, max_size=80
)


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


@given(VALUES, st.integers(4, 60), st.integers(1, 60))
def test_ccdf_points_are_exact(values: list[int], points: int, tail: int) -> None:
    array = np.array(values, np.int64)
    curve = ccdf_points(Counts.from_arrays([array]), points, tail)
    assert len(curve.value) <= points
    for value, at_least, fraction in zip(curve.value, curve.at_least, curve.fraction, strict=True):
        assert at_least == (array >= value).sum()
        assert fraction == at_least / len(array)
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


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=300),
    st.integers(1, 12),
    st.integers(1, 30),
    st.integers(1, 4),
)
def test_the_largest_samples_of_parts(
    values: list[int], limit: int, chunk: int, number: int
) -> None:
    """Every sample above the mark is there, and none below it; without a mark, every sample."""
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
    assert np.array_equal(_column_table()[values], expected)


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
