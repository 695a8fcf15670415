# SPDX-License-Identifier: Apache-2.0
"""The host restores settings after the agent and its guardian were killed together."""

from __future__ import annotations

import contextlib
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
from rtgauge.target.local import LocalTarget, put_back
from test_settings_guardian import wait_until_gone
from waiting import until

pytestmark = pytest.mark.usefixtures("limited_real_time")

RT_RUNTIME = Path("/proc/sys/kernel/sched_rt_runtime_us")
TIMEOUT_S = 60


def _writable(path: Path) -> bool:
    """Whether a setting can really be changed here; it is written as it is."""
    try:
        path.write_text(path.read_text())
    except OSError:
        return False
    return True


def below(pid: int) -> dict[int, str]:
    """All processes below one, with their names."""
    found: dict[int, str] = {}
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found[int(child)] = Path(f"/proc/{child}/comm").read_text().strip()
            found |= below(int(child))
    return found


def measuring(host: int) -> tuple[int, int] | None:
    """The agent that measures, once the calibration is over, and its guardian."""
    found = below(host)
    for agent in found:
        try:
            words = Path(f"/proc/{agent}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        guardians = [pid for pid in below(agent) if found.get(pid) == "rtgauge-guard"]
        if words[1:3] == [b"run", b"timer"] and guardians:
            return agent, guardians[0]
    return None


@pytest.mark.slow
@pytest.mark.skipif(not _writable(RT_RUNTIME), reason=f"{RT_RUNTIME} cannot be changed here")
@pytest.mark.parametrize("both", [True, False])
def test_settings_come_back_without_another_start(spawn: Callable[..., Any], both: bool) -> None:
    before = RT_RUNTIME.read_text()
    with spawn("run", "timer", "--for", "50s", "--cpu", "0") as host:
        agent, guardian = until(lambda: measuring(host.pid))
        until(lambda: RT_RUNTIME.read_text() == "-1\n")
        if both:
            os.kill(guardian, signal.SIGKILL)
            wait_until_gone(guardian)
            assert RT_RUNTIME.read_text() == "-1\n"
        os.kill(agent, signal.SIGKILL)
        _, err = host.communicate(timeout=TIMEOUT_S)
    assert RT_RUNTIME.read_text() == before
    assert host.returncode == 4
    said = re.findall(
        r"the agent and its guardian were killed. rtgauge restored \d+ settings? changed by them",
        err,
    )
    assert len(said) == int(both)
    assert "the agent was killed from outside (SIGKILL)" in err


def test_load_commands_that_left_their_group_end_with_everybody_who_could_end_them(
    spawn: Callable[..., Any], tmp_path: Path
) -> None:
    """Agent, guardian and the load's leader are killed at once; a process of another run stays."""
    left = tmp_path / "left"
    command = f"setsid sh -c 'echo $$ >{left}.new; mv {left}.new {left}; exec sleep 500' & wait"
    other = subprocess.Popen(["sleep", "500"], env={**os.environ, "RTGAUGE_RUN": "other"})
    try:
        with spawn("run", "timer", "--for", "50s", "--cpu", "0", "--load-cmd", command) as host:
            agent, guardian = until(lambda: measuring(host.pid))
            sleeping = int(until(lambda: left.exists() and left.read_text()))
            leaders = [pid for pid in below(agent) if sleeping in below(pid)]
            for pid in (agent, guardian, *leaders):
                os.kill(pid, signal.SIGSTOP)
            for pid in (guardian, agent, *leaders):
                os.kill(pid, signal.SIGKILL)
            _, err = host.communicate(timeout=TIMEOUT_S)
        wait_until_gone(sleeping)
        assert re.search(r"local: killed \d+ process(es)? left running by the agent's loads", err)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"3 settings restored\n",
        b"[]",
        b'{"put_back": 1, "killed": null}',
        b'{"put_back": 1e999, "killed": 0}',
    ],
)
def test_an_agent_that_does_not_say_how_many(answer: bytes) -> None:
    with pytest.raises(TargetError, match="did not report what it restored"):
        put_back(answer)


def test_nothing_to_put_back() -> None:
    assert put_back(b'{"put_back": 0, "killed": 2}\n') == (0, 2)
    assert LocalTarget().restore("01980000-0000-7000-8000-000000000000") == (0, 0)


def test_a_target_whose_settings_cannot_be_looked_at(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What was measured is kept, and the user learns what is left to do."""
    script = tmp_path / "agent"
    real = LocalTarget()._agent
    script.write_text(
        f'#!/bin/sh\ncase "$1" in restore) exit 1;; run) kill -9 $$;; esac\nexec {real} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("RTGAUGE_AGENT", str(script))
    result = rtgauge("run", "timer", "--for", "1s")
    assert result.code == 4
    assert "The next run there that changes settings restores them" in result.err
