# SPDX-License-Identifier: Apache-2.0
"""By how much one configuration differs from another: exact tests whose unit is the run.

Each run (or boot) gives one value, usually the logarithm of a quantile, so that a shift is a ratio.
Matched runs, one of each configuration in a block, give differences, and a test that is exact over
all changes of their signs. Below ``RANKS_FROM`` blocks it is that of the mean (Fisher 1935), whose
inversion is an interval between two means of subsets (Hartigan 1969): with so few blocks, ranks
have a size far below the level. From there on it is that of Wilcoxon's signed ranks (1945), which a
few extreme runs do not affect, with an interval between two Walsh averages (Hodges & Lehmann 1963).
Runs without a match give Wilcoxon's rank sum, exact over all divisions, with an interval between
two pairwise differences. Samples within a run depend on each other and are not evidence here: a
test over pooled samples calls equal configurations different.

Both assume that runs are exchangeable where the configurations are equal. Blocks and a random order
within each provide that, whatever the distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = [
    "RANKS_FROM",
    "RUNS_LIMIT",
    "Shift",
    "blocks_needed",
    "holm",
    "paired_shift",
    "runs_needed",
    "shift",
]

Floats = npt.NDArray[np.float64]

RUNS_LIMIT: Final = 200
"""Maximum number of differences, or of runs on both sides together."""

RANKS_FROM: Final = 10
"""Number of blocks from which on the test of matched runs uses ranks (bench/claims.py)."""


@dataclass(frozen=True)
class Shift:
    """A difference between two configurations, in the unit of the values.

    ``estimate``: the median of the means, averages or differences between which the interval is.
    ``low``, ``high``: the interval with the confidence asked for; infinite where the runs are too
    few to exclude anything. ``p``: two-sided probability of a result as extreme if the
    configurations were equal. ``least_p``: the smallest that this number of runs can give.
    ``runs``: the number of blocks, or of runs on both sides.
    """

    estimate: float
    low: float
    high: float
    p: float
    least_p: float
    runs: int


def paired_shift(differences: Sequence[float], confidence: float = 0.95) -> Shift:
    """The shift of matched runs from their differences, one for each block.

    The p-value is exact; among ranks, ties have mid-ranks, and differences of zero are ranked but
    have no sign. Raises ValueError for no or too many differences, or for one that is not finite.
    """
    values = _checked(differences, confidence)
    number = len(values)
    if number < RANKS_FROM:
        return _mean_shift(values, confidence)
    size = np.abs(values)
    doubled = _doubled_ranks(size)
    weights = doubled[size > 0]
    chances = _sums(weights)
    total = int(weights.sum())
    observed = int(weights[values[size > 0] > 0].sum())
    p = _two_sided(chances, observed, total)
    first, second = np.triu_indices(number)
    walsh = np.sort((values[first] + values[second]) / 2)
    # The number of Walsh averages above a shift is the sum of the ranks of the positive
    # differences from it; for the interval without ties.
    below = _largest_tail(_sums(2 * np.arange(1, number + 1))[::2], (1 - confidence) / 2)
    return _shift(walsh, below, p, 2.0 ** (1 - number), number)


def _mean_shift(values: Floats, confidence: float) -> Shift:
    """The shift of few differences by the mean: with the signs of a subset changed, the sum is at
    least the observed one where the sum of the subset is not positive."""
    number = len(values)
    sums, sizes = np.zeros(1), np.zeros(1)
    for value in values:
        sums, sizes = np.append(sums, sums + value), np.append(sizes, sizes + 1)
    nothing = 1e-12 * float(np.abs(values).sum())
    p = 2 * min(float((sums <= nothing).mean()), float((sums >= -nothing).mean()))
    below = math.floor((1 - confidence) / 2 * len(sums) * (1 + 1e-12))
    return _shift(np.sort(sums[1:] / sizes[1:]), below, min(1.0, p), 2.0 ** (1 - number), number)


def shift(first: Sequence[float], second: Sequence[float], confidence: float = 0.95) -> Shift:
    """By how much the second configuration lies above the first, from runs without a match.

    The p-value is exact, with ties as mid-ranks. Raises ValueError as ``paired_shift`` does.
    """
    one, other = _checked(first, confidence), _checked(second, confidence)
    number = len(one) + len(other)
    if number > RUNS_LIMIT:
        raise ValueError(f"at most {RUNS_LIMIT} runs are compared, not {number}")
    doubled = _doubled_ranks(np.concatenate([one, other]))
    observed = int(doubled[len(one) :].sum())
    chances = _sums_of(doubled, len(other))
    least = 2 / math.comb(number, len(one))
    # Symmetric only without ties: each tail counts for itself.
    upper = float(chances[observed:].sum())
    lower = float(chances[: observed + 1].sum())
    p = min(1.0, 2 * min(upper, lower))
    pairs = np.sort(np.subtract.outer(other, one).ravel())
    plain = _sums_of(2 * np.arange(1, number + 1), len(other))
    smallest = len(other) * (len(other) + 1)
    below = _largest_tail(plain[smallest::2], (1 - confidence) / 2)
    return _shift(pairs, below, p, least, number)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of a family, adjusted so that the chance of any false alarm stays at the level
    (Holm 1979), in the order given."""
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    adjusted = [0.0] * len(p_values)
    most = 0.0
    for place, at in enumerate(order):
        most = max(most, min(1.0, (len(p_values) - place) * p_values[at]))
        adjusted[at] = most
    return adjusted


def blocks_needed(quantities: int = 1, level: float = 0.05) -> int:
    """The smallest number of blocks that can ever decide at the level, for a family of quantities:
    n with 2**(1-n) <= level / quantities."""
    if quantities < 1 or not 0 < level < 1:
        raise ValueError("a family has a quantity at least, and a level lies between 0 and 1")
    return math.ceil(math.log2(2 * quantities / level) - 1e-9)


def runs_needed(found: Shift, distance: float) -> int | None:
    """The number of blocks (or runs) at which an interval as scattered as this one has a half-width
    of ``distance``, because it narrows with the root of their number. A guess from the data; None
    where they have no interval or no distance to resolve."""
    half = (found.high - found.low) / 2
    if not math.isfinite(half) or distance <= 0:
        return None
    return max(found.runs, math.ceil(found.runs * (half / distance) ** 2))


def _checked(values: Sequence[float], confidence: float) -> Floats:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, not {confidence}")
    found = np.asarray(values, dtype=np.float64)
    if not 0 < len(found) <= RUNS_LIMIT:
        raise ValueError(f"1 to {RUNS_LIMIT} runs are compared, not {len(found)}")
    if not np.isfinite(found).all():
        raise ValueError("the value of a run is not finite")
    return found


def _doubled_ranks(values: Floats) -> npt.NDArray[np.int64]:
    """Twice the mid-ranks, which are whole numbers."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: npt.NDArray[np.int64] = (2 * last - counts + 1)[group]
    return ranks


def _sums(weights: npt.NDArray[np.int64]) -> Floats:
    """The probability of each sum of a random subset of the weights, all subsets alike."""
    chances = np.zeros(int(weights.sum()) + 1)
    chances[0] = 1.0
    for weight in weights.tolist():
        moved = np.zeros_like(chances)
        moved[weight:] = chances[: len(chances) - weight]
        chances = (chances + moved) / 2
    return chances


def _sums_of(weights: npt.NDArray[np.int64], number: int) -> Floats:
    """The probability of each sum of ``number`` of the weights, drawn without replacement."""
    most = int(np.sort(weights)[len(weights) - number :].sum())
    chances = np.zeros((number + 1, most + 1))
    chances[0, 0] = 1.0
    for weight in weights.tolist():
        for taken in range(number, 0, -1):
            chances[taken, weight:] += chances[taken - 1, : most + 1 - weight]
    row: Floats = chances[number] / chances[number].sum()
    return row


def _two_sided(chances: Floats, observed: int, total: int) -> float:
    """The probability of a sum at least as far from the middle, of a symmetric distribution."""
    far = min(observed, total - observed)
    return min(1.0, 2 * float(chances[: far + 1].sum()))


def _largest_tail(chances: Floats, level: float) -> int:
    """How many of the lowest outcomes have a probability of at most ``level`` together."""
    return int(np.searchsorted(np.cumsum(chances), level * (1 + 1e-12), side="right"))


def _shift(candidates: Floats, below: int, p: float, least: float, number: int) -> Shift:
    known = below > 0
    return Shift(
        estimate=float(np.median(candidates)),
        low=float(candidates[below - 1]) if known else -math.inf,
        high=float(candidates[-below]) if known else math.inf,
        p=p,
        least_p=least,
        runs=number,
    )
