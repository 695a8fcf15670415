# SPDX-License-Identifier: Apache-2.0
"""The results model: one JSON document that the terminal, the HTML report and every export share.

Step 10 of the path of a sample: the figures that ``gather`` read from the stored samples become
the model here; from here on no sample is read again. docs/formats/results.md explains the
document, results.schema.json defines it; nothing in it knows a measurement by its name.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from rtgauge import stats
from rtgauge import text as numbers
from rtgauge.causes.advice import advised, system_of
from rtgauge.causes.model import causes_of, plain
from rtgauge.causes.tracefs import Kept, kept_of
from rtgauge.errors import StoreError
from rtgauge.report.results import background, gather, schemas
from rtgauge.report.results.again import deciding_command
from rtgauge.report.results.bounds import INDEPENDENT, Held, Member, bounds, verdict_on
from rtgauge.report.results.commands import checked
from rtgauge.report.results.composed import Stage, composed
from rtgauge.report.results.histogram import histogram_of
from rtgauge.report.results.labels import (
    ORDINARY,
    TRACED,
    carried_out,
    is_response,
    under_load,
    waits_for_answers,
)
from rtgauge.report.results.observations import Mark, told
from rtgauge.report.results.published import places as published_places
from rtgauge.report.results.published import published
from rtgauge.report.results.ratings import notes, points, ratings
from rtgauge.store import CAUSES, load_failure
from rtgauge.stream.answers import things

if TYPE_CHECKING:
    from rtgauge.store import StoredRun, StoredSeries, StoredStep
    from rtgauge.stream import Clock, ClockReading

__all__ = [
    "CONFIDENCE",
    "Analysis",
    "Document",
    "analyse",
    "build",
    "build_run",
    "schema",
    "validate",
]

Document = dict[str, Any]

CONFIDENCE: Final = 0.95
EVENT_LIMIT: Final = 100
EPOCH: Final = datetime.fromtimestamp(0, UTC)

_STATES: Final = ("complete", "interrupted", "failed", "skipped", "running")
_CHANGED_SETTINGS: Final = ("prepare", "prepare-only", "irq-priority")
"""The options for which agents did so before they described them."""
_FINDING: Final = ("check", "found", "level", "why", "remedy", "command")
_TOLD: Final = ("setting", "load", "threshold", "message")
"""Events with a text. The others (maximum, missed, lost, wide, withheld) are counted."""


@dataclass(frozen=True)
class Analysis:
    """The model, and the data that the pictures need in addition.

    ``figures[run][(step, series)]`` holds the tables and time bins behind each entry of the
    model's series, ``places`` the same in the order of the model's series. ``counters[run][step]``:
    the frequency of the CPU's counter. ``marks[run]``: the second lines of quantities, by the place
    of the quantity's first series.
    """

    model: Document
    runs: tuple[StoredRun, ...]
    figures: tuple[Mapping[tuple[int, int], gather.Figures], ...]
    places: tuple[tuple[tuple[int, int], ...], ...]
    counters: tuple[Mapping[int, int], ...]
    marks: tuple[Mapping[int, Mark], ...] = ()

    def counter_hz(self, number: int, at: int) -> int:
        """The frequency of the CPU's counter in the step of a series of a run. 0 without one."""
        step, _ = self.places[number][at]
        return self.counters[number].get(step, 0)


def build(runs: Sequence[StoredRun]) -> Document:
    """The results model, version 2, of one or several runs (docs/formats/results.md)."""
    return analyse(runs, pictures=False).model


def build_run(run: StoredRun, observed: Callable[[Document], Collection[int]]) -> Document:
    """A run of the results model, with observations only on the steps that ``observed`` selects.
    The search for rhythms takes most of the time of a model."""
    (figures,) = _gathered([run], pictures=False)
    document, places, _ = _run(run, figures, 0)
    _observe(run, document, places, figures, observed(document))
    return document


def analyse(runs: Sequence[StoredRun], *, pictures: bool = True) -> Analysis:
    """The model together with what the pictures are drawn from; one pass over all samples."""
    figures = _gathered(runs, pictures=pictures)
    documents, places, marks = [], [], []
    evidence: list[Member] = []
    for number, (run, table) in enumerate(zip(runs, figures, strict=True)):
        document, order, members = _run(run, table, number)
        lines = _observe(run, document, order, table, {one["step"] for one in document["steps"]})
        documents.append(document)
        places.append(order)
        marks.append(lines)
        evidence += members
    model = {
        "format": "rtgauge-results",
        "version": 2,
        "runs": documents,
        "bounds": bounds(documents, evidence, CONFIDENCE),
    }
    counters = tuple(
        {step.number: step.header.counter.hz for step in run.steps if step.header is not None}
        for run in runs
    )
    return Analysis(model, tuple(runs), tuple(figures), tuple(places), counters, tuple(marks))


def _gathered(
    runs: Sequence[StoredRun], *, pictures: bool
) -> list[dict[tuple[int, int], gather.Figures]]:
    """The figures of each run, by step and series."""
    wanted = [
        (number, series, step)
        for number, run in enumerate(runs)
        for step in run.steps
        for series in reported(step)
    ]
    found = gather.gather([(series, step) for _, series, step in wanted], pictures=pictures)
    figures: list[dict[tuple[int, int], gather.Figures]] = [{} for _ in runs]
    for (number, series, step), result in zip(wanted, found, strict=True):
        figures[number][(step.number, series.info.series)] = result
    return figures


def reported(step: StoredStep) -> list[StoredSeries]:
    """The series of a step that are results; a companion (dither) only serves another one."""
    return [series for series in step.series if series.info.companion is None]


_SCHEMA: Final = ("rtgauge.report.results", "results.schema.json")
schema = functools.partial(schemas.schema, *_SCHEMA)
"""The JSON Schema of the results model."""
validate = functools.partial(schemas.validate, *_SCHEMA)
"""Raise ``jsonschema.ValidationError`` if the document is not a results model."""


# --- a run ---------------------------------------------------------------------------------------


def _run(
    run: StoredRun, figures: Mapping[tuple[int, int], gather.Figures], at: int
) -> tuple[Document, tuple[tuple[int, int], ...], list[Member]]:
    source = run.document
    steps: list[Document] = []
    series: list[Document] = []
    tables: list[Document] = []
    tests: list[Document] = []
    verdicts: list[Document] = []
    evidence: list[Member] = []
    places: list[tuple[int, int]] = []
    traced: list[Document] = []
    chapters = _chapters(source.get("catalogue"))
    rhythms = _rhythms(source.get("catalogue"))
    limitations = _limitations(source.get("catalogue"))
    target = str(source.get("target", ""))
    watched: list[tuple[StoredStep, background.Watched]] = []
    for step in sorted(run.steps, key=lambda step: step.number):
        activity = background.Watched().step(step.ambience)
        if len(step.ambience):
            watched.append((step, activity))
        planned = _planned(source.get("plan"), step.number)
        steps.append(_step(step, chapters.get(_measurement(step), ""), planned, target))
        steps[-1] |= {
            "time_grid": _has_time_grid(steps[-1], source.get("catalogue"), rhythms),
            "not_on_core": _not_on_core(steps[-1], source.get("catalogue")),
            "unseen_gaps": _unseen_gaps(source.get("catalogue"), _measurement(step)),
        }
        _tell_meaning(steps[-1]["load"], source.get("catalogue"))
        kept = kept_of(step)
        _label_traced(steps[-1], kept)
        _label_crowded(steps[-1], step, activity)
        stages = composed(step, _described(source.get("catalogue"), _measurement(step)))
        realtimes = _realtimes(step, figures)
        for stored in reported(step):
            key = (step.number, stored.info.series)
            timed = stored.info.interval_ns > 0 or _measurement(step) in rhythms
            one = _series(step, stored, figures[key], timed, realtimes)
            one["composed"] = _composed(stages.get(stored.info.series, ()), one["max"])
            budget, held = _budget(step), None
            if budget is not None and stored.info.unit == "ns":
                held = _held(step, stored, figures[key], budget, timed)
                verdict = _budget_verdict(step, held)
                verdicts.append({"step": step.number, "series": len(places), **verdict})
            effective = one["bound"]["effective_samples"]
            top, unseen = figures[key].top, figures[key].unseen
            evidence.append(Member(at, len(places), effective, held, timed, top, unseen))
            series.append(one)
            places.append(key)
        traced += _traced(run, step, kept, figures)
        tables.extend(_table(step, table) for table in step.tables)
        tests.extend(_test(step, test, limitations, target) for test in step.verdicts)
    findings = [
        {key: str(finding.get(key, "")) for key in _FINDING}
        for finding in source.get("findings") or ()
    ]
    findings += background.crowded(steps)
    if watched:
        for step, activity in watched:
            load = next(each["load"] for each in steps if each["step"] == step.number)
            load["interrupts_per_s"] = activity.interrupts_per_s
            if activity.cpu_share is not None:
                load["cpu_share"] = activity.cpu_share
        findings += background.findings(_measured(watched))
        number = max(step["step"] for step in steps) + 1
        steps.append(_background_step(number, run))
        total = background.Watched()
        for _, activity in watched:
            total.merge(activity)
        series += background.series(total, number, CONFIDENCE)
    for finding in findings:
        finding["remedy"], finding["command"] = checked(
            finding["remedy"], finding.get("command", ""), target
        )
    document = {
        "id": run.id,
        "study": source.get("study"),
        "label": source.get("label"),
        "repeat": int(source.get("repeat") or 0),
        "target": target,
        "imported": run.imported,
        "boot_id": str(source.get("boot_id") or ""),
        "started": str(source.get("started", "")),
        "duration_s": source.get("duration_s"),
        "state": _known(source.get("state")),
        "reason": str(source.get("reason") or ""),
        "remedy": str(source.get("remedy") or ""),
        "plan": _plan(source.get("plan")),
        "environment": {**_environment(run), "settings_by": _settings_by(source, steps)},
        "findings": findings,
        "steps": steps,
        "series": series,
        "tables": tables,
        "tests": tests,
        "verdicts": verdicts,
        "ratings": ratings(source.get("plan") or {}),
        "points": points(source.get("plan") or {}),
        "notes": notes(source.get("plan") or {}),
        "causes": _causes(run) + traced,
    }
    for verdict in verdicts:
        verdict["command"] = deciding_command(document, verdict)
    return document, tuple(places), evidence


def _observe(
    run: StoredRun,
    document: Document,
    places: Sequence[tuple[int, int]],
    figures: Mapping[tuple[int, int], gather.Figures],
    observed: Collection[int],
) -> dict[int, Mark]:
    """Add the observations on some steps, and what was published on them. The marks are those of
    ``Analysis``."""
    found = {place: figures[key] for place, key in enumerate(places)}
    marks: dict[int, Mark] = {}
    records = {step.number: (step.ambience, step.facts) for step in run.steps}
    for one in carried_out(document):
        if one["step"] in observed:
            step_told = told(one, document, found, *records[one["step"]])
            one["observations"] = step_told.observations
            marks.update(step_told.marks)
            one["published"] = published(one, document)
            one["places"] = published_places(one, document)
    return marks


def _settings_by(source: Document, steps: Sequence[Document]) -> list[str]:
    """The options of the run's steps that change settings, beyond those that every run changes."""
    options = (source.get("catalogue") or {}).get("run_options") or ()
    changes = [str(one.get("name")) for one in options if one.get("changes") == "settings"]
    given = {name for step in steps for name in step["run_options"]}
    # agents have described this since version 0.1.0
    return [name for name in changes or _CHANGED_SETTINGS if name in given]


def _tell_meaning(load: Document, catalogue: Any) -> None:
    """Say what the parts of a load do, from the catalogue of the run."""
    loads = (catalogue or {}).get("loads") or ()
    known = {str(one.get("name")): one.get("summary") for one in loads}
    names = [part.partition(":")[0] for part in load["name"].split(",")]
    if said := [f"{name}: {known[name]}" for name in names if known.get(name)]:
        load["meaning"] = "; ".join(said)


def _label_traced(step: Document, kept: Kept) -> None:
    """A step with the kernel's trace on must not be taken for one without it. What could not be
    traced, and why, becomes an event."""
    load = step["load"]
    if kept.added_ns is not None:
        load["name"] = TRACED if load["name"] == "idle" else f"{load['name']},{TRACED}"
        load["explain_ns"] = kept.added_ns
    for lost in kept.lost:
        words = f"--explain: {lost.reason}. To explain samples: {lost.remedy}."
        step["events"].append({"event": "message", "time_s": 0.0, "text": words})
    for words in kept.losses:
        step["events"].append({"event": "message", "time_s": 0.0, "text": f"--explain: {words}."})


def _label_crowded(step: Document, stored: StoredStep, activity: background.Watched) -> None:
    """A step on a machine that other programs kept busy must not be taken for an idle one."""
    if under_load(step):
        return
    others = background.crowd(stored.facts)
    # The CPU time of the agent does not contain work in the kernel.
    own = all(one.info.context == "user" for one in stored.series)
    if own and stored.trailer is not None and activity.cpu_share is not None:
        used = background.used(activity, stored.trailer.cpu_ns)
        others = used and {**(others or {}), **used}
    if others:
        step["load"]["others"] = others


def _traced(
    run: StoredRun,
    step: StoredStep,
    kept: Kept,
    figures: Mapping[tuple[int, int], gather.Figures],
) -> Iterator[Document]:
    """What the trace of a step shows of its samples."""
    if kept.samples:
        system = system_of(run, step.number)
        numbers = [stored.info.series for stored in reported(step)]
        usual = {one: gather.median(figures[step.number, one]) for one in numbers}
        for one in kept.causes(step, usual, run.document.get("catalogue")):
            yield plain(advised(one, usual.get(one.series, 0), system))


def _causes(run: StoredRun) -> list[Document]:
    """What `explain` and traces found out about samples. Raises StoreError if that is damaged."""
    try:
        found = run.causes
        causes_of(found or {"causes": []})
    except (ValueError, StoreError) as error:
        raise StoreError(
            f"{run.path / CAUSES}: {error}",
            "remove this file, and run 'rtgauge explain' again. The run itself is not affected",
        ) from None
    return list(found.get("causes", ()))


def _described(catalogue: Any, measurement: str) -> list[Document]:
    """The series of a measurement in the catalogue of the run."""
    for one in (catalogue or {}).get("measurements") or ():
        if one.get("name") == measurement:
            return list(one.get("series") or ())
    return []


def _composed(stages: Sequence[Stage], top: int | None) -> Document | None:
    """The stages of a series and their sum. None without stages, or if a sample of the series
    exceeds the sum because one of its stages was not kept."""
    total = sum(stage.max for stage in stages)
    if not stages or top is None or total < top:
        return None
    return {"max": total, "stages": [{"name": one.name, "max": one.max} for one in stages]}


def _chapters(catalogue: Any) -> dict[str, str]:
    """Measurement -> its chapter of an evaluation, from the catalogue of the run."""
    return {
        str(one.get("name")): str(one.get("chapter") or "")
        for one in (catalogue or {}).get("measurements") or ()
    }


def _not_on_core(step: Document, catalogue: Any) -> str:
    """Why the core that was asked for does not offer a step that was skipped; else empty."""
    if step["state"] != "skipped" or step["run_options"].get("core") != "cobalt":
        return ""
    for one in (catalogue or {}).get("measurements") or ():
        if one.get("name") == step["measurement"]:
            return str(one.get("not_on_cobalt") or "")
    return ""


def _unseen_gaps(catalogue: Any, measurement: str) -> str | None:
    """The series of a measurement whose samples are gaps that the kernel did not see."""
    for one in (catalogue or {}).get("measurements") or ():
        if one.get("name") == measurement and one.get("unseen_gaps"):
            return str(one["unseen_gaps"])
    return None


def _rhythms(catalogue: Any) -> set[str]:
    """Measurements whose task sleeps and wakes, on a grid or not, and so covers the whole duration.
    Others without a grid repeat an operation, in turns with other series."""
    return {
        str(one.get("name"))
        for one in (catalogue or {}).get("measurements") or ()
        if any(series.get("from") == "due time" for series in one.get("series") or ())
    }


def _has_time_grid(step: Document, catalogue: Any, rhythms: set[str]) -> bool:
    """Whether the measurement of a step, one of ``rhythms``, has the option ``interval``."""
    return step["measurement"] in rhythms and any(
        option.get("name") == "interval"
        for one in (catalogue or {}).get("measurements") or ()
        if one.get("name") == step["measurement"]
        for option in one.get("options") or ()
    )


def _limitations(catalogue: Any) -> dict[tuple[str, str], str]:
    """(measurement, rule) -> why the rule fails on every system with the target's C library, as the
    agent that measured declared it. Catalogues of older agents declare none."""
    return {
        (str(one.get("name")), str(rule.get("rule"))): str(rule["known_limitation"])
        for one in (catalogue or {}).get("measurements") or ()
        for rule in one.get("verdicts") or ()
        if rule.get("known_limitation")
    }


def _known(state: object) -> str:
    """A state of the model; an unknown one, from a newer or damaged run, counts as failed."""
    return state if isinstance(state, str) and state in _STATES else "failed"


def _has_results(step: StoredStep) -> bool:
    """Whether anything was measured."""
    tested = any(one.result != "skipped" for one in step.verdicts)
    return bool(step.tables or tested) or any(
        one.totals.count or one.totals.missed or one.totals.lost for one in step.series
    )


def _environment(run: StoredRun) -> Document:
    """The environment as the run recorded it, with the settings of all steps with results."""
    recorded = dict(run.document.get("environment") or {})
    settings: dict[str, Document] = dict(recorded.get("settings") or {})
    for step in run.steps:
        for setting in step.settings if _has_results(step) else ():
            known = settings.get(setting.name)
            if known is not None and not setting.reason and setting.effective == setting.asked:
                continue  # a later setting must not hide an earlier one that had no effect
            settings[setting.name] = {
                "asked": setting.asked,
                "effective": setting.effective,
                "before": setting.before,
                "reason": setting.reason,
            }
    header = next((step.header for step in run.steps if step.header is not None), None)
    recorded.setdefault("kernel", {})
    recorded.setdefault("cpu", {})
    recorded.setdefault("libc", header.libc if header is not None else "")
    recorded["compiler"] = header.compiler if header is not None else ""
    recorded.setdefault("realtime", "unknown")
    recorded["settings"] = settings
    measured = [step for step in run.steps if _has_results(step)] or run.steps
    recorded["core"] = next(
        (
            {"name": step.header.core, "revision": step.header.core_revision}
            for step in measured
            if step.header is not None and step.header.core is not None
        ),
        None,
    )
    return recorded


# --- background activity -------------------------------------------------------------


def _measured(
    watched: Sequence[tuple[StoredStep, background.Watched]],
) -> list[tuple[str, list[int], background.Watched]]:
    """The steps that measure (calibrations where there is no other), for the findings."""
    asked = [one for one in watched if one[0].document.get("role", "measurement") == "measurement"]
    return [
        (
            background.place(_measurement(step), step.number),
            sorted({series.info.cpu for series in step.series if series.info.cpu >= 0}),
            one,
        )
        for step, one in asked or watched
    ]


def _background_step(number: int, run: StoredRun) -> Document:
    """The step of the background activity."""
    return {
        "step": number,
        "measurement": background.MEASUREMENT,
        "role": background.ROLE,
        "parameters": {},
        "asked": {},
        "run_options": {},
        "load": {
            "name": "idle",
            "work_rate": None,
            "unit": "",
            "loads": [],
            "interrupts_per_s": None,
        },
        "state": "complete",
        "reason": "",
        "remedy": "",
        "command": "",
        "first_try": None,
        "duration_s": run.document.get("duration_s"),
        "budget": None,
        "stream": None,
        "events": [],
        "chapter": "",
        "observations": [],
        "published": [],
        "places": [],
    }


# --- a step --------------------------------------------------------------------------------------


def _measurement(step: StoredStep) -> str:
    name = step.document.get("measurement")
    if name is None and step.header is not None:
        name = step.header.measurement
    return str(name or "")


def _budget(step: StoredStep) -> Document | None:
    """The requirement that was given; without a rate (None) it must never be exceeded."""
    budget = step.document.get("budget_ns")
    if budget is None:
        return None
    rate = step.document.get("rate_per_hour")
    return {"budget_ns": int(budget), "rate_per_hour": None if rate is None else float(rate)}


def _step_state(step: StoredStep) -> tuple[str, str, str]:
    """State, reason and remedy."""
    source = step.document
    state, reason, remedy = (
        _known(source.get("state")),
        str(source.get("reason") or ""),
        str(source.get("remedy") or ""),
    )
    failure = load_failure(step.told)
    if failure is not None and state in ("complete", "interrupted", "running"):
        state, (reason, remedy) = "failed", failure
    return state, reason, remedy


def _plan(found: Any) -> Document:
    """The plan of a run. The steps of one from elsewhere may be of any shape: they become maps, and
    their parameters texts."""
    plan = dict(found or {})
    if "steps" in plan:
        steps = plan["steps"] if isinstance(plan["steps"], list) else []
        plan["steps"] = [_planned_step(one) for one in steps]
    return plan


def _planned_step(found: Any) -> Document:
    step = dict(found) if isinstance(found, Mapping) else {}
    asked = step.get("parameters")
    texts = asked.items() if isinstance(asked, Mapping) else ()
    return {**step, "parameters": {name: one for name, one in texts if isinstance(one, str)}}


def _planned(plan: Any, number: int) -> Document:
    """A step as the plan has it: the steps of a run are counted as those of its plan."""
    steps = (plan or {}).get("steps")
    planned = steps[number] if isinstance(steps, list) and number < len(steps) else {}
    return dict(planned) if isinstance(planned, Mapping) else {}


# Keys of a step in run.json, and the options of the run that they became.
_OLDER: Final = {
    "load": "load",
    "load_command": "load-cmd",
    "mark": "mark",
    "disturb": "disturb",
    "load_cpu": "load-cpu",
    "histogram_only": "histogram-only",
    "keep_settings": "keep-settings",
    "prepare": "prepare",
}


def _run_options(step: StoredStep, planned: Document) -> dict[str, str | bool]:
    """The options of the run that the step was given. Steps of older runs do not contain them as
    such: they are found in the plan, or else in the step."""
    source = step.document
    options = source.get("run_options")
    if options is None:
        stored = {key: source.get(key) for key in ("load", "load_command", "disturb")}
        stored.update(planned)
        if not stored["disturb"] and step.header is not None:
            stored["disturb"] = step.header.disturb
        options = {
            name: stored[key]
            for key, name in _OLDER.items()
            if stored.get(key) not in (None, "", "idle", False)
        }
        if not {"load", "load-cmd"} & set(options):
            options.pop("load-cpu", None)
    return {str(name): True if value is True else str(value) for name, value in options.items()}


def _step(step: StoredStep, chapter: str, planned: Document, target: str) -> Document:
    source = step.document
    state, reason, remedy = _step_state(step)
    command = str(source.get("command") or "")
    remedy, command = checked(remedy, command, target)
    parameters = {str(name): str(value) for name, value in (source.get("parameters") or {}).items()}
    if step.header is not None:
        parameters = {name: value.effective for name, value in step.header.parameters.items()}
    end = step.end
    carried_out = end is not None and (step.header is not None or end.records or end.dropped_bytes)
    return {
        "step": step.number,
        "measurement": _measurement(step),
        "role": source.get("role", "measurement"),
        "parameters": parameters,
        "asked": {str(k): str(v) for k, v in (source.get("parameters") or {}).items()},
        "run_options": _run_options(step, planned),
        "load": _load(step),
        "core": step.header and (step.header.core or "linux"),
        "state": state,
        "reason": reason,
        "remedy": remedy,
        "command": command,
        "first_try": source.get("first_try"),
        "duration_s": source.get("duration_s"),
        "budget": _budget(step),
        "stream": None
        if not carried_out
        else {
            "complete": end.complete,
            "records": end.records,
            "lost_records": end.lost_records,
            "dropped_bytes": end.dropped_bytes,
            "reason": end.reason,
        },
        "events": _told(step),
        "chapter": chapter,
        "observations": [],
        "published": [],
        "places": [],
    }


def _load(step: StoredStep) -> Document:
    name = step.document.get("load")
    if name is None and step.header is not None:
        name = step.header.load
    sums: dict[str, tuple[str, int, int, int]] = {}
    for work in step.work:
        unit, done, start, stop = sums.get(work.load, (work.unit, 0, work.from_ns, work.to_ns))
        sums[work.load] = (
            unit,
            done + work.count,
            min(start, work.from_ns),
            max(stop, work.to_ns),
        )
    loads = [
        {
            "name": load,
            "unit": unit,
            "work": done,
            "work_rate": done * 1e9 / (stop - start) if stop > start else None,
        }
        for load, (unit, done, start, stop) in sums.items()
    ]
    first = loads[0] if loads else {"work_rate": None, "unit": ""}
    name = str(name or "idle")
    command = step.document.get("load_command")
    if command:
        name = "command" if name == "idle" else f"{name},command"
    disturb = step.document.get("disturb")
    if disturb is None and step.header is not None:
        disturb = step.header.disturb
    if disturb:  # such a step must not be taken for one that was left alone
        disturbed = f"disturb:{disturb}"
        name = disturbed if name == "idle" else f"{name},{disturbed}"
    return {
        "name": name,
        **({"command": str(command)} if command else {}),
        **({"disturb": str(disturb)} if disturb else {}),
        "work_rate": first["work_rate"],
        "unit": first["unit"],
        "loads": loads,
        "interrupts_per_s": None,
    }


def _told(step: StoredStep) -> list[Document]:
    events: list[Document] = []
    for event in step.told:
        if event.event not in _TOLD or len(events) == EVENT_LIMIT:
            continue
        fields = dict(event.fields)
        if isinstance(value := fields.get("value"), int):
            fields["value"] = numbers.shown(value, "ns").full
        words = {
            "setting": "{name} was changed from {expected} to {found} during the measurement",
            "load": "load {load}: {message}",
            "threshold": "stopped: a sample of {value} exceeded --stop-above",
            "message": "{text}",
        }[event.event]
        events.append(
            {
                "event": event.event,
                "time_s": event.time_ns / 1e9,
                "text": words.format_map(_Fields(fields)),
            }
        )
    return events


class _Fields(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"


def _table(step: StoredStep, table: Any) -> Document:
    return {
        "step": step.number,
        "name": table.name,
        "columns": [{"name": column.name, "unit": column.unit} for column in table.columns],
        "rows": [list(row) for row in table.rows],
    }


def _test(
    step: StoredStep, test: Any, limitations: Mapping[tuple[str, str], str], target: str
) -> Document:
    """A test of behaviour. Only a failed one has a known limitation."""
    measurement = _measurement(step)
    known = limitations.get((measurement, test.rule)) if test.result == "fail" else None
    remedy, command = checked(test.remedy, test.command, target)
    return {
        "step": step.number,
        "measurement": measurement,
        "rule": test.rule,
        "result": test.result,
        "known_limitation": known,
        "evidence": test.evidence,
        "remedy": remedy,
        "command": command,
    }


# --- a series ------------------------------------------------------------------------------------


def _series(
    step: StoredStep,
    stored: StoredSeries,
    figures: gather.Figures,
    timed: bool,
    realtimes: Mapping[int, int],
) -> Document:
    info, counts = stored.info, figures.counts
    open_ = 0 if figures.unanswered is None else figures.unanswered.count
    samples = figures.kept + open_
    effective = samples if open_ else stats.effective_of_maximum(samples, figures.clustering)
    unseen = figures.unseen
    bound = stats.bound_of_run(
        samples + unseen,
        figures.duration_s,
        CONFIDENCE,
        exceedances=open_ + unseen,
        timed=timed,
        effective=effective + unseen,
        unseen_s=unseen * info.interval_ns / 1e9,
    )
    corrected = None
    if figures.corrected is not None:
        corrected = {
            "max": figures.corrected.max,
            "percentiles": stats.percentile_table(figures.corrected),
        }
    return {
        "step": step.number,
        "measurement": _measurement(step),
        "name": info.name,
        "context": info.context,
        "number": info.series,
        "labels": dict(info.labels),
        "unit": info.unit,
        "cpu": info.cpu,
        "thread": info.thread,
        "policy": info.policy,
        "priority": info.priority,
        "interval_ns": info.interval_ns,
        "stamp_ns": info.stamp_ns,
        "count": figures.taken,
        "first": figures.first,
        "min": counts.min,
        "mean": counts.mean,
        "max": figures.max,
        "max_at": _max_at(figures, realtimes),
        "max_at_least": _at_least(figures),
        "unanswered": open_,
        "doubt": _doubt(step, stored),
        "unattributed": _unattributed_samples(step, stored),
        "unattributed_max": _answers_of(step, stored).get("ambiguous_max"),
        "percentiles": gather.percentiles([figures]),
        "percentile_ci": {
            name: list(interval) for name, interval in gather.intervals(figures, CONFIDENCE).items()
        },
        "effective_samples": None if figures.effective is None else dict(figures.effective),
        "clustering": _clustering(figures.clustering),
        "groups": [list(one) for one in figures.groups],
        "spread": _spread(stored, figures),
        "rest": figures.rest,
        "missed": figures.missed,
        "lost": figures.lost,
        "overruns": figures.overruns,
        "corrected": corrected,
        "bound": {
            "samples": samples,
            "effective_samples": effective,
            "duration_s": bound.duration_s,
            "confidence": bound.confidence,
            "probability": bound.probability,
            "rate_per_hour": bound.rate_per_hour,
            "period_s": bound.period_s,
            "condition": INDEPENDENT if open_ else None,
        },
        "source": "samples" if counts.exact else "histogram",
        "histogram": histogram_of(counts),
    }


def _realtimes(
    step: StoredStep, figures: Mapping[tuple[int, int], gather.Figures]
) -> dict[int, int]:
    """Due times (ns) of the maxima of a step -> the same by the target's clock, as it was read last
    before, because it may be set during a step. Empty if the step did not begin."""
    tops = [figures[step.number, stored.info.series].max_at for stored in reported(step)]
    times_ns = {top[1] for top in tops if top is not None}
    if step.header is None or not times_ns:
        return {}
    start_ns = step.header.start_ns
    found: dict[int, ClockReading | Clock] = dict.fromkeys(times_ns, step.header.clock)
    for clock in step.clocks:
        for time_ns in times_ns:
            if clock.monotonic_ns <= start_ns + time_ns:
                found[time_ns] = clock
    return {
        time_ns: clock.realtime_ns - clock.monotonic_ns + start_ns + time_ns
        for time_ns, clock in found.items()
    }


def _max_at(figures: gather.Figures, realtimes: Mapping[int, int]) -> Document | None:
    """The index of the maximum and when it was due: since the step began, and by the clock of the
    target."""
    if figures.max_at is None:
        return None
    (index, due_ns), clock = figures.max_at, None
    if due_ns in realtimes:
        with contextlib.suppress(ValueError, OverflowError, OSError):
            moment = EPOCH + timedelta(microseconds=realtimes[due_ns] // 1000)
            clock = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"index": index, "time_s": due_ns / 1e9, "clock": clock}


def _clustering(found: stats.Clustering | None) -> Document | None:
    if found is None:
        return None
    return {
        "extremal_index": found.index,
        "group": found.group if found.clustered else 1.0,
        "exceedances": found.exceedances,
        "clustered": found.clustered,
    }


def _spread(stored: StoredSeries, figures: gather.Figures) -> float | None:
    """The 99.9 % value over the median, corrected where periods were skipped. None where either is
    not known or not positive, and where events were not answered."""
    info = stored.info
    if info.unit != "ns" or (figures.missed and waits_for_answers(info.name, info.unit)):
        return None
    table = stats.percentile_table(figures.corrected or figures.counts)
    median, high = table.get("50"), table.get("99.9")
    return high / median if high is not None and median is not None and median > 0 else None


def _at_least(figures: gather.Figures) -> int | None:
    """Lower limit of the maximum where an event was not answered, or a missed period was later than
    every sample; else None."""
    if figures.unanswered is not None and figures.unanswered.max is not None:
        return max(figures.unanswered.max, figures.max or 0)
    if figures.starved_ns:
        return figures.starved_ns
    latest = None if figures.corrected is None else figures.corrected.max
    if latest is None or figures.max is None or latest <= figures.max:
        return None
    return latest


def _held(
    step: StoredStep,
    stored: StoredSeries,
    figures: gather.Figures,
    budget: Document,
    timed: bool,
) -> Held:
    """A series held against the budget, by the corrected distribution if there is one."""
    limit, info = budget["budget_ns"], stored.info
    counts = figures.counts if figures.corrected is None else figures.corrected
    counted = things(info.name, info.unit, info.context, info.interval_ns)
    over, within = figures.lost_over(limit), figures.lost_within(limit)
    unknown = figures.unknown + figures.lost - within - over
    # An event without an answer exceeds every budget up to the time waited for the answer.
    missing = figures.unanswered
    late = 0 if missing is None else missing.exceeding(limit - 1)
    # So does a missed period up to the time from it to the last one, if there is no sample.
    starved = gather.starved_over(figures.starved_ns, info.interval_ns, limit)
    unsure = counts.unsure(limit)
    known = counts.exceeding(limit) - unsure + over + starved
    unknown += unsure - starved
    unknown += 0 if missing is None else missing.count - late
    exceedances = known + late
    count = counts.count - unsure + over + within + late + starved
    episodes = figures.episodes
    if episodes is not None:
        low, high = episodes
        if exceedances * stats.NEAR > count:  # episodes run into each other
            low, high = min(max(low, figures.adjacent), exceedances), exceedances
        episodes = (max(low, min(exceedances, 1)), min(max(high, min(exceedances, 1)), exceedances))
    return Held(
        limit,
        budget["rate_per_hour"],
        exceedances,
        count,
        figures.duration_s if timed else None,
        unknown,
        counted if not figures.missed else "periods due" if missing is None else "events",
        episodes,
        stats.effective_of_maximum(count, figures.clustering),
        0 if missing is None else missing.count,
        None if missing is None else _waits(missing),
        tuple(_doubts(step, stored)),
        _uncertain(step, stored, known, limit),
        late,
        figures.counts.exact,
        unsure,
    )


def _waits(missing: stats.Counts) -> tuple[int, int] | None:
    """The shortest and the longest wait for an event without an answer; None without one."""
    if missing.min is None or missing.max is None:
        return None
    return missing.min, missing.max


def _budget_verdict(step: StoredStep, held: Held) -> Document:
    """Judge a series against the budget."""
    judged = held.judged(CONFIDENCE)
    remedy = judged.remedy
    samples = None
    limit = {} if step.header is None else step.header.parameters
    # Neither limit must end the step before the other one.
    if "samples" in limit and limit["samples"].asked not in (None, "", "0"):
        remedy = remedy.replace("(--for ", "(--samples 0 --for ")
    if judged.again_samples is not None:
        samples = _more_samples(step, judged.count + held.unknown, judged.again_samples)
        endless = "for" not in limit or limit["for"].effective in ("", "0")
        words = f"--samples {samples}" + ("" if endless else " --for 0")
        remedy = remedy.replace(f"--samples {judged.again_samples}", words)
    said = verdict_on(held, judged, remedy)
    why = held.doubts[-1][0] if held.doubts else judged.doubt
    longer = said["result"] == "inconclusive" and not why
    return {
        "budget_ns": held.budget_ns,
        "rate_per_hour": held.rate_per_hour,
        **said,
        "bound_per_hour": judged.bound_per_hour,
        "exceedances": judged.exceedances,
        "unknown": held.unknown,
        "doubt": why if said["result"] == "inconclusive" else "",
        "needed_s": judged.again_s if longer else None,
        "needed_samples": samples if longer else None,
    }


def _more_samples(step: StoredStep, count: int, needed: int) -> int:
    """The number of samples to ask for. A series may get only part of the samples of its step."""
    parameters = {} if step.header is None else step.header.parameters
    asked = parameters.get("samples")
    if asked is not None and asked.effective.isdecimal() and count:
        return max(needed, -(-needed * int(asked.effective) // count))
    return needed


def _doubts(step: StoredStep, stored: StoredSeries) -> list[tuple[str, str]]:
    """Why the measurement is not the one asked for, each with its remedy. Such a series never
    passes, however good its values are, and a longer run does not help."""
    doubts = []
    asked = step.header.parameters.get("priority") if step.header is not None else None
    if asked is not None and asked.asked != "0" and stored.info.policy in ORDINARY:
        doubts.append(
            (
                "measured without the real-time priority asked for "
                f"(SCHED_{stored.info.policy.upper()})",
                "allow the agent real-time priority ('rtgauge check' prints how), and measure "
                "again",
            )
        )
    if _step_state(step)[0] == "failed":
        doubts.append(("the step failed", "run the step again"))
    if unattributed := _unattributed(step, stored):
        doubts.append(unattributed)
    return doubts


def _doubt(step: StoredStep, stored: StoredSeries) -> str:
    """Why the values of a series may be those of other events; empty if they are its own."""
    unattributed = _unattributed(step, stored)
    return "" if unattributed is None else unattributed[0]


def _answers_of(step: StoredStep, stored: StoredSeries) -> dict[str, int]:
    """The table ``answers`` of a series of answers; empty for other series."""
    told: dict[str, int] = {}
    if is_response(stored.info.name, stored.info.unit):
        for table in step.tables:
            for row in table.rows if table.name == "answers" else ():
                cells = zip((column.name for column in table.columns), row, strict=False)
                told |= {name: cell for name, cell in cells if isinstance(cell, int)}
    return told


def _unattributed_samples(step: StoredStep, stored: StoredSeries) -> int:
    """Number of samples that may be answers to other events. Captures keep the samples of events
    whose answers are ambiguous, log hosts do not."""
    told = _answers_of(step, stored)
    counted = sum(told.get(name, 0) for name in ("answered", "unanswered", "ambiguous"))
    return max(counted - told["raised"], 0) if "raised" in told else 0


def _uncertain(step: StoredStep, stored: StoredSeries, known: int, limit: int) -> int:
    """How many of ``known`` samples above a limit may be answers to other events. Captures tell the
    longest of these answers."""
    longest = _answers_of(step, stored).get("ambiguous_max")
    if longest is not None and longest <= limit:
        return 0
    return min(_unattributed_samples(step, stored), known)


def _unattributed(step: StoredStep, stored: StoredSeries) -> tuple[str, str] | None:
    """The doubt whether answers are credited to the right events, with its remedy, from the table
    ``answers`` of log hosts and captures; None without a doubt."""
    told = _answers_of(step, stored)
    ambiguous = told.get("ambiguous", 0)
    seen = stored.histogram.max if stored.histogram is not None else 0
    longest = f", {numbers.microseconds(seen)}" if seen > 0 else ""
    remedy = (
        f"generate events at an interval above the longest delay seen{longest}, or record a "
        "capture from before the first event until after the last answer"
    )
    if ambiguous:
        events = "event" if ambiguous == 1 else "events"
        return f"the answers to {ambiguous} {events} may belong to other events", remedy
    # A run without this column is from a version that credited late answers to the next event. If
    # the delay was constant, only the first events had no answer.
    if "ambiguous" not in told and told.get("unanswered"):
        return (
            "some events had no answer, and the version of rtgauge that measured them credited "
            "late answers to the wrong events",
            remedy,
        )
    if told.get("unanswered") and told.get("double"):
        return (
            "some events had no answer and some edges answered no event: late answers may "
            "be credited to the wrong events",
            remedy,
        )
    return None
