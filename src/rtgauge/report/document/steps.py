# SPDX-License-Identifier: Apache-2.0
"""A step in the HTML report: definition, tables, pictures, verdicts and observations.

Step 11 of the path of a sample: what the results model and ``pictures`` say of one step becomes
what the template shows and, in ``Shared``, the data that static/report.js draws. What a measurement
is called, means and spans comes from the catalogue that the run carries. No name is known here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report import pictures
from rtgauge.report.document.drawn import against_view, drawn_views
from rtgauge.report.document.published import published_figure, published_table
from rtgauge.report.document.tables import (
    Named,
    figures_table,
    more_table,
    plain_table,
)
from rtgauge.report.pictures.persistence import (
    Base,
    captions,
    persistence,
    trace_of,
    waveforms,
)
from rtgauge.report.pictures.strips import strips
from rtgauge.report.results.labels import (
    RESULTS,
    UNLOADED_TEXTS,
    added_text,
    budget_of,
    capital,
    claim,
    group_series,
    is_response,
    judged,
    length_text,
    peak,
    series_labels,
    step_name,
    step_number,
    waits_for_answers,
    work_text,
)
from rtgauge.report.results.model import Analysis, Document
from rtgauge.report.results.points import Point, on_a_grid
from rtgauge.report.results.published import place_text
from rtgauge.report.results.sequences import is_sequence, sequences

__all__ = ["Shared", "step_facts", "step_view"]

ROW_LIMIT: Final = 12
WORST_ROWS: Final = 6

FEW_TIMES: Final = 5
"""Minimum number of distinct times for a picture over time."""

_OFF: Final = re.compile(r"0+(\.0+)? ?[a-z]*|no|")
"""Default values of options that request nothing."""


@dataclass
class Shared:
    """Data collected while the page is built, and the limits on its number of points."""

    budget: pictures.Budget
    data: dict[str, Any] = field(default_factory=dict)
    bases: tuple[Base, Base | None] | None = None
    """The time bases that all pictures of answers to events share."""
    responses: int = 0
    """Number of series in such pictures."""


def step_view(
    analysis: Analysis,
    number: int,
    step: Document,
    definition: Mapping[str, Any],
    shared: Shared,
    prefix: str,
) -> dict[str, Any]:
    """What the template shows of a step of run ``number``. Adds the data of its pictures to
    ``shared``. ``definition``: its measurement in the catalogue; ``prefix``: of its anchors."""
    run = analysis.model["runs"][number]
    anchor = f"{prefix}step-{step_number(step)}"
    places = [p for p, one in enumerate(run["series"]) if one["step"] == step["step"]]
    groups = [
        _group(
            analysis,
            number,
            step,
            definition,
            members,
            f"{anchor}-q{index}",
            shared,
            not index,
        )
        for index, members in enumerate(group_series(run["series"], places))
    ]
    summary = str(definition.get("summary") or "") or step["measurement"]
    short = step_name(run, step)
    title = summary[:1].upper() + summary[1:]
    apart = short.removeprefix(step["measurement"]).removeprefix(": ")
    if words := apart or _method(step, [run["series"][place] for place in places], definition):
        title += f" ({words})"
    load = added_text(step["load"])
    if step["role"] == "measurement":
        known = {"unknown": "load unknown"} | {one: one for one in UNLOADED_TEXTS}
        title += f", {known.get(load, f'under load {load}')}"
    code = definition.get("code")
    number_shown = step_number(step)
    kicker = f"Step {number_shown} · {step['measurement']}" + (f" · {code}" if code else "")
    if step["role"] == "calibration":
        kicker += " · calibration"
    meanings = {
        str(t.get("name")): str(t.get("meaning") or "") for t in definition.get("tables", ())
    }
    return {
        "step": step,
        "anchor": anchor,
        "number": number_shown,
        "short": short,
        "link": short + ("" if load in ("idle", "unknown") else f", {load}"),
        "title": title,
        "summary": capital(summary),
        "kicker": kicker,
        "trouble": _trouble(step),
        "facts": step_facts(step, definition, [run["series"][place] for place in places]),
        "groups": groups,
        "tables": [
            plain_table(table, meanings.get(table["name"], ""))
            for table in run["tables"]
            if table["step"] == step["step"] and not is_sequence(table)
        ],
        "orders": [
            plain_table(table, meanings.get(table["name"], ""))
            for table in run["tables"]
            if table["step"] == step["step"] and is_sequence(table)
        ],
        "sequences": sequences(run, step["step"]),
        "published": published_table(run, step),
        "ranges": published_figure(run, step),
        "places": [f"{place_text(one, run)}." for one in step["places"]],
        "chapter": step["chapter"],
        "page": _page(definition),
        "verdicts": _verdict_rows(run, step["step"]),
        "observations": _observations(run, step),
    }


def _method(step: Document, series: Sequence[Document], definition: Mapping[str, Any]) -> str:
    """The method of a step that used one of several: the value of the first option that chooses
    among them and is a label of its series. Empty without such an option, or if it has
    several values."""
    labels = {name for one in series for name in one["labels"]}
    for option in definition.get("options") or ():
        name = str(option.get("name"))
        if name in labels and option.get("type") in ("enum", "enums"):
            value = str(step["parameters"].get(name) or "")
            return "" if "," in value else value
    return ""


def _page(definition: Mapping[str, Any]) -> str:
    """The page of the manual on a measurement; empty if its name is not valid."""
    name = str(definition.get("name") or "")
    return f"docs/measurements/{name}.md" if re.fullmatch("[a-z0-9-]+", name) else ""


def _trouble(step: Document) -> dict[str, str] | None:
    if step["state"] in ("complete",):
        return None
    title = {
        "failed": "This step failed",
        "skipped": "This step was skipped",
        "interrupted": "This step was interrupted",
        "running": "This step has not ended",
    }[step["state"]]
    text = ". ".join(capital(part.rstrip(".")) for part in (step["reason"], step["remedy"]) if part)
    failed = step["state"] == "failed"
    return {
        "cls": "fail" if failed else "warn",
        "sign": "fail!" if failed else "warn!",
        "title": title,
        "text": text + "." if text else "No reason was recorded.",
    }


def step_facts(
    step: Document, definition: Mapping[str, Any], series: Sequence[Document] = ()
) -> list[Named]:
    """Load, options, budget and length, and the cost of a time stamp that was subtracted from the
    ``series``. Options at a default that requests nothing (0, no, empty) are left out, and empty
    options without effect."""
    load = step["load"]
    name = added_text(load) if "others" in load else load["name"]
    facts = [Named("Load", name, work_text(load))]
    if load.get("command"):
        facts.append(Named("Load command", load["command"]))
    defaults = {
        str(option.get("name")): str(option.get("default") or "")
        for option in definition.get("options") or ()
    }
    facts += [
        Named(name, value or "–")
        for name, value in step["parameters"].items()
        if not (_OFF.fullmatch(value) and _OFF.fullmatch(defaults.get(name, "?")))
        and not (value == "" and defaults.get(name))
    ]
    if step["budget"] is not None:
        rate = step["budget"]["rate_per_hour"]
        facts.append(
            Named(
                "Budget",
                numbers.microseconds(step["budget"]["budget_ns"]),
                "never to be exceeded"
                if not rate
                else "may be exceeded once an hour"
                if rate == 1
                else f"may be exceeded {rate:g} times an hour",
            )
        )
    facts.append(Named("Length", length_text(step)))
    stamps = {one["stamp_ns"] for one in series if one["stamp_ns"] is not None}
    if stamps:
        text = numbers.shown(min(stamps), "ns").full
        if len(stamps) > 1:
            text = f"{text} to {numbers.shown(max(stamps), 'ns').full}"
        facts.append(Named("Time stamp", text, "its cost, subtracted from each duration"))
    return facts


def _observations(run: Document, step: Document) -> list[Point]:
    observations = []
    if step["state"] == "complete" and step["reason"]:
        kind = "note" if step["first_try"] is None else "warn"
        observations.append(Point(kind, f"{capital(step['reason']).rstrip('.')}."))
    stream = step["stream"]
    if stream is not None:
        if stream["lost_records"]:
            observations.append(
                Point(
                    "fail",
                    f"{numbers.plural(stream['lost_records'], 'record')} of the stream lost.",
                )
            )
        if step["state"] != "running" and (stream["dropped_bytes"] or not stream["complete"]):
            text = f"The stream is not complete: {stream['reason'] or 'it has no trailer'}."
            note = (
                f"{numbers.plural(stream['dropped_bytes'], 'byte')} dropped after the last good "
                "record."
                if stream["dropped_bytes"]
                else ""
            )
            observations.append(Point("warn", text, note))
    for event in step["events"]:
        kind = "note" if event["event"] in ("message", "threshold") else "warn"
        observations.append(Point(kind, event["text"], f"at {numbers.duration(event['time_s'])}"))
    members = [one for one in run["series"] if one["step"] == step["step"]]
    missed = [one for one in on_a_grid(members) if one["missed"]]
    answers = [one for one in missed if waits_for_answers(one["name"], one["unit"])]
    periods = [one for one in missed if one not in answers]
    if answers:
        count = sum(one["missed"] for one in answers)
        observations.append(
            Point(
                "warn",
                f"{numbers.plural(count, 'event')} had no answer in time.",
                "Their delays are unknown, so these events are counted but have no samples.",
            )
        )
    if periods:
        count = sum(one["missed"] for one in periods)
        overruns = sum(one["overruns"] for one in periods)
        where = f" in {numbers.plural(overruns, 'overrun')}" if overruns else ""
        delays = "The corrected figures contain their delays."
        if unknown := sum(one["corrected"] is None for one in periods):
            delays = "Their delays are unknown."
            if unknown < len(periods):
                delays = "The corrected figures contain the delays of some."
        observations.append(
            Point(
                "warn",
                f"{'1 period was' if count == 1 else f'{numbers.count(count)} periods were'} "
                f"missed{where}.",
                f"Missed periods have no samples. {delays}",
            )
        )
    observations += [Point("note", one["text"]) for one in step["observations"]]
    kept = [one for one in members if one["source"] == "histogram"]
    if kept and "printed" not in run["environment"]:
        # of a series that is in its histogram as a whole, the first sample is not known
        whole = len(kept) == len(members) and all(one["first"] is None for one in kept)
        observations.append(
            Point(
                "note",
                f"{'The' if whole else 'Some'} samples are in histograms only: values other than "
                "min and max are rounded up by at most 1/128.",
            )
        )
    return observations


def _verdict_rows(run: Document, step: int) -> list[dict[str, str]]:
    """The verdicts and tests of a step, failures first; series with the same outcome share a
    row."""
    places = [p for p, one in enumerate(run["series"]) if one["step"] == step]
    names: dict[int, str] = {}
    groups = group_series(run["series"], places)
    for members in groups:
        labels = series_labels([run["series"][p] for p in members])
        prefix = f"{run['series'][members[0]]['name']}, " if len(groups) > 1 else ""
        names.update({p: prefix + label for p, label in zip(members, labels, strict=True)})
    keys = ("rule", "result", "evidence", "remedy")
    same: dict[tuple[str, ...], list[str]] = {}
    for one in judged(run, step):
        whose = same.setdefault(tuple(one[key] for key in keys), [])
        if one["series"] in names:
            whose.append(names[one["series"]])
    rows = []
    for (rule, result, evidence, remedy), whose in sorted(
        same.items(), key=lambda item: RESULTS.index(item[0][1])
    ):
        everyone = len(whose) == len(places) > 2
        rows.append(
            {
                "rule": rule,
                "whose": f"all {numbers.count(len(whose))} series"
                if everyone
                else "; ".join(whose),
                "result": result,
                "evidence": evidence,
                "remedy": remedy,
            }
        )
    return rows


def _most(shown: int, number: int) -> str:
    """The words of a caption for a table of part of the series; empty for all of them."""
    return (
        f"; the {shown} of {numbers.count(number)} series with the highest maxima"
        if shown < number
        else ""
    )


def _group(
    analysis: Analysis,
    number: int,
    step: Document,
    definition: Mapping[str, Any],
    members: Sequence[int],
    name: str,
    shared: Shared,
    first: bool,
) -> dict[str, Any]:
    """``first``: the quantity whose picture over time has strips with loads and background."""
    run = analysis.model["runs"][number]
    series = [run["series"][place] for place in members]
    labels = series_labels(series)
    unit = series[0]["unit"]
    described: Mapping[str, Any] = next(
        (s for s in definition.get("series") or () if s.get("name") == series[0]["name"]), {}
    )
    title = series[0]["name"][:1].upper() + series[0]["name"][1:]
    if series[0]["context"]:
        title += f" in {series[0]['context']} context"
    swatches = [f"{at} {len(series)}" if len(series) > 1 else "" for at in range(len(series))]
    budget = budget_of(step, unit)
    table = figures_table(series, labels, swatches, unit, budget=budget)
    everything, listed = None, list(range(len(series)))
    detailed = listed
    order = ranked = sorted(listed, key=lambda at: -(peak(series[at]) or 0))
    if len(series) > ROW_LIMIT:
        listed = sorted(order[: max(round(len(series) * shared.budget.rows_in), WORST_ROWS)])
        order = order[:WORST_ROWS]
        detailed = listed if len(listed) == len(series) else order
        everything = figures_table(
            [series[at] for at in listed],
            [labels[at] for at in listed],
            [swatches[at] for at in listed],
            unit,
            _most(len(listed), len(series)),
            budget,
        )
        table = figures_table(
            [series[at] for at in order],
            [labels[at] for at in order],
            [swatches[at] for at in order],
            unit,
            _most(WORST_ROWS, len(series)),
            budget,
        )
    views = _pictures(analysis, number, step, members, labels, name, shared, first)
    return {
        "id": name,
        "places": list(members),
        "labels": labels,
        "ranked": [labels[at] for at in ranked],
        "title": title,
        "meaning": capital(str(described.get("meaning") or "")),
        "start": str(described.get("from") or ""),
        "end": str(described.get("to") or ""),
        "way": _way(_stages(described, series[0]["context"])),
        "sentences": [claim(series, labels, budget)],
        "table": table,
        "all": everything,
        "all_summary": f"All {numbers.count(len(series))} series"
        if len(listed) == len(series)
        else f"{len(listed)} of {numbers.count(len(series))} series",
        "more": more_table(
            [series[at] for at in detailed],
            [labels[at] for at in detailed],
            unit,
            _most(len(detailed), len(series)),
        ),
        "more_summary": "More figures: without the first sample, corrected percentiles, scheduling",
        "more_open": False,
        "figures": views,
    }


def _pictures(
    analysis: Analysis,
    number: int,
    step: Document,
    members: Sequence[int],
    labels: Sequence[str],
    name: str,
    shared: Shared,
    first: bool,
) -> list[dict[str, Any]]:
    """The pictures of a quantity, none without samples; their data go to ``shared`` under
    ``name``."""
    run = analysis.model["runs"][number]
    series = [run["series"][place] for place in members]
    unit = series[0]["unit"]
    figures = [analysis.figures[number][analysis.places[number][place]] for place in members]
    if not any(one.kept for one in figures):
        return []
    stored = next(one for one in analysis.runs[number].steps if one.number == step["step"])
    marks = analysis.marks[number] if analysis.marks else {}
    picture = pictures.picture(figures, shared.budget)
    if _distinct_times(picture["time"]) < FEW_TIMES:
        picture["time"] = picture["heat"] = None
    found = [] if picture["time"] is None or not first else strips(stored, shared.budget.strip)
    grid = all(one["interval_ns"] > 0 for one in series)
    data = shared.data[name] = {
        "labels": labels,
        "unit": numbers.unit_name(unit),
        "raw_unit": unit,
        "div": numbers.divisor(unit),
        "quantity": series[0]["name"],
        "file": f"{step['measurement']}-{series[0]['name']}-step-{step_number(step)}",
        **pictures.maxima([peak(one) for one in series]),
        "budget": budget_of(step, unit),
        "events": [[event["time_s"], event["text"]] for event in step["events"]],
        **picture,
        "against": pictures.against(series),
        "mark": None if (mark := marks.get(members[0])) is None else [mark.value, mark.text],
        "strips": [one.data() for one in found],
        "grid": grid,
    }
    answered = waits_for_answers(series[0]["name"], unit)
    views = drawn_views(picture, len(series), found, grid=grid, answers=answered)
    if (over := data["against"]) is not None:
        views.insert(0, against_view(over))
    if is_response(series[0]["name"], unit):
        rows = [trace_of(one, step["parameters"]) for one in figures]
        answers = data["persistence"] = persistence(rows, shared.bases)
        if answers is not None:
            answers["waves"] = waveforms(stored.facts)
        views = (captions(answers, shared.responses > 1) if answers else []) + views
    return views


_WAY: Final = (
    ("event", ("event",)),
    ("interrupt", ("interrupt",)),
    ("handler", ("handler",)),
    ("wake-up", ("wake",)),
    ("switch", ("switch",)),
    ("task", ("task", "user")),
)
"""The stages from an event to the task that answers it, and the words that identify each of them in
the catalogue."""


@dataclass(frozen=True)
class Stage:
    """A stage of the way; ``inside``: a sample spans it."""

    text: str
    inside: bool


@dataclass(frozen=True)
class Way:
    """The stages in order, and which columns the sample spans: from ``start`` to before ``stop``,
    counted from 1."""

    stages: Sequence[Stage]
    start: int
    stop: int


def _stages(described: Mapping[str, Any], context: str) -> list[str]:
    """The stages of a series as the catalogue has them for that context."""
    other = described.get("stages_in") or {}
    return [str(stage) for stage in other.get(context) or described.get("stages") or ()]


def _way(stages: Sequence[str]) -> Way | None:
    """The stages that a sample spans, marked on the whole way if they are part of it. None without
    stages."""
    if not stages:
        return None
    found = [
        next((at for at, (_, words) in enumerate(_WAY) if any(w in stage for w in words)), -1)
        for stage in stages
    ]
    if -1 in found or any(b != a + 1 for a, b in itertools.pairwise(found)):
        return Way([Stage(stage, True) for stage in stages], 1, len(stages) + 1)
    names = [name for name, _ in _WAY]
    names[found[0] : found[-1] + 1] = stages
    return Way(
        [Stage(name, found[0] <= at <= found[-1]) for at, name in enumerate(names)],
        found[0] + 1,
        found[-1] + 2,
    )


def _distinct_times(time: Mapping[str, Any] | None) -> int:
    """The number of time bins that have a sample or a mark."""
    if time is None:
        return 0
    filled = {at for row in time["high"] for at, value in enumerate(row) if value is not None}
    return len(filled | {mark[0] for mark in time["marks"]})
