# SPDX-License-Identifier: Apache-2.0
"""The subset of CBOR that docs/formats/stream.md allows, and nothing else: decoding in time linear
in the bytes, with memory of a small multiple of them, and encoding for tests and fakes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias, cast

import numpy as np

DEPTH_LIMIT = 8

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)


class Bad(Exception):
    """A record that is not as docs/formats/stream.md says; ends the stream."""


class Typed(NamedTuple):
    """The content of a tag 78: its first byte and the one after its last."""

    start: int
    stop: int


Value: TypeAlias = "int | str | bytes | bool | Typed | list[Value] | dict[str, Value] | None"

WIDTHS = {24: 1, 25: 2, 26: 4, 27: 8}
UNSIGNED, _NEGATIVE, BYTES, _TEXT, _ARRAY, _MAP, _TAG = range(7)
_SIMPLE: dict[int, bool | None] = {0xF4: False, 0xF5: True, 0xF6: None}
_TYPED_INT32LE = 78


def _argument(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """The argument of the item at ``at``, and where what follows it begins."""
    low = data[at] & 31
    if low < 24:
        return low, at + 1
    width = WIDTHS.get(low)
    if width is None:
        raise Bad("an item is of indefinite length or not CBOR")
    end = at + 1 + width
    if end > stop:
        raise Bad("the body ends inside an item")
    return int.from_bytes(data[at + 1 : end], "big"), end


def _decode(data: bytes, at: int, stop: int, depth: int) -> tuple[Value, int]:
    """Decode the item at ``at``; gives it and where it ends. Lengths are believed only as far as
    bytes are there, so that nothing grows beyond a small multiple of the body."""
    if at >= stop:
        raise Bad("the body ends where an item should begin")
    first = data[at]
    if first < 24:
        return first, at + 1
    if first in _SIMPLE:
        return _SIMPLE[first], at + 1
    major = first >> 5
    if major > _TAG:
        raise Bad("a value is a floating-point number, or a simple value that streams lack")
    value, at = _argument(data, at, stop)
    if major in (UNSIGNED, _NEGATIVE):
        if value > INT64_MAX:
            raise Bad("an integer has more than 64 bits")
        return (value if major == UNSIGNED else -1 - value), at
    if major in (BYTES, _TEXT):
        if value > stop - at:
            raise Bad("a string is longer than the body")
        chunk = data[at : at + value]
        if major == BYTES:
            return chunk, at + value
        try:
            return chunk.decode(), at + value
        except UnicodeDecodeError:
            raise Bad("a text is not UTF-8") from None
    if major == _ARRAY:
        return _decode_array(data, at, stop, depth, value)
    if major == _MAP:
        return _decode_map(data, at, stop, depth, value)
    return _decode_typed(data, at, stop, value)


def _decode_array(data: bytes, at: int, stop: int, depth: int, count: int) -> tuple[Value, int]:
    if depth >= DEPTH_LIMIT:
        raise Bad(f"maps and arrays nest deeper than {DEPTH_LIMIT}")
    if count > stop - at:
        raise Bad("an array is longer than the body")
    items: list[Value] = []
    append = items.append
    for _ in range(count):
        # Small integers by the short way: the buckets of a histogram are thousands of them.
        first = data[at] if at < stop else -1
        if 0 <= first < 24:
            append(first)
            at += 1
        elif first == 0x18 and at + 2 <= stop:
            append(data[at + 1])
            at += 2
        elif first == 0x19 and at + 3 <= stop:
            append(data[at + 1] << 8 | data[at + 2])
            at += 3
        else:
            item, at = _decode(data, at, stop, depth + 1)
            append(item)
    return items, at


def _decode_map(
    data: bytes, at: int, stop: int, depth: int, count: int
) -> tuple[dict[str, Value], int]:
    if depth >= DEPTH_LIMIT:
        raise Bad(f"maps and arrays nest deeper than {DEPTH_LIMIT}")
    if count > (stop - at) // 2:
        raise Bad("a map is longer than the body")
    pairs: dict[str, Value] = {}
    for _ in range(count):
        if at >= stop or data[at] >> 5 != _TEXT:
            raise Bad("a map has a key that is not text")
        key, at = _decode(data, at, stop, depth)
        value, at = _decode(data, at, stop, depth + 1)
        if key in pairs:
            raise Bad("a map has the same key twice")
        pairs[cast(str, key)] = value
    return pairs, at


def _decode_typed(data: bytes, at: int, stop: int, tag: int) -> tuple[Value, int]:
    if tag != _TYPED_INT32LE:
        raise Bad(f"a value has the tag {tag}")
    if at >= stop or data[at] >> 5 != BYTES:
        raise Bad("tag 78 is on a value that is not a byte string")
    size, at = _argument(data, at, stop)
    if size > stop - at:
        raise Bad("a string is longer than the body")
    if size % 4:
        raise Bad("the bytes of a typed array are not a multiple of 4")
    return Typed(at, at + size), at + size


def decode_body(data: bytes, start: int, stop: int) -> dict[str, Value]:
    if start >= stop or data[start] >> 5 != _MAP:
        raise Bad("the body is not a map")
    count, at = _argument(data, start, stop)
    body, at = _decode_map(data, at, stop, 0, count)
    if at != stop:
        raise Bad("bytes follow the map of the body")
    return body


# --- encoding -----------------------------------------------------------------------------------


def head(major: int, value: int) -> bytes:
    if value < 24:
        return bytes([major << 5 | value])
    for low, width in zip((24, 25, 26, 27), (1, 2, 4, 8), strict=True):
        if value < 1 << 8 * width:
            return bytes([major << 5 | low]) + value.to_bytes(width, "big")
    raise ValueError(f"{value} has more than 64 bits")


def encode(value: object) -> bytes:
    match value:
        case None:
            return b"\xf6"
        case bool():
            return b"\xf5" if value else b"\xf4"
        case int() | np.integer():
            number = int(value)
            return head(UNSIGNED, number) if number >= 0 else head(_NEGATIVE, -1 - number)
        case str():
            data = value.encode()
            return head(_TEXT, len(data)) + data
        case bytes():
            return head(BYTES, len(value)) + value
        case np.ndarray():
            data = np.asarray(value, dtype="<i4").tobytes()
            return head(_TAG, _TYPED_INT32LE) + head(BYTES, len(data)) + data
        case list() | tuple():
            return head(_ARRAY, len(value)) + b"".join(map(encode, value))
        case Mapping():
            pairs = [encode(key) + encode(item) for key, item in value.items()]
            return head(_MAP, len(pairs)) + b"".join(pairs)
    raise TypeError(f"a stream cannot hold a {type(value).__name__}")
