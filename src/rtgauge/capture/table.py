# SPDX-License-Identifier: Apache-2.0
"""CSV of oscilloscopes and logic analysers: NumPy reads the numbers, once the lines before them,
which every maker writes differently, are understood."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rtgauge.capture.analogue import CHUNK, Floats, levels_of, limits, of_voltages, pieces
from rtgauge.capture.edges import Edges, Schmitt
from rtgauge.capture.recording import (
    CLOCK,
    EDGE_LIMIT,
    HEAD,
    RATE_MAX,
    TIME_LIMIT,
    Levels,
    Lines,
    Recording,
    one_line,
    refuse,
)

__all__ = ["first_row", "read_table"]

_NUMBER: Final = re.compile(r"[ \t]*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[ \t]*")
_TIME: Final = re.compile(
    r"(?:time|second|seconds|t|x|x-axis|source|timestamp)\b.*|in s\b.*|.*\[s\]|.*\(s\)|.* in s",
    re.IGNORECASE,
)
_SECONDS: Final = r"(?:([munpµμ]?)s(?:ec)?|(milli|micro|nano|pico)?seconds?)"
_IN_SECONDS: Final = re.compile(
    rf"(?:.*[\[(]\s*{_SECONDS}\s*[\])].*|(?:.* )?in {_SECONDS}"
    rf"|(?:t|time|time ?stamp|x|x-axis|source)[\W_]+{_SECONDS}"
    r"|()(milli|micro|nano|pico)seconds?)",
    re.IGNORECASE,
)
_UNIT: Final = re.compile(
    rf"(?:{_SECONDS}|[nuµμmk]?(?:v|volts?|a)(?: [ad]c)?|logic|analog|sequence|)", re.IGNORECASE
)
_IN_VOLTS: Final = re.compile(r"(?:.*[\[(_ ])?([nuµμmk])V(?:olts?)?(?: [AD]C)?[\])]?")
_PARTS: Final = {
    "k": 1e-3, "m": 1e3, "u": 1e6, "µ": 1e6, "μ": 1e6, "n": 1e9, "p": 1e12,
    "milli": 1e3, "micro": 1e6, "nano": 1e9, "pico": 1e12,
}  # fmt: skip
"""Number of units in 1 s or 1 V, by the prefix of the unit."""
_INTERVAL: Final = re.compile(
    r"(?:sample|sampling)[ _]?(?:interval|period)|increment|tinc|x[ _-]?increment|delta[ _]?t"
    r"|horizontal[ _]interval|x[ _]?inc",
    re.IGNORECASE,
)
_RATE: Final = re.compile(r"(?:sample|sampling)[ _]?(?:rate|frequency)|samplerate", re.IGNORECASE)
_PREFIX: Final = "(?:[pnuµμmkKMG]|[Pp]ico|[Nn]ano|[Mm]icro|[Mm]illi)"
_BASE: Final = "(?:[sS]|[sS]ec|[sS]econds?|Hz|hz|HZ|Sa/s|S/s|sps)"
_POWERS: Final = {
    "p": -12, "n": -9, "u": -6, "µ": -6, "μ": -6, "m": -3, "k": 3, "K": 3, "M": 6, "G": 9,
    "pico": -12, "nano": -9, "micro": -6, "milli": -3,
    "Pico": -12, "Nano": -9, "Micro": -6, "Milli": -3,
}  # fmt: skip
_SEPARATORS: Final = (",", ";", "\t")
BESIDE: Final = 8
"""Number of fields behind a word in which its number is looked for."""
LONG_S: Final = 1 << 20
"""Times from here on, such as those since 1970, have more digits than a floating-point number
keeps: it would round them by 0.1 ns or more."""
PIECE: Final = 1 << 22
"""Bytes of a file that are read at once. No row is longer."""


@dataclass(frozen=True)
class _Layout:
    """How a file of numbers is laid out: ``skip`` lines, then rows of ``columns`` fields."""

    skip: int
    separator: str
    columns: int
    comma: bool
    """Whether numbers have a decimal comma."""


def _fields(line: str, separator: str) -> list[str]:
    return [field.strip().strip('"').strip() for field in line.rstrip("\r\n").split(separator)]


def _numbers(line: str, separator: str, comma: bool) -> int:
    """Number of numbers in the line, 0 if it contains anything else. Empty fields at its end do
    not count."""
    fields = _fields(line, separator)
    while fields and not fields[-1]:
        fields.pop()
    texts = [field.replace(",", ".") for field in fields] if comma else fields
    return len(texts) if texts and all(_NUMBER.fullmatch(text) for text in texts) else 0


def first_row(lines: Sequence[str]) -> _Layout | None:
    """Where the rows begin: the first of two lines of as many numbers, at least two each."""
    for separator in _SEPARATORS:
        for comma in (False, True):
            if comma and separator == ",":
                continue
            counts = [_numbers(line, separator, comma) for line in lines]
            for at, (one, after) in enumerate(zip(counts, [*counts[1:], 0], strict=False)):
                if one >= 2 and (after == one or at + 1 == len(lines)):
                    width = len(_fields(lines[at], separator))
                    return _Layout(at, separator, width, comma)
    return None


def _names(preamble: Sequence[str], first: str, layout: _Layout) -> list[str]:
    """The names of the columns, from the lines before the numbers; by their number, from 1 on,
    where none says."""
    rows = [_fields(line, layout.separator) for line in preamble]
    comment = [
        [part.strip() for part in found[1].split(",")]
        for line in preamble
        if (found := re.match(r"\s*[;#].*channels[^:]*:(.*)", line, re.IGNORECASE))
    ]
    # The last line that names all columns; one of units below it names no column.
    filled = len([field for field in _fields(first, layout.separator) if field])
    chosen: list[str] | None = None
    for row in rows:
        fields = row[:filled]
        some = len(fields) == filled and all(fields) and not fields[0].startswith((";", "#"))
        plain = not any(_NUMBER.fullmatch(field) for field in fields)
        if some and not _units(fields) and (plain or _TIME.fullmatch(fields[0])):
            chosen = fields
    if comment and 0 <= layout.columns - len(comment[0]) <= 2:
        # sigrok adds a column with the times, and one with the trigger as the last
        head = rows[-1] if rows and len(rows[-1]) == layout.columns else [""] * layout.columns
        last = head[-1:] if head[-1] == "Trigger" else []
        more = layout.columns - len(comment[0]) - len(last)
        chosen = [*([head[0] or "Time"] * max(more, 0)), *comment[0], *last]
    fields = (chosen or [])[: layout.columns] + [""] * layout.columns
    names: list[str] = []
    taken: set[str] = set()
    for at in range(layout.columns):
        name = fields[at] or str(at + 1)
        names.append(name if name not in taken else f"{name} ({at + 1})")
        taken.add(names[-1])
    return names


def _units(row: Sequence[str]) -> bool:
    """Whether a line holds units, or what kind a column is, and no names."""
    return all(_UNIT.fullmatch(field.strip("()[]")) for field in row)


def _parts(
    preamble: Sequence[str], names: Sequence[str], timed: int | None, layout: _Layout
) -> list[float]:
    """Number of units of each column in 1 s (the times) or 1 V. Units are part of the name, or in a
    line of units below it."""
    rows = [_fields(line, layout.separator) for line in preamble]
    below = [row for row in rows if len(row) > 1 and _units(row)]
    found = []
    for at, name in enumerate(names):
        unit = next((f"({row[at].strip('()[]')})" for row in below if row[at : at + 1] > [""]), "")
        pattern = _IN_SECONDS if at == timed else _IN_VOLTS
        read = pattern.fullmatch(name) or pattern.fullmatch(unit)
        prefix = next(filter(None, read.groups()), "") if read else ""
        found.append(_PARTS[prefix.lower()] if prefix else 1.0)
    return found


def _stated(preamble: Sequence[str], layout: _Layout, wanted: re.Pattern[str]) -> Fraction | None:
    """The number next to, behind or below a word of the preamble."""
    rows = [re.split(r"[,;\t:=]", line.strip().lstrip(";# ")) for line in preamble]
    columns = [_fields(line, layout.separator) for line in preamble]
    for at, row in enumerate(rows):
        for place, field in enumerate(row):
            if not wanted.match(field.strip().strip('"')):
                continue
            cells = [part.strip().strip('"') for part in row[place + 1 : place + 1 + BESIDE]]
            for number, text in enumerate(cells):
                beside = [*cells[number - 1 : number], *cells[number + 1 : number + 2]]
                if (found := _quantity(text, _unit_of(field), *beside)) is not None:
                    return found
        cells = columns[at]
        column = next((c for c, cell in enumerate(cells) if wanted.match(cell)), -1)
        if column >= 0 and at + 1 < len(columns) and column < len(columns[at + 1]):
            return _quantity(columns[at + 1][column], _unit_of(cells[column]))
    return None


def _unit_of(name: str) -> str:
    """The unit in the name of a quantity: ``(us)``, ``[MHz]`` or ``in ns``; else empty."""
    found = re.search(r"[\[(]\s*([^\[\]()]*?)\s*[\])]|\bin (\S+)", name)
    return (found[1] or found[2] or "") if found else ""


def _quantity(text: str, *units: str) -> Fraction | None:
    """A positive number in s or Hz, with its unit where it has one, else with the first of
    ``units`` that is one."""
    found = re.fullmatch(
        rf"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{{1,3}})?)\s*({_PREFIX}?)({_BASE}?)", text
    )
    if not found or len(found[1]) > 40:
        return None
    prefix = found[2]
    if not prefix and not found[3]:
        read = (re.fullmatch(f"({_PREFIX}?){_BASE}", unit) for unit in units)
        prefix = next((one[1] for one in read if one), "")
    value = Fraction(found[1]) * Fraction(10) ** _POWERS.get(prefix, 0)
    return value if 0 < value < 10**15 else None


def read_table(path: Path, head: bytes, folder: Path, samplerate: Fraction | None) -> Recording:
    lines = head.decode("utf-8-sig", "replace").splitlines()
    layout = first_row(lines[:-1] if len(head) == HEAD else lines)
    if layout is None:
        refuse("it contains no rows of numbers")
    preamble = lines[: layout.skip]
    names = _names(preamble, lines[layout.skip], layout)
    timed = 0 if _TIME.fullmatch(names[0]) or _IN_SECONDS.fullmatch(names[0]) else None
    parts = _parts(preamble, names, timed, layout)
    interval = _stated(preamble, layout, _INTERVAL)
    stated = _stated(preamble, layout, _RATE)
    rate = samplerate or (1 / interval if interval else stated)
    channels = names[1:] if timed == 0 else names

    def read(event: str, answer: str, levels: Levels) -> Lines:
        wanted = [names.index(event), names.index(answer)]
        # Rigol's counts rows in the first column: then the preamble says how far they are apart.
        if timed is None or (re.fullmatch(r"x", names[0], re.IGNORECASE) and interval):
            waves = _columns(path, layout, wanted, parts, folder)
            if rate is None:
                refuse(
                    "it contains neither times nor a sample rate",
                    "add --samplerate, such as 24MHz",
                )
            return of_voltages([wave.array() for wave in waves], rate, levels)
        columns = _columns(path, layout, [timed, *wanted], parts, folder)
        time, first, second = (one.array() for one in columns)
        return _timed(time, [first, second], samplerate, rate, levels)

    sigrok = any("libsigrok" in line for line in preamble)
    if sigrok and timed == 0 and stated:
        parts[0] = _ticks(stated)
    instrument = next(
        (
            text
            for line in preamble
            if (
                found := re.match(
                    r"\W*(?:model|instrument|scope|device)\w*(?: (?:name|number))?"
                    r"\W+([\w .+-]{2,60})",
                    line,
                    re.IGNORECASE,
                )
            )
            and (text := found[1].strip())
        ),
        "sigrok" if sigrok else "",
    )
    return Recording("CSV", instrument, tuple(channels), rate, "", read)


def _ticks(rate: Fraction) -> float:
    """Units of sigrok's times in 1 s: each sample is a whole number of them after the one before,
    rounded down."""
    unit = next((one for one in (10**3, 10**6, 10**9) if rate <= one), 10**12)
    return float(unit // rate * rate)


def _columns(
    path: Path, layout: _Layout, wanted: Sequence[int], parts: Sequence[float], folder: Path
) -> list[Floats]:
    """The columns in s and V, the first as 64-bit numbers (it may be the time). ``parts``: units of
    each column in 1 s or 1 V. Rows of another width are skipped; what is empty is not a number.
    Long times are those since the first row."""
    origin: Decimal | None = None
    known = len(wanted) < 3
    stores = [
        Floats(folder, np.float64 if at == 0 and len(wanted) == 3 else np.float32)
        for at in range(len(wanted))
    ]
    for rows in _rows(path, layout):
        if not known:
            known, origin = True, _origin(rows[0], layout.separator, wanted[0], parts[wanted[0]])
        numbers = _parsed(rows, layout.separator, wanted)
        if origin is not None:
            numbers[:, 0] = _since(rows, layout.separator, wanted[0], origin)
        for store, column, at in zip(stores, numbers.T, wanted, strict=True):
            store.add(column / parts[at])
    return stores


def _rows(path: Path, layout: _Layout) -> Iterator[list[str]]:
    """The rows, some megabytes at a time, with decimal points and without quotation marks."""
    skip, rest, ended = layout.skip, b"", False
    with path.open("rb") as file:
        while not ended:
            data = file.read(PIECE)
            ended = not data
            data = rest + data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b'"', b"")
            end = len(data) if ended else data.rfind(b"\n") + 1
            rest = data[end:]
            if len(rest) > PIECE:
                refuse(f"a row is longer than {PIECE >> 20} MiB", "save it again")
            if layout.comma:
                data = data.replace(b",", b".")
            lines = data[:end].decode("latin-1").split("\n")[: None if ended else -1]
            skip, lines = max(skip - len(lines), 0), lines[skip:]
            separators = layout.columns - 1
            rows = [line for line in lines if line.count(layout.separator) == separators]
            if rows:
                yield rows


def _parsed(rows: list[str], separator: str, wanted: Sequence[int]) -> NDArray[np.float64]:
    """Some columns of rows as numbers."""
    try:
        return np.loadtxt(
            rows, np.float64, comments=None, delimiter=separator, usecols=wanted, ndmin=2
        )
    except ValueError:
        pass
    # one of them is empty, or no number
    cells = [
        [fields[at].strip() for at in wanted] for fields in (row.split(separator) for row in rows)
    ]
    try:
        return np.array([[float(cell) if cell else math.nan for cell in row] for row in cells])
    except ValueError as error:
        refuse(f"a row contains something other than numbers ({one_line(error)})", "save it again")


def _origin(row: str, separator: str, at: int, parts: float) -> Decimal | None:
    """The time of the first row, if its times are long, else None."""
    text = row.split(separator)[at]
    if not _NUMBER.fullmatch(text) or not LONG_S <= abs(float(text)) / parts < math.inf:
        return None
    return Decimal(text.strip())


def _since(rows: Sequence[str], separator: str, at: int, origin: Decimal) -> list[float]:
    """The times of rows since ``origin``, with all their digits."""
    cells = [row.split(separator)[at].strip() for row in rows]
    try:
        return [float(Decimal(cell) - origin) if cell else math.nan for cell in cells]
    except ArithmeticError:
        refuse("a row contains something other than numbers", "save it again")


def _timed(
    time: NDArray[np.float64],
    waves: Sequence[NDArray[np.floating]],
    samplerate: Fraction | None,
    stated: Fraction | None,
    levels: Levels,
) -> Lines:
    """Lines with the time of each row: evenly apart, also in segments, or where a line changed.
    ``samplerate``: as given by the user. ``stated``: the same, or as the file states it. If
    the rows are changes, it only says how exact their times are."""
    many = len(time)
    if many < 2:
        refuse("it has too few rows")
    length = float(time[-1]) - float(time[0])
    if not (math.isfinite(length) and length > 0):
        refuse("its times do not increase")
    step = length / (many - 1)
    if not many - 1 <= float(RATE_MAX) * length or not length * 1e9 <= TIME_LIMIT:
        refuse(f"its times span {length:.3g} s in {many} rows", CLOCK)
    # Regular events give rows that keep to a grid in the long run, an answer close behind each.
    # Times that are rounded in print are a step apart, the same, or what they are rounded to.
    even, last, same = True, -math.inf, 0
    for start in range(0, many, CHUNK):
        piece = np.asarray(time[start : start + CHUNK])
        apart = np.diff(piece)
        if not np.isfinite(piece).all() or piece[0] < last or bool((apart < 0).any()):
            refuse("its times do not increase")
        last = float(piece[-1])
        same += int(np.count_nonzero(apart == 0))
        due = time[0] + step * np.arange(start, start + len(piece))
        even = even and bool((np.abs(piece - due) <= 2 * step).all())
        even = even and not bool(((apart > 0) & (apart < 0.45 * step)).any())
    if even and not _changes(waves):
        rate = samplerate or Fraction(1 / step).limit_denominator(10**6)
        near = Fraction(round(rate))
        # Printed times are rounded: what is within 1e-7 of a whole number is that.
        if near and abs(rate - near) <= near * Fraction(1, 10**7):
            rate = near
        return of_voltages(waves, rate, levels)
    if same > many // 2 + 1 and not _changes(waves):
        if samplerate:
            return of_voltages(waves, samplerate, levels)
        refuse(
            f"{same} of its {many} rows have the same time as the row before",
            "save its times with more digits, or give the true rate with --samplerate",
        )
    if many > EDGE_LIMIT:
        raise OverflowError
    return _uneven((np.asarray(time) - float(time[0])) * 1e9, waves, stated, levels)


def _uneven(
    at: NDArray[np.float64],
    waves: Sequence[NDArray[np.floating]],
    rate: Fraction | None,
    levels: Levels,
) -> Lines:
    """Lines with a row for each change, or the samples of segments with pauses between them."""
    apart = np.diff(at)
    step = float(np.median(apart[apart > 0]))
    edges, thresholds, widths = [], [], []
    analogue = [not _two_values(wave) for wave in waves]
    for wave, interpolated in zip(waves, analogue, strict=True):
        threshold, hysteresis, _ = levels_of(wave, levels)
        schmitt = Schmitt(threshold, hysteresis)
        for piece in pieces(wave):
            schmitt.feed(piece)
        found = schmitt.edges()
        row = np.ceil(found.at).astype(np.int64)
        when = at[row]
        if interpolated:  # within a segment
            when = when - (row - found.at) * np.minimum(apart[row - 1], step)
        edges.append(Edges(when, found.level))
        thresholds.append(threshold)
        widths.append(hysteresis)
    sampled = any(analogue)
    rate = rate or (Fraction(10**9 / step) if sampled else None)
    error = max(1.0, float((2 if sampled else 1) * 10**9 / rate)) if rate else 1.0
    return Lines(
        edges[0],
        edges[1],
        Fraction(10**9),
        round(float(at[-1])),
        error,
        rate,
        (thresholds[0], thresholds[1]) if sampled else None,
        (widths[0], widths[1]) if sampled else None,
    )


def _two_values(wave: NDArray[np.floating]) -> bool:
    least, most = limits(wave)
    # a row may have no value for the line that did not change
    return all(
        ((piece == least) | (piece == most) | ~np.isfinite(piece)).all() for piece in pieces(wave)
    )


def _changes(waves: Sequence[NDArray[np.floating]]) -> bool:
    """Whether two digital lines change in most rows: samples would be too few for such lines, so
    these are rows for the changes."""
    if not all(_two_values(wave) for wave in waves):
        return False
    changed = 0
    for start in range(0, len(waves[0]), CHUNK):
        both = [np.asarray(wave[max(start - 1, 0) : start + CHUNK]) for wave in waves]
        moved = [one[1:] != one[:-1] for one in both]
        changed += int(np.count_nonzero(moved[0] | moved[1]))
    return 2 * changed > len(waves[0])
