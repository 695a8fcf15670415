# SPDX-License-Identifier: Apache-2.0
"""A run's folder that was made elsewhere: whether it is what the readers of this store expect.

A bundle may contain anything. Everything that the store, the statistics and the reports rely on is
checked here, once, before the folder becomes a run of the store: the shapes of run.json and of the
seals, that records, seals and Parquet files agree, and that all samples can be read, in bounded
memory.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from rtgauge.catalogue import Catalogue
from rtgauge.errors import RtgaugeError, StoreError
from rtgauge.store.folder import DOCUMENT, FORMAT, VERSION, step_path
from rtgauge.store.parquet import ParquetReader
from rtgauge.store.samples import StoredRun, StoredStep
from rtgauge.store.scan import SeriesScan, scan_stream
from rtgauge.store.seal import (
    RECORDS,
    SEAL,
    SealedSeries,
    parquet_name,
    read_seal,
    trailer_state,
)
from rtgauge.stream import (
    COUNT_LIMIT,
    NUMBER_LIMIT,
    Ambience,
    Clock,
    Event,
    Gaps,
    Histogram,
    Samples,
    SeriesInfo,
    SeriesTotals,
    Span,
    Trace,
    Work,
    wrong_totals,
)
from rtgauge.units import parse_duration

__all__ = ["FEWER_STEPS", "JSON_LIMIT", "check_run"]

JSON_LIMIT = 1 << 25
"""The most bytes of run.json or of a seal."""
STEP_LIMIT = 10_000
DEPTH_LIMIT = 32
_INT64 = 1 << 63
_ENDED = ("complete", "interrupted", "failed", "skipped")
_NONE = type(None)
KEPT_LIMIT = 1 << 27
"""Maximum bytes of a run's records that a reader keeps in memory: tables, settings, facts."""
RUN_SENSORS_LIMIT = 1024
"""Maximum of all steps of a run. Each stream has a limit of its own (docs/formats/stream.md)."""
_PASSING = (Histogram, Event, Gaps, SeriesInfo, Clock, Work, Ambience, Trace, _NONE)
"""Records that are read when they are asked for, or of which there is a limit."""
_TEXT = (str,)
_MAYBE_TEXT = (str, _NONE)
_MAYBE_NUMBER = (int, float, _NONE)

# What run.json may hold under the names that are read; others are let through.
_RUN: Mapping[str, tuple[type, ...]] = {
    "study": _MAYBE_TEXT,
    "label": _MAYBE_TEXT,
    "repeat": (int, _NONE),
    "order": (dict, _NONE),
    "target": _TEXT,
    "boot_id": _MAYBE_TEXT,
    "started": _TEXT,
    "duration_s": _MAYBE_NUMBER,
    "state": _TEXT,
    "reason": _MAYBE_TEXT,
    "remedy": _MAYBE_TEXT,
    "plan": (dict, _NONE),
    "environment": (dict, _NONE),
    "findings": (list, _NONE),
    "catalogue": (dict, _NONE),
    "steps": (list,),
}
_STEP: Mapping[str, tuple[type, ...]] = {
    "step": (int,),
    "measurement": _MAYBE_TEXT,
    "parameters": (dict, _NONE),
    "run_options": (dict, _NONE),
    "load": _MAYBE_TEXT,
    "load_command": _MAYBE_TEXT,
    "disturb": _MAYBE_TEXT,
    "budget_ns": (int, _NONE),
    "rate_per_hour": _MAYBE_NUMBER,
    "role": _TEXT,
    "state": _TEXT,
    "reason": _MAYBE_TEXT,
    "remedy": _MAYBE_TEXT,
    "command": _MAYBE_TEXT,
    "folder": _TEXT,
    "duration_s": _MAYBE_NUMBER,
}
_FINDING = dict.fromkeys(("check", "found", "level", "why", "remedy", "command"), _TEXT)
_SETTING: Mapping[str, tuple[type, ...]] = {
    "asked": _MAYBE_TEXT,
    "effective": _MAYBE_TEXT,
    "before": _MAYBE_TEXT,
    "reason": _TEXT,
}
_SEAL: Mapping[str, tuple[type, ...]] = {
    "version": (int,),
    "end": (dict,),
    "trailer": (dict, _NONE),
    "series": (list,),
}
_END: Mapping[str, tuple[type, ...]] = {
    "complete": (bool,),
    "records": (int,),
    "dropped_bytes": (int,),
    "lost_records": (int,),
    "reason": _TEXT,
    "cut": (bool,),
}
_TRAILER = dict.fromkeys(("state", "reason", "remedy", "command"), _TEXT)
_SEALED: Mapping[str, tuple[type, ...]] = {
    "series": (int,),
    "name": _TEXT,
    "unit": _TEXT,
    "scale": (int,),
    "rows": (int,),
    "max": (int, _NONE),
    "totals": (dict,),
}
_REALTIME = ("preempt_rt", "full", "lazy", "voluntary", "none", "cobalt", "evl", "unknown")
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_INDEXED = ("label", "study", "target", "started")
FEWER_STEPS = "measure in several runs that have fewer steps"
"""The remedy for a run that is too large."""
_KEEP_IT = "keep it in this store"
"""The remedy where fewer steps do not make it smaller."""


class _Wrong(Exception):
    """A violated condition, in words."""


class _TooLarge(_Wrong):
    """A run that is whole, and larger than a run from elsewhere may be."""

    def __init__(self, why: str, remedy: str = FEWER_STEPS) -> None:
        super().__init__(why)
        self.remedy = remedy


def check_run(
    path: Path,
    run_id: str,
    refuse: Callable[[str], NoReturn],
    too_large: Callable[[str, str], NoReturn] | None = None,
) -> None:
    """Look at the folder ``path`` of the run ``run_id`` from elsewhere.

    ``refuse`` is called with what is wrong, and ``too_large``, if it is given, with the limit that
    a whole run exceeds, and a remedy; StoreError when it cannot be read or is of a newer version.
    """
    try:
        document = _document(path / DOCUMENT, run_id)
        kept = _Kept()
        for step in StoredRun(path, document).steps:
            _step(step, kept)
    except _TooLarge as error:
        if too_large is not None:
            too_large(str(error), error.remedy)
        refuse(str(error))
    except (_Wrong, ValueError) as error:
        refuse(str(error).splitlines()[0] if str(error) else "it is damaged")
    except RtgaugeError:
        raise
    except Exception as error:  # whatever a reader stumbles over here, it would stumble over later
        refuse(f"it cannot be read ({type(error).__name__})")


# --- run.json -------------------------------------------------------------------------------------


def _load(path: Path) -> dict[str, Any]:
    """A JSON object, of plain values that can be written and stored again."""
    name = path.name
    if path.stat().st_size > JSON_LIMIT:
        raise _TooLarge(f"its {name} is too large", FEWER_STEPS if name == DOCUMENT else _KEEP_IT)
    try:
        document = json.loads(path.read_bytes().decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _Wrong(f"its {name} is not JSON") from error
    if not isinstance(document, dict):
        raise _Wrong(f"its {name} is not a JSON object")
    _plain(document, name)
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _plain(document: object, name: str) -> None:
    level = [document]
    for _ in range(DEPTH_LIMIT):
        below: list[object] = []
        for value in level:
            if isinstance(value, dict):
                below += [*value, *value.values()]
            elif isinstance(value, list):
                below += value
            elif isinstance(value, str):
                try:
                    value.encode("utf-8")
                except UnicodeEncodeError as error:  # half of a surrogate pair
                    raise _Wrong(f"its {name} contains text that is not UTF-8") from error
            elif isinstance(value, float):
                if not math.isfinite(value):
                    raise _Wrong(f"its {name} contains a number that is not finite")
            elif isinstance(value, int) and not -_INT64 <= value < _INT64:
                raise _Wrong(f"its {name} contains a number of more than 64 bits")
        level = below
        if not level:
            return
    raise _Wrong(f"its {name} is nested too deep")


def _shape(
    value: object, shape: Mapping[str, tuple[type, ...]], where: str, needed: tuple[str, ...] = ()
) -> dict[str, Any]:
    """``value`` as the map that it has to be."""
    if not isinstance(value, dict):
        raise _Wrong(f"{where} is not a map")
    for key in needed:
        if key not in value:
            raise _Wrong(f"{where} has no '{key}'")
    for key, kinds in shape.items():
        if key in value and type(value[key]) not in kinds:
            raise _Wrong(f"'{key}' of {where} is of the wrong type")
    return value


def _not_below_0(value: Mapping[str, Any], where: str, *keys: str) -> None:
    for key in keys:
        if (value.get(key) or 0) < 0:
            raise _Wrong(f"'{key}' of {where} is below 0")


def _document(path: Path, run_id: str) -> dict[str, Any]:
    document = _load(path)
    if document.get("format") != FORMAT or type(document.get("version")) is not int:
        raise _Wrong(f"its {DOCUMENT} is not of the format {FORMAT}")
    if document["version"] > VERSION:
        raise StoreError(
            f"run {run_id} has version {document['version']}, but this rtgauge reads up to "
            f"{VERSION}",
            "use the newer rtgauge that wrote it",
        )
    if document.get("id") != run_id:
        raise _Wrong(f"its {DOCUMENT} belongs to another run")
    where = DOCUMENT
    _shape(document, _RUN, where, ("state", "steps"))
    _not_below_0(document, where, "repeat", "duration_s")
    if document["state"] not in _ENDED:
        raise _Wrong("its run has not ended")
    for key in _INDEXED:
        if "\0" in (document.get(key) or ""):
            raise _Wrong(f"'{key}' of {where} contains a NUL")
    _environment(document.get("environment") or {})
    for finding in document.get("findings") or []:
        _shape(finding, _FINDING, "a finding", ("level",))
        if finding["level"] not in ("ok", "note", "warning", "error"):
            raise _Wrong("a finding has an unknown level")
    if document.get("catalogue"):
        try:
            Catalogue.from_document(document["catalogue"])
        except RtgaugeError as error:
            raise StoreError(
                f"the catalogue of run {run_id} is of a newer agent, or damaged: {error}",
                "use the newer rtgauge that wrote it, or get the run again",
            ) from error
    _steps(document["steps"], path.parent)
    return document


def _environment(environment: Mapping[str, Any]) -> None:
    shape = {"kernel": (dict,), "cpu": (dict,), "libc": _TEXT, "realtime": _TEXT}
    where = "the environment"
    _shape(environment, {**shape, "settings": (dict, _NONE), "host": _MAYBE_TEXT}, where)
    if environment.get("realtime", "unknown") not in _REALTIME:
        raise _Wrong("the environment has an unknown real-time model")
    if "lab" in environment:
        made = environment["lab"]
        _shape({"lab": made}, {"lab": (dict,)}, where)
        _shape(made, dict.fromkeys(made, _TEXT), "the board", ("mode", "meaning"))
    if "connection" in environment:
        link = environment["connection"]
        _shape({"connection": link}, {"connection": (dict,)}, where)
        _shape(link, dict.fromkeys(link, _TEXT), "the connection", ())
    for setting in (environment.get("settings") or {}).values():
        _shape(setting, _SETTING, "a setting", ("asked", "effective"))
        if not setting.keys() <= _SETTING.keys():
            raise _Wrong("a setting has an unknown key")


def _steps(steps: list[Any], run: Path) -> None:
    known: set[int] = set()
    if len(steps) > STEP_LIMIT:
        raise _TooLarge(f"it has {len(steps)} steps, more than {STEP_LIMIT}")
    for step in steps:
        _shape(step, _STEP, "a step", ("step",))
        _not_below_0(step, "a step", "step", "budget_ns", "rate_per_hour", "duration_s")
        if step.get("role", "measurement") not in ("measurement", "calibration"):
            raise _Wrong("a step has an unknown role")
        if any(type(value) is not str for value in (step.get("parameters") or {}).values()):
            raise _Wrong("a parameter of a step is not text")
        names = [*(step.get("parameters") or {}), *(step.get("run_options") or {})]
        if step.get("measurement"):
            names.append(step["measurement"])
        if not all(map(_NAME.fullmatch, names)):  # they become words of commands
            raise _Wrong("a measurement or an option of a step does not have a proper name")
        options = (step.get("run_options") or {}).values()
        if any(value is not True and type(value) is not str for value in options):
            raise _Wrong("an option of a step is neither text nor true")
        _injection(step.get("disturb"), "a step")
        if step["step"] in known:
            raise _Wrong(f"step {step['step'] + 1} occurs twice in {DOCUMENT}")
        known.add(step["step"])
    folders = {step_path(run, number).name for number in known}
    for folder in (run / "steps").iterdir() if (run / "steps").is_dir() else ():
        if folder.name not in folders:
            raise _Wrong(f"it contains a step that is missing from its {DOCUMENT}")


def _injection(text: str | None, where: str) -> None:
    """KIND:LENGTH:PERIOD, with both times above 0."""
    parts = (text or "x:1ns:1ns").split(":")
    try:
        proper = len(parts) == 3 and all(map(parse_duration, parts[1:]))
    except ValueError:
        proper = False
    if not proper:
        raise _Wrong(f"the injection of {where} is not KIND:LENGTH:PERIOD")


# --- a step ---------------------------------------------------------------------------------------


def _step(step: StoredStep, kept: _Kept) -> None:
    folder, name = step.folder, f"step {step.number + 1}"
    if not folder.exists():
        if step.document.get("state") == "complete":
            raise _Wrong(f"{name} is complete, but its data are missing")
        return
    there = {path.name for path in folder.iterdir()}
    if not {RECORDS, SEAL} <= there:
        raise _Wrong(f"{name} is not sealed")
    _seal_document(_load(folder / SEAL), name)
    seal = read_seal(folder)
    assert seal is not None
    scan = scan_stream(folder / RECORDS, sealed=True, sink=kept)
    if scan.end.dropped_bytes:
        raise _Wrong(f"the records of {name} are damaged: {scan.end.reason}")
    if scan.end.complete != seal.end.complete or trailer_state(scan.trailer) != seal.trailer:
        raise _Wrong(f"records and seal of {name} do not agree")
    if [one.series for one in seal.series] != list(scan.series):
        raise _Wrong(f"records and seal of {name} have different series")
    filled = {parquet_name(one.series) for one in seal.series if one.rows}
    if filled != {one for one in there if one.endswith(".parquet")}:
        raise _Wrong(f"samples of {name} are missing, or do not belong there")
    _injection(step.header.disturb if step.header else None, name)
    told = {one.series: one for one in (scan.trailer.series if scan.trailer else ())}
    for one in seal.series:
        _series(folder, one, scan.series[one.series], told.get(one.series), name)
    for one, series in zip(seal.series, step.series, strict=True):
        if reason := wrong_totals(series.totals):
            raise _Wrong(f"series {series.info.series} of {name}: {reason}")
        found = _samples(series.info, series.chunks(), name)
        _same(one, scan.series[one.series], told.get(one.series), found, name)


class _Kept:
    """Adds up what a reader of the records keeps in memory, and stops at too much."""

    def __init__(self) -> None:
        self.bytes = 0
        self.sensors: set[str] = set()

    def __call__(self, span: Span) -> None:
        if isinstance(span.record, Samples):
            raise _Wrong("its records hold samples")
        if isinstance(span.record, Ambience):
            self.sensors.update(span.record.temperature_mc)
            if len(self.sensors) > RUN_SENSORS_LIMIT:
                raise _TooLarge(
                    f"it has more than {RUN_SENSORS_LIMIT} temperature sensors",
                    _KEEP_IT,
                )
        if not isinstance(span.record, _PASSING):
            self.bytes += span.stop - span.start
            if self.bytes > KEPT_LIMIT:
                raise _TooLarge("it has too many records to be kept in memory")


def _seal_document(document: dict[str, Any], name: str) -> None:
    where = f"the seal of {name}"
    _shape(document, _SEAL, where, tuple(_SEAL))
    _shape(document["end"], _END, where, tuple(_END))
    _not_below_0(document["end"], where, "records", "dropped_bytes", "lost_records")
    if document["trailer"] is not None:
        _shape(document["trailer"], _TRAILER, where, tuple(_TRAILER)[:-1])
    for one in document["series"]:
        _shape(one, _SEALED, where, tuple(_SEALED))
        _not_below_0(one, where, "rows")
        totals = dict.fromkeys(one["totals"], (int,))
        _shape(one["totals"], totals, where, ("series", "count"))


def _series(
    folder: Path, sealed: SealedSeries, scan: SeriesScan, told: SeriesTotals | None, name: str
) -> None:
    info, where = scan.info, f"series {sealed.series} of {name}"
    same = (sealed.name, sealed.unit, sealed.scale) == (info.name, info.unit, info.scale)
    same = same and sealed.totals.series == sealed.series and sealed.companion == info.companion
    if not same or (told is not None and _counts(told) != _counts(sealed.totals)):
        raise _Wrong(f"records and seal of {name} do not agree on series {sealed.series}")
    if sealed.max is not None and not abs(sealed.max) * info.scale <= NUMBER_LIMIT:
        raise _Wrong(f"{where}: its largest value is beyond {NUMBER_LIMIT}")
    if sealed.rows:
        try:
            path = folder / parquet_name(sealed.series)
            with ParquetReader(path, sealed.rows) as reader:
                reader.check_pages()
        except ValueError as error:
            raise _Wrong(f"{where}: {error}") from error


def _same(
    sealed: SealedSeries,
    scan: SeriesScan,
    told: SeriesTotals | None,
    found: _Found | None,
    name: str,
) -> None:
    """Check that sealing the records and samples of a series gives what the seal contains."""
    largest = found.largest if found else None
    if scan.histogram is not None and scan.histogram.count:
        largest = max(scan.histogram.max, scan.histogram.max if largest is None else largest)
    if sealed.max != largest:
        raise _Wrong(f"the seal of {name} has another maximum of series {sealed.series}")
    times = (sealed.totals.first_due_ns, sealed.totals.last_due_ns)
    known = {(told.first_due_ns, told.last_due_ns)} if told else set()
    if known and found and not scan.info.interval_ns:
        known.add(found.due_ns)
    if known and times not in known:
        raise _Wrong(f"the seal of {name} has other times of series {sealed.series}")


def _counts(totals: SeriesTotals) -> tuple[int, ...]:
    return totals.count, totals.missed, totals.lost, totals.overruns


@dataclass(frozen=True, slots=True)
class _Found:
    """The largest value of the samples of a series, their earliest and latest time."""

    largest: int
    due_ns: tuple[int, int]


def _samples(info: SeriesInfo, chunks: Any, name: str) -> _Found | None:
    """Read all samples. Their indices must rise and lie within the limits of a stream
    (docs/formats/stream.md). None without samples. StoreError if they cannot be read."""
    where = f"series {info.series} of {name}"
    last = -1
    found = None
    for chunk in chunks:
        if not len(chunk.index):
            continue
        if chunk.index[0] <= last or bool((np.diff(chunk.index) <= 0).any()):
            raise _Wrong(f"{where}: its samples are not in order")
        last = int(chunk.index[-1])
        largest = max(last * info.interval_ns, _size(chunk.due_ns), _size(chunk.value) * info.scale)
        if last > COUNT_LIMIT or largest > NUMBER_LIMIT:
            raise _Wrong(f"{where}: its samples are beyond the limits of a stream")
        highest = int(chunk.value.max())
        times = int(chunk.due_ns.min()), int(chunk.due_ns.max())
        if found is not None:
            highest = max(highest, found.largest)
            times = min(times[0], found.due_ns[0]), max(times[1], found.due_ns[1])
        found = _Found(highest, times)
    return found


def _size(numbers: Any) -> int:
    return max(abs(int(numbers.min())), abs(int(numbers.max())))
