# SPDX-License-Identifier: Apache-2.0
"""Xenomai's driver timerbench on the fake core (fake_core.py). Its calls are those of
include/rtdm/uapi/testing.h of Xenomai: a start, and an end that returns a histogram."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fake_calls import Call, peek, poke

__all__ = ["BENCH_DEVICE", "HANDLER", "TASK", "FakeBench", "Order"]

BENCH_DEVICE: Final = "/dev/rtdm/timerbench"
TASK: Final = 0
HANDLER: Final = 1

_NAME: Final = "timerbench"
_ORDER: Final = struct.Struct("=iiQiiii")
_END: Final = struct.Struct("=5i4x3Q")


@dataclass(frozen=True)
class Order:
    """What the agent asked for at a start."""

    mode: int
    priority: int
    interval_ns: int
    warm_up: int
    cells: int
    cell_ns: int
    freeze: int


@dataclass
class FakeBench:
    """``samples`` are the latencies of each mode. ``overruns`` periods went by in addition.
    ``start`` and ``end`` are the errors (errno) of the two calls."""

    folder: Path
    samples: Mapping[int, Sequence[int]] = field(default_factory=dict)
    overruns: int = 0
    start: int = 0
    end: int = 0
    orders: list[Order] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    _running: dict[str, Order] = field(default_factory=dict)

    def __post_init__(self) -> None:
        path = self.folder / BENCH_DEVICE[1:]
        path.parent.mkdir(parents=True)
        path.touch()

    def file(self, path: str) -> Path | None:
        """The file in the place of this one, None for one that is not the driver's."""
        return self.folder / path[1:] if path == BENCH_DEVICE else None

    def open(self) -> int:
        """A descriptor of the device."""
        return os.memfd_create(_NAME)

    def is_open(self, tid: int, fd: int) -> bool:
        """Whether this is an open file of the device."""
        return os.readlink(f"/proc/{tid}/fd/{fd}").startswith(f"/memfd:{_NAME} ")

    def ioctl(self, call: Call) -> int:
        """A call of the core on the device."""
        fd, request, at = call.arguments[:3]
        # each open file has its own benchmark
        key = str(os.stat(f"/proc/{call.tid}/fd/{fd}").st_ino)
        if request >> 8 & 0xFF != 6:
            raise OSError(errno.ENOSYS, "another type")
        if request & 0xFF == 0x10 and request >> 16 & 0x3FFF == _ORDER.size:
            order = Order(*_ORDER.unpack(peek(call.tid, at, _ORDER.size)))
            self.orders.append(order)
            if self.start:
                raise OSError(self.start, "start")
            self._running[key] = order
            return 0
        if request & 0xFF == 0x11 and request >> 16 & 0x3FFF == _END.size:
            if key not in self._running:
                raise OSError(errno.EINVAL, "not running")
            if self.end:
                raise OSError(self.end, "end")
            self._give(call.tid, at, self._running.pop(key))
            return 0
        raise OSError(errno.ENOSYS, "not played")

    def _give(self, tid: int, at: int, order: Order) -> None:
        values = self.samples.get(order.mode, ())
        cells = [0] * order.cells
        for value in values:
            cells[min(abs(value) // order.cell_ns, order.cells - 1)] += 1
        poke(tid, at, struct.pack(
            "=5i", sum(values) // max(len(values), 1), min(values, default=10**7),
            max(values, default=-(10**7)), self.overruns, 1,
        ))  # fmt: skip
        for place in _END.unpack(peek(tid, at, _END.size))[5:]:
            poke(tid, place, struct.pack(f"={order.cells}i", *cells))
        self.ended.append(order.mode)
