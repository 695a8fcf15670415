# SPDX-License-Identifier: Apache-2.0
"""What a budget's verdict counts: events without an answer, episodes, operations without a grid."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import report_runs as made
from rtgauge import stats, stream
from rtgauge.report.document.answer import answer_of
from rtgauge.report.document.summary import short
from rtgauge.report.document.views import views
from rtgauge.report.render import compare_text, html, junit, ktap, markdown, terminal
from rtgauge.report.results import labels, model
from rtgauge.report.results.bounds import SHORT, WAIT
from rtgauge.report.sets import compare
from rtgauge.report.sets.compare import RunSet
from rtgauge.stats import samples_needed
from rtgauge.text import GAP, plain

US, MS, S = 1000, 10**6, 10**9
HOUR_NS = 3600 * S


def only(run: made.FakeRun) -> dict[str, Any]:
    document = made.built(run)
    one: dict[str, Any]
    (one,) = document["runs"]
    return one


def judged(step: made.FakeStep) -> dict[str, Any]:
    (verdict,) = only(made.run([step]))["verdicts"]
    found: dict[str, Any] = verdict
    return found


# --- events without an answer --------------------------------------------------------------------


def answers(
    lost: set[int], number: int = 600, interval_ns: int = 10 * MS, **more: Any
) -> made.FakeSeries:
    """A response of 300 us to each event but those of ``lost``."""
    index = np.array([at for at in range(number) if at not in lost], np.int64)
    gaps: list[tuple[int, int]] = []
    before = -1
    for at in range(number):
        if at in lost:
            if gaps and gaps[-1][0] + gaps[-1][1] + 1 == at:
                gaps[-1] = (gaps[-1][0], gaps[-1][1] + 1)
            else:
                gaps.append((before, 1))
        else:
            before = at
    info = made.info(name="response", interval_ns=interval_ns, labels={"line": "net"})
    value = np.full(len(index), 300 * US, np.int32)
    return made.FakeSeries(info, index, value, gaps=tuple(gaps), chunk_rows=50, **more)


def headed(measurement: str, **parameters: str) -> stream.Header:
    values = {name.rstrip("_"): stream.Parameter(None, text) for name, text in parameters.items()}
    return dataclasses.replace(made.header(0, measurement), parameters=values)


def log_host(series: made.FakeSeries, timeout: str | None = None, **more: Any) -> made.FakeStep:
    header = headed("log-host", **({} if timeout is None else {"timeout": timeout}))
    return made.step(0, [series], "log-host", header=header, **more)


EACH_TENTH = set(range(5, 600, 10))


def test_an_unanswered_event_exceeds_every_budget_up_to_the_timeout() -> None:
    """60 of 600 datagrams dropped: 36 000 an hour, where 4000 are allowed."""
    step = log_host(answers(EACH_TENTH), budget_ns=9_900_000, rate_per_hour=4000.0)
    found = judged(step)
    assert found["result"] == "fail"
    assert "exceeded in 60 episodes (60 of 600 events)" in found["evidence"]
    assert "60 events were not answered within 10 000 us" in plain(found["evidence"])
    hard = log_host(answers({77}), budget_ns=10 * MS)
    assert judged(hard)["result"] == "fail"
    none = log_host(answers(set()), budget_ns=9_900_000, rate_per_hour=4000.0)
    assert judged(none)["result"] == "pass"


@pytest.mark.slow
def test_beyond_the_timeout_nobody_knows() -> None:
    for timeout, budget, result in (
        (None, 10 * MS + 1, "inconclusive"),
        ("", 10 * MS + 1, "inconclusive"),  # a response without a timeout of its own
        ("4ms", 4 * MS, "fail"),
        ("4ms", 4 * MS + 1, "inconclusive"),
        ("0", 10 * MS, "fail"),
        ("20ms", 20 * MS, "fail"),  # the next event was held back
        ("20ms", 20 * MS + 1, "inconclusive"),
    ):
        found = judged(log_host(answers(EACH_TENTH), timeout, budget_ns=budget))
        assert found["result"] == result, (timeout, budget)
        if result == "inconclusive":
            assert "60 more of unknown value" in found["evidence"]


@pytest.mark.parametrize("rate", [None, 0.0, 4000.0])
def test_waits_below_the_budget_are_not_mended_by_a_longer_run(rate: float | None) -> None:
    run = only(made.run([log_host(answers(EACH_TENTH), budget_ns=20 * MS, rate_per_hour=rate)]))
    (found,) = run["verdicts"]
    assert found["result"] == "inconclusive"
    if rate:  # as many unknown answers may be allowed
        assert "longer" in found["remedy"] and found["needed_s"] and not found["doubt"]
        return
    title, remedy = SHORT, WAIT
    if rate == 0:
        title = "no run can show that something never happens"
        remedy = f"{title}: allow a rate (--rate 1/h)"
    assert found["remedy"] == remedy
    assert found["doubt"] == title and found["needed_s"] is None
    assert answer_of(run).title.endswith(title)


@pytest.mark.parametrize("budget", [10 * MS - 1, 10 * MS])
def test_an_event_without_an_answer_in_the_budget_exceeded_it(budget: int) -> None:
    run = made.run([log_host(answers({3}), budget_ns=budget, rate_per_hour=1000.0)])
    found = answer_of(only(run))
    assert "exceeded in 1 episode" in found.sure[0].text
    assert found.title.endswith("exceeded, but the run is too short to tell how often")


@pytest.mark.slow
def test_a_dithered_event_is_waited_for_until_the_next_one() -> None:
    """Events are due at their offsets: the wait of one is shorter than the interval, of another
    longer, and the timeout limits both."""
    series = answers({2, 5})
    offset = np.zeros(600, np.int32)
    offset[2], offset[5] = 7 * MS, -3 * MS
    info = made.info(1, name="dither", companion=0, interval_ns=10 * MS)
    series.companion = made.FakeSeries(info, np.arange(600), offset, chunk_rows=3)
    one = only(made.run([log_host(series)]))["series"][0]
    assert (one["unanswered"], one["max_at_least"]) == (2, 10 * MS)
    assert "exceeded 2 times" in judged(log_host(series, budget_ns=3 * MS))["evidence"]
    found = judged(log_host(series, budget_ns=4 * MS))
    assert "exceeded once" in found["evidence"] and "1 more of unknown" in found["evidence"]
    assert found["remedy"].startswith("find out why events had no answer")


@pytest.mark.slow
@pytest.mark.study(17)
def test_every_output_shows_the_maximum_as_a_lower_limit() -> None:
    run = made.run([log_host(answers(EACH_TENTH, interval_ns=20 * MS), budget_ns=15 * MS)])
    document = model.build([run])  # type: ignore[list-item]
    one = document["runs"][0]["series"][0]
    assert (one["max"], one["max_at_least"], one["unanswered"]) == (300 * US, 20 * MS, 60)
    bound = one["bound"]
    assert bound["samples"] == 600
    assert bound["probability"] == stats.exceedance_bound(600, 0.95, 60) > 0.1
    assert bound["rate_per_hour"] == stats.rate_bound(12.0, 0.95, 60)
    (card,) = views(model.analyse([run])).runs[0]["cards"]  # type: ignore[list-item]
    assert card["more"].endswith("exceeds this or has no answer, if events are independent.")
    limit = "≥\u202f20\u202f000"
    texts = {
        "terminal": terminal.text(document, 100),
        "markdown": markdown.render(short(model.analyse([run]))),  # type: ignore[list-item]
        "html": html.render(model.analyse([run])),  # type: ignore[list-item]
        "junit": junit.render(document),
        "ktap": ktap.render(document),
    }
    for name, text in texts.items():
        assert limit in text or "≥ 20 000" in text, name
        if name == "markdown":
            assert "60 of 600 events were not answered" in text.replace("\u202f", " ")
        elif name == "html":
            assert "(60 not answered)" in text, name
    assert "60 of 600 events were not answered" in " ".join(texts["terminal"].split())
    assert ">= 20 000" in terminal.text(document, 100, encoding="ascii")


def test_percentiles_are_those_of_all_events() -> None:
    """10 % without an answer: the 99th percentile of the events is not that of the answers."""
    series = answers(set(range(3, 1000, 10)), 1000)
    series.value[:] = np.random.default_rng(3).permutation(900) + 1
    analysis = model.analyse([made.run([log_host(series)])])  # type: ignore[list-item]
    one = analysis.model["runs"][0]["series"][0]
    assert one["percentiles"] == {"50": 500, "90": 900}
    low, high = one["percentile_ci"]["50"]  # 469 to 532 for samples that are surely independent
    assert 440 < low <= 469 and 532 <= high < 560
    assert one["percentile_ci"]["90"][1] is None
    found = compare.compare(analysis, [RunSet("one", (0,)), RunSet("two", (0,))])
    (quantity,) = found.document["quantities"]
    assert quantity["rows"][0]["figures"]["50"] == 500
    assert (quantity["tail"], quantity["rows"][0]["figures"]["tail"]) == ("90", 900)


def test_most_events_without_an_answer() -> None:
    """Few answers say that events are not answered, and nothing better."""
    (one,) = only(made.run([log_host(answers(set(range(100, 600))))]))["series"]
    assert one["percentiles"] == {}
    text = labels.claim([one], ["CPU 0"]).replace(GAP, " ")
    assert "at most 86 % of further events have no answer, or take longer than 300 µs" in text


def test_an_event_without_any_answer_has_a_maximum() -> None:
    series = answers(set(range(600)))
    step = log_host(series, budget_ns=5 * MS, rate_per_hour=1.0)
    run = only(made.run([step]))
    one = run["series"][0]
    assert (one["max"], one["max_at_least"], one["unanswered"]) == (None, 10 * MS, 600)
    assert "≥" in terminal.text({"runs": [run], "bounds": []}, 100)


def test_sets_compare_lower_limits_without_a_ratio() -> None:
    """A limit over a maximum is not a ratio."""
    steps = [log_host(answers(lost)) for lost in (set(), {5, 300})]
    runs = [
        made.run([step], id=f"0192f0c4-6d1e-7aaa-8000-00000000000{at}", boot_id=f"b{at}")
        for at, step in enumerate(steps)
    ]
    analysis = model.analyse(runs, pictures=False)  # type: ignore[arg-type]
    found = compare.compare(analysis, [RunSet("one", (0,)), RunSet("two", (1,))])
    compare.validate(found.document)
    (quantity,) = found.document["quantities"]
    assert [row["figures"]["max"] for row in quantity["rows"]] == [300 * US, 10 * MS]
    assert quantity["rows"][1]["ratio"]["max"] is None
    assert "lower limit" in " ".join(quantity["rows"][1]["marks"])
    assert "≥ 10 000" in compare_text.terminal(found.document, 100)


def test_a_late_answer_larger_than_the_timeout_is_the_least_maximum() -> None:
    series = answers({5})
    series.value[7] = 35 * MS
    one = only(made.run([log_host(series)]))["series"][0]
    assert one["max"] == one["max_at_least"] == 35 * MS


def test_a_short_circuit_has_no_corrected_figures() -> None:
    """A log host's own edge that did not come back says nothing of how late it would have been."""
    series = answers({5})
    series.info = dataclasses.replace(series.info, name="own-error")
    one = only(made.run([log_host(series)]))["series"][0]
    assert one["corrected"] is None
    assert (one["max_at_least"], one["unanswered"]) == (10 * MS, 1)


def test_events_that_were_held_back_take_their_time() -> None:
    """Each unanswered one was waited for for 100 ms: the rate is one of the time that passed."""
    step = log_host(answers(EACH_TENTH), "100ms")
    step.trailer = stream.Trailer(9, "complete", "", "", 12 * S, 9, (), 0)
    one = only(made.run([step]))["series"][0]
    assert (one["bound"]["duration_s"], one["max_at_least"]) == (12.0, 100 * MS)
    all_answered = log_host(answers(set()), "100ms")
    all_answered.trailer = step.trailer
    assert only(made.run([all_answered]))["series"][0]["bound"]["duration_s"] == 6.0


def test_events_after_late_answers_were_held_back() -> None:
    """Each answer took longer than the interval, and held the next event back for another one."""
    series = answers(set())
    series.value[:] = 13 * MS
    series.value[300] = 16 * MS
    step = log_host(series, "100ms", budget_ns=15 * MS, rate_per_hour=50.0)
    step.trailer = stream.Trailer(9, "complete", "", "", 12 * S, 9, (), 0)
    assert only(made.run([step]))["series"][0]["bound"]["duration_s"] == 12.0


def test_a_capture_holds_no_event_back() -> None:
    """The length of the capture after the last event says nothing about the events."""
    step = log_host(answers({77}), budget_ns=10 * MS, rate_per_hour=10.0)
    step.header = dataclasses.replace(step.header, machine="")
    step.trailer = stream.Trailer(9, "complete", "", "", 3600 * S, 9, (), 0)
    run = only(made.run([step]))
    assert run["series"][0]["bound"]["duration_s"] == 6.0
    assert run["verdicts"][0]["result"] != "pass"


# --- episodes ------------------------------------------------------------------------------------


def over_budget(
    values: np.ndarray[Any, Any], gaps: dict[int, int], budget: int, interval: int
) -> list[int]:
    """The grid points that exceed, missed ones included, by plain arithmetic."""
    points = []
    at = 0
    for value in values:
        if value > budget:
            points.append(at)
        missed = gaps.get(at, 0)
        wake = max(int(value), missed * interval)
        points += [at + k for k in range(1, missed + 1) if wake - k * interval > budget]
        at += 1 + missed
    return points


@given(
    over=st.sets(st.integers(0, 150), max_size=25),
    stalls=st.dictionaries(st.integers(0, 150), st.integers(1, 40), max_size=4),
    held=st.sets(st.integers(0, 150), max_size=2),
    budget=st.sampled_from([150 * US, 2 * MS, 12 * MS]),
    rows=st.integers(1, 60),
)
@examples(max_examples=80, deadline=None)
@pytest.mark.slow
def test_episodes_are_those_of_plain_arithmetic(
    over: set[int], stalls: dict[int, int], held: set[int], budget: int, rows: int
) -> None:
    values, index, gaps, at = [], [], {}, 0
    for sample in range(151):
        missed = stalls.get(sample, 0)
        value = 200 * US if sample in over else 5 * US
        if missed and sample not in held:  # else it was held up after its stamp
            value += missed * MS
        index.append(at)
        values.append(value)
        if missed:
            gaps[at] = missed
        at += 1 + missed
    array = np.array(values, np.int32)
    series = made.FakeSeries(
        made.info(), np.array(index, np.int64), array, gaps=tuple(gaps.items()), chunk_rows=rows
    )
    step = made.step(0, [series], budget_ns=budget, rate_per_hour=1e6)
    points = over_budget(array, gaps, budget, MS)
    episodes = sum(1 for k, p in enumerate(points) if k == 0 or p - points[k - 1] >= stats.NEAR)
    evidence = judged(step)["evidence"]
    if not points:
        assert "never exceeded" in evidence
    elif len(points) > 1 and len(points) * stats.NEAR > at:
        assert f"exceeded {len(points)} times in {at} " in evidence and "too often" in evidence
    else:
        s = "" if episodes == 1 else "s"
        assert f"exceeded in {episodes} episode{s} ({len(points)} of {at} " in evidence


@pytest.mark.parametrize(
    ("late", "result"),
    [
        (range(2000, 5000), "inconclusive"),  # one stall
        ([*range(2000, 3500), *range(6000, 7500)], "inconclusive"),  # two
        (range(0, 15_000, 5), "fail"),  # 3000 single ones, within 5 intervals of each other
        (range(2000, 14_000), "fail"),  # the rule, not a disturbance
    ],
)
def test_many_late_periods_in_a_row_may_be_one_event(late: Sequence[int], result: str) -> None:
    values = np.full(15_000, 5 * US, np.int32)
    values[list(late)] = MS
    series = made.sampled(values, interval_ns=10 * MS, chunk_rows=1000)
    found = judged(made.step(0, [series], budget_ns=150 * US, rate_per_hour=1000.0))
    assert found["result"] == result


@pytest.mark.slow
def test_stalls_within_the_requirement_do_not_fail() -> None:
    """Two stalls of 50 ms in 10 h, one an hour allowed: 100 late samples are two episodes."""
    interval = 100 * MS  # fewer samples, the same arithmetic
    number = 36_000 * 10
    values = np.full(number, 5 * US, np.int32)
    for start in (70_000, 250_000):
        values[start : start + 50] = 1 * MS
    series = made.sampled(values, interval_ns=interval, chunk_rows=10_000)
    found = judged(made.step(0, [series], budget_ns=150 * US, rate_per_hour=1.0))
    assert found["result"] == "pass"
    assert "in 2 episodes (100 of" in found["evidence"]


class Counted(made.FakeSeries):
    """A series of which the histogram alone was kept."""

    @property
    def totals(self) -> stream.SeriesTotals:
        assert self.histogram is not None
        count = self.histogram.count
        return stream.SeriesTotals(0, count, 0, 0, 0, 0, (count - 1) * self.info.interval_ns)


def counted(value: int, number: int, late: int) -> Counted:
    """One sample each second: ``number`` of this value, and ``late`` of 1 ms."""
    buckets = np.array([[stats.bucket_of(value), number], [stats.bucket_of(MS), late]], np.int64)
    total = number * value + late * MS
    snapshot = stream.Histogram(9, 0, number + late, value, MS, total, 0, 0, 0, 7, buckets)
    info = made.info(histogram_only=True, interval_ns=S)
    return Counted(info, np.arange(0), np.empty(0, np.int32), histogram=snapshot)


def test_a_histogram_fails_nothing_that_one_stall_explains() -> None:
    """100 of 36 000 samples exceed in ten hours: as one stall within the requirement, as single
    events far beyond it."""
    series = counted(5 * US, 35_900, 100)
    found = judged(made.step(0, [series], budget_ns=150 * US, rate_per_hour=1.0))
    assert found["result"] == "inconclusive"
    assert "in 1 to 100 episodes (100 of" in found["evidence"]
    assert "times are not known" in found["evidence"]
    generous = made.step(0, [series], budget_ns=150 * US, rate_per_hour=20.0)
    assert judged(generous)["result"] == "pass"
    assert judged(made.step(0, [series], budget_ns=150 * US))["result"] == "fail"


def test_samples_in_the_bucket_of_the_budget_fail_nothing() -> None:
    """All but one of 36 000 samples in ten hours are 150.0 us, and so in the bucket of a budget of
    150.2 us, which has values above it, too."""
    assert int(stats.bucket_of(150 * US)) == int(stats.bucket_of(150_200))
    series = counted(150 * US, 35_999, 1)
    found = judged(made.step(0, [series], budget_ns=150_200, rate_per_hour=1.0))
    assert found["result"] == "inconclusive"
    assert "in 1 episode (1 of 1 wake-up)" in found["evidence"]
    assert "35 999 more of unknown value" in plain(found["evidence"])
    assert found["doubt"] == "samples in the histogram's bucket of the budget may exceed it"
    assert (found["needed_s"], found["command"]) == (None, "")
    assert found["remedy"] == (
        "measure again in a run that keeps its samples: without --histogram-only, at a longer "
        "--interval or on fewer CPUs"
    )
    assert judged(made.step(0, [series], budget_ns=150_200))["result"] == "fail"
    assert judged(made.step(0, [series], budget_ns=149 * US, rate_per_hour=1.0))["result"] == "fail"


def test_a_lost_sample_that_exceeded_is_an_episode_for_a_pass_alone() -> None:
    """Its place among the others is not known."""
    values = np.full(36_000, 5 * US, np.int32)
    values[100] = MS
    series = made.sampled(values, interval_ns=S, lost=((101, 1, MS), (900, 1, MS)))
    found = judged(made.step(0, [series], budget_ns=150 * US, rate_per_hour=1.0))
    assert "in 1 to 3 episodes (3 of" in found["evidence"]


# --- operations without a time grid --------------------------------------------------------------


def operations(number: int, slow: int = 0) -> made.FakeSeries:
    values = np.full(number, 2 * US, np.int32)
    values[:slow] = MS
    info = made.info(name="acquire", interval_ns=0)
    return made.FakeSeries(info, np.arange(number), values, due=np.zeros(number, np.int64))


def sem(
    series: made.FakeSeries, asked: str = "2000", limit: str = "0", **more: Any
) -> made.FakeStep:
    header = headed("sem-lifecycle", samples=asked, for_=limit)
    trailer = stream.Trailer(9, "complete", "", "", 13_000_000, 9, (), 0)
    return made.step(0, [series], "sem-lifecycle", header=header, trailer=trailer, **more)


def test_a_series_without_a_grid_has_bounds_per_operation_only() -> None:
    run = made.run([sem(operations(2000), budget_ns=10 * US)])
    document = model.build([run])  # type: ignore[list-item]
    one = document["runs"][0]["series"][0]
    assert (one["bound"]["rate_per_hour"], one["bound"]["period_s"]) == (None, None)
    assert one["bound"]["probability"] == stats.exceedance_bound(2000)
    for text in (
        terminal.text(document, 100),
        markdown.render(short(model.analyse([run]))),  # type: ignore[list-item]
        junit.render(document),
        ktap.render(document),
    ):
        assert "an hour" not in text and "frequent" not in text and "longer" not in text


def test_the_remedy_is_a_number_of_samples_that_decides() -> None:
    short = judged(sem(operations(2000), budget_ns=10 * US))
    assert short["result"] == "inconclusive"
    assert short["remedy"].endswith("(--samples 2995)")
    assert samples_needed(stats.DEFAULT_PROBABILITY) == 2995
    for slow, result in ((0, "pass"), (1, "fail")):
        assert judged(sem(operations(2995, slow), "2995", budget_ns=10 * US))["result"] == result


@pytest.mark.parametrize("exceeding", [0, 1])
def test_lost_samples_within_the_budget_count_as_others(exceeding: int) -> None:
    """Brute force: n operations of which none exceeded show 1 in 1000 if (1 - 1/1000)^n <= 5 %."""
    n = next(n for n in range(10_000) if 0.999**n <= 0.05)
    for kept, lost, result in ((n - 5, 5, "pass"), (n - 6, 5, "inconclusive"), (n, 0, "pass")):
        series = operations(kept, exceeding)
        series.lost = ((kept, lost, 3 * US),) if lost else ()
        found = judged(sem(series, budget_ns=10 * US))
        assert found["result"] == ("fail" if exceeding else result)
        assert "in groups" not in found["evidence"]


def test_a_series_that_gets_a_part_of_the_samples_asks_for_more() -> None:
    """It got 500 of the 2000 samples asked for, and a time limit would end a longer step."""
    step = sem(operations(500), limit="1s", budget_ns=10 * US)
    found = judged(step)
    assert found["remedy"].endswith("(--samples 11980 --for 0)")
    assert (found["needed_samples"], found["needed_s"], found["doubt"]) == (11980, None, "")
    enough = judged(sem(operations(2995), budget_ns=10 * US))
    assert (enough["result"], enough["needed_samples"], enough["needed_s"]) == ("pass", None, None)


def test_lost_samples_are_part_of_those_that_a_series_got() -> None:
    """The samples asked for were scaled as if a series with a loss got a part of them only."""
    series = operations(1000)
    series.untold_losses = 1000
    found = judged(sem(series, budget_ns=10 * US))
    assert (found["result"], found["needed_samples"]) == ("inconclusive", 2995)


def test_a_number_of_samples_does_not_end_a_longer_step() -> None:
    series = made.sampled(np.full(10_000, 5 * US, np.int32))
    found = {}
    for asked in ("10000", None):
        limits = {"for": stream.Parameter(None, "0"), "samples": stream.Parameter(asked, "10000")}
        header = dataclasses.replace(made.header(), parameters=limits)
        step = made.step(0, [series], header=header, budget_ns=150 * US)
        found[asked] = judged(step)["remedy"]
    assert "longer without an exceedance (--samples 0 --for 3h)" in found["10000"]
    assert "longer without an exceedance (--for 3h)" in found[None]


def test_a_stored_rate_does_not_judge_operations() -> None:
    """Runs of earlier versions have one where none was given."""
    for slow in (0, 3):
        found = judged(sem(operations(5000, slow), budget_ns=10 * US, rate_per_hour=1.0))
        assert found["result"] == "inconclusive"
        assert "not on a time grid" in found["evidence"] and "--rate" in found["remedy"]
        assert "--samples" not in found["remedy"]
    short = judged(sem(operations(1000), budget_ns=10 * US, rate_per_hour=1.0))
    assert short["remedy"].startswith("omit --rate") and "--samples 5990" in short["remedy"]


def test_a_sleeping_task_without_a_grid_keeps_its_time() -> None:
    """nanosleep: its period is sleep plus work, and it watches all of the step."""
    series = operations(5000)
    series.due = np.arange(5000) * MS
    series.info = made.info(interval_ns=0, labels={"method": "nanosleep"})
    one = only(made.run([made.step(0, [series])]))["series"][0]
    assert one["bound"]["period_s"] == pytest.approx(5 / -math.log(0.05), rel=0.01)
    step = made.step(0, [series], budget_ns=int(series.value.max()) - 1)
    (verdict,) = only(made.run([step]))["verdicts"]
    assert verdict["result"] == "fail" and verdict["remedy"].startswith("look at the times of")


# --- what the bound of a run applies to -----------------------------------------------------------


def test_the_bound_in_time_is_for_wake_ups_and_says_so() -> None:
    """A disturbance that is shorter than the interval is hit with a part of the chance alone."""

    def said(name: str, interval_ns: int, context: str = "user") -> str:
        info = made.info(name=name, interval_ns=interval_ns, context=context)
        index = np.arange(10_000, dtype=np.int64)
        series = made.FakeSeries(info, index, np.full(10_000, 5000, np.int32))
        (one,) = only(made.run([made.step(0, [series])]))["series"]
        return plain(labels.bound_sentence(one))

    shorter = "must occur (interval/L) times more often to be seen."
    assert "late wake-ups of this task that occur more often than once in" in said("latency", MS)
    assert shorter in said("latency", MS)
    assert "late answers that occur more often than once in" in said("response", MS)
    assert "late answers that occur more often than once in" in said("response", MS, "irq")
    assert "shows late interrupts that occur more often" in said("latency", MS, "irq")
    assert shorter not in said("response", MS)
    assert "more often" not in said("call", 0)


@pytest.mark.parametrize(("short_one", "lost"), [(0, 0), (100, 0), (10_000, 5)])
def test_an_open_verdict_is_that_of_the_series_with_the_weakest_evidence(
    short_one: int, lost: int
) -> None:
    """A CPU with few samples, or with lost ones, was hidden by the one with the maximum."""
    first = np.full(10_000, 5000, np.int32)
    first[77] = 120_000
    second = np.full(short_one, 5000, np.int32)
    steps = [
        made.FakeSeries(made.info(0, 0), np.arange(10_000), first),
        made.FakeSeries(made.info(1, 1), np.arange(short_one), second, untold_losses=lost),
    ]
    run = only(made.run([made.step(0, steps, budget_ns=150_000, rate_per_hour=500.0)]))
    (weakest,) = (one for one in run["verdicts"] if run["series"][one["series"]]["cpu"] == 1)
    assert (weakest["bound_per_hour"] or math.inf) > run["verdicts"][0]["bound_per_hour"]
    evidence, remedy = labels.representative(run["verdicts"], run["series"], {0: "A", 1: "B"})
    assert (evidence, remedy) == (f"B: {weakest['evidence']}", weakest["remedy"])
    answer = "".join(span.text for span in answer_of(run).sure)
    assert ("5 more of unknown value" in answer) == bool(lost)


def test_a_pass_of_operations_is_that_of_the_cpu_with_the_fewest() -> None:
    steps = [
        made.FakeSeries(
            made.info(cpu, cpu, interval_ns=0), np.arange(count), np.full(count, top, np.int32),
            due=np.arange(count) * MS,
        )
        for cpu, count, top in ((0, 9000, 7000), (1, 4000, 6000))
    ]  # fmt: skip
    run = only(made.run([made.step(0, steps, "sem-uncontended", budget_ns=150_000)]))
    assert [one["result"] for one in run["verdicts"]] == ["pass", "pass"]
    evidence, _ = labels.representative(run["verdicts"], run["series"], {0: "A", 1: "B"})
    assert plain(evidence).startswith("B: 150 us never exceeded in 4 000 ")
