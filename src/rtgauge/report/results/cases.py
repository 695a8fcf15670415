# SPDX-License-Identifier: Apache-2.0
"""Results as test cases, which JUnit XML and KTAP share (docs/reference/report.md says how they are
mapped).

A run becomes one case for how it was carried out, and a group of cases for each step: the step
itself, its verdicts and tests, and the series without a requirement. A failed verdict or test
fails, except for a known limitation, which counts as skipped, as an inconclusive verdict does. A
step that could not be carried out is an error.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rtgauge import text as numbers
from rtgauge.report.results.labels import (
    KNOWN,
    Level,
    bound_sentence,
    budget_of,
    carried_out,
    group_series,
    judged,
    load_text,
    peak,
    series_labels,
    step_name,
    step_number,
    tail_percentile,
    target_name,
)
from rtgauge.report.results.published import place_text
from rtgauge.report.results.ratings import rating_text

__all__ = ["Case", "Group", "RunCases", "cases_of", "plain", "series_names", "step_title"]

Document = Mapping[str, Any]

_UNSEEN = ("Cc", "Cf", "Co", "Cs")
_STATES = {"complete": "pass", "failed": "error", "skipped": "skip"}
_RESULTS = {"pass": "pass", "fail": "fail"}


@dataclass(frozen=True, slots=True)
class Case:
    """``outcome`` is pass, fail, error or skip; ``why`` says what it rests on, in one line;
    ``lines`` are the figures."""

    name: str
    outcome: str
    why: str = ""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """The cases of a step."""

    name: str
    seconds: float
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class RunCases:
    """The cases of a run. ``facts`` and ``findings`` tell about it and decide nothing."""

    id: str
    name: str
    target: str
    started: str
    seconds: float
    case: Case
    facts: tuple[tuple[str, str], ...]
    findings: tuple[str, ...]
    groups: tuple[Group, ...]


def plain(value: object) -> str:
    """Text from a target on one line, without control characters and others that XML forbids."""
    return "".join(
        "\ufffd"
        if unicodedata.category(character) in _UNSEEN or ord(character) & 0xFFFE == 0xFFFE
        else character
        for character in " ".join(str(value).split())
    )


def step_title(run: Document, step: Document) -> str:
    """What a step is called: its number, measurement, what tells it from others, and load."""
    number, load = step_number(step), load_text(step["load"])
    return plain(f"step {number} {step_name(run, step)}, {load}")


def series_names(run: Document, step: int) -> dict[int, str]:
    """Place in the run's series -> a name that tells it from the step's others."""
    places = [place for place, one in enumerate(run["series"]) if one["step"] == step]
    names: dict[int, str] = {}
    for members in group_series(run["series"], places):
        labels = series_labels([run["series"][place] for place in members])
        for place, label in zip(members, labels, strict=True):
            name = run["series"][place]["name"]
            names[place] = plain(name if label == name else f"{name}, {label}")
    return dict(zip(names, _distinct(names.values()), strict=True))


def figures(one: Document, step: Document) -> tuple[str, ...]:
    """A series in a few lines. The maximum is not rounded to the budget of the step."""
    if peak(one) is None and not one["unanswered"]:
        return ("no sample was taken",)
    unit = one["unit"]
    shown = {"min": one["min"], "median": one["percentiles"].get("50")}
    shown |= {"99.9 %": one["percentiles"].get("99.9"), "max": peak(one)}
    budgets = {"max": budget_of(step, unit)}
    if one["missed"] and one["corrected"]:
        corrected = one["corrected"]["percentiles"]
        if name := tail_percentile([corrected]):
            shown[f"corrected {name} %"] = corrected[name]
    text = ", ".join(
        f"{name} {numbers.shown(value, unit, budgets.get(name)).full}"
        for name, value in shown.items()
        if value is not None
    )
    counts = [numbers.plural(one["count"], "sample")]
    counts += [f"{numbers.count(one[key])} {key}" for key in ("missed", "lost") if one[key]]
    return tuple(plain(line) for line in (text, ", ".join(counts), bound_sentence(one)) if line)


def cases_of(run: Document) -> RunCases:
    """The cases of one run of the results model."""
    environment = run["environment"]
    kernel = environment["kernel"].get("release")
    facts = {
        "run": run["id"],
        "study": run["study"],
        "label": run["label"],
        "kernel": kernel,
        "realtime": environment["realtime"],
        "libc": environment["libc"],
        "compiler": environment["compiler"],
        "boot_id": run["boot_id"],
    }
    target = plain(target_name(run)) or "localhost"
    return RunCases(
        id=plain(run["id"]) or "unnamed",
        name=target + (f", {plain(run['label'])}" if run["label"] else ""),
        target=target,
        started=plain(run["started"]),
        seconds=float(run["duration_s"] or 0),
        case=_carried_out("run", run),
        facts=tuple((name, plain(value)) for name, value in facts.items() if value),
        findings=tuple(_finding(finding) for finding in _by_weight(run["findings"]))
        + tuple(_rating(rating) for rating in run["ratings"]),
        groups=tuple(_group(run, step) for step in carried_out(run)),
    )


def _group(run: Document, step: Document) -> Group:
    cases = [_carried_out("measured", step, _lines(run, step))]
    names = series_names(run, step["step"])
    found = judged(run, step["step"])
    for one in found:
        at, result = one["series"], one["result"]
        why = _sentences(one["evidence"], one["remedy"])
        if result in ("inconclusive", KNOWN):
            why = f"{result}: {why}" if why else result
        elif result != "pass":
            why = why or result
        cases.append(
            Case(
                plain(one["rule"]) + (f" ({names[at]})" if at in names else ""),
                _RESULTS.get(result, "skip"),
                why,
                figures(run["series"][at], step) if at in names else (),
            )
        )
    with_rules = {one["series"] for one in found}
    if step["budget"] and step["state"] == "complete" and not with_rules - {None}:
        rule = f"budget {numbers.microseconds(step['budget']['budget_ns'])}"
        cases.append(Case(plain(rule), "skip", "inconclusive: no series was judged. Measure again"))
    for place, name in names.items():
        if place not in with_rules:
            lines = figures(run["series"][place], step)
            empty = not run["series"][place]["count"]
            cases.append(Case(name, "skip" if empty else "pass", lines[0] if empty else "", lines))
    renamed = zip(_distinct(case.name for case in cases), cases, strict=True)
    return Group(
        step_title(run, step),
        float(step["duration_s"] or 0),
        tuple(Case(name, case.outcome, case.why, case.lines) for name, case in renamed),
    )


def _carried_out(name: str, entry: Document, lines: tuple[str, ...] = ()) -> Case:
    state = entry["state"]
    why = _sentences(entry["reason"], entry["remedy"])
    outcome = _STATES.get(state, "error")
    if outcome != "pass":
        why = f"{state}: {why}" if why and outcome == "error" else why or state
    return Case(name, outcome, why, lines)


def _events(step: Document) -> tuple[str, ...]:
    return tuple(
        plain(f"{event['text']} (at {numbers.duration(event['time_s'])})")
        for event in step["events"]
    )


def _observations(step: Document) -> tuple[str, ...]:
    return tuple(plain(f"observation: {one['text']}") for one in step["observations"])


def _places(run: Document, step: Document) -> tuple[str, ...]:
    return tuple(plain(f"place: {place_text(one, run)}") for one in step["places"])


def _lines(run: Document, step: Document) -> tuple[str, ...]:
    return (*_events(step), *_observations(step), *_places(run, step))


def _by_weight(findings: Iterable[Document]) -> list[Document]:
    return sorted(findings, key=lambda finding: -Level.of(finding["level"]))


def _rating(rating: Document) -> str:
    words = f"rating: {rating['subject']} {rating_text(rating['rating'])}, by the evaluator"
    return plain(f"{words}: {rating['reason']}" if rating["reason"] else words)


def _finding(finding: Document) -> str:
    text = f"{finding['level']}: {finding['check']}: {finding['found']}"
    return plain(_sentences(text, finding["remedy"]))


def _sentences(first: str, second: str) -> str:
    return plain("; ".join(text for text in (first, second) if text.strip()))


def _distinct(names: Iterable[str]) -> list[str]:
    """The names, changed where needed so that none is empty and none occurs twice."""
    found: list[str] = []
    seen: set[str] = set()
    last: dict[str, int] = {}  # name -> the last number tried
    for name in names:
        whole = name.strip() or "unnamed"
        one, number = whole, last.get(whole, 1)
        while one in seen:
            number += 1
            one = f"{whole} ({number})"
        last[whole] = number
        seen.add(one)
        found.append(one)
    return found
