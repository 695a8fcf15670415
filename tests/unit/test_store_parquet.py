# SPDX-License-Identifier: Apache-2.0
"""Files of samples: Arrow reads what is written, Arrow's own are read, and nothing damaged is."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rtgauge.store.parquet import (
    COLUMNS,
    Chunk,
    ParquetReader,
    ParquetWriter,
    Thrift,
    check_apart,
    delta_decoded,
    delta_encoded,
)

Columns = list[NDArray[Any]]
ROWS = (1, 2, 128, 256, 257, 258, 1000, 300_001)
KINDS = ("even", "gaps", "wild", "steps", "limits")
# What sealing asked of Arrow before it wrote the files itself.
ARROW = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": False,
    "column_encoding": {
        "index": "DELTA_BINARY_PACKED",
        "due_ns": "DELTA_BINARY_PACKED",
        "value": "BYTE_STREAM_SPLIT",
    },
    "data_page_size": 1 << 20,
}


def columns_of(kind: str, rows: int) -> Columns:
    random = np.random.default_rng(rows)
    index = np.arange(rows)
    due = index * 1_000_000 + 7
    value: NDArray[Any] = random.integers(-(2**31), 2**31, rows).astype(np.int32)
    match kind:
        case "gaps":
            index = np.cumsum(random.integers(1, 3, rows))
        case "wild":
            index = random.integers(-(2**63), 2**63 - 1, rows)
            due = np.cumsum(random.integers(0, 2**40, rows))
            value = random.integers(-(2**62), 2**62, rows)
        case "steps":
            due = np.cumsum(np.where(random.random(rows) < 0.001, 5000, 1000))
        case "limits":
            due = np.where(index % 2, 2**63 - 1, -(2**63))
    return [index, due, value]


def written(path: Path, *groups: Columns, level: int = 1) -> None:
    with open(path, "wb") as file:
        wide = groups[0][2].dtype == np.int64
        writer = ParquetWriter(file, '{"a": "é"}', wide=wide, level=level)
        for columns in groups:
            writer.write(columns)
        writer.close()


def read(path: Path, rows: int | None = None) -> Columns:
    with ParquetReader(path, rows) as reader:
        reader.check_pages()
        found = [
            np.concatenate([reader.read(group, name) for group in range(len(reader.groups))])
            for name in COLUMNS
        ]
        limits = [reader.limits(name) for name in COLUMNS]
    assert limits == [(one.min(), one.max()) for one in found]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("kind", KINDS)
def test_arrow_reads_what_is_written(tmp_path: Path, kind: str, rows: int) -> None:
    first = columns_of(kind, rows)
    second = [column[: rows // 2 + 1] for column in first]
    written(tmp_path / "x", first, second)
    both = [np.concatenate(pair) for pair in zip(first, second, strict=True)]
    table = pq.read_table(tmp_path / "x")
    assert tuple(table.column_names) == COLUMNS
    assert not any(field.nullable for field in table.schema)
    assert table.schema.metadata == {b"rtgauge": '{"a": "é"}'.encode()}
    again = read(tmp_path / "x", len(both[0]))
    for name, wanted, found in zip(COLUMNS, both, again, strict=True):
        assert np.array_equal(table[name].to_numpy(), wanted)
        assert np.array_equal(found, wanted)
        assert found.dtype == wanted.dtype == table[name].to_numpy().dtype
    metadata = pq.read_metadata(tmp_path / "x")
    limits = metadata.row_group(0).column(1).statistics
    assert (limits.min, limits.max) == (first[1].min(), first[1].max())
    assert pq.ParquetFile(tmp_path / "x").read_row_group(1).num_rows == rows // 2 + 1


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plain", [False, True])
def test_what_arrow_wrote_is_read(tmp_path: Path, kind: str, rows: int, plain: bool) -> None:
    """Runs that were sealed by older versions."""
    columns = columns_of(kind, rows)
    fields = [
        pa.field(name, pa.from_numpy_dtype(column.dtype), nullable=False)
        for name, column in zip(COLUMNS, columns, strict=True)
    ]
    table = pa.table([pa.array(column) for column in columns], schema=pa.schema(fields))
    options = {"use_dictionary": False, "compression": "none"} if plain else ARROW
    pq.write_table(table, tmp_path / "x", row_group_size=200_000, **options)
    for wanted, found in zip(columns, read(tmp_path / "x", rows), strict=True):
        assert np.array_equal(found, wanted)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=700))
@settings(deadline=None)
def test_differences_of_any_numbers(numbers: list[int]) -> None:
    values = np.array(numbers, np.int64)
    assert np.array_equal(delta_decoded(delta_encoded(values), len(values)), values)


@given(st.binary(max_size=200), st.integers(1, 2000))
@settings(deadline=None)
def test_differences_from_anywhere(data: bytes, count: int) -> None:
    with contextlib.suppress(ValueError, IndexError, OverflowError):
        assert len(delta_decoded(data, count)) == count


def test_a_row_group_of_few_bytes_may_be_long(tmp_path: Path) -> None:
    rows = 1 << 20
    written(tmp_path / "x", [np.arange(rows), np.arange(rows), np.zeros(rows, np.int32)])
    assert (tmp_path / "x").stat().st_size < 2000
    assert np.array_equal(read(tmp_path / "x", rows)[0], np.arange(rows))


@pytest.mark.slow
def test_no_damage_is_anything_but_an_error_or_other_numbers(tmp_path: Path) -> None:
    columns = columns_of("steps", 700)
    written(tmp_path / "x", columns)
    data = bytearray((tmp_path / "x").read_bytes())
    refused = 0
    for at in range(0, len(data), 3):
        true = data[at]
        for value in (0, 255, true ^ 1, true ^ 128):
            data[at] = value
            (tmp_path / "y").write_bytes(data)
            try:
                assert len(read(tmp_path / "y", 700)[0]) == 700
            except (ValueError, KeyError, AssertionError):
                refused += 1
        data[at] = true
    assert refused > 100


@pytest.mark.parametrize("keep", [0, 3, 4, 11, 12, 50, -1])
def test_a_cut_file_is_refused(tmp_path: Path, keep: int) -> None:
    written(tmp_path / "x", columns_of("even", 1000))
    (tmp_path / "y").write_bytes((tmp_path / "x").read_bytes()[:keep])
    with pytest.raises(ValueError):
        ParquetReader(tmp_path / "y")


def test_another_number_of_samples_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "x", columns_of("even", 1000))
    with pytest.raises(ValueError, match="it has 1000 samples, but 999 were sealed"):
        ParquetReader(tmp_path / "x", 999)
    with pytest.raises(ValueError, match="bytes cannot contain"):
        ParquetReader(tmp_path / "x", 1 << 40)


def test_columns_that_overlap_are_refused() -> None:
    def chunk(start: int, stop: int) -> Chunk:
        return Chunk(start, stop, True, None, None)

    check_apart([])
    check_apart([chunk(20, 30), chunk(4, 20), chunk(30, 30)])
    for other in (chunk(4, 21), chunk(29, 31), chunk(20, 30), chunk(25, 26)):
        with pytest.raises(ValueError, match="overlap"):
            check_apart([chunk(20, 30), other])


@pytest.mark.parametrize("kind", [0x8C, 0x88, 0x89])  # empty structures, texts and lists
@pytest.mark.slow
def test_small_values_without_number_are_refused(kind: int) -> None:
    number = 1_000_000
    head = bytes([0x19, 0xF0 | kind & 15])
    count = bytes([number & 127 | 128, number >> 7 & 127 | 128, number >> 14])
    with pytest.raises(ValueError, match="too many"):
        Thrift(head + count + bytes(number + 1)).struct()
