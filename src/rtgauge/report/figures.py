# SPDX-License-Identifier: Apache-2.0
"""Figures on paper: the arrays of ``pictures`` as vector graphics (SVG) for the PDF.

Step 11 of the path of a sample, as ``pictures`` is: the same arrays that static/report.js draws on
the screen. Light, told apart without colour too (series by their markers, counts by their
shade), and every maximum is drawn. A figure of many series shows the one with the largest maximum
before all others.

Text from a target stands in the figures through ``Canvas.text`` alone, escaped.
"""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rtgauge.report import numbers, scales
from rtgauge.report.numbers import GAP
from rtgauge.report.packed import unpack, unpack_signed, unpack_steps
from rtgauge.report.scales import Scale
from rtgauge.report.sequences import Sequenced

__all__ = [
    "COLOURS",
    "CROWD",
    "FONT",
    "FULL",
    "HALF",
    "KINDS",
    "Drawn",
    "draw",
    "key",
    "sequence",
    "spark",
    "swatch",
    "text_width",
    "visible",
]

Data = Mapping[str, Any]

FULL: Final = 482.0
"""The width of a figure across the page, in points."""
HALF: Final = 236.0
"""The width of one of two figures beside each other."""

FONT: Final = "Libertinus Serif"
SIZE: Final = 7.5

CROWD: Final = 8
"""More series than these cannot be told apart by colours and markers."""

INK: Final = "#1b2024"
SOFT: Final = "#56606a"
HAIR: Final = "#e3e6e9"
FAINT: Final = "#9aa3ab"
FAIL: Final = "#b3261e"
WARN: Final = "#9a6a00"
ACCENT: Final = "#1d5c88"
WARM: Final = "#b8541c"

COLOURS: Final = (
    "#1d5c88",
    "#b8541c",
    "#2d7a54",
    "#7a4a93",
    "#8f6c00",
    "#b03a5b",
    "#2b7f8c",
    "#5f6670",
)
"""Of about the same darkness; what tells them apart in print without colour is the marker."""

DASHES: Final = ("", "5 2.6", "1.4 2", "7 2 1.4 2")
"""Of lines that share a colour: solid, dashed, dotted, and both; as in static/report.js."""

RAMP: Final = ("#d5e3ee", "#a9cbe2", "#6fa8d0", "#3b82ba", "#175a96", "#063264")
"""Shades of a count, rising evenly in darkness."""
SHADES: Final = 15
HEAT_COLUMNS: Final = 200
"""A heat map has at most so many columns on paper."""


@dataclass(frozen=True)
class Drawn:
    """A figure: its graphics, whether it is as wide as the page, and its caption."""

    svg: str
    full: bool
    caption: str


# --- characters that the fonts have ----------------------------------------------------------

_COVERED: Final = (
    (0x20, 0x7E), (0xA0, 0xAC), (0xAE, 0x241), (0x250, 0x2E9), (0x300, 0x33F), (0x391, 0x3A1),
    (0x3A3, 0x3CE), (0x400, 0x45F), (0x490, 0x4C4), (0x531, 0x556), (0x561, 0x587), (0x5D0, 0x5EA),
    (0x621, 0x63A), (0x640, 0x652), (0x1E00, 0x1E9B), (0x2010, 0x2015), (0x2018, 0x2027),
    (0x202F, 0x203A), (0x2074, 0x208E), (0x20A0, 0x20B5), (0x2153, 0x2184), (0x2190, 0x2220),
    (0x2241, 0x226B), (0x2500, 0x25FF), (0x2713, 0x2713), (0x2717, 0x2717), (0x26A0, 0x26A0),
)  # fmt: skip


def visible(text: str) -> str:
    """The text with what no font here has, and what turns or hides other text, as a code such as
    ‹U+1F600›; line ends and tabs become spaces."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        " "
        if character in "\n\r\t\u2009\u200a"
        else character
        if any(low <= ord(character) <= high for low, high in _COVERED)
        else f"‹U+{ord(character):04X}›"
        for character in text
    )


# --- the canvas ------------------------------------------------------------------------------


def _n(value: float) -> str:
    text = f"{value:.2f}"
    return text[:-3] if text.endswith("00") else text[:-1] if text.endswith("0") else text


class Canvas:
    """A drawing of some size in points; y grows downwards."""

    def __init__(self, width: float, height: float, left: float = 38, right: float = 10) -> None:
        self.width, self.height = width, height
        self.left, self.right = left, width - right
        self.top, self.bottom = 13.0, height - 26
        self._parts: list[str] = []

    def path(self, data: str, stroke: str = "none", width: float = 0.8, **more: str) -> None:
        """A path; ``more`` are attributes, with _ for -."""
        if not data:
            return
        rest = {"fill": "none", "stroke": stroke, "stroke-width": _n(width)}
        rest |= {name.replace("_", "-"): value for name, value in more.items()}
        if rest["stroke"] == "none":
            del rest["stroke"], rest["stroke-width"]
        text = " ".join(f'{name}="{value}"' for name, value in rest.items())
        self._parts.append(f'<path d="{data}" {text}/>')

    def text(self, x: float, y: float, text: str, **more: str) -> None:
        """Text with its baseline at y."""
        rest = {"fill": SOFT, "font-size": _n(SIZE), "text-anchor": "start", "font-weight": "400"}
        rest |= {name.replace("_", "-"): value for name, value in more.items()}
        tail = " ".join(f'{name}="{value}"' for name, value in rest.items())
        words = html.escape(visible(text))
        self._parts.append(f'<text x="{_n(x)}" y="{_n(y)}" {tail}>{words}</text>')

    def label(self, x: float, y: float, text: str, colour: str, anchor: str = "start") -> None:
        """Text that stands within a drawing, on paper of its own."""
        wide = text_width(text)
        left = x - (0 if anchor == "start" else wide if anchor == "end" else wide / 2)
        self._parts.append(
            f'<rect x="{_n(left - 1)}" y="{_n(y - 6.4)}" width="{_n(wide + 2)}" height="8.4" '
            'fill="#ffffff" fill-opacity="0.86"/>'
        )
        self.text(x, y, text, fill=colour, text_anchor=anchor, font_weight="600")

    def svg(self) -> str:
        """The drawing as a document."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(self.width)} '
            f'{_n(self.height)}" font-family="{FONT}">' + "".join(self._parts) + "</svg>"
        )


_NARROW: Final = frozenset("iljtfrI.,:;|!'()[]{}/\\ \u202f\u00a0\u200b")
_WIDE: Final = frozenset("mwMWOQGD@%—")


def text_width(text: str, size: float = SIZE) -> float:
    """About how wide the text is, rather more than less."""
    return size * sum(
        0.34
        if c in _NARROW
        else 0.86
        if c in _WIDE
        else 0.68
        if c.isupper() or ord(c) > 0x2E9
        else 0.52
        for c in text
    )


def cut(text: str, most: int) -> str:
    """The text, as it is shown, in at most so many characters."""
    shown = visible(text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def fit(text: str, room: float) -> str:
    """The text, as it is shown, cut where it would be wider than ``room``."""
    shown = visible(text)
    if text_width(shown) <= room:
        return shown
    wide = text_width("…")
    for at, character in enumerate(shown):
        wide += text_width(character)
        if wide > room:
            return shown[:at] + "…"
    return shown


class Plot(Canvas):
    """A drawing with two axes."""

    def __init__(self, width: float, height: float, x: Scale, y: Scale, named: bool = True) -> None:
        """``named``: the axis below has a name."""
        super().__init__(width, height)
        self.bottom += 0 if named else 9
        self.x, self.y = x, y
        self._px: dict[float, float] = {}
        self._py: dict[float, float] = {}

    def px(self, value: float) -> float:
        """Where a value stands across; the same ones are asked for again and again."""
        if value not in self._px:
            self._px[value] = self.left + self.x.at(value) * (self.right - self.left)
        return self._px[value]

    def py(self, value: float) -> float:
        """Where a value stands upwards."""
        if value not in self._py:
            self._py[value] = self.bottom - self.y.at(value) * (self.bottom - self.top)
        return self._py[value]

    def at(self, x: float, y: float) -> str:
        return f"{_n(self.px(x))} {_n(self.py(y))}"

    def across(
        self, ticks: Iterable[float], label: str, shown: Callable[[float], str] = scales.tick
    ) -> None:
        """The axis below, with a line up from each tick."""
        marks, free = [], -math.inf
        for value in ticks:
            at, words = self.px(value), shown(value)
            marks.append(f"M{_n(at)} {_n(self.top)}V{_n(self.bottom)}")
            half = text_width(words) / 2
            middle = min(max(at, self.left + half - 8), self.width - half - 1)
            if middle - half > free:
                self.text(middle, self.bottom + 9.5, words, text_anchor="middle")
                free = middle + half + 4
        self.path("".join(marks), HAIR, 0.6)
        label = fit(label, self.right - self.left)
        self.text(self.right, self.bottom + 20, label, text_anchor="end", fill=INK)

    def upwards(
        self, ticks: Iterable[float], label: str, shown: Callable[[float], str] = scales.tick
    ) -> None:
        """The axis on the left, its name above it."""
        marks = []
        for value in ticks:
            at = self.py(value)
            marks.append(f"M{_n(self.left)} {_n(at)}H{_n(self.right)}")
            self.text(self.left - 4, at + 2.4, shown(value), text_anchor="end")
        self.path("".join(marks), HAIR, 0.6)
        self.text(2, 7, fit(label, self.width * 0.6), fill=INK)

    def frame(self) -> None:
        """The lines of the axes."""
        self.path(f"M{_n(self.left)} {_n(self.top)}V{_n(self.bottom)}H{_n(self.right)}", FAINT, 0.7)

    def upright(self, value: float, text: str, colour: str, dash: str, level: int = 0) -> None:
        """A line upwards at a value, with its name."""
        text = fit(text, (self.right - self.left) * 0.9)
        at, wide = self.px(value), text_width(text) + 5
        self.path(f"M{_n(at)} {_n(self.top)}V{_n(self.bottom)}", colour, 0.8, stroke_dasharray=dash)
        y = self.top + 7 + 9.5 * level
        if at + wide > self.width and at - wide >= self.left:
            self.label(at - 3, y, text, colour, "end")
        elif at + wide > self.width:
            self.label(self.left + 3, y, text, colour)
        else:
            self.label(at + 3, y, text, colour)

    def level(self, value: float, text: str, colour: str, dash: str) -> None:
        """A line across at a value, with its name."""
        if not self.y.low <= value <= self.y.high:
            return
        at = self.py(value)
        text = fit(text, (self.right - self.left) * 0.5)
        self.path(f"M{_n(self.left)} {_n(at)}H{_n(self.right)}", colour, 0.8, stroke_dasharray=dash)
        self.label(self.right - 3, at - 2.5, text, colour, "end")

    def steps(self, edges: Sequence[float], heights: Sequence[float | None]) -> str:
        """A path along a value for each bin; None breaks it."""
        path, last = [], None
        for low, high, height in zip(edges, edges[1:], heights, strict=False):
            if height is None:
                last = None
                continue
            y = _n(self.py(height))
            start = f"M{_n(self.px(low))} {y}" if last is None else "" if last == y else f"V{y}"
            path.append(f"{start}H{_n(self.px(high))}")
            last = y
        return "".join(path)

    def band(
        self,
        edges: Sequence[float],
        low: Sequence[float | None],
        high: Sequence[float | None],
    ) -> str:
        """The area between two values of each bin; where one is None, it is interrupted."""
        path = []
        there = [a is not None and b is not None for a, b in zip(low, high, strict=True)]
        at = 0
        for filled, run in itertools.groupby(there):
            first, at = at, at + len(list(run))
            if filled:
                upper = self.steps(edges[first : at + 1], high[first:at])
                back = self.steps(edges[first : at + 1][::-1], low[first:at][::-1])
                path.append(f"{upper}V{back.partition(' ')[2]}z")
        return "".join(path)

    def joined(self, points: Iterable[tuple[float, float | None]]) -> str:
        """A path through points; one without a value breaks it."""
        path, drawn = [], False
        for x, y in points:
            if y is not None:
                path.append(f"{'L' if drawn else 'M'}{self.at(x, y)}")
            drawn = y is not None
        return "".join(path)


def _marker(at: int, x: float, y: float, size: float) -> str:
    """The outline of the marker of series ``at`` around a point."""
    s = size
    arc = f"a{_n(s)} {_n(s)} 0 1 0"
    shapes = (
        lambda: f"M{_n(x - s)} {_n(y)}{arc}{_n(2 * s)} 0{arc}{_n(-2 * s)} 0z",
        lambda: f"M{_n(x - s)} {_n(y - s)}h{_n(2 * s)}v{_n(2 * s)}h{_n(-2 * s)}z",
        lambda: f"M{_n(x)} {_n(y - s * 1.2)}l{_n(s * 1.2)} {_n(s * 2.1)}h{_n(-s * 2.4)}z",
        lambda: (
            f"M{_n(x)} {_n(y - s * 1.4)}l{_n(s * 1.4)} {_n(s * 1.4)}l{_n(-s * 1.4)} "
            f"{_n(s * 1.4)}l{_n(-s * 1.4)} {_n(-s * 1.4)}z"
        ),
    )
    return shapes[at % len(shapes)]()


def _mark(canvas: Canvas, at: int, x: float, y: float, size: float = 2.2) -> None:
    """The marker of a series: four shapes, the second four times hollow."""
    hollow = at >= 4
    canvas.path(
        _marker(at, x, y, size),
        COLOURS[at % len(COLOURS)],
        0.9,
        fill="#ffffff" if hollow else COLOURS[at % len(COLOURS)],
    )


def _shade(part: float) -> str:
    """The colour of a place on the ramp, from 0 to 1."""
    at = min(max(part, 0.0), 1.0) * (len(RAMP) - 1)
    low = min(int(at), len(RAMP) - 2)
    ends = [[int(RAMP[k][o : o + 2], 16) for o in (1, 3, 5)] for k in (low, low + 1)]
    mixed = (round(a + (b - a) * (at - low)) for a, b in zip(*ends, strict=True))
    return "#" + "".join(f"{one:02x}" for one in mixed)


# --- what a figure is drawn from -------------------------------------------------------------


class Quantity:
    """The arrays of one quantity, with its values in the unit that is shown."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.divisor = data["div"]
        self.unit = str(data["unit"])
        self.labels = [str(label) for label in data["labels"]]
        self.number = len(self.labels)
        tops = [-math.inf if value is None else float(value) for value in data["max"]]
        self.worst = tops.index(max(tops)) if tops else 0
        self.top = max(tops, default=-math.inf)
        self.budget = None if data["budget"] is None else data["budget"] / self.divisor
        self.compare = bool(data.get("compare"))
        self.hues: Sequence[int] | None = data.get("hues")
        """Of sets side by side: whose colour a line has; a dash tells it from its like."""
        self.dashes: Sequence[int] = data.get("dashes") or ()
        mark = data.get("mark")
        self.mark = None if mark is None else (float(mark[0]) / self.divisor, str(mark[1]))

    @property
    def crowd(self) -> bool:
        return self.number > CROWD and self.hues is None

    def hue(self, at: int) -> int:
        """The number of the colour and of the marker of a line."""
        return (at if self.hues is None else self.hues[at]) % len(COLOURS)

    def dash(self, at: int) -> dict[str, str]:
        """What tells the line from others of its colour, as attributes of its path."""
        dash = DASHES[self.dashes[at] % len(DASHES)] if self.dashes else ""
        return {"stroke_dasharray": dash} if dash else {}

    def name(self) -> str:
        quantity = str(self.data["quantity"])
        return f"{quantity} ({self.unit})" if self.unit else quantity

    def shown(self, value: float) -> str:
        """A value, already divided, with its unit."""
        text = numbers.shown(value * self.divisor, self.data["raw_unit"]).text
        return f"{text}{GAP}{self.unit}" if self.unit else text

    def ordered(self) -> list[int]:
        """The series in the order in which they are drawn: the largest last, before the others."""
        return sorted(range(self.number), key=lambda at: (at == self.worst, at))

    def drawn(self) -> list[int]:
        """The series that have lines of their own, in that order: of a crowd the largest alone."""
        return [self.worst] if self.crowd else self.ordered()

    def line(self, at: int) -> tuple[str, float]:
        """Colour and width of the line of a series."""
        return (INK, 1.2) if self.crowd else (COLOURS[self.hue(at)], 1.0)

    def lines_of(self, plot: Plot) -> None:
        """The largest value and the budget, on the axis of values below."""
        if self.compare:
            return
        if math.isfinite(self.top):
            top = self.top / self.divisor
            plot.upright(top, f"max {self.shown(top)}", INK, "1.5 2")
        if self.budget is not None and plot.x.low <= self.budget <= plot.x.high:
            plot.upright(self.budget, "budget", FAIL, "5 3", 1)
        if self.mark is not None and plot.x.low <= self.mark[0] <= plot.x.high:
            plot.upright(*self.mark, ACCENT, "1 2", 2)

    def levels_of(self, plot: Plot) -> None:
        """The budget and the second line of the quantity, on the axis of values on the left."""
        if self.budget is not None:
            plot.level(self.budget, "budget", FAIL, "5 3")
        if self.mark is not None:
            plot.level(*self.mark, ACCENT, "1 2")


def key(data: Data) -> str | None:
    """Which line is whose, for up to eight series; None where that needs no words."""
    quantity = Quantity(data)
    if quantity.number < 2 or quantity.crowd:
        return None
    x, y = 2.0, 8.0
    canvas = Canvas(FULL, 12)
    for at, label in enumerate(quantity.labels):
        words = fit(cut(label, 48), FULL - 30)
        wide = 24 + text_width(words) * 0.9
        colour = COLOURS[quantity.hue(at)]
        if x > 2 and x + wide > FULL:
            x, y = 2.0, y + 12
        canvas.path(f"M{_n(x)} {_n(y - 2.5)}h14", colour, 1.0, **quantity.dash(at))
        _mark(canvas, quantity.hue(at), x + 7, y - 2.5)
        canvas.text(x + 17, y, words, fill=INK)
        x += wide
    canvas.height = y + 4
    return canvas.svg()


def swatch(at: int) -> str:
    """The line and marker of a series, as they stand in a table."""
    canvas = Canvas(14, 8)
    canvas.path("M1 4h12", COLOURS[at % len(COLOURS)], 1.0)
    _mark(canvas, at, 7, 4)
    return canvas.svg()


def spark(path: str, peak: float | None) -> str:
    """A small histogram for a row of a table, 96 by 22, with a line at its largest value."""
    canvas = Canvas(96, 22)
    canvas.path(path, fill="#a9bccb")
    if peak is not None:
        canvas.path(f"M{_n(peak)} 0V22", WARM, 1.2)
    return canvas.svg()


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
    base = _n(plot.py(0.5))
    if quantity.crowd:
        table = np.maximum(np.array(rows, np.int64), 0).T.tolist()
        low = [max(float(min(row)), 0.5) for row in table]
        high = [max(float(max(row)), 0.5) for row in table]
        plot.path(plot.band(x, low, high), FAINT, 0.4, fill=HAIR)
    for at in quantity.drawn():
        colour, wide = quantity.line(at)
        heights = [max(count, 0.5) for count in rows[at]]
        path = plot.steps(x, heights)
        outline = f"M{_n(plot.px(x[0]))} {base}V{path[1:].split('H')[0].split(' ')[1]}"
        path = outline + path[path.index("H") :] + f"V{base}"
        if quantity.number <= 3 and not quantity.compare:
            plot.path(path, fill=colour, fill_opacity="0.16" if quantity.number > 1 else "0.28")
        plot.path(path, colour, wide * 0.8, stroke_linejoin="round", **quantity.dash(at))
        if quantity.number > 1 and not quantity.crowd:
            filled = [k for k, count in enumerate(rows[at]) if count]
            mode = max(range(len(rows[at])), key=lambda k: rows[at][k], default=0)
            for k in {mode, *filled[-1:]}:
                middle = (plot.px(x[k]) + plot.px(x[k + 1])) / 2
                _mark(plot, quantity.hue(at), middle, plot.py(rows[at][k]))
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
        # A share holds up to the next value from the one before it.
        edges = [x[0], *x[: len(row)]]
        path = plot.steps(edges, shares) + f"V{_n(plot.bottom)}"
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
                _mark(plot, quantity.hue(at), plot.px(x[k]), plot.py(share[k]), 1.9)
    quantity.lines_of(plot)
    plot.frame()
    return plot


def _over(rows: Sequence[Sequence[int | None]], take: Callable[[Iterable[int]], int]) -> list[Any]:
    """Of each bin of time the least or the largest of all series."""
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
    low = _divided(_over(time["low"], min), quantity.divisor)
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
                _mark(plot, at, plot.px(middles[k]), plot.py(row[k] or 0.0), 1.9)
    _largest(plot, quantity, middles)
    _events(plot, quantity, time, middles)
    quantity.levels_of(plot)
    plot.frame()
    return plot


def _largest(plot: Plot, quantity: Quantity, middles: Sequence[float]) -> None:
    """A ring around the largest sample, with its value and whose it is."""
    top, at, whose = max(
        (value, -at, -number)
        for number, row in enumerate(quantity.data["time"]["high"])
        for at, value in enumerate(row)
        if value is not None
    )
    value = top / quantity.divisor
    x, y = plot.px(middles[-at]), plot.py(value)
    plot.path(_marker(0, x, y, 3.2), INK, 0.9)
    name = f", {cut(quantity.labels[-whose], 30)}" if quantity.number > 1 else ""
    text = fit(f"max {quantity.shown(value)}{name}", (plot.right - plot.left) * 0.45)
    left = x > (plot.left + plot.right) / 2
    plot.label(x + (-6 if left else 6), max(y + 2.5, plot.top + 6), text, INK,
               "end" if left else "start")  # fmt: skip


def _events(plot: Plot, quantity: Quantity, time: Data, middles: Sequence[float]) -> None:
    """What happened meanwhile: dotted lines; triangles for periods missed and samples lost."""
    lines = [
        f"M{_n(plot.px(at))} {_n(plot.top)}V{_n(plot.bottom)}"
        for at, _ in quantity.data["events"]
        if plot.x.low <= at <= plot.x.high
    ]
    plot.path("".join(lines), ACCENT, 0.8, stroke_dasharray="1 2")
    base = plot.bottom
    for kind, colour, fill in (("missed", FAIL, FAIL), ("lost", WARN, "#ffffff")):
        bins = sorted({mark[0] for mark in time["marks"] if mark[2] == kind})
        shapes = [
            f"M{_n(plot.px(middles[at]))} {_n(base - 6.5)}l3.2 6h-6.4z"
            for at in bins
            if at < len(middles)
        ]
        plot.path("".join(shapes), colour, 0.7, fill=fill)


def _cells(
    plot: Plot,
    across: Sequence[tuple[float, float]],
    upwards: Sequence[tuple[float, float]],
    counts: NDArray[np.int64],
) -> None:
    """Filled cells, ``counts[column, row]``, the darker the more, with the scale above.

    Neighbours of the same shade in a row are one.
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
        y, height = _n(bottom - tall), _n(tall)
        line = shades[:, row]
        starts = np.flatnonzero(np.diff(line, prepend=-1))
        for first, last in itertools.pairwise([*starts.tolist(), len(line)]):
            shade = int(line[first])
            if shade >= 0:
                left, right = columns[first][0], columns[last - 1][1]
                wide = _n(max(right - left, 0.5))
                paths.setdefault(shade, []).append(f"M{_n(left)} {y}h{wide}v{height}h-{wide}z")
    for shade in sorted(paths):
        plot.path("".join(paths[shade]), fill=_shade(shade / SHADES))
    right, wide_all = plot.right - 24, 60.0
    for k in range(12):
        left = right - wide_all + k * wide_all / 12
        plot.path(f"M{_n(left)} 2h{_n(wide_all / 12 + 0.1)}v5H{_n(left)}z", fill=_shade(k / 11))
    plot.text(right - wide_all - 3, 7, "samples in a cell: 1", text_anchor="end")
    plot.text(right + 3, 7, numbers.count(most))


def _heat(quantity: Quantity, width: float, height: float) -> Plot | None:
    heat, time = quantity.data["heat"], quantity.data["time"]
    if not heat or not time:
        return None
    rows = len(heat["low"])
    table = np.zeros(heat["columns"] * rows, np.int64)
    for text in heat["maps"]:
        table += np.array(unpack(text), np.int64)
    edges = _times(time)
    middles = [(a + b) / 2 for a, b in itertools.pairwise(edges)]
    high = _divided(_over(time["high"], max), quantity.divisor)
    known = [v for v in (*high, *_divided(_over(time["low"], min), quantity.divisor))
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
    """A column for each series; neighbours share one where there are more than have room."""
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
        _marker(0, plot.px(at), plot.py(top), size)
        for at, top in enumerate(tops)
        if top is not None
    ]
    plot.path("".join(dots), "#ffffff", 0.3, fill=WARM)
    quantity.levels_of(plot)
    plot.frame()
    return plot


def _opened(window: Data) -> tuple[int, list[int], list[int], list[int]]:
    return (
        int(window["at"]),
        unpack_steps(window["index"]),
        unpack_steps(window["due_ns"]),
        unpack_signed(window["value"]),
    )


def _around(quantity: Quantity, width: float, height: float) -> Plot | None:
    windows = quantity.data["window"]["around"]
    there = [at for at, window in enumerate(windows) if window]
    if not there:
        return None
    whose = quantity.worst if quantity.worst in there else there[0]
    at, index, due, value = _opened(windows[whose])
    grid, loop = quantity.data["grid"], bool(quantity.data["window"].get("loops"))
    if grid:
        x, below = [(d - due[at]) / 1e6 for d in due], "due, from when the largest was due (ms)"
    elif loop:
        x, below = [(d - due[0]) / 1e3 for d in due], "time since the loop's first sample (µs)"
    else:
        x, below = [float(i - index[at]) for i in index], "samples, from the largest"
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
    path = "".join(_marker(shape, plot.px(a), plot.py(b), 1.15) for a, b in zip(x, y, strict=True))
    if shape >= 4:
        plot.path(path, colour, 0.5)
    else:
        plot.path(path, fill=colour)


def _begin(quantity: Quantity, width: float, height: float) -> Plot | None:
    windows = quantity.data["window"]["begin"]
    there = [at for at in quantity.ordered() if windows[at]]
    opened = {at: _opened(windows[at]) for at in there}
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
        "due, since the step began (ms)" if grid else "sample",
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
    plot = Plot(width, height, across, scales.spread(min(ends), max(ends)))
    plot.across(xs, str(data["label"]))
    plot.upwards(plot.y.ticks((plot.bottom - plot.top) / 18), quantity.name())
    number = len(data["lines"])
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
    for at, name in enumerate(data["lines"]):
        colour = COLOURS[at % len(COLOURS)]
        rows = sorted(zip(data["x"][at], data["middle"][at], strict=True), key=lambda row: row[0])
        known = [(x, y / quantity.divisor) for x, y in rows if y is not None]
        plot.path(plot.joined(known), colour, 1.0, stroke_linejoin="round")
        for x, y in known:
            _mark(plot, at, plot.px(x), plot.py(y), 1.9)
        for x, high in zip(data["x"][at], data["high"][at], strict=True):
            left, top = plot.px(x), plot.py(high / quantity.divisor)
            plot.path(f"M{_n(left)} {_n(top - 2.8)}l2.6 4.6h-5.2z", colour, 0.8, fill="#ffffff")
        if number > 1:
            words = fit(str(name), 90)
            free = plot.left + 130 + at * 110
            if free + 100 < plot.right:
                _mark(plot, at, free, 4.5, 1.9)
                plot.text(free + 5, 7, words)
    quantity.levels_of(plot)
    plot.frame()
    return plot


def sequence(one: Sequenced) -> Drawn:
    """Who did what in which order: down the page, a lane for each thread."""
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
    canvas.path("".join(f"M{_n(x(k))} {_n(top - 4)}V{_n(bottom)}" for k in range(lanes)), HAIR, 0.7)
    path = []
    for at, (event, after) in enumerate(itertools.pairwise([*one.events, None])):
        assert event is not None
        end = y(at + 1) if after is not None else bottom
        path.append(f"M{_n(x(event.lane))} {_n(y(at))}V{_n(end)}")
        if after is not None and after.lane != event.lane:
            path.append(f"H{_n(x(after.lane))}")
    canvas.path("".join(path), ACCENT, 1.3, stroke_linejoin="round")
    for at, event in enumerate(one.events):
        canvas.path(_marker(0, x(event.lane), y(at), 2.1), ACCENT, 0.9, fill=ACCENT)
        canvas.text(38, y(at) + 2.4, event.time, text_anchor="end")
        words = f"{one.lanes[event.lane]} {event.what}"
        canvas.text(words_at, y(at) + 2.4, fit(words, width - words_at), fill=INK)
    left = f" {one.left_out} more are in the appendix." if one.left_out else ""
    return Drawn(
        canvas.svg(),
        full,
        "From top to bottom in the order of events, each in its thread's lane until the next; on "
        f"the left, when.{left}",
    )


def _strip(quantity: Quantity, strip: Data, width: float, height: float) -> Plot | None:
    """A line or few on the axis of the picture over time above."""
    edges = _times(quantity.data["time"])
    rows = strip["y"]
    known = [value for row in rows for value in row if value is not None]
    if not known:
        return None
    low, high = min(known), max(known)
    base = low - (high - low) * 0.3 - high * 0.02 if 0 < 0.7 * high < low else min(0.0, low)
    plot = Plot(
        width,
        height,
        scales.linear(edges[0], edges[-1]),
        scales.linear(base, high + (high - base) * 0.1),
        named=False,
    )
    plot.across(plot.x.ticks((plot.right - plot.left) / 50), "")
    title = fit(f"{strip['title']} ({strip['unit']})", width * 0.6)
    plot.upwards(plot.y.ticks((plot.bottom - plot.top) / 16), title)
    # Each value holds from the record before to its own.
    until = [edges[0], *strip["x"]]
    free = text_width(title) + 12
    for at, row in enumerate(rows):
        colour = COLOURS[at % len(COLOURS)]
        shown = [
            value if until[k + 1] > plot.x.low and until[k] < plot.x.high else None
            for k, value in enumerate(row)
        ]
        plot.path(plot.steps(until, shown), colour, 0.9)
        if len(rows) > 1:
            filled = [k for k, value in enumerate(shown) if value is not None]
            for k in filled[at * max(len(filled) // 24, 1) :: max(len(filled) // 3, 1)]:
                middle = (max(until[k], plot.x.low) + min(until[k + 1], plot.x.high)) / 2
                _mark(plot, at, plot.px(middle), plot.py(shown[k] or 0.0), 1.8)
            words = cut(str(strip["labels"][at]), 24)
            if free + 14 + text_width(words) < plot.right:
                _mark(plot, at, free + 3, 4.5, 1.9)
                plot.text(free + 8, 7, words)
                free += 16 + text_width(words) * 1.06
    plot.frame()
    return plot


def _persistence(quantity: Quantity, width: float, height: float) -> Plot | None:
    return _answers(quantity, width, 0)


def _enlarged(quantity: Quantity, width: float, height: float) -> Plot | None:
    return _answers(quantity, width, 1)


_TRACE: Final = 24.0
"""The height of a trace of answers, from its low to its high level."""


def _answers(quantity: Quantity, width: float, which: int) -> Plot | None:
    """All answers laid over each other, below the event; ``which`` of the bases of time."""
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

    def shade(number: int) -> str:
        return _shade(0.2 + 0.8 * math.log(max(number, 1)) / math.log(max(most, 2)))

    rises, falls = _ways(answers)
    _event(plot, rises, falls)
    edges = [value / quantity.divisor for value in panel["edges"]]
    for row in range(quantity.number):
        high = 13 + 18 + 6 + pitch * row + (14 if many else 7)
        went = [np.array(unpack(panel[kind][row]), np.int64) for kind in ("rising", "falling")]
        before = [panel["outside"][2 * row + kind] for kind in (0, 1)]
        events = [
            int(one.sum()) + sum(outside) + left
            for one, outside, left in zip(went, before, answers["open"][row], strict=True)
        ]
        _trace(plot, edges, went, ([one[0] for one in before], events), (high, shade))
        _named(plot, quantity, answers, row, (high, many, sum(one[1] for one in before)))
    return plot


def _ways(answers: Data) -> tuple[bool, bool]:
    """Whether there are events that rise, and such that fall."""
    panel = answers["panels"][0]
    rises, falls = (
        any(left[at] for left in answers["open"]) or any(any(unpack(text)) for text in panel[kind])
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
            data = f"M{_n(left)} {_n(before)}H{_n(at)}V{_n(after)}H{_n(plot.right)}"
            plot.path(data if at > left else f"M{_n(left)} {_n(after)}H{_n(plot.right)}", INK, 1.1)


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
                f"M{_n(x0)} {_n(y - 0.8)}h{_n(x1 - x0)}v1.6h{_n(x0 - x1)}z"
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
            f"M{_n(left)} {_n(high - 0.8)}h{_n(wide)}v{_n(_TRACE + 1.6)}h{_n(-wide)}z"
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
        words = f"{quantity.labels[row]}: {numbers.count(answers['count'][row])} answers"
        room = plot.right - plot.left
        plot.text(plot.left, high - 4, fit(words, room), fill=INK, font_weight="600")
    for name in ("min", "max"):
        value = answers[name][row]
        if value is None or not plot.x.low <= value / quantity.divisor <= plot.x.high:
            continue
        at = plot.px(value / quantity.divisor)
        data = f"M{_n(at)} {_n(high - 3)}V{_n(low + 3)}"
        plot.path(data, WARM, 0.7, stroke_dasharray="2 1.6")
        words = f"{name} {quantity.shown(value / quantity.divisor)}"
        wide = text_width(words) * 0.85 + 4
        left = at - wide > plot.left if name == "min" else at + wide > plot.right
        plot.label(at + (-3 if left else 3), middle + 2.5, words, WARM, "end" if left else "start")
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
    tables = {name: np.array(unpack(one["cells"]), np.int64) for name, one in pair.items()}
    most = max(int(table.max(initial=1)) for table in tables.values())
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
            colour = _shade(0.2 + 0.8 * round(part * SHADES) / SHADES)
            x, y = plot.left + column * wide, top + half - (row + 1) * tall
            paths.setdefault(colour, []).append(
                f"M{_n(x)} {_n(y)}h{_n(wide + 0.1)}v{_n(tall + 0.1)}h{_n(-wide - 0.1)}z"
            )
        for colour, data in paths.items():
            plot.path("".join(data), fill=colour)
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
    "persistence": _persistence,
    "enlarged": _enlarged,
    "waves0": _first_waves,
    "waves1": _second_waves,
}
"""Kind of a figure -> what draws it. ``strip`` has data of its own."""

_HEIGHTS: Final = {"against": 140.0, "time": 150.0, "heat": 150.0, "series": 150.0, "strip": 58.0}


def draw(data: Data, view: Mapping[str, Any], strips: Iterable[Data]) -> Drawn | None:
    """One figure of a quantity; None where there is nothing to draw.

    ``view`` is what ``steps`` says of it; ``strips`` gives those that are yet to be drawn.
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
    look = "look for steps, slopes and peaks at a regular distance."
    if kind == "time":
        marks = {mark[2] for mark in quantity.data["time"]["marks"]}
        if quantity.number == 1:
            caption = (
                "The line follows the largest sample of each bin, the dotted line its median, "
                f"the band reaches from the smallest to the largest: {look}"
            )
        elif not quantity.crowd:
            caption = (
                "Each line follows the largest samples of one series, the band spans all samples "
                f"of all: {look}"
            )
        else:
            caption = (
                "The line follows the largest sample of all series, the band reaches down to the "
                f"smallest: {look}"
            )
        found = [
            text
            for mark, text in (
                ("missed", "periods missed (filled)"),
                ("lost", "samples lost (hollow)"),
            )
            if mark in marks
        ]
        caption += f" Triangles: {numbers.join(found)}." if found else ""
        caption += " Dotted upright lines: events." if quantity.data["events"] else ""
    elif kind == "heat":
        together = ", those of all series together" if quantity.number > 1 else ""
        caption = (
            f"The darker a cell, the more samples fell into it{together}. The line joins the "
            "largest samples: no maximum is averaged away. Look for bands apart from the body, "
            "and for what begins, ends or comes back."
        )
    elif kind == "series":
        caption = (
            "A column for each series, its cells the darker the more samples they hold; the dot "
            "is its maximum. Look for columns that differ from their neighbours."
        )
    elif kind == "begin" and quantity.crowd:
        caption += " The series with the largest maximum is shown."
    elif kind in ("histogram", "ccdf") and quantity.crowd:
        caption += (
            f" Black: {cut(quantity.labels[quantity.worst], 40)}, the series with the largest "
            "maximum; grey: from the least to the most of all series."
        )
    return caption
