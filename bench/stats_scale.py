# SPDX-License-Identifier: Apache-2.0
"""What the pass over the samples costs: time and memory for 2e8 synthetic latencies.

    PYTHONPATH=src python bench/stats_scale.py [--samples N] [--threads 2] [--shape rt|desktop|wide]

The samples of one chunk are made once and fed again and again (shifted a little), so that what is
timed is the pass and not the random numbers. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import sys
import threading
import time

import numpy as np
from numpy.typing import NDArray

from rtgauge.stats import (
    CountsBuilder,
    TimelineBuilder,
    ccdf_points,
    histogram_points,
    percentile_intervals,
    percentile_table,
)

CHUNK = 1 << 20
INTERVAL_NS = 100_000


def chunk_of(shape: str) -> NDArray[np.int32]:
    """A million latencies as an RT kernel, a desktop, or nothing at all would have them."""
    random = np.random.default_rng(20)
    if shape == "wide":
        return random.integers(-1000, 1 << 23, CHUNK).astype(np.int32)
    values = 2500 + random.gamma(3.0, 400.0, CHUNK)
    if shape == "desktop":
        late = random.random(CHUNK) < 0.003
        values[late] += random.exponential(400_000.0, int(late.sum()))
    return values.astype(np.int32)


def peak_mib() -> float:
    """Peak resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    """Times counting alone, then counting with the timeline, then the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--samples", type=int, default=200_000_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--shape", choices=("rt", "desktop", "wide"), default="desktop")
    arguments = parser.parse_args()
    chunk = chunk_of(arguments.shape)
    chunks = max(arguments.samples // CHUNK, 1)
    samples = chunks * CHUNK
    before = peak_mib()

    start, cpu = time.perf_counter(), time.process_time()
    counting = CountsBuilder()
    for _ in range(chunks):
        counting.add(chunk)
    alone = counting.build()
    seconds_counts = time.perf_counter() - start
    memory_counts = peak_mib()

    start, cpu = time.perf_counter(), time.process_time()
    builders = [
        TimelineBuilder(0, (samples - 1) * INTERVAL_NS, interval_ns=INTERVAL_NS)
        for _ in range(arguments.threads)
    ]

    def carry_out(number: int) -> None:
        for at in range(number, chunks, arguments.threads):
            first = at * CHUNK * INTERVAL_NS
            builders[number].add(range(first, first + CHUNK * INTERVAL_NS, INTERVAL_NS), chunk)

    threads = [
        threading.Thread(target=carry_out, args=(number,)) for number in range(len(builders))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in builders[1:]:
        builders[0].merge(other)
    counts, timeline = builders[0].counts(), builders[0].timeline()
    seconds_pass = time.perf_counter() - start
    cpu_pass = time.process_time() - cpu
    if counts != alone or int(timeline.count.sum()) != samples:
        print("the passes disagree", file=sys.stderr)
        return 1

    start = time.perf_counter()
    percentile_table(counts)
    percentile_intervals(counts)
    histogram_points(counts)
    ccdf_points(counts)
    timeline.quantile(0.5)
    timeline.quantile(0.99)
    timeline.heat(300, 120)
    seconds_figures = time.perf_counter() - start

    json.dump(
        {
            "machine": platform.processor() or platform.machine(),
            "numpy": np.__version__,
            "shape": arguments.shape,
            "samples": samples,
            "threads": arguments.threads,
            "distinct_values": len(counts.values),
            "counts_s": round(seconds_counts, 3),
            "counts_and_timeline_s": round(seconds_pass, 3),
            "counts_and_timeline_cpu_s": round(cpu_pass, 3),
            "figures_s": round(seconds_figures, 3),
            "peak_mib_before": round(before),
            "peak_mib_counts": round(memory_counts),
            "peak_mib": round(peak_mib()),
        },
        sys.stdout,
        indent=1,
    )
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
