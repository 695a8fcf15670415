# SPDX-License-Identifier: Apache-2.0
"""Options: their types and notation, and the table of those that the host itself has.

Options of measurements, of loads and of every run come from the agent (``catalogue``). What the
host alone decides on, such as the target and the budget, is in ``HOST_OPTIONS``. The command line,
the keys of plans and the reserved names follow from these tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

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
    "EVALUATION_OPTIONS",
    "GROUPS",
    "HOST_OPTIONS",
    "TYPES",
    "Option",
    "Reach",
    "RunOption",
    "foreign_options",
    "left_out_comment",
    "option_words",
    "reaches",
]

TYPES: Final = ("duration", "integer", "size", "cpus", "enum", "enums", "flag", "text")


@dataclass(frozen=True)
class Option:
    """One option of a measurement, of a load or of the run. ``values`` of a text: its notation."""

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
        raise ValueError(f"{self.name} is not a number")

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
                raise ValueError("the value must be a single line")
            return text
        value = self.number(text)
        if self.min and value < self.number(self.min):
            raise ValueError(f"{text} is too small. The range is {self.min} to {self.max}")
        if self.max and value > self.number(self.max):
            raise ValueError(f"{text} is too large. The range is {self.min} to {self.max}")
        if self.type == "duration":
            return format_duration(value)
        return format_size(value) if self.type == "size" else str(value)

    def notation(self) -> str:
        """Form of a value, for a help text: ``20us to 1h``, ``one|other``, ``LIST``."""
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
            raise ValueError(f"'{text}' is not one of its values ({', '.join(self.values)})")
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
class RunOption(Option):
    """An option of every run. ``applies`` has one or more of these words:

    - ``step``: the key of a plan's step, and the command line for all steps
    - ``plan``: a key of a plan's table ``[plan]``, and the command line
    - ``file``: a key of a plan's step alone
    - ``command``: the command line alone, because a plan must not decide on it
    - ``host``: between host and agent, not offered to users

    ``several``: the command line may repeat it. ``short``: its short name there. ``group``: where
    the help shows it; if it is ``rare``, only with ``--help-all``. ``changes``: what it changes on
    the target, which ``--keep-settings`` forbids.
    """

    applies: str = ""
    several: bool = False
    short: str = ""
    group: str = ""
    rare: bool = False
    changes: str = ""

    def applies_to(self, word: str) -> bool:
        """Whether ``applies`` has that word."""
        return word in self.applies.split()


GROUPS: Final = ("Target and load", "Requirement and extent", "Lines", "Results")
"""The groups of the options of a run, in the order of the help."""
_TARGET, _EXTENT, _LINES, _RESULTS = GROUPS


def _text(name: str, notation: str, applies: str, help_: str, group: str, **more: Any) -> RunOption:
    return RunOption(
        name, "text", "", values=(notation,), help=help_, applies=applies, group=group, **more
    )


def _flag(name: str, applies: str, help_: str, group: str, **more: Any) -> RunOption:
    return RunOption(name, "flag", "no", help=help_, applies=applies, group=group, **more)


HOST_OPTIONS: Final = (
    _text(
        "target",
        "TARGET",
        "command",
        "system under test: local, ssh://HOST, lab:BOARD or fake. The default is local. HOST may "
        "be USER@HOST:PORT. Several are measured in turn, in a random order. Replaces a plan's "
        "targets",
        _TARGET,
        several=True,
    ),
    _flag(
        "allow-load-cmd",
        "command",
        "consent to the programs, files, addresses and lines that a plan, or a resumed "
        "evaluation or tune, uses on targets outside the lab",
        _TARGET,
        rare=True,
    ),
    RunOption(
        "reconnect",
        "duration",
        "10m",
        help="how long to keep retrying a lost connection to a board, where the agent keeps "
        "measuring (0: stop at once)",
        applies="command",
        group=_TARGET,
        rare=True,
    ),
    _text(
        "agent",
        "FILE",
        "command",
        "agent for local and ssh:// targets in place of rtgauge's own, such as one that is linked "
        "against the board's C library",
        _TARGET,
        rare=True,
    ),
    RunOption(
        "budget",
        "duration",
        "",
        help="max value allowed, which decides the verdict",
        applies="step",
        group=_EXTENT,
    ),
    _text(
        "rate",
        "RATE",
        "step",
        "how often the budget may be exceeded, such as 1/h. The default is never",
        _EXTENT,
    ),
    RunOption(
        "repeat",
        "integer",
        "1",
        "1",
        "10000",
        help="number of repetitions",
        applies="plan",
        group=_EXTENT,
    ),
    _flag("dry-run", "command", "only print the steps with their lengths", _EXTENT, rare=True),
    _text("hours", "H", "plan", "total length of the plan's steps that have a share", _EXTENT),
    _text("share", "N", "file", "the step's share of the plan's hours", ""),
    _flag(
        "thorough",
        "command",
        "use the catalogue's parameters of a long run, unless others are given",
        _EXTENT,
        rare=True,
    ),
    RunOption(
        "order-seed",
        "integer",
        "",
        "0",
        str((1 << 32) - 1),
        help="seed of the random order of several targets, to repeat the order of an earlier study",
        applies="command",
        group=_EXTENT,
        rare=True,
    ),
    _text(
        "log-host",
        "TARGET",
        "step plan",
        "another machine that raises the events and times the answers, for a measurement that "
        "answers events. A board of the lab with lines=outside has its own",
        _LINES,
        rare=True,
    ),
    _text(
        "log-line",
        "LINE",
        "step plan",
        "lines of the log host that are wired to the board's --line, the output first",
        _LINES,
        rare=True,
    ),
    _text(
        "log-set",
        "NAME=VALUE",
        "step plan",
        "option of the log host itself, such as cpu=1, priority=90 or timeout=5ms",
        _LINES,
        rare=True,
        several=True,
    ),
    _text("label", "TEXT", "plan", "name by which you find the run", _RESULTS),
    _text(
        "report",
        "FILE",
        "command",
        "report to write. Its suffix selects the format: .html, .pdf, .md, .json, .xml (JUnit), "
        ".tap (KTAP)",
        _RESULTS,
        several=True,
        short="-o",
    ),
    _flag("json", "command", "print the results as JSON", _RESULTS),
    _text("title", "TEXT", "command", "title of the reports", _RESULTS, rare=True),
    _text(
        "author",
        "TEXT",
        "command",
        "author of the reports, on their first page",
        _RESULTS,
        rare=True,
    ),
    _text(
        "serial",
        "TEXT",
        "command",
        "serial number of the system, on the reports' first page",
        _RESULTS,
        rare=True,
    ),
    _text(
        "meta",
        "KEY=VALUE",
        "command",
        "further fact for the reports' first page, such as customer='ACME Ltd'",
        _RESULTS,
        rare=True,
        several=True,
    ),
    _text(
        "logo",
        "FILE",
        "command",
        "PNG or SVG file with the logo for the reports",
        _RESULTS,
        rare=True,
    ),
    _flag("full", "command", "write complete PDF reports, not short ones", _RESULTS, rare=True),
    _flag(
        "quiet",
        "command",
        "print only the answer, and the steps that fail",
        _RESULTS,
        rare=True,
        short="-q",
    ),
    _flag(
        "no-progress",
        "command",
        "show no live view, only lines for the steps",
        _RESULTS,
        rare=True,
    ),
    RunOption(
        "exit",
        "enum",
        "",
        values=("bisect",),
        help="exit codes for 'git bisect run': 0 within the budget, 1 over it, 125 not testable",
        applies="command",
        group=_RESULTS,
        rare=True,
    ),
    _text(
        "store",
        "PLACE",
        "command",
        "the store: a folder, a SQLite file, or postgresql://…?data=FOLDER",
        _RESULTS,
        rare=True,
    ),
)
"""The options of a run that the host alone decides on. Those of the agent are in its description
(docs/formats/catalogue.md)."""

EVALUATION_OPTIONS: Final = (
    "for", "samples", "core", "cpu", "priority", "load", "load-cpu", "prepare", "budget", "rate",
    "thorough", "only", "skip",
)  # fmt: skip
"""The options that decide what an evaluation measures, and how."""


@dataclass(frozen=True)
class Reach:
    """Something outside rtgauge that a step reaches. ``option``: the one that names it, ``verb``:
    what the step does with it, ``what``: its kind, empty for a program."""

    option: str
    verb: str
    name: str
    what: str = ""

    @property
    def text(self) -> str:
        """What is reached: ``'stress-ng --vm 2'``, ``the file '/etc/motd'``."""
        return f"the {self.what} '{self.name}'" if self.what else f"'{self.name}'"


_LOADS: Final = {
    "program": ("run", ""),
    "path": ("use", "file"),
    "peer": ("connect to", "address"),
}
"""The options of loads that name something outside rtgauge: verb and kind."""
_LOCAL_PORT: Final = re.compile(r"net:[0-9]*")
"""A line that only programs of the same machine reach."""


def reaches(options: Mapping[str, str]) -> list[Reach]:
    """What the options of a step reach outside rtgauge: programs, files, addresses, lines. The
    options have the names of the command line."""
    found = []
    if command := options.get("load-cmd", ""):
        found.append(Reach("load-cmd", "run", command))
    load = options.get("load", "")  # of the load list, or of a profile with it
    for name, value in re.findall(r":(program|path|peer)=([^,:]+)", load):
        if (name, value) != ("peer", "host"):
            verb, what = _LOADS[name]
            found.append(Reach("load", verb, value, what))
    for option in ("line", "log-line", "mark", "gpio"):
        line = options.get(option, "")
        if line and not _LOCAL_PORT.fullmatch(line):
            found.append(Reach(option, "use", line, "line"))
    return found


_CONSENTS: Final = ("load-cmd-root", "allow-disturb", "allow-load-cmd")
_DECIDED: Final = frozenset(
    (
        *(one.name for one in HOST_OPTIONS if one.applies == "command"),
        *(*_CONSENTS, "disturb", "try", "boot-cmd", "resume"),
    )
)
"""Options that only the user of a command decides on."""


def foreign_options(options: Mapping[str, str | bool]) -> set[str]:
    """The options of somebody else's step that a printed command leaves out. A reader who pastes
    it would start that person's programs, use their files, addresses and lines, or consent to
    their injection."""
    texts = {name: text for name, text in options.items() if isinstance(text, str)}
    decided = {name for name, value in options.items() if value and name in _DECIDED}
    return decided | {one.option for one in reaches(texts)}


def left_out_comment(names: Sequence[str]) -> str:
    """The end of a command from which these options of an imported run were left out."""
    if not names:
        return ""
    words = " ".join(f"--{name}" for name in names)
    return f" # without {words} of the imported run: read and add what you trust"


def option_words(name: str, text: str) -> list[str]:
    """An option with its value. A value that looks like an option is joined to it, so that no
    command takes it for one."""
    return [f"--{name}={text}"] if text.startswith("-") else [f"--{name}", text]
