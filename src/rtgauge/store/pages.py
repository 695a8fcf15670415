# SPDX-License-Identifier: Apache-2.0
"""Whether a Parquet file from elsewhere may be given to Arrow.

Arrow believes a page that says how large it becomes, and reserves that much: so the sizes of all
pages are looked at first. A codec that it does not know ends the whole process: so the footer is
looked at before Arrow sees it. Both are structures in Thrift's compact protocol, of which the few
lines here read no more than that (the format's `parquet.thrift`, `PageHeader` and `FileMetaData`).
Only what sealing writes is let through (docs/formats/run-folder.md, "Parquet").
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rtgauge.store.seal import COLUMNS

__all__ = ["ROWS_PER_BYTE", "check_parquet"]

PAGE_LIMIT = 1 << 24
"""Maximum size of a decompressed page in bytes. Sealing writes pages of 1 MiB."""
GROUP_ROWS_LIMIT = 1 << 22
ROWS_PER_BYTE = 1 << 12
"""A sealed sample takes at least a thousandth of a byte (all values alike)."""
FOOTER_LIMIT = 1 << 26
HEADER_LIMIT = 1 << 12
DEPTH_LIMIT = 12

_MAGIC = b"PAR1"
_ENCODINGS = {"PLAIN", "RLE", "BIT_PACKED", "BYTE_STREAM_SPLIT", "DELTA_BINARY_PACKED"}
_CODECS = frozenset(range(8))
_DATA_PAGES = (0, 3)
_TYPES = (pa.int64(), pa.int64())


def check_parquet(path: Path, rows: int) -> None:
    """ValueError unless ``path`` holds ``rows`` samples in the form in which they are sealed, and
    can be read in bounded memory. The values themselves are not read."""
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        groups = 2 + (rows >> 14)
        if rows > size * ROWS_PER_BYTE:
            raise ValueError(f"{rows} samples cannot come out of {size} bytes")
        tail = os.pread(file.fileno(), 8, size - 8) if size >= 12 else b""
        footer = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or footer + 12 > size:
            raise ValueError("it is not a Parquet file, or it is cut")
        if footer > min(FOOTER_LIMIT, (1 << 20) + groups * (1 << 11)):
            raise ValueError(f"its footer has {footer} bytes")
        _check_footer(os.pread(file.fileno(), footer, size - 8 - footer))
        limits = {
            "thrift_string_size_limit": FOOTER_LIMIT,
            "thrift_container_size_limit": 1 << 17,
        }
        try:
            with pq.ParquetFile(path, pre_buffer=False, **limits) as parquet:
                metadata, schema = parquet.metadata, parquet.schema_arrow
        except (OSError, pa.ArrowException) as error:
            raise ValueError(f"Arrow cannot read it: {str(error).splitlines()[0]}") from error
        _check_schema(schema)
        if metadata.num_rows != rows or metadata.num_row_groups > groups:
            raise ValueError(f"it has {metadata.num_rows} samples, but {rows} were sealed")
        total = 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            total += group.num_rows
            if not 0 <= group.num_rows <= GROUP_ROWS_LIMIT or group.num_columns != len(COLUMNS):
                raise ValueError(f"its row group {number} has {group.num_rows} rows")
            for column in range(group.num_columns):
                _check_column(
                    file.fileno(), group.column(column), group.num_rows, size - footer - 8
                )
        if total != rows:
            raise ValueError(f"its row groups have {total} rows, but {rows} were sealed")


def _check_schema(schema: Any) -> None:
    if tuple(schema.names) != COLUMNS or any(field.nullable for field in schema):
        raise ValueError("its columns are not " + ", ".join(COLUMNS))
    types = tuple(schema.types)
    if types[:2] != _TYPES or types[2] not in (pa.int32(), pa.int64()):
        raise ValueError("its columns are not whole numbers")


def _check_column(file: int, column: Any, rows: int, end: int) -> None:
    """Every page of a column's chunk, one header after the other."""
    if (
        column.num_values != rows
        or column.has_dictionary_page
        or column.compression not in ("ZSTD", "UNCOMPRESSED")
        or not set(column.encodings) <= _ENCODINGS
    ):
        raise ValueError("its samples are not encoded as they are when sealed")
    at = column.data_page_offset
    stop = at + column.total_compressed_size
    if at < len(_MAGIC) or column.total_compressed_size < 0 or stop > end:
        raise ValueError("a column lies outside of it")
    while at < stop:
        fields, length = _page_header(os.pread(file, HEADER_LIMIT, at))
        unpacked, packed = fields.get(2, -1), fields.get(3, -1)
        if fields.get(1) not in _DATA_PAGES or packed < 0:
            raise ValueError("a page is not of samples")
        if not 0 <= unpacked <= PAGE_LIMIT:
            raise ValueError(f"a page of {packed} bytes claims to become {unpacked}")
        at += length + packed
    if at != stop:
        raise ValueError("a page reaches out of its column")


def _check_footer(data: bytes) -> None:
    """ValueError where Arrow would end the process: it does so at a codec that it does not know
    (`FileMetaData`, its row groups, their columns, the metadata of each, its codec)."""
    try:
        groups = _struct(data, 0, 0)[0].get(4, [])
        columns = [column for group in groups for column in group.get(1, [])]
        codecs = {column.get(3, {}).get(4) for column in columns}
    except (IndexError, AttributeError, TypeError) as error:
        raise ValueError("its footer is damaged") from error
    if not codecs <= _CODECS:
        raise ValueError("its samples are not packed as they are when sealed")


def _page_header(data: bytes) -> tuple[dict[int, int], int]:
    """The whole numbers among the fields of a PageHeader, and its length."""
    try:
        fields, length = _struct(data, 0, 0)
    except IndexError as error:
        raise ValueError("a page's header is cut or too long") from error
    return {field: value for field, value in fields.items() if type(value) is int}, length


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """A structure's fields by number, and where it ends. IndexError where it is cut."""
    if depth > DEPTH_LIMIT:
        raise ValueError("it is nested too deep")
    fields: dict[int, Any] = {}
    field = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            field += head >> 4
        else:
            field, at = _zigzag(data, at)
        if head & 15 in (1, 2):  # the kind says which truth value
            fields[field] = head & 15 == 1
        else:
            fields[field], at = _value(data, at, head & 15, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    match kind:
        case 1 | 2 | 3:  # a truth value in a list, a byte
            return data[at], at + 1
        case 4 | 5 | 6:  # i16, i32, i64
            return _zigzag(data, at)
        case 7:
            return None, at + 8
        case 8:  # bytes
            length, at = _varint(data, at)
            return data[at : at + length], at + length
        case 9 | 10:
            return _list(data, at, depth)
        case 12:
            return _struct(data, at, depth + 1)
        case _:  # maps: no structure of the format has any
            raise ValueError("it contains a type that the format lacks")


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    if depth > DEPTH_LIMIT:
        raise ValueError("it is nested too deep")
    head = data[at]
    count, at = (head >> 4, at + 1) if head >> 4 < 15 else _varint(data, at + 1)
    values = []
    for _ in range(count):
        value, at = _value(data, at, head & 15, depth + 1)
        values.append(value)
        if at > len(data):
            raise IndexError
    return values, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("it holds a number that is too long")


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return value >> 1 ^ -(value & 1), at
