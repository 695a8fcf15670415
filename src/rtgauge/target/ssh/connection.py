# SPDX-License-Identifier: Apache-2.0
"""One ssh connection to a board, and the sessions in it.

The first session of a connection is the *keeper* (``keeper.sh``): a shell there that waits for the
end of its input and then removes the agent's folder, whether the host closed the target, was
killed, or cannot be reached any more. All else are further sessions of that connection.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import selectors
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO, Final, cast

from rtgauge.errors import TargetError, UsageError
from rtgauge.facts import one_line
from rtgauge.target.base import say

__all__ = ["Address", "Answer", "Connection", "Messages", "parse", "script"]


READY: Final = "rtgauge-keeper"
#: Before the first of these marks nothing, then who we are, then folders, then nothing.
TOLD: Final = 4
OPEN_S: Final = 60.0
CONNECT_S: Final = 30
# So long nothing may move at all: a link of 300 bytes a second still brings something.
STALL_S: Final = 30.0
CLOSE_S: Final = 10.0
# ssh asks at the end of each interval in which nothing came, and gives up at that after the last
# question: 16 s, before the host takes an agent that says nothing for dead.
ALIVE_S: Final = 4
ALIVE_COUNT: Final = 3
#: Time for ssh to notice that the connection is lost.
LOST_S: Final = 2.0
PATIENCE_S: Final = 2.0
READ_BYTES: Final = 64 * 1024
ANSWER_MAX: Final = 4 * 1024 * 1024
MESSAGES_MAX: Final = 64 * 1024
SAID_MAX: Final = 500
"""Characters of ssh's last line that an error repeats."""
LAST_WORDS_S: Final = 1.0
"""Time to read what ssh wrote before it ended; a program that it started may keep the pipe open."""
#: A socket's path has 108 bytes, of which ssh wants 17 for itself.
SOCKET_PATH_MAX: Final = 80
#: What ssh ends with when the fault is its own; no agent ever does.
SSH_FAILED: Final = 255
CANNOT_EXECUTE: Final = (126, 127)

_OPTIONS: Final = (
    "-T", "-x", "-a",
    "-o", "BatchMode=yes",
    "-o", "ClearAllForwardings=yes",
    "-o", "PermitLocalCommand=no",
    "-o", "RemoteCommand=none",
)  # fmt: skip

#: The keeper sleeps so long for each tick.
KEEPER_TICK_S: Final = 2
#: The script of the keeper as one line; see its head for why.
KEEPER: Final = " ".join(
    line.strip()
    for line in (resources.files("rtgauge.target.ssh") / "keeper.sh").read_text().splitlines()
    if not line.startswith("#")
)


@dataclass(frozen=True)
class Address:
    """Where ``ssh`` is to go; what is not given is as the user's configuration says."""

    host: str
    user: str = ""
    port: int = 0

    def words(self) -> list[str]:
        """The arguments of ``ssh``, up to the host."""
        words = ["-l", self.user] if self.user else []
        return [*words, *(["-p", str(self.port)] if self.port else []), "--", self.host]


def parse(detail: str) -> Address:
    """The address in what stands behind ``ssh:``. Raises UsageError."""
    match = re.fullmatch(
        r"//(?:(?P<user>[^@:/\s]+)@)?(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^@:/\[\]\s-][^@:/\[\]\s]*)"
        r"(?::(?P<port>[0-9]{1,5}))?/?",
        detail,
    )
    if match is None or (match["user"] or "").startswith("-"):
        password = re.match(r"//[^@/]*:[^@/]*@", detail)
        raise UsageError(
            "a target takes no password" if password else f"'ssh:{detail}' is no target",
            "write ssh://user@host, ssh://host:port, or ssh://NAME of your ssh configuration"
            + ("; let ssh use a key (ssh-copy-id)" if password else ""),
        )
    port = int(match["port"] or 0)
    if match["port"] and not 0 < port < 1 << 16:
        raise UsageError(f"'ssh:{detail}': there is no port {port}", "give one from 1 to 65535")
    return Address(match["host"].strip("[]"), match["user"] or "", port)


@dataclass(frozen=True)
class Answer:
    """How a command there ended. ``rate``: bytes a second in which the answer came; 0 if it was
    too small to tell."""

    code: int
    out: bytes
    err: bytes
    rate: float = 0.0

    @property
    def said(self) -> str:
        """The first line of its messages."""
        lines = self.err.decode(errors="replace").strip().splitlines()
        return lines[0].strip() if lines else ""


class _Stalled(Exception):
    """Nothing moved any more."""


def _write(descriptor: int, data: bytes) -> int:
    """Bytes that were taken; all of them where nobody reads any more, who will say why."""
    try:
        return os.write(descriptor, data)
    except BrokenPipeError:
        return len(data)


def _talk(process: subprocess.Popen[bytes], data: bytes = b"", patience: str = "") -> Answer:
    """Give a process its input, take all that it says, and wait for its end.

    ``patience`` is said once when it takes long. Raises _Stalled when nothing moved for
    ``STALL_S``, OverflowError when the answer is too long; the process is killed then.
    """
    stdin, stdout, stderr = (
        cast(IO[bytes], stream) for stream in (process.stdin, process.stdout, process.stderr)
    )
    out, err = bytearray(), bytearray()
    begun = moved = time.monotonic()
    first: tuple[float, int] | None = None
    last = begun
    offset = 0
    with process, selectors.DefaultSelector() as selector:
        try:
            os.set_blocking(stdin.fileno(), False)
            selector.register(stdin, selectors.EVENT_WRITE)
            for stream in (stdout, stderr):
                selector.register(stream, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(0.5)
                now = time.monotonic()
                if patience and now - begun > PATIENCE_S:
                    say(patience)
                    patience = ""
                if ready:
                    moved = now
                elif now - moved > STALL_S:
                    raise _Stalled
                for key, _ in ready:
                    if key.fileobj is stdin:
                        offset += _write(key.fd, data[offset : offset + READ_BYTES])
                        if offset >= len(data):
                            selector.unregister(stdin)
                            stdin.close()
                    elif not (piece := os.read(key.fd, READ_BYTES)):
                        selector.unregister(key.fileobj)
                    elif key.fileobj is stderr:
                        err += piece[: MESSAGES_MAX - len(err)]
                    else:
                        out += piece
                        first, last = first or (now, len(out)), now
                        if len(out) > ANSWER_MAX:
                            raise OverflowError
            process.wait(STALL_S)
        except subprocess.TimeoutExpired:
            raise _Stalled from None
        finally:
            process.kill()
    rate = 0.0
    if first is not None and len(out) > first[1]:
        rate = (len(out) - first[1]) / max(last - first[0], 1e-6)
    return Answer(process.returncode, bytes(out), bytes(err), rate)


def script(text: str, *arguments: str) -> str:
    """A command for the login shell there, whichever it is: ``text`` for sh, with arguments."""
    return "exec " + shlex.join(["sh", "-c", text, "rtgauge", *arguments])


class Messages:
    """The error output of ssh: its first and last ``MESSAGES_MAX`` bytes. A board may write without
    end, so the bytes between are only counted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._head, self._tail = bytearray(), bytearray()
        self._left_out = 0
        self._reader: threading.Thread | None = None

    def follow(self, stream: IO[bytes]) -> None:
        """Take all of ``stream`` until it ends."""
        self._reader = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._reader.start()

    def _read(self, stream: IO[bytes]) -> None:
        with stream, contextlib.suppress(OSError, ValueError):
            while data := stream.read(READ_BYTES):
                self.add(data)

    def add(self, data: bytes) -> None:
        """Take some bytes."""
        with self._lock:
            room = MESSAGES_MAX - len(self._head)
            self._head += data[:room]
            self._tail += data[room:]
            many = max(len(self._tail) - MESSAGES_MAX, 0)
            del self._tail[:many]
            self._left_out += many

    def wait(self, seconds: float) -> None:
        """Wait, up to a limit, for all output of a process that has ended."""
        if self._reader is not None:
            self._reader.join(seconds)

    def text(self) -> str:
        """The bytes kept, with a line in place of the others."""
        with self._lock:
            gap = f"\n({self._left_out} bytes left out)\n" if self._left_out else ""
            head, tail = self._head.decode(errors="replace"), self._tail.decode(errors="replace")
        return head + gap + tail


class Connection:
    """One connection with its sessions, and the folder there."""

    def __init__(self, address: Address, name: str) -> None:
        self.name = name
        self._address = address
        self.token = secrets.token_hex(8)
        ssh = shutil.which("ssh")
        if ssh is None:
            raise TargetError(
                "there is no program ssh on this machine",
                "install OpenSSH's client (Debian: openssh-client)",
            )
        self._ssh = ssh
        self._private = Path(tempfile.mkdtemp(prefix="rtgauge-ssh-"))
        if len(str(self._private)) > SOCKET_PATH_MAX:
            self._private.rmdir()
            self._private = Path(tempfile.mkdtemp(prefix="rtgauge-ssh-", dir="/tmp"))
        self._errors = Messages()
        self._keeper: subprocess.Popen[bytes] | None = None
        self.who = self.folders = ""
        self.machine = self.boot_id = ""
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    # --- the connection itself ---

    def _words(self, *options: str) -> list[str]:
        socket = str(self._private / "master").replace("%", "%%")
        path = ("-o", f"ControlPath={socket}")
        return [self._ssh, *_OPTIONS, *path, *options, *self._address.words()]

    def _open(self) -> None:
        words = self._words(
            "-o", "LogLevel=INFO", "-o", "ControlMaster=yes", "-o", "ControlPersist=no",
            "-o", f"ConnectTimeout={CONNECT_S}",
            "-o", f"ServerAliveInterval={ALIVE_S}", "-o", f"ServerAliveCountMax={ALIVE_COUNT}",
        )  # fmt: skip
        self._keeper = subprocess.Popen(
            [*words, script(KEEPER, self.token)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        self._errors.follow(cast(IO[bytes], self._keeper.stderr))
        told = self._first_words(self._keeper).split(READY + "\n")
        if len(told) == TOLD and not told[0]:
            _, who, self.folders, _ = told
            self.machine, self.boot_id, self.who = [
                word.strip() for word in (who + "\n\n").split("\n", 2)
            ]
            return
        lines = [line.strip() for line in "".join(told).splitlines() if line.strip()]
        if lines and told[0]:
            raise TargetError(
                f"the login shell on {self.name} writes '{lines[0][:60]}' before any command",
                "let it be quiet where it is not interactive, as its output would damage the "
                "samples, and be one that carries out commands",
            )
        if self._key_has_changed():
            raise TargetError(
                f"{self.name} cannot be reached: {self._said()} "
                "The host's key is not the one that is known",
                "find out why before you trust it, as another machine may answer; "
                "then remove the one that is known (ssh-keygen -R)",
            )
        raise TargetError(
            f"{self.name} cannot be reached: {self._said() or 'ssh does not say why'}",
            f"rtgauge never asks for anything: '{self._by_hand()}' has to work first, with a key "
            "(ssh-copy-id, ssh-add) and with the host's key accepted once by hand",
        )

    def _first_words(self, keeper: subprocess.Popen[bytes]) -> str:
        """What the keeper says first; less if ssh ended, or does not get through in time."""
        stdout, said = cast(IO[bytes], keeper.stdout), bytearray()
        mark = f"{READY}\n".encode()
        deadline = time.monotonic() + OPEN_S
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while said.count(mark) < TOLD - 1 and len(said) < MESSAGES_MAX:
                left = deadline - time.monotonic()
                if left <= 0:
                    self._errors.add(b"no answer\n")
                    break
                if not selector.select(left):
                    continue
                piece = os.read(stdout.fileno(), READ_BYTES)
                if not piece:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        keeper.wait(CLOSE_S)
                    break
                said += piece
        return said.decode(errors="replace")

    def _said(self) -> str:
        """ssh's last words; none once this is closed."""
        lines = [line.strip() for line in self._messages().splitlines() if line.strip()]
        return one_line(lines[-1], SAID_MAX) if lines else ""

    def _key_has_changed(self) -> bool:
        return "IDENTIFICATION HAS CHANGED" in self._messages()

    def _messages(self) -> str:
        if self._keeper is None:
            return ""
        if self._keeper.poll() is not None:
            self._errors.wait(LAST_WORDS_S)
        return self._errors.text()

    def _by_hand(self) -> str:
        return shlex.join(["ssh", "-o", "BatchMode=yes", *self._address.words()[:-2]]) + (
            f" {shlex.quote(self._address.host)} true"
        )

    @property
    def lost(self) -> str:
        """Why the connection is no more; empty while it is."""
        if self._keeper is not None and self._keeper.poll() is None:
            return ""
        return self._said() or "it was closed"

    def ended(self) -> str:
        """As ``lost``, for someone whose session has just ended: a moment is waited for."""
        if self._keeper is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._keeper.wait(LOST_S)
        return self.lost

    def close(self) -> None:
        """End the keeper, which removes the folder there first. May be called again."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            with contextlib.suppress(OSError):
                cast(IO[bytes], keeper.stdin).write(b"end\n")
            with contextlib.suppress(OSError):
                cast(IO[bytes], keeper.stdin).close()
            try:
                keeper.wait(CLOSE_S)
            except subprocess.TimeoutExpired:
                keeper.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    keeper.wait(CLOSE_S)
            cast(IO[bytes], keeper.stdout).close()
            self._errors.wait(LAST_WORDS_S)
        shutil.rmtree(self._private, ignore_errors=True)

    # --- its sessions ---

    def begin(self, command: str) -> subprocess.Popen[bytes]:
        """Start a command there. It is never a connection of its own, which might be another's."""
        words = self._words(
            "-o", "LogLevel=ERROR", "-o", "ControlMaster=no", "-o", "ProxyCommand=exec false"
        )
        return subprocess.Popen(
            [*words, command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )

    def ask(self, text: str, *arguments: str, data: bytes = b"", patience: str = "") -> Answer:
        """Run a script for sh there to its end. Raises TargetError if the connection fails."""
        try:
            answer = _talk(self.begin(script(text, *arguments)), data, patience)
        except _Stalled:
            raise TargetError(
                f"nothing came from {self.name} for {STALL_S:.0f} s",
                "look at the target and the network: does it still answer?",
            ) from None
        except OverflowError:
            raise TargetError(
                f"the answer of {self.name} has more than {ANSWER_MAX >> 20} MiB"
            ) from None
        if answer.code == SSH_FAILED:
            raise TargetError(
                f"the connection to {self.name} failed: {self.ended() or answer.said}",
                f"see whether '{self._by_hand()}' works",
            )
        return answer

    def keep(self, folder: str) -> None:
        """Let the keeper remove this folder in the end, and the one before it now."""
        self._tell_keeper(folder)

    def hold(self, seconds: float) -> None:
        """Let the keeper leave the folder to an agent without a host for so long."""
        self._tell_keeper(f"{seconds / KEEPER_TICK_S:.0f}")

    def _tell_keeper(self, line: str) -> None:
        if self._keeper is not None:
            with contextlib.suppress(OSError):  # gone: the next command says so
                cast(IO[bytes], self._keeper.stdin).write(f"{line}\n".encode())
