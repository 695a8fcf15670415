# SPDX-License-Identifier: Apache-2.0
"""Fuzzing the import of what Xenomai's programs printed: true texts with some of it changed.

    PYTHONPATH=src python tests/support/fuzz_printed.py --executions 10000000 --jobs 2 --seed 1

Each is read, and all records of its run are made. One accepted text in ``--follow`` is stored and
reported in every format (PDF for one in ``PDF`` of them). What is refused is refused with one line.
The text that fails is written to ``--keep``.
"""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import numpy as np

import fuzzing
import streams
import xenomai
from fuzzing import Import
from rtgauge.printed import Told, import_printed

BLOCK = 2000
FOLLOW = 50
PDF = 50
NUMBERS = (
    "0", "1", "-1", "-0.001", "0.000", "9999999999", "9" * 18, "9" * 40, "2147483.647",
    "2147483.648", "1e300", "nan", "", "x", "300", "00:00:01", "1.5", "|", "999999999.999",
)  # fmt: skip
ENDS = ("\n", "\n", "\n", "\r\n", "\r")


def text(rng: random.Random) -> str:
    """One or two outputs, of few seconds."""
    shape = (rng.choice((1, 3, 30)), rng.choice((1, 5, 40)))
    draws = np.random.default_rng(rng.randrange(1 << 30)).gamma(3, 3000, shape)
    samples = draws.astype(np.int64) + rng.choice((0, -4000, -200_000))
    made = rng.randrange(8)
    if made == 0:
        return xenomai.clocktest([(cpu, 1.5, 0.001, cpu, 2.5) for cpu in range(3)])
    if made == 1:
        return xenomai.switchtest([[30_000, 2]] * 3, told=rng.random() < 0.5)
    if made == 2:
        return "10: 1.000 / 2.000 / 3.000 us\n---\n11: 1.000 / 2.000 / 3.500 us\n"
    if made == 3:
        return "Board\nCPU: | some |\nXenomai user space task (-t0) | 13us | 119us |\n"
    return xenomai.latency(
        samples,
        context=rng.choice(("user", "kernel", "irq")),
        period_us=1_000_000 // shape[1],
        unfinished=[5000] * rng.choice((0, 0, shape[1] - 1)),
        overruns=rng.choice((0, 3)),
        switches=rng.choice((0, 2)),
        quiet=rng.random() < 0.3,
        cell_ns=rng.choice((1000, 1000, 100)),
        size=rng.choice((10, 300)),
        histograms=rng.random() < 0.8,
        gnuplot=rng.choice(("", "-", "only")),
    )


def changed(rng: random.Random) -> bytes:
    whole = "".join(text(rng) for _ in range(rng.choice((1, 1, 2))))
    lines = whole.split("\n")
    for _ in range(rng.choice((0, 0, 1, 2, 5))):
        at = rng.randrange(len(lines))
        numbers = list(re.finditer(r"-?\d+(\.\d+)?", lines[at]))
        if numbers and rng.random() < 0.8:
            one = rng.choice(numbers)
            lines[at] = lines[at][: one.start()] + rng.choice(NUMBERS) + lines[at][one.end() :]
        elif rng.random() < 0.5:
            del lines[at : at + rng.choice((1, 1, 5))]
            lines = lines or [""]
        else:
            lines.insert(at, rng.choice(lines))
    data = "".join(line + rng.choice(ENDS) for line in lines).encode()
    if rng.random() < 0.2:
        data = data[: rng.randrange(len(data))]
    return streams.mutate(data, rng, [data]) if rng.random() < 0.2 else data


def made(rng: random.Random, path: Path) -> tuple[bytes, Import]:
    data = changed(rng)
    told = Told(cell_ns=rng.choice((None, None, 100, 1, 10**9)))
    return data, lambda store: import_printed(store, path, told).run


fuzz = fuzzing.imports("printed.txt", "rtgauge.printed.run.write_run", made, PDF)

if __name__ == "__main__":
    sys.exit(fuzzing.run("printed", fuzz, 10_000, __file__, BLOCK, FOLLOW))
