# SPDX-License-Identifier: Apache-2.0
"""The time grid of a series: which grid point is due when.

A grid moves where an event was held back or held up (docs/formats/stream.md, `samples`). The
periods missed between two samples across a move are assumed evenly spaced.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Grid"]

Int64: TypeAlias = NDArray[np.int64]


class Grid:
    """Grid points by index and by time. Those with known due times are added in order."""

    def __init__(self, interval_ns: int) -> None:
        self.interval_ns = interval_ns
        self._last: tuple[int, int] | None = None
        self._pieces = np.array([[0, 0, interval_ns]], np.int64)
        """First grid point, its due time, and the distance of the following ones."""

    def add(self, index: Int64, due_ns: Int64) -> None:
        """Add grid points, at least one. Points before the last one added are ignored."""
        end = (int(index[-1]), int(due_ns[-1]))
        if self._last is None:
            self._pieces[0, :2] = self._last = (int(index[0]), int(due_ns[0]))
        length, time_ns = end[0] - self._last[0], end[1] - self._last[1]
        if length < 0:
            return
        if time_ns != length * self.interval_ns:
            self._move(
                np.concatenate((self._last[:1], index)), np.concatenate((self._last[1:], due_ns))
            )
        self._last = end

    def _move(self, index: Int64, due_ns: Int64) -> None:
        length, time_ns = np.diff(index), np.diff(due_ns)
        at = np.flatnonzero(time_ns != length * self.interval_ns)
        between = np.maximum(time_ns[at] // np.maximum(length[at], 1), 1)
        before = np.column_stack((index[at], due_ns[at], between))
        after = np.column_stack((index[at + 1], due_ns[at + 1], np.full_like(at, self.interval_ns)))
        found = np.concatenate((self._pieces, after, before[length[at] > 1]))
        self._pieces = found[np.argsort(found[:, 0], kind="stable")]

    def due_ns(self, index: Int64) -> Int64:
        """When grid points are due."""
        at = np.searchsorted(self._pieces[:, 0], index, side="right") - 1
        first, due_ns, step = self._pieces[np.maximum(at, 0)].T
        return np.asarray(due_ns + (index - first) * step)

    def points(self, times_ns: Int64) -> Int64:
        """The first grid point at or after each time."""
        begins = np.maximum.accumulate(self._pieces[:, 1])
        at = np.maximum(np.searchsorted(begins, times_ns, side="right") - 1, 0)
        first, due_ns, step = self._pieces[at].T
        limits = np.append(self._pieces[1:, 0], np.iinfo(np.int64).max)
        return np.asarray(np.minimum(first - (due_ns - times_ns) // step, limits[at]))
