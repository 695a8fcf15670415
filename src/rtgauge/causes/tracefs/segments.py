# SPDX-License-Identifier: Apache-2.0
"""Cut a sample into segments by the kernel's events on its CPU.

Between two events the state of the CPU does not change as far as the trace shows it: a handler, a
softirq, or a task runs. Why a lower task runs on although the measured one is awake follows from
the bits that the kernel adds to each event: the preemption count of an interrupt's event is that of
the task which it interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from rtgauge.causes.model import Segment, Task
from rtgauge.causes.tracefs.pages import HARDIRQ, SOFTIRQ, Event

__all__ = ["Sample", "Tasks", "segments_of"]

DELIVERY_NS: Final = 3_000
"""Up to this, the time from the due moment to the handler is that of the interrupt's delivery."""
SWITCH_NS: Final = 5_000
"""Up to this, and up to the usual latency of the series, the time from the end of the handlers to
the switch is the scheduler's own. A lower task that runs on for longer was not preempted."""

_SWITCH = "sched/sched_switch"
_WAKING = "sched/sched_waking"
_IDLE = "power/cpu_idle"
_SOFTIRQ_ENTRY = "irq/softirq_entry"
_SOFTIRQ_EXIT = "irq/softirq_exit"
_NO_STATE = 0xFFFFFFFF
_BLOCKED = 0xFF  # bits of a state in which a task waits
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
    """A sample in the time of the trace: from its due moment to its stamp. ``pid`` is its thread, 0
    for a handler. The trace is complete from ``covered_ns`` to ``until_ns``. ``usual_ns``: the
    median of its series."""

    due_ns: int
    end_ns: int
    pid: int
    covered_ns: int
    until_ns: int
    usual_ns: int = 0


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Between two events: what ran. ``preempt``: as of the last interrupt, None if not known.
    ``idle``: the idle state, None outside of one. ``blocked``: the sample's thread waits again."""

    begin_ns: int
    end_ns: int
    handler: str
    softirq: str
    task: Task | None
    preempt: int | None
    idle: int | None
    blocked: bool
    code: str = ""
    """The function that the last interrupt found, if the trace has it."""


def _task(pid: int, name: int | str | None, prio: int | str | None) -> Task:
    """``prio`` is the kernel's: below 0 deadline, 0 to 99 real-time (the lower the higher)."""
    if pid == 0:
        return Task("idle", 0)
    name = str(name or f"thread {pid}")
    if not isinstance(prio, int):
        return Task(name, pid)
    policy = "deadline" if prio < 0 else "fifo" if prio < 100 else "other"
    return Task(name, pid, policy, 99 - prio if 0 <= prio < 100 else 0)


def segments_of(sample: Sample, events: Sequence[Event]) -> tuple[tuple[Segment, ...], int]:
    """The segments of a sample, and the nanoseconds that none covers.

    ``events``: those of its CPU, by time. Those before the due moment say what ran then. The
    lengths of the segments and the rest add up to the sample's.
    """
    tasks = Tasks(events)
    found: list[Segment] = []
    rest = max(sample.end_ns - sample.due_ns, 0)
    answer_ns = _answer(sample, events)
    for stretch in _stretches(sample, events, tasks):
        segment = _segment(stretch, sample, tasks, answer_ns)
        if segment is None:
            continue
        rest -= segment.length_ns
        last = found[-1] if found else None
        if last is not None and _alike(last, segment):
            found[-1] = replace(last, length_ns=last.length_ns + segment.length_ns)
        else:
            found.append(segment)
    return tuple(found), rest


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
            prefixes = {_SWITCH: ("prev_", "next_"), _WAKING: ("",)}.get(event.name, ())
            for prefix in prefixes:
                pid = event.fields.get(f"{prefix}pid")
                if isinstance(pid, int):
                    self._found[pid] = _task(
                        pid, event.fields.get(f"{prefix}comm"), event.fields.get(f"{prefix}prio")
                    )

    def get(self, pid: int) -> Task:
        return self._found.get(pid, Task("idle" if pid == 0 else f"thread {pid}", pid))


def _is_entry(event: Event) -> bool:
    """Whether a handler of an interrupt begins."""
    system, _, name = event.name.partition("/")
    return name.endswith("_entry") and _is_interrupt(system, name)


def _is_exit(event: Event) -> bool:
    system, _, name = event.name.partition("/")
    return name.endswith("_exit") and _is_interrupt(system, name)


def _is_interrupt(system: str, name: str) -> bool:
    return system in ("irq", "irq_vectors", "ipi") and not name.startswith("softirq")


def _answer(sample: Sample, events: Sequence[Event]) -> int:
    """When the CPU took the interrupt that was due: the beginning of the handler that woke the
    thread, or in which the stamp was taken, if there is one, else of the first handler."""
    begun = first = None
    for event in events:
        if event.time_ns > sample.end_ns:
            break
        if _is_entry(event):
            begun = event.time_ns
            if first is None and begun >= sample.due_ns:
                first = begun
        elif (
            sample.pid
            and event.time_ns >= sample.due_ns
            and event.name == _WAKING
            and event.fields.get("pid") == sample.pid
        ):
            woken = begun if (event.flags or 0) & HARDIRQ else first
            return event.time_ns if woken is None else woken
    found = first if sample.pid else begun
    return sample.due_ns if found is None else found


def _handler(event: Event) -> str:
    """The name of a handler: of its device, or that of its vector."""
    system, name = event.name.split("/", 1)
    if system == "irq":
        return str(event.fields.get("name") or f"interrupt {event.fields.get('irq', '?')}")
    if system == "ipi":
        return str(event.fields.get("reason") or "inter-processor interrupt")
    return name.rpartition("_")[0].replace("_", " ")


def _softirq(event: Event) -> str:
    number = event.fields.get("vec")
    return (
        SOFTIRQS[number]
        if isinstance(number, int) and 0 <= number < len(SOFTIRQS)
        else f"softirq {number}"
    )


class _Cpu:
    """What a CPU does, event after event."""

    def __init__(self, sample: Sample, tasks: Tasks) -> None:
        self._sample = sample
        self._tasks = tasks
        self._task: Task | None = None
        self._handlers: list[str] = []
        self._softirq = ""
        self._preempt: int | None = None
        self._idle: int | None = None
        self._code = ""
        self._ran = self._blocked = False  # the sample's thread, since it was due

    def until(self, event: Event) -> None:
        """What ``event`` says of the time before it."""
        flags = event.flags or 0
        if event.pid is not None and (self._task is None or self._task.pid != event.pid):
            self._task = self._tasks.get(event.pid)
        entry = _is_entry(event)
        if entry and not self._handlers:
            self._code = str(event.fields.get("function") or "")
        # the trace began inside of a handler or softirq
        if not self._handlers and flags & HARDIRQ and not entry:
            self._handlers = [_handler(event) if _is_exit(event) else "interrupt"]
        softirq = flags & SOFTIRQ and not flags & HARDIRQ and event.name != _SOFTIRQ_ENTRY
        if not self._softirq and softirq and not entry:
            self._softirq = _softirq(event) if event.name == _SOFTIRQ_EXIT else "softirq"

    def after(self, event: Event) -> None:
        """What is different from ``event`` on."""
        if _is_entry(event):
            if not self._handlers and event.preempt is not None:
                self._preempt = event.preempt & 15
            self._handlers.append(_handler(event))
        elif _is_exit(event):
            self._handlers = self._handlers[:-1]
        elif event.name == _SOFTIRQ_ENTRY:
            self._softirq = _softirq(event)
        elif event.name == _SOFTIRQ_EXIT:
            self._softirq = ""
        elif event.name == _SWITCH:
            self._switch(event)
        elif event.name == _WAKING and event.fields.get("pid") == self._sample.pid:
            self._blocked = False
        elif event.name == _IDLE:
            state = event.fields.get("state")
            sleeps = isinstance(state, int) and state & _NO_STATE != _NO_STATE
            self._idle = int(state or 0) if sleeps else None

    def _switch(self, event: Event) -> None:
        self._handlers, self._softirq = [], ""
        self._preempt = self._idle = None
        self._code = ""
        pid, state = event.fields.get("next_pid"), event.fields.get("prev_state")
        # with the priority that it has now, which may be an inherited one
        name, prio = event.fields.get("next_comm"), event.fields.get("next_prio")
        self._task = _task(pid, name, prio) if isinstance(pid, int) else None
        if event.time_ns < self._sample.due_ns or not self._sample.pid:
            return
        waits = isinstance(state, int) and state & _BLOCKED
        if event.fields.get("prev_pid") == self._sample.pid and self._ran and waits:
            self._blocked = True
        self._ran = self._ran or pid == self._sample.pid

    def stretch(self, begin_ns: int, end_ns: int) -> _Stretch:
        return _Stretch(
            begin_ns,
            end_ns,
            self._handlers[-1] if self._handlers else "",
            self._softirq,
            self._task,
            self._preempt,
            self._idle,
            self._blocked,
            self._code,
        )


def _stretches(sample: Sample, events: Sequence[Event], tasks: Tasks) -> Iterator[_Stretch]:
    """What ran from the due moment, or the first that the trace covers, to the end."""
    cpu = _Cpu(sample, tasks)
    at = max(sample.due_ns, sample.covered_ns)
    end_ns = min(sample.end_ns, sample.until_ns)
    for event in events:
        if event.time_ns >= end_ns:
            cpu.until(event)
            break
        cpu.until(event)
        if event.time_ns > at:
            yield cpu.stretch(at, event.time_ns)
            at = event.time_ns
        cpu.after(event)
    if at < end_ns:
        yield cpu.stretch(at, end_ns)


def _rank(task: Task) -> int:
    """Tasks of a higher rank run first; of equal ones, that which runs already."""
    return {"deadline": 200, "fifo": 100}.get(task.policy, 0) + task.priority


def _segment(stretch: _Stretch, sample: Sample, tasks: Tasks, answer_ns: int) -> Segment | None:
    task = stretch.task
    if task is None:
        return None
    target = tasks.get(sample.pid) if sample.pid else None
    kind, certainty, function = _why(stretch, sample, task, target, answer_ns)
    owner = task if kind == "lock" else None
    begin = stretch.begin_ns - sample.due_ns
    length = stretch.end_ns - stretch.begin_ns
    return Segment(begin, length, kind, certainty, task, function, owner=owner)


def _why(
    stretch: _Stretch, sample: Sample, task: Task, target: Task | None, answer_ns: int
) -> tuple[str, str, str]:
    """Class, certainty and function of a stretch."""
    if stretch.handler:
        return "interrupt", "measured", stretch.handler
    if stretch.end_ns <= answer_ns:
        return _before(stretch, answer_ns - sample.due_ns)
    if stretch.softirq:
        return "softirq", "measured", stretch.softirq
    if target is None or task.pid == target.pid:
        return "return", "measured", ""
    if stretch.blocked:
        return "lock", "inferred", ""
    usual = stretch.end_ns - stretch.begin_ns <= max(SWITCH_NS, sample.usual_ns)
    why = _instead(stretch, _rank(task) >= _rank(target), usual)
    return (*why, stretch.code if why[0] == "preemption-off" else "")


def _before(stretch: _Stretch, waited_ns: int) -> tuple[str, str, str]:
    """Class of the time before the interrupt that was due, which came after ``waited_ns``."""
    if waited_ns <= DELIVERY_NS:
        return "interrupt", "inferred", "delivery"
    if stretch.idle is not None:
        return "hardware", "inferred", f"idle state {stretch.idle}"
    return "interrupts-off", "inferred", stretch.softirq or stretch.code


def _instead(
    stretch: _Stretch, precedes: bool, usual: bool
) -> tuple[Literal["higher-priority", "preemption-off", "switch"], str]:
    """Class of the time in which another task ran although the sample's thread was awake."""
    idle = stretch.task is None or stretch.task.pid == 0
    if not idle and precedes:
        return "higher-priority", "measured"
    if not idle and stretch.preempt:
        return "preemption-off", "measured"
    return "switch" if idle or usual else "preemption-off", "inferred"
