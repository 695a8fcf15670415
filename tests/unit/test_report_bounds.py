# SPDX-License-Identifier: Apache-2.0
"""Bounds from all runs together, against figures computed from the arrays, and the composed
maximum against brute force."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, gamma

import report_runs as made
import streams
from answers import held_up
from rtgauge import text as numbers
from rtgauge.report import Source
from rtgauge.report.document.blocks import plain_line
from rtgauge.report.document.evidence import bounds_grid, extrapolation_section, verdict_lines
from rtgauge.report.document.summary import short
from rtgauge.report.render import html, markdown, terminal
from rtgauge.report.results import model
from rtgauge.report.results.bounds import Held, fingerprint, verdict_on
from rtgauge.report.results.composed import composed
from rtgauge.stats import exceedance_bound
from rtgauge.stream import Histogram, Parameter
from rtgauge.text import plain

COUNT = 3000
MS = made.MS


def values(seed: int, count: int = COUNT) -> NDArray[np.int32]:
    return np.random.default_rng(seed).integers(2000, 50_000, count).astype(np.int32)


def run(
    samples: NDArray[Any], boot: str = "b", *, budget: int | None = None, **more: Any
) -> made.FakeRun:
    interval = more.pop("interval", MS)
    index = np.arange(len(samples), dtype=np.int64)
    one = made.FakeSeries(made.info(interval_ns=interval), index, samples)
    state = more.pop("step_state", "complete")
    load = more.pop("load", "idle")
    rate = more.pop("rate", None)
    step = made.step(0, [one], budget_ns=budget, state=state, load=load, rate_per_hour=rate)
    return made.run([step], boot_id=boot, **more)


def only(*runs: made.FakeRun) -> dict[str, Any]:
    (one,) = made.built(*runs)["bounds"]
    return dict(one)


@pytest.mark.slow
def test_every_boot_and_sample_counts() -> None:
    all_values = [values(seed) for seed in range(6)]
    one = only(*(run(some, f"b{at}") for at, some in enumerate(all_values)))
    assert (one["runs"], one["boots"], one["copies"]) == (6, 6, 0)
    assert one["samples"] == 6 * COUNT == one["effective_samples"]
    assert one["duration_s"] == pytest.approx(6 * COUNT / 1000)
    assert one["max"] == max(some.max() for some in all_values)
    assert one["next_sample"] == pytest.approx(1 - 0.05 ** (1 / (6 * COUNT)))
    assert one["next_boot"] == pytest.approx(1 - 0.05 ** (1 / 6))
    hours = 6 * COUNT / 1000 / 3600
    assert one["next_hour"] == pytest.approx(1 - 0.05 ** (1 / hours))
    assert one["boots_needed"] == 59


@pytest.mark.slow
def test_59_boots_bound_the_next_one_at_5_percent() -> None:
    runs = [run(values(seed, 60), f"b{seed}", budget=100_000) for seed in range(60)]
    assert only(*runs[:59])["next_boot"] <= 0.05 < 1 - 0.05 ** (1 / 58)
    for number in (58, 59, 60):
        (verdict,) = only(*runs[:number])["verdicts"]
        assert verdict["boots_lacking"] == (number < 59)


def test_copies_count_once() -> None:
    one = only(run(values(1), "b1"), run(values(1), "b1"), run(values(2), "b2"), run(values(2)))
    assert (one["runs"], one["boots"], one["copies"]) == (2, 2, 2)
    assert one["samples"] == 2 * COUNT
    shown = bounds_grid(made.built(run(values(1)), run(values(1))))
    assert shown is not None and "1 copy not counted" in shown.rows[0].cells[0].text


@pytest.mark.slow
def test_runs_of_one_boot_are_one_boot_and_unknown_boots_too() -> None:
    assert only(run(values(1), "b"), run(values(2), "b"))["boots"] == 1
    assert only(run(values(1), ""), run(values(2), ""))["boots"] == 1


def test_constant_series_of_two_boots_are_no_copies() -> None:
    same = np.full(COUNT, 5000, np.int32)
    one = only(run(same, "b1"), run(same, "b2"))
    assert (one["boots"], one["copies"], one["max"]) == (2, 0, 5000)


@pytest.mark.slow
def test_short_and_coarse_series_of_two_boots_are_no_copies() -> None:
    short, coarse = values(1, 99), np.arange(COUNT, dtype=np.int32) % 4 * 1000
    for same, number in ((short, 2), (coarse, 2), (values(1, 100), 1)):
        assert only(run(same, "b1"), run(same, "b2"))["boots"] == number


@pytest.mark.parametrize(
    ("count", "percentiles", "known"),
    [
        (100, {"50": 2, "90": 3}, True),
        (99, {"50": 2, "90": 3}, False),
        (100, {"50": 2, "90": 2}, False),
    ],
)
def test_figures_of_100_samples_and_5_values_are_not_equal_by_chance(
    count: int, percentiles: dict[str, int], known: bool
) -> None:
    one = {
        "step": 0, "name": "latency", "count": count, "first": 1, "min": 0, "mean": 2.5, "max": 9,
        "percentiles": percentiles, "rest": {},
    }  # fmt: skip
    found = fingerprint({"series": [one], "environment": {}})
    assert bool(found) == known
    assert fingerprint({"series": [{**one, "max": 0}], "environment": {}}) == ""
    board = {"lab": {"mode": "counted"}}
    assert fingerprint({"series": [one], "environment": board})
    assert bool(fingerprint({"series": [one], "environment": {"lab": {"mode": "plain"}}})) == known


def test_one_series_is_enough_to_know_a_run_by() -> None:
    """The others, also short ones, have to be equal too."""
    known = {
        "step": 0, "name": "latency", "count": 100, "first": 1, "min": 0, "mean": 2.5, "max": 9,
        "percentiles": {"50": 2, "90": 3}, "rest": {},
    }  # fmt: skip
    short = {**known, "count": 99}
    texts = [
        fingerprint({"series": series, "environment": {}})
        for series in ([known, short], [short, known], [known, {**short, "mean": 2.6}])
    ]
    assert all(texts) and texts[0] != texts[2]
    assert fingerprint({"series": [short, short], "environment": {}}) == ""


@pytest.mark.slow
def test_what_is_no_evidence() -> None:
    assert only(run(values(1), "b1"), run(values(2), "b2", step_state="failed"))["runs"] == 1
    assert len(made.built(run(values(1)), run(values(2), label="tuned"))["bounds"]) == 2
    assert len(made.built(run(values(1)), run(values(2), load="sched"))["bounds"]) == 2
    assert len(made.built(run(values(1)), run(values(2), target="ssh://board"))["bounds"]) == 2
    disturbed = run(values(1))
    disturbed.steps[0].document["disturb"] = "irq:200us:7300us"
    assert made.built(disturbed)["bounds"] == []
    assert made.built(run(np.zeros(0, np.int32)))["bounds"] == []
    assert bounds_grid(made.built()) is None


def described(part: str, facts: dict[str, Any], seed: int) -> made.FakeRun:
    """A run of which a part of the description has these facts too."""
    one = run(values(seed), f"b{seed}")
    step = one.steps[0]
    if part == "run":
        one.document |= facts
    elif part in ("environment", "kernel"):
        environment = dict(made.ENVIRONMENT)
        environment |= (
            facts if part == "environment" else {"kernel": made.ENVIRONMENT["kernel"] | facts}
        )
        one.document["environment"] = environment
    elif part == "parameters":
        given = {name: Parameter(None, value) for name, value in facts.items()}
        step.header.parameters.update(given)
    elif part == "step":
        step.document |= facts
    else:
        step.series[0].info = dataclasses.replace(step.series[0].info, **facts)
    return one


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "facts", "others", "entries"),
    [
        ("run", {"label": None}, {"label": ""}, 1),
        ("run", {"label": "a"}, {"label": "b"}, 2),
        ("run", {"target": "a"}, {"target": "b"}, 2),
        ("environment", {"host": "a"}, {"host": "b"}, 2),
        ("environment", {"cpu": {"model": "a"}}, {"cpu": {"model": "b"}}, 2),
        ("environment", {"libc": "a"}, {"libc": "b"}, 2),
        ("environment", {"realtime": "none"}, {"realtime": "preempt_rt"}, 2),
        ("environment", {"settings": {}}, {}, 1),
        ("kernel", {"release": "a"}, {"release": "b"}, 2),
        ("kernel", {"version": "a"}, {"version": "b"}, 2),
        ("kernel", {"cmdline": "a"}, {"cmdline": "b"}, 2),
        ("parameters", {"for": "1m"}, {"for": "2m"}, 1),
        ("parameters", {"samples": "60000"}, {"samples": "90000"}, 1),
        ("parameters", {"stop-above": "1ms"}, {"stop-above": "2ms"}, 1),
        ("parameters", {"priority": "95"}, {"priority": "94"}, 2),
        ("step", {"measurement": "timer"}, {"measurement": "wakeup"}, 2),
        ("step", {"run_options": {"label": "a"}}, {"run_options": {"label": "b"}}, 1),
        ("step", {"run_options": {"jitter": "1"}}, {"run_options": {"jitter": "2"}}, 2),
        ("series", {"name": "a"}, {"name": "b"}, 2),
        ("series", {"context": "user"}, {"context": "irq"}, 2),
        ("series", {"labels": {"a": "1"}}, {"labels": {"a": "2"}}, 2),
        ("series", {"labels": {"a": "1", "b": "2"}}, {"labels": {"b": "2", "a": "1"}}, 1),
        ("series", {"interval_ns": MS}, {"interval_ns": 2 * MS}, 2),
        ("series", {"policy": "fifo"}, {"policy": "rr"}, 2),
        ("series", {"priority": 95}, {"priority": 94}, 2),
        ("series", {"cpu": 0}, {"cpu": 1}, 1),
        ("series", {"thread": 0}, {"thread": 1}, 1),
    ],
)
def test_runs_of_one_quantity_of_one_system_are_evidence_together(
    part: str, facts: dict[str, Any], others: dict[str, Any], entries: int
) -> None:
    document = made.built(described(part, facts, 1), described(part, others, 2))
    assert sum(one["runs"] for one in document["bounds"]) == 2
    assert len(document["bounds"]) == entries


def test_the_table_says_that_samples_come_in_groups() -> None:
    grouped = np.repeat(values(1, 3000), 20)
    for samples, said in ((grouped, True), (np.random.default_rng(2).permutation(grouped), False)):
        grid = bounds_grid(made.built(run(samples)))
        assert grid is not None
        assert (" Large samples in groups count as fewer samples." in grid.caption) is said


def test_a_single_run_claims_nothing_of_boots() -> None:
    grid = bounds_grid(made.built(run(values(1))))
    assert grid is not None
    (row,) = grid.rows
    assert [cell.text for cell in row.cells][3:] == ["–", "–"]
    assert "too little evidence" in grid.caption and "59" in grid.caption
    assert "Bounds" in terminal.text(made.built(run(values(1))))


@pytest.mark.parametrize(
    ("load", "name"), [("sched", "loaded"), ("explain", "idle with the trace")]
)
def test_a_bound_of_a_traced_idle_system_is_not_called_loaded(load: str, name: str) -> None:
    grid = bounds_grid(made.built(run(values(1)), run(values(2), "b2", load=load)))
    assert grid is not None
    assert [row.name.rpartition(", ")[2] for row in grid.rows] == [name, "idle"]


def test_quantities_of_one_name_are_told_apart_by_their_runs_or_steps() -> None:
    """Two kernels had one label."""
    other = copy.deepcopy(made.ENVIRONMENT)
    other["kernel"]["release"] = "6.12.0"
    runs = [run(values(seed), f"b{seed}", budget=60_000) for seed in range(3)]
    runs[1].document["environment"] = other
    document = made.built(*runs)
    grid = bounds_grid(document)
    assert grid is not None
    assert [row.name for row in grid.rows] == [
        "timer latency, runs 1 and 3",
        "timer latency, run 2",
    ]
    (said,) = map(plain_line, verdict_lines(document))
    assert "timer latency, runs 1 and 3: not proven" in said
    twice = [made.step(at, [made.sampled(values(at), priority=80 + at)]) for at in range(2)]
    grid = bounds_grid(made.built(made.run(twice)))
    assert grid is not None
    assert [row.name for row in grid.rows] == ["timer latency, step 1", "timer latency, step 2"]


@pytest.mark.slow
def test_a_bound_takes_as_many_hours_as_boots_only_if_nothing_may_be_larger() -> None:
    lossy = run(values(1), "b1")
    lossy.steps[0].series[0].untold_losses = 3
    for runs, said in (
        ([run(values(1))], "needs 59 hours or 59 boots."),
        ([lossy], "needs 93 boots."),
        ([lossy, run(values(2), "b2", load="sched")], "needs 59 to 93 boots."),
    ):
        grid = bounds_grid(made.built(*runs))
        assert grid is not None and said in grid.caption


def test_a_run_of_half_a_second_bounds_the_next_hour() -> None:
    entry = only(run(values(1, 500)))
    rate = -np.log(0.05) / (0.5 / 3600)
    assert entry["duration_s"] == pytest.approx(0.5)
    assert entry["next_hour"] == pytest.approx(-np.expm1(-rate))
    hours = only(run(values(1), interval=10_000 * MS))
    assert hours["next_hour"] == pytest.approx(1 - 0.05 ** (3600 / (COUNT * 10)))


def test_the_longest_wait_for_an_answer_is_that_of_all_cpus() -> None:
    """Each event without one is raised late by the dither of its CPU."""
    series = []
    for cpu, dither in enumerate((300, 100, 200)):
        offsets = np.zeros(COUNT, np.int32)
        offsets[1000] = dither
        every = np.arange(COUNT, dtype=np.int64)
        times = made.FakeSeries(made.info(cpu + 10, cpu, companion=cpu), every, offsets)
        info = made.info(cpu, cpu, name="response")
        kept = np.delete(every, 1000)
        series.append(
            made.FakeSeries(info, kept, values(cpu)[kept], gaps=((999, 1),), companion=times)
        )
    document = made.built(made.run([made.step(0, series)]))
    waits = [one["max_at_least"] for one in document["runs"][0]["series"]]
    assert waits == [MS - 300, MS - 100, MS - 200]
    assert [one["max_at_least"] for one in document["bounds"]] == [MS - 100]


def test_a_lower_limit_is_not_below_the_largest_sample() -> None:
    late = np.full(COUNT, 5000, np.int32)
    late[1000] = 90 * MS
    other = made.sampled(late, 1, 1)
    (entry,) = made.built(made.run([made.step(0, [held_up(COUNT), other])]))["bounds"]
    assert (entry["max"], entry["max_at_least"]) == (90 * MS, 90 * MS)


@pytest.mark.slow
@pytest.mark.parametrize("first", [True, False])
def test_a_run_that_does_not_cover_its_time_bounds_no_hour(first: bool) -> None:
    """By its catalogue, its task repeats an operation."""
    catalogue = json.loads(json.dumps(made.CATALOGUE))
    catalogue["measurements"][0]["series"][0]["from"] = "call"
    runs = [run(values(1), interval=0), run(values(2), interval=0, catalogue=catalogue)]
    for one in runs:
        one.steps[0].series[0].due = np.arange(COUNT, dtype=np.int64) * MS
    assert [only(one)["next_hour"] is None for one in runs] == [False, True]
    assert only(*(runs if first else runs[::-1]))["next_hour"] is None


def test_a_run_without_length_bounds_no_hour() -> None:
    entry = only(run(values(1, 1), interval=0))
    assert (entry["samples"], entry["duration_s"], entry["next_hour"]) == (1, 0.0, None)


def test_the_cpu_with_most_events_without_an_answer_counts() -> None:
    def answers(cpu: int, missed: int) -> made.FakeSeries:
        info = made.info(cpu, cpu, name="response")
        gaps = ((99, missed),) if missed else ()
        index = np.concatenate((np.arange(100), np.arange(100 + missed, COUNT)))
        return made.FakeSeries(info, index, values(cpu)[index], gaps=gaps)

    series = [answers(0, 1), answers(1, 5), answers(2, 0)]
    document = made.built(made.run([made.step(0, series)]))
    (entry,) = document["bounds"]
    wanted = exceedance_bound(entry["effective_samples"], 0.95, 5)
    assert entry["next_sample"] == pytest.approx(wanted)
    condition = "events are independent"
    assert entry["condition"] == condition
    found = [one["bound"]["condition"] for one in document["runs"][0]["series"]]
    assert found == [condition, condition, None]
    grid = bounds_grid(document)
    assert grid is not None and f"hold if {condition}." in grid.caption


def test_bounds_without_unanswered_events_have_no_condition() -> None:
    document = made.built(run(values(1)))
    assert document["bounds"][0]["condition"] is None
    grid = bounds_grid(document)
    assert grid is not None and "independent" not in grid.caption


def test_a_cpu_of_one_run_has_only_the_samples_of_that_run() -> None:
    """The claim is about each CPU, so no CPU may take that of another one for its own."""

    def cpus(boot: str, lengths: dict[int, int]) -> made.FakeRun:
        series = [
            made.sampled(values(length + cpu, length), cpu, cpu, thread=at)
            for at, (cpu, length) in enumerate(lengths.items())
        ]
        return made.run([made.step(0, series, budget_ns=60_000)], boot_id=boot)

    one = only(cpus("b1", {0: 1000, 1: 1500}), cpus("b2", {0: 2000}), cpus("b3", {0: 500, 1: 300}))
    assert (one["samples"], one["effective_samples"]) == (5300, 1800)
    assert one["duration_s"] == pytest.approx(1.8)
    assert one["next_sample"] == pytest.approx(1 - 0.05 ** (1 / 1800))
    assert one["next_hour"] == pytest.approx(1 - 0.05 ** (3600 / 1.8))
    # the number of the thread of CPU 1 depends on the CPUs of the run
    one = only(cpus("b1", {1: 1000}), cpus("b2", {0: 1000}), cpus("b3", {0: 900, 1: 800}))
    assert one["effective_samples"] == 1800
    assert one["duration_s"] == pytest.approx(1.8)
    (verdict,) = one["verdicts"]
    alone = only(cpus("b1", {1: 1800}))["verdicts"][0]
    assert verdict["hours_lacking"] == pytest.approx(alone["hours_lacking"])
    assert verdict["evidence"] == alone["evidence"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_evidence_of_runs_boots_and_cpus_is_counted(seed: int) -> None:
    """Each run with some CPUs, each with some events without an answer: effective samples and time
    of the CPU with the fewest, boots with an unanswered event, and the CPU with the most of
    these."""
    random = np.random.default_rng(seed)
    runs, open_, samples, tops, waits = [], [0, 0, 0], 0, [], []
    boots: dict[str, bool] = {}
    time: Counter[int] = Counter()
    effective: Counter[int] = Counter()
    for number in range(5):
        boot = f"b{random.integers(3)}"
        series: list[made.FakeSeries] = []
        cpus = np.sort(random.choice(3, int(random.integers(1, 4)), replace=False)).tolist()
        for cpu in cpus:
            length, missed = int(random.integers(300, 900)), int(random.choice([0, 0, 1, 4]))
            index = np.delete(np.arange(length), np.arange(200, 200 + missed))
            kept = values(seed * 100 + number * 10 + cpu, length)[index]
            info = made.info(cpu, cpu, thread=len(series), name="response")
            gaps = ((199, missed),) if missed else ()
            series.append(made.FakeSeries(info, index, kept, gaps=gaps))
            open_[cpu] += missed
            boots[boot] = boots.get(boot, False) or missed > 0
            samples += length
            tops.append(int(kept.max()))
        runs.append(made.run([made.step(0, series)], boot_id=boot))
        found = made.built(runs[-1])["runs"][0]["series"]
        waits += [one["max_at_least"] for one in found if one["unanswered"]]
        for one in found:
            effective[one["cpu"]] += one["bound"]["effective_samples"]
            time[one["cpu"]] += one["bound"]["duration_s"]
    entry = only(*runs)
    fewest, shortest = min(effective.values()), min(time.values())
    over = sum(boots.values())
    assert (entry["runs"], entry["boots"], entry["samples"]) == (5, len(boots), samples)
    assert (entry["effective_samples"], entry["max"]) == (fewest, max(tops))
    assert entry["max_at_least"] == max(waits)
    assert entry["duration_s"] == pytest.approx(shortest)
    most = max(open_)
    assert entry["next_sample"] == pytest.approx(beta.ppf(0.95, most + 1, fewest - most))
    rate = gamma.ppf(0.95, most + 1) / (shortest / 3600)
    assert entry["next_hour"] == pytest.approx(-np.expm1(-rate))
    wanted = 1.0 if over == len(boots) else beta.ppf(0.95, over + 1, len(boots) - over)
    assert entry["next_boot"] == pytest.approx(wanted)
    needed = entry["boots_needed"]
    assert (
        beta.ppf(0.95, over + 1, needed - over)
        <= 0.05
        < beta.ppf(0.95, over + 1, needed - 1 - over)
    )


@pytest.mark.parametrize("first", [True, False])
def test_steps_of_one_quantity_may_have_other_numbers(first: bool) -> None:
    other = run(values(1), "b1", load="sched")
    other.steps[0].number = 3
    other.steps.insert(0, run(values(3)).steps[0])
    one = run(values(2), "b2", load="sched")
    found = made.built(*((other, one) if first else (one, other)))["bounds"]
    assert {entry["load"]: entry["runs"] for entry in found} == {"idle": 1, "sched": 2}


@pytest.mark.parametrize(
    ("boot", "labs", "boots"),
    [
        ("b", ("1", "2"), 2),
        ("b", ("1", "1"), 1),
        ("b", (None, "1"), 2),
        ("b", (None, None), 1),
        ("", ("1", "2"), 1),
        ("", (None, "1"), 1),
    ],
)
def test_boots_of_a_lab_are_told_apart_if_they_are_known(
    boot: str, labs: tuple[str | None, ...], boots: int
) -> None:
    some = []
    for seed, name in enumerate(labs):
        lab = {} if name is None else {"lab": {"mode": "plain", "meaning": "", "boot": name}}
        some.append(run(values(seed), boot, environment={**made.ENVIRONMENT, **lab}))
    assert sum(one["boots"] for one in made.built(*some)["bounds"]) == boots


def test_what_is_evidence_after_what_is_none() -> None:
    one = run(values(1))
    disturbed = run(values(2)).steps[0]
    disturbed.document["disturb"] = "kthread:200us:7.301ms"
    one.steps[0].number, disturbed.number = 1, 0
    one.steps.insert(0, disturbed)
    entry = only(one)
    assert (entry["runs"], entry["samples"]) == (1, COUNT)


def test_the_claim_is_about_each_cpu() -> None:
    both = run(values(1))
    second = made.sampled(values(2), 1, 1)
    both.steps[0].series.append(second)
    one = only(both)
    assert one["samples"] == 2 * COUNT and one["effective_samples"] == COUNT
    assert one["duration_s"] == pytest.approx(COUNT / 1000)


# --- verdicts by all evidence --------------------------------------------------------------------


@pytest.mark.parametrize(("unanswered", "words"), [(1, "1 event was"), (2, "2 events were")])
def test_a_verdict_names_the_events_without_an_answer(unanswered: int, words: str) -> None:
    ms = 10 * MS
    for waits, waited in (
        ((ms, ms), " within 10 000 us"),
        ((9 * MS, ms), " within 9 000 us to 10 000 us"),
        ((0, ms), " within a wait of at most 10 000 us"),
        ((0, 0), ""),
    ):
        held = Held(100_000, 9.0, 0, 3600, 3600.0, 0, "events", (0, 0), 3600, unanswered, waits)
        said = verdict_on(held, held.judged(0.95), "")
        assert said["result"] == "pass"
        assert plain(said["evidence"]).endswith(f"; {words} not answered{waited}")


@pytest.mark.parametrize(
    ("over", "unanswered", "late", "found"),
    [(1, 1, 1, True), (2, 2, 2, True), (1, 2, 1, True), (1, 1, 0, False), (3, 2, 2, False)],
)
def test_the_remedy_names_samples_only_where_one_is_above(
    over: int, unanswered: int, late: int, found: bool
) -> None:
    """``late``: those of the events without an answer that were waited for long enough."""
    held = Held(
        100_000, None, over, 3600, 3600.0, unanswered - late, "events", (1, over), 9, unanswered,
        (1, 10 * MS), late=late,
    )  # fmt: skip
    judged = held.judged(0.95)
    remedy = verdict_on(held, judged, judged.remedy)["remedy"]
    said = "find out why events had no answer" if found else "look at the times of the samples"
    assert remedy.startswith(said) and remedy.endswith(", or allow a rate (--rate 1/h)")


def test_a_pass_with_an_uncertain_exceedance_is_a_pass() -> None:
    """Within the rate allowed, whether it exceeds or not."""
    held = Held(100_000, 9.0, 1, 3600, 3600.0, 0, "events", (1, 1), 3600, uncertain=1)
    assert verdict_on(held, held.judged(0.95), "")["result"] == "pass"
    assert held.certain().judged(0.95).result == "pass"


def test_all_repeats_together_pass_where_each_is_too_short() -> None:
    """4 runs of 50 minutes: 3 h 20 min without an exceedance prove less than one an hour."""
    runs = [run(values(seed), f"b{seed}", budget=100_000, interval=1000 * MS) for seed in range(4)]
    document = made.built(*runs)
    assert {one["result"] for a in document["runs"] for one in a["verdicts"]} == {"inconclusive"}
    (verdict,) = document["bounds"][0]["verdicts"]
    assert verdict["result"] == "pass"
    assert (verdict["boots_over"], verdict["boots_lacking"]) == (0, 55)
    assert verdict["next_boot"] == pytest.approx(1 - 0.05 ** (1 / 4))
    (said,) = map(plain_line, verdict_lines(document))
    assert "all 4 runs: kept" in said and "55 boots" in said


def test_how_many_hours_and_boots_lack() -> None:
    document = made.built(*(run(values(seed), f"b{seed}", budget=100_000) for seed in range(3)))
    (verdict,) = document["bounds"][0]["verdicts"]
    assert verdict["result"] == "inconclusive"
    needed = -np.log(0.05) - 3 * COUNT / 1000 / 3600
    assert verdict["hours_lacking"] == pytest.approx(needed, abs=1 / 3600)
    assert verdict["boots_lacking"] == 56
    (said,) = map(plain_line, verdict_lines(document))
    assert "not proven" in said and "Still needed: 3\u202fh and" in said and "56 boots" in said


def _judged_cpus(boot: str, lengths: dict[int, int], policies: tuple[str, ...]) -> made.FakeRun:
    """CPUs with a sample a second, each with its number of samples and its policy."""
    series = []
    for (cpu, length), policy in zip(lengths.items(), policies, strict=True):
        info = made.info(cpu, cpu, interval_ns=1000 * MS, policy=policy)
        index = np.arange(length, dtype=np.int64)
        series.append(made.FakeSeries(info, index, values(length + cpu, length)))
    return made.run([made.step(0, series, budget_ns=100_000)], boot_id=boot)


@pytest.mark.parametrize("cpus", [(0, 1), (1, 0)])
def test_the_cpu_that_lacks_the_most_decides(cpus: tuple[int, int]) -> None:
    """After that many hours, each CPU has the time of a pass."""
    lengths = [dict(zip(cpus, some, strict=True)) for some in ((5000, 1000), (5000, 1200))]
    runs = [_judged_cpus(f"b{at}", some, ("fifo",) * 2) for at, some in enumerate(lengths)]
    document = made.built(*runs)
    (verdict,) = document["bounds"][0]["verdicts"]
    needed = -np.log(0.05) - 2200 / 3600
    assert verdict["hours_lacking"] == pytest.approx(needed, abs=1 / 3600)
    assert "2\u202f200 wake-ups" in verdict["evidence"]
    (said,) = map(plain_line, verdict_lines(document))
    assert "Still needed: 2\u202fh 24\u202fmin and 57 boots" in said


@pytest.mark.parametrize("grid", [True, False])
@pytest.mark.parametrize("cpus", [(0, 1), (1, 0)])
def test_a_pass_has_the_evidence_of_the_weakest_cpu(cpus: tuple[int, int], grid: bool) -> None:
    """The claim is about each CPU."""
    runs = []
    for at, lengths in enumerate(((5000, 1500), (5000, 1700))):
        series = [
            made.FakeSeries(
                made.info(cpu, cpu, interval_ns=MS if grid else 0),
                np.arange(length),
                values(cpu + 10 * at, length),
                due=None if grid else np.arange(length) * MS,
            )
            for cpu, length in zip(cpus, lengths, strict=True)
        ]
        if grid:  # fewer an hour than the other CPU may have
            series[0].value[100] = 200_000
        rate = 9000.0 if grid else None
        measurement = "timer" if grid else "sem-uncontended"
        steps = [made.step(0, series, measurement, budget_ns=100_000, rate_per_hour=rate)]
        runs.append(made.run(steps, boot_id=f"b{at}"))
    (verdict,) = made.built(*runs)["bounds"][0]["verdicts"]
    assert verdict["result"] == "pass"
    assert "never exceeded in 3\u202f200 " in verdict["evidence"]


@pytest.mark.parametrize("policies", [("other", "other"), ("fifo", "other"), ("other", "fifo")])
def test_no_length_helps_a_measurement_that_was_not_asked_for(policies: tuple[str, ...]) -> None:
    runs = [_judged_cpus(f"b{at}", {0: 1000 + at, 1: 1000}, policies) for at in range(2)]
    document = made.built(*runs)
    verdicts = [one for entry in document["bounds"] for one in entry["verdicts"]]
    assert {one["result"] for one in verdicts} == {"inconclusive"}
    (ordinary,) = (one for one in verdicts if "SCHED_OTHER" in one["evidence"])
    assert (ordinary["hours_lacking"], ordinary["samples_lacking"]) == (None, None)
    said = map(plain_line, verdict_lines(document))
    (doubted,) = (one for one in said if "SCHED_OTHER" in one)
    assert "Still needed: 57 boots" in doubted


@pytest.mark.slow
def test_one_exceedance_of_one_boot_fails_them_all() -> None:
    late = values(1)
    late[1500] = 200_000
    document = made.built(run(late, "b1", budget=100_000), run(values(2), "b2", budget=100_000))
    (verdict,) = document["bounds"][0]["verdicts"]
    assert (verdict["result"], verdict["boots_over"], verdict["hours_lacking"]) == ("fail", 1, None)
    (said,) = map(plain_line, verdict_lines(document))
    assert "1 of 2 boots exceeded it" in said
    lossy = run(values(3), "b3", budget=100_000)
    lossy.steps[0].series[0].untold_losses = 3
    document = made.built(run(late, "b1", budget=100_000), lossy)
    assert document["bounds"][0]["verdicts"][0]["boots_unknown"] == 1
    (said,) = map(plain_line, verdict_lines(document))
    assert "1 of 2 boots exceeded it. 1 more may have exceeded it, because" in said
    assert not verdict_lines(made.built(run(late, budget=100_000)))


@pytest.mark.slow
def test_a_verdict_on_numbered_steps_has_its_runs() -> None:
    """A name with the numbers of steps was taken for one with those of runs."""
    index = np.arange(1000, dtype=np.int64)
    runs = []
    for at in range(2):
        series = [made.FakeSeries(made.info(interval_ns=ms * MS), index, values(at, 1000))
                  for ms in (1, 2)]  # fmt: skip
        steps = [made.step(n, [one], budget_ns=100_000) for n, one in enumerate(series)]
        runs.append(made.run(steps, boot_id=f"b{at}"))
    said = [plain_line(line) for line in verdict_lines(made.built(*runs))]
    for number, line in enumerate(said, 1):
        assert f"timer latency, step {number}, all 2 runs: not proven" in line


@pytest.mark.slow
def test_boots_with_samples_of_unknown_value_may_have_exceeded_it() -> None:
    lossy = run(values(1), "b1", budget=100_000)
    lossy.steps[0].series[0].untold_losses = 3
    runs = [lossy, run(values(2), "b1", budget=100_000), run(values(3), "b2", budget=100_000)]
    (verdict,) = made.built(*runs)["bounds"][0]["verdicts"]
    assert (verdict["boots_over"], verdict["boots_lacking"]) == (1, 91)
    assert verdict["boots_unknown"] == 1
    document = made.built(*runs)
    (said,) = map(plain_line, verdict_lines(document))
    assert "1 of 2 boots may have exceeded it, because values are unknown or may belong" in said
    del document["bounds"][0]["verdicts"][0]["boots_unknown"]  # as in older documents
    model.validate(document)
    (said,) = map(plain_line, verdict_lines(document))
    assert "1 of 2 boots exceeded it." in said
    assert beta.ppf(0.95, 2, 92) <= 0.05 < beta.ppf(0.95, 2, 91)
    assert verdict["next_boot"] == pytest.approx(beta.ppf(0.95, 2, 1))


@pytest.mark.slow
def test_each_requirement_has_a_verdict() -> None:
    late = values(1)
    late[100:102] = 150_000
    runs = [
        run(values(5), "b0"),
        run(late, "b1", budget=100_000),
        run(late[::-1], "b2", budget=200_000),
        run(values(2), "b3", budget=200_000),
        run(values(3), "b4", budget=200_000, rate=9.0),
        run(values(4), "b5"),
    ]
    verdicts = made.built(*runs)["bounds"][0]["verdicts"]
    assert [
        (one["budget_ns"], one["rate_per_hour"], one["result"], one["boots_over"])
        for one in verdicts
    ] == [
        (100_000, None, "fail", 1),
        (200_000, None, "inconclusive", 0),
        (200_000, 9.0, "inconclusive", 0),
    ]
    assert ["3000" in one["evidence"].replace("\u202f", "") for one in verdicts] == [
        True, False, True,
    ]  # fmt: skip


def test_only_runs_with_a_budget_are_evidence_for_it() -> None:
    """No claim on a budget rests on boots that were not held against it."""
    document = made.built(
        run(values(1), "b1", budget=100_000),
        run(values(2), "b2"),
        run(values(3), "b3", budget=200_000),
        run(values(4), "b4", budget=200_000),
        run(values(5), "b4", budget=200_000),
    )
    (one,) = document["bounds"]
    assert (one["runs"], one["boots"]) == (5, 4)
    for verdict, runs, boots in zip(one["verdicts"], (1, 3), (1, 2), strict=True):
        assert (verdict["runs"], verdict["boots"]) == (runs, boots)
        assert verdict["next_boot"] == pytest.approx(1 - 0.05 ** (1 / boots))
        assert verdict["boots_lacking"] == 59 - boots
    (said,) = map(plain_line, verdict_lines(document))
    assert said.startswith("Budget 200\u202fµs") and ", 3 of 5 runs: not proven" in said
    assert "57 boots" in said
    for verdict in one["verdicts"]:  # as in older documents
        del verdict["runs"], verdict["boots"]
    model.validate(document)
    assert all("all 5 runs" in plain_line(line) for line in verdict_lines(document))


@pytest.mark.parametrize(
    ("late", "said"),
    [
        ((1, 3, 2), "exceeded 3 times in 3000 wake-ups"),
        ((3, 2, 1), "exceeded 3 times in 6000 wake-ups"),
        ((0, 1, 0), "exceeded once in 3000 wake-ups"),
        ((0, 0, 0), "never exceeded in 3000 wake-ups"),
    ],
)
def test_the_thread_with_the_most_exceedances_decides(late: tuple[int, ...], said: str) -> None:
    """The first CPU has samples of two runs, the others of one."""
    series = []
    for cpu, number in enumerate(late):
        some = values(cpu)
        some[100 : 100 + 10 * number : 10] = 200_000
        index = np.arange(COUNT, dtype=np.int64)
        series.append(made.FakeSeries(made.info(cpu, cpu), index, some))
    one = made.run([made.step(0, series, budget_ns=100_000)], boot_id="b1")
    other = run(values(9), "b2", budget=100_000)
    (verdict,) = made.built(one, other)["bounds"][0]["verdicts"]
    assert verdict["result"] == ("fail" if any(late) else "inconclusive")
    assert said in verdict["evidence"].replace("\u202f", "")


@pytest.mark.slow
def test_how_many_operations_lack() -> None:
    """Without a time grid, 2995 of them bound the share of late ones at 1 in 1000."""
    assert 0.999**2995 <= 0.05 < 0.999**2994
    for counts, lacking in (((1000, 900), 1095), ((2000, 2000), None)):
        runs = [
            run(np.random.default_rng(at).permutation(count).astype(np.int32), interval=0,
                budget=100_000, boot=f"b{at}")
            for at, count in enumerate(counts)
        ]  # fmt: skip
        for one in runs:
            one.steps[0].document["measurement"] = "mutex"
        entry = only(*runs)
        (verdict,) = entry["verdicts"]
        assert verdict["result"] == ("pass" if lacking is None else "inconclusive")
        assert (verdict["samples_lacking"], verdict["hours_lacking"]) == (lacking, None)
        assert (entry["next_hour"], entry["extrapolation"]) == (None, None)


def test_episodes_of_all_runs_add_up() -> None:
    late = [values(seed, 20_000) for seed in range(2)]
    for some in late:
        some[[5000, 5003, 15_000]] = 200_000
    two = [run(s, f"b{at}", budget=100_000, rate=1e4) for at, s in enumerate(late)]
    (verdict,) = made.built(*two)["bounds"][0]["verdicts"]
    assert "4 episodes (6 of 40" in verdict["evidence"].replace("\u202f", "").replace(" 000", "")


# --- the composed maximum ------------------------------------------------------------------------

STAGES = [
    {
        "name": "latency",
        "stages": ["interrupt", "handler", "wake-up", "return"],
        "stages_in": {"irq": ["interrupt", "handler"]},
    }
]


def chained(seed: int = 1, count: int = COUNT) -> tuple[made.FakeStep, NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(seed)
    irq = random.integers(300, 15_000, count).astype(np.int32)
    user = irq + random.integers(2000, 90_000, count).astype(np.int32)
    index = np.arange(count, dtype=np.int64)
    kept = np.sort(random.choice(count, count - 100, replace=False))
    kept = np.union1d(kept, [int(irq.argmax()), int((user - irq).argmax())])
    first = made.FakeSeries(made.info(0, context="irq"), index, irq, chunk_rows=70)
    last = made.FakeSeries(made.info(1, context="user"), kept, user[kept], chunk_rows=110)
    return made.step(0, [last, first]), irq, user


def test_worst_stages_add_up() -> None:
    step, irq, user = chained()
    ((series, stages),) = composed(step, STAGES).items()  # type: ignore[arg-type]
    assert series == 1
    assert [(one.name, one.max) for one in stages] == [
        ("irq", irq.max()),
        ("irq to user", (user - irq).max()),
    ]
    assert sum(one.max for one in stages) > user.max()


@pytest.mark.slow
def test_stages_of_several_runs_are_composed() -> None:
    runs = []
    tops = np.zeros(2, np.int64)
    for seed in (1, 2):
        step, irq, user = chained(seed)
        catalogue = json.loads(json.dumps(made.CATALOGUE))
        catalogue["measurements"][0]["series"] = [{**STAGES[0], "unit": "ns", "from": "due time"}]
        runs.append(made.run([step], boot_id=f"b{seed}", catalogue=catalogue))
        tops = np.maximum(tops, [irq.max(), (user - irq).max()])
    by_context = {one["context"]: one for one in made.built(*runs)["bounds"]}
    assert by_context["irq"]["composed"] is None
    assert by_context["user"]["composed"] == {
        "max": tops.sum(),
        "stages": [{"name": "irq", "max": tops[0]}, {"name": "irq to user", "max": tops[1]}],
    }
    alone = {one["context"]: one["composed"] for one in made.built(runs[1])["bounds"]}
    assert alone["user"]["max"] == irq.max() + (user - irq).max()
    grid = bounds_grid(made.built(*runs))
    assert grid is not None and grid.heads[-1] == "Composed" and "not a bound" in grid.caption


@pytest.mark.parametrize("contexts", ["irq user", "kernel irq user", "", "user"])
def test_stages_are_composed_if_all_runs_have_the_same(contexts: str) -> None:
    described: dict[str, Any] = {"name": "latency", "unit": "ns", "from": "due time"}
    described |= {"stages": ["a", "b", "c"], "stages_in": {"kernel": ["a"], "irq": ["a", "b"]}}
    catalogue = json.loads(json.dumps(made.CATALOGUE))
    catalogue["measurements"][0]["series"] = [described]
    runs = []
    for number, names in enumerate(("irq user", "irq user", contexts)):
        series = [
            made.sampled(values(number, 300) + 50_000 * at, at, context=name)
            for at, name in enumerate(names.split())
        ]
        runs.append(made.run([made.step(0, series)], boot_id=f"b{number}", catalogue=catalogue))
    (entry,) = (one for one in made.built(*runs)["bounds"] if one["context"] == "user")
    assert entry["runs"] == (3 if contexts else 2)
    same = contexts in ("irq user", "")
    assert (entry["composed"] is not None) == same
    assert not same or len(entry["composed"]["stages"]) == 2


@pytest.mark.parametrize("fault", ["before", "labels", "grid", "no stages"])
def test_series_that_are_not_stages_of_one_event(fault: str) -> None:
    step, _, _ = chained()
    last, first = step.series
    described: list[dict[str, Any]] = STAGES
    if fault == "before":  # the user task ended before the handler
        last.value = last.value.copy()
        last.value[7] = 100
    elif fault == "labels":
        step.series[0] = made.FakeSeries(
            made.info(1, context="user", labels={"method": "x"}), last.index, last.value
        )
    elif fault == "grid":
        last.start_ns = 17
    else:
        described = [{"name": "latency", "stages": []}]
    assert composed(step, described) == {}  # type: ignore[arg-type]
    assert first.count


@pytest.mark.parametrize("seed", range(12))
def test_stages_of_three_contexts_are_those_of_all_common_events(seed: int) -> None:
    """Each series in its own unit and chunks, and with samples of its own missing."""
    random = np.random.default_rng(seed)
    ends = np.cumsum(random.integers(0, 400, (3, 300)), axis=0) * 6
    names, scales = ("irq", "kernel", "user"), random.permutation([1, 2, 3]).tolist()
    kept = [np.sort(random.choice(300, int(random.integers(150, 301)), False)) for _ in names]
    series = [
        made.FakeSeries(
            made.info(number, context=name, scale=scale), some, values[some] // scale,
            chunk_rows=int(random.integers(3, 90)),
        )
        for number, (name, scale, values, some) in enumerate(
            zip(names, scales, ends, kept, strict=True)
        )
    ]  # fmt: skip
    described = [
        {
            "name": "latency",
            "stages": ["a", "b", "c"],
            "stages_in": {"irq": ["a"], "kernel": ["a", "b"]},
        }
    ]
    step = made.step(0, [series[k] for k in random.permutation(3)])
    tops = [int(ends[0][kept[0]].max())]
    for before, after in ((0, 1), (1, 2)):
        both = np.intersect1d(kept[before], kept[after])
        tops.append(int((ends[after] - ends[before])[both].max()))
    found = composed(step, described)  # type: ignore[arg-type]
    words = ["irq", "irq to kernel", "kernel to user"]
    assert {
        number: [(one.name, one.max) for one in stages] for number, stages in found.items()
    } == {number: list(zip(words, tops, strict=True))[: number + 1] for number in (1, 2)}


@pytest.mark.parametrize(("least", "stages"), [(0, 2), (-1, 0)])
def test_a_context_may_end_with_the_one_before_but_not_earlier(least: int, stages: int) -> None:
    first = np.full(9, 500, np.int32)
    last = first + np.array([5, 6, 7, least, 9, 8, 7, 6, 5], np.int32)
    step = made.step(
        0,
        [
            made.sampled(values, number, context=name, chunk_rows=3)
            for number, (name, values) in enumerate((("irq", first), ("user", last)))
        ],
    )
    found = composed(step, STAGES)  # type: ignore[arg-type]
    assert [len(one) for one in found.values()] == ([stages] if stages else [])
    for interval_ns in (1, 0):  # without a time grid there are no common events
        for one in step.series:
            info = made.info(one.info.series, context=one.info.context, interval_ns=interval_ns)
            one.info, one.due = info, np.arange(9) * max(interval_ns, 1)
        assert len(composed(step, STAGES)) == (stages > 0 < interval_ns)  # type: ignore[arg-type]


@pytest.mark.parametrize("fault", ["twice", "without stages", "another way"])
def test_contexts_that_form_no_chain(fault: str) -> None:
    names = ["irq", "user", "user" if fault == "twice" else "kernel"]
    described = {"name": "latency", "stages": ["a", "b", "c"], "stages_in": {"irq": ["a"]}}
    if fault == "without stages":
        described |= {"stages": [], "stages_in": {"user": ["a"], "irq": ["a", "b"]}}
        names = ["kernel", "user", "irq"]
    elif fault == "another way":
        described["stages_in"] = {"irq": ["a"], "kernel": ["a", "x"]}
    step = made.step(
        0,
        [
            made.sampled(np.full(9, 100 * number, np.int32), number, context=name)
            for number, name in enumerate(names)
        ],
    )
    assert composed(step, [described]) == {}  # type: ignore[arg-type]


# --- the model of the largest values -------------------------------------------------------------


def drawn(seed: int) -> NDArray[np.int32]:
    shape = np.random.default_rng(seed).gamma(4, size=20_000) * 1000 + 3000
    return np.round(shape).astype(np.int32)


@pytest.mark.slow
def test_the_appendix_has_the_level_or_the_reasons() -> None:
    document = made.built(run(drawn(1), "b1"), run(drawn(2), "b2"))
    (one,) = document["bounds"]
    found = one["extrapolation"]
    assert found["reasons"] == [] and found["samples"] == 40_000
    assert found["level_interval"][0] < found["level"] < found["level_interval"][1]
    section = extrapolation_section(document)
    assert section is not None and section.folded
    assert "a model, not a measurement" in repr(section)
    assert numbers.shown(round(found["level"]), "ns").text in repr(section)


@pytest.mark.slow
def test_a_refused_model_gives_no_level() -> None:
    late = drawn(1)
    late[::500] += 60_000
    document = made.built(run(late, "b1"), run(late, "b1"), run(drawn(2), "b2"))
    found = document["bounds"][0]["extrapolation"]
    assert found["level"] is None and found["level_interval"] is None
    assert "1 of the runs is a copy of another" in found["reasons"]
    section = extrapolation_section(document)
    assert section is not None and "refused" in repr(section) and "copy" in repr(section)
    assert extrapolation_section(made.built()) is None


@pytest.mark.slow
def test_the_model_is_about_the_cpu_with_the_highest_maximum() -> None:
    both = run(drawn(1))
    second = made.sampled(drawn(2) + 9000, 1, 1)
    both.steps[0].series.append(second)
    assert made.built(both)["bounds"][0]["extrapolation"]["cpu"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("first", [True, False])
def test_the_highest_maximum_is_that_of_all_runs(first: bool) -> None:
    """That of CPU 0 in one of them, although CPU 1 is higher in the other."""
    runs = []
    for number, (low, high) in enumerate(((0, 9000), (30_000, 9000))):
        one = run(drawn(number) + low, f"b{number}")
        index = np.arange(20_000, dtype=np.int64)
        one.steps[0].series.append(made.FakeSeries(made.info(1, 1), index, drawn(7) + high))
        runs.append(one)
    assert only(*(runs if first else runs[::-1]))["extrapolation"]["cpu"] == 0


def test_a_cpu_without_any_answer_is_not_the_highest() -> None:
    none = np.zeros(0, np.int64)
    silent = made.FakeSeries(made.info(name="response"), none, none, gaps=((-1, 600),))
    index = np.arange(600, dtype=np.int64)
    other = made.FakeSeries(made.info(1, 1, thread=5, name="response"), index, index % 2)
    entry = only(made.run([made.step(0, [silent, other])]))
    assert (entry["max"], entry["extrapolation"]["cpu"]) == (1, 1)


@pytest.mark.slow
def test_there_is_no_model_if_a_run_has_no_more_than_a_histogram() -> None:
    large = drawn(2).tolist()
    buckets = np.array(sorted(Counter(map(streams.bucket, large)).items()), np.int64)
    whole = Histogram(9, 0, 20_000, min(large), max(large), sum(large), 0, 0, 0, 7, buckets)
    some = run(drawn(2)[:90], "b2")
    some.steps[0].series[0].withheld, some.steps[0].series[0].histogram = 19_910, whole
    for runs in ((run(drawn(1), "b1"), some), (some,)):
        entry = only(*runs)
        assert (entry["max"] >= max(large), entry["extrapolation"]) == (True, None)


@pytest.mark.slow
def test_the_model_takes_the_runs_in_the_order_of_their_starts() -> None:
    early = run(drawn(1), "b1", started="2026-11-21T10:00:00Z")
    late = run(drawn(2), "b2", started="2026-11-21T11:00:00Z")
    one, other = (only(*runs)["extrapolation"] for runs in ((early, late), (late, early)))
    assert one == other
    late.document["started"] = "2026-11-21T09:00:00Z"
    assert only(early, late)["extrapolation"] != one


@pytest.mark.slow
def test_patterns_of_the_highest_thread_of_any_run_refuse_the_model() -> None:
    """Two groups of values in one of two runs, of the thread that the model is about or another."""
    groups = drawn(2)
    groups[::3] += 60_000
    found = only(run(groups, "b1"), run(drawn(1), "b2"))["extrapolation"]
    assert "the samples fall into two groups" in found["reasons"]
    both = run(drawn(1), "b1")
    index = np.arange(len(groups), dtype=np.int64)
    both.steps[0].series.append(made.FakeSeries(made.info(1, 1), index, groups // 9))
    found = only(both)["extrapolation"]
    assert (found["cpu"], found["reasons"]) == (0, [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lost", "words"), [(1, "1 sample was lost"), (2, "2 samples were lost"), (0, "")]
)
def test_the_number_of_lost_samples_is_named(lost: int, words: str) -> None:
    lossy = run(drawn(2), "b2")
    lossy.steps[0].series[0].untold_losses = lost
    found = only(run(drawn(1), "b1"), lossy)["extrapolation"]
    assert found["reasons"] == ([f"{words}, perhaps the largest"] if lost else [])


@pytest.mark.slow
def test_only_the_complete_reports_have_it() -> None:
    source = Source([run(drawn(1))])  # type: ignore[list-item]
    assert "Extrapolation to 10 times" in html.render(source.analysis)
    short_text = markdown.render(short(source.analysis))
    assert "Extrapolation" not in short_text and "**Bounds" in short_text


@pytest.mark.slow
def test_events_that_nobody_knows_refuse_the_model() -> None:
    """What was lost may be the largest, on another CPU or in another run too."""
    lossy = run(drawn(2), "b2")
    lossy.steps[0].series[0].lost = ((20_000, 3, 9000),)
    found = made.built(run(drawn(1), "b1"), lossy)["bounds"][0]["extrapolation"]
    assert found["reasons"] == ["3 samples were lost, perhaps the largest"]
    assert found["level"] is None and found["level_interval"] is None
    index = np.delete(np.arange(20_000), [70, 9000])
    silent = made.FakeSeries(
        made.info(name="response", labels={"line": "net"}),
        index,
        drawn(1)[index],
        gaps=((69, 1), (8999, 1)),
    )
    (one,) = made.built(made.run([made.step(0, [silent], "log-host")]))["bounds"]
    assert one["max_at_least"] is not None
    assert one["extrapolation"]["reasons"] == ["2 events had no answer, perhaps the latest"]
