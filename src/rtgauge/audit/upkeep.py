# SPDX-License-Identifier: Apache-2.0
"""Periodic housekeeping of the kernel on every CPU."""

from __future__ import annotations

from rtgauge.audit.case import PREPARE, Case, Finding, Shell, cpus_text, finding, reason, unknown
from rtgauge.audit.throttling import RT_PERIOD, RT_RUNTIME, debugfs_remedy
from rtgauge.facts import CPU, one_line
from rtgauge.facts.interpret import online_cpus
from rtgauge.units import format_cpus, read_integer, read_mask

__all__ = [
    "check_kernel_work",
    "check_rcu",
    "check_scheduler_features",
    "check_services",
    "check_timer_migration",
    "check_watchdogs",
]

_KERNEL = "/proc/sys/kernel/"
_MIGRATION = _KERNEL + "timer_migration"
_WORKQUEUES = "/sys/devices/virtual/workqueue/cpumask"
_FEATURES = "/sys/kernel/debug/sched/features"
_EARLY_FEATURES = "/sys/kernel/debug/sched_features"  # before 5.13
_EXPEDITED = "/sys/kernel/rcu_expedited"
_NORMAL = "/sys/kernel/rcu_normal"


def check_watchdogs(name: str, case: Case) -> Finding:
    # admin-guide/lockup-watchdogs: a timer every few seconds wakes a thread of the highest class;
    # the hard lockup detector is a performance counter's interrupt that cannot be masked
    why = "each detector runs on every CPU every few seconds, above every real-time priority"
    soft, hard = _KERNEL + "soft_watchdog", _KERNEL + "nmi_watchdog"
    both = case.integer(_KERNEL + "watchdog")
    states = {
        "soft lockup": case.integer(soft),
        "hard lockup (NMI)": case.integer(hard),
    }
    switches = [file for file in (soft, hard) if case.integer(file) != 0] or [soft, hard]
    release = case.facts.release
    if both and case.facts.absent(soft) and (release is None or release < (4, 3)):
        states["soft lockup"] = both  # until 4.2 the one switch was for both kinds
        switches = [_KERNEL + "watchdog"]
    off = " ".join(f"kernel.{file.removeprefix(_KERNEL)}=0" for file in switches)
    remedy = Shell(f"sysctl -w {off} # or boot with nowatchdog, or {PREPARE}")
    on = [which for which, state in states.items() if state]
    found = case.prefix(soft, hard)
    if on:
        many = "detectors" if len(on) > 1 else "detector"
        full = case.facts.cpus(CPU + "nohz_full")
        if full and case.cpus and case.cpus <= full:
            return finding(
                name,
                "ok",
                f"{found}{' and '.join(on)} {many} on, away from the measured CPUs",
                "by default, the kernel runs no detector on CPUs without a tick",
            )
        return finding(name, "note", f"{found}{' and '.join(on)} {many} on", why, remedy)
    if case.facts.config("LOCKUP_DETECTOR") == "n" or both == 0:
        return finding(name, "ok", f"{found}off", "no lockup detector runs")
    if any(
        state is None and not case.facts.absent(file)
        for state, file in ((states["soft lockup"], soft), (states["hard lockup (NMI)"], hard))
    ):
        return unknown(name, "the state of the lockup detectors could not be read", why, remedy)
    if case.facts.absent(_KERNEL + "watchdog") or both is not None:
        return finding(name, "ok", f"{found}off", "no lockup detector runs")
    return unknown(name, "the state of the lockup detectors could not be read", why, remedy)


def check_timer_migration(name: str, case: Case) -> Finding:
    # admin-guide/sysctl/kernel and kernel/time/timer_migration.c: timers of idle CPUs expire on one
    # that is awake
    why = "timers of idle CPUs expire on a busy CPU, which is often the measured one"
    remedy = Shell(f"sysctl -w kernel.timer_migration=0 # {PREPARE}")
    online = online_cpus(case.facts)
    value = case.integer(_MIGRATION)
    if online is not None and len(online) == 1:
        return finding(
            name, "ok", "a single CPU", "there is no other CPU whose timers could move here"
        )
    if value is None:
        if case.facts.absent(_MIGRATION):  # without NO_HZ there is no such switch
            return finding(name, "ok", "not in this kernel", "timers stay on their CPU")
        return unknown(name, f"{_MIGRATION} could not be read", why, remedy)
    if value == 0:
        return finding(name, "ok", f"{case.prefix(_MIGRATION)}off", "timers stay on their CPU")
    full = case.facts.cpus(CPU + "nohz_full")
    if full and case.cpus and case.cpus <= full:
        return finding(
            name,
            "ok",
            "on, but no timer moves to the measured CPUs",
            "timers move away from CPUs without a tick",
        )
    if full and case.cpus & full:  # --prepare changes nothing there
        why = "timers of CPUs without a tick move away, and may expire on the other measured CPUs"
        aside = f"measure only on CPUs without a tick (--cpu {format_cpus(case.cpus & full)})"
        return finding(name, "note", "on", why, aside)
    return finding(name, "note", "on", why, remedy)


def check_kernel_work(name: str, case: Case) -> Finding:
    # core-api/workqueue: cpumask of unbound work queues. RCU/Design/Expedited-Grace-Periods: a
    # hurried grace period interrupts every CPU. admin-guide/sysctl/vm: stat_interval
    expedited = case.integer(_EXPEDITED)
    if expedited is None and case.facts.absent(_EXPEDITED):
        expedited = 0  # TINY_RCU: kernels for a single CPU have no such grace periods
    mask = read_mask(case.text(_WORKQUEUES) or "-")
    why = "work of the kernel that could run elsewhere takes time from the measured tasks"
    apart = case.apart()
    rest = (online_cpus(case.facts) or frozenset()) - apart
    move = Shell(f"echo {_mask(rest)} > {_WORKQUEUES} # {PREPARE}") if apart else PREPARE
    found = case.prefix(_WORKQUEUES)
    # synchronize_rcu_expedited() waits for a normal grace period if rcu_normal is set
    if expedited is not None and expedited > 0 and not case.integer(_NORMAL):
        return finding(
            name,
            "warning",
            f"{found}RCU's grace periods are expedited (rcu_expedited)",
            "each interrupts every CPU",
            Shell(f"echo 0 > {_EXPEDITED}; echo 1 > {_NORMAL} # {PREPARE}"),
        )
    if mask is None or expedited is None:
        missing = _WORKQUEUES if mask is None else _EXPEDITED
        return unknown(name, f"{missing} could not be read", why, f"cat {missing}")
    if not apart:
        return finding(
            name,
            "ok",
            f"{found}work queues on {cpus_text(mask)}",
            "no CPU is reserved for real-time tasks",
        )
    here = mask & apart
    if here:
        return finding(name, "note", f"{found}work queues on {cpus_text(here)}", why, move)
    return finding(
        name, "ok", f"{found}work queues kept on {cpus_text(mask)}", "none on the measured CPUs"
    )


def _mask(cpus: frozenset[int]) -> str:
    """CPUs as the kernel reads a mask: 32 bits a group."""
    bits = sum(1 << cpu for cpu in cpus)
    groups = [f"{bits & 0xFFFFFFFF:x}"]
    while bits := bits >> 32:
        groups = [f"{bits & 0xFFFFFFFF:x}", groups[0].zfill(8), *groups[1:]]
    return ",".join(groups)


#: kernel/sched/features.h: the settings that add latency, and what they do.
_UNWANTED = {
    "WARN_DOUBLE_CLOCK": "debugging of the scheduler's clock",
    "LATENCY_WARN": "a check at every tick",
    "NO_RT_PUSH_IPI": "all CPUs that go idle take the lock of a busy CPU's run queue",
}


def check_scheduler_features(name: str, case: Case) -> Finding:
    why = "they decide how the scheduler finds the next real-time task"
    path = _EARLY_FEATURES if case.facts.text(_FEATURES) is None else _FEATURES
    text = case.facts.text(path)
    if text is None:
        error = case.facts.error(_FEATURES) or case.facts.error("agent.debugfs")
        return unknown(
            name,
            f"the switches are in debugfs, and could not be read{reason(error)}",
            why,
            debugfs_remedy(case.facts, error),
        )
    words = text.split()[:256]
    bad = {word: _UNWANTED[word] for word in words if word in _UNWANTED}
    runtime, period = case.integer(RT_RUNTIME), read_integer(case.facts.text(RT_PERIOD))
    if "RT_RUNTIME_SHARE" in words and not (
        runtime is not None and (runtime < 0 or (period is not None and runtime >= period))
    ):
        bad["RT_RUNTIME_SHARE"] = (
            "a CPU borrows real-time runtime from others, and its own ordinary tasks starve"
        )
    if bad:
        switch = " ".join(word[3:] if word.startswith("NO_") else f"NO_{word}" for word in bad)
        return finding(
            name,
            "note",
            ", ".join(bad),
            "; ".join(bad.values()),
            Shell(f"for f in {switch}; do echo $f > {path}; done"),
        )
    return finding(
        name, "ok", f"{len(words)} switches, none of them harmful", "suitable for real time"
    )


_DAEMONS = "agent.daemons"
_PROFILE = "/etc/tuned/active_profile"
#: Profiles of tuned that keep the processor awake and at full speed.
_STEADY = ("latency-performance", "network-latency", "cpu-partitioning", "realtime")


def check_rcu(name: str, case: Case) -> Finding:
    # kernel-parameters: rcupdate.rcu_normal_after_boot, rcutree.kthread_prio; RCU/stallwarn
    why = "an expedited grace period interrupts every CPU, no matter which CPU requests it"
    remedy = Shell(f"echo 1 > {_NORMAL} # or boot with rcupdate.rcu_normal_after_boot=1; {PREPARE}")
    normal = case.integer(_NORMAL)
    priority = read_integer(case.facts.parameter("rcutree.kthread_prio"))
    if priority is not None and priority >= case.priority > 0:
        found = f"RCU's threads at priority {priority}, the measured tasks at {case.priority}"
        late = "callbacks, sometimes many, run before the measured tasks"
        below = max(case.priority - 1, 1)
        boot = [f"rcutree.kthread_prio={below}"] if below < priority else []
        if normal == 0:
            found, late = f"{found}; grace periods may be expedited", f"{late}; {why}"
            boot.append("rcupdate.rcu_normal_after_boot=1")
        parts = [f"boot with {' '.join(boot)}"] if boot else []
        if case.priority == below:  # there is no lower priority for RCU's threads
            parts.append("measure at a priority above 1 (--priority)")
        return finding(name, "warning", found, late, "; ".join(parts))
    if normal is None and case.facts.absent(_NORMAL) and len(online_cpus(case.facts) or ()) == 1:
        return finding(name, "ok", "a single CPU", "there is no other CPU to interrupt")
    if normal is None:
        missing = f"{_NORMAL} could not be read{reason(case.facts.error(_NORMAL))}"
        return unknown(name, missing, why, remedy)
    if not normal:
        return finding(name, "note", "grace periods may be expedited", why, remedy)
    more = f", RCU's threads at priority {priority}" if priority is not None else ""
    why = (
        "normal grace periods interrupt no CPU. A task that never sleeps must leave CPU time to "
        "RCU's threads"
    )
    return finding(name, "ok", f"{case.prefix(_NORMAL)}normal{more}", why)


def check_services(name: str, case: Case) -> Finding:
    why = "services such as irqbalance or tuned move interrupts or change frequencies at any time"
    running = case.facts.text(_DAEMONS)
    if running is None:
        return unknown(name, "the list of programs could not be read", why, "ps -e -o comm")
    found, remedies = [], []
    for daemon in running.splitlines()[:8]:
        if daemon == "irqbalance":
            found.append(daemon)
            remedies.append("systemctl disable --now irqbalance")
        elif daemon == "tuned":
            profile = case.facts.text(_PROFILE) or ""
            if not profile.startswith(_STEADY):
                found.append(f"tuned ({one_line(profile, 40) or 'profile not known'})")
                remedies.append("tuned-adm profile latency-performance")
        elif daemon == "power-profiles-":
            found.append("power-profiles-daemon")
            remedies.append("powerprofilesctl set performance")
        elif daemon == "thermald":
            found.append(daemon)
            remedies.append("systemctl disable --now thermald")
    if found:
        return finding(name, "note", ", ".join(found), why, Shell("; ".join(remedies)))
    if not running and "agent.realtime_tasks" in case.facts:
        listing = case.facts.text("agent.realtime_tasks") or ""
        if not any(line.split(" ", 3)[2:3] == ["2"] for line in listing.splitlines()):
            return unknown(
                name,
                "programs of the host may be hidden",
                why,
                "check outside of containers",
            )
    shown = ", ".join(running.splitlines()) or "none known to interfere"
    fine = "no known service changes settings while the application runs"
    return finding(name, "ok", shown, fine)
