# SPDX-License-Identifier: Apache-2.0
"""Distributions of one quantity in one small figure that every format shows: SVG, drawn once.

The figure is readable at 400 pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rtgauge import text as numbers
from rtgauge.report.pictures import edges_of, scales
from rtgauge.report.pictures.drawing import (
    COLOURS,
    FAIL,
    INK,
    Plot,
    classed,
    fit,
    marker,
    pt,
)  # fmt: skip
from rtgauge.stats import Counts

__all__ = ["CURVES", "FAR", "Curve", "distribution"]

WIDTH: Final = 330.0
HEIGHT: Final = 190.0
BINS: Final = 90
CURVES: Final = 4
"""More curves than these cannot be told apart in a small figure."""
FAR: Final = 30
"""A budget more than this many times the largest sample is not on the axis."""


@dataclass(frozen=True)
class Curve:
    """A distribution and its name. ``at_least``: its maximum is a lower limit (unanswered)."""

    name: str
    counts: Counts
    at_least: int | None = None


def distribution(
    curves: Sequence[Curve],
    unit: str,
    quantity: str,
    budget: int | None = None,
    width: float = WIDTH,
) -> str:
    """The figure of up to ``CURVES`` distributions as SVG; values and ``budget`` are in ``unit``.
    Empty without a sample."""
    drawn = [curve for curve in curves if curve.counts.count][:CURVES]
    if not drawn:
        return ""
    divisor = numbers.divisor(unit)
    edges = edges_of([curve.counts for curve in drawn], BINS)
    rows = [_binned(curve.counts, edges) for curve in drawn]
    x = [float(edge) / divisor for edge in edges]
    most = max(10, *(int(row.max()) for row in rows))
    tops = [max(float(curve.counts.max or 0), float(curve.at_least or 0)) for curve in drawn]
    begin, end = x[0], max(x[-1], max(tops) / divisor)
    # A bin of equal samples would be as wide as the figure: each distribution is a line instead.
    lines = all(len(curve.counts.values) == 1 for curve in drawn)
    if lines and begin > 0:
        begin, end = begin * 0.8, end * 1.25
    if budget is not None and budget <= FAR * max(tops):
        end = max(end, budget / divisor * 1.1)
    height = HEIGHT * (width / WIDTH) ** 0.5
    plot = Plot(width, height, scales.values(begin, end), scales.counts(0.5, most * 1.6))
    columns = len(drawn) if width >= WIDTH else min(len(drawn), 2)
    plot.top += 11 * -(-len(drawn) // columns)
    name = numbers.unit_name(unit)
    plot.across(
        plot.x.ticks((plot.right - plot.left) / 34), f"{quantity} ({name})" if name else quantity
    )
    plot.upwards(scales.powers(plot.y, 8), "samples per bin", scales.power)
    base = pt(plot.py(0.5))
    for at, curve in enumerate(drawn if lines else ()):
        high = plot.py(float(curve.counts.count))
        place = plot.px(float(curve.counts.values[0]) / divisor)
        plot.path(f"M{pt(place)} {base}V{pt(high)}", COLOURS[at], 2.0)
    for at, row in enumerate(() if lines else rows):
        path = plot.steps(x, [max(float(count), 0.5) for count in row])
        start = f"M{pt(plot.px(x[0]))} {base}"
        shape = f"{start}V{path[1:].split('H')[0].split(' ')[1]}{path[path.index('H') :]}V{base}"
        if len(rows) < 3:
            plot.path(shape, fill=COLOURS[at], fill_opacity="0.2")
        plot.path(shape, COLOURS[at], 1.0, stroke_linejoin="round")
    if budget is not None and plot.x.low <= budget / divisor <= plot.x.high:
        text = f"budget {numbers.microseconds(budget)}"
        plot.upright(budget / divisor, text, FAIL, "4 2")
    _maximum(plot, drawn, tops, unit, lines)
    _legend(plot, drawn, columns)
    plot.frame()
    return classed(plot.svg())


def _binned(counts: Counts, edges: np.ndarray) -> np.ndarray:
    below = np.concatenate(([0], counts.cumulative))
    return np.diff(below[np.searchsorted(counts.values, edges, side="left")])


def _maximum(
    plot: Plot, drawn: Sequence[Curve], tops: Sequence[float], unit: str, lines: bool
) -> None:
    """A ring at the largest sample of all, and its value. ``lines``: the samples of each
    distribution are equal."""
    at = max(range(len(drawn)), key=lambda at: tops[at])
    value = tops[at] / numbers.divisor(unit)
    x, y = plot.px(value), plot.py(float(drawn[at].counts.count) if lines else 1.0)
    plot.path(marker(0, x, y, 3.4), INK, 1.0)
    limit = drawn[at].at_least
    shown = numbers.shown(int(tops[at]) if limit is None else numbers.AtLeast(limit), unit).full
    word = "max"
    if lines and len(drawn) == 1 and limit is None:
        word = f"all {numbers.plural(drawn[at].counts.count, 'sample')}"
    left = x > (plot.left + plot.right) / 2
    plot.label(x + (-6 if left else 6), y - 6, f"{word} {shown}", INK, "end" if left else "start")


def _legend(plot: Plot, drawn: Sequence[Curve], columns: int) -> None:
    """The names of the curves above the figure, each in its colour."""
    room = (plot.right - plot.left) / columns
    left, lines = plot.left, -(-len(drawn) // columns)
    for at, curve in enumerate(drawn):
        left = left if at % columns else plot.left
        top = plot.top - 11 * (lines - 1 - at // columns)
        text = fit(curve.name, room - 14)
        plot.path(f"M{pt(left)} {pt(top - 8)}h8v5h-8z", fill=COLOURS[at])
        plot.text(left + 11, top - 3, text, fill=COLOURS[at], font_weight="600")
        left += room
