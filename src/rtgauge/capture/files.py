# SPDX-License-Identifier: Apache-2.0
"""Files that logic analysers and oscilloscopes leave, told apart by what they hold, not by their
names, and read in pieces."""

from __future__ import annotations

import configparser
import contextlib
import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from rtgauge.capture.convert import converted
from rtgauge.capture.recording import HEAD, Recording, edge_limit, one_line, opened, refuse
from rtgauge.capture.session import parse_rate, read_session
from rtgauge.capture.table import first_row, read_table
from rtgauge.errors import RtgaugeError, UsageError

__all__ = ["is_capture", "open_recording"]


def _kind(head: bytes) -> str:
    """Kind of a file from its first bytes: session, vcd, csv, bundle (of a run), or other."""
    if head.startswith(b"PK\x03\x04"):
        return "session"
    if head[257:262] == b"ustar":
        return "bundle"
    if b"\0" in head:
        return "other"
    if re.search(rb"\$(timescale|enddefinitions|var)\b", head):
        return "vcd"
    lines = head.decode("utf-8", "replace").splitlines()
    if first_row(lines[:-1] if len(head) == HEAD else lines) is not None:
        return "csv"
    return "other"


def _acquired(head: bytes) -> Fraction | None:
    """The sample rate that sigrok notes in a VCD file."""
    found = re.search(rb"Acquisition with \d+/\d+ channels at ([\d.]+ [kMG]?Hz)", head)
    with contextlib.suppress(ValueError):
        return parse_rate(found[1].decode()) if found else None
    return None


def is_capture(path: Path) -> bool:
    """Whether the file is a capture, as far as its beginning tells. False for a file that cannot be
    read."""
    try:
        with opened(path) as file:
            return _kind(file.read(HEAD)) in ("session", "vcd", "csv")
    except UsageError:
        return False


@contextlib.contextmanager
def open_recording(path: Path, samplerate: Fraction | None = None) -> Iterator[Recording]:
    """Open a capture. ``samplerate``: replaces that of the file. UsageError for another file."""
    with (
        tempfile.TemporaryDirectory(prefix="rtgauge-capture.") as name,
        opened(path) as file,
    ):
        folder = Path(name)
        head = file.read(HEAD)
        kind = _kind(head)
        file.seek(0)
        most = edge_limit(os.fstat(file.fileno()).st_size)
        try:
            if kind == "session":
                yield read_session(file, folder, samplerate, "sigrok session", most)
            elif kind == "csv":
                yield read_table(path, head, folder, samplerate)
            elif kind == "bundle" or not head:
                refuse("it is not a capture")
            else:
                made, note = converted(path, file, head, kind, folder)
                times = kind == "vcd"
                rate = samplerate or (_acquired(head) if times else None)
                with open(made, "rb") as session:
                    yield read_session(session, folder, rate, kind.upper(), most, note, times)
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            NotImplementedError,
            configparser.Error,
            UnicodeDecodeError,
        ) as error:
            refuse(f"it is damaged ({one_line(error)})", "save it again")
        except OverflowError:
            refuse(
                f"its lines have more than {most} edges",
                "record the lines without noise: set the instrument's threshold, or --threshold",
            )
        except OSError as error:
            raise RtgaugeError(
                f"the capture cannot be read: {one_line(error)}",
                "check the file, and free some space in the folder for temporary files (TMPDIR)",
            ) from error
