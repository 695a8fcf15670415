# SPDX-License-Identifier: Apache-2.0
"""Help texts: on one screen, at once, and with all options when asked for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import click
import pytest

import rtgauge as package
from conftest import SOURCES, Run
from rtgauge.catalogue import Catalogue
from rtgauge.cli import lab
from rtgauge.cli.help import LINES, SETTINGS
from rtgauge.cli.main import COMMANDS
from rtgauge.cli.run import command_for
from rtgauge.plan import shipped_plans
from rtgauge.target.local import LocalTarget


def test_help_is_there_without_the_heavy_modules() -> None:
    text = (
        "import sys\nfrom rtgauge.cli import main\nmain(['--help'])\nmain(['--version'])\n"
        "heavy = {'numpy', 'scipy', 'pyarrow', 'sqlalchemy', 'rich', 'jinja2'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(SOURCES)},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert f"rtgauge {package.__version__}" in done.stdout


@pytest.mark.parametrize(
    "words",
    [["--help"], ["-h"], ["runs", "--help"], ["show", "--help"], ["report", "--help"],
     ["delete", "--help"], ["check", "--help"], ["describe", "--help"], ["evaluate", "--help"],
     ["run", "--help"], ["run", "--help", "--target", "fake"],
     ["run", "timer", "--help", "--target", "fake"], ["run", "pendulum", "--target=fake", "-h"],
     ["describe", "--target", "fake"], ["describe", "timer", "--target", "fake"],
     ["describe", "sched", "--target", "fake"], ["describe", "doload", "--target", "fake"],
     ["run", "timer-study", "--help", "--target", "fake"]],
)  # fmt: skip
def test_help_and_descriptions_fit_80_columns(rtgauge: Run, words: list[str]) -> None:
    done = rtgauge(*words)
    assert done.code == 0
    assert done.out
    assert max(len(line) for line in done.out.splitlines()) <= 80
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", done.out + done.err)


EVERY_COMMAND = [*([name] for name in COMMANDS), *(["lab", one] for one in lab.lab.commands)]
CATALOGUE = Catalogue.from_json(LocalTarget().describe())


@pytest.mark.parametrize("words", [[], *EVERY_COMMAND, ["run", "timer"]], ids=" ".join)
def test_the_help_of_every_command_fits_one_screen(rtgauge: Run, words: list[str]) -> None:
    done = rtgauge(*words, "--help")
    assert done.code == 0
    _fits_one_screen(done.out, ["rtgauge", *words])


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["lab", "run", "--help"],
        ["lab", "run", "timer", "--help"],
        ["lab", "run", "rt-vs-stock", "--help-all"],
        ["evaluate", "--help-all"],
    ],
)
@pytest.mark.parametrize("board", ["x86_64-rt", "arm64-rt"])
def test_help_for_a_board_builds_and_boots_nothing(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, words: list[str], board: str
) -> None:
    def refuse(*_words: object, **_more: object) -> NoReturn:
        raise AssertionError("a help text builds something")

    monkeypatch.setattr("rtgauge.target.lab.programs", refuse)
    monkeypatch.setattr("rtgauge.target.lab.lab_image", refuse)
    done = rtgauge(*words, "--target", f"lab:{board}")
    assert done.code == 0, done.err
    assert "--priority" in done.out and not done.err


@pytest.mark.slow
def test_the_help_of_every_measurement_and_plan_fits_one_screen() -> None:
    for name in [*CATALOGUE.measurements, *shipped_plans()]:
        command, _ = command_for([name], CATALOGUE, [], "rtgauge run")
        with click.Context(command, info_name=command.name, **SETTINGS) as context:
            _fits_one_screen(command.get_help(context), ["rtgauge", "run", name])


@pytest.mark.parametrize("words", [["evaluate"], ["run", "timer"], ["tune", "timer"]], ids=" ".join)
def test_the_short_help_lists_the_kinds_of_targets(rtgauge: Run, words: list[str]) -> None:
    """That of ``evaluate`` was cut before them."""
    assert "system under test: local, ssh://HOST, lab:BOARD" in rtgauge(*words, "--help").out


@pytest.mark.parametrize("words", [["log-host"], ["run", "response"]], ids=" ".join)
def test_the_examples_of_a_measurement_on_a_line_name_one(rtgauge: Run, words: list[str]) -> None:
    first = f"    rtgauge {' '.join(words)} --line net:127.0.0.1:9000\n"
    assert first in rtgauge(*words, "--help").out


def test_the_help_of_a_plan_names_the_command_that_shows_its_steps(rtgauge: Run) -> None:
    Path("my plan.toml").write_text('[[step]]\nmeasurement = "timer"\n' * 7)
    done = rtgauge("run", "my plan.toml", "--target", "fake", "--help")
    assert done.code == 0, done.err
    assert "all steps: rtgauge describe 'my plan.toml'\n" in done.out
    assert "all details: rtgauge run 'my plan.toml' --help-all" in " ".join(done.out.split())


def _fits_one_screen(text: str, words: list[str]) -> None:
    lines = text.splitlines()
    assert len(lines) <= LINES, words
    assert max(map(len, lines)) <= 80, words
    assert lines[0].startswith(f"Usage: {' '.join(words)} ")
    assert "WORDS" not in lines[0]


@pytest.mark.slow
def test_help_loads_neither_the_index_nor_samples() -> None:
    """It is there at once."""
    program = (
        "import sys; from rtgauge.cli import main\n"
        "from rtgauge.cli.main import COMMANDS\n"
        "for name in COMMANDS:\n"
        "    assert main([name, '--help']) == 0\n"
        "    heavy = {'numpy', 'sqlalchemy', 'jinja2'} & {*sys.modules}\n"
        "    assert not heavy, (name, heavy)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_help_all_shows_every_option(rtgauge: Run) -> None:
    short = rtgauge("run", "timer", "--help").out
    whole = rtgauge("run", "timer", "--help-all")
    assert whole.code == 0
    assert "13 more options" not in whole.out and "more options" in short
    command, _ = command_for(["timer"], CATALOGUE, [], "rtgauge run")
    for param in command.params:
        shown = re.findall(rf"^  (?:-\w, )?{param.opts[-1]}(?![\w-])", whole.out, re.M)
        assert len(shown) == 1, param.opts
    assert re.search(r"^  --stop-above .*above this", whole.out, re.M)
    assert "Several are measured in turn" in " ".join(whole.out.split())
    assert "--hysteresis" in rtgauge("import", "--help-all").out
    assert "--hysteresis" not in rtgauge("import", "--help").out
    assert "'--help-all'" in rtgauge("import", "--help-al").err
    assert "time to wake a thread on another CPU" in rtgauge("run", "--help-all").out


def test_help_of_tune_and_lab_run_says_what_options_mean_there(rtgauge: Run) -> None:
    tune = " ".join(rtgauge("tune", "timer", "--help-all").out.split())
    assert "Several are measured in turn" not in tune and "several targets" not in tune
    assert "Its suffix selects the format: .html, .md, .json --json" in tune
    lab = " ".join(rtgauge("lab", "run", "timer", "--help-all").out.split())
    assert "or lab:x86_64-rt. Several are measured" in lab and "default is local" not in lab


def test_a_short_help_ends_texts_where_a_clause_ends(rtgauge: Run) -> None:
    out = rtgauge("run", "timer", "--help").out
    assert re.search(
        r"  --rate RATE +how often the budget may be exceeded, such as 1/h$", out, re.M
    )
    for line in out.splitlines():
        assert line.count("(") == line.count(")") and line.count("[") == line.count("]")


def test_the_help_of_a_measurement_shows_its_own_options(rtgauge: Run) -> None:
    out = rtgauge("run", "pendulum", "--help", "--target", "fake").out
    assert "--bobs" in out
    assert "air|water|honey" in out
    assert "--interval" not in out
    assert "--budget" in out
