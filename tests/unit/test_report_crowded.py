# SPDX-License-Identifier: Apache-2.0
"""Steps without a load, on a machine that other programs kept busy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import report_runs as made
from rtgauge import stream
from rtgauge.report.document.answer import answer_of, whole_of
from rtgauge.report.document.conclusion import conclusion
from rtgauge.report.document.steps import step_facts
from rtgauge.report.document.summary import short
from rtgauge.report.document.trended import series_name
from rtgauge.report.document.tuned import quantity_text
from rtgauge.report.render import markdown, terminal
from rtgauge.report.results import background, model
from rtgauge.report.sets import compare, tuned
from rtgauge.report.sets.trend import Trended, trend, validate

SECOND = 10**9
BUSY = "22.34 18.21 9.00 7/564 17357"


def facts(average: str) -> dict[str, Any]:
    return {"/proc/loadavg": average, "/sys/devices/system/cpu/online": "0-1"}


def measured(average: str, **changes: Any) -> Any:
    return made.run(
        [made.step(0, made.timer_series(1, 2000), facts=facts(average), **changes)], findings=[]
    )


@pytest.mark.parametrize(
    ("average", "tasks"),
    [
        (BUSY, 6),
        ("2.01 0.00 0.00 4/100 1", 3),
        ("2.00 0.00 0.00 4/100 1", 0),  # a few tasks at one moment
        ("22.3 0.00 0.00 3/100 1", 0),  # an earlier step had a load
        ("", 0),
        ("busy", 0),
    ],
)
def test_other_programs_need_both_a_count_and_an_average(average: str, tasks: int) -> None:
    found = background.crowd(facts(average))
    assert found["ready"] == tasks if found is not None else not tasks
    assert not background.crowd({"/proc/loadavg": average})


def test_a_crowded_machine_is_not_called_idle() -> None:
    """ "timer, idle" and "only while idle" were claimed with a load average of 22 on 2 CPUs."""
    analysis = model.analyse([measured(BUSY)])
    model.validate(analysis.model)
    (run,) = analysis.model["runs"]
    answer = answer_of(run)
    evidence = (
        "6 tasks of other programs were ready to run on 2 CPUs at its start, with a load average "
        "of 22.3"
    )
    assert run["steps"][0]["load"]["others"] == {"ready": 6, "cpus": 2, "load_average": 22.34}
    assert answer.scope == (
        f"Only timer was measured, and only with other programs. Not idle: timer (step 1): "
        f"{evidence}."
    )
    assert "other-programs" in answer.audit
    actions = [one.text for one in answer.actions]
    assert "Stop the other programs on the target, and measure again" in actions
    assert "Measure under load" not in actions
    for text in (terminal.text(analysis.model), markdown.render(short(analysis))):
        words = " ".join(text.split())
        assert evidence in words and "with other programs" in words
        assert (
            "timer, idle" not in words and "Bounds, idle" not in words and "while idle" not in words
        )


def activity(*busy: tuple[float, float]) -> list[stream.Ambience]:
    """Readings of 2 CPUs: for each the time (s) since the reading before, and the CPU time (s) that
    was used."""
    at, quiet = 0, (None, None)
    found = [stream.Ambience(0, 0, (0, 1), quiet, None, (0, 0), None, {}, (0, 0))]
    for span_s, used_s in busy:
        span, used = round(span_s * SECOND), round(used_s * SECOND)
        idle = (span - min(used, span), span - max(used - span, 0))
        at += span
        found.append(stream.Ambience(0, at, (0, 1), quiet, None, (0, 0), None, {}, idle))
    return found


@pytest.mark.parametrize(
    ("busy", "own_s", "found"),
    [
        ([(1, 1.5)] * 10, 0, (1.5, 10)),
        ([(1, 1.5)] * 10, 9, (0.6, 10)),
        ([(1, 1.5)] * 10, 11, None),  # the measurement itself used most of it
        ([(1, 0.4)] * 10, 0, None),
        ([(1, 2)] * 4 + [(1, 0)] * 6, 0, None),
        ([(1, 2)] * 5 + [(1, 0)] * 5, 0, (2, 5)),
        # an upgrade of the system in a run of an hour
        ([(10, 0)] * 300 + [(10, 12)] * 3, 0, (1.2, 30)),
        ([(10, 0)] * 300 + [(10, 12)] * 2, 0, None),
        ([(0.5, 1)], 0, None),  # too short for steps of 10 ms
        ([], 1, None),
    ],
)
def test_other_programs_by_the_time_that_they_used(
    busy: list[tuple[float, float]], own_s: int, found: tuple[float, float] | None
) -> None:
    watched = background.Watched().step(activity(*busy))
    others = background.used(watched, own_s * SECOND)
    if found is None:
        assert others is None
    else:
        assert others == {"cpus": 2, "used": pytest.approx(found[0]), "time_s": found[1]}


def test_many_cpus_are_busy_if_a_tenth_of_them_is() -> None:
    watched = background.Watched(busy=[(SECOND, 128, 13 * SECOND)])
    assert background.used(watched, 0) == {"cpus": 128, "used": 13.0, "time_s": 1.0}
    assert not background.used(background.Watched(busy=[(SECOND, 128, 12 * SECOND)]), 0)


@pytest.mark.parametrize(("own_s", "load"), [(0, "idle"), (19, "idle"), (0, "sched")])
def test_programs_that_started_during_the_step_are_told(own_s: int, load: str) -> None:
    """Only the start of a step was looked at."""
    step = made.step(0, made.timer_series(1, 2000), facts=facts("0.10 0.10 0.10 1/9 1"), load=load)
    step.ambience = activity(*[(1, 0), (1, 2)] * 10)
    step.trailer = stream.Trailer(9, "complete", "", "", 20 * SECOND, 9, (), own_s * SECOND)
    (run,) = model.build([made.run([step], findings=[])])["runs"]  # type: ignore[list-item]
    assert run["steps"][0]["load"]["cpu_share"] == 0.5
    told = [one["found"].replace("\u202f", " ") for one in run["findings"]]
    others = "timer (step 1): for 10 s, other programs used the time of 2 of 2 CPUs"
    assert told == ([others] if load == "idle" and not own_s else [])


def test_the_finding_quotes_the_worst_step() -> None:
    """It quoted the first one."""
    averages = ("2.10 0 0 4/100 1", BUSY, "9.00 0 0 9/100 1")
    steps = [
        made.step(number, made.timer_series(1, 2000), facts=facts(average))
        for number, average in enumerate(averages)
    ]
    stored: Any = made.run(steps, findings=[])
    (run,) = model.build([stored])["runs"]
    (finding,) = run["findings"]
    assert finding["found"].startswith("timer (step 2): 6 tasks of other programs")
    assert finding["found"].endswith("a load average of 22.3, and in 2 other steps")


def test_a_resumed_evaluation_numbers_its_own_steps() -> None:
    """It quoted the finding of one of its runs, with the step numbers of that run."""
    planned = [{"measurement": "timer", "interval": each} for each in ("1ms", "2ms", "3ms")]

    def part(first: int, averages: list[str], **more: Any) -> Any:
        steps = [
            made.step(number, made.timer_series(1, 2000), facts=facts(average))
            for number, average in enumerate(averages)
        ]
        plan = {"name": "evaluate", "steps": planned[first:]}
        run: Any = made.run(steps, plan=plan, study="s", findings=[], **more)
        return model.build([run])["runs"][0]

    first = part(0, [BUSY], state="interrupted")
    second = part(1, ["0.1 0 0 1/100 1", "44.0 0 0 9/100 1"], id="2")
    whole = whole_of([first, {**second, "started": "2030-01-01T00:00:00Z"}])
    assert whole is not None
    scope = answer_of(whole).scope
    assert "Not idle: timer (step 3): 8 tasks of" in scope
    assert scope.endswith("a load average of 44, and in 1 other step.")


def test_the_time_that_was_used_counts_more_than_the_start() -> None:
    """The load average at the start is mostly that of the step before."""
    step = made.step(0, made.timer_series(1, 2000), facts=facts(BUSY))
    step.ambience = activity(*[(1, 0)] * 10)
    step.trailer = stream.Trailer(9, "complete", "", "", 10 * SECOND, 9, (), 0)
    (run,) = model.build([made.run([step], findings=[])])["runs"]  # type: ignore[list-item]
    assert not run["findings"] and "others" not in run["steps"][0]["load"]


@pytest.mark.parametrize("context", ["user", "irq"])
def test_work_in_the_kernel_is_no_other_program(context: str) -> None:
    """irq-sustained fills a CPU with interrupts, which are not in the CPU time of the agent."""
    values = made.FakeSeries(made.info(context=context), np.arange(99), np.ones(99, np.int32))
    step = made.step(0, [values], facts=facts("0.10 0.10 0.10 1/9 1"))
    step.ambience = activity(*[(1, 1)] * 10)
    step.trailer = stream.Trailer(9, "complete", "", "", 10 * SECOND, 9, (), 0)
    (run,) = model.build([made.run([step], findings=[])])["runs"]  # type: ignore[list-item]
    assert bool(run["findings"]) is (context == "user")
    assert run["steps"][0]["load"]["cpu_share"] == 0.5


def test_without_its_end_the_use_of_a_step_is_not_known() -> None:
    step = made.step(0, made.timer_series(1, 2000), facts=facts("0.10 0.10 0.10 1/9 1"))
    step.ambience = activity(*[(1, 2)] * 10)
    (run,) = model.build([made.run([step], findings=[])])["runs"]  # type: ignore[list-item]
    assert not run["findings"] and run["steps"][0]["load"]["cpu_share"] == 1.0


AVERAGES = [(BUSY, BUSY), ("0.1 0 0 1/100 1", BUSY)]


def analysed(averages: tuple[str, str]) -> model.Analysis:
    runs: Any = [measured(average) for average in averages]
    for number, run in enumerate(runs):
        run.id = run.document["id"] = f"{number}"
        run.document["target"] = f"lab:{number}"
    return model.analyse(runs)


@pytest.mark.parametrize("averages", AVERAGES)
def test_a_comparison_does_not_call_a_crowded_machine_idle(averages: tuple[str, str]) -> None:
    """Its conclusion began with "While idle"."""
    analysis = analysed(averages)
    found = compare.compare(analysis, compare.sets_by_target(analysis.model["runs"])).document
    compare.validate(found)
    assert conclusion(found).startswith("With other programs, 99")
    (quantity,) = found["quantities"]
    assert compare.where(quantity).endswith(", with other programs")
    # A trend searches the other methods of a quantity by its load.
    assert quantity["crowded"] and quantity["load"] == {"name": "idle"}


@pytest.mark.parametrize("averages", AVERAGES)
def test_a_trend_does_not_call_a_crowded_machine_idle(averages: tuple[str, str]) -> None:
    document = trend(analysed(averages), [Trended("nightly", (0, 1), (1, 2))])
    validate(document)
    for one in document["series"]:
        assert series_name(document, one).startswith("timer: latency (µs), with other programs,")


@pytest.mark.parametrize("averages", AVERAGES)
def test_a_tune_does_not_call_a_crowded_machine_idle(averages: tuple[str, str]) -> None:
    quantity = tuned._values(analysed(averages)).quantity
    assert quantity_text({"quantity": quantity}).endswith(", with other programs")


def test_late_wake_ups_on_a_crowded_machine_have_its_remedy() -> None:
    """ "Measure the idle system" was the advice: the command of the crowded step itself."""
    late: Any = made.step(0, made.timer_series(1, 2000), facts=facts(BUSY), budget_ns=1)
    loaded = made.step(1, made.timer_series(1, 2000), load="sched", budget_ns=1)
    for steps in ([late], [late, loaded]):
        both: Any = made.run(steps, findings=[])
        (run,) = model.build([both])["runs"]
        actions = [one.text for one in answer_of(run).actions]
        assert actions[0] == "Stop the other programs on the target, and measure again"
        assert actions[1:2] != ["Measure the idle system"]


def test_a_failed_step_does_not_hide_other_programs() -> None:
    """The answer gives the missing steps in place of the scope, which alone had this sentence."""
    steps = [
        made.step(0, made.timer_series(1, 2000), facts=facts(BUSY)),
        made.step(1, [], "wakeup", state="failed", reason="no room"),
    ]
    both: Any = made.run(steps, findings=[])
    (run,) = model.build([both])["runs"]
    missing = answer_of(run).missing
    assert missing.startswith("Not measured: 1 of 2 steps (wakeup): no room. Not idle: timer ")


def test_a_fit_state_does_not_claim_an_idle_machine() -> None:
    (run,) = model.build([measured(BUSY, budget_ns=10**9, rate_per_hour=1e7)])["runs"]
    title = answer_of(run).title
    assert title.startswith("Fit for ") and title.endswith(", with other programs")


@pytest.mark.parametrize(
    ("average", "load", "scope"),
    [
        ("0.10 0.10 0.10 1/100 1", "idle", "Only timer was measured, and only while idle."),
        (BUSY, "sched", "Only timer was measured, and only under load."),
    ],
)
def test_others_are_told_only_from_no_load(average: str, load: str, scope: str) -> None:
    (run,) = model.build([measured(average, load=load)])["runs"]
    assert answer_of(run).scope == scope and "others" not in run["steps"][0]["load"]


def test_the_facts_of_a_step_name_the_load_as_its_heading_does() -> None:
    """The heading said "with other programs", and "Load: idle" followed."""
    (run,) = model.build([measured(BUSY)])["runs"]
    (step,) = run["steps"]
    assert step_facts(step, {})[0].text == "with other programs"
    del step["load"]["others"]
    assert step_facts(step, {})[0].text == "idle"


def test_the_load_is_no_cause_of_a_maximum_without_it() -> None:
    """The advice was to measure the idle system, to show whether the load is the cause."""
    late = made.timer_series(1, 2000)
    late[0].value[7] = 19_181_000
    steps = [
        made.step(0, late, facts=facts(BUSY)),
        made.step(1, made.timer_series(1, 2000, 2), facts=facts(BUSY), load="sched"),
    ]
    both: Any = made.run(steps, findings=[])
    (run,) = model.build([both])["runs"]
    actions = [one.text for one in answer_of(run).actions]
    assert "Stop the other programs on the target, and measure again" in actions
    assert "Measure the idle system" not in actions
