# SPDX-License-Identifier: Apache-2.0
"""Causes by the kernel's trace: its pages against the kernel's own text of them, segments against
what they must add up to, and whatever a damaged target may send.

``tests/data/trace-*.json`` are from boards of the lab, packed: the files ``format`` of the events,
``snapshot_raw`` of a trace instance (pages in base64, without the zeros at their end), and its
``snapshot``, which is the kernel's own text of the same pages.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
import tracemalloc
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import report_runs
import streams
from counted import lines_of
from rtgauge.causes.beginnings import how_of
from rtgauge.causes.blame import blame
from rtgauge.causes.explain import traced
from rtgauge.causes.model import (
    CERTAINTIES,
    CLASSES,
    Cause,
    Segment,
    Task,
    causes_of,
    document_of,
    plain,
)
from rtgauge.causes.tracefs import Kept, kept_of
from rtgauge.causes.tracefs.kept import _Chosen, _Run
from rtgauge.causes.tracefs.pages import (
    HARDIRQ,
    IRQS_OFF,
    SOFTIRQ,
    Event,
    Format,
    Layout,
    read_format,
    read_layout,
    read_page,
)
from rtgauge.causes.tracefs.segments import Sample, segments_of, woken_elsewhere
from rtgauge.errors import UsageError
from rtgauge.report.results import model
from rtgauge.report.results.gather import medians
from rtgauge.store.samples import StoredStep
from rtgauge.stream import RecordType

DATA: Final = Path(__file__).parents[1] / "data"
BOARDS: Final = ("x86_64-stock-6.12", "arm64-rt-6.1")
LINE = re.compile(
    r"^ *(?P<task>.*)-(?P<pid>\d+) +\[(?P<cpu>\d+)\] (?P<flags>\S+) +(?P<s>\d+)\.(?P<us>\d{6}): "
    r"(?P<name>\w+): (?P<words>.*)$"
)


def captured(board: str) -> dict[str, Any]:
    packed = json.loads((DATA / f"trace-{board}.json").read_text(encoding="utf-8"))["gzip"]
    loaded: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode("".join(packed))))
    return loaded


def decoded(capture: Mapping[str, Any]) -> tuple[list[bytes], Layout, dict[int, Format]]:
    formats: dict[int, Format] = {}
    for name, text in capture["formats"].items():
        one = read_format(name, text.encode())
        assert one is not None
        formats[one.number] = one
    pages = [base64.b64decode(page) for page in capture["pages"]]
    return pages, read_layout(capture["header_page"].encode(), "little"), formats


def shown(event: Event, words: str) -> list[str]:
    """The fields that the kernel's text of an event has, as it writes them."""
    found = []
    for name in re.findall(r"(?:^| )(\w+)=", words):
        value = event.fields.get(name)
        # the kernel shows these as words or addresses
        if value is not None and name not in ("prev_state", "function", "hrtimer", "ret"):
            value = f"{value:03d}" if name == "target_cpu" else value
            found.append(f"{name}={value}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("board", BOARDS)
def test_pages_hold_what_the_kernel_says(board: str) -> None:
    capture = captured(board)
    pages, layout, formats = decoded(capture)
    assert layout == Layout("little", 8, 8, 16)
    events: list[Event] = []
    for data in pages:
        page = read_page(data, layout, formats)
        assert page is not None
        assert page.events[0].time_ns >= page.begin_ns
        events += page.events
    assert len(events) == len(capture["text"]) > 400
    for event, text in zip(events, capture["text"], strict=True):
        line = LINE.match(text)
        assert line is not None, text
        assert event.name.split("/")[1] == line["name"]
        assert event.pid == int(line["pid"])
        assert (event.time_ns + 500) // 1000 == int(line["s"]) * 10**6 + int(line["us"])
        flags, preempt = event.flags, event.preempt
        assert flags is not None
        assert preempt is not None
        assert bool(flags & IRQS_OFF) == (line["flags"][0] in "dD")
        interrupt = {0: ".b", HARDIRQ: "h", SOFTIRQ: "s", HARDIRQ | SOFTIRQ: "H"}
        column = 2 if len(line["flags"]) == 5 else 3  # 6.1 RT has one for lazy preemption
        assert line["flags"][column] in interrupt[flags & (HARDIRQ | SOFTIRQ)]
        depth = line["flags"][column + 1]
        assert (preempt & 15) == (0 if depth == "." else int(depth, 16))
        for word in shown(event, line["words"]):
            assert word in line["words"]
        if event.name == "sched/sched_switch":
            assert f"==> next_comm={event.fields['next_comm']} " in line["words"]
            assert len(shown(event, line["words"])) == 6


def entry(kind: int, delta: int, *words: int, order: str = "little") -> bytes:
    head = kind | delta << 5 if order == "little" else kind << 27 | delta
    return b"".join(word.to_bytes(4, order) for word in (head, *words))  # type: ignore[arg-type]


FORMAT: Final = Format("x/y", 7, read_format("x/y", b"ID: 7\n").fields)  # type: ignore[union-attr]


@pytest.mark.parametrize("order", ["little", "big"])
def test_every_kind_of_entry(order: Any) -> None:
    """Padding, time extends and absolute times are not events, but they count for the time."""
    number = int.from_bytes((7).to_bytes(2, order) + b"\0\0", order)

    def one(kind: int, delta: int, *words: int) -> bytes:
        return entry(kind, delta, *words, order=order)

    content = b"".join(
        (
            one(2, 5, number, 0),
            one(1, 0, number),  # shorter than what all events begin with
            one(30, 3, 2),  # 2 * 2^27 + 3
            one(2, 1, number, 99),
            one(29, 4, 8, 0),  # a discarded event of 8 bytes
            one(0, 1, 12, number, 1),  # its length has a word of its own
            one(31, 1, 8 * (2**27) // 2**27),
            one(2, 0, number, 0),
            one(3, 1),  # reaches beyond the page
        )
    )
    begin = 3 << 59 | 17
    page = begin.to_bytes(8, order) + (len(content) | 1 << 31).to_bytes(8, order) + content
    found = read_page(page, Layout(order), {7: FORMAT})
    assert found is not None
    assert found.missed
    times = [event.time_ns for event in found.events]
    extended = begin + 5 + (2 << 27) + 3 + 1
    assert times[:3] == [begin + 5, extended, extended + 5]
    stamp = 3 << 59 | 8 << 27 | 1
    assert times[3:] == [stamp]


def test_formats_that_lack_a_field() -> None:
    bare = read_format("sched/sched_switch", b"name: sched_switch\nID: 310\nformat:\n")
    assert bare is not None
    assert bare.fields == {}
    assert read_format("a/b", b"no number") is None
    assert read_format("a/b", b"\xff\xfe") is None
    capture = captured(BOARDS[0])
    pages, layout, formats = decoded(capture)
    kept = {number: Format(one.name, number, {}) for number, one in formats.items()}
    page = read_page(pages[0], layout, kept)
    assert page is not None
    assert {(e.pid, e.flags, e.preempt) for e in page.events} == {(None, None, None)}
    sample = Sample(page.begin_ns, page.begin_ns + 10**6, 5, page.begin_ns, 1 << 62)
    segments, rest = segments_of(sample, page.events)
    assert sum(one.length_ns for one in segments) + rest == 10**6
    assert read_layout(b"", "little") == Layout("little")
    assert read_layout(b"\tfield: local_t commit;\toffset:8;\tsize:3;\n", "big") == Layout("big")


# --- segments -------------------------------------------------------------------------------------

DUE: Final = 1_000_000
TARGET: Final = 50
ORDINARY: Final = 77


def switch(
    us: float, before: int, after: int, prio: int = 120, *, state: int = 0, prev_prio: int = 120
) -> Event:
    fields: dict[str, int | str] = {
        "prev_comm": f"t{before}", "prev_pid": before, "prev_prio": prev_prio, "prev_state": state,
        "next_comm": f"t{after}", "next_pid": after, "next_prio": prio,
    }  # fmt: skip
    return Event(DUE + int(us * 1000), "sched/sched_switch", before, IRQS_OFF, 2, fields)


def waking(
    us: float, pid: int, flags: int = IRQS_OFF | HARDIRQ, *, woken: int = TARGET, prio: int = 19
) -> Event:
    fields: dict[str, int | str] = {
        "comm": f"t{woken}", "pid": woken, "prio": prio, "target_cpu": 0
    }  # fmt: skip
    return Event(DUE + int(us * 1000), "sched/sched_waking", pid, flags, 2, fields)


def timer(us: float, end: str, pid: int = ORDINARY, preempt: int = 0) -> Event:
    name = f"irq_vectors/local_timer_{end}"
    return Event(DUE + int(us * 1000), name, pid, IRQS_OFF | HARDIRQ, preempt, {"vector": 236})


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


def path(at: float, length: float = 0, preempt: int = 0) -> list[Event]:
    """An interrupt that wakes the thread, which the CPU then switches to after ``length``."""
    return [
        switch(-100, 1, ORDINARY),
        timer(at, "entry", preempt=preempt),
        waking(at + 1, ORDINARY),
        timer(at + 2, "exit"),
        switch(at + 4 + length, ORDINARY, TARGET, 19),
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
    assert cut(path(1, 5), 206, usual_us=8)[2][0] == "switch"


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


def test_a_lower_task_is_not_one_of_higher_priority() -> None:
    events = [*path(1)[:-1], switch(5, ORDINARY, 60, 30), switch(105, 60, TARGET, 19)]
    assert ("preemption-off", 100, "t60", "") in cut(events, 107)


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
    # a thread that was only preempted waits for nothing
    events[6] = switch(10, WAKER, ORDINARY, prev_prio=98)
    segments, rest = segments_of(sample, events)
    assert "lock" not in {one.kind for one in segments}
    assert ("preemption-off", 30_000) in {(one.kind, one.length_ns) for one in segments}


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
    assert blamed == "a softirq ran: TASKLET (1000.000 of 1065.000 µs)"
    if waker == "softirq":
        assert "lock" not in kinds
    # the owner of a lock runs them in a thread, where it can be preempted
    if waker == "task" and interrupted:
        _, blamed = waited(events, 1060, threaded=True)
        assert blamed == "waited for a lock, held by t77 (1049.000 of 1065.000 µs)"


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
    assert blamed == "not seen: 490.000 of 508.000 µs is not explained"


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
    assert blamed == "not seen: 790.000 of 815.000 µs is not explained"


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
    assert waited(events, 500)[1] == "waited for a lock (490.000 of 505.000 µs)"
    before = [
        *path(1),
        *(switch(5, TARGET, 60, state=2), waking(10, 60, 0), switch(11, 60, TARGET, 19)),
    ]
    events = [*before, switch(15, TARGET, 61, state=2), switch(500, 61, TARGET, 19)]
    assert waited(events, 500)[1] == "waited for a lock (485.000 of 505.000 µs)"


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
        assert blamed == "waited for a lock, held by t60 (524.000 of 829.000 µs)"


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


# --- from the records of a step -------------------------------------------------------------------


START: Final = 5_000_000_000
COMMON: Final = b"""name: local_timer_entry
ID: 3
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
"""
HEAD: Final[tuple[dict[str, Any], ...]] = (
    {"part": "cost", "without_ns": 3000, "with_ns": 7200},
    {"part": "format", "name": "irq_vectors/local_timer_entry", "data": COMMON},
    {"part": "format", "name": "sched/sched_waking", "data": COMMON.replace(b"ID: 3", b"ID: 4")},
)


def stored(
    folder: Path,
    records: Sequence[Mapping[str, Any]],
    ambience: Sequence[Mapping[str, Any]] = (),
    series: int = 2,
    values: Sequence[int] | None = (5000, 7000, 200_000),
    **header: Any,
) -> StoredStep:
    """``values``: of the first series. None: it has a histogram of 60 µs only."""
    stream = streams.Builder(start_ns=START, **header)
    stream.series(0, context="irq", histogram_only=values is None)
    for number in range(1, series):
        stream.series(number)
    if values is None:
        stream.histogram(0, [60_000] * 3)
    else:
        stream.samples(0, 0, values)
    for body in records:
        stream.add(RecordType.TRACE, body)
    for body in ambience:
        stream.add(RecordType.AMBIENCE, body)
    place = folder / "steps" / "000"
    place.mkdir(parents=True)
    (place / "stream.cbor").write_bytes(stream.trailer().data)
    return StoredStep(folder, 0, {})


def page_of(*times_ns: int, missed: bool = False) -> bytes:
    """A page of task 9: a waking at the first of these times of the step, and the beginning of a
    timer's handler at each of the others."""
    content, now = b"", START + times_ns[0]
    for place, time_ns in enumerate(times_ns):
        number, flags = (3, IRQS_OFF | HARDIRQ) if place else (4, IRQS_OFF)
        event = (number | flags << 16).to_bytes(4, "little") + (9).to_bytes(4, "little")
        content += entry(2, START + time_ns - now) + event
        now = START + time_ns
    commit = len(content) | missed << 31
    return (START + times_ns[0]).to_bytes(8, "little") + commit.to_bytes(8, "little") + content


def sample(snapshot: int, **changes: int) -> dict[str, Any]:
    """The third sample of the handler: 200 µs late."""
    chosen = {"index": 2, "due_ns": 2_000_000, "value": 200_000, "thread": 0}
    return {"part": "sample", "snapshot": snapshot, "series": 0, "cpu": 0, **chosen, **changes}


def page(snapshot: int, number: int, data: bytes, at: int = 0) -> dict[str, Any]:
    place = {"snapshot": snapshot, "cpu": 0, "number": number, "at": at}
    return {"part": "page", **place, "data": data}


def end(snapshot: int, omitted: int = 0, error: str = "") -> dict[str, Any]:
    return {"part": "end", "snapshot": snapshot, "pages": 1, "omitted": omitted, "error": error}


def test_from_the_records_to_the_cause(tmp_path: Path) -> None:
    """The page came in two records, with the snapshot before that of its sample."""
    whole = page_of(1_000_000, 2_190_000, 2_300_000)
    records = [*HEAD, sample(0, index=1, due_ns=10**6, value=7000), page(0, 4, whole[:20])]
    records += [page(0, 4, whole[20:], at=20), end(0), sample(1), end(1)]
    step = stored(tmp_path, records)
    kept = kept_of(step)
    assert kept.added_ns == 4200
    causes = list(kept.causes(step, {0: 7000}))
    assert [one.index for one in causes] == [1, 2]
    cause = causes[1]
    assert (cause.due_ns, cause.latency_ns, cause.context, cause.rest_ns) == (
        2 * 10**6,
        200_000,
        "irq",
        0,
    )
    assert [(one.kind, one.length_ns) for one in cause.segments] == [
        ("interrupts-off", 190_000),
        ("interrupt", 10_000),
    ]
    assert cause.blame == "interrupts were off, task thread 9 (190.000 of 200.000 µs)"
    assert cause.cost.added_ns == 4200
    assert cause.unseen == ""


SAVED_NS: Final = 70_321
"""Time for saving a stack, which does not fit into 16 bits."""
STACKED: Final = COMMON + (
    b"\tfield:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;\n"
    b"\tfield:char function[48];\toffset:56;\tsize:48;\tsigned:0;\n"
    b"\tfield:__data_loc char[] stack;\toffset:48;\tsize:4;\tsigned:0;\n"
    b"\tfield:unsigned int stack_ns;\toffset:52;\tsize:4;\tsigned:0;\n"
)


def stacked_page(names: bytes, where: int | None = None) -> bytes:
    """A page of the module: a timer's handler that found a function, and its callers."""
    data = bytearray(104)
    data[:12] = (3 | (IRQS_OFF | HARDIRQ) << 16).to_bytes(4, "little") + bytes((9, 0, 0, 0)) * 2
    where = 104 | len(names) << 16 if where is None else where
    data[48:52] = where.to_bytes(4, "little")
    data[52:56] = SAVED_NS.to_bytes(4, "little")
    data[56:60] = b"spin"
    data += names.ljust((len(names) + 3) & ~3, b"\0")
    # 0: the next word has the bytes of the data
    content = entry(2, 0, 4 | IRQS_OFF << 16, 9) + entry(0, 1_190_000, len(data) + 4) + data
    content += entry(2, 110_000, 4 | IRQS_OFF << 16, 9)
    head = (START + 1_000_000).to_bytes(8, "little") + len(content).to_bytes(8, "little")
    return head + content


def stacked_cause(folder: Path, data: bytes, text: bytes = STACKED, thread: int = 0) -> Cause:
    head = [HEAD[0], {**HEAD[1], "data": text}, HEAD[2]]
    step = stored(folder, [*head, sample(1, thread=thread), page(1, 0, data), end(1)])
    (cause,) = kept_of(step).causes(step, {0: 7000})
    return cause


def test_the_stack_in_a_page(tmp_path: Path) -> None:
    cause = stacked_cause(tmp_path / "a", stacked_page(b"<busy [m]<work<kthread"))
    assert cause.source == "module"
    assert cause.segments[0].stack == ("spin", "busy [m]", "work", "kthread")
    assert "interrupts were off: spin" in cause.blame
    (run,) = kept_of(StoredStep(tmp_path / "a", 0, {}))._runs[0]
    assert [one.fields["stack_ns"] for one in run.events if one.fields.get("stack_ns")] == [
        SAVED_NS
    ]
    assert cause.unseen == ""
    # the sample of a handler ends before
    assert cause.cost.text.endswith("before the run)")
    assert causes_of(document_of("r", [cause])) == (cause,)


@pytest.mark.parametrize(
    ("begin_us", "end_us", "spent"),
    [
        (0, 100, "5 µs"),  # of the inner handler there is none
        (12, 100, "5 µs"),  # the handler began before the sample
        (18, 100, "2 µs"),
        (0, 17, "2 µs"),
        (20, 30, ""),
        (0, 14, ""),  # the sample of the handler itself
        (40, 100, ""),
        (40, 300, "3 µs"),  # the handler's exit is missing, and a switch shows that it ended
    ],
)
def test_the_time_of_stacks_is_that_within_the_sample(
    tmp_path: Path, begin_us: int, end_us: int, spent: str
) -> None:
    """A stack ends at the exit of the outermost handler."""
    events = [
        replace(timer(us, "entry"), fields={"stack_ns": saved})
        for us, saved in ((10, 5000), (11, 9000), (110, 4000), (210, 3000))
    ]
    events += [timer(12, "exit"), timer(20, "exit"), timer(220, "exit")]
    events += [switch(130, ORDINARY, 78), switch(140, 78, ORDINARY)]
    events.sort(key=lambda one: one.time_ns)
    kept = Kept(added_ns=4200)
    kept.__dict__["_runs"] = {0: [_Run(0, 0, events)]}
    step = stored(tmp_path, [])
    chosen = _Chosen(0, 0, 0, DUE + begin_us * 1000 - START, (end_us - begin_us) * 1000, 0, 0)
    cause = kept.cause(chosen, step, step.series[0], 2000, threaded=False)
    said = cause.cost.text.replace("\u202f", " ").partition("before the run)")[2]
    assert said == (f"; stacks took {spent} of this sample" if spent else "")


def test_a_kernel_that_saves_no_stacks_is_named(tmp_path: Path) -> None:
    text = b"\n".join(line for line in STACKED.split(b"\n") if b"stack" not in line)
    cause = stacked_cause(tmp_path, stacked_page(b"<busy"), text)
    assert cause.segments[0].function == "spin"
    assert cause.segments[0].stack == ()
    assert cause.unseen.startswith("The kernel does not save stacks (CONFIG_STACKTRACE)")


@pytest.mark.parametrize("board", BOARDS)
def test_tracefs_has_no_stacks_on_any_kernel(tmp_path: Path, board: str) -> None:
    """Its event of a timer has a field ``function``, as events of the module do."""
    capture = captured(board)
    texts = [("header_page", capture["header_page"]), *capture["formats"].items()]
    formats = [{"part": "format", "name": name, "data": text.encode()} for name, text in texts]
    records = [*formats, *HEAD, sample(1), page(1, 0, page_of(1_000_000, 2_190_000)), end(1)]
    (cause,) = kept_of(step := stored(tmp_path, records)).causes(step, {0: 7000})
    assert cause.source == "tracefs"
    assert cause.segments[0].kind == "interrupts-off"
    assert cause.unseen == ""


@pytest.mark.parametrize(
    ("names", "where"),
    [
        (b"", 104 | 4000 << 16),
        (b"<a", 60000 | 2 << 16),
        (b"<a", 0xFFFFFFFF),
        (b"<" + b"n" * 9000, None),
        (b"<n" * 4000, None),
        (b"<" * 4000, None),
        (b"no mark", None),
        (b"<\xff\xfe\x1b[31m", None),
    ],
)
def test_a_stack_is_limited_whatever_is_sent(
    tmp_path: Path, names: bytes, where: int | None
) -> None:
    cause = stacked_cause(tmp_path, stacked_page(names, where))
    assert sum(one.length_ns for one in cause.segments) + cause.rest_ns == cause.latency_ns
    for one in cause.segments:
        assert len(one.stack) <= 20
        assert all(len(name) <= 64 for name in one.stack)
    assert causes_of(document_of("r", [cause])) == (cause,)


def test_a_sample_that_an_event_began_counts_from_its_handler(tmp_path: Path) -> None:
    """The interrupt came 150 µs after the due time, and the thread ran 100 µs after its handler."""
    step = stored(tmp_path, [])
    chosen = _Chosen(0, 1, 0, DUE - START, 106_000, 0, TARGET)
    kept = Kept(added_ns=4200)
    run = _Run(0, DUE - 300_000, sorted(path(150, 100, preempt=1), key=lambda one: one.time_ns))
    kept.__dict__["_runs"] = {0: [run]}
    cause = kept.cause(chosen, step, step.series[1], 2000, threaded=False, how="event")
    assert sum(one.length_ns for one in cause.segments) + cause.rest_ns == 106_000
    assert cause.segments[0].kind == "interrupt"
    assert cause.blame.startswith("task t77 was not preempted")
    assert {one.certainty for one in cause.segments} == {"inferred"}
    assert cause.rest_ns == 2000  # after the last event of the pages that the agent kept
    run.events[-1:] = []
    cause = kept.cause(chosen, step, step.series[1], 2000, threaded=False, how="event")
    assert cause.rest_ns > 90_000
    assert cause.unseen.startswith("Its event came late")


def test_how_a_series_begins_is_what_the_agent_says_of_it(tmp_path: Path) -> None:
    info = stored(tmp_path, []).series[0].info
    series = {"name": info.name, "from": "before the call"}
    catalogue = {"measurements": [{"name": "x"}, {"name": "timer", "series": [series]}]}
    alone = replace(info, interval_ns=0)
    assert how_of(catalogue, "timer", info) == "event"
    assert how_of(catalogue, "timer", alone) == "loop"
    series["from"] = "due time"
    assert how_of(catalogue, "timer", info) == "due"
    assert how_of(catalogue, "timer", alone) == ""
    others: tuple[Any, ...] = (None, {}, {"measurements": 5}, [])
    for other in others:
        assert how_of(other, "timer", info) == "due"
        assert how_of(other, "timer", alone) == ""


@pytest.mark.parametrize(
    ("records", "rest", "unseen"),
    [
        # the page of the beginning is not there, or a gap is in between
        ([page(0, 4, page_of(2_100_000, 2_190_000))], 100_000, "overwritten"),
        (
            [page(0, 4, page_of(1_900_000)), page(0, 5, page_of(2_150_000, missed=True))],
            150_000,
            "overwritten",
        ),
        ([page(0, 4, page_of(1_900_000)), page(0, 6, page_of(2_150_000))], 150_000, "overwritten"),
        ([], 200_000, "overwritten"),
        ([page(0, 4, b""), page(0, 5, b"\x01")], 200_000, "overwritten"),
        ([page(0, 4, page_of(1_900_000, 2_150_000)), end(0, omitted=3)], 50_000, "too many"),
        ([end(0, error="No such device")], 200_000, "No such device"),
        # pages after the one that could not be read
        (
            [page(0, 4, page_of(1_900_000, 2_150_000)), end(0, error="Input/output error")],
            50_000,
            "Input/output error",
        ),
        (
            [page(0, 4, page_of(2_100_000, 2_190_000)), end(0, error="Input/output error")],
            110_000,
            "Input/output error",
        ),
    ],
)
def test_what_is_missing_is_said(
    tmp_path: Path, records: list[dict[str, Any]], rest: int, unseen: str
) -> None:
    step = stored(tmp_path, [*HEAD, sample(0), *records])
    (cause,) = kept_of(step).causes(step, {})
    assert cause.rest_ns == rest
    assert unseen in cause.unseen


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"steal_ns": [99_000, 10**9]}, ""),  # of another CPU, or too little
        ({"steal_ns": [150_000, 0]}, "the hypervisor took 150\u202fµs of this CPU,"),
        ({"smi": 1}, "1 system management interrupt occurred,"),
        ({"smi": None}, ""),
    ],
)
def test_what_the_kernel_does_not_see_is_named_if_it_was_counted(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    """The reading after the sample counts, not the ones before it and after that."""
    records = [*HEAD, sample(0), page(0, 4, page_of(1_900_000, 2_190_000)), end(0)]
    other: dict[str, Any] = {"steal_ns": [10**9, 10**9], "smi": 7}
    readings = [
        streams.ambience_body(2_100_000, **other),
        streams.ambience_body(2_200_000, **changes),
        streams.ambience_body(3_000_000, **other),
    ]
    step = stored(tmp_path, records, readings)
    (cause,) = kept_of(step).causes(step, {0: 7000})
    assert (said in cause.unseen) if said else cause.unseen == ""
    (ordinary,) = kept_of(step).causes(step, {0: 150_000})
    assert ordinary.unseen == ""


def test_explain_knows_the_usual_time_as_the_report_does(tmp_path: Path) -> None:
    """An ordinary sample above 3 µs, in a second with a system management interrupt."""
    chosen = sample(0, index=1, due_ns=10**6, value=7000)
    records = [*HEAD, chosen, page(0, 4, page_of(900_000, 1_006_000)), end(0)]
    step = stored(tmp_path, records, [streams.ambience_body(2_200_000, smi=1)])
    entry = {"step": 0, "measurement": "timer", "run_options": {}}
    run = report_runs.run([step])  # type: ignore[list-item]
    run.document["steps"] = [entry]
    found = traced(run, medians=medians)  # type: ignore[arg-type]
    assert found is not None
    (shown,) = found.causes
    (reported,) = kept_of(step).causes(step, {0: 7000})
    assert replace(shown, remedies=()) == reported
    assert "nobody" in shown.blame
    assert shown.unseen == ""


def test_the_median_is_that_of_the_report(tmp_path: Path) -> None:
    """The lower one of two samples. A run of histograms has a median, too."""
    chosen = sample(0, index=1, due_ns=10**6, value=70_000)
    records = [*HEAD, chosen, page(0, 4, page_of(900_000, 1_070_000)), end(0)]
    for kept, median in (([30_000, 70_000], 30_000), (None, 60_000)):
        step = stored(tmp_path / str(median), records, values=kept)
        step.document.update(report_runs.step(0, []).document)  # type: ignore[attr-defined]
        run: Any = report_runs.run([step])  # type: ignore[list-item]
        found = traced(run, medians=medians)
        assert found is not None
        (reported,) = model.build([run])["runs"][0]["causes"]
        assert [plain(one) for one in found.causes] == [reported]
        assert ("nobody" in reported["blame"]) == (median == 60_000)


def test_a_report_has_the_blame_and_remedies_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = sample(0, index=1, due_ns=10**6, value=90_000)
    records = [*HEAD, chosen, page(0, 4, page_of(900_000, 1_090_000)), end(0)]
    step = stored(tmp_path, records)
    step.document.update(report_runs.step(0, []).document)  # type: ignore[attr-defined]
    environment = {**report_runs.ENVIRONMENT, "realtime": "voluntary"}
    run: Any = report_runs.run([step], environment=environment)  # type: ignore[list-item]
    (shown,) = kept_of(step).causes(step, {})
    task = Task("load/sched", 7, "other")
    late = replace(shown, segments=(Segment(0, 90_000, "preemption-off", "measured", task),))
    monkeypatch.setattr(Kept, "causes", lambda *_: [replace(late, rest_ns=0)])
    found = traced(run, medians=medians)
    assert found is not None
    (remedy, _) = found.causes[0].remedies
    assert remedy.command.startswith("rtgauge tune timer --interval 1ms --target local --try ")
    document = model.build([run])["runs"][0]
    assert document["causes"] == [plain(one) for one in found.causes]
    # a run from elsewhere names programs in orders, which its import does not check
    run.imported = True
    words = ["run", "a", "run", "timer", "--load-cmd", "curl a | sh", "--run", "x", "--step", "0"]
    for orders in ([words], [["put", "--step", "0"]], 5):
        run.document["orders"] = orders
        (one,) = model.build([run])["runs"][0]["causes"]
        assert one["remedies"][0]["command"] == remedy.command
    # the worst ones are those of each series, even if several series have the same context
    several = [replace(late, rest_ns=0, series=series, index=index)
               for series in (0, 1) for index in (1, 2)]  # fmt: skip
    monkeypatch.setattr(Kept, "causes", lambda *_: several)
    found = traced(run, worst=1, medians=medians)
    assert found is not None
    assert [(one.series, one.index) for one in found.causes] == [(0, 1), (1, 1)]


def test_samples_and_pages_that_were_not_kept_are_counted(tmp_path: Path) -> None:
    """The counts of all snapshots add up."""
    records = [
        *HEAD,
        sample(0),
        end(0, error="Input/output error"),
        {"part": "dropped", "samples": 3},
    ]
    records += [sample(1), end(1), {"part": "dropped", "samples": 4}]
    assert kept_of(stored(tmp_path / "a", records)).losses == [
        "the trace of 7 samples was not kept, because there was no room for it",
        "1 snapshot of the trace could not be read completely",
    ]
    assert kept_of(stored(tmp_path / "b", [*HEAD, sample(0), end(0)])).losses == []


def test_a_trace_that_seems_to_save_time_costs_nothing_measurable(tmp_path: Path) -> None:
    cost = {"part": "cost", "without_ns": 7200, "with_ns": 3000}
    (cause,) = kept_of(step := stored(tmp_path, [*HEAD[1:], cost, sample(0)])).causes(step, {})
    assert "no later here" in cause.cost.text
    assert "7.2 µs without it, 3 µs with it" in cause.cost.text.replace("\u202f", " ")


def test_the_largest_and_the_last_are_explained(tmp_path: Path) -> None:
    values = [50, 900, 20, 30, 40, 50, 60, 70]
    records = [sample(n, index=n, value=value) for n, value in enumerate(values)]
    step = stored(tmp_path, [*HEAD, *records])
    kept = kept_of(step)
    assert [one.value for one in kept.samples] == [900, 30, 40, 50, 60, 70]


def test_a_step_that_could_not_be_traced_has_the_reason(tmp_path: Path) -> None:
    step = stored(tmp_path, [{"part": "lost", "reason": "no tracefs", "remedy": "mount it"}])
    kept = kept_of(step)
    assert kept.added_ns is None
    run = report_runs.run([step])  # type: ignore[list-item]
    (found,) = model.build([run])["runs"][0]["steps"]  # type: ignore[list-item]
    assert "explain_ns" not in found["load"]
    texts = [one["text"] for one in found["events"]]
    assert "--explain: no tracefs. To explain samples: mount it." in texts
    assert [(one.reason, one.remedy) for one in kept.lost] == [("no tracefs", "mount it")]
    assert list(kept.causes(step, {})) == []
    step.document.update(report_runs.step(0, []).document)  # type: ignore[attr-defined]
    run = report_runs.run([step])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="no tracefs"):
        traced(run, medians=medians)  # type: ignore[arg-type]
    # the report promises a replay of a counted run
    lab = {"mode": "counted", "seed": "1", "kernel arguments": ""}
    environment = {**report_runs.ENVIRONMENT, "lab": lab}
    words = ["run", "a", "run", "timer", "--explain", "--run", "x", "--step", "0"]
    run.document.update(target="lab:x86_64-stock", environment=environment, orders=[words])
    assert traced(run, medians=medians) is None  # type: ignore[arg-type]
    run.document["orders"] = [["run", "a", "environment"]]
    with pytest.raises(UsageError, match="no tracefs"):
        traced(run, medians=medians)  # type: ignore[arg-type]


@pytest.mark.slow
def test_whatever_a_target_sends(tmp_path: Path) -> None:
    """Damaged pages, formats and samples, by the thousand: causes, whose parts add up."""
    rng = random.Random(20)
    capture = captured(BOARDS[0])
    texts = [*capture["formats"].items(), ("header_page", capture["header_page"])]
    good = [base64.b64decode(one) for one in capture["pages"]]
    stacked = stacked_page(b"<busy [m]" * 12)
    begin = int.from_bytes(good[0][:8], "little")

    def damaged(data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(rng.choice((0, 1, 5, 200))):
            if changed:
                changed[rng.randrange(len(changed))] = rng.choice((0, 255, rng.randrange(256)))
        return bytes(changed[: rng.choice((len(changed), rng.randrange(len(changed) + 1)))])

    for trial in range(150):
        records: list[dict[str, Any]] = [HEAD[0]]
        for name, text in texts:
            records.append({"part": "format", "name": name, "data": damaged(text.encode())})
        if trial % 2:
            records[1:] = [{**HEAD[1], "data": damaged(STACKED)}, HEAD[2]]
            begin = START + 1_000_000
        for number in range(rng.randrange(4)):
            due = begin - START + rng.randrange(-(10**6), 10**6 if trial % 2 else 10**8)
            value = rng.choice((-5, 0, 10**5, 10**9))
            records.append(sample(number, index=number, due_ns=due, value=value, thread=140))
        for number in range(rng.randrange(6)):
            one = damaged(stacked if trial % 2 else rng.choice(good))
            records.append(page(rng.randrange(3), number, one, at=rng.choice((0, 0, 0, 7))))
        step = stored(tmp_path / str(trial), records)
        for cause in kept_of(step).causes(step, {0: 9000}):
            assert sum(one.length_ns for one in cause.segments) + cause.rest_ns == cause.latency_ns


@pytest.mark.parametrize(
    "text",
    [b"field:" + b"a" * 65000, b"\nfield:a " * 7000, b"\n" * 65000, b"field:" + b"a[" * 32000],
)
def test_the_time_for_a_format_is_that_of_its_length(text: bytes) -> None:
    """Each of these took minutes or hours when each start of a word was tried with each end."""
    found = read_format("x/y", b"ID: 1\n" + text + b"\n\tfield:int z;\toffset:4;\tsize:4;\n")
    assert found is not None
    assert list(found.fields) == ["z"]


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("machine", ["mips", "aarch64_be", "x86_64"])
def test_the_byte_order_is_that_of_the_pages(tmp_path: Path, machine: str, order: Any) -> None:
    """The name of a machine does not give its byte order."""
    number = int.from_bytes((3).to_bytes(2, order) + bytes((IRQS_OFF | HARDIRQ, 0)), order)
    content = entry(2, 0, number, 9, order=order) + entry(2, 150_000, number, 9, order=order)
    begin = (START + 2_050_000).to_bytes(8, order)
    data = begin + (1 << 31 | len(content)).to_bytes(8, order) + content
    step = stored(tmp_path, [*HEAD, sample(0), page(0, 0, data)], machine=machine)
    (cause,) = kept_of(step).causes(step, {})
    assert [(one.kind, one.task and one.task.pid) for one in cause.segments] == [("interrupt", 9)]


@pytest.mark.slow
def test_the_events_are_limited_and_what_was_left_out_is_said(tmp_path: Path) -> None:
    """Small events by the million, in pages that follow each other or do not, and many series."""
    event = entry(2, 0, 3, 0)
    content = event * (30_000 // len(event))
    head = (START + 9).to_bytes(8, "little") + len(content).to_bytes(8, "little")
    records = [sample(0, series=number) for number in range(3000)]
    records += [page(0, number * (1 + number % 2), head + content) for number in range(500)]
    records += [sample(900, value=10**6), page(900, 0, head)]
    step = stored(tmp_path, [*HEAD, *records], series=3000)
    kept = kept_of(step)
    assert len(kept.samples) <= 64 + 5
    causes = list(kept.causes(step, {}))
    events = sum(len(run.events) for runs in kept._runs.values() for run in runs)
    assert events < 300_000
    assert "more events than rtgauge reads" in causes[-1].unseen


@pytest.mark.slow
def test_memory_is_limited_whatever_is_sent(tmp_path: Path) -> None:
    blob = b"\xff" * 30_000
    records = [sample(0)] + [page(0, number % 3000, blob, at=0) for number in range(5000)]
    records += [page(0, 1, blob, at=30_000 * n) for n in range(1, 40)]
    records += [{"part": "format", "name": f"a/{n}", "data": b"ID: 1"} for n in range(500)]
    kept = kept_of(stored(tmp_path, records))
    assert sum(map(len, kept._pages.values())) < (1 << 25) + 30_000 + 40 * 30_000
    assert 1000 < len(kept._pages) <= 2048
    assert max(map(len, kept._pages.values())) < 1 << 18
    assert len(kept._formats) == 64


ALTERNATING: Final = (
    b"ID: 7\n"
    b"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    b"\tfield:int next_pid;\toffset:2;\tsize:1;\tsigned:0;\n"
    b"\tfield:int next_prio;\toffset:3;\tsize:1;\tsigned:0;\n"
) + b"".join(b"\tfield:int a%d;\toffset:0;\tsize:4;\tsigned:0;\n" % n for n in range(13))


def switches(folder: Path, events: int, samples: int) -> StoredStep:
    """Switches of 12 bytes, each to another task, and samples that last through all of them."""
    words = [7 | (1 + number % 7) << 16 | (1 + number % 5) << 24 for number in range(events)]
    content = b"".join(entry(2, 1, word, 0) for word in words)
    records = [HEAD[0], {"part": "format", "name": "sched/sched_switch", "data": ALTERNATING}]
    long_ = {"value": 2_000_000_000, "thread": 3}
    records += [sample(0, series=n, due_ns=2_000_000 + n, **long_) for n in range(samples)]
    for number, at in enumerate(range(0, len(content), 12_000)):
        begin = (START + 2_000_000 + at // 12).to_bytes(8, "little")
        piece = content[at : at + 12_000]
        records.append(page(0, number, begin + len(piece).to_bytes(8, "little") + piece))
    return stored(folder, records, series=samples)


@pytest.mark.slow
def test_memory_for_causes_is_in_proportion_to_what_was_sent(tmp_path: Path) -> None:
    """Not the product of events and samples."""
    step = switches(tmp_path, 6000, 32)
    sent = (tmp_path / "steps/000/stream.cbor").stat().st_size
    tracemalloc.start()
    try:
        kept = kept_of(step)
        causes = [plain(one) for one in kept.causes(step, {})]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(causes) == 32
    assert peak < 100 * sent
    assert all("more events than rtgauge reads" in one["unseen"] for one in causes)
    for one in causes:
        parts = sum(each["length_ns"] for each in one["segments"])
        assert parts + one["rest_ns"] == one["latency_ns"]


def test_events_looked_at_for_all_samples_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtgauge.causes.tracefs.kept.LOOKS_LIMIT", 5000)
    monkeypatch.setattr("rtgauge.causes.tracefs.kept.SEGMENTS_LEAST", 10**6)
    step = switches(tmp_path, 2000, 8)
    causes = list(kept_of(step).causes(step, {}))
    assert [bool(one.segments) for one in causes] == [True] * 3 + [False] * 5
    assert "more events than rtgauge reads" in causes[-1].unseen
