# SPDX-License-Identifier: Apache-2.0
"""The section on causes: where the time of the worst samples went, for every format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.causes.blame import microseconds, reason
from rtgauge.causes.model import CLASSES
from rtgauge.report.document.blocks import (
    Block,
    Bullets,
    Command,
    Figure,
    Heading,
    Paragraph,
    Section,
    Span,
    Table,
    line,
)
from rtgauge.report.document.tables import Cell, Grid, Row
from rtgauge.report.pictures.segments import gantt, gantt_said
from rtgauge.report.results.labels import name_among, step_place

__all__ = ["causes_sections"]

Model = Mapping[str, Any]

SHOWN: Final = 3
ROWS: Final = 16
FUNCTIONS: Final = 3
STACK: Final = 6
SOURCES: Final = {
    "replay": "a replay of the run, which reproduced every sample",
    "tracefs": "the kernel's trace, recorded during the run",
    "module": "the kernel module's trace, recorded during the run",
}


def causes_sections(run: Model, prefix: str = "") -> Iterator[Section]:
    """The section of a run, if causes of its samples are known."""
    causes = sorted(run["causes"], key=lambda one: -one["latency_ns"])
    if not causes:
        return
    first: dict[tuple[int, int], Model] = {}
    for one in causes:
        first.setdefault((one["step"], one["series"]), one)
    shown = list(first.values())[:SHOWN]
    blocks: list[Block] = []
    for number, one in enumerate(shown):
        blocks += _cause(run, one, table=not number)
    if common := _common(causes):
        which = "worst" if all(one["source"] == "replay" for one in causes) else "traced"
        blocks += [Heading(f"What the {which} samples have in common"), Bullets(tuple(common))]
    left = len(causes) - len(shown)
    if left:
        text = f"The JSON document contains the causes of {numbers.plural(left, 'more sample')}."
        blocks.append(Paragraph(line(Span(text, "dim"))))
    yield Section("Where the time went", f"{prefix}causes", tuple(blocks), page=True)


def _cause(run: Model, cause: Model, *, table: bool) -> Iterator[Block]:
    """A sample: its picture, blame and remedies, and with ``table`` its segments as a table."""
    step = next((one for one in run["steps"] if one["step"] == cause["step"]), None)
    name = step_place(run, step) if step else "sample"
    context = f", {cause['context']} context" if cause["context"] else ""
    sample = f"sample {numbers.count(cause['index'])}: {microseconds(cause['latency_ns'])}"
    yield Heading(f"{name}{_series(run, cause)}{context}, {sample}")
    if cause["blame"]:
        yield Paragraph(line(Span("Blame: ", strong=True), cause["blame"] + "."))
    caption = f"From {SOURCES[cause['source']]}."
    if cause["cost"]["added_ns"]:
        caption += f" Cost: {cause['cost']['text']}."
    yield Figure(gantt(cause), "Segments of the sample", caption, gantt_said(cause))
    if table:
        yield Table(_table(cause))
    if cause["unseen"]:
        yield Paragraph(line(Span("Not seen: ", strong=True), cause["unseen"].rstrip(".") + "."))
    for remedy in cause["remedies"]:
        yield Paragraph(line(Span("Try: ", strong=True), remedy["text"] + "."))
        if remedy["command"]:
            yield Command(remedy["command"])


def _series(run: Model, cause: Model) -> str:
    """What tells the series of a sample from others of its step and context."""
    series = [one for one in run["series"] if one["step"] == cause["step"]]
    at = next((at for at, one in enumerate(series) if one.get("number") == cause["series"]), None)
    if at is None or sum(one["context"] == series[at]["context"] for one in series) < 2:
        return ""
    return f", {name_among(series, at)}"


def _table(cause: Model) -> Grid:
    segments: Sequence[Model] = cause["segments"]
    longest = sorted(range(len(segments)), key=lambda at: -segments[at]["length_ns"])[:ROWS]
    rows = [_row(segments[at], stack=at == longest[0]) for at in sorted(longest)]
    left = [one["length_ns"] for at, one in enumerate(segments) if at not in longest]
    if left:
        text = numbers.plural(len(left), "shorter segment")
        rows.append(
            Row("…", [Cell(numbers.to_the_ns(sum(left))), Cell(text, cls="words"), _text("")])
        )
    if cause["rest_ns"]:
        rows.append(
            Row("not explained", [Cell(numbers.to_the_ns(cause["rest_ns"])), *[_text("")] * 2])
        )
    heads = ("Class", "Time (µs)", "Task", "Functions (µs), and the stack")
    return Grid("Segments of the sample", heads, rows)


def _row(segment: Model, *, stack: bool) -> Row:
    task = segment["owner"] or segment["task"]
    rank = f" ({task['policy']} {task['priority']})" if task and task["priority"] else ""
    held = "held by " if segment["owner"] else ""
    spent = segment["functions"]
    functions = ", ".join(f"{name} {numbers.to_the_ns(ns)}" for name, ns in spent[:FUNCTIONS])
    if len(spent) > FUNCTIONS:
        functions += " …"
    names = list(segment["stack"])
    if len(names) > STACK:
        names = [*names[: STACK - 1], "…", names[-1]]
    callers = " < ".join(names) if stack else ""
    return Row(
        CLASSES[segment["kind"]],
        [
            Cell(numbers.to_the_ns(segment["length_ns"])),
            _text(f"{held}{task['name']}{rank}" if task else ""),
            Cell(functions or segment["function"], note=callers, cls="words"),
        ],
    )


def _text(words: str) -> Cell:
    return Cell(words, cls="words")


def _common(causes: Sequence[Model]) -> list[tuple[Any, tuple[Block, ...]]]:
    """What most of the samples of a context are blamed on."""
    found: list[tuple[Any, tuple[Block, ...]]] = []
    for context in dict.fromkeys(one["context"] for one in causes):
        mine = [one["blame"] for one in causes if one["context"] == context]
        reasons = Counter(filter(None, map(reason, mine)))
        words, number = next(iter(reasons.most_common(1)), ("", 0))
        if number < 2:
            continue
        named = f" in {context} context" if context else ""
        found.append((line(f"{number} of {len(mine)}{named}: {words}"), ()))
    return found
