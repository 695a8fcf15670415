# SPDX-License-Identifier: Apache-2.0
"""What a kernel's configuration costs the latency of a real-time core next to Linux.

Sources: scripts/Kconfig.frag, kernel/cobalt/Kconfig and doc/asciidoc/TROUBLESHOOTING.COBALT.adoc of
Xenomai 3.3, the Xenomai project's benchmarks of 3.4.6 (docs/studies/xenomai.md), and for the FCSE
of ARM926 the evaluation of AT91SAM (docs/studies/at91sam.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from rtgauge.audit.case import Finding, Level, finding, shown

__all__ = ["CORE_CONFIG_CHECKS", "Options", "pipeline"]

Result = tuple[Finding, dict[str, str]]
"""A finding, and the changes that its remedy names: option -> value, ``n`` for off."""


class Options(Protocol):
    """The options of a kernel: those that are on, and ``n`` for those said to be off."""

    @property
    def options(self) -> Mapping[str, str]: ...
    @property
    def architecture(self) -> str: ...
    def on(self, *options: str) -> bool: ...


#: Checks of a core that cost little, or nothing until an application asks for them.
_SLIGHT: Final = (
    "XENO_OPT_DEBUG_COBALT",
    "XENO_OPT_DEBUG_CONTEXT",
    "XENO_OPT_DEBUG_LEGACY",
    "XENO_OPT_DEBUG_TRACE_RELAX",
    "EVL_DEBUG",
)
_DEBUGGING: Final = ("XENO_OPT_DEBUG_", "XENO_DEBUG_", "EVL_DEBUG", "IPIPE_DEBUG", "IPIPE_TRACE")
_POWER: Final = ("APM", "ACPI_PROCESSOR", "CPU_IDLE", "INTEL_IDLE")
_MEMORY: Final = ("MIGRATION", "COMPACTION", "KSM")
_FORCED: Final = ("CONTEXT_TRACKING_FORCE", "CONTEXT_TRACKING_USER_FORCE")


def pipeline(config: Options) -> str:
    """The interrupt pipeline that the kernel has for a core; empty without one."""
    if config.on("DOVETAIL"):
        return "Dovetail"
    return "I-pipe" if config.on("IPIPE") else ""


def _core(name: str, config: Options) -> Result:
    version = config.options.get("XENO_VERSION_STRING", "")
    under = f" on {pipeline(config)}" if pipeline(config) else ""
    for option, core in (("XENOMAI", f"Xenomai {version}".strip()), ("EVL", "EVL")):
        if config.on(option):
            return finding(name, "ok", core + under, "tasks of the core preempt Linux"), {}
    changes = {"XENOMAI": "y"} if "XENOMAI" in config.options else {}
    return finding(
        name,
        "warning",
        f"{pipeline(config)} without a core",
        "the pipeline makes interrupts slower, and has no benefit without a core",
        shown(changes) or "add Xenomai (scripts/prepare-kernel.sh) or EVL to the kernel's sources",
    ), changes


def _debugging(name: str, config: Options) -> Result:
    on = [o for o, value in config.options.items() if value == "y" and o.startswith(_DEBUGGING)]
    on += [option for option in ("DEBUG_DOVETAIL", "DEBUG_IRQ_PIPELINE") if config.on(option)]
    if config.on("KGDB") and config.architecture not in ("", "x86"):
        on.append("KGDB")
    heavy = [option for option in on if option not in _SLIGHT]
    if not on and not (config.on("XENOMAI") or config.on("EVL")):
        return finding(name, "ok", "no core", "the kernel has no real-time core"), {}
    if not on:
        return finding(name, "ok", "none", "the core is built without its own debugging"), {}
    changes = dict.fromkeys(heavy or on, "n")
    why = "the core checks itself, its locks or its applications in each of its calls"
    level: Level = "warning" if heavy else "note"
    return finding(name, level, ", ".join(heavy or on), why, shown(changes)), changes


def _power(name: str, config: Options) -> Result:
    on = [option for option in _POWER if config.on(option)]
    if config.on("CPU_FREQ") and not config.on("CPU_FREQ_DEFAULT_GOV_PERFORMANCE"):
        on.insert(0, "CPU_FREQ")
    if not on:
        return finding(name, "ok", "none", "CPUs keep their frequency and never sleep deeply"), {}
    changes = dict.fromkeys(on, "n")
    why = "leaving a sleep state or a low frequency delays the core as well"
    remedy = f"{shown(changes)}; or boot with cpufreq.off=1 cpuidle.off=1"
    return finding(name, "warning", ", ".join(on), why, remedy), changes


def _memory(name: str, config: Options) -> Result:
    on = [option for option in _MEMORY if config.on(option)]
    if not on:
        return finding(name, "ok", "never moved", "locked pages stay where they are"), {}
    changes = dict.fromkeys(on, "n")
    why = "pages move or merge even if locked: the next access faults, and the task leaves the core"
    return finding(name, "warning", ", ".join(on), why, shown(changes)), changes


def _linux(name: str, config: Options) -> Result:
    forced = [option for option in _FORCED if config.on(option)]
    if forced:
        changes = dict.fromkeys(forced, "n")
        why = "tracking every change of context is incompatible with an interrupt pipeline"
        return finding(name, "warning", ", ".join(forced), why, shown(changes)), changes
    choices = {
        "PREEMPT": {"PREEMPT_NONE": "y", "PREEMPT": "n"},
        "NO_HZ_IDLE": {"HZ_PERIODIC": "y", "NO_HZ_IDLE": "n"},
        "NO_HZ_FULL": {"HZ_PERIODIC": "y", "NO_HZ_FULL": "n"},
        "NO_HZ": {"NO_HZ": "n"},
    }
    if config.on("IPIPE"):
        choices["HIGH_RES_TIMERS"] = {"HIGH_RES_TIMERS": "n"}
    on = [option for option in choices if config.on(option)]
    if not on:
        return finding(name, "ok", "none", "Linux adds little to the paths of the core"), {}
    changes = {key: value for option in on for key, value in choices[option].items()}
    return finding(
        name,
        "note",
        ", ".join(on),
        "only Linux tasks need them. Benchmark results of the Xenomai project with Linux 3.4.6 on "
        "an Atom 230 were better without them",
        f"measure with this change and without it: {shown(changes)}",
    ), changes


def _switch(name: str, config: Options) -> Result:
    if not config.on("CPU_ARM926T", "CPU_ARM920T", "CPU_ARM922T"):
        return finding(name, "ok", "no flush", "a switch between processes flushes no cache"), {}
    changes = {"ARM_FCSE": "y", "ARM_FCSE_GUARANTEED": "y"}
    if config.on("ARM_FCSE_GUARANTEED"):
        return finding(name, "ok", "FCSE", "a switch between processes flushes no cache"), {}
    return finding(
        name,
        "warning" if "ARM_FCSE" in config.options else "note",
        "the cache is flushed at each switch",
        "this processor's caches use virtual addresses. FCSE avoids the flush, with at most "
        "95 processes of 32 MiB",
        shown(changes),
    ), changes


def _drivers(name: str, config: Options) -> Result:
    if config.on("EVL") or not config.on("XENOMAI"):
        return finding(name, "ok", "no Cobalt core", "only Cobalt has these drivers"), {}
    wanted = ("XENO_DRIVERS_TIMERBENCH", "XENO_DRIVERS_SWITCHTEST")
    missing = [option for option in wanted if config.options.get(option, "n") == "n"]
    if not missing:
        return finding(name, "ok", "present", "the core's own tests can be run"), {}
    changes = dict.fromkeys(missing, "m")
    why = (
        "latency -t1 and -t2 need the timerbench driver, and switchtest needs its own. Both cost "
        "nothing until used"
    )
    return finding(name, "note", "without " + ", ".join(missing), why, shown(changes)), changes


def _counters(name: str, config: Options) -> Result:
    if config.on("EVL") or not config.on("XENOMAI"):
        return finding(name, "ok", "no Cobalt core", "only Cobalt has these counters"), {}
    if config.on("XENO_OPT_STATS"):
        return finding(name, "ok", "present", "a task's switch to Linux can be detected"), {}
    changes = {"XENO_OPT_STATS": "y"}
    why = (
        "the core counts neither mode switches nor page faults of its tasks, so the test "
        "'stays out-of-band' is inconclusive"
    )
    return finding(name, "warning", "without XENO_OPT_STATS", why, shown(changes)), changes


#: What decides the latency of a core, in the order of the findings. Not for kernels without one.
CORE_CONFIG_CHECKS: Mapping[str, Callable[[str, Options], Result]] = {
    "core": _core,
    "core-debugging": _debugging,
    "core-power": _power,
    "core-memory": _memory,
    "core-linux": _linux,
    "core-switch": _switch,
    "core-drivers": _drivers,
    "core-counters": _counters,
}
