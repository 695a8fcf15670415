# SPDX-License-Identifier: Apache-2.0
"""Latencies of several systems by configuration and context, as published benchmarks of real-time
cores have them: a table of min, mean and max, and a bar for each row on one axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.document.blocks import Block, Figure, Heading, Table
from rtgauge.report.document.tables import Cell, Grid, Row, column
from rtgauge.report.pictures.ranges import Range, ranges
from rtgauge.report.results.labels import added_text, highest, peak, target_name

__all__ = ["contexts_blocks"]

Model = Mapping[str, Any]

PLAN: Final = "xeno-test"
"""The shipped plan whose runs are shown in this way."""
TITLE: Final = "Latency by context"
BARS: Final = 48
"""Maximum number of rows of the picture. The table has all rows."""


@dataclass(frozen=True)
class _Line:
    """A row: the figures in ns, or the reason for their absence. A row with both belongs to a step
    that failed: ``why`` is the reason, and the figures may not be those of its load."""

    board: str
    configuration: str
    context: str
    least: int | None = None
    mean: float | None = None
    most: int | None = None
    count: int = 0
    why: str = ""


def contexts_blocks(model: Model) -> list[Block]:
    """The table and the picture, if one of the runs is a xeno-test; else nothing."""
    runs = model["runs"]
    if not any(run["plan"].get("name") == PLAN for run in runs):
        return []
    lines = [one for run in runs for one in _lines(run)]
    measured = [one for one in lines if one.most is not None]
    if not lines:
        return []
    figures = [_figure(measured[:BARS], len(measured))] if measured else []
    return [Heading(TITLE), *figures, Table(_grid(lines))]


def _lines(run: Model) -> Iterator[_Line]:
    """Rows for the contexts of a run's latencies, and for those asked for but not measured."""
    planned = run["plan"].get("steps", [])
    for step in run["steps"]:
        asked = planned[step["step"]]["parameters"] if step["step"] < len(planned) else {}
        if "context" not in asked:
            continue
        where = target_name(run), _configuration(run, step)
        mine = [
            one
            for one in run["series"]
            if one["step"] == step["step"] and one["unit"] == "ns" and one["interval_ns"]
            and one["mean"] is not None
        ]  # fmt: skip
        for context in asked["context"].split(","):
            series = [one for one in mine if one["context"] == context]
            if not series:
                yield _Line(*where, context, why=_why(run, step))
                continue
            # one with a mean has a sample, whatever its counts are
            kept = [max(one["count"] - one["lost"], 1) for one in series]
            yield _Line(
                *where,
                context,
                min(one["min"] for one in series),
                sum(one["mean"] * n for one, n in zip(series, kept, strict=True)) / sum(kept),
                highest(peak(one) for one in series),
                sum(one["count"] for one in series),
                _why(run, step) if step["state"] == "failed" else "",
            )


def _configuration(run: Model, step: Model) -> str:
    """The label, or the release of the kernel, then the core and the load."""
    kernel = (run["environment"].get("kernel") or {}).get("release")
    named = run["label"] or kernel or "–"
    return f"{named}, {step.get('core') or 'linux'}, {added_text(step['load'])}"


def _why(run: Model, step: Model) -> str:
    """Why a context was not measured."""
    if step["state"] != "complete":
        return str(step["reason"] or step["state"])
    said = [
        one["evidence"]
        for one in run["tests"]
        if one["step"] == step["step"] and one["result"] == "skipped"
    ]
    return "; ".join(dict.fromkeys(said)) or "no samples"


def _grid(lines: Sequence[_Line]) -> Grid:
    """A row for each line. The reasons for missing contexts are below the table."""
    columns = [
        column([one.least for one in lines], "ns"),
        column([one.mean for one in lines], "ns"),
        column([one.most for one in lines], "ns"),
    ]
    rows = [
        Row(
            one.board,
            [
                Cell(one.configuration, cls="words"),
                Cell(one.context),
                *(cells[at] for cells in columns),
                Cell(numbers.count(one.count) if one.count else "–"),
            ],
        )
        for at, one in enumerate(lines)
    ]
    lacking: dict[tuple[str, str, bool, str], list[str]] = {}
    for one in lines:
        if one.why:
            key = (one.board, one.configuration, bool(one.count), one.why)
            lacking.setdefault(key, []).append(one.context)
    caption = " ".join(
        f"{board}, {configuration}: {numbers.join(contexts)} "
        + (f"of a step that failed: {why}." if figures else f"not measured: {why}.")
        for (board, configuration, figures, why), contexts in lacking.items()
    )
    heads = ["Board", "Configuration", "Context", "Min µs", "Mean", "Max", "Samples"]
    return Grid(TITLE, heads, rows, caption)


def _figure(lines: Sequence[_Line], of: int) -> Figure:
    """A bar from min to max for each line, with a mark at the mean. ``of``: the number of lines of
    the table."""
    rows = [
        Range(
            one.context,
            None if one.least is None else one.least / 1000,
            None if one.mean is None else one.mean / 1000,
            (one.most or 0) / 1000,
            isinstance(one.most, numbers.AtLeast),
            True,
            f"{one.board}, {one.configuration}",
        )
        for one in lines
    ]
    said = "; ".join(
        f"{one.board}, {one.configuration}, {one.context}: "
        f"{' / '.join(numbers.shown(value, 'ns').text for value in (one.least, one.mean))} / "
        f"{numbers.shown(one.most, 'ns').full}"
        for one in lines
    )
    caption = "Each bar reaches from min to max. Its mark is the mean."
    if min(one.least or 0 for one in lines) > 0:
        caption += " The axis is logarithmic."
    if of > len(lines):
        caption += f" The first {len(lines)} of {of} are shown."
    return Figure(ranges(rows), "From min to max", caption, f"Min / mean / max: {said}.")
