# SPDX-License-Identifier: Apache-2.0
"""Percentiles as far as the samples carry them, and their exact confidence intervals.

The intervals are pairs of order statistics whose ranks come from the binomial distribution
(Thompson 1936, Hahn & Meeker, Statistical Intervals, 5.2, David & Nagaraja, Order Statistics,
7.1). They hold for every distribution, are conservative for discrete ones (Scheffe & Tukey 1945),
and assume independent samples.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping

from .counts import Counts, Percent, fraction_of, rank_of
from .special import beta_part, normal_quantile

__all__ = [
    "TAIL_SAMPLES",
    "interval_ranks",
    "percentile_interval",
    "percentile_intervals",
    "percentile_names",
    "percentile_table",
]

TAIL_SAMPLES = 10
"""A percentile is given only if at least this many samples are expected above it: n(1-p)."""
_ROUNDING = 1e-13
"""A chance that is exactly the one allowed may come out larger by this part."""


def percentile_names(count: int) -> tuple[str, ...]:
    """50, 90, 99, 99.9, ... to where n(1-p) >= 10; none below 20 samples."""
    names = []
    if count >= 2 * TAIL_SAMPLES:
        names.append("50")
    nines = 1
    while count >= TAIL_SAMPLES * 10**nines:
        digits = "9" * nines
        names.append("90" if nines == 1 else digits[:2] + ("." + digits[2:] if nines > 2 else ""))
        nines += 1
    return tuple(names)


def percentile_table(counts: Counts, beyond: int = 0) -> dict[str, int]:
    """The percentiles of ``percentile_names``, by nearest rank, in the unit of the samples.

    ``beyond``: the number of further samples that count as larger than all of these. A percentile
    that lies among them is left out.
    """
    total = counts.count + beyond
    ranks = {name: rank_of(name, total) for name in percentile_names(total)}
    return {
        name: counts.value_at_rank(rank) for name, rank in ranks.items() if rank <= counts.count
    }


@functools.lru_cache  # many series have as many samples
def _smallest(above: float, count: int, probability: float) -> int:
    """The smallest k for which P(Binomial(count, probability) > k) <= above."""

    def enough(most: int) -> bool:
        return most >= count or beta_part(most + 1, count - most, probability) <= allowed

    allowed = above * (1 + _ROUNDING)

    # about there by the normal distribution; farther out until it is between low and high
    spread = math.sqrt(count * probability * (1 - probability))
    middle = round(count * probability - normal_quantile(above) * spread)
    low = high = min(max(middle, 0), count)
    step = 1
    while low > 0 and enough(low - 1):
        low, step = max(low - step, 0), 2 * step
    while not enough(high):
        high, step = min(high + step, count), 2 * step
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return low


def interval_ranks(
    count: int, percent: Percent, confidence: float = 0.95
) -> tuple[int | None, int | None]:
    """Ranks (from 1) of the two samples that enclose the percentile with at least the confidence.

    Equal tails: each side is missed with at most (1 - confidence)/2. None on a side where even
    the smallest or largest sample is not far enough out: there the samples give no limit.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, not {confidence}")
    part = fraction_of(percent)
    if part in (0, 1):
        return None, None
    tail = (1 - confidence) / 2
    # The number of samples above the percentile is Binomial(n, 1-p) (small numbers, no rounding
    # of p to 1), that of samples below it Binomial(n, p).
    most_above = _smallest(tail, count, float(1 - part))
    most_below = _smallest(tail, count, float(part))
    lower, upper = count - most_above, most_below + 1
    return (lower if lower >= 1 else None), (upper if upper <= count else None)


def percentile_interval(
    counts: Counts,
    percent: Percent,
    confidence: float = 0.95,
    effective: int | None = None,
) -> tuple[int | None, int | None]:
    """The percentile's interval in values; None on a side that the samples do not limit.

    From a histogram it is widened by the buckets at its ends. ``effective``: the number of
    independent samples that the series is worth there; all if not given.
    """
    size = counts.count if effective is None else effective
    lower, upper = interval_ranks(size, percent, confidence)
    if size < counts.count:  # the ranks of so many samples, among all
        lower = None if lower is None else lower * counts.count // size
        upper = None if upper is None else -(-upper * counts.count // size)
    return (
        None if lower is None else counts.value_at_rank(lower, low=True),
        None if upper is None else counts.value_at_rank(upper),
    )


def percentile_intervals(
    counts: Counts,
    confidence: float = 0.95,
    names: Iterable[Percent] | None = None,
    effective: Mapping[str, int | None] | None = None,
) -> dict[str, tuple[int | None, int | None]]:
    """The interval of each percentile of ``percentile_table`` (or of those named).

    ``effective``: the effective number of samples of each; None refuses its interval.
    """
    chosen = percentile_names(counts.count) if names is None else names
    found: dict[str, tuple[int | None, int | None]] = {}
    for name in map(str, chosen):
        size = counts.count if effective is None else effective.get(name, counts.count)
        limits = (None, None) if size is None else None
        found[name] = limits or percentile_interval(counts, name, confidence, size)
    return found
