# SPDX-License-Identifier: Apache-2.0
"""Numbers as people read them: nanoseconds in microseconds, with the digits that mean something.

Three significant digits at least, never finer than a nanosecond, never a decimal beyond 100: a
reader compares 3.21 with 30.7 and 1 234, and 1 234.567 would claim what no clock gives. Used by
the terminal summary and by the HTML report, so that both show the same figures.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = [
    "GAP",
    "MINUS",
    "AtLeast",
    "Shown",
    "count",
    "duration",
    "grouped",
    "join",
    "probability",
    "rate",
    "shown",
    "typeset",
    "unit_name",
]

GAP = "\u202f"
"""Narrow no-break space: between the thousands, and between number and unit."""

_SHOWN_IN = {"ps": "ns", "ns": "µs", "ns/s": "µs/s", "kHz": "MHz", "mC": "°C", "count": ""}

MINUS = "\u2212"


class AtLeast(int):
    """A lower limit of the true value, shown with ≥."""


@dataclass(frozen=True)
class Shown:
    """A number split at the decimal point, so that columns can be aligned on it."""

    whole: str
    decimals: str
    unit: str

    @property
    def text(self) -> str:
        """The number without its unit."""
        return self.whole + ("." + self.decimals if self.decimals else "")

    @property
    def full(self) -> str:
        """The number with its unit."""
        return f"{self.text}{GAP}{self.unit}" if self.unit else self.text


def unit_name(unit: str) -> str:
    """The unit in which values of ``unit`` are shown; empty for plain counts."""
    return _SHOWN_IN.get(unit, unit)


def divisor(unit: str) -> int:
    """How many of ``unit`` make one of the unit shown."""
    return 1000 if unit in _SHOWN_IN and unit != "count" else 1


def grouped(digits: str) -> str:
    """Digits with their thousands apart."""
    head = len(digits) % 3 or 3
    return GAP.join([digits[:head], *(digits[i : i + 3] for i in range(head, len(digits), 3))])


def shown(value: float | None, unit: str) -> Shown:
    """A value of ``unit`` as it is shown; an en dash where there is none."""
    if value is None:
        return Shown("–", "", "")
    name = unit_name(unit)
    scaled = value / divisor(unit)
    size = abs(scaled)
    whole_number = divisor(unit) == 1 and float(value).is_integer()
    if whole_number or size >= 100 or size == 0:
        decimals = 0
    elif size >= 10:
        decimals = 1
    else:
        decimals = 2 if size >= 1 else 3
    text = f"{round(size) if decimals == 0 else size:.{decimals}f}"
    whole, _, rest = text.partition(".")
    sign = MINUS if value < 0 else ""
    if isinstance(value, AtLeast):
        sign = f"≥{GAP}{sign}"
    return Shown(sign + grouped(whole), rest, name)


def count(number: float | None) -> str:
    """A number of things, thousands apart."""
    if number is None:
        return "–"
    return ("" if number >= 0 else MINUS) + grouped(str(abs(round(number))))


def duration(seconds: float | None) -> str:
    """A length of time as people say it: ``20 s``, ``2 min 30 s``, ``54 h``."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return shown(seconds * 1000, "ms").full if seconds else f"0{GAP}s"
    if seconds < 60:
        return f"{seconds:.3g}{GAP}s"
    whole = round(seconds)
    parts = []
    for name, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        amount, whole = divmod(whole, size)
        if amount:
            parts.append(f"{amount}{GAP}{name}")
    return " ".join(parts[:2])


def rate(per_second: float | None, unit: str) -> str:
    """Work per second with three significant digits: ``12 300 messages/s``."""
    if per_second is None:
        return "–"
    rounded = float(f"{per_second:.3g}")
    text = count(rounded) if rounded >= 100 else f"{rounded:g}"
    return f"{text}{GAP}{unit}/s" if unit else f"{text}/s"


def probability(value: float) -> str:
    """A small probability as one in so many, rounded to the cautious side."""
    if value <= 0:
        return "none"
    if value >= 0.5:
        return f"{value:.0%}"
    one_in = int(1 / value)
    digits = max(len(str(one_in)) - 2, 0)
    return f"1 in {count(one_in // 10**digits * 10**digits)}"


def join(words: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return ", ".join(words[:-1]) + " and " + words[-1]


def typeset(text: str) -> str:
    """A sentence of evidence with its microseconds and counts written as the figures beside it."""

    def figure(found: re.Match[str]) -> str:
        return f"{grouped(found[1])}{found[2] or ''}{GAP}µs"

    return re.sub(r"(\d+)(\.\d+)? us\b", figure, text.replace("\u00a0", GAP))
