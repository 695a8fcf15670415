# SPDX-License-Identifier: Apache-2.0
"""The picture of the answer: distributions of the latency, idle and loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rtgauge import text as numbers
from rtgauge.report.document.answer.data import Data, Model
from rtgauge.report.document.blocks import Figure
from rtgauge.report.pictures.distribution import CURVES, FAR, Curve, distribution, load_hues
from rtgauge.report.results.labels import capital, highest, load_text, peak
from rtgauge.report.results.model import Analysis
from rtgauge.stats import Counts

__all__ = ["answer_figure"]


def answer_figure(analysis: Analysis, number: int) -> Figure | None:
    """The latency that the answer is about: its distributions idle and under each load, all CPUs
    merged, with the budget. None without a sample."""
    data = Data(analysis.model["runs"][number])
    top = data.top
    if top is None:
        return None
    same = [
        (place, one)
        for place, one in enumerate(data.run["series"])
        if any(one is other for other in data.best)
        and (one["measurement"], one["name"], one["context"])
        == (top["measurement"], top["name"], top["context"])
    ]
    by_load: dict[str, list[tuple[int, Any]]] = {}
    for place, one in same:
        by_load.setdefault(load_text(data.step(one)["load"]), []).append((place, one))
    # idle first, then the loads with the highest maxima
    order = sorted(
        by_load,
        key=lambda name: (name != "idle", -(highest(peak(one) for _, one in by_load[name]) or 0)),
    )
    left = order[CURVES:]
    by_load = {name: one for name, one in by_load.items() if name not in left}
    hues = load_hues(by_load)
    curves = [
        Curve(name, *_merged(analysis, number, members), hue=hues[name])
        for name, members in sorted(by_load.items(), key=lambda item: item[0] != "idle")
    ]
    budgets = {step["budget"]["budget_ns"] for _, one in same if (step := data.step(one))["budget"]}
    budget = min(budgets, default=None)
    svg = distribution(curves, top["unit"], top["name"], budget)
    if not svg:
        return None
    cpus = len({one["cpu"] for _, one in same})
    text = "; ".join(_curve_text(name, members) for name, members in by_load.items())
    caption = f"How often each {top['name']} occurred"
    caption += f", {cpus} CPUs merged" if cpus > 1 else ""
    caption += ". Both axes are logarithmic, so a single late sample is visible. The ring marks "
    caption += "the maximum."
    if left:
        caption += f" Not drawn, because their maxima are lower: {numbers.join(left)}."
    if budget is not None:
        text += f". Budget {numbers.microseconds(budget)}"
        if budget > FAR * (peak(top) or 0):
            caption += f" The budget, {numbers.microseconds(budget)}, is far beyond the axis."
    return Figure(svg, f"Distribution of the {top['name']}", caption, f"{capital(text)}.")


def _merged(
    analysis: Analysis, number: int, members: Sequence[tuple[int, Model]]
) -> tuple[Counts, int | None]:
    """All samples of some series, and their maximum if it is a lower limit."""
    figures, places = analysis.figures[number], analysis.places[number]
    counts = Counts.merged([figures[places[place]].counts for place, _ in members])
    top = highest(peak(one) for _, one in members)
    return counts, int(top) if isinstance(top, numbers.AtLeast) else None


def _curve_text(name: str, members: Sequence[tuple[int, Model]]) -> str:
    total = sum(one["count"] for _, one in members)
    top = highest(peak(one) for _, one in members)
    return f"{name}: {numbers.count(total)} samples, max {numbers.shown(top, 'ns').full}"
