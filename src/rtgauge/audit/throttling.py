# SPDX-License-Identifier: Apache-2.0
"""Mechanisms that stop a real-time task so that others can run."""

from __future__ import annotations

import re

from rtgauge.audit.case import Case, Finding, Shell, cpus_text, finding, unknown
from rtgauge.facts import Facts
from rtgauge.facts.interpret import rt_group_sched
from rtgauge.text import time
from rtgauge.units import read_integer

__all__ = [
    "RT_PERIOD",
    "RT_RUNTIME",
    "check_control_groups",
    "check_fair_server",
    "check_throttling",
    "debugfs_remedy",
]


_FAIR = "/sys/kernel/debug/sched/fair_server/cpu#/runtime"
_EXT = "/sys/kernel/debug/sched/ext_server/cpu#/runtime"
RT_RUNTIME = "/proc/sys/kernel/sched_rt_runtime_us"
RT_PERIOD = "/proc/sys/kernel/sched_rt_period_us"
_LOCKDOWN = "/sys/kernel/security/lockdown"
_UNKNOWN_TO_THE_KERNEL = "No such device"  # ENODEV of fsopen
_REFUSED = ("Operation not permitted", "Permission denied")  # of a file that is there


def _effective(case: Case, name: str) -> tuple[str | None, bool]:
    """A value as a run set it, else as it was found; and whether the run changed it."""
    value = case.settings.get(name)
    if value is not None:
        return value, True
    return case.facts.text(name), False


def _fair_servers(case: Case) -> tuple[dict[int, int], bool]:
    """Runtime in ns of the fair server of each measured CPU; whether a run set one."""
    values = {cpu: read_integer(text) for cpu, text in case.values(_FAIR).items()}
    changed = False
    for name, value in case.settings.items():
        match = re.search(r"/fair_server/cpu(\d{1,4})/runtime$", name)
        if (
            match is not None
            and value is not None
            and (int(match[1]) in case.cpus or not case.cpus)
        ):
            values[int(match[1])] = read_integer(value)
            changed = True
    return {cpu: value for cpu, value in values.items() if value is not None}, changed


def debugfs_remedy(facts: Facts, error: str) -> str:
    """Requirements for reading debugfs: root, a kernel that has it, and no kernel lockdown.
    ``error``: why the file could not be read, empty if that is not known."""
    if facts.integer("agent.uid") != 0:
        return "run the check as root, without kernel lockdown"
    lockdown = facts.text(_LOCKDOWN) or ""
    active = re.search(r"\[(\w+)\]", lockdown)
    if active is not None and active[1] != "none":
        return (
            f"the kernel is locked down ({active[1]}, see {_LOCKDOWN}), also for root: boot "
            "without lockdown (lockdown=none, or without secure boot)"
        )
    if facts.error("agent.debugfs") == _UNKNOWN_TO_THE_KERNEL:
        return "boot a kernel with CONFIG_DEBUG_FS=y"
    there, option = facts.text("agent.debugfs") is not None, facts.config("SCHED_DEBUG")
    if there and error in _REFUSED:
        unlocked = "boot without kernel lockdown (lockdown=none, or without secure boot), or "
        return ("" if active else unlocked) + "check outside of containers"
    # from 6.15 on ("sched/debug: Remove CONFIG_SCHED_DEBUG") these files need no option
    needed = facts.release is not None and facts.release < (6, 15)
    if needed and (option == "n" or (there and option is None)):
        return "boot a kernel with CONFIG_SCHED_DEBUG=y"
    if there:
        return "boot a newer kernel, or check outside of containers: debugfs lacks the file"
    return "mount -t debugfs none /sys/kernel/debug, then check again"


def _has_server(case: Case) -> bool:
    """Whether the kernel has a fair server. From 6.12 on ("sched/rt: Remove default bandwidth
    control") it took the place of the throttling, which then needs RT_GROUP_SCHED."""
    release = case.facts.release
    return bool(_fair_servers(case)[0]) or (release is not None and release >= (6, 12))


def check_throttling(name: str, case: Case) -> Finding:
    facts = case.facts
    runtime_text, lifted = _effective(case, RT_RUNTIME)
    runtime, period = read_integer(runtime_text), facts.integer(RT_PERIOD) or 1_000_000
    throttles = rt_group_sched(facts) if _has_server(case) else True
    stopped = "real-time tasks may be stopped for a part of each period"
    if runtime is None:
        return finding(
            name,
            "note",
            "unknown",
            f"sched_rt_runtime_us could not be read, so {stopped}",
            f"cat {RT_RUNTIME} {RT_PERIOD}",
        )
    during = "during the run: " if lifted else ""
    fine = "real-time tasks are not stopped for others"
    if runtime < 0 or runtime >= period:
        return finding(name, "ok", f"{during}throttling off", fine)
    share = f"{runtime} of {period} µs"
    text = f"{during}throttling at {share}"
    if throttles is False:
        return finding(name, "ok", f"{text} (without effect here)", fine)
    remedy = Shell("sysctl -w kernel.sched_rt_runtime_us=-1")
    if throttles is None:
        why = f"whether the kernel has RT_GROUP_SCHED is not known, so {stopped}"
        return finding(name, "note", text, why, remedy)
    why = f"real-time tasks that have used {share} are stopped until the period ends"
    return finding(name, "warning", text, why, remedy)


def check_fair_server(name: str, case: Case) -> Finding:
    facts = case.facts
    servers, lifted = _fair_servers(case)
    fine = "real-time tasks are not stopped for others"
    if facts.release is None and not servers:
        because = "from Linux 6.12 on, ordinary tasks that starve may run before real-time tasks"
        return unknown(name, "the kernel's release is not known", because, "uname -r")
    if not _has_server(case):
        return finding(name, "ok", "no fair server in this kernel", fine)
    found: list[str] = []
    why: list[str] = []
    remedy: list[str] = []
    positive = {cpu: value for cpu, value in servers.items() if value > 0}
    covered = case.covers(servers)
    if positive:
        longest = time(max(positive.values()))
        found.append(f"ordinary tasks get up to {longest} per period on {cpus_text(positive)}")
        why.append("ordinary tasks that starve run before real-time tasks, once a period")
        remedy.append(
            "for f in /sys/kernel/debug/sched/fair_server/cpu*/runtime; do echo 0 > $f; done"
        )
    elif covered:
        found.append("off")
    if facts.text("/sys/kernel/sched_ext/state") == "enabled" and any(
        (read_integer(value) or 0) > 0 for value in case.values(_EXT).values()
    ):
        found.append("server of sched_ext on")
        why.append("tasks of the loaded sched_ext scheduler may run before real-time tasks")
        remedy.append(
            "for f in /sys/kernel/debug/sched/ext_server/cpu*/runtime; do echo 0 > $f; done"
        )
    text = ("during the run: " if lifted else "") + ", ".join(found)
    if why:
        return finding(name, "warning", text, "; ".join(why), Shell("; ".join(remedy)))
    if covered:
        return finding(name, "ok", text, fine)
    error = facts.per_cpu_error(_FAIR) or facts.error("agent.debugfs")
    unread = "its runtime is in debugfs, which could not be read" + (f" ({error})" if error else "")
    stopped = "real-time tasks may be stopped for a part of each period"
    return finding(name, "note", "unknown", f"{unread}; {stopped}", debugfs_remedy(facts, error))


def check_control_groups(name: str, case: Case) -> Finding:
    # scheduler/sched-rt-group, scheduler/sched-bwc, admin-guide/cgroup-v2 (cpu.max)
    facts = case.facts
    grouped = rt_group_sched(facts)
    limit, file = (facts.text("agent.cgroup.cpu.max") or "").split(), "cpu.max"
    if not limit:  # version 1
        file = "cpu.cfs_quota_us"
        limit = [facts.text(f"agent.cgroup.{one}") or "" for one in (file, "cpu.cfs_period_us")]
    quota = read_integer(limit[0]) if len(limit) == 2 else None
    period = read_integer(limit[1]) if len(limit) == 2 else None
    why = "with RT_GROUP_SCHED, a group without real-time runtime cannot run real-time tasks"
    remedy = (
        "boot with rt_group_sched=0 (Linux 6.16 and later), or a kernel without"
        " CONFIG_RT_GROUP_SCHED"
    )
    if grouped:
        runtime = facts.integer("agent.cgroup.cpu.rt_runtime_us")
        found = "real-time runtime per control group (RT_GROUP_SCHED)"
        if runtime is not None:
            found += f", here {runtime} µs"
        return finding(name, "warning" if runtime == 0 else "note", found, why, remedy)
    if quota is not None and period is not None and quota >= 0:
        return finding(
            name,
            "note",
            f"at most {quota} of {period} µs of CPU time ({file})",
            "once the quota is used up, ordinary tasks of this group stop until the next period:"
            " loads, and every task that a real-time task waits for",
            f"raise {file} of the group, or run outside of it (systemd-run --scope)",
        )
    if grouped is None:
        return unknown(name, "the kernel's configuration could not be read", why, remedy)
    return finding(name, "ok", "no limit", "real-time runtime is not divided among groups")
