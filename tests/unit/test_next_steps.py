# SPDX-License-Identifier: Apache-2.0
"""A comparison shows one estimate of each ratio, and ends with what to do next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import test_compare as study_of
import test_decide as made
from rtgauge.report.document.answer import BOARD, Action
from rtgauge.report.document.compared import ratio
from rtgauge.report.document.conclusion import conclusion, decisive
from rtgauge.report.document.next_steps import after_comparison
from rtgauge.report.results import model
from rtgauge.report.sets import compare


def actions_after(document: dict[str, Any], analysis: model.Analysis) -> list[Action]:
    """What to do after a comparison, for the quantity that its conclusion is about."""
    at = decisive(document)
    assert at is not None
    return after_comparison(document, document["quantities"][at], analysis.model["runs"])


@pytest.mark.slow
def test_the_table_and_the_list_have_the_same_ratio() -> None:
    """The tail of all samples of a set is not that of its runs: one estimate is shown."""
    runs = made.repeats(6)
    for at, one in enumerate(runs[1::2]):  # each run of B differs in the share of late wake-ups
        for step in one.steps:
            for series in step.series:
                late = np.arange(len(series.value)) % (90 + 40 * at) == 0
                series.value[late] *= 5 + at
    document = study_of.compared(runs).document
    (primary,) = [one for one in document["comparisons"] if one["primary"]]
    quantity = document["quantities"][primary["quantity"]]
    pooled = quantity["rows"][1]["ratio"]["tail"]
    said = ratio(primary["ratio"])
    assert ratio(pooled) != said
    text = made.shown(runs)
    assert text.count(said) == 2 and ratio(pooled) not in text
    assert "B/A" not in conclusion(document)  # its two figures are those of all samples
    assert "Block: one repeat of the study" in text and "p: probability" in text


@pytest.mark.slow
def test_what_to_do_after_a_comparison() -> None:
    def after(number: int) -> list[Action]:
        analysis = model.analyse(made.repeats(number), pictures=False)
        found = compare.compare(analysis, compare.sets_by_target(analysis.model["runs"]))
        return actions_after(found.document, analysis)

    few = after(2)[0]
    assert few.text == "Repeat the study in 6 blocks"
    assert few.command.endswith("--target lab:rt --target lab:stock --repeat 6")
    assert "--load sched" in few.command
    many = [action.text for action in after(6)]
    assert many[0] != few.text and any(one.startswith("Check for regressions") for one in many)


@pytest.mark.slow
def test_a_study_that_decides_has_no_board_with_one_seed_for_all_repeats() -> None:
    runs = made.repeats(2)
    for one in runs:
        one.document["target"] += ",seed=3,mode=counted"
    analysis = model.analyse(runs, pictures=False)
    document = compare.compare(analysis, compare.sets_by_target(analysis.model["runs"])).document
    actions = actions_after(document, analysis)
    words = "--target lab:rt,mode=counted --target lab:stock,mode=counted --repeat 6"
    assert actions[0].command.endswith(words)


@pytest.mark.slow
def test_boards_have_lines_of_their_own_in_place_of_emulated_ones() -> None:
    analysis = model.analyse(made.repeats(2), pictures=False)
    runs = analysis.model["runs"]
    document = compare.compare(analysis, compare.sets_by_target(runs)).document
    at = decisive(document)
    assert at is not None
    quantity = document["quantities"][at]
    for one in document["sets"]:
        one["emulated"] = True
    for run in runs:
        (step, *_) = [
            step
            for step in run["steps"]
            if step["measurement"] == quantity["measurement"]
            and step["load"]["name"] == quantity["load"]["name"]
        ]
        asked = {"line": "gpio:rtgauge-doorbell:1:2"}
        board = {**step, "step": 0, "measurement": "response", "asked": asked}
        run["steps"] = [board, {**step, "step": 1, "asked": {}}]
        run["plan"]["steps"] = [{"parameters": {}}, {"parameters": {"answered-by": "user"}}]
    actions = {one.text: one for one in after_comparison(document, quantity, runs)}
    there = actions["Measure on the board itself, with each kernel"]
    assert "--line gpio:gpiochip0:17:27 " in there.command and "doorbell" not in there.command
    assert "--log-host ssh://root@logger" in there.command and "root@logger" in there.gain
    assert "gpio:rtgauge-doorbell:1:2" in actions["Repeat the study in 6 blocks"].command


@pytest.mark.slow
def test_separate_runs_are_repeated_in_as_many_blocks_as_a_study_needs() -> None:
    """Four runs of each could decide, but the command that is given makes blocks."""
    runs = made.repeats(2)
    for one in runs:
        one.document["study"] = None
    analysis = model.analyse(runs, pictures=False)
    document = compare.compare(analysis, compare.sets_by_target(analysis.model["runs"])).document
    (primary,) = [one for one in document["comparisons"] if one["primary"]]
    assert primary["needed"] == 4
    actions = actions_after(document, analysis)
    assert actions[0].command.endswith("--repeat 6")


@pytest.mark.slow
def test_the_gate_has_the_margin_of_the_comparison() -> None:
    analysis = model.analyse(made.repeats(6), pictures=False)
    sets = compare.sets_by_target(analysis.model["runs"])
    for within, option in ((0.1, ""), (0.025, " --within 2.5%")):
        document = compare.compare(analysis, sets, compare.Claims(within=within)).document
        actions = actions_after(document, analysis)
        (guard,) = [one for one in actions if one.text == "Check for regressions in CI"]
        study = analysis.model["runs"][0]["study"][:18]
        assert guard.command == f"rtgauge compare {study}{option} --gate"
    for one in document["comparisons"]:
        one.update(verdict="better", interval=None)
    assert guard in actions_after(document, analysis)


@pytest.mark.slow
def test_study_of_several_systems_chooses_the_core_of_each() -> None:
    """With the core of the first, the systems without it would measure nothing."""
    runs = made.repeats(2)
    for one in runs[::2]:
        for step in one.steps:
            step.document["run_options"] = {"core": "cobalt"}
            step.header = replace(step.header, core="cobalt", core_revision=19)
    analysis = model.analyse(runs, pictures=False)
    found = compare.compare(analysis, compare.sets_by_target(analysis.model["runs"])).document
    first = actions_after(found, analysis)[0]
    assert first.command.endswith("--target lab:rt --target lab:stock --repeat 6")
    assert "--core" not in first.command


@pytest.mark.slow
def test_each_core_of_one_board_has_its_command_there_too() -> None:
    runs = [study_of.kernel_run(at, "lab:mine", "6.6", 1.0 + at, lab="counted") for at in (1, 2)]
    for one, core in zip(runs, ("cobalt", "linux"), strict=True):
        for step in one.steps:
            step.document["run_options"] = {"core": core}
            step.header = replace(step.header, core=core)
    sets = [compare.RunSet("a", (0,)), compare.RunSet("b", (1,))]
    analysis = model.analyse(runs, pictures=False)  # type: ignore[arg-type]
    found = compare.compare(analysis, sets).document
    actions = actions_after(found, analysis)
    for place in ("lab:mine", BOARD):
        (action,) = [one for one in actions if f"--target {place} " in one.command and one.again]
        for core, command in (("cobalt", action.command), ("linux", action.again)):
            assert f"--target {place} " in command
            assert f"--core {core} --label {core} --repeat 6" in command
    for one in found["comparisons"]:
        one.update(verdict="not decided", needed=12)
    for label, number in (("", 12), ("mine", 11)):
        for run in analysis.model["runs"]:
            run["label"] = label
        action, *_ = actions_after(found, analysis)
        assert f"--repeat {number}" in action.command and f"--repeat {number}" in action.again


@pytest.mark.slow
@pytest.mark.parametrize("interrupted", [False, True])
def test_two_runs_of_one_target_are_repeated_under_their_labels(interrupted: bool) -> None:
    """A study of one target has one set. A gate over single runs always ends with 77."""
    runs = made.repeats(1)
    for label, one in zip(("before", "after"), runs, strict=True):
        one.document.update(study=None, label=label, target="local")
    if interrupted:
        runs[1].document["state"] = "interrupted"
        for step in runs[1].steps:
            step.document.update(state="interrupted", reason="stopped on request")
    analysis = model.analyse(runs, pictures=False)
    for length, run in zip(("20s", "25s"), analysis.model["runs"], strict=True):
        for step in run["steps"]:
            step["asked"] = {**step["asked"], "for": length}
    sets = [compare.RunSet("before", (0,)), compare.RunSet("after", (1,))]
    document = compare.compare(analysis, sets).document
    actions = actions_after(document, analysis)
    assert actions[0].text == "Measure more runs under each label"
    assert "--label before" in actions[0].command and "--repeat 4" in actions[0].command
    assert "--label after" in actions[0].again and "--repeat 4" in actions[0].again
    for one in document["comparisons"]:
        one.update(verdict="not decided", needed=12)
    found = actions_after(document, analysis)
    repeats = f"--repeat {12 if interrupted else 11}"  # one run is there, unless it was interrupted
    assert repeats in found[0].command and repeats in found[0].again
    assert "--for 20s" in actions[0].command and "--for 20s" in actions[0].again
    assert not any("--gate" in one.command for one in actions)
    for one in document["comparisons"]:
        one.update(verdict="worse" if one["primary"] else "not enough runs", needed=5)
    found = actions_after(document, analysis)
    (repeat,) = [one for one in found if one.gain.startswith("decides")]
    assert (repeat.text, repeat.gain) == (actions[0].text, "decides the open verdicts")
    assert "--label before" in repeat.command and "--label after" in repeat.again
