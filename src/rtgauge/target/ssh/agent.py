# SPDX-License-Identifier: Apache-2.0
"""An agent on a board, which goes on when its connection breaks.

A connection that breaks in the middle of a step is taken up again: the agent there goes on behind
its spool (agent/stream/spool.h), which keeps what has not come here, and another connection begins
with the byte that comes next. ``Return`` does that, in a thread of its own, because it takes its
time.
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


# The board may notice sooner than the host that the connection is lost.
HOLD_MORE_S: Final = 30.0
RETRY_S: Final = 1.0
RETRY_MAX_S: Final = 10.0
CONFIRM_S: Final = 0.2
_ENDED: Final = re.compile(rb"^rtgauge-agent: ended (-?\d+)\n", re.MULTILINE)


class Board(Protocol):
    """What an agent needs of its target."""

    name: str
    reconnect_s: float

    @property
    def lost(self) -> str:
        """Why the connection is no more; empty while it is."""
        ...

    def ended(self) -> str:
        """As ``lost``, for someone whose session has just ended: a moment is waited for."""
        ...

    def attach(self, spool: str, came: int) -> subprocess.Popen[bytes]:
        """A session with the agent behind that spool, from byte ``came`` of its stream on.

        Raises TargetError if that cannot be for now, Over if it never will.
        """
        ...

    def returned(self, away_s: float) -> None:
        """The connection is there again, after so long."""
        ...

    def kill(self, pid_file: str) -> None:
        """SIGKILL to the process whose number is in that file."""
        ...


class Over(TargetError):
    """What there was on the board is no more."""


class Return(threading.Thread):
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


def end_session(process: subprocess.Popen[bytes]) -> None:
    """End a session that nobody will read from."""
    with process:
        process.kill()


class SshAgent(LocalAgent):
    """An agent on a board: what ssh reads and writes is what the agent there does.

    ``spool``: the socket by which it is found again after its connection broke; or empty.
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
        self._code: int | None = None  # what the spool says that the agent ended with
        self._return: Return | None = None
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
        self._return = Return(
            lambda: self._target.attach(self._spool, came), self._until - self._since, end_session
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
