# SPDX-License-Identifier: Apache-2.0
"""Which common control cycles the measured latencies support, for runs without a budget.

docs/reference/report.md, "Cycles that the data support", defines the states and gives the reasons.
A maximum that may be an answer to another event exceeds no cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from rtgauge import text as numbers
from rtgauge.report.results.labels import above, highest, peak
from rtgauge.stats.verdict import DEFAULT_PROBABILITY, DEFAULT_RATE_PER_HOUR

__all__ = ["CYCLES_NS", "SHARE", "Cycle", "cycles", "shortest", "support_text", "too_late"]

CYCLES_NS: Final = tuple(us * 1000 for us in (50, 100, 250, 500, 1000, 2000, 5000, 10_000))
SHARE: Final = 5
"""The latency may take at most 1/SHARE of a cycle."""
MARGIN: Final = 2
"""Minimum ratio of the allowed latency to the observed maximum in a short run."""


@dataclass(frozen=True)
class Cycle:
    """A control cycle, whether the data support it, and why."""

    interval_ns: int
    state: Literal["supported", "exceeded", "not proven"]
    text: str


def cycles(series: Sequence[Mapping[str, Any]], lacking: str, printed: int) -> list[Cycle]:
    """The common cycles, each with its state. ``series``: those of the results model that have due
    times. ``lacking``: why no cycle can be supported, unless idle and load were both measured.
    ``printed``: a maximum (ns) without a series, 0 for none."""
    return [_cycle(interval, series, lacking, printed) for interval in CYCLES_NS]


def shortest(found: Sequence[Cycle]) -> Cycle | None:
    """The shortest supported cycle whose longer cycles are all supported. None if the longest cycle
    is not supported."""
    least = None
    for one in reversed(found):
        if one.state != "supported":
            break
        least = one
    return least


def support_text(found: Sequence[Cycle], here: str = "") -> str:
    """In words: the cycles that the data support, or why they support none. ``here``: where."""
    least = shortest(found)
    if least is None:
        return _not_supported(found, here)
    return f"the data support cycles of {numbers.time(least.interval_ns)} and longer{here}"


def too_late(found: Sequence[Cycle], here: str = "") -> str:
    """The cycles that are too short for the maximum, in words; empty if all are long enough.
    ``here``: where."""
    late = [one.interval_ns for one in found if one.state == "exceeded"]
    if not late:
        return ""
    longest, allowed = numbers.time(late[-1]), numbers.time(late[-1] // SHARE)
    text = f"too late{here} for cycles of {longest} and shorter"
    return f"{text} (latency above {allowed}, a fifth of the cycle)"


def _not_supported(found: Sequence[Cycle], here: str) -> str:
    """In words: why the longest cycle is not supported."""
    longest = found[-1]
    if longest.state == "exceeded":
        return too_late(found, here)
    text = f"no cycle up to {numbers.time(longest.interval_ns)} is proven{here} ({longest.text})"
    return "; ".join(filter(None, (text, too_late(found))))


def _attributed(one: Mapping[str, Any]) -> bool:
    """Whether the maximum of a series certainly belongs to its own event."""
    if not one.get("unattributed"):
        return True
    longest, top = one.get("unattributed_max"), peak(one)
    return longest is not None and top is not None and top > longest


def _cycle(
    interval_ns: int, series: Sequence[Mapping[str, Any]], lacking: str, printed: int
) -> Cycle:
    allowed = interval_ns // SHARE
    limit = numbers.microseconds(allowed)
    top = highest(peak(one) for one in series)
    if top is None:
        return Cycle(interval_ns, "not proven", "no sample")
    top = max(top, printed)
    maximum = numbers.beside(top, allowed)
    if printed > allowed or any(above(one, allowed) for one in series if _attributed(one)):
        return Cycle(interval_ns, "exceeded", f"max {maximum}, above {limit}")
    if flaw := _flaw(series):
        return Cycle(interval_ns, "not proven", flaw)
    if lacking:
        return Cycle(interval_ns, "not proven", lacking)
    bounds = [one["bound"] for one in series]
    if max(one["probability"] for one in bounds) > DEFAULT_PROBABILITY:
        return Cycle(interval_ns, "not proven", "too few samples")
    rates = [one["rate_per_hour"] for one in bounds]
    # The rate of late wake-ups holds for the interval measured: shorter cycles wake more often.
    rare = all(rate is not None and rate <= DEFAULT_RATE_PER_HOUR for rate in rates) and (
        interval_ns >= max(one["interval_ns"] for one in series)
    )
    if not rare and top * MARGIN > allowed:
        return Cycle(
            interval_ns,
            "not proven",
            f"max {maximum}, more than half of {limit}: a longer run may exceed it",
        )
    measured = min(one["interval_ns"] for one in series)
    text = f"max {maximum}, at most {limit} allowed"
    if interval_ns < measured:
        text += f" (measured every {numbers.time(measured)})"
    return Cycle(interval_ns, "supported", text)


def _flaw(series: Sequence[Mapping[str, Any]]) -> str:
    """Why the true maximum may be higher than that of the series; empty without a reason."""
    doubts = [str(one["doubt"]) for one in series if one.get("doubt")]
    if doubts:
        return doubts[0]
    if any(one["unanswered"] for one in series):
        return "some events had no answer"
    if any(one["lost"] for one in series):
        return "samples were lost"
    late = any(one["missed"] and one["corrected"] is None for one in series)
    return "periods were missed, and it is not known how late they were" if late else ""
