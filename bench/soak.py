# SPDX-License-Identifier: Apache-2.0
"""A run of 10⁸ samples at 20 us: memory that does not grow, and every period accounted for.

The run is a user's: `rtgauge run timer` on a terminal, with the live view, on all CPUs but the
first (at 20 us a virtual CPU has little time left for anything else). Once a second the memory that
host and agent have of their own (anonymous and shared, swapped too; files are the page cache's) is
read from /proc/PID/status. What it grows by from the end of the first minute to the end of the
measurement must be at most 1 MiB for each; what sealing takes afterwards is separate. Samples and
missed periods of every series together must be the periods due, and Parquet must contain the
samples without the lost ones.

    python bench/soak.py --samples 6000000     a trial of two minutes on two CPUs
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pty
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pairs import write_results

INTERVAL_US = 20
SETTLED_S = 60.0
GROWTH_KIB = 1024
AGENT = "rtgauge-agent"
LAST_WORDS = 1 << 14
OWN = ("RssAnon:", "RssShmem:", "VmSwap:")


@dataclass
class Memory:
    """What a program had of its own, in KiB, by the second; and its whole resident size."""

    times: list[float] = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)

    def add(self, at: float, processes: list[dict[str, int]]) -> None:
        self.times.append(at)
        self.own.append(sum(one.get(name, 0) for one in processes for name in OWN))
        self.resident.append(sum(one.get("VmRSS:", 0) for one in processes))

    def growth(self, settled_s: float) -> int | None:
        """The largest after that time, less the first; None when there are not two of them."""
        late = [kib for at, kib in zip(self.times, self.own, strict=True) if at >= settled_s]
        return max(late) - late[0] if len(late) > 1 else None

    def document(self, settled_s: float) -> dict[str, object]:
        step = max(len(self.times) // 200, 1)
        return {
            "growth_kib": self.growth(settled_s),
            "seconds": [round(at, 1) for at in self.times[::step]],
            "own_kib": self.own[::step],
            "resident_kib": self.resident[::step],
        }


def status(pid: int) -> dict[str, int]:
    """The sizes of /proc/PID/status in KiB; empty when it has gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return {}
    rows = (line.split() for line in text.splitlines())
    return {row[0]: int(row[1]) for row in rows if row[-1] == "kB" and len(row) == 3}


def agents(host: int) -> list[int]:
    """The agent's processes below the host; its guardian and loads have names of their own."""
    found, below = [], [host]
    while below:
        pid = below.pop()
        with contextlib.suppress(OSError, ValueError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                below += [int(word) for word in (task / "children").read_text().split()]
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().startswith(AGENT[:15]):
                found.append(pid)
    return found


def swallow(terminal: int, last: bytearray) -> None:
    """Read what is written to a terminal until the writing ends. Keep the last words."""
    with contextlib.suppress(OSError):
        while chunk := os.read(terminal, 1 << 16):
            last += chunk
            del last[:-LAST_WORDS]


def watch(process: subprocess.Popen[bytes]) -> tuple[Memory, Memory, int]:
    """Memory of host and agent while it is measured, and the most the host had at all (KiB)."""
    host, agent, most = Memory(), Memory(), 0
    began = 0.0
    while process.poll() is None:
        now = time.monotonic()
        mine = status(process.pid)
        most = max(most, sum(mine.get(name, 0) for name in OWN))
        theirs = [one for one in map(status, agents(process.pid)) if one]
        # calibrations come first, and are short: their agents are others
        if theirs:
            began = began or now
            host.add(now - began, [mine])
            agent.add(now - began, theirs)
        time.sleep(1.0)
    return host, agent, most


def last_step(memory: Memory, other: Memory) -> None:
    """Drop what belongs to an earlier agent: readings before the last pause of over 1.5 s."""
    cut = 0
    for at in range(1, len(memory.times)):
        if memory.times[at] - memory.times[at - 1] > 2.5:
            cut = at
    for one in (memory, other):
        first = one.times[cut] if one.times else 0.0
        one.times = [at - first for at in one.times[cut:]]
        one.own, one.resident = one.own[cut:], one.resident[cut:]


def accounted(folder: Path, document: dict[str, Any]) -> list[dict[str, object]]:
    """For each series of the measurement what was due, and whether it all adds up."""
    (run,) = document["runs"]
    cases = []
    rows = {
        json.dumps([path.parent.name, path.stem]): pq.ParquetFile(path).metadata.num_rows
        for path in folder.rglob("series-*.parquet")
    }
    seals = {
        path.parent.name: json.loads(path.read_text(encoding="utf-8"))
        for path in folder.rglob("seal.json")
    }
    for one in run["series"]:
        if one["measurement"] != "timer":
            continue
        step = f"{one['step']:03d}"
        (sealed,) = (
            entry
            for entry in seals[step]["series"]
            if entry["name"] == one["name"] and entry["totals"]["count"] == one["count"]
            and entry["totals"]["missed"] == one["missed"]
        )  # fmt: skip
        totals = sealed["totals"]
        due = (totals["last_due_ns"] - totals["first_due_ns"]) // one["interval_ns"] + 1
        stored = rows[json.dumps([step, f"series-{sealed['series']}"])]
        cases.append(
            {
                "name": f"CPU {one['cpu']}: every period accounted",
                "due": due,
                "samples": one["count"],
                "missed": one["missed"],
                "lost": one["lost"],
                "stored": stored,
                "held": one["count"] + one["missed"] == due
                and stored == one["count"] - one["lost"],
            }
        )
    return cases


def main() -> int:
    parser = argparse.ArgumentParser(description="memory and accounting of a long run")
    parser.add_argument("--samples", type=int, default=100_000_000, help="of all series together")
    parser.add_argument("--settled", type=float, default=SETTLED_S, help="seconds")
    parser.add_argument("--no-results", action="store_true", help="print only")
    arguments = parser.parse_args()
    last = (os.cpu_count() or 1) - 1
    cpus = f"{min(1, last)}-{last}"
    each = -(-arguments.samples // max(last, 1))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = ["--store", str(folder)]
        host_side, view = pty.openpty()
        command = [
            *(sys.executable, "-m", "rtgauge", "run", "timer", "--for", "0", "--cpu", cpus),
            *("--interval", f"{INTERVAL_US}us", "--samples", str(each), *store),
        ]
        process = subprocess.Popen(command, stdin=view, stdout=view, stderr=view)
        os.close(view)
        words = bytearray()
        threading.Thread(target=swallow, args=(host_side, words), daemon=True).start()
        host, agent, most = watch(process)
        if process.returncode:
            print(words.decode(errors="replace"), file=sys.stderr)
            raise SystemExit(f"rtgauge run ended with {process.returncode}")
        last_step(agent, host)
        shown = subprocess.run(
            [sys.executable, "-m", "rtgauge", "show", "last", "--json", *store],
            check=True, capture_output=True, timeout=600,
        )  # fmt: skip
        cases = accounted(folder, json.loads(shown.stdout))
    for who, memory in (("host", host), ("agent", agent)):
        growth = memory.growth(arguments.settled)
        cases.append(
            {
                "name": f"{who}: growth after {arguments.settled:g} s",
                "held": growth is not None and growth <= GROWTH_KIB,
                **memory.document(arguments.settled),
            }
        )
    facts = {
        "samples": arguments.samples,
        "cpus": cpus,
        "interval_us": INTERVAL_US,
        "measured_s": host.times[-1] if host.times else 0.0,
        "host_most_kib": most,
    }
    for case in cases:
        print("held  " if case["held"] else "MISSED", case["name"], {
            key: value for key, value in case.items() if not isinstance(value, list | str | bool)
        })  # fmt: skip
    if not arguments.no_results:
        print(write_results("soak", facts, cases).name)
    return 0 if all(case["held"] for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
