# SPDX-License-Identifier: Apache-2.0
"""Shifts between configurations, against enumeration and against SciPy."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as published

from rtgauge.stats.shift import (
    RANKS_FROM,
    RUNS_LIMIT,
    blocks_needed,
    holm,
    paired_shift,
    runs_needed,
    shift,
)

#: Few distinct values, so that ties and zeros are common.
coarse = st.integers(-4, 4).map(float)
fine = st.floats(-1e6, 1e6).filter(lambda value: abs(value) > 1e-6)


def ranks(values: list[float]) -> list[float]:
    return [
        sum(other < one for other in values) + (sum(other == one for other in values) + 1) / 2
        for one in values
    ]


def enumerated_paired(differences: list[float]) -> float:
    """The two-sided p-value over all changes of sign: of the sum, or of the ranks' from 10 on."""
    if len(differences) < RANKS_FROM:
        sums = [
            abs(sum(one * sign for one, sign in zip(differences, signs, strict=True)))
            for signs in itertools.product((-1, 1), repeat=len(differences))
        ]
        far = abs(sum(differences)) - 1e-9
        return sum(one >= far for one in sums) / len(sums)
    rank = ranks([abs(one) for one in differences])
    signed = [r for r, one in zip(rank, differences, strict=True) if one != 0]
    total = sum(signed)
    observed = sum(r for r, one in zip(rank, differences, strict=True) if one > 0)
    far = abs(observed - total / 2)
    found = [
        abs(sum(itertools.compress(signed, signs)) - total / 2) >= far - 1e-9
        for signs in itertools.product((0, 1), repeat=len(signed))
    ]
    return sum(found) / len(found)


def enumerated(first: list[float], second: list[float]) -> float:
    """The two-sided p-value over all divisions: twice the smaller tail."""
    rank = ranks([*first, *second])
    observed = sum(rank[len(first) :])
    sums = [sum(one) for one in itertools.combinations(rank, len(second))]
    above = sum(one >= observed - 1e-9 for one in sums) / len(sums)
    below = sum(one <= observed + 1e-9 for one in sums) / len(sums)
    return min(1.0, 2 * min(above, below))


@pytest.mark.slow
@given(st.lists(coarse, min_size=1, max_size=12))
def test_paired_p_is_that_of_all_changes_of_sign(differences: list[float]) -> None:
    assert paired_shift(differences).p == pytest.approx(enumerated_paired(differences))


@given(st.lists(coarse, min_size=1, max_size=5), st.lists(coarse, min_size=1, max_size=5))
def test_p_is_that_of_all_divisions(first: list[float], second: list[float]) -> None:
    assert shift(first, second).p == pytest.approx(enumerated(first, second))


@settings(max_examples=50)
@given(st.integers(2, 40), st.integers(0, 2**32 - 1))
def test_as_scipy_has_it_without_ties(number: int, seed: int) -> None:
    made = np.random.default_rng(seed)
    differences = made.normal(0.3, 1, number)
    if number >= RANKS_FROM:
        expected = published.wilcoxon(differences, method="exact").pvalue
    else:
        expected = published.permutation_test(
            (differences,), np.mean, permutation_type="samples", n_resamples=np.inf
        ).pvalue
    assert paired_shift(differences.tolist()).p == pytest.approx(expected)
    first, second = made.normal(0, 1, number), made.normal(0.4, 1, max(1, number // 2))
    expected = published.mannwhitneyu(second, first, method="exact").pvalue
    assert shift(first.tolist(), second.tolist()).p == pytest.approx(expected)


@pytest.mark.slow
@settings(max_examples=200)
@given(
    st.lists(fine, min_size=1, max_size=14, unique_by=abs),
    st.sampled_from([0.8, 0.9, 0.95, 0.99]),
)
def test_the_interval_excludes_zero_where_the_test_rejects(
    differences: list[float], confidence: float
) -> None:
    found = paired_shift(differences, confidence)
    assert (found.p <= 1 - confidence + 1e-9) == (not found.low <= 0 <= found.high)
    half = len(differences) // 2
    first, second = differences[:half], differences[half:]
    if first:
        found = shift(first, second, confidence)
        assert (found.p <= 1 - confidence + 1e-9) == (not found.low <= 0 <= found.high)


@pytest.mark.slow
@given(st.lists(st.floats(-100, 100), min_size=6, max_size=12), st.floats(-100, 100), st.booleans())
def test_the_interval_moves_with_the_values(values: list[float], by: float, turned: bool) -> None:
    found = paired_shift(values)
    moved = paired_shift([value + by for value in values])
    assert moved.low == pytest.approx(found.low + by, abs=1e-9)
    assert moved.estimate == pytest.approx(found.estimate + by, abs=1e-9)
    assert moved.high == pytest.approx(found.high + by, abs=1e-9)
    if turned:
        other = paired_shift([-value for value in values])
        assert (other.low, other.high) == (-found.high, -found.low)
        assert other.p == pytest.approx(found.p)


def test_the_interval_of_a_published_example() -> None:
    # The order statistics 5 and 7 of the 21 Walsh averages bound 6 differences at 93.75 % at most
    # when k = 1; at 95 % only the extremes may be excluded.
    differences = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    found = paired_shift(differences)
    assert (found.low, found.high) == (1.0, 32.0)
    assert found.least_p == found.p == 2 / 64
    means = [
        np.mean(one) for size in range(1, 7) for one in itertools.combinations(differences, size)
    ]
    assert found.estimate == np.median(means)
    # 12 of 256 outcomes are below 5 %: the sixth of the means from either end.
    differences += [64.0, -3.0]
    found = paired_shift(differences)
    means = sorted(
        np.mean(one) for size in range(1, 9) for one in itertools.combinations(differences, size)
    )
    assert (found.low, found.high) == pytest.approx((means[5], means[-6]))
    found = paired_shift([*differences, 5.0, 7.0])
    walsh = [
        (a + b) / 2 for a, b in itertools.combinations_with_replacement([*differences, 5.0, 7.0], 2)
    ]
    assert found.estimate == np.median(walsh)


@pytest.mark.parametrize("number", range(8, 21))
def test_the_size_is_close_to_the_level_from_8_blocks_on(number: int) -> None:
    """The largest p-value up to 5 % that so many blocks can give, without ties."""
    ranked = number >= RANKS_FROM
    sizes = [float(at + 1) if ranked else 2.0**at for at in range(number)]
    found = [
        paired_shift([-size if at in below else size for at, size in enumerate(sizes)])
        for many in range(4)
        for below in itertools.combinations(range(number), many)
        if not ranked or set(below[1:]) <= {number - 1, number - 2}
    ]
    assert 0.04 <= max(one.p for one in found if one.p <= 0.05) <= 0.05


def test_too_few_runs_exclude_nothing() -> None:
    found = paired_shift([3.0] * 5)
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert found.least_p > 0.05
    found = shift([1.0, 2.0, 3.0], [11.0, 12.0, 13.0])
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert found.p == found.least_p == pytest.approx(0.1)
    assert shift([1.0], [2.0]).least_p == 1.0


@pytest.mark.parametrize(
    "values", [[], [math.nan], [1.0, math.nan], [math.inf], [0.0] * (RUNS_LIMIT + 1)]
)
def test_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="run"):
        paired_shift(values)
    with pytest.raises(ValueError, match="run"):
        shift([1.0], values)


@pytest.mark.slow
def test_refused_together_and_without_a_confidence() -> None:
    half = [0.0] * (RUNS_LIMIT // 2)
    assert shift(half, half).p == paired_shift(half + half).p == 1.0
    first = [float(one) for one in range(RUNS_LIMIT // 2)]
    far = shift(first, [one + RUNS_LIMIT for one in first])
    assert far.p == far.least_p == pytest.approx(2 / math.comb(RUNS_LIMIT, RUNS_LIMIT // 2))
    # ranks 11, 10, 9 and 3 of 66 are half of their sum
    even = [-1.0, -2.0, 3.0, -4.0, -5.0, -6.0, -7.0, -8.0, 9.0, 10.0, 11.0]
    assert paired_shift(even).p == 1.0
    with pytest.raises(ValueError, match="at most"):
        shift([*half, 0.0], half)
    for confidence in (0.0, 1.0):
        with pytest.raises(ValueError, match="confidence"):
            paired_shift([1.0], confidence)


def test_ranks_of_the_smallest_p_value_and_of_a_level_that_is_met_exactly() -> None:
    for number in range(2, 16):  # all of one sign
        found = paired_shift([float(one) for one in range(1, number + 1)])
        assert found.least_p == found.p == 2.0 ** (1 - number)
    found = paired_shift([1.0, 2.0, 4.0, 8.0, 16.0], 1 - 2.0**-4)
    assert (found.low, found.high) == (1.0, 16.0)


def test_holm() -> None:
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    # From Holm's own rule: reject while p(i) <= level / (m - i + 1).
    p_values = [0.001, 0.011, 0.02, 0.012, 0.3]
    rejected = set()
    for place, at in enumerate(sorted(range(5), key=lambda at: p_values[at])):
        if p_values[at] > 0.05 / (5 - place):
            break
        rejected.add(at)
    assert {at for at, p in enumerate(holm(p_values)) if p <= 0.05} == rejected


@pytest.mark.parametrize(("quantities", "blocks"), [(1, 6), (2, 7), (3, 7), (4, 8), (13, 10)])
def test_blocks_needed(quantities: int, blocks: int) -> None:
    assert blocks_needed(quantities) == blocks
    assert 2.0 ** (1 - blocks) <= 0.05 / quantities < 2.0 ** (2 - blocks)


def test_blocks_needed_at_a_level_that_is_met_exactly() -> None:
    assert blocks_needed(1, 2**-5) == 6
    with pytest.raises(ValueError, match="family"):
        blocks_needed(0)
    with pytest.raises(ValueError, match="family"):
        blocks_needed(1, 1.0)
    for level in (0.0, -0.5):
        with pytest.raises(ValueError, match="family"):
            blocks_needed(1, level)
    assert blocks_needed() == 6


def test_runs_needed() -> None:
    found = paired_shift([float(value) for value in range(1, 9)])
    half = (found.high - found.low) / 2
    assert runs_needed(found, half) == 8
    assert runs_needed(found, half / 2) == 32
    assert runs_needed(found, 10 * half) == 8
    assert runs_needed(found, 0.9 * half) == 10  # 9.88 are not enough
    assert runs_needed(found, 0.5) == math.ceil(8 * (half / 0.5) ** 2)
    assert runs_needed(found, 0.0) is None
    assert runs_needed(paired_shift([1.0]), 1.0) is None
