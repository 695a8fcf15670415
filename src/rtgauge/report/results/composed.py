# SPDX-License-Identifier: Apache-2.0
"""The composed maximum: the sum of the maxima of all stages of a latency, which did not coincide.

Step 9 of the path of a sample: sealed samples of several contexts of one event -> here -> results
model. The handler, the kernel thread and the user task of one event end one after the other, and
the catalogue names the stages up to each end. What a later context took beyond the one before it is
a stage of its own. The sum of the worst stages is the latency if all of them coincide (D. B. de
Oliveira, D. Casini, R. S. de Oliveira, T. Cucinotta, Demystifying the Real-Time Linux Scheduling
Latency, ECRTS 2020). It is not a bound: each stage can be longer than any seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rtgauge.store import StoredSeries, StoredStep

__all__ = ["Stage", "composed"]

Int64 = NDArray[np.int64]
_Timed = tuple[Int64, Int64]


@dataclass(frozen=True)
class Stage:
    """A stage: the contexts at its ends (the first stage begins with the event), and its max in
    ns."""

    name: str
    max: int


def composed(
    step: StoredStep, described: Sequence[Mapping[str, Any]]
) -> dict[int, tuple[Stage, ...]]:
    """Series -> its stages, in order, for series with at least two stages.

    ``described``: the series of the measurement in the catalogue. Contexts of one event are series
    of one quantity, CPU and labels on one time grid, where the stages of one continue those of
    another. There are no stages where a context ends before the one that it continues.
    """
    alike: dict[tuple[Any, ...], list[StoredSeries]] = {}
    for series in step.series:
        info = series.info
        if info.companion is None and info.unit == "ns" and info.interval_ns > 0:
            key = (info.name, info.cpu, info.interval_ns, tuple(sorted(info.labels.items())))
            alike.setdefault(key, []).append(series)
    found = {}
    ways = {str(one.get("name")): one for one in described}
    for same in alike.values():
        ordered = _nested(same, ways.get(same[0].info.name) or {})
        for at in range(1, len(ordered)):
            if stages := _stages(ordered[: at + 1]):
                found[ordered[at].info.series] = stages
    return found


def _nested(same: Sequence[StoredSeries], described: Mapping[str, Any]) -> list[StoredSeries]:
    """The series, ordered so that the stages of each continue those of the one before; empty if
    they do not form such a chain."""
    other = described.get("stages_in") or {}
    ways = [
        (list(other.get(one.info.context) or described.get("stages") or ()), one) for one in same
    ]
    ways = sorted((pair for pair in ways if pair[0]), key=lambda pair: len(pair[0]))
    chain: list[tuple[list[str], StoredSeries]] = []
    for stages, one in ways:
        if not chain or (len(stages) > len(chain[-1][0]) and stages[: len(chain[-1][0])] ==
                         chain[-1][0]):  # fmt: skip
            chain.append((stages, one))
    return [one for _, one in chain] if len(chain) == len(same) else []


def _stages(chain: Sequence[StoredSeries]) -> tuple[Stage, ...]:
    """The stages of the last series of a chain; none if they do not add up to its samples."""
    first = max((int(part.max()) for part in _whole(chain[0])), default=None)
    if first is None:
        return ()
    names = [one.info.context for one in chain]
    stages = [Stage(names[0], first * chain[0].info.scale)]
    for before, after in itertools.pairwise(chain):
        low, high = _beyond(before, after)
        if high is None or low is None or low < 0:
            return ()
        stages.append(Stage(f"{before.info.context} to {after.info.context}", high))
    return tuple(stages)


def _whole(series: StoredSeries) -> Iterator[NDArray[Any]]:
    return (chunk.value for chunk in series.chunks() if len(chunk.value))


def _beyond(before: StoredSeries, after: StoredSeries) -> tuple[int | None, int | None]:
    """Min and max of the time (ns) that one context took beyond another in the same events, those
    with equal due times; None without a common event. Memory is that of two chunks."""
    low: int | None = None
    high: int | None = None
    parts = _timed(before), _timed(after)
    one, other = next(parts[0], None), next(parts[1], None)
    while one is not None and other is not None:
        _, at, to = np.intersect1d(one[0], other[0], assume_unique=True, return_indices=True)
        if len(at):
            beyond = other[1][to] - one[1][at]
            least, most = int(beyond.min()), int(beyond.max())
            low = least if low is None else min(low, least)
            high = most if high is None else max(high, most)
        stop = min(int(one[0][-1]), int(other[0][-1]))
        one, other = _left(one, stop, parts[0]), _left(other, stop, parts[1])
    return low, high


def _left(held: _Timed, stop: int, more: Iterator[_Timed]) -> _Timed | None:
    """The part of a chunk that is due after ``stop``; the next chunk if that part is empty."""
    at = int(np.searchsorted(held[0], stop, side="right"))
    return (held[0][at:], held[1][at:]) if at < len(held[0]) else next(more, None)


def _timed(series: StoredSeries) -> Iterator[_Timed]:
    """Due times and values in ns, chunk by chunk."""
    for chunk in series.chunks():
        if len(chunk.value):
            due = np.asarray(chunk.due_ns, np.int64)
            yield due, np.asarray(chunk.value, np.int64) * series.info.scale
