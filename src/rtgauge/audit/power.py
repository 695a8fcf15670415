# SPDX-License-Identifier: Apache-2.0
"""Frequency and sleep states of the processor."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rtgauge.audit.case import (
    PREPARE,
    Case,
    Finding,
    Shell,
    by_value,
    cpus_text,
    finding,
    reason,
    unknown,
)
from rtgauge.facts import CPU
from rtgauge.facts.interpret import GOVERNOR, hypervisor
from rtgauge.units import read_integer

__all__ = ["check_energy_preference", "check_frequency", "check_sleep", "check_turbo"]


_ALL_PERFORMANCE = "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
_POLICY = re.compile(r"/sys/.*/(?:cpufreq/policy|cpu)(\d{1,4})/(?:cpufreq/)?(\w+)")
_LIMITS = ("min_freq", "max_freq")
_SET_GOVERNOR = Shell(f"{_ALL_PERFORMANCE} # {PREPARE}")


def _of_policies(case: Case, pattern: str) -> tuple[dict[int, str], bool]:
    """A file of each measured CPU; whether a run set one. A run sets that of a policy, which has
    the number of its first CPU. The CPUs of two policies may alternate, but those of one have the
    same limits. Before Linux 4.4, the policy is in the folder of one of its CPUs."""
    values = case.values(pattern)
    file = pattern.rpartition("/")[2]
    policies = {
        int(match[1]): value
        for name, value in case.settings.items()
        if (match := _POLICY.fullmatch(name)) is not None and match[2] == file
    }
    low, high = (case.facts.per_cpu(f"{CPU}cpu#/cpufreq/scaling_{one}") for one in _LIMITS)
    limits = {cpu: (low.get(cpu), high.get(cpu)) for cpu in {*values, *policies}}
    for cpu in values if policies else ():
        before = [policy for policy in policies if policy <= cpu] or [min(policies)]
        alike = [policy for policy in before if limits[policy] == limits[cpu]]
        offline = [policy for policy in before if limits[policy] == (None, None)]
        if (value := policies[max(alike or offline or before)]) is not None:
            values[cpu] = value
    return values, any(value is not None for value in policies.values())


def check_frequency(name: str, case: Case) -> Finding:
    governors, during = _of_policies(case, GOVERNOR)
    start = "during the run: " if during else ""
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
            return finding(
                name,
                "note",
                start + by_value(governors),
                "a program has set the frequency, and may change it",
                Shell(_ALL_PERFORMANCE),
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
        return finding(name, "warning", start + by_value(governors), why, _SET_GOVERNOR)
    if not case.covers(governors):
        missing = cpus_text(case.cpus - governors.keys())
        return unknown(name, f"the governor of {missing} is not known", why, _SET_GOVERNOR)
    fixed = [cpu for cpu, governor in governors.items() if governor != "performance"]
    found = (
        start + by_value(governors) + (f", fixed frequency on {cpus_text(fixed)}" if fixed else "")
    )
    return finding(name, "ok", found, "the governor does not lower the frequency")


def _no_frequency(name: str, case: Case, why: str) -> Finding:
    facts = case.facts
    if not facts.per_cpu_absent(GOVERNOR) and facts.config("CPU_FREQ") != "n":
        error = facts.per_cpu_error(GOVERNOR)
        return unknown(
            name,
            "the governors could not be read" + (f" ({error})" if error else ""),
            why,
            "run the check as root" if facts.integer("agent.uid") else _SET_GOVERNOR,
        )
    if hypervisor(facts):
        return finding(
            name,
            "note",
            "not under this kernel's control",
            "the host of this virtual machine controls the frequency",
            "on the host: cpupower frequency-set -g performance",
        )
    if facts.is_x86:
        return finding(
            name,
            "note",
            "not under the kernel's control",
            "the kernel does not change the frequency, but the firmware may do so by itself",
            "choose maximum performance (no power saving) in the firmware's settings",
        )
    return finding(name, "ok", "fixed", "the kernel does not change the frequency")


_NO_TURBO = CPU + "intel_pstate/no_turbo"
_BOOST = CPU + "cpufreq/boost"


def check_turbo(name: str, case: Case) -> Finding:
    # admin-guide/pm/intel_pstate (no_turbo), admin-guide/pm/cpufreq (boost)
    facts = case.facts
    why = "frequency and execution times vary with the temperature and the work of other CPUs"
    no_turbo, boost = case.integer(_NO_TURBO), case.integer(_BOOST)
    if no_turbo is None and boost is None:
        if not (facts.absent(_NO_TURBO) and facts.absent(_BOOST)):
            error = facts.error(_NO_TURBO) or facts.error(_BOOST)
            missing = "the boost setting of the processor could not be read"
            return unknown(name, f"{missing}{reason(error)}", why, f"cat {_NO_TURBO} {_BOOST}")
        if hypervisor(facts) or facts.is_x86:
            who = "the host of this virtual machine" if hypervisor(facts) else "the firmware"
            found = "not under this kernel's control"
            where = "on" if hypervisor(facts) else "in"
            remedy = f"disable turbo {where} {who}"
            return finding(name, "note", found, f"{who} decides: {why}", remedy)
        return finding(name, "ok", "none", "no driver of this system boosts the frequency")
    if no_turbo == 1 or (no_turbo is None and boost == 0):
        return finding(name, "ok", "off", "the frequency does not depend on other CPUs")
    switch = f"echo 1 > {_NO_TURBO}" if no_turbo is not None else f"echo 0 > {_BOOST}"
    return finding(name, "note", "on", why, Shell(f"{switch} # lower, but steady"))


_EPP = CPU + "cpu#/cpufreq/energy_performance_preference"
_EPB = CPU + "cpu#/power/energy_perf_bias"


def check_energy_preference(name: str, case: Case) -> Finding:
    # admin-guide/pm/intel_pstate and intel_epb, admin-guide/pm/amd-pstate
    facts = case.facts
    why = "the processor raises its frequency late, regardless of the governor"
    for pattern, best in ((_EPP, ("performance", "0")), (_EPB, ("performance", "0"))):
        values, during = _of_policies(case, pattern)
        if not values:
            continue
        found = ("during the run: " if during else "") + by_value(values)
        file = pattern.replace("#", "*")
        wanted = "performance" if pattern == _EPP else "0"
        remedy = Shell(f"echo {wanted} | tee {file}")
        if any(value not in best for value in values.values()):
            return finding(name, "note", found, why, remedy)
        if not case.covers(values):
            missing = cpus_text(case.cpus - values.keys())
            return unknown(name, f"the preference of {missing} is not known", why, remedy)
        return finding(name, "ok", found, "the processor prefers speed")
    if facts.per_cpu_absent(_EPP) and facts.per_cpu_absent(_EPB):
        return finding(name, "ok", "none", "the processor has no such setting")
    error = facts.per_cpu_error(_EPP) or facts.per_cpu_error(_EPB)
    return unknown(
        name,
        f"the preference could not be read{reason(error)}",
        why,
        f"grep . {_EPP.replace('#', '*')}",
    )


_SLEEP_OK_US = 2
_WHY_HALT = "a halted virtual CPU runs again only when the hypervisor schedules it"
_HALT_REMEDY = (
    "while the application runs, hold /dev/cpu_dma_latency at 0; or boot with idle=poll"
    " (nohlt on architectures other than x86)"
)
_HOLD = "let the application hold /dev/cpu_dma_latency open with the value 0, or boot with "


def check_sleep(name: str, case: Case) -> Finding:
    facts = case.facts
    why = "a sleeping CPU needs time to wake up before it can run a task"
    boot = "processor.max_cstate=1 intel_idle.max_cstate=0" if facts.is_x86 else "cpuidle.off=1"
    remedy = _HOLD + boot
    held = read_integer(case.settings.get("cpu_dma_latency"))
    if held is None:
        held = read_integer(case.settings.get("/dev/cpu_dma_latency"))
    polls = "idle=poll" if facts.is_x86 else "nohlt"  # each is ignored by the others' kernels
    if facts.parameter("nohlt") == "" if polls == "nohlt" else facts.parameter("idle") == "poll":
        return finding(name, "ok", polls, "idle CPUs do not sleep")
    states = _sleep_states(case)
    if not states:
        return _no_sleep_states(name, case, why, remedy)
    deepest = _deepest(states)
    if held is not None and held >= 0:
        left = _sleep_states(case, held)
        # without a state as shallow as asked for, the kernel takes the shallowest
        deepest_left = _deepest(left)[0] if left else "none"
        found = f"held at {held} µs during the run, deepest permitted state: {deepest_left}"
        if not left or _deepest(left)[1] <= _SLEEP_OK_US:
            return finding(name, "ok", found, f"not entered: {deepest[0]}")
        return finding(name, "warning", found, why, remedy)
    if deepest[1] <= _SLEEP_OK_US:
        if not case.covers(states):
            missing = cpus_text(case.cpus - states.keys())
            return unknown(name, f"the sleep states of {missing} are not known", why, remedy)
        if deepest[1] > 0 and hypervisor(facts):
            return finding(name, "note", f"deepest: {deepest[0]}", _WHY_HALT, _HALT_REMEDY)
        return finding(name, "ok", f"deepest: {deepest[0]}", "waking takes almost no time")
    if case.recorded:
        why += "; the run did not hold /dev/cpu_dma_latency"
    elif facts.integer("agent.dma_latency") == 0:
        why += (
            "; rtgauge prevents such states while it measures, and the application must do so, too"
        )
    return finding(name, "warning", f"deepest: {deepest[0]}", why, remedy)


def _deepest(states: Mapping[int, tuple[str, int]]) -> tuple[str, int]:
    """The state of the longest exit latency, in words, and that latency."""
    state = max(states.values(), key=lambda item: item[1])
    cpus = [cpu for cpu, other in states.items() if other == state]
    return f"{state[0] or 'a state'}, {state[1]} µs, on {cpus_text(cpus)}", state[1]


def _sleep_states(case: Case, held: int = 1 << 62) -> dict[int, tuple[str, int]]:
    """Name and exit latency (us) of the deepest state that each measured CPU may enter."""
    limits = case.values(CPU + "cpu#/power/pm_qos_resume_latency_us")
    deepest: dict[int, tuple[str, int]] = {}
    for number in range(10):
        base = f"{CPU}cpu#/cpuidle/state{number}/"
        names = case.values(base + "name")
        disabled = case.values(base + "disable")
        for cpu, text in case.values(base + "latency").items():
            latency = read_integer(text)
            if latency is None or latency < 0 or disabled.get(cpu, "0") != "0":
                continue
            # admin-guide/pm/cpuidle: "n/a" allows no latency at all, 0 means no limit
            own = 0 if limits.get(cpu) == "n/a" else read_integer(limits.get(cpu)) or held
            if latency <= min(own, held) and latency >= deepest.get(cpu, ("", 0))[1]:
                deepest[cpu] = (names.get(cpu, ""), latency)
    return deepest


def _no_sleep_states(name: str, case: Case, why: str, remedy: str) -> Finding:
    facts = case.facts
    driver = facts.text(CPU + "cpuidle/current_driver")
    absent = facts.absent(CPU + "cpuidle/current_driver") or facts.config("CPU_IDLE") == "n"
    if driver != "none" and not absent and facts.parameter("cpuidle.off") != "1":
        return unknown(name, "the sleep states could not be read", why, remedy)
    if hypervisor(facts):
        return finding(
            name,
            "note",
            "the plain halt instruction",
            _WHY_HALT,
            _HALT_REMEDY,
        )
    return finding(
        name, "ok", "the plain halt instruction", "no driver that could enter deeper states"
    )
