# SPDX-License-Identifier: Apache-2.0
"""The one formatter for people: numbers, times and quantities as text.

Values are rounded to the digits that people read; the exact notation of options is in
``rtgauge.units``. Numbers, units and thousands are joined by narrow no-break spaces; ``plain``
makes ASCII of that.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Final, TextIO

__all__ = [
    "GAP",
    "MINUS",
    "AtLeast",
    "Shown",
    "bandwidth",
    "beside",
    "count",
    "discard",
    "divisor",
    "duration",
    "exact",
    "frequency",
    "grouped",
    "join",
    "microseconds",
    "per_hour",
    "per_hour_beside",
    "percent",
    "plain",
    "plural",
    "probability",
    "rate",
    "shown",
    "size",
    "time",
    "to_the_ns",
    "unit_name",
]

GAP: Final = "\u202f"
"""Narrow no-break space: between the thousands, and between number and unit."""

MINUS: Final = "\u2212"

_SHOWN_IN: Final = {"ps": "ns", "ns": "µs", "ns/s": "µs/s", "kHz": "MHz", "mC": "°C", "count": ""}
_LENGTHS: Final = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_TIMES: Final = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns"))
_FREQUENCIES: Final = ((10**9, "GHz"), (10**6, "MHz"), (10**3, "kHz"), (1, "Hz"))
_PLAIN: Final = str.maketrans(
    {"µ": "u", "–": "-", MINUS: "-", "±": "+-", "≥": ">=", "…": "...", GAP: " ", "\u00a0": " "}
)


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


def shown(value: float | None, unit: str, limit: float | None = None) -> Shown:
    """A value of ``unit`` as reports print it, or an en dash for None. ``limit``: a value printed
    next to it. If rounding gives both the same text, the value is printed with all its digits."""
    if value is None:
        return Shown("–", "", "")
    found = _rounded_to_shown(value, unit)
    if limit is None or value == limit or isinstance(value, AtLeast):
        return found
    if found != _rounded_to_shown(limit, unit):
        return found
    whole, _, decimals = _exact(Decimal(repr(value)) / divisor(unit)).partition(".")
    return Shown(whole, decimals, found.unit)


def _rounded_to_shown(value: float, unit: str) -> Shown:
    name = unit_name(unit)
    if unit == "ns" and -5 < value < 0:  # the error of a calibration
        return Shown("0", "00", name)
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
    while unit == "%" and not math.isclose(size, float(text)) and float(text) in (0, 100):
        decimals += 1
        text = f"{size:.{decimals}f}"
    whole, _, rest = text.partition(".")
    sign = MINUS if value < 0 else ""
    if isinstance(value, AtLeast):
        sign = f"≥{GAP}{sign}"
    return Shown(sign + grouped(whole), rest, name)


def beside(value: float, limit: float | None) -> str:
    """A time in ns next to a limit: exactly if it is rounded to the limit otherwise."""
    return shown(value, "ns", limit).full


def count(number: float | None) -> str:
    """A number of things, thousands apart."""
    if number is None:
        return "–"
    return ("" if number >= 0 else MINUS) + grouped(str(abs(round(number))))


def plural(number: int, one: str, many: str = "") -> str:
    """A number of things with their name: ``1 run``, ``2 runs``, ``1 000 losses``."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def percent(share: float, digits: int = 2) -> str:
    """A share with that many significant digits: ``95 %``, ``0.12 %``. With more, if it would be
    rounded to 100 %."""
    text = _digits(100 * share, digits)
    while float(text) == 100 and not math.isclose(100 * share, 100):
        digits += 1
        text = _digits(100 * share, digits)
    return f"{text}{GAP}%"


def _digits(value: float, number: int) -> str:
    """That many significant digits, without an exponent."""
    return f"{Decimal(f'{value:.{number}g}'):f}"


def duration(seconds: float | None, *, up: bool = False, coarse: bool = False) -> str:
    """A length of time in two units at most: ``20 s``, ``2 min 30 s``, ``2 d 6 h``.

    ``up``: never rounded down. ``coarse``: tenths of a second at most, for what passes live.
    """
    if seconds is None:
        return "–"
    if math.isinf(seconds):
        return "for ever"
    seconds = max(seconds, 0.0)
    if up and 0 < seconds < 10:  # to three digits, and whole microseconds
        seconds = float(_rounded(seconds, ROUND_CEILING, least=-6))
    if coarse and seconds < 10:
        return f"{seconds:.1f}{GAP}s"
    if not coarse and 0 < seconds < 1:
        return shown(seconds * 1000, "ms").full
    if seconds < (10 if up or coarse else 60):
        return f"{seconds:.3g}{GAP}s"
    whole = math.ceil(seconds - 1e-9) if up else round(seconds)
    for (unit, size), (smaller, step) in zip(_LENGTHS, (*_LENGTHS[1:], ("", 1)), strict=True):
        if whole >= size:
            first, rest = divmod(whole, size)
            rest = -(-rest // step) if up else round(rest / step)
            if rest * step == size:
                first, rest = first + 1, 0
            return f"{first}{GAP}{unit}" + (f" {rest}{GAP}{smaller}" if rest and smaller else "")
    return f"0{GAP}s"


def _rounded(value: float, how: str, digits: int = 3, least: int | None = None) -> Decimal:
    """A number >= 0 with that many significant digits, none below ten to the power of ``least``."""
    exact = Decimal(repr(float(value)))
    if not exact or exact.is_infinite():
        return exact
    last = exact.adjusted() - digits + 1
    return exact.quantize(Decimal(1).scaleb(last if least is None else max(last, least)), how)


def time(ns: float) -> str:
    """A short time with three significant digits in the largest unit that fits: ``3.33 ms``."""
    rounded = float(f"{ns:.3g}")
    for size, unit in _TIMES:
        if rounded >= size or size == 1:
            return f"{_digits(rounded / size, 3)}{GAP}{unit}"
    raise AssertionError("1 ns is the smallest unit")


def microseconds(ns: int) -> str:
    """A latency exactly: ``150 µs``, ``12.5 µs``, ``10 000 µs``."""
    return f"{_exact(Decimal(ns) / 1000)}{GAP}µs"


def to_the_ns(ns: int) -> str:
    """A time in µs with all its decimals, for columns that add up: ``79 751.885``, ``150.000``."""
    whole, _, decimals = f"{abs(ns) / 1000:.3f}".partition(".")
    return f"{MINUS if ns < 0 else ''}{grouped(whole)}.{decimals}"


def exact(value: float | None) -> str:
    """A number with all its digits: ``132.9``, ``983 670``; an en dash for None."""
    return "–" if value is None else _exact(Decimal(repr(value)))


def _exact(value: Decimal) -> str:
    whole, _, decimals = f"{abs(value).normalize():f}".partition(".")
    return (MINUS if value < 0 else "") + grouped(whole) + (f".{decimals}" if decimals else "")


def frequency(hertz: float) -> str:
    """A frequency with six significant digits: ``24 MHz``."""
    for size, unit in _FREQUENCIES:
        if hertz >= size or size == 1:
            return f"{_digits(hertz / size, 6)}{GAP}{unit}"
    raise AssertionError("1 Hz is the smallest unit")


def size(number: int) -> str:
    """A number of bytes: ``1.5 MiB``, ``120 KiB``."""
    if number >= 2**20:
        return f"{number / 2**20:.1f}{GAP}MiB"
    return f"{number / 2**10:.0f}{GAP}KiB"


def bandwidth(bytes_per_s: float) -> str:
    """A rate of bytes with three significant digits: ``11 kB/s``."""
    for unit, scale in (("MB", 1e6), ("kB", 1e3)):
        if bytes_per_s >= scale:
            return f"{_digits(bytes_per_s / scale, 3)}{GAP}{unit}/s"
    return f"{bytes_per_s:.0f}{GAP}B/s"


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
        digits = 2
        while (found := _rounded(value, ROUND_CEILING, digits)) == 1 > value:
            digits += 1
        return f"{_exact(found * 100)}{GAP}%"
    one_in = int(1 / value)
    digits = max(len(str(one_in)) - 2, 0)
    return f"1 in {count(one_in // 10**digits * 10**digits)}"


def join(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return ", ".join(words[:-1]) + " and " + words[-1]


def per_hour(events: float) -> str:
    """A rate of events to three digits, rounded up, so that no upper bound looks lower than it
    is."""
    return _an_hour(_rounded(events, ROUND_CEILING))


def per_hour_beside(bound: float, allowed: float, *, down: bool = False) -> tuple[str, str]:
    """A bound on a rate of events, rounded up or for a lower bound ``down``, and the rate allowed:
    with three digits, or as many more as it takes to show which of the two is larger."""
    for digits in range(3, 18):
        one = _rounded(bound, ROUND_FLOOR if down else ROUND_CEILING, digits)
        other = _rounded(allowed, ROUND_CEILING, digits)
        if one.compare(other) == Decimal(bound).compare(Decimal(allowed)):
            break
    return _an_hour(one), _an_hour(other)


def _an_hour(rate: Decimal) -> str:
    if rate.is_infinite():
        return "any number an hour"
    whole, point, part = f"{rate.normalize():f}".partition(".")
    return f"{grouped(whole)}{point}{part} an hour"


def discard(stream: TextIO) -> None:
    """Write a stream to nowhere from now on, because its reader has gone (``2>&1 | head``, a
    terminal that was closed)."""
    with contextlib.suppress(OSError):
        number = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, number)
        os.close(nowhere)


def plain(text: str) -> str:
    """The text in ASCII as far as this module's marks go: ``28.4 us``."""
    return text.translate(_PLAIN)
