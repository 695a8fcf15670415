# SPDX-License-Identifier: Apache-2.0
"""What a target's agent can do, as the agent itself describes it (docs/catalogue.md).

The command line, the validation of plans, the live view, the store and the report are driven by
this description: nothing on the host knows a measurement by its name.

Values are text everywhere (command line, plans, stream). ``Option.normalise`` reads one, checks
its range and returns the shortest exact text for it. Their notation is in ``units``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeVar

from rtgauge.errors import TargetError, UsageError, nearest
from rtgauge.facts import printable
from rtgauge.units import (
    INT64_MAX,
    format_cpus,
    format_duration,
    format_size,
    parse_cpus,
    parse_duration,
    parse_integer,
    parse_size,
)

__all__ = [
    "Catalogue",
    "Evaluation",
    "Load",
    "Measurement",
    "Option",
    "Profile",
    "Rule",
    "Series",
    "Table",
]

_TYPES: Final = ("duration", "integer", "size", "cpus", "enum", "enums", "flag", "text")
_CONTEXTS: Final = ("irq", "kernel", "user")
# Options of every load: when in a cycle it works.
_CYCLE: Final = ("cycle", "from", "until")

# Words that a step of a plan and the command line use themselves: a measurement's option by one of
# these names could never be given.
_RESERVED: Final = frozenset(
    {
        "allow-disturb",
        "allow-load-cmd",
        "as-json",
        "budget",
        "control",
        "data",
        "disturb",
        "disturb-module",
        "help",
        "histogram-only",
        "hours",
        "json",
        "keep-settings",
        "label",
        "load",
        "load-cmd",
        "load-cmd-root",
        "load-cpu",
        "mark",
        "measurement",
        "output",
        "prepare",
        "rate",
        "repeat",
        "report",
        "run",
        "share",
        "step",
        "store",
        "store-url",
        "target",
        "thorough",
    }
)


@dataclass(frozen=True)
class Option:
    """One option of a measurement or of a load."""

    name: str
    type: str
    default: str
    min: str = ""
    max: str = ""
    values: tuple[str, ...] = ()
    help: str = ""

    def number(self, text: str) -> int:
        """The value as a number: ns, bytes, 0/1, place among the values. Raises ValueError."""
        if self.type == "duration":
            return parse_duration(text)
        if self.type == "size":
            return parse_size(text)
        if self.type == "integer":
            return parse_integer(text)
        if self.type == "flag":
            return ("no", "yes").index(self._flag(text))
        if self.type == "enum":
            return self.values.index(self._enum(text))
        raise ValueError(f"{self.name} is no number")

    def normalise(self, text: str) -> str:
        """The value as it is kept and passed on. Raises ValueError, its text made to be shown."""
        if self.type == "enum":
            return self._enum(text)
        if self.type == "enums":
            return ",".join(self._enums(text))
        if self.type == "flag":
            return self._flag(text)
        if self.type == "cpus":
            cpus = parse_cpus(text)
            return "all" if cpus is None else format_cpus(cpus)
        if self.type == "text":
            if "\n" in text or "\0" in text:
                raise ValueError("a text has one line")
            return text
        value = self.number(text)
        if self.min and value < self.number(self.min):
            raise ValueError(f"{text} is too small; the range is {self.min} to {self.max}")
        if self.max and value > self.number(self.max):
            raise ValueError(f"{text} is too large; the range is {self.min} to {self.max}")
        if self.type == "duration":
            return format_duration(value)
        return format_size(value) if self.type == "size" else str(value)

    def notation(self) -> str:
        """What a value looks like, for a help text: ``20us…1h``, ``one|other``, ``LIST``."""
        if self.type in ("enum", "enums"):
            return "|".join(self.values) + (",…" if self.type == "enums" else "")
        if self.type == "flag":
            return "yes|no"
        if self.max == str(INT64_MAX):
            return f"{self.min or 0} or more"
        if self.min or self.max:
            return f"{self.min or '…'} to {self.max or '…'}"
        return {"cpus": "LIST", "text": "TEXT"}.get(self.type, self.type.upper())

    def _enum(self, text: str) -> str:
        if text not in self.values:
            raise ValueError(f"'{text}' is not one of its values; {nearest(text, self.values)}")
        return text

    def _enums(self, text: str) -> list[str]:
        found: list[str] = []
        for word in text.split(","):
            value = self._enum(word.strip())
            if value in found:
                raise ValueError(f"'{value}' is named twice")
            found.append(value)
        return found

    @staticmethod
    def _flag(text: str) -> str:
        words = {"yes": "yes", "no": "no", "true": "yes", "false": "no", "on": "yes", "off": "no"}
        if text not in words:
            raise ValueError(f"'{text}' is neither yes nor no")
        return words[text]


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
    """A rule that a measurement gives a verdict on."""

    rule: str
    meaning: str = ""


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
        """The option of that name; UsageError with the nearest one if there is none."""
        for option in self.options:
            if option.name == name:
                return option
        raise UsageError(
            f"{self.kind} '{self.name}' has no option '{name}'",
            nearest(name, (option.name for option in self.options)),
        )

    def normalise(self, name: str, text: str) -> str:
        """The value of one option as it is kept; UsageError if it has none or it is wrong."""
        try:
            return self.option(name).normalise(text)
        except ValueError as error:
            raise UsageError(
                f"{self.kind} '{self.name}', option '{name}': {error}",
                f"{name}: {self.option(name).help}" if self.option(name).help else "",
            ) from None


@dataclass(frozen=True)
class Load(_Named):
    """What else a target can do meanwhile; ``unit``: in what its work is counted."""

    unit: str = ""

    kind = "load"


@dataclass(frozen=True)
class Profile:
    """A mix of loads under one name; ``mix`` is the text of the loads that it stands for."""

    name: str
    summary: str
    mix: str


@dataclass(frozen=True)
class Measurement(_Named):
    """One thing that can be measured. ``role`` is ``measurement`` or ``calibration``; ``chapter``
    is the part of an evaluation that it belongs to, empty where the agent does not say. ``mark`` is
    when the line of ``--mark`` ``rises`` and ``falls``; empty: there is nothing to mark."""

    code: str = ""
    role: str = "measurement"
    chapter: str = ""
    contexts: tuple[str, ...] = ()
    series: tuple[Series, ...] = ()
    tables: tuple[Table, ...] = ()
    verdicts: tuple[Rule, ...] = ()
    evaluate: tuple[Evaluation, ...] = ()
    mark: Mapping[str, str] = field(default_factory=dict)

    kind = "measurement"


@dataclass(frozen=True)
class Catalogue:
    """Everything an agent can do; ``document`` is its description as it came.

    ``load_options`` are those that every load has besides its own.
    """

    agent: str
    libc: str
    measurements: Mapping[str, Measurement]
    loads: Mapping[str, Load]
    load_options: tuple[Option, ...]
    profiles: Mapping[str, Profile]
    document: Mapping[str, Any]

    def measurement(self, name: str) -> Measurement:
        """The measurement of that name; UsageError with the nearest one if there is none."""
        if name not in self.measurements:
            raise UsageError(f"unknown measurement '{name}'", nearest(name, self.measurements))
        return self.measurements[name]

    def load(self, name: str) -> Load:
        """The load of that name, with the options of every load after its own; UsageError with the
        nearest load or profile if there is none."""
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
            raise UsageError(f"load '{text}': idle is no load beside others", "leave 'idle' out")
        if name in self.profiles and name not in self.loads:
            if pairs:
                raise UsageError(
                    f"load '{text}': '{name}' is a profile, which takes no options",
                    f"give them to its loads: {self.profiles[name].mix}",
                )
            return name
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
                    f"load '{text}': '{option}' is given twice for {name}", "leave one of them out"
                )
            given[option] = load.normalise(option, value)
        self._check_cycle(text, name, given)
        return ":".join([name, *(f"{option}={value}" for option, value in given.items())])

    def _check_cycle(self, text: str, name: str, given: Mapping[str, str]) -> None:
        """A load works from one moment of a cycle to a later one, within it."""
        known = {option.name: option for option in self.load_options if option.name in _CYCLE}
        if len(known) < len(_CYCLE):
            return
        cycle, start, end = (known[word].number(given.get(word, "0")) for word in _CYCLE)
        if cycle == 0 and (start or end):
            raise UsageError(
                f"load '{text}': {name} is to work in a part of a cycle, but has none",
                f"give its length as well: {name}:cycle=65s:…",
            )
        if start >= (end or cycle) > 0 or end > cycle:
            raise UsageError(
                f"load '{text}': {name} never works, or beyond its cycle",
                "choose from < until <= cycle (until 0: the cycle's end)",
            )

    @classmethod
    def from_json(cls, text: str | bytes) -> Catalogue:
        """Read what an agent's ``describe`` printed; TargetError if it is no catalogue."""
        try:
            document = json.loads(text, parse_constant=_no_number, parse_float=_finite)
            json.dumps(document, ensure_ascii=False).encode()  # half a surrogate pair cannot be
        except (ValueError, RecursionError) as error:
            raise TargetError(
                f"the agent's description is not JSON: {error}",
                "check that RTGAUGE_AGENT names an rtgauge-agent",
            ) from None
        return cls.from_document(document)

    @classmethod
    def from_document(cls, document: object) -> Catalogue:
        """The same from the JSON document; TargetError names the place that is wrong."""
        top = _Reader("catalogue", document)
        if top.text("format") != "rtgauge-catalogue":
            raise TargetError("the agent's description is no rtgauge catalogue")
        if top.document.get("version") != 1:
            raise TargetError(
                f"the agent's catalogue has version {top.document.get('version')}; "
                "this program knows version 1",
                "install an rtgauge of the agent's version",
            )
        measurements = [_measurement(entry) for entry in top.maps("measurements")]
        load_options = _options(top, frozenset(), "load_options")
        for option in load_options:
            if option.name in _CYCLE and option.type != "duration":
                raise TargetError(
                    f"the agent's description is wrong: option '{option.name}' of every load is "
                    "no duration"
                )
        common = frozenset(option.name for option in load_options)
        loads = [_load(entry, common) for entry in top.maps("loads")]
        profiles = [_profile(entry) for entry in top.maps("profiles")]
        return cls(
            agent=top.text("agent"),
            libc=top.text("libc"),
            measurements=_unique("measurement", measurements),
            loads=_unique("load", loads),
            load_options=load_options,
            profiles=_unique("profile", profiles),
            document=MappingProxyType(dict(top.document)),
        )


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


_T = TypeVar("_T", bound=_Named | Profile)


def _unique(kind: str, entries: list[_T]) -> Mapping[str, _T]:
    table: dict[str, _T] = {}
    for entry in entries:
        if entry.name in table:
            raise TargetError(f"the agent's description names {kind} '{entry.name}' twice")
        table[entry.name] = entry
    return MappingProxyType(table)


class _Reader:
    """Takes typed values out of a JSON map and says where one is missing or wrong."""

    def __init__(self, where: str, document: object) -> None:
        self.where = where
        if not isinstance(document, dict):
            raise TargetError(f"the agent's description is wrong: {where} is not a map")
        self.document: dict[str, Any] = document

    def text(self, key: str, default: str | None = None) -> str:
        value = self.document.get(key, default)
        if not isinstance(value, str):
            raise TargetError(f"the agent's description is wrong: {self.where}: no text '{key}'")
        return printable(value)

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.document.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise TargetError(
                f"the agent's description is wrong: {self.where}: '{key}' is no list of texts"
            )
        return tuple(map(printable, value))

    def maps(self, key: str) -> list[_Reader]:
        value = self.document.get(key, [])
        if not isinstance(value, list):
            raise TargetError(f"the agent's description is wrong: {self.where}: '{key}' is no list")
        return [_Reader(f"{self.where}, {key} {i}", item) for i, item in enumerate(value)]

    def mapping(self, key: str) -> dict[str, str]:
        value = self.document.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
            raise TargetError(
                f"the agent's description is wrong: {self.where}: '{key}' is no map of texts"
            )
        return value

    def lists(self, key: str) -> dict[str, tuple[str, ...]]:
        inner = _Reader(f"{self.where}, {key}", self.document.get(key, {}))
        return {name: inner.texts(name) for name in inner.document}

    def name(self) -> str:
        name = self.text("name")
        if re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) is None:
            raise TargetError(
                f"the agent's description is wrong: {self.where}: '{name}' is no name"
            )
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
    if option.type not in _TYPES:
        raise TargetError(f"the agent's description is wrong: {where}: type '{option.type}'")
    try:
        option.normalise(option.default)
    except ValueError as error:
        if option.default:  # an empty default is "not given"
            raise TargetError(
                f"the agent's description is wrong: {where}: default of '{name}': {error}"
            ) from None
    return option


def _options(
    entry: _Reader, taken: frozenset[str], key: str = "options", why: str = "reserved for the host"
) -> tuple[Option, ...]:
    options = tuple(_option(item) for item in entry.maps(key))
    names = [option.name for option in options]
    for name in names:
        if names.count(name) > 1 or name in taken:
            problem = why if name in taken else "there twice"
            raise TargetError(
                f"the agent's description is wrong: {entry.where}: option '{name}' is {problem}"
            )
    return options


def _measurement(entry: _Reader) -> Measurement:
    name = entry.name()
    role = entry.text("role", "measurement")
    if role not in ("measurement", "calibration"):
        raise TargetError(f"the agent's description is wrong: {entry.where}: role '{role}'")
    contexts = entry.texts("contexts")
    for context in contexts:
        if context not in _CONTEXTS:
            raise TargetError(
                f"the agent's description is wrong: {entry.where}: context '{context}'"
            )
    return Measurement(
        name=name,
        summary=entry.text("summary", ""),
        options=_options(entry, _RESERVED),
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
        verdicts=tuple(Rule(i.text("rule"), i.text("meaning", "")) for i in entry.maps("verdicts")),
        evaluate=tuple(
            Evaluation(
                MappingProxyType(i.mapping("parameters")),
                i.text("load", "idle"),
                MappingProxyType(i.mapping("thorough")),
            )
            for i in entry.maps("evaluate")
        ),
        mark=MappingProxyType(entry.mapping("mark")),
    )


def _load(entry: _Reader, common: frozenset[str]) -> Load:
    name = entry.name()
    return Load(
        name=name,
        summary=entry.text("summary", ""),
        options=_options(entry, common, why="one that every load has"),
        unit=entry.text("unit", ""),
    )


def _profile(entry: _Reader) -> Profile:
    return Profile(entry.name(), entry.text("summary", ""), entry.text("mix", ""))
