# SPDX-License-Identifier: Apache-2.0
"""The folder where the lab keeps what it has fetched and made.

An entry under its final name is complete: it is made under another name and then renamed. Only the
holder of a folder's lock makes entries in it. Reading complete entries needs no lock.
A process that was killed leaves unfinished ones, which the next holder of the lock removes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rtgauge.errors import TargetError
from rtgauge.home import home

__all__ = [
    "CACHE_VARIABLE",
    "UNFINISHED",
    "Say",
    "cache_folder",
    "check_name",
    "digest_of",
    "disk_full",
    "explained",
    "locked",
    "new_file",
    "new_folder",
    "read_record",
    "remove",
    "text_digest",
    "used",
    "write_record",
]

# Hears of each step that takes long, in one line.
Say = Callable[[str], None]

CACHE_VARIABLE: Final = "RTGAUGE_LAB_CACHE"
UNFINISHED: Final = ".unfinished"
LOCK_TIMEOUT_S: Final = 3600.0
LOCK_POLL_S: Final = 0.2
RECORD_MAX: Final = 1024 * 1024
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


def cache_folder() -> Path:
    """``$RTGAUGE_LAB_CACHE``, else rtgauge/lab in the user's folder for caches; made if missing.

    Raises TargetError if it cannot be made.
    """
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        folder = Path(given).absolute()
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        # The specification has relative ones ignored.
        above = Path(base) if base.startswith("/") else home() / ".cache"
        folder = above / "rtgauge" / "lab"
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn the system's errors about files in the cache into a TargetError with a remedy."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            raise disk_full(folder) from error
        place = error.filename or folder
        raise TargetError(
            f"the lab's cache cannot be used: {place}: {reason}",
            f"correct that, or name another folder in the environment variable {CACHE_VARIABLE}",
        ) from error


def disk_full(folder: Path) -> TargetError:
    """The error for a cache that has no room left."""
    return TargetError(
        f"the disk that holds the lab's cache is full ({folder})",
        "make room ('rtgauge lab prune' removes what is no longer used), or name another folder "
        f"in the environment variable {CACHE_VARIABLE}",
    )


def check_name(
    folder: Path, remedy: str = f"name another one in the environment variable {CACHE_VARIABLE}"
) -> None:
    """TargetError where a kernel's build cannot work below this folder: make splits its name."""
    if re.search(r"[\s:$#%=]", str(folder)):
        raise TargetError(
            f"a kernel cannot be built in a folder with this name: {str(folder)!r}", remedy
        )


@contextlib.contextmanager
def locked(folder: Path, names: Sequence[str], say: Say) -> Iterator[None]:
    """Hold the lock of folders of the cache, after waiting for its holder.

    The first one names the lock. Leftovers in them are gone then. Raises TargetError after an hour.
    """
    with explained(folder):
        path = folder / f"{names[0]}.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        _wait_for(descriptor, folder, say)
        with explained(folder):
            for name in names:
                for left in (folder / name).glob(f"*{UNFINISHED}"):
                    remove(left)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, folder: Path, say: Say) -> None:
    until = time.monotonic() + LOCK_TIMEOUT_S
    said = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if not said:
                say("waiting for another process that prepares boards of the lab")
                said = True
        if time.monotonic() > until:
            raise TargetError(
                f"another process has held the lab's cache for an hour ({folder})",
                f"end it ('fuser {folder}/*.lock' names it), and start again",
            )
        time.sleep(LOCK_POLL_S)


@contextlib.contextmanager
def new_folder(final: Path) -> Iterator[Path]:
    """A folder to fill; it gets its name when all went well, and takes the place of an old one."""
    making = final.with_name(final.name + UNFINISHED)
    remove(making)
    making.mkdir(parents=True)
    try:
        yield making
        remove(final)
        making.rename(final)
    except BaseException:
        with contextlib.suppress(OSError):
            remove(making)
        raise


@contextlib.contextmanager
def new_file(final: Path) -> Iterator[Path]:
    """The same for a file, which the caller writes."""
    making = final.with_name(final.name + UNFINISHED)
    final.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield making
        making.rename(final)
    except BaseException:
        making.unlink(missing_ok=True)
        raise


def remove(path: Path) -> None:
    """Remove a file or a whole folder; nothing if there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def used(*paths: Path) -> None:
    """Note that somebody uses what these belong to, for ``prune``; a cache that cannot be written
    serves all the same."""
    for path in paths:
        with contextlib.suppress(OSError):
            os.utime(path)


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def text_digest(*parts: str) -> str:
    """One SHA-256 over several texts; which text is which counts."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Keep a small record next to its subject."""
    with new_file(path) as making:
        making.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_record(path: Path, version: int) -> dict[str, Any] | None:
    """The record there; None if there is none, or none of that version, or a damaged one."""
    try:
        with path.open("rb") as file:
            record = json.loads(file.read(RECORD_MAX))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record.get("version") != version:
        return None
    return record
