# SPDX-License-Identifier: Apache-2.0
"""Axes of the figures on paper: of any values that a series can have."""

from __future__ import annotations

import itertools

import pytest

from rtgauge.report.pictures import scales
from rtgauge.stream import NUMBER_LIMIT

ENDS = (0, 1, -1, 100, 101, 2**53, -NUMBER_LIMIT, NUMBER_LIMIT - 1, NUMBER_LIMIT)


@pytest.mark.parametrize("axis", [scales.values, scales.spread, scales.linear])
def test_every_axis_has_room_and_holds_its_values(axis: object) -> None:
    for least in ENDS:
        for most in (one for one in ENDS if one >= least):
            found = axis(float(least), float(most))  # type: ignore[operator]
            assert found.low < found.high
            assert found.low <= least
            assert found.high >= most
            assert 0 <= found.at(least) <= found.at(most) <= 1
            ticks = found.ticks(5)
            assert all(a < b for a, b in itertools.pairwise(ticks))


@pytest.mark.study(36)
def test_negative_values_lie_on_their_axis() -> None:
    found = scales.spread(-100.0, -90.0)
    assert (found.low, found.high) == (-105.0, 0.0)
