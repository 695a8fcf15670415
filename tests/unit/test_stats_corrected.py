# SPDX-License-Identifier: Apache-2.0
"""The correction against a simulated periodic task that is stalled, point by point."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rtgauge.stats import Counts, GapOffsets, corrected, missed_values, values_at
from rtgauge.stats.corrected import _long_gap


@dataclass
class Simulation:
    """A task that sleeps to each due time on one CPU that others take away now and then."""

    interval: int
    stalls: list[tuple[int, int]]
    offsets: NDArray[np.int64]
    late_look: bool = False
    index: list[int] = field(default_factory=list)
    latency: list[int] = field(default_factory=list)
    gap_index: list[int] = field(default_factory=list)
    gap_count: list[int] = field(default_factory=list)
    truth: list[int] = field(default_factory=list)
    looked: list[int] = field(default_factory=list)

    def due(self, point: int) -> int:
        return point * self.interval + int(self.offsets[point])

    def runs_at(self, time: int) -> int:
        for start, length in self.stalls:
            if start <= time < start + length:
                return start + length
        return time

    def carry_out(self) -> Simulation:
        points = len(self.offsets)
        random = np.random.default_rng(points)
        point = 0
        while point < points:
            wake = self.runs_at(self.due(point) + int(random.integers(1, 9)))
            now = self.runs_at(wake + 3) if self.late_look else wake
            self.index.append(point)
            self.latency.append(wake - self.due(point))
            self.truth.append(wake - self.due(point))
            self.looked.append(wake - self.due(point))
            following = point + 1
            while following < points and self.due(following) <= now:
                following += 1
            if following > point + 1:
                self.gap_index.append(point)
                self.gap_count.append(following - point - 1)
                # the moment of looking, known to the observer no better than by the last point
                seen = max(wake, self.due(following - 1))
                self.truth += [seen - self.due(k) for k in range(point + 1, following)]
                self.looked += [now - self.due(k) for k in range(point + 1, following)]
            point = following
        return self


def correct_simulation(task: Simulation, *, dithered: bool) -> tuple[Counts, int]:
    index = np.array(task.index, np.int64)
    latency = np.array(task.latency, np.int64)
    gap_index = np.array(task.gap_index, np.int64)
    gap_count = np.array(task.gap_count, np.int64)
    before, known = values_at([(index, latency)], gap_index)
    offsets = None
    if dithered:
        grid = np.arange(len(task.offsets))
        cut = len(grid) // 3
        parts = [(grid[:cut], task.offsets[:cut]), (grid[cut:], task.offsets[cut:])]
        offsets = GapOffsets(parts, gap_index, gap_count)
    found = corrected(
        Counts.from_arrays([latency]),
        before,
        gap_count,
        task.interval,
        known=known,
        offsets=offsets,
    )
    assert found.uncorrectable == found.uncorrectable_gaps == 0
    return found.counts, found.added


STALLS = st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 4000)), max_size=6)


@pytest.mark.slow
@given(STALLS, st.integers(10, 300), st.booleans())
def test_every_skipped_point_gets_what_it_would_have_seen(
    stalls: list[tuple[int, int]], interval: int, late_look: bool
) -> None:
    points = 30_000 // interval
    task = Simulation(interval, stalls, np.zeros(points, np.int64), late_look).carry_out()
    counts, added = correct_simulation(task, dithered=False)
    assert counts == Counts.from_arrays([np.array(task.truth, np.int64)])
    assert counts.count == points == len(task.index) + added
    assert counts.min is not None and counts.min >= 0
    if not late_look:
        assert task.truth == task.looked
    assert all(found <= real for found, real in zip(task.truth, task.looked, strict=True))


def blocks_of(size: int) -> mock._patch[int]:
    """Have arrays be worked through in blocks of so many."""
    return mock.patch.object(sys.modules[corrected.__module__], "_BLOCK", size)


@pytest.mark.slow
@given(
    STALLS, st.integers(20, 300), st.booleans(), st.integers(0, 1000), st.sampled_from((1, 3, 999))
)
def test_dithered_points_too(
    stalls: list[tuple[int, int]], interval: int, late_look: bool, seed: int, block: int
) -> None:
    points = 30_000 // interval
    offsets = np.random.default_rng(seed).integers(0, interval // 2, points)
    task = Simulation(interval, stalls, offsets, late_look).carry_out()
    with blocks_of(block):
        counts, _ = correct_simulation(task, dithered=True)
    assert counts == Counts.from_arrays([np.array(task.truth, np.int64)])


GAPS = st.lists(st.tuples(st.integers(-50, 900), st.integers(0, 9), st.booleans()), max_size=40)


@pytest.mark.slow
@given(GAPS, st.sampled_from((1, 2, 7)), st.booleans(), st.booleans())
def test_blocks_of_gaps_equal_all_at_once(
    gaps: list[tuple[int, int, bool]], block: int, dithered: bool, many: bool
) -> None:
    """Also with gaps whose sample is unknown and gaps that are added by bucket among them."""
    latency, count = (np.array([gap[k] for gap in gaps], np.int64) for k in (0, 1))
    known = np.array([gap[2] for gap in gaps], bool)
    index = np.cumsum(np.concatenate(([0], count[:-1] + 2)))[: len(gaps)]
    grid = np.arange(1000)
    module = sys.modules[corrected.__module__]
    found = []
    for size in (block, 1 << 18):
        with (
            blocks_of(size),
            mock.patch.object(module, "_EXACT_POINTS", 5 if many else 1 << 22),
            mock.patch.object(module, "_LONG_GAP", 6),
        ):
            offsets = GapOffsets([(grid, grid * 31 % 50)], index, count) if dithered else None
            raw = Counts.from_arrays([latency])
            found.append(corrected(raw, latency, count, 100, known=known, offsets=offsets))
    assert found[0] == found[1]
    assert found[0].added + found[0].uncorrectable == int(count.sum())


def test_stop_of_50_ms_at_1_ms_is_about_50_late_wake_ups() -> None:
    """One sample of 50.003 ms is seen; 50 periods were late."""
    measured = np.full(10_000, 3_000, np.int32)
    measured[5_000] = 50_003_000
    raw = Counts.from_arrays([measured])
    found = corrected(raw, np.array([50_003_000]), np.array([50]), 1_000_000)
    assert raw.exceeding(500_000) == 1
    assert found.counts.exceeding(500_000) == 50
    assert found.added == 50 and found.counts.count == 10_050
    assert found.counts.max == 50_003_000
    assert raw.percentile("99.9") == 3_000 and found.counts.percentile("99.9") > 30_000_000


def test_gap_after_a_sample_that_was_lost_cannot_be_corrected() -> None:
    raw = Counts.from_arrays([np.array([5, 6], np.int32)])
    found = corrected(
        raw,
        np.array([0, 250]),
        np.array([7, 2]),
        100,
        known=np.array([False, True]),
    )
    assert (found.uncorrectable_gaps, found.uncorrectable, found.added) == (1, 7, 2)
    assert found.counts.values.tolist() == [5, 6, 50, 150]


def test_lost_sample_does_not_shift_the_offsets_of_later_gaps() -> None:
    grid = np.arange(20)
    offsets = GapOffsets([(grid, grid)], np.array([2, 10]), np.array([3, 2]))
    found = corrected(
        Counts.from_arrays([]),
        np.array([0, 290]),
        np.array([3, 2]),
        100,
        known=np.array([False, True]),
        offsets=offsets,
    )
    assert found.counts.values.tolist() == [300 - 200 - 12, 300 - 100 - 11]


def test_nothing_missed_changes_nothing() -> None:
    raw = Counts.from_arrays([np.array([5, 6], np.int32)])
    none = np.empty(0, np.int64)
    assert corrected(raw, none, none, 0).counts == raw


@pytest.mark.parametrize("interval", [1, 2, 3, 1000])
def test_gaps_up_to_the_longest_that_64_bits_hold(interval: int) -> None:
    """2^62 ns are corrected, and one interval more is counted as uncorrectable."""
    raw = Counts.from_arrays([np.array([7], np.int64)])
    most = (1 << 62) // interval
    for count, left in ((most, 0), (most + 1, most + 1)):
        found = corrected(raw, np.array([7]), np.array([count]), interval)
        assert (found.added, found.uncorrectable) == (count - left, left)
        assert found.uncorrectable_gaps == (left > 0)


def test_impossible_gaps() -> None:
    raw = Counts.from_arrays([])
    one = np.array([1])
    with pytest.raises(ValueError, match="grid"):
        corrected(raw, one, one, 0)
    with pytest.raises(ValueError, match="cannot have a negative"):
        corrected(raw, one, -one, 10)
    with pytest.raises(ValueError, match="each gap"):
        corrected(raw, one, np.array([1, 2]), 10)
    with pytest.raises(ValueError, match="overlap"):
        GapOffsets([], np.array([1, 3]), np.array([2, 1]))


@given(st.integers(0, 10**7), st.integers(1, 3000), st.integers(1, 5000))
def test_long_gap_by_bucket_equals_its_points(latency: int, count: int, interval: int) -> None:
    exact = np.concatenate(list(missed_values(np.array([latency]), np.array([count]), interval)))
    table = _long_gap(latency, count, interval)
    assert (table.count, table.sum) == (count, int(exact.sum()))
    assert table.counts.min() > 0
    assert (table.min, table.max) == (int(exact.min()), int(exact.max()))
    for percent in (1, 50, 99):
        true = Counts.from_arrays([exact]).percentile(percent)
        assert true <= table.percentile(percent) <= true + abs(true) / 1024


def test_stop_of_days_is_corrected_in_bounded_memory() -> None:
    """A board suspended for 30 days at 20 us skipped 1.3e11 points."""
    count = 30 * 86_400 * 50_000
    latency = np.array([count * 20_000 + 500, 45_000])
    found = corrected(Counts.from_arrays([]), latency, np.array([count, 2]), 20_000)
    assert found.added == count + 2 == found.counts.count
    assert found.counts.max == (count - 1) * 20_000 + 500
    assert len(found.counts.values) < 100_000
    median = found.counts.percentile(50)
    assert median == pytest.approx(count / 2 * 20_000, rel=0.001)


def test_hostile_gap_is_left_out() -> None:
    found = corrected(
        Counts.from_arrays([]), np.array([5, 5]), np.array([1 << 62, (1 << 62) + 1]), 1 << 40
    )
    assert found.added == 0 and found.uncorrectable == 2 * (1 << 62) + 1


def test_gaps_are_counted_from_the_first() -> None:
    grid = np.arange(20)
    latency, count = np.array([390, 290]), np.array([3, 2])
    offsets = GapOffsets([(grid, grid * 5)], np.array([2, 10]), count)
    found = [list(missed_values(latency, count, 100, offsets, *more)) for more in ((), (0,))]
    assert np.array_equal(np.concatenate(found[0]), np.concatenate(found[1]))
    last = list(missed_values(latency[1:], count[1:], 100, offsets, 1))
    assert np.array_equal(np.concatenate(found[0])[3:], np.concatenate(last))


def test_very_many_gaps_come_in_blocks() -> None:
    random = np.random.default_rng(1)
    latency = random.integers(1000, 5000, 400_000)
    count = latency // 1000
    blocks = list(missed_values(latency, count, 1000))
    assert max(map(len, blocks)) <= (1 << 20) and len(blocks) > 0
    expected = np.concatenate([latency[count >= j] - 1000 * j for j in range(1, 6)])
    assert np.array_equal(np.sort(np.concatenate(blocks)), np.sort(expected))


@pytest.mark.slow
@given(st.lists(st.integers(0, 60), unique=True), st.lists(st.integers(-3, 70)), st.integers(1, 9))
def test_values_at_equals_a_dictionary(have: list[int], want: list[int], size: int) -> None:
    index = np.array(sorted(have), np.int64)
    value = (index * 7 - 3).astype(np.int32)
    chunks = [(index[k : k + size], value[k : k + size]) for k in range(0, len(index) + 1, size)]
    wanted = np.array(sorted(want), np.int64)
    values, known = values_at(chunks, wanted)
    table = dict(zip(index.tolist(), value.tolist(), strict=True))
    assert known.tolist() == [k in table for k in wanted.tolist()]
    assert values[known].tolist() == [table[k] for k in wanted.tolist() if k in table]


def test_chunks_without_samples_end_nothing() -> None:
    none, index = np.empty(0, np.int64), np.arange(6)
    chunks = [(index[:2], index[:2] * 10), (none, none), (index[2:], index[2:] * 10)]
    values, known = values_at(chunks, np.array([1, 4, 5, 6]))
    assert (values.tolist(), known.tolist()) == ([10, 40, 50, 0], [True, True, True, False])
    offsets = GapOffsets(chunks, np.array([0, 3]), np.array([2, 2]))
    assert offsets.of(np.array([0, 0, 1, 1]), np.array([0, 2, 0, 2])).tolist() == [0, 20, 30, 50]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 40])
def test_offsets_come_from_chunks_of_any_size(size: int) -> None:
    """Gaps that touch, that begin and that end at the border of a chunk."""
    grid = np.arange(40)
    chunks = [(grid[at : at + size], grid[at : at + size] + 100) for at in range(0, 40, size)]
    begin, count = np.array([0, 2, 8, 9, 30, 36]), np.array([1, 5, 0, 6, 4, 3])
    offsets = GapOffsets(chunks, begin, count)
    for gap, (first, number) in enumerate(zip(begin.tolist(), count.tolist(), strict=True)):
        for step in range(number + 1):
            assert offsets.of(np.array([gap]), np.array([step])).tolist() == [first + step + 100]


@pytest.mark.parametrize("far", [2**31 - 1, 2**31, -(2**31) - 1, 2**59])
def test_offsets_beyond_32_bits_are_kept_whole(far: int) -> None:
    grid = np.arange(12)
    values = np.where(grid == 7, far, grid)
    chunks = [(grid[:6], values[:6]), (grid[6:], values[6:])]
    offsets = GapOffsets(chunks, np.array([2, 6]), np.array([2, 2]))
    gap, step = np.repeat([0, 1], 3), np.tile([0, 1, 2], 2)
    assert offsets.of(gap, step).tolist() == [2, 3, 4, 6, far, 8]


@pytest.mark.parametrize(
    ("index", "count"),
    [([5], [-1]), ([0, 10, 12], [2, 5, 1]), ([0, 10, 20], [10, 2, 2]), ([9, 3], [1, 1])],
)
def test_gaps_that_overlap(index: list[int], count: list[int]) -> None:
    with pytest.raises(ValueError, match="overlap"):
        GapOffsets([], np.array(index), np.array(count))


def test_a_grid_of_a_nanosecond_is_one() -> None:
    found = corrected(Counts.from_arrays([]), np.array([9]), np.array([3]), 1)
    assert found.counts.values.tolist() == [6, 7, 8]
    with pytest.raises(ValueError, match="negative"):
        corrected(Counts.from_arrays([]), np.array([9, 9]), np.array([3, -1]), 1)


@pytest.mark.parametrize(("number", "exact"), [(1 << 22, True), ((1 << 22) + 1, False)])
@pytest.mark.slow
def test_four_million_points_are_exact(number: int, exact: bool) -> None:
    """And beyond, gaps of up to 4096 points."""
    found = corrected(Counts.from_arrays([]), np.array([5]), np.array([number]), 100)
    assert found.counts.exact == exact
    assert found.counts.count == found.added == number
    assert found.counts.resolution == (0 if exact else Fraction(1, 1024))


@pytest.mark.slow
@pytest.mark.parametrize(("points", "exact"), [(4096, True), (4097, False)])
def test_gaps_of_4096_points_are_exact_beside_any_number(points: int, exact: bool) -> None:
    gaps = (1 << 22) // points + 1
    many = np.full(gaps, points)
    found = corrected(Counts.from_arrays([]), np.zeros(gaps, np.int64), many, 1000)
    assert found.counts.exact == exact
    assert found.counts.sum == gaps * 1000 * (points * (points - 1) // 2)


def test_what_cannot_be_corrected_is_counted_by_gaps_that_have_points() -> None:
    known = np.array([False, False, True, False])
    found = corrected(
        Counts.from_arrays([]), np.zeros(4, np.int64), np.array([0, 7, 0, 1]), 100, known=known
    )
    assert (found.uncorrectable_gaps, found.uncorrectable, found.added) == (2, 8, 0)


@pytest.mark.parametrize(("latency", "added"), [(1 << 62, 1), ((1 << 62) + 1, 0)])
@pytest.mark.parametrize("sign", [1, -1])
def test_latencies_beyond_reach(latency: int, added: int, sign: int) -> None:
    found = corrected(Counts.from_arrays([]), np.array([sign * latency]), np.array([1]), 10)
    assert (found.added, found.uncorrectable) == (added, 1 - added)
    furthest = corrected(Counts.from_arrays([]), np.array([0]), np.array([(1 << 60) + added]), 4)
    assert furthest.added == ((1 << 60) if not added else 0)
