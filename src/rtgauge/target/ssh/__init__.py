# SPDX-License-Identifier: Apache-2.0
"""A board that is reached with the system's OpenSSH client: ``ssh://[user@]host[:port]``.

Step 6 of the path of a sample, over a network: the agent writes into the connection. The ``ssh``
process on the host writes the bytes into a pipe, which is read as that of a local agent.

The user's own configuration, keys, agents and jump hosts apply, because it is their ``ssh``. Host
keys are checked as it configures. No password is ever asked for (batch mode).

Each target has one connection (``connection.py``). An agent continues when it breaks
(``agent.py``). Programs used on the board: sh, mkdir, cat, chmod, rm, sleep, uname, and sudo if it
is installed.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import re
import secrets
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from rtgauge.architectures import for_target
from rtgauge.clock import Clock, RealClock
from rtgauge.errors import TargetError
from rtgauge.facts import printable
from rtgauge.lab.linked import elf_of
from rtgauge.lab.programs import static_agent
from rtgauge.target.base import last_words, say
from rtgauge.target.local import fitting, put_back, why_wrong
from rtgauge.target.ssh.agent import HOLD_MORE_S, RETRY_S, Over, Return, SshAgent
from rtgauge.target.ssh.connection import (
    CANNOT_EXECUTE,
    PATIENCE_S,
    Connection,
    parse,
    script,
)
from rtgauge.text import bandwidth, plain

__all__ = ["SshAgent", "SshTarget", "agent_for", "parse"]

RECONNECT_S: Final = 600.0
# If the connection has ended, its keeper no longer removes the folder, so this command does.
_MAKE: Final = (
    'trap "" PIPE; umask 077; code=1; '
    'mkdir "$1" && echo "$2" >"$1/keeper" && echo "#!/bin/sh" >"$1/try" && { code=126; '
    'chmod 700 "$1/try" && "$1/try" && rm "$1/try" && code=0; }; '
    'echo 2>/dev/null || rm -rf "$1"; exit $code'
)
# Hand the folder over to another keeper.
_ADOPT: Final = '[ -x "$1/agent" ] && echo "$2" >"$1/keeper"'
_PUT: Final = 'cat >>"$1"'
# Bytes of a file per session, doubled up to the maximum while one takes less than a second.
PUT_BYTES: Final = 16 * 1024
PUT_MAX: Final = 256 * 1024


def agent_for(machine: str, auxv: bytes = b"") -> Path:
    """The static agent for a machine, by what ``uname -m`` and ``/proc/self/auxv`` say there.

    Raises TargetError for machines for which no agent is made.
    """
    return static_agent(for_target(machine, auxv), say)


def unfit(address: str, destination: Collection[str]) -> str:
    """Why this host must not listen on an address that a board named; empty if it may.
    ``destination``: the addresses that ssh connects to."""
    try:
        found = ipaddress.IPv4Address(address)
    except ValueError:
        return "not IPv4"
    if found.is_unspecified or found.is_multicast or found.is_reserved:
        return "not the address of one host"
    if found.is_loopback and not any(map(_is_loopback, destination)):
        return "a loopback address, although the board is another machine"
    return ""


def _is_loopback(address: str) -> bool:
    return ipaddress.IPv4Address(address).is_loopback


class SshTarget:
    """A board reached with ssh."""

    def __init__(self, detail: str = "", agent: Path | None = None) -> None:
        self.name = f"ssh:{detail}"
        self._given = agent
        self.clock: Clock = RealClock()
        self._address = parse(detail)
        self._catalogue: str | None = None
        self._started = 0
        self._folder = self._machine = ""
        self._raise: list[str] = []
        #: Seconds for which a lost connection is retried; 0: not at all.
        self.reconnect_s = RECONNECT_S
        # number of reconnections in the run, and the time without a connection
        self._returns, self._away_s = 0, 0.0
        #: Bytes per second from the board to the host; 0 if unknown.
        self.bandwidth = 0.0
        self.connection: dict[str, str] = {}
        self._lock, self._closed = threading.Lock(), False
        self._connection = self._connect()
        self._prepare_there()

    def _connect(self) -> Connection:
        return Connection(self._address, self.name)

    def _prepare_there(self) -> None:
        try:
            self._look()
            self._install()
        except BaseException:
            self.close()
            raise

    def _look(self) -> None:
        """Read the machine's kind, and whether sudo can raise the agent."""
        self._machine, who = self._connection.machine, self._connection.who
        user = re.search(r"^Uid:\s+\d+\s+(\d+)", who, re.MULTILINE)
        root = user is not None and user[1] == "0"
        self._raise = ["sudo", "-n"] if who.endswith("\nsudo") and not root else []

    def _install(self) -> None:
        """Copy the agent to the first folder that takes it, and read it back to compare it and to
        measure the rate of the link."""
        path = self._chosen()
        program = path.read_bytes()
        refused: list[str] = []
        for base in self._bases():
            folder = f"{base.rstrip('/')}/rtgauge-{secrets.token_hex(8)}"
            why = self._install_in(folder, program)
            if not why:
                self._folder = folder
                for reason in refused:
                    say(f"{self.name}: {reason}. The agent is in {base}")
                self._record(path, program)
                return
            refused.append(f"{base}: {why}")
        raise TargetError(
            f"{self.name} has no folder for the agent: {'; '.join(refused)}",
            f"set TMPDIR there to a folder with {len(program) >> 10} KiB of room, mounted "
            "without noexec",
        )

    def _chosen(self) -> Path:
        """The agent that the user named, else the static one for the board. Raises UsageError,
        TargetError if the board lacks what loads it."""
        if self._given is None:
            # "mips" and "armv7l" do not determine the agent; the auxiliary vector does
            auxv = self._connection.ask("exec cat /proc/self/auxv").out
            return agent_for(self._machine, auxv)
        path = fitting(self._given, self._machine)
        elf = elf_of(path)
        loader = elf.loader if elf is not None else ""
        if loader and self._connection.ask('[ -x "$1" ]', loader).code:
            raise TargetError(
                f"{self.name} has no {loader}, which the agent {path} needs",
                "link an agent against the board's C library (see rtgauge agent --help). Or omit "
                "--agent",
            )
        return path

    def _bases(self) -> list[str]:
        found = self._connection.folders.splitlines()
        return [base for base in dict.fromkeys(found) if re.fullmatch(r"/[^\0\n]*", base)]

    def _install_in(self, folder: str, program: bytes) -> str:
        """Copy the agent into a folder; why that failed, or empty."""
        self._connection.keep(folder)
        made = self._connection.ask(_MAKE, folder, self._connection.token)
        if made.code in CANNOT_EXECUTE:
            return "programs cannot be started there (noexec)"
        if made.code:
            return made.said or "a folder cannot be created there"
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
            return "the file read back differs from the one written"
        self.bandwidth = back.rate
        return ""

    def _put(self, path: str, data: bytes) -> str:
        """Write a file there; why that failed, or empty.

        It writes pieces and waits for each: ssh would buffer the whole file, and on a thin link
        progress would not be visible for minutes.
        """
        begun = time.monotonic()
        patience = f"{self.name}: copying the agent ({len(data) >> 10} KiB) …"
        offset, size = 0, PUT_BYTES
        while offset < len(data):
            before = time.monotonic()
            put = self._connection.ask(_PUT, path, data=data[offset : offset + size])
            if put.code:
                return put.said or f"cat ended with code {put.code}"
            offset += size
            now = time.monotonic()
            if now - before < 1.0:
                size = min(2 * size, PUT_MAX)
            if patience and now - begun > PATIENCE_S:
                say(patience)
                patience = ""
        return ""

    def _record(self, path: Path, program: bytes) -> None:
        self.connection = {
            "machine": self._machine,
            "agent": path.name,
            "agent_sha256": hashlib.sha256(program).hexdigest(),
            "folder": self._folder,
            "raised": " ".join(self._raise),
            "link": plain(bandwidth(self.bandwidth)) if self.bandwidth else "",
            "bytes_per_s": f"{self.bandwidth:.0f}",
        }

    # --- Target ---

    def describe(self) -> str:
        """The catalogue of the agent there."""
        if self._catalogue is None:
            self._catalogue = self._ask_agent("describe", []).decode(errors="replace")
        return self._catalogue

    def begin_repeat(self, _repeat: int) -> None:
        """Count the reconnections of each run by itself."""
        self._returns, self._away_s = 0, 0.0
        for name in ("reconnected", "away_s"):
            self.connection.pop(name, None)

    def environment(self) -> bytes:
        """Header and environment of the board. A lost connection of the previous run is replaced
        first."""
        if self.lost:
            connection = self._connect()
            with self._lock:
                before, self._connection = self._connection, connection
            before.close()
            self._prepare_there()
        return self._ask_agent("environment", self._raise)

    def wrong_line(self, text: str, *, asks: bool) -> tuple[str, str]:
        """As for this machine, by the agent there."""
        with contextlib.suppress(TargetError):
            asked = ["--asks"] * asks
            return why_wrong(self._ask_agent("line", self._raise, *asked, text))
        return "", ""

    def restore(self, run: str) -> tuple[int, int]:
        """As for this machine, on the board if it can still be reached."""
        if self.lost:
            return 0, 0
        return put_back(self._ask_agent("restore", self._raise, "--json", "--run", run))

    def host_address(self) -> str:
        """The address that the ssh connection comes from, as its server there says."""
        answer = self._connection.ask('echo "$SSH_CONNECTION"').out.decode(errors="replace")
        address = answer.partition(" ")[0].strip()
        fault = unfit(address, self._connection.destination())
        if fault:
            raise TargetError(
                f"{self.name} sees this host as '{printable(address)}', which is {fault}",
                "start a server that discards what it receives, and pass peer=ADDRESS/PORT",
            )
        return address

    def own_addresses(self) -> frozenset[str]:
        """Where ssh connects to. Not known behind a jump host or a forwarded port of this host."""
        found = self._connection.destination()
        return frozenset() if any(map(_is_loopback, found)) else found

    def start(self, arguments: Sequence[str]) -> SshAgent:
        """Start the agent on the board, controlled by its input. It ends with the connection, or
        continues behind its spool until the next one."""
        if self.lost:
            raise TargetError(
                f"the connection to {self.name} is lost: {self.lost}",
                "check the target and the network, and start another run",
            )
        self._started += 1
        pid, spool = f"{self._folder}/pid{self._started}", f"{self._folder}/spool{self._started}"
        words = [f"{self._folder}/agent", *arguments, "--output", "-", "--control"]
        if not self.reconnect_s:
            spool = ""
        else:
            hold_s = self.reconnect_s + HOLD_MORE_S
            words += ["--spool", spool, "--hold", f"{hold_s:.0f}s"]
            self._connection.hold(hold_s)
        # A shell in between reports a signal, which ssh does not.
        own = ["sh", "-c", '{ echo $$ >"$0"; } 2>/dev/null; exec "$@"', pid]
        return SshAgent(self, self._session([*own, *words]), pid, spool)

    def _session(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        """A session that runs this command there, raised."""
        return self._connection.begin(script(f"{shlex.join([*self._raise, *words])}; exit $?"))

    def attach(self, spool: str, came: int) -> subprocess.Popen[bytes]:
        """A session with the agent behind that spool, from byte ``came`` of its stream on, over a
        new connection if the old one is lost.

        Raises TargetError if that is not possible yet, Over if it never will be.
        """
        before = self._connection
        if before.lost:
            connection = self._connect()
            try:
                self._check_same_boot(connection)
                # known before it is its own: a break in between would leave it without an owner
                connection.keep(self._folder)
                connection.hold(self.reconnect_s + HOLD_MORE_S)
                if connection.ask(_ADOPT, self._folder, connection.token).code:
                    raise Over("the agent and its folder no longer exist there")
                self._replace(before, connection)
            except BaseException:
                connection.close()
                raise
        return self._session([f"{self._folder}/agent", "attach", spool, "--from", str(came)])

    def regain(self, stop: Callable[[], bool]) -> str:
        """Restore a lost connection and copy the agent again, while no agent runs; why that failed,
        or empty. ``stop``: whether to give up."""
        since = time.monotonic()
        way = Return(self._renew, self.reconnect_s)
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

    def _replace(self, before: Connection, connection: Connection) -> None:
        """Replace a connection by this one, unless the target was closed."""
        with self._lock:
            if self._closed or self._connection is not before:
                raise Over("given up")
            self._connection = connection
        before.close()

    def _check_same_boot(self, connection: Connection) -> None:
        if connection.boot_id != self._connection.boot_id:
            raise Over("the board was restarted")

    def returned(self, away_s: float) -> None:
        """Record that the connection was restored after so many seconds."""
        self._returns += 1
        self._away_s += away_s
        self.connection["reconnected"] = str(self._returns)
        self.connection["away_s"] = f"{self._away_s:.1f}"

    def kill(self, pid_file: str) -> None:
        """Kill the process whose number is in that file."""
        words = shlex.join([*self._raise, "sh", "-c", 'kill -KILL "$0"'])
        self._connection.ask(f'read -r p <"$1" && {words} "$p"', pid_file)

    def ended(self) -> str:
        """As ``lost``, after a short wait, for a session that has just ended."""
        return self._connection.ended()

    def close(self) -> None:
        """Remove the agent there and end the connection, also one that is being established."""
        with self._lock:
            self._closed = True
        self._connection.close()

    # --- more than a target has ---

    @property
    def lost(self) -> str:
        """Why the connection is lost; empty while it is not."""
        return self._connection.lost

    def _ask_agent(self, command: str, raised: Sequence[str], *words_after: str) -> bytes:
        words = shlex.join([*raised, f"{self._folder}/agent", command, *words_after])
        answer = self._connection.ask(f"{words}; exit $?")
        if answer.code:
            message, _ = last_words(answer.err.decode(errors="replace"))
            raise TargetError(
                f"the agent's '{command}' ended with code {answer.code} on {self.name}"
                + (f": {message}" if message else ""),
                "check whether programs can be started there",
            )
        return answer.out
