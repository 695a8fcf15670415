# SPDX-License-Identifier: Apache-2.0
"""Files that are whole or not there: written under a temporary name, synced, renamed."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from rtgauge.errors import StoreError

__all__ = [
    "TEMPORARY",
    "FolderLock",
    "commit",
    "make_folder",
    "read_json",
    "replacing",
    "store_error",
    "store_errors",
    "sync_folder",
    "write_file",
    "write_json",
]

TEMPORARY = ".tmp"
"""The suffix of a file that is being written. A file that was left behind may be removed."""

# Surrogate halves, which Python decodes from bytes that are not UTF-8. No encoding can write them.
_SURROGATES = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile(rb"\\u[dD][89a-fA-F]")

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write that is complete or does not exist. An earlier file stays until it is
    replaced. Raises OSError."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _file_mode())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _file_mode() -> int:
    """The mode of a new file, by the umask."""
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


def store_error(doing: str, path: Path, error: OSError) -> StoreError:
    """The error for a user: what was tried on what, what happened, and the remedy."""
    if error.errno in _FULL:
        remedy = "free some space there, or keep the runs elsewhere with --store"
    elif error.errno in _FORBIDDEN:
        remedy = "make it readable and writable for you, or keep the runs elsewhere with --store"
    elif error.errno in (errno.EMFILE, errno.ENFILE):
        remedy = "raise the limit of open files (ulimit -n)"
    else:
        remedy = "check the disk and the path, or keep the runs elsewhere with --store"
    reason = error.strerror or str(error)
    return StoreError(f"cannot {doing} {path}: {reason}", remedy)


@contextmanager
def store_errors(doing: str, path: Path) -> Iterator[None]:
    """Errors of the system inside become StoreError."""
    try:
        yield
    except OSError as error:
        raise store_error(doing, path, error) from error


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # file systems that know no sync of folders
            raise
    finally:
        os.close(descriptor)


def commit(temporary: Path, path: Path) -> None:
    """Sync a file that was written under a temporary name, and give it its own."""
    descriptor = os.open(temporary, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)
    sync_folder(path.parent)


def write_file(path: Path, data: bytes) -> None:
    """Write a whole file. StoreError; then the file is as it was before."""
    temporary = path.with_name(path.name + TEMPORARY)
    with store_errors("write", path):
        try:
            with open(temporary, "wb") as file:
                file.write(data)
            commit(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write a JSON document, indented so that people and diffs can read it. U+FFFD
    replaces bytes that were not UTF-8."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    write_file(path, _SURROGATES.sub("\ufffd", text).encode() + b"\n")


def read_json(
    path: Path, what: str, remedy: str = "restore it from a copy, or delete the run"
) -> dict[str, Any]:
    """Read a JSON object; ``what`` names it in the error, ``remedy`` is for a damaged one. U+FFFD
    replaces half surrogate pairs, which earlier versions wrote."""
    try:
        data = path.read_bytes()
        document = json.loads(data.decode("utf-8", "replace"))
        if _ESCAPED.search(data):
            document = _encodable(document)
    except OSError as error:
        raise store_error(f"read {what},", path, error) from error
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{what} is damaged: {path} is not JSON", remedy) from error
    if not isinstance(document, dict):
        raise StoreError(f"{what} is damaged: {path} is not a JSON object", remedy)
    return document


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, list):
        return [_encodable(one) for one in value]
    if isinstance(value, dict):
        return {_encodable(name): _encodable(one) for name, one in value.items()}
    return value


def make_folder(path: Path) -> None:
    """Make a folder and those above it; each name durable."""
    with store_errors("make the folder", path):
        missing = []
        at = path
        while not at.is_dir():
            missing.append(at)
            at = at.parent
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            sync_folder(folder.parent)


class FolderLock:
    """The lock that the writer of a run's folder holds (flock on the folder itself).

    It ends with the process that holds it, however that ends, and leaves nothing behind.
    """

    def __init__(self, file: int) -> None:
        self._file: int | None = file

    @classmethod
    def take(cls, path: Path, *, known: bool = False) -> FolderLock | None:
        """The lock, or None if another process holds it or its state is unknown; OSError instead of
        an unknown state if ``known``. FileNotFoundError if the folder was removed or replaced
        before it was locked."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if known and not isinstance(error, BlockingIOError):
                raise
            return None
        lock = cls(descriptor)
        if not lock.holds(path):
            lock.release()
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return lock

    def holds(self, path: Path) -> bool:
        """Whether this folder is still the locked one."""
        try:
            return self._file is not None and os.path.samestat(os.fstat(self._file), os.stat(path))
        except OSError:
            return False

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
