# SPDX-License-Identifier: Apache-2.0
"""One pass through the stream of a step: everything but the samples, and where those stand.

Memory: the declarations, facts, tables and verdicts, and the last histogram of each series; what
else there is grows with the time measured. It is counted; or noted as numbers (``growing``), which
go into a file, and are in memory for one series at a time: 32 bytes for each block of samples and
each loss, 16 for each event of missed periods or of a wide value. The samples are read later,
block by block.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rtgauge.store.files import store_errors
from rtgauge.store.growing import Numbers, Spill
from rtgauge.stream import (
    READ_SIZE,
    Ambience,
    Clock,
    Environment,
    Event,
    Fact,
    Header,
    Histogram,
    RecordType,
    Samples,
    SeriesInfo,
    SeriesTotals,
    Setting,
    Span,
    StreamEnd,
    StreamReader,
    Table,
    Trailer,
    Verdict,
    Work,
)

__all__ = [
    "CHUNK_ROWS",
    "Chunk",
    "SeriesScan",
    "StepScan",
    "load_failure",
    "read_blocks",
    "scan_stream",
]

CHUNK_ROWS = 1 << 20
COUNTED = ("maximum", "missed", "lost", "wide")
"""Events that may come by the million: they are kept as numbers, the others as they are."""
TOLD_LIMIT = 1000
"""So many events of each other kind are kept."""

Int64s: TypeAlias = NDArray[np.int64]
Values: TypeAlias = NDArray[np.int32] | NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Consecutive samples of a series: three arrays of one length.

    ``due_ns`` is the grid point's, from the start of the step, without dither; in a series without
    a grid, the time at which the first sample of its block was taken.
    """

    index: Int64s
    due_ns: Int64s
    value: Values


@dataclass(slots=True)
class SeriesScan:
    """A series as one pass finds it."""

    info: SeriesInfo
    blocks: Numbers  # index, due, count, position
    missed: Numbers  # index, count
    wide: Numbers  # index, value
    losses: Numbers  # index, time, count, max
    histogram: Histogram | None = None
    rows: int = 0
    lost: int = 0

    def block_table(self) -> Int64s:
        """One row (index, due_ns, count, position in the stream) for each block."""
        return self.blocks.table(4)

    def missed_events(self) -> tuple[Int64s, Int64s]:
        table = self.missed.table(2)
        return table[:, 0], table[:, 1]

    def lost_events(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        table = self.losses.table(4)
        return table[:, 0], table[:, 1], table[:, 2], table[:, 3]

    def wide_values(self) -> tuple[Int64s, Int64s]:
        """Index, rising, and value of the samples that stand whole in events."""
        table = self.wide.table(2)[::-1]
        index, first = np.unique(table[:, 0], return_index=True)
        return index, table[first, 1]

    def totals(self, trailer: Trailer | None) -> SeriesTotals:
        """From the trailer; without one, what the records before say."""
        for totals in trailer.series if trailer else ():
            if totals.series == self.info.series:
                return totals
        _, missed = self.missed_events()
        last = self.histogram
        first_due_ns = last_due_ns = 0
        if self.rows:
            blocks = self.block_table()
            first_due_ns = int(blocks[0, 1])
            last_due_ns = int(blocks[-1, 1]) + (int(blocks[-1, 2]) - 1) * self.info.interval_ns
        return SeriesTotals(
            series=self.info.series,
            count=max(self.rows + self.lost, last.count if last else 0),
            missed=max(_sum(missed), last.missed if last else 0),
            lost=max(self.lost, last.lost if last else 0),
            overruns=max(len(missed), last.overruns if last else 0),
            first_due_ns=first_due_ns,
            last_due_ns=last_due_ns,
        )


def _sum(numbers: Int64s) -> int:
    """The exact sum, however large the numbers of a hostile stream are."""
    return sum(sum(numbers[at : at + 65536].tolist()) for at in range(0, len(numbers), 65536))


@dataclass(slots=True)
class StepScan:
    """A step as one pass finds it. ``spill`` takes what would grow with its length."""

    spill: Spill = field(default_factory=lambda: Spill(None))

    header: Header | None = None
    facts: dict[str, Fact] = field(default_factory=dict)
    settings: list[Setting] = field(default_factory=list)
    series: dict[int, SeriesScan] = field(default_factory=dict)
    beside: Counter[RecordType] = field(default_factory=Counter)
    """Number of the records ``clock``, ``work`` and ``ambience``, which grow with time."""
    last_ns: int = 0
    """The last moment that those name, from the start of the step."""
    tables: list[Table] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    told: list[Event] = field(default_factory=list)
    told_of: Counter[str] = field(default_factory=Counter)
    trailer: Trailer | None = None
    end: StreamEnd = field(default_factory=lambda: StreamEnd(False, 0, 0, 0, "not read yet"))
    good_bytes: int = 0


def _take(scan: StepScan, span: Span) -> None:
    match span.record:
        case Samples() as block:
            series = scan.series[block.series]
            count = len(block.values)
            series.blocks.extend((block.index, block.due_ns, count, block.position))
            series.rows += count
        case Event() as event:
            _take_event(scan, event)
        case Histogram() as histogram:
            scan.series[histogram.series].histogram = histogram
        case SeriesInfo() as info:
            scan.series[info.series] = SeriesScan(info, *_four(scan.spill))
        case Header() as header:
            scan.header = header
        case Environment(facts=facts):
            scan.facts.update(facts)
        case Setting() as setting:
            scan.settings.append(setting)
        case Clock(monotonic_ns=time_ns):
            _take_moment(scan, span, time_ns - (scan.header.start_ns if scan.header else time_ns))
        case Work(to_ns=time_ns) | Ambience(time_ns=time_ns):
            _take_moment(scan, span, time_ns)
        case Table() as table:
            scan.tables.append(table)
        case Verdict() as verdict:
            scan.verdicts.append(verdict)
        case Trailer() as trailer:
            scan.trailer = trailer


def _four(spill: Spill) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    return Numbers(spill), Numbers(spill), Numbers(spill), Numbers(spill)


def _take_moment(scan: StepScan, span: Span, time_ns: int) -> None:
    scan.beside[RecordType(span.type)] += 1
    scan.last_ns = max(scan.last_ns, time_ns)


def _take_event(scan: StepScan, event: Event) -> None:
    if event.event in COUNTED and event.series is not None:
        series, fields = scan.series[event.series], event.fields
        if event.event == "missed":
            series.missed.extend((_number(fields["index"]), _number(fields["count"])))
        elif event.event == "wide":
            series.wide.extend((_number(fields["index"]), _number(fields["value"])))
        elif event.event == "lost":
            index, count, largest = (_number(fields[key]) for key in ("index", "count", "max"))
            series.lost += count
            series.losses.extend((index, event.time_ns, count, largest))
    elif scan.told_of[event.event] < TOLD_LIMIT and len(scan.told_of) <= TOLD_LIMIT:
        scan.told_of[event.event] += 1
        scan.told.append(event)


def load_failure(events: Iterable[Event]) -> tuple[str, str] | None:
    """Reason and remedy of a step whose load died, whatever its trailer says: it was not measured
    under that load. None if no event says so."""
    died = next((event for event in events if event.event == "load"), None)
    if died is None:
        return None
    return (
        f"the load {died.fields.get('load')!s} stopped working: {died.fields.get('message')!s}",
        "what was measured was not measured under that load; run the step again",
    )


def _number(value: Fact) -> int:
    assert isinstance(value, int)  # the reader checked it
    return value


def spans_of(path: Path, reader: StreamReader) -> Iterator[Span]:
    """The records of a stream's file. StoreError when it cannot be read."""
    with store_errors("read", path), open(path, "rb", buffering=0) as file:
        while data := file.read(READ_SIZE):
            yield from reader.spans(data)


def scan_stream(
    path: Path, *, sealed: bool = False, sink: Callable[[Span], None] | None = None
) -> StepScan:
    """Read a stream's file once. ``sink`` gets every record that was accepted.

    StoreError when the file cannot be read, StreamError when it is of a newer version; damage is
    no error, but stands in ``end``.
    """
    reader = StreamReader(sealed=sealed)
    scan = StepScan(Spill(path.parent))
    for span in spans_of(path, reader):
        _take(scan, span)
        scan.good_bytes = span.stop
        if sink is not None:
            sink(span)
    scan.end = reader.finish()
    return scan


def read_blocks(path: Path, series: SeriesScan, rows: int = CHUNK_ROWS) -> Iterator[Chunk]:
    """The samples of a series out of its stream, ``rows`` at a time; wide values whole.

    The blocks were checked when the stream was scanned; only their bytes are read here.
    """
    blocks = series.block_table()
    if not len(blocks):
        return
    ends = np.cumsum(blocks[:, 2])
    wide = series.wide_values()
    with store_errors("read", path):
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for first_row in range(0, series.rows, rows):
                last_row = min(first_row + rows, series.rows)
                # The blocks with rows in this chunk; of the first and last perhaps not all.
                first = int(np.searchsorted(ends, first_row, side="right"))
                last = int(np.searchsorted(ends, last_row, side="left"))
                part = blocks[first : last + 1].copy()
                skipped = first_row - (int(ends[first]) - int(part[0, 2]))
                part[-1, 2] -= int(ends[last]) - last_row
                part[0] += (skipped, skipped * series.info.interval_ns, -skipped, 4 * skipped)
                yield _chunk(file, part, series.info.interval_ns, wide)
        finally:
            os.close(file)


def _pairs(table: Int64s) -> Iterator[list[int]]:
    """The rows as Python's own numbers, of which a million at once would take a lot."""
    for at in range(0, len(table), 4096):
        yield from table[at : at + 4096].tolist()


def _chunk(file: int, blocks: Int64s, interval_ns: int, wide: tuple[Int64s, Int64s]) -> Chunk:
    counts = blocks[:, 2]
    begins = np.cumsum(counts) - counts
    rows = int(counts.sum())
    within = np.arange(rows, dtype=np.int64) - np.repeat(begins, counts)
    index = np.repeat(blocks[:, 0], counts) + within
    due_ns = np.repeat(blocks[:, 1], counts) + within * interval_ns
    narrow = np.empty(rows, dtype="<i4")
    memory = narrow.view(np.uint8).data
    at = 0
    for count, position in _pairs(blocks[:, 2:]):
        size = 4 * count
        if os.preadv(file, [memory[at : at + size]], position) != size:
            raise OSError("it became shorter while it was read")
        at += size
    value: Values = narrow.astype(np.int32, copy=False)
    if len(wide[0]):
        value = value.astype(np.int64)
        where = np.searchsorted(index, wide[0])
        here = where < rows
        here[here] = index[where[here]] == wide[0][here]
        value[where[here]] = wide[1][here]
    return Chunk(index, due_ns, value)
