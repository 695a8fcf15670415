# SPDX-License-Identifier: Apache-2.0
"""The answer of runs of every kind: state, maximum, certainty, cause, actions."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import report_runs as made
from conftest import Result
from rtgauge import stream
from rtgauge.cli.words import named_agent
from rtgauge.lab.machine import MODES
from rtgauge.report.document.answer import (
    BOARD,
    Answer,
    State,
    answer_figure,
    answer_of,
    answer_section,
)
from rtgauge.report.document.answer.actions import actions_of
from rtgauge.report.document.answer.commands import (
    on_the_board,
    raised_command,
    repeated_command,
)
from rtgauge.report.document.answer.data import Data
from rtgauge.report.document.blocks import Block, Bullets, Callout, Command, Heading, Line, Section
from rtgauge.report.document.cycles import CYCLES_NS, shortest
from rtgauge.report.pictures.drawing import text_width
from rtgauge.report.results import model
from rtgauge.report.results.again import step_command
from rtgauge.report.results.commands import checked, sentence
from rtgauge.text import plain
from rtgauge.units import parse_duration, parse_rate


def text(line: Line) -> str:
    return plain("".join(span.text for span in line))


def built(run: Any) -> dict[str, Any]:
    document: dict[str, Any] = model.build([run])["runs"][0]
    return document


def latency(top_us: int, count: int = 10_000, cpu: int = 0, **more: Any) -> made.FakeSeries:
    """A series with one value of ``top_us`` among others of 5 us."""
    values = np.full(count, 5000, np.int32)
    values[count // 2 : count // 2 + 1] = top_us * 1000
    return made.FakeSeries(made.info(cpu, cpu, **more), np.arange(count, dtype=np.int64), values)


def timers(idle_us: int, loaded_us: int, count: int = 10_000, **more: Any) -> made.FakeRun:
    """Timer latency idle and under load."""
    steps = [
        made.step(0, [latency(idle_us, count)], **more),
        made.step(1, [latency(loaded_us, count)], load="sched", **more),
    ]
    return made.run(steps, findings=[])


def budgeted(top_us: int, count: int, rate: float | None, budget_us: int = 150) -> Answer:
    step = made.step(0, [latency(top_us, count)], budget_ns=budget_us * 1000, rate_per_hour=rate)
    return answer_of(built(made.run([step], findings=[])))


def test_fit_for_a_budget() -> None:
    answer = budgeted(67, 200_000, 100.0)  # 200 s show less than 54 an hour
    assert (answer.state, answer.tone) == (State.FIT, "pass")
    assert (
        plain(answer.title)
        == "Fit for the budget of 150 us (allowed: fewer than 100 exceedances an hour), while idle"
    )
    assert text(answer.worst) == "Observed maximum 67.0 us (CPU 0, idle, 1 min 40 s into the step)"
    assert "150 us never exceeded in 200 000 wake-ups" in text(answer.sure)
    assert not answer.sure_command
    assert not answer.cycles


def test_the_state_of_an_emulated_board_says_so() -> None:
    def title(top_us: int, samples: int, rate: float | None) -> str:
        step = made.step(0, [latency(top_us, samples)], budget_ns=150_000, rate_per_hour=rate)
        run = made.run([step], findings=[])
        document = built(run)
        document["environment"]["lab"] = {"mode": "counted"}
        return plain(answer_of(document).title)

    assert title(67, 200_000, 100.0).startswith("Fit in emulation for the budget of 150 us")
    assert title(151, 10_000, None) == "Not fit in emulation: the budget of 150 us was exceeded"
    assert title(67, 60_000, None).startswith("Not proven in emulation for the budget of 150 us")


def test_a_board_is_measured_for_as_long_as_the_verdict_needs() -> None:
    run = made.run([made.step(0, [latency(67, 60_000)], budget_ns=150_000)], findings=[])
    document = built(run)
    document["environment"]["lab"] = {"mode": "counted"}
    document["target"] = "lab:x86_64-rt"
    document["plan"] = {"name": "evaluate", "steps": []}
    actions = {one.text: shlex.split(one.command) for one in answer_of(document).actions}
    words = actions["Measure on the board itself, long enough for a verdict"]
    assert words[:3] == ["rtgauge", "run", "timer"]
    assert words[words.index("--target") + 1] == "ssh://root@board"
    assert words[words.index("--for") + 1] == "3h"


def test_other_loads_are_named_with_the_verdict() -> None:
    def sure(idle_us: int) -> str:
        steps = [
            made.step(0, [latency(idle_us)], budget_ns=50_000),
            made.step(1, [latency(100)], budget_ns=50_000, load="sched"),
        ]
        return text(answer_of(built(made.run(steps, findings=[]))).sure)

    assert sure(20).endswith(" Not exceeded: idle.")
    assert sure(60).endswith(" Exceeded too: idle.")


def test_a_load_that_failed_kept_no_budget() -> None:
    failed = made.step(1, [latency(20)], budget_ns=50_000, load="sched", state="failed")
    run = made.run([made.step(0, [latency(60)], budget_ns=50_000), failed], findings=[])
    said = text(answer_of(built(run)).sure)
    assert "50 us exceeded" in said
    assert "sched" not in said


def test_every_load_that_exceeded_the_budget_is_named_before_those_that_kept_it() -> None:
    tops = {"memory": 20, "cpu": 20, "io": 55, "disk": 56, "net": 57, "irq": 58, "fork": 59}
    steps = [
        made.step(place, [latency(top)], budget_ns=50_000, load=load)
        for place, (load, top) in enumerate({"idle": 70, **tops}.items())
    ]
    said = text(answer_of(built(made.run(steps, findings=[]))).sure)
    assert "Exceeded too: load io, load disk, load net and 2 more." in said
    assert said.endswith("Not exceeded: load memory and load cpu.")


def test_what_the_host_may_have_caused_is_not_certain() -> None:
    document = built(made.run([made.step(0, [latency(100)], budget_ns=50_000)], findings=[]))
    for mode, certain in (("counted", True), ("plain", False)):
        document["environment"]["lab"] = {"mode": mode}
        said = text(answer_of(document).sure)
        assert said.endswith("ne exceedance is enough.")
        assert ("certain" in said) is certain


def test_another_budget_is_not_compared() -> None:
    steps = [
        made.step(0, [latency(60, 200_000)], budget_ns=50_000, rate_per_hour=1000.0),
        made.step(1, [latency(100, 200_000)], budget_ns=200_000, rate_per_hour=1000.0, load="x"),
    ]
    said = text(answer_of(built(made.run(steps, findings=[]))).sure)
    assert "xceeded too" not in said and "Not exceeded" not in said


def test_the_board_is_measured_for_the_verdict_that_is_open() -> None:
    """The highest maximum may be of a step without a budget."""
    steps = [
        made.step(0, [latency(67, 60_000)], budget_ns=150_000),
        made.step(1, [latency(100, 60_000)], load="sched"),
    ]
    document = built(made.run(steps, findings=[]))
    document["environment"]["lab"] = {"mode": "counted"}
    document["target"] = "lab:x86_64-rt"
    actions = {one.text: shlex.split(one.command) for one in answer_of(document).actions}
    words = actions["Measure on the board itself, long enough for a verdict"]
    assert words[words.index("--budget") + 1] == "150us"
    assert words[words.index("--for") + 1] == "3h"
    assert "--load" not in words


def test_cycles_of_an_emulated_board_say_so() -> None:
    document = built(timers(5, 6))
    document["environment"]["lab"] = {"mode": "counted"}
    assert plain(answer_of(document).title).endswith("and longer in emulation")


def test_a_maximum_far_below_the_budget_needs_no_cause() -> None:
    def cause(budget_us: int) -> str:
        step = made.step(0, [latency(67, 200_000)], budget_ns=budget_us * 1000, rate_per_hour=100.0)
        return text(answer_of(built(made.run([step], findings=[]))).cause)

    assert cause(150) == "The data do not show what caused the maximum."
    assert not cause(1000)


def test_not_fit_for_a_budget() -> None:
    answer = budgeted(151, 10_000, None)
    assert (answer.state, answer.tone) == (State.UNFIT, "fail")
    assert plain(answer.title) == "Not fit: the budget of 150 us was exceeded"
    assert "exceeded once in 10 000 wake-ups" in text(answer.sure)


def test_only_the_budgets_that_were_exceeded_are_named() -> None:
    steps = [
        made.step(0, [latency(67)], budget_ns=50_000, load="sched"),
        made.step(1, [latency(67)], budget_ns=1_000_000, load="sched"),
    ]
    answer = answer_of(built(made.run(steps, findings=[])))
    assert plain(answer.title) == "Not fit: the budget of 50 us was exceeded"


def test_samples_of_a_failed_step_support_no_cycle() -> None:
    run = timers(10, 18)
    run.steps[1].document["state"] = "failed"
    answer = answer_of(built(run))
    assert answer.state is State.UNPROVEN
    assert "not measured under load" in answer.title


def test_a_failed_step_with_the_only_budget_is_not_proven() -> None:
    run = timers(10, 18)
    run.steps.append(
        made.step(2, [], load="sched", budget_ns=150_000, state="failed", reason="it broke")
    )
    answer = answer_of(built(run))
    assert answer.state is State.UNPROVEN
    assert plain(answer.title).startswith("Not proven for the budget of 150 us")


def test_a_verdict_on_a_disturbed_step_is_none_on_the_system() -> None:
    series = [latency(67, name="call", interval_ns=0)]
    step = made.step(0, series, "syscalls", budget_ns=150_000)
    assert answer_of(built(made.run([step]))).state is not State.UNMEASURED
    step.document["disturb"] = "preempt_disable:1ms:7ms"
    answer = answer_of(built(made.run([step])))
    assert answer.state is State.UNMEASURED
    assert "an injection" in answer.title


def test_the_certainty_names_the_load_of_several_steps() -> None:
    budget = {"budget_ns": 150_000, "rate_per_hour": 100.0}
    assert "idle" not in text(budgeted(67, 200_000, 100.0).sure)
    answer = answer_of(built(timers(67, 100, 200_000, **budget)))
    assert text(answer.sure).startswith("Load sched: 150 us never exceeded in 200 000 wake-ups")
    answer = answer_of(built(timers(100, 67, 200_000, **budget)))
    assert text(answer.sure).startswith("Idle: 150 us never exceeded in 200 000 wake-ups")
    answer = answer_of(built(timers(67, 100, budget_ns=150_000)))
    assert "above 150 us in 10 s, load sched. 95" in text(answer.sure)


@pytest.mark.parametrize(("budget_us", "searched"), [(1000, True), (1001, False)])
def test_the_cause_of_a_maximum_far_below_the_budget_is_not_searched(
    budget_us: int, searched: bool
) -> None:
    step = made.step(0, [latency(100)], load="sched", budget_ns=budget_us * 1000)
    run = built(made.run([step], findings=[]))
    data = Data(run)
    found = actions_of(data, State.UNPROVEN, "", "rtgauge explain 1")
    assert ("Find the cause" in [one.text for one in found]) is searched


def test_the_certainty_is_that_of_the_undisturbed_step() -> None:
    disturbed = made.step(1, [latency(300)], budget_ns=20_000, disturb="irq:200us:7ms")
    answer = answer_of(built(made.run([made.step(0, [latency(67)], budget_ns=200_000), disturbed])))
    assert plain(answer.title).startswith("Not proven for the budget of 200 us")
    assert "above 200 us" in text(answer.sure) and "certain" not in text(answer.sure)
    alone = answer_of(built(made.run([disturbed, made.step(0, [latency(10)])])))
    assert "20 us exceeded once" in text(alone.sure) and "certain" not in text(alone.sure)


@pytest.mark.parametrize("rate", [1 / 12_000, 1_080_000.0, 1.0])
def test_the_rate_of_a_command_is_one_that_is_accepted(rate: float) -> None:
    step = made.step(0, [latency(67)], budget_ns=150_000, rate_per_hour=rate)
    document = built(made.run([step]))
    words = shlex.split(step_command(document, document["steps"][0], {}))
    assert parse_rate(words[words.index("--rate") + 1]) == pytest.approx(rate)


def test_a_run_too_short_is_not_proven_and_says_how_long() -> None:
    answer = budgeted(67, 60_000, None)
    assert (answer.state, answer.tone) == (State.UNPROVEN, "warn")
    assert "never exceeded, but a verdict needs 3 h" in plain(answer.title)
    said = text(answer.sure)
    assert said.startswith("0 of 60 000 wake-ups above 150 us in 1 min. ")
    assert "one is needed to show fewer than 1 exceedance an hour (the default)." in said
    words = shlex.split(answer.sure_command)
    assert words[:3] == ["rtgauge", "run", "timer"]
    assert words[words.index("--for") + 1] == "3h"
    assert words[words.index("--budget") + 1] == "150us"
    assert any(action.command == answer.sure_command for action in answer.actions)


def test_samples_of_no_time_bound_no_rate() -> None:
    """As a stream gives them whose trailer counts none of its samples."""
    step = made.step(0, [latency(67, 1)], budget_ns=150_000, rate_per_hour=1.0)
    document = built(made.run([step]))
    document["verdicts"][0]["bound_per_hour"] = None
    answer = answer_of(document)
    assert answer.state is State.UNPROVEN
    assert "longer without an exceedance" in text(answer.sure)


def _ambiguous() -> made.FakeStep:
    series = latency(67, 1000, name="response")
    table = stream.Table(0, "answers", (stream.Column("ambiguous", "count"),), ((3,),))
    return made.step(0, [series], "log-host", tables=[table], budget_ns=150_000)


@pytest.mark.parametrize(
    ("step", "why", "remedy"),
    [
        (_ambiguous(), "the answers to 3 events may belong to other events", "Generate events"),
        (
            made.step(
                0,
                [latency(67, name="call", interval_ns=0)],
                "syscalls",
                budget_ns=150_000,
                rate_per_hour=1.0,
            ),
            "a rate per hour cannot be judged without a time grid",
            "Omit --rate",
        ),
        (
            made.step(0, [latency(67)], budget_ns=150_000, rate_per_hour=0.0),
            "no run can show that something never happens",
            "allow a rate (--rate 1/h)",
        ),
        (
            made.step(0, [latency(67)], budget_ns=150_000, state="failed", reason="it broke"),
            "the step failed",
            "Run the step again",
        ),
    ],
)
def test_what_no_longer_run_decides_has_its_own_reason(
    step: made.FakeStep, why: str, remedy: str
) -> None:
    other = made.step(1, [latency(5)], load="sched")
    answer = answer_of(built(made.run([step, other], findings=[])))
    assert (answer.state, answer.tone) == (State.UNPROVEN, "warn")
    assert plain(answer.title) == f"Not proven for the budget of 150 us: {why}"
    assert remedy in text(answer.sure)
    assert not answer.sure_command
    assert remedy.casefold() in answer.actions[0].text.casefold()
    assert not any("--for 3h" in action.command for action in answer.actions)


def test_without_samples_no_length_is_offered() -> None:
    steps = [
        made.step(0, [latency(5, 0)], budget_ns=150_000),
        made.step(1, [latency(5)], load="sched"),
    ]
    answer = answer_of(built(made.run(steps, findings=[])))
    assert plain(answer.title) == "Not proven for the budget of 150 us: no samples"
    assert "measure again" in text(answer.sure).casefold()
    assert not answer.sure_command


def test_an_operation_measured_too_few_times_gets_samples() -> None:
    series = latency(67, 100, name="call", interval_ns=0)
    step = made.step(0, [series], "syscalls", budget_ns=150_000)
    assert step.header is not None
    given = {name: stream.Parameter(text, text) for name, text in (("samples", "100"), ("for", ""))}
    step.header = dataclasses.replace(step.header, parameters=given)
    answer = answer_of(built(made.run([step])))
    assert plain(answer.title).endswith("never exceeded, but the run is too short")
    assert "--samples 2995" in answer.sure_command
    assert "too few to show" in text(answer.sure) and "--samples 2995" in text(answer.sure)


def test_a_rate_exceeded_too_rarely_is_not_called_never_exceeded() -> None:
    answer = budgeted(151, 10_000, 100.0)
    assert "exceeded, but the run is too short to tell how often" in answer.title
    assert "never" not in answer.title
    assert "--for" in answer.sure_command


@pytest.mark.parametrize(("top_us", "fit"), [(149, True), (300, False)])
def test_a_step_without_a_budget_that_exceeds_it_is_not_fit(top_us: int, fit: bool) -> None:
    steps = [
        made.step(0, [latency(67, 200_000)], budget_ns=150_000, rate_per_hour=100.0),
        made.step(1, [latency(top_us)], load="sched"),
    ]
    answer = answer_of(built(made.run(steps, findings=[])))
    assert (answer.state is State.FIT) is fit
    if not fit:
        assert (answer.state, answer.tone) == (State.UNPROVEN, "warn")
        assert plain(answer.title) == (
            "Not proven for the budget of 150 us: timer, load sched, took 300 us without a budget"
        )
        assert "--load sched --budget 150us" in answer.actions[0].command


def test_a_budget_of_the_same_measurement_precedes_those_of_others() -> None:
    steps = [
        made.step(0, [latency(20, 200_000)], budget_ns=50_000, rate_per_hour=100.0),
        made.step(1, [latency(90, 200_000)], "other", budget_ns=150_000, rate_per_hour=100.0),
        made.step(2, [latency(100)], "other", load="sched"),
    ]
    assert answer_of(built(made.run(steps, findings=[]))).state is State.FIT


def test_an_interrupted_run_with_a_failed_step_is_not_fit() -> None:
    run = timers(10, 18)
    run.steps.append(made.step(2, [], state="failed", reason="it broke", end=None))
    run.steps.append(made.step(3, [latency(10)], state="interrupted"))
    run.document["state"] = "failed"
    answer = answer_of(built(run))
    assert (answer.state, answer.title) == (State.UNPROVEN, "Not proven: the run was interrupted")


@pytest.mark.parametrize(("lab", "allowed"), [(True, False), (False, True)])
def test_a_disturbed_step_again_needs_the_consent_again(lab: bool, allowed: bool) -> None:
    step = made.step(0, [latency(300)], disturb="kthread:200us:7.301ms")
    document = built(made.run([step]))
    if lab:
        document["environment"]["lab"] = {"mode": "counted", "meaning": ""}
    command = step_command(document, document["steps"][0], {})
    assert "--disturb kthread:200us:7.301ms" in command
    assert ("--allow-disturb" in command) is allowed
    assert "--allow-disturb" not in step_command(document, document["steps"][0], {"disturb": ""})


FOREIGN = {
    "load-cmd": "touch /tmp/x",
    "load-cmd-root": True,
    "load": "sched,list:program=/tmp/x,copy:path=/dev/watchdog,net:peer=192.0.2.7/25",
    "mark": "gpio:gpiochip0:17",
    "disturb": "kthread:200us:7.301ms",
    "allow-load-cmd": True,
    "agent": "/tmp/x",
    "priority": "80",
}


@pytest.mark.parametrize(
    ("imported", "target"), [(False, "ssh://b"), (True, "ssh://b"), (True, "lab:x86_64-rt")]
)
def test_the_command_of_an_imported_run_has_nothing_that_its_author_alone_vouches_for(
    imported: bool, target: str
) -> None:
    fake = made.run([made.step(0, [latency(300)], run_options=FOREIGN)], target=target)
    fake.imported = imported
    document = built(fake)
    model.validate({"format": "rtgauge-results", "version": 2, "runs": [document], "bounds": []})
    command = step_command(document, document["steps"][0], {"for": "3h"}, ["--prepare"])
    dropped = imported and target == "ssh://b"
    words = shlex.split(command, comments=dropped)
    kept = {"--interval", "--priority", "--for", "--prepare", "--target"}
    foreign = {"--load-cmd", "--load", "--mark", "--disturb", "--load-cmd-root", "--allow-disturb"}
    foreign |= {"--allow-load-cmd", "--agent"}
    assert {w for w in words if w.startswith("--")} == kept | (set() if dropped else foreign)
    _, _, comment = command.partition(" # ")
    assert comment == (
        "without --load-cmd --load --mark --disturb --agent of the imported run: "
        "read and add what you trust"
        if dropped
        else ""
    )
    assert "/tmp/x" not in command or not dropped


def test_the_evaluation_of_an_imported_run_again_starts_no_program_of_it() -> None:
    options = {"load": "list:program=/tmp/x", "for": "5s", "prepare": True}
    fake = made.run(
        [made.step(0, [latency(300)])], plan={"name": "evaluate", "options": options, "steps": []}
    )
    own = repeated_command(Data(built(fake)))
    assert own == "rtgauge evaluate --for 5s --load list:program=/tmp/x --prepare"
    fake.imported = True
    assert repeated_command(Data(built(fake))) == (
        "rtgauge evaluate --for 5s --prepare "
        "# without --load of the imported run: read and add what you trust"
    )


def test_a_measurement_without_a_length_gets_samples() -> None:
    step = made.step(0, [latency(67, 1000, name="response")], "log-host", budget_ns=150_000)
    assert step.header is not None
    samples = {"samples": stream.Parameter("1000", "1000")}
    step.header = dataclasses.replace(step.header, parameters=samples)
    words = shlex.split(answer_of(built(made.run([step]))).sure_command)
    # 3/T is one an hour after 2.9957 h, rounded up to a second of 1 ms events
    assert 10_784_000 <= int(words[words.index("--samples") + 1]) <= 10_800_000
    assert "--for" not in words


def test_cycles_without_a_budget() -> None:
    answer = answer_of(built(timers(10, 18)))
    assert [cycle.interval_ns for cycle in answer.cycles] == list(CYCLES_NS)
    states = {cycle.interval_ns // 1000: cycle.state for cycle in answer.cycles}
    # 18 us of at most 10, 20, 50 us: above it, within it without the margin, with it
    assert states == {50: "exceeded", 100: "not proven"} | dict.fromkeys(
        (250, 500, 1000, 2000, 5000, 10_000), "supported"
    )
    assert (answer.state, answer.tone) == (State.SUPPORTS, "pass")
    assert plain(answer.title) == "No budget given: the data support cycles of 250 us and longer"
    assert "3 h needed" in text(answer.sure)


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (timers(10, 18, 2000), "too few samples"),
        (made.run([made.step(0, [latency(10)])]), "not measured under load"),
        (made.run([made.step(0, [latency(10)], load="sched")]), "not measured while idle"),
    ],
)
def test_cycles_need_enough_samples_idle_and_loaded(run: Any, why: str) -> None:
    answer = answer_of(built(run))
    assert (answer.state, answer.tone) == (State.UNPROVEN, "warn")
    assert shortest(answer.cycles) is None
    assert {cycle.text for cycle in answer.cycles if cycle.state == "not proven"} == {why}
    assert why in answer.title


def test_answers_that_may_be_to_other_events_support_no_cycle() -> None:
    """As with a budget, what was exceeded stays so."""
    table = stream.Table(0, "answers", (stream.Column("ambiguous", "count"),), ((3,),))
    steps = [
        made.step(place, [latency(18, name="response")], "log-host", tables=[table], load=load)
        for place, load in enumerate(("idle", "sched"))
    ]
    answer = answer_of(built(made.run(steps, findings=[])))
    assert (answer.state, answer.tone) == (State.UNPROVEN, "warn")
    assert {cycle.state for cycle in answer.cycles} == {"not proven", "exceeded"}
    assert "the answers to 3 events may belong to other events" in answer.title


def test_samples_that_may_be_answers_to_other_events_exceed_no_cycle() -> None:
    """As captures keep them."""
    names = ("raised", "answered", "unanswered", "ambiguous")
    columns = tuple(stream.Column(name, "count") for name in names)
    table = stream.Table(0, "answers", columns, ((10_000, 10_000, 0, 10_000),))
    series = latency(18_000, name="response")
    step = made.step(0, [series], "log-host", tables=[table])
    answer = answer_of(built(made.run([step], findings=[])))
    assert answer.state is State.UNPROVEN
    assert {cycle.state for cycle in answer.cycles} == {"not proven"}
    step.tables = [replace(table, rows=((10_000, 10_000, 0, 0),))]
    answer = answer_of(built(made.run([step], findings=[])))
    assert {cycle.state for cycle in answer.cycles} == {"exceeded"}


@pytest.mark.slow
def test_a_long_run_needs_no_margin() -> None:
    def of(seconds: int, top_us: int, cycle_ns: int) -> str:
        made_of = [latency(top_us, seconds * 100, interval_ns=10 * made.MS) for _ in range(2)]
        steps = [made.step(0, [made_of[0]]), made.step(1, [made_of[1]], load="sched")]
        found = answer_of(built(made.run(steps))).cycles
        return next(one.state for one in found if one.interval_ns == cycle_ns)

    assert of(600, 1800, 10 * made.MS) == "not proven"
    assert of(3 * 3600, 1800, 10 * made.MS) == "supported"
    # A cycle of 100 us has a hundred times as many wake-ups as were measured every 10 ms.
    assert of(3 * 3600, 18, 100_000) == "not proven"
    assert of(3 * 3600, 9, 100_000) == "supported"


def test_too_late_for_every_cycle() -> None:
    answer = answer_of(built(timers(100, 2100)))
    assert (answer.state, answer.tone) == (State.UNFIT, "fail")
    assert plain(answer.title).endswith(
        "too late for cycles of 10 ms and shorter (latency above 2 ms, a fifth of the cycle)"
    )


def test_without_real_time_priority() -> None:
    def series(top: int) -> made.FakeSeries:
        return latency(top, policy="other", priority=0)

    steps = [made.step(0, [series(50)]), made.step(1, [series(900)], load="sched")]
    for one in steps:
        one.header.parameters["priority"] = stream.Parameter("80", "80")  # type: ignore[union-attr,index]
    answer = answer_of(built(made.run(steps)))
    assert (answer.state, answer.tone) == (State.UNMEASURED, "warn")
    assert "without real-time priority" in answer.title
    assert "SCHED_OTHER" in text(answer.worst)
    assert not answer.cycles
    again = 'sudo "$(command -v rtgauge)" run timer --interval 1ms --load sched'
    assert answer.actions[0].command == answer.cause_command == again
    assert "SCHED_OTHER" in text(answer.cause)
    assert not answer.sure_command  # no length mends it


@pytest.mark.parametrize(
    ("top", "state"), [(50, State.UNFIT), (10, State.FIT)], ids=["exceeded", "kept"]
)
def test_a_budget_for_ordinary_tasks_is_judged_where_they_were_asked_for(
    top: int, state: State
) -> None:
    """The answer agrees with the verdict, and so with the exit code."""
    series = latency(top, 400, policy="other", priority=0, interval_ns=3600 * 10**9)
    step = made.step(0, [series], budget_ns=20_000, rate_per_hour=0.1)
    step.document["parameters"] = {"priority": "0"}
    parameter = stream.Parameter("0", "0")
    step.header.parameters["priority"] = parameter  # type: ignore[union-attr,index]
    series.value[::7] = top * 1000
    answer = answer_of(built(made.run([step])))
    assert answer.state is state
    del step.document["budget_ns"]
    answer = answer_of(built(made.run([step])))
    assert answer.state is State.UNMEASURED


def test_an_injection() -> None:
    step = made.step(0, [latency(300)], disturb="kthread:200us:7.301ms")
    answer = answer_of(built(made.run([step])))
    assert answer.state is State.UNMEASURED
    assert "injection" in answer.title
    assert "injection" in text(answer.cause)


def test_events_without_an_answer() -> None:
    series = latency(20, 1000, name="response")
    series.gaps = ((100, 3),)
    step = made.step(0, [series], budget_ns=150_000)
    step.header.parameters["timeout"] = stream.Parameter(None, "5ms")  # type: ignore[union-attr,index]
    answer = answer_of(built(made.run([step])))
    assert answer.state is State.UNFIT
    assert text(answer.worst).startswith("Observed maximum >= 5 000 us")
    assert "3 of 1 003 events were not answered" in text(answer.worst)


def _steps(failed: int, skipped: int, whole: int) -> list[made.FakeStep]:
    steps = [made.step(n, [latency(10)], load="sched" if n % 2 else "idle") for n in range(whole)]
    for state, number in (("failed", failed), ("skipped", skipped)):
        for _ in range(number):
            why = {"state": state, "reason": "a thread did not end", "remedy": "run it again"}
            steps.append(made.step(len(steps), [], header=None, end=None, **why))
    return steps


def test_one_failed_step_among_many_is_not_the_headline() -> None:
    answer = answer_of(built(made.run(_steps(1, 0, 9), state="complete")))
    assert answer.state is State.SUPPORTS
    assert "fail" not in answer.title
    assert answer_of(built(made.run(_steps(1, 0, 9), state="failed"))).state is State.SUPPORTS


@pytest.mark.parametrize(
    ("failed", "skipped", "whole", "why"),
    [
        (1, 0, 0, "the run failed"),
        (3, 0, 0, "all 3 steps failed"),
        (0, 2, 0, "every step was skipped"),
        (0, 3, 2, "3 of 5 steps were skipped"),
    ],
)
def test_what_was_not_measured(failed: int, skipped: int, whole: int, why: str) -> None:
    answer = answer_of(built(made.run(_steps(failed, skipped, whole))))
    assert answer.state is State.UNMEASURED
    assert answer.title == f"Not measured properly: {why}"
    assert answer.audit.startswith("Configuration audit: ") and "figures hold" not in answer.audit
    assert answer.tone == ("fail" if failed else "warn")
    assert any(action.text == "Run it again" for action in answer.actions)
    number = failed + skipped
    assert answer.missing.startswith(f"Not measured: {number} of {number + whole} step")
    times = f" ×{number}" if number > 1 else ""
    assert answer.missing.endswith(f"(timer{times}): a thread did not end.")
    assert answer.missing in repr(answer_section(answer, None))


def test_an_empty_run() -> None:
    answer = answer_of(built(made.run([])))
    assert answer.state is State.UNMEASURED
    assert answer.worst == answer.sure == answer.cause == ()


def test_an_interrupted_run_keeps_what_it_shows() -> None:
    answer = answer_of(built(_interrupted()))
    assert (answer.state, answer.tone) == (State.UNPROVEN, "warn")
    assert answer.title == "Not proven: the run was interrupted"
    assert text(answer.worst)


def _interrupted() -> made.FakeRun:
    run = timers(10, 18)
    run.document["state"] = "interrupted"
    return run


@pytest.mark.parametrize(
    ("results", "state", "title"),
    [
        (["pass", "pass"], State.PASSED, "No budget given: 2 tests passed"),
        (["pass", "fail"], State.UNFIT, "Not fit: 1 of 2 tests failed (rule 1)"),
        (
            ["pass", "inconclusive"],
            State.UNPROVEN,
            "No budget given: 1 of 2 tests passed (1 inconclusive)",
        ),
    ],
)
def test_a_run_of_tests_alone(results: list[Any], state: State, title: str) -> None:
    tests = [stream.Verdict(0, f"rule {n}", one, "", "") for n, one in enumerate(results)]
    answer = answer_of(built(made.run([made.step(0, [], "rules", verdicts=tests)])))
    assert (answer.state, answer.title) == (state, title)


def test_a_known_limitation_is_no_headline() -> None:
    run = timers(10, 18)
    run.steps.append(
        made.step(2, [], "rules", verdicts=[stream.Verdict(0, "order", "fail", "", "mend it")])
    )
    rule = {"rule": "order", "meaning": "", "known_limitation": "this library forgets the order"}
    entry = made.CATALOGUE["measurements"][0] | {"name": "rules", "verdicts": [rule]}
    measurements = [*made.CATALOGUE["measurements"], entry]
    run.document["catalogue"] = made.CATALOGUE | {"measurements": measurements}
    answer = answer_of(built(run))
    assert answer.state is State.SUPPORTS
    assert answer.limitations == ("this library forgets the order",)
    section = answer_section(answer, None)
    assert "this library forgets the order" in repr(section.blocks[1])


@pytest.mark.parametrize(
    ("realtime", "length_s", "when"),
    [
        (1_800_000_000, 60, "08:00:05.000 UTC"),
        (1_800_000_000, 90_000, "2027-01-15 08:00:05.000 UTC"),
        (0, 60, "5 s into the step"),
    ],
)
def test_the_maximum_has_its_time(realtime: int, length_s: int, when: str) -> None:
    step = made.step(0, [latency(67)])
    assert step.header is not None
    clock = stream.ClockReading(0, 0, realtime * 10**9)
    step.header = dataclasses.replace(step.header, clock=clock, start_ns=0)
    answer = answer_of(built(made.run([step], duration_s=length_s)))
    assert text(answer.worst) == f"Observed maximum 67.0 us (CPU 0, idle, {when})"


def test_a_failed_test_does_not_hide_the_maximum() -> None:
    run = timers(10, 18)
    run.steps.append(
        made.step(2, [], "rules", verdicts=[stream.Verdict(0, "order", "fail", "", "mend it")])
    )
    answer = answer_of(built(run))
    assert answer.state is State.UNFIT
    assert text(answer.worst).startswith("Observed maximum 18.0 us (CPU 0, load sched,")
    assert shortest(answer.cycles) is not None


@pytest.mark.parametrize(
    "remedy",
    [
        "cpupower frequency-set -g performance",
        "sysctl -w kernel.numa_balancing=0 # for a run: rtgauge run --prepare does it",
        "for f in /sys/a*/runtime; do echo 0 > $f; done",
        "echo nop > /sys/tracer; echo 0 > /sys/enable",
    ],
)
@pytest.mark.parametrize("older", [False, True])
def test_a_remedy_is_a_command_only_if_it_says_so(remedy: str, older: bool) -> None:
    found = {"check": "it", "found": "wrong", "level": "error", "why": "", "remedy": remedy}
    found |= {} if older else {"command": remedy}
    run = made.run([made.step(0, [latency(10)], load="sched")], findings=[found])
    action = answer_of(built(run)).actions[0]
    assert action.command == ("" if older else remedy)
    assert (remedy[1:] in action.gain) == older


@pytest.mark.parametrize(
    "remedy",
    [
        "echo 1;reboot", "echo `reboot`", "echo a | sh", "echo a && reboot", "echo a & reboot",
        "echo a > /etc/passwd", "echo a | tee /etc/passwd", "echo a > /sys/../etc/passwd",
        "echo a > $(reboot)", "sysctl -w kernel.core_pattern=|/tmp/x", "echo a\nreboot",
        "echo 1 > /sys/a # why\nreboot", "rtgauge run timer --load-cmd 'reboot'",
        "rtgauge run timer --load list:program=/tmp/x", "for f in /sys/a; do sh -c $f; done",
        "echo ${HOME}", 'echo "$f"', "echo a > $IFS", "id; reboot",
        "echo b > /proc/sysrq-trigger", "echo mem > /sys/power/state", "rtgauge delete last",
        "look at it: rtgauge delete last", "rtgauge run timer --load copy:path=/dev/watchdog",
        "rtgauge run timer --load net:peer=192.0.2.7/25", "rtgauge run timer --mark gpio:chip:1",
    ],
)  # fmt: skip
def test_a_remedy_from_elsewhere_starts_no_other_program(remedy: str) -> None:
    """Boards and bundles bring remedies, and reports show commands to copy."""
    assert checked(remedy, remedy, "") == (remedy, "")


@pytest.mark.parametrize(
    ("target", "there"),
    [("local", ""), ("ssh://b", " --target ssh://b"), ("b;reboot", " --target 'b;reboot'")],
)
def test_the_command_of_a_remedy_is_for_the_target(target: str, there: str) -> None:
    command = "rtgauge module load"
    found = checked(f"load it: {command}", command, target)
    assert found == (f"load it: {command}{there}", command + there)
    assert sentence(*found) == "load it"
    assert checked("look at it", command, target) == ("look at it", command + there)
    plain = "rtgauge lab remove mine"
    assert checked(plain, plain, target) == (plain, plain)
    assert checked("mend it", f"{command};reboot", target) == ("mend it", "")
    assert checked("mend it", "rtgauge", target) == ("mend it", "rtgauge")


def test_a_remedy_without_its_command() -> None:
    assert sentence("echo 1 > /sys/a", "echo 1 > /sys/a") == ""
    assert sentence("load it", "") == "load it"
    assert (
        sentence("apt install it, and boot it", "apt install it") == "apt install it, and boot it"
    )


def test_findings_are_one_line_that_contradicts_no_verdict() -> None:
    answer = answer_of(built(made.run([made.step(0, [latency(10)])])))
    assert answer.audit == (
        "Configuration audit: 1 error (preemption) and 2 warnings (cpufreq governor and "
        "virtualisation). The figures hold for this configuration: measure again after a change."
    )


@pytest.mark.parametrize(
    ("check", "level", "state"),
    [
        ("clock-source", "error", State.UNMEASURED),
        ("clock-source", "warning", State.FIT),
        ("preemption", "error", State.FIT),
    ],
)
def test_only_a_clock_that_shows_no_latency_changes_the_state(
    check: str, level: str, state: State
) -> None:
    found = {"check": check, "found": "jiffies", "level": level, "why": "", "remedy": "mend it"}
    step = made.step(0, [latency(67, 200_000)], budget_ns=150_000, rate_per_hour=100.0)
    answer = answer_of(built(made.run([step], findings=[found])))
    assert answer.state is state
    title = "Not measured properly for the budget of 150 us: "
    title += "the clock source, jiffies, advances by whole ticks"
    assert (plain(answer.title) == title) is (state is State.UNMEASURED)


def test_as_many_steps_are_listed_as_are_counted() -> None:
    run = timers(10, 18)
    names = ["a", "a", "b", "c", "d", "e", "e", "f"]
    for name in names:
        run.steps.append(made.step(len(run.steps), [], name, header=None, end=None, state="failed"))
    run.steps.append(made.step(len(run.steps), [latency(1)], "clock-cost", role="calibration"))
    said = plain(answer_of(built(run)).missing)
    assert said == "Not measured: 8 of 10 steps (a ×2, b, c, d, e ×2 and f)."


def test_a_calibration_without_results_is_counted() -> None:
    run = timers(10, 18)
    run.steps.append(
        made.step(2, [], "clock-cost", role="calibration", header=None, end=None, state="failed")
    )
    said = plain(answer_of(built(run)).missing)
    assert said.startswith("Not measured: 1 of 2 steps and 1 calibration (clock-cost)")


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        ("aa", ": a."),
        ("aab", ": 2 because a; 1 because b."),
        ("aabc", ": 2 because a; 1 because b; 1 because c."),
        ("aabbcd", ": 2 because a; 2 because b; 2 for other reasons."),
    ],
)
def test_each_reason_is_given_with_its_number_of_steps(reasons: str, said: str) -> None:
    run = timers(10, 18)
    for at, reason in enumerate(reasons, 2):
        run.steps.append(
            made.step(at, [], "x", header=None, end=None, state="failed", reason=reason)
        )
    assert plain(answer_of(built(run)).missing).endswith(f"(x ×{len(reasons)}){said}")


def test_without_real_time_priority_an_exceedance_is_not_certain() -> None:
    def sure(**more: Any) -> str:
        step = made.step(0, [latency(100, **more)], budget_ns=50_000)
        return text(answer_of(built(made.run([step]))).sure)

    assert "That is certain for this run: one exceedance is enough." in sure()
    assert "exceeded" in sure(policy="other", priority=0)
    assert "certain" not in sure(policy="other", priority=0)
    assert sure(policy="other", priority=0).endswith(
        "This proves nothing about a task with real-time priority."
    )


def test_an_evaluation_says_how_many_tests_passed() -> None:
    run = timers(10, 18)
    verdicts = [
        stream.Verdict(0, name, end, "", "") for name, end in (("a", "pass"), ("b", "pass"))
    ]
    run.steps.append(made.step(2, [], "rules", verdicts=verdicts))
    document = built(run)
    assert plain(answer_of(document).scope) == "Only timer and rules were measured."
    document["steps"][2]["chapter"] = "Mutexes"
    assert plain(answer_of(document).scope) == "All 3 steps were measured. 2 of 2 tests passed."
    document["tests"][1]["result"] = "inconclusive"
    assert plain(answer_of(document).scope) == (
        "All 3 steps were measured. 1 of 2 tests passed, 1 inconclusive."
    )
    document["steps"][0]["state"] = "skipped"
    said = plain(answer_of(document).missing)
    assert said.endswith(" 1 of 2 tests passed, 1 inconclusive.")
    document["tests"][1].update(result="fail", known_limitation="the library's order")
    document["tests"] += [{**document["tests"][0], "result": "skipped"}] * 2
    said = plain(answer_of(document).missing)
    assert said.endswith(
        "1 of 2 tests passed, 1 failed as on every system with this C library, 2 skipped."
    )


@pytest.mark.parametrize(
    ("name", "context", "said"),
    [
        ("latency", "user", "wake-ups"),
        ("latency", "kernel", "wake-ups"),
        ("latency", "irq", "interrupts"),
        ("response", "user", "answers"),
        ("answer", "irq", "answers"),
    ],
)
def test_samples_have_the_name_of_what_they_are(name: str, context: str, said: str) -> None:
    series = latency(30, name=name, context=context)
    answer = answer_of(built(made.run([made.step(0, [series], budget_ns=50_000, load="sched")])))
    (longer,) = [one for one in answer.actions if one.text == "Measure longer"]
    assert f" {said} above 50 us in " in text(answer.sure)
    assert longer.gain == f"shows or excludes rare late {said}"
    shown = answer_of(built(made.run([made.step(0, [series], load="sched")])))
    assert f"{said} above the maximum" in text(shown.sure)


@pytest.mark.parametrize(("interval_ns", "said"), [(1_000_000, "wake-ups"), (0, "samples")])
def test_an_operation_has_samples(interval_ns: int, said: str) -> None:
    series = latency(30, interval_ns=interval_ns)
    (verdict,) = built(made.run([made.step(0, [series], budget_ns=50_000)]))["verdicts"]
    assert f" {said}" in verdict["evidence"]


def test_without_real_time_priority_the_remedy_is_an_action_alone() -> None:
    step = made.step(0, [latency(30, policy="other", priority=0)], budget_ns=50_000)
    answer = answer_of(built(made.run([step])))
    assert "measured without" in text(answer.sure)
    assert "rtgauge check" not in text(answer.sure)
    assert answer.actions[0].gain == "shows the latency of a real-time task"


@pytest.mark.parametrize("older", [False, True])
def test_a_kernel_that_can_preempt_more_is_booted_by_a_command(older: bool) -> None:
    command = (
        "echo 'GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT preempt=full\"' "
        ">> /etc/default/grub.d/rtgauge.cfg && update-grub && reboot"
    )
    kernel = {"check": "preemption", "found": "none", "level": "error", "why": "it waits"}
    kernel["remedy"] = "as a first step, boot with preempt=full; then boot another"
    kernel |= {} if older else {"command": command}
    step = made.step(0, [latency(100)], budget_ns=50_000, load="sched")
    first = answer_of(built(made.run([step], findings=[kernel]))).actions[0]
    assert first.text == (
        "As a first step, boot with preempt=full; then boot another. Then measure again"
        + ("" if older else " (the command: as root on the target, with GRUB)")
    )
    assert first.command == ("" if older else command)
    assert first.again.startswith("rtgauge run timer")


def test_chapters_without_any_step_are_named_in_place_of_their_steps() -> None:
    document = built(timers(10, 18))
    first = document["steps"][0]
    places = [("threads", name) for name in "abcd"] + [("mutexes", name) for name in "efg"]
    document["steps"] = [first] + [
        {**first, "step": at, "measurement": name, "chapter": chapter, "state": state}
        for at, (chapter, name) in enumerate(places, 1)
        for state in ["complete" if name == "f" else "skipped"]
    ]
    said = plain(answer_of(document).missing)
    assert said == "Not measured: 6 of 8 steps (all 4 steps of threads, e and g)."


def test_an_interrupted_response_says_how_many_events_it_lacks() -> None:
    series = latency(20, 1000, name="response")
    series.gaps = ((100, 3),)
    step = made.step(0, [series], budget_ns=150_000, state="interrupted")
    step.header.parameters["timeout"] = stream.Parameter(None, "5ms")  # type: ignore[union-attr,index]
    step.header.parameters["samples"] = stream.Parameter("1500", "1500")  # type: ignore[union-attr,index]
    said = plain(answer_of(built(made.run([step], state="interrupted"))).scope)
    assert said.endswith(
        "3 of 1 003 events had no answer. The run ended before the other 497 of 1 500."
    )


def test_a_run_that_was_interrupted_is_run_again_first() -> None:
    first = answer_of(built(_interrupted())).actions[0]
    assert first.text == "Run it again, longer"
    assert shlex.split(first.command)[:3] == ["rtgauge", "run", "timer"]
    document = built(_interrupted())
    document["plan"]["name"] = "evaluate"
    document["target"] = "lab:x86_64-rt"
    first = answer_of(document).actions[0]
    assert first.text == "Resume the evaluation"
    words = ["rtgauge", "evaluate", "--target", "lab:x86_64-rt", "--resume", document["id"][:13]]
    assert shlex.split(first.command) == words
    document["state"] = "running"
    assert answer_of(document).actions[0].text != "Resume the evaluation"


def test_no_longer_run_is_proposed_for_a_system_that_is_not_fit() -> None:
    answer = answer_of(built(timers(100, 2100)))
    assert answer.state is State.UNFIT and "3 h needed" in text(answer.sure)
    assert not answer.sure_command
    assert "Measure longer" not in [action.text for action in answer.actions]


def test_the_limit_of_a_run_that_stops_is_explained() -> None:
    run = built(made.run([made.step(0, [latency(67)], load="sched")], findings=[]))
    run["steps"][0]["parameters"] |= {"stop-above": "0", "for": "10s"}
    answer = answer_of(run)
    hint = "stops at the next wake-up later than 60.0 us, nine tenths of the maximum"
    assert plain(answer.cause_hint) == hint
    (gain,) = [one.gain for one in answer.actions if one.text == "Find the cause"]
    assert plain(gain) == hint
    alone = answer_section(dataclasses.replace(answer, actions=()), None).blocks[0]
    assert f"This command {hint}:" in plain(repr(alone)).replace("\\u202f", " ")


@pytest.mark.parametrize("mode", ["counted", "plain"])
def test_the_answer_of_an_emulated_board_names_it(mode: str) -> None:
    run = built(timers(10, 18))
    run["environment"]["lab"] = {"mode": mode, "meaning": MODES[mode].meaning}
    answer = answer_of(run)
    assert answer.board == f"Emulated board, {mode} mode: {MODES[mode].meaning}."
    box = answer_section(answer, None).blocks[0]
    assert isinstance(box, Callout) and answer.board in repr(box.blocks[0])
    assert len({one.meaning for one in MODES.values()}) == len(MODES)


def test_an_emulated_board_leads_to_the_board_itself() -> None:
    run = built(timers(10, 18, budget_ns=1_000_000))
    assert not any("board" in action.text for action in answer_of(run).actions)
    run["environment"]["lab"] = {"mode": "counted", "meaning": ""}
    run["target"] = "lab:x86_64-rt"
    texts = [action.text for action in answer_of(run).actions]
    at = texts.index("Measure on the board itself, long enough for a verdict")
    assert texts[at + 1] == "Measure longer"
    command = answer_of(run).actions[at].command
    assert "--target ssh://root@board --interval 1ms --load sched --budget 1ms" in command
    assert "--for 3h" in command
    run = built(timers(10, 18))
    run["environment"]["lab"] = {"mode": "counted", "meaning": ""}
    run["target"] = "lab:x86_64-rt"
    run["plan"]["name"] = "evaluate"
    commands = {action.text: action.command for action in answer_of(run).actions}
    assert commands["Measure on the board itself"] == "rtgauge evaluate --target ssh://root@board"


def test_a_board_and_its_log_host_are_one_command() -> None:
    steps = [
        made.step(0, [], "response", parameters={"line": "gpio:0:1"}, load="sched"),
        made.step(1, [latency(67, 1000, name="response")], "log-host",
                  parameters={"samples": "500", "answered-by": "user", "line": "gpio:1:2"},
                  budget_ns=150_000),
    ]  # fmt: skip
    document = built(made.run(steps))
    document["plan"]["steps"] = [
        {"parameters": {}, "log_host": "ssh://b", "log_line": "gpio:1:2", "log_set": "cpu=1"},
        {"parameters": {"answered-by": "user"}, "log_host": "ssh://b"},
    ]
    wanted = {
        "--line": "gpio:0:1", "--samples": "500", "--log-host": "ssh://b", "--load": "sched",
        "--log-line": "gpio:1:2", "--log-set": "cpu=1", "--budget": "150us",
    }  # fmt: skip
    for step in document["steps"]:
        words = shlex.split(step_command(document, step, {}))
        assert words[:3] == ["rtgauge", "run", "response"]
        given = dict(zip(words[3::2], words[4::2], strict=True))
        assert {name: given.get(name) for name in wanted} == wanted
    longer = shlex.split(step_command(document, document["steps"][1], {"for": "3h"}))
    assert "--samples" not in longer and "3h" in longer


@pytest.mark.parametrize("pair", [True, False])
def test_the_lines_of_an_emulated_board_are_not_those_of_the_board(pair: bool) -> None:
    line = {"line": "gpio:rtgauge-doorbell:1:2"}
    last = {"samples": "500", "answered-by": "user"}
    steps = [
        made.step(0, [latency(67, 1000)], "response" if pair else "timer", parameters=line),
        made.step(1, [latency(67, 1000, name="response")], "log-host", parameters=last),
    ]
    run = built(made.run(steps if pair else steps[:1]))
    run["target"], run["environment"]["lab"] = "lab:x86_64-rt,lines=outside", {"mode": "plain"}
    run["plan"]["steps"] = [{"parameters": {}}, {"parameters": last}][: 2 if pair else 1]
    run["environment"]["lab"]["meaning"] = ""
    actions = list(answer_of(run).actions)
    (board,) = [one for one in actions if one.text == "Measure on the board itself"]
    assert ("doorbell" in board.command) is (not pair)
    lines = "--log-host ssh://root@logger --log-line gpio:gpiochip0:22:23:24"
    assert (lines in board.command and "--line gpio:gpiochip0:17:27" in board.command) is pair
    assert ("root@logger and the lines" in board.gain) is pair
    rest = [one.command for one in actions if one is not board and "response" in one.command]
    assert all("gpio:rtgauge-doorbell:1:2" in command for command in rest) and bool(rest) is pair


def test_the_load_is_named_as_the_cause() -> None:
    answer = answer_of(built(timers(10, 300)))
    assert "The maximum depends on the load: while idle it is 10.0 us" in text(answer.cause)


@pytest.mark.parametrize(
    ("parameters", "seen", "command"),
    [
        ({"stop-above": "0"}, False, "--stop-above 60us"),
        ({"stop-above": "0", "dither": "yes"}, True, "--stop-above 60us"),
        ({"stop-above": "0", "dither": "no"}, True, "--dither yes"),
        ({}, False, ""),
    ],
)
def test_the_command_that_finds_the_cause(
    parameters: dict[str, str], seen: bool, command: str
) -> None:
    run = built(made.run([made.step(0, [latency(67)])]))
    run["steps"][0]["parameters"] |= parameters
    run["steps"][0]["parameters"].setdefault("for", "10s")
    if not parameters:
        run["steps"][0]["parameters"].pop("stop-above", None)
    if seen:
        run["steps"][0]["observations"] = [
            {"rule": "second line", "text": "Recurs.", "series": [0], "reach": 60_000}
        ]
    told = answer_of(run).cause_command
    assert command in told and bool(command) is bool(told)


@pytest.mark.parametrize(("reach_us", "named"), [(60, True), (20, False)])
def test_a_periodic_disturbance_is_the_cause_if_it_reaches_the_maximum(
    reach_us: int, named: bool
) -> None:
    run = built(made.run([made.step(0, [latency(67)])]))
    said = {"rule": "second line", "text": "Samples recur every 7.30 ms.", "series": [0]}
    run["steps"][0]["observations"] = [said | {"reach": reach_us * 1000}]
    told = text(answer_of(run).cause)
    assert told.startswith("Likely cause: something periodic. Samples recur") is named


def test_actions_are_three_at_most_and_commands_are_whole() -> None:
    environment = made.ENVIRONMENT | {"realtime": "voluntary"}
    answer = answer_of(built(made.run(_steps(1, 4, 6), environment=environment)))
    assert len(answer.actions) == 3
    for command in filter(None, (*(one.command for one in answer.actions), answer.sure_command)):
        assert shlex.split(command)[0] == "rtgauge"
        assert "\n" not in command


def test_the_section_begins_with_the_answer() -> None:
    answer = answer_of(built(timers(10, 18)))
    section = answer_section(answer, None)
    box = section.blocks[0]
    assert isinstance(box, Callout)
    assert (box.tone, box.title) == ("pass", answer.title)
    assert re.fullmatch(r"[a-z]+", section.anchor)


def commands_in(blocks: tuple[Block, ...]) -> list[str]:
    found = []
    for block in blocks:
        if isinstance(block, Command):
            found.append(block.text)
        elif isinstance(block, Callout | Section):
            found += commands_in(block.blocks)
        elif isinstance(block, Bullets):
            found += [one for _, below in block.items for one in commands_in(below)]
    return found


def test_each_command_is_said_once() -> None:
    answer = answer_of(built(timers(10, 18)))
    assert answer.sure_command in [action.command for action in answer.actions]
    assert commands_in((answer_section(answer, None),)).count(answer.sure_command) == 1
    alone = dataclasses.replace(answer, actions=())
    box = answer_section(alone, None).blocks[0]
    assert commands_in((box,)).count(answer.sure_command) == 1


def test_what_to_do_next_has_a_heading() -> None:
    blocks = answer_section(answer_of(built(timers(10, 18))), None).blocks
    at = blocks.index(Heading("What to do next"))
    assert isinstance(blocks[at + 1], Bullets)


@pytest.mark.parametrize(
    ("run", "scope"),
    [
        (timers(10, 18), "Only timer was measured."),
        (
            made.run([made.step(0, [latency(10)])]),
            "Only timer was measured, and only while idle.",
        ),
        (
            made.run([made.step(0, [latency(10)], load="sched")]),
            "Only timer was measured, and only under load.",
        ),
        (made.run(_steps(1, 0, 2)), ""),
    ],
)
def test_what_was_and_what_was_not_measured(run: made.FakeRun, scope: str) -> None:
    assert answer_of(built(run)).scope == scope


_PAIR = {"parameters": {"answered-by": "1"}}


@pytest.mark.parametrize(
    "steps",
    [[1, 2], "ab", {"a": 1}, [{}, {"parameters": 5}], [1, _PAIR], [{"log_line": {}}, _PAIR]],
)
def test_a_plan_of_another_form_does_not_hide_the_answer(steps: Any) -> None:
    run = made.run([made.step(at, [latency(10)]) for at in range(2)], plan={"steps": steps})
    assert answer_of(built(run)).actions[-1].command


def test_the_limit_of_a_latency_of_seconds_is_a_duration() -> None:
    step = made.step(0, [latency(1_400_000)], load="sched")
    assert step.header is not None
    given = {"stop-above": stream.Parameter("0", "0"), "for": stream.Parameter("60s", "60s")}
    step.header = dataclasses.replace(step.header, parameters=given)
    words = answer_of(built(made.run([step], findings=[]))).cause_command.split()
    assert parse_duration(words[words.index("--stop-above") + 1]) == 1_300_000_000


def test_what_finds_the_cause_comes_before_a_longer_run_if_the_system_is_not_fit() -> None:
    step = made.step(0, [latency(200)], budget_ns=150_000, load="sched")
    assert step.header is not None
    given = {"stop-above": stream.Parameter("0", "0"), "for": stream.Parameter("60s", "60s")}
    step.header = dataclasses.replace(step.header, parameters=given)
    actions = answer_of(built(made.run([step], findings=[]))).actions
    assert [action.text for action in actions] == ["Find the cause", "Measure the idle system"]
    assert "--stop-above 180us" in actions[0].command
    assert "--load" not in actions[1].command


def test_the_figures_of_the_fake_target_are_called_made_up() -> None:
    run = built(made.run([made.step(0, [latency(67)])]))
    assert "made up" not in answer_of(run).board
    run["target"] = "fake:realtime"
    assert "made up" in answer_of(run).board


def test_an_interrupted_run_has_one_command_that_repeats_it() -> None:
    step = made.step(0, [latency(67, 60_000)], budget_ns=150_000)
    step.document["state"] = "interrupted"
    answer = answer_of(built(made.run([step], findings=[], state="interrupted")))
    assert answer.sure_command
    repeats = [one.command for one in answer.actions if "--load" not in one.command]
    assert repeats == [answer.sure_command]


def test_the_evidence_names_the_series_of_several() -> None:
    series = [latency(top, 10_000, cpu=cpu) for cpu, top in enumerate((67, 200))]
    answer = answer_of(built(made.run([made.step(0, series, budget_ns=150_000)])))
    assert text(answer.sure).startswith("CPU 1: 150 us exceeded once")


def test_the_clock_of_an_emulated_board_is_not_the_time_of_day() -> None:
    run = built(made.run([made.step(0, [latency(67)])]))
    run["series"][0]["max_at"] = {"index": 7, "time_s": 5.0, "clock": "2026-01-01T00:00:06.449Z"}
    assert text(answer_of(run).worst).endswith("00:00:06.449 UTC)")
    run["environment"]["lab"] = {"mode": "counted", "meaning": ""}
    assert text(answer_of(run).worst).endswith("5 s into the step)")


def test_a_remedy_that_ends_in_a_command_has_it_apart() -> None:
    remedy = "build and load the kernel module: rtgauge module load"
    steps = _steps(0, 1, 2)
    steps[-1].document |= {"remedy": remedy, "command": "rtgauge module load"}
    run = made.run(steps)
    run.document["target"] = "ssh://root@board"
    document = built(run)
    command = "rtgauge module load --target ssh://root@board"
    assert document["steps"][-1]["command"] == command
    assert document["steps"][-1]["remedy"] == f"build and load the kernel module: {command}"
    actions = [one for one in answer_of(document).actions if one.command == command]
    assert [one.text for one in actions] == ["Build and load the kernel module"]


def test_after_an_exceeded_budget_the_remedies_of_the_latency_come_first() -> None:
    steps = _steps(0, 1, 2)
    steps[-1].document["remedy"] = "build and load the kernel module: rtgauge module load"
    slow = made.step(0, [latency(200)], budget_ns=150_000)
    environment = made.ENVIRONMENT | {"realtime": "voluntary"}
    run = made.run([slow, *steps[1:]], environment=environment)
    texts = [one.text for one in answer_of(built(run)).actions]
    assert "PREEMPT_RT" in texts[0]
    assert any(text.startswith("Build and load the kernel module") for text in texts[1:])


# --- the picture ---------------------------------------------------------------------------------


def drawn(run: Any) -> ElementTree.Element:
    figure = answer_figure(model.analyse([run]), 0)
    assert figure is not None
    return ElementTree.fromstring(figure.svg)


def words(svg: ElementTree.Element) -> list[str]:
    return [plain("".join(one.itertext())) for one in svg.iter() if one.tag.endswith("text")]


def test_the_picture_has_both_loads_the_maximum_and_the_budget() -> None:
    said = words(drawn(timers(10, 18, budget_ns=150_000)))
    assert {"idle", "load sched", "max 18.0 us", "budget 150 us"} <= set(said)


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


def test_the_maximum_is_named_above_the_outline() -> None:
    def height(near: int) -> float:
        series = latency(100)
        series.value[:near] = 90_000  # bins below the words
        svg = drawn(made.run([made.step(0, [series])], findings=[]))
        (found,) = [one for one in svg.iter() if plain("".join(one.itertext())) == "max 100 us"
                    and one.tag.endswith("text")]  # fmt: skip
        return float(found.get("y", ""))

    assert height(4000) < height(40) < height(0)


def test_what_changes_the_system_is_followed_by_a_measurement() -> None:
    """As a command of its own, which is not that of an action before it."""
    kernel = {"check": "preemption", "found": "voluntary", "level": "error", "why": "it waits"}
    kernel["remedy"] = (
        "as a first step, boot with preempt=full; then apt install image-rt, and boot it"
    )
    server = {"check": "fair-server", "found": "up to 50 ms", "level": "error", "why": "others run"}
    kernel["command"] = "apt install image-rt"
    server["remedy"] = server["command"] = "for f in /sys/a*/runtime; do echo 0 > $f; done"
    step = made.step(0, [latency(100)], budget_ns=50_000, load="sched")
    document = built(made.run([step], findings=[kernel, server]))
    first, second = answer_of(document).actions[:2]
    assert first.command == "apt install image-rt" and first.again.startswith("rtgauge run timer")
    assert second.command == server["remedy"] and not second.again
    assert second.text == "Correct fair-server (now: up to 50 ms)"
    assert second.gain == (
        "others run. As root on the target, until its next boot, then measure again"
    )
    document["target"] = "lab:x86_64-stock"
    document["environment"]["lab"] = {"mode": "counted"}
    assert "--target lab:x86_64-rt" in answer_of(document).actions[0].command


def test_what_finds_the_cause_of_a_late_answer_is_a_command() -> None:
    step = made.step(0, [latency(20, 1000, name="response")], budget_ns=150_000)
    step.header.parameters["timeout"] = stream.Parameter(None, "5ms")  # type: ignore[union-attr,index]
    answer = answer_of(built(made.run([step], findings=[])))
    assert answer.cause_command == "rtgauge run timer --explain"
    assert "this system" in answer.cause_hint


def test_a_run_under_load_is_long_enough_for_the_verdict() -> None:
    step = made.step(0, [latency(20, 1000)], budget_ns=150_000)
    step.header.parameters["for"] = stream.Parameter("1s", "1s")  # type: ignore[union-attr,index]
    actions = answer_of(built(made.run([step], findings=[]))).actions
    (loaded,) = [one.command for one in actions if one.text == "Measure under load"]
    assert "--for 3h" in loaded


def test_a_budget_far_away_is_in_the_caption() -> None:
    run: Any = timers(10, 18, budget_ns=10_000_000)
    figure = answer_figure(model.analyse([run]), 0)
    assert figure is not None
    assert "The budget, 10 000 us, is far beyond the axis." in plain(figure.caption)
    assert "Idle: 10 000 samples, max 10.0 us;" in plain(figure.text)


@pytest.mark.parametrize("value", [3000, 0])
def test_equal_samples_are_a_line(value: int) -> None:
    series = made.FakeSeries(made.info(), np.arange(999), np.full(999, value, np.int32))
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


@pytest.mark.parametrize("with_timer", [False, True])
def test_latency_is_missing_only_from_an_evaluation_that_asks_for_it(
    rtgauge: Callable[..., Result], with_timer: bool
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


def test_an_evaluation_is_measured_again_with_its_options(
    rtgauge: Callable[..., Result],
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


def test_the_options_of_an_evaluation_are_only_those_of_its_command(
    rtgauge: Callable[..., Result],
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
