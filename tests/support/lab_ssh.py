# SPDX-License-Identifier: Apache-2.0
"""A board of the lab that is reached with ssh over its network, as one on a desk is.

Its userland is busybox and dropbear alone: what the lab boots, and a second archive next to its
kernel with Debian's dropbear, its libraries and the driver of a network card. The
guest program's last order is to serve; from then on the board is talked to with ssh. QEMU's network
leads nowhere but to a port of 127.0.0.1 here.

By hand: ``.venv/bin/python tests/support/lab_ssh.py [BOARD]`` boots one and says how it
is reached.
"""

from __future__ import annotations

import io
import lzma
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from rtgauge.lab.boards import Board
from rtgauge.lab.cache import cache_folder, locked, new_file, remove
from rtgauge.lab.kernels import Unpacked, known_kernel
from rtgauge.lab.machine import Machine
from rtgauge.lab.packages import Apt, Package
from rtgauge.target.lab import LabTarget
from sshd import PATIENCE_S, Reached

BOARD: Final = "arm64-rt-6.1"
SERVER: Final = "dropbear-bin"
#: A second C library, next to the one that the server needs.
MUSL: Final = "musl"
#: A network card whose driver needs no other module.
CARD: Final = "e1000"
# Counts up with what is taken of the same packages.
FORM: Final = 2
_LIBRARY: Final = re.compile(r"(?:usr/)?lib(?:64)?/(?:[a-z0-9_-]+/)?[^/]+\.so(?:\.[0-9.]+)?")
_SERVER: Final = re.compile(r"usr/s?bin/(dropbear|dropbearkey)")
_DRIVER: Final = re.compile(rf".*/{CARD}\.ko(?:\.xz)?")

_PREPARE: Final = """
set -e
tar -xf /board.tar -C /
rm /agent /board.tar
insmod /modules/network.ko
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
echo "root:x:0:0:root:$HOME:/bin/sh" >/etc/passwd
mkdir -m 700 ~/.ssh
cat /client.pub >~/.ssh/authorized_keys
chmod 600 ~/.ssh/authorized_keys
dropbearkey -t ed25519 -f /host.key >/dev/null
dropbearkey -y -f /host.key | grep ^ssh-
"""


class SshBoard(Reached):
    """The board, serving from its making on until it is switched off."""

    def __init__(self, folder: Path, name: str = BOARD) -> None:
        super().__init__(folder)
        self.choose_port()
        target = LabTarget(f"{name},mode=plain,cpus=2")
        setup = target.setup()
        kernel = known_kernel(target.board)
        assert kernel is not None
        self.release = kernel.release
        archive = _archive(target.board, kernel).read_bytes()
        network = f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{self.port}-:22"
        devices = ("-netdev", network, "-device", f"{CARD},netdev=net,romfile=")
        self.machine = Machine(replace(setup, devices=(*setup.devices, *devices)))
        self.machine.start()
        try:
            self._serve(archive)
        except BaseException:
            self.machine.close(failed=True)
            raise

    def _serve(self, archive: bytes) -> None:
        self.machine.put("/board.tar", archive)
        self.machine.put("/client.pub", self.client_key.encode())
        prepared = self.machine.execute(["/bin/sh", "-c", _PREPARE])
        assert prepared.code == 0, prepared.stderr
        self.host_key = prepared.stdout.decode()
        self.know(self.host_key)
        self.machine.begin(["/bin/dropbear", "-F", "-E", "-s", "-r", "/host.key"])
        deadline = time.monotonic() + PATIENCE_S
        while (tried := self.shell("true")).returncode:
            assert time.monotonic() < deadline, tried.stderr
            time.sleep(0.2)

    @property
    def target(self) -> str:
        """As ``--target`` takes it."""
        return f"ssh://root@127.0.0.1:{self.port}"

    def shell(self, command: str) -> subprocess.CompletedProcess[str]:
        """A command of the board's shell, over a connection of its own."""
        ssh = self.programs() / "ssh"
        return subprocess.run(
            [ssh, "-o", "BatchMode=yes", "-p", f"{self.port}", "root@127.0.0.1", command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def ask(self, command: str) -> str:
        """What a command there says, which has to succeed."""
        done = self.shell(command)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def left(self) -> list[str]:
        """The folders of agents there."""
        return self.ask("ls -d /*/rtgauge-* /*/*/rtgauge-* 2>/dev/null; true").split()

    def agents(self) -> list[str]:
        """The processes of agents there."""
        return self.ask("pidof agent; true").split()

    def off(self) -> None:
        """Switch it off."""
        self.machine.close()


def _archive(board: Board, kernel: Unpacked) -> Path:
    """What this board has that others of the lab have not; made the first time."""
    cache = cache_folder()
    final = kernel.folder / f"ssh-{FORM}.tar"  # goes when the kernel goes
    if not final.is_file():
        with locked(cache, ("kernels", "boards"), print):
            if not final.is_file():
                _make(cache, board.machine.debian, kernel, final)
    return final


def _make(cache: Path, architecture: str, kernel: Unpacked, final: Path) -> None:
    apt = Apt(cache / "apt", print)
    apt.update()
    image = next(name for name in kernel.versions if name.startswith("linux-image-"))
    packages = [apt.need(image, architecture), *_needed(apt, SERVER, architecture)]
    packages += _needed(apt, MUSL, architecture)
    files = [apt.fetch(package, cache / "packages") for package in packages]
    with new_file(final) as making, tarfile.open(making, "w") as archive:
        for file in files:
            for member, content in _members(file):
                archive.addfile(member, io.BytesIO(content))
        names = set(archive.getnames())
    missing = {"bin/dropbear", "bin/dropbearkey", "modules/network.ko"} - names
    assert not missing, f"Debian's packages have no {' and no '.join(sorted(missing))}"
    for file in files:
        remove(file)


def _needed(apt: Apt, name: str, architecture: str) -> list[Package]:
    """A package and all that it depends on."""
    found: dict[str, Package] = {}
    look = [name]
    while look:
        one = look.pop()
        if one and one not in found:
            found[one] = apt.need(one, architecture)
            look += [entry.split(" ")[0].split(":")[0] for entry in found[one].depends]
    return list(found.values())


def _members(package: Path) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """Server, libraries and the card's driver of a package, by their paths on the board."""
    with (
        subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE
        ) as process,
        tarfile.open(fileobj=process.stdout, mode="r|") as archive,
    ):
        for member in archive:
            name = member.name.removeprefix("./")
            server = _SERVER.fullmatch(name)
            driver = _DRIVER.fullmatch(name)
            if not (server or driver or _LIBRARY.fullmatch(name)) or member.isdir():
                continue
            file = archive.extractfile(member) if member.isreg() else None
            content = file.read() if file is not None else b""
            if driver:
                name = "modules/network.ko"
                content = lzma.decompress(content) if member.name.endswith(".xz") else content
            elif server:
                name = f"bin/{server[1]}"
            member.name, member.size = name, len(content)
            yield member, content
    assert process.returncode == 0, f"{package.name} cannot be unpacked"


def main(words: list[str]) -> None:
    """Boot one, say how it is reached, and wait for Ctrl-C."""
    with tempfile.TemporaryDirectory(prefix="rtgauge-board-") as folder:
        board = SshBoard(Path(folder) / "board", *words)
        print(f"PATH={board.programs()}:$PATH rtgauge check --target {board.target}")
        print("Ctrl-C switches it off.", flush=True)
        try:
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
        finally:
            board.off()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    main(sys.argv[1:])
