# SPDX-License-Identifier: Apache-2.0
"""One pass through the stream of a step: everything but the samples, and their places.

Memory: the declarations, facts, tables and verdicts, and the last histogram of each series.
Everything else grows with the time measured. It is counted, or kept as numbers (``growing``) in a
file, of which those of one series at a time are in memory: 48 bytes for each block of samples, 32
for each loss, 16 for each occasion on which periods were missed and each wide value. The samples
are read later, block by block.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rtgauge.store.files import store_errors
from rtgauge.store.growing import Numbers, Spill
from rtgauge.stream import (
    COUNT_LIMIT,
    READ_SIZE,
    Ambience,
    Clock,
    Environment,
    Event,
    Fact,
    Gaps,
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
    Trace,
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
COUNTED = ("maximum", "missed", "lost", "wide", "withheld")
"""Events that may come by the million: they are kept as numbers, the others as they are."""
TOLD_LIMIT = 1000
"""Maximum number of events kept of each other kind."""

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
    blocks: Numbers  # index, due, count, position, position of its gaps, number of them
    missed: Numbers  # index, count
    wide: Numbers  # index, value
    losses: Numbers  # index, time, count, max
    histogram: Histogram | None = None
    rows: int = 0
    lost: int = 0
    withheld: int = 0
    """Samples that are in the histogram alone."""
    last_due_ns: int = 0
    """Due time of the last sample, on its grid."""

    def block_table(self) -> Int64s:
        """One row for each block: index, due_ns, count, position in the stream; position of its
        gaps there, and how many it has."""
        return self.blocks.table(6)

    def missed_events(self) -> tuple[Int64s, Int64s]:
        """Index, rising, of the samples before the missed periods, and number of these."""
        index, count = self.missed.columns(2)
        if np.any(index[1:] < index[:-1]):
            order = np.argsort(index, kind="stable")
            index, count = index[order], count[order]
        return index, count

    def lost_events(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        index, time_ns, count, largest = self.losses.columns(4)
        return index, time_ns, count, largest

    def wide_values(self) -> tuple[Int64s, Int64s]:
        """Index, ascending, and value of the samples whose whole values are in events."""
        table = self.wide.table(2)[::-1]
        index, first = np.unique(table[:, 0], return_index=True)
        return index, table[first, 1]

    def _timed(self, totals: SeriesTotals) -> SeriesTotals:
        """Without a grid, the times of the samples, which older agents did not write."""
        if self.info.interval_ns or not self.rows:
            return totals
        due_ns = self.block_table()[:, 1]
        first_ns, last_ns = int(due_ns.min()), int(due_ns.max())
        return replace(totals, first_due_ns=first_ns, last_due_ns=last_ns)

    def totals(self, trailer: Trailer | None) -> SeriesTotals:
        """From the trailer; without one, what the records before say."""
        for totals in trailer.series if trailer else ():
            if totals.series == self.info.series:
                return self._timed(totals)
        _, missed = self.missed_events()
        last = self.histogram
        first_due_ns = int(self.block_table()[0, 1]) if self.rows else 0
        return SeriesTotals(
            series=self.info.series,
            count=_count(self.rows + self.withheld + self.lost, last.count if last else 0),
            missed=_count(_sum(missed), last.missed if last else 0),
            lost=_count(self.lost, last.lost if last else 0),
            overruns=max(len(missed), last.overruns if last else 0),
            first_due_ns=first_due_ns,
            last_due_ns=max(first_due_ns, self.last_due_ns),
        )


def _count(counted: int, snapshot: int) -> int:
    """Counts of the samples and of the last histogram, within the limit of a stream's counts."""
    return min(max(counted, snapshot), COUNT_LIMIT)


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
    lasting: Counter[RecordType] = field(default_factory=Counter)
    """Number of the records ``clock``, ``work``, ``ambience`` and ``trace``, which grow with
    time."""
    last_ns: int = 0
    """The last moment that those name, from the start of the step."""
    tables: list[Table] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    told: list[Event] = field(default_factory=list)
    told_of: Counter[str] = field(default_factory=Counter)
    trailer: Trailer | None = None
    end: StreamEnd = field(default_factory=lambda: StreamEnd(False, 0, 0, 0, "not read yet", False))
    good_bytes: int = 0


def _take(scan: StepScan, span: Span) -> None:
    match span.record:
        case Samples() as block:
            series = scan.series[block.series]
            count = len(block.values)
            gaps = 0 if block.gaps is None else len(block.gaps)
            series.blocks.extend(
                (block.index, block.due_ns, count, block.position, block.gaps_position, gaps)
            )
            series.rows += count
            last = count - 1 + block.missed
            series.last_due_ns = block.due_ns + last * series.info.interval_ns
            if block.gaps is not None:
                series.missed.extend_array(missed_of(block.index, block.gaps))
        case Gaps() as block:
            scan.series[block.series].missed.extend_array(missed_of(block.index, block.gaps))
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
        case Trace():
            scan.lasting[RecordType.TRACE] += 1
        case Table() as table:
            scan.tables.append(table)
        case Verdict() as verdict:
            scan.verdicts.append(verdict)
        case Trailer() as trailer:
            scan.trailer = trailer


def missed_of(index: int, gaps: NDArray[np.int32]) -> Int64s:
    """The gaps of a block that begins at ``index`` as the events ``missed`` that they stand for:
    rows (index of the sample before, periods)."""
    found = gaps.astype(np.int64)
    found[:, 0] += index - 1
    found[1:, 0] += np.cumsum(found[:-1, 1])
    return found


def _four(spill: Spill) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    return Numbers(spill), Numbers(spill), Numbers(spill), Numbers(spill)


def _take_moment(scan: StepScan, span: Span, time_ns: int) -> None:
    scan.lasting[RecordType(span.type)] += 1
    scan.last_ns = max(scan.last_ns, time_ns)


def _take_event(scan: StepScan, event: Event) -> None:
    if event.event in COUNTED and event.series is not None:
        series, fields = scan.series[event.series], event.fields
        if event.event == "missed":
            series.missed.extend((_number(fields["index"]), _number(fields["count"])))
        elif event.event == "wide":
            series.wide.extend((_number(fields["index"]), _number(fields["value"])))
        elif event.event == "withheld":
            series.withheld += _number(fields["count"])
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
        f"load {died.fields.get('load')!s} stopped working: {died.fields.get('message')!s}",
        "run the step again, because the load was missing from part of it",
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
    reported in ``end``.
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
                part = _stretches(file, blocks[first : last + 1], series.info.interval_ns)
                skipped = first_row - (int(ends[first]) - int(blocks[first, 2]))
                part = _cut(part, skipped, skipped + last_row - first_row, series.info.interval_ns)
                yield _chunk(file, part, series.info.interval_ns, wide)
        finally:
            os.close(file)


def _stretches(file: int, blocks: Int64s, interval_ns: int) -> Int64s:
    """The blocks cut where periods were missed: rows (index, due_ns, count, position)."""
    pieces = 1 + blocks[:, 5]
    if not blocks[:, 5].any():
        return blocks[:, :4]
    gaps = np.empty((int(blocks[:, 5].sum()), 2), "<i4")
    memory = gaps.view(np.uint8).reshape(-1).data
    at = 0
    for position, number in _pairs(blocks[blocks[:, 5] > 0, 4:]):
        _fetch(file, memory[at : at + 8 * number], position)
        at += 8 * number
    ends = np.cumsum(pieces)
    begins = np.zeros(int(ends[-1]), np.int64)  # within its block
    missed = np.zeros_like(begins)
    inner = np.ones(len(begins), bool)
    inner[ends - pieces] = False
    begins[inner], missed[inner] = gaps[:, 0], gaps[:, 1]
    stops = np.empty_like(begins)
    stops[:-1] = begins[1:]
    stops[ends - 1] = blocks[:, 2]
    total = np.cumsum(missed)
    before = total - np.repeat(total[ends - pieces], pieces)
    found = np.repeat(blocks[:, :4], pieces, axis=0)
    found[:, 0] += begins + before
    found[:, 1] += (begins + before) * interval_ns
    found[:, 2] = stops - begins
    found[:, 3] += 4 * begins
    return found


def _cut(part: Int64s, first: int, last: int, interval_ns: int) -> Int64s:
    """The samples from ``first`` to before ``last`` of all in the stretches."""
    ends = np.cumsum(part[:, 2])
    begin = int(np.searchsorted(ends, first, side="right"))
    stop = int(np.searchsorted(ends, last, side="left"))
    found = part[begin : stop + 1].copy()
    skipped = first - (int(ends[begin]) - int(part[begin, 2]))
    found[-1, 2] -= int(ends[stop]) - last
    found[0] += (skipped, skipped * interval_ns, -skipped, 4 * skipped)
    return found


def _fetch(file: int, into: memoryview, position: int) -> None:
    if os.preadv(file, [into], position) != len(into):
        raise OSError("it became shorter while it was read")


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
    # Stretches of one block lie one behind the other: read at once.
    joined = np.ones(len(blocks), bool)
    joined[1:] = blocks[1:, 3] != blocks[:-1, 3] + 4 * counts[:-1]
    where = np.flatnonzero(joined)
    for size, position in _pairs(
        np.column_stack((4 * np.add.reduceat(counts, where), blocks[where, 3]))
    ):
        _fetch(file, memory[at : at + size], position)
        at += size
    value: Values = narrow.astype(np.int32, copy=False)
    if len(wide[0]):
        value = value.astype(np.int64)
        where = np.searchsorted(index, wide[0])
        here = where < rows
        here[here] = index[where[here]] == wide[0][here]
        value[where[here]] = wide[1][here]
    return Chunk(index, due_ns, value)
