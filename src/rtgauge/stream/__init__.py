# SPDX-License-Identifier: Apache-2.0
"""The stream: reading what an agent writes, and encoding records as it would.

Step 7 of the path of a sample: the bytes that the agent's draining thread wrote arrive here, as
they come from the pipe, and leave as ``Samples`` whose values still lie in the bytes received.
The store (``rtgauge.store``) appends the same bytes to the run's folder.

The format is docs/formats/stream.md; nothing here goes beyond that page. A stream may come over a
bad line, from a crashed system or from an attacker. The reader therefore has a decoder of its own
for that page's subset of CBOR (``cbor.py``). Its time is linear in the bytes fed, and its memory is
a small multiple of one record. The first record that the page does not permit ends the stream.

    reader = StreamReader()
    while data := source.read(65536):
        for record in reader.feed(data):
            ...
    end = reader.finish()       # complete? what was dropped, and why
"""

from __future__ import annotations

from rtgauge.stream.bodies import (
    COUNT_LIMIT,
    FORMAT,
    NUMBER_LIMIT,
    SERIES_LIMIT,
    VERSION,
    wrong_totals,
)
from rtgauge.stream.reader import BODY_LIMIT, READ_SIZE, StreamReader, read_stream
from rtgauge.stream.records import (
    Ambience,
    Clock,
    ClockReading,
    Column,
    Counter,
    Environment,
    Event,
    Fact,
    Gaps,
    Header,
    Histogram,
    Parameter,
    Record,
    RecordType,
    Samples,
    SeriesInfo,
    SeriesTotals,
    Setting,
    Span,
    StreamEnd,
    Table,
    Trace,
    Trailer,
    Verdict,
    Work,
)
from rtgauge.stream.writer import StreamWriter, Tally, encode_record

__all__ = [
    "BODY_LIMIT",
    "COUNT_LIMIT",
    "FORMAT",
    "NUMBER_LIMIT",
    "READ_SIZE",
    "SERIES_LIMIT",
    "VERSION",
    "Ambience",
    "Clock",
    "ClockReading",
    "Column",
    "Counter",
    "Environment",
    "Event",
    "Fact",
    "Gaps",
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
    "StreamWriter",
    "Table",
    "Tally",
    "Trace",
    "Trailer",
    "Verdict",
    "Work",
    "encode_record",
    "read_stream",
    "wrong_totals",
]
