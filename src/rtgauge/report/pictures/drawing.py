# SPDX-License-Identifier: Apache-2.0
"""What figures on paper are drawn with: a canvas, axes, markers and shades, and the quantity that a
figure shows, with its values in the unit of the report.

Step 11 of the path of a sample. Light, and readable without colour: series differ by their
markers, counts by their shade. Text from a target gets into the figures through ``Canvas.text``
alone, escaped.
"""

from __future__ import annotations

import html
import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.pictures import scales
from rtgauge.report.pictures.scales import Scale
from rtgauge.text import GAP

__all__ = [
    "COLOURS", "CROWD", "DASHES", "FONT", "FULL", "HALF", "INK", "NAME_ROW", "SIZE",
    "Canvas", "Data", "Drawn", "Plot", "Quantity", "classed", "cut", "fit", "key", "label_width",
    "marker", "pt", "put_marker", "shade_of", "spark", "swatch", "text_width", "visible",
]  # fmt: skip

Data = Mapping[str, Any]

FULL: Final = 482.0
"""The width of a figure across the page, in points."""
HALF: Final = 236.0
"""The width of one of two figures side by side."""

FONT: Final = "Libertinus Serif"
SIZE: Final = 7.5

KEY_ROW, KEY_MARK = 10.5, 8.0
"""Height of a row of a figure's own key, and the room for a marker before a name."""

NAME_ROW: Final = 9.5
"""Height of a row of names of vertical lines."""

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
"""Colours of about the same darkness. In print without colour, the markers differ."""

DASHES: Final = ("", "5 2.6", "1.4 2", "7 2 1.4 2")
"""Dashes of lines with the same colour, as in static/report.js."""

RAMP: Final = ("#d5e3ee", "#a9cbe2", "#6fa8d0", "#3b82ba", "#175a96", "#063264")
"""Shades of a count, rising evenly in darkness."""
SHADES: Final = 15
HEAT_COLUMNS: Final = 200
"""Maximum number of columns of a heat map on paper."""


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
    """The text with a code such as ‹U+1F600› for each character that no font here has, or that
    reverses or hides other text. Line ends and tabs become spaces."""
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


# --- colours of a page -----------------------------------------------------------------------

_NAMES: Final = {
    INK: "ink", SOFT: "soft", HAIR: "hair", FAINT: "faint", FAIL: "fail", WARN: "warn",
    "#ffffff": "paper", **{colour: f"c{at}" for at, colour in enumerate(COLOURS)},
}  # fmt: skip
_COLOUR: Final = re.compile(r'(fill|stroke)="(#[0-9a-f]{6})"')


def classed(svg: str) -> str:
    """The drawing with a class for each colour in addition to the attribute (``f-ink`` for a fill,
    ``s-hair`` for a stroke), for a page that has other colours than paper."""
    parts = re.split(r"(<(?:path|text|rect) )", svg)
    for at, (opening, rest) in enumerate(itertools.pairwise(parts)):
        if opening.startswith("<") and opening.endswith(" "):
            tag = rest.partition(">")[0]
            names = [f"{kind[0]}-{_NAMES[hue]}" for kind, hue in _COLOUR.findall(tag)]
            parts[at] = opening + (f'class="{" ".join(names)}" ' if names else "")
    return "".join(parts)


# --- the canvas ------------------------------------------------------------------------------


def pt(value: float) -> str:
    """A length as text for SVG, to a hundredth of a point."""
    text = f"{value:.2f}"
    return text[:-3] if text.endswith("00") else text[:-1] if text.endswith("0") else text


def tenth(value: float) -> str:
    """As ``pt``, to a tenth of a point, for the many places of a curve."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith("0") else text


_DEFAULTS: Final = {"text-anchor": "start", "font-weight": "400"}
"""What SVG takes for attributes that are left out."""


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
        rest = {"fill": "none", "stroke": stroke, "stroke-width": pt(width)}
        rest |= {name.replace("_", "-"): value for name, value in more.items()}
        if rest["stroke"] == "none":
            del rest["stroke"], rest["stroke-width"]
        text = " ".join(f'{name}="{value}"' for name, value in rest.items())
        self._parts.append(f'<path d="{data}" {text}/>')

    def text(self, x: float, y: float, text: str, **more: str) -> None:
        """Text with its baseline at y."""
        rest = {"fill": SOFT, "font-size": pt(SIZE)}
        rest |= {name.replace("_", "-"): value for name, value in more.items()}
        tail = " ".join(f'{n}="{value}"' for n, value in rest.items() if _DEFAULTS.get(n) != value)
        words = html.escape(visible(text))
        self._parts.append(f'<text x="{pt(x)}" y="{pt(y)}" {tail}>{words}</text>')

    def label(self, x: float, y: float, text: str, colour: str, anchor: str = "start") -> None:
        """Text within a drawing, with a rim of paper around its letters."""
        rim = {"stroke": "#ffffff", "stroke_width": "2", "stroke_linejoin": "round"}
        self.text(x, y, text, fill=colour, text_anchor=anchor, font_weight="600",
                  paint_order="stroke", **rim)  # fmt: skip

    def svg(self) -> str:
        """The drawing as a document."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {pt(self.width)} '
            f'{pt(self.height)}" font-family="{FONT}">' + "".join(self._parts) + "</svg>"
        )


_Place = tuple[float, int, str]

_NARROW: Final = frozenset("iljtfrI.,:;|!'()[]{}/\\ \u202f\u00a0\u200b")
_WIDE: Final = frozenset("mwMWOQGD@%—")


def text_width(text: str, size: float = SIZE) -> float:
    """The approximate width of the text in points: too large rather than too small."""
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


def label_width(text: str) -> float:
    """As ``text_width``, for a label, which is bold."""
    return text_width(text) * 1.25


def cut(text: str, most: int) -> str:
    """The displayed text, shortened to at most ``most`` characters."""
    shown = visible(text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def fit(text: str, room: float, width: Callable[[str], float] = text_width) -> str:
    """The displayed text, cut where it would be wider than ``room`` (points)."""
    shown = visible(text)
    if width(shown) <= room:
        return shown
    wide = width("…")
    for at, character in enumerate(shown):
        wide += width(character)
        if wide > room:
            return shown[:at] + "…"
    return shown


def _placed(names: Iterable[str], room: float, x: float, line: float) -> list[_Place]:
    """The places of the markers of a key, and the names, in rows of width ``room`` of which the
    first is free from ``x`` on. ``line``: the room for a marker."""
    row, found = 0, []
    for name in names:
        words = fit(cut(name, 48), room - line)
        wide = line + text_width(words)
        if x > 2 and x + wide > room:
            x, row = 2.0, row + 1
        found.append((x, row, words))
        x += wide + 6
    return found


class Plot(Canvas):
    """A drawing with two axes."""

    def __init__(
        self,
        width: float,
        height: float,
        x: Scale,
        y: Scale,
        named: bool = True,
        lines: Sequence[str] = (),
        after: str = "",
    ) -> None:
        """``named``: the axis below has a name. ``lines``: the names of a key above the drawing,
        ``after`` the name of the axis on the left. The figure is higher if they need more rows."""
        free = text_width(fit(after, width * 0.6)) + 12
        self._key = _placed(lines, width - 2, free, KEY_MARK)
        more = KEY_ROW * self._key[-1][1] if self._key else 0.0
        super().__init__(width, height + more)
        self.top += more
        self.bottom += 0 if named else 9
        self.x, self.y = x, y
        self._px: dict[float, float] = {}
        self._py: dict[float, float] = {}

    def px(self, value: float) -> float:
        """The horizontal place of a value, in points. Places are cached because the values
        recur."""
        if value not in self._px:
            self._px[value] = self.left + self.x.at(value) * (self.right - self.left)
        return self._px[value]

    def py(self, value: float) -> float:
        """The vertical place of a value, in points from the top."""
        if value not in self._py:
            self._py[value] = self.bottom - self.y.at(value) * (self.bottom - self.top)
        return self._py[value]

    def at(self, x: float, y: float) -> str:
        """The place of a point in a path."""
        return f"{pt(self.px(x))} {pt(self.py(y))}"

    def across(
        self, ticks: Iterable[float], label: str, shown: Callable[[float], str] = scales.tick
    ) -> None:
        """The axis below, with a line up from each tick."""
        marks, free = [], -math.inf
        for value in ticks:
            at, words = self.px(value), shown(value)
            marks.append(f"M{pt(at)} {pt(self.top)}V{pt(self.bottom)}")
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
            marks.append(f"M{pt(self.left)} {pt(at)}H{pt(self.right)}")
            self.text(self.left - 4, at + 2.4, shown(value), text_anchor="end")
        self.path("".join(marks), HAIR, 0.6)
        self.text(2, 7, fit(label, self.width * 0.6), fill=INK)

    def frame(self) -> None:
        """The lines of the axes, and the key."""
        for at, (x, row, words) in enumerate(self._key):
            put_marker(self, at, x + 3, 4.5 + KEY_ROW * row, 1.9)
            self.text(x + KEY_MARK, 7 + KEY_ROW * row, words)
        self.path(f"M{pt(self.left)} {pt(self.top)}V{pt(self.bottom)}H{pt(self.right)}", FAINT, 0.7)

    def upright(self, value: float, text: str, colour: str, dash: str, level: int = 0) -> None:
        """A vertical line at a value, with its name. ``level``: the line of text that the name is
        on."""
        text = fit(text, (self.right - self.left) * 0.9, label_width)
        at, y = self.px(value), self.top + 7 + NAME_ROW * level
        self.path(f"M{pt(at)} {pt(self.top)}V{pt(self.bottom)}", colour, 0.8, stroke_dasharray=dash)
        begin, end, anchor = self.beside(value, text)
        self.label(begin + 3 if anchor == "start" else end - 3, y, text, colour, anchor)

    def beside(self, value: float, text: str) -> tuple[float, float, str]:
        """Where the name of a vertical line begins and ends, and its anchor."""
        at, wide = self.px(value), label_width(text) + 5
        if at + wide <= self.width:
            return at, at + wide, "start"
        if at - wide >= self.left:
            return at - wide, at, "end"
        return self.left, self.left + wide, "start"

    def level(self, value: float, text: str, colour: str, dash: str) -> None:
        """A horizontal line at a value, with its name; nothing beyond the axis."""
        if not self.y.low <= value <= self.y.high:
            return
        at = self.py(value)
        text = fit(text, (self.right - self.left) * 0.5, label_width)
        self.path(f"M{pt(self.left)} {pt(at)}H{pt(self.right)}", colour, 0.8, stroke_dasharray=dash)
        self.label(self.right - 3, at - 2.5, text, colour, "end")

    def shades(self, words: str, most: int, low: float = 0.0) -> None:
        """The scale of shades above the drawing, for counts from 1 to ``most``; ``low``: the place
        of 1 on the ramp."""
        right, wide = self.right - 24, 60.0
        for k in range(12):
            left = right - wide + k * wide / 12
            shade = shade_of(low + (1 - low) * k / 11)
            self.path(f"M{pt(left)} 2h{pt(wide / 12 + 0.1)}v5H{pt(left)}z", fill=shade)
        self.text(right - wide - 3, 7, f"{words}: 1", text_anchor="end")
        self.text(right + 3, 7, numbers.count(most))

    def steps(self, edges: Sequence[float], heights: Sequence[float | None]) -> str:
        """A path along a value for each bin; None breaks it."""
        path, last = [], None
        for low, high, height in zip(edges, edges[1:], heights, strict=False):
            if height is None:
                last = None
                continue
            y = tenth(self.py(height))
            start = f"M{tenth(self.px(low))} {y}" if last is None else "" if last == y else f"V{y}"
            path.append(f"{start}H{tenth(self.px(high))}")
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
        """A path through points; one without a value breaks it. A point alone is a dot."""
        path = []
        for known, run in itertools.groupby(points, lambda point: point[1] is not None):
            places = [(self.px(x), self.py(y)) for x, y in run if y is not None]
            if known and len(places) == 1:
                (x, y), half = places[0], 0.6
                path.append(f"M{tenth(x - half)} {tenth(y)}h{tenth(2 * half)}")
            elif known:
                path.append("M" + "L".join(f"{tenth(x)} {tenth(y)}" for x, y in places))
        return "".join(path)


def marker(at: int, x: float, y: float, size: float) -> str:
    """The outline of the marker of series ``at`` around a point."""
    s = size
    arc = f"a{pt(s)} {pt(s)} 0 1 0"
    shapes = (
        lambda: f"M{pt(x - s)} {pt(y)}{arc}{pt(2 * s)} 0{arc}{pt(-2 * s)} 0z",
        lambda: f"M{pt(x - s)} {pt(y - s)}h{pt(2 * s)}v{pt(2 * s)}h{pt(-2 * s)}z",
        lambda: f"M{pt(x)} {pt(y - s * 1.2)}l{pt(s * 1.2)} {pt(s * 2.1)}h{pt(-s * 2.4)}z",
        lambda: (
            f"M{pt(x)} {pt(y - s * 1.4)}l{pt(s * 1.4)} {pt(s * 1.4)}l{pt(-s * 1.4)} "
            f"{pt(s * 1.4)}l{pt(-s * 1.4)} {pt(-s * 1.4)}z"
        ),
    )
    return shapes[at % len(shapes)]()


def put_marker(canvas: Canvas, at: int, x: float, y: float, size: float = 2.2) -> None:
    """The marker of a series: four shapes, which are hollow for the last four of the colours. From
    the ninth series on, a colour has another shape."""
    hollow = at % len(COLOURS) >= 4
    canvas.path(
        marker(at + at // len(COLOURS), x, y, size),
        COLOURS[at % len(COLOURS)],
        0.9,
        fill="#ffffff" if hollow else COLOURS[at % len(COLOURS)],
    )


def shade_of(part: float) -> str:
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
        self.at_least: Sequence[bool] = data["at_least"]
        """For each series: whether its maximum is a lower limit, and no sample."""
        self.budget = None if data["budget"] is None else data["budget"] / self.divisor
        self.compare = bool(data.get("compare"))
        self.hues: Sequence[int] | None = data.get("hues")
        """For sets: the set that gives each line its colour. Dashes distinguish lines of a set."""
        self.dashes: Sequence[int] = data.get("dashes") or ()
        mark = data.get("mark")
        self.mark = None if mark is None else (float(mark[0]) / self.divisor, str(mark[1]))

    @property
    def crowd(self) -> bool:
        return self.number > CROWD and self.hues is None

    def hue(self, at: int) -> int:
        """The number of the colour and of the marker of a line."""
        return at if self.hues is None else self.hues[at]

    def dash(self, at: int) -> dict[str, str]:
        """What tells the line from others of its colour, as attributes of its path."""
        dash = DASHES[self.dashes[at] % len(DASHES)] if self.dashes else ""
        return {"stroke_dasharray": dash} if dash else {}

    def name(self) -> str:
        quantity = str(self.data["quantity"])
        return f"{quantity} ({self.unit})" if self.unit else quantity

    def shown(self, value: float, limit: bool = False) -> str:
        """A value, already in the unit that is shown, as text with that unit, not rounded to the
        budget. ``limit``: it is a lower limit."""
        budget = None if limit else self.data["budget"]
        text = numbers.shown(round(value * self.divisor), self.data["raw_unit"], budget).text
        text = f"≥{GAP}{text}" if limit else text
        return f"{text}{GAP}{self.unit}" if self.unit else text

    def ordered(self) -> list[int]:
        """The series in drawing order: the one with the largest maximum last, on top of the
        others."""
        return sorted(range(self.number), key=lambda at: (at == self.worst, at))

    def drawn(self) -> list[int]:
        """The series that have lines of their own, in that order: of a crowd only the last one."""
        return [self.worst] if self.crowd else self.ordered()

    def line(self, at: int) -> tuple[str, float]:
        """Colour and width of the line of a series."""
        return (INK, 1.2) if self.crowd else (COLOURS[self.hue(at) % len(COLOURS)], 1.0)

    def lines_of(self, plot: Plot) -> None:
        """The largest value, the budget and the second line of the quantity, on the axis of values
        below. A comparison is drawn without them."""
        if self.compare:
            return
        if math.isfinite(self.top):
            top, limit = self.top / self.divisor, any(self.at_least)
            beyond = f"{GAP}→" if top > plot.x.high else ""
            plot.upright(top, f"max {self.shown(top, limit)}{beyond}", INK, "1.5 2")
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
    """The key to the lines as SVG; None for a single series, or for too many."""
    quantity = Quantity(data)
    if quantity.number < 2 or quantity.crowd:
        return None
    places = _placed(quantity.labels, FULL, 2.0, 17)
    canvas = Canvas(FULL, 12 * (places[-1][1] + 1))
    for at, (x, row, words) in enumerate(places):
        y = 8.0 + 12 * row
        colour, _ = quantity.line(at)
        canvas.path(f"M{pt(x)} {pt(y - 2.5)}h14", colour, 1.0, **quantity.dash(at))
        put_marker(canvas, quantity.hue(at), x + 7, y - 2.5)
        canvas.text(x + 17, y, words, fill=INK)
    return canvas.svg()


def swatch(at: int) -> str:
    """The line and marker of a series for a table."""
    canvas = Canvas(14, 8)
    canvas.path("M1 4h12", COLOURS[at % len(COLOURS)], 1.0)
    put_marker(canvas, at, 7, 4)
    return canvas.svg()


def spark(path: str, peak: float | None) -> str:
    """A small histogram for a row of a table, 96 by 22, with a line at its largest value."""
    canvas = Canvas(96, 22)
    canvas.path(path, fill="#a9bccb")
    if peak is not None:
        canvas.path(f"M{pt(peak)} 0V22", WARM, 1.2)
    return canvas.svg()
