# SPDX-License-Identifier: Apache-2.0
"""The persistence picture: exact counts, a base of time that holds every answer, side by side."""

from __future__ import annotations

import itertools
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures import regular, samples, session
from conftest import Result
from rtgauge.capture import Wanted, import_capture
from rtgauge.report import figures, html
from rtgauge.report.model import analyse
from rtgauge.report.packed import unpack
from rtgauge.report.persistence import DIVISIONS, Trace, bases, division, persistence, trace_of
from rtgauge.stats import Counts
from rtgauge.store import Store

DELAYS = st.lists(st.integers(0, 2_000_000), max_size=40)


def trace(rising: list[int], falling: list[int], open_: tuple[int, int] = (0, 0)) -> Trace:
    first, second = (Counts.from_arrays([np.array(one, np.int64)]) for one in (rising, falling))
    return Trace(first, second, open_)


@given(st.floats(0.5, 1e12))
def test_a_division_is_the_smallest_of_1_2_5(span: float) -> None:
    size = division(span)
    digits = str(size).rstrip("0")
    assert digits in ("1", "2", "5")
    assert size >= span
    smaller = {"1": size // 2, "2": size // 2, "5": size * 2 // 5}[digits]
    assert size == 1 or smaller < span


@given(st.lists(st.tuples(DELAYS, DELAYS), min_size=1, max_size=3))
def test_every_answer_is_counted_where_it_is(rows: list[tuple[list[int], list[int]]]) -> None:
    found = [trace(*row) for row in rows]
    chosen = bases([one.all for one in found])
    data = persistence(found, chosen)
    everything = [v for row in rows for kind in row for v in kind]
    if not everything:
        assert data is None
        return
    assert chosen is not None
    assert data is not None
    whole = chosen[0]
    # Whatever came is within the whole base, and to the right of the event.
    assert whole.start_ns == -whole.division_ns
    assert max(everything) < whole.start_ns + DIVISIONS * whole.division_ns
    for panel in data["panels"]:
        edges = panel["edges"]
        for row, kinds in enumerate(rows):
            for at, (name, values) in enumerate(zip(("rising", "falling"), kinds, strict=True)):
                expected = [
                    sum(low <= v < high for v in values) for low, high in itertools.pairwise(edges)
                ]
                assert unpack(panel[name][row]) == expected
                before, beyond = panel["outside"][2 * row + at]
                assert before == sum(v < edges[0] for v in values)
                assert before + sum(expected) + beyond == len(values)
    assert data["max"] == [max([*a, *b], default=None) for a, b in rows]
    assert data["min"] == [min([*a, *b], default=None) for a, b in rows]


def test_the_bulk_is_enlarged_where_outliers_are_far() -> None:
    steady = [20_000 + k for k in range(1000)]
    assert len(persistence_of(steady)["panels"]) == 2  # 20 us from the event, 1 us wide
    far = persistence_of([*steady, 5_000_000])
    whole, bulk = far["panels"]
    assert whole["division_ns"] == 1_000_000
    assert bulk["division_ns"] <= 200
    assert bulk["outside"] == [[0, 1], [0, 0]]
    assert sum(unpack(whole["rising"][0])) == 1001
    wide = [1000 * k for k in range(1000)]
    assert len(persistence_of(wide)["panels"]) == 1


def persistence_of(values: list[int]) -> dict[str, Any]:
    one = trace(values, [])
    found = persistence([one], bases([one.all]))
    assert found is not None
    return found


@pytest.mark.parametrize("grain", [7, 100, 1000])
def test_no_bin_is_narrower_than_the_clocks_step(grain: int) -> None:
    """Else bins would hold now some, now none of the values: a comb."""
    panel = persistence_of([20_000 // grain * grain + grain * k for k in range(40)])["panels"][-1]
    counts = unpack(panel["rising"][0])
    filled = [at for at, number in enumerate(counts) if number]
    assert set(np.diff(panel["edges"]) % grain) == {0}
    assert len({counts[at] for at in range(filled[0], filled[-1])}) <= 1


# --- of a run -------------------------------------------------------------------------------------


def run_of(store: Store, path: Path, wanted: Wanted) -> Any:
    return store.get(import_capture(store, path, wanted).run)


def test_rising_and_falling_are_told_apart(tmp_path: Path) -> None:
    """Rising answers take 10 us, falling ones 20; a rising and two falling events have none."""
    events = [100 + 1000 * k for k in range(30)]
    missing = {4, 11, 13}
    answers = [at + (10 if k % 2 == 0 else 20) for k, at in enumerate(events)]
    lines = samples(events, answers, 30_100)
    for k in missing:
        # Without its answer the line stays as it was up to the next but one event's.
        lines[answers[k] : answers[k + 1]] ^= np.uint8(2)
    with Store.open(str(tmp_path / "store")) as store:
        run = run_of(store, session(tmp_path / "a.sr", lines), Wanted(event="D0", answer="D1"))
        found = analyse([run])
    one = found.figures[0][found.places[0][0]]
    parameters = found.model["runs"][0]["steps"][0]["parameters"]
    got = trace_of(one, parameters)
    # The line stands already at the level of the answer after a missing one: that one has no edge.
    unanswered = {k for k in range(30) if k in missing or k - 1 in missing}
    assert got.rising.values.tolist() == [10_000]
    assert got.falling.values.tolist() == [20_000]
    assert got.rising.count == sum(k % 2 == 0 for k in range(30) if k not in unanswered)
    assert got.falling.count == sum(k % 2 == 1 for k in range(30) if k not in unanswered)
    assert got.open == tuple(sum(k % 2 == half for k in unanswered) for half in (0, 1))
    assert trace_of(one, {**parameters, "first-edge": "falling"}) == Trace(
        got.falling, got.rising, got.open[::-1]
    )
    only = trace_of(one, {**parameters, "edge": "falling"})
    assert (only.rising.count, only.falling.count) == (0, one.counts.count)


def test_what_is_not_answered_is_not_corrected(tmp_path: Path) -> None:
    """A missed answer says nothing of how late it would have been."""
    lines = samples([100, 1100, 2100, 3100], [110, 3130], 4200)
    with Store.open(str(tmp_path / "store")) as store:
        wanted = Wanted(event="D0", answer="D1", answer_edge="any")
        found = analyse([run_of(store, session(tmp_path / "a.sr", lines), wanted)])
    assert found.figures[0][found.places[0][0]].corrected is None
    assert found.model["runs"][0]["series"][0]["missed"] == 2


@pytest.fixture
def several(rtgauge: Callable[..., Result], tmp_path: Path) -> list[str]:
    """Two contexts of one kernel, and another kernel."""
    made = []
    for number, (context, kernel, slow) in enumerate(
        (("irq", "6.1-rt", 40), ("user", "6.1-rt", 700), ("user", "6.1", 60))
    ):
        path = session(tmp_path / f"{number}.sr", regular(200, 1000, {77: slow}))
        words = ("--event", "D0", "--answer", "D1", "--answered-by", context, "--kernel", kernel)
        made.append(str(rtgauge("import", path, *words, "--json").json()["run"]))
    return made


def embedded(page: str) -> dict[str, Any]:
    found = re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return {name: one for name, one in data.items() if one.get("persistence")}


def test_contexts_and_kernels_side_by_side(
    rtgauge: Callable[..., Result], several: list[str], tmp_path: Path
) -> None:
    page = tmp_path / "a.html"
    assert rtgauge("report", *several, "-o", page).code == 0
    text = page.read_text()
    found = embedded(text)
    assert len(found) == 4  # each run's own, and all together
    together = max(found.values(), key=lambda one: len(one["labels"]))
    assert [label.split(", ")[:2] for label in together["labels"]] == [
        ["6.1-rt", "irq context"], ["6.1-rt", "user context"], ["6.1", "user context"],
    ]  # fmt: skip
    assert together["persistence"]["max"] == [46_000, 700_000, 60_000]
    # All of them on one base of time.
    assert len({one["persistence"]["panels"][0]["division_ns"] for one in found.values()}) == 1
    assert text.count('data-kind="persistence"') == 4
    assert "contexts and kernels" in text


def test_on_paper(several: list[str], tmp_path: Path) -> None:
    with Store.open() as store:
        found = html.views(analyse([store.get(run) for run in several]))
    drawn = 0
    for one in found.shared.data.values():
        if not one.get("persistence"):
            continue
        view = {"kind": "persistence", "full": True, "title": "", "caption": "what to see"}
        picture = figures.draw(one, view, iter(()))
        assert picture is not None
        words = [e.text for e in ET.fromstring(picture.svg).iter() if e.tag.endswith("text")]
        # The extremes are named, with their values, for each row.
        assert sum(w is not None and w.startswith("max ") for w in words) == len(one["labels"])
        assert sum(w is not None and w.startswith("min ") for w in words) == len(one["labels"])
        drawn += 1
    assert drawn == 4


def test_published_figures_stand_beside(rtgauge: Callable[..., Result], several: list[str]) -> None:
    run = rtgauge("show", several[0], "--json").json()["runs"][0]
    rows = run["steps"][0]["published"]
    assert rows
    assert {row["context"] for row in rows} == {"irq"}
    assert all(row["name"] == "latency" and row["max_us"] for row in rows)
