# SPDX-License-Identifier: Apache-2.0
"""The rights of the user's programs as loads, and the parts of a plan that need consent."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from conftest import Run
from rtgauge.cli.consent import check_consent, outside
from rtgauge.errors import UsageError
from rtgauge.plan import PlannedStep
from rtgauge.stream import Setting, StreamReader
from rtgauge.target.local import find_agent

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root alone can give up rights")
# What a process may do: its user and groups, and that it dies with its parent.
RIGHTS = ("Uid", "Gid", "Groups", "CapEff")


def measured(folder: Path, environment: Mapping[str, str], *words: str) -> list[Setting]:
    """A short step of the real agent with these words; the settings that its stream records."""
    folder.chmod(0o777)
    done = subprocess.run(
        [find_agent(), "run", "timer", "--samples", "50", "--for", "0", "--cpu", "0",
         "--priority", "0", "--keep-settings", "--output", "-", *words],
        env={**os.environ, **environment}, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return [one for one in StreamReader().feed(done.stdout) if isinstance(one, Setting)]


def rights(path: Path) -> dict[str, list[str]]:
    lines = [line.partition(":") for line in path.read_text().splitlines()]
    return {name: value.split() for name, _, value in lines if name in RIGHTS}


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that every user can reach."""
    path = tmp_path_factory.mktemp("rights")
    for one in (path, path.parent, path.parent.parent):
        one.chmod(0o777)
    return path


COMMAND = "cat /proc/self/status >$OUT.new; mv $OUT.new $OUT; exec sleep 60"
CALLER = {"SUDO_UID": f"{NOBODY}", "SUDO_GID": f"{NOBODY}"}


@needs_root
def test_a_load_command_has_the_rights_of_whoever_called_sudo(folder: Path) -> None:
    out = folder / "status"
    settings = measured(folder, {**CALLER, "OUT": str(out)}, "--load-cmd", COMMAND)
    assert rights(out) == {
        "Uid": [f"{NOBODY}"] * 4,
        "Gid": [f"{NOBODY}"] * 4,
        "Groups": [],
        "CapEff": ["0" * 16],
    }
    [user] = [one for one in settings if one.name == "load command's user"]
    assert (user.asked, user.effective) == ("caller", f"uid {NOBODY}")


@needs_root
def test_a_load_command_keeps_the_rights_of_root_if_asked(folder: Path) -> None:
    out = folder / "status"
    words = ("--load-cmd", COMMAND, "--load-cmd-root")
    settings = measured(folder, {**CALLER, "OUT": str(out)}, *words)
    assert rights(out)["Uid"] == ["0"] * 4
    [user] = [one for one in settings if one.name == "load command's user"]
    assert (user.asked, user.effective) == ("root", "uid 0")


@needs_root
def test_without_sudo_a_load_command_has_the_rights_of_its_agent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = folder / "status"
    monkeypatch.delenv("SUDO_UID", raising=False)
    measured(folder, {"OUT": str(out)}, "--load-cmd", COMMAND)
    assert rights(out)["Uid"] == ["0"] * 4


@needs_root
@pytest.mark.parametrize("wrong", ["", "x", "-1", "0x10", f"{2**32 - 1}", f"{2**64}"])
def test_sudo_variables_that_make_no_sense_give_no_rights(folder: Path, wrong: str) -> None:
    out = folder / "status"
    with pytest.raises(AssertionError, match="load command: ended by itself"):
        measured(folder, {"SUDO_UID": wrong, "OUT": str(out)}, "--load-cmd", COMMAND)
    assert not out.exists()


@needs_root
def test_the_program_of_the_load_list_has_the_rights_of_the_caller(folder: Path) -> None:
    out, program = folder / "status", folder / "program"
    program.write_text(f"#!/bin/sh\ncat /proc/self/status >{out}.$$; mv {out}.$$ {out}\n")
    program.chmod(0o755)
    measured(folder, CALLER, "--load", f"list:program={program}")
    assert rights(out)["Uid"] == [f"{NOBODY}"] * 4


# --- consent --------------------------------------------------------------------------------------

STEP = '[[step]]\nmeasurement = "timer"\nfor = "1s"\n'


def test_a_plan_runs_no_command_without_consent(rtgauge: Run) -> None:
    Path("plan.toml").write_text(STEP + 'load-cmd = "stress-ng --vm 2"\n')
    refused = rtgauge("run", "plan.toml", "--target", "fake")
    assert refused.code == 2
    assert "the plan would run 'stress-ng --vm 2' on fake as the user of the conn" in refused.err
    assert "--allow-load-cmd" in refused.err
    assert rtgauge("runs").err.startswith("there are no runs")
    allowed = rtgauge("run", "plan.toml", "--target", "fake", "--allow-load-cmd")
    assert allowed.code == 0, allowed.err
    assert "the plan runs 'stress-ng --vm 2' on fake as" in allowed.err


@pytest.mark.parametrize(
    "load", ["list:program=/bin/thing", "sched,list:restart=5s:program=/bin/thing,cpu"]
)
def test_a_plan_starts_no_program_without_consent(rtgauge: Run, load: str) -> None:
    Path("plan.toml").write_text(STEP + f'load = "{load}"\n')
    refused = rtgauge("run", "plan.toml")
    assert refused.code == 2
    assert "the plan would run '/bin/thing' on local as " in refused.err


def test_a_plan_cannot_give_consent(rtgauge: Run) -> None:
    for key in ("allow-load-cmd = true", "load-cmd-root = true"):
        Path("plan.toml").write_text(STEP + 'load-cmd = "sleep 60"\n' + key + "\n")
        assert rtgauge("run", "plan.toml", "--target", "fake").code == 2
        head = f"[plan]\n{key}\n"
        Path("plan.toml").write_text(head + STEP + 'load-cmd = "sleep 60"\n')
        assert rtgauge("run", "plan.toml", "--target", "fake").code == 2


def test_what_the_command_line_itself_names_needs_no_consent(rtgauge: Run) -> None:
    Path("plan.toml").write_text(STEP + 'load-cmd = "sleep 60"\n')
    words = ("run", "plan.toml", "--target", "fake", "--load-cmd", "sleep 50")
    assert rtgauge(*words).code == 0
    assert rtgauge("run", "timer", "--target", "fake", "--for", "1s", "--load-cmd", "x").code == 0


def test_the_user_is_named(rtgauge: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("plan.toml").write_text(STEP + 'load-cmd = "sleep 60"\n')
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", f"{NOBODY}")
    assert "'sleep 60' on local as nobody," in rtgauge("run", "plan.toml").err
    monkeypatch.delenv("SUDO_UID")
    assert "'sleep 60' on local as root," in rtgauge("run", "plan.toml").err
    refused = rtgauge("run", "plan.toml", "--load-cmd-root")
    assert "as the agent's user (root, if the agent has root privileges)," in refused.err


@pytest.mark.parametrize(
    ("load", "text"),
    [
        ("copy:path=/dev/watchdog", "use the file '/dev/watchdog' on local"),
        ("sched,walk:cross=yes:path=/net,cpu", "use the file '/net' on local"),
        ("find:path=/usr", "use the file '/usr' on local"),
        ("disk:size=1MiB:path=/boot", "use the file '/boot' on local"),
        ("net:peer=192.0.2.7/25:pause=0", "connect to the address '192.0.2.7/25' on local"),
        ("doload:peer=192.0.2.7/25", "connect to the address '192.0.2.7/25' on local"),
    ],
)
def test_a_plan_reaches_no_file_and_no_address_without_consent(
    rtgauge: Run, load: str, text: str
) -> None:
    Path("plan.toml").write_text(STEP + f'load = "{load}"\n')
    refused = rtgauge("run", "plan.toml")
    assert refused.code == 2
    assert f"the plan would {text} with the agent's rights, which needs your cons" in refused.err
    assert "--allow-load-cmd" in refused.err
    assert rtgauge("runs").err.startswith("there are no runs")


def test_a_plan_uses_no_line_without_consent(rtgauge: Run) -> None:
    Path("plan.toml").write_text(STEP + 'mark = "gpio:gpiochip0:17"\n')
    refused = rtgauge("run", "plan.toml", "--target", "fake")
    assert refused.code == 2
    assert "the plan would use the line 'gpio:gpiochip0:17' on fake with the age" in refused.err


@pytest.mark.parametrize("line", ["serial:/dev/ttyS0:rts:cts", "net:192.0.2.7:7007"])
def test_the_lines_of_a_plan_need_consent(line: str) -> None:
    for step in (
        PlannedStep("response", {"line": line}),
        PlannedStep("irq-latency", {"gpio": line}),
        PlannedStep("response", log_host="ssh://logger", log_line=line),
    ):
        [found] = outside(step)
        assert (found.verb, found.text) == ("use", f"the line '{line}'")


def test_a_log_host_outside_the_lab_needs_consent_to_its_line() -> None:
    found = outside(PlannedStep("response", log_host="ssh://logger", log_line="gpio:gpiochip0:1:2"))
    with pytest.raises(UsageError, match="use the line 'gpio:gpiochip0:1:2' on the log host"):
        check_consent("the plan", "read it", found, [], {"allow_load_cmd": False})


@pytest.mark.parametrize("load", ["net:peer=host", "sched:size=1KiB,walk:cross=yes", "xeno-test"])
def test_what_stays_inside_needs_no_consent(load: str) -> None:
    assert outside(PlannedStep("response", {"line": "net:7007"}, {"load": load})) == []
