# SPDX-License-Identifier: Apache-2.0
"""The module rtgauge and a GPIO chip, on the fake core (fake_core.py).

It answers the calls by which ``response`` uses them on Cobalt: those of Linux on the chip and on
``/dev/rtgauge``, and those of the core on ``/dev/rtdm/rtgauge``. kmod/rtgauge.h defines them. Edges
come from a list, so only the times of a task of user space are measured. Those of a handler and of
a kernel thread are ENTRY_TO_THREAD_NS and ENTRY_TO_END_NS.
"""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fake_calls import NEVER, Call, Dropped, Later, peek, poke

__all__ = [
    "CHIP",
    "ENTRY_TO_END_NS",
    "ENTRY_TO_THREAD_NS",
    "REQUEST_TYPES",
    "STORM",
    "TASK_DEVICE",
    "Edge",
    "FakeModule",
    "Setup",
]

CHIP: Final = "fake-chip"
TASK_DEVICE: Final = "/dev/rtdm/rtgauge"
ENTRY_TO_THREAD_NS: Final = 1300
ENTRY_TO_END_NS: Final = 2100
STORM: Final = 4  # RTGAUGE_FAILURE_STORM
REQUEST_TYPES: Final = (0xB4, 0xD7)  # of the Linux calls: chip, module

_FOLDER: Final = "/dev"
_SESSION: Final = "/dev/rtgauge"
_TASK: Final = "rtgauge-task"
_LINES: Final = 4
_GAP_NS: Final = 1_000_000
_QUIET_NS: Final = 300_000_000  # from the start to the first edge of a handler
_LEVEL: Final = 0x8
_REPEATED: Final = 0x10
_KERNEL: Final = 2
_USER: Final = 4

_CHIP_INFO: Final = struct.Struct("=32s32sI")
_LINE_INFO: Final = struct.Struct("=32s32sIIQ176x")
_INFO: Final = struct.Struct("=4I32s64s")
_SETUP: Final = struct.Struct("=6I3Q32s8I")
_START: Final = struct.Struct("=2Q")
_STATUS: Final = struct.Struct("=2I7Q2I")
_RECORD: Final = struct.Struct("=7Q2I")
_EDGE: Final = struct.Struct("=2Q2I")
_WORD: Final = struct.Struct("=i")
_NOTHING: Final = struct.Struct("")


@dataclass(frozen=True)
class Edge:
    """``lost`` edges came before it. In the call that returns it, a task leaves the core for
    ``reason``."""

    level: int
    lost: int = 0
    reason: int = 0


@dataclass(frozen=True)
class Setup:
    """What the agent asked for in RTGAUGE_SETUP."""

    kind: int
    source: int
    cpu: int
    contexts: int
    flags: int
    room: int
    events: int
    chip: str
    output: int
    input: int
    thread: int
    debounce_us: int
    delay_ns: int
    delay_every: int


@dataclass
class FakeModule:
    """``refusal`` is the error (errno) of RTGAUGE_SETUP, ``attach`` that of RTGAUGE_ATTACH, and
    ``drive`` that of RTGAUGE_DRIVE. After the last edge the session waits, or ends by the error
    ``ends`` of RTGAUGE_TAKE, for the reason ``failure``. The kernel thread has left the core
    ``switches`` times."""

    folder: Path
    edges: Sequence[Edge] = ()
    version: int = 1
    has_core: bool = True
    refusal: int = 0
    attach: int = 0
    drive: int = 0
    ends: int = 0
    failure: int = 0
    switches: int = 0
    setup: Setup | None = None
    asked: list[str] = field(default_factory=list)
    driven: list[int] = field(default_factory=list)
    _session: str = ""
    _ring: int = -1
    _attached: bool = False
    _next: int = 0  # edge
    _left: int = -1
    _due_ns: int = NEVER
    _state: int = 0
    _thread: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        dev = self.folder / "dev"
        (dev / "rtdm").mkdir(parents=True)
        (dev / "gpiochip0").touch()
        (dev / "rtgauge").touch()
        if self.has_core:
            (dev / "rtdm" / "rtgauge").touch()

    # --- files ---

    def file(self, path: str) -> Path | None:
        """The file in the place of this one, None for one that is not the module's."""
        if path == _FOLDER or path.startswith(("/dev/gpiochip", _SESSION, TASK_DEVICE)):
            return self.folder / path[1:]
        return None

    def open(self, path: str, flags: int) -> int:
        """A descriptor of this process for one of its files. Records come through a pipe."""
        if path != _SESSION:
            return os.open(self.folder / path[1:], flags & os.O_ACCMODE)
        end, self._ring = os.pipe()
        os.set_blocking(end, False)
        self._session = os.readlink(f"/proc/self/fd/{end}")
        return end

    def open_task(self) -> int:
        """A descriptor of the device of tasks."""
        if not self.has_core:
            raise OSError(errno.ENODEV, TASK_DEVICE)
        return os.memfd_create(_TASK)

    # --- Linux calls ---

    def ioctl(self, call: Call) -> int | None:
        """None: the file is not one of the module's."""
        fd, request, at = call.arguments[:3]
        name = os.readlink(f"/proc/{call.tid}/fd/{fd}")
        if name == str(self.folder / "dev" / "gpiochip0"):
            return self._chip(call.tid, request, at)
        return self._linux(call.tid, request, at) if name == self._session else None

    def _chip(self, tid: int, request: int, at: int) -> int:
        if request & 0xFF == 1:
            _sized(request, _CHIP_INFO)
            poke(tid, at, _CHIP_INFO.pack(b"gpiochip0", CHIP.encode(), _LINES))
        elif request & 0xFF == 5:
            _sized(request, _LINE_INFO)
            offset = struct.unpack("=I", peek(tid, at + 64, 4))[0]
            poke(tid, at, _LINE_INFO.pack(f"line-{offset}".encode(), b"", offset, 0, 0))
        else:
            raise OSError(errno.ENOTTY, "not played")
        return 0

    def _linux(self, tid: int, request: int, at: int) -> int:
        calls: dict[int, tuple[str, struct.Struct, Callable[[int, int], None]]] = {
            0: ("info", _INFO, self._info),
            2: ("setup", _SETUP, self._set_up),
            3: ("start", _START, self._start),
            4: ("stop", _NOTHING, self._stop),
            6: ("status", _STATUS, self._status),
        }
        if request & 0xFF not in calls:
            raise OSError(errno.ENOTTY, "not played")
        name, size, work = calls[request & 0xFF]
        _sized(request, size)
        self.asked.append(name)
        work(tid, at)
        return 0

    def _info(self, tid: int, at: int) -> None:
        poke(tid, at, _INFO.pack(self.version, 6, 131072, 0x3F, b"fake", b"fake"))

    def _set_up(self, tid: int, at: int) -> None:
        (kind, source, cpu, contexts, flags, room, _, events, _, chip, output, line, thread, _,
         debounce_us, delay_ns, every, _) = _SETUP.unpack(peek(tid, at, _SETUP.size))  # fmt: skip
        self.setup = Setup(kind, source, cpu, contexts, flags, room, events,
                           chip.split(b"\0")[0].decode(), output, line, thread, debounce_us,
                           delay_ns, every)  # fmt: skip
        if self.refusal:
            raise OSError(self.refusal, "the set-up is refused")
        self._state = 1
        if contexts == _KERNEL:
            self._thread = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
            os.sched_setaffinity(self._thread.pid, {cpu})
            poke(tid, at + 88, struct.pack("=I", self._thread.pid))

    @property
    def answered(self) -> int:
        """Edges that were given to the agent."""
        return self._next

    @property
    def thread(self) -> int:
        """The process in the place of the kernel thread; 0: there is none."""
        return self._thread.pid if self._thread else 0

    def _start(self, tid: int, at: int) -> None:
        if self._state != 1:
            raise OSError(errno.EBUSY, "not set up")
        self._state = 2
        poke(tid, at, struct.pack("=Q", time.monotonic_ns()))
        if self.setup and self.setup.contexts != _USER:
            self._due_ns = time.monotonic_ns() + _QUIET_NS

    def _stop(self, _tid: int, _at: int) -> None:
        self._end(4)

    def _status(self, tid: int, at: int) -> None:
        poke(tid, at, _STATUS.pack(
            self._state, self.failure if self._state == 5 else 0, self._next, self._repeated(),
            sum(one.lost for one in self.edges[: self._next]), 0, 0, 0, 0, self.switches, 0,
        ))  # fmt: skip

    def _index(self) -> int:
        """Number of the next edge; those that are lost have numbers, too."""
        return self._next + sum(one.lost for one in self.edges[: self._next + 1])

    def _repeated(self) -> int:
        return sum(bool(self._flags(place) & _REPEATED) for place in range(self._next))

    def _flags(self, place: int) -> int:
        level = self.edges[place].level
        before = self.edges[place - 1].level if place else 0
        return (_LEVEL if level else 0) | (_REPEATED if level == before else 0)

    # --- edges of a handler and a kernel thread ---

    @property
    def due_ns(self) -> int:
        return self._due_ns

    def turn(self) -> None:
        """Write the record of an edge that is due."""
        now_ns = time.monotonic_ns()
        if self._due_ns > now_ns:
            return
        if self._next == len(self.edges):
            self._due_ns = NEVER
            if self.failure:
                self._end(5)
            return
        thread = bool(self.setup and self.setup.contexts == _KERNEL)
        os.write(self._ring, _RECORD.pack(
            self._index(), 0, 0, now_ns, now_ns + ENTRY_TO_END_NS, 0,
            now_ns + ENTRY_TO_THREAD_NS if thread else 0, 0, self._flags(self._next),
        ))  # fmt: skip
        self._next += 1
        self._due_ns = now_ns + _GAP_NS
        if self.setup and self._next == self.setup.events:
            self._end(3)

    def _end(self, state: int) -> None:
        """No more events; a reader finds the end."""
        if self._state not in (1, 2):
            return
        self._state = state
        self._due_ns = NEVER
        self.close()

    def close(self) -> None:
        """Give back what the session has."""
        if self._ring >= 0:
            os.close(self._ring)
            self._ring = -1
        if self._thread:
            self._thread.kill()
            self._thread.wait()
            self._thread = None

    # --- calls of the core ---

    def is_task(self, tid: int, fd: int) -> bool:
        """Whether this is an open file of the device of tasks."""
        return os.readlink(f"/proc/{tid}/fd/{fd}").startswith(f"/memfd:{_TASK} ")

    def task(self, call: Call, *, on_core: bool, leave: Callable[[int, int], bool]) -> int:
        """A call of the core on the device of tasks. ``leave`` takes a task from the core, and says
        whether the task makes the call again."""
        _, request, at = call.arguments[:3]
        if request & 0xFF == 0x40 and not on_core:
            _sized(request, _WORD)
            return self._attach(call.tid, _WORD.unpack(peek(call.tid, at, 4))[0])
        if not on_core:
            raise OSError(errno.ENOTTY, "not a task of the core")
        if not self._attached:
            raise OSError(errno.EBADF, "not attached")
        if request & 0xFF == 0x41:
            _sized(request, _EDGE)
            return self._take(call, leave)
        _sized(request, _WORD)
        if self.drive:
            raise OSError(self.drive, "the output")
        self.driven.append(_WORD.unpack(peek(call.tid, at, 4))[0])
        return 0

    def _attach(self, tid: int, fd: int) -> int:
        self.asked.append("attach")
        if self.attach:
            raise OSError(self.attach, "attach")
        if os.readlink(f"/proc/{tid}/fd/{fd}") != self._session:
            raise OSError(errno.EBADF, "not a session")
        if not self._state or not self.setup or self.setup.contexts != _USER:
            raise OSError(errno.EINVAL, "another session")
        self._attached = True
        return 0

    def _take(self, call: Call, leave: Callable[[int, int], bool]) -> int:
        if self._next == len(self.edges):
            if not self.ends:
                raise Later(NEVER, lambda: 0)
            self._end(5 if self.failure else 4)
            raise OSError(self.ends, "the session has ended")
        edge = self.edges[self._next]
        if edge.reason and self._left < self._next:
            self._left = self._next
            if leave(call.tid, edge.reason):
                raise Dropped
        raise Later(time.monotonic_ns() + _GAP_NS, lambda: self._give(call, edge))

    def _give(self, call: Call, edge: Edge) -> int:
        entry_ns = time.monotonic_ns()
        flags = self._flags(self._next)
        poke(call.tid, call.arguments[2], _EDGE.pack(self._index(), entry_ns, flags, edge.lost))
        self._next += 1
        return 0


def _sized(request: int, layout: struct.Struct) -> None:
    """A request has the size of its argument in it."""
    if request >> 16 & 0x3FFF != layout.size:
        raise OSError(errno.ENOTTY, "the argument has another size")
