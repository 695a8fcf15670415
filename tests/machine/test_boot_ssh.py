# SPDX-License-Identifier: Apache-2.0
"""Reboots by a command of the user over a real ssh connection. The board's sshd goes away and comes
back, and a script in the agent's place tells the boot and the arguments from files."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import waiting
from rtgauge.engine.boot import Booter, check_booted
from rtgauge.engine.environment import read_facts
from rtgauge.errors import TargetError
from rtgauge.target import ssh
from rtgauge.target.ssh import SshTarget
from sshd import PATIENCE_S, SSHD, Sshd, missing
from streams import booted

BEFORE_S = 1000


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """A server that can be reached as ``ssh://board``. Its agent says what is in ``now``, and after
    the boot what is in ``next``."""
    if why := missing():
        pytest.skip(why)
    server = Sshd(tmp_path / "sshd")
    (tmp_path / "now").write_bytes(booted(1, "", BEFORE_S))
    (tmp_path / "next").write_bytes(booted(2, "a=1 b=2"))
    agent = tmp_path / "agent"
    agent.write_text(f"#!/bin/sh\ncat {tmp_path}/now\n")
    monkeypatch.setattr(ssh, "agent_for", lambda *_: agent)
    monkeypatch.setattr("rtgauge.engine.boot.RETRY_S", 0.05)
    try:
        server.start()
        server.client(monkeypatch)
        yield server
    finally:
        server.stop()


def opened(_name: str = "") -> SshTarget:
    target = SshTarget("//board")
    target.reconnect_s = 0
    return target


@contextlib.contextmanager
def booting(command: str, patience_s: float = PATIENCE_S) -> Iterator[Booter]:
    booter = Booter(opened(), command, patience_s, opened)
    try:
        yield booter
    finally:
        booter.target.close()


def go_on() -> bool:
    """It is not stopped."""
    return False


until = partial(waiting.until, patience_s=PATIENCE_S)


@pytest.mark.slow
def test_the_connection_is_lost_in_the_reboot_and_the_board_comes_back(
    board: Sshd, tmp_path: Path
) -> None:
    command = (
        f"ssh board 'cp {tmp_path}/next {tmp_path}/now && touch {tmp_path}/down && sleep 600 #'"
    )
    refused: list[str] = []

    def again(_name: str) -> SshTarget:
        try:
            return opened()
        except TargetError as error:
            refused.append(error.message)
            raise

    def restart() -> None:
        until((tmp_path / "down").exists)
        board.stop()
        until(lambda: refused)  # it is asked for while it is away
        board.process = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", board.folder / "sshd_config"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    with booting(command) as booter:
        booter._reopen = again
        power = threading.Thread(target=restart)
        power.start()
        try:
            booter.boot(["a=1", "b=2"], go_on)
        finally:
            power.join(PATIENCE_S)
        assert refused
        _, facts, _ = read_facts(booter.target.environment())
        check_booted(facts, ["a=1", "b=2"], ["c=1"])


@pytest.mark.slow
def test_a_board_that_stays_away_is_named_with_the_lost_connection(
    board: Sshd, tmp_path: Path
) -> None:
    command = f"ssh board 'touch {tmp_path}/down && sleep 600 #'"

    def cut() -> None:
        until((tmp_path / "down").exists)
        board.stop()

    with booting(command, 0.5) as booter:
        power = threading.Thread(target=cut)
        power.start()
        with pytest.raises(TargetError, match="did not return within 0 s") as caught:
            booter.boot(["a=1"], go_on)
        power.join(PATIENCE_S)
    assert "and --boot-cmd ended with code 255" in caught.value.message


@pytest.mark.slow
def test_a_command_that_only_logs_in_is_not_a_reboot(board: Sshd) -> None:
    with (
        booting("ssh board true", 0.5) as booter,
        pytest.raises(TargetError, match="has not rebooted since --boot-cmd"),
    ):
        booter.boot(["a=1"], go_on)


@pytest.mark.slow
@pytest.mark.parametrize("rebooted", [True, False])
def test_a_connection_lost_before_the_reboot_proves_nothing(
    board: Sshd, tmp_path: Path, rebooted: bool
) -> None:
    """The boot id before is not known then, so the board must have started after the command."""
    command = f"ssh board 'cp {tmp_path}/next {tmp_path}/now #'" if rebooted else "true"
    with booting(command, PATIENCE_S if rebooted else 0.5) as booter:
        board.cut()
        agent = booter.target.environment
        booter.target.environment = lambda: _lost(agent)  # type: ignore[method-assign]
        if rebooted:
            booter.boot(["a=1"], go_on)
        else:
            with pytest.raises(TargetError, match="has not rebooted since --boot-cmd"):
                booter.boot(["a=1"], go_on)


def _lost(agent: Callable[[], bytes]) -> bytes:
    """A target that lost its connection says so, or connects again: here it says so."""
    with contextlib.suppress(TargetError):
        agent()
    raise TargetError("connection lost")


@pytest.mark.slow
def test_a_command_that_hangs_is_ended_with_what_it_started(
    board: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtgauge.engine.boot.COMMAND_S", 3.0)
    command = f"ssh board 'echo $$ >{tmp_path}/pid; sleep 600'; true"
    with booting(command) as booter:
        before = len(board.sessions())
        with pytest.raises(TargetError, match="did not end within 3 s"):
            booter.boot(["a=1"], go_on)
        until(lambda: len(board.sessions()) <= before)
