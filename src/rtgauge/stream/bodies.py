# SPDX-License-Identifier: Apache-2.0
"""From the body of a record to what it says: each key looked at, as docs/formats/stream.md asks
("What a reader checks")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType
from typing import TypeAlias, cast

import numpy as np

from rtgauge.errors import StreamError
from rtgauge.stream.cbor import INT64_MAX, INT64_MIN, Bad, Value
from rtgauge.stream.records import (
    Ambience,
    Clock,
    ClockReading,
    Column,
    Counter,
    Environment,
    Event,
    Fact,
    Header,
    Histogram,
    Parameter,
    Record,
    RecordType,
    SeriesInfo,
    SeriesTotals,
    Setting,
    Table,
    Trace,
    Trailer,
    Verdict,
    Work,
)

FORMAT = "rtgauge-stream"
VERSION = 1
SUB_BITS = 7
SERIES_LIMIT = 10_000
NUMBER_LIMIT = 1 << 60
"""Times in ns, and values times the scale of their series, lie between this and its negative, so
that differences, sums of two and products by 2 fit 64 bits; in ns it is 36 years."""
COUNT_LIMIT = 1 << 53
"""The largest index or count, which a double holds exactly."""
SCALE_LIMIT = NUMBER_LIMIT >> 31
NAME_LIMIT = 1000
"""Maximum number of characters of a text that identifies a series."""
LABELS_LIMIT = 32
COLUMNS_LIMIT = 64
ROWS_LIMIT = 10_000
CELLS_LIMIT = 100_000
"""Maximum number of values in all tables of a stream."""
TABLES_LIMIT = 1000
VERDICTS_LIMIT = 10_000
SENSORS_LIMIT = 256
CPUS_LIMIT = 4096
"""Maximum number of temperature sensors and CPUs in the ``ambience`` records of a stream. Reports
have an entry for each."""
KEPT_LIMIT = 1 << 24
"""Bytes of the records of a stream whose content a reader keeps: facts, settings, tables, rules."""
UNKNOWN = INT64_MIN
"""The largest lost sample if it is not known."""

# The highest bucket is that of the largest 64-bit value: its highest set bit is 62.
_BUCKET_MAX = (62 - SUB_BITS) * (1 << SUB_BITS) + (1 << (SUB_BITS + 1)) - 1
_BUCKET_MIN = -1 - _BUCKET_MAX


class Body:
    """Takes keys out of a decoded map, each with its type."""

    __slots__ = ("pairs", "what")

    def __init__(self, pairs: dict[str, Value], what: str = "") -> None:
        self.pairs = pairs
        self.what = what

    def _bad(self, key: str, kind: str) -> Bad:
        name = f"{self.what}{key}"
        if key not in self.pairs:
            return Bad(f"the key '{name}' is missing")
        return Bad(f"'{name}' is not {kind}")

    def integer(self, key: str, low: int = INT64_MIN, high: int = INT64_MAX) -> int:
        value = self.pairs.get(key)
        if type(value) is not int:
            raise self._bad(key, "an integer")
        if value < low:
            raise Bad(f"'{self.what}{key}' is {value}, below {low}")
        if value > high:
            raise Bad(f"'{self.what}{key}' is {value}, above {high}")
        return value

    def count(self, key: str, low: int = 0) -> int:
        return self.integer(key, low, COUNT_LIMIT)

    def time(self, key: str, low: int = -NUMBER_LIMIT) -> int:
        return self.integer(key, low, NUMBER_LIMIT)

    def count_or_null(self, key: str) -> int | None:
        return None if self.pairs.get(key, 0) is None else self.count(key)

    def text(self, key: str) -> str:
        value = self.pairs.get(key)
        if type(value) is not str:
            raise self._bad(key, "text")
        return value

    def name(self, key: str) -> str:
        value = self.text(key)
        if len(value) > NAME_LIMIT:
            raise Bad(f"'{self.what}{key}' has {len(value)} characters, more than {NAME_LIMIT}")
        return value

    def blob(self, key: str) -> bytes:
        value = self.pairs.get(key)
        if type(value) is not bytes:
            raise self._bad(key, "a byte string")
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

    def map(self, key: str) -> dict[str, Value]:
        value = self.pairs.get(key)
        if type(value) is not dict:
            raise self._bad(key, "a map")
        return value

    def inner(self, key: str) -> Body:
        return Body(self.map(key), f"{self.what}{key}.")

    def array(self, key: str) -> list[Value]:
        value = self.pairs.get(key)
        if type(value) is not list:
            raise self._bad(key, "an array")
        return value

    def bodies(self, key: str) -> Iterator[Body]:
        for number, value in enumerate(self.array(key)):
            if type(value) is not dict:
                raise Bad(f"'{self.what}{key}' has an item that is not a map")
            yield Body(value, f"{self.what}{key}[{number}].")


class Declared:
    """State of a series in the reader: whether the next block may come, and its limits."""

    __slots__ = ("interval_ns", "last_index", "last_value", "next_index")

    def __init__(self, interval_ns: int, scale: int) -> None:
        self.interval_ns = interval_ns
        self.next_index = 0
        self.last_index = min(COUNT_LIMIT, NUMBER_LIMIT // max(interval_ns, 1))
        self.last_value = NUMBER_LIMIT // scale

    def check_index(self, last: int) -> None:
        """Bad if a sample or a grid point with this index is beyond the limits."""
        if last > self.last_index:
            raise Bad(
                f"the index {last} is beyond {self.last_index}, the highest that the series allows"
            )


DeclaredSeries: TypeAlias = dict[int, Declared]

_STATES = ("complete", "interrupted", "failed", "skipped")
_RESULTS = ("pass", "fail", "inconclusive", "skipped")
# The further keys of the known events: name → lowest value of an integer, or None for text; of a
# value the limit depends on its series.
_EVENT_KEYS: dict[str, dict[str, int | None]] = {
    "maximum": {"series": 0, "index": 0, "value": INT64_MIN},
    "missed": {"series": 0, "index": -1, "count": 0},
    "lost": {"series": 0, "index": 0, "count": 0, "max": INT64_MIN},
    "withheld": {"series": 0, "index": 0, "count": 0},
    "wide": {"series": 0, "index": 0, "value": INT64_MIN},
    "setting": {"name": None, "expected": None, "found": None},
    "threshold": {"series": 0, "index": 0, "value": INT64_MIN},
    "load": {"load": None, "message": None},
    "message": {"text": None},
}
# The further keys of the parts of a trace: name → lowest value of an integer, or its type.
_TRACE_KEYS: dict[str, dict[str, int | type]] = {
    "format": {"name": str, "data": bytes},
    "cost": {"without_ns": 0, "with_ns": 0},
    "lost": {"reason": str, "remedy": str},
    "sample": {
        "snapshot": 0,
        "series": 0,
        "index": 0,
        "due_ns": -NUMBER_LIMIT,
        "value": -NUMBER_LIMIT,
        "cpu": -1,
        "thread": 0,
    },
    "page": {"snapshot": 0, "cpu": 0, "number": 0, "at": 0, "data": bytes},
    "end": {"snapshot": 0, "pages": 0, "omitted": 0, "error": str},
    "dropped": {"samples": 0},
}
_SIMPLE_TYPES = (int, str, bytes, bool, type(None))


def declared(body: Body, series: DeclaredSeries) -> int:
    number = body.integer("series", 0)
    if number not in series:
        raise Bad(f"series {number} was not declared")
    return number


def _clock_reading(body: Body) -> tuple[int, int, int]:
    return (
        body.integer("monotonic_ns"),
        body.integer("boottime_ns"),
        body.integer("realtime_ns"),
    )


def _header(sequence: int, body: Body, _series: DeclaredSeries) -> Header:
    parameters = {}
    for name, value in body.map("parameters").items():
        if type(value) is not dict:
            raise Bad(f"'parameters.{name}' is not a map")
        inner = Body(value, f"parameters.{name}.")
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
        load_command=body.text("load_command") if "load_command" in body.pairs else None,
        disturb=body.text("disturb") if "disturb" in body.pairs else None,
        core=body.text("core") if "core" in body.pairs else None,
        core_revision=body.integer("core_revision", 0) if "core_revision" in body.pairs else None,
    )


def _environment(sequence: int, body: Body, _series: DeclaredSeries) -> Environment:
    facts = body.map("facts")
    for name, value in facts.items():
        if type(value) not in (str, int, bytes, type(None)):
            raise Bad(f"the fact '{name}' is not text, an integer, bytes or null")
    return Environment(sequence, MappingProxyType(cast("dict[str, Fact]", facts)))


def _setting(sequence: int, body: Body, _series: DeclaredSeries) -> Setting:
    return Setting(
        sequence,
        body.text("name"),
        body.text("asked"),
        body.text_or_null("before"),
        body.text_or_null("effective"),
        body.text("reason"),
    )


def _series_info(sequence: int, body: Body, series: DeclaredSeries) -> SeriesInfo:
    number = body.integer("series", 0)
    labels = body.map("labels")
    if any(type(value) is not str for value in labels.values()):
        raise Bad("a label is not text")
    if len(labels) > LABELS_LIMIT or any(
        len(text) > NAME_LIMIT
        for label in labels.items()
        for text in cast("tuple[str, str]", label)
    ):
        raise Bad(f"there are more than {LABELS_LIMIT} labels, or {NAME_LIMIT} characters in one")
    info = SeriesInfo(
        sequence=sequence,
        series=number,
        name=body.name("name"),
        context=body.name("context"),
        cpu=body.integer("cpu", -1),
        thread=body.integer("thread", -1),
        policy=body.name("policy"),
        priority=body.integer("priority"),
        labels=MappingProxyType(cast("dict[str, str]", labels)),
        unit=body.name("unit"),
        scale=body.integer("scale", 1, SCALE_LIMIT) if "scale" in body.pairs else 1,
        interval_ns=body.time("interval_ns", 0),
        companion=body.integer("companion", 0) if "companion" in body.pairs else None,
        histogram_only=body.boolean("histogram_only"),
        stamp_ns=body.time("stamp_ns", 0) if "stamp_ns" in body.pairs else None,
    )
    if number in series:
        raise Bad(f"series {number} is declared twice")
    if len(series) >= SERIES_LIMIT:
        raise Bad(f"there are more than {SERIES_LIMIT} series")
    series[number] = Declared(info.interval_ns, info.scale)
    return info


def _histogram(sequence: int, body: Body, series: DeclaredSeries) -> Histogram:
    number = declared(body, series)
    if body.integer("sub_bits") != SUB_BITS:
        raise Bad(f"'sub_bits' is not {SUB_BITS}")
    flat = body.array("buckets")
    if len(flat) % 2 or not set(map(type, flat)) <= {int}:
        raise Bad("'buckets' are not pairs of integers")
    buckets = np.array(flat, dtype=np.int64).reshape(-1, 2)
    numbers, counts = buckets[:, 0], buckets[:, 1]
    if len(buckets):
        if bool((numbers[1:] <= numbers[:-1]).any()):
            raise Bad("the buckets are not in ascending order")
        if numbers[0] < _BUCKET_MIN or numbers[-1] > _BUCKET_MAX:
            raise Bad("a bucket is beyond the range of 64-bit values")
        if bool((counts < 1).any()):
            raise Bad("a bucket has a count below 1")
    buckets.flags.writeable = False
    last = series[number].last_value
    count, low, high = (
        body.count("count"),
        body.integer("min", -last),
        body.integer("max", -last, last),
    )
    total = body.integer("sum")
    if sum(counts.tolist()) != count:
        raise Bad("the counts of the buckets do not add up to 'count'")
    if not len(buckets):
        if (low, high, total) != (0, 0, 0):
            raise Bad("it has no samples, but a minimum, a maximum or a sum")
    elif low > high or (_bucket(low), _bucket(high)) != (numbers[0], numbers[-1]):
        raise Bad("'min' and 'max' do not lie in the first and the last bucket")
    elif not _within_64_bits(low * count) <= total <= _within_64_bits(high * count):
        raise Bad("'sum' is not possible with values from 'min' to 'max'")
    return Histogram(
        sequence=sequence,
        series=number,
        count=count,
        min=low,
        max=high,
        sum=total,
        missed=body.count("missed"),
        lost=body.count("lost"),
        overruns=body.count("overruns"),
        sub_bits=SUB_BITS,
        buckets=buckets,
    )


def _within_64_bits(number: int) -> int:
    return min(max(number, INT64_MIN), INT64_MAX)


def _bucket(value: int) -> int:
    """The bucket of a value (docs/formats/stream.md, type 5)."""
    if value < 0:
        return -1 - _bucket(-1 - value)
    shift = max(value.bit_length() - 1 - SUB_BITS, 0)
    return (shift << SUB_BITS) + (value >> shift)


def _event(sequence: int, body: Body, series: DeclaredSeries) -> Event:
    name = body.text("event")
    time_ns = body.time("time_ns")
    for key, low in _EVENT_KEYS.get(name, {}).items():
        if low is None:
            body.text(key)
        else:
            body.integer(key, low)
    number = declared(body, series) if "series" in body.pairs else None
    if number is not None and name in _EVENT_KEYS:
        _event_limits(name, body, series[number])
    fields = {
        key: value
        for key, value in body.pairs.items()
        if key not in ("event", "time_ns", "series") and isinstance(value, _SIMPLE_TYPES)
    }
    return Event(sequence, name, time_ns, number, MappingProxyType(fields))


def _event_limits(name: str, body: Body, series: Declared) -> None:
    """Bad when an event names samples, grid points or values beyond the limits of its series."""
    for key in ("value", "max"):
        unknown = key == "max" and body.pairs.get(key) == UNKNOWN
        if key in _EVENT_KEYS[name] and not unknown:
            body.integer(key, -series.last_value, series.last_value)
    last = body.integer("index", -1) if "index" in _EVENT_KEYS[name] else 0
    if "count" in _EVENT_KEYS[name]:
        last += body.count("count")
    series.check_index(last)


def _trace(sequence: int, body: Body, series: DeclaredSeries) -> Trace:
    part = body.choice("part", tuple(_TRACE_KEYS))
    fields: dict[str, int | str | bytes] = {}
    for key, kind in _TRACE_KEYS[part].items():
        if isinstance(kind, int):
            fields[key] = body.integer(key, kind, NUMBER_LIMIT)
        else:
            fields[key] = body.text(key) if kind is str else body.blob(key)
    if part == "sample":
        limits = series[declared(body, series)]
        body.integer("value", -limits.last_value, limits.last_value)
        limits.check_index(body.count("index"))
    return Trace(sequence, part, MappingProxyType(fields))


def _clock(sequence: int, body: Body, _series: DeclaredSeries) -> Clock:
    return Clock(sequence, *_clock_reading(body))


def _work(sequence: int, body: Body, _series: DeclaredSeries) -> Work:
    return Work(
        sequence,
        body.text("load"),
        body.text("unit"),
        body.integer("count", 0),
        body.time("from_ns"),
        body.time("to_ns"),
    )


def _counts(body: Body, key: str, cpus: int | None = None) -> tuple[int, ...]:
    """Integers that are not below 0, as many as there are CPUs."""
    values = body.array(key)
    if cpus is not None and len(values) != cpus:
        raise Bad(f"'{key}' has {len(values)} items for {cpus} CPUs")
    if any(type(value) is not int or not 0 <= value <= COUNT_LIMIT for value in values):
        raise Bad(f"'{key}' has an item that is not an integer from 0 to {COUNT_LIMIT}")
    return tuple(cast("list[int]", values))


def _counts_or_null(body: Body, key: str, cpus: int) -> tuple[int, ...] | None:
    return None if body.pairs.get(key, 0) is None else _counts(body, key, cpus)


def _known(body: Body, key: str, cpus: int) -> tuple[int | None, ...]:
    """An integer for each CPU; None if it is not known."""
    values = body.array(key)
    if len(values) != cpus:
        raise Bad(f"'{key}' has {len(values)} items for {cpus} CPUs")
    if any(v is not None and (type(v) is not int or not 0 <= v <= COUNT_LIMIT) for v in values):
        raise Bad(f"'{key}' has an item that is not null or an integer to {COUNT_LIMIT}")
    return tuple(cast("list[int | None]", values))


def _ambience(sequence: int, body: Body, _series: DeclaredSeries) -> Ambience:
    cpus = _counts(body, "cpus")
    temperature = body.map("temperature_mc")
    if any(type(t) is not int or abs(t) > COUNT_LIMIT for t in temperature.values()):
        raise Bad(f"a temperature is not an integer to {COUNT_LIMIT}")
    return Ambience(
        sequence=sequence,
        time_ns=body.time("time_ns", 0),
        cpus=cpus,
        frequency_khz=_known(body, "frequency_khz", len(cpus)),
        interrupts=_counts_or_null(body, "interrupts", len(cpus)),
        steal_ns=_counts_or_null(body, "steal_ns", len(cpus)),
        smi=body.count_or_null("smi"),
        temperature_mc=MappingProxyType(cast("dict[str, int]", temperature)),
        idle_ns=_known(body, "idle_ns", len(cpus)) if "idle_ns" in body.pairs else None,
    )


def _table(sequence: int, body: Body, _series: DeclaredSeries) -> Table:
    columns = tuple(Column(c.name("name"), c.name("unit")) for c in body.bodies("columns"))
    if not 1 <= len(columns) <= COLUMNS_LIMIT:
        raise Bad(f"a table has {len(columns)} columns, not 1 to {COLUMNS_LIMIT}")
    if len(body.array("rows")) > ROWS_LIMIT:
        raise Bad(f"a table has more than {ROWS_LIMIT} rows")
    rows = []
    for row in body.array("rows"):
        if type(row) is not list or len(row) != len(columns):
            raise Bad(f"a row does not have one value for each of the {len(columns)} columns")
        if not set(map(type, row)) <= {int, str}:
            raise Bad("a value of a row is not an integer or text")
        rows.append(tuple(cast("list[int | str]", row)))
    return Table(sequence, body.name("name"), columns, tuple(rows))


def _verdict(sequence: int, body: Body, _series: DeclaredSeries) -> Verdict:
    return Verdict(
        sequence,
        body.text("rule"),
        body.choice("result", _RESULTS),
        body.text("evidence"),
        body.text("remedy"),
        body.text("command") if "command" in body.pairs else "",
    )


def wrong_totals(totals: SeriesTotals) -> str:
    """Contradiction in the totals of a series, in words; empty without one."""
    counts = (totals.count, totals.missed, totals.lost, totals.overruns)
    if min(counts) < 0 or max(counts) > COUNT_LIMIT:
        return f"its totals have a count that is not from 0 to {COUNT_LIMIT}"
    if max(abs(totals.first_due_ns), abs(totals.last_due_ns)) > NUMBER_LIMIT:
        return f"its totals have a time beyond {NUMBER_LIMIT}"
    if totals.count and totals.last_due_ns < totals.first_due_ns:
        return "it ends before it begins"
    return ""


def _series_totals(body: Body, series: DeclaredSeries) -> SeriesTotals:
    totals = SeriesTotals(
        series=declared(body, series),
        count=body.integer("count"),
        missed=body.integer("missed"),
        lost=body.integer("lost"),
        overruns=body.integer("overruns"),
        first_due_ns=body.integer("first_due_ns"),
        last_due_ns=body.integer("last_due_ns"),
    )
    if reason := wrong_totals(totals):
        raise Bad(f"series {totals.series}: {reason}")
    return totals


def _trailer(sequence: int, body: Body, series: DeclaredSeries) -> Trailer:
    totals = tuple(_series_totals(one, series) for one in body.bodies("series"))
    if len({one.series for one in totals}) != len(totals):
        raise Bad("the totals name a series twice")
    return Trailer(
        sequence=sequence,
        state=body.choice("state", _STATES),
        reason=body.text("reason"),
        remedy=body.text("remedy"),
        duration_ns=body.time("duration_ns", 0),
        records=body.integer("records", 0),
        series=totals,
        cpu_ns=body.time("cpu_ns", 0),
        cause=body.text("cause") if "cause" in body.pairs else "",
        command=body.text("command") if "command" in body.pairs else "",
    )


class Kept:
    """Counts what a reader keeps of a stream; Bad at the first record above a limit."""

    __slots__ = ("_bytes", "_cells", "_cpus", "_sensors", "_tables", "_verdicts")

    def __init__(self) -> None:
        self._bytes = self._cells = self._tables = self._verdicts = 0
        self._cpus: set[int] = set()
        self._sensors: set[str] = set()

    def add(self, record: Record, size: int) -> None:
        """A record of ``size`` bytes."""
        if isinstance(record, Ambience):
            self._cpus.update(record.cpus)
            self._sensors.update(record.temperature_mc)
            _check_most("temperature sensors", len(self._sensors), SENSORS_LIMIT)
            _check_most("CPUs", len(self._cpus), CPUS_LIMIT)
            return
        if not isinstance(record, Environment | Setting | Table | Verdict):
            return
        self._bytes += size
        if isinstance(record, Table):
            self._tables += 1
            self._cells += len(record.rows) * len(record.columns)
        self._verdicts += isinstance(record, Verdict)
        for name, number, most in (
            ("bytes of facts, settings, tables and tests", self._bytes, KEPT_LIMIT),
            ("values in its tables", self._cells, CELLS_LIMIT),
            ("tables", self._tables, TABLES_LIMIT),
            ("tests", self._verdicts, VERDICTS_LIMIT),
        ):
            _check_most(name, number, most)


def _check_most(name: str, number: int, most: int) -> None:
    if number > most:
        raise Bad(f"the stream has more than {most} {name}")


RECORDS: dict[int, Callable[[int, Body, DeclaredSeries], Record]] = {
    RecordType.HEADER: _header,
    RecordType.ENVIRONMENT: _environment,
    RecordType.SETTING: _setting,
    RecordType.SERIES: _series_info,
    RecordType.HISTOGRAM: _histogram,
    RecordType.EVENT: _event,
    RecordType.CLOCK: _clock,
    RecordType.WORK: _work,
    RecordType.AMBIENCE: _ambience,
    RecordType.TRACE: _trace,
    RecordType.TABLE: _table,
    RecordType.VERDICT: _verdict,
    RecordType.TRAILER: _trailer,
}


def check_version(body: Body) -> None:
    if body.text("format") != FORMAT:
        raise Bad(f"its format is not '{FORMAT}'")
    version = body.integer("version")
    if version != VERSION:
        raise StreamError(
            f"the stream has version {version}. This program reads version {VERSION}",
            "read it with the version of rtgauge that it was written for",
        )
