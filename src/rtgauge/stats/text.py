# SPDX-License-Identifier: Apache-2.0
"""Figures as the sentences of verdicts and bounds show them."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

__all__ = ["duration_text", "number_text", "option_text", "rate_text", "time_text"]

_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def duration_text(seconds: float) -> str:
    """A length of time in its two largest units, rounded up: ``2 h 41 min``, ``1 min 5 s``."""
    if math.isinf(seconds):
        return "for ever"
    if seconds < 10:
        return f"{max(seconds, 0.0):.3g} s"
    whole = math.ceil(seconds - 1e-9)
    for (unit, size), smaller in zip(_UNITS, (*_UNITS[1:], None), strict=True):
        if whole < size:
            continue
        if smaller is None:
            return f"{whole} {unit}"
        rest = -(-(whole % size) // smaller[1])
        first = whole // size
        if rest * smaller[1] == size:
            first, rest = first + 1, 0
        return f"{first} {unit}" + (f" {rest} {smaller[0]}" if rest else "")
    return "0 s"


def option_text(seconds: float) -> str:
    """A length of time for the command line, rounded up: seconds to 10 min, then minutes."""
    whole = math.ceil(seconds - 1e-9)
    return f"{whole}s" if whole <= 600 else f"{-(-whole // 60)}m"


def time_text(time_ns: int) -> str:
    """A latency in microseconds, without needless digits: ``150 us``, ``12.5 us``."""
    micro = Decimal(time_ns) / 1000
    return f"{micro.normalize():f} us"


def number_text(number: int) -> str:
    """A count with its thousands apart: ``3 600 000`` (by no-break spaces)."""
    return f"{number:,}".replace(",", "\N{NO-BREAK SPACE}")


def rate_text(per_hour: float, *, down: bool = False) -> str:
    """A rate to three digits, rounded up, so that no upper bound looks lower than it is; a lower
    bound is rounded ``down``."""
    if math.isinf(per_hour):
        return "any number an hour"
    if per_hour == 0:
        return "0 an hour"
    exact = Decimal(repr(float(per_hour)))
    digits = Decimal(1).scaleb(exact.adjusted() - 2)
    rounded = exact.quantize(digits, rounding=ROUND_FLOOR if down else ROUND_CEILING)
    return f"{rounded.normalize():f} an hour"
