# SPDX-License-Identifier: Apache-2.0
"""Plans: read strictly, checked against the catalogue, turned into arguments."""

from __future__ import annotations

import copy
import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

import fuzz_plan
from rtgauge.catalogue import Catalogue
from rtgauge.cli.generated import RunCommand, of_every_run, run_option
from rtgauge.cli.help import HELP_ALL
from rtgauge.errors import TargetError, UsageError
from rtgauge.plan import (
    Plan,
    calibration_steps,
    describe_step,
    evaluation_plan,
    expected_ns,
    plan_summary,
    plan_targets,
    planned_step,
    read_plan,
    remaining,
    scaled,
    shipped_plans,
    thorough_parameters,
)
from rtgauge.report.results.again import step_command
from rtgauge.target.fake import CATALOGUE
from rtgauge.target.local import find_agent
from rtgauge.units import parse_duration

PLANS = Path(__file__).resolve().parents[2] / "plans"


STEP = '[[step]]\nmeasurement = "timer"\n'
HOURS = "[plan]\nhours = 2\n"


@pytest.fixture
def catalogue() -> Catalogue:
    return Catalogue.from_document(dict(CATALOGUE))


def write(text: str) -> Path:
    path = Path("plan.toml")
    path.write_text(text)
    return path


def test_a_plan_with_everything(catalogue: Catalogue) -> None:
    plan = read_plan(
        write(
            """
            [plan]
            name = "all"
            label = "of it"
            repeat = 3
            [[step]]
            measurement = "timer"
            interval = "1000us"
            priority = 80
            dither = true
            cpu = "1"
            load = "sched:groups=2"
            load-cpu = "0"
            budget = "150us"
            rate = "2/d"
            load-cmd = "stress-ng --vm 2"
            mark = "gpio:gpiochip0:17"
            disturb = "preempt_disable:200us:7301us"
            histogram-only = true
            [[step]]
            measurement = "pendulum"
            prepare = true
            """
        ),
        catalogue,
    )
    assert (plan.name, plan.label, plan.repeat) == ("all", "of it", 3)
    first, second = plan.steps
    assert first.parameters == {"interval": "1ms", "priority": "80", "dither": "yes", "cpu": "1"}
    assert (first.budget_ns, first.rate_per_hour) == (150_000, 2 / 24)
    assert first.arguments() == [
        "run", "timer", "--interval", "1ms", "--priority", "80", "--dither", "yes", "--cpu", "1",
        "--load", "sched:groups=2", "--load-cpu", "0", "--load-cmd", "stress-ng --vm 2",
        "--core", "auto", "--mark", "gpio:gpiochip0:17",
        "--disturb", "preempt_disable:200us:7.301ms", "--histogram-only",
    ]  # fmt: skip
    assert second.run_options() == {"prepare": True}
    assert second.arguments() == [
        "run",
        "pendulum",
        "--load",
        "idle",
        "--core",
        "auto",
        "--prepare",
    ]
    assert first.loads == "sched:groups=2,command"


@pytest.mark.parametrize("method", ['["nanosleep", "timerfd"]', '"nanosleep,timerfd"'])
def test_values_side_by_side(catalogue: Catalogue, method: str) -> None:
    (step,) = read_plan(write(STEP + f"method = {method}"), catalogue).steps
    assert step.parameters == {"method": "nanosleep,timerfd"}


def test_a_plan_names_its_targets(catalogue: Catalogue) -> None:
    path = write("[plan]\ntargets = ['fake', ' fake:late ']\n" + STEP)
    assert plan_targets(path) == ("fake", "fake:late")
    plan = read_plan(path, catalogue)
    assert plan.targets == ("fake", "fake:late")
    assert plan.document()["targets"] == ["fake", "fake:late"]
    assert plan_targets(write(STEP)) == ()


@pytest.mark.study(27)
def test_hours_are_shared(catalogue: Catalogue) -> None:
    text = HOURS + STEP + "share = 1\n" + STEP + "for = '5s'\n" + STEP + "share = 1.5\n" + STEP
    plan = read_plan(write(text), catalogue)
    assert [step.parameters.get("for") for step in plan.steps] == ["48m", "5s", "72m", None]
    shorter = scaled(plan, 0.001, catalogue)
    assert [step.parameters.get("for") for step in shorter.steps] == ["1.44s", "5s", "2.16s", None]
    assert (plan.document()["hours"], shorter.document()["hours"]) == (2.0, 0.001)
    assert plan.document()["steps"][2]["share"] == 1.5


def test_shares_add_up_to_the_hours(catalogue: Catalogue) -> None:
    """Steps of hours too are given to the second, and what one lacks goes to the next."""
    text = "[plan]\nhours = 10\n" + "".join(STEP + f"share = {n}\n" for n in (1, 1, 1, 0.001))
    plan = read_plan(write(text), catalogue)
    lengths = [parse_duration(step.parameters["for"]) for step in plan.steps]
    assert lengths[:3] == [11996 * 10**9] * 3 and sum(lengths) == 36_000 * 10**9
    seven = read_plan(write("[plan]\nhours = 8\n" + (STEP + "share = 1\n") * 7), catalogue)
    lengths = [parse_duration(step.parameters["for"]) for step in seven.steps]
    assert sum(lengths) == 8 * 3600 * 10**9 and max(lengths) - min(lengths) <= 10**9


def test_a_short_step_has_its_own_share(catalogue: Catalogue) -> None:
    """What rounding to seconds takes from long steps is not for steps below ten seconds."""
    text = "[plan]\nhours = 1\n" + STEP + "share = 10.6\n" + STEP + "share = 0.3\n"
    plan = scaled(read_plan(write(text), catalogue), 10.9 / 3600, catalogue)
    assert [step.parameters["for"] for step in plan.steps] == ["11s", "300ms"]


@pytest.mark.slow
def test_many_targets_take_no_time(catalogue: Catalogue) -> None:
    """A plan may come from others."""
    names = [f"a{number}" for number in range(300_000)]
    assert len(plan_targets(write(f"[plan]\ntargets = {names}\n" + STEP))) == len(names)


def test_the_name_defaults_to_that_of_the_file(catalogue: Catalogue) -> None:
    assert read_plan(write('[[step]]\nmeasurement = "timer"'), catalogue).name == "plan"


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("", "has no step", "add a"),
        ("[plan", "not TOML", ""),
        ("x = 1\n" + STEP, "plan.toml: unknown key 'x'", ""),
        ("[plan]\nlable = ''\n" + STEP, "[plan]: unknown key 'lable'", "'label'"),
        ("plan = 3\n" + STEP, "'plan' is not a table", "[plan]"),
        ("[plan]\nname = 3\n" + STEP, "[plan], key 'name'", ""),
        ("[plan]\nrepeat = 0\n" + STEP, "[plan], key 'repeat'", ""),
        ("[plan]\nrepeat = true\n" + STEP, "[plan], key 'repeat'", ""),
        ("[plan]\nrepeat = '2'\n" + STEP, "[plan], key 'repeat'", ""),
        ("[plan]\ntargets = 'local'\n" + STEP, "[plan], key 'targets'", "targets = ["),
        ("[plan]\ntargets = ['local', 3]\n" + STEP, "[plan], key 'targets'", "targets = ["),
        ("[plan]\ntargets = ['']\n" + STEP, "[plan], key 'targets'", "targets = ["),
        ("[plan]\ntargets = ['a', 'b', 'a ']\n" + STEP, "'a' is named twice", "'repeat'"),
        ("[plan]\ntarget = ['a']\n" + STEP, "unknown key 'target'", "'targets'"),
        ("[step]\nmeasurement = 'timer'", "'step' is not a list", "[[step]]"),
        ("step = [1]", "'step' is not a list", "[[step]]"),
        ("[[step]]\nfor = '1s'", "step 1 of 1: key 'measurement' is missing", "choose from"),
        ("[[step]]\nmeasurement = 3", "step 1 of 1: key 'measurement'", ""),
        ("[[step]]\nmeasurement = 'tiemr'", "unknown measurement 'tiemr'", "'timer'"),
        (STEP + STEP + "intervall = '1ms'", "step 2 of 2, key 'intervall'", "'interval'"),
        (STEP + "bobs = 3", "step 1 of 1, key 'bobs': measurement 'timer' has no option", ""),
        (STEP + "interval = '1us'", "step 1 of 1, key 'interval'", ""),
        (STEP + "interval = 1.5", "key 'interval': 1.5 is not a string", ""),
        (STEP + "interval = ['1ms']", "key 'interval'", ""),
        (STEP + "interval = 2026-11-30", "key 'interval': 2026-11-30 is not a string", ""),
        (STEP + "interval = 2026-11-30T07:32:00Z", "': 2026-11-30T07:32:00+00:00 is not", ""),
        (STEP + "interval = 07:32:00", "key 'interval': 07:32:00 is not a string", ""),
        (STEP + "interval = [true, {a = 1.5}]", "': [true, {a = 1.5}] is not a string", ""),
        (STEP + "priority = 100", "key 'priority'", ""),
        (STEP + "cpu = '9-1'", "key 'cpu'", ""),
        (STEP + "load = 'shced'", "key 'load': unknown load 'shced'", "'sched'"),
        (STEP + "load-cpu = 'x'", "key 'load-cpu'", ""),
        (STEP + "budget = '150'", "key 'budget': '150' has no unit", ""),
        (STEP + "budget = '0'", "key 'budget'", ""),
        (STEP + "budget = '1us'\nrate = '0'", "rate", ""),
        (STEP + "rate = '1/h'", "without the budget", "--budget"),
        (STEP + "keep-settings = 'perhaps'", "key 'keep-settings'", ""),
        (STEP + "prepare = 1", "key 'prepare'", ""),
        (STEP + "prepare = true\nkeep-settings = true", "prepare changes settings", "omit --"),
        (STEP + "load-cmd = ''", "key 'load-cmd': a command", ""),
        (STEP + "mark = 'gpio:17'", "key 'mark': 'gpio:17' is not a GPIO line", "gpio:CHIP:LINE"),
        (STEP + "mark = 'loopback:a:1:2'", "is not a GPIO line", "gpio:CHIP:LINE"),
        (STEP + "disturb = 'kthread:1ms'", "not KIND:LENGTH:PERIOD", "preempt_disable:200us"),
        (STEP + "disturb = 'kthraed:1ms:9ms'", "disturbance 'kthraed'", "'kthread'"),
        (STEP + "disturb = 'kthread:0us:9ms'", "'0us' is not a length", "1us to 100ms"),
        (STEP + "disturb = 'kthread:101ms:1s'", "'101ms' is not a length", "1us to 100ms"),
        (STEP + "disturb = 'kthread:1:9ms'", "key 'disturb': '1' has no unit", "its length"),
        (STEP + "disturb = 'kthread:1us:9us'", "'9us' is not a period", "10us to 4s"),
        (STEP + "disturb = 'kthread:1us:5s'", "'5s' is not a period", "10us to 4s"),
        (STEP + "disturb = 'kthread:5ms:9ms'", "9ms is too short", "twice the length"),
        (
            STEP + "disturb = 'kthread:1ms:9ms'\nkeep-settings = true",
            "--disturb changes the system, which --keep-settings forbids",
            "omit --",
        ),
        (STEP + 'load-cmd = "a\\nb"', "key 'load-cmd': a command", ""),
        (STEP + "method = []", "key 'method'", ""),
        (STEP + "method = ['timer', 'nanoslep']", "key 'method'", "how the task waits"),
        (STEP + "method = [['timer']]", "key 'method'", ""),
        (STEP + "cpu = ['0', '1']", "key 'cpu'", ""),
        (STEP + "share = 1", "no hours to share", "hours = 8"),
        (STEP + "shrae = 1", "key 'shrae'", "'share'"),
        (HOURS + STEP, "no step of the plan has a share", "share = 1"),
        (HOURS + STEP + "share = 1\nfor = '1s'", "both 'share' and 'for'", "omit one"),
        (HOURS + STEP + "share = 0", "key 'share': 0 is not", ""),
        (HOURS + STEP + "share = true", "key 'share': true is not", ""),
        (HOURS + STEP + "share = nan", "key 'share': nan is not", ""),
        (HOURS + "[[step]]\nmeasurement = 'clock-cost'\nshare = 1", "has no length", "'share'"),
        ("[plan]\nhours = 0\n" + STEP, "key 'hours': 0 is not a number above 0, up to 8784", ""),
        ("[plan]\nhours = nan\n" + STEP, "[plan], key 'hours'", ""),
        ("[plan]\nhours = '2'\n" + STEP, "[plan], key 'hours'", ""),
        ("[plan]\nhours = 8000\n" + STEP + "share = 1", "too large. The range is", ""),
    ],
)
def test_wrong_plans_name_file_step_and_key(
    catalogue: Catalogue, text: str, message: str, remedy: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read_plan(write(text), catalogue)
    assert message in str(caught.value)
    assert "plan.toml" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("[plan", "`rtgauge describe timer-quick` names an example"),
        ("[plan]\nname = 5\n" + STEP, 'name = "..."'),
        ("[plan]\nrepeat = 0\n" + STEP, "repeat = 3"),
        ("[plan]\nhours = 0\n" + STEP, "hours = 8"),
        (HOURS + STEP + "share = 0", "share = 1"),
        (STEP + "priority = {}", 'priority = "..."'),
        (STEP + 'dither = "?"', "dither"),
        (STEP + 'prepare = "?"', "true or false"),
        (STEP + 'load = "sched:groups=2:groups=3"', "omit one of them"),
        (STEP + '[[rating]]\nsubject = "a"\nreason = "b"\nrating = 11', '"N.A."'),
    ],
)
def test_a_refusal_says_what_to_write(catalogue: Catalogue, text: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_plan(write(text), catalogue)
    assert remedy in caught.value.remedy


def test_the_fuzzer_writes_every_key_of_the_page() -> None:
    page = (PLANS.parent / "docs" / "reference" / "plans.md").read_text()
    head, _, rest = page.partition("## Keys of a `[[step]]`")
    tables = {"[plan]": head, "[[step]]": rest.partition("##")[0]}
    known = {"[plan]": {*fuzz_plan.PLAN_VALUES}, "[[step]]": {*fuzz_plan.VALUES, "measurement"}}
    for name, text in tables.items():
        cells = re.findall(r"^\| ([a-z, -]+) \|", text, re.MULTILINE)
        keys = {key.strip() for cell in cells for key in cell.split(",")}
        assert keys - {"key", "---", "anything else"} <= known[name]


@pytest.mark.slow
def test_a_short_run_of_the_fuzzer(tmp_path: Path) -> None:
    tally = fuzz_plan.fuzz(20, 0, 300, tmp_path, 8)
    assert not tally.how, tally.how
    assert tally.executions == 300
    assert tally.outcomes["accepted"] + tally.thorough > 30
    assert tally.thorough > 5


def test_unreadable_plans(catalogue: Catalogue) -> None:
    with pytest.raises(UsageError, match=r"none\.toml cannot be read: No such file"):
        read_plan(Path("none.toml"), catalogue)
    with pytest.raises(UsageError, match="is not a plan: it is not a regular file"):
        read_plan(Path(), catalogue)
    Path("binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_plan(Path("binary.toml"), catalogue)
    with pytest.raises(UsageError, match="not TOML"):
        read_plan(write("x = " + "[" * 50_000), catalogue)


def test_the_evaluation_is_what_the_catalogue_says(catalogue: Catalogue) -> None:
    plan = evaluation_plan(catalogue)
    wanted = [
        (entry["name"], one["parameters"], one["load"])
        for entry in CATALOGUE["measurements"]
        for one in entry["evaluate"]
    ]
    assert [(s.measurement, dict(s.parameters), s.load) for s in plan.steps] == wanted
    shorter = evaluation_plan(catalogue, settings={"for": "1s", "medium": "air"})
    assert {step.parameters["for"] for step in shorter.steps} == {"1s"}
    assert [s.parameters.get("medium") for s in shorter.steps] == [None, None, "air", None]


def test_a_thorough_evaluation(catalogue: Catalogue) -> None:
    plan = evaluation_plan(catalogue, thorough=True)
    assert [dict(step.parameters) for step in plan.steps] == [
        {"for": "10m"}, {"for": "20m"}, {"for": "1m", "medium": "water", "bobs": "9"}, {},
    ]  # fmt: skip
    given = evaluation_plan(catalogue, thorough=True, settings={"for": "2m"})
    assert {step.parameters["for"] for step in given.steps} == {"2m"}


def test_an_agent_that_says_nothing_of_chapters_and_thorough_runs() -> None:
    document: dict[str, Any] = copy.deepcopy(dict(CATALOGUE))
    for entry in document["measurements"]:
        entry.pop("chapter", None)
        for evaluation in entry["evaluate"]:
            evaluation.pop("thorough", None)
    older = Catalogue.from_document(document)
    assert {entry.chapter for entry in older.measurements.values()} == {""}
    assert evaluation_plan(older, thorough=True) == evaluation_plan(older)
    with pytest.raises(UsageError, match="thorough run"):
        thorough_parameters(older.measurement("timer"), "idle")


@pytest.mark.parametrize(("load", "wanted"), [("idle", "10m"), ("sched", "20m"), ("net", "10m")])
def test_a_thorough_run_is_that_of_the_load(catalogue: Catalogue, load: str, wanted: str) -> None:
    assert thorough_parameters(catalogue.measurement("timer"), load) == {"for": wanted}


def test_a_budget_is_for_what_has_a_time_grid(catalogue: Catalogue) -> None:
    plan = evaluation_plan(catalogue, settings={"budget": "9us", "rate": "2/h"})
    assert [(step.measurement, step.budget_ns, step.rate_per_hour) for step in plan.steps] == [
        ("timer", 9000, 2.0), ("timer", 9000, 2.0), ("pendulum", None, None),
        ("telescope", None, None),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="without the budget"):
        evaluation_plan(catalogue, settings={"rate": "2/h"})


def test_without_a_rate_a_budget_allows_nothing(catalogue: Catalogue) -> None:
    assert planned_step(catalogue, "timer", {"budget": "9us"}).rate_per_hour is None


def test_an_operation_has_no_rate_per_hour(catalogue: Catalogue) -> None:
    assert planned_step(catalogue, "pendulum", {"budget": "9us"}).budget_ns == 9000
    with pytest.raises(UsageError, match="no rate per hour") as caught:
        planned_step(catalogue, "pendulum", {"budget": "9us", "rate": "2/h"})
    assert "per operation" in caught.value.remedy


def test_a_budget_needs_durations() -> None:
    document: dict[str, Any] = copy.deepcopy(dict(CATALOGUE))
    document["measurements"][0]["series"] = []
    with pytest.raises(UsageError, match="no durations that a budget could apply to"):
        planned_step(Catalogue.from_document(document), "timer", {"budget": "9us"})


def test_a_pause_between_samples_is_no_time_grid() -> None:
    document: dict[str, Any] = copy.deepcopy(dict(CATALOGUE))
    timer = document["measurements"][0]
    timer["series"] = [{**timer["series"][0], "from": "before the call"}]
    plan = evaluation_plan(Catalogue.from_document(document), settings={"budget": "9us"})
    assert {step.budget_ns for step in plan.steps} == {None}


def test_a_length_is_for_what_lasts_for_a_time() -> None:
    """What ends with its samples is complete when they are there, however long the others last."""
    document: dict[str, Any] = copy.deepcopy(dict(CATALOGUE))
    by_name = {entry["name"]: entry for entry in document["measurements"]}
    by_name["pendulum"]["evaluate"] = [{"parameters": {"for": "0", "samples": "500"}}]
    telescope = by_name["telescope"]  # the same, by its default
    telescope["options"] = [
        {**option, "default": "0"} if option["name"] == "for" else option
        for option in telescope["options"]
    ]
    plan = evaluation_plan(Catalogue.from_document(document), settings={"for": "10m"})
    assert [step.parameters.get("for") for step in plan.steps] == ["10m", "10m", "0", None]
    by_name["pendulum"]["evaluate"] = [{"parameters": {"for": "4s", "samples": "500"}}]
    plan = evaluation_plan(Catalogue.from_document(document), settings={"for": "10m"})
    assert [step.parameters.get("for") for step in plan.steps] == ["10m", "10m", "4s", None]


@pytest.mark.parametrize(
    ("samples", "wanted"), [("100", "100"), ("3", "50"), ("1000000", "5000"), ("5001", "5000")]
)
def test_samples_are_brought_into_the_range_of_each(samples: str, wanted: str) -> None:
    document: dict[str, Any] = copy.deepcopy(dict(CATALOGUE))
    pendulum = document["measurements"][2]
    pendulum["options"] = [
        {**option, "min": "50", "max": "5000", "default": "50"}
        if option["name"] == "samples"
        else option
        for option in pendulum["options"]
    ]
    catalogue = Catalogue.from_document(document)
    plan = evaluation_plan(catalogue, settings={"samples": samples})
    assert [step.parameters["samples"] for step in plan.steps] == [
        samples, samples, wanted, samples,
    ]  # fmt: skip
    with pytest.raises(UsageError, match="many"):
        evaluation_plan(catalogue, settings={"samples": "many"})


def test_nothing_to_evaluate() -> None:
    document: dict[str, Any] = copy.deepcopy(dict(CATALOGUE))
    for entry in document["measurements"]:
        entry["evaluate"] = []
    with pytest.raises(UsageError, match="belongs to an evaluation"):
        evaluation_plan(Catalogue.from_document(document))


@pytest.mark.parametrize(
    ("cpus", "wanted"), [(["0", "2-3"], "0,2-3"), (["1", None], "all"), (["1", "1"], "1")]
)
def test_calibrations_stand_on_the_cpus_of_the_steps(
    catalogue: Catalogue, cpus: list[str | None], wanted: str
) -> None:
    steps = tuple(
        planned_step(catalogue, "timer", {} if cpu is None else {"cpu": cpu}) for cpu in cpus
    )
    (calibration,) = calibration_steps(Plan("x", steps), catalogue)
    assert calibration.measurement == "clock-cost"
    assert calibration.role == "calibration"
    assert calibration.parameters == {"cpu": wanted}


def test_a_calibration_that_was_asked_for_is_not_done_twice(catalogue: Catalogue) -> None:
    plan = Plan("x", (planned_step(catalogue, "clock-cost", {}),))
    assert calibration_steps(plan, catalogue) == ()


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [({}, 10.0), ({"for": "2s"}, 2.0), ({"for": "0", "samples": "100"}, 0.1),
     ({"for": "2s", "samples": "100"}, 0.1), ({"for": "1s", "samples": "9999"}, 1.0),
     ({"for": "0"}, None)],
)  # fmt: skip
def test_how_long_a_step_takes(
    catalogue: Catalogue, settings: dict[str, str], seconds: float | None
) -> None:
    ns = expected_ns(planned_step(catalogue, "timer", settings), catalogue)
    assert ns == (None if seconds is None else seconds * 1e9)
    assert expected_ns(planned_step(catalogue, "clock-cost", {}), catalogue) is None


RATED = STEP + '[[rating]]\nsubject = "documentation"\nreason = "complete"\n'


@pytest.mark.study(64)
def test_ratings_of_the_evaluator(catalogue: Catalogue) -> None:
    text = (
        RATED + 'rating = 8\n[[rating]]\nsubject = "support"\nrating = 0.5\nreason = " no\\none "'
    )
    plan = read_plan(write(text), catalogue)
    assert plan.document()["ratings"] == [
        {"subject": "documentation", "rating": 8, "reason": "complete"},
        {"subject": "support", "rating": 0.5, "reason": "no one"},
    ]
    assert read_plan(write(STEP), catalogue).document()["ratings"] == []
    (none,) = read_plan(write(RATED + 'rating = "N.A."'), catalogue).document()["ratings"]
    assert none["rating"] == "N.A."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (STEP + "rating = 8", "has no option 'rating'"),
        ("rating = 8\n" + STEP, "not a list"),
        (RATED, "rating 1 of 1, key 'rating': None"),
        (RATED + "rating = 11", "not a number from 0 to 10"),
        (RATED + "rating = -1", "not a number from 0 to 10"),
        (RATED + "rating = nan", "not a number from 0 to 10"),
        (RATED + "rating = true", "not a number from 0 to 10"),
        (RATED + 'rating = "8"', "not a number from 0 to 10"),
        (RATED + "rating = 8\nmark = 8", "unknown key 'mark'"),
        (STEP + '[[rating]]\nsubject = "support"\nrating = 8', "'reason' needs a non-empty string"),
        (STEP + '[[rating]]\nrating = 8\nreason = "x"', "'subject' needs a non-empty string"),
        (STEP + '[[rating]]\nsubject = 7\nrating = 8\nreason = "x"', "'subject' needs a non-empty"),
        (RATED + "rating = 8\n" + RATED.removeprefix(STEP) + "rating = 8", "rated twice"),
        (STEP + f'[[rating]]\nsubject = "{"x" * 61}"\nrating = 8\nreason = "x"', "longer"),
    ],
)
def test_wrong_ratings(catalogue: Catalogue, text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_plan(write(text), catalogue)
    assert words in str(caught.value).replace(" of 1:", " of 1,")


@pytest.mark.parametrize("path", sorted(PLANS.glob("*.toml")), ids=lambda path: path.name)
def test_the_plans_that_ship_can_be_read(path: Path) -> None:
    described = subprocess.run(
        [find_agent(), "describe"], capture_output=True, check=True, timeout=60
    )
    plan = read_plan(path, Catalogue.from_json(described.stdout))
    assert plan.name == path.stem
    assert 20 < len(plan_summary(path)) < 100
    assert shipped_plans()[path.stem].read_bytes() == path.read_bytes()


@pytest.mark.study(57)
def test_the_evaluation_2_9_has_the_framework_in_its_order() -> None:
    """All that has a code of the framework, in its sequence."""
    described = subprocess.run(
        [find_agent(), "describe"], capture_output=True, check=True, timeout=60
    )
    catalogue = Catalogue.from_json(described.stdout)
    plan = read_plan(PLANS / "evaluation-2.9.toml", catalogue)
    names = [step.measurement for step in plan.steps]
    # one of them twice in a row: with a running thread, and without
    assert list(dict.fromkeys(name for name in names if catalogue.measurement(name).code)) == [
        name for name, entry in catalogue.measurements.items() if entry.code
    ]
    assert names[-2:] == ["timer", "timer"]
    assert [step.loads == "idle" for step in plan.steps] == [True] * (len(names) - 1) + [False]


def test_a_prepared_plan_has_its_calibration_prepared(catalogue: Catalogue) -> None:
    plan = Plan("x", (planned_step(catalogue, "timer", {"prepare": "yes"}),))
    (calibration,) = calibration_steps(plan, catalogue)
    assert calibration.run_options() == {"prepare": True}


@pytest.mark.parametrize(
    "text",
    [
        "[plan]\nhours = 8\n[[step]]\nmeasurement = 'timer'\nshare = inf",
        "[plan]\nhours = 8\n[[step]]\nmeasurement = 'timer'\nshare = 1e308",
        f"[plan]\nhours = 8\n[[step]]\nmeasurement = 'timer'\nshare = 1{'0' * 400}",
        f"[plan]\nhours = 1{'0' * 5000}\n[[step]]\nmeasurement = 'timer'\nshare = 1",
        f"[plan]\nrepeat = 0x1{'0' * 5000}\n[[step]]\nmeasurement = 'timer'",
        f"[[step]]\nmeasurement = 'timer'\ninterval = 0x1{'0' * 5000}",
    ],
)
def test_absurd_numbers_are_refused_in_a_line(catalogue: Catalogue, text: str) -> None:
    path = Path("absurd.toml")
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_plan(path, catalogue)
    assert len(caught.value.message) < 250


def test_an_option_of_the_run_is_added_in_one_table(tmp_path: Path) -> None:
    """Command line, help, plans, the agent's arguments, run.json and reserved names follow from
    it."""
    document = copy.deepcopy(dict(CATALOGUE))
    document["run_options"].append(
        {"name": "warm-up", "type": "duration", "default": "0", "min": "0", "max": "1m",
         "help": "how long to wait before measuring", "applies": "step", "group": "Lines",
         "rare": True, "changes": "the weather"}
    )  # fmt: skip
    known = Catalogue.from_document(document)
    path = tmp_path / "plan.toml"
    path.write_text('[[step]]\nmeasurement = "timer"\nwarm-up = "1500ms"\n')
    (step,) = read_plan(path, known).steps
    assert step == planned_step(known, "timer", {"warm-up": "1.5s"})
    assert step.arguments()[-2:] == ["--warm-up", "1.5s"]
    assert step.document()["warm_up"] == "1.5s"
    assert step.run_options() == {"warm-up": "1.5s"}
    assert planned_step(known, "timer", {}).run_options() == {}
    offered = of_every_run(known)
    (option,) = [run_option(one) for one in offered if one.name == "warm-up"]
    assert option.opts == ["--warm-up"]
    command = RunCommand("Options of timer", [], offered, name="timer")
    context = click.Context(command)
    assert option.opts in [one.opts for one in command.grouped(context)["Lines"]]
    assert "--warm-up" not in command.get_help(context)
    context.meta[HELP_ALL] = True
    assert "--warm-up" in command.get_help(context)
    with pytest.raises(UsageError, match="range is 0 to 1m"):
        planned_step(known, "timer", {"warm-up": "2m"})
    with pytest.raises(UsageError, match="--warm-up changes the weather, which --keep-settings"):
        planned_step(known, "timer", {"warm-up": "1s", "keep-settings": "yes"})
    run = {"id": "x", "plan": {"name": "y", "steps": [step.document()]}, "steps": [{}]}
    assert remaining(known, [run]).steps == (step,)
    again = {"measurement": "timer", "step": 0, "asked": {}, "run_options": step.run_options(),
             "budget": None}  # fmt: skip
    shown = {"target": "local", "imported": False, "plan": None, "environment": {}}
    assert step_command(shown, again, {}) == "rtgauge run timer --warm-up 1.5s"
    document["measurements"][0]["options"][0]["name"] = "warm-up"
    with pytest.raises(TargetError, match="'warm-up' is reserved for every run"):
        Catalogue.from_document(document)


def test_an_agent_that_does_not_describe_the_options_of_a_run_is_refused() -> None:
    older = {**copy.deepcopy(dict(CATALOGUE)), "agent": "0.0.9"}
    del older["run_options"]
    assert Catalogue.from_document(older).measurement("timer")  # as stored runs have it
    with pytest.raises(TargetError, match=r"version 0\.0\.9 and does not describe the options"):
        Catalogue.from_json(json.dumps(older))


def test_points_and_notes_of_the_evaluator(catalogue: Catalogue) -> None:
    text = STEP + (
        '[[point]]\nfor = "no  fees"\n[[point]]\nagainst = "old"\n'
        '[notes]\nchanges = "issue 2"\nhardware = """\nPLB 132 MHz\nOPB 66 MHz"""\n'
    )
    document = read_plan(write(text), catalogue).document()
    assert document["points"] == [
        {"favour": "for", "text": "no fees"}, {"favour": "against", "text": "old"},
    ]  # fmt: skip
    assert list(document["notes"].items()) == [
        ("hardware", "PLB 132 MHz\nOPB 66 MHz"), ("changes", "issue 2"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("point = 1\n" + STEP, "'point' is not a list"),
        (STEP + "[[point]]", "point 1 of 1 has neither 'for' nor 'against'"),
        (STEP + '[[point]]\nfor = "a"\nagainst = "b"', "has both 'for' and 'against'"),
        (STEP + "[[point]]\nfor = 1", "key 'for' needs a non-empty string"),
        (STEP + '[[point]]\ntext = "a"', "unknown key 'text'"),
        ('notes = "a"\n' + STEP, "'notes' is not a table"),
        (STEP + '[notes]\nsuport = "a"', "unknown key 'suport'"),
        (STEP + '[notes]\nsupport = " "', "key 'support' needs a non-empty string"),
    ],
)
def test_a_point_or_note_that_is_none(text: str, message: str, catalogue: Catalogue) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        read_plan(write(text), catalogue)


def test_a_step_in_words_has_its_mark() -> None:
    step = planned_step(Catalogue.from_document(dict(CATALOGUE)), "timer", {})
    marked = replace(step, run={**step.run, "mark": "gpio:gpiochip0:17"})
    assert describe_step(marked).endswith(", mark gpio:gpiochip0:17")
    assert ", mark" not in describe_step(step)
