# SPDX-License-Identifier: Apache-2.0
"""Real signals to real processes: what was measured is kept whatever happens to the host."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import SOURCES, Run
from waiting import until

Spawn = Callable[..., "subprocess.Popen[str]"]
PATIENCE_S = 60.0


def measuring(spawn: Spawn, *words: str) -> subprocess.Popen[str]:
    """A host whose step has written something to its folder."""
    process = spawn("run", "timer", "--for", "1h", "--store", "data", *words)

    def grown() -> bool:
        assert process.poll() is None, process.communicate()[1]
        paths = list(Path("data/runs").glob("[!.]*/steps/000/stream.cbor"))
        return bool(paths) and paths[0].stat().st_size > 10_000

    until(grown)
    return process


def only_run(rtgauge: Run) -> dict[str, Any]:
    (row,) = rtgauge("runs", "--json", "--store", "data").json()["runs"]
    (run,) = rtgauge("show", row["id"], "--json", "--store", "data").json()["runs"]
    assert run["state"] == row["state"]
    return dict(run)


def kept(run: dict[str, Any]) -> int:
    return sum(one["count"] for one in run["series"] if one["step"] == 0)


@pytest.mark.slow
def test_ctrl_c_ends_in_order_and_keeps(rtgauge: Run, spawn: Spawn) -> None:
    process = measuring(spawn, "--target", "fake:realtime", "--json")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4, err
    assert "stopping. The samples are kept" in err
    run = only_run(rtgauge)
    assert (run["state"], run["steps"][0]["state"]) == ("interrupted", "interrupted")
    assert run["steps"][0]["stream"]["complete"] is True
    assert kept(run) > 0


@pytest.mark.slow
def test_ctrl_c_twice_kills_an_agent_that_does_not_listen(rtgauge: Run, spawn: Spawn) -> None:
    process = measuring(spawn, "--target", "fake:realtime,stubborn")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while "stopping. The samples are kept" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4, err
    run = only_run(rtgauge)
    assert "the agent was killed" in run["steps"][0]["reason"]
    assert kept(run) > 0


def test_kill_9_of_the_host_keeps_what_came(rtgauge: Run, spawn: Spawn) -> None:
    process = measuring(spawn, "--target", "fake:realtime")
    size = next(Path("data/runs").glob("[!.]*/steps/000/stream.cbor")).stat().st_size
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGKILL
    run = only_run(rtgauge)
    assert (run["state"], run["steps"][0]["state"]) == ("interrupted", "interrupted")
    assert [step["state"] for step in run["steps"]] == ["interrupted", "complete"]
    assert 4 * kept(run) > size / 2
    last = max(one["count"] * one["interval_ns"] for one in run["series"] if one["step"] == 0)
    assert run["steps"][0]["duration_s"] == pytest.approx(last / 1e9, abs=0.3)
    assert run["duration_s"] >= run["steps"][0]["duration_s"] > 0
    assert only_run(rtgauge) == run


def test_a_disk_without_room_ends_the_run_and_keeps_what_fitted(rtgauge: Run) -> None:
    words = "run timer --target fake --for 10m --store data --keep-settings"
    process = subprocess.run(
        ["sh", "-c", f"ulimit -f 600; exec {shlex.quote(sys.executable)} -m rtgauge {words}"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        timeout=PATIENCE_S,
    )
    assert process.returncode == 1
    assert process.stdout == ""
    assert "File too large" in process.stderr.splitlines()[-2]
    run = only_run(rtgauge)
    assert (run["state"], run["steps"][0]["state"]) == ("failed", "failed")
    assert kept(run) > 10_000


@pytest.mark.parametrize("words", [["runs"], ["describe", "--target", "fake"]])
def test_a_reader_that_has_seen_enough_is_no_error(spawn: Spawn, words: list[str]) -> None:
    process = spawn(*words)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=PATIENCE_S) == 0
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
