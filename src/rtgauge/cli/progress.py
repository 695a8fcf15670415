# SPDX-License-Identifier: Apache-2.0
"""What is seen of a run while it is measured: on a terminal a view that keeps up to date where it
stands (``view``), elsewhere a line when a step begins and one when it ends.

The view takes no other screen and hides no cursor, so that there is nothing to put back whatever
ends this program. Only lines that have changed are written, at once, and only when the terminal
takes them: one that was stopped with Ctrl-S must not hold up the measurement.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from rtgauge.cli.output import format_seconds
from rtgauge.cli.view import Line, lines
from rtgauge.engine.live import LiveStep
from rtgauge.engine.run import RunOutcome
from rtgauge.facts import printable
from rtgauge.plan import describe_step
from rtgauge.stream.answers import is_response
from rtgauge.text import plain, shown

__all__ = ["ConsoleProgress", "Screen", "fitted", "measured"]

REFRESH_S = 0.25
# Frames of which one is written in full: whatever else got onto the terminal goes away again.
FULL = 20


def measured(live: LiveStep) -> list[str]:
    """What is known so far of the step's first quantity, over all its series: maximum, mean,
    minimum and number of samples, the most important first."""
    found = [one for one in live.series.values() if one.info.companion is None and one.count]
    if not found:
        return []
    name, unit, scale = found[0].info.name, found[0].info.unit, found[0].info.scale
    same = [one for one in found if one.info.name == name]
    count = sum(one.count for one in same)
    low, mean, high = (
        shown(value * scale, unit)
        for value in (
            min(one.min for one in same),
            sum(one.sum for one in same) / count,
            max(one.max for one in same),
        )
    )
    missed = sum(one.missed for one in same)
    if is_response(name, found[0].info.unit) and missed:
        events = f"{missed} of {count + missed} events not answered"
        words = [events, f"max answer {high.full}", f"mean {mean.text}", f"min {low.text}"]
    else:
        words = [f"{name} max {high.full}", f"mean {mean.text}", f"min {low.text}"]
        words.append(f"{count} samples")
    return [plain(one) for one in words]


def fitted(head: str, gap: str, fields: Sequence[str], columns: int | None) -> str:
    """The head and as many of the fields as have room; a field is there in full or not at all."""
    text = head
    for place, field in enumerate(fields):
        longer = f"{text}{', ' if place else gap}{field}"
        if columns is not None and len(longer) > columns:
            break
        text = longer
    return text if columns is None or len(text) <= columns else f"{text[: columns - 1]}…"


class Screen:
    """Lines at the end of a terminal that are updated in place.

    The cursor rests in the line below them: what is typed, such as ^C, breaks none of them.
    """

    def __init__(self, stream: IO[str], environment: Mapping[str, str]) -> None:
        self._stream = stream
        self._color = not environment.get("NO_COLOR")
        self._shown: list[str] = []
        self._widths: list[int] = []
        self._size = (0, 0)
        self._frames = 0
        try:
            self._file: int | None = stream.fileno()
        except OSError:  # of tests
            self._file = None
        encoding = (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "")
        self.blocks = encoding.startswith("utf")

    def size(self) -> tuple[int, int]:
        """Columns and lines that can be written to: the last column and line stay free."""
        try:
            found = os.get_terminal_size(-1 if self._file is None else self._file)
        except OSError:
            found = shutil.get_terminal_size((80, 24))
        columns, height = found
        return max((columns or 80) - 1, 1), max((height or 24) - 1, 1)

    def ready(self) -> bool:
        """Whether the terminal takes what is written now."""
        if self._file is None:
            return True
        poll = select.poll()
        poll.register(self._file, select.POLLOUT)
        return bool(poll.poll(0))

    def draw(self, wanted: Sequence[Line]) -> None:
        """Replace the lines shown by these."""
        size = self.size()
        new = [line.text(color=self._color) for line in wanted]
        parts = [self._back(size[0])]
        if size != self._size:
            parts.append("\x1b[J")
            self._frames = 0
        if self._frames < 3 or self._frames % FULL == 0:
            self._shown = []
        self._frames += 1
        for place, text in enumerate(new):
            same = place < len(self._shown) and self._shown[place] == text
            parts.append("\n" if same else f"{text}\x1b[K\n")
        parts.append("\x1b[J")
        self._write("".join(parts))
        self._shown, self._widths, self._size = new, [line.width for line in wanted], size

    def clear(self) -> None:
        """Leave nothing of the lines behind."""
        if self._shown:
            self._write(f"{self._back(self.size()[0])}\x1b[J")
        self._shown, self._widths = [], []

    def _back(self, columns: int) -> str:
        """To the first of the lines; a terminal that became narrower has broken the long ones."""
        rows = sum(max(1, -(-width // (columns + 1))) for width in self._widths)
        return f"\r\x1b[{rows}A" if rows else "\r"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class _Console:
    """The terminal, or what is in its place: shared by all runs that are watched at once."""

    def __init__(self, stream: IO[str], environment: Mapping[str, str]) -> None:
        live = stream.isatty() and environment.get("TERM") != "dumb"
        self.screen = Screen(stream, environment) if live else None
        self.lock = threading.RLock()
        self._stream = stream
        self._views: dict[int, tuple[LiveStep, str]] = {}
        self.shown = 0.0

    def line(self, text: str) -> None:
        """Write a line above the view."""
        with self.lock:
            if self.screen is not None:
                with self._unread():
                    self.screen.clear()
            indent = " " * (len(text) - len(text.lstrip()))
            with self._unread():
                self._stream.write(f"{indent}{printable(' '.join(text.split()))}\n")
                self._stream.flush()

    def view(self, whose: int, live: LiveStep, place: str) -> None:
        """Bring the view of a run up to date, and with it those of the others, which are below each
        other, each in its part of the height."""
        with self.lock:
            self._views[whose] = (live, place)
            now = time.monotonic()
            if self.screen is None or now - self.shown < REFRESH_S or not self.screen.ready():
                return
            self.shown = now
            columns, height = self.screen.size()
            share = max(height // len(self._views), 1)
            wanted = []
            for key in sorted(self._views):
                one, where = self._views[key]
                wanted += lines(one, where, columns, share, blocks=self.screen.blocks)
            with self._unread():
                self.screen.draw(wanted[:height])

    @contextlib.contextmanager
    def _unread(self) -> Iterator[None]:
        """The reader may have gone (``2>&1 | head``): the measurement continues."""
        try:
            yield
        except OSError:
            self.screen = None
            with contextlib.suppress(OSError):  # what is still in the buffer must not fail later
                nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)

    def leave(self, whose: int) -> None:
        """Show a run no longer."""
        with self.lock:
            self._views.pop(whose, None)
            self.shown = 0.0


class ConsoleProgress:
    """Writes the progress of runs to ``stream`` (stderr). Each of several runs at once has one of
    its own (``beside``), whose lines begin with the name of its target."""

    def __init__(
        self,
        stream: IO[str],
        environment: Mapping[str, str] = os.environ,
        *,
        of: ConsoleProgress | None = None,
        name: str = "",
    ) -> None:
        self._stream, self._environment = stream, environment
        self._console: _Console = _Console(stream, environment) if of is None else of._console
        self._name = f"{name} " if name else ""
        self._number: int = 0 if of is None else of._others
        self._others: int = 0
        self._place = ""

    def beside(self, name: str) -> ConsoleProgress:
        """The observer of one of several runs at once, on the same terminal."""
        self._others += 1
        return ConsoleProgress(self._stream, self._environment, of=self, name=name)

    def run_started(self, document: Mapping[str, Any], number: int, total: int) -> None:
        """Say which run this is."""
        of = f" ({number} of {total})" if total > 1 else ""
        self._line(f"run {document['id']}{of} on {document['target']}")

    def step_started(self, live: LiveStep, number: int, total: int) -> None:
        """Say which step begins."""
        self._place = self._name + (f"[{number}/{total}] " if number else "calibration: ")
        if self._console.screen is None:
            self._line(f"{self._place}{describe_step(live.step)} …")

    def step_went_on(self, live: LiveStep) -> None:
        """Bring the view up to date."""
        self._console.view(self._number, live, self._place)

    def step_ended(self, live: LiveStep, entry: Mapping[str, Any]) -> None:
        """Say how the step ended."""
        head = f"{self._place}{describe_step(live.step)}: {entry['state']}"
        screen = self._console.screen
        columns = None if screen is None else max(screen.size()[0], 20)
        took = [f"{format_seconds(live.measured_s)}"] if screen is not None else []
        with self._console.lock:
            self._console.leave(self._number)
            self._line(fitted(head, "; ", [*measured(live), *took], columns))
            if entry["reason"]:
                self._line(f"  {entry['reason']}")

    def run_ended(self, outcome: RunOutcome) -> None:
        """Nothing: the results follow."""

    def message(self, text: str) -> None:
        """Print a message above the view."""
        self._line(text)
        self._console.shown = 0.0

    def _line(self, text: str) -> None:
        self._console.line(text)
