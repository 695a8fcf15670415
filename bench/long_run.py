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
from pairs import write_results
from report_scale import document, header, series, trailer

from rtgauge.store import Store
from rtgauge.stream import RecordType, encode_record

NS = 10**9
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
from rtgauge.report.ambience import Watched
from rtgauge.report.strips import strips
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


def snapshot(number: int, second: int, count: int) -> dict[str, object]:
    each = second * 1000 // BUCKETS + 1
    return {
        "series": number, "count": count, "min": 0, "max": 10**6, "sum": second * 10**7,
        "missed": 0, "lost": 0, "overruns": 0, "sub_bits": 7,
        "buckets": [part for k in range(BUCKETS) for part in (1000 + k, each)],
    }  # fmt: skip


def records(run: str, cpus: int, seconds: int) -> Iterator[tuple[RecordType, dict[str, object]]]:
    yield RecordType.HEADER, header(run)
    for number in range(cpus):
        yield RecordType.SERIES, {**series(number), "interval_ns": NS // 1000}
    values = np.full(200, 5_000, "<i4")
    taken = [0] * cpus
    told = 0
    for second in range(1, seconds + 1):
        if second % (seconds // BLOCKS) == 0:
            for number in range(cpus):
                at = (second - 1) * 1000
                yield RecordType.SAMPLES, {
                    "series": number, "index": at, "due_ns": at * NS // 1000, "samples": values,
                }  # fmt: skip
                taken[number] += len(values)
        if second <= DETAIL_S or second % COARSE_S == 0:
            yield RecordType.AMBIENCE, ambience(second, cpus)
            for load in LOADS:
                yield RecordType.WORK, {
                    "load": load, "unit": "messages", "count": 12_345 + second,
                    "from_ns": told * NS, "to_ns": second * NS,
                }  # fmt: skip
            told = second
        if second % COARSE_S == 0:
            clock = dict.fromkeys(("monotonic_ns", "boottime_ns", "realtime_ns"), second * NS)
            yield RecordType.CLOCK, dict(clock)
        if second % (COARSE_S if second <= DETAIL_S else SNAPSHOT_S) == 0:
            for number in range(cpus):
                yield RecordType.HISTOGRAM, snapshot(number, second, taken[number])
    totals = [
        {
            "series": number, "count": taken[number], "missed": 0, "lost": 0, "overruns": 0,
            "first_due_ns": 0, "last_due_ns": seconds * NS,
        }
        for number in range(cpus)
    ]  # fmt: skip
    yield RecordType.TRAILER, trailer(0, seconds * 1000, totals)


def disturbed(run: str, times: int) -> Iterator[tuple[RecordType, dict[str, object]]]:
    """Every other period of a series is missed."""
    yield RecordType.HEADER, header(run)
    yield RecordType.SERIES, {**series(0), "interval_ns": NS // 1000}
    values = np.full(1, 5_000, "<i4")
    for at in range(times):
        yield RecordType.SAMPLES, {
            "series": 0, "index": 2 * at, "due_ns": 2 * at * NS // 1000, "samples": values,
        }  # fmt: skip
        yield RecordType.EVENT, {
            "event": "missed", "time_ns": 2 * at * NS // 1000, "series": 0, "index": 2 * at,
            "count": 1,
        }  # fmt: skip
        if at == 0:
            yield RecordType.AMBIENCE, ambience(1, 2)
            yield RecordType.AMBIENCE, ambience(2, 2)
    total = {
        "series": 0, "count": times, "missed": times, "lost": 0, "overruns": times,
        "first_due_ns": 0, "last_due_ns": (2 * times - 1) * NS // 1000,
    }  # fmt: skip
    yield RecordType.TRAILER, trailer(0, times, [total])


def peak_mib(program: str, run: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-c", program, str(run)],
        check=True,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    return int(done.stdout) / 1024


Stream = Iterator[tuple[RecordType, dict[str, object]]]


def measure(made: Callable[[str], Stream]) -> dict[str, float]:
    """Memory in MiB, sizes in bytes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        about = document(0)
        with (
            Store.open(f"sqlite:///{folder / 'index.db'}", folder) as store,
            store.create(about) as run,
        ):
            with run.append_stream(0) as stream:
                for number, (kind, body) in enumerate(made(run.id)):
                    stream.write(encode_record(kind, number, body))
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
            held = growth <= limit
            print(
                f"{name}, growth of {what}: {growth:.1f}, "
                f"at most {limit:g}: {'held' if held else 'MISSED'}"
            )
            cases.append(
                {"case": f"{name}: {what}", "value": growth, "at_most": limit, "held": held,
                 "short": short, "long": long}
            )  # fmt: skip
    print(write_results("long_run", {"hours": arguments.hours}, cases).name)
    return 0 if all(case["held"] for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
