# SPDX-License-Identifier: Apache-2.0
"""Sealing: what went into the stream comes out of Parquet, whatever happens on the way."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rtgauge.store.growing
import rtgauge.store.seal
import streams
from rtgauge.errors import StoreError, StreamError
from rtgauge.store.files import TEMPORARY
from rtgauge.store.growing import Numbers, Spill
from rtgauge.store.parquet import ParquetWriter
from rtgauge.store.samples import StoredRun, StoredSeries, StoredStep
from rtgauge.store.scan import read_blocks, scan_stream
from rtgauge.store.seal import RECORDS, SEAL, STREAM, parquet_name, read_seal, seal_step
from rtgauge.stream import Event, Histogram, RecordType, StreamReader
from streams import Builder

RUN = "01980000-0000-7000-8000-000000000000"
Row = tuple[int, int, int]


def step_with(folder: Path, data: bytes) -> StoredStep:
    step = StoredStep(folder, 0, {})
    step.folder.mkdir(parents=True, exist_ok=True)
    (step.folder / STREAM).write_bytes(data)
    return step


def rows_of(series: StoredSeries) -> list[Row]:
    rows: list[Row] = []
    for chunk in series.chunks():
        rows += zip(chunk.index.tolist(), chunk.due_ns.tolist(), chunk.value.tolist(), strict=True)
    assert [value for values in series.values() for value in values.tolist()] == [
        row[2] for row in rows
    ]
    return rows


def all_rows(step: StoredStep) -> dict[int, list[Row]]:
    return {series.info.series: rows_of(series) for series in step.series}


def facts_of(step: StoredStep) -> dict[str, Any]:
    """Everything that a step says but its samples."""
    return {
        "header": step.header,
        "facts": step.facts,
        "settings": step.settings,
        "series": [series.info for series in step.series],
        "totals": [series.totals for series in step.series],
        "counts": [series.count for series in step.series],
        "histograms": [
            series.histogram.buckets.tolist() if series.histogram else None
            for series in step.series
        ],
        "missed": [[part.tolist() for part in series.missed_events] for series in step.series],
        "events": list(step.events()),
        "tables": step.tables,
        "verdicts": step.verdicts,
        "work": list(step.work),
        "clocks": list(step.clocks),
        "ambience": list(step.ambience),
        "trailer": step.trailer,
        "end": step.end,
    }


@st.composite
def measured(draw: st.DrawFn) -> tuple[bytes, dict[int, list[Row]]]:
    """A stream of several series, and the rows that it holds, made one by one."""
    stream = Builder()
    rows: dict[int, list[Row]] = {}
    intervals = draw(st.lists(st.sampled_from([0, 20_000, 1_000_003]), min_size=1, max_size=3))
    for number, interval in enumerate(intervals):
        stream.series(number, interval_ns=interval)
        rows[number] = []
    following = dict.fromkeys(rows, 0)
    int32 = st.integers(-(2**31), 2**31 - 1)
    wide: dict[tuple[int, int], int] = {}
    for _ in range(draw(st.integers(0, 12))):
        number = draw(st.sampled_from(sorted(rows)))
        values = draw(st.lists(int32, min_size=1, max_size=20))
        index = following[number] + draw(st.sampled_from([0, 0, 1, 50]))
        due_ns = draw(st.integers(0, 2**45))
        places = st.integers(1, max(len(values) - 1, 1))
        gaps: dict[int, int] = {}
        if intervals[number] and len(values) > 1 and draw(st.booleans()):
            gaps = draw(st.dictionaries(places, st.sampled_from([1, 7, 10**6])))
        stream.samples(number, index, values, due_ns, sorted(gaps.items()))
        skipped = 0
        for k, value in enumerate(values):
            skipped += gaps.get(k, 0)
            at = k + skipped
            rows[number].append((index + at, due_ns + at * intervals[number], value))
        following[number] = index + len(values) + skipped
        for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
            where = draw(st.integers(0, index + len(values)))
            wide[number, where] = draw(st.integers(-(2**60), 2**60))
            stream.event("wide", 1, series=number, index=where, value=wide[number, where])
    if draw(st.booleans()):
        stream.trailer()
    expected = {
        number: [(index, due, wide.get((number, index), value)) for index, due, value in found]
        for number, found in rows.items()
    }
    return stream.data, expected


@given(measured(), st.sampled_from([1, 3, 7, 1000]))
@settings(max_examples=60, deadline=None)
@pytest.mark.slow
def test_rows_survive_sealing(case: tuple[bytes, dict[int, list[Row]]], group: int) -> None:
    data, expected = case
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rtgauge.store.seal, "ROW_GROUP", group)
        before = step_with(Path(folder), data)
        assert all_rows(before) == expected
        scan = scan_stream(before.folder / STREAM)
        for number, series in scan.series.items():
            pieces = list(read_blocks(before.folder / STREAM, series, group))
            assert [v for piece in pieces for v in piece.value.tolist()] == [
                row[2] for row in expected[number]
            ]
        seal_step(before.folder, RUN, 0)
        after = StoredStep(Path(folder), 0, {})
        assert after.sealed
        assert all_rows(after) == expected
        assert facts_of(after) == facts_of(before)  # also as it was seen before
        assert all_rows(before) == expected
        for number, rows in expected.items():
            path = after.folder / parquet_name(number)
            assert path.exists() == bool(rows)
            if rows:
                assert pq.ParquetFile(path).num_row_groups == -(-len(rows) // group)


def test_every_record_survives_sealing(tmp_path: Path) -> None:
    before = step_with(tmp_path, streams.one_of_each().data)
    known = facts_of(before)
    seal_step(before.folder, RUN, 0)
    assert not (before.folder / STREAM).exists()
    after = StoredStep(tmp_path, 0, {})
    assert facts_of(after) == known
    assert after.end == before.end
    assert after.end.complete
    reader = StreamReader(sealed=True)
    kinds = [span.type for span in reader.spans((after.folder / RECORDS).read_bytes())]
    assert 4 not in kinds
    assert 12345 in kinds  # of a type not known here: kept
    first, second, third, fourth = after.series
    assert first.companion is third
    assert third.companion is None
    assert [event.event for event in first.events()] == [
        "missed", "maximum", "lost", "withheld", "threshold"
    ]  # fmt: skip
    assert [part.tolist() for part in first.missed_events] == [[9], [3]]
    assert [part.tolist() for part in fourth.missed_events] == [
        [4, 8, 80_004],
        [2, 70_000, 1],
    ]
    assert [row[0] for row in rows_of(fourth)] == [4, 7, 8, 70_009]
    assert [value for values in second.values() for value in values.tolist()] == [
        -1,
        2**40,
        -(2**31),
    ]


def test_parquet_is_for_others_too(tmp_path: Path) -> None:
    step = step_with(tmp_path, streams.one_of_each().data)
    seal_step(step.folder, RUN, 7)
    path = step.folder / parquet_name(0)
    table = pq.read_table(path)
    assert table.column_names == ["index", "due_ns", "value"]
    assert [str(kind) for kind in table.schema.types] == ["int64", "int64", "int32"]
    about = json.loads(table.schema.metadata[b"rtgauge"])
    assert (about["format"], about["version"]) == ("rtgauge-series", 1)
    assert (about["run"], about["step"], about["measurement"]) == (RUN, 7, "timer")
    assert about["series"]["labels"] == {"method": "clock_nanosleep"}
    assert about["totals"]["count"] == 42
    column = pq.ParquetFile(path).metadata.row_group(0).column(2)
    assert column.compression == "ZSTD"
    assert "BYTE_STREAM_SPLIT" in column.encodings
    assert "DELTA_BINARY_PACKED" in pq.ParquetFile(path).metadata.row_group(0).column(0).encodings
    wide = pq.read_table(step.folder / parquet_name(1))
    assert str(wide.schema.field("value").type) == "int64"


@pytest.mark.slow
def test_sealed_size_is_near_the_entropy(tmp_path: Path) -> None:
    """At most 1.15 of the zeroth-order entropy of the values; everything included."""
    for median, sigma in ((8_000, 0.25), (4_000, 0.1), (20_000, 0.5)):
        values = streams.latencies(1_000_000, median=median, sigma=sigma)
        stream = Builder().series(0)
        for at in range(0, len(values), 2500):
            stream.samples(0, at, values[at : at + 2500])
            if at % 10_000 == 0:
                stream.histogram(0, values[: at + 2500 : 200].tolist())
        step = step_with(tmp_path / str(median), stream.trailer().data)
        seal_step(step.folder, RUN, 0)
        size = sum(path.stat().st_size for path in step.folder.iterdir())
        _, counts = np.unique(values, return_counts=True)
        share = counts / counts.sum()
        entropy = -(share * np.log2(share)).sum() * len(values) / 8
        assert size <= 1.15 * entropy


@pytest.mark.parametrize(
    ("changes", "series", "snapshots"),
    [
        ({}, {}, 1),  # all samples are kept: the last snapshot holds the others
        ({"lost": 1}, {}, 4),
        ({}, {"histogram_only": True}, 4),
    ],
)
def test_histograms_that_are_kept(
    tmp_path: Path, changes: dict[str, int], series: dict[str, Any], snapshots: int
) -> None:
    stream = Builder().series(0, **series)
    for at in range(4):
        if not series:
            stream.samples(0, at * 10, range(10))
        if "lost" in changes and at == 1:
            stream.event("lost", 1, series=0, index=20, count=1, max=5)
        stream.histogram(0, list(range(10)) * (at + 1))
    step = step_with(tmp_path, stream.data)
    seal_step(step.folder, RUN, 0)
    kinds = [s.type for s in StreamReader(sealed=True).spans((step.folder / RECORDS).read_bytes())]
    assert kinds.count(5) == snapshots
    (kept,) = StoredStep(tmp_path, 0, {}).series
    assert kept.histogram is not None
    assert kept.histogram.count == 40


@pytest.mark.slow
def test_histograms_without_samples_are_one_a_minute_later_on(tmp_path: Path) -> None:
    stream = Builder().series(0, histogram_only=True)
    for second in range(1, 900):
        stream.histogram(0, [second])
        if second % 10 == 0:
            moment = {"monotonic_ns": 5_000 + second * 10**9}
            stream.add(RecordType.CLOCK, streams.CLOCKS | moment)
    step = step_with(tmp_path, stream.data)
    seal_step(step.folder, RUN, 0)
    records = StreamReader(sealed=True).feed((step.folder / RECORDS).read_bytes())
    kept = [one.max for one in records if isinstance(one, Histogram)]
    assert kept == [*range(1, 601), 651, 711, 771, 831, 891, 899]


def test_what_a_damaged_stream_hides_is_not_kept(tmp_path: Path) -> None:
    """What cannot be trusted at the first look is not taken in at a second that looks at less."""
    stream = Builder().series(0).samples(0, 0, [1])
    stream.add(RecordType.ENVIRONMENT, {"facts": "none"})
    good = len(b"".join(stream.parts[:-1]))
    stream.add(RecordType.AMBIENCE, streams.ambience_body())
    step = step_with(tmp_path, stream.trailer().data)
    seal_step(step.folder, RUN, 0)
    assert (step.folder / "dropped.bin").read_bytes() == stream.data[good:]
    assert list(StoredStep(tmp_path, 0, {}).ambience) == []


@pytest.mark.parametrize("room", [True, False])
def test_numbers_beyond_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: bool) -> None:
    monkeypatch.setattr(rtgauge.store.growing, "CHUNK", 12)
    folder = tmp_path / "spill"
    if room:
        folder.mkdir()
    spill = Spill(folder)
    one, other = Numbers(spill), Numbers(spill)
    for at in range(0, 1000, 4):
        one.extend((at, at + 1, -at, 2**62 + at))
        other.extend((at, 7))
    expected = [[at, at + 1, -at, 2**62 + at] for at in range(0, 1000, 4)]
    assert one.table(4).tolist() == expected
    assert other.table(2).tolist() == [[at, 7] for at in range(0, 1000, 4)]
    for numbers, columns in ((one, 4), (other, 2), (other, 1)):
        assert numbers.columns(columns).tolist() == numbers.table(columns).T.tolist()
    assert (len(one), len(other)) == (1000, 500)
    assert not room or list(folder.iterdir()) == []


def test_arrays_of_numbers_beyond_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtgauge.store.growing, "CHUNK", 12)
    for folder in (tmp_path, None):
        numbers = Numbers(Spill(folder))
        numbers.extend((5, 6))
        for size in (1, 40, 3):
            numbers.extend_array(np.arange(2 * size).reshape(-1, 2))
        numbers.extend((7, 8))
        expected = [5, 6, *range(2), *range(80), *range(6), 7, 8]
        assert numbers.table(1).ravel().tolist() == expected
        assert len(numbers) == len(expected)


def test_sealing_with_numbers_beyond_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Builder().series(0).series(1)
    for at in range(300):
        stream.samples(0, at * 7, [at, at + 1]).samples(1, at, [-at])
        stream.event("missed", at, series=0, index=at * 7 + 1, count=5)
    data = stream.trailer().data
    plain = step_with(tmp_path / "plain", data)
    expected, known = all_rows(plain), facts_of(plain)
    monkeypatch.setattr(rtgauge.store.growing, "CHUNK", 16)
    step = step_with(tmp_path / "small", data)
    assert (all_rows(step), facts_of(step)) == (expected, known)
    seal_step(step.folder, RUN, 0)
    step = StoredStep(tmp_path / "small", 0, {})
    assert (all_rows(step), facts_of(step)) == (expected, known)


def test_totals_without_a_trailer(tmp_path: Path) -> None:
    stream = Builder().series(0, interval_ns=1000).samples(0, 0, [5, 6], due_ns=500)
    stream.event("missed", 1, series=0, index=1, count=3)
    stream.samples(0, 5, [7, 8, 9], due_ns=5500)
    stream.event("lost", 2, series=0, index=8, count=2, max=1)
    step = step_with(tmp_path, stream.data)
    seal = seal_step(step.folder, RUN, 0)
    assert seal.trailer is None
    assert not seal.end.complete
    totals = StoredStep(tmp_path, 0, {}).series[0].totals
    assert (totals.count, totals.missed, totals.lost, totals.overruns) == (7, 3, 2, 1)
    assert (totals.first_due_ns, totals.last_due_ns) == (500, 7500)
    assert seal.series[0].max == 9


def test_a_grid_that_moves_is_kept(tmp_path: Path) -> None:
    stream = Builder().series(0, interval_ns=1000)
    stream.samples(0, 0, [5, 6], due_ns=500).samples(0, 2, [7, 8], due_ns=9500)
    step = step_with(tmp_path, stream.data)

    def found(step: StoredStep) -> tuple[list[int], int]:
        series = step.series[0]
        due_ns = [time for chunk in series.chunks() for time in chunk.due_ns.tolist()]
        return due_ns, series.totals.last_due_ns

    assert found(step) == ([500, 1500, 9500, 10500], 10500)
    seal_step(step.folder, RUN, 0)
    assert found(StoredStep(tmp_path, 0, {})) == ([500, 1500, 9500, 10500], 10500)


def test_times_of_a_series_without_a_grid_come_from_its_samples(tmp_path: Path) -> None:
    stream = Builder().series(0, interval_ns=0)
    for at in range(5):
        stream.samples(0, at * 2, [5, 6], due_ns=700 + at * 1000)
    older = streams.totals(0, count=10, first_due_ns=12, last_due_ns=12)
    step = step_with(tmp_path, stream.trailer(series=[older]).data)
    expected = (10, 700, 4700)

    def found(step: StoredStep) -> tuple[int, int, int]:
        totals = step.series[0].totals
        return totals.count, totals.first_due_ns, totals.last_due_ns

    assert found(step) == expected
    seal_step(step.folder, RUN, 0)
    assert found(StoredStep(tmp_path, 0, {})) == expected
    # sealed by a version that took them from the trailer
    seal = json.loads((step.folder / SEAL).read_text())
    assert seal["series"][0]["totals"]["last_due_ns"] == 4700
    seal["series"][0]["totals"] |= {"first_due_ns": 12, "last_due_ns": 12}
    (step.folder / SEAL).write_text(json.dumps(seal))
    assert found(StoredStep(tmp_path, 0, {})) == expected


def test_cut_and_damaged_streams(tmp_path: Path) -> None:
    data = streams.one_of_each().data
    cut = step_with(tmp_path / "cut", data[:-2])
    seal = seal_step(cut.folder, RUN, 0)
    assert (seal.end.complete, seal.end.cut) == (False, True)
    assert read_seal(cut.folder) == seal
    assert not (cut.folder / "dropped.bin").exists()

    at = data.index(b"threshold")
    damaged = step_with(tmp_path / "damaged", data[:at] + b"X" + data[at + 1 :])
    seal = seal_step(damaged.folder, RUN, 0)
    assert seal.end.reason.endswith("its CRC does not agree")
    assert len((damaged.folder / "dropped.bin").read_bytes()) == seal.end.dropped_bytes
    assert StoredStep(tmp_path / "damaged", 0, {}).end == seal.end


@pytest.mark.parametrize("data", [b"", b"no stream at all"])
def test_a_stream_that_is_none(tmp_path: Path, data: bytes) -> None:
    step = step_with(tmp_path, data)
    seal_step(step.folder, RUN, 0)
    after = StoredStep(tmp_path, 0, {})
    assert (after.header, after.series, list(after.events())) == (None, [], [])
    assert after.end.dropped_bytes == len(data)


def test_a_stream_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    data = Builder(version=2).data
    step = step_with(tmp_path, data)
    with pytest.raises(StreamError, match="version 2"):
        seal_step(step.folder, RUN, 0)
    assert [path.name for path in step.folder.iterdir()] == [STREAM]


def test_steps_that_are_not_there(tmp_path: Path) -> None:
    step = StoredStep(tmp_path, 3, {})
    assert (step.header, step.series, list(step.events()), step.sealed) == (None, [], [], False)
    assert step.end.reason == "the step was not carried out"
    with pytest.raises(StoreError, match=r"step 4 of run .* has no stream"):
        seal_step(step.folder, RUN, 3)


# --- faults on the way --------------------------------------------------------------------------


class Dead(BaseException):
    """The process has ended: nothing after it has an effect."""


def dying(patch: pytest.MonkeyPatch, after: int) -> Callable[[], int]:
    """Let the process die at the ``after``-th call to the system that changes something."""
    calls = 0

    def count(original: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **keywords: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls >= after:
                raise Dead
            return original(*arguments, **keywords)

        return called

    for name in ("replace", "fsync", "unlink", "preadv"):
        patch.setattr(os, name, count(getattr(os, name)))
    patch.setattr(rtgauge.store.seal, "open", count(open), raising=False)
    patch.setattr(ParquetWriter, "write", count(ParquetWriter.write))
    return lambda: calls


@pytest.mark.slow
def test_death_at_any_moment_of_sealing_loses_nothing(tmp_path: Path) -> None:
    data = streams.one_of_each().data
    data = data + b"and some damage"
    whole = step_with(tmp_path / "whole", data)
    expected, known = all_rows(whole), facts_of(whole)
    moments = 0
    while True:
        run = tmp_path / str(moments)
        step = step_with(run, data)
        with pytest.MonkeyPatch.context() as patch:
            dying(patch, moments + 1)
            try:
                seal_step(step.folder, RUN, 0)
                break
            except Dead:
                moments += 1
        died = StoredStep(run, 0, {})
        assert all_rows(died) == expected
        assert facts_of(died) == known
        seal_step(step.folder, RUN, 0)
        after = StoredStep(run, 0, {})
        assert after.sealed
        assert all_rows(after) == expected
        assert facts_of(after) == known
        names = {path.name for path in step.folder.iterdir()}
        assert names == {RECORDS, SEAL, "dropped.bin", *(parquet_name(n) for n in range(4))}
    assert moments > 20


@pytest.mark.slow
@pytest.mark.parametrize("room", [10, 300, 3000, 100_000])
def test_full_disk_while_sealing(
    tmp_path: Path, full_disk: Callable[[int], None], room: int
) -> None:
    stream = Builder().series(0).samples(0, 0, streams.latencies(10_000))
    for at in range(1, 20):
        stream.samples(0, at * 10_000, streams.latencies(10_000, seed=at))
    step = step_with(tmp_path, stream.data)
    expected = all_rows(step)
    full_disk(room)
    with pytest.raises(StoreError, match="File too large") as caught:
        seal_step(step.folder, RUN, 0)
    full_disk(resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    assert "\n" not in caught.value.message
    assert "free some space" in caught.value.remedy
    assert not list(step.folder.glob("*.tmp"))
    assert all_rows(StoredStep(tmp_path, 0, {})) == expected
    seal_step(step.folder, RUN, 0)
    assert all_rows(StoredStep(tmp_path, 0, {})) == expected


def test_what_does_not_read_back_is_not_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = step_with(tmp_path, streams.one_of_each().data)
    expected = all_rows(step)
    write = ParquetWriter.write

    def wrong(self: ParquetWriter, columns: Any) -> None:
        values = columns[2].copy()
        values[-1] ^= 1
        write(self, [*columns[:2], values])

    monkeypatch.setattr(ParquetWriter, "write", wrong)
    with pytest.raises(StoreError, match="does not read back"):
        seal_step(step.folder, RUN, 0)
    assert [path.name for path in step.folder.iterdir()] == [STREAM]
    assert all_rows(StoredStep(tmp_path, 0, {})) == expected


def test_damaged_sealed_files_are_named(tmp_path: Path) -> None:
    step = step_with(tmp_path, streams.one_of_each().data)
    seal_step(step.folder, RUN, 0)
    path = step.folder / parquet_name(0)
    whole = path.read_bytes()
    for data in (b"", b"PAR1", whole[:-50], whole[:100] + b"\0" * 300):
        path.write_bytes(data)
        with pytest.raises(StoreError, match=r"series-0\.parquet"):
            rows_of(StoredStep(tmp_path, 0, {}).series[0])
    path.unlink()
    with pytest.raises(StoreError, match=r"series-0\.parquet"):
        rows_of(StoredStep(tmp_path, 0, {}).series[0])
    (step.folder / SEAL).write_text('{"format": "rtgauge-seal", "version": 1}')
    with pytest.raises(StoreError, match=r"seal\.json is damaged"):
        _ = StoredStep(tmp_path, 0, {}).series
    (step.folder / SEAL).write_text('{"format": "rtgauge-seal", "version": 9}')
    with pytest.raises(StoreError, match="version 9"):
        _ = StoredStep(tmp_path, 0, {}).series


@pytest.mark.slow
def test_a_changed_bit_of_a_sealed_sample_is_noticed(tmp_path: Path) -> None:
    step = step_with(tmp_path, streams.one_of_each().data)
    seal_step(step.folder, RUN, 0)
    path = step.folder / parquet_name(0)
    expected = rows_of(StoredStep(tmp_path, 0, {}).series[0])
    whole = path.read_bytes()
    samples = pq.ParquetFile(path).metadata.row_group(0)
    end = max(
        column.data_page_offset + column.total_compressed_size
        for column in map(samples.column, range(3))
    )
    for at in range(4, end):
        changed = bytearray(whole)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        with contextlib.suppress(StoreError):  # the other bits are not used
            assert rows_of(StoredStep(tmp_path, 0, {}).series[0]) == expected, at
    path.write_bytes(whole)
    assert pq.read_table(path, page_checksum_verification=True).num_rows == len(expected)


def test_records_that_are_not_those_that_were_sealed(tmp_path: Path) -> None:
    step = step_with(tmp_path, streams.one_of_each().data)
    seal_step(step.folder, RUN, 0)
    path = step.folder / RECORDS
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    ends = [span.stop for span in StreamReader(sealed=True).spans(whole)]
    for data in (b"", whole[: ends[-2]], whole[:-1], whole[: ends[3]], bytes(changed)):
        path.write_bytes(data)
        with pytest.raises(StoreError, match=r"records\.cbor differs from what was sealed"):
            _ = StoredStep(tmp_path, 0, {"state": "complete"}).series


def test_a_complete_step_without_data(tmp_path: Path) -> None:
    step = step_with(tmp_path, streams.one_of_each().data)
    seal_step(step.folder, RUN, 0)
    (step.folder / SEAL).unlink()
    for _ in range(2):
        with pytest.raises(StoreError, match=r"the data of .*000 are missing"):
            _ = StoredStep(tmp_path, 0, {"state": "complete"}).series
        shutil.rmtree(step.folder, ignore_errors=True)


def test_a_seal_of_another_format_is_refused(tmp_path: Path) -> None:
    step = step_with(tmp_path, streams.one_of_each().data)
    seal = seal_step(step.folder, RUN, 0)
    assert read_seal(step.folder) == seal
    document = json.loads((step.folder / SEAL).read_text())
    (step.folder / SEAL).write_text(json.dumps(document | {"format": "rtgauge-others"}))
    with pytest.raises(StoreError, match=r"seal\.json is damaged"):
        read_seal(step.folder)


@pytest.mark.parametrize("last", [-900, -1, 0, 1, 900])
def test_the_maximum_of_a_sealed_series_is_that_of_all_its_samples(
    tmp_path: Path, last: int
) -> None:
    """An agent died after samples that its last snapshot of the histogram does not have."""
    stream = Builder().series(0).samples(0, 0, [-700]).histogram(0, [-700])
    step = step_with(tmp_path, stream.samples(0, 1, [last]).data)
    [series] = seal_step(step.folder, RUN, 0).series
    assert series.max == max(-700, last)


def test_a_seal_that_fails_leaves_the_stream_and_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = step_with(tmp_path, streams.one_of_each().data)
    before = (step.folder / STREAM).read_bytes()

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "no such luck")

    with monkeypatch.context() as patched:
        patched.setattr(rtgauge.store.seal, "_copy", fail)
        with pytest.raises(StoreError, match="no such luck"):
            seal_step(step.folder, RUN, 0)
    assert not list(step.folder.glob(f"*{TEMPORARY}"))
    assert not (step.folder / RECORDS).exists()
    assert (step.folder / STREAM).read_bytes() == before
    assert seal_step(step.folder, RUN, 0).end.complete


@pytest.mark.slow
def test_overload_in_few_records(tmp_path: Path) -> None:
    """Every period after two missed, in blocks: as the same told one by one."""
    one_by_one, blocks = Builder().series(0), Builder().series(0)
    for block in range(20):
        values = np.arange(300) * block
        for at, value in enumerate(values):
            one_by_one.samples(0, block * 900 + 3 * at, [int(value)])
            one_by_one.event("missed", 0, series=0, index=block * 900 + 3 * at, count=2)
        blocks.samples(0, block * 900, values, gaps=[(at, 2) for at in range(1, 300)])
        blocks.event("missed", 0, series=0, index=block * 900 + 897, count=2)
    found = []
    for name, stream in (("one", one_by_one), ("blocks", blocks)):
        step = step_with(tmp_path / name, stream.data)
        seal_step(step.folder, RUN, 0)
        (series,) = StoredStep(tmp_path / name, 0, {}).series
        missed = [part.tolist() for part in series.missed_events]
        found.append((rows_of(series), missed, series.totals))
    assert found[0] == found[1]
    assert found[0][2].overruns == 6000
    small = (tmp_path / "blocks").rglob(RECORDS)
    assert next(small).stat().st_size < 20 * 2600


@pytest.mark.slow
def test_many_events_of_missed_periods(tmp_path: Path) -> None:
    stream = Builder().series(0)
    for at in range(2000):
        stream.samples(0, at * 5, [at, at + 1])
        stream.event("missed", at, series=0, index=at * 5 + 1, count=3)
    step = step_with(tmp_path, stream.trailer().data)
    seal_step(step.folder, RUN, 0)
    (series,) = StoredRun(tmp_path, {"id": RUN, "steps": [{"step": 0}]}).steps[0].series
    index, count = series.missed_events
    assert index.tolist() == list(range(1, 10_000, 5))
    assert set(count.tolist()) == {3}
    assert all(isinstance(event, Event) for event in series.events())
    assert len(rows_of(series)) == 4000


@pytest.mark.parametrize("sealed", [False, True])
def test_records_beside_the_samples(tmp_path: Path, sealed: bool) -> None:
    stream = Builder().series(0).samples(0, 0, [1, 2])
    for second in range(1, 40):
        body = streams.ambience_body(second * 10**9, interrupts=[second, 2 * second])
        stream.add(RecordType.AMBIENCE, body)
        work = {"load": "cpu", "unit": "loops", "count": second, "from_ns": 0, "to_ns": second}
        stream.add(RecordType.WORK, work)
    step = step_with(tmp_path, stream.trailer().data)
    if sealed:
        seal_step(step.folder, RUN, 0)
    step = StoredRun(tmp_path, {"id": RUN, "steps": [{"step": 0}]}).steps[0]
    assert (len(step.ambience), len(step.work), len(step.clocks)) == (39, 39, 0)
    for _ in range(2):  # as often as one likes
        assert [one.interrupts for one in step.ambience] == [(k, 2 * k) for k in range(1, 40)]
    assert [one.count for one in step.work] == list(range(1, 40))
    assert list(step.clocks) == []


def test_records_of_a_step_that_is_sealed_meanwhile(tmp_path: Path) -> None:
    stream = Builder().series(0).samples(0, 0, [1, 2])
    stream.add(RecordType.AMBIENCE, streams.ambience_body())
    step = step_with(tmp_path, stream.trailer().data)
    found = step.ambience
    seal_step(step.folder, RUN, 0)
    assert [one.interrupts for one in found] == [(250, 250)]


def test_records_that_lost_a_missed_period_do_not_replace_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reads back well but says less than the stream is not taken for it."""
    stream = Builder().series(0, interval_ns=1000).samples(0, 0, [5, 6], due_ns=500)
    before = len(b"".join(stream.parts))
    stream.event("missed", 1, series=0, index=1, count=3)
    after = len(b"".join(stream.parts))
    stream.samples(0, 5, [7], due_ns=5500)
    step = step_with(tmp_path, stream.data)
    kept = rtgauge.store.seal._kept

    def without(*words: Any) -> Iterator[tuple[int, int] | bytes]:
        parts = list(kept(*words))
        assert (before, after) in parts
        yield from (part for part in parts if part != (before, after))

    monkeypatch.setattr(rtgauge.store.seal, "_kept", without)
    with pytest.raises(StoreError, match="does not read back"):
        seal_step(step.folder, RUN, 0)
    assert (step.folder / STREAM).read_bytes() == stream.data
    assert not (step.folder / RECORDS).exists()
    after_it = StoredStep(tmp_path, 0, {})
    assert not after_it.sealed and after_it.series[0].totals.missed == 3


def test_a_stream_that_became_shorter_is_not_copied_in_part() -> None:
    source, copy = io.BytesIO(b"abcdef"), io.BytesIO()
    rtgauge.store.seal._copy(source, copy, 2, 5)
    assert copy.getvalue() == b"cde"
    with pytest.raises(OSError, match="shorter"):
        rtgauge.store.seal._copy(source, copy, 4, 9)


def test_how_long_every_histogram_is_kept() -> None:
    """Ten minutes, then one a minute (docs/formats/store.md)."""
    assert rtgauge.store.seal.DETAIL_NS == 10 * 60 * 10**9
    assert rtgauge.store.seal.SNAPSHOT_NS == 60 * 10**9
