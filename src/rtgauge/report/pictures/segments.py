# SPDX-License-Identifier: Apache-2.0
"""Where the time of a sample went: a Gantt picture with a row for each class of segment. SVG, drawn
once for every format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.causes.model import CLASSES
from rtgauge.report.pictures import scales
from rtgauge.report.pictures.drawing import (
    COLOURS,
    FULL,
    HAIR,
    INK,
    Plot,
    classed,
    fit,
    pt,
    text_width,
)

__all__ = ["gantt", "gantt_said"]

ROW: Final = 15.0
NAMES: Final = 112.0
PAPER: Final = "#ffffff"
_LEAST: Final = 0.8
"""Width of the shortest segment, in points, so that each is seen."""


def gantt(cause: Mapping[str, Any]) -> str:
    """The figure of a cause of the results model: time from the beginning to the stamp."""
    segments: Sequence[Mapping[str, Any]] = cause["segments"]
    kinds = [kind for kind in CLASSES if any(one["kind"] == kind for one in segments)]
    height = 44.0 + ROW * max(len(kinds), 1)
    divisor, unit = (1e3, "µs") if cause["latency_ns"] < 1e7 else (1e6, "ms")
    end = max(cause["latency_ns"] / divisor, 1e-3)
    plot = Plot(FULL, height, scales.linear(0, end), scales.linear(0, max(len(kinds), 1)))
    plot.left = NAMES
    plot.across(plot.x.ticks(9), f"time since the sample began ({unit})")
    for row, kind in enumerate(kinds):
        top = plot.top + (plot.bottom - plot.top) * row / len(kinds)
        bottom = plot.top + (plot.bottom - plot.top) * (row + 1) / len(kinds)
        middle = (top + bottom) / 2
        plot.path(f"M{pt(plot.left)} {pt(bottom)}H{pt(plot.right)}", HAIR, 0.5)
        plot.text(plot.left - 5, middle + 2.5, CLASSES[kind], text_anchor="end", fill=INK)
        for one in segments:
            if one["kind"] == kind:
                _bar(plot, one, divisor, (top, bottom), COLOURS[row % len(COLOURS)])
    plot.frame()
    return classed(plot.svg())


def _bar(
    plot: Plot, one: Mapping[str, Any], divisor: float, row: tuple[float, float], colour: str
) -> None:
    left = plot.px(one["begin_ns"] / divisor)
    right = plot.px((one["begin_ns"] + one["length_ns"]) / divisor)
    right = max(right, left + _LEAST)
    top, bottom = row[0] + 2.5, row[1] - 2.5
    plot.path(f"M{pt(left)} {pt(top)}H{pt(right)}V{pt(bottom)}H{pt(left)}Z", fill=colour)
    task = one["task"]["name"] if one["task"] else ""
    words = ": ".join(part for part in (task, one["function"]) if part)
    room = plot.right - right - 4
    if right - left > 0.5 * (plot.right - plot.left):
        shown = fit(words, right - left - 8)
        plot.text(left + 4, (top + bottom) / 2 + 2.5, shown, fill=PAPER)
    elif words and room > text_width("mmmm"):
        shown = fit(words, min(room, 170.0))
        plot.text(right + 3, (top + bottom) / 2 + 2.5, shown, font_size="6.2")


def gantt_said(cause: Mapping[str, Any]) -> str:
    """Its content in a sentence."""
    sums: dict[str, int] = {}
    for one in cause["segments"]:
        sums[one["kind"]] = sums.get(one["kind"], 0) + one["length_ns"]
    parts = [
        f"{CLASSES[kind]} {numbers.shown(ns, 'ns').full}"
        for kind, ns in sorted(sums.items(), key=lambda each: -each[1])
    ]
    return f"{numbers.join(parts)}." if parts else "No segment is known."
