# SPDX-License-Identifier: Apache-2.0
"""The results in a text file: those of ``latency``, ``clocktest``, ``switchtest`` and ``irqbench``,
and tables of minimum and maximum as gpioirqbench's were published.

A file may have several, one after the other, as the log of a ``xeno-test`` has, and other lines
between them. A line that begins like a result but is not one is refused, with its number. Only the
last line of a file may be cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final, TypeAlias

from rtgauge.printed.latency import VALUE_LIMIT, Figures, Latency
from rtgauge.printed.lines import Text, refuse

__all__ = ["Clocks", "Found", "Responses", "Row", "Switches", "is_printed", "read"]

CELL_LIMIT: Final = 1_000_000
ROW_LIMIT: Final = 1000
RESULT_LIMIT: Final = 1000
CONTEXTS: Final = {
    "periodic user-mode task": "user",
    "in-kernel periodic task": "kernel",
    "in-kernel timer handler": "irq",
}
_CONTEXT_WORDS: Final = {"user space": "user", "kernel space": "kernel", "interrupt handler": "irq"}
_MODES: Final = "|".join(CONTEXTS)
_US: Final = r"\s*(-?\d{1,10}\.\d{1,6})\s*"
_NUMBER: Final = r"\s*(\d{1,18})\s*"

#: Negative if the clock was set back.
_CLOCK_TIME: Final = r"(-?\d{2,9}):(-?\d\d):(-?\d\d)"

_PERIOD: Final = re.compile(r"== Sampling period:\s*(\d{1,10}) us$")
_MODE: Final = re.compile(rf"== Test mode:\s*({_MODES})$")
_TIME: Final = rf"{_CLOCK_TIME}\s+\(({_MODES}), (\d{{1,10}}) us period, priority (\d{{1,3}})\)$"
_TITLE: Final = re.compile(rf"RTT\|\s+{_TIME}")
_SECOND: Final = re.compile(rf"RTD\|{_US}\|{_US}\|{_US}\|{_NUMBER}(?:\|{_NUMBER})?\|{_US}\|{_US}$")
_TOTAL: Final = re.compile(
    rf"RTS\|{_US}\|{_US}\|{_US}\|{_NUMBER}(?:\|{_NUMBER})?\|\s*{_CLOCK_TIME}/[-\d:]+$"
)
_CELL: Final = re.compile(rf"HSD\|\s*(min|avg|max)\s*\|{_NUMBER}-{_NUMBER}\|{_NUMBER}$")
_PLOT: Final = re.compile(rf"#\s*{_TIME}")
_PLOTTED: Final = re.compile(rf"#{_US}\|{_US}\|{_US}\|{_NUMBER}\|{_NUMBER}\|$")
_POINT: Final = re.compile(r"(\d{1,12}(?:\.\d{1,9})?(?:e[+-]\d\d)?) (\d{1,18})$")
_VERSION: Final = re.compile(r"#\s*Xenomai version:.*?\bv?(\d{1,3}(?:\.\d{1,5}){1,3})")
_CLOCK: Final = re.compile(r"== Test(?:ing|ed clock)\b[ :]*(.{1,80})$")
_CLOCKS: Final = re.compile(r"CPU\s+ToD offset \[us\]")
_DRIFT: Final = re.compile(
    r"(?:^|[\s\]:])(\d{1,5})\s+(-?\d{1,15}\.\d)\s+(-?\d{1,12}\.\d{3})\s+(\d{1,18})\s+(-?\d{1,12}\.\d)$"
)
_SWITCHES: Final = re.compile(r"== (Threads:|Testing FPU check routines|FPU check routines:)")
_STARTED: Final = re.compile(r"RTT\|\s+(\d{2,9}):(\d\d):(\d\d)$")
_SWITCHED: Final = re.compile(rf"RTD\|(?:{_NUMBER}\|)?{_NUMBER}\|{_NUMBER}$")
_BROKEN: Final = re.compile(
    r"(Error after context switch from task .{1,200}|No context switches during one second.*"
    r"|fpu stress task failure!.*)"
)
_EVENTS: Final = re.compile(
    r"(\d{1,18}): (-?\d{1,10}\.\d{3}) / (-?\d{1,10}\.\d{3}) / (-?\d{1,10}\.\d{3}) us$"
)
_WARMING: Final = re.compile(r"Warming up\.\.\.$")
_PUBLISHED: Final = re.compile(
    r"^\|?\s*([^|\s](?:[^|]{0,118}[^|\s])?)\s*\|\s*(-?\d{1,9}(?:\.\d{1,3})?)\s*us\s*"
    r"\|\s*(-?\d{1,9}(?:\.\d{1,3})?)\s*us\s*\|?$"
)
_SYSTEM: Final = re.compile(r"^\|?\s*CPU:\s*\|(.{1,400}?)\|?$")
_TIME_CELL: Final = r"\s*[-\d][\d.,]{0,20}\s*[a-zµμ]?s\s*"
_TAGGED: Final = re.compile(
    rf"(RT[DS]|HSD)\||^\|?[^|]{{1,120}}\|{_TIME_CELL}\|{_TIME_CELL}\|?$"  # or a row of a table
)


@dataclass
class Clocks:
    """``clocktest``: CPU -> offset in 0.1 us, drift in ns/s, warps, largest warp in 0.1 us."""

    line: int
    clock: str = ""
    rows: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)


@dataclass
class Switches:
    """``switchtest``: CPU (-1: the only one) -> the switches of each second, and their number.
    ``told``: whether the file has the messages that the program writes to standard error."""

    line: int
    rows: dict[int, list[int]] = field(default_factory=dict)
    totals: dict[int, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    told: bool = False
    second: int = 0


@dataclass(frozen=True)
class Row:
    """A row of figures: name, context if known, minimum, mean (None: not printed), maximum in ns,
    and number of events (None: not printed)."""

    name: str
    context: str
    min: int
    mean: int | None
    max: int
    count: int | None


@dataclass
class Responses:
    """``irqbench``, ``gpioirqbench``, or a table of their figures. ``system``: what was tested, as
    the table says. ``last``: what was printed last of a run without an end: its mean is that of a
    second, so it is left out."""

    line: int
    rows: list[Row] = field(default_factory=list)
    last: Row | None = None
    system: str = ""


Found: TypeAlias = Latency | Clocks | Switches | Responses

_MARKS: Final = re.compile(
    rf"== Sampling period:\s*\d|RT[TDS]\||HSD\||^#\s*[-\d:]+ \(({_MODES}),|{_CLOCKS.pattern}"
    rf"|^{_SWITCHES.pattern}|{_EVENTS.pattern}|{_PUBLISHED.pattern}"
)


def is_printed(head: str) -> bool:
    """Whether the beginning of a text has a result."""
    return any(_MARKS.search(line.rstrip()) for line in re.split("[\r\n]+", head))


def _ns(text: str, line: int, per: int = 1000) -> int:
    """A number of microseconds in ns."""
    value = round(Decimal(text) * per)
    if abs(value) > VALUE_LIMIT:
        refuse(f"line {line}: {text} us is longer than {VALUE_LIMIT / 1e9:.1f} s")
    return value


def read(text: Text) -> list[Found]:
    """The results of a file, in order. UsageError for a file without a result, or a
    damaged one."""
    reader = _Reader()
    for number, line in enumerate(text.lines, 1):
        if not reader.take(number, line) and _TAGGED.search(line):
            if text.cut and number == len(text.lines):
                break
            refuse(f"line {number} is damaged: {line.strip()[:60]}")
    return reader.finish()


class _Reader:
    def __init__(self) -> None:
        self.found: list[Found] = []
        self.line = 0
        self._before = ""
        self._plot: _Plot | None = None
        self._rules: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], None]], ...] = (
            (_PERIOD, self._begin),
            (_MODE, self._mode),
            (_TITLE, self._title),
            (_SECOND, self._second),
            (_TOTAL, self._total),
            (_CELL, self._cell),
            (_PLOT, self._begin_plot),
            (_PLOTTED, self._plotted),
            (_VERSION, self._version),
            (_SWITCHES, self._threads),
            (_CLOCK, self._clock),
            (_DRIFT, self._drift),
            (_STARTED, self._started),
            (_SWITCHED, self._switched),
            (_BROKEN, self._broken),
            (_WARMING, self._warming),
            (_EVENTS, self._events),
            (_SYSTEM, self._system),
            (_PUBLISHED, self._published),
        )

    def take(self, number: int, line: str) -> bool:
        """Look at a line. False if it is not part of a result."""
        self.line = number
        if self._plot is not None and (point := _POINT.match(line)):
            self._plot.points.append((Decimal(point[1]), int(point[2])))
            if len(self._plot.points) > CELL_LIMIT:
                refuse(f"line {number}: its histogram has more than {CELL_LIMIT} cells")
            return True
        if self._plot is not None and not line.startswith("#"):
            self._end_plot()
        for pattern, rule in self._rules:
            if found := pattern.search(line):
                rule(found)
                break
        else:
            self._before = line.strip(" |\t") or self._before
            return False
        if len(self.found) > RESULT_LIMIT:
            refuse(f"it has more than {RESULT_LIMIT} results", "split it")
        return True

    def finish(self) -> list[Found]:
        self._end_plot()
        for one in self.found:
            if isinstance(one, Latency):
                self._check(one)
        full = [one for one in self.found if _full(one)]
        if not full:
            refuse("it has no result of latency, clocktest, switchtest or irqbench")
        return full

    def _check(self, one: Latency) -> None:
        if not one.context or not one.period_ns:
            refuse(
                f"line {one.line}: the period and the test mode of latency are missing",
                "save its output from the line '== Sampling period' on",
            )
        if not one.ended and not one.seconds:
            refuse(
                f"line {one.line}: latency printed no figures",
                "let it run for a few seconds, and end it with -T or Ctrl-C",
            )
        if not one.ended and one.cells:
            refuse(f"line {one.line}: the histogram is truncated: its line RTS is missing")
        for figures in (*one.seconds, one.figures):
            if not figures.min - 1 <= figures.mean <= figures.max + 1:
                refuse(
                    f"line {one.line}: minimum, mean and maximum contradict each other",
                    "let latency run for a few seconds at least, and save its whole output",
                )

    # latency

    def _latency(self) -> Latency:
        """The output of latency that is being read, or a new one."""
        last = self.found[-1] if self.found else None
        if isinstance(last, Latency) and last.total is None:
            return last
        one = Latency(self.line)
        self.found.append(one)
        return one

    def _period(self, text: str) -> int:
        period_ns = int(text) * 1000
        if not 0 < period_ns <= 10**9:
            refuse(f"line {self.line}: a period of {text} us; supported: 1 us to 1 s")
        return period_ns

    def _begin(self, found: re.Match[str]) -> None:
        self.found.append(Latency(self.line, period_ns=self._period(found[1])))

    def _mode(self, found: re.Match[str]) -> None:
        self._latency().context = CONTEXTS[found[1]]

    def _title(self, found: re.Match[str]) -> None:
        one = self._latency()
        one.context, one.period_ns = CONTEXTS[found[4]], self._period(found[5])
        one.priority = min(int(found[6]), 99)

    def _figures(self, found: re.Match[str]) -> Figures:
        low, mean, high = (_ns(found[at], self.line) for at in (1, 2, 3))
        return Figures(low, mean, high, int(found[4]), None if found[5] is None else int(found[5]))

    def _second(self, found: re.Match[str]) -> None:
        self._latency().seconds.append(self._figures(found))

    def _total(self, found: re.Match[str]) -> None:
        one = self._latency()
        one.total = self._figures(found)
        one.duration_s = _seconds(found, 6)

    def _cell(self, found: re.Match[str]) -> None:
        if found[1] != "avg":
            return
        cells, (cell, end, number) = self._latency().cells, map(int, found.groups()[1:])
        if end != cell + 1 or cell in cells or not number or len(cells) >= CELL_LIMIT:
            refuse(f"line {self.line}: cell {cell} of the histogram is wrong")
        cells[cell] = number

    def _begin_plot(self, found: re.Match[str]) -> None:
        context, period_ns = CONTEXTS[found[4]], self._period(found[5])
        one = self._latency()
        other = one.context and (one.context, one.period_ns) != (context, period_ns)
        if other or one.ended:
            one = Latency(self.line)
            self.found.append(one)
        one.context, one.period_ns, one.priority = context, period_ns, min(int(found[6]), 99)
        self._plot = _Plot(one, self.line, _seconds(found, 1))

    def _plotted(self, found: re.Match[str]) -> None:
        if self._plot is not None:
            self._plot.figures = self._figures(found)

    def _version(self, found: re.Match[str]) -> None:
        if self._plot is not None:
            self._plot.latency.version = found[1]

    def _end_plot(self) -> None:
        plot, self._plot = self._plot, None
        if plot is None:
            return
        one = plot.latency
        one.cell_ns, one.cells = plot.cells()
        one.plotted, one.duration_s = plot.figures, plot.duration_s

    # clocktest

    def _clock(self, found: re.Match[str]) -> None:
        self.found.append(Clocks(self.line, found[1].strip()))

    def _drift(self, found: re.Match[str]) -> None:
        last = self.found[-1] if self.found else None
        if isinstance(last, Clocks):
            if len(last.rows) >= ROW_LIMIT:
                refuse(f"line {self.line}: more than {ROW_LIMIT} CPUs")
            tenths, drift = (found[at].replace(".", "") for at in (2, 3))
            last.rows[int(found[1])] = (
                int(tenths), int(drift), int(found[4]), int(found[5].replace(".", "")),
            )  # fmt: skip

    # switchtest

    def _switches(self) -> Switches:
        last = self.found[-1] if self.found else None
        if isinstance(last, Switches):
            return last
        one = Switches(self.line)
        self.found.append(one)
        return one

    def _threads(self, found: re.Match[str]) -> None:
        last = self.found[-1] if self.found else None
        if isinstance(last, Switches) and last.rows:
            self.found.append(Switches(self.line))
        self._switches().told |= not found[1].startswith("Threads")

    def _started(self, found: re.Match[str]) -> None:
        self._switches().second = _seconds(found, 1)

    def _switched(self, found: re.Match[str]) -> None:
        one, cpu = self._switches(), int(found[1] or -1)
        if len(one.rows) >= ROW_LIMIT and cpu not in one.rows:
            refuse(f"line {self.line}: more than {ROW_LIMIT} CPUs")
        one.rows.setdefault(cpu, []).append(int(found[2]))
        one.totals[cpu] = int(found[3])

    def _broken(self, found: re.Match[str]) -> None:
        self._switches().errors.append(found[1])

    # irqbench, gpioirqbench

    def _responses(self) -> Responses:
        last = self.found[-1] if self.found else None
        if isinstance(last, Responses):
            return last
        one = Responses(self.line)
        self.found.append(one)
        return one

    def _warming(self, _found: re.Match[str]) -> None:
        """The beginning of irqbench: a run before it that has no end keeps what it printed last."""
        last = self.found[-1] if self.found else None
        if isinstance(last, Responses) and last.last is not None:
            self.found.append(Responses(self.line))

    def _events(self, found: re.Match[str]) -> None:
        low, mean, high = (_ns(found[at], self.line) for at in (2, 3, 4))
        row, one = Row("", "", low, mean, high, int(found[1])), self._responses()
        if self._before.split()[-1:] == ["---"]:
            one.rows.append(row)
            one.last, self._before = None, ""
        else:
            one.last = replace(row, mean=None)

    def _system(self, found: re.Match[str]) -> None:
        self.found.append(Responses(self.line, system=f"{self._before}, {found[1].strip()}"[:200]))

    def _published(self, found: re.Match[str]) -> None:
        rows = self._responses().rows
        if len(rows) >= ROW_LIMIT:
            refuse(f"line {self.line}: more than {ROW_LIMIT} rows")
        low, high = (_ns(found[at], self.line) for at in (2, 3))
        if low > high:
            refuse(f"line {self.line}: the minimum is above the maximum")
        context = next((c for words, c in _CONTEXT_WORDS.items() if words in found[1]), "")
        rows.append(Row(found[1], context, low, None, high, None))


@dataclass
class _Plot:
    """A histogram for gnuplot: its points are the edge of the first cell, the middle of each cell
    with its samples and one more, and the edge of the last cell."""

    latency: Latency
    line: int
    duration_s: int
    figures: Figures | None = None
    points: list[tuple[Decimal, int]] = field(default_factory=list)

    def cells(self) -> tuple[int, dict[int, int]]:
        """Width of the cells in ns, and cell -> samples."""
        points = self.points
        if self.figures is None or len(points) < 3:
            refuse(f"line {self.line}: the histogram for gnuplot is truncated")
        number, (begin, _), (end, _) = len(points) - 2, points[0], points[-1]
        width = (end - begin) / number
        cell_ns = round(width * 1000)
        if cell_ns < 1 or cell_ns > VALUE_LIMIT:
            refuse(f"line {self.line}: the points of the histogram are not in ascending order")
        first = round(begin * 1000 / cell_ns)
        for at, (place, _) in enumerate(points[1:-1]):
            middle = (first + at + Decimal("0.5")) * cell_ns / 1000
            if abs(place - middle) > width / 4 + middle / 50_000:  # six digits were printed
                refuse(f"line {self.line}: the histogram for gnuplot has points out of place")
        if points[0][1] != 1 or points[-1][1] != 1 or min(one for _, one in points) < 1:
            refuse(f"line {self.line}: the histogram for gnuplot is truncated")
        return cell_ns, {first + at: one - 1 for at, (_, one) in enumerate(points[1:-1]) if one > 1}


def _full(one: Found) -> bool:
    if isinstance(one, Latency):
        return True
    return bool(one.rows or (isinstance(one, Responses) and one.last is not None))


def _seconds(found: re.Match[str], at: int) -> int:
    hours, minutes, seconds = (int(found[at + more]) for more in range(3))
    return hours * 3600 + minutes * 60 + seconds
