# SPDX-License-Identifier: Apache-2.0
"""`rtgauge explain` on emulated boards: a disturbance put in on purpose is blamed, by class and
thread, where it shows, and nowhere else. The parts add up to the sample."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Run

pytestmark = pytest.mark.slow

DISTURBER = "rtgauge_disturb"
LOCKED = ("interrupts-off", ("irq", "kernel", "user"))
# Kind -> class and contexts in which it shows, on stock kernels and on PREEMPT_RT.
STOCK = {
    "spin_lock": ("preemption-off", ("kernel", "user")),
    "spin_lock_bh": ("preemption-off", ("kernel", "user")),
    "tasklet": ("softirq", ("kernel", "user")),
    "kthread": ("preemption-off", ("kernel", "user")),
    "preempt_disable": ("preemption-off", ("kernel", "user")),
    "local_irq_save": LOCKED,
    "raw_spin_lock_irqsave": LOCKED,
}
NOWHERE: tuple[str, tuple[str, ...]] = ("", ())
REALTIME = {
    kind: found
    if kind in ("preempt_disable", "local_irq_save", "raw_spin_lock_irqsave")
    else NOWHERE
    for kind, found in STOCK.items()
}
BOARDS = {
    "x86_64-stock-6.12": STOCK,
    "x86_64-rt-6.12": REALTIME,
    "x86_64-stock-6.1": STOCK,
    "x86_64-rt-6.1": REALTIME,
    "arm64-rt-6.1": REALTIME,
}
# The part of the period beyond whole intervals is the golden ratio: the phases are spread evenly,
# whenever the step begins.
PERIOD = "3.618ms"
STEP = """
[[step]]
measurement = "timer"
context = "irq,kernel,user"
samples = 150
"""


def _sums(cause: dict[str, Any]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for one in cause["segments"]:
        sums[one["kind"]] = sums.get(one["kind"], 0) + one["length_ns"]
    return sums


def _explained(
    rtgauge: Run, tmp_path: Path, plan: str, target: str, worst: int, *words: str
) -> tuple[Any, Any]:
    """The results of a plan on a board, and the causes of its longest samples."""
    path, store = tmp_path / "plan.toml", ("--store", str(tmp_path / "store"))
    path.write_text(plan)
    run = rtgauge("run", str(path), "--target", target, *words, "--json", *store)
    assert run.code == 0, run.err
    done = rtgauge("explain", "last", "--worst", str(worst), "--json", *store)
    assert done.code == 0, done.err
    return run.json(), done.json()


def _interrupted_before(cause: dict[str, Any], main: dict[str, Any]) -> bool:
    """Whether the event's interrupt came just before the section of the disturbance. Then the
    thread was runnable already, and waits because this kernel does not preempt the section's task.
    """
    return any(
        one["kind"] == "interrupt" and one["begin_ns"] < main["begin_ns"]
        for one in cause["segments"]
    )


@pytest.mark.study(
    125,
    lacks="the board, and a lock that another CPU holds: a replay has one CPU, and a trace the "
    "events of one CPU",
)
@pytest.mark.parametrize("board", BOARDS)
def test_each_disturbance_is_blamed_where_it_shows(
    rtgauge: Run, tmp_path: Path, board: str
) -> None:
    kinds = BOARDS[board]
    plan = STEP + "".join(f'{STEP}disturb = "{kind}:200us:{PERIOD}"\n' for kind in kinds)
    run, document = _explained(rtgauge, tmp_path, plan, f"lab:{board}", 1)
    assert document["replay"]["samples"] >= 8 * 3 * 150
    assert len(document["causes"]) == 8 * 3
    for cause in document["causes"]:
        total = sum(one["length_ns"] for one in cause["segments"])
        assert total + cause["rest_ns"] == cause["latency_ns"]
        assert cause["rest_ns"] <= cause["latency_ns"] / 100
        kind, contexts = [NOWHERE, *kinds.values()][cause["step"]]
        if cause["context"] not in contexts:
            assert DISTURBER not in cause["blame"], cause
            assert cause["latency_ns"] < 30_000
            continue
        sums = _sums(cause)
        main = max(cause["segments"], key=lambda one: one["length_ns"])
        if kind == LOCKED[0] and kinds is STOCK and _interrupted_before(cause, main):
            kind = "preemption-off"
        assert max(sums, key=lambda one: sums[one]) == kind, cause
        assert sums[kind] > 0.9 * cause["latency_ns"] > 90_000
        if kind != "softirq":  # a tasklet has no thread of its own
            assert main["task"]["name"] == DISTURBER
        assert "injection" in cause["remedies"][0]["text"]
    # the results contain the causes, and the run is as it was
    store = str(tmp_path / "store")
    (shown,) = rtgauge("show", "last", "--json", "--store", store).json()["runs"]
    assert shown["causes"] == document["causes"]
    again = run["runs"][0]
    assert shown["series"] == again["series"]


# What the model was not developed on: other lengths and periods, a task above the measured one, two
# disturbances at once, an interrupt storm, and locks: one whose owner the measured task preempted,
# and one that the thread waits for that is going to wake it.
# The image decides when a step begins, so the periods are such that the samples meet each task at
# phases of at most 33 us apart. With 2.7 ms instead of 2.617 ms they met only 27 phases, 100 us
# apart, and with one image in six no sample met the task for long.
OTHERS = """
[[step]]
measurement = "timer"
context = "kernel,user"
samples = 200
interval = "437us"
disturb = "preempt_disable:90us:1.1ms"

[[step]]
measurement = "timer"
samples = 150
load-cmd = "exec /tasks fifo 120 2617"

[[step]]
measurement = "timer"
samples = 200
disturb = "preempt_disable:150us:2.301ms"
load-cmd = "exec /tasks fifo 120 2617"

[[step]]
measurement = "timer"
context = "irq,kernel,user"
samples = 150
interval = "437us"
load-cmd = "exec /tasks storm 60 1700"

[[step]]
measurement = "timer"
samples = 200
method = "timer"
load-cmd = "exec /tasks stat agent"
"""


@pytest.mark.parametrize("board", ["x86_64-rt-6.1", "x86_64-stock-6.12"])
def test_what_the_model_was_not_developed_on_is_explained(
    rtgauge: Run, tmp_path: Path, with_tasks: Callable[[str], str], board: str
) -> None:
    # a kernel without PREEMPT_RT has no such locks: all processes, for long sections
    plan = OTHERS if "-rt-" in board else OTHERS.replace("stat agent", "stat")
    allowed = ("--load-cmd-root", "--allow-load-cmd")
    _, document = _explained(rtgauge, tmp_path, plan, with_tasks(board), 40, *allowed)
    causes = document["causes"]
    for cause in causes:
        total = sum(one["length_ns"] for one in cause["segments"])
        assert total + cause["rest_ns"] == cause["latency_ns"]
        assert cause["rest_ns"] <= cause["latency_ns"] / 100

    def worst(step: int, context: str = "user") -> dict[str, Any]:
        return next(one for one in causes if (one["step"], one["context"]) == (step, context))

    for context in ("kernel", "user"):
        cause = worst(0, context)
        assert _sums(cause)["preemption-off"] > 0.85 * cause["latency_ns"] > 60_000
        assert _main(cause)["task"]["name"] == DISTURBER
    cause = worst(1)
    assert _sums(cause)["higher-priority"] > 0.85 * cause["latency_ns"] > 40_000
    task = _main(cause)["task"]
    assert (task["name"], task["policy"], task["priority"]) == ("test-fifo", "fifo", 99)
    # no priority of the measured task is above that one
    assert not any("priority=" in one["command"] for one in cause["remedies"])
    # each sample names the one of the two that it met, or both
    seen = set()
    for cause in (one for one in causes if one["step"] == 2 and one["latency_ns"] > 60_000):
        sums = _sums(cause)
        both = {"preemption-off": DISTURBER, "higher-priority": "test-fifo"}
        assert sum(sums.get(kind, 0) for kind in both) > 0.85 * cause["latency_ns"]
        blamed = max(both, key=lambda kind: sums.get(kind, 0))
        for one in cause["segments"]:
            if one["kind"] in both and one["length_ns"] > 10_000:
                assert one["task"]["name"] == both[one["kind"]]
        assert both[blamed] in cause["blame"], cause
        seen.add(blamed)
    assert seen == {"preemption-off", "higher-priority"}
    for context in ("irq", "kernel", "user"):
        cause = worst(3, context)
        assert _sums(cause)["interrupt"] > 0.85 * cause["latency_ns"] > 20_000
        assert "an interrupt handler ran" in cause["blame"]
    if "rt" not in board:
        assert _main(worst(4))["task"]["name"] == "test-stat"
        assert _main(worst(4))["kind"] == "preemption-off"
        return
    locks = [one for one in worst(4)["segments"] if one["kind"] == "lock" and one["owner"]]
    assert {one["owner"]["name"] for one in locks} == {"test-stat", "ktimers/0"}
    # the thread for timers waits for the first one before it wakes the measured task
    before = [one for one in locks if one["owner"]["name"] == "test-stat"]
    assert {one["function"] for one in before} == {"send_sigqueue"}
    assert sum(one["length_ns"] for one in before) > 4_000
    returns = [one["begin_ns"] for one in worst(4)["segments"] if one["kind"] == "return"]
    assert max(one["begin_ns"] for one in before) < min(returns)


def _main(cause: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = max(cause["segments"], key=lambda one: one["length_ns"])
    return found


def test_a_lock_of_the_kernel_is_blamed_with_its_owner_and_remedy(
    rtgauge: Run, tmp_path: Path
) -> None:
    """The random offset of the kernel's stack takes a lock in each system call, and on PREEMPT_RT
    a load that was preempted there holds it. Without the offset the worst latency is half of it: in
    22 boots it was 18.8 to 20.4 µs, and 7.0 to 7.4 µs without."""
    store = ("--store", str(tmp_path / "store"))
    words = ("timer", "--context", "user", "--samples", "600", "--load", "sched")
    run = rtgauge("run", *words, "--target", "lab:arm64-rt-6.1", "--json", *store)
    assert run.code == 0, run.err
    file = tmp_path / "worst.trace.json"
    done = rtgauge("explain", "last", "--worst", "1", "-o", str(file), "--json", *store)
    assert done.code == 0, done.err
    (cause,) = done.json()["causes"]
    assert "lock in get_random_u16" in cause["blame"]
    locks = [one for one in cause["segments"] if one["kind"] == "lock"]
    for one in locks:
        assert "invoke_syscall" in one["stack"]
        if one["function"] != "get_random_u16":  # it called this, where its numbers were used up
            assert one["function"] == "crng_make_state"
            assert "get_random_u16" in one["stack"]
    held = [one for one in locks if one["owner"] and one["function"] == "get_random_u16"]
    assert {one["owner"]["name"] for one in held} == {"load/sched"}
    assert sum(one["length_ns"] for one in held) > cause["latency_ns"] / 4
    sums = _sums(cause)
    assert max(sums, key=lambda one: sums[one]) == "lock"
    (remedy, *_) = cause["remedies"]
    argument = remedy["command"].partition(" --try ")[2]
    assert argument == "randomize_kstack_offset=off"
    better = rtgauge("run", *words, "--target", f"lab:arm64-rt-6.1,{argument}", "--json", *store)
    assert better.code == 0, better.err
    (worst,) = (
        one["max"] for one in better.json()["runs"][0]["series"] if one["name"] == "latency"
    )
    assert worst <= cause["latency_ns"] / 2
    events = json.loads(file.read_text())["traceEvents"]
    assert sum(one["ph"] == "X" for one in events) == len(cause["segments"])


RESPONSE = """
[[step]]
measurement = "response"
line = "loopback:9030000.pl061:0:1"
samples = 25
load = "sched:groups=1"

[[step]]
measurement = "response"
line = "loopback:9030000.pl061:0:1"
context = "irq"
samples = 25
load = "sched:groups=1"
"""


@pytest.mark.parametrize("board", ["arm64-rt-6.1", "arm64-stock-6.12"])
def test_a_response_is_explained_from_the_edge_to_the_stamp(
    rtgauge: Run, tmp_path: Path, board: str
) -> None:
    """Over lines of the board's own GPIO chip, of which one is wired to the other."""
    _, document = _explained(rtgauge, tmp_path, RESPONSE, f"lab:{board},lines=0:1", 3)
    causes = document["causes"]
    contexts = {one["context"] for one in causes}
    assert contexts == {"user", "irq"}
    for cause in causes:
        total = sum(one["length_ns"] for one in cause["segments"])
        assert total == cause["latency_ns"], cause
        assert cause["rest_ns"] == 0
        kinds = [one["kind"] for one in cause["segments"]]
        assert "interrupt" in kinds, cause
        if cause["context"] == "irq":  # the stamp is in the handler
            assert kinds[-1] == "interrupt", cause
            assert set(kinds) <= {"interrupt", "interrupts-off", "operation"}
        else:  # the task drives the line, and is woken by the edge
            assert kinds[0] == "operation", cause
            assert kinds[-1] == "return", cause
            assert kinds.count("switch") >= 1


# Measurements whose samples begin with an event, and those of test loops.
EVENTS = """
[[step]]
measurement = "irq-latency"
samples = 100
load = "sched:groups=1"

[[step]]
measurement = "irq-to-thread"
samples = 100
load = "sched:groups=1"

[[step]]
measurement = "irq-to-thread"
context = "kernel"
samples = 100
load = "sched:groups=1"

[[step]]
measurement = "irq-dispatch"
samples = 100
"""
LOOPS = """
[[step]]
measurement = "thread-switch"
threads = "10"
samples = 200

[[step]]
measurement = "sem-contended"
samples = 10

[[step]]
measurement = "mutex-contended"
samples = 20
"""


# The lab's boards for arm64 have no device that raises interrupts at a given time.
@pytest.mark.parametrize(
    ("board", "steps"),
    [("x86_64-rt-6.12", EVENTS), ("x86_64-rt-6.12", LOOPS), ("arm64-stock-6.12", LOOPS)],
    ids=["events", "loops", "loops-arm64"],
)
def test_samples_that_do_not_begin_when_they_are_due(
    rtgauge: Run, tmp_path: Path, board: str, steps: str
) -> None:
    """Their readings of the clock are found, so nothing is left over."""
    _, document = _explained(rtgauge, tmp_path, steps, f"lab:{board}", 3)
    causes = document["causes"]
    asked = range(steps.count("[[step]]"))
    assert {one["step"] for one in causes} >= set(asked)
    for cause in causes:
        total = sum(one["length_ns"] for one in cause["segments"])
        assert total == cause["latency_ns"], cause
        assert cause["rest_ns"] == 0
        kinds = [one["kind"] for one in cause["segments"]]
        first, last = kinds[0], kinds[-1]
        if steps == LOOPS:
            if last == "interrupt":  # while the clock is read, whose cost is left out at the end
                last = kinds[-2]
            assert first in ("operation", "switch"), cause
            assert last in ("return", "operation"), cause
        else:
            assert first in ("interrupt", "interrupts-off"), cause
