# SPDX-License-Identifier: Apache-2.0
"""Independent arithmetic for mutex-uncontended and sem-uncontended: a counted loop.

``bench/counted_loop.c`` does acquire and release 10^8 times, of each type of mutex and of a
semaphore, and reads a clock at both ends only. The mean of acquire and release there is compared
with the mean of the measurement's batches. The same compiler and C library, CPU, policy and
priority; the priority matters, since glibc looks through its table of ceilings from there
downwards. Real-time tasks keep the CPU for both, as the agent has it: else a change of priority
does more.

On the clock it is compared twice. The speed of a virtual CPU changes by half from one moment to the
next, as the other thread of its core has work or not.

- *batches*: the measurements' own code for batches, in one process with the loop, in the order
  A B, B A, each for less than a millisecond. That cancels it.
- *agent*: one run of the agent, which has all types, and a part of the loop for each type, each a
  process, in the order A B, B A. These are seconds apart, and their ratios scatter accordingly; the
  loop's clock is the thread's CPU time, without what the hypervisor takes away.

``--lab`` decides the same in instructions, where nothing is a matter of luck: agent and loop on one
emulated board in counted mode, one after the other, on one start of it. With the C library of this
machine, which both are given, and with musl, which both are linked with. The loop runs for the
operations asked for and for a tenth of them, to show that its mean is a constant. Means differ from
whole numbers by the kernel's timer interrupts, which hit both. Their min batch is free of them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pairs import Pair, summarise, write_results
from sample_cost import output_of

from rtgauge.lab import board as lab_board
from rtgauge.lab.machine import Limits
from rtgauge.stream import Record, StreamReader, Table, read_stream
from rtgauge.target.lab import LabTarget
from rtgauge.target.local import find_agent

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
TIMEOUT_S = 300.0
# where zig first makes its C library
COMPILE_S = 1800.0
WITHIN = 0.05
# with a system call in each operation
SLOW = 100
OPERATIONS = 100_000_000
# The agent lifts it for its run; without that a change of priority takes another 66 instructions.
THROTTLING = Path("/proc/sys/kernel/sched_rt_runtime_us")

BOARDS = ("x86_64-stock-6.1", "arm64-rt-6.1")
# Where a program finds the dynamic linker of glibc, by processor.
LINKERS = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}
# With musl as tools/static_programs.py links the static agent. zig rebuilds its C library for
# each way to link. Built for speed it differs: its semaphore takes 82 instructions, not 73.
LINK = {
    "glibc": ("-pthread", "-Wl,--gc-sections"),
    "musl": (
        *("-Os", "-s", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"),
        *("-static", "-Wl,--gc-sections", "-fomit-frame-pointer", "-pthread"),
    ),
}
LAB_OPERATIONS = 10_000_000
LAB_LIMITS = Limits(order_cpu_s=1800.0, order_s=7200.0)


@dataclass(frozen=True)
class Case:
    """A row of a measurement's table `batches`, and the loop's kind."""

    measurement: str
    row: str
    kind: str
    slower: int = 1


CASES = (
    Case("mutex-uncontended", "normal", "normal"),
    Case("mutex-uncontended", "recursive", "recursive"),
    Case("mutex-uncontended", "errorcheck", "errorcheck"),
    Case("mutex-uncontended", "inherit", "inherit"),
    Case("mutex-uncontended", "protect", "protect"),
    Case("mutex-uncontended", "protect-raise", "protect-raise", SLOW),
    Case("mutex-uncontended", "robust", "robust"),
    Case("sem-uncontended", "private", "semaphore"),
)


@dataclass(frozen=True)
class Batches:
    """The measurement's figures of acquire and release, in ns."""

    mean: float
    least: float


def batches_of(measurement: str, records: Iterable[Record]) -> dict[Case, Batches]:
    """Those of each case of a measurement's stream, without skipped types."""
    found = {
        str(row[0]): Batches(int(str(row[1])) / 1000, int(str(row[2])) / 1000)
        for record in records
        if isinstance(record, Table) and record.name == "batches"
        for row in record.rows
    }
    return {
        case: found[f"{case.row}: acquire, release"]
        for case in CASES
        if case.measurement == measurement and f"{case.row}: acquire, release" in found
    }


def agent_words(measurement: str, samples: int, cpu: int, priority: int) -> list[str]:
    """The measurement, as all of it is run here."""
    return [
        "run", measurement, "--samples", str(samples), "--cpu", str(cpu),
        "--priority", str(priority), "--histogram-only",
    ]  # fmt: skip


def compile_loop(compiler: Sequence[str], link: Sequence[str], program: Path) -> None:
    """The loop, with the measurements' code for batches."""
    sources = [str(BENCH / "counted_loop.c"), str(ROOT / "agent" / "methods" / "stamp.c")]
    objects = [str(program) + f".{number}.o" for number in range(len(sources))]
    compiling = ["-std=gnu11", "-O2", "-pthread", "-ffunction-sections", "-I", str(ROOT / "agent")]
    for source, made in zip(sources, objects, strict=True):
        words = [*compiler, *compiling, "-c", source, "-o", made]
        subprocess.run(words, check=True, timeout=COMPILE_S)
    words = [*compiler, *objects, *link, "-o", str(program)]
    subprocess.run(words, check=True, timeout=COMPILE_S)


@dataclass
class Uncontended:
    """How all of them are run, and what was found."""

    folder: Path
    cpu: int
    priority: int
    operations: int
    count: int
    samples: int

    def _loop(self, case: Case, *more: str) -> str:
        """What the loop printed, of a pair's operations."""
        operations = self.operations // self.count // case.slower
        words = [str(self.folder / "loop"), case.kind, str(operations)]
        words += [str(self.cpu), str(self.priority), *more]
        return subprocess.run(
            words, check=True, timeout=TIMEOUT_S, capture_output=True, text=True
        ).stdout

    def batches(self, case: Case) -> list[Pair]:
        """Pairs within the loop's process, in ns."""
        rows = [line.split() for line in self._loop(case, str(self.count)).splitlines()]
        return [Pair(int(ours) / 1000, int(loop) / 1000, True) for ours, loop in rows]

    def _agent(self) -> dict[Case, float]:
        """Mean ns of acquire and release, of each case, from one run of each measurement."""
        found: dict[Case, float] = {}
        stream = self.folder / "stream.cbor"
        for measurement in dict.fromkeys(case.measurement for case in CASES):
            words = agent_words(measurement, self.samples, self.cpu, self.priority)
            subprocess.run(
                [str(find_agent()), *words, "--output", str(stream)],
                check=True, timeout=TIMEOUT_S, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            of = batches_of(measurement, read_stream(stream))
            found.update((case, batches.mean) for case, batches in of.items())
        return found

    def _loops(self) -> dict[Case, float]:
        """The same, of the counted loop."""
        return {
            case: int(self._loop(case)) * self.count * case.slower / self.operations
            for case in CASES
        }

    def agent(self) -> dict[Case, list[Pair]]:
        """Pairs of the agent and the loop, each a process, in ns."""
        pairs: dict[Case, list[Pair]] = {case: [] for case in CASES}
        for number in range(self.count):
            ours_first = number % 2 == 0
            if ours_first:
                ours, loop = self._agent(), self._loops()
            else:
                loop, ours = self._loops(), self._agent()
            for case in CASES:
                pairs[case].append(Pair(ours[case], loop[case], ours_first))
            print(f"pair {number + 1} of {self.count}", file=sys.stderr)
        return pairs


@contextlib.contextmanager
def unthrottled() -> Iterator[None]:
    """Real-time tasks keep the CPU, as during a run of the agent. Restored at the end."""
    before = THROTTLING.read_text(encoding="ascii")
    if before.strip() == "-1":
        yield
        return
    THROTTLING.write_text("-1", encoding="ascii")
    try:
        yield
    finally:
        THROTTLING.write_text(before, encoding="ascii")


def on_this_machine(arguments: argparse.Namespace) -> list[dict[str, object]]:
    """Pairs, on the clock."""
    with tempfile.TemporaryDirectory() as name, unthrottled():
        bench = Uncontended(
            Path(name),
            arguments.cpu,
            arguments.priority,
            arguments.operations,
            arguments.pairs,
            arguments.samples,
        )
        compile_loop(["gcc"], LINK["glibc"], bench.folder / "loop")
        found = {("batches", case): bench.batches(case) for case in CASES}
        if not arguments.batches_only:
            found |= {("agent", case): pairs for case, pairs in bench.agent().items()}
    return [
        summarise(
            f"{what}: {case.measurement}, {case.row}",
            pairs,
            at_least=1 - WITHIN,
            at_most=1 + WITHIN,
            details={
                "operations": bench.operations // case.slower,
                "ours_ns": statistics.median(pair.ours for pair in pairs),
                "loop_ns": statistics.median(pair.peer for pair in pairs),
            },
        )
        for (what, case), pairs in found.items()
    ]


@dataclass
class Counted:
    """An emulated board in counted mode, and a C library."""

    name: str
    library: str
    samples: int
    priority: int
    operations: int

    def __post_init__(self) -> None:
        self.target = LabTarget(f"{self.name},mode=counted", LAB_LIMITS)

    def cases(self) -> list[dict[str, object]]:
        """Every type that the C library has, in instructions."""
        with contextlib.closing(self.target):
            self.target.environment()
            agent = self._prepare()
            output_of(self.target, ["/bin/busybox", "sh", "-c", f"echo -1 >{THROTTLING}"])
            return [
                self._case(case, batches)
                for measurement in dict.fromkeys(case.measurement for case in CASES)
                for case, batches in self._ours(agent, measurement).items()
            ]

    def _prepare(self) -> str:
        """Have the loop there, and an agent of the same C library, whose path this returns."""
        processor = self.target.board.machine.processor
        with tempfile.TemporaryDirectory() as folder:
            loop = Path(folder, "loop")
            zig = [sys.executable, "-m", "ziglang", "cc", "-target", f"{processor}-linux-musl"]
            compiler = zig if self.library == "musl" else ["gcc"]
            compile_loop(compiler, LINK[self.library], loop)
            self.target.put("/tmp/loop", loop.read_bytes())
        if self.library == "musl":
            return "/agent"  # the board's own
        for path in (LINKERS[processor], self._library("libc.so.6")):
            output_of(self.target, ["/bin/busybox", "mkdir", "-p", str(Path(path).parent)])
            self.target.put(path, Path(path).read_bytes())
        self.target.put("/tmp/agent", find_agent().read_bytes())
        return "/tmp/agent"

    @staticmethod
    def _library(name: str) -> str:
        words = ["gcc", f"-print-file-name={name}"]
        asked = subprocess.run(words, check=True, timeout=TIMEOUT_S, capture_output=True, text=True)
        return asked.stdout.strip()

    def _ours(self, agent: str, measurement: str) -> dict[Case, Batches]:
        words = agent_words(measurement, self.samples, 0, self.priority)
        stream = output_of(self.target, [agent, *words, "--output", "-"])
        return batches_of(measurement, StreamReader().feed(stream))

    def _loop(self, case: Case, operations: int) -> float:
        words = ["/tmp/loop", case.kind, str(operations), "0", str(self.priority)]
        return int(output_of(self.target, words)) / operations

    def _case(self, case: Case, ours: Batches) -> dict[str, object]:
        many = self.operations // case.slower
        few = many // 10
        loop, loop_of_few = self._loop(case, many), self._loop(case, few)
        ratio = ours.mean / loop
        held = abs(ratio - 1) <= WITHIN
        name = f"{self.name}, {self.library}: {case.measurement}, {case.row}"
        print(
            f"{name}: batches {ours.mean:.3f} (min {ours.least:.3f}), loop of {many} {loop:.3f}, "
            f"of {few} {loop_of_few:.3f}, ratio {ratio:.4f}{'' if held else ', NOT as required'}",
            flush=True,
        )
        return {
            "name": name,
            "ours": ours.mean,
            "ours_least_batch": ours.least,
            "loop": loop,
            "operations": many,
            "loop_of_a_tenth": loop_of_few,
            "ratio": ratio,
            "at_least": 1 - WITHIN,
            "at_most": 1 + WITHIN,
            "held": held,
        }


def libraries_of(name: str) -> list[str]:
    """The C libraries available on a board: this machine's where it is of its kind."""
    same = lab_board(name).machine.processor == platform.machine()
    return ["glibc", "musl"] if same and platform.libc_ver()[0] == "glibc" else ["musl"]


def main() -> int:
    parser = argparse.ArgumentParser(description="uncontended operations against a counted loop")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--operations", type=int, help="of the loop, in all")
    parser.add_argument("--samples", type=int, default=10_000, help="of a run, of each series")
    parser.add_argument("--batches-only", action="store_true", help="without runs of the agent")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--priority", type=int, default=80)
    parser.add_argument(
        "--lab", nargs="*", metavar="BOARD", help="in instructions, on boards of the lab"
    )
    parser.add_argument("--library", choices=("glibc", "musl"), help="with --lab: this one alone")
    parser.add_argument("--output", type=Path, help="the cases go there, not to bench/results/")
    arguments = parser.parse_args()
    in_lab = arguments.lab is not None
    arguments.operations = arguments.operations or (LAB_OPERATIONS if in_lab else OPERATIONS)
    facts: dict[str, object] = {
        "peer": "bench/counted_loop.c",
        "samples": arguments.samples,
        "priority": arguments.priority,
    }
    if in_lab:
        facts["unit"] = "instructions for acquire and release"
        cases = [
            case
            for name in arguments.lab or BOARDS
            for library in libraries_of(name)
            if arguments.library in (None, library)
            for case in Counted(
                name, library, arguments.samples, arguments.priority, arguments.operations
            ).cases()
        ]
    else:
        facts |= {"unit": "ns for acquire and release", "cpu": arguments.cpu}
        cases = on_this_machine(arguments)
    if arguments.output:
        arguments.output.write_text(json.dumps(cases), encoding="utf-8")
    else:
        print(write_results("uncontended_lab" if in_lab else "uncontended", facts, cases).name)
    return 0 if cases and all(case["held"] for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
