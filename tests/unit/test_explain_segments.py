# SPDX-License-Identifier: Apache-2.0
"""Records of a replay become segments: stacks from calls and returns, classes, names."""

import itertools
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from counted import lines_of
from explained import (
    AT,
    HIGH,
    KALLSYMS,
    LOW,
    MEASURED,
    NAMES,
    ORDINARY,
    OTHER_TASK,
    TIMERS,
    WAKER,
    Known,
    Program,
    cause,
    handed_over,
    recorded,
    wake_up,
)
from rtgauge.causes import CLASSES, Task
from rtgauge.causes.blame import blame
from rtgauge.causes.cut import Step, Tasks, cut, walk
from rtgauge.causes.explain import _cuts
from rtgauge.causes.placing import operation, pair, tolerance_ns
from rtgauge.causes.replay import Clock, Guest, Sample
from rtgauge.causes.symbols import UNLOADED, USER, Symbols, TaskLayout
from rtgauge.lab.recorder import (
    BLOCK,
    CALL,
    EXCEPTION_RETURN,
    OTHER,
    RETURN,
    SYSCALL,
    Piece,
)
from rtgauge.report.render.causes_text import lines


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


@pytest.mark.slow
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


def test_a_pair_of_readings_long_after_the_event_is_another_one() -> None:
    """A later interrupt reads the clock twice, by chance as far apart as the sample is long."""
    interrupt = wake_up(Program()).steps()
    step = next(one for one in interrupt if one.stack[-1] == "sysvec_apic_timer_interrupt")
    readings = np.array([5444, 6126, 500_666, 501_348], np.int64)

    def at(time: int) -> Step | None:
        return step if time > 500_000 else None

    found = pair(readings, readings, at, 0, 688, (17, 2000), handler=True)
    assert found == (5444, 6126)


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


@pytest.mark.slow
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


@pytest.mark.slow
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
    with pytest.raises(ValueError, match="an unknown format"):
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
