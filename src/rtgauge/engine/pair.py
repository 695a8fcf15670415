# SPDX-License-Identifier: Apache-2.0
"""A board that answers, and the log host that times its answers: two agents on two targets, in one
run.

A step ``response`` with a log host becomes two: the board's own, and right after it the log host's,
``log-host``, which raises the events (``paired``). The board's agent starts first. The log host's
agent starts when the board is ready, because no event may be raised earlier. When it has ended, the
board's agent is stopped (``follow``). Each stream is that of an ordinary step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Protocol

from rtgauge.catalogue import Catalogue
from rtgauge.engine.live import LiveStep
from rtgauge.engine.watch import NOTHING, Ended, StepProgress, Stopping
from rtgauge.errors import UsageError
from rtgauge.plan import Plan, PlannedStep, planned_step
from rtgauge.target import Target, open_target
from rtgauge.target.base import LabWired

__all__ = [
    "Follower",
    "Held",
    "LogHost",
    "LogHosts",
    "PairView",
    "Together",
    "follow",
    "joined",
    "paired",
    "with_line",
]

TURN_S: Final = 0.1
# Options that only the log host uses: duration, number and times of the events.
_RAISER: Final = ("for", "samples", "interval", "dither")
# Options that must be the same on both sides.
_SHARED: Final = ("edge", "active-low")
# The name by which a board of the lab asks for its own log host.
OF_THE_LAB: Final = "lab"
# Default number of events. It is even, so that the line ends at the level where it began.
EVENTS: Final = "1000"
# Offset of the board's series numbers in the live view.
_BEHIND: Final = 1 << 20


@dataclass(frozen=True)
class LogHost:
    """A log host: where it is, and what its agent can do."""

    target: Target
    catalogue: Catalogue


class LogHosts:
    """The log hosts of a study, each opened once."""

    def __init__(self, opener: Callable[[str], Target] = open_target) -> None:
        self._opener = opener
        self._opened: dict[str, LogHost] = {}

    def __getitem__(self, name: str) -> LogHost:
        """The log host of that name, opened on first use. Raises TargetError."""
        if name not in self._opened:
            target = self._opener(name)
            try:
                self._opened[name] = LogHost(target, Catalogue.from_json(target.describe()))
            except BaseException:
                target.close()
                raise
        return self._opened[name]

    def close(self) -> None:
        """Close all of them."""
        while self._opened:
            self._opened.popitem()[1].target.close()


# --- the plan ------------------------------------------------------------------------------------


def paired(plan: Plan, target: Target, hosts: LogHosts) -> Plan:
    """The plan with a log host's step behind each step that has one.

    Raises UsageError where something is missing, TargetError where a log host cannot be reached.
    """
    # Only one agent changes the settings of a machine, and none does so for an emulated board.
    made = isinstance(target, LabWired) and bool(target.log_host)
    steps: list[PlannedStep] = []
    for step in plan.steps:
        with_host = _with_log_host(step, target)
        if not with_host.log_host:
            steps.append(step)
            continue
        for board in _contexts(with_host):
            timing = _timing(board, hosts[board.log_host].catalogue)
            if made or board.log_host == target.name:
                timing = timing.with_option("keep-settings", True)
            steps += [_answering(board), timing]
    return replace(plan, steps=tuple(steps))


def _with_log_host(step: PlannedStep, target: Target) -> PlannedStep:
    """The step with the defaults of the lab: its log host, and the lines."""
    line = step.parameters.get("line", "")
    if not step.answers or line.startswith("loopback:"):
        return step
    wired = target if isinstance(target, LabWired) and target.log_host else None
    if step.log_host == OF_THE_LAB and wired is None:
        raise UsageError(
            f"target '{target.name}' has no log host of its own",
            "use a board with lines to the outside, such as lab:arm64-rt-6.1,lines=outside",
        )
    if wired is not None and step.log_host in ("", OF_THE_LAB):
        parameters = dict(step.parameters)
        if not line:
            parameters["line"] = wired.answer_line
        return replace(
            step, log_host=wired.log_host, log_line="", parameters=MappingProxyType(parameters)
        )
    if step.log_host and not step.log_line:
        raise UsageError(
            f"no lines were given for log host '{step.log_host}'",
            "add --log-line, with its output first: --log-line gpio:gpiochip0:17:27",
        )
    return step


def _contexts(step: PlannedStep) -> list[PlannedStep]:
    """A step for each context: an event is answered once."""
    contexts = step.parameters.get("context", "user").split(",")
    return [
        step
        if len(contexts) == 1
        else replace(step, parameters=MappingProxyType({**step.parameters, "context": context}))
        for context in contexts
    ]


def _answering(step: PlannedStep) -> PlannedStep:
    """The board's side: it answers until it is stopped."""
    kept = {name: text for name, text in step.parameters.items() if name not in _RAISER}
    return replace(step, parameters=MappingProxyType(kept))


def _timing(step: PlannedStep, catalogue: Catalogue) -> PlannedStep:
    """The log host's side."""
    entry = catalogue.timing(step.measurement)
    given = {name: text for name, text in step.parameters.items() if name in (*_RAISER, *_SHARED)}
    if not {"for", "samples"} & set(given):
        given["samples"] = EVENTS
    given["answered-by"] = step.parameters.get("context", "user")
    if step.log_line:
        given["line"] = step.log_line
    for name, text in _own(step.log_set).items():
        entry.option(name)
        if name in given or name in (*_RAISER, *_SHARED, "line", "answered-by"):
            raise UsageError(
                f"log-set: '{name}' cannot be set for the log host alone",
                "give its lines with --log-line, and shared options once, for the step",
            )
        given[name] = text
    timing = planned_step(catalogue, entry.name, given)
    return replace(
        timing.with_option("keep-settings", step.flag("keep-settings")),
        budget_ns=step.budget_ns,
        rate_per_hour=step.rate_per_hour,
        log_host=step.log_host,
    )


def _own(text: str) -> dict[str, str]:
    """The options in a text such as ``cpu=1 priority=90``. Raises UsageError."""
    found: dict[str, str] = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise UsageError(
                f"log-set: '{word}' is not NAME=VALUE", "write cpu=1, or 'cpu=1 priority=90'"
            )
        if name in found:
            raise UsageError(f"log-set: '{name}' is given twice", "omit one of them")
        found[name] = value
    return found


def with_line(timing: PlannedStep, board: PlannedStep, target: Target) -> PlannedStep:
    """The log host's step with its line. A board of the lab knows its line only while it runs."""
    if timing.parameters.get("line") or not isinstance(target, LabWired):
        return timing
    line = target.log_line(board.parameters.get("line", ""))
    return replace(timing, parameters=MappingProxyType({**timing.parameters, "line": line}))


# --- while they measure --------------------------------------------------------------------------


class Follower(Protocol):
    """Observer of one agent."""

    @property
    def ready(self) -> bool:
        """Whether its measurement has begun."""
        ...

    def turn(self, timeout: float) -> bool:
        """Take in what arrives in that time (seconds); whether the agent still runs."""
        ...

    def stop(self) -> None:
        """Ask for an orderly end."""
        ...


def follow(
    board: Follower, start: Callable[[], Follower | None], release: Callable[[], object]
) -> bool:
    """Follow both agents to their end; whether the board answered to the end.

    ``start`` starts the log host, or returns None if it cannot. ``release`` is called when the log
    host has ended.
    """
    while not board.ready:
        if not board.turn(TURN_S):
            return False
    log = start()
    answers = True
    if log is not None:
        while log.turn(TURN_S):
            if answers and not board.turn(TURN_S / 4):
                answers = False
                log.stop()
    release()
    if answers:
        board.stop()
        while board.turn(TURN_S):
            pass
    return answers


class PairView(LiveStep):
    """The live view of both: the log host's series, then the board's. Loads and settings are the
    board's."""

    def __init__(self, board: LiveStep, log: LiveStep) -> None:
        super().__init__(board.step, log.time_s, log.samples_s)
        self._board, self._log = board, log

    def renew(self) -> PairView:
        """Take over the state of both."""
        board, log = self._board, self._log
        self.series = {
            **log.series,
            **{_BEHIND + number: one for number, one in board.series.items()},
        }
        timed = log if log.series else board
        self.elapsed_s, self._began_s = timed.elapsed_s, timed.began_s
        self.header, self.work, self.died = board.header, board.work, board.died
        return self


class Held:
    """An interruption withheld from the board, which answers until its log host has ended."""

    def __init__(self, interruption: Stopping) -> None:
        self._interruption = interruption
        self.held = False

    @property
    def asked(self) -> bool:
        return self._interruption.asked and (not self.held or self.urgent)

    @property
    def urgent(self) -> bool:
        return self._interruption.urgent

    def release(self) -> None:
        self.held = False


class Together:
    """Progress of a pair: news of either agent shows both."""

    def __init__(self, progress: StepProgress, view: PairView) -> None:
        self._progress, self._view = progress, view

    def step_went_on(self, _live: LiveStep) -> None:
        self._progress.step_went_on(self._view.renew())

    def message(self, text: str) -> None:
        self._progress.message(text)


def joined(board: Ended, timing: Ended | None, there: bool) -> tuple[Ended, Ended]:
    """How both sides of a pair ended, given the end of the other. ``there``: the board answered to
    the end."""
    stopped = board.state in ("complete", "interrupted") or board.cause == NOTHING
    if timing is None:
        said = board.reason or "it ended on its own"
        return board, Ended("skipped", f"the board was not ready to answer: {said}", board.remedy)
    if not there and timing.state in ("complete", "interrupted"):
        said = board.reason or "its agent ended on its own"
        timing = Ended("interrupted", f"the board ended during the step: {said}", board.remedy)
        if board.state == "complete":
            board = Ended(
                "interrupted", "the board's agent ended before the log host", "run it again"
            )
    elif timing.state == "skipped" and stopped:
        board = Ended("skipped", f"the log host cannot measure: {timing.reason}", timing.remedy)
    elif there and timing.state != "complete" and stopped:
        board = Ended("interrupted", f"the log host ended: {timing.reason}", timing.remedy)
    return board, timing
