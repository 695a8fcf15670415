# SPDX-License-Identifier: Apache-2.0
"""A document as Markdown, readable as plain text, in a mail or a terminal, and on a forge.

Tables are padded, so that their columns are aligned as text. Text from a target is escaped: it
becomes neither a heading nor a link, a picture or HTML. A picture is its content in a sentence.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from rtgauge.report.document.blocks import (
    Block,
    Bullets,
    Callout,
    Command,
    Document,
    Facts,
    Figure,
    Heading,
    Line,
    Paragraph,
    Section,
    Table,
)  # fmt: skip
from rtgauge.report.document.cover import NO_COVER, Cover
from rtgauge.report.document.tables import Cell, Grid
from rtgauge.report.results.cases import plain

__all__ = ["escape", "render"]

# The last four are in a bare address, or name a person: a forge makes a link of these.
_MARKS = re.compile(
    r"[\\`*\[\]<>|~$]|(?<!\w)_|_(?!\w)|&(?=[#\w])|!(?=\[)|:(?=//)|(?<=www)\."
    r"|(?<=[\w.+:-])@(?=[\w.-]*\.[\w-])|(?<!\w)@(?=\w)",
    re.IGNORECASE,
)
_LINE_START = re.compile(r"^([#+=-]|\d+[.)])")
_NUMBER = re.compile(r"[−≥–\d\s.,]*\d[\d\s.,]*( ?\S{1,4})?( \(.*\))?|–|")


def escape(value: object) -> str:
    """Text escaped so that it is shown literally within a line."""
    # GitHub finds addresses and names after it has removed backslashes
    return _MARKS.sub(
        lambda found: "@<!-- -->" if found[0] == "@" else "\\" + found[0], plain(value)
    )


def escape_start(value: object) -> str:
    """The same at the start of a line, where more characters have a meaning: lists, headings."""
    # Of "1." the dot is escaped: a backslash before a digit would be shown.
    return _LINE_START.sub(lambda found: found[0][:-1] + "\\" + found[0][-1], escape(value))


def render(document: Document, cover: Cover = NO_COVER) -> str:
    """The Markdown text of a document."""
    parts = [f"# {escape(cover.title or document.title)}", escape_start(document.subtitle)]
    parts += ["\n".join(f"- {escape(name)}: {escape(text)}" for name, text in cover.meta)]
    for section in document.sections:
        parts += _block(section, 2)
    return "\n\n".join(part for part in parts if part) + "\n"


def _block(block: Block, level: int) -> Iterator[str]:
    """The paragraphs of a block. ``level``: that of the next heading."""
    match block:
        case Section():
            yield f"{'#' * level} {escape(block.title)}"
            for one in block.blocks:
                yield from _block(one, level + 1)
        case Heading():
            yield f"{'#' * max(level, block.level)} {escape(block.text)}"
        case Paragraph():
            yield _line(block.text)
        case Command():
            text = plain(block.text)
            fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
            yield f"{fence}sh\n{text}\n{fence}"
        case Callout():
            inside = [f"**{escape(block.title)}**"]
            inside += [part for one in block.blocks for part in _block(one, level)]
            yield _indented("\n\n".join(inside), "> ", "> ")
        case Bullets():
            yield "\n".join(_items(block, level))
            if block.left_out:
                yield f"And {block.left_out} more."
        case Facts():
            yield "\n".join(
                f"- {escape(one.name)}: {escape(one.text)}"
                + (f" ({escape(one.note)})" if one.note else "")
                for one in block.items
            )
        case Table():
            yield from _grid(block.grid)
        case Figure():
            yield f"*{escape(block.title)}.* {escape(block.text)}"


def _items(block: Bullets, level: int) -> Iterator[str]:
    for number, (text, more) in enumerate(block.items, 1):
        sign = f"{number}. " if block.numbered else "- "
        blank = " " * len(sign)
        parts = [_line(text), *(part for one in more for part in _block(one, level))]
        yield _indented("\n\n".join(parts), sign, blank)


def _indented(text: str, first: str, rest: str) -> str:
    starts = itertools.chain([first], itertools.repeat(rest))
    return "\n".join((a + b).rstrip() for a, b in zip(starts, text.split("\n"), strict=False))


def _line(spans: Line) -> str:
    """A line of text. A mark around a span touches no blank."""
    parts: list[str] = []
    for span in spans:
        body = span.text.strip()
        before, _, after = span.text.partition(body) if body else (span.text, "", "")
        text = escape(body) if any(parts) else escape_start(body)
        if body and span.code:
            text = f"`{body}`"
        elif body and span.strong:
            text = f"**{text}**"
        parts += [" " if before else "", text, " " if after else ""]
    return "".join(parts).strip()


def _grid(grid: Grid) -> Iterator[str]:
    if grid.title:
        yield f"**{escape(grid.title)}**"
    width = max([len(grid.heads), *(len(row.cells) + 1 for row in grid.rows)])
    head = [escape(text) for text in grid.heads] + [""] * (width - len(grid.heads))
    rows = [
        [escape(row.name), *map(_cell, row.cells), *[""] * (width - 1 - len(row.cells))]
        for row in grid.rows
    ]
    right = [
        at
        for at in range(1, width)
        if rows and all(_NUMBER.fullmatch(row[at]) for row in rows) and any(row[at] for row in rows)
    ]
    yield table(head, rows, right)
    if grid.caption:
        yield escape_start(grid.caption)


def _cell(cell: Cell) -> str:
    if cell.cls == "spark":  # the gaps of a small histogram are part of it
        return cell.text
    return escape(cell.text) + (f" ({escape(cell.note)})" if cell.note else "")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A table with aligned columns; those in ``right`` are right-aligned. Cells are escaped."""
    widths = [max(3, *(cell_len(row[at]) for row in [head, *rows])) for at in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = []
        for at, cell in enumerate(cells):
            blank = " " * (widths[at] - cell_len(cell))
            padded.append(blank + cell if at in right else cell + blank)
        return "| " + " | ".join(padded) + " |"

    rule = [
        "-" * (width - 1) + ":" if at in right else "-" * width for at, width in enumerate(widths)
    ]
    return "\n".join([line(head), line(rule), *(line(row) for row in rows)])
