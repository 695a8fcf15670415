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
        raise UsageError("no step of the evaluation is left", "choose less with --skip")
    return replace(plan, steps=tuple(steps))


def _names(step: PlannedStep, catalogue: Catalogue) -> set[str]:
    return {step.measurement, chapter_word(catalogue.measurement(step.measurement).chapter)} - {""}


def _words(texts: Sequence[str]) -> list[str]:
    return [word for text in texts for word in text.split(",") if word.strip()]


def _known(text: str, known: set[str]) -> str:
    word = chapter_word(text)
    if word not in known:
        raise UsageError(
            f"the evaluation has no measurement or chapter '{text.strip()}'", nearest(word, known)
        )
    return word


def remaining(catalogue: Catalogue, runs: Sequence[Mapping[str, Any]]) -> Plan:
    """The steps of the first run's plan that are complete in none of the runs, for another run of
    the same study. That study has the id of the first run unless it is in one already.

    ``runs``: the documents (run.json) of an interrupted run and of those that resumed it. Raises
    UsageError if every step is complete, or does not fit the catalogue any more.
    """
    done = {
        _key(planned)
        for run in runs
        for planned, step in zip(run["plan"]["steps"], run["steps"], strict=False)
        if step["state"] == "complete"
    }
    first = runs[0]
    left = [planned for planned in first["plan"]["steps"] if _key(planned) not in done]
    if not left:
        raise UsageError(f"every step of run {first['id'][:13]} is complete", "leave --resume out")
    steps = tuple(_step(catalogue, planned) for planned in left)
    study = first["study"] or first["id"]
    return Plan(first["plan"]["name"], steps, label=first["label"], study=study)


def _key(planned: Mapping[str, Any]) -> str:
    return json.dumps(planned, sort_keys=True)


def _step(catalogue: Catalogue, planned: Mapping[str, Any]) -> PlannedStep:
    """The step that run.json holds under ``plan``."""
    settings = dict(planned["parameters"])
    for option in catalogue.run_options:
        value = planned.get(STORED.get(option.name, option.name.replace("-", "_")))
        if option.applies_to("step") and value not in (None, "", False):
            settings[option.name] = "yes" if value is True else str(value)
    step = planned_step(catalogue, planned["measurement"], settings)
    return replace(step, budget_ns=planned["budget_ns"], rate_per_hour=planned["rate_per_hour"])
