# SPDX-License-Identifier: Apache-2.0
"""The answer as blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rtgauge import text as numbers
from rtgauge.report.document.answer.actions import Action
from rtgauge.report.document.answer.answered import Answer
from rtgauge.report.document.blocks import (
    Block,
    Bullets,
    Callout,
    Command,
    Figure,
    Heading,
    Line,
    Paragraph,
    Section,
    Span,
    Table,
    line,
)
from rtgauge.report.document.cycles import SHARE, Cycle
from rtgauge.report.document.tables import Cell, Grid, Row

__all__ = ["action_blocks", "answer_section", "limits"]


def answer_section(
    answer: Answer, figure: Figure | None, title: str = "", prefix: str = ""
) -> Section:
    """The answer as a section. ``title``: the name of the system, where there are several, and
    ``prefix`` that of its anchors."""
    blocks: list[Block] = []
    below = {one for action in answer.actions for one in (action.command, action.again)}
    for text, command, hint in (
        (line(Span(answer.board, "warn")) if answer.board else (), "", ""),
        (answer.worst, "", ""),
        (answer.sure, answer.sure_command, ""),
        (line(answer.missing or answer.scope), "", ""),
        (answer.cause, answer.cause_command, answer.cause_hint),
        (line(answer.rhythm), "", ""),
    ):
        alone = bool(command) and command not in below
        if any(span.text for span in text):
            more = line(f" This command {hint}:") if alone and hint else ()
            blocks.append(Paragraph((*text, *more)))
        if alone:
            blocks.append(Command(command))
    box = Callout(answer.tone, answer.title, tuple(blocks))
    after: list[Block] = [*limits(answer)]
    if figure is not None:
        after.append(figure)
    if answer.cycles:
        after.append(Table(_cycle_grid(answer.cycles)))
    after += action_blocks(answer.actions)
    return Section(title or "Answer", f"{prefix}answer", (box, *after), page=True)


def limits(answer: Answer) -> tuple[Block, ...]:
    """What limits an answer, in at most one paragraph: what the audit found, known limitations."""
    known = numbers.join(answer.limitations)
    said = [answer.audit]
    said.append(f"Known limitation of the C library: {known}." if known else "")
    text = " ".join(filter(None, said))
    return (Paragraph(line(text)),) if text else ()


def action_blocks(actions: Sequence[Action]) -> list[Block]:
    """What to do next, as a numbered list."""
    items = tuple(_item(action) for action in actions)
    return [Heading("What to do next"), Bullets(items, numbered=True)] if items else []


def _item(action: Action) -> tuple[Line, tuple[Block, ...]]:
    text = line(action.text, Span(f": {action.gain}" if action.gain else "", "dim"))
    return text, tuple(Command(one) for one in (action.command, action.again) if one)


_TONES: Final = {"supported": "ok", "exceeded": "bad", "not proven": ""}


def _cycle_grid(found: Sequence[Cycle]) -> Grid:
    rows = [
        Row(numbers.time(one.interval_ns), [Cell(one.state, cls=_TONES[one.state]), Cell(one.text)])
        for one in found
    ]
    return Grid(
        "Cycles that the data support",
        ["Cycle", "Data", "Why"],
        rows,
        f"The latency may take at most a fifth (1/{SHARE}) of the cycle.",
        "Cycles that the data support",
    )
