# SPDX-License-Identifier: Apache-2.0
"""The host with the real agent over a real sshd, at no priority and with no setting changed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import waiting
from conftest import Run
from rtgauge.errors import TargetError
from rtgauge.target.base import lost_of
from rtgauge.target.ssh import SshAgent, SshTarget, agent_for
from sshd import Sshd, missing
from test_restore import RT_RUNTIME, _writable
from test_run_local import HARMLESS, Spawn, agents, check_periods, result
from test_settings_guardian import wait_until_gone

PATIENCE_S = 300.0
STREAM = "[!.]*/steps/000/stream.cbor"
TARGET = ("--target", "ssh://board")
# Passes on what ssh sends, and what comes back no faster than so many bytes a second.
THROTTLE = """
import os, socket, sys, threading, time

peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))

def send():
    while data := os.read(0, 65536):
        peer.sendall(data)
    peer.shutdown(socket.SHUT_WR)

threading.Thread(target=send, daemon=True).start()
while data := peer.recv(2048):
    time.sleep(len(data) / float(sys.argv[2]))
    os.write(1, data)
"""


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """A server that can be reached as ``ssh://board``."""
    if why := missing():
        pytest.skip(why)
    try:
        agent_for(os.uname().machine)
    except TargetError as error:
        pytest.skip(f"{error.message}; {error.remedy}")
    server = Sshd(tmp_path / "sshd")
    try:
        server.start()
        server.client(monkeypatch)
        yield server
    finally:
        server.stop()
        # an agent without a returning host ends when that is gone
        shutil.rmtree(server.temporary, ignore_errors=True)


# Encryption and a process for each session take their time on a crowded machine.
until = partial(waiting.until, patience_s=PATIENCE_S)


def measuring(spawn: Spawn, *words: str) -> tuple[subprocess.Popen[str], str]:
    """A host in the middle of measuring, and the id of its run."""
    process = spawn("run", *words, *HARMLESS, *TARGET)

    def grown() -> str:
        assert process.poll() is None, process.communicate()[1]
        for path in Path("data/runs").glob(STREAM):
            if path.stat().st_size > 20_000:
                return path.parents[2].name
        return ""

    return process, str(until(grown))


@pytest.mark.slow
@pytest.mark.study(5)
def test_traffic_to_the_sink_of_the_host(board: Sshd, rtgauge: Run) -> None:
    load = "net:burst=50ms:pause=0:peer=host"
    words = ("run", "timer", "--samples", "500", "--for", "0", "--load", load, *HARMLESS, *TARGET)
    done = rtgauge(*words, "--json")
    assert done.code == 0, done.err
    (run,) = done.json()["runs"]
    timer = next(step for step in run["steps"] if step["measurement"] == "timer")
    assert (timer["state"], timer["load"]["name"]) == ("complete", load)
    (net,) = timer["load"]["loads"]
    assert net["work"] > 0
    assert timer["load"]["interrupts_per_s"] > 0


@pytest.mark.slow
def test_a_whole_run(board: Sshd, rtgauge: Run) -> None:
    words = ("run", "timer", "--samples", "800", "--for", "0", "--load", "cpu", *HARMLESS, *TARGET)
    done = rtgauge(*words, "--json")
    assert done.code == 0, done.err
    (run,) = done.json()["runs"]
    assert run["target"] == "ssh://board"
    assert {step["state"] for step in run["steps"]} == {"complete"}
    timer = next(step for step in run["steps"] if step["measurement"] == "timer")
    assert timer["load"]["work_rate"] > 0
    (series,) = [one for one in run["series"] if one["step"] == timer["step"]]
    assert series["count"] == 800
    assert (series["source"], timer["reason"] or "") == ("samples", "")
    connection = run["environment"]["connection"]
    assert connection["machine"] == run["environment"]["kernel"]["machine"]
    assert connection["agent"] == f"rtgauge-agent-{os.uname().machine}-musl"
    assert Path(connection["folder"]).parent == board.temporary
    assert float(connection["bytes_per_s"]) > 0
    assert "musl" in run["environment"]["libc"]
    assert board.left() == []
    rtgauge("report", "last", "-o", "report.html", "--store", "data")
    assert connection["folder"] in Path("report.html").read_text()


@pytest.mark.slow
def test_looking_at_a_board(board: Sshd, rtgauge: Run) -> None:
    document = rtgauge("describe", "--json", *TARGET).json()
    assert "timer" in {entry["name"] for entry in document["measurements"]}
    found = rtgauge("check", "--json", *TARGET).json()
    assert found["target"] == "ssh://board"
    assert found["findings"]
    assert board.left() == []


@pytest.mark.slow
def test_ctrl_c(board: Sshd, rtgauge: Run, spawn: Spawn) -> None:
    process, run = measuring(spawn, "timer", "--for", "1h")
    assert agents(run)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4, err
    found = result(rtgauge, run)
    assert found["steps"][0]["state"] == "interrupted"
    assert found["steps"][0]["stream"]["complete"] is True
    check_periods(found)
    assert agents(run) == []
    assert board.left() == []


def two_steps(time_: str) -> str:
    Path("plan.toml").write_text(
        '[plan]\nname = "two"\n' + f'[[step]]\nmeasurement = "timer"\nfor = "{time_}"\n' * 2
    )
    return "plan.toml"


@pytest.mark.slow
def test_a_connection_that_is_cut_in_the_middle(board: Sshd, rtgauge: Run, spawn: Spawn) -> None:
    process, run = measuring(spawn, two_steps("8s"), "--interval", "1ms")
    board.cut()
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert "The agent continues there. Reconnecting" in err
    assert "reconnected after" in err
    found = result(rtgauge, run)
    assert [step["state"] for step in found["steps"][:2]] == ["complete"] * 2
    for series in found["series"][:2]:
        assert series["count"] + series["missed"] == 8000
        assert (series["lost"], series["source"]) == (0, "samples")
    check_periods(found)
    assert "the connection was lost once, for" in found["steps"][0]["reason"]
    assert not found["steps"][1]["reason"]
    connection = found["environment"]["connection"]
    assert connection["reconnected"] == "1"
    assert float(connection["away_s"]) > 0
    assert agents(run) == []
    until(lambda: board.left() == [])


@pytest.mark.slow
def test_cut_five_times(board: Sshd, rtgauge: Run, spawn: Spawn) -> None:
    process, run = measuring(spawn, "timer", "--for", "20s", "--interval", "1ms")
    cuts = 0
    while process.poll() is None and cuts < 5:
        until(lambda: process.poll() is not None or len(board.sessions()) > 0)
        time.sleep(1.0 + cuts / 3)
        board.cut()
        cuts += 1
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    found = result(rtgauge, run)
    assert found["series"][0]["count"] + found["series"][0]["missed"] == 20_000
    assert found["series"][0]["lost"] == 0
    assert 2 <= int(found["environment"]["connection"]["reconnected"]) <= cuts
    until(lambda: not agents(run))
    until(lambda: board.left() == [])


@pytest.mark.slow
def test_a_cut_that_is_not_to_be_mended(board: Sshd, rtgauge: Run, spawn: Spawn) -> None:
    process, run = measuring(spawn, two_steps("1h"), "--reconnect", "0")
    board.cut()
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4, err
    assert "the connection to ssh://board was lost" in err
    found = result(rtgauge, run)
    assert found["state"] == "interrupted"
    assert [step["state"] for step in found["steps"][:2]] == ["interrupted", "skipped"]
    assert "connection" in found["steps"][0]["reason"]
    assert "connection" in found["steps"][1]["reason"]
    check_periods(found)
    until(lambda: not agents(run))
    until(lambda: board.left() == [])


@pytest.mark.slow
def test_a_board_that_stays_away(board: Sshd, rtgauge: Run, spawn: Spawn) -> None:
    process, run = measuring(spawn, two_steps("1h"), "--reconnect", "2s")
    board.stop()
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4, err
    assert "lost and could not be restored" in err
    found = result(rtgauge, run)
    assert [step["state"] for step in found["steps"][:2]] == ["interrupted", "skipped"]
    check_periods(found)
    # 30 s more than the host tries
    until(lambda: not agents(run))
    until(lambda: board.left() == [])


@pytest.mark.slow
def test_ctrl_c_while_the_board_is_away(board: Sshd, rtgauge: Run, spawn: Spawn) -> None:
    process, run = measuring(spawn, "timer", "--for", "1h", "--reconnect", "1m")
    board.stop()
    time.sleep(3.0)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4, err
    found = result(rtgauge, run)
    assert found["steps"][0]["state"] == "interrupted"
    check_periods(found)
    for pid in agents(run):
        os.kill(pid, signal.SIGTERM)
    until(lambda: not agents(run))


@pytest.mark.slow
def test_kill_9_of_the_host(board: Sshd, rtgauge: Run, spawn: Spawn) -> None:
    process, run = measuring(spawn, "timer", "--for", "1h")
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    until(lambda: not agents(run))
    until(lambda: board.left() == [])
    check_periods(result(rtgauge, run))


@pytest.mark.slow
@pytest.mark.usefixtures("limited_real_time")
@pytest.mark.skipif(not _writable(RT_RUNTIME), reason=f"{RT_RUNTIME} cannot be changed here")
def test_settings_of_a_board_whose_agent_and_guardian_were_killed(
    board: Sshd, spawn: Spawn
) -> None:
    before = RT_RUNTIME.read_text()
    process = spawn("run", "timer", "--for", "1h", "--cpu", "0", "--store", "data", *TARGET)

    def changed() -> str:
        assert process.poll() is None, process.communicate()[1]
        begun = [path.parents[2].name for path in Path("data/runs").glob(STREAM)]
        return begun[0] if begun and RT_RUNTIME.read_text() == "-1\n" else ""

    run = str(until(changed))
    names = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in agents(run)}
    [guardian] = [pid for pid, name in names.items() if name == "rtgauge-guard"]
    status = Path(f"/proc/{guardian}/status").read_text()
    agent = int(status.split("PPid:")[1].split()[0])
    os.kill(guardian, signal.SIGKILL)
    wait_until_gone(guardian)
    assert RT_RUNTIME.read_text() == "-1\n"
    os.kill(agent, signal.SIGKILL)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert RT_RUNTIME.read_text() == before
    assert "ssh://board: the agent and its guardian were killed" in err


@pytest.fixture
def measured(board: Sshd) -> Iterator[tuple[SshTarget, SshAgent]]:
    """An agent with a spool, from which something has come."""
    with contextlib.closing(SshTarget("//board")) as target:
        folder = target.connection["folder"]
        words = ("--for", "1h", "--priority", "0", "--keep-settings", "--cpu", "0")
        with contextlib.closing(target.start(["run", "timer", *words, "--run", folder])) as agent:
            until(lambda: agent.read(0.1))
            yield target, agent
    until(lambda: not agents(folder))
    until(lambda: board.left() == [])
    until(lambda: len(board.sessions()) == 0)


def spool_of(target: SshTarget) -> int:
    [pid] = [
        pid
        for pid in agents(target.connection["folder"])
        if Path(f"/proc/{pid}/comm").read_text() == "rtgauge-spool\n"
    ]
    return pid


@pytest.mark.slow
def test_a_kill_after_the_way_back_hits_nobody_else(
    board: Sshd, measured: tuple[SshTarget, SshAgent]
) -> None:
    target, agent = measured
    board.cut()
    until(lambda: agent.read(0.1) is None and agent.away)
    until(lambda: agent.read(0.1))
    # the number of the session that was cut is another process's by now
    with subprocess.Popen(["sleep", "600"]) as another:
        try:
            Path(target.connection["folder"], "pid1").write_text(f"{another.pid}\n")
            spool = spool_of(target)
            os.kill(spool, signal.SIGSTOP)
            agent.kill()
            os.kill(spool, signal.SIGCONT)
            assert another.poll() is None
        finally:
            another.kill()


@pytest.mark.slow
def test_a_kill_over_a_network_that_is_silent(
    board: Sshd, measured: tuple[SshTarget, SshAgent]
) -> None:
    target, agent = measured
    silent = board.sessions()
    for pid in silent:
        os.kill(pid, signal.SIGSTOP)
    try:
        agent.kill()
        # ssh itself has not noticed yet
        assert lost_of(target) == ""
        # no way back is looked for
        assert until(lambda: agent.wait(5.0)) == 4
        assert agent.away == ""
        assert "could not be restored (given up)" in agent.messages()
    finally:
        for pid in silent:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.slow
def test_an_agent_that_is_gone_when_the_connection_is_there_again(
    board: Sshd, measured: tuple[SshTarget, SshAgent]
) -> None:
    target, agent = measured
    spool = spool_of(target)
    board.cut()
    os.kill(spool, signal.SIGKILL)
    assert until(lambda: agent.wait(0.1)) == 4
    assert (
        "was lost and could not be restored (the agent no longer exists there" in agent.messages()
    )


@pytest.mark.slow
def test_a_way_back_that_was_given_up_leaves_nothing(
    board: Sshd, measured: tuple[SshTarget, SshAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, agent = measured
    throttle(board, monkeypatch, 1_000_000, "sleep 2;")
    board.cut()
    until(lambda: agent.read(0.1) is None and agent.away)
    time.sleep(0.5)
    agent.kill()
    assert agent.read(0.1) == b""
    assert agent.wait(0.1) == 4
    agent.close()
    target.close()
    # long enough for the connection that was being made
    time.sleep(3.0)
    until(lambda: threading.active_count() == 1)
    until(lambda: len(board.sessions()) == 0)
    # the agent would continue for as long as a host may come back
    shutil.rmtree(target.connection["folder"], ignore_errors=True)


def throttle(board: Sshd, monkeypatch: pytest.MonkeyPatch, rate: int, before: str = "") -> None:
    """Let the link carry so many bytes a second, after ``before``."""
    Path("throttle.py").write_text(THROTTLE)
    path = Path("throttle.py").absolute()
    # ssh itself puts an exec before it
    command = f"{sys.executable} {path} {board.port} {rate}"
    if before:
        command = f"sh -c '{before} exec {command}'"
    board.client(monkeypatch, f"ProxyCommand {command}")


def test_ctrl_c_before_anything_is_measured(
    board: Sshd, spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the agent is seconds on its way
    throttle(board, monkeypatch, 100_000)
    process = spawn("check", *TARGET)
    until(board.left)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert board.left() == []


@pytest.mark.slow
def test_a_thin_link_carries_histograms(
    board: Sshd, rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate = 100_000
    throttle(board, monkeypatch, rate)
    words = ("run", "timer", "--interval", "100us", "--for", "2s", *HARMLESS, *TARGET)
    done = rtgauge(*words, "--json")
    assert done.code == 0, done.err
    assert "histograms only: the samples need" in done.err
    (run,) = done.json()["runs"]
    assert 0 < float(run["environment"]["connection"]["bytes_per_s"]) <= rate
    timer = next(step for step in run["steps"] if step["measurement"] == "timer")
    assert "the link carries" in timer["reason"]
    (series,) = [one for one in run["series"] if one["step"] == timer["step"]]
    assert series["source"] == "histogram"
    assert series["lost"] == 0
    assert series["count"] > 0
