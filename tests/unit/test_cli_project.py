# SPDX-License-Identifier: Apache-2.0
"""``rtgauge.toml``: what a project gives, where it is found, and what it must not do."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from conftest import Run
from rtgauge.cli import project
from rtgauge.cli.words import targets_of

WHOLE = """
store = "measured"
target = "fake"
budget = "150us"
rate = "1/h"
load = "sched"
prepare = true

[report]
title = "Gateway 7"
serial = "0042"
paper = "letter"
meta = { customer = "ACME" }
"""


@pytest.mark.slow
def test_a_project_gives_what_the_command_line_does_not(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("rtgauge.toml").write_text(WHOLE)
    below = Path("boards/gateway")
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    done = rtgauge("run", "timer", "--for", "1s", "--json", "-o", "run.html")
    assert done.code == 0, done.err
    assert "rtgauge.toml: target fake, budget 150us, rate 1/h, load sched, prepare" in done.err
    (run,) = done.json()["runs"]
    (step,) = run["plan"]["steps"]
    assert (run["target"], step["load"], step["prepare"]) == ("fake", "sched", True)
    assert (step["budget_ns"], step["rate_per_hour"]) == (150_000, 1.0)
    assert run["plan"]["project"] == str(Path("../../rtgauge.toml").resolve())
    page = Path("run.html").read_text()
    for text in ("Gateway 7", "0042", "ACME"):
        assert text in page
    assert [one["id"] for one in rtgauge("runs", "--json").json()["runs"]] == [run["id"]]
    assert (Path("../../measured/runs") / run["id"]).is_dir()
    assert rtgauge("report", "last", "-o", "report.html").code == 0
    assert "Gateway 7" in Path("report.html").read_text()


@pytest.mark.slow
def test_the_store_of_a_project_is_that_of_all_commands(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of those that look for it themselves: the overview, and a tune that is resumed."""
    monkeypatch.setattr("rtgauge.cli.status._machine", lambda: "PREEMPT_RT; ready")
    Path("rtgauge.toml").write_text("store = 'measured'\ntarget = 'fake'\n")
    assert rtgauge("run", "timer", "--for", "1s", "--label", "here").code == 0
    overview = rtgauge().out
    assert "Last run  #1 on fake (here)" in overview
    assert f"1 run in {Path('measured').resolve()}" in " ".join(overview.split())
    assert "--store" not in overview
    with monkeypatch.context() as patch:
        patch.setattr("rtgauge.engine.study.Interruption.asked", True)
        assert rtgauge("tune", "timer", "--for", "1s", "--try", "priority=95").code == 4
    done = rtgauge("tune", "--resume", "--dry-run")
    assert done.code == 0, done.err


@pytest.mark.slow
def test_options_and_plans_precede_a_project(rtgauge: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("rtgauge.toml").write_text(WHOLE)
    words = ("--for", "1s", "--json", "--store", "elsewhere")
    changed = ("--budget", "1ms", "--load", "idle", "--keep-settings", "--target", "fake:late")
    (run,) = rtgauge("run", "timer", *words, *changed).json()["runs"]
    (step,) = run["plan"]["steps"]
    assert (run["target"], step["load"], step["budget_ns"]) == ("fake:late", "idle", 1_000_000)
    assert (step["prepare"], step["keep_settings"]) == (False, True)
    assert not Path("measured").exists()
    assert len(rtgauge("runs", "--json", "--store", "elsewhere").json()["runs"]) == 1

    Path("plan.toml").write_text('[[step]]\nmeasurement = "timer"\nbudget = "2ms"\nfor = "1s"\n')
    (run,) = rtgauge("run", "plan.toml", "--json").json()["runs"]
    (step,) = run["plan"]["steps"]
    assert (step["budget_ns"], step["rate_per_hour"], step["load"]) == (2_000_000, None, "idle")

    (run,) = rtgauge("run", "pendulum", "--for", "1s", "--json").json()["runs"]
    assert run["plan"]["steps"][0]["budget_ns"] is None  # not a latency on a time grid
    monkeypatch.setenv("RTGAUGE_STORE", "environment")
    assert f"no store at {Path('environment').absolute()}" in rtgauge("runs").err


def test_an_evaluation_takes_target_and_budget_of_the_project(rtgauge: Run) -> None:
    Path("rtgauge.toml").write_text(WHOLE)
    document = rtgauge("evaluate", "--dry-run", "--json").json()
    assert document["targets"] == ["fake"]
    budgets = {step["measurement"]: step["budget_ns"] for step in document["steps"]}
    assert budgets["timer"] == 150_000
    assert {step["load"] for step in document["steps"]} > {"idle"}


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("budgte = '1ms'", "unknown key 'budgte'", "'budget'"),
        ("budget = 150", "key 'budget': 150 is not a string", "command-line.md"),
        ("prepare = 'yes'", "key 'prepare': 'yes' is not true or false", ""),
        ("[report]\ntitel = 'x'", "unknown key 'report.titel'", "'title'"),
        ("[report]\nmeta = { a = 1 }", "key 'report.meta.a'", "quote it"),
        ("load = 'list:program=/tmp/x'", "a project file cannot run '/tmp/x'", "plan"),
        (
            "load = 'sched,disk:path=/etc'",
            "a project file cannot use the file '/etc'",
            "name the file on the command line, or in a plan",
        ),
        (
            "load = 'net:peer=192.0.2.1/9'",
            "a project file cannot connect to the address '192.0.2.1/9'",
            "name the address on",
        ),
        ("load_cmd = 'reboot'", "unknown key 'load_cmd'", ""),
        ("budget = ", "is not TOML", "correct it"),
        ("x" * 70_000, "has more than 65536 bytes", ""),
    ],
)
def test_a_wrong_project_is_one_line_and_a_remedy(
    rtgauge: Run, text: str, message: str, remedy: str
) -> None:
    Path("rtgauge.toml").write_text(text)
    for words in (["runs"], ["run", "timer", "--target", "fake", "--for", "1s"], ["evaluate"]):
        done = rtgauge(*words)
        assert (done.code, done.out) == (2, "")
        first, *rest = done.err.splitlines()
        assert "rtgauge.toml" in first and message in first
        assert len(rest) <= 1 and remedy in "".join(rest)
    assert rtgauge("--help").code == 0


def test_a_project_is_looked_for_up_to_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / "a").mkdir(parents=True)
    (tmp_path / "rtgauge.toml").write_text("budget = '1ms'")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "a")
    assert project.project().path is None
    monkeypatch.setenv("HOME", "/nowhere")
    assert project.project().path == tmp_path / "rtgauge.toml"
    (home / "rtgauge.toml").write_text("budget = '2ms'")
    assert project.project().measuring == {"budget": "2ms"}


def test_a_folder_that_may_not_be_searched_has_no_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """As below /root for another user."""
    real = os.stat

    def denied(path: Any, *words: Any, **more: Any) -> os.stat_result:
        if str(path).endswith(("rtgauge.toml", "timer")):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *words, **more)

    monkeypatch.setattr(os, "stat", denied)
    assert project.project().path is None
    assert targets_of(["timer"]) == ["local"]


def test_the_file_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SUDO_UID", raising=False)
    (tmp_path / "rtgauge.toml").write_text("budget = '1ms'")
    owner = os.stat(tmp_path / "rtgauge.toml").st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner)
    assert project.project().path is not None
    status = os.stat_result((0o100644, 0, 0, 1, owner + 4711, 0, 15, 0, 0, 0))
    whole = Path.stat
    monkeypatch.setattr(
        Path,
        "stat",
        lambda path, **more: status if path.name == "rtgauge.toml" else whole(path, **more),
    )
    assert project.project().path is None


def test_the_link_of_another_user_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SUDO_UID", raising=False)
    own = tmp_path / "own.toml"
    own.write_text("budget = '1ms'")
    Path("rtgauge.toml").symlink_to(own)
    owner = own.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner)
    assert project.project().path is not None
    status = os.stat_result((0o120777, 0, 0, 1, owner + 4711, 0, 8, 0, 0, 0))
    monkeypatch.setattr(Path, "lstat", lambda path: status)
    assert project.project().path is None


def test_check_of_a_file_does_not_mind_the_target_of_the_project(rtgauge: Run) -> None:
    Path("rtgauge.toml").write_text("target = 'fake'")
    Path("config").write_text("CONFIG_PREEMPT_RT=y\n")
    assert rtgauge("check", "--config", "config").code == 0
    done = rtgauge("check", "--json")
    assert json.loads(done.out)["target"] == "fake"
