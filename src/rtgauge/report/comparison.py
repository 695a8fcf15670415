# SPDX-License-Identifier: Apache-2.0
"""Side by side in the HTML report: methods and steps of a run, and runs of a report.

What belongs together comes from ``beside``, the figures of several series together from the tables
of values behind them; nothing is ranked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rtgauge import stats
from rtgauge.report import beside, numbers, pictures, sketch
from rtgauge.report.labels import added_text, realtime_text, target_name
from rtgauge.report.model import Analysis, Document
from rtgauge.report.points import verdict_of_run
from rtgauge.report.steps import Shared
from rtgauge.report.tables import Cell, column, counter, tags
from rtgauge.stats import Counts

__all__ = ["Beside", "runs_view", "steps_view"]

WIDTH, HEIGHT = 96, 22
_SHARES = ("50", "99", "99.9")


@dataclass(frozen=True)
class Line:
    """A row of a table of what stands side by side; ``command`` in the parts between which a line
    may end."""

    anchor: str
    name: str
    command: Sequence[str]
    cells: Sequence[Cell]
    path: str
    peak: float | None
    tags: Sequence[Mapping[str, str]]
    swatch: str = ""


@dataclass(frozen=True)
class Beside:
    """A table of what stands side by side; ``figures`` is the id of its pictures, if any."""

    title: str
    caption: str
    heads: Sequence[str]
    lines: Sequence[Line]
    commands: bool
    low: str
    high: str
    figures: str = ""
    views: Sequence[Mapping[str, Any]] = ()


def _anchor(many: bool, row: beside.Row) -> str:
    return f"{f'r{row.run + 1}-' if many else ''}step-{row.step}"


def _lines(
    analysis: Analysis,
    table: beside.Table,
    columns: Sequence[tuple[str, Sequence[Cell]]],
    swatches: bool,
) -> tuple[list[Line], str, str]:
    many = len(analysis.runs) > 1
    ends = sketch.extent([row.histogram for row in table.rows])
    lines = []
    for at, row in enumerate(table.rows):
        drawn, peak = sketch.path(row.histogram, ends, WIDTH, HEIGHT)
        lines.append(
            Line(
                anchor=_anchor(many, row),
                name=row.what,
                command=re.split(r" (?=--)", row.command),
                cells=[cells[at] for _, cells in columns],
                path=drawn,
                peak=None if row.max is None else peak,
                tags=tags(analysis.model["runs"][row.run], row.step, set(row.places)),
                swatch=f"{at} {len(table.rows)}" if swatches else "",
            )
        )
    low = min((row.min for row in table.rows if row.min is not None), default=None)
    high = max((row.max for row in table.rows if row.max is not None), default=None)
    return lines, numbers.shown(low, table.unit).text, numbers.shown(high, table.unit).full


def _extremes(rows: Sequence[beside.Row], unit: str) -> list[tuple[str, list[Cell]]]:
    return [
        ("Min", column([row.min for row in rows], unit)),
        ("Average", column([row.mean for row in rows], unit)),
    ]


def _ends(rows: Sequence[beside.Row], unit: str) -> list[tuple[str, list[Cell]]]:
    ends = [("Max", column([row.max for row in rows], unit, cls="peak"))]
    if any(row.missed for row in rows):
        ends.append(("Missed", [counter(row.missed) for row in rows]))
    return ends


def steps_view(analysis: Analysis, number: int) -> list[Beside]:
    """The tables of a run's quantities that it has under several methods, loads or steps."""
    found = []
    for table in beside.within(analysis.model, number):
        rows = table.rows
        columns = [
            ("Time", [Cell(numbers.duration(row.duration_s)) for row in rows]),
            ("Samples", [Cell(numbers.count(row.count)) for row in rows]),
            *_extremes(rows, table.unit),
            *_ends(rows, table.unit),
        ]
        lines, low, high = _lines(analysis, table, columns, False)
        found.append(
            Beside(
                title=beside.title(table),
                caption="The series of several CPUs together. " + beside.CAUTION,
                heads=[head for head, _ in columns],
                lines=lines,
                commands=True,
                low=low,
                high=high,
            )
        )
    return found


def _counts(analysis: Analysis, row: beside.Row) -> Counts:
    figures, places = analysis.figures[row.run], analysis.places[row.run]
    return Counts.merged([figures[places[place]].counts for place in row.places])


def runs_view(analysis: Analysis, shared: Shared) -> dict[str, Any] | None:
    """The runs of a report beside each other; None for a single one."""
    runs = analysis.model["runs"]
    if len(runs) < 2:
        return None
    return {
        "runs": [_run_row(run, number) for number, run in enumerate(runs)],
        "caution": beside.CAUTION,
        "tables": [
            _across(analysis, table, f"beside-{at}", shared)
            for at, table in enumerate(beside.across(analysis.model))
        ],
    }


def _run_row(run: Document, number: int) -> dict[str, Any]:
    verdict = verdict_of_run(run)
    environment = run["environment"]
    loads = list(
        dict.fromkeys(
            added_text(step["load"]) for step in run["steps"] if step["role"] == "measurement"
        )
    )
    return {
        "anchor": f"r{number + 1}-summary",
        "name": f"Run {number + 1}",
        "label": run["label"] or "–",
        "target": target_name(run),
        "kernel": str((environment.get("kernel") or {}).get("release") or "unknown"),
        "realtime": realtime_text(environment),
        "load": numbers.join(loads) or "–",
        "length": numbers.duration(run["duration_s"]),
        "verdict": verdict.text,
        "kind": verdict.kind,
    }


def _across(
    analysis: Analysis,
    table: beside.Table,
    name: str,
    shared: Shared,
) -> Beside:
    rows, unit = table.rows, table.unit
    merged = [_counts(analysis, row) for row in rows]
    shares = [stats.percentile_table(counts) for counts in merged]
    columns = [
        ("Series", [Cell(str(len(row.places))) for row in rows]),
        ("Samples", [Cell(numbers.count(row.count)) for row in rows]),
        *_extremes(rows, unit),
    ]
    for share in _SHARES:
        if any(share in one for one in shares):
            head = "Median" if share == "50" else f"{share}{numbers.GAP}%"
            columns.append((head, column([one.get(share) for one in shares], unit)))
    columns += _ends(rows, unit)
    lines, low, high = _lines(analysis, table, columns, True)
    drawn = [at for at, counts in enumerate(merged) if counts.count]
    views: list[dict[str, Any]] = []
    if drawn:
        shared.data[name] = {
            "labels": [rows[at].what for at in drawn],
            "unit": numbers.unit_name(unit),
            "raw_unit": unit,
            "div": numbers.divisor(unit),
            "quantity": table.name,
            "file": f"{table.measurement}-{table.name}-{name}",
            "max": [rows[at].max for at in drawn],
            "budget": None,
            "events": [],
            "compare": True,
            **pictures.overlay([merged[at] for at in drawn], shared.budget),
        }
        views = [
            {
                "kind": "histogram",
                "full": False,
                "title": "How often each value occurred",
                "caption": "Each line is a step of a run, all its CPUs together. Compare where the "
                "bodies lie and how far the single samples reach.",
            },
            {
                "kind": "ccdf",
                "full": False,
                "title": "Share of samples at least this large",
                "caption": "Compare whole tails, not their ends: where two lines part and stay "
                "apart, the systems differ; the last points are single samples.",
            },
        ]
    return Beside(
        title=beside.title(table),
        caption="The series of several CPUs together.",
        heads=[head for head, _ in columns],
        lines=lines,
        commands=False,
        low=low,
        high=high,
        figures=name if drawn else "",
        views=views,
    )
