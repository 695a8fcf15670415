# SPDX-License-Identifier: Apache-2.0
"""By how much each factor of a designed experiment changes a value: least squares over its runs.

The model of a run's value is the mean of its block and half the effect of each factor, added where
the factor is on and subtracted where it is off. Runs that are missing make intervals wider. The
effect of a factor that the remaining runs do not determine is None.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from .special import beta_part, student_quantile

__all__ = ["Effect", "Interaction", "effects", "interactions"]

Floats = npt.NDArray[np.float64]

_NOTHING: Final = 1e-9
"""Part of a column's length, or of the values' scatter, that is rounding."""


@dataclass(frozen=True)
class Effect:
    """The change of the value when a factor is turned on, in the value's unit.

    ``low``, ``high``: the interval. ``p``: the two-sided probability of an estimate as far from 0
    without an effect. ``freedom``: the degrees of freedom of the scatter. ``error``: the standard
    error of the estimate.
    """

    estimate: float
    low: float
    high: float
    p: float
    freedom: int
    error: float

    def within(self, margin: float) -> float:
        """The p-value of the claim that the effect is within the margin: twice that of the
        one-sided test at the nearer limit (Schuirmann 1987). At most 5 % if the 95 % interval is
        within it."""
        left = margin - abs(self.estimate)
        if left <= 0:
            return 1.0
        scatter = self.freedom * self.error**2
        return beta_part(self.freedom / 2, 0.5, scatter / (scatter + left**2))


@dataclass(frozen=True)
class Interaction:
    """By how much the effect of one factor is larger with the other on than with it off, if no
    other pair of factors does that."""

    first: int
    second: int
    effect: Effect


def effects(
    values: Sequence[float],
    blocks: Sequence[int],
    rows: Sequence[Sequence[bool]],
    confidence: float = 0.95,
    *,
    whole: bool,
) -> list[Effect | None]:
    """The effect of each factor; None where the runs do not determine it.

    ``values``: one for each run. ``blocks``: the block of each. ``rows``: which factors were on in
    it. ``whole``: the blocks have all combinations of the factors, so that the interactions of two
    factors are part of the model. In a folded design the means of the blocks hold them.
    Raises ValueError for lengths that differ, or for values that are not finite.
    """
    level = _levels(values, blocks, rows)
    found: list[Effect | None] = [None] * level.shape[1]
    varied = [place for place, column in enumerate(level.T) if len(set(column)) > 1]
    level = level[:, varied]
    columns = np.column_stack([level, _products(level)]) if whole else level
    observed = _within(np.asarray(values, float)[:, None], blocks)[:, 0]
    left = len(values) - len(set(blocks))
    solved = _regression(observed, _within(columns, blocks), left, confidence)
    for place, effect in zip(varied, solved, strict=False):
        found[place] = effect
    return found


def interactions(
    values: Sequence[float],
    blocks: Sequence[int],
    rows: Sequence[Sequence[bool]],
    confidence: float = 0.95,
    *,
    whole: bool,
) -> list[Interaction]:
    """The interactions of two factors that the runs determine.

    Arguments as for ``effects``, of factors that were both on and off. In a folded design each is
    estimated as if it was the only one, from the means of complete blocks: these are fewer than the
    interactions, which share patterns.
    """
    level = _levels(values, blocks, rows)
    names = list(itertools.combinations(range(level.shape[1]), 2))
    products = _products(level)
    observed = np.asarray(values, float)
    found: list[Effect | None]
    if whole:
        columns = _within(np.column_stack([level, products]), blocks)
        left = len(values) - len(set(blocks))
        inside = _within(observed[:, None], blocks)[:, 0]
        found = _regression(inside, columns, left, confidence)[level.shape[1] :]
    else:
        groups = [np.flatnonzero(np.equal(blocks, block)) for block in dict.fromkeys(blocks)]
        groups = [group for group in groups if len(group) == 2]
        if not groups:
            return []
        means = np.array([observed[group].mean() for group in groups])
        signs = products[[group[0] for group in groups]]
        found = [
            _regression(
                means - means.mean(), column[:, None] - column.mean(), len(means) - 1, confidence
            )[0]
            for column in signs.T
        ]
    return [
        Interaction(*name, effect)
        for name, effect in zip(names, found, strict=True)
        if effect is not None
    ]


def _levels(
    values: Sequence[float], blocks: Sequence[int], rows: Sequence[Sequence[bool]]
) -> Floats:
    if not len(values) == len(blocks) == len(rows):
        raise ValueError("each run has a value, a block and a row")
    if not all(math.isfinite(value) for value in values):
        raise ValueError("values are finite")
    return np.where(np.asarray(rows, bool).reshape(len(rows), -1 if rows else 0), 0.5, -0.5)


def _products(level: Floats) -> Floats:
    """The interactions of two factors, as columns of quarters. Their coefficients are then the
    effect of one factor with the other on, minus its effect with the other off."""
    number = level.shape[1]
    found = [level[:, a] * level[:, b] for a, b in itertools.combinations(range(number), 2)]
    return np.column_stack(found) if found else np.empty((len(level), 0))


def _within(columns: Floats, blocks: Sequence[int]) -> Floats:
    """The columns without the means of their blocks."""
    found = columns.copy()
    for block in set(blocks):
        mine = np.equal(blocks, block)
        found[mine] -= found[mine].mean(axis=0)
    return found


def _regression(
    observed: Floats, columns: Floats, freedom: int, confidence: float
) -> list[Effect | None]:
    """The coefficient of each column. ``freedom``: that of the values before the columns."""
    number = columns.shape[1]
    rank = int(np.linalg.matrix_rank(columns)) if columns.size else 0
    freedom -= rank
    solved = np.linalg.lstsq(columns, observed, rcond=None)[0]
    rest = observed - columns @ solved
    if freedom < 1:
        return [None] * number
    variance = float(rest @ rest) / freedom
    quantile = student_quantile(freedom, (1 + confidence) / 2)
    found: list[Effect | None] = []
    for place in range(number):
        column = columns[:, place]
        others = np.delete(columns, place, axis=1)
        own = column - others @ np.linalg.lstsq(others, column, rcond=None)[0]
        length = float(own @ own)
        if length <= _NOTHING * max(1.0, float(column @ column)):
            found.append(None)
            continue
        estimate = float(own @ observed) / length
        error = math.sqrt(variance / length)
        found.append(
            Effect(
                estimate,
                estimate - quantile * error,
                estimate + quantile * error,
                _two_sided(estimate, error, freedom, float(np.abs(observed).max(initial=0.0))),
                freedom,
                error,
            )
        )
    return found


def _two_sided(estimate: float, error: float, freedom: int, size: float) -> float:
    """The two-sided p-value of Student's t."""
    if error <= _NOTHING * max(size, _NOTHING):  # values without any scatter
        return 1.0 if abs(estimate) <= _NOTHING * max(size, _NOTHING) else 0.0
    t = estimate / error
    return beta_part(freedom / 2, 0.5, freedom / (freedom + t * t))
