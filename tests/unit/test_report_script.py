# SPDX-License-Identifier: Apache-2.0
"""Texts and tables that the page of a report makes of its data, without a browser."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from report_pages import Page
from rtgauge.report.render import html
from rtgauge.report.results import model
from test_report_store import written

SOURCE = (Path(html.__file__).parent / "static" / "report.js").read_text("utf-8")
NUMBERS = SOURCE[SOURCE.index("const NARROW") : SOURCE.index("const SUP")]
CSV = SOURCE[SOURCE.index("\tcsv(kind, figure) {") : SOURCE.index("\n}\n\nconst groups")]
AT_LEAST = next(line for line in SOURCE.splitlines() if line.startswith("\tatLeast("))
LARGEST = next(line for line in SOURCE.splitlines() if line.startswith("\tlargest("))

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")


def evaluated(expression: str) -> Any:
    program = f"{NUMBERS}\nprocess.stdout.write(JSON.stringify({expression}));"
    done = subprocess.run(
        ["node", "-"], input=program, capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


def table(kind: str, data: dict[str, Any], figure: Any = None, **more: Any) -> list[list[str]]:
    """The rows of the CSV of a picture."""
    known = {"raw_unit": "ns", "labels": ["a", "b"], "quantity": "latency", **data}
    group = json.dumps({"n": len(known["labels"]), "data": known, **more})
    text = evaluated(
        f"Object.assign({{ {CSV} }}, {group}).csv({json.dumps(kind)}, {json.dumps(figure)})"
    )
    assert text.endswith("\r\n")
    return list(csv.reader(io.StringIO(text, newline="")))


def told(method: str, before: str, data: dict[str, Any], at: int) -> str:
    """The text under the pointer in a picture, at a place of its axis."""
    begin = SOURCE.index(f"\n\t{method}(figure")
    tell = SOURCE[SOURCE.index("\t\t\ttell: ", begin) :]
    tell = tell[: tell.index("\n\t\t});")]
    known = json.dumps({"unit": "µs", "data": data})
    text = evaluated(
        f"(function () {{ {before} return {{ {tell} }}.tell({{}}, {at}); }})"
        f".call(Object.assign({{ {AT_LEAST}, show }}, {known}))"
    )
    return str(text).replace("\u202f", " ")


def test_a_length_of_time_has_a_unit_of_its_size() -> None:
    """The cells of a short step were "0.000739 s wide"."""
    lengths = [739, 739_000, 11_000_000, 1_500_000_000, 900_000_000_000]
    text = evaluated(f"{lengths}.map(length)")
    shown = ["0.739 µs", "739 µs", "11.0 ms", "1.50 s", "15.0 min"]
    assert [one.replace("\u202f", " ") for one in text] == shown


AGAINST = {
    "label": "waiters", "lines": ["acquire", "=release"], "x": [[1, 2], [2]],
    "low": [[10, 20], [5]], "middle": [[11, 21], [6]], "tail": [[12, None], [7]],
    "high": [[13, 23], [8]], "at_least": [[False, True], [False]],
}  # fmt: skip


def test_the_table_of_a_picture_against_a_number() -> None:
    head, *rows = table("against", {"against": AGAINST})
    assert head == [
        "series", "waiters", "min (ns)", "median (ns)", "99 % (ns)", "max (ns)",
        "max is a lower limit",
    ]  # fmt: skip
    assert rows == [
        ["acquire", "1", "10", "11", "12", "13", "no"],
        ["acquire", "2", "20", "21", "", "23", "yes"],
        ["'=release", "2", "5", "6", "7", "8", "no"],
    ]


@pytest.mark.slow
def test_the_table_of_a_histogram() -> None:
    data = {"histogram": {"edges": [0, 5, 10], "counts": [[1, 2], [0, 4]]}, "labels": ["a,b", 'c"']}
    assert table("histogram", data) == table("series", data)
    assert table("histogram", data) == [
        ["from (ns)", "below (ns)", "a,b", 'c"'], ["0", "5", "1", "0"], ["5", "10", "2", "4"],
    ]  # fmt: skip


def test_the_table_of_the_shares_of_samples() -> None:
    data = {"ccdf": {"x": [1, 2, 3], "reached": [[9, 4], [7, 6, 5]], "corrected": [None, [8, 7]]}}
    assert table("ccdf", data) == [
        ["at least (ns)", "a: samples", "b: samples", "b: corrected"],
        ["1", "9", "7", "8"], ["2", "4", "6", "7"], ["3", "0", "5", "0"],
    ]  # fmt: skip


@pytest.mark.slow
def test_the_table_over_time() -> None:
    time = {
        "start_ns": 100, "bin_ns": 10, "low": [[1, None], [3, 4]], "middle": [[2, None], [4, 5]],
        "high": [[3, None], [5, 6]], "marks": [[1, 0, "missed", 7], [0, 1, "lost", 2]],
    }  # fmt: skip
    figures = [
        f"{name}: {what}"
        for name in "ab"
        for what in ("min (ns)", "median (ns)", "max (ns)", "missed", "lost")
    ]
    assert table("time", {"time": time}) == [
        ["from (ns)", *figures],
        ["100", "1", "2", "3", "0", "0", "3", "4", "5", "0", "2"],
        ["110", "", "", "", "7", "0", "4", "5", "6", "0", "0"],
    ]
    head, first, _ = table("time", {"time": {**time, "floor": [1, 4]}})
    assert head[:3] == ["from (ns)", "min of all (ns)", "a: max (ns)"]
    assert first == ["100", "1", "3", "0", "0", "5", "0", "2"]


@pytest.mark.slow
def test_the_table_of_a_map_has_its_filled_cells() -> None:
    heat = {
        "start_ns": 0, "bin_ns": 10, "columns": 2, "low": [0, 5], "high": [4, 9],
        "maps": [[], []],
    }  # fmt: skip
    maps = [[1, 0, 0, 0], [0, 0, 0, 3]]
    assert table("heat", {"heat": heat}, maps=maps) == [
        ["from (ns)", "below (ns)", "at least (ns)", "at most (ns)", "a", "b"],
        ["0", "10", "0", "4", "1", "0"], ["10", "20", "5", "9", "0", "3"],
    ]  # fmt: skip
    assert table("heat", {"heat": {**heat, "maps": [[]]}}, maps=maps[:1]) == [
        ["from (ns)", "below (ns)", "at least (ns)", "at most (ns)", "all series"],
        ["0", "10", "0", "4", "1"],
    ]


def test_the_table_of_the_samples_around_the_largest() -> None:
    window = {"around": [None, {"due_ns": [5, 15], "index": [0, 1], "value": [-3, 7]}]}
    assert table("around", {}, window=window) == [
        ["series", "sample", "due (ns)", "latency (ns)"], ["b", "0", "5", "-3"],
        ["b", "1", "15", "7"],
    ]  # fmt: skip
    # of a series without a time grid, the times are those of its test loop, as far as known
    head, *_ = table("around", {"grid": False}, window=window)
    assert head == ["series", "sample", "taken about (ns)", "latency (ns)"]


def test_the_table_of_answers() -> None:
    answers = [{"edges": [0, 5, 9], "rising": [[1, 2], [3, 4]], "falling": [[5, 6], [7, 8]]}]
    assert table("persistence", {}, answers=answers) == [
        ["from (ns)", "below (ns)", "a: rising", "a: falling", "b: rising", "b: falling"],
        ["0", "5", "1", "5", "3", "7"], ["5", "9", "2", "6", "4", "8"],
    ]  # fmt: skip


def test_the_table_of_waveforms() -> None:
    wave = {"start_ns": -10, "division_ns": 2, "columns": 10, "levels": 2, "low_uv": -1_000_000,
            "high_uv": 3_000_000, "cells": [0] * 2 + [4] + [0] * 17}  # fmt: skip
    assert table("waves0", {}, recorded=[{"event": wave}, {}]) == [
        ["line", "from (ns)", "below (ns)", "at least (V)", "below (V)", "points"],
        ["event", "-8", "-6", "-1", "1", "4"],
    ]


def test_the_table_of_a_strip() -> None:
    strip = {"labels": ["CPU 0"], "unit": "MHz", "x": [1, 2], "y": [[800, None]]}
    assert table("strip", {}, {"strip": strip}) == [
        ["until (s)", "CPU 0 (MHz)"], ["1", "800"], ["2", ""],
    ]  # fmt: skip


@pytest.mark.parametrize("number", [3, 5])
def test_the_pointer_tells_lower_limits_and_what_it_leaves_out(number: int) -> None:
    names = [f"s{at}" for at in range(number)]
    data = [[7]] + [[value] for at in range(number) for value in (2 + at, 0, 0)]
    before = (
        f"const x = [7], a = {{ label: 'waiters', lines: {names} }}, data = {data}, "
        f"highs = {[[10 + at] for at in range(number)]}, "
        f"limits = {json.dumps([[at == 1] for at in range(number)])};"
    )
    text = told("against", before, {}, 0)
    assert text == "waiters 7: " + " · ".join([
        "s0 median 2.00, max 10.0 µs", "s1 median 3.00, max ≥ 11.0 µs",
        "s2 median 4.00, max 12.0 µs", *(["2 more"] if number > 3 else []),
    ])  # fmt: skip


@pytest.mark.slow
def test_the_pointer_tells_the_lower_limit_of_a_series() -> None:
    data = {"labels": ["CPU 0", "CPU 1"], "at_least": [False, True], "ccdf": {"total": [5, 12345]}}
    before = "const tops = [150.25, 2000];"
    assert told("series", before, data, 0) == "CPU 0: max 150 µs, 5 samples"
    assert told("series", before, data, 1) == "CPU 1: max ≥ 2 000 µs, 12 345 samples"


def test_a_maximum_is_told_from_the_budget_that_it_rounds_to() -> None:
    known = f"{{ {LARGEST}, value: v => v, show, data: {{ budget: 150 }} }}"
    assert evaluated(f"[150.001, 150, 151.2, 99].map(v => ({known}).largest(v))") == [
        "150.001", "150", "151", "99.0",
    ]  # fmt: skip


def test_the_pointer_tells_how_many_systems_have_more_answers() -> None:
    data = {"labels": list("abcdef")}
    before = (
        "const d = { rising: [[2], [3], [4], [5000], [6], [7]], falling: [[0], [0], [0], [0], [0], "
        "[0]] }, vis = [0, 1, 2, 3, 4, 5], many = true, edges = [0, 5], binAt = () => 0, "
        "between = (from, to) => `${from} to ${to}`;"
    )
    assert told("panel", before, data, 0) == (
        "0 to 5 µs: a 2 answers · b 3 answers · c 4 answers · d 5 000 answers · 2 more"
    )


def _of_samples(data: Path) -> tuple[list[int], list[int], list[int]]:
    """Index, due time and value of each sample of a dithered series, from its Parquet files."""
    (step,) = data.glob("**/steps/000")
    index, due, value = (
        parquet.read_table(step / "series-0.parquet").column(name).to_pylist()
        for name in ("index", "due_ns", "value")
    )
    dither = dict(
        zip(*(parquet.read_table(step / "series-1.parquet").column(name).to_pylist()
              for name in ("index", "value")), strict=True)
    )  # fmt: skip
    return index, [at + dither[k] for k, at in zip(index, due, strict=True)], value


@pytest.mark.slow
def test_every_table_of_a_page_has_the_stored_samples(tmp_path: Path) -> None:
    """Counted one by one: what each picture offers for download, from the samples of the store."""
    run, _, _ = written(tmp_path, seal=True)
    index, due, value = _of_samples(tmp_path)
    number = len(value)
    ((_, data),) = Page(html.render(model.analyse([run]))).data.items()

    def rows(kind: str, **more: Any) -> list[list[int]]:
        _, *found = table(kind, data, **more)
        return [[int(cell) for cell in row if cell != "CPU 0"] for row in found]

    histogram = rows("histogram")
    assert sum(count for *_, count in histogram) == number
    for low, high, count in histogram:
        assert count == sum(low <= one < high for one in value)

    for least, count, corrected in rows("ccdf"):
        assert count == sum(one >= least for one in value) <= corrected <= count + 49

    over_time = rows("time")
    width = over_time[1][0] - over_time[0][0]
    groups: dict[int, list[int]] = {}
    for at, one in zip(due, value, strict=True):
        groups.setdefault((at - over_time[0][0]) // width, []).append(one)
    for k, (_, low, middle, high, _, lost) in enumerate(over_time):
        some = sorted(groups.pop(k))
        assert (low, high, lost) == (some[0], some[-1], 0)
        # The median of a bin has the resolution of 1/128 of a histogram.
        assert some[(len(some) - 1) // 2] * 127 / 128 <= middle <= some[len(some) // 2] * 129 / 128
    assert not groups and sum(row[4] for row in over_time) == 49

    samples = list(zip(due, value, strict=True))
    heat = rows("heat", maps=data["heat"]["maps"])
    assert sum(row[4] for row in heat) == number
    cells: dict[tuple[int, int], int] = {}
    for start, _, low, high, count in heat:
        cells[start, low] = count
        assert low <= high
    lows = sorted({low for _, low in cells})
    seen: dict[tuple[int, int], int] = {}
    begin, wide = heat[0][0], heat[0][1] - heat[0][0]
    for at, one in samples:
        cell = begin + (at - begin) // wide * wide, max(low for low in lows if low <= one)
        seen[cell] = seen.get(cell, 0) + 1
    assert seen == cells

    place = {k: (at, one) for k, at, one in zip(index, due, value, strict=True)}
    window = {
        kind: [
            {**one, **{key: np.cumsum(one[key]).tolist() for key in ("index", "due_ns")}}
            for one in data["window"][kind]
        ]
        for kind in ("around", "begin")
    }
    for kind in window:
        for k, at, one in rows(kind, window=window):
            assert place[k] == (at, one)
    top = max(value)
    assert any(one == top for *_, one in rows("around", window=window))
    assert [k for k, *_ in rows("begin", window=window)] == index[:100]
