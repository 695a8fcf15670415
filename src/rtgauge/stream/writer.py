# SPDX-License-Identifier: Apache-2.0
"""Encoding records as an agent writes them: for tests, fakes and benchmarks."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from rtgauge.stream.cbor import BYTES, UNSIGNED, encode, head
from rtgauge.stream.reader import ARRAY_OF_FOUR, BODY_LIMIT


def encode_record(kind: int, sequence: int, body: Mapping[str, object]) -> bytes:
    """One record as an agent writes it; NumPy arrays become typed arrays (tag 78).

    Nothing is checked but what CBOR needs, so that tests can write records that are wrong.
    """
    data = encode(body)
    if len(data) > BODY_LIMIT:
        raise ValueError(f"the body has {len(data)} bytes, more than {BODY_LIMIT}")
    return (
        bytes([ARRAY_OF_FOUR])
        + head(UNSIGNED, kind)
        + head(UNSIGNED, sequence)
        + head(BYTES, len(data))
        + data
        + head(UNSIGNED, zlib.crc32(data))
    )
