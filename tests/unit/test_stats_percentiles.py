# SPDX-License-Identifier: Apache-2.0
"""Percentiles against their definition and numpy; intervals against scipy and simulation."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference

from rtgauge.stats import (
    Counts,
    interval_ranks,
    percentile_interval,
    percentile_intervals,
    percentile_names,
    percentile_table,
)


def table_of(values: list[int]) -> Counts:
    return Counts.from_arrays([np.array(values, np.int64)])


@pytest.mark.slow
@given(
    st.lists(st.integers(-50, 50), min_size=1, max_size=200),
    st.fractions(0, 100, max_denominator=1000),
)
def test_percentile_is_the_smallest_value_that_covers_enough(
    values: list[int], percent: Fraction
) -> None:
    needed = percent / 100 * len(values)
    covering = [v for v in sorted(values) if sum(w <= v for w in values) >= needed]
    assert table_of(values).percentile(percent) == covering[0]


@pytest.mark.slow
@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=300), st.integers(0, 64))
def test_percentile_agrees_with_numpy(values: list[int], part: int) -> None:
    expected = np.percentile(values, part / 64 * 100, method="inverted_cdf")
    assert table_of(values).percentile(Fraction(part * 100, 64)) == expected


def test_no_rounding_in_the_rank() -> None:
    """0.999 x 1000 and 0.07 x 100 are above 999 and 7 in floating point on the way."""
    counts = table_of(list(range(1, 1001)))
    assert counts.percentile("99.9") == counts.percentile(99.9) == 999
    assert table_of(list(range(1, 101))).percentile(7) == 7
    assert table_of(list(range(1, 101))).percentile("29") == 29


@pytest.mark.parametrize(
    ("count", "names"),
    [
        (0, ()),
        (19, ()),
        (20, ("50",)),
        (99, ("50",)),
        (100, ("50", "90")),
        (999, ("50", "90")),
        (1000, ("50", "90", "99")),
        (10_000, ("50", "90", "99", "99.9")),
        (99_999, ("50", "90", "99", "99.9")),
        (200_000_000, ("50", "90", "99", "99.9", "99.99", "99.999", "99.9999", "99.99999")),
    ],
)
def test_percentiles_go_as_far_as_ten_samples(count: int, names: tuple[str, ...]) -> None:
    assert percentile_names(count) == names


def test_table() -> None:
    assert percentile_table(table_of(list(range(1, 1001)))) == {"50": 500, "90": 900, "99": 990}
    assert percentile_table(table_of([3])) == {}


@pytest.mark.parametrize("count", [1, 2, 5, 10, 20, 100, 1000, 12_345])
@pytest.mark.parametrize("percent", ["1", "50", "90", "97.2", "99", "99.9"])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999, 0.999999])
def test_interval_is_the_narrowest_that_holds(count: int, percent: str, confidence: float) -> None:
    """Each tail is at most (1-c)/2, by scipy's binomial, and one rank further in it is not."""
    lower, upper = interval_ranks(count, percent, confidence)
    below = reference.binom(count, float(percent) / 100)
    tail = (1 - confidence) / 2
    assert {type(lower), type(upper)} <= {int, type(None)}
    if lower is None:
        assert below.cdf(0) > tail
    else:
        assert below.cdf(lower - 1) <= tail * (1 + 1e-9) and below.cdf(lower) > tail * (1 - 1e-9)
    if upper is None:
        assert below.sf(count - 1) > tail
    else:
        assert below.sf(upper - 1) <= tail * (1 + 1e-9)
        assert below.sf(upper - 2) > tail * (1 - 1e-9)


def test_interval_of_very_many_samples() -> None:
    count = 200_000_000
    for name in percentile_names(count):
        lower, upper = interval_ranks(count, name)
        rank = count * Fraction(name) / 100
        assert lower is not None and upper is not None and lower < rank < upper
        above = reference.binom(count, float(1 - Fraction(name) / 100))
        assert above.sf(count - lower) <= 0.025 < above.sf(count - lower - 1)
        assert above.cdf(count - upper) <= 0.025 < above.cdf(count - upper + 1)


@pytest.mark.parametrize("percent", ["50", "90", "99"])
@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_interval_covers_as_often_as_it_says(percent: str, kind: str) -> None:
    random = np.random.default_rng(7)
    count, repeats = 1000, 2000
    scale = 1e9 if kind == "continuous" else 2.0
    samples = np.floor(random.exponential(scale, (repeats, count))).astype(np.int64)
    true = int(np.floor(-np.log1p(-float(percent) / 100) * scale))
    lower, upper = interval_ranks(count, percent)
    assert lower is not None and upper is not None
    samples.sort(axis=1)
    covered = np.mean((samples[:, lower - 1] <= true) & (true <= samples[:, upper - 1]))
    assert covered >= 0.945  # 0.95 less one standard deviation of the simulation
    if kind == "continuous":
        assert covered <= 0.975


def test_intervals_enclose_their_percentiles() -> None:
    values = np.random.default_rng(3).gamma(2.0, 1000.0, 20_000).astype(np.int32)
    counts = Counts.from_arrays([values])
    table, intervals = percentile_table(counts), percentile_intervals(counts)
    assert list(table) == list(intervals)
    for name, value in table.items():
        low, high = intervals[name]
        assert low is not None and high is not None and low <= value <= high
    assert percentile_intervals(counts, names=["75"]).keys() == {"75"}


def test_samples_that_give_no_limit() -> None:
    assert percentile_interval(table_of([5, 6, 7]), "99") == (6, None)
    assert interval_ranks(0, 50) == (None, None)
    assert interval_ranks(1, 50) == (None, None)
    assert interval_ranks(100, 100) == (None, None)
    lower, upper = interval_ranks(3, "99")
    assert lower is not None and upper is None
    with pytest.raises(ValueError):
        interval_ranks(10, 50, confidence=1.0)


def test_interval_from_a_histogram_is_wider_by_its_buckets() -> None:
    coarse = Counts.from_log_linear(
        [(1024, 1000)], count=1000, min=16_400, max=16_500, sum=16_450_000
    )
    assert percentile_interval(coarse, 50) == (16_400, 16_500)


def test_an_interval_whose_chance_is_exactly_the_confidence_holds() -> None:
    """Each of two samples lies above the median with 1/2, both with exactly 1/4."""
    assert interval_ranks(2, 50, 0.5) == (1, 2)
    assert interval_ranks(2, 50, 0.500001) == (None, None)


@pytest.mark.parametrize("confidence", [-0.5, 0, 1, 1.5])
def test_impossible_confidences(confidence: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        interval_ranks(100, 50, confidence)


@pytest.mark.parametrize("count", [0, 1, 1000])
@pytest.mark.parametrize("percent", [0, 100])
def test_the_ends_of_a_distribution_have_no_interval(count: int, percent: int) -> None:
    assert interval_ranks(count, percent) == (None, None)


def test_intervals_hold_at_95_percent_unless_told() -> None:
    counts = Counts.from_arrays([np.arange(1000)])
    assert percentile_intervals(counts) == percentile_intervals(counts, 0.95)
    assert percentile_interval(counts, 50) == percentile_interval(counts, 50, 0.95)
    assert interval_ranks(1000, 50) == interval_ranks(1000, 50, 0.95)


@pytest.mark.slow
@given(st.integers(20, 400), st.integers(20, 400), st.sampled_from(["10", "50", "90"]))
def test_ranks_of_an_effective_number_are_scaled_outwards(
    count: int, effective: int, percent: str
) -> None:
    """Rank k of m independent samples stands for rank k n/m of all n, rounded away from the
    percentile."""
    effective = min(effective, count)
    counts = table_of(list(range(1, count + 1)))
    lower, upper = interval_ranks(effective, percent)
    assert percentile_interval(counts, percent, effective=effective) == (
        None if lower is None else math.floor(Fraction(lower * count, effective)),
        None if upper is None else math.ceil(Fraction(upper * count, effective)),
    )


def test_effective_numbers_widen_or_refuse_an_interval() -> None:
    counts = table_of(list(range(1, 1004)))
    assert interval_ranks(100, 50) == (40, 61)
    sizes = {"50": 100, "90": None}
    found = percentile_intervals(counts, effective=sizes)
    assert found["50"] == (401, 612)  # 40 and 61 times 10.03
    assert found["90"] == (None, None)
    assert found["99"] == percentile_interval(counts, "99")
