# SPDX-License-Identifier: Apache-2.0
"""Files that logic analysers and oscilloscopes leave, read in pieces.

Told apart by what they hold, not by their names. A sigrok session (.sr) is a zip archive of an INI
file and raw samples: Python's own readers take it. CSV goes through PyArrow's reader once the
lines before the numbers, which every maker writes differently, are understood. Whatever else there
is (.vcd, and all that libsigrok reads) sigrok-cli turns into a session, as a process with limits.

A capture may come from anybody: every size is limited before it is believed, nothing is unpacked as
a whole, and what is refused is refused in one line.
"""

from __future__ import annotations

import configparser
import contextlib
import math
import os
import re
import resource
import shutil
import stat
import subprocess
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from rtgauge.capture.edges import Edges, Schmitt, logic_edges, state_levels
from rtgauge.errors import RtgaugeError, UsageError, nearest

__all__ = ["Lines", "Recording", "Waves", "is_capture", "open_recording", "opened"]

FILE_LIMIT: Final = 1 << 36
SAMPLE_LIMIT: Final = 1 << 34
"""So many samples of the lines are read: 3 h at 1.5 MHz."""
EDGE_LIMIT: Final = 40_000_000
MEMBER_LIMIT: Final = 65_000
DIRECTORY_LIMIT: Final = 1 << 24
INI_LIMIT: Final = 1 << 16
CHANNEL_LIMIT: Final = 1024
NAME_LIMIT: Final = 200
HEAD: Final = 1 << 16
CHUNK: Final = 1 << 20
ANALOGUE_CHUNK: Final = 1 << 18
ROOM: Final = 1 << 26
"""So many bytes stay free where temporary files are."""

CONVERT_S: Final = 600.0
CONVERT_SAMPLES: Final = 1_000_000_000
"""A VCD file is sampled for sigrok: at most so often, else coarser than its time unit."""

REMEDY: Final = "name a capture that sigrok-cli, PulseView or an oscilloscope saved"
PACKAGE: Final = "install it (Debian: apt install sigrok-cli), or save the capture as .sr or .csv"


@dataclass(frozen=True, eq=False)
class Waves:
    """The samples of two analogue lines, in a file beside: event and answer."""

    event: NDArray[np.float32]
    answer: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Lines:
    """The two lines of a capture. ``rate``: samples in a second, the unit of the positions.

    ``error``: by so many samples a position can be wrong; ``threshold`` and ``hysteresis`` in V, of
    event and answer, where the lines are analogue; ``waves`` then holds them.
    """

    event: Edges
    answer: Edges
    rate: Fraction
    length: int
    error: float
    threshold: tuple[float, float] | None = None
    hysteresis: tuple[float, float] | None = None
    waves: Waves | None = None


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
        """The channel that an option names; UsageError where there is none."""
        listed = ", ".join(self.channels[:20]) + (", …" if len(self.channels) > 20 else "")
        if name is None:
            raise UsageError(
                f"this is a capture: which of its channels has the {option}s?",
                f"add --{option} CHANNEL; it has: {listed}",
            )
        if name in self.channels:
            return name
        folded = [one for one in self.channels if one.casefold() == name.casefold()]
        if len(folded) == 1:
            return folded[0]
        raise UsageError(f"the capture has no channel '{name}'", nearest(name, self.channels))


def _refuse(why: str, remedy: str = REMEDY) -> NoReturn:
    raise UsageError(f"the capture is refused: {why}", remedy)


# --- which file it is ----------------------------------------------------------------------------


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
            raise UsageError(f"{path} is no file", REMEDY)
        if found.st_size > FILE_LIMIT:
            _refuse(f"it has {found.st_size} bytes; at most {FILE_LIMIT} are read")
        yield file


def _kind(head: bytes) -> str:
    """What a file is that begins so: session, vcd, csv, bundle (of a run), or other."""
    if head.startswith(b"PK\x03\x04"):
        return "session"
    if head[257:262] == b"ustar":
        return "bundle"
    if b"\0" in head:
        return "other"
    if re.search(rb"\$(timescale|enddefinitions|var)\b", head):
        return "vcd"
    lines = head.decode("utf-8", "replace").splitlines()
    if _first_row(lines[:-1] if len(head) == HEAD else lines) is not None:
        return "csv"
    return "other"


def is_capture(path: Path) -> bool:
    """Whether the file is a capture, as far as its beginning tells; a file that cannot be read is
    none."""
    try:
        with opened(path) as file:
            return _kind(file.read(HEAD)) in ("session", "vcd", "csv")
    except UsageError:
        return False


@contextlib.contextmanager
def open_recording(path: Path, samplerate: Fraction | None = None) -> Iterator[Recording]:
    """Open a capture; ``samplerate`` where the file does not say. UsageError when it is none."""
    with (
        tempfile.TemporaryDirectory(prefix="rtgauge-capture.") as name,
        opened(path) as file,
    ):
        folder = Path(name)
        head = file.read(HEAD)
        kind = _kind(head)
        file.seek(0)
        try:
            if kind == "session":
                yield _session(file, folder, samplerate, "sigrok session")
            elif kind == "csv":
                yield _table(path, head, folder, samplerate)
            elif kind == "bundle" or not head:
                _refuse("it is no capture")
            else:
                made, note = _converted(path, file, head, kind, folder)
                with open(made, "rb") as session:
                    yield _session(session, folder, samplerate, kind.upper(), note)
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            NotImplementedError,
            configparser.Error,
            UnicodeDecodeError,
        ) as error:
            _refuse(f"it is damaged ({_one_line(error)})", "save it again")
        except OverflowError:
            _refuse(
                f"its lines have more than {EDGE_LIMIT} edges",
                "record the lines without noise: set the instrument's threshold, or --threshold",
            )
        except OSError as error:
            raise RtgaugeError(
                f"the capture cannot be read: {_one_line(error)}", "free some space below /tmp"
            ) from error


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


# --- sigrok sessions -----------------------------------------------------------------------------

_UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def parse_rate(text: str) -> Fraction:
    """Samples in a second, from text as '24 MHz' or '1000000'; ValueError."""
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,15})?)\s*([kmgt]?)(?:hz)?\s*", text, re.IGNORECASE)
    rate = Fraction(found[1]) * _UNITS[found[2].lower()] if found else Fraction(0)
    if not 0 < rate <= 10**13:
        raise ValueError(text)
    return rate


def _directory(file: IO[bytes]) -> None:
    """Look at how much the archive lists before Python's reader keeps all of it."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - HEAD - 22, 0))
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) < at + 22:
        _refuse("it is cut: the archive has no end", "save it again")
    members = int.from_bytes(tail[at + 10 : at + 12], "little")
    listed = int.from_bytes(tail[at + 12 : at + 16], "little")
    if members > MEMBER_LIMIT or listed > DIRECTORY_LIMIT:
        _refuse(f"it lists {members} parts in {listed} bytes")
    file.seek(0)


def _session(
    file: IO[bytes], folder: Path, samplerate: Fraction | None, kind: str, note: str = ""
) -> Recording:
    _directory(file)
    archive = zipfile.ZipFile(file)
    names = set(archive.namelist())
    if not {"version", "metadata"} <= names:
        _refuse("it is an archive, but no session of sigrok")
    version = _member(archive, "version", 64).strip()
    if version not in (b"1", b"2"):
        _refuse(f"it is of session format {version[:20]!r}; 1 and 2 are known")
    ini = configparser.ConfigParser(interpolation=None, strict=False)
    ini.read_string(_member(archive, "metadata", INI_LIMIT).decode("utf-8"))
    devices = [name for name in ini.sections() if name.startswith("device ")]
    if not devices:
        _refuse("it names no instrument")
    device = ini[devices[0]]
    version_text = ini.get("global", "sigrok version", fallback="")
    try:
        rate = parse_rate(device["samplerate"]) if "samplerate" in device else samplerate
        unit = int(device.get("unitsize", "1"))
        logic: dict[str, int] = {}
        analogue: dict[str, int] = {}
        for key, value in device.items():
            if found := re.fullmatch(r"(probe|analog)(\d{1,4})", key):
                (logic if found[1] == "probe" else analogue)[value] = int(found[2])
    except ValueError as error:
        _refuse(f"its description is wrong: {_one_line(error)}", "save it again")
    if not 1 <= unit <= 128 or len(logic) + len(analogue) > CHANNEL_LIMIT:
        _refuse("its description is wrong: more channels than there can be")
    if any(len(name) > NAME_LIMIT for name in (*logic, *analogue)):
        _refuse("its description is wrong: a channel has too long a name")
    if any(not 1 <= bit <= 8 * unit for bit in logic.values()):
        _refuse("its description is wrong: a channel lies outside of the samples")
    source = _Session(archive, device.get("capturefile", "logic-1"), unit, logic, analogue, folder)

    def lines(event: str, answer: str, levels: Levels) -> Lines:
        if rate is None:
            _refuse("it does not say how often it was sampled", "add --samplerate, such as 24MHz")
        if event in logic and answer in logic:
            first, second, length = logic_edges(source.logic(event, answer), EDGE_LIMIT)
            return Lines(first, second, rate, length, 1.0)
        waves = [source.wave(one) for one in (event, answer)]
        return _analogue(waves, rate, levels)

    instrument = f"sigrok {version_text}".strip()
    return Recording(kind, instrument, (*logic, *analogue), rate, note, lines)


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    with archive.open(name) as member:
        data = member.read(most + 1)
    if len(data) > most:
        _refuse(f"its part '{name}' is too large")
    return data


class _Session:
    """The samples of a session, as they lie in the archive."""

    def __init__(
        self,
        archive: zipfile.ZipFile,
        base: str,
        unit: int,
        logic: dict[str, int],
        analogue: dict[str, int],
        folder: Path,
    ) -> None:
        self._archive, self._base, self._unit = archive, base, unit
        self._logic, self._analogue, self._folder = logic, analogue, folder
        self._left = SAMPLE_LIMIT

    def _parts(self, base: str) -> Iterator[bytes]:
        """The bytes of the parts that begin so, in their order."""
        names = self._archive.namelist()
        numbered = {}
        for name in names:
            if found := re.fullmatch(re.escape(base) + r"(?:-(\d{1,9}))?", name):
                numbered[int(found[1] or 0)] = name
        for _, name in sorted(numbered.items()):
            info = self._archive.getinfo(name)
            if info.flag_bits & 1:
                _refuse("its parts are encrypted")
            with self._archive.open(info) as member:
                while data := member.read(CHUNK):
                    yield data

    def _whole(self, base: str, size: int) -> Iterator[bytes]:
        """The same in pieces of whole samples of ``size`` bytes."""
        rest = b""
        for part in self._parts(base):
            data = rest + part if rest else part
            kept = len(data) - len(data) % size
            rest = data[kept:]
            self._left -= kept // size
            if self._left < 0:
                _refuse(f"it has more than {SAMPLE_LIMIT} samples", "save a part of it")
            yield data[:kept]

    def logic(self, event: str, answer: str) -> Iterator[NDArray[np.uint8]]:
        """Bit 0 of each sample: the event's line, bit 1: the answer's."""
        bits = [self._logic[name] - 1 for name in (event, answer)]
        places = [(bit // 8, np.uint8(1 << bit % 8)) for bit in bits]
        for data in self._whole(self._base, self._unit):
            raw = np.frombuffer(data, np.uint8)
            if self._unit == 1 and bits == [0, 1]:
                yield raw & np.uint8(3)
                continue
            first, second = ((raw[byte :: self._unit] & mask) != 0 for byte, mask in places)
            yield first.view(np.uint8) | (second.view(np.uint8) << np.uint8(1))

    def wave(self, name: str) -> NDArray[np.float32]:
        """A channel's samples in V (a digital one's as 0 and 1), in a file of their own."""
        store = _Floats(self._folder)
        if name in self._analogue:
            for data in self._whole(f"analog-1-{self._analogue[name]}", 4):
                store.add(np.frombuffer(data, "<f4"))
        else:
            for lines in self.logic(name, name):
                store.add((lines & np.uint8(1)).astype(np.float32))
        return store.array()


class _Floats:
    """Numbers that are collected in a file, and read from there."""

    def __init__(self, folder: Path, kind: type[np.floating[Any]] = np.float32) -> None:
        self._kind = kind
        descriptor, self._path = tempfile.mkstemp(dir=folder)
        os.close(descriptor)
        self._many = 0

    def add(self, values: NDArray[np.floating]) -> None:
        self._many += len(values)
        if self._many >> 22 != (self._many - len(values)) >> 22:
            free = os.statvfs(self._path)
            if free.f_bavail * free.f_frsize < ROOM:
                raise OSError("the disk for temporary files is full")
        with open(self._path, "ab", buffering=0) as file:
            view = memoryview(np.ascontiguousarray(values, self._kind).tobytes())
            while view:
                view = view[file.write(view) :]

    def array(self) -> NDArray[Any]:
        if not self._many:
            return np.zeros(0, self._kind)
        return np.memmap(self._path, self._kind, "r")


# --- analogue lines ------------------------------------------------------------------------------


def _pieces(wave: NDArray[np.floating]) -> Iterator[NDArray[np.floating]]:
    for start in range(0, len(wave), ANALOGUE_CHUNK):
        yield wave[start : start + ANALOGUE_CHUNK]


def _analogue(waves: Sequence[NDArray[np.floating]], rate: Fraction, levels: Levels) -> Lines:
    """Edges of lines that were sampled as voltages."""
    length = min(len(wave) for wave in waves)
    if length < 2:
        _refuse("a line has no samples")
    edges, thresholds, widths = [], [], []
    for wave in waves:
        threshold, hysteresis = _levels(wave[:length], levels)
        schmitt = Schmitt(threshold, hysteresis)
        for piece in _pieces(wave[:length]):
            schmitt.feed(piece)
            if schmitt.count > EDGE_LIMIT:
                raise OverflowError
        edges.append(schmitt.edges())
        thresholds.append(threshold)
        widths.append(hysteresis)
    return Lines(
        edges[0],
        edges[1],
        rate,
        length,
        1.0,
        (thresholds[0], thresholds[1]),
        (widths[0], widths[1]),
        Waves(waves[0][:length], waves[1][:length]),
    )


def _levels(wave: NDArray[np.floating], levels: Levels) -> tuple[float, float]:
    """Threshold and hysteresis: as asked, else the middle between the line's two states and a fifth
    of their distance."""
    least, most = math.inf, -math.inf
    for piece in _pieces(wave):
        finite = piece[np.isfinite(piece)]
        if len(finite):
            least, most = min(least, float(finite.min())), max(most, float(finite.max()))
    if not least <= most:
        _refuse("a line has no samples that are numbers")
    finite_pieces = (piece[np.isfinite(piece)] for piece in _pieces(wave))
    low, high = state_levels(finite_pieces, least, most)
    threshold = (low + high) / 2 if levels.threshold is None else levels.threshold
    hysteresis = (high - low) / 5 if levels.hysteresis is None else levels.hysteresis
    return threshold, hysteresis


# --- CSV -----------------------------------------------------------------------------------------

_NUMBER: Final = re.compile(r"[ \t]*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[ \t]*")
_TIME: Final = re.compile(
    r"(?:time|second|seconds|t|x|x-axis|source|timestamp)\b.*|in s\b.*|.*\[s\]|.*\(s\)|.* in s",
    re.IGNORECASE,
)
_INTERVAL: Final = re.compile(
    r"(?:sample|sampling)[ _]?(?:interval|period)|increment|tinc|x[ _-]?increment|delta[ _]?t"
    r"|horizontal[ _]interval|x[ _]?inc",
    re.IGNORECASE,
)
_RATE: Final = re.compile(r"(?:sample|sampling)[ _]?(?:rate|frequency)|samplerate", re.IGNORECASE)
_SEPARATORS: Final = (",", ";", "\t")


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
    """How many numbers the line holds, 0 where something else stands in it besides; empty fields
    at its end do not count."""
    fields = _fields(line, separator)
    while fields and not fields[-1]:
        fields.pop()
    texts = [field.replace(",", ".") for field in fields] if comma else fields
    return len(texts) if texts and all(_NUMBER.fullmatch(text) for text in texts) else 0


def _first_row(lines: Sequence[str]) -> _Layout | None:
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
    # The last line that names all columns; one of units below it names nobody.
    filled = len([field for field in _fields(first, layout.separator) if field])
    chosen: list[str] | None = None
    for row in rows:
        fields = row[:filled]
        some = len(fields) == filled and all(fields) and not fields[0].startswith((";", "#"))
        plain = not any(_NUMBER.fullmatch(field) for field in fields)
        if some and not _units(fields) and (plain or _TIME.fullmatch(fields[0])):
            chosen = fields
    if comment and len(comment[0]) in (layout.columns, layout.columns - 1):
        chosen = [""] * (layout.columns - len(comment[0])) + comment[0]
    fields = (chosen or [])[: layout.columns] + [""] * layout.columns
    names: list[str] = []
    for at in range(layout.columns):
        name = fields[at] or str(at + 1)
        names.append(name if name not in names else f"{name} ({at + 1})")
    return names


def _units(row: Sequence[str]) -> bool:
    """Whether a line holds units, or what kind a column is, and no names."""
    words = {"", "s", "v", "volt", "volts", "second", "seconds", "a", "logic", "analog", "sequence"}
    return all(field.strip("()[]").casefold() in words for field in row)


def _stated(preamble: Sequence[str], layout: _Layout, wanted: re.Pattern[str]) -> Fraction | None:
    """The number that stands beside, behind or below a word of the preamble."""
    rows = [re.split(r"[,;\t:]", line.strip().lstrip(";# ")) for line in preamble]
    columns = [_fields(line, layout.separator) for line in preamble]
    for at, row in enumerate(rows):
        for place, field in enumerate(row):
            if not wanted.match(field.strip().strip('"')):
                continue
            beside = [part.strip().strip('"') for part in row[place + 1 :]]
            for text in beside:
                if (found := _quantity(text)) is not None:
                    return found
            cells = columns[at]
            column = next((c for c, cell in enumerate(cells) if wanted.match(cell)), -1)
            if column >= 0 and at + 1 < len(columns) and column < len(columns[at + 1]):
                return _quantity(columns[at + 1][column])
    return None


def _quantity(text: str) -> Fraction | None:
    """A positive number, with its unit where it has one, in s or Hz."""
    found = re.fullmatch(
        r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?)\s*"
        r"(p|n|u|µ|m|k|K|M|G)?(?:s|S|Hz|hz|HZ|Sa/s|sps|Second|seconds)?",
        text,
    )
    if not found or len(found[1]) > 40:
        return None
    scale = {"p": -12, "n": -9, "u": -6, "µ": -6, "m": -3, "k": 3, "K": 3, "M": 6, "G": 9}
    value = Fraction(found[1]) * Fraction(10) ** scale.get(found[2] or "", 0)
    return value if 0 < value < 10**15 else None


def _table(path: Path, head: bytes, folder: Path, samplerate: Fraction | None) -> Recording:
    lines = head.decode("utf-8-sig", "replace").splitlines()
    layout = _first_row(lines[:-1] if len(head) == HEAD else lines)
    if layout is None:
        _refuse("it holds no rows of numbers")
    preamble = lines[: layout.skip]
    names = _names(preamble, lines[layout.skip], layout)
    timed = 0 if _TIME.fullmatch(names[0]) else None
    interval = _stated(preamble, layout, _INTERVAL)
    stated = _stated(preamble, layout, _RATE)
    rate = samplerate or (1 / interval if interval else stated)
    channels = names[1:] if timed == 0 else names

    def read(event: str, answer: str, levels: Levels) -> Lines:
        wanted = [names.index(event), names.index(answer)]
        # Rigol's counts rows in the first column: then the preamble says how far they are apart.
        if timed is None or (re.fullmatch(r"x", names[0], re.IGNORECASE) and interval):
            waves = _columns(path, layout, wanted, folder)
            if rate is None:
                _refuse(
                    "it says neither when nor how often it was sampled",
                    "add --samplerate, such as 24MHz",
                )
            return _analogue([wave.array() for wave in waves], rate, levels)
        columns = _columns(path, layout, [timed, *wanted], folder)
        time, first, second = (one.array() for one in columns)
        return _timed(time, [first, second], samplerate, levels)

    instrument = next(
        (
            text
            for line in preamble
            if (
                found := re.match(
                    r"\W*(?:model|instrument|scope|device)\w*\W+([\w .+-]{2,60})",
                    line,
                    re.IGNORECASE,
                )
            )
            and (text := found[1].strip())
        ),
        "sigrok" if any("libsigrok" in line for line in preamble) else "",
    )
    return Recording("CSV", instrument, tuple(channels), rate, "", read)


def _columns(path: Path, layout: _Layout, wanted: Sequence[int], folder: Path) -> list[_Floats]:
    """The columns as numbers, the first as 64-bit ones (it may be the time)."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv  # noqa: PLC0415

    names = [f"c{at}" for at in range(layout.columns)]
    stores = [
        _Floats(folder, np.float64 if at == 0 and len(wanted) == 3 else np.float32)
        for at in range(len(wanted))
    ]
    try:
        reader = csv.open_csv(
            path,
            read_options=csv.ReadOptions(
                skip_rows=layout.skip, column_names=names, block_size=1 << 22
            ),
            parse_options=csv.ParseOptions(
                delimiter=layout.separator, invalid_row_handler=lambda _: "skip"
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.float64()),
                include_columns=list(dict.fromkeys(names[at] for at in wanted)),
                decimal_point="," if layout.comma else ".",
            ),
        )
        for batch in reader:
            for store, at in zip(stores, wanted, strict=True):
                store.add(batch.column(names[at]).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid as error:
        _refuse(f"a row is not of numbers ({_one_line(error)})", "save it again")
    return stores


def _timed(
    time: NDArray[np.float64],
    waves: Sequence[NDArray[np.floating]],
    samplerate: Fraction | None,
    levels: Levels,
) -> Lines:
    """Lines with the time of each row: evenly apart, or a row wherever a line changed."""
    many = len(time)
    if many < 2:
        _refuse("it has hardly any rows")
    length = float(time[-1]) - float(time[0])
    if not (math.isfinite(length) and length > 0):
        _refuse("its times do not rise")
    step = length / (many - 1)
    even, last = True, -math.inf
    for start in range(0, many, ANALOGUE_CHUNK):
        piece = np.asarray(time[start : start + ANALOGUE_CHUNK])
        if not np.isfinite(piece).all() or piece[0] < last or bool((np.diff(piece) < 0).any()):
            _refuse("its times do not rise")
        last = float(piece[-1])
        due = time[0] + step * np.arange(start, start + len(piece))
        even = even and bool((np.abs(piece - due) <= 2 * step).all())
    if even:
        rate = samplerate or Fraction(1 / step).limit_denominator(10**6)
        near = Fraction(round(rate))
        # Printed times are rounded: what is within 1e-7 of a whole number is that.
        if near and abs(rate - near) <= near * Fraction(1, 10**7):
            rate = near
        return _analogue(waves, rate, levels)
    if many > EDGE_LIMIT:
        raise OverflowError
    edges = []
    origin = float(time[0])
    at = (np.asarray(time) - origin) * 1e9
    for wave in waves:
        threshold, _ = _levels(wave, levels)
        high = np.asarray(wave) > threshold
        moved = np.flatnonzero(high[1:] != high[:-1]) + 1
        edges.append(Edges(at[moved], high[moved]))
    return Lines(edges[0], edges[1], Fraction(10**9), round(float(at[-1])), 1.0)


# --- what sigrok-cli reads -----------------------------------------------------------------------

_SCALES: Final = {"s": 0, "ms": -3, "us": -6, "ns": -9, "ps": -12, "fs": -15}


def _downsample(file: IO[bytes], head: bytes) -> tuple[int, str]:
    """By how much a VCD file has to be sampled more coarsely than in its time unit, and what to
    say of it."""
    begin = re.search(rb"^#(\d{1,18})", head, re.MULTILINE)
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - HEAD, 0))
    ends = re.findall(rb"^#(\d{1,18})\b", file.read(HEAD), re.MULTILINE)
    scale = re.search(rb"\$timescale\s+(\d{1,3})\s*([munpf]?s)\s+\$end", head)
    if not begin or not ends or not scale:
        return 1, ""
    span = int(ends[-1]) - int(begin[1])
    factor = max(1, -(-span // CONVERT_SAMPLES))
    if factor == 1:
        return 1, ""
    unit = Fraction(int(scale[1])) * Fraction(10) ** _SCALES[scale[2].decode()]
    return factor, (
        f"read in steps of {float(unit * factor * 10**9):g} ns: in its own time unit it is too long"
    )


def _converted(
    path: Path, file: IO[bytes], head: bytes, kind: str, folder: Path
) -> tuple[Path, str]:
    """The capture as a session, made by sigrok-cli."""
    program = shutil.which("sigrok-cli")
    if program is None:
        raise RtgaugeError(f"reading {path.name} needs sigrok-cli, which is not here", PACKAGE)
    made, note = folder / "converted.sr", ""
    words = [program, "-i", str(path.absolute()), "-O", "srzip", "-o", str(made)]
    if kind == "vcd":
        factor, note = _downsample(file, head)
        words[3:3] = ["-I", f"vcd:downsample={factor}" if factor > 1 else "vcd"]
    free = os.statvfs(folder)
    room = max(min(free.f_bavail * free.f_frsize - ROOM, 1 << 33), 1 << 20)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))
        resource.setrlimit(resource.RLIMIT_CPU, (int(CONVERT_S), int(CONVERT_S)))

    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
            timeout=CONVERT_S,
            check=False,
            preexec_fn=limited,
        )
    except subprocess.TimeoutExpired:
        _refuse(f"sigrok-cli did not read it in {CONVERT_S:.0f} s", "save a part of it")
    said = [line for line in done.stderr[:4096].decode("utf-8", "replace").splitlines() if line]
    if done.returncode != 0 or not made.is_file():
        _refuse(f"sigrok-cli cannot read it: {_one_line(said[-1] if said else 'it says no more')}")
    return made, note
