# SPDX-License-Identifier: Apache-2.0
"""How soon the kernel can be preempted."""

from __future__ import annotations

import re

from rtgauge.audit.case import Case, Finding, Shell, finding, unknown
from rtgauge.facts import Facts
from rtgauge.facts.interpret import preemption

__all__ = ["check_preemption"]


_RT_KERNELS = {
    "x86_64": "linux-image-rt-amd64",
    "aarch64": "linux-image-rt-arm64",
    "armv7l": "linux-image-rt-armmp",
    "i686": "linux-image-rt-686-pae",
}


#: For Debian and Ubuntu, whose GRUB reads this folder.
_BOOT_FULL = (
    "echo 'GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT preempt=full\"' "
    ">> /etc/default/grub.d/rtgauge.cfg && update-grub && reboot"
)


def _install(command: str, first: str) -> Shell:
    return Shell(command, f"{first}install a kernel with PREEMPT_RT, and boot it: {command}")


def _rt_remedy(facts: Facts, first: str = "") -> str | Shell:
    """How to get a kernel with PREEMPT_RT. ``first``: what to do until then, with preempt=full."""
    # /proc/version also names the compiler: that of Proxmox's kernels is Debian's. Kernels for the
    # Raspberry Pi have a version of Debian, whose packages do not install for its firmware.
    version = (facts.version or "").rpartition("#")[2]
    package = _RT_KERNELS.get(facts.machine)
    if "Debian" in version and "+rpt" not in version and package:
        return _install(f"apt install {package}", first)
    if "Ubuntu" in version and facts.machine in ("x86_64", "aarch64"):
        return _install("pro enable realtime-kernel", first)
    boot = f"{first}boot a kernel built with CONFIG_PREEMPT_RT=y (part of Linux from 6.12 on)"
    return Shell(_BOOT_FULL, boot) if first and re.search("Debian|Ubuntu", version) else boot


def check_preemption(name: str, case: Case) -> Finding:
    facts = case.facts
    state = preemption(facts)
    remedy = _rt_remedy(facts)
    if state.model == "preempt_rt":
        return finding(
            name, "ok", state.found, "interrupt handlers and locks of the kernel can be preempted"
        )
    if state.model == "cobalt":
        return finding(
            name,
            "note",
            state.found,
            "tasks of that core preempt Linux. Measurements that support Cobalt use its tasks, "
            "all others use Linux tasks",
            "also measure tasks of the core: rtgauge run timer --core cobalt",
        )
    if state.model == "evl":
        return finding(
            name,
            "note",
            state.found,
            "tasks of that core preempt Linux, but rtgauge does not support it and measures Linux "
            "tasks",
            "read these figures as figures of Linux tasks",
        )
    if state.found == "unknown":
        return unknown(
            name,
            "the kernel's version is missing",
            "without PREEMPT_RT the kernel delays tasks without a bound",
            remedy,
        )
    if state.model in ("none", "voluntary") or not state.preemptible:
        first = "as a first step, boot with preempt=full; then " if state.dynamic else ""
        return finding(
            name,
            "error",
            state.found,
            "a task waits until the kernel's current work is done, which may take milliseconds",
            _rt_remedy(facts, first),
        )
    why = "spinlocks, softirqs and interrupt handlers still delay every task without a bound"
    if state.model == "unknown" and state.dynamic:
        error = facts.error("/sys/kernel/debug/sched/preempt") or facts.error("agent.debugfs")
        reason = f" ({error})" if error else ""
        why = f"the mode is in debugfs, which could not be read{reason}. In any mode {why}"
    return finding(name, "warning", state.found, why, remedy)
