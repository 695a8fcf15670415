# SPDX-License-Identifier: Apache-2.0
"""The small histogram of each series of the results model.

Its bins are log-linear, so that those of several series can be added: a coarser bin is the sum of
finer ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from rtgauge.stats import Counts, bucket_high, bucket_low, bucket_of
from rtgauge.stats.counts import SUB_BITS

__all__ = ["Histogram", "added", "histogram_of"]

Histogram = Sequence[Sequence[int]]
"""Occupied bins in ascending order: min and max value of the bin, number of samples."""

BINS: Final = 48


def _bits(low: int, high: int) -> int:
    for bits in range(SUB_BITS, 0, -1):
        if int(bucket_of(high, bits)) - int(bucket_of(low, bits)) < BINS:
            return bits
    return 0


def histogram_of(counts: Counts) -> list[list[int]]:
    """The histogram of a table of values in few bins; empty without values."""
    if not len(counts.values):
        return []
    bits = _bits(int(counts.values[0]), int(counts.values[-1]))
    return _binned(bucket_of(counts.values, bits), counts.counts, bits)


def _binned(buckets: np.ndarray, counts: np.ndarray, bits: int) -> list[list[int]]:
    places, which = np.unique(buckets, return_inverse=True)
    sums = np.zeros(len(places), np.int64)
    np.add.at(sums, which, counts)
    columns = (bucket_low(places, bits), bucket_high(places, bits), sums)
    return [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def added(histograms: Sequence[Histogram]) -> list[list[int]]:
    """All samples of several histograms in one."""
    rows = np.array([row for one in histograms for row in one], np.int64).reshape(-1, 3)
    if not len(rows):
        return []
    bits = _bits(int(rows[:, 0].min()), int(rows[:, 1].max()))
    while bits and np.any(bucket_of(rows[:, 0], bits) != bucket_of(rows[:, 1], bits)):
        bits -= 1
    return _binned(bucket_of(rows[:, 0], bits), rows[:, 2], bits)
