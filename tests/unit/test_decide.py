# SPDX-License-Identifier: Apache-2.0
"""Verdicts of comparisons: which runs are evidence, how they are matched, and what follows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from rtgauge import text as numbers
from rtgauge.report.document.compared import decided, decision_text
from rtgauge.report.sets import compare as comparing
from rtgauge.report.sets.decide import decisions, decisive
from rtgauge.stats import holm, paired_shift, shift

Values = Sequence[Mapping[str, float | None]]


def run(name: str, study: str, repeat: int, mark: float) -> dict[str, Any]:
    """A run of which only its place in a study and its fingerprint matter."""
    figures = {"count": 10, "min": 1, "max": mark, "mean": 2.0, "percentiles": {"50": 2}}
    return {"id": name, "study": study, "repeat": repeat, "series": [figures]}


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
        **more,
        "rows": [
            {
                "set": number,
                "runs": [
                    {"run": name, "count": 10, "figures": {"min": 1, **figures}}
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


def primary(runs: list[Any], quantities: list[Any], **more: Any) -> dict[str, Any]:
    found = [one for one in decisions(runs, quantities, **more) if one["primary"]]
    assert len(found) == 1
    return found[0]


BLOCKS = [100.0, 140.0, 90.0, 300.0, 120.0, 180.0]


def test_matched_runs_are_judged_by_their_differences() -> None:
    later = [value * factor for value, factor in zip(BLOCKS, (1.5, 2.0, 1.8, 1.6, 1.9, 2.2))]  # noqa: B905
    one = primary(*study([BLOCKS, later]))
    expected = paired_shift([math.log(b / a) for a, b in zip(BLOCKS, later, strict=True)])
    assert one["matched"]
    assert one["runs"] == [6, 6]
    assert one["ratio"] == pytest.approx(math.exp(expected.estimate))
    assert one["interval"] == pytest.approx([math.exp(expected.low), math.exp(expected.high)])
    assert one["p"] == one["p_adjusted"] == expected.p == 2 / 64
    assert one["verdict"] == "worse"
    assert primary(*study([later, BLOCKS]))["verdict"] == "better"


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
    assert one["verdict"] == "not enough runs"
    assert one["needed"] == 6
    for each in runs:
        each["study"] = ""
    one = primary(runs, quantities)
    assert not one["matched"]
    assert one["runs"] == [1, 1]
    assert one["needed"] == 4  # 2 / C(8, 4) = 0.029


def test_equal_figures_of_different_runs_are_evidence() -> None:
    runs, quantities = study([[100.0] * 6, [100.0] * 6])
    for at, one in enumerate(runs):
        one["series"][0]["mean"] = float(at)
    one = primary(runs, quantities)
    assert one["runs"] == [6, 6]
    assert (one["ratio"], one["interval"], one["p"]) == (1.0, [1.0, 1.0], 1.0)
    assert one["verdict"] == "equivalent"


def test_equivalent_needs_the_whole_interval_within_the_margin() -> None:
    factors = [1.02, 0.99, 1.03, 0.98, 1.04, 1.01, 1.05]
    blocks = [*BLOCKS, 150.0]
    one = primary(*study([blocks, [v * f for v, f in zip(blocks, factors, strict=True)]]))
    assert one["verdict"] == "equivalent"
    one = primary(
        *study([blocks, [v * f for v, f in zip(blocks, factors, strict=True)]]), within=0.03
    )
    assert one["verdict"] == "not decided"
    assert one["needed"] >= 7


def test_five_blocks_never_decide() -> None:
    one = primary(*study([BLOCKS[:5], [9 * value for value in BLOCKS[:5]]]))
    assert one["verdict"] == "not enough runs"
    assert one["interval"] is None
    assert one["needed"] == 6


def test_the_others_share_a_level_after_holm() -> None:
    random = np.random.default_rng(5)
    runs, (first,) = study([BLOCKS, [2 * value for value in BLOCKS]])
    names = [[one["run"] for one in row["runs"]] for row in first["rows"]]
    other = [
        value * factor for value, factor in zip(BLOCKS, random.lognormal(0, 1, 6), strict=True)
    ]
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
    assert one["verdict"] == "not enough runs"
    assert one["ratio"] is one["interval"] is one["p"] is None
    assert "0 and 5 runs" in decision_text({"quantities": quantities, "sets": SETS}, one)


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
    one = primary(*study([first, [v * f for v, f in zip(first, factors, strict=True)]]))
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


SETS = [{"letter": "A"}, {"letter": "B"}]


def test_in_words() -> None:
    later = [value * 2 for value in BLOCKS]
    runs, quantities = study([BLOCKS, later])
    document = {"sets": SETS, "quantities": quantities, "comparisons": decisions(runs, quantities)}
    said = decided(document)
    assert said[0] == (
        "timer: latency (µs), load sched, user, 99.9\u202f%: B/A ×2.00 [×2.00, ×2.00], p 0.031, "
        "6 blocks: B is worse"
    )
    assert len(said) == 3
    runs, quantities = study([BLOCKS[:2], later[:2]])
    document = {"sets": SETS, "quantities": quantities, "comparisons": decisions(runs, quantities)}
    assert decided(document) == [
        "timer: latency (µs), load sched, user, 99.9\u202f%: 2 blocks: not enough runs (about "
        "6 blocks are needed)"
    ]
    assert decided({**document, "comparisons": []}) == []


def test_a_real_comparison_carries_its_verdicts() -> None:
    import test_compare as study_of  # noqa: PLC0415

    document = study_of.compared(study_of.study()).document
    comparing.validate(document)
    assert document["comparisons"][0]["primary"]
    assert {one["verdict"] for one in document["comparisons"]} == {"not enough runs"}
