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
LABEL: Final = 170.0
_LEAST: Final = 0.8
"""Width of the shortest segment, in points, so that each is seen."""


def gantt(cause: Mapping[str, Any]) -> str:
    """The figure of a cause of the results model: from the beginning of its sample to the stamp."""
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
        same = [one for one in segments if one["kind"] == kind]
        for place, one in enumerate(same):
            before, after = same[:place][-1:], same[place + 1 :][:1]
            room = (
                max((_places(plot, each, divisor)[1] for each in before), default=plot.left),
                min((_places(plot, each, divisor)[0] for each in after), default=plot.right),
            )
            _bar(plot, one, divisor, (top, bottom), COLOURS[row % len(COLOURS)], room)
    plot.frame()
    return classed(plot.svg())


def _places(plot: Plot, one: Mapping[str, Any], divisor: float) -> tuple[float, float]:
    """Where the bar of a segment begins and ends."""
    left = plot.px(one["begin_ns"] / divisor)
    right = plot.px((one["begin_ns"] + one["length_ns"]) / divisor)
    return left, max(right, left + _LEAST)


def _bar(
    plot: Plot,
    one: Mapping[str, Any],
    divisor: float,
    row: tuple[float, float],
    colour: str,
    room: tuple[float, float],
) -> None:
    """A segment. ``room``: the end of the bar before it in its row, and the start of the next."""
    left, right = _places(plot, one, divisor)
    top, bottom = row[0] + 2.5, row[1] - 2.5
    plot.path(f"M{pt(left)} {pt(top)}H{pt(right)}V{pt(bottom)}H{pt(left)}Z", fill=colour)
    task = f"held by {one['owner']['name']}" if one["owner"] else ""
    task = task or (one["task"]["name"] if one["task"] else "")
    words = ": ".join(part for part in (task, one["function"]) if part)
    before, after = left - room[0] - 4, room[1] - right - 4
    middle = (top + bottom) / 2 + 2.5
    if right - left > 0.5 * (plot.right - plot.left):
        plot.text(left + 4, middle, fit(words, right - left - 8), fill=PAPER)
    elif words and max(before, after) > text_width("mmmm"):
        shown = fit(words, min(max(before, after), LABEL))
        if after >= min(LABEL, before):
            plot.text(right + 3, middle, shown, font_size="6.2")
        else:
            plot.text(left - 3, middle, shown, text_anchor="end", font_size="6.2")


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
