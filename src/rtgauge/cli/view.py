# SPDX-License-Identifier: Apache-2.0
"""The live view of a step: lines of text for a terminal of a given size, made from what is known.

It has neither state nor terminal: ``lines`` gives the lines to show, and ``Line.text`` the text to
write. Whatever a target calls its things, a line has no control character and is as wide as
``Line.width`` says.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rtgauge.cli.output import format_seconds
from rtgauge.engine.live import (
    BINS,
    BINS_PER_DECADE,
    SECONDS,
    WINDOW_S,
    LiveSeries,
    LiveStep,
    bin_low,
)
from rtgauge.facts import printable
from rtgauge.plan import describe_step

__all__ = ["Line", "lines", "plain"]

LABEL_MAX: Final = 24
LABEL_MIN: Final = 4
LOAD_LINES: Final = 3
PICTURE_MAX: Final = 48
# A second picture, of the maxima over time, has room next to one of this width.
PICTURE_SHARED: Final = 24
BLOCKS: Final = "▁▂▃▄▅▆▇█"
BLOCKS_ASCII: Final = ".:-=+*#@"
STYLES: Final = {"": "", "bold": "1", "dim": "2", "good": "36", "warn": "33", "bad": "31;1"}
MINUTE: Final = 60


def plain(text: str, limit: int = 400) -> str:
    """The text in one line of at most ``limit`` characters that each take one column."""
    cut = printable(text[:limit].replace("\n", " "))
    if cut.isascii():
        return cut
    return "".join(c if _takes_one_column(c) else "\ufffd" for c in cut)


def _takes_one_column(c: str) -> bool:
    wide = unicodedata.east_asian_width(c) in "WF"
    return c.isprintable() and not wide and unicodedata.category(c) not in ("Mn", "Me")


@dataclass
class Line:
    """One line: pieces of text, each with the name of its style."""

    pieces: list[tuple[str, str]] = field(default_factory=list)

    def add(self, text: str, style: str = "") -> Line:
        """Append a piece, without control characters."""
        self.pieces.append((printable(text), style))
        return self

    @property
    def width(self) -> int:
        """How many columns it takes."""
        return sum(len(text) for text, _ in self.pieces)

    def fit(self, columns: int) -> Line:
        """The line, cut so that it takes no more than ``columns``."""
        if self.width <= columns:
            return self
        room, pieces = columns - 1, []
        for text, style in self.pieces:
            pieces.append((text[:room], style))
            room -= min(room, len(text))
        return Line([*pieces, ("…", "")][-len(pieces) - 1 :] if columns > 0 else [])

    def text(self, *, color: bool) -> str:
        """What is written to a terminal."""
        return "".join(
            f"\x1b[{STYLES[style]}m{text}\x1b[0m" if color and STYLES[style] and text else text
            for text, style in self.pieces
        ).rstrip(" ")


@dataclass(frozen=True)
class _Row:
    """The content of one row: a series, or all of them together."""

    cpu: str
    label: str
    rate: float | None
    min: float
    mean: float
    max: float
    recent: float | None
    missed: int
    bins: NDArray[np.int64]
    seconds: list[float | None]


@dataclass(frozen=True)
class _Group:
    """The series of one quantity."""

    name: str
    unit: str  # the unit shown, and
    divisor: float  # how much larger it is than the series'
    label: str  # what distinguishes the rows, apart from the CPU
    rows: list[_Row]
    whole: _Row | None
    budget: float | None


def short_step(text: str, room: int) -> str:
    """A step (``describe_step``, after its target and its place) in at most ``room`` columns: its
    options make way first, then its load. At least a few letters of its name stay."""
    room = max(room, 8)
    if len(text) <= room:
        return text
    head, _, conditions = text.partition(", ")
    words = head.split(" ")
    name = next((at for at, word in enumerate(words) if not word.endswith((":", "]"))), 0)
    for kept in range(len(words) - 1, name, -1):
        shorter = f"{' '.join(words[:kept])} …, {conditions}"
        if conditions and len(shorter) <= room:
            return shorter
    return f"{text[: room - 1].rstrip(' ,-')}…"


def lines(
    live: LiveStep,
    place: str,
    columns: int,
    height: int,
    *,
    blocks: bool = True,
    left_s: float | None = None,
) -> list[Line]:
    """At most ``height`` lines of at most ``columns`` columns; ``blocks``: the terminal can show
    block elements. ``place`` says which step of how many it is, ``left_s`` how many seconds all
    steps will still take."""
    left = "" if left_s is None else f"  {format_seconds(left_s)} left in total"
    step = short_step(plain(describe_step(live.step)), columns - len(place) - len(left))
    head = [Line().add(place, "dim").add(step, "bold").add(left, "dim")]
    head.append(_bar(live, columns, blocks))
    head += _work(live, columns)
    groups = _groups(live, blocks)
    room = height - len(head)
    if not groups and room > 0 and live.trailer is None:
        text = " starting" if live.step.loads == "idle" else " starting the loads"
        head.append(Line().add(text, "dim"))
    for number, group in enumerate(groups):
        share = room // (len(groups) - number)
        shown = _table(group, columns, share, blocks)
        room -= len(shown)
        head += shown
    return [line.fit(columns) for line in head[:height]]


# --- above the tables ----------------------------------------------------------------------------


def _bar(live: LiveStep, columns: int, blocks: bool) -> Line:
    """How much of the step is done, passed and left."""
    if live.expected_s is None:
        until = ", until Ctrl-C" if live.endless else ""
        return Line().add(f" measuring for {format_seconds(live.measured_s)}{until}")
    done = min(1.0, live.measured_s / live.expected_s) if live.expected_s else 1.0
    left = live.expected_s - live.measured_s
    passed = format_seconds(min(live.measured_s, live.expected_s))
    text = f" {math.floor(100 * done):3d} %  {passed} of {format_seconds(live.expected_s)}"
    text += f", {format_seconds(left)} left" if left > 0 else ", ending"
    room = max(0, min(columns - 46, 60))
    full = int(done * room)
    fill, rest = ("█", "░") if blocks else ("#", "-")
    line = Line()
    if room >= 10:
        line.add(" ").add(fill * full, "good").add(rest * (room - full), "dim")
    return line.add(text)


def _work(live: LiveStep, columns: int) -> list[Line]:
    """What the loads do, in as many lines as that needs, to a limit."""
    if live.died is not None:
        words = [live.died.fields.get(name) for name in ("load", "message")]
        text = ": ".join(word for word in words if isinstance(word, str))
        return [Line().add(plain(f" load {text}"), "bad")]
    found: list[Line] = []
    for name, (unit, rate) in live.work.items():
        text = f"{plain(name, 30)} {_short(rate)} {plain(unit, 16)}/s"
        if found and found[-1].width + 3 + len(text) <= columns:
            found[-1].add(f"   {text}")
        else:
            found.append(Line().add("       " if found else " load  ", "dim").add(text))
    return found[:LOAD_LINES]


def _short(number: float) -> str:
    """A number in at most six characters: ``950``, ``12.3 k``, ``4.56 M``."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= 9.995 * size / 10 and number >= size:
            value = number / size
            return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}"
    return f"{number:.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"


# --- what the series say -------------------------------------------------------------------------


def _groups(live: LiveStep, blocks: bool) -> list[_Group]:
    """The quantities in the order of their series, as far as they have samples."""
    found = [one for one in live.series.values() if one.info.companion is None and one.count]
    now = max((one.second for one in found), default=0)
    quantities: dict[tuple[str, str], list[LiveSeries]] = {}
    for one in found:
        quantities.setdefault((one.info.name, one.info.unit), []).append(one)
    return [_group(live, *key, members, now, blocks) for key, members in quantities.items()]


def _group(
    live: LiveStep, name: str, unit: str, members: list[LiveSeries], now: int, blocks: bool
) -> _Group:
    label, labels = _labels(members)
    high = max(one.max * one.info.scale for one in members)
    in_us = unit == "ns" and high >= 1000
    divisor = 1000.0 if in_us else 1.0
    rows = [_row(one, label, divisor, now) for one, label in zip(members, labels, strict=True)]
    budget = live.step.budget_ns
    return _Group(
        plain(name, 30),
        ("µs" if blocks else "us") if in_us else plain(unit, 12),
        divisor,
        label,
        rows,
        _whole(rows, members, divisor) if len(rows) > 1 else None,
        budget / divisor if budget is not None and unit == "ns" else None,
    )


def _labels(members: Sequence[LiveSeries]) -> tuple[str, list[str]]:
    """The label that distinguishes the series, apart from the CPU: its name, and its values."""
    keys = dict.fromkeys(key for one in members for key in one.info.labels)
    differing = [key for key in keys if len({one.info.labels.get(key) for one in members}) > 1]
    labels = [
        plain(" ".join(one.info.labels.get(key, "") for key in differing), LABEL_MAX)
        for one in members
    ]
    known = {(one.info.cpu, label) for one, label in zip(members, labels, strict=True)}
    if len(known) < len(members):
        differing.append("thread")
        labels = [f"{label} {one.info.thread}".strip()
                  for one, label in zip(members, labels, strict=True)]  # fmt: skip
    return plain(" ".join(differing), LABEL_MAX), labels


def _row(one: LiveSeries, label: str, divisor: float, now: int) -> _Row:
    factor = one.info.scale / divisor
    recent = one.recent(now)
    return _Row(
        str(one.info.cpu) if one.info.cpu >= 0 else "any",
        label,
        one.rate(now),
        one.min * factor,
        one.mean * factor,
        one.max * factor,
        None if recent is None else recent * factor,
        one.missed + one.lost,
        one.bins,
        [None if value is None else value * factor for value in one.maxima(now)],
    )


def _whole(rows: list[_Row], members: list[LiveSeries], divisor: float) -> _Row:
    """All series of a quantity together."""
    count = sum(one.count for one in members)
    total = sum(one.sum * one.info.scale for one in members)
    bins = np.zeros(BINS, np.int64)
    for one in members:
        bins += one.bins
    return _Row(
        "all",
        "",
        sum(row.rate or 0.0 for row in rows) if any(row.rate for row in rows) else None,
        min(row.min for row in rows),
        total / count / divisor,
        max(row.max for row in rows),
        _most(row.recent for row in rows),
        sum(row.missed for row in rows),
        bins,
        [_most(values) for values in zip(*(row.seconds for row in rows), strict=True)],
    )


def _most(values: Iterable[float | None]) -> float | None:
    return max((one for one in values if one is not None), default=None)


# --- a table -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Layout:
    """Which columns there are, and how wide."""

    cpu: int
    label: int
    missed: bool
    recent: bool  # there; it makes room for what was missed
    bins: range  # of the picture; as many to a column as its step says
    seconds: int  # columns of the picture of the last minute
    blocks: str


def _table(group: _Group, columns: int, height: int, blocks: bool) -> list[Line]:
    """Headings, a row for each series, and one for all: the worst first where not all fit."""
    if height < 2:
        return []
    title = [] if height < 5 else [_title(group)]
    whole = group.whole
    rows = group.rows
    room = height - len(title) - 1 - (whole is not None)
    if len(rows) > room:
        rows = sorted(rows, key=lambda row: row.max, reverse=True)[: max(room, 0)]
        if title and rows:
            title[0].add(f": the worst {len(rows)} of {len(group.rows)}, and all together", "dim")
    layout = _layout(group, columns, blocks)
    shown = [*title, _heading(group, layout), *(_line(row, group, layout) for row in rows)]
    if whole is not None:
        shown.append(_line(whole, group, layout))
    return shown[:height]


def _title(group: _Group) -> Line:
    line = Line().add(f" {group.name} in {group.unit}", "bold")
    line.add(f", recent: max of {WINDOW_S} s", "dim")
    if group.budget is not None:
        line.add(f", budget {_figure(group.budget, 2)}", "dim")
    return line


def _layout(group: _Group, columns: int, blocks: bool) -> _Layout:
    rows = [*group.rows, *([group.whole] if group.whole else [])]
    cpu = max(3, *(len(row.cpu) for row in rows))
    label = max(len(row.label) for row in rows)
    label = max(label, len(group.label)) if label else 0
    missed = any(row.missed for row in rows)
    figures = _before(_Layout(cpu, 0, missed, False, range(0), 0, "")) + 2
    label = min(label, max(columns - figures, LABEL_MIN))  # it makes room for the figures
    room = columns - 3 - _before(_Layout(cpu, label, missed, True, range(0), 0, ""))
    recent = not missed or room >= -3
    seconds = min(MINUTE, room - PICTURE_SHARED - 2)
    if seconds < 20:
        seconds = 0
    room = min(room - (seconds + 2 if seconds else 0), PICTURE_MAX)
    filled = np.flatnonzero((group.whole or group.rows[0]).bins > 0)
    half = BINS_PER_DECADE // 2
    first = int(filled[0]) // half * half if len(filled) else 0
    last = (int(filled[-1]) // half + 1) * half if len(filled) else half
    step = math.ceil((last - first) / room) if room >= 6 else 0
    bins = range(first, last, step) if step else range(0)
    if bins and len(" ".join(_edges(group, bins))) > room:
        bins = range(0)
    return _Layout(cpu, label, missed, recent, bins, seconds, BLOCKS if blocks else BLOCKS_ASCII)


def _heading(group: _Group, layout: _Layout) -> Line:
    line = Line().add(f" {'CPU':>{layout.cpu}}", "dim")
    if layout.label:
        line.add(f"  {_cut(group.label, layout.label)}", "dim")
    cells = ["per s", "min", "mean", "max"]
    if layout.recent:
        cells.append("recent")
    if layout.missed:
        cells.append("missed")
    line.add("".join(f"{cell:>8}" for cell in cells), "dim")
    if layout.bins:
        low, high = _edges(group, layout.bins)
        line.add(f"   {low}{high:>{max(len(layout.bins) - len(low), len(high) + 1)}}", "dim")
    if layout.seconds:
        gap = max(0, len(layout.bins) + 3 + _before(layout) - line.width)
        line.add(" " * gap).add(f"  {'max of each second':>{layout.seconds}}", "dim")
    return line


def _cut(label: str, room: int) -> str:
    return f"{label:<{room}}" if len(label) <= room else f"{label[: room - 1]}…"


def _before(layout: _Layout) -> int:
    """Columns in front of the pictures, and of the gap before them."""
    label = 2 + layout.label if layout.label else 0
    return 1 + layout.cpu + label + 8 * (4 + layout.recent + layout.missed)


def _edges(group: _Group, bins: range) -> tuple[str, str]:
    """Where a picture begins and ends."""
    low, high = (bin_low(at) / group.divisor for at in (bins[0], bins[-1] + bins.step))
    return _edge(low), _edge(high)


def _edge(value: float) -> str:
    short = float(f"{value:.2g}")
    return f"{short:.0f}" if short >= 10 or short == int(short) else f"{short:g}"


def _line(row: _Row, group: _Group, layout: _Layout) -> Line:
    over = group.budget is not None and row.max > group.budget
    late = group.budget is not None and row.recent is not None and row.recent > group.budget
    line = Line().add(f" {row.cpu:>{layout.cpu}}")
    if layout.label:
        line.add(f"  {_cut(row.label, layout.label)}")
    rate = "-" if row.rate is None else _figure(row.rate, 0)
    places = 2 if group.divisor > 1 else 0
    line.add(f"{rate:>8}{_figure(row.min, places):>8}{_figure(row.mean, 2):>8}")
    line.add(f"{_figure(row.max, places):>8}", "bad" if over else "bold")
    if layout.recent:
        recent = "-" if row.recent is None else _figure(row.recent, places)
        line.add(f"{recent:>8}", "bad" if late else "")
    if layout.missed:
        line.add(f"{_figure(row.missed, 0) if row.missed else '':>8}", "warn")
    if layout.bins:
        line.add("   ").add(_histogram(row.bins, layout), "good")
    if layout.seconds:
        line.add("  ").add(_minute(row.seconds, group, layout), "good")
    return line


def _figure(value: float, places: int) -> str:
    """A number in at most seven characters, with so many decimals if it is small."""
    if not math.isfinite(value):
        return "-"
    size = abs(value)
    if size < 99.95:
        if round(value, 2) == 0:
            value = 0.0  # not -0.00
        return f"{value:.{places if size < 9.995 else min(places, 1)}f}"
    if -999_999 < value < 9_999_999:
        return f"{value:.0f}"
    return f"{value:.1e}".replace("e+0", "e").replace("e+", "e")


def _histogram(bins: NDArray[np.int64], layout: _Layout) -> str:
    """Counts on a logarithmic scale, so that a single sample is visible among millions."""
    starts = np.arange(layout.bins.start, layout.bins.stop, layout.bins.step)
    counts = np.maximum(np.add.reduceat(bins[: layout.bins.stop], starts), 0).tolist()
    most = max(counts)
    return "".join(_block(count, 1, most, layout.blocks) if count else " " for count in counts)


def _minute(seconds: list[float | None], group: _Group, layout: _Layout) -> str:
    """The maximum of each second, on a logarithmic scale between the min and the max of all."""
    known = [one for row in group.rows for one in row.seconds if one is not None and one > 0]
    low, high = min(known, default=1.0), max(known, default=1.0)
    shown = seconds[SECONDS - layout.seconds :]
    return "".join(
        " " if one is None else _block(max(one, low), low, high, layout.blocks) for one in shown
    )


def _block(value: float, low: float, high: float, blocks: str) -> str:
    if high <= low:
        return blocks[0] if high <= 1 else blocks[-1]
    part = math.log(value / low) / math.log(high / low)
    return blocks[min(len(blocks) - 1, max(0, round(part * (len(blocks) - 1))))]
