# SPDX-License-Identifier: Apache-2.0
"""Fuzzing the stream's reader: damaged and hostile streams by the million.

    PYTHONPATH=src python tests/support/fuzz_stream.py --executions 10000000 --jobs 2 --seed 1

Valid streams are damaged (bytes, bits, cuts, swapped records, bodies changed with a true CRC around
them) and read. Nothing may crash, hang, or grow; one in ``PIECES``, fed in pieces, must give what
it gives at once; one in ``PAGE`` must read as docs/formats/stream.md's own reader
(reader_from_page.py) reads it. Interesting streams (that end at a place or for a reason not seen
before in the block) join those that are damaged next. The first stream that fails is written to
``--keep``, and the exit code is 1.
"""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import fuzzing
import reader_from_page
import streams
from fuzzing import Tally
from rtgauge.errors import StreamError
from rtgauge.stream import StreamReader

POOL_LIMIT = 400
SIZE_LIMIT = 1 << 18
BLOCK = 50_000
PIECES = 20
PAGE = 100


def seeds() -> list[bytes]:
    """The valid streams to begin with."""
    long = streams.Builder().series(0).samples(0, 0, streams.latencies(3000))
    many = streams.Builder()
    for number in range(12):
        many.series(number, interval_ns=number).samples(number, number, [number])
    return [
        streams.one_of_each().data,
        long.histogram(0, streams.latencies(3000).tolist()).trailer().data,
        many.trailer(series=[streams.totals(number) for number in range(12)]).data,
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


def fuzz(seed: int, first: int, count: int, folder: Path) -> Tally:
    rng = random.Random(f"{seed} {first}")
    pool = seeds()
    tally = Tally()
    for number in range(first, first + count):
        data = streams.damage(rng.choice(pool), rng, pool)[:SIZE_LIMIT]
        try:
            found = outcome(data)
            if number % PIECES == 0:
                check(data, rng, with_page=number % PAGE == 0)
        except Exception as error:
            tally.failed, tally.how = data, f"execution {number}: {error!r}"
            return tally
        tally.executions += 1
        tally.thorough += number % PIECES == 0
        if found not in tally.outcomes:
            pool.append(data)
            if len(pool) > POOL_LIMIT:
                del pool[rng.randrange(5, len(pool))]
        tally.outcomes[found] += 1
    return tally


if __name__ == "__main__":
    sys.exit(fuzzing.run("stream", fuzz, 100_000, __file__, BLOCK))
