# SPDX-License-Identifier: Apache-2.0
"""Messages per second of the load ``sched`` against hackbench's, in pairs
(docs/reference/loads.md).

Both run with the same groups, senders, size, transport and kind. Ours is counted by the agent's own
code, after a warm-up. The time that hackbench prints includes the start and the end of its 400
processes, which would count against it. A short run with each long one removes that: its rate
is the difference of the messages by the difference of the times. At least 0.95 is required. Takes
about eight minutes; ``--pairs 4 --seconds 1`` gives a first look.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pairs import run_pairs, summarise, write_results

REQUIRED = 0.95
GROUPS = 10
FDS = 20  # senders, and receivers, in each group
SIZE = 100
SHORT = 10  # the short run is the long one's share of one in this many
TIMEOUT_S = 300  # far above what either takes
AGENT = Path(__file__).parent.parent / "agent"
DRIVER = "tests/load_driver.c"


@dataclass(frozen=True)
class Case:
    """One way in which both pass messages."""

    transport: str
    kind: str

    @property
    def name(self) -> str:
        return f"{self.transport}, {self.kind}"

    @property
    def hackbench(self) -> list[str]:
        words = ["hackbench", "-g", str(GROUPS), "-f", str(FDS), "-s", str(SIZE)]
        words += ["-p"] if self.transport == "pipe" else []
        words += ["-T"] if self.kind == "thread" else []
        return words

    @property
    def load(self) -> str:
        return (
            f"sched:groups={GROUPS}:fds={FDS}:size={SIZE}"
            f":transport={self.transport}:kind={self.kind}"
        )


CASES = [
    Case("socket", "process"),
    Case("pipe", "process"),
    Case("socket", "thread"),
    Case("pipe", "thread"),
]


def _is_agent(path: Path) -> bool:
    return path.name != "main.c" and path.parent.name != "tests"


def build_driver(folder: Path) -> Path:
    """The driver with the load's code, built as the agent is."""
    driver = folder / "load_driver"
    command = ["cc", "-std=gnu11", "-O2", "-D_GNU_SOURCE", f"-I{AGENT}", "-pthread"]
    command += [f"-I{AGENT.parent / 'kmod'}"]
    command += ['-DRTGAUGE_VERSION="bench"', "-o", str(driver), str(AGENT / DRIVER)]
    command += sorted(str(path) for path in AGENT.rglob("*.c") if _is_agent(path))
    subprocess.run(command, check=True, timeout=TIMEOUT_S)
    return driver


def measure_load(driver: Path, case: Case, seconds: float) -> float:
    """Messages per second of ours."""
    done = subprocess.run(
        [driver, case.load, f"{round(seconds * 1000)}ms"],
        check=True,
        timeout=TIMEOUT_S,
        stdout=subprocess.PIPE,
    )
    work = json.loads(done.stdout)
    return float(work["count"]) / float(work["to_ns"] - work["from_ns"]) * 1e9


def time_hackbench(case: Case, loops: int) -> float:
    """Seconds that hackbench takes, when each sender sends ``loops`` times to each receiver."""
    done = subprocess.run(
        [*case.hackbench, "-l", str(loops)],
        check=True,
        timeout=TIMEOUT_S,
        stdout=subprocess.PIPE,
        text=True,
    )
    found = re.search(r"^Time: ([0-9.]+)$", done.stdout, re.MULTILINE)
    if not found:
        raise SystemExit(f"hackbench printed no time, but: {done.stdout}")
    return float(found.group(1))


def measure_hackbench(case: Case, loops: int) -> float:
    """Messages per second of hackbench, without its start and end."""
    short = max(1, loops // SHORT)
    seconds = time_hackbench(case, loops + short) - time_hackbench(case, short)
    return GROUPS * FDS * FDS * loops / seconds


def run_case(driver: Path, case: Case, pairs: int, seconds: float) -> dict[str, object]:
    rate = GROUPS * FDS * FDS * 100 / time_hackbench(case, 100)
    loops = max(1, round(seconds * rate / (GROUPS * FDS * FDS)))
    measured = run_pairs(
        pairs,
        lambda: measure_load(driver, case, seconds),
        lambda: measure_hackbench(case, loops),
        case.name,
    )
    details = {"load": case.load, "hackbench": " ".join([*case.hackbench, "-l", str(loops)])}
    return summarise(case.name, measured, at_least=REQUIRED, details=details)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=30, help="of each case")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--output", type=Path, help="folder for the results file")
    arguments = parser.parse_args()
    if not shutil.which("hackbench"):
        raise SystemExit("hackbench is not here\ninstall Debian's package rt-tests")
    version = subprocess.run(
        ["hackbench", "--help"], check=False, timeout=10, capture_output=True, text=True
    )
    with tempfile.TemporaryDirectory() as folder:
        driver = build_driver(Path(folder))
        cases = [run_case(driver, case, arguments.pairs, arguments.seconds) for case in CASES]
    facts = {
        "ours": "load sched of the agent",
        "peer": (version.stdout + version.stderr).split("\n", 1)[0].strip(),
        "unit": "messages/s",
        "seconds": arguments.seconds,
    }
    where = {"folder": arguments.output} if arguments.output else {}
    print(write_results("load_sched", facts, cases, **where).name)
    return 0 if all(case["held"] for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
