# SPDX-License-Identifier: Apache-2.0
"""Plans: which measurements, with which parameters, under which loads, how often.

A plan comes from a TOML file (docs/plans.md), from the arguments of one command, or from the
catalogue itself (``rtgauge evaluate``). Whatever its source, it has been checked against the
catalogue of the target before anything is started there.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import rtgauge
from rtgauge.catalogue import Catalogue, Measurement, Option
from rtgauge.errors import UsageError, nearest
from rtgauge.plan.disturb import normalise_disturb
from rtgauge.units import (
    format_cpus,
    format_duration,
    parse_cpus,
    parse_duration,
    parse_integer,
    parse_rate,
)

__all__ = [
    "LOG_HOST",
    "LOG_HOST_KEYS",
    "REPEAT_MAX",
    "RESPONSE",
    "STEP_KEYS",
    "Plan",
    "PlannedStep",
    "Rating",
    "calibration_steps",
    "check_texts",
    "describe_step",
    "ends_ns",
    "evaluation_plan",
    "expected_ns",
    "has_time_grid",
    "plan_summary",
    "plan_targets",
    "planned_step",
    "read_plan",
    "scaled",
    "shipped_plans",
    "thorough_parameters",
]

_TABLES: Final = ("plan", "step", "rating")
_RATING_KEYS: Final = ("subject", "rating", "reason")
_PLAN_KEYS: Final = (
    "name", "summary", "label", "targets", "repeat", "hours", "log-host", "log-line", "log-set",
)  # fmt: skip
STEP_KEYS: Final = (
    "measurement",
    "load",
    "load-cpu",
    "load-cmd",
    "mark",
    "disturb",
    "budget",
    "rate",
    "histogram-only",
    "keep-settings",
    "prepare",
    "log-host",
    "log-line",
    "log-set",
)
# What a step of a file may have besides: it says nothing for a step alone.
_FILE_KEYS: Final = (*STEP_KEYS, "share")
# What answers events from outside, and what raises them and times the answers (engine.pair).
RESPONSE: Final = "response"
LOG_HOST: Final = "log-host"
LOG_HOST_KEYS: Final = ("log-host", "log-line", "log-set")
REPEAT_MAX: Final = 10_000
# A plan of 100 000 steps takes 5 MB.
PLAN_BYTES_MAX: Final = 16 << 20
HOURS_MAX: Final = 24.0 * 366
SHARE_MAX: Final = 1e9
RATING_MAX: Final = 10
NOT_APPLICABLE: Final = "N.A."
SUBJECT_LETTERS_MAX: Final = 60
_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True)
class PlannedStep:
    """One measurement with its parameters under one load.

    ``parameters`` holds the options that were given, in their shortest notation; the others stand
    at the agent's defaults. ``load_command`` is a shell command that is a load of its own
    (``load_command_root``: with the agent's rights, not with those of the user who called sudo),
    ``mark`` a line that shows the samples to an analyser, ``gpio:CHIP:LINE``,
    ``disturb`` a disturbance put in on purpose, ``KIND:LENGTH:PERIOD``.
    ``budget_ns`` and ``rate_per_hour`` are the requirement, if any. ``share`` is the step's part of
    the plan's hours. ``log_host`` is the target that raises events for this step and times the
    answers, ``log_line`` its lines, ``log_set`` its own options: ``cpu=1 priority=90``.
    """

    measurement: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    load: str = "idle"
    load_cpu: str = ""
    load_command: str = ""
    load_command_root: bool = False
    mark: str = ""
    disturb: str = ""
    budget_ns: int | None = None
    rate_per_hour: float | None = None
    role: str = "measurement"
    histogram_only: bool = False
    keep_settings: bool = False
    prepare: bool = False
    share: float | None = None
    log_host: str = ""
    log_line: str = ""
    log_set: str = ""

    @property
    def loads(self) -> str:
        """All that the target is to do meanwhile, as its loads are named: ``sched,command``."""
        if not self.load_command:
            return self.load
        return "command" if self.load == "idle" else f"{self.load},command"

    def arguments(self) -> list[str]:
        """The agent's arguments for this step, without those that belong to the run."""
        words = ["run", self.measurement]
        for name, value in self.parameters.items():
            words += [f"--{name}", value]
        words += ["--load", self.load]
        if self.load_cpu:
            words += ["--load-cpu", self.load_cpu]
        if self.load_command:
            words += ["--load-cmd", self.load_command]
            words += ["--load-cmd-root"] if self.load_command_root else []
        if self.mark:
            words += ["--mark", self.mark]
        if self.disturb:
            words += ["--disturb", self.disturb]
        if self.histogram_only:
            words.append("--histogram-only")
        if self.keep_settings:
            words.append("--keep-settings")
        if self.prepare:
            words.append("--prepare")
        return words

    def document(self) -> dict[str, Any]:
        """The step as run.json holds it under ``plan``."""
        return {
            "measurement": self.measurement,
            "parameters": dict(self.parameters),
            "load": self.load,
            "load_cpu": self.load_cpu,
            "load_command": self.load_command,
            "load_command_root": self.load_command_root,
            "mark": self.mark,
            "disturb": self.disturb,
            "budget_ns": self.budget_ns,
            "rate_per_hour": self.rate_per_hour,
            "role": self.role,
            "histogram_only": self.histogram_only,
            "keep_settings": self.keep_settings,
            "prepare": self.prepare,
            "share": self.share,
            "log_host": self.log_host,
            "log_line": self.log_line,
            "log_set": self.log_set,
        }


@dataclass(frozen=True)
class Rating:
    """The evaluator's rating of something that no program can judge: 0 to 10, or ``N.A.``."""

    subject: str
    rating: float | str
    reason: str


@dataclass(frozen=True)
class Plan:
    """What is to be carried out, ``repeat`` times, on each target; ``targets`` are those that the
    plan itself names, ``ratings`` the evaluator's own, for the report."""

    name: str
    steps: tuple[PlannedStep, ...]
    label: str = ""
    repeat: int = 1
    hours: float | None = None
    ratings: tuple[Rating, ...] = ()
    targets: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The plan as run.json holds it."""
        return {
            "name": self.name,
            "label": self.label,
            "targets": list(self.targets),
            "repeat": self.repeat,
            "hours": self.hours,
            "ratings": [asdict(rating) for rating in self.ratings],
            "steps": [step.document() for step in self.steps],
        }


def check_texts(plan: Plan) -> None:
    """Raises UsageError if a text of the plan is not UTF-8, which neither the store nor a
    report can hold."""

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
            known = [*(option.name for option in entry.options), *_FILE_KEYS[1:]]
            raise UsageError(
                f"measurement '{measurement}' has no option '{name}'", nearest(name, known)
            )
    if common.get("rate_per_hour") is not None and common.get("budget_ns") is None:
        raise UsageError(
            f"measurement '{measurement}': a rate is given but no budget that it belongs to",
            "give the latency allowed with --budget, e.g. --budget 150us",
        )
    if common.get("budget_ns") is not None:
        if not any(one.unit == "ns" for one in entry.series):
            raise UsageError(
                f"measurement '{measurement}' has no durations that a budget could judge",
                "leave the budget out; what it judges itself says "
                f"'rtgauge describe {measurement}'",
            )
        if common.get("rate_per_hour") is not None and not entry.has("interval"):
            raise UsageError(
                f"measurement '{measurement}' repeats an operation and has no rate per hour",
                "omit the rate; the budget is then judged per operation and allows no exceedance",
            )
    if common.get("prepare") and common.get("keep_settings"):
        raise UsageError(
            f"measurement '{measurement}': the target is to be prepared, and left as it is",
            "leave one of prepare and keep-settings out",
        )
    if common.get("disturb") and common.get("keep_settings"):
        raise UsageError(
            f"measurement '{measurement}': the target is to be disturbed, and left as it is",
            "leave one of disturb and keep-settings out",
        )
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
        case "disturb":
            return {"disturb": normalise_disturb(text)}
        case "load-cmd" | "mark" | "budget" | "rate":
            field_name, read, remedy = _READ[name]
            return {field_name: value(read, remedy)}
        case "histogram-only" | "keep-settings" | "prepare":
            if text not in ("yes", "no"):
                raise UsageError(
                    f"'{name}': '{text}' is neither yes nor no", "write true or false in a plan"
                )
            return {name.replace("-", "_"): text == "yes"}
        case "log-host" | "log-line" | "log-set":
            if entry.name != RESPONSE:
                raise UsageError(
                    f"measurement '{entry.name}' answers no events that a log host could raise",
                    f"leave '{name}' out; what does is '{RESPONSE}'",
                )
            return {name.replace("-", "_"): text.strip()}
    raise UsageError(f"measurement '{entry.name}' is given twice", "leave one of them out")


def _mark(text: str) -> str:
    if not re.fullmatch(r"gpio:[^\s:].*:[^\s:]+", text := text.strip()):
        raise ValueError(f"'{text}' is no line to mark on")
    return text


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


def _command(text: str) -> str:
    text = text.strip()
    if not text or "\n" in text or "\0" in text:
        raise ValueError("a command has one line, with something in it")
    return text


# Where the value of a key of a step goes, how it is read, and the remedy where it cannot be.
_READ: Final[Mapping[str, tuple[str, Callable[[str], Any], str]]] = {
    "load-cmd": ("load_command", _command, "give one line, as for a shell"),
    "mark": ("mark", _mark, "give it as gpio:CHIP:LINE, e.g. gpio:gpiochip0:17"),
    "budget": ("budget_ns", _budget, "give the latency allowed, e.g. 150us"),
    "rate": ("rate_per_hour", _rate, "give how often it may be exceeded, e.g. 1/h"),
}


def _text(value: object, option: Option | None) -> str:
    """A value of a TOML file as the text that an option takes; ValueError if it is none."""
    if isinstance(value, list) and option is not None and option.type == "enums":
        return ",".join(_text(one, None) for one in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    raise ValueError(f"{_shown(value)} is neither a text, a whole number nor true or false")


def read_plan(path: Path, catalogue: Catalogue) -> Plan:
    """Read a plan file and check it against what the target can do.

    Raises UsageError: one line that names file, step and key.
    """
    return _plan(_document(path), path, catalogue)


def plan_summary(path: Path) -> str:
    """What a plan says of itself in a line; empty if it says nothing, or is no plan."""
    try:
        summary = _document(path)["plan"]["summary"]
    except (UsageError, KeyError, TypeError):
        return ""
    return summary if isinstance(summary, str) else ""


def plan_targets(path: Path) -> tuple[str, ...]:
    """The targets that a plan names, each once, in its order; none if it names none. This much has
    to be known before there is a catalogue to read the plan by. Raises UsageError as
    ``read_plan`` does."""
    head = _document(path).get("plan", {})
    return _targets(head, path) if isinstance(head, dict) else ()


def _targets(head: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    names = head.get("targets", [])
    if not isinstance(names, list) or not all(
        isinstance(name, str) and name.strip() for name in names
    ):
        raise UsageError(
            f"{path}, [plan], key 'targets': {_shown(names)} is not a list of targets",
            'write targets = ["lab:x86_64-rt", "lab:x86_64-stock"]',
        )
    stripped = [name.strip() for name in names]
    for name in stripped:
        if stripped.count(name) > 1:
            raise UsageError(
                f"{path}, [plan], key 'targets': '{name}' is there twice",
                "to measure it more often, raise 'repeat'",
            )
    return tuple(stripped)


def _plan_bytes(path: Path) -> bytes:
    # without waiting: opening a FIFO blocks until somebody writes to it
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        why = "" if stat.S_ISREG(os.fstat(descriptor).st_mode) else "not a regular file"
        if not why:
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(PLAN_BYTES_MAX + 1)
            why = "" if len(data) <= PLAN_BYTES_MAX else f"more than {PLAN_BYTES_MAX >> 20} MiB"
    finally:
        os.close(descriptor)
    if why:
        raise UsageError(f"{path} is not a plan: {why}", "a plan is a TOML file: see docs/plans.md")
    return data


def _document(path: Path) -> dict[str, Any]:
    try:
        text = _plan_bytes(path).decode()
    except OSError as error:
        raise UsageError(
            f"plan {path} cannot be read: {error.strerror}", "check the path and its permissions"
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"plan {path} is not UTF-8 text", "a plan is a TOML file") from None
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: a number of thousands of digits
        if path.suffix != ".toml":
            raise UsageError(
                f"{path} is not a plan", "a plan is a TOML file: see docs/plans.md"
            ) from None
        raise UsageError(
            f"plan {path} is not TOML: {error}", "correct the plan; docs/plans.md has examples"
        ) from None


def _plan(document: Mapping[str, Any], path: Path, catalogue: Catalogue) -> Plan:
    _known_keys(document, _TABLES, f"{path}")
    head = document.get("plan", {})
    if not isinstance(head, dict):
        raise UsageError(f"{path}: 'plan' is not a table", "write [plan]")
    _known_keys(head, _PLAN_KEYS, f"{path}, [plan]")
    for key in ("name", "summary", "label", *LOG_HOST_KEYS):
        if not isinstance(head.get(key, ""), str):
            raise UsageError(
                f"{path}, [plan], key '{key}': {_shown(head[key])} is not a text",
                f'write {key} = "..."',
            )
    repeat = head.get("repeat", 1)
    if type(repeat) is not int or not 1 <= repeat <= REPEAT_MAX:
        raise UsageError(
            f"{path}, [plan], key 'repeat': {_shown(repeat)} is not a whole number "
            f"from 1 to {REPEAT_MAX}",
            "write repeat = 3",
        )
    hours = head.get("hours")
    if hours is not None and not _positive(hours, HOURS_MAX):
        raise UsageError(
            f"{path}, [plan], key 'hours': {_shown(hours)} is not a number up to {HOURS_MAX:.0f}",
            "write hours = 8, or hours = 0.5",
        )
    entries = document.get("step", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{path}: 'step' is not a list of tables", "write each as [[step]]")
    if not entries:
        raise UsageError(f"{path}: the plan has no step", "add a [[step]] with a measurement")
    steps = tuple(
        _file_step(_timed(entry, head), f"{path}, step {number} of {len(entries)}", catalogue)
        for number, entry in enumerate(entries, 1)
    )
    plan = Plan(
        head.get("name") or path.stem,
        steps,
        head.get("label", ""),
        repeat,
        ratings=_ratings(document, path),
        targets=_targets(head, path),
    )
    if hours is None and any(step.share is not None for step in steps):
        raise UsageError(
            f"{path}: steps have a share, but the plan has no hours to be shared",
            "give the plan its length: hours = 8 below [plan]",
        )
    try:
        return plan if hours is None else scaled(plan, float(hours), catalogue)
    except UsageError as error:
        raise UsageError(f"{path}: {error}", error.remedy) from None


def _ratings(document: Mapping[str, Any], path: Path) -> tuple[Rating, ...]:
    """The evaluator's ratings, each of a subject of its own, with its reason."""
    entries = document.get("rating", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{path}: 'rating' is not a list of tables", "write each as [[rating]]")
    ratings: list[Rating] = []
    for number, entry in enumerate(entries, 1):
        where = f"{path}, rating {number} of {len(entries)}"
        _known_keys(entry, _RATING_KEYS, where)
        texts = {key: entry.get(key, "") for key in ("subject", "reason")}
        for key, text in texts.items():
            if not isinstance(text, str) or not text.strip():
                raise UsageError(
                    f"{where}: key '{key}' is no text",
                    "say what is rated, and why: a rating without its reason is worth nothing",
                )
        subject, reason = (" ".join(text.split()) for text in texts.values())
        if len(subject) > SUBJECT_LETTERS_MAX:
            raise UsageError(
                f"{where}: the subject is longer than {SUBJECT_LETTERS_MAX} letters",
                "shorten it, and write the details in the reason",
            )
        if subject in [rating.subject for rating in ratings]:
            raise UsageError(f"{where}: '{subject}' is rated twice", "leave one of the ratings out")
        value = entry.get("rating")
        rated = type(value) in (int, float) and 0 <= value <= RATING_MAX  # nan is not within
        if not rated and value != NOT_APPLICABLE:
            raise UsageError(
                f"{where}: key 'rating': {_shown(value)} is not a number from 0 to {RATING_MAX} "
                f'or "{NOT_APPLICABLE}"',
                f'write rating = 8, or rating = "{NOT_APPLICABLE}"',
            )
        ratings.append(Rating(subject, value, reason))
    return tuple(ratings)


def _shown(value: object) -> str:
    """A value of the file as a message shows it."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, or nested as deep
        return "this"
    return text if len(text) <= 60 else f"{text[:59]}…"


def _positive(value: object, limit: float) -> bool:
    return type(value) in (int, float) and 0 < value <= limit  # type: ignore[operator]


def scaled(plan: Plan, hours: float, catalogue: Catalogue) -> Plan:
    """The plan with ``hours`` divided among its steps by their shares; steps without a share keep
    their length. Raises UsageError if no step has one, or a step would be too short."""
    total = sum(step.share or 0 for step in plan.steps)
    if not total:
        raise UsageError(
            "no step of the plan has a share of its hours", "give each its part, as in share = 1"
        )
    if not _positive(hours, HOURS_MAX):
        raise UsageError(f"{hours:g} hours are none that a plan can last", "give 8, or 0.5")
    steps = []
    left = 0.0  # what the steps before have been given too little
    for step in plan.steps:
        if step.share is None:
            steps.append(step)
            continue
        exact = hours * step.share / total * _HOUR_MS + left
        milliseconds = _rounded(exact)
        left = exact - milliseconds
        length = format_duration(milliseconds * 10**6)
        if milliseconds == 0:
            raise UsageError(
                f"{hours:g} hours leave nothing for {step.measurement}",
                "raise hours, or the step's share",
            )
        entry = catalogue.measurement(step.measurement)
        lasting = {**step.parameters, "for": entry.normalise("for", length)}
        steps.append(replace(step, parameters=MappingProxyType(lasting)))
    return replace(plan, steps=tuple(steps), hours=hours)


def _rounded(milliseconds: float) -> int:
    """A length in whole seconds, a short one in whole milliseconds."""
    unit = 1000 if milliseconds >= 10_000 else 1
    return max(round(milliseconds / unit) * unit, 0)


def shipped_plans() -> dict[str, Path]:
    """The ready plans that came with this program, by name: in the package, or in the clone."""
    package = Path(rtgauge.__file__).parent
    for folder in (package / "plans", package.parent.parent / "plans"):
        found = sorted(folder.glob("*.toml"))
        if found:
            return {path.stem: path for path in found}
    return {}


def _known_keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise UsageError(f"{where}: unknown key '{key}'", nearest(key, known))


def _timed(entry: Mapping[str, Any], head: Mapping[str, Any]) -> Mapping[str, Any]:
    """A step with the log host that the plan names for all that can have one."""
    if entry.get("measurement") != RESPONSE:
        return entry
    return {**{key: head[key] for key in LOG_HOST_KEYS if head.get(key)}, **entry}


def _file_step(entry: Mapping[str, Any], where: str, catalogue: Catalogue) -> PlannedStep:
    name = entry.get("measurement")
    if name is None:
        for key in entry:
            if difflib.get_close_matches(key, STEP_KEYS[:1], cutoff=0.6):
                raise UsageError(f"{where}: unknown key '{key}'", nearest(key, STEP_KEYS[:1]))
    if not isinstance(name, str):
        problem = "is missing" if name is None else f"{_shown(name)} is not a text"
        raise UsageError(
            f"{where}: key 'measurement' {problem}", nearest("", catalogue.measurements)
        )
    share = entry.get("share")
    if share is not None and not _positive(share, SHARE_MAX):
        raise UsageError(
            f"{where}, key 'share': {_shown(share)} is not a number above 0, up to 1e9",
            "write share = 1",
        )
    if share is not None and "for" in entry:
        raise UsageError(
            f"{where}: both 'share' and 'for' say how long it lasts", "leave one of them out"
        )
    settings: dict[str, str] = {}
    step = None
    for key, value in entry.items():
        if key in ("measurement", "share"):
            continue
        try:
            settings[key] = _text(value, _option(catalogue, name, key))
            if key != "rate":  # a rate is checked together with its budget
                planned_step(catalogue, name, {key: settings[key]})
        except (UsageError, ValueError) as error:
            remedy = error.remedy if isinstance(error, UsageError) else f'write {key} = "..."'
            raise UsageError(f"{where}, key '{key}': {error}", remedy) from None
    try:
        step = planned_step(catalogue, name, settings)
    except UsageError as error:
        raise UsageError(f"{where}: {error}", error.remedy) from None
    if share is not None and not catalogue.measurement(name).has("for"):
        raise UsageError(
            f"{where}: measurement '{name}' takes as long as it takes", "leave 'share' out"
        )
    return replace(step, share=None if share is None else float(share))


def _option(catalogue: Catalogue, measurement: str, name: str) -> Option | None:
    entry = catalogue.measurements.get(measurement)
    return entry.option(name) if entry is not None and entry.has(name) else None


def has_time_grid(entry: Measurement) -> bool:
    """Whether it waits for due times: what a latency is counted from, and a budget is for."""
    return entry.has("interval") and any(one.start == "due time" for one in entry.series)


def evaluation_plan(
    catalogue: Catalogue,
    *,
    settings: Mapping[str, str] | None = None,
    thorough: bool = False,
) -> Plan:
    """The whole catalogue in its order, as its entries ``evaluate`` say.

    ``settings`` are given to every step that has a use for them (``_useful``). ``thorough``: with
    the parameters of long runs. Raises UsageError if nothing is to be done.
    """
    steps = []
    for entry in catalogue.measurements.values():
        if entry.role == "calibration":
            continue  # carried out anyway, before the others
        for evaluation in entry.evaluate:
            wanted = {**evaluation.parameters, **(evaluation.thorough if thorough else {})}
            wanted.update(_useful(entry, wanted, settings or {}))
            steps.append(planned_step(catalogue, entry.name, {**wanted, "load": evaluation.load}))
    if not steps:
        raise UsageError(
            "this target's agent names nothing to evaluate",
            "choose a measurement yourself: rtgauge run MEASUREMENT",
        )
    return Plan("evaluate", tuple(steps))


def _useful(
    entry: Measurement, parameters: Mapping[str, str], settings: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """What of settings for a whole evaluation a step of it takes over.

    A budget (and its rate) is one for latencies: where there is a time grid. A length is one for
    steps that last for a time; those that end with their samples are complete when these are
    there. A number of samples is brought into each one's range.
    """
    for name, text in settings.items():
        if name in ("budget", "rate"):
            useful = has_time_grid(entry)
        elif name == "for":
            useful = entry.has(name) and _lasts(entry, parameters)
        else:
            useful = name in STEP_KEYS or entry.has(name)
        if useful:
            yield name, _in_range(entry.option(name), text) if name == "samples" else text


def _lasts(entry: Measurement, parameters: Mapping[str, str]) -> bool:
    """Whether a step with these parameters ends when its time is up, not with its samples before:
    where both are given the time is a limit, for machines that are slower than most."""

    def value(name: str) -> str:
        return parameters.get(name, entry.option(name).default) or "0"

    if entry.has("samples") and parse_integer(value("samples")):
        return False
    return parse_duration(value("for")) > 0


def _in_range(option: Option, text: str) -> str:
    """A number, or the end of the option's range that is nearest to it."""
    try:
        value = option.number(text)
    except ValueError:
        return text  # whoever reads it says what is wrong
    if option.min and value < option.number(option.min):
        return option.min
    if option.max and value > option.number(option.max):
        return option.max
    return text


def thorough_parameters(entry: Measurement, load: str) -> Mapping[str, str]:
    """The parameters of a long run: those of the evaluation's step under this load, else of its
    first. Raises UsageError where the measurement names none."""
    steps = sorted(entry.evaluate, key=lambda step: step.load != load)
    found = next((step.thorough for step in steps if step.thorough), None)
    if found is None:
        raise UsageError(
            f"measurement '{entry.name}' does not say what a thorough run of it is",
            "give its options yourself, --samples or --for among them",
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
        step = PlannedStep(entry.name, role="calibration")
        cpus = _cpus(plan, catalogue)
        if cpus and entry.has("cpu"):
            step = replace(step, parameters=MappingProxyType({"cpu": cpus}))
        if any(planned.keep_settings for planned in plan.steps):
            step = replace(step, keep_settings=True)
        elif any(planned.prepare for planned in plan.steps):
            step = replace(step, prepare=True)  # what is subtracted has to be as what it is from
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


def ends_ns(step: PlannedStep, catalogue: Catalogue) -> tuple[int | None, int | None]:
    """By its options, when a step's time is up, and when it has its samples if no period is missed;
    None where they do not say."""
    entry = catalogue.measurement(step.measurement)

    def value(name: str) -> str:
        if not entry.has(name):
            return ""
        return step.parameters.get(name, entry.option(name).default)

    time_ns = parse_duration(value("for")) if value("for") else 0
    samples = parse_integer(value("samples")) if value("samples") else 0
    interval_ns = parse_duration(value("interval")) if samples and value("interval") else 0
    return time_ns or None, samples * interval_ns or None


def expected_ns(step: PlannedStep, catalogue: Catalogue) -> int | None:
    """How long a step measures, from its options; None where they do not say.

    With both a time and a number of samples the earlier end counts.
    """
    return min(filter(None, ends_ns(step, catalogue)), default=None)


def describe_step(step: PlannedStep) -> str:
    """A step in a few words for people: ``timer --interval 100us, load sched``."""
    words = [step.measurement]
    words += [f"--{name} {value}" for name, value in step.parameters.items()]
    text = " ".join(words)
    if step.loads != "idle":
        text += f", load {step.loads}"
    elif step.role == "measurement":
        text += ", no load added"
    if step.disturb:
        text += f", disturbed by {step.disturb}"
    if step.budget_ns is not None:
        text += f", budget {format_duration(step.budget_ns)}"
    return text
