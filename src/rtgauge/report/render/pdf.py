# SPDX-License-Identifier: Apache-2.0
"""The short PDF report: the blocks of a document on pages, set by typst.

Step 11 of the path of a sample, next to ``html``. The blocks go to typst as one file of JSON;
templates/blocks.typ sets each of their types. It shows each text as a value, so that nothing that
came from a target is ever typst's markup. Nothing is fetched: the fonts are those
inside the package typst, the template loads no other. The same run gives the same bytes.
``pdf_full`` writes the complete report with what is defined here.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import importlib.util
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from rtgauge import __version__
from rtgauge.errors import RtgaugeError
from rtgauge.report.document import blocks
from rtgauge.report.document.cover import NO_COVER, Cover
from rtgauge.report.document.tables import Cell, Grid
from rtgauge.report.pictures import drawing
from rtgauge.report.pictures.drawing import text_width, visible
from rtgauge.text import GAP

__all__ = ["PAPERS", "check", "compiled", "frame", "render", "shell_words", "told"]

PAPERS: Final[Mapping[str, float]] = {"a4": 595.28, "letter": 612.0}
"""Paper -> its width in points. The text has the same width on each."""

NAME: Final = 120
"""Maximum number of characters of the name of a step, a series or a row."""

FEW: Final = 32
"""If at most this many sections of a run begin a page, those after the first share pages."""

LONG: Final = 24
"""Minimum number of rows for which a narrow table is split into pieces side by side."""

_WORD: Final = 18
"""Words of at least this many characters may be broken after punctuation. Pieces that are still
longer may be broken after ``_PIECE`` characters."""
_PIECE: Final = 9


def check() -> None:
    """Raise RtgaugeError, with the remedy, if no PDF can be made here."""
    if importlib.util.find_spec("typst") is None:
        raise RtgaugeError(
            "a PDF needs the Python package typst, which is not installed here",
            "install it (pipx inject rtgauge typst, or pip install typst), or name a file "
            "that ends in .html",
        )


def compiled(
    template: str, data: Mapping[str, Any], files: Mapping[str, bytes], *, tags: bool = True
) -> bytes:
    """The PDF that typst makes of a template and its data. ``files``: those that the data name.
    Raises RtgaugeError if typst fails."""
    check()
    import typst  # noqa: PLC0415

    compile_: Callable[..., Any] = typst.compile
    folder = importlib.resources.files("rtgauge.report.render").joinpath("templates")
    given = {
        "main.typ": folder.joinpath(template).read_bytes(),
        **{name: folder.joinpath(name).read_bytes() for name in ("base.typ", "blocks.typ")},
        "report.json": json.dumps(data, ensure_ascii=False, allow_nan=False).encode(),
        **{f"swatch-{at}.svg": drawing.swatch(at).encode() for at in range(drawing.CROWD)},
        **files,
    }
    try:
        made = compile_(given, format="pdf", ignore_system_fonts=True, pdf_tags=tags)
    except typst.TypstError as error:
        raise RtgaugeError(
            f"typst could not typeset the report: {visible(str(error))[:400]}",
            "write an HTML report, and report this as a bug",
        ) from error
    if not isinstance(made, bytes):
        raise AssertionError("typst gave several files for one PDF")
    return made


def frame(
    title: str,
    runs: Sequence[Mapping[str, Any]],
    paper: str,
    cover: Cover,
    files: dict[str, bytes],
) -> dict[str, Any]:
    """What the first page and the frame of each page show; the logo is added to ``files``."""
    if cover.logo is not None:
        files[f"logo.{cover.logo_format}"] = cover.logo
    started = str(runs[0]["started"]) if runs else ""
    when = _date(started)
    return {
        "title": words(drawing.cut(cover.title, NAME)) if cover.title else title,
        "author": [visible(text) for name, text in cover.meta if name == "Author"],
        "meta": [{"name": words(name), "text": words(text)} for name, text in cover.meta],
        "logo": None if cover.logo is None else f"logo.{cover.logo_format}",
        "version": __version__,
        "paper": "us-letter" if paper == "letter" else paper,
        "margin": (PAPERS[paper] - drawing.FULL) / 2,
        "room": drawing.FULL,
        "date": when,
        "when": started.replace("T", " ").partition(".")[0].removesuffix("Z") + " UTC"
        if when
        else "",
        "keywords": [visible(run["id"]) for run in runs],
    }


def _date(started: str) -> list[int] | None:
    """When the first run began, for the PDF's own data; None if that is unknown."""
    try:
        when = datetime.fromisoformat(started)
    except ValueError:
        return None
    return [when.year, when.month, when.day, when.hour, when.minute, when.second]


# --- from the blocks to typst's files --------------------------------------------------------


def render(
    document: blocks.Document,
    runs: Sequence[Mapping[str, Any]],
    paper: str = "a4",
    cover: Cover = NO_COVER,
) -> bytes:
    """A document as a PDF. ``runs``: those of the results model. Raises RtgaugeError if it cannot
    be made."""
    files: dict[str, bytes] = {}
    data = {
        **frame(titled(document.title), runs, paper, cover, files),
        **told(document, document.sections, files, FEW if len(runs) == 1 else 0),
        "complete": _complete(runs),
        "right": f"run {runs[0]['id'][:13]}" if len(runs) == 1 else f"{len(runs)} runs",
    }
    return compiled("short.typ", data, files)


def _complete(runs: Sequence[Mapping[str, Any]]) -> str:
    """The command for the complete report; empty where it would need too many names."""
    if not 1 <= len(runs) <= 4:
        return ""
    return f"rtgauge report {' '.join(visible(run['id'][:13]) for run in runs)} --full -o full.pdf"


def told(
    document: blocks.Document,
    sections: Sequence[blocks.Section],
    files: dict[str, bytes],
    most: int = 0,
) -> dict[str, Any]:
    """Sections of a document in groups, each of which begins a page. Their figures are added to
    ``files``. If at most ``most`` sections begin a page, all but the first section share pages."""
    book = _Book(files)
    few = sum(section.page for section in sections) <= most
    groups: list[list[dict[str, Any]]] = []
    for at, section in enumerate(sections):
        begins = at == 1 if few and at else section.page
        if begins or not groups:
            groups.append([])
        groups[-1].extend(book.all([section]))
    return {"subtitle": words(document.subtitle), "groups": groups}


class _Book:
    """The blocks as JSON has them, and a file for each figure."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    def all(self, many: Sequence[blocks.Block]) -> list[dict[str, Any]]:
        """The blocks; figures of half the width that follow each other are a pair."""
        shown: list[dict[str, Any]] = []
        for one in many:
            if isinstance(one, blocks.Figure):
                self._figure(one, shown)
            else:
                shown.append({"type": type(one).__name__.lower(), **self._parts(one)})
        return shown

    def _parts(self, one: blocks.Block) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        match one:
            case blocks.Section(title=title, blocks=inside):
                parts = {"title": titled(title), "blocks": self.all(inside)}
            case blocks.Heading(text=text, level=level):
                parts = {"text": titled(text), "level": level}
            case blocks.Paragraph(text=line):
                parts = {"text": _line(line)}
            case blocks.Bullets(items=items, numbered=numbered, left_out=left_out):
                shown = [{"text": _line(line), "blocks": self.all(more)} for line, more in items]
                parts = {"numbered": numbered, "items": shown, "left_out": left_out}
            case blocks.Facts(items=facts):
                parts = {"items": plain(facts)}
            case blocks.Command(text=text):
                parts = {"words": shell_words(text)}
            case blocks.Callout(tone=tone, title=title, blocks=inside):
                parts = {"tone": tone or "note", "title": words(title), "blocks": self.all(inside)}
            case blocks.Table(grid=grid):
                parts = table(grid)
        return parts

    def _figure(self, one: blocks.Figure, shown: list[dict[str, Any]]) -> None:
        name = f"figure-{len(self.files) + 1}.svg"
        self.files[name] = one.svg.encode()
        wide = _width(one.svg)
        figure = {
            "file": name,
            "width": wide,
            "title": titled(one.title),
            "caption": words(one.caption),
            "text": visible(one.text),
        }
        last = shown[-1] if shown else {}
        half = wide <= drawing.HALF
        if half and last.get("half") and len(last["figures"]) == 1:
            last["figures"].append(figure)
        else:
            shown.append({"type": "figures", "half": half, "figures": [figure]})


def _width(svg: str) -> float:
    """The width of a figure in points."""
    found = re.search(r'viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ', svg)
    return min(float(found[1]), drawing.FULL) if found else drawing.FULL


def _line(line: blocks.Line) -> list[dict[str, Any]]:
    return [
        {"text": words(one.text), "tone": one.tone, "strong": one.strong, "code": one.code}
        for one in line
    ]


def shell_words(command: str) -> list[str]:
    """The words of a command as a shell takes them, quotes included. Nothing is added to them: what
    is copied from the page is the command. A comment, which no shell continues, is one word."""
    return re.findall(
        r"(?<!\S)#.*|(?:[^\s'\"\\]|\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"|['\"\\])+", visible(command)
    )


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
    """A text with places where its long words may be broken, and none before a percent sign."""
    text = re.sub(r"(?<=\d) (?=%(?!\w))", GAP, visible(text))
    return re.sub(rf"[^\s\u202f]{{{_WORD},}}", lambda found: _broken(found[0]), text)


def _broken(word: str) -> str:
    pieces = re.split(r"(?<=[/_:=,;&|+])(?=[^/_:=,;&|+])|(?<=[.-])(?=[A-Za-z])", word)
    return "\u200b".join(
        piece[at : at + size]
        for piece in pieces
        for size in (_PIECE if len(piece) > _WORD else _WORD,)
        for at in range(0, len(piece), size)
    )


# --- tables ----------------------------------------------------------------------------------

_NAMED: Final = 84.0
"""Minimum width of a column of names, in points. A table that needs more room is split."""
_TEXT, _NOTE, _GAP, _BETWEEN = 8.0, 6.3, 8.0, 14.0
_FIGURE: Final = r"[−+±<>≤≥~]?\s*[\d.][\d.,:\s\u202f]*[%a-zA-Zµ°/]{0,5}"
_NUMBER: Final = re.compile(rf"({_FIGURE})?|–|\?")
_RANGE: Final = re.compile(rf"({_FIGURE}( (to|in) {_FIGURE})?)?|–|\?")
"""A number, or ``1.10 to 2.00 µs``, or ``1 in 900``."""


def swatch(text: str) -> int | None:
    """Which marker a row has; none where there are too many rows to have one each."""
    if not text:
        return None
    at, number = (int(part) for part in text.split())
    return at if number <= drawing.CROWD else None


def _cell_width(cell: Cell) -> float:
    text, note = text_width(cell.text + cell.pad, _TEXT), text_width(cell.note, _NOTE)
    # As in templates/base.typ: a share is next to the figure, other notes are below it.
    return text + note + 4 if cell.note.endswith("%") else max(text, note)


def _head_width(head: str) -> float:
    """The width of a head on two lines, or on as many as it has words."""
    longest = max((text_width(word, _TEXT) for word in head.split()), default=0.0)
    return max(longest, text_width(head, _TEXT) * 0.55) * 1.08


def _longest(cell: Cell) -> float:
    """The width of the longest word of a cell, in points."""
    parts = [(cell.text, _TEXT), (cell.note, _NOTE)]
    return max(
        (text_width(piece, size) for text, size in parts for piece in re.split(r"[ \u200b]", text)),
        default=0.0,
    )


def numbers_widths(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[float]:
    """The width that each column of figures needs, in points."""
    return [
        max(_head_width(head), *(_cell_width(row[at]) for row in rows)) + _GAP
        for at, head in enumerate(heads)
    ]


def table(grid: Grid) -> dict[str, Any]:
    """A table for typst, in several parts below each other where its columns are too many."""
    widest = 0.36 * drawing.FULL
    number = max(len(grid.heads) - 1, 0)
    columns = [[row.cells[at] for row in grid.rows] for at in range(number)]
    figures_only, right = (
        [
            all(kind.fullmatch(cell.text) and cell.cls != "words" for cell in column)
            for column in columns
        ]
        for kind in (_NUMBER, _RANGE)
    )
    heads = [_head_width(head) for head in grid.heads[1:]]
    widths = [
        min(max(head, max(map(_cell_width, column), default=0)) + _GAP, widest)
        for head, column in zip(heads, columns, strict=True)
    ]
    named = any(row.swatch and swatch(row.swatch) is not None for row in grid.rows)
    first = max(
        [_head_width(grid.heads[0]), *(text_width(row.name, _TEXT) for row in grid.rows)]
        if grid.heads
        else [0.0]
    )
    first = min(first + _GAP + (16 if named else 0), 0.28 * drawing.FULL)
    same = sum(one.name == other.name for one, other in itertools.pairwise(grid.rows))
    fold = len(grid.rows) >= LONG and 2 * same > len(grid.rows)
    if fold:  # two pieces side by side, if the name may be on several lines
        first = min(first, max((drawing.FULL - _BETWEEN) / 2 - sum(widths), 56.0))
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
        elif first + sum(least) - drawing.FULL <= max(first - _NAMED, 0):  # so may names
            widths, first = least, drawing.FULL - sum(least)
    parts = []
    for chosen in _parted(widths, drawing.FULL - first):
        total = first + sum(widths[at] for at in chosen)
        stretch = drawing.FULL / total if total > 0.6 * drawing.FULL else 1.0
        pieces = _pieces(total, len(grid.rows))
        parts.append(
            {
                "pieces": pieces,
                "fold": fold,
                "widths": [first * stretch, *(widths[at] * stretch for at in chosen)],
                "heads": [titled(grid.heads[0]), *(titled(grid.heads[at + 1]) for at in chosen)]
                if grid.heads
                else [],
                "right": [False, *(right[at] for at in chosen)],
                "rows": [
                    {
                        "name": titled(row.name),
                        "swatch": swatch(row.swatch),
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
    if rows < LONG:
        return 1
    return max(1, min(int((drawing.FULL + _BETWEEN) / (width + _BETWEEN)), rows // 10))


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
