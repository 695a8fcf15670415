# SPDX-License-Identifier: Apache-2.0
"""Bounds from all runs together, against figures computed from the arrays, and the composed
maximum against brute force."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import report_runs as made
from rtgauge import text as numbers
from rtgauge.report import Source
from rtgauge.report.document.blocks import plain_line
from rtgauge.report.document.evidence import bounds_grid, extrapolation_section, verdict_lines
from rtgauge.report.document.summary import short
from rtgauge.report.render import html, markdown, terminal
from rtgauge.report.results import model
from rtgauge.report.results.bounds import fingerprint
from rtgauge.report.results.composed import composed
from rtgauge.stats import exceedance_bound

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


def built(*runs: made.FakeRun) -> dict[str, Any]:
    document = model.build(runs)  # type: ignore[arg-type]
    model.validate(document)
    return document


def only(*runs: made.FakeRun) -> dict[str, Any]:
    (one,) = built(*runs)["bounds"]
    return dict(one)


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
    one = only(*(run(values(seed, 60), f"b{seed}") for seed in range(59)))
    assert one["next_boot"] <= 0.05 < 1 - 0.05 ** (1 / 58)


def test_copies_count_once() -> None:
    one = only(run(values(1), "b1"), run(values(1), "b1"), run(values(2), "b2"), run(values(2)))
    assert (one["runs"], one["boots"], one["copies"]) == (2, 2, 2)
    assert one["samples"] == 2 * COUNT
    shown = bounds_grid(built(run(values(1)), run(values(1))))
    assert shown is not None and "1 copy not counted" in shown.rows[0].cells[0].text


def test_runs_of_one_boot_are_one_boot_and_unknown_boots_too() -> None:
    assert only(run(values(1), "b"), run(values(2), "b"))["boots"] == 1
    assert only(run(values(1), ""), run(values(2), ""))["boots"] == 1


def test_constant_series_of_two_boots_are_no_copies() -> None:
    same = np.full(COUNT, 5000, np.int32)
    one = only(run(same, "b1"), run(same, "b2"))
    assert (one["boots"], one["copies"], one["max"]) == (2, 0, 5000)


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


def test_what_is_no_evidence() -> None:
    assert only(run(values(1), "b1"), run(values(2), "b2", step_state="failed"))["runs"] == 1
    assert len(built(run(values(1)), run(values(2), label="tuned"))["bounds"]) == 2
    assert len(built(run(values(1)), run(values(2), load="sched"))["bounds"]) == 2
    assert len(built(run(values(1)), run(values(2), target="ssh://board"))["bounds"]) == 2
    disturbed = run(values(1))
    disturbed.steps[0].document["disturb"] = "irq:200us:7300us"
    assert built(disturbed)["bounds"] == []
    assert built(run(np.zeros(0, np.int32)))["bounds"] == []
    assert bounds_grid(built()) is None


def test_a_single_run_claims_nothing_of_boots() -> None:
    grid = bounds_grid(built(run(values(1))))
    assert grid is not None
    (row,) = grid.rows
    assert [cell.text for cell in row.cells][3:] == ["–", "–"]
    assert "too little evidence" in grid.caption and "59" in grid.caption
    assert "Bounds" in terminal.text(built(run(values(1))))


def test_a_run_of_half_a_second_bounds_the_next_hour() -> None:
    entry = only(run(values(1, 500)))
    rate = -np.log(0.05) / (0.5 / 3600)
    assert entry["duration_s"] == pytest.approx(0.5)
    assert entry["next_hour"] == pytest.approx(-np.expm1(-rate))


def test_the_cpu_with_most_events_without_an_answer_counts() -> None:
    def answers(cpu: int, missed: int) -> made.FakeSeries:
        info = made.info(cpu, cpu, name="response")
        gaps = ((99, missed),) if missed else ()
        index = np.concatenate((np.arange(100), np.arange(100 + missed, COUNT)))
        return made.FakeSeries(info, index, values(cpu)[index], gaps=gaps)

    series = [answers(0, 1), answers(1, 5), answers(2, 0)]
    entry = only(made.run([made.step(0, series)]))
    wanted = exceedance_bound(entry["effective_samples"], 0.95, 5)
    assert entry["next_sample"] == pytest.approx(wanted)


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
    second = made.FakeSeries(made.info(1, 1), np.arange(COUNT, dtype=np.int64), values(2))
    both.steps[0].series.append(second)
    one = only(both)
    assert one["samples"] == 2 * COUNT and one["effective_samples"] == COUNT
    assert one["duration_s"] == pytest.approx(COUNT / 1000)


# --- verdicts by all evidence --------------------------------------------------------------------


def test_all_repeats_together_pass_where_each_is_too_short() -> None:
    """4 runs of 50 minutes: 3 h 20 min without an exceedance prove less than one an hour."""
    runs = [run(values(seed), f"b{seed}", budget=100_000, interval=1000 * MS) for seed in range(4)]
    document = built(*runs)
    assert {one["result"] for a in document["runs"] for one in a["verdicts"]} == {"inconclusive"}
    (verdict,) = document["bounds"][0]["verdicts"]
    assert verdict["result"] == "pass"
    assert (verdict["boots_over"], verdict["boots_lacking"]) == (0, 55)
    assert verdict["next_boot"] == pytest.approx(1 - 0.05 ** (1 / 4))
    (said,) = map(plain_line, verdict_lines(document))
    assert "all 4 runs: kept" in said and "55 boots" in said


def test_how_many_hours_and_boots_lack() -> None:
    document = built(*(run(values(seed), f"b{seed}", budget=100_000) for seed in range(3)))
    (verdict,) = document["bounds"][0]["verdicts"]
    assert verdict["result"] == "inconclusive"
    needed = -np.log(0.05) - 3 * COUNT / 1000 / 3600
    assert verdict["hours_lacking"] == pytest.approx(needed, abs=1 / 3600)
    assert verdict["boots_lacking"] == 56
    (said,) = map(plain_line, verdict_lines(document))
    assert "not proven" in said and "Still needed: 3\u202fh and" in said and "56 boots" in said


def test_one_exceedance_of_one_boot_fails_them_all() -> None:
    late = values(1)
    late[1500] = 200_000
    document = built(run(late, "b1", budget=100_000), run(values(2), "b2", budget=100_000))
    (verdict,) = document["bounds"][0]["verdicts"]
    assert (verdict["result"], verdict["boots_over"], verdict["hours_lacking"]) == ("fail", 1, None)
    (said,) = map(plain_line, verdict_lines(document))
    assert "1 of 2 boots exceeded it" in said
    assert not verdict_lines(built(run(late, budget=100_000)))


def test_episodes_of_all_runs_add_up() -> None:
    late = [values(seed, 20_000) for seed in range(2)]
    for some in late:
        some[[5000, 5003, 15_000]] = 200_000
    two = [run(s, f"b{at}", budget=100_000, rate=1e4) for at, s in enumerate(late)]
    (verdict,) = built(*two)["bounds"][0]["verdicts"]
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


def test_stages_of_several_runs_are_composed() -> None:
    runs = []
    tops = np.zeros(2, np.int64)
    for seed in (1, 2):
        step, irq, user = chained(seed)
        catalogue = json.loads(json.dumps(made.CATALOGUE))
        catalogue["measurements"][0]["series"] = [{**STAGES[0], "unit": "ns", "from": "due time"}]
        runs.append(made.run([step], boot_id=f"b{seed}", catalogue=catalogue))
        tops = np.maximum(tops, [irq.max(), (user - irq).max()])
    by_context = {one["context"]: one for one in built(*runs)["bounds"]}
    assert by_context["irq"]["composed"] is None
    assert by_context["user"]["composed"]["max"] == tops.sum()
    grid = bounds_grid(built(*runs))
    assert grid is not None and grid.heads[-1] == "Composed" and "not a bound" in grid.caption


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
            made.FakeSeries(made.info(number, context=name), np.arange(9), values, chunk_rows=3)
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
            made.FakeSeries(
                made.info(number, context=name), np.arange(9), np.full(9, 100 * number, np.int32)
            )
            for number, name in enumerate(names)
        ],
    )
    assert composed(step, [described]) == {}  # type: ignore[arg-type]


# --- the model of the largest values -------------------------------------------------------------


def gamma(seed: int) -> NDArray[np.int32]:
    drawn = np.random.default_rng(seed).gamma(4, size=20_000) * 1000 + 3000
    return np.round(drawn).astype(np.int32)


def test_the_appendix_has_the_level_or_the_reasons() -> None:
    document = built(run(gamma(1), "b1"), run(gamma(2), "b2"))
    (one,) = document["bounds"]
    found = one["extrapolation"]
    assert found["reasons"] == [] and found["samples"] == 40_000
    assert found["level_interval"][0] < found["level"] < found["level_interval"][1]
    section = extrapolation_section(document)
    assert section is not None and section.folded
    assert "a model, not a measurement" in repr(section)
    assert numbers.shown(round(found["level"]), "ns").text in repr(section)


def test_a_refused_model_gives_no_level() -> None:
    late = gamma(1)
    late[::500] += 60_000
    document = built(run(late, "b1"), run(late, "b1"), run(gamma(2), "b2"))
    found = document["bounds"][0]["extrapolation"]
    assert found["level"] is None and found["level_interval"] is None
    assert "1 of the runs is a copy of another" in found["reasons"]
    section = extrapolation_section(document)
    assert section is not None and "refused" in repr(section) and "copy" in repr(section)
    assert extrapolation_section(built()) is None


def test_the_model_is_about_the_cpu_with_the_highest_maximum() -> None:
    both = run(gamma(1))
    second = made.FakeSeries(made.info(1, 1), np.arange(20_000), gamma(2) + 9000)
    both.steps[0].series.append(second)
    assert built(both)["bounds"][0]["extrapolation"]["cpu"] == 1


def test_only_the_complete_reports_have_it() -> None:
    source = Source([run(gamma(1))])  # type: ignore[list-item]
    assert "Extrapolation to 10 times" in html.render(source.analysis)
    short_text = markdown.render(short(source.analysis))
    assert "Extrapolation" not in short_text and "**Bounds" in short_text


@pytest.mark.slow
def test_events_that_nobody_knows_refuse_the_model() -> None:
    """What was lost may be the largest, on another CPU or in another run too."""
    lossy = run(gamma(2), "b2")
    lossy.steps[0].series[0].lost = ((20_000, 3, 9000),)
    found = built(run(gamma(1), "b1"), lossy)["bounds"][0]["extrapolation"]
    assert found["reasons"] == ["3 samples were lost, perhaps the largest"]
    assert found["level"] is None and found["level_interval"] is None
    index = np.delete(np.arange(20_000), [70, 9000])
    silent = made.FakeSeries(
        made.info(name="response", labels={"line": "net"}),
        index,
        gamma(1)[index],
        gaps=((69, 1), (8999, 1)),
    )
    (one,) = built(made.run([made.step(0, [silent], "log-host")]))["bounds"]
    assert one["max_at_least"] is not None
    assert one["extrapolation"]["reasons"] == ["2 events had no answer, perhaps the latest"]
