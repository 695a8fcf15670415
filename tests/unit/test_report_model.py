# SPDX-License-Identifier: Apache-2.0
"""The results model: valid by its schema, and every figure as plain arithmetic gives it."""

from __future__ import annotations

import copy
import dataclasses
import math
import re
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import report_runs as made
from rtgauge import stream
from rtgauge.report.document.summary import short
from rtgauge.report.render import html, markdown, terminal
from rtgauge.report.results import background, labels, model
from rtgauge.report.results.bounds import Held
from rtgauge.report.results.cases import cases_of
from rtgauge.report.results.labels import judged
from rtgauge.report.results.points import negative_points, positive_points, prepared
from rtgauge.stats import Clustering
from rtgauge.text import plain


def only(run: made.FakeRun) -> dict[str, Any]:
    one: dict[str, Any]
    (one,) = made.built(run)["runs"]
    return one


def nearest_rank(values: list[int], percent: str) -> int:
    rank = max(1, math.ceil(Fraction(percent) / 100 * len(values)))
    return sorted(values)[rank - 1]


def test_the_document_names_the_version_of_its_schema() -> None:
    document = made.built()
    assert document == {"format": "rtgauge-results", "version": 2, "runs": [], "bounds": []}
    assert model.schema()["$id"] == f"urn:rtgauge:results:{document['version']}"


def test_figures_equal_plain_arithmetic() -> None:
    simple = made.simple()
    one = only(simple.run)["series"][0]
    values = [int(v) for v in simple.values]
    assert (one["count"], one["first"], one["min"], one["max"]) == (
        1000,
        values[0],
        min(values),
        max(values),
    )
    assert one["mean"] == pytest.approx(sum(values) / 1000, abs=0, rel=1e-15)
    assert one["percentiles"] == {p: nearest_rank(values, p) for p in ("50", "90", "99")}
    rest = values[1:]
    assert one["rest"]["min"] == min(rest) and one["rest"]["max"] == max(rest)
    assert one["rest"]["mean"] == pytest.approx(sum(rest) / 999, abs=0, rel=1e-15)
    assert one["bound"]["probability"] == pytest.approx(1 - 0.05 ** (1 / 1000))
    assert one["bound"]["duration_s"] == pytest.approx(1.0)
    for percent, (low, high) in one["percentile_ci"].items():
        assert (low is None or low <= one["percentiles"][percent]) and (
            high is None or one["percentiles"][percent] <= high
        )


@pytest.mark.slow
@given(
    values=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=80),
    stalls=st.dictionaries(st.integers(0, 70), st.integers(1, 9), max_size=4),
    rows=st.integers(1, 30),
)
@settings(max_examples=60)
def test_any_samples(values: list[int], stalls: dict[int, int], rows: int) -> None:
    array = np.array(values, np.int32)
    stalls = {at: number for at, number in stalls.items() if at + 10 < len(values)}
    index = np.arange(len(array), dtype=np.int64)
    keep = np.ones(len(array), bool)
    gaps = []
    for at, number in sorted(stalls.items()):
        if keep[at : at + 1 + number].all():
            keep[at + 1 : at + 1 + number] = False
            gaps.append((at, number))
    series = made.FakeSeries(
        made.info(), index[keep], array[keep], gaps=tuple(gaps), chunk_rows=rows
    )
    one = only(made.run([made.step(0, [series])]))["series"][0]
    kept = [int(v) for v in array[keep]]
    assert one["count"] == len(kept) and one["missed"] == sum(n for _, n in gaps)
    assert one["count"] + one["missed"] == len(values)
    assert (one["first"], one["min"], one["max"]) == (kept[0], min(kept), max(kept))
    # Every skipped point at wake - due, the wake-up no earlier than the last one skipped.
    added = [
        max(int(array[at]), number * made.MS) - k * made.MS
        for at, number in gaps
        for k in range(1, number + 1)
    ]
    assert one["corrected"]["max"] == max(kept + added)
    for percent, value in one["corrected"]["percentiles"].items():
        assert value == nearest_rank(kept + added, percent)


def test_dither_moves_the_correction_and_is_no_result() -> None:
    index, values, gaps = made.with_stalls(np.full(100, 5000, np.int32), {40: 3}, made.MS)
    offsets = np.arange(100, dtype=np.int32) * 1000
    dither = made.sampled(offsets, 1, name="dither", companion=0, interval_ns=made.MS)
    series = made.FakeSeries(made.info(), index, values, gaps=gaps, companion=dither)
    found = only(made.run([made.step(0, [series, dither])]))
    assert [one["name"] for one in found["series"]] == ["latency"]
    wake = 3 * made.MS + 7000 + 40_000
    added = [wake - k * made.MS - (40 + k) * 1000 for k in (1, 2, 3)]
    assert found["series"][0]["corrected"]["max"] == max([*(int(v) for v in values), *added])
    # 20 samples and more above any percentile are not there: compare the counts by the median
    everything = sorted([*(int(v) for v in values), *added])
    assert found["series"][0]["corrected"]["percentiles"]["50"] == everything[49]


def test_every_counter_arrives() -> None:
    simple = made.simple()
    simple.series.lost = ((500, 7, 912_000), (700, 2, 3000))
    simple.series.extra_overruns = 4
    step = simple.run.steps[0]
    step.end = stream.StreamEnd(False, 321, 4711, 5, "cut inside a record", True)
    found = only(simple.run)
    one = found["series"][0]
    assert (one["lost"], one["overruns"], one["count"]) == (9, 4, 1009)
    assert one["max"] == 912_000  # the largest of the lost ones counts
    simple.series.lost = ((500, 7, -(2**63)),)  # unless it is unknown
    unknown = only(simple.run)["series"][0]
    assert unknown["lost"] == 7
    assert 0 < unknown["max"] < 912_000
    assert found["steps"][0]["stream"] == {
        "complete": False,
        "records": 321,
        "lost_records": 5,
        "dropped_bytes": 4711,
        "reason": "cut inside a record",
    }


@pytest.mark.study(62)
@pytest.mark.parametrize(
    ("values", "lost", "result"),
    [
        ([5000] * 400, (), "pass"),
        ([5000] * 399 + [200_000], (), "fail"),
        ([5000] * 2, (), "inconclusive"),
        ([5000] * 400, ((10, 3, 90_000),), "pass"),
        ([5000] * 400, ((10, 3, 190_000),), "fail"),
        # lost in the kernel: of unknown size
        ([5000] * 400, ((10, 50, -(2**63)),), "inconclusive"),
    ],
)
def test_budget_verdict(values: list[int], lost: Any, result: str) -> None:
    # 400 samples over 400 hours: a bound of 0.0075 an hour
    array = np.array(values, np.int32)
    info = made.info(interval_ns=3600 * 10**9)
    series = made.FakeSeries(info, np.arange(len(array)), array, lost=lost)
    step = made.step(0, [series], budget_ns=150_000, rate_per_hour=0.02)
    if result == "fail":
        step.document["rate_per_hour"] = None
    (verdict,) = only(made.run([step]))["verdicts"]
    assert (verdict["result"], verdict["series"], verdict["step"]) == (result, 0, 0)


@pytest.mark.parametrize(
    ("number", "more", "priority", "doubt", "needed_h"),
    [
        (400, 0, "fifo", "", None),  # a pass
        (40, 0, "fifo", "", -math.log(0.05) / 0.02),
        (40, 1, "fifo", "", None),  # a failure
        (40, 0, "other", "measured without the real-time priority", None),
    ],
)
def test_the_length_that_would_decide(
    number: int, more: int, priority: str, doubt: str, needed_h: float | None
) -> None:
    """One sample an hour. It is the whole length, and only where no doubt remains after it."""
    values = np.array([5000] * (number - more) + [200_000] * more, np.int32)
    series = made.sampled(values, interval_ns=3600 * 10**9, policy=priority)
    step = made.step(0, [series], budget_ns=150_000, rate_per_hour=None if more else 0.02)
    step.header.parameters["priority"] = stream.Parameter("80", "80")
    (verdict,) = only(made.run([step]))["verdicts"]
    assert verdict["doubt"].startswith(doubt) and bool(verdict["doubt"]) == bool(doubt)
    if doubt:
        step.document.update(state="failed", reason="no power")
        assert only(made.run([step]))["verdicts"][0]["doubt"] == "the step failed"
    assert verdict["needed_samples"] is None
    if needed_h is None:
        assert verdict["needed_s"] is None
    else:
        assert verdict["needed_s"] == pytest.approx(needed_h * 3600, rel=1e-3)


@pytest.mark.parametrize(("clustered", "group"), [(True, 4.0), (False, 1.0)])
def test_large_values_that_are_not_clustered_come_alone(clustered: bool, group: float) -> None:
    found = model._clustering(Clustering(100, 5000, 0.25, clustered))
    assert found is not None and (found["group"], found["clustered"]) == (group, clustered)


def test_the_options_of_a_run_and_a_step_without_a_reason() -> None:
    step = made.step(0, [], state="skipped", reason=None, remedy=None)
    step.document["run_options"] = {"dither": True, "for": "1s", "samples": 5, "prepare": False}
    (found,) = only(made.run([step]))["steps"]
    assert found["run_options"] == {"dither": True, "for": "1s", "samples": "5", "prepare": "False"}
    assert (found["state"], found["reason"], found["remedy"]) == ("skipped", "", "")
    # steps of older runs have them one by one; the CPUs of a load are an option of that
    del step.document["run_options"]
    step.document["load"] = "sched"
    for load, expected in (("sched", {"load": "sched", "load-cpu": "0-1"}), ("idle", {})):
        step.document["load"] = load
        plan = {"steps": [{"load": load, "load_cpu": "0-1"}]}
        (found,) = only(made.run([step], plan=plan))["steps"]
        assert found["run_options"] == expected
    # a step beyond those of the plan
    beyond = made.step(1, [], state="skipped")
    assert only(made.run([beyond], plan=plan))["steps"][0]["run_options"] == {}


def test_the_events_that_are_told_are_those_for_people() -> None:
    step = made.step(0, [])
    step.told = [
        stream.Event(number, event, number * 10**9, None, {"text": f"text {number}"})
        for number, event in enumerate(("message", "maximum", "message", "missed", "message"))
    ]
    (found,) = only(made.run([step]))["steps"]
    assert [(one["time_s"], one["text"]) for one in found["events"]] == [
        (0.0, "text 0"), (2.0, "text 2"), (4.0, "text 4")
    ]  # fmt: skip


def test_the_cpus_of_a_step_that_measured() -> None:
    measured = made.step(0, [made.sampled(np.ones(1), cpu=cpu) for cpu in (2, -1, 0, 2)])
    calibration = made.step(1, [], role="calibration")
    watched = background.Watched()
    found = model._measured([(measured, watched), (calibration, watched)])  # type: ignore[list-item]
    assert [(name, cpus) for name, cpus, _ in found] == [("timer (step 1)", [0, 2])]
    (alone,) = model._measured([(calibration, watched)])  # type: ignore[list-item]
    assert alone[:2] == ("timer (step 2)", [])


def test_lost_samples_of_unknown_value_prevent_a_pass() -> None:
    info = made.info(interval_ns=3600 * 10**9)
    values = np.full(400, 5000, np.int32)
    series = made.FakeSeries(info, np.arange(400), values, untold_losses=50)
    found = only(made.run([made.step(0, [series], budget_ns=150_000, rate_per_hour=0.02)]))
    assert found["series"][0]["lost"] == 50
    assert found["verdicts"][0]["result"] == "inconclusive"


@pytest.mark.parametrize(
    ("answers", "result", "doubt"),
    [
        ({"unanswered": 0, "double": 0, "ambiguous": 0}, "pass", ""),
        ({"unanswered": 0, "double": 3}, "pass", ""),  # a log host of an older version
        ({"unanswered": 0, "double": 0, "ambiguous": 2}, "inconclusive", "answers to 2 events may"),
        ({"unanswered": 1, "double": 1, "ambiguous": 0}, "inconclusive", "wrong events"),
        ({"unanswered": 1, "late": 1, "double": 0}, "inconclusive", "wrong events"),
        # one edge, a constant delay of 13 ms at 10 ms, as an older version saw it
        ({"unanswered": 1, "late": 0, "double": 0}, "inconclusive", "wrong events"),
    ],
)
def test_answers_that_may_be_those_of_other_events_prevent_a_pass(
    answers: dict[str, int], result: str, doubt: str
) -> None:
    values = np.full(400, 5000, np.int32)
    info = made.info(interval_ns=3600 * 10**9, name="response")
    series = made.FakeSeries(info, np.arange(400), values)
    step = made.step(0, [series], budget_ns=150_000, rate_per_hour=0.02)
    columns = tuple(stream.records.Column(name, "count") for name in answers)
    step.tables.append(stream.Table(0, "answers", columns, (tuple(answers.values()),)))
    (verdict,) = only(made.run([step]))["verdicts"]
    assert verdict["result"] == result
    assert doubt in verdict["evidence"]
    assert ("interval above the longest delay" in verdict["remedy"]) == (result == "inconclusive")


def answered_late(
    ambiguous: int,
    *,
    late: int,
    missed: int = 0,
    kept: bool = True,
    longest: int | None = None,
    **more: Any,
) -> made.FakeStep:
    """400 events in 400 ms, ``late`` answers above a budget of 150 us, ``missed`` events without
    one, ``ambiguous`` events whose answers may be those of others, as captures keep them, or, not
    ``kept``, as log hosts do. ``longest``: the longest delay of these, if it is known."""
    values = np.full(400, 5000, np.int32)
    values[10 : 10 + late] = 200_000
    gaps = ((399, missed),) if missed else ()
    info = made.info(name="response")
    step = made.step(
        0, [made.FakeSeries(info, np.arange(400), values, gaps=gaps)], budget_ns=150_000, **more
    )
    row = {
        "raised": 400 + missed + (0 if kept else ambiguous), "answered": 400,
        "unanswered": missed, "double": 0, "ambiguous": ambiguous,
    }  # fmt: skip
    if longest is not None:
        row["ambiguous_max"] = longest
    columns = tuple(stream.records.Column(name, "count") for name in row)
    step.tables.append(stream.Table(0, "answers", columns, (tuple(row.values()),)))
    return step


@pytest.mark.parametrize(
    ("step", "result"),
    [
        # a capture that fits several delays: its answers may be quick ones to other events
        (answered_late(400, late=5), "inconclusive"),
        (answered_late(5, late=5), "inconclusive"),
        # those that may be are within the budget
        (answered_late(5, late=5, longest=150_000), "fail"),
        (answered_late(5, late=5, longest=150_001), "inconclusive"),
        # more are late than may belong to other events
        (answered_late(4, late=5), "fail"),
        (answered_late(0, late=1), "fail"),
        # an event without an answer is late, whatever the others are
        (answered_late(400, late=0, missed=1), "fail"),
        (answered_late(400, late=5, missed=1), "fail"),
        # a log host keeps no sample of an ambiguous event
        (answered_late(9, late=1, kept=False), "fail"),
        # one episode in 0.4 s is more than one an hour
        (answered_late(2, late=3, rate_per_hour=1.0), "fail"),
        (answered_late(3, late=3, rate_per_hour=1.0), "inconclusive"),
    ],
)
def test_a_failure_stands_by_the_exceedances_that_are_certain(
    step: made.FakeStep, result: str
) -> None:
    document = made.built(made.run([step]))
    (verdict,) = document["runs"][0]["verdicts"]
    assert verdict["result"] == result
    assert ("may belong to other events" in verdict["doubt"]) == (result == "inconclusive")
    assert "exceeded" in verdict["evidence"]
    (together,) = document["bounds"][0]["verdicts"]
    assert together["result"] == result


def test_the_thread_that_fails_for_certain_decides() -> None:
    """Not another with more exceedances, none of which is certain."""
    unsure = answered_late(400, late=9)
    sure = answered_late(0, late=1)
    sure.number = 1
    sure.series[0].info = made.info(name="response", cpu=1)
    (entry,) = made.built(made.run([unsure, sure]))["bounds"]
    assert [one["result"] for one in entry["verdicts"]] == ["fail"]


def test_exceedances_that_are_not_certain_count_as_unknown() -> None:
    held = Held(100, 5.0, 9, 50, 60.0, 2, "events", (3, 4), 50, uncertain=2)
    assert (held.unanswered, held.waited, held.doubts) == (0, None, ())
    assert Held(100, 5.0, 9, 50, 60.0, 2, "events", (3, 4), 50).uncertain == 0
    assert held.certain() == Held(100, 5.0, 7, 48, 60.0, 4, "events", (1, 2), 50)
    assert dataclasses.replace(held, uncertain=8).certain().episodes == (1, 1)
    assert dataclasses.replace(held, uncertain=9).certain().episodes == (0, 0)
    assert dataclasses.replace(held, episodes=None).certain().episodes is None
    assert held.plus(dataclasses.replace(held, uncertain=1)).uncertain == 3
    assert held.exact and not held.plus(dataclasses.replace(held, exact=False)).exact
    late = dataclasses.replace(held, late=2)
    assert (held.late, late.plus(dataclasses.replace(held, late=1)).late) == (0, 3)
    other = Held(100, 5.0, 1, 7, 0.5, 3, "events", (1, 9), 5, 2, (60, 70), (("a", "b"),), 1)
    assert held.plus(other) == Held(
        100, 5.0, 10, 57, 60.5, 5, "events", (4, 13), 55, 2, (60, 70), (("a", "b"),), 3
    )
    for one, two in ((held, other), (other, held)):
        bare = dataclasses.replace(one, episodes=None, duration_s=None, waited=None)
        for both in (bare.plus(two), two.plus(bare)):
            assert (both.episodes, both.duration_s, both.waited) == (None, None, two.waited)
    assert held.plus(dataclasses.replace(other, counted="periods due")).counted == "samples"
    assert other.plus(dataclasses.replace(other, waited=(65, 71))).waited == (60, 71)
    every = Held(100, 5.0, 9, 50, 60.0, 0, "events", (9, 9), 50, uncertain=1)
    assert every.certain().episodes == (8, 8)


@pytest.mark.parametrize(
    ("asked", "policy", "result"),
    [
        ("50", "fifo", "pass"),
        ("50", "deadline", "pass"),
        ("50", "other", "inconclusive"),
        ("50", "batch", "inconclusive"),
        ("0", "other", "pass"),  # an ordinary task was asked for
        (None, "other", "pass"),
    ],
)
def test_an_ordinary_task_passes_for_itself_alone(
    asked: str | None, policy: str, result: str
) -> None:
    info = made.info(interval_ns=3600 * 10**9, policy=policy)
    series = made.FakeSeries(info, np.arange(400), np.full(400, 5000, np.int32))
    step = made.step(0, [series], budget_ns=150_000, rate_per_hour=0.02)
    del step.header.parameters["priority"]
    if asked is not None:
        step.header.parameters["priority"] = stream.Parameter(asked, asked)
    (verdict,) = only(made.run([step]))["verdicts"]
    assert verdict["result"] == result
    doubted = f"without the real-time priority asked for (SCHED_{policy.upper()})"
    assert (doubted in verdict["evidence"]) == (result == "inconclusive")


def test_a_budget_of_a_step_that_failed_is_inconclusive() -> None:
    info = made.info(interval_ns=3600 * 10**9)
    series = made.FakeSeries(info, np.arange(400), np.full(400, 5000, np.int32))
    step = made.step(0, [series], budget_ns=150_000, rate_per_hour=0.02, state="failed")
    (verdict,) = only(made.run([step]))["verdicts"]
    assert (verdict["result"], verdict["remedy"]) == ("inconclusive", "run the step again")
    assert "the step failed" in verdict["evidence"]


def test_a_dead_load_fails_its_step() -> None:
    simple = made.simple()
    fields = {"load": "sched", "message": "all senders ended"}
    simple.run.steps[0].told = [stream.Event(0, "load", 5 * 10**9, None, fields)]
    step = only(simple.run)["steps"][0]
    assert step["state"] == "failed"
    assert "sched" in step["reason"] and "all senders ended" in step["reason"]
    assert step["events"][0]["time_s"] == 5.0


def test_a_target_that_was_prepared_in_part_says_so() -> None:
    run = only(made.simple().run)
    run["environment"]["settings"] = {
        "one": {"asked": "0", "effective": "0", "reason": ""},
        "two": {"asked": "never", "effective": None, "reason": "permission denied: run as root"},
    }
    assert prepared(run) is None
    run["environment"]["settings_by"] = ["prepare"]
    (point,) = [one for one in negative_points(run) if "--prepare" in one.text]
    assert "1 of 2 settings" in point.text and "two: permission denied" in point.note
    run["environment"]["settings_by"] = ["prepare", "irq-priority"]
    (point,) = [one for one in negative_points(run) if "--prepare" in one.text]
    assert point.text == "--prepare and --irq-priority: only 1 of 2 settings as asked."
    run["environment"]["settings"]["two"]["reason"] = ""
    assert not any("prepared" in one.text for one in negative_points(run))
    (point,) = [one for one in positive_points(run) if "--prepare" in one.text]
    assert "2 of 2 settings" in point.text


def test_settings_that_were_not_made_are_named_with_the_reason() -> None:
    """The terminal said only how many there were, and the report named only the first."""
    document = model.build([made.simple().run])
    environment = document["runs"][0]["environment"]
    names = {
        "/sys/kernel/debug/sched/fair_server/cpu0/runtime": "not permitted",
        "/proc/irq/{24,26-31}/smp_affinity_list": "not permitted",
        "/sys/kernel/debug/sched/fair_server/cpu1/runtime": "not permitted",
        "/proc/sys/kernel/watchdog": "read-only file system",
        "/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor": "not permitted",
        "one/x": "",
        "/sys/last": "not permitted",
    }
    environment["settings"] = {
        name: {"asked": "0", "effective": "1", "reason": reason} for name, reason in names.items()
    }
    environment["settings_by"] = ["prepare"]
    said = (
        "fair_server/cpu{0-1}/runtime, irq/{24,26-31}/smp_affinity_list, "
        "cpu3/cpufreq/scaling_governor: not permitted; "
        "sys/kernel/watchdog: read-only file system (and 1 other setting)"
    )
    point = prepared(document["runs"][0])
    assert point is not None and point.note == said
    shown = " ".join(terminal.text(document, 100).split())
    assert f"--prepare: only 1 of 7 settings as asked. {said}" in shown


@pytest.mark.parametrize(("empty", "core"), [(False, "cobalt"), (True, None)])
def test_the_core_is_that_of_a_step_with_results(empty: bool, core: str | None) -> None:
    """An agent for Cobalt that measured nothing does not make the figures of Linux those of it."""
    values = np.arange(4000, 4100, dtype=np.int32)
    first = [] if empty else [made.sampled(values)]
    run: Any = made.run(
        [
            made.step(0, first, state="failed" if empty else "complete"),
            made.step(1, [made.sampled(values)]),
        ]
    )
    run.steps[0].header = dataclasses.replace(run.steps[0].header, core="cobalt", core_revision=19)
    found = model.build([run])["runs"][0]["environment"]["core"]
    assert (found and found["name"]) == core


def test_the_options_that_change_settings_are_known_from_the_description() -> None:
    def settings_by(catalogue: dict[str, Any], **given: Any) -> Any:
        simple = made.simple()
        simple.run.steps[0].document["run_options"] = given
        simple.run.document["catalogue"] = {**made.CATALOGUE, **catalogue}
        return only(simple.run)["environment"]["settings_by"]

    options = [
        {"name": "calm", "changes": "settings"}, {"name": "disturb", "changes": "the system"},
    ]  # fmt: skip
    assert settings_by({"run_options": options}, calm="40", disturb="x", mark="y") == ["calm"]
    assert settings_by({"run_options": options}) == []
    older = [{"name": "prepare"}, {"name": "calm"}]
    assert settings_by({"run_options": older}, prepare=True, calm="40") == ["prepare"]
    asked = {"prepare-only": "governor", "irq-priority": "24=90"}
    assert settings_by({"run_options": older}, **asked) == ["prepare-only", "irq-priority"]


def test_a_setting_that_changed_underneath_speaks_against_the_run() -> None:
    simple = made.simple()
    assert not any("changed during" in one.text for one in negative_points(only(simple.run)))
    fields = {"name": "governor", "expected": "performance", "found": "powersave"}
    simple.run.steps[0].told = [stream.Event(0, "setting", 5 * 10**9, None, fields)]
    (point,) = [one for one in negative_points(only(simple.run)) if "changed during" in one.text]
    assert "1 setting changed" in point.text
    assert "governor was changed from performance to powersave" in point.note


def test_work_rates_of_several_loads() -> None:
    simple = made.simple()
    simple.run.steps[0].work = [
        stream.Work(0, "sched", "messages", 1000, 0, 10**9),
        stream.Work(1, "cpu", "loops", 30, 0, 10**9),
        stream.Work(2, "sched", "messages", 3000, 10**9, 2 * 10**9),
    ]
    load = only(simple.run)["steps"][0]["load"]
    assert (load["work_rate"], load["unit"]) == (2000.0, "messages")
    assert [(one["name"], one["work"], one["work_rate"]) for one in load["loads"]] == [
        ("sched", 4000, 2000.0),
        ("cpu", 30, 30.0),
    ]


def test_histograms_alone() -> None:
    info = made.info(histogram_only=True)
    buckets = np.array([[5, 30], [100, 20]], np.int64)
    snapshot = stream.Histogram(9, 0, 50, 5, 100, 2150, 0, 0, 0, 7, buckets)
    series = made.FakeSeries(info, np.arange(0), np.empty(0, np.int32), histogram=snapshot)
    one = only(made.run([made.step(0, [series])]))["series"][0]
    assert (one["source"], one["count"], one["first"]) == ("histogram", 50, None)
    assert (one["min"], one["mean"], one["max"]) == (5, 43.0, 100)


def test_scale_and_units() -> None:
    info = made.info(unit="bytes", scale=64, interval_ns=0)
    series = made.FakeSeries(
        info, np.arange(30), np.arange(30, dtype=np.int32), due=np.arange(30) * 10
    )
    one = only(made.run([made.step(0, [series])]))["series"][0]
    assert (one["unit"], one["first"], one["max"], one["mean"]) == ("bytes", 0, 29 * 64, 14.5 * 64)
    assert one["rest"] == {"min": 64, "mean": 15 * 64, "max": 29 * 64}
    assert one["corrected"] is None


def test_no_samples_and_steps_that_were_not_carried_out() -> None:
    empty = made.sampled(np.empty(0, np.int32))
    gone = stream.StreamEnd(False, 0, 0, 0, "the step was not carried out", False)
    steps = [made.step(0, [empty]), made.step(1, [], state="skipped", header=None, end=gone)]
    found = only(made.run(steps, state="skipped"))
    assert found["series"][0]["max"] is None and found["series"][0]["percentiles"] == {}
    assert found["steps"][1]["stream"] is None


@pytest.mark.slow
def test_the_example_is_valid_and_in_order() -> None:
    found = only(made.evaluation(2, 5000))
    assert [one["step"] for one in found["series"]] == [0, 0, 1, 1, 3]
    assert found["environment"]["settings"]["/dev/cpu_dma_latency"]["effective"] == "0"
    assert found["tables"][0]["rows"][0] == ["CLOCK_MONOTONIC", 21, 24, 100_000]


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        ("version",),
        ("runs", 0, "series", 0, "max"),
        ("runs", 0, "steps", 0, "load"),
        ("runs", 0, "environment", "realtime"),
        ("runs", 0, "verdicts", 0, "result"),
    ],
)
def test_the_schema_refuses(path: tuple[Any, ...]) -> None:
    document = copy.deepcopy(model.build([made.evaluation(1, 2000)]))  # type: ignore[list-item]
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = "wrong"
    with pytest.raises(jsonschema.ValidationError):
        model.validate(document)
    del place[path[-1]]
    with pytest.raises(jsonschema.ValidationError):
        model.validate(document)


@pytest.mark.slow
def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(model.schema())


@pytest.mark.slow
def test_steps_of_one_measurement_are_told_apart() -> None:
    def step(number: int, **more: Any) -> made.FakeStep:
        asked = {"interval": "1ms", "for": f"{number}s", "method": "timer"}
        asked |= more.pop("asked", {})
        series = more.pop("series", made.timer_series(1, 50, number))
        for one in series:
            method = {"method": asked["method"].split(",")[0]}
            one.info = dataclasses.replace(one.info, labels=method)
        return made.step(number, series, parameters=asked, header=None, **more)

    steps = [
        step(0),
        step(1, asked={"method": "nanosleep,timerfd"}),
        step(2, asked={"priority": "50"}),
        step(3, series=[], state="skipped", reason="no", asked={"method": "deadline"}),
        step(4, measurement="other", load_command="stress  -c 1 " + "x" * 60),
        step(5, role="calibration"),
    ]
    document = model.build([made.run(steps)])  # type: ignore[list-item]
    run = document["runs"][0]
    names = [labels.step_name(run, one) for one in run["steps"]]
    assert names == [
        "timer: timer",
        "timer: nanosleep, timerfd",
        "timer: timer, priority 50",
        "timer: deadline",
        "other",
        "timer",
    ]
    shown = labels.load_text(run["steps"][4]["load"])
    assert shown.startswith("load command “stress -c 1 xxx") and shown.endswith("x…”")
    assert len(shown) <= 60
    whole = "stress -c 1 " + "x" * 60
    text = re.sub(r"\s+", " ", terminal.text(document, 200))
    short_one = markdown.render(short(model.analyse([made.run(steps)])))  # type: ignore[list-item]
    for page in (text, short_one):
        for name in names[:5]:
            assert name in page
        assert f"load command: {whole}" in page
    page = html.render(model.analyse([made.run(steps)]))  # type: ignore[list-item]
    for name in names[1:4]:
        assert page.count(name) >= 3  # card or list, link and overview
    assert f"<dd>{whole}" in re.sub(r"\s+", " ", page)
    cases = [group.name for group in cases_of(run).groups]
    assert len(set(cases)) == 6 and cases[3] == "step 4 timer: deadline, idle"


# --- what a run says -----------------------------------------------------------------------------


def test_what_the_run_says_arrives() -> None:
    words = {"study": "s", "label": "l", "target": "t", "boot_id": "b", "started": "now",
             "state": "failed", "reason": "why", "remedy": "help", "repeat": 3, "duration_s": 7.5,
             "plan": {"name": "p"}}  # fmt: skip
    simple = made.simple()
    simple.run.document.update(words)
    found = only(simple.run)
    assert {name: found[name] for name in words} == words
    assert [{**one, "command": ""} for one in made.FINDINGS] == [
        {**one, "command": ""} for one in found["findings"]
    ]
    commands = [one["command"] for one in found["findings"]]
    assert "cpupower frequency-set -g performance" in commands and "" in commands
    simple.run.document.update(dict.fromkeys(("boot_id", "reason", "remedy", "repeat", "plan")))
    simple.run.document.update(findings=None, catalogue=None, state="of-tomorrow", environment=None)
    found = only(simple.run)
    texts = ("boot_id", "reason", "remedy", "repeat", "plan", "findings", "state")
    assert [found[name] for name in texts] == ["", "", "", 0, {}, [], "failed"]
    assert found["environment"] == {
        "kernel": {}, "cpu": {}, "libc": "glibc 2.36", "compiler": "gcc 12.2",
        "realtime": "unknown", "settings": {}, "core": None, "settings_by": []
    }  # fmt: skip


def test_verdicts_and_chapters_of_steps() -> None:
    simple = made.simple()
    catalogue = copy.deepcopy(made.CATALOGUE)
    catalogue["measurements"][0]["chapter"] = "timers"
    simple.run.document["catalogue"] = catalogue
    simple.run.steps[0].verdicts = [stream.Verdict(0, "fair", "fail", "seen", "mend it")]
    load = "rtgauge module load"
    held = stream.Verdict(0, "there", "skipped", "no module", f"load it: {load}", load)
    simple.run.steps[0].verdicts.append(held)
    found = only(simple.run)
    assert (found["tests"][1]["remedy"], found["tests"].pop()["command"]) == (held.remedy, load)
    assert found["verdicts"] == []
    assert found["tests"] == [
        {"step": 0, "measurement": "timer", "rule": "fair", "result": "fail",
         "known_limitation": None, "evidence": "seen", "remedy": "mend it", "command": ""}
    ]  # fmt: skip
    assert [one["chapter"] for one in found["steps"]] == ["timers"]
    simple.run.document["catalogue"] = {"measurements": [{"name": "timer"}, {"series": None}]}
    assert only(simple.run)["steps"][0]["chapter"] == ""


def test_a_known_limitation_is_that_of_the_agent_that_measured() -> None:
    """Only of a failed test, and only of the rule of that measurement in the run's catalogue."""
    simple = made.simple()
    catalogue = copy.deepcopy(made.CATALOGUE)
    declared = {"rule": "fair", "meaning": "", "known_limitation": "no system is fair"}
    catalogue["measurements"][0]["verdicts"] = [declared]
    catalogue["measurements"][1]["verdicts"] = [{**declared, "rule": "kind"}]
    simple.run.document["catalogue"] = catalogue
    simple.run.steps[0].verdicts = [
        stream.Verdict(0, "fair", result, "seen", "do") for result in ("fail", "pass", "skipped")
    ] + [stream.Verdict(0, "kind", "fail", "seen", "do")]
    tests = only(simple.run)["tests"]
    assert [one["known_limitation"] for one in tests] == ["no system is fair", None, None, None]
    assert [one["result"] for one in tests] == ["fail", "pass", "skipped", "fail"]
    shown = [(one["result"], one["evidence"]) for one in judged(only(simple.run), 0)]
    assert shown[0][0] == "known limitation"
    assert shown[0][1].split("; ") == ["no system is fair", "seen"]
    assert shown[3] == ("fail", "seen")


@pytest.mark.parametrize(
    ("name", "source", "rate"),
    [("latency", "due time", True), ("latency", "event", False), ("grid", "event", True)],
)
def test_only_what_sleeps_and_wakes_has_bounds_over_time(
    name: str, source: str, rate: bool
) -> None:
    interval = made.MS if name == "grid" else 0
    series = made.sampled(
        np.full(50, 9, np.int32), interval_ns=interval, due=np.arange(50) * made.MS
    )
    run = made.run([made.step(0, [series], budget_ns=100)])
    one = {"name": "timer", "series": [{"name": "latency"}, {"name": "x", "from": source}]}
    run.document["catalogue"] = {"measurements": [{"name": "other"}, one]}
    found = only(run)
    assert (found["series"][0]["bound"]["rate_per_hour"] is not None) == rate
    assert ("--samples" in found["verdicts"][0]["remedy"]) != rate


def test_settings_that_did_not_take_effect_are_not_covered_up() -> None:
    simple = made.simple()
    refused = stream.Setting(0, "a", "1", "0", "0", "not permitted")
    simple.run.steps[0].settings = [
        refused,
        stream.Setting(0, "a", "1", "0", "1", ""),
        stream.Setting(0, "b", "2", "0", "2", ""),
    ]
    settings = only(simple.run)["environment"]["settings"]
    assert settings["a"]["reason"] == "not permitted" and settings["a"]["effective"] == "0"
    assert settings["b"] == {"asked": "2", "effective": "2", "before": "0", "reason": ""}
    later = stream.Setting(0, "b", "2", "0", "1", "")  # without a reason
    simple.run.steps[0].settings += [later]
    assert only(simple.run)["environment"]["settings"]["b"]["effective"] == "1"


def test_a_step_without_a_document_is_known_by_its_header() -> None:
    simple = made.simple()
    step = simple.run.steps[0]
    step.document.update(measurement=None, load=None, parameters=None)
    step.header = dataclasses.replace(made.header(0, "timer", "cpu"), disturb="cpu:1ms:1s")
    found = only(simple.run)["steps"][0]
    assert (found["measurement"], found["load"]["name"], found["load"]["disturb"]) == (
        "timer", "cpu,disturb:cpu:1ms:1s", "cpu:1ms:1s"
    )  # fmt: skip
    assert found["asked"] == {} and found["parameters"]["cpu"] == "0-3"
    step.document.update(load="idle", load_command="make", disturb="")
    load = only(simple.run)["steps"][0]["load"]
    assert (load["name"], load["command"], load["work_rate"]) == ("command", "make", None)
    step.header = None
    step.document.update(load=None, load_command=None, disturb="cpu:2ms:1s")
    assert only(simple.run)["steps"][0]["load"]["name"] == "disturb:cpu:2ms:1s"


def test_work_without_time_has_no_rate() -> None:
    simple = made.simple()
    simple.run.steps[0].work = [stream.Work(0, "cpu", "loops", 30, 5, 5)]
    load = only(simple.run)["steps"][0]["load"]
    assert load["loads"] == [{"name": "cpu", "unit": "loops", "work": 30, "work_rate": None}]
    simple.run.steps[0].work += [stream.Work(1, "cpu", "loops", 10, 1, 3)]
    assert only(simple.run)["steps"][0]["load"]["work_rate"] == 40 * 1e9 / 4


def test_lost_samples_and_missed_events_in_a_verdict() -> None:
    info = made.info(interval_ns=3600 * 10**9)
    values = np.array([5000] * 398 + [200_000] * 2, np.int32)
    lost = ((10, 7, 190_000), (20, 3, 150_000), (30, 4, -(2**63)), (40, 2, 150_001))
    series = made.FakeSeries(info, np.arange(400), values, lost=lost)
    (found,) = only(made.run([made.step(0, [series], budget_ns=150_000)]))["verdicts"]
    # two samples and one of each run are above, 3 are within, and the other 11 are unknown
    evidence = plain(found["evidence"])
    assert evidence.startswith("150 us exceeded 4 times in 405 wake-ups")
    assert "11 more of unknown value" in evidence
    response = made.FakeSeries(
        made.info(name="response"), np.array([0, 1, 5, 6]), np.full(4, 9, np.int32), gaps=((1, 3),)
    )
    for budget, text in (
        (made.MS, "1 000 us exceeded 3 times in 7 events"),
        (made.MS + 1, "1 000.001 us never exceeded in 4 events"),
    ):
        step = made.step(0, [response], budget_ns=budget)
        (found,) = only(made.run([step]))["verdicts"]
        evidence = plain(found["evidence"])
        assert evidence.startswith(text)
        assert ("3 more of unknown value" in evidence) == (budget > made.MS)
        assert "; 3 events were not answered within 1 000 us" in evidence


@pytest.mark.parametrize(("ambiguous", "event"), [(1, "1 event may"), (2, "2 events may")])
@pytest.mark.parametrize(("longest", "text"), [(None, ""), (0, ""), (1, ", 0.001 us")])
def test_the_doubt_of_ambiguous_answers(
    ambiguous: int, event: str, longest: int | None, text: str
) -> None:
    info = made.info(interval_ns=3600 * 10**9, name="response")
    series = made.FakeSeries(info, np.arange(400), np.full(400, 5000, np.int32))
    if longest is not None:
        buckets = np.array([[longest, 400]], np.int64)
        series.histogram = stream.Histogram(
            9, 0, 400, longest, longest, 400 * longest, 0, 0, 0, 7, buckets
        )
    step = made.step(0, [series], budget_ns=150_000, rate_per_hour=0.02)
    column = (stream.records.Column("ambiguous", "count"),)
    step.tables.append(stream.Table(0, "answers", column, ((ambiguous,),)))
    (verdict,) = only(made.run([step]))["verdicts"]
    assert f"the answers to {event} belong to other events" in plain(verdict["evidence"])
    assert f"interval above the longest delay seen{text}, or" in plain(verdict["remedy"])


def test_the_maximum_has_its_time() -> None:
    values = np.full(3000, 5000, np.int32)
    values[1234] = 90_000
    series = made.sampled(values, chunk_rows=500)
    (one,) = only(made.run([made.step(0, [series])]))["series"]
    assert one["max_at"] == {"index": 1234, "time_s": 1.234, "clock": "1970-01-01T00:00:01.234Z"}
    series.lost = ((2000, 3, 120_000),)
    (one,) = only(made.run([made.step(0, [series])]))["series"]
    assert (one["max"], one["max_at"]) == (120_000, None)


@pytest.mark.parametrize(
    ("at", "clock"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (9_999, "1970-01-01T00:00:09.999Z"),
        (10_000, "2026-11-30T20:00:00.000Z"),
        (29_000, "2026-11-30T20:00:19.000Z"),
    ],
)
def test_the_maximum_has_the_time_to_which_the_clock_was_set_in_the_step(
    at: int, clock: str
) -> None:
    values = np.full(30_000, 5000, np.int32)
    values[at] = 90_000
    step = made.step(0, [made.sampled(values)])
    set_to = int(datetime(2026, 11, 30, 20, tzinfo=UTC).timestamp()) * 10**9
    begun = step.header.start_ns if step.header else 0
    step.clocks = [
        stream.Clock(1, begun + 10**10, 0, set_to),
        stream.Clock(2, begun + 2 * 10**10, 0, set_to + 10**10),
    ]
    (one,) = only(made.run([step]))["series"]
    assert one["max_at"] == {"index": at, "time_s": at / 1000, "clock": clock}


def test_the_sample_that_ended_a_step_has_its_unit() -> None:
    step = made.step(0, [made.sampled(np.full(9, 5000, np.int32))])
    step.told = [stream.Event(0, "threshold", 10**9, 0, {"index": 8, "value": 6_377_350})]
    (event,) = only(made.run([step]))["steps"][0]["events"]
    assert plain(event["text"]) == "stopped: a sample of 6 377 us exceeded --stop-above"
