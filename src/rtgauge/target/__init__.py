# SPDX-License-Identifier: Apache-2.0
"""Targets: the systems under test, each reached through the same few methods.

Path of a sample: ``RunningAgent.read`` hands on the bytes that the agent wrote, as they come, to
``rtgauge.engine.watch``.

A kind of target is one file here and one line in ``TARGETS``. A target that is made, not found, may
have more attributes than the protocol asks for:

    facts           what it was made of and how it runs, for the run's record (``facts_of``)
    pace            how its time goes by (``pace_of``)
    settle()        chooses how it runs, by what the plan asks for, before anything is started
    side_by_side    whether others may measure on this machine meanwhile
    hint            where to look when it failed
    connection      how it is reached, for the run's record (``connection_of``)
    bandwidth       the bytes a second that get from there to here (``rtgauge.engine.link``)
    lost            why it cannot be reached any more; empty while it can (``lost_of``)
    reconnect_s     for so long a target that is lost is tried to be reached again
    regain(stop)    does that between two steps; ``stop()`` says whether to give up. Why not, or ""
    restore(run)    puts back what a killed agent left changed, and ends what its loads left
                    running; how many settings and processes (``restore``)
    disturb_module  where its module for disturbances is (``rtgauge.plan.disturb``)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

from rtgauge.errors import UsageError, nearest

if TYPE_CHECKING:
    from rtgauge.clock import Clock

__all__ = [
    "TARGETS",
    "Pace",
    "RunningAgent",
    "Target",
    "away_of",
    "connection_of",
    "facts_of",
    "lost_of",
    "open_target",
    "pace_of",
    "restore",
    "taken_s",
]


@dataclass(frozen=True)
class Pace:
    """How time goes by on a target, as the host sees it: an attribute ``pace`` of the target.

    ``scale``: the seconds that one second there may take here. ``speaks``: whether the stream comes
    while the target measures, not all of it when the step has ended.
    """

    scale: float = 1.0
    speaks: bool = True


class RunningAgent(Protocol):
    """An agent at work on one step. No method blocks longer than its timeout (seconds)."""

    def read(self, timeout: float) -> bytes | None:
        """Bytes of the stream; None if none came in that time; empty at its end."""
        ...

    def stop(self) -> None:
        """Ask for an end in order: the stream gets its trailer. May be called again."""
        ...

    def kill(self) -> None:
        """End the agent at once; what it changed on the target is put back by its guardian."""
        ...

    def wait(self, timeout: float) -> int | None:
        """The agent's exit code (negative: the signal that ended it); None if it still runs."""
        ...

    def messages(self) -> str:
        """What the agent said on stderr so far, the first 64 KiB of it."""
        ...

    def close(self) -> None:
        """Give back what is held here; kills an agent that still runs."""
        ...


class Target(Protocol):
    """A system under test. Its methods raise TargetError when it cannot be reached."""

    name: str
    clock: Clock

    def describe(self) -> str:
        """The catalogue, as the JSON text that the agent's ``describe`` prints."""
        ...

    def environment(self) -> bytes:
        """The stream that the agent's ``environment`` writes: header and environment records."""
        ...

    def start(self, arguments: Sequence[str]) -> RunningAgent:
        """Start the agent with these arguments; its stream comes from ``RunningAgent.read``."""
        ...

    def close(self) -> None:
        """Leave the target as it was found."""
        ...


def pace_of(target: Target) -> Pace:
    """The pace of a target; that of our own time if it has none."""
    pace = getattr(target, "pace", None)
    return pace if isinstance(pace, Pace) else Pace()


def taken_s(agent: RunningAgent, elapsed_s: float) -> float:
    """What a step has taken of its time, where that many seconds have gone by.

    An emulator that shares its processor with others gets on only with the processor time that it
    is given (the agent's attribute ``computed_s``); one that gets next to none is not waited for
    for ever.
    """
    computed = getattr(agent, "computed_s", None)
    if computed is None:
        return elapsed_s
    return max(float(computed()), elapsed_s / CROWDED)


def facts_of(target: Target) -> dict[str, str]:
    """What a target that is made, not found, says of how (its attribute ``facts``); or nothing."""
    facts: Mapping[str, str] = getattr(target, "facts", {})
    return dict(facts)


def connection_of(target: Target) -> dict[str, str]:
    """How a target that is elsewhere is reached (its attribute ``connection``); or nothing."""
    connection: Mapping[str, str] = getattr(target, "connection", {})
    return dict(connection)


def lost_of(target: Target) -> str:
    """Why a target cannot be reached any more; empty while it can, and of one that is here."""
    return str(getattr(target, "lost", ""))


def restore(target: Target, run: str) -> tuple[int, int]:
    """Put back what a killed agent and its killed guardian left changed on a target, and end what
    the loads of that run left there; how many settings and processes. Raises TargetError."""
    put_back = getattr(target, "restore", None)
    if put_back is None:
        return 0, 0
    settings, processes = put_back(run)
    return int(settings), int(processes)


def away_of(agent: RunningAgent) -> str:
    """Why an agent that goes on cannot be reached for now (its attribute ``away``); or nothing."""
    return str(getattr(agent, "away", ""))


# So many times longer than alone an emulated step may take on a crowded machine.
CROWDED: Final = 10.0

# Kind of target (what stands before the first colon of its name) → module and its class.
TARGETS = {
    "local": "rtgauge.target.local:LocalTarget",
    "fake": "rtgauge.target.fake:FakeTarget",
    "lab": "rtgauge.target.lab:LabTarget",
    "ssh": "rtgauge.target.ssh:SshTarget",
}


def open_target(name: str) -> Target:
    """The target of that name: ``local``, ``ssh://user@host``, ``lab:BOARD``, ``fake``.

    Raises UsageError for an unknown kind, TargetError if it cannot be reached.
    """
    kind, _, detail = name.partition(":")
    if kind not in TARGETS:
        raise UsageError(f"unknown target '{name}'", nearest(kind, TARGETS))
    module, _, attribute = TARGETS[kind].partition(":")
    opener = cast(Callable[[str], Target], getattr(import_module(module), attribute))
    return opener(detail)
