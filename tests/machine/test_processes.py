# SPDX-License-Identifier: Apache-2.0
"""Processes, memory and CPUs measured on this machine: counts, labels, order and verdicts."""

from __future__ import annotations

import os
import subprocess
from itertools import permutations
from pathlib import Path

import pytest

from agents import Stream, rows_of, run, values_of, verdicts

CPUS = sorted(os.sched_getaffinity(0))
HOWS = ["fork", "vfork", "exec", "spawn"]
MEMORY = ["anonymous", "given-back", "huge", "file", "copy", "locked"]
LOCKED = "locked memory has no page faults"
PAIRS = "every pair of CPUs is measured"
two_cpus = pytest.mark.skipif(len(CPUS) < 2, reason="there is but one CPU")


def values(stream: Stream) -> dict[tuple[str, str], list[int]]:
    """The samples of each series, by its name and its one label."""
    return {
        (info.name, next(iter(info.labels.values()))): values_of(stream, info.series)
        for info in stream.series
    }


def test_processes_of_each_kind(agent: str, tmp_path: Path) -> None:
    code, stream = run(agent, tmp_path, "process-create", "--samples", "23")
    assert code == 0
    found = values(stream)
    assert list(found) == [(name, how) for how in HOWS for name in ("start", "life")]
    for how in HOWS:
        starts, lives = found["start", how], found["life", how]
        assert len(starts) == len(lives) == 23
        assert all(0 < start < life for start, life in zip(starts, lives, strict=True))
    assert all(info.stamp_ns is not None for info in stream.series)
    assert [row[0] for row in rows_of(stream, "parent")] == [
        "resident", "private", "page tables",
    ]  # fmt: skip


def test_a_larger_parent_takes_longer_to_copy(agent: str, tmp_path: Path) -> None:
    """Order, not times: fork() copies the page tables of private memory, vfork() none.
    Compares the minimum of many, which nothing disturbs."""
    _, small = run(agent, tmp_path, "process-create", "--samples", "30")
    _, large = run(agent, tmp_path, "process-create", "--samples", "30", "--memory", "64MiB")
    assert min(values(large)["start", "fork"]) > min(values(small)["start", "fork"])
    private = [int(rows_of(stream, "parent")[1][1]) for stream in (small, large)]
    assert private[1] - private[0] >= 64 * 1024 - 512


def test_a_stamp_of_a_started_process_goes_into_its_pipe(agent: str) -> None:
    reading, writing = os.pipe()
    done = subprocess.run(
        [agent, "stamp", str(writing)], pass_fds=[writing], timeout=60, check=False
    )
    assert done.returncode == 0
    os.close(writing)
    assert len(os.read(reading, 100)) == 8
    os.close(reading)
    nowhere = subprocess.run([agent, "stamp", "77"], timeout=60, check=False)
    assert nowhere.returncode == 1


def test_each_first_access_is_one_page_fault(agent: str, tmp_path: Path) -> None:
    """What was timed is what its name says: the kernel's own count agrees."""
    code, stream = run(agent, tmp_path, "page-fault", "--samples", "130")
    assert code == 0
    assert {info.labels["memory"] for info in stream.series} <= set(MEMORY)
    counted = {row[0]: tuple(row[1:]) for row in rows_of(stream, "faults")}
    assert list(counted) == MEMORY
    for memory in ("anonymous", "given-back", "file", "copy"):
        assert counted[memory] == (130, 130)
    by_memory = {info.labels["memory"]: stream.samples[info.series] for info in stream.series}
    assert by_memory["anonymous"] == by_memory["file"] == 130
    huge = counted["huge"]
    assert by_memory.get("huge", 0) == huge[0] == huge[1]
    verdict = verdicts(stream)[LOCKED]
    if verdict.result == "skipped":
        assert verdict.remedy
        assert counted["locked"] == (0, 0)
    else:
        assert verdict.result == "pass"
        assert verdict.evidence == "130 accesses, 0 page faults"


def test_memory_that_is_not_locked_fails_the_verdict(agent: str, tmp_path: Path) -> None:
    code, stream = run(agent, tmp_path, "page-fault", "--samples", "70", "--unlock", "yes")
    verdict = verdicts(stream)[LOCKED]
    if verdict.result == "skipped":
        pytest.skip(verdict.evidence)
    assert (code, verdict.result) == (3, "fail")
    assert verdict.evidence == "70 accesses, 70 page faults"
    assert "mlockall" in verdict.remedy


def test_memory_that_may_not_be_locked_skips_the_verdict(agent: str, tmp_path: Path) -> None:
    limits = ["prlimit", f"--memlock={64 << 10}:{64 << 10}"]
    if os.geteuid() == 0:
        limits += ["setpriv", "--bounding-set=-ipc_lock"]
    code, stream = run(agent, tmp_path, "page-fault", "--samples", "70", by=limits)
    assert code == 0
    verdict = verdicts(stream)[LOCKED]
    assert verdict.result == "skipped"
    assert verdict.evidence.startswith("the memory cannot be locked: ")


@two_cpus
@pytest.mark.parametrize(
    ("measurement", "name"), [("cpu-wakeup", "wake"), ("cpu-migration", "migrate")]
)
def test_every_ordered_pair(agent: str, tmp_path: Path, measurement: str, name: str) -> None:
    code, stream = run(agent, tmp_path, measurement, "--samples", "130", "--pairs", "500")
    assert code == 0
    pairs = {(info.labels["from"], info.labels["to"]) for info in stream.series}
    some = {(f"CPU {a}", f"CPU {b}") for a, b in permutations(CPUS, 2)}
    assert len(pairs) == min(500, len(some))
    assert pairs <= some
    for info in stream.series:
        assert info.name == name
        assert info.labels["to"] == f"CPU {info.cpu}"
        assert stream.samples[info.series] == 130
        assert info.stamp_ns is not None
    assert (PAIRS in verdicts(stream)) == (len(some) > 500)


@two_cpus
@pytest.mark.parametrize("measurement", ["cpu-wakeup", "cpu-migration"])
def test_pairs_left_out_are_said(agent: str, tmp_path: Path, measurement: str) -> None:
    code, stream = run(agent, tmp_path, measurement, "--samples", "10", "--pairs", "1")
    assert code == 0
    assert len(stream.series) == 1
    verdict = verdicts(stream)[PAIRS]
    assert verdict.result == "skipped"
    assert verdict.evidence.startswith("1 of ")
    assert "--pairs" in verdict.remedy


@two_cpus
@pytest.mark.parametrize("measurement", ["cpu-wakeup", "cpu-migration"])
def test_pairs_that_the_step_did_not_come_to_are_said(
    agent: str, tmp_path: Path, measurement: str
) -> None:
    words = ["--cpu", f"{CPUS[0]},{CPUS[-1]}", "--for", "1us"]
    code, stream = run(agent, tmp_path, measurement, *words)
    assert code == 0
    assert min(stream.samples[info.series] for info in stream.series) == 0
    verdict = verdicts(stream)[PAIRS]
    assert verdict.result == "inconclusive"
    assert verdict.evidence.endswith(" no sample")
    assert "--for" in verdict.remedy


@two_cpus
def test_wake_ups_are_counted_apart_from_rings_that_came_too_early(
    agent: str, tmp_path: Path
) -> None:
    code, stream = run(agent, tmp_path, "cpu-wakeup", "--samples", "250", "--pause", "20us")
    assert code == 0
    rows = {(row[0], row[1]): row[2] for row in rows_of(stream, "pairs")}
    for info in stream.series:
        assert stream.samples[info.series] == rows[info.labels["from"], info.labels["to"]]


@two_cpus
def test_a_time_ends_all_of_its_threads(agent: str, tmp_path: Path) -> None:
    for measurement in ("cpu-wakeup", "cpu-migration"):
        code, stream = run(agent, tmp_path, measurement, "--samples", "10000000", "--for", "300ms")
        assert code == 0
        assert stream.complete
        assert sum(stream.samples.values()) > 0


@pytest.mark.parametrize("measurement", ["cpu-wakeup", "cpu-migration"])
def test_one_cpu_is_too_few(agent: str, tmp_path: Path, measurement: str) -> None:
    code, stream = run(agent, tmp_path, measurement, "--cpu", str(CPUS[-1]))
    assert code == 77
    assert stream.trailer.state == "skipped"
    assert f"only CPU {CPUS[-1]} is available" in stream.trailer.reason
    assert "--cpu" in stream.trailer.remedy
