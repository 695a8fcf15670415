# SPDX-License-Identifier: Apache-2.0
"""Fuzzing what comes after the stream's reader: extreme streams, nearly all of them accepted.

    PYTHONPATH=src python tests/support/fuzz_extremes.py --executions 10000000 --jobs 2 --seed 1

Each execution makes a stream of extreme numbers and odd texts with true checksums (extremes.py),
one in four of them damaged after that; it becomes a run of a store, a bundle, and
a run of another store, which is reported in every format (PDF for one in ``PDF``). What is refused
is refused with one line. The stream that fails is written to ``--keep``.
"""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path
from unittest import mock

import extremes
import fuzzing
import streams
from fuzzing import Tally
from rtgauge import report
from rtgauge.errors import RtgaugeError

BLOCK = 200
DAMAGED = 4
PDF = 20


def fuzz(seed: int, first: int, count: int, folder: Path) -> Tally:
    rng = random.Random(f"{seed} {first}")
    tally = Tally()
    place = folder / "extremes"
    with mock.patch("os.fsync"):  # no power cut here
        for number in range(first, first + count):
            data = extremes.Extremes(rng).make()
            if rng.randrange(DAMAGED) == 0:
                data = streams.damage(data, rng, [data])
            formats = [one for one in report.FORMATS if one != ".pdf" or number % PDF == 0]
            place.mkdir()
            try:
                extremes.carried_through(place, data, formats)
            except RtgaugeError as error:
                found = fuzzing.plain(error.message.rpartition(": ")[2])
            except Exception as error:
                tally.failed, tally.how = data, f"execution {number}: {error!r}"
                return tally
            else:
                found = "accepted"
                tally.thorough += 1
            finally:
                shutil.rmtree(place)
            tally.executions += 1
            tally.outcomes[found] += 1
    return tally


if __name__ == "__main__":
    sys.exit(fuzzing.run("extremes", fuzz, 10_000, __file__, BLOCK))
