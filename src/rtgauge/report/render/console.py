# SPDX-License-Identifier: Apache-2.0
"""The blocks of a document on a terminal, with rich: a function for each type of block, and the
conversion to text. A terminal obeys nothing that a text contains.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment, Segments
from rich.style import Style
from rich.table import Table as RichTable
from rich.text import Text

from rtgauge import text as numbers
from rtgauge.facts import printable
from rtgauge.report.document.blocks import (
    Block,
    Bullets,
    Callout,
    Command,
    Facts,
    Figure,
    Heading,
    Line,
    Paragraph,
    Section,
    Table,
    Tone,
)
from rtgauge.report.pictures import sketch

__all__ = ["HOLD", "indented", "printed", "render", "safe"]

LEAST_WIDTH: Final = 40
INDENT: Final = 2

HOLD: Final = "\ue000"
"""Stands for a gap within a figure until the lines are made."""

_TONES: Final[dict[Tone, str]] = {
    "": "", "pass": "green", "fail": "red", "warn": "yellow", "note": "", "dim": "dim",
}  # fmt: skip
_PLAIN: Final = str.maketrans(
    {
        **{"·": "-", "—": "-", "─": "-", "“": '"', "”": '"', "‘": "'", "’": "'"},
        **dict(zip(sketch.BLOCKS, "_.-=+*#@", strict=True)),
    }
)


# --- text ----------------------------------------------------------------------------------------


def safe(value: object) -> str:
    """Text from a target in one line, without anything that a terminal would obey."""
    text = _held(str(value))
    return "".join(
        part if part == HOLD else printable(re.sub(r"\s+", " ", part))
        for part in re.split(f"({HOLD})", text)
    )


def _held(text: str) -> str:
    """The text with ``HOLD`` for its gaps, because rich breaks lines at any kind of space."""
    text = re.sub(r"(?<=\d) (?=%)", HOLD, text.replace(HOLD, " "))
    return text.replace(numbers.GAP, HOLD).replace("\u00a0", HOLD)


def printed(
    what: RenderableType, width: int = 80, *, color: bool = False, encoding: str = "utf-8"
) -> str:
    """The text that rich prints, in characters that the encoding has."""
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=max(width, LEAST_WIDTH),
        force_terminal=color,
        no_color=not color,
        color_system="standard" if color else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    # Every text for a terminal goes through here; the styles, which are ours, become control
    # characters only after it.
    segments = [
        one if one.control else Segment(_obeyed_by_none(one.text), one.style)
        for one in console.render(what)
    ]
    console.print(Segments(segments), end="", crop=False)
    plain = "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
    plain = plain.replace("\u00a0", " ").replace(numbers.GAP, " ").replace(HOLD, " ")
    try:
        plain.encode(encoding)
    except UnicodeEncodeError:
        plain = numbers.plain(plain).translate(_PLAIN)
        plain = plain.encode(encoding, "replace").decode(encoding)
    return plain


def _obeyed_by_none(text: str) -> str:
    return HOLD.join(printable(part) for part in text.split(HOLD))


def indented(line: RenderableType, by: int = INDENT) -> Padding:
    """The line with ``by`` blanks before it."""
    return Padding(line, (0, 0, 0, by))


# --- blocks --------------------------------------------------------------------------------------


def render(blocks: Iterable[Block], indent: int = 0) -> Iterator[RenderableType]:
    """The blocks for a rich console, indented."""
    for block in blocks:
        match block:
            case Heading():
                yield from _heading(block, indent)
            case Paragraph():
                yield indented(_line(block.text), indent)
            case Bullets():
                yield from _bullets(block, indent)
            case Facts():
                yield from _facts(block, indent)
            case Command():
                yield _Whole(safe(block.text), indent)
            case Callout():
                yield from _callout(block, indent)
            case Table():
                yield from _table(block, indent)
            case Figure():
                yield indented(Text(safe(block.text), "dim"), indent)
            case Section():
                yield from _section(block, indent)


def _line(line: Line) -> Text:
    text = Text()
    for span in line:
        style = " ".join(
            word for word in (_TONES[span.tone], "bold" * span.strong, "cyan" * span.code) if word
        )
        text.append(safe(span.text), style or None)
    return text


def _heading(block: Heading, indent: int) -> Iterator[RenderableType]:
    yield Text()
    yield indented(Text(safe(block.text), "bold"), indent)


def _bullets(block: Bullets, indent: int) -> Iterator[RenderableType]:
    for number, (line, below) in enumerate(block.items, 1):
        mark = f"{number}. " if block.numbered else "- "
        # a hanging indent: the further lines of an item begin below its first word
        table = RichTable.grid()
        table.add_column(width=len(mark))
        table.add_column()
        table.add_row(mark, _line(line))
        yield indented(table, indent)
        yield from render(below, indent + len(mark))
    if block.left_out:
        yield indented(Text(f"And {block.left_out} more."), indent)


def _facts(block: Facts, indent: int) -> Iterator[RenderableType]:
    table = RichTable.grid(padding=(0, 2))
    for fact in block.items:
        note = f" ({fact.note})" if fact.note else ""
        table.add_row(Text(safe(fact.name), "dim"), Text(safe(f"{fact.text}{note}")))
    yield indented(table, indent)


def _callout(block: Callout, indent: int) -> Iterator[RenderableType]:
    yield indented(Text(safe(block.title), f"bold {_TONES[block.tone]}"), indent)
    yield from render(block.blocks, indent + INDENT)


def _table(block: Table, indent: int) -> Iterator[RenderableType]:
    grid = block.grid
    if grid.title:
        yield indented(Text(safe(grid.title), "bold"), indent)
    table = RichTable(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, show_edge=False)
    for at, head in enumerate(grid.heads):
        cells = [row.cells[at - 1] for row in grid.rows] if at else []
        words = not at or any(one.cls == "words" or one.text[:1].isalpha() for one in cells)
        justify: Literal["left", "right"] = "left" if words else "right"
        table.add_column(Text(safe(head), "dim"), justify=justify, overflow="fold")
    for row in grid.rows:
        table.add_row(Text(safe(row.name)), *(Text(safe(cell.text)) for cell in row.cells))
    yield indented(table, indent)
    if grid.caption:
        yield indented(Text(safe(grid.caption), "dim"), indent)


def _section(block: Section, indent: int) -> Iterator[RenderableType]:
    yield Text()
    yield indented(Text(safe(block.title), "bold"), indent)
    yield from render(block.blocks, indent)


@dataclass(frozen=True)
class _Whole:
    """A command on one line, however long: even where a terminal wraps it, it is copied whole."""

    text: str
    indent: int

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
        yield Segment(" " * self.indent)
        yield Segment(self.text, Style(color="cyan"))
        yield Segment.line()
