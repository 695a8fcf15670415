# SPDX-License-Identifier: Apache-2.0
"""Debugging and tracing that was left on."""

from __future__ import annotations

from rtgauge.audit.case import CHECK_CONFIG, Case, Finding, Level, Shell, finding, reason, unknown

__all__ = ["DEBUGGING", "SLIGHT", "check_debugging", "check_tracing"]

#: Options whose cost is in every lock, access, allocation or call, and what that is. After the help
#: texts in lib/Kconfig.debug, lib/Kconfig.k*san, mm/Kconfig.debug and kernel/trace/Kconfig.
DEBUGGING: dict[str, str] = {
    "PROVE_LOCKING": "every lock",
    "LOCKDEP": "every lock",
    "LOCK_STAT": "every lock",
    "DEBUG_LOCK_ALLOC": "every lock",
    "DEBUG_SPINLOCK": "every lock",
    "DEBUG_MUTEXES": "every lock",
    "DEBUG_RT_MUTEXES": "every lock",
    "DEBUG_ATOMIC_SLEEP": "every call that may sleep",
    "DEBUG_PREEMPT": "every access to per-CPU data",
    "KASAN": "every memory access",
    "KCSAN": "every memory access",
    "KMSAN": "every memory access",
    "UBSAN": "much of the arithmetic",
    "KCOV": "every branch",
    "GCOV_KERNEL": "every branch",
    "DEBUG_OBJECTS": "every timer and work item",
    "SLUB_DEBUG_ON": "every allocation",
    "DEBUG_KMEMLEAK": "every allocation",
    "DEBUG_PAGEALLOC_ENABLE_DEFAULT": "every allocation of pages",
    "DEBUG_VM": "memory management",
    "DEBUG_LIST": "every change of a list",
    "DEBUG_NOTIFIERS": "every call of a notifier",
    "IRQSOFF_TRACER": "every time that interrupts are disabled",
    "PREEMPT_TRACER": "every time that preemption is disabled",
    "CONTEXT_TRACKING_USER_FORCE": "every entry into the kernel",
    "LATENCYTOP": "every wait, once it is switched on",
}
#: Those that cost little enough to be used in production.
SLIGHT = frozenset({"DEBUG_LIST", "DEBUG_NOTIFIERS", "UBSAN", "LATENCYTOP", "DEBUG_VM",
                     "IRQSOFF_TRACER", "PREEMPT_TRACER", "DEBUG_RT_MUTEXES"})  # fmt: skip
#: The same asked for at boot: parameter, what it is off with.
_PARAMETERS = {
    "slub_debug": ("-",),
    "slab_debug": ("-",),
    "page_poison": ("0", "off", "n"),
    "debug_pagealloc": ("0", "off", "n"),
    "kmemleak": ("off",),
}


def check_debugging(name: str, case: Case) -> Finding:
    facts = case.facts
    why = "debugging options slow down frequent kernel operations, some of them several-fold"
    states = {option: facts.config(option) for option in DEBUGGING}
    asked = {
        parameter: value
        for parameter, off in _PARAMETERS.items()
        if (value := facts.parameter(parameter)) is not None and value not in off
    }
    on = [option for option, state in states.items() if state == "y"]
    # kmemleak.rst: built in, but off until asked for
    quiet = facts.config("DEBUG_KMEMLEAK_DEFAULT_OFF") == "y" and "kmemleak" not in asked
    if quiet or facts.parameter("kmemleak") == "off":
        on = [option for option in on if option != "DEBUG_KMEMLEAK"]
    if facts.config("FUNCTION_TRACER") == "y" and facts.config("DYNAMIC_FTRACE") == "n":
        on.append("FUNCTION_TRACER")
    heavy = [option for option in on if option not in SLIGHT]
    if on or asked:
        words = [*heavy, *(f"{p}={v}" if v else p for p, v in asked.items())]
        words += [option for option in on if option not in heavy]
        costs = list(dict.fromkeys(DEBUGGING.get(option, "every call") for option in on))
        remedy = []
        if on:
            remedy.append("boot a kernel built without " + ", ".join(f"CONFIG_{o}" for o in on))
        if asked:
            remedy.append(f"remove {', '.join(asked)} from the kernel's parameters")
        return finding(
            name,
            "warning" if heavy or asked else "note",
            ", ".join(words),
            (f"slower: {', '.join(costs)}; " if costs else "") + why,
            "; ".join(remedy),
        )
    if None in states.values():
        return unknown(
            name,
            "the kernel's configuration could not be read",
            why,
            CHECK_CONFIG,
        )
    if facts.parameters("slub_debug") is None:
        return unknown(
            name, "the kernel's command line could not be read", why, "cat /proc/cmdline"
        )
    return finding(name, "ok", "no slow options", "no debugging option costs latency")


_TRACING = "/sys/kernel/tracing/"


def check_tracing(name: str, case: Case) -> Finding:
    # trace/ftrace.rst, trace/events.rst: what is traced costs time wherever it happens
    facts = case.facts
    why = "each traced event takes longer"
    tracer = facts.text(_TRACING + "current_tracer")
    events = facts.text(_TRACING + "events/enable")
    recording = facts.text(_TRACING + "tracing_on") != "0"
    on: list[str] = []
    remedy: list[str] = []
    if tracer not in (None, "", "nop"):
        on.append(f"tracer {tracer}")
        remedy.append(f"echo nop > {_TRACING}current_tracer")
    if events in ("1", "X"):
        on.append("all events" if events == "1" else "some events")
        remedy.append(f"echo 0 > {_TRACING}events/enable")
    slight = not recording or on == ["some events"]
    if on and not recording:
        on.append("not recorded (tracing_on 0)")
    for word, label in (("stack_tracer_enabled", "stack tracer"), ("latencytop", "latencytop")):
        if (facts.integer(f"/proc/sys/kernel/{word}") or 0) > 0:
            on.append(label)
            remedy.append(f"sysctl -w kernel.{word}=0")
            slight = False
    if (facts.integer("/proc/sys/kernel/sched_schedstats") or 0) > 0:
        on.append("scheduler statistics")
        remedy.append("sysctl -w kernel.sched_schedstats=0")
        slight = slight or len(on) == 1
    if on:
        level: Level = "note" if slight else "warning"
        return finding(name, level, ", ".join(on), why, Shell("; ".join(remedy)))
    if tracer is None or events is None:
        if facts.config("FTRACE") == "n":
            return finding(name, "ok", "not in this kernel", "nothing can be traced")
        file = _TRACING + ("current_tracer" if tracer is None else "events/enable")
        if facts.absent(file):
            return unknown(
                name,
                "tracefs is not mounted",
                why,
                "mount -t tracefs nodev /sys/kernel/tracing, then check again",
            )
        return unknown(
            name, f"{file} could not be read{reason(facts.error(file))}", why, "check as root"
        )
    return finding(name, "ok", "none", "no tracer and no event is on")
