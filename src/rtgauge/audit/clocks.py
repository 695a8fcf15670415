# SPDX-License-Identifier: Apache-2.0
"""Timers and clocks."""

from __future__ import annotations

from rtgauge.audit.case import CHECK_CONFIG, Case, Finding, Shell, cpus_text, finding, unknown
from rtgauge.facts import CLOCK, CPU
from rtgauge.facts.interpret import online_cpus
from rtgauge.text import time
from rtgauge.units import read_integer

__all__ = ["check_clock", "check_clock_watchdog", "check_skew", "check_tick", "check_timers"]


def check_timers(name: str, case: Case) -> Finding:
    facts = case.facts
    resolution = facts.integer("agent.clock_getres_ns")
    why = "without high-resolution timers, a sleeping task wakes only at the next tick"
    if resolution is None or resolution <= 0:
        return unknown(
            name,
            "the resolution of CLOCK_MONOTONIC was not collected",
            why,
            "run rtgauge check with an agent of the same version as rtgauge",
        )
    # hrtimer_resolution: 1 ns once a CPU has switched to high resolution, a tick before
    if resolution <= 1000:
        return finding(
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
    return finding(name, "error", f"resolution {time(resolution)}, one tick", why, remedy)


#: Counters of the processor itself.
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


def check_clock(name: str, case: Case) -> Finding:
    facts = case.facts
    current = facts.text(CLOCK + "current_clocksource")
    path = CLOCK + "current_clocksource"
    if not current:
        return unknown(
            name,
            "the current clock source could not be read",
            "a slow clock source adds microseconds to every time stamp",
            f"cat {path}",
        )
    available = (facts.text(CLOCK + "available_clocksource") or "").split()
    switch = Shell(f"echo tsc > {path}")
    tsc_lost = (
        "see the kernel's log for the reason (dmesg | grep -i tsc), and correct the firmware"
        " or the hypervisor (tsc=reliable only where the TSC is known to be stable)"
    )
    if current in _FAST:
        if current == "tsc":
            why = "read in user space, within tens of nanoseconds"
        else:  # drivers/clocksource/arm_arch_timer.c: errata keep some cores from reading it
            why = "the processor's own counter. A few cores need a system call to read it: see the"
            why += " result of the measurement clock-cost"
        return finding(name, "ok", current, why)
    if current == "tsc-early":
        return finding(
            name,
            "note",
            current,
            "the TSC, before the kernel has refined its frequency: times may be wrong by up to 1 %",
            f"measure again when {path} no longer contains tsc-early",
        )
    if current in ("jiffies", "refined-jiffies"):
        return finding(
            name,
            "error",
            current,
            "time advances by whole ticks only: latencies below a tick cannot be seen",
            "boot a kernel with a driver for this machine's timer",
        )
    if current in _SLOW:
        return finding(
            name,
            "warning",
            current,
            "each time stamp is a system call and a slow device access of a microsecond or more",
            switch if "tsc" in available else tsc_lost,
        )
    if current in _PARAVIRTUAL:
        return finding(
            name,
            "note",
            current,
            "the hypervisor provides the time: it may adjust it when the virtual machine is moved"
            " or paused, and reading it may take a system call",
            switch if "tsc" in available else "give the virtual machine an invariant TSC",
        )
    if facts.is_x86:
        return finding(
            name,
            "warning",
            current,
            "it is not the TSC, which is the only fast clock of this processor",
            switch if "tsc" in available else tsc_lost,
        )
    return finding(
        name,
        "note",
        current,
        "a counter of this board, unknown to this check",
        "run the measurement clock-cost: a clock whose reading takes more than 1 µs is slow",
    )


def check_tick(name: str, case: Case) -> Finding:
    # timers/no_hz; kernel/Kconfig.hz
    facts = case.facts
    why = "each tick interrupts a busy CPU for microseconds"
    tick = facts.integer("agent.clock_getres_coarse_ns")
    built = read_integer(facts.config("HZ"))
    rate = round(1e9 / tick) if tick is not None and 0 < tick <= 1_000_000_000 else built
    if rate is None or rate <= 0:
        return unknown(name, "the rate of the tick is not known", why, CHECK_CONFIG)
    full = facts.cpus(CPU + "nohz_full") or frozenset()
    measured = case.cpus
    found = f"{rate} Hz"
    mode: str | None = None
    for option, words in (
        ("HZ_PERIODIC", "always on"),
        ("NO_HZ_FULL", "off on idle CPUs"),
        ("NO_HZ_IDLE", "off on idle CPUs"),
        ("NO_HZ", "off on idle CPUs"),  # the only one of these options before 3.10
    ):
        if mode is None and facts.config(option) == "y":
            mode = words
    if mode is None and facts.options is not None:
        mode = "always on"
    if facts.parameter("nohz") == "off":
        mode = "always on (nohz=off)"
    if mode is not None:
        found += f", {mode}"
    if measured and measured <= full:
        return finding(
            name,
            "ok",
            f"{found}, at most once a second on {cpus_text(measured)} (nohz_full)",
            "it hardly interrupts a task that runs alone there",
        )
    if rate >= 1000:
        return finding(
            name,
            "note",
            found,
            f"{why}. A faster tick does not make timers more accurate. The measurement "
            "tick-cost shows the cost of a tick",
            "build the kernel with CONFIG_HZ=250 or 100. nohz_full= suits only a CPU whose"
            " single task never sleeps: it slows every kernel entry",
        )
    if mode is None:
        return unknown(
            name,
            f"{found}, but the kernel's configuration could not be read",
            why,
            CHECK_CONFIG,
        )
    return finding(name, "ok", found, "high-resolution timers do not wait for it")


def check_skew(name: str, case: Case) -> Finding:
    # kernel-parameters, skew_tick; kernel/time/tick-sched.c
    facts = case.facts
    online = online_cpus(facts)
    why = "the ticks of all CPUs fire at the same time and contend for the same locks"
    if online is not None and len(online) == 1:
        return finding(name, "ok", "a single CPU", "there is no other tick to contend with")
    if facts.parameters("skew_tick") is None or online is None:
        missing = "the kernel's command line" if online is not None else "the list of online CPUs"
        path = "/proc/cmdline" if online is not None else f"{CPU}online"
        return unknown(name, f"{missing} could not be read", why, f"cat {path}")
    if read_integer(facts.parameter("skew_tick")):
        return finding(name, "ok", "skew_tick=1", "the ticks of the CPUs are staggered")
    return finding(name, "note", "the ticks of all CPUs coincide", why, "boot with skew_tick=1")


def check_clock_watchdog(name: str, case: Case) -> Finding:
    # kernel/time/clocksource.c; arch/x86/kernel/tsc.c, check_system_tsc_reliable: from 5.17 on, the
    # watchdog leaves out TSCs with TSC_ADJUST on one or two nodes, and from 6.6 on those on up to
    # four
    facts = case.facts
    why = (
        "twice a second, a timer on one CPU after another compares the TSC with the HPET or the"
        " ACPI timer. If the comparison is late, the kernel may fall back to that clock, and a time"
        " stamp then takes 1 µs or more"
    )
    remedy = "boot with tsc=nowatchdog if the TSC is known to be stable"
    current = facts.text(CLOCK + "current_clocksource")
    if not current:
        path = CLOCK + "current_clocksource"
        return unknown(name, "the clock source could not be read", why, f"cat {path}")
    if current != "tsc":
        return finding(name, "ok", f"{current} is not watched", "the watchdog checks only the TSC")
    option = facts.parameter("tsc")
    if option in ("reliable", "nowatchdog"):
        return finding(name, "ok", f"off (tsc={option})", "the TSC is trusted")
    flags = (facts.lines("/proc/cpuinfo").get("flags") or "").split()
    nodes = facts.cpus("/sys/devices/system/node/online")
    if facts.release is None or not flags or facts.parameters("tsc") is None:
        missing = "the kernel's release, the processor's flags or the command line"
        return unknown(name, f"{missing} could not be read", why, remedy)
    trusted = {"constant_tsc", "nonstop_tsc", "tsc_adjust"} <= set(flags)
    single = facts.absent("/sys/devices/system/node/online")  # a kernel without NUMA
    most = 4 if facts.release >= (6, 6) else 2
    if "tsc_reliable" in flags or (
        trusted and facts.release >= (5, 17) and (single or (nodes and len(nodes) <= most))
    ):
        return finding(name, "ok", "off for this TSC", "the kernel trusts it")
    return finding(name, "note", "the TSC is watched", why, remedy)
