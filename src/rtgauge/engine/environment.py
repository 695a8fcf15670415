# SPDX-License-Identifier: Apache-2.0
"""Facts that the agent finds on a target before a run, and a check of the CPUs of a plan."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rtgauge.audit import environment_document
from rtgauge.catalogue import Catalogue
from rtgauge.errors import NO_MODULE_REMEDY, StreamError, TargetError, UsageError
from rtgauge.facts import Facts
from rtgauge.facts.interpret import online_cpus
from rtgauge.plan import Plan, PlannedStep
from rtgauge.stream import Environment, Header, Setting, StreamReader
from rtgauge.target import Target
from rtgauge.target.base import Adaptable, Wired
from rtgauge.text import plural
from rtgauge.units import format_cpus, parse_cpus

__all__ = [
    "check_cpus",
    "check_lines",
    "is_skipped",
    "lacking",
    "log_host_document",
    "read_facts",
    "require_cpus",
    "why_skipped",
]


def read_facts(data: bytes) -> tuple[Header, dict[str, Any], list[Setting]]:
    """Header, facts and settings of the stream that an agent's ``environment`` wrote.

    Raises TargetError if the bytes are not such a stream.
    """
    try:
        records = StreamReader().feed(data)
    except StreamError as error:
        raise TargetError(
            f"the output of the agent's command 'environment' cannot be read: {error}",
            error.remedy,
        ) from None
    header = next((record for record in records if isinstance(record, Header)), None)
    if header is None:
        raise TargetError(
            "the agent's command 'environment' wrote no stream",
            "check that the program named as the agent is an rtgauge-agent",
        )
    facts: dict[str, Any] = {}
    for record in records:
        if isinstance(record, Environment):
            facts.update(record.facts)
    return header, facts, [record for record in records if isinstance(record, Setting)]


def require_cpus(steps: Sequence[PlannedStep], facts: Mapping[str, Any], target: str) -> None:
    """Raise UsageError if a step names a CPU that is not online."""
    present = online_cpus(Facts(facts))
    if present is None:
        return
    for step in steps:
        wanted_cpus = {"cpu": step.parameters.get("cpu"), "load-cpu": step.text("load-cpu")}
        for name, text in wanted_cpus.items():
            wanted = parse_cpus(text) if text else None
            missing = sorted((wanted or frozenset()) - present)
            if missing:
                raise UsageError(
                    f"measurement '{step.measurement}', option '{name}': "
                    f"target '{target}' has no online CPU {missing[0]}",
                    f"its online CPUs are {format_cpus(present)}",
                )


def check_lines(steps: Sequence[PlannedStep], target: Target) -> None:
    """Raise UsageError if a step names a line that the target cannot have."""
    if not isinstance(target, Wired):
        return
    for step in steps:
        text, asks = step.parameters.get("line", ""), bool(step.times)
        reason, remedy = target.wrong_line(text, asks=asks) if text else ("", "")
        if reason:
            option = "--log-line" if asks and step.log_host else "--line"
            raise UsageError(f"{option} {text}: {reason}", remedy)


def check_cpus(plan: Plan, target: Target) -> None:
    """UsageError if the plan asks for a CPU that is not online on the target, before anything is
    done there. Boots no board of the lab: one that is settled has the CPUs that it is given."""
    if isinstance(target, Adaptable):
        return
    if any(step.parameters.get("cpu") or step.text("load-cpu") for step in plan.steps):
        _, facts, _ = read_facts(target.environment())
        require_cpus(plan.steps, facts, target.name)


_LOAD: Final = "rtgauge module load"
_NO_MODULES: Final = 95
"""The same number on each architecture (docs/formats/environment.md)."""
#: By the fact agent.module: what was found, and the remedy.
_MODULE: Final = {
    errno.ENOENT: (
        "the kernel module rtgauge is not loaded",
        f"build and load it: {_LOAD}",
    ),
    _NO_MODULES: (
        "the kernel cannot load the module rtgauge: it does not support loadable modules",
        "boot a kernel that was built with CONFIG_MODULES=y",
    ),
}


#: Need of a measurement: the fact that is not 0 if the target lacks it.
_NEEDS: Final = {"priorities": "agent.fifo", "module": "agent.module"}


def is_skipped(step: PlannedStep, catalogue: Catalogue, facts: Mapping[str, Any]) -> bool:
    """Whether the agent will skip the step, as far as that is known beforehand."""
    return why_skipped(step, catalogue, facts) is not None


def why_skipped(
    step: PlannedStep, catalogue: Catalogue, facts: Mapping[str, Any], target: str = ""
) -> tuple[str, str] | None:
    """Why the agent will skip the step, and the remedy, as far as that is known beforehand; None if
    it will not."""
    if (step.answers or step.times) and not (step.parameters.get("line") or step.log_host):
        return "no line was given", "use --line"
    needs = catalogue.measurement(step.measurement).needs
    lack = Facts(facts).integer(_NEEDS[needs]) if needs in _NEEDS else 0
    if not lack:
        return None
    if needs == "module":
        return _module_lacks(lack, target)
    return "real-time priority is not permitted", "'rtgauge check' prints how to permit it"


def _module_lacks(number: int, target: str) -> tuple[str, str]:
    """Why the kernel module cannot be used, and the remedy. ``number``: the fact agent.module."""
    found, remedy = _MODULE.get(
        number,
        (
            f"the kernel module rtgauge cannot be used ({os.strerror(number % 4096)})",
            "run as root"
            if number in (errno.EACCES, errno.EPERM)
            else f"load the module again: {_LOAD}",
        ),
    )
    if remedy.endswith(_LOAD) and target.startswith("ssh:"):
        remedy += f" --target {shlex.quote(target)}"
    elif remedy.endswith(_LOAD) and target.startswith("lab:"):
        remedy = NO_MODULE_REMEDY
    return found, remedy


def lacking(
    steps: Sequence[PlannedStep],
    catalogue: Catalogue,
    facts: Mapping[str, Any],
    findings: Sequence[Mapping[str, Any]],
    target: str,
) -> Iterator[tuple[str, str]]:
    """What cannot be measured on the target, and the remedy, as far as that is known beforehand.

    Each text is for several steps. The agents themselves decide, and skip.
    """
    needs = [catalogue.measurement(step.measurement).needs for step in steps]
    raised = [
        step
        for step in steps
        if step.parameters.get("priority") != "0"
        and catalogue.measurement(step.measurement).has("priority")
    ]
    fifo, module = (Facts(facts).integer(_NEEDS[name]) for name in ("priorities", "module"))
    if fifo and raised:
        skipped = needs.count("priorities")
        remedy = next((one["remedy"] for one in findings if one["check"] == "privileges"), "")
        text = "real-time priority is not permitted. The latencies belong to an ordinary task"
        if skipped:
            text += f", and {skipped} of {plural(len(steps), 'step')} will be skipped"
        yield text, remedy
    if module and (skipped := needs.count("module")):
        found, remedy = _module_lacks(module, target)
        yield f"{found}. {skipped} of {plural(len(steps), 'step')} will be skipped", remedy


def log_host_document(target: Target) -> dict[str, Any]:
    """The record of a log host in a run."""
    header, facts, settings = read_facts(target.environment())
    return {
        "target": target.name,
        "boot_id": header.boot_id,
        "environment": environment_document(facts, settings),
    }
