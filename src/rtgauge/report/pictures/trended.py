# SPDX-License-Identifier: Apache-2.0
"""A figure over the runs of a label, with its segments: SVG, drawn once for every format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.pictures import scales
from rtgauge.report.pictures.drawing import (
    COLOURS,
    FAIL,
    INK,
    NAME_ROW,
    SOFT,
    Plot,
    classed,
    marker,
    pt,
)

__all__ = ["trended"]

WIDTH: Final = 482.0
HEIGHT: Final = 150.0
WIDE: Final = 5.0
"""A ratio of the largest to the smallest value beyond which the axis is logarithmic."""


def trended(one: Mapping[str, Any]) -> str:
    """The figure of one series of the trend document: a point for each run, a line along the median
    of each segment, and a vertical line where a segment begins."""
    divisor = numbers.divisor(one["unit"])
    values = [each["value"] / divisor for each in one["values"]]
    low, high = min(values), max(values)
    room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    wide = low > 0 and high > WIDE * low
    y = scales.values(low, high) if wide else scales.linear(low - room, high + room)
    plot = Plot(WIDTH, HEIGHT, scales.linear(0.5, len(values) + 0.5), y)
    names = _names(plot, one["changes"])
    above = NAME_ROW * (max((row for _, row in names), default=-1) + 1)
    plot.height, plot.top, plot.bottom = HEIGHT + above, plot.top + above, plot.bottom + above
    plot.across(plot.x.ticks(9), "run, in chronological order")
    unit = numbers.unit_name(one["unit"])
    plot.upwards(plot.y.ticks(7), f"value ({unit})" if unit else "value")
    for at, value in enumerate(values, 1):
        plot.path(marker(0, plot.px(at), plot.py(value), 1.6), COLOURS[0], 0.8)
    for each in one["segments"]:
        left, right = plot.px(each["begin"] + 0.5), plot.px(each["begin"] + each["runs"] + 0.5)
        level = plot.py(each["median"] / divisor)
        plot.path(f"M{pt(left)} {pt(level)}H{pt(right)}", INK, 1.2)
    for change, (name, row) in zip(one["changes"], names, strict=True):
        colour = FAIL if change["direction"] == "worse" else SOFT
        plot.upright(change["at"] + 0.5, name, colour, "4 2", -1 - row)
    plot.frame()
    return classed(plot.svg())


def _names(plot: Plot, changes: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """The name of each change and its row above the drawing, in which no other name is near."""
    found, ends = [], [0.0]
    for change in changes:
        name = f"#{change['number']}" if change["number"] else str(change["at"] + 1)
        begin, end, _ = plot.beside(change["at"] + 0.5, name)
        row = next((row for row, last in enumerate(ends) if last <= begin), len(ends))
        ends[row : row + 1] = [end]
        found.append((name, row))
    return found
