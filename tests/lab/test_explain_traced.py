# SPDX-License-Identifier: Apache-2.0
"""``run --explain`` on emulated boards in counted mode, by tracefs and by the kernel module: each
disturbance is found in the trace, with its length and its thread, and without one nothing is
blamed."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from lab_boots import NEEDS_X86
from rtgauge.causes import Cause
from rtgauge.causes.blame import main_segment, ordinary, untraced_ns
from rtgauge.causes.tracefs import kept_of
from rtgauge.store.samples import StoredStep
from rtgauge.target.lab import LabTarget

pytestmark = NEEDS_X86
HOME = Path(os.environ["HOME"])  # before the tests have one of their own
INSTANCES = "/sys/kernel/tracing/instances"
DISTURBER = "rtgauge_disturb"
THREADS = ("kernel", "user")
EVERYWHERE = ("irq", *THREADS)
#: Kind of a disturbance -> class of its segment, and the contexts that it reaches.
ANY: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "preempt_disable": ("preemption-off", THREADS),
    "local_irq_save": ("interrupts-off", EVERYWHERE),
    "raw_spin_lock_irqsave": ("interrupts-off", EVERYWHERE),
}
ORDINARY: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "spin_lock": ("preemption-off", THREADS),
    "spin_lock_bh": ("preemption-off", THREADS),
    "kthread": ("preemption-off", THREADS),
    "tasklet": ("softirq", THREADS),
}


@pytest.fixture(
    scope="module",
    params=[
        "x86_64-stock-6.12",
        "x86_64-stock-6.1",
        "x86_64-rt-6.12",
        "x86_64-rt-6.1",
        "arm64-rt-6.1",
    ],
)
def board(request: pytest.FixtureRequest) -> Iterator[LabTarget]:
    """One start for all tests of a board; kernels are fetched once."""
    if not shutil.which("qemu-system-aarch64") and request.param.startswith("arm64"):
        pytest.skip("there is no qemu-system-aarch64: install Debian's package qemu-system-arm")
    with pytest.MonkeyPatch.context() as patch:
        if "XDG_CACHE_HOME" not in os.environ:
            patch.setenv("XDG_CACHE_HOME", str(HOME / ".cache"))
        target = LabTarget(request.param)
        yield target
        target.close()


DEVICE = "/dev/rtgauge_trace"


@pytest.fixture(params=["module", "tracefs"])
def way(request: pytest.FixtureRequest, board: LabTarget) -> Iterator[str]:
    """By which of the two the agent traces: it takes the module if there is one."""
    if request.param == "tracefs":
        assert board.execute(["/bin/busybox", "mv", DEVICE, "/hidden"]).code == 0
    yield request.param
    if request.param == "tracefs":
        assert board.execute(["/bin/busybox", "mv", "/hidden", DEVICE]).code == 0


def explained(
    board: LabTarget, folder: Path, *words: str
) -> tuple[StoredStep, dict[str, Cause], dict[str, float]]:
    """The step, the cause of the largest sample of each context, and the medians."""
    common = ["--context", "irq,kernel,user", "--interval", "1ms", "--explain", "--output", "-"]
    agent = board.start(["run", "timer", *common, *words])
    content = b""
    while (piece := agent.read(1.0)) != b"":
        content += piece or b""
    assert agent.wait(5.0) == 0
    agent.close()
    place = folder / "steps" / "000"
    place.mkdir(parents=True)
    (place / "stream.cbor").write_bytes(content)
    step = StoredStep(folder, 0, {})
    medians = {
        one.info.series: float(np.median(np.concatenate([c.value for c in one.chunks()])))
        for one in step.series
    }
    kept = kept_of(step)
    assert kept.lost == []
    assert kept.added_ns is not None
    assert 1000 < kept.added_ns < 10_000
    largest: dict[str, Cause] = {}
    for cause in kept.causes(step, medians):
        assert sum(one.length_ns for one in cause.segments) + cause.rest_ns == cause.latency_ns
        if cause.context not in largest or cause.latency_ns > largest[cause.context].latency_ns:
            largest[cause.context] = cause
    assert set(largest) == set(EVERYWHERE)
    names = {one.info.series: one.info.context for one in step.series}
    return step, largest, {names[series]: median for series, median in medians.items()}


@pytest.mark.parametrize("kind", [*ANY, *ORDINARY])
def test_a_disturbance_is_found(board: LabTarget, tmp_path: Path, kind: str, way: str) -> None:
    step, causes, medians = explained(
        board, tmp_path, "--samples", "400",
        "--disturb", f"{kind}:200us:7.301ms", "--disturb-module", board.disturb_module,
    )  # fmt: skip
    found, contexts = {**ANY, **ORDINARY}[kind]
    if "rt" in board.name and kind in ORDINARY:
        contexts = ()
    for context, cause in causes.items():
        if context not in contexts:
            assert DISTURBER not in cause.blame
            assert "TASKLET" not in cause.blame
            continue
        excess = cause.latency_ns - medians[context]
        assert excess > 100_000
        named = [
            one
            for one in cause.segments
            if one.kind == found
            and one.task is not None
            and (kind == "tasklet" or one.task.name == DISTURBER)
        ]
        assert sum(one.length_ns for one in named) >= 0.9 * excess
        if kind == "tasklet":
            assert "TASKLET" in cause.blame
        else:
            assert DISTURBER in cause.blame
            longest = max(named, key=lambda one: one.length_ns)
            stack = longest.stack
            assert not stack or way == "module"
            if way == "module" and not stack:
                # none is saved shortly after another one, as of what the disturber stopped, or of
                # the disturber itself, if a second interrupt follows
                assert step.header is not None
                begin = step.header.start_ns + cause.due_ns + longest.begin_ns
                runs = [run for runs in kept_of(step)._runs.values() for run in runs]
                saved = [
                    each.time_ns for run in runs for each in run.events if each.fields.get("stack")
                ]
                assert any(0 < begin - one < 100_000 for one in saved)
            if stack:
                place = stack.index("disturb_thread [rtgauge_disturb]")
                assert stack[place + 1 :][:2] == ("kthread", "ret_from_fork")
                assert stack[0] == named[0].function
                # the sample of a handler ends before its own stack
                assert context == "irq" or "stacks took" in cause.cost.text
    if way == "module" and contexts and kind != "tasklet":
        parts = [one for cause in kept_of(step).causes(step, {}) for one in cause.segments]
        assert any(one.stack for one in parts if one.kind == found)


def test_nothing_is_blamed_without_a_disturbance(
    board: LabTarget, tmp_path: Path, way: str
) -> None:
    step, causes, medians = explained(board, tmp_path, "--samples", "400")
    kept = kept_of(step)
    threads = {
        one.thread
        for one in kept.samples
        for series in step.series
        if (series.info.series, series.info.context) == (one.series, "kernel")
    }
    # a thread that waits for work (TASK_IDLE) does not wait for a lock
    states = {
        event.fields["prev_state"]
        for runs in kept._runs.values()
        for run in runs
        for event in run.events
        if event.fields.get("prev_pid") in threads
    }
    assert 0x80 in states
    assert states <= {0, 0x80, 0x100}
    for context, cause in causes.items():
        assert cause.source == way
        segments, latency_ns = cause.segments, cause.latency_ns
        assert all(one.task is None or one.task.name != DISTURBER for one in segments)
        assert DISTURBER not in cause.blame
        # these kernels do not preempt their own code, such as the agent's read of the trace
        reads = [
            one
            for one in segments
            if "-stock-" in board.name
            and one.kind in ("interrupts-off", "preemption-off")
            and one.task is not None
            and one.task.name == "agent"
        ]
        main = main_segment(segments)
        assert main is not None
        if ordinary(untraced_ns(segments, latency_ns), medians[context]):
            assert cause.blame.startswith("nothing:")
        else:  # the kernel's tick came at the same time
            # or else the trace's own work: a read, or a stack while the agent left or read it
            handler = main.kind in ("interrupt", "interrupts-off", "softirq")
            traced = any(one.kind == "trace" for one in segments)
            agent = main.task is not None and main.task.name == "agent"
            assert handler or main in reads or (traced and agent), cause
        # a stack that the trace saved is not part of the disturbance: the report names its time
        stacks = re.search(r"stacks took ([\d.]+)\sµs of this sample", cause.cost.text)
        saved_ns = latency_ns - untraced_ns(segments, latency_ns)
        assert saved_ns == pytest.approx(1000 * float(stacks[1]) if stacks else 0, abs=10)
        # each further handler is named, such as that of a timer that expires on the way
        handlers = [
            one for one in segments if one.kind == "interrupt" and one.certainty == "measured"
        ]
        named_ns = sum(one.length_ns for one in (*reads, *handlers[1:]))
        assert latency_ns - saved_ns - named_ns < medians[context] + 10_000, cause
        first, last = segments[0], segments[-1]
        if cause.rest_ns and first.begin_ns == 0:
            # the agent was reading the trace: the next read has the end of the sample
            assert reads, cause
            assert cause.unseen.startswith("The trace was read during the sample.")
            assert last.begin_ns + last.length_ns == latency_ns - cause.rest_ns
            assert cause.rest_ns < medians[context]
            continue
        # the agent may have read the trace when the sample began: then its first part is missing
        assert cause.rest_ns == 0 or (cause.unseen and cause.rest_ns < latency_ns / 10)
        assert first.begin_ns == cause.rest_ns
        assert last.begin_ns + last.length_ns == latency_ns


@pytest.mark.usefixtures("way")
def test_samples_above_a_time_are_found(board: LabTarget, tmp_path: Path) -> None:
    """The last of them, not only those that were a maximum. Each other one is counted."""
    step, _, _ = explained(
        board, tmp_path, "--samples", "2000", "--explain-above", "100us",
        "--disturb", "local_irq_save:200us:7.301ms", "--disturb-module", board.disturb_module,
    )  # fmt: skip
    late = [
        (one.info.series, int(chunk.index[place]))
        for one in step.series
        if one.info.companion is None
        for chunk in one.chunks()
        for place in np.flatnonzero(chunk.value > 100_000)
    ]
    records = [one.fields for one in step.trace if one.part == "sample"]
    traced = [(one["series"], one["index"]) for one in records if int(one["value"]) > 100_000]
    kept = kept_of(step)
    assert len(late) > 30
    assert set(traced) <= set(late)
    assert len(set(traced)) == len(traced) == len(late) - kept.dropped
    last = [cause for cause in kept.causes(step, {}) if cause.latency_ns > 100_000][-5:]
    times = sorted(cause.due_ns for cause in last)
    assert times[0] > 0.8 * max(one.due_ns for one in kept.samples)
    for cause in last:
        assert cause.rest_ns == 0
        assert "rtgauge_disturb" in cause.blame


@pytest.mark.parametrize("way", ["tracefs"], indirect=True)
@pytest.mark.usefixtures("way")
def test_killed_agents_leave_no_instance(board: LabTarget) -> None:
    script = (
        f"cd {INSTANCES}; i=0; while [ $i -lt 20 ]; do i=$((i + 1));"
        " /agent run timer --for 60s --explain --output /dev/null & agent=$!;"
        " n=0; while [ ! -e rtgauge-$agent-explain ] && [ $n -lt 400 ];"
        " do n=$((n + 1)); /bin/busybox usleep 10000; done;"
        " [ -e rtgauge-$agent-explain ] && echo made;"
        " /bin/busybox usleep $((i * 17000)); kill -9 $agent; wait $agent;"
        " n=0; while [ -e rtgauge-$agent-explain ] && [ $n -lt 400 ];"
        " do n=$((n + 1)); /bin/busybox usleep 10000; done; done; /bin/busybox ls"
    )
    done = board.execute(["/bin/busybox", "sh", "-c", script])
    assert done.stdout.decode().split() == ["made"] * 20


def test_killed_agents_leave_no_probe(board: LabTarget, tmp_path: Path) -> None:
    """The device takes one file, and an open one keeps the module in the kernel."""
    script = (
        "log=$(/bin/busybox dmesg | /bin/busybox grep -v 'Fair server'); i=0;"
        " while [ $i -lt 10 ]; do i=$((i + 1));"
        " /agent run timer --for 60s --explain --output /dev/null & agent=$!;"
        " /bin/busybox usleep $((400000 + i * 17000));"
        " /bin/busybox ls -l /proc/$agent/fd |"
        f" /bin/busybox grep -q {DEVICE} && echo open;"
        " kill -9 $agent; wait $agent; done;"
        ' [ "$log" = "$(/bin/busybox dmesg | /bin/busybox grep -v \'Fair server\')" ]'
        " && echo silent;"
        " /bin/busybox rmmod rtgauge && echo removed; /bin/busybox insmod /modules/rtgauge.ko;"
        f" [ -c {DEVICE} ] && echo back"
    )
    done = board.execute(["/bin/busybox", "sh", "-c", script])
    assert done.stdout.decode().split() == ["open"] * 10 + ["silent", "removed", "back"]
    test_nothing_is_blamed_without_a_disturbance(board, tmp_path, "module")


def test_a_lock_before_the_wake_up_has_its_owner(
    with_tasks: Callable[[str], str], tmp_path: Path
) -> None:
    """As the replay says of the same case: the thread for timers waits for it."""
    board = LabTarget(with_tasks("x86_64-rt-6.1").removeprefix("lab:"))
    words = "run timer --method timer --samples 400 --interval 1ms --explain --output -"
    script = f"/tasks stat agent & /agent {words} 2>/dev/null; kill $!"
    try:
        for way in ("module", "tracefs"):
            if way == "tracefs":
                assert board.execute(["/bin/busybox", "mv", DEVICE, "/hidden"]).code == 0
            done = board.execute(["/bin/busybox", "sh", "-c", script])
            place = tmp_path / way / "steps" / "000"
            place.mkdir(parents=True)
            (place / "stream.cbor").write_bytes(done.stdout)
            step = StoredStep(tmp_path / way, 0, {})
            cause = max(kept_of(step).causes(step, {}), key=lambda one: one.latency_ns)
            assert cause.source == way
            assert cause.rest_ns == 0
            locks = [one for one in cause.segments if one.kind == "lock"]
            owners = [one.owner.name for one in locks if one.owner is not None]
            assert len(owners) == len(locks)
            assert owners[0] == "test-stat"
            assert sum(one.length_ns for one in locks if one.owner == locks[0].owner) > 4_000
            returns = [one.begin_ns for one in cause.segments if one.kind == "return"]
            assert locks[0].begin_ns < returns[0]
    finally:
        board.close()
