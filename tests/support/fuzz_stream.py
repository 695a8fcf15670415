# SPDX-License-Identifier: Apache-2.0
"""Fuzzing the stream's reader: damaged and hostile streams by the million.

    PYTHONPATH=src python tests/support/fuzz_stream.py --executions 10000000 --jobs 2 --seed 1

Valid streams are damaged (bytes, bits, cuts, swapped records, bodies changed with a true CRC around
them), one in ``VARIED`` only in values that leave it well formed, and read. Nothing may crash,
hang, or grow; one in ``PIECES``, fed in pieces, must give what it gives at once; one in ``PAGE``
must read as docs/formats/stream.md's own reader (reader_from_page.py) reads it. A stream that is
read to its trailer is accepted. One accepted stream in ``--follow`` goes through a store and a
bundle into every report format. Interesting streams (that end at a place or for a reason not seen
before in the block) join those that are damaged next. The first stream that fails is written to
``--keep``, and the exit code is 1.
"""

from __future__ import annotations

import random
import re
import shutil
import sys
from pathlib import Path
from unittest import mock

import extremes
import fuzzing
import reader_from_page
import streams
from fuzzing import Tally
from rtgauge import report
from rtgauge.errors import RtgaugeError, StreamError
from rtgauge.stream import StreamReader

POOL_LIMIT = 400
SIZE_LIMIT = 1 << 18
BLOCK = 50_000
PIECES = 20
PAGE = 100
VARIED = 4
FOLLOW = 2000
PDF = 20


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
    found = re.sub(r"\d+|'[^']*'", "N", end.reason) + f" {min(end.records, 40)}"
    return f"accepted: {found}" if end.complete else found


def follow(data: bytes, folder: Path, *, with_pdf: bool) -> str:
    """What becomes of an accepted stream in a store, a bundle and the reports."""
    place = folder / "followed"
    place.mkdir()
    try:
        with mock.patch("os.fsync"):  # no power cut here
            formats = [one for one in report.FORMATS if one != ".pdf" or with_pdf]
            extremes.carried_through(place, data, formats)
    except RtgaugeError as error:
        return f"not followed: {fuzzing.plain(error.message.rpartition(': ')[2])}"
    finally:
        shutil.rmtree(place)
    return "followed"


def check(data: bytes, rng: random.Random, with_page: bool) -> None:
    """Raises AssertionError (or what the reader raised) when ``data`` is not read as it must be."""
    at_once = streams.read_plain(data)
    sizes = [rng.choice((1, 2, 5, 17, 100, 1000)) for _ in range(5)]
    assert streams.read_plain(data, sizes) == at_once, "pieces read otherwise than the whole"
    if with_page:
        assert reader_from_page.read(data) == at_once, "the page's reader reads it otherwise"


@fuzzing.fuzzer
def fuzz(tally: Tally, rng: random.Random, numbers: range, folder: Path, one_in: int) -> None:
    good = seeds()
    pool = good.copy()
    accepted = 0
    for number in numbers:
        if number % VARIED:
            data = streams.damage(rng.choice(pool), rng, pool)[:SIZE_LIMIT]
        else:
            data = streams.vary(rng.choice(good), rng)
        tally.begin(number, data)
        found = outcome(data)
        if number % PIECES == 0:
            check(data, rng, with_page=number % PAGE == 0)
        if found.startswith("accepted"):
            if accepted % one_in == 0:
                with_pdf = accepted % (one_in * PDF) == 0
                tally.thorough += follow(data, folder, with_pdf=with_pdf) == "followed"
            accepted += 1
        if found not in tally.outcomes:
            pool.append(data)
            if len(pool) > POOL_LIMIT:
                del pool[rng.randrange(5, len(pool))]
        tally.end(found)


if __name__ == "__main__":
    sys.exit(fuzzing.run("stream", fuzz, 100_000, __file__, BLOCK, FOLLOW))
