# SPDX-License-Identifier: Apache-2.0
"""One pass over the stored samples of a series, after which no sample is read again.

Step 9 of the path of a sample: sealed samples -> here -> results model and pictures.

Chunks come from the store and go through ``stats.TimelineBuilder``, which fills the exact table of
values and the time bins together. Where periods were missed, the samples before the gaps are
picked up on the way, for the correction. Series are spread over a few threads, and few long ones
are each shared by several (NumPy and the Parquet reader work without the interpreter's lock most
of the time); memory is that of one chunk and one builder for each thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from rtgauge import stats
from rtgauge.report.results.grid import Grid
from rtgauge.report.results.labels import is_response, waits_for_answers
from rtgauge.report.results.window import LOOP, REACH, Peak, Window, part_of
from rtgauge.stats import Counts
from rtgauge.units import parse_duration

if TYPE_CHECKING:
    from rtgauge.store import Chunk, StoredRun, StoredSeries, StoredStep
    from rtgauge.stream import SeriesInfo

__all__ = [
    "Figures",
    "Heat",
    "Large",
    "Lead",
    "TimeBins",
    "gather",
    "intervals",
    "median",
    "medians",
    "percentiles",
]

Int64 = NDArray[np.int64]

THREADS: Final = min(4, max(2, os.cpu_count() or 1))
BINS: Final = 600
_ALL_BINS: Final = 40_000
"""Bins of time of all series together: what a report holds of them stays below 1.5 MB."""

HEAT_COLUMNS: Final = 300
HEAT_ROWS: Final = 120

LEAST: Final = 10
"""Minimum number of samples of a test loop that is shown by itself."""

_LEAD: Final = 1 << 17
_ALL_LEADS: Final = 4_000_000
"""Number of samples at the beginning of a series, and of all series, that the rules search."""

_PIECE: Final = 1 << 18
"""Number of occasions of missed periods that are processed at once."""


@dataclass(frozen=True)
class TimeBins:
    """Min, median and max of each time bin, in the unit of the series; undefined where count is
    0."""

    start_ns: int
    bin_ns: int
    count: Int64
    low: Int64
    middle: Int64
    high: Int64
    missed: Int64
    lost: Int64


@dataclass(frozen=True)
class Heat:
    """Where samples are in time x value: the filled cells of the series' heat map.

    Columns begin at ``start_ns`` and are ``bin_ns`` wide; row r holds the samples whose value,
    before it is multiplied by ``scale``, lies from ``low[r]`` to ``high[r]``, inclusive.
    """

    start_ns: int
    bin_ns: int
    columns: int
    low: Int64
    high: Int64
    scale: int
    column: NDArray[np.int32]
    row: NDArray[np.int32]
    count: Int64


@dataclass(frozen=True)
class Lead:
    """The first samples of a series: due times (without dither) and values in its unit."""

    due_ns: Int64
    value: Int64


@dataclass(frozen=True)
class Large:
    """The largest samples of a series on a time grid (4096 at most): when the task woke up, and
    values in the unit of the series. ``dithered``: due times also lie between grid points."""

    time_ns: Int64
    value: Int64
    dithered: bool


@dataclass(frozen=True)
class Figures:
    """All that was read from the samples of one series. Values are in its unit.

    ``taken`` counts what was lost after it was taken, ``kept`` and ``counts`` do not; ``max``
    includes the largest of the lost ones. ``lost_runs``: number and largest of each run of lost
    samples. ``unknown``: number of periods skipped after a lost sample, or in a lost record,
    so that the wake-up time of the task is not known. ``corrected`` is None without a time grid, or
    where the values before the gaps are not known. ``around``: the samples around the largest one
    that was kept, the earliest of equals; ``begin``: the first ones.
    """

    counts: Counts
    corrected: Counts | None
    unknown: int
    taken: int
    kept: int
    missed: int
    lost: int
    lost_runs: tuple[tuple[int, int], ...]
    overruns: int
    first: int | None
    max: int | None
    rest: dict[str, int | float | None]
    duration_s: float
    max_at: tuple[int, int] | None
    """Index and due time (ns, without dither) of the maximum. None if its sample was not kept."""
    timeline: TimeBins | None
    tenths: tuple[int, ...] = ()
    """The medians of ten parts of the time. Empty for few samples or a histogram."""
    heat: Heat | None = None
    around: Window | None = None
    begin: Window | None = None
    lead: Lead | None = None
    large: Large | None = None
    starts: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    """Start times (ns) of all test loops of the step, those of its other series included."""
    episodes: tuple[int, int] | None = None
    """Lower and upper limit of the number of episodes, missed periods included. None where the
    times of exceedances are not known, or without a budget."""
    adjacent: int = 0
    """Number of runs of adjacent periods that exceed the budget, or 0 if unknown."""
    unanswered: Counts | None = None
    """For answers to events: the events without one, each at a lower limit of its answer time. None
    for other series."""
    starved_ns: int = 0
    """If all periods were missed: how late the task was at least in the first one. In each further
    one it was less late by a period."""
    clustering: stats.Clustering | None = None
    top: stats.Part | None = None
    """The largest samples, in the unit of the series. None without samples in order."""
    groups: tuple[tuple[int, int], ...] = ()
    """``stats.groups`` of the largest samples of a series on a time grid, with the periods missed
    after them, or events without an answer."""
    effective: Mapping[str, int | None] | None = None
    """The effective number of samples around each percentile (``stats.effective_sizes``)."""
    halves: tuple[Counts, Counts] | None = None
    """Answers to every other event, from the first and from the second event on. None if some are
    in a histogram alone."""
    missed_halves: tuple[int, int] = (0, 0)
    """The events of both halves that have no answer."""

    @property
    def all_due(self) -> Counts:
        """The corrected table where there is one, else the samples."""
        return self.counts if self.corrected is None else self.corrected

    @property
    def unseen(self) -> int:
        """Number of samples and missed periods that may be larger than the maximum."""
        return self.unknown + self.lost - sum(number for number, _ in self.lost_runs)

    def lost_over(self, limit: int) -> int:
        """Number of lost samples that are known to exceed a limit: one of each run of them whose
        maximum does. The others of the run may exceed it or not."""
        return sum(1 for _, largest in self.lost_runs if largest > limit)

    def lost_within(self, limit: int) -> int:
        """Number of lost samples that are known not to exceed a limit."""
        return sum(number for number, largest in self.lost_runs if largest <= limit)


def percentiles(figures: Sequence[Figures], *, corrected: bool = False) -> dict[str, int]:
    """The percentiles of series together. For answers to events they cover all events; a percentile
    that lies among unanswered events is left out. ``corrected``: they also cover missed periods,
    and whatever has an unknown value counts as larger than all others."""
    open_ = [one.unanswered for one in figures if one.unanswered and one.unanswered.count]
    tables = [one.all_due if corrected else one.counts for one in figures]
    unseen = sum(one.unseen for one in figures) if corrected else 0
    whole = Counts.merged([*tables, *open_])
    limit = min((table.min for table in open_ if table.min is not None), default=None)
    found = stats.percentile_table(whole, unseen)
    return {name: value for name, value in found.items() if limit is None or value < limit}


def starved_over(starved_ns: int, interval_ns: int, limit_ns: int) -> int:
    """Number of missed periods above a limit in a series without a sample. ``starved_ns``: of its
    figures."""
    return -(-max(starved_ns - limit_ns, 0) // interval_ns) if starved_ns else 0


def median(figures: Figures) -> int:
    """The median of a series, with which the blame of a cause compares its sample. Unlike the
    percentiles it is known from the first sample on. 0 without samples."""
    return figures.counts.percentile("50") if figures.counts.count else 0


def medians(run: StoredRun, wanted: Collection[tuple[int, int]]) -> Mapping[tuple[int, int], float]:
    """The medians that a report has of these series, each by its step and number."""
    pairs = [
        (series, step)
        for step in run.steps
        for series in (step.series if step.header is not None else ())
        if (step.number, series.info.series) in wanted
    ]
    return {
        (step.number, series.info.series): median(figures)
        for (series, step), figures in zip(pairs, gather(pairs, pictures=False), strict=True)
    }


def intervals(figures: Figures, confidence: float) -> dict[str, tuple[int | None, int | None]]:
    """Percentile -> its confidence interval, in the unit of the series. A limit that lies among
    events without an answer is None."""
    open_, sizes = figures.unanswered, dict(figures.effective or {})
    if open_ is None or open_.min is None:
        return stats.percentile_intervals(figures.counts, confidence, effective=sizes)
    limit, names = open_.min, percentiles([figures])
    whole = Counts.merged((figures.counts, open_))
    found = stats.percentile_intervals(whole, confidence, names, sizes)
    return {
        name: (low, high if high is not None and high < limit else None)
        for name, (low, high) in found.items()
    }


def gather(
    series: Sequence[tuple[StoredSeries, StoredStep]], *, pictures: bool = True
) -> list[Figures]:
    """The figures of each series, in the order given; with ``pictures`` the time bins too."""
    if not series:
        return []
    at_once = min(THREADS, len(series))
    share = max(1, THREADS // len(series))
    lead = min(_ALL_LEADS // len(series), _LEAD)
    with ThreadPoolExecutor(at_once) as pool:
        rhythms = _rhythms(series, list(pool.map(lambda pair: _loops(pair[0], lead), series)))

        def one(pair: tuple[StoredSeries, StoredStep], rhythm: _Rhythm) -> Figures:
            figures = _figures(*pair, pictures, share, lead, rhythm)
            pace = rhythm.pace
            return (
                figures if pace is None else _in_loop(replace(figures, starts=rhythm.starts), pace)
            )

        return list(pool.map(one, series, rhythms))


@dataclass(frozen=True)
class _Rhythm:
    """The pace of a series' test loops (None on a time grid), the start times of all test loops of
    its step, a lower limit of the time at which the samples of the step end, and its bins."""

    pace: stats.Pace | None
    starts: Int64
    until_ns: int
    bins: _Bins | None


def _loops(series: StoredSeries, lead: int) -> Lead | None:
    """The first samples of a series without a time grid; None of any other."""
    info = series.info
    if info.interval_ns or info.histogram_only:
        return None
    chunk = next((one for one in series.chunks() if len(one.value)), None)
    if chunk is None:
        return None
    _, due_ns, value = part_of(chunk, 0, lead)
    return Lead(due_ns, _durations(info, value))


def _rhythms(
    series: Sequence[tuple[StoredSeries, StoredStep]], loops: Sequence[Lead | None]
) -> list[_Rhythm]:
    """The rhythm of each series, from the test loops with which each begins."""
    times: dict[int, list[Int64]] = {}
    for (_, step), one in zip(series, loops, strict=True):
        times.setdefault(id(step), []).append(np.zeros(0, np.int64) if one is None else one.due_ns)
    starts = {step: np.unique(np.concatenate(some)) for step, some in times.items()}
    paces = [
        None if one is None else stats.pace(one.due_ns, one.value, starts[id(step)])
        for (_, step), one in zip(series, loops, strict=True)
    ]
    until: dict[int, int] = {}
    for (stored, step), one, pace in zip(series, loops, paces, strict=True):
        if one is not None and pace is not None:
            most = int(np.unique(one.due_ns, return_counts=True)[1].max())
            end = stored.totals.last_due_ns + min(int(most * pace.distance_ns), _LONGEST_NS)
            until[id(step)] = max(until.get(id(step), end), end)
    bins = {
        key: _bins(step, len(series), until.get(key, _NEVER))
        for key, step in {id(step): step for _, step in series}.items()
    }
    return [
        _Rhythm(pace, starts[id(step)], until.get(id(step), _NEVER), bins[id(step)])
        for (_, step), pace in zip(series, paces, strict=True)
    ]


def _durations(info: SeriesInfo, value: Int64) -> Int64:
    """Duration of each sample in ns; 0 for other units."""
    return value * info.scale if info.unit == "ns" else np.zeros(len(value), np.int64)


def _in_loop(figures: Figures, pace: stats.Pace) -> Figures:
    """The figures with the samples around the largest placed in their test loop."""
    window, lead = figures.around, figures.lead
    if window is None or lead is None or not len(lead.value):
        return figures
    loop = window.due_ns == window.due_ns[window.at]
    whole = not loop[0] or window.index[0] == 0
    whole = whole and (not loop[-1] or window.index[-1] + 1 == figures.taken)
    if int(loop.sum()) < LEAST or not whole:  # hardly a loop, or more samples than were kept
        return figures
    value = window.value[loop]
    times = pace.within(float(window.due_ns[window.at]), value).astype(np.int64)
    at = window.at - int(np.flatnonzero(loop)[0])
    return replace(figures, around=Window(window.index[loop], times, value, at, loop=True))


@dataclass(frozen=True)
class _Loss:
    """A run of samples that were taken but not kept."""

    index: int
    time_ns: int
    count: int
    largest: int


_NEVER: Final = -(2**63)
_LONGEST_NS: Final = 10**12
"""Maximum length of a test loop, whatever its samples contain."""

_UNKNOWN: Final = -(2**63)
"""The largest of lost samples if it is unknown (docs/formats/stream.md)."""


def _losses(series: StoredSeries) -> list[_Loss]:
    rows = zip(*(row.tolist() for row in series.lost_events), strict=True)
    return [_Loss(*row) for row in rows]


def _scaled(counts: Counts, scale: int) -> Counts:
    """The table in the unit of the series instead of the unit of its samples."""
    if scale == 1 or not counts.count or counts.min is None or counts.max is None:
        return counts
    if scale < 1:
        raise ValueError(f"a scale is at least 1, not {scale}")
    return Counts(
        counts.values * scale,
        counts.counts,
        counts.sum * scale,
        counts.min * scale,
        counts.max * scale,
        counts.sub_bits,
    )


def _figures(
    series: StoredSeries,
    step: StoredStep,
    pictures: bool,
    share: int,
    lead: int,
    rhythm: _Rhythm,
) -> Figures:
    """``lead``: number of first samples to keep."""
    info, totals = series.info, series.totals
    losses = _losses(series)
    gap_index, gap_count = (np.asarray(row, np.int64) for row in series.missed_events)
    lost_runs = tuple(
        (loss.count, loss.largest * info.scale) for loss in losses if loss.largest > _UNKNOWN
    )
    timeline: TimeBins | None = None
    heat: Heat | None = None
    line = around = begin = kept_max = max_at = clustering = top = over = None
    effective: dict[str, int | None] | None = None
    grid = Grid(info.interval_ns)
    leading: Lead | None = None
    large: Window | None = None
    # Where only the histogram has all values, the samples are used for their times alone.
    partial = bool(series.withheld and series.histogram)
    whole = False
    # An event without an answer does not tell how late the answer would have been.
    answers = waits_for_answers(info.name, info.unit)
    missed = max(totals.missed, int(gap_count.sum()))
    unanswered = _unanswered(series, step, missed) if answers else None
    if not partial and not info.histogram_only and info.interval_ns > 0:
        over = _Exceeding.of(series, step, unanswered)
    if info.histogram_only:
        counts = _from_histogram(series)
        first = None
        known = np.zeros(len(gap_index), np.bool_)
        before = np.zeros(len(gap_index), np.int64)
    else:
        scan = _Pass(series, gap_index, rhythm.bins, lead, rhythm.pace, over, grid)
        _add_end(grid, series, step, last=False)
        scan.run(share)
        _add_end(grid, series, step, last=True)
        leading = scan.lead
        counts, first, known, before = scan.counts, scan.first, scan.known, scan.before
        kept_max, max_at = counts.max, scan.when()
        if partial and (every := _from_histogram(series)).count > counts.count:
            counts, whole = every, True
        largest = scan.largest()
        clustering = largest.clustering()
        top = None if partial else _top(largest, info.scale, scan.counts.count)
        if info.interval_ns > 0:
            index, value = largest.largest()
            large = Window(index, grid.due_ns(index), value * info.scale, 0)
        line = scan.timeline()
        if line is not None and not partial:
            effective = stats.effective_sizes(
                counts,
                line,
                _in_bins(line, grid, gap_index, gap_count) if answers else None,
            )
        if line is not None and pictures:
            timeline = _time_bins(series, line, grid, losses, gap_index, gap_count)
            heat = _heat(line, info.scale)
            around, begin = scan.around(), scan.begin()
    gaps = (gap_index[:0], gap_count[:0]) if partial else (gap_index, gap_count)
    around, begin, large, offsets = _dithered(series, (around, begin, large), *gaps)

    counts = _scaled(counts, info.scale)
    corrected, uncorrectable = None, 0
    starved = bool(missed) and not answers and not max(totals.count, counts.count)
    if info.interval_ns > 0 and not answers:
        corrected, uncorrectable = (
            (None, missed)
            if partial or starved
            else _corrected(series, counts, before, gap_count, missed, known, offsets)
        )
    first = None if first is None else first * info.scale
    maxima = [largest for _, largest in lost_runs]
    # The last snapshot may be older than the last samples.
    maxima += [kept_max * info.scale] if kept_max is not None else []
    maxima += [counts.max] if counts.max is not None else []
    longest = max(maxima, default=None)
    taken = max(totals.count, counts.count, _due(series, step, grid) - missed)
    return Figures(
        counts=counts,
        corrected=corrected,
        unknown=uncorrectable,
        taken=taken,
        kept=counts.count,
        missed=missed,
        lost=max(totals.lost, sum(loss.count for loss in losses), taken - counts.count),
        lost_runs=lost_runs,
        overruns=totals.overruns,
        first=first,
        max=longest,
        rest=_rest(counts, first),
        duration_s=_duration_s(series, step, longest),
        max_at=max_at if kept_max is not None and longest == kept_max * info.scale else None,
        timeline=timeline,
        tenths=() if line is None or partial else tuple((line.medians(10) * info.scale).tolist()),
        heat=heat,
        around=around,
        begin=begin,
        lead=leading,
        large=None
        if large is None or info.unit != "ns"
        else Large(large.due_ns + large.value, large.value, series.companion is not None),
        clustering=clustering,
        top=top,
        groups=()
        if large is None
        else _groups(
            large,
            gap_index,
            gap_count,
            before * info.scale if unanswered is None else unanswered.longest,
            taken + missed,
        ),
        effective=effective,
        episodes=None if over is None else over.episodes(lost_runs),
        adjacent=0 if over is None else over.adjacent(),
        unanswered=None if unanswered is None else unanswered.limits,
        starved_ns=_starved_ns(series, missed) if starved else 0,
        halves=_halves(series)
        if is_response(info.name, info.unit) and not info.histogram_only and not whole
        else None,
        missed_halves=_missed_halves(gap_index, gap_count, missed),
    )


def _groups(
    large: Window, gap_index: Int64, gap_count: Int64, reach: Int64, periods: int
) -> tuple[tuple[int, int], ...]:
    """The groups of the largest samples. ``reach``: the value of what is missing in each gap."""
    after = np.flatnonzero((reach >= large.value.min(initial=0)) & (gap_count > 0))
    found = stats.groups(
        np.concatenate((large.index, gap_index[after] + 1)),
        np.concatenate((large.index, (gap_index + gap_count)[after])),
        np.concatenate((large.value, reach[after])),
        periods,
    )
    return tuple(found)


def _starved_ns(series: StoredSeries, missed: int) -> int:
    """How late a task that missed all periods was at least in the first one. Dither moves a due
    time by less than a period."""
    if series.info.unit != "ns":
        return 0
    return max(missed - 1 - (series.companion is not None), 0) * series.info.interval_ns


def _corrected(
    series: StoredSeries,
    counts: Counts,
    before: Int64,
    gap_count: Int64,
    missed: int,
    known: NDArray[np.bool_],
    offsets: stats.GapOffsets | None,
) -> tuple[Counts | None, int]:
    """The counts corrected for missed periods, and how many of these cannot be: some may be in lost
    records. None if only a histogram was kept, which does not show this."""
    info = series.info
    result = stats.corrected(
        counts,
        before * info.scale,
        gap_count,
        info.interval_ns,
        known=known,
        offsets=offsets,
    )
    uncorrectable = result.uncorrectable + missed - int(gap_count.sum())
    if info.histogram_only and uncorrectable:
        return None, uncorrectable
    return result.counts, uncorrectable


def _add_end(grid: Grid, series: StoredSeries, step: StoredStep, *, last: bool) -> None:
    """The first or last event, which may be unanswered; in a capture, none is held back."""
    totals, header, info = series.totals, step.header, series.info
    points = totals.count + totals.missed
    if not waits_for_answers(info.name, info.unit) or info.interval_ns <= 0 or not points:
        return
    if step.trailer is not None and header is not None and header.machine:
        index, due_ns = (points - 1, totals.last_due_ns) if last else (0, totals.first_due_ns)
        grid.add(np.array([index]), np.array([due_ns]))


def _due(series: StoredSeries, step: StoredStep, grid: Grid) -> int:
    """The number of periods due where records of a stream without a trailer were lost: what these
    held is known from the due times alone. Else 0."""
    totals, interval_ns, end = series.totals, series.info.interval_ns, step.end
    if interval_ns <= 0 or step.trailer is not None or end is None or not totals.count:
        return 0
    if not end.lost_records:
        return 0
    first, last = grid.points(np.array([totals.first_due_ns, totals.last_due_ns]))
    return int(last - first) + 1


def _top(found: stats.ExcursionsBuilder, scale: int, count: int) -> stats.Part:
    positions, values = found.largest()
    order, above = np.argsort(positions, kind="stable"), found.above()
    above = None if above is None else above * scale
    return stats.Part(positions[order], values[order] * scale, count, above)


def _halves(series: StoredSeries) -> tuple[Counts, Counts]:
    """The samples of even and of odd index."""
    builders = (stats.CountsBuilder(), stats.CountsBuilder())
    for chunk in series.chunks():
        for half, builder in enumerate(builders):
            builder.add(chunk.value[chunk.index % 2 == half])
    return builders[0].build(), builders[1].build()


def _missed_halves(index: Int64, count: Int64, missed: int) -> tuple[int, int]:
    """Number of missed grid points with even and with odd index. Gaps follow the points of
    ``index``."""
    even = int(((index + count + 2) // 2 - (index + 2) // 2).sum())
    return even, missed - even


def _from_histogram(series: StoredSeries) -> Counts:
    snapshot = series.histogram
    if snapshot is None or not snapshot.count:
        return Counts.from_arrays(())
    return Counts.from_log_linear(
        np.asarray(snapshot.buckets, np.int64),
        count=snapshot.count,
        min=snapshot.min,
        max=snapshot.max,
        sum=snapshot.sum,
        sub_bits=snapshot.sub_bits,
    )


def _rest(counts: Counts, first: int | None) -> dict[str, int | float | None]:
    """Min, mean and max of all samples but the first."""
    if first is None or counts.count < 2 or first > counts.values[-1]:
        return {"min": None, "mean": None, "max": None}
    left = counts.counts.copy()
    left[np.searchsorted(counts.values, first)] -= 1
    there = np.flatnonzero(left)
    if counts.min is None or counts.min >= first:
        least = int(counts.values[there[0]])
    else:
        least = counts.min  # exact even in a histogram
    return {
        "min": least,
        "mean": (counts.sum - first) / (counts.count - 1),
        "max": int(counts.values[there[-1]]),
    }


def _duration_s(series: StoredSeries, step: StoredStep, longest: int | None) -> float:
    """The time that the series covers: all its periods on a grid, else the step's length.

    ``longest``: the largest value. While an event has no answer, the next may be held back, so
    periods come later than due. In a capture no event is held back.
    """
    totals, info = series.totals, series.info
    span = totals.last_due_ns - totals.first_due_ns
    if totals.count == 0 and totals.missed == 0:
        return 0.0
    if (
        info.interval_ns > 0
        and waits_for_answers(info.name, info.unit)
        and (totals.missed or (longest or 0) > info.interval_ns)
        and step.header is not None
        and step.header.machine
        and step.trailer
    ):
        return max(step.trailer.duration_ns, span + info.interval_ns) / 1e9
    if info.interval_ns > 0:
        return (span + info.interval_ns) / 1e9
    if step.trailer is not None:
        return max(step.trailer.duration_ns, span) / 1e9
    return span / 1e9


# --- what exceeds the budget ---------------------------------------------------------------------

_FURTHEST: Final = 1 << 62


@dataclass(frozen=True)
class _Unanswered:
    """Events without an answer: the wait for each, and the longest wait of each gap."""

    limits: Counts
    longest: Int64


def _timeout_ns(step: StoredStep, interval_ns: int) -> int:
    """How long the step waits for an answer: its timeout, or until the next event. A timeout above
    the interval holds the next event back."""
    asked = step.header.parameters.get("timeout") if step.header is not None else None
    try:
        timeout_ns = 0 if asked is None else parse_duration(asked.effective)
    except ValueError:
        timeout_ns = 0
    return timeout_ns or interval_ns


def _unanswered(series: StoredSeries, step: StoredStep, missed: int) -> _Unanswered:
    """The waits of unanswered events. If no timeout holds the next event back, the wait ends when
    that event is raised. With dither (or an inexact source of events) each wait has its own length,
    which follows from the companion series."""
    gap_index, gap_count = (np.asarray(row, np.int64) for row in series.missed_events)
    interval_ns = series.info.interval_ns
    timeout_ns = _timeout_ns(step, interval_ns)
    if series.companion is None or not len(gap_index) or timeout_ns > interval_ns:
        limits = np.array([timeout_ns] if missed else [], np.int64)
        whole = Counts.of_table(limits, np.array([missed] if missed else [], np.int64))
        return _Unanswered(whole, np.full(len(gap_index), timeout_ns, np.int64))
    table, longest = stats.CountsBuilder(), np.zeros(len(gap_index), np.int64)

    def wait(index: Int64, offset: Int64, following: Int64) -> None:
        gap = np.searchsorted(gap_index, index) - 1
        inside = (gap >= 0) & (index <= gap_index[gap] + gap_count[gap])
        waited = interval_ns + following[inside] - offset[inside]
        waited = np.clip(waited, 0, timeout_ns)
        table.add(waited)
        np.maximum.at(longest, gap[inside], waited)

    last: tuple[int, int] | None = None
    for chunk in series.companion.chunks():
        index = np.asarray(chunk.index, np.int64)
        offset = np.asarray(chunk.value, np.int64) * series.companion.info.scale
        if not len(index):
            continue
        if last is not None:
            index = np.concatenate(([last[0]], index))
            offset = np.concatenate(([last[1]], offset))
        near = np.diff(index) == 1
        wait(index[:-1][near], offset[:-1][near], offset[1:][near])
        last = (int(index[-1]), int(offset[-1]))
    if last is not None:  # the wait after the last event is at most an interval
        wait(*(np.array([one], np.int64) for one in (*last, min(last[1], 0))))
    known = table.build()
    rest = missed - known.count  # with an unknown wait
    zero = Counts.of_table(*(np.array([n] if rest > 0 else [], np.int64) for n in (0, rest)))
    return _Unanswered(Counts.merged((known, zero)), longest)


class _Exceeding:
    """Finds where the samples of a series on a time grid exceed the budget, chunk by chunk, and
    the periods missed after them, or the events without an answer."""

    def __init__(self, series: StoredSeries, limit: int, unanswered: _Unanswered | None) -> None:
        self.limit = limit
        self._scale = series.info.scale
        self._interval_ns = series.info.interval_ns
        self._gap_index, self._gap_count = (
            np.asarray(row, np.int64) for row in series.missed_events
        )
        self._waited = None if unanswered is None else unanswered.longest
        self._done = np.zeros(len(self._gap_index), np.bool_)
        self._found = stats.EpisodesBuilder()
        self._adjacent = stats.EpisodesBuilder(near=2)

    @staticmethod
    def of(
        series: StoredSeries, step: StoredStep, unanswered: _Unanswered | None
    ) -> _Exceeding | None:
        """The limit of the step's budget for this series; None without a budget."""
        budget = step.document.get("budget_ns")
        if budget is None or series.info.unit != "ns":
            return None
        return _Exceeding(series, int(budget), unanswered)

    def add(self, chunk: Chunk, gaps: slice, before: Int64, known: NDArray[np.bool_]) -> None:
        """Look through a chunk and the gaps after its samples."""
        index = np.asarray(chunk.index, np.int64)
        over = index[chunk.value > self.limit // self._scale]
        reach = self._reach(gaps, before, known)
        begin = self._gap_index[gaps][reach > 0] + 1
        end = begin + reach[reach > 0] - 1
        for found in (self._found, self._adjacent):
            found.add(np.concatenate((over, begin)), np.concatenate((over, end)))
        self._done[gaps] = True

    def _reach(self, gaps: slice, before: Int64, known: NDArray[np.bool_]) -> Int64:
        """Number of periods of each gap that exceed the budget: those due first. Dither can move
        the last of them by one, which neither separates nor joins episodes."""
        count = self._gap_count[gaps]
        if self._waited is not None:
            return np.where(self._waited[gaps] >= self.limit, count, 0)
        length = np.minimum(count, _FURTHEST // self._interval_ns) * self._interval_ns
        wake = np.maximum(before * self._scale, length)
        reach = np.clip((wake - self.limit - 1) // self._interval_ns, 0, count)
        return np.where(known, reach, 0)

    def episodes(self, lost_runs: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Lower and upper limit of their number. ``lost_runs``: number and maximum of lost
        samples."""
        if self._waited is not None:
            left = ~self._done & (self._waited >= self.limit)
            begin = self._gap_index[left] + 1
            for found in (self._found, self._adjacent):
                found.add_apart(begin, begin + self._gap_count[left] - 1)
        number = self._found.count()
        lost = sum(1 for _, largest in lost_runs if largest > self.limit)
        return max(number, min(lost, 1)), number + lost

    def adjacent(self) -> int:
        """Number of runs of adjacent periods that exceed, after ``episodes``."""
        return self._adjacent.count()


# --- the pass ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Bins:
    first_ns: int
    last_ns: int
    interval_ns: int
    number: int

    def builder(self) -> stats.TimelineBuilder:
        return stats.TimelineBuilder(
            self.first_ns,
            self.last_ns,
            bins=self.number,
            interval_ns=self.interval_ns,
        )


def _bins(step: StoredStep, most: int, until_ns: int) -> _Bins | None:
    """The bins that all series of a step share, so that their lines are aligned.

    ``most``: the number of all series that are gathered. ``until_ns``: when the test loops ended.
    """
    drawn = [s for s in step.series if s.info.companion is None and not s.info.histogram_only]
    filled = [s for s in drawn if s.totals.count]
    if not filled:
        return None
    intervals = {s.info.interval_ns for s in filled}
    return _Bins(
        min(s.totals.first_due_ns for s in filled),
        max(until_ns, *(max(s.totals.last_due_ns, s.totals.first_due_ns) for s in filled)),
        intervals.pop() if len(intervals) == 1 else 0,
        stats.bins_for(max(s.totals.count for s in filled), min(BINS, max(16, _ALL_BINS // most))),
    )


class _Pass:
    """Takes the chunks of one series, on one or several threads."""

    def __init__(
        self,
        series: StoredSeries,
        wanted: Int64,
        bins: _Bins | None,
        lead: int,
        pace: stats.Pace | None,
        over: _Exceeding | None,
        grid: Grid,
    ) -> None:
        self._grid = grid
        self._info = series.info
        self._pace = pace
        self._over = over
        self._lead = lead
        self.lead: Lead | None = None
        self._chunks: Iterator[Chunk] = iter(series.chunks())
        self._lock = threading.Lock()
        self._bins = bins
        self._wanted = wanted
        self._peak = Peak(LOOP if series.info.interval_ns == 0 else REACH) if bins else None
        self._taken = 0
        self._line: stats.TimelineBuilder | None = None
        self._large: list[stats.ExcursionsBuilder] = []
        self.before: Int64 = np.zeros(len(wanted), np.int64)
        self.known = np.zeros(len(wanted), np.bool_)
        self.first: int | None = None
        self.counts = Counts.from_arrays(())

    def run(self, threads: int) -> None:
        if threads == 1:
            self._join([self._work()])
            return
        with ThreadPoolExecutor(threads) as pool:
            self._join([one.result() for one in [pool.submit(self._work) for _ in range(threads)]])

    def _join(self, parts: list[stats.TimelineBuilder | stats.CountsBuilder]) -> None:
        lines = [part for part in parts if isinstance(part, stats.TimelineBuilder)]
        for other in lines[1:]:
            lines[0].merge(other)
        if lines:
            self._line = lines[0]
            self.counts = lines[0].counts()
        else:
            tables = [part.build() for part in parts if isinstance(part, stats.CountsBuilder)]
            self.counts = Counts.merged(tables)

    def _next(self) -> tuple[int, Chunk] | None:
        """The next chunk that is not empty, and its number."""
        with self._lock:
            chunk = next((one for one in self._chunks if len(one.value)), None)
            if chunk is None:
                return None
            if self.first is None:
                self.first = int(chunk.value[0])
                _, due, value = part_of(chunk, 0, self._lead)
                self.lead = Lead(due, value * self._info.scale)
            if self._grid.interval_ns > 0:
                self._grid.add(chunk.index, chunk.due_ns)
            number, self._taken = self._taken, self._taken + 1
            if self._peak is not None:
                self._peak.expect(number)
            return number, chunk

    def _work(self) -> stats.TimelineBuilder | stats.CountsBuilder:
        if self._bins is None:
            table = stats.CountsBuilder()
            while (taken := self._next()) is not None:
                table.add(taken[1].value)
                self._pick(taken[1])
            return table
        line, large = self._bins.builder(), stats.ExcursionsBuilder()
        self._large.append(large)
        assert self._peak is not None
        while (taken := self._next()) is not None:
            number, chunk = taken
            line.add(self._due(chunk), chunk.value)
            large.add(chunk.index, chunk.value)
            self._pick(chunk)
            self._peak.add(number, chunk)
        return line

    def _due(self, chunk: Chunk) -> Int64 | range:
        """The due times of a chunk, as a range if no period is missing inside it. Without a time
        grid, the times at which its samples were taken."""
        if self._pace is not None:
            value = _durations(self._info, chunk.value.astype(np.int64))
            return self._pace.laid(chunk.due_ns, value)
        first, last = int(chunk.due_ns[0]), int(chunk.due_ns[-1])
        step = self._info.interval_ns
        if last - first == step * (len(chunk.value) - 1):
            return range(first, last + 1, step)
        return chunk.due_ns

    def _pick(self, chunk: Chunk) -> None:
        """Remember the samples before the gaps: each was the wake-up of the periods skipped."""
        if not len(chunk.index):
            return
        start, stop = np.searchsorted(self._wanted, (chunk.index[0], chunk.index[-1] + 1))
        gaps = slice(int(start), int(stop))
        if start < stop:
            part = [(chunk.index, chunk.value)]
            values, known = stats.values_at(part, self._wanted[gaps])
            self.before[gaps] = values
            self.known[gaps] = known
        if self._over is not None:
            self._over.add(chunk, gaps, self.before[gaps], self.known[gaps])

    def largest(self) -> stats.ExcursionsBuilder:
        """The largest samples of all threads."""
        whole = stats.ExcursionsBuilder()
        for one in self._large:
            whole.merge(one)
        return whole

    def timeline(self) -> stats.Timeline | None:
        """The time bins, once: the large builder is released, so that a second call returns
        None."""
        line, self._line = self._line, None
        return None if line is None else line.timeline()

    def when(self) -> tuple[int, int] | None:
        """Index and due time of the largest sample."""
        return None if self._peak is None else self._peak.when()

    def around(self) -> Window | None:
        """The samples around the largest one."""
        return None if self._peak is None else self._peak.around(self._info.scale)

    def begin(self) -> Window | None:
        """The first samples."""
        return None if self._peak is None else self._peak.begin(self._info.scale)


def _dithered(
    series: StoredSeries,
    windows: tuple[Window | None, Window | None, Window | None],
    index: Int64,
    count: Int64,
) -> tuple[Window | None, Window | None, Window | None, stats.GapOffsets | None]:
    """The windows with the actual due times of their samples, dither included, and the offsets of
    the gaps. Takes one pass over the companion, which ends once all of them are known."""
    companion = series.companion
    wanted = np.unique(np.concatenate([one.index for one in windows if one] or [index[:0]]))
    if companion is None or not (len(wanted) or len(index)):
        return *windows, None
    values = np.zeros(len(wanted), np.int64)
    chunks = _watched(companion, wanted, values)
    gaps = stats.GapOffsets(chunks, index, count) if _apart(index, count) else None
    for at, _ in chunks:
        if not len(wanted) or (len(at) and at[-1] >= wanted[-1]):
            break
    around, begin, large = (
        one and replace(one, due_ns=one.due_ns + values[np.searchsorted(wanted, one.index)])
        for one in windows
    )
    return around, begin, large, gaps


def _apart(index: Int64, count: Int64) -> bool:
    """Whether there are gaps, in order and disjoint. Those of a hostile stream may not be."""
    return len(index) > 0 and bool((index[1:] > index[:-1] + count[:-1]).all())


def _watched(
    companion: StoredSeries, wanted: Int64, values: Int64
) -> Iterator[tuple[Int64, NDArray[Any]]]:
    """The chunks of a series of times. Its values at the indices ``wanted`` are written to
    ``values``."""
    scale = companion.info.scale
    for chunk in companion.chunks():
        value = chunk.value if scale == 1 else chunk.value.astype(np.int64) * scale
        found, there = stats.values_at([(chunk.index, value)], wanted)
        values[there] = found[there]
        yield chunk.index, value


def _heat(line: stats.Timeline, scale: int) -> Heat:
    """The filled cells of the heat map. If there are many series, few cells of each are filled."""
    found = line.heat(HEAT_COLUMNS, HEAT_ROWS)
    column, row = np.nonzero(found.counts)
    return Heat(
        start_ns=int(found.edges_ns[0]),
        bin_ns=int(found.edges_ns[1] - found.edges_ns[0]),
        columns=len(found.edges_ns) - 1,
        low=found.low,
        high=found.high,
        scale=scale,
        column=column.astype(np.int32),
        row=row.astype(np.int32),
        count=found.counts[column, row],
    )


def _time_bins(
    series: StoredSeries,
    line: stats.Timeline,
    grid: Grid,
    losses: Sequence[_Loss],
    index: Int64,
    count: Int64,
) -> TimeBins:
    """The series' time bins with the periods missed and the samples lost in each."""
    edges, info = line.edges_ns, series.info
    many = np.array([loss.count for loss in losses], np.int64)
    if info.interval_ns > 0:
        where = np.array([loss.index for loss in losses], np.int64)
        lost_row = _spread(edges, grid, where, many)
    else:
        lost_row = np.zeros(len(edges) - 1, np.int64)
        times = np.array([loss.time_ns for loss in losses], np.int64)
        at = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, len(lost_row) - 1)
        np.add.at(lost_row, at, many)
    return TimeBins(
        start_ns=int(edges[0]),
        bin_ns=int(edges[1] - edges[0]),
        count=line.count,
        low=line.min * info.scale,
        middle=line.quantile(0.5) * info.scale,
        high=line.max * info.scale,
        missed=_in_bins(line, grid, index, count),
        lost=lost_row,
    )


def _in_bins(line: stats.Timeline, grid: Grid, index: Int64, count: Int64) -> Int64:
    """The periods missed in each bin."""
    pieces = (
        _spread(line.edges_ns, grid, index[part] + 1, count[part]) for part in _pieces(len(index))
    )
    return sum(pieces, start=np.zeros(len(line.edges_ns) - 1, np.int64))


def _pieces(length: int) -> Iterator[slice]:
    """The pieces of a long array, whose copies would be large."""
    return (slice(at, at + _PIECE) for at in range(0, length, _PIECE))


def _spread(edges: Int64, grid: Grid, index: Int64, count: Int64) -> Int64:
    """Runs of ``count`` grid points from ``index`` on, each point counted in its bin of time."""
    row = np.zeros(len(edges) - 1, np.int64)
    if not len(index) or grid.interval_ns <= 0:
        return row
    # The grid point at which each bin begins; the outer bins take what lies beyond them.
    starts = grid.points(edges[1:-1])
    first = np.searchsorted(starts, index, side="right")
    last = np.searchsorted(starts, index + np.maximum(count, 1) - 1, side="right")
    inside = first == last
    np.add.at(row, first[inside], count[inside])
    for at in np.flatnonzero(~inside):
        bounds = np.concatenate(
            ([index[at]], starts[first[at] : last[at]], [index[at] + count[at]])
        )
        row[first[at] : last[at] + 1] += np.diff(bounds)
    return row
