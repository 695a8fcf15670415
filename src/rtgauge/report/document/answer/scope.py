# SPDX-License-Identifier: Apache-2.0
"""What the figures of the answer hold for, and what was not measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from rtgauge import text as numbers
from rtgauge.report.document.answer.data import Data, Model, State
from rtgauge.report.results.again import times_answers
from rtgauge.report.results.background import CHECKS, crowded
from rtgauge.report.results.labels import (
    CROWDED,
    capital,
    chapters,
    core_name,
    lab_text,
    late_answers,
    part_text,
    refused_part,
    tests_ended,
    waits_for_answers,
)

__all__ = ["FAKE", "NAMES", "audit_of", "board_text", "missing_of", "scope_of"]

REASONS: Final = 2
"""Reasons of steps without results that the answer gives."""
NAMES: Final = 4
"""Names in a list of findings or steps, beyond which the rest is counted."""
FAKE: Final = "fake"
"""The target that plays an agent without a system."""


def board_text(run: Model) -> str:
    """What the time of an emulated board or of the fake target means, as a sentence; empty for
    others."""
    if run["target"].partition(":")[0] == FAKE:
        return "Fake target: the figures are made up and describe no system."
    text = lab_text(run["environment"])
    return f"{capital(text)}." if text else ""


def audit_of(run: Model, state: State) -> str:
    """One line on what the audit of the configuration found, and what the background activity
    showed; empty without either."""
    levels = ("error", "warning")
    found, room = [], NAMES
    for level in levels:
        names = [f["check"] for f in run["findings"] if f["level"] == level]
        shown = names[:room]
        room -= len(shown)
        if left := len(names) - len(shown):
            shown.append(f"{left} more")
        among = f" ({numbers.join(shown)})" if len(shown) > 1 or not left else ""
        found += [numbers.plural(len(names), level) + among] if names else []
    if not found:
        return ""
    of_the_run = [f["check"] in CHECKS for f in run["findings"] if f["level"] in levels]
    head = "Findings" if any(of_the_run) else "Configuration audit"
    text = f"{head}: {numbers.join(found)}."
    if state is State.UNMEASURED or all(of_the_run):
        return text
    return f"{text} The figures hold for this configuration: measure again after a change."


def missing_of(data: Data) -> str:
    """The steps without results in one line, with the reason that most of them share, those that
    the core does not offer, how many tests of an evaluation passed, and the other programs that
    kept the CPUs busy."""
    found = " ".join(filter(None, (_without_results(data), _not_of_the_core(data))))
    return " ".join(filter(None, (found, _tests(data), _not_idle(data)))) if found else ""


def _tests(data: Data) -> str:
    """How the tests of an evaluation ended; empty for other runs, and without tests."""
    if len({step["chapter"] for step in data.measured}) < 2 or not data.tests:
        return ""
    return f"{tests_ended(data.tests)}."


def _not_of_the_core(data: Data) -> str:
    if not data.apart:
        return ""
    every = numbers.plural(len(data.measured) + len(data.apart), "step")
    text = f"The {core_name(data.apart[0]['run_options']['core'])} does not offer "
    text += f"{len(data.apart)} of {every} ({_names(data.run, data.apart)})."
    if data.measured and all(step["state"] == "complete" for step in data.asked):
        others = len(data.measured)
        said = f"All {others} others were" if others > 1 else "The other one was"
        text += f" {said} measured."
    return text


def _without_results(data: Data) -> str:
    broken = [step for step in data.asked if step["state"] in ("failed", "skipped")]
    if not broken:
        return ""
    every = data.measured if all(step in data.measured for step in broken) else data.asked
    measured = {one["step"] for one in data.run["series"] if one["count"]}
    some = measured & {step["step"] for step in broken}
    head = "Without a valid result" if some else "Not measured"
    text = f"{head}: {part_text(broken, every)} ({_names(data.run, broken)})"
    reasons = Counter(step["reason"].rstrip(".") for step in broken if step["reason"])
    if not reasons:
        return f"{text}."
    if reasons.total() == len(broken) == max(reasons.values()):
        return f"{text}: {next(iter(reasons))}."
    # if only one step has a third reason, giving the reason takes no more room than omitting it
    room = REASONS + 1 if len(reasons) == REASONS + 1 else REASONS
    shown = reasons.most_common(room)
    said = [f"{many} because {reason}" for reason, many in shown]
    if left := len(broken) - sum(many for _, many in shown):
        said.append(f"{left} for other reasons" if left > 1 else "1 for another reason")
    return f"{text}: {'; '.join(said)}."


def _names(run: Model, steps: Sequence[Model]) -> str:
    """The measurements of some steps: all names, or where they are many, whole chapters first."""
    names = [str(step["measurement"]) for step in steps]
    said = []
    if len(set(names)) > NAMES:
        for chapter, members in chapters(run).items():
            if len(members) > 1 and all(step in steps for step in members):
                said.append(f"all {numbers.plural(len(members), 'step')} of {chapter.lower()}")
                names = [one for one in names if one not in {s["measurement"] for s in members}]
    for name in dict.fromkeys(names):
        said.append(name + (f" ×{many}" if (many := names.count(name)) > 1 else ""))
    return numbers.join(said)


def scope_of(data: Data) -> str:
    """What was measured, where no step failed or was skipped: the reader sees what was not. Also
    the other programs that kept the CPUs busy."""
    return " ".join(filter(None, (_measured(data), _not_idle(data))))


def _not_idle(data: Data) -> str:
    """The other programs that kept the CPUs busy; empty if none did."""
    return " ".join(f"Not idle: {one['found']}." for one in crowded(data.run["steps"]))


def _measured(data: Data) -> str:
    states = {step["state"] for step in data.measured}
    if data.empty or data.apart or not states or states & {"failed", "skipped"}:
        return ""
    if len({step["chapter"] for step in data.measured}) > 1:
        every = len(data.measured)
        if states != {"complete"}:
            return ""
        return f"All {every} steps were measured. {_tests(data)}".rstrip()
    planned = (data.run["plan"] or {}).get("steps")
    hosts = planned if isinstance(planned, list) else []
    own = [step for step in data.measured if not times_answers(hosts, step["step"])]
    names = list(dict.fromkeys(step["measurement"] for step in own or data.measured))
    text = f"Only {numbers.join(names)} {'was' if len(names) == 1 else 'were'} measured"
    if data.best and all(map(data.disturbed, data.best)):
        text += ", and only with an injection"
    elif data.best and not (data.idle and data.loaded):
        known = {
            "while idle": data.idle,
            "while idle with the trace": data.traced,
            "under load": data.loaded,
            CROWDED: [one for one in data.best if data.crowded(one)],
        }
        said = [words for words, series in known.items() if series]
        if sum(map(len, known.values())) < len(data.best):
            said.append("under an unknown load")
        text += f", and only {numbers.join(said)}"
    return f"{text}.{_refused(data)}{_unraised(data)}"


def _refused(data: Data) -> str:
    """The contexts and methods asked for that were not measured next to others, with the reasons;
    empty without any."""
    reasons = (str(test["evidence"]).rstrip(".") for test in filter(refused_part, data.tests))
    return "".join(dict.fromkeys(f" Not measured: {reason}." for reason in reasons))


def _unraised(data: Data) -> str:
    """How many events had no answer or have no sample, and how many an interrupted step lacks;
    empty for others."""
    one = data.top
    if one is None or not waits_for_answers(one["name"], one["unit"]):
        return ""
    answers = [each for each in data.best if waits_for_answers(each["name"], each["unit"])]
    unanswered = sum(each["unanswered"] for each in answers)
    lost = sum(each["lost"] for each in answers)
    raised = sum(each["count"] for each in answers) + unanswered
    every = numbers.plural(raised, "event")
    text = ""
    if unanswered:
        text = f" {numbers.count(unanswered)} of {every} had no answer."
    if lost:
        text += f" {numbers.count(raised - unanswered - lost)} of {every} have a sample."
    late = late_answers(data.run, {each["step"] for each in answers})
    if not text and late:
        text = f" {numbers.count(raised - late)} of {every} were answered in time."
    elif not text:
        text = f" All {every} were answered." if raised > 1 else " The one event was answered."
    asked = data.step(one)["parameters"].get("samples", "")
    lacking = int(asked) - one["count"] - one["unanswered"] if asked.isdecimal() else 0
    if lacking > 0:
        of = f"{numbers.count(lacking)} of {numbers.count(int(asked))}"
        text += f" The run ended before the remaining {of} events."
    return text
