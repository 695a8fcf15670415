# SPDX-License-Identifier: Apache-2.0
"""The blocks of a document on a terminal: each kind, at every width, and nothing that it obeys."""

from __future__ import annotations

import unicodedata

import pytest
from rich.console import Group

from rtgauge.report.document.blocks import (
    Block,
    Bullets,
    Callout,
    Command,
    Facts,
    Figure,
    Heading,
    Paragraph,
    Section,
    Span,
    Table,
    line,
)
from rtgauge.report.document.tables import Cell, Grid, Named, Row
from rtgauge.report.render import console

COMMAND = "rtgauge run timer --target ssh://board-with-a-long-name --load sched:groups=4,cpu"


def blocks(text: str) -> tuple[Block, ...]:
    """One of each kind, with the text wherever there is one."""
    long = " ".join([text] * 20)
    return (
        Heading(text),
        Paragraph(line(text, Span(long, strong=True), Span("rtgauge check", code=True))),
        Bullets(((line(long), (Command(COMMAND),)), (line(text), ())), numbered=True),
        Facts((Named("Kernel", text, "a note"),)),
        Callout("warn", text, (Paragraph(line(long)), Command(COMMAND))),
        Table(Grid("", ["CPU", "max", text], [Row("0", [Cell("1.5"), Cell(text)])], "cap", text)),
        Figure("<svg/>", "title", "caption", text),
        Section(text, "anchor", (Paragraph(line(long)),)),
    )


def shown(text: str, width: int = 80, encoding: str = "utf-8") -> str:
    return console.printed(Group(*console.render(blocks(text))), width, encoding=encoding)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_every_block_fits_and_every_command_is_whole(width: int) -> None:
    text = shown("wake-ups", width)
    lines = text.splitlines()
    assert max(len(one) for one in lines if COMMAND not in one) <= width
    assert [one.strip() for one in lines].count(COMMAND) == 2
    assert "\x1b" not in text


def test_what_each_block_becomes() -> None:
    text = console.printed(
        Group(
            *console.render(
                [
                    Callout("pass", "Fit", (Paragraph(line("Observed maximum ", Span("9 µs"))),)),
                    Section("Next", "", (Bullets(((line("one"), (Command("a b"),)),), True),)),
                    Facts((Named("Kernel", "6.1", "RT"), Named("CPUs", "4"))),
                ]
            )
        )
    )
    assert text == (
        "Fit\n  Observed maximum 9 µs\n\nNext\n1. one\n   a b\nKernel  6.1 (RT)\nCPUs    4\n"
    )


def test_column_of_words_is_on_the_left_also_of_digits() -> None:
    rows = [Row("board", [Cell(kernel, cls="words"), Cell("1")]) for kernel in ("6.6.0", "6.12")]
    text = console.printed(Group(*console.render([Table(Grid("", ["", "Kernel", "max"], rows))])))
    head, _, *lines = text.splitlines()
    assert [one.split()[1] for one in lines] == ["6.6.0", "6.12"]
    assert {one.index(one.split()[1]) for one in lines} == {head.index("Kernel")}
    assert {one.rindex("1") for one in lines} == {head.index("max") + 2}


def test_nothing_is_obeyed() -> None:
    text = shown("\x1b]0;owned\x07\x1b[2J[red]x[/red]\n\u202egpj")
    assert {c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"} == set()
    assert "[red]x[/red]" in text


def test_an_encoding_without_the_letters() -> None:
    text = shown("≥ 5\u202fµs – “quoted”", encoding="ascii")
    assert text.isascii() and '>= 5 us - "quoted"' in text
