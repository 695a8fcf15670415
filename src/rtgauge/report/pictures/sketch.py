# SPDX-License-Identifier: Apache-2.0
"""The histograms of the results model as a line of blocks and as a small drawing.

Heights are logarithmic, so that a single sample is visible next to a million.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from rtgauge.report.results.histogram import Histogram

__all__ = ["BLOCKS", "blocks", "extent", "path"]

BLOCKS: Final = "▁▂▃▄▅▆▇█"


def extent(histograms: Sequence[Histogram]) -> tuple[float, float]:
    """The ends of an axis for several histograms, as ``_place`` gives them."""
    filled = [one for one in histograms if one]
    if not filled:
        return 0.0, 1.0
    low = min(_place(one[0][0]) for one in filled)
    high = max(_place(one[-1][1] + 1) for one in filled)
    return low, max(high, low + 1e-9)


def _place(value: int) -> float:
    """The position of a value on an axis that is logarithmic on both sides of 0."""
    return math.copysign(math.log1p(abs(value)), value)


def _heights(histogram: Histogram, ends: tuple[float, float], columns: int) -> list[float]:
    """The height of each column from 0 to 1; every bin with a sample is in one column at least."""
    if not histogram:
        return [0.0] * columns
    full = math.log1p(max(count for _, _, count in histogram))
    width = (ends[1] - ends[0]) / columns
    heights = [0.0] * columns
    for low, high, count in histogram:
        first = (_place(low) - ends[0]) / width
        last = (_place(high + 1) - ends[0]) / width
        begin = min(max(round(first), 0), columns - 1)
        stop = min(max(round(last), begin + 1), columns)
        for at in range(begin, stop):
            heights[at] = max(heights[at], math.log1p(count) / full)
    return heights


def blocks(histogram: Histogram, ends: tuple[float, float], columns: int = 16) -> str:
    """The histogram as a line of text; a blank where there is no sample."""
    return "".join(
        " " if not height else BLOCKS[min(int(height * len(BLOCKS)), len(BLOCKS) - 1)]
        for height in _heights(histogram, ends, columns)
    )


def path(
    histogram: Histogram, ends: tuple[float, float], width: int = 96, height: int = 22
) -> tuple[str, float | None]:
    """The histogram as the path of an SVG drawing, and the x of its largest sample; None without
    one."""
    if not histogram:
        return "", None
    parts = []
    before = base = float(height)
    for at, part in enumerate([*_heights(histogram, ends, width // 2), 0.0]):
        top = round(base - max(part * base, 1.5), 1) if part else base
        if top != before:
            parts.append(f"M{2 * at} {height}" if before == base else f"H{2 * at}")
            parts.append(f"V{top:g}")
            before = top
    scale = (ends[1] - ends[0]) / width
    return "".join(parts), round((_place(histogram[-1][1] + 1) - ends[0]) / scale, 1)
