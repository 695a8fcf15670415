# SPDX-License-Identifier: Apache-2.0
"""Choices that a kernel takes when it starts: mode of preemption, high-resolution timers, tick."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab_boots import NEEDS_X86
from rtgauge.cli.main import main

pytestmark = NEEDS_X86
BOARD = "lab:x86_64-stock-6.1"
STEP = """
[[step]]
measurement = "timer"
context = ["user"]
cpu = "0"
interval = "997us"
samples = 200
for = "10s"
load = "%s"
"""
IDLE = STEP % "idle"
LOADED = STEP % "sched:groups=2:size=64KiB"
TICK_NS = 4_000_000


def medians(
    folder: Path, capsys: pytest.CaptureFixture[str], given: str, steps: str = IDLE + LOADED
) -> list[float]:
    """The median of the user task in ns, for each step on a kernel with this argument."""
    plan = folder / "plan.toml"
    plan.write_text(steps)
    words = ["--target", f"{BOARD},{given}", "--json", "--store", str(folder / "store")]
    assert main(["run", str(plan), *words]) == 0
    run: dict[str, Any] = json.loads(capsys.readouterr().out)["runs"][0]
    found = [one for one in run["series"] if one["name"] == "latency"]
    assert {one["count"] for one in found} == {200}
    return [float(one["percentiles"]["50"]) for one in found]


@pytest.mark.study(131, lacks="the board, and options for which a kernel has to be built")
def test_preemption_timers_and_tick_are_variables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The modes of the plan preempt-modes in their order, and timers without high resolution."""
    full, voluntary, none = (
        medians(tmp_path, capsys, f"preempt={mode}") for mode in ("full", "voluntary", "none")
    )
    coarse, periodic = (
        medians(tmp_path, capsys, given, IDLE) for given in ("highres=off", "nohz=off")
    )
    assert full[1] < voluntary[1] < none[1]
    assert max(one[0] for one in (full, voluntary, none, periodic)) < 2 * full[1]
    assert coarse[0] > TICK_NS / 4
