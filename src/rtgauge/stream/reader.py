# SPDX-License-Identifier: Apache-2.0
"""The reader of streams: envelopes, their order, and where a stream ends.

Step 7 of the path of a sample: blocks are checked and leave as ``Samples``, whose values still lie
in the bytes received.
"""

from __future__ import annotations

import re
import struct
import sys
import zlib
from collections.abc import Container, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtgauge.errors import StreamError
from rtgauge.stream.bodies import (
    NUMBER_LIMIT,
    RECORDS,
    Body,
    DeclaredSeries,
    Kept,
    check_version,
    declared,
)
from rtgauge.stream.cbor import (
    BYTES,
    UNSIGNED,
    WIDTHS,
    Bad,
    Typed,
    Value,
    decode_body,
)
from rtgauge.stream.records import Gaps, Record, RecordType, Samples, Span, StreamEnd

BODY_LIMIT = 65536
READ_SIZE = 1 << 20

ARRAY_OF_FOUR = 0x84

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
        raise Bad(f"its {what} has the wrong CBOR type")
    low = first & 31
    if low < 24:
        return low, at + 1
    width = WIDTHS.get(low)
    if width is None:
        raise Bad(f"its {what} is not of definite length")
    stop = at + 1 + width
    if stop > len(data):
        raise _Cut(stop - start)
    (value,) = _READERS[width].unpack_from(data, at + 1)
    if value < _LOWEST[width]:
        raise Bad(f"its {what} is not in the shortest form")
    return value, stop


def _envelope(data: bytes, start: int) -> _Envelope:
    if start >= len(data):
        raise _Cut(1)
    if data[start] != ARRAY_OF_FOUR:
        raise Bad("it is not an array of four items")
    kind, at = _shortest(data, start + 1, start, UNSIGNED, "type")
    sequence, at = _shortest(data, at, start, UNSIGNED, "sequence number")
    size, at = _shortest(data, at, start, BYTES, "body")
    if size > BODY_LIMIT:
        raise Bad(f"its body has {size} bytes, more than {BODY_LIMIT}")
    body_stop = at + size
    crc, stop = _shortest(data, body_stop, start, UNSIGNED, "CRC")
    return _Envelope(kind, sequence, at, body_stop, stop, crc)


# The record that comes by the million, as the agent writes it: looked at in one step. Whatever
# differs in a single byte takes the general path, and so does a body of BODY_LIMIT bytes.
_SHORT = (
    rb"([\x00-\x17]|\x18[\x18-\xff]|\x19[\x01-\xff].|\x1a(?!\x00\x00).{4}"
    rb"|\x1b(?!\x00{4})[\x00-\x7f].{7})"
)
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
    are expected. ``only``: the bodies of other records are not looked into, nor given; for streams
    that were read as a whole before. Damage never raises: the stream ends there, ``finish`` says
    why. StreamError is raised for one thing only, a header that says that the stream is of a
    version not known here.
    """

    def __init__(self, *, sealed: bool = False, only: Container[RecordType] | None = None) -> None:
        self._sealed = sealed
        self._only = only
        self._parts: list[bytes] = []  # bytes of a record that is not all there yet
        self._held = 0
        self._need = 1
        self._position = 0  # of the first byte not accepted yet
        self._series: DeclaredSeries = {}
        self._kept = Kept()
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
        data = b"".join(self._parts)  # without a copy if there is one part
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
        """How the stream ended, when no more bytes come. A second call gives the same."""
        if self._reason is None:
            self._dropped = self._held
            self._parts = []
            if self._dropped:
                self._cut = True
                self._reason = f"the stream is truncated inside record {self._next}"
            elif self._records:
                self._reason = f"the stream has no trailer: it stops after record {self._next - 1}"
            else:
                self._reason = "the stream is empty"
        reason = self._reason
        if self._complete and self._dropped:
            bytes_ = "1 byte follows" if self._dropped == 1 else f"{self._dropped} bytes follow"
            reason = f"{bytes_} the trailer"
        if self._lost:
            lost = f"records lost on the way: {self._lost}"
            reason = f"{reason}; {lost}" if reason else lost
        return StreamEnd(
            self._complete, self._records, self._dropped, self._lost, reason, self._cut
        )

    @property
    def ended(self) -> bool:
        """Whether the stream is at its end: by its trailer, or by bytes that are not a record."""
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
                    raise Bad("its CRC does not agree")
                if envelope.sequence < self._next or (not self._records and envelope.sequence):
                    raise Bad(f"its sequence number is {envelope.sequence}")
                number = envelope.sequence
                record = self._record(envelope, data, at)
            except _Cut as cut:
                self._need = cut.need
                break
            except Bad as bad:
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
        """The block of samples at ``at`` if it has no fault; None for any other record, and where
        a closer look has to tell."""
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
            or zlib.crc32(view[start:stop]) != _short(crc[0])
            or number < self._next
            or series is None
            or rest
            or count == 0
            or index < series.next_index
            or index + count - 1 > series.last_index
            or due_ns + (count - 1) * series.interval_ns > NUMBER_LIMIT
        ):
            return None
        self._count(number)
        series.next_index = index + count
        values = _words(data, Typed(typed, stop))
        place = self._position
        record = Samples(number, number_of_series, index, due_ns, values, place + typed)
        return Span(record, RecordType.SAMPLES, number, place + at, place + crc.end())

    def _record(self, envelope: _Envelope, data: bytes, at: int) -> Record | None:
        kind = envelope.type
        if (kind == RecordType.HEADER) == bool(self._records):
            raise Bad("it is a second header" if self._records else "it is not a header")
        if kind == RecordType.SAMPLES:
            return self._samples(envelope, data)
        if kind == RecordType.GAPS and self._wanted(kind):
            return self._gaps(envelope, data)
        make = RECORDS.get(kind)
        if make is None or not self._wanted(kind):
            return None
        body = Body(decode_body(data, envelope.body_start, envelope.body_stop))
        if kind == RecordType.HEADER:
            check_version(body)
        record = make(envelope.sequence, body, self._series)
        self._kept.add(record, envelope.stop - at)
        return record

    def _wanted(self, kind: int) -> bool:
        needed = (RecordType.HEADER, RecordType.SERIES)  # others are checked against these
        return self._only is None or kind in needed or kind in self._only

    def _samples(self, envelope: _Envelope, data: bytes) -> Samples:
        pairs = decode_body(data, envelope.body_start, envelope.body_stop)
        body = Body(pairs)
        number = declared(body, self._series)
        series = self._series[number]
        index = body.integer("index", 0)
        due_ns = body.time("due_ns")
        typed = _typed(pairs, "samples")
        count = (typed.stop - typed.start) // 4
        if count == 0:
            raise Bad("the block is empty")
        if index < series.next_index:
            raise Bad(f"the block begins at index {index}, before the end of the one before")
        gaps, gaps_at, missed = None, 0, 0
        if "gaps" in pairs:
            at = _typed(pairs, "gaps")
            gaps, gaps_at = _pairs(data, at, count, series.interval_ns), self._position + at.start
            missed = int(gaps[:, 1].sum(dtype=np.int64))
        last = count - 1 + missed
        series.check_index(index + last)
        if due_ns + last * series.interval_ns > NUMBER_LIMIT:
            raise Bad(f"the block ends after the latest permitted time, {NUMBER_LIMIT} ns")
        series.next_index = index + last + 1
        values = _words(data, typed)
        place = self._position + typed.start
        return Samples(envelope.sequence, number, index, due_ns, values, place, gaps, gaps_at)

    def _gaps(self, envelope: _Envelope, data: bytes) -> Gaps:
        pairs = decode_body(data, envelope.body_start, envelope.body_stop)
        body = Body(pairs)
        number = declared(body, self._series)
        index = body.integer("index", 0)
        gaps = _pairs(data, _typed(pairs, "gaps"), None, self._series[number].interval_ns)
        record = Gaps(envelope.sequence, number, index, gaps)
        self._series[number].check_index(index + int(gaps[-1, 0]) + record.missed)
        return record


def _typed(pairs: dict[str, Value], key: str) -> Typed:
    typed = pairs.get(key)
    if type(typed) is not Typed:
        raise Bad(f"'{key}' is not a typed array (tag 78)")
    return typed


def _words(data: bytes, typed: Typed) -> NDArray[np.int32]:
    words = np.frombuffer(data, "<i4", (typed.stop - typed.start) // 4, typed.start)
    return words if sys.byteorder == "little" else words.astype(np.int32)


def _pairs(data: bytes, typed: Typed, count: int | None, interval_ns: int) -> NDArray[np.int32]:
    """The gaps of a block of ``count`` samples, as rows (position, periods)."""
    words = _words(data, typed)
    if not len(words) or len(words) % 2:
        raise Bad("'gaps' does not consist of pairs")
    if not interval_ns:
        raise Bad("it has gaps, although its series has no time grid")
    gaps = words.reshape(-1, 2)
    position, periods = gaps[:, 0], gaps[:, 1]
    if position[0] < 1 or (position[1:] <= position[:-1]).any() or periods.min() < 1:
        raise Bad("its gaps are not in ascending order, or have no periods")
    if count is not None and position[-1] >= count:
        raise Bad("a gap lies beyond its block")
    return gaps


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
            f"{path} is not an rtgauge stream: {reader.finish().reason}",
            "give a file that rtgauge-agent wrote",
        )
