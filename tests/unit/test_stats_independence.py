# SPDX-License-Identifier: Apache-2.0
"""The extremal index at its borders, with figures by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from rtgauge.stats import ExcursionsBuilder, clustering, extremal_index


def positions(near: int, far: int, gap: int) -> NDArray[np.int64]:
    """Exceedances with ``near`` gaps of 1, then ``far`` of ``gap``.

    Their index is 2 (far (gap - 1))^2 / ((near + far) far (gap - 1) (gap - 2)).
    """
    return np.cumsum([7, *[1] * near, *[gap] * far])


def test_gaps_of_two_are_one_cluster_and_gaps_of_three_are_not() -> None:
    assert extremal_index(np.array([4, 6])) == 1 / 2
    assert extremal_index(np.array([4, 6, 7, 9])) == 1 / 4
    assert extremal_index(np.array([4, 7])) == 1.0  # 2 x 2^2 / (1 x 2 x 1) = 4: no index is above 1
    assert extremal_index(np.array([4, 7, 8, 9, 10, 11, 12, 13, 14, 15])) == 2 * 4 / (9 * 2)


@pytest.mark.parametrize(
    ("near", "far", "index"),
    [(88, 12, 0.3), (76, 24, 0.6)],
)
def test_the_size_of_the_groups(near: int, far: int, index: float) -> None:
    found = clustering(positions(near, far, 6), 5)
    assert found is not None and found.clustered
    assert (found.exceedances, found.threshold) == (101, 5)
    assert found.index == pytest.approx(index)
    assert found.group == pytest.approx(1 / index)
    # the lower limit of a Poisson number, here from the quantiles of chi-squared
    clusters = chi2.ppf(0.1, 2 * index * 101) / 2
    assert found.lower == pytest.approx(clusters / 101)


def test_groups_are_never_larger_than_the_number_of_large_values() -> None:
    found = clustering(np.array([*range(20), 10**9]), 5)
    assert found is not None and found.clustered
    assert found.index == pytest.approx(2 / 20)
    assert found.group == pytest.approx(10)
    assert found.lower == pytest.approx(chi2.ppf(0.1, 2 * 2.1) / 2 / 21)


def test_an_index_of_eight_tenths_is_independent_enough() -> None:
    found = clustering(positions(68, 32, 6), 5)
    assert found is not None
    assert found.index == 0.8
    assert not found.clustered
    assert found.lower == 1.0


def test_twenty_exceedances_are_needed() -> None:
    assert clustering(positions(9, 9, 9), 5) is None
    found = clustering(positions(10, 9, 9), 5)
    assert found is not None and found.exceedances == 20


def test_fewer_than_a_hundred_exceedances_are_clustered_below_seven_tenths() -> None:
    found = [clustering(positions(*one, 6), 5) for one in ((37, 13), (36, 14), (70, 28), (71, 28))]
    assert [one and round(one.index, 2) for one in found] == [0.65, 0.7, 0.71, 0.71]
    assert [one and one.exceedances for one in found] == [51, 51, 99, 100]
    assert [one and one.clustered for one in found] == [True, False, False, True]


def test_pairs_among_few_large_values_are_nearly_always_found() -> None:
    """3000 samples in pairs: a bound that counts each of them as independent is too low."""
    draw, found = np.random.default_rng(2), []
    for _ in range(200):
        builder = ExcursionsBuilder()
        builder.add(np.arange(3000), np.repeat(draw.integers(0, 10**9, 1500), 2))
        one = builder.clustering()
        found.append(one is not None and one.clustered)
    assert sum(found) >= 180
