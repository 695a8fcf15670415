# SPDX-License-Identifier: Apache-2.0
"""Ratings by the rule, each part of it alone and together, and the evaluator's beside them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import report_runs as made
from rtgauge import stream
from rtgauge.report import model


def _catalogue(*names: str, chapter: str = "Threads") -> dict[str, Any]:
    return {"measurements": [{"name": name, "chapter": chapter} for name in names]}


def _ratings(steps: list[made.FakeStep], **more: Any) -> list[dict[str, Any]]:
    more.setdefault("catalogue", _catalogue("m", "n"))
    document = model.build(cast(Any, [made.run(steps, **more)]))
    model.validate(document)
    found: list[dict[str, Any]] = document["runs"][0]["ratings"]
    return found


def _series(number: int, values: Any, **more: Any) -> made.FakeSeries:
    values = np.asarray(values, np.int64)
    return made.FakeSeries(
        made.info(number, interval_ns=0, **more), np.arange(len(values)), values, chunk_rows=10**6
    )


def _verdicts(*results: str) -> list[stream.Verdict]:
    return [stream.Verdict(0, f"rule {at}", result, "", "") for at, result in enumerate(results)]


def _rating(steps: list[made.FakeStep]) -> int:
    (one,) = _ratings(steps)
    assert one["by"] == "rule" and one["rule"]
    return cast(int, one["rating"])


def test_what_is_good_throughout_has_ten() -> None:
    (one,) = _ratings([made.step(0, [_series(0, [900] * 50)], "m", verdicts=_verdicts("pass"))])
    assert (one["subject"], one["rating"]) == ("Threads", 10)
    assert one["evidence"] == "nothing was taken off"


def test_what_was_skipped_or_broke_off_is_named_beside_the_rating() -> None:
    steps = [
        made.step(0, [_series(0, [900] * 50)], "m", verdicts=_verdicts("pass", "skipped")),
        made.step(1, [], "n", state="failed", reason="no hand-over"),
    ]
    (one,) = _ratings(steps)
    assert one["rating"] == 7
    assert one["evidence"] == (
        "\N{MINUS SIGN}3 for 1 of 2 steps that failed; not counted: n (failed); "
        "not counted: 1 verdict skipped"
    )


def test_what_was_disturbed_on_purpose_is_not_rated() -> None:
    quiet = made.step(0, [_series(0, [900] * 50)], "m")
    disturbed = made.step(1, [_series(1, [900] * 49 + [200_000])], "m")
    assert _rating([quiet, disturbed]) < 10
    disturbed.document["disturb"] = "kthread:200us:7.301ms"
    (one,) = _ratings([quiet, disturbed])
    assert one["rating"] == 10
    assert "(disturbed on purpose)" in one["evidence"]
    assert _ratings([disturbed]) == []


def test_a_chapter_that_was_mostly_skipped_has_no_rating() -> None:
    steps = [made.step(0, [_series(0, [900] * 50)], "m", verdicts=_verdicts("pass"))]
    steps += [made.step(at, [], "n", state="skipped", reason="no right") for at in (1, 2)]
    assert _ratings(steps[:2])[0]["rating"] == 10
    assert _ratings(steps) == []


@pytest.mark.parametrize(
    ("results", "rating"),
    [
        (("pass", "fail"), 5),
        (("fail",), 0),
        (("fail", "pass", "pass", "pass", "pass"), 7),  # a fifth, but at least three
        (("fail", "skipped", "inconclusive"), 0),
        (("pass", "skipped"), 10),
    ],
)
def test_failed_verdicts_cost_their_share(results: tuple[str, ...], rating: int) -> None:
    assert _rating([made.step(0, [], "m", verdicts=_verdicts(*results))]) == rating


@pytest.mark.parametrize(
    ("largest", "rating"),
    [(10_000, 10), (10_001, 9), (31_000, 9), (32_000, 8), (100_000, 8), (101_000, 7),
     (1_000_000, 6), (9_000_000, 5), (10**9, 5)],
)  # fmt: skip
def test_a_far_maximum_costs_a_point_for_each_half_decade(largest: int, rating: int) -> None:
    assert _rating([made.step(0, [_series(0, [20] * 99 + [largest])], "m")]) == rating
    scaled = [_series(0, [5000] * 99 + [5 * largest])]
    assert _rating([made.step(0, scaled, "m")]) == rating


def test_ordinary_priority_stands_back_behind_real_time_priority() -> None:
    far = [20] * 99 + [10**6]
    other = _series(0, far, policy="other", priority=0, labels={"policy": "other"})
    calm = _series(1, [20] * 100, policy="fifo", priority=80, labels={"policy": "fifo"})
    assert _rating([made.step(0, [other, calm], "m")]) == 10
    assert _rating([made.step(0, [other], "m")]) == 6  # alone it is all there is


@pytest.mark.parametrize(("slow", "rating"), [(1, 10), (10, 9), (100, 8)])
def test_growth_costs_points(slow: int, rating: int) -> None:
    random = np.random.default_rng(1)
    series = [
        _series(at, random.normal(100 + slow * n, 2, 400), labels={"waiters": str(n)})
        for at, n in enumerate((1, 10, 30, 60, 90))
    ]
    assert _rating([made.step(0, series, "m")]) == rating


def test_missed_periods_cost_points() -> None:
    for missed, rating in ((1, 9), (30, 8), (400, 7)):
        index = np.concatenate([np.arange(5000), np.arange(5000 + missed, 10_000 + missed)])
        one = made.FakeSeries(
            made.info(), index, np.full(10_000, 900, np.int64), gaps=((4999, missed),)
        )
        assert _rating([made.step(0, [one], "m")]) == rating


def test_chapters_are_rated_each_by_its_own_steps() -> None:
    catalogue = {"measurements": [
        *_catalogue("m")["measurements"], *_catalogue("n", chapter="Mutexes")["measurements"],
        {"name": "old"}, *_catalogue("skipped", chapter="Signals")["measurements"],
    ]}  # fmt: skip
    steps = [
        made.step(0, [_series(0, [900] * 99 + [12_000])], "n"),
        made.step(1, [_series(0, [900] * 99)], "m", verdicts=_verdicts("fail", "fail")),
        made.step(2, [_series(0, [900] * 99)], "old"),
        made.step(3, [], "skipped", state="skipped", verdicts=_verdicts("skipped")),
        made.step(4, [_series(0, [20] * 99 + [10**6])], "n", role="calibration"),
    ]
    found = _ratings(steps, catalogue=catalogue)
    assert [(one["subject"], one["rating"]) for one in found] == [("Mutexes", 9), ("Threads", 0)]
    assert "2 of 2 verdicts failed (rule 0 and rule 1)" in found[1]["evidence"]


def test_the_evaluator_rates_what_no_program_can() -> None:
    plan = {"ratings": [
        {"subject": "documentation", "rating": 8, "reason": "complete"},
        {"subject": "x", "rating": 11}, {"subject": "y", "rating": True}, "no", {"rating": "5"},
    ]}  # fmt: skip
    found = _ratings([made.step(0, [_series(0, [900] * 50)], "m")], plan=plan)
    assert [one["by"] for one in found] == ["rule", "evaluator"]
    assert found[1] == {
        "subject": "documentation", "rating": 8, "rule": "", "evidence": "complete",
        "by": "evaluator",
    }  # fmt: skip
