# SPDX-License-Identifier: Apache-2.0
"""The lines of a text file that another program printed, within limits.

The file may come from anybody: its size is limited, and only the first characters of a line count.
Lines end with LF, CRLF or CR, and what a terminal obeys is left out.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from rtgauge.errors import UsageError

__all__ = ["HEAD", "TEXT_LIMIT", "Text", "read_head", "read_text", "refuse"]

HEAD: Final = 1 << 20
TEXT_LIMIT: Final = 1 << 26
LINE_LIMIT: Final = 4096
REMEDY: Final = "name a file with the complete output of the program"
_OBEYED: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Text:
    """``lines``: without their ends. ``cut``: the last line has no end. ``sha256``: of the file."""

    lines: list[str]
    cut: bool
    sha256: str


def refuse(why: str, remedy: str = REMEDY) -> NoReturn:
    shown = "".join(one if one.isprintable() else " " for one in why)  # it may quote a line
    raise UsageError(f"the file cannot be imported: {shown}", remedy)


def _read(path: Path, most: int) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"{path} is not a file", REMEDY)
            return file.read(most)
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", "check the path and its permissions"
        ) from error


def read_head(path: Path) -> str:
    """The beginning of a file; empty if it is not text. UsageError if it cannot be read."""
    data = _read(path, HEAD)
    return "" if b"\0" in data else data.decode("utf-8", "replace")


def read_text(path: Path) -> Text:
    """All lines of a file. UsageError if it cannot be read or is not text."""
    data = _read(path, TEXT_LIMIT + 1)
    if len(data) > TEXT_LIMIT:
        refuse(f"it has more than {TEXT_LIMIT >> 20} MiB", "save only the end of the output")
    if b"\0" in data:
        refuse("it is not text")
    lines = re.split("\r\n|\r|\n", data.decode("utf-8", "replace"))
    cut = bool(lines[-1])
    # switchtest prints the names of all its threads in one line
    kept = [_OBEYED.sub("", line[:LINE_LIMIT]).rstrip() for line in (lines if cut else lines[:-1])]
    return Text(kept, cut, hashlib.sha256(data).hexdigest())
