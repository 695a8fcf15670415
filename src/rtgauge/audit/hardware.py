# SPDX-License-Identifier: Apache-2.0
"""Features of the processor and its devices that cost latency: power saving, error polling,
mitigations and cache sharing."""

from __future__ import annotations

import re

from rtgauge.audit.case import Case, Finding, Shell, cpus_text, finding, reason, unknown
from rtgauge.facts import CPU
from rtgauge.facts.interpret import isolated_cpus
from rtgauge.text import plain, plural
from rtgauge.units import read_cpus

__all__ = [
    "check_cache_allocation",
    "check_device_power",
    "check_error_polling",
    "check_iommu",
    "check_mitigations",
    "check_split_locks",
]

_MCE = "/sys/devices/system/machinecheck/machinecheck0/check_interval"
_EDAC = "/sys/devices/system/edac/mc/mc0"
_EDAC_POLL = "/sys/module/edac_core/parameters/edac_mc_poll_msec"
_ASPM = "/sys/module/pcie_aspm/parameters/policy"
_USB = "/sys/module/usbcore/parameters/autosuspend"
_GROUPS = "/sys/kernel/iommu_groups/*/type"
_RESCTRL = "/sys/fs/resctrl"
_SPLIT = "/proc/sys/kernel/split_lock_mitigate"


def check_mitigations(name: str, case: Case) -> Finding:
    # admin-guide/hw-vuln: most of them act on the entries into the kernel and on switches
    why = "each mitigation slows kernel entries and process switches"
    flaws = case.facts.lines(CPU + "vulnerabilities", "=")
    if not flaws:
        if case.facts.absent(CPU + "vulnerabilities"):
            return finding(name, "ok", "not in this kernel", "the kernel has no mitigations")
        missing = f"{CPU}vulnerabilities could not be read"
        return unknown(name, missing, why, f"grep . {CPU}vulnerabilities/*")
    active = sorted(flaw for flaw, text in flaws.items() if text.startswith("Mitigation"))
    if not active:
        open_ = sum(text.startswith("Vulnerable") for text in flaws.values())
        none = f"{plain(plural(len(flaws), 'known flaw'))}, none in this processor"
        found = f"off, flaws not mitigated: {open_}" if open_ else none
        return finding(name, "ok", found, "kernel entries have no extra cost")
    more = f" and {len(active) - 3} more" if len(active) > 3 else ""
    found = f"{len(active)} active: {', '.join(active[:3])}{more}"
    if case.facts.parameter("mitigations") == "off":
        return finding(name, "ok", found, "the others are off (mitigations=off)")
    return finding(
        name,
        "note",
        found,
        why,
        "boot with mitigations=off, but only if every program and input is trusted",
    )


def check_split_locks(name: str, case: Case) -> Finding:
    # arch/x86/kernel/cpu/bus_lock.c, admin-guide/sysctl/kernel (split_lock_mitigate)
    facts = case.facts
    split = "a locked access across two cache lines stalls all CPUs, and the kernel"
    why = f"{split} delays the task that made it"
    boot = "boot with split_lock_detect=off"
    remedy: str | Shell = Shell(f"sysctl -w kernel.split_lock_mitigate=0 # or {boot}")
    slowed, asked = case.integer(_SPLIT), facts.parameters("split_lock_detect")
    if facts.absent(_SPLIT) and facts.release is not None and asked is not None:
        # the switch is of 6.2. Kernels delay the task from 5.19 on, and only warn before
        slowed = int(facts.release >= (5, 19) or asked[-1:] not in ([], ["warn"]))
        remedy = boot
    flags = facts.lines("/proc/cpuinfo").get("flags")
    if facts.machine and not facts.is_x86:
        return finding(name, "ok", "not on this architecture", "it has no split locks")
    if flags is None:
        return unknown(name, "the processor's flags could not be read", why, "cat /proc/cpuinfo")
    if not {"split_lock_detect", "bus_lock_detect"} & set(flags.split()):
        return finding(name, "ok", "not detected by this processor", "no task is slowed down")
    if facts.parameter("split_lock_detect") == "off":
        return finding(name, "ok", "split_lock_detect=off", "no task is slowed down")
    if facts.parameter("split_lock_detect") == "fatal":
        why = f"{split} kills the task that made it"
        return finding(name, "note", "a task with split locks is killed", why, boot)
    if slowed == 0:
        return finding(name, "ok", "reported, not slowed down", "the task continues at once")
    if asked is None or slowed is None:
        missing = f"{_SPLIT} could not be read{reason(facts.error(_SPLIT))}"
        return unknown(name, missing, why, remedy)
    return finding(name, "note", "a task with split locks is slowed down", why, remedy)


def check_iommu(name: str, case: Case) -> Finding:
    # drivers/iommu/iommu.c: DMA is strict, DMA-FQ puts the flushes off (to a timer of 10 ms)
    why = "the driver maps and unmaps every transfer and waits for the IOMMU to flush"
    kinds = case.facts.lines(_GROUPS, "=")
    if not kinds:
        if case.facts.absent(_GROUPS):
            return finding(
                name, "ok", "no device behind an IOMMU", "devices access memory directly"
            )
        return unknown(name, "the IOMMU groups could not be read", why, f"grep . {_GROUPS}")
    strict = sum(kind == "DMA" for kind in kinds.values())
    lazy = sum(kind == "DMA-FQ" for kind in kinds.values())
    if not strict and not lazy:
        return finding(name, "ok", "identity", "devices access memory directly")
    parts = [f"{strict} strict"] * bool(strict) + [f"{lazy} lazy"] * bool(lazy)
    return finding(
        name,
        "note",
        f"groups: {' and '.join(parts)}",
        why if strict else "while devices are active, a timer flushes the IOMMU every 10 ms",
        "boot with iommu.passthrough=1 (x86: iommu=pt) if the devices can be trusted",
    )


def check_error_polling(name: str, case: Case) -> Finding:
    # arch/x86/kernel/cpu/mce/core.c: a timer on each CPU; drivers/edac/edac_mc.c: a work queue, if
    # the driver has a routine edac_check, which no file shows
    facts = case.facts
    why = "a timer on each CPU reads error registers, and EDAC may poll the memory controller"
    interval, poll = case.integer(_MCE), case.integer(_EDAC_POLL)
    memory = case.integer(_EDAC)
    if (interval is None and not facts.absent(_MCE)) or (
        poll is None and not facts.absent(_EDAC_POLL)
    ):
        missing = _MCE if interval is None and not facts.absent(_MCE) else _EDAC_POLL
        error = reason(facts.error(missing))
        return unknown(name, f"{missing} could not be read{error}", why, f"cat {missing}")
    found, remedies = [], []
    if interval and facts.parameter("mce") not in ("ignore_ce", "off"):
        found.append(f"machine checks every {interval} s")
        remedies.append(f"echo 0 | tee {_MCE.replace('check0', 'check*')}")
    if poll and memory:
        found.append(f"EDAC every {poll} ms, if its driver polls")
        remedies.append(f"echo 0 > {_EDAC_POLL}")
    if not found:
        return finding(name, "ok", "none", "no timer polls for errors")
    return finding(
        name,
        "note",
        ", ".join(found),
        why,
        Shell("; ".join(remedies) + " # corrected errors are no longer recorded"),
    )


def check_device_power(name: str, case: Case) -> Finding:
    # PCI Express ASPM: a link that sleeps takes up to some 10 us to wake (L1); usb/power-management
    facts = case.facts
    why = "a suspended device answers late, by microseconds on PCI Express and by more on USB"
    text, usb = facts.text(_ASPM), case.integer(_USB)
    chosen = re.search(r"\[(\w+)\]", text or "")
    off = facts.parameter("pcie_aspm") == "off" or facts.absent(_ASPM)
    if (chosen is None and not off) or (usb is None and not facts.absent(_USB)):
        missing = _ASPM if chosen is None and not off else _USB
        error = reason(facts.error(missing))
        return unknown(name, f"{missing} could not be read{error}", why, f"cat {missing}")
    found, remedies = [], []
    if chosen is not None and not off and chosen[1] != "performance":
        found.append(f"PCI Express links: {chosen[1]}")
        remedies.append(f"echo performance > {_ASPM}")
    if usb is not None and usb >= 0:
        found.append(f"USB: suspended after {usb} s where power/control is auto")
        remedies.append(
            "for f in /sys/bus/usb/devices/*/power/control; do echo on > $f; done"
            " # and boot with usbcore.autosuspend=-1"
        )
    if not found:
        return finding(name, "ok", "no device is suspended", "devices answer at once")
    return finding(name, "note", "; ".join(found), why, Shell("; ".join(remedies)))


def check_cache_allocation(name: str, case: Case) -> Finding:
    # arch/x86/resctrl: the mount point exists only if the processor supports it
    facts = case.facts
    why = "other tasks evict this task's data from the shared cache"
    if case.integer(_RESCTRL) is None:
        if facts.absent(_RESCTRL):
            return finding(name, "ok", "not on this system", "the cache cannot be partitioned")
        return unknown(name, f"{_RESCTRL} was not checked", why, f"ls {_RESCTRL}")
    mount = f"mount -t resctrl resctrl {_RESCTRL}"
    if facts.text(_RESCTRL + "/schemata") is None:
        error = facts.error(_RESCTRL + "/schemata")
        if error:
            return unknown(name, f"{_RESCTRL}/schemata: {error}", why, "run the check as root")
        return finding(name, "note", "available, but not in use", why, _share(mount, case))
    groups = facts.lines(_RESCTRL + "/*/cpus_list", "=")
    held = frozenset[int]().union(*(read_cpus(text) or frozenset() for text in groups.values()))
    apart = case.apart()
    if apart and not apart <= held:
        found = f"no group for {cpus_text(apart - held)}"
        return finding(name, "note", found, why, _share("", case))
    found = f"in use, {cpus_text(held)} in groups" if held else "mounted, without a group of CPUs"
    return finding(name, "ok", found, "the schemata of each group define its share")


def _share(mount: str, case: Case) -> str:
    cpus = case.apart() or isolated_cpus(case.facts) or case.cpus
    text = ",".join(str(cpu) for cpu in sorted(cpus)[:64])
    steps = [
        mount,
        f"mkdir {_RESCTRL}/rt",
        f"echo {text} > {_RESCTRL}/rt/cpus_list",
        f"cat {_RESCTRL}/schemata # then write non-overlapping shares to both schemata",
    ]
    return " && ".join(step for step in steps if step)
