# SPDX-License-Identifier: Apache-2.0
"""A Cobalt core for programs on a kernel without one.

The program runs unchanged below a seccomp filter. This process gets each call of the core (bit 28
of the number is set), and each look at ``/proc/xenomai``, and answers in the kernel's place.
tests/data/cobalt_calls.tsv has the answers of a real kernel. A test compares both.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from fake_bench import BENCH_DEVICE, FakeBench
from fake_calls import NEVER, Call, Dropped, Later, peek, poke, text
from fake_module import REQUEST_TYPES, TASK_DEVICE, FakeModule

__all__ = ["REASON_FAULT", "REASON_INVERSION", "REASON_SIGNAL", "REASON_SYSCALL", "FakeCore"]

REASON_SIGNAL: Final = 1
REASON_SYSCALL: Final = 2
REASON_FAULT: Final = 3
REASON_INVERSION: Final = 4
PATIENCE_S: Final = 60.0
FOLDER: Final = "/proc/xenomai"
IPIPE: Final = "/proc/ipipe"
STATE: Final = "/sys/module/xenomai/parameters/state"
GRAVITY: Final = "clock/coreclk"

_HEAP: Final = 256 * 1024
_WINDOW: Final = 64  # where the first task has its window in the shared heap, 16 bytes each
_SEM_MAGIC: Final = 0x86860707
_SEM_SHARED: Final = 4
_STAT: Final = 0x80080A00  # MEMDEV_RTIOC_STAT
_BIT: Final = 0x10000000
_FEATURES: Final = 0xA4000000  # smp, fastsynch, prioceiling
_WARN: Final = 0x4000
_MARKER: Final = 0xFCCF0000
_ALARM: Final = int(signal.SIGALRM)
_SI_QUEUE: Final = -1
_SI_TIMER: Final = -2
_ABSOLUTE: Final = 1
# A tick of Linux: how long a yield waits for it.
_TICK_NS: Final = int(1e9 * time.clock_getres(6))  # CLOCK_MONOTONIC_COARSE

# include/uapi/linux/seccomp.h
_RECEIVE: Final = 0xC0502100
_SEND: Final = 0xC0182101
_ADD_FD: Final = 0x40182103
_CONTINUE: Final = 1
_NOTIFICATION: Final = struct.Struct("=QIIiIQ6Q")

# Calls of Linux that look at files, and which of their arguments is the path.
_FILES: Final[Mapping[str, Mapping[int, tuple[str, int]]]] = {
    "x86_64": {
        2: ("open", 0),
        21: ("access", 0),
        257: ("open", 1),
        269: ("access", 1),
        439: ("access", 1),
    },
    "aarch64": {48: ("access", 1), 56: ("open", 1), 439: ("access", 1)},
}
_IOCTL: Final = {"x86_64": 16, "aarch64": 29}
_QUEUE_SIGNAL: Final = {"x86_64": 297, "aarch64": 240}
_SECCOMP: Final = {"x86_64": 317, "aarch64": 277}

# Puts the filter on, hands its listener over and becomes the program.
_LAUNCH: Final = """
import ctypes, os, socket, sys
sock = socket.socket(fileno=int(sys.argv[1]))
code = bytes.fromhex(sys.argv[3])
class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_char_p)]
libc = ctypes.CDLL(None, use_errno=True)
program = Program(len(code) // 8, code)
libc.prctl(38, 1, 0, 0, 0)
listener = libc.syscall(int(sys.argv[2]), 1, 8, ctypes.byref(program))
if listener < 0:
    os.write(2, b"seccomp: " + os.strerror(ctypes.get_errno()).encode())
    os._exit(99)
socket.send_fds(sock, [b"."], [listener])
os.close(listener)
sock.close()
os.execv(sys.argv[4], sys.argv[4:])
"""


def _filter() -> bytes:
    """Notify of the core's calls, of those that look at files, and of ioctl() on the module and a
    GPIO chip. Allow all others."""
    numbers = sorted(_FILES[platform.machine()])
    request = 24  # its second argument
    code = [(0x20, 0, 0, 0)]  # load the number
    code.append((0x45, len(numbers) + 6, 0, _BIT))
    code += [(0x15, len(numbers) + 5 - at, 0, number) for at, number in enumerate(numbers)]
    code.append((0x15, 0, 4, _IOCTL[platform.machine()]))
    code.append((0x20, 0, 0, request))
    code.append((0x54, 0, 0, 0xFF00))
    code += [(0x15, 2 - at, 0, kind << 8) for at, kind in enumerate(REQUEST_TYPES)]
    code.append((0x06, 0, 0, 0x7FFF0000))
    code.append((0x06, 0, 0, 0x7FC00000))
    return b"".join(struct.pack("=HBBI", *one) for one in code)


@dataclass
class _Task:
    """A thread that the core has taken over. ``runs``: how often it got the CPU."""

    priority: int
    switches: int = 0
    runs: int = 0
    faults: int = 0
    calls: int = 0
    warns: bool = False
    sleeps: int = 0


@dataclass
class _Timer:
    owner: int
    due_ns: int = 0  # 0: not started
    interval_ns: int = 0

    def expirations(self, now_ns: int) -> int:
        """How often it has expired until now, which is then forgotten."""
        if not self.due_ns or now_ns < self.due_ns:
            return 0
        if not self.interval_ns:
            self.due_ns = 0
            return 1
        count = 1 + (now_ns - self.due_ns) // self.interval_ns
        self.due_ns += count * self.interval_ns
        return count


@dataclass
class _Waiter:
    call: Call
    priority: int


@dataclass
class _Sem:
    """A semaphore. The program changes its value, too."""

    value: int  # address in this process
    waiters: list[_Waiter] = field(default_factory=list)


@dataclass
class FakeCore:
    """What the core is like: ``refusal`` is the error (errno) with which it refuses a process,
    ``missing`` the features that it lacks. ``leave`` makes a task leave the core in its sleep
    with that number, for the reason ``reason``; ``faults`` page faults are counted with it. Its
    clock is ``ahead_ns`` ahead of that of Linux. The reading of that number, ``warp``, is 1 s
    too early. An interrupt cuts each yield of ``interrupted`` short: it has switched already, so
    the core finds nothing to switch to in the task's turn, and lets it sleep for a tick. The
    yield of number ``unfair`` returns before an earlier one. With the ``state`` "stopped" from
    the boot on, a process that opens the file of its clock is killed. With ``ipipe`` it runs on
    the I-pipe. Without ``counts`` (CONFIG_XENO_OPT_STATS) each of its counters is 0. A signal
    makes a task leave the core ``mayday`` times without a report, as if it had run. A sleep ends
    at once with the error ``sleepless``. The first timerfd is set ``late_ns`` after its due time.
    It has room for ``tasks`` tasks, and may have the ``module`` rtgauge and the
    driver ``bench``."""

    folder: Path
    revision: int = 19
    refusal: int = 0
    missing: str = ""
    leave: int = 0
    reason: int = REASON_SYSCALL
    faults: int = 0
    ahead_ns: int = 0
    warp: int = 0
    state: str = "enabled"
    interrupted: Container[int] = ()
    unfair: int = 0
    gravity: str = "0i 2000k 2000u"
    tasks: int = 512
    ipipe: bool = False
    counts: bool = True
    mayday: int = 0
    sleepless: int = 0
    late_ns: int = 0
    module: FakeModule | None = None
    bench: FakeBench | None = None
    calls: list[int] = field(default_factory=list)
    _tasks: dict[int, _Task] = field(default_factory=dict)
    _timers: dict[int, _Timer] = field(default_factory=dict)
    _waiting: dict[int, tuple[Call, Later]] = field(default_factory=dict)
    _heaps: dict[str, mmap.mmap] = field(default_factory=dict)
    _taken: dict[str, int] = field(default_factory=dict)
    _sems: dict[int, _Sem] = field(default_factory=dict)
    _yielded: list[Call] = field(default_factory=list)
    _cut: set[int] = field(default_factory=set)  # the tasks among them that then wait
    _yields: int = 0
    _made: int = 0
    _bound: bool = False

    def __post_init__(self) -> None:
        if platform.machine() not in _FILES:
            pytest.skip(f"the fake core does not know the calls of {platform.machine()}")
        irq, kernel, user = (word[:-1] for word in self.gravity.split())
        path = self.folder / GRAVITY
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.counts:
            (self.folder / "sched").mkdir()
            (self.folder / "sched" / "stat").touch()
        (self.folder / "state").write_text(f"{self.state}\n")
        path.write_text(
            f"gravity: irq={irq} kernel={kernel} user={user}\ndevices: timer=lapic\nstatus: on\n"
        )

    @property
    def gravity_now(self) -> str:
        """The gravity as it was last written, or the first line of the file."""
        return (self.folder / GRAVITY).read_text().splitlines()[0]

    def start(
        self, words: Sequence[str | Path]
    ) -> tuple[subprocess.Popen[bytes], threading.Thread]:
        """Start a program on the core. The thread ends when its last process has ended."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-c", _LAUNCH, str(theirs.fileno())),
                    *(str(_SECCOMP[platform.machine()]), _filter().hex()),
                    *map(str, words),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            theirs.close()
            ours.settimeout(PATIENCE_S)
            handed, fds, _, _ = socket.recv_fds(ours, 1, 1)
        if not handed:
            _, said = process.communicate(timeout=PATIENCE_S)
            pytest.skip(f"no user notification of seccomp here: {said.decode()}")
        thread = threading.Thread(target=self._serve, args=(fds[0],), daemon=True)
        thread.start()
        return process, thread

    def run(self, words: Sequence[str | Path]) -> subprocess.CompletedProcess[bytes]:
        """Run a program on the core to its end, and to that of all its processes."""
        process, thread = self.start(words)
        out, said = process.communicate(timeout=PATIENCE_S)
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "processes of the program are left"
        return subprocess.CompletedProcess(process.args, process.returncode, out, said)

    # --- the listener ---

    def _serve(self, listener: int) -> None:
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        while True:
            now_ns = time.monotonic_ns()
            for tid in [one for one, (_, later) in self._waiting.items() if later.due_ns <= now_ns]:
                call, later = self._waiting.pop(tid)
                self._tasks[tid].runs += 1
                self._answer(listener, call, later.again)
            if self.module:
                self.module.turn()
            due_ns = min((later.due_ns for _, later in self._waiting.values()), default=NEVER)
            due_ns = min(due_ns, self.module.due_ns) if self.module else due_ns
            # poll() takes no more milliseconds than an int holds, and some wait for ever
            wait_ms = min(max(0, due_ns - time.monotonic_ns()) / 1e6, 1000 * PATIENCE_S)
            events = poll.poll(wait_ms)
            if events and not events[0][1] & select.POLLIN:
                break
            if events:
                self._receive(listener)
            self._switch(listener)
        if self.module:
            self.module.close()
        os.close(listener)

    def _receive(self, listener: int) -> None:
        buffer = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, buffer)
        except OSError:  # the caller has ended, or a signal has ended the call
            return
        number, tid, _, nr, _, _, *arguments = _NOTIFICATION.unpack(bytes(buffer))
        call = Call(number, tid, nr, tuple(arguments))
        if nr & _BIT:
            # a task that was asleep calls again: a signal has woken it, under Linux
            woken = self._waiting.pop(tid, None) is not None
            if woken and self.mayday:
                self._tasks[tid].switches += self.mayday
            elif woken and self._leave(tid, REASON_SIGNAL):
                return
            self.calls.append(nr & ~_BIT)
            if tid in self._tasks:
                self._tasks[tid].calls += 1
            self._answer(listener, call, lambda: self._core(listener, call))
        elif nr == _IOCTL[platform.machine()]:
            self._answer_linux(listener, call)
        else:
            self._answer_file(listener, call)

    def _answer(self, listener: int, call: Call, work: Callable[[], int]) -> None:
        try:
            value = work()
        except Later as later:
            self._waiting[call.tid] = (call, later)
            return
        except Dropped:
            return
        except OSError as error:
            value = -(error.errno or errno.EFAULT)
        self._send(listener, call, value)

    def _send(self, listener: int, call: Call, value: int, flags: int = 0) -> None:
        answer = struct.pack("=QqiI", call.id, max(value, 0), min(value, 0), flags)
        try:
            fcntl.ioctl(listener, _SEND, answer)
        except OSError as error:
            if error.errno != errno.ENOENT:  # the caller does not wait any more
                raise

    def _leave(self, tid: int, reason: int) -> bool:
        """The task leaves the core in a call. Whether a signal reports it, after which the task
        makes the call again."""
        task = self._tasks[tid]
        task.switches += 1
        if task.warns:
            info = struct.pack("=iiiiiiI", int(signal.SIGXCPU), 0, _SI_QUEUE, 0, 0, 0,
                               _MARKER | reason).ljust(128, b"\0")  # fmt: skip
            ctypes.CDLL(None).syscall(
                _QUEUE_SIGNAL[platform.machine()], _process_of(tid), tid, int(signal.SIGXCPU), info
            )
        return task.warns

    # --- scheduling ---

    def _runs(self, tid: int) -> bool:
        return tid not in self._waiting and Path(f"/proc/{tid}").exists()

    def _wake(self, listener: int, call: Call) -> None:
        """The task gets the CPU."""
        self._waiting.pop(call.tid, None)
        self._tasks[call.tid].runs += 1
        self._send(listener, call, 0)

    def _yield(self, call: Call) -> int:
        """To the tasks that are ready, all of one priority. Without any: to Linux, for a tick."""
        self._yields += 1
        if self._yielded or any(self._runs(tid) for tid in self._tasks if tid != call.tid):
            self._yielded.append(call)
            if self._yields in self.interrupted:
                self._cut.add(call.tid)
            raise Later(NEVER, lambda: 0)
        raise Later(time.monotonic_ns() + _TICK_NS, lambda: 0)

    def _switch(self, listener: int) -> None:
        """If no task runs, to the one that yielded first."""
        if self._yielded and not any(self._runs(tid) for tid in self._tasks):
            last = len(self._yielded) - 1
            call = self._yielded.pop(last if self._yields == self.unfair else 0)
            if call.tid not in self._cut:
                self._wake(listener, call)
                return
            self._cut.remove(call.tid)
            self._tasks[call.tid].runs += 1
            self._waiting[call.tid] = (call, Later(time.monotonic_ns() + _TICK_NS, lambda: 0))
            self._switch(listener)

    # --- files ---

    def _answer_file(self, listener: int, call: Call) -> None:
        how, where = _FILES[platform.machine()][call.number]
        path = text(call.tid, call.arguments[where])
        own = self._own(path)
        if own is None:
            self._send(listener, call, 0, _CONTINUE)
        elif how == "access" or not own.exists():
            self._send(listener, call, 0 if own.exists() else -errno.ENOENT)
        else:
            self._answer(
                listener, call, lambda: self._open_file(listener, call, path, own, where + 1)
            )

    def _own(self, path: str) -> Path | None:
        """The file in the place of this one; None: that of this kernel."""
        if path == STATE:
            return self.folder / "state"
        if path == IPIPE:
            return self.folder / ("" if self.ipipe else "ipipe")
        if path == FOLDER or path.startswith(FOLDER + "/"):
            return self.folder / path[len(FOLDER) + 1 :]
        if self.bench and (found := self.bench.file(path)):
            return found
        return self.module.file(path) if self.module else None

    def _open_file(self, listener: int, call: Call, path: str, own: Path, flags: int) -> int:
        if self.state == "stopped" and path == f"{FOLDER}/{GRAVITY}":
            os.kill(call.tid, signal.SIGKILL)
            raise Dropped
        if self.module and not path.startswith(FOLDER) and path != STATE:
            fd = self.module.open(path, call.arguments[flags])
        else:
            fd = os.open(own, call.arguments[flags] & os.O_ACCMODE)
        return self._give_away(listener, call, fd)

    def _answer_linux(self, listener: int, call: Call) -> None:
        def work() -> int:
            found = self.module.ioctl(call) if self.module else None
            if found is None:
                self._send(listener, call, 0, _CONTINUE)
                raise Dropped
            return found

        self._answer(listener, call, work)

    def _give_away(self, listener: int, call: Call, fd: int) -> int:
        try:
            return self._give(listener, call, fd)
        finally:
            os.close(fd)

    def _give(self, listener: int, call: Call, fd: int) -> int:
        """The number under which the caller has the file from now on."""
        request = struct.pack("=QIIII", call.id, 0, fd, 0, os.O_CLOEXEC)
        return int(fcntl.ioctl(listener, _ADD_FD, bytearray(request)))

    # --- calls of the core ---

    def _core(self, listener: int, call: Call) -> int:
        number, (a, b, c, _, e, _) = call.number & ~_BIT, call.arguments
        if number == 0:
            return self._bind(call.tid, a)
        if not self._bound:
            return -errno.EPERM
        if number == 57:
            given = self._give_away(listener, call, os.memfd_create("timerfd"))
            self._timers[given + 1000] = _Timer(call.tid)
            return given
        known: Mapping[int, Callable[[], int]] = {
            1: lambda: self._create(call.tid, c, e),
            10: lambda: self._sem_init(call.tid, a, b, c),
            11: lambda: self._sem_destroy(call.tid, a),
            12: lambda: self._sem_post(listener, call.tid, a),
            13: lambda: self._sem_wait(call, a, 0),
            19: lambda: self._sem_wait(call, a, b),
            # Linux maps and closes: a supervisor cannot
            77: lambda: self._open(listener, call, text(call.tid, a)),
            79: lambda: -errno.ENOSYS,
            80: lambda: self._ioctl(call),
            85: lambda: -errno.ENOSYS,
            92: lambda: self._handle(call.tid, a),
            3: lambda: self._set_mode(call.tid, a, b, c),
            8: lambda: self._priority(call.tid, a, b, c),
            9: lambda: self._status(call.tid, a, b),
            23: lambda: self._read_clock(call.tid, b),
            25: lambda: self._sleep(call.tid, a, b, c),
            47: lambda: self._yield(call),
            52: lambda: self._timer(call.tid, c),
            53: lambda: self._forget(a),
            54: lambda: self._set(a, b & _ABSOLUTE, call.tid, c, at_once=True),
            58: lambda: self._set(a + 1000, b & _ABSOLUTE, call.tid, c, at_once=False),
            61: lambda: self._wait_signal(call.tid, b),
            81: lambda: self._read(call.tid, a, b),
        }
        # Xenomai 3.3 has 64-bit times in calls of their own
        number = {116: 54, 118: 58}.get(number, number) if self.revision >= 19 else number
        if number not in known:
            return 2**32 - errno.ENOSYS  # as the kernel's table has functions of an int
        if number not in (1, 8, 9, 10, 11, 12, 77, 79, 80, 85) and call.tid not in self._tasks:
            return -errno.EPERM
        return known[number]()

    def _bind(self, tid: int, at: int) -> int:
        if self.refusal in (errno.EAGAIN, errno.ENOSYS):
            return -self.refusal
        wanted, revision = struct.unpack("=II", peek(tid, at, 8))
        poke(tid, at + 20, struct.pack(
            "=IIIII", self.revision, _FEATURES, 0, wanted, bool(self.missing)
        ))  # fmt: skip
        for place, name in enumerate(("smp fastsynch prioceiling", "", "smp", self.missing)):
            poke(tid, at + 40 + 64 * place, name.encode() + b"\0")
        if self.missing:
            return -errno.EINVAL
        if revision != self.revision:
            return -errno.ENOEXEC
        if self.refusal:
            return -self.refusal
        self._bound = True
        return 0

    def _create(self, tid: int, parameter: int, window: int) -> int:
        if tid in self._tasks:
            return -errno.EBUSY
        if len(self._tasks) >= self.tasks:
            return -errno.EAGAIN
        self._tasks[tid] = _Task(struct.unpack("=i", peek(tid, parameter, 4))[0])
        poke(tid, window, struct.pack("=I", _WINDOW + 16 * len(self._tasks)))
        return 0

    def _handle(self, tid: int, at: int) -> int:
        poke(tid, at, struct.pack("=I", list(self._tasks).index(tid) + 1))
        return 0

    # --- heaps, and what is in them ---

    def _open(self, listener: int, call: Call, path: str) -> int:
        name = path.rpartition("-")[2]
        if self.module and path == TASK_DEVICE:
            return self._give_away(listener, call, self.module.open_task())
        if self.bench and path == BENCH_DEVICE:
            return self._give_away(listener, call, self.bench.open())
        if path not in ("/dev/rtdm/memdev-private", "/dev/rtdm/memdev-shared"):
            return -errno.ENODEV
        with open(os.memfd_create(name), "r+b", closefd=True) as fd:
            os.ftruncate(fd.fileno(), _HEAP)
            self._heaps[name] = mmap.mmap(fd.fileno(), _HEAP)
            self._taken[name] = 4096
            return self._give(listener, call, fd.fileno())

    def _ioctl(self, call: Call) -> int:
        fd, request, at = call.arguments[:3]
        if self.module and self.module.is_task(call.tid, fd):
            return self.module.task(call, on_core=call.tid in self._tasks, leave=self._leave)
        if self.bench and self.bench.is_open(call.tid, fd):
            return self.bench.ioctl(call)
        return self._size(call.tid, request, at)

    def _size(self, tid: int, request: int, at: int) -> int:
        if request & 0xFFFFFFFF != _STAT:
            return -errno.EINVAL
        poke(tid, at, struct.pack("=II", _HEAP, _HEAP))
        return 0

    def _sem_init(self, tid: int, at: int, flags: int, value: int) -> int:
        name = "shared" if flags & _SEM_SHARED else "private"
        if self._sem(tid, at) is not None:
            return -errno.EBUSY
        place = self._taken[name]
        self._taken[name] += 8
        struct.pack_into("=iI", self._heaps[name], place, value, flags)
        self._made += 1
        handle = 1000 + self._made
        value_at = ctypes.addressof(ctypes.c_char.from_buffer(self._heaps[name], place))
        self._sems[handle] = _Sem(value_at)
        place = -place if flags & _SEM_SHARED else place
        poke(tid, at, struct.pack("=IiI", _SEM_MAGIC, place, handle))
        return 0

    def _sem(self, tid: int, at: int) -> _Sem | None:
        magic, _, handle = struct.unpack("=IiI", peek(tid, at, 12))
        return self._sems.get(handle) if magic == _SEM_MAGIC else None

    def _sem_destroy(self, tid: int, at: int) -> int:
        if self._sem(tid, at) is None:
            return -errno.EINVAL
        del self._sems[struct.unpack("=IiI", peek(tid, at, 12))[2]]
        poke(tid, at, struct.pack("=I", 0))
        return 0

    def _sem_post(self, listener: int, tid: int, at: int) -> int:
        sem = self._sem(tid, at)
        if sem is None:
            return -errno.EINVAL
        if _add(sem.value, 1) < 0:
            first = max(sem.waiters, key=lambda one: one.priority)
            sem.waiters.remove(first)
            self._wake(listener, first.call)
        return 0

    def _sem_wait(self, call: Call, at: int, until: int) -> int:
        """The highest of the waiters, and of equal ones the first, is the next."""
        sem = self._sem(call.tid, at)
        if sem is None:
            return -errno.EINVAL
        if _add(sem.value, -1) > 0:
            return 0
        due_ns = NEVER
        if until:
            seconds, rest = struct.unpack("=qq", peek(call.tid, until, 16))
            due_ns = time.monotonic_ns() + seconds * 1_000_000_000 + rest - time.time_ns()
        waiter = _Waiter(call, self._tasks[call.tid].priority)
        sem.waiters.append(waiter)

        def give_up() -> int:
            sem.waiters.remove(waiter)
            _add(sem.value, 1)
            return -errno.ETIMEDOUT

        raise Later(due_ns, give_up)

    def _set_mode(self, tid: int, clear: int, put: int, old: int) -> int:
        if (clear | put) & ~(_WARN | 0x101000):
            return -errno.EINVAL
        task = self._tasks[tid]
        if old:
            poke(tid, old, struct.pack("=i", _WARN if task.warns else 0))
        task.warns = bool(put & _WARN) or (task.warns and not clear & _WARN)
        return 0

    def _read_clock(self, tid: int, at: int) -> int:
        early_ns = 10**9 if self.calls.count(23) == self.warp else 0
        now_ns = time.monotonic_ns() + self.ahead_ns - early_ns
        poke(tid, at, struct.pack("=qq", *divmod(now_ns, 10**9)))
        return 0

    def _priority(self, tid: int, of: int, policy: int, parameter: int) -> int:
        if self.module and of == self.module.thread and self.module.setup:
            task: _Task | None = _Task(self.module.setup.thread)
        else:
            task = self._tasks.get(of)
        if task is None:
            return -errno.ESRCH
        poke(tid, policy, struct.pack("=i", 1))
        poke(tid, parameter, struct.pack("=i52x", task.priority))
        return 0

    def _status(self, tid: int, of: int, at: int) -> int:
        task = self._tasks.get(of or tid)
        if task is None:
            return -(errno.ESRCH if of else errno.EPERM)
        counted = (task.switches, task.runs, task.calls, 0, task.faults)
        poke(tid, at, struct.pack(
            "=QQQQQIIii32s32s", 0, 0, *(counted if self.counts else (0,) * 5), 0, task.priority,
            b"fake", b"cobalt",
        ))  # fmt: skip
        return 0

    def _sleep(self, tid: int, clock: int, absolute: int, at: int) -> int:
        if self.sleepless:
            return -self.sleepless
        seconds, rest = struct.unpack("=qq", peek(tid, at, 16))
        if not 0 <= rest < 1_000_000_000:
            return -errno.EINVAL
        if clock not in (time.CLOCK_MONOTONIC, time.CLOCK_REALTIME):
            return -errno.EOPNOTSUPP
        due_ns = seconds * 1_000_000_000 + rest
        due_ns += 0 if absolute else time.monotonic_ns()
        task = self._tasks[tid]
        task.sleeps += 1
        if task.sleeps == self.leave:
            task.faults += self.faults
            if self._leave(tid, self.reason):
                raise Dropped
        if due_ns <= time.monotonic_ns():
            return 0
        raise Later(due_ns, lambda: 0)

    def _timer(self, tid: int, at: int) -> int:
        number = len([one for one in self._timers if one < 1000])
        self._timers[number] = _Timer(tid)
        poke(tid, at, struct.pack("=i", number))
        return 0

    def _forget(self, number: int) -> int:
        return 0 if self._timers.pop(number, None) else -errno.EINVAL

    def _set(self, number: int, absolute: int, tid: int, at: int, *, at_once: bool) -> int:
        timer = self._timers.get(number)
        if timer is None:
            return -errno.EINVAL
        values = struct.unpack("=4q", peek(tid, at, 32))
        timer.interval_ns = values[0] * 1_000_000_000 + values[1]
        timer.due_ns = values[2] * 1_000_000_000 + values[3]
        if timer.due_ns and not absolute:
            timer.due_ns += time.monotonic_ns()
        if self.late_ns and not at_once:
            time.sleep(max(0, timer.due_ns + self.late_ns - time.monotonic_ns()) / 1e9)
            self.late_ns = 0
        if timer.due_ns and timer.due_ns <= time.monotonic_ns() and not at_once:
            timer.due_ns = 0
            return -errno.ETIMEDOUT
        return 0

    def _wait_signal(self, tid: int, info: int) -> int:
        def again() -> int:
            return self._wait_signal(tid, info)

        own = [one for number, one in self._timers.items() if number < 1000 and one.owner == tid]
        for timer in own:
            count = timer.expirations(time.monotonic_ns())
            if count:
                poke(tid, info, struct.pack("=iii4xiiQ", _ALARM, 0, _SI_TIMER, 0, count - 1, 0))
                return _ALARM
        raise Later(min((one.due_ns for one in own if one.due_ns), default=NEVER), again)

    def _read(self, tid: int, fd: int, at: int) -> int:
        timer = self._timers.get(fd + 1000)
        if timer is None:
            return -errno.EADV
        count = timer.expirations(time.monotonic_ns())
        if not count:
            raise Later(timer.due_ns or NEVER, lambda: self._read(tid, fd, at))
        poke(tid, at, struct.pack("=Q", count))
        return 8


def _add(address: int, more: int) -> int:
    """Add to a number that the program changes, too. What it was before."""
    add = ctypes.CDLL("libatomic.so.1")["__atomic_fetch_add_4"]
    add.argtypes, add.restype = (ctypes.c_void_p, ctypes.c_int32, ctypes.c_int), ctypes.c_int32
    return int(add(address, more, 5))


def _process_of(tid: int) -> int:
    status = Path(f"/proc/{tid}/status").read_text()
    return int(status.split("Tgid:")[1].split()[0])
