# SPDX-License-Identifier: Apache-2.0
"""A short run of the fuzzer; `python tests/support/fuzz_stream.py` runs longer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fuzz_stream


@pytest.mark.slow
def test_fuzzing(tmp_path: Path) -> None:
    tally = fuzz_stream.fuzz(20, 0, 4000, tmp_path, 20)
    assert not tally.how, tally.how
    assert tally.executions == 4000
    accepted = sum(n for name, n in tally.outcomes.items() if name.startswith("accepted"))
    assert accepted > 150 and tally.thorough > 3
    assert len(tally.outcomes) > 100  # it reaches many places of the reader


@pytest.mark.slow
def test_the_driver_counts_what_its_processes_did(tmp_path: Path) -> None:
    words = ["--executions", "700", "--from", "49600", "--jobs", "2", "--outcomes", "1000"]
    done = subprocess.run(
        [sys.executable, fuzz_stream.__file__, *words],
        capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "700 executions" in done.stdout
    outcomes = re.findall(r"^ *(\d+) .*$", done.stdout, re.MULTILINE)[:-1]
    assert sum(map(int, outcomes)) == 700
