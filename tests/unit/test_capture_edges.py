# SPDX-License-Identifier: Apache-2.0
"""Edges and answers against what a loop over the samples finds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgauge.capture.edges import Schmitt, logic_edges, state_levels


def cut_up(data: np.ndarray, cuts: list[int]) -> list[np.ndarray]:
    return np.split(data, sorted(min(cut, len(data)) for cut in cuts))


@pytest.mark.slow
@given(st.lists(st.integers(0, 3), max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_logic_edges(values: list[int], cuts: list[int]) -> None:
    first, second, length = logic_edges(cut_up(np.array(values, np.uint8), cuts), 1000)
    assert length == len(values)
    for bit, edges in ((1, first), (2, second)):
        found = [
            (at, bool(now & bit))
            for at, (before, now) in enumerate(itertools.pairwise(values), 1)
            if (before ^ now) & bit
        ]
        assert list(zip(edges.at.tolist(), edges.level.tolist(), strict=True)) == found


def test_too_many_edges() -> None:
    noise = np.tile(np.array([0, 1], np.uint8), 100)
    assert len(logic_edges([noise], 199)[0]) == 199
    with pytest.raises(OverflowError):
        logic_edges([noise], 198)


def by_hand(values: list[float], threshold: float, hysteresis: float) -> list[tuple[float, bool]]:
    high, low = threshold + hysteresis / 2, threshold - hysteresis / 2
    state, found, before = 0, [], math.nan
    crossed = {True: math.nan, False: math.nan}
    for at, raw in enumerate(values):
        now = raw if math.isfinite(raw) else before
        if before < threshold <= now:
            crossed[True] = at - 1 + (threshold - before) / (now - before)
        if before >= threshold > now:
            crossed[False] = at - 1 + (threshold - before) / (now - before)
        to = 1 if now >= high else -1 if now <= low else 0
        if to and state and to != state:
            found.append((crossed[to > 0], to > 0))
        state = to or state
        before = now
    return found


VOLTS = st.one_of(st.integers(-4, 8).map(lambda n: n / 2), st.just(math.nan))


@pytest.mark.slow
@given(
    st.lists(VOLTS, max_size=40),
    st.lists(st.integers(0, 40), max_size=4),
    st.sampled_from([0.75, 1.0, 1.25]),
    st.sampled_from([0.0, 0.5, 1.0, 2.0]),
)
def test_analogue_edges(
    values: list[float], cuts: list[int], threshold: float, hysteresis: float
) -> None:
    schmitt = Schmitt(threshold, hysteresis)
    for piece in cut_up(np.array(values, np.float32), cuts):
        schmitt.feed(piece)
    edges = schmitt.edges()
    expected = by_hand(values, threshold, hysteresis)
    assert edges.level.tolist() == [level for _, level in expected]
    assert edges.at.tolist() == pytest.approx([at for at, _ in expected])


def test_the_crossing_is_between_the_samples() -> None:
    schmitt = Schmitt(1.5, 1.0)
    schmitt.feed(np.array([0.0, 0.0, 1.0, 3.0, 3.0, 1.0, 0.0]))
    assert schmitt.edges().at.tolist() == [2.25, 4.75]


def test_noise_within_the_hysteresis_is_no_edge() -> None:
    wave = np.where(np.arange(1000) < 500, 0.0, 3.0) + 0.2 * (-1.0) ** np.arange(1000)
    schmitt = Schmitt(1.5, 0.6)
    schmitt.feed(wave)
    assert len(schmitt.edges()) == 1


def test_state_levels_are_those_of_the_line_not_of_its_overshoot() -> None:
    wave = np.array([0.1] * 500 + [3.2] * 400 + [6.0] * 3 + [-2.0])
    low, high = state_levels(iter([wave]), float(wave.min()), float(wave.max()))
    assert low == pytest.approx(0.1, abs=0.05)
    assert high == pytest.approx(3.2, abs=0.05)
