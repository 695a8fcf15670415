# SPDX-License-Identifier: Apache-2.0
"""The HTML report: one self-contained file that can be handed to a customer.

Step 11 of the path of a sample, the last. The results model and the arrays of ``pictures`` become
tables and embedded data; static/report.js draws that data with uPlot. The page fetches nothing: a
content security policy forbids it and admits only the page's own two scripts and style, by hash.
Text from a target is escaped by the template, in the data by ``embedded``.

What a measurement is called, means and spans comes from the catalogue that the run carries; no
measurement is known here by its name.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.resources
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import jinja2
from markupsafe import Markup

from rtgauge import __version__
from rtgauge.report import numbers, pictures
from rtgauge.report.labels import (
    Level,
    claim,
    group_series,
    load_text,
    ordinary_policies,
    realtime_text,
    series_labels,
    step_number,
    tail_percentile,
    target_name,
    work_text,
    worst,
)
from rtgauge.report.model import Analysis, Document
from rtgauge.report.points import Point, negative_points, positive_points, verdict_of_run

__all__ = ["embedded", "render"]

UPLOT: Final = "1.6.32"
CARD_LIMIT: Final = 8
ROW_LIMIT: Final = 12
WORST_ROWS: Final = 6

FEW_TIMES: Final = 5
"""Fewer distinct times than these make no picture over time."""

_OFF: Final = re.compile(r"0+(\.0+)? ?[a-z]*|no|")
"""Values by which an option, as its default, asks for nothing."""


@dataclass(frozen=True)
class Cell:
    """A figure in a table; ``pad`` is drawn invisibly, so that decimal points stand in line."""

    text: str
    pad: str = ""
    note: str = ""
    cls: str = ""


@dataclass(frozen=True)
class Row:
    name: str
    cells: Sequence[Cell]
    swatch: str = ""


@dataclass(frozen=True)
class Grid:
    """A table of figures with a name for each row."""

    label: str
    heads: Sequence[str]
    rows: Sequence[Row]
    caption: str = ""
    title: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class Named:
    name: str
    text: str
    note: str = ""


@dataclass
class Shared:
    """What is collected while the page is built."""

    data: dict[str, Any] = field(default_factory=dict)


def embedded(data: object) -> Markup:
    """JSON that can stand inside a script element, whatever strings it holds."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def render(analysis: Analysis) -> str:
    """The report on the runs of an analysis, as one HTML document."""
    shared = Shared()
    many = len(analysis.runs) > 1
    total = sum(len(run["series"]) for run in analysis.model["runs"])
    budget = pictures.Budget.of(total)
    runs = [
        _run(analysis, number, shared, budget, f"r{number + 1}-" if many else "")
        for number in range(len(analysis.runs))
    ]
    style = _file("uplot/uPlot.min.css") + "\n" + _file("report.css")
    uplot, script = _file("uplot/uPlot.iife.min.js"), _file("report.js")
    for text in (style, uplot, script):
        if re.search(r"</(script|style)|<!--", text, re.IGNORECASE):
            raise AssertionError("a static file would end its own element")
    return _template().render(
        version=__version__,
        uplot=UPLOT,
        title=_title(analysis.model),
        head=_head(analysis),
        runs=runs,
        style=Markup(style),
        uplot_script=Markup(uplot),
        script=Markup(script),
        data=embedded(shared.data),
        csp=(
            "default-src 'none'; "
            f"script-src {_hash(uplot)} {_hash(script)}; style-src {_hash(style)}; "
            "base-uri 'none'; form-action 'none'"
        ),
    )


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


@functools.cache
def _file(name: str) -> str:
    folder = importlib.resources.files("rtgauge.report").joinpath("static")
    return folder.joinpath(*name.split("/")).read_text(encoding="utf-8").replace("\r\n", "\n")


@functools.cache
def _template() -> jinja2.Template:
    source = importlib.resources.files("rtgauge.report").joinpath("templates", "report.html.j2")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(source.read_text(encoding="utf-8"))


# --- the page ------------------------------------------------------------------------------------


def _title(model: Document) -> str:
    targets = list(dict.fromkeys(target_name(run) for run in model["runs"]))
    return "Real-time evaluation of " + numbers.join(targets)


def _head(analysis: Analysis) -> dict[str, str]:
    runs = analysis.model["runs"]
    first = runs[0] if runs else {}
    when = str(first.get("started", "")).replace("T", " ").split(".")[0].removesuffix("Z")
    labels = [run["label"] for run in runs if run.get("label")]
    environment = first.get("environment", {})
    subtitle = [text for text in (_kernel(environment)[0], _cpu(environment)[0]) if text]
    agent = next(
        (step.header.agent for run in analysis.runs for step in run.steps if step.header), ""
    )
    return {
        "title": _title(analysis.model),
        "subtitle": "; ".join([*labels[:3], ", ".join(subtitle)])
        if subtitle
        else "; ".join(labels),
        "when": f"{when} UTC" if when else "",
        "agent": agent,
    }


def _first(document: Mapping[str, Any], *names: str) -> str:
    for name in names:
        value = document.get(name)
        if value not in (None, "", {}, []):
            return str(value)
    return ""


def _kernel(environment: Mapping[str, Any]) -> tuple[str, str]:
    kernel = environment.get("kernel") or {}
    release = _first(kernel, "release")
    system = _first(kernel, "sysname", "name") or "Linux"
    return (f"{system} {release}" if release else ""), _first(kernel, "version")


def _cpu(environment: Mapping[str, Any]) -> tuple[str, str]:
    cpu = environment.get("cpu") or {}
    number = _first(cpu, "count", "online", "cpus")
    note = f"{number} CPUs" if number.isdigit() and number != "1" else number
    return _first(cpu, "model", "name", "machine", "architecture"), note


def _run(
    analysis: Analysis, number: int, shared: Shared, budget: pictures.Budget, prefix: str
) -> dict[str, Any]:
    run = analysis.model["runs"][number]
    catalogue = analysis.runs[number].document.get("catalogue") or {}
    known = {m.get("name"): m for m in catalogue.get("measurements") or ()}
    views = [
        _step(analysis, number, step, known.get(step["measurement"]) or {}, shared, budget, prefix)
        for step in run["steps"]
    ]
    environment = run["environment"]
    kernel, build = _kernel(environment)
    cpu, cpus = _cpu(environment)
    loads = list(dict.fromkeys(_added(step["load"]) for step in run["steps"]))
    facts = [
        Named("Target", run["target"], run["label"] or ""),
        Named("Kernel", kernel or "unknown", build),
        Named("Real-time model", realtime_text(environment)),
        Named("Processor", cpu or "unknown", cpus),
        Named("C library", environment["libc"] or "unknown"),
        Named("Load", numbers.join(loads) or "none"),
        Named(
            "Length",
            numbers.duration(run["duration_s"]),
            f"{len(run['steps'])} steps" if len(run["steps"]) != 1 else "one step",
        ),
        Named("Run", run["id"][:13], f"study {run['study']}" if run["study"] else ""),
    ]
    verdict = verdict_of_run(run)
    return {
        "prefix": prefix,
        "title": f"{target_name(run)}{': ' + run['label'] if run['label'] else ''}",
        "verdict": {
            "cls": "" if verdict.kind == "note" else f"is-{verdict.kind}",
            "sign": f"{verdict.kind}!",
            "title": verdict.text,
            "text": verdict.note,
        },
        "cards": _cards(run, views),
        "facts": facts,
        "positive": positive_points(run),
        "negative": negative_points(run),
        "steps": views,
        "overview": [_overview(run, view) for view in views],
        "skipped": [
            {
                "anchor": view["anchor"],
                "name": view["title"],
                **{key: view["step"][key] for key in ("state", "reason", "remedy")},
            }
            for view in views
            if view["step"]["state"] in ("skipped", "failed")
        ],
        "findings": sorted(run["findings"], key=lambda f: -Level.of(f["level"])),
        "settings": [
            {
                "name": name,
                "before": _text(setting.get("before")),
                "asked": _text(setting["asked"]),
                "effective": _text(setting["effective"]),
                "bad": setting["asked"] is not None and setting["effective"] != setting["asked"],
                "reason": setting.get("reason") or "",
            }
            for name, setting in sorted(environment["settings"].items())
        ],
        "environment": [
            Named(name, text)
            for name, text in _flat({k: v for k, v in environment.items() if k != "settings"})
        ]
        + [Named("boot id", run["boot_id"] or "unknown"), Named("run id", run["id"])],
    }


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _added(load: Document) -> str:
    """The name of a load in a column or line that says load already."""
    return "none added" if load["name"] == "idle" else str(load["name"])


def _text(value: object) -> str:
    return "–" if value is None else str(value)


def _flat(document: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in document.items():
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}: ")
        elif isinstance(value, list | tuple):
            yield name, ", ".join(_text(item) for item in value) or "–"
        elif isinstance(value, bool):
            yield name, "yes" if value else "no"
        else:
            yield name, _text(value) or "–"


# --- cards and overview --------------------------------------------------------------------------


def _tags(run: Document, step: int, members: set[int] | None = None) -> list[dict[str, str]]:
    results = [
        v["result"]
        for v in run["verdicts"]
        if v["step"] == step and (members is None or v["series"] in members)
    ]
    tags = []
    for result in ("fail", "inconclusive", "pass", "skipped"):
        found = results.count(result)
        if found:
            text = result if len(results) == 1 else f"{found} {result}"
            tags.append({"cls": result, "text": text})
    return tags


def _cards(run: Document, views: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    cards = []
    for view in views:
        if view["step"]["role"] != "measurement":
            continue
        for group in view["groups"]:
            members = [run["series"][place] for place in group["places"]]
            at = worst(members)
            if at is None:
                continue
            top = members[at]
            figure = numbers.shown(top["max"], top["unit"])
            many = len(members) > 1
            missed = sum(one["missed"] for one in members)
            bound = top["bound"]
            things = "sample" if bound["samples"] == 1 else "samples"
            more = (
                f"{numbers.count(bound['samples'])} {things} in "
                f"{numbers.duration(bound['duration_s'])}"
            )
            if bound["probability"] < 0.5:
                more += (
                    ": with 95 % confidence at most "
                    f"{numbers.probability(bound['probability'])} further ones"
                    f"{' of each series' if many else ''} is larger."
                )
            else:
                more += ": too few to say anything about further ones."
            cards.append(
                {
                    "anchor": view["anchor"],
                    "what": view["short"] if len(view["groups"]) == 1 else group["title"],
                    "load": "; ".join(
                        text
                        for text in (
                            load_text(view["step"]["load"]["name"]),
                            ordinary_policies(run, view["step"]),
                        )
                        if text
                    ),
                    "number": figure.text,
                    "unit": figure.unit,
                    "where": "observed maximum"
                    + (f", on {group['labels'][at]} of {len(members)} series" if many else ""),
                    "more": more,
                    "missed": f"{numbers.count(missed)} missed" if missed else "",
                    "tags": _tags(run, view["step"]["step"], set(group["places"])),
                }
            )
    return cards[:CARD_LIMIT]


def _overview(run: Document, view: Mapping[str, Any]) -> dict[str, Any]:
    step = view["step"]
    members = [one for one in run["series"] if one["step"] == step["step"]]
    units = {one["unit"] for one in members}
    cells = [Cell(str(len(members))), Cell(numbers.count(sum(one["count"] for one in members)))]
    if len(units) == 1 and any(one["max"] is not None for one in members):
        unit = units.pop()
        medians = [one["percentiles"]["50"] for one in members if "50" in one["percentiles"]]
        cells.append(Cell(_span(medians, unit)))
        at = worst(members)
        assert at is not None
        cells.append(Cell(numbers.shown(members[at]["max"], unit).full, cls="peak"))
    else:
        cells += [Cell("–"), Cell("–")]
    cells += [_counter(sum(one[key] for one in members)) for key in ("missed", "lost")]
    return {
        "anchor": view["anchor"],
        "name": f"{view['number']} {view['short']}",
        "load": _added(step["load"]),
        "state": step["state"],
        "cells": cells,
        "tags": _tags(run, step["step"]),
        "none": "none asked" if step["state"] == "complete" else "–",
    }


def _span(values: Sequence[int], unit: str) -> str:
    if not values:
        return "–"
    low, high = numbers.shown(min(values), unit), numbers.shown(max(values), unit)
    if low.text == high.text:
        return low.full
    return f"{low.text} to {high.full}"


def _counter(number: int) -> Cell:
    return Cell(numbers.count(number), cls="bad" if number else "zero")


# --- a step --------------------------------------------------------------------------------------


def _step(
    analysis: Analysis,
    number: int,
    step: Document,
    definition: Mapping[str, Any],
    shared: Shared,
    budget: pictures.Budget,
    prefix: str,
) -> dict[str, Any]:
    run = analysis.model["runs"][number]
    anchor = f"{prefix}step-{step['step']}"
    places = [p for p, one in enumerate(run["series"]) if one["step"] == step["step"]]
    groups = [
        _group(analysis, number, step, definition, members, f"{anchor}-q{index}", shared, budget)
        for index, members in enumerate(group_series(run["series"], places))
    ]
    summary = str(definition.get("summary") or "") or step["measurement"]
    title = summary[:1].upper() + summary[1:]
    load = step["load"]["name"]
    if step["role"] == "measurement":
        title += ", no load added" if load == "idle" else f", under load {load}"
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
        "short": step["measurement"],
        "link": step["measurement"] + ("" if load == "idle" else f", {load}"),
        "title": title,
        "kicker": kicker,
        "trouble": _trouble(step),
        "facts": _step_facts(step, definition),
        "groups": groups,
        "tables": [
            _plain_table(table, meanings.get(table["name"], ""))
            for table in run["tables"]
            if table["step"] == step["step"]
        ],
        "verdicts": _verdict_rows(run, step["step"]),
        "remarks": _remarks(run, step),
    }


def _trouble(step: Document) -> dict[str, str] | None:
    if step["state"] in ("complete",):
        return None
    title = {
        "failed": "This step failed",
        "skipped": "This step was skipped",
        "interrupted": "This step was interrupted",
        "running": "This step has not ended",
    }[step["state"]]
    text = ". ".join(
        _capital(part.rstrip(".")) for part in (step["reason"], step["remedy"]) if part
    )
    failed = step["state"] == "failed"
    return {
        "cls": "is-fail" if failed else "is-warn",
        "sign": "fail!" if failed else "warn!",
        "title": title,
        "text": text + "." if text else "No reason was recorded.",
    }


def _step_facts(step: Document, definition: Mapping[str, Any]) -> list[Named]:
    """Load, options, budget and length; an option that stands at a default which asks for nothing
    (0, no, empty) is left out."""
    facts = [Named("Load", _added(step["load"]), work_text(step["load"]))]
    defaults = {
        str(option.get("name")): str(option.get("default") or "")
        for option in definition.get("options") or ()
    }
    facts += [
        Named(name, value or "–")
        for name, value in step["parameters"].items()
        if not (_OFF.fullmatch(value) and _OFF.fullmatch(defaults.get(name, "?")))
    ]
    if step["budget"] is not None:
        rate = step["budget"]["rate_per_hour"]
        facts.append(
            Named(
                "Budget",
                numbers.shown(step["budget"]["budget_ns"], "ns").full,
                "must never be exceeded"
                if not rate
                else "may be exceeded once an hour"
                if rate == 1
                else f"may be exceeded {rate:g} times an hour",
            )
        )
    facts.append(Named("Length", numbers.duration(step["duration_s"])))
    return facts


def _remarks(run: Document, step: Document) -> list[Point]:
    remarks = []
    stream = step["stream"]
    if stream is not None:
        if stream["lost_records"]:
            remarks.append(
                Point(
                    "fail",
                    f"{numbers.count(stream['lost_records'])} records of the stream were lost "
                    "on the way.",
                )
            )
        if stream["dropped_bytes"] or not stream["complete"]:
            text = f"The stream is not complete: {stream['reason'] or 'it has no trailer'}."
            note = (
                f"{numbers.count(stream['dropped_bytes'])} bytes behind the last good record "
                "were dropped."
                if stream["dropped_bytes"]
                else ""
            )
            remarks.append(Point("warn", text, note))
    for event in step["events"]:
        kind = "note" if event["event"] in ("message", "threshold") else "warn"
        remarks.append(Point(kind, event["text"], f"at {numbers.duration(event['time_s'])}"))
    members = [one for one in run["series"] if one["step"] == step["step"]]
    overruns = sum(one["overruns"] for one in members)
    missed = sum(one["missed"] for one in members)
    if missed:
        remarks.append(
            Point(
                "warn",
                f"{'1 period was' if missed == 1 else f'{numbers.count(missed)} periods were'} "
                f"missed in {numbers.count(overruns)} overrun{'' if overruns == 1 else 's'}.",
                "What was missed has no sample of its own; the corrected figures say how late it "
                "was.",
            )
        )
    if any(one["source"] == "histogram" for one in members):
        remarks.append(
            Point(
                "note",
                "Only histograms were sent: values other than the extremes are rounded up by at "
                "most 1/128.",
            )
        )
    return remarks


def _verdict_rows(run: Document, step: int) -> list[dict[str, str]]:
    """The verdicts of a step, the gravest first; series with the same outcome share a row."""
    places = [p for p, one in enumerate(run["series"]) if one["step"] == step]
    names: dict[int, str] = {}
    groups = group_series(run["series"], places)
    for members in groups:
        labels = series_labels([run["series"][p] for p in members])
        prefix = f"{run['series'][members[0]]['name']}, " if len(groups) > 1 else ""
        names.update({p: prefix + label for p, label in zip(members, labels, strict=True)})
    keys = ("rule", "result", "evidence", "remedy")
    same: dict[tuple[str, ...], list[str]] = {}
    for verdict in run["verdicts"]:
        if verdict["step"] == step:
            whose = same.setdefault(tuple(verdict[key] for key in keys), [])
            if verdict["series"] in names:
                whose.append(names[verdict["series"]])
    order = {"fail": 0, "inconclusive": 1, "skipped": 2, "pass": 3}
    rows = []
    for (rule, result, evidence, remedy), whose in sorted(
        same.items(), key=lambda item: order[item[0][1]]
    ):
        everyone = len(whose) == len(places) > 2
        rows.append(
            {
                "rule": numbers.typeset(rule),
                "whose": f"all {len(whose)} series" if everyone else ", ".join(whose),
                "result": result,
                "evidence": numbers.typeset(evidence),
                "remedy": numbers.typeset(remedy),
            }
        )
    return rows


def _plain_table(table: Document, meaning: str) -> Grid:
    columns = table["columns"]
    heads = [
        column["name"]
        + (f" ({numbers.unit_name(column['unit'])})" if numbers.unit_name(column["unit"]) else "")
        for column in columns
    ]
    rows = []
    shown = [
        _column([row[at] if at < len(row) else None for row in table["rows"]], column["unit"])
        for at, column in enumerate(columns)
    ]
    for at in range(len(table["rows"])):
        cells = [column[at] for column in shown]
        rows.append(Row(cells[0].text if cells else "", cells[1:]))
    title = table["name"][:1].upper() + table["name"][1:]
    return Grid(label=title, heads=heads, rows=rows, title=title, meaning=_capital(meaning))


def _column(
    values: Sequence[Any], unit: str, notes: Sequence[str] | None = None, cls: str = ""
) -> list[Cell]:
    """A column of figures that stand with their decimal points in line; texts stay as they are."""
    figures = [None if isinstance(value, str) else numbers.shown(value, unit) for value in values]
    most = max((len(f.decimals) for f in figures if f is not None), default=0)
    cells = []
    for at, (value, figure) in enumerate(zip(values, figures, strict=True)):
        note = notes[at] if notes else ""
        if figure is None:
            cells.append(Cell(str(value), cls=cls))
        else:
            lacking = most - len(figure.decimals)
            pad = (
                ("." if not figure.decimals else "") + "0" * lacking
                if lacking and value is not None
                else ""
            )
            cells.append(Cell(figure.text, pad, note, cls))
    return cells


# --- one quantity of a step ----------------------------------------------------------------------


def _group(
    analysis: Analysis,
    number: int,
    step: Document,
    definition: Mapping[str, Any],
    members: Sequence[int],
    name: str,
    shared: Shared,
    budget: pictures.Budget,
) -> dict[str, Any]:
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
    table = _figures_table(series, labels, swatches, unit)
    everything = None
    if len(series) > ROW_LIMIT:
        order = sorted(range(len(series)), key=lambda at: -(series[at]["max"] or 0))[:WORST_ROWS]
        everything = table
        table = _figures_table(
            [series[at] for at in order],
            [labels[at] for at in order],
            [swatches[at] for at in order],
            unit,
            f"; the {WORST_ROWS} series with the highest maxima of {len(series)}",
        )
    figures = [analysis.figures[number][analysis.places[number][place]] for place in members]
    drawn = any(one.kept for one in figures)
    views = []
    if drawn:
        picture = pictures.picture(figures, budget)
        if _distinct_times(picture["time"]) < FEW_TIMES:
            picture["time"] = None
        limit = step["budget"]["budget_ns"] if step["budget"] and unit == "ns" else None
        shown_unit = numbers.unit_name(unit)
        shared.data[name] = {
            "labels": labels,
            "unit": shown_unit,
            "raw_unit": unit,
            "div": numbers.divisor(unit),
            "quantity": series[0]["name"],
            "file": f"{step['measurement']}-{series[0]['name']}-step-{step_number(step)}",
            "max": [one["max"] for one in series],
            "budget": limit,
            "events": [[event["time_s"], event["text"]] for event in step["events"]],
            **picture,
        }
        views = _figures(picture, len(series))
    return {
        "id": name,
        "places": list(members),
        "labels": labels,
        "title": title,
        "meaning": _capital(str(described.get("meaning") or "")),
        "start": str(described.get("from") or ""),
        "end": str(described.get("to") or ""),
        "stages": [str(stage) for stage in described.get("stages") or ()],
        "sentences": [claim(series, labels)],
        "table": table,
        "all": everything,
        "all_summary": f"All {len(series)} series",
        "more": _more_table(series, labels, unit),
        "more_summary": "More figures: without the first sample, corrected percentiles, scheduling",
        "more_open": False,
        "figures": views,
    }


_PERCENTILE_NAMES: Final = {"50": "Median"}


def _percentile_head(name: str) -> str:
    return _PERCENTILE_NAMES.get(name, f"{name}{numbers.GAP}%")


def _percentiles(series: Sequence[Document]) -> list[str]:
    return sorted({name for one in series for name in one["percentiles"]}, key=float)


def _interval(one: Document, name: str, unit: str) -> str:
    ends = one["percentile_ci"].get(name)
    if ends is None:
        return ""
    low, high = (numbers.shown(end, unit).text for end in ends)
    if low == high:
        return f"±{numbers.GAP}0"
    return f"{low if ends[0] is not None else '?'} to {high if ends[1] is not None else '?'}"


def _figures_table(
    series: Sequence[Document],
    labels: Sequence[str],
    swatches: Sequence[str],
    unit: str,
    which: str = "",
) -> Grid:
    names = _percentiles(series)
    columns: list[tuple[str, list[Cell]]] = [
        ("Samples", [Cell(numbers.count(one["count"])) for one in series]),
    ]
    for head, key in (("First", "first"), ("Min", "min"), ("Mean", "mean")):
        columns.append((head, _column([one[key] for one in series], unit)))
    for name in names:
        columns.append(
            (
                _percentile_head(name),
                _column(
                    [one["percentiles"].get(name) for one in series],
                    unit,
                    [_interval(one, name, unit) for one in series],
                ),
            )
        )
    corrected = [(one["corrected"] or {}).get("percentiles") or {} for one in series]
    tail = tail_percentile(corrected)
    if tail:
        head = f"Corrected {_percentile_head(tail)}"
        columns.append((head, _column([table.get(tail) for table in corrected], unit)))
    columns.append(("Max", _column([one["max"] for one in series], unit, cls="peak")))
    if any(one["interval_ns"] > 0 or one["missed"] for one in series):
        columns.append(("Missed", [_counter(one["missed"]) for one in series]))
    columns.append(("Lost", [_counter(one["lost"]) for one in series]))
    shown_unit = numbers.unit_name(unit)
    caption = (f"In {shown_unit}" if shown_unit else "Values") + which
    if names:
        caption += "; below each percentile its 95 % interval, for independent samples"
        if any(name not in one["percentiles"] for one in series for name in names):
            caption += "; –: too few samples for this percentile"
    return _grid("Results", "Series", labels, swatches, columns, caption + ".")


def _grid(
    label: str,
    first: str,
    labels: Sequence[str],
    swatches: Sequence[str],
    columns: Sequence[tuple[str, list[Cell]]],
    caption: str,
) -> Grid:
    rows = [
        Row(name, [cells[at] for _, cells in columns], swatches[at])
        for at, name in enumerate(labels)
    ]
    return Grid(label, [first, *(head for head, _ in columns)], rows, caption)


def _more_table(series: Sequence[Document], labels: Sequence[str], unit: str) -> Grid:
    columns: list[tuple[str, list[Cell]]] = []
    for key, head in (("min", "Min of rest"), ("mean", "Mean of rest"), ("max", "Max of rest")):
        columns.append((head, _column([one["rest"][key] for one in series], unit)))
    corrected = [one["corrected"] for one in series if one["corrected"] is not None]
    for name in _percentiles(corrected):
        head = f"Corrected {_percentile_head(name).lower()}"
        columns.append(
            (
                head,
                _column(
                    [
                        ((one["corrected"] or {}).get("percentiles") or {}).get(name)
                        for one in series
                    ],
                    unit,
                ),
            )
        )
    columns.append(("Overruns", [_counter(one["overruns"]) for one in series]))
    if any(one["interval_ns"] for one in series):
        columns.append(("Interval", _column([one["interval_ns"] or None for one in series], "ns")))
    columns.append(("CPU", [Cell(str(one["cpu"]) if one["cpu"] >= 0 else "–") for one in series]))
    columns.append(("Policy", [Cell(one["policy"] or "–") for one in series]))
    columns.append(("Priority", [Cell(str(one["priority"])) for one in series]))
    shown_unit = numbers.unit_name(unit)
    caption = (f"In {shown_unit}. " if shown_unit else "") + "Rest: all samples but the first."
    return _grid("More figures", "Series", labels, [""] * len(series), columns, caption)


def _distinct_times(time: Mapping[str, Any] | None) -> int:
    """At how many places along the time there is a sample or a mark."""
    if time is None:
        return 0
    filled = {at for row in time["high"] for at, value in enumerate(row) if value is not None}
    return len(filled | {mark[0] for mark in time["marks"]})


def _figures(picture: Mapping[str, Any], series: int) -> list[dict[str, Any]]:
    corrected = any(row is not None for row in picture["ccdf"]["corrected"])
    views: list[dict[str, Any]] = [
        {
            "kind": "histogram",
            "full": False,
            "title": "How often each value occurred",
            "caption": "The body shows the usual case; single samples far to the right are "
            "the ones that count.",
        },
        {
            "kind": "ccdf",
            "full": False,
            "title": "Share of samples at least this large",
            "caption": "A steep fall hints at a limit; a long flat tail means that worse is to be "
            "expected in a longer run."
            + (" Dashed: corrected for missed periods." if corrected else ""),
        },
    ]
    if picture["time"] is not None:
        marks = {kind for _, _, kind, _ in picture["time"]["marks"]}
        look = "look for steps, slopes and peaks at a regular distance."
        if series <= 2:
            caption = (
                "The line follows the largest sample of each bin, the dotted line its median, "
                f"the band reaches down to the smallest: {look}"
            )
        elif series <= 8:
            caption = (
                "Each line follows the largest samples of one series, the band spans all samples "
                f"of all; with one or two series shown, their medians appear: {look}"
            )
        else:
            caption = (
                "The line follows the largest sample of all series, each dot has the colour of the "
                f"series it came from, the band reaches down to the smallest: {look}"
            )
        if marks:
            caption += (
                " Triangles: "
                + numbers.join(
                    [
                        text
                        for kind, text in (
                            ("missed", "periods missed (red)"),
                            ("lost", "samples lost (amber)"),
                        )
                        if kind in marks
                    ]
                )
                + "."
            )
        views.append(
            {"kind": "time", "full": True, "title": "Over the time of the step", "caption": caption}
        )
    return views
