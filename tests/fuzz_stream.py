# SPDX-License-Identifier: Apache-2.0
"""Fuzzing the stream's reader: damaged and hostile streams by the hundred thousand.

    PYTHONPATH=src python tests/fuzz_stream.py --executions 1000000 --seed 1

Valid streams are damaged (bytes, bits, cuts, swapped records, bodies changed with a true CRC around
them) and read. Nothing may crash, hang, or grow; feeding in pieces must give what feeding at once
gives; and every tenth stream must read as docs/stream.md's own reader (reader_from_page.py) reads
it. Interesting streams (that end at a place or for a reason not seen before) join those that are
damaged next. The first stream that fails is written to ``--keep`` and the process ends with 1.
"""

from __future__ import annotations

import argparse
import random
import re
import resource
import sys
import time
from pathlib import Path

import reader_from_page
import streams
from rtgauge.errors import StreamError
from rtgauge.stream import StreamReader

POOL_LIMIT = 400
SIZE_LIMIT = 1 << 18


def seeds() -> list[bytes]:
    """The valid streams to begin with."""
    long = streams.Builder().series(0).samples(0, 0, streams.latencies(3000))
    many = streams.Builder()
    for number in range(40):
        many.series(number, interval_ns=number).samples(number, number, [number])
    return [
        streams.one_of_each().data,
        long.histogram(0, streams.latencies(3000).tolist()).trailer().data,
        many.trailer(series=[streams.totals(number) for number in range(40)]).data,
        streams.Builder().data,
        streams.Builder().trailer("skipped", reason="no privilege", remedy="sudo").data,
    ]


def outcome(data: bytes) -> str:
    """How the reader ends on ``data``, with numbers and names taken out."""
    reader = StreamReader()
    try:
        reader.feed(data)
    except StreamError as error:
        return re.sub(r"\d+", "N", error.message)
    end = reader.finish()
    return re.sub(r"\d+|'[^']*'", "N", end.reason) + f" {min(end.records, 40)}"


def check(data: bytes, rng: random.Random, with_page: bool) -> None:
    """Raises AssertionError (or what the reader raised) when ``data`` is not read as it must be."""
    at_once = streams.read_plain(data)
    sizes = [rng.choice((1, 2, 5, 17, 100, 1000)) for _ in range(5)]
    assert streams.read_plain(data, sizes) == at_once, "pieces read otherwise than the whole"
    if with_page:
        assert reader_from_page.read(data) == at_once, "the page's reader reads it otherwise"


def fuzz(executions: int, seed: int) -> tuple[int, bytes | None, str]:
    """Number of different outcomes seen, the stream that failed (or None), and how it failed."""
    rng = random.Random(seed)
    pool = seeds()
    outcomes: set[str] = set()
    for number in range(executions):
        data = streams.damage(rng.choice(pool), rng, pool)[:SIZE_LIMIT]
        try:
            found = outcome(data)
            if number % 3 == 0:
                check(data, rng, with_page=number % 10 == 0)
        except Exception as error:
            return len(outcomes), data, f"execution {number}: {error!r}"
        if found not in outcomes:
            outcomes.add(found)
            pool.append(data)
            if len(pool) > POOL_LIMIT:
                del pool[rng.randrange(5, len(pool))]
    return len(outcomes), None, ""


def main() -> int:
    parser = argparse.ArgumentParser(description="fuzz the stream's reader")
    parser.add_argument("--executions", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-stream-failure.cbor"))
    arguments = parser.parse_args()
    began = time.monotonic()
    outcomes, failed, how = fuzz(arguments.executions, arguments.seed)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{arguments.executions} executions, seed {arguments.seed}, {outcomes} outcomes, "
        f"peak memory {peak / 2**10:.0f} MiB, {time.monotonic() - began:.0f} s"
    )
    if failed is None:
        return 0
    arguments.keep.write_bytes(failed)
    print(f"FAILED: {how}; the stream is in {arguments.keep}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
