# SPDX-License-Identifier: Apache-2.0
"""The effective number of samples of a series whose samples depend on each other.

Around a percentile: each sample is above it or not, and the share above it varies more between
batches of time than for independent samples. The design effect is the ratio of the two variances
(batch means: C. Alexopoulos, A. F. Seila, in Handbook of Simulation, 1998). The interval of the
percentile inverts the interval of the share (R. S. Woodruff, JASA 47, 1952). Its number of samples
is divided by the design effect, and by the square of Student's quantile over the normal one,
because the design effect is an estimate (E. L. Korn, B. I. Graubard, Survey Methodology 24, 1998).

For the largest value: clusters of large values are the independent events. Their number among the
exceedances of a threshold comes from the extremal index, and is taken at its lower limit.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .counts import Counts, Int64, rank_of
from .independence import Clustering
from .percentiles import percentile_names
from .special import chi_square_quantile, normal_quantile, student_quantile
from .timeline import Timeline

__all__ = ["effective_of_maximum", "effective_size", "effective_sizes"]

BATCHES: Final = 30
FEWEST: Final = 10
_FOUND: Final = 0.9
"""Quantile of the design effect of independent samples above which samples count as dependent."""
_APART: Final = 2.0
"""Number of standard errors up to which batches may correlate with their neighbours."""


def effective_size(above: Int64, count: Int64) -> int | None:
    """The number of independent samples that determine the share above a value equally well.

    ``above`` and ``count``: for each bin of time, the samples above the value and all samples.
    Returns at most the number of all samples, and that number if no dependence is found or there
    are fewer than 10 batches; at least 1, as the design effect is at most half the samples. None if
    neighbouring batches depend on each other: the independent stretches are then too few.
    """
    filled = np.flatnonzero(count)
    number, total = min(len(filled), BATCHES), int(count.sum())
    if number < FEWEST or not 0 < int(above.sum()) < total:
        return total
    starts = -(-np.arange(number) * len(filled) // number)
    batch, size = (np.add.reduceat(row[filled], starts).astype(float) for row in (above, count))
    part = batch.sum() / total
    beyond = batch - part * size
    spread = float((beyond**2).sum())
    effect = number / (number - 1) * spread / (total * part * (1 - part))
    if effect <= chi_square_quantile(number - 1, _FOUND) / (number - 1):
        return total
    if float((beyond[1:] * beyond[:-1]).sum()) > _APART * spread / np.sqrt(number):
        return None
    student = normal_quantile(0.975) / student_quantile(number - 1, 0.975)
    return int(total / effect * student**2)


def effective_sizes(
    counts: Counts, line: Timeline, unanswered: Int64 | None = None
) -> dict[str, int | None]:
    """The effective number of samples around each percentile of a series; None as above.

    ``unanswered``: for each bin of time, the events without an answer, which count as samples that
    are larger than all others.

    Samples beyond a far percentile lie in few batches, which show little of their dependence. So no
    percentile has a larger size than the one before it.
    """
    sizes: dict[str, int | None] = {}
    open_ = np.zeros(len(line.count), np.int64) if unanswered is None else unanswered
    most = total = counts.count + int(open_.sum())
    for name in percentile_names(total):
        rank = rank_of(name, total)
        rows: tuple[Int64, ...] = (np.zeros_like(open_),)
        if rank <= counts.count:
            rows = line.above(counts.value_at_rank(rank))
        found = [effective_size(above + open_, line.count + open_) for above in rows]
        known = [one for one in found if one is not None]
        most = min([most, *known])
        sizes[name] = most if len(known) == len(found) else None
    return sizes


def effective_of_maximum(count: int, found: Clustering | None) -> int:
    """The number of independent samples that determine the largest value as well as ``count`` do:
    ``count`` times the lower limit of the extremal index, if large values come in clusters."""
    return count if found is None else max(int(count * found.lower), min(count, 1))
