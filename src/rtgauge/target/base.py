# SPDX-License-Identifier: Apache-2.0
"""The interface of a target, and one interface for each optional capability.

A capability is a ``Protocol`` that can be checked at run time: the engine asks
``isinstance(target, Linked)``, so a target has a capability by having its members, and the type
checker knows them from there on. docs/reference/targets.md says how to write a target.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from rtgauge.facts import printable
from rtgauge.text import discard

if TYPE_CHECKING:
    from rtgauge.clock import Clock

__all__ = [
    "CROWDED",
    "Adaptable",
    "Bootable",
    "Detached",
    "Disturbable",
    "Emulated",
    "Emulation",
    "LabWired",
    "Linked",
    "Pace",
    "Paced",
    "Previewable",
    "Reaching",
    "Reconnecting",
    "Repeating",
    "Replayable",
    "Restoring",
    "RunningAgent",
    "Target",
    "Wired",
    "last_words",
    "lost_of",
    "pace_of",
    "say",
    "taken_s",
]

_AGENT: Final = "rtgauge-agent: "
#: An emulated step may take this many times longer than alone, on a crowded machine.
CROWDED: Final = 10.0


class RunningAgent(Protocol):
    """An agent that runs one step. No method blocks longer than its timeout (seconds)."""

    def read(self, timeout: float) -> bytes | None:
        """Bytes of the stream: None if none arrived in that time, empty at its end."""
        ...

    def stop(self) -> None:
        """Ask for an orderly end: the stream gets its trailer. May be called again."""
        ...

    def kill(self) -> None:
        """End the agent at once. Its guardian restores what it changed on the target."""
        ...

    def wait(self, timeout: float) -> int | None:
        """The agent's exit code (negative: the signal that ended it); None if it still runs."""
        ...

    def messages(self) -> str:
        """The first 64 KiB that the agent wrote to stderr so far."""
        ...

    def close(self) -> None:
        """Release what is held on the host; kills an agent that still runs."""
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


# --- capabilities of targets ---------------------------------------------------------------------


@dataclass(frozen=True)
class Pace:
    """How time passes on a target, as the host sees it.

    ``scale``: the seconds of the host that one second of the target may take. ``speaks``: whether
    the stream arrives while the target measures, not only when the step has ended.
    ``independent``: whether other targets on the same host may measure at the same time.
    """

    scale: float = 1.0
    speaks: bool = True
    independent: bool = False


@runtime_checkable
class Paced(Protocol):
    """A target whose time is not the host's."""

    @property
    def pace(self) -> Pace:
        """How its time passes."""
        ...


@runtime_checkable
class Emulated(Protocol):
    """A machine made for the run."""

    @property
    def facts(self) -> Mapping[str, str]:
        """Its parts and mode, for the record of the run."""
        ...

    @property
    def hint(self) -> str:
        """Where to look when a step failed; empty if nothing was kept."""
        ...


@runtime_checkable
class Wired(Protocol):
    """A target whose agent reads the notation of a line before a run."""

    def wrong_line(self, text: str, *, asks: bool) -> tuple[str, str]:
        """Why the target has no such line, and the remedy; empty if it may have it. ``asks``: for a
        log host. No line is opened."""
        ...


@runtime_checkable
class Previewable(Protocol):
    """A target whose agent may have to be built or booted before it describes itself."""

    def preview(self) -> str:
        """A catalogue for help texts and dry runs, without a build or a boot. TargetError if there
        is none."""
        ...

    def unbuilt(self) -> str:
        """What has to be built before the target can be measured; empty if nothing has to."""
        ...


@runtime_checkable
class Replayable(Protocol):
    """A target that gives the same samples again when it receives the same orders."""

    @property
    def orders(self) -> Sequence[Sequence[str]]:
        """All orders since it started, in their order. Empty if it is not repeatable."""
        ...


@runtime_checkable
class Adaptable(Protocol):
    """A target that can run in several ways, and chooses one by what the plan asks for."""

    def settle(self, highest_cpu: int, others: Sequence[str]) -> None:
        """Choose, before anything is started. ``highest_cpu``: the highest CPU that the plan names,
        0 if it names none. ``others``: the other adaptable targets of the study.

        Raises UsageError if no way fits.
        """
        ...


@runtime_checkable
class Disturbable(Protocol):
    """A target that may be disturbed on purpose without the user's consent."""

    @property
    def disturb_module(self) -> str:
        """The path of the module rtgauge_disturb there."""
        ...


@runtime_checkable
class LabWired(Protocol):
    """A target whose lines can be driven by a log host of its own."""

    @property
    def log_host(self) -> str:
        """The name of the target that is the log host; empty if the lines are not driven."""
        ...

    @property
    def answer_line(self) -> str:
        """The pair of lines that the target answers on by default."""
        ...

    def log_line(self, line: str) -> str:
        """The same pair of lines as the log host names it. Raises UsageError for other lines."""
        ...


@runtime_checkable
class Repeating(Protocol):
    """A target that begins each repeat of a study in its own way."""

    def begin_repeat(self, repeat: int) -> None:
        """Called before each run. ``repeat`` counts from 0, and is the same on every target of the
        study for the runs that are compared with each other."""
        ...


@runtime_checkable
class Bootable(Protocol):
    """A target that boots with the arguments for the kernel that it is given."""

    @property
    def obstacle(self) -> str:
        """Why configurations of the kernel cannot be tried there; empty if they can."""
        ...

    def boot_with(self, arguments: Sequence[str]) -> None:
        """Boot with these arguments for the kernel behind its own, from now on. What runs there is
        ended."""
        ...


@runtime_checkable
class Linked(Protocol):
    """A target that is reached over a link."""

    @property
    def connection(self) -> Mapping[str, str]:
        """How it is reached, for the record of the run."""
        ...

    @property
    def bandwidth(self) -> float:
        """Bytes per second from the target to the host; 0 if unknown."""
        ...


@runtime_checkable
class Reaching(Protocol):
    """A target that can send to this host over the network."""

    def host_address(self) -> str:
        """The IPv4 address of this host as the target sees it. Raises TargetError."""
        ...

    def own_addresses(self) -> frozenset[str]:
        """The IPv4 addresses from which the target connects; empty if they are not known."""
        ...


@runtime_checkable
class Reconnecting(Protocol):
    """A target whose connection can be lost and restored."""

    reconnect_s: float
    """Seconds for which a lost connection is retried; 0: not at all."""

    @property
    def lost(self) -> str:
        """Why the target cannot be reached any more; empty while it can."""
        ...

    def regain(self, stop: Callable[[], bool]) -> str:
        """Connect again between two steps; why that failed, or empty. ``stop``: whether to give
        up."""
        ...


@runtime_checkable
class Restoring(Protocol):
    """A target that can undo what a killed agent and its killed guardian left behind."""

    def restore(self, run: str) -> tuple[int, int]:
        """Restore settings and end the loads of that run; how many settings and processes.

        Raises TargetError if the target cannot be reached.
        """
        ...


# --- capabilities of agents ----------------------------------------------------------------------


@runtime_checkable
class Emulation(Protocol):
    """An agent that makes progress only with the processor time that its emulator gets."""

    def computed_s(self) -> float:
        """Seconds of processor time since the step began."""
        ...


@runtime_checkable
class Detached(Protocol):
    """An agent that continues while its connection is lost."""

    @property
    def away(self) -> str:
        """Why the agent cannot be reached at the moment; empty while it can."""
        ...


# --- what the engine asks of any target ----------------------------------------------------------


def pace_of(target: Target) -> Pace:
    """The pace of a target; that of the host's time by default."""
    return target.pace if isinstance(target, Paced) else Pace()


def lost_of(target: Target) -> str:
    """Why a target cannot be reached any more; empty while it can."""
    return target.lost if isinstance(target, Reconnecting) else ""


def last_words(messages: str) -> tuple[str, str]:
    """What went wrong by an agent's messages, and the remedy below it; empty if they do not say.
    sudo and the board's loader write warnings of their own before it."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    own = [at for at, line in enumerate(lines) if line.startswith(_AGENT)]
    message, remedy = (*lines[own[0] if own else 0 :], "", "")[:2]
    return message.removeprefix(_AGENT), remedy.removeprefix("remedy: ")


def taken_s(emulation: Emulation | None, elapsed_s: float) -> float:
    """The seconds that count against the time limit of a step, ``elapsed_s`` after its start.

    For an emulation that is its processor time, but at least a tenth (``CROWDED``) of the elapsed
    time, so that an emulator without progress is not waited for without end.
    """
    if emulation is None:
        return elapsed_s
    return max(emulation.computed_s(), elapsed_s / CROWDED)


def say(text: str) -> None:
    """Write one line of progress to stderr."""
    try:
        print(printable(text), file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr)
