# SPDX-License-Identifier: Apache-2.0
"""Sharing of the CPUs with other tasks, interrupts, and the second hardware thread."""

from __future__ import annotations

from rtgauge.audit.case import Case, Finding, Shell, cpus_text, finding, unknown
from rtgauge.facts import CPU, Facts
from rtgauge.facts.interpret import hypervisor, isolated_cpus, online_cpus
from rtgauge.units import format_cpus, read_cpus, read_mask

__all__ = ["check_boot_parameters", "check_isolation", "check_smt", "isolcpus"]


def isolcpus(facts: Facts, cpus: frozenset[int]) -> str:
    """The kernel parameter. Before 5.6, a kernel ignores a list with the flag managed_irq."""
    old = facts.release is not None and facts.release < (5, 6)
    return f"isolcpus={'' if old else 'managed_irq,domain,'}{format_cpus(cpus)}"


def _isolation_parameters(case: Case, online: frozenset[int]) -> str:
    wanted = case.cpus if case.chosen and case.cpus < online else frozenset({max(online)})
    cpus, others = format_cpus(wanted), format_cpus(online - wanted)
    offload = "" if case.facts.config("RCU_NOCB_CPU") == "n" else f" rcu_nocbs={cpus}"
    return (
        f"boot with {isolcpus(case.facts, wanted)}{offload} irqaffinity={others}."
        " The scheduler then places no threads on isolated CPUs, so pin each real-time thread by"
        f" hand (taskset -c {cpus}, pthread_setaffinity_np)"
    )


def check_isolation(name: str, case: Case) -> Finding:
    facts = case.facts
    online = online_cpus(facts)
    isolated = isolated_cpus(facts)
    why = "on a shared CPU, unrelated tasks and interrupts delay a task"
    if online is None or isolated is None:
        missing = "the list of online CPUs" if online is None else "the list of isolated CPUs"
        return unknown(name, f"{missing} could not be read", why, f"cat {CPU}online {CPU}isolated")
    if len(online) == 1:
        return finding(
            name,
            "note",
            "a single CPU",
            "everything else runs on the same CPU and cannot be moved away",
            "reduce the number of tasks and interrupts, or use a target with more CPUs",
        )
    measured = case.cpus or online
    remedy = _isolation_parameters(case, online)
    shared = measured - isolated
    if shared:
        if case.load_running:
            why += "; here the load does so on purpose"
        if not isolated:
            return finding(name, "note", "no CPU is isolated", why, remedy)
        return finding(
            name,
            "warning" if case.chosen else "note",
            f"{cpus_text(isolated)} isolated; measured: {cpus_text(shared)} not isolated",
            why,
            f"measure on the isolated ones (--cpu {format_cpus(isolated & online)})"
            if isolated & online
            else remedy,
        )
    gaps = _isolation_gaps(facts, measured)
    pinned = "the scheduler places no tasks there, so pin the application's tasks by hand"
    found = f"{cpus_text(measured)} isolated"
    if gaps:
        return finding(
            name,
            "note",
            ", ".join([found, *(gap for gap, _ in gaps)]),
            "work that remains there may interrupt the task from time to time",
            "; ".join(remedy for _, remedy in gaps),
        )
    extra = ". A load affects these CPUs only through shared resources" if case.load_running else ""
    return finding(name, "ok", found, f"{pinned}{extra}")


def _isolation_gaps(facts: Facts, measured: frozenset[int]) -> list[tuple[str, str]]:
    gaps: list[tuple[str, str]] = []
    affinity = read_mask(facts.text("/proc/irq/default_smp_affinity") or "-")
    if affinity is None:
        gaps.append(("the default affinity is unknown", "cat /proc/irq/default_smp_affinity"))
    elif affinity & measured:
        online = online_cpus(facts) or measured
        others = format_cpus(online - measured)
        gaps.append(
            (
                "but new interrupts go there",
                f"boot with irqaffinity={others}" if others else "keep a CPU for interrupts",
            )
        )
    return gaps


def check_smt(name: str, case: Case) -> Finding:
    facts = case.facts
    online = online_cpus(facts)
    why = "two threads of a core share its caches and execution units, so each slows the other"
    remedy = Shell("echo off > /sys/devices/system/cpu/smt/control # or boot with nosmt")
    siblings = {
        cpu: group
        for cpu, text in case.values(CPU + "cpu#/topology/thread_siblings_list").items()
        if (group := read_cpus(text))
    }
    shared = {cpu: group for cpu, group in siblings.items() if len(group) > 1}
    active = facts.text(CPU + "smt/active")
    if shared:
        cpu, group = next(iter(shared.items()))
        more = f"; same for {len(shared) - 1} more" if len(shared) > 1 else ""
        if case.load_running:
            why += "; a load may run on the sibling"
        return finding(
            name,
            "warning",
            f"on: CPU {cpu} shares its core (CPUs {format_cpus(group)}){more}",
            why,
            remedy,
        )
    known = case.covers(siblings)
    if active == "1" and not known:
        return finding(name, "warning", "on", why, remedy)
    if active == "0" or known or (online is not None and len(online) == 1):
        if hypervisor(facts):
            return finding(
                name,
                "note",
                "off as this virtual machine sees it",
                "whether its virtual CPUs share the cores of the host cannot be seen from inside",
                "on the host: pin each virtual CPU to a core of its own, with SMT off",
            )
        single = active is None and not siblings
        found = "a single CPU" if single else "off"
        return finding(name, "ok", found, "no CPU measured shares its core")
    return unknown(name, "neither smt/active nor the siblings could be read", why, remedy)


def _value(facts: Facts, parameter: str) -> str | None:
    """The value of a kernel parameter that counts."""
    first = parameter in ("isolcpus", "nohz_full")
    return facts.cpu_list(parameter) if first else facts.parameter(parameter)


def _asked(facts: Facts, parameter: str) -> frozenset[int] | None:
    """CPUs in a kernel parameter's list, its flags left out; None if it was not given."""
    value = _value(facts, parameter)
    if value is None:
        return None
    # kernel-parameters, "cpu lists": N is the last CPU there can be
    there = facts.cpus(CPU + "possible") or online_cpus(facts) or frozenset()
    last = str(max(there, default=0))
    items = [item for item in value.split(",") if item[:1].isdecimal() or item[:1] == "N"]
    return there if value == "all" else read_cpus(",".join(items).replace("N", last))


def _lacks_no_hz_full(facts: Facts) -> bool:
    option, release = facts.config("NO_HZ_FULL"), facts.release
    if option is not None or release is None:
        return option == "n"
    # drivers/base/cpu.c: from 4.2 on, each kernel with the option has this file
    return release >= (4, 2) and facts.absent(CPU + "nohz_full")


def check_boot_parameters(name: str, case: Case) -> Finding:
    """Whether isolcpus, nohz_full, rcu_nocbs and irqaffinity fit each other, and took effect.

    Sources: admin-guide/kernel-parameters, timers/no_hz, admin-guide/kernel-per-CPU-kthreads.
    """
    facts = case.facts
    online = online_cpus(facts)
    why = "work that one parameter keeps off a CPU returns if another parameter is missing"
    if facts.parameters("isolcpus") is None or online is None:
        missing = "the kernel's command line" if online is not None else "the list of online CPUs"
        path = "/proc/cmdline" if online is not None else f"{CPU}online"
        return unknown(name, f"{missing} could not be read", why, f"cat {path}")
    isolated = isolated_cpus(facts) or frozenset()
    full_asked, nocbs = _asked(facts, "nohz_full"), _asked(facts, "rcu_nocbs")
    full = facts.cpus(CPU + "nohz_full")
    if full is None:
        full = frozenset() if _lacks_no_hz_full(facts) else full_asked or frozenset()
    # kernel/rcu/tree_nocb.h: CPUs of nohz_full are offloaded, too
    offloaded = (nocbs or frozenset()) | full
    if facts.config("RCU_NOCB_CPU_DEFAULT_ALL") == "y" and nocbs is None:
        offloaded = online
    irqs = _asked(facts, "irqaffinity")
    given = [p for p in ("isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity") if _value(facts, p)]
    if not given and not isolated:
        return finding(name, "ok", "no parameter isolates CPUs", "so none contradicts another")
    faults: list[tuple[str, str]] = []
    gaps: list[tuple[str, str]] = []
    rest = online - isolated
    if not rest:
        faults.append(("no CPU left for the rest of the system", "leave one CPU out of isolcpus"))
    if full_asked and not full:
        faults.append(("nohz_full without effect", "boot a kernel built with CONFIG_NO_HZ_FULL=y"))
    if nocbs and facts.config("RCU_NOCB_CPU") == "n":
        faults.append(
            ("rcu_nocbs without effect", "boot a kernel built with CONFIG_RCU_NOCB_CPU=y")
        )
    if full - isolated:
        text = format_cpus(full - isolated)
        faults.append(
            (
                f"{cpus_text(full - isolated)} without a tick, but not isolated",
                f"boot with {isolcpus(facts, full | isolated)}: a second task on {text} restarts"
                " the tick",
            )
        )
    if irqs and irqs & isolated and rest:
        faults.append(
            (
                f"irqaffinity sends interrupts to {cpus_text(irqs & isolated)}",
                f"boot with irqaffinity={format_cpus(rest)}",
            )
        )
    absent = (_asked(facts, "isolcpus") or frozenset()) - (
        facts.cpus(CPU + "possible") or online | isolated
    )
    if absent:
        faults.append(
            (
                f"isolcpus names {cpus_text(absent)}, which this machine lacks",
                "name CPUs that exist",
            )
        )
    missing_nocbs = (isolated & online) - offloaded
    if missing_nocbs:
        remedy = f"boot with rcu_nocbs={format_cpus(missing_nocbs | (nocbs or frozenset()))}"
        if facts.config("RCU_NOCB_CPU") == "n":
            remedy += " and a kernel built with CONFIG_RCU_NOCB_CPU=y"
        gaps.append((f"RCU callbacks on {cpus_text(missing_nocbs)}", remedy))
    found = ", ".join(f"{p}={_value(facts, p)}" for p in given)
    found = found or f"{cpus_text(isolated)} isolated"
    problems = faults + gaps
    if problems:
        return finding(
            name,
            "warning" if faults else "note",
            "; ".join(text for text, _ in problems),
            f"{found}: {why}",
            "; ".join(remedy for _, remedy in problems),
        )
    why = "the settings agree"
    if full:
        why += (
            ". nohz_full helps only a task that never sleeps (busy polling), and slows every kernel"
            " entry"
        )
    return finding(name, "ok", found, why)
