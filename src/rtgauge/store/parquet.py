# SPDX-License-Identifier: Apache-2.0
"""The Parquet files of samples, written and read with NumPy and zstd alone.

A file has row groups of three required columns of whole numbers. Each column of a group is one
chunk of data pages (version 1), packed with zstd: whole numbers plain, delta-encoded
(DELTA_BINARY_PACKED) or with their bytes apart (BYTE_STREAM_SPLIT). Footer and page headers are
structures of Thrift's compact protocol (the format's ``parquet.thrift``). The reader accepts this
and nothing else, believes no size that a file states, and is the check of files from elsewhere.
"""

from __future__ import annotations

import itertools
import os
import struct
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = [
    "COLUMNS",
    "ROWS_PER_BYTE",
    "Chunk",
    "ParquetReader",
    "ParquetWriter",
    "Thrift",
    "check_apart",
]

COLUMNS: Final = ("index", "due_ns", "value")
PAGE_LIMIT: Final = 1 << 24
"""Maximum size of a decompressed page in bytes. The writer's have at most 1 MiB, or are deltas."""
PAGE_BYTES: Final = 1 << 20
GROUP_ROWS_LIMIT: Final = 1 << 22
ROWS_PER_BYTE: Final = 1 << 12
"""A sealed sample takes at least a thousandth of a byte (all values alike)."""
FOOTER_LIMIT: Final = 1 << 26
HEADER_LIMIT: Final = 1 << 12
DEPTH_LIMIT: Final = 12

_MAGIC: Final = b"PAR1"
_INT32, _INT64 = 1, 2
_REQUIRED: Final = 0
_PLAIN, _RLE, _BIT_PACKED, _DELTA, _SPLIT = 0, 3, 4, 5, 9
_ENCODINGS: Final = {_PLAIN, _RLE, _BIT_PACKED, _DELTA, _SPLIT}
_UNPACKED, _ZSTD = 0, 6
_DATA_PAGE: Final = 0
_DTYPES: Final[dict[int, np.dtype[Any]]] = {_INT32: np.dtype("<i4"), _INT64: np.dtype("<i8")}
# Arrow's
_BLOCK: Final = 256
_MINI: Final = 64
_BLOCK_LIMIT: Final = 1 << 12
_PIECE: Final = 1 << 12
"""Number of miniblocks whose bits are apart at a time."""

Whole = NDArray[Any]


# --- Thrift's compact protocol --------------------------------------------------------------------


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)


def _zigzag(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


@dataclass(frozen=True)
class _Long:
    """A whole number of 64 bits; Python's own are of 32."""

    value: int


def _value(value: Any) -> tuple[int, bytes]:
    """The kind of a value and its bytes: a structure (by number of field), a list, bytes, or a
    whole number."""
    match value:
        case _Long(number):
            return 6, _zigzag(number)
        case int():
            return 5, _zigzag(value)
        case bytes():
            return 8, _varint(len(value)) + value
        case list():
            parts = [_value(one) for one in value]
            few = len(parts) < 15
            head = bytes([(len(parts) if few else 15) << 4 | parts[0][0]])
            head += b"" if few else _varint(len(parts))
            return 9, head + b"".join(data for _, data in parts)
        case dict():
            return 12, _struct(value)
        case _:
            raise TypeError(value)


def _struct(fields: Mapping[int, Any]) -> bytes:
    parts, last = [], 0
    for number, one in fields.items():
        kind, data = _value(one)
        parts.append(bytes([(number - last) << 4 | kind]) + data)
        last = number
    return b"".join(parts) + b"\0"


class Thrift:
    """Reads structures. IndexError where they are cut, ValueError where they are not Thrift."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.left = 64 + len(data) // 2  # each value of several bytes takes memory

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """The fields by number."""
        if depth > DEPTH_LIMIT:
            raise ValueError("it is nested too deep")
        fields: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            if head >> 4:
                field += head >> 4
            else:
                field = self.zigzag()
            if head & 15 in (1, 2):  # the kind says which truth value
                fields[field] = head & 15 == 1
            else:
                fields[field] = self._value(head & 15, depth)
        return fields

    def _byte(self) -> int:
        byte = self.data[self.at]
        self.at += 1
        return byte

    def varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("it contains a number that is too long")

    def zigzag(self) -> int:
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def _value(self, kind: int, depth: int) -> Any:
        if kind >= 8:
            self.left -= 1
            if self.left < 0:
                raise ValueError("it holds too many small values")
        match kind:
            case 1 | 2 | 3:  # a truth value in a list, a byte
                return self._byte()
            case 4 | 5 | 6:  # i16, i32, i64
                return self.zigzag()
            case 7:
                self.at += 8
                return None
            case 8:  # bytes
                length = self.varint()
                self.at += length
                if self.at > len(self.data):
                    raise IndexError
                return self.data[self.at - length : self.at]
            case 9 | 10:
                return self._list(depth)
            case 12:
                return self.struct(depth + 1)
            case _:  # maps: no structure of the format has any
                raise ValueError("it contains a type that the format lacks")

    def _list(self, depth: int) -> list[Any]:
        if depth > DEPTH_LIMIT:
            raise ValueError("it is nested too deep")
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self.varint()
        values = []
        for _ in range(count):
            values.append(self._value(head & 15, depth))
            if self.at > len(self.data):
                raise IndexError
        return values


# --- whole numbers by their differences -----------------------------------------------------------


def _bits(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The number of bits of each."""
    left, bits = values.copy(), np.zeros(values.shape, np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        wide = left >= np.uint64(1) << np.uint64(step)
        bits[wide] += step
        left[wide] >>= np.uint64(step)
    return bits + (left > 0)


def delta_encoded(values: NDArray[np.int64]) -> bytes:
    """The numbers as DELTA_BINARY_PACKED, in blocks of 256 with 4 miniblocks."""
    head = b"".join((_varint(_BLOCK), _varint(_BLOCK // _MINI), _varint(len(values))))
    head += _zigzag(int(values[0]))
    deltas = np.diff(values)
    if not len(deltas):
        return head
    more = -len(deltas) % _BLOCK
    tail = deltas[len(deltas) - (_BLOCK - more) :] if more else deltas[:1]
    blocks = np.append(deltas, np.full(more, tail.min())).reshape(-1, _BLOCK)
    least = blocks.min(1)
    minis = (blocks - least[:, None]).view(np.uint64).reshape(-1, _MINI)
    widths = _bits(minis.max(1))
    packed = dict(_packed(minis, widths))
    flat: NDArray[np.bool] = widths.reshape(-1, 4).max(1) == 0
    # where a block is not as the one before it
    alike = (least[1:] == least[:-1]) & flat[1:] & flat[:-1]
    change = np.flatnonzero(~alike) + 1
    starts = [0, *change.tolist()]
    parts = [head]
    for start, stop in zip(starts, [*starts[1:], len(least)], strict=True):
        widths_here = widths[4 * start : 4 * start + 4]
        block = _zigzag(int(least[start])) + widths_here.astype(np.uint8).tobytes()
        parts.append(block * (stop - start))
        if not flat[start]:
            parts += [packed.get(mini, b"") for mini in range(4 * start, 4 * start + 4)]
    return b"".join(parts)


def _packed(minis: NDArray[np.uint64], widths: NDArray[np.int64]) -> Iterator[tuple[int, bytes]]:
    """The bytes of each miniblock that has any."""
    for width in np.unique(widths[widths > 0]).tolist():
        found = np.flatnonzero(widths == width)
        for start in range(0, len(found), _PIECE):
            which = found[start : start + _PIECE]
            bits = np.unpackbits(
                minis[which].astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little"
            )[:, :width]
            data = np.packbits(bits.reshape(len(which), -1), axis=1, bitorder="little")
            yield from zip(which.tolist(), map(bytes, data), strict=True)


def delta_decoded(data: bytes, count: int) -> NDArray[np.int64]:
    """``count`` numbers of DELTA_BINARY_PACKED. IndexError or ValueError where they are not."""
    thrift = Thrift(data)
    size, number, total = thrift.varint(), thrift.varint(), thrift.varint()
    mini = size // number if number else 0
    if total != count or not 32 <= mini == size / number or mini % 32 or size > _BLOCK_LIMIT:
        raise ValueError("its differences have unsupported blocks, or a wrong number of values")
    values = np.empty(count, np.int64)
    values[0] = thrift.zigzag()
    blocks = -(-(count - 1) // size)
    deltas = np.zeros((blocks, size), np.uint64)
    least = np.zeros(blocks, np.int64)
    wide: dict[int, list[tuple[int, int]]] = {}
    block, raw = 0, np.frombuffer(data, np.uint8)
    while block < blocks:
        start = thrift.at
        smallest = np.int64(thrift.zigzag())
        widths = data[thrift.at : thrift.at + number]
        thrift.at += number
        if len(widths) < number or max(widths) > 64:
            raise ValueError("its differences are damaged")
        same = 1
        if not any(widths):
            same = _repeated(raw[start:], thrift.at - start, blocks - block)
            thrift.at = start + same * (thrift.at - start)
        for which, width in enumerate(widths):
            if width:
                wide.setdefault(width, []).append((number * block + which, thrift.at))
                thrift.at += mini // 8 * width
        least[block : block + same] = smallest
        block += same
        if thrift.at > len(data):
            raise IndexError
    if not wide and (least == least[:1]).all():
        values[1:] = least[0] if blocks else 0
        return np.cumsum(values)
    minis = deltas.reshape(-1, mini)
    for width, places in wide.items():
        for first in range(0, len(places), _PIECE):
            here, at = np.array(places[first : first + _PIECE]).T
            bits = np.zeros((len(here) * mini, 64), np.uint8)
            found = raw[at[:, None] + np.arange(mini // 8 * width)]
            bits[:, :width] = np.unpackbits(found, axis=1, bitorder="little").reshape(-1, width)
            minis[here] = np.packbits(bits, axis=1, bitorder="little").view("<u8").reshape(-1, mini)
    steps = deltas.view(np.int64)
    steps += least[:, None]
    values[1:] = steps.reshape(-1)[: count - 1]
    return np.cumsum(values)


def _repeated(data: NDArray[np.uint8], length: int, most: int) -> int:
    """How often the first ``length`` bytes follow one another, at most ``most`` times."""
    most = min(most, len(data) // length)
    first, step, known = data[:length], 64, 1
    while known < most:
        stop = min(known + step, most)
        same = (data[known * length : stop * length].reshape(-1, length) == first).all(1)
        if not same.all():
            return known + int(same.argmin())
        known, step = stop, 4 * step
    return known


# --- writing --------------------------------------------------------------------------------------


def _checksum(packed: bytes) -> int:
    """The CRC-32 of a page as it lies in the file, as a signed number."""
    crc = zlib.crc32(packed)
    return crc - (crc >> 31 << 32)


class ParquetWriter:
    """Writes a file of samples, a row group at a time; complete once it is closed.

    ``wide``: whether values have 64 bits. ``about``: a text for the key-value metadata ``rtgauge``.
    """

    def __init__(self, file: BinaryIO, about: str, *, wide: bool, level: int) -> None:
        self._file = file
        self._about = about
        self._types = (_INT64, _INT64, _INT64 if wide else _INT32)
        self._level = level
        self._groups: list[dict[int, Any]] = []
        self._rows = 0
        file.write(_MAGIC)
        self._at = len(_MAGIC)

    def write(self, columns: Sequence[Whole]) -> None:
        """Write a row group: as many numbers of each column, at least one."""
        rows = len(columns[0])
        chunks = [self._chunk(at, values) for at, values in enumerate(columns)]
        size = sum(chunk[3][6].value for chunk in chunks)
        self._groups.append({1: chunks, 2: _Long(size), 3: _Long(rows)})
        self._rows += rows

    def _chunk(self, column: int, values: Whole) -> dict[int, Any]:
        kind = self._types[column]
        dtype = _DTYPES[kind]
        numbers = np.ascontiguousarray(values, dtype)
        encoding = _SPLIT if column == 2 else _DELTA
        start, plain = self._at, 0
        step = PAGE_BYTES // dtype.itemsize if encoding == _SPLIT else len(numbers)
        for at in range(0, len(numbers), step):
            page = numbers[at : at + step]
            if encoding == _SPLIT:
                data = page.view(np.uint8).reshape(-1, dtype.itemsize).T.tobytes()
            else:
                data = delta_encoded(page)
            packed = zstd.compress(data, self._level)
            header = {1: len(page), 2: encoding, 3: _RLE, 4: _RLE}
            head = _struct(
                {1: _DATA_PAGE, 2: len(data), 3: len(packed), 4: _checksum(packed), 5: header}
            )
            self._file.write(head)
            self._file.write(packed)
            self._at += len(head) + len(packed)
            plain += len(head) + len(data)
        least, most = (one.astype(dtype).tobytes() for one in (numbers.min(), numbers.max()))
        about = {
            1: kind,
            2: [encoding],
            3: [COLUMNS[column].encode()],
            4: _ZSTD,
            5: _Long(len(numbers)),
            6: _Long(plain),
            7: _Long(self._at - start),
            9: _Long(start),
            12: {3: _Long(0), 5: most, 6: least},
        }
        return {2: _Long(start), 3: about}

    def close(self) -> None:
        """Write the footer."""
        columns = [
            {1: kind, 3: _REQUIRED, 4: name.encode()}
            for name, kind in zip(COLUMNS, self._types, strict=True)
        ]
        footer = _struct(
            {
                1: 2,
                2: [{4: b"schema", 5: len(columns)}, *columns],
                3: _Long(self._rows),
                4: self._groups,
                5: [{1: b"rtgauge", 2: self._about.encode()}],
                6: b"rtgauge",
                7: [{1: {}} for _ in columns],
            }
        )
        self._file.write(footer + struct.pack("<I", len(footer)) + _MAGIC)


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chunk:
    """A column of a row group: its place, and its min and max."""

    start: int
    stop: int
    packed: bool
    least: int | None
    most: int | None


@dataclass(frozen=True)
class _Page:
    """The place of a page's data, and the content of its header."""

    start: int
    packed: int
    unpacked: int
    count: int
    encoding: int
    checksum: int | None
    """None in files of older versions, and of others."""


def check_apart(chunks: Sequence[Chunk]) -> None:
    """ValueError if columns overlap: each page would be read for every column that claims it."""
    ordered = sorted((chunk.start, chunk.stop) for chunk in chunks)
    if any(after < stop for (_, stop), (after, _) in itertools.pairwise(ordered)):
        raise ValueError("its columns overlap")


class ParquetReader:
    """A file of samples. ValueError unless it has the form in which samples are written, and, if
    ``rows`` is given, this number of rows."""

    def __init__(self, path: Path, rows: int | None = None) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._open(rows)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ParquetReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _open(self, wanted: int | None) -> None:
        size = os.fstat(self._file).st_size
        if wanted is not None and wanted > size * ROWS_PER_BYTE:
            raise ValueError(f"{size} bytes cannot contain {wanted} samples")
        tail = os.pread(self._file, 8, size - 8) if size >= 12 else b""
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or length + 12 > size:
            raise ValueError("it is not a Parquet file, or is truncated")
        most = FOOTER_LIMIT if wanted is None else (1 << 20) + (2 + (wanted >> 14)) * (1 << 11)
        if length > min(FOOTER_LIMIT, most):
            raise ValueError(f"its footer has {length} bytes")
        self._end = size - 8 - length
        try:
            footer = Thrift(os.pread(self._file, length, self._end)).struct()
            self._read_schema(footer[2])
            self.rows = int(footer[3])
            groups = footer.get(4, [])
            self.groups: list[int] = [int(group[3]) for group in groups]
            self._chunks = [
                [self._chunk(at, group[1], rows) for at in range(len(COLUMNS))]
                for group, rows in zip(groups, self.groups, strict=True)
            ]
            check_apart([chunk for group in self._chunks for chunk in group])
            self.about = {pair[1]: pair.get(2, b"") for pair in footer.get(5, [])}
        except (IndexError, KeyError, AttributeError, TypeError) as error:
            raise ValueError("its footer is damaged") from error
        if wanted is not None and self.rows != wanted:
            raise ValueError(f"it has {self.rows} samples, but {wanted} were sealed")
        if sum(self.groups) != self.rows:
            raise ValueError(f"its row groups have {sum(self.groups)} rows, but it has {self.rows}")

    def _read_schema(self, schema: list[dict[int, Any]]) -> None:
        root, columns = schema[0], schema[1:]
        names = tuple(column[4].decode("utf-8", "replace") for column in columns)
        required = all(column.get(3) == _REQUIRED and not column.get(5) for column in columns)
        if names != COLUMNS or root.get(5) != len(COLUMNS) or not required:
            raise ValueError("its columns are not " + ", ".join(COLUMNS))
        self._types: tuple[int, ...] = tuple(column.get(1, -1) for column in columns)
        if self._types[:2] != (_INT64, _INT64) or self._types[2] not in _DTYPES:
            raise ValueError("its columns are not whole numbers")

    def _chunk(self, at: int, columns: list[dict[int, Any]], rows: int) -> Chunk:
        if not 0 < rows <= GROUP_ROWS_LIMIT or len(columns) != len(COLUMNS):
            raise ValueError(f"a row group with {rows} rows and {len(columns)} columns is invalid")
        about = columns[at][3]
        if (
            about[5] != rows
            or about[1] != self._types[at]
            or about[3] != [COLUMNS[at].encode()]
            or 11 in about  # a dictionary
            or about[4] not in (_UNPACKED, _ZSTD)
            or not set(about[2]) <= _ENCODINGS
        ):
            raise ValueError("its samples do not have the encoding of sealed samples")
        start, stop = about[9], about[9] + about[7]
        if not len(_MAGIC) <= start <= stop <= self._end:
            raise ValueError("a column lies outside of the file")
        known = about.get(12, {})
        least, most = (
            int.from_bytes(one, "little", signed=True) if one else None
            for one in (known.get(6), known.get(5))
        )
        return Chunk(start, stop, about[4] == _ZSTD, least, most)

    def limits(self, column: str) -> tuple[int, int]:
        """The min and max of a column. KeyError if the file does not say."""
        chunks = [group[COLUMNS.index(column)] for group in self._chunks]
        least = [one.least for one in chunks if one.least is not None]
        most = [one.most for one in chunks if one.most is not None]
        if len(least) < len(chunks) or len(most) < len(chunks) or not chunks:
            raise KeyError(column)
        return min(least), max(most)

    def read(self, group: int, column: str) -> Whole:
        """A column of a row group. ValueError if it is damaged."""
        at = COLUMNS.index(column)
        dtype = _DTYPES[self._types[at]]
        found = np.empty(self.groups[group], dtype)
        filled = 0
        for page in self._pages(self._chunks[group][at]):
            data = os.pread(self._file, page.packed, page.start)
            if page.checksum not in (None, _checksum(data)):
                raise ValueError("a page does not have the checksum in its header")
            numbers = _decoded(data, page, self._chunks[group][at].packed, dtype)
            if filled + len(numbers) > len(found):
                raise ValueError("its pages hold more samples than its row groups")
            found[filled : filled + len(numbers)] = numbers
            filled += len(numbers)
        if filled != len(found):
            raise ValueError("its pages hold fewer samples than its row groups")
        return found

    def check_pages(self) -> None:
        """Look at the header of every page, but at no value. ValueError if one is wrong."""
        for group, rows in zip(self._chunks, self.groups, strict=True):
            for chunk in group:
                if sum(page.count for page in self._pages(chunk)) != rows:
                    raise ValueError("its pages and row groups have different numbers of samples")

    def _pages(self, chunk: Chunk) -> Iterator[_Page]:
        at = chunk.start
        while at < chunk.stop:
            thrift = Thrift(os.pread(self._file, HEADER_LIMIT, at))
            try:
                fields = thrift.struct()
            except IndexError as error:
                raise ValueError("a page's header is truncated or too long") from error
            about = fields.get(5)
            unpacked, packed = fields.get(2, -1), fields.get(3, -1)
            if fields.get(1) != _DATA_PAGE or type(about) is not dict or packed < 0:
                raise ValueError("a page does not contain samples")
            if not 0 <= unpacked <= PAGE_LIMIT:
                raise ValueError(f"a page of {packed} bytes claims to unpack to {unpacked}")
            at += thrift.at
            count, encoding = about.get(1, -1), about.get(2, -1)
            if not 0 < count <= GROUP_ROWS_LIMIT or at + packed > chunk.stop:
                raise ValueError("a page extends beyond its column")
            yield _Page(at, packed, unpacked, count, encoding, fields.get(4))
            at += packed


def _decoded(data: bytes, page: _Page, packed: bool, dtype: np.dtype[Any]) -> Whole:
    """The numbers of a page."""
    try:
        if packed:
            unpacker = zstd.ZstdDecompressor()
            data = unpacker.decompress(data, max_length=page.unpacked + 1)
        if len(data) != page.unpacked:
            raise ValueError("a page does not unpack to the size in its header")
        if page.encoding == _DELTA:
            return delta_decoded(data, page.count).astype(dtype)
        if len(data) != page.count * dtype.itemsize:
            raise ValueError("a page does not have the number of samples in its header")
        if page.encoding == _SPLIT:
            planes = np.frombuffer(data, np.uint8).reshape(dtype.itemsize, -1)
            return np.ascontiguousarray(planes.T).view(dtype).reshape(-1)
        if page.encoding == _PLAIN:
            return np.frombuffer(data, dtype)
    except (zstd.ZstdError, IndexError, OverflowError) as error:
        raise ValueError("a page is damaged") from error
    raise ValueError("its samples do not have the encoding of sealed samples")
