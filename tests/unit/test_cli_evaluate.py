# SPDX-License-Identifier: Apache-2.0
"""Some steps of an evaluation: chosen, resumed, and described on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from conftest import Run
from rtgauge import target as targets
from rtgauge.catalogue import Catalogue
from rtgauge.engine.run import Run as Run_
from rtgauge.engine.watch import Ended
from rtgauge.errors import TargetError
from rtgauge.plan import PlannedStep
from rtgauge.target import fake
from rtgauge.target.lab import LabTarget
from test_cli import QUICK


def _planned(rtgauge: Run, *words: str) -> list[str]:
    done = rtgauge("evaluate", "--target", "fake", "--dry-run", "--json", *words)
    assert done.code == 0, done.err
    document = done.json()
    assert (document["format"], document["targets"]) == ("rtgauge-plan", ["fake"])
    return [step["measurement"] for step in document["steps"] if step["role"] == "measurement"]


def test_chapters_and_measurements_can_be_chosen(rtgauge: Run) -> None:
    every = _planned(rtgauge)
    assert every == ["timer", "timer", "pendulum", "telescope"]
    chapter = Catalogue.from_json(fake.FakeTarget("").describe()).measurement("timer").chapter
    assert _planned(rtgauge, "--only", "timer") == ["timer", "timer"]
    assert _planned(rtgauge, "--only", chapter.upper()) == _planned(rtgauge, "--only", chapter)
    assert set(_planned(rtgauge, "--only", chapter)) >= {"timer"}
    assert _planned(rtgauge, "--only", "timer, telescope", "--skip", "timer") == ["telescope"]
    assert _planned(rtgauge, "--skip", "timer", "--skip", "telescope") == ["pendulum"]
    done = rtgauge("evaluate", "--target", "fake", "--target", "fake:late", "--dry-run")
    assert (done.code, "not fake and fake:late" in done.err) == (2, True)
    done = rtgauge("evaluate", "--target", "fake", "--only", "pendulmu")
    assert done.code == 2 and "did you mean 'pendulum'?" in done.err
    done = rtgauge("evaluate", "--target", "fake", "--only", "timer", "--skip", "timer")
    assert done.code == 2 and "no step" in done.err


def test_a_board_is_settled_before_its_cpus_are_checked(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An emulated one gets the CPUs that are asked for."""

    class Board(fake.FakeTarget):
        cpus = 1

        def settle(self, highest_cpu: int, _others: object) -> None:
            self.cpus = highest_cpu + 1

        def environment(self) -> bytes:
            raise TargetError(f"{self.cpus} CPUs")

    monkeypatch.setattr(targets, "open_target", lambda _name, _agent=None: Board())
    done = rtgauge("evaluate", "--target", "fake", "--cpu", "1", "-o", "one.json")
    assert "rtgauge: 2 CPUs" in done.err


def test_a_load_replaces_that_of_the_steps_under_load(rtgauge: Run) -> None:
    def loads(*words: str) -> list[str]:
        done = rtgauge("evaluate", "--target", "fake", "--dry-run", "--json", *words)
        return [str(step["load"]) for step in done.json()["steps"] if step["role"] == "measurement"]

    usual, wanted = loads(), loads("--load", "sched:groups=2")
    assert wanted != usual
    assert wanted == ["idle" if load == "idle" else wanted[1] for load in usual]
    assert "groups=2" in wanted[1]
    for text in ("idle", " idle"):
        idle = rtgauge("evaluate", "--target", "fake", "--dry-run", "--load", text)
        assert idle.code == 2 and "rtgauge run timer --load idle" in idle.err


def test_a_dry_run_measures_nothing_and_shows_lengths(rtgauge: Run) -> None:
    done = rtgauge("evaluate", "--target", "fake", "--for", "7s", "--dry-run")
    assert done.code == 0
    assert re.search(r"^ +7(\.0)? s  timer --for 7s", done.out, re.M)
    assert rtgauge("runs", "--json").json()["runs"] == []
    assert not list(Path.cwd().glob("rtgauge-report*"))


@pytest.mark.parametrize("target", ["fake", "fake:unprivileged"])
def test_a_dry_run_and_the_evaluation_estimate_the_same(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """The dry run counted steps that will be skipped."""
    planned = rtgauge("evaluate", "--target", target, "--dry-run").out
    monkeypatch.setattr("rtgauge.cli.evaluate.execute_plan", Mock(side_effect=KeyboardInterrupt))
    said = rtgauge("evaluate", "--target", target, "-o", "a.json").err
    (time,) = re.findall(r"Time: +(about .*)", planned)
    assert said.splitlines()[0].endswith(f", {time}")
    assert "skipped  telescope" in planned
    # Each reason is given once.
    module = "the kernel module rtgauge is not loaded (build and load it: rtgauge module load)"
    assert " ".join(planned.split()).count(module) == 1


def test_a_dry_run_of_a_plan_or_measurement(rtgauge: Run) -> None:
    path = Path("a.toml")
    path.write_text("[[step]]\nmeasurement = 'timer'\nfor = '1s'\nload-cmd = 'touch x'\n")
    done = rtgauge("run", "a.toml", "--target", "fake", "--for", "7s", "--dry-run")
    assert done.code == 0, done.err
    assert re.search(r"^ +7(\.0)? s  timer --for 7s", done.out, re.M)
    done = rtgauge("run", "timer", "--for", "3s", "--target", "fake", "--dry-run", "--json")
    assert (done.json()["format"], done.json()["targets"]) == ("rtgauge-plan", ["fake"])
    for word in ("response", "log-host"):
        done = rtgauge("run", word, "--target", "fake", "--for", "3s", "--dry-run")
        assert f"skipped  {word} --" in done.out
        assert f"skipped  {word}: no line was given (use --line)" in done.out
    hosted = ("--line", "gpio:a:1:2", "--log-host", "fake", "--log-line", "gpio:a:3:4")
    done = rtgauge("run", "response", "--target", "fake", *hosted, "--dry-run")
    assert "?  response" in done.out and "endless" not in done.out
    assert rtgauge("runs", "--json").json()["runs"] == []


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("-o", "a.unknown"),
        ("-o", "nowhere/a.html"),
        ("--reconnect", "5"),
        ("--logo", "nowhere.png"),
        ("--cpu", "99"),
        ("--label", "\udcff"),
        ("--order-seed", "x"),
    ],
)
def test_a_dry_run_refuses_what_the_run_refuses_at_once(
    rtgauge: Run, option: str, value: str
) -> None:
    for command in ("run timer --for 1s", "evaluate --only timer"):
        words = (*command.split(), "--target", "fake", option, value)
        dry, run = rtgauge(*words, "--dry-run"), rtgauge(*words)
        assert dry.code == run.code == 2 and run.err.endswith(dry.err)


@pytest.mark.slow
@pytest.mark.parametrize("built", [False, True])
def test_a_dry_run_builds_nothing_for_a_board_of_the_lab(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, built: bool
) -> None:
    """It built the programs of the board, and fetched a newer kernel, which took minutes."""
    for name in ("rtgauge.target.lab.programs", "rtgauge.lab.image"):
        monkeypatch.setattr(name, Mock(side_effect=AssertionError))
    monkeypatch.setattr(LabTarget, "preview", lambda _: fake.FakeTarget("").describe())
    monkeypatch.setattr("rtgauge.target.lab.present", lambda _: tmp_path if built else None)
    board = ("--target", "lab:arm64-rt-6.1")
    for words in (
        ("lab", "run", "timer", "--newest", "--for", "1s"),
        ("run", "timer", "--for", "1s"),
        ("evaluate",),
        ("tune", "timer", "--for", "1s", "--try", "preempt=full"),
    ):
        done = rtgauge(*words, *board, "--dry-run")
        assert done.code == 0, done.err
        said = "the run will first build the programs for arm64 (once, takes a few minutes)"
        assert (said in done.err) is not built


@pytest.mark.parametrize("last", [False, True])
def test_a_dry_run_skips_what_all_targets_skip(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, last: bool
) -> None:
    facts = fake.FakeTarget._facts

    def some(target: fake.FakeTarget) -> dict[str, Any]:
        return {**facts(target), **({"agent.module": 0} if "late" in target.name else {})}

    monkeypatch.setattr(fake.FakeTarget, "_facts", some)
    names = ["--target", "fake", "--target", "fake:late" if last else "fake:cpus=1"]
    done = rtgauge("run", "telescope", *names, "--dry-run")
    assert ("skipped  telescope" in done.out) is not last


@pytest.mark.slow
def test_an_interrupted_evaluation_is_resumed_by_another_run_of_its_study(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("evaluate", "--target", "fake", "-o", "all.json")
    asked = rtgauge(*words, "--resume")
    assert asked.code == 2 and "the store has no evaluation of fake that" in asked.err
    given = ("--for", "1s", "--budget", "1s", "--label", "board", "--skip", "telescope")
    carried_out = Run_._step

    def step(self: Run_, index: int, planned: PlannedStep, interruption: Any) -> Ended:
        interruption.count = int(index == 1)
        return carried_out(self, index, planned, interruption)

    with monkeypatch.context() as patch:
        patch.setattr(Run_, "_step", step)
        assert rtgauge(*words, *given).code == 4
    (first,) = json.loads(Path("all.json").read_text())["runs"]
    left = [step for step in first["steps"] if step["state"] != "complete"]
    assert left and len(left) < len(first["steps"])

    refused = rtgauge(*words, "--resume", "--for", "2s")
    assert refused.code == 2 and "--for" in refused.err
    planned = rtgauge(*words, "--resume", "--dry-run", "--json").json()["steps"]
    again = [step for step in planned if step["role"] == "measurement"]
    assert [step["measurement"] for step in again] == [step["measurement"] for step in left]

    done = rtgauge(*words, "--resume")
    assert done.code == 0
    # one answer, on all steps
    assert done.out.count("Observed maximum") == 1 and done.out.count("What to do next") == 1
    assert "Not proven for the budget of 1 000 000 µs: never" in " ".join(done.out.split())
    assert "interrupted" not in done.out.rpartition("─" * 60)[2]
    joined = json.loads(Path("all.json").read_text())["runs"]
    assert joined[0]["id"] == first["id"]
    second = joined[1]
    assert (second["study"], second["label"]) == (first["id"], "board")
    for old, new in zip(left, second["steps"], strict=False):
        assert old["measurement"] == new["measurement"]
        assert old["parameters"].items() <= new["parameters"].items()
        assert new["state"] == "complete"
    assert rtgauge("report", first["id"][:13], "-o", "study.json").code == 0
    study = json.loads(Path("study.json").read_text())
    assert [run["id"] for run in study["runs"]] == [first["id"], second["id"]]

    asked = rtgauge(*words, "--resume")
    assert asked.code == 2 and "has no step left to measure" in asked.err
    asked = rtgauge("evaluate", "--target", "fake:late", "--resume", first["id"])
    assert asked.code == 2 and "--target fake" in asked.err


@pytest.mark.slow
def test_resumed_evaluation_omits_what_the_core_does_not_offer(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out = Run_._step

    def step(self: Run_, index: int, planned: PlannedStep, interruption: Any) -> Ended:
        interruption.count = int(index == 3)
        return carried_out(self, index, planned, interruption)

    words = ("evaluate", "--target", "fake", "-o", "all.json")
    with monkeypatch.context() as patch:
        patch.setattr(Run_, "_step", step)
        assert rtgauge(*words, "--core", "cobalt", "--for", "1s").code == 4
    (first,) = json.loads(Path("all.json").read_text())["runs"]
    offered = [step for step in first["steps"] if not step["not_on_core"]]
    assert any(step["state"] == "skipped" for step in first["steps"] if step["not_on_core"])
    left = [step for step in offered if step["state"] != "complete"]
    planned = rtgauge(*words, "--resume", "--dry-run", "--json").json()["steps"]
    again = [step["measurement"] for step in planned if step["role"] == "measurement"]
    assert again == [step["measurement"] for step in left if step["role"] == "measurement"]


def test_a_command_is_not_described(rtgauge: Run) -> None:
    asked = rtgauge("describe", "evaluate")
    assert asked.code == 2
    assert "'evaluate' is a command" in asked.err and "--dry-run" in asked.err
    asked = rtgauge("describe", "log-host", "--target", "fake")  # a measurement, too
    assert (asked.code, "log-host" in asked.out) == (0, True)


@pytest.mark.slow
def test_title_and_facts_are_on_the_reports(rtgauge: Run) -> None:
    facts = ("--title", "Gateway <7>", "--author", "R. Roe", "--serial", "0042", "--meta", "site=B")
    assert rtgauge("run", "timer", *QUICK, "-o", "run.html", *facts).code == 0
    assert rtgauge("report", "last", "-o", "report.html", *facts).code == 0
    every = ("--only", "timer", "-o", "all.html")
    assert rtgauge("evaluate", "--target", "fake", "--for", "1s", *every, *facts).code == 0
    for name in ("run.html", "report.html", "all.html"):
        page = Path(name).read_text()
        for text in ("Gateway &lt;7&gt;", "R. Roe", "0042", "site"):
            assert text in page, (name, text)
    for more in (("-o", "short.pdf"), ("-o", "full.pdf", "--full")):
        assert rtgauge("evaluate", "--target", "fake", "--for", "1s", *every[:2], *more).code == 0
    assert Path("full.pdf").stat().st_size > Path("short.pdf").stat().st_size
    before = len(rtgauge("runs", "--json").json()["runs"])
    for wrong in (("--meta", "site"), ("--logo", "none.png")):
        asked = rtgauge("run", "timer", *QUICK, *wrong)
        assert asked.code == 2 and len(asked.err.splitlines()) == 2
    assert len(rtgauge("runs", "--json").json()["runs"]) == before
