# SPDX-License-Identifier: Apache-2.0
"""All answers to an event laid over each other, as an oscilloscope in infinite-persistence mode
shows them: what the picture of a series ``response`` is drawn from.

Step 11 of the path of a sample, beside ``pictures``. The event is at 0; each answer is an edge of
the answering line, and what is kept of it is in which bin of time it fell, and which way it went.
The base of time is linear, ten divisions of 1, 2 or 5 times a power of ten, the same for all that
stand side by side. Where the slowest are far beyond the rest, a second base enlarges the bulk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from rtgauge.report.packed import pack
from rtgauge.stats import Counts

if TYPE_CHECKING:
    from rtgauge.report.gather import Figures

__all__ = [
    "Base",
    "Trace",
    "bases",
    "captions",
    "division",
    "is_response",
    "persistence",
    "trace_of",
    "traces",
]

Int64 = NDArray[np.int64]

NAME: Final = "response"
DIVISIONS: Final = 10
BINS: Final = 600
FAR: Final = 4
"""The bulk is enlarged where that makes it at least so many times as wide."""
REST: Final = 200
"""Of so many answers one, the slowest, may lie beyond what is enlarged."""


def is_response(name: str, unit: str) -> bool:
    """Whether a series is of answers to events."""
    return name == NAME and unit == "ns"


@dataclass(frozen=True)
class Trace:
    """The answers of a row: delays of the rising and of the falling ones (ns), and how many events
    of each kind were not answered."""

    rising: Counts
    falling: Counts
    open: tuple[int, int]

    @property
    def all(self) -> Counts:
        return Counts.merged([self.rising, self.falling])


def trace_of(figures: Figures, parameters: Mapping[str, str]) -> Trace:
    """The answers of a series; ``parameters``: those of its step, which say what its edges are."""
    none = Counts.from_arrays(())
    edge = parameters.get("edge", "both")
    if edge in ("rising", "falling") or figures.halves is None:
        rising, falling = figures.counts, none
        missed = (figures.missed, 0)
    else:
        rising, falling = figures.halves
        events = figures.taken + figures.missed
        # Every other event rises, the first one first.
        missed = (max((events + 1) // 2 - rising.count, 0), max(events // 2 - falling.count, 0))
    turned = parameters.get("first-edge") == "falling" if edge == "both" else edge == "falling"
    if turned:
        rising, falling, missed = falling, rising, missed[::-1]
    return Trace(rising, falling, missed)


def traces(rows: Sequence[Sequence[Trace]]) -> list[Trace]:
    """The rows of a picture, each of the answers of several series together."""
    return [
        Trace(
            Counts.merged([one.rising for one in row]),
            Counts.merged([one.falling for one in row]),
            (sum(one.open[0] for one in row), sum(one.open[1] for one in row)),
        )
        for row in rows
    ]


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


def _grain(rows: Sequence[Trace]) -> int:
    """The step in which the clock of the answers counts, about: bins narrower than that, or of
    other than whole steps, would show a comb."""
    steps = []
    for counts in (kind for one in rows for kind in (one.rising, one.falling)):
        if counts.exact and len(counts.values) > 1:
            apart = np.diff(counts.values)
            least = int(apart.min())
            # Steps of a fraction of a ns are rounded: then of several together.
            steps.append(least if int(np.gcd.reduce(apart)) == least else 5 * least)
    return max(min(steps, default=1), 1)


def _edges(base: Base, first: int, grain: int) -> Int64:
    """The edges of about BINS bins; ``first``: a value that lies at the beginning of one."""
    width = max((base.stop_ns - base.start_ns) // BINS, 1)
    width = -(-width // grain) * grain
    start = first - -(-(first - base.start_ns) // width) * width
    return np.arange(start, base.stop_ns + width, width, dtype=np.int64)


def _below(table: Counts, points: Int64) -> Int64:
    at = np.searchsorted(table.values, points, side="left")
    return np.concatenate(([0], table.cumulative))[at].astype(np.int64)


def _panel(base: Base, rows: Sequence[Trace]) -> dict[str, Any]:
    """The counts of each row in the bins of a base, and how many lie before and beyond them."""
    first = min(int(one.all.values[0]) for one in rows if one.all.count)
    edges = _edges(base, first, _grain(rows))

    def binned(kind: Sequence[Counts]) -> list[str]:
        return [pack(np.diff(_below(one, edges))) for one in kind]

    outside = []
    for one in rows:
        for counts in (one.rising, one.falling):
            inside = _below(counts, edges)
            outside.append([int(inside[0]), counts.count - int(inside[-1])])
    return {
        "start_ns": base.start_ns,
        "division_ns": base.division_ns,
        "edges": edges.tolist(),
        "rising": binned([one.rising for one in rows]),
        "falling": binned([one.falling for one in rows]),
        "outside": outside,
    }


def persistence(
    rows: Sequence[Trace], chosen: tuple[Base, Base | None] | None
) -> dict[str, Any] | None:
    """The arrays of the picture: a row for each trace, on these bases of time."""
    if chosen is None or not any(one.rising.count or one.falling.count for one in rows):
        return None
    whole, bulk = chosen
    return {
        "open": [list(one.open) for one in rows],
        "min": [one.all.min for one in rows],
        "max": [one.all.max for one in rows],
        "count": [one.rising.count + one.falling.count for one in rows],
        "both": any(one.rising.count + one.open[0] for one in rows)
        and any(one.falling.count + one.open[1] for one in rows),
        "panels": [_panel(base, rows) for base in (whole, bulk) if base is not None],
    }


def captions(data: Mapping[str, Any], shared: bool) -> list[dict[str, Any]]:
    """What the report says of the picture and of its enlarged part. ``shared``: others stand on the
    same base of time."""
    kinds = "Rising and falling answers are laid over each other. " if data["both"] else ""
    missing = sum(sum(pair) for pair in data["open"])
    views = [
        {
            "kind": "persistence",
            "full": True,
            "title": "All answers laid over each other",
            "caption": "As an oscilloscope in infinite-persistence mode shows them, triggered by "
            "the event: above the event at 0, below every answer, its colour saying how many took "
            "that path. " + kinds + "A narrow edge is a steady answer; what stands to the right of "
            "it, be it a single line, is an answer that came late; the dashed lines are the first "
            "and the last of all."
            + (" The line that stays is that of events without an answer." if missing else "")
            + (" The base of time is that of all such pictures here." if shared else ""),
        }
    ]
    if len(data["panels"]) > 1:
        views.append(
            {
                "kind": "enlarged",
                "full": True,
                "title": "The bulk of the answers, enlarged",
                "caption": "The same answers around where nearly all of them are; how many lie "
                "beyond is said at the edge. Look for several edges apart from each other: each is "
                "a way that an answer can take.",
            }
        )
    return views
