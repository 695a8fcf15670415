# SPDX-License-Identifier: Apache-2.0
"""The summary on a terminal: complete, in 80 columns, and nothing in it that a terminal obeys."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import numpy as np
import pytest

import report_runs as made
from rtgauge import stream
from rtgauge import text as numbers
from rtgauge.report.render import terminal
from rtgauge.report.results import model


def summary(run: made.FakeRun, width: int = 80, **more: Any) -> str:
    return terminal.text(model.build([run]), width, **more)  # type: ignore[list-item]


@pytest.fixture(scope="module", name="evaluated")
def evaluate() -> model.Document:
    """The results of an evaluation with enough samples for rhythms and corrected percentiles."""
    return model.build([made.evaluation(2, 60_000)])  # type: ignore[list-item]


def joined(text: str) -> str:
    return " ".join(text.split())


def widest(text: str) -> int:
    """Columns of the longest line, commands excepted: they are never broken."""
    return max(len(one) for one in text.splitlines() if not one.lstrip().startswith("rtgauge "))


@pytest.mark.slow
def test_what_an_evaluation_says(evaluated: model.Document) -> None:
    text = terminal.text(evaluated, 80)
    words = joined(text)
    for expected in (
        "1 timer idle",
        "2 timer load sched, 41 200 messages/s",
        "49 007",
        "61",
        "calibration: ",
        "PREEMPT_RT,",
        "Configuration audit: 1 error (preemption) and 2 warnings (",
        "fail budget 150 µs (CPU 1)",
        "skipped",
        "no right to use real-time priorities",
        "Not fit: the budget",
        "Observed maximum ",
        "The figures hold for this configuration",
        "cpupower frequency-set -g performance",
    ):
        assert expected in words, expected
    assert "nosmt" not in text  # a note limits nothing
    assert widest(text) <= 80


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_it_fits_and_is_plain(width: int) -> None:
    text = summary(made.evaluation(3, 3000), width)
    assert widest(text) <= width
    assert not any(unicodedata.category(c) == "Cc" for c in text.replace("\n", ""))


def test_contexts_side_by_side_are_told_apart() -> None:
    def text(*contexts: str) -> str:
        stored = [
            made.sampled(np.full(30, 1000 + at, np.int64), at, context=context)
            for at, context in enumerate(contexts)
        ]
        return summary(made.run([made.step(0, stored)]))

    both = text("irq", "user")
    assert "latency in irq context (µs)" in both
    assert "latency in user context (µs)" in both
    assert "context (µs)" not in text("user")


def test_colour_is_only_there_when_asked() -> None:
    assert "\x1b[" in summary(made.evaluation(1, 3000), color=True)
    assert "\x1b" not in summary(made.evaluation(1, 3000))


@pytest.mark.slow
def test_the_corrected_column_differs_from_the_maximum(evaluated: model.Document) -> None:
    """60 000 periods, one stall of 61 of them: corrected, the 99.9th percentile lies within it."""
    lines = joined(terminal.text(evaluated, 80)).split(" 3 round-robin")[0]
    one = evaluated["runs"][0]["series"][3]
    shown = numbers.shown(one["corrected"]["percentiles"]["99.9"], "ns").text.replace(
        numbers.GAP, " "
    )
    assert one["corrected"]["percentiles"]["99.9"] < one["max"]
    assert "99.9 % 99.9 % corr. max" in lines
    assert f" {shown} 49 007 " in lines


def test_a_step_says_how_its_threads_were_scheduled() -> None:
    document = model.build([made.evaluation(2, 3000)])  # type: ignore[list-item]
    series = [one for one in document["runs"][0]["series"] if one["step"] == 0]
    for one in series:
        one.update(policy="fifo", priority=80, interval_ns=1_000_000)
    assert "1 timer idle, SCHED_FIFO 80, interval 1 ms" in joined(terminal.text(document, 80))
    series[0].update(priority=70, interval_ns=500_000)
    words = numbers.plain(joined(terminal.text(document, 80)))
    assert "1 timer idle, SCHED_FIFO 70 to 80, interval 500 us to 1 ms" in words


def test_few_samples_have_the_highest_percentile_there_is() -> None:
    words = joined(summary(made.run([made.step(0, [few(5000)])])))
    assert "median 99 % max" in words and "too few samples" not in words
    words = joined(summary(made.run([made.step(0, [few(5)])])))
    assert "median 99.9 % max" in words and words.count("too few samples for this percentile") == 1


def few(number: int) -> made.FakeSeries:
    return made.sampled(np.full(number, 5000, np.int32))


def test_ordinary_priority_is_said_in_the_heading() -> None:
    series = made.sampled(np.arange(9, dtype=np.int32), policy="other")
    words = joined(summary(made.run([made.step(0, [series])])))
    assert "1 timer idle, SCHED_OTHER" in words


def test_a_calibration_asked_for_alone_has_its_table() -> None:
    aside = made.evaluation(2, 3000)
    alone = made.run([step for step in aside.steps if step.document["role"] == "calibration"])
    assert "cost (µs)" not in summary(aside)
    assert "cost (µs)" in summary(alone)


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (None, None, "max 0.120 us, median"),
        (5_000_000, None, "max >= 5 000 us, median"),
        (None, 5_000_000, "max >= 5 000 us, median"),
        (120, None, "max >= 0.120 us, median"),
    ],
)
def test_the_maximum_of_a_calibration_can_be_a_lower_limit(
    first: int | None, second: int | None, text: str
) -> None:
    document = model.build([made.evaluation(2, 3000)])  # type: ignore[list-item]
    (run,) = document["runs"]
    (number,) = [one["step"] for one in run["steps"] if one["role"] == "calibration"]
    one = next(one for one in run["series"] if one["step"] == number)
    one["max"], one["max_at_least"] = 120, first
    place = run["series"].index(one)
    run["series"].insert(place + 1, {**one, "max": 110, "max_at_least": second, "cpu": 7})
    line = next(
        line
        for line in numbers.plain(terminal.text(document, 100)).splitlines()
        if "calibration: " in line
    )
    assert text in line


def test_an_old_terminal() -> None:
    text = summary(made.evaluation(1, 3000), encoding="ascii")
    assert text.isascii() and "latency (us)" in text and "?" not in text


def test_hostile_names() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J[red]x[/red]\n\u202egpj"
    series = made.sampled(np.arange(30, dtype=np.int32), name=evil, labels={evil: evil})
    step = made.step(
        0,
        [series],
        evil,
        load=evil,
        state="failed",
        reason=evil,
        remedy=evil,
        verdicts=[stream.Verdict(0, evil, "fail", evil, evil)],
    )
    text = summary(made.run([step], target=evil, label=evil))
    bad = {c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"}
    assert bad == set()
    assert "[red]x[/red]" in text  # shown, not obeyed


def test_one_verdict_never_speaks_for_another() -> None:
    """Two series pass, one with exceedances: the evidence shown is that of the worse."""
    hours = made.info(interval_ns=3600 * 10**9), made.info(1, 1, interval_ns=3600 * 10**9)
    good = made.FakeSeries(hours[0], np.arange(4000), np.full(4000, 5000, np.int32))
    late = np.full(4000, 5000, np.int32)
    late[[7, 300, 2000]] = 200_000
    worse = made.FakeSeries(hours[1], np.arange(4000), late)
    step = made.step(0, [good, worse], budget_ns=150_000, rate_per_hour=0.02)
    words = joined(summary(made.run([step])))
    assert "pass budget 150 µs (CPU 0 and CPU 1): CPU 1: 150 µs exceeded in 3 episodes" in words
    assert "never exceeded" not in words


def test_counters_of_the_stream() -> None:
    simple = made.simple()
    simple.series.lost = ((500, 7123, 912_000),)
    step = simple.run.steps[0]
    step.end = stream.StreamEnd(False, 321, 4711, 52, "cut inside a record", True)
    words = joined(summary(simple.run))
    for expected in ("7 123", "912", "52 records", "4 711 bytes", "cut inside a record"):
        assert expected in words, expected


def test_many_findings_are_told_in_few_lines() -> None:
    document = model.build([made.evaluation(1, 3000)])  # type: ignore[list-item]
    document["runs"][0]["findings"] = [
        {
            "check": f"c{i}",
            "found": "f",
            "level": level,
            "why": "w",
            "remedy": f"remedy {i}",
            "command": "",
        }
        for i, level in enumerate(["warning"] * 6 + ["error", "note"])
    ]
    text = terminal.text(document, 80)
    limits = "Configuration audit: 1 error (c6) and 6 warnings (c0, c1, c2 and 3 more)."
    assert limits in joined(text)
    assert "c7" not in text


@pytest.fixture(scope="module", name="labelled")
def measure_two_methods() -> model.Document:
    """The results of two methods on two CPUs, with misses."""
    series = [
        made.FakeSeries(
            made.info(at, at // 2, labels={"method": method}),
            np.arange(1500) * 3,
            made.latencies(np.random.default_rng(at), 1500),
        )
        for at, method in enumerate(["clock_nanosleep", "timerfd"] * 2)
    ]
    return model.build([made.run([made.step(0, series)])])  # type: ignore[list-item]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_labels_are_whole_where_there_is_no_room_for_columns(
    labelled: model.Document, width: int
) -> None:
    text = terminal.text(labelled, width)
    assert widest(text) <= width
    rows = text[text.index("1 timer") :]
    for word in ("clock_nanosleep", "timerfd"):
        assert rows.count(word) >= 3, text  # two series, and the row side by side
    if width == 40:
        assert "CPU 0, method clock_nanosleep\n  min " in rows, text
    if width < 80:
        assert re.search(r"side by side\nclock_nanosleep\n  time ", rows), text
    else:
        assert re.search(r"side by side +time +samples", rows), text


def test_the_answers_of_runs_of_one_target_have_numbers() -> None:
    series = made.sampled(np.arange(100, dtype=np.int32))
    runs = [made.run([made.step(0, [series])], target=name) for name in ("ssh://a", "b", "ssh://a")]
    text = terminal.text(model.build(runs), 80)  # type: ignore[arg-type]
    heads = [line.partition(": No budget")[0] for line in text.splitlines() if ": No bud" in line]
    assert heads == ["Run 1, ssh://a", "b", "Run 3, ssh://a"]


@pytest.mark.parametrize("width", [44, 60, 80])
def test_no_line_breaks_within_a_figure(evaluated: model.Document, width: int) -> None:
    text = terminal.text(evaluated, width)
    for figure in ("95 %", "20 000", "150 µs", "120 000", "41 200"):
        assert 0 < joined(text).count(figure) == text.count(figure), figure
