# SPDX-License-Identifier: Apache-2.0
"""The stream: reading what an agent writes, and encoding records as it would.

Step 7 of the path of a sample: the bytes that the agent's draining thread wrote arrive here, as
they come from the pipe, and leave as ``Samples`` whose values still lie in the bytes received,
beside the store (``rtgauge.store``), which appends those bytes to the run's folder.

The format is docs/stream.md; nothing here goes beyond that page. A stream may come over a bad
line, from a crashed system or from somebody who means harm. So the reader takes no general CBOR
decoder but one that knows the page's subset only (about a hundred lines, below): its time is
linear in the bytes fed, its memory a small multiple of one record, and at the first record that is
not as the page says it stops for good, keeping what came before.

    reader = StreamReader()
    while data := source.read(65536):
        for record in reader.feed(data):
            ...
    end = reader.finish()       # complete? what was dropped, and why
"""

from __future__ import annotations

import enum
import re
import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from rtgauge.errors import StreamError

__all__ = [
    "BODY_LIMIT",
    "FORMAT",
    "SERIES_LIMIT",
    "VERSION",
    "Clock",
    "ClockReading",
    "Column",
    "Counter",
    "Environment",
    "Event",
    "Header",
    "Histogram",
    "Parameter",
    "Record",
    "RecordType",
    "Samples",
    "SeriesInfo",
    "SeriesTotals",
    "Setting",
    "Span",
    "StreamEnd",
    "StreamReader",
    "Table",
    "Trailer",
    "Verdict",
    "Work",
    "encode_record",
    "read_stream",
]

FORMAT = "rtgauge-stream"
VERSION = 1
BODY_LIMIT = 65536
SERIES_LIMIT = 100_000
DEPTH_LIMIT = 8
SUB_BITS = 7
READ_SIZE = 1 << 20

_INT64_MAX = 2**63 - 1
_INT64_MIN = -(2**63)
# The highest bucket is that of the largest 64-bit value: its highest set bit is 62.
_BUCKET_MAX = (62 - SUB_BITS) * (1 << SUB_BITS) + (1 << (SUB_BITS + 1)) - 1
_BUCKET_MIN = -1 - _BUCKET_MAX


class RecordType(enum.IntEnum):
    """The types of records; a reader skips numbers that are not among them."""

    HEADER = 0
    ENVIRONMENT = 1
    SETTING = 2
    SERIES = 3
    SAMPLES = 4
    HISTOGRAM = 5
    EVENT = 6
    CLOCK = 7
    WORK = 8
    TABLE = 9
    VERDICT = 10
    TRAILER = 11


# --- the records --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the measurement, in the notation of the command line."""

    asked: str | None
    effective: str


@dataclass(frozen=True, slots=True)
class Counter:
    """The CPU's cycle counter: ``none`` and 0 where none can be read."""

    name: str
    hz: int


@dataclass(frozen=True, slots=True)
class ClockReading:
    """One reading of the three clocks together, in ns."""

    monotonic_ns: int
    boottime_ns: int
    realtime_ns: int


@dataclass(frozen=True, slots=True)
class Header:
    """What the stream is of; its first record."""

    sequence: int
    agent: str
    libc: str
    compiler: str
    machine: str
    run: str
    step: int
    measurement: str
    parameters: Mapping[str, Parameter]
    load: str
    boot_id: str
    privileged: bool
    counter: Counter
    clock: ClockReading
    start_ns: int


Fact: TypeAlias = str | int | bytes | None


@dataclass(frozen=True, slots=True)
class Environment:
    """Facts of the target at the start of the step; None: could not be read."""

    sequence: int
    facts: Mapping[str, Fact]


@dataclass(frozen=True, slots=True)
class Setting:
    """A system setting that was to be changed for the step, and what became of it."""

    sequence: int
    name: str
    asked: str
    before: str | None
    effective: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class SeriesInfo:
    """The declaration of a series. A sample times ``scale`` is the value in ``unit``."""

    sequence: int
    series: int
    name: str
    context: str
    cpu: int
    thread: int
    policy: str
    priority: int
    labels: Mapping[str, str]
    unit: str
    scale: int
    interval_ns: int
    companion: int | None
    histogram_only: bool


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """A block of consecutive samples; sample k has the index ``index + k``.

    ``values`` is read-only and lies in the bytes that were fed: whoever keeps it keeps those.
    ``position`` is where the first sample's bytes stand in the stream.
    """

    sequence: int
    series: int
    index: int
    due_ns: int
    values: NDArray[np.int32]
    position: int = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """A snapshot of all samples of a series since its start.

    ``buckets`` has one row (number, count) for each occupied bucket, by rising number.
    """

    sequence: int
    series: int
    count: int
    min: int
    max: int
    sum: int
    missed: int
    lost: int
    overruns: int
    sub_bits: int
    buckets: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at ``time_ns`` from the start of the step.

    ``fields`` has the event's other keys (``index``, ``value``, ``count``, …), of simple types.
    """

    sequence: int
    event: str
    time_ns: int
    series: int | None
    fields: Mapping[str, Fact]


@dataclass(frozen=True, slots=True)
class Clock:
    """The three clocks read together again, in ns."""

    sequence: int
    monotonic_ns: int
    boottime_ns: int
    realtime_ns: int


@dataclass(frozen=True, slots=True)
class Work:
    """Work that a load did in a span of time."""

    sequence: int
    load: str
    unit: str
    count: int
    from_ns: int
    to_ns: int


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; ``unit`` is empty for none."""

    name: str
    unit: str


@dataclass(frozen=True, slots=True)
class Table:
    """A result in rows and columns."""

    sequence: int
    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[int | str, ...], ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A rule that held or did not."""

    sequence: int
    rule: str
    result: str
    evidence: str
    remedy: str


@dataclass(frozen=True, slots=True)
class SeriesTotals:
    """What became of a series: ``count`` samples were taken, ``lost`` of them not kept."""

    series: int
    count: int
    missed: int
    lost: int
    overruns: int
    first_due_ns: int
    last_due_ns: int


@dataclass(frozen=True, slots=True)
class Trailer:
    """The last record of a stream that ended in order."""

    sequence: int
    state: str
    reason: str
    remedy: str
    duration_ns: int
    records: int
    series: tuple[SeriesTotals, ...]
    cpu_ns: int


Record: TypeAlias = (
    Header
    | Environment
    | Setting
    | SeriesInfo
    | Samples
    | Histogram
    | Event
    | Clock
    | Work
    | Table
    | Verdict
    | Trailer
)


class Span(NamedTuple):
    """An accepted record and where it stands in the stream: bytes ``start`` to ``stop``.

    ``record`` is None for a type that this reader does not know.
    """

    record: Record | None
    type: int
    sequence: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """How a stream ended.

    ``complete``: its trailer was read. ``records``: how many were accepted. ``dropped_bytes``: what
    followed the last good record; ``cut``: they are the beginning of one. ``lost_records``: how
    many are missing between the good ones. ``reason``: one line; empty when nothing is missing.
    """

    complete: bool
    records: int
    dropped_bytes: int
    lost_records: int
    reason: str
    cut: bool = False


# --- bodies: the page's subset of CBOR, and nothing else ----------------------------------------


class _Bad(Exception):
    """A record that is not as docs/stream.md says; ends the stream."""


class _Typed(NamedTuple):
    """The content of a tag 78: where it stands in the data."""

    start: int
    stop: int


_Value: TypeAlias = "int | str | bytes | bool | _Typed | list[_Value] | dict[str, _Value] | None"

_WIDTHS = {24: 1, 25: 2, 26: 4, 27: 8}
_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG = range(7)
_SIMPLE: dict[int, bool | None] = {0xF4: False, 0xF5: True, 0xF6: None}
_TYPED_INT32LE = 78


def _argument(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """The argument of the item at ``at``, and where what follows it begins."""
    low = data[at] & 31
    if low < 24:
        return low, at + 1
    width = _WIDTHS.get(low)
    if width is None:
        raise _Bad("an item is of indefinite length or not CBOR")
    end = at + 1 + width
    if end > stop:
        raise _Bad("the body ends inside an item")
    return int.from_bytes(data[at + 1 : end], "big"), end


def _decode(data: bytes, at: int, stop: int, depth: int) -> tuple[_Value, int]:
    """Decode the item at ``at``; gives it and where it ends. Lengths are believed only as far as
    bytes are there, so that nothing grows beyond a small multiple of the body."""
    if at >= stop:
        raise _Bad("the body ends where an item should begin")
    first = data[at]
    if first < 24:
        return first, at + 1
    if first in _SIMPLE:
        return _SIMPLE[first], at + 1
    major = first >> 5
    if major > _TAG:
        raise _Bad("a value is a floating-point number or no simple value of a stream")
    value, at = _argument(data, at, stop)
    if major in (_UNSIGNED, _NEGATIVE):
        if value > _INT64_MAX:
            raise _Bad("an integer has more than 64 bits")
        return (value if major == _UNSIGNED else -1 - value), at
    if major in (_BYTES, _TEXT):
        if value > stop - at:
            raise _Bad("a string is longer than the body")
        chunk = data[at : at + value]
        if major == _BYTES:
            return chunk, at + value
        try:
            return chunk.decode(), at + value
        except UnicodeDecodeError:
            raise _Bad("a text is not UTF-8") from None
    if major == _ARRAY:
        return _decode_array(data, at, stop, depth, value)
    if major == _MAP:
        return _decode_map(data, at, stop, depth, value)
    return _decode_typed(data, at, stop, value)


def _decode_array(data: bytes, at: int, stop: int, depth: int, count: int) -> tuple[_Value, int]:
    if depth >= DEPTH_LIMIT:
        raise _Bad(f"maps and arrays nest deeper than {DEPTH_LIMIT}")
    if count > stop - at:
        raise _Bad("an array is longer than the body")
    items: list[_Value] = []
    append = items.append
    for _ in range(count):
        # Small integers by the short way: the buckets of a histogram are thousands of them.
        first = data[at] if at < stop else -1
        if 0 <= first < 24:
            append(first)
            at += 1
        elif first == 0x18 and at + 2 <= stop:
            append(data[at + 1])
            at += 2
        elif first == 0x19 and at + 3 <= stop:
            append(data[at + 1] << 8 | data[at + 2])
            at += 3
        else:
            item, at = _decode(data, at, stop, depth + 1)
            append(item)
    return items, at


def _decode_map(
    data: bytes, at: int, stop: int, depth: int, count: int
) -> tuple[dict[str, _Value], int]:
    if depth >= DEPTH_LIMIT:
        raise _Bad(f"maps and arrays nest deeper than {DEPTH_LIMIT}")
    if count > (stop - at) // 2:
        raise _Bad("a map is longer than the body")
    pairs: dict[str, _Value] = {}
    for _ in range(count):
        if at >= stop or data[at] >> 5 != _TEXT:
            raise _Bad("a map has a key that is not text")
        key, at = _decode(data, at, stop, depth)
        value, at = _decode(data, at, stop, depth + 1)
        if key in pairs:
            raise _Bad("a map has a key twice")
        pairs[cast(str, key)] = value
    return pairs, at


def _decode_typed(data: bytes, at: int, stop: int, tag: int) -> tuple[_Value, int]:
    if tag != _TYPED_INT32LE:
        raise _Bad(f"a value has the tag {tag}")
    if at >= stop or data[at] >> 5 != _BYTES:
        raise _Bad("tag 78 is not on a byte string")
    size, at = _argument(data, at, stop)
    if size > stop - at:
        raise _Bad("a string is longer than the body")
    if size % 4:
        raise _Bad("the bytes of samples are not a multiple of 4")
    return _Typed(at, at + size), at + size


def _decode_body(data: bytes, start: int, stop: int) -> dict[str, _Value]:
    if start >= stop or data[start] >> 5 != _MAP:
        raise _Bad("the body is not a map")
    count, at = _argument(data, start, stop)
    body, at = _decode_map(data, at, stop, 0, count)
    if at != stop:
        raise _Bad("the body goes on after its map")
    return body


# --- from bodies to records: each key looked at -------------------------------------------------


class _Body:
    """Takes keys out of a decoded map, each with its type."""

    __slots__ = ("pairs", "what")

    def __init__(self, pairs: dict[str, _Value], what: str = "") -> None:
        self.pairs = pairs
        self.what = what

    def _bad(self, key: str, kind: str) -> _Bad:
        name = f"{self.what}{key}"
        if key not in self.pairs:
            return _Bad(f"the key '{name}' is missing")
        return _Bad(f"'{name}' is not {kind}")

    def integer(self, key: str, low: int = _INT64_MIN) -> int:
        value = self.pairs.get(key)
        if type(value) is not int:
            raise self._bad(key, "an integer")
        if value < low:
            raise _Bad(f"'{self.what}{key}' is {value}, below {low}")
        return value

    def text(self, key: str) -> str:
        value = self.pairs.get(key)
        if type(value) is not str:
            raise self._bad(key, "text")
        return value

    def text_or_null(self, key: str) -> str | None:
        value = self.pairs.get(key, False)
        if value is not None and type(value) is not str:
            raise self._bad(key, "text or null")
        return value

    def choice(self, key: str, choices: Sequence[str]) -> str:
        value = self.text(key)
        if value not in choices:
            raise self._bad(key, "one of " + ", ".join(choices))
        return value

    def boolean(self, key: str) -> bool:
        value = self.pairs.get(key)
        if type(value) is not bool:
            raise self._bad(key, "a boolean")
        return value

    def map(self, key: str) -> dict[str, _Value]:
        value = self.pairs.get(key)
        if type(value) is not dict:
            raise self._bad(key, "a map")
        return value

    def inner(self, key: str) -> _Body:
        return _Body(self.map(key), f"{self.what}{key}.")

    def array(self, key: str) -> list[_Value]:
        value = self.pairs.get(key)
        if type(value) is not list:
            raise self._bad(key, "an array")
        return value

    def bodies(self, key: str) -> Iterator[_Body]:
        for number, value in enumerate(self.array(key)):
            if type(value) is not dict:
                raise _Bad(f"'{self.what}{key}' has an item that is not a map")
            yield _Body(value, f"{self.what}{key}[{number}].")


class _Declared:
    """What the reader keeps of a series: whether the next block may come."""

    __slots__ = ("interval_ns", "next_index")

    def __init__(self, interval_ns: int) -> None:
        self.interval_ns = interval_ns
        self.next_index = 0


_Series: TypeAlias = dict[int, _Declared]

_STATES = ("complete", "interrupted", "failed", "skipped")
_RESULTS = ("pass", "fail", "inconclusive", "skipped")
# The further keys of the known events: name → lowest value of an integer, or None for text.
_EVENT_KEYS: dict[str, dict[str, int | None]] = {
    "maximum": {"series": 0, "index": 0, "value": _INT64_MIN},
    "missed": {"series": 0, "index": -1, "count": 0},
    "lost": {"series": 0, "index": 0, "count": 0, "max": _INT64_MIN},
    "wide": {"series": 0, "index": 0, "value": _INT64_MIN},
    "setting": {"name": None, "expected": None, "found": None},
    "threshold": {"series": 0, "index": 0, "value": _INT64_MIN},
    "load": {"load": None, "message": None},
}
_SIMPLE_TYPES = (int, str, bytes, bool, type(None))


def _declared(body: _Body, series: _Series) -> int:
    number = body.integer("series", 0)
    if number not in series:
        raise _Bad(f"series {number} was not declared")
    return number


def _clock_reading(body: _Body) -> tuple[int, int, int]:
    return (
        body.integer("monotonic_ns"),
        body.integer("boottime_ns"),
        body.integer("realtime_ns"),
    )


def _header(sequence: int, body: _Body, _series: _Series) -> Header:
    parameters = {}
    for name, value in body.map("parameters").items():
        if type(value) is not dict:
            raise _Bad(f"'parameters.{name}' is not a map")
        inner = _Body(value, f"parameters.{name}.")
        parameters[name] = Parameter(inner.text_or_null("asked"), inner.text("effective"))
    counter = body.inner("counter")
    return Header(
        sequence=sequence,
        agent=body.text("agent"),
        libc=body.text("libc"),
        compiler=body.text("compiler"),
        machine=body.text("machine"),
        run=body.text("run"),
        step=body.integer("step", 0),
        measurement=body.text("measurement"),
        parameters=MappingProxyType(parameters),
        load=body.text("load"),
        boot_id=body.text("boot_id"),
        privileged=body.boolean("privileged"),
        counter=Counter(counter.text("name"), counter.integer("hz", 0)),
        clock=ClockReading(*_clock_reading(body.inner("clock"))),
        start_ns=body.integer("start_ns"),
    )


def _environment(sequence: int, body: _Body, _series: _Series) -> Environment:
    facts = body.map("facts")
    for name, value in facts.items():
        if type(value) not in (str, int, bytes, type(None)):
            raise _Bad(f"the fact '{name}' is not text, an integer, bytes or null")
    return Environment(sequence, MappingProxyType(cast("dict[str, Fact]", facts)))


def _setting(sequence: int, body: _Body, _series: _Series) -> Setting:
    return Setting(
        sequence,
        body.text("name"),
        body.text("asked"),
        body.text_or_null("before"),
        body.text_or_null("effective"),
        body.text("reason"),
    )


def _series_info(sequence: int, body: _Body, series: _Series) -> SeriesInfo:
    number = body.integer("series", 0)
    labels = body.map("labels")
    if any(type(value) is not str for value in labels.values()):
        raise _Bad("a label is not text")
    info = SeriesInfo(
        sequence=sequence,
        series=number,
        name=body.text("name"),
        context=body.text("context"),
        cpu=body.integer("cpu", -1),
        thread=body.integer("thread", -1),
        policy=body.text("policy"),
        priority=body.integer("priority"),
        labels=MappingProxyType(cast("dict[str, str]", labels)),
        unit=body.text("unit"),
        scale=body.integer("scale", 1) if "scale" in body.pairs else 1,
        interval_ns=body.integer("interval_ns", 0),
        companion=body.integer("companion", 0) if "companion" in body.pairs else None,
        histogram_only=body.boolean("histogram_only"),
    )
    if number in series:
        raise _Bad(f"series {number} is declared twice")
    if len(series) >= SERIES_LIMIT:
        raise _Bad(f"there are more than {SERIES_LIMIT} series")
    series[number] = _Declared(info.interval_ns)
    return info


def _histogram(sequence: int, body: _Body, series: _Series) -> Histogram:
    number = _declared(body, series)
    if body.integer("sub_bits") != SUB_BITS:
        raise _Bad(f"'sub_bits' is not {SUB_BITS}")
    flat = body.array("buckets")
    if len(flat) % 2 or not set(map(type, flat)) <= {int}:
        raise _Bad("'buckets' are not pairs of integers")
    buckets = np.array(flat, dtype=np.int64).reshape(-1, 2)
    numbers, counts = buckets[:, 0], buckets[:, 1]
    if len(buckets):
        if bool((numbers[1:] <= numbers[:-1]).any()):
            raise _Bad("the buckets do not rise")
        if numbers[0] < _BUCKET_MIN or numbers[-1] > _BUCKET_MAX:
            raise _Bad("a bucket is beyond those of 64-bit values")
        if bool((counts < 1).any()):
            raise _Bad("a bucket has a count below 1")
    buckets.flags.writeable = False
    return Histogram(
        sequence=sequence,
        series=number,
        count=body.integer("count", 0),
        min=body.integer("min"),
        max=body.integer("max"),
        sum=body.integer("sum"),
        missed=body.integer("missed", 0),
        lost=body.integer("lost", 0),
        overruns=body.integer("overruns", 0),
        sub_bits=SUB_BITS,
        buckets=buckets,
    )


def _event(sequence: int, body: _Body, series: _Series) -> Event:
    name = body.text("event")
    time_ns = body.integer("time_ns")
    for key, low in _EVENT_KEYS.get(name, {}).items():
        if low is None:
            body.text(key)
        else:
            body.integer(key, low)
    number = _declared(body, series) if "series" in body.pairs else None
    fields = {
        key: value
        for key, value in body.pairs.items()
        if key not in ("event", "time_ns", "series") and isinstance(value, _SIMPLE_TYPES)
    }
    return Event(sequence, name, time_ns, number, MappingProxyType(fields))


def _clock(sequence: int, body: _Body, _series: _Series) -> Clock:
    return Clock(sequence, *_clock_reading(body))


def _work(sequence: int, body: _Body, _series: _Series) -> Work:
    return Work(
        sequence,
        body.text("load"),
        body.text("unit"),
        body.integer("count", 0),
        body.integer("from_ns"),
        body.integer("to_ns"),
    )


def _table(sequence: int, body: _Body, _series: _Series) -> Table:
    columns = tuple(Column(c.text("name"), c.text("unit")) for c in body.bodies("columns"))
    rows = []
    for row in body.array("rows"):
        if type(row) is not list or len(row) != len(columns):
            raise _Bad(f"a row has not the {len(columns)} values of its columns")
        if not set(map(type, row)) <= {int, str}:
            raise _Bad("a value of a row is not an integer or text")
        rows.append(tuple(cast("list[int | str]", row)))
    return Table(sequence, body.text("name"), columns, tuple(rows))


def _verdict(sequence: int, body: _Body, _series: _Series) -> Verdict:
    return Verdict(
        sequence,
        body.text("rule"),
        body.choice("result", _RESULTS),
        body.text("evidence"),
        body.text("remedy"),
    )


def _trailer(sequence: int, body: _Body, series: _Series) -> Trailer:
    totals = tuple(
        SeriesTotals(
            series=_declared(one, series),
            count=one.integer("count", 0),
            missed=one.integer("missed", 0),
            lost=one.integer("lost", 0),
            overruns=one.integer("overruns", 0),
            first_due_ns=one.integer("first_due_ns"),
            last_due_ns=one.integer("last_due_ns"),
        )
        for one in body.bodies("series")
    )
    if len({one.series for one in totals}) != len(totals):
        raise _Bad("the totals name a series twice")
    return Trailer(
        sequence=sequence,
        state=body.choice("state", _STATES),
        reason=body.text("reason"),
        remedy=body.text("remedy"),
        duration_ns=body.integer("duration_ns", 0),
        records=body.integer("records", 0),
        series=totals,
        cpu_ns=body.integer("cpu_ns", 0),
    )


_RECORDS: dict[int, Callable[[int, _Body, _Series], Record]] = {
    RecordType.HEADER: _header,
    RecordType.ENVIRONMENT: _environment,
    RecordType.SETTING: _setting,
    RecordType.SERIES: _series_info,
    RecordType.HISTOGRAM: _histogram,
    RecordType.EVENT: _event,
    RecordType.CLOCK: _clock,
    RecordType.WORK: _work,
    RecordType.TABLE: _table,
    RecordType.VERDICT: _verdict,
    RecordType.TRAILER: _trailer,
}


# --- the envelope -------------------------------------------------------------------------------


class _Cut(Exception):
    """The bytes so far end inside a record, which needs at least ``need`` bytes."""

    def __init__(self, need: int) -> None:
        self.need = need


class _Envelope(NamedTuple):
    type: int
    sequence: int
    body_start: int
    body_stop: int
    stop: int
    crc: int


_ARRAY_OF_FOUR = 0x84
_LOWEST = {1: 24, 2: 1 << 8, 4: 1 << 16, 8: 1 << 32}
_READERS = {
    width: struct.Struct(f">{code}") for width, code in ((1, "B"), (2, "H"), (4, "I"), (8, "Q"))
}


def _shortest(data: bytes, at: int, start: int, major: int, what: str) -> tuple[int, int]:
    """An argument of a type that must be ``major``, in its shortest form."""
    if at >= len(data):
        raise _Cut(at + 1 - start)
    first = data[at]
    if first >> 5 != major:
        raise _Bad(f"its {what} is of another type")
    low = first & 31
    if low < 24:
        return low, at + 1
    width = _WIDTHS.get(low)
    if width is None:
        raise _Bad(f"its {what} is not of definite length")
    stop = at + 1 + width
    if stop > len(data):
        raise _Cut(stop - start)
    (value,) = _READERS[width].unpack_from(data, at + 1)
    if value < _LOWEST[width]:
        raise _Bad(f"its {what} is not in the shortest form")
    return value, stop


def _envelope(data: bytes, start: int) -> _Envelope:
    if start >= len(data):
        raise _Cut(1)
    if data[start] != _ARRAY_OF_FOUR:
        raise _Bad("it is not an array of four items")
    kind, at = _shortest(data, start + 1, start, _UNSIGNED, "type")
    sequence, at = _shortest(data, at, start, _UNSIGNED, "sequence number")
    size, at = _shortest(data, at, start, _BYTES, "body")
    if size > BODY_LIMIT:
        raise _Bad(f"its body has {size} bytes, more than {BODY_LIMIT}")
    body_stop = at + size
    if body_stop >= len(data):
        raise _Cut(body_stop + 1 - start)
    crc, stop = _shortest(data, body_stop, start, _UNSIGNED, "CRC")
    return _Envelope(kind, sequence, at, body_stop, stop, crc)


# The two records that come by the million from an overloaded system, as the agent writes them:
# looked at in one step each. Whatever differs, be it one byte, goes the general way.
_SHORT = (
    rb"([\x00-\x17]|\x18[\x18-\xff]|\x19[\x01-\xff].|\x1a(?!\x00\x00).{4}"
    rb"|\x1b(?!\x00{4})[\x00-\x7f].{7})"
)
_MISSED_RECORD = re.compile(
    rb"\x84\x06" + _SHORT + rb"([\x40-\x57]|\x58[\x18-\xff])"
    rb"(\xa5\x65event\x66missed\x67time_ns" + _SHORT + rb"\x66series" + _SHORT
    + rb"\x65index" + _SHORT + rb"\x65count" + _SHORT + rb")" + _SHORT,
    re.DOTALL,
)  # fmt: skip
_SAMPLES_HEAD = re.compile(
    rb"\x84\x04" + _SHORT + rb"([\x40-\x57]|\x58[\x18-\xff]|\x59[\x01-\xff].)"
    rb"(\xa4\x66series" + _SHORT + rb"\x65index" + _SHORT + rb"\x66due_ns" + _SHORT
    + rb"\x67samples\xd8\x4e)([\x40-\x57]|\x58.|\x59.{2})",
    re.DOTALL,
)  # fmt: skip
_CRC = re.compile(_SHORT, re.DOTALL)


def _short(item: bytes) -> int:
    """The argument of an item head that one of the patterns above has matched."""
    return item[0] & 31 if len(item) == 1 else int.from_bytes(item[1:], "big")


class StreamReader:
    """Reads a stream as its bytes arrive.

    ``sealed``: the stream is the ``records.cbor`` of a run's folder, where jumps in the sequence
    are expected. Damage never raises: the stream ends there, ``finish`` says why. StreamError is
    raised for one thing only, a header that says that the stream is of a version not known here.
    """

    def __init__(self, *, sealed: bool = False) -> None:
        self._sealed = sealed
        self._parts: list[bytes] = []  # bytes of a record that is not all there yet
        self._held = 0
        self._need = 1
        self._position = 0  # of the first byte not accepted yet
        self._series: _Series = {}
        self._next = 0
        self._records = 0
        self._lost = 0
        self._dropped = 0
        self._complete = False
        self._cut = False
        self._reason: str | None = None  # set once the stream has ended
        self._refused: StreamError | None = None

    def feed(self, data: bytes) -> list[Record]:
        """The records that ``data`` completes. After the end of the stream: none."""
        return [span.record for span in self.spans(data) if span.record is not None]

    def spans(self, data: bytes) -> list[Span]:
        """As ``feed``, with the place of each record, and records of unknown types too."""
        if self._refused is not None:
            raise self._refused
        if self._ended():
            self._dropped += len(data)
            return []
        self._parts.append(bytes(data))
        self._held += len(data)
        if self._held < self._need:
            return []
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        spans, at = self._accept(data)
        self._position += at
        rest = len(data) - at
        if self._ended():
            self._dropped += rest
            rest = 0
        self._parts = [data[at:]] if rest else []
        self._held = rest
        if self._refused is not None:
            raise self._refused
        return spans

    def finish(self) -> StreamEnd:
        """How the stream ended, when no more bytes come. May be asked again."""
        if self._reason is None:
            self._dropped = self._held
            self._parts, self._held = [], 0
            if self._dropped:
                self._cut = True
                self._reason = f"the stream is cut inside record {self._next}"
            elif self._records:
                self._reason = f"the stream has no trailer: it stops after record {self._next - 1}"
            else:
                self._reason = "the stream is empty"
        reason = self._reason
        if self._complete and self._dropped:
            reason = f"{self._dropped} bytes follow the trailer"
        if self._lost:
            lost = f"{self._lost} records were lost on the way"
            reason = f"{reason}; {lost}" if reason else lost
        return StreamEnd(
            self._complete, self._records, self._dropped, self._lost, reason, self._cut
        )

    @property
    def ended(self) -> bool:
        """Whether the stream is at its end: by its trailer, or by what is no record."""
        return self._ended()

    def _ended(self) -> bool:
        return self._reason is not None

    def _accept(self, data: bytes) -> tuple[list[Span], int]:
        """All whole records of ``data``, and where the rest begins."""
        spans: list[Span] = []
        append = spans.append
        at = 0
        view = memoryview(data)
        while not self._ended():
            number = self._next
            quick = self._quick(data, view, at)
            if quick is not None:
                append(quick)
                at = quick.stop - self._position
                continue
            try:
                envelope = _envelope(data, at)
                if self._sealed:
                    number = envelope.sequence
                if zlib.crc32(view[envelope.body_start : envelope.body_stop]) != envelope.crc:
                    raise _Bad("its CRC does not agree")
                if envelope.sequence < self._next or (not self._records and envelope.sequence):
                    raise _Bad(f"its sequence number is {envelope.sequence}")
                number = envelope.sequence
                record = self._record(envelope, data, at)
            except _Cut as cut:
                self._need = cut.need
                break
            except _Bad as bad:
                self._reason = f"record {number}: {bad}"
                break
            except StreamError as error:
                self._reason = error.message
                self._refused = error
                break
            self._count(number)
            append(
                Span(
                    record,
                    envelope.type,
                    number,
                    self._position + at,
                    self._position + envelope.stop,
                )
            )
            at = envelope.stop
            if envelope.type == RecordType.TRAILER:
                self._complete = True
                self._reason = ""
        return spans, at

    def _count(self, number: int) -> None:
        if not self._sealed:
            self._lost += number - self._next
        self._next = number + 1
        self._records += 1

    def _quick(self, data: bytes, view: memoryview, at: int) -> Span | None:
        """The record at ``at`` if it is one of the two kinds that come in masses, and without
        fault; None if it has to be looked at closely."""
        kind = data[at + 1] if at + 1 < len(data) and self._records else -1
        if kind == RecordType.EVENT:
            return self._quick_missed(data, view, at)
        if kind == RecordType.SAMPLES:
            return self._quick_samples(data, view, at)
        return None

    def _quick_missed(self, data: bytes, view: memoryview, at: int) -> Span | None:
        found = _MISSED_RECORD.match(data, at)
        if found is None:
            return None
        head, body, crc = found.group(2, 3, 8)
        number, time_ns, series, index, count = map(_short, found.group(1, 4, 5, 6, 7))
        if (
            _short(head) != len(body)
            or zlib.crc32(body) != _short(crc)
            or number < self._next
            or series not in self._series
        ):
            return None
        self._count(number)
        fields: dict[str, Fact] = {"index": index, "count": count}
        record = Event(number, "missed", time_ns, series, MappingProxyType(fields))
        start = self._position
        return Span(record, RecordType.EVENT, number, start + at, start + found.end())

    def _quick_samples(self, data: bytes, view: memoryview, at: int) -> Span | None:
        found = _SAMPLES_HEAD.match(data, at)
        if found is None:
            return None
        number, length, number_of_series, index, due_ns, size = map(
            _short, found.group(1, 2, 4, 5, 6, 7)
        )
        start, typed = found.start(3), found.end()
        stop = typed + size
        crc = _CRC.match(data, stop)
        series = self._series.get(number_of_series)
        count, rest = divmod(size, 4)
        if (
            crc is None
            or stop - start != length
            or length > BODY_LIMIT
            or zlib.crc32(view[start:stop]) != _short(crc[0])
            or number < self._next
            or series is None
            or rest
            or count == 0
            or index < series.next_index
            or index + count > _INT64_MAX
            or due_ns + (count - 1) * series.interval_ns > _INT64_MAX
        ):
            return None
        self._count(number)
        series.next_index = index + count
        values = np.frombuffer(data, "<i4", count, typed)
        if sys.byteorder != "little":
            values = values.astype(np.int32)
        place = self._position
        record = Samples(number, number_of_series, index, due_ns, values, place + typed)
        return Span(record, RecordType.SAMPLES, number, place + at, place + crc.end())

    def _record(self, envelope: _Envelope, data: bytes, at: int) -> Record | None:
        kind = envelope.type
        if (kind == RecordType.HEADER) == bool(self._records):
            raise _Bad("it is a second header" if self._records else "it is not a header")
        if kind == RecordType.SAMPLES:
            return self._samples(envelope, data)
        make = _RECORDS.get(kind)
        if make is None:
            return None
        body = _Body(_decode_body(data, envelope.body_start, envelope.body_stop))
        if kind == RecordType.HEADER:
            _check_version(body)
        return make(envelope.sequence, body, self._series)

    def _samples(self, envelope: _Envelope, data: bytes) -> Samples:
        pairs = _decode_body(data, envelope.body_start, envelope.body_stop)
        body = _Body(pairs)
        number = _declared(body, self._series)
        series = self._series[number]
        index = body.integer("index", 0)
        due_ns = body.integer("due_ns")
        typed = pairs.get("samples")
        if type(typed) is not _Typed:
            raise _Bad("'samples' is not a typed array (tag 78)")
        count = (typed.stop - typed.start) // 4
        if count == 0:
            raise _Bad("the block is empty")
        if index < series.next_index:
            raise _Bad(f"the block begins at index {index}, before the end of the one before")
        last = count - 1
        if index + last >= _INT64_MAX or due_ns + last * series.interval_ns > _INT64_MAX:
            raise _Bad("the block goes beyond 64 bits")
        series.next_index = index + count
        values = np.frombuffer(data, "<i4", count, typed.start)
        if sys.byteorder != "little":
            values = values.astype(np.int32)
        return Samples(
            envelope.sequence, number, index, due_ns, values, self._position + typed.start
        )


def _check_version(body: _Body) -> None:
    if body.text("format") != FORMAT:
        raise _Bad(f"its format is not '{FORMAT}'")
    version = body.integer("version")
    if version != VERSION:
        raise StreamError(
            f"the stream is of version {version}; this program knows version {VERSION}",
            "read it with the version of rtgauge that it was written for",
        )


def read_stream(path: Path | str, reader: StreamReader | None = None) -> Iterator[Record]:
    """The records of the stream in a file, in order.

    How it ended is asked of ``reader.finish()`` afterwards. A file that cannot be read, or that
    does not even begin with a header, is a StreamError.
    """
    reader = reader or StreamReader()
    began = False
    try:
        with open(path, "rb", buffering=0) as file:
            while data := file.read(READ_SIZE):
                for record in reader.feed(data):
                    began = True
                    yield record
    except OSError as error:
        raise StreamError(
            f"cannot read the stream {path}: {error.strerror}", "check the file and its permissions"
        ) from error
    if not began:
        raise StreamError(
            f"{path} is not a stream of rtgauge: {reader.finish().reason}",
            "give a file that rtgauge-agent wrote",
        )


# --- encoding -----------------------------------------------------------------------------------


def _head(major: int, value: int) -> bytes:
    if value < 24:
        return bytes([major << 5 | value])
    for low, width in zip((24, 25, 26, 27), (1, 2, 4, 8), strict=True):
        if value < 1 << 8 * width:
            return bytes([major << 5 | low]) + value.to_bytes(width, "big")
    raise ValueError(f"{value} has more than 64 bits")


def _encode(value: object) -> bytes:
    match value:
        case None:
            return b"\xf6"
        case bool():
            return b"\xf5" if value else b"\xf4"
        case int() | np.integer():
            number = int(value)
            return _head(_UNSIGNED, number) if number >= 0 else _head(_NEGATIVE, -1 - number)
        case str():
            data = value.encode()
            return _head(_TEXT, len(data)) + data
        case bytes():
            return _head(_BYTES, len(value)) + value
        case np.ndarray():
            data = np.asarray(value, dtype="<i4").tobytes()
            return _head(_TAG, _TYPED_INT32LE) + _head(_BYTES, len(data)) + data
        case list() | tuple():
            return _head(_ARRAY, len(value)) + b"".join(map(_encode, value))
        case Mapping():
            pairs = [_encode(key) + _encode(item) for key, item in value.items()]
            return _head(_MAP, len(pairs)) + b"".join(pairs)
    raise TypeError(f"a stream cannot hold a {type(value).__name__}")


def encode_record(kind: int, sequence: int, body: Mapping[str, object]) -> bytes:
    """One record as an agent writes it; NumPy arrays become typed arrays (tag 78).

    Nothing is checked but what CBOR needs, so that tests can write records that are wrong.
    """
    data = _encode(body)
    if len(data) > BODY_LIMIT:
        raise ValueError(f"the body has {len(data)} bytes, more than {BODY_LIMIT}")
    return (
        bytes([_ARRAY_OF_FOUR])
        + _head(_UNSIGNED, kind)
        + _head(_UNSIGNED, sequence)
        + _head(_BYTES, len(data))
        + data
        + _head(_UNSIGNED, zlib.crc32(data))
    )
