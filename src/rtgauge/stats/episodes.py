# SPDX-License-Identifier: Apache-2.0
"""Counts disturbances behind the exceedances of a budget: close exceedances are one episode.

On the path of a sample: sealed samples -> here (in the pass of ``report.gather``) -> verdict.

A task that is held up for 50 ms at 1 ms exceeds its budget about 50 times, because of one event.
An allowed rate counts events, so it is compared with episodes. Runs declustering: exceedances
fewer than ``NEAR`` intervals apart belong to one cluster (S. Coles, An Introduction to Statistical
Modeling of Extreme Values, 2001, section 5.3.2).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .counts import Int64, Integers

__all__ = ["NEAR", "EpisodesBuilder", "groups"]

NEAR: Final = 10
"""Exceedances closer than this number of intervals are one episode."""
_RANKS: Final = (*range(1, 17), 20, 25, 32, 40, 50, *(2**power for power in range(6, 13)))
"""The limits of ``groups``: the largest value, the second largest, …"""
_BURST: Final = 10
"""Independent episodes are closer than a tenth of their mean distance in one case of ten."""


class EpisodesBuilder:
    """Counts the episodes of a series whose parts arrive in any order.

    Positions are numbers of periods on the time grid. The builder keeps the positions of
    the first and last exceedance of each part and its number of episodes, so memory does not grow
    with the number of exceedances.
    """

    def __init__(self, near: int = NEAR) -> None:
        self._near = near
        self._parts: list[tuple[Int64, Int64, Int64]] = []

    def add(self, first: Integers, last: Integers) -> None:
        """Adds the exceedances of one part: runs of periods from ``first`` to ``last``, inclusive.

        No other part has an exceedance between two of them. ValueError if a run ends before it
        begins.
        """
        begin, end = _ordered(first, last)
        if len(begin):
            number = self._episodes(begin, end, np.ones(len(begin), np.int64))
            ends = np.array([begin[0]]), np.array([end.max()])
            self._parts.append((*ends, np.array([number])))

    def add_apart(self, first: Integers, last: Integers) -> None:
        """Adds runs between which other parts may have exceedances; each one is kept."""
        begin, end = _ordered(first, last)
        self._parts.append((begin, end, np.ones(len(begin), np.int64)))

    def count(self) -> int:
        """The number of episodes of all parts together."""
        if not self._parts:
            return 0
        begin, end, number = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        order = np.argsort(begin, kind="stable")
        return self._episodes(begin[order], end[order], number[order])

    def _episodes(self, begin: Int64, end: Int64, number: Int64) -> int:
        """The number of episodes of runs in rising order, each with ``number`` episodes."""
        joined = begin[1:] - np.maximum.accumulate(end)[:-1] < self._near
        return int(number.sum()) - int(np.count_nonzero(joined))


def groups(first: Integers, last: Integers, value: Integers, periods: int) -> list[tuple[int, int]]:
    """How many groups reach a limit, for falling limits: pairs (limit, number).

    Groups are episodes. If at least half of these are closer to the one before than a tenth of
    their mean distance, they come in bursts, and each burst is one group.

    Arguments: runs of periods that do not overlap, each with the largest of its values, and the
    number of all periods.
    """
    order = np.argsort(first, kind="stable")
    begin, end, size = first[order], last[order], value[order]
    falling, found = np.sort(size)[::-1], []
    limits = falling[[rank - 1 for rank in _RANKS if rank <= len(size)]].tolist()
    for limit in dict.fromkeys(reversed(limits)):
        large = size >= limit
        begin, end, size = begin[large], end[large], size[large]
        gaps = begin[1:] - end[:-1]
        episodes = 1 + int(np.count_nonzero(gaps >= NEAR))
        apart = max(NEAR, periods / (_BURST * episodes))
        bursts = 1 + int(np.count_nonzero(gaps >= apart))
        found.append((limit, bursts if 2 * bursts <= episodes else episodes))
    return found[::-1]


def _ordered(first: Integers, last: Integers) -> tuple[Int64, Int64]:
    begin, end = np.asarray(first, dtype=np.int64), np.asarray(last, dtype=np.int64)
    if len(begin) != len(end) or np.any(end < begin):
        raise ValueError("each run of exceedances ends where it begins, or later")
    if np.any(begin[1:] < begin[:-1]):
        order = np.argsort(begin, kind="stable")
        return begin[order], end[order]
    return begin, end
