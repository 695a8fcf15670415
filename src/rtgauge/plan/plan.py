# SPDX-License-Identifier: Apache-2.0
"""Steps, and the plan that contains them, checked against a catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from rtgauge.catalogue import Catalogue, Measurement
from rtgauge.errors import UsageError, nearest
from rtgauge.options import HOST_OPTIONS
from rtgauge.plan.options import Value, read_option
from rtgauge.units import format_duration

__all__ = [
    "Plan",
    "PlannedStep",
    "Point",
    "Rating",
    "check_texts",
    "describe_step",
    "planned_step",
]

IDLE: Final = "idle"
KEEP: Final = "keep-settings"
# Keys of run.json whose names differ from those of their options.
STORED: Final = {"load-cmd": "load_command", "load-cmd-root": "load_command_root"}


@dataclass(frozen=True)
class PlannedStep:
    """One measurement with its parameters under one load.

    ``parameters`` holds the options of the measurement that were given, in their shortest notation;
    the agent has defaults for the others. ``run`` holds the options that every step has
    (``Catalogue.run_options``), a flag as a bool, and ``defaults`` their defaults. ``budget_ns``
    and ``rate_per_hour`` are the requirement, if any. ``share`` is the step's part of the plan's
    hours. ``log_host`` is the target that raises the events for this step and times the answers,
    ``log_line`` its lines, ``log_set`` its own options: ``cpu=1 priority=90``. ``answers``,
    ``times`` and ``unseen_gaps`` are those of the measurement.
    """

    measurement: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    run: Mapping[str, Value] = field(default_factory=dict)
    budget_ns: int | None = None
    rate_per_hour: float | None = None
    role: str = "measurement"
    share: float | None = None
    log_host: str = ""
    log_line: str = ""
    log_set: str = ""
    answers: bool = False
    times: str = ""
    unseen_gaps: str = ""
    defaults: Mapping[str, Value] = field(default_factory=dict, compare=False, repr=False)

    def text(self, name: str) -> str:
        """The value of an option of the run; empty if it is not set."""
        return str(self.run.get(name, ""))

    def flag(self, name: str) -> bool:
        """Whether a flag of the run is set."""
        return self.run.get(name) is True

    def with_option(self, name: str, value: Value) -> PlannedStep:
        """The step with another value of an option of the run."""
        return replace(self, run=MappingProxyType({**self.run, name: value}))

    @property
    def load(self) -> str:
        """The loads by their names, without the load command; ``idle`` for none."""
        return self.text("load") or IDLE

    @property
    def load_command(self) -> str:
        """The shell command that is a load of its own; empty for none."""
        return self.text("load-cmd")

    @property
    def loads(self) -> str:
        """All loads of the step by their names: ``sched,command``."""
        if not self.load_command:
            return self.load
        return "command" if self.load == IDLE else f"{self.load},command"

    def run_options(self) -> dict[str, Value]:
        """The options of the run that differ from their defaults."""
        return {
            name: value
            for name, value in self.run.items()
            if value not in ("", False) and value != self.defaults.get(name)
        }

    def arguments(self) -> list[str]:
        """The agent's arguments for this step, without those that the host sets."""
        words = ["run", self.measurement]
        for name, value in {**self.parameters, **self.run}.items():
            if value is True:
                words.append(f"--{name}")
            elif value not in ("", False):
                words += [f"--{name}", str(value)]
        return words

    def document(self) -> dict[str, Any]:
        """The step as run.json holds it under ``plan``."""
        return {
            "measurement": self.measurement,
            "parameters": dict(self.parameters),
            **{STORED.get(name, name.replace("-", "_")): value for name, value in self.run.items()},
            "budget_ns": self.budget_ns,
            "rate_per_hour": self.rate_per_hour,
            "role": self.role,
            "share": self.share,
            "log_host": self.log_host,
            "log_line": self.log_line,
            "log_set": self.log_set,
        }


@dataclass(frozen=True)
class Rating:
    """The evaluator's rating of something that a program cannot judge: 0 to 10, or ``N.A.``."""

    subject: str
    rating: float | str
    reason: str


@dataclass(frozen=True)
class Point:
    """A point of the evaluator ``for`` or ``against`` the system."""

    favour: str
    text: str


@dataclass(frozen=True)
class Plan:
    """Steps to be carried out ``repeat`` times on each target.

    ``targets`` are those that the plan itself names. ``ratings``, ``points`` and ``notes``
    (subject -> text) are the evaluator's own, for the report. ``study`` is the one that its runs
    join; empty for one of their own.
    ``order_seed``: that of the order of the targets in each repeat; None: a new one.
    ``project`` is the file of the project that gave options, if any. ``options`` are those of the
    command line that an evaluation was made of, a flag as True.
    """

    name: str
    steps: tuple[PlannedStep, ...]
    label: str = ""
    repeat: int = 1
    hours: float | None = None
    ratings: tuple[Rating, ...] = ()
    points: tuple[Point, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    study: str = ""
    order_seed: int | None = None
    project: str = ""
    options: Mapping[str, str | bool] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The plan as run.json holds it."""
        return {
            "name": self.name,
            "label": self.label,
            "targets": list(self.targets),
            "repeat": self.repeat,
            "hours": self.hours,
            "ratings": [asdict(rating) for rating in self.ratings],
            "points": [asdict(point) for point in self.points],
            "notes": dict(self.notes),
            "steps": [step.document() for step in self.steps],
            **({"project": self.project} if self.project else {}),
            **({"options": dict(self.options)} if self.options else {}),
        }


def check_texts(plan: Plan) -> None:
    """Raise UsageError if a text of the plan is not UTF-8, which neither the store nor a report can
    hold."""

    def walk(where: str, value: object) -> None:
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                raise UsageError(
                    f"{where} is not UTF-8 text: '{value}'", "write it in UTF-8"
                ) from None
        elif isinstance(value, Mapping):
            for name, one in value.items():
                walk(f"'{name.replace('_', '-')}'", one)
        elif isinstance(value, list):
            for one in value:
                walk(where, one)

    walk("the plan", plan.document())


def planned_step(
    catalogue: Catalogue, measurement: str, settings: Mapping[str, str]
) -> PlannedStep:
    """A step from texts: options of the measurement and those that every step has.

    Raises UsageError for unknown names (with the nearest known one) and for wrong values.
    """
    entry = catalogue.measurement(measurement)
    options = catalogue.step_options()
    own = {option.name for option in catalogue.run_options}
    parameters: dict[str, str] = {}
    defaults: dict[str, Value] = {
        name: option.default == "yes" if option.type == "flag" else option.default
        for name, option in options.items()
        if name in own
    }
    run = dict(defaults)
    host: dict[str, Any] = {}
    for name, text in settings.items():
        if name in own and name in options:
            run[name] = read_option(catalogue, options[name], text)
        elif name in options:
            if options[name].applies_to("plan"):
                _check_answers(catalogue, entry, name)
            host.update({_FIELDS[name]: read_option(catalogue, options[name], text)})
        elif entry.has(name):
            parameters[name] = entry.normalise(name, text)
        elif name == "measurement":
            raise UsageError(f"measurement '{measurement}' is given twice", "omit one of them")
        else:
            in_files = (option.name for option in HOST_OPTIONS if option.applies == "file")
            known = [*(option.name for option in entry.options), *options, *in_files]
            raise UsageError(
                f"measurement '{measurement}' has no option '{name}'", nearest(name, known)
            )
    step = PlannedStep(
        measurement=measurement,
        parameters=MappingProxyType(parameters),
        run=MappingProxyType(run),
        role=entry.role,
        answers=entry.answers,
        times=entry.times,
        unseen_gaps=entry.unseen_gaps,
        defaults=MappingProxyType(defaults),
        **host,
    )
    _check_budget(entry, step)
    _check_settings(catalogue, step)
    return step


# Where the value of an option of the host goes.
_FIELDS: Final = {
    "budget": "budget_ns",
    "rate": "rate_per_hour",
    "log-host": "log_host",
    "log-line": "log_line",
    "log-set": "log_set",
}


def _check_answers(catalogue: Catalogue, entry: Measurement, name: str) -> None:
    """Raise UsageError where a measurement does not answer events, so needs no log host."""
    if entry.answers:
        return
    those = " or ".join(f"'{one.name}'" for one in catalogue.measurements.values() if one.answers)
    raise UsageError(
        f"measurement '{entry.name}' does not answer events that a log host could raise",
        f"omit --{name}" + (f", or measure {those}" if those else ""),
    )


def _check_budget(entry: Measurement, step: PlannedStep) -> None:
    if step.budget_ns is None:
        if step.rate_per_hour is not None:
            raise UsageError(
                f"measurement '{entry.name}': a rate is given without the budget that it belongs "
                "to",
                "give the latency allowed with --budget, such as --budget 150us",
            )
        return
    if not any(one.unit == "ns" for one in entry.series):
        raise UsageError(
            f"measurement '{entry.name}' has no durations that a budget could apply to",
            f"omit the budget. 'rtgauge describe {entry.name}' lists its tests",
        )
    if step.rate_per_hour is not None and not entry.has("interval"):
        raise UsageError(
            f"measurement '{entry.name}' repeats an operation and has no rate per hour",
            "omit the rate. The budget is then judged per operation and allows no exceedance",
        )


def _check_settings(catalogue: Catalogue, step: PlannedStep) -> None:
    """Raise UsageError where the settings are both kept and changed."""
    for option in catalogue.run_options if step.flag(KEEP) else ():
        if option.changes and step.run.get(option.name):
            raise UsageError(
                f"measurement '{step.measurement}': --{option.name} changes {option.changes}, "
                f"which --{KEEP} forbids",
                f"omit --{option.name} or --{KEEP}",
            )


def describe_step(step: PlannedStep) -> str:
    """A step in a few words for people: ``timer --interval 100us, load sched``."""
    words = [step.measurement]
    words += [f"--{name} {value}" for name, value in step.parameters.items()]
    text = " ".join(words)
    if step.loads != IDLE:
        text += f", load {step.loads}"
    elif step.role == "measurement":
        text += ", idle"
    if disturb := step.text("disturb"):
        text += f", disturbed by {disturb}"
    if mark := step.text("mark"):
        text += f", mark {mark}"
    if step.budget_ns is not None:
        text += f", budget {format_duration(step.budget_ns)}"
    return text
