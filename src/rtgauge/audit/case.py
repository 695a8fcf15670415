# SPDX-License-Identifier: Apache-2.0
"""The input of the checks, and the finding of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from rtgauge.facts import Facts, one_line
from rtgauge.facts.interpret import isolated_cpus, online_cpus
from rtgauge.units import format_cpus, read_integer

__all__ = [
    "CHECK_CONFIG",
    "DEFAULT_PRIORITY",
    "PREPARE",
    "Case",
    "Finding",
    "Level",
    "Shell",
    "by_value",
    "cpus_text",
    "finding",
    "reason",
    "shown",
    "unknown",
]


#: What the agent's measurements run at if nothing else is asked for.
DEFAULT_PRIORITY = 80

#: For remedies: what ``rtgauge run --prepare`` (docs/reference/settings.md) does during a run.
PREPARE = "for a run: rtgauge run --prepare does it"

#: The remedy where the target does not show the configuration of its kernel.
CHECK_CONFIG = "run rtgauge check --config FILE with the configuration of this kernel"

Level: TypeAlias = Literal["ok", "note", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, with a line in each field. ``remedy`` is empty when all is well.
    ``command``: the command in the remedy, if it has one."""

    check: str
    found: str
    level: Level
    why: str
    remedy: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Shell:
    """A remedy that is a command for a shell, with explanations behind ``#``. ``text``: what the
    remedy says, if it says more."""

    command: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """What the checks look at."""

    facts: Facts
    cpus: frozenset[int]  # those of the measurement; all online ones by default
    chosen: bool  # whether the user chose them
    load_running: bool
    settings: dict[str, str | None] = field(default_factory=dict)
    recorded: bool = False  # the settings are those of a run
    priority: int = DEFAULT_PRIORITY  # of the measuring threads, SCHED_FIFO; 0: none

    def text(self, name: str) -> str | None:
        """A file's content, as a run set it if it did."""
        value = self.settings.get(name)
        return self.facts.text(name) if value is None else value.strip()

    def integer(self, name: str) -> int | None:
        return read_integer(self.text(name))

    def prefix(self, *names: str) -> str:
        """The beginning of a finding if a run set one of these."""
        return "during the run: " if any(self.settings.get(name) for name in names) else ""

    def apart(self) -> frozenset[int]:
        """The measured CPUs that something can be kept away from: those chosen or isolated, where
        other CPUs are left for the rest."""
        online = online_cpus(self.facts) or frozenset()
        wanted = (
            self.cpus if self.chosen else self.cpus & (isolated_cpus(self.facts) or frozenset())
        )
        return wanted if online - wanted else frozenset()

    def values(self, pattern: str) -> dict[int, str]:
        """A file of each CPU, of the measured CPUs alone."""
        values = self.facts.per_cpu(pattern)
        return {cpu: values[cpu] for cpu in sorted(values) if not self.cpus or cpu in self.cpus}

    def covers(self, values: Mapping[int, object]) -> bool:
        """Whether something is known of each measured CPU."""
        return bool(values) and self.cpus <= values.keys()


def finding(check: str, level: Level, found: str, why: str, remedy: str | Shell = "") -> Finding:
    command = ""
    if isinstance(remedy, Shell):
        command, remedy = remedy.command, remedy.text or remedy.command
    return Finding(
        check,
        one_line(found),
        level,
        one_line(why, 400),
        one_line(remedy, 400),
        one_line(command, 400),
    )


def unknown(check: str, missing: str, why: str, remedy: str | Shell) -> Finding:
    return finding(check, "note", "unknown", f"{missing}; {why}", remedy)


def by_value(values: Mapping[int, str]) -> str:
    """``powersave on CPUs 0-3, performance on CPU 4``; without CPUs if all are the same."""
    groups: dict[str, list[int]] = {}
    for cpu, value in values.items():
        groups.setdefault(value, []).append(cpu)
    if len(groups) == 1:
        return next(iter(groups))
    return ", ".join(f"{value} on {cpus_text(cpus)}" for value, cpus in groups.items())


def shown(changes: Mapping[str, str]) -> str:
    """Changes of a kernel's configuration, option -> value, as a remedy names them."""
    return ", ".join(
        f"no CONFIG_{option}" if value == "n" else f"CONFIG_{option}={value}"
        for option, value in sorted(changes.items(), key=lambda change: change[1] == "n")
    )


def cpus_text(cpus: Iterable[int]) -> str:
    ordered = sorted(set(cpus))
    return f"CPU{'' if len(ordered) == 1 else 's'} {format_cpus(ordered)}"


def reason(error: str) -> str:
    """The reason why something could not be read, in brackets, if it is known."""
    return f" ({error})" if error else ""
