# SPDX-License-Identifier: Apache-2.0
"""Figures on paper: the arrays of ``pictures`` as vector graphics (SVG) for the PDF.

Step 11 of the path of a sample, as ``pictures`` is. With ``drawing``, this module draws
the arrays that static/report.js draws on the screen. Every maximum is drawn. A figure of many
series shows the one with the largest maximum on top of all others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rtgauge import text as numbers
from rtgauge.report.pictures import oscilloscope, scales, untimed
from rtgauge.report.pictures.drawing import (
    ACCENT,
    COLOURS,
    FAIL,
    FAINT,
    FULL,
    HAIR,
    HALF,
    HEAT_COLUMNS,
    INK,
    SHADES,
    SOFT,
    WARM,
    WARN,
    Canvas,
    Data,
    Drawn,
    Plot,
    Quantity,
    cut,
    fit,
    label_width,
    marker,
    pt,
    put_marker,
    shade_of,
    tenth,
    text_width,
)
from rtgauge.report.pictures.scales import Scale
from rtgauge.report.results.labels import waits_for_answers
from rtgauge.report.results.sequences import Sequenced

__all__ = ["KINDS", "draw", "sequence"]

KEYED: Final = 32
"""Maximum number of lines against a label that the key names."""


# --- the kinds of figures --------------------------------------------------------------------


def _histogram(quantity: Quantity, width: float, height: float) -> Plot | None:
    edges, rows = quantity.data["histogram"]["edges"], quantity.data["histogram"]["counts"]
    if len(edges) < 2:
        return None
    x = [edge / quantity.divisor for edge in edges]
    most = max(10, *(max(row, default=0) for row in rows))
    plot = Plot(width, height, scales.values(x[0], x[-1]), scales.counts(0.5, most * 1.6))
    plot.across(plot.x.ticks((plot.right - plot.left) / 34), quantity.name())
    plot.upwards(
        scales.powers(plot.y, (plot.bottom - plot.top) / 14), "samples per bin", scales.power
    )
    base = pt(plot.py(0.5))
    if quantity.crowd:
        table = np.maximum(np.array(rows, np.int64), 0).T.tolist()
        low = [max(float(min(row)), 0.5) for row in table]
        high = [max(float(max(row)), 0.5) for row in table]
        plot.path(plot.band(x, low, high), FAINT, 0.4, fill=HAIR)
    for at in quantity.drawn():
        colour, wide = quantity.line(at)
        heights = [max(count, 0.5) for count in rows[at]]
        path = plot.steps(x, heights)
        outline = f"M{pt(plot.px(x[0]))} {base}V{path[1:].split('H')[0].split(' ')[1]}"
        path = outline + path[path.index("H") :] + f"V{base}"
        if quantity.number <= 3 and not quantity.compare:
            plot.path(path, fill=colour, fill_opacity="0.16" if quantity.number > 1 else "0.28")
        plot.path(path, colour, wide * 0.8, stroke_linejoin="round", **quantity.dash(at))
        if quantity.number > 1 and not quantity.crowd:
            filled = [k for k, count in enumerate(rows[at]) if count]
            mode = max(range(len(rows[at])), key=lambda k: rows[at][k], default=0)
            for k in {mode, *filled[-1:]}:
                middle = (plot.px(x[k]) + plot.px(x[k + 1])) / 2
                put_marker(plot, quantity.hue(at), middle, plot.py(rows[at][k]))
    quantity.lines_of(plot)
    plot.frame()
    return plot


def _ccdf(quantity: Quantity, width: float, height: float) -> Plot | None:
    data = quantity.data["ccdf"]
    if not data["x"]:
        return None
    x = [value / quantity.divisor for value in data["x"]]
    total = max(10, *data["total"], *data["corrected_total"])
    plot = Plot(width, height, scales.values(x[0], x[-1]), scales.counts(0.7 / total, 1.2))
    plot.across(plot.x.ticks((plot.right - plot.left) / 34), quantity.name())
    plot.upwards(
        scales.powers(plot.y, (plot.bottom - plot.top) / 14),
        "share of samples at least this large",
        scales.power,
    )

    def line(row: Sequence[int], number: int, colour: str, wide: float, **more: str) -> None:
        if not row or not number:
            return
        shares = [reached / number for reached in row]
        # Each share applies from the previous value up to its own.
        edges = [x[0], *x[: len(row)]]
        path = plot.steps(edges, shares) + f"V{pt(plot.bottom)}"
        plot.path(path, colour, wide, stroke_linejoin="round", **more)

    if quantity.crowd:
        shares = [
            [reached / number for reached in row] + [0.0] * (len(x) - len(row))
            for row, number in zip(data["reached"], data["total"], strict=True)
            if number
        ]
        edges = [x[0], *x]
        low = [max(min(column), plot.y.low) for column in zip(*shares, strict=True)]
        high = [max(*column, plot.y.low) for column in zip(*shares, strict=True)]
        plot.path(plot.band(edges, low, high), FAINT, 0.4, fill=HAIR)
    for at in quantity.drawn():
        colour, wide = quantity.line(at)
        row = data["reached"][at]
        line(row, data["total"][at], colour, wide, **quantity.dash(at))
        if data["corrected"][at]:
            line(
                data["corrected"][at],
                data["corrected_total"][at],
                colour,
                wide,
                stroke_dasharray="4 2.5",
            )
        if quantity.number > 1 and not quantity.crowd and row:
            share = [reached / data["total"][at] for reached in row]
            for part in (0.3, 0.02, 0.001, 0):
                k = next((k for k, one in enumerate(share) if one <= part), len(row) - 1)
                put_marker(plot, quantity.hue(at), plot.px(x[k]), plot.py(share[k]), 1.9)
    quantity.lines_of(plot)
    plot.frame()
    return plot


def _over(rows: Sequence[Sequence[int | None]], take: Callable[[Iterable[int]], int]) -> list[Any]:
    """The min or max of all series in each bin of time."""
    length = max((len(row) for row in rows), default=0)
    found: list[int | None] = []
    for at in range(length):
        there = [row[at] for row in rows if at < len(row)]
        known = [value for value in there if value is not None]
        found.append(take(known) if known else None)
    return found


def _times(time: Data) -> list[float]:
    number = max(len(row) for row in time["high"])
    return [(time["start_ns"] + time["bin_ns"] * at) / 1e9 for at in range(number + 1)]


def _floor(time: Data) -> Sequence[int | None]:
    """The min of all series in each bin of time."""
    return time["floor"] or _over(time["low"], min)


def _clock(plot: Plot) -> None:
    """The axis of time below."""
    ticks = plot.x.ticks((plot.right - plot.left) / 50)
    plot.across(ticks, "time since the step began (s)")


def _divided(row: Sequence[int | None], divisor: int) -> list[float | None]:
    return [None if value is None else value / divisor for value in row]


def _time(quantity: Quantity, width: float, height: float) -> Plot | None:
    time = quantity.data["time"]
    if not time:
        return None
    edges = _times(time)
    middles = [(a + b) / 2 for a, b in itertools.pairwise(edges)]
    high = _divided(_over(time["high"], max), quantity.divisor)
    low = _divided(_floor(time), quantity.divisor)
    known = [value for value in (*high, *low) if value is not None]
    if not known:
        return None
    most = max(known)
    if quantity.budget is not None:
        most = max(most, min(quantity.budget, most * 4))
    plot = Plot(width, height, scales.linear(edges[0], edges[-1]), scales.spread(min(known), most))
    _clock(plot)
    plot.upwards(plot.y.ticks((plot.bottom - plot.top) / 18), quantity.name())
    plot.path(
        plot.band(edges, low, high),
        fill=COLOURS[0] if quantity.number == 1 else FAINT,
        fill_opacity="0.2",
    )
    if quantity.number == 1:
        middle = _divided(time["middle"][0], quantity.divisor)
        plot.path(plot.joined(zip(middles, middle, strict=False)), SOFT, 0.8,
                  stroke_dasharray="2 1.6")  # fmt: skip
    if quantity.crowd or quantity.number == 1:
        colour = INK if quantity.crowd else COLOURS[0]
        plot.path(
            plot.joined(zip(middles, high, strict=True)), colour, 0.8, stroke_linejoin="round"
        )
    else:
        for at in quantity.ordered():
            row = _divided(time["high"][at], quantity.divisor)
            colour, wide = quantity.line(at)
            plot.path(plot.joined(zip(middles, row, strict=False)), colour, wide * 0.8,
                      stroke_linejoin="round")  # fmt: skip
            filled = [k for k, value in enumerate(row) if value is not None]
            apart = max(len(filled) // 5, 1)
            for k in filled[(at * apart // quantity.number) :: apart]:
                put_marker(plot, at, plot.px(middles[k]), plot.py(row[k] or 0.0), 1.9)
    _largest(plot, quantity, middles)
    _events(plot, quantity, time, middles)
    quantity.levels_of(plot)
    plot.frame()
    return plot


def _largest(plot: Plot, quantity: Quantity, middles: Sequence[float]) -> None:
    """A ring around the largest sample over time, with its value and the name of its series. A
    maximum that was lost, or that is in a histogram alone, is not among them."""
    top, at, whose = max(
        (value, -at, -number)
        for number, row in enumerate(quantity.data["time"]["high"])
        for at, value in enumerate(row)
        if value is not None
    )
    value = top / quantity.divisor
    x, y = plot.px(middles[-at]), plot.py(value)
    plot.path(marker(0, x, y, 3.2), INK, 0.9)
    name = f", {cut(quantity.labels[-whose], 30)}" if quantity.number > 1 else ""
    word = "max" if top == quantity.top else "max shown"
    word = "largest sample" if any(quantity.at_least) else word
    room = (plot.right - plot.left) * 0.45
    text = fit(f"{word} {quantity.shown(value)}{name}", room, label_width)
    left = x > (plot.left + plot.right) / 2
    plot.label(x + (-6 if left else 6), max(y + 2.5, plot.top + 6), text, INK,
               "end" if left else "start")  # fmt: skip


def _events(plot: Plot, quantity: Quantity, time: Data, middles: Sequence[float]) -> None:
    """Events as dotted lines, and triangles for periods missed and samples lost."""
    lines = [
        f"M{pt(plot.px(at))} {pt(plot.top)}V{pt(plot.bottom)}"
        for at, _ in quantity.data["events"]
        if plot.x.low <= at <= plot.x.high
    ]
    plot.path("".join(lines), ACCENT, 0.8, stroke_dasharray="1 2")
    base = plot.bottom
    for kind, colour, fill in (("missed", FAIL, FAIL), ("lost", WARN, "#ffffff")):
        for at in sorted({mark[0] for mark in time["marks"] if mark[2] == kind}):
            if at < len(middles):
                shape = f"M{pt(plot.px(middles[at]))} {pt(base - 6.5)}l3.2 6h-6.4z"
                plot.path(shape, colour, 0.7, fill=fill)


def _cells(
    plot: Plot,
    across: Sequence[tuple[float, float]],
    upwards: Sequence[tuple[float, float]],
    counts: NDArray[np.int64],
) -> None:
    """Filled cells, ``counts[column, row]``, the darker the more, with the scale above.

    Neighbouring cells of a row that have the same shade are drawn as one.
    """
    most = int(counts.max(initial=1))
    full = math.log(max(most, 2))
    shades = np.full(counts.shape, -1, np.int64)
    shades[counts > 0] = np.rint(SHADES * np.log(counts[counts > 0]) / full)
    paths: dict[int, list[str]] = {}
    columns = [(plot.px(a), plot.px(b)) for a, b in across]
    for row, (low, high) in enumerate(upwards):
        bottom, top = plot.py(low), plot.py(high)
        tall = max(bottom - top, 1.2)
        y, height = pt(bottom - tall), pt(tall)
        line = shades[:, row]
        starts = np.flatnonzero(np.diff(line, prepend=-1))
        for first, last in itertools.pairwise([*starts.tolist(), len(line)]):
            shade = int(line[first])
            if shade >= 0:
                left, right = columns[first][0], columns[last - 1][1]
                wide = pt(max(right - left, 0.5))
                paths.setdefault(shade, []).append(f"M{pt(left)} {y}h{wide}v{height}h-{wide}z")
    for shade in sorted(paths):
        plot.path("".join(paths[shade]), fill=shade_of(shade / SHADES))
    plot.shades("samples in a cell", most)


def _heat(quantity: Quantity, width: float, height: float) -> Plot | None:
    heat, time = quantity.data["heat"], quantity.data["time"]
    if not heat or not time:
        return None
    rows = len(heat["low"])
    table = np.array(heat["maps"], np.int64).sum(axis=0)
    edges = _times(time)
    middles = [(a + b) / 2 for a, b in itertools.pairwise(edges)]
    high = _divided(_over(time["high"], max), quantity.divisor)
    known = [v for v in (*high, *_divided(_floor(time), quantity.divisor))
             if v is not None]  # fmt: skip
    if not known:
        return None
    plot = Plot(
        width, height, scales.linear(edges[0], edges[-1]), scales.spread(min(known), max(known))
    )
    _clock(plot)
    plot.upwards(plot.y.ticks((plot.bottom - plot.top) / 18), quantity.name())
    fewer = -(-heat["columns"] // HEAT_COLUMNS)
    summed = np.add.reduceat(
        table.reshape(heat["columns"], rows), np.arange(0, heat["columns"], fewer), axis=0
    )
    start, wide = heat["start_ns"] / 1e9, heat["bin_ns"] * fewer / 1e9
    _cells(
        plot,
        [(start + at * wide, start + (at + 1) * wide) for at in range(len(summed))],
        [
            (low / quantity.divisor, (top + 1) / quantity.divisor)
            for low, top in zip(heat["low"], heat["high"], strict=True)
        ],
        summed,
    )
    plot.path(plot.joined(zip(middles, high, strict=True)), WARM, 0.8, stroke_linejoin="round")
    _largest(plot, quantity, middles)
    plot.frame()
    return plot


def _series(quantity: Quantity, width: float, height: float) -> Plot | None:
    """A column for each series; neighbours share one if there are more series than columns fit."""
    edges, rows = quantity.data["histogram"]["edges"], quantity.data["histogram"]["counts"]
    if len(edges) < 2:
        return None
    tops = [None if top is None else top / quantity.divisor for top in quantity.data["max"]]
    values = [edge / quantity.divisor for edge in edges]
    most = max([values[-1], *(top for top in tops if top is not None)])
    number = len(rows)
    plot = Plot(width, height, Scale("linear", -0.6, number - 0.4), scales.spread(values[0], most))
    by_cpu = all(label.startswith("CPU ") for label in quantity.labels)
    words = [cut(label.removeprefix("CPU "), 18) for label in quantity.labels]
    room = 6 + max(text_width(word) for word in words)
    every = max(1, math.ceil(room * number / (plot.right - plot.left)))
    plot.across(range(0, number, every), "CPU" if by_cpu else "series", lambda at: words[round(at)])
    plot.upwards(plot.y.ticks((plot.bottom - plot.top) / 18), quantity.name())
    together, coarse = max(1, number // 200), max(1, (len(edges) - 1) // 70)
    firsts = list(range(0, number, together))
    starts = np.arange(0, len(edges) - 1, coarse)
    summed = np.add.reduceat(np.array(rows, np.int64), firsts, axis=0)
    summed = np.add.reduceat(summed, starts, axis=1)
    _cells(
        plot,
        [(first - 0.46, min(first + together, number) - 0.54) for first in firsts],
        [(values[at], values[min(at + coarse, len(values) - 1)]) for at in starts.tolist()],
        summed,
    )
    size = min(max((plot.right - plot.left) / number / 3, 0.6), 2.2)
    dots = [
        marker(0, plot.px(at), plot.py(top), size) for at, top in enumerate(tops) if top is not None
    ]
    plot.path("".join(dots), "#ffffff", 0.3, fill=WARM)
    quantity.levels_of(plot)
    plot.frame()
    return plot


_samples_of: Final = itemgetter("at", "index", "due_ns", "value")


def _around(quantity: Quantity, width: float, height: float) -> Plot | None:
    windows = quantity.data["window"]["around"]
    there = [at for at, window in enumerate(windows) if window]
    if not there:
        return None
    whose = quantity.worst if quantity.worst in there else there[0]
    at, index, due, value = _samples_of(windows[whose])
    grid, loop = quantity.data["grid"], bool(quantity.data["window"].get("loops"))
    if grid:
        x, below = [(d - due[at]) / 1e6 for d in due], "due time relative to the max (ms)"
    elif loop:
        x, below = [(d - due[0]) / 1e3 for d in due], "time since the loop's first sample (µs)"
    else:
        x, below = [float(i - index[at]) for i in index], "samples since the max"
    y = [v / quantity.divisor for v in value]
    margin = (x[-1] - x[0]) * 0.02 or 0.5
    plot = Plot(
        width,
        height,
        scales.linear(x[0] - margin, x[-1] + margin),
        scales.spread(min(y), max(y)),
    )
    plot.across(plot.x.ticks((plot.right - plot.left) / 40), below)
    plot.upwards(plot.y.ticks((plot.bottom - plot.top) / 18), quantity.name())
    _dots(plot, quantity, whose, x, y)
    name = f", {cut(quantity.labels[whose], 24)}" if quantity.number > 1 else ""
    where = f" at {scales.seconds(due[at] / 1e9)}" if grid else ""
    plot.upright(x[at], f"{quantity.shown(y[at])}{where}{name}", INK, "1.5 2")
    quantity.levels_of(plot)
    plot.frame()
    return plot


def _dots(plot: Plot, quantity: Quantity, at: int, x: Sequence[float], y: Sequence[float]) -> None:
    """Samples one by one."""
    colour = INK if quantity.crowd else COLOURS[at]
    shape = 0 if quantity.number == 1 or quantity.crowd else at
    places = [(plot.px(a), plot.py(b)) for a, b in zip(x, y, strict=True)]
    if shape == 0:  # a line without length, whose ends are round
        path = "".join(f"M{tenth(a)} {tenth(b)}h0" for a, b in places)
        plot.path(path, colour, 2.3, stroke_linecap="round")
    else:
        path = "".join(marker(shape, a, b, 1.15) for a, b in places)
        plot.path(path, colour, 0.5) if shape >= 4 else plot.path(path, fill=colour)


def _begin(quantity: Quantity, width: float, height: float) -> Plot | None:
    windows = quantity.data["window"]["begin"]
    there = [at for at in quantity.ordered() if windows[at]]
    opened = {at: _samples_of(windows[at]) for at in there}
    there = [at for at in there if opened[at][1]]
    if quantity.crowd:
        there = there[-1:]
    if not there:
        return None
    grid = quantity.data["grid"]
    points = {
        at: (
            [d / 1e6 for d in opened[at][2]] if grid else [float(i) for i in opened[at][1]],
            [v / quantity.divisor for v in opened[at][3]],
        )
        for at in there
    }
    xs = [x for rows, _ in points.values() for x in rows]
    ys = [y for _, rows in points.values() for y in rows]
    margin = (max(xs) - min(xs)) * 0.02 or 0.5
    plot = Plot(
        width,
        height,
        scales.linear(min(xs) - margin, max(xs) + margin),
        scales.spread(min(ys), max(ys)),
    )
    plot.across(
        plot.x.ticks((plot.right - plot.left) / 40),
        "due time since the step began (ms)" if grid else "sample",
    )
    plot.upwards(plot.y.ticks((plot.bottom - plot.top) / 18), quantity.name())
    for at in there:
        _dots(plot, quantity, at, *points[at])
    quantity.levels_of(plot)
    plot.frame()
    return plot


def _against(quantity: Quantity, width: float, height: float) -> Plot | None:
    """The quantity over a numeric label of its series: medians joined, bands, maxima."""
    data = quantity.data["against"]
    ends = [
        value / quantity.divisor for key in ("low", "high") for row in data[key] for value in row
    ]
    xs = sorted({x for row in data["x"] for x in row})
    wide = xs[0] > 0 and xs[-1] / xs[0] >= 20
    margin = (xs[-1] - xs[0]) * 0.04 or 0.5
    across = (
        Scale("log", xs[0] * 0.85, xs[-1] * 1.18)
        if wide
        else scales.linear(xs[0] - margin, xs[-1] + margin)
    )
    number = len(data["lines"])
    lines = [str(name) for name in data["lines"][:KEYED]] if number > 1 else []
    spread = scales.spread(min(ends), max(ends))
    plot = Plot(width, height, across, spread, lines=lines, after=quantity.name())
    plot.across(xs, str(data["label"]))
    plot.upwards(plot.y.ticks((plot.bottom - plot.top) / 18), quantity.name())
    for at in range(number):
        points = sorted(
            zip(*(data[key][at] for key in ("x", "low", "middle", "tail", "high")), strict=True),
            key=lambda point: point[0],
        )
        colour = COLOURS[at % len(COLOURS)]
        upper = [plot.at(x, (high if tail is None else tail) / quantity.divisor)
                 for x, _, _, tail, high in points]  # fmt: skip
        lower = [plot.at(x, low / quantity.divisor) for x, low, _, _, _ in points]
        area = "M" + "L".join([*upper, *reversed(lower)]) + "z"
        plot.path(area, fill=colour, fill_opacity="0.16" if number <= 4 else "0.08")
    for at in range(number):
        colour = COLOURS[at % len(COLOURS)]
        rows = sorted(zip(data["x"][at], data["middle"][at], strict=True), key=lambda row: row[0])
        known = [(x, y / quantity.divisor) for x, y in rows if y is not None]
        plot.path(plot.joined(known), colour, 1.0, stroke_linejoin="round")
        for x, y in known:
            put_marker(plot, at, plot.px(x), plot.py(y), 1.9)
        for x, high in zip(data["x"][at], data["high"][at], strict=True):
            left, top = plot.px(x), plot.py(high / quantity.divisor)
            plot.path(f"M{pt(left)} {pt(top - 2.8)}l2.6 4.6h-5.2z", colour, 0.8, fill="#ffffff")
    quantity.levels_of(plot)
    plot.frame()
    return plot


def sequence(one: Sequenced) -> Drawn:
    """The order of events: down the page, a lane for each thread."""
    lanes = len(one.lanes)
    said = max(text_width(f"{one.lanes[event.lane]} {event.what}") for event in one.events)
    name = max(text_width(lane) for lane in one.lanes) * 0.95

    def apart(width: float) -> float:
        """How far apart the lanes can be."""
        return min((width - 54 - min(said, width * 0.45)) / lanes, max(name + 4, 34.0))

    full = apart(HALF) < min(name, 40.0)
    width = FULL if full else HALF
    pitch, top, line = apart(width), 17.0, 10.6
    canvas = Canvas(width, top + line * len(one.events) + 6)
    first, words_at = 46 + pitch / 2, 46 + pitch * lanes + 8

    def x(lane: int) -> float:
        return first + pitch * lane

    def y(at: int) -> float:
        return top + 6 + line * at

    bottom = y(len(one.events) - 1) + 5
    canvas.text(38, 8, "µs", text_anchor="end", fill=INK)
    for lane, lane_name in enumerate(one.lanes):
        canvas.text(x(lane), 8, fit(lane_name, pitch * 1.05), text_anchor="middle", fill=INK,
                    font_weight="600")  # fmt: skip
    canvas.path("".join(f"M{pt(x(k))} {pt(top - 4)}V{pt(bottom)}" for k in range(lanes)), HAIR, 0.7)
    path = []
    for at, (event, after) in enumerate(itertools.pairwise([*one.events, None])):
        assert event is not None
        end = y(at + 1) if after is not None else bottom
        path.append(f"M{pt(x(event.lane))} {pt(y(at))}V{pt(end)}")
        if after is not None and after.lane != event.lane:
            path.append(f"H{pt(x(after.lane))}")
    canvas.path("".join(path), ACCENT, 1.3, stroke_linejoin="round")
    for at, event in enumerate(one.events):
        canvas.path(marker(0, x(event.lane), y(at), 2.1), ACCENT, 0.9, fill=ACCENT)
        canvas.text(38, y(at) + 2.4, event.time, text_anchor="end")
        words = f"{one.lanes[event.lane]} {event.what}"
        canvas.text(words_at, y(at) + 2.4, fit(words, width - words_at), fill=INK)
    left = f" The appendix has {one.left_out} more." if one.left_out else ""
    return Drawn(
        canvas.svg(),
        full,
        "The events from top to bottom, each in the lane of its thread. Left: the time in "
        f"µs.{left}",
    )


def _strip(quantity: Quantity, strip: Data, width: float, height: float) -> Plot | None:
    """One or a few lines on the time axis of the picture above."""
    edges = _times(quantity.data["time"])
    rows = strip["y"]
    known = [value for row in rows for value in row if value is not None]
    if not known:
        return None
    low, high = min(known), max(known)
    base = low - (high - low) * 0.3 - high * 0.02 if 0 < 0.7 * high < low else min(0.0, low)
    title = f"{strip['title']} ({strip['unit']})"
    plot = Plot(
        width,
        height,
        scales.linear(edges[0], edges[-1]),
        scales.linear(base, high + (high - base) * 0.1 if high > base else base + 1),
        named=False,
        lines=[str(label) for label in strip["labels"]] if len(rows) > 1 else [],
        after=title,
    )
    plot.across(plot.x.ticks((plot.right - plot.left) / 50), "")
    plot.upwards(plot.y.ticks((plot.bottom - plot.top) / 16), title)
    # Each value covers the time from the previous record to its own.
    until = [edges[0], *strip["x"]]
    for at, row in enumerate(rows):
        colour = COLOURS[at % len(COLOURS)]
        shown = [
            value if until[k + 1] > plot.x.low and until[k] < plot.x.high else None
            for k, value in enumerate(row)
        ]
        plot.path(plot.steps(until, shown), colour, 0.9)
        if len(rows) > 1:
            filled = [k for k, value in enumerate(shown) if value is not None]
            apart = max(len(filled) // 3, 1)
            for k in filled[at * max(len(filled) // 24, 1) % apart :: apart]:
                middle = (max(until[k], plot.x.low) + min(until[k + 1], plot.x.high)) / 2
                put_marker(plot, at, plot.px(middle), plot.py(shown[k] or 0.0), 1.8)
    plot.frame()
    return plot


KINDS: Final[Mapping[str, Callable[[Quantity, float, float], Plot | None]]] = {
    "against": _against,
    "histogram": _histogram,
    "ccdf": _ccdf,
    "time": _time,
    "heat": _heat,
    "series": _series,
    "around": _around,
    "begin": _begin,
    **oscilloscope.DRAWN,
}
"""Kind of a figure -> what draws it. ``strip`` has data of its own."""

_HEIGHTS: Final = {"against": 140.0, "time": 150.0, "heat": 150.0, "series": 150.0, "strip": 58.0}


def draw(data: Data, view: Mapping[str, Any], strips: Iterable[Data]) -> Drawn | None:
    """One figure of a quantity; None where there is nothing to draw.

    ``view`` is what ``steps`` says of it. ``strips`` iterates over the strips not yet drawn.
    """
    quantity = Quantity(data)
    kind = view["kind"]
    full = bool(view["full"])
    width, height = FULL if full else HALF, _HEIGHTS.get(kind, 148.0)
    if kind == "strip":
        strip = next(iter(strips))
        plot = _strip(quantity, strip, width, height) if data["time"] else None
    elif kind in KINDS:
        plot = KINDS[kind](quantity, width, height)
    else:
        return None
    if plot is None:
        return None
    return Drawn(plot.svg(), full, _caption(quantity, view))


def _caption(quantity: Quantity, view: Mapping[str, Any]) -> str:
    """What to see in a figure, as far as paper differs from the screen."""
    kind, caption = view["kind"], str(view["caption"])
    look = "Look for steps, slopes and peaks at regular intervals."
    if kind == "time":
        marks = {mark[2] for mark in quantity.data["time"]["marks"]}
        answers = waits_for_answers(quantity.data["quantity"], quantity.data["raw_unit"])
        missed = "events without an answer" if answers else "periods missed"
        if quantity.number == 1:
            caption = (
                "The line is the max of each bin, the dotted line its median, and the band reaches "
                f"from the min to the max. {look}"
            )
        elif not quantity.crowd:
            caption = (
                "Each line is the max of one series, and the band spans all samples of all series. "
                f"{look}"
            )
        else:
            caption = (
                f"The line is the max of all series, and the band reaches down to the min. {look}"
            )
        found = [
            text
            for mark, text in (
                ("missed", f"{missed} (filled)"),
                ("lost", "samples lost (hollow)"),
            )
            if mark in marks
        ]
        caption += f" Triangles: {numbers.join(found)}." if found else ""
        caption += " Dotted vertical lines: events." if quantity.data["events"] else ""
        caption += untimed(quantity.data)
    elif kind == "heat":
        together = ", of all series together" if quantity.number > 1 else ""
        caption = (
            f"The darker a cell, the more samples it contains{together}. The line joins the "
            "maxima: none is averaged away. Look for bands separate from the body, and for what "
            "begins, ends or recurs."
        )
        caption += untimed(quantity.data)
    elif kind == "series":
        caption = (
            "A column for each series. The darker a cell, the more samples it contains. The dot is "
            "the maximum. Look for columns that differ from their neighbours."
        )
    elif kind == "against" and (more := len(quantity.data["against"]["lines"]) - KEYED) > 0:
        caption += f" The key does not name {numbers.plural(more, 'line')}."
    elif kind == "begin" and quantity.crowd:
        caption += " The series with the highest maximum is shown."
    elif kind in ("histogram", "ccdf") and quantity.crowd:
        caption += (
            f" Black: {cut(quantity.labels[quantity.worst], 40)}, the series with the highest "
            "maximum. Grey: the range of all series."
        )
    return caption
