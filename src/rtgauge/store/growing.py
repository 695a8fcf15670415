# SPDX-License-Identifier: Apache-2.0
"""Numbers that are gathered for as long as a step lasts, without memory that grows as long.

A block of samples every 200 ms, or a missed period every millisecond, is little; over days it is
not. What is gathered moves to a file without a name, next to the stream, as it becomes much. It is
fetched for one series at a time.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from array import array
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["Numbers", "Spill"]

CHUNK = 8192
"""Numbers of each kind that stay in memory, and that go into the file at a time."""


class Spill:
    """The file that all numbers of a scan share; made when it is first needed.

    Where nothing can be written, as on a full disk, everything stays in memory.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._file = -1
        self._size = 0

    def keep(self, data: memoryview) -> int | None:
        """Append ``data``. Returns its place, None if it could not be written."""
        if self._folder is None:
            return None
        try:
            if self._file < 0:
                with tempfile.TemporaryFile(dir=self._folder) as file:
                    self._file = os.dup(file.fileno())
                weakref.finalize(self, os.close, self._file)
            at = self._size
            while data:
                wrote = os.pwrite(self._file, data, self._size)
                self._size, data = self._size + wrote, data[wrote:]
        except OSError:
            self._folder = None
            return None
        return at

    def fetch(self, at: int, into: memoryview) -> None:
        """Read back the bytes at ``at``."""
        while into:
            got = os.preadv(self._file, [into], at)
            if not got:
                raise OSError("a temporary file became shorter")
            at, into = at + got, into[got:]


class Numbers:
    """Whole numbers of 64 bits that are appended, some at a time, and fetched all at once."""

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self._kept: array[int] = array("q")  # the place of each chunk in the file
        self._rest: array[int] = array("q")

    def extend(self, numbers: Iterable[int]) -> None:
        """Append some numbers."""
        self._rest.extend(numbers)
        if len(self._rest) >= CHUNK and len(self._rest) % CHUNK < 8:
            self._keep()

    def extend_array(self, numbers: NDArray[np.int64]) -> None:
        """Append many at once."""
        self._rest.frombytes(np.ascontiguousarray(numbers).view(np.uint8).data)
        while len(self._rest) >= CHUNK and self._keep():
            pass

    def _keep(self) -> bool:
        chunk = self._rest[:CHUNK]
        with memoryview(chunk) as data:
            at = self._spill.keep(data.cast("B"))
        if at is None:
            return False
        self._kept.append(at)
        del self._rest[:CHUNK]
        return True

    def __len__(self) -> int:
        return len(self._kept) * CHUNK + len(self._rest)

    def table(self, columns: int) -> NDArray[np.int64]:
        """All of them in rows of ``columns`` columns."""
        found = np.empty(len(self), np.int64)
        for number, at in enumerate(self._kept):
            part = found[number * CHUNK : (number + 1) * CHUNK]
            self._spill.fetch(at, part.view(np.uint8).data)
        found[len(self._kept) * CHUNK :] = self._rest
        return found.reshape(-1, columns)

    def columns(self, number: int) -> NDArray[np.int64]:
        """The same with a row for each column, in an array of its own that can be searched.

        ``number`` must be a power of two.
        """
        found = np.empty((number, len(self) // number), np.int64)
        part = np.empty(CHUNK, np.int64)
        rows = CHUNK // number
        for chunk, at in enumerate(self._kept):
            self._spill.fetch(at, part.view(np.uint8).data)
            found[:, chunk * rows : (chunk + 1) * rows] = part.reshape(-1, number).T
        found[:, len(self._kept) * rows :] = np.array(self._rest).reshape(-1, number).T
        return found
