# SPDX-License-Identifier: Apache-2.0
"""How long an exchange with a board over ssh may take."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rtgauge.cli import module
from rtgauge.errors import TargetError
from rtgauge.target.ssh import connection
from rtgauge.target.ssh.connection import Connection, parse


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """A connection whose scripts run here."""

    def begin(_: Connection, command: str) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen(["sh", "-c", command], stdin=pipe, stdout=pipe, stderr=pipe)

    monkeypatch.setattr(Connection, "_open", lambda _: None)
    monkeypatch.setattr(Connection, "begin", begin)
    monkeypatch.setattr(connection, "EXCHANGE_S", 0.2)
    with contextlib.closing(Connection(parse("//board"), "ssh:board")) as made:
        yield made


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("place", ["subprocess.Popen", "tempfile.mkdtemp"])
def test_a_machine_that_cannot_start_ssh(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """It is not the store that cannot be written."""

    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/ssh")
    monkeypatch.setattr(place, fails)
    with pytest.raises(TargetError, match="ssh cannot be started: Resource temporarily") as caught:
        Connection(parse("//board"), "ssh:board")
    assert caught.value.remedy


@pytest.mark.parametrize("period", [".", ""])
def test_what_ssh_says_is_part_of_a_sentence(board: Connection, period: str) -> None:
    """A message had two periods: "closed by remote host.. Retrying the connection …"."""
    board._keeper = board.begin(f"echo 'Connection closed by remote host{period}' >&2")
    assert board._keeper.stderr is not None
    board._errors.follow(board._keeper.stderr)
    assert board.ended() == "Connection closed by remote host"


def test_a_second_ctrl_c_leaves_no_folder_here(
    board: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = board.begin("read -r line")
    board._keeper = keeper
    with keeper, monkeypatch.context() as patched:
        patched.setattr(keeper, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            board.close()
    assert not board._private.exists()


@pytest.mark.slow
def test_a_configuration_that_does_not_end_is_given_up(
    board: Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program that the configuration of ssh calls may hang."""
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nsleep 20\n")
    ssh.chmod(0o755)
    monkeypatch.setattr(board, "_ssh", str(ssh))
    monkeypatch.setattr(connection, "CONFIGURATION_S", 0.2)
    with pytest.raises(TargetError, match="'ssh -G' did not end within") as caught:
        board.destination()
    assert "Match exec" in caught.value.remedy


@pytest.mark.parametrize("stream", ["1", "2"])
def test_an_answer_that_trickles_is_given_up(board: Connection, stream: str) -> None:
    with pytest.raises(TargetError, match="on ssh:board has not ended after more than"):
        board.ask(f"while :; do printf x >&{stream}; sleep 0.05; done")


@pytest.mark.slow
def test_bytes_prolong_an_exchange(board: Connection) -> None:
    slow = "sleep 0.6; printf x"
    assert board.ask(f"head -c 90000 /dev/zero; {slow}").out == bytes(90000) + b"x"
    assert board.ask(f"cat >/dev/null; {slow}", data=bytes(90000)).out == b"x"


@pytest.mark.slow
def test_a_module_may_be_built_in_silence(
    board: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler's output goes into a file on the board."""
    begin, build = board.begin, "sleep 1.5; printf x"
    monkeypatch.setattr(connection, "STALL_S", 0.2)
    with pytest.raises(TargetError, match="sent nothing"):
        board.ask(build)
    monkeypatch.setattr(Connection, "begin", lambda *_: begin(build))
    assert module._carry_out("ssh://board", ["build"], b"")[:2] == (0, "x")


@pytest.mark.slow
def test_a_command_that_does_not_end_after_its_output(
    board: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error named the time of a build instead of the time of silence."""
    monkeypatch.setattr(connection, "STALL_S", 2.0)
    with pytest.raises(TargetError, match="sent nothing for 2 s"):
        board.ask("exec >&- 2>&-; exec sleep 60", work_s=1800)


def test_a_slow_serial_line_is_fast_enough() -> None:
    catalogue, baud = 1 << 20, 9600
    assert catalogue * 10 / baud < connection.EXCHANGE_S + catalogue / connection.BYTES_PER_S


def test_a_standstill_uses_up_no_time(board: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after Ctrl-Z, and fg ten minutes later: the command ran on, and its answer is there."""
    jumps = iter([0.0, 0.0, 0.0])
    real = time.monotonic
    monkeypatch.setattr(connection, "EXCHANGE_S", 600.0)
    monkeypatch.setattr(time, "monotonic", lambda: real() + next(jumps, 7000.0))
    assert board.ask("sleep 0.2; printf x").out == b"x"
