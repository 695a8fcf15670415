# SPDX-License-Identifier: Apache-2.0
"""The errors that a user can meet, and the exit code that each leads to.

Expected errors print one line and, below it, what to do; they never show a traceback. Anything
that is not an ``RtgaugeError`` is a bug.

    RtgaugeError (1)
    ├── UsageError (2)            wrong option, unknown name, unreadable plan
    │   └── OptionError (2)       a wrong value of an option
    ├── TargetError (1)           a target cannot be reached, or its agent failed
    ├── StreamError (1)           not a stream, or one of a newer version
    └── StoreError (1)            the store cannot be read or written, or is of a newer version
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Iterable
from typing import Final

__all__ = [
    "NO_MODULE_REMEDY",
    "UNREACHED",
    "ExitCode",
    "OptionError",
    "RtgaugeError",
    "StoreError",
    "StreamError",
    "TargetError",
    "UsageError",
    "nearest",
]


NO_MODULE_REMEDY: Final = "remove the board, then repeat its 'rtgauge lab add' with --build"
"""For a board of the lab, which always has the kernel module unless its user added it without."""
UNREACHED: Final = "the run was stopped before this step"


class ExitCode(enum.IntEnum):
    """Exit codes of every command; the same as the agent's."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    OVER_BUDGET = 3
    INTERRUPTED = 4
    SKIPPED = 77


class RtgaugeError(Exception):
    """An expected error: ``message`` is one line, ``remedy`` says what to do about it."""

    exit_code = ExitCode.FAILED

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class UsageError(RtgaugeError):
    """A request that cannot be understood."""

    exit_code = ExitCode.USAGE


class OptionError(UsageError):
    """A wrong value of an option, which the message names as on the command line. ``problem``: the
    message without it, for plans."""

    def __init__(self, option: str, problem: str, remedy: str = "") -> None:
        super().__init__(f"--{option}: {problem}", remedy)
        self.problem = problem


class TargetError(RtgaugeError):
    """A target cannot be reached, or the agent on it failed."""


class StreamError(RtgaugeError):
    """Bytes that are not a stream, or a stream of a version this program does not know."""


class StoreError(RtgaugeError):
    """The store cannot be opened, read or written."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The remedy for an unknown name: the nearest known one, or the list of all."""
    names = sorted(set(known))
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    return "choose from: " + ", ".join(names) if names else "there are none"
