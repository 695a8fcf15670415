# SPDX-License-Identifier: Apache-2.0
"""The recipes of the emulated boards: data, no steps.

A board is a machine of QEMU together with a kernel: Debian's, by its series and whether it is the
PREEMPT_RT build, or one that a user built. ``registry.py`` finds boards by their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from rtgauge.lab.lines import Chip

__all__ = ["BOARDS", "MACHINES", "SERIES", "Board", "Machine", "Own"]


@dataclass(frozen=True)
class Machine:
    """A machine that QEMU emulates, and the data for building programs for it."""

    architecture: str
    """As in the names of boards, and for the kernel's build: ``x86_64``, ``arm64``."""

    processor: str
    """As ``uname -m`` says, and in the names of agents."""

    debian: str
    """Debian's name of the architecture."""

    triplet: str
    """Prefix of the names of the compiler and its tools."""

    compiler_package: str
    """Debian's package of that compiler, for a remedy. ``{version}`` is its version."""

    qemu: str
    qemu_package: str
    machine: str
    cpu: str
    console: str
    """The kernel's name of the serial port that shows its messages."""

    kernel_arguments: tuple[str, ...]
    """Kernel arguments of every boot: quick, and independent of the host."""

    firmware: str = ""
    """QEMU's file of a firmware that starts sooner than its own, if it has that."""

    kernel_modules: tuple[str, ...] = ()
    """Modules of Debian's kernel, in this order, without which something here does not work."""

    chip: Chip | None = None
    """Its GPIO chip, whose lines can be wired."""

    one_thread: bool = False
    """Whether QEMU has to emulate several CPUs in one thread. With a thread for each, a CPU may
    execute a translation of code that the kernel has patched since (docs/decisions/0099)."""


_ARGUMENTS: Final = ("quiet", "panic=-1", "cryptomgr.notests", "mitigations=off")

MACHINES: Final[Mapping[str, Machine]] = MappingProxyType(
    {
        "x86_64": Machine(
            architecture="x86_64",
            processor="x86_64",
            one_thread=True,
            debian="amd64",
            triplet="x86_64-linux-gnu-",
            compiler_package="gcc-{version}",
            qemu="qemu-system-x86_64",
            qemu_package="qemu-system-x86",
            machine="q35",
            cpu="max",
            console="ttyS0",
            kernel_arguments=(
                *_ARGUMENTS,
                "tsc=reliable",
                "no_timer_check",
                # a tenth of the boot, for random numbers that nothing here asks for
                "initcall_blacklist=jent_mod_init",
            ),
            firmware="qboot.rom",
        ),
        "arm64": Machine(
            architecture="arm64",
            processor="aarch64",
            debian="arm64",
            triplet="aarch64-linux-gnu-",
            compiler_package="gcc-{version}-aarch64-linux-gnu",
            qemu="qemu-system-aarch64",
            qemu_package="qemu-system-arm",
            machine="virt,gic-version=3",
            cpu="cortex-a57",
            console="ttyS0",
            kernel_arguments=_ARGUMENTS,
            chip=Chip("pl061", "9030000.pl061", lines=8),
        ),
    }
)

# Kernel series, oldest first; a board's name without one means the newest.
SERIES: Final = ("6.1", "6.12")


@dataclass(frozen=True)
class Own:
    """Parts of a user's board: files that are read again at each use, by absolute paths."""

    kernel: Path
    build: Path | None = None
    """The folder in which it was built, for rtgauge's modules and the configuration."""

    overlay: Path | None = None
    """The folder whose files the board has, in addition to the lab's."""

    modules: tuple[Path, ...] = ()
    """The kernel's own modules that the board loads, in this order."""

    arguments: tuple[str, ...] = ()
    """Arguments of the kernel."""


@dataclass(frozen=True)
class Board:
    """One emulated board. ``series`` and ``realtime`` describe a kernel of Debian."""

    name: str
    machine: Machine
    series: str
    realtime: bool
    own: Own | None = None

    @property
    def flavour(self) -> str:
        """The end of the names of Debian's packages of this kernel."""
        return f"rt-{self.machine.debian}" if self.realtime else self.machine.debian


def _all() -> dict[str, Board]:
    made = {}
    for machine in MACHINES.values():
        for realtime in (True, False):
            stem = f"{machine.architecture}-{'rt' if realtime else 'stock'}"
            for series in SERIES:
                name = f"{stem}-{series}"
                made[name] = Board(name, machine, series, realtime)
    return made


BOARDS: Final[Mapping[str, Board]] = MappingProxyType(_all())
