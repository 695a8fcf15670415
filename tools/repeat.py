# SPDX-License-Identifier: Apache-2.0
"""Repeats tests under load to find flaky ones: ``repeat.py [OPTION...] STAGE|PATH...``.

A stage is one of tools/stages.toml that counts tests. A path is what pytest takes: a folder, a file
or a test. Each repetition runs all of them next to busy loops. pytest runs the files, and the tests
of each file, in a random order that follows from the seed: ``RTGAUGE_TEST_SEED=SEED pytest PATH``
repeats it. The phase in which the steps of emulated boards begin follows from it, too
(tests/lab/conftest.py): without a seed, counted boots of one image are equal bit for bit.

A table of the tests that failed at least once goes to standard output and to the end of
build/repeat/results.md. The logs of repetitions with failures are in the same folder. A busy loop
ends with its repetition, and when this program is killed. Uses only the standard library and
nothing of the product.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from run_stages import ROOT, STAGE_S, Counts, Outcome, Runner, Stage, failures_of, read_stages

SEED: Final = "RTGAUGE_TEST_SEED"
BUSY: Final = """
import os, sys, time
parent, end = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
while time.monotonic() < end and os.getppid() == parent:
    pass
"""


@dataclass
class Found:
    """The result of all repetitions. ``failures``: the messages of each test that failed."""

    counts: list[Counts] = field(default_factory=list)
    averages: list[float] = field(default_factory=list)
    failures: dict[str, list[str]] = field(default_factory=dict)

    def add(self, counts: Counts, failures: Sequence[tuple[str, str]]) -> None:
        """Add a repetition that has just ended."""
        self.counts.append(counts)
        self.averages.append(os.getloadavg()[0])
        for name, message in failures:
            self.failures.setdefault(name, []).append(message)

    def table(self, what: str) -> str:
        """The result as Markdown; ``what`` begins the sentence above the table."""
        tests = max(one.passed + one.failed for one in self.counts)
        skipped = max(one.skipped for one in self.counts)
        lines = [
            f"{what} Repetitions: {len(self.counts)}. Load average: {min(self.averages):.1f} to "
            f"{max(self.averages):.1f}. Tests that failed at least once: {len(self.failures)} of "
            f"{tests} (and {skipped} skipped)."
        ]
        if self.failures:
            lines += ["", "| test | failed | first message |", "| --- | --- | --- |"]
        for name, messages in sorted(self.failures.items()):
            message = messages[0].replace("|", "\\|")
            lines.append(f"| {name} | {len(messages)} of {len(self.counts)} | `{message}` |")
        return "\n".join(lines)


@contextlib.contextmanager
def busy(count: int, seconds: float) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Busy loops that end with the context, after ``seconds``, or when this process is gone."""
    loops: list[subprocess.Popen[bytes]] = []
    words = [sys.executable, "-c", BUSY, str(os.getpid()), str(seconds)]
    try:
        for _ in range(count):
            loops.append(subprocess.Popen(words))
        yield loops
    finally:
        for loop in loops:
            loop.kill()
            loop.wait(30)


def repeated(runner: Runner, stage: Stage) -> tuple[Outcome, list[tuple[str, str]]]:
    """Run a stage once: its outcome, and name and message of each failed test."""
    outcome = runner.carry_out(replace(stage, inputs=()))
    failures: list[tuple[str, str]] = []
    for pattern in stage.results:
        for path in sorted(runner.root.glob(pattern)):
            failures += failures_of(path.read_text(encoding="utf-8"))
    if outcome.failed and not failures:
        failures.append((f"stage {stage.name}", outcome.note))
    return outcome, failures


def stages_of(words: Sequence[str], marks: str) -> list[Stage]:
    """The stages that are named, and one for all paths."""
    known = read_stages(ROOT / "tools" / "stages.toml")
    chosen = [known[word] for word in words if word in known and known[word].results]
    paths = [word for word in words if word not in known]
    if paths:
        results = "build/check/repeat.xml"
        command = ["pytest", "-q", "--tb=short", *(["-m", marks] if marks else [])]
        command += ["--junit-xml", results, *paths]
        chosen.append(Stage("repeat", "", (), (shlex.join(command),), results=(results,)))
    return chosen


def main() -> int:
    """Repeat what is named. Returns 0 if no test failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    cpus = len(os.sched_getaffinity(0))
    parser.add_argument("what", nargs="+", metavar="STAGE|PATH")
    parser.add_argument("--times", type=int, default=20, help="repetitions (%(default)s)")
    parser.add_argument("--loops", type=int, default=cpus, help="busy loops (%(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="first seed")
    parser.add_argument("--minutes", type=float, default=600, help="begin none after that time")
    parser.add_argument("--marks", default="", help="markers of the tests, as pytest -m")
    given = parser.parse_args()
    stages = stages_of(given.what, given.marks)
    if not stages:
        parser.error("these stages have no tests")
    folder = ROOT / "build" / "repeat"
    folder.mkdir(parents=True, exist_ok=True)
    runner, found = Runner(ROOT, folder, use_records=False), Found()
    ends = time.monotonic() + 60 * given.minutes
    what = (
        f"{datetime.now():%Y-%m-%d %H:%M}: `{shlex.join(given.what)}` next to {given.loops} busy "
        f"loops, from seed {given.seed}."
    )
    print(what, flush=True)
    try:
        for number in range(given.times):
            if number and time.monotonic() > ends:
                break
            os.environ[SEED] = str(given.seed + number)
            counts, failures = Counts(), list[tuple[str, str]]()
            with busy(given.loops, STAGE_S * len(stages)):
                for stage in stages:
                    outcome, more = repeated(runner, stage)
                    counts, failures = counts + outcome.counts, failures + more
                    if more:
                        log = folder / f"{stage.name}-{given.seed + number}.log"
                        shutil.copy(runner.logs / f"{stage.name}.log", log)
            found.add(counts, failures)
            print(f"{number + 1}: {counts}", *(f"  {a}: {b}" for a, b in failures), sep="\n")
            sys.stdout.flush()
    finally:
        if found.counts:
            table = found.table(what)
            print(table)
            with Path(folder / "results.md").open("a", encoding="utf-8") as file:
                file.write(f"{table}\n\n")
    return 1 if found.failures else 0


if __name__ == "__main__":
    # a shell that starts it in the background lets it ignore Ctrl-C
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\ninterrupted")
