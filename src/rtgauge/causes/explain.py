# SPDX-License-Identifier: Apache-2.0
"""From the samples of a stored run to their causes, by its replay."""

from __future__ import annotations

import bisect
import shlex
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rtgauge.causes.blame import blame, microseconds
from rtgauge.causes.cut import Cut, Step, Tasks, cut, walk
from rtgauge.causes.model import Cause, Cost, causes_of, document_of
from rtgauge.causes.remedies import System, remedies
from rtgauge.causes.replay import Guest, Sample, arrays, check, due_of, orderly, replayed
from rtgauge.causes.symbols import Symbols, TaskLayout
from rtgauge.causes.tracefs import kept_of
from rtgauge.errors import StoreError, UsageError
from rtgauge.lab.recorder import Piece
from rtgauge.store import StoredRun, StoredSeries, StoredStep

__all__ = ["SAMPLES_MAX", "Explained", "explain", "keep", "select", "traced"]

#: Samples that one replay explains.
SAMPLES_MAX: Final = 400
_SHIFTED: Final = (
    "The replay's clock is known only to some µs, because no sample in user context was taken "
    "about that time. All segments may be shifted by as much. Add user context to the run"
)
#: Options with a value that a remedy does not repeat.
_NOT_REPEATED: Final = ("--disturb-module", "--explain-above")
_COST: Final = Cost(0, "none: the run was measured without a recorder, and replayed")


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
        )


def _explainable(run: StoredRun) -> Iterator[_Series]:
    """The series of samples that were due at a time of their own and have a stamp."""
    for step in run.steps:
        for series in step.series if step.header is not None else ():
            info = series.info
            if info.companion is None and info.interval_ns and info.unit == "ns":
                yield _Series(step, series)


def select(
    run: StoredRun,
    *,
    worst: int = 1,
    above_ns: int | None = None,
    sample: tuple[str, int] | None = None,
) -> list[Sample]:
    """The samples to explain: the ``worst`` of each context, those above a time, or one by its
    context and index. The longest comes first.

    Raises UsageError if the run has no such sample.
    """
    check(run)
    found: list[Sample] = []
    candidates = list(_explainable(run))
    if not candidates:
        raise UsageError(
            f"run {run.id} has no series of latencies with due times, so nothing can be explained",
            "explain a run of 'timer', or of another measurement with an interval",
        )
    if all(not each.series.count for each in candidates):
        raise UsageError(
            f"run {run.id} kept only histograms, which do not have the times of samples",
            "measure without --histogram-only, and explain that run",
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
        found += [one.sample(rows, due, int(place)) for place in places]
    if not found:
        raise UsageError(*_nothing(candidates, above_ns, sample))
    found.sort(key=lambda each: -each.latency_ns)
    return found[:SAMPLES_MAX]


def _nothing(
    candidates: Sequence[_Series], above_ns: int | None, sample: tuple[str, int] | None
) -> tuple[str, str]:
    largest = max(int(arrays(each.series)[:, 2].max(initial=0)) for each in candidates)
    if above_ns is not None:
        return (
            f"no sample of the run is above {microseconds(above_ns)}",
            f"the largest is {microseconds(largest)}",
        )
    contexts = ", ".join(dict.fromkeys(each.context for each in candidates))
    context, index = sample or ("", 0)
    last = max(int(arrays(each.series)[:, 0].max(initial=0)) for each in candidates)
    return (
        f"the run has no sample {context}:{index}",
        f"contexts of this run: {contexts}. Indices go from 0 to {last}",
    )


def explain(run: StoredRun, samples: Sequence[Sample], say: Callable[[str], None]) -> Explained:
    """The causes of these samples. Raises TargetError, StoreError, UsageError."""
    medians = _medians(run)
    with replayed(run, samples, say) as guest:
        causes = {
            one: _blamed(
                _cause(one, found, guest.knows(one.due_ns)),
                medians[one.step, one.series],
                _system(run, one.step),
            )
            for one, found in _cuts(samples, guest)
        }
    return Explained(tuple(causes[one] for one in samples), guest.samples, guest.seconds)


def _cause(one: Sample, found: Cut, known: bool) -> Cause:
    """The cause of a sample. ``known``: the guest's clock is exact then."""
    segments = found.segments
    if not known:
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
        "" if known else _SHIFTED,
    )


def _cuts(samples: Sequence[Sample], guest: Guest) -> Iterator[tuple[Sample, Cut]]:
    """The samples cut into segments, one window after the other. The blocks of one sample are held
    at a time."""
    symbols, layout = Symbols(guest.symbols), TaskLayout(guest.types)
    inside: dict[int, list[tuple[int, int, Sample]]] = {}
    for one in sorted(samples, key=lambda one: one.due_ns):
        due = guest.clock.time(one.due_ns)
        stamp = due + one.latency_ns
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
        steps = walk(_records(guest.window(number), tasks), symbols, wanted[0][0])
        held: deque[Step] = deque()
        for due, stamp, one in wanted:
            while held and held[0].time + held[0].length_ns <= due:
                held.popleft()
            while not held or held[-1].time < stamp:
                step = next(steps, None)
                if step is None:
                    break
                held.append(step)
            yield one, cut(held, due, stamp, tasks, handler=one.context == "irq")


def _records(pieces: Iterable[Piece], tasks: Tasks) -> Iterator[NDArray[np.void]]:
    for piece in pieces:
        tasks.add(piece.tasks)
        yield piece.records


def _medians(run: StoredRun) -> Mapping[tuple[int, int], float]:
    return {
        (one.step.number, one.series.info.series): float(np.median(arrays(one.series)[:, 2]))
        for one in _explainable(run)
        if one.series.count
    }


def _system(run: StoredRun, step: int) -> System:
    """The system, and the step as words of the command line."""
    document = run.document
    entry = next(each for each in document["steps"] if each["step"] == step)
    orders = document.get("orders")
    words: Sequence[str] = next(
        (
            each[3 : each.index("--run")]
            for each in (orders if orderly(orders) else ())
            if "--step" in each and each[each.index("--step") + 1] == str(step)
        ),
        (str(entry.get("measurement")), *_words(entry)),
    )
    kept = [
        word
        for place, word in enumerate(words)
        if word != "--explain"
        and {word, words[place - 1] if place else ""}.isdisjoint(_NOT_REPEATED)
    ]
    environment = document.get("environment")
    return System(
        str(environment.get("realtime", "")) if isinstance(environment, dict) else "",
        shlex.quote(str(document["target"])),
        tuple(shlex.quote(word) for word in kept),
        str(entry.get("disturb") or ""),
    )


def _words(entry: Mapping[str, Any]) -> Iterator[str]:
    """The options of a step."""
    groups = (entry.get("parameters"), entry.get("run_options"))
    pairs = [pair for group in groups if isinstance(group, dict) for pair in group.items()]
    for name, value in dict(pairs).items():
        if value not in (None, False, ""):
            yield from (f"--{name}",) if value is True else (f"--{name}", str(value))


def traced(
    run: StoredRun,
    *,
    worst: int = 1,
    above_ns: int | None = None,
    sample: tuple[str, int] | None = None,
) -> Explained | None:
    """The causes that the trace of a run shows, chosen as by ``select``; None: it has no trace.

    Raises UsageError if the trace was not kept for any of them.
    """
    kept = [(step, found) for step in run.steps if (found := kept_of(step)).asked]
    if not kept:
        return None
    medians = _medians(run)
    causes = [
        _blamed(one, medians.get((step.number, one.series), 0.0), _system(run, step.number))
        for step, found in kept
        for one in found.causes(step, {})
    ]
    if not causes:
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
        and [each.context for each in causes[:place]].count(one.context) < worst
    ]
    if not wanted:
        names = ", ".join(f"{one.context}:{one.index}" for one in causes)
        raise UsageError(
            "the run kept no trace of such a sample", f"it kept that of {names} (CONTEXT:INDEX)"
        )
    losses = [words for _, found in kept for words in found.losses]
    return Explained(tuple(wanted), 0, 0.0, tuple(losses))


def _blamed(cause: Cause, median: float, system: System) -> Cause:
    """The cause with its blame and remedies."""
    text, main = blame(cause.segments, cause.latency_ns, median)
    return replace(cause, blame=text, remedies=remedies(main, system) if main else ())


def keep(run: StoredRun, causes: Sequence[Cause]) -> None:
    """Store causes next to the run, in the place of earlier ones of the same samples.

    Raises StoreError.
    """
    try:
        earlier = causes_of(run.causes or {"causes": []})
    except ValueError:
        earlier = ()
    new = {_sample(one) for one in causes}
    kept = [one for one in earlier if _sample(one) not in new]
    run.save_causes(document_of(run.id, [*kept, *causes]))


def _sample(cause: Cause) -> tuple[object, ...]:
    return cause.step, cause.series, cause.index, cause.source
