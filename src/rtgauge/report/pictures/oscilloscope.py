# SPDX-License-Identifier: Apache-2.0
"""Answers on paper as an oscilloscope shows them in infinite-persistence mode, and the waveforms of
captures: the figures of ``persistence``. Step 11 of the path of a sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rtgauge import text as numbers
from rtgauge.report.pictures import scales
from rtgauge.report.pictures.drawing import (
    FAIL,
    INK,
    SHADES,
    SOFT,
    WARM,
    Data,
    Plot,
    Quantity,
    fit,
    pt,
    shade_of,
    text_width,
)
from rtgauge.report.pictures.scales import Scale
from rtgauge.text import GAP

__all__ = ["DRAWN"]


def _persistence(quantity: Quantity, width: float, height: float) -> Plot | None:
    return _answers(quantity, width, 0)


def _enlarged(quantity: Quantity, width: float, height: float) -> Plot | None:
    return _answers(quantity, width, 1)


PALE: Final = 0.2
"""The place of a single answer on the ramp of shades."""
_TRACE: Final = 24.0
"""The height of a trace of answers, from its low to its high level."""


def _answers(quantity: Quantity, width: float, which: int) -> Plot | None:
    """All answers superimposed, below the event. ``which``: the number of the time base."""
    answers = quantity.data.get("persistence")
    if not answers or which >= len(answers["panels"]):
        return None
    panel, many = answers["panels"][which], quantity.number > 1
    pitch = _TRACE + (17 if many else 10)
    start, step = panel["start_ns"] / quantity.divisor, panel["division_ns"] / quantity.divisor
    plot = Plot(
        width,
        13 + 18 + 6 + pitch * quantity.number + 30,
        Scale("linear", start, start + 10 * step),
        Scale("linear", 0, 1),
    )
    unit = f"{GAP}{quantity.unit}" if quantity.unit else ""
    plot.across(
        [start + at * step for at in range(11)],
        f"time since the event ({quantity.unit}), {scales.tick(step)}{unit} per division",
    )
    most = max(
        [1, *(n + sum(left) for n, left in zip(answers["count"], answers["open"], strict=True))]
    )

    plot.shades("answers on a path", most, PALE)

    def shade(number: int) -> str:
        return shade_of(PALE + (1 - PALE) * math.log(max(number, 1)) / math.log(max(most, 2)))

    rises, falls = _ways(answers)
    _event(plot, rises, falls)
    edges = [value / quantity.divisor for value in panel["edges"]]
    for row in range(quantity.number):
        high = 13 + 18 + 6 + pitch * row + (14 if many else 7)
        went = [np.array(panel[kind][row], np.int64) for kind in ("rising", "falling")]
        before = [panel["outside"][2 * row + kind] for kind in (0, 1)]
        events = [
            int(one.sum()) + sum(outside) + left
            for one, outside, left in zip(went, before, answers["open"][row], strict=True)
        ]
        _trace(plot, edges, went, ([one[0] for one in before], events), (high, shade))
        _named(plot, quantity, answers, row, (high, many, sum(one[1] for one in before)))
    return plot


def _ways(answers: Data) -> tuple[bool, bool]:
    """Whether any event rises, and whether any falls."""
    panel = answers["panels"][0]
    rises, falls = (
        any(left[at] for left in answers["open"]) or any(any(counts) for counts in panel[kind])
        for at, kind in enumerate(("rising", "falling"))
    )
    return rises, falls


def _event(plot: Plot, rises: bool, falls: bool) -> None:
    """The event's edge at 0, both ways where both occur."""
    low, high, left = 30.0, 16.0, plot.left
    at = min(max(plot.px(0.0), plot.left), plot.right)
    plot.text(2, 25, "event", fill=SOFT)
    for there, before, after in ((rises, low, high), (falls, high, low)):
        if there:
            data = f"M{pt(left)} {pt(before)}H{pt(at)}V{pt(after)}H{pt(plot.right)}"
            plot.path(data if at > left else f"M{pt(left)} {pt(after)}H{pt(plot.right)}", INK, 1.1)


def _trace(
    plot: Plot,
    edges: Sequence[float],
    went: Sequence[NDArray[np.int64]],
    known: tuple[Sequence[int], Sequence[int]],
    how: tuple[float, Callable[[int], str]],
) -> None:
    """The levels and the edges of a row. ``known``: the answers, rising and falling, that came
    before the picture begins, and all events; ``how``: the top, and the shade of a number."""
    (done, events), (high, shade) = ([list(known[0]), known[1]], how)
    low = high + _TRACE
    paths: dict[str, list[str]] = {}

    def level(x0: float, x1: float, y: float, number: int) -> None:
        if number:
            paths.setdefault(shade(number), []).append(
                f"M{pt(x0)} {pt(y - 0.8)}h{pt(x1 - x0)}v1.6h{pt(x0 - x1)}z"
            )

    since, bars = plot.left, []
    for at in np.flatnonzero(went[0] + went[1]).tolist():
        left = plot.px(edges[at])
        wide = max(plot.px(edges[at + 1]) - left, 0.9)
        level(since, left, high, done[0] + events[1] - done[1])
        level(since, left, low, done[1] + events[0] - done[0])
        since = left
        done = [done[0] + int(went[0][at]), done[1] + int(went[1][at])]
        bars.append((int(went[0][at] + went[1][at]), left, wide))
    level(since, plot.right, high, done[0] + events[1] - done[1])
    level(since, plot.right, low, done[1] + events[0] - done[0])
    for number, left, wide in bars:
        paths.setdefault(shade(number), []).append(
            f"M{pt(left)} {pt(high - 0.8)}h{pt(wide)}v{pt(_TRACE + 1.6)}h{pt(-wide)}z"
        )
    for colour, data in paths.items():
        plot.path("".join(data), fill=colour)


def _named(
    plot: Plot, quantity: Quantity, answers: Data, row: int, how: tuple[float, bool, int]
) -> None:
    """The name of a row, its first and its last answer, and what is not in the picture."""
    high, many, beyond = how
    middle, low = high + _TRACE / 2, high + _TRACE
    plot.text(2, middle + 2.5, "answer", fill=SOFT)
    if many:
        words = f"{quantity.labels[row]}: {numbers.plural(answers['count'][row], 'answer')}"
        room = plot.right - plot.left
        plot.text(plot.left, high - 4, fit(words, room), fill=INK, font_weight="600")
    ends = []
    for name in ("min", "max"):
        value = answers[name][row]
        if value is None or not plot.x.low <= value / quantity.divisor <= plot.x.high:
            continue
        at = plot.px(value / quantity.divisor)
        data = f"M{pt(at)} {pt(high - 3)}V{pt(low + 3)}"
        plot.path(data, WARM, 0.7, stroke_dasharray="2 1.6")
        word = name
        if name == "max" and quantity.at_least[row]:
            word = "slowest answer"
        elif name == "max" and value < quantity.data["max"][row]:  # a lost one was slower
            word = "max shown"
        words = f"{word} {quantity.shown(value / quantity.divisor)}"
        wide = text_width(words) * 0.85 + 4
        left = at - wide > plot.left if name == "min" else at + wide > plot.right
        ends.append((at, words, left, at - wide if left else at, at if left else at + wide))
    # Names that would be on each other are below each other, at the right end that of max on top.
    over = len(ends) == 2 and ends[0][3] < ends[1][4] and ends[1][3] < ends[0][4]
    down = 0.0 if not over else 4.5 if ends[1][2] else -4.5
    for at, words, left, _, _ in ends:
        y = middle + 2.5 + down
        plot.label(at + (-3 if left else 3), y, words, WARM, "end" if left else "start")
        down = -down
    words = ", ".join(
        text
        for text in (
            f"{numbers.count(beyond)} beyond" if beyond else "",
            f"{numbers.count(sum(answers['open'][row]))} unanswered"
            if sum(answers["open"][row])
            else "",
        )
        if text
    )
    if words:
        plot.label(plot.right - 2, low - 3, words, FAIL, "end")


def _first_waves(quantity: Quantity, width: float, height: float) -> Plot | None:
    return _waves(quantity, width, 0)


def _second_waves(quantity: Quantity, width: float, height: float) -> Plot | None:
    return _waves(quantity, width, 1)


def _waves(quantity: Quantity, width: float, which: int) -> Plot | None:
    """The waveforms of an analogue capture: the event's line above, the answer's below."""
    found = (quantity.data.get("persistence") or {}).get("waves") or ()
    if which >= len(found):
        return None
    pair = found[which]
    start, step = (pair["event"][name] / quantity.divisor for name in ("start_ns", "division_ns"))
    plot = Plot(width, 190, Scale("linear", start, start + 10 * step), Scale("linear", 0, 1))
    plot.across(
        [start + at * step for at in range(11)],
        f"time since the event ({quantity.unit}), {scales.tick(step)}{GAP}{quantity.unit} "
        "per division",
    )
    half = (plot.bottom - plot.top - 8) / 2
    tables = {name: np.array(one["cells"], np.int64) for name, one in pair.items()}
    most = max(int(table.max(initial=1)) for table in tables.values())
    plot.shades("points in a cell", most, PALE)
    for name, top in (("event", plot.top), ("answer", plot.top + half + 8)):
        one = pair[name]
        low, high = one["low_uv"] / 1e6, one["high_uv"] / 1e6
        plot.text(2, top + 6, f"{name} (V)", fill=INK)
        for value in Scale("linear", low, high).ticks(4):
            y = top + half - (value - low) / (high - low) * half
            if y > top + 12:
                plot.text(plot.left - 4, y + 2.4, scales.tick(value), text_anchor="end")
        wide, tall = (plot.right - plot.left) / one["columns"], half / one["levels"]
        paths: dict[str, list[str]] = {}
        for at in np.flatnonzero(tables[name]).tolist():
            column, row = divmod(at, one["levels"])
            part = math.log(int(tables[name][at])) / math.log(max(most, 2))
            colour = shade_of(PALE + (1 - PALE) * round(part * SHADES) / SHADES)
            x, y = plot.left + column * wide, top + half - (row + 1) * tall
            paths.setdefault(colour, []).append(
                f"M{pt(x)} {pt(y)}h{pt(wide + 0.1)}v{pt(tall + 0.1)}h{pt(-wide - 0.1)}z"
            )
        for colour, data in paths.items():
            plot.path("".join(data), fill=colour)
    return plot


DRAWN: Final[Mapping[str, Callable[[Quantity, float, float], Plot | None]]] = {
    "persistence": _persistence,
    "enlarged": _enlarged,
    "waves0": _first_waves,
    "waves1": _second_waves,
}
"""Kind of a figure -> what draws it."""
