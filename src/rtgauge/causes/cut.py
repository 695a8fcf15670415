# SPDX-License-Identifier: Apache-2.0
"""A recorded sample cut into segments.

Each block of instructions that ran between the due time and the stamp has a task, a stack (from
the calls and returns so far) and with these a class. Neighbours of one class and task are a
segment. So the segments cover the sample, and their lengths add up to it.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtgauge.causes.model import Segment, Task
from rtgauge.causes.symbols import REALTIME, UNLOADED, USER, Symbols, TaskLayout
from rtgauge.lab.recorder import (
    BLOCK,
    CALL,
    EXCEPTION_RETURN,
    FROM,
    JUMP,
    OTHER,
    RETURN,
    SYSCALL,
    SYSCALL_RETURN,
    TO,
)

__all__ = ["Cut", "Step", "Tasks", "cut", "in_interrupt", "walk"]

STACK_MAX: Final = 24
FUNCTIONS_MAX: Final = 8

# How the kernel is entered by an interrupt or exception: functions of x86-64, and of arm64.
_ENTRY: Final = re.compile(r"asm_\w+|irq_entries_start|vectors|el[01][ht]_64_\w+")
_INTERRUPT: Final = re.compile(
    r"(?:asm_|f?red_)?sysvec_\w+|(?:asm_)?common_interrupt|irq_entries_start|el[01][ht]_64_(?:irq|fiq)"
)
_SOFTIRQ: Final = re.compile(r"handle_softirqs|__do_softirq|run_timer_base|tasklet_action_common")
_HANDLER_ABOVE: Final = re.compile(r"__handle_irq_event_percpu|handle_percpu_devid_irq")
_LOCK: Final = re.compile(
    r"rt_spin_lock\w*|rtlock_slow\w*|rt_mutex_\w+|__rt_mutex_\w+|rt_(?:read|write)_lock\w*"
    r"|__mutex_lock\w*|mutex_lock\w*|down_(?:read|write)\w*|rwsem_down_\w+|rwbase_\w+|__down\w*"
    r"|futex_wait\w*|(?:native_)?queued_spin_lock_slowpath|percpu_down_\w+"
)
_SPINNING: Final = re.compile(
    r"rt_spin_lock\w*|rtlock_slow\w*|rt_(?:read|write)_lock\w*|rwbase_\w+"
)
_SWITCH: Final = re.compile(
    r"__schedule|schedule\w*|preempt_schedule\w*|__switch_to\w*|cpu_switch_to|finish_task_switch"
    r"|do_idle|cpu_startup_entry|irqentry_exit_cond_resched|raw_irqentry_exit_cond_resched"
)
_WAKES: Final = "try_to_wake_up"
LOW: Final = 0xFFFFFFFF


class Step(NamedTuple):
    """A block of instructions: when it began, and what ran. ``length_ns`` is known from the next
    record."""

    time: int
    length_ns: int
    task: int
    stack: tuple[str, ...]
    """The outermost function first. Entries of interrupts and exceptions begin with ``!``."""
    halted: bool = False
    woken: int = 0
    """The task that the kernel begins to wake here: the lower half of its address, else 0."""


@dataclass(frozen=True)
class Cut:
    """The segments of a sample, and what no record covers."""

    segments: tuple[Segment, ...]
    rest_ns: int


def walk(pieces: Iterable[NDArray[np.void]], symbols: Symbols, since: int = 0) -> Iterator[Step]:
    """The blocks of one window, each with its task and stack, as its records are read. Those that
    end before ``since`` are left out, but they are part of the stacks."""
    stacks: dict[int, list[tuple[str, int]]] = {}
    stack: list[tuple[str, int]] = []
    held = stack  # that of the last block
    task = leaving = time = 0
    # the last block: it lasts until the next one begins
    begun, least, ends, after, name, by, woken = -1, 0, OTHER, 0, "", 0, 0
    jumped = False

    def ended() -> Step:
        frames = tuple([one for one, _ in held])
        return Step(begun, time - begun, by, frames, jumped, woken)

    for time, address, behind, length, kind, leaves, argument in _rows(pieces, symbols):
        if kind == BLOCK:
            if begun >= 0:
                if time >= since:
                    yield ended()
                if not jumped and time - begun < least:
                    ends = OTHER  # an exception ended it before its last instruction
            last = (name, ends, after)
            name, offset = symbols.at(address)
            stack = held = _stack_of(stack, name, address, offset, last)
            woken = argument if name == _WAKES and not offset else 0
            begun, least, ends, after, by, jumped = time, length, leaves, behind, task, False
        elif kind == FROM:
            leaving = address
        elif kind == TO:
            if leaving:
                stacks[leaving] = stack
                stack = list(stacks.get(address, ()))
                leaving = 0
            task = address
        elif kind == JUMP:
            jumped = True
            if begun < 0:
                # halted since before the window
                yield Step(0, time, task, (), halted=True)
    if begun >= 0 and time >= since:
        yield ended()


def _rows(
    pieces: Iterable[NDArray[np.void]], symbols: Symbols
) -> Iterator[tuple[int, int, int, int, int, int, int]]:
    """The records without the blocks that change nothing: such a block continues the one recorded
    right before it, in the same function, and neither of them ends with a call or the like."""
    for piece in pieces:
        plain = (piece["kind"] == BLOCK) & (piece["end"] == OTHER)
        place = symbols.places(piece["address"])
        kept = np.ones(len(piece), bool)
        kept[1:] = ~(plain[1:] & plain[:-1] & (place[1:] == place[:-1]))
        yield from piece[kept].tolist()


def _stack_of(
    stack: list[tuple[str, int]],
    name: str,
    address: int,
    offset: int,
    last: tuple[str, int, int],
) -> list[tuple[str, int]]:
    """The stack of a block: its function, address and offset. ``last``: the function of the block
    before, how it ended, and the address behind it."""
    before, end, after = last
    if name == USER:
        return [(USER, 0)]
    if _entered(name, offset, before):
        # interrupted between two blocks: the call or return had happened
        if end == CALL:
            stack = [*stack, ("?", after)]
        elif end == RETURN:
            stack = stack[:-1]
        return [*stack, ("!" + name, 0)]
    if end == CALL:
        return [*stack, (name, after)]
    if end == SYSCALL or before == USER:
        return [(name, 0)]
    if end == RETURN:
        stack = _returned(stack, address)
    elif end in (EXCEPTION_RETURN, SYSCALL_RETURN):
        stack = _resumed(stack)
    return _renamed(stack, name)


def _entered(name: str, offset: int, before: str) -> bool:
    """Whether an interrupt or exception led here."""
    if not _enters(name) or _enters(before):
        return False
    return offset == 0 or name in ("vectors", "irq_entries_start")


def _returned(stack: list[tuple[str, int]], address: int) -> list[tuple[str, int]]:
    """The stack after a return to an address. One that was not called from here belongs to a call
    before the window."""
    for place in range(len(stack) - 1, -1, -1):
        if stack[place][1] == address:
            return stack[:place]
    entry = [place for place, (name, _) in enumerate(stack) if name.startswith("!")]
    return stack[: entry[-1] + 1] if entry else []


def _resumed(stack: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """The stack after the return from the innermost interrupt or exception."""
    for place in range(len(stack) - 1, -1, -1):
        if stack[place][0].startswith("!"):
            return stack[:place]
    return []


def _renamed(stack: list[tuple[str, int]], name: str) -> list[tuple[str, int]]:
    """The stack after going on in a function, by a return or a jump into it."""
    if not stack:
        return [(name, 0)]
    top, back = stack[-1]
    if top == name:
        return stack
    if top.startswith("!"):
        # an entry consists of several functions
        kept = "!" + name if _ENTRY.fullmatch(name) else top
        return [*stack[:-1], (kept, back)]
    return [*stack[:-1], (name, back)]


class Tasks:
    """The tasks of a window by the address of their ``task_struct``, as its records are read."""

    def __init__(self, layout: TaskLayout) -> None:
        self._layout = layout
        self._known: dict[int, tuple[Task, int]] = {}

    def add(self, bytes_of: Mapping[int, bytes]) -> None:
        """Add tasks by their bytes, in the place of earlier ones."""
        self._known.update({address: self._layout.task(data) for address, data in bytes_of.items()})

    def task(self, address: int) -> Task | None:
        """The task at an address; None if it is not known."""
        found = self._known.get(address)
        return found[0] if found else None

    def urgency(self, address: int) -> int:
        """Its effective priority: smaller is more urgent."""
        found = self._known.get(address)
        return found[1] if found else REALTIME + 20


def in_interrupt(step: Step) -> bool:
    """Whether a block belongs to an interrupt, with its softirqs."""
    return _last(step.stack, _irq) >= 0


def cut(
    steps: Iterable[Step],
    due: int,
    stamp: int,
    tasks: Tasks,
    *,
    handler: bool,
    operation: bool = False,
) -> Cut:
    """The segments from ``due`` to ``stamp``, both in the recorder's time.

    ``handler``: the stamp was taken in an interrupt handler, else by the task that ran there.
    ``operation``: a task began the sample, by a reading of the clock, else it waited for it.
    """
    inside = [one for one in steps if one.time + one.length_ns > due and one.time < stamp]
    if not inside:
        return Cut((), stamp - due)
    target = 0 if handler else inside[-1].task
    classes = _Classes(tasks, target, inside, inside[0].task if operation else 0)
    parts: list[_Part] = []
    covered = 0
    for place, one in enumerate(inside):
        begin, end = max(one.time, due), min(one.time + one.length_ns, stamp)
        kind, function = classes.of(place, one)
        owner = classes.owner if kind == "lock" else 0
        if not parts or parts[-1].key != (kind, one.task, owner):
            parts.append(_Part(begin - due, (kind, one.task, owner), classes.waiting_for))
        parts[-1].add(one, end - begin, function)
        covered += end - begin
    return Cut(tuple(part.segment(tasks) for part in parts), stamp - due - covered)


class _Part:
    """A segment while it grows. ``key``: its class, the task that runs, and the lock's owner."""

    def __init__(self, begin_ns: int, key: tuple[str, int, int], stack: tuple[str, ...]) -> None:
        self.begin_ns = begin_ns
        self.key = key
        self._waiting = stack
        self._functions: Counter[str] = Counter()
        self._stacks: dict[str, Counter[tuple[str, ...]]] = {}
        self._named: Counter[str] = Counter()

    def add(self, step: Step, length_ns: int, function: str) -> None:
        """Add a block. ``function`` names the segment, else the function with most time does."""
        name = step.stack[-1].lstrip("!") if step.stack else "?"
        self._functions[name] += length_ns
        self._stacks.setdefault(name, Counter())[step.stack] += length_ns
        if function:
            self._named[function] += length_ns

    def segment(self, tasks: Tasks) -> Segment:
        """The segment, complete."""
        kind, task, owner = self.key
        top = self._functions.most_common(1)[0][0]
        stack = self._stacks[top].most_common(1)[0][0]
        named = UNLOADED not in (top, *stack)
        return Segment(
            begin_ns=self.begin_ns,
            length_ns=sum(self._functions.values()),
            kind=kind,
            certainty="exact" if named else "inferred",
            task=tasks.task(task),
            function=self._named.most_common(1)[0][0] if self._named else top,
            stack=_shown(self._waiting if kind == "lock" else stack),
            owner=tasks.task(owner) if owner else None,
            functions=tuple(self._functions.most_common(FUNCTIONS_MAX)),
        )


def _shown(stack: Sequence[str]) -> tuple[str, ...]:
    """A stack for people: the innermost function first, without repeated neighbours."""
    names = [one.lstrip("!") for one in reversed(stack[-STACK_MAX:])]
    return tuple(one for place, one in enumerate(names) if names[place - 1 : place] != [one])


class _Turn(NamedTuple):
    """From a block on, the target depends on this task: on itself since it was woken, and before
    that on a task that is going to wake it."""

    place: int
    task: int


class _Index:
    """Where a task runs, and where it is woken: the places of blocks, in the order of time."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._runs: dict[int, list[int]] = {}
        self._woken: dict[int, list[int]] = {}
        for place, step in enumerate(steps):
            self._runs.setdefault(step.task, []).append(place)
            if step.woken:
                self._woken.setdefault(step.woken, []).append(place)

    def runs(self, task: int, since: int = 0) -> int | None:
        """The first place from ``since`` on at which that task runs."""
        return _from(self._runs.get(task, ()), since)

    def ran(self, task: int, until: int) -> int | None:
        """The last place before ``until`` at which it runs."""
        places = self._runs.get(task, ())
        at = bisect.bisect_left(places, until)
        return places[at - 1] if at else None

    def woken(self, task: int, since: int = 0) -> int | None:
        return _from(self._woken.get(task & LOW, ()), since)


def _from(places: Sequence[int], since: int) -> int | None:
    at = bisect.bisect_left(places, since)
    return places[at] if at < len(places) else None


def _turns(steps: Sequence[Step], target: int, index: _Index) -> tuple[_Turn, ...]:
    """The turns, the first one first. Empty: no block woke the target, as of a handler."""
    turns: list[_Turn] = []
    known: set[int] = set()
    task, until = target, len(steps)
    while task and task not in known:
        known.add(task)
        found = index.woken(task)
        if found is not None and found >= until:
            found = None
        irq = found is not None and _last(steps[found].stack, _irq) >= 0
        ran = None if found is None or irq else index.ran(task, found)
        # a task that waits for anything else is not ready until it is woken
        if ran is not None and _lock_at(steps[ran].stack) >= 0:
            if not turns:
                turns.append(_Turn(0, task))  # it was awake, and then waited for a lock
                break
            found = None
        if found is None:
            if turns:
                # it was awake, and an interrupt gave it something to do
                begin = next((at for at in range(until) if _last(steps[at].stack, _irq) >= 0), 0)
                turns.append(_Turn(begin, task))
            break
        turns.append(_Turn(found, task))
        if irq:
            break
        task, until = steps[found].task, found
    return tuple(reversed(turns))


class _Classes:
    """The class of one block after the other."""

    def __init__(self, tasks: Tasks, target: int, steps: Sequence[Step], begins: int) -> None:
        self._tasks = tasks
        self._target = target
        self._begins = begins
        """The task that begins the operation that the sample times. 0: it waits for an event."""
        self._steps = steps
        self._index = _Index(steps)
        self._turns = _turns(steps, target, self._index)
        self._turn = -1
        """The present turn's place among them. -1 before the first."""
        self._ready = 0
        """The task of the present turn. 0 before the first."""
        self._away = -1
        """The block from which on that task has not run."""
        self.waiting_for: tuple[str, ...] = ()
        """The stack in which that task waits for a lock, or empty."""
        self.owner = 0
        """The task that holds the lock, if it is another one."""

    def of(self, place: int, step: Step) -> tuple[str, str]:
        """The class, and the function that a segment of it is named after, if that is not where
        most time was spent."""
        stack = step.stack
        interrupt, softirq, switch = (
            _last(stack, _irq),
            _last(stack, _soft),
            _last(stack, _switches),
        )
        self._follow(place, step, interrupt >= 0)
        if step.halted:
            return "hardware", ""
        own = step.task == self._ready
        # softirqs in a thread, which holds the lock that is waited for
        others = interrupt < 0 and self.waiting_for and not own
        if max(interrupt, softirq) > switch and not others:
            kind = "interrupt" if interrupt > softirq else "softirq"
            return kind, _handler(stack, max(interrupt, softirq))
        found = self._operation(step.task, switch >= 0) if not self.waiting_for else ""
        return (found, "") if found else self._waited(step, switch >= 0)

    def _waited(self, step: Step, switch: bool) -> tuple[str, str]:
        """The class of a block in which the task of the present turn does not get on."""
        own, urgency = step.task == self._ready, self._tasks.urgency
        if not self._ready:
            return "interrupts-off", ""
        if self.waiting_for and not (
            # the waiting task lends its own priority to the owner
            step.task not in (self._ready, self.owner) and urgency(step.task) < urgency(self._ready)
        ):
            return "lock", _wanting(self.waiting_for)
        if own and step.task == self._target:
            return ("switch" if switch else "return"), ""
        if switch:
            return "switch", ""
        waits = self._target if own else self._ready
        if urgency(step.task) <= urgency(waits):
            return "higher-priority", ""
        return "preemption-off", ""

    def _operation(self, task: int, switch: bool) -> str:
        """The class of a block of an operation. Empty: as of a sample that waits for an event."""
        woken = self._ready == self._target != self._begins
        if self._begins and task == self._begins and not woken:
            return "switch" if switch else "operation"
        if self._ready or not self._begins:
            return ""
        if switch:
            return "switch"
        if task == self._target:
            return "return"
        urgency = self._tasks.urgency
        return "higher-priority" if urgency(task) <= urgency(self._begins) else "preemption-off"

    def _follow(self, place: int, step: Step, interrupt: bool) -> None:
        """Whose turn it is, and whether that task waits for a lock."""
        stack = step.stack
        while self._turn + 1 < len(self._turns) and self._turns[self._turn + 1].place <= place:
            self._turn += 1
        ready = self._turns[self._turn].task if self._turn >= 0 else 0
        wakes = bool(stack) and stack[-1] == _WAKES
        if not self._turns and not self._begins and (self._ready or wakes):
            ready = self._target  # it is not known which task was woken
        if ready != self._ready:
            self._ready, self._away, self.waiting_for = ready, -1, ()
        if not ready:
            return
        if step.task == ready:
            self._away, self.owner = -1, 0
            if not interrupt:
                waits = _lock_at(stack) >= 0
                if waits and not (self.waiting_for and not _wanting(stack)):
                    self.waiting_for = stack
                elif not waits:
                    self.waiting_for = ()
        elif self._away < 0:
            self._away = place
            holder = self._holder(place, step.task) if self.waiting_for else None
            self.owner = holder or 0
            if holder is None:
                self.waiting_for = ()  # it was preempted while it took or gave back a lock

    def _holder(self, place: int, running: int) -> int | None:
        """The task that holds the lock for which the task of this turn stops running: the one that
        wakes it again. 0: an interrupt or a softirq did, so no task is known to hold it. None: the
        task of this turn was preempted, and does not wait."""
        if not self._turns:
            return running
        runs, woken = self._index.runs(self._ready, place), self._index.woken(self._ready, place)
        if runs is not None and (woken is None or runs <= woken):
            return None
        if woken is None:
            return running
        wakes = self._steps[woken].stack
        # softirqs give back spinning locks of PREEMPT_RT, and no other lock
        event = _last(wakes, _irq) >= 0 or (
            _last(wakes, _soft) >= 0 and _last(self.waiting_for, _spins) < 0
        )
        return 0 if event else self._steps[woken].task


def _last(stack: Sequence[str], holds: Callable[[str], bool]) -> int:
    """The place of the innermost function for which that holds, or -1."""
    for place in range(len(stack) - 1, -1, -1):
        if holds(stack[place]):
            return place
    return -1


@functools.cache
def _irq(name: str) -> bool:
    return name.startswith("!") and bool(_INTERRUPT.fullmatch(name[1:]))


@functools.cache
def _enters(name: str) -> bool:
    return bool(_ENTRY.fullmatch(name))


@functools.cache
def _soft(name: str) -> bool:
    return bool(_SOFTIRQ.fullmatch(name))


@functools.cache
def _switches(name: str) -> bool:
    return bool(_SWITCH.fullmatch(name))


@functools.cache
def _locks(name: str) -> bool:
    return bool(_LOCK.fullmatch(name))


@functools.cache
def _spins(name: str) -> bool:
    return bool(_SPINNING.fullmatch(name))


def _lock_at(stack: Sequence[str]) -> int:
    """The place of the outermost function that takes a lock, or -1: also if it is part of the
    release of another one."""
    for place, name in enumerate(stack):
        if "unlock" in name:
            return -1
        if _locks(name):
            return place
    return -1


def _handler(stack: Sequence[str], place: int) -> str:
    """The function that handles the interrupt or softirq at a place of the stack."""
    for at in range(len(stack) - 2, place, -1):
        if _HANDLER_ABOVE.fullmatch(stack[at]):
            return stack[at + 1]
    if _soft(stack[place]) and place + 1 < len(stack):
        return stack[place + 1]
    return stack[place].lstrip("!").removeprefix("asm_").removeprefix("sysvec_")


def _wanting(stack: Sequence[str]) -> str:
    """The function that takes the lock; empty if the stack does not reach it."""
    first = _lock_at(stack)
    return stack[first - 1].lstrip("!") if first > 0 else ""
