# SPDX-License-Identifier: Apache-2.0
"""The audit: what of a target's configuration stands in the way of real time.

Ten checks over the facts that the agent collected (docs/environment.md), one function each, in one
table; docs/checks.md says what each looks at and why. A check never answers ``ok`` where a fact
that it needs is missing: then it is a note that says so.

Sources: the kernel's own documentation (admin-guide/kernel-parameters, admin-guide/pm, scheduler/
sched-rt-group, timers), and its source where that is silent, named at the place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from rtgauge.environment import Settings, environment_document, settings_document
from rtgauge.facts import (
    CLOCK,
    CPU,
    Fact,
    Facts,
    cpu_list,
    one_line,
    parse_cpus,
    parse_integer,
    parse_mask,
)
from rtgauge.interpret import (
    CAP_IPC_LOCK,
    CAP_SYS_ADMIN,
    GOVERNOR,
    capable,
    container,
    hypervisor,
    isolated_cpus,
    online_cpus,
    preemption,
    realtime_model,
    rt_group_sched,
    steal,
)

__all__ = ["CHECKS", "Finding", "Level", "audit", "environment_document", "realtime_model"]

Level: TypeAlias = Literal["ok", "note", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found: one line each; ``remedy`` is empty when all is well."""

    check: str
    found: str
    level: Level
    why: str
    remedy: str


@dataclass(frozen=True, slots=True)
class _Case:
    """What the checks look at."""

    facts: Facts
    cpus: frozenset[int]  # those that are measured; all that are online if not told
    chosen: bool  # whether they were told
    load_running: bool
    settings: dict[str, str | None] = field(default_factory=dict)
    recorded: bool = False  # the settings are those of a run

    def values(self, pattern: str) -> dict[int, str]:
        """A file of each CPU, of the measured CPUs alone."""
        values = self.facts.per_cpu(pattern)
        return {cpu: values[cpu] for cpu in sorted(values) if not self.cpus or cpu in self.cpus}

    def covers(self, values: Mapping[int, object]) -> bool:
        """Whether something is known of each measured CPU."""
        return bool(values) and self.cpus <= values.keys()


_FAIR = "/sys/kernel/debug/sched/fair_server/cpu#/runtime"
_EXT = "/sys/kernel/debug/sched/ext_server/cpu#/runtime"
_RUNTIME = "/proc/sys/kernel/sched_rt_runtime_us"
_PERIOD = "/proc/sys/kernel/sched_rt_period_us"
_LOCKDOWN = "/sys/kernel/security/lockdown"


def audit(
    facts: Mapping[str, Fact],
    *,
    cpus: Sequence[int] | None = None,
    load_running: bool = False,
    settings: Settings | None = None,
) -> list[Finding]:
    """The findings of all checks, in the order of their table.

    ``cpus`` are those that are (to be) measured, all that are online if not given;
    ``load_running``: a load is running beside the measurement; ``settings``: what a run changed,
    so that what it lifted is not held against it.
    """
    known = Facts(facts)
    changed = settings_document(settings)
    case = _Case(
        known,
        frozenset(cpus) if cpus is not None else online_cpus(known) or frozenset(),
        cpus is not None,
        load_running,
        {name: entry["effective"] for name, entry in changed.items()},
        bool(changed),
    )
    return [check(name, case) for name, check in CHECKS.items()]


def _finding(check: str, level: Level, found: str, why: str, remedy: str = "") -> Finding:
    return Finding(check, one_line(found), level, one_line(why, 400), one_line(remedy, 400))


def _unknown(check: str, missing: str, why: str, remedy: str) -> Finding:
    return _finding(check, "note", "unknown", f"{missing}; {why}", remedy)


# --- preemption ----------------------------------------------------------------------------------


_RT_KERNELS = {
    "x86_64": "linux-image-rt-amd64",
    "aarch64": "linux-image-rt-arm64",
    "armv7l": "linux-image-rt-armmp",
    "i686": "linux-image-rt-686-pae",
}


def _rt_remedy(facts: Facts) -> str:
    version = (facts.text("uname.version") or "") + (facts.text("/proc/version") or "")
    package = _RT_KERNELS.get(facts.machine)
    if "Debian" in version and package:
        return f"apt install {package}, and boot it"
    if "Ubuntu" in version and facts.machine in ("x86_64", "aarch64"):
        return "pro enable realtime-kernel, and boot it"
    return "boot a kernel built with CONFIG_PREEMPT_RT=y (part of Linux from 6.12 on)"


#: Debugging that costs a multiple of every lock or memory access.
_DEBUGGING = ("PROVE_LOCKING", "LOCKDEP", "KASAN", "KCSAN", "DEBUG_ATOMIC_SLEEP")


def _check_preemption(name: str, case: _Case) -> Finding:
    facts = case.facts
    state = preemption(facts)
    remedy = _rt_remedy(facts)
    if state.model == "preempt_rt":
        debugging = [option for option in _DEBUGGING if facts.config(option) == "y"]
        if debugging:
            return _finding(
                name,
                "warning",
                f"PREEMPT_RT, debugging with {', '.join(debugging)}",
                "such debugging makes every lock or memory access slower by a multiple",
                "boot a kernel built without " + ", ".join(f"CONFIG_{o}" for o in debugging),
            )
        return _finding(
            name, "ok", state.found, "interrupt handlers and locks of the kernel can be preempted"
        )
    if state.model in ("cobalt", "evl"):
        return _finding(
            name,
            "note",
            state.found,
            "tasks of that core preempt Linux; what is measured here are tasks of Linux itself",
            "measure tasks of the core with its own latency program (latency, latmus) besides",
        )
    if state.found == "unknown":
        return _unknown(
            name,
            "the kernel's version is missing",
            "without PREEMPT_RT the kernel delays tasks without a bound",
            remedy,
        )
    if state.model in ("none", "voluntary") or not state.preemptible:
        first = "boot with preempt=full as a first step; " if state.dynamic else ""
        return _finding(
            name,
            "error",
            state.found,
            "a task waits until the kernel's current work is done, which may take milliseconds",
            first + remedy,
        )
    why = "spinlocks, softirqs and interrupt handlers still delay every task without a bound"
    if state.model == "unknown" and state.dynamic:
        error = facts.error("/sys/kernel/debug/sched/preempt") or facts.error("agent.debugfs")
        reason = f" ({error})" if error else ""
        why = f"debugfs, which has the mode, could not be read{reason}; in any mode {why}"
    return _finding(name, "warning", state.found, why, remedy)


# --- timers and clocks ---------------------------------------------------------------------------


def _check_timers(name: str, case: _Case) -> Finding:
    facts = case.facts
    resolution = facts.integer("agent.clock_getres_ns")
    why = "without them a sleeping task wakes at the next tick only"
    if resolution is None or resolution <= 0:
        return _unknown(
            name,
            "the resolution of CLOCK_MONOTONIC was not collected",
            why,
            "run rtgauge check with the agent of this version",
        )
    # hrtimer_resolution: 1 ns once a CPU has switched to high resolution, a tick before
    if resolution <= 1000:
        return _finding(
            name,
            "ok",
            f"resolution {resolution} ns",
            "timers expire when due, not at the next tick",
        )
    if facts.parameter("highres") == "off":
        remedy = "remove highres=off from the kernel's parameters"
    elif facts.parameter("nohz") == "off" and facts.config("HIGH_RES_TIMERS") == "y":
        remedy = "look in dmesg for why the kernel did not switch to high-resolution mode"
    elif facts.config("HIGH_RES_TIMERS") == "n":
        remedy = "boot a kernel built with CONFIG_HIGH_RES_TIMERS=y"
    else:
        remedy = (
            "boot a kernel built with CONFIG_HIGH_RES_TIMERS=y and a one-shot clock event device"
        )
    return _finding(name, "error", f"resolution {_time(resolution)}, a tick", why, remedy)


def _time(ns: int) -> str:
    for size, unit in ((1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")):
        if ns >= size:
            return f"{ns / size:g} {unit}"
    return f"{ns} ns"


#: Counters of the processor itself, read in some ten nanoseconds without leaving user space.
_FAST = {
    "tsc",
    "arch_sys_counter",
    "riscv_clocksource",
    "timebase",
    "tod",
    "Constant",
    "stick",
    "tick",
}
_SLOW = {"hpet", "acpi_pm", "pit"}
_PARAVIRTUAL = {
    "kvm-clock",
    "xen",
    "hyperv_clocksource_tsc_page",
    "hyperv_clocksource_msr",
    "vmware-clock",
}


def _check_clock(name: str, case: _Case) -> Finding:
    facts = case.facts
    current = facts.text(CLOCK + "current_clocksource")
    path = CLOCK + "current_clocksource"
    if not current:
        return _unknown(
            name,
            "the current clock source could not be read",
            "a slow one adds microseconds to every time stamp",
            f"cat {path}",
        )
    available = (facts.text(CLOCK + "available_clocksource") or "").split()
    switch = f"echo tsc > {path}"
    tsc_lost = (
        "dmesg | grep -i tsc says why the TSC was given up; mend the firmware or the hypervisor"
        " (tsc=reliable only where it is known to be stable)"
    )
    if current in _FAST:
        return _finding(name, "ok", current, "read in user space, in some ten nanoseconds")
    if current in ("jiffies", "refined-jiffies"):
        return _finding(
            name,
            "error",
            current,
            "time advances by whole ticks only: latencies below a tick cannot be seen",
            "boot a kernel with a driver for this machine's timer",
        )
    if current in _SLOW:
        return _finding(
            name,
            "warning",
            current,
            "each time stamp is a system call and a slow device access of a microsecond or more",
            switch if "tsc" in available else tsc_lost,
        )
    if current in _PARAVIRTUAL:
        return _finding(
            name,
            "note",
            current,
            "time is the hypervisor's: it may be adjusted when the virtual machine is moved or"
            " paused, and a time stamp may be a system call",
            switch if "tsc" in available else "give the virtual machine an invariant TSC",
        )
    if facts.is_x86:
        return _finding(
            name,
            "warning",
            current,
            "not the TSC, the only fast clock of this processor",
            switch if "tsc" in available else tsc_lost,
        )
    return _finding(
        name,
        "note",
        current,
        "a counter of this board, not known to this check; its cost is measured (clock-cost)",
        "see the result of clock-cost: more than 1 us is a slow one",
    )


# --- frequency and sleep -------------------------------------------------------------------------


def _groups(values: Mapping[int, str]) -> str:
    """``powersave on CPUs 0-3, performance on CPU 4``; without CPUs if all are the same."""
    by_value: dict[str, list[int]] = {}
    for cpu, value in values.items():
        by_value.setdefault(value, []).append(cpu)
    if len(by_value) == 1:
        return next(iter(by_value))
    return ", ".join(f"{value} on {_cpus(cpus)}" for value, cpus in by_value.items())


def _cpus(cpus: Iterable[int]) -> str:
    ordered = sorted(set(cpus))
    return f"CPU{'' if len(ordered) == 1 else 's'} {cpu_list(ordered)}"


_SET_GOVERNOR = "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"


def _check_frequency(name: str, case: _Case) -> Finding:
    governors = case.values(GOVERNOR)
    why = "the first work after a pause runs at a low frequency, and the change itself takes time"
    if not governors:
        return _no_frequency(name, case, why)
    low = case.values(CPU + "cpu#/cpufreq/scaling_min_freq")
    high = case.values(CPU + "cpu#/cpufreq/scaling_max_freq")
    changing = {
        cpu: governor
        for cpu, governor in governors.items()
        if governor != "performance" and (cpu not in low or low[cpu] != high.get(cpu))
    }
    if changing:
        if set(changing.values()) == {"userspace"}:
            return _finding(
                name,
                "note",
                _groups(governors),
                "the frequency is whatever a program has set, and that program may change it",
                _SET_GOVERNOR,
            )
        drivers = case.values(CPU + "cpu#/cpufreq/scaling_driver")
        lowest = [
            cpu
            for cpu, governor in changing.items()
            # only these two drivers have a powersave that varies the frequency
            if governor == "powersave"
            and cpu in drivers
            and drivers[cpu] not in ("intel_pstate", "amd-pstate-epp")
        ]
        if len(lowest) == len(changing):
            why = "the processor always runs at its lowest frequency: everything takes longer"
        return _finding(name, "warning", _groups(governors), why, _SET_GOVERNOR)
    if not case.covers(governors):
        missing = case.cpus - governors.keys()
        return _unknown(name, f"nothing is known of {_cpus(missing)}", why, _SET_GOVERNOR)
    fixed = [cpu for cpu, governor in governors.items() if governor != "performance"]
    found = _groups(governors) + (f", fixed frequency on {_cpus(fixed)}" if fixed else "")
    return _finding(name, "ok", found, "the governor does not lower the frequency")


def _no_frequency(name: str, case: _Case, why: str) -> Finding:
    facts = case.facts
    if not facts.per_cpu_absent(GOVERNOR) and facts.config("CPU_FREQ") != "n":
        error = facts.per_cpu_error(GOVERNOR)
        return _unknown(
            name,
            "the governors could not be read" + (f" ({error})" if error else ""),
            why,
            "run the check as root" if facts.integer("agent.uid") else _SET_GOVERNOR,
        )
    if hypervisor(facts):
        return _finding(
            name,
            "note",
            "not under this kernel's control",
            "the host of this virtual machine decides on the frequency",
            f"on the host: {_SET_GOVERNOR}",
        )
    if facts.is_x86:
        return _finding(
            name,
            "note",
            "not under the kernel's control",
            "the kernel does not change the frequency, but the firmware may do so by itself",
            "choose maximum performance (no power saving) in the firmware's settings",
        )
    return _finding(name, "ok", "fixed", "the kernel does not change the frequency")


_SLEEP_OK_US = 2
_WHY_HALT = "a halted virtual CPU goes to the hypervisor, and returns when that schedules it again"
_HALT_REMEDY = (
    "while the application runs, hold /dev/cpu_dma_latency at 0; or boot with idle=poll"
    " (where that is not x86: nohlt)"
)
_HOLD = (
    "the application holds /dev/cpu_dma_latency open with the value 0 while it runs; or boot with "
)


def _check_sleep(name: str, case: _Case) -> Finding:
    facts = case.facts
    why = "a sleeping CPU needs that long before it can run the task that it was woken for"
    boot = "processor.max_cstate=1 intel_idle.max_cstate=0" if facts.is_x86 else "cpuidle.off=1"
    remedy = _HOLD + boot
    held = parse_integer(case.settings.get("cpu_dma_latency"))
    if held is None:
        held = parse_integer(case.settings.get("/dev/cpu_dma_latency"))
    if facts.parameter("idle") == "poll":
        return _finding(name, "ok", "idle=poll", "idle CPUs do not sleep")
    states = _sleep_states(case)
    if not states:
        return _no_sleep_states(name, case, why, remedy)
    deepest = _deepest(states)
    if held is not None and held >= 0:
        left = _sleep_states(case, held)
        # without a state as shallow as asked for, the kernel takes the shallowest
        found = f"held at {held} us during the run ({_deepest(left)[0] if left else 'none'} left)"
        if not left or _deepest(left)[1] <= _SLEEP_OK_US:
            return _finding(name, "ok", found, f"not entered: {deepest[0]}")
        return _finding(name, "warning", found, why, remedy)
    if deepest[1] <= _SLEEP_OK_US:
        if not case.covers(states):
            missing = _cpus(case.cpus - states.keys())
            return _unknown(name, f"nothing is known of {missing}", why, remedy)
        if deepest[1] > 0 and hypervisor(facts):
            return _finding(name, "note", f"deepest: {deepest[0]}", _WHY_HALT, _HALT_REMEDY)
        return _finding(name, "ok", f"deepest: {deepest[0]}", "waking takes next to no time")
    if case.recorded:
        why += "; the run could not hold /dev/cpu_dma_latency"
    elif facts.integer("agent.dma_latency") == 0:
        why += "; while rtgauge measures it keeps them off, an application must do so itself"
    return _finding(name, "warning", f"deepest: {deepest[0]}", why, remedy)


def _deepest(states: Mapping[int, tuple[str, int]]) -> tuple[str, int]:
    """The state of the longest exit latency, in words, and that latency."""
    state = max(states.values(), key=lambda item: item[1])
    cpus = [cpu for cpu, other in states.items() if other == state]
    return f"{state[0] or 'a state'}, {state[1]} us, on {_cpus(cpus)}", state[1]


def _sleep_states(case: _Case, held: int = 1 << 62) -> dict[int, tuple[str, int]]:
    """Name and exit latency (us) of the deepest state that each measured CPU may enter."""
    limits = case.values(CPU + "cpu#/power/pm_qos_resume_latency_us")
    deepest: dict[int, tuple[str, int]] = {}
    for number in range(10):
        base = f"{CPU}cpu#/cpuidle/state{number}/"
        names = case.values(base + "name")
        disabled = case.values(base + "disable")
        for cpu, text in case.values(base + "latency").items():
            latency = parse_integer(text)
            if latency is None or latency < 0 or disabled.get(cpu, "0") != "0":
                continue
            # admin-guide/pm/cpuidle: "n/a" allows no latency at all, 0 means no limit
            own = 0 if limits.get(cpu) == "n/a" else parse_integer(limits.get(cpu)) or held
            if latency <= min(own, held) and latency >= deepest.get(cpu, ("", 0))[1]:
                deepest[cpu] = (names.get(cpu, ""), latency)
    return deepest


def _no_sleep_states(name: str, case: _Case, why: str, remedy: str) -> Finding:
    facts = case.facts
    driver = facts.text(CPU + "cpuidle/current_driver")
    absent = facts.absent(CPU + "cpuidle/current_driver") or facts.config("CPU_IDLE") == "n"
    if driver != "none" and not absent and facts.parameter("cpuidle.off") != "1":
        return _unknown(name, "the sleep states could not be read", why, remedy)
    if hypervisor(facts):
        return _finding(
            name,
            "note",
            "the plain halt instruction",
            _WHY_HALT,
            _HALT_REMEDY,
        )
    return _finding(
        name, "ok", "the plain halt instruction", "no driver that could enter deeper states"
    )


# --- throttling ----------------------------------------------------------------------------------


def _effective(case: _Case, name: str) -> tuple[str | None, bool]:
    """A value as a run set it, else as it was found; and whether the run changed it."""
    value = case.settings.get(name)
    if value is not None:
        return value, True
    return case.facts.text(name), False


def _fair_servers(case: _Case) -> tuple[dict[int, int], bool]:
    """Runtime in ns of the fair server of each measured CPU; whether a run set one."""
    values = {cpu: parse_integer(text) for cpu, text in case.values(_FAIR).items()}
    changed = False
    for name, value in case.settings.items():
        match = re.search(r"/fair_server/cpu(\d{1,4})/runtime$", name)
        if (
            match is not None
            and value is not None
            and (int(match[1]) in case.cpus or not case.cpus)
        ):
            values[int(match[1])] = parse_integer(value)
            changed = True
    return {cpu: value for cpu, value in values.items() if value is not None}, changed


def _debugfs_remedy(facts: Facts) -> str:
    """What it takes to read debugfs: to be root, and no kernel lockdown."""
    if facts.integer("agent.uid") != 0:
        return "run the check as root, without kernel lockdown"
    lockdown = facts.text(_LOCKDOWN) or ""
    active = re.search(r"\[(\w+)\]", lockdown)
    if active is not None and active[1] != "none":
        return (
            f"root, but the kernel is locked down ({active[1]}, see {_LOCKDOWN}): boot without "
            "lockdown (lockdown=none, or without secure boot)"
        )
    return "mount -t debugfs none /sys/kernel/debug, then check again"


def _check_throttling(name: str, case: _Case) -> Finding:
    facts = case.facts
    release = facts.release
    runtime_text, lifted = _effective(case, _RUNTIME)
    runtime, period = parse_integer(runtime_text), facts.integer(_PERIOD) or 1_000_000
    servers, lifted_server = _fair_servers(case)
    # From 6.12 on ("sched/rt: Remove default bandwidth control") the setting bounds real-time
    # tasks only together with RT_GROUP_SCHED; the fair server took its place.
    has_server = bool(servers) or (release is not None and release >= (6, 12))
    throttles = True if not has_server else rt_group_sched(facts)
    found: list[str] = []
    why: list[str] = []
    remedy: list[str] = []
    unknown: list[str] = []
    if runtime is None:
        unknown.append("sched_rt_runtime_us could not be read")
    elif runtime < 0 or runtime >= period:
        found.append("throttling off")
    else:
        share = f"{runtime} of {period} us"
        found.append(
            f"throttling at {share}" + (" (without effect here)" if throttles is False else "")
        )
        if throttles is None:
            unknown.append("whether the kernel has RT_GROUP_SCHED, and so throttles, is not known")
        if throttles:
            why.append(f"real-time tasks that used {share} are stopped until the period ends")
            remedy.append("sysctl -w kernel.sched_rt_runtime_us=-1")
    if has_server:
        positive = {cpu: value for cpu, value in servers.items() if value > 0}
        if positive:
            longest = _time(max(positive.values()))
            found.append(f"fair server up to {longest} a period on {_cpus(positive)}")
            why.append(f"ordinary tasks that starve run before real-time tasks, {longest} a period")
            remedy.append(
                "for f in /sys/kernel/debug/sched/fair_server/cpu*/runtime; do echo 0 > $f; done"
            )
        elif case.covers(servers):
            found.append("fair server off")
        else:
            found.append("fair server unknown")
            error = facts.per_cpu_error(_FAIR) or facts.error("agent.debugfs")
            unknown.append(
                "the fair server is only in debugfs, which could not be read"
                + (f" ({error})" if error else "")
            )
        if facts.text("/sys/kernel/sched_ext/state") == "enabled" and any(
            (parse_integer(value) or 0) > 0 for value in case.values(_EXT).values()
        ):
            found.append("server of sched_ext on")
            why.append("tasks of the loaded sched_ext scheduler may run before real-time tasks")
            remedy.append(
                "for f in /sys/kernel/debug/sched/ext_server/cpu*/runtime; do echo 0 > $f; done"
            )
    elif release is None:
        unknown.append("the kernel's release is not known")
    text = ", ".join(found)
    if lifted or lifted_server:
        text = f"during the run: {text}"
    if why:
        return _finding(name, "warning", text, "; ".join(why + unknown), "; ".join(remedy))
    if unknown:
        return _finding(
            name,
            "note",
            text if runtime is not None else "unknown",
            "; ".join(unknown) + "; real-time tasks may be stopped for a part of each period",
            _debugfs_remedy(facts) if has_server else f"cat {_RUNTIME} {_PERIOD}",
        )
    return _finding(name, "ok", text, "real-time tasks are not stopped for others")


# --- isolation and SMT ---------------------------------------------------------------------------


def _isolation_parameters(case: _Case, online: frozenset[int]) -> str:
    wanted = case.cpus if case.chosen and case.cpus < online else frozenset({max(online)})
    cpus, others = cpu_list(wanted), cpu_list(online - wanted)
    return (
        f"boot with isolcpus=managed_irq,domain,{cpus} nohz_full={cpus} rcu_nocbs={cpus}"
        f" irqaffinity={others}, and measure there"
    )


def _check_isolation(name: str, case: _Case) -> Finding:
    facts = case.facts
    online = online_cpus(facts)
    isolated = isolated_cpus(facts)
    why = "tasks and interrupts that are none of its business delay a task on a CPU that is shared"
    if online is None or isolated is None:
        missing = "which CPUs are online" if online is None else "which CPUs are isolated"
        return _unknown(name, f"{missing} could not be read", why, f"cat {CPU}online {CPU}isolated")
    if len(online) == 1:
        return _finding(
            name,
            "note",
            "a single CPU",
            "everything else runs on the same CPU; nothing can be kept off it",
            "nothing but fewer tasks and interrupts, or a target with more CPUs",
        )
    measured = case.cpus or online
    remedy = _isolation_parameters(case, online)
    shared = measured - isolated
    if shared:
        if case.load_running:
            why += "; here the load does so on purpose"
        if not isolated:
            return _finding(name, "note", "no CPU is isolated", why, remedy)
        return _finding(
            name,
            "warning" if case.chosen else "note",
            f"{_cpus(isolated)} isolated; measured: {_cpus(shared)} not isolated",
            why,
            f"measure on the isolated ones (--cpu {cpu_list(isolated)})"
            if isolated & online
            else remedy,
        )
    gaps = _isolation_gaps(facts, measured)
    found = f"{_cpus(measured)} isolated"
    if gaps:
        return _finding(
            name,
            "note",
            ", ".join([found, *(gap for gap, _ in gaps)]),
            "what is left there still interrupts the task now and then",
            "; ".join(remedy for _, remedy in gaps),
        )
    extra = ": a load reaches them only through what is shared" if case.load_running else ""
    return _finding(name, "ok", found, f"the scheduler places no other tasks there{extra}")


def _isolation_gaps(facts: Facts, measured: frozenset[int]) -> list[tuple[str, str]]:
    gaps: list[tuple[str, str]] = []
    text = cpu_list(measured)
    full = facts.cpus(CPU + "nohz_full")
    if full is None:
        value = facts.parameter("nohz_full")
        full = parse_cpus(value) if value else frozenset()
    if measured - (full or frozenset()):
        gaps.append(("but with a tick", f"boot with nohz_full={text} rcu_nocbs={text}"))
    affinity = parse_mask(facts.text("/proc/irq/default_smp_affinity") or "-")
    if affinity is None:
        gaps.append(("where interrupts go is unknown", "cat /proc/irq/default_smp_affinity"))
    elif affinity & measured:
        online = online_cpus(facts) or measured
        others = cpu_list(online - measured)
        gaps.append(
            (
                "but new interrupts go there",
                f"boot with irqaffinity={others}" if others else "keep a CPU for interrupts",
            )
        )
    return gaps


def _check_smt(name: str, case: _Case) -> Finding:
    facts = case.facts
    online = online_cpus(facts)
    why = "two threads of a core share its caches and units: what one does slows the other"
    remedy = "echo off > /sys/devices/system/cpu/smt/control (or boot with nosmt)"
    siblings = {
        cpu: group
        for cpu, text in case.values(CPU + "cpu#/topology/thread_siblings_list").items()
        if (group := parse_cpus(text))
    }
    shared = {cpu: group for cpu, group in siblings.items() if len(group) > 1}
    active = facts.text(CPU + "smt/active")
    if shared:
        cpu, group = next(iter(shared.items()))
        more = f" and {len(shared) - 1} more" if len(shared) > 1 else ""
        if case.load_running:
            why += "; a load may run on the sibling"
        return _finding(
            name,
            "warning",
            f"on: CPU {cpu} shares its core (CPUs {cpu_list(group)}){more}",
            why,
            remedy,
        )
    known = case.covers(siblings)
    if active == "1" and not known:
        return _finding(name, "warning", "on", why, remedy)
    if active == "0" or known or (online is not None and len(online) == 1):
        if hypervisor(facts):
            return _finding(
                name,
                "note",
                "off as this virtual machine sees it",
                "whether its virtual CPUs share the cores of the host cannot be seen from inside",
                "on the host: pin each virtual CPU to a core of its own, with SMT off",
            )
        single = active is None and not siblings
        found = "a single CPU" if single else "off"
        return _finding(name, "ok", found, "no CPU measured shares its core")
    return _unknown(name, "neither smt/active nor the siblings could be read", why, remedy)


# --- virtualisation ------------------------------------------------------------------------------


def _percent(share: float) -> str:
    return "below 0.01 %" if 0 < share < 0.0001 else f"{100 * share:.2f} %"


def _check_virtualisation(name: str, case: _Case) -> Finding:
    kind = hypervisor(case.facts)
    share = steal(case.facts, case.cpus)
    stolen = "steal time unknown" if share is None else f"steal time {_percent(share)} since boot"
    why = "the host may take the CPU away at any moment; no setting in here can prevent that"
    remedy = (
        "measure on the machine itself; else give each virtual CPU a host CPU of its own"
        " (virsh vcpupin) and a real-time priority there"
    )
    if kind:
        return _finding(
            name,
            "error" if share is not None and share >= 0.01 else "warning",
            f"virtual machine ({kind}), {stolen}",
            why,
            remedy,
        )
    if share:
        return _finding(name, "warning", f"no hypervisor found, but {stolen}", why, remedy)
    if kind is None:
        return _unknown(
            name, "nothing says whether this is a virtual machine", why, "systemd-detect-virt --vm"
        )
    if share is None:
        return _unknown(name, "no hypervisor found, but steal time could not be read", why, remedy)
    return _finding(
        name, "ok", f"no hypervisor found, {stolen}", "no host takes the CPU away unseen"
    )


# --- privileges ----------------------------------------------------------------------------------

_EPERM = 1
_LOCKED = "locked memory"  # the setting that a run records
_MEMLOCK_ENOUGH = 64 << 20


def _fifo_remedy(facts: Facts) -> str:
    group = facts.integer("agent.cgroup.cpu.rt_runtime_us")
    if group == 0:
        # kernel/sched: with a global limit of -1 the groups' are not asked
        return "sysctl -w kernel.sched_rt_runtime_us=-1 (this control group has no real-time time)"
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
            "root, but without CAP_SYS_NICE; in a container:"
            " docker run --cap-add SYS_NICE --cap-add IPC_LOCK --ulimit rtprio=99"
        )
    return (
        "run as root; or in /etc/security/limits.conf: USER - rtprio 99 and USER - memlock"
        " unlimited, then log in anew"
    )


def _memory_lock(case: _Case) -> str | None:
    """What stands in the way of locked memory: None if nothing, empty if that is not known."""
    if _LOCKED in case.settings:  # a run says more than the limits
        return None if case.settings[_LOCKED] == "all" else "memory not locked"
    limit = case.facts.integer("agent.rlimit_memlock")
    if limit is None:
        return ""
    if 0 <= limit < _MEMLOCK_ENOUGH and not capable(case.facts, CAP_IPC_LOCK):
        return f"locked memory up to {limit >> 10} KiB"
    return None


def _check_privileges(name: str, case: _Case) -> Finding:
    facts = case.facts
    fifo = facts.integer("agent.fifo")
    why_fifo = "without SCHED_FIFO every ordinary task competes with what is measured"
    if fifo is None:
        return _unknown(name, "SCHED_FIFO was not tried", why_fifo, _fifo_remedy(facts))
    if fifo != 0:
        reason = "not permitted" if fifo == _EPERM else f"error {fifo}"
        kind = container(facts)
        place = f" in this container ({kind})" if kind else ""
        if case.settings.get(_LOCKED, "all") != "all":
            place += ", memory not locked"
        return _finding(name, "error", f"SCHED_FIFO {reason}{place}", why_fifo, _fifo_remedy(facts))
    found: list[str] = []
    why: list[str] = []
    remedy: list[str] = []
    unknown: list[str] = []

    def missing(what: str, because: str, do: str) -> None:
        found.append(what)
        why.append(because)
        remedy.append(do)

    priority = facts.integer("agent.fifo_priority")
    if priority is not None and priority < 99:
        missing(
            f"SCHED_FIFO up to priority {priority}",
            "kernel threads of higher priority come first",
            "prlimit --pid $$ --rtprio=99",
        )
    memory = _memory_lock(case)
    if memory == "":
        unknown.append("the limit of locked memory is not known")
    elif memory is not None:
        missing(
            memory,
            "memory that cannot be locked is paged in while measuring",
            "prlimit --pid $$ --memlock=unlimited",
        )
    if (facts.integer("agent.rlimit_rttime") or 0) > 0:
        missing(
            f"real-time work ends after {facts.integer('agent.rlimit_rttime')} us",
            "a real-time task that works so long without a pause is killed",
            "prlimit --pid $$ --rttime=unlimited",
        )
    allowed = parse_cpus(facts.lines("/proc/self/status").get("Cpus_allowed_list", "?"))
    forbidden = case.cpus - allowed if allowed is not None else frozenset[int]()
    if forbidden:
        missing(
            f"{_cpus(forbidden)} not allowed",
            "nothing can be measured there",
            f"taskset -c {cpu_list(case.cpus)} …, or widen the cpuset",
        )
    if found:
        return _finding(name, "warning", ", ".join(found), "; ".join(why), "; ".join(remedy))
    latency = facts.integer("agent.dma_latency")
    admin = capable(facts, CAP_SYS_ADMIN)
    uid = facts.integer("agent.uid")
    if latency is None or uid is None:
        unknown.append("whether system settings can be changed is not known")
    if unknown:
        return _finding(
            name,
            "note",
            "SCHED_FIFO, the rest unknown",
            "; ".join(unknown),
            "run rtgauge check with the agent of this version",
        )
    kept: list[str] = []
    if latency:
        kept.append("sleep states")
    if uid != 0 or admin is False:
        kept.append("RT throttling, fair server")
    if kept:
        return _finding(
            name,
            "note",
            f"SCHED_FIFO, but no right to change: {', '.join(kept)}",
            "what stands in the way of real time there stays as it is while measuring",
            "run as root"
            if uid
            else "give the container the capability SYS_ADMIN and the device /dev/cpu_dma_latency",
        )
    return _finding(
        name, "ok", "SCHED_FIFO, locked memory, settings", "all that a measurement asks for"
    )


#: The checks, in the order of their findings.
CHECKS: Mapping[str, Callable[[str, _Case], Finding]] = {
    "preemption": _check_preemption,
    "timers": _check_timers,
    "clock-source": _check_clock,
    "frequency": _check_frequency,
    "sleep-states": _check_sleep,
    "throttling": _check_throttling,
    "isolation": _check_isolation,
    "smt": _check_smt,
    "virtualisation": _check_virtualisation,
    "privileges": _check_privileges,
}
