# SPDX-License-Identifier: Apache-2.0
"""Boots of emulated boards for the lab's tests: each is a board and the agent's orders for it.

All boots that the chosen tests need are carried out at once, two at a time. Each test waits for its
own. A boot with a ``busy`` host has a busy loop on each CPU, one with an ``idle`` host runs alone.
"""

from __future__ import annotations

import contextlib
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray
from static_programs import ALIKE, LINK, compiler, run

from lab_modules import modules_of
from rtgauge.architectures import architecture
from rtgauge.lab.boards import BOARDS, Board, Machine
from rtgauge.lab.cache import cache_folder, locked
from rtgauge.lab.kernels import kernel_for
from rtgauge.lab.machine import Machine as Running
from rtgauge.lab.modules import Recipe
from rtgauge.stream import (
    Event,
    Record,
    Samples,
    SeriesInfo,
    StreamReader,
    Table,
    Trailer,
    Verdict,
)
from rtgauge.target.lab import LabTarget

__all__ = [
    "BUSYBOX",
    "LINES_CHIP",
    "NEEDS_ARM",
    "NEEDS_X86",
    "Boot",
    "Booted",
    "Lab",
    "Step",
    "assert_delayed",
    "assert_later_further_up",
    "assert_no_complaint",
    "assert_same_samples",
    "assert_tap",
    "on_boards",
    "pair_orders",
    "program",
    "row_of",
    "sample_bytes",
    "series_of",
    "shell",
    "shift_phase",
    "streams_of",
]

ROOT: Final = Path(__file__).resolve().parents[2]
NEEDS_X86: Final = pytest.mark.skipif(
    shutil.which("qemu-system-x86_64") is None,
    reason="QEMU is not on this machine (Debian's package is qemu-system-x86)",
)
NEEDS_ARM: Final = pytest.mark.skipif(
    shutil.which("qemu-system-aarch64") is None,
    reason="QEMU is not on this machine (Debian's package is qemu-system-arm)",
)
BUSYBOX: Final = "/bin/busybox"
COMPLAINTS: Final = ("BUG:", "WARNING:", "Oops", "Call trace", "Call Trace", "Unable to handle")
SIDE_BY_SIDE: Final = 2
# Some ticks, of which the boards' kernels have 250 in a second.
PHASES_US: Final = 20_000
# The arm64 boards' GPIO chip, by its label.
LINES_CHIP: Final = "9030000.pl061"
# A busy loop ends with the tests, whatever becomes of them. It preempts an emulator now and then,
# and takes a hundredth of its time, also where the kernel gives each session its share (autogroup).
BUSY: Final = """
import contextlib, os, sys
os.nice(19)
with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as file:
    file.write("19")
while os.getppid() == int(sys.argv[1]):
    pass
"""


@dataclass(frozen=True)
class Boot:
    """A board (its name after ``lab:``) and what is done there, in this order: names of orders
    and the words of each, the agent's or, where the first is a path, a program's. ``turn`` tells
    boots apart that are else the same. ``programs``: paths in the guest, and the C sources of this
    checkout that are made for them; ``modules``: the same of kernel modules. ``debian``: modules of
    Debian's kernel, put below / with those that they need."""

    board: str
    orders: tuple[tuple[str, tuple[str, ...]], ...]
    host: str = "busy"
    turn: int = 1
    programs: tuple[tuple[str, str], ...] = ()
    modules: tuple[tuple[str, str], ...] = ()
    debian: tuple[str, ...] = ()


def shell(script: str) -> tuple[str, ...]:
    """The words of an order that the board's shell carries out."""
    return (BUSYBOX, "sh", "-c", script)


def on_boards(*boots: Mapping[str, Boot], names: Iterable[str] = ()) -> pytest.MarkDecorator:
    """Repeat a test on each board that has all of these boots: ``board``; and with each name on
    each board: ``name``."""
    marks = {
        board: pytest.mark.boots(*(one[board] for one in boots))
        for board in boots[0]
        if all(board in one for one in boots)
    }
    if not names:
        return pytest.mark.parametrize(
            "board", [pytest.param(board, marks=mark) for board, mark in marks.items()]
        )
    return pytest.mark.parametrize(
        ("board", "name"),
        [pytest.param(board, name, marks=mark) for board, mark in marks.items() for name in names],
    )


def pair_orders(
    name: str,
    host: str,
    board: str = "",
    context: str = "user",
    lines: tuple[str, str] = (f"gpio:{LINES_CHIP}:0:3", f"gpio:{LINES_CHIP}:2:1"),
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The orders of a log host and a board that answers, two agents on a board with
    ``lines=0:1+2:3``: ``name`` does it, ``name.board`` and ``name.host`` hand out their streams.
    ``host`` and ``board``: further arguments of each. ``lines``: their lines. The log host has a
    lower priority than the kernel thread that brings a user task its edges. On another machine it
    would not delay that thread either."""
    script = (
        f"/agent run response --context {context} --line {lines[1]} {board} "
        f"--output /{name}.board >/dev/null & P=$!; "
        f"{BUSYBOX} sleep 1; "
        f"/agent run log-host --keep-settings --priority 40 --line {lines[0]} {host} "
        f"--answered-by {context} --output /{name}.host >/dev/null; echo $?; "
        f"kill -INT $P; wait $P; echo $?"
    )
    return (
        (name, shell(script)),
        *((f"{name}.{one}", (BUSYBOX, "cat", f"/{name}.{one}")) for one in ("board", "host")),
    )


@dataclass(frozen=True)
class Step:
    """What came of one order."""

    code: int
    stream: bytes
    said: str
    records: tuple[Record, ...]

    @property
    def trailer(self) -> Trailer:
        """The stream's end; an AssertionError says what came instead."""
        last = self.records[-1] if self.records else None
        assert isinstance(last, Trailer), f"exit code {self.code}: {self.said}"
        return last

    def samples(self, context: str) -> NDArray[np.int64]:
        """All samples of the series of a context, companions left out."""
        series = {
            one.series
            for one in self.records
            if isinstance(one, SeriesInfo) and one.context == context and one.companion is None
        }
        blocks = [
            one.values.astype(np.int64)
            for one in self.records
            if isinstance(one, Samples) and one.series in series
        ]
        assert blocks, f"no sample in context {context} (exit code {self.code}: {self.said})"
        return np.concatenate(blocks)

    def texts(self) -> list[str]:
        """What the agent told in words while it measured."""
        return [
            str(one.fields.get("text", ""))
            for one in self.records
            if isinstance(one, Event) and one.event == "message"
        ]

    def measured(self) -> list[object]:
        """Every sample and event, and what follows from them, so that two steps can be compared
        bit for bit."""
        found: list[object] = []
        for one in self.records:
            if isinstance(one, Samples):
                found.append(
                    (one.sequence, one.series, one.index, one.due_ns, one.values.tobytes())
                )
            elif isinstance(one, Event):
                found.append((one.sequence, one.event, one.time_ns, one.series, dict(one.fields)))
            elif isinstance(one, Table | Verdict | Trailer):
                found.append(one)
        return found


@dataclass(frozen=True)
class Booted:
    """What came of a boot: of each order by its name, and the kernel's log."""

    steps: Mapping[str, Step]
    log: str


def streams_of(booted: Booted, name: str) -> dict[str, list[Record]]:
    """The streams of both sides of a pair (``pair_orders``) that ended in order."""
    step = booted.steps[name]
    assert step.stream.split() == [b"0", b"0"], (name, step.said)
    return {
        side: list(StreamReader().feed(booted.steps[f"{name}.{side}"].stream))
        for side in ("host", "board")
    }


def series_of(records: Sequence[Record]) -> dict[str, NDArray[np.int64]]:
    """The samples of each series that has some, by its name."""
    names = {one.series: one.name for one in records if isinstance(one, SeriesInfo)}
    found: dict[str, list[NDArray[np.int64]]] = {name: [] for name in names.values()}
    for one in records:
        if isinstance(one, Samples):
            found[names[one.series]].append(one.values.astype(np.int64))
    return {name: np.concatenate(pieces) for name, pieces in found.items() if pieces}


def sample_bytes(records: Sequence[Record]) -> bytes:
    """All samples, so that two boots can be compared bit for bit."""
    return b"".join(one.values.tobytes() for one in records if isinstance(one, Samples))


def row_of(records: Sequence[Record]) -> tuple[int, ...]:
    """The one row of the one table."""
    [table] = [one for one in records if isinstance(one, Table)]
    [row] = table.rows
    return tuple(int(cell) for cell in row)


def assert_tap(step: Step) -> None:
    """A program of kmod/tests ended in order, and all that it checked held."""
    lines = step.stream.decode(errors="replace").splitlines()
    wrong = [line for line in lines if line.startswith("not ok")]
    assert (step.code, wrong) == (0, []), (lines, step.said)
    done = sum(line.startswith("ok ") for line in lines)
    assert done > 0
    assert lines[-1] == f"1..{done}"


def assert_same_samples(booted: Sequence[Booted], name: str) -> None:
    """A pair (``pair_orders``) measured the same in two boots, bit for bit."""
    first, again = (
        [sample_bytes(found) for found in streams_of(boot, name).values()] for boot in booted
    )
    assert all(first), name
    assert first == again


def assert_later_further_up(booted: Booted, contexts: Sequence[str]) -> None:
    """The pair of each context answers later than that of the one before, at the median."""
    medians = [
        np.median(series_of(streams_of(booted, one)["host"])["response"]) for one in contexts
    ]
    assert medians == sorted(set(medians))


def assert_delayed(booted: Booted, name: str, delay_ns: int) -> None:
    """Every tenth of a pair's hundred answers was delayed, and no other."""
    found = streams_of(booted, name)
    response, answer = series_of(found["host"])["response"], series_of(found["board"])["answer"]
    late = np.flatnonzero(response >= delay_ns)
    assert len(late) == 10
    assert np.diff(late).tolist() == [10] * 9
    assert bool((np.delete(response, late) < delay_ns // 2).all())
    assert int((answer >= delay_ns).sum()) == len(answer) // 10


def assert_no_complaint(log: str) -> None:
    """The kernel reported no fault in its log."""
    for word in COMPLAINTS:
        assert word not in log


def shift_phase(patch: pytest.MonkeyPatch, seed: str) -> None:
    """Let boards in counted mode sleep after the boot, for a time that follows from the seed. Their
    steps begin at other phases of the tick and of disturbances, as with a changed agent."""
    sleep = (BUSYBOX, "usleep", f"{random.Random(seed).randrange(PHASES_US)}")
    boot = LabTarget._boot

    def shifted(target: LabTarget, machine: Running) -> str:
        said = boot(target, machine)
        if machine.setup.mode.counted:
            assert machine.execute(sleep).code == 0
        return said

    patch.setattr(LabTarget, "_boot", shifted)


class Lab:
    """Carries out boots and keeps what came of them."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="boot")
        self._futures: dict[Boot, Future[Booted]] = {}
        self._turn = threading.Condition()
        self._shared = 0
        self._alone = False
        self._busy = 0
        self._loops: list[subprocess.Popen[bytes]] = []

    def ask(self, boots: Sequence[Boot]) -> None:
        """Have boots carried out, those that want the host for themselves last."""
        for boot in sorted(boots, key=lambda one: one.host == "idle"):
            if boot not in self._futures:
                self._futures[boot] = self._pool.submit(self._carry_out, boot)

    def result(self, boot: Boot) -> Booted:
        """What came of a boot; waits for it. Raises what it failed with."""
        self.ask([boot])
        return self._futures[boot].result()

    def close(self) -> None:
        """End everything; boots under way come to their end first."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._end_loops()

    def _carry_out(self, boot: Boot) -> Booted:
        with self._host(boot.host):
            return _carry_out(boot)

    @contextlib.contextmanager
    def _host(self, state: str) -> Iterator[None]:
        with self._turn:
            self._turn.wait_for(lambda: not self._alone and (state != "idle" or self._shared == 0))
            self._alone = state == "idle"
            self._shared += 1
            if state == "busy":
                self._busy += 1
                if self._busy == 1:
                    self._start_loops()
        try:
            yield
        finally:
            with self._turn:
                self._alone = False
                self._shared -= 1
                if state == "busy":
                    self._busy -= 1
                    if self._busy == 0:
                        self._end_loops()
                self._turn.notify_all()

    def _start_loops(self) -> None:
        count = len(os.sched_getaffinity(0))
        words = [sys.executable, "-c", BUSY, str(os.getpid())]
        self._loops = [subprocess.Popen(words, start_new_session=True) for _ in range(count)]

    def _end_loops(self) -> None:
        for loop in self._loops:
            loop.kill()
            loop.wait(30)
        self._loops = []


def _carry_out(boot: Boot) -> Booted:
    with contextlib.closing(LabTarget(boot.board)) as target:
        for path, source in boot.programs:
            target.put(path, program(source, _board(boot.board).machine))
        if boot.debian:
            for name, content in modules_of(_board(boot.board), boot.debian).items():
                target.put(f"/{name}", content)
        for path, source in boot.modules:
            target.put(path, _module(source, boot.board))
        steps = {}
        for name, words in boot.orders:
            if words[0].startswith("/"):
                done = target.execute(words)
                steps[name] = Step(done.code, done.stdout, _text(done.stderr), ())
                continue
            more = ["--disturb-module", target.disturb_module] if "--disturb" in words else []
            done = target.execute(["/agent", *words, *more, "--output", "-"])
            records = tuple(StreamReader().feed(done.stdout))
            steps[name] = Step(done.code, done.stdout, _text(done.stderr), records)
        log = _text(target.execute(["/bin/busybox", "dmesg"]).stdout)
    return Booted(steps, log)


def _board(name: str) -> Board:
    return BOARDS[name.split(",", 1)[0]]


def program(source: str, machine: Machine) -> bytes:
    """A static program for a machine, from a source of this checkout. For machines other than
    this one, zig links it like the agent: zig has built that C library already."""
    if machine.processor == platform.machine():
        words, link = ["gcc"], ["-static", "-pthread"]
    else:
        words, link = compiler(architecture(machine.processor)), [*LINK, *ALIKE]
    with tempfile.TemporaryDirectory() as folder:
        compiled, made = Path(folder, "program.o"), Path(folder, "program")
        run(*words, "-std=gnu11", "-O2", "-fPIE", "-pthread", "-c", source, "-o", compiled)
        run(*words, compiled, *link, "-o", made)
        return made.read_bytes()


def _module(source: str, board: str) -> bytes:
    """A kernel module for a board, from one source of this checkout."""
    path = ROOT / source
    with locked(cache_folder(), ("kernels", "boards"), print):
        unpacked = kernel_for(_board(board), newest=False, say=print)
    sources = {path.name: path.read_bytes(), "Kbuild": f"obj-m := {path.stem}.o\n".encode()}
    recipe = Recipe(_board(board).machine, unpacked, sources)
    with locked(cache_folder(), ("images", "modules"), print):
        folder = recipe.build(cache_folder(), print)
    return (folder / f"{path.stem}.ko").read_bytes()


def _text(data: bytes) -> str:
    return data.decode(errors="replace").strip()
