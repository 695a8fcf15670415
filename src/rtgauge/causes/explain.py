# SPDX-License-Identifier: Apache-2.0
"""From the samples of a stored run to their causes, by its replay."""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rtgauge import text as numbers
from rtgauge.causes.advice import advised, system_of
from rtgauge.causes.beginnings import DUE, EVENT, LOOP, how_of
from rtgauge.causes.cut import Cut, Step, Tasks, cut, in_interrupt, walk
from rtgauge.causes.model import Cause, Cost, causes_of, document_of
from rtgauge.causes.placing import operation, pair, tolerance_ns
from rtgauge.causes.replay import (
    LATE_NS,
    NEAR_NS,
    Guest,
    Sample,
    arrays,
    carried_out,
    check,
    due_of,
    replayed,
    without_orders,
)
from rtgauge.causes.symbols import KERNEL, Symbols, TaskLayout
from rtgauge.causes.tracefs import kept_of
from rtgauge.errors import StoreError, UsageError
from rtgauge.lab.recorder import ANCHOR, Piece
from rtgauge.store import StoredRun, StoredSeries, StoredStep

__all__ = ["SAMPLES_MAX", "Explained", "explain", "keep", "select", "traced"]

Medians = Callable[[StoredRun, Collection[tuple[int, int]]], Mapping[tuple[int, int], float]]
"""Gives the medians of some series of a run, each by its step and number, as reports have them."""

#: Samples that one replay explains.
SAMPLES_MAX: Final = 400
# After the beginning of the last test loop, the time in which its operations are looked for.
_LAST: Final = 250_000_000
_SHIFTED: Final = (
    "The replay's clock is known only to within a few µs, because no sample in user context was "
    "taken at about that time. All segments may be shifted by as much. Add user context to the run."
)
_ANOTHER: Final = (
    "Several operations of this test loop took equally long. The segments show one of them."
)
_UNPLACED: Final = (
    "No two readings of the clock in the replay are as far apart as the sample is long, so it is"
    " not known where the sample begins. Either the sample is not the difference of two readings of"
    f" one program, or its event came more than {numbers.microseconds(LATE_NS)} after it was due."
)
_COST: Final = Cost(0, "none: the run was measured without a recorder, and replayed afterwards")


@dataclass(frozen=True)
class Explained:
    """The causes of the samples that were asked for, and of what they were found in."""

    causes: tuple[Cause, ...]
    compared: int
    """Samples of the run and its replay, all equal. 0: the run has a trace of its own."""
    seconds: float
    losses: tuple[str, ...] = ()
    """What was to be kept of the run's trace, and was not."""


@dataclass(frozen=True)
class _Series:
    """A series of latencies that can be explained."""

    step: StoredStep
    series: StoredSeries
    how: str

    @property
    def context(self) -> str:
        return self.series.info.context

    def sample(self, rows: NDArray[np.int64], due: NDArray[np.int64], place: int) -> Sample:
        header = self.step.header
        start = header.start_ns if header is not None else 0
        since = int(due[place])
        return Sample(
            self.step.number,
            self.series.info.series,
            self.context,
            int(rows[place, 0]),
            since,
            start + since,
            int(rows[place, 2]),
            self.how,
            self.series.info.stamp_ns or 0,
            tolerance_ns(header.machine) if header is not None else 0,
        )


def _measured(run: StoredRun) -> Sequence[StoredStep]:
    """The steps that measure; calibrations only in a run that has no other steps."""
    calibrations = {
        one.get("step")
        for one in run.document.get("steps") or ()
        if one.get("role") == "calibration"
    }
    return [one for one in run.steps if one.number not in calibrations] or run.steps


def _explainable(run: StoredRun) -> Iterator[_Series]:
    """The series of durations in ns."""
    catalogue = run.document.get("catalogue")
    for step in _measured(run):
        for series in step.series if step.header is not None else ():
            if series.info.companion is None and series.info.unit == "ns":
                how = how_of(catalogue, step.document.get("measurement"), series.info)
                if how:
                    yield _Series(step, series, how)


def _replayable(run: StoredRun, say: Callable[[str], None]) -> Sequence[_Series]:
    """The series of durations that a replay explains. If some of them have due times, only these.

    Raises UsageError if the orders of none are known. ``say`` receives the steps without orders."""
    explainable = list(_explainable(run))
    ordered = {one.number for one in carried_out(run)}
    found = [one for one in explainable if one.step.number in ordered]
    if explainable and not found:
        raise UsageError(*without_orders(run))
    others = [one.step.number for one in explainable if one.series.count]
    for number in dict.fromkeys(others):
        if number not in ordered:
            say(
                f"step {number + 1} ended before its orders were stored: its samples are left out"
                if run.document.get("state") != "running"
                else f"step {number + 1} has not ended: its samples are left out"
            )
    return [one for one in found if one.how != LOOP] or found


def select(
    run: StoredRun,
    *,
    worst: int = 1,
    above_ns: int | None = None,
    sample: tuple[str, int] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Sample]:
    """The samples to explain: the ``worst`` of each series, those above a time, or one by its
    context and index. The longest comes first. If there are more than ``SAMPLES_MAX``, the longest
    ones. ``worst`` chooses the longest of each series first. ``say`` receives what is left out.

    Raises UsageError if the run has no such sample.
    """
    check(run)
    found: list[tuple[int, Sample]] = []
    if nothing := _without_samples(run):
        raise UsageError(*nothing)
    candidates = _replayable(run, say)
    if not candidates:
        raise UsageError(
            f"run {run.id} has no series of durations, so nothing can be explained",
            "explain a run of 'timer', or of another measurement whose samples are times",
        )
    if all(not each.series.count for each in candidates):
        raise UsageError(
            f"run {run.id} kept only histograms, which do not have the times of samples",
            "measure without --histogram-only, and explain the new run",
        )
    for one in candidates:
        rows = arrays(one.series)
        if not len(rows):
            continue
        due, order = due_of(one.series), np.argsort(-rows[:, 2], kind="stable")
        if sample is not None:
            places = np.flatnonzero(rows[:, 0] == sample[1]) if one.context == sample[0] else ()
        elif above_ns is not None:
            places = order[rows[order, 2] > above_ns]
        else:
            places = order[:worst]
        named = above_ns is not None or sample is not None
        found += [
            (0 if named else rank, one.sample(rows, due, int(place)))
            for rank, place in enumerate(places)
        ]
    if not found:
        raise UsageError(*_nothing(candidates, above_ns, sample))
    found.sort(key=lambda each: (each[0], -each[1].latency_ns))
    chosen = [each for _, each in found[:SAMPLES_MAX]]
    return sorted(chosen, key=lambda each: -each.latency_ns)


def _without_samples(run: StoredRun) -> tuple[str, str] | None:
    """What a run without a sample gets: the message and the remedy."""
    steps = _measured(run)
    if any(step.header is not None and _samples_of(step) for step in steps):
        return None
    first = next((step.document for step in steps), {})
    name = str(first.get("measurement") or "its steps")
    reason = str(first.get("reason") or "")
    return (
        f"there is nothing to explain: run {run.id} has no samples of {name}"
        + (f" ({reason})" if reason else ""),
        str(first.get("remedy") or "") or "measure again, and explain the new run",
    )


def _samples_of(step: StoredStep) -> int:
    """Number of samples of a step, including those that only histograms contain."""
    return sum(max(one.count, one.totals.count) for one in step.series)


def _nothing(
    candidates: Sequence[_Series], above_ns: int | None, sample: tuple[str, int] | None
) -> tuple[str, str]:
    largest = max(int(arrays(each.series)[:, 2].max(initial=0)) for each in candidates)
    if above_ns is not None:
        return (
            f"no sample of the run is above {numbers.microseconds(above_ns)}",
            f"use a limit below the max, {numbers.microseconds(largest)}",
        )
    contexts = ", ".join(dict.fromkeys(each.context for each in candidates))
    context, index = sample or ("", 0)
    last = max(int(arrays(each.series)[:, 0].max(initial=0)) for each in candidates)
    return (
        f"the run has no sample {context}:{index}",
        f"contexts of this run: {contexts}. Indices go from 0 to {last}",
    )


def explain(
    run: StoredRun,
    samples: Sequence[Sample],
    say: Callable[[str], None],
    *,
    medians: Medians,
    tell: Callable[[str], None] = lambda _: None,
) -> Explained:
    """The causes of these samples. ``tell`` receives the progress. Raises TargetError, StoreError,
    UsageError."""
    usual = medians(run, {(one.step, one.series) for one in samples})
    seconds = 0.0
    if any(one.how == LOOP for one in samples):
        say("a first replay finds when the operations began …")
        with replayed(run, (), say, tell) as guest:
            samples = [_operation(one, run, guest) for one in samples]
            seconds = guest.seconds
    placed = [one for one in samples if one.how != LOOP or one.at is not None]
    with replayed(run, placed, say, tell) as guest:
        tell("finding the causes …")
        cuts = dict(_cuts(placed, guest))
        seconds += guest.seconds
        systems = {number: system_of(run, number) for number in {one.step for one in samples}}
        causes = [
            advised(
                _cause(one, cuts.get(one), guest.knows(one.due_ns)),
                usual[one.step, one.series],
                systems[one.step],
            )
            for one in samples
        ]
    return Explained(tuple(causes), guest.samples, seconds)


def _operation(one: Sample, run: StoredRun, guest: Guest) -> Sample:
    """The sample with the time at which it began, if it is one of a test loop."""
    if one.how != LOOP:
        return one
    step = next(each for each in run.steps if each.number == one.step)
    series = next(each for each in step.series if each.info.series == one.series)
    rows = arrays(series)
    began = int(rows[rows[:, 0] == one.index, 1][0])
    loop, later = rows[rows[:, 1] == began], rows[rows[:, 1] > began, 1]
    lasts = int(later.min()) - began if len(later) else _LAST
    begin = guest.clock.time(one.due_ns) - NEAR_NS
    until = guest.clock.time(one.due_ns + lasts)
    inside = guest.readings[np.searchsorted(guest.readings, begin) :]
    found = operation(
        inside[: np.searchsorted(inside, until + NEAR_NS)],
        (loop[:, 2] + one.stamp_ns).tolist(),
        int(np.flatnonzero(loop[:, 0] == one.index)[0]),
        one.tolerance_ns,
    )
    return one if found is None else replace(one, at=found[0], only=found[1])


def _cause(one: Sample, found: Cut | None, known: bool) -> Cause:
    """The cause of a sample. ``known``: the guest's clock is exact then."""
    if found is None or (one.how == EVENT and not found.segments):
        found, unseen = Cut((), one.latency_ns), _UNPLACED
    elif one.how == DUE:
        unseen = "" if known else _SHIFTED
    else:
        unseen = "" if one.only else _ANOTHER
    segments = found.segments
    if unseen:
        segments = tuple(replace(each, certainty="inferred") for each in segments)
    return Cause(
        one.step,
        one.series,
        one.context,
        one.index,
        one.since_ns,
        one.latency_ns,
        segments,
        found.rest_ns,
        "replay",
        "",
        _COST,
        unseen,
    )


def _cuts(samples: Sequence[Sample], guest: Guest) -> Iterator[tuple[Sample, Cut]]:
    """The samples cut into segments, one window after the other. The blocks of one sample are held
    at a time."""
    symbols, layout = Symbols(guest.symbols), TaskLayout(guest.types)
    inside: dict[int, list[tuple[int, int, Sample]]] = {}
    for one in samples:
        due = guest.clock.time(one.due_ns) if one.at is None else one.at
        stamp = due + one.raw_ns
        number = bisect.bisect(guest.covered, due, key=lambda window: window[0]) - 1
        if number < 0 or stamp > guest.covered[number][1]:
            raise StoreError(
                f"the replay did not record sample {one.context}:{one.index}: it is outside "
                "of the recorded windows",
                "report it, with the bundle of the run (rtgauge export)",
            )
        inside.setdefault(number, []).append((due, stamp, one))
    for number, wanted in inside.items():
        tasks = Tasks(layout)
        wanted.sort(key=lambda each: each[:2])
        readings: list[tuple[int, int]] = []
        steps = walk(
            _records(guest.window(number), tasks, readings), symbols, wanted[0][0] - NEAR_NS
        )
        held: deque[Step] = deque()
        for due, stamp, one in wanted:
            while held and held[0].time + held[0].length_ns <= due - NEAR_NS:
                held.popleft()
            while not held or held[-1].time < stamp + (LATE_NS if one.how == EVENT else 0):
                step = next(steps, None)
                if step is None:
                    break
                held.append(step)
            if one.how == EVENT:
                yield one, _event(one, due, held, readings, tasks)
            else:
                yield one, _net(one, due, stamp, held, tasks)


def _net(one: Sample, due: int, stamp: int, steps: Sequence[Step], tasks: Tasks) -> Cut:
    """The segments of a sample, without the cost of a time stamp at its end."""
    handler = one.how == DUE and one.context == "irq"
    return cut(
        *(steps, due, stamp - one.stamp_ns, tasks), handler=handler, operation=one.how == LOOP
    )


def _event(
    one: Sample, due: int, held: Iterable[Step], readings: Sequence[tuple[int, int]], tasks: Tasks
) -> Cut:
    """The segments of a sample that began with an event after its due time. Empty if its two
    readings of the clock are not among those of the replay."""
    steps = list(held)
    times = [each.time for each in steps]

    def at(time: int) -> Step | None:
        place = bisect.bisect(times, time) - 1
        return steps[place] if place >= 0 else None

    # (when, whether user space did, whether in an interrupt)
    known = [
        (time, address < KERNEL, step is not None and in_interrupt(step))
        for time, address in readings
        if (step := at(time)) and (address < KERNEL or any(map(_reads_clock, step.stack)))
    ]
    begins = np.array([time for time, _, _ in known], np.int64)
    ends = np.array([time for time, *where in known if _ends(one.context, *where)], np.int64)
    limits = (one.tolerance_ns, NEAR_NS)
    found = pair(begins, ends, at, due, one.raw_ns, limits, handler=one.context == "irq")
    if found is None:
        return Cut((), one.latency_ns)
    first, last = map(at, found)
    begin, end = found[1] - one.raw_ns, found[1] - one.stamp_ns
    handler = last is not None and in_interrupt(last)
    begun = first is not None and not in_interrupt(first) and not handler
    return cut(steps, begin, end, tasks, handler=handler, operation=begun)


def _ends(context: str, user: bool, interrupt: bool) -> bool:
    """Whether a reading of the clock may be the end of a sample in a context."""
    if context == "user":
        return user
    return context in ("irq", "softirq") or not (user or interrupt)


def _reads_clock(function: str) -> bool:
    return function.startswith("ktime_get")


def _records(
    pieces: Iterable[Piece], tasks: Tasks, readings: list[tuple[int, int]]
) -> Iterator[NDArray[np.void]]:
    """The records of a window. Adds its tasks, and each reading of the clock with its address."""
    for piece in pieces:
        tasks.add(piece.tasks)
        read = piece.records[piece.records["kind"] == ANCHOR]
        readings += zip(read["ns"].tolist(), read["address"].tolist(), strict=True)
        yield piece.records


def traced(
    run: StoredRun,
    *,
    worst: int = 1,
    above_ns: int | None = None,
    sample: tuple[str, int] | None = None,
    medians: Medians,
) -> Explained | None:
    """The causes that the trace of a run shows, chosen as by ``select``. None: it has no trace, or
    it could not be traced but can be replayed.

    Raises UsageError if the trace was not kept for any of them.
    """
    kept = [(step, found) for step in run.steps if (found := kept_of(step)).asked]
    if not kept or (all(one.added_ns is None for _, one in kept) and _can_be_replayed(run)):
        return None
    usual = medians(
        run, {(step.number, one.series) for step, found in kept for one in found.samples}
    )
    causes = [
        advised(one, usual.get((step.number, one.series), 0.0), system)
        for step, found in kept
        for system in (system_of(run, step.number),)
        for one in found.causes(
            step,
            {series: ns for (number, series), ns in usual.items() if number == step.number},
            run.document.get("catalogue"),
        )
    ]
    if not causes:
        if nothing := _without_samples(run):
            raise UsageError(*nothing)
        lost = [one for _, found in kept for one in found.lost]
        reason = lost[0].reason if lost else "no sample had a due time"
        remedy = lost[0].remedy if lost else "explain 'timer', or another measurement on a grid"
        raise UsageError(f"run {run.id} has no trace of its samples: {reason}", remedy)
    causes.sort(key=lambda one: -one.latency_ns)
    wanted = [
        one
        for place, one in enumerate(causes)
        if (sample is None or (one.context, one.index) == sample)
        and (above_ns is None or one.latency_ns > above_ns)
        and sum((each.step, each.series) == (one.step, one.series) for each in causes[:place])
        < worst
    ]
    if not wanted:
        names = ", ".join(f"{one.context}:{one.index}" for one in causes)
        raise UsageError(
            "the run kept no trace of the requested sample",
            f"name one of the traced samples: {names}",
        )
    losses = [words for _, found in kept for words in found.losses]
    return Explained(tuple(wanted), 0, 0.0, tuple(losses))


def _can_be_replayed(run: StoredRun) -> bool:
    """Whether the run has everything that its replay needs."""
    try:
        check(run)
    except UsageError:
        return False
    return bool(carried_out(run))


def keep(run: StoredRun, causes: Sequence[Cause]) -> None:
    """Store causes in the run's folder, in the place of earlier ones of the same samples.

    Raises StoreError.
    """
    try:
        earlier = causes_of(run.causes or {"causes": []})
    except (ValueError, StoreError):
        earlier = ()
    new = {_sample(one) for one in causes}
    kept = [one for one in earlier if _sample(one) not in new]
    run.save_causes(document_of(run.id, [*kept, *causes]))


def _sample(cause: Cause) -> tuple[object, ...]:
    return cause.step, cause.series, cause.index, cause.source
