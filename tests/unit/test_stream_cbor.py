# SPDX-License-Identifier: Apache-2.0
"""CBOR of the bodies: lengths at their borders, and no look at what follows a body."""

from __future__ import annotations

from typing import Any

import cbor2
import numpy as np
import pytest

from rtgauge.stream import Gaps, Samples
from rtgauge.stream.cbor import DEPTH_LIMIT, Bad, Typed, decode_body, encode, head

JUNK = bytes.fromhex("a1616118ff1903e80102617a83d84e44")


def outcome(data: bytes, behind: bytes = b"") -> Any:
    """What a body decodes to, or the reason why it does not."""
    try:
        return decode_body(data + behind, 0, len(data))
    except Bad as error:
        return str(error)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("62 61 62", None),
        ("63 61 62", "a string is longer"),
        ("43 01 02", "a string is longer"),
        ("82 01 02", None),
        ("83 01 02", "an array is longer"),
        ("82 18 ff 17", None),
        ("82 18 ff", "the body ends"),
        ("81 18", ""),
        ("81 19 03", ""),
        ("81 19 03 e8", None),
        ("83 19 03 e8", "the body ends"),
        ("83 05 18 63", "the body ends"),
        ("a1 61 62 01", None),
        ("a2 61 62 01", "a map is longer"),
        ("a2 61 62 61 63", "a map has a key"),
        ("a1 01 02", "a map has a key"),
        ("d8 4e 44 00 00 00 01", None),
        ("d8 4e 44 00 00 00", "a string is longer"),
        ("d8 4e 45 00 00 00 00 00", "not a multiple of 4"),
        ("d8 4e", "tag 78 is on a value that is not a byte string"),
        ("d8 4e 01", "tag 78 is on a value that is not a byte string"),
        ("d8 4f 44 00 00 00 01", "the tag 79"),
    ],
)
def test_lengths_are_believed_as_far_as_the_body(value: str, reason: str | None) -> None:
    data = bytes.fromhex("a1 61 61" + value)
    found = outcome(data)
    assert isinstance(found, dict) == (reason is None)
    if reason is not None:
        assert reason in found
    for behind in (JUNK, b"\0" * 40, b"\xff" * 40):
        assert outcome(data, behind) == found


@pytest.mark.parametrize("data", ["", "01", "61 61", "81 01", "f6"])
def test_a_body_that_is_not_a_map(data: str) -> None:
    for behind in (b"", JUNK):
        assert outcome(bytes.fromhex(data), behind) == "the body is not a map"


def test_every_beginning_of_a_body_is_refused_for_the_same_reason_whatever_follows() -> None:
    whole = encode(
        {
            "numbers": [0, 23, 24, 255, 256, 65_535, 65_536, -1, -25, (1 << 63) - 1, -(1 << 63)],
            "text": "x" * 30,
            "bytes": b"y" * 25,
            "map": {"inner": [True, False, None, [1000]]},
            "samples": np.arange(3),
        }
    )
    assert isinstance(outcome(whole), dict)
    for size in range(len(whole)):
        found = outcome(whole[:size])
        assert isinstance(found, str)
        assert outcome(whole[:size], JUNK) == outcome(whole[:size], whole[size:]) == found
    assert outcome(whole + b"\0") == "bytes follow the map of the body"


@pytest.mark.parametrize("number", [0, 22, 23, 24, 25, 255, 256, 65_535, 65_536, 1 << 32])
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_integers_in_longer_forms(number: int, width: int) -> None:
    if number >= 1 << (8 * width):
        return
    form = bytes([{1: 24, 2: 25, 4: 26, 8: 27}[width]]) + number.to_bytes(width, "big")
    data = bytes.fromhex("a1 61 61 83 01") + form + b"\x02"
    assert outcome(data) == cbor2.loads(data) == {"a": [1, number, 2]}


@pytest.mark.parametrize("inner", [[], {}])
def test_the_depth_of_a_body_is_limited(inner: Any) -> None:
    for levels, fits in ((DEPTH_LIMIT - 1, True), (DEPTH_LIMIT, False)):
        value = inner
        for level in range(levels - 1):
            value = [value] if level % 2 else {"k": value}
        found = outcome(encode({"a": value}))
        assert isinstance(found, dict) == fits
        assert fits or "nest deeper" in found


@pytest.mark.parametrize("number", [0, 23, 24, 255, 256, 65_535, 65_536, (1 << 32) - 1, 1 << 32])
def test_heads_are_the_shortest(number: int) -> None:
    assert head(0, number) == encode(number) == cbor2.dumps(number)
    assert encode(-1 - number) == cbor2.dumps(-1 - number)


def test_what_a_stream_cannot_hold() -> None:
    with pytest.raises(ValueError, match="64 bits"):
        head(0, 1 << 64)
    assert head(0, (1 << 64) - 1) == cbor2.dumps((1 << 64) - 1)
    with pytest.raises(TypeError, match="float"):
        encode({"a": 1.5})


def test_a_typed_array_is_where_its_bytes_are() -> None:
    data = encode({"a": np.array([5, -6], np.int32)})
    found = outcome(data)["a"]
    assert isinstance(found, Typed)
    assert np.frombuffer(data, "<i4", 2, len(data) - 8).tolist() == [5, -6]
    assert found == Typed(len(data) - 8, len(data))


def test_missed_periods_of_blocks() -> None:
    values = np.zeros(4, np.int32)
    rows = np.array([[7, 3], [9, 2**31 - 1]], np.int32)
    assert Samples(0, 0, 0, 0, values, 0).missed == 0
    assert Samples(0, 0, 0, 0, values, 0, rows).missed == 3 + 2**31 - 1
    assert Gaps(0, 0, 0, rows).missed == 3 + 2**31 - 1
