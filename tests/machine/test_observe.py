# SPDX-License-Identifier: Apache-2.0
"""Observing a program's own threads on this machine: counts, tables, what is left behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents import Stream, messages_of, read, rows_of, values_of
from rtgauge.stream import Setting, Verdict
from rtgauge.target.local import find_agent
from waiting import until

TRACING = "/sys/kernel/tracing"
READY = f"test -d {TRACING}/instances || mount -t tracefs nodev {TRACING}"
# In a mount namespace of its own, so that nothing stays mounted.
INSIDE = ["unshare", "--mount", "sh", "-c", f'{READY}; exec "$@"', "sh"]
PROGRAM = """
import sys, threading, time
threading.stack_size(65536)
def body():
    while True:
        time.sleep(float(sys.argv[2]))
for _ in range(int(sys.argv[1])):
    threading.Thread(target=body, daemon=True).start()
print(flush=True)
time.sleep(float(sys.argv[3]))
"""


def _traced() -> bool:
    if os.geteuid() or not shutil.which("unshare"):
        return False
    look = [*INSIDE, "test", "-w", f"{TRACING}/events/sched/sched_waking/enable"]
    return not subprocess.run(look, capture_output=True, check=False, timeout=60).returncode


pytestmark = pytest.mark.skipif(
    not _traced(), reason="the scheduling tracepoints need root, and a kernel that has them"
)


def _program(threads: int, sleep: float, lives: float) -> Iterator[int]:
    words = [sys.executable, "-c", PROGRAM, str(threads), str(sleep), str(lives)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        yield program.pid
        program.kill()


def observe(tmp_path: Path, *words: str) -> tuple[int, str, Stream]:
    path = tmp_path / "stream.cbor"
    done = subprocess.run(
        [*INSIDE, str(find_agent()), "run", "observe", *words, "--output", str(path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 2, 3, 77), (done.returncode, done.stderr)
    return done.returncode, done.stderr, read(path)


def _instances() -> str:
    words = [*INSIDE, "ls", f"{TRACING}/instances"]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout


def test_each_thread_has_a_row_of_its_wake_ups(tmp_path: Path) -> None:
    for pid in _program(4, 0.002, 60):
        code, _, stream = observe(tmp_path, "--pid", str(pid), "--for", "1s")
        assert code == 0
        tids = {int(name) for name in os.listdir(f"/proc/{pid}/task")}
    # read here, the files would also tell what other agents set
    assert not [one for one in stream.records if isinstance(one, Setting) and "/" in one.name]
    rows = rows_of(stream, "threads")
    latencies = values_of(stream)
    assert {row[0] for row in rows} <= tids
    assert len(rows) >= 4
    assert sum(row[2] for row in rows) == len(latencies) > 100
    assert max(row[7] for row in rows if row[2]) == max(latencies)
    for _, name, count, missing, _, median, high, most in rows:
        assert "python" in str(name)
        if count:
            assert 0 <= int(str(median)) <= int(str(high)) <= int(str(most))
        else:
            assert int(str(missing)) > 0
            assert (median, high, most) == ("none", "none", "none")
    # nothing of the system is set but the instance, which is gone
    settings = [event.fields for event in stream.events if event.event == "setting"]
    assert not settings
    assert "rtgauge" not in _instances()


def test_threads_that_come_later_are_observed(tmp_path: Path) -> None:
    late = "import threading, time\ntime.sleep(0.7)\n" + PROGRAM.replace("print(flush=True)", "")
    words = [sys.executable, "-c", late, "3", "0.002", "60"]
    with subprocess.Popen(words) as program:
        code, _, stream = observe(tmp_path, "--pid", str(program.pid), "--for", "2s")
        program.kill()
    assert code == 0
    assert len([row for row in rows_of(stream, "threads") if row[2] > 50]) == 3


def test_a_program_that_ends_ends_the_observation(tmp_path: Path) -> None:
    for pid in _program(2, 0.002, 1.5):
        code, _, stream = observe(tmp_path, "--pid", str(pid), "--for", "0")
        assert code == 0
        assert f"process {pid} ended during the observation" in messages_of(stream)
    assert len(values_of(stream)) > 10
    # nothing tells whether the trace is complete
    assert _verdict(stream).result == "inconclusive"
    assert "--for" in _verdict(stream).remedy


@pytest.mark.slow
def test_threads_that_ended_have_their_samples(tmp_path: Path) -> None:
    """They live for less time than the agent needs to read their events."""
    short = """
import threading, time
print(flush=True)
for _ in range(30):
    for _ in range(20):
        threading.Thread(target=time.sleep, args=(0.0001,)).start()
    time.sleep(0.05)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", short], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        code, _, stream = observe(tmp_path, "--pid", str(program.pid), "--for", "3s")
        alive = {int(name) for name in os.listdir(f"/proc/{program.pid}/task")}
        program.kill()
    assert code == 0
    ended = [row for row in rows_of(stream, "threads") if row[0] not in alive and row[2]]
    assert len(ended) >= 100
    assert {str(row[1]) for row in ended} >= {"(ended)"}
    assert sum(row[2] for row in rows_of(stream, "threads")) == len(values_of(stream))
    # nothing compares them with the kernel's count
    verdict = _verdict(stream)
    if verdict.result == "pass":
        assert "not compared" in verdict.evidence
    assert not [text for text in messages_of(stream) if "left out" in text]


def test_the_cost_of_tracefs_is_said(tmp_path: Path) -> None:
    code, _, stream = observe(tmp_path, "--pid", str(os.getpid()), "--for", "1s")
    assert code == 0
    if stream.series[0].labels["method"] == "tracefs":
        assert [text for text in messages_of(stream) if "up to 2.6 us for each wake-up" in text]
    else:
        assert not [text for text in messages_of(stream) if "us for each wake-up" in text]


def _verdict(stream: Stream) -> Verdict:
    (verdict,) = [one for one in stream.records if isinstance(one, Verdict)]
    return verdict


def _counted(stream: Stream) -> tuple[str, int, int]:
    """Result of the verdict, the switches missing in the trace, and the kernel's count."""
    lost = _verdict(stream)
    numbers = re.fullmatch(
        r"(\d+) of (\d+) switches that the kernel counted (?:is|are) missing from its trace"
        r"(?:; \d+ threads? (?:is|are) not compared with the kernel's count)?",
        lost.evidence,
    )
    assert numbers is not None, lost.evidence
    return lost.result, int(numbers[1]), int(numbers[2])


@pytest.mark.slow
def test_a_program_of_1000_threads(tmp_path: Path) -> None:
    for pid in _program(1000, 0.5, 60):
        code, _, stream = observe(tmp_path, "--pid", str(pid), "--for", "4s")
        assert code == 0
        tids = {int(name) for name in os.listdir(f"/proc/{pid}/task")}
    result, missing, counted = _counted(stream)
    assert counted >= 6_000
    # some kernels omit switches of an idle CPU
    assert result == ("inconclusive" if missing else "pass")
    found = {row[0]: (row[2], row[3]) for row in rows_of(stream, "threads")}
    # the first thread sleeps all the time
    assert tids - {pid} <= set(found) <= tids
    # each thread slept several times: a sample, or a switch that is missing
    assert all(samples + lacking >= 5 for tid, (samples, lacking) in found.items() if tid != pid)
    assert sum(lacking for _, lacking in found.values()) == missing
    assert sum(samples for samples, _ in found.values()) == len(values_of(stream))
    assert len(values_of(stream)) + missing >= 6_000


@pytest.mark.slow
def test_switches_missing_in_the_trace_are_counted(tmp_path: Path) -> None:
    """Somebody else stops the trace for a while: the kernel reports no loss then."""
    gap = (
        f"for i in {TRACING}/instances/rtgauge-*; do echo 0 >$i/tracing_on; sleep 1; "
        "echo 1 >$i/tracing_on; done"
    )
    words = ["sh", "-c", f'"$@" & sleep 1.5; {gap}; wait $!', "sh"]
    path = tmp_path / "stream.cbor"
    for pid in _program(4, 0.01, 60):
        run = [str(find_agent()), "run", "observe", "--pid", str(pid), "--for", "4s"]
        subprocess.run(
            [*INSIDE, *words, *run, "--output", str(path)],
            capture_output=True, timeout=60, check=True,
        )  # fmt: skip
    stream = read(path)
    result, missing, counted = _counted(stream)
    assert result == "inconclusive"
    assert 100 <= missing < counted
    assert sum(totals.lost for totals in stream.trailer.series) >= missing


@pytest.mark.slow
def test_a_program_of_more_threads_than_rows(tmp_path: Path) -> None:
    for pid in _program(1100, 0.5, 60):
        code, _, stream = observe(tmp_path, "--pid", str(pid), "--for", "3s")
        assert code == 0
    assert len(rows_of(stream, "threads")) <= 1023
    assert [text for text in messages_of(stream) if "has room for only 1023 threads" in text]
    assert _verdict(stream).result == "inconclusive"


def test_the_counts_of_a_process_in_many_groups(tmp_path: Path) -> None:
    """The list of groups precedes the counts in the file, and fills a page or more."""
    program = "import os\nos.setgroups(range(100000, 103000))\n" + PROGRAM
    with subprocess.Popen([sys.executable, "-c", program, "2", "0.01", "60"]) as process:
        code, _, stream = observe(tmp_path, "--pid", str(process.pid), "--for", "2s")
        process.kill()
    assert code == 0
    assert _counted(stream)[2] >= 100


def test_a_process_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    code, errors, _ = observe(tmp_path, "--pid", "4194305")
    assert code == 2
    assert "there is no process 4194305" in errors
    assert len(errors.splitlines()) == 2  # and its remedy


def test_without_a_process_it_is_skipped(tmp_path: Path) -> None:
    code, _, stream = observe(tmp_path)
    assert code == 77
    assert stream.trailer.reason == "no process was given"


def test_without_the_tracepoints_it_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "stream.cbor"
    hidden = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none {TRACING}; exec "$@"', "sh"]
    words = [str(find_agent()), "run", "observe", "--pid", str(os.getpid()), "--output", str(path)]
    done = subprocess.run([*hidden, *words], capture_output=True, check=False, timeout=60)
    trailer = read(path).trailer
    assert done.returncode == 77
    assert "mount tracefs" in trailer.remedy


def test_nothing_is_left_when_the_agent_is_killed(tmp_path: Path) -> None:
    words = [
        str(find_agent()),
        "run",
        "observe",
        "--for",
        "60s",
        "--output",
        str(tmp_path / "stream"),
    ]
    with subprocess.Popen([*INSIDE, *words, "--pid", str(os.getpid())]) as agent:
        until(lambda: "rtgauge" in _instances())
        assert f"rtgauge-{agent.pid}" in _instances()
        agent.send_signal(signal.SIGKILL)
    until(lambda: f"rtgauge-{agent.pid}" not in _instances())
