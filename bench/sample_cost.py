# SPDX-License-Identifier: Apache-2.0
"""What a sample costs the CPU, in instructions: the agent and cyclictest on an emulated board.

In the lab's counted mode one instruction takes one nanosecond, so the kernel's own accounts of CPU
time are counts of instructions. Both programs sleep to absolute times by clock_nanosleep() on the
board's one CPU, with the same interval, policy and priority: cyclictest with its histogram, as
Debian has it for that architecture; the agent once with every sample kept, and once with its
histogram alone. Compared are, for each sample,

- the measuring thread: its time on the CPU by the kernel's account;
- the program: all of its threads;
- the machine: what a loop of SCHED_IDLE loses while the program runs, against a machine without it.
  Interrupts, switches and whatever the program has others do are in this one alone.

Required: none of them above cyclictest's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pairs import write_results

from rtgauge.lab.boards import Machine
from rtgauge.lab.cache import cache_folder, locked
from rtgauge.lab.machine import Limits
from rtgauge.lab.packages import Apt
from rtgauge.target.lab import LabTarget

BENCH = Path(__file__).resolve().parent
TIMEOUT_S = 300.0
BOARDS = ("arm64-rt-6.1",)
LIMITS = Limits(order_cpu_s=1800.0, order_s=7200.0)
PRIORITY = 80
SETTLE_MS = 2000
# ms: of the window in which the CPU idles between samples, and of that in which it is busy
WINDOW_MS = 10_000
BUSY_MS = 1000
INTERVALS_US = (1000, 200)
TURNS_MORE = 0.001
# Debian's packages that cyclictest needs, itself among them, and what is taken of them
PACKAGES = {
    "rt-tests": ("cyclictest",),
    "libnuma1": ("libnuma.so.1",),
    "libc6": (
        *("libc.so.6", "libm.so.6", "libpthread.so.0", "librt.so.1"),
        *("ld-linux-aarch64.so.1", "ld-linux-x86-64.so.2"),
    ),
}
WHERE = {"cyclictest": "/usr/bin", "ld-linux-x86-64.so.2": "/lib64"}
CYCLICTEST = "/usr/bin/cyclictest"
AGENT = "/agent"
PROGRAM = "/tmp/sample_cost"


@dataclass(frozen=True)
class Cost:
    """Instructions for each sample."""

    thread: float
    program: float
    machine: float


def cyclictest(interval_us: int) -> list[str]:
    return [
        CYCLICTEST, "-q", "-N", "-m", "-a", "0", "-t", "1", "-p", str(PRIORITY), "-h", "1000",
        "-i", str(interval_us), "-D", "1h",
    ]  # fmt: skip


def agent(interval_us: int, *more: str) -> list[str]:
    return [
        AGENT, "run", "timer", "--method", "clock_nanosleep", "--cpu", "0",
        "--priority", str(PRIORITY), "--interval", f"{interval_us}us", "--for", "1h",
        "--dither", "no", "--keep-settings", "--output", "/tmp/stream.cbor", *more,
    ]  # fmt: skip


def packaged(machine: Machine, folder: Path) -> tuple[dict[str, bytes], str]:
    """Files for the board by their paths there, from Debian's packages; cyclictest's version."""
    cache = cache_folder()
    found: dict[str, bytes] = {}
    version = ""
    with locked(cache, ("kernels", "boards"), print):
        apt = Apt(cache / "apt", print)
        apt.update()
        for name, wanted in PACKAGES.items():
            package = apt.need(name, machine.debian)
            version = version or package.version
            unpacked = folder / name
            words = ["dpkg-deb", "-x", str(apt.fetch(package, folder)), str(unpacked)]
            subprocess.run(words, check=True, timeout=TIMEOUT_S)
            for file in wanted:
                for path in unpacked.glob(f"**/{file}"):
                    found[f"{WHERE.get(file, '/lib')}/{file}"] = path.read_bytes()
    return found, version


def output_of(target: LabTarget, words: Sequence[str]) -> bytes:
    """What a command of a board prints. The program ends if it fails."""
    output = target.execute(words)
    if output.code:
        said = output.stderr.decode(errors="replace").strip()
        raise SystemExit(f"{target.name}: {' '.join(words)}: code {output.code}: {said}")
    return output.stdout


class Board:
    """A board, and what is measured there."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.target = LabTarget(f"{name},mode=counted", LIMITS)

    def prepare(self) -> str:
        """Start it, and put all programs there; cyclictest's version."""
        machine = self.target.board.machine
        self.target.environment()
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "sample_cost")
            words = [f"{machine.triplet}gcc", "-O2", "-static", "-Wall", "-Wextra", "-Werror"]
            words += [str(BENCH / "sample_cost.c"), "-o", str(program)]
            subprocess.run(words, check=True, timeout=TIMEOUT_S)
            self.target.put(PROGRAM, program.read_bytes())
            files, version = packaged(machine, Path(folder))
        for path, content in files.items():
            output_of(self.target, ["/bin/busybox", "mkdir", "-p", str(Path(path).parent)])
            self.target.put(path, content)
        return version

    def watch(self, words: Sequence[str] = ()) -> Any:
        """What bench/sample_cost.c found."""
        times = [str(value) for value in (SETTLE_MS, WINDOW_MS, BUSY_MS)]
        return json.loads(output_of(self.target, [PROGRAM, *times, *words]))

    def cost(self, words: Sequence[str], interval_us: int, alone: int) -> Cost:
        """Cost of a program. Without one the loop has ``alone`` rounds."""
        found = self.watch(words)
        samples = WINDOW_MS * 1000 / interval_us
        samples_busy = BUSY_MS * 1000 / interval_us
        threads = sorted(found["threads"], key=lambda thread: -int(thread[2]))
        for turns, due in ((threads[0][2], samples), (found["turns"], samples_busy)):
            # each sample is one turn, one more or less at the ends of a window; a few are two,
            # where the thread was preempted or waited for a lock
            if not due - 1 <= turns <= due * (1 + TURNS_MORE) + 1:
                raise SystemExit(f"{words[0]}: {turns} turns for {due:.0f} samples: {threads}")
        print(f"{words[0]}: {threads}", file=sys.stderr)
        return Cost(
            threads[0][1] / samples,
            sum(thread[1] for thread in threads) / samples,
            (1 - found["rounds"] / alone) * BUSY_MS * 1e6 / samples_busy,
        )


def cases_of(board: Board) -> list[dict[str, object]]:
    """All that is compared on a board."""
    cases: list[dict[str, object]] = []
    alone = board.watch()["rounds"]
    for interval_us in INTERVALS_US:
        peer = board.cost(cyclictest(interval_us), interval_us, alone)
        for kept, more in (("every sample kept", ()), ("histogram alone", ("--histogram-only",))):
            ours = board.cost(agent(interval_us, *more), interval_us, alone)
            for what, mine, theirs in (
                ("measuring thread", ours.thread, peer.thread),
                ("program", ours.program, peer.program),
                ("machine", ours.machine, peer.machine),
            ):
                name = f"{board.name}, {interval_us} us, {kept}: {what}"
                held = mine <= theirs
                print(
                    f"{name}: {mine:.1f}, cyclictest {theirs:.1f}, ratio {mine / theirs:.3f}"
                    f"{'' if held else ', NOT as required'}",
                    flush=True,
                )
                case = {"name": name, "ours": round(mine, 2), "peer": round(theirs, 2)}
                cases.append({**case, "ratio": round(mine / theirs, 4), "held": held})
    return cases


def main() -> int:
    parser = argparse.ArgumentParser(description="instructions of a sample, on emulated boards")
    parser.add_argument("boards", nargs="*", default=BOARDS, help="boards of the lab")
    cases: list[dict[str, object]] = []
    version = ""
    for name in parser.parse_args().boards:
        board = Board(name)
        try:
            version = board.prepare()
            cases += cases_of(board)
        finally:
            board.target.close()
    facts = {
        "peer": f"cyclictest (rt-tests {version})",
        "unit": "instructions for each sample",
        "priority": PRIORITY,
    }
    print(write_results("sample_cost", facts, cases).name)
    return 0 if all(case["held"] for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
