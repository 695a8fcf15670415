# SPDX-License-Identifier: Apache-2.0
"""Some steps of an evaluation: of chosen chapters, or those that an interrupted run lacks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rtgauge.catalogue import Catalogue
from rtgauge.errors import UsageError, nearest
from rtgauge.plan.plan import STORED, Plan, PlannedStep, planned_step

__all__ = ["chapter_word", "chosen", "remaining"]


def chapter_word(chapter: str) -> str:
    """A chapter's title as one word: ``wake-ups-and-messages``."""
    return re.sub(r"[^a-z0-9]+", "-", chapter.lower()).strip("-")


def chosen(plan: Plan, catalogue: Catalogue, only: Sequence[str], skip: Sequence[str]) -> Plan:
    """The plan with the steps of ``only`` (all, if it is empty) that are not among ``skip``.

    Each is a measurement or a chapter, or several of them separated by commas. Raises UsageError
    for a name that no step of the plan has, and if no step is left.
    """
    named = [_names(step, catalogue) for step in plan.steps]
    known = {name for names in named for name in names}
    wanted, unwanted = ({_known(word, known) for word in _words(texts)} for texts in (only, skip))
    steps = [
        step
        for step, names in zip(plan.steps, named, strict=True)
        if (not wanted or names & wanted) and not names & unwanted
    ]
    if not steps:
        raise UsageError("no step of the evaluation is left", "skip fewer steps (--skip)")
    return replace(plan, steps=tuple(steps))


def _names(step: PlannedStep, catalogue: Catalogue) -> set[str]:
    return {step.measurement, chapter_word(catalogue.measurement(step.measurement).chapter)} - {""}


def _words(texts: Sequence[str]) -> list[str]:
    return [word for text in texts for word in text.split(",") if word.strip()]


def _known(text: str, known: set[str]) -> str:
    word = chapter_word(text)
    if word not in known:
        raise UsageError(
            f"no step to carry out belongs to the measurement or chapter '{text.strip()}'",
            nearest(word, known),
        )
    return word


def remaining(catalogue: Catalogue, runs: Sequence[Mapping[str, Any]]) -> Plan:
    """The steps of the first run's plan that are complete in none of the runs, for another run of
    the same study. That study has the id of the first run unless it is in one already. Steps that
    were asked for on the Cobalt core, which does not support them, are not repeated.

    ``runs``: the documents (run.json) of an interrupted run and of those that resumed it. Raises
    UsageError if every step is complete, or does not fit the catalogue any more, or if a plan is
    not one that an evaluation writes.
    """
    for run in runs:
        if not (_is_plan(run.get("plan")) and _are_steps(run.get("steps"))):
            raise UsageError(
                f"the plan of run {str(run['id'])[:13]} is damaged",
                "begin a new evaluation without --resume",
            )
    done = {
        _key(planned)
        for run in runs
        for planned, step in zip(run["plan"]["steps"], run["steps"], strict=False)
        if step.get("state") == "complete" or _not_on_cobalt(catalogue, planned)
    }
    first = runs[0]
    left = [planned for planned in first["plan"]["steps"] if _key(planned) not in done]
    if not left:
        raise UsageError(f"run {first['id'][:13]} has no step left to measure", "omit --resume")
    steps = tuple(_step(catalogue, planned) for planned in left)
    study = str(first.get("study") or first["id"])
    options = first["plan"].get("options") or {}
    label = str(first.get("label") or "")
    return Plan(first["plan"]["name"], steps, label=label, study=study, options=options)


def _is_plan(plan: Any) -> bool:
    """Whether ``plan`` of run.json has the shape of an evaluation's."""
    if not isinstance(plan, Mapping) or not _are_steps(plan.get("steps")):
        return False
    options = plan.get("options") or {}
    return (
        isinstance(options, Mapping)
        and all(one is True or isinstance(one, str) for one in options.values())
        and all(_is_planned(one) for one in plan["steps"])
    )


def _are_steps(steps: Any) -> bool:
    return isinstance(steps, list) and all(isinstance(one, Mapping) for one in steps)


def _is_planned(step: Mapping[str, Any]) -> bool:
    parameters = step.get("parameters")
    budget, rate = step.get("budget_ns"), step.get("rate_per_hour")
    return (
        isinstance(step.get("measurement"), str)
        and isinstance(parameters, Mapping)
        and all(isinstance(one, str) for one in parameters.values())
        and (budget is None or (type(budget) is int and budget > 0))
        and (rate is None or (budget is not None and type(rate) in (int, float) and rate > 0))
    )


def _not_on_cobalt(catalogue: Catalogue, planned: Mapping[str, Any]) -> bool:
    """Whether the step was asked for on the Cobalt core, which does not support it."""
    entry = catalogue.measurements.get(planned["measurement"])
    return planned.get("core") == "cobalt" and entry is not None and bool(entry.not_on_cobalt)


def _key(planned: Mapping[str, Any]) -> str:
    # an option without a value may be one that an older version did not have
    given = {name: one for name, one in planned.items() if one not in (None, "", False)}
    return json.dumps(given, sort_keys=True)


def _step(catalogue: Catalogue, planned: Mapping[str, Any]) -> PlannedStep:
    """The step that run.json holds under ``plan``."""
    entry = catalogue.measurement(planned["measurement"])
    settings = {entry.option(name).name: text for name, text in planned["parameters"].items()}
    for option in catalogue.run_options:
        value = planned.get(STORED.get(option.name, option.name.replace("-", "_")))
        if option.applies_to("step") and value not in (None, "", False):
            settings[option.name] = "yes" if value is True else str(value)
    step = planned_step(catalogue, planned["measurement"], settings)
    return replace(
        step, budget_ns=planned.get("budget_ns"), rate_per_hour=planned.get("rate_per_hour")
    )
