# SPDX-License-Identifier: Apache-2.0
"""Episodes of exceedances, held against the count that plain arithmetic gives."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgauge.stats import NEAR, EpisodesBuilder, groups


def by_hand(positions: set[int], near: int = NEAR) -> int:
    """The definition: a new episode begins where the one before is ``near`` or more away."""
    rising = sorted(positions)
    return sum(1 for at, place in enumerate(rising) if at == 0 or place - rising[at - 1] >= near)


@pytest.mark.slow
@given(
    over=st.sets(st.integers(0, 400), max_size=60),
    gaps=st.dictionaries(st.integers(0, 400), st.integers(1, 30), max_size=5),
    cuts=st.lists(st.integers(0, 430), max_size=6),
    near=st.integers(2, 15),
    seed=st.integers(0, 1000),
)
def test_episodes_are_those_of_the_definition(
    over: set[int], gaps: dict[int, int], cuts: list[int], near: int, seed: int
) -> None:
    """Whatever the parts, and in whatever order they arrive."""
    runs = [(place, place) for place in over]
    runs += [(first, first + length - 1) for first, length in gaps.items()]
    positions = {place for first, last in runs for place in range(first, last + 1)}
    inside = {place for first, last in runs for place in range(first, last)}
    bounds = [-1, *sorted(set(cuts) - inside), 1000]
    parts = [
        [run for run in runs if low < run[0] <= high] for low, high in itertools.pairwise(bounds)
    ]
    random.Random(seed).shuffle(parts)
    builder = EpisodesBuilder(near)
    for part in parts:
        random.Random(seed).shuffle(part)
        builder.add(np.array([r[0] for r in part], np.int64), np.array([r[1] for r in part]))
    assert builder.count() == by_hand(positions, near)
    apart = EpisodesBuilder(near)
    apart.add_apart(np.array([r[0] for r in runs], np.int64), np.array([r[1] for r in runs]))
    assert apart.count() == by_hand(positions, near)


def test_ten_intervals_part_two_episodes() -> None:
    builder = EpisodesBuilder()
    builder.add(np.array([5, 14, 24]), np.array([5, 14, 24]))
    assert builder.count() == 2  # 5 and 14 are one, 24 is ten intervals further


def test_memory_does_not_grow_with_exceedances() -> None:
    builder = EpisodesBuilder()
    for start in range(0, 10_000_000, 1_000_000):
        all_of_them = np.arange(start, start + 1_000_000)
        builder.add(all_of_them, all_of_them)
    assert builder.count() == 1
    assert sum(len(part[0]) for part in builder._parts) == 10


def test_a_run_does_not_end_before_it_begins() -> None:
    for first, last in (([3], [2]), ([1, 2], [1])):
        with pytest.raises(ValueError, match="run of exceedances"):
            EpisodesBuilder().add(np.array(first), np.array(last))
    assert EpisodesBuilder().count() == 0


RANKS = [*range(1, 17), 20, 25, 32, 40, 50, 64, 128, 256, 512, 1024, 2048, 4096]


@pytest.mark.slow
@given(
    runs=st.lists(
        st.tuples(st.integers(1, 60), st.integers(0, 30), st.integers(-9, 300)), max_size=300
    ),
    more=st.integers(0, 100_000),
)
def test_the_groups_above_each_limit_are_episodes_or_bursts(
    runs: list[tuple[int, int, int]], more: int
) -> None:
    begin, end, at = [], [], 0
    for apart, length, _ in runs:
        begin.append(at + apart)
        at += apart + length
        end.append(at)
    value = [size for _, _, size in runs]
    shuffled = np.random.default_rng(len(runs)).permutation(len(runs))
    first, last, size_of = (np.array(row, np.int64)[shuffled] for row in (begin, end, value))
    found = groups(first, last, size_of, at + more)
    falling = sorted(value, reverse=True)
    limits = [limit for rank, limit in enumerate(falling, 1) if rank in RANKS]
    assert [limit for limit, _ in found] == sorted(set(limits), reverse=True)
    for limit, number in found:
        over = {
            place
            for low, high, size in zip(begin, end, value, strict=True)
            for place in range(low, high + 1)
            if size >= limit
        }
        episodes = by_hand(over)
        bursts = by_hand(over, max(NEAR, -(-(at + more) // (10 * episodes))))
        assert number == (bursts if 2 * bursts <= episodes else episodes)


def test_groups_are_those_of_the_largest_samples() -> None:
    at = np.array([5, 9, 18, 40, 70], np.int64)
    found = groups(at, at, np.array([30, 50, 20, 50, 10]), 100)
    assert found == [(50, 2), (30, 2), (20, 2), (10, 3)]
    at = np.array([5, 5 + NEAR], np.int64)
    assert groups(at, at, at * 0, 100) == [(0, 2)]
    assert groups(at, at + (at < NEAR), at * 0, 100) == [(0, 1)]
    rising = np.arange(10_000, dtype=np.int64) * NEAR
    limits = [10_000 - limit // NEAR for limit, _ in groups(rising, rising, rising, 10**5)]
    assert limits == RANKS
    assert groups(at[:0], at[:0], at[:0], 0) == []


def test_a_burst_is_one_group() -> None:
    """At least half of the episodes are closer than a tenth of their mean distance."""
    at = np.array([100, 130, 160, 190, 5000, 7000], np.int64)
    value = np.ones(6, np.int64)
    assert groups(at, at, value, 60 * 29) == [(1, 6)]
    assert groups(at, at, value, 60 * 30) == [(1, 6)]
    assert groups(at, at, value, 60 * 30 + 1) == [(1, 3)]
    assert groups(at[1:], at[1:], value[1:], 10_000) == [(1, 5)]  # 3 of 5 are left
