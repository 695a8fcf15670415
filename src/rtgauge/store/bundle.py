# SPDX-License-Identifier: Apache-2.0
"""Bundles: the folder of a run packed into one file, and back (docs/formats/bundles.md).

A bundle is a tar archive in the one form that this module writes: a manifest, then the files of
the run by name, whole and uncompressed (samples are compressed already), every header a function of
name and size. So a bundle's bytes depend on the run alone. A reader that compares each header with
the one it expects needs no tar reader. Links, devices, foreign paths, sparse files or second
listings cannot occur, and what is unpacked is never larger than what was sent.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from rtgauge.errors import RtgaugeError, StoreError, UsageError
from rtgauge.store.files import (
    FolderLock,
    make_folder,
    replacing,
    store_error,
    store_errors,
    sync_folder,
    write_file,
)
from rtgauge.store.folder import DOCUMENT, ENVIRONMENT, step_path
from rtgauge.store.foreign import FEWER_STEPS, JSON_LIMIT, check_run
from rtgauge.store.identity import is_run_id
from rtgauge.store.samples import IMPORTED, StoredRun
from rtgauge.store.seal import DROPPED, RECORDS, SEAL
from rtgauge.store.store import Store

__all__ = ["FORMAT", "SUFFIX", "VERSION", "Bundle", "Entry", "export_run", "import_bundle"]

FORMAT = "rtgauge-bundle"
VERSION = 1
SUFFIX = ".rtgauge"
MANIFEST = "manifest.json"

# 54 h at 20 us on 64 CPUs are about 1 TB in some hundred files.
FILES_LIMIT = 1 << 16
MANIFEST_LIMIT = 1 << 24
SIZE_LIMIT = 1 << 42
RESERVE = 1 << 26
"""Number of bytes that stay free on the disk of the store."""

BLOCK = 512
_ID = "00000000-0000-7000-8000-000000000000"
"""The shape of the id of a run, with which a bundle begins."""
CHUNK = 1 << 20
_END = bytes(2 * BLOCK)
_NAME = re.compile(
    rf"{re.escape(DOCUMENT)}|{re.escape(ENVIRONMENT)}"
    rf"|steps/(?P<step>[0-9]{{3,9}})/(?:{re.escape(RECORDS)}|{re.escape(SEAL)}"
    rf"|{re.escape(DROPPED)}|series-(?:0|[1-9][0-9]{{0,9}})\.parquet)"
)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_KINDS = {b"1": "a link", b"2": "a link", b"3": "a device", b"4": "a device", b"5": "a folder"}
_AGAIN = "get it again from where it was exported"
_NO_BUNDLE = (
    "it is not a bundle of a run",
    "name a file that rtgauge export wrote, a capture, or the output of a program of Xenomai "
    "(rtgauge import --help)",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a bundle."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """Contents of a bundle. ``digest``: of the names, sizes and contents of its files."""

    run: str
    entries: tuple[Entry, ...]

    @property
    def digest(self) -> str:
        listing = "".join(f"{one.sha256} {one.size} {one.name}\n" for one in self.entries)
        return "sha256:" + hashlib.sha256(listing.encode("ascii")).hexdigest()

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(one.size for one in self.entries)

    @property
    def manifest(self) -> bytes:
        """The manifest's only form: JSON, indented by one; no text in it needs an escape."""
        files = ",".join(
            f'\n  {{\n   "name": "{e.name}",\n   "size": {e.size},\n   "sha256": "{e.sha256}"\n  }}'
            for e in self.entries
        )
        return (
            f'{{\n "format": "{FORMAT}",\n "version": {VERSION},\n "run": "{self.run}",\n'
            f' "digest": "{self.digest}",\n "files": [{files}{files and chr(10) + " "}]\n}}\n'
        ).encode("ascii")

    @property
    def packed_size(self) -> int:
        """Bytes of the bundle itself."""
        sizes = [len(self.manifest), *(one.size for one in self.entries)]
        return sum(BLOCK + size + -size % BLOCK for size in sizes) + len(_END)


def header(name: str, size: int) -> bytes:
    """A tar header (POSIX ustar; from 8 GiB on the size in base 256, as all tars read it)."""
    octal = b"%011o\0" % size if size < 8**11 else b"\x80" + size.to_bytes(11, "big")
    before = name.encode("ascii").ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2
    before += octal + b"00000000000\0"
    after = b"0" + bytes(100) + b"ustar\x0000" + bytes(64) + b"0000000\0" * 2 + bytes(167)
    return before + b"%06o\0 " % (sum(before) + 8 * 32 + sum(after)) + after


# --- out ------------------------------------------------------------------------------------------


def export_run(run: StoredRun, path: Path) -> Bundle:
    """Pack a run that has ended into the file ``path``, which appears complete or not at all.

    StoreError when the run has not ended, is damaged, or something cannot be read or written.
    """
    document = run.document
    if document.get("state") == "running":
        raise StoreError(f"run {run.id} is being carried out", "export it when it has ended")
    for step in run.steps:
        if step.folder.exists() and not step.sealed:
            raise StoreError(
                f"step {step.number + 1} of run {run.id} could not be sealed",
                "free some space in the store, and export the run again",
            )
    check_run(
        run.path,
        run.id,
        lambda why: _damaged(run.id, why),
        lambda why, remedy: _too_large(run.id, why, remedy),
    )
    bundle = _inventory(run.path, run.id, document)
    if len(bundle.entries) > FILES_LIMIT or len(bundle.manifest) > MANIFEST_LIMIT:
        _too_large(run.id, f"it has {len(bundle.entries)} files, too many for a bundle")
    try:
        with replacing(path) as file:
            _pack(run.path, bundle, file)
        sync_folder(path.parent)
    except OSError as error:
        raise StoreError(
            f"cannot write {path}: {error.strerror or error}",
            "name a file elsewhere: rtgauge export RUN FILE",
        ) from error
    return bundle


def _damaged(run: str, why: str) -> NoReturn:
    raise StoreError(
        f"run {run} is damaged: {_one_line(why)}", "restore the run from a copy, or delete it"
    )


def _too_large(run: str, why: str, remedy: str = FEWER_STEPS) -> NoReturn:
    raise StoreError(f"run {run} cannot be exported: {why}", remedy)


def _inventory(path: Path, run: str, document: dict[str, Any]) -> Bundle:
    """The files of a run's folder that belong there, each read once."""
    folders = [path, *(step_path(path, int(step["step"])) for step in document.get("steps", []))]
    names = []
    with store_errors("read", path):
        for folder in folders:
            for file in folder.iterdir() if folder.is_dir() else ():
                name = file.relative_to(path).as_posix()
                if _belongs(name) and stat.S_ISREG(file.lstat().st_mode):
                    names.append(name)
        entries = []
        for name in sorted(names):
            digest, size = hashlib.sha256(), 0
            with open(path / name, "rb", buffering=0) as source:
                while data := source.read(CHUNK):
                    digest.update(data)
                    size += len(data)
            entries.append(Entry(name, size, digest.hexdigest()))
    return Bundle(run, tuple(entries))


def _belongs(name: str) -> bool:
    found = _NAME.fullmatch(name)
    if found is None:
        return False
    step = found["step"]
    return step is None or step == f"{int(step):03d}"


def _read(path: Path, size: int) -> Iterator[bytes]:
    """The first bytes of a file in the store, as many as it has. Raises StoreError."""
    with store_errors("read", path), open(path, "rb", buffering=0) as source:
        while data := source.read(min(size, CHUNK)):
            size -= len(data)
            yield data


def _pack(path: Path, bundle: Bundle, file: BinaryIO) -> None:
    manifest = bundle.manifest
    file.write(header(f"{bundle.run}/{MANIFEST}", len(manifest)))
    file.write(manifest + bytes(-len(manifest) % BLOCK))
    for entry in bundle.entries:
        file.write(header(f"{bundle.run}/{entry.name}", entry.size))
        digest, left = hashlib.sha256(), entry.size
        for data in _read(path / entry.name, left):
            digest.update(data)
            file.write(data)
            left -= len(data)
        if left or digest.hexdigest() != entry.sha256:
            raise StoreError(
                f"{path / entry.name} changed while it was exported", "export the run again"
            )
        file.write(bytes(-entry.size % BLOCK))
    file.write(_END)


# --- in -------------------------------------------------------------------------------------------


def import_bundle(store: Store, path: Path) -> tuple[Bundle, bool]:
    """Unpack a bundle into the store. What it holds, and whether the run is new here: a run that
    is there with the same digest stays as it is.

    StoreError when the bundle is damaged, hostile, of a newer version, does not fit on the disk, or
    when the store has a run of that id with other contents. Nothing is left behind then.
    """
    with _opened(path) as file:
        reader = _Reader(path, file)
        bundle = reader.manifest()
        if _is_there(store, bundle):
            return bundle, False
        runs = store.path
        make_folder(runs)
        _check_room(runs, bundle)
        final = runs / bundle.run
        with _new_folder(runs, bundle.run) as new:
            with store_errors("write", new):
                reader.unpack(bundle, new)
            try:
                check_run(new, bundle.run, reader.refuse)
            except RtgaugeError as error:
                # Except for a newer version, what helps a run of this store does not help here.
                remedy = error.remedy if "newer" in error.remedy else _AGAIN
                raise StoreError(_one_line(error.message.replace(f"{new}/", "")), remedy) from error
            write_file(new / IMPORTED, b"")
            try:
                os.rename(new, final)
                sync_folder(runs)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise store_error("write", final, error) from error
                return bundle, not _is_there(store, bundle)  # somebody else was faster
    return bundle, True


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The bundle's file. Not blocking: somebody may have left a pipe there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", "name a file that rtgauge export wrote"
        ) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UsageError(f"{path} is not a file", "name a file that rtgauge export wrote")
    with open(descriptor, "rb", buffering=0) as file:
        yield file


def _is_there(store: Store, bundle: Bundle) -> bool:
    """Whether the store has the run; StoreError when it has another one of that id."""
    path = store.path / bundle.run
    if not path.is_dir():
        return False
    run = store.get(bundle.run)
    if run.document.get("state") == "running":
        raise StoreError(
            f"run {bundle.run} is being carried out here", "import it when it has ended"
        )
    if _inventory(run.path, run.id, run.document).digest != bundle.digest:
        raise StoreError(
            f"the store has another run {bundle.run}: its contents differ from the bundle's",
            "delete that one first, or import into another store (--store)",
        )
    return True


def _check_room(runs: Path, bundle: Bundle) -> None:
    with store_errors("read", runs):
        free = os.statvfs(runs)
    room = free.f_bavail * free.f_frsize - RESERVE
    files = len(bundle.entries) * max(free.f_frsize, BLOCK)  # each ends inside of a block
    if bundle.size + files > room:
        raise StoreError(
            f"run {bundle.run} needs {bundle.size / 2**20:.0f} MiB, but {runs} has only "
            f"{max(room, 0) / 2**20:.0f} MiB of free space",
            "free some space there, or keep the runs elsewhere with --store",
        )


@contextmanager
def _new_folder(runs: Path, run: str) -> Iterator[Path]:
    """A locked folder that is not taken for a run. It is always removed at the end. What a
    killed process leaves of it, the store removes."""
    new = runs / f".{run}.new"
    lock = None
    with store_errors("make the folder", new):
        for _ in range(20):
            try:
                new.mkdir()
            except FileExistsError:
                with suppress(FileNotFoundError):
                    lock = FolderLock.take(new)
                if lock is not None:  # left by a process that was killed
                    shutil.rmtree(new)
                    lock.release()
                    lock = None
                    continue
            else:
                with suppress(FileNotFoundError):  # somebody took it for left behind
                    lock = FolderLock.take(new)
            if lock is not None:
                break
            time.sleep(0.02)
    if lock is None:
        raise StoreError(f"run {run} is being imported", "try again in a moment")
    try:
        yield new
    finally:
        if lock.holds(new):  # else it has its place, and this may be another process's
            shutil.rmtree(new, ignore_errors=True)
        lock.release()


class _Reader:
    """A bundle, read from its beginning to its end."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file

    def refuse(self, why: str, remedy: str = _AGAIN) -> NoReturn:
        raise StoreError(f"{self._path} cannot be imported: {_one_line(why)}", remedy)

    def manifest(self) -> Bundle:
        """The manifest, checked for all that can be known from it."""
        head = self._read(BLOCK, self._check_id)
        name = head[:100].rstrip(b"\0").decode("ascii", "replace")
        run, slash, rest = name.partition("/")
        digits = re.fullmatch(rb"([0-7]{11})\0", head[124:136])
        if not is_run_id(run) or not slash or rest != MANIFEST or digits is None:
            self.refuse(*_NO_BUNDLE)
        size = int(digits[1], 8)
        if size > MANIFEST_LIMIT:
            self.refuse(f"its manifest has {size} bytes, more than {MANIFEST_LIMIT}")
        self._expect(head, name, size)
        text = self._read(size)
        bundle = self._parse(text, run)
        if text != bundle.manifest:
            self.refuse(
                "its manifest does not have the form that rtgauge writes, or has a wrong digest"
            )
        self._padding(size)
        found = os.fstat(self._file.fileno()).st_size
        if found != bundle.packed_size:
            kind = "truncated" if found < bundle.packed_size else "longer than its content"
            self.refuse(f"it is {kind}: {found} of {bundle.packed_size} bytes")
        return bundle

    def unpack(self, bundle: Bundle, folder: Path) -> None:
        """Write the files below ``folder`` and sync them."""
        made = {folder}
        for entry in bundle.entries:
            name = f"{bundle.run}/{entry.name}"
            self._expect(self._read(BLOCK), name, entry.size)
            target = folder / entry.name
            for parent in (target.parent.parent, target.parent):
                if folder in parent.parents and parent not in made:
                    parent.mkdir()
                    made.add(parent)
            digest, left = hashlib.sha256(), entry.size
            with open(target, "xb", buffering=0) as file:
                while left:
                    data = self._read(min(left, CHUNK))
                    digest.update(data)
                    left -= len(data)
                    view = memoryview(data)
                    while view:
                        view = view[file.write(view) :]
                os.fsync(file.fileno())
            if digest.hexdigest() != entry.sha256:
                self.refuse(f"the SHA-256 of {entry.name} differs from its manifest")
            self._padding(entry.size)
        if self._read(len(_END)) != _END:
            self.refuse("its end is damaged")
        for one in made:
            sync_folder(one)

    def _parse(self, text: bytes, run: str) -> Bundle:
        try:
            document = json.loads(text.decode("ascii"))
        except (ValueError, RecursionError):
            self.refuse("its manifest is not JSON")
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            self.refuse(*_NO_BUNDLE)
        version = document.get("version")
        if type(version) is not int or version < 1:
            self.refuse("its manifest does not have a valid version")
        if version > VERSION:
            self.refuse(
                f"it has version {version}, but this rtgauge reads up to {VERSION}",
                "use the newer rtgauge that wrote it",
            )
        if document.get("run") != run:
            self.refuse("its manifest belongs to another run")
        files = document.get("files")
        if not isinstance(files, list) or len(files) > FILES_LIMIT:
            self.refuse(f"its manifest has no list of files, or more than {FILES_LIMIT}")
        bundle = Bundle(run, tuple(map(self._entry, files)))
        self._check_entries(bundle.entries)
        return bundle

    def _entry(self, file: Any) -> Entry:
        if not isinstance(file, dict) or file.keys() != {"name", "size", "sha256"}:
            self.refuse("its manifest is damaged")
        name, size, sha256 = file["name"], file["size"], file["sha256"]
        if not isinstance(name, str) or not _belongs(name):
            self.refuse(f"it holds {_shown(name)}, which is not a file of a run")
        if type(size) is not int or not 0 <= size <= SIZE_LIMIT:
            self.refuse(f"its manifest gives {name} an impossible size")
        if name.endswith((".json", ENVIRONMENT)) and size > JSON_LIMIT:
            self.refuse(f"{name} has {size} bytes, more than {JSON_LIMIT}")
        if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
            self.refuse(f"its manifest has no valid SHA-256 of {name}")
        return Entry(name, size, sha256)

    def _check_entries(self, entries: Sequence[Entry]) -> None:
        names = [one.name for one in entries]
        if len(set(names)) != len(names):
            self.refuse("its manifest names a file twice")
        if names != sorted(names):
            self.refuse("the files of its manifest are not in order")
        if DOCUMENT not in names:
            self.refuse(f"it has no {DOCUMENT}")
        if sum(one.size for one in entries) > SIZE_LIMIT:
            self.refuse(f"its files have more than {SIZE_LIMIT} bytes")

    def _expect(self, found: bytes, name: str, size: int) -> None:
        if found == header(name, size):
            return
        short = name.partition("/")[2]
        if found[:100] != name.encode("ascii").ljust(100, b"\0") or any(found[345:500]):
            given = (found[345:500].rstrip(b"\0") + found[:100].rstrip(b"\0")).decode("latin-1")
            self.refuse(f"it holds {_shown(given)} where {short} should be")
        if found[156:157] in _KINDS:
            self.refuse(f"{short} is {_KINDS[found[156:157]]} in it, not a file")
        self.refuse(f"the header of {short} does not have the form that rtgauge writes")

    def _padding(self, size: int) -> None:
        if any(self._read(-size % BLOCK)):
            self.refuse("it contains data between its files")

    def _check_id(self, head: bytes) -> None:
        """Refuse a file that does not begin with the id of a run, or with a part of one."""
        begin = head[: len(_ID)].decode("ascii", "replace")
        if not is_run_id(begin + _ID[len(begin) :]):
            self.refuse(*_NO_BUNDLE)

    def _read(self, size: int, check: Callable[[bytes], None] = lambda _: None) -> bytes:
        """The next ``size`` bytes. ``check`` gets those that there are, before the file is called
        truncated."""
        parts: list[bytes] = []
        while size:
            try:
                data = self._file.read(size)
            except OSError as error:
                raise StoreError(
                    f"cannot read {self._path}: {error.strerror or error}",
                    "check the disk and the path",
                ) from error
            if not data:
                check(b"".join(parts))
                self.refuse("it is truncated")
            parts.append(data)
            size -= len(data)
        return b"".join(parts)


def _one_line(text: str) -> str:
    """The text without control characters: messages about hostile bytes may quote them."""
    return "".join(one if one.isprintable() else "?" for one in text)


def _shown(name: object) -> str:
    """A name from a bundle for a message: short, and nothing that a terminal obeys."""
    text = ascii(name)
    return text if len(text) <= 60 else text[:57] + "..."
