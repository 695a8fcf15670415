# SPDX-License-Identifier: Apache-2.0
"""This machine as the target: finds the agent, raises it, and reads its stream from a pipe.

Step 6 of the path of a sample: the agent's draining thread writes the block into a pipe of 1 MiB;
``LocalAgent.read`` takes it out here.

The host itself stays unprivileged; only the agent is raised: the host is root already, else
``sudo -n``, else the agent runs unprivileged and the run says so. No password is ever asked for.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import platform
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import IO, Final, cast

from rtgauge.architectures import for_target
from rtgauge.clock import Clock, RealClock
from rtgauge.errors import TargetError, UsageError
from rtgauge.lab.linked import elf_of
from rtgauge.target.base import last_words

__all__ = ["LocalAgent", "LocalTarget", "find_agent", "fitting", "put_back", "why_wrong"]

MESSAGES_MAX: Final = 64 * 1024
# Interval of looking for the agent's end, which no event shows while others hold its pipe open.
POLL_S: Final = 0.1
PIPE_BYTES: Final = 1024 * 1024
# Size of a read that the C library reuses. Larger ones let memory grow over hours.
READ_BYTES: Final = 64 * 1024
# Bytes of the stream that are kept while waiting for the agent's end. It waits if it sends more.
PENDING_MAX: Final = 64 * 1024 * 1024
# The last bytes on stderr, which are kept in addition to the first ones.
LAST_BYTES: Final = 4096
QUERY_TIMEOUT_S: Final = 30.0
# A catalogue has some 100 KiB, an environment a tenth of that.
ANSWER_MAX: Final = 4 * 1024 * 1024
SUDO_TIMEOUT_S: Final = 10.0
AGENT_VARIABLE: Final = "RTGAUGE_AGENT"


def find_agent() -> Path:
    """The agent for this machine: ``$RTGAUGE_AGENT``, else the one that came with the package.

    Raises TargetError if there is none.
    """
    given = os.environ.get(AGENT_VARIABLE)
    if given:
        path = Path(given)
        if not path.is_file():
            raise TargetError(
                f"there is no agent at {given}",
                f"correct the environment variable {AGENT_VARIABLE}",
            )
        return path.absolute()
    machine, own = platform.machine(), platform.libc_ver()[0] or "musl"
    folder = resources.files("rtgauge") / "agents"
    names = {entry.name: entry for entry in folder.iterdir()} if folder.is_dir() else {}
    # The one of this system's C library first: it is part of what is evaluated.
    wanted = [f"rtgauge-agent-{machine}-{library}" for library in (own, "glibc", "musl")]
    with contextlib.suppress(TargetError):
        wanted.append(for_target(machine, _auxv()).agent)
    for name in wanted:
        entry = names.get(name)
        if entry is not None and entry.is_file():
            return Path(str(entry)).absolute()
    raise TargetError(
        f"there is no agent for this machine ({platform.machine()}) in this installation",
        f"build it with 'make setup', or name one in the environment variable {AGENT_VARIABLE}",
    )


def fitting(agent: Path, machine: str) -> Path:
    """The agent that the user named, with its whole path. Raises UsageError if it is not a program,
    or one for another kind of machine than ``uname -m`` says."""
    try:
        elf = elf_of(agent)
    except OSError as error:
        raise UsageError(
            f"--agent: {agent} cannot be read: {error.strerror}", "name the file of an agent"
        ) from None
    if elf is None:
        raise UsageError(
            f"--agent: {agent} is not a program for Linux",
            "build an agent for the target: rtgauge agent --help",
        )
    if not elf.runs_on(machine):
        raise UsageError(
            f"--agent: {agent} is for {elf}, but the target is {machine}",
            "build one for it: rtgauge agent --help",
        )
    return agent.absolute()


def _auxv() -> bytes:
    """The auxiliary vector of this process; empty if it is not readable."""
    try:
        return Path("/proc/self/auxv").read_bytes()
    except OSError:
        return b""


def _raise_words(agent: Path) -> list[str]:
    """The words before the agent's command that make it run as root; none if it cannot.

    The agent itself is tried, so sudoers need to allow no other command. A password that was
    given before (-k) does not count: it expires, and agents may have no terminal to share it.
    """
    if os.geteuid() == 0 or shutil.which("sudo") is None:
        return []
    try:
        asked = subprocess.run(
            ["sudo", "-n", "-k", str(agent), "version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            start_new_session=True,
            timeout=SUDO_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return ["sudo", "-n"] if asked.returncode == 0 else []


def _start_error(agent: Path, error: OSError) -> TargetError:
    if error.errno == errno.ENOEXEC:
        return TargetError(
            f"the agent {agent} is not a program for this machine ({platform.machine()})",
            "use the agent built for this architecture",
        )
    with contextlib.suppress(OSError):
        elf = elf_of(agent)
        if error.errno == errno.ENOENT and elf is not None and agent.is_file():
            return TargetError(
                f"the agent {agent} cannot be started: this machine has no {elf.loader}",
                "use an agent that is linked against this machine's C library",
            )
    return TargetError(
        f"the agent {agent} cannot be started: {error.strerror}", "check that it is executable"
    )


def put_back(answer: bytes) -> tuple[int, int]:
    """The answer of the agent's ``restore --json``: the numbers of settings that it restored and
    of processes that it killed. Raises TargetError if it is not that."""
    try:
        found = json.loads(answer)
        return int(found["put_back"]), int(found["killed"])
    except (ArithmeticError, ValueError, KeyError, TypeError, RecursionError):
        raise TargetError(
            "the agent's 'restore' did not report what it restored",
            "use the agent of this version of rtgauge",
        ) from None


def why_wrong(answer: bytes) -> tuple[str, str]:
    """The answer of the agent's ``line``: why a line is wrong, and the remedy, or empty."""
    try:
        found = json.loads(answer)
        return str(found.get("reason", "")), str(found.get("remedy", ""))
    except (ValueError, AttributeError, RecursionError):
        return "", ""


def _answer(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """The whole stdout of a process, and the first 64 KiB of its stderr.

    Raises TimeoutExpired after ``QUERY_TIMEOUT_S``, OverflowError beyond ``ANSWER_MAX`` bytes.
    """
    deadline = time.monotonic() + QUERY_TIMEOUT_S
    answer, said = bytearray(), bytearray()
    stdout, stderr = cast(IO[bytes], process.stdout), cast(IO[bytes], process.stderr)
    with selectors.DefaultSelector() as selector:
        for stream in (stdout, stderr):
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(process.args, QUERY_TIMEOUT_S)
            for key, _ in selector.select(left):
                piece = os.read(key.fd, READ_BYTES)
                if not piece:
                    selector.unregister(key.fileobj)
                elif key.fileobj is stderr:
                    said += piece[: MESSAGES_MAX - len(said)]
                else:
                    answer += piece
                    if len(answer) > ANSWER_MAX:
                        raise OverflowError
    return bytes(answer), bytes(said)


def _killed(process: subprocess.Popen[bytes], raised: Sequence[str]) -> bool:
    """Kill an agent that has not ended, below sudo where it was raised. False if sudo refuses."""
    if not raised:
        process.kill()
        return True
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        killed = subprocess.run(
            [*raised, "kill", "-KILL", str(_below_sudo(process.pid))],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SUDO_TIMEOUT_S,
            check=False,
        )
        return killed.returncode == 0
    return False


def _end(process: subprocess.Popen[bytes], raised: Sequence[str]) -> None:
    """End a process whose output is not needed any more."""
    if process.poll() is None:
        _killed(process, raised)
    for stream in (process.stdout, process.stderr):  # its end, if sudo refuses
        cast(IO[bytes], stream).close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(SUDO_TIMEOUT_S)


def _below_sudo(pid: int) -> int:
    """The id of the agent below sudo, which may add a process of its own."""
    while True:
        try:
            if Path(f"/proc/{pid}/comm").read_text() != "sudo\n":
                return pid
            pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return pid


class LocalTarget:
    """This machine."""

    def __init__(self, detail: str = "", agent: Path | None = None) -> None:
        if detail:
            raise UsageError(
                f"target 'local' takes no options, but got '{detail}'", "write --target local"
            )
        self.name = "local"
        self.clock: Clock = RealClock()
        self._agent = fitting(agent, platform.machine()) if agent else find_agent()
        self._raise: list[str] | None = None

    def describe(self) -> str:
        """The agent's catalogue as JSON text."""
        return self._query(["describe"], raised=False).decode(errors="replace")

    def environment(self) -> bytes:
        """The header and environment records of this machine."""
        return self._query(["environment"], raised=True)

    def wrong_line(self, text: str, *, asks: bool) -> tuple[str, str]:
        """As the agent says. Empty for an agent of the user that cannot tell."""
        with contextlib.suppress(TargetError):
            return why_wrong(self._query(["line", *["--asks"] * asks, text], raised=True))
        return "", ""

    def restore(self, run: str) -> tuple[int, int]:
        """Restore the settings that a killed agent left changed, after its guardian has ended, and
        end its loads; how many settings and processes."""
        return put_back(self._query(["restore", "--json", "--run", run], raised=True))

    def start(self, arguments: Sequence[str]) -> LocalAgent:
        """Start the agent in a session of its own, so that Ctrl-C reaches the host alone."""
        words = [*self._raised(), str(self._agent), *arguments, "--output", "-", "--control"]
        return LocalAgent(self._popen(words, subprocess.PIPE), self._raised())

    def host_address(self) -> str:
        """Loopback: no device raises interrupts for it."""
        return "127.0.0.1"

    def own_addresses(self) -> frozenset[str]:
        """That of loopback."""
        return frozenset({"127.0.0.1"})

    def close(self) -> None:
        """Nothing to do: the agent leaves nothing behind."""

    def _raised(self) -> list[str]:
        if self._raise is None:
            self._raise = _raise_words(self._agent)
        return self._raise

    def _popen(self, words: Sequence[str], stdin: int) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                words,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise _start_error(self._agent, error) from None

    def _query(self, arguments: list[str], *, raised: bool) -> bytes:
        above = self._raised() if raised else []
        remedy = f"run it by hand: {self._agent} {arguments[0]}"
        process = self._popen([*above, str(self._agent), *arguments], subprocess.DEVNULL)
        try:
            answer, said = _answer(process)
            process.wait(QUERY_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise TargetError(
                f"the agent did not answer '{arguments[0]}' within {QUERY_TIMEOUT_S:.0f} s",
                remedy,
            ) from None
        except OverflowError:
            raise TargetError(
                f"the agent's answer to '{arguments[0]}' has more than {ANSWER_MAX >> 20} MiB",
                remedy,
            ) from None
        finally:
            _end(process, above)
        if process.returncode != 0:
            message, _ = last_words(said.decode(errors="replace"))
            raise TargetError(
                f"the agent's '{arguments[0]}' ended with code {process.returncode}"
                + (f": {message}" if message else ""),
                remedy,
            )
        return answer


class LocalAgent:
    """An agent running on this machine: its stdin is the control, its stdout the stream."""

    def __init__(self, process: subprocess.Popen[bytes], raised: Sequence[str]) -> None:
        self._raised = list(raised)
        self._pending = bytearray()  # stream bytes that came while waiting for the end
        self._follow(process)

    def _follow(self, process: subprocess.Popen[bytes]) -> None:
        """Read from this process and write to it from now on."""
        self._process = process
        self._messages = bytearray()
        self._last = b""
        self._stdin = cast(IO[bytes], process.stdin)
        self._stdout = cast(IO[bytes], process.stdout)
        self._stderr = cast(IO[bytes], process.stderr)
        self._ended = False
        with contextlib.suppress(OSError):  # more than the user may have: the default has to do
            fcntl.fcntl(self._stdout.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._selector = selectors.DefaultSelector()
        for stream in (self._stdout, self._stderr):
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ)
        os.set_blocking(self._stdin.fileno(), False)

    def read(self, timeout: float) -> bytes | None:
        """Bytes of the stream: None if none arrived in ``timeout`` seconds, empty at its end."""
        deadline = time.monotonic() + timeout
        if self._pending:
            data, self._pending = bytes(self._pending), bytearray()
            return data
        while not self._ended:
            exited = self._process.poll() is not None
            left = 0.0 if exited else max(0.0, deadline - time.monotonic())
            piece = self._take(min(left, POLL_S))
            if piece:
                return piece
            if exited and piece is None:  # someone else may hold the pipe open: the agent is gone
                self._ended = True
            elif time.monotonic() >= deadline and not exited:
                return None
        return b""

    def _take(self, timeout: float) -> bytes | None:
        """Read once: stream bytes, b"" if something else happened, None if nothing did."""
        happened = self._selector.select(timeout)
        data: bytes | None = b"" if happened else None
        for key, _ in happened:
            stream = cast(IO[bytes], key.fileobj)
            try:
                piece = os.read(stream.fileno(), READ_BYTES)
            except BlockingIOError:
                continue
            if not piece:
                self._selector.unregister(stream)
                self._ended = self._ended or stream is self._stdout
            elif stream is self._stdout:
                data = piece
            else:
                self._messages += piece[: MESSAGES_MAX - len(self._messages)]
                self._last = (self._last + piece)[-LAST_BYTES:]
        return data

    def stop(self) -> None:
        """Write the line that asks the agent for an orderly end."""
        with contextlib.suppress(OSError, ValueError):  # gone already, or its pipe is full of them
            os.write(self._stdin.fileno(), b"stop\n")

    def kill(self) -> None:
        """Kill the agent alone: its guardian survives and restores the settings. Where sudo refuses
        that, the end of its input stops the agent."""
        if self._process.poll() is not None:
            return
        if not _killed(self._process, self._raised):  # sudo allows the agent alone
            self._stdin.close()  # which ends it in order

    def wait(self, timeout: float) -> int | None:
        """The agent's exit code, negative for a signal; None if it still runs."""
        deadline = time.monotonic() + timeout
        while self._process.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            if self._selector.get_map() and len(self._pending) < PENDING_MAX:
                self._pending += self._take(min(left, 0.05)) or b""
            else:
                time.sleep(min(left, 0.01))
        while self._selector.get_map() and (piece := self._take(0)) is not None:
            self._pending += piece
        return self._exit_code()

    def _exit_code(self) -> int:
        code = self._process.returncode
        # sudo reports a signal as a shell does.
        if self._raised and code > 128 and code - 128 in set(signal.Signals):
            return 128 - code
        return code

    def messages(self) -> str:
        """The first 64 KiB that the agent wrote to stderr."""
        return self._messages.decode(errors="replace")

    def close(self) -> None:
        """Close the pipes; an agent that still runs is killed first."""
        if self._process.poll() is None:
            self.kill()
        self._selector.close()
        for stream in (self._stdin, self._stdout, self._stderr):
            with contextlib.suppress(OSError):
                stream.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(SUDO_TIMEOUT_S)
