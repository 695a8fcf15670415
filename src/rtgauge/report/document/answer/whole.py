# SPDX-License-Identifier: Apache-2.0
"""An evaluation and the runs that resumed it, combined into one run for the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rtgauge.report.document.answer.commands import is_evaluation
from rtgauge.report.document.answer.data import Model
from rtgauge.report.results.labels import Level, kernel_parameters, ordinary_policies, worst

__all__ = ["whole_of"]


def whole_of(runs: Sequence[Model]) -> dict[str, Any] | None:
    """The steps of an evaluation, each from the run that completed it, or else from the last run
    that tried it. Budgets and tests that failed in an earlier run are kept, and so are higher
    maxima, because repeating a step does not undo them. Calibrations are left out. None unless the
    runs are those of one evaluation."""
    runs = sorted(runs, key=lambda run: str(run["started"]))
    first = runs[0]
    same = {(run["study"] or run["id"], run["target"], _kernel(run)) for run in runs}
    if len(runs) < 2 or len(same) > 1 or not all(map(is_evaluation, runs)):
        return None
    planned = _planned(first)
    chosen: dict[int, tuple[Model, Model]] = {}
    replaced: list[tuple[int, Model, Model]] = []
    for run in runs:
        there = _planned(run)
        for step in run["steps"]:
            asked = there[step["step"]] if step["step"] < len(there) else None
            for at in [at for at, one in enumerate(planned) if one == asked]:
                if at not in chosen or chosen[at][1]["state"] != "complete":
                    replaced += [(at, *chosen[at])] if at in chosen else []
                    chosen[at] = run, step
    whole = {
        **first,
        "duration_s": sum(run["duration_s"] or 0.0 for run in runs),
        "state": _state(runs[-1], chosen.values(), len(planned)),
        "findings": _findings(runs),
        **{part: [] for part in ("steps", "series", "tests", "verdicts", "causes")},
    }
    for at, (run, step) in sorted(chosen.items()):
        _add(whole, run, step, at)
    for at, run, step in replaced:
        # Without real-time priority they prove nothing about a task that has it.
        if not ordinary_policies(run, step) or ordinary_policies(*chosen[at]):
            _add_worse(whole, run, step, at)
    return whole


def _kernel(run: Model) -> str:
    """What tells kernels apart, as for ``evaluate --resume``. The command line already contains the
    unknown parameters."""
    kernel = run["environment"]["kernel"]
    return repr({**kernel, "cmdline": kernel_parameters(kernel), "unknown_parameters": None})


def _planned(run: Model) -> list[Any]:
    """The steps of a plan, without the options that have no value: an older version may not have
    had them."""
    steps = run["plan"].get("steps")
    return [
        {name: one for name, one in step.items() if one not in (None, "", False)}
        for step in (steps if isinstance(steps, list) else [])
        if isinstance(step, Mapping)
    ]


def _state(last: Model, chosen: Any, planned: int) -> str:
    """The worst state of the runs whose steps are incomplete, and of the last run if a step was not
    recorded."""
    left = {run["state"] for run, step in chosen if step["state"] != "complete"}
    left |= {last["state"]} if len(chosen) < planned else set()
    return next((one for one in ("running", "failed", "interrupted") if one in left), "complete")


def _findings(runs: Sequence[Model]) -> list[Any]:
    """The worst finding of each check."""
    worst: dict[str, Any] = {}
    for run in runs:
        for one in run["findings"]:
            known = worst.setdefault(one["check"], one)
            if Level.of(one["level"]) > Level.of(known["level"]):
                worst[one["check"]] = one
    return list(worst.values())


def _add(whole: dict[str, Any], run: Model, step: Model, at: int) -> None:
    """Add a step of a run with its results, as step ``at``."""
    places: dict[int, int] = {}
    for place, one in enumerate(run["series"]):
        if one["step"] == step["step"]:
            places[place] = len(whole["series"])
            whole["series"].append({**one, "step": at})
    told = [
        {**one, "series": [places[place] for place in one["series"]]}
        for one in step["observations"]
    ]
    for one in told:
        for part in one.keys() & {"maxima", "late"}:
            one[part] = [{**each, "series": places[each["series"]]} for each in one[part]]
    whole["steps"].append({**step, "step": at, "observations": told, "run": run["id"]})
    for part in ("tests", "verdicts", "causes"):
        for one in run[part]:
            if one["step"] == step["step"]:
                moved = {"series": places[one["series"]]} if part == "verdicts" else {}
                whole[part].append({**one, "step": at, **moved})


def _add_worse(whole: dict[str, Any], run: Model, step: Model, at: int) -> None:
    """Add the budgets and tests that failed in a step that another run repeated, and of an
    interrupted step the series with higher maxima. These are above what the repetition bounds."""
    again = {_key(one): one for one in whole["series"] if one["step"] == at}
    failed = {one["series"] for one in run["verdicts"] if one["result"] == "fail"}
    places: dict[int, int] = {}
    for place, one in enumerate(run["series"]):
        other = again.get(_key(one))
        higher = step["state"] == "interrupted" and other is not None and worst((other, one)) == 1
        if one["step"] == step["step"] and (higher or place in failed):
            places[place] = len(whole["series"])
            bound = one["bound"] if other is None else other["bound"]
            whole["series"].append({**one, "step": at, "bound": bound})
    for part in ("tests", "verdicts"):
        for one in run[part]:
            if one["step"] == step["step"] and one["result"] == "fail":
                moved = {"series": places[one["series"]]} if part == "verdicts" else {}
                whole[part].append({**one, "step": at, **moved})


def _key(one: Model) -> str:
    """What tells a series from the others of its step."""
    return repr([one[name] for name in ("name", "context", "cpu", "thread", "labels")])
