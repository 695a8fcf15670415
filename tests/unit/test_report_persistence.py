# SPDX-License-Identifier: Apache-2.0
"""The persistence picture: exact counts, a base of time that holds every answer, side by side."""

from __future__ import annotations

import base64
import itertools
import json
import xml.etree.ElementTree as ET
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import report_runs as made
from captures import analogue, regular, samples, session
from conftest import Run
from report_pages import Page
from rtgauge.capture import Wanted, import_capture
from rtgauge.report.document.views import views as views_of
from rtgauge.report.pictures import figures
from rtgauge.report.pictures.persistence import (
    Trace,
    bases,
    division,
    persistence,
    trace_of,
    waveforms,
)
from rtgauge.report.render import html
from rtgauge.report.results.model import analyse
from rtgauge.report.results.points import negative_points
from rtgauge.report.sets.quantities import answers
from rtgauge.stats import Counts
from rtgauge.stats.timebase import DIVISIONS
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


@pytest.mark.slow
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
                assert panel[name][row] == expected
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
    assert sum(whole["rising"][0]) == 1001
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
    counts = panel["rising"][0]
    filled = [at for at, number in enumerate(counts) if number]
    assert set(np.diff(panel["edges"]) % grain) == {0}
    assert len({counts[at] for at in range(filled[0], filled[-1])}) <= 1


# --- of a run -------------------------------------------------------------------------------------


def run_of(store: Store, path: Path, wanted: Wanted) -> Any:
    return store.get(import_capture(store, path, wanted).run)


def test_rising_and_falling_are_told_apart(tmp_path: Path) -> None:
    """Rising answers take 10 us, falling ones 20; a rising and two falling events get no answer."""
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


def test_an_event_without_a_sample_is_not_an_unanswered_one() -> None:
    """Event 3 and events 10 and 11 had no answer; that of event 8 may be another one's."""
    index = np.array([at for at in range(20) if at not in (3, 8, 10, 11)], np.int64)
    series = made.FakeSeries(
        made.info(name="response", interval_ns=10**7),
        index,
        np.full(len(index), 300_000, np.int32),
        gaps=((2, 1), (9, 2)),
        lost=((8, 1, -(2**63)),),
    )
    step = made.step(0, [series], "log-host", header=made.header(0, "log-host"))
    found = analyse([made.run([step])])  # type: ignore[list-item]
    (one,) = found.figures[0].values()
    assert (one.missed, one.lost) == (3, 1)
    assert trace_of(one, {"edge": "both"}).open == (1, 2)
    assert trace_of(one, {"edge": "rising"}).open == (3, 0)


def test_what_is_not_answered_is_not_corrected(tmp_path: Path) -> None:
    """A missed answer says nothing of how late it would have been."""
    lines = samples([100, 1100, 2100, 3100], [110, 3130], 4200)
    with Store.open(str(tmp_path / "store")) as store:
        wanted = Wanted(event="D0", answer="D1", answer_edge="any")
        found = analyse([run_of(store, session(tmp_path / "a.sr", lines), wanted)])
    assert found.figures[0][found.places[0][0]].corrected is None
    run = found.model["runs"][0]
    assert run["series"][0]["missed"] == 2
    page = html.render(found)
    assert "2 events had no answer in time" in page and "corrected figures contain" not in page
    said = [point.text for point in negative_points(run)]
    assert any(text.endswith("2 of 4 events without an answer.") for text in said), said


@pytest.fixture
def several(rtgauge: Run, tmp_path: Path) -> list[str]:
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
    return {name: one for name, one in Page(page).data.items() if one.get("persistence")}


@pytest.mark.slow
@pytest.mark.study(18, 48)
def test_contexts_and_kernels_side_by_side(
    rtgauge: Run, several: list[str], tmp_path: Path
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


def test_rows_name_the_core_where_it_is_not_linux() -> None:
    """A kernel with Cobalt answers with and without it."""
    runs = []
    for core in ("cobalt", None):
        series = made.sampled(np.array([1000, 2000, 3000]), name="response", context="irq")
        header = replace(made.header(measurement="response"), core=core)
        runs.append(made.run([made.step(0, [series], "response", header=header)]))
    table = answers(analyse(runs).model, [0, 1])  # type: ignore[arg-type]
    assert table is not None
    texts = [row.what.split(", ")[1:3] for row in table.rows]
    assert texts == [["cobalt", "irq context"], ["irq context", "idle"]]


@pytest.mark.slow
@pytest.mark.study(120)
def test_on_paper(several: list[str], tmp_path: Path) -> None:
    with Store.open() as store:
        found = views_of(analyse([store.get(run) for run in several]))
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


@pytest.mark.slow
def test_published_figures_stand_beside(rtgauge: Run, several: list[str]) -> None:
    run = rtgauge("show", several[0], "--json").json()["runs"][0]
    rows = run["steps"][0]["published"]
    assert rows
    assert {row["context"] for row in rows} == {"irq"}
    assert all(row["name"] == "response" and row["max_us"] for row in rows)


# --- waveforms ------------------------------------------------------------------------------------


def scope(tmp_path: Path) -> Path:
    """40 events on a line of 0 and 3 V, answered after 20 samples, one of them after 200."""
    events = [1000 + 500 * k for k in range(40)]
    lines = samples(events, [at + (200 if k == 9 else 20) for k, at in enumerate(events)], 21_000)
    first, second = (lines & 1) * 3.0, (lines >> 1) * 5.0
    return analogue(tmp_path / "scope.sr", first, second)


def test_waveforms_of_analogue_lines(tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "store")) as store:
        run = run_of(store, scope(tmp_path), Wanted(event="A0", answer="A1"))
        found = views_of(analyse([run]))
    (data,) = [one for one in found.shared.data.values() if one.get("persistence")]
    waves = data["persistence"]["waves"]
    whole = waves[0]
    for name, high in (("event", 3.0), ("answer", 5.0)):
        one = whole[name]
        cells = np.array(one["cells"]).reshape(one["columns"], one["levels"])
        # As many points in each column: no event is left out anywhere.
        assert len(set(cells.sum(axis=1).tolist())) == 1
        assert cells[0].sum() % 40 == 0
        volts = np.linspace(one["low_uv"], one["high_uv"], one["levels"] + 1) / 1e6
        width = one["division_ns"] * 10 / one["columns"]
        between = cells[:, (volts[1:] > 0.2) & (volts[:-1] < high - 0.2)].sum(axis=1)
        edges = one["start_ns"] + np.flatnonzero(between) * width
        # Between its levels a line is at its edges alone; the single late answer is among them.
        expected = {0} if name == "event" else {20_000, 200_000}
        assert {min(expected, key=lambda at: abs(at - edge)) for edge in edges} == expected
        assert all(min(abs(edge - at) for at in expected) <= 3 * width for edge in edges)
    view = {"kind": "waves0", "full": True, "title": "", "caption": ""}
    drawn = figures.draw(data, view, iter(()))
    assert drawn is not None
    ET.fromstring(drawn.svg)


@pytest.mark.slow
def test_digital_lines_have_no_waveforms(several: list[str]) -> None:
    with Store.open() as store:
        found = views_of(analyse([store.get(several[0])]))
    (data,) = [one for one in found.shared.data.values() if one.get("persistence")]
    assert data["persistence"]["waves"] == []


def compressed(cells: bytes) -> str:
    return base64.b64encode(zlib.compress(cells)).decode()


GOOD = {"start_ns": -10, "division_ns": 10, "columns": 4, "levels": 2, "low_uv": 0, "high_uv": 9,
        "events": 1, "cells": compressed(bytes(range(32)))}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"columns": 5}, {"columns": 1 << 40}, {"levels": 0}, {"columns": -4, "levels": -2},
        {"low_uv": 9}, {"division_ns": 0}, {"events": "1"}, {"cells": "%"}, {"cells": 1},
        {"cells": compressed(bytes(1 << 26))}, {"start_ns": 1 << 70},
        {"cells": compressed(bytes(31))}, {"cells": compressed(bytes(33))},
        {"cells": base64.b64encode(zlib.compress(bytes(32))[:-1]).decode()},
        {"cells": base64.b64encode(bytes(32)).decode()},
    ],
)  # fmt: skip
def test_waveforms_from_anybody(change: dict[str, Any]) -> None:
    """A fact of a run that was imported may hold anything."""

    def read(one: object) -> int:
        text = json.dumps(one)
        return len(waveforms({f"capture.waveform.0.{name}": text for name in ("event", "answer")}))

    assert read(GOOD) == 1
    assert read({**GOOD, **change}) == 0
    assert read([GOOD]) == 0
    assert waveforms({"capture.waveform.0.event": "{", "capture.waveform.0.answer": "["}) == []
