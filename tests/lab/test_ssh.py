# SPDX-License-Identifier: Apache-2.0
"""The host and an emulated board that it reaches over a network: BusyBox and dropbear, no more.

One board for all tests, which the last of them switches off. Its time is this machine's, so no test
says how long something takes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import waiting
from conftest import Run
from lab_boots import NEEDS_ARM
from lab_ssh import SshBoard
from rtgauge.architectures import ARCHITECTURES
from rtgauge.lab.cache import digest_of
from rtgauge.lab.programs import static_agent
from sshd import key
from test_run_local import Spawn, check_periods, result

pytestmark = [
    NEEDS_ARM,
    pytest.mark.skipif(
        shutil.which("ssh") is None or shutil.which("ssh-keygen") is None,
        reason="there is no ssh on this machine (Debian's package is openssh-client)",
    ),
]
PATIENCE_S = 300.0
# Settings that a run with --prepare changes there.
SETTINGS = "cat /proc/sys/kernel/sched_rt_runtime_us /proc/sys/kernel/timer_migration"
# One of each kind of the catalogue: latencies, rules, pairs of threads, processes; under a load.
PLAN = """
[plan]
name = "some of everything"

[[step]]
measurement = "timer"
context = ["irq", "kernel", "user"]
samples = 500

[[step]]
measurement = "timer"
samples = 500
load = "sched:groups=1"

[[step]]
measurement = "sem-order"

[[step]]
measurement = "mutex-inversion"
protocol = "inherit"

[[step]]
measurement = "thread-switch"
threads = "2,128"
samples = 200

[[step]]
measurement = "process-create"
samples = 10
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshBoard]:
    board = SshBoard(tmp_path_factory.mktemp("ssh") / "board")
    yield board
    board.off()


@pytest.fixture
def board(started: SshBoard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SshBoard:
    """The board, and this machine as one that knows it; the current folder is the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RTGAUGE_STORE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    started.know(started.host_key)
    started.client(monkeypatch)
    return started


until = partial(waiting.until, patience_s=PATIENCE_S)


def measuring(spawn: Spawn, board: SshBoard, *words: str) -> tuple[subprocess.Popen[str], str]:
    """A host in the middle of measuring there, and the id of its run."""
    process = spawn("run", *words, "--store", "data", "--target", board.target)

    def grown() -> str:
        assert process.poll() is None, process.communicate()[1]
        for path in Path("data").glob("**/steps/000/stream.cbor"):
            if path.stat().st_size > 20_000:
                return path.parents[2].name
        return ""

    return process, str(until(grown))


def test_looking_at_it(board: SshBoard, rtgauge: Run) -> None:
    done = rtgauge("check", "--json", "--target", board.target)
    assert done.code == 0, done.err
    document = done.json()
    assert document["target"] == board.target
    found = {one["check"]: one["found"] for one in document["findings"]}
    assert found["preemption"] == "PREEMPT_RT"
    assert board.left() == []


def test_a_run(board: SshBoard, rtgauge: Run) -> None:
    before = board.ask(SETTINGS)
    words = ("run", "timer", "--for", "5s", "--json", "--store", "data", "--target", board.target)
    done = rtgauge(*words)
    assert done.code == 0, done.err
    (run,) = done.json()["runs"]
    assert (run["target"], run["state"]) == (board.target, "complete")
    series = [one for one in run["series"] if one["step"] == 0]
    assert [one["cpu"] for one in series] == [0, 1]
    assert all(one["count"] > 0 and one["lost"] == 0 for one in series)
    environment = run["environment"]
    assert (environment["kernel"]["release"], environment["realtime"]) == (
        board.release,
        "preempt_rt",
    )
    agent = static_agent(ARCHITECTURES["arm64"], print)
    connection = environment["connection"]
    assert connection["machine"] == "aarch64"
    assert (connection["agent"], connection["agent_sha256"]) == (agent.name, digest_of(agent))
    assert connection["raised"] == ""
    folder = Path(connection["folder"])
    assert (str(folder.parent), folder.name[:8]) == ("/tmp", "rtgauge-")
    assert float(connection["bytes_per_s"]) > 0
    assert board.left() == []
    assert board.ask(SETTINGS) == before


def test_some_of_everything(board: SshBoard, rtgauge: Run) -> None:
    Path("plan.toml").write_text(PLAN)
    done = rtgauge("run", "plan.toml", "--json", "--store", "data", "--target", board.target)
    assert done.code == 0, done.err
    (run,) = done.json()["runs"]
    assert {step["state"] for step in run["steps"]} == {"complete"}, run["steps"]
    contexts = {one["context"] for one in run["series"] if one["step"] == 0}
    assert contexts == {"irq", "kernel", "user"}
    assert run["steps"][1]["load"]["work_rate"] > 0
    tests = [one for one in run["tests"] if one["result"] != "skipped"]
    assert {one["measurement"] for one in tests} >= {"sem-order", "mutex-inversion"}
    assert {one["result"] for one in tests} == {"pass"}, tests
    assert run["target"] == board.target
    assert board.release in str(run["environment"])
    assert board.left() == []


@pytest.mark.study(59)
@pytest.mark.study(127)
@pytest.mark.parametrize(("library", "loader"), [("glibc", "ld-linux-"), ("musl", "ld-musl-")])
def test_the_boards_own_c_library(board: SshBoard, rtgauge: Run, library: str, loader: str) -> None:
    linked = rtgauge("agent", "--arch", "arm64", "--libc", library, "-o", "linked", "--json")
    assert linked.code == 0, linked.err
    assert loader in linked.json()["loader"]
    words = ("--samples", "100", "--json", "--store", "data", "--target", board.target)
    done = rtgauge("run", "sem-contended", *words, "--agent", "linked")
    assert done.code == 0, done.err
    (run,) = done.json()["runs"]
    assert run["environment"]["libc"].split()[0] == library
    assert run["environment"]["compiler"].startswith("clang")
    assert run["environment"]["connection"]["agent"] == "linked"
    assert {step["state"] for step in run["steps"]} == {"complete"}
    assert board.left() == []


def test_another_host_key(board: SshBoard, rtgauge: Run, tmp_path: Path) -> None:
    board.know(key(tmp_path / "other"))
    done = rtgauge("run", "timer", "--for", "1s", "--store", "data", "--target", board.target)
    assert done.code == 1
    assert f"{board.target} cannot be reached: Host key verification failed" in done.err
    assert "differs from the known one" in done.err
    board.know(board.host_key)
    assert board.left() == []


def test_ctrl_c(board: SshBoard, rtgauge: Run, spawn: Spawn) -> None:
    before = board.ask(SETTINGS)
    process, run = measuring(spawn, board, "timer", "--for", "1h", "--prepare")
    assert board.agents()
    assert len(board.left()) == 1
    assert board.ask(SETTINGS) != before
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4, err
    found = result(rtgauge, run)
    assert found["steps"][0]["state"] == "interrupted"
    assert found["steps"][0]["stream"]["complete"] is True
    check_periods(found)
    assert board.left() == []
    until(lambda: not board.agents())
    assert board.ask(SETTINGS) == before


def test_it_is_switched_off(board: SshBoard, rtgauge: Run, spawn: Spawn) -> None:
    """The last test: what had come is kept, and nothing waits for a board that is no more."""
    Path("plan.toml").write_text(
        '[plan]\nname = "two"\n' + '[[step]]\nmeasurement = "timer"\nfor = "1h"\n' * 2
    )
    process, run = measuring(spawn, board, "plan.toml", "--reconnect", "2s")
    assert board.machine.pid is not None
    os.kill(board.machine.pid, signal.SIGKILL)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4, err
    assert f"the connection to {board.target} was lost and could not be restored" in err
    found = result(rtgauge, run)
    assert found["state"] == "interrupted"
    assert [step["state"] for step in found["steps"][:2]] == ["interrupted", "skipped"]
    check_periods(found)
    done = rtgauge("check", "--target", board.target)
    assert done.code == 1
    assert f"{board.target} cannot be reached" in done.err
