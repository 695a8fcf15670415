# SPDX-License-Identifier: Apache-2.0
"""Captures as an analyser would have saved them, for the tests."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

RATE = 1_000_000


def samples(
    events: Sequence[int], answers: Sequence[int], length: int, idle: int = 0
) -> NDArray[np.uint8]:
    """Two lines that change at these samples: bit 0 the events, bit 1 the answers."""
    out = np.zeros(length, np.uint8)
    for bit, at in ((0, events), (1, answers)):
        toggles = np.zeros(length, np.uint8)
        np.add.at(toggles, np.asarray(at, np.int64), 1)
        out |= ((np.cumsum(toggles, dtype=np.uint8) & 1) ^ idle) << np.uint8(bit)
    return out


def regular(number: int, period: int, delays: Mapping[int, int] | None = None) -> NDArray[np.uint8]:
    """Events ``period`` samples apart, answered after 30 to 46 samples, or as ``delays`` say. More
    than an interval passes before the first: no answer is that of an event before it."""
    first = 1000 + period
    events = [first + k * period for k in range(number)]
    answers = [at + (delays or {}).get(k, 30 + (k * 7) % 17) for k, at in enumerate(events)]
    return samples(events, answers, first + number * period)


def session(
    path: Path,
    logic: NDArray[np.uint8] | bytes = b"",
    *,
    metadata: str | None = None,
    version: bytes = b"2",
    parts: Mapping[str, bytes] | None = None,
    piece: int = 4 << 20,
) -> Path:
    """A session of sigrok with the lines D0 and D1 at 1 MHz."""
    data = logic if isinstance(logic, bytes) else logic.tobytes()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("version", version)
        archive.writestr(
            "metadata",
            metadata
            or "[global]\nsigrok version=0.5.2\n\n[device 1]\ncapturefile=logic-1\n"
            "total probes=2\nsamplerate=1 MHz\nprobe1=D0\nprobe2=D1\nunitsize=1\n",
        )
        for number, start in enumerate(range(0, len(data), piece), 1):
            archive.writestr(f"logic-1-{number}", data[start : start + piece])
        for name, content in (parts or {}).items():
            archive.writestr(name, content)
    return path


ANALOGUE = (
    "[global]\nsigrok version=0.5.2\n\n[device 1]\nsamplerate=1 MHz\n"
    "total analog=2\nanalog1=A0\nanalog2=A1\n"
)


def analogue(path: Path, first: NDArray[np.floating], second: NDArray[np.floating]) -> Path:
    """A session of sigrok with the analogue lines A0 and A1 at 1 MHz."""
    parts = {
        "analog-1-1-1": first.astype("<f4").tobytes(),
        "analog-1-2-1": second.astype("<f4").tobytes(),
    }
    return session(path, metadata=ANALOGUE, parts=parts)
