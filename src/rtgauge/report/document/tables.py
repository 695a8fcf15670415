# SPDX-License-Identifier: Apache-2.0
"""Tables of figures for the HTML report: aligned decimal points, intervals below percentiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.results.labels import (
    KNOWN,
    UNRESOLVED,
    background,
    capital,
    judged,
    peak,
    tail_percentile,
    unresolved,
    watched,
)
from rtgauge.report.results.model import Document

__all__ = [
    "Cell",
    "Grid",
    "Named",
    "Row",
    "background_table",
    "column",
    "counter",
    "figures_table",
    "more_table",
    "plain_table",
    "span",
    "tags",
]


@dataclass(frozen=True)
class Cell:
    """A figure in a table; ``pad`` is drawn invisibly, to align the decimal points."""

    text: str
    pad: str = ""
    note: str = ""
    cls: str = ""


@dataclass(frozen=True)
class Row:
    """A row of a table: its name, its cells and the marker of its series, if any."""

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
    """A text with its name and a note."""

    name: str
    text: str
    note: str = ""


NO_INTERVAL: Final = "no interval"

_COUNTED: Final = {
    "interrupts": "Interrupts were not counted: /proc/interrupts",
    "steal": "Steal time was not counted: /proc/stat",
}
"""Background activity that the agent counts from one reading to the next."""
_PERCENTILE_NAMES: Final = {"50": "Median"}


def _percentile_head(name: str) -> str:
    return _PERCENTILE_NAMES.get(name, f"{name}{numbers.GAP}%")


def _percentiles(series: Sequence[Document]) -> list[str]:
    return sorted({name for one in series for name in one["percentiles"]}, key=float)


def _interval(one: Document, name: str, unit: str) -> str:
    ends = one["percentile_ci"].get(name)
    if ends is None:
        return ""
    if ends[0] is None and ends[1] is None:
        return NO_INTERVAL
    if ends[0] == ends[1]:
        return f"±{numbers.GAP}0"
    low, high = (numbers.shown(end, unit).text for end in ends)
    if low == high:
        low, high = (numbers.exact(end / numbers.divisor(unit)) for end in ends)
    return f"{low if ends[0] is not None else '?'} to {high if ends[1] is not None else '?'}"


def counter(number: int) -> Cell:
    """A number of unwanted events: highlighted unless it is 0."""
    return Cell(numbers.count(number), cls="bad" if number else "zero")


def column(
    values: Sequence[Any],
    unit: str,
    notes: Sequence[str] | None = None,
    cls: str = "",
    limit: int | None = None,
) -> list[Cell]:
    """A column of figures (``values`` in ``unit``) with aligned decimal points. Texts stay as they
    are. ``notes``: a note for each figure. ``cls``: the class of each cell. ``limit``: the budget.
    No figure is rounded to it."""
    figures = [
        None if isinstance(value, str) else numbers.shown(value, unit, limit) for value in values
    ]
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


def figures_table(
    series: Sequence[Document],
    labels: Sequence[str],
    swatches: Sequence[str],
    unit: str,
    which: str = "",
    budget: int | None = None,
) -> Grid:
    """A row of figures for each series, whose values and ``budget`` are in ``unit``. ``which``: the
    words of the caption for a table of part of the series."""
    names = _percentiles(series)
    columns: list[tuple[str, list[Cell]]] = [
        ("Samples", [Cell(numbers.count(one["count"])) for one in series]),
    ]
    for head, key in (("First", "first"), ("Min", "min"), ("Mean", "mean")):
        columns.append((head, column([one[key] for one in series], unit)))
    for name in names:
        columns.append(
            (
                _percentile_head(name),
                column(
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
        columns.append((head, column([table.get(tail) for table in corrected], unit)))
    columns.append(("Max", column([peak(one) for one in series], unit, cls="peak", limit=budget)))
    if any(one["interval_ns"] > 0 or one["missed"] for one in series):
        columns.append(("Missed", [counter(one["missed"]) for one in series]))
    columns.append(("Lost", [counter(one["lost"]) for one in series]))
    shown_unit = numbers.unit_name(unit)
    caption = (f"In {shown_unit}" if shown_unit else "Values") + which
    if names:
        caption += (
            f". Below each percentile: its 95{numbers.GAP}% interval, from the effective number of "
            "samples"
        )
        if any(_interval(one, name, unit) == NO_INTERVAL for one in series for name in names):
            caption += f". {capital(NO_INTERVAL)}: too few independent stretches of time"
        if any(name not in one["percentiles"] for one in series for name in names):
            caption += ". –: too few samples for this percentile"
            if any(one["unanswered"] for one in series):
                caption += ", or events without an answer"
    if unresolved(series):
        caption += f". 0 or 0.00: {UNRESOLVED}"
    return _grid("Results", "Series", labels, swatches, columns, caption + ".")


def more_table(
    series: Sequence[Document], labels: Sequence[str], unit: str, which: str = ""
) -> Grid:
    """The figures that ``figures_table`` leaves out, a row for each series. ``which``: the words of
    the caption for a table of part of the series."""
    columns: list[tuple[str, list[Cell]]] = []
    for key, head in (("min", "Min of rest"), ("mean", "Mean of rest"), ("max", "Max of rest")):
        columns.append((head, column([one["rest"][key] for one in series], unit)))
    corrected = [one["corrected"] for one in series if one["corrected"] is not None]
    tail = tail_percentile([one["percentiles"] for one in corrected])
    for name in _percentiles(corrected):
        if name == tail:
            continue
        head = f"Corrected {_percentile_head(name).lower()}"
        columns.append(
            (
                head,
                column(
                    [
                        ((one["corrected"] or {}).get("percentiles") or {}).get(name)
                        for one in series
                    ],
                    unit,
                ),
            )
        )
    if any(one["spread"] is not None for one in series):
        spreads = column([one["spread"] for one in series], "")
        columns.append((f"99.9{numbers.GAP}% / median", spreads))
    columns.append(("Overruns", [counter(one["overruns"]) for one in series]))
    if any(one["interval_ns"] for one in series):
        columns.append(("Interval", column([one["interval_ns"] or None for one in series], "ns")))
    columns.append(("CPU", [Cell(str(one["cpu"]) if one["cpu"] >= 0 else "–") for one in series]))
    columns.append(("Policy", [Cell(one["policy"] or "–") for one in series]))
    columns.append(("Priority", [Cell(str(one["priority"])) for one in series]))
    shown_unit = numbers.unit_name(unit)
    head = f"In {shown_unit}{which}. " if shown_unit else f"{capital(which.removeprefix('; '))}. "
    caption = (head if shown_unit or which else "") + "Rest: all samples but the first."
    return _grid("More figures", "Series", labels, [""] * len(series), columns, caption)


def background_table(run: Document) -> Grid | None:
    """The background activity: a row for each quantity and CPU. None without any."""
    series = background(run)
    rows = [Row(label, [Cell(text) for text in figures]) for label, figures in watched(series)]
    if not rows:
        return None
    caption = (
        "During all steps of the run. The HTML report also draws it over time, with each step."
    )
    names = {one["name"] for one in series}
    # the first reading of a step counts nothing
    if names & set(_COUNTED) or max(one["count"] for one in series) >= len(run["steps"]):
        for name, text in _COUNTED.items():
            caption += "" if name in names else f" {text} could not be read, or was empty."
    return Grid(
        "Background activity",
        ["Quantity", "Min", "Mean", "Max"],
        rows,
        caption,
    )


def plain_table(table: Document, meaning: str) -> Grid:
    """A table of a step as the measurement yielded it; the first column names the rows."""
    columns = table["columns"]
    heads = [
        head["name"]
        + (f" ({numbers.unit_name(head['unit'])})" if numbers.unit_name(head["unit"]) else "")
        for head in columns
    ]
    rows = []
    shown = [
        column([row[at] if at < len(row) else None for row in table["rows"]], head["unit"])
        for at, head in enumerate(columns)
    ]
    for at in range(len(table["rows"])):
        cells = [figures[at] for figures in shown]
        rows.append(Row(cells[0].text if cells else "", cells[1:]))
    title = capital(table["name"])
    return Grid(label=title, heads=heads, rows=rows, title=title, meaning=capital(meaning))


def span(values: Sequence[int], unit: str) -> str:
    """The range of values in ``unit``: ``1.2 to 3.4 µs``; a dash without values."""
    if not values:
        return "–"
    low, high = numbers.shown(min(values), unit), numbers.shown(max(values), unit)
    if low.text == high.text:
        return low.full
    return f"{low.text} to {high.full}"


def tags(run: Document, step: int, members: set[int] | None = None) -> list[dict[str, str]]:
    """The verdicts of a step, or of some of its series, and its tests, as coloured words."""
    results = [
        one["result"]
        for one in judged(run, step)
        if members is None or one["series"] in {*members, None}
    ]
    tags = []
    for result in ("fail", "inconclusive", KNOWN, "pass", "skipped"):
        found = results.count(result)
        if found:
            text = result if len(results) == 1 else f"{found} {result}"
            tags.append({"cls": result, "text": text})
    return tags
