# SPDX-License-Identifier: Apache-2.0
"""One ssh connection to a board, and the sessions in it.

The first session of a connection is the *keeper* (``keeper.sh``): a shell on the board that waits
for the end of its input and then removes the agent's folder, whether the host closed the target,
was killed, or cannot be reached any more. Every other command is another session.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import selectors
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO, Final, cast

from rtgauge.errors import TargetError, UsageError
from rtgauge.facts import one_line
from rtgauge.target.base import say

__all__ = ["Address", "Answer", "Connection", "Messages", "parse", "script"]


READY: Final = "rtgauge-keeper"
#: Parts of the keeper's output between its marks: nothing, machine and user, folders, nothing.
TOLD: Final = 4
OPEN_S: Final = 60.0
CONNECT_S: Final = 30
#: Timeout for ssh to print its configuration, which may call programs (Match exec).
CONFIGURATION_S: Final = 30.0
# Timeout for a link without any byte. One with 300 bytes per second still delivers some.
STALL_S: Final = 30.0
#: Timeout for a whole exchange with a board, however steadily its bytes arrive. Each byte prolongs
#: it, by the time that it takes over a link of this rate: about a third of that of 9600 baud.
EXCHANGE_S: Final = 600.0
BYTES_PER_S: Final = 300
#: The most that one look at the exchange counts of these times.
TURN_MAX_S: Final = 1.0
CLOSE_S: Final = 10.0
# ssh asks at the end of each interval without a byte, and gives up one interval after the last
# question. That is after 16 s, before the timeout of the host for a silent agent.
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
"""Time to read what ssh wrote before its end. A program that it started may keep the pipe open."""
#: The path of a socket has 108 bytes, of which ssh uses 17.
SOCKET_PATH_MAX: Final = 80
# Blanks, quotes and ${NAME} have a meaning in an option of ssh.
_PLAIN: Final = re.compile(r"[\w/.%@+-]+")
#: The exit code of ssh for its own failures, which no agent uses.
SSH_FAILED: Final = 255
CANNOT_EXECUTE: Final = (126, 127)

_OPTIONS: Final = (
    "-T", "-x", "-a",
    "-o", "BatchMode=yes",
    "-o", "ClearAllForwardings=yes",
    "-o", "PermitLocalCommand=no",
    "-o", "RemoteCommand=none",
)  # fmt: skip

#: Length of the keeper's tick.
KEEPER_TICK_S: Final = 2
#: The script of the keeper as one line; see its head for why.
KEEPER: Final = " ".join(
    line.strip()
    for line in (resources.files("rtgauge.target.ssh") / "keeper.sh").read_text().splitlines()
    if not line.startswith("#")
)


@contextlib.contextmanager
def _local_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TargetError(
            f"ssh cannot be started: {error.strerror}",
            "check the memory, the processes and the free space of this machine",
        ) from None


def _ssh_started(words: Sequence[str]) -> subprocess.Popen[bytes]:
    with _local_errors():
        return subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )


@dataclass(frozen=True)
class Address:
    """The address for ``ssh``. The user's configuration supplies what is empty."""

    host: str
    user: str = ""
    port: int = 0

    def words(self) -> list[str]:
        """The arguments of ``ssh``, up to the host."""
        words = ["-l", self.user] if self.user else []
        return [*words, *(["-p", str(self.port)] if self.port else []), "--", self.host]


def parse(detail: str) -> Address:
    """The address in a target's name after ``ssh:``. Raises UsageError."""
    match = re.fullmatch(
        r"//(?:(?P<user>[^@:/\s]+)@)?(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^@:/\[\]\s-][^@:/\[\]\s]*)"
        r"(?::(?P<port>[0-9]{1,5}))?/?",
        detail,
    )
    # ssh passes names on to shells: those of ProxyCommand, Match exec and LocalCommand
    unsafe = match is not None and (
        re.search(r"""['`"$\\;&<>|(){}]""", match["host"])
        or re.search(r"""['`";&<>|(){}]|\\$""", match["user"] or "")
    )
    if match is None or unsafe or (match["user"] or "").startswith("-"):
        password = re.match(r"//[^@/]*:[^@/]*@", detail)
        raise UsageError(
            "the address of a target cannot contain a password"
            if password
            else f"'ssh:{detail}' is not an address of a target",
            "write ssh://user@host, ssh://host:port, or ssh://NAME of your ssh configuration"
            + (". Use a key (ssh-copy-id)" if password else ""),
        )
    port = int(match["port"] or 0)
    if match["port"] and not 0 < port < 1 << 16:
        raise UsageError(f"'ssh:{detail}': {port} is not a port", "give one from 1 to 65535")
    return Address(match["host"].strip("[]"), match["user"] or "", port)


@dataclass(frozen=True)
class Answer:
    """How a command on the board ended. ``rate``: bytes per second of the answer; 0 if it was too
    small to measure."""

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
    """No bytes in either direction. The argument: for how many seconds."""


class _Trickling(Exception):
    """Too few bytes for the time. The argument: their number."""


def _write(descriptor: int, data: bytes) -> int:
    """Number of bytes that were written; all of them if the reader has ended, which says why."""
    try:
        return os.write(descriptor, data)
    except BrokenPipeError:
        return len(data)


def _check_time(silent_s: float, total_s: float, size: int, work_s: float) -> None:
    """Raise _Stalled or _Trickling if an exchange of ``size`` bytes takes too long."""
    if silent_s > max(STALL_S, work_s):
        raise _Stalled(max(STALL_S, work_s))
    if total_s > EXCHANGE_S + work_s + size / BYTES_PER_S:
        raise _Trickling(size)


def _talk(
    process: subprocess.Popen[bytes], data: bytes = b"", patience: str = "", work_s: float = 0.0
) -> Answer:
    """Write the input of a process, read its output, and wait for its end.

    ``patience`` is printed once if that takes long. ``work_s``: seconds for which the process may
    work without a byte. Raises _Stalled after them or ``STALL_S`` without a byte, _Trickling after
    them, ``EXCHANGE_S`` and the time of the bytes, OverflowError if the answer is too long. The
    process is killed then.
    """
    stdin, stdout, stderr = (
        cast(IO[bytes], stream) for stream in (process.stdin, process.stdout, process.stderr)
    )
    out, err = bytearray(), bytearray()
    begun = turned = last = time.monotonic()
    waited_s = silent_s = 0.0
    first: tuple[float, int] | None = None
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
                # A standstill of this machine or process does not count.
                turn_s, turned = min(now - turned, TURN_MAX_S), now
                waited_s += turn_s
                silent_s = 0.0 if ready else silent_s + turn_s
                _check_time(silent_s, waited_s, offset + len(out), work_s)
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
            raise _Stalled(STALL_S) from None
        finally:
            process.kill()
    rate = 0.0
    if first is not None and len(out) > first[1]:
        rate = (len(out) - first[1]) / max(last - first[0], 1e-6)
    return Answer(process.returncode, bytes(out), bytes(err), rate)


def script(text: str, *arguments: str) -> str:
    """A command for any login shell that runs ``text`` in sh, with arguments."""
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
        """Wait, up to a limit, for the rest of the output of a process that has ended."""
        if self._reader is not None:
            self._reader.join(seconds)

    def text(self) -> str:
        """The bytes kept, with a line in place of those left out."""
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
                "ssh is not installed on this machine",
                "install OpenSSH's client (Debian: openssh-client)",
            )
        self._ssh = ssh
        with _local_errors():
            self._private = Path(tempfile.mkdtemp(prefix="rtgauge-ssh-"))
            path = str(self._private)
            if len(os.fsencode(path)) > SOCKET_PATH_MAX or not _PLAIN.fullmatch(path):
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
        self._keeper = _ssh_started([*words, script(KEEPER, self.token)])
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
                "use a shell that runs commands, and remove the output that its start-up files "
                "print without a terminal. This output would damage the samples",
            )
        if self._key_has_changed():
            raise TargetError(
                f"{self.name} cannot be reached: {self._said()}. "
                "The key of the host differs from the known one",
                "find out why before you trust it, because another machine may answer. "
                "Then remove the known key (ssh-keygen -R)",
            )
        raise TargetError(
            f"{self.name} cannot be reached: {self._said() or 'ssh does not say why'}",
            f"make '{self._by_hand()}' work first, because rtgauge never prompts. It needs a key "
            "(ssh-copy-id, ssh-add), and the host's key must be accepted once by hand",
        )

    def _first_words(self, keeper: subprocess.Popen[bytes]) -> str:
        """The keeper's first output; less if ssh ended, or did not connect in time."""
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
        """The last line of ssh's messages, without a period; empty after ``close``."""
        lines = [line.strip() for line in self._messages().splitlines() if line.strip()]
        return one_line(lines[-1].removesuffix("."), SAID_MAX) if lines else ""

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
        """Why the connection is lost; empty while it is not."""
        if self._keeper is not None and self._keeper.poll() is None:
            return ""
        return self._said() or "it was closed"

    def ended(self) -> str:
        """As ``lost``, after a short wait, for a session that has just ended."""
        if self._keeper is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._keeper.wait(LOST_S)
        return self.lost

    def close(self) -> None:
        """End the keeper, which removes the folder there first. May be called again."""
        keeper, self._keeper = self._keeper, None
        try:
            if keeper is not None:
                self._end(keeper)
        finally:  # also after a second Ctrl-C
            shutil.rmtree(self._private, ignore_errors=True)

    def _end(self, keeper: subprocess.Popen[bytes]) -> None:
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

    # --- its sessions ---

    def begin(self, command: str) -> subprocess.Popen[bytes]:
        """Start a command there. It never opens a connection of its own, which might reach another
        machine."""
        words = self._words(
            "-o", "LogLevel=ERROR", "-o", "ControlMaster=no", "-o", "ProxyCommand=exec false"
        )
        return _ssh_started([*words, command])

    def destination(self) -> frozenset[str]:
        """The IPv4 addresses that ``ssh`` connects to by its configuration; empty if others connect
        for it, or if its name has no IPv4 address. Raises TargetError."""
        with _local_errors():
            try:
                done = subprocess.run(
                    [self._ssh, "-G", *self._address.words()],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=CONFIGURATION_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise TargetError(
                    f"{self.name}: 'ssh -G' did not end within {CONFIGURATION_S:.0f} s",
                    "check the programs that your configuration of ssh calls (Match exec)",
                ) from None
        found = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
        if any(found.get(one, "none") != "none" for one in ("proxyjump", "proxycommand")):
            return frozenset()
        try:
            known = socket.getaddrinfo(found.get("hostname", ""), None, socket.AF_INET)
        except (OSError, UnicodeError):
            return frozenset()
        return frozenset(str(address[0]) for *_, address in known)

    def ask(
        self,
        text: str,
        *arguments: str,
        data: bytes = b"",
        patience: str = "",
        work_s: float = 0.0,
    ) -> Answer:
        """Run a script for sh there to its end. ``work_s``: seconds for which it may work without a
        byte of output. Raises TargetError if the connection fails."""
        try:
            answer = _talk(self.begin(script(text, *arguments)), data, patience, work_s)
        except _Stalled as error:
            raise TargetError(
                f"{self.name} sent nothing for {error.args[0]:.0f} s",
                "check the target and the network",
            ) from None
        except _Trickling as error:
            raise TargetError(
                f"the command on {self.name} has not ended after more than "
                f"{(EXCHANGE_S + work_s) / 60:.0f} min, in which {error.args[0]} bytes were "
                "transferred",
                "check the target and the network",
            ) from None
        except OverflowError:
            raise TargetError(
                f"the answer of {self.name} has more than {ANSWER_MAX >> 20} MiB",
                f"'{self._by_hand()}' must print nothing: remove the output of login scripts there",
            ) from None
        if answer.code == SSH_FAILED:
            said = self.ended() or answer.said
            raise TargetError(
                f"the connection to {self.name} failed: {said}",
                "allow two sessions on a connection there (MaxSessions of OpenSSH's sshd_config)"
                if "Session open refused" in said
                else f"check whether '{self._by_hand()}' works",
            )
        return answer

    def keep(self, folder: str) -> None:
        """Let the keeper remove this folder at its end, and the previous one now."""
        self._tell_keeper(folder)

    def hold(self, seconds: float) -> None:
        """Let the keeper leave the folder to an agent without a host for that many seconds."""
        self._tell_keeper(f"{seconds / KEEPER_TICK_S:.0f}")

    def _tell_keeper(self, line: str) -> None:
        if self._keeper is not None:
            with contextlib.suppress(OSError):  # the next command reports its end
                cast(IO[bytes], self._keeper.stdin).write(f"{line}\n".encode())
