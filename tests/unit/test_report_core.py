# SPDX-License-Identifier: Apache-2.0
"""The real-time core that a step ran on, from the stream to the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import report_runs as made
from rtgauge.cli import main
from rtgauge.report.document.answer import State, answer_of
from rtgauge.report.results import model
from rtgauge.report.results.labels import core_text, realtime_text


@pytest.mark.parametrize(
    ("realtime", "core", "model", "said"),
    [
        ("preempt_rt", None, "PREEMPT_RT", ""),
        ("cobalt", None, "Xenomai Cobalt, measured on Linux", ""),
        (
            "cobalt",
            {"name": "cobalt", "revision": 19},
            "Xenomai Cobalt",
            "tasks of the Cobalt core, interface revision 19",
        ),
    ],
)
def test_words(realtime: str, core: object, model: str, said: str) -> None:
    environment = {"realtime": realtime, "core": core}
    run = {"environment": environment, "steps": []}
    assert (realtime_text(environment), core_text(run)) == (model, said)


def test_steps_of_two_cores_in_one_run() -> None:
    """All of them counted as those of the core."""
    step = {"core": "linux", "role": "measurement", "state": "complete"}
    own = {**step, "core": "cobalt"}
    others = [{**step, "state": "skipped"}, {**step, "role": "calibration"}, {**step, "core": None}]
    run = {"environment": {"core": {"name": "cobalt", "revision": 19}}}
    assert core_text({**run, "steps": [own, own, *others]}).startswith("tasks of the Cobalt core, ")
    assert core_text({**run, "steps": [own, step, own, *others]}) == (
        "tasks of the Cobalt core in 2 of 3 steps, interface revision 19"
    )


def test_printed_results_of_a_core_are_not_those_of_linux() -> None:
    environment = {"realtime": "cobalt", "core": None, "printed": {"file": "latency.txt"}}
    assert realtime_text(environment) == "Xenomai Cobalt"


def test_older_document_names_no_core() -> None:
    assert core_text({"environment": {"realtime": "cobalt"}, "steps": []}) == ""


@pytest.mark.slow
def test_runs_on_two_cores_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The core of each step is in the results, and does not keep series from being matched."""
    store = ["--store", str(tmp_path / "store")]
    for core in ("linux", "cobalt"):
        words = ["--target", "fake", "--core", core, "--label", core, "--no-progress"]
        assert main(["run", "timer", "--for", "1s", *words, *store]) == 0
    capsys.readouterr()
    for core, named in (("linux", None), ("cobalt", {"name": "cobalt", "revision": 19})):
        assert main(["show", core, "--json", *store]) == 0
        run = json.loads(capsys.readouterr().out)["runs"][0]
        assert run["environment"]["core"] == named
        assert {one["core"] for one in run["steps"] if one["measurement"] == "timer"} == {core}
    assert main(["compare", "linux", "cobalt", "--json", *store]) == 0
    assert json.loads(capsys.readouterr().out)["comparisons"]
    assert main(["compare", "linux", "cobalt", *store]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "at least 4 runs with each --core" in text and "with each --target" not in text
    commands = [one for one in text.split("rtgauge run timer ") if "--repeat 4" in one]
    for core in ("linux", "cobalt"):
        assert any(f"--core {core}" in one and f"--label {core}" in one for one in commands), text


@pytest.mark.slow
def test_evaluation_on_a_core(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the core does not offer is skipped with the reason of the catalogue, and grouped."""
    store = ["--store", str(tmp_path / "store")]
    report = tmp_path / "report.html"
    words = ["--target", "fake", "--core", "cobalt", "--for", "1s", "--skip", "telescope"]
    assert main(["evaluate", *words, "--no-progress", "-o", str(report), *store]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("not offered by the Cobalt core") == 1
    page = report.read_text()
    apart = "The Cobalt core does not offer 1 of 3 steps (pendulum). All 2 others were measured."
    assert apart in page
    assert "Not offered by the Cobalt core. pendulum: its string exists only on Linux." in page
    assert main(["show", "last", "--json", *store]) == 0
    run = json.loads(capsys.readouterr().out)["runs"][0]
    found = {one["measurement"]: (one["core"], one["not_on_core"]) for one in run["steps"]}
    assert found["timer"] == ("cobalt", "")
    assert found["pendulum"] == ("linux", "its string exists only on Linux")
    assert found["clock-cost"] == ("linux", "")


@pytest.mark.slow
def test_automatic_core_skips_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--target", "fake", "--core", "auto", "--for", "1s", "--skip", "telescope"]
    report = ["--store", str(tmp_path / "store"), "-o", str(tmp_path / "report.html")]
    assert main(["evaluate", *words, "--no-progress", *report]) == 0
    assert "All 3 steps were measured." in capsys.readouterr().out


def _evaluation(offered: int, skipped: int, apart: int) -> Any:
    """Steps that were measured, that were skipped, and that the core does not offer."""
    steps = [made.step(number, made.timer_series(1, 2000)) for number in range(offered)]
    why = {"header": None, "end": None, "state": "skipped", "run_options": {"core": "cobalt"}}
    for number in range(skipped):
        steps.append(made.step(len(steps), [], "timer", reason=f"{number} is missing", **why))
    for number in range(apart):
        said = {"reason": f"of Linux {number}", "remedy": "give --core linux"}
        steps.append(made.step(len(steps), [], "pipe", **said, **why))
    described = [{"name": "pipe", "not_on_cobalt": "of Linux alone"}, {"name": "timer"}]
    return made.run(steps, catalogue={"measurements": described})


@pytest.mark.parametrize(
    ("offered", "skipped", "apart", "why"),
    [
        (2, 0, 9, ""),
        (2, 2, 9, ""),
        (2, 3, 9, "3 of 5 steps were skipped"),
        (0, 2, 1, "every step was skipped"),
        (0, 0, 2, "every step was skipped"),
    ],
)
def test_more_than_half_of_what_the_core_offers(
    offered: int, skipped: int, apart: int, why: str
) -> None:
    answer = answer_of(model.build([_evaluation(offered, skipped, apart)])["runs"][0])
    assert (answer.state is State.UNMEASURED) == bool(why)
    assert why in answer.title
    told = f"The Cobalt core does not offer {apart} of {offered + skipped + apart} steps (pipe ×"
    assert (told in answer.missing) == bool(apart > 1 and offered)
    advised = any("--core linux" in one.text for one in answer.actions)
    assert advised == (not offered and not skipped)
