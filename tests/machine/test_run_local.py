# SPDX-License-Identifier: Apache-2.0
"""The host with the real agent on this machine, at no priority and with no setting changed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Run
from rtgauge.errors import TargetError
from rtgauge.report.results import model
from rtgauge.store import Store
from rtgauge.target.local import find_agent
from waiting import until

Spawn = Callable[..., "subprocess.Popen[str]"]
PATIENCE_S = 60.0
HARMLESS = ("--keep-settings", "--priority", "0", "--cpu", "0", "--store", "data")


@pytest.fixture(autouse=True)
def agent() -> Path:
    try:
        return find_agent()
    except TargetError as error:
        pytest.skip(f"{error.message}; {error.remedy}")


def agents(run: str) -> list[int]:
    """The processes of the agent that measures for this run."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if entry.name.isdecimal() and run.encode() in words:
            found.append(int(entry.name))
    return sorted(found)


def measuring(spawn: Spawn) -> tuple[subprocess.Popen[str], str]:
    """A host in the middle of measuring, and the id of its run."""
    process = spawn("run", "timer", "--for", "1h", *HARMLESS)

    def grown() -> str:
        assert process.poll() is None, process.communicate()[1]
        for path in Path("data/runs").glob("[!.]*/steps/000/stream.cbor"):
            if path.stat().st_size > 30_000:
                return path.parents[2].name
        return ""

    return process, until(grown)


def result(rtgauge: Run, run: str) -> dict[str, Any]:
    document = rtgauge("show", run, "--json", "--store", "data").json()
    model.validate(document)
    return dict(document["runs"][0])


def check_periods(run: dict[str, Any]) -> None:
    found = [one for one in run["series"] if one["step"] == 0 and one["interval_ns"]]
    assert found
    for one in found:
        assert one["count"] > 100
        assert one["max"] >= one["min"]


def test_every_period_is_a_sample_or_missed(rtgauge: Run) -> None:
    words = ("run", "timer", "--samples", "1500", "--for", "0", "--load", "cpu", *HARMLESS)
    done = rtgauge(*words, "--json")
    assert done.code == 0, done.err
    (run,) = done.json()["runs"]
    model.validate(done.json())
    assert {step["state"] for step in run["steps"]} == {"complete"}
    assert run["steps"][0]["load"]["work_rate"] > 0
    with Store.open("data") as store:
        found = store.get(run["id"]).steps[0].series
        (series,) = (one for one in found if one.info.companion is None)
        totals = series.totals
        due = (totals.last_due_ns - totals.first_due_ns) // series.info.interval_ns + 1
        assert totals.count == series.count == 1500
        assert totals.count + totals.missed == due
        assert sum(len(part) for part in series.values()) == 1500


def test_what_the_agent_says_of_itself_can_be_planned(rtgauge: Run) -> None:
    document = rtgauge("describe", "--json").json()
    for entry in document["measurements"]:
        assert rtgauge("run", entry["name"], "--help").code == 0
        assert entry["name"] in rtgauge("describe", entry["name"]).out


@pytest.mark.slow
def test_ctrl_c(rtgauge: Run, spawn: Spawn) -> None:
    process, run = measuring(spawn)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4, err
    found = result(rtgauge, run)
    assert found["steps"][0]["state"] == "interrupted"
    assert found["steps"][0]["stream"]["complete"] is True
    check_periods(found)
    assert agents(run) == []


@pytest.mark.slow
def test_kill_9_of_the_host_ends_the_agent_and_keeps_the_samples(
    rtgauge: Run, spawn: Spawn
) -> None:
    process, run = measuring(spawn)
    assert agents(run)
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    until(lambda: not agents(run))
    found = result(rtgauge, run)
    assert (found["state"], found["steps"][0]["state"]) == ("interrupted", "interrupted")
    check_periods(found)


@pytest.mark.slow
def test_kill_9_of_the_agent_is_an_interruption(rtgauge: Run, spawn: Spawn) -> None:
    process, run = measuring(spawn)
    parents = {pid: int(Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[1])
               for pid in agents(run)}  # fmt: skip
    measurer = next(pid for pid, parent in parents.items() if parent not in parents)
    os.kill(measurer, signal.SIGKILL)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4, err
    found = result(rtgauge, run)
    assert found["steps"][0]["state"] == "interrupted"
    assert "SIGKILL" in found["steps"][0]["reason"]
    check_periods(found)
    until(lambda: not agents(run))


@pytest.mark.slow
def test_a_run_waits_for_the_agent_of_another(rtgauge: Run, tmp_path: Path, agent: Path) -> None:
    """Both have the same state folder, whose lock an agent holds while it measures."""
    state = tmp_path / "state"
    words = ["timer", "--priority", "0", "--cpu", "0"]
    measures = [str(agent), "run", *words, "--for", "3s", "--output", "/dev/null"]
    with subprocess.Popen(measures) as other:
        until(lambda: state.is_dir() and list(state.iterdir()))
        done = rtgauge("run", *words, "--for", "100ms", "--store", "data", "--json")
        assert other.wait(timeout=PATIENCE_S) == 0
    assert done.code == 0, done.err
    assert f"another agent, process {other.pid}, is measuring here. Waiting up to 2" in done.err
    reasons = [step["reason"] for step in done.json()["runs"][0]["steps"]]
    assert any(re.fullmatch(r"waited \d+ s for another agent", one) for one in reasons), reasons
