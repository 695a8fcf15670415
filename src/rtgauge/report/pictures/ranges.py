# SPDX-License-Identifier: Apache-2.0
"""Ranges from min to max below each other on one axis: SVG, drawn once for every format."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rtgauge import text as numbers
from rtgauge.report.pictures import scales
from rtgauge.report.pictures.drawing import (
    ACCENT,
    FULL,
    INK,
    SOFT,
    Plot,
    classed,
    fit,
    pt,
    text_width,
)

__all__ = ["Range", "ranges"]

NAMES: Final = 190.0
"""Width of the column of names, in points."""
ROW: Final = 12.0
VALUES: Final = 46.0
"""Room for the max after the longest bar."""


@dataclass(frozen=True)
class Range:
    """Min, mean and max in us; None: not known. ``open``: the true max is larger. ``own``: measured
    here. Rows of the same ``group`` that follow each other have its name above them."""

    name: str
    least: float | None
    mean: float | None
    most: float
    open: bool
    own: bool
    group: str


def ranges(rows: Sequence[Range]) -> str:
    """The picture of one or more ranges."""
    ends = [end for one in rows for end in (one.least, one.most) if end is not None]
    groups = [(name, list(some)) for name, some in itertools.groupby(rows, lambda one: one.group)]
    height = ROW * (len(rows) + len(groups)) + 40
    plot = Plot(FULL, height, scales.values(min(ends), max(ends)), scales.linear(0, 1))
    plot.left, plot.right = NAMES, plot.width - VALUES
    plot.across(plot.x.ticks((plot.right - plot.left) / 34), "µs")
    y = plot.top
    for name, some in groups:
        plot.text(0, y + 8, fit(name, plot.width * 0.9), fill=INK, font_weight="600")
        y += ROW
        for one in some:
            _row(plot, one, y + ROW / 2)
            y += ROW
    plot.frame()
    return classed(plot.svg())


def _row(plot: Plot, one: Range, y: float) -> None:
    colour = ACCENT if one.own else SOFT
    weight = "600" if one.own else "400"
    plot.text(8, y + 2.4, fit(one.name, NAMES - 14), fill=INK if one.own else SOFT,
              font_weight=weight)  # fmt: skip
    end = plot.px(one.most)
    if one.least is None:
        plot.path(f"M{pt(plot.left)} {pt(y)}H{pt(end)}", colour, 0.8, stroke_dasharray="1.4 2")
        plot.path(f"M{pt(end - 1)} {pt(y - 3)}h2v6h-2z", fill=colour)
    else:
        start = plot.px(one.least)
        wide = max(end - start, 1.2)
        opacity = "1" if one.own else "0.55"
        plot.path(f"M{pt(start)} {pt(y - 3)}h{pt(wide)}v6h{pt(-wide)}z",
                  fill=colour, fill_opacity=opacity)  # fmt: skip
    if one.mean is not None:
        at = plot.px(one.mean)
        plot.path(f"M{pt(at)} {pt(y - 4.5)}V{pt(y + 4.5)}", INK, 1.2)
    if one.open:
        plot.path(f"M{pt(end)} {pt(y - 4)}l5 4l-5 4z", fill=colour)
    text = numbers.exact(one.most) if not one.own else numbers.shown(one.most * 1000, "ns").text
    text = f"{'≥' if one.own else '>'}{numbers.GAP}{text}" if one.open else text
    right = end + (8 if one.open else 4)
    plot.text(min(right, plot.width - text_width(text)), y + 2.4, text,
              fill=colour, font_weight=weight)  # fmt: skip
