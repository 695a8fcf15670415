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


def test_an_axis_across_zero_keeps_its_numbers() -> None:
    """Between -1 and 1 it had the number 0 alone."""
    for low, high in ((0.0, 0.9), (-0.9, 0.0), (-0.4, 0.3), (0.0, 1.0)):
        found = scales.values(low, high)
        ticks = found.ticks(6)
        assert 0.0 in ticks and 3 <= len(ticks) <= 8
        assert all(found.low <= tick <= found.high for tick in ticks)
    assert scales.values(-30.0, 90.0).ticks(6) == [-10.0, -1.0, 0.0, 1.0, 10.0, 100.0]


def test_a_low_axis_has_two_numbers() -> None:
    """That of a strip had 0 alone, so that its values could not be read."""
    for low, high in ((0.0, 95.0), (0.0, 3960.0), (0.0, 1.0), (3390.0, 3412.0), (40.0, 44.0)):
        ticks = scales.linear(low, high).ticks(1.75)
        assert 2 <= len(ticks) <= 4
        assert all(low <= tick <= high for tick in ticks)
