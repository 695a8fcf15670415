# SPDX-License-Identifier: Apache-2.0
"""Axes of the figures on paper: the place of a value, which values are named, and how.

The choices are those of static/report.js, so that a figure looks alike on the screen and on paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from rtgauge.text import GAP, MINUS, grouped

__all__ = [
    "Scale",
    "counts",
    "linear",
    "power",
    "powers",
    "seconds",
    "spread",
    "tick",
    "values",
]

DIGITS: Final = 12
"""Significant digits of a place on an axis: those of a double, without what is left of
computing it."""
_RAISED: Final = "⁰¹²³⁴⁵⁶⁷⁸⁹"


@dataclass(frozen=True)
class Scale:
    """An axis from ``low`` to ``high``; ``kind`` is linear, log or asinh (linear about zero)."""

    kind: str
    low: float
    high: float

    def at(self, value: float) -> float:
        """The place of a value, from 0 at the low end to 1 at the high end. A value beyond an end
        is at that end."""
        place = _FORWARD[self.kind]
        low, high = place(self.low), place(self.high)
        if self.kind == "log":
            value = max(value, self.low)
        return min(max((place(value) - low) / (high - low), 0.0), 1.0)

    def ticks(self, room: float) -> list[float]:
        """The values to be named on an axis with room for about ``room`` of them."""
        if self.kind == "log":
            return _logarithmic(self.low, self.high, room)
        if self.kind == "asinh":
            above = _logarithmic(1, self.high, room / 2) if self.high > 1 else []
            below = _logarithmic(1, -self.low, room / 2) if self.low < -1 else []
            found = [*(-value for value in reversed(below)), 0.0, *above]
            found = [value for value in found if self.low <= value <= self.high]
            return found if len(found) > 2 else _even(self.low, self.high, room)
        return _even(self.low, self.high, room)


_FORWARD: Final[dict[str, Callable[[float], float]]] = {
    "linear": float,
    "log": math.log,
    "asinh": math.asinh,
}
_BACK: Final[dict[str, Callable[[float], float]]] = {
    "linear": float,
    "log": math.exp,
    "asinh": math.sinh,
}


def values(least: float, most: float, room: float = 0.03) -> Scale:
    """An axis across the values of a distribution, with some room at both ends."""
    kind = "log" if least > 0 else "asinh"
    low, high = _FORWARD[kind](least), _FORWARD[kind](most)
    margin = (high - low) * room or 0.05
    return Scale(kind, _BACK[kind](low - margin), _BACK[kind](high + margin))


def spread(least: float, most: float) -> Scale:
    """An axis for values over time: logarithmic if the min is above 0 and the max at least 8 times
    as large, else linear and including 0."""
    if least <= 0 or most / least < 8:
        low, high = min(0.0, least * 1.05), max(0.0, most * 1.08)
        return Scale("linear", low, high if high > low else 1.0)
    return Scale("log", least * 0.8, most * 1.25)


def counts(low: float, high: float) -> Scale:
    """A logarithmic axis for counts or shares, of which only powers of ten are named."""
    return Scale("log", low, high)


def linear(low: float, high: float) -> Scale:
    """A linear axis; a single place is given some width."""
    if high > low:
        return Scale("linear", low, high)
    return Scale("linear", low - _width(low) / 2, low + _width(low) / 2)


def _width(value: float) -> float:
    """The width of an axis about one value: 1, or more where a double has no room for that."""
    return max(1.0, abs(value) * 1e-6)


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def _logarithmic(low: float, high: float, room: float) -> list[float]:
    decades = math.log10(high / low)
    within = (1, 2, 5) if decades * 3 <= room else (1,)
    every = 1 if len(within) > 1 else max(1, math.ceil(decades / max(room, 1)))
    found = [
        _rounded(factor * 10.0**exponent, 1)
        for exponent in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        if exponent % every == 0
        for factor in within
    ]
    found = [value for value in found if low * 0.999 <= value <= high * 1.001]
    return found if len(found) > 1 else _even(low, high, room)


def _even(low: float, high: float, room: float) -> list[float]:
    """Values 1, 2 or 5 times a power of ten apart, at least two of them."""
    raw = (high - low) / max(room, 1)
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    if first >= last and room < 8:
        return _even(low, high, max(room, 1) * 2)
    return [_rounded(number * step, DIGITS) for number in range(first, last + 1)]


def tick(value: float) -> str:
    """The text of a value at an axis, with all its digits."""
    size = abs(value)
    text = f"{size:.6f}".rstrip("0").rstrip(".") if size >= 1 or size == 0 else f"{size:.{DIGITS}g}"
    whole, _, rest = text.partition(".")
    if "e" not in whole:
        whole = grouped(whole)
    return (MINUS if value < 0 else "") + whole + (f".{rest}" if rest else "")


def power(value: float) -> str:
    """A power of ten at an axis of counts or shares."""
    exponent = round(math.log10(value))
    if 0 <= exponent <= 3:
        return grouped(str(10**exponent))
    if -2 <= exponent < 0:
        return f"{10.0**exponent:g}"
    return f"10{'⁻' if exponent < 0 else ''}{''.join(_RAISED[int(d)] for d in str(abs(exponent)))}"


def powers(scale: Scale, room: float) -> Iterable[float]:
    """The powers of ten on the axis, from its high end down, as many as have room."""
    low = math.ceil(math.log10(scale.low) - 1e-9)
    high = math.floor(math.log10(scale.high) + 1e-9)
    every = max(1, math.ceil((high - low) / max(room, 1)))
    return [10.0**exponent for exponent in range(high, low - 1, -every)]


def seconds(value: float) -> str:
    """A time since the step began, given in seconds, as text in s, min or h."""
    if value >= 7200:
        return f"{value / 3600:.2f}{GAP}h"
    if value >= 600:
        return f"{value / 60:.1f}{GAP}min"
    return f"{value:.3g}{GAP}s"
