# SPDX-License-Identifier: Apache-2.0
"""Streams for tests: built record by record, realistic or arbitrary, and compared."""

from __future__ import annotations

import dataclasses
import random
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import reader_from_page
from rtgauge.stream import FORMAT, VERSION, Record, RecordType, StreamReader, StreamWriter, Tally

CLOCKS = {"monotonic_ns": 5_000, "boottime_ns": 6_000, "realtime_ns": 1_700_000_000_000_000_000}


def header_body(**changes: Any) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "agent": "0.1.0",
        "libc": "glibc 2.36",
        "compiler": "gcc 12.2.0",
        "machine": "x86_64",
        "run": "01980000-0000-7000-8000-000000000000",
        "step": 0,
        "measurement": "timer",
        "parameters": {"interval": {"asked": None, "effective": "1ms"}},
        "load": "idle",
        "boot_id": "b0",
        "privileged": True,
        "counter": {"name": "tsc", "hz": 2_400_000_000},
        "clock": dict(CLOCKS),
        "start_ns": 5_000,
        **changes,
    }


def series_body(series: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "series": series,
        "name": "latency",
        "context": "user",
        "cpu": series,
        "thread": series,
        "policy": "fifo",
        "priority": 98,
        "labels": {"method": "clock_nanosleep"},
        "unit": "ns",
        "scale": 1,
        "interval_ns": 1_000_000,
        "histogram_only": False,
        **changes,
    }


def ambience_body(time_ns: int = 10**9, cpus: Sequence[int] = (0, 1), **changes: Any) -> Any:
    return {
        "time_ns": time_ns,
        "cpus": list(cpus),
        "frequency_khz": [2_400_000] * len(cpus),
        "interrupts": [250] * len(cpus),
        "idle_ns": [900_000_000] * len(cpus),
        "steal_ns": [0] * len(cpus),
        "smi": 0,
        "temperature_mc": {"package": 45_000},
        **changes,
    }


def bucket(value: int, sub_bits: int = 7) -> int:
    """The bucket of a value, as docs/formats/stream.md defines it."""
    if value < 0:
        return -1 - bucket(-1 - value, sub_bits)
    if value < 2 ** (sub_bits + 1):
        return value
    highest = value.bit_length() - 1
    return ((highest - sub_bits) << sub_bits) + (value >> (highest - sub_bits))


def histogram_body(series: int, values: Sequence[int], **changes: Any) -> dict[str, Any]:
    counts: dict[int, int] = {}
    for value in values:
        number = bucket(int(value))
        counts[number] = counts.get(number, 0) + 1
    return {
        "series": series,
        "count": len(values),
        "min": min(map(int, values), default=0),
        "max": max(map(int, values), default=0),
        "sum": sum(map(int, values)),
        "missed": 0,
        "lost": 0,
        "overruns": 0,
        "sub_bits": 7,
        "buckets": [part for pair in sorted(counts.items()) for part in pair],
        **changes,
    }


class Builder:
    """A stream in the making; every method adds one record and gives the builder back."""

    def __init__(self, **header: Any) -> None:
        self.parts: list[bytes] = []
        self.writer = StreamWriter()
        self.series_seen: dict[int, dict[str, Any]] = {}
        self.add(RecordType.HEADER, header_body(**header))

    def add(self, kind: int, body: Mapping[str, object]) -> Builder:
        return self._put(self.writer.record(kind, body))

    def _put(self, record: bytes) -> Builder:
        self.parts.append(record)
        return self

    def series(self, series: int = 0, **changes: Any) -> Builder:
        body = series_body(series, **changes)
        self.series_seen[series] = body
        return self.add(RecordType.SERIES, body)

    def samples(
        self,
        series: int,
        index: int,
        values: Sequence[int] | NDArray[Any],
        due_ns: int = -1,
        gaps: Sequence[tuple[int, int]] = (),
    ) -> Builder:
        """A block; without ``due_ns`` on the grid that begins at due time 0."""
        if due_ns < 0:
            due_ns = index * self.series_seen[series]["interval_ns"]
        return self._put(self.writer.samples(series, index, due_ns, values, gaps))

    def gaps(self, series: int, index: int, gaps: Sequence[tuple[int, int]]) -> Builder:
        """The periods missed in a block that is not here."""
        pairs = np.asarray(gaps, dtype="<i4").reshape(-1)
        return self.add(RecordType.GAPS, {"series": series, "index": index, "gaps": pairs})

    def histogram(self, series: int, values: Sequence[int], **changes: Any) -> Builder:
        return self.add(RecordType.HISTOGRAM, histogram_body(series, values, **changes))

    def event(self, event: str, time_ns: int = 0, **fields: Any) -> Builder:
        return self._put(self.writer.event(event, time_ns, **fields))

    def trailer(self, state: str = "complete", **changes: Any) -> Builder:
        fields = {"state": state, "duration_ns": 1_000_000_000, "cpu_ns": 1_000, **changes}
        return self._put(self.writer.trailer([], **fields))

    @property
    def data(self) -> bytes:
        return b"".join(self.parts)


def booted(boot: int, arguments: str, up_s: int = 0) -> bytes:
    """What the agent says after the boot of that number, with those kernel arguments."""
    writer = StreamWriter()
    head = writer.header(
        agent="fake",
        libc="none",
        compiler="none",
        machine="x86_64",
        boot_id=f"{boot:036d}",
        privileged=True,
        clock={"monotonic_ns": 0, "boottime_ns": up_s * 10**9, "realtime_ns": 0},
        start_ns=0,
        measurement="environment",
    )
    return head + writer.environment({"/proc/cmdline": f"quiet {arguments}".strip()})


def totals(series: int, **changes: Any) -> dict[str, int]:
    return Tally(series, **changes).totals()


def latencies(count: int, seed: int = 1, median: float = 8_000, sigma: float = 0.25) -> Any:
    """Values as latencies look: log-normal in ns, with a few rare large ones."""
    random_numbers = np.random.default_rng(seed)
    values = random_numbers.lognormal(np.log(median), sigma, count)
    tail = random_numbers.random(count) < 1e-4
    values[tail] += random_numbers.exponential(40_000, int(tail.sum()))
    return values.astype(np.int32)


def trace_sample(**changes: int) -> dict[str, int | str]:
    """The body of a record ``trace`` that names a sample."""
    sample = {"snapshot": 0, "series": 0, "index": 14, "due_ns": 14, "value": 12345}
    return {"part": "sample", **sample, "cpu": 0, "thread": 99, **changes}


def trace_page(**changes: int) -> dict[str, int | str | bytes]:
    """The body of a record ``trace`` with one byte of a page."""
    page = {"snapshot": 0, "cpu": 0, "number": 0, "at": 0, **changes}
    return {"part": "page", **page, "data": b"\1"}


def one_of_each(seed: int = 1) -> Builder:
    """A small stream with every record and every event."""
    values = latencies(40, seed).tolist()
    stream = (
        Builder()
        .add(RecordType.ENVIRONMENT, {"facts": {"uname.release": "6.1", "agent.uid": 0}})
        .add(RecordType.ENVIRONMENT, {"facts": {"/proc/none": None, "blob": b"\0\xff"}})
        .add(
            RecordType.SETTING,
            {"name": "x", "asked": "-1", "before": None, "effective": "-1", "reason": ""},
        )
        .series(0)
        .series(1, interval_ns=0, unit="count", scale=10, labels={}, stamp_ns=23)
        .series(2, companion=0, name="offset", cpu=-1, thread=-1)
        .samples(0, 0, values[:10])
        .samples(1, 0, [-1, 2**31 - 1, -(2**31)], due_ns=77)
        .samples(2, 0, [5] * 10)
        .event("missed", 11, series=0, index=9, count=3)
        .samples(0, 13, values[10:20])
        .event("maximum", 12, series=0, index=14, value=12345)
        .event("wide", 13, series=1, index=1, value=2**40)
        .event("lost", 14, series=0, index=23, count=2, max=9000)
        .samples(0, 25, values[20:])
        .event("withheld", 14, series=0, index=45, count=3)
        .event("setting", 15, name="x", expected="1", found="2")
        .event("threshold", 16, series=0, index=30, value=10**9)
        .event("load", 17, load="sched", message="it died")
        .event("message", 18, text="hello", nested=[1, {"a": 2}], flag=True)
        .event("of-tomorrow", 19, series=2, what=None)
        .series(3)
        .samples(3, 4, [7, 8, 9, 10], gaps=[(1, 2), (3, 70_000)])
        .gaps(3, 80_000, [(5, 1)])
        .histogram(0, values)
        .histogram(1, [-5, 0, 300, 2**40], missed=1, lost=2, overruns=3)
        .histogram(2, [])
        .add(RecordType.CLOCK, CLOCKS)
        .add(
            RecordType.WORK,
            {"load": "cpu", "unit": "loops", "count": 5, "from_ns": 0, "to_ns": 9},
        )
        .add(
            RecordType.TABLE,
            {
                "name": "t",
                "columns": [{"name": "period", "unit": "ns"}, {"name": "note", "unit": ""}],
                "rows": [[1000, "ok"], [-5, ""]],
            },
        )
        .add(
            RecordType.VERDICT,
            {"rule": "r", "result": "pass", "evidence": "seen", "remedy": ""},
        )
        .add(RecordType.AMBIENCE, ambience_body(frequency_khz=[None, 800_000]))
        .add(RecordType.AMBIENCE, ambience_body(cpus=[], smi=None, temperature_mc={}))
        .add(RecordType.TRACE, {"part": "format", "name": "sched/sched_switch", "data": b"ID: 1"})
        .add(RecordType.TRACE, {"part": "cost", "without_ns": 3000, "with_ns": 8000})
        .add(RecordType.TRACE, {"part": "lost", "reason": "no rights", "remedy": "run as root"})
        .add(RecordType.TRACE, trace_sample())
        .add(RecordType.TRACE, trace_page())
        .add(
            RecordType.TRACE, {"part": "end", "snapshot": 0, "pages": 1, "omitted": 0, "error": ""}
        )
        .add(12345, {"unknown": True})
    )
    rows = [totals(0, count=42, missed=3, lost=2, overruns=1, last_due_ns=44_000_000), totals(1)]
    return stream.trailer(series=rows)


def plain(record: Record) -> tuple[RecordType, int, dict[str, Any]]:
    """A record of ``rtgauge.stream`` as the page's reader gives it: type, sequence, body."""
    kind = {
        "SeriesInfo": RecordType.SERIES,
    }.get(type(record).__name__) or RecordType[type(record).__name__.upper()]
    body = {
        field.name: _plain(getattr(record, field.name))
        for field in dataclasses.fields(record)
        if field.name
        not in ("sequence", "position", "gaps_position", "fields", "values", "buckets")
    }
    if kind == RecordType.SAMPLES:
        body["samples"] = record.values.tolist()  # type: ignore[union-attr]
    elif kind == RecordType.HISTOGRAM:
        body["buckets"] = record.buckets.ravel().tolist()  # type: ignore[union-attr]
    elif kind in (RecordType.EVENT, RecordType.TRACE):
        body |= record.fields  # type: ignore[union-attr]
        if kind == RecordType.EVENT and body["series"] is None:
            del body["series"]
    return kind, record.sequence, body


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value.ravel().tolist() if isinstance(value, np.ndarray) else value


def read_plain(data: bytes, sizes: Sequence[int] = (), sealed: bool = False) -> dict[str, Any]:
    """What ``rtgauge.stream`` finds in ``data``, as the page's reader gives it.

    ``sizes``: feed it in pieces of these sizes, in turn; without, at once.
    """
    reader = StreamReader(sealed=sealed)
    refused = False
    records: list[tuple[int, int, dict[str, Any] | None]] = []
    at = number = 0
    while at < len(data):
        size = sizes[number % len(sizes)] if sizes else len(data)
        number += 1
        try:
            spans = reader.spans(data[at : at + size])
        except Exception as error:
            if type(error).__name__ != "StreamError":
                raise
            refused = True
            break
        for span in spans:
            found = plain(span.record) if span.record else (span.type, span.sequence, None)
            assert found[:2] == (span.type, span.sequence)
            records.append(found)
        at += size
    end = reader.finish()
    assert end.records == len(records)
    return {
        "records": records,
        "complete": end.complete,
        "dropped_bytes": len(data) if refused else end.dropped_bytes,
        "lost_records": end.lost_records,
        "refused": refused,
    }


def pack(kind: int, sequence: int, body: bytes) -> bytes:
    """An envelope with a true CRC around any bytes."""

    def head(major: int, value: int) -> bytes:
        for low, width in ((27, 8), (26, 4), (25, 2), (24, 1)):
            if value >= (24 if width == 1 else 256 ** (width // 2)):
                return bytes([major << 5 | low]) + value.to_bytes(width, "big")
        return bytes([major << 5 | value])

    sizes = head(0, kind) + head(0, sequence) + head(2, len(body))
    return b"\x84" + sizes + body + head(0, zlib.crc32(body))


@lru_cache(maxsize=512)
def bodies(data: bytes) -> tuple[tuple[int, int, bytes], ...]:
    """Type, sequence number and body of each record of a good stream."""
    found = []
    at = 0
    while at < len(data):
        kind, sequence, body, at = reader_from_page.envelope(data, at)
        found.append((kind, sequence, body))
    return tuple(found)


def mutate(data: bytes, rng: random.Random, pool: Sequence[bytes]) -> bytes:
    """One random damage: bits, bytes, cuts, repeats, swaps of parts, lengths, foreign parts."""
    if not data:
        return rng.choice(pool)
    at = rng.randrange(len(data))
    length = min(len(data) - at, rng.choice((1, 2, 4, 9, 40, 300)))
    match rng.randrange(8):
        case 0:
            changed = bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        case 1:
            changed = rng.randbytes(length) + data[at + length :]
        case 2:
            changed = b""
        case 3:
            changed = data[at + length :]
        case 4:
            changed = data[at : at + length] + data[at:]
        case 5:
            special = rng.choice(
                (b"\xff", b"\x9b" + b"\xff" * 8, b"\x5f", b"\xfb", b"\xc2", b"\x84")
            )
            changed = special + data[at + len(special) :]
        case 6:
            other = rng.choice(pool)
            cut = rng.randrange(len(other) + 1)
            changed = other[cut:]
        case _:
            changed = rng.randbytes(length) + data[at:]
    return data[:at] + changed


def damage(data: bytes, rng: random.Random, pool: Sequence[bytes]) -> bytes:
    """A good stream damaged once or more: half of the time inside bodies, with a true CRC, so that
    the damage gets past it."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.5:
            data = mutate(data, rng, pool)
            continue
        try:
            records = list(bodies(data))
        except (EOFError, reader_from_page.Wrong):
            data = mutate(data, rng, pool)
            continue
        for _ in range(rng.choice((1, 1, 2))):
            at = rng.randrange(len(records)) if records else 0
            if not records:
                break
            kind, sequence, body = records[at]
            match rng.randrange(6):
                case 0:
                    records.insert(at, rng.choice(records))
                case 1:
                    del records[at]
                case 2:
                    records[at] = (rng.randrange(15), sequence, body)
                case _:
                    changed = mutate(body, rng, [one[2] for one in records])
                    records[at] = (kind, sequence, changed[:65536])
        renumber = rng.random() < 0.7
        data = b"".join(
            pack(kind, number if renumber else sequence, body)
            for number, (kind, sequence, body) in enumerate(records)
        )
    return data


@lru_cache(maxsize=4096)
def leaves(body: bytes) -> tuple[tuple[int, int, int], ...]:
    """The values of a good body: where each begins and ends, and its major type (0 to 3, and 6 for
    an array of numbers). A number within the byte that announces it is that byte."""
    found = []
    at = 0
    after_tag = False
    while at < len(body):
        major, short = body[at] >> 5, body[at] & 31
        width = {24: 1, 25: 2, 26: 4, 27: 8}.get(short, 0)
        argument = int.from_bytes(body[at + 1 : at + 1 + width], "big") if width else short
        start, at = at, at + 1 + width
        if major in (0, 1):
            found.append((start + 1 if width else start, at, major))
        elif major in (2, 3):
            if argument:
                found.append((at, at + argument, 6 if after_tag else major))
            at += argument
        after_tag = major == 6
    return tuple(found)


def vary(data: bytes, rng: random.Random) -> bytes:
    """A good stream with some of its values changed to others of the same type and width, and true
    CRCs around them: most of these are accepted."""
    records = list(bodies(data))
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(records))
        kind, sequence, body = records[at]
        places = leaves(body)
        if not places:
            continue
        start, stop, major = rng.choice(places)
        if major == 3:
            place = rng.randrange(start, stop)
            new = bytes([rng.choice(b"aZ09 ._:/-<&%'\"")])
        elif major == 6:
            place = start + rng.randrange((stop - start) // 4) * 4
            new = rng.choice((0, 1, -1, 2**31 - 1, -(2**31), rng.getrandbits(20))).to_bytes(
                4, "little", signed=True
            )
        elif stop - start == 1 and body[start] >> 5 in (0, 1) and major == body[start] >> 5:
            place, new = start, bytes([major << 5 | rng.randrange(24)])
        else:
            place, new = rng.randrange(start, stop), rng.randbytes(1)
        changed = body[:place] + new + body[place + len(new) :]
        records[at] = (kind, sequence, changed)
    return b"".join(pack(*one) for one in records)
