# SPDX-License-Identifier: Apache-2.0
"""Independent arithmetic for mutex-uncontended and sem-uncontended: a counted loop.

``bench/counted_loop.c`` does acquire and release 10^8 times, of each type of mutex and of a
semaphore, in as many parts as there are pairs, and reads a clock at both ends of a part only. The
mean of acquire and release there is compared with the mean of the measurement's batches. The same
compiler and C library, CPU, policy and priority; the priority matters, since glibc looks through
its table of ceilings from there downwards. The type whose every operation is a system call gets
10^6.

One pair is one run of the agent, which has all types, and one part of the loop for each type; they
take turns in the order A B, B A. In parts, because the speed of a virtual CPU changes by half
within seconds with what its neighbours do, and because a real-time loop of seconds would be stopped
for others in the middle. The loop's clock is the thread's CPU time: a part of it is long enough for
a hypervisor to take the CPU away in most of them, a batch of ours, some microseconds, in few.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from pairs import Pair, summarise, write_results

from rtgauge.stream import Table, read_stream
from rtgauge.target.local import find_agent

BENCH = Path(__file__).resolve().parent
TIMEOUT_S = 300.0
WITHIN = 0.05
# with a system call in each operation
SLOW = 100


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


@dataclass
class Uncontended:
    """How all of them are run, and what was found."""

    folder: Path
    cpu: int
    priority: int
    operations: int
    parts: int
    samples: int
    pairs: dict[Case, list[Pair]] = field(default_factory=dict)

    def build(self) -> None:
        compiler = shutil.which("gcc") or "cc"
        subprocess.run(
            # where the loop's few instructions lie is worth 5 % here; at a boundary they lie well
            [
                compiler,
                "-O2",
                "-falign-loops=64",
                "-pthread",
                BENCH / "counted_loop.c",
                "-o",
                self.folder / "loop",
            ],
            check=True,
            timeout=TIMEOUT_S,
        )

    def ours(self) -> dict[Case, float]:
        """Mean ns of acquire and release, of each case, from one run of each measurement."""
        found: dict[tuple[str, str], float] = {}
        stream = self.folder / "stream.cbor"
        for measurement in dict.fromkeys(case.measurement for case in CASES):
            command = [
                str(find_agent()), "run", measurement, "--samples", str(self.samples),
                "--cpu", str(self.cpu), "--priority", str(self.priority),
                "--histogram-only", "--output", str(stream),
            ]  # fmt: skip
            subprocess.run(command, check=True, timeout=TIMEOUT_S, stdout=subprocess.DEVNULL)
            for record in read_stream(stream):
                if isinstance(record, Table) and record.name == "batches":
                    for operation, mean_ps, *_ in record.rows:
                        assert isinstance(mean_ps, int)
                        found[measurement, str(operation)] = mean_ps / 1000
        return {case: found[case.measurement, f"{case.row}: acquire, release"] for case in CASES}

    def loop(self) -> dict[Case, float]:
        """The same, of the counted loop."""
        found = {}
        for case in CASES:
            operations = self.operations // self.parts // case.slower
            done = subprocess.run(
                [self.folder / "loop", case.kind, str(operations), str(self.cpu),
                 str(self.priority)],
                check=True, timeout=TIMEOUT_S, capture_output=True, text=True,
            )  # fmt: skip
            found[case] = int(done.stdout) / operations
        return found

    def pair(self, number: int) -> None:
        ours_first = number % 2 == 0
        if ours_first:
            ours, loop = self.ours(), self.loop()
        else:
            loop, ours = self.loop(), self.ours()
        for case in CASES:
            pair = Pair(ours[case], loop[case], ours_first)
            self.pairs.setdefault(case, []).append(pair)
            print(
                f"{number + 1}: {case.measurement} {case.row}: ours {pair.ours:.2f} ns, "
                f"loop {pair.peer:.2f} ns, ratio {pair.ratio:.4f}",
                file=sys.stderr,
            )


def main() -> int:
    parser = argparse.ArgumentParser(description="uncontended operations against a counted loop")
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--operations", type=int, default=100_000_000)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--priority", type=int, default=80)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        bench = Uncontended(
            Path(name),
            arguments.cpu,
            arguments.priority,
            arguments.operations,
            arguments.pairs,
            arguments.samples,
        )
        bench.build()
        for number in range(arguments.pairs):
            bench.pair(number)
    cases = [
        summarise(
            f"{case.measurement}, {case.row}",
            pairs,
            at_least=1 - WITHIN,
            at_most=1 + WITHIN,
            details={
                "operations": bench.operations // case.slower,
                "ours_ns": statistics.median(pair.ours for pair in pairs),
                "loop_ns": statistics.median(pair.peer for pair in pairs),
            },
        )
        for case, pairs in bench.pairs.items()
    ]
    facts = {
        "peer": "bench/counted_loop.c",
        "unit": "ns for acquire and release",
        "samples": bench.samples,
        "cpu": bench.cpu,
        "priority": bench.priority,
    }
    print(write_results("uncontended", facts, cases).name)
    return 0 if all(case["held"] for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
