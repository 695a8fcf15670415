# SPDX-License-Identifier: Apache-2.0
"""Distributions of one quantity in one small figure that every format shows: SVG, drawn once.

The figure is readable at 400 pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from rtgauge import text as numbers
from rtgauge.report.pictures import edges_of, scales
from rtgauge.report.pictures.drawing import (
    COLOURS,
    DASHES,
    FAIL,
    INK,
    Canvas,
    Plot,
    classed,
    fit,
    label_width,
    marker,
    pt,
)  # fmt: skip
from rtgauge.report.results.labels import highest
from rtgauge.stats import Counts

__all__ = [
    "CURVES",
    "Curve",
    "axes_text",
    "distribution",
    "load_hues",
    "merged",
    "off_axis",
    "selected",
]

WIDTH: Final = 330.0
HEIGHT: Final = 190.0
BINS: Final = 90
LEGEND_ROW: Final = 11
"""Height of a row of the legend. A figure has room for two, and is higher with more."""
LEGEND_LINE: Final = 22
"""Width of the piece of line before a name in the legend, with the gaps at both."""
LEGEND_GAP: Final = 3
"""Between the legend and the name of the budget's line."""
CURVES: Final = 4
"""More curves than these cannot be told apart in a small figure."""
FAR: Final = 30
"""A budget more than this many times the largest sample is not on the axis, nor is one of less than
this part of the smallest sample."""


@dataclass(frozen=True)
class Curve:
    """A distribution and its name. ``most``: its maximum, or the lower limit of it, if that is not
    the largest sample (unanswered, lost). ``hue``: its place among the colours, its place in the
    figure by default."""

    name: str
    counts: Counts
    most: int | None = None
    hue: int | None = None

    @property
    def top(self) -> int | None:
        """The maximum, or its lower limit."""
        return self.counts.max if self.most is None else self.most

    def top_text(self, unit: str, budget: int | None = None) -> str:
        """The maximum in words, next to a budget."""
        return f"max {numbers.shown(self.top, unit, budget).full}"


def merged(name: str, tables: Sequence[Counts], tops: Iterable[int | None]) -> Curve:
    """All samples of some series as one distribution. ``tops``: their maxima, or lower limits."""
    return Curve(name, Counts.merged(tables), highest(tops))


def selected(curves: Sequence[Curve]) -> tuple[list[Curve], str]:
    """The curves with samples for which a figure has room: that of the idle system, then those with
    the highest maxima. With a sentence for the caption that names the others, if there are any."""
    filled = [curve for curve in curves if curve.counts.count]
    order = sorted(filled, key=lambda curve: (curve.name != "idle", -(curve.top or 0)))
    left = [curve.name for curve in filled if curve in order[CURVES:]]
    said = f" Not drawn, because their maxima are lower: {numbers.join(left)}." if left else ""
    return [curve for curve in filled if curve.name not in left], said


def load_hues(loads: Iterable[str]) -> dict[str, int]:
    """The hue of each load: the same one for the idle system in every figure, then those of
    loads."""
    busy = [load for load in dict.fromkeys(loads) if load != "idle"]
    return {"idle": 0} | {load: at % CURVES for at, load in enumerate(busy, 1)}


def distribution(
    curves: Sequence[Curve],
    unit: str,
    quantity: str,
    budget: int | None = None,
    width: float = WIDTH,
) -> str:
    """The figure of the distributions that have samples as SVG; values and ``budget`` are in
    ``unit``. ``selected`` chooses from many. Empty without a sample."""
    drawn = [curve for curve in curves if curve.counts.count]
    if not drawn:
        return ""
    divisor = numbers.divisor(unit)
    edges = edges_of([curve.counts for curve in drawn], BINS)
    rows = [_binned(curve.counts, edges) for curve in drawn]
    places = [at if curve.hue is None else curve.hue for at, curve in enumerate(drawn)]
    hues = [COLOURS[place] for place in places]
    # without colour, the dashes tell several curves apart
    dashes = [DASHES[place % len(DASHES)] if len(drawn) > 1 else "" for place in places]
    looks = [{"stroke_dasharray": dash} if dash else {} for dash in dashes]
    x = [float(edge) / divisor for edge in edges]
    most = max(10, *(int(row.max()) for row in rows))
    tops = [float(curve.top or 0) for curve in drawn]
    begin, end = x[0], max(x[-1], max(tops) / divisor)
    # A bin of equal samples would be as wide as the figure: each distribution is a line instead.
    lines = all(len(curve.counts.values) == 1 for curve in drawn)
    if lines and begin > 0:
        begin, end = begin * 0.8, end * 1.25
    if budget is not None and not off_axis(drawn, budget):
        begin, end = min(begin, budget / divisor / 1.1), max(end, budget / divisor * 1.1)
    columns = _columns(drawn, width)
    legend = LEGEND_ROW * -(-len(drawn) // columns)
    height = HEIGHT * (width / WIDTH) ** 0.5 + max(legend - 2 * LEGEND_ROW, 0)
    plot = Plot(width, height, scales.values(begin, end), scales.counts(0.5, most * 1.6))
    plot.top += legend + LEGEND_GAP
    name = numbers.unit_name(unit)
    plot.across(
        plot.x.ticks((plot.right - plot.left) / 34), f"{quantity} ({name})" if name else quantity
    )
    plot.upwards(scales.powers(plot.y, 8), "samples per bin", scales.power)
    base = pt(plot.py(0.5))
    for at, curve in enumerate(drawn if lines else ()):
        high = plot.py(float(curve.counts.count))
        place = plot.px(float(curve.counts.values[0]) / divisor)
        plot.path(f"M{pt(place)} {base}V{pt(high)}", hues[at], 2.0, **looks[at])
    for at, row in enumerate(() if lines else rows):
        path = plot.steps(x, [max(float(count), 0.5) for count in row])
        start = f"M{pt(plot.px(x[0]))} {base}"
        shape = f"{start}V{path[1:].split('H')[0].split(' ')[1]}{path[path.index('H') :]}V{base}"
        if len(rows) < 3:
            plot.path(shape, fill=hues[at], fill_opacity="0.2")
        plot.path(shape, hues[at], 1.0, stroke_linejoin="round", **looks[at])
    mark = None
    if budget is not None and plot.x.low <= budget / divisor <= plot.x.high:
        mark = plot.px(budget / divisor)
        text = f"budget {numbers.microseconds(budget)}"
        plot.upright(budget / divisor, text, FAIL, "4 2")
    highest = [] if lines else np.max(rows, axis=0)
    heights = [(edge, int(count)) for edge, count in zip(x, highest, strict=False)]
    _maximum(plot, drawn, unit, heights, (budget, mark))
    _legend(plot, drawn, list(zip(hues, looks, strict=True)), columns)
    plot.frame()
    return classed(plot.svg())


def off_axis(curves: Sequence[Curve], budget: int | None) -> str:
    """Where a budget is that is not on the axis, as a sentence; empty for another."""
    if budget is None:
        return ""
    least = min(curve.counts.min or 0 for curve in curves if curve.counts.count)
    beyond = budget > FAR * max(curve.top or 0 for curve in curves)
    if not beyond and budget * FAR >= least:
        return ""
    where = "beyond" if beyond else "below"
    return f" The budget, {numbers.microseconds(budget)}, is far {where} the axis."


def axes_text(curves: Iterable[Curve]) -> str:
    """What the axes of the figure are. That of values is linear about zero."""
    positive = all((curve.counts.min or 0) > 0 for curve in curves if curve.counts.count)
    return "Both axes are logarithmic" if positive else "The count axis is logarithmic"


def _binned(counts: Counts, edges: np.ndarray) -> np.ndarray:
    below = np.concatenate(([0], counts.cumulative))
    return np.diff(below[np.searchsorted(counts.values, edges, side="left")])


def _maximum(
    plot: Plot,
    drawn: Sequence[Curve],
    unit: str,
    heights: Sequence[tuple[float, int]],
    limit: tuple[int | None, float | None],
) -> None:
    """A ring at the largest sample of all, and its value, above the outlines and next to the line
    of the budget. ``heights``: the start of each bin and its largest count; empty if the samples of
    each distribution are equal. ``limit``: the budget, and its place if it is in the figure."""
    lines = not heights
    budget, mark = limit
    at = max(range(len(drawn)), key=lambda at: drawn[at].top or 0)
    value = (drawn[at].top or 0) / numbers.divisor(unit)
    x, y = plot.px(value), plot.py(float(drawn[at].counts.count) if lines else 1.0)
    plot.path(marker(0, x, y, 3.4), INK, 1.0)
    top = highest(curve.top for curve in drawn)
    word = "max"
    sampled = top == drawn[at].counts.max and not isinstance(top, numbers.AtLeast)
    if lines and len(drawn) == 1 and sampled:
        word = f"all {numbers.plural(drawn[at].counts.count, 'sample')}"
    text = f"{word} {numbers.shown(top, unit, budget).full}"
    wide = label_width(text)
    left = x + 6 + wide > plot.right
    if mark is not None and x < mark < x + 9 + wide:
        left = x - wide > plot.left
    begin, end = (x - wide, x + 3) if left else (x + 6, x + 6 + wide)
    if mark is not None and begin - 3 < mark < min(x, end):
        # At the side of the maximum, if there is room for it.
        if mark + 4 + wide <= plot.right + 8:
            begin, end = mark + 4, mark + 4 + wide
        elif mark - 4 - wide > plot.left:
            begin, end = mark - 4 - wide, mark - 4
    bins = pairwise([*(plot.px(edge) for edge, _ in heights), plot.right])
    below = [
        count
        for (start, stop), (_, count) in zip(bins, heights, strict=True)
        if start < end and stop > begin and count
    ]
    high = min(y - 6, plot.py(float(max(below, default=1))) - 4)
    if end < x - 3:  # beyond the line of the budget
        plot.path(f"M{pt(x)} {pt(y - 3.4)}V{pt(high - 2.5)}H{pt(end + 2)}", INK, 0.6)
    elif high < y - 12:  # a line leads to a word that is far away
        plot.path(f"M{pt(x)} {pt(y - 3.4)}V{pt(high + 2)}", INK, 0.6)
    plot.label(end if left else begin, high, text, INK, "end" if left else "start")


def _columns(drawn: Sequence[Curve], width: float) -> int:
    """Number of columns of the legend: as many as have room for all names, at least one."""
    room = Canvas(width, HEIGHT)
    wide = LEGEND_LINE + max(label_width(curve.name) for curve in drawn)
    return min(max(int((room.right - room.left) / wide), 1), len(drawn))


def _legend(
    plot: Plot,
    drawn: Sequence[Curve],
    looks: Sequence[tuple[str, dict[str, str]]],
    columns: int,
) -> None:
    """The names of the curves above the figure, each with a piece of its line. ``looks``: the
    colour of each, and the attributes of its dashes."""
    room = (plot.right - plot.left) / columns
    left, lines = plot.left, -(-len(drawn) // columns)
    for at, curve in enumerate(drawn):
        left = left if at % columns else plot.left
        top = plot.top - LEGEND_GAP - LEGEND_ROW * (lines - 1 - at // columns)
        end = left + room if (at + 1) % columns else plot.width
        text = fit(curve.name, end - left - 19, label_width)
        hue, dash = looks[at]
        plot.path(f"M{pt(left)} {pt(top - 5.5)}h16", hue, 2.0, **dash)
        plot.text(left + 19, top - 3, text, fill=hue, font_weight="600")
        left += room
