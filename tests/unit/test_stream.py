# SPDX-License-Identifier: Apache-2.0
"""The stream's reader: what docs/formats/stream.md says of each record, and hostile bodies."""

from __future__ import annotations

import random
import re
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reader_from_page
import rtgauge.stream
import streams
from rtgauge.errors import StreamError
from rtgauge.store.scan import missed_of
from rtgauge.stream import (
    Ambience,
    Event,
    Gaps,
    Header,
    Histogram,
    RecordType,
    Samples,
    SeriesInfo,
    StreamReader,
    Tally,
    Trailer,
    Work,
    encode_record,
    read_stream,
)
from streams import Builder, bucket, header_body, pack, series_body


def reason_of(data: bytes) -> str:
    """Why the stream ends, after checking that the page's reader ends it there as well."""
    reader = StreamReader()
    reader.feed(data)
    assert streams.read_plain(data) == reader_from_page.read(data)
    return reader.finish().reason


def test_example_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats" / "stream.md").read_text()
    match = re.search(r"`((?:[0-9A-F]{2} ?)+)` is one record", page)
    assert match
    assert encode_record(0, 0, {}) == bytes.fromhex(match[1])


def test_every_record_is_read() -> None:
    data = streams.one_of_each().data
    found = streams.read_plain(data)
    assert found == reader_from_page.read(data)
    assert found["complete"]
    assert {kind for kind, _, _ in found["records"]} == set(RecordType) | {12345}


def test_records_have_their_values() -> None:
    reader = StreamReader()
    records = reader.feed(streams.one_of_each().data)
    header = records[0]
    assert isinstance(header, Header)
    assert header.parameters["interval"].effective == "1ms"
    assert header.counter.hz == 2_400_000_000
    assert header.clock.boottime_ns == 6_000
    series = [record for record in records if isinstance(record, SeriesInfo)]
    assert [one.scale for one in series] == [1, 10, 1, 1]
    assert [one.companion for one in series] == [None, None, 0, None]
    assert [one.stamp_ns for one in series] == [None, 23, None, None]
    blocks = [record for record in records if isinstance(record, Samples)]
    assert blocks[1].values.tolist() == [-1, 2**31 - 1, -(2**31)]
    assert blocks[1].values.dtype == np.int32
    assert not blocks[1].values.flags.writeable
    wide = next(one for one in records if isinstance(one, Event) and one.event == "wide")
    assert (wide.series, wide.fields["value"]) == (1, 2**40)
    message = next(one for one in records if isinstance(one, Event) and one.event == "message")
    assert dict(message.fields) == {"text": "hello", "flag": True}
    histogram = [record for record in records if isinstance(record, Histogram)][1]
    assert histogram.buckets.tolist() == [
        [streams.bucket(value), 1] for value in (-5, 0, 300, 2**40)
    ]
    trailer = records[-1]
    assert isinstance(trailer, Trailer)
    assert trailer.series[0].last_due_ns == 44_000_000
    assert reader.finish().reason == ""


def test_position_is_where_the_samples_stand() -> None:
    data = streams.one_of_each().data
    reader = StreamReader()
    for at in range(0, len(data), 100):
        for record in reader.feed(data[at : at + 100]):
            if isinstance(record, Samples):
                stop = record.position + 4 * len(record.values)
                assert data[record.position : stop] == record.values.astype("<i4").tobytes()
                if record.gaps is not None:
                    stop = record.gaps_position + 4 * record.gaps.size
                    assert data[record.gaps_position : stop] == record.gaps.astype("<i4").tobytes()


def test_buckets_at_the_ends_of_what_values_can_be() -> None:
    ends = [-(2**60), -1, 0, 255, 256, 2**60]
    data = Builder().series(0).histogram(0, ends).data
    (record,) = StreamReader().feed(data)[2:]
    assert isinstance(record, Histogram)
    assert record.buckets[:, 0].tolist() == [-6912, -1, 0, 255, 256, 6912]
    assert not record.buckets.flags.writeable
    assert (record.min, record.max) == (-(2**60), 2**60)


def test_a_sum_that_did_not_fit_64_bits_is_at_its_bound() -> None:
    values = [2**60] * 9
    for total, good in ((2**63 - 1, True), (2**63 - 2, False), (-(2**63), False)):
        data = Builder().series(0).histogram(0, values, sum=total).data
        assert len(StreamReader().feed(data)) == 2 + good


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"count": 3}, "do not add up to 'count'"),
        ({"count": 2**53 + 1}, "above 9007199254740992"),
        ({"buckets": []}, "do not add up to 'count'"),
        ({"count": 0, "buckets": []}, "has no samples, but"),
        ({"min": 101}, "do not lie in the first and the last bucket"),
        ({"max": 4095}, "do not lie in the first and the last bucket"),
        # the buckets of 2^63 - 1 and of -2^63, and the next ones
        ({"buckets": [100, 1, bucket(2**63 - 1), 1]}, "do not lie in the first and the last"),
        ({"buckets": [100, 1, bucket(2**63 - 1) + 1, 1]}, "beyond the range of 64-bit values"),
        ({"buckets": [bucket(-(2**63)), 1, 4000, 1]}, "do not lie in the first and the last"),
        ({"buckets": [bucket(-(2**63)) - 1, 1, 4000, 1]}, "beyond the range of 64-bit values"),
        ({"sum": 199}, "'sum' is not possible with values"),
        ({"sum": 8001}, "'sum' is not possible with values"),
        ({"sum": -(2**63)}, "'sum' is not possible with values"),
    ],
)
def test_histograms_that_contradict_themselves(changes: dict[str, Any], reason: str) -> None:
    stream = Builder().series(0).histogram(0, [100, 4000], **changes)
    assert reason in reason_of(stream.data)
    assert StreamReader().feed(stream.data) == StreamReader().feed(
        stream.parts[0] + stream.parts[1]
    )


def test_minimum_and_maximum_change_places_in_one_bucket() -> None:
    stream = Builder().series(0).histogram(0, [4000, 4001], min=4001, max=4000)
    assert "do not lie in the first and the last bucket" in reason_of(stream.data)


LONG = 2**60 // 10**6  # the last grid point of a period of 1 ms


@pytest.mark.parametrize(
    ("event", "fields", "good"),
    [
        ("missed", {"index": LONG - 1, "count": 1}, True),
        ("missed", {"index": LONG, "count": 1}, False),
        ("missed", {"index": 0, "count": 2**53}, False),
        ("lost", {"index": 0, "count": 2, "max": -(2**63)}, True),
        ("lost", {"index": 0, "count": 2, "max": 1 - 2**63}, False),
        ("lost", {"index": 0, "count": LONG + 1, "max": 0}, False),
        ("withheld", {"index": LONG, "count": 1}, False),
        ("wide", {"index": 0, "value": 2**60 // 10}, True),
        ("wide", {"index": 0, "value": 2**60 // 10 + 1}, False),
        ("maximum", {"index": 0, "value": -(2**60) // 10 - 1}, False),
        ("threshold", {"index": LONG + 1, "value": 0}, False),
    ],
)
def test_what_events_may_name(event: str, fields: dict[str, int], good: bool) -> None:
    """A value times its scale and a grid point's time lie within 36 years."""
    stream = Builder().series(0, scale=10).event(event, series=0, **fields)
    assert len(StreamReader().feed(stream.data)) == 2 + good


def test_times_and_numbers_of_samples_are_limited() -> None:
    good = [
        Builder().series(0).samples(0, LONG, [1], due_ns=2**60),
        Builder().series(0, interval_ns=0).samples(0, 2**53, [1], due_ns=0),
        Builder().event("message", 2**60, text=""),
        Builder().series(0, scale=2**29),
    ]
    bad = [
        Builder().series(0).samples(0, LONG + 1, [1], due_ns=0),
        Builder().series(0).samples(0, 0, [1, 1], due_ns=2**60),
        Builder().series(0).samples(0, 0, [1], due_ns=2**60 + 1),
        Builder().series(0, interval_ns=0).samples(0, 2**53, [1, 1], due_ns=0),
        Builder().event("message", 2**60 + 1, text=""),
        Builder().series(0, scale=2**29 + 1),
    ]
    for stream in good:
        assert len(StreamReader().feed(stream.data)) == stream.writer.sequence
    for stream in bad:
        assert len(StreamReader().feed(stream.data)) == stream.writer.sequence - 1


def test_a_series_does_not_end_before_it_begins() -> None:
    for count, good in ((0, True), (1, False)):
        totals = [streams.totals(0, count=count, first_due_ns=1)]
        stream = Builder().series(0).trailer(series=totals)
        assert len(StreamReader().feed(stream.data)) == 2 + good


# --- the envelope -------------------------------------------------------------------------------


def test_cut_and_incomplete_streams_say_so() -> None:
    data = Builder().series(0).data
    assert reason_of(b"") == "the stream is empty"
    assert reason_of(data) == "the stream has no trailer: it stops after record 1"
    assert reason_of(data + b"\x84") == "the stream is truncated inside record 2"


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(
    "record",
    [
        b"\x00",  # not an array
        b"\x84\x60",  # a type that is text
        b"\x84\x07\x60",  # a sequence number that is text
        b"\x84\x07\x03\x60",  # a body that is text
        b"\x84\x07\x03\x40\x60",  # a CRC that is text
        b"\x84\x07\x03\x40\x18\x17",  # a CRC that is not in its shortest form
        b"\x84\x07\x03\x40\x00\x84",  # the CRC of an empty body, which is not a map
    ],
)
def test_a_record_that_comes_in_bytes_is_refused_as_soon_as_it_can_be(
    sealed: bool, record: bytes
) -> None:
    """Its last byte alone makes it wrong: up to there the stream is cut, and from there not."""
    good = Builder().series(0).event("message", text="x").data
    reader = StreamReader(sealed=sealed)
    assert len(reader.feed(good)) == 3
    wrong = len(record) - (record[-1:] == b"\x84")
    for number in range(1, wrong):
        assert reader.feed(record[number - 1 : number]) == [] and not reader.ended
    assert reader.feed(record[wrong - 1 : wrong]) == [] and reader.ended
    end = reader.finish()
    assert (end.complete, end.cut, end.dropped_bytes, end.records) == (False, False, wrong, 3)
    assert end.reason.startswith("record 3: ")
    begun = StreamReader(sealed=sealed)
    begun.feed(good + record[: wrong - 1])
    assert begun.finish().cut == (wrong > 1)
    assert begun.finish().dropped_bytes == wrong - 1


def test_the_first_byte_tells_what_is_not_a_stream() -> None:
    reader = StreamReader()
    assert reader.feed(b"\x85") == [] and reader.ended
    assert reader.finish().reason == "record 0: it is not an array of four items"


def test_lost_records_are_counted() -> None:
    stream = Builder().series(0)
    stream.writer.sequence += 5
    stream.event("message", text="x")
    stream.writer.sequence += 2
    reader = StreamReader()
    reader.feed(stream.trailer().data)
    end = reader.finish()
    assert (end.complete, end.lost_records, end.dropped_bytes) == (True, 7, 0)
    assert end.reason == "records lost on the way: 7"
    sealed = StreamReader(sealed=True)
    sealed.feed(stream.data)
    assert (sealed.finish().lost_records, sealed.finish().reason) == (0, "")


def test_what_follows_the_trailer_is_dropped() -> None:
    data = Builder().trailer().data
    reader = StreamReader()
    assert len(reader.feed(data + b"abc")) == 2
    assert reader.feed(b"de") == []
    end = reader.finish()
    assert (end.complete, end.dropped_bytes) == (True, 5)
    assert end.reason == "5 bytes follow the trailer"
    reader = StreamReader()
    reader.feed(data + b"a")
    assert reader.finish().reason == "1 byte follows the trailer"


def test_sequence_must_grow() -> None:
    stream = Builder().series(0)
    stream.writer.sequence = 1
    assert reason_of(stream.trailer().data) == "record 2: its sequence number is 1"


def test_header_comes_first_and_once() -> None:
    stream = Builder()
    stream.add(RecordType.HEADER, header_body())
    assert reason_of(stream.data) == "record 1: it is a second header"
    assert reason_of(encode_record(3, 0, series_body())) == "record 0: it is not a header"
    assert reason_of(encode_record(99, 0, {})) == "record 0: it is not a header"
    assert reason_of(encode_record(0, 1, header_body())) == "record 0: its sequence number is 1"


def test_another_version_is_refused() -> None:
    data = Builder(version=2).series(0).data
    reader = StreamReader()
    with pytest.raises(StreamError, match="version 2"):
        reader.feed(data)
    with pytest.raises(StreamError, match="version 2"):
        reader.feed(b"more")
    assert reader.finish().records == 0
    assert reader_from_page.read(data)["refused"]


GOOD = pack(0, 0, cbor2.dumps(header_body()))
BODY = cbor2.dumps({"text": "x" * 300, "event": "message", "time_ns": 0})
CRC = zlib.crc32(BODY).to_bytes(4, "big")


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"\x83\x06\x01\x59", "not an array of four"),
        (b"\x9f\x06\x01\x40\x00\xff", "not an array of four"),
        (b"\x98\x04\x06\x01\x40\x00", "not an array of four"),
        (b"\x84\x18\x06\x01", "its type is not in the shortest form"),
        (b"\x84\x06\x19\x00\x01", "its sequence number is not in the shortest form"),
        (b"\x84\x26\x01", "its type has the wrong CBOR type"),
        (b"\x84\x06\x01\x79\x00\x04", "its body has the wrong CBOR type"),
        (b"\x84\x06\x01\x5f\x41a\xff\x00", "its body is not of definite length"),
        (b"\x84\x06\x01\x5a\x00\x00\x00\x05hello", "its body is not in the shortest form"),
        (b"\x84\x06\x01\x5a\x00\x01\x00\x01", "more than 65536"),
        (b"\x84\x06\x01\x5b" + b"\xff" * 8, "more than 65536"),
        (b"\x84\x06\x01\x59\x01\x4c" + BODY + b"\x1a\x00\x00\x00\x01", "shortest form"),
        (b"\x84\x06\x01\x59\x01\x4c" + BODY + b"\x00", "CRC does not agree"),
        (b"\x84\x06\x01\x59\x01\x4c" + BODY + b"\x1b\x00\x00\x00\x01" + CRC, "CRC does not agree"),
    ],
)
def test_envelopes_that_are_not_acceptable(record: bytes, reason: str) -> None:
    assert len(BODY) == 0x14C
    good = b"\x84\x06\x01\x59\x01\x4c" + BODY + b"\x1a" + CRC
    assert len(StreamReader().feed(GOOD + good)) == 2
    found = reason_of(GOOD + record)
    assert found.startswith("record 1: ")
    assert reason in found


def test_largest_body() -> None:
    room = 65536 - len(cbor2.dumps({"event": "e", "time_ns": 0, "text": "x" * 60000})) + 60000
    body = {"event": "e", "time_ns": 0, "text": "x" * room}
    data = GOOD + encode_record(6, 1, body) + encode_record(7, 2, streams.CLOCKS)
    assert len(StreamReader().feed(data)) == 3
    with pytest.raises(ValueError, match="65537"):
        encode_record(6, 1, body | {"text": "x" * (room + 1)})
    assert "more than 65536" in reason_of(
        GOOD + pack(6, 1, cbor2.dumps(body | {"text": "x" * (room + 1)}))
    )


# --- bodies -------------------------------------------------------------------------------------


def event_with(value: bytes) -> bytes:
    """A stream with an event that has a further key ``k`` with these bytes as its value."""
    inner = cbor2.dumps({"event": "e", "time_ns": 0})
    return GOOD + pack(6, 1, b"\xa3" + inner[1:] + b"\x61k" + value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\xfb" + b"\0" * 8, "floating-point"),
        (b"\xf9\x7e\x00", "floating-point"),
        (b"\xf7", "a simple value that"),
        (b"\xf8\xff", "a simple value that"),
        (b"\xf8\x14", "a simple value that"),
        (b"\xff", "a simple value that"),
        (b"\x9f\x00\xff", "indefinite"),
        (b"\xbf\xff", "indefinite"),
        (b"\x5f\x41a\xff", "indefinite"),
        (b"\x7f\x61a\xff", "indefinite"),
        (b"\x1c", "indefinite"),
        (b"\x1b" + b"\xff" * 8, "64 bits"),
        (b"\x3b\x80" + b"\0" * 7, "64 bits"),
        (b"\xc2\x49\x01" + b"\0" * 8, "tag 2"),
        (b"\xc2\x41\x01", "tag 2"),
        (b"\xc4\x82\x1b\x00\x00\x00\x00\x10\x00\x00\x00\x01", "tag 4"),
        (b"\xd8\x1c\x81\xd8\x1d\x00", "tag 28"),
        (b"\xd8\x23\x61(", "tag 35"),
        (b"\xd9\xd9\xf7\x01", "tag 55799"),
        (b"\xd8\x4e\x01", "tag 78 is on a value that is not a byte string"),
        (b"\xd8\x4e\xd8\x4e\x44abcd", "tag 78 is on a value that is not a byte string"),
        (b"\xd8\x4e\x5f\x44abcd\xff", "indefinite"),
        (b"\xd8\x4e\x43abc", "multiple of 4"),
        (b"\x5b\x7f" + b"\xff" * 7, "longer than the body"),
        (b"\xd8\x4e\x5b" + b"\xff" * 8, "longer than the body"),
        (b"\x9b" + b"\xff" * 8, "longer than the body"),
        (b"\x9a\x10\x00\x00\x00\x00\x00", "longer than the body"),
        (b"\xbb" + b"\xff" * 8, "longer than the body"),
        (b"\x61\xff", "UTF-8"),
        (b"\x63\xed\xa0\x80", "UTF-8"),
        (b"\xa2\x61a\x00\x61a\x01", "twice"),
        (b"\xa1\x00\x00", "key that is not text"),
        (b"\xa1\x41a\x00", "key that is not text"),
        (b"\xa1\x80\x00", "key that is not text"),
        (b"\x81" * 60000 + b"\x00", "deeper than 8"),
        (b"\xa1\x61a" * 20000 + b"\x00", "deeper than 8"),
        (b"\xc1" * 60000 + b"\x00", "tag 1"),
        (b"\x81" * 8 + b"\x00", "deeper than 8"),
        (b"\x19\x00", "ends inside an item"),
        (b"", "ends where an item should begin"),
        (b"\x00\x00", "bytes follow the map"),
    ],
)
def test_bodies_outside_the_subset(value: bytes, reason: str) -> None:
    found = reason_of(event_with(value))
    assert found.startswith("record 1: ")
    assert reason in found


@pytest.mark.parametrize(
    "value",
    [
        b"\x81" * 7 + b"\x00",
        b"\x1b" + b"\0" * 8,  # not in the shortest form: allowed inside a body
        b"\x9b" + b"\0" * 8,
        b"\x1b\x7f" + b"\xff" * 7,
        b"\x3b\x7f" + b"\xff" * 7,
        b"\xd8\x4e\x44abcd",
        b"\x99\xf0\x00" + b"\xa0" * 0xF000,
        b"\xa1\x60\x60",
    ],
)
def test_bodies_inside_the_subset(value: bytes) -> None:
    data = event_with(value)
    assert len(StreamReader().feed(data)) == 2
    assert streams.read_plain(data) == reader_from_page.read(data)


@pytest.mark.parametrize("body", [b"", b"\x00", b"\x80", b"\xf6", b"\xd8\x4e\x40", b"\xbf\xff"])
def test_bodies_that_are_no_map(body: bytes) -> None:
    assert reason_of(GOOD + pack(6, 1, body)).startswith("record 1: ")


def test_body_of_unknown_type_is_not_looked_at() -> None:
    data = GOOD + pack(99, 1, b"\xff\xff") + pack(2**64 - 1, 2, b"") + Builder().parts[0]
    assert reason_of(data) == "record 3: its sequence number is 0"


@pytest.mark.slow
def test_hostile_bodies_take_little_memory() -> None:
    data = event_with(b"\x99\xf0\x00" + b"\xa0" * 0xF000)
    tracemalloc.start()
    for _ in range(2):
        StreamReader().feed(data)
    StreamReader().feed(event_with(b"\x9b" + b"\xff" * 8))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * len(data)


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(max_size=40)
    | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=10) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=20,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=8), plain_values, max_size=5))
@settings(max_examples=60, deadline=None)
def test_encoding_agrees_with_a_cbor_library(body: dict[str, Any]) -> None:
    record = encode_record(6, 1, body)
    kind, sequence, data, crc = cbor2.loads(record)
    assert (kind, sequence, crc) == (6, 1, zlib.crc32(data))
    assert data == cbor2.dumps(body)
    assert cbor2.loads(data) == body


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=8), plain_values, max_size=5))
@settings(max_examples=60, deadline=None)
def test_decoding_agrees_with_a_cbor_library(body: dict[str, Any]) -> None:
    body = {"event": "e", "time_ns": 0} | body
    data = GOOD + pack(6, 1, cbor2.dumps(body))
    found, expected = streams.read_plain(data), reader_from_page.read(data)
    assert found == expected
    if len(found["records"]) == 2:
        scalars = {k: v for k, v in body.items() if not isinstance(v, list | dict)}
        assert found["records"][1][2] == scalars


# --- what is checked of each record -------------------------------------------------------------

EXAMPLES = {
    kind: (sequence, cbor2.loads(body))
    for kind, sequence, body in streams.bodies(streams.one_of_each().data)
    if kind in set(RecordType) - {RecordType.SAMPLES, RecordType.GAPS}
}
WRONG_VALUES: list[Any] = [
    None, True, -2, 7, "x", b"x", [], {}, [None], {"x": []}, [[1]], [{}],
    2**53, 2**53 + 1, 2**60, 2**60 + 1, -(2**60) - 1, -(2**63), [2**53 + 1], {"x": -(2**53) - 1},
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(EXAMPLES))
def test_missing_keys_and_wrong_types_end_the_stream(kind: RecordType) -> None:
    """Every key left out, and given every wrong value: judged as the page's reader judges it."""
    sequence, body = EXAMPLES[kind]
    before = streams.bodies(streams.one_of_each().data)[:sequence]
    start = b"".join(pack(*one) for one in before)
    if kind == RecordType.HEADER:
        start = b""
    judged = {True: 0, False: 0}

    def judge(changed: dict[str, Any]) -> None:
        data = start + pack(kind, sequence, cbor2.dumps(changed))
        found = streams.read_plain(data)
        assert found == reader_from_page.read(data), changed
        judged[len(found["records"]) == len(before) + 1] += 1

    def inside(value: Any, put: Any) -> None:
        for wrong in WRONG_VALUES:
            judge(put(wrong))
        if isinstance(value, dict):
            for key, one in value.items():
                judge(put({k: v for k, v in value.items() if k != key}))
                inside(one, lambda new, key=key: put({**value, key: new}))
        elif isinstance(value, list) and value:
            inside(value[0], lambda new: put([new, *value[1:]]))

    for key, one in body.items():
        judge({k: v for k, v in body.items() if k != key})
        inside(one, lambda new, key=key: {**body, key: new})
    judge(body)
    assert judged[True] >= 1
    assert judged[False] > len(body)


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (Builder().samples, "was not declared"),
        (Builder().series(0).samples(0, 0, [1, 2]).samples, "before the end of the one before"),
        (Builder().series(0).samples(0, 5, [1]).samples, "before the end of the one before"),
    ],
)
def test_blocks_that_do_not_follow(stream: Any, reason: str) -> None:
    assert reason in reason_of(stream(0, 1, [3], due_ns=0).data)


def gapped(gaps: list[int], **changes: int) -> dict[str, Any]:
    """Three samples with gaps."""
    samples = np.array([1, 2, 3], dtype="<i4")
    return {"samples": samples, "gaps": np.array(gaps, dtype="<i4"), **changes}


def test_blocks_with_gaps() -> None:
    largest = 2**31 - 1
    stream = Builder().series(0).samples(0, 3, [5, 6, 7], gaps=[(1, 2), (2, largest)])
    stream.gaps(0, 0, [(1, 1), (largest, largest)])
    block, gaps = StreamReader().feed(stream.data)[2:]
    assert isinstance(block, Samples)
    assert isinstance(gaps, Gaps)
    assert block.gaps is not None
    assert (block.missed, gaps.missed) == (2 + largest, 1 + largest)
    assert missed_of(block.index, block.gaps).tolist() == [[3, 2], [6, largest]]
    assert missed_of(gaps.index, gaps.gaps).tolist() == [[0, 1], [largest, largest]]
    # the next block begins after the gaps
    stream.samples(0, 3 + 2 + 2 + largest, [1])
    assert "before the end of the one before" in reason_of(stream.data)


@pytest.mark.parametrize("gaps", [[(0, 1)], [(1, 1), (1, 1)], [(1, 0)]])
def test_gaps_that_are_wrong(gaps: list[tuple[int, int]]) -> None:
    assert reason_of(Builder().series(0).gaps(0, 0, gaps).data).startswith("record 2: its gaps")


def test_gaps_that_have_no_place() -> None:
    assert "no time grid" in reason_of(Builder().series(0, interval_ns=0).gaps(0, 0, [(1, 1)]).data)
    assert "was not declared" in reason_of(Builder().gaps(0, 0, [(1, 1)]).data)
    assert "is beyond" in reason_of(Builder().series(0).gaps(0, LONG - 1, [(1, 1)]).data)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"samples": [1, 2]}, "typed array"),
        ({"samples": b"\0\0\0\0"}, "typed array"),
        ({}, "typed array"),
        ({"samples": np.array([], dtype="<i4")}, "empty"),
        ({"samples": np.array([1], dtype="<i4"), "index": -1}, "below 0"),
        ({"samples": np.array([1], dtype="<i4"), "index": 2**63 - 1}, "is beyond"),
        ({"samples": np.array([1, 2], dtype="<i4"), "due_ns": 2**60 - 2}, "latest permitted time"),
        ({"samples": np.array([1], dtype="<i4"), "series": -1}, "below 0"),
        (gapped([]), "not consist of pairs"),
        (gapped([1]), "not consist of pairs"),
        (gapped([0, 1]), "ascending order"),
        (gapped([1, 1, 1, 1]), "ascending order"),
        (gapped([2, 1, 1, 1]), "ascending order"),
        (gapped([1, 0]), "have no periods"),
        (gapped([1, -1]), "have no periods"),
        (gapped([1, 1, 3, 1]), "beyond its block"),
        (gapped([1, 9]) | {"gaps": b"\1\0\0\0\1\0\0\0"}, "typed array"),
        (gapped([1, 9], index=LONG - 10), "is beyond"),
        (gapped([1, 9], due_ns=2**60 - 10_000_000), "latest permitted time"),
    ],
)
def test_blocks_that_are_wrong(body: dict[str, Any], reason: str) -> None:
    stream = Builder().series(0)
    stream.add(RecordType.SAMPLES, {"series": 0, "index": 0, "due_ns": 0} | body)
    found = reason_of(stream.data)
    assert found.startswith("record 2: ")
    assert reason in found


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"time_ns": -1}, "'time_ns' is -1"),
        ({"cpus": [0, -1]}, "'cpus' has an item that is not an integer from 0 to"),
        ({"frequency_khz": [None]}, "'frequency_khz' has 1 items for 2 CPUs"),
        ({"frequency_khz": [0, "fast"]}, "'frequency_khz' has an item that is not null"),
        ({"interrupts": [1, 2, 3]}, "'interrupts' has 3 items for 2 CPUs"),
        ({"interrupts": [1, None]}, "'interrupts' has an item"),
        ({"idle_ns": [None]}, "'idle_ns' has 1 items for 2 CPUs"),
        ({"idle_ns": [None, -1]}, "'idle_ns' has an item that is not null or an integer to"),
        ({"steal_ns": [0, -5]}, "'steal_ns' has an item"),
        ({"smi": -1}, "'smi' is -1"),
        ({"smi": "none"}, "'smi' is not an integer"),
        ({"temperature_mc": {"0 cpu": None}}, "a temperature is not an integer"),
        ({"temperature_mc": [45000]}, "'temperature_mc' is not a map"),
    ],
)
def test_ambience_that_is_wrong(body: dict[str, Any], reason: str) -> None:
    stream = Builder().add(RecordType.AMBIENCE, streams.ambience_body(**body))
    assert reason in reason_of(stream.data)


def test_ambience_may_lack_interrupts() -> None:
    """Containers may hide /proc/interrupts."""
    stream = Builder().add(RecordType.AMBIENCE, streams.ambience_body(interrupts=None))
    (*_, found) = StreamReader().feed(stream.data)
    assert isinstance(found, Ambience) and found.interrupts is None and found.steal_ns == (0, 0)


def test_ambience_may_lack_steal_time() -> None:
    stream = Builder().add(RecordType.AMBIENCE, streams.ambience_body(steal_ns=None))
    (*_, found) = StreamReader().feed(stream.data)
    assert isinstance(found, Ambience) and found.steal_ns is None and found.interrupts


def test_ambience_needs_all_its_keys() -> None:
    for key in streams.ambience_body().keys() - {"idle_ns"}:
        body = {name: value for name, value in streams.ambience_body().items() if name != key}
        assert "is missing" in reason_of(Builder().add(RecordType.AMBIENCE, body).data)


def test_only_some_kinds_are_looked_into() -> None:
    data = streams.one_of_each().data
    everything = StreamReader().feed(data)
    wanted = (RecordType.AMBIENCE, RecordType.WORK)
    reader = StreamReader(only=wanted)
    found = [one for one in reader.feed(data) if isinstance(one, (Ambience, Work))]
    assert found == [one for one in everything if isinstance(one, (Ambience, Work))]
    assert len(found) == 3
    assert reader.finish().complete


def test_more_series_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rtgauge.stream.SERIES_LIMIT == 10_000
    monkeypatch.setattr(rtgauge.stream.bodies, "SERIES_LIMIT", 50)
    stream = Builder()
    for number in range(51):
        stream.series(number)
    reader = StreamReader()
    assert len(reader.feed(stream.data)) == 51
    assert reader.finish().reason == "record 51: there are more than 50 series"


# --- damage -------------------------------------------------------------------------------------


def some_gaps(count: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    """Gaps of a block of so many samples; now and then one that cannot be."""
    place = st.integers(1, max(count - 1, 1))
    gap = st.tuples(place, st.integers(1, 2**31 - 1) | st.just(0))
    return st.just([]) | st.lists(gap, max_size=4, unique_by=lambda one: one[0]).map(sorted)


@st.composite
def built_streams(draw: st.DrawFn) -> bytes:
    """Streams of any series, blocks and events, some of them not as they should be."""
    stream = Builder()
    count = draw(st.integers(0, 4))
    for number in range(count):
        stream.series(
            number,
            interval_ns=draw(st.sampled_from([0, 20_000, 1_000_000])),
            companion=draw(st.sampled_from([0, 1])),
            stamp_ns=draw(st.sampled_from([0, 23, -1])),
        )
    numbers = st.integers(0, max(count - 1, 0)) if draw(st.integers(0, 9)) else st.integers(0, 5)
    int32 = st.integers(-(2**31), 2**31 - 1)
    indices: dict[int, int] = {}
    for _ in range(draw(st.integers(0, 8)) if count else 0):
        number = draw(numbers)
        match draw(st.integers(0, 3)):
            case 0 | 1:
                values = draw(st.lists(int32, min_size=1, max_size=30))
                index = indices.get(number, 0) + draw(st.sampled_from([0, 0, 0, 1, 1000]))
                gaps = draw(some_gaps(len(values)))
                indices[number] = index + len(values) + sum(periods for _, periods in gaps)
                stream.samples(number, index, values, draw(st.integers(0, 2**40)), gaps)
                if draw(st.integers(0, 9)) == 0:
                    stream.gaps(number, index, draw(some_gaps(2**31)) or [(1, 1)])
            case 2:
                values = draw(st.lists(st.integers(-(2**61), 2**61), max_size=20))
                total = min(max(sum(values), -(2**63)), 2**63 - 1) + draw(st.sampled_from([0, 1]))
                stream.histogram(number, values, sum=min(total, 2**63 - 1))
            case 3:
                stream.event("wide", 5, series=number, index=draw(int32), value=draw(int32) * 9)
    if draw(st.booleans()):
        stream.trailer()
    return stream.data


@pytest.mark.slow
@given(built_streams(), st.data())
@settings(max_examples=150, deadline=None)
def test_any_stream_cut_or_damaged_anywhere(data: bytes, draw: st.DataObject) -> None:
    """All that lies before the damage is returned, however the bytes come in."""
    whole = streams.read_plain(data)
    assert whole == reader_from_page.read(data)
    ends = [span.stop for span in StreamReader().spans(data)]
    at = draw.draw(st.integers(0, len(data) - 1))
    before = sum(stop <= at for stop in ends)
    sizes = draw.draw(st.lists(st.integers(1, 200), min_size=1, max_size=5))

    cut = streams.read_plain(data[:at], sizes)
    assert cut["records"] == whole["records"][:before]
    assert cut["dropped_bytes"] == at - ([0, *ends][before])

    flipped = data[:at] + bytes([data[at] ^ draw.draw(st.integers(1, 255))]) + data[at + 1 :]
    damaged = streams.read_plain(flipped, sizes)
    assert damaged["records"][:before] == whole["records"][:before]
    assert damaged == streams.read_plain(flipped) == reader_from_page.read(flipped)


def test_one_byte_at_a_time() -> None:
    data = streams.one_of_each().data
    assert streams.read_plain(data, [1]) == streams.read_plain(data)


# --- files --------------------------------------------------------------------------------------


def test_read_stream(tmp_path: Path) -> None:
    path = tmp_path / "a.cbor"
    path.write_bytes(streams.one_of_each().data[:-3])
    reader = StreamReader()
    assert len(list(read_stream(path, reader))) == 40
    assert reader.finish().reason == "the stream is truncated inside record 41"
    path.write_bytes(b"no stream at all")
    with pytest.raises(StreamError, match="not an rtgauge stream"):
        list(read_stream(path))
    with pytest.raises(StreamError, match="No such file"):
        list(read_stream(tmp_path / "none.cbor"))


def masses(rng: random.Random) -> bytes:
    """A stream of an overloaded system, with numbers of every size."""
    builder = Builder().series(0, interval_ns=20_000).series(300, interval_ns=0)
    index = 0
    for _ in range(30):
        builder.writer.sequence += rng.choice((0, 0, 1, 300, 70_000))
        index += rng.choice((1, 30, 300, 70_000, 1 << 33))
        series = rng.choice((0, 300))
        if rng.random() < 0.5:
            count = rng.choice((1, 5, 23, 24, 70_000))
            builder.event("missed", index * 7, series=series, index=index, count=count)
        else:
            values = np.arange(rng.choice((1, 2, 40, 300)))
            builder.samples(series, index, values, due_ns=index)
            index += len(values)
    return builder.trailer().data


@pytest.mark.slow
def test_records_that_come_in_masses_are_read_as_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The short way gives what the general one gives, of good and of damaged records."""
    rng = random.Random(5)
    taken = []
    quick = StreamReader._quick

    def counted(self: StreamReader, *rest: Any) -> Any:
        taken.append(found := quick(self, *rest))
        return found

    for number in range(600):
        data = masses(rng)
        if number:
            data = streams.damage(data, rng, [data])
        sizes = rng.choice(((), (1000,), (7, 300)))
        sealed = rng.random() < 0.3
        monkeypatch.setattr(StreamReader, "_quick", counted)
        found = streams.read_plain(data, sizes, sealed), reason_in(data)
        monkeypatch.setattr(StreamReader, "_quick", lambda *_: None)
        assert found == (streams.read_plain(data, sizes, sealed), reason_in(data))
        if not number:
            blocks = sum(kind == RecordType.SAMPLES for kind, _, _ in streams.bodies(data))
            assert sum(span is not None for span in taken) == 2 * blocks > 0


def reason_in(data: bytes) -> str:
    reader = StreamReader()
    reader.feed(data)
    return reader.finish().reason


@pytest.mark.slow
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-2000, 2000), max_size=8), st.data())
def test_a_tally_counts_as_the_page_says(values: list[int], data: st.DataObject) -> None:
    """In one part or two; sums beyond 64 bits as well."""
    part = data.draw(st.integers(0, len(values)))
    tally = Tally(3, missed=2)
    for piece in (values[:part], values[part:]):
        tally.add(np.array(piece, np.int64))
    assert tally.histogram() == streams.histogram_body(3, values, missed=2)
    assert tally.totals() == streams.totals(3, count=len(values), missed=2)


def test_where_samples_lie_in_the_stream_is_not_printed() -> None:
    """Positions are the reader's own: a message about a record has no use for them."""
    one = Samples(1, 2, 3, 4, np.zeros(1, np.int32), 77)
    assert (one.position, one.gaps_position) == (77, 0)
    assert "position" not in repr(one)
