# SPDX-License-Identifier: Apache-2.0
"""What a target's agent can do, as the agent itself describes it (docs/formats/catalogue.md).

The command line, the validation of plans, the live view, the store and the report are driven by
this description: nothing on the host knows a measurement by its name.

Values are text everywhere (command line, plans, stream). ``Option.normalise`` reads one, checks
its range and returns the shortest exact text for it. Their notation is in ``units``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeVar

from rtgauge.errors import TargetError, UsageError, nearest
from rtgauge.facts import printable
from rtgauge.options import HOST_OPTIONS, TYPES, Option, RunOption

__all__ = [
    "CONTEXTS",
    "Catalogue",
    "Evaluation",
    "Load",
    "Measurement",
    "Option",
    "Profile",
    "Rule",
    "RunOption",
    "Series",
    "Table",
]

CONTEXTS: Final = ("irq", "softirq", "threaded", "workqueue", "kernel", "user")
# Options of every load: when in a cycle it works.
_CYCLE: Final = ("cycle", "from", "until")
#: The options of measurements that the host itself reads.
_READ: Final = {"cpu": "cpus", "for": "duration", "interval": "duration", "samples": "integer"}

# Names that no measurement's option may have: the command line and plans use them.
_RESERVED: Final = frozenset({"help", "measurement", *(option.name for option in HOST_OPTIONS)})
_APPLIES: Final = ("step", "command", "host")


@dataclass(frozen=True)
class Series:
    """One quantity that a measurement samples; ``stages``: the way a sample spans, in order;
    ``stages_in``: the same for the contexts in which it is another one."""

    name: str
    unit: str = "ns"
    meaning: str = ""
    start: str = ""
    end: str = ""
    stages: tuple[str, ...] = ()
    stages_in: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A table that a measurement yields."""

    name: str
    meaning: str = ""


@dataclass(frozen=True)
class Rule:
    """A rule of behaviour that a measurement tests."""

    rule: str
    meaning: str = ""
    known_limitation: str = ""
    """Why it fails on every system with the C library of this agent. Empty for most rules."""


@dataclass(frozen=True)
class Evaluation:
    """One step of ``rtgauge evaluate``; ``thorough``: the parameters that are otherwise with
    ``--thorough``."""

    parameters: Mapping[str, str] = field(default_factory=dict)
    load: str = "idle"
    thorough: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Named:
    name: str
    summary: str
    options: tuple[Option, ...]

    kind = "entry"

    def has(self, name: str) -> bool:
        """Whether there is an option of that name."""
        return any(option.name == name for option in self.options)

    def option(self, name: str) -> Option:
        """The option of that name. Raises UsageError with the nearest one."""
        for option in self.options:
            if option.name == name:
                return option
        raise UsageError(
            f"{self.kind} '{self.name}' has no option '{name}'",
            nearest(name, (option.name for option in self.options)),
        )

    def normalise(self, name: str, text: str) -> str:
        """The value of an option in its shortest notation. Raises UsageError."""
        try:
            return self.option(name).normalise(text)
        except ValueError as error:
            raise UsageError(
                f"{self.kind} '{self.name}', option '{name}': {error}",
                f"{name}: {self.option(name).help}" if self.option(name).help else "",
            ) from None


@dataclass(frozen=True)
class Load(_Named):
    """A load that a target offers. ``unit``: the unit of its work."""

    unit: str = ""

    kind = "load"


@dataclass(frozen=True)
class Profile:
    """A mix of loads under one name. ``mix`` is the text of its loads."""

    name: str
    summary: str
    mix: str


@dataclass(frozen=True)
class Measurement(_Named):
    """One thing that can be measured.

    ``role`` is ``measurement`` or ``calibration``. ``chapter`` is the part of an evaluation that it
    belongs to; empty if the agent names none. ``mark`` contains when the line of ``--mark``
    ``rises`` and ``falls``; empty if the measurement cannot be marked. ``answers``: it answers
    events that another machine can raise. ``times``: the measurement whose answers it times.
    ``needs``: what its steps are skipped without, ``priorities`` or ``module``; empty: nothing.
    ``not_on_cobalt``: why tasks of the Cobalt core cannot measure it; empty where they can.
    ``unseen_gaps``: the series of gaps that the kernel did not see; the others are gaps with other
    causes. Empty for a measurement of other things.
    """

    code: str = ""
    role: str = "measurement"
    chapter: str = ""
    contexts: tuple[str, ...] = ()
    series: tuple[Series, ...] = ()
    tables: tuple[Table, ...] = ()
    verdicts: tuple[Rule, ...] = ()
    evaluate: tuple[Evaluation, ...] = ()
    mark: Mapping[str, str] = field(default_factory=dict)
    answers: bool = False
    times: str = ""
    needs: str = ""
    not_on_cobalt: str = ""
    unseen_gaps: str = ""

    kind = "measurement"


@dataclass(frozen=True)
class Catalogue:
    """Everything an agent can do. ``document`` is the description as the agent printed it.

    ``load_options`` are those that every load has in addition to its own, ``run_options`` those of
    every run; the latter are empty in stored descriptions of older agents.
    """

    agent: str
    libc: str
    measurements: Mapping[str, Measurement]
    loads: Mapping[str, Load]
    load_options: tuple[Option, ...]
    run_options: tuple[RunOption, ...]
    profiles: Mapping[str, Profile]
    document: Mapping[str, Any]

    def measurement(self, name: str) -> Measurement:
        """The measurement of that name. Raises UsageError with the nearest one."""
        if name not in self.measurements:
            raise UsageError(f"unknown measurement '{name}'", nearest(name, self.measurements))
        return self.measurements[name]

    def timing(self, name: str) -> Measurement:
        """The measurement that times the answers of measurement ``name``. Raises UsageError."""
        for entry in self.measurements.values():
            if entry.times == name:
                return entry
        raise UsageError(
            f"this agent has no measurement that times the answers of '{name}'",
            "use an rtgauge-agent of the same version as this rtgauge on the log host",
        )

    def step_options(self) -> Mapping[str, RunOption]:
        """The options that a step of a plan can have, whatever it measures."""
        known = (*self.run_options, *HOST_OPTIONS)
        return {option.name: option for option in known if option.applies_to("step")}

    def load(self, name: str) -> Load:
        """The load of that name, with the options of every load after its own. Raises UsageError
        with the nearest load or profile."""
        if name not in self.loads:
            known = [*self.loads, *self.profiles, "idle"]
            raise UsageError(f"unknown load '{name}'", nearest(name, known))
        load = self.loads[name]
        return replace(load, options=(*load.options, *self.load_options))

    def normalise_load(self, text: str) -> str:
        """Check ``NAME[:option=value…][,NAME…]``, where a profile's name may stand for a load's,
        and bring its values into their shortest form. Raises UsageError."""
        text = text.strip()
        if text in ("", "idle"):
            return "idle"
        return ",".join(self._normalise_part(text, part.strip()) for part in text.split(","))

    def _normalise_part(self, text: str, part: str) -> str:
        name, *pairs = part.split(":")
        if name == "idle":
            raise UsageError(
                f"load '{text}': 'idle' cannot be combined with other loads", "omit 'idle'"
            )
        if name in self.profiles and name not in self.loads:
            return ":".join([name, *(f"{k}={v}" for k, v in self._open(text, name, pairs))])
        load = self.load(name)
        given: dict[str, str] = {}
        for pair in pairs:
            option, equals, value = pair.partition("=")
            if not equals:
                raise UsageError(
                    f"load '{text}': '{pair}' is not option=value",
                    f"write it as {name}:OPTION=VALUE",
                )
            if option in given:
                raise UsageError(
                    f"load '{text}': '{option}' is given twice for {name}", "omit one of them"
                )
            given[option] = load.normalise(option, value)
        self._check_cycle(text, name, given)
        return ":".join([name, *(f"{option}={value}" for option, value in given.items())])

    def _open(self, text: str, name: str, pairs: Iterable[str]) -> Iterator[tuple[str, str]]:
        """The options given to a profile, in their shortest form. Each goes to those of its loads
        that have it and are not given it by the profile."""
        mix = self.profiles[name].mix
        parts = [part.split(":") for part in mix.split(",")]
        for pair in pairs:
            option, _, value = pair.partition("=")
            takers = [
                self.load(load)
                for load, *fixed in parts
                if self.load(load).has(option)
                and option not in [one.partition("=")[0] for one in fixed]
            ]
            if not takers:
                raise UsageError(
                    f"load '{text}': no load of {name} has the option '{option}', or {name} "
                    "already sets it",
                    f"give the loads of {name} instead: {mix}",
                )
            yield option, min({taker.normalise(option, value) for taker in takers})

    def _check_cycle(self, text: str, name: str, given: Mapping[str, str]) -> None:
        """A load works from one moment of a cycle to a later one, within it."""
        known = {option.name: option for option in self.load_options if option.name in _CYCLE}
        if len(known) < len(_CYCLE):
            return
        cycle, start, end = (known[word].number(given.get(word, "0")) for word in _CYCLE)
        if cycle == 0 and (start or end):
            raise UsageError(
                f"load '{text}': {name} has 'from' or 'until' but no cycle",
                f"add the length of the cycle: {name}:cycle=65s:…",
            )
        if start >= (end or cycle) > 0 or end > cycle:
            raise UsageError(
                f"load '{text}': {name} would never work, or work beyond its cycle",
                "give 'from' before 'until', and 'until' within the cycle (0: its end)",
            )

    @classmethod
    def from_json(cls, text: str | bytes) -> Catalogue:
        """Read what the ``describe`` of an agent that is to measure printed.

        Raises TargetError for anything but a catalogue, and for an agent that is too old.
        """
        try:
            document = json.loads(
                text, parse_constant=_no_number, parse_float=_finite, parse_int=_int64
            )
            json.dumps(document, ensure_ascii=False).encode()  # half a surrogate pair cannot be
        except (ValueError, RecursionError) as error:
            raise TargetError(
                f"the agent's description is not JSON: {error}",
                "check that RTGAUGE_AGENT names an rtgauge-agent",
            ) from None
        catalogue = cls.from_document(document)
        if not catalogue.run_options:
            raise TargetError(
                f"the agent has version {catalogue.agent or 'unknown'} and does not describe the "
                "options of a run ('run_options')",
                "use an rtgauge-agent of the same version as this rtgauge",
            )
        return catalogue

    @classmethod
    def from_document(cls, document: object) -> Catalogue:
        """Read the JSON document, also one that an older agent printed and the store has kept.

        Raises TargetError that names the wrong place.
        """
        top = _Reader("catalogue", document)
        if top.text("format") != "rtgauge-catalogue":
            raise _wrong("it is not an rtgauge catalogue")
        if top.document.get("version") != 1:
            raise TargetError(
                f"the agent's catalogue has version {top.document.get('version')}, "
                "but this rtgauge reads version 1",
                "install the rtgauge of the agent's version",
            )
        run_options = _run_options(top)
        reserved = _RESERVED | {option.name for option in run_options}
        measurements = [_measurement(entry, reserved) for entry in top.maps("measurements")]
        load_options = _options(top, frozenset(), "load_options")
        for option in load_options:
            if option.name in _CYCLE and option.type != "duration":
                raise _wrong(f"option '{option.name}' of every load is not a duration")
        common = frozenset(option.name for option in load_options)
        loads = [_load(entry, common) for entry in top.maps("loads")]
        profiles = [_profile(entry) for entry in top.maps("profiles")]
        return cls(
            agent=top.text("agent"),
            libc=top.text("libc"),
            measurements=_unique("measurement", measurements),
            loads=_unique("load", loads),
            load_options=load_options,
            run_options=run_options,
            profiles=_unique("profile", profiles),
            document=MappingProxyType(dict(top.document)),
        )


def _wrong(text: str) -> TargetError:
    return TargetError(
        f"the agent's description is wrong: {text}",
        "use an rtgauge-agent of the same version as this rtgauge",
    )


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


def _int64(text: str) -> int:
    # others cannot be exported with the run
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{text[:40]} has more than 64 bits")
    return value


_T = TypeVar("_T", bound=_Named | Profile)


def _unique(kind: str, entries: list[_T]) -> Mapping[str, _T]:
    table: dict[str, _T] = {}
    for entry in entries:
        if entry.name in table:
            raise _wrong(f"it names {kind} '{entry.name}' twice")
        table[entry.name] = entry
    return MappingProxyType(table)


class _Reader:
    """Takes typed values out of a JSON map and says where one is missing or wrong."""

    def __init__(self, where: str, document: object) -> None:
        self.where = where
        if not isinstance(document, dict):
            raise _wrong(f"{where} is not a map")
        self.document: dict[str, Any] = document

    def text(self, key: str, default: str | None = None) -> str:
        value = self.document.get(key, default)
        if not isinstance(value, str):
            raise _wrong(f"{self.where}: '{key}' is not a string")
        return printable(value)

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.document.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise _wrong(f"{self.where}: '{key}' is not a list of strings")
        return tuple(map(printable, value))

    def maps(self, key: str) -> list[_Reader]:
        value = self.document.get(key, [])
        if not isinstance(value, list):
            raise _wrong(f"{self.where}: '{key}' is not a list")
        return [_Reader(f"{self.where}, {key} {i}", item) for i, item in enumerate(value)]

    def mapping(self, key: str) -> dict[str, str]:
        value = self.document.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
            raise _wrong(f"{self.where}: '{key}' is not a map of strings")
        return value

    def lists(self, key: str) -> dict[str, tuple[str, ...]]:
        inner = _Reader(f"{self.where}, {key}", self.document.get(key, {}))
        return {name: inner.texts(name) for name in inner.document}

    def name(self) -> str:
        name = self.text("name")
        if re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) is None:
            raise _wrong(f"{self.where}: '{name}' is not a name")
        self.where = f"{self.where.rpartition(', ')[2]} '{name}'"
        return name


def _option(entry: _Reader) -> Option:
    where = entry.where
    name = entry.name()
    option = Option(
        name=name,
        type=entry.text("type"),
        default=entry.text("default"),
        min=entry.text("min", ""),
        max=entry.text("max", ""),
        values=entry.texts("values"),
        help=entry.text("help", ""),
    )
    if option.type not in TYPES:
        raise _wrong(f"{where}: unknown type '{option.type}'")
    try:
        option.normalise(option.default)
    except ValueError as error:
        if option.default:  # an empty default is "not given"
            raise _wrong(f"{where}: invalid default of '{name}': {error}") from None
    return option


def _options(
    entry: _Reader, taken: frozenset[str], key: str = "options", why: str = "reserved for every run"
) -> tuple[Option, ...]:
    options = tuple(_option(item) for item in entry.maps(key))
    names = [option.name for option in options]
    for name in names:
        if names.count(name) > 1 or name in taken:
            problem = why if name in taken else "declared twice"
            raise _wrong(f"{entry.where}: option '{name}' is {problem}")
    return options


def _run_options(top: _Reader) -> tuple[RunOption, ...]:
    plain = _options(top, _RESERVED, "run_options", "also an option of the host itself")
    options = []
    for option, entry in zip(plain, top.maps("run_options"), strict=True):
        applies = entry.text("applies")
        if applies not in _APPLIES:
            raise _wrong(f"option '{option.name}' applies to the unknown '{applies}'")
        options.append(
            RunOption(
                **vars(option),
                applies=applies,
                group=entry.text("group", ""),
                rare=entry.document.get("rare") is True,
                changes=entry.text("changes", ""),
            )
        )
    return tuple(options)


def _measurement(entry: _Reader, reserved: frozenset[str]) -> Measurement:
    name = entry.name()
    role = entry.text("role", "measurement")
    if role not in ("measurement", "calibration"):
        raise _wrong(f"{entry.where}: unknown role '{role}'")
    contexts = entry.texts("contexts")
    for context in contexts:
        if context not in CONTEXTS:
            raise _wrong(f"{entry.where}: unknown context '{context}'")
    options = _options(entry, reserved)
    for option in options:
        wanted = _READ.get(option.name, option.type)
        if option.type != wanted:
            raise _wrong(f"{entry.where}: option '{option.name}' is not of type {wanted}")
    return Measurement(
        name=name,
        summary=entry.text("summary", ""),
        options=options,
        code=entry.text("code", ""),
        role=role,
        chapter=entry.text("chapter", ""),
        contexts=contexts,
        series=tuple(
            Series(
                item.text("name"),
                item.text("unit", "ns"),
                item.text("meaning", ""),
                item.text("from", ""),
                item.text("to", ""),
                item.texts("stages"),
                item.lists("stages_in"),
            )
            for item in entry.maps("series")
        ),
        tables=tuple(Table(i.text("name"), i.text("meaning", "")) for i in entry.maps("tables")),
        verdicts=tuple(
            Rule(i.text("rule"), i.text("meaning", ""), i.text("known_limitation", ""))
            for i in entry.maps("verdicts")
        ),
        evaluate=tuple(
            Evaluation(
                MappingProxyType(i.mapping("parameters")),
                i.text("load", "idle"),
                MappingProxyType(i.mapping("thorough")),
            )
            for i in entry.maps("evaluate")
        ),
        mark=MappingProxyType(entry.mapping("mark")),
        answers=entry.document.get("answers") is True,
        times=entry.text("times", ""),
        needs=entry.text("needs", ""),
        not_on_cobalt=entry.text("not_on_cobalt", ""),
        unseen_gaps=entry.text("unseen_gaps", ""),
    )


def _load(entry: _Reader, common: frozenset[str]) -> Load:
    name = entry.name()
    return Load(
        name=name,
        summary=entry.text("summary", ""),
        options=_options(entry, common, why="also an option of every load"),
        unit=entry.text("unit", ""),
    )


def _profile(entry: _Reader) -> Profile:
    return Profile(entry.name(), entry.text("summary", ""), entry.text("mix", ""))
