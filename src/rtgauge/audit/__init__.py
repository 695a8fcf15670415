# SPDX-License-Identifier: Apache-2.0
"""The audit: obstacles to real time in a target's configuration.

Checks over the facts that the agent collected (docs/formats/environment.md), one function each, in
files by theme and in one table; docs/reference/checks.md says what each looks at and why. A check
never answers ``ok`` where a fact that it needs is missing: then it is a note that says so.

Sources: the kernel's own documentation (admin-guide/kernel-parameters, admin-guide/pm, scheduler/
sched-rt-group, timers), and its source where that is silent, named at the place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rtgauge.audit.case import DEFAULT_PRIORITY, Case, Finding, Level
from rtgauge.audit.clocks import (
    check_clock,
    check_clock_watchdog,
    check_skew,
    check_tick,
    check_timers,
)
from rtgauge.audit.cores import core_findings
from rtgauge.audit.debugging import check_debugging, check_tracing
from rtgauge.audit.hardware import (
    check_cache_allocation,
    check_device_power,
    check_error_polling,
    check_iommu,
    check_mitigations,
    check_split_locks,
)
from rtgauge.audit.interrupts import (
    check_interrupt_threads,
    check_interrupts,
    check_packets,
    check_tasks,
    check_timer_threads,
)
from rtgauge.audit.isolation import check_boot_parameters, check_isolation, check_smt
from rtgauge.audit.machine import check_smi, check_thermal, check_virtualisation
from rtgauge.audit.memory import check_huge_pages, check_numa, check_page_merging, check_swap
from rtgauge.audit.power import (
    check_energy_preference,
    check_frequency,
    check_sleep,
    check_turbo,
)
from rtgauge.audit.preemption import check_preemption
from rtgauge.audit.privileges import check_privileges
from rtgauge.audit.throttling import check_control_groups, check_fair_server, check_throttling
from rtgauge.audit.upkeep import (
    check_kernel_work,
    check_rcu,
    check_scheduler_features,
    check_services,
    check_timer_migration,
    check_watchdogs,
)
from rtgauge.facts import Fact, Facts
from rtgauge.facts.environment import Settings, environment_document, settings_document
from rtgauge.facts.interpret import online_cpus, realtime_model

__all__ = [
    "CHECKS",
    "DEFAULT_PRIORITY",
    "Finding",
    "Level",
    "audit",
    "environment_document",
    "realtime_model",
]


#: The checks, in the order of their findings.
CHECKS: Mapping[str, Callable[[str, Case], Finding]] = {
    # the kernel
    "preemption": check_preemption,
    "debugging": check_debugging,
    "tracing": check_tracing,
    # time
    "timers": check_timers,
    "clock-source": check_clock,
    "clock-watchdog": check_clock_watchdog,
    "tick": check_tick,
    "skew-tick": check_skew,
    "timer-migration": check_timer_migration,
    # the processor
    "frequency": check_frequency,
    "turbo": check_turbo,
    "energy-preference": check_energy_preference,
    "sleep-states": check_sleep,
    "smt": check_smt,
    "thermal": check_thermal,
    "smi": check_smi,
    "virtualisation": check_virtualisation,
    "mitigations": check_mitigations,
    "split-locks": check_split_locks,
    "error-polling": check_error_polling,
    "cache-allocation": check_cache_allocation,
    # devices
    "device-power": check_device_power,
    "iommu": check_iommu,
    # the order in which tasks run
    "throttling": check_throttling,
    "fair-server": check_fair_server,
    "control-groups": check_control_groups,
    "scheduler-features": check_scheduler_features,
    "real-time-tasks": check_tasks,
    "interrupt-threads": check_interrupt_threads,
    "timer-threads": check_timer_threads,
    # the CPUs on which tasks and interrupts run
    "isolation": check_isolation,
    "boot-parameters": check_boot_parameters,
    "interrupts": check_interrupts,
    "packets": check_packets,
    "kernel-work": check_kernel_work,
    "rcu": check_rcu,
    "services": check_services,
    "watchdogs": check_watchdogs,
    # memory
    "swap": check_swap,
    "huge-pages": check_huge_pages,
    "numa-balancing": check_numa,
    "page-merging": check_page_merging,
    # the agent
    "privileges": check_privileges,
}


def audit(
    facts: Mapping[str, Fact],
    *,
    cpus: Sequence[int] | None = None,
    load_running: bool = False,
    settings: Settings | None = None,
    priority: int = DEFAULT_PRIORITY,
) -> list[Finding]:
    """The findings of all checks, in the order of their table, then those on a real-time core.

    ``cpus``: the CPUs of the measurement, all online ones by default. ``load_running``: whether a
    load runs with the measurement. ``settings``: the settings that a run changed, which count with
    their new values. ``priority``: that of the measuring threads.
    """
    known = Facts(facts)
    changed = settings_document(settings)
    case = Case(
        known,
        frozenset(cpus) if cpus is not None else online_cpus(known) or frozenset(),
        cpus is not None,
        load_running,
        {name: entry["effective"] for name, entry in changed.items()},
        bool(changed),
        priority,
    )
    return [*(check(name, case) for name, check in CHECKS.items()), *core_findings(case)]
