# SPDX-License-Identifier: Apache-2.0
"""A shell command as a load, and loads with a schedule, under the real agent: nothing stays."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rtgauge.stream import Event, Header, Trailer, Work, read_stream
from test_loads import AGENT, processes_with, wait_until_none

# One is deaf to signals, the other leaves group and parents. Their arguments mark them.
# language-ok: shell code
DEAF = "sh -c 'trap \"\" TERM INT HUP; while :; do sleep 7; done' &"
DETACHED = "(setsid sleep 7777 &);"
UNTIL_KILLED = "give a command that runs until it is killed"
SCHEDULED = "sched:groups=1:fds=2:restart=1h"


def words(output: Path, *more: str, seconds: str = "1h") -> list[str]:
    return [AGENT, "run", "timer", "--interval", "10ms", "--for", seconds, *more,
            "--output", str(output)]  # fmt: skip


def mark(tmp_path: Path) -> str:
    return f"RTGAUGE_STATE={tmp_path / 'state'}"


def run(tmp_path: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words(tmp_path / "stream.cbor", *more, seconds="3s"),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@contextmanager
def running(tmp_path: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """The agent, when samples come."""
    output = tmp_path / "stream.cbor"
    with subprocess.Popen(words(output, *more), stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while not output.exists() or output.stat().st_size < 8192:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
        try:
            yield process
        finally:
            process.kill()


def find(tmp_path: Path, wanted: Callable[[Path], bool]) -> int:
    """A process of the agent's, whatever its parent, for which ``wanted`` holds."""
    until = time.monotonic() + 60
    while True:
        for pid in processes_with(mark(tmp_path)):
            try:
                if wanted(Path(f"/proc/{pid}")):
                    return pid
            except OSError:
                continue
        assert time.monotonic() < until
        time.sleep(0.02)


def parent_of(process: Path) -> int:
    return int((process / "stat").read_text().rpartition(")")[2].split()[1])


def is_program(words: bytes) -> Callable[[Path], bool]:
    return lambda process: (process / "cmdline").read_bytes() == words


@pytest.mark.slow
def test_command_is_a_load_with_its_cpu_time_as_work(tmp_path: Path) -> None:
    text = "while :; do (i=0; while [ $i -lt 9999 ]; do i=$((i+1)); done); done"
    done = run(tmp_path, "--load-cmd", text)
    assert done.returncode == 0, done.stderr
    records = list(read_stream(tmp_path / "stream.cbor"))
    assert isinstance(records[0], Header)
    assert (records[0].load, records[0].load_command) == ("idle", text)
    work = [record for record in records if isinstance(record, Work)]
    assert {(record.load, record.unit) for record in work} == {("command", "ms")}
    assert sum(record.count for record in work) > 0
    wait_until_none(mark(tmp_path))


@pytest.mark.parametrize(
    ("text", "said", "remedy"),
    [
        ("true", "ended by itself with exit status 0", UNTIL_KILLED),
        (
            "echo one >&2; echo two >&2; exit 3",
            "ended by itself with exit status 3: two",
            UNTIL_KILLED,
        ),
        ("kill -9 $$", "killed by signal 9", "find out what killed it"),
        ("sleep 7777 & exit 5", "ended by itself with exit status 5", UNTIL_KILLED),
        (
            "echo not found >&2; exit 127",  # as a shell does for a program that is not installed
            "ended by itself with exit status 127: not found",
            "install the program on the target, or give its path",
        ),
    ],
)
def test_command_that_ends_makes_the_step_invalid(
    tmp_path: Path, text: str, said: str, remedy: str
) -> None:
    done = run(tmp_path, "--load-cmd", text)
    assert done.returncode == 1
    assert f"load command: {said}\n  {remedy}\n" in done.stderr
    trailer = list(read_stream(tmp_path / "stream.cbor"))[-1]
    assert isinstance(trailer, Trailer)
    assert trailer.state == "failed"
    wait_until_none(mark(tmp_path))


def test_command_dies_in_the_middle(tmp_path: Path) -> None:
    with running(tmp_path, "--load-cmd", f"{DETACHED} exec sleep 7778") as process:
        shell = find(tmp_path, is_program(b"sleep\0007778\0"))
        os.kill(shell, signal.SIGTERM)
        assert process.wait(60) == 1
        assert process.stderr is not None
        assert "load command: killed by signal 15" in process.stderr.read()
    events = [one for one in read_stream(tmp_path / "stream.cbor") if isinstance(one, Event)]
    assert any(one.event == "load" for one in events)
    wait_until_none(mark(tmp_path))


@pytest.mark.slow
def test_what_detaches_and_what_is_deaf_ends_with_the_step(tmp_path: Path) -> None:
    done = run(tmp_path, "--load-cmd", f"{DETACHED} {DEAF} sleep 7779", "--load", "cpu")
    assert done.returncode == 0, done.stderr
    assert not processes_with(mark(tmp_path))


@pytest.mark.parametrize("whom", ["agent", "leader"])
def test_command_ends_when_one_above_it_is_killed(tmp_path: Path, whom: str) -> None:
    with running(tmp_path, "--load-cmd", f"{DETACHED} {DEAF} sleep 7779") as process:
        find(tmp_path, is_program(b"sleep\0007777\0"))
        leader = find(tmp_path, lambda found: (found / "comm").read_text() == "load/command\n")
        os.kill(process.pid if whom == "agent" else leader, signal.SIGKILL)
        assert process.wait(60) == (-signal.SIGKILL if whom == "agent" else 1)
        wait_until_none(mark(tmp_path))


@pytest.mark.parametrize("whom", ["agent", "supervisor", "sub-leader", "leaf"])
@pytest.mark.slow
def test_load_with_a_schedule_ends_when_one_of_it_is_killed(tmp_path: Path, whom: str) -> None:
    with running(tmp_path, "--load", SCHEDULED) as process:
        pids = {"agent": process.pid}
        above = process.pid
        for one in ("supervisor", "sub-leader", "leaf"):
            above = pids[one] = find(
                tmp_path,
                lambda found, above=above: (  # type: ignore[misc]
                    parent_of(found) == above and (found / "comm").read_text() == "load/sched\n"
                ),
            )
        os.kill(pids[whom], signal.SIGKILL)
        assert process.wait(60) == (-signal.SIGKILL if whom == "agent" else 1)
        wait_until_none(mark(tmp_path))
        assert process.stderr is not None
        if whom != "agent":
            said = process.stderr.read()
            # of a leaf the other end of its socket may be the first to say so
            reset = whom == "leaf" and "Connection reset by peer" in said
            assert "killed by signal 9" in said or reset, said


@pytest.mark.slow
def test_load_starts_again_and_again(tmp_path: Path) -> None:
    done = run(tmp_path, "--load", "sched:groups=1:fds=2:restart=300ms,cpu:cycle=1s:from=500ms")
    assert done.returncode == 0, done.stderr
    work = [one for one in read_stream(tmp_path / "stream.cbor") if isinstance(one, Work)]
    assert {one.load for one in work if one.count} == {"sched", "cpu"}
    wait_until_none(mark(tmp_path))
