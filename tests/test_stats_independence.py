# SPDX-License-Identifier: Apache-2.0
"""The extremal index at its borders, with figures by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from rtgauge.stats import clustering, extremal_index


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
    ("near", "far", "index", "size"),
    [(88, 12, 0.3, "about 3.33 at a time"), (76, 24, 0.6, "about 1.67 at a time")],
)
def test_the_report_names_the_size_of_the_groups(
    near: int, far: int, index: float, size: str
) -> None:
    found = clustering(positions(near, far, 6), 5)
    assert found is not None and found.clustered
    assert (found.exceedances, found.threshold) == (101, 5)
    assert found.index == pytest.approx(index)
    assert size in found.statement


def test_an_index_of_eight_tenths_is_independent_enough() -> None:
    found = clustering(positions(68, 32, 6), 5)
    assert found is not None
    assert found.index == 0.8
    assert not found.clustered
    assert "one by one" in found.statement


def test_a_hundred_exceedances_are_needed() -> None:
    assert clustering(positions(49, 49, 9), 5) is None
    found = clustering(positions(50, 49, 9), 5)
    assert found is not None and found.exceedances == 100
