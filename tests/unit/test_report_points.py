# SPDX-License-Identifier: Apache-2.0
"""Strengths and concerns of a system, a short sentence each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import report_runs as made
from answers import built, latency
from rtgauge import stream
from rtgauge.report.document.steps import _observations
from rtgauge.report.results import model
from rtgauge.report.results.labels import load_text, step_number
from rtgauge.report.results.points import negative_points, positive_points
from rtgauge.text import plain


def with_verdicts(*verdicts: tuple[str, int | None]) -> dict[str, Any]:
    document = model.build([made.evaluation(1, 3000)])  # type: ignore[list-item]
    run: dict[str, Any] = document["runs"][0]
    one = run["verdicts"][0]
    test = {"step": one["step"], "measurement": "timer", "rule": "fair", "evidence": "seen"}
    test |= {"remedy": "", "known_limitation": None}
    run["verdicts"] = [
        {**one, "result": result, "series": series}
        for result, series in verdicts
        if series is not None
    ]
    run["tests"] = [
        {**test, "result": "fail", "known_limitation": "no system is"}
        if result == "known"
        else {**test, "result": result}
        for result, series in verdicts
        if series is None
    ]
    run["state"] = "complete"
    for step in run["steps"]:
        step["state"] = "complete"
    return run


def positive(run: dict[str, Any]) -> list[str]:
    return [plain(point.text) for point in positive_points(run)]


@pytest.mark.slow
@pytest.mark.study(63)
@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ([("pass", 0), ("pass", 1), ("pass", None)], "The budget of 400 us was kept by 2 series."),
        ([("pass", 0), ("fail", None)], "The budget of 400 us was kept by 1 series."),
        ([("pass", None), ("pass", None)], "All 2 tests passed."),
        ([("pass", None)], "1 test passed."),
        (
            [("pass", None), ("known", None)],
            "1 of 2 tests passed, 1 failed as on every system with this C library.",
        ),
        ([("pass", None), ("fail", None)], "1 of 2 tests passed, 1 failed."),
        ([("pass", None), ("inconclusive", None)], "1 of 2 tests passed, 1 inconclusive."),
        ([("pass", None), ("skipped", None)], "1 of 1 test passed, 1 skipped."),
        (
            [("pass", None), ("pass", None), ("skipped", None), ("skipped", None)],
            "2 of 2 tests passed, 2 skipped.",
        ),
        (
            [("pass", None), ("known", None), ("skipped", None)],
            "1 of 2 tests passed, 1 failed as on every system with this C library, 1 skipped.",
        ),
    ],
)
def test_strengths_are_budgets_kept_and_tests_passed(
    verdicts: list[tuple[str, int | None]], said: str
) -> None:
    assert said in positive(with_verdicts(*verdicts))


@pytest.mark.parametrize("verdicts", [[("pass", 0), ("fail", 1)], [("inconclusive", 0)], []])
def test_a_budget_that_one_series_exceeds_is_no_strength(
    verdicts: list[tuple[str, int | None]],
) -> None:
    assert not any("budget" in text for text in positive(with_verdicts(*verdicts)))


def test_the_rule_of_a_test_is_quoted() -> None:
    run = with_verdicts(("known", None), ("fail", 0), ("fail", None), ("inconclusive", None))
    said = [plain(point.text).split(": ", 1)[1] for point in negative_points(run)]
    assert any(text.startswith("budget 400 us failed on ") for text in said)
    assert [text for text in said if "fair" in text] == [
        "the test “fair” failed.",
        "the test “fair” is inconclusive.",
        "the test “fair” failed, a known limitation.",
    ]


def test_checks_and_observations_are_counted_and_shortened() -> None:
    run = with_verdicts()
    run["steps"][0]["observations"] = [
        {
            "rule": "steady",
            "text": "Hardly depends on n: the median is 1 at 1.",
            "series": [],
        },
        {"rule": "growth", "text": "Grows with depth: the median is 1 at 1.", "series": []},
    ]
    assert "2 configuration checks passed." in positive(run)
    assert any(text.endswith(": Hardly depends on n.") for text in positive(run))
    concerns = [point.text for point in negative_points(run)]
    assert any(text.endswith(": Grows with depth.") for text in concerns)


def test_the_concerns_are_sorted_by_severity() -> None:
    """Growth with the depth of a chain came before warnings of the audit, which a short list then
    left out."""
    run = with_verdicts(("fail", None))
    run["steps"][0]["observations"] = [
        {"rule": "growth", "text": "Grows with depth.", "series": []}
    ]
    points = negative_points(run)
    kinds = [point.kind for point in points]
    assert kinds == sorted(kinds, key=["fail", "warn", "note"].index)
    (growth,) = [point for point in points if point.text.endswith("Grows with depth.")]
    checks = {one["check"] for one in run["findings"] if one["level"] == "warning"}
    (audit, *_) = [point for point in points if point.text.partition(":")[0] in checks]
    assert points.index(audit) < points.index(growth)


def test_steps_under_several_loads_name_them() -> None:
    run = with_verdicts(("fail", None))
    found = {"rule": "growth", "text": "Grows with depth.", "series": []}
    for step in run["steps"][:2]:
        step["observations"] = [found]
    said = [point.text for point in negative_points(run)]
    assert "timer, idle (step 1): Grows with depth." in said
    assert "timer, load sched (step 2): Grows with depth." in said
    test = run["tests"][0]
    (place,) = (step for step in run["steps"] if step["step"] == test["step"])
    assert f"timer, {load_text(place['load'])} (step {step_number(place)}): " in " ".join(said)


def test_a_reason_that_several_steps_share_is_said_once() -> None:
    run = with_verdicts(("pass", None))
    first, *others = [step for step in run["steps"] if step["role"] == "measurement"]
    assert len(others) > 1
    for step in others:
        step |= {"state": "skipped", "reason": "it takes two CPUs", "remedy": "use another machine"}
    first |= {"state": "failed", "reason": "it takes two CPUs", "remedy": "use another machine"}
    said = [point for point in negative_points(run) if "it takes two CPUs" in point.text]
    assert [point.kind for point in said] == ["fail", "warn"]
    for step in others:
        assert f"(step {step_number(step)})" in said[1].text
    assert said[1].text.endswith("were skipped: it takes two CPUs")


@pytest.mark.parametrize("interval_ns", [0, made.MS])
def test_an_event_with_two_samples_is_counted_once(interval_ns: int) -> None:
    """A response has the delay of the answer, and that of the wake-up before it."""
    answers = latency(20, 1000, name="response")
    woken = latency(9, 1000, cpu=1, name="wake-up", interval_ns=interval_ns)
    step = made.step(0, [answers, woken], "response")
    assert "All 1 000 events were answered." in positive(built(made.run([step])))
    answers.gaps = ((100, 3),)
    run = built(made.run([made.step(0, [answers, woken], "response")]))
    said = [plain(point.text) for point in negative_points(run)]
    assert any(text.endswith("3 of 1 003 events without an answer.") for text in said), said
    if interval_ns:  # the wake-up belongs to the record that the event lacks
        woken.gaps = ((100, 3),)
        run = built(made.run([made.step(0, [answers, woken], "response")]))
        again = [plain(point.text) for point in negative_points(run)]
        assert [text for text in again if "without" in text or "missed" in text] == [
            text for text in said if "without" in text or "missed" in text
        ]
        seen = " ".join(plain(point.text) for point in _observations(run, run["steps"][0]))
        assert "periods were missed" not in seen


def test_ambiguous_answers_are_not_called_answered() -> None:
    run = built(made.run([made.step(0, [latency(20, 1000, name="response")], "response")]))
    assert "All 1 000 events were answered." in positive(run)
    run["series"][0]["lost"] = 3
    assert not any("answered" in text or "periods" in text for text in positive(run))


def test_late_answers_are_no_strength() -> None:
    run = built(made.run([made.step(0, [latency(20, 1000, name="response")], "log-host")]))
    columns = [{"name": "late", "unit": "count"}]
    run["tables"] = [{"step": 0, "name": "answers", "columns": columns, "rows": [[1]]}]
    assert not any("answered" in text for text in positive(run))


def test_a_run_without_a_sample_kept_none() -> None:
    run = built(made.run([made.step(0, [latency(20)])]))
    run["series"][0] |= {"count": 0, "missed": 1000}
    assert not any(text.startswith("Every sample") for text in positive(run))


def test_a_step_of_which_all_events_had_no_answer_is_not_left_out() -> None:
    steps = [
        made.step(number, [latency(20, count, name="response")], "response")
        for number, count in enumerate((1000, 1000))
    ]
    run = built(made.run(steps))
    run["series"][1] |= {"count": 0, "missed": 1000, "unanswered": 1000}
    said = positive(run)
    assert not any("answered" in text or "periods" in text for text in said)


def test_a_run_with_background_series_alone_kept_no_sample() -> None:
    run = built(made.run([made.step(0, [latency(20)])]))
    assert "Every sample was kept." in positive(run)
    run["steps"][0]["role"] = "background"
    assert not any(text.startswith("Every sample") for text in positive(run))


@pytest.mark.parametrize("lost_records", [0, 2])
def test_a_lost_record_may_have_missed_periods(lost_records: int) -> None:
    index = np.delete(np.arange(10_000), np.s_[3000:3500] if lost_records else [])
    series = made.FakeSeries(made.info(), index, np.full(len(index), 5000, np.int32))
    end = stream.StreamEnd(False, 100, 0, lost_records, "the end is missing", True)
    run = built(made.run([made.step(0, [series], end=end)], findings=[]))
    said = "None of 10 000 periods was missed."
    assert (said in positive(run)) == (not lost_records)
