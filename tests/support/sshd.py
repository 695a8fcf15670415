# SPDX-License-Identifier: Apache-2.0
"""A real sshd for tests: its own configuration and keys, on a high port of 127.0.0.1; the ssh of
PATH is one that knows it. It is an ordinary child; nothing outside the test's folder is used."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

SSHD = Path("/usr/sbin/sshd")
PATIENCE_S = 120.0


def user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def missing() -> str:
    """Why sshd cannot run here, or empty."""
    if not SSHD.is_file() or shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        return "needs OpenSSH's server and client (Debian: openssh-server, openssh-client)"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam("sshd")
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        except (KeyError, OSError) as error:
            return f"sshd cannot run as root here: {error}"
    return ""


def key(path: Path) -> str:
    """Make a pair of keys; the public one."""
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", path],
        check=True,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
    )
    return path.with_suffix(".pub").read_text()


def children(parent: int) -> list[int]:
    """The processes that a process has begotten, and theirs."""
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            found.setdefault(int(fields[1]), []).append(int(entry.name))
    out, look = [], [parent]
    while look:
        below = found.get(look.pop(), [])
        out += below
        look += below
    return out


class Reached:
    """A server on a port of 127.0.0.1 with keys of its own, and the ssh that knows it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.client_key = key(folder / "client")
        self.port = 0

    def choose_port(self) -> None:
        """Take a port that is free."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def know(self, host_key: str) -> None:
        """Let the client know the host by that key; by none if it is empty."""
        name = f"[127.0.0.1]:{self.port}"
        (self.folder / "known").write_text(f"{name} {host_key}" if host_key else "")

    def client(self, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
        """Put an ssh first in PATH that knows ``board``."""
        monkeypatch.setenv("PATH", f"{self.programs(*lines)}:{os.environ['PATH']}")
        monkeypatch.setenv("TMPDIR", str(self.folder))

    def programs(self, *lines: str) -> Path:
        """The folder of that ssh, its configuration with these lines added."""
        configuration = [
            "Host board",
            "HostName 127.0.0.1",
            f"Port {self.port}",
            "Host *",
            f"IdentityFile {self.folder}/client",
            "IdentitiesOnly yes",
            "IdentityAgent none",
            f"UserKnownHostsFile {self.folder}/known",
            "GlobalKnownHostsFile none",
            *lines,
        ]
        (self.folder / "ssh_config").write_text("\n".join(configuration) + "\n")
        programs = self.folder / "bin"
        programs.mkdir(exist_ok=True)
        real = shutil.which("ssh", path=os.defpath)
        (programs / "ssh").write_text(f'#!/bin/sh\nexec {real} -F {self.folder}/ssh_config "$@"\n')
        (programs / "ssh").chmod(0o755)
        return programs


class Sshd(Reached):
    """OpenSSH's server, known as host ``board``."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.host_key = key(folder / "host")
        (folder / "authorized").write_text(self.client_key)
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.state = folder / "state"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *lines: str, environment: Mapping[str, str] | None = None) -> None:
        """Start it, with these lines added to its configuration."""
        self.choose_port()
        there = {
            "TMPDIR": str(self.temporary),
            "RTGAUGE_STATE": str(self.state),
            **(environment or {}),
        }
        configuration = [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self.folder}/host",
            f"AuthorizedKeysFile {self.folder}/authorized",
            "PidFile none",
            "UsePAM no",
            "StrictModes no",
            "PermitRootLogin yes",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "SetEnv " + " ".join(f'"{name}={value}"' for name, value in there.items()),
            *lines,
        ]
        (self.folder / "sshd_config").write_text("\n".join(configuration) + "\n")
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", self.folder / "sshd_config"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.know(self.host_key)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert self.process.poll() is None, (self.folder / "log").read_text()
            try:
                socket.create_connection(("127.0.0.1", self.port), 1.0).close()
                return
            except OSError:
                assert time.monotonic() < deadline, "sshd does not listen"
                time.sleep(0.02)

    def sessions(self) -> list[int]:
        """sshd's own processes for its connections."""
        assert self.process is not None
        found = []
        for pid in children(self.process.pid):
            try:
                name = Path(f"/proc/{pid}/comm").read_text()
            except OSError:
                continue
            if name.startswith("sshd"):
                found.append(pid)
        return found

    def cut(self) -> None:
        """End every connection at once, without a word."""
        for pid in self.sessions():
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.kill(pid, signal.SIGKILL)

    def left(self) -> list[str]:
        """What is left in the folder for temporary files there."""
        return sorted(entry.name for entry in self.temporary.iterdir())

    def stop(self) -> None:
        if self.process is not None:
            self.cut()
            self.process.kill()
            self.process.wait(PATIENCE_S)
