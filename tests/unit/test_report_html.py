# SPDX-License-Identifier: Apache-2.0
"""The HTML report: whole, closed to the outside, safe against hostile targets; and its files."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import report_runs as made
from report_pages import HOSTILE, Page, hostile_run, inflated, rendered
from rtgauge import report, stats, stream
from rtgauge import text as numbers
from rtgauge.errors import RtgaugeError, UsageError
from rtgauge.facts import printable
from rtgauge.report import pictures
from rtgauge.report.document import steps, views
from rtgauge.report.document.answer import answer_of
from rtgauge.report.document.blocks import Document, Paragraph, Section, line
from rtgauge.report.document.cover import Cover
from rtgauge.report.render import html, pdf
from rtgauge.report.results import model
from rtgauge.report.results.window import Peak


def page_of(*runs: made.FakeRun) -> tuple[Page, str]:
    text = rendered(*runs)
    return Page(text), text


@pytest.fixture(scope="module")
def example() -> tuple[Page, str]:
    return page_of(made.evaluation(3, 8000))


@pytest.mark.slow
def test_nothing_comes_from_outside(example: tuple[Page, str]) -> None:
    page, text = example
    for tag, attributes in page.tags:
        assert tag not in {"link", "iframe", "object", "embed", "base", "form", "img"}
        for name in ("src", "srcset", "action", "data", "poster", "style"):
            assert name not in attributes, f"<{tag} {name}=…>"
        assert (attributes.get("href") or "#").startswith("#")
        assert not any(name.startswith("on") for name in attributes)
    for block in page.blocks["style"]:
        assert "url(" not in block and "@import" not in block
    scripts = " ".join(page.blocks["script"][1:])
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|importScripts|eval)\s*\(", scripts)
    assert "innerHTML" not in page.blocks["script"][-1]
    assert text.startswith("<!DOCTYPE html>")


@pytest.mark.slow
def test_the_policy_admits_the_own_scripts_and_style_alone(example: tuple[Page, str]) -> None:
    page, _ = example
    (policy,) = [a["content"] for t, a in page.tags if a.get("http-equiv")]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'" and rules["base-uri"] == "'none'"
    assert "unsafe" not in policy and "*" not in policy

    def sources(blocks: list[str]) -> set[str]:
        digests = (hashlib.sha256(block.encode()).digest() for block in blocks)
        return {f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests}

    assert set(rules["script-src"].split()) == sources(page.blocks["script"][1:])
    assert set(rules["style-src"].split()) == sources(page.blocks["style"])


def test_hostile_text_stays_text(example: tuple[Page, str]) -> None:
    harmless, _ = example
    page, text = page_of(hostile_run())
    assert len(page.blocks["script"]) == len(harmless.blocks["script"]) == 3
    assert page.blocks["script"][1:] == harmless.blocks["script"][1:]
    assert not any(tag == "img" for tag, _ in page.tags)
    assert page.text.count("onerror=alert(1)") > 20
    assert next(iter(page.data.values()))["quantity"] == HOSTILE
    assert "<!--" not in text


def test_text_of_a_target_neither_reverses_nor_hides_the_figures_beside_it() -> None:
    evil = "a\u202eb\u2066c\u200bd\x1b\x7f"
    page, text = page_of(hostile_run(evil))
    shown = json.dumps(page.data, ensure_ascii=False)
    for where in (text, shown):
        assert "a\ufffdb\ufffdc\ufffdd\ufffd\ufffd" in where
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066]", where)
    assert inflated(html.deflated("\\u202e \U0001f600 \n")) == "\\u202e \U0001f600 \n"


def test_a_range_is_copied_from_the_page_as_it_is() -> None:
    said = line("Boot with isolcpus=2-3,7, not <before> 2026-11-29")
    text = html.page(Document("x", "", (Section("Answer", "answer", (Paragraph(said),)),)))
    assert 'isolcpus=<span class="whole">2-3</span>,7, not &lt;before&gt; 2026-11-29</p>' in text


def test_no_line_ends_before_a_percent_sign() -> None:
    """The text of a finding has a space there."""
    words = "steal time 0.16 % since boot, printf 5 %d"
    text = html.page(Document("x", "", (Section("x", "x", (Paragraph(line(words)),)),)))
    assert 'steal time <span class="whole">0.16 %</span> since boot, printf 5 %d' in text
    assert pdf.words(words) == f"steal time 0.16{numbers.GAP}% since boot, printf 5 %d"


@pytest.mark.slow
@given(st.text())
def test_embedded_data_reads_back_and_ends_nothing(text: str) -> None:
    shown = html.deflated({"key": text})
    assert re.fullmatch("[A-Za-z0-9+/=]+", shown)
    assert inflated(shown) == {"key": printable(text)}


def test_the_figures_are_in_the_page(example: tuple[Page, str]) -> None:
    page, _ = example
    for words in (
        "bench board",
        "Linux 6.1.0-27-rt-amd64",
        "PREEMPT_RT",
        "i5-8365U",
        "41 200 messages/s",
        "timer interrupt",
        "return to user",
        "How late a task of the highest priority runs",
        "no right to use real-time priorities",
        "cpupower frequency-set -g performance",
        "Every sample was kept",
        "CAL-P-TRC",
        "permission denied",
        "49 007 µs",
        "61 periods were missed",
        "scaling_governor was changed from",
    ):
        assert words in page.text, words


def test_the_stage_bar_marks_what_a_sample_spans_on_the_whole_way() -> None:
    way = steps._way(["timer interrupt", "handler", "wake-up"])
    assert way is not None
    assert [(stage.text, stage.inside) for stage in way.stages] == [
        ("event", False),
        ("timer interrupt", True),
        ("handler", True),
        ("wake-up", True),
        ("switch", False),
        ("task", False),
    ]
    assert (way.start, way.stop) == (2, 5)
    other = steps._way(["lock", "handler", "unlock"])
    assert other is not None and all(stage.inside for stage in other.stages)
    assert (other.start, other.stop, len(other.stages)) == (1, 4, 3)
    backwards = steps._way(["switch", "handler"])
    assert backwards is not None and len(backwards.stages) == 2
    assert steps._way([]) is None


def test_options_that_ask_for_nothing_are_left_out() -> None:
    defaults = {
        "samples": "0",
        "for": "10s",
        "stop-above": "0",
        "threads": "1",
        "lock": "yes",
        "interval": "1ms",
    }
    options = [{"name": name, "default": text} for name, text in defaults.items()]
    step = {
        "state": "complete",
        "load": {"name": "idle", "loads": []},
        "budget": None,
        "duration_s": 1.0,
        "parameters": {
            **defaults,
            "for": "0",
            "lock": "no",
            "stop-above": "0s",
            "priority": "0",
            "interval": "",
        },
    }
    facts = {fact.name: fact.text for fact in steps.step_facts(step, {"options": options})}
    assert set(facts) == {"Load", "for", "threads", "lock", "priority", "Length"}
    assert facts["Load"] == "idle"


@pytest.mark.slow
def test_a_series_without_a_grid_has_no_missed_periods_and_few_samples_no_line_of_time() -> None:
    def shown(times: int, interval_ns: int, samples: int = 400) -> str:
        """Samples in so many test loops, each with one time."""
        due = np.repeat(np.arange(times) * 10_000_000, samples // times)
        values = np.arange(1000, 1000 + len(due), dtype=np.int32)
        info = made.info(interval_ns=interval_ns)
        series = made.FakeSeries(info, np.arange(len(due)), values, due=due)
        return html.render(model.analyse([made.run([made.step(0, [series])])]))  # type: ignore[list-item]

    column, figure = '<th scope="col" class="n">Missed', 'data-kind="time"'
    assert shown(400, 10_000_000).count(column) == 2  # overview and series
    assert shown(4, 0).count(column) == shown(400, 0).count(column) == 1
    assert [figure in shown(times, 0) for times in (1, 5, 400)] == [True, True, True]
    assert figure not in shown(1, 0, samples=16)


def test_without_real_time_priority_the_answer_says_so() -> None:
    values = np.arange(1000, 1400, dtype=np.int32)
    series = made.sampled(values, policy="other")
    page = html.render(model.analyse([made.run([made.step(0, [series])])]))  # type: ignore[list-item]
    assert "latency without real-time priority" in page and "idle, SCHED_OTHER" in page
    assert "Step 1 · timer" in page and "Step 0" not in page


@pytest.mark.slow
def test_the_corrected_percentile_stands_beside_the_maximum() -> None:
    series = made.timer_series(1, 20_000)
    page = html.render(model.analyse([made.run([made.step(0, series)])]))  # type: ignore[list-item]
    assert "Corrected 99.9" in page and "Corrected max" not in page
    assert len(re.findall(r"<th[^>]*>Corrected 99.9", page)) == 1, "nor again among more figures"


def test_every_counter_is_in_the_page() -> None:
    simple = made.simple()
    simple.series.lost = ((500, 7123, 912_000),)
    step = simple.run.steps[0]
    step.end = stream.StreamEnd(False, 321, 4711, 52, "cut inside a record", True)
    page, _ = page_of(simple.run)
    for words in ("7 123 samples lost", "52 records", "4 711 bytes", "cut inside a record"):
        assert words in page.text, words
    marks = page.data["step-1-q0"]["time"]["marks"]
    assert {kind for _, _, kind, _ in marks} == {"lost"}
    assert sum(number for _, _, _, number in marks) == 7123


@pytest.mark.slow
@pytest.mark.study(35)
def test_data_of_the_pictures_hold_every_sample() -> None:
    run = made.evaluation(3, 8000)
    page, _ = page_of(run)
    for number in (0, 1):
        data = page.data[f"step-{number + 1}-q0"]
        for place, series in enumerate(run.steps[number].series):
            values = series.value.astype(np.int64)
            histogram = data["histogram"]
            expected, _ = np.histogram(values, bins=np.array(histogram["edges"]) - 0.5)
            assert histogram["counts"][place] == expected.tolist()
            assert sum(histogram["counts"][place]) == len(values)
            x, reached = data["ccdf"]["x"], data["ccdf"]["reached"][place]
            assert reached == [int((values >= v).sum()) for v in x if v <= values.max()]
            assert int(values.max()) in x and reached[-1] >= 1
            time = data["time"]
            bins = (series.due_ns - time["start_ns"]) // time["bin_ns"]
            for b in range(len(time["high"][place])):
                inside = values[bins == b]
                if not len(inside):
                    assert time["high"][place][b] is None
                    continue
                assert time["high"][place][b] == inside.max()
                assert time["low"][place][b] == inside.min()
                exact = int(np.sort(inside)[(len(inside) + 1) // 2 - 1])
                assert exact <= time["middle"][place][b] <= max(exact * 1.01, exact + 1)
    missed = [m for m in page.data["step-2-q0"]["time"]["marks"] if m[2] == "missed"]
    assert sum(m[3] for m in missed) == 61 and {m[1] for m in missed} == {1}


@pytest.mark.slow
@pytest.mark.parametrize(("cpus", "samples"), [(1, 5000), (3, 8000), (6, 3000)])
def test_heat_maps_hold_every_sample(cpus: int, samples: int) -> None:
    run = made.evaluation(cpus, samples)
    page, _ = page_of(run)
    data, series = page.data["step-2-q0"], run.steps[1].series
    heat = data["heat"]
    maps = heat["maps"]
    shared = [[one] for one in series] if cpus <= pictures.APART else [series]
    assert len(maps) == len(shared)
    assert all(b == a + 1 for a, b in zip(heat["high"], heat["low"][1:], strict=False))
    for found, members in zip(maps, shared, strict=True):
        expected = [0] * (heat["columns"] * len(heat["low"]))
        for one in members:
            for due, value in zip(one.due_ns.tolist(), one.value.tolist(), strict=True):
                column = (due - heat["start_ns"]) // heat["bin_ns"]
                (row,) = [
                    r
                    for r, (low, high) in enumerate(zip(heat["low"], heat["high"], strict=True))
                    if low <= value <= high
                ]
                expected[column * len(heat["low"]) + row] += 1
        assert found == expected


@pytest.mark.slow
def test_heat_maps_of_other_scales_and_of_few_cells() -> None:
    random = np.random.default_rng(4)
    values = [random.integers(-300, 9000, 4000).astype(np.int32) for _ in range(3)]
    members = [made.sampled(v, n, n, scale=1 if n else 4) for n, v in enumerate(values)]
    run = made.run([made.step(0, members)])
    figures = list(model.analyse([run]).figures[0].values())  # type: ignore[list-item]
    budget = pictures.Budget(40, 40, columns=7, rows=40)
    heat = pictures.picture(figures, budget)["heat"]
    assert heat["columns"] <= 7 and len(heat["low"]) <= 40
    maps = heat["maps"]
    assert [sum(found) for found in maps] == [4000] * 3
    rows = np.array(maps[1]).reshape(heat["columns"], -1).sum(axis=0).tolist()
    assert rows == [
        sum(low <= value <= high for value in values[1].tolist())
        for low, high in zip(heat["low"], heat["high"], strict=True)
    ]


def test_windows_show_the_due_times_with_their_dither() -> None:
    values = np.arange(1000, dtype=np.int32)
    offsets = (values * 37 % 1000).astype(np.int32)
    info = made.info(1, name="dither", companion=0, interval_ns=made.MS)
    dither = made.FakeSeries(info, np.arange(1000), offsets, chunk_rows=150)
    series = made.FakeSeries(made.info(), np.arange(1000), values, companion=dither)
    run = made.run([made.step(0, [series, dither])])
    (figures,) = model.analyse([run]).figures[0].values()  # type: ignore[list-item]
    for window in (figures.around, figures.begin):
        assert window is not None and len(window.index) > 50
        due = window.index * made.MS + offsets[window.index]
        assert window.due_ns.tolist() == due.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("chunk_rows", [200, 1000, 100_000])
@pytest.mark.parametrize("place", [0, 1, 199, 200, 1000, 2400, 2798, 2799])
def test_windows_show_the_samples_around_the_largest(place: int, chunk_rows: int) -> None:
    values = np.random.default_rng(place).integers(1000, 5000, 2800).astype(np.int32)
    values[place] = 70_000
    if place < 2000:
        values[place + 300] = 70_000  # the first of equals counts
    index = np.arange(2800, dtype=np.int64)
    index[place + 1 :] += 7  # periods missed
    series = made.FakeSeries(made.info(), index, values, chunk_rows=chunk_rows)
    data = page_of(made.run([made.step(0, [series])]))[0].data["step-1-q0"]["window"]
    (around,), (begin,) = data["around"], data["begin"]
    part = slice(max(place - 200, 0), place + 201)
    assert around["value"] == values[part].tolist()
    assert np.cumsum(around["index"]).tolist() == index[part].tolist()
    assert np.cumsum(around["due_ns"]).tolist() == (index[part] * made.MS).tolist()
    assert around["at"] == min(place, 200)
    assert begin["value"] == values[:100].tolist()
    assert np.cumsum(begin["due_ns"]).tolist() == (index[:100] * made.MS).tolist()


@given(st.permutations(range(6)), st.integers(0, 5), st.integers(0, 299))
@settings(max_examples=60)
def test_windows_do_not_depend_on_the_order_of_chunks(
    order: list[int], chunk: int, place: int
) -> None:
    values = np.arange(1800, dtype=np.int64) % 7
    values[chunk * 300 + place] = values[-1 - chunk] = 99
    peak = Peak()
    for number in range(6):
        peak.expect(number)
    for number in order:
        part = np.arange(number * 300, number * 300 + 300)
        peak.add(number, made.FakeChunk(part, part * 10, values[part]))  # type: ignore[arg-type]
    at = int(np.flatnonzero(values == 99)[0])
    window = peak.around(2)
    assert window is not None
    assert window.index.tolist() == list(range(max(at - 200, 0), min(at + 201, 1800)))
    assert window.value.tolist() == (2 * values[window.index]).tolist()
    assert int(window.index[window.at]) == at


@pytest.mark.slow
@given(
    st.lists(st.lists(st.integers(-(2**40), 2**40), max_size=30), min_size=1, max_size=4),
    st.integers(2, 60),
)
@settings(max_examples=150)
def test_edges_hold_all_values(lists: list[list[int]], number: int) -> None:
    tables = [stats.Counts.from_arrays([np.array(v, np.int64)]) for v in lists]
    edges = pictures.edges_of(tables, number)
    assert np.all(np.diff(edges) > 0) and len(edges) <= number + 2
    for values in lists:
        for value in values:
            assert edges[0] <= value < edges[-1]


def test_edges_follow_the_step_of_a_coarse_clock() -> None:
    values = np.random.default_rng(3).integers(20, 400, 5000) * 52
    table = stats.Counts.from_arrays([values])
    edges = pictures.edges_of([table], 280)
    counts, _ = np.histogram(values, bins=edges - 0.5)
    assert np.diff(edges)[:-1].min() >= 52
    assert (counts[: len(counts) // 2] > 0).all()


def test_few_values_are_not_spread_up_to_the_next() -> None:
    """10 000 samples of 5 us and one of 40 us filled one bin, from 5 to 40 us."""
    values = np.array([5_000] * 10_000 + [40_000])
    edges = pictures.edges_of([stats.Counts.from_arrays([values])], 280)
    counts, _ = np.histogram(values, bins=edges - 0.5)
    assert counts[0] == 10_000 and counts[1:-1].sum() == 0 and edges[1] < 5_100


@pytest.mark.slow
def test_places_and_times_of_samples_take_little_room() -> None:
    """Sums of the differences are the values, and the file holds less than half of the digits."""
    shown = views.views(model.analyse([made.evaluation(3, 8000)])).shared.data  # type: ignore[list-item]
    found = html.differences(shown)
    windows = [
        (one, small)
        for name in shown
        if shown[name]["window"]
        for kind in ("around", "begin")
        for one, small in zip(shown[name]["window"][kind], found[name]["window"][kind], strict=True)
        if one
    ]
    assert len(windows) > 6
    for one, small in windows:
        for name in ("index", "due_ns"):
            assert np.cumsum(small[name]).tolist() == one[name]
        assert (small["at"], small["value"]) == (one["at"], one["value"])
    sizes = [
        len(html.deflated([[pair[at][n] for n in ("index", "due_ns")] for pair in windows]))
        for at in (0, 1)
    ]
    assert sizes[1] * 2 < sizes[0]


@pytest.mark.slow
def test_a_report_on_many_steps_stays_small() -> None:
    """As many steps as an evaluation has, each with all pictures of a timer on two CPUs."""
    steps = [made.step(n, made.timer_series(2, 8000, n + 1), f"m{n}") for n in range(40)]
    assert len(rendered(made.run(steps)).encode()) < 1_500_000


@pytest.mark.slow
def test_a_report_on_many_cpus_stays_small() -> None:
    """128 CPUs in six steps: 768 series."""
    steps = [made.step(n, made.timer_series(128, 400, n + 1, stalls=False)) for n in range(6)]
    page, text = page_of(made.run(steps))
    assert len(text.encode()) < 1_500_000
    assert "100 of 128 series" in page.text
    assert "the 100 of 128 series with the highest maxima" in page.text


@pytest.mark.slow
def test_a_report_on_a_server_stays_small() -> None:
    """128 CPUs in 24 steps: 3072 series. The pictures over time have the max of each, whole."""
    steps = [made.step(n, made.timer_series(128, 400, n + 1, stalls=False)) for n in range(24)]
    analysis = model.analyse([made.run(steps)])  # type: ignore[list-item]
    text = html.render(analysis)
    assert len(text.encode()) < 1_500_000
    shown = list(Page(text).data.values())
    assert len(shown) == 24
    for number, one in enumerate(shown):
        series = analysis.model["runs"][0]["series"][128 * number :][:128]
        time = one["time"]
        highest = [max(v for v in row if v is not None) for row in time["high"]]
        assert highest == [each["max"] for each in series]
        assert min(v for v in time["floor"] if v is not None) == min(e["min"] for e in series)
        assert not any(time["low"]) and not any(time["middle"])


@pytest.mark.slow
def test_sixty_four_series_stay_small() -> None:
    page, text = page_of(made.evaluation(64, 3000))
    assert len(text.encode()) < 3_000_000
    assert "All 64 series" in page.text


def test_a_command_of_the_answer_is_beside_what_it_does(example: tuple[Page, str]) -> None:
    _, text = example
    actions = re.findall(
        r'<li><div class="action"><div>(.*?)</div><div>(.*?)</li>', text, re.DOTALL
    )
    assert actions
    for what, commands in actions:
        assert "command-line" not in what
        assert 'class="command-line"' in commands


@pytest.mark.slow
def test_a_report_begins_with_the_answer_and_folds_its_steps(example: tuple[Page, str]) -> None:
    page, _ = example
    (run,) = model.analyse([made.evaluation(3, 8000)]).model["runs"]  # type: ignore[list-item]
    anchors = [a["id"] for _, a in page.tags if "id" in a]
    order = ["answer", "summary", "steps", "step-1", "step-2", "step-3", "step-4", "findings"]
    assert [anchor for anchor in anchors if anchor in order] == order
    assert not any(tag == "details" and "open" in a for tag, a in page.tags)
    assert page.text.index(answer_of(run).title.replace("\u202f", " ")) < page.text.index(
        "Strengths"
    )
    links = {a["href"] for tag, a in page.tags if tag == "a"}
    assert {f"#step-{number}" for number in range(1, 5)} <= links
    assert {link[1:] for link in links if link} <= set(anchors)


def test_the_head_says_what_was_measured_and_what_not(example: tuple[Page, str]) -> None:
    page, _ = example
    head = page.text[: page.text.index("What to do next")]
    assert "run of 1 min 3 s" in head
    for words in (
        "6.1.0-27-rt-amd64",
        "PREEMPT_RT",
        "load: idle and sched",
    ):
        assert words in head, words
    assert "Not measured: 1 of 3 steps (" in head


@pytest.mark.slow
def test_the_row_of_a_step_has_the_series_with_the_maximum() -> None:
    analysis = model.analyse([made.evaluation(3, 8000)])  # type: ignore[list-item]
    (run,) = views.views(analysis).runs
    rows = [step["row"] for step in run["steps"]]
    series = [one for one in analysis.model["runs"][0]["series"] if one["step"] == 1]
    top = max(series, key=lambda one: one["max"])
    assert rows[1].max == numbers.shown(top["max"], "ns").full
    assert rows[1].median == numbers.shown(top["percentiles"]["50"], "ns").full
    assert rows[1].missed == f"{sum(one['missed'] for one in series)} missed"
    assert [row.failed for row in rows] == [False, True, False, False]
    assert (rows[2].state, rows[2].max, rows[2].path) == ("skipped", "–", "")


def test_the_row_of_a_step_counts_the_missed_periods_of_all_its_quantities() -> None:
    whole, late = made.timer_series(2, 2000)

    def one(name: str, missed: int) -> made.FakeSeries:
        info = made.info(2, name=name, context="irq")
        return dataclasses.replace(whole, info=info, gaps=((9, missed),))

    few = dataclasses.replace(whole, gaps=((9, 5),))
    both = [[whole, one("latency", 4)], [late, one("jitter", 7)], [few, one("response", 6)]]
    run = made.run([made.step(number, series) for number, series in enumerate(both, 1)])
    analysis = model.analyse([run])  # type: ignore[list-item]
    (shown,) = views.views(analysis).runs
    rows = [step["row"] for step in shown["steps"]]
    # an event without an answer may lack both, so only that of the answer counts
    assert [row.missed for row in rows] == ["4 missed", "68 missed", "6 missed"]
    assert [one["cells"][-2].text for one in shown["overview"]] == ["4", "68", "6"]


@pytest.mark.slow
def test_a_step_without_a_verdict_in_a_run_with_a_budget() -> None:
    """Its row said that there is no budget."""
    value = np.full(100, 1000)
    found = [
        made.step(0, [made.sampled(value)], budget_ns=150_000),
        made.step(1, [made.sampled(value)], "noise"),
    ]
    _, text = page_of(made.run(found, findings=[]))
    assert "no budget" not in text
    assert '<span class="k-verdict"><span class="zero">–</span></span>' in text


@pytest.mark.slow
def test_missed_periods_do_not_follow_a_dash() -> None:
    """ "–203 missed" looked like a negative number."""
    (late,) = made.timer_series(1, 2000)
    late = dataclasses.replace(late, gaps=((9, 203),))
    _, text = page_of(made.run([made.step(0, [late])], findings=[]))
    assert "203 missed" in text and "–203 missed" not in re.sub("<[^>]*>", "", text)


@pytest.mark.slow
def test_the_first_page_has_title_facts_and_logo() -> None:
    analysis = model.analyse([made.simple().run])
    logo = b"\x89PNG\r\n\x1a\n" + HOSTILE.encode()
    page = Page(html.render(analysis, None, Cover(HOSTILE, (("Serial number", HOSTILE),), logo)))
    assert page.text.count(HOSTILE.replace("\u2028", " ")) == 4 and "Serial number" in page.text
    (image,) = [a for tag, a in page.tags if tag == "img"]
    assert image["src"] == f"data:image/png;base64,{base64.b64encode(logo).decode()}"
    (policy,) = [str(a["content"]) for _, a in page.tags if a.get("http-equiv")]
    assert "img-src data:;" in policy
    assert "img-src" not in html.render(analysis)


@pytest.mark.slow
def test_the_same_run_gives_the_same_bytes() -> None:
    assert rendered(made.evaluation(2, 2000)) == rendered(made.evaluation(2, 2000))


@pytest.mark.slow
def test_two_runs_in_one_report() -> None:
    page, _ = page_of(made.evaluation(1, 2000), made.evaluation(2, 2000))
    names = [a["id"] for _, a in page.tags if "id" in a]
    assert len(names) == len(set(names))
    assert "Run 1 of 2" in page.text
    anchors = {a["href"] for t, a in page.tags if t == "a"}
    assert {anchor[1:] for anchor in anchors if anchor} <= set(names)


def test_formats_go_by_the_suffix(tmp_path: Path) -> None:
    runs: list[Any] = [made.simple().run]
    report.write(runs, tmp_path / "x.json")
    document = json.loads((tmp_path / "x.json").read_text())
    model.validate(document)
    report.write(runs, tmp_path / "x.HTML")
    Page((tmp_path / "x.HTML").read_text())
    assert sorted(file.name for file in tmp_path.iterdir() if file.is_file()) == [
        "x.HTML",
        "x.json",
    ]


@pytest.mark.parametrize("name", ["report.doc", "report"])
def test_an_unknown_format_names_the_known_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        report.write([], tmp_path / name)
    assert ".html" in caught.value.remedy and ".json" in caught.value.remedy


def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(RtgaugeError) as caught:
        report.write([made.simple().run], tmp_path / "no" / "x.json")
    assert "cannot write the report" in caught.value.message and caught.value.remedy


@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
def test_a_report_is_as_readable_as_the_umask_allows(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        report.write([made.simple().run], tmp_path / "x.json")
    finally:
        os.umask(before)
    assert (tmp_path / "x.json").stat().st_mode & 0o777 == mode


def test_this_machine_is_called_by_its_name() -> None:
    here = {**made.ENVIRONMENT, "host": "mill <7>"}
    text = rendered(made.run([made.step(0, [])], target="local", environment=here))
    assert "<title>Real-time evaluation of mill &lt;7&gt;</title>" in text
    text = rendered(made.run([made.step(0, [])], target="board", environment=here))
    assert "<title>Real-time evaluation of board</title>" in text
    text = rendered(made.run([made.step(0, [])], target="local"))
    assert "<title>Real-time evaluation of local</title>" in text


def test_what_the_environment_lists_is_in_words() -> None:
    states = [{"name": "POLL", "latency_us": 0}, {"name": "C1", "latency_us": 2}]
    rows = dict(views._flat({"cpu": {"sleep_states": states, "flags": ["a", "b"]}}))
    assert rows == {
        "cpu: sleep states": "name POLL, latency us 0; name C1, latency us 2",
        "cpu: flags": "a, b",
    }
