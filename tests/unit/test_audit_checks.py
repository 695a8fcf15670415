# SPDX-License-Identifier: Apache-2.0
"""The checks that came with the second table: facts that set each off, and facts that do not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rtgauge.audit import CHECKS
from rtgauge.audit.debugging import DEBUGGING
from test_audit import CPU, KERNEL, LAPTOP, RT_PC, RUNTIME, SYSTEMS, THP, TRACING, find
from test_audit_levels import CASES as FIRST_CASES
from test_audit_levels import Case
from test_audit_levels import test_levels as check_levels

ROOT = Path(__file__).resolve().parents[2]
CONFIG = "/boot/config-6.12.48-rt-amd64"
BUILT = str(RT_PC[CONFIG])
CMDLINE = "/proc/cmdline"
KSM = "/sys/kernel/mm/ksm/run"
WORKQUEUES = "/sys/devices/virtual/workqueue/cpumask"
FEATURES = "/sys/kernel/debug/sched/features"
EARLY_FEATURES = "/sys/kernel/debug/sched_features"
TASKS = "agent.realtime_tasks"
NO_TURBO, BOOST = CPU + "intel_pstate/no_turbo", CPU + "cpufreq/boost"
EPP = CPU + "cpu{0-3}/cpufreq/energy_performance_preference"
EPB = CPU + "cpu{0-3}/power/energy_perf_bias"
CPUINFO, NODES = "/proc/cpuinfo", "/sys/devices/system/node/online"
CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
ADJUSTED = "flags : tsc constant_tsc nonstop_tsc tsc_adjust"
FLAWS = CPU + "vulnerabilities"
MCE = "/sys/devices/system/machinecheck/machinecheck0/check_interval"
EDAC = "/sys/devices/system/edac/mc/mc0"
EDAC_POLL = "/sys/module/edac_core/parameters/edac_mc_poll_msec"
ASPM = "/sys/module/pcie_aspm/parameters/policy"
USB = "/sys/module/usbcore/parameters/autosuspend"
IOMMU = "/sys/kernel/iommu_groups/*/type"
RESCTRL = "/sys/fs/resctrl"
RPS = "/sys/class/net/*/queues/rx-0/rps_cpus"
XPS = "/sys/class/net/*/queues/tx-0/xps_cpus"
RCU = "/sys/kernel/rcu_normal"
DAEMONS, PROFILE = "agent.daemons", "/etc/tuned/active_profile"
ALLOWED = "/proc/irq/*/smp_affinity_list"
EFFECTIVE = "/proc/irq/*/effective_affinity_list"
NO_ONLINE: dict[str, None] = {CPU + "online": None, "agent.cpus_online": None}
SINGLE = {CPU + "online": "0", CPU + "isolated": "", CPU + "nohz_full": ""}
SWAPS = "Filename\tType\tSize\tUsed\tPriority\n/dev/zram0 partition 4194300 0 100"


def with_config(*lines: str) -> dict[str, str]:
    return {CONFIG: "\n".join([BUILT, *lines])}


CASES = [
    # debugging
    Case("debugging", "ok", with_config("CONFIG_DEBUG_KERNEL=y"), "no slow options"),
    Case("debugging", "warning", with_config("CONFIG_PROVE_LOCKING=y"), "PROVE_LOCKING",
         "CONFIG_PROVE_LOCKING", "every lock"),
    Case("debugging", "warning", with_config("CONFIG_KASAN=y"), "KASAN"),
    Case("debugging", "note", with_config("CONFIG_DEBUG_LIST=y"), "DEBUG_LIST"),
    Case("debugging", "warning", with_config("CONFIG_DEBUG_LIST=y", "CONFIG_DEBUG_PREEMPT=y"),
         "DEBUG_PREEMPT, DEBUG_LIST"),
    Case("debugging", "warning", with_config("CONFIG_DEBUG_KMEMLEAK=y"), "DEBUG_KMEMLEAK"),
    Case("debugging", "ok", with_config("CONFIG_DEBUG_KMEMLEAK=y",
                                        "CONFIG_DEBUG_KMEMLEAK_DEFAULT_OFF=y")),
    Case("debugging", "warning", with_config("CONFIG_DEBUG_KMEMLEAK=y",
                                             "CONFIG_DEBUG_KMEMLEAK_DEFAULT_OFF=y")
         | {CMDLINE: "kmemleak=on"}, "DEBUG_KMEMLEAK, kmemleak=on", "remove kmemleak"),
    Case("debugging", "ok", {CMDLINE: "slub_debug=- page_poison=0"}),
    Case("debugging", "warning", {CMDLINE: "slub_debug"}, "slub_debug", "remove slub_debug"),
    Case("debugging", "warning", {CONFIG: BUILT.replace("CONFIG_DYNAMIC_FTRACE=y", "")},
         "FUNCTION_TRACER"),
    Case("debugging", "note", {CONFIG: None}, "unknown", "check --config"),
    Case("debugging", "note", {CMDLINE: None}, "unknown", "cat /proc/cmdline"),
    # tracing
    Case("tracing", "warning", {TRACING + "current_tracer": "function"}, "tracer function",
         "echo nop"),
    Case("tracing", "warning", {TRACING + "events/enable": "1"}, "all events", "echo 0"),
    Case("tracing", "note", {TRACING + "events/enable": "X"}, "some events"),
    Case("tracing", "note", {TRACING + "current_tracer": "function", TRACING + "tracing_on": "0"},
         "not recorded"),
    Case("tracing", "warning", {KERNEL + "stack_tracer_enabled": "1"}, "stack tracer"),
    Case("tracing", "note", {KERNEL + "sched_schedstats": "1"}, "scheduler statistics"),
    Case("tracing", "note", {TRACING + "current_tracer": None}, "unknown", "mount", "not mounted"),
    Case("tracing", "note", {TRACING + "current_tracer": None,
                             TRACING + "current_tracer.error": "Permission denied"},
         "unknown", "root", "Permission denied"),
    Case("tracing", "ok", {TRACING + "current_tracer": None, CONFIG: "CONFIG_SMP=y"}, "not in"),
    # tick
    Case("tick", "ok", {CONFIG: "CONFIG_HZ=250\nCONFIG_NO_HZ=y"}, "250 Hz, off on idle CPUs"),
    Case("tick", "ok", {CONFIG: "CONFIG_HZ=250"}, "250 Hz, always on"),  # before 3.10
    Case("tick", "ok", {}, "250 Hz, off on idle CPUs"),
    Case("tick", "note", {"agent.clock_getres_coarse_ns": 1000000}, "1000 Hz", "HZ=250"),
    Case("tick", "ok", {"agent.clock_getres_coarse_ns": 1000000}, "CPUs 2-3", cpus=(2, 3)),
    Case("tick", "ok", {CMDLINE: "nohz=off"}, "always on"),
    Case("tick", "ok", {"agent.clock_getres_coarse_ns": None}, "250 Hz"),
    Case("tick", "note", {CONFIG: None}, "unknown", why="250 Hz"),
    Case("tick", "note", {CONFIG: None, "agent.clock_getres_coarse_ns": None}, "unknown"),
    # timer-migration
    Case("timer-migration", "note", {KERNEL + "timer_migration": "1", CPU + "nohz_full": ""}, "on",
         "--prepare"),
    Case("timer-migration", "ok", {KERNEL + "timer_migration": "1"}, "no timer moves",
         cpus=(2,)),
    Case("timer-migration", "note", {KERNEL + "timer_migration": "1"}, "on",
         "measure only on CPUs without a tick (--cpu 2)", cpus=(1, 2)),
    Case("timer-migration", "ok", {KERNEL + "timer_migration": "1", **SINGLE}, "single"),
    Case("timer-migration", "ok", {KERNEL + "timer_migration": "1"}, "during the run: off",
         run={KERNEL + "timer_migration": "0"}),
    Case("timer-migration", "ok", {KERNEL + "timer_migration": None}, "not in this kernel"),
    # frequency
    Case("frequency", "ok", {CPU + "cpu{0-3}/cpufreq/scaling_governor": "powersave"},
         "during the run: performance",
         run={CPU + f"cpufreq/policy{cpu}/scaling_governor": "performance" for cpu in range(4)}),
    Case("frequency", "warning", {CPU + "cpu{0-3}/cpufreq/scaling_governor": "powersave"},
         "powersave on CPUs 0-1, performance on CPUs 2-3", "--prepare",
         run={CPU + "cpufreq/policy2/scaling_governor": "performance",
              CPU + "cpufreq/policy0/scaling_governor": None}),
    Case("frequency", "ok", {CPU + "cpu{0-3}/cpufreq/scaling_governor": "powersave"},
         "during the run: performance",
         run={CPU + f"cpu{cpu}/cpufreq/scaling_governor": "performance" for cpu in (0, 2)}),
    # before Linux 4.4, after CPU 0 was offline
    Case("frequency", "ok", {CPU + "cpu{0-3}/cpufreq/scaling_governor": "powersave"},
         "during the run: performance",
         run={CPU + "cpu1/cpufreq/scaling_governor": "performance"}),
    # thermal, smi
    Case("thermal", "warning", {CPU + "cpu2/thermal_throttle/package_throttle_count": "3"},
         "boot: 3"),
    Case("thermal", "note", {CPU + "cpu{0-3}/thermal_throttle/core_throttle_count": "?",
                             CPU + "cpu{0-3}/thermal_throttle/package_throttle_count": "?"},
         "unknown"),
    # a parameter of x86 alone, and one of the others
    Case("sleep-states", "warning", {"uname.machine": "aarch64", CMDLINE: "idle=poll",
                                     CPU + "cpu{0-3}/cpuidle/state2/disable": "0"}, "deepest"),
    Case("sleep-states", "ok", {"uname.machine": "aarch64", CMDLINE: "nohlt",
                                CPU + "cpu{0-3}/cpuidle/state2/disable": "0"}, "nohlt"),
    Case("thermal", "note", {CPU + "cpu{0-3}/thermal_throttle/core_throttle_count": None,
                             CPU + "cpu{0-3}/thermal_throttle/package_throttle_count": None},
         "unknown", why="does not count thermal throttling"),
    Case("smi", "note", {"agent.smi_count": 812}, "812 since boot", "hwlat"),
    Case("smi", "note", {"agent.smi_count": None}, "unknown", "load the module msr"),
    Case("smi", "note", {"agent.smi_count": 0,
                         "/proc/cpuinfo": "vendor_id : AuthenticAMD\nflags :"},
         "unknown", why="does not count"),
    Case("smi", "note", {}, "unknown", "host", base="vm"),
    # control-groups
    Case("control-groups", "note", {CONFIG: None}, "unknown"),
    Case("control-groups", "note", with_config("CONFIG_RT_GROUP_SCHED=y"), "RT_GROUP_SCHED"),
    Case("control-groups", "warning", with_config("CONFIG_RT_GROUP_SCHED=y")
         | {"agent.cgroup.cpu.rt_runtime_us": "0"}, "here 0 µs", "rt_group_sched=0"),
    Case("control-groups", "ok", with_config("CONFIG_RT_GROUP_SCHED=y")
         | {CMDLINE: "rt_group_sched=0"}),
    Case("control-groups", "note", {"agent.cgroup.cpu.max": "50000 100000"}, "50000 of 100000"),
    Case("control-groups", "ok", {"agent.cgroup.cpu.max": "max 100000"}),
    Case("control-groups", "note", {"agent.cgroup.cpu.cfs_quota_us": "50000",
                                    "agent.cgroup.cpu.cfs_period_us": "100000"},
         "50000 of 100000 µs of CPU time (cpu.cfs_quota_us)", "raise cpu.cfs_quota_us"),
    Case("control-groups", "ok", {"agent.cgroup.cpu.cfs_quota_us": "-1",
                                  "agent.cgroup.cpu.cfs_period_us": "100000"}),
    # scheduler-features
    Case("scheduler-features", "note", {FEATURES: "RT_PUSH_IPI WARN_DOUBLE_CLOCK"},
         "WARN_DOUBLE_CLOCK", "NO_WARN_DOUBLE_CLOCK"),
    Case("scheduler-features", "note", {FEATURES: "NO_RT_PUSH_IPI"}, "NO_RT", "for f in RT_PUSH"),
    Case("scheduler-features", "ok", {FEATURES: "RT_RUNTIME_SHARE"}),
    Case("scheduler-features", "note", {FEATURES: "RT_RUNTIME_SHARE", RUNTIME: "950000"}, "SHARE"),
    Case("scheduler-features", "note", {FEATURES: None, FEATURES + ".error": "Permission denied"},
         "unknown", why="Permission denied"),
    Case("scheduler-features", "note", {FEATURES: None, EARLY_FEATURES: "NO_RT_PUSH_IPI"},
         "NO_RT_PUSH_IPI", "echo $f > /sys/kernel/debug/sched_features"),
    Case("scheduler-features", "note", {FEATURES: None, EARLY_FEATURES: None, **with_config(
        "CONFIG_SCHED_DEBUG=y")}, "unknown", "boot a newer kernel"),
    Case("scheduler-features", "note", {FEATURES: None, FEATURES + ".error":
        "Operation not permitted"}, "unknown", "boot without kernel lockdown"),
    Case("scheduler-features", "note", {FEATURES: None, CONFIG: None}, "unknown",
         "CONFIG_SCHED_DEBUG=y"),
    Case("scheduler-features", "note", {FEATURES: None, "agent.debugfs": None, **with_config(
        "CONFIG_SCHED_DEBUG=y")}, "unknown", "mount -t debugfs"),
    # real-time-tasks, interrupt-threads
    Case("real-time-tasks", "ok", {}, "control (70)"),
    Case("real-time-tasks", "ok", {TASKS: "1 99 2 0 migration/0\n1 70 9 0-3 a\n1 60 9 0-3 b"},
         "2 threads, none at 80"),
    # a second thread of a process, with its CPUs
    Case("real-time-tasks", "warning", {TASKS: "1 99 2 0 migration/0\n1 95 1 0-3 python3"},
         "python3 (95) on CPUs 0-3", "taskset"),
    Case("real-time-tasks", "warning", {TASKS: "1 99 2 0 migration/0\n1 95 1 ? loop 2-3"},
         "loop 2-3 (95)", cpus=(1,)),
    Case("real-time-tasks", "warning", {TASKS: "1 99 2 0 migration/0\n1 95 1 0-1 loop"},
         "loop (95) on CPUs 0-1", cpus=(1,)),
    Case("real-time-tasks", "ok", {TASKS: "1 99 2 0 migration/0\n1 95 1 0-1 loop"},
         "loop (95) on CPUs 0-1", cpus=(2, 3)),
    Case("real-time-tasks", "warning", {}, "control (70)", "chrt", priority=70),
    Case("real-time-tasks", "ok", {}, "control (70)", priority=71),
    Case("real-time-tasks", "warning", {TASKS: "6 0 77 camera\n6 0 2 sugov:1"},
         "camera (deadline)"),
    Case("real-time-tasks", "ok", {TASKS: "1 99 2 migration/0\n6 0 2 sugov:1"}, "only kernel"),
    Case("real-time-tasks", "ok",
         {TASKS: "1 99 2 migration/0\n1 80 9 0 rtgauge-measure\n1 98 9 0 rtgauge-guard"},
         "only kernel threads and a run of rtgauge"),
    Case("real-time-tasks", "note", {TASKS: None}, "unknown"),
    # hidden by hidepid= or by a container: nothing seen is not nothing there
    Case("real-time-tasks", "note", {TASKS: ""}, "unknown", "outside of containers"),
    Case("real-time-tasks", "note", {TASKS + ".cut": 60000}, "unknown", why="incomplete"),
    Case("interrupt-threads", "ok", {}, "3 at priority 50, the measured tasks at 80"),
    Case("interrupt-threads", "warning", {}, "a tie", "above 50", priority=50),
    Case("interrupt-threads", "warning", {}, "measured tasks at 40", priority=40),
    Case("interrupt-threads", "ok", {}, "none on the measured", cpus=(2, 3), priority=50),
    Case("interrupt-threads", "note", {TASKS: "1 70 7 mine"}, "unknown"),
    Case("interrupt-threads", "note", {TASKS: "1 50 7 irq/9-mine"}, "unknown"),
    Case("interrupt-threads", "note", {}, "not threaded, except 1", "threadirqs", base="laptop"),
    Case("interrupt-threads", "ok", {CMDLINE: "threadirqs"}, "1 at priority 50", base="laptop"),
    # interrupts
    Case("interrupts", "ok", {}, "none of 4", cpus=(2, 3)),
    Case("interrupts", "ok", {}, "none on CPUs 2-3"),
    Case("interrupts", "warning", {EFFECTIVE: "9=2\n124=3"}, "9 (acpi), 124 (eth0) on CPUs 2-3",
         "irqaffinity=0-1"),
    Case("interrupts", "warning", {EFFECTIVE: "9=2\n124=3"}, "CPUs 2-3", "managed_irq,domain,2-3"),
    Case("interrupts", "warning", {EFFECTIVE: "9=2\n124=3", "uname.release": "5.4.61-rt37"},
         "CPUs 2-3", "(IRQBALANCE_BANNED_CPULIST); for a run"),  # language-ok: the audit's text
    Case("interrupts", "warning", {}, "0 (timer), 124 (eth0) on CPU 0", "echo 1-3", cpus=(0,)),
    Case("interrupts", "ok", {EFFECTIVE: "9=2\n124=3"}, "during the run: none",
         run={"/proc/irq/{9,124}/smp_affinity_list": "0-1"}),
    Case("interrupts", "ok", {EFFECTIVE: "9=2\n5000=3"}, "during the run: none",
         run={"/proc/irq/{9,5000}/smp_affinity_list": "0-1"}),
    Case("interrupts", "warning", {EFFECTIVE: "9=2\n124=3"}, "during the run: 124",
         run={"/proc/irq/9/smp_affinity_list": "0-1", "/proc/irq/124/smp_affinity_list": None}),
    Case("interrupts", "note", {}, "3 on the measured CPUs", "--cpu", base="laptop"),
    Case("interrupts", "ok", SINGLE, "on the measured", why="a single CPU"),
    Case("interrupts", "note", {EFFECTIVE: None, ALLOWED: None}, "unknown"),
    # a kernel without effective affinities
    Case("interrupts", "warning", {EFFECTIVE: None, ALLOWED: "9=0-3"}, "9 (acpi)", cpus=(1,)),
    # boot-parameters
    Case("boot-parameters", "ok", {}, "isolcpus=managed_irq,domain,2-3, nohz_full=2-3"),
    Case("boot-parameters", "ok", {CMDLINE: "quiet", CPU + "isolated": "", CPU + "nohz_full": ""},
         "no parameter isolates"),
    Case("boot-parameters", "warning", {CPU + "nohz_full": "1-3"}, "CPU 1 without a tick",
         "isolcpus=managed_irq,domain,1-3"),
    Case("boot-parameters", "warning", {CPU + "nohz_full": "1-3", "uname.release": "5.4.61-rt37"},
         "CPU 1 without a tick", "boot with isolcpus=1-3: a second task"),
    Case("boot-parameters", "warning", {CPU + "nohz_full": ""}, "nohz_full without effect",
         "CONFIG_NO_HZ_FULL"),
    # a kernel without NO_HZ_FULL has no such file
    *(Case("boot-parameters", "warning", {CMDLINE: "isolcpus=2-3 nohz_full=2-3",
                                          CPU + "nohz_full": None, CONFIG: config},
           # language-ok: the audit's text
           "nohz_full without effect; RCU callbacks on CPUs 2-3", "CONFIG_NO_HZ_FULL")
      for config in (BUILT.replace("CONFIG_NO_HZ_FULL=y", ""), None)),
    Case("boot-parameters", "ok", {CMDLINE: "isolcpus=2-3 nohz_full=2-3", CPU + "nohz_full": None,
                                   CONFIG: None, "uname.release": "4.1.15"}, why="never sleeps"),
    Case("boot-parameters", "warning", {CONFIG: BUILT.replace("CONFIG_RCU_NOCB_CPU=y", "")},
         "rcu_nocbs without effect"),
    Case("boot-parameters", "note", {CMDLINE: "isolcpus=2-3", CPU + "nohz_full": ""},
         "RCU callbacks on CPUs 2-3", "rcu_nocbs=2-3"),
    Case("boot-parameters", "note", {CMDLINE: "isolcpus=2-3", CPU + "nohz_full": "",
                                     CONFIG: BUILT.replace("CONFIG_RCU_NOCB_CPU=y", "")},
         "RCU callbacks", "boot with rcu_nocbs=2-3 and a kernel built with CONFIG_RCU_NOCB_CPU=y"),
    Case("boot-parameters", "ok", {CMDLINE: "isolcpus=2-3 rcu_nocbs=all", CPU + "nohz_full": ""}),
    Case("boot-parameters", "warning", {CMDLINE: "isolcpus=2-3 rcu_nocbs=2-3 irqaffinity=0-2"},
         "irqaffinity sends interrupts to CPU 2", "irqaffinity=0-1"),
    Case("boot-parameters", "warning", {CMDLINE: "isolcpus=0-3 rcu_nocbs=all",
                                        CPU + "isolated": "0-3"}, "no CPU left"),
    Case("boot-parameters", "warning", {CMDLINE: "isolcpus=2-7 nohz_full=2-3"}, "CPUs 4-7"),
    # of two lists, the kernel keeps the first since 4.15, and the last before
    *(Case("boot-parameters", level, {CPU + "nohz_full": None, "uname.release": release,
                                      CMDLINE: f"isolcpus={first} nohz_full={first} "
                                      f"isolcpus={then} nohz_full={then} rcu_nocbs=2-3"}, found)
      for first, then, release, level, found in (
          ("2-3", "2-7", "6.12.0", "ok", "isolcpus=2-3, nohz_full=2-3"),
          ("2-7", "2-3", "6.12.0", "warning", "isolcpus names CPUs 4-7"),
          ("2-7", "2-3", "4.14.0", "ok", "isolcpus=2-3, nohz_full=2-3"))),
    Case("boot-parameters", "note", {CMDLINE: None}, "unknown"),
    Case("boot-parameters", "ok", {CMDLINE: "isolcpus=2-N rcu_nocbs=2-N", CPU + "nohz_full": ""}),
    Case("boot-parameters", "ok", {CMDLINE: "isolcpus=2-3", CPU + "nohz_full": "",
                                   **with_config("CONFIG_RCU_NOCB_CPU_DEFAULT_ALL=y")}),
    # kernel-work
    Case("kernel-work", "ok", {}, "kept on CPUs 0-1"),
    Case("kernel-work", "note", {WORKQUEUES: "f"}, "on CPUs 2-3", "echo 3 > /sys/devices/virtual"),
    Case("kernel-work", "ok", {WORKQUEUES: "f"}, "during the run", run={WORKQUEUES: "00000003"}),
    Case("kernel-work", "note", {WORKQUEUES: "ffffffff,ffffffff", CPU + "online": "0-63"},
         "on CPU 1", "echo ffffffff,fffffffd >", cpus=(1,)),
    Case("kernel-work", "warning", {"/sys/kernel/rcu_expedited": "1", RCU: "0"}, "expedited",
         "echo 1 > /sys/kernel/rcu_normal"),
    Case("kernel-work", "ok", {"/sys/kernel/rcu_expedited": "1", RCU: "0"}, run={RCU: "1"}),
    Case("kernel-work", "note", {"/sys/kernel/rcu_expedited": None,
                                 "/sys/kernel/rcu_expedited.error": "Permission denied"},
         "unknown"),
    Case("kernel-work", "ok", {"/sys/kernel/rcu_expedited": None}, "kept on"),  # TINY_RCU
    Case("kernel-work", "note", {WORKQUEUES: None}, "unknown"),
    # watchdogs
    # until 4.2 there was one switch
    Case("watchdogs", "note", {"uname.release": "3.18.71", KERNEL + "soft_watchdog": None,
                               KERNEL + "nmi_watchdog": None, KERNEL + "watchdog": "1"}, "soft",
         "sysctl -w kernel.watchdog=0 #"),
    Case("watchdogs", "note", {KERNEL + "nmi_watchdog": "1"}, "hard lockup (NMI)",
         "sysctl -w kernel.nmi_watchdog=0 # or boot with nowatchdog"),
    Case("watchdogs", "ok", {KERNEL + "nmi_watchdog": "1"}, "detector on, away", cpus=(2, 3)),
    Case("watchdogs", "note", {KERNEL + "nmi_watchdog": "1"}, "detector on", cpus=(1, 2)),
    Case("watchdogs", "note", {KERNEL + "soft_watchdog": "1", KERNEL + "watchdog": "1"}, "soft"),
    Case("watchdogs", "ok", {KERNEL + "soft_watchdog": "1", KERNEL + "watchdog": "1"},
         "during the run: off", run={KERNEL + "soft_watchdog": "0"}),
    Case("watchdogs", "ok", {KERNEL + "soft_watchdog": None, KERNEL + "nmi_watchdog": None,
                             KERNEL + "watchdog": None}),
    Case("watchdogs", "note", {KERNEL + "soft_watchdog": None, KERNEL + "watchdog": "1",
                               KERNEL + "soft_watchdog.error": "Permission denied"}, "unknown"),
    # memory
    Case("swap", "note", {"/proc/swaps": SWAPS}, "/dev/zram0", "zram-generator", "unpacked"),
    Case("swap", "warning", {}, "1024 MiB in use", base="laptop"),
    Case("swap", "ok", {"/proc/swaps": None, "/proc/meminfo": "MemTotal: 64 kB"}, "not supported"),
    Case("swap", "note", {"/proc/swaps": None, "/proc/meminfo": None}, "unknown"),
    Case("huge-pages", "ok", {THP: "always madvise [never]"}, "never"),
    Case("huge-pages", "ok", {THP: "always [madvise] never"}, "madvise"),
    Case("huge-pages", "warning", {THP: "[always] madvise never"}, "always", "--prepare"),
    Case("huge-pages", "ok", {THP: "[always] madvise never"}, "run: never", run={THP: "never"}),
    Case("huge-pages", "note", {THP: "[sometimes]"}, "unknown"),
    Case("huge-pages", "note", {THP: None, THP + ".error": "Permission denied",
                                **with_config("CONFIG_TRANSPARENT_HUGEPAGE=y")}, "unknown"),
    Case("numa-balancing", "warning", {KERNEL + "numa_balancing": "1"}, "on", "sysctl"),
    Case("numa-balancing", "ok", {KERNEL + "numa_balancing": None}, "not in this kernel"),
    Case("numa-balancing", "note", {KERNEL + "numa_balancing": "?", **with_config(
        "CONFIG_NUMA_BALANCING=y")}, "unknown"),
    Case("page-merging", "note", {KSM: "1"}, "on", "echo 2"),
    Case("page-merging", "ok", {KSM: "1"}, "during the run: off", run={KSM: "0"}),
    Case("page-merging", "ok", {KSM: None}, "not in this kernel"),
    # settings that come with the third table
    Case("turbo", "ok", {}, "off"),
    Case("turbo", "note", {NO_TURBO: "0"}, "on", "echo 1 > " + NO_TURBO, "temperature"),
    Case("turbo", "note", {NO_TURBO: None, BOOST: "1"}, "on", "echo 0 > " + BOOST),
    Case("turbo", "ok", {NO_TURBO: None, BOOST: "0"}, "off"),
    Case("turbo", "note", {NO_TURBO: None}, "not under", why="the firmware"),
    Case("turbo", "note", {NO_TURBO: None, CPUINFO: "flags : hypervisor"}, "not under", why="host"),
    Case("turbo", "ok", {NO_TURBO: None, "uname.machine": "armv7l"}, "none"),
    Case("turbo", "note", {NO_TURBO: None, NO_TURBO + ".error": "Permission denied"}, "unknown",
         why="Permission denied"),
    Case("energy-preference", "ok", {}, "performance"),
    Case("energy-preference", "note", {EPP: "balance_power"}, "balance_power",
         "echo performance | tee"),
    Case("energy-preference", "ok", {EPP: "balance_power"}, "during the run: performance",
         run={CPU + f"cpufreq/policy{cpu}/energy_performance_preference": "performance"
              for cpu in (0, 2)}),
    Case("energy-preference", "note", {EPP: "balance_power"},
         "during the run: balance_power on CPUs 0-1, performance on CPUs 2-3",
         run={CPU + "cpufreq/policy2/energy_performance_preference": "performance",
              CPU + "cpufreq/policy0/energy_performance_preference": None}),
    Case("energy-preference", "note", {EPP: "balance_power"}, "balance_power",
         run={CPU + "cpufreq/policy0/scaling_governor": "performance"}),
    Case("energy-preference", "note", {EPP: None, EPB: "6"}, "6", "echo 0 | tee"),
    Case("energy-preference", "ok", {EPP: None, EPB: "0"}, "0"),
    Case("energy-preference", "ok", {EPP: None, EPB: None}, "none"),
    Case("energy-preference", "note", {EPP: None, EPB: None, EPP + ".error": "Input/output error"},
         "unknown", why="Input/output"),
    Case("energy-preference", "note", {EPP: None, EPP.replace("{0-3}", "0"): "performance"},
         "unknown", why="CPUs 1-3"),
    Case("clock-watchdog", "ok", {}, "tsc=nowatchdog"),
    Case("clock-watchdog", "note", {CMDLINE: "quiet"}, "watched", "tsc=nowatchdog", "HPET"),
    Case("clock-watchdog", "ok", {CMDLINE: "quiet", CPUINFO: ADJUSTED}, "off for this TSC"),
    Case("clock-watchdog", "ok", {CMDLINE: "quiet", CPUINFO: ADJUSTED, NODES: "0-3"}, "off for"),
    Case("clock-watchdog", "note", {CMDLINE: "quiet", CPUINFO: ADJUSTED, NODES: "0-4"}, "watched"),
    Case("clock-watchdog", "note", {CMDLINE: "quiet", CPUINFO: ADJUSTED, NODES: "0-3",
                                    "uname.release": "6.1.0"}, "watched"),
    Case("clock-watchdog", "note", {CMDLINE: "quiet", CPUINFO: ADJUSTED, "uname.release": "5.10.1"},
         "watched"),
    Case("clock-watchdog", "ok", {CMDLINE: "quiet", CLOCKSOURCE: "hpet"}, "hpet is not"),
    Case("clock-watchdog", "note", {CMDLINE: None}, "unknown"),
    Case("clock-watchdog", "note", {CLOCKSOURCE: None}, "unknown"),
    Case("skew-tick", "ok", {}, "skew_tick=1"),
    Case("skew-tick", "note", {CMDLINE: "skew_tick=0"}, "coincide", "skew_tick=1"),
    Case("skew-tick", "ok", {CMDLINE: "", **SINGLE}, "single"),
    Case("skew-tick", "note", {CMDLINE: None}, "unknown", "cat /proc/cmdline"),
    Case("skew-tick", "note", NO_ONLINE, "unknown", f"cat {CPU}online"),
    Case("boot-parameters", "note", NO_ONLINE, "unknown", f"cat {CPU}online"),
    Case("interrupts", "note", NO_ONLINE, "unknown", f"cat {CPU}online", "online CPUs"),
    Case("mitigations", "ok", {}, "2 known flaws, none in this processor"),
    Case("mitigations", "ok", {FLAWS: "a=Not affected"}, "1 known flaw, none in this processor"),
    Case("mitigations", "note", {FLAWS: "a=Mitigation: x\nb=Vulnerable\nc=Not affected"},
         "1 active: a", "mitigations=off", "slows"),
    Case("mitigations", "ok", {FLAWS: "a=Vulnerable\nb=Not affected"},
         "off, flaws not mitigated: 1"),
    # arm64 cannot switch this one off
    Case("mitigations", "ok", {FLAWS: "spectre_v1=Mitigation: __user pointer sanitization",
                               CMDLINE: "mitigations=off"}, "1 active: spectre_v1"),
    Case("mitigations", "ok", {FLAWS: None}, "not in this kernel"),
    Case("mitigations", "note", {FLAWS: None, FLAWS + ".error": "Permission denied"}, "unknown"),
    Case("split-locks", "ok", {}, "not detected"),
    Case("split-locks", "note", {CPUINFO: "flags : split_lock_detect",
                                 KERNEL + "split_lock_mitigate": "1"}, "slowed", "sysctl -w"),
    Case("split-locks", "ok", {CPUINFO: "flags : bus_lock_detect",
                               KERNEL + "split_lock_mitigate": "0"}, "not slowed"),
    Case("split-locks", "ok", {CPUINFO: "flags : split_lock_detect",
                               CMDLINE: "split_lock_detect=off"}, "split_lock_detect=off"),
    # kernels without the switch
    Case("split-locks", "note", {CPUINFO: "flags : split_lock_detect", "uname.release": "6.1.0"},
         "slowed down", "boot with split_lock_detect=off"),
    Case("split-locks", "ok", {CPUINFO: "flags : split_lock_detect", "uname.release": "5.10.0"},
         "not slowed"),
    Case("split-locks", "note", {CPUINFO: "flags : split_lock_detect", "uname.release": "5.15.0",
                                 CMDLINE: "split_lock_detect=ratelimit:1"}, "slowed down"),
    Case("split-locks", "note", {CPUINFO: "flags : split_lock_detect",
                                 KERNEL + "split_lock_mitigate.error": "Permission denied"},
         "unknown"),
    Case("split-locks", "note", {CPUINFO: "flags : split_lock_detect", CMDLINE: None}, "unknown"),
    Case("split-locks", "note", {CPUINFO: None}, "unknown"),
    Case("split-locks", "ok", {CPUINFO: None, "uname.machine": "riscv64"}, "not on this arch"),
    Case("error-polling", "ok", {}, "none"),
    Case("error-polling", "note", {MCE: "300"}, "every 300 s", "echo 0 | tee"),
    Case("error-polling", "ok", {MCE: "300", CMDLINE: "mce=ignore_ce"}, "none"),
    Case("error-polling", "note", {EDAC: 1, EDAC_POLL: "1000"},
         "EDAC every 1000 ms, if its driver polls", "echo 0 >"),
    Case("error-polling", "ok", {EDAC_POLL: "1000"}, "none"),  # no memory controller it knows
    Case("error-polling", "note", {MCE: None, MCE + ".error": "Permission denied"}, "unknown",
         why="Permission denied"),
    Case("device-power", "ok", {}, "no device is suspended"),
    Case("device-power", "note", {ASPM: "[default] performance powersave"}, "links: default",
         "echo performance >"),
    Case("device-power", "ok", {ASPM: "[default] performance", CMDLINE: "pcie_aspm=off"}, "no dev"),
    Case("device-power", "note", {USB: "2"}, "after 2 s where power/control is auto",
         "usbcore.autosuspend=-1"),
    Case("device-power", "ok", {ASPM: None, USB: None}, "no device"),
    Case("device-power", "note", {ASPM: "?"}, "unknown"),
    Case("device-power", "note", {USB: None, USB + ".error": "Permission denied"}, "unknown"),
    Case("iommu", "ok", {}, "identity"),
    Case("iommu", "note", {IOMMU: "0=DMA\n1=DMA-FQ\n2=identity"}, "groups: 1 strict and 1 lazy",
         "iommu.passthrough=1", "waits for the IOMMU"),
    Case("iommu", "note", {IOMMU: "0=DMA-FQ"}, "groups: 1 lazy", why="10 ms"),
    Case("iommu", "ok", {IOMMU: None}, "no device"),
    Case("iommu", "note", {IOMMU: None, IOMMU + ".error": "Permission denied"}, "unknown"),
    Case("cache-allocation", "ok", {}, "not on this system"),
    Case("cache-allocation", "note", {RESCTRL: 1}, "not in use", "echo 2,3 > "),
    Case("cache-allocation", "note", {RESCTRL: 1, RESCTRL + "/schemata": "L3:0=fff"},
         "no group for CPUs 2-3", "mkdir"),
    Case("cache-allocation", "ok", {RESCTRL: 1, RESCTRL + "/schemata": "L3:0=fff",
                                    RESCTRL + "/*/cpus_list": "rt=2-3\nother=0"}, "CPUs 0,2-3"),
    Case("cache-allocation", "note", {RESCTRL: 1, RESCTRL + "/schemata": None,
                                      RESCTRL + "/schemata.error": "Permission denied"}, "unknown"),
    Case("timer-threads", "ok", {}, "ktimers at priority 81"),
    Case("timer-threads", "note", {TASKS: "1 99 2 0 migration/0\n1 1 2 0 ktimers/0"},
         "ktimers at priority 1, the measured tasks at 80", "chrt -f -p 81", "setitimer"),
    Case("timer-threads", "ok", {TASKS: "1 99 2 0 migration/0\n1 1 2 0 ktimers/0\n"
                                 "1 90 2 2 ktimers/2"}, "ktimers at priority 90", cpus=(2,)),
    Case("timer-threads", "note", {TASKS: "1 99 2 0 migration/0"}, "ksoftirqd, without"),
    Case("timer-threads", "note", {TASKS: "1 99 2 0 migration/0\n1 2 2 0 ksoftirqd/0"},
         "ksoftirqd at priority 2"),
    Case("timer-threads", "note", {TASKS: ""}, "unknown"),
    Case("timer-threads", "ok", {}, "none", why="in the timer interrupt", base="laptop"),
    Case("packets", "ok", {}, "no packets handed to other CPUs"),
    Case("packets", "note", {RPS: "lo=0\neth0=c"}, "eth0 handed to CPUs 2-3 (RPS)", "echo 3 >"),
    Case("packets", "ok", {RPS: "eth0=3"}, "no packets handed"),
    Case("packets", "note", {XPS: "eth0=f"}, "a queue of eth0 shared with CPUs 2-3", "xps_cpus"),
    Case("packets", "ok", {RPS: None}, "no interface"),
    Case("packets", "note", {RPS: None, RPS + ".error": "Permission denied"}, "unknown"),
    Case("rcu", "ok", {}, "normal"),
    Case("rcu", "note", {RCU: "0"}, "may be expedited", "rcu_normal_after_boot=1", "every CPU"),
    Case("rcu", "ok", {RCU: "0"}, "during the run: normal", run={RCU: "1"}),
    Case("rcu", "warning", {CMDLINE: "rcutree.kthread_prio=90"},
         "RCU's threads at priority 90, the measured tasks at 80", "rcutree.kthread_prio=79"),
    Case("rcu", "warning", {RCU: "0", CMDLINE: "rcutree.kthread_prio=80"},
         # language-ok: the audit's text
         "RCU's threads at priority 80, the measured tasks at 80; grace periods may be expedited",
         "rcupdate.rcu_normal_after_boot=1"),
    Case("rcu", "warning", {RCU: None, CMDLINE: "rcutree.kthread_prio=90"},
         "RCU's threads at priority 90"),
    Case("rcu", "warning", {CMDLINE: "rcutree.kthread_prio=1"}, "measured tasks at 1",
         remedy="measure at a priority above 1 (--priority)", priority=1),
    Case("rcu", "warning", {CMDLINE: "rcutree.kthread_prio=9"}, "measured tasks at 1",
         remedy="kthread_prio=1; measure at a priority above 1", priority=1),
    Case("rcu", "ok", {CMDLINE: "rcutree.kthread_prio=11"}, "RCU's threads at priority 11"),
    Case("rcu", "note", {RCU: None}, "unknown"),
    Case("rcu", "ok", {RCU: None, **SINGLE}, "a single CPU"),  # TINY_RCU
    Case("rcu", "note", {RCU: None, RCU + ".error": "Permission denied", **SINGLE}, "unknown"),
    Case("services", "ok", {}, "none known"),
    Case("services", "note", {DAEMONS: "irqbalance"}, "irqbalance", "disable --now irqbalance"),
    Case("services", "note", {DAEMONS: "tuned", PROFILE: "powersave"}, "tuned (powersave)",
         "tuned-adm profile"),
    Case("services", "note", {DAEMONS: "tuned"}, "tuned (profile not known)"),
    Case("services", "ok", {DAEMONS: "tuned", PROFILE: "realtime-virtual-host"}, "tuned"),
    Case("services", "note", {DAEMONS: "thermald\npower-profiles-"},
         "thermald, power-profiles-daemon", "powerprofilesctl"),
    Case("services", "note", {DAEMONS: None}, "unknown"),
    Case("services", "note", {TASKS: ""}, "unknown", "outside of containers"),
    Case("boot-parameters", "ok", {}, why="never sleeps"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.check}-{case.level}")
def test_levels(case: Case) -> None:
    check_levels(case)


def test_every_check_was_seen_at_every_level_it_has() -> None:
    seen: dict[str, set[str]] = {check: set() for check in CHECKS}
    for case in (*FIRST_CASES, *CASES):
        seen[case.check].add(case.level)
    for _, _, levels in SYSTEMS.values():
        for check, level in levels.items():
            seen[check].add(level)
    missing = {check: {"ok", "note", "warning", "error"} - levels for check, levels in seen.items()}
    later = {"ok", "note", "warning"}
    old = {check: levels for check, levels in missing.items() if check in _FIRST and levels}
    assert old == {
        "timers": {"warning"},
        "frequency": {"error"},
        "sleep-states": {"error"},
        "throttling": {"error"},
        "fair-server": {"error"},
        "isolation": {"error"},
        "smt": {"error"},
    }
    for check, found in seen.items():
        if check not in _FIRST:
            assert found == (later - {"warning"} if check in _NEVER_WORSE else later), check


_FIRST = {case.check for case in FIRST_CASES}
#: What these find is worth a note at most.
_NEVER_WORSE = {
    "tick",
    "timer-migration",
    "smi",
    "scheduler-features",
    "watchdogs",
    "page-merging",
    "turbo",
    "energy-preference",
    "clock-watchdog",
    "skew-tick",
    "mitigations",
    "split-locks",
    "error-polling",
    "cache-allocation",
    "device-power",
    "iommu",
    "timer-threads",
    "packets",
    "services",
}


def test_the_agent_collects_the_options_that_are_looked_at() -> None:
    """From a configuration that is not compressed it sends the lines of its list."""
    source = (ROOT / "agent" / "system" / "environment.c").read_text("utf-8")
    start = source.index("char options[] =")
    words = "".join(re.findall(r'"([^"]*)"', source[start : source.index(";", start)])).split("|")
    looked_at = set(DEBUGGING)
    for path in (ROOT / "src" / "rtgauge").rglob("*.py"):
        looked_at |= set(re.findall(r'\bconfig\("([A-Z0-9_]+)"\)', path.read_text("utf-8")))
    assert len(looked_at) > 30
    for option in looked_at:
        assert any(option.startswith(word) for word in words), option


def test_no_thread_gets_a_priority_that_ties() -> None:
    """Below priority 1 there is none, so only the measurement's priority can change."""
    for listing, above in (("1 50 2 irq/9-acpi", 50), ("1 99 2 irq/9-acpi", 98)):
        found = find(RT_PC | {TASKS: listing}, "interrupt-threads", priority=1)
        assert found.level == "warning"
        assert found.remedy == f"use a priority above {above} (--priority)"


def test_only_what_applies_is_advised() -> None:
    """Every CPU measured, or a single one: no advice to isolate all of them."""
    for cpus in (None, (0, 1, 2, 3)):
        findings = [find(LAPTOP, check, cpus=cpus) for check in ("interrupts", "kernel-work")]
        for finding in findings:
            assert "irqaffinity=" not in finding.remedy
            assert "cpumask" not in finding.remedy
