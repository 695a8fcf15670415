# SPDX-License-Identifier: Apache-2.0
"""The strengths and concerns of a run, a short sentence each, from the results model alone."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.results.labels import (
    KNOWN,
    Level,
    capital,
    carried_out,
    group_series,
    is_response,
    judged,
    late_answers,
    not_offered,
    ordinary,
    representative,
    series_labels,
    step_place,
    tests_ended,
    waits_for_answers,
)
from rtgauge.units import format_cpus

__all__ = ["Point", "lacking", "negative_points", "on_a_grid", "positive_points", "prepared"]

Run = Mapping[str, Any]

_REFUSED: Final = 4
"""Number of settings, or groups of them, that are named as not made."""

_SEVERITY: Final = ("fail", "warn", "note")
UNDISTURBED: Final = "these are not the figures of the undisturbed system"
UNTRACED: Final = "measure without it for the figures of the system"


@dataclass(frozen=True)
class Point:
    """A sentence with its weight: ``pass``, ``note``, ``warn`` or ``fail``."""

    kind: str
    text: str
    note: str = ""


def _sentence(text: str) -> str:
    text = text.strip()
    if not text:
        return ""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".") + " "


def positive_points(run: Run) -> list[Point]:
    """Strengths: what was shown to hold."""
    points = _kept_budgets(run)
    passed = sum(test["result"] == "pass" for test in run["tests"])
    if passed and passed == len(run["tests"]):
        every = "All " if passed > 1 else ""
        points.append(Point("pass", f"{every}{numbers.plural(passed, 'test')} passed."))
    elif passed:
        points.append(Point("pass", f"{tests_ended(run['tests'])}."))
    for step in carried_out(run):
        points += [
            Point("pass", f"{step_place(run, step)}: {_short(observation['text'])}")
            for observation in step["observations"]
            if observation["rule"] == "steady"
        ]
    grid = [
        one
        for step in run["steps"]
        for one in on_a_grid([one for one in run["series"] if one["step"] == step["step"]])
    ]
    due = sum(one["count"] for one in grid)
    # a lost record may have missed periods, and a lost answer may be ambiguous
    if due and not any(one["missed"] or one["lost"] for one in grid):
        if not all(waits_for_answers(one["name"], one["unit"]) for one in grid if one["count"]):
            points.append(Point("pass", f"None of {numbers.count(due)} periods was missed."))
        elif not late_answers(run, {one["step"] for one in grid}):
            points.append(Point("pass", _answered(due)))
    watched = [step["step"] for step in run["steps"] if step["role"] == "background"]
    series = [one for one in run["series"] if one["step"] not in watched and one["count"]]
    streams = [step["stream"] for step in run["steps"] if step["stream"] is not None]
    if (
        series
        and streams
        and not any(one["lost"] for one in run["series"])
        and all(s["complete"] and not s["lost_records"] and not s["dropped_bytes"] for s in streams)
    ):
        kept = "counts, some in histograms only"
        if all(one["source"] == "samples" for one in series):
            kept = "was kept"
        elif all(one["source"] == "histogram" and one["first"] is None for one in series):
            kept = "counts, in histograms only"
        points.append(Point("pass", f"Every sample {kept}."))
    points += _of_the_evaluator(run, "for")
    preparation = prepared(run)
    if preparation is not None and preparation.kind == "pass":
        points.append(preparation)
    if checks := sum(finding["level"] == "ok" for finding in run["findings"]):
        points.append(Point("pass", f"{numbers.plural(checks, 'configuration check')} passed."))
    return points


def _answered(events: int) -> str:
    if events == 1:
        return "The only event was answered."
    return f"All {numbers.count(events)} events were answered."


def on_a_grid(members: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The series of a step with a sample for each period: for each event, only that of the answer,
    unless more periods of others were missed. An event without an answer may lack both."""
    grid = [one for one in members if one["interval_ns"] > 0 or one["missed"]]
    answers = [one for one in grid if waits_for_answers(one["name"], one["unit"])]
    every, unanswered = (sum(one["missed"] for one in some) for some in (grid, answers))
    return answers if answers and every <= 2 * unanswered else grid


def lacking(members: Sequence[Mapping[str, Any]]) -> str:
    """The missed periods and lost samples of series: ``3 missed, 5 lost``. Empty without any."""
    found = {
        "missed": sum(one["missed"] for one in on_a_grid(members)),
        "lost": sum(one["lost"] for one in members),
    }
    return ", ".join(f"{numbers.count(many)} {word}" for word, many in found.items() if many)


def _kept_budgets(run: Run) -> list[Point]:
    """The budgets that all series kept."""
    budgets: dict[int, list[str]] = {}
    for verdict in run["verdicts"]:
        budgets.setdefault(verdict["budget_ns"], []).append(verdict["result"])
    return [
        Point("pass", f"The budget of {numbers.microseconds(budget)} was kept by "
              f"{numbers.plural(len(results), 'series', 'series')}.")
        for budget, results in budgets.items()
        if set(results) == {"pass"}
    ]  # fmt: skip


def _short(text: str) -> str:
    """An observation without its figures."""
    first = text.partition(": the median is")[0]
    return first if first == text else f"{first}."


def _of_the_evaluator(run: Run, favour: str) -> list[Point]:
    """The points of the evaluator for or against the system."""
    kind = "pass" if favour == "for" else "warn"
    return [
        Point(kind, one["text"], "stated by the evaluator")
        for one in run["points"]
        if one["favour"] == favour
    ]


def negative_points(run: Run) -> list[Point]:
    """Concerns: what failed, was lost or limits the claims, the most severe first."""
    points = _broken_points(run)
    points += _verdict_points(run)
    for step in carried_out(run):
        points += _step_points(run, step)
    preparation = prepared(run)
    if preparation is not None and preparation.kind != "pass":
        points.append(preparation)
    found = [f for f in run["findings"] if Level.of(f["level"]) >= Level.WARNING]
    for f in sorted(found, key=lambda f: -Level.of(f["level"])):
        kind = "fail" if f["level"] == "error" else "warn"
        points.append(Point(kind, f"{f['check']}: {f['found']}"))
    points += _of_the_evaluator(run, "against")
    return sorted(points, key=lambda point: _SEVERITY.index(point.kind))


def _step_points(run: Run, step: Mapping[str, Any]) -> list[Point]:
    """What limits the figures of one step."""
    points: list[Point] = []
    where = step_place(run, step)
    if words := ordinary(run, step):
        points.append(Point("fail", f"{where} was {words}."))
    if step["state"] == "complete" and step["reason"]:
        kind = "note" if step["first_try"] is None else "warn"
        points.append(Point(kind, f"{where}: {_sentence(step['reason']).rstrip()}"))
    if disturb := step["load"].get("disturb"):
        text = f"{where}: an injection ({disturb}) disturbed this step"
        points.append(Point("warn", f"{text}. {capital(UNDISTURBED)}."))
    if (added := step["load"].get("explain_ns")) is not None:
        text = f"{where}: the trace of --explain delayed a wake-up by {numbers.time(added)}"
        shows = "'rtgauge explain' shows where the time of the largest samples went"
        points.append(Point("warn", f"{text}. {shows}. {capital(UNTRACED)}."))
    members = [one for one in run["series"] if one["step"] == step["step"]]
    grid = on_a_grid(members)
    missed, lost = sum(one["missed"] for one in grid), sum(one["lost"] for one in members)
    stream = step["stream"]
    if missed:
        due = missed + sum(one["count"] for one in grid)
        answers = all(waits_for_answers(one["name"], one["unit"]) for one in grid)
        text = (
            f"{numbers.count(missed)} of {numbers.plural(due, 'event')} without an answer"
            if answers
            else f"{numbers.count(missed)} of {numbers.plural(due, 'period')} missed"
        )
        points.append(Point("warn", f"{where}: {text}."))
    if lost:
        responses = all(is_response(o["name"], o["unit"]) for o in members if o["lost"])
        text = (
            f"{numbers.plural(lost, 'event')} without a sample, because the answers are "
            "ambiguous or were lost"
            if responses
            else f"{numbers.plural(lost, 'sample')} lost"
        )
        points.append(Point("warn", f"{where}: {text}."))
    changed = [one["text"] for one in step["events"] if one["event"] == "setting"]
    if changed:
        points.append(
            Point(
                "warn",
                f"{where}: {numbers.plural(len(changed), 'setting')} changed during the "
                "measurement.",
                changed[0],
            )
        )
    if stream is not None:
        parts, ended = [], step["state"] != "running"
        if stream["lost_records"]:
            parts.append(numbers.plural(stream["lost_records"], "record lost", "records lost"))
        if ended and stream["dropped_bytes"]:
            parts.append(numbers.plural(stream["dropped_bytes"], "byte dropped", "bytes dropped"))
        if ended and not stream["complete"]:
            parts.append("the end lost")
        if parts:
            text = f"{where}: the stream is damaged: {numbers.join(parts)}."
            points.append(Point("warn", text, stream["reason"]))
    points += [
        Point("note", f"{where}: {_short(observation['text'])}")
        for observation in step["observations"]
        if observation["rule"] == "growth"
    ]
    return points


def prepared(run: Run) -> Point | None:
    """Whether the target was prepared as asked (``--prepare``, ``--irq-priority``); None if that
    was not asked for."""
    settings = run["environment"]["settings"]
    asked = run["environment"]["settings_by"]
    if not settings or not asked:
        return None
    options = " and ".join(f"--{name}" for name in asked)
    refused = {name: one["reason"] for name, one in settings.items() if one.get("reason")}
    done = f"{len(settings) - len(refused)} of {numbers.plural(len(settings), 'setting')}"
    if not refused:
        return Point("pass", f"{options}: {done} as asked.")
    return Point("warn", f"{options}: only {done} as asked.", _refused(refused))


def _refused(reasons: Mapping[str, str]) -> str:
    """Settings that were not made, those of several CPUs together, with their reasons, briefly:
    ``fair_server/cpu{0-1}/runtime: not permitted``."""
    alike: dict[tuple[str, str, str], list[int]] = {}
    for name, reason in reasons.items():
        short = "/".join(name.split("/")[-3:])
        match = re.search(r"(?<=cpu)\d+(?=/)", short)
        ends = (short, "") if match is None else (short[: match.start()], short[match.end() :])
        alike.setdefault((*ends, reason), []).append(int(match[0]) if match else -1)
    shown: dict[str, list[str]] = {}
    for (before, after, reason), cpus in itertools.islice(alike.items(), _REFUSED):
        listed = "" if cpus == [-1] else f"{{{format_cpus(cpus)}}}" if cpus[1:] else f"{cpus[0]}"
        shown.setdefault(reason, []).append(f"{before}{listed}{after}")
    left = sum(map(len, list(alike.values())[_REFUSED:]))
    more = f" (and {numbers.plural(left, 'other setting')})" if left else ""
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in shown.items()) + more


def _broken_points(run: Run) -> list[Point]:
    """Steps that did not complete, grouped by their reason; not those that the core lacks."""
    alike: dict[tuple[str, str], list[str]] = {}
    for step in carried_out(run):
        if step["state"] in ("failed", "interrupted", "skipped") and not not_offered(step):
            key = (step["state"], step["reason"] or "no reason recorded")
            alike.setdefault(key, []).append(step_place(run, step))
    points = []
    for (state, reason), places in alike.items():
        who = numbers.join(places[:3] + ([f"{len(places) - 3} more"] if len(places) > 3 else []))
        was = "" if state == "failed" else "was " if len(places) == 1 else "were "
        kind = "fail" if state == "failed" else "warn"
        points.append(Point(kind, f"{who} {was}{state}: {reason}"))
    return points


def _verdict_points(run: Run) -> list[Point]:
    points = []
    for step in carried_out(run):
        where = step_place(run, step)
        places = [p for p, one in enumerate(run["series"]) if one["step"] == step["step"]]
        names: dict[int, str] = {}
        for members in group_series(run["series"], places):
            names.update(
                zip(members, series_labels([run["series"][p] for p in members]), strict=True)
            )
        for result, kind in (("fail", "fail"), ("inconclusive", "warn"), (KNOWN, "warn")):
            found = [one for one in judged(run, step["step"]) if one["result"] == result]
            for rule in dict.fromkeys(v["rule"] for v in found):
                same = [v for v in found if v["rule"] == rule]
                whose = [names[v["series"]] for v in same if v["series"] in names]
                shown = numbers.join(
                    whose[:4] + ([f"{len(whose) - 4} more"] if len(whose) > 4 else [])
                )
                if len(whose) == len(places) > 2:
                    shown = f"all {numbers.count(len(whose))} series"
                word = {"fail": "failed", KNOWN: "failed, a known limitation"}.get(
                    result, "is inconclusive"
                )
                what = rule if same[0]["series"] is not None else f"the test “{rule}”"
                text = f"{where}: {what} {word}" + (f" on {shown}" if shown else "")
                evidence, _ = representative(same, run["series"], names)
                note = _sentence(evidence).strip()
                points.append(Point(kind, text + ".", note))
    return points
