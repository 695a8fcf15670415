# SPDX-License-Identifier: Apache-2.0
"""The pass over the samples of a series, against looking at every sample and every grid point."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import report_runs as made
from rtgauge import stats, stream
from rtgauge.report.results import gather
from rtgauge.report.results.grid import Grid
from rtgauge.report.results.window import Peak

MS = made.MS
UNKNOWN = -(2**63)


def of(series: made.FakeSeries, step: Any = None, **more: Any) -> gather.Figures:
    pair: Any = (series, made.step(0, [series]) if step is None else step)
    (figures,) = gather.gather([pair], **more)
    return figures


def gappy(
    seed: int, points: int, stalls: int, **more: Any
) -> tuple[made.FakeSeries, dict[int, int], list[int]]:
    """A series with gaps: itself, its value at each grid point that has a sample, the others."""
    random = np.random.default_rng(seed)
    values = random.integers(1000, 60_000, points).astype(np.int32)
    at, gaps = 0, []
    for _ in range(stalls):
        at += int(random.integers(1, max(points // stalls // 2, 2)))
        count = int(random.integers(1, max(points // stalls // 2, 2)))
        if at + count >= points - 1:
            break
        gaps.append((at, count))
        values[at] = random.integers(0, (count + 2) * MS)
        at += count + 1
    missed = [at + k for at, count in gaps for k in range(1, count + 1)]
    index = np.setdiff1d(np.arange(points), missed)
    series = made.FakeSeries(more.pop("info", made.info()), index, values[index], gaps=tuple(gaps))
    series = dataclasses.replace(series, **more)
    return series, {int(i): int(values[i]) for i in index}, missed


# --- bins of time --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("scale", [1, 3])
def test_bins_hold_what_was_due_in_them(seed: int, scale: int) -> None:
    """Samples, periods missed and samples lost, each in the bin of its grid point."""
    random = np.random.default_rng(seed)
    lost = tuple(
        (int(at), int(random.integers(1, 90)), UNKNOWN) for at in random.integers(0, 700, 5)
    )
    start = int(random.integers(0, 10**10))
    series, values, missed = gappy(
        seed, 800, 9, info=made.info(scale=scale), start_ns=start, lost=lost, chunk_rows=100
    )
    line = of(series).timeline
    assert line is not None
    bins = len(line.count)
    assert bins > 100 and line.start_ns == start and line.bin_ns % MS == 0

    def bin_of(point: int) -> int:
        return min(max(point * MS // line.bin_ns, 0), bins - 1)

    assert line.missed.tolist() == [Counter(map(bin_of, missed))[k] for k in range(bins)]
    gone = Counter(bin_of(at + k) for at, count, _ in lost for k in range(count))
    assert line.lost.tolist() == [gone[k] for k in range(bins)]
    for k in range(bins):
        inside = sorted(value * scale for point, value in values.items() if bin_of(point) == k)
        assert line.count[k] == len(inside)
        if inside:
            assert (line.low[k], line.high[k]) == (inside[0], inside[-1])
            middle = inside[(len(inside) - 1) // 2]
            assert middle <= line.middle[k] <= middle * (1 + 1 / 128)


def test_without_a_grid_losses_are_binned_by_their_time() -> None:
    due = np.arange(400) * 1000 + 50_000
    info = made.info(interval_ns=0)
    series = made.FakeSeries(info, np.arange(400), np.full(400, 7, np.int32), due=due)
    rows = [(0, 0, 3, 5), (0, 50_000, 4, 5), (0, 449_000, 5, 5), (0, 10**9, 6, 5)]
    events = tuple(np.array(rows, np.int64).T)
    with mock.patch.object(made.FakeSeries, "lost_events", events):
        line = of(series).timeline
    assert line is not None
    assert (int(line.lost[0]), int(line.lost[-1]), int(line.lost.sum())) == (7, 11, 18)
    assert not line.missed.any()


def grid_of(interval_ns: int, index: list[int], due_ns: list[int]) -> Grid:
    grid = Grid(interval_ns)
    grid.add(np.array(index, np.int64), np.array(due_ns, np.int64))
    return grid


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(-5, 130), st.integers(0, 40)), max_size=8),
    st.integers(1, 12),
    st.integers(-30, 30),
    st.integers(0, 9),
)
def test_runs_of_grid_points_are_spread_over_their_bins(
    runs: list[tuple[int, int]], periods: int, first: int, phase: int
) -> None:
    """Bins begin between grid points, or on them; the outer ones take what is beyond them."""
    edges = np.arange(0, 1200 * periods, 10 * periods)[:11]
    index, count = (np.array([run[k] for run in runs], np.int64) for k in (0, 1))
    found = gather._spread(edges, grid_of(10, [first], [first * 10 + phase]), index, count)
    expected = np.zeros(10, np.int64)
    for at, number in runs:
        for point in range(at, at + number):
            time = point * 10 + phase
            expected[min(max(time // (10 * periods), 0), 9)] += 1
    assert found.tolist() == expected.tolist()
    assert not gather._spread(edges, Grid(0), index, count).any()
    fine = gather._spread(np.arange(0, 30, 3), grid_of(1, [first], [first]), index, count)
    points = [point for at, number in runs for point in range(at, at + number)]
    wanted = Counter(min(max(point // 3, 0), 8) for point in points)
    assert fine.tolist() == [wanted[k] for k in range(9)]


@pytest.mark.parametrize("seed", range(20))
def test_grid_points_of_a_grid_that_moves(seed: int) -> None:
    """By index and by time, against a list of all points; samples come in pieces."""
    random = np.random.default_rng(seed)
    moves = random.integers(0, 400, 200) * (random.random(200) < 0.1)
    due = 777 + np.arange(200) * 10 + np.cumsum(moves)
    kept = np.flatnonzero((random.random(200) < 0.7) | (np.arange(200) == 0))
    grid = Grid(10)
    for part in np.array_split(kept, int(random.integers(1, 6))):
        grid.add(part, due[part])
    assert grid.due_ns(kept).tolist() == due[kept].tolist()
    # between two samples evenly, if the grid moved
    points: list[int] = []
    for one, other in itertools.pairwise(kept.tolist()):
        step = (int(due[other]) - int(due[one])) // (other - one)
        points += [int(due[one]) + step * k for k in range(other - one)]
    points.append(int(due[kept[-1]]))
    assert grid.due_ns(np.arange(len(points))).tolist() == points
    times = np.arange(points[0] - 7, points[-1] + 25, 3)
    beyond = [points[0] - 10, *points, points[-1] + 10, points[-1] + 20, points[-1] + 30]
    expected = [next(k for k, due in enumerate(beyond) if due >= time) - 1 for time in times]
    assert grid.points(times).tolist() == expected


def test_what_was_held_back_is_in_the_bin_of_its_time() -> None:
    """Events of a line, two of them unanswered; the grid moves after every 50 of them."""
    index = np.setdiff1d(np.arange(400), [120, 270])
    due = 5 * MS + index * MS + index // 50 * 90 * MS
    values = np.where(index == 260, 7 * MS, 1000 + index).astype(np.int32)
    series = made.FakeSeries(
        made.info(name="response"), index, values, due=due, gaps=((119, 1), (269, 1)),
        lost=((200, 3, UNKNOWN),), chunk_rows=90,
    )  # fmt: skip
    figures = of(series)
    line = figures.timeline
    assert line is not None and line.start_ns == 5 * MS

    def bins_of(times: Any) -> list[int]:
        held = Counter(min((int(time) - line.start_ns) // line.bin_ns, len(line.count) - 1)
                       for time in times)  # fmt: skip
        return [held[k] for k in range(len(line.count))]

    assert line.count.tolist() == bins_of(due)
    assert line.missed.tolist() == bins_of([(125 + 180) * MS, (275 + 450) * MS])
    assert line.lost.tolist() == bins_of([(205 + 360 + k) * MS for k in range(3)])
    assert figures.max_at == (260, (265 + 450) * MS)
    assert figures.large is not None
    assert (265 + 450 + 7) * MS in figures.large.time_ns.tolist()
    assert figures.duration_s == pytest.approx(0.4 + 7 * 0.09)


@pytest.mark.parametrize("machine", ["x86_64", ""])
def test_unanswered_events_at_the_ends_are_spread_over_their_time(machine: str) -> None:
    """Ten at either end, of 50 ms each; in a capture, none is held back."""
    index = np.arange(10, 110)
    due = 500 * MS + (index - 10) * MS
    series = made.FakeSeries(
        made.info(name="response"), index, np.full(100, 5, np.int32), due=due,
        gaps=((-1, 10), (109, 10)),
    )  # fmt: skip
    totals = dataclasses.replace(series.totals, first_due_ns=0, last_due_ns=1099 * MS)
    step: Any = made.step(0, [series])
    step.header = dataclasses.replace(step.header, machine=machine)
    step.trailer = mock.Mock(duration_ns=1100 * MS)
    with mock.patch.object(made.FakeSeries, "totals", totals):
        line = of(series, step).timeline
    assert line is not None
    missed = line.start_ns + np.repeat(np.arange(len(line.missed)), line.missed) * line.bin_ns
    each = 50 if machine else 1
    expected = [500 - each * (10 - k) for k in range(10)] + [599 + each * k for k in range(1, 11)]
    assert len(missed) == 20
    assert np.all(np.abs(missed - np.array(expected) * MS) <= line.bin_ns)


@pytest.mark.parametrize("moved", [0, 90 * MS])
def test_periods_due_are_known_from_the_times_where_records_were_lost(
    moved: int,
) -> None:
    """Thirty, of which the middle ten are neither samples nor missed."""
    index = np.setdiff1d(np.arange(30), np.arange(10, 20))
    due = index * MS + np.where(index >= 5, moved, 0)
    series = made.FakeSeries(made.info(), index, np.full(20, 5, np.int32), due=due)
    step: Any = made.step(0, [series])
    step.end = stream.StreamEnd(False, 321, 4711, 5, "cut inside a record", True)
    figures = of(series, step)
    assert (figures.taken, figures.lost) == (30, 10)


@pytest.mark.parametrize(
    ("counts", "most", "bins"),
    [
        ((100_000,), 1, 600),
        ((100_000, 50), 200, 200),
        ((100_000,), 2500, 16),
        ((100_000,), 10**6, 16),
        ((400, 0), 1, 100),
        ((3,), 1, 1),
    ],
)
def test_all_series_of_a_step_share_their_bins(
    counts: tuple[int, ...], most: int, bins: int
) -> None:
    series = [
        made.sampled(np.zeros(n, np.int32), k, start_ns=500 * k) for k, n in enumerate(counts)
    ]
    step: Any = made.step(0, series)
    found = gather._bins(step, most, -(2**63))
    assert found is not None
    filled = [one for one in series if one.count]
    assert (found.first_ns, found.last_ns, found.interval_ns, found.number) == (
        min(int(one.due_ns[0]) for one in filled),
        max(int(one.due_ns[-1]) for one in filled),
        MS,
        bins,
    )
    later = gather._bins(step, most, 10**15)
    assert later is not None and later.last_ns == 10**15


def test_bins_are_of_series_that_are_drawn() -> None:
    values = np.zeros(10, np.int32)
    dither = made.sampled(values, 1, companion=0, start_ns=-99)
    folded = made.sampled(values, 2, histogram_only=True, start_ns=-9)
    slower = made.sampled(values, 3, interval_ns=2 * MS)
    step: Any = made.step(0, [dither, folded])
    assert gather._bins(step, 1, 0) is None
    step = made.step(0, [dither, folded, slower])
    found = gather._bins(step, 1, 0)
    assert found is not None and (found.first_ns, found.interval_ns) == (0, 2 * MS)
    step = made.step(0, [slower, made.sampled(values)])
    found = gather._bins(step, 1, 0)
    assert found is not None and found.interval_ns == 0


def test_the_heat_map_has_the_filled_cells() -> None:
    series, values, _ = gappy(3, 2000, 9, info=made.info(scale=2), start_ns=700)
    figures = of(series)
    heat, line = figures.heat, figures.timeline
    assert heat is not None and line is not None
    assert (heat.start_ns, heat.scale) == (700, 2)
    # two bins of time are one column: 500 bins of at most 300 columns
    assert (heat.bin_ns, heat.columns) == (2 * line.bin_ns, (len(line.count) + 1) // 2)
    cells = Counter[tuple[int, int]]()
    for point, value in values.items():
        row = int(np.searchsorted(heat.high, value))
        assert heat.low[row] <= value <= heat.high[row]
        cells[(point * MS) // heat.bin_ns, row] += 1
    found = zip(heat.column.tolist(), heat.row.tolist(), heat.count.tolist(), strict=True)
    assert {(column, row): number for column, row, number in found} == cells


# --- the largest sample and the first ones -------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("rows", [200, 250, 999, 1000, 5000])
@pytest.mark.parametrize("peak", [0, 1, 199, 200, 201, 399, 400, 600, 799, 800, 999])
def test_the_samples_around_the_largest_one(rows: int, peak: int) -> None:
    """The earliest of equals, with up to 200 samples before and after it, dither included."""
    random = np.random.default_rng(peak)
    values = random.integers(0, 50_000, 1000).astype(np.int32)
    values[peak] = values[min(peak + 300, 999)] = 60_000
    offsets = random.integers(0, 1000, 1000).astype(np.int32)
    dither = made.sampled(offsets, 1, companion=0, chunk_rows=77)
    series = made.FakeSeries(
        made.info(scale=5), np.arange(1000), values, start_ns=90, chunk_rows=rows, companion=dither
    )
    figures = of(series)
    window, begin = figures.around, figures.begin
    assert window is not None and begin is not None
    inside = np.arange(max(peak - 200, 0), min(peak + 201, 1000))
    assert window.index.tolist() == inside.tolist()
    assert window.index[window.at] == peak
    assert window.value.tolist() == (values[inside].astype(int) * 5).tolist()
    assert window.due_ns.tolist() == (90 + inside * MS + offsets[inside]).tolist()
    assert not window.loop
    first = np.arange(100)
    assert begin.index.tolist() == first.tolist() and begin.at == 0
    assert begin.value.tolist() == (values[:100].astype(int) * 5).tolist()
    assert begin.due_ns.tolist() == (90 + first * MS + offsets[:100]).tolist()


@pytest.mark.slow
@given(
    st.lists(st.integers(0, 9), min_size=30, max_size=60),
    st.integers(3, 12),
    st.randoms(use_true_random=False),
)
def test_the_largest_one_is_found_in_whatever_order_chunks_are_done(
    values: list[int], rows: int, random: Any
) -> None:
    reach = 3
    array = np.array(values)
    series = made.sampled(array, chunk_rows=rows)
    peak = Peak(reach)
    waiting = list(enumerate(series.chunks()))
    busy: list[tuple[int, made.FakeChunk]] = []
    while waiting or busy:
        if waiting and (not busy or (len(busy) < 4 and random.random() < 0.6)):
            busy.append(waiting.pop(0))
            peak.expect(busy[-1][0])
        else:
            one: Any = busy.pop(random.randrange(len(busy)))
            peak.add(*one)
    found, begin = peak.around(2), peak.begin(1)
    assert found is not None and begin is not None
    at = values.index(max(values))
    assert found.index.tolist() == list(range(max(at - reach, 0), min(at + reach + 1, len(values))))
    assert found.index[found.at] == at
    assert found.value.tolist() == [2 * values[k] for k in found.index]
    assert begin.index.tolist() == list(range(min(rows, len(values))))


@pytest.mark.parametrize("best", [0, 7, 19])
def test_chunks_that_no_neighbour_needs_are_let_go(best: int) -> None:
    values = np.zeros(200, np.int64)
    values[best * 10 + 5] = 1
    series = made.sampled(values, chunk_rows=10)
    peak = Peak(3)
    for number, chunk in enumerate(series.chunks()):
        one: Any = chunk
        peak.expect(number)
        peak.add(number, one)
        largest = best if number >= best else 0
        assert set(peak._ends) == {largest - 1, largest, largest + 1, number} & {*range(number + 1)}


def test_nothing_taken_has_no_largest_one() -> None:
    assert Peak().around(1) is None and Peak().begin(1) is None


def test_the_lead_is_limited_for_each_series_and_for_all() -> None:
    values = np.arange(300, dtype=np.int32)
    for lead, every, number in ((50, 10**6, 50), (50, 120, 40), (1000, 10**6, 300)):
        with (
            mock.patch.object(gather, "_LEAD", lead),
            mock.patch.object(gather, "_ALL_LEADS", every),
        ):
            pairs: Any = []
            for _ in range(3):
                series = made.sampled(values, scale=2, start_ns=4)
                pairs.append((series, made.step(0, [series])))
            for figures in gather.gather(pairs):
                assert figures.lead is not None
                assert figures.lead.value.tolist() == [2 * k for k in range(number)]
                assert figures.lead.due_ns.tolist() == [4 + k * MS for k in range(number)]
    assert gather.gather([]) == []


def test_without_pictures_there_are_figures_alone() -> None:
    series, _, _ = gappy(1, 500, 5)
    plain, whole = of(series, pictures=False), of(series)
    assert (plain.timeline, plain.heat, plain.around, plain.begin) == (None, None, None, None)
    assert whole.timeline is not None
    assert (plain.counts, plain.effective) == (whole.counts, whole.effective)


# --- figures -------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.lists(st.integers(-20, 20), max_size=9), st.integers(1, 3))
def test_the_rest_is_all_but_the_first(values: list[int], scale: int) -> None:
    info = made.info(scale=scale)
    series = made.FakeSeries(info, np.arange(len(values)), np.array(values, np.int32))
    figures = of(series)
    rest = [value * scale for value in values[1:]]
    assert figures.first == (values[0] * scale if values else None)
    assert figures.rest["min"] == min(rest, default=None)
    assert figures.rest["max"] == max(rest, default=None)
    mean = figures.rest["mean"]
    assert mean == pytest.approx(sum(rest) / len(rest)) if rest else mean is None


def test_what_was_lost_is_in_the_maximum() -> None:
    series, values, missed = gappy(
        2, 400, 5, info=made.info(scale=3), lost=((9, 4, 70_000_000), (60, 2, UNKNOWN), (90, 1, 5))
    )
    figures = of(series)
    assert figures.lost_runs == ((4, 210_000_000), (1, 15))
    assert (figures.lost, figures.taken) == (7, len(values) + 7)
    assert (figures.max, figures.kept, figures.missed) == (
        210_000_000,
        len(values),
        len(missed),
    )
    assert figures.counts.max == 3 * max(values.values())


@pytest.mark.parametrize("told", [0, 500])
def test_missed_periods_of_the_trailer_and_of_the_events(told: int) -> None:
    """The larger number: either may lack some."""
    series, values, missed = gappy(2, 400, 5)
    totals = dataclasses.replace(series.totals, missed=told, lost=told // 100)
    with mock.patch.object(made.FakeSeries, "totals", totals):
        figures = of(series)
    assert (figures.missed, figures.lost) == (max(told, len(missed)), told // 100)
    assert figures.taken == max(totals.count, len(values))


@pytest.mark.parametrize(("missed", "start"), [(1, 0), (2, 0), (10, -5 * MS), (0, 7)])
def test_due_times_of_chunks_with_missed_periods(missed: int, start: int) -> None:
    index = np.array([0, 1, 2, *range(3 + missed, 30)])
    gaps = ((2, missed),) if missed else ()
    values = np.arange(len(index), dtype=np.int32)
    figures = of(made.FakeSeries(made.info(), index, values, start_ns=start, gaps=gaps))
    line = figures.timeline
    assert line is not None and line.start_ns == start
    rows = np.minimum(index * MS // line.bin_ns, len(line.count) - 1)
    assert line.count.tolist() == np.bincount(rows, minlength=len(line.count)).tolist()


def test_a_grid_of_a_nanosecond_and_a_series_without_bins() -> None:
    index = np.arange(50)
    series = made.FakeSeries(made.info(interval_ns=1), index, np.arange(50, dtype=np.int32))
    figures = of(series)
    assert figures.timeline is not None and figures.timeline.count.sum() == 50
    offsets, _, missed = gappy(3, 400, 5, info=made.info(1, companion=0))
    bare = of(offsets)  # of a step whose drawn series are not there
    assert bare.timeline is None and bare.around is None and bare.corrected is not None
    assert (bare.kept, bare.corrected.count) == (400 - len(missed), 400)


@pytest.mark.parametrize("scale", [1, 3])
@pytest.mark.parametrize("dither_scale", [0, 1, 7])
@pytest.mark.parametrize("rows", [70, 1000])
def test_the_corrected_distribution_has_the_missed_periods(
    scale: int, dither_scale: int, rows: int
) -> None:
    """Each with the lateness that a task due then would have had, in the unit of the series."""
    series, values, _ = gappy(6, 500, 7, info=made.info(scale=scale), chunk_rows=rows)
    offset = np.random.default_rng(1).integers(0, MS // 8, 500) * (dither_scale > 0)
    if dither_scale:
        series.companion = made.sampled(
            offset.astype(np.int32), 1, companion=0, scale=dither_scale, chunk_rows=77
        )
        offset *= dither_scale
    due = np.arange(500) * MS + offset
    late = [value * scale for value in values.values()]
    for before, count in series.gaps:
        wake = max(due[before] + values[before] * scale, due[before + count])
        late += [int(wake - due[before + k]) for k in range(1, count + 1)]
    figures = of(series)
    assert figures.corrected == stats.Counts.from_arrays([np.array(late, np.int64)])
    assert figures.corrected is not None
    assert (figures.corrected.count, figures.unknown) == (500, 0)
    window = figures.around
    assert window is not None and window.due_ns.tolist() == due[window.index].tolist()


@pytest.mark.parametrize("unit", ["ns", "count"])
@pytest.mark.parametrize("dithered", [False, True])
def test_the_largest_samples_have_the_times_at_which_the_task_woke_up(
    unit: str, dithered: bool
) -> None:
    values = np.random.default_rng(2).integers(0, 90_000, 300).astype(np.int32)
    index = np.arange(5, 305)
    series = made.FakeSeries(
        made.info(scale=3, unit=unit), index, values, start_ns=700, chunk_rows=90
    )
    due = 700 + index * MS
    if dithered:
        series.companion = made.FakeSeries(
            made.info(1, companion=0), index, (index * 11).astype(np.int32)
        )
        due += index * 11
    large = of(series).large
    if unit == "count":
        assert large is None
        return
    assert large is not None and large.dithered == dithered
    found = sorted(zip(large.time_ns.tolist(), large.value.tolist(), strict=True))
    wanted = zip((due + values * 3).tolist(), (values * 3).tolist(), strict=True)
    assert found == sorted(wanted)
    ordered = np.sort(values)[::-1]
    assert ordered[len(found) - 1] * 3 == min(value for _, value in found)
    series.info, series.due = made.info(interval_ns=0, unit=unit), due
    assert of(series).large is None


def test_the_median_of_a_series_is_known_from_its_first_sample_on() -> None:
    for values, wanted in (([], 0), ([-7], -7), ([3, 9], 3), ([3, 9, 4], 4)):
        array = np.array(values, np.int32)
        series = made.sampled(array, scale=2)
        assert gather.median(of(series)) == 2 * wanted
    three = [made.sampled(np.full(3, 10 + number, np.int32), number) for number in range(3)]
    run: Any = made.run([made.step(0, three), made.step(1, three[:1], header=None)])
    assert gather.medians(run, {(0, 1), (0, 2), (1, 0)}) == {(0, 1): 11, (0, 2): 12}


def test_the_largest_samples_are_in_the_unit_of_the_series() -> None:
    builder = stats.ExcursionsBuilder()
    values = np.random.default_rng(3).permutation(6000) + 1
    builder.add(np.arange(6000), values)
    one, three = (gather._top(builder, scale, 6000) for scale in (1, 3))
    assert one.above is not None and three.above == 3 * one.above
    assert three.values.tolist() == (3 * one.values).tolist()
    assert one.values.tolist() == values[one.positions].tolist()
    assert np.all(np.diff(one.positions) > 0)


def test_a_test_loop_is_at_most_1000_seconds() -> None:
    """Even if its samples say that each of them took two hours."""
    due = np.repeat(np.arange(3) * 10**15, 10)
    series = made.sampled(np.full(30, 2**31 - 1, np.int32), interval_ns=0, scale=4000, due=due)
    pair: Any = (series, made.step(0, [series]))
    (rhythm,) = gather._rhythms([pair], [gather._loops(pair[0], 100)])
    assert rhythm.pace is not None and rhythm.until_ns == due[-1] + 10**12
    # the step ends with the last of its series
    other: Any = (dataclasses.replace(series, due=due // 10), pair[1])
    for both in ([pair, other], [other, pair]):
        found = gather._rhythms(both, [gather._loops(one, 100) for one, _ in both])
        assert [one.until_ns for one in found] == [due[-1] + 10**12] * 2


def test_only_times_have_a_duration() -> None:
    value = np.array([1, -2])
    assert gather._durations(made.info(scale=3), value).tolist() == [3, -6]
    assert gather._durations(made.info(scale=3, unit="count"), value).tolist() == [0, 0]


def test_gaps_after_lost_samples_are_unknown() -> None:
    series, _, _ = gappy(4, 400, 6)
    before, count = series.gaps[2]
    kept = series.index != before
    series = dataclasses.replace(series, index=series.index[kept], value=series.value[kept])
    figures = of(series)
    assert figures.unknown == count
    assert figures.corrected is not None
    assert figures.corrected.count == 400 - 1 - count


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rows", [37, 1000])
def test_episodes_are_those_of_samples_and_missed_periods(seed: int, rows: int) -> None:
    """A sample or a missed period that is late by more than the budget exceeds it; exceedances
    less than ten periods apart are one episode."""
    series, values, _ = gappy(
        seed, 600, 8, info=made.info(scale=2), chunk_rows=rows, lost=((580, 3, 10**7), (1, 1, 9))
    )
    budget = [110_000, 3_000_001, 119_998][seed % 3]
    late: dict[int, float] = dict(values)
    for before, count in series.gaps:
        wake = max(2 * values[before], count * MS)
        late |= {before + k: (wake - k * MS) / 2 for k in range(1, count + 1)}
    over = sorted(point for point, value in late.items() if 2 * value > budget)
    number = sum(k == 0 or point - over[k - 1] >= 10 for k, point in enumerate(over))
    figures = of(series, made.step(0, [series], budget_ns=budget))
    assert figures.episodes == (number, number + 1)  # and the lost ones, somewhere
    runs = sum(k == 0 or point - over[k - 1] > 1 for k, point in enumerate(over))
    assert figures.adjacent == runs
    assert of(series, made.step(0, [series])).episodes is None
    other = dataclasses.replace(series, info=made.info(unit="bytes"))
    assert of(other, made.step(0, [other], budget_ns=budget)).episodes is None


def test_periods_missed_after_a_sample_that_is_unknown_are_no_episode() -> None:
    series = made.FakeSeries(
        made.info(), np.array([0, 1, 6, 7]), np.full(4, 5, np.int32), gaps=((1, 2), (4, 1))
    )
    assert of(series, made.step(0, [series], budget_ns=99)).episodes == (1, 1)
    unseen = dataclasses.replace(series, gaps=((4, 1),))
    assert of(unseen, made.step(0, [unseen], budget_ns=99)).episodes == (0, 0)
    # a chunk with a gap of each kind
    both = dataclasses.replace(
        series, index=np.array([0, 1, 60]), value=np.full(3, 5, np.int32), gaps=((1, 2), (40, 1))
    )
    assert of(both, made.step(0, [both], budget_ns=99)).episodes == (1, 1)


@pytest.mark.parametrize("rows", [700, 20_000])
def test_groups_of_large_values_are_looked_for_in_all_chunks(rows: int) -> None:
    random = np.random.default_rng(8)
    values = np.repeat(random.integers(1000, 90_000, 2000), 10).astype(np.int32)
    series = made.sampled(values, chunk_rows=rows)
    builder = stats.ExcursionsBuilder()
    builder.add(np.arange(20_000), values)
    figures = of(series)
    assert figures.clustering is not None and figures.clustering.clustered
    assert figures.clustering == builder.clustering()


def test_lost_samples_alone_are_an_episode() -> None:
    series = made.sampled(np.full(50, 7, np.int32), lost=((3, 1, 500), (9, 1, 501)))
    assert of(series, made.step(0, [series], budget_ns=500)).episodes == (1, 1)
    assert of(series, made.step(0, [series], budget_ns=499)).episodes == (1, 2)
    assert of(series, made.step(0, [series], budget_ns=501)).episodes == (0, 0)


# --- answers to events ---------------------------------------------------------------------------


def response(points: int, missed: list[int], **more: Any) -> made.FakeSeries:
    """Answers of 5 us to all events except those of ``missed``."""
    index = np.setdiff1d(np.arange(points), missed)
    gaps: list[tuple[int, int]] = []
    for point in missed:
        if gaps and sum(gaps[-1]) + 1 == point:
            gaps[-1] = (gaps[-1][0], gaps[-1][1] + 1)
        else:
            gaps.append((point - 1, 1))
    values = more.pop("values", np.full(len(index), 5000, np.int32))
    return made.FakeSeries(made.info(name="response"), index, values, gaps=tuple(gaps), **more)


@pytest.mark.slow
@given(
    st.sets(st.integers(1, 59), max_size=25),
    st.integers(1, 60),
    st.integers(0, 2**20),
    st.sampled_from([None, MS // 2, MS, 2 * MS]),
)
@settings(max_examples=60)
def test_an_event_without_an_answer_waited_until_the_next_or_the_timeout(
    missed: set[int], rows: int, seed: int, timeout: int | None
) -> None:
    offsets = np.random.default_rng(seed).integers(0, MS // 2, 60).astype(np.int32)
    dither = made.sampled(offsets, 1, companion=0, scale=2, chunk_rows=rows)
    series = response(60, sorted(missed), companion=dither)
    step: Any = made.step(0, [series])
    if timeout is not None:
        step.header.parameters["timeout"] = stream.Parameter(None, f"{timeout // 1000}us")
    found = of(series, step).unanswered
    assert found is not None
    limit = timeout or MS
    if limit > MS:
        waits = [limit] * len(missed)
    else:
        after = [*offsets.tolist(), min(int(offsets[-1]), 0)]
        waits = [min(MS + 2 * (after[k + 1] - after[k]), limit) for k in missed]
    assert found == stats.Counts.from_arrays([np.array(waits, np.int64)])


def test_waits_of_events_that_the_companion_lacks_are_unknown() -> None:
    kept = np.setdiff1d(np.arange(30), [7, 20])
    dither = made.FakeSeries(made.info(1, companion=0), kept, np.full(28, 9, np.int32))
    series = response(30, [5, 6, 7, 8, 21], companion=dither)
    found = of(series).unanswered
    assert found is not None
    # of 6 the next event is not known, of 7 itself
    assert dict(zip(found.values.tolist(), found.counts.tolist(), strict=True)) == {0: 2, MS: 3}


@pytest.mark.parametrize(
    ("effective", "expected"), [("3ms", 3 * MS), ("nonsense", MS), ("0ms", MS), (None, MS)]
)
def test_the_timeout_of_a_step(effective: str | None, expected: int) -> None:
    step: Any = made.step(0, [])
    if effective is not None:
        step.header.parameters["timeout"] = stream.Parameter(None, effective)
    assert gather._timeout_ns(step, MS) == expected
    step.header = None
    assert gather._timeout_ns(step, MS) == MS


def test_percentiles_among_unanswered_events_are_left_out() -> None:
    """20 of 1000 events have no answer within 1 ms, and 5 answers took longer."""
    values = np.arange(1, 981, dtype=np.int32)
    values[-5:] += 2 * MS
    series = response(1000, list(range(900, 920)), values=values)
    figures = of(series)
    order = sorted([*values.tolist(), *[MS] * 20])
    assert gather.percentiles([figures]) == {"50": order[499], "90": order[899]}
    whole = figures.counts.merge(figures.unanswered or figures.counts)
    alone = dataclasses.replace(figures, effective=None)
    ranks = stats.percentile_intervals(whole, 0.95, ["50", "90"])
    assert gather.intervals(alone, 0.95) == ranks
    few = dataclasses.replace(figures, effective={"50": 98, "90": None})
    found = gather.intervals(few, 0.95)
    assert found["50"] == stats.percentile_interval(whole, "50", 0.95, 98)
    assert found["90"] == (None, None)
    least = dataclasses.replace(figures, effective={"50": 40, "90": 40})
    low, high = stats.percentile_interval(whole, "90", 0.95, 40)
    assert high is None or high >= MS
    assert gather.intervals(least, 0.95)["90"] == (low, None)
    answered = dataclasses.replace(few, unanswered=None)
    assert gather.percentiles([answered]).keys() == {"50", "90"}
    expected = stats.percentile_intervals(figures.counts, 0.95, effective={"50": 98, "90": None})
    assert gather.intervals(answered, 0.95) == expected


def test_unanswered_events_in_one_stall_depend_on_each_other() -> None:
    """The answers alone look independent."""
    values = np.random.default_rng(17).integers(1000, 90_000, 9000).astype(np.int32)
    series = response(10_000, list(range(5000, 6000)), values=values)
    assert gather.intervals(of(series), 0.95)["50"] == (None, None)
    apart = response(10_000, list(range(5, 10_000, 10)), values=values)
    found = of(apart)
    assert found.effective is not None and found.effective["50"] == 10_000
    # a percentile that only all events together have
    few = of(response(110, list(range(5, 105, 5)), values=values[:90]))
    assert few.effective is not None and set(few.effective) == {"50", "90"}


def test_percentiles_end_at_the_shortest_wait() -> None:
    values = np.arange(1, 901, dtype=np.int32)
    waits = stats.Counts.from_arrays([np.repeat([950, 5000], [5, 95])])
    answered = dataclasses.replace(of(response(900, [], values=values)), effective=None)
    figures = dataclasses.replace(answered, unanswered=waits)
    assert gather.percentiles([figures]) == {"50": 500, "90": 900}
    assert gather.intervals(figures, 0.95)["90"][1] is None
    longer = dataclasses.replace(figures, unanswered=stats.Counts.from_arrays([waits.values + 50]))
    assert gather.percentiles([figures, longer]).keys() == {"50"} | {"90"}
    same = stats.Counts.from_arrays([np.repeat([950], 100)])
    alike = dataclasses.replace(figures, unanswered=same)
    assert stats.percentile_interval(figures.counts.merge(same), "90")[1] == 950
    assert gather.intervals(alike, 0.95)["90"] == (stats.interval_ranks(1000, "90")[0], None)
    # of several series, at the shortest wait of all
    early = dataclasses.replace(figures, unanswered=stats.Counts.from_arrays([np.repeat([800], 5)]))
    for both in ([early, longer], [longer, early]):
        assert gather.percentiles(both).keys() == {"50"}
    other = stats.Counts.from_arrays([np.repeat([890, 5000], [5, 95])])
    assert gather.percentiles([dataclasses.replace(figures, unanswered=other)]) == {"50": 500}


@pytest.mark.slow
@given(st.sets(st.integers(1, 98), max_size=60), st.integers(1, 100))
def test_halves_are_the_events_of_even_and_of_odd_number(missed: set[int], rows: int) -> None:
    index = np.setdiff1d(np.arange(100), sorted(missed))
    values = index.astype(np.int32) * 3
    figures = of(response(100, sorted(missed), values=values, chunk_rows=rows))
    assert figures.halves is not None
    assert [half.values.tolist() for half in figures.halves] == [
        [3 * k for k in index.tolist() if k % 2 == odd] for odd in (0, 1)
    ]
    assert figures.missed_halves == tuple(sum(k % 2 == odd for k in missed) for odd in (0, 1))


def test_episodes_of_events_without_an_answer() -> None:
    """Their wait of 1 ms reaches a budget of 1 ms, not one above it."""
    missed = [5, 6, 30, 80]
    series = response(100, missed)
    for budget, number in ((MS, 3), (MS + 1, 0), (4999, 1)):
        figures = of(series, made.step(0, [series], budget_ns=budget))
        assert figures.episodes == (number, number)
    # ten events apart, one of them after a sample that was not kept
    near = response(100, [30, 40])
    lone = near.index != 29
    near = dataclasses.replace(near, index=near.index[lone], value=near.value[lone])
    assert of(near, made.step(0, [near], budget_ns=MS)).episodes == (2, 2)
    # and after samples that were not kept
    kept = ~np.isin(series.index, [29, 79])
    short = dataclasses.replace(series, index=series.index[kept], value=series.value[kept])
    figures = of(short, made.step(0, [short], budget_ns=MS))
    assert figures.episodes == (3, 3)
    # and after the last sample that was kept
    last = dataclasses.replace(series, index=series.index[:75], value=series.value[:75])
    assert last.index[-1] < 79
    for budget, number in ((MS, 3), (MS + 1, 0)):
        figures = of(last, made.step(0, [last], budget_ns=budget))
        assert figures.episodes == (number, number)


# --- the time that a series covers ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "interval", "gaps", "value", "machine", "trailer", "expected"),
    [
        ("latency", MS, (), 5, "x86_64", 77 * MS, 10.0),  # all its periods
        ("latency", 0, (), 5, "x86_64", 77 * MS, 77.0),  # the length of the step
        ("latency", 0, (), 5, "x86_64", 3 * MS, 9.0),
        ("latency", 0, (), 5, "x86_64", None, 9.0),
        ("response", MS, (), 5, "x86_64", 77 * MS, 10.0),
        ("response", MS, (), MS, "x86_64", 77 * MS, 10.0),
        ("response", MS, (), MS + 1, "x86_64", 77 * MS, 77.0),  # held the next event back
        ("response", MS, ((3, 2),), 5, "x86_64", 77 * MS, 77.0),
        ("response", MS, ((3, 2),), 5, "x86_64", 5 * MS, 10.0),
        ("response", MS, ((3, 2),), 5, "", 77 * MS, 10.0),  # a capture
        ("response", MS, ((3, 2),), 5, "x86_64", None, 10.0),
    ],
)
def test_the_time_that_a_series_covers(
    name: str,
    interval: int,
    gaps: tuple[tuple[int, int], ...],
    value: int,
    machine: str,
    trailer: int | None,
    expected: float,
) -> None:
    """Ten grid points from 70 to 79 ms, in ms."""
    series = made.sampled(
        np.full(10, value, np.int32),
        name=name,
        interval_ns=interval,
        due=np.arange(70, 80) * MS,
        gaps=gaps,
    )
    step: Any = made.step(0, [series])
    step.header = dataclasses.replace(step.header, machine=machine)
    if trailer is not None:
        step.trailer = mock.Mock(duration_ns=trailer)
    assert of(series, step).duration_s == pytest.approx(expected / 1000, rel=1e-12)


def test_a_series_without_samples_covers_no_time() -> None:
    empty = made.sampled(np.empty(0, np.int32))
    assert of(empty).duration_s == 0.0
    missed = dataclasses.replace(empty, gaps=((0, 5),))
    assert of(missed).duration_s == MS / 1e9


# --- test loops without a grid -------------------------------------------------------------------


def looped(loops: int, each: int, slow: int, **more: Any) -> made.FakeSeries:
    """Loops every 1 ms, of samples of 500 ns with 500 ns between them; one took 20 us."""
    due = np.repeat(np.arange(loops) * MS, each)
    values = np.full(loops * each, 500, np.int32)
    values[slow] = 20_000
    return made.sampled(values, interval_ns=0, due=due, **more)


@pytest.mark.parametrize(("slow", "loop"), [(12, 0), (250, 12), (399, 19), (1999, 99), (3, 0)])
def test_the_largest_sample_of_a_loop_is_shown_in_its_loop(slow: int, loop: int) -> None:
    series = looped(20 if slow < 400 else 100, 20, slow)
    window = of(series).around
    assert window is not None and window.loop
    assert window.index.tolist() == list(range(loop * 20, loop * 20 + 20))
    assert window.index[window.at] == slow
    # each sample delays those after it by what it took more than the median
    pace = np.diff(window.due_ns)
    assert window.due_ns[0] == loop * MS
    usual = int(np.median(pace))
    expected = [usual + (19_500 if k == slow - loop * 20 else 0) for k in range(19)]
    assert pace.tolist() == pytest.approx(expected, abs=1)


@pytest.mark.slow
def test_short_and_long_loops_are_not_shown_by_themselves() -> None:
    few = of(looped(50, 9, 100)).around
    assert few is not None and not few.loop
    just = of(looped(50, 10, 100)).around
    assert just is not None and just.loop
    for before, shown in ((599, True), (600, False)):  # begins with the loop, or within it
        window = of(looped(3, 601, 601 + before)).around
        assert window is not None and window.loop == shown
    long = of(looped(3, 1500, 2200)).around  # more before and after than are kept
    assert long is not None and not long.loop
    assert long.index.tolist() == list(range(2200 - 600, 2200 + 601))


def test_the_starts_of_all_loops_of_a_step_are_known() -> None:
    one, other = looped(20, 20, 5), looped(10, 30, 9)
    one = dataclasses.replace(one, due=one.due_ns + MS)
    other = dataclasses.replace(other, due=other.due_ns + 1_400_000)
    grid, _, _ = gappy(1, 100, 3)
    step: Any = made.step(0, [one, other, grid])
    apart: Any = made.step(1, [grid])
    pairs: Any = [(one, step), (other, step), (grid, step), (grid, apart)]
    first, second, _, third = gather.gather(pairs)
    starts = sorted([*(k * MS + MS for k in range(20)), *(k * MS + 1_400_000 for k in range(10))])
    assert first.starts.tolist() == second.starts.tolist() == starts
    assert third.starts.tolist() == []


# --- histograms ----------------------------------------------------------------------------------


def snapshot(values: list[int]) -> stream.Histogram:
    buckets = Counter(int(stats.bucket_of(value)) for value in values)
    return stream.Histogram(
        9, 0, len(values), min(values), max(values), sum(values), 0, 0, 0, 7,
        np.array(sorted(buckets.items()), np.int64),
    )  # fmt: skip


def test_values_that_were_withheld_are_in_the_histogram() -> None:
    values = list(range(1000, 1400))
    kept = np.array(values[::4], np.int32)
    series = made.FakeSeries(
        made.info(scale=2), np.arange(0, 400, 4), kept, withheld=300, histogram=snapshot(values)
    )
    figures = of(series)
    assert (figures.kept, figures.max, figures.first) == (400, 2 * 1399, 2000)
    assert (figures.corrected, figures.effective) == (None, None)
    assert not figures.counts.exact
    answers = dataclasses.replace(series, info=made.info(name="response", scale=2))
    assert of(answers).halves is None
    # an older snapshot knows less than the samples
    older = dataclasses.replace(series, histogram=snapshot(values[:50]))
    assert (of(older).kept, of(older).max) == (100, 2 * 1396)
    # and a value that only a sample has is the maximum
    last = dataclasses.replace(series, histogram=snapshot(values[:390] + [1000] * 10))
    assert of(last).max == 2 * 1396
    assert of(dataclasses.replace(series, withheld=0)).kept == 100
    # dithered, with missed periods, for which there is no correction
    dither = made.sampled(np.arange(400) % 9, 1, companion=0)
    gaps = ((0, 3), (4, 3))
    figures = of(dataclasses.replace(series, companion=dither, gaps=gaps))
    assert (figures.kept, figures.missed, figures.corrected) == (400, 6, None)


def test_the_min_of_a_histogram_is_that_of_the_rest_unless_it_is_the_first() -> None:
    values = [5003, 5001, 5002, 9001]
    series = made.sampled(np.array(values[:2], np.int32), withheld=2, histogram=snapshot(values))
    assert of(series).rest == {"min": 5001, "mean": (5001 + 5002 + 9001) / 3, "max": 9001}
    # of the others in its bucket only the upper end is known
    values = [5001, 5003, 5002, 9001]
    kept = np.array(values[:2], np.int32)
    other = dataclasses.replace(series, value=kept, histogram=snapshot(values))
    assert of(other).rest["min"] == int(stats.bucket_high(stats.bucket_of(5001)))


def test_a_table_in_the_unit_of_its_series() -> None:
    table = stats.Counts.from_arrays([np.array([-3, 4, 4])])
    scaled = gather._scaled(table, 10)
    assert scaled == stats.Counts.from_arrays([np.array([-30, 40, 40])])
    assert gather._scaled(table, 1) is table
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="at least 1"):
            gather._scaled(table, wrong)
    empty = stats.Counts.from_arrays([])
    assert gather._scaled(empty, 10) is empty


@pytest.mark.parametrize(
    ("gaps", "apart"),
    [(((0, 2), (3, 1)), True), (((0, 2), (2, 1)), False), (((3, 1), (0, 1)), False), ((), False)],
)
def test_gaps_in_order_do_not_overlap(gaps: tuple[tuple[int, int], ...], apart: bool) -> None:
    rows = np.array(gaps, np.int64).reshape(-1, 2)
    assert gather._apart(rows[:, 0], rows[:, 1]) == apart


def test_pieces_tile_an_array() -> None:
    with mock.patch.object(gather, "_PIECE", 4):
        for length in (0, 1, 4, 9):
            parts = [list(range(length))[piece] for piece in gather._pieces(length)]
            assert list(itertools.chain(*parts)) == list(range(length))
            assert all(len(part) <= 4 for part in parts)


@pytest.mark.parametrize("starved_ns", range(0, 60, 10))
def test_the_late_periods_of_a_starved_thread(starved_ns: int) -> None:
    waits = range(starved_ns, 0, -10)
    for limit in (1, 9, 10, 11, 49, 50, 51):
        over = sum(wait > limit for wait in waits)
        assert gather.starved_over(starved_ns, 10, limit) == over
