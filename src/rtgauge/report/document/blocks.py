# SPDX-License-Identifier: Apache-2.0
"""The blocks that every report consists of. A renderer knows the blocks, not their meaning.

Texts are plain: the renderer escapes them. A command is a whole line that a shell takes as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rtgauge.report.document.tables import Grid, Named

__all__ = [
    "Block",
    "Bullets",
    "Callout",
    "Command",
    "Document",
    "Facts",
    "Figure",
    "Heading",
    "Line",
    "Paragraph",
    "Section",
    "Span",
    "Table",
    "Tone",
    "line",
    "plain_line",
]

Tone = Literal["", "pass", "fail", "warn", "note", "dim"]
"""The colour of a text or a box. Never the only carrier of its meaning."""


@dataclass(frozen=True)
class Span:
    """A piece of a line."""

    text: str
    tone: Tone = ""
    strong: bool = False
    code: bool = False


Line = tuple[Span, ...]


def line(*parts: str | Span) -> Line:
    """A line of plain texts and spans."""
    return tuple(part if isinstance(part, Span) else Span(part) for part in parts)


def plain_line(spans: Line) -> str:
    """The text of a line."""
    return "".join(span.text for span in spans)


@dataclass(frozen=True)
class Heading:
    """A heading within a section. ``level``: 3 below a section's title, 4 below that."""

    text: str
    anchor: str = ""
    level: int = 3


@dataclass(frozen=True)
class Paragraph:
    """A line of text that may wrap."""

    text: Line


@dataclass(frozen=True)
class Bullets:
    """A list, numbered or not. An item is a line and the blocks below it. ``left_out``: how many
    further items there are."""

    items: tuple[tuple[Line, tuple[Block, ...]], ...]
    numbered: bool = False
    left_out: int = 0


@dataclass(frozen=True)
class Facts:
    """Names with their values: a row of boxes, or a list."""

    items: tuple[Named, ...]


@dataclass(frozen=True)
class Command:
    """A command on a line of its own. It is never broken, so that it can be copied."""

    text: str


@dataclass(frozen=True)
class Callout:
    """A box with a title, for what must not be overlooked."""

    tone: Tone
    title: str
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table of figures."""

    grid: Grid


@dataclass(frozen=True)
class Figure:
    """A picture as SVG, drawn once for all formats. ``text``: its content in a sentence, for
    formats and readers without pictures."""

    svg: str
    title: str
    caption: str
    text: str


@dataclass(frozen=True)
class Section:
    """A part of a document. ``page``: begins a page of the PDF. ``folded``: closed at first in a
    format that can open it."""

    title: str
    anchor: str
    blocks: tuple[Block, ...]
    page: bool = False
    folded: bool = False


Block = Heading | Paragraph | Bullets | Facts | Command | Callout | Table | Figure | Section


@dataclass(frozen=True)
class Document:
    """A whole report: the answer comes first in it."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
