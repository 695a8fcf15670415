# SPDX-License-Identifier: Apache-2.0
"""Steps without a load, on a machine that other programs kept busy."""

from __future__ import annotations

from typing import Any

import pytest

import report_runs as made
from rtgauge import stream
from rtgauge.report.document.answer import answer_of
from rtgauge.report.document.summary import short
from rtgauge.report.render import markdown, terminal
from rtgauge.report.results import background, model

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
    assert found.startswith(f"{tasks} tasks of other programs") if tasks else not found
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
    assert run["steps"][0]["load"]["others"] == evidence
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
        ([(1, 1.5)] * 10, 0, "for 10 s, other programs used the time of 1.5 of 2 CPUs"),
        ([(1, 1.5)] * 10, 9, "for 10 s, other programs used the time of 0.6 of 2 CPUs"),
        ([(1, 1.5)] * 10, 11, ""),  # the measurement itself used most of it
        ([(1, 0.4)] * 10, 0, ""),
        ([(1, 2)] * 4 + [(1, 0)] * 6, 0, ""),
        ([(1, 2)] * 5 + [(1, 0)] * 5, 0, "for 5 s, other programs used the time of 2 of 2 CPUs"),
        # an upgrade of the system in a run of an hour
        ([(10, 0)] * 300 + [(10, 12)] * 3, 0, "for 30 s, other programs used the time of 1.2 of"),
        ([(10, 0)] * 300 + [(10, 12)] * 2, 0, ""),
        ([], 1, ""),
    ],
)
def test_other_programs_by_the_time_that_they_used(
    busy: list[tuple[float, float]], own_s: int, found: str
) -> None:
    watched = background.Watched().step(activity(*busy))
    text = background.used(watched, own_s * SECOND).replace("\u202f", " ")
    assert text.startswith(found) and bool(text) == bool(found)


def test_many_cpus_are_busy_if_a_tenth_of_them_is() -> None:
    watched = background.Watched(busy=[(SECOND, 128, 13 * SECOND)])
    assert background.used(watched, 0).endswith("used the time of 13 of 128 CPUs")
    assert not background.used(background.Watched(busy=[(SECOND, 128, 12 * SECOND)]), 0)


@pytest.mark.parametrize(("own_s", "load"), [(0, "idle"), (19, "idle"), (0, "sched")])
def test_programs_that_started_during_the_step_are_told(own_s: int, load: str) -> None:
    """Only the start of a step was looked at."""
    step = made.step(0, made.timer_series(1, 2000), facts=facts("0.10 0.10 0.10 1/9 1"), load=load)
    step.ambience = activity(*[(1, 0), (1, 2)] * 10)
    step.trailer = stream.Trailer(9, "complete", "", "", 20 * SECOND, 9, (), own_s * SECOND)
    (run,) = model.build([made.run([step], findings=[])])["runs"]  # type: ignore[list-item]
    told = run["steps"][0]["load"]
    assert told["cpu_share"] == 0.5
    others = "for 10 s, other programs used the time of 2 of 2 CPUs"
    assert ("others" in told) == (load == "idle" and not own_s)
    if "others" in told:
        assert told["others"].replace("\u202f", " ") == others


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
