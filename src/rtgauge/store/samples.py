# SPDX-License-Identifier: Apache-2.0
"""Reading of the store: runs, their steps, and the samples of each series.

On the path of a sample: from Parquet (or, while a step runs, from its stream) to the statistics,
in chunks, so that any number of samples needs only the memory of one chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from rtgauge.errors import StoreError, StreamError
from rtgauge.store.files import read_json, write_json
from rtgauge.store.folder import ENVIRONMENT, step_path
from rtgauge.store.parquet import COLUMNS, ParquetReader, Whole
from rtgauge.store.scan import (
    Chunk,
    Int64s,
    SeriesScan,
    StepScan,
    Values,
    read_blocks,
    scan_stream,
    spans_of,
)
from rtgauge.store.seal import RECORDS, STREAM, Seal, parquet_name, read_seal, trailer_state
from rtgauge.stream import (
    Ambience,
    Clock,
    Environment,
    Event,
    Fact,
    Header,
    Histogram,
    RecordType,
    SeriesInfo,
    SeriesTotals,
    Setting,
    StreamEnd,
    StreamReader,
    Table,
    Trace,
    Trailer,
    Verdict,
    Work,
)

__all__ = ["CAUSES", "IMPORTED", "LastingRecords", "StoredRun", "StoredSeries", "StoredStep"]


CAUSES: Final = "causes.json"
IMPORTED: Final = "imported"
"""Name of the empty file that marks the folder of a run from a bundle."""
_DAMAGED: Final = "restore the run from a copy, or delete it"


class StoredSeries:
    """A series of a step and its samples."""

    def __init__(self, step: StoredStep, scan: SeriesScan, rows: int, totals: SeriesTotals) -> None:
        self._step = step
        self._scan = scan
        self._totals = totals
        self.info: SeriesInfo = scan.info
        self.count: int = rows
        """Number of samples kept. ``totals.count`` also counts those that were lost."""

    @cached_property
    def totals(self) -> SeriesTotals:
        """The agent's totals; of a step without a trailer, as far as its records tell."""
        totals = self._totals
        older = self.info.interval_ns == 0 and totals.last_due_ns == totals.first_due_ns
        if not (older and self.count and self._step.in_parquet):
            return totals
        # Older versions sealed a series without a grid without the time of its last sample.
        path = self._step.folder / parquet_name(self.info.series)
        with _readable(path), ParquetReader(path) as reader:
            first, last = reader.limits("due_ns")
            return replace(totals, first_due_ns=first, last_due_ns=last)

    @property
    def histogram(self) -> Histogram | None:
        """The last snapshot."""
        return self._scan.histogram

    def events(self) -> Iterator[Event]:
        """The events of this series, in order."""
        return (event for event in self._step.events() if event.series == self.info.series)

    @property
    def missed_events(self) -> tuple[Int64s, Int64s]:
        """After which index periods were skipped, and how many; two arrays of one length."""
        return self._scan.missed_events()

    @property
    def lost_events(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """Runs of samples that were taken and not kept: index of the first, time (ns from the
        start of the step), number, largest; four arrays of one length."""
        return self._scan.lost_events()

    @property
    def withheld(self) -> int:
        """Number of samples that are in the histogram alone: there was no room to keep them until
        the host took them."""
        return self._scan.withheld

    @property
    def companion(self) -> StoredSeries | None:
        """The series that holds the offsets of this one's due times from their grid, if any."""
        return self._step.companions.get(self.info.series)

    def chunks(self) -> Iterator[Chunk]:
        """All samples in order, about a million at a time.

        StoreError when the file is damaged.
        """
        if self.count == 0:
            return
        if self._step.in_parquet:
            for columns in self._groups(COLUMNS):
                yield Chunk(*columns)
        else:
            yield from read_blocks(self._step.folder / STREAM, self._scan)

    def values(self) -> Iterator[Values]:
        """The values alone, which is several times faster; int64 where wide ones are among them."""
        if self.count and self._step.in_parquet:
            for (values,) in self._groups(["value"]):
                yield values
        else:
            for chunk in self.chunks():
                yield chunk.value

    def _groups(self, columns: Sequence[str]) -> Iterator[list[Whole]]:
        """The columns of one row group after the other."""
        path = self._step.folder / parquet_name(self.info.series)
        rows = 0
        with _readable(path), ParquetReader(path) as reader:
            for group, size in enumerate(reader.groups):
                # A step that was running at the first look may have gone on since.
                stop = max(self.count - rows, 0)
                rows += size
                yield [reader.read(group, column)[:stop] for column in columns]
        if rows != self.count and self._step.sealed:
            raise StoreError(f"{path} has {rows} samples, but {self.count} were sealed", _DAMAGED)


def _sealed_records(path: Path, seal: Seal) -> StepScan:
    """The records of a sealed step. StoreError unless they are those that were sealed."""
    scan = scan_stream(path, sealed=True)
    whole = not scan.end.dropped_bytes and scan.end.complete == seal.end.complete
    same = trailer_state(scan.trailer) == seal.trailer
    if not (whole and same and list(scan.series) == [one.series for one in seal.series]):
        raise StoreError(f"{path} differs from what was sealed", _DAMAGED)
    return scan


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """A Parquet file that cannot be read is a StoreError."""
    try:
        yield
    except (OSError, KeyError, ValueError) as error:
        raise StoreError(
            f"cannot read the samples in {path}: {str(error).splitlines()[0]}", _DAMAGED
        ) from error


T = TypeVar("T", Clock, Work, Ambience, Trace)


class LastingRecords(Generic[T]):
    """The records of one kind that come for as long as a step lasts, in order.

    They are read from the file each time they are gone through; of days there are tens of
    thousands, and they are not all needed at once.
    """

    def __init__(self, step: StoredStep, scan: StepScan, kind: type[T], number: RecordType) -> None:
        self._step = step
        self._length = scan.lasting[number]
        self._kind: type[T] = kind
        self._number = number

    def __len__(self) -> int:
        return self._length

    def __contains__(self, record: object) -> bool:
        return any(one == record for one in self)

    def __iter__(self) -> Iterator[T]:
        left = len(self)
        if not left:
            return
        sealed = self._step.in_parquet
        path = self._step.folder / (RECORDS if sealed else STREAM)
        for span in spans_of(path, StreamReader(sealed=sealed, only=(self._number,))):
            if isinstance(span.record, self._kind):
                yield span.record
                left -= 1
                # A step that was running at the first look may have gone on since.
                if not left:
                    return


class StoredStep:
    """A step of a run: the measurement, what it found, how it ended.

    A step that is running (or that could not be sealed) is read from its stream, as far as that
    goes at the moment of the first look.
    """

    def __init__(self, run: Path, number: int, document: Mapping[str, Any]) -> None:
        self.number = number
        self.document = document
        self.folder = step_path(run, number)

    @cached_property
    def _seal(self) -> Seal | None:
        return read_seal(self.folder)

    @property
    def sealed(self) -> bool:
        return self._seal is not None

    @property
    def in_parquet(self) -> bool:
        """Whether the samples are in Parquet by now; a step may be sealed while it is read."""
        return self.sealed or not (self.folder / STREAM).exists()

    @cached_property
    def _scan(self) -> StepScan:
        if self._seal is not None:
            return _sealed_records(self.folder / RECORDS, self._seal)
        if (self.folder / STREAM).exists():
            return scan_stream(self.folder / STREAM)
        if self.document.get("state") == "complete":
            raise StoreError(f"the data of {self.folder} are missing", _DAMAGED)
        return StepScan(end=StreamEnd(False, 0, 0, 0, "the step was not carried out", False))

    @property
    def header(self) -> Header | None:
        """None for a step that was not carried out."""
        return self._scan.header

    @property
    def facts(self) -> dict[str, Fact]:
        """The environment at the start of the step."""
        return self._scan.facts

    @property
    def settings(self) -> list[Setting]:
        return self._scan.settings

    @property
    def clocks(self) -> LastingRecords[Clock]:
        """The clocks read together, every 10 s."""
        return LastingRecords(self, self._scan, Clock, RecordType.CLOCK)

    @property
    def work(self) -> LastingRecords[Work]:
        """Work of each load, from record to record."""
        return LastingRecords(self, self._scan, Work, RecordType.WORK)

    @property
    def ambience(self) -> LastingRecords[Ambience]:
        """Background activity during the measurement."""
        return LastingRecords(self, self._scan, Ambience, RecordType.AMBIENCE)

    @property
    def trace(self) -> LastingRecords[Trace]:
        """The stored parts of the kernel's trace, for the causes of samples."""
        return LastingRecords(self, self._scan, Trace, RecordType.TRACE)

    @property
    def tables(self) -> list[Table]:
        return self._scan.tables

    @property
    def verdicts(self) -> list[Verdict]:
        return self._scan.verdicts

    @property
    def told(self) -> list[Event]:
        """The events that have something to say (load, setting, threshold, message), in order,
        the first thousand of each kind; the others are counted with each series."""
        return self._scan.told

    @property
    def trailer(self) -> Trailer | None:
        return self._scan.trailer

    @property
    def end(self) -> StreamEnd:
        """How the agent's stream ended, also after it was sealed."""
        return self._seal.end if self._seal else self._scan.end

    @cached_property
    def series(self) -> list[StoredSeries]:
        """The series in the order in which they were declared."""
        found = []
        sealed = {one.series: one for one in self._seal.series} if self._seal else {}
        for number, scan in self._scan.series.items():
            one = sealed.get(number)
            rows = one.rows if one else scan.rows
            totals = one.totals if one else scan.totals(self._scan.trailer)
            found.append(StoredSeries(self, scan, rows, totals))
        return found

    @cached_property
    def companions(self) -> dict[int, StoredSeries]:
        """Series -> the one that holds the offsets of its due times, the first of several."""
        serving = [(s.info.companion, s) for s in self.series if s.info.companion is not None]
        return dict(reversed(serving))

    def events(self) -> Iterator[Event]:
        """All events, in order, each read when it is asked for: there may be millions of
        ``missed``, of which those within blocks of samples are not events. What reports need comes
        without: ``told``, ``missed_events``, ``lost_events``.
        """
        if self.header is None:
            return
        sealed = self.in_parquet
        path = self.folder / (RECORDS if sealed else STREAM)
        for span in spans_of(path, StreamReader(sealed=sealed)):
            if isinstance(span.record, Event):
                yield span.record


class StoredRun:
    """A run in the store."""

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self.path = path
        self.document = document

    @property
    def id(self) -> str:
        return str(self.document["id"])

    @cached_property
    def steps(self) -> list[StoredStep]:
        """The steps in the order in which the results list them."""
        return [
            StoredStep(self.path, int(entry["step"]), entry)
            for entry in self.document.get("steps", [])
        ]

    @property
    def imported(self) -> bool:
        """Whether the run came from a bundle."""
        return (self.path / IMPORTED).exists()

    @property
    def facts(self) -> dict[str, Fact]:
        """What was known about the target when the run began; nothing where that is damaged."""
        try:
            records = StreamReader().feed((self.path / ENVIRONMENT).read_bytes())
        except (OSError, StreamError):
            return {}
        facts: dict[str, Fact] = {}
        for record in records:
            if isinstance(record, Environment):
                facts.update(record.facts)
        return facts

    @property
    def causes(self) -> dict[str, Any]:
        """What was found out about the causes of samples (docs/formats/results.md): the content of
        ``causes.json``, or an empty document. Raises StoreError if it is damaged."""
        path = self.path / CAUSES
        return read_json(path, f"{CAUSES} of run {self.id}") if path.exists() else {}

    def save_causes(self, document: dict[str, Any]) -> None:
        """Replace ``causes.json``; the files of the run stay as they are. Raises StoreError."""
        write_json(self.path / CAUSES, document)
