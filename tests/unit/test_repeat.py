# SPDX-License-Identifier: Apache-2.0
"""tools/repeat.py: flaky tests are found and counted, in an order, and on boards of a phase, that
its seed repeats."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import repeat
from run_stages import Counts, Runner, Stage

from lab_boots import shift_phase
from rtgauge.lab.machine import MODES, Machine, Output
from rtgauge.target.lab import LabTarget

ROOT = Path(__file__).resolve().parents[2]
CASE = '<testsuites><testcase classname="a" name="b">{}</testcase></testsuites>'
FAILURE = '<failure message="assert 1 == 2&#10; + more"/>'


def stage(*commands: str) -> Stage:
    return Stage("trial", "", ("quick",), commands, results=("r.xml",))


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        ((f"echo '{CASE.format('')}' > r.xml",), []),
        ((f"echo '{CASE.format(FAILURE)}' > r.xml", "exit 1"), [("a.b", "assert 1 == 2")]),
        # a run of tests that dies, or gets nowhere, is a failure, too
        ((f"echo '{CASE.format('')}' > r.xml; exit 3",), [("stage trial", "'echo' exited with 3")]),
    ],
)
def test_a_repetition_has_the_failures(
    tmp_path: Path, commands: tuple[str, ...], found: list[tuple[str, str]]
) -> None:
    runner = Runner(tmp_path, tmp_path / "records", use_records=False)
    assert repeat.repeated(runner, stage(*commands))[1] == found


def test_a_test_that_failed_once_is_in_the_table() -> None:
    found = repeat.Found()
    found.add(Counts(passed=2), [])
    found.add(Counts(passed=1, failed=1, skipped=3), [("t.b", "assert a | b"), ("t.a", "x")])
    found.add(Counts(passed=1, failed=1), [("t.b", "another")])
    lines = found.table("Today: `t`.").splitlines()
    assert lines[0].startswith("Today: `t`. Repetitions: 3. Load average: ")
    assert lines[0].endswith("Tests that failed at least once: 2 of 2 (and 3 skipped).")
    assert lines[-2:] == ["| t.a | 1 of 3 | `x` |", "| t.b | 2 of 3 | `assert a \\| b` |"]
    quiet = repeat.Found()
    quiet.add(Counts(passed=2), [])
    assert len(quiet.table("").splitlines()) == 1


def test_stages_and_paths_are_told_apart() -> None:
    first, second = repeat.stages_of(["tests/unit/test_a.py", "pure", "tests/b"], "not slow")
    assert (first.name, second.name) == ("pure", "repeat")
    assert second.commands == (
        "pytest -q --tb=short -m 'not slow' --junit-xml build/check/repeat.xml"
        " tests/unit/test_a.py tests/b",
    )
    assert repeat.stages_of(["ruff"], "") == []


def test_busy_loops_end() -> None:
    with repeat.busy(2, 60) as loops:
        assert [loop.poll() for loop in loops] == [None, None]
    assert None not in [loop.returncode for loop in loops]
    with repeat.busy(1, 0.01) as loops:
        assert loops[0].wait(60) == 0
    # the parent is another one from the start: it is gone
    words = [sys.executable, "-c", repeat.BUSY, str(os.getppid()), "3600"]
    assert subprocess.run(words, timeout=60, check=False).returncode == 0


@pytest.mark.slow
def test_the_order_follows_from_the_seed() -> None:
    def order(seed: str) -> list[str]:
        files = [f"tests/unit/test_{one}.py" for one in ("names", "home", "link")]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-q", *files],
            cwd=ROOT, env={**os.environ, repeat.SEED: seed}, capture_output=True, text=True,
            timeout=120, check=True,
        )  # fmt: skip
        return [line for line in done.stdout.splitlines() if "::" in line]

    usual, first, second = order(""), order("1"), order("2")
    assert first == order("1")
    assert usual != first != second != usual
    assert sorted(usual) == sorted(first) == sorted(second)
    # one file after the other: what a file's tests share is made once
    files = [name.partition("::")[0] for name in first]
    assert sum(a != b for a, b in itertools.pairwise(files)) == 2


def test_the_phase_of_boards_follows_from_the_seed() -> None:
    def orders(mode: str, *seeds: str) -> list[str]:
        done: list[str] = []

        def execute(words: Sequence[str]) -> Output:
            done.append(" ".join(words))
            return Output(0, b"", b"", 0)

        machine = SimpleNamespace(
            setup=SimpleNamespace(mode=MODES[mode]), start=lambda: "said", execute=execute
        )
        with contextlib.closing(LabTarget("x86_64-rt")) as target:
            for seed in seeds:
                with pytest.MonkeyPatch.context() as patch:
                    shift_phase(patch, seed)
                    assert target._boot(cast(Machine, machine)) == "said"
        return done

    first, again, other = orders("counted", "1", "1", "2")
    assert first == again != other
    assert first.startswith("/bin/busybox usleep ")
    assert orders("plain", "1") == []
