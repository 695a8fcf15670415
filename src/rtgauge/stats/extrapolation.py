# SPDX-License-Identifier: Apache-2.0
"""A model of the largest values, and the level that it expects in ten times the samples.

Excesses of cluster maxima over a high threshold follow a generalised Pareto distribution for a wide
class of series (J. Pickands, Annals of Statistics 3, 1975). The fit is maximum likelihood, reduced
to one dimension (S. D. Grimshaw, Technometrics 35, 1993). Its intervals are those of the likelihood
ratio. Mixtures and rhythms defeat the model, so it is refused with every reason found.
docs/reference/statistics.md, "Extrapolation", has the simulated error rates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .special import chi_square_quantile, normal_quantile

__all__ = ["TIMES", "Extrapolation", "Fit", "Part", "extrapolation", "fit"]

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

TIMES: Final = 10.0
"""Samples beyond those seen that the model may speak of, as a multiple of them."""
CLUSTERS: Final = 100
HEAVY: Final = 0.5
"""Shapes from here on: the variance is infinite, and a few values decide."""
SHARE: Final = 0.02
MOST: Final = 1000
"""The share of the largest samples that the fit uses, and their maximum number."""
STEPS: Final = 5
"""A fit needs a scale of so many steps of the clock."""

_FEW: Final = 1.15
"""Standard error of the shape of 100 clusters over that of very many, by simulation."""
_LEVEL: Final = 0.01
"""Chance with which each test refuses a series that the model fits."""
_TAUS: Final = 32
_GRID: Final = 41

# Upper 1 % points of the statistics under the model, by simulation (bench/claims_bounds.py).
GAPS_LIMIT: Final = 1.19
FIT_LIMIT: Final = 1.6
HOLD_OUT_LIMIT: Final = 1.5
SPACING_LEVEL: Final = 0.001


@dataclass(frozen=True)
class Fit:
    """A generalised Pareto distribution: the chance of an excess above y is
    (1 + shape * y / scale)^(-1 / shape)."""

    shape: float
    scale: float
    log_likelihood: float

    def exponential(self, excess: Float64) -> Float64:
        """The excesses transformed to what is exponential with mean 1 if the model is true;
        infinite beyond its end."""
        if abs(self.shape) < 1e-9:
            return excess / self.scale
        inside = 1 + self.shape * excess / self.scale
        with np.errstate(divide="ignore"):
            return np.where(inside > 0, np.log(np.maximum(inside, 0)) / self.shape, math.inf)


def fit(excess: Float64) -> Fit:
    """The maximum-likelihood fit to positive excesses, for shapes above -1/2.

    With tau = shape / scale the likelihood is largest at shape = mean(log(1 + tau * excess)), so
    one dimension is searched (Grimshaw 1993). ValueError with fewer than two excesses.
    """
    if len(excess) < 2 or float(excess.min()) < 0 or float(excess.max()) <= 0:
        raise ValueError("a fit needs two excesses, none negative")
    number, mean, top = len(excess), float(excess.mean()), float(excess.max())
    unit = excess / mean
    highest = top / mean
    # tau from just inside of the end of the support to a shape of about 3, zero left out
    low = -(1 - 1e-6) / highest
    taus = np.concatenate((low * np.linspace(1, 1e-4, _TAUS) ** 2, np.geomspace(1e-5, 60, _TAUS)))
    for _ in range(5):
        shapes = np.log1p(np.outer(taus, unit)).mean(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            likelihood = -number * (np.log(shapes / taus) + shapes + 1)
        likelihood[(shapes <= -HEAVY) | ~np.isfinite(likelihood)] = -math.inf
        at = int(likelihood.argmax())
        near = taus[max(at - 1, 0)], taus[min(at + 1, len(taus) - 1)]
        best = float(taus[at]), float(shapes[at]), float(likelihood[at])
        taus = np.linspace(near[0], near[1], 13)
        taus = taus[np.abs(taus) > 1e-9]
    flat = -number * 1.0
    if best[2] <= flat:
        return Fit(0.0, mean, flat - number * math.log(mean))
    return Fit(best[1], best[1] / best[0] * mean, best[2] - number * math.log(mean))


@dataclass(frozen=True)
class Region:
    """The parameters that the excesses do not exclude at 95 %: shapes and scales on a grid."""

    shapes: Float64
    scales: Float64


def region(excess: Float64, found: Fit, confidence: float = 0.95) -> Region:
    """The parameters whose likelihood is within the limit of the likelihood ratio for one of them
    (S. Coles, An Introduction to Statistical Modeling of Extreme Values, 2001, section 2.6.6)."""
    number = len(excess)
    away = 3.5 * (1 + found.shape) / math.sqrt(number)
    far = 3.5 * math.sqrt(2 * (1 + found.shape) / number)
    shapes = found.shape + np.linspace(-away, away, _GRID)
    scales = found.scale * np.exp(np.linspace(-far, far, _GRID))
    # The sum of logarithms depends on tau alone: it is tabulated once.
    highest = float(excess.max())
    tau = shapes[:, None] / scales[None, :]
    inside = tau > -1 / highest * (1 - 1e-9)
    low, high = float(tau[inside].min()), float(tau.max())
    table = np.linspace(low, high, 120)
    sums = np.log1p(np.outer(table, excess)).sum(axis=1)
    total = np.interp(tau, table, sums)
    shape = np.where(np.abs(shapes) < 1e-6, 1e-6, shapes)[:, None]
    logs = np.where(
        np.abs(tau) < 1e-6 / highest,
        excess.sum() / scales[None, :],
        total * (1 / shape),
    )
    likelihood = -number * np.log(scales)[None, :] - (total + logs)
    likelihood[~inside | (shapes <= -HEAVY)[:, None]] = -math.inf
    limit = found.log_likelihood - chi_square_quantile(1, confidence) / 2
    at, to = np.nonzero(likelihood >= limit)
    return Region(shapes[at], scales[to])


def _level(shape: Float64 | float, scale: Float64 | float, many: float) -> Float64:
    """The excess that one of ``many`` exceeds on average."""
    shape = np.where(np.abs(shape) < 1e-9, 1e-9, shape)
    return np.asarray(scale) / shape * np.expm1(shape * math.log(many))


@dataclass(frozen=True)
class Part:
    """The largest samples of one series of one run: positions (numbers of samples or periods,
    rising) and values in its unit. ``count``: all samples. ``above``: every sample above this value
    is among them; None if all are."""

    positions: Int64
    values: Int64
    count: int
    above: int | None

    @property
    def span(self) -> int:
        """The number of periods, missed ones included."""
        return max(self.count, int(self.positions[-1]) + 1 if len(self.positions) else 0)


@dataclass(frozen=True)
class Extrapolation:
    """The model, or why it is refused. The figures are None where the refusal leaves none."""

    reasons: tuple[str, ...]
    samples: int
    exceedances: int = 0
    clusters: int = 0
    threshold: int | None = None
    shape: float | None = None
    shape_interval: tuple[float, float] | None = None
    scale: float | None = None
    shapes: tuple[tuple[int, int, float], ...] = ()
    """Threshold stability: threshold, clusters above it, shape."""
    times: float = TIMES
    level: float | None = None
    """The value that one cluster in ``times`` the samples exceeds on average."""
    level_interval: tuple[float, float] | None = None


def extrapolation(
    parts: Sequence[Part],
    *,
    times: float = TIMES,
    two_groups: bool = False,
    rhythm: bool = False,
    copies: int = 0,
) -> Extrapolation:
    """Models the largest values of a series of one or several runs, in their order.

    ``two_groups``, ``rhythm``: what other rules found in the samples. ``copies``: runs among them
    that repeat another one.
    """
    total, span = sum(part.count for part in parts), sum(part.span for part in parts)
    reasons = []
    if times > TIMES:
        reasons.append(f"{times:g} times the samples, where {TIMES:g} times is the limit")
    if copies:
        plural = "copies" if copies > 1 else "a copy"
        reasons.append(f"{copies} of the runs {'are' if copies > 1 else 'is'} {plural} of another")
    if two_groups:
        reasons.append("the samples fall into two groups")
    if rhythm:
        reasons.append("large samples recur in a rhythm")
    chosen = _chosen(parts)
    if chosen is None:
        highest = max((int(part.values.max()) for part in parts if len(part.values)), default=0)
        equal = sum(int((part.values == highest).sum()) for part in parts)
        few = f"fewer than {CLUSTERS} clusters of large samples"
        reasons.append(
            f"{few}: the largest {equal} are equal"
            if equal >= CLUSTERS
            else f"{few}: measure longer"
        )
        return Extrapolation(tuple(reasons), total, times=times)
    positions, values, threshold = chosen
    step = int(np.gcd.reduce(values - threshold))
    # A sample stands for all values of its step, so the threshold is half a step above it.
    excess = (values - threshold).astype(np.float64) - step / 2
    if _uneven(positions, span):
        reasons.append("the gaps between large samples are not geometric: they come in groups")
    if _drifts(positions, excess, span):
        reasons.append("the rate or the size of large samples drifts")
    tops = _cluster_maxima(positions, excess)
    if len(tops) < CLUSTERS:
        reasons.append(
            f"too few clusters of large samples for a fit ({len(tops)} of {CLUSTERS}): measure "
            "longer"
        )
        return Extrapolation(tuple(reasons), total, len(values), len(tops), threshold, times=times)
    return _fitted(tops, reasons, total, len(values), threshold, step, times)


def _fitted(
    tops: Float64,
    reasons: list[str],
    total: int,
    exceedances: int,
    threshold: int,
    step: int,
    times: float,
) -> Extrapolation:
    found = fit(tops)
    known = region(tops, found)
    interval = float(known.shapes.min()), float(known.shapes.max())
    if found.scale < STEPS * step:
        reasons.append("the steps of the clock are too coarse")
    if interval[1] >= HEAVY:
        reasons.append(f"the interval of the shape reaches {HEAVY:g}: a few values decide")
    stable = _stability(tops, threshold, found)
    if any(not one[3] for one in stable):
        reasons.append("the shape depends on the threshold")
    if _apart(found.exponential(tops)):
        reasons.append("the largest samples fall into two groups")
    if _anderson(found.exponential(tops)) > FIT_LIMIT:
        reasons.append("the model does not fit the largest samples")
    if _held_out(tops) > HOLD_OUT_LIMIT:
        reasons.append("the earlier large samples do not predict the later ones")
    many = times * len(tops)
    levels = _level(known.shapes, known.scales, many) + threshold + step / 2
    level = float(_level(found.shape, found.scale, many)) + threshold + step / 2
    if level < threshold + step / 2 + float(tops.max()):
        reasons.append("the level is below the largest sample seen")
    return Extrapolation(
        tuple(reasons),
        total,
        exceedances,
        len(tops),
        threshold,
        found.shape,
        interval,
        found.scale,
        tuple(one[:3] for one in stable),
        times,
        level,
        (float(levels.min()), float(levels.max())),
    )


def _chosen(parts: Sequence[Part]) -> tuple[Int64, Int64, int] | None:
    """Positions and values of the samples above the threshold, and that: a fiftieth of all, at
    most 1000. The positions of one part follow those of the part before it."""
    total = sum(part.count for part in parts)
    number = min(int(total * SHARE), MOST)
    starts = np.cumsum([0, *(part.span for part in parts)])
    values = np.concatenate([part.values for part in parts] or [np.zeros(0, np.int64)])
    positions = np.concatenate(
        [part.positions + start for part, start in zip(parts, starts, strict=False)]
        or [np.zeros(0, np.int64)]
    )
    complete = [part.above for part in parts if part.above is not None]
    number = min(number, len(values) - 1)
    if number < CLUSTERS:
        return None
    threshold = int(np.partition(values, -number - 1)[-number - 1])
    threshold = max([threshold, *complete])
    above = values > threshold
    if int(above.sum()) < CLUSTERS:
        return None
    order = np.argsort(positions[above], kind="stable")
    return positions[above][order], values[above][order], threshold


def _uneven(positions: Int64, span: int) -> bool:
    """Whether the gaps between exceedances are not geometric: the Kolmogorov distance."""
    gaps = np.sort(np.diff(positions))
    number = len(gaps)
    chance = (number + 1) / max(span, number + 2)
    after = -np.expm1(gaps * math.log1p(-chance))
    before = -np.expm1((gaps - 1) * math.log1p(-chance))
    ranks = np.arange(1, number + 1)
    last = np.append(gaps[1:] != gaps[:-1], True)
    first = np.append(True, gaps[1:] != gaps[:-1])
    high = np.abs(ranks[last] / number - after[last]).max()
    low = np.abs((ranks[first] - 1) / number - before[first]).max()
    return bool(max(high, low) * math.sqrt(number) > GAPS_LIMIT)


def _drifts(positions: Int64, excess: Float64, span: int) -> bool:
    """Whether exceedances become more frequent or larger over time, or differ between runs."""
    number = len(positions)
    limit = normal_quantile(1 - _LEVEL / 6)
    place = (positions + 0.5) / span
    rate = (float(place.mean()) - 0.5) * math.sqrt(12 * number)
    ranks = np.empty(number)
    ranks[np.argsort(excess, kind="stable")] = np.arange(number)
    size = float(np.corrcoef(place, ranks)[0, 1]) * math.sqrt(number - 1)
    pieces = np.bincount(np.minimum((place * 10).astype(np.int64), 9), minlength=10)
    spread = float(((pieces - number / 10) ** 2).sum()) / (number / 10)
    return (
        abs(rate) > limit or abs(size) > limit
        or spread > chi_square_quantile(9, 1 - _LEVEL / 3)
    )  # fmt: skip


def _cluster_maxima(positions: Int64, excess: Float64) -> Float64:
    """The largest excess of each cluster; exceedances next to each other are one."""
    starts = np.flatnonzero(np.diff(positions, prepend=positions[0] - 2) > 1)
    return np.asarray(np.maximum.reduceat(excess, starts))


def _stability(tops: Float64, threshold: int, found: Fit) -> list[tuple[int, int, float, bool]]:
    """The shape above higher thresholds, which under the model is the same: each with whether it is
    as close as chance allows."""
    ordered = np.sort(tops)
    limit = normal_quantile(1 - _LEVEL / 4)
    shapes = [(threshold, len(tops), found.shape, True)]
    for part in (2, 4):
        number = len(tops) // part
        if number < CLUSTERS // 2:
            break
        above = float(ordered[-number - 1])
        some = ordered[-number:] - above
        if float(some.max()) <= 0:
            break
        higher = fit(np.maximum(some, 0.0))
        # The fits share samples, so the variance of their difference is that of the variances.
        error = _FEW * (1 + found.shape) * math.sqrt(1 / number - 1 / len(tops))
        close = abs(higher.shape - found.shape) <= limit * error
        shapes.append((threshold + math.ceil(above), number, higher.shape, close))
    return shapes


def _apart(exponential: Float64) -> bool:
    """Whether a gap splits the largest values: one spacing of the ordered values, which under the
    model are exponential, is too wide (A. Renyi, 1953)."""
    ordered = np.sort(exponential)
    number = len(ordered)
    if not np.isfinite(ordered[-1]):
        return True
    spacings = np.diff(ordered, prepend=0.0) * np.arange(number, 0, -1)
    return bool(spacings.max() > -math.log(SPACING_LEVEL / number))


def _anderson(exponential: Float64) -> float:
    """The distance of Anderson and Darling from the exponential distribution."""
    ordered = np.sort(np.maximum(exponential, 1e-12))
    number = len(ordered)
    if not np.isfinite(ordered[-1]):
        return math.inf
    odd = 2 * np.arange(1, number + 1) - 1
    below = np.log(-np.expm1(-ordered))
    return float(-number - (odd * (below - ordered[::-1])).sum() / number)


def _held_out(tops: Float64) -> float:
    """The distance of Cramer and von Mises between the later half of the clusters and the fit to
    the earlier half."""
    half = len(tops) // 2
    later = np.sort(-np.expm1(-fit(tops[:half]).exponential(tops[half:])))
    number = len(later)
    ranks = (np.arange(number) + 0.5) / number
    return float(1 / (12 * number) + ((later - ranks) ** 2).sum())
