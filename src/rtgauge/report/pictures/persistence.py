# SPDX-License-Identifier: Apache-2.0
"""All answers to an event superimposed, as on an oscilloscope in infinite-persistence mode.

This is the data of the picture of a series ``response``.

Step 11 of the path of a sample, next to ``pictures``. The event is at 0. Each answer is an edge of
the answering line, of which the time bin and the direction are kept. The time base is linear: ten
divisions of 1, 2 or 5 times a power of ten. Pictures side by side share it. If the slowest answers
are far beyond the rest, a second time base enlarges the bulk.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rtgauge.report.results.gather import Figures
from rtgauge.stats import Base, Counts, bases, division

__all__ = [
    "Base",
    "Trace",
    "bases",
    "below",
    "captions",
    "division",
    "persistence",
    "trace_of",
    "traces",
    "waveforms",
]

Int64 = NDArray[np.int64]

BINS: Final = 600


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
        missed = figures.missed_halves  # every other event rises, the first one first
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


def _grain(rows: Sequence[Trace]) -> int:
    """The approximate step in which the clock of the answers counts, in ns. Bins that are not a
    whole multiple of it would show a comb."""
    steps = []
    for counts in (kind for one in rows for kind in (one.rising, one.falling)):
        if counts.exact and len(counts.values) > 1:
            apart = np.diff(counts.values)
            least = int(apart.min())
            # Steps that are not whole ns were rounded: several are taken together.
            steps.append(least if int(np.gcd.reduce(apart)) == least else 5 * least)
    return max(min(steps, default=1), 1)


def _edges(base: Base, first: int, grain: int) -> Int64:
    """The edges of about BINS bins; ``first``: a value that lies at the beginning of one."""
    width = max((base.stop_ns - base.start_ns) // BINS, 1)
    width = -(-width // grain) * grain
    start = first - -(-(first - base.start_ns) // width) * width
    return np.arange(start, base.stop_ns + width, width, dtype=np.int64)


def below(table: Counts, points: Int64) -> Int64:
    """Number of samples below each point."""
    at = np.searchsorted(table.values, points, side="left")
    return np.concatenate(([0], table.cumulative))[at].astype(np.int64)


def _panel(base: Base, rows: Sequence[Trace]) -> dict[str, Any]:
    """The counts of each row in the bins of a base, and how many lie before and beyond them."""
    first = min(int(one.all.values[0]) for one in rows if one.all.count)
    edges = _edges(base, first, _grain(rows))

    def binned(kind: Sequence[Counts]) -> list[list[int]]:
        return [np.diff(below(one, edges)).tolist() for one in kind]

    outside = []
    for one in rows:
        for counts in (one.rising, one.falling):
            inside = below(counts, edges)
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


def waveforms(facts: Mapping[str, object]) -> list[dict[str, Any]]:
    """The waveforms of a capture's analogue lines, event and answer for each time base, from the
    facts of its step; empty if there are none, or if they are malformed."""
    found: list[dict[str, Any]] = []
    for panel in (0, 1):
        pair = [_waveform(facts.get(f"capture.waveform.{panel}.{one}")) for one in _LINES]
        if None in pair:
            break
        found.append({"event": pair[0], "answer": pair[1]})
    return found


_LINES: Final = ("event", "answer")
_CELLS: Final = 1 << 16


def _waveform(fact: object) -> dict[str, Any] | None:
    try:
        one = json.loads(fact) if isinstance(fact, str) else None
        numbers = ("start_ns", "division_ns", "columns", "levels", "low_uv", "high_uv", "events")
        if not isinstance(one, dict) or any(type(one.get(name)) is not int for name in numbers):
            return None
        size = one["columns"] * one["levels"]
        whole = 0 < size <= _CELLS and one["columns"] > 0 and one["low_uv"] < one["high_uv"]
        near = all(abs(one[name]) < 1 << 60 for name in numbers) and one["division_ns"] > 0
        text = one.get("cells")
        if not (whole and near and isinstance(text, str)):
            return None
        inflate = zlib.decompressobj()
        cells = inflate.decompress(base64.b64decode(text, validate=True), 4 * size + 1)
        if len(cells) != 4 * size or not inflate.eof:
            return None
        return {
            **{name: one[name] for name in numbers},
            "cells": np.frombuffer(cells, "<u4").tolist(),
        }
    except (ValueError, RecursionError, zlib.error):
        return None


def captions(data: Mapping[str, Any], shared: bool) -> list[dict[str, Any]]:
    """The titles and captions of the picture and of its enlarged part. ``shared``: other pictures
    have the same time base."""
    kinds = "Rising and falling answers are superimposed. " if data["both"] else ""
    missing = sum(sum(pair) for pair in data["open"])
    views = [
        {
            "kind": "persistence",
            "full": True,
            "title": "All answers superimposed",
            "caption": "As on an oscilloscope in infinite-persistence mode, triggered by the "
            "event: the event at 0 on top, all answers below. The colour is the number of answers "
            "on that path. " + kinds + "A narrow edge is a steady answer. A line to the right of "
            "it, even a single one, is a late answer. The dashed lines are the "
            "fastest and the slowest answer."
            + (" The line without an edge shows events without an answer." if missing else "")
            + (" All such pictures of this report have the same time base." if shared else ""),
        }
    ]
    views += [
        {
            "kind": f"waves{at}",
            "full": True,
            "title": "Waveforms superimposed" + (", enlarged" if at else ""),
            "caption": "The recorded voltages of both lines, each event at 0. The colour is how "
            "often a line passed there. Look for slow or ringing edges and for levels that are not "
            "reached: the delays that these add do not come from the kernel. If there are very "
            "many events, some are left out, but never the fastest and the slowest."
            if not at
            else "The same over the time in which nearly all answers came.",
        }
        for at, _ in enumerate(data.get("waves") or ())
    ]
    if len(data["panels"]) > 1:
        views.append(
            {
                "kind": "enlarged",
                "full": True,
                "title": "Most answers, enlarged",
                "caption": "The same answers, for the time of nearly all of them. The number at "
                "the right edge counts the answers beyond it. Look for several separate edges: "
                "each is a path that an answer can take.",
            }
        )
    return views
