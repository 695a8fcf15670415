# SPDX-License-Identifier: Apache-2.0
"""Cut a sample into segments by the kernel's events on its CPU.

Between two events the state of the CPU does not change as far as the trace shows it: a handler, a
softirq, or a task runs. Why a lower task runs on although the measured one is awake follows from
the bits that the kernel adds to each event: the preemption count of an interrupt's event is that of
the task which it interrupted.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from rtgauge.causes.model import CHOICE, LATE, UNTIL, Segment, Task
from rtgauge.causes.tracefs.pages import HARDIRQ, SOFTIRQ, Event

__all__ = [
    "SWITCH",
    "Sample",
    "Tasks",
    "begun_at",
    "is_entry",
    "is_exit",
    "segments_of",
    "woken_elsewhere",
]

DELIVERY_NS: Final = 3_000
"""Up to this, the time from the due time to the handler is that of the interrupt's delivery."""
SWITCH_NS: Final = 5_000
"""Up to this, the time from the end of the handlers to the switch is the scheduler's own. Up to the
usual latency of the series it may be. A lower task that runs on for longer was not preempted."""

SWITCH: Final = "sched/sched_switch"
_WAKING = "sched/sched_waking"
_IDLE = "power/cpu_idle"
_SOFTIRQ_ENTRY = "irq/softirq_entry"
_SOFTIRQ_EXIT = "irq/softirq_exit"
_NO_STATE = 0xFFFFFFFF
# Bits of a state in which a task waits. One that waits for work does not have bit 0x02 alone.
_BLOCKED = 0xFF
_UNINTERRUPTIBLE = 0x02
SEGMENTS_LIMIT: Final = 1 << 14
STACK_LIMIT: Final = 20
NAME_LIMIT: Final = 64
SOFTIRQS: Final = (
    "HI",
    "TIMER",
    "NET_TX",
    "NET_RX",
    "BLOCK",
    "IRQ_POLL",
    "TASKLET",
    "SCHED",
    "HRTIMER",
    "RCU",
)


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
class _Stretch:
    """Between two events: what ran. ``preempt``: as of the last interrupt, None if not known.
    ``idle``: the idle state, None outside of one."""

    begin_ns: int
    end_ns: int
    handler: str
    softirq: str
    task: Task | None
    preempt: int | None
    idle: int | None
    code: str = ""
    """The function that the last interrupt found, if the trace has it."""
    stack: tuple[str, ...] = ()
    """That function and its callers, if the trace has them."""
    saving: bool = False
    """The module saved a stack for the trace, at the end of a handler."""
    chosen_ns: int | None = None
    """When the scheduler chose the task, if the trace has it."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """When the CPU took the interrupt that was due. ``late``: interrupts were on before that, for
    longer than its delivery takes, so that it had not come."""

    time_ns: int
    late: bool


@dataclass(frozen=True, slots=True)
class _Wait:
    """``task`` waits. If another task ended the wait, it was for a lock, and lasts until ``task``
    runs: the owner still has to give back the lock. ``event``: an interrupt ended it."""

    begin_ns: int
    end_ns: int
    owner: int | None
    """None: unknown, for example because it ran on another CPU."""
    event: bool = False


@dataclass(frozen=True, slots=True)
class _Turn:
    """Between these times the sample's thread depends on this task: on itself since it was woken,
    and before that on a task that is going to wake it."""

    begin_ns: int
    end_ns: int
    task: int
    awake: bool = False
    """It waited again after it had been awake, so its first wait counts."""


def _by_task(sample: Sample, events: Sequence[Event]) -> Mapping[int, Sequence[Event]]:
    """Task -> the events of the sample in which it is woken, or the CPU begins or ceases to run
    it."""
    found: dict[int, list[Event]] = {}
    for event in events:
        if not sample.due_ns <= event.time_ns < sample.end_ns:
            continue
        names = {SWITCH: ("prev_pid", "next_pid"), _WAKING: ("pid",)}.get(event.name, ())
        for pid in {event.fields.get(name) for name in names}:
            if isinstance(pid, int):
                found.setdefault(pid, []).append(event)
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

    On PREEMPT_RT, threads carry out softirqs and handlers. They give back locks of the kernel, for
    which a task waits in the uninterruptible state."""
    if _waker(woken, sample) is None:
        return True
    threaded = (woken.flags or 0) & SOFTIRQ or tasks.get(woken.pid or 0).name.startswith("irq/")
    return bool(threaded) and not state & _UNINTERRUPTIBLE


def _turns(
    sample: Sample,
    events: Sequence[Event],
    by_task: Mapping[int, Sequence[Event]],
    tasks: Tasks,
) -> tuple[_Turn, ...]:
    """The turns, in the order of time."""
    found: list[_Turn] = []
    known: set[int] = set()
    pid, until = sample.pid, sample.end_ns
    while pid and pid not in known:
        known.add(pid)
        woken = next((one for one in by_task.get(pid, ()) if one.name == _WAKING), None)
        if woken is not None and woken.time_ns >= until:
            woken = None
        awake = woken is not None and _awake(by_task[pid][0], woken, sample, pid, tasks)
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
            found.append(_Turn(begin_ns, until, pid, awake))
            break
        found.append(_Turn(woken.time_ns, until, pid))
        waker = _waker(woken, sample)
        if waker is None:
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
    turns: Sequence[_Turn],
    sample: Sample,
    by_task: Mapping[int, Sequence[Event]],
    tasks: Tasks,
) -> Iterator[_Wait]:
    """When the task of a turn waited, in the order of time."""
    for turn in turns:
        # any wait of the sample's thread that another task ends may be for a lock
        blocked = _BLOCKED if turn.task == sample.pid else _UNINTERRUPTIBLE
        since: int | None = None
        owner: int | None = None
        lock = woken = False
        slept = 0
        mine = by_task.get(turn.task, ())
        for event in mine[bisect.bisect_left(mine, turn.begin_ns, key=_time) :]:
            if event.time_ns >= turn.end_ns:
                break
            if event.name == _WAKING:
                owner, woken = _waker(event, sample), True
                known = event.pid is not None
                if since is not None and known and _is_event(slept, event, sample, tasks):
                    yield _Wait(since, event.time_ns, None, event=True)
                    since = None
            elif event.fields.get("prev_pid") == turn.task:
                state = event.fields.get("prev_state")
                if isinstance(state, int) and state & _BLOCKED:
                    since, owner, lock = event.time_ns, None, bool(state & blocked)
                    slept, woken = state, False
            else:
                if since is not None and lock:
                    # one that another CPU ended is for a lock only if it is uninterruptible
                    expired = not woken and not slept & _UNINTERRUPTIBLE
                    yield _Wait(since, event.time_ns, owner, event=expired)
                since = None
        if since is not None and lock:
            yield _Wait(since, turn.end_ns, owner)


_Interval = TypeVar("_Interval", _Wait, _Turn)


def _top(intervals: list[_Interval], at: int) -> _Interval | None:
    """The last of these that contains the time. Those that ended before it are removed."""
    while intervals and intervals[-1].end_ns <= at:
        intervals.pop()
    return intervals[-1] if intervals and intervals[-1].begin_ns <= at else None


def _task(pid: int, name: int | str | None, prio: int | str | None) -> Task:
    """``prio`` is the kernel's: below 0 deadline, 0 to 99 real-time (the lower the higher)."""
    if pid == 0:
        return Task("idle", 0)
    name = str(name or f"thread {pid}")
    if not isinstance(prio, int):
        return Task(name, pid)
    policy = "deadline" if prio < 0 else "fifo" if prio < 100 else "other"
    return Task(name, pid, policy, 99 - prio if 0 <= prio < 100 else 0)


def segments_of(
    sample: Sample, events: Sequence[Event], limit: int = SEGMENTS_LIMIT
) -> tuple[tuple[Segment, ...], int]:
    """The segments of a sample, the first ``limit`` of them, and the nanoseconds that none covers.

    ``events``: those of its CPU, by time. Those before the due time say what ran then. The
    lengths of the segments and the rest add up to the sample's.
    """
    tasks = Tasks(events)
    found: list[Segment] = []
    rest = max(sample.end_ns - sample.due_ns, 0)
    since_ns = woken_elsewhere(sample, events) or sample.due_ns
    by_task = _by_task(sample, events)
    turns = _turns(sample, events, by_task, tasks)
    # the trace ends before the thread is woken: it does not show what delayed the interrupt
    blind = sample.until_ns < sample.end_ns and bool(sample.pid) and sample.pid not in by_task
    if blind:
        before = _by_task(replace(sample, due_ns=0, end_ns=sample.due_ns), events)
        blind = not _was_ready(sample.pid, sample.due_ns, before)
    own = by_task.get(sample.pid, ()) if sample.pid and since_ns == sample.due_ns else ()
    # it ran, and nothing woke it, so it was awake when it was due
    awake = bool(own) and all(one.name != _WAKING for one in own)
    awake |= any(one.awake and one.task == sample.pid for one in turns)
    answer = _answer(sample.due_ns if awake else begun_at(sample, events), sample, events)
    waits, turns_at = list(_waits(turns, sample, by_task, tasks))[::-1], list(turns)[::-1]
    for stretch in _stretches(sample, events, tasks, {one.task for one in turns}):
        wait = _top(waits, stretch.begin_ns)
        turn = _top(turns_at, stretch.begin_ns)
        ready = tasks.get(turn.task) if turn is not None else None
        chosen = turn is not None and _was_ready(turn.task, stretch.chosen_ns, by_task)
        segment = _segment(stretch, sample, tasks, answer, wait, ready, chosen=chosen)
        if segment is None or stretch.end_ns <= since_ns:
            continue
        if blind and not (stretch.handler or stretch.softirq):
            continue
        last = found[-1] if found else None
        if last is not None and _alike(last, segment):
            found[-1] = replace(last, length_ns=last.length_ns + segment.length_ns)
        elif len(found) < limit:
            found.append(segment)
        else:
            break
        rest -= segment.length_ns
    return tuple(found), rest


def _answer(time_ns: int, sample: Sample, events: Sequence[Event]) -> _Answer:
    # a handler ends where interrupts were on when it began, so that one that was due follows it
    ends = [
        one.time_ns for one in events if sample.due_ns <= one.time_ns < time_ns and is_exit(one)
    ]
    return _Answer(time_ns, bool(ends) and time_ns - ends[-1] > DELIVERY_NS)


def _was_ready(pid: int, time_ns: int | None, by_task: Mapping[int, Sequence[Event]]) -> bool:
    """Whether a task was ready when the scheduler chose another one, by its last event until
    then."""
    mine = by_task.get(pid, ())
    place = bisect.bisect_right(mine, time_ns, key=_time) if time_ns is not None else 0
    if not place:
        return False
    last = mine[place - 1]
    state = last.fields.get("prev_state")
    left = last.fields.get("prev_pid") == pid and isinstance(state, int) and not state & _BLOCKED
    return last.name == _WAKING or left


def _alike(a: Segment, b: Segment) -> bool:
    return (
        a.begin_ns + a.length_ns == b.begin_ns
        and replace(a, begin_ns=b.begin_ns, length_ns=b.length_ns) == b
    )


class Tasks:
    """Tasks by their ID, each looked for once."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._found: dict[int, Task] = {}
        for event in events:
            prefixes = {SWITCH: ("prev_", "next_"), _WAKING: ("",)}.get(event.name, ())
            for prefix in prefixes:
                pid = event.fields.get(f"{prefix}pid")
                if isinstance(pid, int):
                    self._found[pid] = _task(
                        pid, event.fields.get(f"{prefix}comm"), event.fields.get(f"{prefix}prio")
                    )

    def get(self, pid: int) -> Task:
        return self._found.get(pid, Task("idle" if pid == 0 else f"thread {pid}", pid))


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


def begun_at(sample: Sample, events: Sequence[Event]) -> int:
    """When the CPU took the interrupt that was due: the beginning of the handler that woke the
    thread, or in which the stamp was taken, if there is one, else of the first handler. That of a
    PowerPC timer has no events: the wake-up is the first one in it."""
    begun = first = None
    ended: int | None = None
    open_ = 0
    for event in events:
        if event.time_ns > sample.end_ns:
            break
        if is_entry(event):
            begun = event.time_ns
            ended = None
            open_ += 1
            if first is None and begun >= sample.due_ns:
                first = begun
        elif is_exit(event):
            ended = event.time_ns
            open_ = max(open_ - 1, 0)
        elif event.name == SWITCH:
            open_ = 0
        elif (
            sample.pid
            and event.time_ns >= sample.due_ns
            and event.name == _WAKING
            and event.fields.get("pid") == sample.pid
        ):
            handler = (event.flags or 0) & HARDIRQ
            # of another handler, which has no events
            unknown = handler and ended is not None and event.time_ns - ended > DELIVERY_NS
            woken = None if unknown else begun if handler else first
            return event.time_ns if woken is None else woken
    if not sample.pid and not open_:
        return sample.end_ns  # the handler of the sample has no events
    found = first if sample.pid else begun
    return sample.due_ns if found is None else found


def woken_elsewhere(sample: Sample, events: Sequence[Event]) -> int | None:
    """When this CPU heard of a wake-up that another CPU made: the beginning of the last handler
    before the switch to the thread, or the switch. None: the thread was woken here, or was awake.

    The thread was asleep when it was due, and the trace does not contain its wake-up.
    """
    asleep = False
    heard: int | None = None
    for event in events:
        if event.time_ns > sample.end_ns or not sample.pid:
            break
        due = event.time_ns >= sample.due_ns
        if is_entry(event) and due:
            heard = event.time_ns
        elif event.name == _WAKING and event.fields.get("pid") == sample.pid:
            asleep = False
        elif event.name == SWITCH and event.fields.get("prev_pid") == sample.pid:
            if due and not asleep:
                break  # it was awake, or this CPU woke it
            state = event.fields.get("prev_state")
            asleep = isinstance(state, int) and bool(state & _BLOCKED)
        elif event.name == SWITCH and event.fields.get("next_pid") == sample.pid:
            if asleep and due:
                return event.time_ns if heard is None else heard
            asleep = False
    return None


def _handler(event: Event) -> str:
    """The name of a handler: of its device, or that of its vector."""
    system, name = event.name.split("/", 1)
    if system == "irq":
        return str(event.fields.get("name") or f"interrupt {event.fields.get('irq', '?')}")
    if system == "ipi":
        reason = event.fields.get("reason")
        return reason if isinstance(reason, str) and reason else "inter-processor interrupt"
    return name.rpartition("_")[0].replace("_", " ")


def _softirq(event: Event) -> str:
    number = event.fields.get("vec")
    return (
        SOFTIRQS[number]
        if isinstance(number, int) and 0 <= number < len(SOFTIRQS)
        else f"softirq {number}"
    )


def _stack(event: Event) -> tuple[str, ...]:
    """The function that an interrupt found, and its callers, each with a < before it."""
    callers = str(event.fields.get("stack") or "").split("<", STACK_LIMIT)[1:STACK_LIMIT]
    names = (str(event.fields.get("function") or ""), *callers)
    return tuple(name[:NAME_LIMIT] for name in names) if callers else ()


class _Cpu:
    """Activity of a CPU, event by event."""

    def __init__(self, sample: Sample, tasks: Tasks) -> None:
        self._sample = sample
        self._tasks = tasks
        self._task: Task | None = None
        self._handlers: list[str] = []
        self._softirq = ""
        self._preempt: int | None = None
        self._idle: int | None = None
        self._code = ""
        self._stack: tuple[str, ...] = ()
        self._stack_ns = 0  # of the outermost handler
        self._suspended: dict[int, str] = {}  # softirqs of threads that do not run
        self._chosen_ns: int | None = None
        self._first = True
        self._known: set[int | None] = set()  # tasks with an event of a softirq

    def until(self, event: Event) -> None:
        """State before ``event``, from its fields."""
        flags = event.flags or 0
        if event.pid is not None and (self._task is None or self._task.pid != event.pid):
            self._task = self._tasks.get(event.pid)
        entry = is_entry(event)
        if entry and not self._handlers:
            self._code = str(event.fields.get("function") or "")
            self._stack = _stack(event)
            saved = event.fields.get("stack_ns")
            self._stack_ns = saved if isinstance(saved, int) else 0
        # The trace began inside of a handler or softirq. The flags stay set for a while after the
        # end of one.
        if self._first and flags & HARDIRQ and not entry:
            self._handlers = [_handler(event) if is_exit(event) else "interrupt"]
        self._first = False
        softirq = flags & SOFTIRQ and not flags & HARDIRQ and event.name != _SOFTIRQ_ENTRY
        if not self._softirq and softirq and not entry and event.pid not in self._known:
            self._softirq = _softirq(event) if event.name == _SOFTIRQ_EXIT else "softirq"

    def after(self, event: Event) -> None:
        """Changes of state at ``event``."""
        if is_entry(event):
            if not self._handlers and event.preempt is not None:
                self._preempt = event.preempt & 15
            self._handlers.append(_handler(event))
        elif is_exit(event):
            if self._handlers:
                self._handlers.pop()
        elif event.name == _SOFTIRQ_ENTRY:
            self._known.add(event.pid)
            self._softirq = _softirq(event)
        elif event.name == _SOFTIRQ_EXIT:
            self._known.add(event.pid)
            self._softirq = ""
        elif event.name == SWITCH:
            self._switch(event)
        elif event.name == _IDLE:
            state = event.fields.get("state")
            sleeps = isinstance(state, int) and state & _NO_STATE != _NO_STATE
            self._idle = int(state or 0) if sleeps else None

    def _switch(self, event: Event) -> None:
        before, pid = event.fields.get("prev_pid"), event.fields.get("next_pid")
        if self._softirq and isinstance(before, int):
            self._suspended[before] = self._softirq
        self._handlers, self._softirq = [], ""
        self._preempt = self._idle = None
        self._code, self._stack = "", ()
        self._chosen_ns = event.time_ns
        # with the priority that it has now, which may be an inherited one
        name, prio = event.fields.get("next_comm"), event.fields.get("next_prio")
        self._task = None
        if isinstance(pid, int):
            self._task = _task(pid, name, prio)
            self._softirq = self._suspended.pop(pid, "")

    def stretches(self, begin_ns: int, end_ns: int, event: Event | None) -> Iterator[_Stretch]:
        """What ran up to ``event``, which is not before ``end_ns``. The stack of the outermost
        handler ends at its exit."""
        last = event is not None and is_exit(event) and len(self._handlers) == 1
        saved_ns = max(self._stack_ns, 0) if last else 0
        from_ns = event.time_ns - saved_ns if event is not None and saved_ns else end_ns
        from_ns = min(max(from_ns, begin_ns), end_ns)
        if begin_ns < from_ns:
            yield self._stretch(begin_ns, from_ns)
        if from_ns < end_ns:
            yield replace(self._stretch(from_ns, end_ns), saving=True)

    def _stretch(self, begin_ns: int, end_ns: int) -> _Stretch:
        return _Stretch(
            begin_ns,
            end_ns,
            self._handlers[-1] if self._handlers else "",
            self._softirq,
            self._task,
            self._preempt,
            self._idle,
            self._code,
            self._stack,
            chosen_ns=self._chosen_ns,
        )


def _stretches(
    sample: Sample, events: Sequence[Event], tasks: Tasks, awaited: Set[int]
) -> Iterator[_Stretch]:
    """Segments from the due time, or the start of the trace, to the end. A wake-up of a task that
    is not ``awaited`` ends none."""
    cpu = _Cpu(sample, tasks)
    at = max(sample.due_ns, sample.covered_ns)
    end_ns = min(sample.end_ns, sample.until_ns)
    after: Event | None = None
    for event in events:
        cpu.until(event)
        if event.time_ns >= end_ns:
            after = event
            break
        other = event.name == _WAKING and event.fields.get("pid") not in awaited
        if event.time_ns > at and not other:
            yield from cpu.stretches(at, event.time_ns, event)
            at = event.time_ns
        cpu.after(event)
    if at < end_ns:
        yield from cpu.stretches(at, end_ns, after)


def _rank(task: Task) -> int:
    """Tasks of a higher rank run first; of equal ones, the running one."""
    return {"deadline": 200, "fifo": 100}.get(task.policy, 0) + task.priority


def _segment(
    stretch: _Stretch,
    sample: Sample,
    tasks: Tasks,
    answer: _Answer,
    wait: _Wait | None,
    ready: Task | None,
    *,
    chosen: bool,
) -> Segment | None:
    """``ready``: the task on which the sample's thread depends, None if not known. ``chosen``: the
    scheduler chose the task that runs although that one was ready."""
    task = stretch.task
    if task is None:
        return None
    target = tasks.get(sample.pid) if sample.pid else None
    if ready is None or ready.pid == task.pid:
        ready = target
    found = _why(stretch, sample, task, target, ready, answer, wait, chosen=chosen)
    if found is None:
        return None
    kind, certainty, function = found
    shown = kind in ("preemption-off", "interrupts-off") and function == stretch.code
    owner = None
    if kind == "lock" and wait is not None and wait.owner is not None:
        owner = task if wait.owner == task.pid else tasks.get(wait.owner)
    begin = stretch.begin_ns - sample.due_ns
    length = stretch.end_ns - stretch.begin_ns
    stack = stretch.stack if shown else ()
    return Segment(begin, length, kind, certainty, task, function, stack, owner)


def _why(
    stretch: _Stretch,
    sample: Sample,
    task: Task,
    target: Task | None,
    ready: Task | None,
    answer: _Answer,
    wait: _Wait | None,
    *,
    chosen: bool,
) -> tuple[str, str, str] | None:
    """Class, certainty and function of a stretch; None if no event shows what it was for."""
    if stretch.saving:
        return "trace", "measured", "stack"
    if stretch.handler:
        return "interrupt", "measured", stretch.handler
    if stretch.end_ns <= answer.time_ns:
        return _before(stretch, answer.time_ns - sample.due_ns, late=answer.late)
    owns = wait is not None and wait.owner == task.pid
    if stretch.softirq and not (owns and sample.threaded):
        return "softirq", "measured", stretch.softirq
    if wait is not None and wait.event:
        return None
    if wait is not None and ready is not None:
        # the waiting task lends its own priority to the owner
        precedes = _rank(task) > _rank(ready) and not owns and wait.owner is not None
        return ("higher-priority" if precedes else "lock"), "inferred", ""
    if target is None or ready is None or ready.pid == task.pid == target.pid:
        return "return", "measured", ""
    usual = stretch.end_ns - stretch.begin_ns <= max(SWITCH_NS, sample.usual_ns)
    return _instead(stretch, _rank(task) >= _rank(ready), usual, chosen=chosen)


def _before(stretch: _Stretch, waited_ns: int, *, late: bool) -> tuple[str, str, str]:
    """Class of the time before the interrupt that was due, which came after ``waited_ns``."""
    if waited_ns <= DELIVERY_NS:
        return "interrupt", "inferred", "delivery"
    if stretch.idle is not None:
        return "hardware", "inferred", f"idle state {stretch.idle}"
    if late:
        return "hardware", "inferred", LATE
    return "interrupts-off", "inferred", stretch.softirq or stretch.code


def _instead(
    stretch: _Stretch, precedes: bool, usual: bool, *, chosen: bool
) -> tuple[str, str, str]:
    """Class of the time in which another task ran although the sample's thread was awake."""
    idle = stretch.task is None or stretch.task.pid == 0
    if not idle and precedes:
        return "higher-priority", "measured", ""
    if chosen:
        return "switch", "measured", CHOICE
    if not idle and stretch.preempt:
        return "preemption-off", "measured", stretch.code
    if idle or usual:
        long = stretch.end_ns - stretch.begin_ns > SWITCH_NS
        return "switch", "inferred", UNTIL if long else ""
    return "preemption-off", "inferred", stretch.code
