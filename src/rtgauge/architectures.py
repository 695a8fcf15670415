# SPDX-License-Identifier: Apache-2.0
"""The architectures that agents are made for: one table, and which of them a target wants.

All that depends on the kind of a target is here: how its agent is compiled, what its kernel calls
it, and what emulates it on this machine. The static agents are made from it, chosen for a target,
listed by ``rtgauge agent``, and tried by the tests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from rtgauge.errors import TargetError, UsageError, nearest

__all__ = ["ARCHITECTURES", "Architecture", "architecture", "for_target"]


@dataclass(frozen=True)
class Architecture:
    """One kind of processor."""

    name: str
    """Its name here."""

    processor: str
    """In the names of agents."""

    target: str
    """zig's name of the processor, the system and its C library."""

    cpu: str
    """The oldest processor on which the agent runs, in zig's words."""

    family: str
    """meson's name of it."""

    machines: tuple[str, ...]
    """Patterns for the whole output of ``uname -m``."""

    qemu: str
    """QEMU's name of it, for programs alone (``qemu-NAME-static``)."""

    aliases: tuple[str, ...] = ()
    """Other names for it."""

    big_endian: bool = False

    @property
    def agent(self) -> str:
        """The file name of its agent."""
        return f"rtgauge-agent-{self.processor}-musl"


_TABLE: Final = (
    Architecture(
        "x86-64", "x86_64", "x86_64-linux-musl", "baseline", "x86_64", ("x86_64",), "x86_64",
        aliases=("x86_64", "amd64", "x64"),
    ),
    Architecture(
        "i686", "i686", "x86-linux-musl", "i686", "x86", ("i686",), "i386",
        aliases=("x86", "i386", "ia32"),
    ),
    # without a floating-point unit, and with the atomic operations that the kernel lends
    Architecture(
        "armv5te", "armv5te", "arm-linux-musleabi", "arm926ej_s", "arm",
        ("armv5te[a-z]*l", "armv6[a-z]*l"), "arm",
        aliases=("armv5", "armv5tel", "armv5tejl", "armv6", "armv6l", "armel", "arm"),
    ),
    Architecture(
        "armv7hf", "armv7hf", "thumb-linux-musleabihf",
        "generic+v7a+vfp3d16-neon-vfp3-vfp3sp-d32", "arm",
        ("armv[78][a-z]*l",), "arm",
        aliases=("armv7", "armv7a", "armv7l", "armv8l", "armhf"),
    ),
    Architecture(
        "arm64", "aarch64", "aarch64-linux-musl", "baseline", "aarch64", ("aarch64",), "aarch64",
        aliases=("aarch64", "armv8"),
    ),
    Architecture(
        "riscv64", "riscv64", "riscv64-linux-musl", "baseline", "riscv64", ("riscv64",), "riscv64",
        aliases=("riscv", "rv64", "rv64gc"),
    ),
    # floating point in software: there are processors of both kinds, and some with neither
    Architecture(
        "powerpc", "powerpc", "powerpc-linux-musleabi", "ppc", "ppc", ("ppc", "ppc64"), "ppc",
        aliases=("ppc", "ppc32"),
        big_endian=True,
    ),
    Architecture(
        "mips", "mips", "mips-linux-musleabi", "mips32", "mips", ("mips", "mips64"), "mips",
        aliases=("mips32", "mipsbe", "mips-be"),
        big_endian=True,
    ),
)  # fmt: skip

ARCHITECTURES: Final[Mapping[str, Architecture]] = MappingProxyType(
    {one.name: one for one in _TABLE}
)

#: A kernel tells each process what it is (``/proc/PID/auxv``), in pairs of words, a type and a
#: value: the size of a page has type 6, the features of the processor 16.
_AT_PAGESZ: Final = 6
_AT_HWCAP: Final = 16
_ARM_VFPV3: Final = 1 << 13 | 1 << 14
_PAGES: Final = tuple(1 << bits for bits in range(12, 19))


@dataclass(frozen=True)
class _Told:
    """The kernel's description of its machine for a process."""

    big_endian: bool
    features: int


def _told(auxv: bytes) -> _Told | None:
    """The entries, or None if it cannot be read. The size of a page reveals its layout."""
    for order in ("little", "big"):
        for size in (4, 8):
            words = [
                int.from_bytes(auxv[at : at + size], "big" if order == "big" else "little")
                for at in range(0, len(auxv) - size + 1, size)
            ]
            pairs = dict(zip(words[::2], words[1::2], strict=False))
            if pairs.get(_AT_PAGESZ) in _PAGES:
                return _Told(order == "big", pairs.get(_AT_HWCAP, 0))
    return None


def architecture(name: str) -> Architecture:
    """The architecture of that name or alias. Raises UsageError."""
    wanted = name.lower()
    for one in _TABLE:
        if wanted in (one.name, one.processor, *one.aliases):
            return one
    raise UsageError(
        f"there is no agent for the architecture '{name}'", nearest(wanted, ARCHITECTURES)
    )


def for_target(machine: str, auxv: bytes = b"") -> Architecture:
    """The architecture of a target, by what ``uname -m`` says there and, where that leaves a
    question open, by what its kernel told a process (``/proc/self/auxv``).

    ``mips`` stands for both byte orders. A processor of Arm's seventh version may lack floating
    point. Raises TargetError for a target that no agent is made for.
    """
    for one in _TABLE:
        if any(re.fullmatch(pattern, machine) for pattern in one.machines):
            break
    else:
        raise TargetError(
            f"there is no agent for the architecture '{machine}'",
            "agents are available for " + ", ".join(ARCHITECTURES),
        )
    told = _told(auxv)
    if told is None:
        return one
    if told.big_endian != one.big_endian:
        order = "big" if told.big_endian else "little"
        raise TargetError(
            f"there is no agent for the architecture '{machine}' in {order}-endian byte order",
            "agents are available for " + ", ".join(ARCHITECTURES),
        )
    if one.name == "armv7hf" and not told.features & _ARM_VFPV3:
        return ARCHITECTURES["armv5te"]
    return one
