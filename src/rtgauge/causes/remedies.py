# SPDX-License-Identifier: Apache-2.0
"""What to try against a cause: a table of data, and the command that measures the effect."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rtgauge.causes.model import LATE, Remedy, Segment, Task
from rtgauge.causes.symbols import UNLOADED

__all__ = ["REMEDIES", "System", "remedies"]

REMEDIES_MAX: Final = 2
# The priority to try for the measured task. It does not help against a task with as much.
TRIED: Final = 98


@dataclass(frozen=True)
class System:
    """Known facts of the system and of the measured step."""

    realtime: str
    """As in the environment of the run: ``preempt_rt``, ``voluntary``, …"""
    target: str
    words: tuple[str, ...]
    """The measurement and its options on the command line, quoted for a shell as ``target`` is.
    Empty if no command repeats the step."""
    disturb: str = ""
    left_out: str = ""
    """The end of the command: a comment with the options that it does not repeat."""
    machine: str = "x86_64"
    """The processor, as ``uname -m`` prints it."""
    without_effect: frozenset[str] = frozenset()
    """Arguments that the kernel has already, or ignores."""
    boots: bool = True
    """``rtgauge tune`` boots the target with other arguments for the kernel."""
    host: str = ""
    """What may take time from the system without the knowledge of its kernel."""


@dataclass(frozen=True)
class _Row:
    """A remedy, and when it applies: expressions that match the whole of a text, empty for all."""

    kind: str
    text: str
    function: str = ""
    task: str = ""
    policy: str = ""
    realtime: str = ""
    machine: str = ""
    factor: str = ""
    """For ``rtgauge tune --try``."""


_STOCK: Final = "(?!preempt_rt).*"
_X86: Final = r"(?:x86_64|i\d86)"
_PRIORITY: Final = "priority="

REMEDIES: Final = (
    _Row(
        "lock",
        "randomize_kstack_offset=off: system calls need no random number, and no lock for it",
        function=r"get_random_u(?:8|16|32|64)|choose_random_kstack_offset",
        factor="randomize_kstack_offset=off",
    ),
    _Row(
        "preemption-off",
        "preempt=full: the kernel preempts its own code wherever it holds no lock",
        realtime="voluntary|none|lazy",
        factor="preempt=full",
    ),
    _Row(
        "preemption-off",
        "a PREEMPT_RT kernel: it preempts its own code in sections with spin locks, too",
        realtime=_STOCK,
    ),
    _Row(
        "interrupts-off",
        "a PREEMPT_RT kernel: interrupts stay enabled in most sections with spin locks",
        realtime=_STOCK,
    ),
    _Row(
        "softirq",
        "threadirqs: softirqs that interrupts raise run in threads, which the scheduler orders",
        realtime=_STOCK,
        factor="threadirqs",
    ),
    _Row(
        "softirq",
        "a PREEMPT_RT kernel: softirqs run in the context of tasks, which have priorities",
        realtime=_STOCK,
    ),
    _Row(
        "higher-priority",
        "a higher priority for the measured task, or a lower one for the task that ran",
        task=r"(?!rtgauge|migration/).*",  # the kernel's stopper and deadline tasks precede all
        policy="(?!deadline).*",
        factor=f"{_PRIORITY}{TRIED}",
    ),
    _Row(
        "interrupt",
        "threadirqs: handlers of devices run in threads, which the scheduler orders",
        function=r"(?i)(?!.*(?:timer|tick|clkevt|hpet|sysvec|resched|function.call|call.function"
        r"|irq.work|inter-proc)).*",
        realtime=_STOCK,
        factor="threadirqs",
    ),
    _Row(
        "hardware",
        "idle=poll: the processor does not sleep while idle",
        function=f"(?!(?:{LATE}|idle state 0)$).*",  # state 0 polls
        machine=_X86,
        factor="idle=poll",
    ),
    _Row(
        "hardware",
        "nohlt: the processor does not sleep while idle",
        function=f"(?!{LATE}$).*",
        machine=f"(?!{_X86}).*",
        factor="nohlt",
    ),
)


def remedies(main: Segment, system: System) -> tuple[Remedy, ...]:
    """What to try against the segment that took most of a sample. An injection
    does not need a remedy."""
    task = main.task.name if main.task else ""
    if system.disturb and ("disturb" in task or UNLOADED in (main.function, *main.stack)):
        return (Remedy("nothing: the injection of this run (--disturb) causes it"),)
    return tuple(_found(main, system))[:REMEDIES_MAX]


def _found(main: Segment, system: System) -> Iterator[Remedy]:
    task = main.task or Task("")
    for row in REMEDIES:
        pairs = (
            (row.function, main.function),
            (row.task, task.name),
            (row.policy, task.policy),
            (row.realtime, system.realtime),
            (row.machine, system.machine),
        )
        if row.kind != main.kind or row.factor in system.without_effect:
            continue
        if all(not pattern or re.fullmatch(pattern, text) for pattern, text in pairs):
            beyond = row.kind == "higher-priority" and task.priority >= TRIED
            command = row.factor and not beyond
            yield Remedy(row.text, _command(system, row.factor) if command else "")


def _command(system: System, factor: str) -> str:
    words: Sequence[str] = system.words
    if not words or not (system.boots or factor.startswith(_PRIORITY)):
        return ""
    if system.target:
        words = [*words, f"--target {system.target}"]
    return " ".join(["rtgauge tune", *words, f"--try {factor}"]) + system.left_out
