# SPDX-License-Identifier: Apache-2.0
"""Strengths and concerns of a system, and the headline: requirements before tests."""

from __future__ import annotations

from typing import Any

import pytest

import report_runs as made
from rtgauge.report.results import model
from rtgauge.report.results.labels import step_number
from rtgauge.report.results.points import negative_points, verdict_of_run


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
        {**test, "result": "fail", "known_limitation": "nobody is"}
        if result == "known"
        else {**test, "result": result}
        for result, series in verdicts
        if series is None
    ]
    run["state"] = "complete"
    for step in run["steps"]:
        step["state"] = "complete"
    return run


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ([("fail", 0), ("fail", None)], "A requirement was not met"),
        ([("fail", 0), ("fail", 1)], "Requirements were not met"),
        ([("fail", None), ("pass", 0)], "A test failed"),
        ([("fail", None), ("fail", None)], "Some tests failed"),
        ([("pass", 0), ("pass", None)], "All requirements were met"),
        ([("pass", None)], "All tests passed"),
        ([("inconclusive", 0), ("pass", None)], "Inconclusive"),
        ([("known", None), ("pass", None)], "All other tests passed"),
        ([("known", None), ("pass", 0)], "All requirements were met"),
        ([("known", None), ("fail", None), ("pass", None)], "A test failed"),
    ],
)
def test_what_stands_above_everything(verdicts: list[tuple[str, int | None]], said: str) -> None:
    assert verdict_of_run(with_verdicts(*verdicts)).text == said


def test_what_was_skipped_is_no_success() -> None:
    run = with_verdicts(("pass", None))
    measured = [step for step in run["steps"] if step["role"] == "measurement"]
    for step in measured[1:]:
        step |= {"state": "skipped", "reason": "it takes two CPUs", "remedy": "use another machine"}
    said = verdict_of_run(run)
    assert said.kind == "warn"
    assert said.text.startswith("Incomplete: ")
    assert "It takes two CPUs." in said.note
    assert "1 test passed." in said.note


@pytest.mark.parametrize("verdicts", [[], [("pass", 0)], [("fail", 0)]])
def test_a_disturbance_on_purpose_stands_above_everything(
    verdicts: list[tuple[str, int | None]],
) -> None:
    run = with_verdicts(*verdicts)
    assert "injection" not in verdict_of_run(run).note
    run["steps"][0]["load"]["disturb"] = "kthread:200us:7.301ms"
    assert "An injection disturbed 1 step" in verdict_of_run(run).note
    run["findings"] = []
    assert "An injection disturbed 1 step" in verdict_of_run(run).note


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
    assert said[1].note == "use another machine"
