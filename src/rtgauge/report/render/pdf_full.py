# SPDX-License-Identifier: Apache-2.0
"""The complete PDF report: what the folded part of the HTML report shows, on paper.

Step 11 of the path of a sample, next to ``html``: the same views, with the figures of ``figures``.
What the views hold goes to typst as one file of JSON, which templates/full.typ shows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.document.blocks import Figure, Section
from rtgauge.report.document.contexts import contexts_blocks
from rtgauge.report.document.cover import NO_COVER, Cover
from rtgauge.report.document.evidence import evidence_blocks, extrapolation_section
from rtgauge.report.document.summary import short
from rtgauge.report.document.tables import Grid
from rtgauge.report.document.views import Chapter, Views
from rtgauge.report.document.views import views as views_of
from rtgauge.report.pictures import drawing, figures
from rtgauge.report.render.pdf import (
    compiled,
    frame,
    numbers_widths,
    plain,
    shell_words,
    swatch,
    table,
    titled,
    told,
    words,
)
from rtgauge.report.results.model import Analysis
from rtgauge.report.results.observations import RULES
from rtgauge.report.results.published import CAUTION
from rtgauge.report.results.sequences import Sequenced
from rtgauge.report.sets.compare import Compared

__all__ = ["render"]

ROWS: Final = 64
"""Maximum number of series in a table of the appendix: those with the highest maxima."""


def render(
    analysis: Analysis,
    paper: str = "a4",
    compared: Compared | str | None = None,
    cover: Cover = NO_COVER,
) -> bytes:
    """The complete report on the runs of an analysis, as a PDF; ``compared`` as for
    ``html.render``. Raises RtgaugeError if it cannot be made."""
    # Tags for screen readers would make the file larger by half.
    return compiled("full.typ", *_files(analysis, paper, compared, cover), tags=False)


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

    def ranges(self, one: Figure) -> dict[str, Any]:
        """A figure across the page."""
        caption = words(one.caption)
        return {"file": self.add(one.svg), "title": titled(one.title), "caption": caption}

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
    analysis: Analysis, paper: str, compared: Compared | str | None, cover: Cover
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The data of the template, and the files that it names."""
    views = views_of(analysis, compared)
    book = _Book(views)
    model = analysis.model
    first = short(analysis, compared)
    chosen = [one for one in first.sections if one.anchor.endswith(("comparison", "answer"))]
    every = [*contexts_blocks(model), *evidence_blocks(model)]
    if len(model["runs"]) == 1 and every:
        chosen.append(Section("All evidence", "bounds", tuple(every)))
    appendix = extrapolation_section(model)
    document = {
        **told(first, chosen, book.files),
        "appendix": told(first, [appendix] if appendix else [], book.files)["groups"],
        "complete": "",
        **frame(titled(views.title), model["runs"], paper, cover, book.files),
        "head": plain(views.head),
        "caution": words(CAUTION),
        "rules": [{"name": words(rule.name), "says": words(rule.says)} for rule in RULES],
        "runs": [
            {**_run(book, run), "id": model["runs"][number]["id"][:13]}
            for number, run in enumerate(views.runs)
        ],
        "comparison": _comparison(book, views.comparison),
    }
    return document, book.files


def _run(book: _Book, run: Mapping[str, Any]) -> dict[str, Any]:
    steps = []
    for step in run["steps"]:
        groups = [
            {
                **plain({name: value for name, value in group.items() if name not in _DRAWN}),
                "table": table(group["table"]),
                "all": _most(group["all"], group["ranked"]),
                "more": _most(group["more"], group["ranked"]),
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
                "ranges": step["ranges"] and book.ranges(step["ranges"]),
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


_DRAWN: Final = ("table", "all", "more", "figures", "places", "labels", "ranked")
_SHOWN: Final = (
    "row", "groups", "tables", "orders", "sequences", "published", "ranges", "opens",
    "step",
)  # fmt: skip
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
        "sets": [{**plain(one), "swatch": swatch(one["swatch"])} for one in sets["sets"]],
        "tables": [
            {
                "title": titled(one.title),
                "heads": plain(one.heads),
                "methods": plain(one.methods),
                "widths": numbers_widths(one.heads, [row.cells for row in one.rows]),
                "rows": [{**plain(row), "swatch": swatch(row.swatch)} for row in one.rows],
                "drawn": book.drawn(one.figures, one.views),
            }
            for one in sets["tables"]
        ],
    }


def _side(book: _Book, one: Any) -> dict[str, Any]:
    """A table of rows side by side, with their small histograms."""
    lines = []
    for line in one.lines:
        spark = book.add(drawing.spark(line.path, line.peak)) if line.path else None
        lines.append(
            {
                "name": titled(line.name),
                "command": shell_words(" ".join(line.command)),
                "spark": spark,
                "tags": plain(line.tags),
                "swatch": swatch(line.swatch),
                "cells": plain(line.cells),
            }
        )
    return {
        **plain({key: getattr(one, key) for key in ("title", "caption", "low", "high")}),
        "heads": plain(one.heads),
        "commands": one.commands,
        "widths": numbers_widths(one.heads, [line.cells for line in one.lines]),
        "lines": lines,
        "drawn": book.drawn(one.figures, one.views) if one.figures else None,
    }


def _most(grid: Grid | None, ranked: Sequence[str]) -> dict[str, Any] | None:
    """A table of the appendix with at most ``ROWS`` series, and how many more there are.
    ``ranked``: the names of the series, that with the highest maximum first."""
    if grid is None:
        return None
    if len(grid.rows) <= ROWS:
        return table(grid)
    kept = set(ranked[:ROWS])
    rows = [row for row in grid.rows if row.name in kept]
    left = numbers.count(len(grid.rows) - len(rows))
    caption = (
        f"{grid.caption} Shown are the {len(rows)} series with the highest maxima. The HTML report "
        f"and the results (JSON) have {left} more."
    )
    return table(dataclasses.replace(grid, rows=rows, caption=caption.strip()))
