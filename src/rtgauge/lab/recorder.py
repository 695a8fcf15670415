# SPDX-License-Identifier: Apache-2.0
"""The recorder of a counted board: a plugin of QEMU, built at first use, and what it writes.

qemu/recorder.c is the plugin. It records the reads of the guest's counter in user space, and in
windows of time every block of instructions and every change of tasks. The guest does not notice.
"""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rtgauge.errors import TargetError
from rtgauge.lab.cache import Say, cache_folder, explained, locked, new_file, text_digest, used

__all__ = [
    "ANCHOR",
    "BLOCK",
    "CALL",
    "EXCEPTION_RETURN",
    "FROM",
    "JUMP",
    "OTHER",
    "RECORD",
    "RETURN",
    "SYSCALL",
    "SYSCALL_RETURN",
    "TASK",
    "TO",
    "WINDOWS_MAX",
    "Piece",
    "Recording",
    "plugin",
    "require_plugins",
]

SOURCE: Final = "recorder.c"
COMPILERS: Final = ("gcc", "cc", "clang", "gcc-12", "gcc-13", "gcc-14")
FLAGS: Final = ("-std=gnu11", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror")
BUILD_S: Final = 300.0
ASK_S: Final = 60.0

VERSION: Final = 3
WINDOWS_MAX: Final = 4096
# Layouts of qemu/recorder.c.
_HEAD: Final = struct.Struct("<IIQQQQ")
_WINDOW: Final = struct.Struct("<QQ")
RECORD: Final = np.dtype(
    [
        ("ns", "<u8"),
        ("address", "<u8"),
        ("after", "<u8"),
        ("length", "<u2"),
        ("kind", "u1"),
        ("end", "u1"),
        ("argument", "<u4"),
    ]
)
TASK_BYTES: Final = 16384
# Bytes of records that are held at a time: at least those of a task.
PIECE: Final = 2 << 20
# Where the guest's kernel begins.
KERNEL: Final = 1 << 63
BLOCK, ANCHOR, FROM, TO, TASK, JUMP = range(6)
OTHER, CALL, RETURN, EXCEPTION_RETURN, SYSCALL_RETURN, SYSCALL, HALT = range(7)


def _source() -> bytes:
    """The plugin's source: of this checkout, else that of the package."""
    checkout = Path(__file__).resolve().parents[3] / "qemu"
    shipped = Path(str(resources.files("rtgauge") / "qemu"))
    for folder in (checkout, shipped):
        if (folder / SOURCE).is_file():
            return (folder / SOURCE).read_bytes()
    raise TargetError(
        f"this installation does not contain the recorder's source ({SOURCE})",
        "install rtgauge from its wheel, or run it from a clone with ./rtgauge",
    )


def require_plugins(program: str) -> None:
    """Raise TargetError if that QEMU does not load plugins."""
    try:
        asked = subprocess.run([program, "--help"], capture_output=True, timeout=ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TargetError(f"{program} does not run: {error}", "reinstall it") from None
    if b"\n-plugin " not in asked.stdout:
        raise TargetError(
            f"{program} does not load plugins, so it cannot record a replay",
            "use Debian's QEMU, or one that was configured with --enable-plugins, and measure "
            "again",
        )


def plugin(say: Say) -> Path:
    """The plugin, built first if the cache does not hold it.

    Raises TargetError if it cannot be built.
    """
    source = _source()
    cache = cache_folder()
    digest = text_digest(source.decode(), os.uname().machine, *FLAGS)[:32]
    path = cache / "recorder" / f"{digest}.so"
    if not path.is_file():
        with locked(cache, ("recorder",), say), explained(cache), new_file(path) as making:
            _build(source, making)
    used(path)
    return path


def _build(source: bytes, path: Path) -> None:
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise TargetError(
            "the recorder for QEMU cannot be built: there is no C compiler on this machine",
            "install one: sudo apt-get install gcc libc6-dev",
        )
    words = [compiler, *FLAGS, "-x", "c", "-", "-o", str(path), "-ldl"]
    try:
        done = subprocess.run(
            words, input=source, capture_output=True, timeout=BUILD_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TargetError(
            f"the recorder for QEMU cannot be built: {compiler}: {error}",
            "install a compiler that works: sudo apt-get install gcc libc6-dev",
        ) from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        why = next((line for line in lines if "error" in line), lines[0] if lines else "no reason")
        raise TargetError(
            f"the recorder for QEMU cannot be built: {why.strip()}",
            "install a compiler with its headers: sudo apt-get install gcc libc6-dev",
        )


@dataclass(frozen=True)
class Piece:
    """Records that follow one another."""

    records: NDArray[np.void]
    at: NDArray[np.int64]
    """Where each record begins in the file, in bytes."""
    behind: NDArray[np.int64]
    """Where it ends, with the bytes of its task."""
    tasks: Mapping[int, bytes]
    """The bytes of tasks, by address. Later ones replace earlier ones of the same task."""


class Recording:
    """The files that the plugin shares with the host, below a folder.

    Each record is read twice: as it is new, for the reads of the counter and the places of the
    windows, and with its window. ``PIECE`` bytes at most are held at a time.
    """

    def __init__(self, folder: Path, built: Path) -> None:
        self._record = folder / "record"
        self._control_path = folder / "control"
        with open(self._control_path, "w+b") as file:
            file.truncate(_HEAD.size + WINDOWS_MAX * _WINDOW.size)
            self._control = mmap.mmap(file.fileno(), 0)
        _HEAD.pack_into(self._control, 0, VERSION, 0, 0, 0, 0, 0)
        self._file = os.open(self._record, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._seen = 0
        self._places: dict[int, tuple[int, int]] = {}  # of the windows in the file
        # QEMU ends an option at a comma, unless there are two
        paths = (str(path).replace(",", ",,") for path in (built, self._record, self._control_path))
        self.plugin = "{},record={},control={}".format(*paths)

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self._control.close()
        os.close(self._file)

    @property
    def loaded(self) -> bool:
        """Whether QEMU has loaded the plugin."""
        return bool(_HEAD.unpack_from(self._control, 0)[5])

    @property
    def lost(self) -> int:
        """Number of records that had no room."""
        return int(_HEAD.unpack_from(self._control, 0)[4])

    def ask(self, windows: Sequence[tuple[int, int]]) -> None:
        """Add windows of the guest's time in ns, while the guest stands still. They begin later
        than those before, and do not overlap."""
        _, used_, *_ = _HEAD.unpack_from(self._control, 0)
        for number, window in enumerate(windows[: WINDOWS_MAX - used_], used_):
            _WINDOW.pack_into(self._control, _HEAD.size + number * _WINDOW.size, *window)
            struct.pack_into("<I", self._control, 4, number + 1)

    def windows(self) -> list[tuple[int, int]]:
        """The windows that were asked for."""
        _, count, *_ = _HEAD.unpack_from(self._control, 0)
        return [
            (int(begin), int(end))
            for begin, end in _WINDOW.iter_unpack(
                self._control[_HEAD.size : _HEAD.size + count * _WINDOW.size]
            )
        ]

    def anchors(self) -> NDArray[np.int64]:
        """When user space read the counter, in ns, as recorded since the last call. The guest
        stands still."""
        filled = int(_HEAD.unpack_from(self._control, 0)[3])
        windows = np.array(self.windows(), np.int64).reshape(-1, 2)
        found = [np.empty(0, np.int64)]
        for piece in self._pieces(self._seen, filled):
            times = piece.records["ns"].astype(np.int64)
            own = (piece.records["kind"] == ANCHOR) & (piece.records["address"] < KERNEL)
            found.append(times[own])
            begins = np.searchsorted(times, windows[:, 0])
            ends = np.searchsorted(times, windows[:, 1], "right")
            for number in np.flatnonzero(ends > begins).tolist():
                begin, _ = self._places.get(number, (int(piece.at[begins[number]]), 0))
                self._places[number] = begin, int(piece.behind[ends[number] - 1])
        self._seen = filled
        return np.concatenate(found)

    def window(self, number: int) -> Iterator[Piece]:
        """The records of a window, of those that ``anchors`` has seen."""
        return self._pieces(*self._places.get(number, (0, 0)))

    def _pieces(self, begin: int, end: int) -> Iterator[Piece]:
        """The records between two places of the file."""
        while begin < end:
            data = os.pread(self._file, min(PIECE, end - begin), begin)
            rows = np.frombuffer(data, RECORD, len(data) // RECORD.itemsize)
            own = np.ones(len(rows), bool)
            extra = np.zeros(len(rows), np.int64)
            tasks: dict[int, bytes] = {}
            upto = 0
            # A task's bytes follow its record, and look like records.
            for row in np.flatnonzero(rows["kind"] == TASK).tolist():
                if row < upto:
                    continue
                upto = row + 1 + TASK_BYTES // RECORD.itemsize
                if upto > len(rows):  # the next piece begins with it
                    rows, own, extra = rows[:row], own[:row], extra[:row]
                    break
                own[row + 1 : upto] = False
                extra[row] = TASK_BYTES
                place = (row + 1) * RECORD.itemsize
                tasks[int(rows["address"][row])] = data[place : place + int(rows["length"][row])]
            if not len(rows):
                raise TargetError(
                    "the records of the replay are truncated",
                    "free some space for TMPDIR, and repeat",
                )
            at = begin + np.flatnonzero(own) * RECORD.itemsize
            yield Piece(rows[own], at, at + RECORD.itemsize + extra[own], tasks)
            begin += len(rows) * RECORD.itemsize
