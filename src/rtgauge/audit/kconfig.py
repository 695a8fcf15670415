# SPDX-License-Identifier: Apache-2.0
"""A kernel's configuration alone, without any target: findings, and the fragment that mends it.

The fragment is in the notation of ``.config`` and fits scripts/kconfig/merge_config.sh of the
kernel's sources. Sources: kernel/Kconfig.preempt, kernel/Kconfig.hz, kernel/time/Kconfig,
init/Kconfig, mm/Kconfig, drivers/cpufreq/Kconfig, kernel/trace/Kconfig, and those of debugging.py.
"""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rtgauge.audit.case import Finding, Level, finding, shown
from rtgauge.audit.core_config import CORE_CONFIG_CHECKS
from rtgauge.audit.debugging import DEBUGGING, SLIGHT
from rtgauge.errors import RtgaugeError, UsageError
from rtgauge.facts.interpret import Model
from rtgauge.text import plain, plural

__all__ = ["CONFIG_CHECKS", "ConfigAudit", "KernelConfig", "audit_config", "read_config"]

_FILE_MAX = 4 << 20  # a whole configuration has about 300 kB, a tenth of that when packed
_TEXT_MAX = 8 << 20
_OPTION = re.compile(r"^(?:CONFIG_(\w{1,100})=(.*)|# CONFIG_(\w{1,100}) is not set)$", re.M | re.A)
_HEAD = re.compile(
    r"^# Linux/(\w{1,20}) (\d{1,3})\.(\d{1,4})(\S{0,100}) Kernel Configuration$", re.M | re.A
)
_REMEDY = "give a kernel's configuration: .config, /boot/config-RELEASE or /proc/config.gz"


@dataclass(frozen=True, slots=True)
class KernelConfig:
    """The options of a kernel, and what its head line says of the kernel."""

    options: Mapping[str, str]  # those that are on, and "n" for those said to be off
    architecture: str = ""  # as the kernel's folder arch/ has it; empty: not said
    version: tuple[int, int] | None = None
    release: str = ""

    def __getitem__(self, option: str) -> str:
        """``y``, ``m``, a number or a text; ``n`` for what is off or not there."""
        return self.options.get(option, "n")

    def on(self, *options: str) -> bool:
        return any(self[option] == "y" for option in options)

    @property
    def resolved(self) -> bool:
        """Whether the kernel's build wrote it, with all options: a defconfig has but a few."""
        return self.version is not None or "CC_VERSION_TEXT" in self.options

    @property
    def realtime(self) -> bool:
        # until 5.2, with the patches, it was called PREEMPT_RT_FULL
        return self.on("PREEMPT_RT", "PREEMPT_RT_FULL")

    @property
    def core(self) -> str:
        """The real-time core next to Linux, or the interrupt pipeline for one; empty if neither."""
        for option, core in (
            ("XENOMAI", "Xenomai's Cobalt"),
            ("EVL", "EVL"),
            ("DOVETAIL", "Dovetail, the pipeline for Cobalt or EVL"),
            ("IPIPE", "I-pipe, the pipeline for Xenomai"),
        ):
            if self.on(option):
                return core
        return ""


@dataclass(frozen=True, slots=True)
class ConfigAudit:
    """Findings and changes: option → value, ``n`` for off."""

    findings: list[Finding]
    fragment: str
    model: Model


#: A change that the fragment makes; one that it only proposes where a finding is a note.
_Changes = dict[str, str]
_Result = tuple[Finding, _Changes]


def read_config(path: Path) -> KernelConfig:
    """The configuration in a file, plain or packed by gzip.

    Raises UsageError for a missing file, RtgaugeError for one without a configuration.
    """
    try:
        data = _read(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", _REMEDY) from None
    if data[:2] == b"\x1f\x8b":
        data = _unpack(data, path)
    if len(data) > _FILE_MAX:
        raise RtgaugeError(f"{path} is too large for a kernel's configuration", _REMEDY)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise RtgaugeError(f"{path} is neither text nor gzip-compressed text", _REMEDY)
    # The last line about an option decides, as it does for the kernel: fragments are appended.
    options = {
        name or off: value.strip().strip('"') if name else "n"
        for name, value, off in _OPTION.findall(text)
    }
    if not any(value in ("y", "m") for value in options.values()):
        raise RtgaugeError(f"{path} is not the configuration of a kernel: no option is on", _REMEDY)
    head = _HEAD.search(text)
    if head is None:
        return KernelConfig(options)
    version = (int(head[2]), int(head[3]))
    return KernelConfig(options, head[1], version, f"{version[0]}.{version[1]}{head[4]}")


def _read(path: Path) -> bytes:
    """At most one byte more than a configuration may have; nothing here waits for anybody."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb", buffering=0, closefd=True) as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise UsageError(f"cannot read {path}: it is not a regular file", _REMEDY)
        data = b""
        while len(data) <= _FILE_MAX and (piece := file.read(_FILE_MAX + 1 - len(data))):
            data += piece
    return data


def _unpack(data: bytes, path: Path) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(data, _TEXT_MAX)
    except zlib.error:
        raise RtgaugeError(f"{path} is damaged: gzip cannot unpack it", _REMEDY) from None
    if not unpacker.eof:
        kind = "too large" if unpacker.unconsumed_tail or len(text) >= _TEXT_MAX else "cut short"
        raise RtgaugeError(f"{path}: the kernel's configuration is {kind}", _REMEDY)
    return text


# --- the checks ----------------------------------------------------------------------------------


def _fine(name: str, found: str, why: str) -> _Result:
    return finding(name, "ok", found, why), {}


def _model(config: KernelConfig) -> Model:
    if config.realtime:
        return "preempt_rt"
    models: tuple[tuple[str, Model], ...] = (
        ("XENOMAI", "cobalt"),
        ("EVL", "evl"),
        ("PREEMPT_LAZY", "lazy"),
        ("PREEMPT_VOLUNTARY", "voluntary"),
        ("PREEMPT_NONE", "none"),
        ("PREEMPT", "full"),
    )
    for option, model in models:
        if config.on(option, option + "_BEHAVIOUR"):
            return model
    return "unknown"


def _preemption(name: str, config: KernelConfig) -> _Result:
    model = _model(config)
    if model == "preempt_rt":
        return _fine(name, "PREEMPT_RT", "handlers and locks of the kernel can be preempted")
    if config.core:
        found = config.core
        why = (
            "real-time tasks run on a core with precedence over Linux, whatever Linux's preemption"
            " model. Only real-time tasks of Linux itself need PREEMPT_RT"
        )
        remedy = "measure tasks of the core: rtgauge run timer --core cobalt"
        if config.on("IPIPE"):
            remedy = "measure with Xenomai's latency -h, and import its output with rtgauge import"
        elif model == "evl":
            why += ". rtgauge measures only Linux tasks on EVL"
            remedy = "read rtgauge's figures as figures of Linux tasks"
        elif model != "cobalt":
            remedy = f"build the kernel with {shown({'XENOMAI': 'y'})}, then {remedy}"
        return finding(name, "note", found, why, remedy), {}
    dynamic = config.on("PREEMPT_DYNAMIC")
    why = "spinlocks, softirqs and interrupt handlers delay every task without a bound"
    found = model + (", to be chosen at boot (preempt=)" if dynamic else "")
    changes: _Changes
    # The symbol is there, and on, where the sources of that kernel have PREEMPT_RT for that
    # architecture: x86, arm64 and riscv in 6.12, and any other version with the patches.
    if config.on("ARCH_SUPPORTS_RT"):
        changes = {"EXPERT": "y", "PREEMPT_RT": "y"}
        for option in ("PREEMPT_NONE", "PREEMPT_VOLUNTARY", "PREEMPT_LAZY", "COMPILE_TEST"):
            if option in config.options and config[option] != "n":
                changes[option] = "n"
        if config.version is None or config.version < (6, 13):
            # one of several choices there, which excludes PREEMPT_DYNAMIC
            changes.update({o: "n" for o in ("PREEMPT", "PREEMPT_DYNAMIC") if config.on(o)})
        elif not config.on("PREEMPT", "PREEMPT_LAZY"):
            changes["PREEMPT"] = "y"
        remedy = shown(changes)
    else:
        changes = {} if model == "full" else {"PREEMPT": "y"}
        for option in ("PREEMPT_NONE", "PREEMPT_VOLUNTARY"):
            if changes and config.on(option):
                changes[option] = "n"
        place = f" for {config.architecture}" if config.architecture else ""
        series = f"{config.version[0]}.{config.version[1]}" if config.version else "this version"
        remedy = (
            f"use sources with PREEMPT_RT{place}: mainline from 6.12 on (x86, arm64, riscv), or the"
            f" real-time patches for {series}, if there are any"
            " (kernel.org/pub/linux/kernel/projects/rt)"
        )
        if changes:
            remedy += f". Until then: {shown(changes)}"
    level: Level = "warning" if model in ("full", "lazy") else "error"
    return finding(name, level, found, why, remedy), changes


def _timers(name: str, config: KernelConfig) -> _Result:
    if config.on("HIGH_RES_TIMERS"):
        return _fine(name, "high resolution", "they expire when due, not at the next tick")
    changes = {"HIGH_RES_TIMERS": "y"}
    why = "a sleeping task wakes only at the next tick"
    if config.core:
        why = (
            "a sleeping Linux task wakes only at the next tick. Tasks of the core use the core's "
            "timers"
        )
        return finding(name, "note", "tick resolution", why, shown(changes)), changes
    return finding(name, "error", "tick resolution", why, shown(changes)), changes


def _clock(name: str, config: KernelConfig) -> _Result:
    # drivers/clocksource/Kconfig, arch/arm/mach-at91/Kconfig, arch/arm/plat-omap/Kconfig
    at91 = any(
        re.match("(ARCH_AT91|SOC_AT91|SOC_SAM)", option) and config.on(option)
        for option in config.options
    )
    if at91 and not config.on("ATMEL_TCB_CLKSRC", "MICROCHIP_PIT64B"):
        changes = {"ATMEL_TCB_CLKSRC": "y"}
        if config.version is None or config.version < (5, 8):
            changes["ATMEL_TCLIB"] = "y"  # until then its timers had a driver of their own
        why = (
            "the PIT has no one-shot mode: high-resolution timers stay off, and the clock advances"
        )
        why += " in steps of the PIT"
        return finding(name, "error", "AT91 without its timer counters", why, shown(changes)), (
            changes
        )
    if at91:
        return _fine(
            name, "timer counters of the AT91", "a high-resolution clock and one-shot timers"
        )
    # from 3.10 on, OMAP_32K_TIMER selects no timer on OMAP2 and later: it only decides HZ
    board = config.on("ARCH_OMAP2PLUS") and (config.version is None or config.version >= (3, 10))
    if config.on("OMAP_32K_TIMER") and not board:
        changes = {"OMAP_32K_TIMER": "n"}
        why = "the 32 kHz clock advances in steps of 31 µs, which limits time stamps and timers"
        return finding(name, "warning", "OMAP's 32 kHz timer", why, shown(changes)), changes
    known = ("X86", "ARM64", "RISCV", "PPC", "S390", "LOONGARCH")
    if config.architecture in ("x86", "arm64", "riscv", "powerpc", "s390", "loongarch") or (
        config.on(*known)
    ):
        return _fine(name, "the processor's own counter", "it is part of the architecture")
    found = "a board timer that rtgauge does not know"
    if config.on("ARM_ARCH_TIMER"):
        found = "the processor's own counter, or a board timer on Cortex-A5, A8 and A9"
    return finding(
        name,
        "note",
        found,
        "some board timers have a coarse clock, or no one-shot mode: timers wait for the tick",
        "boot the kernel, and see the checks 'timers' and 'clock-source' of rtgauge check",
    ), {}


def _tick(name: str, config: KernelConfig) -> _Result:
    rate = int(config["HZ"]) if re.fullmatch(r"[1-9]\d{0,4}", config["HZ"]) else None
    if rate is None:
        return finding(
            name,
            "note",
            "unknown",
            "the rate of the tick is not given",
            "give a file that has CONFIG_HZ",
        ), {}
    if rate < 1000:
        return _fine(name, f"{rate} Hz", "high-resolution timers do not wait for it")
    changes = {"HZ_250": "y", f"HZ_{rate}": "n"}
    why = (
        "each tick interrupts a busy CPU for microseconds, and a faster tick does not make timers "
        "more accurate"
    )
    return finding(name, "note", f"{rate} Hz", why, shown(changes)), changes


def _debugging(name: str, config: KernelConfig) -> _Result:
    on = [option for option in DEBUGGING if config.on(option)]
    if config.on("DEBUG_KMEMLEAK_DEFAULT_OFF"):
        on = [option for option in on if option != "DEBUG_KMEMLEAK"]
    changes = dict.fromkeys(on, "n")
    if config.on("FUNCTION_TRACER") and not config.on("DYNAMIC_FTRACE"):
        on.append("FUNCTION_TRACER")
        changes["DYNAMIC_FTRACE"] = "y"
    if not on:
        return _fine(name, "no slow options", "no debugging option costs latency")
    heavy = [option for option in on if option not in SLIGHT]
    costs = ", ".join(dict.fromkeys(DEBUGGING.get(option, "every call") for option in on))
    return finding(
        name,
        "warning" if heavy else "note",
        ", ".join(heavy + [option for option in on if option in SLIGHT]),
        f"slower: {costs}",
        shown(changes),
    ), {o: v for o, v in changes.items() if not heavy or o not in SLIGHT}


def _groups(name: str, config: KernelConfig) -> _Result:
    if not config.on("RT_GROUP_SCHED") or config.on("RT_GROUP_SCHED_DEFAULT_DISABLED"):
        return _fine(
            name, "no real-time runtime per group", "real-time runtime is not divided among groups"
        )
    changes = {"RT_GROUP_SCHED": "n"}
    why = "a control group without its own real-time runtime cannot run real-time tasks"
    return finding(name, "warning", "RT_GROUP_SCHED", why, shown(changes)), changes


def _frequency(name: str, config: KernelConfig) -> _Result:
    if not config.on("CPU_FREQ"):
        return _fine(name, "fixed", "the kernel does not change the frequency")
    if config.on("CPU_FREQ_DEFAULT_GOV_PERFORMANCE"):
        return _fine(name, "performance from the start", "the frequency is not lowered")
    changes = {"CPU_FREQ_DEFAULT_GOV_PERFORMANCE": "y"}
    changes.update(
        dict.fromkeys(
            (o for o in config.options if re.match("CPU_FREQ_DEFAULT_GOV_", o) and config.on(o)),
            "n",
        )
    )
    why = "until the performance governor is set, work after a pause begins at a low frequency"
    return finding(name, "note", "another default governor", why, shown(changes)), changes


def _isolation(name: str, config: KernelConfig) -> _Result:
    # NO_HZ_FULL helps only a task that never sleeps
    wanted = ("CPU_ISOLATION", "CPUSETS", "RCU_NOCB_CPU")
    if not config.on("SMP"):
        return _fine(name, "a single CPU", "it cannot be isolated")
    changes = {option: "y" for option in wanted if not config.on(option)}
    if config.version is not None and config.version < (4, 15):
        changes.pop("CPU_ISOLATION", None)
    if "RCU_NOCB_CPU" in changes and not config.on("NO_HZ_FULL", "RCU_EXPERT"):
        changes["RCU_EXPERT"] = "y"  # otherwise Kconfig does not offer it
    if not changes:
        return _fine(name, "CPUs can be isolated", "isolcpus and rcu_nocbs work")
    return finding(
        name,
        "note",
        "without " + ", ".join(option for option in wanted if option in changes),
        "needed to isolate CPUs for real-time tasks",
        shown(changes),
    ), changes


def _huge_pages(name: str, config: KernelConfig) -> _Result:
    if not config.on("TRANSPARENT_HUGEPAGE_ALWAYS") or config.realtime:
        return _fine(name, "not for every program", "no program gets them without asking")
    changes = {"TRANSPARENT_HUGEPAGE_MADVISE": "y", "TRANSPARENT_HUGEPAGE_ALWAYS": "n"}
    why = "assembling huge pages stops a process while memory is copied or cleared"
    return finding(name, "warning", "always", why, shown(changes)), changes


def _numa(name: str, config: KernelConfig) -> _Result:
    if not config.on("NUMA_BALANCING_DEFAULT_ENABLED"):
        return _fine(name, "off unless asked for", "memory stays where it is")
    changes = {"NUMA_BALANCING_DEFAULT_ENABLED": "n"}
    why = "memory is unmapped from time to time to find its users: pages fault and move"
    return finding(name, "warning", "on from the start", why, shown(changes)), changes


def _explaining(name: str, config: KernelConfig) -> _Result:
    wanted = ("FTRACE", "FUNCTION_TRACER", "OSNOISE_TRACER", "TIMERLAT_TRACER", "HWLAT_TRACER")
    changes = {option: "y" for option in wanted if not config.on(option)}
    if config.version is not None and config.version < (5, 14):
        changes.pop("OSNOISE_TRACER", None)
        changes.pop("TIMERLAT_TRACER", None)
    if config.version is not None and config.version < (4, 9):
        changes.pop("HWLAT_TRACER", None)
    if not changes:
        tracers = "timerlat, osnoise and hwlat" if config.on("OSNOISE_TRACER") else "hwlat"
        tracers = tracers if config.on("HWLAT_TRACER") else "function tracer"
        return _fine(name, tracers, "the tracer can show what delays a task")
    why = "only these tracers show what delayed a task. They cost nothing until used"
    return finding(name, "note", "without " + ", ".join(changes), why, shown(changes)), changes


#: In the order of their findings; those of the same name as in CHECKS look at the same thing.
CONFIG_CHECKS: Mapping[str, Callable[[str, KernelConfig], _Result]] = {
    "preemption": _preemption,
    "debugging": _debugging,
    "tracers": _explaining,
    "timers": _timers,
    "clock-source": _clock,
    "tick": _tick,
    "frequency": _frequency,
    "control-groups": _groups,
    "isolation": _isolation,
    "huge-pages": _huge_pages,
    "numa-balancing": _numa,
}


def _unresolved(config: KernelConfig) -> Finding:
    return finding(
        "configuration",
        "warning",
        f"{plain(plural(len(config.options), 'option'))}, not resolved: a defconfig or a fragment",
        "an option that it does not name has the default of the kernel's sources. The checks below "
        "treat it as off, which may be wrong",
        "in the kernel's sources: make NAME_defconfig (or cp it to .config), make olddefconfig, "
        "and check the .config that this writes",
    )


def audit_config(config: KernelConfig) -> ConfigAudit:
    """Findings and fragment. The fragment makes the changes of warnings and errors. It contains
    those of notes as comments (#), in a form that merge_config.sh ignores."""
    findings: list[Finding] = [] if config.resolved else [_unresolved(config)]
    lines: list[str] = []
    made: set[str] = set()
    checks: dict[str, Callable[[str, KernelConfig], _Result]] = dict(CONFIG_CHECKS)
    checks.update(CORE_CONFIG_CHECKS if config.core else {})
    for name, check in checks.items():
        found, changes = check(name, config)
        findings.append(found)
        if not changes:
            continue
        active = found.level in ("warning", "error")
        lines.append(f"# {found.check}: {found.level}" + ("" if active else ", if wanted:"))
        for option, value in changes.items():
            if option in made:
                continue
            if active:
                made.add(option)
            line = f"# CONFIG_{option} is not set" if value == "n" else f"CONFIG_{option}={value}"
            lines.append(line if active else f"#? {line.removeprefix('# ')}")
    release = f", for Linux {config.release}" if config.release else ""
    head = f"# From rtgauge check --config{release}"
    fragment = "\n".join([head, *lines, ""]) if lines else ""
    return ConfigAudit(findings, fragment, _model(config))
