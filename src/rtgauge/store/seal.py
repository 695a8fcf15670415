# SPDX-License-Identifier: Apache-2.0
"""Sealing a step: its samples move from the stream into Parquet (docs/formats/store.md).

Step 8 of the path of a sample. The stream stays until everything in it is elsewhere, durable, read
back and compared. After an interruption before that, it is sealed again from the beginning.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rtgauge.errors import StoreError
from rtgauge.store.files import TEMPORARY, commit, read_json, store_errors, sync_folder, write_json
from rtgauge.store.parquet import COLUMNS, ParquetReader, ParquetWriter
from rtgauge.store.scan import (
    CHUNK_ROWS,
    SeriesScan,
    StepScan,
    read_blocks,
    scan_stream,
    spans_of,
)
from rtgauge.stream import (
    Ambience,
    Clock,
    Histogram,
    RecordType,
    Samples,
    SeriesTotals,
    Span,
    StreamEnd,
    StreamReader,
    Trailer,
    Work,
    encode_record,
)

__all__ = [
    "COLUMNS",
    "RECORDS",
    "SEAL",
    "STREAM",
    "Seal",
    "SealedSeries",
    "parquet_name",
    "read_seal",
    "seal_step",
    "trailer_state",
]

STREAM = "stream.cbor"
RECORDS = "records.cbor"
DROPPED = "dropped.bin"
SEAL = "seal.json"
FORMAT = "rtgauge-seal"
VERSION = 1

# docs/formats/store.md has the figures behind these.
ROW_GROUP = CHUNK_ROWS
ZSTD_LEVEL = 1
SMALL_ROWS = 1 << 17  # up to here all planes of a page share one block of zstd,
SMALL_ZSTD_LEVEL = 16  # which only the higher levels cut where the planes meet
# Histograms that no samples make superfluous are all kept in the first ten minutes, then one a
# minute.
DETAIL_NS = 600 * 10**9
SNAPSHOT_NS = 60 * 10**9
_DAMAGED = "restore the run from a copy, or delete it"


def parquet_name(series: int) -> str:
    """The name of the file with the samples of a series."""
    return f"series-{series}.parquet"


@dataclass(frozen=True, slots=True)
class SealedSeries:
    """What a step's seal says of a series. ``max`` is None when no value is known; ``companion``
    is the series that this one only serves, if any."""

    series: int
    name: str
    unit: str
    scale: int
    rows: int
    max: int | None
    totals: SeriesTotals
    companion: int | None = None


@dataclass(frozen=True, slots=True)
class Seal:
    """Content of ``seal.json``: how the stream ended, and what was extracted."""

    end: StreamEnd
    trailer: dict[str, str] | None  # its state, reason, remedy, command
    series: list[SealedSeries]


def seal_step(folder: Path, run: str, step: int) -> Seal:
    """Seal the step in ``folder``; a step that is sealed already only says so again.

    Reads the stream three times and what was written once; needs memory for one row group of one
    series and 48 bytes for each of its blocks. StoreError when something cannot be read or
    written, StreamError when the stream is of a newer version: then the stream stays as it was.
    """
    stream = folder / STREAM
    if not stream.exists():
        seal = read_seal(folder)
        if seal is None:
            raise StoreError(f"step {step + 1} of run {run} has no stream", "start the run again")
        return seal
    _remove_leftovers(folder)
    histograms = _Histograms()
    scan = scan_stream(stream, sink=histograms.take)
    sealed: list[SealedSeries] = []
    for series in scan.series.values():
        highest = _seal_series(folder, stream, scan, series, run, step)
        if series.histogram is not None and series.histogram.count:
            most = series.histogram.max
            highest = most if highest is None else max(most, highest)
        info = series.info
        sealed.append(
            SealedSeries(
                series=info.series,
                name=info.name,
                unit=info.unit,
                scale=info.scale,
                rows=series.rows,
                max=highest,
                totals=series.totals(scan.trailer),
                companion=info.companion,
            )
        )
    seal = Seal(scan.end, trailer_state(scan.trailer), sealed)
    write_json(folder / SEAL, _document(seal))
    with store_errors("write", folder / DROPPED):
        _keep_dropped(folder, stream, scan)
    with store_errors("write", folder / RECORDS):
        _write_records(folder, stream, scan, histograms.last)
    with store_errors("remove", stream):
        stream.unlink()
        sync_folder(folder)
    return seal


def read_seal(folder: Path) -> Seal | None:
    """Content of a step's ``seal.json``. None for a step that is not sealed."""
    path = folder / SEAL
    if not path.exists() or (folder / STREAM).exists():
        return None
    document = read_json(path, "a step's seal")
    try:
        if document["format"] != FORMAT:
            raise ValueError(document["format"])
        if document["version"] > VERSION:
            raise StoreError(
                f"{path} has version {document['version']}, but this rtgauge reads up to {VERSION}",
                "use the newer rtgauge that wrote it",
            )
        series = [
            SealedSeries(**{**one, "totals": SeriesTotals(**one["totals"])})
            for one in document["series"]
        ]
        return Seal(StreamEnd(**document["end"]), document["trailer"], series)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path} is damaged", _DAMAGED) from error


def _document(seal: Seal) -> dict[str, Any]:
    return {"format": FORMAT, "version": VERSION, **dataclasses.asdict(seal)}


def trailer_state(trailer: Trailer | None) -> dict[str, str] | None:
    """The trailer's state as a seal stores it."""
    if trailer is None:
        return None
    command = {"command": trailer.command} if trailer.command else {}
    return {"state": trailer.state, "reason": trailer.reason, "remedy": trailer.remedy, **command}


def _remove_leftovers(folder: Path) -> None:
    """What an earlier attempt has left: the stream is still there, so all of it is in there."""
    with store_errors("clear", folder):
        for path in folder.iterdir():
            if path.name.endswith((TEMPORARY, ".parquet")) or path.name in (
                SEAL,
                RECORDS,
                DROPPED,
            ):
                path.unlink()


# --- the samples ----------------------------------------------------------------------------------


def _about(scan: StepScan, series: SeriesScan, run: str, step: int) -> str:
    info = series.info
    about = {
        "format": "rtgauge-series",
        "version": 1,
        "run": run,
        "step": step,
        "measurement": scan.header.measurement if scan.header else "",
        "series": {
            field.name: getattr(info, field.name)
            for field in dataclasses.fields(info)
            if field.name not in ("sequence", "labels")
        }
        | {"labels": dict(info.labels)},
        "totals": dataclasses.asdict(series.totals(scan.trailer)),
    }
    return json.dumps(about)


def _seal_series(
    folder: Path, stream: Path, scan: StepScan, series: SeriesScan, run: str, step: int
) -> int | None:
    """Write, read back and compare the samples of a series; its largest value."""
    if not series.rows:
        return None
    path = folder / parquet_name(series.info.series)
    temporary = path.with_name(path.name + TEMPORARY)
    highest: int | None = None
    with store_errors("write", path):
        try:
            with open(temporary, "wb") as file:
                writer = ParquetWriter(
                    file,
                    _about(scan, series, run, step),
                    wide=len(series.wide) > 0,
                    level=ZSTD_LEVEL if series.rows > SMALL_ROWS else SMALL_ZSTD_LEVEL,
                )
                for chunk in read_blocks(stream, series, ROW_GROUP):
                    top = int(chunk.value.max())
                    highest = top if highest is None else max(highest, top)
                    writer.write([getattr(chunk, name) for name in COLUMNS])
                writer.close()
            _compare(temporary, stream, series)
            commit(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    return highest


def _compare(path: Path, stream: Path, series: SeriesScan) -> None:
    """StoreError unless the Parquet file holds exactly what the stream holds."""
    unlike = StoreError(
        f"{path} does not read back as it was written",
        f"check the disk and the memory of this machine. The samples are still in {stream}",
    )
    try:
        with ParquetReader(path, series.rows) as reader:
            blocks = read_blocks(stream, series, ROW_GROUP)
            for group, expected in zip(range(len(reader.groups)), blocks, strict=True):
                for name in COLUMNS:
                    if not np.array_equal(reader.read(group, name), getattr(expected, name)):
                        raise unlike
    except ValueError as error:
        raise unlike from error


# --- all other records ----------------------------------------------------------------------------


class _Histograms:
    """The place of the last snapshot of each series."""

    def __init__(self) -> None:
        self.last: dict[int, int] = {}

    def take(self, span: Span) -> None:
        if isinstance(span.record, Histogram):
            self.last[span.record.series] = span.start


_TIMED = (RecordType.CLOCK, RecordType.WORK, RecordType.AMBIENCE)


def _kept(stream: Path, scan: StepScan, last: dict[int, int]) -> Iterator[tuple[int, int] | bytes]:
    """What of the stream goes into ``records.cbor``: from and to which byte, neighbours joined, or
    a record in place of one. All records but samples remain, and the gaps of blocks. A series
    whose samples are all kept has only its last histogram, which includes the others. Any other
    series has one a minute after ten minutes, and the last."""
    whole = {number for number, series in scan.series.items() if _is_whole(series)}
    kept_ns = dict.fromkeys(scan.series, 0)
    start_ns = scan.header.start_ns if scan.header else 0
    now_ns = begin = end = 0
    reader = StreamReader(only=(RecordType.SAMPLES, RecordType.HISTOGRAM, *_TIMED))
    for span in spans_of(stream, reader):
        if span.stop > scan.good_bytes:
            break
        match span.record:
            case Samples(gaps=None):
                continue
            case Samples() as block:
                if end > begin:
                    yield begin, end
                begin = end = 0
                yield _gaps(block)
                continue
            case Histogram(series=series) if last[series] != span.start:
                if series in whole or DETAIL_NS <= now_ns < kept_ns[series] + SNAPSHOT_NS:
                    continue
                kept_ns[series] = now_ns
            case Clock(monotonic_ns=time_ns):
                now_ns = time_ns - start_ns
            case Work(to_ns=time_ns) | Ambience(time_ns=time_ns):
                now_ns = time_ns
        if span.start != end:
            if end > begin:
                yield begin, end
            begin = span.start
        end = span.stop
    if end > begin:
        yield begin, end


def _gaps(block: Samples) -> bytes:
    body = {"series": block.series, "index": block.index, "gaps": block.gaps}
    return encode_record(RecordType.GAPS, block.sequence, body)


def _is_whole(series: SeriesScan) -> bool:
    """Whether all samples of a series are kept."""
    return (
        series.histogram is not None
        and not series.info.histogram_only
        and not series.lost
        and series.histogram.count == series.rows
    )


def _write_records(folder: Path, stream: Path, scan: StepScan, last: dict[int, int]) -> None:
    path = folder / RECORDS
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        with open(stream, "rb") as source, open(temporary, "wb") as file:
            for part in _kept(stream, scan, last):
                if isinstance(part, bytes):
                    file.write(part)
                else:
                    _copy(source, file, *part)
        again = scan_stream(temporary, sealed=True)
        same = (
            again.end.dropped_bytes == 0
            and again.end.complete == scan.end.complete
            and _missed(again) == _missed(scan)
            and (again.trailer, again.header, again.facts, again.lasting)
            == (scan.trailer, scan.header, scan.facts, scan.lasting)
        )
        if not same:
            raise StoreError(
                f"{temporary} does not read back as it was written",
                f"check the disk and the memory of this machine. Everything is still in {stream}",
            )
        commit(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _missed(scan: StepScan) -> dict[int, int]:
    """For each series how often periods were missed."""
    return {number: len(series.missed) // 2 for number, series in scan.series.items()}


def _copy(source: Any, file: Any, start: int, stop: int) -> None:
    source.seek(start)
    while start < stop:
        data = source.read(min(stop - start, 1 << 20))
        if not data:
            raise OSError("the stream became shorter while it was read")
        file.write(data)
        start += len(data)


def _keep_dropped(folder: Path, stream: Path, scan: StepScan) -> None:
    """Keep what was dropped from a damaged stream, for an analysis. The rest of a record at the end
    of a cut stream is not kept."""
    size = os.stat(stream).st_size
    if size == scan.good_bytes or scan.end.cut:
        return
    path = folder / DROPPED
    temporary = path.with_name(path.name + TEMPORARY)
    with open(stream, "rb") as source, open(temporary, "wb") as file:
        _copy(source, file, scan.good_bytes, size)
    commit(temporary, path)
