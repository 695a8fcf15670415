# SPDX-License-Identifier: Apache-2.0
"""Ratios of configurations with their intervals, in one figure that every format shows: SVG, drawn
once.

A row for each comparison: a line for the interval, a diamond for the ratio, a dot for each block.
The margin is a band around 1. The figure is readable at 400 pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rtgauge import text as numbers
from rtgauge.report.pictures import scales
from rtgauge.report.pictures.drawing import (
    COLOURS,
    FAIL,
    HAIR,
    INK,
    SOFT,
    Plot,
    classed,
    fit,
    label_width,
    marker,
    pt,
    text_width,
)  # fmt: skip

__all__ = ["ROWS", "Ratio", "ratios"]

WIDTH: Final = 330.0
ROW: Final = 26.0
LINE: Final = 10.5
"""Height of the words of a row, above its interval."""
ROWS: Final = 12
"""Maximum number of rows."""
_LEFT: Final = 10.0

_HUES: Final = {"better": COLOURS[2], "worse": FAIL, "equivalent": COLOURS[0]}


@dataclass(frozen=True)
class Ratio:
    """A comparison. ``name``: of the figure. ``verdict``: its kind, which gives the colour.
    ``said``: the verdict in words. ``blocks``: the ratio of each block, if there are blocks."""

    name: str
    verdict: str
    said: str
    ratio: float
    low: float
    high: float
    blocks: Sequence[float] = ()


def ratios(rows: Sequence[Ratio], within: float, label: str) -> str:
    """The figure of up to ``ROWS`` rows as SVG, with the margin ``within``; ``label`` names the
    axis. Empty without a row."""
    drawn = rows[:ROWS]
    if not drawn:
        return ""
    ends = [1 + within, 1 / (1 + within)]
    ends += [value for row in drawn for value in (row.low, row.high, *row.blocks)]
    height = 14 + ROW * len(drawn) + 26
    plot = Plot(WIDTH, height, scales.values(min(ends), max(ends)), scales.linear(0, 1))
    plot.left, plot.top = _LEFT, 14.0
    margin = f"margin ±{numbers.percent(within, 6)}"
    first, last = plot.px(1 / (1 + within)), plot.px(1 + within)
    # Below the words of each row, so that no line crosses them.
    ends_y = [(plot.top + ROW * at + LINE, plot.top + ROW * (at + 1)) for at in range(len(drawn))]
    band = "".join(f"M{pt(first)} {pt(y)}H{pt(last)}V{pt(end)}H{pt(first)}z" for y, end in ends_y)
    plot.path(band, fill=HAIR, fill_opacity="0.7")
    plot.across(plot.x.ticks((plot.right - plot.left) / 34), label, lambda x: f"×{scales.tick(x)}")
    one = pt(plot.px(1.0))
    plot.path("".join(f"M{one} {pt(y)}V{pt(end)}" for y, end in ends_y), SOFT, 0.8)
    half = text_width(margin) / 2
    middle = min(max(plot.px(1.0), plot.left + half), plot.right - half)
    plot.text(middle, plot.top - 4, margin, text_anchor="middle")
    for at, row in enumerate(drawn):
        _row(plot, row, plot.top + ROW * at)
    return classed(plot.svg())


def _row(plot: Plot, row: Ratio, top: float) -> None:
    hue = _HUES.get(row.verdict, SOFT)
    said = fit(row.said, (plot.right - plot.left) * 0.5, label_width)
    plot.label(plot.right, top + 8, said, hue, "end")
    room = plot.right - plot.left - label_width(said) - 8
    plot.label(plot.left, top + 8, fit(row.name, room, label_width), INK)
    y = top + 16
    low, high = plot.px(row.low), plot.px(row.high)
    plot.path(f"M{pt(low)} {pt(y)}H{pt(high)}M{pt(low)} {pt(y - 3)}v6M{pt(high)} {pt(y - 3)}v6",
              hue, 1.2)  # fmt: skip
    plot.path(marker(3, plot.px(row.ratio), y, 2.6), fill=hue)
    dots = "".join(marker(0, plot.px(value), y + 5.5, 1.3) for value in row.blocks)
    plot.path(dots, INK, 0.7)
