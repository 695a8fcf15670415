# SPDX-License-Identifier: Apache-2.0
"""What a run says about values it did not see: bounds that hold for every distribution.

The headline of a series is its observed maximum. After n independent samples the chance of a
larger one is at most 1 - (1-c)**(1/n) with confidence c, about 3/n at 95 % (the "rule of three":
Hanley & Lippman-Hand 1983; for k exceedances Clopper & Pearson 1934). Over time, k events in T
bound the rate of a Poisson process (Garwood 1936), about 3/T for none: a run of length T shows late
wake-ups of this task that are more frequent than once in T/3. A disturbance of the machine that
lasts L, less than the interval, is hit with probability L/interval, so it must occur (interval/L)
times more often to be seen.

All bounds are one-sided: with the given confidence the truth is not above them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .special import beta_inverse, gamma_inverse

__all__ = [
    "Bound",
    "bound_of_run",
    "duration_needed_s",
    "exceedance_bound",
    "rate_bound",
    "rate_lower_bound",
    "samples_needed",
    "shortest_period_s",
]

_HOUR_S = 3600.0


def _check(confidence: float, exceedances: int) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, not {confidence}")
    if exceedances < 0:
        raise ValueError("the number of exceedances cannot be negative")


def exceedance_bound(count: int, confidence: float = 0.95, exceedances: int = 0) -> float:
    """Upper bound on the probability that one sample exceeds a limit that k of n exceeded.

    With k = 0 the limit may be the observed maximum itself. 1.0 without samples.
    """
    _check(confidence, exceedances)
    if exceedances >= count:
        return 1.0
    if exceedances == 0:
        return -math.expm1(math.log1p(-confidence) / count)
    return beta_inverse(exceedances + 1, count - exceedances, confidence)


def _expected(confidence: float, exceedances: int) -> float:
    """The mean of the Poisson distribution that gives more than k with the given confidence."""
    return gamma_inverse(exceedances + 1, confidence)


def rate_bound(duration_s: float, confidence: float = 0.95, exceedances: int = 0) -> float:
    """Upper bound, per hour, on the rate of events of which k were seen; infinite for no time."""
    _check(confidence, exceedances)
    if duration_s <= 0:
        return math.inf
    return _expected(confidence, exceedances) / duration_s * _HOUR_S


def rate_lower_bound(duration_s: float, confidence: float = 0.95, exceedances: int = 0) -> float:
    """Lower bound, per hour, on that rate: 0 if none was seen or no time passed."""
    _check(confidence, exceedances)
    if duration_s <= 0 or exceedances == 0:
        return 0.0
    return gamma_inverse(exceedances, 1 - confidence) / duration_s * _HOUR_S


def duration_needed_s(
    rate_per_hour: float, confidence: float = 0.95, exceedances: int = 0
) -> float:
    """Length of the run after which k exceedances bound the rate at the one given.

    Infinite for a rate of 0: no run shows that something never happens.
    """
    _check(confidence, exceedances)
    if rate_per_hour <= 0:
        return math.inf
    return _expected(confidence, exceedances) / rate_per_hour * _HOUR_S


def samples_needed(probability: float, confidence: float = 0.95, exceedances: int = 0) -> int:
    """The smallest number of samples of which k exceedances bound the probability as given.

    ValueError unless the probability lies between 0 and 1.
    """
    if not 0 < probability < 1:
        raise ValueError(f"a probability lies between 0 and 1, not {probability}")
    high = exceedances + 1
    while exceedance_bound(high, confidence, exceedances) > probability:
        high *= 2
    low = exceedances + 1
    while low < high:
        middle = (low + high) // 2
        if exceedance_bound(middle, confidence, exceedances) <= probability:
            high = middle
        else:
            low = middle + 1
    return low


def shortest_period_s(duration_s: float, confidence: float = 0.95) -> float:
    """The run shows late wake-ups more frequent than once in this time: T/3 at 95 %."""
    _check(confidence, 0)
    return max(duration_s, 0.0) / _expected(confidence, 0)


@dataclass(frozen=True)
class Bound:
    """Claims about the observed maximum of a series (none of n samples exceeded it)."""

    count: int
    duration_s: float
    confidence: float
    probability: float
    """At most this chance that one further sample is larger."""
    rate_per_hour: float | None
    """Upper bound on larger samples an hour. None if no time passed, or without a time grid."""
    period_s: float | None
    """Late wake-ups rarer than once in this time may have been missed altogether; None where
    ``rate_per_hour`` is."""


def bound_of_run(
    count: int,
    duration_s: float,
    confidence: float = 0.95,
    *,
    exceedances: int = 0,
    timed: bool = True,
    effective: int | None = None,
    unseen_s: float = 0.0,
) -> Bound:
    """The bound that belongs to the observed maximum of a series.

    ``exceedances``: number of the ``count`` that are larger or unknown (events without an answer,
    lost samples).
    ``timed``: whether the samples cover all of the duration, as on a time grid; only then does the
    series have bounds over time. ``effective``: the equivalent number of independent samples; all
    if not given. ``unseen_s``: the part of the duration to which unknown samples belong.
    """
    timed = timed and duration_s > 0
    return Bound(
        count,
        duration_s,
        confidence,
        exceedance_bound(count if effective is None else effective, confidence, exceedances),
        rate_bound(duration_s, confidence, exceedances) if timed else None,
        shortest_period_s(duration_s - unseen_s, confidence) if timed else None,
    )
