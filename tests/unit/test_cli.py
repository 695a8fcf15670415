# SPDX-License-Identifier: Apache-2.0
"""The command line: what it prints where, its exit codes, and what it says of wrong input."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from conftest import Run
from rtgauge.audit import Finding
from rtgauge.catalogue import Catalogue
from rtgauge.cli import output
from rtgauge.cli.check import _print
from rtgauge.cli.output import _wrapped, format_seconds
from rtgauge.cli.progress import fitted
from rtgauge.cli.run import _override
from rtgauge.cli.words import targets_of
from rtgauge.plan import planned_step
from rtgauge.report.results import model
from rtgauge.store import Store, new_run_id
from rtgauge.target import fake
from rtgauge.target.local import LocalTarget
from rtgauge.units import parse_duration

QUICK = ("--target", "fake", "--for", "1s")
HELP = "see rtgauge run timer --help"


@pytest.mark.parametrize(
    ("words", "message", "remedy"),
    [
        (["rnu"], "unknown command 'rnu'", "'run'"),
        (["--verion"], "unknown option '--verion'", "'--version'"),
        (["runs", "--jsno"], "unknown option '--jsno'", "'--json'"),
        (["--help-all"], "unknown option '--help-all'", "'--help'"),
        (["runs", "surplus"], "unexpected extra argument", "--help"),
        (["show"], "no runs in the store", "rtgauge run"),
        (["delete"], "missing argument", "--help"),
        (["run", "--target", "fake"], "neither a measurement nor a plan", "describe"),
        (["run", "tiemr", "--target", "fake"], "unknown measurement or plan 'tiemr'", "'timer'"),
        (["run", "timer-sudty", "--target", "fake"], "plan 'timer-sudty'", "'timer-study'"),
        (["run", "timer", "--target", "fkae"], "unknown target 'fkae'", "or fake"),
        (["evaluate", "--target", "root@b"], "unknown target 'root@b'", "ssh://HOST for a board"),
        (["run", "timer", "--target", "fake:hnag"], "no fault 'hnag'", "'hang'"),
        (["run", "timer", *QUICK, "--intervall", "1ms"], "option '--intervall'", "'--interval'"),
        (["run", "timer", *QUICK, "--bobs", "3"], "unknown option '--bobs'", HELP),
        # of rt-tests: the nearest were --rate and --priority
        (["run", "timer", *QUICK, "--duration", "1s"], "unknown option '--duration'", HELP),
        (["run", "timer", *QUICK, "--affinity", "0"], "unknown option '--affinity'", HELP),
        (["compare", "last", "--margin", "1"], "option '--margin'", "see rtgauge compare --help"),
        (["runs", "-n", "-3"], "-3 is not in the range 0 or more", "see rtgauge runs --help"),
        (["explain", "--worst", "0"], "0 is not in the range 1 to 100", "rtgauge explain --help"),
        (["run", "timer", *QUICK, "--interval", "1us"], "'interval': 1us is too small", ""),
        (["run", "timer", *QUICK, "--interval", "1"], "'interval': '1' has no unit", ""),
        (["run", "timer", *QUICK, "--interval"], "requires an argument", "--help"),
        (["run", "timer", *QUICK, "--priority", "100"], "'priority': 100 is too large", ""),
        (["run", "timer", *QUICK, "--priority", "high"], "'high' is not a whole number", ""),
        (["run", "timer", *QUICK, "--cpu", "1-0"], "runs backwards", ""),
        (["run", "timer", *QUICK, "--cpu", "9"], "target 'fake' has no online CPU 9", "0-1"),
        (
            ["run", "timer", *QUICK, "--load", "sched", "--load-cpu", "9"],
            "target 'fake' has no online CPU 9",
            "0-1",
        ),
        (["run", "timer", *QUICK, "--method", "nanoslep"], "'nanoslep'", ""),
        (["run", "timer", *QUICK, "--load", "shced"], "unknown load 'shced'", "'sched'"),
        (["run", "timer", *QUICK, "--load", "sched:grups=1"], "no option 'grups'", "'groups'"),
        (["run", "timer", *QUICK, "--load", "dolaod"], "unknown load 'dolaod'", "'doload'"),
        (["run", "timer", *QUICK, "--load", "doload:grups=1"],
         "no load of doload has the option 'grups'", "sched:restart=5s"),
        (["run", "timer", *QUICK, "--load-cmd", " "], "rtgauge: --load-cmd: a command", ""),
        (
            ["run", "timer", *QUICK, "--disturb", "kthread:200us:7.301ms"],
            "target 'fake' is not a board of the lab",
            "--allow-disturb",
        ),
        (["run", "timer", *QUICK, "--method", "nanosleep,nanosleep"], "named twice", ""),
        (["run", "timer", *QUICK, "--prepare", "--keep-settings"],
         "--prepare changes settings, which --keep-settings forbids", "omit"),
        (["run", "timer", *QUICK, "--hours", "1"], "unknown option '--hours'", ""),
        (["run", "timer-quick", "--target", "fake", "--hours", "1"], "no step", "share = 1"),
        (["run", "timer-study", *QUICK, "--hours", "1"], "both --hours and --for", "omit one"),
        (["run", "timer-study", "--target", "fake", "--hours", "0"], "cannot last 0 hours", "0.5"),
        (["run", "timer-study", "--target", "fake", "--hours", "nan"], "cannot last nan hours", ""),
        (["run", "timer-study", "--target", "fake", "--hours", "x"], "'x' is not a number", "8"),
        (["run", "timer-study", "--target", "fake", "--hours", "1e-7"], "leaves no time for", ""),
        (["run", "timer", *QUICK, "--budget", "150"], "--budget: '150' has no unit", "150us"),
        (["run", "timer", *QUICK, "--rate", "1/h"], "without the budget", "--budget"),
        (["run", "timer", *QUICK, "--budget", "1ms", "--rate", "1"], "has no time unit", "1/h"),
        (["run", "timer", *QUICK, "--repeat", "0"], "rtgauge: --repeat: 0 is too small", ""),
        (["run", "timer", *QUICK, "--disturb", "x"], "rtgauge: --disturb: 'x' is not KIND", ""),
        (["run", "timer", *QUICK, "--disturb", "tasklet:1:9ms"], "rtgauge: --disturb: '1' has", ""),
        (["run", "timer", *QUICK, "-o", "report.doc"], ".doc", ".html"),
        (["run", "timer", *QUICK, "-o", "no/such/report.html"], "no folder no/such", ""),
        (["run", "timer", *QUICK, "again"], "extra argument", "--help"),
        (["run", "none.toml", *QUICK], "none.toml cannot be read", ""),
        (["run", "wrong.toml", *QUICK], "wrong.toml, step 1 of 1, key 'intervall'", "'interval'"),
        (["run", "near.toml", *QUICK], "unknown key 'measurment'", "'measurement'"),
        (["run", "README.md", *QUICK], "README.md is not a plan", "TOML"),
        (["evaluate", "--target", "fake", "--for", "soon"], "'for': 'soon' is not a number", ""),
        (["describe", "tiemr", "--target", "fake"], "measurement, load or plan 'tiemr'", "'timer'"),
        (["show", "last"], "no runs in the store", "rtgauge run"),
        (["show", "0000"], "no runs in the store", "rtgauge run timer"),
        (["delete", "0000", "--yes"], "0000", ""),
        (["report", "last", "-o", "x.html"], "no runs in the store", ""),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_and_a_remedy(
    rtgauge: Run, words: list[str], message: str, remedy: str
) -> None:
    Path("wrong.toml").write_text('[[step]]\nmeasurement = "timer"\nintervall = "1ms"\n')
    Path("near.toml").write_text('[[step]]\nmeasurment = "timer"\n')
    Path("README.md").write_text("# What this is\n\nSome words.\n")
    done = rtgauge(*words)
    assert done.code == 2
    assert done.out == ""
    first, *rest = done.err.splitlines()
    assert first.startswith("rtgauge: ")
    assert message in first
    assert len(rest) <= 1
    assert remedy in "".join(rest)
    assert rtgauge("runs", "--json").json()["runs"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "words", "code"),
    [
        ("fake", [], 0),
        ("fake", ["--budget", "1s", "--rate", "9999/s"], 0),
        ("fake:late", ["--budget", "100us"], 3),
        ("fake:verdict-fails", [], 0),
        ("fake:skipped", [], 77),
        ("fake:fails", ["--load", "sched"], 1),
        ("fake:refuses", [], 2),
        ("fake:exit=4", [], 4),
        ("fake:cut", ["--budget", "100us"], 1),
        ("fake:missing", [], 1),
        ("fake:undescribed", [], 1),
    ],
)
def test_exit_codes_of_run(rtgauge: Run, target: str, words: list[str], code: int) -> None:
    done = rtgauge("run", "timer", "--target", target, "--for", "1s", *words)
    assert done.code == code
    assert ("Traceback" in done.err) is False


@pytest.mark.slow
def test_a_failed_verdict_of_the_measurement_is_code_3(rtgauge: Run) -> None:
    assert rtgauge("run", "pendulum", "--for", "1s", "--target", "fake").code == 0
    assert rtgauge("run", "pendulum", "--for", "1s", "--target", "fake:verdict-fails").code == 3


@pytest.mark.slow
def test_a_known_limitation_leaves_the_code_as_it_is(rtgauge: Run) -> None:
    words = ("run", "pendulum", "--for", "1s", "--target")
    done = rtgauge(*words, "fake:known-limitation", "--json")
    assert done.code == 0
    (test,) = [one for one in done.json()["runs"][0]["tests"] if one["result"] == "fail"]
    assert test["known_limitation"] == "no pendulum of this library stops"
    assert rtgauge(*words, "fake:known-limitation,verdict-fails").code == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "words", "code"),
    [
        ("fake", (), 0),
        ("fake", ("--budget", "1ms"), 0),  # inconclusive: too short
        ("fake:late", ("--budget", "9us"), 3),
        ("fake:known-limitation", (), 0),
        ("fake:verdict-fails", (), 3),
        ("fake:unprivileged", (), 77),
        ("fake:unprivileged", ("--only", "timer"), 77),
        # what a task without real-time priority exceeds does not judge a real-time task
        ("fake:unprivileged,late", ("--budget", "9us"), 77),
        ("fake:unprivileged,verdict-fails", (), 77),
        ("fake", ("--target", "fake:late"), 2),  # one target at a time
        ("fake:unprivileged", ("--skip", "timer"), 0),
        ("fake:skipped", (), 77),
        ("fake:fails", (), 1),
    ],
)
def test_exit_codes_of_evaluate(
    rtgauge: Run, target: str, words: tuple[str, ...], code: int
) -> None:
    report = ("-o", "r.json")
    done = rtgauge("evaluate", "--target", target, "--for", "1s", *report, *words)
    assert done.code == code, done.out + done.err


def test_run_without_priority_is_not_an_evaluation(rtgauge: Run) -> None:
    assert rtgauge("run", "timer", "--target", "fake:unprivileged", "--for", "1s").code == 0


@pytest.mark.slow
def test_usage_comes_before_failure_and_failure_before_interruption(rtgauge: Run) -> None:
    targets = ["--target", "fake:exit=4", "--target", "fake:fails", "--target", "fake:refuses"]
    assert rtgauge("run", "timer", "--for", "1s", *targets).code == 2
    assert rtgauge("run", "timer", "--for", "1s", *targets[:4]).code == 1
    assert rtgauge("run", "timer", "--for", "1s", *targets[:2], "--target", "fake").code == 4
    both = ["--target", "fake:skipped", "--target", "fake"]
    assert rtgauge("run", "timer", "--for", "1s", *both).code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", ["fake", "fake:cut", "fake:hostile", "fake:skipped", "fake:unprivileged", "fake:lost"]
)
def test_json_is_one_document_that_the_schema_allows(rtgauge: Run, target: str) -> None:
    done = rtgauge("run", "timer", "--for", "1s", "--load", "sched", "--json", "--target", target)
    document = done.json()
    model.validate(document)
    (run,) = document["runs"]
    assert run["target"] == target
    assert rtgauge("show", run["id"], "--json").json() == document
    assert rtgauge("show", "last", "--json").json() == document


@pytest.mark.slow
def test_the_life_of_a_run(rtgauge: Run) -> None:
    assert rtgauge("runs").err == "there are no runs in the store yet\n"
    for label in ("first", "second"):
        assert rtgauge("run", "timer", *QUICK, "--label", label).code == 0
    listed = rtgauge("runs", "--json").json()
    assert listed["format"] == "rtgauge-runs"
    assert [one["label"] for one in listed["runs"]] == ["second", "first"]
    newest, oldest = (one["id"] for one in listed["runs"])
    shown = rtgauge("runs").out
    assert re.search(r"^#2 .* second .*\n#1 .* first ", shown, re.M)
    assert "timer" in rtgauge("show", oldest).out

    both = ("-o", "report.html", "-o", "report.json")
    assert rtgauge("report", oldest, "last", *both).code == 0
    document = json.loads(Path("report.json").read_text())
    model.validate(document)
    assert [one["id"] for one in document["runs"]] == [oldest, newest]
    assert Path("report.html").read_text().lstrip().lower().startswith("<!doctype html")
    told = rtgauge("report", "last", "-o", "third.json", "--json").json()
    assert told == {
        "format": "rtgauge-report", "version": 1, "runs": [newest], "path": "third.json",
        "paths": ["third.json"],
    }  # fmt: skip

    refused = rtgauge("delete", "last")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    gone = rtgauge("delete", "last", "--yes", "--json").json()
    assert gone == {"format": "rtgauge-deleted", "version": 1, "runs": [newest]}
    assert [one["id"] for one in rtgauge("runs", "--json").json()["runs"]] == [oldest]
    assert rtgauge("show", newest).code == 2


@pytest.mark.slow
def test_a_report_with_the_run(rtgauge: Run) -> None:
    done = rtgauge("run", "timer", *QUICK, "-o", "now.html")
    assert done.code == 0
    assert Path("now.html").exists()
    assert "now.html" in done.out


@pytest.mark.slow
def test_cpus_of_a_load_that_is_not_there(rtgauge: Run) -> None:
    words = ("run", "timer", "--target", "fake", "--for", "1s", "--load-cpu", "0")
    for more in ((), ("--load", "idle")):
        done = rtgauge(*words, *more)
        assert done.code == 2 and "--load-cpu" in done.err and "add --load" in done.err
    for more in (("--load", "sched"), ("--load-cmd", "true")):
        assert "--load-cpu" not in rtgauge(*words, *more).err
    assert rtgauge("evaluate", "--target", "fake", "--for", "1s", "--load-cpu", "0").code == 0


def test_samples_shown_on_a_line(rtgauge: Run) -> None:
    words = ("run", "timer", "--target", "fake", "--for", "1s", "--mark")
    done = rtgauge(*words, "net:7")
    assert done.code == 2 and "gpio:CHIP:LINE" in done.err
    done = rtgauge(*words, "gpio:gpiochip0:17", "--json")
    (step,) = json.loads(done.out)["runs"][0]["plan"]["steps"]
    assert (done.code, step["mark"]) == (0, "gpio:gpiochip0:17")


def test_a_plan_s_steps_that_mark_nothing_are_measured_without() -> None:
    catalogue = Catalogue.from_json(LocalTarget().describe())
    line = "gpio:gpiochip0:17"
    for name, mark in (("sem-uncontended", line), ("tick-period", ""), ("thread-rules", "")):
        step = planned_step(catalogue, name, {})
        assert _override(step, catalogue, {"mark": line}).text("mark") == mark


@pytest.mark.slow
def test_evaluate(rtgauge: Run) -> None:
    done = rtgauge("evaluate", "--target", "fake", "--for", "1s")
    assert done.code == 0
    assert "4 steps and 1 calibration in 1 chapter, about 5.0 s\n" in done.err
    # each step has its line when it ends
    assert done.err.splitlines()[1].startswith("run ")
    first = Path("rtgauge-report-fake-2024-01-01.html")
    assert first.exists()
    assert f"Report: {first}" in done.out
    assert f"Report: {first.with_suffix('.pdf')}" in done.out
    assert first.with_suffix(".pdf").read_bytes().startswith(b"%PDF-")
    before = first.read_bytes()
    again = rtgauge("evaluate", "--target", "fake", "--for", "1s", "--json")
    assert first.read_bytes() == before
    assert Path("rtgauge-report-fake-2024-01-01-2.html").exists()
    (run,) = again.json()["runs"]
    model.validate(again.json())
    assert [(one["measurement"], one["state"]) for one in run["steps"]] == [
        ("timer", "complete"), ("timer", "complete"), ("pendulum", "complete"),
        ("telescope", "skipped"), ("clock-cost", "complete"),
    ]  # fmt: skip
    named = rtgauge("evaluate", "--target", "fake:late", "--for", "1s", "--budget", "9us",
                    "-o", "mine.html")  # fmt: skip
    assert named.code == 3
    assert Path("mine.html").exists()


@pytest.mark.slow
def test_a_thorough_run(rtgauge: Run) -> None:
    def parameters(*words: str) -> list[tuple[str | None, ...]]:
        (run,) = rtgauge(*words, "--target", "fake", "--json").json()["runs"]
        given = [step["parameters"] for step in run["steps"]]
        return [tuple(map(one.get, ("for", "bobs", "medium", "samples"))) for one in given]

    (of, _) = parameters("run", "pendulum", "--thorough", "--medium", "honey")
    assert of == ("1m", "9", "honey", "0")
    (of, _) = parameters("run", "--thorough", "pendulum", "--for", "2s")
    assert of == ("2s", "9", "air", "0")
    assert parameters("evaluate", "--thorough", "--samples", "100") == [
        ("10m", None, None, "100"), ("20m", None, None, "100"), ("1m", "9", "water", "100"),
        ("10s", None, None, "100"), (None, None, None, None),
    ]  # fmt: skip
    refused = rtgauge("run", "telescope", "--target", "fake", "--thorough")
    assert refused.code == 2
    assert "thorough run" in refused.err


@pytest.mark.slow
def test_a_plan_and_options_over_it(rtgauge: Run) -> None:
    Path("mine.toml").write_text(
        '[plan]\nlabel = "its own"\nrepeat = 2\n'
        '[[step]]\nmeasurement = "timer"\nfor = "1h"\nbudget = "1s"\nrate = "1/d"\n'
        '[[step]]\nmeasurement = "pendulum"\nfor = "1h"\nload = "cpu"\n'
    )
    words = ("run", "mine.toml", "--target", "fake", "--for", "2s", "--json")
    document = rtgauge(*words).json()
    assert [(one["label"], one["repeat"]) for one in document["runs"]] == [
        ("its own", 0), ("its own", 1),
    ]  # fmt: skip
    changed = rtgauge(*words, "--interval", "2ms", "--load", "sched", "--label", "other",
                      "--repeat", "1", "--budget", "2s").json()  # fmt: skip
    (run,) = changed["runs"]
    assert run["label"] == "other"
    planned = run["plan"]["steps"]
    assert [one["parameters"] for one in planned] == [
        {"for": "2s", "interval": "2ms"}, {"for": "2s"},
    ]  # fmt: skip
    assert [one["load"] for one in planned] == ["sched", "sched"]
    assert [one["budget_ns"] for one in planned] == [2 * 10**9] * 2
    assert [one["rate_per_hour"] for one in planned] == [pytest.approx(1 / 24), None]


@pytest.mark.slow
def test_an_option_given_twice_makes_two_steps(rtgauge: Run) -> None:
    done = rtgauge("run", *QUICK, "--medium", "honey", "pendulum", "--json", "--medium=air")
    steps: list[dict[str, Any]] = done.json()["runs"][0]["steps"]
    assert [one["parameters"].get("medium") for one in steps[:2]] == ["honey", "air"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["--method", "nanosleep", "--method=timerfd"], ["--method", "nanosleep,timerfd"]]
)
def test_values_that_go_side_by_side_make_one_step(rtgauge: Run, words: list[str]) -> None:
    run = rtgauge("run", "timer", *QUICK, "--json", *words).json()["runs"][0]
    assert run["plan"]["steps"][0]["parameters"]["method"] == "nanosleep,timerfd"
    of_step = [one for one in run["series"] if one["step"] == 0]
    assert [(one["cpu"], one["labels"]["method"]) for one in of_step] == [
        (0, "nanosleep"), (0, "timerfd"), (1, "nanosleep"), (1, "timerfd"),
    ]  # fmt: skip


@pytest.mark.parametrize("load", [["--load", "idle"], [], ["--load", "sched"]])
def test_a_command_as_load(rtgauge: Run, load: list[str]) -> None:
    words = ("run", "timer", *QUICK, *load, "--load-cmd", "stress-ng --vm 2")
    done = rtgauge(*words, "--json")
    model.validate(done.json())
    run = done.json()["runs"][0]
    assert run["plan"]["steps"][0]["load_command"] == "stress-ng --vm 2"
    found = run["steps"][0]["load"]
    name = "sched,command" if "sched" in load else "command"
    assert (found["name"], found["command"]) == (name, "stress-ng --vm 2")
    assert {one["name"]: one["unit"] for one in found["loads"]}["command"] == "ms"
    assert "command" not in run["steps"][-1]["load"]
    (row,) = rtgauge("runs", "--json").json()["runs"]
    assert name.replace(",", ", ") in row["headline"]


@pytest.mark.slow
@pytest.mark.parametrize("load", [[], ["--load", "sched", "--load-cmd", "true"]])
def test_a_disturbance_is_labelled_everywhere(rtgauge: Run, load: list[str]) -> None:
    words = ("run", "timer", *QUICK, *load, "--disturb", "kthread:200us:7.301ms", "--allow-disturb")
    done = rtgauge(*words, "--json", "-o", "disturbed.md")
    model.validate(done.json())
    run = done.json()["runs"][0]
    text = "kthread:200us:7.301ms"
    assert run["plan"]["steps"][0]["disturb"] == text
    found = run["steps"][0]["load"]
    others = "sched,command," if load else ""
    assert (found["name"], found["disturb"]) == (f"{others}disturb:{text}", text)
    assert run["steps"][0]["observations"][0]["rule"] == "disturbed"
    assert run["steps"][0]["published"] == []
    assert "disturb" not in run["steps"][-1]["load"]
    report = Path("disturbed.md").read_text()
    assert f"an injection ({text}) disturbed this step" in report.replace("\\", "")
    assert "disturbed" in rtgauge("runs", "--json").json()["runs"][0]["headline"]


def test_a_profile_as_load_and_a_target_that_is_prepared(rtgauge: Run) -> None:
    run = rtgauge("run", "timer", *QUICK, "--load", "doload,cpu", "--prepare", "--json")
    (run,) = run.json()["runs"]
    assert run["plan"]["steps"][0]["prepare"] is True
    load = run["steps"][0]["load"]
    assert load["name"] == "doload,cpu"
    assert [one["name"] for one in load["loads"]] == ["sched", "net", "copy", "walk", "cpu"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["timer-study", "timer-study.toml", "plans/timer-study.toml"])
def test_a_ready_plan_by_its_name(rtgauge: Run, name: str) -> None:
    (run,) = rtgauge("run", name, "--target", "fake", "--json", "--hours", "0.01").json()["runs"]
    assert run["plan"]["hours"] == 0.01
    planned = run["plan"]["steps"]
    assert [one["parameters"]["method"] for one in planned] == [
        "clock_nanosleep", "nanosleep", "timer", "itimer",
    ]  # fmt: skip
    assert {one["load"] for one in planned} == {"doload"}
    lengths = [parse_duration(one["parameters"]["for"]) for one in planned]
    assert sum(lengths) == pytest.approx(36e9, abs=2e9)
    assert lengths[2] / lengths[0] == pytest.approx(54.5 / 44.5, rel=0.1)


@pytest.mark.slow
def test_a_plan_with_targets(rtgauge: Run) -> None:
    Path("two.toml").write_text(
        '[plan]\nrepeat = 2\ntargets = ["fake", "fake:late"]\n'
        '[[step]]\nmeasurement = "timer"\nfor = "1s"\nmethod = ["nanosleep", "timer"]\n'
    )
    runs = rtgauge("run", "two.toml", "--json").json()["runs"]
    assert [one["target"] for one in runs] == ["fake", "fake:late"] * 2
    assert len({one["study"] for one in runs}) == 1
    words = ("run", "two.toml", "--target", "fake", "--repeat", "1", "--json")
    (run,) = rtgauge(*words, "--method", "timer", "--method", "timerfd").json()["runs"]
    assert run["target"] == "fake"
    assert run["plan"]["steps"][0]["parameters"]["method"] == "timer,timerfd"


def test_a_plan_of_ones_own_goes_before_a_ready_one(rtgauge: Run) -> None:
    Path("timer-quick.toml").write_text('[[step]]\nmeasurement = "pendulum"\nfor = "1s"\n')
    (run,) = rtgauge("run", "timer-quick.toml", "--target", "fake", "--json").json()["runs"]
    assert run["steps"][0]["measurement"] == "pendulum"


@pytest.mark.slow
def test_flags_of_measurements_with_and_without_a_value(rtgauge: Run) -> None:
    for words, value in (
        (["--dither"], "yes"),
        (["--dither=no"], "no"),
        (["--dither", "no"], "no"),
    ):
        run = rtgauge("run", "timer", *QUICK, "--json", *words).json()["runs"][0]
        assert run["plan"]["steps"][0]["parameters"]["dither"] == value


def test_what_a_run_may_leave_out(rtgauge: Run) -> None:
    words = ("run", "timer", *QUICK, "--histogram-only", "--keep-settings", "--json")
    run = rtgauge(*words).json()["runs"][0]
    assert run["plan"]["steps"][0]["histogram_only"] is True
    assert run["plan"]["steps"][0]["keep_settings"] is True
    assert {one["source"] for one in run["series"] if one["step"] == 0} == {"histogram"}


def test_check(rtgauge: Run) -> None:
    done = rtgauge("check", "--target", "fake")
    assert done.code == 0
    counts, worst = done.out.splitlines()[-3:-1]
    assert counts == "1 warning, 7 notes, 35 ok"
    assert worst.startswith("The worst finding is fair-server: ordinary tasks get up to 50 ms ")
    document = rtgauge("check", "--target", "fake", "--json").json()
    commands = [one["command"] for one in document["findings"] if one["command"]]
    lines = [line for line in done.out.splitlines() if not line.endswith(tuple(commands))]
    assert commands and max(map(len, lines)) <= 80
    assert document["format"] == "rtgauge-check"
    assert document["realtime"] == "preempt_rt"


def test_check_shows_the_worst_first_and_remedies_on_lines_of_their_own(rtgauge: Run) -> None:
    lines = rtgauge("check", "--target", "fake:untuned").out.splitlines()
    headings = [line.split(":")[0] for line in lines if line and line[0] != " "]
    assert headings[:-2] == ["Errors", "Warnings", "Notes", "Suitable for real time"]
    first = lines[1].strip()
    assert " ".join(lines).partition("The worst finding is ")[2].startswith(first)
    assert sum(line.startswith("    -> ") for line in lines) == sum(
        line.startswith("  ") and line[2] != " "
        for line in lines[: lines.index("Suitable for real time")]
    )


def test_check_strictly(rtgauge: Run) -> None:
    """Warnings and errors count; notes and what is not known do not."""
    for target, levels in (
        ("fake", {"warning", "note", "ok"}),
        ("fake:untuned", {"error", "warning", "note", "ok"}),
        ("fake:unprivileged", {"error", "warning", "note", "ok"}),
    ):
        document = rtgauge("check", "--target", target, "--json").json()
        assert {one["level"] for one in document["findings"]} == levels
        assert rtgauge("check", "--target", target, "--strict").code == 3
        assert rtgauge("check", "--target", target).code == 0


def test_check_of_some_cpus_and_a_priority(rtgauge: Run) -> None:
    words = ["check", "--target", "fake:cpus=2", "--json", "--cpu", "1", "--priority", "50"]
    levels = {one["check"]: one["level"] for one in rtgauge(*words).json()["findings"]}
    assert levels["interrupts"] == levels["interrupt-threads"] == "warning"
    none = rtgauge("check", "--target", "fake:cpus=2", "--cpu", "1-2")
    assert none.code == 2 and "has no online CPU 2" in none.err and "0-1" in none.err
    wrong = rtgauge("check", "--target", "fake", "--cpu", "1-")
    assert wrong.code == 2
    assert "--cpu" in wrong.err


def test_describe_lists_by_chapter(rtgauge: Run) -> None:
    lines = rtgauge("describe", "--target", "fake").out.splitlines()
    timer = next(place for place, line in enumerate(lines) if line.startswith("  timer "))
    headings = [line for line in lines[:timer] if line and not line.startswith(" ")]
    assert headings[-1] == "Measurements (timer latency):"
    assert not [line for line in lines if line[:1].strip() and ": " in line]
    assert "Measurements:" in lines  # one of the fake's is in no chapter


def test_describe_tells_what_a_plan_would_do(rtgauge: Run) -> None:
    Path("mine.toml").write_text(
        """
        [plan]
        name = "mine"
        summary = "what it is for"
        targets = ["lab:x86_64-rt", "fake"]
        repeat = 3
        [[step]]
        measurement = "timer"
        for = "40s"
        load = "sched"
        [[step]]
        measurement = "timer"
        for = "20s"
        """
    )
    told = rtgauge("describe", "mine.toml", "--target", "fake")
    assert told.code == 0, told.err
    assert max(map(len, told.out.splitlines())) <= 80
    text = " ".join(told.out.split())
    assert text.startswith("mine: what it is for mine.toml Targets: lab:x86_64-rt, fake")
    assert "Repeats: 3 (interleaved" in text
    assert "Emulated boards take longer" in text
    assert "40 s timer --for 40s, load sched 20 s timer --for 20s, idle" in text
    document = rtgauge("describe", "mine.toml", "--target", "fake", "--json").json()
    assert document["format"] == "rtgauge-plan"
    assert document["targets"] == ["lab:x86_64-rt", "fake"]
    lengths = [step["expected_s"] for step in document["steps"] if step["role"] == "measurement"]
    assert lengths == [40.0, 20.0]
    guessed = sum(step["expected_s"] is None for step in document["steps"])
    rest = sum(step["expected_s"] or 0 for step in document["steps"])
    assert document["expected_s"] == 3 * (rest + 2 * guessed)
    assert rtgauge("describe", "timer-quick", "--target", "fake").out.startswith("timer-quick")
    near = rtgauge("describe", "timer-quik", "--target", "fake")
    assert (near.code, "did you mean 'timer-quick'" in near.err) == (2, True)
    none = rtgauge("describe", "none.toml", "--target", "fake")
    assert (none.code, "none.toml cannot be read" in none.err) == (2, True)


@pytest.mark.parametrize("option", ["--cpu", "--load-cpu"])
def test_a_cpu_that_is_not_there_is_refused_before_the_plan_is_told(
    rtgauge: Run, option: str
) -> None:
    refused = rtgauge("evaluate", "--target", "fake", option, "9", "-o", "x.html")
    assert refused.code == 2
    assert "has no online CPU 9" in refused.err
    assert "evaluating" not in refused.err


def test_describe_as_json(rtgauge: Run) -> None:
    assert rtgauge("describe", "--target", "fake", "--json").json()["agent"] == "fake"
    one = rtgauge("describe", "sched", "--target", "fake", "--json").json()
    assert [entry["name"] for entry in one["measurements"] + one["loads"]] == ["sched"]


def test_an_agent_that_is_missing_or_none(rtgauge: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTGAUGE_AGENT", "/no/such/agent")
    for words in (["run", "timer"], ["evaluate"], ["check"], ["describe"]):
        done = rtgauge(*words)
        assert done.code == 1
        assert done.err.startswith("rtgauge: there is no agent at /no/such/agent\n")
    monkeypatch.setenv("RTGAUGE_AGENT", "/bin/echo")
    done = rtgauge("run", "timer")
    assert done.code == 1
    assert len(done.err.splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "code"), [(["runs"], 2), (["run", "timer", *QUICK], 1), (["show", "last"], 2)]
)
def test_a_store_that_cannot_be(rtgauge: Run, words: list[str], code: int) -> None:
    Path("file").write_text("not a folder")
    for place in ("file/store", "/proc/rtgauge"):
        done = rtgauge(*words, "--store", place)
        assert done.code == code
        assert done.out == ""
        assert done.err.startswith("rtgauge: ")
        assert len(done.err.splitlines()) == 2


@pytest.mark.parametrize("url", ["nonsense://x", "sqlite:////proc/x.db?data=data"])
def test_a_store_that_is_none(rtgauge: Run, url: str) -> None:
    done = rtgauge("runs", "--store", url)
    assert done.code in (1, 2)
    assert done.out == ""
    assert len(done.err.splitlines()) == 2


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.5, "0.5 s"), (9.94, "9.9 s"), (59.6, "1 min"), (120, "2 min"), (200, "3 min 20 s"),
     (7200, "2 h"), (7499, "2 h 5 min"), (360_000, "4 d 4 h")],
)  # fmt: skip
def test_lengths_of_time(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize("columns", range(20, 90))
def test_a_field_of_progress_is_there_in_full_or_not_at_all(columns: int) -> None:
    fields = ["mean 22.4", "min 9.4", "9994 samples"]
    step, result = "[2/3] timer", "complete, latency max 3556 us"
    text = fitted(step, result, fields, columns)
    assert len(text) <= columns
    whole = [", ".join([f"{step}: {result}", *fields[:n]]) for n in range(4)]
    assert text in whole if columns >= len(whole[0]) else text[0] == "["


def test_a_report_that_cannot_be_written_costs_no_result(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    Path("full").mkdir()
    monkeypatch.setattr("tempfile.mkstemp", fails)
    done = rtgauge("run", "timer", *QUICK, "-o", "full/r.html")
    assert done.code == 1
    assert "latency (µs)" in done.out and "Report:" not in done.out
    assert "full/r.html: No space left on device" in done.err
    assert "the run is kept" in done.err and "rtgauge report last -o FILE.html" in done.err


@pytest.mark.parametrize("fault", [KeyError("x"), OSError(28, "No space left on device")])
def test_a_report_that_cannot_be_made_keeps_its_remedy(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr("rtgauge.report.writing.markdown.render", fails)
    done = rtgauge("run", "timer", *QUICK, "-o", "r.md")
    assert done.code == 1
    assert f"cannot make r.md from the run: {type(fault).__name__} in rtgauge" in done.err
    assert "try another format, and report this fault" in done.err
    assert "The run is kept" in done.err and "-o FILE" not in done.err


def test_ctrl_c_while_the_report_is_written_says_that_the_results_are_kept(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rtgauge.report.writing.markdown.render", interrupted)
    done = rtgauge("run", "timer", *QUICK, "-o", "r.md", "--store", "s")
    assert done.code == 4
    assert done.err.endswith(
        "rtgauge: interrupted after the measurement\n"
        "  the results are kept. Write the report: rtgauge report last -o FILE.html --store s\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("whole", "step"),
    [
        ({"findings": [3]}, {}),
        ({"environment": 3}, {}),
        ({}, {"rate_per_hour": "x", "budget_ns": 9}),
        ({}, {"budget_ns": "x"}),
    ],
)
def test_a_run_that_was_edited_ends_no_command_with_a_traceback(
    rtgauge: Run, whole: dict[str, Any], step: dict[str, Any]
) -> None:
    for _ in range(2):
        rtgauge("run", "timer", *QUICK, "--store", "data", "--label", "a")
    path = max(Path("data/runs").glob("*/run.json"))
    document = json.loads(path.read_text())
    document["steps"][0] |= step
    document |= whole
    path.write_text(json.dumps(document))
    for words, what in ((["show"], "summary"), (["show", "--json"], "summary"),
                        (["compare", "1", "2"], "comparison")):  # fmt: skip
        done = rtgauge(*words, "--store", "data")
        assert done.code == 1
        assert done.err.startswith(f"rtgauge: cannot make the {what} from the run: ")
    left_out = rtgauge("trend", "a", "--store", "data", "--json").json()["left_out"]
    assert "cannot make the figures from the run" in left_out[0]["reason"]


@pytest.mark.parametrize("words", [["evaluate"], ["run", "timer", "-o", "r.html"]])
def test_a_folder_that_may_not_be_written_is_found_before_measuring(
    rtgauge: Run, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = str(Path.cwd())
    may = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: str(Path(path).absolute()) != here and may(path, mode)
    )
    done = rtgauge(*words, "--target", "fake", "--for", "1s", "--store", "data")
    assert (done.code, done.out) == (1, "")
    assert f"no permission to write to {here}" in done.err and "-o FILE" in done.err
    assert not Path("data").exists()


@pytest.mark.slow
def test_the_list_of_runs_fits_and_says_what_came_of_them(rtgauge: Run) -> None:
    load = ["--load", "sched:groups=4"]
    rtgauge("run", "timer", *QUICK, *load, "--budget", "20us", "--label", "x" * 50)
    rtgauge("run", "timer", "--for", "1s", "--target", "fake:fails")
    text = rtgauge("runs").out
    assert max(len(line) for line in text.splitlines()) <= 80
    words = " ".join(text.split())
    assert "fake xxxxxxxxxxx… not fit 27.2 µs" in words
    assert "fake:fails failed step 1 (timer):" in words


@pytest.mark.slow
def test_a_run_without_a_budget_is_not_called_fit(rtgauge: Run) -> None:
    rtgauge("evaluate", "--target", "fake", "--for", "10s", "--only", "timer")
    listed = rtgauge("runs").out
    assert " fake no budget " in " ".join(listed.split())
    assert " fit " not in listed
    assert ": no budget" in rtgauge().out


def test_a_running_run_shows_how_long_it_has_run(rtgauge: Run) -> None:
    began = (datetime.now(UTC) - timedelta(hours=3)).isoformat(timespec="milliseconds")
    rtgauge("run", "timer", *QUICK)
    with Store.open() as store:
        document = dict(store.get(store.runs()[0].id).document)
        changes = {"state": "running", "started": began.replace("+00:00", "Z")}
        with store.create({**document, **changes, "id": new_run_id()}):
            listed = rtgauge("runs").out
    assert "running     for 3 h" in listed


def test_a_run_of_a_newer_version(rtgauge: Run) -> None:
    assert rtgauge("run", "timer", *QUICK, "--store", "data").code == 0
    (path,) = Path("data").rglob("run.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 99}))
    done = rtgauge("show", path.parent.name, "--store", "data")
    assert done.code == 1
    assert "version 99" in done.err
    assert len(done.err.splitlines()) == 2


def test_another_store(rtgauge: Run) -> None:
    assert rtgauge("run", "timer", *QUICK, "--store", "elsewhere").code == 0
    assert rtgauge("runs", "--json").json()["runs"] == []
    assert len(rtgauge("runs", "--json", "--store", "elsewhere").json()["runs"]) == 1


HARM = "\x1b]0;owned\x07\x9b2J\x1b[31m\u202e"


@pytest.mark.parametrize(
    "words",
    [
        ("describe",),
        ("describe", "timer"),
        ("run", "--help"),
        ("run", "timer", "--help"),
        ("run", "timer", "--for", "1s", "--label", f"a\nb{HARM}"),
        ("run", "timer", "--for", "1s", "--label", f"a\nb{HARM}", "--json"),
        ("run", f"timer{HARM}"),
        ("check",),
    ],
)
@pytest.mark.parametrize("target", ["fake", "fake:fails", "fake:exit=1"])
def test_nothing_that_a_terminal_obeys_comes_out(
    rtgauge: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], target: str
) -> None:
    """Neither from a hostile target nor from a label."""
    catalogue = json.loads(json.dumps(fake.CATALOGUE))
    for entry in catalogue["measurements"]:
        entry["summary"] = entry["options"][0]["help"] = f"measures{HARM}"
        entry["series"][0]["meaning"] = HARM
    reason: Any = fake.FakeAgent._trailer

    def trailer(self: Any, *rest: Any) -> Any:
        return reason(self, *rest[:-2], f"why{HARM}", f"what{HARM}")

    monkeypatch.setattr(fake.FakeTarget, "describe", lambda self: json.dumps(catalogue))
    monkeypatch.setattr(fake.FakeAgent, "_trailer", trailer)
    monkeypatch.setattr(fake.FakeAgent, "messages", lambda self: f"went wrong{HARM}\n{HARM}")
    facts = dict(fake._FACTS) | {"uname.release": HARM, "uname.nodename": HARM}
    monkeypatch.setattr(fake, "_FACTS", facts)
    results = [rtgauge(*words, "--target", target)]
    if words[0] == "run" and len(words) > 2:
        results += [rtgauge("runs"), rtgauge("show", "last"), rtgauge("runs", "--json")]
    for result in results:
        assert not re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", result.out + result.err)


@pytest.mark.slow
def test_a_run_goes_on_when_nobody_reads_its_progress(spawn: Callable[..., Any]) -> None:
    with spawn("run", "timer", *QUICK, "--json") as process:
        process.stderr.close()
        out = process.stdout.read()
        assert process.wait(60) == 0
    assert [run["state"] for run in json.loads(out)["runs"]] == ["complete"]


@pytest.mark.slow
def test_an_encoding_that_cannot_show_everything(spawn: Callable[..., Any]) -> None:
    monkeypatch = pytest.MonkeyPatch()
    with monkeypatch.context() as context:
        context.setenv("PYTHONIOENCODING", "ascii")
        process = spawn("run", "timer", *QUICK, "--label", "für µs", "--json")
        out, _ = process.communicate(timeout=60)
        assert json.loads(out)["runs"][0]["label"] == "für µs"
        listing = spawn("runs")
        out, err = listing.communicate(timeout=60)
        assert (listing.returncode, err) == (0, "")
        assert "f?r us" in out


@pytest.mark.slow
def test_the_remedy_of_an_operation_decides_when_it_is_followed(rtgauge: Run) -> None:
    """The next verdict is a pass or a failure, and not the same advice."""
    words = ("run", "pendulum", "--target", "fake", "--json", "--budget")
    first = rtgauge(*words, "1s", "--samples", "100").json()["runs"][0]
    (remedy,) = {one["remedy"] for one in first["verdicts"] if one["result"] == "inconclusive"}
    options = re.search(r"\((--.*)\)$", remedy)
    assert options is not None
    for budget, result in (("1s", "pass"), ("2us", "fail")):
        run = rtgauge(*words, budget, *options[1].split()).json()["runs"][0]
        found = {one["result"] for one in run["verdicts"]}
        assert found == {result}
    refused = rtgauge(*words, "1s", "--rate", "1/h")
    assert refused.code == 2 and "no rate per hour" in refused.err


@pytest.mark.slow
def test_events_that_a_target_does_not_answer(rtgauge: Run) -> None:
    """Half of the events are not answered: no output shows a maximum without saying so."""
    words = ("--samples", "600", "--interval", "10ms", "--budget", "9.9ms", "--rate", "4000/h",
             "--line", "gpio:gpiochip0:22:23")  # fmt: skip
    done = rtgauge("run", "log-host", "--target", "fake:overloaded", *words)
    assert done.code == 3
    assert "\u2265 10 000" in done.out and "575 events were not answered" in done.out
    assert "events not answered, max answer" in done.err
    assert "not fit \u2265 10 000 µs" in " ".join(rtgauge("runs").out.split())
    shown = rtgauge("show", rtgauge("runs", "--json").json()["runs"][0]["id"]).out
    assert "\u2265 10 000" in shown


def test_a_remedy_s_command_is_on_one_line_in_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line break between its quotes made a wrong file of limits."""
    monkeypatch.setenv("COLUMNS", "60")
    command = "printf '%s - rtprio 99\\n%s - memlock unlimited\\n' $USER | sudo tee /etc/x"
    _print([
        Finding("privileges", "none", "error", "why", f"allow it, and log in again: {command}",
                command),
        Finding("swap", "on", "warning", "why", command, command),
    ])  # fmt: skip
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if command in line] == [f"       {command}", f"    -> {command}"]
    assert "    -> allow it, and log in again" in lines


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [("NO_COLOR", "", True), ("NO_COLOR", "1", False), ("TERM", "dumb", False)],
)
def test_results_have_colours_unless_they_are_unwanted(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    wanted: bool,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    _print([Finding("swap", "on", "warning", "why", "turn it off", "")])
    assert ("\x1b" in capsys.readouterr().out) is wanted
    output.print_table(("VERDICT", "WORST"), [("fit", "")], 80, {"fit": "green"})
    assert ("\x1b" in capsys.readouterr().out) is wanted


def test_a_line_is_not_broken_within_quotes() -> None:
    text = "  allow the user's task: printf '%s - rtprio 99 %s - memlock' $USER | sudo tee 'a b c'"
    lines = _wrapped(text, 40).split("\n")
    assert len(lines) > 2 and " ".join(" ".join(lines).split()) == text.strip()
    assert any("'%s - rtprio 99 %s - memlock'" in line for line in lines)
    assert any("'a b c'" in line for line in lines)


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        ("echo 1 > /sys/a # or reboot", ["    -> echo 1 > /sys/a # or reboot"]),
        (
            f"echo 1 > /sys/{'a' * 60} # or boot with {'b' * 50}",
            [f"    -> echo 1 > /sys/{'a' * 60}", f"       # or boot with {'b' * 50}"],
        ),
        (
            f"echo 1 > /sys/a # {'why ' * 20}",
            [
                "    -> echo 1 > /sys/a",
                "       # " + "why " * 17 + "why",
                "       # why why",
            ],
        ),
        (f"echo 1 > /sys/{'a' * 90}", [f"    -> echo 1 > /sys/{'a' * 90}"]),
    ],
)
def test_the_comment_of_a_command_continues_below_it(
    capsys: pytest.CaptureFixture[str], command: str, lines: list[str]
) -> None:
    """So that it fits 80 columns, and a shell still takes all of it."""
    _print([Finding("it", "on", "note", "why", command, command)])
    shown = capsys.readouterr().out.splitlines()
    assert shown[3 : 3 + len(lines)] == lines


def test_the_targets_are_those_of_the_plan_that_is_carried_out() -> None:
    """Also if no word is free of an option that may take it as its value."""
    Path("board.toml").write_text('[plan]\ntargets = ["fake:late"]\n')
    for words in (["board.toml"], ["--load", "sched", "--prepare", "board.toml"]):
        assert targets_of(words) == ["fake:late"]
    assert targets_of(["timer", "--load", "board.toml"], "fake") == ["fake"]


def test_a_command_at_the_end_of_a_line_is_not_broken() -> None:
    """What is pasted would end at the break."""
    command = "rtgauge runs --limit 0 --since 2026-11-20 --store /srv/measurements"
    lines = _wrapped(f"2 earlier runs are not listed by this command: {command}", 40).split("\n")
    assert lines[0] == "2 earlier runs are not listed by this" and lines[-1].strip() == command


def test_the_reference_has_each_json_document() -> None:
    folder = Path(output.__file__).parent
    page = (Path(__file__).parents[2] / "docs" / "reference" / "command-line.md").read_text("utf-8")
    sources = [path.read_text("utf-8") for path in folder.glob("*.py")]
    names = {one for text in sources for one in re.findall(r'"format": "(rtgauge-[a-z-]+)"', text)}
    assert len(names) > 8
    assert not [one for one in sorted(names) if not re.search(rf'[`"]{one}[`"]', page)]


def test_a_run_that_measured_nothing_says_why_once(rtgauge: Run) -> None:
    """It gave the same error and remedy several times, with an empty table and with advice about
    the system."""
    words = ("run", "timer", "--for", "1s", "--load", "sched", "--target", "fake:unready")
    done = rtgauge(*words)
    why, remedy = "load sched was not ready after 10 s", "reduce the load"
    chapter, answer = done.out.split("2 clock-cost")
    assert chapter.count(why) == 1 and remedy not in chapter
    assert not any(word in done.out for word in ("missed", "too few samples"))
    advice = " ".join(answer.partition("What to do next")[2].split())
    assert advice == "1. Reduce the load: 1 step can be measured"
    *_, last = done.err.splitlines()
    assert re.fullmatch(r"rtgauge: run \S+ failed: step 1 \(timer\)", last)
    quiet = rtgauge(*words, "--quiet").err
    assert quiet.count(f"failed: step 1 (timer): {why}\n  {remedy}\n") == 1
