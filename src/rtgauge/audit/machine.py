# SPDX-License-Identifier: Apache-2.0
"""The machine below the kernel."""

from __future__ import annotations

from rtgauge.audit.case import Case, Finding, finding, unknown
from rtgauge.facts import CPU
from rtgauge.facts.interpret import hypervisor, steal
from rtgauge.text import percent, plain
from rtgauge.units import read_integer

__all__ = ["check_smi", "check_thermal", "check_virtualisation"]


def check_virtualisation(name: str, case: Case) -> Finding:
    kind = hypervisor(case.facts)
    share = steal(case.facts, case.cpus)
    stolen = "unknown" if share is None else f"{plain(percent(share))} since boot"
    stolen = f"steal time {stolen}"
    why = "the host may take the CPU away at any moment, and no setting in the guest prevents this"
    remedy = (
        "measure on the physical machine, or give each virtual CPU a host CPU of its own"
        " (virsh vcpupin) and a real-time priority there"
    )
    if kind:
        return finding(
            name,
            "error" if share is not None and share >= 0.01 else "warning",
            f"virtual machine ({kind}), {stolen}",
            why,
            remedy,
        )
    if share:
        return finding(name, "warning", f"no hypervisor found, but {stolen}", why, remedy)
    if kind is None:
        return unknown(
            name,
            "it is not known whether this is a virtual machine",
            why,
            "systemd-detect-virt --vm",
        )
    if share is None:
        return unknown(name, "no hypervisor found, but steal time could not be read", why, remedy)
    return finding(
        name, "ok", f"no hypervisor found, {stolen}", "no hypervisor can take the CPU away"
    )


_THROTTLED = CPU + "cpu#/thermal_throttle/"


def _counts(case: Case, file: str) -> dict[int, int]:
    counts = {cpu: read_integer(text) for cpu, text in case.values(_THROTTLED + file).items()}
    return {cpu: count for cpu, count in counts.items() if count is not None}


def check_thermal(name: str, case: Case) -> Finding:
    # arch/x86/kernel/cpu/mce/therm_throt.c: how often the processor slowed itself down
    why = "a processor that is too hot slows down until it has cooled"
    remedy = "improve the cooling, or set a lower, sustainable frequency (scaling_max_freq)"
    cores = _counts(case, "core_throttle_count")
    packages = _counts(case, "package_throttle_count")
    counts = [*cores.values(), *packages.values()]
    if any(count > 0 for count in counts):
        return finding(name, "warning", f"slow-downs since boot: {max(counts)}", why, remedy)
    if case.covers(cores):
        return finding(name, "ok", "never slowed down since boot", "it has not overheated")
    if hypervisor(case.facts):
        return unknown(
            name, "only the host of this virtual machine counts thermal throttling", why, remedy
        )
    return unknown(
        name,
        "this processor does not count thermal throttling",
        why,
        "watch the frequency while measuring, and /sys/class/thermal/thermal_zone*/temp",
    )


def check_smi(name: str, case: Case) -> Finding:
    # trace/hwlat_detector: the firmware takes all CPUs, unseen by the kernel
    facts = case.facts
    why = "during an SMI, no CPU does anything else, and no setting of the kernel prevents it"
    firmware = (
        "switch off the causes of SMIs in the firmware: legacy USB, power management, error"
        " logging. Find them with the kernel's hwlat tracer"
    )
    count = facts.integer("agent.smi_count")
    processor = facts.lines("/proc/cpuinfo")
    if facts.machine and not facts.is_x86:
        return finding(name, "ok", "none on this architecture", "it has no system management mode")
    if hypervisor(facts):
        return unknown(
            name, "the SMIs of the host cannot be seen from inside", why, "check on the host"
        )
    if count is None or "Intel" not in processor.get("vendor_id", ""):
        intel = "Intel" in processor.get("vendor_id", "")
        return unknown(
            name,
            "the SMI count could not be read" if intel else "this processor does not count SMIs",
            why,
            "load the module msr, and check as root" if intel else firmware,
        )
    if count == 0:
        return finding(name, "ok", "none since boot", "the firmware took no CPU away")
    return finding(
        name,
        "note",
        f"{count} since boot",
        f"{why}. The count includes those during boot",
        f"check whether the count grows (rdmsr -d 0x34), and {firmware}",
    )
