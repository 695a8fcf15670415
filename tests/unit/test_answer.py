# SPDX-License-Identifier: Apache-2.0
"""The answer of runs of every kind: state, maximum, certainty, cause."""

from __future__ import annotations

import dataclasses
import math
import re
import shlex
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import report_runs as made
from answers import (
    answered,
    budgeted,
    built,
    held_up,
    idle_and_loaded,
    interrupted_run,
    latency,
    mixed_steps,
    text,
    timers,
)
from rtgauge import stream
from rtgauge.lab.machine import MODES
from rtgauge.report.document.answer import State, answer_of, answer_section, observed_steps
from rtgauge.report.document.blocks import Bullets, Callout, Heading
from rtgauge.report.document.cycles import CYCLES_NS, shortest
from rtgauge.report.results import labels, model
from rtgauge.report.results.points import negative_points
from rtgauge.text import plain
from rtgauge.units import parse_duration


@pytest.mark.slow
def test_fit_for_a_budget() -> None:
    answer = budgeted(67, 200_000, 100.0)  # 200 s show less than 54 an hour
    assert (answer.state, answer.tone) == (State.FIT, "pass")
    assert (
        plain(answer.title)
        == "Fit for the budget of 150 us (allowed: fewer than 100 episodes an hour), while idle"
    )
    assert text(answer.worst) == "Observed maximum 67.0 us (CPU 0, idle, 1 min 40 s into the step)"
    assert "150 us never exceeded in 200 000 wake-ups" in text(answer.sure)
    assert not answer.sure_command
    assert not answer.cycles


def test_series_without_due_times_are_named_as_not_counted() -> None:
    """``nanosleep`` sleeps for the interval, so its wake-ups have no due time."""
    counted, left = latency(92), latency(95)
    counted.info = replace(counted.info, labels={"method": "timerfd"})
    left.info = replace(left.info, series=1, interval_ns=0, labels={"method": "nanosleep"})
    worst = text(answered(made.step(0, [counted, left])).worst)
    assert worst.startswith("Observed maximum 92.0 us (CPU 0, idle, ")
    assert worst.endswith("). Series without due times are not counted: nanosleep (max 95.0 us).")
    only = answered(made.step(0, [counted])).worst
    assert "counted" not in text(only)


def test_the_maximum_of_a_run_without_due_times() -> None:
    """Maxima of different quantities are not compared."""

    def worst(*names: str) -> str:
        series = [latency(92 + place) for place in range(len(names))]
        for place, name in enumerate(names):
            info = replace(series[place].info, series=place, name=name, interval_ns=0, cpu=place)
            series[place].info = info
        answer = answered(made.step(0, series))
        assert not answer.sure
        assert bool(answer.worst) == (answer.measured == "timer")
        return text(answer.worst)

    assert worst("latency", "latency").startswith("Observed maximum 93.0 us (CPU 1, idle, ")
    assert worst("latency").endswith("). The samples have no due times.")
    assert not worst("wake", "send")


@pytest.mark.slow
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


def test_other_loads_are_named_with_the_verdict() -> None:
    def sure(idle_us: int) -> str:
        return text(answer_of(built(timers(idle_us, 100, budget_ns=50_000))).sure)

    assert sure(20).endswith(" Not exceeded: idle.")
    assert sure(60).endswith(" Also exceeded: idle.")


def test_the_series_with_the_most_exceedances_is_cited() -> None:
    """The one with the highest maximum was cited, although another one was late more often."""
    late = np.full(10_000, 5000, np.int32)
    late[1000::1000] = 190_000
    often = made.sampled(late)
    once = latency(300, cpu=1)
    run = built(made.run([made.step(0, [often, once], budget_ns=150_000)], findings=[]))
    assert [one["exceedances"] for one in run["verdicts"]] == [9, 1]
    said = "CPU 0: 150 us exceeded 9 times in 10 000 wake-ups"
    assert text(answer_of(run).sure).startswith(said)
    (failed, *_) = negative_points(run)
    assert plain(failed.note).startswith(said)


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
    said = text(answered(*steps).sure)
    assert "Also exceeded: load io, load disk, load net and 2 more." in said
    assert said.endswith("Not exceeded: load memory and load cpu.")


def test_what_the_host_may_have_caused_is_not_certain() -> None:
    document = built(made.run([made.step(0, [latency(100)], budget_ns=50_000)], findings=[]))
    for mode, certain in (("counted", True), ("plain", False)):
        document["environment"]["lab"] = {"mode": mode}
        said = text(answer_of(document).sure)
        assert said.endswith("ne exceedance is enough.")
        assert ("certain" in said) is certain


@pytest.mark.slow
def test_another_budget_is_not_compared() -> None:
    steps = [
        made.step(0, [latency(60, 200_000)], budget_ns=50_000, rate_per_hour=1000.0),
        made.step(1, [latency(100, 200_000)], budget_ns=200_000, rate_per_hour=1000.0, load="x"),
    ]
    said = text(answered(*steps).sure)
    assert "lso exceeded" not in said and "Not exceeded" not in said


def test_cycles_of_an_emulated_board_say_so() -> None:
    document = built(timers(5, 6))
    document["environment"]["lab"] = {"mode": "counted"}
    assert plain(answer_of(document).title).endswith("and longer in emulation")


@pytest.mark.slow
def test_a_maximum_far_below_the_budget_needs_no_cause() -> None:
    def cause(budget_us: int) -> str:
        step = made.step(0, [latency(67, 200_000)], budget_ns=budget_us * 1000, rate_per_hour=100.0)
        return text(answered(step).cause)

    assert cause(150) == "The data do not show what caused the maximum."
    assert not cause(1000)


def test_missed_periods_that_exceed_a_budget_are_not_called_never_exceeded() -> None:
    step = made.step(0, [held_up()], budget_ns=150_000, rate_per_hour=1000.0)
    document = built(made.run([step], findings=[]))
    assert document["verdicts"][0]["result"] == "inconclusive"
    assert "exceeded in 1 episode" in document["verdicts"][0]["evidence"]
    answer = answer_of(document)
    assert plain(answer.title).endswith("exceeded, but the run is too short to tell how often")
    assert text(answer.worst) == "Observed maximum >= 48 000 us (CPU 0, idle), in a missed period"
    assert text(answer.sure).startswith("150 us exceeded in 1 episode (48 of 10 049 periods due)")


def test_lost_samples_are_not_called_below_the_budget() -> None:
    series = latency(60)
    series.untold_losses = 50
    document = built(made.run([made.step(0, [series], budget_ns=150_000)], findings=[]))
    answer = answer_of(document)
    assert plain(answer.title).endswith("never exceeded, but 50 values are unknown")
    assert text(answer.sure).startswith("150 us never exceeded in 10 000 wake-ups over 10 s, 50 ")
    assert "0 of" not in text(answer.sure)


@pytest.mark.slow
def test_what_a_rate_allows_are_episodes() -> None:
    """One stall of 50 ms at 1 ms: 49 exceedances of a budget that allows 45 episodes an hour."""
    values = np.full(400_000, 5000, np.int32)
    index, kept, gaps = made.with_stalls(values, {200_000: 49}, made.MS)
    series = made.FakeSeries(made.info(), index, kept, gaps=gaps)
    answer = answered(made.step(0, [series], budget_ns=150_000, rate_per_hour=45.0))
    assert plain(answer.title).startswith(
        "Fit for the budget of 150 us (allowed: fewer than 45 episodes an hour)"
    )
    assert "exceeded in 1 episode (49 of 400 000 periods due)" in text(answer.sure)


def test_a_run_whose_samples_were_all_lost_has_an_answer() -> None:
    series = latency(5, 0, policy="other")
    series.untold_losses = 100
    answer = answered(made.step(0, [series], budget_ns=150_000))
    assert "measured without the real-time priority" in answer.title
    assert not answer.worst


@pytest.mark.parametrize("budget_ns", [None, 150_000])
def test_samples_of_several_series_are_given_with_both_times(budget_ns: int | None) -> None:
    """One of two CPUs took a single sample, the largest: 10 001 samples took 10 s, not 1 ms. The
    bound rests on 1 ms."""
    few = made.sampled(np.array([70_000], np.int32), 1, 1)
    step = made.step(0, [latency(60), few], budget_ns=budget_ns)
    document = built(made.run([step], findings=[]))
    assert "10 001 wake-ups" in text(answer_of(document).sure)
    assert " in 10 s, but only 1 ms of CPU 1. " in text(answer_of(document).sure)
    said = labels.headline(document["series"], ["CPU 0", "CPU 1"])
    assert plain(said) == "The maximum of 10 001 samples in 2 series over 10 s is 70.0 us (CPU 1)."


@pytest.mark.slow
@pytest.mark.parametrize("value", [5000, 7000])
def test_a_cpu_that_ends_early_limits_what_is_sure(value: int) -> None:
    """Whichever CPU had the maximum: 2 s without an exceedance bound the rate at 5400 an hour."""
    early = made.sampled(np.full(2000, value, np.int32), 1, 1)
    whole = made.sampled(np.full(60_000, 6000, np.int32))
    step = made.step(0, [whole, early], budget_ns=150_000, rate_per_hour=190.0)
    said = text(answered(step).sure)
    assert "0 of 62 000 wake-ups above 150 us in 1 min, but only 2 s of CPU 1. " in said
    assert "at most 5 400 episodes an hour. A run of 57 s without one is needed" in said


def test_a_load_with_lost_samples_is_not_said_to_keep_the_budget() -> None:
    lossy = latency(20)
    lossy.untold_losses = 50
    run = idle_and_loaded(latency(60), lossy, budget_ns=50_000)
    assert "sched" not in text(answer_of(built(run)).sure)


def test_a_load_whose_missed_periods_exceed_a_budget_did_not_keep_it() -> None:
    said = text(answer_of(built(idle_and_loaded(latency(60), held_up(), budget_ns=50_000))).sure)
    assert "Not exceeded" not in said and "Also exceeded: idle." in said


def test_no_cycle_is_supported_that_missed_periods_exceed() -> None:
    document = built(idle_and_loaded(latency(10), held_up()))
    assert document["series"][1]["max_at_least"] == document["series"][1]["corrected"]["max"]
    answer = answer_of(document)
    assert {one.state for one in answer.cycles} == {"exceeded"}
    assert answer.state is State.LATE


def test_no_cycle_is_supported_next_to_missed_periods_of_unknown_delay() -> None:
    """As with histograms alone, which do not show when the periods were due."""
    document = built(timers(10, 18))
    document["series"][1] |= {"missed": 3, "corrected": None}
    answer = answer_of(document)
    assert {one.state for one in answer.cycles} == {"exceeded", "not proven"}
    assert "periods were missed, and it is not known how late they were" in answer.title


def test_not_fit_for_a_budget() -> None:
    answer = budgeted(151, 10_000, None)
    assert (answer.state, answer.tone) == (State.UNFIT, "fail")
    assert plain(answer.title) == "Not fit: the budget of 150 us was exceeded"
    assert "exceeded once in 10 000 wake-ups" in text(answer.sure)


def test_only_the_budgets_that_were_exceeded_are_named() -> None:
    answer = answered(
        made.step(0, [latency(67)], budget_ns=50_000, load="sched"),
        made.step(1, [latency(67)], budget_ns=1_000_000, load="sched"),
    )
    assert plain(answer.title) == "Not fit: the budget of 50 us was exceeded"


def test_samples_of_a_failed_step_support_no_cycle() -> None:
    run = timers(10, 18)
    run.steps[1].document["state"] = "failed"
    answer = answer_of(built(run))
    assert "18.0 us (CPU 0, load sched, of a step that failed, " in text(answer.worst)
    assert answer.missing.startswith("Without a valid result: 1 of 2 steps (timer)")
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


@pytest.mark.slow
def test_the_certainty_names_the_load_of_several_steps() -> None:
    budget = {"budget_ns": 150_000, "rate_per_hour": 100.0}
    assert "idle" not in text(budgeted(67, 200_000, 100.0).sure)
    answer = answer_of(built(timers(67, 100, 200_000, **budget)))
    assert text(answer.sure).startswith("Load sched: 150 us never exceeded in 200 000 wake-ups")
    answer = answer_of(built(timers(100, 67, 200_000, **budget)))
    assert text(answer.sure).startswith("Idle: 150 us never exceeded in 200 000 wake-ups")
    answer = answer_of(built(timers(67, 100, budget_ns=150_000)))
    assert "above 150 us in 10 s, load sched. 95" in text(answer.sure)


def test_the_certainty_is_that_of_the_undisturbed_step() -> None:
    disturbed = made.step(1, [latency(300)], budget_ns=20_000, disturb="irq:200us:7ms")
    answer = answer_of(built(made.run([made.step(0, [latency(67)], budget_ns=200_000), disturbed])))
    assert plain(answer.title).startswith("Not proven for the budget of 200 us")
    assert "above 200 us" in text(answer.sure) and "certain" not in text(answer.sure)
    alone = answer_of(built(made.run([disturbed, made.step(0, [latency(10)])])))
    assert "20 us exceeded once" in text(alone.sure) and "certain" not in text(alone.sure)


def test_samples_of_no_time_bound_no_rate() -> None:
    """As a stream gives them whose trailer counts none of its samples."""
    step = made.step(0, [latency(67, 1)], budget_ns=150_000, rate_per_hour=1.0)
    document = built(made.run([step]))
    document["verdicts"][0]["bound_per_hour"] = None
    answer = answer_of(document)
    assert answer.state is State.UNPROVEN
    assert "longer without an exceedance" in text(answer.sure)


def test_without_samples_no_length_is_offered() -> None:
    answer = answered(
        made.step(0, [latency(5, 0)], budget_ns=150_000),
        made.step(1, [latency(5)], load="sched"),
    )
    assert plain(answer.title) == "Not proven for the budget of 150 us: no samples"
    assert "measure again" in text(answer.sure).casefold()
    assert not answer.sure_command


def test_a_budget_without_a_series_is_not_kept() -> None:
    """The step completed, but measured nothing."""
    kept = made.step(0, [latency(20, 200_000)], budget_ns=150_000, rate_per_hour=100.0)
    empty = made.step(1, [], "other", budget_ns=90_000, rate_per_hour=100.0)
    assert answered(kept).state is State.FIT
    answer = answered(kept, empty)
    assert answer.state is State.UNPROVEN
    assert plain(answer.title) == "Not proven for the budget of 90 us: other measured nothing"
    assert answered(empty).state is State.UNMEASURED


def test_an_operation_measured_too_few_times_gets_samples() -> None:
    series = latency(67, 100, name="call", interval_ns=0)
    step = made.step(0, [series], "syscalls", budget_ns=150_000)
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


@pytest.mark.slow
def test_a_budget_of_the_same_measurement_precedes_those_of_others() -> None:
    steps = [
        made.step(0, [latency(20, 200_000)], budget_ns=50_000, rate_per_hour=100.0),
        made.step(1, [latency(90, 200_000)], "other", budget_ns=150_000, rate_per_hour=100.0),
        made.step(2, [latency(100)], "other", load="sched"),
    ]
    assert answered(*steps).state is State.FIT


def test_an_interrupted_run_with_a_failed_step_is_not_fit() -> None:
    run = timers(10, 18)
    run.steps.append(made.step(2, [], state="failed", reason="it broke", end=None))
    run.steps.append(made.step(3, [latency(10)], state="interrupted"))
    run.document["state"] = "failed"
    answer = answer_of(built(run))
    assert (answer.state, answer.title) == (State.UNPROVEN, "Not proven: the run was interrupted")


def test_a_measurement_without_a_length_gets_samples() -> None:
    step = made.step(0, [latency(67, 1000, name="response")], "log-host", budget_ns=150_000)
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
    assert "A run of 3 h is needed" in text(answer.sure)


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
    head, _, rest = plain(answer.title).partition("; ")
    # the title begins with the state, as `rtgauge runs` has it
    assert head == f"No budget given: no cycle up to 10 ms is proven ({why})"
    if answer.cycles[0].state == "exceeded":
        assert rest.startswith("too late for cycles of 50 us and shorter (latency")
    else:
        assert not rest


def test_answers_that_may_be_to_other_events_support_no_cycle() -> None:
    """As with a budget, what was exceeded stays so."""
    table = stream.Table(0, "answers", (stream.Column("ambiguous", "count"),), ((3,),))
    steps = [
        made.step(place, [latency(18, name="response")], "log-host", tables=[table], load=load)
        for place, load in enumerate(("idle", "sched"))
    ]
    answer = answered(*steps)
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
    answer = answered(step)
    assert answer.state is State.UNPROVEN
    assert {cycle.state for cycle in answer.cycles} == {"not proven"}
    longest = (*columns, stream.Column("ambiguous_max", "ns"))
    rows = ((10_000, 10_000, 0, 9, 17_999_999),)
    for certain in (
        replace(table, rows=((10_000, 10_000, 0, 0),)),
        replace(table, columns=longest, rows=rows),
    ):
        step.tables = [certain]
        answer = answered(step)
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
    """Nothing was required of the system, so it is not called unfit."""
    answer = answer_of(built(timers(100, 2100)))
    assert (answer.state, answer.tone) == (State.LATE, "fail")
    assert plain(answer.title).endswith(
        "too late for cycles of 10 ms and shorter (latency above 2 ms, a fifth of the cycle)"
    )


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
    step.header.parameters["priority"] = parameter
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
    assert text(answer.cause) == "Likely cause: the injection of this run."
    assert answer.cause_command and "--disturb" not in answer.cause_command
    assert answer.cause_hint == "measures without the injection"


def test_events_without_an_answer() -> None:
    series = latency(20, 1000, name="response")
    series.gaps = ((100, 3),)
    step = made.step(0, [series], budget_ns=150_000)
    step.header.parameters["timeout"] = stream.Parameter(None, "5ms")
    answer = answer_of(built(made.run([step])))
    assert answer.state is State.UNFIT
    assert text(answer.worst).startswith("Observed maximum >= 5 000 us")
    assert "3 of 1 003 events were not answered" in text(answer.worst)
    del step.document["budget_ns"]
    sure = text(answer_of(built(made.run([step]))).sure)
    assert " events have no answer, if events are independent. " in sure
    assert sure.endswith(
        "A run of 3 h without unanswered events is needed to show that they are rarer than "
        "1 an hour."
    )


def test_the_samples_of_handlers_are_not_those_of_tasks() -> None:
    contexts = {"irq": 20, "user": 30, "kernel": 10}
    every = [latency(top, 1000, context=context) for context, top in contexts.items()]
    for at, one in enumerate(every):
        one.info = replace(one.info, series=at)
    series = every[:2]
    step = made.step(0, series)
    sure = text(answer_of(built(made.run([step]))).sure)
    assert sure.startswith("Measured: 1 000 wake-ups in 1 s.")
    assert " of each " not in sure
    step.document["budget_ns"] = 150_000
    sure = text(answer_of(built(made.run([step]))).sure)
    assert sure.startswith("0 of 1 000 wake-ups above 150 us in 1 s.")
    step.document["budget_ns"] = None
    series.append(every[2])
    assert " wake-ups of each series exceed" in text(answer_of(built(made.run([step]))).sure)


@pytest.mark.slow
def test_one_failed_step_among_many_is_not_the_headline() -> None:
    answer = answer_of(built(made.run(mixed_steps(1, 0, 9), state="complete")))
    assert answer.state is State.SUPPORTS
    assert "fail" not in answer.title
    assert answer_of(built(made.run(mixed_steps(1, 0, 9), state="failed"))).state is State.SUPPORTS


def test_an_empty_run() -> None:
    answer = answer_of(built(made.run([])))
    assert answer.state is State.UNMEASURED
    assert answer.worst == answer.sure == answer.cause == ()


def test_an_interrupted_run_keeps_what_it_shows() -> None:
    answer = answer_of(built(interrupted_run()))
    assert (answer.state, answer.tone) == (State.UNPROVEN, "warn")
    assert answer.title == "Not proven: the run was interrupted"
    assert text(answer.worst)


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
    order = stream.Verdict(0, "order", "fail", "", "mend it")
    run.steps.append(made.step(2, [], "rules", verdicts=[order]))
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
    clock = stream.ClockReading(0, 0, realtime * 10**9)
    step.header = dataclasses.replace(step.header, clock=clock, start_ns=0)
    answer = answer_of(built(made.run([step], duration_s=length_s)))
    assert text(answer.worst) == f"Observed maximum 67.0 us (CPU 0, idle, {when})"


def test_a_failed_test_does_not_hide_the_maximum() -> None:
    run = timers(10, 18)
    order = stream.Verdict(0, "order", "fail", "", "mend it")
    run.steps.append(made.step(2, [], "rules", verdicts=[order]))
    answer = answer_of(built(run))
    assert answer.state is State.UNFIT
    assert text(answer.worst).startswith("Observed maximum 18.0 us (CPU 0, load sched,")
    assert shortest(answer.cycles) is not None


def test_findings_are_one_line_that_contradicts_no_verdict() -> None:
    answer = answer_of(built(made.run([made.step(0, [latency(10)])])))
    assert answer.audit == (
        "Configuration audit: 1 error (preemption) and 2 warnings (cpufreq governor and "
        "virtualisation). The figures hold for this configuration: measure again after a change."
    )
    seen = {"level": "warning", "found": "", "why": "", "remedy": "", "command": ""}
    stolen = [{**seen, "check": "steal-time"}]
    answer = answer_of(built(made.run([made.step(0, [latency(10)])], findings=stolen)))
    assert answer.audit == "Findings: 1 warning (steal-time)."
    stolen.append({**seen, "check": "governor"})
    answer = answer_of(built(made.run([made.step(0, [latency(10)])], findings=stolen)))
    assert answer.audit.startswith("Findings: 2 warnings (steal-time and governor). The figures")


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


def test_steps_and_calibrations_without_results_are_counted_together() -> None:
    """It said: 2 of 1 step and 1 calibration."""
    gone: dict[str, Any] = {"header": None, "end": None, "state": "failed"}
    steps = [
        made.step(0, [], "timer", **gone),
        made.step(1, [], "clock-cost", role="calibration", **gone),
    ]
    said = plain(answer_of(built(made.run(steps))).missing)
    assert said == "Not measured: 2 of 2 steps (timer and clock-cost)."


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
    skipped = {**document, "tests": [{**one, "result": "skipped"} for one in document["tests"]]}
    assert plain(answer_of(skipped).missing).endswith(" 2 tests were skipped.")
    document["tests"][1].update(result="fail", known_limitation="the library's order")
    document["tests"] += [{**document["tests"][0], "result": "skipped"}] * 2
    said = plain(answer_of(document).missing)
    assert said.endswith(
        "1 of 2 tests passed, 1 failed as on every system with this C library, 2 skipped."
    )


@pytest.mark.parametrize(("interval_ns", "said"), [(1_000_000, "wake-ups"), (0, "samples")])
def test_an_operation_has_samples(interval_ns: int, said: str) -> None:
    series = latency(30, interval_ns=interval_ns)
    (verdict,) = built(made.run([made.step(0, [series], budget_ns=50_000)]))["verdicts"]
    assert f" {said}" in verdict["evidence"]


def test_chapters_without_any_step_are_named_in_place_of_their_steps() -> None:
    document = built(made.run([made.step(0, [latency(10)])]))
    first = document["steps"][0]
    places = [("threads", name) for name in "abcd"] + [("mutexes", name) for name in "efg"]
    document["steps"] = [first] + [
        {**first, "step": at, "measurement": name, "chapter": chapter, "state": state}
        for at, (chapter, name) in enumerate(places, 1)
        for state in ["complete" if name == "f" else "skipped"]
    ]
    said = plain(answer_of(document).missing)
    assert said == "Not measured: 6 of 8 steps (all 4 steps of threads, e and g)."
    # declared, but without a sample
    document["series"].append({**document["series"][0], "step": 1, "count": 0})
    assert plain(answer_of(document).missing) == said


def test_an_interrupted_response_says_how_many_events_it_lacks() -> None:
    series = latency(20, 1000, name="response")
    series.gaps = ((100, 3),)
    step = made.step(0, [series], budget_ns=150_000, state="interrupted")
    step.header.parameters["timeout"] = stream.Parameter(None, "5ms")
    step.header.parameters["samples"] = stream.Parameter("1500", "1500")
    said = plain(answer_of(built(made.run([step], state="interrupted"))).scope)
    assert said.endswith(
        "3 of 1 003 events had no answer. The run ended before the remaining 497 of 1 500 events."
    )


@pytest.mark.parametrize(
    ("counts", "lost", "gaps", "said"),
    [
        ((1000, 500), 0, 0, "All 1 500 events were answered."),
        ((1,), 0, 0, "The one event was answered."),
        ((1000, 500), 5, 0, "1 500 of 1 505 events have a sample."),
        ((1000, 500), 0, 3, "3 of 1 503 events had no answer."),
        ((1000,), 5, 3, "3 of 1 008 events had no answer. 1 000 of 1 008 events have a sample."),
    ],
)
def test_events_of_all_loads_are_answered_only_if_none_is_lost(
    counts: tuple[int, ...], lost: int, gaps: int, said: str
) -> None:
    """The step with the maximum has neither."""
    series = [latency(20 - at, count, name="response") for at, count in enumerate(counts)]
    series[-1].untold_losses, series[-1].gaps = lost, ((100, gaps),) if gaps else ()
    loads = ("sched", "idle") if len(counts) > 1 else ("idle",)
    steps = [
        made.step(at, [one], "log-host", load=load)
        for at, (one, load) in enumerate(zip(series, loads, strict=True))
    ]
    assert plain(answered(*steps).scope).endswith(f". {said}")


@pytest.mark.parametrize(
    ("late", "ambiguous", "lost", "said"),
    [
        (1, 0, 0, "while idle. 999 of 1 000 events were answered in time."),
        (1, 0, 5, "while idle. 1 000 of 1 005 events have a sample."),
        (1, 2, 0, "while idle. All 1 000 events were answered."),  # which is late is not known
        # a foreign stream
        (-5, 0, 0, "while idle. All 1 000 events were answered."),
        (2**63 - 1, 0, 0, "while idle. 0 of 1 000 events were answered in time."),
    ],
)
def test_late_answers_are_not_called_answered(
    late: int, ambiguous: int, lost: int, said: str
) -> None:
    columns = tuple(stream.Column(name, "count") for name in ("late", "ambiguous"))
    table = stream.Table(0, "answers", columns, ((late, ambiguous),))
    series = latency(20, 1000, name="response")
    series.untold_losses = lost
    run = built(made.run([made.step(0, [series], "log-host", tables=[table])], findings=[]))
    assert plain(answer_of(run).scope).endswith(said)


@pytest.mark.parametrize("mode", ["counted", "plain"])
def test_the_answer_of_an_emulated_board_names_it(mode: str) -> None:
    run = built(timers(10, 18))
    run["environment"]["lab"] = {"mode": mode, "meaning": MODES[mode].meaning}
    answer = answer_of(run)
    assert answer.board == f"Emulated board, {mode} mode: {MODES[mode].meaning}."
    box = answer_section(answer, None).blocks[0]
    assert isinstance(box, Callout) and answer.board in repr(box.blocks[0])
    assert len({one.meaning for one in MODES.values()}) == len(MODES)


@pytest.mark.parametrize(
    ("late", "idle", "shown"),
    [(1, 10_000, False), (4, 10_000, False), (5, 10_000, True), (5, 1000, False), (40, 1000, True)],
)
def test_the_load_is_named_as_the_cause(late: int, idle: int, shown: bool) -> None:
    values = np.full(10_000, 5000, np.int32)
    values[np.random.default_rng(1).permutation(10_000)[:late]] = 300_000
    loaded = made.sampled(values)
    cause = text(answer_of(built(idle_and_loaded(latency(10, idle), loaded))).cause)
    # if the load had no effect, all late samples would be in its step with this probability
    assert (math.comb(10_000, late) <= 0.05 * math.comb(10_000 + idle, late)) == shown
    assert cause.startswith(f"The maximum {'depends' if shown else 'may depend'} on the load: ")
    assert "while idle it is 10.0 us" in cause
    assert ("may also be chance" in cause) == (not shown)


@pytest.mark.parametrize(
    ("unanswered", "idle", "shown"), [(4, 10_000, False), (5, 10_000, True), (0, 200_000, True)]
)
def test_what_has_no_sample_above_the_idle_maximum_counts(
    unanswered: int, idle: int, shown: bool
) -> None:
    """Events without an answer, and a missed period that was later than all samples."""
    run = built(idle_and_loaded(latency(10, idle), latency(9, 10_000)))
    one = run["series"][1]
    one.update(max_at_least=300_000, unanswered=unanswered, groups=[[300_000, unanswered]])
    cause = text(answer_of(run).cause)
    assert cause.startswith(f"The maximum {'depends' if shown else 'may depend'} on the load: ")


def test_samples_above_the_idle_maximum_count_as_a_group_at_least() -> None:
    values = np.full(10_000, 5000, np.int32)
    values[5000] = 300_000
    loaded = made.sampled(values)
    run = built(idle_and_loaded(latency(10, 200_000), loaded))
    run["series"][1]["clustering"] = {"group": 100.0}
    assert text(answer_of(run).cause).startswith("The maximum depends on the load: ")


@pytest.mark.parametrize(
    ("measurement", "more"),
    [("idle-exit", {}), ("timer", {"context": "irq"}), ("timer", {"labels": {"method": "itimer"}})],
)
def test_the_idle_maximum_of_another_quantity_is_no_cause(
    measurement: str, more: dict[str, Any]
) -> None:
    answer = answered(
        made.step(0, [latency(10, **more)], measurement),
        made.step(1, [latency(300)], load="sched"),
    )
    assert "300 us" in text(answer.worst)
    assert "depends on the load" not in text(answer.cause)


@pytest.mark.parametrize(
    ("parameters", "asked", "name", "seen", "command"),
    [
        ({"stop-above": "0"}, "", "latency", False, "--stop-above 60us"),
        ({"stop-above": "0", "dither": "yes"}, "", "latency", True, "--stop-above 60us"),
        # The due times of itimer, of which a timer decides by itself, cannot be moved.
        ({"stop-above": "0", "dither": "no"}, "auto", "latency", True, "--stop-above 60us"),
        ({"stop-above": "0", "dither": "no"}, "", "response", True, "--dither yes"),
        ({}, "", "latency", False, ""),
    ],
)
def test_the_command_that_finds_the_cause(
    parameters: dict[str, str], asked: str, name: str, seen: bool, command: str
) -> None:
    run = built(made.run([made.step(0, [latency(67, name=name)])]))
    run["steps"][0]["parameters"] |= parameters
    run["steps"][0]["asked"] |= {"dither": asked} if asked else {}
    run["steps"][0]["parameters"].setdefault("for", "10s")
    if not parameters:
        run["steps"][0]["parameters"].pop("stop-above", None)
    if seen:
        run["steps"][0]["observations"] = [
            {"rule": "second line", "maxima": [{"series": 0, "text": "Recurs."}]}
        ]
    told = answer_of(run).cause_command
    assert command in told and bool(command) is bool(told)
    assert told.count("--explain") == told.count("--stop-above")
    # a trace of Linux does not show what a core does, and a traced step has the option
    for change in ({"core": "cobalt"}, {"load": {"name": "explain", "explain_ns": 1000}}):
        steps = [run["steps"][0] | change]
        assert "--explain" not in answer_of(run | {"steps": steps}).cause_command


@pytest.mark.parametrize(
    ("asked", "count", "interval_ns", "command"),
    [
        ("no", 10_000, made.MS, "--for 2m"),
        ("no", 10_000, 500 * made.MS, "--for 9m"),
        ("auto", 500, 10 * made.MS, "--for 2m"),  # short runs have no dither
        ("", 500, 10 * made.MS, "--for 2m"),
        ("auto", 1000, 10 * made.MS, "--stop-above 60us"),
    ],
)
def test_a_timer_decides_whether_its_due_times_can_be_moved(
    asked: str, count: int, interval_ns: int, command: str
) -> None:
    """The agent refuses `--dither yes` for methods such as itimer, but never its default."""
    series = latency(67, count, interval_ns=interval_ns)
    run = built(made.run([made.step(0, [series])]))
    (step,) = run["steps"]
    step["parameters"] |= {"stop-above": "0", "dither": "no", "for": "10s"}
    step["asked"] |= {"dither": asked} if asked else {}
    step["observations"] = [{"rule": "second line", "maxima": [{"series": 0, "text": "Recurs."}]}]
    told = answer_of(run).cause_command
    assert command in told
    assert "--dither" not in told or "--stop-above" in told


def test_the_section_begins_with_the_answer() -> None:
    answer = answer_of(built(timers(10, 18)))
    section = answer_section(answer, None)
    box = section.blocks[0]
    assert isinstance(box, Callout)
    assert (box.tone, box.title) == ("pass", answer.title)
    assert re.fullmatch(r"[a-z]+", section.anchor)


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
        (
            made.run([made.step(0, [latency(10)], load="sched,explain")]),
            "Only timer was measured, and only under load.",
        ),
        (
            made.run([made.step(0, [latency(10)], load="explain")]),
            "Only timer was measured, and only while idle with the trace.",
        ),
        (
            made.run([made.step(0, [latency(10)], disturb="kthread:200us:7.301ms")]),
            "Only timer was measured, and only with an injection.",
        ),
        (made.run(mixed_steps(1, 0, 2)), ""),
    ],
)
def test_what_was_and_what_was_not_measured(run: made.FakeRun, scope: str) -> None:
    assert answer_of(built(run)).scope == scope


def test_the_limit_of_a_latency_of_seconds_is_a_duration() -> None:
    step = made.step(0, [latency(1_400_000)], load="sched")
    given = {"stop-above": stream.Parameter("0", "0"), "for": stream.Parameter("60s", "60s")}
    step.header = dataclasses.replace(step.header, parameters=given)
    words = answered(step).cause_command.split()
    assert parse_duration(words[words.index("--stop-above") + 1]) == 1_300_000_000


def test_the_trace_alone_is_no_load() -> None:
    """The scope of the answer calls such a run idle: so do all names of its load."""
    run = built(made.run([made.step(0, [latency(67)], load="explain", budget_ns=100_000)]))
    worst = text(answer_of(run).worst)
    assert worst.startswith("Observed maximum 67.0 us (CPU 0, idle with the trace, ")
    assert [labels.load_text({"name": name}) for name in ("idle", "explain", "sched,explain")] == [
        "idle", "idle with the trace", "load sched with the trace",
    ]  # fmt: skip


def test_the_figures_of_the_fake_target_are_called_made_up() -> None:
    run = built(made.run([made.step(0, [latency(67)])]))
    assert "made up" not in answer_of(run).board
    run["target"] = "fake:realtime"
    assert "made up" in answer_of(run).board


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


@pytest.mark.parametrize(
    ("loads", "only", "cycle"),
    [
        (("unknown",), "under an unknown load", "measured under an unknown load"),
        (("idle", "unknown"), "while idle and under an unknown load", "not measured under load"),
        (("unknown", "sched"), "under load and under an unknown load", "not measured while idle"),
        (("idle",), "while idle", "not measured under load"),
    ],
)
def test_data_under_an_unknown_load_are_not_called_loaded(
    loads: tuple[str, ...], only: str, cycle: str
) -> None:
    steps = [made.step(at, [latency(9)], load=load) for at, load in enumerate(loads)]
    answer = answered(*steps)
    assert answer.scope == f"Only timer was measured, and only {only}."
    assert {one.text for one in answer.cycles if one.state == "not proven"} == {cycle}
    titles = [action.text for action in answer.actions]
    assert ("Measure under load" in titles) is ("sched" not in loads)


def test_contexts_that_were_not_measured_are_named() -> None:
    """They were asked for, and the budget is kept by the others."""
    refused = "contexts irq and kernel: there is no tracer"
    rules = ("every context asked for is measured", "another rule")
    tests = [
        stream.Verdict(number, rule, "skipped", refused, "load the module")
        for number, rule in enumerate(rules)
    ]
    step = made.step(
        0, [latency(10, 4000)], budget_ns=150_000, rate_per_hour=1e5, load="sched", verdicts=tests
    )
    answer = answered(step)
    assert answer.state is State.FIT
    assert answer.scope.endswith(f". Not measured: {refused}.")
    assert answer.scope.count("Not measured") == 1


def test_an_unknown_load_is_not_named_as_the_cause() -> None:
    steps = [made.step(0, [latency(9)]), made.step(1, [latency(90)], load="unknown")]
    answer = answered(*steps)
    assert "depends on the load" not in text(answer.cause)


@pytest.mark.slow
def test_the_load_of_a_verdict_is_named_if_unknown() -> None:
    step = made.step(
        0, [latency(9, 200_000)], budget_ns=150_000, load="unknown", rate_per_hour=100.0
    )
    assert answered(step).title.endswith(", under an unknown load")


def test_a_run_without_an_answer_is_not_one_without_samples() -> None:
    """It was not measured properly, although each event waited for its answer until the timeout."""
    document = built(made.run([made.step(0, [latency(10)])], findings=[]))
    (one,) = document["series"]
    none = dict.fromkeys(one["percentiles"])
    one.update(
        count=0, unanswered=200, max=None, min=None, max_at_least=20_000_000, percentiles=none
    )
    assert "no samples" not in answer_of(document).title


def _unanswered(gone: int, place: int = 0, **more: Any) -> made.FakeStep:
    """A step of a log host in which the first of 100 events have no answer."""
    index = np.arange(gone, 100)
    info = made.info(name="response", labels={"line": "net"})
    values = np.full(len(index), 5000, np.int32)
    gaps = ((-1, gone),) if gone else ()
    series = made.FakeSeries(info, index, values, gaps=gaps)
    remedy = "check --line and the wiring"
    test = stream.Verdict(0, "every-event-answered", "fail" if gone else "pass", "", remedy)
    return made.step(place, [series], "log-host", verdicts=[test], **more)


@pytest.mark.parametrize("budget_ns", [None, 150_000])
def test_a_log_host_without_any_answer_was_not_measured_properly(budget_ns: int | None) -> None:
    """The system was called unfit or too late, with advice on kernels, where nothing answers."""

    def of(*steps: made.FakeStep, **more: Any) -> Any:
        return answer_of(built(made.run(list(steps), **more)))

    silent = of(_unanswered(100, budget_ns=budget_ns))
    assert silent.state is State.UNMEASURED
    assert silent.title.endswith(": no event was answered")
    assert "100 of 100 events were not answered" in text(silent.worst)
    assert [action.text for action in silent.actions] == ["Check --line and the wiring"]
    assert not silent.cycles and not silent.cause and not silent.sure_command
    assert "is enough" not in text(silent.sure)
    # A few answers say that the other side is there, even under another load.
    assert of(_unanswered(99, budget_ns=budget_ns)).state is State.UNFIT
    both = _unanswered(0, budget_ns=budget_ns), _unanswered(100, 1, load="sched")
    assert of(*both).state is State.UNFIT
    # So do answers that came late, or may belong to other events.
    for name in ("late", "ambiguous"):
        one = _unanswered(100, budget_ns=budget_ns)
        one.tables = [stream.Table(0, "answers", (stream.Column(name, "count"),), ((3,),))]
        assert of(one).state is State.UNFIT
    # Another measurement that failed decides.
    timer = made.step(1, [latency(300)], budget_ns=150_000)
    assert of(_unanswered(100, budget_ns=budget_ns), timer).state is State.UNFIT
    timer = made.step(1, [latency(50)], budget_ns=150_000)
    assert of(_unanswered(100, budget_ns=budget_ns), timer).state is State.UNMEASURED


@pytest.mark.parametrize("budget_ns", [None, 150_000])
@pytest.mark.parametrize("state", ["complete", "interrupted"])
def test_a_run_without_samples_measured_nothing(state: str, budget_ns: int | None) -> None:
    """It said that figures had no verdict, and that timer was measured: with a calibration for
    longer. What to do next was to run it again, and to measure again."""
    nothing = made.FakeSeries(made.info(), np.zeros(0, np.int64), np.zeros(0, np.int32))
    ticks = made.sampled(np.full(9, 20, np.int32))
    cost = made.step(1, [ticks], "clock-cost", role="calibration")
    run = made.run(
        [made.step(0, [nothing], state=state, budget_ns=budget_ns), cost], state=state, findings=[]
    )
    found = answer_of(built(run))
    assert found.state is (State.UNMEASURED if budget_ns is None else State.UNPROVEN)
    assert "no samples" in found.title or "interrupted" in found.title
    assert not found.scope
    assert all(": " not in action.text for action in found.actions)
    assert len([one for one in found.actions if "again" in one.text]) <= 1


STOLEN = [
    stream.Ambience(0, at * 10**9, (0,), (None,), (0,), (steal,), 0, {})
    for at, steal in enumerate((0, 40 * 10**6))
]


class _Untouched(list[Any]):
    """Observations that nothing may read."""

    def __iter__(self) -> Any:
        raise AssertionError("the answer reads observations that observed_steps leaves out")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "steps"),
    [
        (made.evaluation(2, 12_000), {1}),
        (timers(10, 18, ambience=STOLEN), {1}),
        (timers(300, 18, budget_ns=150_000, ambience=STOLEN), {0}),
        # the deciding verdict is on another step than the maximum
        (
            made.run(
                [
                    made.step(0, [latency(300)]),
                    made.step(1, [latency(200)], budget_ns=150_000, ambience=STOLEN),
                    made.step(2, [latency(20)], load="sched"),
                ]
            ),
            {0, 1},
        ),
        (interrupted_run(), {1}),
        (made.run(mixed_steps(failed=2, skipped=1, whole=0)), set()),
    ],
    ids=["evaluation", "no budget", "budget", "two steps", "interrupted", "nothing measured"],
)
def test_the_answer_needs_the_observations_of_few_steps(run: made.FakeRun, steps: set[int]) -> None:
    """`rtgauge runs` makes no others, and gets the same answer."""
    every = built(run)
    assert observed_steps(every) == steps
    few = model.build_run(run, observed_steps)  # type: ignore[arg-type]
    for one, other in zip(every["steps"], few["steps"], strict=True):
        assert other["observations"] == (one["observations"] if one["step"] in steps else [])
        if one["step"] not in steps:
            one["observations"] = _Untouched(one["observations"])
    assert answer_of(few) == answer_of(every)


def test_the_steps_that_an_answer_needs_have_observations() -> None:
    """What the test above compares exists."""
    steps = built(timers(300, 18, ambience=STOLEN))["steps"]
    assert all(one["observations"] for one in steps if one["role"] == "measurement")


def test_a_pass_is_as_sure_as_that_of_the_weakest_cpu() -> None:
    series = [latency(100, 60_000), latency(20, 9_000, 1)]
    step = made.step(0, series, budget_ns=150_000, rate_per_hour=2000.0)
    sure = text(answer_of(built(made.run([step], findings=[]))).sure)
    assert sure.startswith("CPU 1: 150 us never exceeded in 9 000 wake-ups over 9 s: at most 1 200")
