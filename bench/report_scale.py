# SPDX-License-Identifier: Apache-2.0
"""A run of 2·10⁸ samples: its sealed size, and what all statistics with the report take.

The samples are made (log-normal around 5 us, a few of them far out), written as a stream and sealed
by the store as those of a real run. The size is compared with the samples' entropy; the report is
made by the command line in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from pairs import at_most, write_results

from rtgauge.stats import CountsBuilder
from rtgauge.store import Store, new_run_id
from rtgauge.stream import StreamWriter, Tally
from rtgauge.target.local import find_agent

LIMITS = {"seconds": 15.0, "memory_mib": 1024.0, "report_mb": 3.0, "size_over_entropy": 1.15}
SERIES = 2
BLOCK = 16_000
INTERVAL_NS = 20_000
TIMEOUT_S = 600.0


def write_stream(store: Store, document: dict[str, object], samples: int) -> float:
    """Fill the step's stream and seal it; the entropy of the samples, in bytes."""
    entropy = 0.0
    with store.create(document) as folder:
        with folder.append_stream(0) as stream:
            writer = StreamWriter()
            stream.write(header(writer, str(document["id"])))
            for number in range(SERIES):
                stream.write(series(writer, number, INTERVAL_NS))
            last = (samples - 1) * INTERVAL_NS
            tallies = [Tally(n, count=samples, last_due_ns=last) for n in range(SERIES)]
            for number in range(SERIES):
                counts = CountsBuilder()
                random = np.random.default_rng(number)
                for start in range(0, samples, BLOCK):
                    count = min(BLOCK, samples - start)
                    values = random.lognormal(math.log(5000), 0.25, count).astype("<i4")
                    values[random.random(count) < 1e-5] += 40_000
                    counts.add(values)
                    stream.write(writer.samples(number, start, start * INTERVAL_NS, values))
                table = counts.build()
                share = table.counts / table.count
                entropy += float(-(table.counts * np.log2(share)).sum()) / 8
            stream.write(writer.trailer(tallies, duration_ns=samples * INTERVAL_NS))
        folder.seal(0)
        document["state"] = "complete"
        folder.write_document(document)
        store.update(folder)
    return entropy


def header(writer: StreamWriter, run: str) -> bytes:
    parameters = {"interval": {"asked": "20us", "effective": "20us"}}
    return writer.header(
        agent="0.1.0", machine=os.uname().machine, run=run, measurement="timer",
        parameters=parameters,
    )  # fmt: skip


def series(writer: StreamWriter, number: int, interval_ns: int) -> bytes:
    labels = {"method": "clock_nanosleep"}
    return writer.series(
        number, "latency", cpu=number, thread=number, priority=80, labels=labels,
        interval_ns=interval_ns,
    )  # fmt: skip


def document(samples: int) -> dict[str, object]:
    agent = subprocess.run(
        [str(find_agent()), "describe"], check=True, capture_output=True, text=True, timeout=60
    )
    parameters = {"interval": "20us"}
    step = {
        "step": 0, "measurement": "timer", "parameters": parameters, "load": "idle",
        "budget_ns": None, "rate_per_hour": None, "role": "measurement", "state": "complete",
        "reason": "", "remedy": "", "folder": "steps/000",
        "duration_s": samples * INTERVAL_NS / 1e9,
    }  # fmt: skip
    return {
        "format": "rtgauge-run", "version": 1, "id": new_run_id(), "study": None, "label": "scale",
        "repeat": 0, "target": "local", "boot_id": "", "started": "2026-01-01T00:00:00Z",
        "duration_s": samples * INTERVAL_NS / 1e9, "state": "running", "reason": "", "remedy": "",
        "plan": {}, "environment": {}, "findings": [], "catalogue": json.loads(agent.stdout),
        "steps": [step],
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="statistics and report of a long run")
    parser.add_argument("--samples", type=int, default=200_000_000)
    parser.add_argument("--repeat", type=int, default=3, help="reports, of which the median counts")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = document(arguments.samples)
        started = time.monotonic()
        with Store.open(name) as store:
            entropy = write_stream(store, run, arguments.samples // SERIES)
        made_s = time.monotonic() - started
        sealed = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
        times, memory = [], 0
        report = folder / "report.html"
        for _ in range(arguments.repeat):
            report.unlink(missing_ok=True)
            started = time.monotonic()
            process = subprocess.Popen(
                [sys.executable, "-m", "rtgauge", "report", "last", "-o", str(report),
                 "--store", name],
            )  # fmt: skip
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            times.append(time.monotonic() - started)
            memory = max(memory, usage.ru_maxrss)
            if process.returncode != 0:
                raise SystemExit(f"rtgauge report ended with {process.returncode}")
        size = report.stat().st_size
    found = {
        "seconds": sorted(times)[len(times) // 2],
        "memory_mib": memory / 1024,
        "report_mb": size / 1e6,
        "size_over_entropy": sealed / entropy,
    }
    cases = [at_most(what, value, LIMITS[what]) for what, value in found.items()]
    facts = {
        "samples": arguments.samples,
        "made_and_sealed_s": made_s,
        "sealed_bytes": sealed,
        "all_seconds": times,
    }
    print(write_results("report_scale", facts, cases).name)
    return 0 if all(case["held"] for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
