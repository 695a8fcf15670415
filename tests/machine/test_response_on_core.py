# SPDX-License-Identifier: Apache-2.0
"""Answers to events on the Cobalt core, on a machine without one: tests/support/fake_core.py plays
the core, and tests/support/fake_module.py the kernel module and a GPIO chip. Times, storms and the
drivers of chips need a real kernel (tests/lab/test_cores.py)."""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path
from typing import Final

import pytest

from agents import Stream, read, results, table_of, values_named
from fake_core import REASON_SYSCALL, FakeCore
from fake_module import CHIP, ENTRY_TO_END_NS, ENTRY_TO_THREAD_NS, STORM, Edge, FakeModule
from rtgauge.target.local import find_agent
from waiting import until

CPU: Final = str(min(os.sched_getaffinity(0)))
RULE: Final = "stays out-of-band"
EVENTS: Final = 20
LINE: Final = f"gpio:{CHIP}:2:1"
ANSWER: Final = ("response", "--cpu", CPU, "--core", "cobalt", "--line", LINE)
CONTEXTS: Final = ("irq", "kernel", "user")

# kmod/rtgauge.h
KIND_RESPONSE: Final = 5
SOURCE_EXTERNAL: Final = 4
CONTEXT: Final = {"irq": 1, "kernel": 2, "user": 4}
RISING: Final = 0x2
FALLING: Final = 0x4
SLEEP: Final = 0x100
COBALT: Final = 0x400
SLEEPS: Final = 25


def levels(count: int = EVENTS) -> list[Edge]:
    """A line that is raised and lowered in turn."""
    return [Edge(level=1 - place % 2) for place in range(count)]


def core_with(module: FakeModule, *, counts: bool = True) -> FakeCore:
    return FakeCore(module.folder / "core", module=module, counts=counts)


def run(core: FakeCore, *words: str) -> tuple[int, Stream, str]:
    output = core.folder / "stream.cbor"
    done = core.run([find_agent(), "run", *words, "--output", output])
    return done.returncode, read(output), done.stderr.decode()


def events(seen: int, answered: int, lost: int = 0, repeated: int = 0) -> dict[str, int]:
    return {"seen": seen, "answered": answered, "lost": lost, "repeated": repeated}


def test_task_answers_each_edge_once(tmp_path: Path) -> None:
    module = FakeModule(tmp_path, levels())
    core = core_with(module)
    code, stream, said = run(core, *ANSWER, "--context", "user", "--samples", str(EVENTS))
    assert (code, said) == (0, "")
    assert (stream.header.core, stream.header.core_revision) == ("cobalt", 19)
    assert module.driven == [one.level for one in levels()]
    assert table_of(stream, "events") == [events(EVENTS, EVENTS)]
    wake, answer = values_named(stream, "wake-up"), values_named(stream, "answer")
    assert len(wake) == len(answer) == EVENTS
    assert all(0 <= one <= other for one, other in zip(wake, answer, strict=True))
    assert results(stream) == {RULE: "pass"}
    assert table_of(stream, "modes")[0]["switches"] == 0


def test_session_is_attached_before_it_listens(tmp_path: Path) -> None:
    module = FakeModule(tmp_path, levels(1))
    code, _, _ = run(core_with(module), *ANSWER, "--context", "user", "--samples", "1")
    assert code == 0
    assert module.asked == ["info", "setup", "attach", "start", "status"]


@pytest.mark.parametrize("context", CONTEXTS)
def test_module_is_asked_for_the_core(tmp_path: Path, context: str) -> None:
    module = FakeModule(tmp_path, levels(2))
    words = ("--context", context, "--samples", "2", "--debounce", "1500ns", "--priority", "70")
    code, _, said = run(core_with(module), *ANSWER, *words)
    assert (code, said) == (0, "")
    setup = module.setup
    assert setup is not None
    assert (setup.kind, setup.source) == (KIND_RESPONSE, SOURCE_EXTERNAL)
    assert setup.contexts == CONTEXT[context]
    assert setup.flags == COBALT | RISING | FALLING
    assert (setup.chip, setup.output, setup.input) == (CHIP, 2, 1)
    assert (setup.cpu, setup.debounce_us) == (int(CPU), 2)
    # the core's own thread has its priority from the set-up, and the task keeps no records
    assert setup.thread == (70 if context == "kernel" else 0)
    assert (setup.room == 0) == (context == "user")
    assert setup.events == (0 if context == "user" else 2)


@pytest.mark.parametrize("context", ["irq", "kernel"])
def test_records_of_the_core_are_samples(tmp_path: Path, context: str) -> None:
    module = FakeModule(tmp_path, levels())
    words = ("--context", context, "--samples", str(EVENTS))
    code, stream, said = run(core_with(module), *ANSWER, *words)
    assert (code, said, stream.header.core) == (0, "", "cobalt")
    assert values_named(stream, "answer") == [ENTRY_TO_END_NS] * EVENTS
    if context == "kernel":
        assert values_named(stream, "wake-up") == [ENTRY_TO_THREAD_NS] * EVENTS
    assert {one.name for one in stream.series} == {"irq": {"answer"}}.get(
        context, {"answer", "wake-up"}
    )
    assert table_of(stream, "events") == [events(EVENTS, EVENTS)]
    assert results(stream) == {RULE: "pass"}


def test_switches_of_the_kernel_task_fail(tmp_path: Path) -> None:
    module = FakeModule(tmp_path, levels(), switches=3)
    words = ("--context", "kernel", "--samples", str(EVENTS))
    code, stream, _ = run(core_with(module), *ANSWER, *words)
    assert code == 3
    assert results(stream) == {RULE: "fail"}
    assert [row["switches"] for row in table_of(stream, "modes")] == [3]


def test_kernel_task_of_a_core_that_does_not_count(tmp_path: Path) -> None:
    module = FakeModule(tmp_path, levels())
    words = ("--context", "kernel", "--samples", str(EVENTS))
    code, stream, _ = run(core_with(module, counts=False), *ANSWER, *words)
    assert code == 0
    assert results(stream) == {RULE: "inconclusive"}


@pytest.mark.parametrize("edge", ["rising", "falling"])
def test_edge_of_one_direction_toggles(tmp_path: Path, edge: str) -> None:
    """The task itself changes the output, so the module is not told to."""
    module = FakeModule(tmp_path, [Edge(level=int(edge == "rising"))] * EVENTS)
    words = ("--context", "user", "--edge", edge, "--samples", str(EVENTS))
    code, stream, said = run(core_with(module), *ANSWER, *words)
    assert (code, said) == (0, "")
    assert module.driven == [1, 0] * (EVENTS // 2)
    assert module.setup is not None
    assert module.setup.flags & (RISING | FALLING) == (RISING if edge == "rising" else FALLING)
    # the level is always the same there, which repeats nothing
    assert table_of(stream, "events") == [events(EVENTS, EVENTS)]
    assert {one.labels["edge"] for one in stream.series} == {edge}


@pytest.mark.parametrize("context", ["user", "kernel", "irq"])
def test_lost_and_repeated_edges_are_counted(tmp_path: Path, context: str) -> None:
    edges = [Edge(1), Edge(1), Edge(0, lost=3), Edge(1), Edge(1, lost=2)]
    module = FakeModule(tmp_path, edges)
    words = ("--context", context, "--samples", str(len(edges)))
    code, stream, _ = run(core_with(module), *ANSWER, *words)
    assert code == 0
    assert table_of(stream, "events") == [events(5, 5, lost=5, repeated=2)]
    assert {(one.count, one.lost) for one in stream.trailer.series} == {(10, 5)}
    if context == "user":
        assert module.driven == [1, 1, 0, 1, 1]


def test_delayed_answer_sleeps_on_the_core(tmp_path: Path) -> None:
    module = FakeModule(tmp_path, levels())
    core = core_with(module)
    words = ("--context", "user", "--samples", str(EVENTS), "--delay", "5ms", "--delay-every", "4")
    code, stream, _ = run(core, *ANSWER, *words)
    assert code == 0
    assert core.calls.count(SLEEPS) == EVENTS // 4
    answer = values_named(stream, "answer")
    assert min(answer[place] for place in range(3, EVENTS, 4)) >= 5_000_000
    assert results(stream) == {RULE: "pass"}
    assert {one.labels["delayed"] for one in stream.series} == {"5ms, 1 of 4"}
    # the task delays its answers by itself
    assert module.setup is not None
    assert (module.setup.delay_ns, module.setup.delay_every) == (0, 0)


@pytest.mark.parametrize(("context", "sleeps"), [("irq", 0), ("kernel", SLEEP)])
def test_module_delays_its_own_answers(tmp_path: Path, context: str, sleeps: int) -> None:
    module = FakeModule(tmp_path, levels())
    words = ("--samples", str(EVENTS), "--delay", "5ms", "--delay-every", "4")
    code, stream, _ = run(core_with(module), *ANSWER, "--context", context, *words)
    assert code == 0
    assert module.setup is not None
    assert (module.setup.delay_ns, module.setup.delay_every) == (5_000_000, 4)
    assert module.setup.flags & SLEEP == sleeps
    assert {one.labels["delayed"] for one in stream.series} == {"5ms, 1 of 4"}


def test_task_that_leaves_the_core_fails(tmp_path: Path) -> None:
    edges = levels()
    edges[7] = Edge(edges[7].level, reason=REASON_SYSCALL)
    words = ("--context", "user", "--samples", str(EVENTS))
    code, stream, _ = run(core_with(FakeModule(tmp_path, edges)), *ANSWER, *words)
    assert code == 3
    assert results(stream) == {RULE: "fail"}
    row = table_of(stream, "modes")[0]
    assert (row["switches"], row["syscall"]) == (1, 1)
    assert table_of(stream, "events") == [events(EVENTS, EVENTS)]


@pytest.mark.slow
@pytest.mark.parametrize("context", CONTEXTS)
def test_end_in_time_is_not_a_switch(tmp_path: Path, context: str) -> None:
    """Nothing comes any more, and the waiting task is woken."""
    module = FakeModule(tmp_path, levels(3))
    code, stream, said = run(core_with(module), *ANSWER, "--context", context, "--for", "1s")
    assert (code, said) == (0, "")
    assert table_of(stream, "events") == [events(3, 3)]
    assert results(stream) == {RULE: "pass"}


@pytest.mark.parametrize("context", CONTEXTS)
def test_stopped_step_is_complete(tmp_path: Path, context: str) -> None:
    module = FakeModule(tmp_path, levels(3))
    core = core_with(module)
    output = tmp_path / "out"
    process, thread = core.start(
        [find_agent(), "run", *ANSWER, "--context", context, "--output", output]
    )
    until(lambda: module.answered >= 3)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    thread.join(30)
    assert process.returncode == 0
    stream = read(output)
    assert stream.trailer.state == "complete"
    assert results(stream) == {RULE: "pass"}
    assert core.gravity_now == "0i 2000k 2000u"


@pytest.mark.parametrize("context", CONTEXTS)
def test_storm_fails_the_step(tmp_path: Path, context: str) -> None:
    module = FakeModule(tmp_path, levels(3), ends=errno.EIO, failure=STORM)
    code, stream, said = run(core_with(module), *ANSWER, "--context", context)
    assert code == 1
    assert stream.trailer.state == "failed"
    assert "the line's edges did not stop, so its interrupt was switched off" in said
    assert "check what drives the line" in said
    assert table_of(stream, "events") == [events(3, 3)]


@pytest.mark.parametrize(
    ("given", "code", "said", "remedy"),
    [
        ({"refusal": errno.EOPNOTSUPP}, 77, "its driver is not known to be safe on the core",
         "--core linux"),
        ({"refusal": errno.EBUSY}, 77, "a line is in use", "choose another line"),
        ({"refusal": errno.ENODEV}, 77, "there is no such source, chip or line", "--core linux"),
        ({"refusal": errno.ENXIO}, 77, "it is not online", "--core linux"),
        ({"refusal": errno.EINVAL}, 1, "refuses the set-up", "report this bug"),
        ({"attach": errno.EBUSY}, 1, "cannot use /dev/rtdm/rtgauge: Device or resource busy",
         "run as root"),
        ({"version": 2}, 77, "has version 2 of its interface, not 1", "rtgauge module load"),
        ({"has_core": False}, 77, "was built without this core", "--core linux"),
        ({"drive": errno.ENODATA}, 1, "the line failed while it was driven: No data available",
         "check the state of the line"),
        ({"ends": errno.ENODATA}, 1, "the line failed while it was waited on: No data available",
         "check the state of the line"),
    ],
)  # fmt: skip
def test_refusal_has_its_remedy(
    tmp_path: Path, given: dict[str, int], code: int, said: str, remedy: str
) -> None:
    module = FakeModule(tmp_path, levels(2), **given)  # type: ignore[arg-type]
    core = core_with(module)
    found, _, text = run(core, *ANSWER, "--context", "user", "--for", "5s")
    assert found == code, text
    first, second = text.splitlines()
    assert said in first
    assert remedy in second
    assert not core.gravity_now.startswith("0i 0k"), "the gravity is back"


@pytest.mark.parametrize("context", CONTEXTS)
def test_core_is_automatic(tmp_path: Path, context: str) -> None:
    module = FakeModule(tmp_path, levels(2))
    words = ("response", "--cpu", CPU, "--line", LINE, "--context", context, "--samples", "2")
    code, stream, _ = run(core_with(module), *words)
    assert (code, stream.header.core) == (0, "cobalt")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--context", "softirq"), "this context exists only on Linux"),
        (("--line", f"loopback:{CHIP}:2:1"), "only on an output and an input of a GPIO chip"),
    ],
)
def test_what_exists_only_on_linux(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    module = FakeModule(tmp_path, levels(2))
    core = core_with(module)
    code, _, said = run(core, *ANSWER, *words)
    assert code == 77
    assert why in said
    assert module.asked == []


def test_killed_agent_gives_gravity_back(tmp_path: Path) -> None:
    module = FakeModule(tmp_path, levels(3))
    core = core_with(module)
    process, thread = core.start(
        [find_agent(), "run", *ANSWER, "--context", "user", "--output", tmp_path / "out"]
    )
    until(lambda: module.answered >= 3)
    assert core.gravity_now == "0i 0k 0u"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    thread.join(30)  # the guardian has ended
    assert not thread.is_alive()
    assert core.gravity_now == "0i 2000k 2000u"
