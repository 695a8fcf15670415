# SPDX-License-Identifier: Apache-2.0
"""Whether large values come in clusters: a check on the assumption behind the intervals.

The extremal index is the part of the exceedances that begins a cluster: 1 for independent
samples, 0.2 where they come in groups of five. Intervals and bounds that count samples as if they
were independent are too narrow by about that factor in the number of samples. It is estimated
from the times between exceedances (intervals estimator: Ferro & Segers 2003), which needs no
choice of what still belongs to a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .counts import Integers
from .special import gamma_inverse

__all__ = ["FEWEST", "Clustering", "clustering", "extremal_index"]

FEWEST = 20
"""Min number of large values for a judgement."""
_MANY = 100
_BELOW = 0.8
_BELOW_OF_FEW = 0.7


def extremal_index(positions: Integers) -> float | None:
    """The extremal index from the (rising) sample numbers of the exceedances of one threshold.

    Exceedances that all follow one another are one cluster. None for fewer than two.
    """
    gaps = np.diff(np.asarray(positions, dtype=np.int64)).astype(np.float64)
    if not len(gaps):
        return None
    if gaps.max() <= 2:
        return 1 / (len(gaps) + 1)
    index = 2 * (gaps - 1).sum() ** 2 / (len(gaps) * ((gaps - 1) * (gaps - 2)).sum())
    return float(min(index, 1.0))


@dataclass(frozen=True)
class Clustering:
    """The estimate with the sentence for the report."""

    exceedances: int
    threshold: int
    index: float
    clustered: bool

    @property
    def lower(self) -> float:
        """The lower limit (90 %) of the index where large values are clustered, the number of
        clusters taken for a Poisson number; else 1."""
        if not self.clustered:
            return 1.0
        return gamma_inverse(self.index * self.exceedances, 0.1) / self.exceedances

    @property
    def group(self) -> float:
        """The mean number of large values in a group."""
        return 1 / self.index


def clustering(positions: Integers, threshold: int) -> Clustering | None:
    """Judges the exceedances of a threshold; None for fewer than 20: a guess.

    It calls them clustered below an index of 0.8, or of 0.7 where there are fewer than 100:
    independent samples estimate lower than that in a few cases in a hundred, and pairs in nearly
    all.
    """
    if len(positions) < FEWEST:
        return None
    index = extremal_index(positions)
    if index is None:
        return None
    below = _BELOW if len(positions) >= _MANY else _BELOW_OF_FEW
    return Clustering(len(positions), threshold, index, index < below)
