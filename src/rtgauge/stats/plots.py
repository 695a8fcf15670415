# SPDX-License-Identifier: Apache-2.0
"""Point sets for the pictures of one series, from its table of counts; still pure numbers.

Both keep the tail: every bin with a single sample is there, and the last points of the CCDF are
exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .counts import Counts, Int64

__all__ = ["Ccdf", "Histogram", "ccdf_points", "histogram_points"]


@dataclass(frozen=True, eq=False)
class Histogram:
    """Occupied bins, rising: ``count[k]`` samples from ``low[k]`` to ``high[k]``, both inclusive.

    Bins grow with the values (equal width on a logarithmic axis, as far as whole numbers allow)
    and tile the axis: what lies between two of them is empty. Divide by high - low + 1 for a curve
    that does not depend on their width.
    """

    low: Int64
    high: Int64
    count: Int64


@dataclass(frozen=True, eq=False)
class Ccdf:
    """``at_least[k]`` samples are at least ``value[k]``.

    The last point is the maximum with 1 or more samples, so that all points have a logarithm.
    """

    value: Int64
    at_least: Int64


def _edges(low: int, high: int, bins: int, grain: int) -> Int64:
    """Rising starts of bins for values low ... high >= 0, about equally spaced in logarithm."""
    start, stop = max(low, grain), high + grain
    if stop <= start:
        return np.array([low], np.int64)
    edges = np.round(np.geomspace(start / grain, stop / grain, bins + 1))
    whole = np.unique(edges.astype(np.int64) * grain)
    whole = whole[(whole > low) & (whole <= high)]
    return np.concatenate(([low], whole))


def histogram_points(counts: Counts, bins: int = 400) -> Histogram:
    """The series as a histogram with at most about ``bins`` bins.

    Where all values are multiples of one number (a coarse clock), so are the bins' bounds; else
    bins would hold now one, now two of the possible values and show a comb that is not there.
    """
    if not counts.count:
        empty = np.empty(0, np.int64)
        return Histogram(empty, empty, empty)
    values = counts.values
    low, high = int(values[0]), int(values[-1])
    grain = max(int(np.gcd.reduce(values)), 1) if counts.exact else 1
    decades = [
        np.log(max(abs(high), 1)) - (np.log(max(low, 1)) if low > 0 else 0) if high >= 0 else 0.0,
        np.log(max(-low, 1)) - (np.log(max(-high, 1)) if high < 0 else 0) if low < 0 else 0.0,
    ]
    total = sum(decades) or 1.0
    starts = []
    if low < 0:
        share = max(int(bins * decades[1] / total), 1)
        inner = -min(high, -1)
        mirrored = _edges(inner, -low, share, grain)
        starts.append(np.sort(-np.append(mirrored[1:] - 1, -low)))
    if high >= 0:
        share = max(int(bins * decades[0] / total), 1)
        starts.append(_edges(max(low, 0), high, share, grain))
    edges = np.concatenate(starts)
    which = np.searchsorted(edges, values, side="right") - 1
    begins = np.flatnonzero(np.diff(which, prepend=-1))
    occupied = which[begins]
    ends = np.append(edges[1:] - 1, high + grain - 1 if high >= 0 else high)
    return Histogram(edges[occupied], ends[occupied], np.add.reduceat(counts.counts, begins))


def ccdf_points(counts: Counts, points: int = 600, exact_tail: int = 100) -> Ccdf:
    """The complementary distribution on at most ``points`` of its steps, each exact.

    The ``exact_tail`` largest values are all there; the others are thinned so that the steps left
    are evenly spread over the logarithm of the probability and over the values.
    """
    values = counts.values
    at_least = counts.count - counts.cumulative + counts.counts
    points = max(points, 4)
    exact_tail = min(max(exact_tail, 1), points - 3)
    if len(values) > points:
        body = len(values) - exact_tail
        half = (points - exact_tail - 2) // 2
        height = np.log(at_least[:body].astype(np.float64))
        by_height = np.searchsorted(-height, np.linspace(-height[0], -height[-1], half))
        span = np.arcsinh(values[:body].astype(np.float64))
        by_value = np.searchsorted(span, np.linspace(span[0], span[-1], half))
        kept = np.concatenate((by_height, by_value, [0, body - 1], np.arange(body, len(values))))
        kept = np.unique(kept)
        values, at_least = values[kept], at_least[kept]
    return Ccdf(values, at_least)
