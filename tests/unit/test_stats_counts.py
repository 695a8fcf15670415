# SPDX-License-Identifier: Apache-2.0
"""The table of counts against sorting, and the buckets against the page that defines them."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rtgauge.stats import Counts, CountsBuilder, bucket_high, bucket_low, bucket_of, fraction_of

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
LATENCY = st.one_of(
    st.integers(-5, 300), st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 40), 1 << 40)
)


def bucket_of_page(value: int, sub_bits: int) -> int:
    """docs/formats/stream.md, type 5, word for word, in whole numbers of any size."""
    if value < 0:
        return -1 - bucket_of_page(-1 - value, sub_bits)
    if value < 1 << (sub_bits + 1):
        return value
    high = value.bit_length() - 1
    return (high - sub_bits) * (1 << sub_bits) + (value >> (high - sub_bits))


def table_of(values: list[int]) -> Counts:
    return Counts.from_arrays([np.array(values, np.int64)])


@given(st.lists(INT64, max_size=50), st.integers(0, 10))
def test_buckets_follow_the_page(values: list[int], sub_bits: int) -> None:
    array = np.array(values, np.int64)
    buckets = bucket_of(array, sub_bits)
    assert buckets.tolist() == [bucket_of_page(value, sub_bits) for value in values]
    assert np.all(bucket_low(buckets, sub_bits) <= array)
    assert np.all(array <= bucket_high(buckets, sub_bits))


@pytest.mark.parametrize("sub_bits", [0, 5, 7])
def test_buckets_have_no_gaps_and_bounded_width(sub_bits: int) -> None:
    last = int(bucket_of((1 << 63) - 1, sub_bits))
    numbers = np.arange(-1 - last, last + 1)
    low, high = bucket_low(numbers, sub_bits), bucket_high(numbers, sub_bits)
    assert (int(low[0]), int(high[-1])) == (-(1 << 63), (1 << 63) - 1)
    assert np.array_equal(low[1:], high[:-1] + 1)
    assert np.array_equal(bucket_of(low, sub_bits), numbers)
    assert np.array_equal(bucket_of(high, sub_bits), numbers)
    positive = low > 0
    assert np.all((high - low)[positive] <= low[positive] >> sub_bits)


@pytest.mark.parametrize("power", [53, 54, 60, 62])
def test_bucket_next_to_a_power_of_two_that_floats_round(power: int) -> None:
    for value in ((1 << power) - 1, 1 << power, -(1 << power), -(1 << power) - 1):
        assert int(bucket_of(value)) == bucket_of_page(value, 7)


def test_bucket_beyond_64_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="64 bits"):
        bucket_high(int(bucket_of((1 << 63) - 1)) + 1)


@pytest.mark.slow
@given(st.lists(st.lists(LATENCY, max_size=40), max_size=5))
def test_counts_equal_a_counter(parts: list[list[int]]) -> None:
    counts = Counts.from_arrays(np.array(part, np.int64) for part in parts)
    everything = sorted(value for part in parts for value in part)
    expected = sorted(Counter(everything).items())
    assert list(zip(counts.values.tolist(), counts.counts.tolist(), strict=True)) == expected
    assert counts.count == len(everything)
    assert counts.sum == sum(everything)
    assert (counts.min, counts.max) == (
        (everything[0], everything[-1]) if everything else (None, None)
    )
    assert counts.exact and counts.resolution == 0


@given(st.lists(LATENCY, min_size=1, max_size=60), LATENCY)
def test_ranks_and_exceedances_equal_brute_force(values: list[int], limit: int) -> None:
    counts = table_of(values)
    assert counts.rank(limit) == sum(value <= limit for value in values)
    assert counts.exceeding(limit) == sum(value > limit for value in values)
    assert [counts.value_at_rank(k + 1) for k in range(len(values))] == sorted(values)
    assert counts.mean == float(Fraction(sum(values), len(values)))


@pytest.mark.slow
@given(st.lists(st.lists(LATENCY, max_size=30), min_size=1, max_size=5))
def test_merged_counts_are_the_counts_of_all(parts: list[list[int]]) -> None:
    whole = table_of([value for part in parts for value in part])
    tables = [table_of(part) for part in parts]
    assert Counts.merged(tables) == whole
    assert tables[0].merge(*tables[1:]) == whole
    builders = []
    for part in parts:
        builder = CountsBuilder()
        builder.add(np.array(part, np.int64))
        builders.append(builder)
    for other in builders[1:]:
        builders[0].merge(other)
    assert builders[0].build() == whole


@pytest.mark.parametrize("seed", range(4))
def test_many_values_in_and_out_of_the_window(seed: int) -> None:
    """Large enough to leave the small-series path, to fill batches, and to cross every border."""
    random = np.random.default_rng(seed)
    arrays: list[NDArray[np.signedinteger[Any]]] = [
        random.integers(1000, 1300, 150_000).astype(np.int32),
        random.integers(-(1 << 31), 1 << 31, 60_000 * (1 + 20 * (seed == 3))).astype(np.int32),
        np.array([-(1 << 20) - 1, -(1 << 20), -1, 0, (1 << 22) - 1, 1 << 22], np.int64),
        random.integers(-(1 << 45), 1 << 45, 1000),
        random.integers(-100, 100, 70_000).astype(np.int16),
        -random.integers(1, 5000, 70_000).astype(np.int32),
    ]
    if seed % 2:
        arrays.reverse()
    counts = Counts.from_arrays(arrays)
    values, expected = np.unique(np.concatenate(arrays), return_counts=True)
    assert np.array_equal(counts.values, values)
    assert np.array_equal(counts.counts, expected)
    assert counts.sum == int(np.concatenate(arrays).sum())


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("first", [0, 1, 2])
def test_window_with_values_of_one_sign(sign: int, first: int) -> None:
    values = (sign * np.arange(first, 100_000)).astype(np.int32)
    assert np.array_equal(Counts.from_arrays([values]).values, np.sort(values))


def test_building_does_not_end_a_builder() -> None:
    builder = CountsBuilder()
    for size in (10, 100_000, 10):
        builder.add(np.full(size, size, np.int32))
        builder.build()
    assert builder.build() == Counts.from_arrays([np.repeat([10, 100_000], [20, 100_000])])


def test_sum_beyond_64_bits_is_exact() -> None:
    values = np.array([(1 << 62) - 1, (1 << 62) + 3, 1 << 62], np.int64)
    assert Counts.from_arrays([values]).sum == 3 * (1 << 62) + 2


@pytest.mark.parametrize("dtype", [np.float64, np.uint32, np.bool_])
def test_other_than_signed_integers_are_refused(dtype: Any) -> None:
    with pytest.raises(TypeError):
        Counts.from_arrays([np.zeros(3, dtype)])


def test_empty_and_single() -> None:
    empty = Counts.from_arrays([])
    assert (empty.count, empty.min, empty.max, empty.mean, empty.sum) == (0, None, None, None, 0)
    assert empty.exceeding(0) == 0
    with pytest.raises(ValueError, match="no sample"):
        empty.percentile(50)
    single = table_of([-7])
    assert [single.percentile(p) for p in (0, 50, 100)] == [-7, -7, -7]
    assert empty != single and empty.merge(single) == single


def histogram_of(values: list[int]) -> Counts:
    buckets = sorted(Counter(bucket_of_page(value, 7) for value in values).items())
    return Counts.from_log_linear(
        buckets, count=len(values), min=min(values), max=max(values), sum=sum(values)
    )


@given(st.lists(LATENCY, min_size=1, max_size=60), st.integers(1, 60), LATENCY)
def test_histogram_errs_to_the_high_side_by_its_resolution(
    values: list[int], rank: int, limit: int
) -> None:
    counts = histogram_of(values)
    assert (counts.count, counts.min, counts.max) == (len(values), min(values), max(values))
    assert counts.mean == float(Fraction(sum(values), len(values)))
    assert not counts.exact
    rank = min(rank, len(values))
    true = sorted(values)[rank - 1]
    found = counts.value_at_rank(rank)
    assert true <= found <= true + abs(true) * counts.resolution
    assert counts.value_at_rank(rank, low=True) <= true
    scaled = Counts(counts.values * 10, counts.counts, 0, min(values) * 10, max(values) * 10, 7)
    assert scaled.value_at_rank(rank, low=True) <= true * 10 <= scaled.value_at_rank(rank)
    assert counts.value_at_rank(len(values)) == max(values)
    assert counts.exceeding(limit) >= sum(value > limit for value in values)
    assert counts.exceeding(max(values)) == 0


def test_histogram_and_samples_merge_into_something_coarse() -> None:
    both = histogram_of([1000, 5000]).merge(table_of([1, 10_000]))
    assert both.sub_bits == 7
    assert (both.count, both.min, both.max, both.sum) == (4, 1, 10_000, 16_001)


@pytest.mark.parametrize(
    ("buckets", "count", "low", "high"),
    [
        ([(5, 1)], 2, 5, 5),
        ([(5, 0)], 0, 5, 5),
        ([(6, 1), (5, 1)], 2, 5, 6),
        ([(5, 1)], 1, 4, 5),
        ([(5, 1)], 1, 5, 6),
        ([(5, -1), (6, 2)], 1, 5, 6),
        ([(5, 1 << 62), (6, 1 << 62), (7, 1 << 62), (8, 1 << 62)], 0, 5, 8),
        ([(1 << 40, 1)], 1, 5, 6),
        ([], 1, 0, 0),
    ],
)
def test_contradictory_histograms_are_refused(
    buckets: list[tuple[int, int]], count: int, low: int, high: int
) -> None:
    with pytest.raises(ValueError):
        Counts.from_log_linear(buckets, count=count, min=low, max=high, sum=0)


def test_empty_histogram() -> None:
    assert Counts.from_log_linear([], count=0, min=0, max=0, sum=0).count == 0


def test_what_is_written_as_percentage_counts() -> None:
    assert fraction_of(99.9) == fraction_of("99.9") == Fraction(999, 1000)
    assert fraction_of(Fraction(1, 3)) == Fraction(1, 300)
    for wrong in (-1, 101, "100.1", "x", float("nan"), float("inf")):
        with pytest.raises(ValueError):
            fraction_of(wrong)


# --- borders -----------------------------------------------------------------------------------


class Narrow(CountsBuilder):
    """A builder that leaves its window, its pieces and its batches after some values."""

    LOW = -8
    HIGH = 16
    _PIECE = 4
    _BATCH = 8


@given(st.lists(st.lists(st.integers(-20, 30), max_size=14), max_size=12), st.booleans())
def test_a_narrow_window_counts_as_well(parts: list[list[int]], between: bool) -> None:
    builder, other = Narrow(), Narrow()
    for number, part in enumerate(parts):
        (other if number % 5 == 4 else builder).add(np.array(part, np.int32))
        if between:
            builder.build()
    builder.merge(other)
    expected = sorted(Counter(value for part in parts for value in part).items())
    found = builder.build()
    assert list(zip(found.values.tolist(), found.counts.tolist(), strict=True)) == expected


def test_values_outside_the_window_wait_for_a_batch_and_no_longer() -> None:
    """Memory is that of the table, a batch, and different values; each row is moved few times."""
    builder = Narrow()
    builder.add(np.zeros(5, np.int64))  # from here on there is a table
    for number in range(200):
        builder.add(np.arange(100 + 3 * number, 103 + 3 * number))
        waiting = sum(map(len, builder._waiting))
        assert waiting == 3 * (number % 3 + 1) % 9
        sizes = [len(values) for values, _ in builder._sorted]
        assert sum(sizes) + waiting == 3 * (number + 1)
        assert all(first >= 2 * second for first, second in itertools.pairwise(sizes))
    assert len(builder._sorted) > 1
    assert builder.build().count == 605


@pytest.mark.parametrize("value", [-9, -8, -7, -1, 0, 1, 15, 16, 17])
@pytest.mark.parametrize("number", [1, 3, 4, 5, 8, 9, 40])
def test_the_borders_of_window_piece_and_batch(value: int, number: int) -> None:
    builder = Narrow()
    for size in (number, number):
        builder.add(np.full(size, value, np.int64))
    found = builder.build()
    assert (found.values.tolist(), found.counts.tolist()) == ([value], [2 * number])


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ([1 << 62], [2]),
        ([-(1 << 62), 5], [3, 1]),
        ([5, 1 << 62], [1, 3]),
        ([-(1 << 63), (1 << 63) - 1], [2, 3]),
        ([(1 << 63) - 1], [1]),
        ([-3, 2], [1 << 40, 1 << 41]),
    ],
)
def test_sums_at_the_border_of_64_bits(values: list[int], counts: list[int]) -> None:
    table = Counts.of_table(np.array(values, np.int64), np.array(counts, np.int64))
    assert table.sum == sum(value * count for value, count in zip(values, counts, strict=True))


@pytest.mark.parametrize(
    ("buckets", "low", "high"),
    [
        ([(5, 1), (5, 1)], 5, 5),  # the same bucket twice
        ([(5, 1), (7, 1), (6, 1)], 5, 6),
        ([(5, 2), (6, 1)], 6, 6),  # the minimum in the second bucket
        ([(5, 2), (6, 1)], 5, 5),
        ([(5, 2), (6, 1)], 4, 6),
        ([(5, 2), (6, 1)], 5, 7),
        ([(int(bucket_of(1000)), 2)], 1003, 1000),  # above the maximum
    ],
)
def test_histograms_whose_ends_do_not_agree(
    buckets: list[tuple[int, int]], low: int, high: int
) -> None:
    count = sum(one[1] for one in buckets)
    with pytest.raises(ValueError):
        Counts.from_log_linear(buckets, count=count, min=low, max=high, sum=0)


def test_a_histogram_as_an_array() -> None:
    pairs = [(5, 1), (int(bucket_of(1000)), 3), (int(bucket_of(5000)), 2)]
    words: dict[str, int] = dict(count=6, min=5, max=5001, sum=13_006)
    found = Counts.from_log_linear(np.array(pairs, np.int64), **words)
    assert found == Counts.from_log_linear(pairs, **words)
    assert found.counts.tolist() == [1, 3, 2]
    assert found.values.tolist() == [5, 1003, 5001]


def test_of_two_histograms_the_coarser_counts() -> None:
    fine = Counts.from_log_linear([(5, 2)], count=2, min=5, max=5, sum=10)
    coarse = Counts.from_log_linear([(6, 1)], count=1, min=6, max=6, sum=6, sub_bits=5)
    assert fine.resolution == Fraction(1, 128) and coarse.resolution == Fraction(1, 32)
    assert fine.merge(coarse).sub_bits == coarse.merge(fine).sub_bits == 5
    assert table_of([1]).merge(fine).resolution == Fraction(1, 128)


def test_tables_that_differ_in_one_thing_are_not_equal() -> None:
    one = Counts(np.array([1, 4]), np.array([2, 3]), 14, 1, 4, 7)
    assert one == Counts(np.array([1, 4]), np.array([2, 3]), 14, 1, 4, 7)
    for other in (
        Counts(np.array([1, 5]), np.array([2, 3]), 14, 1, 4, 7),
        Counts(np.array([1, 4]), np.array([2, 2]), 14, 1, 4, 7),
        Counts(np.array([1, 4]), np.array([2, 3]), 15, 1, 4, 7),
        Counts(np.array([1, 4]), np.array([2, 3]), 14, 0, 4, 7),
        Counts(np.array([1, 4]), np.array([2, 3]), 14, 1, 5, 7),
        Counts(np.array([1, 4]), np.array([2, 3]), 14, 1, 4, None),
        "a table",
    ):
        assert one != other


@pytest.mark.parametrize("rank", [-1, 0, 4, 5])
def test_ranks_that_no_sample_has(rank: int) -> None:
    with pytest.raises(ValueError, match=f"no sample of rank {rank} among 3"):
        table_of([1, 2, 2]).value_at_rank(rank)


@given(st.lists(st.integers(-(1 << 40), 1 << 40), min_size=1, max_size=40))
def test_the_lower_end_is_no_further_than_two_buckets(values: list[int]) -> None:
    counts = histogram_of(values)
    for rank, true in enumerate(sorted(values), 1):
        low = counts.value_at_rank(rank, low=True)
        assert true - abs(true) * Fraction(2, 127) - 1 <= low <= true
        assert low >= min(values)


def test_samples_in_the_bucket_of_a_limit_are_unsure() -> None:
    random = np.random.default_rng(8)
    for _ in range(50):
        values = np.sort(random.integers(-2000, 100_000, 40))
        buckets = np.stack(np.unique(bucket_of(values), return_counts=True), axis=1)
        table = Counts.from_log_linear(
            buckets, count=40, min=int(values[0]), max=int(values[-1]), sum=int(values.sum())
        )
        for limit in (*values.tolist(), 50_000, -3000, 200_000):
            over = int((values > limit).sum())
            most = table.exceeding(limit)
            assert min(over, 1) <= most - table.unsure(limit) <= over <= most
            assert Counts.from_arrays([values]).unsure(limit) == 0
