# SPDX-License-Identifier: Apache-2.0
"""Mean of `thread-switch` against elapsed time over the number of yields, found twice.

Once by a program of its own (bench/yields.c), which shares no line with the agent: threads that do
nothing but yield, timed as a whole. Once by the measurement's own batches, test loops without time
stamps between the others. Both must agree with the mean of the samples within 5 % (median of the
ratios). The agent keeps the kernel's settings as they are (--keep-settings), so that both run under
the same ones. Each has five runs, of which the calmest counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pairs import Pair, compile_peer, require, run_pairs, summarise, write_results

from rtgauge.stream import Samples, SeriesInfo, Table, read_stream
from rtgauge.target.local import find_agent

PRIORITY = 80
SAMPLES = 20000
# A run in which a hypervisor or the kernel took the CPU away says nothing of a switch.
RUNS = 5
TIMEOUT_S = 120.0
THREADS = (2, 10, 128, 1000)


class Programs:
    """The two that are compared, for one number of threads."""

    def __init__(self, folder: Path, cpu: int, threads: int) -> None:
        self.folder = folder
        self.cpu = cpu
        self.threads = threads
        self.batches: list[Pair] = []

    def samples_mean(self) -> float:
        """Mean of the samples in ns, of the calmest run. Also keeps that of the batches."""
        calmest = min((self.run_agent() for _ in range(RUNS)), key=lambda pair: pair.ours)
        self.batches.append(calmest)
        return calmest.ours

    def run_agent(self) -> Pair:
        """Mean of the samples, and of the batches of the same run."""
        stream = self.folder / "stream.cbor"
        subprocess.run(
            [find_agent(), "run", "thread-switch", "--threads", str(self.threads),
             "--samples", str(SAMPLES), "--cpu", str(self.cpu), "--priority", str(PRIORITY),
             "--keep-settings", "--output", str(stream)],
            check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S,
        )  # fmt: skip
        taken = total = 0
        batch = 0.0
        for record in read_stream(stream):
            if isinstance(record, SeriesInfo):
                assert record.labels == {"threads": str(self.threads)}
            elif isinstance(record, Samples):
                taken += len(record.values)
                total += int(record.values.sum())
            elif isinstance(record, Table) and record.name == "batches":
                ((_, mean_ps, _, _),) = record.rows
                batch = int(mean_ps) / 1000
        assert taken == SAMPLES
        return Pair(total / taken, batch, True)

    def elapsed_mean(self) -> float:
        """Elapsed time over the number of yields, in ns, of the calmest run."""
        return min(self.run_yields() for _ in range(RUNS))

    def run_yields(self) -> float:
        """The same of one run."""
        yields = max(SAMPLES // self.threads, 100)
        done = subprocess.run(
            [self.folder / "yields", str(self.threads), str(yields), str(self.cpu),
             str(PRIORITY - 1)],
            check=True, capture_output=True, text=True, timeout=TIMEOUT_S,
        )  # fmt: skip
        elapsed_ns, count = map(int, done.stdout.split())
        assert count == self.threads * yields
        return elapsed_ns / count


def cases(folder: Path, cpu: int, pairs: int) -> list[dict[str, object]]:
    done = []
    for threads in THREADS:
        programs = Programs(folder, cpu, threads)
        name = f"switch, {threads} threads"
        measured = run_pairs(pairs, programs.samples_mean, programs.elapsed_mean, name)
        for what, these in (
            ("elapsed over yields of another program", measured),
            ("elapsed over yields of its own batches", programs.batches[1:]),
        ):
            done.append(
                summarise(
                    f"{name}: mean of the samples to {what}", these,
                    at_least=0.95, at_most=1.05,
                    details={"unit": "ns", "samples": SAMPLES, "runs": RUNS},
                )
            )  # fmt: skip
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description="means of thread-switch, found in other ways")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    require("cc")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compile_peer("yields", folder)
        results = cases(folder, arguments.cpu, arguments.pairs)
    facts = {"peer": "bench/yields.c", "priority": PRIORITY}
    print(write_results("thread_switch", facts, results).name)
    return 0 if all(case["held"] for case in results) else 1


if __name__ == "__main__":
    sys.exit(main())
