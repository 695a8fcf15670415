# SPDX-License-Identifier: Apache-2.0
"""The picture next to the answer."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import report_runs as made
from answers import built, latency, timers
from conftest import Run
from rtgauge import stream
from rtgauge.cli.words import named_agent
from rtgauge.report.document.answer import (
    BOARD,
    State,
    answer_figure,
    answer_of,
)
from rtgauge.report.document.answer.commands import (
    on_the_board,
    raised_command,
    repeated_command,
)
from rtgauge.report.document.answer.data import Data
from rtgauge.report.pictures.drawing import text_width
from rtgauge.report.results import model
from rtgauge.text import plain


def drawn(run: Any) -> ElementTree.Element:
    figure = answer_figure(model.analyse([run]), 0)
    assert figure is not None
    return ElementTree.fromstring(figure.svg)


def words(svg: ElementTree.Element) -> list[str]:
    return [plain("".join(one.itertext())) for one in svg.iter() if one.tag.endswith("text")]


def test_the_picture_has_both_loads_the_maximum_and_the_budget() -> None:
    said = words(drawn(timers(10, 18, budget_ns=150_000)))
    assert {"idle", "load sched", "max 18.0 us", "budget 150 us"} <= set(said)


@pytest.mark.slow
def test_the_load_with_the_maximum_is_drawn_whatever_their_number() -> None:
    loads = ("idle", "cpu", "disk", "net", "sched")
    steps = [made.step(at, [latency(9 + 10 * at)], load=load) for at, load in enumerate(loads)]
    run: Any = made.run(steps, findings=[])
    figure = answer_figure(model.analyse([run]), 0)
    assert figure is not None
    said = words(ElementTree.fromstring(figure.svg))
    assert "load sched" in said and "load cpu" not in said
    assert any(one.startswith("max 49") for one in said)
    assert "Not drawn, because their maxima are lower: load cpu." in figure.caption


@pytest.mark.slow
@pytest.mark.parametrize("budget_us", [5, 17, 19, 21, 24, 30, 40, 60, 100, 150, 300])
@pytest.mark.parametrize("top_us", [18, 20, 95])
def test_the_label_of_the_maximum_is_beside_the_line_of_the_budget(
    top_us: int, budget_us: int
) -> None:
    svg = drawn(timers(10, top_us, budget_ns=budget_us * 1000))
    (label,) = [one for one in svg.iter() if (one.text or "").startswith("max ")]
    (line,) = [one for one in svg.iter() if one.get("stroke-dasharray") == "4 2"]
    found = re.match(r"M([\d.]+) ", line.get("d") or "")
    assert found
    place, at = float(found[1]), float(label.get("x") or 0)
    wide = text_width(label.text or "")
    begin = at - wide if label.get("text-anchor") == "end" else at
    assert not begin < place < begin + wide
    if budget_us == 60 and top_us == 95:
        assert begin > place  # at the side of the maximum: it is above the budget
    assert begin >= 0 and begin + wide <= float((svg.get("viewBox") or "").split()[2])


def test_idle_and_load_have_their_colours_in_every_picture() -> None:
    def hues(*loads: str) -> list[str | None]:
        steps = [made.step(at, [latency(9)], load=load) for at, load in enumerate(loads)]
        svg = drawn(made.run(steps, findings=[]))
        return [one.get("fill") for one in svg.iter() if plain("".join(one.itertext()))
                in ("idle", "load sched") and one.tag.endswith("text")]  # fmt: skip

    both = hues("idle", "sched")
    assert len(set(both)) == 2
    assert hues("idle") + hues("sched") == both


@pytest.mark.slow
def test_the_maximum_is_named_above_the_outline() -> None:
    def height(near: int) -> float:
        series = latency(100)
        series.value[:near] = 90_000  # bins below the words
        svg = drawn(made.run([made.step(0, [series])], findings=[]))
        (found,) = [one for one in svg.iter() if plain("".join(one.itertext())) == "max 100 us"
                    and one.tag.endswith("text")]  # fmt: skip
        return float(found.get("y", ""))

    assert height(4000) < height(40) < height(0)


@pytest.mark.slow
def test_what_changes_the_system_is_followed_by_a_measurement() -> None:
    """As a command of its own, which is not that of an action before it."""
    kernel = {"check": "preemption", "found": "voluntary", "level": "error", "why": "it waits"}
    kernel["remedy"] = (
        "as a first step, boot with preempt=full; then boot another kernel: apt install image-rt"
    )
    server = {"check": "fair-server", "found": "up to 50 ms", "level": "error", "why": "others run"}
    kernel["command"] = "apt install image-rt"
    server["remedy"] = server["command"] = "for f in /sys/a*/runtime; do echo 0 > $f; done"
    step = made.step(0, [latency(100)], budget_ns=50_000, load="sched")
    document = built(made.run([step], findings=[kernel, server]))
    first, second = answer_of(document).actions[:2]
    assert first.command == "apt install image-rt" and first.again.startswith("rtgauge run timer")
    assert second.command == server["remedy"] and not second.again
    assert second.text == "Run the command as root on the target, then measure again"
    assert second.gain == (
        "others run. Finding fair-server: up to 50 ms. The effect of the command lasts until the "
        "next boot"
    )
    document["target"] = "lab:x86_64-stock"
    document["environment"]["lab"] = {"mode": "counted"}
    assert "--target lab:x86_64-rt" in answer_of(document).actions[0].command


def test_what_finds_the_cause_of_a_late_answer_is_a_command() -> None:
    step = made.step(0, [latency(20, 1000, name="response")], budget_ns=150_000)
    step.header.parameters["timeout"] = stream.Parameter(None, "5ms")
    answer = answer_of(built(made.run([step], findings=[])))
    assert answer.cause_command == "rtgauge run timer --explain"
    assert "this system" in answer.cause_hint


def test_a_run_under_load_is_long_enough_for_the_verdict() -> None:
    step = made.step(0, [latency(20, 1000)], budget_ns=150_000)
    step.header.parameters["for"] = stream.Parameter("1s", "1s")
    actions = answer_of(built(made.run([step], findings=[]))).actions
    (loaded,) = [one.command for one in actions if one.text == "Measure under load"]
    assert "--for 3h" in loaded


def test_a_budget_far_away_is_in_the_caption() -> None:
    run: Any = timers(10, 18, budget_ns=10_000_000)
    figure = answer_figure(model.analyse([run]), 0)
    assert figure is not None
    assert "The budget, 10 000 us, is far beyond the axis." in plain(figure.caption)
    assert "Idle: 10 000 samples, max 10.0 us;" in plain(figure.text)


def test_a_budget_below_all_samples_is_drawn() -> None:
    """The picture of a system that misses every deadline did not show the deadline."""

    def caption(budget_ns: int) -> tuple[list[str], str]:
        series = latency(100)
        series.value[:] += 50_000
        run: Any = made.run([made.step(0, [series], budget_ns=budget_ns)], findings=[])
        figure = answer_figure(model.analyse([run]), 0)
        assert figure is not None
        return words(ElementTree.fromstring(figure.svg)), plain(figure.caption)

    said, below = caption(30_000)
    assert "budget 30 us" in said and "axis." not in below
    said, below = caption(1000)
    assert "budget 1 us" not in said
    assert below.endswith("The budget, 1 us, is far below the axis.")


@pytest.mark.parametrize("value", [3000, 0])
def test_equal_samples_are_a_line(value: int) -> None:
    series = made.sampled(np.full(999, value, np.int32))
    svg = drawn(made.run([made.step(0, [series])]))
    said = words(svg)
    assert [one for one in said if one.startswith("all 999 samples ")]
    assert not [one for one in said if one.startswith("max")]
    filled = [one for one in svg.iter() if one.get("fill-opacity") and one.tag.endswith("path")]
    assert not filled


def test_every_coloured_element_has_a_class() -> None:
    for one in drawn(timers(10, 18, budget_ns=150_000)).iter():
        hues = [key for key in ("fill", "stroke") if one.get(key, "").startswith("#")]
        assert [name[0] for name in one.get("class", "").split()] == [hue[0] for hue in hues]


def test_without_a_sample_there_is_no_picture() -> None:
    assert answer_figure(model.analyse([made.run([])]), 0) is None  # type: ignore[list-item]


@pytest.mark.slow
@pytest.mark.parametrize("with_timer", [False, True])
def test_latency_is_missing_only_from_an_evaluation_that_asks_for_it(
    rtgauge: Run, with_timer: bool
) -> None:
    only = "pendulum,telescope" + (",timer" if with_timer else "")
    words = ("--target", "fake", "--for", "1s", "--only", only, "-o", "run.json")
    assert rtgauge("evaluate", *words).code == 0
    (run,) = json.loads(Path("run.json").read_text())["runs"]
    grids = {step["measurement"] for step in run["steps"] if step["time_grid"]}
    assert grids == ({"timer"} if with_timer else set())
    for test in run["tests"]:
        test.update(result="pass", known_limitation=None)
    (sound,) = [step for step in run["steps"] if step["measurement"] == "pendulum"]
    for step in run["steps"]:
        if step["measurement"] == "timer":
            step["state"] = "skipped"
        if step["measurement"] == "telescope":
            step["chapter"] = "Another chapter"
    run["steps"] += [{**sound, "step": 100 + at} for at in range(9)]
    run["series"] = [one for one in run["series"] if one["step"] == sound["step"]]
    answer = answer_of(run)
    assert (answer.state is State.UNMEASURED) == with_timer
    assert ("timer skipped" in answer.title) == with_timer


@pytest.mark.slow
def test_an_evaluation_is_measured_again_with_its_options(
    rtgauge: Run,
) -> None:
    given = (
        "--target", "fake", "--samples", "2000", "--core", "linux", "--cpu", "1", "--load", "cpu",
        "--prepare", "--budget", "10us", "--rate", "1000/h", "--thorough",
        "--only", "timer,pendulum", "--skip", "pendulum",
    )  # fmt: skip
    assert rtgauge("evaluate", *given, "-o", "run.json").code in (0, 3)
    data = Data(json.loads(Path("run.json").read_text())["runs"][0])
    again = shlex.split(repeated_command(data))
    assert again == ["rtgauge", "evaluate", *given] and shlex.split(raised_command(data)) == again
    board = shlex.split(on_the_board(data, None))
    assert board == ["rtgauge", "evaluate", "--target", BOARD, *given[2:]]
    planned = rtgauge(*again[1:], "--dry-run", "--json").json()
    assert [one["budget_ns"] for one in planned["steps"]] == [None, 10_000, 10_000]
    assert planned["options"] == data.run["plan"]["options"]


@pytest.mark.slow
def test_the_options_of_an_evaluation_are_only_those_of_its_command(
    rtgauge: Run,
) -> None:
    words = ("--target", "fake", "--only", "timer", "--for", "1s", "-o", "run.json")
    rtgauge("evaluate", *words, "--budget", "10us", "--rate", "1000/h")
    (run,) = json.loads(Path("run.json").read_text())["runs"]
    run["plan"]["options"] |= {"agent": "evil", "load-cmd": "evil", "cpu": 1, "core": ["linux"]}
    run["plan"]["options"] |= {"skip": True, "prepare": "yes"}
    command = "rtgauge evaluate --target fake --for 1s --prepare yes --budget 10us --rate 1000/h"
    assert repeated_command(Data(run)) == f"{command} --only timer"
    run["plan"]["options"] = {"for": "--agent=./evil", "prepare": True}
    command = "rtgauge evaluate --target fake --for=--agent=./evil --prepare"
    assert repeated_command(Data(run)) == command
    assert named_agent(command.split()) is None
    del run["plan"]["options"]  # as in a run of an earlier version
    command = "rtgauge evaluate --target fake --budget 10us --rate 1000/h"
    assert repeated_command(Data(run)) == command
