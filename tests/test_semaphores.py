# SPDX-License-Identifier: Apache-2.0
"""Semaphores measured on this machine: counts, labels, order and verdicts, never a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agents import Stream, run
from rtgauge.stream import Table, Verdict
from rtgauge.target.local import find_agent

CPU = str(max(os.sched_getaffinity(0)))


@pytest.fixture(name="agent")
def agent_path() -> str:
    return str(find_agent())


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals of the test's own, so that tests do not wait for other agents."""
    monkeypatch.setenv("RTGAUGE_STATE", str(tmp_path / "state"))


def measure(agent: str, tmp_path: Path, name: str, *words: str) -> tuple[int, Stream]:
    """Run it on one CPU; where it needs a privilege that is missing, the test is skipped."""
    code, stream = run(agent, tmp_path, name, "--cpu", CPU, *words)
    if code == 77:
        assert stream.trailer is not None
        assert stream.trailer.remedy
        pytest.skip(stream.trailer.reason)
    return code, stream


def tables(stream: Stream) -> dict[str, Table]:
    return {record.name: record for record in stream.records if isinstance(record, Table)}


def verdicts(stream: Stream) -> dict[str, Verdict]:
    return {record.rule: record for record in stream.records if isinstance(record, Verdict)}


def test_uncontended_has_every_operation_of_each_kind(agent: str, tmp_path: Path) -> None:
    code, stream = measure(agent, tmp_path, "sem-uncontended", "--samples", "1300")
    assert code == 0
    assert {(info.name, info.labels["shared"]) for info in stream.series} == {
        (name, shared) for name in ("acquire", "release") for shared in ("no", "yes")
    }
    assert [stream.samples[info.series] for info in stream.series] == [1300] * 4
    assert [row[0] for row in tables(stream)["batches"].rows] == [
        f"{kind}: {operation}"
        for kind in ("private", "shared")
        for operation in ("acquire", "release", "acquire, release")
    ]
    # whole batches of 500, as many as there are test loops
    assert {row[3] for row in tables(stream)["batches"].rows} == {1500}
