# SPDX-License-Identifier: Apache-2.0
"""A trend as a document: its conclusion, the changes, and a picture of each series that changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.document.blocks import (
    Block,
    Bullets,
    Callout,
    Document,
    Figure,
    Line,
    Paragraph,
    Section,
    Span,
    Table,
    Tone,
    line,
)
from rtgauge.report.document.compared import ratio
from rtgauge.report.document.tables import Cell, Grid, Row
from rtgauge.report.pictures.trended import trended
from rtgauge.report.results.labels import capital
from rtgauge.report.sets.compare import row_name, where

__all__ = ["conclusion", "series_name", "trend_document", "worse"]

Model = Mapping[str, Any]

MOST: Final = 8
"""Number of differences of the environments that are named at a change."""
PICTURES: Final = 12
ALARMS: Final = (
    "If nothing changes, the primary figure has a false alarm in 1 of 100 series of runs, and so "
    "do all other figures together."
)


def trend_document(document: Model, *, pictures: bool = True) -> Document:
    """The whole document. ``pictures``: of the primary series, and of those that changed."""
    name = numbers.join([str(one["name"]) for one in document["sets"]])
    subtitle = numbers.join(
        [f"{one['name']}: {numbers.plural(one['runs'], 'run')}" for one in document["sets"]]
    )
    return Document(f"Trend of {name}", subtitle, _sections(document, pictures))


def _sections(document: Model, pictures: bool) -> tuple[Section, ...]:
    tone: Tone = "fail" if worse(document) else "note"
    below = (Paragraph(line(remedy)),) if (remedy := _remedy(document)) else ()
    found = [Section("Answer", "answer", (Callout(tone, conclusion(document), below),))]
    judged = [one for one in document["series"] if one["verdict"] != "refused"]
    moved = [one for one in judged if one["changes"]]
    if moved:
        items = [(_change_line(document, one, at), _what_changed(one, at))
                 for one in moved for at in range(len(one["changes"]))]  # fmt: skip
        found.append(Section("Changes", "changes", (Bullets(tuple(items)),)))
    if judged:
        blocks: list[Block] = [Table(_table(document, judged))]
        drawn = [one for one in judged if one["changes"] or one["primary"]]
        blocks += [_figure(document, one) for one in drawn[: PICTURES if pictures else 0]]
        blocks.append(Paragraph(line(Span(ALARMS, "dim"))))
        found.append(Section("Figures", "figures", tuple(blocks)))
    refused = [one for one in document["series"] if one["verdict"] == "refused"]
    if refused:
        said = Bullets(tuple(_not_judged(document, refused)))
        found.append(Section("Not judged", "not-judged", (said,)))
    if document["left_out"]:
        lost = [(line(f"{one['run']}: {one['reason']}. {capital(one['remedy'])}."), ())
                for one in document["left_out"]]  # fmt: skip
        found.append(Section("Runs that were left out", "left-out", (Bullets(tuple(lost)),)))
    return tuple(found)


def worse(document: Model) -> list[Model]:
    """The series whose last segment is worse than the one before."""
    return [one for one in document["series"] if one["verdict"] == "worse"]


def conclusion(document: Model) -> str:
    """What the trend says, in a sentence without its period."""
    now = worse(document)
    if now:
        first = now[0]
        at = len(first["changes"]) - 1
        others = len(now) - 1
        text = (
            f"{capital(series_name(document, first))} has been worse since "
            f"{_run(first['changes'][at])}: {_size(first, at)}"
        )
        if others:
            verb = "is" if others == 1 else "are"
            text += f", and {numbers.plural(others, 'other figure')} {verb} worse, too"
        return text
    judged = [one for one in document["series"] if one["verdict"] != "refused"]
    if not judged:
        return "Nothing can be judged"
    moved = sum(bool(one["changes"]) for one in judged)
    refused = len(document["series"]) - len(judged)
    more = f", and {refused} not judged" if refused else ""
    if moved:
        return f"No figure is worse than before: {moved} of {len(judged)} changed{more}"
    return f"No change in {numbers.plural(len(judged), 'figure')}{more}"


def _remedy(document: Model) -> str:
    """What to do where nothing could be judged."""
    if any(one["verdict"] != "refused" for one in document["series"]):
        return ""
    if not document["series"]:
        return "No run has a series of durations. Measure one: rtgauge run timer --label LABEL"
    first = document["series"][0]
    return f"{capital(first['reason'])}. {capital(first['remedy'])}."


def series_name(document: Model, one: Model) -> str:
    """A series in words."""
    share = {"50": "median", "max": "max", "tail": f"{one['tail']}{numbers.GAP}%"}
    name = f"{where(one)}, {row_name(one)}, {share[one['statistic']]}"
    if len(document["sets"]) > 1:
        name = f"{document['sets'][one['set']]['name']}, {name}"
    return name


def _run(change: Model) -> str:
    number = f"#{change['number']}" if change["number"] else str(change["run"])[:13]
    return f"run {number} ({str(change['started'])[:16].replace('T', ' ')})"


def _size(one: Model, at: int) -> str:
    change = one["changes"][at]
    if change["ratio"] is None:
        shown = numbers.shown(change["difference"], one["unit"]).full
        limits = [numbers.shown(value, one["unit"]).full for value in change["interval"] or ()]
    else:
        shown = ratio(change["ratio"])
        limits = [ratio(value) for value in change["interval"] or ()]
    return f"{shown} [{', '.join(limits)}]" if limits else f"{shown}, too few runs for an interval"


def _change_line(document: Model, one: Model, at: int) -> Line:
    change = one["changes"][at]
    before, after = (numbers.shown(one["segments"][at + k]["median"], one["unit"]).full
                     for k in (0, 1))  # fmt: skip
    tone: Tone = "fail" if change["direction"] == "worse" else "pass"
    return line(
        Span(f"{capital(change['direction'])} from {_run(change)} on. ", tone),
        f"{series_name(document, one)}: {_size(one, at)}, median of the runs {before} → {after}.",
    )


def _what_changed(one: Model, at: int) -> tuple[Block, ...]:
    found = one["changes"][at]["differences"]
    if not found:
        return (Paragraph(line("The recorded environment did not change there.")),)
    items: list[tuple[Line, tuple[Block, ...]]] = [
        (line(f"{each['name']}: {each['values'][0]} → {each['values'][1]}"), ())
        for each in found[:MOST]
    ]
    if len(found) > MOST:
        items.append((line(f"{len(found) - MOST} more in the JSON document"), ()))
    return (Bullets(tuple(items)),)


def _figure(document: Model, one: Model) -> Figure:
    name = series_name(document, one)
    caption = "A point for each run, in chronological order. A vertical line is a change (red: for "
    caption += "the worse), with the number of the first run after it. A horizontal line is the "
    caption += "median of the runs without a change between them."
    parts = [
        f"{numbers.plural(each['runs'], 'run')} around "
        f"{numbers.shown(each['median'], one['unit']).full}"
        for each in one["segments"]
    ]
    return Figure(trended(one), capital(name), caption, f"{capital(', then '.join(parts))}.")


def _table(document: Model, judged: Sequence[Model]) -> Grid:
    rows = []
    for one in judged:
        medians = [numbers.shown(each["median"], one["unit"]).full for each in one["segments"]]
        cells = [str(len(one["values"])), one["verdict"], " → ".join(medians)]
        rows.append(Row(series_name(document, one), [Cell(text) for text in cells]))
    heads = ["Figure", "Runs", "Last change", "Median of the runs"]
    return Grid("Figures", heads, rows, "", "")


def _not_judged(document: Model, refused: Sequence[Model]) -> list[tuple[Line, tuple[Block, ...]]]:
    """A line for each reason."""
    whose: dict[tuple[str, str], list[str]] = {}
    for one in refused:
        names = whose.setdefault((one["reason"], one["remedy"]), [])
        names.append(series_name(document, one))
    found: list[tuple[Line, tuple[Block, ...]]] = []
    for (reason, remedy), names in whose.items():
        shown = "; ".join(names[:3]) + (f"; {len(names) - 3} more" if len(names) > 3 else "")
        found.append((line(f"{shown}: {reason}. {capital(remedy)}."), ()))
    return found
