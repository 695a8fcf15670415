# SPDX-License-Identifier: Apache-2.0
"""Which points of a thinned curve are kept: the tail whole, the rest evenly in both directions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from rtgauge.stats import Counts, ccdf_points

NORMAL = np.random.default_rng(3).normal(0, 10_000, 5000)
SHAPES = {
    "uniform": np.arange(-1000, 4000) * 7,
    "growing": np.unique(np.round(np.geomspace(100, 1e9, 4000))),
    "negative": -np.unique(np.round(np.geomspace(100, 1e9, 4000))),
    "normal": np.sort(NORMAL),
    "weighted": np.repeat(np.arange(900), np.arange(900, 0, -1)),
}


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
    assert curve.fraction[0] == 1 and curve.at_least[0] == len(array)
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
    assert curve.value.tolist() >= [100]
    assert curve.value[-tail - 1 :].tolist() == array[-tail - 1 :].tolist()
    assert curve.at_least[-1] == 1


@pytest.mark.parametrize("number", [59, 60, 61])
def test_a_curve_that_fits_is_whole(number: int) -> None:
    array = np.unique(np.round(np.geomspace(100, 1e12, number)).astype(np.int64))
    curve = ccdf_points(Counts.from_arrays([array]), 60, 5)
    assert (len(curve.value) == number) == (number <= 60)
    assert len(curve.value) <= 60
