# SPDX-License-Identifier: Apache-2.0
"""Segments of a trace, against what they must add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counted import lines_of
from rtgauge.causes.blame import blame, main_segment, reason
from rtgauge.causes.model import (
    CERTAINTIES,
    CHOICE,
    CLASSES,
    LATE,
    UNTIL,
)
from rtgauge.causes.tracefs.pages import (
    HARDIRQ,
    IRQS_OFF,
    SOFTIRQ,
    Event,
)
from rtgauge.causes.tracefs.segments import Sample, segments_of, woken_elsewhere
from traces import DUE, ORDINARY, TARGET, path, switch, timer, waking


def softirq(us: float, end: str, pid: int = ORDINARY) -> Event:
    return Event(DUE + int(us * 1000), f"irq/softirq_{end}", pid, SOFTIRQ, 0, {"vec": 6})


def idle(us: float, state: int) -> Event:
    return Event(DUE + int(us * 1000), "power/cpu_idle", 0, IRQS_OFF, 1, {"state": state})


def cut(
    events: Sequence[Event], latency_us: float, pid: int = TARGET, usual_us: float = 8
) -> list[tuple[str, float, str, str]]:
    """The segments as class, length in µs, task and function; nothing is left over."""
    sample = Sample(DUE, DUE + int(latency_us * 1000), pid, 0, 1 << 62, int(usual_us * 1000))
    segments, rest = segments_of(sample, sorted(events, key=lambda event: event.time_ns))
    assert rest == 0
    return [
        (one.kind, one.length_ns / 1000, one.task.name if one.task else "", one.function)
        for one in segments
    ]


def test_the_usual_path() -> None:
    assert cut(path(1), 7) == [
        ("interrupt", 1, "t77", "delivery"),
        ("interrupt", 2, "t77", "local timer"),
        ("switch", 2, "t77", ""),
        ("return", 2, "t50", ""),
    ]


def test_interrupts_off() -> None:
    assert cut(path(200), 206)[0] == ("interrupts-off", 200, "t77", "")


def test_a_late_interrupt_of_an_idle_cpu_is_the_hardware() -> None:
    events = [switch(-100, 1, 0), idle(-90, 3), *path(200)[1:], idle(200.5, 2**32 - 1)]
    events = [
        Event(e.time_ns, e.name, 0 if e.pid == ORDINARY else e.pid, e.flags, e.preempt, e.fields)
        for e in events
    ]
    assert cut(events, 206)[0] == ("hardware", 200, "idle", "idle state 3")


def test_preemption_off_by_the_count_that_the_interrupt_found() -> None:
    assert cut(path(1, 200, preempt=1), 206)[2] == ("preemption-off", 202, "t77", "")
    # without the count, a switch of the usual length is one, and a longer one is not
    assert cut(path(1, 200), 206)[2][0] == "preemption-off"
    assert cut(path(1, 5), 206, usual_us=8)[2] == ("switch", 7, "t77", UNTIL)
    # up to 5 us, it is the time of the switch itself
    assert cut(path(1, 3), 206, usual_us=8)[2] == ("switch", 5, "t77", "")
    sample = Sample(DUE, DUE + 12_000, TARGET, 0, 1 << 62, 8_000)
    blamed = blame(segments_of(sample, path(1, 5))[0], 12_000, 1_000)[0]
    assert blamed.startswith("task t77 ran until the task switch, no longer than usual (7.")


def test_wake_ups_of_other_tasks_do_not_make_a_switch() -> None:
    """Each wake-up is an event, and the time between two of them is short."""
    others = [waking(10 + 4 * at, ORDINARY, 0, woken=1000 + at) for at in range(48)]
    assert cut([*path(1, 200), *others], 206) == cut(path(1, 200), 206)


@pytest.mark.parametrize("before", [[], [switch(-100, 1, TARGET, 19), switch(-50, TARGET, 60)]])
def test_a_thread_that_nothing_woke_was_awake(before: Sequence[Event]) -> None:
    """The wake-up was overwritten, or the thread was preempted before it was due. The handler is
    that of another timer."""
    tick = [timer(180, "entry", 60, preempt=1), timer(182, "exit", 60)]
    events = [*before, *tick, switch(184, 60, TARGET, 19)]
    sample = Sample(DUE, DUE + 206_000, TARGET, 0 if before else DUE + 50_000, 1 << 62, 8_000)
    segments, _ = segments_of(sample, events)
    kinds = ["preemption-off", "interrupt", "preemption-off", "return"]
    assert [one.kind for one in segments] == kinds
    # it ran when it was due
    events = [switch(-100, 1, TARGET, 19), timer(180, "entry", TARGET), timer(182, "exit", TARGET)]
    events += [switch(184, TARGET, 60), switch(200, 60, TARGET, 19)]
    segments, _ = segments_of(replace(sample, covered_ns=0), events)
    assert "interrupts-off" not in {one.kind for one in segments}


def test_softirq_and_another_handler() -> None:
    events = path(1, 100)
    events += [softirq(3, "entry"), softirq(60, "exit")]
    events += [timer(70, "entry"), timer(80, "exit")]
    kinds = [(kind, length, function) for kind, length, _, function in cut(events, 106)]
    assert ("softirq", 57, "TASKLET") in kinds
    assert ("interrupt", 10, "local timer") in kinds


def test_a_softirq_that_runs_on_around_the_interrupt() -> None:
    events = [softirq(-50, "entry"), *path(1, 100), softirq(90, "exit")]
    assert ("softirq", 87, "t77", "TASKLET") in cut(events, 110)


@pytest.mark.parametrize(("prio", "kind"), [(9, "higher-priority"), (19, "higher-priority")])
def test_tasks_that_run_first(prio: int, kind: str) -> None:
    events = [*path(1)[:-1], switch(5, ORDINARY, 60, prio), switch(105, 60, TARGET, 19)]
    assert (kind, 100, "t60", "") in cut(events, 107)


@pytest.mark.parametrize("chosen", [60, 0])
def test_a_lower_task_that_the_scheduler_chooses(chosen: int) -> None:
    """The throttling of real-time tasks does that to a ready one, or to one that ran."""
    least: tuple[str, float, str, str] = ("switch", 100, "t60" if chosen else "idle", CHOICE)
    events = [*path(1)[:-1], switch(5, ORDINARY, chosen, 120), switch(105, chosen, TARGET, 19)]
    assert least in cut(events, 107)
    events = [
        *path(1),
        switch(20, TARGET, chosen, 120, prev_prio=19),
        switch(120, chosen, TARGET, 19),
    ]
    assert least in cut(events, 125)
    sample = Sample(DUE, DUE + 125_000, TARGET, 0, 1 << 62, 8_000)
    name = "t60" if chosen else "idle"
    assert blame(segments_of(sample, events)[0], 125_000, 8_000)[0] == (
        f"the scheduler chose a task of lower priority: {name} (100 of 125\u202fµs)"
    )


def test_a_lower_task_that_was_chosen_before_the_thread_was_ready() -> None:
    """It runs on after the wake-up: the kernel did not preempt it."""
    events = [*path(1)[:-2], switch(1.5, ORDINARY, 60), timer(2, "entry", 60),
              waking(3, 60), timer(4, "exit", 60), switch(105, 60, TARGET, 19)]  # fmt: skip
    events = [one for one in events if one.time_ns != DUE + 2_000 or one.pid == 60]
    assert ("preemption-off", 101, "t60", "") in cut([events[0], *events[3:]], 107)


def handler(us: float, end: str, name: str = "eth0", task: int = ORDINARY) -> Event:
    fields: dict[str, int | str] = {"irq": 30, "name": name}
    flags = IRQS_OFF | HARDIRQ
    return Event(DUE + int(us * 1000), f"irq/irq_handler_{end}", task, flags, 1, fields)


def test_a_wake_up_after_the_end_of_a_handler_is_in_no_handler() -> None:
    """The kernel leaves the context of an interrupt a little later than its handler."""
    events = [*path(1, 200, preempt=1), handler(20, "entry"), handler(21, "exit")]
    events.append(waking(21.5, ORDINARY, woken=61))
    found = cut(events, 206)
    assert ("interrupt", 1, "t77", "eth0") in found
    assert sum(one[1] for one in found if one[0] == "preemption-off") == 201
    # the same after the last softirq
    events = [*path(1, 200, preempt=1), softirq(3, "entry"), softirq(20, "exit")]
    events.append(waking(20.5, ORDINARY, SOFTIRQ, woken=61))
    found = cut(events, 206)
    assert sum(one[1] for one in found if one[0] == "softirq") == 17
    assert sum(one[1] for one in found if one[0] == "preemption-off") == 185


@pytest.mark.parametrize("earlier", [-100, 50])
def test_a_handler_without_events_is_not_an_earlier_one(earlier: int) -> None:
    """The timer of PowerPC, or of a guest of Hyper-V: the trace has only the wake-up in it."""
    others = [handler(earlier, "entry"), handler(earlier + 1, "exit")]
    events = [switch(-200, 1, ORDINARY), waking(151, ORDINARY), switch(154, ORDINARY, TARGET, 19)]
    assert cut(events, 156)[0] == ("interrupts-off", 151, "t77", "")
    found = cut([*events, *others], 156)
    # from the wake-up to the switch
    assert [one[1] for one in found if one[0] == "preemption-off"] == [3]
    kind, function = ("hardware", LATE) if earlier > 0 else ("interrupts-off", "")
    assert (found[0][0], found[0][3]) == (kind, function)
    assert sum(one[1] for one in found if one[0] == kind) == 151 - (earlier > 0)


def test_a_trace_that_begins_within_a_handler() -> None:
    events = [waking(5, ORDINARY, woken=61), handler(50, "exit"), *path(60)[1:]]
    assert cut(events, 67)[0] == ("interrupt", 50, "t77", "interrupt")


def test_a_late_interrupt_after_handlers_of_others() -> None:
    """They run only while interrupts are on, so a timer that was due had been taken."""
    events = [*path(200), handler(50, "entry"), handler(52, "exit")]
    assert cut(events, 206)[:3] == [
        ("hardware", 50, "t77", LATE),
        ("interrupt", 2, "t77", "eth0"),
        ("hardware", 148, "t77", LATE),
    ]
    sample = Sample(DUE, DUE + 206_000, TARGET, 0, 1 << 62, 8_000)
    segments, _ = segments_of(sample, sorted(events, key=lambda event: event.time_ns))
    assert blame(segments, 206_000, 8_000)[0] == (
        "the interrupt came late, although interrupts were enabled (198 of 206\u202fµs)"
    )
    # taken right after the other one: both had waited
    events = [*path(200), handler(197, "entry"), handler(199, "exit")]
    assert cut(events, 206)[0] == ("interrupts-off", 197, "t77", "")


def test_each_handler_has_its_own_sum() -> None:
    events = path(1, 200)
    events += [handler(10, "entry"), handler(50, "exit")]
    events += [handler(60, "entry", "usb"), handler(95, "exit", "usb")]
    events += [handler(100, "entry", "usb"), handler(135, "exit", "usb")]
    sample = Sample(DUE, DUE + 206_000, TARGET, 0, 1 << 62, 8_000)
    segments, _ = segments_of(sample, sorted(events, key=lambda event: event.time_ns))
    kept = [one for one in segments if one.kind == "interrupt"]
    main = main_segment(kept)
    assert main is not None
    assert (main.function, main.length_ns) == ("usb", 70_000)


def test_a_lock_has_the_task_that_held_it() -> None:
    events = [
        *path(1),
        switch(10, TARGET, 60, 19, state=2),
        waking(90, 60, IRQS_OFF),
        switch(91, 60, TARGET, 19),
    ]
    sample = Sample(DUE, DUE + 95_000, TARGET, 0, 1 << 62)
    segments, _ = segments_of(sample, sorted(events, key=lambda event: event.time_ns))
    (lock,) = [one for one in segments if one.kind == "lock"]
    assert lock.length_ns == 81_000  # until the task runs
    assert lock.owner is not None
    assert lock.owner.pid == 60


WAKER: Final = 15


def test_a_lock_that_the_waking_thread_waits_for_has_its_owner() -> None:
    """A thread for timers (PREEMPT_RT) waits for a lock before it wakes the measured task. The
    owner was preempted by a task of lower priority than the measured one, and by one of higher."""
    events = [
        switch(-100, 1, ORDINARY),
        timer(1, "entry"),
        waking(2, ORDINARY, woken=WAKER, prio=98),
        timer(3, "exit"),
        switch(5, ORDINARY, WAKER, 98),
        softirq(6, "entry", WAKER),
        switch(10, WAKER, ORDINARY, 98, state=2, prev_prio=98),
        switch(40, ORDINARY, 60, 9),
        switch(60, 60, ORDINARY, 98),
        waking(90, ORDINARY, IRQS_OFF, woken=WAKER, prio=98),
        switch(91, ORDINARY, WAKER, 98),
        waking(94, WAKER, IRQS_OFF | SOFTIRQ),
        switch(95, WAKER, TARGET, 19, prev_prio=98),
    ]
    sample = Sample(DUE, DUE + 97_000, TARGET, 0, 1 << 62, 8000, threaded=True)
    segments, rest = segments_of(sample, events)
    assert rest == 0
    assert [(one.kind, one.length_ns // 1000, one.owner and one.owner.pid) for one in segments] == [
        ("interrupt", 1, None),
        ("interrupt", 2, None),
        ("switch", 2, None),
        ("switch", 1, None),
        ("softirq", 4, None),
        ("lock", 30, ORDINARY),
        ("higher-priority", 20, None),
        ("lock", 31, ORDINARY),
        ("softirq", 4, None),
        ("return", 2, None),
    ]
    # a thread that leaves the CPU and remains ready waits for nothing
    events[6] = switch(10, WAKER, ORDINARY, prev_prio=98)
    segments, rest = segments_of(sample, events)
    assert "lock" not in {one.kind for one in segments}
    assert ("switch", CHOICE, 30_000) in {
        (one.kind, one.function, one.length_ns) for one in segments
    }


def test_a_lock_whose_owner_does_not_run_still_has_it() -> None:
    events = [
        *path(1),
        switch(10, TARGET, 60, 120, state=2),
        switch(40, 60, 61, 120),
        waking(90, 61, IRQS_OFF),
        switch(91, 61, TARGET, 19),
    ]
    sample = Sample(DUE, DUE + 95_000, TARGET, 0, 1 << 62)
    segments, _ = segments_of(sample, sorted(events, key=lambda event: event.time_ns))
    locks = [one for one in segments if one.kind == "lock"]
    assert [
        (one.length_ns, one.task and one.task.pid, one.owner and one.owner.pid) for one in locks
    ] == [(30_000, 60, 61), (51_000, 61, 61)]


def waited(events: Sequence[Event], us: int, *, threaded: bool = False) -> tuple[set[str], str]:
    """The classes of a sample that ends 5 µs after the wait, and its blame. No owner is idle."""
    sample = Sample(DUE, DUE + (us + 5) * 1000, TARGET, 0, 1 << 62, 2000, threaded)
    segments, rest = segments_of(sample, sorted(events, key=lambda event: event.time_ns))
    assert sum(one.length_ns for one in segments) + rest == (us + 5) * 1000
    assert all(one.owner is None or one.owner.pid for one in segments)
    return {one.kind for one in segments}, blame(segments, (us + 5) * 1000, 2000)[0]


@pytest.mark.parametrize("interrupted", [0, ORDINARY])
@pytest.mark.parametrize("waker", ["softirq", "task"])
def test_a_softirq_of_an_interrupt_is_not_a_lock(interrupted: int, waker: str) -> None:
    """It runs in the task that the interrupt found, also in the owner of a lock."""
    events = [
        *path(1),
        switch(10, TARGET, interrupted, state=1),
        timer(50, "entry", interrupted),
        timer(51, "exit", interrupted),
        softirq(52, "entry", interrupted),
        softirq(1052, "exit", interrupted),
        waking(1050 if waker == "softirq" else 1055, interrupted, SOFTIRQ * (waker == "softirq")),
        switch(1060, interrupted, TARGET, 19),
    ]
    kinds, blamed = waited(events, 1060)
    assert blamed == "a softirq ran: TASKLET (1\u202f000 of 1\u202f065\u202fµs)"
    if waker == "softirq":
        assert "lock" not in kinds
    # the owner of a lock runs them in a thread, where it can be preempted
    if waker == "task" and interrupted:
        _, blamed = waited(events, 1060, threaded=True)
        assert blamed == "waited for a lock, held by t77 (1\u202f049 of 1\u202f065\u202fµs)"


@pytest.mark.parametrize("running", [0, 60])
def test_a_wait_that_an_interrupt_ends_is_not_for_a_lock(running: int) -> None:
    events = [
        *path(1),
        switch(10, TARGET, running, state=1),
        timer(500, "entry", running),
        waking(501, running),
        timer(502, "exit", running),
        switch(503, running, TARGET, 19),
    ]
    kinds, blamed = waited(events, 503)
    assert kinds == {"interrupt", "switch", "return"}
    assert blamed == "not seen: 490 of 508\u202fµs is not explained"


@pytest.mark.parametrize("state", [2, 0x80])  # for a device, or for work
def test_a_waking_thread_that_waits_for_an_interrupt_waits_for_no_lock(state: int) -> None:
    events = [
        switch(-100, 1, 0),
        timer(1, "entry", 0),
        waking(2, 0, woken=WAKER, prio=120),
        timer(3, "exit", 0),
        switch(4, 0, WAKER),
        switch(10, WAKER, 0, state=state),
        timer(800, "entry", 0),
        waking(801, 0, woken=WAKER, prio=120),
        timer(802, "exit", 0),
        switch(803, 0, WAKER),
        waking(810, WAKER, 0),
        switch(811, WAKER, TARGET, 19),
    ]
    kinds, blamed = waited(events, 810)
    assert "lock" not in kinds
    assert blamed == "not seen: 790 of 815\u202fµs is not explained"


@pytest.mark.parametrize("waker", ["ktimers/0", "irq/20-rtgauge"])
@pytest.mark.parametrize("state", [1, 2])
def test_a_thread_that_ran_on_until_it_waits_for_its_event(waker: str, state: int) -> None:
    """It was still busy when it was due, and on PREEMPT_RT a thread wakes it: that of a softirq, or
    that of a handler. Only an uninterruptible wait is for a lock that this thread held."""
    flags = SOFTIRQ if waker.startswith("ktimers") else 0
    events = [
        switch(-100, 1, TARGET, 19),
        timer(1, "entry", TARGET),
        waking(2, TARGET, woken=WAKER, prio=98),
        timer(3, "exit", TARGET),
        switch(300, TARGET, 60, 49, state=state),
        switch(500, 60, WAKER, 98),
        *((softirq(501, "entry", WAKER),) if flags else ()),
        waking(510, WAKER, flags),
        *((softirq(511, "exit", WAKER),) if flags else ()),
        switch(512, WAKER, TARGET, 19, prev_prio=98),
    ]
    for place, one in enumerate(events):
        names = {
            f"{key}_comm": waker
            for key in ("prev", "next")
            if one.fields.get(f"{key}_pid") == WAKER
        }
        events[place] = replace(one, fields={**one.fields, **names})
    sample = Sample(DUE, DUE + 517_000, TARGET, 0, 1 << 62, 2000, threaded=True)
    segments, rest = segments_of(sample, events)
    assert rest == 0
    long = [(one.kind, one.task and one.task.pid) for one in segments if one.length_ns > 20_000]
    if state == 2:
        assert [kind for kind, _ in long] == ["return", "lock"]
    else:
        assert long == [("higher-priority", TARGET), ("higher-priority", 60)]
        assert "lock" not in {one.kind for one in segments}


def test_a_lock_that_another_cpu_gives_back_has_no_owner() -> None:
    """The trace of this CPU does not have the wake-up. The task that ran here is not the owner."""
    events = [*path(1), switch(10, TARGET, 60, state=2), switch(500, 60, TARGET, 19)]
    assert waited(events, 500)[1] == "waited for a lock (490 of 505\u202fµs)"
    before = [
        *path(1),
        *(switch(5, TARGET, 60, state=2), waking(10, 60, 0), switch(11, 60, TARGET, 19)),
    ]
    events = [*before, switch(15, TARGET, 61, state=2), switch(500, 61, TARGET, 19)]
    assert waited(events, 500)[1] == "waited for a lock (485 of 505\u202fµs)"


def test_a_later_wait_is_not_a_wake_up_by_another_cpu() -> None:
    """The thread was woken here, and waits again for a lock that another CPU gives back."""
    events = [*path(1), switch(10, TARGET, 60, state=2), switch(500, 60, TARGET, 19)]
    sample = Sample(DUE, DUE + 505_000, TARGET, 0, 1 << 62)
    assert woken_elsewhere(sample, events) is None
    assert segments_of(sample, events)[1] == 0


@pytest.mark.parametrize("asleep", [False, True])
def test_a_thread_that_runs_when_it_is_due_may_wait_for_a_lock(asleep: bool) -> None:
    """Its first wake-up is that of the owner. If an interrupt wakes it, it went to sleep."""
    end = 830 if asleep else 820
    interrupt = [timer(end - 10, "entry", 60), timer(end + 2, "exit", 60)]
    events = [
        switch(-100, 1, TARGET, 19),
        switch(10 if asleep else 300, TARGET, 60, state=1),
        waking(end, 60, HARDIRQ if asleep else 0),
        *(interrupt if asleep else ()),
        switch(end + 4, 60, TARGET, 19),
    ]
    kinds, blamed = waited(events, end + 4)
    if asleep:
        assert "lock" not in kinds
        assert blamed.startswith("interrupts were off")
    else:
        assert kinds == {"return", "lock"}
        assert blamed == "waited for a lock, held by t60 (524 of 829\u202fµs)"


@pytest.mark.parametrize("awake", [False, True])
@pytest.mark.parametrize("state", [1, 2])
def test_a_wait_that_another_cpu_ends_is_for_a_lock_if_it_is_uninterruptible(
    state: int, awake: bool
) -> None:
    """A timer that expires on another CPU ends the other ones. The task that runs in that time is
    not one that could have been preempted."""
    before = [switch(-100, 1, TARGET, 19)] if awake else path(1)
    events = [*before, switch(10, TARGET, 60, state=state), switch(500, 60, TARGET, 19)]
    _, blamed = waited(events, 500)
    lock, unknown = "waited for a lock (490 of", "not seen: 490 of"
    assert blamed.startswith(lock if state == 2 else unknown)


@pytest.mark.parametrize("until", [40, 150, 189])
@pytest.mark.parametrize("running", [0, ORDINARY])
def test_a_trace_that_ends_before_the_wake_up_blames_nothing(until: int, running: int) -> None:
    """It was read during the sample. The timer came late, after another one."""
    events = [
        *(switch(-100, 1, running), timer(50, "entry", running), timer(52, "exit", running)),
        *(timer(190, "entry", running), waking(191, running), timer(192, "exit", running)),
        switch(195, running, TARGET, 19),
    ]
    sample = Sample(DUE, DUE + 200_000, TARGET, 0, 1 << 62, 8_000)
    whole = blame(segments_of(sample, events)[0], 200_000, 8_000)[0]
    assert whole.startswith("the interrupt came late")
    seen = [one for one in events if one.time_ns <= DUE + until * 1000]
    segments, rest = segments_of(replace(sample, until_ns=DUE + until * 1000), seen)
    assert {one.kind for one in segments} <= {"interrupt"}
    assert sum(one.length_ns for one in segments) + rest == 200_000
    assert blame(segments, 200_000, 8_000)[0] in (
        "",
        "not seen: 198 of 200\u202fµs is not explained",
    )


@pytest.mark.parametrize(("state", "blamed"), [(0, "a task of higher"), (1, "")])
def test_a_thread_that_was_ready_when_it_was_due_needs_no_wake_up(state: int, blamed: str) -> None:
    """It was late for its last period. The trace was read during the sample."""
    events = [switch(-10, TARGET, 60, 4, state=state)]
    sample = Sample(DUE, DUE + 200_000, TARGET, 0, DUE + 150_000, 8_000)
    segments, rest = segments_of(sample, events)
    assert rest == (50_000 if blamed else 200_000)
    assert blame(segments, 200_000, 8_000)[0].startswith(blamed)
    assert bool(segments) is bool(blamed)


def test_the_handler_of_a_sample_may_have_no_events() -> None:
    """Such as that of the timer of PowerPC. The earlier handler of another device had ended."""
    events = [switch(-100, 1, ORDINARY), handler(-50, "entry"), handler(-48, "exit")]
    assert cut(events, 201, pid=0) == [("interrupts-off", 201, "t77", "")]
    # its end was not seen, but no handler continues across a switch
    for before in (events[:2], events[:1]):
        found = cut([*before, switch(-10, ORDINARY, 60)], 201, pid=0)
        assert found == [("interrupts-off", 201, "t60", "")]


def test_the_idle_task_that_runs_until_the_switch_is_not_the_switch() -> None:
    events = [switch(-100, 1, 0), timer(1, "entry", 0), waking(2, 0), timer(3, "exit", 0)]
    events.append(switch(195, 0, TARGET, 19))
    sample = Sample(DUE, DUE + 200_000, TARGET, 0, 1 << 62, 8_000)
    blamed = blame(segments_of(sample, events)[0], 200_000, 8_000)[0]
    assert blamed == "the idle task ran until the task switch (192 of 200\u202fµs)"


def test_a_task_that_an_older_kernel_preempted_does_not_wait() -> None:
    """Up to 4.13, tracefs reports 0x1000 for the state of a task that was preempted."""
    events = [*path(1), switch(10, TARGET, 60, 9, state=0x1000), switch(500, 60, TARGET, 19)]
    assert "higher or equal priority ran: t60" in waited(events, 500)[1]


def chain(tasks: int, waits: int) -> tuple[Sample, list[Event]]:
    """Tasks of which each wakes the next one, and the last one the measured one, which then waits
    for locks."""
    events = [switch(-1, 1, 1000)]
    for task in range(1000, 1000 + tasks):
        us = (task - 1000) * 3
        events += [
            waking(us, task, 0, woken=task + 1),
            switch(us + 1, task, task + 1),
        ]
    events.append(waking(us := tasks * 3, 1000 + tasks, 0))
    events.append(switch(us + 1, 1000 + tasks, TARGET, 19))
    for at in range(us + 2, us + 2 + 3 * waits, 3):
        events += [
            switch(at, TARGET, 60, state=2),
            waking(at + 1, 60, 0),
            switch(at + 2, 60, TARGET, 19),
        ]
    end_us = us + 2 + 3 * waits
    return Sample(DUE, DUE + end_us * 1000, TARGET, 0, 1 << 62), events


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 0), (0, 1)])
def test_the_work_for_a_sample_is_in_proportion_to_its_events(shape: tuple[int, int]) -> None:
    """A bundle from elsewhere may have a quarter of a million. Lines of code are counted."""

    def work(size: int) -> int:
        sample, events = chain(size * shape[0], size * shape[1])
        return lines_of(lambda: segments_of(sample, events)) + lines_of(
            lambda: woken_elsewhere(sample, events)
        )

    assert work(800) < 2.2 * work(400)


def test_the_function_that_an_interrupt_found() -> None:
    """The module's events have it. What follows the interrupt is the same function going on, until
    the next switch."""
    events = path(40, 30, preempt=1)
    fields: dict[str, int | str] = {"vec": 236, "function": "busy", "stack": "<work<loop [m]"}
    events[1] = replace(events[1], fields=fields)
    segments, _ = segments_of(Sample(DUE, DUE + 80_000, TARGET, 0, 1 << 62), events)
    stacked = {one.kind for one in segments if one.stack == ("busy", "work", "loop [m]")}
    assert stacked == {one.kind for one in segments if one.stack}
    assert stacked == {"interrupts-off", "preemption-off"}
    found = cut(events, 80)
    assert [one[3] for one in found if one[0] == "interrupts-off"] == ["busy"]
    assert [one[3] for one in found if one[0] == "preemption-off"] == ["busy"]
    assert [one[3] for one in found if one[0] in ("return", "switch")] in ([""], ["", ""])


def test_the_trace_is_not_blamed_for_its_stacks() -> None:
    """The stack is saved at the end of the outermost handler, and may be the longest part of it."""
    events = path(1)
    events[1] = replace(events[1], fields={"vec": 236, "function": "busy", "stack_ns": 6400})
    events[3] = replace(events[3], time_ns=DUE + 9_400)
    events[4] = replace(events[4], time_ns=DUE + 11_400)
    found = cut(events, 13)
    assert found[:4] == [
        ("interrupt", 1, "t77", "delivery"),
        ("interrupt", 2, "t77", "local timer"),
        ("trace", 6.4, "t77", "stack"),
        ("switch", 2, "t77", ""),
    ]
    inner = [timer(1.5, "entry"), timer(2, "exit")]
    assert [one[0] for one in cut([*events, *inner], 13)].count("trace") == 1
    # due while the stack was saved, or at its end
    late = Sample(DUE + 5_000, DUE + 13_000, TARGET, 0, 1 << 62)
    segments, rest = segments_of(late, sorted(events, key=lambda one: one.time_ns))
    assert (segments[0].kind, segments[0].length_ns, rest) == ("trace", 4_400, 0)
    segments, _ = segments_of(Sample(DUE, DUE + 13_000, TARGET, 0, 1 << 62), events)
    text, main = blame(segments, 13_000, 2_000)
    assert main is not None
    assert main.kind == "interrupt"
    assert "local timer" in text
    # without the stack it is within twice the median
    assert blame(segments, 13_000, 3_299)[1] is not None
    assert blame(segments, 13_000, 3_300) == (
        "nothing: an ordinary sample. The median of the series is 3.30\u202fµs. "
        "The trace took 6.40\u202fµs of this sample",
        None,
    )
    assert reason(blame(segments, 13_000, 3_300)[0]) == "nothing: an ordinary sample"
    assert blame(segments, 13_000, 6_500)[0].endswith("6.50\u202fµs")


def test_a_part_of_a_sample_does_not_look_like_the_whole() -> None:
    events = path(1, 203_500, preempt=1)
    sample = Sample(DUE, DUE + 203_506_000, TARGET, 0, 1 << 62, 8_000)
    text = blame(segments_of(sample, events)[0], 203_506_000, 8_000)[0]
    assert "(203\u202f502 of 203\u202f506\u202fµs)" in text
    sample = Sample(DUE, DUE + 206_400, TARGET, 0, 1 << 62, 8_000)
    segments = [replace(one, length_ns=205_600) for one in segments_of(sample, events)[0][:1]]
    assert "(205.6 of 206.4\u202fµs)" in blame(segments, 206_400, 8_000)[0]


@pytest.mark.parametrize("interrupt", [True, False])
def test_a_wake_up_from_another_cpu_is_not_blamed_on_this_one(interrupt: bool) -> None:
    """The timer of a CPU with nohz_full may expire on another one, which then wakes the thread.
    This CPU polls, or hears of it by an interrupt. What was before it cannot be seen."""
    told = [
        Event(DUE + us * 1000, f"irq_vectors/reschedule_{end}", 0, IRQS_OFF | HARDIRQ, 0, {})
        for us, end in ((180, "entry"), (181, "exit"))
    ]
    events = [
        switch(-100, TARGET, 0, state=1),
        idle(-90, 3),
        *(told if interrupt else ()),
        idle(182, 2**32 - 1),
        switch(184, 0, TARGET, 19),
    ]
    sample = Sample(DUE, DUE + 190_000, TARGET, 0, 1 << 62, 8_000)
    segments, rest = segments_of(sample, events)
    assert rest == (180_000 if interrupt else 184_000)
    assert {one.kind for one in segments} <= {"interrupt", "switch", "return"}
    assert woken_elsewhere(sample, events) == DUE + rest
    # one that was woken here, or that did not sleep, is explained
    awake = [switch(-100, TARGET, ORDINARY), switch(184, ORDINARY, TARGET, 19)]
    for others in ([*events[:2], waking(181, 0), *events[2:]], awake):
        others.sort(key=lambda event: event.time_ns)
        assert woken_elsewhere(sample, others) is None
        assert segments_of(sample, others)[1] == 0


def test_a_sample_of_a_handler() -> None:
    assert cut(path(40), 41, pid=0) == [
        ("interrupts-off", 40, "t77", ""),
        ("interrupt", 1, "t77", "local timer"),
    ]


def test_what_the_trace_does_not_cover_is_the_rest() -> None:
    events = path(200)
    sample = Sample(DUE, DUE + 206_000, TARGET, DUE + 150_000, 1 << 62)
    segments, rest = segments_of(sample, events)
    assert rest == 150_000
    assert (segments[0].kind, segments[0].begin_ns) == ("interrupts-off", 150_000)
    sample = Sample(DUE, DUE + 206_000, TARGET, 0, DUE + 100_000)
    segments, rest = segments_of(sample, events)
    assert rest == 106_000
    assert segments_of(sample, [])[1] == 206_000


NAMES: Final = (
    "sched/sched_switch", "sched/sched_waking", "irq/irq_handler_entry", "irq/irq_handler_exit",
    "irq/softirq_entry", "irq/softirq_exit", "irq_vectors/local_timer_entry",
    "irq_vectors/local_timer_exit", "power/cpu_idle", "timer/hrtimer_expire_entry", "ipi/ipi_exit",
)  # fmt: skip


@st.composite
def some_events(draw: st.DrawFn) -> list[Event]:
    pids = st.sampled_from([0, 1, TARGET, 60])
    found, now = [], DUE - 300
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=30)):
        now += draw(st.integers(0, 200))
        fields = {
            "pid": draw(pids), "prev_pid": draw(pids), "next_pid": draw(pids),
            "prev_prio": draw(st.sampled_from([-1, 0, 19, 120])), "next_prio": 19, "prio": 19,
            "prev_state": draw(st.integers(0, 300)), "vec": draw(st.integers(-1, 12)),
            "state": draw(st.sampled_from([0, 3, -1, 2**32 - 1])),
        }  # fmt: skip
        kept = draw(st.sets(st.sampled_from(sorted(fields))))
        flags = draw(st.none() | st.integers(0, 255))
        preempt = draw(st.none() | st.integers(0, 255))
        lacking = {key: value for key, value in fields.items() if key in kept}
        found.append(Event(now, name, draw(st.none() | pids), flags, preempt, lacking))
    return found


@pytest.mark.slow
@given(
    some_events(),
    st.integers(0, 3000),
    st.sampled_from([0, TARGET]),
    st.integers(-500, 2000),
    st.integers(-500, 4000),
    st.integers(0, 500),
)
@settings(max_examples=300, deadline=None)
def test_parts_add_up_to_the_sample(
    events: list[Event], latency: int, pid: int, covered: int, until: int, usual: int
) -> None:
    """Whatever the events: segments follow one another within the sample, none is empty, they and
    the rest are its length, and where the trace is complete and knows the task nothing is left."""
    sample = Sample(DUE, DUE + latency, pid, DUE + covered, DUE + until, usual)
    segments, rest = segments_of(sample, events)
    end = 0
    for one in segments:
        assert one.begin_ns >= max(end, covered)
        assert one.length_ns > 0
        assert one.kind in CLASSES
        assert one.certainty in CERTAINTIES
        end = one.begin_ns + one.length_ns
    assert end <= min(latency, max(until, 0))
    assert rest >= 0
    assert sum(one.length_ns for one in segments) + rest == latency
    known = events and all(event.pid is not None for event in events)
    switched = [e for e in events if e.name == "sched/sched_switch" and "next_pid" not in e.fields]
    if known and not switched and covered <= 0 and until >= latency:
        assert rest == 0
