# SPDX-License-Identifier: Apache-2.0
"""CPU time per sample and median latency of `timer`, against its peers.

They are cyclictest, jitterdebugger and a bare loop of clock_nanosleep and clock_gettime
(bench/bare_loop.c). All run two threads, SCHED_FIFO 80, one on each of the first two CPUs, memory
locked, sleep states held, for the same number of periods. CPU time is that of all processes and
threads (``wait4``), per sample taken; the agent keeps every sample and writes its stream to a file.
For CPU time cyclictest keeps its histogram in microseconds: in nanoseconds it would print a line
for each of 100000 buckets at its end, and pay for it. For the median it runs with ``-N``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pairs import Pair, compile_peer, require, run_pairs, summarise, write_results

from rtgauge.stats import Counts, CountsBuilder
from rtgauge.stream import Samples, read_stream
from rtgauge.target.local import find_agent

PRIORITY = 80
CPUS = sorted(os.sched_getaffinity(0))[:2]
SECONDS = {100: 2, 1000: 3}


def cpu_seconds(command: list[str], output: Path | None = None) -> float:
    """CPU time of the command, all its threads and the processes that it waited for."""
    with (output or Path(os.devnull)).open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


@dataclass(frozen=True)
class Programs:
    """The commands that are compared, for one interval."""

    folder: Path
    interval_us: int
    periods: int

    @property
    def cpus(self) -> str:
        return ",".join(map(str, CPUS))

    @property
    def stream(self) -> Path:
        return self.folder / "stream.cbor"

    def agent(self) -> list[str]:
        return [
            str(find_agent()), "run", "timer", "--interval", f"{self.interval_us}us",
            "--for", f"{self.periods * self.interval_us}us", "--dither", "no",
            "--cpu", self.cpus, "--priority", str(PRIORITY), "--output", str(self.stream),
        ]  # fmt: skip

    def cyclictest(self, *histogram: str) -> list[str]:
        return [
            "cyclictest", "-q", "-m", "-a", self.cpus, "-t", str(len(CPUS)), "-d", "0",
            "-p", str(PRIORITY), "-i", str(self.interval_us), "-l", str(self.periods), *histogram,
        ]  # fmt: skip

    def jitterdebugger(self) -> list[str]:
        return [
            "jitterdebugger", "-a", self.cpus, "-p", str(PRIORITY), "-i", str(self.interval_us),
            "-l", str(self.periods), "-o", str(self.folder / "jitterdebugger"),
        ]  # fmt: skip

    def bare_loop(self) -> list[str]:
        return [
            str(self.folder / "bare_loop"), str(self.interval_us * 1000), str(self.periods),
            str(PRIORITY), *map(str, CPUS),
        ]  # fmt: skip

    def per_sample(self, command: list[str]) -> float:
        """Microseconds of CPU time per sample of a peer: peers run until all are there."""
        return cpu_seconds(command) / (self.periods * len(CPUS)) * 1e6

    def agent_per_sample(self) -> float:
        """The same of the agent, which ends in time and counts the periods that it missed."""
        seconds = cpu_seconds(self.agent())
        return seconds / self.samples().count * 1e6

    def samples(self) -> Counts:
        """All samples of the agent's last stream, both threads together."""
        counts = CountsBuilder()
        for record in read_stream(self.stream):
            if isinstance(record, Samples):
                counts.add(record.values)
        return counts.build()

    def agent_median(self) -> float:
        """Median latency in microseconds."""
        cpu_seconds(self.agent())
        return self.samples().percentile(50) / 1000

    def cyclictest_median(self) -> float:
        """The same, from cyclictest's histogram in nanoseconds."""
        printed = self.folder / "cyclictest.txt"
        cpu_seconds(self.cyclictest("-N", "-h", "100000"), printed)
        rows = []
        over = 0
        for line in printed.read_text().splitlines():
            words = line.split()
            if words and words[0].isdigit():
                rows.append((int(words[0]), sum(map(int, words[1:]))))
            elif line.startswith("# Histogram Overflows:"):
                over = sum(map(int, words[3:]))
        rank = (sum(count for _, count in rows) + over + 1) // 2
        for value, count in rows:
            rank -= count
            if rank <= 0:
                return value / 1000
        raise SystemExit("half of cyclictest's samples are above 100 us: this machine is too busy")


def cases(folder: Path, pairs: int) -> list[dict[str, object]]:
    done = []
    for interval_us, seconds in SECONDS.items():
        programs = Programs(folder, interval_us, seconds * 1_000_000 // interval_us)
        peers: list[tuple[str, list[str], float]] = [
            ("cyclictest -h 400", programs.cyclictest("-h", "400"), 1.05),
            ("jitterdebugger", programs.jitterdebugger(), 1.05),
            ("bare loop", programs.bare_loop(), 1.15),
        ]
        for name, command, limit in peers:
            done.append(
                compare(
                    f"CPU time per sample at {interval_us} us, {name}",
                    pairs,
                    programs.agent_per_sample,
                    partial(programs.per_sample, command),
                    limit,
                )
            )
        done.append(
            compare(
                f"median latency at {interval_us} us, cyclictest -N",
                pairs,
                programs.agent_median,
                programs.cyclictest_median,
                1.05,
            )
        )
    return done


def compare(
    name: str, pairs: int, ours: Callable[[], float], peer: Callable[[], float], limit: float
) -> dict[str, object]:
    measured: list[Pair] = run_pairs(pairs, ours, peer, name)
    return summarise(name, measured, at_most=limit, details={"unit": "us"})


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU time per sample and median latency")
    parser.add_argument("--pairs", type=int, default=30)
    arguments = parser.parse_args()
    require("cyclictest", "jitterdebugger", "cc")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compile_peer("bare_loop", folder)
        results = cases(folder, arguments.pairs)
    facts = {
        "peer": "cyclictest and jitterdebugger, bench/bare_loop.c",
        "threads": len(CPUS),
        "priority": PRIORITY,
        "seconds": SECONDS,
    }
    print(write_results("timer", facts, results).name)
    return 0 if all(case["held"] for case in results) else 1


if __name__ == "__main__":
    sys.exit(main())
