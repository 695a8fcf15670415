# SPDX-License-Identifier: Apache-2.0
"""54 hours of one step: the size of its folder, and the memory that sealing and reading it take.

The stream is made as an agent would write it at 1 ms: the records that come for as long as a step
lasts (clocks, work, ambience, snapshots) all, of the samples as few blocks as in an hour, whose
number does not matter here (report_scale.py has it). Sealing, and the figures of the ambience, are
made in processes of their own, for an hour and for 54 of them: the difference is what grows. The
same for a step in which periods were missed a thousand times, and for one in which a million times.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from pairs import at_most, write_results
from report_scale import document, header, series

from rtgauge.store import Store
from rtgauge.stream import RecordType, StreamWriter, Tally

NS = 10**9
MS = 10**6
HOURS = 54
GROWTH_MIB = 16.0
MISSED = 1_000_000
# One row group of a million samples, and 48 bytes for the place of each block and each gap.
MISSED_MIB = 200.0
LOADS = ("sched", "net")
DETAIL_S, COARSE_S, SNAPSHOT_S = 600, 10, 60
BLOCKS = 900
BUCKETS = 100

SEAL = """
import resource, sys
from pathlib import Path
from rtgauge.store import RunFolder
with RunFolder.open(Path(sys.argv[1])) as folder:
    folder.seal(0)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
READ = """
import resource, sys
from pathlib import Path
from rtgauge.report.pictures.strips import strips
from rtgauge.report.results.background import Watched
from rtgauge.store import RunFolder
from rtgauge.store.samples import StoredRun
path = Path(sys.argv[1])
with RunFolder.open(path) as folder:
    step = StoredRun(path, folder.document).steps[0]
    assert len(Watched().step(step.ambience).extents) > 4
    assert strips(step)
    assert sum(1 for _ in step.series[0].values()) > 0
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def ambience(second: int, cpus: int) -> dict[str, object]:
    random = np.random.default_rng(second)
    return {
        "time_ns": second * NS,
        "cpus": list(range(cpus)),
        "frequency_khz": random.integers(800_000, 3_600_000, cpus).tolist(),
        "interrupts": random.integers(2_000, 30_000, cpus).tolist(),
        "steal_ns": [0] * cpus,
        "smi": 0,
        "temperature_mc": {f"{zone} zone": 40_000 + zone for zone in range(4)},
    }


def records(run: str, cpus: int, seconds: int) -> Iterator[bytes]:
    writer = StreamWriter()
    yield header(writer, run)
    for number in range(cpus):
        yield series(writer, number, MS)
    values = np.full(200, 5_000, "<i4")
    tallies = [Tally(number, max=10**6, last_due_ns=seconds * NS) for number in range(cpus)]
    told = 0
    for second in range(1, seconds + 1):
        if second % (seconds // BLOCKS) == 0:
            at = (second - 1) * 1000
            for tally in tallies:
                yield writer.samples(tally.series, at, at * MS, values)
                tally.count += len(values)
        if second <= DETAIL_S or second % COARSE_S == 0:
            yield writer.record(RecordType.AMBIENCE, ambience(second, cpus))
            for load in LOADS:
                yield writer.record(RecordType.WORK, {
                    "load": load, "unit": "messages", "count": 12_345 + second,
                    "from_ns": told * NS, "to_ns": second * NS,
                })  # fmt: skip
            told = second
        if second % COARSE_S == 0:
            clock = dict.fromkeys(("monotonic_ns", "boottime_ns", "realtime_ns"), second * NS)
            yield writer.record(RecordType.CLOCK, clock)
        if second % (COARSE_S if second <= DETAIL_S else SNAPSHOT_S) == 0:
            buckets = {1000 + k: second * 1000 // BUCKETS + 1 for k in range(BUCKETS)}
            for tally in tallies:
                tally.sum, tally.buckets = second * 10**7, buckets
                yield writer.histogram(tally)
    yield writer.trailer(tallies, duration_ns=seconds * NS)


def disturbed(run: str, times: int) -> Iterator[bytes]:
    """Every other period of a series is missed."""
    writer = StreamWriter()
    yield header(writer, run)
    yield series(writer, 0, MS)
    values = np.full(1, 5_000, "<i4")
    for at in range(0, 2 * times, 2):
        yield writer.samples(0, at, at * MS, values)
        yield writer.missed(0, at, 1, at * MS)
        if at == 0:
            yield writer.record(RecordType.AMBIENCE, ambience(1, 2))
            yield writer.record(RecordType.AMBIENCE, ambience(2, 2))
    last = (2 * times - 1) * MS
    total = Tally(0, count=times, missed=times, overruns=times, last_due_ns=last)
    yield writer.trailer([total], duration_ns=times * MS)


def peak_mib(program: str, run: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-c", program, str(run)],
        check=True,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    return int(done.stdout) / 1024


Stream = Iterator[bytes]


def measure(made: Callable[[str], Stream]) -> dict[str, float]:
    """Memory in MiB, sizes in bytes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        about = document(0)
        with (
            Store.open(str(folder)) as store,
            store.create(about) as run,
        ):
            with run.append_stream(0) as stream:
                for record in made(run.id):
                    stream.write(record)
            path, step = run.path, run.step_folder(0)
        stream_bytes = os.stat(step / "stream.cbor").st_size
        sealing = peak_mib(SEAL, path)
        return {
            "sealing_mib": sealing,
            "reading_mib": peak_mib(READ, path),
            "stream_bytes": stream_bytes,
            "records_bytes": os.stat(step / "records.cbor").st_size,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description="memory and size of a step of days")
    parser.add_argument("--cpus", type=int, nargs="*", default=[2, 64])
    parser.add_argument("--hours", type=int, default=HOURS)
    arguments = parser.parse_args()
    pairs: dict[str, tuple[Callable[[str], Stream], Callable[[str], Stream]]] = {
        f"{cpus} CPUs": (
            partial(records, cpus=cpus, seconds=3600),
            partial(records, cpus=cpus, seconds=arguments.hours * 3600),
        )
        for cpus in arguments.cpus
    }
    pairs["missed periods"] = (
        partial(disturbed, times=MISSED // 1000),
        partial(disturbed, times=MISSED),
    )
    cases = []
    for name, (little, much) in pairs.items():
        short, long = measure(little), measure(much)
        print(f"{name}, short: {short}\n{name}, long: {long}")
        for what in ("sealing_mib", "reading_mib"):
            growth = long[what] - short[what]
            limit = MISSED_MIB if name == "missed periods" else GROWTH_MIB
            judged = at_most(f"{name}: {what}", growth, limit)
            cases.append({**judged, "short": short, "long": long})
    print(write_results("long_run", {"hours": arguments.hours}, cases).name)
    return 0 if all(case["held"] for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
