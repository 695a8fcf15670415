# SPDX-License-Identifier: Apache-2.0
"""A run made of a capture: the measurement ``log-host``, as if a log host had taken the stamps.

The run has one step; its stream is written here record by record as docs/formats/stream.md has it,
with event k as grid point k: an event that was unanswered when the next one came is a missed
period, so that count + missed = events. From there on nothing knows that no agent wrote it.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rtgauge import text as numbers
from rtgauge.capture.edges import Edges
from rtgauge.capture.files import open_recording
from rtgauge.capture.pairing import LONGEST, Answers, Recorded, pair
from rtgauge.capture.recording import TIME_LIMIT, Levels, Lines, Recording, opened
from rtgauge.capture.waveforms import waveforms
from rtgauge.errors import UsageError
from rtgauge.store import Store, new_run_id
from rtgauge.store.made import (
    FACTS,
    LATEST_S,
    Subject,
    asked_of,
    catalogue_of,
    find_import,
    import_header,
    importing,
    measurement_of,
    run_document,
    step_document,
    write_run,
)
from rtgauge.stream import StreamWriter, Tally
from rtgauge.units import format_duration

__all__ = [
    "ANSWER_EDGES",
    "BLOCK",
    "CATALOGUE",
    "EDGES",
    "NS",
    "Imported",
    "Wanted",
    "about_of",
    "digest_of",
    "error_ns",
    "import_capture",
]

Int64 = NDArray[np.int64]

NS: Final = 10**9
BLOCK: Final = 4096
"""Samples in a record: with as many gaps it still fits."""
INT32: Final = 2**31 - 1
TOLD: Final = 5
"""Number of unanswered events that the verdict lists."""

EDGES: Final = ("both", "rising", "falling")
ANSWER_EDGES: Final = ("same", "inverted", "any", "rising", "falling")

_DURATION: Final = {"type": "duration", "min": "0", "max": "30d"}

CATALOGUE: Final = catalogue_of(
    measurement_of(
        "log-host",
        "response to an external event, seen from outside",
        "Response to an external event",
        contexts=["user", "kernel", "workqueue", "threaded", "softirq", "irq"],
        options=[
            {"name": "event", "type": "text", "default": "",
             "help": "the capture's channel with the events"},
            {"name": "answer", "type": "text", "default": "",
             "help": "the capture's channel with the answers"},
            {"name": "edge", "type": "enum", "default": "both", "values": list(EDGES),
             "help": "the edges of the event's line that are events"},
            {"name": "answer-edge", "type": "enum", "default": "same",
             "values": list(ANSWER_EDGES), "help": "the edge that answers"},
            {"name": "interval", **_DURATION, "default": "30ms",
             "help": "from one event to the next"},
        ],
        series=[
            {"name": "response", "unit": "ns", "meaning": "event to answer, seen from outside",
             "from": "the event's edge", "to": "the answer's edge",
             "stages": ["interrupt", "handler", "wake-up", "answer"]},
            {"name": "offset", "unit": "ns", "meaning": "event from its place on the time grid",
             "from": "grid point", "to": "the event's edge", "stages": ["event"]},
        ],
        tables=[
            {"name": "answers", "meaning": "what became of the events. Late: answered after "
             "the next one came. Double: edges that answer nothing. Ambiguous: answers that "
             "may belong to other events"},
        ],
        verdicts=[
            {"rule": "every-event-answered", "meaning": "each event was answered before the "
             "next one came"},
        ],
    )
)  # fmt: skip


@dataclass(frozen=True)
class Wanted:
    """What a capture is asked. ``interval_ns``: from one event to the next; None: as recorded.
    ``longest_ns``: the longest delay possible, given by the user.

    ``answer_edge`` ``same``: the answer's line follows the event's; ``any``: each of its edges
    answers. ``context``: what answered, where that is known. The user gives what a capture does
    not contain: ``board``, ``kernel``, ``realtime`` and ``load`` of the system under test.
    """

    event: str | None = None
    answer: str | None = None
    edge: str = "both"
    answer_edge: str | None = None
    threshold: float | None = None
    hysteresis: float | None = None
    samplerate: Fraction | None = None
    interval_ns: int | None = None
    longest_ns: int | None = None
    context: str = ""
    label: str = ""
    name: str = ""
    board: str = ""
    kernel: str = ""
    realtime: str = "unknown"
    load: str = "unknown"


@dataclass(frozen=True)
class Imported:
    """What an import came to. ``new`` False: the store had the same capture, read alike."""

    run: str
    new: bool
    events: int
    answered: int
    ambiguous: int = 0


@dataclass(frozen=True, eq=False)
class Found:
    """Events and their answers, in ns; ``offset``: of each event from its place on the grid."""

    events: Edges
    answers: Answers
    expected: NDArray[np.bool_] | None
    delay: NDArray[np.float64]
    interval_ns: int
    offset: Int64
    cut: int
    """Number of last events left out, because the capture may end before their answers."""
    scale: float
    """Length of a sample in ns."""
    within: str = f"{LONGEST} intervals"
    """Time in which the unanswered events had no answer."""


def import_capture(store: Store, path: Path, wanted: Wanted) -> Imported:
    """Make a run of a capture. UsageError for another file, or if the capture lacks what is asked.
    The store is unchanged then."""
    digest = digest_of(path)
    asked = _asked(wanted)
    same = _is_there(store, digest, asked)
    if same is not None:
        return same
    with importing(store, digest):  # another process may have made it in the meantime
        return _is_there(store, digest, asked) or _made(store, path, wanted, digest, asked)


def _made(store: Store, path: Path, wanted: Wanted, digest: str, asked: str) -> Imported:
    """A new run of a capture."""
    with open_recording(path, wanted.samplerate) as recording:
        event = recording.choose(wanted.event, "event")
        answer = recording.choose(wanted.answer, "answer")
        if answer == event:
            raise UsageError(
                f"event and answer are the same channel, '{event}'",
                "name the channel of the answer with --answer",
            )
        lines = recording.lines(event, answer, Levels(wanted.threshold, wanted.hysteresis))
        found = find(lines, wanted)
        run = new_run_id()
        when = min(max(os.stat(path).st_mtime, 0.0), LATEST_S)
        about = about_of(path, recording, lines, digest, asked, event=event, answer=answer)
        about |= _thresholds(lines)
        parameters = _parameters(wanted, found, lines, (event, answer))
        document = _document(run, path, wanted, about, parameters, found, lines, when)
        records = _records(run, parameters, found, lines, recording, wanted, when)
        write_run(store, document, when, [records])
    counts = (len(found.events), found.answers.answered, found.answers.ambiguous)
    return Imported(run, True, *counts)


def digest_of(path: Path) -> str:
    """SHA-256 of the file."""
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _asked(wanted: Wanted) -> str:
    """Parameters of reading the capture, as text that two imports share."""
    return asked_of(
        wanted.event, wanted.answer, wanted.edge, wanted.answer_edge, wanted.threshold,
        wanted.hysteresis, wanted.samplerate, wanted.interval_ns, wanted.context,
        wanted.longest_ns,
    )  # fmt: skip


def _is_there(store: Store, digest: str, asked: str) -> Imported | None:
    found = find_import(store, "capture", digest, asked)
    if found is None:
        return None
    counts = (int(found[1].get(key) or 0) for key in ("events", "answered", "ambiguous"))
    return Imported(found[0], False, *counts)


# --- events and answers --------------------------------------------------------------------------


def find(lines: Lines, wanted: Wanted) -> Found:
    """The events of the lines and their answers. UsageError where there are none."""
    events, answers = lines.event, lines.answer
    if wanted.edge != "both":
        events = events.only(wanted.edge == "rising")
    kind = wanted.answer_edge or ("same" if wanted.edge == "both" else "any")
    if kind in ("rising", "falling"):
        answers = answers.only(kind == "rising")
    if not len(events):
        raise UsageError(
            "the capture has no event: no edge of its channel is of the chosen kind",
            "check the names of the channels, --edge and --threshold",
        )
    per_ns = NS / lines.rate
    spaces = np.diff(events.at)
    interval_ns = wanted.interval_ns
    if interval_ns is None:
        if not spaces.any():
            alone = "all events have the same time" if len(spaces) else "it has a single event"
            raise UsageError(
                f"the capture has no interval: {alone}", "add --interval, such as 30ms"
            )
        interval_ns = round((float(events.at[-1]) - float(events.at[0])) / len(spaces) * per_ns)
    interval_ns = max(interval_ns, 1)
    if interval_ns * len(events) > TIME_LIMIT:
        raise UsageError(
            f"{len(events)} events with an interval of {interval_ns} ns take longer than 18 years",
            "give the true --interval, such as 30ms",
        )

    expected = events.level == (kind == "same") if kind in ("same", "inverted") else None
    longest = wanted.longest_ns and float(wanted.longest_ns / per_ns)
    # A few pauses move the mean, but not the median. Two edges can have the same time. The edges of
    # pulses alternate between two spaces, so both together count.
    if wanted.edge == "both" and len(events) > 2:
        spaces = (events.at[2:] - events.at[:-2]) / 2
    spaces = spaces[spaces > 0]
    interval = float(np.median(spaces)) if len(spaces) else float(interval_ns / per_ns)
    result = pair(events, answers, expected, Recorded(float(lines.length), interval, longest))
    cut = result.cut
    if cut == len(events):
        raise UsageError(
            "the capture ends before the answers to its events were due",
            "record until at least one interval after the last event",
        )
    if cut:
        events = Edges(events.at[:-cut], events.level[:-cut])
        expected = None if expected is None else expected[:-cut]
        result = replace(result, delay=result.delay[:-cut])
    scale = float(per_ns)
    grid = np.arange(len(events), dtype=np.float64) * interval_ns
    offset = np.rint((events.at - events.at[0]) * scale - grid).astype(np.int64)
    found = Found(events, result, expected, result.delay * scale, interval_ns, offset, cut, scale)
    within, most = found.within, LONGEST * interval
    if wanted.longest_ns and longest and longest < most:
        within, most = format_duration(wanted.longest_ns), longest
    unanswered = events.at[np.isnan(result.delay)]
    if len(unanswered) and float(unanswered[-1]) + most > lines.length:
        within += " or before the capture ended"
    return replace(found, within=within)


# --- the stream ----------------------------------------------------------------------------------


def _records(
    run: str,
    parameters: dict[str, str],
    found: Found,
    lines: Lines,
    recording: Recording,
    wanted: Wanted,
    when: float,
) -> Iterator[bytes]:
    """The whole stream."""
    writer = StreamWriter()
    events, interval_ns = len(found.events), found.interval_ns
    yield import_header(writer, run, 0, "log-host", parameters, when, wanted.load)
    yield writer.environment(FACTS)
    for name, fact in waveforms(lines, found.events, found.answers.delay):
        yield writer.environment({name: fact})
    shifted = bool(np.any(found.offset))
    kept = shifted and bool(np.all(np.abs(found.offset) <= INT32))
    declared: dict[str, Any] = {
        "context": wanted.context, "cpu": -1, "thread": -1, "policy": "",
        "interval_ns": interval_ns,
    }  # fmt: skip
    yield writer.series(0, "response", **declared)
    if kept:
        yield writer.series(1, "offset", **declared, companion=0)
    for text in _messages(found, lines, recording, shifted and not kept):
        yield writer.event("message", text=text)
    due = np.flatnonzero(~np.isnan(found.delay)).astype(np.int64)
    value = np.rint(found.delay[due]).astype(np.int64)
    yield from _samples(writer, due, value, found)
    last_due = (events - 1) * interval_ns
    gaps = int(np.count_nonzero(np.diff(due, prepend=-1, append=events) > 1))
    missed = events - len(due)
    tallies = [Tally(0, missed=missed, last_due_ns=last_due)]
    tallies[0].add(value)
    if kept:
        for start in range(0, events, BLOCK):
            part = found.offset[start : start + BLOCK]
            yield writer.samples(1, start, start * interval_ns, part)
        tallies.append(Tally(1, last_due_ns=last_due))
        tallies[1].add(found.offset)
    for tally in tallies:
        yield writer.histogram(tally)
    tallies[0].overruns = gaps
    yield _answers_table(writer, found)
    yield writer.verdict("every-event-answered", *_verdict(found))
    yield writer.trailer(tallies, duration_ns=round(lines.length * NS / lines.rate))


def _samples(writer: StreamWriter, due: Int64, value: Int64, found: Found) -> Iterator[bytes]:
    """Blocks of samples. Events without an answer are gaps of a block, or ``missed``."""
    reached = -1
    for start in range(0, len(due), BLOCK):
        index, samples = due[start : start + BLOCK], value[start : start + BLOCK]
        first = int(index[0])
        if first > reached + 1:
            yield writer.missed(0, reached, first - reached - 1)
        gaps = np.diff(index) - 1
        at = np.flatnonzero(gaps)
        pairs = np.stack((at + 1, gaps[at]), axis=1)
        yield writer.samples(0, first, first * found.interval_ns, samples, pairs)
        for k in np.flatnonzero(samples > INT32).tolist():
            number, whole = int(index[k]), int(samples[k])
            yield writer.event(
                "wide", number * found.interval_ns, series=0, index=number, value=whole
            )
        reached = int(index[-1])
    if reached + 1 < len(found.events):
        yield writer.missed(0, reached, len(found.events) - 1 - reached)


def error_ns(lines: Lines) -> float:
    """By how much a value can be wrong because the lines were sampled."""
    return float(lines.error * NS / lines.rate)


def sampling(lines: Lines) -> dict[str, str]:
    """Rate and error of the instrument, for the environment."""
    if lines.samplerate is None:
        return {"samplerate": "unknown", "sampling_error": "unknown"}
    rate, error = numbers.frequency(float(lines.samplerate)), numbers.time(error_ns(lines))
    return {"samplerate": numbers.plain(rate), "sampling_error": f"±{numbers.plain(error)}"}


def _messages(found: Found, lines: Lines, recording: Recording, apart: bool) -> Iterator[str]:
    error, rate = numbers.time(error_ns(lines)), numbers.frequency(float(lines.samplerate or 0))
    if lines.samplerate is None:
        yield (
            "The file contains times, but not the sample rate of the instrument. Each value is "
            "accurate to ± one sample interval: give the rate with --samplerate to see how much "
            "that is"
        )
    elif lines.threshold is None:
        yield (
            f"Sampled at {rate}: each value is accurate to ±{error}. Min and max can be wrong by "
            "as much, and means only if the events are synchronous with the instrument's clock"
        )
    else:
        yield (
            f"Sampled at {rate}, edges interpolated between two samples: each "
            f"value is accurate to ±{error} whatever the shape of the edges"
        )
    if recording.note:
        yield f"The capture was {recording.note}"
    if found.cut:
        events = "event is" if found.cut == 1 else f"{found.cut} events are"
        yield f"The capture ends before the last answers were due: the last {events} left out"
    if found.answers.before:
        yield (
            f"Edges of the answering line without an event in the capture: "
            f"{found.answers.before}. They came before the first event, or answer earlier events"
        )
    if found.answers.ambiguous:
        yield (
            "Answers may belong to other events, because other delays also fit: the capture "
            "begins or ends in mid-run, an answer is missing, or the delays vary over several "
            "intervals"
        )
    if apart:
        yield "The events are too far from a regular grid: the times shown for them are nominal"


def _answers_table(writer: StreamWriter, found: Found) -> bytes:
    answered = found.answers.answered
    row = {
        "raised": len(found.events),
        "answered": answered,
        "unanswered": len(found.events) - answered,
        "late": found.answers.late,
        "double": found.answers.double,
        "lost": 0,
        "ambiguous": found.answers.ambiguous,
    }
    units = dict.fromkeys(row, "count")
    if found.answers.ambiguous:
        row["ambiguous_max"] = math.ceil(found.answers.ambiguous_max * found.scale)
        units["ambiguous_max"] = "ns"
    return writer.table("answers", units, list(row.values()))


def _verdict(found: Found) -> tuple[str, str, str]:
    """Result, evidence and remedy."""
    missing = np.flatnonzero(np.isnan(found.delay))
    events, late = len(found.events), found.answers.late
    every = numbers.plain(numbers.plural(events, "event"))
    some, lost = (numbers.plain(numbers.count(one)) for one in (late, len(missing)))
    # Late ones that are ambiguous may be quick answers to other events.
    unclear = bool(found.answers.ambiguous) and late == found.answers.ambiguous_late
    if not len(missing) and unclear:
        evidence = f"{every}, each answered either before the next one or after it"
        remedy = (
            "record from before the first event until after the last answer, raise events at a "
            "longer interval, or give the longest possible delay with --longest"
        )
    elif not len(missing) and not late:
        answered = "answered" if events == 1 else "each answered before the next"
        evidence, remedy = f"{every}, {answered}", ""
    elif not len(missing):
        verb = "was" if late == 1 else "were"
        evidence = f"{some} of {every} {verb} answered after the next one came"
        remedy = "find out what delayed the target, or raise events at a longer interval"
    else:
        named = ", ".join(map(str, missing[:TOLD].tolist())) + (
            ", …" if len(missing) > TOLD else ""
        )
        evidence = (
            f"{lost} of {every} {'was' if len(missing) == 1 else 'were'} "
            f"not answered within {found.within} (number{'s' if len(missing) > 1 else ''} {named})"
            + (f", and {some} more only after the next one" if late else "")
        )
        remedy = (
            "find out what delayed the answers: measure timer or irq-latency under the same load"
        )
        rising = found.events.level
        for level, name, other in ((True, "rising", "falling"), (False, "falling", "rising")):
            if len(missing) == np.count_nonzero(rising == level) < events and bool(
                np.all(rising[missing] == level)
            ):
                remedy = (
                    f"no {name} edge was answered: if events are {other} edges alone, "
                    f"import the capture with --edge {other}"
                )
    if found.answers.ambiguous and _pulses(found):
        remedy += (
            ". If events or answers are pulses, import with the edges that count, such as "
            "--edge rising --answer-edge rising"
        )
    if len(missing) or (late and not unclear):
        return "fail", evidence, remedy
    return "inconclusive" if unclear else "pass", evidence, remedy


def _pulses(found: Found) -> bool:
    """Whether events or answers look like pulses: their edges are unevenly spaced, or many edges
    of the answering line are left over."""
    if 2 * found.answers.double >= len(found.events):
        return True
    spaces = np.diff(found.events.at)
    if len(spaces) < 2 or len(np.unique(found.events.level)) < 2:
        return False
    short, long = sorted(float(np.median(spaces[start::2])) for start in (0, 1))
    return long > 2 * short


# --- the run -------------------------------------------------------------------------------------


def about_of(
    path: Path, recording: Recording, lines: Lines, digest: str, asked: str, **channels: str
) -> dict[str, str]:
    """Facts of a capture, for the environment. ``channels``: the channel of each line."""
    return {
        "file": path.name,
        "sha256": digest,
        "format": recording.format,
        "instrument": recording.instrument or "unknown",
        "samples": str(lines.length),
        "channels": ", ".join(recording.channels[:32]),
        **channels,
        **sampling(lines),
        "asked": asked,
    }


def _thresholds(lines: Lines) -> dict[str, str]:
    """Threshold and hysteresis of each channel, where they were needed to read it."""
    pairs = {"threshold": lines.threshold, "hysteresis": lines.hysteresis}
    return {
        name: f"{both[0]:.4g} V, {both[1]:.4g} V"
        for name, both in pairs.items()
        if both is not None
    }


def _parameters(
    wanted: Wanted, found: Found, lines: Lines, channels: tuple[str, str]
) -> dict[str, str]:
    parameters = {
        "event": channels[0],
        "answer": channels[1],
        "edge": wanted.edge,
        "answer-edge": wanted.answer_edge or ("same" if wanted.edge == "both" else "any"),
        "first-edge": "rising" if found.events.level[0] else "falling",
        "interval": format_duration(found.interval_ns),
        "sampling-error": sampling(lines)["sampling_error"].lstrip("±").replace(" ", ""),
    }
    if wanted.context:
        parameters["answered-by"] = wanted.context
    if lines.threshold is not None:
        parameters["threshold"] = f"{lines.threshold[0]:.4g} V, {lines.threshold[1]:.4g} V"
    return parameters


def _document(
    run: str,
    path: Path,
    wanted: Wanted,
    about: dict[str, str],
    parameters: dict[str, str],
    found: Found,
    lines: Lines,
    when: float,
) -> dict[str, Any]:
    """``run.json``."""
    counted = {
        "events": str(len(found.events)),
        "answered": str(found.answers.answered),
        "ambiguous": str(found.answers.ambiguous),
    }
    duration_s = round(float(lines.length / lines.rate), 3)
    return run_document(
        run,
        target=f"capture:{wanted.name or path.stem}",
        tested=Subject(wanted.label, wanted.board, wanted.kernel, wanted.realtime),
        about={"capture": {**about, **counted}},
        catalogue=CATALOGUE,
        steps=[step_document(0, "log-host", parameters, wanted.load, duration_s)],
        when=when,
    )
