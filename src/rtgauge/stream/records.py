# SPDX-License-Identifier: Apache-2.0
"""The records of a stream, as the reader gives them (docs/formats/stream.md)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray


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
    AMBIENCE = 12
    GAPS = 13
    TRACE = 14


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
    """Subject of the stream; its first record."""

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
    load_command: str | None = None
    disturb: str | None = None
    core: str | None = None
    """The real-time core that the measuring threads ran on; None: Linux."""
    core_revision: int | None = None


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
    """The declaration of a series. A sample times ``scale`` is the value in ``unit``; ``stamp_ns``
    was taken off each one already, None where nothing was."""

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
    stamp_ns: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """A block of consecutive samples; sample k has the index ``index + k``, and more by the periods
    that were missed before it.

    ``values`` is read-only and lies in the bytes that were fed, and keeps them in memory.
    ``gaps``: rows (position, periods): the periods missed before the sample at that position. None
    without any. ``position``, ``gaps_position``: the first byte of the samples and of the gaps in
    the stream.
    """

    sequence: int
    series: int
    index: int
    due_ns: int
    values: NDArray[np.int32]
    position: int = field(repr=False)
    gaps: NDArray[np.int32] | None = None
    gaps_position: int = field(default=0, repr=False)

    @property
    def missed(self) -> int:
        """Periods that were missed within the block."""
        return 0 if self.gaps is None else int(self.gaps[:, 1].sum(dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Trace:
    """A part of the kernel's trace that was kept for the causes of samples: ``format``, ``cost``,
    ``lost``, ``sample``, ``page`` or ``end``, and its further keys."""

    sequence: int
    part: str
    fields: Mapping[str, int | str | bytes]


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """The periods missed within a block whose samples are not here: rows (position, periods), as
    of ``Samples``, at least one; ``index`` is that of the block's first sample."""

    sequence: int
    series: int
    index: int
    gaps: NDArray[np.int32]

    @property
    def missed(self) -> int:
        """Periods that were missed."""
        return int(self.gaps[:, 1].sum(dtype=np.int64))


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
class Ambience:
    """Background activity at ``time_ns``, and what was counted since the record before (nothing in
    the first one).

    The tuples have one item for each of ``cpus``. None: not available. ``temperature_mc``:
    zone to thousandths of a degree Celsius. ``idle_ns``: older agents did not record it.
    """

    sequence: int
    time_ns: int
    cpus: tuple[int, ...]
    frequency_khz: tuple[int | None, ...]
    interrupts: tuple[int, ...] | None
    steal_ns: tuple[int, ...] | None
    smi: int | None
    temperature_mc: Mapping[str, int]
    idle_ns: tuple[int | None, ...] | None = None


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
    command: str = ""
    """The command in the remedy, if any."""


@dataclass(frozen=True, slots=True)
class SeriesTotals:
    """Totals of a series: ``count`` samples were taken, ``lost`` of them not kept."""

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
    cause: str = ""
    """Why the step failed, where another try may succeed: ``busy``, ``disturbed``."""
    command: str = ""
    """The command in the remedy, if any."""


Record: TypeAlias = (
    Header
    | Environment
    | Setting
    | SeriesInfo
    | Samples
    | Gaps
    | Histogram
    | Event
    | Clock
    | Work
    | Ambience
    | Trace
    | Table
    | Verdict
    | Trailer
)


class Span(NamedTuple):
    """An accepted record, which is bytes ``start`` to ``stop`` of the stream.

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
    cut: bool
