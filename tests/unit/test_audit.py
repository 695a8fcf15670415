# SPDX-License-Identifier: Apache-2.0
"""The audit: six kinds of systems, settings and configurations, and facts that no system has."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtgauge.audit import CHECKS, Finding, audit, environment_document, realtime_model
from rtgauge.facts import Fact, Facts, one_line
from rtgauge.stream import Setting as Record

CPU = "/sys/devices/system/cpu/"
CLOCK = "/sys/devices/system/clocksource/clocksource0/"
FAIR = "/sys/kernel/debug/sched/fair_server/"
RUNTIME = "/proc/sys/kernel/sched_rt_runtime_us"
THP = "/sys/kernel/mm/transparent_hugepage/enabled"
KERNEL = "/proc/sys/kernel/"
TRACING = "/sys/kernel/tracing/"
PREEMPT = "/sys/kernel/debug/sched/preempt"

FactSet = dict[str, Fact]

SIX: FactSet = {"uname.release": "6.1.0", FAIR + "cpu{0-3}/runtime": None}


# --- six systems ---------------------------------------------------------------------------------

RT_PC: FactSet = {
    "uname.release": "6.12.48-rt-amd64",
    "uname.version": "#1 SMP PREEMPT_RT Debian 6.12.48-1",
    "uname.machine": "x86_64",
    "/proc/version": "Linux version 6.12.48+deb13-rt-amd64 (gcc-14 (Debian 14.2.0-19))",
    "/proc/cmdline": "quiet isolcpus=managed_irq,domain,2-3 nohz_full=2-3 rcu_nocbs=2-3"
    " irqaffinity=0-1 nosmt nowatchdog skew_tick=1 tsc=nowatchdog",
    "/sys/kernel/realtime": "1",
    "agent.debugfs": "mounted",
    "/boot/config-6.12.48-rt-amd64": "CONFIG_PREEMPT_RT=y\nCONFIG_CPU_FREQ=y\n"
    "CONFIG_CPU_IDLE=y\nCONFIG_HZ=250\nCONFIG_NO_HZ_FULL=y\nCONFIG_RCU_NOCB_CPU=y\nCONFIG_FTRACE=y\n"
    "CONFIG_FUNCTION_TRACER=y\nCONFIG_DYNAMIC_FTRACE=y\nCONFIG_LOCKUP_DETECTOR=y",
    RUNTIME: "-1",
    "/proc/sys/kernel/sched_rt_period_us": "1000000",
    FAIR + "cpu{0-3}/runtime": "0",
    "agent.clock_getres_ns": 1,
    "agent.clock_getres_coarse_ns": 4000000,
    CLOCK + "current_clocksource": "tsc",
    CLOCK + "available_clocksource": "tsc hpet acpi_pm ",
    "/proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\n"
    "model name\t: Intel(R) Core(TM) i7\nflags\t\t: fpu tsc",
    CPU + "online": "0-3",
    CPU + "isolated": "2-3",
    CPU + "nohz_full": "2-3",
    "/proc/irq/default_smp_affinity": "3",
    CPU + "smt/control": "forceoff",
    CPU + "smt/active": "0",
    CPU + "cpu0/topology/thread_siblings_list": "0",
    CPU + "cpu1/topology/thread_siblings_list": "1",
    CPU + "cpu2/topology/thread_siblings_list": "2",
    CPU + "cpu3/topology/thread_siblings_list": "3",
    CPU + "cpu{0-3}/cpufreq/scaling_driver": "intel_pstate",
    CPU + "cpu{0-3}/cpufreq/scaling_governor": "performance",
    CPU + "cpuidle/current_driver": "intel_idle",
    CPU + "cpu{0-3}/cpuidle/state0/name": "POLL",
    CPU + "cpu{0-3}/cpuidle/state0/latency": "0",
    CPU + "cpu{0-3}/cpuidle/state0/disable": "0",
    CPU + "cpu{0-3}/cpuidle/state1/name": "C1",
    CPU + "cpu{0-3}/cpuidle/state1/latency": "2",
    CPU + "cpu{0-3}/cpuidle/state1/disable": "0",
    CPU + "cpu{0-3}/cpuidle/state2/name": "C10",
    CPU + "cpu{0-3}/cpuidle/state2/latency": "890",
    CPU + "cpu{0-3}/cpuidle/state2/disable": "1",
    "agent.dma_latency": 0,
    "/proc/stat": "cpu  1 0 1 90 0 0 0 0 0 0\ncpu0 1 0 1 90 0 0 0 0 0 0",
    "/sys/class/dmi/id/sys_vendor": "ASUS",
    "/proc/self/ns/pid": "pid:[4026531836]",
    "agent.libc": "glibc 2.41",
    "agent.uid": 0,
    "agent.fifo": 0,
    "agent.fifo_priority": 99,
    "agent.rlimit_rtprio": 0,
    "agent.rlimit_memlock": 8388608,
    "agent.rlimit_rttime": -1,
    "/proc/self/status": "CapEff:\t000001ffffffffff\nSeccomp:\t0\nCpus_allowed_list:\t0-3",
    "agent.cgroup.cpu.rt_runtime_us": None,
    "/proc/meminfo": "MemTotal:       16000000 kB\nSwapTotal:             0 kB",
    "/proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority",
    THP: None,  # absent with PREEMPT_RT
    "/sys/kernel/mm/ksm/run": "0",
    KERNEL + "numa_balancing": "0",
    KERNEL + "timer_migration": "0",
    KERNEL + "watchdog": "0",
    KERNEL + "soft_watchdog": "0",
    KERNEL + "nmi_watchdog": "0",
    KERNEL + "stack_tracer_enabled": "0",
    "/sys/kernel/rcu_normal": "1",
    "/sys/kernel/rcu_expedited": "0",
    "/sys/devices/virtual/workqueue/cpumask": "3",
    "/sys/kernel/debug/sched/features": "GENTLE_FAIR_SLEEPERS NO_HRTICK RT_PUSH_IPI"
    " NO_RT_RUNTIME_SHARE NO_LATENCY_WARN TTWU_QUEUE",
    TRACING + "current_tracer": "nop",
    TRACING + "tracing_on": "1",
    TRACING + "events/enable": "0",
    CPU + "cpu{0-3}/thermal_throttle/core_throttle_count": "0",
    CPU + "cpu{0-3}/thermal_throttle/package_throttle_count": "0",
    "agent.smi_count": 0,
    "agent.realtime_tasks": "1 99 2 migration/0\n1 99 2 migration/1\n1 81 2 ktimers/0\n"
    "1 50 2 irq/9-acpi\n1 50 2 irq/122-nvme0q0\n1 50 2 irq/124-eth0\n1 70 1200 control",
    "/proc/irq/*/smp_affinity_list": "0=0-1\n9=0-1\n122=0-1\n123=2\n124=0-1",
    "/proc/irq/*/effective_affinity_list": "0=0\n9=1\n122=1\n123=\n124=0",
    CPU + "intel_pstate/no_turbo": "1",
    CPU + "cpufreq/boost": None,
    CPU + "cpu{0-3}/cpufreq/energy_performance_preference": "performance",
    CPU + "cpu{0-3}/power/energy_perf_bias": "0",
    CPU + "vulnerabilities": "l1tf=Not affected\nspectre_v1=Not affected",
    KERNEL + "split_lock_mitigate": None,
    "/sys/devices/system/node/online": "0",
    "/sys/devices/system/machinecheck/machinecheck0/check_interval": "0",
    "/sys/devices/system/edac/mc/mc0": None,
    "/sys/module/edac_core/parameters/edac_mc_poll_msec": None,
    "/sys/fs/resctrl": None,
    "/sys/module/pcie_aspm/parameters/policy": "default [performance] powersave powersupersave",
    "/sys/module/usbcore/parameters/autosuspend": "-1",
    "/sys/kernel/iommu_groups/*/type": "0=identity\n1=identity",
    "/sys/class/net/*/queues/rx-0/rps_cpus": "lo=0\neth0=0",
    "/sys/class/net/*/queues/tx-0/xps_cpus": "eth0=3",
    "agent.daemons": "",
    "/sys/kernel/irq/*/actions": "0=timer\n9=acpi\n122=nvme0q0\n123=\n124=eth0",
}

LAPTOP: FactSet = RT_PC | {
    "uname.release": "6.8.0-45-generic",
    "uname.version": "#45-Ubuntu SMP PREEMPT_DYNAMIC Fri Aug 30 12:02:04 UTC 2024",
    "/proc/version": "Linux version 6.8.0-45-generic (buildd@lcy02) #45-Ubuntu SMP",
    "/proc/cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/sda2 ro quiet splash",
    "/sys/kernel/realtime": None,
    "agent.debugfs": None,
    "agent.debugfs.error": "Permission denied",
    PREEMPT: None,
    PREEMPT + ".error": "Permission denied",
    "/boot/config-6.12.48-rt-amd64": None,
    "/boot/config-6.8.0-45-generic": "CONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_PREEMPT_DYNAMIC=y\n"
    "CONFIG_HZ=1000\nCONFIG_NO_HZ_IDLE=y\nCONFIG_DEBUG_LIST=y\nCONFIG_RT_GROUP_SCHED=y\n"
    "CONFIG_FTRACE=y\nCONFIG_LOCKUP_DETECTOR=y\nCONFIG_KSM=y",
    "agent.clock_getres_coarse_ns": 1000000,
    "/proc/swaps": "Filename\tType\tSize\tUsed\tPriority\n/swap.img file 8388604 1048576 -2",
    "/proc/meminfo": "MemTotal:  16000000 kB\nSwapTotal:  8388604 kB\nSwapFree:  7340028 kB",
    THP: "[always] madvise never",
    "/sys/kernel/mm/ksm/run": "1",
    KERNEL + "numa_balancing": "1",
    KERNEL + "timer_migration": "1",
    KERNEL + "watchdog": "1",
    KERNEL + "soft_watchdog": "1",
    KERNEL + "nmi_watchdog": "1",
    "/sys/kernel/rcu_normal": "0",
    "/sys/devices/virtual/workqueue/cpumask": "f",
    "/sys/kernel/debug/sched/features": None,
    "/sys/kernel/debug/sched/features.error": "Permission denied",
    TRACING + "current_tracer": None,
    TRACING + "current_tracer.error": "Permission denied",
    TRACING + "events/enable": None,
    TRACING + "events/enable.error": "Permission denied",
    CPU + "cpu{0-3}/thermal_throttle/core_throttle_count": "17",
    "agent.smi_count": None,
    "agent.smi_count.error": "Permission denied",
    CPU + "intel_pstate/no_turbo": "0",
    CPU + "cpu{0-3}/cpufreq/energy_performance_preference": "balance_performance",
    CPU + "cpu{0-3}/power/energy_perf_bias": "6",
    CPU + "vulnerabilities": "l1tf=Not affected\nspectre_v2=Mitigation: Retpolines",
    "/proc/cpuinfo": "vendor_id\t: GenuineIntel\nflags\t\t: fpu tsc split_lock_detect",
    KERNEL + "split_lock_mitigate": "1",
    "/sys/devices/system/machinecheck/machinecheck0/check_interval": "300",
    "/sys/fs/resctrl": 1,
    "/sys/fs/resctrl/schemata": None,
    "/sys/module/pcie_aspm/parameters/policy": "[default] performance powersave powersupersave",
    "/sys/module/usbcore/parameters/autosuspend": "2",
    "/sys/kernel/iommu_groups/*/type": "0=DMA-FQ\n1=DMA-FQ",
    "/sys/class/net/*/queues/rx-0/rps_cpus": "lo=0\neth0=f",
    "agent.daemons": "irqbalance\npower-profiles-",
    "agent.realtime_tasks": "1 99 2 migration/0\n1 88 1400 pipewire\n6 0 2 sugov:0\n"
    "1 50 2 irq/9-acpi",
    "/proc/irq/*/smp_affinity_list": "0=0-3\n9=0-3\n122=0-3",
    "/proc/irq/*/effective_affinity_list": "0=0\n9=1\n122=3",
    RUNTIME: "950000",
    FAIR + "cpu{0-3}/runtime": None,
    CPU + "isolated": "",
    CPU + "nohz_full": " (null)",
    "/proc/irq/default_smp_affinity": "f",
    CPU + "smt/active": "1",
    CPU + "cpu0/topology/thread_siblings_list": "0-1",
    CPU + "cpu1/topology/thread_siblings_list": "0-1",
    CPU + "cpu2/topology/thread_siblings_list": "2-3",
    CPU + "cpu3/topology/thread_siblings_list": "2-3",
    CPU + "cpu{0-3}/cpufreq/scaling_governor": "powersave",
    CPU + "cpu{0-3}/cpuidle/state2/disable": "0",
    "agent.dma_latency": 13,
    "agent.uid": 1000,
    "agent.fifo": 1,
    "/proc/self/status": "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-3",
}
del LAPTOP["agent.fifo_priority"]

VM: FactSet = {
    "uname.release": "6.18.44",
    "uname.version": "#1 SMP PREEMPT_DYNAMIC",
    "uname.machine": "x86_64",
    "/proc/cmdline": "console=ttyS0 preempt=full",
    "/sys/kernel/realtime": None,
    "agent.debugfs": "opened",
    PREEMPT: None,
    PREEMPT + ".error": "Operation not permitted",
    FAIR + "cpu{0-1}/runtime": None,
    FAIR + "cpu{0-1}/runtime.error": "Operation not permitted",
    RUNTIME: "-1",
    "/proc/sys/kernel/sched_rt_period_us": "1000000",
    "agent.clock_getres_ns": 1,
    CLOCK + "current_clocksource": "kvm-clock",
    CLOCK + "available_clocksource": "kvm-clock",
    "/proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu tsc hypervisor",
    CPU + "online": "0-1",
    CPU + "isolated": "",
    CPU + "smt/active": "0",
    CPU + "smt/control": "notsupported",
    CPU + "cpu{0-1}/cpufreq/scaling_governor": None,
    CPU + "cpuidle/current_driver": "none",
    "/proc/stat": "cpu0 100 0 0 800 0 0 0 100 0 0\ncpu1 0 0 0 1000 0 0 0 0 0 0",
    "/proc/self/ns/pid": "pid:[4026531836]",
    "agent.uid": 0,
    "agent.fifo": 0,
    "agent.fifo_priority": 99,
    "agent.rlimit_memlock": -1,
    "agent.rlimit_rttime": -1,
    "agent.dma_latency": 0,
    "/proc/self/status": "CapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-1",
}

CONTAINER: FactSet = LAPTOP | {
    "/.dockerenv": 1,
    "/proc/self/ns/pid": "pid:[4026532611]",
    "agent.uid": 0,
    "agent.fifo": 1,
    "agent.dma_latency": 2,
    "/proc/self/status": "CapEff:\t00000000a80425fb\nCpus_allowed_list:\t0-3",
    "agent.debugfs.error": "Operation not permitted",
}

ARM_BOARD: FactSet = {
    "uname.release": "3.0.0",
    "uname.version": "#12 Thu Mar 7 10:00:00 CET 2013",
    "uname.machine": "armv5tejl",
    "/proc/cmdline": "console=ttyS0,115200 mem=64M",
    "/sys/kernel/realtime": None,
    "agent.debugfs": None,
    "agent.debugfs.error": "Function not implemented",
    RUNTIME: "950000",
    "/proc/sys/kernel/sched_rt_period_us": "1000000",
    "agent.clock_getres_ns": 10000000,
    CLOCK + "current_clocksource": "at91_tc_clksrc",
    "/proc/cpuinfo": "Processor\t: ARM926EJ-S rev 5 (v5l)\nHardware\t: Atmel AT91SAM9260-EK",
    CPU + "online": "0",
    CPU + "isolated": None,
    CPU + "smt/active": None,
    CPU + "smt/control": None,
    CPU + "cpu0/cpufreq/scaling_governor": None,
    CPU + "cpuidle/current_driver": None,
    CPU + "cpu0/topology/thread_siblings_list": None,
    "/proc/stat": "cpu0 1 2 3 4 5 6 7 0 0",
    "/proc/self/ns/pid": None,
    "agent.libc": "musl",
    "agent.uid": 0,
    "agent.fifo": 0,
    "agent.fifo_priority": 99,
    "agent.rlimit_memlock": 65536,
    "agent.rlimit_rttime": -1,
    "agent.dma_latency": 2,
    "/proc/self/status": "CapEff:\tffffffffffffffff\nCpus_allowed_list:\t0",
}

SERVER: FactSet = (
    LAPTOP
    | {
        "uname.release": "7.0.1",
        "/proc/version": "Linux version 7.0.1 (builder@host)",
        "uname.version": "#1 SMP PREEMPT_DYNAMIC Fri May 1",
        "agent.debugfs": "mounted",
        "agent.debugfs.error": None,
        PREEMPT: "full (lazy)",
        PREEMPT + ".error": None,
        FAIR + "cpu{0-127}/runtime": "50000000",
        CPU + "online": "0-127",
        CPU + "isolated": "",
        "/proc/irq/default_smp_affinity": "ffffffff,ffffffff,ffffffff,ffffffff",
        CPU + "smt/control": "on",
        CPU + "cpu{0-127}/cpufreq/scaling_driver": "acpi-cpufreq",
        CPU + "cpu{0-3,5-127}/cpufreq/scaling_governor": "schedutil",
        CPU + "cpu4/cpufreq/scaling_governor": "performance",
        CPU + "cpu{0-127}/cpuidle/state0/name": "POLL",
        CPU + "cpu{0-127}/cpuidle/state0/latency": "0",
        CPU + "cpu{0-127}/cpuidle/state1/name": "C2",
        CPU + "cpu{0-127}/cpuidle/state1/latency": "400",
        CPU + "cpu{0-127}/cpuidle/state1/disable": "0",
        "agent.uid": 0,
        "agent.fifo": 0,
        "agent.fifo_priority": 99,
        "agent.dma_latency": 0,
        "agent.rlimit_memlock": -1,
        "/proc/self/status": "CapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-127",
    }
    | {
        f"{CPU}cpu{{{core},{core + 64}}}/topology/thread_siblings_list": f"{core},{core + 64}"
        for core in range(64)
    }
)
for _cpu in range(4):
    del SERVER[f"{CPU}cpu{_cpu}/topology/thread_siblings_list"]

LIKE_THE_LAPTOP = {
    "debugging": "note",
    "tracing": "note",
    "tick": "note",
    "timer-migration": "note",
    "thermal": "warning",
    "smi": "note",
    "control-groups": "note",
    "scheduler-features": "note",
    "real-time-tasks": "warning",
    "interrupt-threads": "note",
    "boot-parameters": "ok",
    "interrupts": "note",
    "kernel-work": "ok",
    "watchdogs": "note",
    "swap": "warning",
    "huge-pages": "warning",
    "numa-balancing": "warning",
    "page-merging": "note",
    "clock-watchdog": "note",
    "skew-tick": "note",
    "turbo": "note",
    "energy-preference": "note",
    "mitigations": "note",
    "split-locks": "note",
    "error-polling": "note",
    "cache-allocation": "note",
    "device-power": "note",
    "iommu": "note",
    "timer-threads": "ok",
    "packets": "note",
    "rcu": "note",
    "services": "note",
}
#: Facts of an agent that did not collect them yet: nothing of it is ok.
NEVER_LOOKED = dict.fromkeys(LIKE_THE_LAPTOP, "note")

#: The levels of a laptop, and of a container on it.
OF_THE_LAPTOP = {
    "preemption": "error",
    "timers": "ok",
    "clock-source": "ok",
    "frequency": "warning",
    "sleep-states": "warning",
    "throttling": "warning",
    "fair-server": "ok",
    "isolation": "note",
    "smt": "warning",
    "virtualisation": "ok",
    "privileges": "error",
} | LIKE_THE_LAPTOP

SYSTEMS: dict[str, tuple[FactSet, str, dict[str, str]]] = {
    "rt-pc": (
        RT_PC,
        "preempt_rt",
        dict.fromkeys(CHECKS, "ok") | {"isolation": "note"},
    ),
    "laptop": (
        LAPTOP,
        "voluntary",
        OF_THE_LAPTOP,
    ),
    "vm": (
        VM,
        "full",
        {
            "preemption": "warning",
            "timers": "ok",
            "clock-source": "note",
            "frequency": "note",
            "sleep-states": "note",
            "throttling": "ok",
            "fair-server": "note",
            "isolation": "note",
            "smt": "note",
            "virtualisation": "error",
            "privileges": "ok",
        }
        | NEVER_LOOKED
        | {
            "smi": "note",
            "boot-parameters": "ok",
            "clock-watchdog": "ok",
            "timer-threads": "ok",
            "split-locks": "ok",
        },
    ),
    "container": (
        CONTAINER,
        "voluntary",
        OF_THE_LAPTOP,
    ),
    "arm-board": (
        ARM_BOARD,
        "unknown",
        {
            "preemption": "error",
            "timers": "error",
            "clock-source": "note",
            "frequency": "ok",
            "sleep-states": "ok",
            "throttling": "warning",
            "fair-server": "ok",
            "isolation": "note",
            "smt": "ok",
            "virtualisation": "ok",
            "privileges": "ok",
        }
        | NEVER_LOOKED
        | {
            "smi": "ok",
            "timer-migration": "ok",
            "boot-parameters": "ok",
            "clock-watchdog": "ok",
            "skew-tick": "ok",
            "split-locks": "ok",
        },
    ),
    "server": (
        SERVER,
        "lazy",
        {
            "preemption": "warning",
            "timers": "ok",
            "clock-source": "ok",
            "frequency": "warning",
            "sleep-states": "warning",
            "throttling": "warning",
            "fair-server": "warning",
            "isolation": "note",
            "smt": "warning",
            "virtualisation": "ok",
            "privileges": "ok",
        }
        | LIKE_THE_LAPTOP
        | {"thermal": "warning"},
    ),
}


def find(facts: Mapping[str, Fact], check: str, **options: Any) -> Finding:
    return next(finding for finding in audit(facts, **options) if finding.check == check)


@pytest.mark.parametrize("system", SYSTEMS)
def test_systems(system: str) -> None:
    facts, model, levels = SYSTEMS[system]
    assert {finding.check: finding.level for finding in audit(facts)} == levels
    assert realtime_model(facts) == model
    assert environment_document(facts)["realtime"] == model


@pytest.mark.parametrize("system", SYSTEMS)
def test_findings_are_complete(system: str) -> None:
    findings = audit(SYSTEMS[system][0])
    assert [finding.check for finding in findings] == list(CHECKS)
    assert len(CHECKS) == 43
    for finding in findings:
        assert finding.found and finding.why
        assert bool(finding.remedy) == (finding.level != "ok")
        assert not {"\n", "\r", "\x1b"} & set(finding.found + finding.why + finding.remedy)


@pytest.mark.parametrize("system", SYSTEMS)
def test_documents_are_json(system: str) -> None:
    document = environment_document(SYSTEMS[system][0])
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_nothing_known_is_never_ok() -> None:
    for finding in audit({}):
        assert finding.level == "note"
        assert finding.found == "unknown"
        assert finding.why and finding.remedy
    assert realtime_model({}) == "unknown"


@pytest.mark.slow
def test_a_missing_fact_is_never_ok_where_it_was_needed() -> None:
    """Leave any one fact out of the best system: nothing gets better by knowing less."""
    order = ("ok", "note", "warning", "error")
    best = {finding.check: order.index(finding.level) for finding in audit(RT_PC)}
    needed = {
        "uname.release": "throttling",
        RUNTIME: "throttling",
        FAIR + "cpu{0-3}/runtime": "fair-server",
        "agent.clock_getres_ns": "timers",
        CLOCK + "current_clocksource": "clock-source",
        CPU + "cpu{0-3}/cpufreq/scaling_governor": "frequency",
        "/proc/stat": "virtualisation",
        "agent.fifo": "privileges",
        "agent.rlimit_memlock": "privileges",
        "agent.dma_latency": "privileges",
    }
    for name in RT_PC:
        less = {key: value for key, value in RT_PC.items() if key != name}
        findings = audit(less)
        for finding in findings:
            if finding.check != "isolation":
                assert order.index(finding.level) >= best[finding.check], (name, finding)
        if name in needed and name != "uname.release":
            assert find(less, needed[name]).level == "note", name


# --- settings, configuration, notation -----------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    name: str
    asked: str
    before: str | None
    effective: str | None
    reason: str


def test_settings_of_a_run() -> None:
    good = Setting(RUNTIME, "-1", "950000", "-1", "")
    bad = replace(good, effective="950000", reason="not permitted")
    facts = RT_PC | SIX | {RUNTIME: "950000"}
    assert find(facts, "throttling").level == "warning"
    assert find(facts, "throttling", settings=[]).level == "warning"
    assert find(facts, "throttling", settings=[good]).level == "ok"
    # a step in which it failed is not covered up by one in which it did not
    assert find(facts, "throttling", settings=[bad, good]).level == "warning"
    assert find(facts, "throttling", settings=[good, bad]).level == "warning"
    assert environment_document(facts, [good])["settings"] == {
        RUNTIME: {"asked": "-1", "effective": "-1", "before": "950000", "reason": ""}
    }


def _packed(text: str) -> bytes:
    return gzip.compress(text.encode(), mtime=0)


def test_configuration() -> None:
    text = "#\n# CONFIG_PREEMPT is not set\nCONFIG_PREEMPT_NONE=y\nCONFIG_HZ=250\n"
    config = Facts({"/proc/config.gz": _packed(text)})
    assert config.config("PREEMPT_NONE") == "y"
    assert config.config("PREEMPT") == "n"
    assert config.config("HZ") == "250"
    assert Facts({}).config("HZ") is None
    assert Facts({"/proc/config.gz": None}).config("HZ") is None
    assert Facts({"/boot/config-6.1": 'CONFIG_CC="gcc"'}).config("CC") == "gcc"


@pytest.mark.slow
def test_a_cut_configuration_knows_what_it_has() -> None:
    rows = "".join(f"CONFIG_X{n * 2654435761 % 1000003}=y\n" for n in range(30000))
    packed = _packed("CONFIG_HZ=1000\n" + rows)
    config = Facts({"/proc/config.gz": packed[:40000], "/proc/config.gz.cut": 40000})
    assert config.config("HZ") == "1000"
    assert config.config("PREEMPT_RT") is None


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 9])
def test_a_bomb_is_not_unpacked(level: int) -> None:
    packer = zlib.compressobj(level or 1, wbits=31)
    bomb = packer.compress(b"CONFIG_HZ=100\n")
    for _ in range(32):
        bomb += packer.compress(b"\n" * (1 << 20))
    bomb += packer.flush()
    config = Facts({"/proc/config.gz": bomb})
    assert config.config("HZ") == "100"
    assert config.config("PREEMPT") is None  # the rest was not looked at


def test_one_line() -> None:
    assert one_line(" a\n\tb\x1b[31m\0c ") == "a b [31m c"
    assert one_line("x" * 500) == "x" * 159 + "…"
    assert len(one_line("\n" * 10**6 + "x")) <= 160


# --- facts that no system has --------------------------------------------------------------------

_NAMES = [
    *sorted({name for facts, _, _ in SYSTEMS.values() for name in facts}),
    "/proc/config.gz",
    "/sys/class/thermal/thermal_zone0/temp",
    "/sys/class/thermal/thermal_zone0/type",
    CPU + "cpu{/cpuidle/state0/latency",
    CPU + "cpu{}/cpuidle/state0/latency",
    CPU + "cpu{0-99999999}/cpuidle/state0/latency",
    CPU + "cpu{3-1}/cpufreq/scaling_governor",
    CPU + "vulnerabilities",
    "agent.cpus_online",
]
_VALUES = st.one_of(
    st.none(),
    st.integers(),
    st.just(10**6000),
    st.just(-1),
    st.booleans(),
    st.text(max_size=40),
    st.binary(max_size=40),
    st.binary(max_size=40).map(lambda data: b"\x1f\x8b" + data),
    st.sampled_from(
        [
            "9" * 5000,
            "-" + "9" * 18,
            "0-4095",
            "0-4294967295",
            "f" * 60000,
            "cpu0 1 2 3 4 5 6 7 " + "9" * 18,
            "cpu0 -1 -1 -1 -1 -1 -1 -1 -1",
            "\0\n\x1b[2J",
            'quiet "a="b isolcpus=x,,, nohz_full preempt= -- --',
            "(full) (none)",
            "PREEMPT_DYNAMIC",
            "nan",
            "1e999",
            "²",
            "٣",
            "flags : hypervisor",
            "CapEff: zz",
        ]
    ),
    st.lists(st.integers(), max_size=2),
    st.floats(),
)


@given(
    st.sampled_from(sorted(SYSTEMS)),
    st.dictionaries(st.one_of(st.sampled_from(_NAMES), st.text(max_size=20)), _VALUES, max_size=12),
    st.one_of(st.none(), st.lists(st.integers(-2, 5000), max_size=4)),
    st.dictionaries(
        st.sampled_from([RUNTIME, FAIR + "cpu0/runtime", "cpu_dma_latency", "x"]),
        st.one_of(st.none(), st.text(max_size=10), st.sampled_from(["9" * 5000, "-1", "0"])),
        max_size=3,
    ),
)
@settings(max_examples=200, deadline=None, derandomize=True)
@pytest.mark.slow
def test_hostile_facts_never_raise(
    system: str, change: dict[str, Any], cpus: list[int] | None, run: dict[str, str | None]
) -> None:
    facts = SYSTEMS[system][0] | change
    for finding in audit(facts, cpus=cpus, settings=run):
        assert finding.level in ("ok", "note", "warning", "error")
        assert bool(finding.remedy) == (finding.level != "ok")
        for text in (finding.check, finding.found, finding.why, finding.remedy):
            assert text == one_line(text, 1000)
    document = environment_document(facts, run)
    assert len(json.dumps(document, allow_nan=False)) < 200_000


@given(st.dictionaries(st.sampled_from(_NAMES), st.just(None)))
@settings(deadline=None, derandomize=True)
@pytest.mark.slow
def test_facts_that_could_not_be_read(change: dict[str, Fact]) -> None:
    for finding in audit(change):
        # what is known not to exist may settle a check; what could not be read never does
        denied = change | {f"{name}.error": "Permission denied" for name in change}
        assert finding.why
        assert all(other.level != "ok" for other in audit(denied))


def test_a_policy_that_could_not_be_set_is_not_that_of_the_cpus_before_it() -> None:
    policies = CPU + "cpufreq/policy{}/scaling_governor"
    settings = [
        Record(0, policies.format(0), "performance", "powersave", "performance", ""),
        Record(1, policies.format(2), "performance", None, None, "refused"),
    ]
    facts = {CPU + "online": "0-3", CPU + "cpu{0-3}/cpufreq/scaling_governor": "powersave"}
    found = find(facts, "frequency", settings=settings)
    assert found.level == "warning"
    assert "performance on CPUs 0-1, powersave on CPUs 2-3" in found.found


def test_a_policy_whose_cpus_lie_around_those_of_another() -> None:
    """As on boards with CPUs of two kinds: 0 and 3 to 5, and 1 to 2."""
    settings = [
        Record(0, CPU + "cpufreq/policy0/scaling_governor", "performance", None, None, "refused"),
        Record(1, CPU + "cpufreq/policy1/scaling_governor", "performance", "powersave",
               "performance", ""),
    ]  # fmt: skip
    facts = {
        CPU + "online": "0-5",
        CPU + "cpu{0-5}/cpufreq/scaling_governor": "powersave",
        CPU + "cpu{0,3-5}/cpufreq/scaling_max_freq": "700000",
        CPU + "cpu{1-2}/cpufreq/scaling_max_freq": "1100000",
    }
    found = find(facts, "frequency", settings=settings)
    assert "powersave on CPUs 0,3-5, performance on CPUs 1-2" in found.found
    # the first CPU of the policy is offline
    facts = {name.replace("{0,3-5}", "{3-5}"): value for name, value in facts.items()}
    found = find(facts | {CPU + "online": "1-5"}, "frequency", settings=settings)
    assert "performance on CPUs 1-2, powersave on CPUs 3-5" in found.found
