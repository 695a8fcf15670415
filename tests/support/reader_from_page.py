# SPDX-License-Identifier: Apache-2.0
"""A second reader of the stream, written from docs/formats/stream.md alone.

It exists to check the page and ``rtgauge.stream`` against each other: it shares no code with the
host (and uses no CBOR library), reads a whole stream at once, and is written for the reader's eye,
not for speed. ``read(data)`` gives what it found as plain tuples and dictionaries.
"""

from __future__ import annotations

import itertools
import zlib
from typing import Any


class Wrong(Exception):
    """Not as the page says."""


class Refused(Exception):
    """A version this reader does not know."""


class Int32Array(list[int]):
    """The content of a tag 78."""


# --- CBOR, as far as the page needs it ----------------------------------------------------------


def head(data: bytes, at: int) -> tuple[int, int, int]:
    """Major type, argument and length of the head of an item."""
    if at >= len(data):
        raise EOFError
    major, low = divmod(data[at], 32)
    if low <= 23:
        return major, low, 1
    if low > 27:
        raise Wrong("indefinite or reserved length")
    width = 2 ** (low - 24)
    if at + 1 + width > len(data):
        raise EOFError
    argument = 0
    for byte in data[at + 1 : at + 1 + width]:
        argument = argument * 256 + byte
    return major, argument, 1 + width


def item(data: bytes, at: int, level: int) -> tuple[Any, int]:
    """One value of a body and where it ends. ``level``: how many maps and arrays are around it."""
    if at < len(data) and data[at] // 32 == 7:
        if data[at] not in (0xF4, 0xF5, 0xF6):
            raise Wrong("floating point or another simple value")
        return {0xF4: False, 0xF5: True, 0xF6: None}[data[at]], at + 1
    major, argument, size = head(data, at)
    at += size
    if major in (0, 1):
        value = argument if major == 0 else -1 - argument
        if not -(2**63) <= value < 2**63:
            raise Wrong("more than 64 bits")
        return value, at
    if major in (2, 3):
        if argument > len(data) - at:
            raise EOFError
        raw = data[at : at + argument]
        try:
            return (raw if major == 2 else raw.decode("utf-8")), at + argument
        except UnicodeDecodeError:
            raise Wrong("not UTF-8") from None
    if major == 6:
        return tagged(data, at, argument)
    return container(data, at, level, major, argument)


def tagged(data: bytes, at: int, tag: int) -> tuple[Any, int]:
    if tag != 78:
        raise Wrong("another tag")
    if at >= len(data) or data[at] // 32 != 2:
        raise Wrong("tag 78 on something else than bytes")
    raw, at = item(data, at, 0)
    if len(raw) % 4 != 0:
        raise Wrong("not whole 32-bit numbers")
    words = [raw[i : i + 4] for i in range(0, len(raw), 4)]
    return Int32Array(int.from_bytes(word, "little", signed=True) for word in words), at


def container(data: bytes, at: int, level: int, major: int, argument: int) -> tuple[Any, int]:
    if level + 1 > 8:
        raise Wrong("nested too deep")
    if major == 4:
        values = []
        for _ in range(argument):
            value, at = item(data, at, level + 1)
            values.append(value)
        return values, at
    pairs: dict[str, Any] = {}
    for _ in range(argument):
        key, at = item(data, at, level + 1)
        if type(key) is not str:
            raise Wrong("a key that is not text")
        if key in pairs:
            raise Wrong("a key twice")
        pairs[key], at = item(data, at, level + 1)
    return pairs, at


def body_of(data: bytes) -> dict[str, Any]:
    try:
        value, end = item(data, 0, 0)
    except EOFError:
        raise Wrong("the body is too short for its map") from None
    if type(value) is not dict or end != len(data):
        raise Wrong("the body is not one map")
    return value


# --- what the page says of each record ----------------------------------------------------------


def integer(value: Any) -> bool:
    return type(value) is int


def natural(value: Any) -> bool:
    return type(value) is int and value >= 0


def from_minus_1(value: Any) -> bool:
    return type(value) is int and value >= -1


def count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= 2**53


def time(value: Any) -> bool:
    return type(value) is int and -(2**60) <= value <= 2**60


def natural_time(value: Any) -> bool:
    return type(value) is int and 0 <= value <= 2**60


def name(value: Any) -> bool:
    return type(value) is str and len(value) <= 1000


def labels(value: Any) -> bool:
    return (
        type(value) is dict
        and len(value) <= 32
        and all(name(key) and name(one) for key, one in value.items())
    )


def columns(value: Any) -> bool:
    return array_of(shape_of(name=name, unit=name))(value) and 1 <= len(value) <= 64


def rows(value: Any) -> bool:
    return array_of(array_of(lambda one: type(one) in (int, str)))(value) and len(value) <= 10000


def scale(value: Any) -> bool:
    return type(value) is int and 1 <= value <= 2**29


def text(value: Any) -> bool:
    return type(value) is str


def text_or_null(value: Any) -> bool:
    return value is None or type(value) is str


def boolean(value: Any) -> bool:
    return type(value) is bool


def fits(value: Any, shape: dict[str, Any]) -> bool:
    return type(value) is dict and all(k in value and check(value[k]) for k, check in shape.items())


def map_of(check: Any) -> Any:
    return lambda value: type(value) is dict and all(check(one) for one in value.values())


def array_of(check: Any) -> Any:
    return lambda value: type(value) is list and all(check(one) for one in value)


def shape_of(**shape: Any) -> Any:
    return lambda value: fits(value, shape)


def one_of(*words: str) -> Any:
    return lambda value: type(value) is str and value in words


def fact(value: Any) -> bool:
    return value is None or type(value) in (str, int, bytes)


def blob(value: Any) -> bool:
    return type(value) is bytes


def count_or_null(value: Any) -> bool:
    return value is None or count(value)


def temperature(value: Any) -> bool:
    return type(value) is int and -(2**53) <= value <= 2**53


def buckets(value: Any) -> bool:
    if type(value) is not list or len(value) % 2 or not all(type(one) is int for one in value):
        return False
    numbers, counts = value[0::2], value[1::2]
    return (
        all(a < b for a, b in itertools.pairwise(numbers))
        and all(-7296 <= number <= 7295 for number in numbers)
        and all(count >= 1 for count in counts)
    )


def bucket(value: int) -> int:
    if value < 0:
        return -1 - bucket(-1 - value)
    highest = value.bit_length() - 1
    return value if highest < 8 else (highest - 7) * 2**7 + (value >> (highest - 7))


CLOCKS = {"monotonic_ns": integer, "boottime_ns": integer, "realtime_ns": integer}
TOTALS = {
    "series": natural,
    "count": count,
    "missed": count,
    "lost": count,
    "overruns": count,
    "first_due_ns": time,
    "last_due_ns": time,
}
SHAPES: dict[int, dict[str, Any]] = {
    0: {
        "agent": text,
        "libc": text,
        "compiler": text,
        "machine": text,
        "run": text,
        "step": natural,
        "measurement": text,
        "parameters": map_of(shape_of(asked=text_or_null, effective=text)),
        "load": text,
        "boot_id": text,
        "privileged": boolean,
        "counter": shape_of(name=text, hz=natural),
        "clock": shape_of(**CLOCKS),
        "start_ns": integer,
    },
    1: {"facts": map_of(fact)},
    2: {
        "name": text,
        "asked": text,
        "before": text_or_null,
        "effective": text_or_null,
        "reason": text,
    },
    3: {
        "series": natural,
        "name": name,
        "context": name,
        "cpu": from_minus_1,
        "thread": from_minus_1,
        "policy": name,
        "priority": integer,
        "labels": labels,
        "unit": name,
        "interval_ns": natural_time,
        "histogram_only": boolean,
    },
    4: {
        "series": natural,
        "index": natural,
        "due_ns": time,
        "samples": lambda value: type(value) is Int32Array and len(value) > 0,
    },
    5: {
        "series": natural,
        "count": count,
        "min": integer,
        "max": integer,
        "sum": integer,
        "missed": count,
        "lost": count,
        "overruns": count,
        "sub_bits": lambda value: type(value) is int and value == 7,
        "buckets": buckets,
    },
    6: {"event": text, "time_ns": time},
    7: CLOCKS,
    8: {"load": text, "unit": text, "count": natural, "from_ns": time, "to_ns": time},
    9: {
        "name": name,
        "columns": columns,
        "rows": rows,
    },
    10: {
        "rule": text,
        "result": one_of("pass", "fail", "inconclusive", "skipped"),
        "evidence": text,
        "remedy": text,
    },
    11: {
        "state": one_of("complete", "interrupted", "failed", "skipped"),
        "reason": text,
        "remedy": text,
        "duration_ns": natural_time,
        "records": natural,
        "series": array_of(shape_of(**TOTALS)),
        "cpu_ns": natural_time,
    },
    12: {
        "time_ns": natural_time,
        "cpus": array_of(count),
        "frequency_khz": array_of(count_or_null),
        "interrupts": lambda value: value is None or array_of(count)(value),
        "steal_ns": lambda value: value is None or array_of(count)(value),
        "smi": count_or_null,
        "temperature_mc": map_of(temperature),
    },
}
EVENTS: dict[str, dict[str, Any]] = {
    "maximum": {"series": natural, "index": natural, "value": integer},
    "missed": {"series": natural, "index": from_minus_1, "count": count},
    "lost": {"series": natural, "index": natural, "count": count, "max": integer},
    "withheld": {"series": natural, "index": natural, "count": count},
    "wide": {"series": natural, "index": natural, "value": integer},
    "setting": {"name": text, "expected": text, "found": text},
    "threshold": {"series": natural, "index": natural, "value": integer},
    "load": {"load": text, "message": text},
    "message": {"text": text},
}


def gaps(value: Any) -> bool:
    return type(value) is Int32Array and len(value) > 0 and len(value) % 2 == 0


OPTIONAL: dict[int, dict[str, Any]] = {
    0: {
        "load_command": (text, None),
        "disturb": (text, None),
        "core": (text, None),
        "core_revision": (natural, None),
    },
    3: {"scale": (scale, 1), "companion": (natural, None), "stamp_ns": (natural_time, None)},
    4: {"gaps": (gaps, None)},
    10: {"command": (text, "")},
    12: {"idle_ns": (array_of(count_or_null), None)},
    11: {"cause": (text, ""), "command": (text, "")},
}
SHAPES[13] = {"series": natural, "index": natural, "gaps": gaps}
SHAPES[14] = {"part": one_of("format", "cost", "lost", "sample", "page", "end", "dropped")}
PARTS: dict[str, dict[str, Any]] = {
    "format": {"name": text, "data": blob},
    "cost": {"without_ns": natural_time, "with_ns": natural_time},
    "lost": {"reason": text, "remedy": text},
    "sample": {
        "snapshot": natural_time,
        "series": natural_time,
        "index": count,
        "due_ns": time,
        "value": time,
        "cpu": lambda value: time(value) and value >= -1,
        "thread": natural_time,
    },
    "page": {
        "snapshot": natural_time,
        "cpu": natural_time,
        "number": natural_time,
        "at": natural_time,
        "data": blob,
    },
    "end": {
        "snapshot": natural_time,
        "pages": natural_time,
        "omitted": natural_time,
        "error": text,
    },
    "dropped": {"samples": natural_time},
}
HEADER, SERIES, SAMPLES, HISTOGRAM, EVENT, TABLE, TRAILER, AMBIENCE = 0, 3, 4, 5, 6, 9, 11, 12
GAPS, TRACE = 13, 14


class Reader:
    """What a stream has said so far."""

    def __init__(self) -> None:
        self.declared: dict[int, int] = {}  # series → its interval
        self.scales: dict[int, int] = {}
        self.bytes = self.cells = self.tables = self.verdicts = 0
        self.ends: dict[int, int] = {}  # series → index after its last block

    def record(self, kind: int, data: bytes) -> dict[str, Any]:
        """The known keys of a record, checked."""
        body = body_of(data)
        if kind == HEADER:
            if body.get("format") != "rtgauge-stream" or not integer(body.get("version")):
                raise Wrong("no stream of rtgauge")
            if body["version"] != 1:
                raise Refused
        shape = SHAPES[kind] | (EVENTS.get(str(body.get("event")), {}) if kind == EVENT else {})
        shape |= PARTS.get(str(body.get("part")), {}) if kind == TRACE else {}
        if not fits(body, shape):
            raise Wrong("a key is missing or of another type")
        found = {key: body[key] for key in shape}
        for key, (check, default) in OPTIONAL.get(kind, {}).items():
            found[key] = body.get(key, default)
            if key in body and not check(body[key]):
                raise Wrong("an optional key of another type")
        if kind == EVENT:
            found = {
                key: value
                for key, value in body.items()
                if value is None or type(value) in (int, str, bytes, bool)
            }
            if "series" in body and not natural(body["series"]):
                raise Wrong("a series that is not a number")
        self.relations(kind, found)
        return found

    def keep(self, kind: int, found: dict[str, Any], size: int) -> None:
        """What of a stream has to be kept in memory is limited."""
        if kind in (1, 2, TABLE, 10):
            self.bytes += size
        if kind == TABLE:
            self.tables += 1
            self.cells += len(found["rows"]) * len(found["columns"])
        self.verdicts += kind == 10
        if self.bytes > 2**24 or self.cells > 10**5 or self.tables > 1000 or self.verdicts > 10**4:
            raise Wrong("too much to keep")

    def missed(self, series: int, gaps: Int32Array, last: int) -> int:
        """The periods missed in a block, its sample number ``last`` the last one."""
        positions, periods = gaps[0::2], gaps[1::2]
        if self.declared[series] == 0:
            raise Wrong("gaps without a grid")
        if any(a >= b for a, b in itertools.pairwise([0, *positions])) or positions[-1] > last:
            raise Wrong("gaps out of order, or outside of the block")
        if any(one < 1 for one in periods):
            raise Wrong("a gap of nothing")
        return sum(periods)

    def in_range(self, series: int, index: int) -> bool:
        """Whether a series may have a sample, or a grid point, of this index."""
        return index <= 2**53 and index * self.declared[series] <= 2**60

    def value(self, series: int, value: int) -> bool:
        return abs(value) * self.scales[series] <= 2**60

    def histogram(self, series: int, found: dict[str, Any]) -> bool:
        """Whether its figures agree with each other."""
        low, high, count, total = (found[key] for key in ("min", "max", "count", "sum"))
        numbers, counts = found["buckets"][0::2], found["buckets"][1::2]
        if sum(counts) != count or not self.value(series, low) or not self.value(series, high):
            return False
        if count == 0:
            return bool(low == high == total == 0)
        least, most = (min(max(one * count, -(2**63)), 2**63 - 1) for one in (low, high))
        ends = (bucket(low), bucket(high)) == (numbers[0], numbers[-1])
        return bool(low <= high and ends and least <= total <= most)

    def event(self, series: int, found: dict[str, Any]) -> bool:
        """Whether what it names lies within the limits."""
        keys = EVENTS.get(found["event"], {}) if "event" in found else PARTS["sample"]
        values = [found[key] for key in ("value", "max") if key in keys]
        if "max" in keys and found["max"] == -(2**63):
            values = []
        last = (found["index"] if "index" in keys else 0) + (
            found["count"] if "count" in keys else 0
        )
        return all(self.value(series, one) for one in values) and self.in_range(series, last)

    @staticmethod
    def totals(one: dict[str, Any]) -> dict[str, Any]:
        """What the trailer says of a series."""
        if one["count"] and one["last_due_ns"] < one["first_due_ns"]:
            raise Wrong("an end before the beginning")
        return {key: one[key] for key in TOTALS}

    def relations(self, kind: int, found: dict[str, Any]) -> None:
        """What a record must agree on with those before it."""
        series = found.get("series")
        if kind == SERIES:
            if series in self.declared or len(self.declared) == 10000:
                raise Wrong("declared twice, or too many")
            self.declared[found["series"]] = found["interval_ns"]
            self.scales[found["series"]] = found["scale"]
        elif kind == TRAILER:
            numbers = [one["series"] for one in found["series"]]
            if any(number not in self.declared for number in numbers):
                raise Wrong("totals of an undeclared series")
            if len(numbers) != len(set(numbers)):
                raise Wrong("totals of a series twice")
            found["series"] = [self.totals(one) for one in found["series"]]
        elif "series" in found and series not in self.declared:
            raise Wrong("undeclared series")
        if kind == SAMPLES:
            assert series is not None
            last = len(found["samples"]) - 1
            if found["gaps"] is not None:
                last += self.missed(series, found["gaps"], last)
            if found["index"] < self.ends.get(series, 0):
                raise Wrong("blocks overlap")
            self.ends[series] = found["index"] + last + 1
            last_due = found["due_ns"] + last * self.declared[series]
            if not self.in_range(series, self.ends[series] - 1) or last_due > 2**60:
                raise Wrong("beyond the limits")
        if kind == GAPS:
            assert series is not None
            last = found["gaps"][-2] + self.missed(series, found["gaps"], 2**31)
            if not self.in_range(series, found["index"] + last):
                raise Wrong("beyond the limits")
        if kind == HISTOGRAM and not self.histogram(found["series"], found):
            raise Wrong("a histogram that contradicts itself")
        if kind in (EVENT, TRACE) and series is not None and not self.event(series, found):
            raise Wrong("an event, or a traced sample, beyond the limits")
        self.lengths(kind, found)

    @staticmethod
    def lengths(kind: int, found: dict[str, Any]) -> None:
        """Lists of a record that must be as long as another."""
        if kind == TABLE and any(len(row) != len(found["columns"]) for row in found["rows"]):
            raise Wrong("rows of another length")
        if kind == AMBIENCE and any(
            found[key] is not None and len(found[key]) != len(found["cpus"])
            for key in ("frequency_khz", "interrupts", "steal_ns", "idle_ns")
        ):
            raise Wrong("not one value for each CPU")


def envelope(data: bytes, at: int) -> tuple[int, int, bytes, int]:
    """Type, sequence number, body (its CRC checked) and the end of the record at ``at``."""
    if data[at] != 0x84:
        raise Wrong("no array of four")
    at += 1
    found: list[Any] = []
    for major in (0, 0, 2, 0):
        if at < len(data) and data[at] // 32 != major:
            raise Wrong("an item of another type")
        _, argument, size = head(data, at)
        if argument < {1: 0, 2: 24, 3: 256, 5: 65536, 9: 2**32}[size]:
            raise Wrong("not the shortest form")
        at += size
        if major == 2:
            if argument > 65536:
                raise Wrong("body too long")
            if at + argument > len(data):
                raise EOFError
            found.append(data[at : at + argument])
            at += argument
        else:
            found.append(argument)
    kind, sequence, body, crc = found
    if zlib.crc32(body) != crc:
        raise Wrong("CRC")
    return kind, sequence, body, at


def read(data: bytes, sealed: bool = False) -> dict[str, Any]:
    """All of a stream: ``records`` as (type, sequence number, known keys; None for an unknown
    type), ``complete``, ``dropped_bytes``, ``lost_records``, ``refused``."""
    reader = Reader()
    records: list[tuple[int, int, dict[str, Any] | None]] = []
    at, expected, lost = 0, 0, 0
    complete = refused = False
    while at < len(data) and not complete:
        try:
            kind, sequence, body, end = envelope(data, at)
            if (kind == HEADER) != (not records) or (not records and sequence != 0):
                raise Wrong("the header is first and only there")
            if sequence < expected:
                raise Wrong("the sequence does not grow")
            found = reader.record(kind, body) if kind in SHAPES else None
            if found is not None:
                reader.keep(kind, found, end - at)
            records.append((kind, sequence, found))
        except (Wrong, EOFError):
            break
        except Refused:
            refused = True
            break
        lost += 0 if sealed else sequence - expected
        expected = sequence + 1
        at = end
        complete = kind == TRAILER
    return {
        "records": records,
        "complete": complete,
        "dropped_bytes": len(data) - at,
        "lost_records": lost,
        "refused": refused,
    }
