# SPDX-License-Identifier: Apache-2.0
"""Verdicts of comparisons: which runs are evidence, how they are matched, and what follows."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import test_compare as study_of
from rtgauge import text as numbers
from rtgauge.errors import UsageError
from rtgauge.report.document.compared import (
    advice,
    comparison_cases,
    decided,
    decision_text,
    shown_decisions,
    verdict_text,
)
from rtgauge.report.render import compare_text
from rtgauge.report.sets import compare as comparing
from rtgauge.report.sets.decide import decisions, decisive, named, resolution
from rtgauge.stats import Counts, bucket_high, bucket_of, holm, paired_shift, shift

Values = Sequence[Mapping[str, float | None]]


def run(name: str, study: str, repeat: int, mark: float) -> dict[str, Any]:
    """A run of which only its place in a study and its fingerprint matter."""
    figures = {"step": 0, "name": "latency", "count": 1000, "first": 1, "min": 1, "max": mark,
               "mean": 2.0, "percentiles": {"50": 2, "90": 3, "99": 4}, "rest": 0}  # fmt: skip
    return {"id": name, "study": study, "repeat": repeat, "series": [figures], "environment": {}}


def quantity(rows: Sequence[tuple[int, Sequence[str], Values]], **more: Any) -> dict[str, Any]:
    return {
        "measurement": "timer",
        "name": "latency",
        "unit": "ns",
        "context": "user",
        "load": {"name": "sched"},
        "method": {"interval": "1 ms"},
        "told": [],
        "tail": "99.9",
        "budget": None,
        **more,
        "rows": [
            {
                "set": number,
                "runs": [
                    {
                        "run": name,
                        "count": 1000,
                        "figures": {"min": 1, **figures},
                        "over": figures.get("over"),
                        "missed": 0,
                        "complete": True,
                    }
                    for name, figures in zip(names, values, strict=True)
                ],
            }
            for number, names, values in rows
        ],
    }


def figures(tail: Sequence[float]) -> Values:
    return [{"50": one / 2, "tail": one, "max": one * 3} for one in tail]


def study(tails: Sequence[Sequence[float]], name: str = "s") -> tuple[list[Any], list[Any]]:
    """Runs and one quantity, a set for each row of ``tails`` and a repeat for each column."""
    runs, rows = [], []
    for at, row in enumerate(tails):
        names = [f"{name}{at}-{repeat}" for repeat in range(len(row))]
        runs += [
            run(one, name, r, tail) for r, (one, tail) in enumerate(zip(names, row, strict=True))
        ]
        rows.append((at, names, figures(row)))
    return runs, [quantity(rows)]


def unlike(runs: list[Any]) -> None:
    """No run is the copy of another one."""
    for at, one in enumerate(runs):
        one["series"][0]["mean"] = float(at)


def scaled(values: Sequence[float], factors: Sequence[float]) -> list[float]:
    return [value * factor for value, factor in zip(values, factors, strict=True)]


def primary(runs: list[Any], quantities: list[Any], **more: Any) -> dict[str, Any]:
    found = [one for one in decisions(runs, quantities, **more) if one["primary"]]
    assert len(found) == 1
    return found[0]


BLOCKS = [100.0, 140.0, 90.0, 300.0, 120.0, 180.0]


@pytest.mark.study(126, lacks="the board and the patch of its kernel")
def test_matched_runs_are_judged_by_their_differences() -> None:
    later = scaled(BLOCKS, (1.5, 2.0, 1.8, 1.6, 1.9, 2.2))
    one = primary(*study([BLOCKS, later]))
    expected = paired_shift([math.log(b / a) for a, b in zip(BLOCKS, later, strict=True)])
    assert one["matched"]
    assert one["runs"] == [6, 6]
    assert one["ratio"] == pytest.approx(math.exp(expected.estimate))
    assert one["interval"] == pytest.approx([math.exp(expected.low), math.exp(expected.high)])
    assert one["p"] == one["p_adjusted"] == expected.p == 2 / 64
    assert one["blocks"] == pytest.approx([1.5, 2.0, 1.8, 1.6, 1.9, 2.2])
    assert (one["verdict"], one["beyond"]) == ("worse", True)
    one = primary(*study([later, BLOCKS]))
    assert (one["verdict"], one["beyond"]) == ("better", True)


def test_blocks_are_matched_by_study_and_repeat_not_by_place() -> None:
    runs, quantities = study([BLOCKS, [2 * value for value in BLOCKS]])
    quantities[0]["rows"][1]["runs"].reverse()
    one = primary(runs, quantities)
    assert one["matched"]
    assert one["interval"] == pytest.approx([2.0, 2.0])


def test_runs_without_a_study_are_compared_as_they_are() -> None:
    runs, quantities = study([BLOCKS, [2 * value for value in BLOCKS[:5]]])
    for at, one in enumerate(runs):
        one.update(study="", repeat=at)
    one = primary(runs, quantities)
    expected = shift([math.log(v) for v in BLOCKS], [math.log(2 * v) for v in BLOCKS[:5]])
    assert not one["matched"]
    assert one["runs"] == [6, 5]
    assert one["p"] == pytest.approx(expected.p)
    assert one["ratio"] == pytest.approx(math.exp(expected.estimate))


def test_copies_count_once() -> None:
    runs, quantities = study([[100.0] * 6, [200.0] * 6])
    one = primary(runs, quantities)
    assert one["runs"] == [1, 1]
    assert one["copies"] == [5, 5]
    assert one["verdict"] == "not enough runs"
    assert one["needed"] == 6
    for each in runs:
        each["study"] = ""
    one = primary(runs, quantities)
    assert not one["matched"]
    assert one["runs"] == [1, 1]
    assert one["copies"] == [5, 5]
    assert one["blocks"] is None
    assert one["needed"] == 4  # 2 / C(8, 4) = 0.029


def test_copies_on_one_side_are_one_run() -> None:
    """Eight boots of one seed against eight of other seeds."""
    first = [100.0] * 8
    one = primary(*study([first, [150.0 + at for at in range(8)]]))
    assert not one["matched"]
    assert (one["runs"], one["copies"]) == ([1, 8], [7, 0])
    assert (one["verdict"], one["beyond"]) == ("not enough runs", False)


def test_equal_figures_of_different_runs_are_evidence() -> None:
    runs, quantities = study([[100.0] * 6, [100.0] * 6])
    unlike(runs)
    one = primary(runs, quantities)
    assert one["runs"] == [6, 6]
    assert (one["ratio"], one["interval"], one["p"]) == (1.0, [1.0, 1.0], 1.0)
    assert one["verdict"] == "equivalent"


def test_runs_of_constant_series_are_not_copies() -> None:
    """As the bounds count them: a coarse clock gives each run the same values."""
    runs, quantities = study([[100.0] * 6, [100.0] * 6])
    for one in runs:
        one["series"][0]["min"] = one["series"][0]["max"] = 100.0
    one = primary(runs, quantities)
    assert (one["runs"], one["copies"]) == ([6, 6], [0, 0])


@pytest.mark.parametrize(
    ("count", "percentiles"), [(99, {"50": 2, "90": 3, "99": 4}), (10**6, {"50": 2, "90": 3})]
)
def test_short_and_coarse_series_are_copies_in_counted_mode_only(
    count: int, percentiles: Mapping[str, int]
) -> None:
    """Elsewhere chance gives short series, and those of few values, the same figures."""
    runs, quantities = study([[100.0] * 6, [200.0] * 6])
    for one in runs:
        one["series"][0].update(count=count, percentiles=percentiles)
    found = primary(runs, quantities)
    assert (found["runs"], found["copies"]) == ([6, 6], [0, 0])
    for one in runs:
        one["environment"] = {"lab": {"mode": "counted"}}
    found = primary(runs, quantities)
    assert (found["runs"], found["copies"]) == ([1, 1], [5, 5])


@pytest.mark.study(128, 129)
@pytest.mark.study(124, lacks="the board and Xenomai's kernels")
def test_equivalent_needs_the_whole_interval_within_the_margin() -> None:
    factors = [1.02, 0.99, 1.03, 0.98, 1.04, 1.01, 1.05]
    blocks = [*BLOCKS, 150.0]
    one = primary(*study([blocks, scaled(blocks, factors)]))
    assert one["verdict"] == "equivalent"
    one = primary(*study([blocks, scaled(blocks, factors)]), within=0.03)
    assert one["verdict"] == "not decided"
    assert one["needed"] >= 7


@pytest.mark.parametrize(
    ("value", "resolution_ns", "verdict"),
    [(5000, 1, "equivalent"), (5000, 1000, "not decided"), (50_000, 1000, "equivalent"),
     (900, 1000, "not decided"), (5000, 0, "equivalent")],
)  # fmt: skip
def test_values_as_coarse_as_the_clock_are_not_equivalent(
    value: float, resolution_ns: int, verdict: str
) -> None:
    """A clock of 1 us shows medians of 5.0 and 5.9 us alike."""
    runs, (only,) = study([[value] * 6] * 2)
    unlike(runs)
    found = coarse(runs, only, "resolution_ns", resolution_ns)
    part = resolution_ns / value
    limits = [1 - part, 1 / (1 - part)] if part < 1 else None
    assert found["interval"] == (limits if limits is None else pytest.approx(limits))
    assert (found["verdict"], found["ratio"]) == (verdict, 1.0)
    assert (found["needed"] is None) == (verdict == "equivalent" or value < 10_000)


def coarse(runs: list[Any], only: dict[str, Any], key: str, value: float) -> dict[str, Any]:
    for row in only["rows"]:
        for one in row["runs"]:
            one[key] = value
    return primary(runs, [only])


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.0, 1.04])
@pytest.mark.parametrize("step", [1, 1000, 0])
def test_the_interval_covers_the_true_ratio(factor: float, step: int) -> None:
    """True figures of about 5 us that scatter by 1 %, seen by a clock of 1 ns or 1 us, or (0) as
    the upper ends of buckets. With coarse values the interval of the runs alone covers few."""
    random = np.random.default_rng(7)
    times, covered, alone, changed = 300, 0, 0, 0.0
    for _ in range(times):
        level = random.uniform(4900, 5900)
        true = np.exp(random.normal(np.log([[level], [level * factor]]), 0.01, (2, 8)))
        whole = true.astype(np.int64)
        key, value = ("resolution_ns", step) if step else ("bucket", 1 / 128)
        seen = whole // step * step if step else bucket_high(bucket_of(whole))
        runs, (only,) = study(seen.astype(float).tolist())
        unlike(runs)  # else runs with the same value are copies
        low, high = coarse(runs, only, key, value)["interval"]
        bare = paired_shift((np.log(seen[1]) - np.log(seen[0])).tolist())
        covered += low <= factor <= high
        alone += math.exp(bare.low) <= factor <= math.exp(bare.high)
        changed = max(changed, math.log(high) - bare.high, bare.low - math.log(low))
    assert covered >= 0.93 * times
    if step == 1:
        assert abs(covered - alone) <= 0.02 * times and changed < 3e-4
    elif step == 1000 and factor > 1:
        assert alone < 0.9 * times


@pytest.mark.parametrize("factor", [1.25, 0.8])
def test_a_direction_that_the_runs_show_is_in_the_interval(factor: float) -> None:
    """By a clock of 1 us, 4 and 5 us may be 4.99 and 5.01 us, but the runs differ always."""
    values = [4000.0 if factor > 1 else 5000.0] * 6
    runs, (only,) = study([values, [value * factor for value in values]])
    unlike(runs)
    found = coarse(runs, only, "resolution_ns", 1000)
    assert found["verdict"] == ("worse" if factor > 1 else "better")
    assert found["interval"] == pytest.approx([1.0, 5 / 3] if factor > 1 else [0.6, 1.0])
    far = coarse(runs, only, "resolution_ns", 5000)
    assert (far["verdict"], far["interval"]) == (found["verdict"], None)
    document = {"comparisons": [{**found, "interval": None, "verdict": "not decided"}, far]}
    assert shown_decisions(document) == [far]


@pytest.mark.parametrize(
    ("statistic", "factor", "bucket", "verdict"),
    [
        ("tail", 1.0095, 0.0, "equivalent"),
        ("tail", 1.0095, 1 / 128, "worse"),
        ("tail", 1.0, 1 / 128, "equivalent"),
        ("tail", 1.0025, 1 / 128, "worse"),
        ("max", 1.0095, 1 / 128, "equivalent"),
    ],
)
def test_values_as_coarse_as_the_buckets_are_not_equivalent(
    statistic: str, factor: float, bucket: float, verdict: str
) -> None:
    """With a margin of 1 %. The maximum of a histogram is exact."""
    blocks = [value * 1000 for value in BLOCKS]
    runs, (only,) = study([blocks, [value * factor for value in blocks]])
    for row in only["rows"]:
        row["runs"][2]["bucket"] = bucket
    found = primary(runs, [only], within=0.01, primary=(0, statistic))
    assert found["verdict"] == verdict


@pytest.mark.parametrize(
    ("key", "value", "beyond"),
    [("bucket", 0.0, True), ("bucket", 1 / 128, False), ("resolution_ns", 1000, False),
     ("resolution_ns", 100, True)],
)  # fmt: skip
def test_what_is_beyond_the_margin_by_its_resolution_alone(
    key: str, value: float, beyond: bool
) -> None:
    """A clock of 1 us shows 89.9 and 99 us as 89 and 99."""
    blocks = [value * 1000 for value in BLOCKS]
    runs, (only,) = study([blocks, [value * 1.105 for value in blocks]])
    for one in only["rows"][0]["runs"]:
        one[key] = value
    found = primary(runs, [only])
    assert (found["verdict"], found["beyond"]) == ("worse", beyond)


@pytest.mark.parametrize(
    ("key", "value", "factor", "verdict"),
    [
        ("bucket", 1 / 128, 1.005, "not decided"),
        ("bucket", 1 / 128, 1.01, "worse"),
        ("resolution_ns", 1000, 1.01, "not decided"),
        ("resolution_ns", 1000, 1.05, "worse"),
        ("resolution_ns", 10**9, 1.05, "not decided"),
    ],
)
def test_systems_do_not_differ_by_their_resolution_alone(
    key: str, value: float, factor: float, verdict: str
) -> None:
    """Samples of the one, and a histogram or a coarse clock of the other."""
    blocks = [value * 1000 for value in BLOCKS]
    runs, (only,) = study([blocks, [value * factor for value in blocks]])
    for one in only["rows"][1]["runs"]:
        one[key] = value
    found = primary(runs, [only], within=0.001)
    assert found["verdict"] == verdict
    assert found["needed"] is None  # more runs would decide nothing
    for one in only["rows"][0]["runs"]:
        one[key] = value
    assert primary(runs, [only], within=0.001)["verdict"] == "worse"


@pytest.mark.parametrize(("factor", "more"), [(1.05, False), (1.01, True)])
def test_more_runs_are_needed_only_if_they_can_decide(factor: float, more: bool) -> None:
    """By a clock of 1 us, 15.75 us may be 15 us, or more than 10 % above it."""
    blocks = [15_000.0 * (1 + at % 3 / 50 + at / 10_000) for at in range(8)]
    runs, (only,) = study([blocks, [value * factor for value in blocks[::-1]]])
    for one in only["rows"][1]["runs"]:
        one["resolution_ns"] = 1000
    found = primary(runs, [only])
    assert found["verdict"] == "not decided"
    assert (found["needed"] is not None) == more


@pytest.mark.parametrize("matched", [True, False])
@pytest.mark.parametrize(("others", "verdict"), [(1, "not decided"), (5, "worse")])
def test_sides_with_histograms_of_some_runs_differ_by_these(
    matched: bool, others: int, verdict: str
) -> None:
    """Five runs of the second system have only a histogram. A single one of the first hid it."""
    blocks = [100_000.0 * (1 + at / 10_000) for at in range(6)]
    runs, (only,) = study([blocks, [value * 1.007 for value in blocks]])
    for row, number in zip(only["rows"], (others, 5), strict=True):
        for one in row["runs"][:number]:
            one["bucket"] = 1 / 128
    for place, one in enumerate(runs):
        one.update({} if matched else {"study": "", "repeat": place})
    found = primary(runs, [only], within=0.001)
    assert (found["matched"], found["verdict"]) == (matched, verdict)


def test_the_coarser_clock_of_two_systems_counts() -> None:
    """The finer one hid it."""
    runs, (only,) = study([[5000.0] * 6] * 2)
    unlike(runs)
    for row, resolution_ns in zip(only["rows"], (1000, 1), strict=True):
        for one in row["runs"]:
            one["resolution_ns"] = resolution_ns
    assert primary(runs, [only])["verdict"] == "not decided"


@pytest.mark.parametrize(
    ("values", "hz", "found"),
    [
        ([5000, 6000, 8000], 0, 1000),
        ([5000], 0, 0),
        # The periods of such a counter are rounded to ns.
        ([41, 83, 125, 166], 23_999_981, 42),
        ([41, 42, 83, 84, 124], 24_000_000, 42),
        ([500], 24_000_000, 42),
        # A mean, or another clock.
        ([41, 52, 83], 24_000_000, 1),
        ([41, 42, 44], 2_400_000_000, 1),
    ],
)
def test_resolution_of_values(values: list[int], hz: int, found: int) -> None:
    assert resolution(Counts.from_arrays([np.array(values)]), hz) == found


def test_five_blocks_never_decide() -> None:
    one = primary(*study([BLOCKS[:5], [9 * value for value in BLOCKS[:5]]]))
    assert one["verdict"] == "not enough runs"
    assert one["interval"] is None
    assert one["needed"] == 6


def test_the_others_share_a_level_after_holm() -> None:
    random = np.random.default_rng(5)
    runs, (first,) = study([BLOCKS, [2 * value for value in BLOCKS]])
    names = [[one["run"] for one in row["runs"]] for row in first["rows"]]
    other = scaled(BLOCKS, random.lognormal(0, 1, 6).tolist())
    idle = quantity(
        [(0, names[0], figures(BLOCKS)), (1, names[1], figures(other))], load={"name": "idle"}
    )
    found = decisions(runs, [idle, first])
    assert [one["primary"] for one in found] == [True] + [False] * 5
    assert found[0]["quantity"] == 1
    rest = found[1:]
    assert [one["p_adjusted"] for one in rest] == holm([one["p"] for one in rest])
    # 6 blocks cannot decide five quantities together: 5 * 2 / 64 > 0.05
    assert {one["verdict"] for one in rest} <= {"not enough runs", "equivalent"}
    assert {one["needed"] for one in rest if one["verdict"] == "not enough runs"} == {8}


def test_events_without_an_answer_and_zeros_are_no_values() -> None:
    runs, quantities = study([BLOCKS, BLOCKS])
    rows = quantities[0]["rows"]
    rows[1]["runs"][2]["figures"]["tail"] = numbers.AtLeast(500)
    rows[0]["runs"][4]["figures"]["tail"] = 0
    rows[0]["runs"][5]["figures"]["tail"] = None
    one = primary(runs, quantities)
    assert one["runs"] == [3, 3]
    for row in rows[0]["runs"]:
        row["figures"]["tail"] = None
    one = primary(runs, quantities)
    assert one["verdict"] == "not decided"  # more such runs have no figure either
    assert one["ratio"] is one["interval"] is one["p"] is None
    assert "0 and 5 runs" in decision_text(
        {"quantities": quantities, "sets": SETS, "within": 0.1}, one
    )


def test_the_better_runs_of_a_set_prove_nothing() -> None:
    """B lost events in the runs that the comparison would leave out."""
    first = [*BLOCKS, 150.0, 160.0, 170.0, 190.0]
    runs, quantities = study([first, [0.8 * value for value in first]])
    assert primary(runs, quantities)["verdict"] == "better"
    for at in (2, 5, 7, 8):
        quantities[0]["rows"][1]["runs"][at]["figures"]["tail"] = None
    one = primary(runs, quantities)
    assert one["runs"] == [6, 6]
    assert one["verdict"] == "not decided"
    assert one["needed"] is None


def test_ties_alone_are_no_difference() -> None:
    factors = [1.0] * 20 + [2.0] * 6
    first = [100.0 + at for at in range(26)]
    one = primary(*study([first, scaled(first, factors)]))
    assert one["p"] <= 0.05
    assert one["ratio"] == 1.0
    assert one["verdict"] == "not decided"


def test_only_times_and_only_quantities_of_the_first_set_are_judged() -> None:
    runs, quantities = study([BLOCKS, BLOCKS])
    assert decisions(runs, [{**quantities[0], "unit": "1/s"}]) == []
    for row in quantities[0]["rows"]:
        row["set"] += 1
    assert decisions(runs, quantities) == []
    assert decisions([], []) == []


def test_without_a_tail_the_median_is_primary() -> None:
    runs, quantities = study([BLOCKS, BLOCKS])
    quantities[0]["tail"] = None
    found = decisions(runs, quantities)
    assert [(one["statistic"], one["primary"]) for one in found] == [("50", True), ("max", False)]


def test_the_decisive_quantity() -> None:
    def one(context: str, load: str, interval: str = "1 ms", unit: str = "ns") -> dict[str, Any]:
        return {
            "context": context, "load": {"name": load}, "unit": unit,
            "method": {"interval": interval},
        }  # fmt: skip

    loaded = [one("irq", "sched"), one("kernel", "sched"), one("user", "sched")]
    assert decisive([one("user", "idle"), *loaded]) == 3
    assert decisive([one("", "sched", "none"), one("irq", "sched")]) == 1
    assert decisive([one("user", "sched", unit="1/s"), one("irq", "sched")]) == 1
    assert decisive([]) is None


def test_worse_within_the_margin_is_not_beyond_it() -> None:
    factors = [1.06, 1.12, 1.09, 1.14, 1.07, 1.11]
    later = scaled(BLOCKS, factors)
    one = primary(*study([BLOCKS, later]))
    assert (one["verdict"], one["beyond"]) == ("worse", False)
    one = primary(*study([BLOCKS, later]), within=0.05)
    assert (one["verdict"], one["beyond"]) == ("worse", True)
    one = primary(*study([BLOCKS, later]), within=0.2)
    assert (one["verdict"], one["beyond"]) == ("equivalent", False)


def test_the_others_are_equivalent_after_holm_too() -> None:
    """Seven blocks carry two quantities (2 * 2 / 128 <= 0.05), not five of them."""
    factors = [1.02, 0.99, 1.03, 0.98, 1.04, 1.01, 1.05]
    blocks = [*BLOCKS, 150.0]
    near = scaled(blocks, factors)
    runs, (one,) = study([blocks, near])
    names = [[each["run"] for each in row["runs"]] for row in one["rows"]]
    rows = [(0, names[0], figures(blocks)), (1, names[1], figures(near))]
    found = decisions(runs, [one])
    assert [each["verdict"] for each in found] == ["equivalent"] * 3
    idle = quantity(rows, load={"name": "idle"})
    found = decisions(runs, [one, idle])
    assert [each["verdict"] for each in found] == ["equivalent"] + ["not enough runs"] * 5


def test_every_set_is_compared_with_the_first_after_holm() -> None:
    runs, quantities = study([BLOCKS, [2 * v for v in BLOCKS], [3 * v for v in BLOCKS]])
    found = [one for one in decisions(runs, quantities) if one["primary"]]
    assert [one["set"] for one in found] == [1, 2]
    assert [one["p_adjusted"] for one in found] == pytest.approx([2 / 32] * 2)
    assert [one["needed"] for one in found] == [7, 7]


def with_rates(first: Sequence[int], second: Sequence[int]) -> tuple[list[Any], list[Any]]:
    runs, (one,) = study([BLOCKS[: len(first)], BLOCKS[: len(second)]])
    one["budget"] = 150
    for row, counts in zip(one["rows"], (first, second), strict=True):
        for each, over in zip(row["runs"], counts, strict=True):
            each["over"] = over
    return runs, [one]


def rate(runs: list[Any], quantities: list[Any]) -> dict[str, Any]:
    found = decisions(runs, quantities, primary=(0, "rate"))
    assert [one["statistic"] for one in found if one["primary"]] == ["rate"]
    return found[0]


def test_the_rate_over_the_budget() -> None:
    one = rate(*with_rates([20, 30, 25, 40, 35, 28], [40, 61, 50, 82, 72, 55]))
    expected = paired_shift(
        [math.log((b + 0.5) / (a + 0.5)) for a, b in
         zip([20, 30, 25, 40, 35, 28], [40, 61, 50, 82, 72, 55], strict=True)]
    )  # fmt: skip
    assert one["ratio"] == pytest.approx(math.exp(expected.estimate))
    assert (one["verdict"], one["beyond"]) == ("worse", True)
    one = rate(*with_rates([0, 0, 0, 0, 0, 0], [4, 7, 3, 9, 5, 6]))
    assert one["verdict"] == "worse"
    same = [20, 30, 25, 40, 35, 28]
    assert rate(*with_rates(same, same))["verdict"] == "equivalent"
    few = [0, 1, 0, 2, 0, 1]
    assert rate(*with_rates(few, few))["verdict"] == "not decided"


def test_a_run_with_samples_of_unknown_value_has_no_rate() -> None:
    """They may all be over the budget."""
    runs, quantities = with_rates([20, 30, 25, 40, 35, 28], [20, 30, 25, 40, 35, 28])
    for each in quantities[0]["rows"][1]["runs"]:
        each |= {"missed": 5000, "unknown": 5001}
    found = rate(runs, quantities)
    assert (found["verdict"], found["interval"]) == ("not decided", None)


@pytest.mark.parametrize("short", [6, 1])
def test_events_that_were_not_waited_for_are_the_reason(short: int) -> None:
    """More runs would not decide: the waits have to be longer."""
    runs, quantities = with_rates([20, 30, 25, 40, 35, 28], [40, 61, 50, 82, 72, 55])
    for each in quantities[0]["rows"][1]["runs"][:short]:
        each["short_waits"] = 2
    found = rate(runs, quantities)
    assert (found["verdict"], found["needed"]) == ("not decided", None)
    document = {**of(runs, quantities), "comparisons": [found]}
    assert not any("Too few runs" in text for text in advice(document))
    (said,) = [text for text in advice(document) if "judged" in text]
    assert said.endswith(
        ": not judged, because the wait for some answers was shorter than the budget "
        f"({2 * short} events). Use a --timeout and an --interval above "
        "the budget."
    )
    assert "not decided, the wait for some answers" in verdict_text(document, found)
    for each in quantities[0]["rows"][1]["runs"][:short]:
        each["complete"] = False  # such a run does not count
    assert not any("waited for" in text for text in advice(of(runs, quantities)))


def test_a_budget_that_nobody_exceeds_gives_no_rate() -> None:
    runs, quantities = with_rates([0] * 6, [0] * 6)
    assert {one["statistic"] for one in decisions(runs, quantities)} == {"tail", "50", "max"}


@pytest.mark.parametrize(("count", "judged"), [(1000, True), (1050, True), (1051, False)])
def test_runs_of_other_lengths_have_no_comparable_maximum_or_rate(count: int, judged: bool) -> None:
    """More samples alone give a larger maximum, and half a sample over is another share."""
    runs, quantities = with_rates([20, 30, 25, 40, 35, 28], [40, 61, 50, 82, 72, 55])
    for each, tail in zip(quantities[0]["rows"][1]["runs"], BLOCKS, strict=True):
        each["count"] = count
        each["figures"] = {"min": 1, "50": tail, "tail": 2 * tail, "max": 9 * tail}
    found = {
        name: decisions(runs, quantities, primary=(0, name))[0] for name in ("tail", "max", "rate")
    }
    assert found["tail"]["verdict"] == "worse" and found["tail"]["interval"] is not None
    for name in ("max", "rate"):
        assert (found[name]["verdict"] == "worse") is found[name]["beyond"] is judged
        assert (found[name]["interval"] is not None) is judged
    document = of(runs, quantities)
    said = [text for text in advice(document) if "unequal numbers" in text]
    assert len(said) == (0 if judged else 1)
    if not judged:
        assert "max of each run and 1 more: unequal numbers of samples" in said[0]
        assert "(1\u202f000 to 1\u202f051 a run)" in said[0]
        assert said[0].endswith(
            "Use equal lengths (--for or --samples) on equally many CPUs (--cpu)."
        )
        cases = comparison_cases(document, "").groups[0].cases
        assert sum("unequal numbers of samples" in one.why for one in cases) == 2


def test_missed_periods_are_named_as_the_reason() -> None:
    """Runs of equal lengths, one of which missed a tenth of its periods. A rate includes them."""
    runs, quantities = with_rates([20, 30, 25, 40, 35, 28], [40, 61, 50, 82, 72, 55])
    quantities[0]["rows"][1]["runs"][0] |= {"count": 900, "missed": 100}
    document = of(runs, quantities)
    (said,) = [text for text in advice(document) if "missed" in text]
    assert "max of each run: missed periods differ" in said
    assert "(900 to 1\u202f000 samples a run)" in said
    assert said.endswith("Find out why periods were missed (rtgauge show RUN), or use a longer "
                         "--interval.")  # fmt: skip
    cases = comparison_cases(document, "").groups[0].cases
    assert sum("not decided, missed periods differ" in one.why for one in cases) == 1
    quantities[0]["name"] = "response"
    (said,) = [text for text in advice(of(runs, quantities)) if "differ" in text]
    assert "unanswered events differ (900 to 1\u202f000 samples a run)" in said
    assert said.endswith("Find out why events had no answer (rtgauge show RUN).")
    quantities[0]["rows"][1]["runs"][0]["missed"] = 40  # 940 of 1000: shorter, too
    (said,) = [text for text in advice(of(runs, quantities)) if "not judged" in text]
    assert "unequal numbers of samples (900 to 1\u202f000 a run)" in said


def test_the_primary_quantity_in_words() -> None:
    runs, (user,) = study([BLOCKS, BLOCKS])
    irq = {**user, "context": "irq"}
    idle = {**user, "load": {"name": "idle"}, "budget": 100}
    every = [user, irq, idle]
    assert named(every, "irq") == (1, "tail")
    assert named(every, "user sched") == (0, "tail")
    assert named(every, "timer IRQ max") == (1, "max")
    assert named(every, "irq 99.9 %") == named(every, "irq:99.9%") == (1, "tail")
    assert named(every, "irq median") == (1, "50")
    assert named(every, "idle rate") == (2, "rate")
    for words, number in (("user", "2"), ("kernel", "none"), ("irq rate", "none"), ("", "3")):
        with pytest.raises(UsageError, match=f"matches {number} of the compared") as caught:
            named(every, words)
        assert "timer latency" in caught.value.remedy
    with pytest.raises(UsageError) as caught:
        named([], "x")
    assert "no quantity in common" in caught.value.remedy
    found = decisions(runs, every, primary=(1, "max"))
    assert (found[0]["quantity"], found[0]["statistic"]) == (1, "max")


SETS: list[dict[str, Any]] = [
    {"letter": "A", "name": "a", "runs": [], "boots": 1, "states": []},
    {"letter": "B", "name": "b", "runs": [], "boots": 1, "states": []},
]


def test_in_words() -> None:
    later = [value * 2 for value in BLOCKS]
    runs, quantities = study([BLOCKS, later])
    document = of(runs, quantities)
    said = decided(document)
    assert said[0] == (
        "timer: latency (µs), load sched, 99.9\u202f%: B/A ×2.00 [2.00, 2.00], p 0.031, "
        "6 blocks: B is worse, by more than the 10\u202f% margin"
    )
    assert len(said) == 3
    assert any("have the same ratio" in text for text in advice(document))
    document = of(*study([BLOCKS[:2], later[:2]]))
    assert decided(document) == [
        "timer: latency (µs), load sched, 99.9\u202f%: 2 blocks: not enough runs, "
        "6 blocks are needed"
    ]
    assert any("--repeat 6" in text for text in advice(document))
    factors = [1.3, 1.1, 0.9, 1.2, 1.25, 1.15, 0.95]
    blocks = [*BLOCKS, 150.0]
    document = of(*study([blocks, scaled(blocks, factors)]))
    assert re.search(r"not decided, about \d+ more blocks are needed$", decided(document)[0])
    many = [{**one, "needed": 16_007} for one in document["comparisons"]]
    assert "about 16\u202f000 more blocks" in decided({**document, "comparisons": many})[0]
    assert decided({**document, "comparisons": []}) == []


def of(runs: list[Any], quantities: list[Any]) -> dict[str, Any]:
    """A comparison as far as its words need it."""
    return {
        "sets": SETS, "quantities": quantities, "comparisons": decisions(runs, quantities),
        "within": 0.1,
    }  # fmt: skip


def test_the_advice_on_intervals_without_width_holds_for_all_of_them() -> None:
    document = of(*study([BLOCKS, [2 * value for value in BLOCKS]]))
    for one in document["comparisons"]:
        one |= {"interval": [2.0, 2.0], "matched": True}
    assert any("all blocks have the same ratio" in text for text in advice(document))
    document["comparisons"][-1]["matched"] = False
    assert any("all ratios are the same" in text for text in advice(document))


@pytest.mark.parametrize("last", [5000.0, 5001.0])
def test_runs_of_constant_values_are_said_to_be_coarse_without_blocks(last: float) -> None:
    """Their interval has a width since it has that of the clock."""
    runs, (only,) = study([[5000.0] * 6, [5000.0] * 5 + [last]])
    for at, one in enumerate(runs):
        one["study"] = ""
        one["series"][0]["mean"] = float(at)
    for row in only["rows"]:
        for each in row["runs"]:
            each["resolution_ns"] = 1
    document = of(runs, [only])
    (low, high) = document["comparisons"][0]["interval"]
    assert low < 1 < high and not document["comparisons"][0]["matched"]
    said = any("all ratios are the same" in text for text in advice(document))
    assert said is (last == 5000.0)


def test_advice_on_copies_failures_and_nothing_in_common() -> None:
    document = of(*study([[100.0] * 6, [200.0] * 6]))
    said = advice(document)
    assert said[0] == (
        "Not counted: 5 runs of A and 5 runs of B. Each repeats another run in every figure, as "
        "boots of one image with one seed do. A study with --repeat N gives each repeat a seed of "
        "its own, and lab:BOARD,seed=N sets the seed of one board."
    )
    runs, quantities = study([[*BLOCKS, 150.0], [2 * v for v in (*BLOCKS, 150.0)]])
    quantities[0]["rows"][1]["runs"][3]["complete"] = False
    sets = [
        {**one, "runs": [each["id"] for each in runs[at * 7 : at * 7 + 7]]}
        for at, one in enumerate(SETS)
    ]
    sets[1]["states"] = ["failed"]
    document = {**of(runs, quantities), "sets": sets}
    assert document["comparisons"][0]["runs"] == [6, 6]
    assert document["comparisons"][0]["verdict"] == "worse"
    assert advice(document)[0] == (
        "B: 1 of 7 runs has no complete figure (failed) and does not count, nor does the rest of "
        "its block. To get all blocks, repeat the study (rtgauge run … --repeat 7 with each "
        "--target)."
    )
    for at, each in enumerate(runs):
        each.update(study="", repeat=at)
    for missing, end in ((1, " does not count. Measure it"), (2, " do not count. Measure them")):
        quantities[0]["rows"][1]["runs"][missing]["complete"] = missing == 1
        document = {**of(runs, quantities), "sets": sets}
        assert not document["comparisons"][0]["matched"]
        assert advice(document)[0].endswith(f"no complete figure (failed) and{end} again.")
    empty = {"sets": SETS, "quantities": [], "comparisons": [], "within": 0.1}
    assert advice(empty) == [
        "No quantity was measured in the same way on two systems. Measure all of them with the "
        "same command, on targets with clocks of the same kind."
    ]


def test_as_cases_of_a_test_suite() -> None:
    document = of(*study([BLOCKS, [2 * value for value in BLOCKS]]))
    found = comparison_cases(document, "2026-01-01T00:00:00Z")
    (group,) = found.groups
    assert group.name == "B b against A a"
    assert [case.outcome for case in group.cases] == ["fail", "skip", "skip"]
    assert group.cases[0].why == "B is worse, by more than the 10 % margin"
    assert comparison_cases({**document, "comparisons": []}, "").case.outcome == "skip"
    document = of(*study([[2 * value for value in BLOCKS], BLOCKS]))
    assert comparison_cases(document, "").groups[0].cases[0].outcome == "pass"


@pytest.mark.slow
def test_a_real_comparison_carries_its_verdicts() -> None:
    document = study_of.compared(study_of.study()).document
    comparing.validate(document)
    assert document["comparisons"][0]["primary"]
    assert {one["verdict"] for one in document["comparisons"]} == {"not enough runs"}


def shown(runs: list[Any]) -> str:
    """The comparison of stored runs on a terminal, without line breaks."""
    return " ".join(compare_text.terminal(study_of.compared(runs).document).split())


def repeats(number: int, **more: Any) -> list[Any]:
    """A study of two kernels with a run of each in every repeat."""
    runs = []
    for repeat in range(number):
        for at, target in enumerate(("lab:rt", "lab:stock")):
            one = study_of.kernel_run(2 * repeat + at, target, "6.1-rt", 1.0 + at, **more)
            one.document["repeat"] = repeat
            one.steps = one.steps[1:]  # the loaded one
            one.document["steps"] = one.document["steps"][1:]
            runs.append(one)
    return runs


@pytest.mark.slow
def test_a_boot_that_failed_drops_its_block() -> None:
    runs = repeats(7)
    runs[5].document["state"] = "failed"
    for step in runs[5].steps:
        step.document.update(state="failed", reason="the board went away")
    text = shown(runs)
    assert "B: 1 of 7 runs has no complete figure (failed) and does not count" in text
    assert "6 blocks: B is worse, by more than the 10 % margin" in text.replace("\u202f", " ")
    runs[5].steps.clear()
    runs[5].document["steps"] = []
    assert "B: 1 of 7 runs has no complete figure (failed)" in shown(runs)


@pytest.mark.slow
def test_one_run_each() -> None:
    text = shown(repeats(1))
    assert "1 block: not enough runs, 6 blocks are needed" in text
    assert "rtgauge run … --repeat 6 with each --target" in text


def test_one_run_each_on_one_target() -> None:
    """A study would have one set of it."""
    one_run = {"states": [], "targets": ["local"], "boots": ["b"]}
    document = {
        "sets": [{"letter": one, "runs": [one], **one_run} for one in "AB"],
        "comparisons": [{"verdict": "not enough runs", "needed": 4, "matched": False,
                         "primary": True, "quantity": 0, "set": 1, "copies": [0, 0],
                         "interval": None, "statistic": "99", "runs": [1, 1]}],
        "quantities": [{"rows": [], "budget": None}],
        "differences": [],
    }  # fmt: skip
    (said,) = advice(document)
    assert "at least 4 runs of each, under labels" in said and "--target" not in said


@pytest.mark.slow
def test_other_clocks_have_nothing_in_common() -> None:
    runs = repeats(2)
    for one in runs[1::2]:
        one.document["environment"]["lab"] = {"mode": "counted", "board": "stock"}
    text = shown(runs)
    assert "Verdicts No quantity was measured in the same way on two systems" in text
    assert "clock time against instructions as time" in text


@pytest.mark.slow
def test_series_of_a_coarse_clock_are_not_equivalent() -> None:
    runs = repeats(6)
    for at, one in enumerate(runs):
        for step in one.steps:
            for series in step.series:
                series.value[:] = 5000
                series.value[: 5 + at] = 6000
    text = shown(runs).replace("\u202f", " ")
    assert "×1.00 [0.80, 1.25]" in text
    assert "equivalent" not in text


@pytest.mark.slow
def test_constant_series_are_said_to_be_coarse() -> None:
    runs = repeats(6)
    for at, one in enumerate(runs):
        for step in one.steps:
            for series in step.series:
                series.value[:] = 1000
                series.value[0] = 500 + at  # else all runs would be copies
    text = shown(runs).replace("\u202f", " ")
    assert "×1.00 [0.998, 1.002]" in text
    assert "equivalent within 10 %" in text
    assert "as coarse as the clock, or constant" in text
