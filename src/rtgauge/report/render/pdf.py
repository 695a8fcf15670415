# SPDX-License-Identifier: Apache-2.0
"""The PDF report: the pages of the HTML report on paper, set by typst.

Step 11 of the path of a sample, next to ``html``: the same views, with the figures of ``figures``.
What the views hold goes to typst as one file of JSON; templates/report.typ shows each text as a
value, so that nothing that came from a target is ever typst's markup. Nothing is fetched: the fonts
are those inside the package typst, the template loads no other. The same run gives the same bytes.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import importlib.util
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from rtgauge import __version__
from rtgauge import text as numbers
from rtgauge.errors import RtgaugeError
from rtgauge.report.document.tables import Cell, Grid
from rtgauge.report.document.views import Chapter, Views
from rtgauge.report.document.views import views as views_of
from rtgauge.report.pictures import drawing, figures
from rtgauge.report.pictures.drawing import text_width, visible
from rtgauge.report.results.model import Analysis
from rtgauge.report.results.observations import RULES
from rtgauge.report.results.published import CAUTION
from rtgauge.report.results.sequences import Sequenced
from rtgauge.report.sets.compare import Compared

__all__ = ["PAPERS", "check", "render"]

PAPERS: Final[Mapping[str, float]] = {"a4": 595.28, "letter": 612.0}
"""Paper -> its width in points; the text is as wide on each."""

ROWS: Final = 64
"""Maximum number of series in a table of the appendix: those with the highest maxima."""

TAGGED: Final = 256
"""Maximum number of series of a report with tags."""

NAME: Final = 120
"""Maximum number of characters of the name of a step, a series or a row."""

_WORD: Final = 18
"""Words so long may be broken behind their punctuation, and after so many characters:"""
_PIECE: Final = 9


def check() -> None:
    """RtgaugeError, with what to do, where no PDF can be made here."""
    if importlib.util.find_spec("typst") is None:
        raise RtgaugeError(
            "a PDF needs the Python package typst, which is not installed here",
            "install it (pip install typst), or name a file that ends in .html",
        )


def render(analysis: Analysis, paper: str = "a4", compared: Compared | str | None = None) -> bytes:
    """The report on the runs of an analysis, as a PDF; ``compared`` as for ``html.render``.
    RtgaugeError if that cannot be made."""
    check()
    import typst  # noqa: PLC0415

    compiled: Callable[..., Any] = typst.compile
    # Tags, for those who have a page read to them, cost seconds and megabytes in very long tables.
    tags = sum(len(run["series"]) for run in analysis.model["runs"]) <= TAGGED
    files = _files(analysis, paper, compared)
    try:
        made = compiled(files, format="pdf", ignore_system_fonts=True, pdf_tags=tags)
    except typst.TypstError as error:
        raise RtgaugeError(
            f"typst could not set the report: {visible(str(error))[:400]}",
            "write an HTML report, and report this as a bug",
        ) from error
    if not isinstance(made, bytes):
        raise AssertionError("typst gave several files for one PDF")
    return made


# --- from the views to typst's files ---------------------------------------------------------


class _Book:
    """The files of a report: the template, its data, a file for each figure."""

    def __init__(self, views: Views) -> None:
        self.files: dict[str, bytes] = {}
        self._views = views

    def add(self, svg: str) -> str:
        name = f"figure-{len(self.files) + 1}.svg"
        self.files[name] = svg.encode()
        return name

    def sequences(self, found: Sequence[Sequenced]) -> list[dict[str, Any]]:
        """The figures of the order of events."""
        shown = []
        for one in found:
            if one.events:
                drawn = figures.sequence(one)
                title = titled(one.rule) + (f": {one.result}" if one.result else "")
                shown.append(
                    {
                        "file": self.add(drawn.svg),
                        "full": drawn.full,
                        "title": title,
                        "caption": words(drawn.caption),
                        "kind": "sequence",
                    }
                )
        return shown

    def drawn(self, name: str, views: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        """The figures of one quantity, and the key to its lines."""
        if not views:
            return None
        data = self._views.shared.data[name]
        strips = iter(data.get("strips") or ())
        key = drawing.key(data)
        found = []
        for view in views:
            drawn = figures.draw(data, view, strips)
            if drawn is not None:
                found.append(
                    {
                        "file": self.add(drawn.svg),
                        "full": drawn.full,
                        "title": titled(str(view["title"])),
                        "caption": words(drawn.caption),
                        "kind": view["kind"],
                    }
                )
        return {"key": self.add(key) if key else None, "figures": found} if found else None


def _files(
    analysis: Analysis, paper: str, compared: Compared | str | None = None
) -> dict[str, Any]:
    views = views_of(analysis, compared)
    book = _Book(views)
    model = analysis.model
    swatches = [book.add(drawing.swatch(at)) for at in range(drawing.CROWD)]
    document = {
        "title": titled(views.title),
        "head": plain(views.head),
        "version": __version__,
        "paper": "us-letter" if paper == "letter" else paper,
        "margin": (PAPERS[paper] - drawing.FULL) / 2,
        "date": _date(model["runs"]),
        "keywords": [words(run["id"]) for run in model["runs"]],
        "swatches": swatches,
        "caution": words(CAUTION),
        "rules": [{"name": words(rule.name), "says": words(rule.says)} for rule in RULES],
        "runs": [
            {**_run(book, run), "id": words(model["runs"][number]["id"][:13])}
            for number, run in enumerate(views.runs)
        ],
        "comparison": _comparison(book, views.comparison),
    }
    template = importlib.resources.files("rtgauge.report.render").joinpath(
        "templates", "report.typ"
    )
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    return {"main.typ": template.read_bytes(), "report.json": text.encode(), **book.files}


def _date(runs: Sequence[Mapping[str, Any]]) -> list[int] | None:
    """When the first run began, for the PDF's own data; None if that is unknown."""
    text = str(runs[0]["started"]) if runs else ""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    return [when.year, when.month, when.day, when.hour, when.minute, when.second]


def _run(book: _Book, run: Mapping[str, Any]) -> dict[str, Any]:
    steps = []
    for step in run["steps"]:
        groups = [
            {
                **plain({name: value for name, value in group.items() if name not in _DRAWN}),
                "table": table(group["table"]),
                "all": _most(group["all"]),
                "more": _most(group["more"]),
                "drawn": book.drawn(group["id"], group["figures"]),
            }
            for group in step["groups"]
        ]
        steps.append(
            {
                **plain({name: value for name, value in step.items() if name not in _SHOWN}),
                "groups": groups,
                "tables": [table(one) for one in step["tables"]],
                "orders": [table(one) for one in step["orders"]],
                "sequences": book.sequences(step["sequences"]),
                "published": step["published"] and table(step["published"]),
                "opens": _chapter(step.get("opens")),
            }
        )
    return {
        **plain({name: value for name, value in run.items() if name not in _SPECIAL}),
        "steps": steps,
        "overview": [
            {
                **plain({name: value for name, value in row.items() if name != "chapter"}),
                "chapter": _chapter(row.get("chapter")),
            }
            for row in run["overview"]
        ],
        "background": run["background"] and table(run["background"]),
        "side_by_side": [_side(book, one) for one in run["side_by_side"]],
    }


_DRAWN: Final = ("table", "all", "more", "figures", "places", "labels")
_SHOWN: Final = ("groups", "tables", "orders", "sequences", "published", "opens", "step")
_SPECIAL: Final = ("steps", "side_by_side", "chapters", "overview", "background")


def _chapter(one: Chapter | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {"name": titled(one.name)}


def _comparison(book: _Book, shown: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if shown is None:
        return None
    return {
        **plain({k: value for k, value in shown.items() if k not in ("tables", "sets")}),
        "tables": [_side(book, one) for one in shown["tables"]],
        "sets": None if shown["sets"] is None else _sets(book, shown["sets"]),
    }


def _sets(book: _Book, sets: Mapping[str, Any]) -> dict[str, Any]:
    """The sets of runs side by side, with their tables and figures."""
    return {
        **plain({name: value for name, value in sets.items() if name not in ("tables", "sets")}),
        "sets": [{**plain(one), "swatch": _swatch(one["swatch"])} for one in sets["sets"]],
        "tables": [
            {
                "title": titled(one.title),
                "heads": plain(one.heads),
                "methods": plain(one.methods),
                "widths": _numbers_widths(one.heads, [row.cells for row in one.rows]),
                "rows": [{**plain(row), "swatch": _swatch(row.swatch)} for row in one.rows],
                "drawn": book.drawn(one.figures, one.views),
            }
            for one in sets["tables"]
        ],
    }


def _side(book: _Book, one: Any) -> dict[str, Any]:
    """A table of what stands side by side, with its small histograms."""
    lines = []
    for line in one.lines:
        spark = book.add(drawing.spark(line.path, line.peak)) if line.path else None
        lines.append(
            {
                "name": titled(line.name),
                "command": words(" ".join(line.command)),
                "spark": spark,
                "tags": plain(line.tags),
                "swatch": _swatch(line.swatch),
                "cells": plain(line.cells),
            }
        )
    return {
        **plain({key: getattr(one, key) for key in ("title", "caption", "low", "high")}),
        "heads": plain(one.heads),
        "commands": one.commands,
        "widths": _numbers_widths(one.heads, [line.cells for line in one.lines]),
        "lines": lines,
        "drawn": book.drawn(one.figures, one.views) if one.figures else None,
    }


_NAMES: Final = ("title", "kicker", "short", "link", "what", "name")


def plain(value: Any) -> Any:
    """The value as JSON has it, each text as it is shown."""
    if isinstance(value, str):
        return words(str(value))
    if value is None or isinstance(value, bool | int | float):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({one.name: getattr(value, one.name) for one in dataclasses.fields(value)})
    if isinstance(value, Mapping):
        return {
            str(key): titled(one) if key in _NAMES and isinstance(one, str) else plain(one)
            for key, one in value.items()
        }
    if isinstance(value, Sequence):
        return [plain(one) for one in value]
    raise TypeError(f"a report shows no {type(value).__name__}")


def titled(text: str) -> str:
    """The text of a heading or of the first cell of a row, cut where it is too long for one."""
    return words(drawing.cut(text, NAME))


def words(text: str) -> str:
    """A text with places where its long words may be broken."""
    return re.sub(rf"[^\s\u202f]{{{_WORD},}}", lambda found: _broken(found[0]), visible(text))


def _broken(word: str) -> str:
    pieces = re.split(r"(?<=[/_:=,;&|+])(?=[^/_:=,;&|+])|(?<=[.-])(?=[A-Za-z])", word)
    return "\u200b".join(
        piece[at : at + size]
        for piece in pieces
        for size in (_PIECE if len(piece) > _WORD else _WORD,)
        for at in range(0, len(piece), size)
    )


# --- tables ----------------------------------------------------------------------------------

_TEXT, _NOTE, _GAP = 8.0, 6.3, 8.0
_NUMBER: Final = re.compile(r"[−+±<>≤≥~]?[\d.,:\s\u202f]*\s?[%a-zA-Zµ°/]{0,5}|–|\?")


def _swatch(text: str) -> int | None:
    """Which marker a row has; none where there are too many rows to have one each."""
    if not text:
        return None
    at, number = (int(part) for part in text.split())
    return at if number <= drawing.CROWD else None


def _cell_width(cell: Cell) -> float:
    return max(
        text_width(cell.text + cell.pad, _TEXT),
        text_width(cell.note, _NOTE),
    )


def _head_width(head: str) -> float:
    """The width of a head on two lines, or on as many as it has words."""
    longest = max((text_width(word, _TEXT) for word in head.split()), default=0.0)
    return max(longest, text_width(head, _TEXT) * 0.55) * 1.08


def _longest(cell: Cell) -> float:
    """How wide the longest word of a cell is."""
    parts = [(cell.text, _TEXT), (cell.note, _NOTE)]
    return max(
        (text_width(piece, size) for text, size in parts for piece in re.split(r"[ \u200b]", text)),
        default=0.0,
    )


def _numbers_widths(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[float]:
    return [
        max(_head_width(head), *(_cell_width(row[at]) for row in rows)) + _GAP
        for at, head in enumerate(heads)
    ]


def table(grid: Grid) -> dict[str, Any]:
    """A table for typst, in several parts below each other where its columns are too many."""
    widest = 0.36 * drawing.FULL
    number = max(len(grid.heads) - 1, 0)
    columns = [[row.cells[at] for row in grid.rows] for at in range(number)]
    figures_only = [
        all(_NUMBER.fullmatch(cell.text) and cell.cls != "words" for cell in column)
        for column in columns
    ]
    heads = [_head_width(head) for head in grid.heads[1:]]
    widths = [
        min(max(head, max(map(_cell_width, column), default=0)) + _GAP, widest)
        for head, column in zip(heads, columns, strict=True)
    ]
    named = any(row.swatch and _swatch(row.swatch) is not None for row in grid.rows)
    first = max(
        [_head_width(grid.heads[0]), *(text_width(row.name, _TEXT) for row in grid.rows)]
        if grid.heads
        else [0.0]
    )
    first = min(first + _GAP + (16 if named else 0), 0.28 * drawing.FULL)
    over = first + sum(widths) - drawing.FULL
    if over > 0:  # words may wrap
        least = [
            width
            if only
            else min(max(head, *map(_longest, [Cell(""), *column]), 48.0) + _GAP, width)
            for width, only, head, column in zip(widths, figures_only, heads, columns, strict=True)
        ]
        spare = sum(widths) - sum(least)
        if spare >= over:
            widths = [
                width - (width - low) * over / spare
                for width, low in zip(widths, least, strict=True)
            ]
    parts = []
    for chosen in _parted(widths, drawing.FULL - first):
        total = first + sum(widths[at] for at in chosen)
        stretch = drawing.FULL / total if total > 0.6 * drawing.FULL else 1.0
        pieces = _pieces(total, len(grid.rows))
        parts.append(
            {
                "pieces": pieces,
                "widths": [first * stretch, *(widths[at] * stretch for at in chosen)],
                "heads": [titled(grid.heads[0]), *(titled(grid.heads[at + 1]) for at in chosen)]
                if grid.heads
                else [],
                "right": [False, *(figures_only[at] for at in chosen)],
                "rows": [
                    {
                        "name": titled(row.name),
                        "swatch": _swatch(row.swatch),
                        "cells": [plain(row.cells[at]) for at in chosen],
                    }
                    for row in grid.rows
                ],
            }
        )
    return {
        "label": words(grid.label),
        "title": titled(grid.title),
        "meaning": words(grid.meaning),
        "caption": words(grid.caption),
        "parts": parts,
    }


def _pieces(width: float, rows: int) -> int:
    """Number of pieces of a long narrow table that fit side by side."""
    if rows < 24:
        return 1
    return max(1, min(int((drawing.FULL + 14) / (width + 14)), rows // 10))


def _parted(widths: Sequence[float], room: float) -> Iterator[list[int]]:
    """The columns in groups that fit side by side, with about equal numbers."""
    least = 1
    while True:
        size = -(-len(widths) // least) or 1
        groups = [
            list(range(at, min(at + size, len(widths)))) for at in range(0, len(widths), size)
        ]
        if size == 1 or all(sum(widths[at] for at in group) <= room + 0.1 for group in groups):
            yield from groups or [[]]
            return
        least += 1


def _most(grid: Grid | None) -> dict[str, Any] | None:
    """A table of the appendix; of very many series the first, and how many there are."""
    if grid is None:
        return None
    if len(grid.rows) <= ROWS:
        return table(grid)
    rows = grid.rows[:ROWS]
    left = numbers.count(len(grid.rows) - ROWS)
    caption = f"{grid.caption} {left} more series are in the HTML report and in the results (JSON)."
    return table(dataclasses.replace(grid, rows=rows, caption=caption.strip()))
