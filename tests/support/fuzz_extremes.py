# SPDX-License-Identifier: Apache-2.0
"""Fuzzing what comes after the stream's reader: extreme streams, nearly all of them accepted.

    PYTHONPATH=src python tests/support/fuzz_extremes.py --executions 10000000 --jobs 2 --seed 1

Each execution makes a stream of extreme numbers and odd texts with true checksums (extremes.py),
one in four of them damaged after that, and reads it. One that is read to its trailer in
``--follow`` becomes a run of a store, a bundle, and a run of another store, which is reported in
every format (PDF for one in ``PDF`` of them). What is refused is refused with one line. The stream
that fails is written to ``--keep``.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import extremes
import fuzz_stream
import fuzzing
import streams
from fuzzing import Tally

BLOCK = 2000
FOLLOW = 50
DAMAGED = 4
PDF = 20


@fuzzing.fuzzer
def fuzz(tally: Tally, rng: random.Random, numbers: range, folder: Path, one_in: int) -> None:
    for number in numbers:
        data = extremes.Extremes(rng).make()
        if rng.randrange(DAMAGED) == 0:
            data = streams.damage(data, rng, [data])
        tally.begin(number, data)
        found = fuzz_stream.outcome(data)
        if found.startswith("accepted"):
            found = "accepted"
            if tally.outcomes[found] % one_in == 0:
                with_pdf = tally.thorough % PDF == 0
                followed = fuzz_stream.follow(data, folder, with_pdf=with_pdf)
                tally.thorough += followed == "followed"
        tally.end(found)


if __name__ == "__main__":
    sys.exit(fuzzing.run("extremes", fuzz, 10_000, __file__, BLOCK, FOLLOW))
