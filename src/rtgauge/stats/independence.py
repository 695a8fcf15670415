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

__all__ = ["Clustering", "clustering", "extremal_index"]

_FEWEST = 100


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
    def statement(self) -> str:
        """What it means for the intervals."""
        if not self.clustered:
            return "Large values come one by one, as the intervals assume."
        return (
            f"Large values come in groups (about {1 / max(self.index, 1e-9):.3g} at a time): "
            f"intervals and bounds, which assume independent samples, are too narrow."
        )


def clustering(positions: Integers, threshold: int) -> Clustering | None:
    """Judges the exceedances of a threshold; None for fewer than 100: a guess.

    It calls them clustered below an index of 0.8: independent samples estimate lower than that
    in about one case in a hundred with 100 exceedances, and hardly ever with more.
    """
    if len(positions) < _FEWEST:
        return None
    index = extremal_index(positions)
    if index is None:
        return None
    return Clustering(len(positions), threshold, index, index < 0.8)
