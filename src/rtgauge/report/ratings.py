# SPDX-License-Identifier: Apache-2.0
"""Ratings of a run from 0 to 10: those that a rule gives, from the results model alone, and those
that the evaluator gave in the plan for what no program can judge (docs/report.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rtgauge.report import numbers
from rtgauge.report.labels import carried_out, group_series, series_labels, step_name
from rtgauge.report.persistence import is_response
from rtgauge.report.remarks import growths

__all__ = ["RULE", "ratings"]

FULL: Final = 10
CALM: Final = 10
FLOOR_NS: Final = 1000
FAR_POINTS: Final = 5
BROKEN_POINTS: Final = 3
GROWTH: Final = 2
URGENT: Final = ("fifo", "rr", "deadline")

RULE: Final = (
    "From 10 are taken off: for verdicts that failed, their share of those that passed or failed,"
    " in tenths rounded up, at least 3; for steps that failed 3; for the worst largest sample, "
    "one for each half decade that it is beyond ten times the median of its series (which counts "
    "as 1 µs at least), at most 5; one for a median that grows with the number of waiters, "
    "threads and such to more than twice, two for more than ten times; for missed periods one, "
    "two beyond 1 in 1000, three beyond 1 in 100. Of a quantity that was measured with real-time "
    "priority and without, the latter is not counted, nor are calibrations. What was skipped, "
    "broke off or was disturbed on purpose is named; a chapter of which less than half is left has "
    "no rating."
)
"""As it is printed beside the ratings."""

Run = Mapping[str, Any]
Loss = tuple[int, str]


def ratings(run: Run) -> list[dict[str, Any]]:
    """The ratings of a run of the results model, those by rule in the order of its chapters."""
    chapters: dict[str, list[Mapping[str, Any]]] = {}
    for step in carried_out(run):
        if step["role"] == "measurement" and step["chapter"]:
            chapters.setdefault(step["chapter"], []).append(step)
    found = []
    for chapter, steps in chapters.items():
        own = [step for step in steps if not _disturbed(step)]
        losses = _losses(run, own)
        complete = sum(step["state"] == "complete" for step in own)
        if losses is None or 2 * complete < len(steps):
            continue
        words = [f"{numbers.MINUS}{lost} {why}" for lost, why in losses]
        evidence = "; ".join((words or ["nothing was taken off"]) + _uncounted(run, steps))
        found.append(
            {
                "subject": chapter,
                "rating": max(FULL - sum(lost for lost, _ in losses), 0),
                "rule": RULE,
                "evidence": evidence,
                "by": "rule",
            }
        )
    return found + _given(run["plan"])


def _disturbed(step: Mapping[str, Any]) -> bool:
    """Whether the figures of a step are none of the system left alone."""
    return bool(step["load"].get("disturb"))


def _losses(run: Run, steps: Sequence[Mapping[str, Any]]) -> list[Loss] | None:
    """What is taken off and why; None where nothing was measured and nothing judged."""
    numbers_ = {step["step"] for step in steps}
    series = [one for one in run["series"] if one["step"] in numbers_ and one["count"]]
    verdicts = [one for one in run["verdicts"] if one["step"] in numbers_]
    judged = [one for one in verdicts if one["result"] in ("pass", "fail")]
    if not series and not judged:
        return None
    failed = [one for one in judged if one["result"] == "fail"]
    losses: list[Loss] = []
    if failed:
        share = max(math.ceil(FULL * len(failed) / len(judged)), 3)
        rules = list(dict.fromkeys(one["rule"] for one in failed))
        names = numbers.join(rules[:2]) + (f" and {len(rules) - 2} more" if len(rules) > 2 else "")
        losses.append((share, f"for {len(failed)} of {len(judged)} verdicts failed ({names})"))
    broken = sum(step["state"] == "failed" for step in steps)
    if broken:
        losses.append((BROKEN_POINTS, f"for {broken} of {len(steps)} steps that failed"))
    for loss in (_far(run, steps), _growth(run, steps), _missed(series)):
        if loss is not None:
            losses.append(loss)
    return losses


def _uncounted(run: Run, steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the rating says nothing about: steps that did not complete, and skipped verdicts."""
    found = [
        f"not counted: {step_name(run, step)} ({step['state']})"
        for step in steps
        if step["state"] in ("failed", "interrupted", "skipped")
    ]
    found += [
        f"not counted: {step_name(run, step)} (disturbed on purpose)"
        for step in steps
        if _disturbed(step) and step["state"] == "complete"
    ]
    among = {one["step"] for one in steps if one["state"] != "skipped" and not _disturbed(one)}
    skipped = sum(v["step"] in among and v["result"] == "skipped" for v in run["verdicts"])
    if skipped:
        found.append(f"not counted: {skipped} verdict{'s' * (skipped > 1)} skipped")
    return found


def _quantities(
    run: Run, steps: Sequence[Mapping[str, Any]]
) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """The quantities of the steps that are times, each with its name and series."""
    found = []
    for step in steps:
        places = [p for p, one in enumerate(run["series"]) if one["step"] == step["step"]]
        for members in group_series(run["series"], places):
            series = [run["series"][place] for place in members]
            if series[0]["unit"] == "ns":
                found.append((f"{step_name(run, step)}, {series[0]['name']}", series))
    return found


def _far(run: Run, steps: Sequence[Mapping[str, Any]]) -> Loss | None:
    """How far the worst largest sample is from its median; series of ordinary priority, which
    others may keep from running, stand back behind those of the same quantity with a higher."""
    worst: tuple[float, str] | None = None
    for name, series in _quantities(run, steps):
        urgent = any(one["policy"] in URGENT for one in series)
        for one, label in zip(series, series_labels(series), strict=True):
            if urgent and one["policy"] not in URGENT:
                continue
            median = one["percentiles"].get("50")
            if median is None or one["max"] is None:
                continue
            ratio = one["max"] / max(median, FLOOR_NS)
            if worst is None or ratio > worst[0]:
                words = f"{name}, {label}" if len(series) > 1 else name
                largest = numbers.shown(one["max"], "ns").full
                base = numbers.shown(median, "ns").full
                worst = ratio, f"for a largest sample of {largest}, the median {base} ({words})"
    if worst is None or worst[0] <= CALM:
        return None
    return min(math.ceil(2 * math.log10(worst[0] / CALM) - 1e-9), FAR_POINTS), worst[1]


def _growth(run: Run, steps: Sequence[Mapping[str, Any]]) -> Loss | None:
    """Whether a quantity grows with a number to more than twice."""
    grown = [
        (growth.ratio, growth.label, name)
        for name, series in _quantities(run, steps)
        for growth in growths(series)
        if growth.grows and growth.ratio > GROWTH
    ]
    if not grown:
        return None
    ratio, label, name = max(grown)
    times = f"{ratio:.1f}" if ratio < 10 else numbers.count(ratio)
    return (2 if ratio > 10 else 1), f"for growing {times} times with {label} ({name})"


def _missed(series: Sequence[Mapping[str, Any]]) -> Loss | None:
    """Which share of the periods was missed."""
    missed = sum(one["missed"] for one in series if one["interval_ns"])
    if not missed:
        return None
    due = missed + sum(one["count"] for one in series if one["interval_ns"])
    points = 1 + (missed * 1000 > due) + (missed * 100 > due)
    answers = all(is_response(one["name"], one["unit"]) for one in series if one["missed"])
    what = "events without an answer" if answers else "periods missed"
    return points, f"for {numbers.count(missed)} of {numbers.count(due)} {what}"


def _given(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The evaluator's ratings, as the plan has them; what is none is left out."""
    given = plan.get("ratings")
    found = []
    for one in given if isinstance(given, list) else ():
        if not isinstance(one, Mapping):
            continue
        rating = one.get("rating")
        if isinstance(rating, bool) or not isinstance(rating, int | float) or not 0 <= rating <= 10:
            continue
        found.append(
            {
                "subject": str(one.get("subject") or ""),
                "rating": rating,
                "rule": "",
                "evidence": str(one.get("reason") or ""),
                "by": "evaluator",
            }
        )
    return found
