# SPDX-License-Identifier: Apache-2.0
"""The chapter Threads on this machine: orders, counts and verdicts; never a time."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents import NOBODY, read, rows_of, run, run_as, values_of, verdicts
from rtgauge.report.results import gather
from rtgauge.store.samples import StoredStep
from rtgauge.store.seal import STREAM, seal_step

needs_realtime = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can be sure of real-time priorities"
)


# --- thread-rules ---

RULES = [
    "a new thread of lower priority waits",
    "a new thread of equal priority goes to the tail",
    "a new thread of higher priority runs at once",
    "a yield lets all others of the same priority run",
]


@pytest.mark.study(78)
@needs_realtime
@pytest.mark.parametrize("policy", ["fifo", "rr"])
def test_the_rules_hold_with_priorities(agent: str, tmp_path: Path, policy: str) -> None:
    code, stream = run(agent, tmp_path, "thread-rules", "--policy", policy)
    assert {rule: verdict.result for rule, verdict in verdicts(stream).items()} == dict.fromkeys(
        RULES, "pass"
    )
    assert code == 0
    for verdict in verdicts(stream).values():
        assert "in 10 rounds, the last: " in verdict.evidence
    order = rows_of(stream, "order")
    threads: dict[object, list[object]] = {}
    times: dict[object, list[int]] = {}
    for rule, time_ns, thread, _ in order:
        threads.setdefault(rule, []).append(thread)
        assert isinstance(time_ns, int)
        times.setdefault(rule, []).append(time_ns)
    assert list(threads)[:4] == RULES
    assert threads[RULES[0]] == ["creator", "creator", "low"]
    assert threads[RULES[1]] == ["creator", "creator", "first", "second"]
    assert threads[RULES[2]] == ["creator", "high", "high", "creator"]
    assert threads[RULES[3]] == [
        "creator", "first", "first", "second", "second", "creator", "low",
    ]  # fmt: skip
    for one in times.values():
        assert one[0] == 0
        assert one == sorted(one)


@needs_realtime
def test_the_rules_fail_without_priorities(agent: str, tmp_path: Path) -> None:
    code, stream = run(agent, tmp_path, "thread-rules", "--policy", "other")
    assert code == 3
    found = verdicts(stream)
    assert list(found) == RULES
    for verdict in found.values():
        assert verdict.result == "fail"
        assert "SCHED_FIFO" in verdict.remedy
        assert "in round " in verdict.evidence
        assert "creator" in verdict.evidence
        assert " µs" in verdict.evidence


@pytest.mark.study(79)
@needs_realtime
def test_where_a_lowered_thread_lands_is_reported(agent: str, tmp_path: Path) -> None:
    """Without a verdict, and as the order of the threads has it; head is what sched(7) says."""
    _, stream = run(agent, tmp_path, "thread-rules", "--policy", "other")
    lowered = rows_of(stream, "lowered")
    assert [row[:2] for row in lowered] == [
        ("fifo", "running"), ("rr", "running"), ("fifo", "ready"), ("rr", "ready"),
    ]  # fmt: skip
    order = rows_of(stream, "order")
    for policy, how, lands in lowered:
        ran = [
            thread for rule, _, thread, what in order
            if rule == f"lowered while {how}, {policy}" and what == "runs"
        ]  # fmt: skip
        assert sorted(map(str, ran)) == sorted(
            ["creator" if how == "running" else "lowered", "waiting"]
        )
        assert lands == ("tail" if ran[0] == "waiting" else "head")


# --- thread-switch ---

IN_TURN = "the threads run in turn"
ALL_MEASURED = "every number of threads is measured"


@needs_realtime
def test_switches_are_counted_and_in_turn(agent: str, tmp_path: Path) -> None:
    code, stream = run(agent, tmp_path, "thread-switch", "--samples", "2100")
    assert code == 0
    assert [info.labels for info in stream.series] == [
        {"threads": text} for text in ("2", "10", "128", "1000")
    ]
    assert {info.name for info in stream.series} == {"switch"}
    assert [stream.samples[info.series] for info in stream.series] == [2100] * 4
    (verdict,) = verdicts(stream).values()
    assert (verdict.rule, verdict.result) == (IN_TURN, "pass")
    for threads in (2, 10, 128, 1000):
        assert f"{threads} threads: 2100 switches, 0 out of turn" in verdict.evidence
    batches = rows_of(stream, "batches")
    assert [row[0] for row in batches] == [f"switch, {n} threads" for n in (2, 10, 128, 1000)]
    for (_, mean_ps, least_ps, operations), threads in zip(
        batches, (2, 10, 128, 1000), strict=True
    ):
        assert isinstance(operations, int)
        assert operations >= 2100
        assert operations % threads == 0
        assert isinstance(mean_ps, int)
        assert isinstance(least_ps, int)
        assert 0 < least_ps <= mean_ps


@pytest.mark.study(82)
@needs_realtime
def test_switches_of_the_numbers_asked_for(agent: str, tmp_path: Path) -> None:
    code, stream = run(
        agent, tmp_path, "thread-switch", "--threads", "10,2", "--samples", "100", "--policy", "rr"
    )
    assert code == 0
    assert [info.labels["threads"] for info in stream.series] == ["10", "2"]
    assert [stream.samples[info.series] for info in stream.series] == [100, 100]
    assert [row[0] for row in rows_of(stream, "batches")] == [
        "switch, 10 threads",
        "switch, 2 threads",
    ]


@needs_realtime
@pytest.mark.parametrize("name", ["thread-switch", "page-fault"])
def test_little_memory_is_not_used_up(agent: str, tmp_path: Path, name: str) -> None:
    """Where the kernel says that 20 MB are free: what needs more than a share of it is skipped."""
    told = tmp_path / "meminfo"
    told.write_text("MemTotal: 60000 kB\nMemAvailable: 20000 kB\n")
    output = tmp_path / "stream.cbor"
    lines = 'mount --bind "$1" /proc/meminfo || exit 99; shift; exec "$@"'
    words = [agent, "run", name, "--samples", "100", "--output", str(output)]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", lines, "sh", str(told), *words], timeout=60, check=False
    )
    if done.returncode in (1, 99) and not output.exists():
        pytest.skip("a mount namespace is not available")
    assert done.returncode == 0
    stream = read(output)
    skipped = [verdict for verdict in verdicts(stream).values() if verdict.result == "skipped"]
    (evidence,) = [verdict.evidence for verdict in skipped]
    if name == "page-fault":
        assert evidence.startswith("4 huge pages")
        return
    assert evidence.startswith("1000 threads need")
    counts = {info.labels["threads"]: stream.samples[info.series] for info in stream.series}
    assert counts == {"2": 100, "10": 100, "128": 100, "1000": 0}


@needs_realtime
def test_switches_without_priorities_are_not_in_turn(agent: str, tmp_path: Path) -> None:
    code, stream = run(
        agent, tmp_path, "thread-switch", "--policy", "other", "--samples", "30000",
        "--threads", "2,10,128",
    )  # fmt: skip
    assert code == 3
    (verdict,) = verdicts(stream).values()
    assert (verdict.rule, verdict.result) == (IN_TURN, "fail")
    assert "--policy fifo" in verdict.remedy


@needs_realtime
def test_a_number_of_threads_that_is_not_to_be_had_is_skipped(agent: str, tmp_path: Path) -> None:
    """And the others are measured; root has no such limit."""
    more = ["--inh-caps", "+sys_nice", "--ambient-caps", "+sys_nice"]
    words = ["thread-switch", "--samples", "300"]
    user = 60000 + os.getpid() % 5000
    by = ["prlimit", "--nproc=500:500"]
    done, stream = run_as(user, agent, tmp_path, *words, by=by, more=more)
    assert done.returncode == 0, done.stderr
    assert [stream.samples[info.series] for info in stream.series] == [300, 300, 300, 0]
    found = verdicts(stream)
    assert {rule: verdict.result for rule, verdict in found.items()} == {
        IN_TURN: "pass", ALL_MEASURED: "skipped",
    }  # fmt: skip
    assert " of 1000: " in found[ALL_MEASURED].evidence
    assert "ulimit -u" in found[ALL_MEASURED].remedy
    assert len(rows_of(stream, "batches")) == 3


# --- round-robin ---

FAIR = "round robin is fair"


@pytest.mark.study(81)
@needs_realtime
def test_round_robin_takes_turns_in_one_order(agent: str, tmp_path: Path) -> None:
    """With three threads, as ten take seconds. Every slice is in the series and in the table."""
    code, stream = run(agent, tmp_path, "round-robin", "--threads", "3", "--samples", "8")
    if code == 77:
        assert "sched_rr_timeslice_ms" in stream.trailer.remedy
        pytest.skip(stream.trailer.reason)
    (verdict,) = verdicts(stream).values()
    if verdict.result == "inconclusive":
        assert "not judged" in verdict.evidence
        pytest.skip(verdict.evidence)
    assert (verdict.rule, verdict.result) == (FAIR, "pass"), verdict.evidence
    assert code == 0
    assert [(info.name, info.labels) for info in stream.series] == [
        ("slice", {"round": "first"}), ("slice", {"round": "later"}),
    ]  # fmt: skip
    # of the threads that take turns, not of the one that starts them
    assert {(info.policy, info.priority) for info in stream.series} == {("rr", 79)}
    turns = rows_of(stream, "turns")
    rounds = {row[0] for row in turns}
    # whole tests, of 3 threads and (at the usual quantum) 3 rounds each
    tests = stream.samples[0] // 3
    assert stream.samples[0] == 3 * tests
    assert stream.samples[1] == 3 * tests * (len(rounds) - 1) >= 8
    orders = [[row[1] for row in turns if row[0] == number] for number in range(1, len(rounds) + 1)]
    assert sorted(map(str, orders[0])) == ["1", "2", "3"]
    assert all(order == orders[0] for order in orders)
    assert {row[3] for row in turns} <= set(values_of(stream))
    starts = [row[2] for row in turns]
    assert starts[0] == 0
    assert starts == sorted(starts, key=lambda start: int(str(start)))
    assert [row[0] for row in rows_of(stream, "quantum")] == [
        "sched_rr_get_interval()", "sched_rr_timeslice_ms", "tick",
    ]  # fmt: skip


TIMESLICE = Path("/proc/sys/kernel/sched_rr_timeslice_ms")


@pytest.fixture(name="timeslice")
def timeslice_of_the_kernel() -> Iterator[Path]:
    """The setting, restored afterwards."""
    before = TIMESLICE.read_text()
    yield TIMESLICE
    TIMESLICE.write_text(before)


def round_robin_threads(pid: int) -> int:
    """Threads of a process that have SCHED_RR."""
    number = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            number += os.sched_getscheduler(int(task.name)) == os.SCHED_RR
    return number


@pytest.mark.study(80)
@needs_realtime
def test_a_first_slice_ten_times_as_long_is_measured(
    agent: str, tmp_path: Path, timeslice: Path
) -> None:
    """As published: a thread takes its first slice from the setting when it is created."""
    timeslice.write_text("983")
    if timeslice.read_text().strip() not in {"980", "983", "984", "990"}:
        pytest.skip(f"the kernel has made {timeslice.read_text().strip()} ms of 983")
    output = tmp_path / "stream.cbor"
    words = [agent, "run", "round-robin", "--threads", "2", "--samples", "2"]
    started = subprocess.Popen([*words, "--output", str(output)], stderr=subprocess.DEVNULL)
    try:
        while round_robin_threads(started.pid) < 2 and started.poll() is None:
            time.sleep(0.001)
        timeslice.write_text("100")
        code = started.wait(timeout=60)
    finally:
        started.kill()
        started.wait()
    stream = read(output)
    (verdict,) = verdicts(stream).values()
    if verdict.result == "inconclusive":
        assert "not judged" in verdict.evidence
        pytest.skip(verdict.evidence)
    assert (verdict.rule, verdict.result, code) == (FAIR, "fail", 3)
    assert verdict.evidence.startswith("round 1: ")
    first, later = (values_of(stream, info.series) for info in stream.series)
    assert len(first) == len(later) == 2
    assert min(first) > 5 * max(later)
    named = re.search(r"runs for (\d+)\.(\d\d) ms", verdict.evidence)
    assert named is not None
    assert int(named[1] + named[2]) in [value // 10_000 for value in first]


@needs_realtime
def test_slices_that_are_too_long_are_not_tried(
    agent: str, tmp_path: Path, timeslice: Path
) -> None:
    timeslice.write_text("2100")
    code, stream = run(agent, tmp_path, "round-robin", "--threads", "2")
    assert code == 77
    assert "too long" in stream.trailer.reason
    assert "sched_rr_timeslice_ms" in stream.trailer.remedy


@needs_realtime
def test_there_is_no_round_robin_with_fifo(agent: str, tmp_path: Path) -> None:
    code, stream = run(agent, tmp_path, "round-robin", "--policy", "fifo", "--threads", "2")
    if code == 77:
        pytest.skip("slices are too long here")
    assert code == 3
    (verdict,) = verdicts(stream).values()
    assert (verdict.rule, verdict.result) == (FAIR, "fail")
    assert "2500 ms in one turn, then gave up" in verdict.evidence
    assert "SCHED_RR" in verdict.remedy
    assert set(stream.samples.values()) <= {0}
    assert len(rows_of(stream, "turns")) == 1
    assert rows_of(stream, "quantum")[0][1] == 0


@needs_realtime
@pytest.mark.parametrize(
    ("words", "policy", "priority"),
    [
        (["thread-switch", "--threads", "2", "--samples", "100"], "rr", 79),
        (["thread-lifecycle", "--samples", "2"], "rr", 78),
        (["thread-lifecycle", "--samples", "2"], "other", 0),
        (["sem-contended", "--waiters", "3", "--samples", "10"], "fifo", 97),
        (["mutex-contended", "--samples", "2"], "fifo", 79),
        (["mutex-chain", "--samples", "2"], "fifo", 79),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else str(value),
)
def test_series_have_the_policy_of_the_threads_measured(
    agent: str, tmp_path: Path, words: list[str], policy: str, priority: int
) -> None:
    """Not that of the thread that starts them, which is SCHED_FIFO's and above them."""
    _, stream = run(agent, tmp_path, *words, *(["--policy", policy] if policy != "fifo" else []))
    assert {(info.policy, info.priority) for info in stream.series} == {(policy, priority)}


# --- thread-lifecycle ---

SCENARIOS = ["never-run", "terminated", "blocked"]
AS_THE_SCENARIO_SAYS = "each thread runs when its scenario says"


@pytest.mark.study(84)
@needs_realtime
@pytest.mark.parametrize("policy", ["fifo", "rr"])
def test_threads_are_created_and_deleted(agent: str, tmp_path: Path, policy: str) -> None:
    code, stream = run(agent, tmp_path, "thread-lifecycle", "--samples", "150", "--policy", policy)
    assert code == 0
    assert [(info.labels["scenario"], info.name) for info in stream.series] == [
        (scenario, name) for scenario in SCENARIOS for name in ("create", "delete")
    ]
    assert [stream.samples[info.series] for info in stream.series] == [150] * 6
    (verdict,) = verdicts(stream).values()
    assert (verdict.rule, verdict.result) == (AS_THE_SCENARIO_SAYS, "pass")
    for scenario in SCENARIOS:
        assert f"{scenario}: 150 threads, 0 at the wrong time" in verdict.evidence


@needs_realtime
def test_without_priorities_threads_run_at_the_wrong_time(agent: str, tmp_path: Path) -> None:
    code, stream = run(agent, tmp_path, "thread-lifecycle", "--samples", "300", "--policy", "other")
    assert code == 3
    (verdict,) = verdicts(stream).values()
    assert (verdict.rule, verdict.result) == (AS_THE_SCENARIO_SAYS, "fail")
    assert "--policy fifo" in verdict.remedy
    assert [stream.samples[info.series] for info in stream.series] == [300] * 6


# --- all of them ---


@needs_realtime
def test_lifecycle_over_time(agent: str, tmp_path: Path) -> None:
    folder = StoredStep(tmp_path, 0, {}).folder
    folder.mkdir(parents=True)
    code, stream = run(agent, folder, "thread-lifecycle", "--samples", "20000")
    assert code == 0
    (folder / "stream.cbor").rename(folder / STREAM)
    seal_step(folder, "", 0)
    step = StoredStep(tmp_path, 0, {})
    for figures in gather.gather([(one, step) for one in step.series]):
        assert figures.timeline is not None
        assert int(figures.timeline.count.sum()) == 20000
        # 200 test loops; of the 600 bins some are left, however uneven the machine runs
        assert int((figures.timeline.count > 0).sum()) >= 100
    assert len(stream.series) == len(step.series) == 6


CHAPTER = ["thread-rules", "round-robin", "thread-switch", "thread-lifecycle"]


@needs_realtime
@pytest.mark.parametrize("name", CHAPTER)
def test_a_priority_too_low_is_wrong_usage(agent: str, tmp_path: Path, name: str) -> None:
    code, _ = run(agent, tmp_path, name, "--priority", "1")
    assert code == 2


@needs_realtime
@pytest.mark.parametrize("name", CHAPTER)
def test_without_privilege_all_is_skipped(agent: str, tmp_path: Path, name: str) -> None:
    done, stream = run_as(NOBODY, agent, tmp_path, name, by=["prlimit", "--rtprio=0:0"])
    assert done.returncode == 77
    assert stream.trailer.state == "skipped"
    assert "SCHED_FIFO" in stream.trailer.reason
    assert "root" in stream.trailer.remedy


# --- what was not tried ---


@needs_realtime
@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("thread-rules", 4),
        ("sem-lock", 4),
        ("sem-order", 4),
        ("condvar", 2),
        ("mq-posix", 3),
        ("mutex-inversion --protocol none,inherit", 3),
        ("mutex-chain", 1),
        ("thread-switch", 1),
        ("thread-lifecycle", 1),
        ("page-fault", 1),
    ],
)
def test_rules_that_were_not_tried_are_said(
    agent: str, tmp_path: Path, name: str, rules: int
) -> None:
    """The time is up after a round of the first of them: it is not judged by fewer than ten that
    hold, and the others are not left out."""
    code, stream = run(agent, tmp_path, *name.split(), "--for", "1us")
    results = [verdict.result for verdict in verdicts(stream).values()]
    assert results.count("inconclusive") == rules
    assert code == (3 if "fail" in results else 0)


@needs_realtime
def test_an_order_that_cannot_be_seen_is_no_fault(agent: str, tmp_path: Path) -> None:
    """Only /proc shows whether a waiter sleeps."""
    output = tmp_path / "stream.cbor"
    lines = 'mount -t tmpfs none /proc || exit 99; exec "$@"'
    words = [agent, "run", "futex", "--samples", "10", "--output", str(output)]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", lines, "sh", *words], timeout=60, check=False
    )
    if done.returncode in (1, 99) and not output.exists():
        pytest.skip("a mount namespace is not available")
    assert done.returncode == 0
    found = [verdict for rule, verdict in verdicts(read(output)).items() if "waiter" in rule]
    judged = [verdict for verdict in found if verdict.result != "skipped"]
    assert [verdict.result for verdict in judged] == ["inconclusive"] * 2


@needs_realtime
def test_others_have_more_of_the_cpu_than_the_kernel_demands(agent: str, tmp_path: Path) -> None:
    """A twentieth, by default: a task that takes more is throttled where the limit stays."""
    words = [agent, "run", "mutex-uncontended", "--samples", "400000", "--for", "2s"]
    process = subprocess.Popen([*words, "--output", str(tmp_path / "stream.cbor")])

    def used_ns() -> int:
        """CPU time of the measuring thread, 0 before it exists."""
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            if (task / "comm").read_text() == "rtgauge-measure\n":
                return int((task / "schedstat").read_text().split()[0])
        return 0

    while used_ns() < 100_000_000:
        time.sleep(0.01)
    began_ns, before_ns = time.monotonic_ns(), used_ns()
    time.sleep(1)
    taken_ns, lasted_ns = used_ns() - before_ns, time.monotonic_ns() - began_ns
    assert process.wait(timeout=30) == 0
    assert 0 < taken_ns < 0.95 * lasted_ns + 50_000_000 * 0.05
