# SPDX-License-Identifier: Apache-2.0
"""What a run records of its target: the facts, read, as plain JSON
(docs/formats/environment.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, TypeAlias

from rtgauge.facts import CLOCK, CPU, Fact, Facts, one_line
from rtgauge.facts.interpret import (
    CAP_IPC_LOCK,
    CAP_SYS_NICE,
    GOVERNOR,
    capable,
    container,
    hypervisor,
    isolated_cpus,
    online_cpus,
    preemption,
    rt_group_sched,
    steal,
)
from rtgauge.units import format_cpus, read_integer, read_mask

__all__ = ["SettingLike", "Settings", "environment_document", "settings_document"]


class SettingLike(Protocol):
    """A record ``setting`` of a stream."""

    @property
    def name(self) -> str: ...
    @property
    def asked(self) -> str | None: ...
    @property
    def before(self) -> str | None: ...
    @property
    def effective(self) -> str | None: ...
    @property
    def reason(self) -> str: ...


#: Settings of a run: its records, or the effective value of each by name.
Settings: TypeAlias = Iterable[SettingLike] | Mapping[str, str | None]


def settings_document(settings: Settings | None) -> dict[str, dict[str, str | None]]:
    """Settings by name; one that did not take effect is not covered up by a later one that did."""
    if settings is None:
        return {}
    if isinstance(settings, Mapping):
        return {
            str(name): {"asked": None, "effective": _text_or_none(value)}
            for name, value in settings.items()
        }
    document: dict[str, dict[str, str | None]] = {}
    for setting in settings:
        entry = {
            "asked": setting.asked,
            "effective": setting.effective,
            "before": setting.before,
            "reason": setting.reason,
        }
        known = document.get(setting.name)
        if known is None or not known["reason"] or setting.reason:
            document[setting.name] = entry
    return document


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def environment_document(
    facts: Mapping[str, Fact], settings: Settings | None = None
) -> dict[str, Any]:
    """What a run records of its target, as JSON types; docs/formats/environment.md lists the keys.

    What is not known is null, or empty where it is a text or a map.
    """
    known = Facts(facts)
    return {
        "host": _word(known, "uname.nodename"),
        "kernel": _kernel(known),
        "cpu": _processor(known),
        "memory": _memory(known),
        "libc": one_line(known.text("agent.libc") or ""),
        "realtime": preemption(known).model,
        "clock": {
            "source": _word(known, CLOCK + "current_clocksource"),
            "available": (known.text(CLOCK + "available_clocksource") or "").split()[:32],
            "resolution_ns": known.integer("agent.clock_getres_ns"),
            "tick_ns": known.integer("agent.clock_getres_coarse_ns"),
            "event_device": _by_cpus(
                known, "/sys/devices/system/clockevents/clockevent#/current_device"
            ),
        },
        "hardware": _hardware(known),
        "virtualisation": {
            "hypervisor": hypervisor(known),
            "container": container(known),
            "steal": steal(known, frozenset()),
        },
        "privileges": {
            "uid": known.integer("agent.uid"),
            "fifo": None
            if known.integer("agent.fifo") is None
            else known.integer("agent.fifo") == 0,
            "fifo_priority": known.integer("agent.fifo_priority"),
            "rlimit_rtprio": known.integer("agent.rlimit_rtprio"),
            "rlimit_memlock": known.integer("agent.rlimit_memlock"),
            "rlimit_rttime": known.integer("agent.rlimit_rttime"),
            "sys_nice": capable(known, CAP_SYS_NICE),
            "ipc_lock": capable(known, CAP_IPC_LOCK),
            "dma_latency": None
            if known.integer("agent.dma_latency") is None
            else known.integer("agent.dma_latency") == 0,
        },
        "thermal": _thermal(known),
        "boot_id": _word(known, "/proc/sys/kernel/random/boot_id"),
        "uptime_s": _first_number(known.text("/proc/uptime")),
        "load_average": _first_number(known.text("/proc/loadavg")),
        "settings": settings_document(settings),
    }


def _word(facts: Facts, name: str) -> str | None:
    value = facts.text(name)
    return None if value is None else one_line(value)


def _first_number(text: str | None) -> float | None:
    match = re.match(r"\d{1,15}(?:\.\d{1,6})?", text or "")
    return None if match is None else float(match[0])


def _by_cpus(facts: Facts, pattern: str) -> dict[str, str]:
    """A file of each CPU: list of CPUs → content."""
    by_value: dict[str, list[int]] = {}
    for cpu, value in facts.per_cpu(pattern).items():
        by_value.setdefault(one_line(value), []).append(cpu)
    return {format_cpus(cpus): value for value, cpus in by_value.items()}


def _kernel(facts: Facts) -> dict[str, Any]:
    state = preemption(facts)
    tick = next(
        (
            name
            for option, name in (
                ("HZ_PERIODIC", "periodic"),
                ("NO_HZ_FULL", "full"),
                ("NO_HZ_IDLE", "idle"),
                ("NO_HZ", "idle"),  # before Linux 3.10
            )
            if facts.config(option) == "y"
        ),
        None if facts.options is None else "periodic",
    )
    return {
        "release": _word(facts, "uname.release"),
        "version": _word(facts, "uname.version"),
        "machine": _word(facts, "uname.machine"),
        "build": one_line(facts.text("/proc/version") or "", 400),
        "cmdline": one_line(facts.text("/proc/cmdline") or "", 4096),
        "unknown_parameters": None
        if (unknown := facts.text("agent.unknown_parameters")) is None
        else one_line(unknown, 4096).split(),
        "preemption": one_line(state.found),
        "preemption_dynamic": state.dynamic,
        "rt_group_sched": rt_group_sched(facts),
        "hz": read_integer(facts.config("HZ")),
        "tick": tick,
        "tainted": facts.integer("/proc/sys/kernel/tainted"),
        "lockdown": _word(facts, "/sys/kernel/security/lockdown"),
        "scheduler": {
            name.rsplit("/", 1)[1]: one_line(facts.text(name) or "")
            for name in sorted(facts.names("/proc/sys/kernel/sched_*"))[:64]
        },
    }


def _processor(facts: Facts) -> dict[str, Any]:
    info = facts.lines("/proc/cpuinfo")
    model = next(
        (info[key] for key in ("model name", "Processor", "cpu model", "cpu") if info.get(key)), ""
    )
    online = online_cpus(facts)
    return {
        "model": one_line(model or facts.text("/proc/device-tree/model") or ""),
        "microcode": one_line(info.get("microcode", "")),
        "count": None if online is None else len(online),
        "online": None if online is None else format_cpus(online),
        "possible": _word(facts, CPU + "possible"),
        "isolated": None if (cpus := isolated_cpus(facts)) is None else format_cpus(cpus),
        "nohz_full": None if (full := facts.cpus(CPU + "nohz_full")) is None else format_cpus(full),
        "irq_affinity": None
        if (mask := read_mask(facts.text("/proc/irq/default_smp_affinity") or "-")) is None
        else format_cpus(mask),
        "smt": {
            "control": _word(facts, CPU + "smt/control"),
            "active": {"0": False, "1": True}.get(facts.text(CPU + "smt/active") or ""),
        },
        "caches": _caches(facts),
        "nodes": _word(facts, "/sys/devices/system/node/online"),
        "frequency": {
            "driver": _by_cpus(facts, CPU + "cpu#/cpufreq/scaling_driver"),
            "governor": _by_cpus(facts, GOVERNOR),
            "min_khz": _by_cpus(facts, CPU + "cpu#/cpufreq/scaling_min_freq"),
            "max_khz": _by_cpus(facts, CPU + "cpu#/cpufreq/scaling_max_freq"),
            "no_turbo": _word(facts, CPU + "intel_pstate/no_turbo"),
            "boost": _word(facts, CPU + "cpufreq/boost"),
        },
        "sleep": {
            "driver": _word(facts, CPU + "cpuidle/current_driver"),
            "governor": _word(facts, CPU + "cpuidle/current_governor")
            or _word(facts, CPU + "cpuidle/current_governor_ro"),
            "states": [
                {
                    "name": _by_cpus(facts, f"{CPU}cpu#/cpuidle/state{number}/name"),
                    "latency_us": _by_cpus(facts, f"{CPU}cpu#/cpuidle/state{number}/latency"),
                    "disabled": _by_cpus(facts, f"{CPU}cpu#/cpuidle/state{number}/disable"),
                }
                for number in range(10)
                if facts.per_cpu(f"{CPU}cpu#/cpuidle/state{number}/name")
            ],
        },
        "vulnerabilities": {
            one_line(name, 60): one_line(value)
            for name, value in list(facts.lines(CPU + "vulnerabilities", "=").items())[:64]
        },
    }


def _caches(facts: Facts) -> list[str]:
    """Those of the first CPU: level, what they hold, and size, as the kernel has them."""
    levels, types, sizes = (
        facts.lines(f"{CPU}cpu0/cache/index*/{name}", "=") for name in ("level", "type", "size")
    )
    return [
        one_line(f"L{levels[index]} {types[index]} {sizes[index]}", 40)
        for index in sorted(set(levels) & set(types) & set(sizes))[:CACHES_MAX]
    ]


def _memory(facts: Facts) -> dict[str, Any]:
    info = facts.lines("/proc/meminfo")

    def size(key: str) -> int | None:
        match = re.fullmatch(r"(\d{1,15}) kB", info.get(key, ""))
        return None if match is None else int(match[1]) * 1024

    return {
        "total_bytes": size("MemTotal"),
        "available_bytes": size("MemAvailable"),
        "swap_bytes": size("SwapTotal"),
        "huge_pages": read_integer(info.get("HugePages_Total")),
        "transparent_huge_pages": _word(facts, "/sys/kernel/mm/transparent_hugepage/enabled"),
        "numa_balancing": facts.integer("/proc/sys/kernel/numa_balancing"),
    }


CACHES_MAX: Final = 8
PCI_MAX: Final = 64
_PCI_CLASSES: Final = {
    "01": "storage", "02": "network", "03": "display", "04": "multimedia", "05": "memory",
    "06": "bridge", "07": "communication", "08": "system", "09": "input", "0b": "processor",
    "0c": "serial bus", "0d": "wireless", "12": "accelerator",
}  # fmt: skip
"""Base class of a PCI device -> kind (PCI Code and ID Assignment Specification)."""


def _hardware(facts: Facts) -> dict[str, Any]:
    dmi = {
        key: _word(facts, f"/sys/class/dmi/id/{name}")
        for key, name in (
            ("vendor", "sys_vendor"),
            ("product", "product_name"),
            ("board", "board_name"),
            ("firmware_vendor", "bios_vendor"),
            ("firmware_version", "bios_version"),
            ("firmware_date", "bios_date"),
        )
    }
    compatible = facts.text("/proc/device-tree/compatible") or ""
    return {
        **dmi,
        "device_tree_model": _word(facts, "/proc/device-tree/model"),
        "device_tree_compatible": [one_line(line) for line in compatible.splitlines()[:16]],
        "cpuinfo_hardware": one_line(facts.lines("/proc/cpuinfo").get("Hardware", "")),
        "pci": _pci(facts),
    }


def _pci(facts: Facts) -> list[str]:
    """The devices on PCI: address, vendor and device in hexadecimal, and what kind it is."""
    vendors, devices, classes = (
        facts.lines(f"/sys/bus/pci/devices/*/{name}", "=") for name in ("vendor", "device", "class")
    )
    return [
        f"{one_line(address)} {_identity(vendors[address])}:{_identity(devices[address])} "
        f"{_PCI_CLASSES.get(classes.get(address, '')[2:4], 'other')}"
        for address in sorted(set(vendors) & set(devices))[:PCI_MAX]
    ]


def _identity(text: str) -> str:
    """``0x8086`` as ``8086``."""
    return one_line(text.removeprefix("0x"))[:8]


def _thermal(facts: Facts) -> dict[str, dict[str, Any]]:
    zones: dict[str, dict[str, Any]] = {}
    for name in sorted(facts.names("/sys/class/thermal/thermal_zone*/temp"))[:64]:
        zone = name.split("/")[4]
        temperature = facts.integer(name)
        zones[one_line(zone, 40)] = {
            "type": _word(facts, f"/sys/class/thermal/{zone}/type"),
            "celsius": None
            if temperature is None or abs(temperature) > 1 << 53
            else temperature / 1000,
        }
    return zones
