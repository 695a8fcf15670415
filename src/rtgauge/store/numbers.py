# SPDX-License-Identifier: Apache-2.0
"""Short numbers of the runs of a store: ``#12``. A run gets its number when it is first listed, in
the order in which the runs started, and keeps it. The number of a deleted run is not given again.

The file ``numbers`` next to ``runs/`` has a line for each: its number and its id. It is only
appended to. If it is lost, the runs that are there get new numbers.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rtgauge.store.identity import is_run_id

__all__ = ["NUMBERS", "numbered", "run_number"]

NUMBERS: Final = "numbers"
SIZE_MAX: Final = 64 << 20
_LINE: Final = re.compile(r"([1-9][0-9]{0,8}) (\S{36})")
_WORD: Final = re.compile(r"#?([1-9][0-9]{0,8})")


def run_number(word: str) -> int | None:
    """The number that a word such as ``#12`` or ``12`` may mean."""
    found = _WORD.fullmatch(word.strip())
    return int(found[1]) if found else None


def numbered(folder: Path, ids: Iterable[str]) -> dict[str, int]:
    """The number of each of the runs, oldest first, of the store in this folder. In a store that
    cannot be written, new numbers are not kept."""
    path, wanted = folder / NUMBERS, list(ids)
    known = _read(path)
    if all(one in known for one in wanted):
        return known
    with contextlib.suppress(OSError), open(path, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        known = _read(path)  # another process may have appended
        new = _new(known, wanted)
        ended = not file.tell() or path.read_bytes()[-1:] == b"\n"
        lines = "".join(f"{number} {one}\n" for one, number in new.items())
        file.write(("" if ended else "\n").encode() + lines.encode())
        file.flush()
        os.fsync(file.fileno())
        return known | new
    return known | _new(known, wanted)


def _new(known: dict[str, int], wanted: Iterable[str]) -> dict[str, int]:
    last = max(known.values(), default=0)
    unknown = dict.fromkeys(one for one in wanted if one not in known)
    return {one: last + place for place, one in enumerate(unknown, 1)}


def _read(path: Path) -> dict[str, int]:
    """The first number of each run; whatever else is in the file does not count."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read(SIZE_MAX)
    except OSError:
        return {}
    found: dict[str, int] = {}
    taken: set[int] = set()
    for line in text.splitlines():
        one = _LINE.fullmatch(line)
        if one and is_run_id(one[2]) and one[2] not in found and int(one[1]) not in taken:
            found[one[2]] = int(one[1])
            taken.add(int(one[1]))
    return found
