# SPDX-License-Identifier: Apache-2.0
"""Steps that the catalogue itself defines: the evaluation, thorough runs and calibrations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rtgauge.catalogue import Catalogue, Measurement, Option
from rtgauge.errors import UsageError
from rtgauge.plan.lengths import lasts
from rtgauge.plan.plan import IDLE, Plan, PlannedStep, planned_step
from rtgauge.units import format_cpus, parse_cpus

__all__ = [
    "EVALUATION",
    "XENO_TEST",
    "calibration_steps",
    "evaluation_plan",
    "has_time_grid",
    "thorough_parameters",
]

EVALUATION: Final = "evaluate"
"""The name of the plan of an evaluation."""
XENO_TEST: Final = "xeno-test"
"""The name of the shipped plan with the steps of Xenomai's utility."""


def has_time_grid(entry: Measurement) -> bool:
    """Whether it measures latencies on a time grid, which a budget is for."""
    return entry.has("interval") and any(one.start == "due time" for one in entry.series)


def evaluation_plan(
    catalogue: Catalogue,
    *,
    settings: Mapping[str, str] | None = None,
    thorough: bool = False,
) -> Plan:
    """The whole catalogue in its order, as its entries ``evaluate`` define.

    ``settings`` are given to the steps that they apply to (``_useful``). A load among them
    replaces that of the steps under load. ``thorough``: with the parameters of long runs. Raises
    UsageError if there is nothing to evaluate.
    """
    steps = []
    load = (settings or {}).get("load", "").strip()
    if load == IDLE:
        raise UsageError(
            "an evaluation cannot measure only the idle system: it compares idle with a load",
            "measure idle only: rtgauge run timer --load idle",
        )
    for entry in catalogue.measurements.values():
        if entry.role == "calibration":
            continue  # carried out anyway, before the others
        for evaluation in entry.evaluate:
            wanted = {**evaluation.parameters, **(evaluation.thorough if thorough else {})}
            under = load if load and evaluation.load != IDLE else evaluation.load
            wanted.update(_useful(catalogue, entry, wanted, settings or {}))
            steps.append(planned_step(catalogue, entry.name, {**wanted, "load": under}))
    if not steps:
        raise UsageError(
            "the agent of this target has no measurement that belongs to an evaluation",
            "choose a measurement: rtgauge run MEASUREMENT",
        )
    return Plan(EVALUATION, tuple(steps))


def _useful(
    catalogue: Catalogue,
    entry: Measurement,
    parameters: Mapping[str, str],
    settings: Mapping[str, str],
) -> Iterator[tuple[str, str]]:
    """The settings for a whole evaluation that apply to one of its steps.

    A budget and its rate apply to latencies, so to measurements with a time grid. A length applies
    to steps that last for a time, not to those that end with their samples. A number of samples is
    brought into the range of each measurement.
    """
    for name, text in settings.items():
        if name in ("budget", "rate"):
            useful = has_time_grid(entry)
        elif name == "for":
            useful = entry.has(name) and lasts(entry, parameters)
        else:
            useful = name in catalogue.step_options() or entry.has(name)
        if useful:
            yield name, _in_range(entry.option(name), text) if name == "samples" else text


def _in_range(option: Option, text: str) -> str:
    """A number, or the end of the option's range that is nearest to it."""
    try:
        value = option.number(text)
    except ValueError:
        return text  # it is refused where it is read
    if option.min and value < option.number(option.min):
        return option.min
    if option.max and value > option.number(option.max):
        return option.max
    return text


def thorough_parameters(entry: Measurement, load: str) -> Mapping[str, str]:
    """The parameters of a long run: those of the evaluation's step under this load, else of its
    first step. Raises UsageError where the measurement defines none."""
    steps = sorted(entry.evaluate, key=lambda step: step.load != load)
    found = next((step.thorough for step in steps if step.thorough), None)
    if found is None:
        raise UsageError(
            f"measurement '{entry.name}' does not define a thorough run",
            "give its options, such as --samples or --for, instead",
        )
    return found


def calibration_steps(plan: Plan, catalogue: Catalogue) -> tuple[PlannedStep, ...]:
    """The calibrations to carry out before the plan, on the CPUs that it measures on.

    Calibrations that the plan itself asks for are not done twice.
    """
    asked = {step.measurement for step in plan.steps}
    steps = []
    for entry in catalogue.measurements.values():
        if entry.role != "calibration" or entry.name in asked:
            continue
        settings = {}
        if (cpus := _cpus(plan, catalogue)) and entry.has("cpu"):
            settings["cpu"] = cpus
        if any(planned.flag("keep-settings") for planned in plan.steps):
            settings["keep-settings"] = "yes"
        elif any(planned.flag("prepare") for planned in plan.steps):
            settings["prepare"] = "yes"  # a cost is subtracted from samples with these settings
        steps.append(planned_step(catalogue, entry.name, settings))
    return tuple(steps)


def _cpus(plan: Plan, catalogue: Catalogue) -> str:
    """All CPUs that the plan's steps measure on, as a list; empty if no step names any."""
    union: set[int] = set()
    for step in plan.steps:
        entry = catalogue.measurement(step.measurement)
        if not entry.has("cpu"):
            continue
        text = step.parameters.get("cpu", entry.option("cpu").default)
        if not text:
            continue
        cpus = parse_cpus(text)
        if cpus is None:
            return "all"
        union |= cpus
    return format_cpus(union)
