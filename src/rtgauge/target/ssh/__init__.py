# SPDX-License-Identifier: Apache-2.0
"""A board that is reached with the system's OpenSSH client: ``ssh://[user@]host[:port]``.

Step 6 of the path of a sample, over a network: the agent there writes into the connection, and what
the ``ssh`` here writes into a pipe is read as that of an agent on this machine is.

People's own configuration, keys, agents and jump hosts work, because it is their ``ssh``. Host keys
are checked as their configuration says. No password is ever asked for (batch mode).

One connection for each target: its first session is the *keeper*, a shell there that does nothing
but wait for the end of its input and then remove the agent's folder, whether the host closed the
target, was killed, or cannot be reached any more. All else are further sessions of that connection.
What is used there: sh, mkdir, cat, chmod, rm, sleep, uname; sudo if it is there.

A connection that breaks in the middle of a step is taken up again: the agent there goes on behind
its spool (agent/stream/spool.h), which keeps what has not come here, and another connection begins
with the byte that comes next. ``_Return`` does that, in a thread of its own, because it takes its
time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

from rtgauge.architectures import for_target
from rtgauge.clock import Clock, RealClock
from rtgauge.engine.link import bandwidth_text
from rtgauge.errors import ExitCode, TargetError, UsageError
from rtgauge.facts import one_line, printable
from rtgauge.lab.programs import static_agent
from rtgauge.target.local import LocalAgent, put_back

__all__ = ["SshAgent", "SshTarget", "agent_for", "parse"]

#: Where the agent may go there, the first that can be written to and executed from.
FOLDERS: Final = ("$TMPDIR", "/tmp", "/dev/shm", "/run", "/var/tmp", "$HOME")
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
RECONNECT_S: Final = 600.0
# The board may notice sooner than the host that the connection is lost.
HOLD_MORE_S: Final = 30.0
RETRY_S: Final = 1.0
RETRY_MAX_S: Final = 10.0
CONFIRM_S: Final = 0.2
_ENDED: Final = re.compile(rb"^rtgauge-agent: ended (-?\d+)\n", re.MULTILINE)
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

# Says what machine it is, who we are, what the folders are, and whether there is a sudo. Then it
# reads the name of our folder, of another one in its place, or a number of ticks, and waits for the
# end, which the host says. An end without that is the host's, if something can still be written to
# it, or the connection's: then an agent that goes on behind its spool needs the folder, and another
# keeper may take it over within these ticks. Only folders that have our kind of name are removed.
_KEEPER: Final = (
    'trap "" HUP INT TERM PIPE; t=$1; n=0; f=; '
    'gone() { case "$1" in /*/rtgauge-????????????????) rm -rf "$1";; esac; }; '
    'mine() { [ ! -e "$f/keeper" ] || { read -r o <"$f/keeper"; [ "$o" = "$t" ]; }; }; '
    'spooled() { set -- "$f"/spool*; [ -S "$1" ]; }; '
    f"echo {READY}; uname -m; cat /proc/sys/kernel/random/boot_id; cat /proc/self/status; "
    "sudo -n true >/dev/null 2>&1 && echo sudo; "
    f"echo {READY}; FOLDERS echo {READY}; "
    'while read -r l; do case "$l" in [0-9]*) n=$l;; '
    'end) mine && gone "$f"; exit;; *) gone "$f"; f=$l;; esac; done; sleep 1; '
    "echo 2>/dev/null || "
    'while [ "$n" -gt 0 ] && mine && spooled; do sleep 2; n=$((n-1)); done; '
    'mine && gone "$f"'
)
KEEPER_TICK_S: Final = 2
_MAKE: Final = (
    'umask 077; mkdir "$1" && echo "$2" >"$1/keeper" && echo "#!/bin/sh" >"$1/try" || exit 1; '
    'chmod 700 "$1/try" && "$1/try" && rm "$1/try" && exit 0; exit 126'
)
# Let the folder be another keeper's.
_ADOPT: Final = '[ -x "$1/agent" ] && echo "$2" >"$1/keeper"'
_PUT: Final = 'cat >>"$1"'
# So much of a file goes there at a time; more, as long as it takes less than a second.
PUT_BYTES: Final = 16 * 1024
PUT_MAX: Final = 256 * 1024


def _say(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)


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


def agent_for(machine: str, auxv: bytes = b"") -> Path:
    """The static agent for a machine, by what ``uname -m`` and ``/proc/self/auxv`` say there.

    Raises TargetError for machines for which no agent is made.
    """
    return static_agent(for_target(machine, auxv), _say)


@dataclass(frozen=True)
class _Answer:
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


def _talk(process: subprocess.Popen[bytes], data: bytes = b"", patience: str = "") -> _Answer:
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
                    _say(patience)
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
    return _Answer(process.returncode, bytes(out), bytes(err), rate)


def _script(text: str, *arguments: str) -> str:
    """A command for the login shell there, whichever it is: ``text`` for sh, with arguments."""
    return "exec " + shlex.join(["sh", "-c", text, "rtgauge", *arguments])


class _Messages:
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


class _Connection:
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
        self._errors = _Messages()
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
            [
                *words,
                _script(
                    _KEEPER.replace("FOLDERS", "".join(f'echo "{f}"; ' for f in FOLDERS)),
                    self.token,
                ),
            ],
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

    def ask(self, text: str, *arguments: str, data: bytes = b"", patience: str = "") -> _Answer:
        """Run a script for sh there to its end. Raises TargetError if the connection fails."""
        try:
            answer = _talk(self.begin(_script(text, *arguments)), data, patience)
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


class SshTarget:
    """A board that is reached with ssh."""

    def __init__(self, detail: str = "") -> None:
        self.name = f"ssh:{detail}"
        self.clock: Clock = RealClock()
        self._address = parse(detail)
        self._catalogue: str | None = None
        self._started = 0
        self._folder = self._machine = ""
        self._raise: list[str] = []
        #: For so long a connection that is lost is tried to be made again; 0: it is not.
        self.reconnect_s = RECONNECT_S
        # how often that was done in the run, and the time without a connection
        self._returns, self._away_s = 0, 0.0
        #: What the link carries, in the direction that samples take; 0 where that is not known.
        self.bandwidth = 0.0
        self.connection: dict[str, str] = {}
        self._lock, self._closed = threading.Lock(), False
        self._connection = self._connect()
        self._prepare_there()

    def _connect(self) -> _Connection:
        return _Connection(self._address, self.name)

    def _prepare_there(self) -> None:
        try:
            self._look()
            self._install()
        except BaseException:
            self.close()
            raise

    def _look(self) -> None:
        """What machine it is, and whether the agent can be raised there."""
        self._machine, who = self._connection.machine, self._connection.who
        user = re.search(r"^Uid:\s+\d+\s+(\d+)", who, re.MULTILINE)
        root = user is not None and user[1] == "0"
        self._raise = ["sudo", "-n"] if who.endswith("\nsudo") and not root else []

    def _install(self) -> None:
        """Copy the agent to the first folder there that takes it, and read it back: what came must
        be what was sent, and the time tells how fast the samples can come."""
        # "mips" and "armv7l" leave it open what its programs are like; its kernel tells each
        auxv = self._connection.ask("exec cat /proc/self/auxv").out
        path = agent_for(self._machine, auxv)
        program = path.read_bytes()
        refused: list[str] = []
        for base in self._bases():
            folder = f"{base.rstrip('/')}/rtgauge-{secrets.token_hex(8)}"
            why = self._install_in(folder, program)
            if not why:
                self._folder = folder
                for reason in refused:
                    _say(f"{self.name}: {reason}; the agent is in {base}")
                self._record(path, program)
                return
            refused.append(f"{base}: {why}")
        raise TargetError(
            f"{self.name} has no folder for the agent: {'; '.join(refused)}",
            f"let one have room for {len(program) >> 10} KiB and be mounted without noexec, "
            "and be TMPDIR there",
        )

    def _bases(self) -> list[str]:
        found = self._connection.folders.splitlines()
        return [base for base in dict.fromkeys(found) if re.fullmatch(r"/[^\0\n]*", base)]

    def _install_in(self, folder: str, program: bytes) -> str:
        """Why not; empty if the agent is there."""
        self._connection.keep(folder)
        made = self._connection.ask(_MAKE, folder, self._connection.token)
        if made.code in CANNOT_EXECUTE:
            return "programs must not be started there (noexec)"
        if made.code:
            return made.said or "no folder can be made there"
        agent = f"{folder}/agent"
        put = self._put(agent, program)
        if put:
            return put
        back = self._connection.ask(
            'chmod 700 "$1"; cat "$1"',
            agent,
            patience=f"{self.name}: reading the agent back, to check it …",
        )
        if hashlib.sha256(back.out).digest() != hashlib.sha256(program).digest():
            return "what was read back there is not what was written"
        self.bandwidth = back.rate
        return ""

    def _put(self, path: str, data: bytes) -> str:
        """Write a file there; why that cannot be, or empty.

        In pieces, each one's end awaited: ssh would take in all of it at once, and on a thin link
        nobody could tell for minutes whether anything moves.
        """
        begun = time.monotonic()
        patience = f"{self.name}: copying the agent ({len(data) >> 10} KiB) …"
        offset, size = 0, PUT_BYTES
        while offset < len(data):
            before = time.monotonic()
            put = self._connection.ask(_PUT, path, data=data[offset : offset + size])
            if put.code:
                return put.said or f"cat ended with {put.code}"
            offset += size
            now = time.monotonic()
            if now - before < 1.0:
                size = min(2 * size, PUT_MAX)
            if patience and now - begun > PATIENCE_S:
                _say(patience)
                patience = ""
        return ""

    def _record(self, path: Path, program: bytes) -> None:
        self.connection = {
            "machine": self._machine,
            "agent": path.name,
            "agent_sha256": hashlib.sha256(program).hexdigest(),
            "folder": self._folder,
            "raised": " ".join(self._raise),
            "link": bandwidth_text(self.bandwidth) if self.bandwidth else "",
            "bytes_per_s": f"{self.bandwidth:.0f}",
        }

    # --- Target ---

    def describe(self) -> str:
        """The catalogue of the agent there."""
        if self._catalogue is None:
            self._catalogue = self._ask_agent("describe", []).decode(errors="replace")
        return self._catalogue

    def environment(self) -> bytes:
        """Header and environment of the board. A connection that was lost is made anew first: what
        ran over it has ended, and this is the beginning of another run."""
        self._returns, self._away_s = 0, 0.0
        if self.lost:
            connection = self._connect()
            with self._lock:
                before, self._connection = self._connection, connection
            before.close()
            self._prepare_there()
        return self._ask_agent("environment", self._raise)

    def restore(self, run: str) -> tuple[int, int]:
        """As that of this machine, on the board if it can still be reached."""
        if self.lost:
            return 0, 0
        return put_back(self._ask_agent("restore", self._raise, "--json", "--run", run))

    def start(self, arguments: Sequence[str]) -> SshAgent:
        """Start the agent there; its input is the control. It ends with the connection, or goes on
        behind its spool until the next one is made."""
        if self.lost:
            raise TargetError(f"the connection to {self.name} is lost: {self.lost}")
        self._started += 1
        pid, spool = f"{self._folder}/pid{self._started}", f"{self._folder}/spool{self._started}"
        words = [f"{self._folder}/agent", *arguments, "--output", "-", "--control"]
        if not self.reconnect_s:
            spool = ""
        else:
            hold_s = self.reconnect_s + HOLD_MORE_S
            words += ["--spool", spool, "--hold", f"{hold_s:.0f}s"]
            self._connection.hold(hold_s)
        # A shell in between tells of a signal, which ssh does not.
        own = ["sh", "-c", '{ echo $$ >"$0"; } 2>/dev/null; exec "$@"', pid]
        return SshAgent(self, self._session([*own, *words]), pid, spool)

    def _session(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        """A session that runs this command there, raised."""
        return self._connection.begin(_script(f"{shlex.join([*self._raise, *words])}; exit $?"))

    def attach(self, spool: str, came: int) -> subprocess.Popen[bytes]:
        """A session with the agent behind that spool, over a new connection if the one there was
        is lost; its stream begins with byte number ``came``.

        Raises TargetError if that cannot be for now, _Over if it never will.
        """
        before = self._connection
        if before.lost:
            connection = self._connect()
            try:
                self._check_same_boot(connection)
                # known before it is its own: else a break in between would leave it to nobody
                connection.keep(self._folder)
                connection.hold(self.reconnect_s + HOLD_MORE_S)
                if connection.ask(_ADOPT, self._folder, connection.token).code:
                    raise _Over("the agent there is gone, and its folder with it")
                self._replace(before, connection)
            except BaseException:
                connection.close()
                raise
        return self._session([f"{self._folder}/agent", "attach", spool, "--from", str(came)])

    def regain(self, stop: Callable[[], bool]) -> str:
        """Make a lost connection anew, with the agent, where no agent is at work; why that was not
        possible, or empty. ``stop``: whether to give up."""
        since = time.monotonic()
        way = _Return(self._renew, self.reconnect_s)
        while not way.wait(RETRY_S / 4):
            if stop():
                way.give_up()
        if way.result is None:
            return way.why or "given up"
        self.returned(time.monotonic() - since)
        return ""

    def _renew(self) -> bool:
        before = self._connection
        connection = self._connect()
        try:
            self._check_same_boot(connection)
            self._replace(before, connection)
        except BaseException:
            connection.close()
            raise
        self._install()
        return True

    def _replace(self, before: _Connection, connection: _Connection) -> None:
        """This connection for the one before, unless that was given up meanwhile."""
        with self._lock:
            if self._closed or self._connection is not before:
                raise _Over("given up")
            self._connection = connection
        before.close()

    def _check_same_boot(self, connection: _Connection) -> None:
        if connection.boot_id != self._connection.boot_id:
            raise _Over("the board was started anew meanwhile")

    def returned(self, away_s: float) -> None:
        """The connection is there again, after so long; the run's record says so."""
        self._returns += 1
        self._away_s += away_s
        self.connection["reconnected"] = str(self._returns)
        self.connection["away_s"] = f"{self._away_s:.1f}"

    def kill(self, pid_file: str) -> None:
        """SIGKILL to the process whose number is in that file."""
        words = shlex.join([*self._raise, "sh", "-c", 'kill -KILL "$0"'])
        self._connection.ask(f'read -r p <"$1" && {words} "$p"', pid_file)

    def ended(self) -> str:
        """As ``lost``, for someone whose session has just ended: a moment is waited for."""
        return self._connection.ended()

    def close(self) -> None:
        """Remove the agent there, and end the connection, one that is still being made too."""
        with self._lock:
            self._closed = True
        self._connection.close()

    # --- more than a target has ---

    @property
    def lost(self) -> str:
        """Why the connection is no more; empty while it is."""
        return self._connection.lost

    def _ask_agent(self, command: str, raised: Sequence[str], *words_after: str) -> bytes:
        words = shlex.join([*raised, f"{self._folder}/agent", command, *words_after])
        answer = self._connection.ask(f"{words}; exit $?")
        if answer.code:
            raise TargetError(
                f"the agent's '{command}' ended with code {answer.code} on {self.name}"
                + (f": {answer.said}" if answer.said else ""),
                "see whether programs may be started there",
            )
        return answer.out


class _Over(TargetError):
    """What there was on the board is no more."""


class _Return(threading.Thread):
    """Tries to come back to a board, again and again, until that has come true or is given up."""

    def __init__(
        self,
        attempt: Callable[[], Any],
        patience_s: float,
        drop: Callable[[Any], None] = lambda _: None,
    ) -> None:
        super().__init__(daemon=True)
        self._attempt, self._drop = attempt, drop
        self._lock = threading.Lock()
        self._until = time.monotonic() + patience_s
        self._given_up = threading.Event()
        self._result: Any = None
        self.why = ""
        self.start()

    def run(self) -> None:
        pause = RETRY_S
        while not self._given_up.is_set():
            try:
                result = self._attempt()
                with self._lock:
                    wanted = not self._given_up.is_set()
                    self._result = result if wanted else None
                if not wanted:
                    self._drop(result)
                break
            except TargetError as error:
                # which target that is stands before it
                self.why = error.message.partition(" cannot be reached: ")[2] or error.message
                if isinstance(error, _Over):
                    break
            except OSError as error:
                self.why = error.strerror or str(error)
            left = self._until - time.monotonic()
            if left <= 0:
                break
            self._given_up.wait(min(pause, left))
            pause = min(pause * 1.5, RETRY_MAX_S)

    def give_up(self) -> None:
        """Whatever is under way is its last, and what comes of it is dropped."""
        with self._lock:
            self._given_up.set()

    def wait(self, timeout: float) -> bool:
        """Whether it has ended or was given up, after so many seconds at most."""
        if not self._given_up.is_set():
            self.join(timeout)
        return self._given_up.is_set() or not self.is_alive()

    @property
    def result(self) -> Any:
        """What came true; None if nothing did, or not yet."""
        return self._result


def _end_session(process: subprocess.Popen[bytes]) -> None:
    """End a session that nobody will read from."""
    with process:
        process.kill()


class SshAgent(LocalAgent):
    """An agent on a board: what ssh reads and writes is what the agent there does.

    ``spool``: the socket by which it is found again after its connection broke; or empty.
    """

    def __init__(
        self, target: SshTarget, process: subprocess.Popen[bytes], pid_file: str, spool: str
    ) -> None:
        super().__init__(process, [])
        self._target = target
        self._pid_file = pid_file
        self._spool = spool
        self._came = self._confirmed = 0  # bytes of the stream
        self._confirmed_at = 0.0
        self._code: int | None = None  # what the spool says that the agent ended with
        self._return: _Return | None = None
        self._since = self._until = 0.0
        self._came_before = -1  # when the last way back was begun
        self._stopped = self._killed = False
        self._lost = ""  # why it cannot be found again

    # --- the connection that comes and goes ---

    @property
    def away(self) -> str:
        """Why nothing can come now, though the agent goes on; empty while something can."""
        if self._return is None:
            return ""
        return self._return.why or "the connection is lost"

    def _broken(self) -> bool:
        """Whether the stream ended because the connection did; then the way back has begun."""
        if not self._spool or self._code is not None or self._lost:
            return False
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LOST_S)
        if self._killed and self._process.poll() in (SSH_FAILED, -signal.SIGTERM):
            self._lost = self._target.lost or "given up"
            return False
        if self._came_before >= 0 and self._process.poll() == ExitCode.FAILED:
            self._lost = "the agent there is gone"
            return False
        if self._process.poll() != SSH_FAILED or not (self._target.ended() or self._came):
            return False
        self._close_files()
        self._since = time.monotonic()
        came = self._came
        # a way back by which nothing came is none
        if came != self._came_before:
            self._came_before, self._until = came, self._since + self._target.reconnect_s
        elif self._since > self._until:
            self._lost = self._target.lost or "nothing comes from the agent there"
            return False
        self._return = _Return(
            lambda: self._target.attach(self._spool, came), self._until - self._since, _end_session
        )
        return True

    def _is_away(self, timeout: float) -> bool:
        """Whether there is no way yet, after so many seconds at most."""
        if self._return is None:
            return False
        if not self._return.wait(timeout):
            return True
        process, why = self._return.result, self._return.why
        self._return = None
        if process is None:
            self._lost = why or "given up"
            self._ended = True
            return False
        self._target.returned(time.monotonic() - self._since)
        self._follow(process)
        self._confirmed = 0
        if self._stopped:
            super().stop()
        return False

    def _close_files(self) -> None:
        self._selector.close()
        for stream in (self._stdin, self._stdout, self._stderr):
            with contextlib.suppress(OSError):
                stream.close()

    def _take(self, timeout: float) -> bytes | None:
        piece = super()._take(timeout)
        self._came += len(piece or b"")
        if self._spool:
            self._confirm(piece)
        return piece

    def _confirm(self, piece: bytes | None) -> None:
        """Tell the spool what it need not keep any more; and that its last word has come."""
        now = time.monotonic()
        new = self._confirmed != self._came
        if new and (not piece or now - self._confirmed_at >= CONFIRM_S):
            self._tell(f"got {self._came}\n")
            self._confirmed, self._confirmed_at = self._came, now
        said = _ENDED.search(self._messages)
        if said is not None and self._code is None:
            self._code = int(said[1])
            self._ended = True
            self._tell("end\n")

    def _tell(self, order: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # its end is found out otherwise
            os.write(self._stdin.fileno(), order.encode())

    # --- RunningAgent ---

    def read(self, timeout: float) -> bytes | None:
        deadline = time.monotonic() + timeout
        while not self._is_away(max(0.0, deadline - time.monotonic())):
            data = super().read(max(0.0, deadline - time.monotonic()))
            if data != b"" or not self._broken():
                return data
        return None

    def stop(self) -> None:
        self._stopped = True
        if self._return is None:
            super().stop()

    def kill(self) -> None:
        """SIGKILL to the agent alone, there; where that cannot be told to it, an end of its input,
        which ends it too. One that cannot be reached is given up."""
        if self._return is not None:
            self._return.give_up()
            return
        if self._process.poll() is not None:
            return
        self._killed = True
        if self._spool:
            self._tell("kill\n")
            if self.wait(LOST_S) is not None:
                return
        if self._came_before < 0:  # else it is another session's, long over
            self._kill_there()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LOST_S)
        if self._process.poll() is None:
            self._process.terminate()

    def _kill_there(self) -> None:
        """By its number; a network that is silent is not waited for."""

        def ask() -> None:
            with contextlib.suppress(TargetError, OSError):
                self._target.kill(self._pid_file)

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(LOST_S)

    def wait(self, timeout: float) -> int | None:
        deadline = time.monotonic() + timeout
        while not self._is_away(max(0.0, deadline - time.monotonic())):
            code = super().wait(max(0.0, deadline - time.monotonic()))
            if code is None:
                return None
            if not self._broken():
                return self._exit_code()
        return None

    def _exit_code(self) -> int:
        if self._code is not None:
            return self._code
        if self._lost:
            return int(ExitCode.INTERRUPTED)
        code = self._process.returncode
        if code == SSH_FAILED:
            return int(ExitCode.INTERRUPTED if self._target.ended() else ExitCode.FAILED)
        if 128 < code < SSH_FAILED and code - 128 in set(signal.Signals):
            return 128 - code
        return code

    def messages(self) -> str:
        """What the agent said on stderr; of one whose connection is lost, that."""
        said = _ENDED.sub(b"", self._messages).decode(errors="replace")
        if self._code is not None:
            return said
        name = self._target.name
        if self._lost:
            return (
                f"the connection to {name} was lost and not found again ({self._lost}); "
                "what had come is kept\n"
                "run it once more; an agent that still measures there ends in order by itself "
                f"within {self._target.reconnect_s + HOLD_MORE_S:.0f} s and puts the settings "
                "back: until then no other can measure there"
            )
        code = self._process.poll()
        if code == SSH_FAILED:
            lost = self._target.ended()
            if lost:
                return (
                    f"the connection to {name} was lost ({lost}); "
                    "what had come is kept\n"
                    "run it once more; the agent there ends in order and puts the settings back"
                )
        if code in CANNOT_EXECUTE:
            return (
                f"the agent cannot be started any more on {name}: {said.strip()}\n"
                "does something clear its folder for temporary files?"
            )
        return said

    def close(self) -> None:
        way, self._return = self._return, None
        if way is not None:
            way.give_up()
            if way.result is not None:
                self._follow(way.result)
        super().close()
