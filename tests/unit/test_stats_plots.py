# SPDX-License-Identifier: Apache-2.0
"""Which points of a thinned curve are kept: the tail whole, the rest evenly in both directions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from rtgauge.stats import Counts, ccdf_points, histogram_points

NORMAL = np.random.default_rng(3).normal(0, 10_000, 5000)
SHAPES = {
    "uniform": np.arange(-1000, 4000) * 7,
    "growing": np.unique(np.round(np.geomspace(100, 1e9, 4000))),
    "negative": -np.unique(np.round(np.geomspace(100, 1e9, 4000))),
    "normal": np.sort(NORMAL),
    "weighted": np.repeat(np.arange(900), np.arange(900, 0, -1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("points", "tail"), [(600, 100), (60, 20), (61, 20), (40, 36), (9, 1)])
def test_a_thinned_curve_has_no_gap_wider_than_a_step(shape: str, points: int, tail: int) -> None:
    """Half of the points are spread over the logarithm of the probability, half over the values:
    what was left out between two neighbours is less than a step of either."""
    array: NDArray[np.int64] = SHAPES[shape].astype(np.int64)
    distinct = np.unique(array)
    curve = ccdf_points(Counts.from_arrays([array]), points, tail)
    assert len(curve.value) <= points
    assert curve.value[-tail - 1 :].tolist() == distinct[-tail - 1 :].tolist()
    assert curve.value[0] == distinct[0]
    body = distinct[: len(distinct) - tail]
    at_least = [int((array >= value).sum()) for value in body.tolist()]
    assert curve.at_least[0] == len(array)
    half = (points - tail - 2) // 2
    if half < 2:
        return
    height_step = math.log(at_least[0] / at_least[-1]) / (half - 1)
    value_step = (math.asinh(body[-1]) - math.asinh(body[0])) / (half - 1)
    kept = np.searchsorted(body, curve.value[curve.value <= body[-1]]).tolist()
    for one, other in itertools.pairwise(kept):
        if other > one + 1:
            last = other - 1
            assert math.log(at_least[one] / at_least[last]) <= height_step * (1 + 1e-9)
            width = math.asinh(body[last]) - math.asinh(body[one])
            assert width <= value_step * (1 + 1e-9)


@pytest.mark.parametrize(("points", "tail"), [(6, 6), (4, 1), (0, 0), (10, 7), (10, 8), (10, 90)])
def test_few_points_are_a_tail_and_both_ends_of_the_rest(points: int, tail: int) -> None:
    """At least one value is left to the tail, and at most three of the points are not its."""
    array = np.arange(100, 300)
    curve = ccdf_points(Counts.from_arrays([array]), points, tail)
    points = max(points, 4)
    tail = min(max(tail, 1), points - 3)
    assert len(curve.value) <= points
    assert curve.value[0] == 100
    assert curve.value[-tail - 1 :].tolist() == array[-tail - 1 :].tolist()
    assert curve.at_least[-1] == 1


@pytest.mark.parametrize("number", [59, 60, 61])
def test_a_curve_that_fits_is_whole(number: int) -> None:
    array = np.unique(np.round(np.geomspace(100, 1e12, number)).astype(np.int64))
    curve = ccdf_points(Counts.from_arrays([array]), 60, 5)
    assert (len(curve.value) == number) == (number <= 60)
    assert len(curve.value) <= 60


# --- bins --------------------------------------------------------------------------------------

Bins = list[tuple[int, int]]


def tiles(low: int, high: int, number: int, grain: int) -> Bins:
    """Bins from low to high >= 0, whole grains, their starts a geometric progression."""
    start, stop = max(low, grain) / grain, (high + grain) / grain
    steps = (start * (stop / start) ** (k / number) for k in range(number + 1))
    starts = sorted({low} | {s for s in (round(one) * grain for one in steps) if low < s <= high})
    return [(one, after - 1) for one, after in itertools.pairwise([*starts, high + grain])]


def expected_bins(values: list[int], bins: int) -> list[tuple[int, int, int]]:
    """The bins that are not empty; each side of 0 has its share by the logarithm of its end."""
    low, high = min(values), max(values)
    grain = max(math.gcd(*values), 1)
    above = math.log(max(high, 1)) - math.log(max(low, 1)) if high >= 0 else 0.0
    below = math.log(max(-low, 1)) - math.log(max(-high, 1)) if low < 0 else 0.0
    total = above + below
    share = [max(int(bins * part / total), 1) if total else 1 for part in (below, above)]
    found: Bins = []
    if low < 0:
        mirrored = tiles(max(-high, 1), -low, share[0], grain)
        mirrored[-1] = mirrored[-1][0], -low
        found += [(-one[1], -one[0]) for one in reversed(mirrored)]
        found[-1] = found[-1][0], -1 if high >= 0 else high
    if high >= 0:
        found += tiles(max(low, 0), high, share[1], grain)
    counted = [(a, b, sum(a <= value <= b for value in values)) for a, b in found]
    return [one for one in counted if one[2]]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "ends",
    [(1000, 90_000), (0, 5000), (1, 3), (-90_000, -1000), (-5000, -1), (-300, 90_000),
     (-90_000, 300), (-7, 7), (-5000, 0)],
)  # fmt: skip
@pytest.mark.parametrize("grain", [1, 40])
def test_bins_are_a_geometric_progression(seed: int, ends: tuple[int, int], grain: int) -> None:
    random = np.random.default_rng(seed)
    inside = random.integers(ends[0], ends[1], 300, endpoint=True)
    values = (np.concatenate([ends, inside]) * grain).tolist()
    for bins in (1, 7, 60, 400):
        points = histogram_points(Counts.from_arrays([np.array(values)]), bins)
        rows = list(
            zip(points.low.tolist(), points.high.tolist(), points.count.tolist(), strict=True)
        )
        assert rows == expected_bins(values, bins)


@pytest.mark.parametrize("value", [0, 1, -1, 5, -5, 40])
def test_one_value_is_one_bin(value: int) -> None:
    points = histogram_points(Counts.from_arrays([np.full(3, value)]), 60)
    assert len(points.low) == 1
    assert points.low[0] <= value <= points.high[0] and points.count.tolist() == [3]
    assert histogram_points(Counts.from_arrays([]), 60).count.tolist() == []


def test_bins_of_a_histogram_are_those_of_its_values() -> None:
    values, counts = np.arange(1001, 9001, 8), np.arange(1, 1001)
    coarse = Counts(values, counts, 0, 1001, 8993, 7)
    exact = Counts.of_table(values, counts)
    one, other = histogram_points(coarse, 50), histogram_points(exact, 50)
    assert one.low.tolist() == other.low.tolist()
    assert one.high.tolist() == other.high.tolist()
    assert one.count.tolist() == other.count.tolist()


def test_pictures_have_400_bins_and_600_points_unless_told() -> None:
    counts = Counts.from_arrays([np.unique(np.round(np.geomspace(1000, 1e9, 9000)).astype(int))])
    plain, told = histogram_points(counts), histogram_points(counts, 400)
    assert plain.low.tolist() == told.low.tolist() != histogram_points(counts, 401).low.tolist()
    curve, asked = ccdf_points(counts), ccdf_points(counts, 600, 100)
    assert curve.value.tolist() == asked.value.tolist()
    for number in (600, 601):
        kept = ccdf_points(Counts.from_arrays([np.arange(number)])).value
        assert (len(kept) == number) == (number == 600)
    for points, tail in ((599, 100), (602, 100), (600, 99), (600, 102)):
        assert curve.value.tolist() != ccdf_points(counts, points, tail).value.tolist()
