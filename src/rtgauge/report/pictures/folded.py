# SPDX-License-Identifier: Apache-2.0
"""The largest samples of a quantity over one period of the rhythm that was found among them: SVG,
drawn once for every format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.pictures import scales
from rtgauge.report.pictures.drawing import COLOURS, SOFT, Plot, classed, pt

__all__ = ["folded", "folded_said"]

WIDTH: Final = 340.0
HEIGHT: Final = 120.0


def folded(periodic: Mapping[str, Any]) -> str:
    """The figure of a rhythm of the results model (``periodic`` of an observation): excursions in
    each part of the period, and the number that they would have without a rhythm."""
    counts = periodic["fold"]
    period = periodic["period_ns"]
    divisor, unit = (1e6, "ms") if period < 1e9 else (1e9, "s")
    half = period / divisor / 2
    edges = [-half + 2 * half * at / len(counts) for at in range(len(counts) + 1)]
    plot = Plot(WIDTH, HEIGHT, scales.linear(-half, half), scales.linear(0, max(counts) * 1.15))
    plot.across(plot.x.ticks(7), f"time from the middle of the rhythm ({unit})")
    plot.upwards(plot.y.ticks(5), "excursions")
    base = pt(plot.py(0))
    path = plot.steps(edges, [float(count) for count in counts])
    start = f"M{pt(plot.px(edges[0]))} {base}V{path[1:].split('H')[0].split(' ')[1]}"
    plot.path(f"{start}{path[path.index('H') :]}V{base}", fill=COLOURS[0], fill_opacity="0.25")
    plot.path(path, COLOURS[0], 1.0, stroke_linejoin="round")
    plot.level(sum(counts) / len(counts), "without a rhythm", SOFT, "4 2.5")
    plot.frame()
    return classed(plot.svg())


def folded_said(periodic: Mapping[str, Any]) -> str:
    """Its content in a sentence."""
    many = numbers.plural(periodic["excursions"], "excursion")
    return (
        f"The rhythm explains {numbers.percent(periodic['share'])} of {many}: those "
        f"within {numbers.shown(periodic['width_ns'], 'ns').full} of each period, minus the "
        "number expected there by chance."
    )
