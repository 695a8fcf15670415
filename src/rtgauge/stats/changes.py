# SPDX-License-Identifier: Apache-2.0
"""Since when a series of runs is different: changes of level, whatever the distribution.

Each run gives one value. Values become ranks, and ranks normal scores, so that neither heavy tails
nor skewness matter (B. L. van der Waerden 1952). The changes are those of the exact minimum of the
squared distances from the mean of each segment, plus a penalty for each change (optimal
partitioning: B. Jackson and others, IEEE Signal Processing Letters 12, 2005). The penalty is
calibrated by simulation (``bench/trend.py``): independent values get a change in one series of a
hundred.

Runs that depend on their neighbours look like changes. ``dependence`` tests that. So do changes
that are too close to each other to be found. ``levels`` finds those between constant values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FEWEST",
    "LEAST",
    "MOST",
    "changes",
    "dependence",
    "levels",
    "normal_scores",
    "penalty",
    "settled",
]

Floats = NDArray[np.float64]

FEWEST: Final = 20
"""Minimum number of runs."""
MOST: Final = 1000
"""Maximum number of runs."""
LEAST: Final = 4
"""Minimum number of runs between two changes."""

PENALTIES: Final = {
    20: (8.5, 10.4),
    30: (9.6, 12.4),
    50: (10.9, 14.0),
    100: (11.9, 15.8),
    200: (12.9, 17.6),
    500: (13.5, 17.1),
    1000: (14.7, 19.5),
}
"""Number of values: the penalties at which independent values get a change in one series of a
hundred and of a thousand, rounded up (bench/trend.py)."""


def normal_scores(values: Sequence[float] | NDArray[np.floating | np.integer]) -> Floats:
    """The quantile of the normal distribution at the rank of each value; ties have their mean
    rank."""
    found = np.asarray(values, np.float64)
    _, group, counts = np.unique(found, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[group]
    normal = NormalDist()
    return np.array([normal.inv_cdf((rank - 0.5) / len(found)) for rank in ranks.tolist()])


def penalty(number: int, level: float = 0.01) -> float:
    """The penalty of a change for so many values: independent ones have a change with the
    probability ``level``. Between the entries of the table, and beyond one in a thousand, along the
    logarithms. Raises ValueError for fewer than 20 values or more than 1000."""
    if not FEWEST <= number <= MOST:
        raise ValueError(f"changes are found in {FEWEST} to {MOST} runs, not in {number}")
    numbers = [math.log(one) for one in PENALTIES]
    hundred, thousand = (
        float(np.interp(math.log(number), numbers, [row[at] for row in PENALTIES.values()]))
        for at in (0, 1)
    )
    return hundred + (thousand - hundred) * math.log10(0.01 / level)


def changes(values: Sequence[float] | Floats, cost: float) -> list[int]:
    """Where segments begin, after the first: the partition with the smallest sum of squared
    distances from the means of its segments plus ``cost`` for each change, exactly. Segments have
    four values at least. Among equal partitions, the one with the later last change is taken."""
    number = len(values)
    found = np.asarray(values, np.float64)
    sums = np.concatenate(([0.0], np.cumsum(found)))
    best = np.full(number + 1, np.inf)
    best[0] = 0.0
    before = np.zeros(number + 1, np.int64)
    for end in range(LEAST, number + 1):
        begin = np.arange(end - LEAST + 1)
        total = sums[end] - sums[begin]
        # The squares of the values are part of the sum in each partition.
        whole = best[begin] + cost - total**2 / (end - begin)
        at = len(whole) - 1 - int(np.argmin(whole[::-1]))
        best[end], before[end] = whole[at], at
    places = []
    at = int(before[number])
    while at > 0:
        places.append(at)
        at = int(before[at])
    return places[::-1]


def settled(values: Sequence[float] | Floats, places: Sequence[int]) -> list[int]:
    """The places moved to where the values, not their scores, part best: each between its
    neighbours to the min sum of distances from the medians of both sides. Scores of the largest
    values before a change are close to those of the smallest after it."""
    found = np.asarray(values, np.float64)
    moved = list(places)
    for at in range(len(moved)):
        begin = moved[at - 1] if at else 0
        end = moved[at + 1] if at + 1 < len(moved) else len(found)
        part = found[begin:end]
        cuts = range(LEAST, len(part) - LEAST + 1)
        costs = [_distance(part[:cut]) + _distance(part[cut:]) for cut in cuts]
        moved[at] = begin + cuts[int(np.argmin(costs))]
    return moved


def levels(values: Sequence[float] | Floats) -> list[int]:
    """Where the values change, if they are constant between changes, for at least four values each;
    else empty. Independent values that differ are hardly ever so (``bench/trend.py``)."""
    found = np.asarray(values, np.float64)
    places = (np.flatnonzero(np.diff(found)) + 1).tolist()
    bounds = [0, *places, len(found)]
    return places if min(np.diff(bounds)) >= LEAST else []


def _distance(values: Floats) -> float:
    """The sum of distances from the median."""
    return float(np.abs(values - np.median(values)).sum())


def dependence(values: Sequence[float] | Floats, places: Sequence[int]) -> float:
    """The probability that independent values follow each other as closely as these, apart from the
    changes at ``places``: von Neumann's ratio of ranks (R. Bartels, Journal of the American
    Statistical Association 77, 1982), one-sided. 1.0 for values that are all the same."""
    found = np.asarray(values, np.float64)
    bounds = [0, *places, len(found)]
    left = np.concatenate([found[a:b] - found[a:b].mean() for a, b in itertools.pairwise(bounds)])
    _, group, counts = np.unique(left.round(12), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[group]
    spread = float(((ranks - ranks.mean()) ** 2).sum())
    if spread == 0:
        return 1.0
    ratio = float((np.diff(ranks) ** 2).sum()) / spread
    number = len(found)
    deviation = math.sqrt(4 * (number - 2) * (5 * number**2 - 2 * number - 9)
                          / (5 * number * (number + 1) * (number - 1) ** 2))  # fmt: skip
    return NormalDist().cdf((ratio - 2) / deviation)
