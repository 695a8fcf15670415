# SPDX-License-Identifier: Apache-2.0
"""Plans: which measurements, with which parameters, under which loads, how often.

A plan comes from a TOML file (docs/plans.md), from the arguments of one command, or from the
catalogue itself (``rtgauge evaluate``). Whatever its source, it has been checked against the
catalogue of the target before anything is started there.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from rtgauge.catalogue import (
    Catalogue,
    Measurement,
    format_cpus,
    format_duration,
    parse_cpus,
    parse_duration,
    parse_integer,
    parse_rate,
)
from rtgauge.errors import UsageError, nearest

__all__ = [
    "REPEAT_MAX",
    "STEP_KEYS",
    "Plan",
    "PlannedStep",
    "calibration_steps",
    "describe_step",
    "evaluation_plan",
    "expected_ns",
    "planned_step",
    "read_plan",
]

# With a budget and no rate: exceeded less often than once an hour.
DEFAULT_RATE_PER_HOUR: Final = 1.0

_PLAN_KEYS: Final = ("name", "label", "repeat")
STEP_KEYS: Final = (
    "measurement",
    "load",
    "load-cpu",
    "budget",
    "rate",
    "histogram-only",
    "keep-settings",
)
REPEAT_MAX: Final = 10_000


@dataclass(frozen=True)
class PlannedStep:
    """One measurement with its parameters under one load.

    ``parameters`` holds the options that were given, in their shortest notation; the others stand
    at the agent's defaults. ``budget_ns`` and ``rate_per_hour`` are the requirement, if any.
    """

    measurement: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    load: str = "idle"
    load_cpu: str = ""
    budget_ns: int | None = None
    rate_per_hour: float | None = None
    role: str = "measurement"
    histogram_only: bool = False
    keep_settings: bool = False

    def arguments(self) -> list[str]:
        """The agent's arguments for this step, without those that belong to the run."""
        words = ["run", self.measurement]
        for name, value in self.parameters.items():
            words += [f"--{name}", value]
        words += ["--load", self.load]
        if self.load_cpu:
            words += ["--load-cpu", self.load_cpu]
        if self.histogram_only:
            words.append("--histogram-only")
        if self.keep_settings:
            words.append("--keep-settings")
        return words

    def document(self) -> dict[str, Any]:
        """The step as run.json holds it under ``plan``."""
        return {
            "measurement": self.measurement,
            "parameters": dict(self.parameters),
            "load": self.load,
            "load_cpu": self.load_cpu,
            "budget_ns": self.budget_ns,
            "rate_per_hour": self.rate_per_hour,
            "role": self.role,
            "histogram_only": self.histogram_only,
            "keep_settings": self.keep_settings,
        }


@dataclass(frozen=True)
class Plan:
    """What is to be carried out, ``repeat`` times, on each target."""

    name: str
    steps: tuple[PlannedStep, ...]
    label: str = ""
    repeat: int = 1

    def document(self) -> dict[str, Any]:
        """The plan as run.json holds it."""
        return {
            "name": self.name,
            "label": self.label,
            "repeat": self.repeat,
            "steps": [step.document() for step in self.steps],
        }


def planned_step(
    catalogue: Catalogue, measurement: str, settings: Mapping[str, str]
) -> PlannedStep:
    """A step from texts: options of the measurement and the keys that every step has.

    Raises UsageError for unknown names (with the nearest known one) and for wrong values.
    """
    entry = catalogue.measurement(measurement)
    parameters: dict[str, str] = {}
    common: dict[str, Any] = {}
    for name, text in settings.items():
        if name in STEP_KEYS:
            common.update(_common_setting(catalogue, entry, name, text))
        elif entry.has(name):
            parameters[name] = entry.normalise(name, text)
        else:
            known = [*(option.name for option in entry.options), *STEP_KEYS[1:]]
            raise UsageError(
                f"measurement '{measurement}' has no option '{name}'", nearest(name, known)
            )
    if common.get("rate_per_hour") is not None and common.get("budget_ns") is None:
        raise UsageError(
            f"measurement '{measurement}': a rate is given but no budget that it belongs to",
            "give the latency allowed with --budget, e.g. --budget 150us",
        )
    if common.get("budget_ns") is not None:
        common.setdefault("rate_per_hour", DEFAULT_RATE_PER_HOUR)
    return PlannedStep(
        measurement=measurement,
        parameters=MappingProxyType(parameters),
        role=entry.role,
        **common,
    )


def _common_setting(
    catalogue: Catalogue, entry: Measurement, name: str, text: str
) -> dict[str, Any]:
    def value(read: Callable[[str], Any], remedy: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise UsageError(f"'{name}': {error}", remedy) from None

    match name:
        case "load":
            return {"load": catalogue.normalise_load(text)}
        case "load-cpu":
            cpus = value(parse_cpus, "name the CPUs of the load as in 0-3,8")
            return {"load_cpu": "all" if cpus is None else format_cpus(cpus)}
        case "budget":
            return {"budget_ns": value(_budget, "give the latency allowed, e.g. 150us")}
        case "rate":
            return {"rate_per_hour": value(_rate, "give how often it may be exceeded, e.g. 1/h")}
        case "histogram-only" | "keep-settings":
            if text not in ("yes", "no"):
                raise UsageError(f"'{name}': '{text}' is neither yes nor no")
            return {name.replace("-", "_"): text == "yes"}
    raise UsageError(f"measurement '{entry.name}' is given twice", "")


def _budget(text: str) -> int:
    budget = parse_duration(text)
    if budget == 0:
        raise ValueError("a budget of 0 is exceeded by everything")
    return budget


def _rate(text: str) -> float:
    rate = parse_rate(text)
    if rate == 0:
        raise ValueError("no measurement, however long, can show a rate of 0")
    return rate


def _text(value: object) -> str:
    """A value of a TOML file as the text that an option takes; ValueError if it is none."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    raise ValueError(f"{value!r} is neither a text, a whole number nor true or false")


def read_plan(path: Path, catalogue: Catalogue) -> Plan:
    """Read a plan file and check it against what the target can do.

    Raises UsageError: one line that names file, step and key.
    """
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise UsageError(f"plan {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"plan {path} is not UTF-8 text", "a plan is a TOML file") from None
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        if path.suffix != ".toml":
            raise UsageError(
                f"{path} is not a plan", "a plan is a TOML file: see docs/plans.md"
            ) from None
        raise UsageError(f"plan {path} is not TOML: {error}") from None
    return _plan(document, path, catalogue)


def _plan(document: Mapping[str, Any], path: Path, catalogue: Catalogue) -> Plan:
    _known_keys(document, ("plan", "step"), f"{path}")
    head = document.get("plan", {})
    if not isinstance(head, dict):
        raise UsageError(f"{path}: 'plan' is not a table", "write [plan]")
    _known_keys(head, _PLAN_KEYS, f"{path}, [plan]")
    for key in ("name", "label"):
        if not isinstance(head.get(key, ""), str):
            raise UsageError(f"{path}, [plan], key '{key}': {head[key]!r} is not a text")
    repeat = head.get("repeat", 1)
    if type(repeat) is not int or not 1 <= repeat <= REPEAT_MAX:
        raise UsageError(
            f"{path}, [plan], key 'repeat': {repeat!r} is not a whole number from 1 to {REPEAT_MAX}"
        )
    entries = document.get("step", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{path}: 'step' is not a list of tables", "write each as [[step]]")
    if not entries:
        raise UsageError(f"{path}: the plan has no step", "add a [[step]] with a measurement")
    steps = tuple(
        _file_step(entry, f"{path}, step {number} of {len(entries)}", catalogue)
        for number, entry in enumerate(entries, 1)
    )
    return Plan(head.get("name") or path.stem, steps, head.get("label", ""), repeat)


def _known_keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise UsageError(f"{where}: unknown key '{key}'", nearest(key, known))


def _file_step(entry: Mapping[str, Any], where: str, catalogue: Catalogue) -> PlannedStep:
    name = entry.get("measurement")
    if name is None:
        for key in entry:
            if difflib.get_close_matches(key, STEP_KEYS[:1], cutoff=0.6):
                raise UsageError(f"{where}: unknown key '{key}'", nearest(key, STEP_KEYS[:1]))
    if not isinstance(name, str):
        problem = "is missing" if name is None else f"{name!r} is not a text"
        raise UsageError(
            f"{where}: key 'measurement' {problem}", nearest("", catalogue.measurements)
        )
    settings: dict[str, str] = {}
    step = None
    for key, value in entry.items():
        if key == "measurement":
            continue
        try:
            settings[key] = _text(value)
            if key != "rate":  # a rate is checked together with its budget
                planned_step(catalogue, name, {key: settings[key]})
        except (UsageError, ValueError) as error:
            remedy = error.remedy if isinstance(error, UsageError) else ""
            raise UsageError(f"{where}, key '{key}': {error}", remedy) from None
    try:
        step = planned_step(catalogue, name, settings)
    except UsageError as error:
        raise UsageError(f"{where}: {error}", error.remedy) from None
    return step


def evaluation_plan(catalogue: Catalogue, *, settings: Mapping[str, str] | None = None) -> Plan:
    """The whole catalogue, as its entries ``evaluate`` say.

    ``settings`` are given to every step that has them. Raises UsageError if nothing is to be done.
    """
    steps = []
    for entry in catalogue.measurements.values():
        if entry.role == "calibration":
            continue  # carried out anyway, before the others
        for evaluation in entry.evaluate:
            wanted = {**evaluation.parameters, "load": evaluation.load}
            for name, text in (settings or {}).items():
                if name in STEP_KEYS or entry.has(name):
                    wanted[name] = text
            steps.append(planned_step(catalogue, entry.name, wanted))
    if not steps:
        raise UsageError(
            "this target's agent names nothing to evaluate",
            "choose a measurement yourself: rtgauge run MEASUREMENT",
        )
    return Plan("evaluate", tuple(steps))


def calibration_steps(plan: Plan, catalogue: Catalogue) -> tuple[PlannedStep, ...]:
    """The calibrations to carry out before the plan, on the CPUs that it measures on.

    Calibrations that the plan itself asks for are not done twice.
    """
    asked = {step.measurement for step in plan.steps}
    steps = []
    for entry in catalogue.measurements.values():
        if entry.role != "calibration" or entry.name in asked:
            continue
        step = PlannedStep(entry.name, role="calibration")
        cpus = _cpus(plan, catalogue)
        if cpus and entry.has("cpu"):
            step = replace(step, parameters=MappingProxyType({"cpu": cpus}))
        if any(planned.keep_settings for planned in plan.steps):
            step = replace(step, keep_settings=True)
        steps.append(step)
    return tuple(steps)


def _cpus(plan: Plan, catalogue: Catalogue) -> str:
    """All CPUs that the plan's steps measure on, as a list; empty if none says."""
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


def expected_ns(step: PlannedStep, catalogue: Catalogue) -> int | None:
    """How long a step measures, from its options; None where they do not say.

    With both a time and a number of samples the earlier end counts.
    """
    entry = catalogue.measurement(step.measurement)

    def value(name: str) -> str:
        if not entry.has(name):
            return ""
        return step.parameters.get(name, entry.option(name).default)

    ends = []
    if value("for") and parse_duration(value("for")):
        ends.append(parse_duration(value("for")))
    if value("samples") and value("interval") and parse_integer(value("samples")):
        ends.append(parse_integer(value("samples")) * parse_duration(value("interval")))
    return min(ends) if ends else None


def describe_step(step: PlannedStep) -> str:
    """A step in a few words for people: ``timer --interval 100us, load sched``."""
    words = [step.measurement]
    words += [f"--{name} {value}" for name, value in step.parameters.items()]
    text = " ".join(words)
    if step.load != "idle":
        text += f", load {step.load}"
    elif step.role == "measurement":
        text += ", no load added"
    if step.budget_ns is not None:
        text += f", budget {format_duration(step.budget_ns)}"
    return text
