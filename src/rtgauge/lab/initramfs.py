# SPDX-License-Identifier: Apache-2.0
"""Archives that a kernel starts from: cpio in the "newc" form, the same bit for bit.

The form is that of Documentation/driver-api/early-userspace/buffer-format.rst. Owner, times and
inode numbers are fixed, and entries are sorted by name, so that equal content gives equal bytes.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final

from rtgauge.errors import TargetError

__all__ = [
    "PROGRAMS",
    "Entry",
    "archive",
    "busybox_applets",
    "device",
    "file",
    "folder",
    "link",
    "numbered",
    "place",
    "tree",
]

#: The folders of programs, which are one: the others are links to the first.
PROGRAMS: Final = ("bin", "sbin", "usr/bin", "usr/sbin")

MAGIC: Final = b"070701"
TRAILER: Final = "TRAILER!!!"
NAME_MAX: Final = 4096
SIZE_MAX: Final = 0xFFFFFFFF


@dataclass(frozen=True)
class Entry:
    """One file of any kind: its mode with the kind, its content, and for a device its numbers."""

    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def file(content: bytes, mode: int = 0o644) -> Entry:
    """A regular file."""
    return Entry(stat.S_IFREG | mode, content)


def folder(mode: int = 0o755) -> Entry:
    """A folder."""
    return Entry(stat.S_IFDIR | mode)


def link(target: str) -> Entry:
    """A symbolic link."""
    return Entry(stat.S_IFLNK | 0o777, target.encode())


def device(major: int, minor: int, mode: int = 0o600) -> Entry:
    """A character device."""
    return Entry(stat.S_IFCHR | mode, device=(major, minor))


def archive(entries: Mapping[str, Entry]) -> bytes:
    """The archive of these entries, by path below the root, with the folders that they need.

    Raises ValueError for an invalid path, or content that the form cannot hold.
    """
    whole = dict(entries)
    for path in entries:
        inside = not path.startswith(("/", "../")) and path not in (".", "..")
        if not path or path != str(PurePosixPath(path)) or not inside:
            raise ValueError(f"not a path below the root: {path!r}")
        for above in list(PurePosixPath(path).parents)[:-1]:
            whole.setdefault(str(above), folder())
            if not stat.S_ISDIR(whole[str(above)].mode):
                raise ValueError(f"{str(above)!r} contains {path!r}, but is not a folder")
    parts = []
    # a folder comes before what it holds: "/" sorts before all that names may have after it
    ordered = sorted(whole, key=lambda path: path.split("/"))
    for inode, path in enumerate(ordered, 1):
        parts += _record(path, whole[path], inode)
    parts += _record(TRAILER, Entry(0), 0)
    return b"".join(parts)


def _record(name: str, entry: Entry, inode: int) -> list[bytes]:
    text = name.encode() + b"\0"
    if len(text) > NAME_MAX or b"\0" in text[:-1] or len(entry.content) > SIZE_MAX:
        raise ValueError(f"an archive cannot hold {name!r}")
    fields = (
        inode,
        entry.mode,
        0,  # user
        0,  # group
        2 if stat.S_ISDIR(entry.mode) else 1,
        0,  # time
        len(entry.content),
        0,
        0,
        *entry.device,
        len(text),
        0,  # this form has no checksum
    )
    head = MAGIC + b"".join(b"%08X" % field for field in fields) + text
    return [head, b"\0" * (-len(head) % 4), entry.content, b"\0" * (-len(entry.content) % 4)]


def busybox_applets(program: bytes) -> tuple[str, ...]:
    """The names that a busybox answers to, from the sorted table of them in its program.

    So they are known for a processor whose programs cannot run here. Raises TargetError if the
    program has no such table.
    """
    start = program.find(b"\0[\0[[\0") + 1
    end = program.find(b"\0\0", start)
    names = program[start:end].split(b"\0") if 0 < start < end else []
    applets = tuple(name.decode("ascii", "replace") for name in names)
    if "sh" not in applets or any("/" in name or not name.isprintable() for name in applets):
        raise TargetError(
            "the busybox that was fetched has no table of its commands",
            "report it, with the version of Debian's package busybox-static",
        )
    return applets


def tree(
    init: bytes,
    agent: bytes,
    busybox: bytes,
    modules: Mapping[str, bytes],
    kernel_modules: Mapping[str, bytes],
    overlay: Mapping[str, Entry] = MappingProxyType({}),
) -> dict[str, Entry]:
    """Contents of an emulated board.

    ``modules`` are ours, below /modules; ``kernel_modules`` are the kernel's own, below
    /modules/kernel, in the order of their names. ``overlay`` replaces files of the lab.
    """
    entries = {
        "init": file(init, 0o755),
        "agent": file(agent, 0o755),
        "bin/busybox": file(busybox, 0o755),
        "dev/console": device(5, 1),
        "etc/passwd": file(b"root::0:0:root:/:/bin/sh\n"),
        "etc/group": file(b"root:x:0:\n"),
        **{name: link("../" * name.count("/") + "bin") for name in PROGRAMS[1:]},
        "modules": folder(),
    }
    for name in ("dev", "proc", "sys", "run", "mnt"):
        entries[name] = folder()
    for name in ("tmp", "var/tmp"):
        entries[name] = folder(0o1777)
    for name in busybox_applets(busybox):
        entries.setdefault(f"bin/{name}", link("busybox"))  # "busybox" is one of them
    for name, entry in overlay.items():
        if not stat.S_ISDIR(entry.mode) or name not in entries:
            entries[name] = entry
    for name, content in modules.items():
        entries[f"modules/{name}"] = file(content)
    for name, content in kernel_modules.items():
        entries[f"modules/kernel/{name}"] = file(content)
    return entries


def place(path: str) -> str:
    """Where a path leads on a board, whose folders of programs are one."""
    for name in PROGRAMS[1:]:
        if path == name or path.startswith(f"{name}/"):
            return "bin" + path.removeprefix(name)
    return path


def read_modules(paths: tuple[Path, ...]) -> dict[str, bytes]:
    """Modules by the names that they get in the archive (``numbered``)."""
    return numbered([(path.name, path.read_bytes()) for path in paths])


def numbered(modules: Sequence[tuple[str, bytes]]) -> dict[str, bytes]:
    """Modules by the names that they get in the archive: numbered, to be loaded in that order,
    which is that of the names."""
    digits = max(2, len(str(len(modules) - 1)))
    return {f"{number:0{digits}}-{name}": content for number, (name, content) in enumerate(modules)}
