# SPDX-License-Identifier: Apache-2.0
"""An agent on a board, which continues when its connection breaks.

During a step a broken connection is replaced. The agent continues behind its spool
(agent/stream/spool.h), which keeps the bytes that have not arrived, and the next connection begins
with the next byte. ``Return`` establishes it in a thread of its own, because that takes time.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from rtgauge.errors import ExitCode, TargetError
from rtgauge.target.local import LocalAgent
from rtgauge.target.ssh.connection import CANNOT_EXECUTE, LOST_S, SSH_FAILED

__all__ = ["HOLD_MORE_S", "RETRY_S", "Board", "Over", "Return", "SshAgent"]


# Extra time for the agent, because the board may notice the lost connection before the host.
HOLD_MORE_S: Final = 30.0
RETRY_S: Final = 1.0
RETRY_MAX_S: Final = 10.0
CONFIRM_S: Final = 0.2
_ENDED: Final = re.compile(rb"^rtgauge-agent: ended (-?\d+)\n", re.MULTILINE)


class Board(Protocol):
    """Requirements of an agent on its target."""

    name: str
    reconnect_s: float

    @property
    def lost(self) -> str:
        """Why the connection is lost; empty while it is not."""
        ...

    def ended(self) -> str:
        """As ``lost``, after a short wait, for a session that has just ended."""
        ...

    def attach(self, spool: str, came: int) -> subprocess.Popen[bytes]:
        """A session with the agent behind that spool, from byte ``came`` of its stream on.

        Raises TargetError if that is not possible yet, Over if it never will be.
        """
        ...

    def returned(self, away_s: float) -> None:
        """Record that the connection was restored after so many seconds."""
        ...

    def kill(self, pid_file: str) -> None:
        """Kill the process whose number is in that file."""
        ...


class Over(TargetError):
    """The agent's folder on the board no longer exists."""


class Return(threading.Thread):
    """Retries an attempt until it succeeds, its time is over, or it is given up."""

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
                # without the name of the target before it
                self.why = error.message.partition(" cannot be reached: ")[2] or error.message
                if isinstance(error, Over):
                    break
            except OSError as error:
                self.why = error.strerror or str(error)
            left = self._until - time.monotonic()
            if left <= 0:
                break
            self._given_up.wait(min(pause, left))
            pause = min(pause * 1.5, RETRY_MAX_S)

    def give_up(self) -> None:
        """Start no further attempt, and drop the result of the current one."""
        with self._lock:
            self._given_up.set()

    def wait(self, timeout: float) -> bool:
        """Wait for up to that many seconds; whether it has ended or was given up."""
        if not self._given_up.is_set():
            self.join(timeout)
        return self._given_up.is_set() or not self.is_alive()

    @property
    def result(self) -> Any:
        """The result of the attempt that succeeded; None if none has."""
        return self._result


def end_session(process: subprocess.Popen[bytes]) -> None:
    """End a session whose output is not needed."""
    with process:
        process.kill()


class SshAgent(LocalAgent):
    """An agent on a board, through the input and output of ssh.

    ``spool``: the socket for attaching to it after a broken connection; or empty.
    """

    def __init__(
        self, target: Board, process: subprocess.Popen[bytes], pid_file: str, spool: str
    ) -> None:
        super().__init__(process, [])
        self._target = target
        self._pid_file = pid_file
        self._spool = spool
        self._came = self._confirmed = 0  # bytes of the stream
        self._confirmed_at = 0.0
        self._code: int | None = None  # the exit code that the spool reports
        self._return: Return | None = None
        self._since = self._until = 0.0
        self._came_before = -1  # when the last reconnection began
        self._stopped = self._killed = False
        self._lost = ""  # why it cannot be reached again

    # --- the connection that comes and goes ---

    @property
    def away(self) -> str:
        """Why the agent, which continues, cannot be reached now; empty while it can."""
        if self._return is None:
            return ""
        return self._return.why or "the connection is lost"

    def _broken(self) -> bool:
        """Whether the stream ended because the connection did; reconnecting has begun then."""
        if not self._spool or self._code is not None or self._lost:
            return False
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LOST_S)
        if self._killed and self._process.poll() in (SSH_FAILED, -signal.SIGTERM):
            self._lost = self._target.lost or "given up"
            return False
        if self._came_before >= 0 and self._process.poll() == ExitCode.FAILED:
            self._lost = "the agent no longer exists there"
            return False
        if self._process.poll() != SSH_FAILED or not (self._target.ended() or self._came):
            return False
        self._close_files()
        self._since = time.monotonic()
        came = self._came
        # a reconnection without a byte does not count
        if came != self._came_before:
            self._came_before, self._until = came, self._since + self._target.reconnect_s
        elif self._since > self._until:
            self._lost = self._target.lost or "the agent there sends nothing"
            return False
        self._return = Return(
            lambda: self._target.attach(self._spool, came), self._until - self._since, end_session
        )
        return True

    def _is_away(self, timeout: float) -> bool:
        """Wait for up to that many seconds; whether there is no connection yet."""
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
        """Confirm the received bytes to the spool, and its last message."""
        now = time.monotonic()
        new = self._confirmed != self._came
        if new and (not piece or now - self._confirmed_at >= CONFIRM_S):
            self._tell(f"got {self._came}\n")
            self._confirmed, self._confirmed_at = self._came, now
        said = _ENDED.search(self._last)
        if said is not None and self._code is None:
            self._code = int(said[1])
            self._ended = True
            self._tell("end\n")

    def _tell(self, order: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # read() notices its end
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
        """Kill the agent alone. If that fails, the end of its input stops it. An agent that cannot
        be reached is given up."""
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
        if self._came_before < 0:  # else the number belongs to an earlier session
            self._kill_there()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LOST_S)
        if self._process.poll() is None:
            self._process.terminate()

    def _kill_there(self) -> None:
        """Kill the agent by its number, without waiting for a silent network."""

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
        """Output of the agent on stderr, or the report of a lost connection."""
        said = _ENDED.sub(b"", self._messages).decode(errors="replace")
        if self._code is not None:
            return said
        name = self._target.name
        if self._lost:
            return (
                f"the connection to {name} was lost and could not be restored ({self._lost}). "
                "The samples received so far are kept\n"
                "run it again. An agent that still measures there stops by itself "
                f"{self._target.reconnect_s + HOLD_MORE_S:.0f} s after the board has noticed the "
                "lost connection, and restores the settings. Until then, no other agent can "
                "measure there"
            )
        code = self._process.poll()
        if code == SSH_FAILED:
            lost = self._target.ended()
            if lost:
                return (
                    f"the connection to {name} was lost ({lost}). "
                    "The samples received so far are kept\n"
                    "run it again. The agent there stops by itself and restores the settings"
                )
        if code in CANNOT_EXECUTE:
            return (
                f"the agent on {name} can no longer be started: {said.strip()}\n"
                "check whether another program clears the folder for temporary files there"
            )
        return said

    def close(self) -> None:
        way, self._return = self._return, None
        if way is not None:
            way.give_up()
            if way.result is not None:
                self._follow(way.result)
        super().close()
