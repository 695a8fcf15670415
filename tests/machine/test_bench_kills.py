# SPDX-License-Identifier: Apache-2.0
"""A short run of bench/kills.py: real runs, killed at random, on copies of the settings' files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import SOURCES

PROGRAM = SOURCES.parent / "bench" / "kills.py"


@pytest.mark.skipif(os.geteuid() != 0, reason="the agent changes settings: only root can")
@pytest.mark.slow
def test_kills(tmp_path: Path) -> None:
    allowed = subprocess.run(
        ["unshare", "-m", "true"], capture_output=True, timeout=60, check=False
    ).returncode
    if allowed != 0 or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("it takes a mount namespace and two CPUs")
    words = ["--rounds", "8", "--seed", "3", "--shadow", "--no-results", "--keep", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *words],
        capture_output=True, text=True, timeout=900, check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    kills = sum(int(line.split(": ")[1].split()[0]) for line in done.stdout.splitlines())
    assert kills == 8
