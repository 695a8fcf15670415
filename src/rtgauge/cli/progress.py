# SPDX-License-Identifier: Apache-2.0
"""The display of a run while it is measured: a line for each step when it ends and, on a terminal,
a view of the current step below these lines (``view``).

The view uses no alternate screen and does not hide the cursor, so that there is nothing to restore
whatever ends this program. Only lines that have changed are written, at once, and only when the
terminal takes them: a terminal that was stopped with Ctrl-S must not hold up the measurement.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import textwrap
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from rtgauge.cli.output import encodable, format_seconds
from rtgauge.cli.view import Line, lines, short_step
from rtgauge.engine.live import LiveStep
from rtgauge.engine.run import RunOutcome
from rtgauge.facts import printable
from rtgauge.plan import GUESS_NS, describe_step
from rtgauge.stream.answers import is_response
from rtgauge.text import discard, plural, shown

__all__ = ["ConsoleProgress", "Screen", "fitted", "measured"]

REFRESH_S = 0.25
# Without a terminal a step that measures for longer than this has a line when it begins, too.
LONG_S = 30.0
# Frames of which one is written in full: whatever else got onto the terminal goes away again.
FULL = 20


def measured(live: LiveStep) -> list[str]:
    """What is known so far of the step's first quantity, over all its series: maximum (not rounded
    to the budget), mean, minimum and number of samples, the most important first. If the quantities
    are gaps by their cause, of the one with the highest maximum."""
    found = [one for one in live.series.values() if one.info.companion is None and one.count]
    words = _tests(live)
    if not found:
        return words
    one = found[0]
    if live.step.unseen_gaps:
        alike = (each for each in found if each.info.unit == one.info.unit)
        one = max(alike, key=lambda each: each.max * each.info.scale)
    name, unit, scale = one.info.name, one.info.unit, one.info.scale
    same = [one for one in found if one.info.name == name]
    count = sum(one.count for one in same)
    low, mean = (
        shown(value * scale, unit)
        for value in (min(one.min for one in same), sum(one.sum for one in same) / count)
    )
    budget = live.step.budget_ns if unit == "ns" else None
    high = shown(max(one.max for one in same) * scale, unit, budget)
    missed = sum(one.missed for one in same)
    if is_response(name, unit) and missed:
        events = f"{missed} of {count + missed} events not answered"
        return [events, f"max answer {high.full}", *words, f"mean {mean.text}", f"min {low.text}"]
    figures = [f"{name} max {high.full}", *words, f"mean {mean.text}", f"min {low.text}"]
    return [*figures, plural(count, "sample")]


def _tests(live: LiveStep) -> list[str]:
    """How the step's tests ended: what did not pass, else how many passed."""
    bad = [f"{live.tests[result]} {result}" for result in ("fail", "inconclusive")
           if live.tests[result]]  # fmt: skip
    whole = live.tests.total() - live.tests["skipped"]
    if not whole:
        return []
    return [f"{' and '.join(bad) or 'pass'}: {plural(whole, 'test')}"]


def fitted(step: str, result: str, fields: Sequence[str], columns: int | None) -> str:
    """A step and its result in a line. The result, which is a state and a figure, is always there:
    the step is shortened to make room for it. A further field is there in full or not at all."""
    if columns is None:
        return ", ".join([f"{step}: {result}", *fields])
    text = f"{short_step(step, columns - 2 - len(result))}: {result}"
    for field in fields:
        longer = f"{text}, {field}"
        if len(longer) > columns:
            break
        text = longer
    return text if len(text) <= columns else f"{text[: columns - 1]}…"


class Screen:
    """Lines at the end of a terminal that are updated in place.

    The cursor rests in the line below them: what is typed, such as ^C, breaks none of them.
    """

    def __init__(self, stream: TextIO, environment: Mapping[str, str]) -> None:
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


def _takes_text(stream: TextIO) -> bool:
    """Whether a stream takes what is written now. A terminal does not after Ctrl-S; what is not a
    terminal is waited for."""
    try:
        file = stream.fileno()
    except OSError:  # of tests
        return True
    if not stream.isatty():
        return True
    poll = select.poll()
    poll.register(file, select.POLLOUT)
    return bool(poll.poll(0))


class _Console:
    """The terminal, or what is in its place: shared by all runs that are watched at once."""

    def __init__(
        self, stream: TextIO, environment: Mapping[str, str], *, live: bool = True
    ) -> None:
        live = live and stream.isatty() and environment.get("TERM") != "dumb"
        self.screen = Screen(stream, environment) if live else None
        self.lock = threading.RLock()
        self._stream = stream
        self._views: dict[int, tuple[LiveStep, str, float | None]] = {}
        self._waiting = ""  # lines that the terminal did not take yet
        self.shown = 0.0

    def columns(self) -> int | None:
        """Columns that a line may take; None without a terminal."""
        if self.screen is not None:
            return max(self.screen.size()[0], 20)
        if not self._stream.isatty():
            return None
        return max(shutil.get_terminal_size((80, 24)).columns - 1, 20)

    def line(self, text: str) -> None:
        """Write a line above the view, in several on a terminal that is too narrow for it."""
        with self.lock:
            columns = self.columns()
            indent = " " * (len(text) - len(text.lstrip()))
            words = encodable(printable(" ".join(text.split())), self._stream)
            found = [f"{indent}{words}"]
            if columns is not None and len(found[0]) > columns:
                found = textwrap.wrap(
                    words, columns, initial_indent=indent, subsequent_indent=f"{indent}  ",
                    break_on_hyphens=False,
                )  # fmt: skip
            self._waiting += "".join(f"{one}\n" for one in found)
            self._write_waiting()

    def close(self) -> None:
        """Write the lines that the terminal did not take so far, as soon as it takes them."""
        with self.lock:
            self._write_waiting(wait=True)

    def _write_waiting(self, *, wait: bool = False) -> None:
        if not self._waiting or not (wait or _takes_text(self._stream)):
            return
        text, self._waiting = self._waiting, ""
        with self._unread():
            if self.screen is not None:
                self.screen.clear()
            self._stream.write(text)
            self._stream.flush()

    def view(self, whose: int, live: LiveStep, place: str, left: float | None) -> None:
        """Bring the view of a run up to date, and with it those of the others, which are below each
        other, each in its part of the height. ``left``: seconds until all is done."""
        with self.lock:
            self._views[whose] = (live, place, left)
            self._write_waiting()
            now = time.monotonic()
            if self.screen is None or now - self.shown < REFRESH_S:
                return
            if not _takes_text(self._stream):
                return
            self.shown = now
            columns, height = self.screen.size()
            share = max(height // len(self._views), 1)
            wanted = []
            for key in sorted(self._views):
                one, where, rest = self._views[key]
                wanted += lines(one, where, columns, share, blocks=self.screen.blocks, left_s=rest)
            with self._unread():
                self.screen.draw(wanted[:height])

    @contextlib.contextmanager
    def _unread(self) -> Iterator[None]:
        """The reader may have gone (``2>&1 | head``): the measurement continues."""
        try:
            yield
        except OSError:
            self.screen = None
            discard(self._stream)

    def leave(self, whose: int) -> None:
        """Show a run no longer."""
        with self.lock:
            self._views.pop(whose, None)
            self.shown = 0.0


class ConsoleProgress:
    """Writes the progress of runs to ``stream`` (stderr). Each of several runs at once has one of
    its own (``of_target``), whose lines begin with the name of its target. ``steps``: with a line
    for each step; ``live``: with the view on a terminal."""

    def __init__(
        self,
        stream: TextIO,
        environment: Mapping[str, str] = os.environ,
        *,
        steps: bool = True,
        live: bool = True,
        of: ConsoleProgress | None = None,
        name: str = "",
    ) -> None:
        self._stream, self._environment = stream, environment
        self._console: _Console = (
            _Console(stream, environment, live=live) if of is None else of._console
        )
        self._steps: bool = steps if of is None else of._steps
        self._name = f"{name} " if name else ""
        self._number: int = 0 if of is None else of._others
        self._others: int = 0
        self._place = ""
        self._left = _Left()
        self._told: dict[str, str] = {}  # reasons, and the step whose line names each

    def of_target(self, name: str) -> ConsoleProgress:
        """The observer of one of several runs at once, on the same terminal."""
        self._others += 1
        return ConsoleProgress(self._stream, self._environment, of=self, name=name)

    def run_started(self, document: Mapping[str, Any], number: int, total: int) -> None:
        """Say which run this is."""
        of = f" ({number} of {total})" if total > 1 else ""
        if self._steps:
            self._line(f"run {document['id']}{of} on {document['target']}")
        self._told = {}
        # with several runs at once, the next one is not known
        self._left.begin_run(0 if self._name else total - number)

    def step_started(self, live: LiveStep, number: int, total: int) -> None:
        """Say which step begins, if the line at its end is far away."""
        self._place = self._name + (f"[{number}/{total}] " if number else "calibration: ")
        self._left.begin(live, total - number)
        length = live.expected_s
        long = length > LONG_S if length is not None else live.endless
        if self._steps and self._console.screen is None and long and not live.skipped:
            lasts = "" if length is None else f" ({format_seconds(length)})"
            self._line(f"{self._place}{describe_step(live.step)}{lasts} …")

    def step_went_on(self, live: LiveStep) -> None:
        """Bring the view up to date."""
        self._console.view(self._number, live, self._place, self._left.now())

    def step_ended(self, live: LiveStep, entry: Mapping[str, Any]) -> None:
        """Say how the step ended and, where no view shows it, how long the others will take."""
        self._left.end(entry["state"])
        columns = self._console.columns()
        first, *more = [entry["state"], *measured(live)]
        if more:
            first, more = f"{first}, {more[0]}", more[1:]
        reason, before = entry["reason"], self._told.get(entry["reason"])
        if reason and before:
            first += f", as {before}"
        elif reason:
            self._told[reason] = self._place.removeprefix(self._name).rstrip(": ")
        left = self._left.after()
        more += [f"{format_seconds(left)} left"] if left and self._console.screen is None else []
        with self._console.lock:
            self._console.leave(self._number)
            if not self._steps and entry["state"] != "failed":
                return
            step = f"{self._place}{describe_step(live.step)}"
            self._line(fitted(step, first, more, columns))
            if reason and not before:
                self._line(f"  {reason}")

    def run_ended(self, outcome: RunOutcome) -> None:
        """Nothing: the results follow."""

    def close(self) -> None:
        """Write what the terminal did not take so far."""
        self._console.close()

    def message(self, text: str) -> None:
        """Print a message above the view."""
        self._line(text)
        self._console.shown = 0.0

    def _line(self, text: str) -> None:
        self._console.line(text)


class _Left:
    """How long the runs will still take: as long as their steps should measure, and for each step
    what those so far took beyond that. Steps that ended early do not shorten the others, and steps
    that were skipped do not count in the runs that follow, until one is carried out after all."""

    def __init__(self) -> None:
        self._runs = 0  # after this one
        self._steps = 0  # after this one, of the run, and
        self._after_s = 0.0  # how long they should measure
        self._whole: tuple[int, float] | None = None  # the same of a whole run
        self._skipped: dict[int, float] = {}  # number of steps after each, and its length
        self._known = False
        self._began = self._length_s = 0.0  # of the step
        self._counted_s = 0.0  # its part of the whole run: 0 if it was known to be skipped
        self._ended = 0  # number of steps that did, and
        self._beyond_s = 0.0  # how much longer they took

    def begin_run(self, runs: int) -> None:
        """A run begins; ``runs`` come after it."""
        self._runs, self._whole = runs, None

    def begin(self, live: LiveStep, steps: int) -> None:
        """A step begins; ``steps`` come after it."""
        self._known = not live.endless
        self._length_s = live.expected_s or GUESS_NS / 1e9
        if self._whole is None:
            self._after_s = self._length_s + live.after_s
            self._whole = steps + 1, self._after_s
        self._counted_s = self._after_s - live.after_s
        self._began, self._steps, self._after_s = time.monotonic(), steps, live.after_s

    def end(self, state: str) -> None:
        """The step has ended."""
        if state == "skipped":
            self._skipped[self._steps] = self._counted_s
            return
        self._skipped.pop(self._steps, None)
        self._ended += 1
        self._beyond_s += max(time.monotonic() - self._began - self._length_s, 0.0)

    def after(self) -> float:
        """Seconds that the steps and runs after the current step take; 0 after the last."""
        steps, length_s = self._whole or (0, 0.0)
        steps, length_s = steps * self._runs + self._steps, length_s * self._runs + self._after_s
        for after, skipped_s in self._skipped.items():
            times = self._runs + (after < self._steps)
            steps, length_s = steps - times, length_s - times * skipped_s
        return max(length_s + steps * self._beyond_s / max(self._ended, 1), 0.0)

    def now(self) -> float | None:
        """Seconds that everything still takes; None while that is not known."""
        if not self._known or not (self._steps or self._runs):
            return None
        return max(self._length_s - (time.monotonic() - self._began), 0.0) + self.after()
