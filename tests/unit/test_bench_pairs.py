# SPDX-License-Identifier: Apache-2.0
"""bench/pairs.py: the order of the pairs, and the interval against enumeration of all outcomes.
bench/table.py: the table of results."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


pairs: Any = load("pairs")
table: Any = load("table")


def enumerated_coverage(count: int, k: int) -> float:
    """How often the k-th smallest and the k-th largest enclose the median, over all outcomes.

    Only on which side of the true median each value falls matters; both are equally likely.
    """
    outcomes = itertools.product((0, 1), repeat=count)
    enclosed = sum(k <= sum(outcome) <= count - k for outcome in outcomes)
    return enclosed / float(2**count)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("count", range(1, 13))
def test_interval_is_the_narrowest_that_covers(count: int, confidence: float) -> None:
    interval = pairs.median_interval(range(1, count + 1), confidence)
    k = interval.low
    assert interval.high == count + 1 - k
    assert interval.coverage == pytest.approx(enumerated_coverage(count, k))
    if k > 1:
        assert interval.coverage >= confidence
    if 2 * (k + 1) <= count:
        assert enumerated_coverage(count, k + 1) < confidence


def test_interval_for_thirty_pairs_is_the_tabled_one() -> None:
    interval = pairs.median_interval(range(1, 31))
    assert (interval.low, interval.high) == (10, 21)
    assert interval.coverage == pytest.approx(0.9572, abs=5e-5)


def test_the_order_of_the_values_does_not_matter() -> None:
    values = [3.0, 1.0, 2.0, 5.0, 4.0, 9.0, 7.0]
    expected = pairs.median_interval(values)
    for shuffled in itertools.islice(itertools.permutations(values), 0, 5040, 97):
        assert pairs.median_interval(shuffled) == expected
    assert expected.median == 4.0


def test_no_values_have_no_median() -> None:
    with pytest.raises(ValueError):
        pairs.median_interval([])


def test_pairs_are_measured_in_abba_order() -> None:
    calls: list[str] = []

    def ours() -> float:
        calls.append("A")
        return float(len(calls))

    def peer() -> float:
        calls.append("B")
        return float(len(calls))

    measured = pairs.run_pairs(4, ours, peer)
    assert "".join(calls) == "AB" + "ABBAABBA"
    assert [pair.ours_first for pair in measured] == [True, False, True, False]
    assert [(pair.ours, pair.peer) for pair in measured] == [(3, 4), (6, 5), (7, 8), (10, 9)]
    assert measured[1].ratio == pytest.approx(6 / 5)


@pytest.mark.parametrize(
    ("limits", "held"),
    [
        ({}, None),
        ({"at_least": 0.5}, True),
        ({"at_least": 0.51}, False),
        ({"at_most": 0.5}, True),
        ({"at_most": 0.49}, False),
        ({"at_least": 0.4, "at_most": 0.6}, True),
        ({"at_least": 0.6, "at_most": 0.7}, False),
    ],
)
def test_what_is_required_is_compared_with_the_median(
    limits: dict[str, float], held: bool | None
) -> None:
    measured = [pairs.Pair(1.0, 2.0, True), pairs.Pair(1.0, 1.0, False), pairs.Pair(0.1, 1.0, True)]
    case = pairs.summarise("case", measured, **limits)
    assert case["held"] is held
    assert case["median_ratio"] == 0.5


def test_results_name_the_machine_and_the_date(tmp_path: Path) -> None:
    case = pairs.summarise("case", [pairs.Pair(1.0, 2.0, True)] * 6, details={"size": 100})
    for peer in ("a peer 0.9", "a peer 1.0"):  # the newest replaces the one before
        path = pairs.write_results("some_bench", {"peer": peer}, [case], tmp_path / "results")
    document = json.loads(path.read_text())
    assert path.name == "some_bench.json"
    assert document["bench"] == "some_bench"
    assert document["peer"] == "a peer 1.0"
    assert document["cases"][0]["size"] == 100
    assert math.isclose(document["cases"][0]["coverage"], 1 - 2 / 64)
    assert document["machine"]["cpus"] >= 1
    assert document["machine"]["kernel"]
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_plain_values_take_one_line_in_results() -> None:
    rows = [{"name": 'a "b"\n', "ns": [1, 2.5, None]}, {"name": "c", "held": True}, [], {}]
    text = pairs.as_text({"cases": rows, "unit": "ns", "none": {}})
    assert json.loads(text) == {"cases": rows, "unit": "ns", "none": {}}
    assert '  {"name": "c", "held": true},\n' in text
    assert '   "ns": [1, 2.5, null]\n' in text


def test_a_row_of_the_table_counts_what_is_within_its_limit() -> None:
    cases = [{"held": True}, {"held": False}, {"held": None}, {}]
    document = {
        "date": "2026-11-22T10:00:00+00:00", "peer": "a peer 1.0, another", "cases": cases,
        "machine": {"load_average": [0.25, 1, 2]},
    }  # fmt: skip
    assert table.row("some", document) == (
        "| [some](results/some.json) | 2026-11-22 | a peer 1.0 | 4 | 1 of 2 | 0.2 |\n"
    )
    assert "| 2 | no limit |" in table.row("some", {**document, "cases": cases[2:]})


def test_the_table_in_the_page_is_that_of_the_results() -> None:
    """Otherwise run bench/table.py."""
    page = (BENCH / "README.md").read_text()
    assert table.updated(page, table.table(BENCH / "results")) == page
    with pytest.raises(ValueError, match="lacks"):
        table.updated("a page", "")
