# SPDX-License-Identifier: Apache-2.0
"""Every check of the audit at every level, and the facts that give it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from rtgauge.audit import audit
from rtgauge.facts import Fact
from rtgauge.report.results.commands import checked
from test_audit import (
    CLOCK,
    CPU,
    FAIR,
    PREEMPT,
    RUNTIME,
    SIX,
    SYSTEMS,
    FactSet,
    find,
)


@dataclass(frozen=True)
class Case:
    check: str
    level: str
    change: Mapping[str, Fact]
    found: str = ""
    remedy: str = ""
    why: str = ""
    base: str = "rt-pc"
    cpus: tuple[int, ...] | None = None
    load: bool = False
    run: Mapping[str, str | None] | None = None
    priority: int = 80


SERVER = FAIR + "cpu{0-3}/runtime"
SERVED: FactSet = {SERVER: "50000000", RUNTIME: "950000"}
LOCKED_DOWN: FactSet = {
    SERVER: None,
    "agent.debugfs": None,
    "agent.debugfs.error": "Operation not permitted",
    "agent.uid": 0,
    "/sys/kernel/security/lockdown": "none [integrity] confidentiality",
}


def _off(cpus: int) -> dict[str, str]:
    """A run without throttling, and without a fair server on the first CPUs."""
    return {RUNTIME: "-1"} | {f"{FAIR}cpu{n}/runtime": "0" for n in range(cpus)}


def _dynamic(**change: Fact) -> dict[str, Fact]:
    facts: dict[str, Fact] = {
        "/sys/kernel/realtime": None,
        "uname.version": "#1 SMP PREEMPT_DYNAMIC Debian 6.12.48-1",
        "/boot/config-6.12.48-rt-amd64": None,
        "/proc/cmdline": change.pop("cmdline", "quiet"),
    }
    return facts | {PREEMPT: change.pop("debugfs", None)} | change


PROXMOX: FactSet = _dynamic(debugfs="none (voluntary) full") | {
    "uname.version": "#1 SMP PREEMPT_DYNAMIC PMX 6.8.12-4 (2024-11-06T15:04Z)",
    "/proc/version": "Linux version 6.8.12-4-pve (build@proxmox) (gcc (Debian 12.2.0-14) 12.2.0, "
    "GNU ld (GNU Binutils for Debian) 2.40) #1 SMP PREEMPT_DYNAMIC PMX 6.8.12-4",
}
CASES = [
    # preemption
    Case("preemption", "ok", {"/sys/kernel/realtime": None}, "PREEMPT_RT"),
    Case("preemption", "ok", {"uname.version": "#1 SMP PREEMPT RT 3.18"}, "PREEMPT_RT"),
    Case("preemption", "ok", {"uname.version": "#1 SMP PREEMPT"}, "PREEMPT_RT"),
    Case("preemption", "warning", _dynamic(debugfs="none voluntary (full)"), "full", "linux-image"),
    Case("preemption", "error", _dynamic(debugfs="none (voluntary) full"), "vol", "preempt=full"),
    Case("preemption", "error", _dynamic(debugfs="(none) voluntary full"), "no preemption"),
    # what runs counts more than what was asked for at boot, and that more than what was built in
    Case("preemption", "error", _dynamic(debugfs="(none) full", cmdline="preempt=full"), "no pre"),
    Case("preemption", "warning", _dynamic(cmdline="a preempt=none preempt=full"), "preempt=full"),
    Case("preemption", "warning", _dynamic(cmdline="preempt=full preempt=fast"), "preempt=full"),
    Case("preemption", "warning", _dynamic(cmdline="quiet -- preempt=none"), "mode unknown"),
    Case("preemption", "error", _dynamic() | {"/boot/config-x": "CONFIG_PREEMPT_NONE=y"},
         "the kernel's default"),
    Case("preemption", "warning", _dynamic() | {"/boot/config-x": "CONFIG_PREEMPT_LAZY=y"}, "lazy"),
    Case("preemption", "warning", _dynamic(), "mode unknown"),
    Case("preemption", "warning",
         {"uname.version": "#1 SMP PREEMPT", "/sys/kernel/realtime": None, **SIX},
         "full preemption"),
    Case("preemption", "warning",
         {"uname.version": "#1 SMP PREEMPT", "uname.release": "6.14.0",
          "/sys/kernel/realtime": None, "/boot/config-6.12.48-rt-amd64": None}, "full or lazy"),
    Case("preemption", "warning",
         {"uname.version": "#1 SMP PREEMPT", "uname.release": "6.14.0",
          "/sys/kernel/realtime": None, "/boot/config-6.12.48-rt-amd64": "CONFIG_PREEMPT_LAZY=y"},
         "lazy"),
    Case("preemption", "error",
         {"uname.version": "#1 SMP", "/sys/kernel/realtime": None,
          "/boot/config-6.12.48-rt-amd64": None}, "none or voluntary"),
    Case("preemption", "note", {"/proc/xenomai/version": "3.2.4"}, "Cobalt core 3.2.4",
         remedy="rtgauge run timer --core cobalt"),
    # EVL is not supported, so no remedy may name a tool or an option for it.
    Case("preemption", "note", {"/dev/evl/control": 1}, "EVL", remedy="read these figures as"),
    Case("preemption", "note",
         {"uname.version": None, "/proc/version": None, "/sys/kernel/realtime": None}, "unknown"),
    Case("preemption", "error", {}, remedy="pro enable realtime-kernel", base="laptop"),
    Case("preemption", "warning", {}, remedy="CONFIG_PREEMPT_RT=y", base="server"),
    # the compiler is Debian's, the kernel is not
    Case("preemption", "error", PROXMOX, remedy="then boot a kernel built with CONFIG_PREEMPT_RT"),
    Case("preemption", "error", PROXMOX | {"uname.version": None},
         remedy="then boot a kernel built with CONFIG_PREEMPT_RT"),
    Case("preemption", "error",
         PROXMOX | {"uname.version": "#1 SMP PREEMPT_DYNAMIC Debian 6.1.1-1 (2023-01-07)"},
         remedy="with PREEMPT_RT, and boot it: apt install linux-image-rt-amd64"),
    Case(
        "preemption",
        "error",
        PROXMOX
        | {
            "uname.version": None,
            "/proc/version": "Linux version 6.1.0-1-amd64 (x@debian.org) (gcc-12 (Debian 12.2)) "
            "#1 SMP PREEMPT_DYNAMIC Debian 6.1.1-1 (2023-01-07)",
        },
        remedy="with PREEMPT_RT, and boot it: apt install linux-image-rt-amd64",
    ),
    Case("preemption", "error",
         PROXMOX | {"uname.version": "#1 SMP PREEMPT_DYNAMIC Debian 1:6.12.34-1+rpt1"},
         remedy="boot a kernel built with CONFIG_PREEMPT_RT"),
    # timers
    Case("timers", "error", {"agent.clock_getres_ns": 4000000}, "4 ms"),
    Case("timers", "error", {"agent.clock_getres_ns": 4000000, "/proc/cmdline": "highres=off"},
         remedy="remove highres=off"),
    Case("timers", "note", {"agent.clock_getres_ns": 0}, "unknown"),
    Case("timers", "note", {"agent.clock_getres_ns": -1}, "unknown"),
    # clock source
    Case("clock-source", "warning", {CLOCK + "current_clocksource": "hpet"}, "hpet", "echo tsc"),
    Case("clock-source", "warning",
         {CLOCK + "current_clocksource": "acpi_pm", CLOCK + "available_clocksource": "acpi_pm"},
         remedy="dmesg"),
    Case("clock-source", "error", {CLOCK + "current_clocksource": "jiffies"}),
    Case("clock-source", "note", {CLOCK + "current_clocksource": "xen"}),
    Case("clock-source", "note", {CLOCK + "current_clocksource": "tsc-early"}),
    Case("clock-source", "ok",
         {CLOCK + "current_clocksource": "arch_sys_counter", "uname.machine": "aarch64"},
         why="A few cores need a system call"),
    Case("clock-source", "note", {CLOCK + "current_clocksource": ""}, "unknown"),
    # frequency
    Case("frequency", "warning", {CPU + "cpu{0-3}/cpufreq/scaling_governor": "schedutil"},
         "schedutil", "echo performance"),
    Case("frequency", "warning",
         {CPU + "cpu{0-3}/cpufreq/scaling_governor": None}
         | {f"{CPU}cpu{n}/cpufreq/scaling_governor": "performance" for n in range(3)}
         | {CPU + "cpu3/cpufreq/scaling_governor": "ondemand"},
         "performance on CPUs 0-2, ondemand on CPU 3"),
    Case("frequency", "ok",
         {CPU + "cpu{0-3}/cpufreq/scaling_governor": None}
         | {f"{CPU}cpu{n}/cpufreq/scaling_governor": "performance" for n in range(3)}
         | {CPU + "cpu3/cpufreq/scaling_governor": "ondemand"}, cpus=(0, 1, 2)),
    Case("frequency", "ok",
         {CPU + "cpu{0-3}/cpufreq/scaling_governor": "ondemand",
          CPU + "cpu{0-3}/cpufreq/scaling_min_freq": "1000000",
          CPU + "cpu{0-3}/cpufreq/scaling_max_freq": "1000000"}, "fixed frequency"),
    Case("frequency", "note", {CPU + "cpu{0-3}/cpufreq/scaling_governor": "userspace"}),
    Case("frequency", "note", {CPU + "cpu{0-3}/cpufreq/scaling_governor": None}, "not under"),
    Case("frequency", "note",
         {CPU + "cpu{0-3}/cpufreq/scaling_governor": None,
          CPU + "cpu{0-3}/cpufreq/scaling_governor.error": "Permission denied",
          "/boot/config-6.12.48-rt-amd64": None}, "unknown"),
    Case("frequency", "note",
         {CPU + "cpu{0-3}/cpufreq/scaling_governor": None,
          CPU + "cpu0/cpufreq/scaling_governor": "performance"}, "unknown"),
    Case("frequency", "warning", {CPU + "cpu{0-3}/cpufreq/scaling_governor": "powersave"},
         why="first work after a pause"),
    Case("frequency", "warning",
         {CPU + "cpu{0-3}/cpufreq/scaling_governor": "powersave",
          CPU + "cpu{0-3}/cpufreq/scaling_driver": "acpi-cpufreq"},
         why="always runs at its lowest"),
    # sleep states
    Case("sleep-states", "note", {"/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu hypervisor"},
         "C1, 2 µs", why="hypervisor"),
    Case("sleep-states", "warning", {CPU + "cpu{0-3}/cpuidle/state2/disable": "0"},
         why="rtgauge prevents such states while it measures"),
    Case("sleep-states", "warning", {CPU + "cpu{0-3}/cpuidle/state2/disable": "0"},
         "C10, 890 µs, on CPUs 0-3", "/dev/cpu_dma_latency"),
    Case("sleep-states", "warning",
         {CPU + "cpu{0-3}/cpuidle/state2/disable": None,
          CPU + "cpu{0-1}/cpuidle/state2/disable": "1",
          CPU + "cpu{2-3}/cpuidle/state2/disable": "0"}, "C10, 890 µs, on CPUs 2-3"),
    Case("sleep-states", "ok",
         {CPU + "cpu{0-3}/cpuidle/state2/disable": None,
          CPU + "cpu{0-1}/cpuidle/state2/disable": "1",
          CPU + "cpu{2-3}/cpuidle/state2/disable": "0"}, cpus=(0, 1)),
    Case("sleep-states", "ok", {CPU + "cpu{0-3}/cpuidle/state2/disable": "0"},
         "held at 0 µs during the run, deepest permitted state: POLL, 0 µs, on CPUs 0-3",
         run={"cpu_dma_latency": "0"}),
    Case("sleep-states", "warning", {CPU + "cpu{0-3}/cpuidle/state2/disable": "0"},
         "held at 1000 µs", run={"cpu_dma_latency": "1000"}),
    Case("sleep-states", "warning", {CPU + "cpu{0-3}/cpuidle/state2/disable": "0"}, "C10",
         run={"cpu_dma_latency": None}),
    Case("sleep-states", "ok",
         {CPU + "cpu{0-3}/cpuidle/state2/disable": "0",
          CPU + "cpu{0-3}/power/pm_qos_resume_latency_us": "n/a"}, "POLL"),
    Case("sleep-states", "ok",
         {CPU + "cpu{0-3}/cpuidle/state2/disable": "0",
          CPU + "cpu{0-3}/power/pm_qos_resume_latency_us": "100"}, "C1"),
    Case("sleep-states", "warning",
         {CPU + "cpu{0-3}/cpuidle/state2/disable": "0",
          CPU + "cpu{0-3}/power/pm_qos_resume_latency_us": "0"}),
    Case("sleep-states", "ok",
         {CPU + "cpu{0-3}/cpuidle/state2/disable": "0", "/proc/cmdline": "idle=poll"}, "idle=poll"),
    Case("sleep-states", "note",
         {f"{CPU}cpu{{0-3}}/cpuidle/state{n}/latency": None for n in range(3)}, "unknown"),
    Case("sleep-states", "note", {}, base="vm"),
    # throttling
    Case("throttling", "ok", {RUNTIME: "1000000"}, "throttling off"),
    Case(
        "throttling",
        "ok",
        {RUNTIME: "950000"},
        "without effect here",  # 6.12 and no RT_GROUP_SCHED
    ),
    Case("throttling", "warning", {RUNTIME: "950000", **SIX}, "950000 of", "sysctl -w"),
    Case("throttling", "warning",
         {RUNTIME: "950000", "/boot/config-6.12.48-rt-amd64": "CONFIG_RT_GROUP_SCHED=y"},
         "950000 of"),
    Case("throttling", "ok",
         {RUNTIME: "950000", "/proc/cmdline": "rt_group_sched=0",
          "/boot/config-6.12.48-rt-amd64": "CONFIG_RT_GROUP_SCHED=y"}, "without effect"),
    Case(
        "throttling",
        "ok",
        {
            RUNTIME: "950000",
            "/boot/config-6.12.48-rt-amd64": "CONFIG_RT_GROUP_SCHED=y\n"
            "CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED=y",
        },
        "without effect",
    ),
    Case(
        "throttling",
        "warning",
        {
            RUNTIME: "950000",
            "/proc/cmdline": "rt_group_sched=1",
            "/boot/config-6.12.48-rt-amd64": "CONFIG_RT_GROUP_SCHED=y\n"
            "CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED=y",
        },
        "950000 of",
    ),
    Case("throttling", "note", {RUNTIME: "950000", "/boot/config-6.12.48-rt-amd64": None},
         "throttling at 950000 of 1000000 µs", why="whether the kernel has RT_GROUP_SCHED"),
    Case("throttling", "warning",
         {RUNTIME: "950000", "/boot/config-6.12.48-rt-amd64": None,
          "agent.cgroup.cpu.rt_runtime_us": "950000"}),
    Case("throttling", "note", {RUNTIME: None}, "unknown"),
    Case("throttling", "warning", {RUNTIME: "950000", **SIX}, "throttling at 950000",
         run={RUNTIME: "950000"}),
    Case("throttling", "ok", SERVED, "during the run: throttling off", run={RUNTIME: "-1"}),
    # fair-server
    Case("fair-server", "ok", {}, "off"),
    Case("fair-server", "ok", SIX, "no fair server in this kernel"),
    Case("fair-server", "note", {"uname.release": None, SERVER: None}),
    Case("fair-server", "warning", {SERVER: "50000000"}, "up to 50 ms per period on CPUs 0-3",
         "fair_server"),
    Case("fair-server", "ok", SERVED, "during the run: off", run=_off(4)),
    Case("fair-server", "warning", SERVED, "CPU 3", run=_off(3)),
    Case("fair-server", "ok", SERVED, "during the run", run=_off(3), cpus=(0, 1)),
    Case("fair-server", "warning",
         {"/sys/kernel/sched_ext/state": "enabled",
          "/sys/kernel/debug/sched/ext_server/cpu{0-3}/runtime": "50000000"}, "sched_ext"),
    Case("fair-server", "ok",
         {"/sys/kernel/sched_ext/state": "disabled",
          "/sys/kernel/debug/sched/ext_server/cpu{0-3}/runtime": "50000000"}),
    Case("fair-server", "note",
         {SERVER: None, FAIR + "cpu{0-3}/runtime.error": "Permission denied"}, "unknown"),
    # lockdown, and /sys/kernel/security is not mounted
    *(
        Case(
            "fair-server",
            "note",
            {
                "agent.debugfs": "opened",
                SERVER: None,
                FAIR + "cpu{0-3}/runtime.error": "Operation not permitted",
                "/sys/kernel/security/lockdown": lockdown,
            },
            "unknown",
            remedy,
            why="(Operation not permitted)",
        )
        for lockdown, remedy in (
            (
                None,
                "boot without kernel lockdown (lockdown=none, or without secure boot), or check",
            ),
            ("[none] integrity confidentiality", "check outside of containers"),
        )
    ),
    Case("fair-server", "note", LOCKED_DOWN, "unknown",
         "the kernel is locked down (integrity, see /sys/kernel/security/lockdown)"),
    Case("fair-server", "note", LOCKED_DOWN | {"agent.uid": 1000}, remedy="run the check as root"),
    Case("fair-server", "note",
         LOCKED_DOWN | {"/sys/kernel/security/lockdown": "[none] integrity confidentiality",
                        "/boot/config-6.12.48-rt-amd64": "CONFIG_SCHED_DEBUG=y"},
         remedy="mount -t debugfs"),
    Case("fair-server", "note",
         LOCKED_DOWN | {"/sys/kernel/security/lockdown": None,
                        "agent.debugfs.error": "No such device"},
         remedy="boot a kernel with CONFIG_DEBUG_FS=y"),
    Case("fair-server", "note",
         LOCKED_DOWN | {"/sys/kernel/security/lockdown": None,
                        "/boot/config-6.12.48-rt-amd64": "CONFIG_SMP=y"},
         remedy="boot a kernel with CONFIG_SCHED_DEBUG=y"),
    # from 6.15 on the option does not exist
    Case("fair-server", "note",
         LOCKED_DOWN | {"uname.release": "6.15.0", "/sys/kernel/security/lockdown": None,
                        "/boot/config-6.15.0": "CONFIG_SMP=y"}, remedy="mount -t debugfs"),
    # isolation
    Case("isolation", "ok", {}, "CPUs 2-3 isolated", cpus=(2, 3)),
    Case("isolation", "ok", {}, "CPU 3 isolated", cpus=(3,), load=True),
    Case("isolation", "warning", {}, "measured: CPU 1 not isolated", "--cpu 2-3", cpus=(1, 2)),
    Case("isolation", "note", {CPU + "isolated": ""}, "no CPU is isolated", "isolcpus="),
    Case("isolation", "note", {CPU + "isolated": ""},
         remedy="rcu_nocbs=1 irqaffinity=0,2-3. The scheduler", cpus=(1,)),
    Case(
        "isolation",
        "note",
        {CPU + "isolated": "", "/boot/config-6.12.48-rt-amd64": "CONFIG_SMP=y"},
        remedy="isolcpus=managed_irq,domain,3 irqaffinity=0-2",  # without RCU_NOCB_CPU
    ),
    Case(
        "isolation",
        "note",
        {CPU + "isolated": "2-3,6-7"},  # 6-7 are second threads, offline by nosmt
        remedy="(--cpu 2-3)",
    ),
    Case(
        "isolation",
        "note",
        {CPU + "isolated": "", "uname.release": "5.4.61-rt37"},
        remedy="boot with isolcpus=3 rcu_nocbs=3",  # managed_irq is of 5.6
    ),
    Case("isolation", "note", {"/proc/irq/default_smp_affinity": "f"}, "new interrupts",
         "irqaffinity=0-1", cpus=(2, 3)),
    # a tick is not a gap: nohz_full costs a task that sleeps more than it gives
    Case("isolation", "ok", {CPU + "nohz_full": " (null)"}, why="by hand", cpus=(2, 3)),
    Case("isolation", "ok", {CPU + "isolated": None}, cpus=(2, 3)),  # from the command line
    Case("isolation", "ok", {CPU + "isolated": None, "/proc/cmdline": "isolcpus=2-3 isolcpus=1"},
         cpus=(2, 3)),  # of two lists, the kernel keeps the first
    Case("isolation", "note", {CPU + "isolated": None, "/proc/cmdline": None}, "unknown"),
    *(
        Case(
            "isolation",
            level,
            {CPU + "isolated": None, "/proc/cmdline": f"isolcpus={flags}2-3"},
            cpus=(2, 3),
        )
        for flags, level in (
            ("nohz,managed_irq,", "note"),
            ("nohz,domain,", "ok"),
            ("other,", "ok"),  # an unknown flag is skipped
        )
    ),
    Case("isolation", "note", {CPU + "online": "0"}, "a single CPU"),
    Case("isolation", "note", {CPU + "online": None, "agent.cpus_online": 4, CPU + "isolated": ""},
         remedy="isolcpus=managed_irq,domain,3"),
    Case("isolation", "note", {CPU + "isolated": ""}, why="load", load=True),
    # SMT
    Case("smt", "warning", {CPU + "cpu2/topology/thread_siblings_list": "2,6"},
         "CPU 2 shares its core (CPUs 2,6)", "nosmt"),
    Case("smt", "ok", {CPU + "cpu2/topology/thread_siblings_list": "2,6"}, cpus=(0, 1)),
    Case("smt", "warning",
         {CPU + "smt/active": "1"}
         | {f"{CPU}cpu{n}/topology/thread_siblings_list": None for n in range(4)}, "on"),
    Case("smt", "ok", {CPU + "smt/active": None}, "off"),
    Case("smt", "note",
         {CPU + "smt/active": None, CPU + "cpu3/topology/thread_siblings_list": None}, "unknown"),
    # virtualisation
    Case("virtualisation", "error", {}, "virtual machine (KVM), steal time 5 %", base="vm"),
    Case("virtualisation", "warning", {"/proc/stat": "cpu0 1 0 0 99998 0 0 0 1 0 0"},
         "steal time 0.001 %", base="vm"),
    Case("virtualisation", "warning", {}, "steal time 0 %", base="vm", cpus=(1,)),
    Case("virtualisation", "warning", {"/proc/stat": None}, "unknown", base="vm"),
    Case("virtualisation", "warning", {"/sys/hypervisor/type": "xen"}, "xen"),
    Case("virtualisation", "warning", {"/proc/stat": "cpu0 1 1 1 1 1 1 1 1"}, "but steal"),
    Case("virtualisation", "warning",
         {"uname.machine": "aarch64", "/proc/cpuinfo": "processor\t: 0",
          "/proc/device-tree/hypervisor/compatible": "linux,kvm"}, "linux,kvm"),
    Case("virtualisation", "ok",
         {"uname.machine": "aarch64", "/proc/cpuinfo": "processor\t: 0",
          "/proc/device-tree/model": "A board"}),
    # a bare machine of a cloud: its vendor says nothing, the processor does
    Case("virtualisation", "ok", {"/sys/class/dmi/id/sys_vendor": "Amazon EC2"}),
    Case("virtualisation", "note",
         {"uname.machine": "aarch64", "/proc/cpuinfo": "processor\t: 0",
          "/sys/class/dmi/id/sys_vendor": None}, "unknown"),
    # privileges
    Case("privileges", "error", {"agent.fifo": 1, "agent.uid": 1000}, "not permitted",
         "limits.d/90-rtgauge.conf"),
    Case(
        "privileges",
        "error",
        {"agent.fifo": 1, "agent.uid": 0},
        "not permitted",
        # language-ok: the audit's text
        "CAP_SYS_NICE; in a container: docker run --cap-add SYS_NICE",
    ),
    Case("privileges", "error", {}, "container (docker)", "--cap-add SYS_NICE", base="container"),
    Case("privileges", "error", {"agent.fifo": 1, "agent.cgroup.cpu.rt_runtime_us": "0"},
         remedy="sched_rt_runtime_us=-1"),
    Case("privileges", "warning", {"agent.fifo_priority": 50}, "up to priority 50"),
    Case("privileges", "warning",
         {"/proc/self/status": "CapEff:\t0000000000000000", "agent.rlimit_memlock": 65536},
         "64 KiB", "memlock"),
    Case("privileges", "warning", {}, "memory not locked", run={"locked memory": "none"}),
    Case("privileges", "error", {"agent.fifo": 1}, "not permitted, memory not locked",
         run={"locked memory": "none"}),
    Case("privileges", "warning", {"agent.rlimit_rttime": 200000}, "200000 µs"),
    Case("privileges", "warning", {}, "CPU 7 not allowed", cpus=(3, 7)),
    Case("privileges", "note", {"agent.uid": 1000}, "no right to change", "run as root"),
    Case("privileges", "note", {"agent.dma_latency": 13}, "sleep states"),
    # a kernel without CONFIG_CPU_IDLE, and a container without the device
    Case("privileges", "ok",
         {"agent.dma_latency": 2, "/sys/devices/system/cpu/cpuidle/current_driver": None},
         "SCHED_FIFO, locked memory, settings"),
    Case("privileges", "note", {"agent.dma_latency": 2}, "sleep states",
         "create the device: mknod /dev/cpu_dma_latency c 10 MINOR"),
    Case("privileges", "note", {"/proc/self/status": "CapEff:\t0000000000804000"}, "fair server",
         "give root the capability CAP_SYS_ADMIN"),
    # a kernel without CONFIG_PID_NS
    Case("privileges", "note",
         {"/proc/self/status": "CapEff:\t0000000000804000", "/proc/self/ns/pid": None},
         "fair server", "give root the capability CAP_SYS_ADMIN"),
    Case("privileges", "note", {"agent.dma_latency": 2, "/proc/self/ns/pid": "pid:[4026532611]"},
         "sleep states", "give the container"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.check}-{case.level}")
def test_levels(case: Case) -> None:
    facts = SYSTEMS[case.base][0] | dict(case.change)
    finding = find(
        facts,
        case.check,
        cpus=case.cpus,
        load_running=case.load,
        settings=case.run,
        priority=case.priority,
    )
    assert finding.level == case.level, finding
    assert case.found in finding.found, finding
    assert case.remedy in finding.remedy, finding
    assert case.why in finding.why, finding


@pytest.mark.slow
def test_commands_in_remedies_are_let_through() -> None:
    """What reports let through as a command includes all of the audit's own."""
    found = {one for facts, *_ in SYSTEMS.values() for one in audit(facts)}
    for case in CASES:
        facts = SYSTEMS[case.base][0] | dict(case.change)
        found.add(find(facts, case.check, cpus=case.cpus, settings=case.run))
    remedies = {(one.remedy, one.command) for one in found if one.command}
    commands = {command for _, command in remedies}
    assert any(command.startswith("printf '%s - rtprio") for command in commands)
    assert any("preempt=full" in command for command in commands)
    assert any(command.startswith("apt install ") for command in commands)
    assert len(commands) > 20
    assert {checked(*remedy, "") for remedy in remedies} == remedies
    for one in found:
        assert one.command in one.remedy or "preempt=full" in one.command


def test_memory_that_a_run_has_locked_is_locked_whatever_the_limit() -> None:
    facts = SYSTEMS["rt-pc"][0] | {
        "/proc/self/status": "CapEff:\t0000000000000000",
        "agent.rlimit_memlock": 65536,
    }
    assert "64 KiB" in find(facts, "privileges").found
    assert "64 KiB" not in find(facts, "privileges", settings={"locked memory": "all"}).found
