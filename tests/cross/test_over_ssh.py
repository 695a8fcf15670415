# SPDX-License-Identifier: Apache-2.0
"""Boards of other architectures over a real sshd: which agent they get, and that it measures there.

The board is this machine, where ``uname`` and ``cat`` say what those of the other architecture
would. It cannot start that agent by itself: what is copied there starts it in an emulation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Run
from emulation import emulator
from rtgauge.architectures import ARCHITECTURES, Architecture
from rtgauge.errors import TargetError
from rtgauge.lab.programs import static_agent
from rtgauge.target import ssh
from sshd import Sshd, missing
from test_run_local import HARMLESS

Board = Callable[..., Sshd]
BIG_ENDIAN = struct.pack(">8I", 16, 0, 6, 4096, 17, 100, 0, 0)
LITTLE_ENDIAN = struct.pack("<8I", 16, 1 << 6 | 1 << 13, 6, 4096, 17, 100, 0, 0)


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Board]:
    """Makes a server that says it is a machine of that kind."""
    if why := missing():
        pytest.skip(why)
    server = Sshd(tmp_path / "sshd")

    def start(machine: str, auxv: bytes) -> Sshd:
        programs = server.folder / "there"
        programs.mkdir()
        (programs / "auxv").write_bytes(auxv)
        uname = f'#!/bin/sh\n[ "$1" = -m ] && echo {machine} || exec /bin/uname "$@"\n'
        cat = (
            f'#!/bin/sh\n[ "$1" = /proc/self/auxv ] && exec /bin/cat {programs}/auxv\n'
            'exec /bin/cat "$@"\n'
        )
        for name, text in (("uname", uname), ("cat", cat)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        path = f"PATH={programs}:$PATH; export PATH"
        server.start(f'ForceCommand {path}; exec sh -c "$SSH_ORIGINAL_COMMAND"')
        server.client(monkeypatch)
        return server

    yield start
    server.stop()


def in_emulation(folder: Path, arch: Architecture) -> Path:
    """A program that starts the agent in the emulator."""
    program = folder / arch.agent
    agent = static_agent(arch, lambda _: None)  # its messages would precede the results
    program.write_text(f'#!/bin/sh\nexec prlimit --nofile=256 {emulator(arch)} {agent} "$@"\n')
    return program


@pytest.mark.parametrize(
    ("machine", "auxv", "name"),
    [("armv5tejl", LITTLE_ENDIAN, "armv5te"), ("mips", BIG_ENDIAN, "mips")],
)
def test_a_board_of_another_architecture(
    board: Board,
    rtgauge: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    machine: str,
    auxv: bytes,
    name: str,
) -> None:
    emulator(ARCHITECTURES[name])
    monkeypatch.setattr(ssh, "static_agent", lambda arch, _say: in_emulation(tmp_path, arch))
    server = board(machine, auxv)
    words = ("timer", "--samples", "200", "--for", "0", *HARMLESS, "--target", "ssh://board")
    done = rtgauge("run", *words, "--json")
    assert done.code == 0, done.err
    (run,) = done.json()["runs"]
    assert {step["state"] for step in run["steps"]} == {"complete"}
    (series,) = [one for one in run["series"] if one["measurement"] == "timer"]
    assert (series["count"], series["source"]) == (200, "samples")
    connection = run["environment"]["connection"]
    assert connection["machine"] == machine
    assert connection["agent"] == ARCHITECTURES[name].agent
    assert run["environment"]["libc"] == "musl"
    assert server.left() == []


def test_a_board_of_the_other_byte_order(board: Board) -> None:
    server = board("mips", LITTLE_ENDIAN)
    with pytest.raises(TargetError, match="'mips' in little-endian byte order"):
        ssh.SshTarget("//board")
    assert server.left() == []
