# SPDX-License-Identifier: Apache-2.0
"""A capture of 10⁸ samples on two channels: how long its import takes, and how much memory.

The capture is made as an analyser would save it at 24 MHz: about four seconds, an event each
millisecond, answered after 20 us and more. It is imported by the command line in a process of its
own, into a new store each time; as a session of sigrok, and as the VCD file that sigrok-cli makes
of it at 1 MHz.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
from pairs import at_most, write_results

LIMITS = {"seconds": 10.0, "memory_mib": 1024.0}
RATE = 24_000_000
PERIOD = RATE // 1000
PIECE = 4 << 20


def make(path: Path, samples: int, rate: str) -> int:
    """A session of two lines; how many events it has."""
    random = np.random.default_rng(1)
    number = samples // PERIOD - 1
    events = 1000 + np.arange(number) * PERIOD + random.integers(-20, 20, number)
    answers = events + 480 + random.gamma(2.0, 200.0, number).astype(np.int64)
    data = np.zeros(samples, np.uint8)
    for bit, at in ((0, events), (1, answers)):
        toggles = np.zeros(samples, np.uint8)
        toggles[at] = 1
        data |= (np.cumsum(toggles, dtype=np.uint8) & 1) << np.uint8(bit)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("version", "2")
        archive.writestr(
            "metadata",
            "[global]\nsigrok version=0.5.2\n\n[device 1]\ncapturefile=logic-1\ntotal probes=2\n"
            f"samplerate={rate}\nprobe1=D0\nprobe2=D1\nunitsize=1\n",
        )
        for place, start in enumerate(range(0, samples, PIECE), 1):
            archive.writestr(f"logic-1-{place}", data[start : start + PIECE].tobytes())
    return number


def imported(path: Path, store: Path) -> tuple[float, float, float]:
    """Import once, into a new store: seconds, those of CPU time, and MiB of memory."""
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "rtgauge", "import", str(path), "--event", "D0", "--answer", "D1",
         "--store", str(store)],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"rtgauge import ended with {process.returncode}")
    worked = usage.ru_utime + usage.ru_stime
    return time.monotonic() - started, worked, usage.ru_maxrss / 1024


def measure(path: Path, folder: Path, repeat: int) -> tuple[list[float], list[float], float]:
    times, worked, memory = [], [], 0.0
    for number in range(repeat):
        store = folder / f"store-{path.suffix[1:]}-{number}"
        store.mkdir()
        seconds, cpu, mib = imported(path, store)
        shutil.rmtree(store)
        times.append(seconds)
        worked.append(cpu)
        memory = max(memory, mib)
    return times, worked, memory


def main() -> int:
    parser = argparse.ArgumentParser(description="importing a long capture")
    parser.add_argument("--samples", type=int, default=100_000_000)
    parser.add_argument("--repeat", type=int, default=3, help="imports, of which the median counts")
    arguments = parser.parse_args()
    facts: dict[str, object] = {"samples": arguments.samples, "channels": 2}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session = folder / "capture.sr"
        facts["events"] = make(session, arguments.samples, "24 MHz")
        facts["file_bytes"] = session.stat().st_size
        times, facts["cpu_seconds"], memory = measure(session, folder, arguments.repeat)
        facts["all_seconds"] = times
        if shutil.which("sigrok-cli"):
            slow, vcd = folder / "slow.sr", folder / "capture.vcd"
            make(slow, arguments.samples, "1 MHz")
            subprocess.run(["sigrok-cli", "-i", slow, "-O", "vcd", "-o", vcd], check=True)
            seconds, worked, mib = measure(vcd, folder, 1)
            facts |= {"vcd_seconds": seconds, "vcd_cpu_seconds": worked, "vcd_memory_mib": mib}
    found = {"seconds": sorted(times)[len(times) // 2], "memory_mib": memory}
    cases = [at_most(what, value, LIMITS[what]) for what, value in found.items()]
    print(write_results("capture_import", facts, cases).name)
    return 0 if all(case["held"] for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
