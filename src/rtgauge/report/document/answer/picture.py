# SPDX-License-Identifier: Apache-2.0
"""The picture of the answer: distributions of the latency, idle and loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rtgauge import text as numbers
from rtgauge.report.document.answer.data import Data, Model
from rtgauge.report.document.blocks import Figure
from rtgauge.report.pictures.distribution import (
    axes_text,
    distribution,
    load_hues,
    merged,
    off_axis,
    selected,
)
from rtgauge.report.results.labels import capital, load_text, peak
from rtgauge.report.results.model import Analysis

__all__ = ["answer_figure"]


def answer_figure(analysis: Analysis, number: int) -> Figure | None:
    """The latency that the answer is about: its distributions idle and under each load, all CPUs
    merged, with the budget. None without a sample."""
    data = Data(analysis.model["runs"][number])
    top = data.top
    if top is None:
        return None
    best = {id(one) for one in data.best}
    same = [
        (place, one)
        for place, one in enumerate(data.run["series"])
        if id(one) in best
        and (one["measurement"], one["name"], one["context"])
        == (top["measurement"], top["name"], top["context"])
    ]
    by_load: dict[str, list[tuple[int, Any]]] = {}
    for place, one in same:
        by_load.setdefault(load_text(data.step(one)["load"]), []).append((place, one))
    figures, places = analysis.figures[number], analysis.places[number]
    curves, left = selected(
        [
            merged(
                name,
                [figures[places[place]].counts for place, _ in members],
                [peak(one) for _, one in members],
            )
            for name, members in sorted(by_load.items(), key=lambda item: item[0] != "idle")
        ]
    )
    hues = load_hues([curve.name for curve in curves])
    curves = [replace(curve, hue=hues[curve.name]) for curve in curves]
    budgets = {step["budget"]["budget_ns"] for _, one in same if (step := data.step(one))["budget"]}
    budget = min(budgets, default=None)
    svg = distribution(curves, top["unit"], top["name"], budget)
    if not svg:
        return None
    cpus = len({one["cpu"] for _, one in same})
    text = "; ".join(
        f"{curve.name}: {_samples(by_load[curve.name])}, {curve.top_text('ns', budget)}"
        for curve in curves
    )
    caption = f"How often each {top['name']} occurred"
    caption += f", {cpus} CPUs merged" if cpus > 1 else ""
    caption += f". {axes_text(curves)}, so a single late sample is visible. The ring marks the "
    caption += "maximum." + left
    caption += off_axis(curves, budget)
    text += "" if budget is None else f". Budget {numbers.microseconds(budget)}"
    return Figure(svg, f"Distribution of the {top['name']}", caption, f"{capital(text)}.")


def _samples(members: Sequence[tuple[int, Model]]) -> str:
    return numbers.plural(sum(one["count"] for _, one in members), "sample")
