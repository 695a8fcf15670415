# SPDX-License-Identifier: Apache-2.0
"""What a comparison proves: for each quantity a verdict that rests on runs, not on samples.

Each run gives the logarithm of one figure. Runs of a study are matched by their repeat; sets that
come from elsewhere are compared as they are (``rtgauge.stats.shift``). One quantity is primary and
is judged at 5 %; the others share another 5 % (Holm). Copies, which repeat every figure of an
earlier run as counted boots of one seed do, count once.
docs/reference/statistics.md, "Comparisons of configurations", shows the error rates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rtgauge import stats
from rtgauge import text as numbers

__all__ = ["CONTEXTS", "STATISTICS", "WITHIN", "decisions", "decisive", "rank"]

Run = Mapping[str, Any]
Document = dict[str, Any]

LEVEL: Final = 0.05
WITHIN: Final = 0.10
"""Ratios up to this far from 1 are called equivalent where the whole interval is so close."""

STATISTICS: Final = ("tail", "50", "max")
CONTEXTS: Final = ("user", "kernel", "irq")


@dataclass(frozen=True)
class _Evidence:
    """Values of a figure, one for each run that counts; matched ones are in the same order."""

    first: Sequence[float]
    second: Sequence[float]
    matched: bool
    dropped: bool = False
    """Whether a run has no figure, because of events without an answer. The others are then a
    choice of the better ones, and prove nothing."""

    def shift(self) -> stats.Shift:
        if not self.matched:
            return stats.shift(self.first, self.second)
        return stats.paired_shift([b - a for a, b in zip(self.first, self.second, strict=True)])

    def needed(self, family: int) -> int:
        """The number of blocks, or of runs of each set, that can decide at all."""
        if self.matched:
            return stats.blocks_needed(family, LEVEL)
        number = 1
        while 2 / math.comb(2 * number, number) > LEVEL / family:
            number += 1
        return number


def rank(quantity: Mapping[str, Any]) -> tuple[bool, bool, bool, int]:
    """The order of quantities: loaded before idle, on a time grid before others, times before
    others, threads before handlers."""
    context = quantity["context"]
    known = CONTEXTS.index(context) if context in CONTEXTS else len(CONTEXTS)
    grid = quantity["method"].get("interval", "none") != "none"
    return quantity["load"]["name"] == "idle", not grid, quantity["unit"] != "ns", known


def decisive(quantities: Sequence[Mapping[str, Any]]) -> int | None:
    """The place of the primary quantity, the first by ``rank``. None without quantities."""
    return min(range(len(quantities)), key=lambda at: rank(quantities[at]), default=None)


def decisions(
    runs: Sequence[Run],
    quantities: Sequence[Mapping[str, Any]],
    within: float = WITHIN,
) -> list[Document]:
    """The comparisons of each set with the first one, the primary quantity's first.

    Only times are judged, where less is better. ``within``: the margin of "equivalent".
    """
    by_id = {run["id"]: run for run in runs}
    prints = {run["id"]: _fingerprint(run) for run in runs}
    primary = decisive(quantities)
    found: list[tuple[Document, _Evidence]] = []
    for at, quantity in enumerate(quantities):
        first = quantity["rows"][0]
        if quantity["unit"] != "ns" or first["set"] != 0:
            continue
        main = "50" if quantity["tail"] is None else "tail"
        for row in quantity["rows"][1:]:
            for name in STATISTICS:
                if name == "tail" and quantity["tail"] is None:
                    continue
                evidence = _evidence(first, row, name, by_id, prints)
                document: Document = {
                    "quantity": at,
                    "set": row["set"],
                    "statistic": name,
                    "primary": at == primary and name == main,
                    "matched": evidence.matched,
                    "runs": [len(evidence.first), len(evidence.second)],
                }
                found.append((document, evidence))
    _judge([one for one in found if one[0]["primary"]], within)
    _judge([one for one in found if not one[0]["primary"]], within)
    return sorted((document for document, _ in found), key=lambda one: not one["primary"])


def _fingerprint(run: Run) -> tuple[Any, ...]:
    """All figures of a run. Those of two runs are equal only if one is a copy of the other."""
    return tuple(
        (one["count"], one["min"], one["max"], one["mean"], tuple(one["percentiles"].items()))
        for one in run["series"]
    )


def _evidence(
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    name: str,
    by_id: Mapping[str, Run],
    prints: Mapping[str, tuple[Any, ...]],
) -> _Evidence:
    sides = [
        {
            one["run"]: math.log(value)
            for one in row["runs"]
            if (value := one["figures"][name]) is not None
            and value > 0
            and not isinstance(value, numbers.AtLeast)
        }
        for row in (first, second)
    ]
    dropped = any(
        len(side) < len(row["runs"]) for side, row in zip(sides, (first, second), strict=True)
    )
    blocks = [_blocks(side, by_id) for side in sides]
    if all(blocks):
        seen = set()
        pairs = []
        for key in (key for key in blocks[0] if key in blocks[1]):
            pair = blocks[0][key], blocks[1][key]
            fingerprint = tuple(prints[one] for one in pair)
            if fingerprint not in seen:
                seen.add(fingerprint)
                pairs.append(pair)
        if pairs:
            return _Evidence(
                [sides[0][a] for a, _ in pairs],
                [sides[1][b] for _, b in pairs],
                matched=True,
                dropped=dropped,
            )
    values = []
    for side in sides:
        once = {prints[run]: value for run, value in reversed(side.items())}
        values.append(list(once.values()))
    return _Evidence(values[0], values[1], matched=False, dropped=dropped)


def _blocks(side: Mapping[str, float], by_id: Mapping[str, Run]) -> dict[tuple[str, int], str]:
    """The runs of a set by study and repeat; empty unless each is the only one of its repeat."""
    found: dict[tuple[str, int], str] = {}
    for name in side:
        run = by_id[name]
        key = (str(run["study"] or ""), int(run["repeat"]))
        if not key[0] or key in found:
            return {}
        found[key] = name
    return found


def _judge(family: Sequence[tuple[Document, _Evidence]], within: float) -> None:
    """Add ratio, interval, p-values and verdict to the documents of a family."""
    judged: list[tuple[Document, _Evidence, stats.Shift]] = []
    for document, evidence in family:
        few = not evidence.first or not evidence.second
        many = len(evidence.first) + len(evidence.second) > stats.RUNS_LIMIT
        if few or many:
            document.update(ratio=None, interval=None, p=None, p_adjusted=None, needed=None)
            document["verdict"] = "not enough runs" if few else "not decided"
        else:
            judged.append((document, evidence, evidence.shift()))
    adjusted = stats.holm([found.p for _, _, found in judged])
    margin = math.log1p(within)
    for (document, evidence, found), p in zip(judged, adjusted, strict=True):
        known = math.isfinite(found.low)
        document.update(
            ratio=math.exp(found.estimate),
            interval=[math.exp(found.low), math.exp(found.high)] if known else None,
            p=found.p,
            p_adjusted=p,
            needed=None,
        )
        close = known and -margin <= found.low <= found.high <= margin
        if evidence.dropped:
            document["verdict"] = "not decided"
        elif p <= LEVEL and not close and found.estimate != 0:
            document["verdict"] = "better" if found.estimate < 0 else "worse"
        elif close:
            document["verdict"] = "equivalent"
        elif found.least_p * len(judged) > LEVEL:
            document["verdict"] = "not enough runs"
            document["needed"] = evidence.needed(len(judged))
        else:
            document["verdict"] = "not decided"
            document["needed"] = stats.runs_needed(found, max(abs(found.estimate), margin))
