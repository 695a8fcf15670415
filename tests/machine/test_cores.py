# SPDX-License-Identifier: Apache-2.0
"""Tasks of the Cobalt core on a machine without one: the fake core of tests/support/fake_core.py
answers the calls of the unchanged agent, as a real kernel answered them."""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from agents import (
    NOT_LOADED,
    Stream,
    assert_accounted,
    messages_of,
    read,
    rows_of,
    table_of,
    verdicts,
)
from drivers import compiled
from fake_core import (
    REASON_FAULT,
    REASON_INVERSION,
    REASON_SIGNAL,
    REASON_SYSCALL,
    FakeCore,
)
from rtgauge.stream import Event, Samples, Setting, Table
from rtgauge.target.local import find_agent
from waiting import until

ROOT: Final = Path(__file__).resolve().parents[2]
RECORDED: Final = ROOT / "tests" / "data" / "cobalt_calls.tsv"
CPU: Final = str(min(os.sched_getaffinity(0)))
GRAVITY: Final = "/proc/xenomai/clock/coreclk"
KNOWN: Final = (2, 20) if platform.machine() == "aarch64" else (18, 19)
TIMER: Final = ("timer", "--cpu", CPU, "--interval", "5ms", "--samples", "20", "--dither", "no")
RULE: Final = "stays out-of-band"


def run(core: FakeCore, tmp_path: Path, *words: str) -> tuple[int, Stream, str]:
    output = tmp_path / "stream.cbor"
    done = core.run([find_agent(), "run", *words, "--output", output])
    return done.returncode, read(output), done.stderr.decode()


def on_core(tmp_path: Path, *words: str, **more: Any) -> tuple[int, Stream, str, FakeCore]:
    """A step of the agent on a core of the latest revision, which ``more`` describes."""
    core = FakeCore(tmp_path / "core", **{"revision": KNOWN[-1], **more})
    return *run(core, tmp_path, *words, "--core", "cobalt"), core


def test_fake_core_equals_kernel(tmp_path: Path) -> None:
    """Each call has the result of a real kernel, and writes as many bytes."""
    source = str(ROOT / "tests" / "support" / "cobalt_calls.c")
    program = compiled(tmp_path / "calls", "-O2", "-D_GNU_SOURCE", source)
    recorded = [line for line in RECORDED.read_text().splitlines() if not line.startswith("#")]
    assert len(recorded) == 28
    said = FakeCore(tmp_path / "core", revision=19).run([program]).stdout.decode()
    assert said.splitlines() == recorded


@pytest.mark.parametrize("revision", KNOWN)
@pytest.mark.parametrize("method", ["clock_nanosleep", "nanosleep", "timer", "timerfd"])
def test_timer_on_core(tmp_path: Path, revision: int, method: str) -> None:
    code, stream, said, core = on_core(tmp_path, *TIMER, "--method", method, revision=revision)
    assert (code, said) == (0, "")
    assert (stream.header.core, stream.header.core_revision) == ("cobalt", revision)
    assert stream.samples[0] == 20
    if method != "nanosleep":
        assert_accounted(stream, 20 + stream.missed[0])
    assert verdicts(stream)[RULE].result == "pass"
    assert table_of(stream, "modes") == [
        dict.fromkeys(
            ("thread", "switches", "faults", "signal", "syscall", "fault", "inversion"), 0
        )
    ]
    # the time of the wake-up is not that of the call: 64-bit times are a call of their own
    assert (116 in core.calls) == (method == "timer" and revision >= 19)
    assert (118 in core.calls) == (method == "timerfd" and revision >= 19)
    known = {0, 1, 3, 8, 9, 25, 52, 53, 54, 57, 58, 61, 77, 79, 80, 81, 85, 92, 116, 118}
    assert set(core.calls) <= known


@pytest.mark.parametrize("periods", [0, 1, 3])
def test_timer_that_is_set_after_its_due_time(tmp_path: Path, periods: int) -> None:
    """The core does not start such a timer: the first wake-up is late, and nothing else is lost."""
    late_ns = periods * 5_000_000 + 1_000_000
    code, stream, said, _ = on_core(tmp_path, *TIMER, "--method", "timerfd", late_ns=late_ns)
    assert (code, said) == (0, "")
    assert stream.samples[0] == 20
    assert stream.missed[0] >= periods
    assert_accounted(stream, 20 + stream.missed[0])
    first = next(one for one in stream.records if isinstance(one, Samples))
    assert first.values[0] >= late_ns


@pytest.mark.parametrize("method", ["clock_nanosleep", "timer", "timerfd"])
def test_dither_on_core(tmp_path: Path, method: str) -> None:
    code, stream, said, _ = on_core(tmp_path, *TIMER[:-1], "yes", "--method", method)
    assert (code, said) == (0, "")
    latency = next(one for one in stream.series if one.companion is None)
    assert stream.samples[latency.series] == 20
    assert verdicts(stream)[RULE].result == "pass"


def test_gravity_is_set_for_the_run(tmp_path: Path) -> None:
    code, stream, _, core = on_core(tmp_path, *TIMER, gravity="0i 1500k 2500u")
    assert code == 0
    gravity = [one for one in stream.records if isinstance(one, Setting) and one.name == GRAVITY]
    assert [(one.asked, one.before, one.effective, one.reason) for one in gravity] == [
        ("0i 0k 0u", "0i 1500k 2500u", "0i 0k 0u", "")
    ]
    assert core.gravity_now == "0i 1500k 2500u"


def test_gravity_stays_with_kept_settings(tmp_path: Path) -> None:
    code, stream, _, core = on_core(tmp_path, *TIMER, "--keep-settings")
    assert code == 0
    assert not [one for one in stream.records if isinstance(one, Setting) and one.name == GRAVITY]
    assert core.gravity_now == "gravity: irq=0 kernel=2000 user=2000"


def test_killed_agent_gives_gravity_back(tmp_path: Path) -> None:
    core = FakeCore(tmp_path / "core", revision=KNOWN[-1])
    words = ["run", *TIMER[:-4], "--for", "60s", "--core", "cobalt", "--output", f"{tmp_path}/out"]
    process, thread = core.start([find_agent(), *words])
    until(lambda: 25 in core.calls)
    assert core.gravity_now == "0i 0k 0u"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    thread.join(30)  # the guardian has ended
    assert not thread.is_alive()
    assert core.gravity_now == "0i 2000k 2000u"


@pytest.mark.parametrize("faults", [0, 1])
def test_switch_fails_test(tmp_path: Path, faults: int) -> None:
    code, stream, *_ = on_core(tmp_path, *TIMER, leave=5, faults=faults)
    assert code == 3
    failed = verdicts(stream)[RULE]
    assert failed.result == "fail"
    assert f"1 switch to Linux and {faults} page fault" in failed.evidence
    assert failed.remedy
    assert table_of(stream, "modes")[0] == {
        "thread": 0, "switches": 1, "faults": faults, "signal": 0, "syscall": 1, "fault": 0,
        "inversion": 0,
    }  # fmt: skip


@pytest.mark.parametrize("words", [TIMER, ("core-switches", "--cpu", CPU, "--for", "200ms")])
def test_core_that_does_not_count_is_inconclusive(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Without CONFIG_XENO_OPT_STATS each counter of the core is 0."""
    code, stream, said, _ = on_core(tmp_path, *words, counts=False)
    assert (code, said) == (0, "")
    found = verdicts(stream)[RULE]
    assert found.result == "inconclusive"
    assert found.evidence == "the core counts neither mode switches nor page faults"
    assert "CONFIG_XENO_OPT_STATS" in found.remedy


def test_reported_switch_fails_without_counters(tmp_path: Path) -> None:
    code, stream, *_ = on_core(tmp_path, *TIMER, counts=False, leave=5)
    assert code == 3
    assert verdicts(stream)[RULE].result == "fail"
    assert "1 switch to Linux" in verdicts(stream)[RULE].evidence


def test_calls_that_nobody_counts_are_skipped(tmp_path: Path) -> None:
    words = ("sem-uncontended", "--cpu", CPU, "--samples", "500")
    code, stream, *_ = on_core(tmp_path, *words, counts=False)
    assert code == 0
    found = verdicts(stream)["uncontended operations make no system call"]
    assert found.result == "skipped"
    assert "CONFIG_XENO_OPT_STATS" in found.remedy
    assert not [one for one in stream.records if isinstance(one, Table) and "calls" in one.name]


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        (REASON_SIGNAL, "end the program that signals the agent"),
        (REASON_SYSCALL, "a Linux system call"),
        (REASON_FAULT, "the options that move pages"),
        (REASON_INVERSION, "a mutex that a task waits for"),
    ],
)
def test_remedy_is_that_of_the_reason(tmp_path: Path, reason: int, remedy: str) -> None:
    code, stream, *_ = on_core(tmp_path, *TIMER, leave=5, reason=reason)
    assert code == 3
    assert remedy in verdicts(stream)[RULE].remedy
    assert "time under Linux" in verdicts(stream)[RULE].remedy


def test_switch_is_in_json(tmp_path: Path) -> None:
    core = FakeCore(tmp_path / "core", revision=KNOWN[-1], leave=5, reason=REASON_SYSCALL)
    done = core.run(
        [
            *(sys.executable, "-m", "rtgauge", "run", *TIMER, "--core", "cobalt", "--json"),
            *("--no-progress", "--store", tmp_path / "store"),
        ]
    )
    assert done.returncode == 3, done.stderr.decode()
    document = json.loads(done.stdout)["runs"][0]
    assert document["environment"]["core"] == {"name": "cobalt", "revision": KNOWN[-1]}
    assert [one["core"] for one in document["steps"] if one["measurement"] == "timer"] == ["cobalt"]
    tests = {one["rule"]: one for one in document["tests"]}
    assert tests[RULE]["result"] == "fail"
    table = next(one for one in document["tables"] if one["name"] == "modes")
    assert table["rows"][0][:2] == [0, 1]


def test_signal_to_measuring_thread_is_a_switch(tmp_path: Path) -> None:
    core = FakeCore(tmp_path / "core", revision=KNOWN[-1])
    output = tmp_path / "out"
    # a signal between two calls does not switch: the task is asleep nearly all the time
    words = ["run", "timer", "--cpu", CPU, "--interval", "100ms", "--samples", "20"]
    process, thread = core.start([find_agent(), *words, "--core", "cobalt", "--output", output])
    until(lambda: core.calls.count(25) >= 5)
    task = next(
        one
        for one in Path(f"/proc/{process.pid}/task").iterdir()
        if "rtgauge-measure" in (one / "comm").read_text()
    )
    os.kill(int(task.name), signal.SIGUSR1)
    _, said = process.communicate(timeout=30)
    thread.join(30)
    assert process.returncode == 3, said
    row = table_of(read(output), "modes")[0]
    assert (row["switches"], row["signal"]) == (1, 1)


@pytest.mark.parametrize(
    ("counts", "mayday", "result"),
    [(True, 0, "pass"), (False, 0, "inconclusive"), (True, 1, "pass"), (True, 2, "fail")],
)
def test_stop_is_not_a_switch(tmp_path: Path, *, counts: bool, mayday: int, result: str) -> None:
    """Nor is that of a task that runs, which the core does not report."""
    core = FakeCore(tmp_path / "core", revision=KNOWN[-1], counts=counts, mayday=mayday)
    output = tmp_path / "out"
    words = ["run", "timer", "--cpu", CPU, "--interval", "20s", "--for", "60s", "--core", "cobalt"]
    process, thread = core.start([find_agent(), *words, "--output", output])
    until(lambda: core.calls.count(25) >= 2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    thread.join(30)
    assert process.returncode == 4
    assert table_of(read(output), "modes")[0]["switches"] == int(result == "fail")
    assert verdicts(read(output))[RULE].result == result


@pytest.mark.parametrize(
    ("refusal", "words", "remedy"),
    [
        (errno.EAGAIN, "the Cobalt core is stopped", "corectl --start"),
        (errno.ENOSYS, "no Cobalt core", "CONFIG_XENOMAI"),
        (errno.EPERM, "requires CAP_SYS_NICE", "run as root"),
        (errno.EBUSY, "refuses this process: Device or resource busy", "the kernel's messages"),
    ],
)
def test_refusal_is_one_line_with_remedy(
    tmp_path: Path, refusal: int, words: str, remedy: str
) -> None:
    code, stream, said, core = on_core(tmp_path, *TIMER, refusal=refusal)
    assert code == 77
    assert stream.trailer.state == "skipped"
    first, second = said.splitlines()
    assert words in first
    assert remedy in second
    assert "--core linux" in second
    assert core.gravity_now.startswith("gravity:"), "nothing was changed"


def test_clock_of_stopped_core_is_not_read(tmp_path: Path) -> None:
    """Xenomai 3.3 would crash, and kill the reader."""
    core = FakeCore(tmp_path / "core", refusal=errno.EAGAIN, state="stopped")
    assert core.run([find_agent(), "environment"]).returncode == 0
    code, _, said = run(core, tmp_path, *TIMER, "--core", "cobalt")
    assert code == 77
    assert said.splitlines()[0].endswith("the Cobalt core is stopped")


@pytest.mark.parametrize("revision", [1, 16, 17, 21, 4000000000])
def test_unknown_revision_is_refused(tmp_path: Path, revision: int) -> None:
    code, _, said, core = on_core(tmp_path, *TIMER, revision=revision)
    assert code == 77
    assert f"revision {revision} of the Cobalt interface" in said
    assert "Xenomai 3.2 or 3.3" in said
    assert core.calls == [0], "asked, and not bound"


def test_clock_of_ipipe_is_refused(tmp_path: Path) -> None:
    """Xenomai 3.2 has the same revision there, but the clock of the I-pipe."""
    code, _, said, core = on_core(tmp_path, *TIMER, revision=KNOWN[0], ipipe=True)
    assert code == 77
    first, second = said.splitlines()
    assert "rtgauge does not support Cobalt on the I-pipe, which has its own clock" in first
    assert "output of Xenomai's latency" in second
    assert core.calls == [0], "asked, and not bound"


def test_missing_features_are_named(tmp_path: Path) -> None:
    code, _, said, _ = on_core(tmp_path, *TIMER, missing="smp")
    assert code == 77
    assert "lacks features: smp" in said


def test_auto_takes_core_that_is_there(tmp_path: Path) -> None:
    code, stream, _ = run(FakeCore(tmp_path / "core", revision=KNOWN[-1]), tmp_path, *TIMER)
    assert (code, stream.header.core) == (0, "cobalt")


def test_auto_measures_linux_and_says_why(tmp_path: Path) -> None:
    core = FakeCore(tmp_path / "core", revision=KNOWN[-1], refusal=errno.EAGAIN)
    code, stream, _ = run(core, tmp_path, *TIMER)
    assert (code, stream.header.core) == (0, None)
    texts = messages_of(stream)
    assert "measured on Linux: the Cobalt core is stopped" in texts
    assert isinstance(stream.events[0], Event)
    skipped = verdicts(stream)[RULE]
    assert (skipped.result, skipped.evidence) == ("skipped", "the Cobalt core is stopped")
    assert "corectl --start" in skipped.remedy


@pytest.mark.slow
def test_xeno_test_of_a_core_that_refuses_is_skipped(tmp_path: Path) -> None:
    """It measures Linux, which must not look like a passed test of Cobalt."""
    core = FakeCore(tmp_path / "core", revision=KNOWN[-1], refusal=errno.EAGAIN)
    words: list[str | Path] = [
        *("xeno-test", "--for", "200ms", "--cpu", CPU, "--load", "cpu", "--json", "--no-progress"),
        *("--store", tmp_path / "store"),
    ]
    done = core.run([sys.executable, "-m", "rtgauge", *words])
    assert done.returncode == 77, done.stderr.decode()
    tests = json.loads(done.stdout)["runs"][0]["tests"]
    found = [one for one in tests if one["rule"] == RULE]
    assert {one["result"] for one in found} == {"skipped"}
    assert [one["measurement"] for one in found] == ["clock-warps", "core-switches"]


@pytest.mark.parametrize(
    "words",
    [
        (*TIMER, "--core", "linux"),
        (*TIMER, "--priority", "0"),
        (*TIMER, "--method", "clock_nanosleep,itimer"),
        ("pipe", "--cpu", CPU, "--for", "50ms"),
    ],
)
def test_linux_asks_no_core(tmp_path: Path, words: tuple[str, ...]) -> None:
    core = FakeCore(tmp_path / "core", revision=KNOWN[-1])
    code, stream, _ = run(core, tmp_path, *words)
    assert (code, stream.header.core, core.calls) == (0, None, [])
    assert core.gravity_now.startswith("gravity:")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("pipe", "--cpu", CPU), 77, "not measured on the Cobalt core"),
        ((*TIMER, "--method", "itimer"), 77, "itimer: the core does not support this method"),
        ((*TIMER, "--context", "irq"), 77, NOT_LOADED),
        ((*TIMER, "--priority", "0"), 2, "give a --priority of 1 or more, or --core linux"),
        (
            ("sem-contended", "--cpu", CPU, "--policy", "other"),
            2,
            "omit --policy other, or give --core linux",
        ),
        ((*TIMER, "--mark", "gpio:gpiochip0:1"), 2, "--mark"),
    ],
)
def test_what_core_does_not_have(
    tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    found, _, text, _ = on_core(tmp_path, *words)
    assert found == code
    assert said in text


@pytest.mark.parametrize("revision", KNOWN)
def test_uncontended_semaphores_ask_no_core(tmp_path: Path, revision: int) -> None:
    words = ("sem-uncontended", "--cpu", CPU, "--samples", "500")
    code, stream, said, core = on_core(tmp_path, *words, revision=revision)
    assert (code, said, stream.header.core) == (0, "", "cobalt")
    assert set(stream.samples.values()) == {500}
    assert core.calls.count(10) == 2
    assert not {12, 13, 19} & set(core.calls), "the value is counted in the heap"


def test_waiters_of_core_are_released_by_priority(tmp_path: Path) -> None:
    code, stream, said, core = on_core(tmp_path, "sem-order", "--cpu", CPU)
    assert (code, said) == (0, "")
    rules = verdicts(stream)
    assert len(rules) == 5
    assert {one.result for one in rules.values()} == {"pass"}
    assert table_of(stream, "modes")[0]["switches"] == 0
    assert {1, 12, 13} <= set(core.calls)


IN_TURN: Final = "the threads run in turn"
SWITCH: Final = ("thread-switch", "--cpu", CPU, "--threads", "2,10", "--samples", "100")


@pytest.mark.parametrize("interrupted", [(), (100,), (700,)])
def test_yield_that_sleeps_for_a_tick_is_not_out_of_turn(
    tmp_path: Path, interrupted: tuple[int, ...]
) -> None:
    """The core lets it wait, and the other threads continue without it: in a loop with samples, or
    in a batch, which is repeated."""
    code, stream, said, _ = on_core(tmp_path, *SWITCH, interrupted=interrupted)
    assert (code, said, stream.header.core) == (0, "", "cobalt")
    rules = verdicts(stream)
    assert {rule: one.result for rule, one in rules.items()} == {RULE: "pass", IN_TURN: "pass"}
    evidence = rules[IN_TURN].evidence
    assert evidence.count(" 0 out of turn") == 2
    assert evidence.count("yields that slept for a tick: 1") == (interrupted == (100,))
    assert evidence.count("batches with a preemption or such a yield: 1") == (interrupted == (700,))
    assert [row[3] for row in rows_of(stream, "batches")] == [500, 500]


def test_loops_that_all_wait_are_inconclusive(tmp_path: Path) -> None:
    """No order counts then, and a core that forgets threads must not pass."""
    waiting = range(100, 100_000, 100)
    words = ("--threads", "10", "--samples", "100")
    code, stream, *_ = on_core(tmp_path, *SWITCH[:3], *words, interrupted=waiting)
    assert code == 0
    found = verdicts(stream)[IN_TURN]
    assert found.result == "inconclusive"
    assert "slept for a tick" in found.evidence
    assert found.remedy


def test_loop_without_wait_is_judged(tmp_path: Path) -> None:
    """A loop with a wait is repeated, and the order of the second one counts."""
    words = ("--threads", "10", "--samples", "100")
    code, stream, *_ = on_core(tmp_path, *SWITCH[:3], *words, interrupted=(100,), unfair=700)
    assert code == 3
    found = verdicts(stream)[IN_TURN]
    assert found.result == "fail"
    assert "yields that slept for a tick: 1" in found.evidence


def test_waits_that_nobody_counts_do_not_fail(tmp_path: Path) -> None:
    words = ("--threads", "10", "--samples", "600")
    code, stream, *_ = on_core(tmp_path, *SWITCH[:3], *words, interrupted=(100,), counts=False)
    assert code == 0
    found = verdicts(stream)[IN_TURN]
    assert found.result == "inconclusive"
    assert "CONFIG_XENO_OPT_STATS" in found.remedy


def test_thread_out_of_turn_fails_on_core(tmp_path: Path) -> None:
    code, stream, *_ = on_core(tmp_path, *SWITCH, unfair=100)
    assert code == 3
    assert verdicts(stream)[RULE].result == "pass"
    failed = verdicts(stream)[IN_TURN]
    assert failed.result == "fail"
    assert "slept" not in failed.evidence
    assert " 0 out of turn" in failed.evidence, "of the other number of threads"


def test_refused_task_is_an_error(tmp_path: Path) -> None:
    """The core has a slot for the conductor, but none for the first waiter."""
    code, stream, said, _ = on_core(tmp_path, "sem-order", "--cpu", CPU, tasks=1)
    assert code == 1
    assert stream.trailer.state == "failed"
    assert "cannot start a thread: Resource temporarily unavailable" in said.splitlines()[0]


def test_what_core_lacks_is_in_catalogue() -> None:
    done = subprocess.run([find_agent(), "describe"], stdout=subprocess.PIPE, check=True)
    lacks = {
        one["name"]: one.get("not_on_cobalt", "") for one in json.loads(done.stdout)["measurements"]
    }
    assert lacks["futex"] == "futexes exist only on Linux"
    measured = {name for name, reason in lacks.items() if not reason}
    assert {"timer", "sem-order", "mutex-chain", "condvar", "mq-posix", "signal"} <= measured
    assert not {"pipe", "page-fault", "observe"} & measured


def test_kernel_without_core(tmp_path: Path) -> None:
    if Path("/proc/xenomai").exists():
        pytest.skip("this kernel has a Cobalt core")
    done = subprocess.run(
        [find_agent(), "run", *TIMER, "--core", "cobalt", "--output", tmp_path / "out"],
        stderr=subprocess.PIPE, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 77
    assert "no Cobalt core" in done.stderr.decode()


WARPS: Final = ("clock-warps", "--cpu", CPU, "--for", "100ms")
BACKWARDS: Final = "no clock goes backwards"
SAME: Final = "the clock of the core is that of Linux"


def test_clocks_on_core(tmp_path: Path) -> None:
    code, stream, said, core = on_core(tmp_path, *WARPS)
    assert (code, said, stream.header.core) == (0, "", "cobalt")
    found = {rule: one.result for rule, one in verdicts(stream).items()}
    assert found == {BACKWARDS: "pass", SAME: "pass", RULE: "pass"}
    rows = rows_of(stream, "warps")
    assert [row[1] for row in rows] == ["CLOCK_MONOTONIC", "the call of the core"]
    # one reading of the core in each turn, between two of Linux
    turns = core.calls.count(23)
    assert [row[2] for row in rows] == [2 * turns, turns]
    assert core.calls.count(25) >= 1, "it rests on the core"


def test_warp_fails(tmp_path: Path) -> None:
    code, stream, *_ = on_core(tmp_path, *WARPS, warp=5)
    assert code == 3
    failed = verdicts(stream)[BACKWARDS]
    assert failed.result == "fail"
    assert failed.evidence.startswith("1 of ")
    assert "call of the core on CPU" in failed.evidence
    assert failed.remedy
    rows = rows_of(stream, "warps")
    assert [row[3] for row in rows] == [0, 1]
    least = rows[1][4]
    assert isinstance(least, int)
    assert -(10**9) < least < 0


@pytest.mark.parametrize("ahead_ns", [-50_000_000, 50_000_000])
def test_clock_of_another_time_fails(tmp_path: Path, ahead_ns: int) -> None:
    code, stream, *_ = on_core(tmp_path, *WARPS, ahead_ns=ahead_ns)
    assert code == 3
    found = verdicts(stream)
    assert found[BACKWARDS].result == "pass"
    assert found[SAME].result == "fail"
    least, most = (int(word) for word in re.findall(r"(-?\d+) ns", found[SAME].evidence))
    assert least <= ahead_ns <= most
    assert "by a system call of the Cobalt core, minus" in found[SAME].evidence


def test_registers_on_core(tmp_path: Path) -> None:
    """Tasks of the core stay there. A task of both cores is not judged, and the others are Linux
    threads."""
    words = ("core-switches", "--cpu", CPU, "--for", "300ms")
    code, stream, said, core = on_core(tmp_path, *words)
    assert (code, said, stream.header.core) == (0, "", "cobalt")
    rows = rows_of(stream, "switches")
    assert [row[1] for row in rows] == [
        "real-time, of the core",
        "real-time, of both cores",
        "real-time, of Linux",
        "ordinary, of Linux",
    ]
    assert all(isinstance(row[2], int) and row[2] > 0 and row[3] == 0 for row in rows)
    assert core.calls.count(1) == 2, "two tasks of the core"
    assert [row["thread"] for row in table_of(stream, "modes")] == [0]
    assert verdicts(stream)[RULE].result == "pass"


def test_calls_that_switch_nothing_are_not_checks(tmp_path: Path) -> None:
    words = ("core-switches", "--cpu", CPU, "--for", "300ms")
    code, stream, *_ = on_core(tmp_path, *words, sleepless=errno.EPERM)
    assert code == 0
    rows = rows_of(stream, "switches")
    checks = {str(row[1]): row[2] for row in rows}
    assert checks["real-time, of the core"] == 0
    assert checks["real-time, of Linux"]
    found = verdicts(stream)["threads keep their registers across switches"]
    assert found.result == "inconclusive"
    assert "the thread real-time, of the core did not switch: Operation not" in found.evidence
    assert found.remedy
