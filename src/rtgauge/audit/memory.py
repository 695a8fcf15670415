# SPDX-License-Identifier: Apache-2.0
"""Work of the kernel on memory that delays tasks."""

from __future__ import annotations

import re

from rtgauge.audit.case import PREPARE, Case, Finding, Shell, finding, unknown

__all__ = ["check_huge_pages", "check_numa", "check_page_merging", "check_swap"]

_THP = "/sys/kernel/mm/transparent_hugepage/enabled"
_KSM = "/sys/kernel/mm/ksm/run"
_NUMA = "/proc/sys/kernel/numa_balancing"


def check_swap(name: str, case: Case) -> Finding:
    # mlockall(2): locked pages stay; everything else of the system may be written out
    why = (
        "memory that is not locked (mlockall) may have to be read from the disk, or unpacked (zram)"
    )
    remedy = (
        "swapoff -a, remove what turns swap on (an entry in /etc/fstab, or a service such as"
        " zram-generator or dphys-swapfile), and lock the application's memory (mlockall)"
    )
    memory = case.facts.lines("/proc/meminfo")
    swaps = case.facts.text("/proc/swaps")
    total = _kib(memory.get("SwapTotal"))
    if total is None and (swaps is None or not swaps.startswith("Filename")):
        if case.facts.absent("/proc/swaps") and "MemTotal" in memory:
            return finding(
                name, "ok", "none, and not supported by the kernel", "memory stays where it is"
            )
        return unknown(name, "not known from /proc/swaps and /proc/meminfo", why, "cat /proc/swaps")
    areas = [line.split()[0] for line in (swaps or "").splitlines()[1:] if line.strip()]
    if not areas and not total:
        return finding(name, "ok", "none", "memory is not written to a disk")
    free = _kib(memory.get("SwapFree"))
    size = "" if total is None else f", {total >> 10} MiB"
    used = 0 if total is None or free is None else max(total - free, 0)
    where = ", ".join(areas[:4]) or "on"
    if used:
        return finding(name, "warning", f"{where}{size}, {used >> 10} MiB in use", why, remedy)
    return finding(name, "note", f"{where}{size}", why, remedy)


def _kib(text: str | None) -> int | None:
    match = re.fullmatch(r"(\d{1,15}) kB", text or "")
    return None if match is None else int(match[1])


def check_huge_pages(name: str, case: Case) -> Finding:
    # admin-guide/mm/transhuge: khugepaged takes a process's memory map to put huge pages together,
    # and a fault may have to clear, or to make room for, 2 MiB
    why = "assembling huge pages stops a process while memory is copied or cleared"
    remedy = Shell(f"echo never > {_THP} # or boot with transparent_hugepage=never; {PREPARE}")
    text = case.text(_THP)
    if text is None:
        # mm/Kconfig: depends on !PREEMPT_RT
        if case.facts.absent(_THP) or case.facts.config("TRANSPARENT_HUGEPAGE") == "n":
            return finding(name, "ok", "not in this kernel", "nothing assembles huge pages")
        return unknown(name, f"{_THP} could not be read", why, remedy)
    match = re.search(r"\[(\w+)\]", text)
    mode = match[1] if match is not None else text  # a run's setting is the word alone
    found = case.prefix(_THP) + mode
    if mode == "never":
        return finding(name, "ok", found, "nothing assembles huge pages")
    if mode == "madvise":
        return finding(name, "ok", found, "only for programs that ask for them")
    if mode == "always":
        return finding(name, "warning", found, why, remedy)
    return unknown(name, f"{_THP} contains {text}", why, remedy)


def check_numa(name: str, case: Case) -> Finding:
    # admin-guide/sysctl/kernel, numa_balancing: memory is unmapped to see which task faults on it
    why = "memory is unmapped from time to time to find its users: pages fault and move"
    remedy = Shell(f"sysctl -w kernel.numa_balancing=0 # {PREPARE}")
    value = case.integer(_NUMA)
    if value is None:
        if case.facts.absent(_NUMA) or case.facts.config("NUMA_BALANCING") == "n":
            return finding(name, "ok", "not in this kernel", "memory stays where it is")
        return unknown(name, f"{_NUMA} could not be read", why, remedy)
    if value == 0:
        return finding(name, "ok", f"{case.prefix(_NUMA)}off", "memory stays where it is")
    return finding(name, "warning", f"{case.prefix(_NUMA)}on", why, remedy)


def check_page_merging(name: str, case: Case) -> Finding:
    # admin-guide/mm/ksm: merged pages are write-protected and copied at the next write
    why = "the first write to merged memory causes a page fault and a copy, and ksmd takes CPU time"
    remedy = Shell(f"echo 2 > {_KSM} # 0 keeps merged pages; {PREPARE}")
    value = case.integer(_KSM)
    if value is None:
        if case.facts.absent(_KSM) or case.facts.config("KSM") == "n":
            return finding(name, "ok", "not in this kernel", "no pages are merged")
        return unknown(name, f"{_KSM} could not be read", why, remedy)
    if value == 1:
        return finding(name, "note", f"{case.prefix(_KSM)}on", why, remedy)
    return finding(name, "ok", f"{case.prefix(_KSM)}off", "no pages are merged")
