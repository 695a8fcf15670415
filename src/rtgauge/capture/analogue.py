# SPDX-License-Identifier: Apache-2.0
"""Lines that were sampled as voltages: their edges, and the samples in a file of their own."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rtgauge.capture.edges import Schmitt, state_levels
from rtgauge.capture.recording import EDGE_LIMIT, ROOM, Levels, Lines, Waves, refuse

__all__ = ["CHUNK", "Floats", "levels_of", "limits", "of_voltages", "pieces"]

CHUNK: Final = 1 << 18
VOLTS: Final = 1e9


class Floats:
    """Numbers that are collected in a file, and read from there. They take at most half of the free
    space."""

    def __init__(self, folder: Path, kind: type[np.floating[Any]] = np.float32) -> None:
        self._kind = kind
        descriptor, self._path = tempfile.mkstemp(dir=folder)
        os.close(descriptor)
        self._many = 0
        self._least = max(ROOM, self._free() // 2)

    def _free(self) -> int:
        found = os.statvfs(self._path)
        return found.f_bavail * found.f_frsize

    def add(self, values: NDArray[np.floating]) -> None:
        self._many += len(values)
        often = self._many >> 22 != (self._many - len(values)) >> 22
        if often and self._free() < self._least:
            raise OSError("its lines need more than half of the space for temporary files")
        with open(self._path, "ab", buffering=0) as file, np.errstate(over="ignore"):
            view = memoryview(np.ascontiguousarray(values, self._kind).tobytes())
            while view:
                view = view[file.write(view) :]

    def array(self) -> NDArray[Any]:
        if not self._many:
            return np.zeros(0, self._kind)
        return np.memmap(self._path, self._kind, "r")


def pieces(wave: NDArray[np.floating]) -> Iterator[NDArray[np.floating]]:
    for start in range(0, len(wave), CHUNK):
        yield wave[start : start + CHUNK]


def limits(wave: NDArray[np.floating]) -> tuple[float, float]:
    """The minimum and maximum of the finite samples; inf and -inf without any."""
    least, most = math.inf, -math.inf
    for piece in pieces(wave):
        finite = piece[np.isfinite(piece)]
        if len(finite):
            least, most = min(least, float(finite.min())), max(most, float(finite.max()))
    return least, most


def of_voltages(
    waves: Sequence[NDArray[np.floating]], rate: Fraction, levels: Levels, most: int = EDGE_LIMIT
) -> Lines:
    """Edges of lines that were sampled as voltages. OverflowError when a line has more than
    ``most``."""
    length = min(len(wave) for wave in waves)
    if length < 2:
        refuse("a line has no samples")
    edges, thresholds, widths, error = [], [], [], 0.0
    for wave in waves:
        threshold, hysteresis, digital = levels_of(wave[:length], levels)
        # Either edge lies anywhere between two samples. That of a digital line is put midway.
        error += 0.5 if digital else 1.0
        schmitt = Schmitt(threshold, hysteresis)
        for piece in pieces(wave[:length]):
            schmitt.feed(piece)
            if schmitt.count > most:
                raise OverflowError
        edges.append(schmitt.edges())
        thresholds.append(threshold)
        widths.append(hysteresis)
    return Lines(
        edges[0],
        edges[1],
        rate,
        length,
        error,
        rate,
        (thresholds[0], thresholds[1]) if error > 1 else None,
        (widths[0], widths[1]) if error > 1 else None,
        Waves(waves[0][:length], waves[1][:length]),
    )


def levels_of(wave: NDArray[np.floating], levels: Levels) -> tuple[float, float, bool]:
    """Threshold and hysteresis: as asked, else the middle between the line's two states, and a
    fifth of their distance, or less if the threshold is close to a state. A line with only the
    values 0 and 1 is digital (True): what was asked does not apply to it."""
    least, most = limits(wave)
    if not least <= most:
        refuse("the samples of a line are not numbers")
    if max(-least, most) > VOLTS:
        refuse(f"a line reaches {max(least, most, key=abs):.3g} V", "save it in volts")
    if (least, most) == (0, 1) and all(
        ((piece == 0) | (piece == 1) | ~np.isfinite(piece)).all() for piece in pieces(wave)
    ):
        return 0.5, 0.2, True
    finite_pieces = (piece[np.isfinite(piece)] for piece in pieces(wave))
    low, high = state_levels(finite_pieces, least, most)
    threshold = (low + high) / 2 if levels.threshold is None else levels.threshold
    # Both limits lie between the states, also if the threshold is close to one.
    near = max(min(threshold - low, high - threshold), 0.0)
    hysteresis = min((high - low) / 5, near) if levels.hysteresis is None else levels.hysteresis
    return threshold, hysteresis, False
