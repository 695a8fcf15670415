# SPDX-License-Identifier: Apache-2.0
"""``run … --exit bisect``: exit codes for git, on a simulated target."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import SOURCES, Run
from rtgauge.cli import bisect
from rtgauge.cli.bisect import BisectCode
from rtgauge.errors import TargetError

BASE = ("run", "timer", "--for", "1s", "--exit", "bisect")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "last"),
    [
        (["--target", "fake", "--budget", "10ms"], 0, "bisect: good (exit code 0)"),
        (["--target", "fake", "--budget", "1us"], 1, "bisect: bad (exit code 1): 1 µs exceeded"),
        (["--target", "fake", "--budget", "10ms", "--target", "fake:cut"], 125, "the run"),
        (["--target", "fake:fails", "--budget", "10ms"], 125, "the run failed"),
        (["--target", "fake:cut", "--budget", "10ms"], 125, "cannot be judged (exit code 125)"),
        (["--target", "fake:unprivileged", "--budget", "10ms"], 125, "real-time priority"),
        (["--target", "fake:disturbed=2,late", "--budget", "10ms"], 125, "the run failed"),
        (["--target", "fake:fails", "--budget", "1us"], 125, "the run failed"),
        (["--target", "fake:unprivileged,late", "--budget", "10ms"], 125, "real-time priority"),
        (["--target", "fake", "--budget", "10ms", "--rate", "1/h"], 125, "10 000 µs never"),
        (["--target", "fake"], 128, "the bisection ends (exit code 128): nothing was judged"),
        (["--target", "lab:none", "--budget", "1us"], 128, "correct the command"),
        (["--target", "fake", "--budget", "often"], 128, "correct the command"),
        (["--target", "fake", "--bugdet", "1us"], 128, "correct the command"),
        (["--target", "fake", "--exit", "bisekt"], 128, "correct the command"),
        (["--target", "fake", "-o", "/nowhere/x.pdf", "--budget", "1us"], 128, "correct"),
    ],
)
def test_codes_for_git(rtgauge: Run, words: list[str], code: int, last: str) -> None:
    done = rtgauge(*BASE, *words)
    assert done.code == code, done.err
    told = next(line for line in done.err.splitlines() if line.startswith("bisect: "))
    assert last in " ".join(done.err[done.err.index(told) :].split())


def test_without_the_option_codes_are_the_usual_ones(rtgauge: Run) -> None:
    assert rtgauge(*BASE[:-2], "--target", "fake", "--budget", "1us").code == 3
    assert rtgauge(*BASE[:-2], "--target", "lab:none").code == 2
    assert rtgauge("show", "--exit", "bisect").code == 2
    assert rtgauge("run", "timer", "--exit", "bisect", "--help").code == 0


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RuntimeError("a bug"), 128),
        (OSError(28, "No space left on device"), 125),
        (KeyboardInterrupt(), 130),
        (TargetError("no boot"), 125),
    ],
)
def test_no_failure_has_the_code_of_a_bad_commit(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("rtgauge.cli.run.execute_plan", fail)
    done = rtgauge(*BASE, "--target", "fake", "--budget", "10ms")
    assert done.code == code
    assert ("bisect: " in done.err) != ("Traceback" in done.err)


@pytest.mark.parametrize(("target", "code"), [("lab:none", 128), ("fake:missing", 125)])
def test_xeno_test_has_these_codes_too(rtgauge: Run, target: str, code: int) -> None:
    done = rtgauge("xeno-test", "--target", target, "--exit", "bisect")
    assert (done.code, "bisect: " in done.err) == (code, True), done.err


def results(rtgauge: Run, *words: str) -> dict[str, Any]:
    done = rtgauge("run", "timer", "--for", "1s", "--target", "fake", "--json", *words)
    found = json.loads(done.out)
    assert isinstance(found, dict)
    return found


def test_what_is_judged(rtgauge: Run, capsys: pytest.CaptureFixture[str]) -> None:
    document = results(rtgauge, "--budget", "10ms")
    complete = [("complete", "")]
    assert document["runs"][0]["verdicts"][0]["result"] == "inconclusive"

    def code(change: Callable[[dict[str, Any]], object], states: Any = complete) -> BisectCode:
        changed = copy.deepcopy(document)
        change(changed["runs"][0])
        return bisect.judge(changed, states)

    test = {"step": 0, "rule": "r", "evidence": "e", "known_limitation": None}

    def tests(*results: str, **more: object) -> Callable[[dict[str, Any]], object]:
        return lambda run: run.update(
            verdicts=[], tests=[{**test, "result": result, **more} for result in results]
        )

    assert code(lambda run: None) is BisectCode.GOOD
    assert code(lambda run: run["series"][0].update(lost=1)) is BisectCode.UNTESTABLE
    assert code(lambda run: run["verdicts"][0].update(unknown=1)) is BisectCode.UNTESTABLE
    assert code(lambda run: run["series"][0].update(unanswered=1)) is BisectCode.UNTESTABLE
    assert code(lambda run: run["verdicts"][0].update(doubt="why")) is BisectCode.UNTESTABLE
    assert code(lambda run: run["verdicts"][0].update(result="fail")) is BisectCode.BAD
    assert code(lambda run: run["steps"][0].update(state="skipped")) is BisectCode.UNTESTABLE
    assert code(lambda run: None, [("interrupted", "why")]) is BisectCode.UNTESTABLE
    failed = code(lambda run: run["verdicts"][0].update(result="fail"), [("interrupted", "why")])
    assert failed is BisectCode.BAD
    assert code(tests("pass", "skipped")) is BisectCode.GOOD
    rule = "every context asked for is measured"
    assert code(tests("pass", "skipped", rule=rule)) is BisectCode.UNTESTABLE
    assert code(tests("pass", rule=rule)) is BisectCode.GOOD
    assert code(tests("pass", "fail")) is BisectCode.BAD

    def without_priority(run: dict[str, Any]) -> None:
        tests("pass", "fail")(run)
        run["steps"][0]["parameters"]["priority"] = "95"
        for one in run["series"]:
            one.update(policy="other", labels={})

    assert code(without_priority) is BisectCode.UNTESTABLE
    assert code(tests("pass", "inconclusive")) is BisectCode.UNTESTABLE
    assert code(tests("fail", known_limitation="known")) is BisectCode.STOP
    assert code(tests("skipped")) is BisectCode.STOP


def test_only_a_run_has_the_option(rtgauge: Run) -> None:
    for words in (["evaluate"], ["tune", "timer"]):
        assert rtgauge(*words, "--target", "fake", "--exit", "bisect").code == 2


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
@pytest.mark.slow
def test_git_names_the_first_bad_commit_and_skips_what_failed(tmp_path: Path) -> None:
    """Eight commits that choose the target: the fourth fails, the sixth is the first late one."""

    def git(*words: str) -> str:
        names = ("-c", "user.name=me", "-c", "user.email=me@here", "-c", "init.defaultBranch=main")
        environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
        done = subprocess.run(
            ["git", *names, *words],
            cwd=tmp_path / "repository", env=environment, capture_output=True, text=True,
            check=True, timeout=300,
        )  # fmt: skip
        return done.stdout

    (tmp_path / "repository").mkdir()
    git("init", "-q")
    for number in range(1, 9):
        target = "fake:fails" if number == 4 else "fake" if number < 6 else "fake:late"
        (tmp_path / "repository" / "target").write_text(f"{target} {number}\n")
        git("add", "-A")
        git("commit", "-qm", f"commit {number}")
    git("bisect", "start", "HEAD", "HEAD~7")
    run = (
        f"{sys.executable} -m rtgauge run timer --for 1s --budget 150us --exit bisect "
        f"--store {tmp_path / 'store'} --target $(cut -d' ' -f1 target)"
    )
    git("bisect", "run", "sh", "-c", run)
    log = git("bisect", "log").splitlines()
    told = [line.partition(":")[0] + line.rpartition("]")[2] for line in log if line[0] == "#"]
    assert {"# skip commit 4", "# good commit 5", "# bad commit 6"} <= set(told)
    assert told[-1] == "# first bad commit commit 6"


def test_ctrl_c_ends_the_bisection(rtgauge: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """git skips a commit with 125, and takes 128 and more as the end."""
    monkeypatch.setattr("rtgauge.engine.study.Interruption.asked", True)
    done = rtgauge(*BASE, "--target", "fake", "--budget", "1us")
    assert done.code == 130
    assert "bisect: interrupted, the bisection ends (exit code 130)" in done.err
