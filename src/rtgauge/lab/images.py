# SPDX-License-Identifier: Apache-2.0
"""From a board to a kernel and an initramfs that QEMU can boot.

The steps in order, each kept in the cache: packages, kernel, modules, archive. What is there is
used as it is, without a network and without a lock; one image is known by the digest of all that
is in it. The files of a user's board take the place of the packages, and are read each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from rtgauge.errors import TargetError
from rtgauge.lab import initramfs, own
from rtgauge.lab.boards import Board
from rtgauge.lab.cache import (
    Say,
    cache_folder,
    check_name,
    digest_of,
    explained,
    locked,
    new_folder,
    read_record,
    remove,
    text_digest,
    used,
    write_record,
)
from rtgauge.lab.kernels import KERNEL_RECORD, KERNEL_VERSION, Unpacked, kernel_for, known_kernel
from rtgauge.lab.libraries import linked
from rtgauge.lab.modules import Recipe, compiler_of, recipe
from rtgauge.lab.programs import Programs, programs

__all__ = ["IMAGE_RECORD", "IMAGE_VERSION", "Image", "image", "stored_image"]

IMAGE_RECORD: Final = "image.json"
IMAGE_VERSION: Final = 1
ARCHIVE: Final = "initramfs.cpio"
# Counts up with what is made of the same files.
FORM: Final = "2"
_NOTHING: Final = own.Added()


@dataclass(frozen=True)
class Image:
    """An image that QEMU boots. ``facts`` describe its sources as text."""

    kernel: Path
    initramfs: Path
    facts: Mapping[str, str]


def _silent(_: str) -> None:
    pass


def image(board: Board, *, newest: bool = False, library: str = "", say: Say = _silent) -> Image:
    """The image of a board, made first if need be: that takes minutes and a network, once.

    With ``newest`` Debian is asked for a newer kernel of the series, at most once a day; else the
    one in the cache stays. With ``library`` the agent is linked against that C library of Debian.
    ``say`` hears of each step that takes long. Raises TargetError.
    """
    cache = cache_folder()
    check_name(cache)
    made = programs(board.machine, say)
    if board.own is not None:
        return _own_image(cache, board, made, library, say)
    if not newest:
        unpacked = known_kernel(board)
        if unpacked is not None:
            mine, added = _with_library(cache, board, unpacked, made, library, say)
            known = _known(cache, board, unpacked, mine, added)
            if known is not None:
                return known
    unpacked = _kernel(cache, board, newest, say)
    made, added = _with_library(cache, board, unpacked, made, library, say)
    with locked(cache, ("images", "modules"), say):
        known = _known(cache, board, unpacked, made, added)
        return known or _make(cache, board, unpacked, made, say, added)


def _with_library(
    cache: Path,
    board: Board,
    unpacked: Unpacked,
    made: Programs,
    library: str,
    say: Say,
    added: own.Added = _NOTHING,
) -> tuple[Programs, own.Added]:
    """The programs of a board with an agent linked against a C library, and the ``added`` files
    with those of the library. Files of an overlay replace those of the library."""
    if not library:
        return made, added
    compiler = board.machine.triplet + compiler_of(unpacked.headers)
    found = linked(cache, board.machine, library, compiler, say)
    return replace(made, agent=found.agent), replace(
        added,
        files={**found.files, **added.files},
        facts={**added.facts, **found.facts},
        digest=text_digest(added.digest, library, *found.facts.values()),
    )


def _own_image(cache: Path, board: Board, made: Programs, library: str, say: Say) -> Image:
    """The image of a user's board, of its files as they are now."""
    given = own.read(board)
    unpacked = own.unpacked(cache, given, say)
    made, added = _with_library(cache, board, unpacked, made, library, say, _described(given))
    if given.lacks:
        missing = ", ".join(f"CONFIG_{need.symbol}" for need in given.lacks)
        say(
            f"the kernel of board {board.name} lacks {missing}. What each is for: "
            f"rtgauge lab config {given.machine.architecture}"
        )
    known = _known(cache, board, unpacked, made, added)
    if known is not None:
        return known
    with locked(cache, ("images", "modules"), say):
        # another process may have made it since, and may boot it
        known = _known(cache, board, unpacked, made, added)
        return known or _make(cache, board, unpacked, made, say, added)


def _described(given: own.Given) -> own.Added:
    """The contents of a user's board, with the facts about its kernel."""
    lacks = ", ".join(f"CONFIG_{need.symbol}" for need in given.lacks)
    facts = {
        "kernel file": str(given.kernel_file),
        "kernel file digest": given.source_digest,
        "lacks": lacks or ("nothing" if given.config is not None else "unknown"),
    }
    return replace(given.added, facts={**given.added.facts, **facts})


def _kernel(cache: Path, board: Board, newest: bool, say: Say) -> Unpacked:
    """The kernel of a board, complete. One that was damaged in the cache is fetched again."""
    known = None if newest else known_kernel(board)
    if known is not None and _whole(known):
        return known
    with locked(cache, ("kernels", "boards"), say):
        unpacked = kernel_for(board, newest, say)
        if not _whole(unpacked):
            say(f"the kernel in the cache is damaged, and is fetched again ({unpacked.kernel})")
            remove(unpacked.folder)
            unpacked = kernel_for(board, newest, say)
        return unpacked


def _whole(unpacked: Unpacked) -> bool:
    return digest_of(unpacked.kernel) == unpacked.sha256


def _key(
    board: Board, unpacked: Unpacked, made: Programs, build: Recipe | None, added: own.Added
) -> str:
    return text_digest(
        FORM,
        board.name,
        unpacked.folder.name,
        unpacked.sha256,
        digest_of(made.agent),
        digest_of(made.guest),
        digest_of(unpacked.busybox),
        build.digest if build else "",
        *([added.digest, *added.facts.values()] if added.digest else []),
    )[:32]


def _known(
    cache: Path, board: Board, unpacked: Unpacked, made: Programs, added: own.Added = _NOTHING
) -> Image | None:
    """The image if the cache holds it, whole and as it was made."""
    key = _key(board, unpacked, made, recipe(board.machine, unpacked), added)
    folder = cache / "images" / key
    record = read_record(folder / IMAGE_RECORD, IMAGE_VERSION)
    if record is None or not isinstance(record.get("facts"), dict):
        return None
    archive = folder / ARCHIVE
    facts = {str(name): str(value) for name, value in record["facts"].items()}
    try:
        whole = digest_of(archive) == facts.get("initramfs digest")
        whole = whole and digest_of(unpacked.kernel) == unpacked.sha256
    except OSError:
        return None
    if not whole:
        return None
    used(folder / IMAGE_RECORD, unpacked.folder / KERNEL_RECORD)
    return Image(unpacked.kernel, archive, MappingProxyType(facts))


def _make(
    cache: Path,
    board: Board,
    unpacked: Unpacked,
    made: Programs,
    say: Say,
    added: own.Added = _NOTHING,
) -> Image:
    build = recipe(board.machine, unpacked)
    modules: dict[str, bytes] = {}
    if build is not None:
        folder = build.build(cache, say)
        modules = {path.name: path.read_bytes() for path in sorted(folder.glob("*.ko"))}
    entries = initramfs.tree(
        made.guest.read_bytes(),
        made.agent.read_bytes(),
        unpacked.busybox.read_bytes(),
        modules,
        {**initramfs.read_modules(unpacked.modules), **added.modules},
        added.files,
    )
    try:
        archive = initramfs.archive(entries)
    except ValueError as error:
        raise TargetError(
            f"the overlay of board {board.name} does not fit the board: {error}",
            "make the overlay's entry a folder, or remove it",
        ) from None
    final = cache / "images" / _key(board, unpacked, made, build, added)
    with explained(cache), new_folder(final) as making:
        path = making / ARCHIVE
        path.write_bytes(archive)
        facts = {
            "board": board.name,
            "kernel": unpacked.release,
            "kernel digest": unpacked.sha256,
            "initramfs digest": digest_of(path),
            "agent digest": digest_of(made.agent),
            "guest digest": digest_of(made.guest),
            "modules": " ".join(modules) or "none",
            "modules digest": build.digest if build else "",
            "compiler": build.compiler if build else "",
            **{f"package {name}": version for name, version in unpacked.versions.items()},
            **added.facts,
        }
        write_record(making / IMAGE_RECORD, {"version": IMAGE_VERSION, "facts": facts})
    return Image(unpacked.kernel, final / ARCHIVE, MappingProxyType(facts))


def stored_image(facts: Mapping[str, str]) -> Image:
    """The image that a board booted, by the digests among its ``facts``.

    Raises TargetError if the cache does not hold it any more.
    """
    cache = cache_folder()
    record_of_kernel, kernel = next(
        (
            (path, path.parent / str(record.get("kernel", "kernel")))
            for above in ("kernels", own.OWN_KERNELS)
            for path in sorted((cache / above).glob(f"*/{KERNEL_RECORD}"))
            if (record := read_record(path, KERNEL_VERSION) or {}).get("sha256")
            == facts.get("kernel digest", "?")
        ),
        (None, None),
    )
    archive = next(
        (
            path.with_name(ARCHIVE)
            for path in sorted((cache / "images").glob(f"*/{IMAGE_RECORD}"))
            if _facts(path).get("initramfs digest") == facts.get("initramfs digest")
        ),
        None,
    )
    for path, name in ((kernel, "kernel"), (archive, "initramfs")):
        digest = facts.get(f"{name} digest", "")
        if path is None or not path.is_file():
            gone = "is not in the lab's cache"
        elif digest_of(path) != digest:
            gone = f"was changed in the lab's cache ({path})"
        else:
            continue
        raise TargetError(
            f"the {name} that the run booted {gone} (SHA-256 {digest[:16] or 'not recorded'})",
            "measure again, and explain the new run",
        )
    assert record_of_kernel is not None
    assert kernel is not None
    assert archive is not None
    used(archive.with_name(IMAGE_RECORD), record_of_kernel)
    return Image(kernel, archive, MappingProxyType(dict(facts)))


def _facts(path: Path) -> Mapping[str, Any]:
    facts = (read_record(path, IMAGE_VERSION) or {}).get("facts")
    return facts if isinstance(facts, dict) else {}
