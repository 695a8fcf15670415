# SPDX-License-Identifier: Apache-2.0
"""The guest's names: functions by address, and the fields of a task.

Functions are in /proc/kallsyms, with those of loaded modules. The layout of ``task_struct`` is in
BTF (Documentation/bpf/btf.rst), which kernels of Debian contain.
"""

from __future__ import annotations

import bisect
import re
import struct
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rtgauge.causes.model import Task

__all__ = ["KERNEL", "UNLOADED", "USER", "Symbols", "TaskLayout"]

USER: Final = "user space"
UNLOADED: Final = "an unloaded module"
KERNEL: Final = 1 << 63
END: Final = 1 << 64
PAGE: Final = 4096
POLICIES: Final = ("other", "fifo", "rr", "batch", "iso", "idle", "deadline")
REALTIME: Final = 100
"""Priorities below this are real-time ones. A smaller one is more urgent."""

_SUFFIX: Final = re.compile(r"\.(?:constprop|isra|part|cold|llvm)\.?[0-9]*.*$")


class Symbols:
    """The functions of a kernel."""

    def __init__(self, text: bytes) -> None:
        found: list[tuple[int, str, str | None]] = []
        for line in text.decode("ascii", "replace").splitlines():
            words = line.split()
            if len(words) > 2 and words[1] in "tTwW":
                found.append((int(words[0], 16), words[2], "".join(words[3:])))
        found.sort(key=lambda one: one[0])
        self._addresses = [address for address, _, _ in found]
        self._sorted = np.array(self._addresses, np.uint64)
        self._names = [name for _, name, _ in found]
        # the code of the kernel, and of a module, ends with the page of its last function
        self._ends = {
            one: (one | PAGE - 1) + 1
            for (one, _, owner), (_, _, following) in pairwise([*found, (0, "", None)])
            if owner != following
        }
        # of the functions by their place from 1, so 0 is what is before them all
        upto = [0, *(self._ends.get(address, END - 1) for address in self._addresses)]
        self._upto = np.array(upto, np.uint64)
        self._known: dict[int, tuple[str, int]] = {}

    def __len__(self) -> int:
        return len(self._names)

    def at(self, address: int) -> tuple[str, int]:
        """The function at an address, and the offset in it. ``UNLOADED``: it belongs to a module
        that was unloaded before the names were read."""
        known = self._known.get(address)
        if known is None:
            known = self._known[address] = self._find(address)
        return known

    def places(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Numbers that are equal for addresses of one function. Those of user space are one."""
        found = np.searchsorted(self._sorted, addresses, "right")
        beyond = addresses >= self._upto[found]
        return np.where(addresses < KERNEL, -1, 2 * found + beyond)

    def _find(self, address: int) -> tuple[str, int]:
        if address < KERNEL:
            return USER, 0
        place = bisect.bisect(self._addresses, address) - 1
        if place < 0:
            return UNLOADED, 0
        begin = self._addresses[place]
        if address >= self._ends.get(begin, END):
            return UNLOADED, address - begin
        return _SUFFIX.sub("", self._names[place]), address - begin


# Kinds of BTF's types, and what follows the three words of each, by its number of members.
_KIND_EXTRA: Final[Mapping[int, tuple[int, int]]] = {
    # kind: (bytes, bytes for each member)
    1: (4, 0),  # integer
    3: (12, 0),  # array
    4: (0, 12),  # struct
    5: (0, 12),  # union
    6: (0, 8),  # enum
    13: (0, 8),  # prototype of a function
    14: (4, 0),  # variable
    15: (0, 12),  # section
    17: (4, 0),  # tag of a declaration
    19: (0, 12),  # enum of 64 bits
}
_STRUCT: Final = 4
_MAGIC: Final = 0xEB9F


def _offsets(types: bytes, name: str, fields: Iterable[str]) -> dict[str, int]:
    """The offsets in bytes of fields of a struct. Raises ValueError if the types are damaged."""
    try:
        magic, _, _, head, type_at, type_size, text_at, text_size = struct.unpack_from(
            "<HBBIIIII", types
        )
        if magic != _MAGIC:
            raise ValueError("the kernel's types (BTF) have an unknown format")
        texts = types[head + text_at : head + text_at + text_size]
        wanted = {_place(texts, field): field for field in fields}
        struct_name = name.encode() + b"\0"
        at, end = head + type_at, head + type_at + type_size
        while at < end:
            name_at, info, _ = struct.unpack_from("<III", types, at)
            kind, members = info >> 24 & 0x1F, info & 0xFFFF
            at += 12
            own, each = _KIND_EXTRA.get(kind, (0, 0))
            if kind == _STRUCT and members and texts.startswith(struct_name, name_at):
                return _members(types, at, members, texts, set(wanted.values()), bool(info >> 31))
            at += own + each * members
    except struct.error:
        raise ValueError("the kernel's types (BTF) are incomplete") from None
    return {}


def _place(texts: bytes, word: str) -> int:
    return texts.find(b"\0" + word.encode() + b"\0") + 1


def _members(
    types: bytes, at: int, members: int, texts: bytes, wanted: set[str], bits: bool
) -> dict[str, int]:
    found = {}
    for number in range(members):
        name_at, _, offset = struct.unpack_from("<III", types, at + 12 * number)
        name = texts[name_at : texts.index(b"\0", name_at)].decode("ascii", "replace")
        if name in wanted:
            found[name] = (offset & 0xFFFFFF if bits else offset) // 8
    return found


class TaskLayout:
    """Where a task's name, id and priority are in the bytes of its ``task_struct``."""

    FIELDS: Final = ("comm", "pid", "prio", "policy")

    def __init__(self, types: bytes) -> None:
        self._at = _offsets(types, "task_struct", self.FIELDS) if types else {}

    def task(self, data: bytes) -> tuple[Task, int]:
        """The task, and its effective priority: below ``REALTIME`` a real-time one. Smaller is more
        urgent."""
        at = self._at
        if set(at) != set(self.FIELDS) or len(data) < max(at.values()) + 16:
            return Task("?"), REALTIME + 20
        name = data[at["comm"] : at["comm"] + 16].split(b"\0")[0].decode("utf-8", "replace")
        pid, prio, policy = (
            struct.unpack_from("<i", data, at[field])[0] for field in ("pid", "prio", "policy")
        )
        known = POLICIES[policy] if 0 <= policy < len(POLICIES) else ""
        priority = REALTIME - 1 - prio if 0 <= prio < REALTIME else 0
        return Task(name, pid, known, priority), prio
