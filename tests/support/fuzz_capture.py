# SPDX-License-Identifier: Apache-2.0
"""Fuzzing the import of captures: true tables and sessions with some of their numbers changed.

    PYTHONPATH=src python tests/support/fuzz_capture.py --executions 10000000 --jobs 2 --seed 1

Each is read, and all records of its run are made. One accepted capture in ``--follow`` is stored
and reported in every format (PDF for one in ``PDF`` of them). What is refused is refused with one
line. The capture that fails is written to ``--keep``.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import captures
import fuzzing
import streams
from fuzzing import Import
from rtgauge.capture import Wanted, import_capture

BLOCK = 2000
FOLLOW = 50
PDF = 20
NUMBERS = (
    "0", "1", "-1", "1e-300", "1e300", "1e12", "3e14", "1e-15", "nan", "inf", "1e309", "", "x",
    "9" * 40, "0.5", "1e-6", "-1e9", "3.3", "5", "1 THz", "2.4e7",
)  # fmt: skip


def table(rng: random.Random) -> bytes:
    """A table of two lines: with times of its own or a rate."""
    step = 10.0 ** rng.randrange(-9, 3)
    timed = rng.random() < 0.6
    head = ["time,A,B"] if timed else [f"sample rate,{1 / step:.6g}", "A,B"]
    rows = []
    for number in range(rng.choice((20, 200, 800))):
        levels = [str(3.3 * (number // 10 % 2)), str(3.3 * ((number - 3) // 10 % 2))]
        rows.append(",".join([f"{number * step:.9g}", *levels] if timed else levels))
    lines = [*head, *rows]
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        at = rng.choice((0, rng.randrange(len(lines))))
        fields = lines[at].split(",")
        fields[rng.randrange(len(fields))] = rng.choice(NUMBERS)
        lines[at] = ",".join(fields)
    return "\n".join(lines).encode() + b"\n"


def session(rng: random.Random, path: Path) -> bytes:
    """A session of sigrok with other rates, sizes and names, some of its bytes changed."""
    unit = rng.choice(("1", "1", "1", "2", "0", "x", "129"))
    rate = rng.choice(("1 MHz", "1 MHz", "24 MHz", "1", "0.001", *NUMBERS))
    metadata = (
        "[global]\nsigrok version=0.5.2\n\n[device 1]\ncapturefile=logic-1\n"
        f"samplerate={rate}\nprobe1=A\nprobe2=B\nunitsize={unit}\n"
    )
    logic = captures.regular(rng.choice((1, 5, 50)), rng.choice((60, 1000)))
    data = captures.session(path, logic, metadata=metadata).read_bytes()
    return streams.mutate(data, rng, [data]) if rng.random() < 0.3 else data


def made(rng: random.Random, path: Path) -> tuple[bytes, Import]:
    data = table(rng) if rng.random() < 0.6 else session(rng, path)
    edge = rng.choice(("both", "rising", "falling"))
    interval_ns = rng.choice((None, None, 1, 10**6, 2**62))
    wanted = Wanted("A", "B", edge=edge, interval_ns=interval_ns)
    return data, lambda store: import_capture(store, path, wanted).run


fuzz = fuzzing.imports("capture", "rtgauge.capture.run.write_run", made, PDF)

if __name__ == "__main__":
    sys.exit(fuzzing.run("capture", fuzz, 10_000, __file__, BLOCK, FOLLOW))
