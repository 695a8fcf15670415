# SPDX-License-Identifier: Apache-2.0
"""The incomplete gamma and beta functions, their inverses, and quantiles that follow from them.

Each function is its leading term times a series of positive terms (DLMF 8.11.4, 8.17.8), so that
nothing cancels. The leading terms are densities of Poisson and binomial distributions in the form
that stays accurate for large numbers (C. Loader, Fast and accurate computation of binomial
probabilities, 2000). The series has some multiple of sqrt(a) terms, so beyond 1e10 (``LARGE``),
which only numbers from hostile files reach, expansions about the normal distribution take over.

The tests hold all functions to 1e-12 of SciPy's, and beyond ``LARGE`` to 1e-9.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LARGE",
    "beta_inverse",
    "beta_part",
    "chi_square_quantile",
    "gamma_inverse",
    "gamma_part",
    "normal_quantile",
    "student_quantile",
]

_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_SMALL = 1e-17
"""Part of a sum that its rest may be when it ends."""
_STEPS = 200
_PIECE = 1 << 16
"""Maximum number of terms in memory."""
LARGE = 1e10


def _stirling_error(value: float) -> float:
    """log(gamma(value + 1)) less Stirling's formula for it."""
    if value <= 16:
        stirling = (value + 0.5) * math.log(value) - value + 0.5 * math.log(2 * math.pi)
        return math.lgamma(value + 1) - stirling
    square = value * value
    total = 0.0
    for factor in reversed(_STIRLING):
        total = total / square + factor
    return total / value


def _deviance(value: float, mean: float) -> float:
    """value log(value / mean) + mean - value, accurate where both are close."""
    apart = value - mean
    if abs(apart) >= 0.1 * (value + mean):
        return value * math.log(value / mean) - apart
    ratio = apart / (value + mean)
    total, term, odd = apart * ratio, 2 * value * ratio, 1
    while True:
        term *= ratio * ratio
        odd += 2
        if total + term / odd == total:
            return total
        total += term / odd


def _sum(
    ratio: Callable[[NDArray[np.float64]], NDArray[np.float64]], limit: float, terms: float
) -> float:
    """1 + r0 + r0 r1 + …, where the ratios fall, or rise, to a limit below 1."""
    size = min(math.ceil(terms), _PIECE)
    total = last = 1.0
    start = 0
    while True:
        ratios = ratio(np.arange(start, start + size, dtype=np.float64))
        products = last * np.cumprod(ratios)
        total += float(products.sum())
        last = float(products[-1])
        below = max(float(ratios[-1]), limit)
        if below < 1 and last * below <= _SMALL * total * (1 - below):
            return total
        start += size


def _poisson(shape: float, mean: float) -> float:
    """mean^shape exp(-mean) / gamma(shape + 1)."""
    exponent = -_stirling_error(shape) - _deviance(shape, mean)
    return math.exp(exponent) / math.sqrt(2 * math.pi * shape)


def gamma_part(shape: float, value: float) -> float:
    """The regularized lower incomplete gamma function, P(shape, value), for positive numbers.

    The value may be at most some standard deviations (sqrt(shape)) above the shape.
    """
    if shape > LARGE:  # Wilson & Hilferty 1931
        root = math.exp(math.log(value / shape) / 3)
        return NormalDist().cdf((root - 1 + 1 / (9 * shape)) * 3 * math.sqrt(shape))
    found = _sum(lambda n: value / (shape + 1 + n), 0.0, 8 * math.sqrt(shape + value) + 16)
    return min(_poisson(shape, value) * found, 1.0)


def _binomial(first: float, second: float, part: float, rest: float) -> float:
    """part^first rest^second gamma(n + 1) / gamma(first + 1) / gamma(second + 1), where
    n = first + second."""
    total = first + second
    exponent = (
        _stirling_error(total)
        - _stirling_error(first)
        - _stirling_error(second)
        - _deviance(first, total * part)
        - _deviance(second, total * rest)
    )
    return math.exp(exponent) * math.sqrt(total / (2 * math.pi * first * second))


def beta_part(first: float, second: float, value: float) -> float:
    """The regularized incomplete beta function, I_value(first, second), for positive numbers.

    For whole numbers: the chance that at least ``first`` of ``first + second - 1`` happen, each
    with the chance ``value``.
    """
    if value <= 0:
        return 0.0
    if value >= 1:
        return 1.0
    if min(first, second) > LARGE:
        mean, deviation = _about(first, second)
        return NormalDist().cdf((value - mean) / deviation)
    if value * (first + second) > first:
        return 1 - _beta_below(second, first, 1 - value, value)
    return _beta_below(first, second, value, 1 - value)


def _about(first: float, second: float) -> tuple[float, float]:
    """The mean and the standard deviation of a beta distribution."""
    total = first + second
    mean = first / total
    return mean, math.sqrt(mean * (second / total) / (total + 1))


def _beta_below(first: float, second: float, part: float, rest: float) -> float:
    """I_part(first, second) where part is at most the mean."""
    total = first + second
    size = 8 * math.sqrt(first * max(rest, 0.1)) + 16
    lead = _binomial(first, second, part, rest) * second / total
    if second == int(second):  # the tail of a binomial distribution (DLMF 8.17.5), which ends
        odds = part / rest
        found = _sum(lambda n: np.maximum(second - 1 - n, 0) / (first + 1 + n) * odds, 0.0, size)
        return lead / rest * found
    return lead * _sum(lambda n: (total + n) / (first + 1 + n) * part, part, size)


def _inverse(
    value_and_density: Callable[[float], tuple[float, float]],
    probability: float,
    start: float,
    high: float,
) -> float:
    """Where a distribution function on 0 to ``high`` has the probability: Newton's method, with
    bisection where that leaves the interval that is known to hold it."""
    if not 0 < probability < 1:
        raise ValueError(f"a probability lies between 0 and 1, not {probability}")
    low, at = 0.0, start
    for _ in range(_STEPS):
        value, density = value_and_density(at)
        if value < probability:
            low = at
        else:
            high = at
        to = at - (value - probability) / density if density > 0 else -1.0
        if not low <= to <= high:
            to = (low + high) / 2 if math.isfinite(high) else 2 * at
        if abs(to - at) <= 4e-16 * at:
            return to
        at = to
    return at


@functools.lru_cache  # many series have as many samples
def gamma_inverse(shape: float, probability: float) -> float:
    """The value at which ``gamma_part`` is the probability, for a shape of at least 1/2."""
    if shape == 1:
        return -math.log1p(-probability)
    if shape > LARGE:  # Cornish & Fisher 1938; the next term is smaller than 1e-20 of the value
        z = normal_quantile(probability)
        return (
            shape + z * math.sqrt(shape) + (z * z - 1) / 3 + z * (z * z - 7) / math.sqrt(shape) / 36
        )
    # Wilson & Hilferty 1931; for small probabilities the first term of the series
    cube = 1 - 1 / (9 * shape) + normal_quantile(probability) / (3 * math.sqrt(shape))
    small = math.exp((math.log(probability) + math.lgamma(shape + 1)) / shape)
    start = shape * cube**3 if cube > 0.3 else small

    def value_and_density(at: float) -> tuple[float, float]:
        return gamma_part(shape, at), _poisson(shape, at) * shape / at

    return _inverse(value_and_density, probability, start, math.inf)


@functools.lru_cache
def beta_inverse(first: float, second: float, probability: float) -> float:
    """The value at which ``beta_part`` is the probability, for numbers of at least 1/2."""
    total = first + second
    if min(first, second) > LARGE:
        mean, deviation = _about(first, second)
        return mean + normal_quantile(probability) * deviation
    if first > LARGE:  # the value is too close to 1 for its distance from it to be known
        return 1 - beta_inverse(second, first, 1 - probability)
    gamma = gamma_inverse(first, probability)
    start = gamma / (gamma + second) if first < second else first / total

    def value_and_density(at: float) -> tuple[float, float]:
        density = _binomial(first, second, at, 1 - at) * first * second / (total * at * (1 - at))
        return beta_part(first, second, at), density

    return _inverse(value_and_density, probability, start, 1.0)


def chi_square_quantile(freedom: int, probability: float) -> float:
    """The quantile of the chi-square distribution with ``freedom`` degrees of freedom."""
    return 2 * gamma_inverse(freedom / 2, probability)


def normal_quantile(probability: float) -> float:
    """The quantile of the standard normal distribution."""
    return NormalDist().inv_cdf(probability)


def student_quantile(freedom: int, probability: float) -> float:
    """The quantile of Student's distribution, for a probability above 1/2."""
    if freedom > 10_000:  # Abramowitz & Stegun 26.7.5; the next term is smaller than 1e-15
        z = normal_quantile(probability)
        terms = (
            (z**3 + z) / 4,
            (5 * z**5 + 16 * z**3 + 3 * z) / 96,
            (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        )
        return z + math.fsum(term / freedom**power for power, term in enumerate(terms, 1))
    inside = beta_inverse(freedom / 2, 0.5, 2 * (1 - probability))
    return math.sqrt(freedom * (1 - inside) / inside)
