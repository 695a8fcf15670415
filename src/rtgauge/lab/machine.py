# SPDX-License-Identifier: Apache-2.0
"""An emulated board while it runs: a QEMU process, its guest program, and the exchange with it.

Orders and answers use shared memory: ``lab/guest/exchange.h`` has the layout,
``docs/reference/lab.md`` the reasons. The guest writes an answer and then to the pause device. That
is a FIFO, from which the host reads only when the next order is in the memory. In counted mode the
guest writes one byte more than the FIFO takes: QEMU blocks the virtual processor inside that very
instruction, and guest time stands still however long the host takes.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import mmap
import os
import selectors
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rtgauge.errors import TargetError
from rtgauge.home import home
from rtgauge.lab.doorbell import DOORBELL, Doorbell
from rtgauge.lab.lines import Chip, Control, ControlError, Wire, outside_words

__all__ = [
    "MODES",
    "Answer",
    "Limits",
    "Machine",
    "Mode",
    "Output",
    "Setup",
    "consoles_folder",
    "firmware_of",
    "found_program",
    "terminal_words",
    "working_folder",
]

EXCHANGE_BYTES: Final = 8 * 1024 * 1024
MAGIC: Final = 0x47545258
GUEST_MAGIC: Final = 0x47545259
VERSION: Final = 2
SAID_AT: Final = 4096
SAID_MAX: Final = 65536
DATA_AT: Final = SAID_AT + SAID_MAX
DATA_MAX: Final = EXCHANGE_BYTES - DATA_AT
RUN, READ, PUT = 1, 2, 3

_HEAD: Final = struct.Struct("<IIII")  # magic, version, size, fill
_ORDER: Final = struct.Struct("<IQQ")  # order, length, offset: behind the turn
_ANSWER: Final = struct.Struct("<IIIIiIQQqq")
_TURN_AT: Final = 16
_ORDER_AT: Final = 20
_TAKEN_AT: Final = 40
_SEND_AT: Final = 48
_ANSWER_AT: Final = 64
_SHOWN_AT: Final = 120
_OVER: Final = 2**64 - 1  # an answer comes in the place of what was shown

# A program's output is kept in the host's memory as a whole: it has its end.
OUTPUT_MAX: Final = 2 * 1024 * 1024 * 1024
FOLDER: Final = "rtgauge-lab"
FIRMWARE_FOLDERS: Final = (Path("/usr/share/qemu"), Path("/usr/local/share/qemu"))
CONSOLES_KEPT: Final = 20
CONSOLE_MAX: Final = 16 * 1024 * 1024
END_S: Final = 10.0
POLL_S: Final = 0.5

# QEMU ends with the process that started it, however that ends. The signal comes when the starting
# thread ends, so machines are started in threads that live as long as they are used.
#
# Counted time is exact only if QEMU's main loop never runs while the guest's processor is about to
# halt: it would then advance the clock to the next timer before the last instructions are counted
# (docs/decisions/0033-give-qemu-s-main-loop-precedence-on-one-cpu.md). The guest's instructions
# determine when the main loop is woken. On one CPU, and above the thread that executes the guest,
# it has done its work before the guest continues.
_LAUNCH: Final = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
if sys.argv[2]:
    os.sched_setaffinity(0, {int(sys.argv[2])})
    try:
        # the threads that this one starts are ordinary ones
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except PermissionError:
        pass
if int(sys.argv[3]):
    try:
        os.setpriority(os.PRIO_PROCESS, 0, int(sys.argv[3]))
    except PermissionError:
        pass
os.execvp(sys.argv[4], sys.argv[4:])
"""
# A board with lines from outside has to keep up with the log host, whatever else runs here.
_OUTSIDE_NICE: Final = -10
# Machines of one host take its CPUs in turn.
_TURNS: Final = itertools.count(os.getpid())


@dataclass(frozen=True)
class Mode:
    """A way to run a machine. ``pace``: the seconds that one of the guest's may take here."""

    name: str
    arguments: tuple[str, ...]
    counted: bool
    pace: float
    meaning: str


MODES: Final = {
    "counted": Mode(
        "counted",
        ("-icount", "shift=0,sleep=off", "-rtc", "clock=vm,base=2024-01-01"),
        counted=True,
        pace=60.0,
        meaning="time is counted in instructions, without caches, so the figures are not a board's",
    ),
    "plain": Mode(
        "plain",
        ("-rtc", "base=utc"),
        counted=False,
        pace=3.0,
        meaning="real time, shared with other tasks of the host, so the figures are not a board's",
    ),
}


@dataclass(frozen=True)
class Setup:
    """What a machine is made of. ``devices`` are QEMU's arguments that are the board's own; in
    them ``pause`` is the FIFO's character device, ``console`` the console's."""

    name: str
    program: str
    package: str  # Debian's, that holds the program
    devices: tuple[str, ...]
    kernel: Path
    initramfs: Path
    arguments: str  # the kernel's
    mode: Mode
    cpus: int = 1
    memory_mib: int = 512
    seed: int = 1  # of the guest's random numbers in counted mode
    chip: Chip | None = None  # whose lines are wired, or driven from outside
    wires: tuple[Wire, ...] = ()
    outside: bool = False  # lines are driven and seen from outside, at a socket
    plugin: str = ""  # of QEMU, with its arguments
    one_thread: bool = False  # for all CPUs

    @property
    def doorbell(self) -> bool:
        """Whether the lines from outside are those of a doorbell, not of an emulated chip."""
        return self.outside and self.chip == DOORBELL


@dataclass(frozen=True)
class Limits:
    """When a guest counts as hung: seconds of QEMU's processor time, and of the clock. A machine
    that hangs computes; one on a busy host only takes long."""

    boot_cpu_s: float = 90.0
    boot_s: float = 900.0
    order_cpu_s: float = 120.0
    order_s: float = 900.0


@dataclass(frozen=True)
class Answer:
    """The guest's answer to one order."""

    error: int
    code: int
    said: bytes
    total: int
    data: bytes
    began_ns: int
    ended_ns: int


@dataclass(frozen=True)
class Output:
    """A program of the guest that has ended: exit code (negative: a signal), and its output;
    of stderr the first 64 KiB."""

    code: int
    stdout: bytes
    stderr: bytes
    duration_ns: int


def consoles_folder() -> Path:
    """Where the consoles of machines that failed are kept."""
    base = os.environ.get("XDG_STATE_HOME") or str(home() / ".local" / "state")
    return Path(base) / "rtgauge" / "consoles"


def _working_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for one machine, in memory if available."""
    shared = Path("/dev/shm")
    there = os.access(shared, os.W_OK | os.X_OK)
    return working_folder(FOLDER, shared if there else Path(tempfile.gettempdir()))


def working_folder(name: str, parent: Path) -> tempfile.TemporaryDirectory[str]:
    """A temporary folder of this process. First removes those of that name (``rtgauge-…``) that
    killed hosts left behind."""
    for old in parent.glob(f"{name}-[0-9]*-*"):
        owner = old.name.split("-")[2]
        with contextlib.suppress(OSError):
            if not Path(f"/proc/{owner}").exists() and old.stat().st_uid == os.geteuid():
                shutil.rmtree(old)
    return tempfile.TemporaryDirectory(prefix=f"{name}-{os.getpid()}-", dir=parent)


def _launch_words(words: Sequence[str], setup: Setup) -> list[str]:
    """The command that ends when this process does; in counted mode on one CPU."""
    cpus = sorted(os.sched_getaffinity(0))
    cpu = str(cpus[next(_TURNS) % len(cpus)]) if setup.mode.counted else ""
    nice = str(_OUTSIDE_NICE if setup.outside else 0)
    return [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), cpu, nice, *words]


def _common(setup: Setup) -> list[str]:
    """QEMU's arguments for a machine, but for where its devices lead to."""
    accelerator = "tcg,thread=single" if setup.one_thread and setup.cpus > 1 else "tcg"
    return [
        *("-name", setup.name, "-nodefaults", "-no-user-config", "-display", "none"),
        *("-no-reboot", "-accel", accelerator, "-smp", str(setup.cpus)),
        *("-m", str(setup.memory_mib), *setup.mode.arguments, *setup.devices),
        *(("-seed", str(setup.seed)) if setup.mode.counted else ()),
        *("-kernel", str(setup.kernel), "-initrd", str(setup.initramfs)),
        *("-append", setup.arguments),
        *(("-plugin", setup.plugin) if setup.plugin else ()),
    ]


def found_program(program: str, package: str) -> str:
    """Where QEMU is. Raises TargetError, naming its package, if it is not there."""
    found = shutil.which(program)
    if found is None:
        raise TargetError(
            f"the lab's boards need {program}, which is not on this machine",
            f"install it: Debian's package is {package}",
        )
    return found


def firmware_of(program: str, name: str) -> Path | None:
    """A firmware that QEMU brought along; None if it did not."""
    above = Path(program).resolve().parent.parent
    folders = (above / "share" / "qemu", *FIRMWARE_FOLDERS)
    paths = (folder / name for folder in folders if name)
    return next((path for path in paths if path.is_file()), None)


def terminal_words(setup: Setup) -> list[str]:
    """The command for a machine whose console is the terminal; without an exchange, its guest
    program gives a shell."""
    return [
        setup.program,
        *("-chardev", "null,id=pause", "-chardev", "stdio,id=console,mux=on,signal=off"),
        *_common(setup),
    ]


def _noted(number: int, data: Sequence[bytes], offset: int) -> list[str]:
    """An order as text: ``run`` with its words, ``read`` with its offset, or ``put``, which cannot
    be repeated."""
    if number == RUN:
        return ["run", *(os.fsdecode(word) for word in b"".join(data).split(b"\0")[:-1])]
    return ["read", str(offset)] if number == READ else ["put"]


class Machine:
    """A running emulated board. Not to be used by two threads at once."""

    def __init__(self, setup: Setup, limits: Limits | None = None) -> None:
        self.setup = setup
        self.limits = limits or Limits()
        self.console = ""  # of a machine that failed: where its console was put
        self.chip_path = ""  # of QEMU's object, where lines of a chip are outside
        self.doorbell: Doorbell | None = None
        self.orders: list[list[str]] = []  # all so far, for a replay
        self.booting = False  # the guest program has not yet started, and QEMU did not fail
        self._turn = 0
        self._taken = 0
        self._said = b""
        self._process: subprocess.Popen[bytes] | None = None
        self._cleaner = contextlib.ExitStack()

    # --- start and end ---

    def start(self) -> str:
        """Start it, and wait until its guest program is there; gives what that said of itself.

        Raises TargetError, and leaves nothing running.
        """
        try:
            return self._start()
        except BaseException:
            self.close(failed=True)
            raise

    def _start(self) -> str:
        program = found_program(self.setup.program, self.setup.package)
        try:
            self._folder = Path(self._cleaner.enter_context(_working_folder()))
            self._open_exchange()
        except OSError as error:
            raise TargetError(
                f"the emulated board {self.setup.name} cannot be started: its files in /dev/shm or "
                f"{tempfile.gettempdir()} cannot be created: {error.strerror}",
                f"free some space there: each board needs {EXCHANGE_BYTES >> 20} MiB",
            ) from None
        control = self._open_control()
        self.doorbell = self._open_doorbell()
        inherited = [one for one in (control, self.doorbell) if one is not None]
        words = [program, *self._arguments()]
        words += [word for one in inherited for word in one.arguments()]
        try:
            with open(self._folder / "qemu.log", "wb") as log:
                self._process = subprocess.Popen(
                    _launch_words(words, self.setup),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=[one.descriptor for one in inherited],
                )
        except OSError as error:
            raise TargetError(
                f"QEMU cannot be started: {error.strerror}",
                f"check that '{program} --version' works. The Debian package {self.setup.package} "
                "contains it",
            ) from None
        if self.doorbell is not None:
            self.doorbell.started()
        if control is not None and self.setup.chip is not None:
            try:
                self.chip_path = control.connect(self.setup.wires, self.setup.chip)
            except ControlError as error:
                raise self._failure(
                    f"its lines cannot be wired: {error}{self._last_words()}"
                ) from None
        self._pidfd = os.pidfd_open(self._process.pid)
        self._cleaner.callback(os.close, self._pidfd)
        self._selector = self._cleaner.enter_context(selectors.DefaultSelector())
        self._selector.register(self._pause, selectors.EVENT_READ)
        self._selector.register(self._pidfd, selectors.EVENT_READ)
        self.booting = True
        answer = self._wait(self.limits.boot_cpu_s, self.limits.boot_s, "did not start")
        self.booting = False
        magic, version = struct.unpack_from("<II", self._memory, _ANSWER_AT)
        if magic != GUEST_MAGIC or version != VERSION:
            raise self._failure(
                "the image contains a guest program of another version",
                "measure again with this rtgauge, or use the version that made the image",
            )
        return answer.said.decode(errors="replace")

    def _open_control(self) -> Control | None:
        """The way to wire lines, where there are some; it stays open, and silent, to the end."""
        if not self.setup.wires and (not self.setup.outside or self.setup.doorbell):
            return None
        control = Control(self.limits.boot_s)
        self._cleaner.callback(control.close)
        return control

    def _open_doorbell(self) -> Doorbell | None:
        if not self.setup.doorbell:
            return None
        try:
            doorbell = Doorbell(self.lines)
        except OSError as error:
            raise TargetError(
                f"the doorbell {self.lines} cannot be created: {error.strerror}",
                "check free space and permissions of its folder",
            ) from None
        self._cleaner.callback(doorbell.close)
        return doorbell

    def _open_exchange(self) -> None:
        path = self._folder / "exchange"
        with open(path, "w+b") as file:
            # all of it now: a full memory file system must not end the machine later
            os.posix_fallocate(file.fileno(), 0, EXCHANGE_BYTES)
            self._memory = self._cleaner.enter_context(mmap.mmap(file.fileno(), EXCHANGE_BYTES))
        fifo = self._folder / "pause"
        os.mkfifo(fifo, 0o600)
        self._pause = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._cleaner.callback(os.close, self._pause)
        fill = 0
        if self.setup.mode.counted:
            fcntl.fcntl(self._pause, fcntl.F_SETPIPE_SZ, 1)  # the smallest there is: a page
            fill = fcntl.fcntl(self._pause, fcntl.F_GETPIPE_SZ)
        self._fill = fill
        _HEAD.pack_into(self._memory, 0, MAGIC, VERSION, EXCHANGE_BYTES, fill)

    def _arguments(self) -> list[str]:
        folder = self._folder
        return [
            *("-chardev", f"file,id=pause,path={folder / 'pause'}"),
            *("-chardev", f"file,id=console,path={folder / 'console'}"),
            "-object",
            f"memory-backend-file,id=exchange,share=on,mem-path={folder / 'exchange'},"
            f"size={EXCHANGE_BYTES}",
            *_common(self.setup),
            *("-device", "ivshmem-plain,memdev=exchange"),
            *(outside_words(self.lines) if self.setup.outside and not self.doorbell else ()),
        ]

    @property
    def running(self) -> bool:
        """Whether there is a machine to give orders to."""
        return self._process is not None and self._process.poll() is None

    @property
    def folder(self) -> Path:
        """Where its files are while it runs."""
        return self._folder

    @property
    def lines(self) -> Path:
        """The socket at which lines from outside are driven and seen, where there are some."""
        return self._folder / "lines"

    @property
    def pid(self) -> int | None:
        """QEMU's process."""
        return self._process.pid if self._process is not None else None

    def close(self, *, failed: bool = False) -> None:
        """End it; of one that failed the console is kept."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                # on a busy host a killed process can take longer; it is still waited for
                threading.Thread(target=process.wait, daemon=True).start()
        if failed and not self.console:
            with contextlib.suppress(OSError, AttributeError):
                self.console = str(self._keep_console())
        self._cleaner.close()

    def _keep_console(self) -> Path:
        folder = consoles_folder()
        folder.mkdir(parents=True, exist_ok=True)
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
        kept = folder / f"{stamp[:-3]}-{self.setup.name.replace('/', '-')}.log"
        with open(kept, "wb") as file:
            for name in ("console", "qemu.log"):
                with contextlib.suppress(OSError), open(self._folder / name, "rb") as source:
                    size = source.seek(0, os.SEEK_END)
                    source.seek(max(0, size - CONSOLE_MAX))
                    file.write(source.read(CONSOLE_MAX))
        for old in sorted(folder.glob("*.log"))[:-CONSOLES_KEPT]:
            old.unlink(missing_ok=True)
        return kept

    def _failure(self, message: str, remedy: str = "") -> TargetError:
        """The error for a machine that is of no use any more; it is ended."""
        self.close(failed=True)
        where = f"see the board's console: {self.console}" if self.console else ""
        return TargetError(
            f"the emulated board {self.setup.name}: {message}",
            "; ".join(text for text in (remedy, where) if text),
        )

    # --- orders ---

    def order(self, number: int, data: Sequence[bytes] = (), offset: int = 0) -> None:
        """Give an order and let the guest continue. Its answer comes from ``answer``.

        Raises TargetError if the machine is gone, or the data are more than the exchange holds.
        """
        if not self.running:
            raise self._failure("it has ended")
        length = sum(len(piece) for piece in data)
        if length > DATA_MAX:
            raise TargetError(
                f"an order for the emulated board has {length} bytes, but at most {DATA_MAX} fit",
                "give it fewer or shorter arguments",
            )
        self.orders.append(_noted(number, data, offset))
        place = DATA_AT
        for piece in data:
            self._memory[place : place + len(piece)] = piece
            place += len(piece)
        _ORDER.pack_into(self._memory, _ORDER_AT, number, length, offset)
        self._taken = 0
        struct.pack_into("<QI", self._memory, _TAKEN_AT, 0, 0)
        self._turn += 1
        struct.pack_into("<I", self._memory, _TURN_AT, self._turn)
        self._release()

    def _release(self) -> None:
        """Read what holds the guest back: exactly the bytes of one pause."""
        left = self._fill + 1
        deadline = time.monotonic() + self.limits.order_s
        while left:
            try:
                piece = os.read(self._pause, left)
            except BlockingIOError:
                piece = b""
            left -= len(piece)
            if left and not piece:
                if self._selector_says(POLL_S) is None:
                    raise self._failure("it ended on its own" + self._last_words())
                if time.monotonic() > deadline:
                    raise self._failure("it does not continue after its pause")

    def _selector_says(self, timeout: float) -> bool | None:
        """Whether the guest waits for the host; None: the machine has ended."""
        ready = {key.fd for key, _ in self._selector.select(timeout)}
        if self._pidfd in ready or self._process is None:
            return None
        if self._pause not in ready:
            return False
        waiting = fcntl.ioctl(self._pause, termios.FIONREAD, b"\0" * 4)
        if waiting == b"\0" * 4:  # QEMU has let go of the FIFO: it is about to end
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
            return None
        return True

    def answer(self, timeout: float) -> Answer | None:
        """The answer to the last order; None if it does not come in that many seconds.

        Raises TargetError when the machine ends instead.
        """
        said = self._selector_says(timeout)
        if said is None:
            if self._has_failed() and not self._has_printed():  # before any kernel ran
                self.booting = False
            raise self._failure("it ended on its own" + self._last_words())
        return self._read_answer() if said else None

    def _has_failed(self) -> bool:
        """Whether QEMU ended with an error, not because the kernel reset the board."""
        return self._process is not None and bool(self._process.poll())

    def _has_printed(self) -> bool:
        """Whether anything is on the board's console."""
        with contextlib.suppress(OSError, AttributeError):
            return (self._folder / "console").stat().st_size > 0
        return False

    def _last_words(self) -> str:
        """QEMU's error message, in brackets."""
        with contextlib.suppress(OSError, AttributeError):
            lines = (self._folder / "qemu.log").read_text(errors="replace").strip().splitlines()
            if lines:
                return f" ({lines[-1][:300]})"
        return ""

    def _read_answer(self) -> Answer:
        _, _, done, error, code, said, total, given, began, ended = _ANSWER.unpack_from(
            self._memory, _ANSWER_AT
        )
        if done != self._turn or said > SAID_MAX or given > DATA_MAX or total > OUTPUT_MAX:
            raise self._failure("its answer is invalid")
        return Answer(
            error,
            code,
            bytes(self._memory[SAID_AT : SAID_AT + said]),
            total,
            bytes(self._memory[DATA_AT : DATA_AT + given]),
            began,
            ended,
        )

    def _wait(self, cpu_s: float, limit_s: float, trouble: str) -> Answer:
        """The answer, or TargetError if it does not come within the limits."""
        began, began_cpu = time.monotonic(), self.cpu_s()
        while (answer := self.answer(POLL_S)) is None:
            took, computed = time.monotonic() - began, self.cpu_s() - began_cpu
            if took > limit_s or computed > cpu_s:
                raise self._failure(
                    f"it {trouble} within {took:.0f} s (QEMU's CPU time: {computed:.0f} s)"
                )
        return answer

    def cpu_s(self) -> float:
        """The processor time that QEMU has taken; 0 if it does not run."""
        if self._process is None:
            return 0.0
        try:
            text = Path(f"/proc/{self._process.pid}/stat").read_text()
            fields = text.rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            return 0.0

    # --- what orders are for ---

    def begin(self, words: Sequence[str]) -> None:
        """Start a program. The answer to this order is its end."""
        self.order(RUN, [b"\0".join(os.fsencode(word) for word in words) + b"\0"])

    def ended(self, limit_s: float) -> Answer:
        """The end of the program that was begun. Raises TargetError if it takes too long."""
        return self._wait(limit_s, limit_s, "did not end its program")

    def shown(self) -> bytes:
        """What the program has written to stdout that was not given yet, in plain mode; in counted
        mode nothing, before the answer."""
        (end,) = struct.unpack_from("<Q", self._memory, _SHOWN_AT)
        if end == _OVER or not self._taken < end <= self._taken + DATA_MAX:
            return b""
        data = bytes(self._memory[DATA_AT : DATA_AT + end - self._taken])
        if struct.unpack_from("<Q", self._memory, _SHOWN_AT) != (end,):
            return b""  # it has ended in between: what was copied may be the answer's
        self._taken = end
        struct.pack_into("<Q", self._memory, _TAKEN_AT, end)
        return data

    def send(self, number: int) -> None:
        """Send a signal to the program, in plain mode; once for each order."""
        struct.pack_into("<I", self._memory, _SEND_AT, number)

    def rest(self, answer: Answer, take: Callable[[bytes], object]) -> None:
        """Hand over what the program wrote to stdout, the piece in the answer first."""
        offset, data = 0, answer.data
        while True:
            take(data)
            offset += len(data)
            if offset >= answer.total or not data:
                return
            data = self.piece(offset)

    def piece(self, offset: int) -> bytes:
        """Bytes of what the last program wrote, from an offset on."""
        self.order(READ, offset=offset)
        return self._wait(self.limits.order_cpu_s, self.limits.order_s, "did not answer").data

    def execute(self, words: Sequence[str]) -> Output:
        """Run a program to its end. Raises TargetError if it takes too long, or cannot be."""
        self.begin(words)
        answer = self._wait(
            self.limits.order_cpu_s, self.limits.order_s, f"did not end {Path(words[0]).name}"
        )
        if answer.error:
            raise TargetError(
                f"{words[0]} cannot be run on the emulated board: {os.strerror(answer.error)}",
                f"look for it there: rtgauge lab shell {self.setup.name}",
            )
        output = bytearray()
        self.rest(answer, output.extend)
        return Output(answer.code, bytes(output), answer.said, answer.ended_ns - answer.began_ns)

    def put(self, path: str, content: bytes) -> None:
        """Write a file of the guest, executable. Raises TargetError if that cannot be."""
        name = os.fsencode(path) + b"\0"
        room = DATA_MAX - len(name)
        for offset in range(0, max(len(content), 1), room):
            self.order(PUT, [name, content[offset : offset + room]], offset)
            answer = self._wait(self.limits.order_cpu_s, self.limits.order_s, "did not answer")
            if answer.error:
                raise TargetError(
                    f"{path} cannot be written on the emulated board: {os.strerror(answer.error)}",
                    f"give the board more memory: lab:{self.setup.name},memory=MIB",
                )
