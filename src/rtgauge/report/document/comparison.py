# SPDX-License-Identifier: Apache-2.0
"""Side by side in the HTML report: methods and steps of a run, and runs of a report.

``quantities`` says which series belong together. The figures of several series together come from
their tables of values. Nothing is ranked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rtgauge import text as numbers
from rtgauge.report import pictures
from rtgauge.report.document import compared as shown_of
from rtgauge.report.document.answer import answer_of
from rtgauge.report.document.steps import Shared
from rtgauge.report.document.tables import Cell, column, counter, tags
from rtgauge.report.pictures import sketch
from rtgauge.report.pictures.persistence import (
    Trace,
    captions,
    persistence,
    trace_of,
    traces,
)
from rtgauge.report.results import gather
from rtgauge.report.results.labels import (
    added_text,
    capital,
    highest,
    is_response,
    length_text,
    realtime_text,
    target_name,
)
from rtgauge.report.results.model import Analysis, Document
from rtgauge.report.sets import compare, quantities
from rtgauge.stats import Counts

__all__ = ["RowTable", "SetTable", "runs_view", "steps_view"]

WIDTH, HEIGHT = 96, 22
_SHARES = ("50", "99", "99.9")


@dataclass(frozen=True)
class Line:
    """A row of a table of quantities; ``command`` in the parts between which a line may break."""

    anchor: str
    name: str
    command: Sequence[str]
    cells: Sequence[Cell]
    path: str
    peak: float | None
    tags: Sequence[Mapping[str, str]]
    swatch: str = ""


@dataclass(frozen=True)
class RowTable:
    """A table of a quantity; ``figures`` is the id of its pictures, if any."""

    title: str
    caption: str
    heads: Sequence[str]
    lines: Sequence[Line]
    commands: bool
    low: str
    high: str
    figures: str = ""
    views: Sequence[Mapping[str, Any]] = ()


def _anchor(many: bool, row: quantities.Row) -> str:
    return f"{f'r{row.run + 1}-' if many else ''}step-{row.step + 1}"


def _parts(command: str) -> list[str]:
    """The parts of a command between which its line may end: before options, and between the words
    of the comment for options that were left out."""
    words, mark, comment = command.partition(" # without --")
    return [*re.split(r" (?=--)", words), *f"{mark}{comment}".split()]


def _lines(
    analysis: Analysis,
    table: quantities.Table,
    columns: Sequence[tuple[str, Sequence[Cell]]],
    lined: Sequence[int] = (),
) -> tuple[list[Line], str, str]:
    """The rows of a table, and the ends of the axis of their small histograms. ``lined``: the rows
    that have a line in the pictures."""
    many = len(analysis.runs) > 1
    ends = sketch.extent([row.histogram for row in table.rows])
    lines = []
    for at, row in enumerate(table.rows):
        drawn, peak = sketch.path(row.histogram, ends, WIDTH, HEIGHT)
        lines.append(
            Line(
                anchor=_anchor(many, row),
                name=row.what,
                command=_parts(row.command),
                cells=[cells[at] for _, cells in columns],
                path=drawn,
                peak=None if row.max is None else peak,
                tags=tags(analysis.model["runs"][row.run], row.step, set(row.places)),
                swatch=f"{lined.index(at)} {len(lined)}" if at in lined else "",
            )
        )
    low = min((row.min for row in table.rows if row.min is not None), default=None)
    # of the samples: a maximum may be a lower limit beyond them
    high = highest(
        analysis.figures[row.run][analysis.places[row.run][place]].counts.max
        for row in table.rows
        for place in row.places
    )
    return lines, numbers.shown(low, table.unit).text, numbers.shown(high, table.unit).full


def _extremes(rows: Sequence[quantities.Row], unit: str) -> list[tuple[str, list[Cell]]]:
    return [
        ("Min", column([row.min for row in rows], unit)),
        ("Mean", column([row.mean for row in rows], unit)),
    ]


def _ends(rows: Sequence[quantities.Row], unit: str) -> list[tuple[str, list[Cell]]]:
    ends = [("Max", column([row.max for row in rows], unit, cls="peak"))]
    if any(row.missed for row in rows):
        ends.append(("Missed", [counter(row.missed) for row in rows]))
    if any(row.lost for row in rows):
        ends.append(("Lost", [counter(row.lost) for row in rows]))
    return ends


def steps_view(analysis: Analysis, number: int, shared: Shared, prefix: str = "") -> list[RowTable]:
    """The tables of a run's quantities that it has under several methods, loads or steps."""
    found = []
    if (answers := quantities.answers(analysis.model, [number])) is not None:
        found.append(_across(analysis, answers, f"{prefix}answers", shared))
    for table in quantities.within(analysis.model, number):
        # They are above already, with their pictures.
        if answers is not None and is_response(table.name, table.unit):
            continue
        rows = table.rows
        columns = [
            ("Time", [Cell(numbers.duration(row.duration_s)) for row in rows]),
            ("Samples", [Cell(numbers.count(row.count)) for row in rows]),
            *_extremes(rows, table.unit),
            *_ends(rows, table.unit),
        ]
        lines, low, high = _lines(analysis, table, columns)
        found.append(
            RowTable(
                title=quantities.title(table),
                caption="Series of several CPUs are combined. " + quantities.CAUTION,
                heads=[head for head, _ in columns],
                lines=lines,
                commands=True,
                low=low,
                high=high,
            )
        )
    return found


def _counts(analysis: Analysis, row: quantities.Row) -> Counts:
    figures, places = analysis.figures[row.run], analysis.places[row.run]
    return Counts.merged([figures[places[place]].counts for place in row.places])


def _traces(analysis: Analysis, row: quantities.Row) -> list[Trace]:
    steps = analysis.model["runs"][row.run]["steps"]
    parameters = next(one["parameters"] for one in steps if one["step"] == row.step)
    figures, places = analysis.figures[row.run], analysis.places[row.run]
    return [trace_of(figures[places[place]], parameters) for place in row.places]


def runs_view(
    analysis: Analysis, shared: Shared, compared: compare.Compared | str | None = None
) -> dict[str, Any] | None:
    """The runs of a report side by side; None for a single one. ``compared``: their sets, or why
    they are not compared; without it, each run is a set."""
    runs = analysis.model["runs"]
    if len(runs) < 2:
        return None
    view: dict[str, Any] = {
        "runs": [_run_row(run, number) for number, run in enumerate(runs)],
        "caution": quantities.CAUTION,
        "tables": [],
        "refused": compared if isinstance(compared, str) else "",
        "sets": None,
    }
    whole = quantities.answers(analysis.model, range(len(runs)))
    tables = [whole] if whole is not None else []
    if isinstance(compared, compare.Compared):
        view["sets"] = _sets_view(compared, shared)
    elif compared is None:
        tables += [
            table
            for table in quantities.across(analysis.model)
            if whole is None or not is_response(table.name, table.unit)
        ]
    view["tables"] = [
        _across(analysis, table, f"comparison-{at}", shared) for at, table in enumerate(tables)
    ]
    return view


# --- sets of runs --------------------------------------------------------------------------------


@dataclass(frozen=True)
class SetRow:
    """A set in a table, or the ratios of its figures to those of the first set."""

    name: str
    span: int
    letter: str
    swatch: str
    cells: Sequence[Cell]
    relative: bool
    marks: str


@dataclass(frozen=True)
class SetTable:
    """What several sets measured under one load."""

    title: str
    heads: Sequence[str]
    rows: Sequence[SetRow]
    methods: Sequence[str]
    ends: Sequence[Mapping[str, str]]
    figures: str
    views: Sequence[Mapping[str, Any]]


def _sets_view(compared: compare.Compared, shared: Shared) -> dict[str, Any]:
    document = compared.document
    counts = dict(zip(map(id, document["quantities"]), compared.tables, strict=True))
    number = len(document["sets"])
    return {
        "sets": [
            {
                "letter": one["letter"],
                "name": one["name"],
                "facts": compare.set_facts(one),
                "swatch": f"{at} {number}",
            }
            for at, one in enumerate(document["sets"])
        ],
        "letters": [one["letter"] for one in document["sets"]],
        "differences": document["differences"],
        "tables": [
            _set_table(document, title, members, counts, f"sets-{at}", shared)
            for at, (title, members) in enumerate(shown_of.blocks(document))
        ],
        "left_out": [capital(text) for text in shown_of.left_out(document)],
        "note": document["note"],
    }


def _set_table(
    document: Document,
    title: str,
    members: Sequence[Mapping[str, Any]],
    counts: Mapping[int, Sequence[Counts]],
    name: str,
    shared: Shared,
) -> SetTable:
    number = len(document["sets"])
    rows: list[SetRow] = []
    for quantity in members:
        rows += _set_rows(document, quantity, number)
    lines = [
        (quantity, dash, row, table)
        for dash, quantity in enumerate(members)
        for row, table in zip(quantity["rows"], counts[id(quantity)], strict=True)
        if table.count
    ]
    first, unit = members[0], members[0]["unit"]
    shared.data[name] = {
        "labels": [
            f"{document['sets'][row['set']]['letter']} {compare.row_name(quantity)}"
            for quantity, _, row, _ in lines
        ],
        "hues": [row["set"] for _, _, row, _ in lines],
        "hued": number,
        "dashes": [dash for _, dash, _, _ in lines],
        "unit": numbers.unit_name(unit),
        "raw_unit": unit,
        "div": numbers.divisor(unit),
        "quantity": first["name"],
        "file": f"{first['measurement']}-{first['name']}-{name}",
        **pictures.maxima([row["figures"]["max"] for _, _, row, _ in lines]),
        "budget": None,
        "events": [],
        "compare": True,
        **pictures.overlay([table for *_, table in lines], shared.budget),
    }
    whose = numbers.join([f"{one['letter']} {one['name']}" for one in document["sets"]])
    heads = [head for _, head in shown_of.figures_of(first)]
    several = len(members) > 1
    contexts = len({one["context"] for one in members}) == len(members)
    dashes = "context" if contexts else "context and method"
    key = f"Colour: system ({whose}). " + f"Dash pattern: {dashes}. " * several
    views = [
        {
            "kind": "histogram",
            "full": True,
            "title": "Number of samples per value",
            "caption": f"{key}Look at the position and width of the bodies. The count axis is "
            "logarithmic, so that single samples far to the right are visible, too.",
        },
        {
            "kind": "ccdf",
            "full": True,
            "title": "Share of samples at least this large",
            "caption": f"{key}Compare lines{' of one dash pattern' if several else ''}: at which "
            "share do two colours separate, and how far? Where they coincide, these samples do not "
            "tell the systems apart. The last points "
            "are single samples.",
        },
    ]
    return SetTable(
        title=capital(title),
        heads=["Samples", *(capital(head) for head in heads), "Missed", "Lost"],
        rows=rows,
        methods=shown_of.methods(members),
        ends=[
            {
                "letter": one["letter"],
                "swatch": f"{at} {number}",
                "max": numbers.shown(
                    highest(row["figures"]["max"] for *_, row, _ in lines if row["set"] == at),
                    unit,
                    first["budget"],
                ).full,
            }
            for at, one in enumerate(document["sets"])
        ],
        figures=name,
        views=views,
    )


def _set_rows(document: Document, quantity: Mapping[str, Any], number: int) -> list[SetRow]:
    shown = quantity["rows"]
    names = [name for name, _ in shown_of.figures_of(quantity)]
    columns = [
        column(
            [row["figures"][name] for row in shown],
            quantity["unit"],
            cls="peak" if name == "max" else "",
            limit=quantity["budget"],
        )
        for name in names
    ]
    rows: list[SetRow] = []
    span = sum(1 + (row["ratio"] is not None) for row in shown)
    for at, row in enumerate(shown):
        letter = document["sets"][row["set"]]["letter"]
        cells = [Cell(numbers.count(row["count"])), *(cells[at] for cells in columns)]
        cells += [counter(row["missed"]), counter(row["lost"])]
        rows.append(
            SetRow(
                name="" if at else shown_of.told_apart(document, quantity) or quantity["name"],
                span=0 if at else span,
                letter=letter,
                swatch=f"{row['set']} {number}",
                cells=cells,
                relative=False,
                marks="; ".join(row["marks"]),
            )
        )
        if row["ratio"] is not None:
            ratios = shown_of.shown_ratios(document, quantity, row)
            shares = [Cell(shown_of.ratio(ratios[name])) for name in names]
            first = document["sets"][0]["letter"]
            rows.append(
                SetRow("", 0, f"{letter}/{first}", "", [Cell(""), *shares, Cell(""), Cell("")],
                       True, "")
            )  # fmt: skip
    return rows


def _run_row(run: Document, number: int) -> dict[str, Any]:
    answer = answer_of(run)
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
        "length": length_text(run),
        "verdict": answer.title,
        "kind": answer.tone,
    }


def _across(
    analysis: Analysis,
    table: quantities.Table,
    name: str,
    shared: Shared,
) -> RowTable:
    rows, unit = table.rows, table.unit
    merged = [_counts(analysis, row) for row in rows]
    shares = [
        gather.percentiles(
            [analysis.figures[row.run][analysis.places[row.run][at]] for at in row.places]
        )
        for row in rows
    ]
    columns = [
        ("Series", [Cell(numbers.count(len(row.places))) for row in rows]),
        ("Samples", [Cell(numbers.count(row.count)) for row in rows]),
        *_extremes(rows, unit),
    ]
    for share in _SHARES:
        if any(share in one for one in shares):
            head = "Median" if share == "50" else f"{share}{numbers.GAP}%"
            columns.append((head, column([one.get(share) for one in shares], unit)))
    columns += _ends(rows, unit)
    drawn = [at for at, counts in enumerate(merged) if counts.count]
    lines, low, high = _lines(analysis, table, columns, drawn)
    views: list[dict[str, Any]] = []
    if drawn:
        shared.data[name] = {
            "labels": [rows[at].what for at in drawn],
            "unit": numbers.unit_name(unit),
            "raw_unit": unit,
            "div": numbers.divisor(unit),
            "quantity": table.name,
            "file": f"{table.measurement}-{table.name}-{name}",
            **pictures.maxima([rows[at].max for at in drawn]),
            "budget": None,
            "events": [],
            "compare": True,
            **pictures.overlay([merged[at] for at in drawn], shared.budget),
        }
        views = [
            {
                "kind": "histogram",
                "full": False,
                "title": "Number of samples per value",
                "caption": "Each line is a step of a run with all its CPUs combined. Compare the "
                "positions of the bodies, and how far single samples reach.",
            },
            {
                "kind": "ccdf",
                "full": False,
                "title": "Share of samples at least this large",
                "caption": "Compare whole tails, not their ends. Where two lines separate and stay "
                "separate, the steps differ. The last points are single samples.",
            },
        ]
        if is_response(table.name, unit):
            answers = persistence(
                traces([_traces(analysis, rows[at]) for at in drawn]), shared.bases
            )
            shared.data[name]["persistence"] = answers
            views = (captions(answers, shared.responses > 1) if answers else []) + views
    return RowTable(
        title=quantities.title(table),
        caption="Series of several CPUs are combined.",
        heads=[head for head, _ in columns],
        lines=lines,
        commands=False,
        low=low,
        high=high,
        figures=name if drawn else "",
        views=views,
    )
