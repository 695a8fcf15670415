# SPDX-License-Identifier: Apache-2.0
"""What the fuzzers share: executions in processes of their own, counted, from a seed onwards.

An execution is a function of the seed and its number's block alone, so that any part of a long run
can be repeated, and a stopped run can be continued (``--from``).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import extremes
from rtgauge import report
from rtgauge.cli import main
from rtgauge.errors import RtgaugeError
from rtgauge.store import Store

MEMORY_LIMIT = 3 << 30
REPORT_S = 60.0
# What a terminal obeys, or what changes the order of what it shows.
OBEYED = re.compile("[\0-\t\v-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")


@dataclass
class Tally:
    """What came of a number of executions."""

    executions: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    thorough: int = 0  # executions that were followed to the end
    failed: bytes | Callable[[], bytes] | None = None
    how: str = ""

    def begin(self, number: object, data: bytes | Callable[[], bytes]) -> None:
        """An execution, and its input or what gives it. It has failed unless it ends."""
        self.failed, self.how = data, f"execution {number}"

    def end(self, outcome: str) -> None:
        self.failed, self.how = None, ""
        self.executions += 1
        self.outcomes[outcome] += 1

    def add(self, other: Tally) -> None:
        self.executions += other.executions
        self.outcomes.update(other.outcomes)
        self.thorough += other.thorough
        if other.how and not self.how:
            self.failed, self.how = other.failed, other.how


Fuzz = Callable[[int, int, int, Path, int], Tally]


def fuzzer(executions: Callable[[Tally, random.Random, range, Path, int], None]) -> Fuzz:
    """The executions ``first`` to ``first + count`` of a seed, up to one that fails. One accepted
    input in ``one_in`` is followed into the reports, the first of them always."""

    def fuzz(seed: int, first: int, count: int, folder: Path, one_in: int) -> Tally:
        tally, rng = Tally(), random.Random(f"{seed} {first}")
        try:
            executions(tally, rng, range(first, first + count), folder, one_in)
        except Exception as error:
            if not tally.how:
                raise
            tally.how += f": {error!r}"
            if callable(tally.failed):
                tally.failed = tally.failed()
        return tally

    return fuzz


Import = Callable[[Store], str]
"""Imports a file into a store, and gives the run's id."""


def plain(message: str) -> str:
    """A refusal without what differs from one file to the next."""
    return re.sub(r"\d+|'[^']*'|\S+\.(cbor|json|parquet)", "N", message)


def imports(
    name: str,
    writer: str,
    make: Callable[[random.Random, Path], tuple[bytes, Import]],
    pdf: int,
) -> Fuzz:
    """A fuzzer of an import. ``make`` gives the bytes of a file, at the path that it is given, and
    its import, which stores what it made with the function ``writer``. Each execution reads the
    file and makes all records of its run. One accepted file in ``one_in`` is also stored and
    reported. One in ``pdf`` of these is also reported as PDF."""

    @fuzzer
    def fuzz(tally: Tally, rng: random.Random, numbers: range, folder: Path, one_in: int) -> None:
        place = folder / "place"
        place.mkdir()
        with mock.patch("os.fsync"), Store.open(str(place / "store")) as store:
            for number in numbers:
                data, imported = make(rng, place / name)
                (place / name).write_bytes(data)
                tally.begin(number, data)
                with mock.patch(writer, _made):
                    found = _read(store, imported)
                if found == "accepted" and tally.outcomes[found] % one_in == 0:
                    _follow(store, imported, with_pdf=tally.thorough % pdf == 0)
                    tally.thorough += 1
                tally.end(found)
                (place / name).unlink()
        shutil.rmtree(place)

    return fuzz


def _made(
    store: Store,
    document: Mapping[str, Any],
    when: float,
    streams: Iterable[Iterable[bytes]],
    *more: object,
) -> None:
    """Makes the records of a run, and stores none."""
    json.dumps(document)
    for stream in streams:
        for record in stream:
            assert record


def _read(store: Store, imported: Import) -> str:
    try:
        imported(store)
    except RtgaugeError as error:
        assert error.message.isprintable(), ascii(error.message)
        assert error.remedy
        return plain(re.sub(r"^the (capture|file) cannot be imported: ", "", error.message))
    return "accepted"


def _follow(store: Store, imported: Import, *, with_pdf: bool) -> None:
    stored = store.get(imported(store))
    for step in stored.steps:
        assert step.end.complete, step.end.reason
    extremes.follow(stored, [one for one in report.FORMATS if one != ".pdf" or with_pdf])
    store.delete(stored.id)


def command(*words: object) -> tuple[int, str, str]:
    """``rtgauge WORDS…`` in this process: exit code, standard output and standard error, neither
    of which may have anything that a terminal obeys."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    texts = []
    for stream in (out, err):
        assert isinstance(stream.buffer, io.BytesIO)
        texts.append(stream.buffer.getvalue().decode())
        stream.close()  # click keeps it
        check_text(texts[-1])
    return code, texts[0], texts[1]


def check_text(text: str) -> None:
    """AssertionError where a terminal obeys something of a text."""
    found = OBEYED.search(text)
    assert found is None, ascii(text[max(found.start() - 60, 0) :][:120])


def check_refusal(code: int, errors: str) -> None:
    """AssertionError unless this is how an expected error ends: a line, and a line of remedy."""
    lines = errors.splitlines()
    assert code in (1, 2), (code, errors)
    assert len(lines) == 2, errors
    assert lines[0].startswith("rtgauge: ") and lines[1].startswith("  "), errors


def _parser(name: str, executions: int, follow: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=name)
    parser.add_argument("--executions", type=int, default=executions)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", type=int, default=0, dest="first", help="begin at this execution")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--keep", type=Path, default=Path(f"fuzz-{name}-failure"))
    parser.add_argument("--follow", type=int, default=follow, help="one accepted input in so many")
    parser.add_argument("--outcomes", type=int, default=0, help="list so many of the outcomes")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    return parser


def _job(fuzz: Fuzz, arguments: argparse.Namespace, size: int) -> int:
    """Blocks of executions, a line of JSON for each, printed before the block begins."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    number = int(arguments.job)
    end = arguments.first + arguments.executions
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        for block in range(arguments.first // size + number, -(-end // size), arguments.jobs):
            first = max(block * size, arguments.first)
            print(f"block {first}", flush=True)
            count = min(end, (block + 1) * size) - first
            tally = fuzz(arguments.seed, first, count, Path(folder), arguments.follow)
            if isinstance(tally.failed, bytes):
                arguments.keep.write_bytes(tally.failed)
            # not asdict(), which makes another Counter of a Counter
            print(json.dumps(vars(tally) | {"failed": None}), flush=True)
            if tally.how:
                return 1
    return 0


def run(name: str, fuzz: Fuzz, executions: int, program: str, block: int, follow: int) -> int:
    """The command line of a fuzzer. 1 when an execution failed, or a process died of one.

    ``block``: so many executions share a generator of random numbers and what they found.
    ``follow``: one accepted input in so many is followed into the reports unless others are asked.
    """
    arguments = _parser(name, executions, follow).parse_args()
    if arguments.job is not None:
        return _job(fuzz, arguments, block)
    began = time.monotonic()
    words = [sys.executable, program, *sys.argv[1:], "--jobs", str(arguments.jobs), "--job"]
    jobs = [
        subprocess.Popen([*words, str(number)], stdout=subprocess.PIPE, text=True)
        for number in range(arguments.jobs)
    ]
    total, told, blocks = Tally(), began, [""] * len(jobs)
    open_jobs = dict(enumerate(jobs))
    while open_jobs:
        for number, job in list(open_jobs.items()):
            assert job.stdout
            line = job.stdout.readline()
            if line.startswith("block "):
                blocks[number] = line.strip()
            elif line:
                found = json.loads(line)
                total.add(Tally(**{**found, "outcomes": Counter(found["outcomes"])}))
            else:
                del open_jobs[number]
                if job.wait() != 0:
                    total.how = total.how or f"a process died ({job.returncode}), {blocks[number]}"
        if time.monotonic() - told > REPORT_S:
            told = time.monotonic()
            _say(total, told - began, sys.stderr.fileno())
    for text, count in total.outcomes.most_common(arguments.outcomes):
        print(f"{count:9d} {text}")
    _say(total, time.monotonic() - began, sys.stdout.fileno())
    if not total.how:
        return 0
    print(f"FAILED: {total.how}; what failed is in {arguments.keep}", file=sys.stderr)
    return 1


def _say(total: Tally, seconds: float, file: int) -> None:
    peak = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = peak.ru_utime + peak.ru_stime
    text = (
        f"{total.executions} executions, {len(total.outcomes)} outcomes, "
        f"{sum(n for name, n in total.outcomes.items() if name.startswith('accepted'))} accepted, "
        f"{total.thorough} followed to the end, {int(bool(total.how))} crashes, {seconds:.0f} s, "
        f"{total.executions / max(seconds, 1e-9):.1f} in a second"
    )
    if used:
        text += f", {used / max(total.executions, 1) * 1e6:.0f} us of CPU time each"
        text += f", peak memory {peak.ru_maxrss / 2**10:.0f} MiB"
    os.write(file, (text + "\n").encode())
