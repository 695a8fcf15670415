# SPDX-License-Identifier: Apache-2.0
"""The chapter Threads on this machine: orders, counts and verdicts; never a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agents import Stream, run
from rtgauge.stream import Table, Verdict
from rtgauge.target.local import find_agent

needs_realtime = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root may have real-time priorities for certain"
)


@pytest.fixture(name="agent")
def agent_path() -> str:
    return str(find_agent())


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals of the test's own, so that tests do not wait for other agents."""
    monkeypatch.setenv("RTGAUGE_STATE", str(tmp_path / "state"))


def verdicts(stream: Stream) -> dict[str, Verdict]:
    found = [record for record in stream.records if isinstance(record, Verdict)]
    assert len({verdict.rule for verdict in found}) == len(found)
    return {verdict.rule: verdict for verdict in found}


def rows(stream: Stream, name: str) -> list[tuple[object, ...]]:
    (table,) = [
        record for record in stream.records if isinstance(record, Table) and record.name == name
    ]
    return [tuple(row) for row in table.rows]


# --- thread-rules ---

RULES = [
    "a new thread of lower priority waits",
    "a new thread of equal priority goes to the tail",
    "a new thread of higher priority runs at once",
    "a yield lets all others of the priority run",
]


@needs_realtime
@pytest.mark.parametrize("policy", ["fifo", "rr"])
def test_the_rules_hold_with_priorities(agent: str, tmp_path: Path, policy: str) -> None:
    code, stream = run(agent, tmp_path, "thread-rules", "--policy", policy)
    assert {rule: verdict.result for rule, verdict in verdicts(stream).items()} == dict.fromkeys(
        RULES, "pass"
    )
    assert code == 0
    order = rows(stream, "order")
    threads: dict[object, list[object]] = {}
    times: dict[object, list[int]] = {}
    for rule, time_ns, thread, _ in order:
        threads.setdefault(rule, []).append(thread)
        assert isinstance(time_ns, int)
        times.setdefault(rule, []).append(time_ns)
    assert list(threads)[:4] == RULES
    assert threads[RULES[0]] == ["creator", "creator", "low"]
    assert threads[RULES[1]] == ["creator", "creator", "first", "second"]
    assert threads[RULES[2]] == ["creator", "high", "high", "creator"]
    assert threads[RULES[3]] == [
        "creator", "first", "first", "second", "second", "creator", "low",
    ]  # fmt: skip
    for one in times.values():
        assert one[0] == 0
        assert one == sorted(one)


@needs_realtime
def test_the_rules_fail_without_priorities(agent: str, tmp_path: Path) -> None:
    code, stream = run(agent, tmp_path, "thread-rules", "--policy", "other")
    assert code == 3
    found = verdicts(stream)
    assert list(found) == RULES
    for verdict in found.values():
        assert verdict.result == "fail"
        assert "SCHED_FIFO" in verdict.remedy
        assert "creator" in verdict.evidence
        assert " us" in verdict.evidence


@needs_realtime
def test_where_a_lowered_thread_lands_is_reported(agent: str, tmp_path: Path) -> None:
    """Without a verdict, and as the order of the threads has it; head is what sched(7) says."""
    _, stream = run(agent, tmp_path, "thread-rules", "--policy", "other")
    lowered = rows(stream, "lowered")
    assert [row[:2] for row in lowered] == [
        ("fifo", "running"), ("rr", "running"), ("fifo", "ready"), ("rr", "ready"),
    ]  # fmt: skip
    order = rows(stream, "order")
    for policy, how, lands in lowered:
        ran = [
            thread for rule, _, thread, what in order
            if rule == f"lowered while {how}, {policy}" and what == "runs"
        ]  # fmt: skip
        assert sorted(map(str, ran)) == sorted(
            ["creator" if how == "running" else "lowered", "waiting"]
        )
        assert lands == ("tail" if ran[0] == "waiting" else "head")
