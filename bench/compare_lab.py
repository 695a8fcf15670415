# SPDX-License-Identifier: Apache-2.0
"""Whether a comparison is right on emulated boards, whose differences are known.

    PYTHONPATH=src:bench python bench/compare_lab.py [--store FOLDER]

- *alike*: a board under load with eight seeds against the same board with eight others. Only
  chance differs, so no quantity may be better or worse.
- *rt*: the real-time kernel against the stock kernel of one version, in six blocks under load. The
  primary quantity must be better.

Time is counted in instructions, so the figures are the same on every machine with these kernels.
``--store``: keep the runs there; runs that are there already are not repeated. It writes
bench/results/compare_lab.json.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pairs import write_results

from rtgauge.report import Source
from rtgauge.report.document.compared import decided
from rtgauge.report.sets.compare import RunSet
from rtgauge.store import RunRow, Store

STOCK: Final = "lab:x86_64-stock-6.12"
RT: Final = "lab:x86_64-rt-6.12"
SEEDS: Final = 8
BLOCKS: Final = 6
COMMAND: Final = ("timer", "--for", "3s", "--interval", "997us", "--load", "sched:groups=2")
TIMEOUT_S: Final = 3600.0


def measured(place: Path, label: str, more: Sequence[str]) -> list[RunRow]:
    """The runs with a label in the store; they are measured if it does not have any."""
    if not rows_of(place, label):
        command = [sys.executable, "-m", "rtgauge", "run", *COMMAND, "--label", label, *more]
        subprocess.run(
            [*command, "--quiet", "--store", str(place)], check=True, timeout=TIMEOUT_S,
            stdout=sys.stderr,
        )  # fmt: skip
    return rows_of(place, label)


def rows_of(place: Path, label: str) -> list[RunRow]:
    with Store.open(str(place)) as store:
        return [row for row in store.runs() if row.label == label and row.state == "complete"]


def compared(place: Path, first: Sequence[RunRow], second: Sequence[RunRow]) -> dict[str, Any]:
    """The comparison of two sets of runs."""
    rows = [*first, *second]
    sets = [
        RunSet("first", tuple(range(len(first)))),
        RunSet("second", tuple(range(len(first), len(rows)))),
    ]
    with Store.open(str(place)) as store:
        source = Source([store.get(row.id) for row in rows], sets=sets)
        document: dict[str, Any] = dict(source.compared().document)
    return document


def case(name: str, document: dict[str, Any], *, held: bool) -> dict[str, Any]:
    print(f"{name}: {'held' if held else 'MISSED'}")
    for text in decided(document):
        print(f"  {text}")
    return {"case": name, "comparisons": document["comparisons"], "held": held}


def alike(place: Path) -> dict[str, Any]:
    targets = [f"{STOCK},seed={seed}" for seed in range(1, 2 * SEEDS + 1)]
    rows = measured(place, "alike", [word for one in targets for word in ("--target", one)])
    by_target = {row.target: row for row in rows}
    halves = [[by_target[one] for one in targets[at : at + SEEDS]] for at in (0, SEEDS)]
    document = compared(place, *halves)
    verdicts = {one["verdict"] for one in document["comparisons"]}
    held = bool(verdicts) and not verdicts & {"better", "worse"}
    return case(f"{STOCK}: {SEEDS} seeds against {SEEDS} others", document, held=held)


def rt(place: Path) -> dict[str, Any]:
    rows = measured(place, "rt", ["--repeat", str(BLOCKS), "--target", STOCK, "--target", RT])
    document = compared(place, *([row for row in rows if row.target == one] for one in (STOCK, RT)))
    first = document["comparisons"][0]
    held = first["primary"] and first["matched"] and first["verdict"] == "better"
    return case(f"{RT} against {STOCK}, {BLOCKS} blocks", document, held=bool(held))


def main() -> int:
    """Measure what is not in the store, compare, and write the results; 1 if a verdict is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", type=Path, help="folder for the runs; default: a temporary one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = arguments.store or Path(folder)
        cases = [rt(place), alike(place)]
    print(write_results("compare_lab", {"command": " ".join(COMMAND)}, cases).name)
    return 0 if all(one["held"] for one in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
