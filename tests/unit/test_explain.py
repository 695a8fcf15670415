# SPDX-License-Identifier: Apache-2.0
"""The replay's records become segments: stacks from calls and returns, classes, names, blame."""

import contextlib
import errno
import itertools
import json
import os
import shlex
import shutil
import struct
import subprocess
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import report_runs as made
from conftest import Result
from counted import lines_of
from rtgauge.causes import CLASSES, Cause, Cost, Remedy, Segment, Task, document_of
from rtgauge.causes.advice import advised, system_of
from rtgauge.causes.blame import blame, main_segment
from rtgauge.causes.cut import Step, Tasks, cut, walk
from rtgauge.causes.explain import Explained, _cuts, explain, keep, select
from rtgauge.causes.placing import operation, pair, tolerance_ns
from rtgauge.causes.remedies import REMEDIES, System, remedies
from rtgauge.causes.replay import Clock, Guest, Sample, _Replay, _start, check, replayed
from rtgauge.causes.symbols import UNLOADED, USER, Symbols, TaskLayout
from rtgauge.errors import RtgaugeError, StoreError, TargetError, UsageError
from rtgauge.lab import images, recorder
from rtgauge.lab.cache import digest_of, write_record
from rtgauge.lab.machine import Answer, Output
from rtgauge.lab.names import names
from rtgauge.lab.prune import prune
from rtgauge.lab.recorder import (
    ANCHOR,
    BLOCK,
    CALL,
    EXCEPTION_RETURN,
    FROM,
    JUMP,
    OTHER,
    RECORD,
    RETURN,
    SYSCALL,
    TASK,
    TASK_BYTES,
    TO,
    Piece,
    Recording,
)
from rtgauge.report.document.answer import answer_of
from rtgauge.report.document.answer.cause import _likely, hint_of
from rtgauge.report.document.answer.data import Data
from rtgauge.report.document.blocks import Document, plain_line
from rtgauge.report.document.causes import causes_sections
from rtgauge.report.pictures.segments import gantt, gantt_said
from rtgauge.report.render import markdown
from rtgauge.report.render.causes_text import common, lines
from rtgauge.report.render.perfetto import trace
from rtgauge.report.results import model
from rtgauge.report.results.gather import medians
from rtgauge.store import Store, StoredRun, new_run_id
from rtgauge.store.samples import IMPORTED
from rtgauge.stream import StreamWriter, Tally
from rtgauge.target.lab import LabTarget

Run = Callable[..., Result]

BASE = 0xFFFFFFFF81000000
NAMES = (
    "asm_sysvec_apic_timer_interrupt",
    "sysvec_apic_timer_interrupt",
    "try_to_wake_up",
    "entry_SYSCALL_64",
    "do_work",
    "helper.constprop.0",
    "__schedule",
    "__switch_to_asm",
    "handle_softirqs",
    "net_rx_action",
    "rt_spin_lock",
    "get_random_u16",
    "rt_spin_unlock",
    "rt_mutex_setprio",
    "__mutex_lock",
)
SETUP = {"program": "qemu", "package": "qemu"}


def recorded(rows: Sequence[tuple[int, ...]]) -> NDArray[np.void]:
    """Records as the plugin writes them. Most of them have no argument of a function."""
    return np.array([(*row, 0)[:7] for row in rows], RECORD)


AT = {name: BASE + 0x100 * number for number, name in enumerate(NAMES)}
KALLSYMS = "".join(f"{address:016x} t {name}\n" for name, address in AT.items()).encode()
LOW, HIGH = 0xFFFF888000001000, 0xFFFF888000002000
WAKER, OTHER_TASK = 0xFFFF888000003000, 0xFFFF888000004000
TIMERS = Task("ktimers/0", 5, "fifo", 1)
ORDINARY, MEASURED = Task("load/sched", 7, "other"), Task("measure", 9, "fifo", 80)


class Program:
    """Records of a program, block by block. A block takes 10 ns unless given."""

    def __init__(self) -> None:
        self.time = 1000
        self.rows: list[tuple[int, ...]] = [(self.time, LOW, 0, 0, TO, 0)]

    def run(
        self, name: str, end: int = OTHER, *, offset: int = 0, ns: int = 10, argument: int = 0
    ) -> "Program":
        address = AT[name] + offset if name in AT else 0x5000 + offset
        low = argument & 0xFFFFFFFF
        self.rows.append((self.time, address, address + 4, ns, BLOCK, end, low))
        self.time += ns
        return self

    def switch(self, leaving: int, entering: int) -> "Program":
        self.rows += [(self.time, leaving, 0, 0, FROM, 0), (self.time, entering, 0, 0, TO, 0)]
        return self

    def jump(self, ns: int) -> "Program":
        self.time += ns
        self.rows.append((self.time, 0, 0, 0, JUMP, 0))
        return self

    def steps(self) -> list[Step]:
        """The blocks so far: a window ends later than the sample."""
        rows = [*self.rows, (self.time, AT["rt_mutex_setprio"], 0, 0, BLOCK, OTHER)]
        return list(walk([recorded(rows)], Symbols(KALLSYMS)))[:-1]


class Known(Tasks):
    """Some tasks, without the bytes of a kernel."""

    def __init__(self) -> None:
        self._known = {LOW: (ORDINARY, 120), HIGH: (MEASURED, 19), WAKER: (TIMERS, 98)}


def wake_up(program: Program, work: str = "do_work") -> Program:
    """An interrupt in the work of an ordinary task wakes the measured one, which runs later."""
    program.run("user").run("user", SYSCALL, offset=8)
    program.run("entry_SYSCALL_64", CALL).run(work, CALL).run("helper.constprop.0", ns=40)
    program.run("asm_sysvec_apic_timer_interrupt", CALL).run("sysvec_apic_timer_interrupt", CALL)
    program.run("try_to_wake_up", RETURN).run("sysvec_apic_timer_interrupt", RETURN, offset=4)
    program.run("asm_sysvec_apic_timer_interrupt", EXCEPTION_RETURN, offset=4)
    program.run("helper.constprop.0", RETURN, offset=8, ns=700).run(work, CALL, offset=4)
    program.run("__schedule", CALL).run("__switch_to_asm", ns=20).switch(LOW, HIGH)
    return program.run("__schedule", offset=8).run("do_work", ns=30).run("user", offset=0x10)


def test_stacks_follow_calls_returns_and_interrupts() -> None:
    steps = wake_up(Program()).steps()
    stacks = [step.stack for step in steps]
    assert stacks[0] == (USER,)
    assert stacks[4] == ("entry_SYSCALL_64", "do_work", "helper")
    entry = "!asm_sysvec_apic_timer_interrupt"
    assert stacks[5] == (*stacks[4], entry)
    assert stacks[7] == (*stacks[4], entry, "sysvec_apic_timer_interrupt", "try_to_wake_up")
    assert stacks[8] == stacks[6]
    assert stacks[9] == stacks[5]
    assert stacks[10] == stacks[4]
    assert stacks[11] == stacks[3]
    assert [step.task for step in steps[-3:]] == [HIGH] * 3


def test_the_segments_of_a_wake_up_cover_it_exactly() -> None:
    program = wake_up(Program())
    found = cut(program.steps(), 1050, program.time - 3, Known(), handler=False)
    kinds = [(one.kind, one.length_ns, one.task) for one in found.segments]
    assert kinds == [
        ("interrupts-off", 30, ORDINARY),
        ("interrupt", 50, ORDINARY),
        ("preemption-off", 710, ORDINARY),
        ("switch", 30, ORDINARY),
        ("switch", 10, MEASURED),
        ("return", 37, MEASURED),
    ]
    assert found.rest_ns == 0
    assert sum(one.length_ns for one in found.segments) == program.time - 3 - 1050
    begins = np.cumsum([0, *(one.length_ns for one in found.segments[:-1])])
    assert [one.begin_ns for one in found.segments] == begins.tolist()
    blocked = found.segments[2]
    assert blocked.function == "helper"
    assert blocked.functions == (("helper", 700), ("do_work", 10))
    assert blocked.stack == ("helper", "do_work", "entry_SYSCALL_64")


def test_the_class_follows_from_what_ran_after_the_wake_up() -> None:
    program = wake_up(Program())
    program.rows = program.rows[: -len(program.rows) + 12]  # to the end of the interrupt
    program.time = program.rows[-1][0] + 10
    program.run("helper.constprop.0", CALL, offset=8)
    program.run("handle_softirqs", CALL).run("net_rx_action", RETURN, ns=500)
    program.run("handle_softirqs", RETURN, offset=4).switch(LOW, HIGH)
    program.run("get_random_u16", CALL).run("rt_spin_lock", CALL).run("__schedule", ns=20)
    program.switch(HIGH, LOW).run("do_work", ns=300).run("__schedule").switch(LOW, HIGH)
    program.run("__schedule", RETURN, offset=4).run("rt_spin_lock", RETURN, offset=4)
    program.run("get_random_u16", RETURN, offset=4)
    found = cut(program.steps(), 1050, program.time, Known(), handler=False).segments
    softirq = next(one for one in found if one.kind == "softirq")
    assert (softirq.function, softirq.length_ns) == ("net_rx_action", 520)
    locks = [one for one in found if one.kind == "lock"]
    assert sum(one.length_ns for one in locks) == 10 + 20 + 300 + 10 + 10 + 10
    assert {one.function for one in locks} == {"get_random_u16"}
    assert locks[1].owner == ORDINARY
    assert found[-1].kind == "return"


def test_a_task_of_higher_priority_and_a_halted_processor_are_told_apart() -> None:
    tasks = Known()
    tasks._known[LOW] = (Task("irq/9", 3, "fifo", 90), 9)
    program = wake_up(Program())
    kinds = [
        one.kind for one in cut(program.steps(), 1050, program.time, tasks, handler=False).segments
    ]
    assert "higher-priority" in kinds
    assert "preemption-off" not in kinds
    idle = Program().run("do_work").jump(5000).run("asm_sysvec_apic_timer_interrupt", CALL)
    idle.run("sysvec_apic_timer_interrupt")
    found = cut(idle.steps(), 2000, idle.time, Known(), handler=True)
    assert [one.kind for one in found.segments] == ["hardware", "interrupt"]
    assert found.segments[0].length_ns == 5010 - 1000
    assert found.rest_ns == 0


def test_a_processor_that_was_halted_before_the_window_is_covered() -> None:
    idle = Program().jump(5000).run("asm_sysvec_apic_timer_interrupt", CALL)
    found = cut(idle.steps(), 5900, idle.time, Known(), handler=True)
    assert [(one.kind, one.length_ns) for one in found.segments] == [
        ("hardware", 100),
        ("interrupt", 10),
    ]
    assert found.rest_ns == 0


def test_the_owner_of_a_lock_is_named_and_its_release_is_no_wait() -> None:
    program = wake_up(Program())
    program.run("get_random_u16", CALL, offset=4).run("rt_spin_lock", CALL).switch(HIGH, LOW)
    program.run("do_work", ns=90).switch(LOW, HIGH).run("rt_spin_lock", RETURN, offset=4)
    program.run("get_random_u16", CALL, offset=8).run("rt_spin_unlock", CALL).run(
        "rt_mutex_setprio"
    )
    found = cause(*cut(program.steps(), 1050, program.time, Known(), handler=False).segments)
    locks = [one for one in found.segments if one.kind == "lock"]
    assert [(one.length_ns, one.owner) for one in locks] == [(10, None), (90, ORDINARY), (10, None)]
    assert {one.function for one in locks} == {"get_random_u16"}
    assert found.segments[-1].kind == "return"
    text = "\n".join(lines(found, "timer latency"))
    assert "0.110     waiting for a lock      in get_random_u16, held by load/sched" in text


def test_softirqs_in_a_thread_that_holds_the_lock_are_the_wait_for_it() -> None:
    """A thread of PREEMPT_RT for timers was preempted by the task that it had woken."""
    program = wake_up(Program())
    program.run("get_random_u16", CALL, offset=4).run("rt_spin_lock", CALL).switch(HIGH, LOW)
    program.run("handle_softirqs", ns=60).run("net_rx_action", ns=30).switch(LOW, HIGH)
    program.run("rt_spin_lock", RETURN, offset=4).run("handle_softirqs", ns=20)
    found = cut(program.steps(), 1050, program.time, Known(), handler=False).segments
    locks = [one for one in found if one.kind == "lock"]
    assert [(one.length_ns, one.owner) for one in locks] == [(10, None), (90, ORDINARY), (10, None)]
    # its own ones are not
    assert (found[-1].kind, found[-1].length_ns) == ("softirq", 20)


def wake_up_by_thread(between: Callable[[Program], object], blocks: bool = True) -> Program:
    """An interrupt wakes a thread for timers, which waits for a lock before it wakes the measured
    task. ``between``: what runs until the lock is free."""
    program = Program().run("user").run("user", SYSCALL, offset=8)
    program.run("entry_SYSCALL_64", CALL).run("do_work", ns=40)
    program.run("asm_sysvec_apic_timer_interrupt", CALL).run("sysvec_apic_timer_interrupt", CALL)
    program.run("try_to_wake_up", RETURN, argument=WAKER)
    program.run("sysvec_apic_timer_interrupt", RETURN, offset=4)
    program.run("asm_sysvec_apic_timer_interrupt", EXCEPTION_RETURN, offset=4)
    program.run("do_work", CALL, offset=4).run("__schedule", CALL).switch(LOW, WAKER)
    program.run("handle_softirqs", CALL).run("get_random_u16", CALL).run("rt_spin_lock", CALL)
    program.run("__schedule").switch(WAKER, LOW)
    between(program)
    if blocks:
        program.run("try_to_wake_up", RETURN, argument=WAKER)
    program.run("do_work", CALL, offset=8).run("__schedule").switch(LOW, WAKER)
    program.run("__schedule", RETURN, offset=4).run("rt_spin_lock", RETURN, offset=4)
    program.run("get_random_u16", RETURN, offset=4).run("handle_softirqs", CALL, offset=4)
    program.run("try_to_wake_up", RETURN, argument=HIGH).run("__schedule").switch(WAKER, HIGH)
    return program.run("__schedule", offset=8).run("do_work", ns=30).run("user", offset=0x10)


def kinds_of(program: Program, tasks: Tasks) -> list[tuple[str, int, Task | None, Task | None]]:
    found = cut(program.steps(), 1055, program.time, tasks, handler=False)
    assert found.rest_ns == 0
    return [(one.kind, one.length_ns, one.task, one.owner) for one in found.segments]


def test_a_lock_that_the_waking_thread_waits_for_has_its_owner() -> None:
    program = wake_up_by_thread(lambda program: program.run("do_work", CALL, ns=30_000))
    found = kinds_of(program, Known())
    # until the thread runs again
    assert ("lock", 30_000 + 10 + 10 + 10, ORDINARY, ORDINARY) in found
    assert [length for kind, length, *_ in found if kind == "preemption-off"] == [10]
    segments = cut(program.steps(), 1055, program.time, Known(), handler=False).segments
    assert {one.function for one in segments if one.kind == "lock"} == {"get_random_u16"}
    assert "get_random_u16, held by load/sched" in blame(segments, program.time - 1055, 10)[0]


def test_a_task_that_is_awake_when_it_is_due_may_wait_for_a_lock() -> None:
    """Its first wake-up is that of the owner. What ran before it was the task itself."""
    program = Program().switch(LOW, HIGH).run("do_work", CALL, ns=300)
    program.run("get_random_u16", CALL).run("rt_spin_lock", CALL, ns=20).run("__schedule")
    program.switch(HIGH, LOW).run("do_work", CALL, ns=500)
    program.run("rt_spin_unlock", CALL).run("try_to_wake_up", RETURN, argument=HIGH)
    program.run("rt_spin_unlock", RETURN, offset=4).run("__schedule").switch(LOW, HIGH)
    program.run("__schedule", RETURN, offset=8).run("rt_spin_lock", RETURN, offset=4)
    program.run("get_random_u16", RETURN, offset=4).run("do_work", ns=30, offset=4)
    found = cut(program.steps(), 1000, program.time, Known(), handler=False)
    assert found.rest_ns == 0
    assert {one.kind for one in found.segments} == {"return", "lock"}
    assert found.segments[0].kind == "return"
    held = [one for one in found.segments if one.owner]
    assert [(one.owner, one.length_ns) for one in held] == [(ORDINARY, 540)]


def test_a_task_that_an_interrupt_wakes_as_it_goes_to_sleep_was_not_awake() -> None:
    program = Program().switch(LOW, HIGH).run("do_work", CALL).run("__schedule", CALL, ns=300)
    program.run("asm_sysvec_apic_timer_interrupt", CALL).run("sysvec_apic_timer_interrupt", CALL)
    program.run("try_to_wake_up", RETURN, argument=HIGH)
    program.run("sysvec_apic_timer_interrupt", RETURN, offset=4)
    program.run("asm_sysvec_apic_timer_interrupt", EXCEPTION_RETURN, offset=4)
    program.run("__schedule", RETURN, offset=8).run("do_work", ns=30, offset=4)
    found = cut(program.steps(), 1000, program.time, Known(), handler=False)
    assert found.segments[0].kind == "interrupts-off"
    assert "lock" not in {one.kind for one in found.segments}


def test_a_task_that_ran_on_until_it_waits_for_its_timer_waits_for_no_lock() -> None:
    """It was still busy when it was due. On PREEMPT_RT a thread that carries out softirqs wakes it,
    after another one of a priority between the two."""
    tasks, between = Known(), Task("irq/9-acpi", 12, "fifo", 50)
    tasks._known[OTHER_TASK] = (between, 49)
    program = Program().switch(LOW, HIGH).run("do_work", CALL)
    program.run("asm_sysvec_apic_timer_interrupt", CALL).run("sysvec_apic_timer_interrupt", CALL)
    program.run("try_to_wake_up", RETURN, argument=WAKER)
    program.run("sysvec_apic_timer_interrupt", RETURN, offset=4)
    program.run("asm_sysvec_apic_timer_interrupt", EXCEPTION_RETURN, offset=4)
    program.run("do_work", CALL, ns=300, offset=4).run("__schedule").switch(HIGH, OTHER_TASK)
    program.run("helper.constprop.0", ns=500).switch(OTHER_TASK, WAKER)
    program.run("handle_softirqs", CALL, ns=40).run("try_to_wake_up", RETURN, argument=HIGH)
    program.run("__schedule").switch(WAKER, HIGH)
    program.run("__schedule", RETURN, offset=8).run("do_work", ns=30, offset=8)
    found = cut(program.steps(), 1010, program.time, tasks, handler=False)
    assert found.rest_ns == 0
    assert [(one.kind, one.length_ns, one.task) for one in found.segments] == [
        ("interrupt", 50, MEASURED),
        ("higher-priority", 300, MEASURED),
        ("switch", 10, MEASURED),
        ("higher-priority", 500, between),
        ("softirq", 50, TIMERS),
        ("switch", 10, TIMERS),
        ("switch", 10, MEASURED),
        ("return", 30, MEASURED),
    ]


@pytest.mark.parametrize("ended_by", ["interrupt", "softirq", "task"])
@pytest.mark.parametrize("lock", ["__mutex_lock", "rt_spin_lock"])
def test_a_wait_that_no_task_ends_has_no_owner(ended_by: str, lock: str) -> None:
    """Such as that for a semaphore, or with a time limit. The task that ran is not to blame. Only a
    spinning lock of PREEMPT_RT is given back by a thread in a softirq."""
    program = wake_up(Program())
    program.run("do_work", CALL, offset=4).run(lock, CALL).switch(HIGH, LOW)
    program.run("helper.constprop.0", CALL, ns=50_000)
    if ended_by == "interrupt":
        program.run("asm_sysvec_apic_timer_interrupt", CALL)
    elif ended_by == "softirq":
        program.run("handle_softirqs", CALL)
    program.run("try_to_wake_up", RETURN, argument=HIGH).switch(LOW, HIGH)
    program.run("do_work", ns=30)
    steps = program.steps()
    # the first wake-up, by the interrupt that was due
    first = next(place for place, one in enumerate(steps) if one.stack[-1] == "try_to_wake_up")
    steps[first] = steps[first]._replace(woken=HIGH & 0xFFFFFFFF)
    found = cut(steps, 1050, program.time, Known(), handler=False).segments
    waited = [one for one in found if one.kind == "lock" and one.length_ns >= 50_000]
    assert [one.function for one in waited] == ["do_work"]
    owned = ended_by == "task" or (ended_by == "softirq" and lock == "rt_spin_lock")
    assert [one.owner for one in waited] == [ORDINARY if owned else None]
    said = blame(found, program.time - 1050, 10)[0]
    assert ("held by load/sched" in said) is owned


def test_the_work_for_a_sample_is_in_proportion_to_its_blocks() -> None:
    """Tasks wake each other, and the last one waits for a lock again and again."""

    def work(size: int) -> int:
        tasks = [*range(0x9000, 0x9000 + 0x10 * size, 0x10), HIGH]
        steps: list[Step] = []
        wakes = ("do_work", "try_to_wake_up")
        for task, woken in itertools.pairwise(tasks):
            steps.append(Step(10 * len(steps), 10, task, wakes, woken=woken & 0xFFFFFFFF))
        for _ in range(size):
            lock = ("get_random_u16", "rt_spin_lock")
            steps.append(Step(10 * len(steps), 10, HIGH, lock))
            steps += [Step(10 * len(steps) + 10 * at, 10, LOW, ("do_work",)) for at in range(3)]
            steps.append(Step(10 * len(steps), 10, LOW, wakes, woken=HIGH & 0xFFFFFFFF))
        steps.append(Step(10 * len(steps), 10, HIGH, ("do_work",)))
        return lines_of(lambda: cut(steps, 0, 10 * len(steps), Known(), handler=False))

    work(10)  # fills the caches
    assert work(400) < 2.2 * work(200)


def test_a_waking_thread_that_is_only_preempted_waits_for_no_lock() -> None:
    program = wake_up_by_thread(lambda program: program.run("do_work", ns=300), blocks=False)
    found = kinds_of(program, Known())
    assert not [one for one in found if one[0] == "lock" and one[3]]
    assert ("preemption-off", 300 + 10) in {(kind, length) for kind, length, *_ in found}


@pytest.mark.parametrize(("urgency", "kind"), [(9, "higher-priority"), (120, "lock")])
def test_the_owner_of_a_lock_is_the_task_that_ends_the_wait(urgency: int, kind: str) -> None:
    """The owner is preempted. A task of higher priority than the waiting one runs in any case."""
    tasks, another = Known(), Task("another", 11)
    tasks._known[OTHER_TASK] = (another, urgency)

    def between(program: Program) -> None:
        program.run("do_work", ns=100).switch(LOW, OTHER_TASK).run("helper.constprop.0", ns=500)
        program.switch(OTHER_TASK, LOW).run("do_work", CALL, ns=200)

    found = kinds_of(wake_up_by_thread(between), tasks)
    ran = [one for one in found if one[2] == another]
    assert ran == [(kind, 500, another, ORDINARY if kind == "lock" else None)]
    held = [length for kind, length, task, owner in found if owner == task == ORDINARY]
    assert held == [100, 230]


def test_a_task_that_another_wakes_meanwhile_is_not_the_measured_one() -> None:
    """Before the wake-up of the measured task, interrupts are off in whatever runs."""
    program = Program().run("do_work", ns=40)
    program.run("try_to_wake_up", RETURN, argument=OTHER_TASK).run("do_work", ns=400)
    program.run("asm_sysvec_apic_timer_interrupt", CALL).run("sysvec_apic_timer_interrupt", CALL)
    program.run("try_to_wake_up", RETURN, argument=HIGH)
    program.run("sysvec_apic_timer_interrupt", RETURN, offset=4)
    program.run("asm_sysvec_apic_timer_interrupt", EXCEPTION_RETURN, offset=4)
    program.run("__schedule").switch(LOW, HIGH).run("user", offset=0x10)
    kinds = [(kind, length) for kind, length, *_ in kinds_of(program, Known())]
    assert kinds[0] == ("interrupts-off", 435 - 40)


def handed_over() -> Program:
    """A task gives the CPU to the measured one, by a call that an interrupt delays. It reads the
    clock before, and the measured one after it."""
    program = Program().run("user").run("user", offset=8).run("user", SYSCALL, offset=16)
    program.run("entry_SYSCALL_64", CALL).run("do_work", CALL, ns=40)
    program.run("asm_sysvec_apic_timer_interrupt", CALL).run("sysvec_apic_timer_interrupt", CALL)
    program.run("sysvec_apic_timer_interrupt", RETURN, offset=4)
    program.run("asm_sysvec_apic_timer_interrupt", EXCEPTION_RETURN, offset=4)
    program.run("helper.constprop.0", RETURN, ns=200).run("do_work", CALL, offset=4)
    program.run("__schedule", CALL).switch(LOW, HIGH).run("__schedule", RETURN, offset=4)
    return program.run("do_work", offset=8, ns=30).run("user", offset=24, ns=20)


def test_an_operation_is_divided_without_a_wake_up() -> None:
    program = handed_over()
    steps, end = program.steps(), program.time
    found = cut(steps, 1010, end, Known(), handler=False, operation=True)
    assert found.rest_ns == 0
    assert [(one.kind, one.length_ns, one.task) for one in found.segments] == [
        ("operation", 70, ORDINARY),
        ("interrupt", 40, ORDINARY),
        ("operation", 210, ORDINARY),
        ("switch", 10, ORDINARY),
        ("switch", 10, MEASURED),
        ("return", 50, MEASURED),
    ]
    # one that a task carries out alone
    alone = cut(steps[:10], 1010, steps[9].time + 10, Known(), handler=False, operation=True)
    assert {one.kind for one in alone.segments} == {"operation", "interrupt"}
    # another task runs in between: of a higher priority than its own, and of a lower one
    tasks = Known()
    for urgency, kind in ((9, "higher-priority"), (130, "preemption-off")):
        tasks._known[OTHER_TASK] = (Task("another", 11), urgency)
        program = Program().run("user").run("do_work", CALL).run("__schedule", CALL)
        program.switch(LOW, OTHER_TASK).run("helper.constprop.0", ns=500)
        program.switch(OTHER_TASK, LOW).run("do_work", ns=30)
        whole = cut(program.steps(), 1000, program.time, tasks, handler=False, operation=True)
        assert [one.kind for one in whole.segments if one.length_ns == 500] == [kind]


def test_a_woken_task_that_does_not_run_yet_is_not_preempted() -> None:
    """From its wake-up on, the operation depends on the task that ends it."""
    program = Program().run("user").run("do_work", CALL, ns=40)
    program.run("try_to_wake_up", RETURN, argument=HIGH).run("do_work", CALL, ns=700, offset=4)
    program.run("__schedule").switch(LOW, HIGH).run("user", offset=8, ns=20)
    found = cut(program.steps(), 1000, program.time, Known(), handler=False, operation=True)
    kinds = [(one.kind, one.length_ns) for one in found.segments]
    assert kinds[0] == ("operation", 50)
    assert ("preemption-off", 710) in kinds


def test_an_operation_is_found_by_its_neighbours() -> None:
    random = np.random.default_rng(13)
    values = [int(one) for one in random.integers(400, 600, 200)]
    values[70] = values[90] = 5000
    times, begins = [1_000_000], []
    for value in values:
        begins.append(times[-1] + int(random.integers(40, 60)))
        if random.random() < 0.2:  # another task reads the clock
            times.append(begins[-1] - 7)
        times += [begins[-1], begins[-1] + value]
    readings = np.array(times, np.int64)
    assert operation(readings, values, 70, 2) == (begins[70], True)
    assert operation(readings, values, 90, 2) == (begins[90], True)
    assert operation(readings, [*values, 7777], 200, 2) is None
    assert operation(readings[:0], values, 70, 2) is None
    assert operation(readings[:1], values, 70, 2) is None
    # nothing tells them apart
    same = np.array([0, 50, 100, 150], np.int64)
    assert operation(same, [50], 0, 2) == (0, False)
    # a clock of 16 ns
    rounded = readings // 16 * 16
    off = abs(int(operation(rounded, values, 70, tolerance_ns("aarch64"))[0]) - begins[70])  # type: ignore[index]
    assert off < 16
    assert tolerance_ns("x86_64") < tolerance_ns("aarch64") == tolerance_ns("")


def test_a_sample_after_its_due_time_begins_in_a_handler() -> None:
    """An interrupt's handler reads the clock, and then the thread that it woke."""
    program = wake_up(Program())
    steps = program.steps()
    handler = next(one.time for one in steps if one.stack[-1] == "sysvec_apic_timer_interrupt")

    def at(time: int) -> Step | None:
        before = [one for one in steps if one.time <= time]
        return before[-1] if before else None

    def found(
        times: Sequence[int], due: int, length: int, handler: bool = True, ends: int = 4
    ) -> tuple[int, int] | None:
        readings = np.array(times, np.int64)
        return pair(readings, readings[-ends:], at, due, length, (2, 2000), handler=handler)

    end = program.time
    times = (handler - 60, handler, end - 60, end)
    length = end - handler
    # two pairs are as long, and one of them begins in a handler
    assert found(times, 1010, length) == (handler, end)
    assert found((times[0], times[2]), 1010, length) == (handler - 60, end - 60)
    # it ends where the context of the sample reads the clock
    assert found(times[:3], 1010, end - 60 - handler, ends=1) == (handler, end - 60)
    assert found(times, 1010, end - 60 - handler, handler=False, ends=1) is None
    # a device knows when it was due: its handler alone reads the clock
    assert found((handler + 3,), handler, 0) == (handler + 3, handler + 3)
    assert found((handler + 3,), handler, 0, handler=False) is None
    assert found((handler + 3000,), handler, 0) is None
    assert found((), handler, 5) is None


def test_blocks_before_a_time_are_left_out_but_belong_to_the_stacks() -> None:
    program = wake_up(Program())
    rows = recorded(program.rows)
    whole = list(walk([rows], Symbols(KALLSYMS)))
    later = list(walk([rows], Symbols(KALLSYMS), 1100))
    assert later == [one for one in whole if one.time + one.length_ns >= 1100]
    assert 0 < len(later) < len(whole)


def test_an_interrupted_call_and_a_fault_in_a_block_keep_the_stack() -> None:
    program = Program().run("do_work", CALL)  # the interrupt comes before the callee's first block
    program.run("asm_sysvec_apic_timer_interrupt", EXCEPTION_RETURN)
    program.run("helper.constprop.0", RETURN).run("do_work", offset=4)
    assert [step.stack[0] for step in program.steps()] == ["do_work"] * 4
    assert program.steps()[2].stack == ("do_work", "helper")
    assert program.steps()[3].stack == ("do_work",)
    fault = Program()
    fault.rows.append((1000, AT["do_work"], AT["do_work"] + 4, 10, BLOCK, CALL))
    fault.time = 1004  # it ended before its last instruction, the call
    fault.run("asm_sysvec_apic_timer_interrupt", EXCEPTION_RETURN).run("do_work", CALL)
    assert fault.steps()[-1].stack == ("do_work",)


def test_every_block_of_random_programs_is_attributed() -> None:
    random = np.random.default_rng(11)
    ends = (OTHER, CALL, RETURN, EXCEPTION_RETURN, SYSCALL)
    for _ in range(50):
        program = Program()
        for _ in range(200):
            name = str(random.choice([*NAMES, "user"]))
            program.run(name, int(random.choice(ends)), offset=4 * int(random.integers(0, 9)))
            if random.random() < 0.05:
                program.switch(*((LOW, HIGH) if random.random() < 0.5 else (HIGH, LOW)))
            if random.random() < 0.02:
                program.jump(int(random.integers(1, 999)))
        due, stamp = (
            1000 + int(random.integers(0, 500)),
            program.time - int(random.integers(0, 500)),
        )
        found = cut(program.steps(), due, stamp, Known(), handler=bool(random.integers(2)))
        assert found.rest_ns == 0
        assert sum(one.length_ns for one in found.segments) == stamp - due
        assert {one.kind for one in found.segments} <= set(CLASSES)


def test_samples_of_a_window_are_divided_as_if_each_were_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The records come in pieces, the blocks of one sample are held at a time, and blocks that
    change nothing are left out: against the whole window walked block by block."""
    random = np.random.default_rng(12)
    ends = (OTHER, OTHER, OTHER, CALL, RETURN, EXCEPTION_RETURN, SYSCALL)
    one = Sample(0, 0, "user", 0, 0, 0, 0)
    for _ in range(20):
        program, name = Program(), "user"
        for _ in range(400):
            before, wakes = name, "try_to_wake_up"  # which ends with its block: a task is awake
            while name == before == wakes or (name == before and random.random() < 0.4):
                name = str(random.choice([*NAMES, "user"]))
            program.run(name, int(random.choice(ends)), offset=4 * int(random.integers(0, 9)))
            if random.random() < 0.05:
                program.switch(*((LOW, HIGH) if random.random() < 0.5 else (HIGH, LOW)))
        rows = recorded([*program.rows, (program.time, AT["net_rx_action"], 0, 0, BLOCK, 0)])
        cuts_at = np.sort(random.integers(0, len(rows), 5))
        none = np.empty(0, np.int64)
        pieces = [Piece(each, none, none, {}) for each in np.split(rows, cuts_at)]
        samples = [
            replace(one, index=number, due_ns=due, latency_ns=int(random.integers(100, 900)))
            for number, due in enumerate(random.integers(1000, program.time - 900, 6).tolist())
        ]
        clock = Clock(np.array([0], np.int64), np.array([0], np.int64))
        guest = Guest(
            lambda number, pieces=pieces: pieces,  # type: ignore[misc]
            *(clock, 0.0, KALLSYMS, b"", 6, 1.0, ((1000, program.time),), none),
        )
        found = dict(_cuts(samples, guest))
        with monkeypatch.context() as patch:
            patch.setattr("rtgauge.causes.cut._rows", lambda pieces, _: pieces[0].tolist())
            whole = list(walk([rows], Symbols(KALLSYMS)))
        for each in samples:
            stamp = each.due_ns + each.latency_ns
            alone = cut(whole, each.due_ns, stamp, Tasks(TaskLayout(b"")), handler=False)
            assert found[each] == alone


# --- names ---------------------------------------------------------------------------------------


def btf(fields: dict[str, int]) -> bytes:
    """The types of a kernel whose ``task_struct`` has these fields, behind other types."""
    texts = b"\0int\0task_struct\0" + b"".join(name.encode() + b"\0" for name in fields)
    types = struct.pack("<IIII", 1, 1 << 24, 4, 32)  # int
    types += struct.pack("<III", 0, 2 << 24, 1)  # a pointer
    types += struct.pack("<IIIIII", 0, 3 << 24, 0, 1, 1, 4)  # an array
    types += struct.pack("<III", 5, 4 << 24 | len(fields), 4096)
    for name, offset in fields.items():
        types += struct.pack("<III", texts.index(b"\0" + name.encode() + b"\0") + 1, 1, 8 * offset)
    head = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(texts))
    return head + types + texts


def test_a_task_is_read_from_its_bytes_by_the_kernels_types() -> None:
    layout = TaskLayout(btf({"state": 0, "prio": 8, "policy": 12, "pid": 16, "comm": 32}))
    data = bytearray(64)
    struct.pack_into("<iii", data, 8, 19, 1, 4711)
    data[32:40] = b"measure\0"
    assert layout.task(bytes(data)) == (Task("measure", 4711, "fifo", 80), 19)
    struct.pack_into("<ii", data, 8, 120, 0)
    assert layout.task(bytes(data)) == (Task("measure", 4711, "other", 0), 120)
    assert layout.task(b"")[0].name == "?"
    assert TaskLayout(b"").task(bytes(data))[0].name == "?"
    with pytest.raises(ValueError, match="another format"):
        TaskLayout(bytes(64))
    with pytest.raises(ValueError, match="incomplete"):
        TaskLayout(btf({"prio": 8})[:10])


def test_functions_lose_the_compilers_suffixes() -> None:
    symbols = Symbols(KALLSYMS)
    assert len(symbols) == len(NAMES)
    assert symbols.at(AT["helper.constprop.0"] + 5) == ("helper", 5)
    assert symbols.at(0x7F0000000000) == (USER, 0)


def test_code_behind_a_module_belongs_to_one_that_was_unloaded() -> None:
    text = KALLSYMS + b"ffffffffc0200010 t last\t[rtgauge]\nffffffffc0400000 t other\t[other]\n"
    symbols = Symbols(text)
    assert symbols.at(0xFFFFFFFFC0200FFF) == ("last", 0xFEF)
    assert symbols.at(0xFFFFFFFFC0201000)[0] == UNLOADED
    assert symbols.at(0xFFFFFFFFC0400001) == ("other", 1)
    # behind the kernel, and before it (arm64)
    for address in (0xFFFFFFFFC0000000, 1 << 63):
        assert symbols.at(address)[0] == UNLOADED


def test_a_segment_with_code_of_unknown_names_is_not_exact() -> None:
    program = wake_up(Program())
    steps = program.steps()
    due, stamp = steps[4].time, steps[-1].time
    named = cut(steps, due, stamp, Known(), handler=False).segments
    assert {one.certainty for one in named} == {"exact"}
    without = [
        one._replace(stack=tuple(UNLOADED if name == "helper" else name for name in one.stack))
        for one in steps
    ]
    found = cut(without, due, stamp, Known(), handler=False).segments
    assert [one.length_ns for one in found] == [one.length_ns for one in named]
    for one in found:
        assert (one.certainty == "inferred") == (UNLOADED in (one.function, *one.stack))
    assert {one.certainty for one in found} == {"exact", "inferred"}


def test_the_guests_clock_is_interpolated_between_stamps() -> None:
    times = np.array([1000, 2000, 3000], np.int64)
    clock = Clock(times[::-1], np.array([3520, 2510, 1500], np.int64))
    assert clock.times(np.array([1500, 2005, 3520], np.int64)).tolist() == [1000, 1500, 3000]
    assert clock.time(1500) == 1000


# --- the recorder --------------------------------------------------------------------------------


def test_the_recorder_builds_without_warnings_and_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc on this machine")
    monkeypatch.setenv("RTGAUGE_LAB_CACHE", str(tmp_path))
    built = recorder.plugin(lambda _: None)
    before = built.stat().st_mtime_ns
    assert recorder.plugin(lambda _: None) == built
    assert b"qemu_plugin_install" in built.read_bytes()
    assert built.stat().st_mtime_ns >= before
    assert [path.name for path in (tmp_path / "recorder").iterdir()] == [built.name]


def test_a_machine_without_a_compiler_gets_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTGAUGE_LAB_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TargetError, match="no C compiler") as error:
        recorder.plugin(lambda _: None)
    assert "apt-get install gcc" in error.value.remedy
    broken = tmp_path / "gcc"
    broken.write_text("#!/bin/sh\necho 'x.c:1: error: no header' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(TargetError, match="error: no header"):
        recorder.plugin(lambda _: None)


def test_a_qemu_without_plugins_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "qemu"
    program.write_text("#!/bin/sh\nprintf 'usage\\n-plugin [file=]<file>\\n'\n")
    program.chmod(0o755)
    recorder.require_plugins(str(program))
    program.write_text("#!/bin/sh\necho usage\n")
    with pytest.raises(TargetError, match="does not load plugins") as error:
        recorder.require_plugins(str(program))
    assert "--enable-plugins" in error.value.remedy


LOADER = """
#include <dlfcn.h>
int main(int argc, char **argv)
{
	struct { const char *target; int oldest, newest; _Bool system; } info = { "x", 1, 1, 1 };
	void *plugin = dlopen(argv[1], RTLD_LAZY);
	int (*install)(unsigned long, const void *, int, char **);

	if (!plugin)
		return 9;
	*(void **)&install = dlsym(plugin, "qemu_plugin_install");
	return install(1, &info, argc - 2, argv + 2);
}
"""


def test_a_qemu_that_lacks_what_the_recorder_needs_gets_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program without QEMU's symbols loads the plugin, which refuses."""
    monkeypatch.setenv("RTGAUGE_LAB_CACHE", str(tmp_path / "cache"))
    built = recorder.plugin(print)
    loader = tmp_path / "loader"
    words = ["gcc", "-x", "c", "-", "-o", str(loader), "-ldl"]
    subprocess.run(words, input=LOADER.encode(), check=True)
    with Recording(tmp_path, built) as recording:
        done = subprocess.run(
            [loader, *recording.plugin.split(",")], capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (
            1,
            b"recorder: this QEMU does not export what it needs\n",
        )
        assert not recording.loaded

        def start() -> None:
            raise TargetError("the emulated board x: it ended on its own")

        machine: Any = types.SimpleNamespace(start=start, setup=types.SimpleNamespace(**SETUP))
        with pytest.raises(TargetError, match="qemu does not load the recorder") as error:
            _start(machine, recording)
        assert "Debian's QEMU 7.2" in error.value.remedy
        # one that was loaded is not to blame
        struct.pack_into("<Q", recording._control, 32, 1)
        with pytest.raises(TargetError, match=r"^the emulated board x"):
            _start(machine, recording)


def test_the_folder_of_a_replay_that_was_killed_goes_with_the_next(
    stored: StoredRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records may be gigabytes. That of a replay that runs stays."""

    class Stop(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stop

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("found_program", "require_plugins", "plugin"):
        monkeypatch.setattr(f"rtgauge.causes.replay.{name}", lambda *_: "")
    monkeypatch.setattr(LabTarget, "setup_again", lambda *_: types.SimpleNamespace(**SETUP))
    monkeypatch.setattr("rtgauge.causes.replay.Recording", stop)
    with subprocess.Popen(["true"]) as ended:
        pass
    killed, running = (
        tmp_path / f"rtgauge-explain-{number}-x" for number in (ended.pid, os.getpid())
    )
    for folder in (killed, running):
        folder.mkdir()
        (folder / "record").write_bytes(b"records")
    with pytest.raises(Stop), replayed(stored, [], print):
        pass
    assert [path.name for path in tmp_path.glob("rtgauge-explain-*")] == [running.name]


def test_a_comma_in_a_path_does_not_end_the_plugins_option(tmp_path: Path) -> None:
    folder = tmp_path / "a,b"
    folder.mkdir()
    with Recording(folder, tmp_path / "c,d.so") as recording:
        words = recording.plugin.replace(",,", "\0").split(",")
    paths = [tmp_path / "c,d.so", f"record={folder / 'record'}", f"control={folder / 'control'}"]
    assert [word.replace("\0", ",") for word in words] == [str(path) for path in paths]


def write(recording: Recording, folder: Path, data: bytes) -> None:
    """What the plugin has recorded so far."""
    (folder / "record").write_bytes(data)
    struct.pack_into("<Q", recording._control, 16, len(data))


def test_records_and_the_bytes_of_tasks_are_read_apart(tmp_path: Path) -> None:
    rows = [(1, 2, 0, 0, TO, 0, 0), (1, 2, 0, 64, TASK, 0, 0)]
    later = [(5, 6, 7, 8, BLOCK, CALL, 1 << 31)]
    payload = recorded([(9, 9, 9, 9, TASK, 0)] * (TASK_BYTES // RECORD.itemsize)).tobytes()
    data = recorded(rows).tobytes() + payload + recorded(later).tobytes()
    with Recording(tmp_path, Path("plugin.so")) as recording:
        assert "control=" in recording.plugin
        recording.ask([(1, 1), (2, 20)])
        recording.ask([(30, 40)])
        assert recording.windows() == [(1, 1), (2, 20), (30, 40)]
        write(recording, tmp_path, data)
        assert recording.anchors().tolist() == []
        found = [list(recording.window(number)) for number in range(3)]
        assert [[tuple(one) for one in piece.records.tolist()] for piece in found[0]] == [rows]
        assert found[0][0].tasks == {2: payload[:64]}
        assert [[tuple(one) for one in piece.records.tolist()] for piece in found[1]] == [later]
        assert found[2] == []
        assert recording.lost == 0


@pytest.mark.parametrize("piece", [TASK_BYTES + 32, TASK_BYTES + 3 * 32, 1 << 20])
def test_each_record_is_read_once_as_it_is_new_and_once_with_its_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    """Several hundred windows, however many orders they are spread over, and never more than a
    piece at once."""
    read: list[int] = []
    pread = os.pread

    def counted(file: int, length: int, at: int) -> bytes:
        read.append(length)
        return pread(file, length, at)

    monkeypatch.setattr(recorder, "PIECE", piece)
    monkeypatch.setattr("rtgauge.lab.recorder.os.pread", counted)
    random, data = np.random.default_rng(20), b""
    anchors: list[int] = []
    windows: list[tuple[int, int]] = []
    contents: list[list[tuple[int, ...]]] = []
    tasks: list[dict[int, bytes]] = []
    with Recording(tmp_path, Path("plugin.so")) as recording:
        for order in range(8):
            recording.ask(
                [(at, at + 400) for at in range(order * 50_000 + 500, (order + 1) * 50_000, 1000)]
            )
            for begin, end in recording.windows()[len(windows) :]:
                outside = [(begin - 100, 0x7F00, 0, 0, ANCHOR, 0)]
                anchors += [begin - 100, begin + 7]
                task = random.bytes(TASK_BYTES)
                first = [(begin, LOW, 0, 0, TO, 0), (begin, LOW, 0, 64, TASK, 0)]
                more = [
                    (begin + 5, BASE, 0, 3, BLOCK, 0),
                    (begin + 7, 0x7F00, 0, 0, ANCHOR, 0),
                    *((begin + 8 + at, BASE, 0, 3, BLOCK, 0) for at in range(order)),
                    (end, BASE, 0, 3, BLOCK, 0),
                ]
                data += recorded(outside + first).tobytes() + task
                data += recorded(more).tobytes()
                windows.append((begin, end))
                contents.append([(*row, 0) for row in first + more])
                tasks.append({LOW: task[:64]})
            write(recording, tmp_path, data)
            assert recording.anchors().tolist() == anchors
            anchors = []
        assert len(windows) == 400
        # a task that a piece would cut begins the next one
        assert sum(read) <= len(data) + (len(read) - 8) * (TASK_BYTES + RECORD.itemsize)
        assert max(read) <= piece
        assert piece < len(data) / 8 or sum(read) == len(data)
        read.clear()
        for number in range(400):
            pieces = list(recording.window(number))
            rows = [tuple(row) for each in pieces for row in each.records.tolist()]
            assert rows == contents[number]
            assert {key: one for each in pieces for key, one in each.tasks.items()} == tasks[number]
        assert piece < len(data) / 8 or sum(read) == len(data) - 400 * RECORD.itemsize


def test_records_that_are_cut_are_no_endless_loop(tmp_path: Path) -> None:
    with Recording(tmp_path, Path("plugin.so")) as recording:
        write(recording, tmp_path, recorded([(1, LOW, 0, 64, TASK, 0)]).tobytes())
        with pytest.raises(TargetError, match="are cut"):
            recording.anchors()


class NamesBoard:
    """A board whose kernel has names, which it lists on request."""

    def __init__(self) -> None:
        self.files = {
            "/proc/kallsyms": KALLSYMS,
            "/proc/modules": b"disturb 16384 0 - Live 0xffffffffc0200000\n",
            "/sys/kernel/btf/vmlinux": b"types",
        }
        self.text = b"ffffffff81000000 T _text\n"
        self.read: list[str] = []

    def execute(self, words: list[str]) -> Output:
        path = words[-1]
        if words[1] == "grep":
            return Output(0, self.text, b"", 1)
        self.read.append(path)
        known = path in self.files
        return Output(0 if known else 1, self.files.get(path, b""), b"", 1)


def test_names_of_a_kernel_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read again for another kernel, another initramfs, and at other addresses."""
    monkeypatch.setenv("RTGAUGE_LAB_CACHE", str(tmp_path))
    board, facts = NamesBoard(), {"kernel digest": "aa", "initramfs digest": "bb"}

    def get() -> bool:
        """Whether the names came from the board, as they are now in either case."""
        board.read.clear()
        found = names(board, facts, print)  # type: ignore[arg-type]
        assert found == (board.files["/proc/kallsyms"], board.files["/sys/kernel/btf/vmlinux"])
        return "/proc/kallsyms" in board.read

    assert get() and not get()
    board.files["/proc/modules"] = b"disturb 16384 2 user, Live 0xffffffffc0200000\n"
    assert not get()  # the same module, in use
    changes: tuple[Callable[[], None], ...] = (
        lambda: facts.update({"kernel digest": "cc"}),
        lambda: facts.update({"initramfs digest": "dd"}),
        lambda: board.files.update({"/proc/modules": b"disturb 20480 0 - Live 0xffffffffc0200000"}),
        lambda: board.files.update({"/proc/modules": b"disturb 20480 0 - Live 0xffffffffc0300000"}),
        lambda: board.files.update({"/proc/modules": b""}),
        lambda: setattr(board, "text", b"ffffffff92000000 T _text\n"),
    )
    for change in changes:
        change()
        board.files["/proc/kallsyms"] += b"ffffffff81fff000 t another\n"
        assert get() and not get()
    kept = sorted((tmp_path / "names").iterdir())
    assert len(kept) == 7
    for path in kept:  # cut by a fault of the disk
        path.write_bytes(path.read_bytes()[:-3])
    assert get() and not get()
    facts.clear()  # nothing to know them by
    assert get() and get()
    assert {path.parent.name for path in map(Path, (one.path for one in prune(-1)))} == {"names"}
    assert not list((tmp_path / "names").iterdir())


def test_a_cache_without_room_does_not_spoil_a_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTGAUGE_LAB_CACHE", str(tmp_path))
    (tmp_path / "names").write_bytes(b"not a folder")
    facts = {"kernel digest": "aa", "initramfs digest": "bb"}
    assert names(NamesBoard(), facts, print) == (KALLSYMS, b"types")  # type: ignore[arg-type]


# --- which samples -------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path: Path) -> StoredRun:
    """A run of a counted board with two contexts and dithered due times."""
    return stored_run(tmp_path, {"timer": 900})


def stored_run(tmp_path: Path, worst: dict[str, int | None], **more: Any) -> StoredRun:
    """A run with these measurements and their longest samples; None: it was not carried out.
    ``more``: changes of its document."""
    lab = {"mode": "counted", "QEMU": "QEMU 0", "seed": "1", "kernel arguments": "quiet"}
    steps = [
        made.step(
            *(number, [], name), role="calibration" if name == "clock-cost" else "measurement"
        )
        for number, name in enumerate(worst)
    ]
    document = dict(made.run(steps, target="lab:x86_64-stock-6.12").document, id=new_run_id())
    words = ["run", "/agent", "run", "timer", "--samples", "3", "--disturb-module", "/m.ko"]
    document["orders"] = [[*words, "--run", document["id"], "--step", "0", "--output", "-"]]
    document["environment"] = {**document["environment"], "lab": lab, "realtime": "voluntary"}
    document.update(more)
    with Store.open(str(tmp_path / "store")) as store:
        with store.create(document) as folder:
            for number, longest in enumerate(worst.values()):
                if longest is None:
                    document["steps"][number].update(
                        state="skipped", reason="there is no core", remedy="use another board"
                    )
                    continue
                with folder.append_stream(number) as file:
                    file.write(stream_of(document["id"], longest))
                folder.seal(number)
            folder.write_document(document)
            store.update(folder)
        return store.get(document["id"])


def stream_of(run: str, worst: int = 900) -> bytes:
    """The stream of its step."""
    writer = StreamWriter()
    records = [writer.header(run=run, measurement="timer", start_ns=500_000)]
    for number, context in ((0, "irq"), (2, "user")):
        records.append(writer.series(number, "latency", context=context, interval_ns=1000))
        records.append(writer.series(number + 1, "dither", interval_ns=1000, companion=number))
        values = np.array([5, worst, 7], np.int32) + number
        records.append(writer.samples(number + 1, 0, 0, np.array([1, 2, 3], np.int32)))
        records.append(writer.samples(number, 0, 0, values))
    tallies = [Tally(number, count=3, last_due_ns=2000) for number in range(4)]
    records.append(writer.trailer(tallies, duration_ns=3000))
    return b"".join(records)


class Board:
    """A board that carries out orders: it gives the stream of a step, and reads its counter."""

    def __init__(self, recording: Recording, stream: bytes) -> None:
        self._path = Path(recording.plugin.split("record=")[1].split(",")[0])
        self._control = recording._control
        self._stream = stream
        self._rows: list[tuple[int, int, int, int, int, int]] = []
        self.orders: list[list[str]] = []

    def read_counter(self, time: int) -> None:
        self._rows.append((time, 0x7F00, 0, 0, ANCHOR, 0))
        data = recorded(self._rows).tobytes()
        self._path.write_bytes(data)
        struct.pack_into("<Q", self._control, 16, len(data))

    def begin(self, words: list[str]) -> None:
        self.orders.append(words)

    def ended(self, limit_s: float) -> Answer:
        assert limit_s > 0
        began = 1_000 * len(self.orders)
        self.read_counter(began)
        self.read_counter(began + 500)
        data = self._stream if "--step" in self.orders[-1] else b""
        return Answer(0, 0, b"", len(data), data, began + 40, began + 540)


def test_a_replay_repeats_the_orders_and_asks_for_the_windows(
    stored: StoredRun, tmp_path: Path
) -> None:
    document = stored.document
    orders = [["run", "/agent", "environment"], *document["orders"]]
    wanted = select(stored, sample=("user", 1))
    with Recording(tmp_path, Path("plugin.so")) as recording:
        replay = _Replay(stored, wanted, tmp_path, recording)
        board = Board(recording, stream_of(stored.id))
        replay.carry_out(board, orders)  # type: ignore[arg-type]
        assert board.orders == [words[1:] for words in orders]
        # the clock is 40 ns ahead of the recorder's time
        assert replay.line().time(wanted[0].due_ns) == wanted[0].due_ns - 40
        ((begin, end),) = recording.windows()
        assert begin < wanted[0].due_ns - 300_000 < wanted[0].due_ns + 902 < end
        assert replay.compare() == 4 * 3


def test_a_replay_omits_a_step_that_was_interrupted_without_samples(
    stored: StoredRun, tmp_path: Path
) -> None:
    orders = [*stored.document["orders"], ["read", "0"]]
    interrupted = [*orders[0][:-4], "--step", "1", "--output", "-"]
    with Recording(tmp_path, Path("plugin.so")) as recording:
        replay = _Replay(stored, select(stored), tmp_path, recording)
        assert replay._end([*orders, interrupted, ["read", "0"]]) == len(orders)
        assert replay._end([["run", "/agent", "environment"], *orders]) == 1 + len(orders)


def test_a_limit_without_unit_is_a_usage_error(
    stored: StoredRun, tmp_path: Path, rtgauge: Run
) -> None:
    done = rtgauge("explain", stored.id, "--above", "50", "--store", str(tmp_path / "store"))
    assert done.code == 2
    assert done.err.startswith("rtgauge: --above: ")


def test_a_run_is_named_by_its_label(tmp_path: Path, rtgauge: Run) -> None:
    store = ["--store", str(tmp_path / "labelled")]
    words = ["--target", "fake", "--for", "1s", "--no-progress", *store]
    for label in ("board", "other"):
        assert rtgauge("run", "timer", "--label", label, *words).code == 0
    (row,) = [one for one in rtgauge("runs", "--json", *store).json()["runs"]
              if one["label"] == "board"]  # fmt: skip
    done = rtgauge("explain", "board", *store)
    assert done.code == 2 and f"run {row['id']} was measured on fake" in done.err
    assert "there is no run" in rtgauge("explain", "nothing", *store).err


def test_causes_that_are_damaged_do_not_condemn_the_run(
    stored: StoredRun, tmp_path: Path, rtgauge: Run
) -> None:
    (stored.path / "causes.json").write_text("{")
    done = rtgauge("show", stored.id, "--store", str(tmp_path / "store"))
    assert done.code == 1
    assert "remove this file" in done.err and "The run itself is not affected" in done.err
    keep(stored, ())
    assert rtgauge("show", stored.id, "--store", str(tmp_path / "store")).code == 0


def test_only_stamps_of_due_samples_give_the_guests_clock(
    stored: StoredRun, tmp_path: Path
) -> None:
    """And a window is as long as its sample may be late, or begins where a replay found it."""
    series = {"name": "latency", "from": "before the call"}
    catalogue = {"measurements": [{"name": "timer", "series": [series]}]}
    run = StoredRun(stored.path, {**stored.document, "catalogue": catalogue})
    (one, *_) = select(run)
    assert one.how == "event"
    with Recording(tmp_path, Path("plugin.so")) as recording:
        replay = _Replay(run, [one], tmp_path, recording)
        assert not list(replay._stamps())
        replay._readings = [(0, 0), (10_000, 10_000)]
        ((begin, end),) = replay._windows(0)
        assert begin < one.due_ns
        assert end >= one.due_ns + one.latency_ns + 500_000
        placed = replace(one, how="loop", at=2_000_000, stamp_ns=50)
        ((begin, end),) = _Replay(run, [placed], tmp_path, recording)._windows(0) or [(0, 0)]
        assert (begin, end) == (0, 0)  # before the guest's clock is known
        replay = _Replay(run, [placed], tmp_path, recording)
        replay._readings = [(0, 0), (10_000, 10_000)]
        assert replay._windows(0) == [(1_700_000, 2_000_000 + one.latency_ns + 50 + 5_000)]
        series["from"] = "due time"
        assert len(list(_Replay(stored, [], tmp_path, recording)._stamps())) == 3


def test_a_replay_that_differs_explains_nothing(stored: StoredRun, tmp_path: Path) -> None:
    for number, (worst, words) in enumerate(((901, "sample 1 is 900, and 901"), (None, "numbers"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Recording(folder, Path("plugin.so")) as recording:
            replay = _Replay(stored, [], folder, recording)
            board = Board(recording, b"" if worst is None else stream_of(stored.id, worst))
            replay.carry_out(board, stored.document["orders"])  # type: ignore[arg-type]
            with pytest.raises(StoreError, match=words) as error:
                replay.compare()
            assert "Nothing is explained" in error.value.message


def test_samples_are_chosen_by_rank_limit_or_name(stored: StoredRun) -> None:
    worst = select(stored)
    assert [(one.context, one.index, one.latency_ns) for one in worst] == [
        ("user", 1, 902),
        ("irq", 1, 900),
    ]
    header = stored.steps[0].header
    assert header is not None
    assert worst[0].since_ns == 1000 + 2
    assert worst[0].due_ns == header.start_ns + 1002
    assert len(select(stored, worst=3)) == 6
    assert [one.index for one in select(stored, above_ns=900)] == [1]
    assert select(stored, sample=("user", 2))[0].latency_ns == 9
    with pytest.raises(UsageError, match="no sample of the run is above") as error:
        select(stored, above_ns=5000)
    assert "0.902 µs" in error.value.remedy
    with pytest.raises(UsageError, match="no sample kernel:1") as error:
        select(stored, sample=("kernel", 1))
    assert "irq, user" in error.value.remedy


def test_calibrations_are_not_explained(tmp_path: Path) -> None:
    """Their samples are longer than those of the step that was asked for."""
    run = stored_run(tmp_path, {"timer": 900, "clock-cost": 5000})
    assert {one.step for one in select(run, worst=20)} == {0}
    with pytest.raises(UsageError, match="no sample of the run is above") as error:
        select(run, above_ns=1000)
    assert "0.902 µs" in error.value.remedy
    # unless nothing else was measured
    assert len(select(stored_run(tmp_path, {"clock-cost": 900}))) == 2


def test_a_run_without_samples_has_nothing_to_explain(tmp_path: Path, rtgauge: Run) -> None:
    run = stored_run(tmp_path, {"timer": None, "clock-cost": 5000})
    done = rtgauge("explain", run.id, "--store", str(tmp_path / "store"))
    assert (done.code, done.out) == (2, "")
    said = done.err.strip()
    assert "nothing to explain" in said
    assert "no samples of timer (there is no core)" in said
    assert said.endswith("use another board")


def test_of_a_killed_run_the_steps_before_are_explained(tmp_path: Path) -> None:
    """The orders of a step are written at its end."""
    run = stored_run(tmp_path, {"timer": 900, "irq-latency": 5000})
    assert {one.step for one in select(run, worst=20)} == {0}
    with Recording(tmp_path, Path("plugin.so")) as recording:
        replay = _Replay(run, select(run), tmp_path, recording)
        replay.carry_out(Board(recording, stream_of(run.id)), run.document["orders"])  # type: ignore[arg-type]
        assert replay.compare() == 4 * 3
        assert len(list(replay._stamps())) == 3
    said: list[str] = []
    select(run, say=said.append)
    assert [words.partition(" ended")[0] for words in said] == ["step 2"]
    with pytest.raises(UsageError, match="no sample kernel:1"):
        select(run, sample=("kernel", 1), say=said.append)
    assert len(said) == 2


@pytest.mark.parametrize("worst", [{"timer": 900}, {"clock-cost": 5000, "timer": 900}])
def test_samples_whose_orders_are_not_stored_are_refused(
    tmp_path: Path, worst: dict[str, int | None]
) -> None:
    """A run that was killed, also after its calibration, and one that is still running."""
    orders = [["run", "/agent", "environment"]]
    if len(worst) > 1:  # those of the calibration
        orders += [["run", "/agent", "run", "clock-cost", "--run", "x", "--step", "0"]]
    run = stored_run(tmp_path, worst, orders=orders)
    with pytest.raises(UsageError, match="ended before the orders of its samples") as error:
        select(run)
    assert "measure again" in error.value.remedy
    run.document["state"] = "running"
    for now in (orders, []):
        run.document["orders"] = now
        with pytest.raises(UsageError, match="not stored the orders of its samples yet") as error:
            select(run)
        assert error.value.remedy.startswith("wait")


def test_a_loop_is_explained_where_the_timed_step_after_it_was_killed(tmp_path: Path) -> None:
    series = [{"name": "latency", "from": "test loop"}]
    catalogue = {"measurements": [{"name": "mutex-contended", "series": series}]}
    run = stored_run(tmp_path, {"mutex-contended": 900, "timer": 5000}, catalogue=catalogue)
    for one in run.steps[0].series:
        one.info = replace(one.info, interval_ns=0)
    said: list[str] = []
    assert {(one.step, one.how) for one in select(run, say=said.append)} == {(0, "loop")}
    assert said
    # with its orders only the timed one is explained
    words = run.document["orders"][0]
    run.document["orders"].append([*words[: words.index("--step")], "--step", "1"])
    assert {one.step for one in select(run, say=said.append)} == {1}
    assert len(said) == 1


def test_the_time_for_a_replay_is_that_of_the_steps_if_the_run_has_not_ended(
    stored: StoredRun, tmp_path: Path
) -> None:
    stored.document["duration_s"] = 0
    stored.document["steps"][0]["duration_s"] = 1000
    with Recording(tmp_path, Path("plugin.so")) as recording:
        assert _Replay(stored, (), tmp_path, recording)._limit_s > 1000


def test_of_many_series_each_has_its_longest_sample_explained(
    stored: StoredRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All samples of the one series are longer than those of the other."""
    monkeypatch.setattr("rtgauge.causes.explain.SAMPLES_MAX", 2)
    series = stored.steps[0].series[0]
    longer = replace(series.info, scale=1000)
    series.info = longer
    assert [one.context for one in select(stored, worst=3)] == ["irq", "user"]
    assert [one.context for one in select(stored, above_ns=1)] == ["irq", "irq"]


DAMAGED: list[object] = [
    5,
    {"a": 1},
    ["run"],
    [["put", "--step", "0"]],
    [[]],
    [[1]],
    [["boot"]],
    [["read"]],
    [["read", "-9"]],
    [["run"]],
    [["run", "/agent", "--step", "0"]],
    [["run", "/agent", "--run"]],
    [["run", "/agent", "--run", "x", "--step"]],
    [["run", "/agent", "--run", "x", "--step", "../../x"]],
    [["run", "/agent", "--run", "x", "--step", "0"]] * 2,
]


@pytest.mark.parametrize(
    ("away_ns", "certainty"),
    [(0, "exact"), (10**9, "exact"), (10**9 + 1, "inferred"), (None, "inferred")],
)
def test_segments_are_exact_only_where_stamps_gave_the_clock(
    stored: StoredRun, monkeypatch: pytest.MonkeyPatch, away_ns: int | None, certainty: str
) -> None:
    (one, *_) = select(stored)
    records = recorded(wake_up(Program()).rows)
    clock = Clock(np.array([1000], np.int64), np.array([one.due_ns], np.int64))
    stamps = np.array([] if away_ns is None else [one.due_ns - away_ns, 1 << 60], np.int64)
    window = [Piece(records, np.empty(0, np.int64), np.empty(0, np.int64), {})]
    guest = Guest(lambda number: window, clock, 0.0, KALLSYMS, b"", 6, 1.0, ((0, 10_000),), stamps)
    monkeypatch.setattr("rtgauge.causes.explain.replayed", lambda *_: contextlib.nullcontext(guest))
    (found,) = explain(stored, [one], print, medians=medians).causes
    assert {each.certainty for each in found.segments} == {certainty}
    assert bool(found.unseen) == (certainty == "inferred")


@pytest.mark.parametrize("found", [True, False])
@pytest.mark.parametrize("interval_ns", [0, 1000])
def test_samples_that_do_not_begin_when_they_are_due_are_placed(
    stored: StoredRun, monkeypatch: pytest.MonkeyPatch, interval_ns: int, found: bool
) -> None:
    """Operations of a loop by a first replay, and samples on a grid by the readings in their own
    window. Without two readings as far apart nothing is explained."""
    catalogue = {"measurements": [{"name": "timer", "series": [{"name": "latency", "from": "x"}]}]}
    run = StoredRun(stored.path, {**stored.document, "catalogue": catalogue})
    for series in run.steps[0].series:
        series.info = replace(series.info, interval_ns=interval_ns, stamp_ns=5)
    (one, *_) = select(run)
    assert (one.how, one.raw_ns) == ("event" if interval_ns else "loop", 902 + 5)
    program = handed_over().run("user", offset=32, ns=2000)
    begin, end = (1010, 1010 + one.raw_ns) if found else (1010, 1500)
    rows = [*program.rows, *((time, 0x7000, 0, 0, ANCHOR, 0) for time in (begin, end))]
    rows.sort(key=lambda row: row[0])
    none = np.empty(0, np.int64)
    window = [Piece(recorded(rows), none, none, {})]
    clock = Clock(np.array([1005], np.int64), np.array([one.due_ns], np.int64))
    readings = np.array([begin, end], np.int64)
    guest = Guest(
        *(lambda number: window, clock, 0.0, KALLSYMS, b"", 6, 1.0, ((0, 10_000),), none),
        readings=readings,
    )
    asked: list[int] = []

    def fake(run: StoredRun, samples: Sequence[Sample], say: object) -> Any:
        asked.append(len(samples))
        return contextlib.nullcontext(guest)

    monkeypatch.setattr("rtgauge.causes.explain.replayed", fake)
    explained = explain(run, [one], lambda _: None, medians=medians)
    (cause,) = explained.causes
    assert asked == ([1] if interval_ns else [0, int(found)])
    assert explained.seconds == len(asked)
    if found:
        assert sum(each.length_ns for each in cause.segments) == cause.latency_ns == 902
        assert {each.certainty for each in cause.segments} == {"exact"}
        assert cause.segments[0].kind == "operation"
        assert not cause.unseen
    else:
        assert (cause.segments, cause.rest_ns) == ((), 902)
        assert "two readings" in cause.unseen


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "local"}, "cannot be replayed"),
        ({"environment": {"lab": {"mode": "plain"}}}, "plain mode"),
        ({"orders": []}, "does not contain the orders"),
        ({"orders": [["put"]]}, "put files"),
        ({"environment": {"lab": 5}}, "cannot be replayed"),
        ({"environment": 5}, "cannot be replayed"),
        ({"environment": {"lab": {"mode": "counted", "seed": "1"}}}, "is damaged"),
        ({"duration_s": "long"}, "is damaged"),
        *(({"orders": orders}, "is damaged") for orders in DAMAGED),
    ],
)
def test_runs_that_cannot_be_replayed_are_refused_with_a_remedy(
    stored: StoredRun, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as error:
        check(StoredRun(stored.path, {**stored.document, **change}))
    assert error.value.remedy


def test_a_command_to_try_is_quoted_whatever_the_run_says(stored: StoredRun) -> None:
    """A user copies it into a shell, and the run may be from elsewhere."""
    step = {"step": 0, "measurement": "timer", "parameters": 5}
    changed = {"target": "ssh:$(reboot);b", "orders": [["run", "--step"]], "environment": 5}
    changed["steps"] = [step]
    system = system_of(StoredRun(stored.path, {**stored.document, **changed}), 0)
    (remedy,) = remedies(Segment(0, 1, "hardware", "exact"), system)
    assert "'ssh:$(reboot);b'" in shlex.split(remedy.command, posix=False)


def test_a_command_to_try_omits_defaults_and_the_trace(stored: StoredRun) -> None:
    options = [{"name": "samples", "default": "3"}, {"name": "method", "default": "timer"}]
    catalogue = {
        "measurements": [{"name": "timer", "options": options}, {"name": "other"}, 5],
        "run_options": [{"name": "core", "default": "auto"}, {"name": "load"}],
    }
    words = [
        "run",
        "/agent",
        "run",
        "timer",
        "--samples",
        "3",
        "--explain",
        "--method",
        "itimer",
        "--core",
        "auto",
    ]
    words += ["--disturb", "irq_off:1us:9us", "--disturb=smi:1us:9us"]  # `tune` refuses it
    words += ["--explain-above", "50us", "--histogram-only", "--load", "auto", "--run", "x"]
    document = {**stored.document, "catalogue": catalogue, "orders": [[*words, "--step", "0"]]}
    system = system_of(StoredRun(stored.path, document), 0)
    kept = ("timer", "--method", "itimer", "--histogram-only", "--load", "auto")
    assert system.words == kept
    # as in a run outside of the lab, which has no orders
    step = {**stored.document["steps"][0], "parameters": {"method": "itimer", "samples": "3"}}
    step["run_options"] = {"core": "auto", "explain": True, "load": "auto"}
    document = {**document, "orders": None, "steps": [step]}
    system = system_of(StoredRun(stored.path, document), 0)
    assert system.words == ("timer", "--method", "itimer", "--load", "auto")


FOREIGN_STEP: dict[str, Any] = {
    "parameters": {"interval": "1ms", "method": "-x", "boot-cmd": "curl c | sh", "line": "a.so"},
    "run_options": {
        "load": "sched,exec:program=curl",
        "load-cmd": "curl a | sh",
        "load-cmd-root": True,
        "allow-load-cmd": True,
        "disturb": "irq_off:1s:2s",
        "allow-disturb": True,
        "agent": "/evil",
        "histogram-only": True,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["local", "ssh://b", "lab:x86_64-stock"])
def test_a_command_to_try_starts_nothing_that_an_imported_run_names(
    stored: StoredRun, target: str
) -> None:
    """Its orders are not checked at the import, and its step may name a program of its author."""
    words = ["run", "a", "run", "timer", "--load-cmd", "curl b | sh", "--allow-load-cmd"]
    entry = {**stored.document["steps"][0], **FOREIGN_STEP}
    changed = {"target": target, "orders": [[*words, "--run", "x", "--step", "0"]]}
    run = StoredRun(stored.path, {**stored.document, **changed, "steps": [entry]})
    (run.path / IMPORTED).touch()
    (remedy,) = remedies(Segment(0, 1, "hardware", "exact"), system_of(run, 0))
    assert system_of(run, 0).machine == "x86_64"
    for kernel, machine in (({"machine": "aarch64"}, "aarch64"), ("odd", "x86_64")):
        elsewhere = {**run.document, "environment": {"kernel": kernel}}
        assert system_of(StoredRun(run.path, elsewhere), 0).machine == machine
    command, _, comment = remedy.command.partition(" # ")
    words = shlex.split(command)
    assert words[:5] == ["rtgauge", "tune", "timer", "--interval", "1ms"]
    assert "--method=-x" in words
    assert words[-2:] == ["--try", "idle=poll"]
    assert "curl b" not in command
    named = {"curl", "| sh", "a.so", "irq_off", "allow", "root", "boot-cmd", "evil"}
    if target.startswith("lab:"):
        assert "--load-cmd" in words
        assert not comment
    else:
        assert not {one for one in named if one in command}
        assert {"--load-cmd", "--boot-cmd", "--agent"} < set(comment.split())
        assert "--disturb" not in comment  # `tune` refuses it


def test_no_command_is_given_for_a_run_that_none_repeats(stored: StoredRun) -> None:
    unnamed = {**stored.document["steps"][0], "measurement": None}
    for changed in ({"target": "capture:scope"}, {"steps": [unnamed]}):
        run = StoredRun(stored.path, {**stored.document, "orders": None, **changed})
        (remedy,) = remedies(Segment(0, 1, "hardware", "exact"), system_of(run, 0))
        assert (remedy.command, bool(remedy.text)) == ("", True)
    document = {name: one for name, one in stored.document.items() if name != "target"}
    (remedy,) = remedies(
        Segment(0, 1, "hardware", "exact"), system_of(StoredRun(stored.path, document), 0)
    )
    assert "--target" not in remedy.command


@pytest.mark.parametrize("orders", [[["put", "--step", "0"]], [["read", "0"]], *DAMAGED])
def test_orders_of_any_form_do_not_stop_a_report(stored: StoredRun, orders: object) -> None:
    run = StoredRun(stored.path, {**stored.document, "orders": orders})
    assert system_of(run, 0).words[0] == "timer"


def test_a_run_of_histograms_alone_is_refused(stored: StoredRun) -> None:
    for series in stored.steps[0].series:
        series.count = 0
    with pytest.raises(UsageError, match="only histograms"):
        select(stored)
    for series in stored.steps[0].series:
        series.info = replace(series.info, interval_ns=0)
    with pytest.raises(UsageError, match="no series of durations"):
        select(stored)


def test_an_image_that_is_gone_or_changed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTGAUGE_LAB_CACHE", str(tmp_path))
    kernel, archive = tmp_path / "boot", tmp_path / "images" / "a" / images.ARCHIVE
    archive.parent.mkdir(parents=True)
    (tmp_path / "kernels" / "k").mkdir(parents=True)
    kernel.write_bytes(b"kernel")
    archive.write_bytes(b"archive")
    facts = {
        "kernel digest": digest_of(kernel),
        "initramfs digest": digest_of(archive),
    }
    with pytest.raises(TargetError, match="kernel that the run booted is not in the lab's cache"):
        images.stored_image(facts)
    kernel = kernel.rename(tmp_path / "kernels" / "k" / "vmlinuz")
    record = {"version": 1, "kernel": "vmlinuz", "sha256": facts["kernel digest"]}
    write_record(kernel.with_name("kernel.json"), record)
    with pytest.raises(TargetError, match="initramfs that the run booted is not in"):
        images.stored_image(facts)
    write_record(
        archive.with_name(images.IMAGE_RECORD), {"version": images.IMAGE_VERSION, "facts": facts}
    )
    found = images.stored_image(facts)
    assert (found.kernel, found.initramfs) == (kernel, archive)
    for path, name in ((archive, "initramfs"), (kernel, "kernel")):
        content = path.read_bytes()
        path.write_bytes(b"another")
        with pytest.raises(TargetError, match=f"{name} .* was changed") as error:
            images.stored_image(facts)
        assert "measure again" in error.value.remedy
        path.write_bytes(content)
    assert images.stored_image(facts) == found


def test_a_machine_without_qemu_gets_a_remedy(
    stored: StoredRun, tmp_path: Path, rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = rtgauge("explain", "last", "--store", str(tmp_path / "store"))
    assert done.code == 1
    *_, said, remedy = done.err.splitlines()
    assert "need qemu-system-x86_64, which is not on this machine" in said
    assert "qemu-system-x86" in remedy


def test_another_qemu_is_refused(stored: StoredRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rtgauge.target.lab.found_program", lambda program, package: sys.executable)
    target = LabTarget("x86_64-stock-6.12")
    with pytest.raises(RtgaugeError, match="another QEMU"):
        target.setup_again(check(stored))


# --- blame ---------------------------------------------------------------------------------------


def cause(*segments: Segment, latency_ns: int = 95_000) -> Cause:
    return Cause(0, 2, "user", 1883, 5, latency_ns, segments, 0, "replay", "", Cost(0, "none"))


def segment(kind: str, length_ns: int, function: str, **more: Any) -> Segment:
    return Segment(0, length_ns, kind, "exact", more.pop("task", ORDINARY), function, **more)


STOCK = System("voluntary", "lab:x86_64-stock", ("timer", "--load", "sched"))


def test_the_blame_names_class_task_and_function_and_what_to_try() -> None:
    found = cause(
        segment("interrupts-off", 20_000, "free_one_page"),
        segment("preemption-off", 40_000, "copy", stack=("copy", "read")),
        segment("interrupt", 10_000, "apic_timer_interrupt"),
        segment("preemption-off", 25_000, "clear"),
    )
    main = main_segment(found.segments)
    assert main is not None
    assert (main.kind, main.function, main.length_ns) == ("preemption-off", "copy", 65_000)
    blamed = advised(found, 8_000, STOCK)
    assert blamed.blame == "task load/sched was not preempted: copy (65.000 of 95.000 µs)"
    first, second = blamed.remedies
    command = "rtgauge tune timer --load sched --target lab:x86_64-stock --try preempt=full"
    assert first.command == command
    assert "PREEMPT_RT" in second.text
    text = "\n".join(lines(blamed, "timer latency", "replayed: all 6 samples equal"))
    for words in (
        "user context",
        "sample 1\u202f883",
        "95.000 µs",
        "not preempted",
        "copy < read",
        "try",
    ):
        assert words in text
    assert all(len(line) <= 80 for line in text.splitlines() if "rtgauge tune" not in line)


def test_each_owner_of_a_lock_is_blamed_for_its_own_part() -> None:
    other = Task("another", 11)
    found = cause(
        segment("lock", 500, "get"),
        segment("lock", 1_000, "get", owner=other, task=other),
        segment("lock", 60_000, "get", owner=ORDINARY),
        segment("lock", 500, "get", owner=None, task=MEASURED),
    )
    main = main_segment(found.segments)
    assert main is not None
    assert (main.owner, main.length_ns) == (ORDINARY, 60_500)
    text = "\n".join(lines(replace(found, blame="x"), "timer latency"))
    assert "1.500 µs  waiting for a lock      in get, held by another" in text
    assert "60.500     waiting for a lock      in get, held by load/sched" in text


def test_an_ordinary_sample_blames_nobody() -> None:
    found = cause(segment("interrupt", 5_000, "apic_timer_interrupt"), latency_ns=9_000)
    assert advised(found, 8_000, STOCK).blame.startswith("nobody")
    assert not advised(found, 8_000, STOCK).remedies
    # as a board of the lab had it: a handler's time varies by more than it takes
    found = cause(segment("interrupt", 2_447, "apic_timer_interrupt"), latency_ns=2_447)
    assert advised(found, 1_011, STOCK).blame.startswith("nobody")
    # an operation of a test loop waits for no interrupt
    handler = replace(segment("interrupt", 2_660, "apic_timer_interrupt"), begin_ns=27)
    loop = (segment("operation", 27, "x"), handler, segment("operation", 55, "x"))
    found = replace(found, segments=loop, latency_ns=2_742)
    assert advised(found, 82, STOCK).blame.startswith("an interrupt handler ran")
    assert advised(found, 1_371, STOCK).blame.startswith("nobody")
    # most of it was not seen
    found = cause(segment("switch", 4_000, "x"), latency_ns=190_000)
    assert advised(found, 8_000, STOCK).blame.startswith("not seen: 186.000 of 190.000 µs")
    found = cause(segment("interrupts-off", 4_100, "x"), latency_ns=4_100)
    assert advised(found, 1_011, STOCK).blame.startswith("interrupts were off")


@pytest.mark.parametrize(
    ("main", "system", "words"),
    [
        (segment("lock", 9, "get_random_u16"), STOCK, "randomize_kstack_offset=off"),
        (segment("preemption-off", 9, "x"), replace(STOCK, realtime="preempt_rt"), ""),
        (segment("interrupts-off", 9, "__free_one_page"), STOCK, "PREEMPT_RT kernel"),
        (segment("interrupts-off", 9, "x"), replace(STOCK, realtime="preempt_rt"), ""),
        (segment("softirq", 9, "net_rx_action"), STOCK, "threadirqs"),
        (segment("higher-priority", 9, "x"), STOCK, "priority=98"),
        (
            segment("higher-priority", 9, "x", task=Task("hog", 3, "fifo", 99)),
            STOCK,
            'that ran", ""]',
        ),
        (segment("hardware", 9, ""), STOCK, "--try idle=poll"),
        (segment("hardware", 9, ""), replace(STOCK, machine="aarch64"), "--try nohlt"),
        (segment("switch", 9, "x"), STOCK, ""),
        (
            segment("preemption-off", 9, "busy", task=Task("rtgauge_disturb", 5, "fifo", 1)),
            replace(STOCK, disturb="spin_lock:1us:9us"),
            "the injection",
        ),
    ],
)
def test_remedies_depend_on_class_function_and_kernel(
    main: Segment, system: System, words: str
) -> None:
    text = json.dumps([(one.text, one.command) for one in remedies(main, system)])
    assert words in text
    assert words or text == "[]"


def test_the_table_of_remedies_names_only_classes_of_the_model() -> None:
    assert {row.kind for row in REMEDIES} <= set(CLASSES)


def test_what_the_worst_samples_have_in_common_is_counted() -> None:
    one = replace(cause(), blame="task a was not preempted: f (1.000 of 2.000 µs)")
    two = replace(one, blame="task a was not preempted: f (9.000 of 12.000 µs)")
    text = common([one, two, replace(one, blame="interrupts were off: g (1.0 of 2.0 µs)")])
    assert text[0] == "the 3 worst in user context:"
    assert text[1].split(None, 1) == ["2", "task a was not preempted: f"]
    assert common([one]) == []
    both = [replace(one, series=series, index=index) for series in (2, 3) for index in (0, 1)]
    assert common(both)[0] == "the 2 worst of each of 2 series in user context:"
    assert common(both[1:])[0] == "3 samples of 2 series in user context:"
    usual = [replace(one, blame=f"nobody: an ordinary sample. The median is {n}") for n in (1, 2)]
    assert [row.split(None, 1) for row in common(usual)[1:]] == [
        ["2", "nobody: an ordinary sample"]
    ]


def test_causes_replace_earlier_ones_of_the_same_sample(tmp_path: Path) -> None:
    run = StoredRun(tmp_path, {"id": "0198"})
    keep(run, [cause(segment("switch", 1, "a"))])
    keep(run, [replace(cause(), index=7), cause(segment("switch", 2, "b"))])
    kept = run.causes["causes"]
    assert [(one["index"], len(one["segments"])) for one in kept] == [(7, 0), (1883, 1)]
    assert kept[1]["segments"][0]["function"] == "b"


# --- reports -------------------------------------------------------------------------------------


def explained_run(*causes: Cause) -> dict[str, Any]:
    run: Any = made.run([made.step(0, [made.FakeSeries(made.info(), *made_samples())])])
    run.causes = json.loads(json.dumps(document_of(run.id, causes)))
    document: dict[str, Any] = model.build([run])["runs"][0]
    return document


def made_samples() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.arange(100), np.full(100, 5000, np.int32)


BLAMED = replace(
    cause(
        segment("interrupts-off", 20_000, "free_one_page"),
        replace(
            segment("preemption-off", 60_000, "copy<b>", functions=(("copy<b>", 60_000),)),
            begin_ns=20_000,
        ),
        replace(segment("lock", 14_000, "get", owner=ORDINARY), begin_ns=80_000),
    ),
    blame="task load/sched was not preempted: copy<b> (60.000 of 95.000 µs)",
    rest_ns=1_000,
    remedies=(Remedy("preempt=full", "rtgauge tune timer --try preempt=full"),),
)


def test_the_answer_names_the_cause_or_the_command_that_finds_it() -> None:
    series = made.FakeSeries(
        made.info(context="user"), np.arange(100), np.full(100, 5000, np.int32)
    )
    series.value[[7, 50]] = 95_000
    top = replace(BLAMED, index=7, series=0)
    lab = {**made.ENVIRONMENT, "lab": {"mode": "counted"}}
    run: Any = made.run([made.step(0, [series])], target="lab:x86_64-stock", environment=lab)
    for causes, words in (
        ((), f"rtgauge explain {run.id[:13]}"),
        ((top,), "Cause: task load/sched was not preempted: copy<b>"),
        # samples of the same value, later and of another series, have causes of their own
        ((replace(top, index=50),), f"rtgauge explain {run.id[:13]}"),
        ((replace(top, series=1),), f"rtgauge explain {run.id[:13]}"),
        ((replace(top, index=50, blame="another"), top), "Cause: task load/sched was"),
    ):
        run.causes = json.loads(json.dumps(document_of(run.id, causes)))
        answer = answer_of(model.build([run])["runs"][0])
        text = f"{plain_line(answer.cause)} {answer.cause_command}"
        assert words in text
    # only a run without a trace is replayed
    run.causes = {}
    document = model.build([run])["runs"][0]
    command = f"rtgauge explain {run.id[:13]}"
    assert hint_of(Data(document), command).startswith("replays the run")
    document["steps"][0]["load"]["explain_ns"] = 4000
    assert "from the trace" in hint_of(Data(document), command)
    # no trace of this step, and `explain` shows that of another one
    assert _likely(Data(document))[1] == command
    other = {**document["steps"][0], "step": 1}
    document["steps"][0]["load"] = {**other["load"]}
    del document["steps"][0]["load"]["explain_ns"]
    document["steps"].append(other)
    assert _likely(Data(document))[1] != command


def test_the_section_of_a_report_has_picture_table_and_remedies() -> None:
    first, *others = BLAMED.segments
    least = replace(first, length_ns=first.length_ns - 5_000)
    other = replace(BLAMED, index=4, latency_ns=90_000, segments=(least, *others))
    (section,) = causes_sections(explained_run(BLAMED, other))
    text = "".join(markdown.render(Document("x", "", (section,))))
    for words in (
        "95.000",
        "not preempted",
        "interrupts off",
        "held by load/sched",
        "1 more sample",
    ):
        assert words in text.replace("\u202f", " ")
    assert "not explained" in text
    assert "2 of 2 in user context" in text
    assert "--try preempt=full" in text
    assert not list(causes_sections(explained_run()))
    (section,) = causes_sections(explained_run(replace(BLAMED, unseen="It was not kept.")))
    assert "It was not kept.\n" in "".join(markdown.render(Document("x", "", (section,))))


def test_a_report_tells_series_of_one_context_apart_as_the_command_does() -> None:
    """Such as those of thread-switch: a series for each number of threads."""
    labels = ({"threads": "2"}, {"threads": "8"})
    run: Any = made.run(
        [
            made.step(
                0,
                [
                    made.FakeSeries(
                        made.info(series=number, context="user", labels=one), *made_samples()
                    )
                    for number, one in enumerate(labels)
                ],
            )
        ]
    )
    usual = [
        replace(BLAMED, series=number, blame=f"nobody: an ordinary sample. The median is {number}")
        for number in (0, 1)
    ]
    run.causes = json.loads(json.dumps(document_of(run.id, usual)))
    document = model.build([run])
    model.validate(document)
    (section,) = causes_sections(document["runs"][0])
    text = "".join(markdown.render(Document("x", "", (section,))))
    assert "threads 2, user context" in text
    assert "threads 8, user context" in text
    assert "2 of 2 in user context: nobody: an ordinary sample\n" in text


def test_the_worst_sample_of_each_series_is_printed(
    stored: StoredRun, tmp_path: Path, rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as acquire and release, which have one context."""
    for series in (two := stored.steps[0].series):
        series.info = replace(series.info, name=f"series {series.info.series}")
    monkeypatch.setattr("rtgauge.cli.explain.find_run", lambda *_: stored)
    one = cause(segment("switch", 95_000, "__schedule"))
    other = replace(one, series=0, latency_ns=500, segments=(), rest_ns=500)
    found = Explained((one, replace(one, index=7), other), 6, 1.0)
    monkeypatch.setattr("rtgauge.causes.explain.explain", lambda *_, **__: found)
    done = rtgauge("explain", "last", "--store", str(tmp_path / "store"))
    assert done.code == 0, done.err
    titles = [text for text in done.out.splitlines() if "user context, sample" in text]
    assert [text.split(",")[0] for text in titles] == ["timer series 2", "timer series 0"]
    assert len(two) == 4


def test_series_of_one_name_are_told_apart_and_those_left_out_are_named(
    stored: StoredRun, tmp_path: Path, rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as those of thread-switch: a series for each number of threads."""
    for series in (both := stored.steps[0].series):
        threads = types.MappingProxyType({"threads": str(series.info.series + 2)})
        changed = replace(series.info, name="switch", context="user", labels=threads)
        series.info = changed if series.info.companion is None else series.info
    monkeypatch.setattr("rtgauge.cli.explain.find_run", lambda *_: stored)
    one = cause(segment("switch", 95_000, "__schedule"))
    other = replace(one, series=0, latency_ns=500, segments=(), rest_ns=500)
    found = Explained((one, replace(one, index=7), other), 6, 1.0)
    monkeypatch.setattr("rtgauge.causes.explain.explain", lambda *_, **__: found)
    words = ("explain", "last", "--store", str(tmp_path / "store"))
    done = rtgauge(*words)
    assert done.code == 0, done.err
    titles = [text for text in done.out.splitlines() if "user context, sample" in text]
    assert [text.split(", user context")[0] for text in titles] == [
        "timer switch, threads 4",
        "timer switch, threads 2",
    ]
    assert "3 samples of 2 series in user context:" in done.out
    assert "more series" not in done.out
    monkeypatch.setattr("rtgauge.cli.explain.SERIES_SHOWN", 1)
    done = rtgauge(*words)
    assert "threads 2" not in done.out
    command = f"rtgauge explain {stored.id[:13]} --worst 1"
    assert f"1 more series: {command}" in done.out
    assert len(both) == 4


def test_the_picture_has_a_bar_for_each_segment_and_no_markup_of_a_target() -> None:
    (one,) = explained_run(BLAMED)["causes"]
    svg = gantt(one)
    assert svg.count("Z") == len(BLAMED.segments)
    assert "copy&lt;b&gt;" in svg
    assert "copy<b>" not in svg
    # at the end of the picture the words are before the bar
    (words,) = (part for part in svg.split("<text") if "held by load/sched" in part)
    assert 'text-anchor="end"' in words
    # the largest sum comes first
    assert gantt_said(one).startswith("not preempted 60.0")


def test_a_trace_takes_the_place_of_an_earlier_one_when_it_is_complete(
    stored: StoredRun, tmp_path: Path, rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Explained((cause(segment("switch", 95_000, "__schedule")),), 6, 1.0)
    monkeypatch.setattr("rtgauge.causes.explain.explain", lambda *_, **__: found)
    words = ("explain", "last", "--store", str(tmp_path / "store"))
    file = tmp_path / "worst.trace.json"
    file.write_text("an earlier one, which is longer" * 1000)
    assert rtgauge(*words, "-o", str(file)).code == 0
    assert json.loads(file.read_text()) == trace(found.causes)
    assert [path.name for path in tmp_path.glob("*.trace.json*")] == [file.name]
    done = rtgauge(*words, "-o", str(tmp_path / "nowhere" / file.name))
    assert (done.code, "there is no folder" in done.err) == (2, True)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("rtgauge.report.writing.os.chmod", full)
    done = rtgauge(*words, "-o", str(file))
    assert done.code == 1
    assert "cannot write the trace" in done.err
    assert json.loads(file.read_text()) == trace(found.causes)
    assert [path.name for path in tmp_path.glob("*.json*")] == [file.name]
    assert not list(tmp_path.glob(".*"))


def test_a_trace_for_perfetto_has_every_segment_once() -> None:
    document = trace([BLAMED, BLAMED])
    spans = [one for one in document["traceEvents"] if one["ph"] == "X"]
    assert len(spans) == 2 * len(BLAMED.segments)
    assert {one["pid"] for one in spans} == {1, 2}
    assert sum(one["dur"] for one in spans) == 2 * 94.0
    assert spans[1]["ts"] == 20.0
    names = {one["args"]["name"] for one in document["traceEvents"] if one["ph"] == "M"}
    assert "load/sched (7)" in names
    json.dumps(document)
    held = segment("lock", 7, "", owner=TIMERS)
    (_, _, span) = trace([cause(held)])["traceEvents"]
    assert span["name"] == "waiting for a lock"
    assert span["args"]["owner"] == "ktimers/0"
