# SPDX-License-Identifier: Apache-2.0
"""Privileges of the agent."""

from __future__ import annotations

from rtgauge.audit.case import Case, Finding, Shell, cpus_text, finding, unknown
from rtgauge.facts import CPU, Facts
from rtgauge.facts.interpret import (
    CAP_IPC_LOCK,
    CAP_SYS_ADMIN,
    capable,
    container,
    online_cpus,
)
from rtgauge.units import format_cpus, read_cpus

__all__ = ["check_privileges"]


_EPERM = 1
_ENOENT = 2
_LOCKED = "locked memory"  # the setting that a run records
_MEMLOCK_ENOUGH = 64 << 20
_IDLE_DRIVER = "/sys/devices/system/cpu/cpuidle/current_driver"


def _settings_remedy(facts: Facts, latency: int) -> str:
    """What gives the agent the rights to change the settings of the system that are missing.
    ``latency``: the error of opening /dev/cpu_dma_latency, 0 for none."""
    if facts.integer("agent.uid"):
        return "run as root"
    if container(facts):
        return "give the container the capability SYS_ADMIN and the device /dev/cpu_dma_latency"
    parts = []
    if capable(facts, CAP_SYS_ADMIN) is False:
        parts.append("give root the capability CAP_SYS_ADMIN")
    if latency == _ENOENT:
        parts.append(
            "create the device: mknod /dev/cpu_dma_latency c 10 MINOR (/proc/misc has MINOR)"
        )
    elif latency:
        parts.append("permit root to write to /dev/cpu_dma_latency")
    return "; ".join(parts)


def _fifo_remedy(facts: Facts) -> str | Shell:
    group = facts.integer("agent.cgroup.cpu.rt_runtime_us")
    if group == 0:
        # kernel/sched: with a global limit of -1 the groups' are not asked
        return Shell(
            "sysctl -w kernel.sched_rt_runtime_us=-1 # the control group has no real-time runtime"
        )
    kind = container(facts)
    if kind in ("docker", "podman"):
        return (
            f"{kind} run --cap-add SYS_NICE --cap-add IPC_LOCK --ulimit rtprio=99"
            " --ulimit memlock=-1 …"
        )
    if kind:
        return "start the container with the capabilities SYS_NICE and IPC_LOCK"
    if facts.integer("agent.uid") == 0:
        return (
            "give root the capability CAP_SYS_NICE; in a container:"
            " docker run --cap-add SYS_NICE --cap-add IPC_LOCK --ulimit rtprio=99"
        )
    command = (
        "printf '%s - rtprio 99\\n%s - memlock unlimited\\n' $USER $USER | sudo tee "
        "/etc/security/limits.d/90-rtgauge.conf"
    )
    return Shell(command, f"allow the user real-time priority, and log in again: {command}")


def _memory_lock(case: Case) -> str | None:
    """Obstacle to locked memory. None without one, empty if it is not known."""
    if _LOCKED in case.settings:  # a run says more than the limits
        return None if case.settings[_LOCKED] == "all" else "memory not locked"
    limit = case.facts.integer("agent.rlimit_memlock")
    if limit is None:
        return ""
    if 0 <= limit < _MEMLOCK_ENOUGH and not capable(case.facts, CAP_IPC_LOCK):
        return f"locked memory up to {limit >> 10} KiB"
    return None


def check_privileges(name: str, case: Case) -> Finding:
    facts = case.facts
    fifo = facts.integer("agent.fifo")
    why_fifo = "without SCHED_FIFO, every ordinary task competes with the measured task"
    if fifo is None:
        return unknown(name, "SCHED_FIFO was not tried", why_fifo, _fifo_remedy(facts))
    if fifo != 0:
        reason = "not permitted" if fifo == _EPERM else f"error {fifo}"
        kind = container(facts)
        place = f" in this container ({kind})" if kind else ""
        if case.settings.get(_LOCKED, "all") != "all":
            place += ", memory not locked"
        return finding(name, "error", f"SCHED_FIFO {reason}{place}", why_fifo, _fifo_remedy(facts))
    found: list[str] = []
    why: list[str] = []
    remedy: list[str] = []
    unsure: list[str] = []

    def missing(what: str, because: str, do: str) -> None:
        found.append(what)
        why.append(because)
        remedy.append(do)

    priority = facts.integer("agent.fifo_priority")
    if priority is not None and priority < 99:
        missing(
            f"SCHED_FIFO up to priority {priority}",
            "kernel threads of higher priority run first",
            "sudo prlimit --pid $$ --rtprio=99",
        )
    memory = _memory_lock(case)
    if memory == "":
        unsure.append("the limit on locked memory is not known")
    elif memory is not None:
        missing(
            memory,
            "memory that cannot be locked is paged in during the measurement",
            "sudo prlimit --pid $$ --memlock=unlimited",
        )
    if (facts.integer("agent.rlimit_rttime") or 0) > 0:
        missing(
            f"real-time CPU time up to {facts.integer('agent.rlimit_rttime')} µs",
            "a real-time task that runs for that long without a pause is killed",
            "sudo prlimit --pid $$ --rttime=unlimited",
        )
    allowed = read_cpus(facts.lines("/proc/self/status").get("Cpus_allowed_list", "?"))
    forbidden = case.cpus - allowed if allowed is not None else frozenset[int]()
    isolated = facts.cpus(CPU + "isolated") or frozenset[int]()
    online = online_cpus(facts) or frozenset[int]()
    if allowed is not None and allowed & online == online - isolated:
        # with isolcpus= every process begins on the other CPUs, and may move there
        forbidden -= isolated
    if forbidden:
        missing(
            f"{cpus_text(forbidden)} not allowed",
            "nothing can be measured there",
            f"taskset -c {format_cpus(case.cpus)} …, or widen the cpuset",
        )
    if found:
        return finding(name, "warning", ", ".join(found), "; ".join(why), "; ".join(remedy))
    latency = facts.integer("agent.dma_latency")
    admin = capable(facts, CAP_SYS_ADMIN)
    uid = facts.integer("agent.uid")
    if latency is None or uid is None:
        unsure.append("whether system settings can be changed is not known")
    if unsure:
        return finding(
            name,
            "note",
            "SCHED_FIFO, the rest unknown",
            "; ".join(unsure),
            "run rtgauge check with an agent of the same version as rtgauge",
        )
    kept: list[str] = []
    # outside of a container, both are missing from a kernel without CONFIG_CPU_IDLE
    absent = latency == _ENOENT and facts.absent(_IDLE_DRIVER) and not container(facts)
    if latency and not absent:
        kept.append("sleep states")
    if uid != 0 or admin is False:
        kept.append("RT throttling, fair server")
    if kept:
        return finding(
            name,
            "note",
            f"SCHED_FIFO, but no right to change: {', '.join(kept)}",
            "settings that harm real time stay as they are during the measurement",
            _settings_remedy(facts, 0 if absent else latency or 0),
        )
    return finding(
        name, "ok", "SCHED_FIFO, locked memory, settings", "everything that a measurement needs"
    )
