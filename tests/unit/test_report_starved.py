# SPDX-License-Identifier: Apache-2.0
"""A task that got no CPU time during its step: its series has missed periods and no sample."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

import report_runs as made
from rtgauge.report.document.summary import short
from rtgauge.report.render import html, markdown, terminal
from rtgauge.report.results import model
from rtgauge.report.results.cases import figures
from rtgauge.report.results.published import places
from rtgauge.report.sets.compare import RunSet, compare
from rtgauge.stream import Event

MS = 1_000_000
PERIODS = 60_000


def starved(periods: int, *, dithered: bool = False) -> made.FakeSeries:
    return made.FakeSeries(
        made.info(1, 1),
        np.empty(0, np.int64),
        np.empty(0, np.int32),
        due=np.array([0, (periods - 1) * MS]),
        gaps=((-1, periods),),
        companion=made.FakeSeries(made.info(2, 1), np.empty(0, np.int64), np.empty(0, np.int32))
        if dithered
        else None,
    )


def analysed(periods: int = PERIODS, *, dithered: bool = False, **step: Any) -> Any:
    """The series next to a good one of another CPU."""
    (good,) = made.timer_series(1, periods, stalls=False)
    series = [good, starved(periods, dithered=dithered)]
    found = model.analyse([made.run([made.step(0, series, **step)])])  # type: ignore[list-item]
    model.validate(found.model)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("dithered", [False, True])
@pytest.mark.parametrize("budget_ns", [MS // 2, 3 * MS, 3 * MS + 1])
@pytest.mark.parametrize("periods", [1, 2, 5, 300])
def test_each_period_exceeds_the_budgets_up_to_its_wait(
    periods: int, budget_ns: int, dithered: bool
) -> None:
    """The task has not run when the last period is due; dither may make that one earlier."""
    end_ns = (periods - 1 - dithered) * MS
    waits = [end_ns - number * MS for number in range(periods)]
    run = analysed(periods, dithered=dithered, budget_ns=budget_ns).model["runs"][0]
    one, verdict = run["series"][1], run["verdicts"][1]
    over = sum(wait > budget_ns for wait in waits)
    assert verdict["unknown"] == periods - over
    assert verdict["result"] == ("fail" if over else "inconclusive")
    times = "once" if over == 1 else f"{over} times"
    assert not over or f" exceeded {times} in {over} period" in verdict["evidence"]
    assert one["max_at_least"] == (max(waits) if max(waits) > 0 else None)
    assert one["corrected"] is None and one["max"] is None


@pytest.mark.slow
@pytest.mark.parametrize("rate", [None, 100.0])
def test_the_budget_was_exceeded(rate: float | None) -> None:
    found = analysed(budget_ns=400_000, rate_per_hour=rate)
    text = terminal.text(found.model)
    assert "Not fit: the budget of 400" in text
    assert "Observed maximum ≥ 59" in text and "in a missed period" in text
    assert "no samples" not in text
    (bound,) = found.model["bounds"]
    assert bound["max_at_least"] == (PERIODS - 1) * MS
    assert bound["next_sample"] == 1
    assert [one["result"] for one in bound["verdicts"]] == ["fail"]


MESSAGE = "1 of 2 measuring threads got no CPU time until the step ended, after 60000 ms"


@pytest.mark.parametrize("evaluation", [False, True])
def test_the_terminal_prints_the_message_of_the_agent(evaluation: bool) -> None:
    """Once, and within 80 columns. A note from before the measurement is only in the reports."""
    (good,) = made.timer_series(1, 300, stalls=False)
    told = [
        Event(0, "message", 0, 1, {"text": "restored settings"}),
        Event(1, "message", 60 * 1000 * MS, 1, {"text": MESSAGE}),
        Event(2, "message", 60 * 1000 * MS, 1, {"text": MESSAGE}),
    ]
    for series, number in (([good, starved(300)], 1), ([good], 0)):
        run = made.run([made.step(0, series, told=told), made.step(1, [good])])
        results = model.analyse([run]).model  # type: ignore[list-item]
        if evaluation:
            for step in results["runs"][0]["steps"]:
                step["chapter"] = f"chapter {step['step']}"
        text = terminal.text(results)
        assert ("chapter 0" in text) == evaluation
        assert " ".join(text.split()).count(MESSAGE) == number
        assert "restored settings" not in text
        assert all(len(one) <= 80 for one in text.splitlines())


@pytest.mark.slow
def test_no_claim_comes_from_the_other_cpu_alone() -> None:
    found = analysed(load="sched")
    run = found.model["runs"][0]
    text = terminal.text(found.model)
    assert re.search(r"Cycles of 50[^:]*: exceeded", " ".join(text.split()))
    assert "once in 0" not in text
    assert places(run["steps"][0], run) == []
    assert "Their delays are unknown." in html.render(found)


@pytest.mark.slow
def test_a_run_of_such_a_task_alone() -> None:
    run = made.run([made.step(0, [starved(PERIODS)], budget_ns=400_000)])
    found = model.analyse([run])  # type: ignore[list-item]
    model.validate(found.model)
    assert "Not fit" in terminal.text(found.model)
    assert "Not fit" in markdown.render(short(found))
    (one,) = found.model["runs"]
    first, second = figures(one["series"][0], one["steps"][0])
    assert first.startswith("max ≥ 59") and second.startswith("0 samples, 60")
    assert "Not fit" in html.render(found)


@pytest.mark.slow
@pytest.mark.parametrize("budget_ns", [MS // 2, 3 * MS, 3 * MS + 1, 2000 * MS])
def test_a_comparison_counts_the_periods_that_the_verdict_counts(budget_ns: int) -> None:
    (good,) = made.timer_series(1, 1000, stalls=False)
    runs = [
        made.run(
            [made.step(0, [good, starved(1000)], budget_ns=budget_ns)],
            id=f"0192f0c4-6d1e-7aaa-8000-00000000000{number}",
        )
        for number in range(2)
    ]
    analysis = model.analyse(runs)  # type: ignore[arg-type]
    found = compare(analysis, [RunSet("a", (0,)), RunSet("b", (1,))])
    verdict = analysis.model["runs"][0]["verdicts"][1]
    over = 1000 - verdict["unknown"]
    assert over == max(0, 999 - budget_ns // MS)
    for row in found.document["quantities"][0]["rows"]:
        assert (row["over"], row["runs"][0]["over"]) == (over, over)
        assert row["runs"][0]["unknown"] == verdict["unknown"]


@pytest.mark.slow
@pytest.mark.parametrize("budget_ns", [100_000, MS, 5 * MS, 100 * MS])
def test_a_comparison_counts_the_lost_samples_that_the_verdict_counts(budget_ns: int) -> None:
    """One sample of each run of lost samples is as large as its maximum, if that is known."""
    one = made.timer_series(1, 1000, stalls=False)[0]
    unknown = np.iinfo(np.int32).min
    lossy = dataclasses.replace(one, lost=((9, 4, 7 * MS), (60, 2, unknown), (90, 3, 200_000)))
    runs = [
        made.run(
            [made.step(0, [series], budget_ns=budget_ns)],
            id=f"0192f0c4-6d1e-7aaa-8000-00000000000{number}",
        )
        for number, series in enumerate((one, lossy))
    ]
    analysis = model.analyse(runs)  # type: ignore[arg-type]
    found = compare(analysis, [RunSet("a", (0,)), RunSet("b", (1,))])
    rows = found.document["quantities"][0]["rows"]
    (verdict,) = analysis.model["runs"][1]["verdicts"]
    over = (budget_ns < 7 * MS) + (budget_ns < 200_000)
    assert rows[1]["over"] == rows[1]["runs"][0]["over"] == rows[0]["over"] + over
    assert rows[1]["runs"][0]["unknown"] == verdict["unknown"]
    assert rows[0]["runs"][0]["unknown"] == 0


@pytest.mark.slow
def test_a_comparison_does_not_leave_it_out() -> None:
    good = made.timer_series(2, 1000, stalls=False)
    runs = [
        made.run([made.step(0, series)], id=f"0192f0c4-6d1e-7aaa-8000-00000000000{number}")
        for number, series in enumerate((good, [good[0], starved(1000)]))
    ]
    found = compare(model.analyse(runs), [RunSet("a", (0,)), RunSet("b", (1,))])  # type: ignore[arg-type]
    ((_, row),) = [one["rows"] for one in found.document["quantities"]]
    assert (row["series"], row["count"], row["missed"]) == (2, 1000, 1000)
    assert row["figures"]["max"] == 999 * MS
    assert row["runs"][0]["unknown"] == 1000
    assert any("the maximum is a lower limit" in mark for mark in row["marks"])
