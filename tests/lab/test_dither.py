# SPDX-License-Identifier: Apache-2.0
"""The injection of the README, as the README runs it: found, sized and timed without an option."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Run

pytestmark = pytest.mark.slow


def test_the_injection_of_the_readme_is_found_with_its_period(rtgauge: Run, tmp_path: Path) -> None:
    """10 000 wake-ups exactly 1 ms apart would show an alias of the period, 24.3 ms."""
    target = ("--target", "lab:x86_64-rt", "--disturb", "preempt_disable:200us:7.301ms")
    done = rtgauge("run", "timer", *target, "--json", "--store", str(tmp_path))
    assert done.code == 0, done.err
    (run,) = done.json()["runs"]
    step = run["steps"][0]
    assert step["parameters"]["dither"] == "yes"
    (text,) = [one["text"] for one in step["observations"] if one["rule"] == "second line"]
    assert "recur every 7.301\u202fms" in text
    (latency,) = [one for one in run["series"] if one["step"] == 0]
    assert 190_000 < latency["max"] < 230_000
