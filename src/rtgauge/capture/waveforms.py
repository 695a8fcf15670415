# SPDX-License-Identifier: Apache-2.0
"""The waveforms of analogue lines laid over each other, event at 0: how often they passed through
each cell of time and voltage.

They are kept as facts of the step, ``capture.waveform.PANEL.LINE``: JSON that
``rtgauge.report.pictures.persistence`` reads. The base of time is that of the answers
(``stats.bases``).
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rtgauge.capture.analogue import limits
from rtgauge.capture.edges import Edges
from rtgauge.capture.recording import Lines
from rtgauge.stats import Base, Counts, bases

__all__ = ["waveforms"]

COLUMNS: Final = 200
LEVELS: Final = 48
POINTS: Final = 20_000_000
"""Maximum number of points of all waveforms. Beyond it some events are left out, but no extreme."""
EXTREMES: Final = 50
FINE: Final = 8
"""Points on the line from one sample to the next: so fast edges are lines, not dots."""
AT_ONCE: Final = 1 << 20
"""Points in memory, and the limit of one waveform, whose samples are thinned out beyond it."""


def waveforms(lines: Lines, events: Edges, delay: NDArray[np.float64]) -> Iterator[tuple[str, str]]:
    """Names and values of the facts; none of digital lines. ``delay``: in samples, NaN where an
    event was not answered."""
    answered = np.flatnonzero(~np.isnan(delay))
    if lines.waves is None or not len(answered):
        return
    per_ns = float(lines.rate) / 1e9
    values = np.rint(delay[answered] / per_ns).astype(np.int64)
    chosen = bases([Counts.from_arrays([values])])
    assert chosen is not None
    slowest_first = answered[np.argsort(-values, kind="stable")]
    for number, base in enumerate(one for one in chosen if one is not None):
        for name, wave in (("event", lines.waves.event), ("answer", lines.waves.answer)):
            yield (
                f"capture.waveform.{number}.{name}",
                _laid_over(wave, events.at, slowest_first, base, per_ns),
            )


def _laid_over(
    wave: NDArray[np.floating],
    at: NDArray[np.float64],
    order: NDArray[np.int64],
    base: Base,
    per_ns: float,
) -> str:
    width = (base.stop_ns - base.start_ns) / COLUMNS
    within = min(max(1, math.ceil(width * per_ns * FINE)), AT_ONCE // COLUMNS)
    number = COLUMNS * within
    most = max(POINTS // number, 2 * EXTREMES)
    if len(order) > most:
        middle = order[EXTREMES:-EXTREMES]
        step = -(-len(middle) // max(most - 2 * EXTREMES, 1))
        order = np.concatenate((order[:EXTREMES], middle[::step], order[-EXTREMES:]))
    offsets = (base.start_ns + (np.arange(number) + 0.5) * width / within) * per_ns
    low, high = limits(wave)
    room = (high - low) * 0.06 or 0.5
    low, high = low - room, high + room
    cells = np.zeros((COLUMNS, LEVELS), np.int64)
    column = np.arange(number) // within
    some = max(AT_ONCE // number, 1)
    for start in range(0, len(order), some):
        place = at[order[start : start + some], None] + offsets[None, :]
        inside = (place >= 0) & (place <= len(wave) - 1)
        first = np.clip(place.astype(np.int64), 0, len(wave) - 2)
        part = place - first
        before, after = wave[first], wave[first + 1]
        with np.errstate(invalid="ignore"):  # NaN samples are left out below
            value = before + (after - before) * part
        inside &= np.isfinite(value)
        level = ((np.where(inside, value, low) - low) / (high - low) * LEVELS).astype(np.int64)
        which = np.broadcast_to(column, place.shape) * LEVELS + np.clip(level, 0, LEVELS - 1)
        cells += np.bincount(which[inside], minlength=cells.size).reshape(cells.shape)
    return json.dumps({
        "start_ns": base.start_ns,
        "division_ns": base.division_ns,
        "columns": COLUMNS,
        "levels": LEVELS,
        "low_uv": round(low * 1e6),
        "high_uv": round(high * 1e6),
        "events": len(order),
        "cells": base64.b64encode(zlib.compress(cells.astype("<u4").tobytes(), 9)).decode(),
    })  # fmt: skip
