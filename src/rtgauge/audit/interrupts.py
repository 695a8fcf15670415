# SPDX-License-Identifier: Apache-2.0
"""Interrupts, their threads, and other real-time tasks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rtgauge.audit.case import PREPARE, Case, Finding, Shell, cpus_text, finding, unknown
from rtgauge.audit.isolation import isolcpus
from rtgauge.facts import CPU
from rtgauge.facts.interpret import online_cpus, preemption
from rtgauge.units import format_cpus, read_cpus, read_integer, read_interrupts, read_mask

__all__ = [
    "check_interrupt_threads",
    "check_interrupts",
    "check_packets",
    "check_tasks",
    "check_timer_threads",
]

_ALLOWED = "/proc/irq/*/smp_affinity_list"
_EFFECTIVE = "/proc/irq/*/effective_affinity_list"
_ACTIONS = "/sys/kernel/irq/*/actions"
_TASKS = "agent.realtime_tasks"


def _affinities(case: Case) -> dict[int, frozenset[int]] | None:
    """Where each interrupt goes that has a handler; what a run set counts."""
    allowed, effective = case.facts.lines(_ALLOWED, "="), case.facts.lines(_EFFECTIVE, "=")
    if not allowed and not effective:
        return None
    handlers = case.facts.lines(_ACTIONS, "=")
    cpus: dict[int, frozenset[int]] = {}
    for number, text in {**allowed, **{n: t for n, t in effective.items() if t}}.items():
        place = read_cpus(text)
        if read_integer(number) is not None and place and handlers.get(number, "?"):
            cpus[int(number)] = place
    for name, value in case.settings.items():
        match = re.fullmatch(r"/proc/irq/\{?([\d,-]{1,20000})\}?/smp_affinity_list", name)
        moved_to = read_cpus(value) if value is not None else None
        if match is not None and moved_to:
            for moved in read_interrupts(match[1]) or ():
                if moved in cpus:
                    cpus[moved] = moved_to
    return cpus


def check_interrupts(name: str, case: Case) -> Finding:
    # core-api/irq/irq-affinity
    why = "an interrupt's handler, or the wake-up of its thread, stops the task on that CPU"
    affinities = _affinities(case)
    online = online_cpus(case.facts)
    if affinities is None:
        return unknown(
            name,
            "the affinity of the interrupts could not be read",
            why,
            "grep . /proc/irq/*/effective_affinity_list",
        )
    if online is None:
        return unknown(name, "the list of online CPUs could not be read", why, f"cat {CPU}online")
    measured = case.cpus or online
    here = {number for number, cpus in affinities.items() if cpus & measured}
    run = any(key.startswith("/proc/irq/") and value for key, value in case.settings.items())
    start = "during the run: " if run else ""
    if not here:
        return finding(
            name,
            "ok",
            f"{start}none of {len(affinities)} on the measured CPUs",
            "the measured CPUs take no interrupts",
        )
    apart = case.apart()
    if not apart:
        return finding(
            name,
            "ok" if len(online) == 1 else "note",
            f"{start}{len(here)} on the measured CPUs",
            f"{why}; every CPU is measured, so no other CPU can take them"
            if len(online) > 1
            else "a single CPU takes all interrupts",
            ""
            if len(online) == 1
            else "measure on some of the CPUs (--cpu), and keep the others for interrupts",
        )
    here = {number for number in here if affinities[number] & apart}
    if not here:
        return finding(
            name, "ok", f"{start}none on {cpus_text(apart)}", "the isolated CPUs take no interrupts"
        )
    handlers = case.facts.lines(_ACTIONS, "=")
    words = [f"{n} ({handlers[str(n)]})" if handlers.get(str(n)) else str(n) for n in sorted(here)]
    more = f" and {len(words) - 3} more" if len(words) > 3 else ""
    rest = format_cpus(online - apart)
    parameter = isolcpus(case.facts, apart)
    managed = (
        f"; for interrupts that the kernel places itself, boot with {parameter}"
        if "managed_irq" in parameter
        else ""
    )
    return finding(
        name,
        "warning",
        f"{start}{', '.join(words[:3])}{more} on {cpus_text(apart)}",
        why,
        f"echo {rest} > /proc/irq/NUMBER/smp_affinity_list, boot with irqaffinity={rest}, and keep"
        f" irqbalance off these CPUs (IRQBALANCE_BANNED_CPULIST){managed}; {PREPARE}",
    )


@dataclass(frozen=True, slots=True)
class _Task:
    policy: int  # sched(7): 1 FIFO, 2 RR, 6 DEADLINE
    priority: int
    kernel: bool
    name: str
    cpus: frozenset[int] | None = None  # those it may run on; None: not known

    @property
    def text(self) -> str:
        place = f" on {cpus_text(self.cpus)}" if self.cpus else ""
        return f"{self.name} ({'deadline' if self.policy == 6 else self.priority}){place}"


def _tasks(listing: str | None) -> list[_Task]:
    tasks = []
    for line in (listing or "").splitlines():
        match = re.fullmatch(
            r"(\d{1,2}) (\d{1,2}) (\d{1,9}) (?:(\?|\d[\d,-]{0,20000}) )?(.*)", line
        )
        if match is not None:
            kernel = match[3] == "2" or (match[3] == "0" and match[5] == "kthreadd")
            cpus = read_cpus(match[4]) if match[4] else None
            tasks.append(_Task(int(match[1]), int(match[2]), kernel, match[5][:40], cpus or None))
    return tasks


def _visible(tasks: list[_Task]) -> bool:
    """Whether kernel threads can be seen: a container hides them. Every kernel that could
    run a real-time task for others has one (migration, in the first place)."""
    return any(task.kernel for task in tasks)


def check_interrupt_threads(name: str, case: Case) -> Finding:
    # kernel/irq/manage.c: threads begin as SCHED_FIFO 50 (sched_set_fifo), whatever they do
    facts = case.facts
    why = "a task of the same or a lower priority waits until the handlers' threads are done"
    listing = facts.text(_TASKS)
    tasks = _tasks(listing)
    if listing is None or not _visible(tasks):
        return unknown(
            name,
            "kernel threads are not visible",
            why,
            "ps -eLo rtprio,comm | grep irq/",
        )
    affinities = _affinities(case) or {}
    online = online_cpus(facts) or frozenset()
    measured = case.cpus or online
    threads = []
    for task in tasks:
        match = re.match(r"irq/(\d{1,9})-", task.name)
        if match is not None and task.kernel:
            place = affinities.get(int(match[1]))
            if place is None or not measured or place & measured:
                threads.append(task)
    threaded = preemption(facts).model == "preempt_rt" or facts.parameter("threadirqs") is not None
    if not threaded:
        own = "its own thread" if len(threads) == 1 else "their own threads"
        more = f", except {len(threads)} with {own}" if threads else ""
        return finding(
            name,
            "note",
            f"not threaded{more}",
            "handlers run at once and to completion, before tasks of any priority",
            "boot with threadirqs (needs IRQ_FORCED_THREADING), or boot a PREEMPT_RT kernel",
        )
    if not threads:
        return finding(name, "ok", "none on the measured CPUs", "no handler's thread runs there")
    by_priority: dict[int, int] = {}
    for task in threads:
        by_priority[task.priority] = by_priority.get(task.priority, 0) + 1
    found = ", ".join(
        f"{by_priority[p]} at priority {p}" for p in sorted(by_priority, reverse=True)[:6]
    )
    above = sum(count for p, count in by_priority.items() if p >= case.priority)
    tie = case.priority in by_priority
    if above:
        top, below = max(by_priority), case.priority - 1
        parts = []
        if top < 99 or below < 1:
            parts.append(f"use a priority above {min(top, 98)} (--priority)")
        if below >= 1:
            parts.append(
                f"chrt -f -p {below} PID for the threads that may wait. For a run:"
                f" --irq-priority {below}"
            )
        return finding(
            name,
            "warning",
            f"{found}, the measured tasks at {case.priority}" + (" (a tie)" if tie else ""),
            why,
            ", or ".join(parts),
        )
    return finding(
        name,
        "ok",
        f"{found}, the measured tasks at {case.priority}",
        "an application that must run before them also needs a higher priority",
    )


def check_tasks(name: str, case: Case) -> Finding:
    # sched(7): a task of a higher priority comes first, SCHED_DEADLINE before all of them
    why = "tasks of higher priority run first, and tasks of the same priority do not yield"
    listing = case.facts.text(_TASKS)
    if listing is None:
        return unknown(name, "no list of tasks", why, "ps -eLo class,rtprio,tid,comm")
    others = [task for task in _tasks(listing) if not task.kernel]
    # those of another run, for which a run waits
    tasks = [task for task in others if not task.name.startswith("rtgauge-")]
    rivals = [
        task
        for task in tasks
        if (task.policy == 6 or task.priority >= case.priority)
        and (not task.cpus or not case.cpus or task.cpus & case.cpus)
    ]
    if rivals:
        words = [
            task.text
            for task in sorted(rivals, key=lambda task: (-task.policy, -task.priority, task.name))
        ]
        more = f" and {len(words) - 4} more" if len(words) > 4 else ""
        return finding(
            name,
            "warning",
            ", ".join(words[:4]) + more,
            why,
            "end these tasks, move them to other CPUs (taskset -cp LIST TID), or lower their"
            " priority (chrt -f -p PRIORITY TID). ps -eLo class,rtprio,tid,psr,comm lists them",
        )
    if not _visible(_tasks(listing)):
        return unknown(
            name,
            "no real-time task is visible, not even one of the kernel: tasks may be hidden",
            why,
            "check as root, outside of containers",
        )
    if "agent.realtime_tasks.cut" in case.facts:
        return unknown(
            name, "the list of tasks is incomplete", why, "ps -eLo class,rtprio,tid,comm"
        )
    if not tasks:
        found = "only kernel threads" + (" and a run of rtgauge" if others else "")
    elif len(tasks) == 1:
        found = tasks[0].text
    else:
        found = f"{len(tasks)} threads, none at {case.priority} or above on the measured CPUs"
    return finding(name, "ok", found, "no other program runs before the measured tasks")


def check_timer_threads(name: str, case: Case) -> Finding:
    # On PREEMPT_RT, timers that are not those of a sleep (clock_nanosleep) expire in a soft
    # interrupt: kernel/softirq.c, ktimers/N from 6.1 on (SCHED_FIFO 1), ksoftirqd/N before
    facts = case.facts
    why = (
        "timers of timerfd, timer_create and setitimer (methods timerfd, timer and itimer) expire"
        " in kernel threads, which wait for every task of higher priority"
    )
    model = preemption(facts).model
    if model == "unknown":
        return unknown(name, "the preemption model is not known", why, "uname -v")
    if model != "preempt_rt":
        return finding(name, "ok", "none", "timers expire in the timer interrupt")
    remedy = (
        f"for p in $(pgrep '^(ktimers|ksoftirqd)/'); do chrt -f -p {min(case.priority + 1, 99)}"
        " $p; done # or sleep with clock_nanosleep, which needs no thread"
    )
    listing = facts.text(_TASKS)
    tasks = _tasks(listing)
    if listing is None or not _visible(tasks) or "agent.realtime_tasks.cut" in facts:
        return unknown(name, "kernel threads are not visible", why, remedy)
    threads = [task for task in tasks if task.kernel and task.name.startswith("ktimers/")]
    threads = threads or [t for t in tasks if t.kernel and t.name.startswith("ksoftirqd/")]
    here = [t for t in threads if not t.cpus or not case.cpus or t.cpus & case.cpus]
    if not here:
        return finding(name, "note", "ksoftirqd, without real-time priority", why, remedy)
    lowest = min(task.priority for task in here)
    kind = here[0].name.partition("/")[0]
    if lowest < case.priority:
        found = f"{kind} at priority {lowest}, the measured tasks at {case.priority}"
        return finding(name, "note", found, why, remedy)
    found = f"{kind} at priority {lowest}"
    return finding(name, "ok", found, "they run before the measured tasks")


_RPS = "/sys/class/net/*/queues/rx-0/rps_cpus"
_XPS = "/sys/class/net/*/queues/tx-0/xps_cpus"


def check_packets(name: str, case: Case) -> Finding:
    # networking/scaling: RPS hands received packets to other CPUs by an interrupt; XPS chooses the
    # queue that a CPU sends through. Only the first queue is checked.
    facts = case.facts
    why = "with RPS, a CPU processes packets of other CPUs in a soft interrupt"
    if facts.text(_RPS) is None:
        if facts.absent(_RPS):
            return finding(name, "ok", "no interface", "no packets arrive")
        return unknown(name, f"{_RPS} could not be read", why, f"grep . {_RPS}")
    apart = case.apart() or frozenset(case.cpus if case.chosen else ())
    steered = {
        interface: read_mask(text) or frozenset()
        for interface, text in facts.lines(_RPS, "=").items()
    }
    here = sorted(one for one, cpus in steered.items() if cpus & (apart or case.cpus))
    rest = (online_cpus(facts) or frozenset()) - apart
    if here:
        place = frozenset().union(*(steered[one] for one in here)) & (apart or case.cpus)
        mask = f"{sum(1 << cpu for cpu in rest):x}" if apart and rest and max(rest) < 32 else "0"
        return finding(
            name,
            "note",
            f"packets of {', '.join(here[:3])} handed to {cpus_text(place)} (RPS)",
            why,
            Shell(f"for q in /sys/class/net/*/queues/rx-*/rps_cpus; do echo {mask} > $q; done"),
        )
    shared = sorted(
        interface
        for interface, text in facts.lines(_XPS, "=").items()
        if (cpus := read_mask(text) or frozenset()) & apart and cpus - apart
    )
    if shared:
        return finding(
            name,
            "note",
            f"a queue of {', '.join(shared[:3])} shared with {cpus_text(apart)} (XPS)",
            "a sender waits for the queue's lock, which other CPUs also take",
            "give these CPUs their own queue: xps_cpus in /sys/class/net/IFACE/queues/tx-N",
        )
    why = "each packet stays on the CPU that received it"
    return finding(name, "ok", "no packets handed to other CPUs", why)
