# SPDX-License-Identifier: Apache-2.0
"""What a report gives in place of a score: spread, the place among published maxima, and the
ratings that the evaluator gave."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import report_runs as made
from rtgauge import reference, stream
from rtgauge.report.document.summary import short
from rtgauge.report.render import html, junit, markdown, terminal
from rtgauge.report.results import model
from rtgauge.report.results.points import negative_points, positive_points
from rtgauge.report.results.published import place_text

CLOCK: dict[str, Any] = {"labels": {"method": "clock_nanosleep"}}


def _run(steps: list[made.FakeStep], **more: Any) -> dict[str, Any]:
    document = made.built(made.run(steps, **more))
    run: dict[str, Any] = document["runs"][0]
    return run


def _series(number: int, values: Any, interval_ns: int = 0, **more: Any) -> made.FakeSeries:
    values = np.asarray(values, np.int64)
    return made.sampled(values, number, interval_ns=interval_ns, **more, chunk_rows=10**6)


def _places(series: list[made.FakeSeries], measurement: str = "timer", **more: Any) -> Any:
    found = []
    for one in _run([made.step(0, series, measurement, **more)])["steps"][0]["places"]:
        found.append((one["series"], one["lower"], one["published"], one["least_us"]))
    return found


def test_nothing_but_the_evaluator_rates() -> None:
    """A median of 2 ms with a maximum of 20 ms had ten of ten."""
    calm = [2_000_000] * 9999 + [20_000_000]
    verdicts = [stream.Verdict(0, "in turn", "fail", "", "")]
    catalogue = {"measurements": [{"name": "m", "chapter": "Threads"}]}
    run = _run([made.step(0, [_series(0, calm)], "m", verdicts=verdicts)], catalogue=catalogue)
    assert run["ratings"] == []


def test_the_evaluator_rates_what_no_program_can() -> None:
    plan = {"ratings": [
        {"subject": "documentation", "rating": 8, "reason": "complete"},
        {"subject": "support", "rating": "N.A.", "reason": "not asked"},
        {"subject": "x", "rating": 11}, {"subject": "y", "rating": True}, "no", {"rating": "5"},
    ]}  # fmt: skip
    runs = cast(Any, [made.run([made.step(0, [_series(0, [900] * 50)], "m")], plan=plan)])
    document = made.built(*runs)
    assert document["runs"][0]["ratings"] == plan["ratings"][:2]
    analysis = model.analyse(runs)
    for text in (terminal.text(document), markdown.render(short(analysis)), junit.render(document),
                 html.render(analysis)):  # fmt: skip
        assert "8 of 10" in text and "N.A." in text and "not asked" in text


@pytest.mark.study(54, 114)
def test_points_and_notes_of_the_evaluator_are_in_every_report() -> None:
    plan: dict[str, Any] = {
        "points": [{"favour": "for", "text": "No licence fees"},
                   {"favour": "against", "text": "Old kernel <b>"}, {"favour": "x"}, "no"],
        "notes": {"hardware": "PLB 132 MHz\nOPB 66 MHz", "support": "by the list",
                  "acronyms": "PLB: processor local bus", "changes": "issue 2"},
    }  # fmt: skip
    runs = cast(Any, [made.run([made.step(0, [_series(0, [900] * 50)], "m")], plan=plan)])
    document = made.built(*runs)
    assert document["runs"][0]["points"] == plan["points"][:2]
    assert [one["subject"] for one in document["runs"][0]["notes"]] == [
        "hardware", "support", "acronyms", "changes",
    ]  # fmt: skip
    (run,) = document["runs"]
    assert "No licence fees" in [point.text for point in positive_points(run)]
    assert "Old kernel <b>" in [point.text for point in negative_points(run)]
    assert all(point.note for point in positive_points(run) if "license" in point.text)
    analysis = model.analyse(runs)
    for text in (markdown.render(short(analysis)), html.render(analysis)):
        for words in (
            "No licence fees", "Old kernel", "OPB 66 MHz", "by the list", "processor local bus",
            "issue 2", made.ENVIRONMENT["cpu"]["model"], made.ENVIRONMENT["kernel"]["release"],
        ):  # fmt: skip
            assert words in text
    assert "Old kernel &lt;b&gt;" in html.render(analysis)


@pytest.mark.parametrize(
    ("values", "spread"),
    [
        ([1000] * 9989 + [5000] * 11, 5),
        ([1000] * 9989 + [5000] * 10 + [10**6], 5),  # the largest sample alone changes nothing
        ([1000] * 9000 + [5000] * 10, None),  # too few samples for a 99.9 % value
        ([-1000] * 10_000, None),
        ([0] * 9989 + [10] * 11, None),
    ],
)
def test_spread_is_the_tail_over_the_median(values: list[int], spread: float | None) -> None:
    (one,) = _run([made.step(0, [_series(0, values)], "m")])["series"]
    assert one["spread"] == spread


def test_spread_counts_the_periods_that_were_skipped() -> None:
    index = np.concatenate([np.arange(5000), np.arange(5100, 10_100)])
    values = np.full(10_000, 1000, np.int64)
    one = made.FakeSeries(made.info(), index, values, gaps=((4999, 100),))
    series = _run([made.step(0, [one], "m")])["series"][0]
    assert series["percentiles"]["99.9"] == 1000
    assert series["spread"] == series["corrected"]["percentiles"]["99.9"] / 1000 > 1000
    answers = made.FakeSeries(made.info(name="response"), index, values, gaps=((4999, 100),))
    assert _run([made.step(0, [answers], "response")])["series"][0]["spread"] is None


def test_a_maximum_has_a_place_among_published_ones_of_its_quantity_and_load() -> None:
    known = sorted(
        row.max_us
        for row in reference.rows()
        if (row.measurement, row.series, row.context) == ("timer", "latency", "user")
        and row.load != "idle"
        and row.labels.get("method", "clock_nanosleep") == "clock_nanosleep"
        and row.max_us is not None
    )
    assert len(known) > 5
    series = [_series(0, [20_000, 91_000], **CLOCK)]
    lower = sum(value < 91 for value in known)
    assert 0 < lower < len(known)
    assert _places(series, load="sched") == [(0, lower, len(known), known[0])]
    assert _places(series) == []  # idle: not published
    assert _places(series, load="unknown") == []
    assert _places([_series(0, [91_000], policy="other", priority=0, **CLOCK)], load="sched") == []
    assert _places([_series(0, [91_000], name="drift", **CLOCK)], load="sched") == []
    assert _places([_series(0, [91_000], context="kernel")], load="sched")[0][2] == 3


def test_two_published_figures_are_too_few_for_a_place() -> None:
    assert _places([_series(0, [91_000], labels={"method": "itimer"}, context="irq")]) == []
    series = [_series(0, [91_000], name="switch", labels={"threads": "2"})]
    assert _places(series, "thread-switch") == []


def test_series_of_several_cpus_have_one_place() -> None:
    series = [_series(at, [value], cpu=at, **CLOCK) for at, value in enumerate((9000, 91_000, 70))]
    ((place, *_),) = _places(series, load="sched")
    assert place == 1


def test_what_is_known_only_to_be_larger_counts_where_it_is_larger_in_any_case() -> None:
    def of(value: int) -> tuple[int, int]:
        one = _series(0, [value], 10_000_000, name="response", labels={"method": "gpio"})
        ((_, lower, published, _),) = _places([one], "log-host", load="sched")
        return lower, published

    below, above = of(29_000_000), of(31_000_000)
    assert above[1] == below[1] - 2  # two studies: above 30 ms, as the period ended there
    assert above[0] == above[1]


def test_a_place_with_unanswered_events_is_not_known() -> None:
    def run(*gaps: tuple[int, int]) -> Any:
        index = np.arange(10) + np.where(np.arange(10) > 4, 3 if gaps else 0, 0)
        one = made.FakeSeries(made.info(name="response"), index, np.full(10, 91_000), gaps=gaps)
        return _places([one], "log-host", load="sched")

    assert run() and not run((4, 3))


@pytest.mark.parametrize(
    ("lower", "words"),
    [
        (0, "not larger than any of 9"),
        (1, "larger than 1 of 9"),
        (8, "larger than 8 of 9"),
        (9, "larger than all 9"),
    ],
)
def test_a_place_below_or_above_all_published_maxima(lower: int, words: str) -> None:
    """It was larger than 0 of 9 published maxima."""
    run = model.build(
        [cast(Any, made.run([made.step(0, [_series(0, [91_000], **CLOCK)], load="sched")]))]
    )
    place = {"series": 0, "lower": lower, "published": 9, "least_us": 30.0, "most_us": 177.0}
    assert f": {words} published maxima (" in place_text(place, run["runs"][0])


def test_two_places_in_one_step_name_their_series() -> None:
    """Two different places, "larger than 8 of 9" and "larger than all 7", named no method."""
    methods = ("nanosleep", "timerfd")
    series = [_series(0, [91_000], labels={"method": name}) for name in methods]
    run = model.build([cast(Any, made.run([made.step(0, series, load="sched")]))])["runs"][0]
    places = [
        {"series": at, "lower": 1, "published": 9, "least_us": 30.0, "most_us": 177.0}
        for at in range(len(series))
    ]
    run["steps"][0]["places"] = places
    for place, method in zip(places, methods, strict=True):
        assert place_text(place, run).startswith(f"latency, method {method}, max ")


def test_every_format_says_the_place_and_none_ranks() -> None:
    runs = cast(Any, [made.run([made.step(0, [_series(0, [91_000], **CLOCK)], load="sched")])])
    document = model.build(runs)
    analysis = model.analyse(runs)
    for text in (terminal.text(document), markdown.render(short(analysis)), junit.render(document),
                 html.render(analysis)):  # fmt: skip
        plain = " ".join(text.replace("\N{NARROW NO-BREAK SPACE}", " ").split())
        assert "larger than 4 of 9 published maxima" in plain.replace("\\", "")
        assert "under load" in plain
