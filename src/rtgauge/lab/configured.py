# SPDX-License-Identifier: Apache-2.0
"""What a kernel's configuration has to have for the lab: one table, from which both the fragment
for a kernel's ``.config`` and the complaints about a kernel are made.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rtgauge.lab.boards import Machine

__all__ = ["Need", "embedded", "fragment", "lacking", "needs", "parse"]

CONFIG_MAX: Final = 16 * 1024 * 1024
_BEGIN: Final = b"IKCFG_ST"  # kernel/configs.c
_LINE: Final = re.compile(r"^CONFIG_([A-Za-z0-9_]+)=(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Need:
    """A symbol that has to be ``y``. ``must``: without it the board does not start, or the lab does
    not reach it; else only what ``why`` names is missing. ``since``: kernels before this version do
    without the symbol."""

    symbol: str
    why: str
    must: bool = False
    since: tuple[int, int] = (0, 0)
    by: str = ""
    """The symbol that selects it, where it cannot be chosen itself."""

    @property
    def words(self) -> str:
        """For a message."""
        return f"CONFIG_{self.symbol} ({self.why})"


_MUST: Final = (
    Need("BLK_DEV_INITRD", "starts from the lab's archive", must=True),
    Need("BINFMT_ELF", "starts programs", must=True),
    Need("PCI", "finds the device for the exchange with the host", must=True),
    Need("PROC_FS", "describes the system to the agent", must=True),
    Need("SYSFS", "maps the device for the exchange with the host", must=True),
    Need("FUTEX", "threads wait for each other", must=True),
    Need("POSIX_TIMERS", "clocks and sleeps", must=True, since=(4, 10)),
)

_WISH: Final = (
    Need("SMP", "more than one CPU"),
    Need("HIGH_RES_TIMERS", "timers that are finer than the tick"),
    Need("TIMERFD", "timers that are files"),
    Need("EVENTFD", "event descriptors"),
    Need("SIGNALFD", "programs as loads"),
    Need("TMPFS", "shared memory and file systems in memory"),
    Need("DEVTMPFS", "device nodes"),
    Need("PRINTK", "kernel messages on the console"),
    Need("SERIAL_8250", "the console"),
    Need("SERIAL_8250_CONSOLE", "kernel messages on the console"),
    Need("MODULES", "interrupt and kernel contexts, which need rtgauge's module"),
    Need("MODULE_UNLOAD", "disturbances and loads of rtgauge's modules"),
    Need("GPIOLIB", "GPIO lines"),
    Need("GPIO_CDEV", "GPIO lines for user tasks", since=(5, 11)),
    Need("PCI_MSI", "the doorbell, for lines from outside"),
    Need("SYSVIPC", "System V semaphores and message queues"),
    Need("POSIX_MQUEUE", "POSIX message queues"),
    Need("MULTIUSER", "users and groups", since=(4, 1)),
    Need("NET", "sockets of loads"),
    Need("UNIX", "sockets of loads"),
    Need("INET", "the loopback network"),
    Need("UNIX98_PTYS", "terminals"),
    Need("BINFMT_SCRIPT", "shell scripts"),
)

_OF_MACHINE: Final[Mapping[str, tuple[Need, ...]]] = {
    "x86_64": (
        Need("64BIT", "64-bit programs", must=True),
        Need("X86_IOPL_IOPERM", "stops the board between two orders", must=True, since=(5, 5)),
        Need(
            "GPIOLIB_IRQCHIP",
            "the doorbell's interrupts, selected by GPIO_PCI_IDIO_16",
            since=(5, 10),
            by="GPIO_PCI_IDIO_16",
        ),
        Need("ACPI", "the PCI bus and the interrupts of the machine"),
        Need("X86_IO_APIC", "the interrupt of the HPET"),
        Need("X86_LOCAL_APIC", "the timer of the processor"),
        Need("HPET_TIMER", "the interrupt source hpet, and the clock of its time stamps"),
        Need("HYPERVISOR_GUEST", "a start without decompression", since=(5, 0)),
        Need("PVH", "a start without decompression", since=(5, 0)),
    ),
    "arm64": (
        Need("SERIAL_AMBA_PL011", "stops the board between two orders", must=True),
        Need("PCI_HOST_GENERIC", "the PCI bus of the machine", must=True),
        Need("ARM_GIC_V3", "the interrupts of the machine", must=True),
        Need("SERIAL_8250_PCI", "the console"),
        Need("GPIO_PL061", "the GPIO chip"),
        Need("GPIOLIB_IRQCHIP", "the lines' interrupts, selected by GPIO_PL061", since=(5, 10)),
    ),
}

# What takes longest of a small kernel's time, or makes it vary, without being measured.
_OFF: Final = ("CPU_FREQ", "CPU_IDLE", "SUSPEND", "HIBERNATION", "MIGRATION", "COMPACTION")


def needs(machine: Machine) -> tuple[Need, ...]:
    """Needs of a kernel for this machine, the indispensable ones first."""
    found = (*_MUST, *_WISH, *_OF_MACHINE[machine.architecture])
    return tuple(sorted(found, key=lambda need: not need.must))


def fragment(machine: Machine) -> str:
    """Lines for a kernel's ``.config``, for ``merge_config.sh`` or ``KCONFIG_ALLCONFIG``."""
    own = needs(machine)
    width = max(len(need.symbol) for need in own)
    lines = [f"# Symbols that an emulated board ({machine.architecture}) needs in its kernel."]
    for title, must in (
        ("Without these the board does not start, or the lab cannot reach it", True),
        ("For measurements", False),
    ):
        lines += ["", f"# {title}:"]
        for need in own:
            if need.must == must:
                lines += [f"# {need.symbol.ljust(width)}  {need.why}"]
        for need in own:
            if need.must == must:
                lines += [f"CONFIG_{name}=y" for name in (need.symbol, need.by) if name]
    lines += ["", "# Off, because they only cost time on an emulated board:"]
    lines += [f"# CONFIG_{symbol} is not set" for symbol in _OFF]
    return "\n".join(lines) + "\n"


def parse(text: str) -> dict[str, str]:
    """The symbols of a ``.config`` that are set, with their values; strings without quotes."""
    return {name: value.strip().strip('"') for name, value in _LINE.findall(text)}


def embedded(kernel: bytes) -> str | None:
    """The configuration that a kernel with CONFIG_IKCONFIG contains; None if it contains none."""
    start = kernel.find(_BEGIN + b"\x1f\x8b")
    if start < 0:
        return None
    try:
        decoder = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        return decoder.decompress(kernel[start + len(_BEGIN) :], CONFIG_MAX).decode()
    except (zlib.error, gzip.BadGzipFile, UnicodeDecodeError):
        return None


def lacking(config: Mapping[str, str], machine: Machine, release: str) -> list[Need]:
    """The needs that a kernel of this release and configuration does not meet."""
    match = re.match(r"(\d+)\.(\d+)", release)
    version = (int(match[1]), int(match[2])) if match else (99, 0)
    return [
        need for need in needs(machine) if config.get(need.symbol) != "y" and version >= need.since
    ]
