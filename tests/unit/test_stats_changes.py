# SPDX-License-Identifier: Apache-2.0
"""Changes over runs, against brute force and ``ruptures``."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import statistics
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, rankdata

from rtgauge import stats
from rtgauge.stats.changes import LEAST, PENALTIES

FOLDER = Path(__file__).parents[2] / "bench"


def _bench() -> ModuleType:
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location("bench_trend", FOLDER / "trend.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module


BENCH = _bench()


def _spread(values: np.ndarray) -> float:
    return float(((values - values.mean()) ** 2).sum())


def _cost(values: np.ndarray, places: list[int], cost: float) -> float:
    bounds = [0, *places, len(values)]
    return cost * len(places) + sum(_spread(values[a:b]) for a, b in itertools.pairwise(bounds))


def _all_places(number: int) -> list[list[int]]:
    """Every way to cut so many values into segments that are long enough."""
    found: list[list[int]] = [[]]
    for many in (1, 2, 3):
        found += [
            list(cut)
            for cut in itertools.combinations(range(LEAST, number - LEAST + 1), many)
            if all(b - a >= LEAST for a, b in itertools.pairwise(cut))
        ]
    return found


@given(
    st.lists(st.integers(-5, 5), min_size=8, max_size=15),
    st.sampled_from([0.5, 2.0, 8.0, 30.0]),
)
@settings(max_examples=60, deadline=None)
def test_the_partition_is_the_best_of_all(values: list[int], cost: float) -> None:
    row = np.array(values, np.float64)
    best = min(_cost(row, places, cost) for places in _all_places(len(row)))
    assert _cost(row, stats.changes(row, cost), cost) == pytest.approx(best)


def test_the_bench_calibrates_what_the_product_finds() -> None:
    """A change is found with a penalty just below the calibrated one, and no change just above it;
    with 1, 2 and 3 changes at best (``bench/trend.py``)."""
    random = np.random.default_rng(9)
    scores = random.standard_normal((40, 30))
    scores[20:, 10:15] += 3
    scores[30:, 22:] -= 3
    for row, limit in zip(scores, BENCH.largest(scores), strict=True):
        assert stats.changes(row, limit * 1.001) == []
        assert 1 <= len(stats.changes(row, limit * 0.999)) <= 3


def test_a_change_is_where_the_values_part() -> None:
    """The largest value before a change has nearly the score of the smallest after it."""
    values = np.concatenate([np.linspace(5.0, 5.1, 20), np.linspace(6.0, 6.1, 12)])
    scores = stats.normal_scores(values)
    places = stats.changes(scores, stats.penalty(32))
    assert len(places) == 1 and stats.settled(values, places) == [20]
    assert stats.settled(values[::-1], [15]) == [12]
    assert stats.settled(values, []) == []
    random = np.random.default_rng(2)
    row = random.normal(size=60)
    row[25:] += 3
    cost = [
        sum(np.abs(part - np.median(part)).sum() for part in (row[:cut], row[cut:]))
        for cut in range(LEAST, 57)
    ]
    assert stats.settled(row, [40]) == [LEAST + int(np.argmin(cost))]


@pytest.mark.slow
@given(st.lists(st.integers(0, 20), min_size=16, max_size=28), st.data())
@settings(deadline=None)
def test_changes_are_moved_between_their_neighbours(values: list[int], data: st.DataObject) -> None:
    """Each as far as the next one, from where the one before was moved to."""
    number = len(values)
    first = data.draw(st.integers(4, number - 12))
    second = data.draw(st.integers(first + 4, number - 8))
    third = data.draw(st.integers(second + 4, number - 4))

    def away(begin: int, end: int) -> float:
        middle = statistics.median(values[begin:end])
        return sum(abs(one - middle) for one in values[begin:end])

    def best(begin: int, end: int) -> float:
        return min(away(begin, at) + away(at, end) for at in range(begin + 4, end - 3))

    places = [0, *stats.settled(values, [first, second, third]), number]
    assert all(a + 4 <= b for a, b in itertools.pairwise(places))
    for before, at, after in zip(places, places[1:], (second, third, number), strict=False):
        assert away(before, at) + away(at, after) == best(before, after)


def test_four_runs_are_a_segment_and_three_are_not() -> None:
    assert stats.changes([0.0] * 10 + [9.0] * 4, 1.0) == [10]
    assert stats.changes([0.0] * 10 + [9.0] * 3, 300.0) == []
    assert stats.changes([9.0] * 3 + [0.0] * 10, 1.0)[0] > 3
    assert stats.settled([0.0] * 4 + [9.0] * 4, [4]) == [4]


@pytest.mark.parametrize("seed", range(12))
def test_ruptures_finds_the_same(seed: int) -> None:
    random = np.random.default_rng(seed)
    row = random.standard_normal(120)
    for begin in random.choice(np.arange(10, 110), seed % 4, replace=False):
        row[begin:] += random.choice([-2.0, 2.0])
    scores = stats.normal_scores(row)
    for cost in (2.0, 6.0, 12.0):
        other = (
            importlib.import_module("ruptures")
            .KernelCPD(kernel="linear", min_size=LEAST)
            .fit(scores.reshape(-1, 1))
        )
        theirs = other.predict(pen=cost)[:-1]
        assert _cost(scores, stats.changes(scores, cost), cost) == pytest.approx(
            _cost(scores, theirs, cost)
        )


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40))
def test_normal_scores_are_those_of_mid_ranks(values: list[int]) -> None:
    expected = norm.ppf((rankdata(values) - 0.5) / len(values))
    assert stats.normal_scores(values) == pytest.approx(expected)


def test_the_penalty_lies_between_the_entries_and_beyond_them() -> None:
    for number, (hundred, thousand) in PENALTIES.items():
        assert stats.penalty(number) == pytest.approx(hundred)
        assert stats.penalty(number, 0.001) == pytest.approx(thousand)
        assert stats.penalty(number, 0.0001) == pytest.approx(2 * thousand - hundred)
    row = [stats.penalty(number) for number in range(20, 1001, 20)]
    assert row == sorted(row)
    for wrong in (19, 1001):
        with pytest.raises(ValueError, match="20 to 1000 runs"):
            stats.penalty(wrong)


def test_the_penalties_are_those_of_the_bench() -> None:
    """Rounded up to a tenth."""
    results = json.loads((FOLDER / "results/trend.json").read_text(encoding="utf-8"))
    rows = [one for one in results["cases"] if one["section"] == "penalty"]
    assert [f"{number} runs" for number in PENALTIES] == [one["case"] for one in rows]
    for row, told in zip(rows, PENALTIES.values(), strict=True):
        for made, value in zip((row["one_in_100"], row["one_in_1000"]), told, strict=True):
            assert 0 <= round(value - made, 3) < 0.1


def test_values_that_are_all_the_same_have_no_change() -> None:
    scores = stats.normal_scores([7.0] * 30)
    assert not scores.any()
    assert stats.changes(scores, stats.penalty(30)) == []
    assert stats.dependence(scores, []) == 1.0


@pytest.mark.parametrize(
    ("lengths", "values", "places"),
    [
        ((10, 10, 10), (1, 2, 3), [10, 20]),
        ((4, 4, 12), (1, 2, 1), [4, 8]),
        ((4, 4), (7.5, -1), [4]),
        ((10, 3, 10), (1, 2, 1), []),
        ((3, 10), (1, 2), []),
        ((10, 3), (1, 2), []),
        ((20,), (1,), []),
    ],
)
def test_levels_are_constant_values(
    lengths: tuple[int, ...], values: tuple[float, ...], places: list[int]
) -> None:
    row = np.repeat(values, lengths).astype(float)
    assert stats.levels(row) == places
    if places:
        assert stats.dependence(row, places) == 1.0
        row[0] += 1
        assert stats.levels(row) == []


def test_dependence_is_the_published_test() -> None:
    """The ratio of ranks against its distribution over all orders of seven values, and in a
    series that remembers."""
    ranks = np.arange(7.0)
    ratios = [
        float((np.diff(order) ** 2).sum()) for order in itertools.permutations(ranks.tolist())
    ]
    spread = float(((ranks - 3) ** 2).sum())
    assert np.mean(ratios) / spread == pytest.approx(2.0)
    deviation = np.std(ratios) / spread
    order = [0.0, 1.0, 2.0, 4.0, 3.0, 5.0, 6.0]
    observed = float((np.diff(order) ** 2).sum()) / spread
    assert stats.dependence(order, []) == pytest.approx(norm.cdf((observed - 2) / deviation))
    random = np.random.default_rng(4)
    row = random.standard_normal(100)
    assert stats.dependence(row, []) > 0.01
    for at in range(1, 100):
        row[at] += 0.7 * row[at - 1]
    assert stats.dependence(row, []) < 1e-4


@pytest.mark.slow
@given(st.lists(st.integers(0, 4), min_size=5, max_size=40))
def test_equal_values_have_their_mean_rank_in_the_dependence(values: list[int]) -> None:
    ranks, number = rankdata(values), len(values)
    if len(set(values)) > 1:
        ratio = (np.diff(ranks) ** 2).sum() / ((ranks - ranks.mean()) ** 2).sum()
        # Bartels 1982, page 41: the variance for any number of values
        variance = 4.0 * (number - 2) * (5 * number**2 - 2 * number - 9)
        variance /= 5 * number * (number + 1) * (number - 1) ** 2
        expected = norm.cdf((ratio - 2) / np.sqrt(variance))
        assert stats.dependence(values, []) == pytest.approx(expected)


def test_a_change_is_no_dependence() -> None:
    random = np.random.default_rng(5)
    row = random.standard_normal(100)
    row[50:] += 4
    assert stats.dependence(row, []) < 1e-4
    assert stats.dependence(row, [50]) > 0.01
