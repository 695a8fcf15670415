# SPDX-License-Identifier: Apache-2.0
"""Locks that a task of another CPU held, by the traces of both CPUs.

``tests/data/trace-lock-*.json`` is from a board of the lab with two CPUs: the largest sample of
``timer --method timer`` on CPU 0. On CPU 1 a task reads the timers of the agent, which holds the
lock of its signals, and a task of SCHED_FIFO 99 preempts it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

import streams
from rtgauge.causes.blame import blame, holder, main_segment
from rtgauge.causes.model import Cause, Segment, Task, causes_of, document_of, plain
from rtgauge.causes.remedies import System, remedies
from rtgauge.causes.tracefs import kept_of
from rtgauge.causes.tracefs.elsewhere import Elsewhere
from rtgauge.causes.tracefs.pages import HARDIRQ, IRQS_OFF, SOFTIRQ, Event
from rtgauge.causes.tracefs.segments import segments_of
from rtgauge.causes.tracefs.waits import Sample
from rtgauge.store.samples import StoredStep
from rtgauge.stream import RecordType
from traces import DUE, ORDINARY, TARGET, captured, path, switch, timer, waking

OWNER: Final = 90
OTHER: Final = 91
WAKER: Final = 15
LOCK: Final = 0x1000
ONE: Final = frozenset((1,))
SYSTEM: Final = System("preempt_rt", "ssh://board", ("timer",))


def recorded(
    folder: Path, *, cpus: Sequence[int] = (0, 1), facts: Mapping[str, Any] | None = None
) -> Cause:
    """The cause of the recorded sample, with the pages of these CPUs."""
    capture = captured("lock-arm64-rt-6.1")
    stream = streams.Builder(start_ns=capture["start_ns"]).series(0, context="user")
    stream.add(RecordType.ENVIRONMENT, {"facts": capture["facts"] if facts is None else facts})
    for record in capture["records"]:
        if record["part"] == "page" and record["cpu"] not in cpus:
            continue
        data = {"data": base64.b64decode(record["data"])} if "data" in record else {}
        stream.add(RecordType.TRACE, {**record, **data})
    place = folder / "steps" / "000"
    place.mkdir(parents=True)
    (place / "stream.cbor").write_bytes(stream.trailer().data)
    step = StoredStep(folder, 0, {})
    (cause,) = kept_of(step).causes(step, {0: 1_600_000})
    return cause


def test_the_owner_on_the_other_cpu_is_named(tmp_path: Path) -> None:
    cause = recorded(tmp_path)
    assert cause.blame == (
        "waited for a lock, held by test-timers on CPU 1, which ran test-fifo instead"
        " (489107.312 of 507006.352 µs)"
    )
    assert cause.unseen == ""
    assert cause.rest_ns == 0
    lock = main_segment(cause.segments)
    assert lock is not None
    assert (lock.kind, lock.certainty, lock.owner_cpu) == ("lock", "inferred", 1)
    assert lock.owner is not None
    assert lock.instead is not None
    assert (lock.instead.name, lock.instead.policy, lock.instead.priority) == (
        "test-fifo",
        "fifo",
        99,
    )
    assert causes_of(document_of("r", [cause])) == (cause,)
    first, second = remedies(lock, SYSTEM)
    assert first.text.startswith("keep test-fifo off CPU 1, or give it a priority below")
    assert "with which test-timers takes the lock on CPU 1" in second.text


def test_a_pointer_to_a_text_is_not_a_text(tmp_path: Path) -> None:
    """The event of an interrupt from another CPU has the address of its reason only."""
    names = {one.function for one in recorded(tmp_path).segments if one.kind == "interrupt"}
    assert names == {"arch_timer", "IPI", "inter-processor interrupt"}


def test_without_the_other_cpu_the_lock_has_no_owner(tmp_path: Path) -> None:
    cause = recorded(tmp_path, cpus=(0,))
    assert cause.blame.startswith("waited for a lock (")
    lock = main_segment(cause.segments)
    assert lock is not None
    assert (lock.owner, lock.owner_cpu, lock.instead) == (None, -1, None)
    assert remedies(lock, SYSTEM) == ()


def test_a_wake_up_names_the_owner_even_if_the_number_of_cpus_is_unknown(tmp_path: Path) -> None:
    cause = recorded(tmp_path, facts={"/sys/kernel/realtime": "1"})
    assert "held by test-timers on CPU 1" in cause.blame


def test_earlier_documents_have_no_other_cpu(tmp_path: Path) -> None:
    cause = recorded(tmp_path, cpus=(0,))
    document = plain(cause)
    for segment in document["segments"]:
        del segment["owner_cpu"], segment["instead"]
    assert causes_of({"causes": [document]}) == (cause,)


def contention(us: float, end: str, task: int, lock: int = LOCK, flags: int = IRQS_OFF) -> Event:
    fields: dict[str, int | str] = {"lock_addr": lock}
    return Event(DUE + int(us * 1000), f"lock/contention_{end}", task, flags, 0, fields)


def parts(
    events: Sequence[Event],
    us: int,
    others: Mapping[int, Sequence[Event]],
    cpus: frozenset[int] | None = ONE,
    *,
    threaded: bool = True,
) -> list[tuple[str, float, int | None, int, int | None]]:
    """The segments from the first switch on: class, length in µs, owner, its CPU, and what that CPU
    ran."""
    sample = Sample(DUE, DUE + us * 1000, TARGET, 0, 1 << 62, 8000, threaded)
    elsewhere = Elsewhere({cpu: [list(some)] for cpu, some in others.items()}, cpus)
    segments, rest = segments_of(
        sample, sorted(events, key=lambda one: one.time_ns), elsewhere=elsewhere
    )
    assert rest == 0
    return [
        (
            one.kind,
            one.length_ns / 1000,
            one.owner.pid if one.owner else None,
            one.owner_cpu,
            one.instead.pid if one.instead else None,
        )
        for one in segments
        if one.begin_ns >= 5000
    ]


SLEEPS: Final = [*path(1), switch(10, TARGET, ORDINARY, state=2), switch(96, ORDINARY, TARGET, 19)]


def test_a_wait_ends_when_the_other_cpu_wakes_the_thread() -> None:
    """From then on the lock is free, and a task that keeps the CPU is blamed."""
    others = [switch(-50, 1, OWNER), waking(90, OWNER, IRQS_OFF), switch(120, OWNER, 0)]
    assert parts(SLEEPS, 98, {1: others}) == [
        ("return", 5, None, -1, None),
        ("lock", 80, OWNER, 1, None),
        ("switch", 6, None, -1, None),
        ("return", 2, None, -1, None),
    ]


def test_a_task_of_higher_rank_does_not_hide_the_owner() -> None:
    events = [*path(1), switch(10, TARGET, 60, 9, state=2), switch(96, 60, TARGET, 19)]
    others = [switch(-50, 1, OWNER), waking(90, OWNER, IRQS_OFF), switch(120, OWNER, 0)]
    assert parts(events, 98, {1: others})[1:3] == [
        ("lock", 80, OWNER, 1, None),
        ("higher-priority", 6, None, -1, None),
    ]


@pytest.mark.parametrize("ran", [OTHER, 0])
def test_what_ran_instead_of_the_owner(ran: int) -> None:
    others = [
        *(switch(-50, 1, OWNER), switch(12, OWNER, ran), switch(85, ran, OWNER)),
        *(waking(90, OWNER, IRQS_OFF), switch(120, OWNER, 0)),
    ]
    assert ("lock", 80, OWNER, 1, ran) in parts(SLEEPS, 98, {1: others})


@pytest.mark.parametrize("flags", [HARDIRQ, SOFTIRQ])
def test_an_interrupt_of_the_other_cpu_holds_no_lock(flags: int) -> None:
    others = [switch(-50, 1, OWNER), waking(90, OWNER, flags), switch(120, OWNER, 0)]
    sample = Sample(DUE, DUE + 98_000, TARGET, 0, 1 << 62, 8000)
    segments, rest = segments_of(sample, SLEEPS, elsewhere=Elsewhere({1: [others]}, ONE))
    assert "lock" not in {one.kind for one in segments}
    assert rest == 80_000


def test_the_owner_is_the_one_at_the_end_of_a_chain() -> None:
    """The thread waits for a task of its own CPU, which waits for one of the other CPU."""
    events = [
        *path(1),
        switch(10, TARGET, ORDINARY, state=2),
        switch(20, ORDINARY, 0, state=2),
        switch(91, 0, ORDINARY),
        waking(95, ORDINARY, IRQS_OFF),
        switch(96, ORDINARY, TARGET, 19),
    ]
    others = [
        *(switch(-50, 1, OWNER), switch(30, OWNER, OTHER), switch(89, OTHER, OWNER)),
        *(waking(90, OWNER, IRQS_OFF, woken=ORDINARY), switch(120, OWNER, 0)),
    ]
    assert parts(events, 98, {1: others}) == [
        ("return", 5, None, -1, None),
        ("lock", 10, ORDINARY, -1, None),
        ("lock", 70, OWNER, 1, OTHER),
        ("lock", 1, ORDINARY, -1, None),
        ("lock", 5, ORDINARY, -1, None),
        ("return", 2, None, -1, None),
    ]


def test_a_thread_that_waits_since_before_the_due_time() -> None:
    """The thread for timers waited for a lock as the interrupt came, so this did not wake it."""
    events = [
        *(switch(-100, 1, WAKER), switch(-80, WAKER, 0, state=2)),
        *(timer(1, "entry", 0), timer(5, "exit", 0), switch(93, 0, WAKER, 98)),
        *(waking(95, WAKER, IRQS_OFF | SOFTIRQ), switch(96, WAKER, TARGET, 19)),
    ]
    others = [
        *(switch(-150, 1, OWNER), switch(-60, OWNER, OTHER), switch(89, OTHER, OWNER)),
        *(waking(90, OWNER, IRQS_OFF, woken=WAKER, prio=98), switch(120, OWNER, 0)),
    ]
    assert parts(events, 98, {1: others}) == [
        ("lock", 85, OWNER, 1, OTHER),
        ("switch", 3, None, -1, None),
        ("softirq", 3, None, -1, None),
        ("return", 2, None, -1, None),
    ]


def test_tasks_that_wait_for_each_other_end_the_chain() -> None:
    """No kernel has this, but a stream may."""
    events = [
        *path(1),
        *(switch(10, TARGET, ORDINARY, state=2), waking(95, ORDINARY, IRQS_OFF)),
        switch(96, ORDINARY, TARGET, 19),
    ]
    others = [
        *(switch(9, ORDINARY, OWNER, state=2), switch(9.5, OWNER, OTHER, state=2)),
        *(waking(94, OWNER, 0, woken=ORDINARY), waking(94, ORDINARY, 0, woken=OWNER)),
    ]
    assert sum(length for _, length, *_ in parts(events, 98, {1: others})) == 93


SPINS: Final = [
    *path(1),
    *(contention(10, "begin", TARGET), contention(60, "end", TARGET)),
]


def test_a_lock_for_which_the_thread_does_not_sleep_has_the_task_of_the_other_cpu() -> None:
    """The thread runs until the owner, which runs, too, gives the lock back."""
    others = [switch(-50, 1, OWNER), switch(120, OWNER, 0)]
    spins = [
        ("return", 5, None, -1, None),
        ("lock", 50, OWNER, 1, None),
        ("return", 3, None, -1, None),
    ]
    assert parts(SPINS, 63, {1: others}) == spins
    assert parts(SPINS, 63, {1: others}, threaded=False) == spins
    idle = [switch(-50, 1, 0), switch(120, 0, OTHER)]
    assert parts(SPINS, 63, {1: others, 2: idle}, frozenset((1, 2))) == spins


@pytest.mark.parametrize(
    "others",
    [
        [],
        [switch(-50, 1, OWNER), switch(40, OWNER, OTHER), switch(120, OTHER, 0)],
        [switch(-50, 1, OWNER), switch(40, OWNER, 0), switch(120, 0, OTHER)],
        [switch(-50, 1, OWNER), switch(40, OWNER, OWNER)],
        [switch(30, 1, OWNER), switch(120, OWNER, 0)],
        [switch(-50, 1, OWNER), timer(59, "entry", OWNER), timer(61, "exit", OWNER)],
    ],
)
def test_an_owner_that_the_other_cpu_does_not_show_is_unknown(others: list[Event]) -> None:
    """It has no events, changed tasks, is not covered up to the end or from the begin, or ran a
    handler."""
    assert ("lock", 50, None, -1, None) in parts(SPINS, 63, {1: others})


def test_one_of_two_other_cpus_is_not_guessed() -> None:
    others = [switch(-50, 1, OWNER), switch(120, OWNER, 0)]
    another = [switch(-50, 1, OTHER), switch(120, OTHER, 0)]
    both = frozenset((1, 2))
    assert ("lock", 50, None, -1, None) in parts(SPINS, 63, {1: others, 2: another}, both)
    assert ("lock", 50, None, -1, None) in parts(SPINS, 63, {1: others}, both)


@pytest.mark.parametrize("cpus", [None, frozenset[int]()])
def test_without_another_cpu_nothing_is_said_of_a_lock(cpus: frozenset[int] | None) -> None:
    others = [switch(-50, 1, OWNER), switch(120, OWNER, 0)]
    assert parts(SPINS, 63, {1: others}, cpus) == [("return", 58, None, -1, None)]


def test_a_thread_that_gives_up_and_sleeps_has_one_owner() -> None:
    events = [*SLEEPS, contention(7, "begin", TARGET), contention(97, "end", TARGET)]
    others = [switch(-50, 1, OWNER), waking(90, OWNER, IRQS_OFF), switch(91, OWNER, OTHER)]
    assert parts(events, 98, {1: others}) == [
        ("return", 2, None, -1, None),
        ("lock", 3, OWNER, 1, None),
        ("lock", 80, OWNER, 1, None),
        ("switch", 6, None, -1, None),
        ("return", 2, None, -1, None),
    ]


def test_a_thread_that_slept_before_it_was_due_is_not_said_to_spin() -> None:
    """The owner of the lock for which it slept is not the task that runs now."""
    events = [
        *(contention(-90, "begin", TARGET), switch(-80, TARGET, ORDINARY, state=2)),
        *(waking(-5, ORDINARY, IRQS_OFF), switch(2, ORDINARY, TARGET, 19)),
        *(timer(5, "entry", TARGET), timer(6, "exit", TARGET), contention(20, "end", TARGET)),
    ]
    others = [switch(-50, 1, OWNER), switch(120, OWNER, 0)]
    assert "lock" not in {kind for kind, *_ in parts(events, 30, {1: others})}


def test_locks_of_a_handler_and_inner_ones_are_not_those_of_the_thread() -> None:
    others = [switch(-50, 1, OWNER), switch(120, OWNER, 0)]
    handler = [
        *(timer(20, "entry", TARGET), contention(21, "begin", TARGET, 1, HARDIRQ)),
        *(contention(24, "end", TARGET, 1, HARDIRQ), timer(25, "exit", TARGET)),
    ]
    inner = [contention(30, "begin", TARGET, 2), contention(40, "end", TARGET, 2)]
    assert parts([*SPINS, *handler, *inner], 63, {1: others})[1:] == [
        ("lock", 10, OWNER, 1, None),
        ("interrupt", 5, None, -1, None),
        ("lock", 35, OWNER, 1, None),
        ("return", 3, None, -1, None),
    ]


def test_a_thread_for_softirqs_that_tries_to_take_a_lock() -> None:
    events = [
        switch(-100, 1, ORDINARY),
        *(timer(1, "entry"), waking(2, ORDINARY, woken=WAKER, prio=98), timer(3, "exit")),
        switch(5, ORDINARY, WAKER, 98),
        Event(DUE + 6000, "irq/softirq_entry", WAKER, SOFTIRQ, 0, {"vec": 8}),
        *(contention(10, "begin", WAKER, LOCK, SOFTIRQ), contention(60, "end", WAKER, LOCK, 16)),
        *(waking(64, WAKER, IRQS_OFF | SOFTIRQ), switch(65, WAKER, TARGET, 19)),
    ]
    others = [switch(-50, 1, OWNER), switch(120, OWNER, 0)]
    assert ("lock", 50, OWNER, 1, None) in parts(events, 67, {1: others})


@pytest.mark.parametrize(
    ("instead", "words"),
    [
        (None, "held by a on CPU 3"),
        (Task("b", 7), "held by a on CPU 3, which ran b instead"),
        (Task("idle", 0), "held by a on CPU 3, which was idle"),
    ],
)
def test_the_words_for_an_owner(instead: Task | None, words: str) -> None:
    owner = Task("a", 5)
    lock = Segment(0, 90_000, "lock", "inferred", owner=owner, owner_cpu=3, instead=instead)
    assert holder(lock) == words
    assert blame([lock], 90_000, 5000)[0] == f"waited for a lock, {words} (90.000 of 90.000 µs)"
    texts = [one.text for one in remedies(lock, SYSTEM)]
    assert len(texts) == (2 if instead and instead.pid else 1)
    assert "find the calls with which a takes the lock on CPU 3" in texts[-1]
