# SPDX-License-Identifier: Apache-2.0
"""Lists of whole numbers as short text, for the data that the HTML report embeds.

Each number is written in groups of seven bits, the lowest first, bit 7 set where more follow
(LEB128); 0 is followed by how many zeros there are in a row. Negative ones go between the others
(0, -1, 1, -2, …). All of it in base64. static/report.js reads it back.
"""

from __future__ import annotations

import base64

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "bounded",
    "pack",
    "pack_signed",
    "pack_steps",
    "unpack",
    "unpack_signed",
    "unpack_steps",
]

Int64 = NDArray[np.int64]


def _put(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def pack(numbers: Int64 | NDArray[np.uint64]) -> str:
    """The text of numbers >= 0; ValueError if one is negative."""
    if len(numbers) and int(numbers.min()) < 0:
        raise ValueError("only numbers from 0 on can be packed so")
    out = bytearray()
    filled = np.flatnonzero(numbers)
    zeros = np.diff(filled, prepend=-1) - 1
    for gap, number in zip(zeros.tolist(), numbers[filled].tolist(), strict=True):
        if gap:
            out.append(0)
            _put(out, gap)
        _put(out, number)
    rest = len(numbers) - (int(filled[-1]) + 1 if len(filled) else 0)
    if rest:
        out.append(0)
        _put(out, rest)
    return base64.b64encode(out).decode("ascii")


def bounded(text: str, most: int) -> bool:
    """Whether the text, from anybody, is that of exactly ``most`` numbers of 53 bits; without
    unpacking what would be more."""
    number = shift = many = 0
    after_zero = False
    for byte in base64.b64decode(text, validate=True):
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > 56 or many > most:
            return False
        if byte & 0x80:
            continue
        if number >= 1 << 53:
            return False
        if after_zero:
            many += number
            after_zero = False
        elif number == 0:
            after_zero = True
        else:
            many += 1
        number = shift = 0
    return many == most and not after_zero and not shift


def unpack(text: str) -> list[int]:
    """The numbers of ``pack``."""
    found: list[int] = []
    number = shift = 0
    after_zero = False
    for byte in base64.b64decode(text):
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte & 0x80:
            continue
        if after_zero:
            found.extend([0] * number)
            after_zero = False
        elif number == 0:
            after_zero = True
        else:
            found.append(number)
        number = shift = 0
    return found


def pack_signed(numbers: Int64) -> str:
    """The text of numbers of either sign."""
    return pack((numbers.astype(np.int64) << 1 ^ numbers >> 63).view(np.uint64))


def unpack_signed(text: str) -> list[int]:
    """The numbers of ``pack_signed``."""
    return [-(number + 1) // 2 if number % 2 else number // 2 for number in unpack(text)]


def pack_steps(numbers: Int64) -> str:
    """The text of numbers that mostly rise by the same amount: how their distance changes."""
    steps = np.diff(numbers, prepend=0)
    return pack_signed(np.diff(steps, prepend=0))


def unpack_steps(text: str) -> list[int]:
    """The numbers of ``pack_steps``."""
    step = at = 0
    found = []
    for change in unpack_signed(text):
        step += change
        at += step
        found.append(at)
    return found
