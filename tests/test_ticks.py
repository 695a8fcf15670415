# SPDX-License-Identifier: Apache-2.0
"""Calibration and the clock tick, measured on this machine: counts, tables, verdicts."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from agents import Stream, run
from rtgauge.stream import Table, Verdict
from rtgauge.target.local import find_agent

# CLOCK_MONOTONIC_COARSE, which Python does not name
CONFIGURED_HZ = round(1 / time.clock_getres(6))
LAST_CPU = str(max(os.sched_getaffinity(0)))


@pytest.fixture(name="agent")
def agent_path() -> str:
    return str(find_agent())


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals of the test's own, so that tests do not wait for other agents."""
    monkeypatch.setenv("RTGAUGE_STATE", str(tmp_path / "state"))


def verdicts(stream: Stream) -> dict[str, Verdict]:
    return {record.rule: record for record in stream.records if isinstance(record, Verdict)}


def table(stream: Stream, name: str) -> list[dict[str, object]]:
    (found,) = [
        record for record in stream.records if isinstance(record, Table) and record.name == name
    ]
    names = [column.name for column in found.columns]
    return [dict(zip(names, row, strict=True)) for row in found.rows]


def test_the_tick_is_found_and_judged_by_what_is_configured(agent: str, tmp_path: Path) -> None:
    code, stream = run(agent, tmp_path, "tick-period")
    verdict = verdicts(stream)["the tick comes as configured"]
    grids = table(stream, "grids")
    found = [row["frequency"] for row in grids]
    assert code == {"pass": 0, "inconclusive": 0, "fail": 3}[verdict.result]
    # a machine that is too busy may hide its tick; what is found is judged right in any case
    if not Path("/sys/devices/system/cpu/nohz_full").exists():
        assert (verdict.result == "pass") == (CONFIGURED_HZ in found)
    assert f"expected: {CONFIGURED_HZ} Hz" in verdict.evidence or "none" in verdict.evidence
    for row in grids:
        assert isinstance(row["points"], int)
        assert isinstance(row["with a gap"], int)
        assert row["points"] >= 20
        assert row["with a gap"] * 10 > row["points"] * 5
        text = f"{row['frequency']} Hz at {row['with a gap']} of {row['points']} points"
        assert text in verdict.evidence
    assert [info.name for info in stream.series] == ["gap"]
    assert stream.series[0].cpu == int(LAST_CPU)
    assert stream.samples[0] > 0


def test_another_tick_than_the_one_expected_fails(agent: str, tmp_path: Path) -> None:
    # no multiple of a tick that kernels have
    code, stream = run(agent, tmp_path, "tick-period", "--expect", "777", "--for", "500ms")
    verdict = verdicts(stream)["the tick comes as configured"]
    assert (code, verdict.result) == (3, "fail")
    assert "expected: 777 Hz" in verdict.evidence


def test_gaps_are_limited_to_the_samples_asked_for(agent: str, tmp_path: Path) -> None:
    _, stream = run(agent, tmp_path, "tick-period", "--samples", "100", "--for", "20s")
    assert stream.trailer is not None
    assert stream.trailer.series[0].count <= 100
    assert stream.trailer.duration_ns < 20e9
