# SPDX-License-Identifier: Apache-2.0
"""User-space instructions per sample, counted exactly (callgrind).

Those of the measuring thread of the agent and of cyclictest with its histogram, and those of the
agent's draining thread. Each program runs twice, for different numbers of periods; the difference
of the counts over the difference of the samples is the cost of a sample, without start and end.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from pairs import require, write_results

from rtgauge.target.local import find_agent

CPU = str(min(os.sched_getaffinity(0)))
TIMEOUT_S = 300.0


def threads_of(command: list[str], folder: Path) -> list[int]:
    """Instructions of each thread of the command, in the order of their numbers."""
    for old in folder.glob("out*"):
        old.unlink()
    subprocess.run(
        ["valgrind", "--tool=callgrind", "--separate-threads=yes",
         f"--callgrind-out-file={folder / 'out'}", *command],
        check=True, timeout=TIMEOUT_S, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    counts = []
    for path in sorted(folder.glob("out-*")):
        found = re.search(r"^totals: (\d+)", path.read_text(), re.MULTILINE)
        counts.append(int(found.group(1)) if found else 0)
    return counts


def agent(periods: int, interval_us: int, folder: Path) -> list[str]:
    return [
        str(find_agent()), "run", "timer", "--cpu", CPU, "--interval", f"{interval_us}us",
        "--for", f"{periods * interval_us}us", "--dither", "no", "--keep-settings",
        "--output", str(folder / "stream.cbor"),
    ]  # fmt: skip


def cyclictest(periods: int, interval_us: int, _folder: Path) -> list[str]:
    return [
        "cyclictest", "-q", "-N", "-m", "-a", CPU, "-t", "1", "-p", "80", "-h", "100000",
        "-i", str(interval_us), "-l", str(periods),
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="user-space instructions per sample")
    parser.parse_args()
    require("valgrind", "cyclictest")
    cases = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for interval_us, few, many in ((1000, 2000, 6000), (200, 5000, 25000)):
            per_sample: dict[str, list[float]] = {}
            for program, command in (("agent", agent), ("cyclictest", cyclictest)):
                less = threads_of(command(few, interval_us, folder), folder)
                more = threads_of(command(many, interval_us, folder), folder)
                per_sample[program] = [
                    (after - before) / (many - few)
                    for before, after in zip(less, more, strict=True)
                ]
            # thread 1 is the program's main thread: the drain of the agent
            ours, peer = per_sample["agent"][1], per_sample["cyclictest"][1]
            drain = per_sample["agent"][0]
            print(
                f"{interval_us} us: measuring thread {ours:.1f}, of cyclictest {peer:.1f}; "
                f"draining thread {drain:.1f}"
            )
            cases.append(
                {
                    "case": f"user-space instructions per sample at {interval_us} us",
                    "measuring_thread": round(ours, 2),
                    "cyclictest_measuring_thread": round(peer, 2),
                    "draining_thread": round(drain, 2),
                    "at_most": round(peer, 2),
                    "held": ours <= peer,
                }
            )
    print(write_results("instructions", {"counted_by": "callgrind"}, cases).name)
    return 0 if all(case["held"] for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
