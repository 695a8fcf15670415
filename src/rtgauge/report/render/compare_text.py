# SPDX-License-Identifier: Apache-2.0
"""A comparison on a terminal of 80 columns.

There is a table for each quantity under each load, as long as they fit into a screen: that of the
conclusion comes first. It lists the contexts, and in each context the sets by their letters. Below
each set are its ratios to the first one.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Group
from rich.text import Text

from rtgauge import text as numbers
from rtgauge.facts import printable
from rtgauge.report.document.answer import Action, action_blocks
from rtgauge.report.document.compared import (
    advice,
    blocks,
    explained,
    figures_of,
    left_out,
    marks,
    methods,
    rate_texts,
    rows,
    shown_decisions,
    told_apart,
    verdict_cells,
)
from rtgauge.report.document.conclusion import conclusion, decisive
from rtgauge.report.render import console
from rtgauge.report.render.console import printed
from rtgauge.report.sets.compare import row_name, set_facts, where

__all__ = ["lines", "terminal"]

Document = Mapping[str, Any]

DIFFERENCES: Final = 8
"""Maximum number of differences of the environments on a terminal."""
ROOM: Final = 24
"""Minimum number of columns for a verdict next to its figures."""
VERDICTS: Final = 9
"""Maximum number of verdicts on a terminal."""
ROWS: Final = 12
"""Maximum number of rows of all tables on a terminal, unless the first one has more."""


def lines(document: Document, width: int) -> list[tuple[str, str]]:
    """The comparison in lines of at most ``width``, each with its style for a terminal."""
    found: list[tuple[str, str]] = []

    def wrapped(text: str, first: str, rest: str, style: str = "") -> None:
        for line in textwrap.wrap(
            printable(text).replace(numbers.GAP, "\u00a0"),
            width,
            initial_indent=first,
            subsequent_indent=rest,
            break_on_hyphens=False,
        ):
            found.append((line.replace("\u00a0", numbers.GAP), style))

    wrapped(f"{conclusion(document)}.", "", "", "bold")
    found.append(("", ""))
    for one in document["sets"]:
        wrapped(one["name"], f"{one['letter']:3}", "   ", "bold")
        wrapped(set_facts(one), "   ", "   ")
    differences = document["differences"]
    if differences:
        found += [("", ""), ("The environments differ in", "bold")]
        for one in differences[:DIFFERENCES]:
            values = [
                f"{each['letter']} {value}"
                for each, value in zip(document["sets"], one["values"], strict=True)
            ]
            wrapped(f"{one['name']}: " + " | ".join(values), "  ", "    ")
        more = len(differences) - DIFFERENCES
        if more > 0:
            found.append((f"  and {more} more: see --json or the report", "dim"))
    verdicts, hints = shown_decisions(document), advice(document)
    if verdicts or hints:
        found += [("", ""), ("Verdicts", "bold")]
    if verdicts:
        found += _verdicts(document, verdicts[:VERDICTS], width)
    if len(verdicts) > VERDICTS:
        found.append((f"  and {len(verdicts) - VERDICTS} more: see --json or the report", "dim"))
    for text in hints:
        wrapped(text, "  ", "    ")
    wrapped(explained(document), "  ", "  ", "dim")
    tables, left = _tables(document)
    for title, members in tables:
        found.append(("", ""))
        wrapped(title, "", "  ", "bold")
        found += _table(document, members, width)
        for text in methods(members):
            wrapped(text, "  ", "    ", "dim")
        for one in members:
            for text in marks(document, one):
                wrapped(f"{row_name(one)}, {text}", "  ! ", "    ", "yellow")
    said = f"and {numbers.plural(left, 'more table')}: see --json or the report (-o FILE.html)"
    found += [("", ""), (said, "dim")] * bool(left)
    found += [("", "")] * bool(document["work"])
    for text, style in _work(document):
        wrapped(text, "  " if style != "bold" else "", "    ", style)
    if without := left_out(document):
        found += [("", ""), ("Not compared", "bold")]
        for text in without:
            wrapped(text, "  ", "    ")
    found.append(("", ""))
    wrapped(document["note"], "", "", "dim")
    return found


def _tables(document: Document) -> tuple[list[tuple[str, list[Document]]], int]:
    """The tables to show, that of the conclusion first, and the number of those left out."""
    at = decisive(document)
    primary = None if at is None else document["quantities"][at]
    found = sorted(blocks(document), key=lambda one: all(each is not primary for each in one[1]))
    sizes = [sum(1 for one in members for _ in rows(document, one)) for _, members in found]
    many = sum(1 for total in itertools.accumulate(sizes) if total <= ROWS)
    shown = found[: max(many, 1)]
    return shown, len(found) - len(shown)


def _work(document: Document) -> Iterator[tuple[str, str]]:
    """The work rates of the loads."""
    letters = [one["letter"] for one in document["sets"]]
    if document["work"]:
        yield "Work of the loads", "bold"
    for row in document["work"]:
        what = f"{row['measurement']} under {row['load']}, {row['name']}"
        yield f"{what}: {', '.join(rate_texts(row, letters))}", ""
    if document["work"] and document["published_work"]:
        yield document["published_work"], "dim"


def _verdicts(
    document: Document, verdicts: Sequence[Document], width: int
) -> list[tuple[str, str]]:
    """A line for each verdict, below its quantity. A verdict that does not fit continues below."""
    table = [verdict_cells(document, one) for one in verdicts]
    sizes = [max(len(row[at]) for row in table) for at in range(len(table[0]) - 1)]
    found: list[tuple[str, str]] = []
    before = ""
    for one, row in zip(verdicts, table, strict=True):
        quantity = document["quantities"][one["quantity"]]
        apart = told_apart(document, quantity)
        title = printable(where(quantity) + (f", {apart}" if apart else ""))
        if title != before:
            for line in textwrap.wrap(title, width - 2, break_on_hyphens=False):
                found.append((f"  {line}", ""))
            before = title
        cells = [cell.ljust(size) for cell, size in zip(row, sizes, strict=False)]
        first = f"    {'  '.join(cells[:2])}  {' '.join(cells[2:])}".rstrip() + "  "
        words = row[-1].replace(numbers.GAP, "\u00a0")
        style = {"better": "green", "worse": "red"}.get(one["verdict"], "")
        room = width - len(first)
        if len(words) > room and room < ROOM:
            found.append((first.rstrip(), ""))
            first, room = " " * 6, width - 6
        for line in textwrap.wrap(words, room, break_on_hyphens=False):
            found.append((first + line.replace("\u00a0", numbers.GAP), style))
            first = " " * len(first)
    return found


def _table(document: Document, members: Sequence[Document], width: int) -> list[tuple[str, str]]:
    heads = ["set", "samples", *(head for _, head in figures_of(members[0])), "missed", "lost"]
    body: list[tuple[str, list[str], bool]] = []
    for quantity in members:
        for place, (cells, relative) in enumerate(rows(document, quantity)):
            name = told_apart(document, quantity) or quantity["name"]
            body.append(("" if place else printable(name), cells, relative))
    if not any(cells[-1] not in ("", "0") for _, cells, _ in body):
        heads, body = heads[:-1], [(name, cells[:-1], rel) for name, cells, rel in body]
    sizes = [
        max(len(head), *(len(cells[at]) for _, cells, _ in body)) for at, head in enumerate(heads)
    ]
    figures = sum(sizes) + 2 * len(sizes)
    room = max((len(name) for name, *_ in body), default=0)
    above = room + figures > width  # a name that does not fit next to its figures is above them
    first = 2 if above else room

    def line(name: str, cells: Sequence[str]) -> str:
        shown = [cells[0].ljust(sizes[0])]
        shown += [cell.rjust(size) for cell, size in zip(cells[1:], sizes[1:], strict=True)]
        return "  ".join([name.ljust(first), *shown]).rstrip()

    found = [(line("", heads), "dim")]
    for name, cells, relative in body:
        if name and above:
            shown = textwrap.wrap(name, width, subsequent_indent="  ", break_on_hyphens=False)
            found += [(one, "") for one in shown]
        found.append((line("" if above else name, cells), "dim" if relative else ""))
    return found


def terminal(
    document: Document,
    width: int = 80,
    *,
    color: bool = False,
    encoding: str = "utf-8",
    actions: Sequence[Action] = (),
) -> str:
    """The comparison for a terminal; without colour it has no control characters."""
    shown = [Text(line, style or "", no_wrap=True) for line, style in lines(document, width)]
    after = console.render(action_blocks(actions))
    return printed(Group(*shown, *after), width, color=color, encoding=encoding)
