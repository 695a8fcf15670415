# SPDX-License-Identifier: Apache-2.0
"""Small histograms: those of the results model, as a line of blocks, as a drawing in a line.

Their bins are log-linear, so that those of several series can be added: a coarser bin is the sum of
finer ones. Heights are logarithmic, so that a single sample is seen beside a million.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from rtgauge.stats import Counts, bucket_high, bucket_low, bucket_of
from rtgauge.stats.counts import SUB_BITS

__all__ = ["BLOCKS", "Sketch", "added", "blocks", "extent", "path", "sketch_of"]

Sketch = Sequence[Sequence[int]]
"""Occupied bins, rising: least value, largest value, number of samples."""

BINS: Final = 48
BLOCKS: Final = "▁▂▃▄▅▆▇█"


def _bits(low: int, high: int) -> int:
    for bits in range(SUB_BITS, 0, -1):
        if int(bucket_of(high, bits)) - int(bucket_of(low, bits)) < BINS:
            return bits
    return 0


def sketch_of(counts: Counts) -> list[list[int]]:
    """The histogram of a table of values in few bins; of none, empty."""
    if not len(counts.values):
        return []
    bits = _bits(int(counts.values[0]), int(counts.values[-1]))
    return _binned(bucket_of(counts.values, bits), counts.counts, bits)


def _binned(buckets: np.ndarray, counts: np.ndarray, bits: int) -> list[list[int]]:
    places, which = np.unique(buckets, return_inverse=True)
    sums = np.zeros(len(places), np.int64)
    np.add.at(sums, which, counts)
    columns = (bucket_low(places, bits), bucket_high(places, bits), sums)
    return [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def added(sketches: Sequence[Sketch]) -> list[list[int]]:
    """All samples of several histograms in one."""
    rows = np.array([row for one in sketches for row in one], np.int64).reshape(-1, 3)
    if not len(rows):
        return []
    bits = _bits(int(rows[:, 0].min()), int(rows[:, 1].max()))
    while bits and np.any(bucket_of(rows[:, 0], bits) != bucket_of(rows[:, 1], bits)):
        bits -= 1
    return _binned(bucket_of(rows[:, 0], bits), rows[:, 2], bits)


def extent(sketches: Sequence[Sketch]) -> tuple[float, float]:
    """The ends of an axis for several histograms, as ``_place`` gives them."""
    filled = [one for one in sketches if one]
    if not filled:
        return 0.0, 1.0
    low = min(_place(one[0][0]) for one in filled)
    high = max(_place(one[-1][1] + 1) for one in filled)
    return low, max(high, low + 1e-9)


def _place(value: int) -> float:
    """Where a value stands on an axis that is logarithmic on both sides of 0."""
    return math.copysign(math.log1p(abs(value)), value)


def _heights(sketch: Sketch, ends: tuple[float, float], columns: int) -> list[float]:
    """The height of each column from 0 to 1; every bin with a sample is in one column at least."""
    if not sketch:
        return [0.0] * columns
    full = math.log1p(max(count for _, _, count in sketch))
    width = (ends[1] - ends[0]) / columns
    heights = [0.0] * columns
    for low, high, count in sketch:
        first = (_place(low) - ends[0]) / width
        last = (_place(high + 1) - ends[0]) / width
        begin = min(max(round(first), 0), columns - 1)
        stop = min(max(round(last), begin + 1), columns)
        for at in range(begin, stop):
            heights[at] = max(heights[at], math.log1p(count) / full)
    return heights


def blocks(sketch: Sketch, ends: tuple[float, float], columns: int = 16) -> str:
    """The histogram as a line of text; a blank where there is no sample."""
    return "".join(
        " " if not height else BLOCKS[min(int(height * len(BLOCKS)), len(BLOCKS) - 1)]
        for height in _heights(sketch, ends, columns)
    )


def path(
    sketch: Sketch, ends: tuple[float, float], width: int = 96, height: int = 22
) -> tuple[str, float | None]:
    """The histogram as the path of an SVG drawing, and where its largest sample stands."""
    if not sketch:
        return "", None
    parts = []
    for at, part in enumerate(_heights(sketch, ends, width // 2)):
        if part:
            top = round(height - max(part * height, 1.5), 1)
            parts.append(f"M{2 * at} {height}V{top}H{2 * at + 2}V{height}z")
    scale = (ends[1] - ends[0]) / width
    return "".join(parts), round((_place(sketch[-1][1] + 1) - ends[0]) / scale, 1)
