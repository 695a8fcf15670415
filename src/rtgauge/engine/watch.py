# SPDX-License-Identifier: Apache-2.0
"""Follows the agent of one step from its start to its end.

Steps 6 to 8 of the path of a sample: the bytes that ``RunningAgent.read`` hands out go into the
run's folder as they are (``StreamFile.write``, synced at most a second later), and through
``StreamReader`` into the live view.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Final, Protocol

from rtgauge.engine.live import LiveStep
from rtgauge.errors import ExitCode, StreamError, TargetError
from rtgauge.store import RunFolder, load_failure
from rtgauge.stream import StreamReader, Trailer
from rtgauge.target import RunningAgent, Target
from rtgauge.target.base import (
    Detached,
    Emulated,
    Emulation,
    Restoring,
    last_words,
    pace_of,
    taken_s,
)
from rtgauge.text import plain, plural

__all__ = ["NOTHING", "Ended", "Limits", "StepProgress", "Stopping", "Watch"]

POLL_S: Final = 0.2
FEED_BYTES: Final = 1 << 16
MUCH_BYTES: Final = 1 << 23
# Limit on the bytes that are kept after damage in a stream, for an analysis.
DAMAGED_BYTES: Final = 1 << 26
NOTHING: Final = "nothing"
"""The cause of a failed step that ended in order, without a sample."""
STATES: Final = ("complete", "interrupted", "failed", "skipped")
# Signals that end an agent from outside. Others mean that it crashed.
FROM_OUTSIDE: Final = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True)
class Limits:
    """Timeouts of the host, in seconds.

    A stream has a record at least every 10 s (its clock readings). Before its first record the
    loads start. A step may take a tenth more than its time, plus ``overtime_s``. One that ends
    after a number of samples may take longer, while samples arrive. ``calibration_s`` is the time
    of a calibration without a known duration, ``unknown_s`` that of any such step on a target whose
    stream arrives only at the step's end. ``busy_s`` is how long a step waits for another agent
    that measures on the target. ``drain_s`` is how long the samples that wait behind a connection
    may take to arrive after the end of their step, or after the order to end it.
    """

    first_s: float = 45.0
    silence_s: float = 20.0
    overtime_s: float = 60.0
    calibration_s: float = 300.0
    unknown_s: float = 30.0
    stop_s: float = 10.0
    kill_s: float = 10.0
    busy_s: float = 120.0
    drain_s: float = 600.0


class Stopping(Protocol):
    """Whether the user wants the run to stop."""

    @property
    def asked(self) -> bool:
        """Whether the run shall end in order."""
        ...

    @property
    def urgent(self) -> bool:
        """Whether the agent shall be killed."""
        ...


class StepProgress(Protocol):
    """Observer of a step."""

    def step_went_on(self, live: LiveStep) -> None:
        """Called a few times a second while a step is measured."""
        ...

    def message(self, text: str) -> None:
        """Show a message."""
        ...


@dataclass
class Ended:
    """How a step ended."""

    state: str
    reason: str = ""
    remedy: str = ""
    wrong_usage: bool = False
    cause: str = ""
    """Causes after which a second try may succeed (``Trailer.cause``)."""
    command: str = ""
    """The command in the remedy, if any."""


class Watch:
    """Follows one agent from its start to its end, whatever it does."""

    def __init__(
        self,
        agent: RunningAgent,
        live: LiveStep,
        target: Target,
        limits: Limits,
        interruption: Stopping,
        progress: StepProgress,
    ) -> None:
        self._agent = agent
        self._detached = agent if isinstance(agent, Detached) else None
        self._emulation = agent if isinstance(agent, Emulation) else None
        self._live = live
        self._target = target
        self._clock = target.clock
        self._pace = pace_of(target)
        self._limits = limits
        self._stop_s = limits.stop_s * max(self._pace.scale if self._pace.speaks else 1.0, 1.0)
        self._interruption = interruption
        self._progress = progress
        self._reader = StreamReader()
        self._cleaner = contextlib.ExitStack()
        self._began = self._heard = self._looked = self._moved = 0.0
        self._away_since: float | None = None
        self._away_s = 0.0
        self._absences = 0
        self._ended = False
        self._stopped_at: float | None = None
        self._killed = False
        self._write: Callable[[bytes], object]
        self._stored: IO[bytes]
        self._written = self._fed = 0
        self._results, self._grown = 0, 0.0
        self._end_at: int | None = None  # what was known to be written when the stream ended
        self._damaged = False
        self._refused = False
        self._blame = Ended("complete")  # why the host itself ended the agent

    def run(self, begins: Callable[[], object]) -> Ended:
        """Read until the agent has ended; how the step ended. ``begins`` is called once the
        measurement has begun."""
        ready = False
        while self.turn(POLL_S):
            if self.ready and not ready:
                ready = True
                begins()
        return self.end()

    def begin(self, folder: RunFolder, index: int) -> None:
        """Before the first turn."""
        self._run_id = folder.id
        stream = folder.append_stream(index)
        self._cleaner.callback(stream.close)
        self._write = stream.write
        self._stored = self._cleaner.enter_context(stream.path.open("rb", buffering=0))
        self._cleaner.push(self._leave)
        self._began = self._heard = self._looked = self._moved = self._clock.monotonic()

    def _leave(self, kind: object, _error: object, _trace: object) -> None:
        """The agent ends before its stream is closed, whatever happened."""
        if not self._ended:
            self._end_agent()

    def close(self) -> None:
        """Give back what is held; an agent that was not followed to its end is ended."""
        try:
            self._cleaner.__exit__(None, None, None)
        finally:
            self._agent.close()

    def end(self) -> Ended:
        """How the step ended, once no turn is left."""
        code = self._end_agent()
        self._ended = True
        self._catch_up()
        self._cleaner.close()
        end = self._reader.finish()
        ended = self._judge(code, end.reason if end.dropped_bytes else "")
        failure = load_failure([self._live.died] if self._live.died else [])
        if failure is not None and ended.state in ("complete", "interrupted"):
            ended = Ended("failed", *failure)
        if ended.state == "complete" and end.lost_records:
            lost = plain(plural(end.lost_records, "record"))
            ended.reason = f"lost on the way: {lost} of the stream"
        elif ended.state == "complete" and self._absences and not ended.reason:
            times = "once" if self._absences == 1 else f"{self._absences} times"
            ended.reason = (
                f"the connection was lost {times}, for {self._away_s:.1f} s in total. "
                "The agent continued to measure"
            )
        return ended

    @property
    def ready(self) -> bool:
        """Whether the measurement has begun, as far as the stream was looked at."""
        return bool(self._live.series) and self._live.trailer is None

    def turn(self, timeout: float) -> bool:
        """Take in what arrives in that time (seconds); whether the agent still runs.

        Bytes go into the folder first, because an agent that has to wait loses samples. The live
        view reads its records from there, as time permits.
        """
        self._interrupt()
        behind = self._fed < self._written
        data = self._agent.read(0.0 if behind else timeout)
        now = self._clock.monotonic()
        self._live.elapsed_s = now - self._began
        if data == b"":
            return False
        if data:
            self._heard = self._moved = now
            self._write(data)
            self._written += len(data)
        if not data or now - self._looked >= POLL_S:
            self._looked = now
            self._feed()
            self._look_at_the_end()
        self._progress.step_went_on(self._live)
        self._look_for_the_connection(now)
        limit = self._limits.silence_s if self._written else self._limits.first_s
        limit *= max(self._pace.scale, 1.0)
        if self._pace.speaks and now - self._heard > limit:
            self._host_stops(f"the agent sent nothing for {limit:.0f} s")
        if self._overtime(taken_s(self._emulation, now - self._began) - self._away_s):
            self._host_stops("the agent did not end in time")
        return self._waits_for_the_end(now)

    def _waits_for_the_end(self, now: float) -> bool:
        """Whether to follow the agent further. It is killed if it does not obey an order to end."""
        if self._stopped_at is None:
            return True
        if self._killed:
            return now - self._stopped_at <= self._limits.kill_s
        if self._away_since is not None and not self._interruption.asked:
            self._stopped_at = now  # the order waits for the connection, which has its own limit
        since = self._stopped_at
        if self._detached is not None:
            since = max(since, min(self._moved, since + self._limits.drain_s))
        if now - since > self._stop_s:
            self._kill()
        return True

    def _look_for_the_connection(self, now: float) -> None:
        """An agent that cannot be reached continues: neither its silence nor its time counts."""
        away = self._detached.away if self._detached is not None else ""
        name = self._target.name
        if away and self._away_since is None:
            self._away_since = self._heard = now
            self._progress.message(f"{name}: {away}. The agent continues there. Reconnecting …")
        elif away:
            self._away_s += now - self._heard
            self._heard = now
        elif self._away_since is not None:
            self._away_s += now - self._heard
            self._heard = now
            self._progress.message(
                f"{name}: reconnected after {now - self._away_since:.0f} s. "
                "The samples taken in between follow"
            )
            self._away_since = None
            self._absences += 1

    def _feed(self) -> bool:
        """Take in some of what was written and not looked at yet; whether there was any."""
        if self._fed >= self._written:
            return False
        data = self._stored.read(FEED_BYTES)
        self._fed = self._fed + len(data) if data else self._written
        if self._refused:
            return True
        try:
            for record in self._reader.feed(data):
                self._live.take(record)
        except StreamError as error:
            self._refused = True
            self._blame = Ended("failed", error.message, error.remedy)
            self.stop()
        return True

    def _catch_up(self) -> None:
        """Take in the records that arrived faster than they could be shown."""
        if self._written - self._fed > MUCH_BYTES:
            self._progress.message(
                "reading the samples that arrived faster than they could be shown …"
            )
        while self._feed():
            pass

    def _look_at_the_end(self) -> None:
        """Stop an agent whose stream is damaged, because the rest of it cannot be used."""
        if not self._reader.ended:
            return
        if self._end_at is None:
            self._end_at = self._fed
            if self._live.trailer is None:
                self._damaged = not self._refused
                self.stop()
        if self._written - self._end_at > DAMAGED_BYTES:
            self._kill()

    def _overtime(self, elapsed: float) -> bool:
        expected = self._live.expected_s
        if expected is None and not self._pace.speaks:
            expected = self._limits.unknown_s
        elif expected is None and self._live.step.role == "calibration":
            expected = self._limits.calibration_s
        if expected is None:
            return False
        more = self._limits.overtime_s
        if self._detached is not None:
            more += self._limits.drain_s
        factor = 1.1 * self._pace.scale
        if elapsed <= expected * factor + more:
            return False
        # Samples may take longer than their intervals: an event waits for the answer to the last.
        limit = self._live.time_s
        longer = self._live.samples_s is not None and (
            limit is None or elapsed <= limit * factor + more
        )
        return not (longer and self._grows(more))

    def _grows(self, patience_s: float) -> bool:
        """Whether there were new samples in that time."""
        now, results = self._clock.monotonic(), self._live.results
        if results != self._results:
            self._results, self._grown = results, now
        return now - self._grown <= patience_s

    def _interrupt(self) -> None:
        if self._interruption.urgent:
            self._kill()
        if self._interruption.asked and self._stopped_at is None:
            self._progress.message(
                "stopping. The samples are kept (press Ctrl-C again to kill the agent)"
                if self._pace.speaks
                else "stopping. The finished steps are kept, the current one is lost"
            )
            self.stop()

    def _host_stops(self, reason: str) -> None:
        if self._stopped_at is None:
            self.stop()
            hint = self._target.hint if isinstance(self._target, Emulated) else ""
            self._blame = Ended(
                "failed",
                reason,
                hint or "check whether the target is overloaded or the agent has crashed",
            )

    def stop(self) -> None:
        """Ask for an orderly end."""
        if self._stopped_at is None:
            self._stopped_at = self._clock.monotonic()
            self._agent.stop()

    def _kill(self) -> None:
        if not self._killed:
            self._killed = True
            self._stopped_at = self._clock.monotonic()
            self._agent.kill()

    def _end_agent(self) -> int | None:
        """Wait for the agent's end; stop it, then kill it, if it takes too long."""
        code = self._agent.wait(self._stop_s if not self._killed else self._limits.kill_s)
        if code is None and not self._killed:
            self._kill()
            code = self._agent.wait(self._limits.kill_s)
        unfinished = code == ExitCode.INTERRUPTED and self._live.trailer is None
        if code is not None and (code < 0 or unfinished):
            self._restore()
        return code

    def _restore(self) -> None:
        """Restore settings after a signal ended the agent, perhaps with its guardian."""
        if not isinstance(self._target, Restoring):
            return
        try:
            number, processes = self._target.restore(self._run_id)
        except TargetError as error:
            self._progress.message(
                f"{self._target.name}: cannot tell whether the killed agent left settings "
                f"changed ({error.message}). The next run there that changes settings restores them"
            )
            return
        if number:
            self._progress.message(
                f"{self._target.name}: the agent and its guardian were killed. "
                f"rtgauge restored {plain(plural(number, 'setting'))} changed by them"
            )
        if processes:
            self._progress.message(
                f"{self._target.name}: killed {plain(plural(processes, 'process', 'processes'))} "
                "left running by the agent's loads"
            )

    def _said(self) -> tuple[str, str]:
        """The agent's last words on stderr: what went wrong, and the remedy below it."""
        message, remedy = last_words(self._agent.messages())
        return message[:400], remedy[:400]

    def _judge(self, code: int | None, broken: str) -> Ended:  # noqa: PLR0911
        if code is None:
            return Ended(
                "failed",
                "the agent cannot be killed",
                "kill its process on the target (kill -KILL)",
            )
        trailer = self._live.trailer
        message, remedy = self._said()
        if self._blame.state != "complete":
            return self._blame
        if broken and self._damaged:
            return _damaged(broken)
        if trailer is not None:
            if trailer.state == "complete" and code not in (0, ExitCode.OVER_BUDGET):
                text = message or f"the agent ended with code {code}"
                return Ended("failed", text, remedy or "see dmesg on the target for the reason")
            if trailer.state == "complete" and self._nothing_came(trailer):
                why = "find out why the target had nothing to measure"
                if self._live.step.answers:
                    why = "start the log host while it runs, and check --line and the wiring"
                return Ended(
                    "failed",
                    "the step ended without a sample",
                    f"measure longer (--for), or {why}",
                    cause=NOTHING,
                )
            state = trailer.state if trailer.state in STATES else "failed"
            usage = code == ExitCode.USAGE
            return Ended(
                state, trailer.reason, trailer.remedy, usage, trailer.cause, trailer.command
            )
        if self._interruption.urgent:
            return Ended(
                "interrupted", "the agent was killed. The samples that it had sent are kept"
            )
        if code == ExitCode.USAGE:
            return Ended("failed", message or "the agent refused its arguments", remedy, True)
        if code == ExitCode.SKIPPED:
            return Ended("skipped", message or "the agent cannot measure this here", remedy)
        if code == ExitCode.INTERRUPTED:
            return Ended("interrupted", message or "the agent was stopped", remedy)
        if code < 0:
            return self._judge_signal(-code)
        if broken:
            return _damaged(broken)
        default = f"the agent ended with code {code} in the middle of the step"
        return Ended(
            "failed", message or default, remedy or "see dmesg on the target for the reason"
        )

    @staticmethod
    def _nothing_came(trailer: Trailer) -> bool:
        """Periods that were missed and events without an answer are something; nothing is not."""
        return bool(trailer.series) and not any(one.count or one.missed for one in trailer.series)

    def _judge_signal(self, number: int) -> Ended:
        name = signal.Signals(number).name if number in set(signal.Signals) else f"{number}"
        if self._killed:
            return Ended("interrupted", "the agent did not stop when asked, and was killed")
        if number in FROM_OUTSIDE:
            remedy = "run it again"
            if number == signal.SIGKILL:
                remedy = f"see dmesg on the target (out of memory?), and {remedy}"
            return Ended("interrupted", f"the agent was killed from outside ({name})", remedy)
        return Ended(
            "failed", f"the agent crashed ({name})", "report this, with the agent's version"
        )


def _damaged(reason: str) -> Ended:
    text = reason if reason.startswith("the stream") else f"the stream is damaged: {reason}"
    return Ended("failed", text, "run it again")
