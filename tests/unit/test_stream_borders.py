# SPDX-License-Identifier: Apache-2.0
"""Every number and text of every record at the ends of what it may be: the reader against the one
written from docs/formats/stream.md (tests/support/reader_from_page.py)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import cbor2
import numpy as np
import pytest

import rtgauge.stream.bodies
import rtgauge.stream.reader
import streams
from rtgauge.stream import RecordType, Samples, StreamReader, bodies
from streams import Builder, header_body, pack, series_body
from test_stream import reason_of

LAST = 2**60 // 10**6  # grid point of a series of 1 ms
NUMBERS = sorted(
    {sign * (power + off) for power in (0, 2**31, 2**53, 2**60) for off in (-1, 0, 1)
     for sign in (1, -1)}
    | {-2, 2, 3, LAST - 1, LAST, LAST + 1, 2**60 // 10 - 1, 2**60 // 10, 2**60 // 10 + 1}
    | {-(2**60) // 10, 2**29, 2**29 + 1, -(2**63), 1 - 2**63, 2**63 - 1, 2**64 - 1}
)  # fmt: skip

SERIES = {"series": 0, "name": "a", "context": "", "cpu": 0, "thread": 0, "policy": "fifo"}
VERDICT = {"rule": "", "result": "pass", "evidence": "", "remedy": ""}
EVENTS: dict[str, dict[str, Any]] = {
    "maximum": {"index": 4, "value": 9},
    "missed": {"index": 4, "count": 2},
    "lost": {"index": 4, "count": 2, "max": 9},
    "withheld": {"index": 4, "count": 2},
    "wide": {"index": 4, "value": 9},
    "threshold": {"index": 4, "value": 9},
    "other": {"index": 4, "value": 9, "count": 3},
}
BODIES: list[tuple[int, dict[str, Any]]] = [
    (RecordType.ENVIRONMENT, {"facts": {"a": 1}}),
    (RecordType.SERIES, series_body(7, companion=0, stamp_ns=23)),
    (RecordType.HISTOGRAM, streams.histogram_body(0, [5, 5, 300])),
    (RecordType.HISTOGRAM, streams.histogram_body(1, [-300, -1, 0, 2**50])),
    (RecordType.HISTOGRAM, streams.histogram_body(1, [])),
    *(
        (RecordType.EVENT, {"event": name, "time_ns": 5, "series": series, **fields})
        for name, fields in EVENTS.items()
        for series in (0, 1)
    ),
    (RecordType.EVENT, {"event": "setting", "time_ns": 5, "name": "", "expected": "", "found": ""}),
    (RecordType.EVENT, {"event": "load", "time_ns": 5, "load": "", "message": ""}),
    (RecordType.EVENT, {"event": "message", "time_ns": 5, "text": ""}),
    (RecordType.CLOCK, streams.CLOCKS),
    (RecordType.WORK, {"load": "", "unit": "", "count": 5, "from_ns": 0, "to_ns": 9}),
    (RecordType.AMBIENCE, streams.ambience_body()),
    (RecordType.AMBIENCE, streams.ambience_body(cpus=[3], smi=None)),
    *(
        (RecordType.TRACE, body)
        for body in (
            {"part": "format", "name": "", "data": b"a"},
            {"part": "cost", "without_ns": 5, "with_ns": 5},
            {"part": "lost", "reason": "", "remedy": ""},
            streams.trace_sample(series=0),
            streams.trace_sample(series=1),
            streams.trace_page(),
            {"part": "end", "snapshot": 5, "pages": 5, "omitted": 5, "error": ""},
            {"part": "dropped", "samples": 5},
        )
    ),
    (
        RecordType.TABLE,
        {"name": "", "columns": [{"name": "", "unit": ""}] * 2, "rows": [[1, ""], ["", 2]]},
    ),
    (RecordType.VERDICT, {**VERDICT, "command": ""}),
    (
        RecordType.TRAILER,
        {
            "state": "complete",
            "reason": "",
            "remedy": "",
            "cause": "",
            "command": "",
            "duration_ns": 5,
            "records": 4,
            "cpu_ns": 3,
            "series": [
                streams.totals(0, count=3, missed=2, lost=1, overruns=1, last_due_ns=9),
                streams.totals(1),
            ],
        },
    ),
]


def others(value: Any) -> Iterator[Any]:
    """The value with one of its parts at the end of what it may be, missing, or of another type."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield {name: one for name, one in value.items() if name != key}
            yield from ({**value, key: other} for other in others(part))
    elif isinstance(value, list):
        yield value[:-1]
        yield [*value, *value[-1:]]
        for at, part in enumerate(value):
            yield from ([*value[:at], other, *value[at + 1 :]] for other in others(part))
    elif type(value) is int:
        yield from NUMBERS
    elif isinstance(value, str):
        yield from ("x", "x" * 1000, "x" * 1001, "fail", "failed")
    yield from (None, True, 0, "", b"", [], {})


HEAD = Builder().series(0).series(1, interval_ns=0, scale=10)


@pytest.mark.parametrize("number", range(len(BODIES)))
@pytest.mark.slow
def test_records_at_the_ends_of_what_they_may_say(number: int) -> None:
    kind, body = BODIES[number]
    known = HEAD.data
    follows = pack(RecordType.EVENT, 4, cbor2.dumps({"event": "e", "time_ns": 0}))
    good = 0
    for one in (body, *others(body)):
        reason = reason_of(known + pack(kind, 3, cbor2.dumps(one)) + follows)
        good += not reason.startswith("record 3")
    assert good


@pytest.mark.slow
def test_headers_at_the_ends_of_what_they_may_say() -> None:
    body = header_body(load_command="true", disturb="1s", core="linux", core_revision=3)
    good = 0
    for one in others(body):
        if (
            isinstance(one, dict)
            and one.get("version") == 1
            and one.get("format") == "rtgauge-stream"
        ):
            good += not reason_of(pack(0, 0, cbor2.dumps(one))).startswith("record 0")
    assert good > 40


@pytest.mark.slow
@pytest.mark.parametrize("series", [0, 1])
@pytest.mark.parametrize("quick", [True, False])
def test_blocks_at_the_ends_of_what_they_may_say(series: int, quick: bool) -> None:
    """Also those that the reader does not look at closely (in the order in which agents write)."""
    values = cbor2.CBORTag(78, np.array([5, -6, 7], "<i4").tobytes())
    numbers = [*NUMBERS, LAST - 2, LAST - 3, 2**53 - 2, 2**60 - 2 * 10**6, 2**60 - 2 * 10**6 + 1]
    good = 0
    for index in (number for number in numbers if number >= 0):
        for due_ns in (0, 7, 2**60 - 2 * 10**6, 2**60 - 2 * 10**6 + 1, 2**60, 2**60 + 1):
            block = {"series": series, "index": index, "due_ns": due_ns, "samples": values}
            event = {"event": "missed", "time_ns": due_ns, "series": series}
            event |= {"index": index, "count": 3}
            for kind, body in ((RecordType.SAMPLES, block), (RecordType.EVENT, event)):
                data = HEAD.data
                for sequence, at in ((3, index), (4, index + 3)):
                    items = {**body, "index": at}.items()
                    ordered = dict(items if quick else reversed(items))
                    data += pack(kind, sequence, cbor2.dumps(ordered))
                good += reason_of(data).endswith("after record 4")
    assert good


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 92, 96, 252, 256, 65400, 65468, 65472, 65476])
def test_blocks_of_any_size(size: int) -> None:
    """Heads of one, two and three bytes, a body of 65 536 bytes, and not whole values."""
    body = {"series": 0, "index": 0, "due_ns": 0}
    values = np.arange(size, dtype=np.uint8).tobytes()
    data = HEAD.data + pack(4, 3, cbor2.dumps({**body, "samples": cbor2.CBORTag(78, values)}))
    reason = reason_of(data)
    assert reason.endswith("after record 3") == (size % 4 == 0 and 0 < size <= 65472 + 20), reason


@pytest.mark.parametrize("kind", [99, RecordType.EVENT, RecordType.SAMPLES])
@pytest.mark.parametrize(
    ("sequence", "short"),
    [
        (b"\x17", True), (b"\x18\x17", False), (b"\x18\x18", True), (b"\x18\xff", True),
        (b"\x19\x00\xff", False), (b"\x19\x01\x00", True), (b"\x19\xff\xff", True),
        (b"\x1a\x00\x00\xff\xff", False), (b"\x1a\x00\x01\x00\x00", True),
        (b"\x1b\x00\x00\x00\x00\xff\xff\xff\xff", False),
        (b"\x1b\x00\x00\x00\x01\x00\x00\x00\x00", True),
    ],
)  # fmt: skip
def test_sequence_numbers_are_in_their_shortest_form(
    kind: int, sequence: bytes, short: bool
) -> None:
    bodies_of: dict[int, dict[str, Any]] = {
        RecordType.EVENT: {
            "event": "missed", "time_ns": 2**32, "series": 0, "index": 255, "count": 65536
        },
        RecordType.SAMPLES: {
            "series": 0, "index": 24, "due_ns": 256, "samples": cbor2.CBORTag(78, b"abcd")
        },
    }  # fmt: skip
    record = pack(kind, 3, cbor2.dumps(bodies_of.get(kind, {})))
    assert record[:1] == b"\x84" and record.count(b"\x03", 0, 4) == 1
    at = record.index(b"\x03")
    data = HEAD.data + record[:at] + sequence + record[at + 1 :]
    number = int.from_bytes(sequence[1:] or sequence, "big")
    assert reason_of(data).startswith("record 3: its sequence") != short
    reader = StreamReader()
    assert len(reader.feed(data)) == 3 + (short and kind != 99)
    assert reader.finish().lost_records == (number - 3 if short else 0)
    for cut in range(len(data) - len(record), len(data)):
        reader = StreamReader()
        found = reader.feed(data[:cut]) + reader.feed(data[cut:])
        assert len(found) == 3 + (short and kind != 99)


def test_cut_records_are_read_when_they_are_whole() -> None:
    """Byte by byte, and none of it kept afterwards."""
    data = streams.one_of_each().data
    whole = StreamReader().feed(data)
    reader = StreamReader()
    found = [one for at in range(len(data)) for one in reader.feed(data[at : at + 1])]
    assert len(found) == len(whole)
    for one, other in zip(found, whole, strict=True):
        if isinstance(one, Samples) and isinstance(other, Samples):
            assert one.position == other.position
            assert one.values.tolist() == other.values.tolist()
    assert reader.finish() == StreamReader().finish() or reader.finish().complete


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("SERIES_LIMIT", 10_000), ("NUMBER_LIMIT", 2**60), ("COUNT_LIMIT", 2**53),
        ("SCALE_LIMIT", 2**29), ("NAME_LIMIT", 1000), ("LABELS_LIMIT", 32),
        ("COLUMNS_LIMIT", 64), ("ROWS_LIMIT", 10_000), ("CELLS_LIMIT", 100_000),
        ("TABLES_LIMIT", 1000), ("VERDICTS_LIMIT", 10_000), ("SENSORS_LIMIT", 256),
        ("CPUS_LIMIT", 4096), ("KEPT_LIMIT", 2**24),
    ],
)  # fmt: skip
def test_limits_are_those_of_the_page(name: str, limit: int) -> None:
    assert vars(bodies)[name] == limit


def many(kind: int, number: int, body: Any) -> Builder:
    stream = Builder()
    for _ in range(number):
        stream.add(kind, body)
    return stream


TABLE = {"name": "", "columns": [{"name": "", "unit": ""}], "rows": []}
CELLS = {"name": "", "columns": [{"name": "", "unit": ""}] * 5, "rows": [[0] * 5] * 2000}


@pytest.mark.parametrize(
    ("kind", "most", "body"),
    [
        (RecordType.TABLE, 1000, TABLE),
        (RecordType.VERDICT, 10_000, VERDICT),
        (RecordType.TABLE, 10, CELLS),
    ],
)
@pytest.mark.slow
def test_what_is_kept_of_a_stream_has_a_limit(kind: int, most: int, body: Any) -> None:
    assert reason_of(many(kind, most, body).data).endswith(f"after record {most}")
    assert reason_of(many(kind, most + 1, body).data).startswith(f"record {most + 1}")


@pytest.mark.parametrize(
    ("columns", "rows", "good"),
    [(1, 10_000, True), (1, 10_001, False), (64, 1, True), (65, 1, False), (0, 0, False)],
)
def test_a_table_has_a_limit(columns: int, rows: int, good: bool) -> None:
    names = [{"name": "", "unit": ""}] * columns
    body = {"name": "", "columns": names, "rows": [[0] * columns] * rows}
    assert reason_of(Builder().add(RecordType.TABLE, body).data).endswith("after record 1") == good


@pytest.mark.slow
def test_bytes_that_are_kept_have_a_limit() -> None:
    """2^24, envelopes included, of facts, settings, tables and verdicts alone."""
    stream = Builder()
    size = len(pack(1, 300, cbor2.dumps({"facts": {"a": "x" * 65_000}})))
    for _ in range(2**24 // size):
        stream.add(RecordType.ENVIRONMENT, {"facts": {"a": "x" * 65_000}})
    rest = 2**24 - sum(len(part) for part in stream.parts[1:])
    fill = rest - len(pack(1, 300, cbor2.dumps({"facts": {"a": "x" * 20_000}}))) + 20_000
    for extra, reason in ((0, "no trailer"), (1, "more than 16777216 bytes")):
        reader = StreamReader()
        last = pack(1, len(stream.parts), cbor2.dumps({"facts": {"a": "x" * (fill + extra)}}))
        clock = pack(7, len(stream.parts) + 1, cbor2.dumps(streams.CLOCKS))
        reader.feed(stream.data + last + clock)
        assert reason in reader.finish().reason


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        streams.ambience_body(cpus=range(4096)),
        streams.ambience_body(temperature_mc={str(one): 0 for one in range(256)}),
    ],
)
def test_what_is_watched_has_a_limit(body: Any) -> None:
    stream = Builder().add(RecordType.AMBIENCE, body).add(RecordType.AMBIENCE, body)
    assert reason_of(stream.data).endswith("after record 2")
    reader = StreamReader()
    more = {"cpus": [4096], "frequency_khz": [1], "interrupts": [1], "idle_ns": [1],
            "steal_ns": [1]}  # fmt: skip
    other = {**body, **more, "temperature_mc": {"another": 1}}
    reader.feed(stream.add(RecordType.AMBIENCE, other).data)
    assert reader.finish().reason.startswith("record 3: the stream has more than")


@pytest.mark.slow
def test_ten_thousand_series() -> None:
    stream = Builder()
    for number in range(10_000):
        stream.series(number)
    assert reason_of(stream.data).endswith("after record 10000")
    assert reason_of(stream.series(10_000).data).startswith("record 10001")


def test_buckets_of_any_value_are_those_of_the_page() -> None:
    values = [0, 255, 256, 257, 2**40 - 1, 2**40, 2**60, 2**63 - 1]
    for value in (*values, *(-1 - value for value in values)):
        assert bodies._bucket(value) == streams.bucket(value)


def test_reading_no_more_than_is_wanted() -> None:
    """Bodies of other records are not looked into; headers and series always are."""
    stream = Builder().series(0).add(RecordType.CLOCK, {}).gaps(0, 5, [(1, 2)]).samples(0, 0, [5])
    reader = StreamReader(only=(RecordType.SAMPLES,))
    assert [type(one).__name__ for one in reader.feed(stream.data)] == [
        "Header", "SeriesInfo", "Samples",
    ]  # fmt: skip
    assert reader.finish().reason.endswith("after record 4")
    sealed = StreamReader(sealed=True)
    assert len(sealed.feed(HEAD.data)) == 3 and not sealed.ended
    assert rtgauge.stream.reader.BODY_LIMIT == 65536


QUICK = [
    # series, sequence, index, due time, number of values
    (0, 3, 0, 0, 1),
    (23, 23, 23, 23, 5),
    (24, 24, 24, 24, 6),
    (255, 255, 255, 255, 63),
    (256, 256, 256, 256, 64),
    (300, 65_535, 65_535, 65_535, 16_000),
    (300, 65_536, 65_536, 65_536, 3),
    (300, 2**32 - 1, 2**32 - 1, 2**32 - 1, 3),
    (300, 2**32, 2**32, 2**32, 3),
    (300, 4, LAST - 2, 0, 3),  # the last grid points
    (300, 4, 0, 2**60 - 2 * 10**6, 3),  # the last time
    (300, 4, 0, 2**60, 1),
    (301, 2**53, 2**53 - 2, 2**60, 3),  # without a grid
    (0, 4, 24, 24, (65_536 - 39) // 4),  # a body of 65 535 bytes
]


@pytest.mark.parametrize(("series", "sequence", "index", "due_ns", "size"), QUICK)
def test_blocks_of_agents_are_read_in_one_step(
    series: int, sequence: int, index: int, due_ns: int, size: int
) -> None:
    """They do not take the general path, which gives the same result, at any size of numbers."""
    stream = Builder().series(series, interval_ns=0 if series == 301 else 10**6)
    values = np.arange(size, dtype="<i4") - 3
    body: dict[str, Any] = {"series": series, "index": index, "due_ns": due_ns}
    body["samples"] = cbor2.CBORTag(78, values.tobytes())
    data = stream.data + pack(RecordType.SAMPLES, sequence, cbor2.dumps(body))
    for before in (b"", pack(RecordType.CLOCK, 2, cbor2.dumps(streams.CLOCKS))):
        at = len(stream.data)
        whole = data[:at] + before + data[at:]
        reader = StreamReader()
        with mock.patch.object(StreamReader, "_samples", side_effect=AssertionError):
            (span,) = reader.spans(whole)[2 + bool(before) :]
        block = span.record
        assert isinstance(block, Samples)
        assert (block.sequence, block.series, block.index, block.due_ns) == (
            sequence, series, index, due_ns
        )  # fmt: skip
        assert block.values.tolist() == values.tolist()
        assert block.position == whole.rindex(values.tobytes())
        assert (span.type, span.start, span.stop) == (4, at + len(before), len(whole))
        assert reader.finish().lost_records == sequence - 2 - bool(before)


def test_records_have_their_places_however_a_stream_is_fed() -> None:
    clocks = [pack(RecordType.CLOCK, number, cbor2.dumps(streams.CLOCKS)) for number in (3, 4, 5)]
    data = HEAD.data + b"".join(clocks)
    ends = np.cumsum([len(HEAD.data), *map(len, clocks)]).tolist()
    for cut in (0, 1, len(HEAD.data), ends[1] + 3):
        reader = StreamReader()
        spans = reader.spans(data[:cut]) + reader.spans(data[cut:])
        assert [(span.start, span.stop) for span in spans[3:]] == list(itertools.pairwise(ends))


def test_the_next_block_of_a_series_follows_in_one_step() -> None:
    """At the index after the last one, also after a block with gaps."""
    stream = Builder().series(0).samples(0, 5, [1, 2, 3]).samples(0, 8, [4])
    with mock.patch.object(StreamReader, "_samples", side_effect=AssertionError):
        assert len(StreamReader().feed(stream.data)) == 4
    for index, good in ((9, True), (8, False)):
        reader = StreamReader()
        reader.feed(stream.data)
        reader.feed(pack(4, 4, cbor2.dumps(
            {"series": 0, "index": index, "due_ns": 0, "samples": cbor2.CBORTag(78, b"abcd")}
        )))  # fmt: skip
        assert reader.finish().reason.endswith("after record 4") == good


def test_blocks_without_gaps_name_no_place_of_gaps() -> None:
    """Also one whose keys are in another order, which takes the general path."""
    body = {"due_ns": 0, "index": 0, "series": 0, "samples": cbor2.CBORTag(78, b"abcd")}
    (block,) = StreamReader().feed(HEAD.data + pack(4, 3, cbor2.dumps(body)))[3:]
    assert isinstance(block, Samples)
    assert (block.gaps, block.gaps_position, block.missed) == (None, 0, 0)


@pytest.mark.parametrize(
    ("index", "gaps", "good"),
    [
        # positions begin at 1, and grow; each gap has a period
        (0, [(1, 1)], True), (0, [(0, 1)], False), (0, [(1, 0)], False), (0, [(1, -1)], False),
        (0, [(1, 5), (2, 5)], True), (0, [(2, 5), (2, 5)], False), (0, [(3, 5), (2, 5)], False),
        (0, [(0, 1), (2, 1)], False), (-1, [(1, 1)], False), (0, [(1, 5), (2, 5), (2, 5)], False),
        (0, [(1, 1), (2, 0), (3, 1)], False),
        # the last grid point of a series of 1 ms, after all the gaps
        (LAST - 12, [(1, 2), (3, 7)], True), (LAST - 11, [(1, 2), (3, 7)], False),
        (LAST - 14, [(1, 2), (3, 7), (5, 0)], False), (LAST - 6, [(2, 4)], True),
        (LAST - 5, [(2, 4)], False),
    ],
)  # fmt: skip
def test_gaps_of_blocks_that_are_not_there(
    index: int, gaps: list[tuple[int, int]], good: bool
) -> None:
    data = Builder().series(0).gaps(0, index, gaps).data
    assert reason_of(data).endswith("after record 2") == good
