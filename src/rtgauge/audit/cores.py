# SPDX-License-Identifier: Apache-2.0
"""The real-time core of a running system: Cobalt, EVL, or a pipeline without a core.

Sources: kernel/cobalt/init.c (state), posix/process.c (allowed_group), arch/x86/smi.c, and the
files below /proc/xenomai of Xenomai 3.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rtgauge.audit.case import Case, Finding, Shell, finding, unknown
from rtgauge.audit.core_config import CORE_CONFIG_CHECKS
from rtgauge.facts import Facts
from rtgauge.text import microseconds, plain

__all__ = ["CORE_CHECKS", "core_findings"]

_PROC: Final = "/proc/xenomai/"
_PARAMETERS: Final = "/sys/module/xenomai/parameters/"
_CLOCK: Final = f"{_PROC}clock/coreclk"


def _cobalt(facts: Facts) -> str:
    """The version of a running Cobalt core; empty without one."""
    return facts.text(f"{_PROC}version") or ""


def _state(name: str, case: Case) -> Finding:
    facts = case.facts
    version, state = _cobalt(facts), facts.text(f"{_PARAMETERS}state")
    if facts.integer("/dev/evl/control") == 1:
        return finding(name, "ok", "EVL", "tasks of the core preempt Linux")
    if not version:
        asked = facts.parameter("xenomai.state")
        remedy: str | Shell = Shell("dmesg | grep -i xenomai # why the core did not start")
        if asked == "disabled":
            remedy = "remove xenomai.state=disabled from the kernel's parameters"
        why = "tasks of the core cannot be started"
        return finding(name, "error", "Cobalt is in the kernel, but is not running", why, remedy)
    if state == "stopped":
        why = "it was stopped at boot (xenomai.state). Until it is started, it refuses tasks"
        return finding(name, "warning", f"Cobalt {version}, stopped", why, Shell("corectl --start"))
    return finding(name, "ok", f"Cobalt {version}", "tasks of the core preempt Linux")


def _group(name: str, case: Case) -> Finding:
    facts = case.facts
    group = facts.integer(f"{_PARAMETERS}allowed_group")
    if facts.integer("agent.uid") == 0:
        return finding(name, "ok", "root", "root may always use the core")
    why = "others get 'operation not permitted' when they start a task of the core"
    remedy = Shell(
        f"echo GID > {_PARAMETERS}allowed_group # or boot with xenomai.allowed_group=GID"
    )
    if group is None:
        return unknown(name, "allowed_group could not be read", why, remedy)
    if group < 0:
        return finding(name, "warning", "only root may use the core", why, remedy)
    why = "its members may use the core, which gives them all privileges that the core needs"
    inside = Shell(f"id # must list group {group}")
    return finding(name, "note", f"group {group} may use the core", why, inside)


def _gravity(name: str, case: Case) -> Finding:
    text = case.text(_CLOCK) or ""
    why = (
        "the core programs timers early (gravity), which shortens latencies and can make them "
        "negative"
    )
    remedy = Shell(f"echo '0i 0k 0u' > {_CLOCK} # to compare with other systems")
    found = dict(re.findall(r"\b(irq|kernel|user)=(\d{1,9})\b", text))
    if not found:
        return unknown(name, f"{_CLOCK} could not be read", why, remedy)
    early = {context: int(value) for context, value in found.items() if int(value)}
    if not early:
        return finding(name, "ok", "0", "the core does not program timers early")
    told = ", ".join(f"{one} {plain(microseconds(value))}" for one, value in early.items())
    return finding(name, "note", case.prefix(_CLOCK) + told, why, remedy)


def _faults(name: str, case: Case) -> Finding:
    why = "a task that faults leaves the core, and waits for Linux"
    remedy = "find the task in the column PF of /proc/xenomai/sched/stat, and lock its memory"
    text = case.facts.text(f"{_PROC}faults") or ""
    rows = re.findall(r"^\s*\d+:\s*([\d\s]+?)\s*\((.{1,60})\)\s*$", text, re.M)
    if not rows:
        return unknown(name, f"{_PROC}faults could not be read", why, remedy)
    sums = {trap: sum(map(int, counts.split())) for counts, trap in rows}
    found = ", ".join(f"{number} {trap.lower()}" for trap, number in sums.items() if number)
    if not found:
        return finding(name, "ok", "none since boot", "no task of the core has faulted")
    return finding(name, "warning", found, why, remedy)


def _smi(name: str, case: Case) -> Finding:
    facts = case.facts
    why = "the firmware can take the CPU for milliseconds, and the kernel does not see it"
    if not facts.is_x86:
        return finding(name, "ok", "none", "only x86 has SMIs")
    bridges = facts.text("/sys/bus/pci/devices/*/vendor")
    if bridges is not None and not re.search(r"^0000:00:1f\.0=0x8086\b", bridges, re.M):
        return finding(
            name,
            "ok",
            "the core does not know this chipset",
            "the core supports only Intel chipsets",
        )
    state = facts.text(f"{_PARAMETERS}smi")
    if state in ("enabled", "1"):
        return finding(
            name, "ok", "workaround enabled", "the core stops the chipset from raising SMIs"
        )
    remedy = (
        "boot with xenomai.smi=enabled, if latencies have rare peaks and the kernel's log contains "
        "'SMI-enabled chipset found'. Fans and thermal protection may depend on SMIs: watch them"
    )
    if state is None:
        return unknown(name, "the parameter smi could not be read", why, remedy)
    return finding(name, "note", f"workaround off ({state})", why, remedy)


@dataclass(frozen=True)
class _Options:
    """The configuration of a running kernel."""

    options: Mapping[str, str]
    architecture: str

    def on(self, *options: str) -> bool:
        return any(self.options.get(option) == "y" for option in options)


#: What a running Cobalt shows. These findings are of systems with a core alone.
CORE_CHECKS: Mapping[str, Callable[[str, Case], Finding]] = {
    "core": _state,
    "core-group": _group,
    "core-gravity": _gravity,
    "core-faults": _faults,
    "core-smi": _smi,
}


def core_findings(case: Case) -> Iterator[Finding]:
    """The findings on the core of a system; none without a core."""
    facts = case.facts
    known = facts.options
    pipelined = any(facts.config(option) == "y" for option in ("DOVETAIL", "IPIPE", "XENOMAI"))
    cobalt = _cobalt(facts) or facts.text(f"{_PARAMETERS}state") or facts.config("XENOMAI") == "y"
    evl = facts.integer("/dev/evl/control") == 1
    if not (pipelined or cobalt or evl):
        return
    if cobalt or evl:
        yield _state("core", case)
    if _cobalt(facts):
        yield from (check(name, case) for name, check in CORE_CHECKS.items() if name != "core")
    if known is None:
        why = "the options of the core and of Linux decide its latency"
        remedy = Shell("rtgauge check --config FILE")
        yield unknown("core-debugging", "the kernel's configuration could not be read", why, remedy)
        return
    config = _Options(known, "x86" if facts.is_x86 else facts.machine)
    for name, check in CORE_CONFIG_CHECKS.items():
        if name != "core" or not (cobalt or evl):
            yield check(name, config)[0]
