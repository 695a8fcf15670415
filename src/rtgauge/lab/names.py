# SPDX-License-Identifier: Apache-2.0
"""The names of a guest's kernel, kept in the cache: a counted board takes seconds to list them."""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rtgauge.errors import TargetError
from rtgauge.lab.cache import (
    Say,
    cache_folder,
    explained,
    locked,
    new_file,
    text_digest,
    used,
)
from rtgauge.lab.machine import Machine

__all__ = ["SUFFIX", "names"]

SUFFIX: Final = ".names"
VERSION: Final = "1"
BUSYBOX: Final = "/bin/busybox"
_LENGTH: Final = struct.Struct("<Q")


def names(machine: Machine, facts: Mapping[str, str], say: Say) -> tuple[bytes, bytes]:
    """The guest's /proc/kallsyms, and its types (/sys/kernel/btf/vmlinux, or empty).

    From the cache, if it holds those of a board with this kernel, this initramfs, and the kernel
    and its modules at the same addresses. ``facts``: those of the run. Raises TargetError.
    """
    path = _place(machine, facts)
    found = None if path is None else _kept(path)
    if found is None:
        found = _read(machine, "/proc/kallsyms"), _read(machine, "/sys/kernel/btf/vmlinux")
        if path is not None:
            with contextlib.suppress(TargetError):  # a full disk does not spoil the replay
                _keep(path, found, say)
    return found


def _place(machine: Machine, facts: Mapping[str, str]) -> Path | None:
    """Where the names of this guest are kept. None: what they depend on is not known."""
    digests = [facts.get(f"{part} digest", "") for part in ("kernel", "initramfs")]
    text = machine.execute([BUSYBOX, "grep", "-m", "1", " _text$", "/proc/kallsyms"]).stdout
    # name, size, users, dependencies, state, address
    modules = [line.split() for line in _read(machine, "/proc/modules").decode().splitlines()]
    if not all(digests) or not text or any(len(words) < 6 for words in modules):
        return None
    places = [" ".join((words[0], words[1], words[5])) for words in modules]
    digest = text_digest(VERSION, *digests, text.decode(), *places)[:32]
    return cache_folder() / "names" / f"{digest}{SUFFIX}"


def _read(machine: Machine, path: str) -> bytes:
    """A file of the guest; empty if it cannot be read."""
    output = machine.execute([BUSYBOX, "cat", path])
    return output.stdout if output.code == 0 else b""


def _kept(path: Path) -> tuple[bytes, bytes] | None:
    """Content of the cache. None if it is empty or damaged."""
    try:
        data = zlib.decompress(path.read_bytes())
        (length,) = _LENGTH.unpack_from(data)
    except (OSError, zlib.error, struct.error):
        return None
    used(path)
    return data[_LENGTH.size : _LENGTH.size + length], data[_LENGTH.size + length :]


def _keep(path: Path, found: tuple[bytes, bytes], say: Say) -> None:
    cache = path.parent.parent
    data = zlib.compress(_LENGTH.pack(len(found[0])) + b"".join(found), 1)
    with locked(cache, ("names",), say), explained(cache), new_file(path) as making:
        making.write_bytes(data)
