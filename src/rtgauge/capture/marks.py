# SPDX-License-Identifier: Apache-2.0
"""A run made of the recorded line of ``--mark`` and the samples of the run that was marked.

The analyser saw each sample from outside. Pulse k belongs to sample k, in order of time. Where the
line is high during a sample (kind ``span``), the pulse's width is the sample as the analyser saw
it, longer by about one write to the line. Where a thread makes a pulse after each wake-up (kind
``pulse``), the rises are its wake-ups: their times minus the grid are the latencies, up to a
constant that the line does not show, and up to the deviation of the analyser's clock, which follows
from all rises together.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rtgauge import text as numbers
from rtgauge.capture.edges import Edges
from rtgauge.capture.files import open_recording
from rtgauge.capture.recording import Levels, Lines, Recording, refuse
from rtgauge.capture.run import BLOCK, NS, Imported, Wanted, about_of, digest_of, error_ns
from rtgauge.errors import UsageError
from rtgauge.store import Store, StoredRun, StoredSeries, StoredStep, new_run_id
from rtgauge.store.made import (
    FACTS,
    LATEST_S,
    Subject,
    asked_of,
    catalogue_of,
    find_import,
    import_header,
    measurement_of,
    run_document,
    step_document,
    write_run,
)
from rtgauge.stream import StreamWriter, Tally

__all__ = ["MEASUREMENT", "Marked", "import_marks"]

Int64 = NDArray[np.int64]
Floats = NDArray[np.float64]

MEASUREMENT: Final = "marks"
LOOP_NS: Final = 10_000_000
"""Longest time of samples that share a block of the stream."""
PROBE: Final = 256
"""Number of pulses by which the place of a shorter recording is found."""
STRETCH: Final = 64
"""Number of pulses that show whether they belong to the samples before or after theirs."""
CLEAR: Final = 4.0
"""How many times more the samples elsewhere must differ from the pulses, in variance. The number of
standard errors by which wake-ups and their samples must correlate."""
ENOUGH: Final = 32
"""Number of samples whose correlation with their pulses is meaningful."""
CLOCK_OFF: Final = 1e-3
"""The deviation of a clock that no analyser exceeds."""
FIGURES: Final = ("min", "median", "mean", "max")


@dataclass(frozen=True)
class Marked:
    """What was marked. ``step``: its number as reports print it, from 1; None: the only one."""

    channel: str
    run: StoredRun
    step: int | None = None
    series: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Own:
    """A series of the marked run: its samples, and when each was taken, in ns of its step."""

    stored: StoredSeries
    value: Int64
    time: Int64

    @property
    def name(self) -> str:
        return self.stored.info.name


@dataclass(eq=False)
class _Compared:
    """A series of the marked run, and what the analyser saw of it."""

    own: _Own
    sample: Int64
    pulse: Floats
    time: Int64

    @property
    def difference(self) -> Floats:
        return self.pulse - self.sample


@dataclass(frozen=True, eq=False)
class _Found:
    """``cut``: samples of the run that the recording lacks. ``clock_ppm``: by how much the
    analyser's clock is fast; None: not known."""

    compared: list[_Compared]
    pulses: int
    samples: int
    kind: str
    clock_ppm: float | None = None

    @property
    def cut(self) -> int:
        return self.samples - self.pulses


def import_marks(store: Store, path: Path, marked: Marked, wanted: Wanted) -> Imported:
    """Make a run of the recorded marks of a run. UsageError where the recording does not fit the
    run. The store is unchanged then."""
    step, kind = _step(marked)
    digest = digest_of(path)
    asked = _asked(marked, step, wanted)
    same = find_import(store, "capture", digest, asked)
    if same is not None:
        counts = (int(same[1].get(key) or 0) for key in ("events", "answered"))
        return Imported(same[0], False, *counts)
    with open_recording(path, wanted.samplerate) as recording:
        channel = recording.choose(marked.channel, "mark")
        lines = recording.lines(channel, channel, Levels(wanted.threshold, wanted.hysteresis))
        if lines.samplerate is None:
            refuse(
                "it does not contain the instrument's sample rate",
                "add --samplerate, such as 24MHz",
            )
        found = _find(lines, step, kind, marked.series)
        run = new_run_id()
        when = min(max(os.stat(path).st_mtime, 0.0), LATEST_S)
        about = about_of(path, recording, lines, digest, asked, mark=channel, of=marked.run.id)
        counted = {"events": str(found.pulses), "answered": str(found.samples)}
        document = _document(run, marked, step, wanted, {**about, **counted}, lines, when)
        write_run(store, document, when, [_records(document, found, lines, recording, when)])
    return Imported(run, True, found.pulses, found.samples)


def _asked(marked: Marked, step: StoredStep, wanted: Wanted) -> str:
    return asked_of(
        "mark", marked.channel, marked.run.id, step.number, ",".join(marked.series),
        wanted.threshold, wanted.hysteresis, wanted.samplerate,
    )  # fmt: skip


def _step(marked: Marked) -> tuple[StoredStep, str]:
    """The step that was marked, and the kind of its marks."""
    run = marked.run
    there = [
        step for step in run.steps
        if (step.document.get("run_options") or {}).get("mark") and step.header is not None
    ]  # fmt: skip
    if not there:
        raise UsageError(
            f"run {run.id[:13]} has no step that was measured with --mark",
            "use --of to name the run whose line was recorded",
        )
    shown = ", ".join(str(step.number + 1) for step in there)
    chosen = [step for step in there if marked.step in (None, step.number + 1)]
    if len(chosen) != 1:
        raise UsageError(
            f"run {run.id[:13]} has several steps with --mark"
            if chosen
            else f"step {marked.step} of run {run.id[:13]} was not measured with --mark",
            f"name one with --step: {shown}",
        )
    step = chosen[0]
    listed = (run.document.get("catalogue") or {}).get("measurements") or []
    name = step.document["measurement"]
    mark = next((one.get("mark") or {} for one in listed if one.get("name") == name), {})
    gridded = any(one.info.interval_ns for one in step.series)
    return step, mark.get("kind") or ("pulse" if gridded else "span")


# --- pulses and samples --------------------------------------------------------------------------


def _pulses(lines: Lines) -> tuple[Floats, Floats]:
    """Rise and width of each pulse that the recording has as a whole, in ns."""
    edges: Edges = lines.event
    if len(edges) and not edges.level[0]:
        edges = Edges(edges.at[1:], edges.level[1:])
    whole = len(edges) // 2 * 2
    at = edges.at[:whole] * float(NS / lines.rate)
    if not whole:
        raise UsageError(
            "the capture has no pulse: its line never rises and falls",
            "check the name of the channel and --threshold",
        )
    return at[::2], at[1::2] - at[::2]


def _own(stored: StoredSeries) -> _Own:
    """A series with the times at which its samples were taken, as far as they are known: without a
    grid that of its test loop."""
    chunks = list(stored.chunks())
    empty = np.empty(0, np.int64)
    index = np.concatenate([empty, *(chunk.index for chunk in chunks)])
    value = np.concatenate([empty, *(chunk.value.astype(np.int64) for chunk in chunks)])
    time = np.concatenate([empty, *(chunk.due_ns for chunk in chunks)])
    value *= stored.info.scale
    if stored.info.interval_ns:
        time += value
        companion = stored.companion
        if companion is not None:
            pieces = list(companion.chunks())
            places = np.concatenate([empty, *(one.index for one in pieces)])
            offsets = np.concatenate([empty, *(one.value.astype(np.int64) for one in pieces)])
            _, mine, theirs = np.intersect1d(index, places, return_indices=True)
            time[mine] += offsets[theirs]
    return _Own(stored, value, time)


def _find(lines: Lines, step: StoredStep, kind: str, names: Sequence[str]) -> _Found:
    rise, width = _pulses(lines)
    there = [
        one for one in step.series
        if one.info.companion is None and one.info.unit == "ns" and one.info.thread >= 0
    ]  # fmt: skip
    if kind == "pulse":
        return _find_rises(rise, there[:1], lines)
    return _find_widths(width, _choose(there, names, len(rise)), lines)


def _choose(there: Sequence[StoredSeries], names: Sequence[str], pulses: int) -> list[_Own]:
    """The series that were marked: those named, or those that together have as many samples."""
    counts: dict[str, int] = {}
    for one in there:
        counts[one.info.name] = counts.get(one.info.name, 0) + one.count
    listed = ", ".join(f"{name} ({numbers.count(count)})" for name, count in counts.items())
    if unknown := [name for name in names if name not in counts]:
        raise UsageError(f"the step has no series '{unknown[0]}'", f"it has: {listed}")
    fitting = [
        some
        for size in range(1, min(len(counts), 8) + 1)
        for some in combinations(counts, size)
        if sum(counts[name] for name in some) == pulses
    ]
    if not names and len(counts) == 1:
        names = tuple(counts)
    if not names and len(fitting) != 1:
        raise UsageError(
            f"the recording has {numbers.plural(pulses, 'pulse')}, and "
            + ("several combinations" if fitting else "no combination")
            + " of the step's series could have as many samples",
            f"use --series to name the series that were marked. The step has: {listed}",
        )
    chosen = names or fitting[0]
    found = [_own(one) for one in there if one.info.name in chosen and one.count]
    if not found:
        raise _too_many(pulses, 0)
    return found


def _orders(own: Sequence[_Own]) -> Iterator[NDArray[np.intp]]:
    """Orders in time of all samples together. Within a test loop, which has one time, series
    alternate sample by sample, or follow one another."""
    time = np.concatenate([one.time for one in own])
    series = np.concatenate([np.full(len(one.time), k) for k, one in enumerate(own)])
    place = np.concatenate([_place(one.time) for one in own])
    yield np.lexsort((series, place, time))
    if len(own) > 1:
        yield np.lexsort((place, series, time))


def _place(time: Int64) -> Int64:
    """The number of each sample within its test loop."""
    count = np.arange(len(time))
    fresh = np.concatenate(([True], time[1:] != time[:-1])) if len(time) else np.empty(0, np.bool_)
    return count - np.maximum.accumulate(np.where(fresh, count, 0))


def _too_many(pulses: int, samples: int) -> UsageError:
    return UsageError(
        f"the recording has {numbers.plural(pulses, 'pulse')} for "
        f"{numbers.plural(samples, 'sample')}",
        "record this run alone, and use --series to name all series that were marked. Some "
        "measurements also mark samples that they drop",
    )


def _shift(pulse: Floats, sample: Int64, error: float, more: int = 0) -> tuple[int, float]:
    """At which sample the recording begins, and the variance of what then differs. UsageError where
    the recording is too long, or could begin at several. ``more``: pulses and samples that there
    are beyond these numbers, one if these are differences."""
    many, all_ = len(pulse), len(sample)
    if many > all_:
        raise _too_many(many, all_)
    if many == all_:
        return 0, float(np.var(pulse - sample))
    probe = pulse[:PROBE]
    size = len(probe)
    values = sample.astype(np.float64) - float(np.mean(sample))
    centred = probe - float(np.mean(probe))
    total = np.concatenate(([0.0], np.cumsum(values)))
    square = np.concatenate(([0.0], np.cumsum(values**2)))
    places = all_ - many + 1
    mean = (total[size:] - total[:-size])[:places] / size
    spread = (square[size:] - square[:-size])[:places] / size - mean**2
    both = np.correlate(values[: places + size - 1], centred, "valid") / size
    left = np.maximum(float(np.var(probe)) + spread - 2 * both, error**2 / 6)
    best = int(left.argmin())
    others = np.delete(left, best)
    if size < 8 or float(others.min()) < CLEAR * left[best]:
        raise UsageError(
            f"the recording has {numbers.plural(many + more, 'pulse')} for "
            f"{numbers.plural(all_ + more, 'sample')}, and could begin at several of them",
            "record from before the run until after its end",
        )
    for other in (best - 1, best + 1):
        if 0 <= other <= all_ - many:
            here, there = (_spreads(pulse - sample[at : at + many]) for at in (best, other))
            if (here > CLEAR * np.maximum(there, error**2 / 6)).any():
                raise _one_less(many + more, all_ + more)
    return best, float(left[best])


def _spreads(difference: Floats) -> Floats:
    """The variances of stretches."""
    size = min(len(difference), STRETCH)
    whole = difference[: len(difference) // size * size].reshape(-1, size)
    return np.append(np.var(whole, axis=1), np.var(difference[-size:]))


def _steps(apart: Floats, most: float) -> bool:
    """Whether the differences change for good. A single late pulse does not count."""
    for k in np.flatnonzero(np.abs(np.diff(apart)) > most).tolist():
        before, after = apart[max(k - 4, 0) : k + 1], apart[k + 1 : k + 6]
        step = abs(float(np.median(after) - np.median(before)))
        # of few pulses, one that is late counts, but seldom by whole intervals
        few = min(len(before), len(after)) < 3
        whole = step / (2 * most)
        if step > most and (not few or abs(whole - round(whole)) < 0.1):
            return True
    return False


def _one_less(pulses: int, samples: int) -> UsageError:
    return UsageError(
        f"the recording has {numbers.plural(pulses, 'pulse')} for "
        f"{numbers.plural(samples, 'sample')}: a pulse in its middle is missing, or one there has "
        "no sample",
        "record a run without lost samples, at a higher sample rate and without a glitch filter",
    )


def _find_widths(width: Floats, own: Sequence[_Own], lines: Lines) -> _Found:
    value = np.concatenate([one.value for one in own])
    time = np.concatenate([one.time for one in own])
    series = np.concatenate([np.full(len(one.time), k) for k, one in enumerate(own)])
    error = error_ns(lines)
    tried: list[tuple[int, float, NDArray[np.intp]]] = []
    refused: UsageError | None = None
    for order in _orders(own):
        try:
            tried.append((*_shift(width, value[order], error), order))
        except UsageError as reason:  # at most one order is right
            refused = refused or reason
    if refused and not tried:
        raise refused
    start, _, order = min(tried, key=lambda one: one[1])
    kept = order[start : start + len(width)]
    compared = []
    for k, one in enumerate(own):
        mine = series[kept] == k
        if mine.any():
            chosen = kept[mine]
            compared.append(_Compared(one, value[chosen], width[mine], time[chosen]))
    return _Found(compared, len(width), len(value), "span")


def _find_rises(rise: Floats, there: Sequence[StoredSeries], lines: Lines) -> _Found:
    if not there or not there[0].info.interval_ns:
        raise UsageError(
            "the samples of this step have no times to compare with those of the pulses",
            "import the marks of 'timer', or of a measurement that marks spans",
        )
    own = _own(there[0])
    order = np.argsort(own.time, kind="stable")
    time, value = own.time[order], own.value[order]
    if len(rise) > len(time):  # the differences of none are as many as those of one
        raise _too_many(len(rise), len(time))
    if len(time) == 1:
        raise UsageError(
            "a single pulse is not enough to compare the clock of the recording with the "
            "clock of the run",
            "measure more samples (--samples)",
        )
    if len(rise) < 2:
        raise UsageError(
            f"the recording has 1 pulse for {numbers.plural(len(time), 'sample')}, and could begin "
            "at any of them",
            "record from before the run until after its end",
        )
    start, _ = _shift(np.diff(rise), np.diff(time), error_ns(lines), more=1)
    samples = len(time)
    time, value = time[start : start + len(rise)], value[start : start + len(rise)]
    lasted = float(time[-1] - time[0])
    stepped = _steps(rise - time, own.stored.info.interval_ns / 2)
    apart = float(np.median(np.diff(rise)) / np.median(np.diff(time)))
    if abs(float(rise[-1] - rise[0]) - lasted) > max(CLOCK_OFF, 2 / len(rise)) * lasted and (
        not stepped or abs(apart - 1) > 0.1
    ):
        raise UsageError(
            "the pulses of the recording and the samples of the run come at different rates",
            "give the true rate with --samplerate, or name the run with --of",
        )
    if stepped and len(rise) < samples:
        raise _one_less(len(rise), samples)
    slope, offset = 1.0, float(np.median(rise - time))
    middle = float(time.mean())
    if len(rise) > 2:
        slope, _ = np.polyfit(time - middle, rise - time, 1)
        slope += 1.0
        offset = float(np.median(rise - middle - slope * (time - middle)))
    difference = rise - middle - offset - slope * (time - middle)
    pulse: Floats = value.astype(np.float64) + difference
    found = [_Compared(own, value, pulse, time)]
    return _Found(found, len(rise), own.stored.count, "pulse", (slope - 1) * 1e6)


# --- the stream ----------------------------------------------------------------------------------


def _records(
    document: Mapping[str, Any], found: _Found, lines: Lines, recording: Recording, when: float
) -> Iterator[bytes]:
    writer = StreamWriter()
    step = document["steps"][0]
    yield import_header(
        writer, document["id"], 0, MEASUREMENT, step["parameters"], when, step["load"]
    )
    yield writer.environment(FACTS)
    several = len({one.own.name for one in found.compared}) > 1
    tallies: list[Tally] = []
    for compared in found.compared:
        info = compared.own.stored.info
        labels = {**info.labels, **({"of": info.name} if several else {})}
        for name in ("sample", "pulse", "difference"):
            yield writer.series(
                len(tallies), name, context=info.context, cpu=info.cpu, thread=info.thread,
                policy=info.policy, priority=info.priority, labels=labels,
            )  # fmt: skip
            tallies.append(Tally(len(tallies)))
    for text in _messages(found, lines, recording):
        yield writer.event("message", text=text)
    for number, compared in enumerate(found.compared):
        for place, values in enumerate((compared.sample, compared.pulse, compared.difference)):
            whole = np.rint(values).astype(np.int64)
            yield from _samples(writer, tallies[3 * number + place], compared.time, whole)
    for tally in tallies:
        yield writer.histogram(tally)
    yield _accuracy(writer, found, lines, several)
    yield writer.verdict("every-sample-marked", *_verdict(found, lines))
    yield writer.trailer(tallies, duration_ns=round(lines.length * NS / lines.rate))


def _samples(writer: StreamWriter, tally: Tally, time: Int64, value: Int64) -> Iterator[bytes]:
    """Blocks without a grid: the samples of a few ms have one time."""
    start = 0
    while start < len(time):
        end = int(np.searchsorted(time[start:], time[start] + LOOP_NS, side="right")) + start
        end = min(end, start + BLOCK)
        part = value[start:end]
        if not start:
            tally.first_due_ns = int(time[0])
        tally.last_due_ns = int(time[start])
        yield writer.samples(tally.series, start, int(time[start]), part)
        for k in np.flatnonzero(np.abs(part) > np.iinfo(np.int32).max).tolist():
            yield writer.event("wide", int(time[start]), series=tally.series, index=start + k,
                               value=int(part[k]))  # fmt: skip
        start = end
    tally.add(value)


def _figures(values: NDArray[Any]) -> dict[str, float]:
    return {
        "min": float(values.min()), "median": float(np.median(values)),
        "mean": float(values.mean()), "max": float(values.max()),
    }  # fmt: skip


def _errors(count: int, lines: Lines) -> dict[str, float]:
    """By how much a figure of the pulses can be wrong because the line was sampled. A time between
    two edges is wrong by a difference of two uniform errors, whose standard deviation is the
    longest error by the root of 6: 95 % of means are within twice that by the root of the count.
    The errors of an analogue line depend on its threshold, so they may not average out."""
    longest = error_ns(lines)
    errors = dict.fromkeys(FIGURES, longest)
    if lines.threshold is None:
        errors["mean"] = min(longest, 2 * longest / (6 * count) ** 0.5)
    return errors


def _accuracy(writer: StreamWriter, found: _Found, lines: Lines, several: bool) -> bytes:
    rows: list[list[int | str]] = []
    for compared in found.compared:
        info = compared.own.stored.info
        words = [info.name] if several else []
        words += [value for _, value in sorted(info.labels.items())]
        kinds = [_figures(one) for one in (compared.sample, compared.pulse, compared.difference)]
        errors = _errors(len(compared.sample), lines)
        for figure in FIGURES:
            row: list[int | str] = [" ".join(words) or info.name, figure]
            row += [round(kind[figure]) for kind in kinds]
            rows.append([*row, max(1, -int(-errors[figure] // 1))])
    columns = {
        "of": "", "figure": "", "sample": "ns", "pulse": "ns", "difference": "ns", "error": "ns",
    }  # fmt: skip
    return writer.table("accuracy", columns, *rows)


def _messages(found: _Found, lines: Lines, recording: Recording) -> Iterator[str]:
    error, rate = numbers.time(error_ns(lines)), numbers.frequency(float(lines.samplerate or 0))
    means = ". Means of many pulses are more accurate: see the table 'accuracy'"
    yield (
        f"Sampled at {rate}: each pulse is accurate to ±{error}"
        f"{means if lines.threshold is None else ''}"
    )
    if found.clock_ppm is not None and found.pulses > 2:
        way = "fast" if found.clock_ppm >= 0 else "slow"
        yield (
            f"The analyser's clock is {abs(found.clock_ppm):.2f} ppm {way} against the target's. "
            "This deviation was removed. The latencies of the pulses are known only up to a "
            "constant, which was chosen so that the median difference from the samples is 0"
        )
    else:
        yield ("The deviation of the analyser's clock (often 50 ppm: 0.05 ns in 1 µs) is not known")
    if found.kind == "span":
        yield "A pulse lasts as long as its sample, plus about one write to the line"
    if recording.note:
        yield f"The capture was {recording.note}"
    if found.cut:
        lacking = numbers.plural(found.cut, "sample")
        these = "This sample is" if found.cut == 1 else "These samples are"
        yield f"The recording has no pulse for {lacking}. {these} left out"


def _verdict(found: _Found, lines: Lines) -> tuple[str, str, str]:
    pulses, samples = numbers.count(found.pulses), numbers.plural(found.samples, "sample")
    both = f"{numbers.plural(found.pulses, 'pulse')} for {samples}"
    if found.kind == "span":
        short = sum(
            int(np.count_nonzero(compared.difference < -error_ns(lines) - 1))
            for compared in found.compared
        )
        if short:
            how = "is shorter than its sample" if short == 1 else "are shorter than their samples"
            return (
                "fail",
                f"{numbers.count(short)} of {pulses} pulses {how}",
                "use --series to name the series that were marked, and check the sample rate",
            )
    elif not all(_follow(compared, error_ns(lines)) for compared in found.compared):
        return (
            "inconclusive",
            f"{both}, but the pulses do not follow the samples",
            "use --of to name the run whose line was recorded",
        )
    if found.cut:
        return (
            "inconclusive",
            both,
            "record from before the run until after its end",
        )
    return "pass", both, ""


def _follow(compared: _Compared, error: float) -> bool:
    """Whether longer latencies of the pulses are those of the samples, as far as can be seen."""
    many = len(compared.sample)
    # an interrupt between stamp and mark makes a pulse late, but not its sample
    sample, pulse = (
        np.clip(one, *np.percentile(one, (5, 95))) for one in (compared.sample, compared.pulse)
    )
    if many < ENOUGH or min(float(np.std(sample)), float(np.std(pulse))) <= error:
        return True
    return bool(float(np.corrcoef(sample, pulse)[0, 1]) * many**0.5 > CLEAR)


# --- the run -------------------------------------------------------------------------------------


def _document(
    run: str,
    marked: Marked,
    step: StoredStep,
    wanted: Wanted,
    about: Mapping[str, str],
    lines: Lines,
    when: float,
) -> dict[str, Any]:
    """``run.json``: the environment is that of the run that was marked."""
    source = marked.run.document
    environment = source.get("environment") or {}
    measurement = step.document["measurement"]
    parameters = {
        "of": measurement,
        "channel": about["mark"],
        "sampling-error": about["sampling_error"].lstrip("±").replace(" ", ""),
    }
    duration_s = round(float(lines.length / lines.rate), 3)
    load = str(step.document.get("load") or "")
    made = run_document(
        run,
        target=f"capture:{wanted.name or source.get('target') or 'marks'}",
        tested=Subject(wanted.label),
        about={"capture": about},
        catalogue=_catalogue(source, measurement),
        steps=[step_document(0, MEASUREMENT, parameters, load, duration_s)],
        when=when,
    )
    made["environment"] = {**made["environment"], **environment, "capture": dict(about)}
    return made


def _catalogue(source: Mapping[str, Any], measurement: str) -> dict[str, Any]:
    """The description of what such a run has, in the chapter of what was marked."""
    listed = (source.get("catalogue") or {}).get("measurements") or []
    entry: Mapping[str, Any] = next((one for one in listed if one.get("name") == measurement), {})
    return catalogue_of(
        measurement_of(
            MEASUREMENT,
            f"{measurement} with the marks of an analyser",
            entry.get("chapter") or "Response to an external event",
            contexts=["user"],
            options=[
                {"name": "of", "type": "text", "default": "",
                 "help": "the measurement that was marked"},
                {"name": "channel", "type": "text", "default": "",
                 "help": "the capture's channel with the marks"},
            ],
            series=[
                {"name": "sample", "unit": "ns", "meaning": "time that the run measured",
                 "from": "the target's time stamp", "to": "the target's time stamp",
                 "stages": []},
                {"name": "pulse", "unit": "ns", "meaning": "time that the analyser measured",
                 "from": "the line's edge", "to": "the line's edge", "stages": []},
                {"name": "difference", "unit": "ns", "meaning": "pulse minus sample",
                 "from": "sample", "to": "pulse", "stages": []},
            ],
            tables=[
                {"name": "accuracy", "meaning": "figures of the samples and of their pulses. "
                 "Error: the largest error that sampling the line can cause in a figure of the "
                 "pulses (in the mean: for 95 % of recordings)"},
            ],
            verdicts=[
                {"rule": "every-sample-marked", "meaning": "the recording has one pulse for "
                 "each sample, and none is shorter than its sample"},
            ],
        )
    )  # fmt: skip
