# SPDX-License-Identifier: Apache-2.0
"""What the thread of a sample waited for, and which task held the lock, on any CPU.

The events of the sample's CPU show when a task waits. The wake-up that ends the wait shows
which task held the lock: it is an event of the CPU that ran this task. If a task waits for a lock
without sleeping, kernels from 5.19 on have an event at the beginning and at the end.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rtgauge.causes.model import Task
from rtgauge.causes.tracefs.elsewhere import WAKING, Elsewhere
from rtgauge.causes.tracefs.pages import HARDIRQ, SOFTIRQ, Event

__all__ = [
    "SWITCH",
    "WAKING",
    "Sample",
    "Tasks",
    "Turn",
    "Wait",
    "blocks",
    "is_entry",
    "is_exit",
    "task_of",
    "waits_of",
]

SWITCH: Final = "sched/sched_switch"
_CONTENDS = "lock/contention_begin"
_ACQUIRES = "lock/contention_end"
# Bits of a state in which a task waits. One that waits for work does not have bit 0x02 alone.
_BLOCKED = 0xFF
_UNINTERRUPTIBLE = 0x02
CHAIN_LIMIT: Final = 8
"""Maximum number of owners in a row that wait for a lock themselves."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample in the time of the trace: from its due time to its stamp. ``pid`` is its thread, 0
    for a handler. The trace is complete from ``covered_ns`` to ``until_ns``. ``usual_ns``: the
    median of its series. ``threaded``: softirqs run in threads only, as with PREEMPT_RT."""

    due_ns: int
    end_ns: int
    pid: int
    covered_ns: int
    until_ns: int
    usual_ns: int = 0
    threaded: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """``task`` waits. If another task ended the wait, it was for a lock, and lasts until ``task``
    runs: the owner still has to release the lock. ``event``: an interrupt ended the wait."""

    begin_ns: int
    end_ns: int
    owner: int | None
    """None: unknown, for example because the trace does not have its CPU."""
    event: bool = False
    cpu: int | None = None
    """The owner's CPU, if it is another one. The wait ends with the wake-up: the lock is free."""
    instead: int | None = None
    """The task that this CPU ran for the longest part of the wait, if not the owner."""
    spins: int = 0
    """The task that tries to take the lock while it runs, 0 if it sleeps."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Between these times the sample's thread depends on this task: on itself since it was woken,
    and before that on a task that is going to wake it."""

    begin_ns: int
    end_ns: int
    task: int
    awake: bool = False
    """It waited again after it had been awake, so its first wait counts."""


class Tasks:
    """Tasks by their ID, each looked for once."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._found: dict[int, Task] = {}
        for event in events:
            prefixes = {SWITCH: ("prev_", "next_"), WAKING: ("",)}.get(event.name, ())
            for prefix in prefixes:
                pid = event.fields.get(f"{prefix}pid")
                if isinstance(pid, int):
                    self._found[pid] = task_of(
                        pid, event.fields.get(f"{prefix}comm"), event.fields.get(f"{prefix}prio")
                    )

    def get(self, pid: int) -> Task:
        return self._found.get(pid, Task("idle" if pid == 0 else f"thread {pid}", pid))


def task_of(pid: int, name: int | str | None, prio: int | str | None) -> Task:
    """``prio`` is the kernel's: below 0 deadline, 0 to 99 real-time (the lower the higher)."""
    if pid == 0:
        return Task("idle", 0)
    name = str(name or f"thread {pid}")
    if not isinstance(prio, int):
        return Task(name, pid)
    policy = "deadline" if prio < 0 else "fifo" if prio < 100 else "other"
    return Task(name, pid, policy, 99 - prio if 0 <= prio < 100 else 0)


def is_entry(event: Event) -> bool:
    """Whether a handler of an interrupt begins."""
    system, _, name = event.name.partition("/")
    return name.endswith("_entry") and _is_interrupt(system, name)


def is_exit(event: Event) -> bool:
    """Whether a handler of an interrupt ends."""
    system, _, name = event.name.partition("/")
    return name.endswith("_exit") and _is_interrupt(system, name)


def _is_interrupt(system: str, name: str) -> bool:
    return system in ("irq", "irq_vectors", "ipi") and not name.startswith("softirq")


def blocks(state: object) -> bool:
    """Whether a task with this state waits for an event or a lock."""
    return isinstance(state, int) and bool(state & _BLOCKED)


def waits_of(
    sample: Sample, events: Sequence[Event], elsewhere: Elsewhere, tasks: Tasks
) -> tuple[Sequence[Turn], Sequence[Wait], Sequence[Wait]]:
    """Each in the order of time: the turns, when their tasks slept, and when they ran and tried to
    take a lock."""
    by_task = _by_task(sample, events, elsewhere)
    blocked = _blocked(sample, events, elsewhere, tasks)
    turns = _turns(sample, events, by_task, blocked, tasks)
    slept = [
        _with_instead(part, elsewhere)
        for one in _waits(turns, sample, by_task, blocked, tasks)
        for part in _held(one, blocked)
    ]
    return turns, slept, list(_spins(turns, slept, sample, events, elsewhere))


def _by_task(
    sample: Sample, events: Sequence[Event], elsewhere: Elsewhere
) -> Mapping[int, Sequence[Event]]:
    """Task -> the events of the sample in which it is woken, or the CPU begins or ceases to run
    it."""
    found: dict[int, list[Event]] = {}
    for event in events:
        if not sample.due_ns <= event.time_ns < sample.end_ns:
            continue
        names = {SWITCH: ("prev_pid", "next_pid"), WAKING: ("pid",)}.get(event.name, ())
        for pid in {event.fields.get(name) for name in names}:
            if isinstance(pid, int):
                found.setdefault(pid, []).append(event)
    for event in elsewhere.wakings(found, sample.due_ns, sample.end_ns):
        found[int(event.fields["pid"])].append(event)
    return {pid: sorted(some, key=_time) for pid, some in found.items()}


def _time(event: Event) -> int:
    return event.time_ns


def _waker(event: Event, sample: Sample) -> int | None:
    """The task that woke another one; None if an interrupt or its softirqs did."""
    flags = event.flags or 0
    interrupt = flags & HARDIRQ or (flags & SOFTIRQ and not sample.threaded)
    return None if interrupt else event.pid or None


def _is_event(state: int, woken: Event, sample: Sample, tasks: Tasks) -> bool:
    """Whether a wait was for an event, such as a timer, and not for a lock. ``state``: that of the
    task as it began to wait. ``woken``: the wake-up that ended it.

    On PREEMPT_RT, threads run softirqs and handlers. They release locks of the kernel, for which a
    task waits in the uninterruptible state."""
    if _waker(woken, sample) is None:
        return True
    threaded = (woken.flags or 0) & SOFTIRQ or tasks.get(woken.pid or 0).name.startswith("irq/")
    return bool(threaded) and not state & _UNINTERRUPTIBLE


def _turns(
    sample: Sample,
    events: Sequence[Event],
    by_task: Mapping[int, Sequence[Event]],
    blocked: Mapping[int, Sequence[Wait]],
    tasks: Tasks,
) -> tuple[Turn, ...]:
    """The turns, in the order of time."""
    found: list[Turn] = []
    known: set[int] = set()
    pid, until = sample.pid, sample.end_ns
    while pid and pid not in known:
        known.add(pid)
        woken = next((one for one in by_task.get(pid, ()) if one.name == WAKING), None)
        if woken is not None and woken.time_ns >= until:
            woken = None
        awake = woken is not None and (
            _blocked_at(sample.due_ns, blocked.get(pid, ()))
            or _awake(by_task[pid][0], woken, sample, pid, tasks)
        )
        if awake:
            woken = None
        if woken is None:
            # it was awake: the thread since it was due, another one since an interrupt
            begins = (
                one.time_ns
                for one in events
                if sample.due_ns <= one.time_ns < until and is_entry(one)
            )
            begin_ns = next(begins, until) if found else sample.due_ns
            found.append(Turn(begin_ns, until, pid, awake))
            break
        found.append(Turn(woken.time_ns, until, pid))
        waker = _waker(woken, sample)
        if waker is None or woken.cpu is not None:
            break
        pid, until = waker, woken.time_ns
    return tuple(reversed(found))


def _awake(first: Event, woken: Event, sample: Sample, pid: int, tasks: Tasks) -> bool:
    """Whether a task was awake before its first wake-up of the sample, and then waited again.
    ``first``: its first event."""
    if first.fields.get("next_pid") == pid:
        return True
    state = first.fields.get("prev_state")
    blocked = _BLOCKED if pid == sample.pid else _UNINTERRUPTIBLE
    if first.name != SWITCH or not isinstance(state, int) or not state & blocked:
        return False
    return not _is_event(state, woken, sample, tasks)


def _waits(
    turns: Sequence[Turn],
    sample: Sample,
    by_task: Mapping[int, Sequence[Event]],
    blocked: Mapping[int, Sequence[Wait]],
    tasks: Tasks,
) -> Iterator[Wait]:
    """When the task of a turn waited, in the order of time."""
    for turn in turns:
        # any wait of the sample's thread may be for a lock, once it has run
        bits = _BLOCKED if turn.task == sample.pid else _UNINTERRUPTIBLE
        ran = turn.awake or turn.task != sample.pid
        lock = _blocked_at(sample.due_ns, blocked.get(turn.task, ()))
        since = turn.begin_ns if lock else None
        slept = _UNINTERRUPTIBLE if lock else 0
        owner: int | None = None
        mine = by_task.get(turn.task, ())
        for event in mine[bisect.bisect_left(mine, turn.begin_ns, key=_time) :]:
            if event.time_ns >= turn.end_ns:
                break
            if event.name == WAKING:
                owner = _waker(event, sample)
                known = event.pid is not None
                if since is not None and known and _is_event(slept, event, sample, tasks):
                    yield Wait(since, event.time_ns, None, event=True)
                    since = None
                elif since is not None and lock and event.cpu is not None:
                    yield Wait(since, event.time_ns, owner, cpu=event.cpu)
                    since = None
            elif event.fields.get("prev_pid") == turn.task:
                state = event.fields.get("prev_state")
                if ran and isinstance(state, int) and state & _BLOCKED:
                    since, owner, lock = event.time_ns, None, bool(state & bits)
                    slept = state
            else:
                ran = True
                if since is not None and lock:
                    yield Wait(since, event.time_ns, owner)
                since = None
        if since is not None and lock:
            yield Wait(since, turn.end_ns, owner)


def _spins(
    turns: Sequence[Turn],
    waits: Sequence[Wait],
    sample: Sample,
    events: Sequence[Event],
    elsewhere: Elsewhere,
) -> Iterator[Wait]:
    """When the task of a turn tried to take a lock, until it slept or had it. If it then slept in
    one of its ``waits``, the owner is that of the wait. If it did not sleep, the owner ran all the
    time. Kernels before 5.19 do not have these events."""
    contended = _contended(sample, events)
    turn_of = {one.task: one for one in turns}
    later = list(waits)[::-1]
    for task, since, until, slept in contended:
        turn = turn_of.get(task)
        if turn is None:
            continue
        begin, end = max(since, turn.begin_ns), min(until, turn.end_ns)
        while later and later[-1].begin_ns < begin:
            later.pop()
        wait = later[-1] if later and later[-1].begin_ns < end else None
        if begin < slept and wait is not None and wait.begin_ns == slept:
            yield replace(wait, begin_ns=begin, end_ns=slept, spins=task)
        elif not slept and begin < end and elsewhere.cpus:
            owner, cpu = elsewhere.holder(begin, end) or (None, None)
            yield Wait(begin, end, owner, cpu=cpu, spins=task)


def _contended(sample: Sample, events: Sequence[Event]) -> Iterator[tuple[int, int, int, int]]:
    """Each time in which a task tried to take a lock that was held: the task, begin, end, and when
    it first ceased to run in that time, 0 if it did not. Locks within another one are left out."""
    begun: dict[int, dict[int | str | None, int]] = {}
    slept: dict[int, int] = {}
    for event in events:
        flags = event.flags or 0
        task = event.pid or 0
        if event.name == SWITCH and begun.get(task):
            slept.setdefault(task, event.time_ns)
        if event.name not in (_CONTENDS, _ACQUIRES) or not task:
            continue
        if flags & HARDIRQ or (flags & SOFTIRQ and not sample.threaded):
            continue  # a handler that interrupted the task
        mine = begun.setdefault(task, {})
        lock = event.fields.get("lock_addr")
        if event.name == _CONTENDS:
            mine.setdefault(lock, event.time_ns)
            continue
        since = mine.pop(lock, None)
        if since is not None and not mine:
            yield task, since, event.time_ns, slept.pop(task, 0)


def _blocked(
    sample: Sample, events: Sequence[Event], elsewhere: Elsewhere, tasks: Tasks
) -> Mapping[int, Sequence[Wait]]:
    """Task -> its waits for locks on any CPU, in the order of time."""
    found: dict[int, list[Wait]] = {}
    since: dict[int, tuple[int, int]] = {}
    for event in heapq.merge(events, *elsewhere.by_cpu(), key=_time):
        pid = event.fields.get("prev_pid" if event.name == SWITCH else "pid")
        if not isinstance(pid, int):
            continue
        if event.name == SWITCH:
            state = event.fields.get("prev_state")
            if isinstance(state, int) and state & _UNINTERRUPTIBLE:
                since[pid] = event.time_ns, state
        elif event.name == WAKING and pid in since:
            begin, state = since.pop(pid)
            if not _is_event(state, event, sample, tasks):
                owner = _waker(event, sample)
                found.setdefault(pid, []).append(Wait(begin, event.time_ns, owner, cpu=event.cpu))
    return found


def _held(wait: Wait, blocked: Mapping[int, Sequence[Wait]], depth: int = 0) -> Iterator[Wait]:
    """The parts of a wait, each with the task that is to blame: the owner of the lock or, while the
    owner waits for a lock itself, the owner of that lock."""
    at = wait.begin_ns
    mine = blocked.get(wait.owner or 0, ()) if depth < CHAIN_LIMIT else ()
    for one in mine[bisect.bisect_right(mine, at, key=_end) :]:
        if one.begin_ns >= wait.end_ns:
            break
        begin, end = max(at, one.begin_ns), min(one.end_ns, wait.end_ns)
        if begin >= end:
            continue
        if at < begin:
            yield replace(wait, begin_ns=at, end_ns=begin)
        yield from _held(replace(one, begin_ns=begin, end_ns=end), blocked, depth + 1)
        at = end
    if at < wait.end_ns:
        yield replace(wait, begin_ns=at)


def _blocked_at(at_ns: int, waits: Sequence[Wait]) -> bool:
    place = bisect.bisect_right(waits, at_ns, key=_end)
    return place < len(waits) and waits[place].begin_ns < at_ns


def _end(wait: Wait) -> int:
    return wait.end_ns


def _with_instead(wait: Wait, elsewhere: Elsewhere) -> Wait:
    if wait.cpu is None:
        return wait
    most = elsewhere.most(wait.cpu, wait.begin_ns, wait.end_ns)
    return replace(wait, instead=None if most == wait.owner else most)
