# SPDX-License-Identifier: Apache-2.0
"""What a report shows, before it becomes a page of HTML or the pages of a PDF.

Step 11 of the path of a sample: the results model and the arrays of ``pictures`` become the parts
of a report. What a measurement is called, means and spans comes from the catalogue that the run
carries; no measurement is known here by its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report import pictures
from rtgauge.report.document.answer import answer_of
from rtgauge.report.document.blocks import plain_line
from rtgauge.report.document.comparison import runs_view, steps_view
from rtgauge.report.document.steps import Shared, step_view
from rtgauge.report.document.summary import cpu_text, kernel_text, system_facts
from rtgauge.report.document.tables import Cell, Named, background_table, counter, span, tags
from rtgauge.report.pictures import sketch
from rtgauge.report.pictures.persistence import bases
from rtgauge.report.results.histogram import added
from rtgauge.report.results.labels import (
    Level,
    added_text,
    apart,
    budget_of,
    capital,
    carried_out,
    chapters,
    ending,
    group_series,
    is_response,
    load_text,
    ordinary_policies,
    part_text,
    peak,
    principal,
    reached,
    runs_text,
    target_name,
    things_of,
    worst,
)
from rtgauge.report.results.model import Analysis, Document
from rtgauge.report.results.points import lacking, negative_points, on_a_grid, positive_points
from rtgauge.report.results.ratings import published_ratings, rating_text
from rtgauge.report.sets.compare import Compared

__all__ = ["Chapter", "StepRow", "Views", "views"]

KERNELS: Final = 4
"""Maximum number of kernels that the head names."""
CARD_LIMIT: Final = 8


@dataclass(frozen=True)
class Views:
    """What a report shows, before it becomes a page of HTML or the pages of a PDF.

    ``runs`` holds a part for each run, ``comparison`` how they compare (None for a single run);
    ``shared`` the arrays behind the pictures, by the id of their quantity.
    """

    title: str
    head: Mapping[str, str]
    runs: Sequence[Mapping[str, Any]]
    comparison: Mapping[str, Any] | None
    shared: Shared


def views(analysis: Analysis, compared: Compared | str | None = None) -> Views:
    """What a report on the runs of an analysis shows; ``compared`` as for ``runs_view``."""
    many = len(analysis.runs) > 1
    groups = [
        len(members)
        for run in analysis.model["runs"]
        for step in run["steps"]
        for members in group_series(
            run["series"],
            [place for place, one in enumerate(run["series"]) if one["step"] == step["step"]],
        )
    ]
    maps = sum(number if number <= pictures.APART else 1 for number in groups)
    steps = sum(len(run["steps"]) for run in analysis.model["runs"])
    answers = [
        analysis.figures[number][key].counts
        for number, run in enumerate(analysis.model["runs"])
        for key, one in zip(analysis.places[number], run["series"], strict=False)
        if is_response(one["name"], one["unit"])
    ]
    shared = Shared(
        pictures.Budget.of(sum(groups), maps, steps), bases=bases(answers), responses=len(answers)
    )
    runs = [
        _run(analysis, number, shared, f"r{number + 1}-" if many else "")
        for number in range(len(analysis.runs))
    ]
    return Views(
        _title(analysis.model, isinstance(compared, Compared)),
        _head(analysis, isinstance(compared, Compared)),
        runs,
        runs_view(analysis, shared, compared),
        shared,
    )


def _title(model: Document, compared: bool) -> str:
    targets = list(dict.fromkeys(target_name(run) for run in model["runs"]))
    what = "Comparison" if compared else "Real-time evaluation"
    runs = "runs on " if compared and len(targets) == 1 else ""
    return f"{what} of {runs}{numbers.join(targets)}"


def _head(analysis: Analysis, compared: bool) -> dict[str, str]:
    runs = analysis.model["runs"]
    first = runs[0] if runs else {}
    when = str(first.get("started", "")).replace("T", " ").split(".")[0].removesuffix("Z")
    labels = [run["label"] for run in runs if run.get("label")]
    environment = first.get("environment", {})
    if len(runs) > 1:
        known = [run for run in runs if reached(run)] or runs
        kernels = dict.fromkeys(
            kernel_text(run["environment"])[0] or "unknown kernel" for run in known
        )
        named = [] if compared else list(kernels)[:KERNELS]
        more = 0 if compared else len(kernels) - len(named)
        labels = [
            runs_text(runs),
            *named,
            *([f"{more} more {'kernel' if more == 1 else 'kernels'}"] if more else []),
        ]
        environment = {}
    subtitle = [text for text in (kernel_text(environment)[0], cpu_text(environment)[0]) if text]
    agent = next(
        (step.header.agent for run in analysis.runs for step in run.steps if step.header), ""
    )
    return {
        "title": _title(analysis.model, compared),
        "subtitle": "; ".join([*labels, ", ".join(subtitle)]) if subtitle else "; ".join(labels),
        "when": f"{when} UTC" if when else "",
        "agent": agent,
    }


def _run(analysis: Analysis, number: int, shared: Shared, prefix: str) -> dict[str, Any]:
    run = analysis.model["runs"][number]
    catalogue = analysis.runs[number].document.get("catalogue") or {}
    missing = apart(run)
    lacking = [step for step in carried_out(run) if step["state"] in ("skipped", "failed")]
    known = {m.get("name"): m for m in catalogue.get("measurements") or ()}
    views = [
        step_view(analysis, number, step, known.get(step["measurement"]) or {}, shared, prefix)
        for step in carried_out(run)
        if step not in missing
    ]
    for view in views:
        view["row"] = _row(run, view)
    parts = _chapters(run, views, prefix)
    if parts:
        by_anchor = {view["anchor"]: view for view in views}
        views = [by_anchor[step["anchor"]] for part in parts for step in part.steps]
    environment = run["environment"]
    # the steps have the commands of their loads
    facts = [replace(one, note="") if one.name == "Load" else one for one in system_facts(run)]
    answer, cards = answer_of(run), _cards(run, views)
    return {
        "prefix": prefix,
        "title": f"{target_name(run)}{': ' + run['label'] if run['label'] else ''}",
        "verdict": {
            "cls": "" if answer.tone == "note" else f"is-{answer.tone}",
            "sign": f"{answer.tone}!",
            "title": answer.title,
            "text": " ".join(filter(None, (plain_line(answer.sure), answer.audit))),
        },
        "cards": cards[:CARD_LIMIT],
        "cards_left": max(len(cards) - CARD_LIMIT, 0),
        "facts": facts,
        "positive": positive_points(run),
        "negative": negative_points(run),
        "steps": views,
        "chapters": parts,
        "ratings": [{**one, "rating": rating_text(one["rating"])} for one in run["ratings"]],
        "published_ratings": published_ratings(),
        "notes": [
            {"subject": capital(one["subject"]), "lines": one["text"].splitlines()}
            for one in run["notes"]
        ],
        "overview": [_overview(run, view) for view in views],
        "background": background_table(run),
        "side_by_side": steps_view(analysis, number, shared, prefix),
        "skipped": _skipped(views, missing),
        "lacking": part_text(lacking, carried_out(run)),
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


@dataclass(frozen=True)
class Chapter:
    """Steps that belong together, by anchor, number and link."""

    name: str
    anchor: str
    steps: Sequence[Mapping[str, str]]


def _chapters(run: Document, views: Sequence[dict[str, Any]], prefix: str) -> list[Chapter]:
    """The chapters of an evaluation. The first step of each gets it as ``opens``, the others
    None."""
    for view in views:
        view["opens"] = None
    by_step = {view["step"]["step"]: view for view in views}
    found = []
    for number, (name, steps) in enumerate(chapters(run).items(), 1):
        members = [by_step[step["step"]] for step in steps if step["step"] in by_step]
        if not members:
            continue  # the core offers none of them
        chapter = Chapter(
            name,
            f"{prefix}chapter-{number}",
            [{key: str(view[key]) for key in ("anchor", "number", "link")} for view in members],
        )
        members[0]["opens"] = chapter
        found.append(chapter)
    return found


@dataclass(frozen=True)
class StepRow:
    """A step in one line. The figures are those of its ``principal`` quantity, of the series with
    the highest maximum. ``missed``: the missed periods and lost samples of all quantities of the
    step.

    ``path`` is the histogram of that quantity as an SVG path of 96 by 22, ``peak`` the place of its
    largest sample. ``failed``: a verdict or the step failed. ``observed``: it has observations."""

    name: str
    load: str
    state: str
    quantity: str
    median: str
    max: str
    missed: str
    path: str
    peak: float | None
    tags: Sequence[Mapping[str, str]]
    failed: bool
    observed: bool


def _skipped(
    views: Sequence[Mapping[str, Any]], missing: Sequence[Document]
) -> list[dict[str, str]]:
    """Why steps have no results. ``missing``: those that the core does not offer, in one row."""
    rows = [
        {
            "anchor": view["anchor"],
            "name": view["title"],
            **{key: view["step"][key] for key in ("state", "reason", "remedy", "command")},
        }
        for view in views
        if view["step"]["state"] in ("skipped", "failed")
    ]
    if missing:
        _, reason, remedy = ending(missing[0])
        whose: dict[str, dict[str, None]] = {}
        for step in missing:
            whose.setdefault(step["not_on_core"], {})[step["measurement"]] = None
        said = [f"{', '.join(names)}: {why}" for why, names in whose.items()]
        row = {"anchor": "", "name": numbers.plural(len(missing), "step"), "state": "skipped"}
        text = f"{capital(reason)}. {'. '.join(said)}."
        rows.append({**row, "reason": text, "remedy": remedy, "command": missing[0]["command"]})
    return rows


def _row(run: Document, view: Mapping[str, Any]) -> StepRow:
    step = view["step"]
    groups = view["groups"]
    found = principal(run["series"], [at for group in groups for at in group["places"]], step)
    places, at = found or ([], None)
    top = None if at is None else run["series"][at]
    title = next((group["title"] for group in groups if group["places"] == places), "")
    members = [run["series"][place] for place in places]
    histogram = added([one.get("histogram") or [] for one in members])
    path, mark = sketch.path(histogram, sketch.extent([histogram]))
    every = [run["series"][place] for group in groups for place in group["places"]]
    shown = tags(run, step["step"])
    return StepRow(
        name=view["short"],
        load=added_text(step["load"]),
        state=step["state"],
        quantity=title if len(groups) > 1 else "",
        median=numbers.shown(top["percentiles"].get("50"), top["unit"]).full if top else "–",
        max=_maximum(step, top).full if top else "–",
        missed=lacking(every),
        path=path,
        peak=mark,
        tags=shown,
        failed=step["state"] == "failed" or any(tag["cls"] == "fail" for tag in shown),
        observed=bool(view["observations"]),
    )


def _text(value: object) -> str:
    return "–" if value is None else str(value)


def _flat(document: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in document.items():
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}: ")
        elif isinstance(value, list | tuple):
            apart = "; " if any(isinstance(item, Mapping) for item in value) else ", "
            yield name, apart.join(map(_item, value)) or "–"
        elif isinstance(value, bool):
            yield name, "yes" if value else "no"
        else:
            yield name, _text(value) or "–"


def _item(item: object) -> str:
    """An item of a list; a mapping as its names and values in words."""
    if isinstance(item, Mapping):
        return ", ".join(f"{name.replace('_', ' ')} {_text(value)}" for name, value in item.items())
    return _text(item)


def _maximum(step: Document, one: Document) -> numbers.Shown:
    """The maximum of a series, not rounded to the budget of its step."""
    return numbers.shown(peak(one), one["unit"], budget_of(step, one["unit"]))


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
            figure = _maximum(view["step"], top)
            many = len(members) > 1
            if chapters(run) and not top["interval_ns"]:
                continue  # in an evaluation only quantities with a due time; the overview has all
            unanswered = any(one["unanswered"] for one in members)
            bounds = [one["bound"] for one in members if one["bound"]["samples"]]
            bound = max(bounds, key=lambda one: float(one["probability"]), default=top["bound"])
            total = sum(one["samples"] for one in bounds)
            things = "events" if unanswered else things_of(top)
            counted = things if total != 1 else things.removesuffix("s")
            longest = max((one["duration_s"] for one in bounds), default=bound["duration_s"])
            more = f"{numbers.count(total)} {counted} in {numbers.duration(longest)}"
            if bound["probability"] < 0.5:
                more += (
                    f". {numbers.percent(bound['confidence'])} sure: at most "
                    f"{numbers.probability(bound['probability'])} further {things}"
                    f"{' of each series' if many else ''} exceeds this"
                    f"{' or has no answer, if events are independent' if unanswered else ''}."
                )
            else:
                more += f". Too few for a statement about further {things}."
            cards.append(
                {
                    "anchor": view["anchor"],
                    "what": view["short"]
                    if len(view["groups"]) == 1
                    else f"{view['short']}: {group['title'][:1].lower()}{group['title'][1:]}",
                    "load": "; ".join(
                        text
                        for text in (
                            load_text(view["step"]["load"]),
                            ordinary_policies(run, view["step"]),
                        )
                        if text
                    ),
                    "number": figure.text,
                    "unit": figure.unit,
                    "where": "observed maximum"
                    + (
                        f" of {numbers.count(len(members))} series, on {group['labels'][at]}"
                        if many
                        else ""
                    ),
                    "more": more,
                    "missed": lacking(members),
                    "tags": tags(run, view["step"]["step"], set(group["places"])),
                }
            )
    return cards


def _overview(run: Document, view: Mapping[str, Any]) -> dict[str, Any]:
    step = view["step"]
    members = [one for one in run["series"] if one["step"] == step["step"]]
    units = {one["unit"] for one in members}
    cells = [
        Cell(numbers.count(len(members))),
        Cell(numbers.count(sum(one["count"] for one in members))),
    ]
    if len(units) == 1 and worst(members) is not None:
        unit = units.pop()
        medians = [one["percentiles"]["50"] for one in members if "50" in one["percentiles"]]
        cells.append(Cell(span(medians, unit)))
        at = worst(members)
        assert at is not None
        spreads = [one["spread"] for one in members if one["spread"] is not None]
        cells.append(Cell(numbers.shown(max(spreads, default=None), "").text))
        cells.append(Cell(_maximum(step, members[at]).full, cls="peak"))
    else:
        cells += [Cell("–"), Cell("–"), Cell("–")]
    cells.append(counter(sum(one["missed"] for one in on_a_grid(members))))
    cells.append(counter(sum(one["lost"] for one in members)))
    return {
        "anchor": view["anchor"],
        "name": f"{view['number']} {view['short']}",
        "chapter": view["opens"],
        "load": added_text(step["load"]),
        "state": step["state"],
        "cells": cells,
        "tags": tags(run, step["step"]),
    }
