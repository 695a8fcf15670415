# SPDX-License-Identifier: Apache-2.0
"""What a capture is once it is read: its channels, two of them as edges, and the limits of both.

A capture may come from anybody: every size is limited before it is believed, nothing is unpacked as
a whole, and what is refused is refused in one line. ``rtgauge.capture.files`` tells what a file is.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from io import BufferedReader
from pathlib import Path
from typing import Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from rtgauge.capture.edges import Edges
from rtgauge.errors import UsageError, nearest

__all__ = [
    "Levels",
    "Lines",
    "Recording",
    "Waves",
    "check_rate",
    "edge_limit",
    "one_line",
    "opened",
    "refuse",
]

FILE_LIMIT: Final = 1 << 36
SAMPLE_LIMIT: Final = 1 << 34
"""Maximum number of samples that are read of a line: 3 h at 1.5 MHz."""
EDGE_LIMIT: Final = 40_000_000
EDGES_ALWAYS: Final = 1 << 20
"""Number of edges that are read however small the file is. Reading each takes about 90 bytes of
memory."""
RATE_MIN: Final = Fraction(1, 1000)
RATE_MAX: Final = Fraction(10**12)
"""Samples in a second: from one in 1000 s to four times as many as oscilloscopes take."""
TIME_LIMIT: Final = 1 << 59
"""The longest capture in ns, 18 years: sums of two such times fit a stream
(docs/formats/stream.md)."""
HEAD: Final = 1 << 16
ROOM: Final = 1 << 26
"""Number of bytes that stay free where temporary files are."""

YEAR_S: Final = 365.25 * 86400
CLOCK: Final = "check the unit of its times, or give the true rate with --samplerate"
REMEDY: Final = "name a capture that sigrok-cli, PulseView or an oscilloscope saved"


@dataclass(frozen=True, eq=False)
class Waves:
    """The samples of two analogue lines, in a file of their own: event and answer."""

    event: NDArray[np.float32]
    answer: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Lines:
    """The two lines of a capture. ``rate``: samples in a second, the unit of the positions.

    ``error``: number of samples by which the time between two edges can be wrong. ``samplerate``:
    that of the instrument, which a file of times may not contain (None). Analogue lines have
    ``threshold`` and ``hysteresis`` in V, of event and answer, and ``waves``.
    """

    event: Edges
    answer: Edges
    rate: Fraction
    length: int
    error: float
    samplerate: Fraction | None
    threshold: tuple[float, float] | None = None
    hysteresis: tuple[float, float] | None = None
    waves: Waves | None = None

    def __post_init__(self) -> None:
        check_rate(self.rate)
        if self.length * 10**9 > self.rate * TIME_LIMIT:
            refuse(f"it lasts longer than {TIME_LIMIT / 1e9 / YEAR_S:.0f} years", CLOCK)


@dataclass(frozen=True)
class Levels:
    """How analogue lines become digital; None: found from the samples."""

    threshold: float | None = None
    hysteresis: float | None = None


@dataclass(frozen=True)
class Recording:
    """An open capture: its format, what recorded it as far as known, and its channels.

    ``lines(event, answer, levels)`` reads two of the channels.
    """

    format: str
    instrument: str
    channels: tuple[str, ...]
    rate: Fraction | None
    note: str
    lines: Callable[[str, str, Levels], Lines]

    def choose(self, name: str | None, option: str) -> str:
        """The channel that an option names; UsageError if it is missing."""
        listed = ", ".join(self.channels[:20]) + (", …" if len(self.channels) > 20 else "")
        if name is None:
            raise UsageError(
                f"the file is a capture, and no option names its channel with the {option}s",
                f"add --{option} CHANNEL. The capture has: {listed}",
            )
        if name in self.channels:
            return name
        folded = [one for one in self.channels if one.casefold() == name.casefold()]
        if len(folded) == 1:
            return folded[0]
        remedy = nearest(name, self.channels)
        if not remedy.startswith("did you mean"):
            remedy = f"choose from: {listed}"
        raise UsageError(f"the capture has no channel '{name}'", remedy)


def refuse(why: str, remedy: str = REMEDY) -> NoReturn:
    raise UsageError(f"the capture cannot be imported: {why}", remedy)


def check_rate(rate: Fraction | float) -> None:
    """UsageError for a rate outside 1 mHz to 1 THz."""
    if not RATE_MIN <= rate <= RATE_MAX:
        refuse(f"it was sampled at {float(rate):.3g} Hz; supported: 1 mHz to 1 THz", CLOCK)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """The file, not blocking: somebody may have left a pipe there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", REMEDY) from error
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{path} is not a file", REMEDY)
        if found.st_size > FILE_LIMIT:
            refuse(f"it has {found.st_size} bytes, more than {FILE_LIMIT}")
        yield file


def edge_limit(size: int) -> int:
    """The number of edges that are read from a capture of ``size`` bytes: one from each byte. Edges
    that vary in time take several bytes, however well the file is packed."""
    return min(EDGE_LIMIT, max(size, EDGES_ALWAYS))


def one_line(error: object) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
