# SPDX-License-Identifier: Apache-2.0
"""The base of time of an instrument: ten divisions of 1, 2 or 5 times a power of ten, on which all
answers to an event lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .counts import Counts

__all__ = ["DIVISIONS", "Base", "bases", "division"]

DIVISIONS: Final = 10
FAR: Final = 4
"""Minimum factor by which an enlarged picture widens the bulk."""
REST: Final = 200
"""One answer in this number, the slowest, may lie beyond what is enlarged."""


def division(span: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, … ns that is not below ``span``."""
    size = 1
    while True:
        for step in (1, 2, 5):
            if step * size >= span:
                return step * size
        size *= 10


@dataclass(frozen=True)
class Base:
    """A base of time: from ``start_ns`` on ten divisions of ``division_ns``."""

    start_ns: int
    division_ns: int

    @property
    def stop_ns(self) -> int:
        return self.start_ns + DIVISIONS * self.division_ns


def bases(found: Sequence[Counts]) -> tuple[Base, Base | None] | None:
    """The base of time for all these answers, event at its first division; and one that enlarges
    the bulk, where that shows more of it. None where there is no answer."""
    filled = [counts for counts in found if counts.count]
    if not filled:
        return None
    most = max(int(counts.values[-1]) for counts in filled)
    size = division(max(most + 1, 10) * 1.02 / (DIVISIONS - 1))
    whole = Base(-size, size)
    low = min(int(counts.values[0]) for counts in filled)
    high = max(counts.value_at_rank(counts.count - counts.count // REST) for counts in filled)
    bulk = division(max(high - low + 1, 10) / (DIVISIONS - 1))
    start = low // bulk * bulk
    if high >= start + (DIVISIONS - 0.5) * bulk:
        bulk = division(bulk + 1)
        start = low // bulk * bulk
    if bulk * FAR > size:
        return whole, None
    return whole, Base(start, bulk)
