# SPDX-License-Identifier: Apache-2.0
"""The HTML report: whole, closed to the outside, safe against hostile targets, and drawing."""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import zlib
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import report_runs as made
from rtgauge import report, stats, stream
from rtgauge import text as numbers
from rtgauge.errors import RtgaugeError, UsageError
from rtgauge.facts import printable
from rtgauge.report import pictures
from rtgauge.report.document import steps, views
from rtgauge.report.document.answer import answer_of
from rtgauge.report.document.blocks import Document, Paragraph, Section, line
from rtgauge.report.document.cover import Cover
from rtgauge.report.pictures import scales
from rtgauge.report.render import html, pdf
from rtgauge.report.results import model
from rtgauge.report.results.window import Peak

VOID = {"meta", "link", "br", "hr", "img", "input"}
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>'\"&\u2028<!--"


class Page(HTMLParser):
    """Reads a page, checking that what is opened is closed, and keeps what matters."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.blocks: dict[str, list[str]] = {"script": [], "style": []}
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag in self.blocks:
            self.blocks[tag].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert tag not in VOID
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.blocks:
            self.blocks[self.open[-1]][-1] += data
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words).replace("\u202f", " "))

    @property
    def data(self) -> Any:
        return inflated(self.blocks["script"][0])


def inflated(text: str) -> Any:
    """The data of a page, from the text of its element."""
    return json.loads(zlib.decompress(base64.b64decode(text, validate=True)))


def page_of(*runs: made.FakeRun) -> tuple[Page, str]:
    text = rendered(*runs)
    return Page(text), text


def rendered(*runs: made.FakeRun) -> str:
    return html.render(model.analyse(list(runs)))  # type: ignore[arg-type]


@functools.cache
def evaluated(cpus: int) -> str:
    """The text of the page of an evaluation."""
    return rendered(made.evaluation(cpus, 3000))


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


def hostile_run(evil: str = HOSTILE) -> made.FakeRun:
    info = made.info(name=evil, labels={evil: evil}, unit=evil, policy=evil, context="user")
    values = np.arange(1, 400, dtype=np.int32)
    series = made.FakeSeries(info, np.arange(399), values)
    twin = made.FakeSeries(
        made.info(1, 1, name=evil, labels={evil: "other"}, unit=evil),
        np.arange(399),
        values,
    )
    events = [
        stream.Event(0, "message", 10**9, None, {"text": evil}),
        stream.Event(0, "load", 10**9, None, {"load": evil, "message": evil}),
    ]
    table = stream.Table(0, evil, (stream.Column(evil, evil),), ((evil,),))
    step = made.step(
        0,
        [series, twin],
        evil,
        load=evil,
        reason=evil,
        remedy=evil,
        told=events,
        tables=[table],
        verdicts=[stream.Verdict(0, evil, "fail", evil, evil)],
        settings=[stream.Setting(0, evil, evil, evil, evil, evil)],
        work=[stream.Work(0, evil, evil, 5, 0, 10**9)],
        end=stream.StreamEnd(False, 1, 1, 1, evil, False),
    )
    findings = [{"check": evil, "found": evil, "level": "error", "why": evil, "remedy": evil}]
    environment = {
        "kernel": {evil: evil, "release": evil},
        "cpu": {"model": evil},
        "libc": evil,
        "realtime": "none",
        "settings": {},
    }
    catalogue = {
        "measurements": [
            {
                "name": evil,
                "summary": evil,
                "code": evil,
                "role": "measurement",
                "series": [
                    {
                        "name": evil,
                        "meaning": evil,
                        "from": evil,
                        "to": evil,
                        "stages": [evil],
                    }
                ],
                "tables": [{"name": evil, "meaning": evil}],
            }
        ]
    }
    return made.run(
        [step],
        target=evil,
        label=evil,
        study=evil,
        findings=findings,
        environment=environment,
        catalogue=catalogue,
        state="failed",
        reason=evil,
        id=evil,
        boot_id=evil,
    )


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
    series = made.FakeSeries(made.info(policy="other"), np.arange(400), values)
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
    members = [
        made.FakeSeries(made.info(n, n, scale=1 if n else 4), np.arange(4000), v)
        for n, v in enumerate(values)
    ]
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


# --- in a browser --------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def browser() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None and os.environ.get("RTGAUGE_NO_BROWSER"):
        pytest.skip("RTGAUGE_NO_BROWSER is set: no pictures are drawn")
    assert found, "no chromium: install it, or set RTGAUGE_NO_BROWSER=1 to leave these tests out"
    return found


def drawn(browser: str, file: Path, scratch: Path, place: str = "#all") -> tuple[Page, str]:
    """The page at a place (everything opened) after its scripts ran, and their console."""
    words = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        f"--user-data-dir={scratch / 'profile'}",
        "--window-size=1000,900",
        "--enable-logging=stderr",
        "--v=0",
        "--virtual-time-budget=20000",  # the data is decompressed asynchronously
        "--dump-dom",
        file.as_uri() + place,
    ]
    done = subprocess.run(words, capture_output=True, timeout=120, check=True)
    console = [
        line for line in done.stderr.decode(errors="replace").splitlines() if "CONSOLE" in line
    ]
    return Page(done.stdout.decode()), "\n".join(console)


def framed(text: str, wide: int) -> str:
    """A page in a frame of so many pixels."""
    inner = text.replace("&", "&amp;").replace('"', "&quot;")
    return f'<iframe srcdoc="{inner}" width="{wide}" height="860" frameborder="0"></iframe>'


def pictures_of(page: Page) -> int:
    return sum("data-kind" in attributes for _, attributes in page.tags)


@pytest.mark.parametrize("which", ["evaluation", "hostile", "odd", "many"])
@pytest.mark.slow
def test_pictures_are_drawn(
    browser: str, tmp_path: Path, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = {"evaluation": made.evaluation(10, 3000), "hostile": hostile_run(), "odd": odd_run()}
    if which == "many":  # as on a server: the max of each series, the min of all
        monkeypatch.setattr(pictures, "_MANY", 8)
        runs["many"] = made.evaluation(10, 3000)
    file = tmp_path / "report.html"
    report.write([runs[which]], file)  # type: ignore[list-item]
    due = pictures_of(Page(file.read_text()))
    page, console = drawn(browser, file, tmp_path)
    assert "pictures: ok" in page.text
    assert console == ""
    assert due > 0 and sum(tag == "canvas" for tag, _ in page.tags) == due
    assert page.text.count("Number of samples per value") == len(page.data)
    assert len(page.blocks["script"]) == 3


@pytest.mark.slow
def test_a_link_opens_its_step_and_only_its_pictures_are_drawn(
    browser: str, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    file.write_text(evaluated(2))
    whole = re.search(r'id="step-2".*?</details>\s*<details class="step"', file.read_text(), re.S)
    assert whole
    due = whole.group().count("data-kind=")
    page, console = drawn(browser, file, tmp_path, "#step-2-q0")
    assert "pictures: ok" in page.text and console == ""
    assert 0 < due == sum(tag == "canvas" for tag, _ in page.tags) < pictures_of(page)
    opened = [a.get("id") for tag, a in page.tags if tag == "details" and "open" in a]
    assert opened == ["step-2"]
    page, _ = drawn(browser, file, tmp_path, "")
    assert "pictures: ok" in page.text
    assert not any(tag == "canvas" for tag, _ in page.tags)


@pytest.mark.slow
def test_steps_are_filtered_and_searched(browser: str, tmp_path: Path) -> None:
    """Each filter leaves its steps, a link to another one drops the filters."""
    text = re.sub(r"<meta http-equiv=[^>]*>", "", evaluated(2))
    acts = """<script>
    const filter = document.querySelector(".filter"), said = [];
    const left = () => [...document.querySelectorAll("details.step:not(.hidden)")]
        .map(one => one.id.slice(5)).join("");
    const act = (selector, change) => {
        const field = filter.querySelector(selector);
        change(field);
        field.dispatchEvent(new Event("input", { bubbles: true }));
        said.push(left());
    };
    act("[type=search]", one => { one.value = "CAL-P-TRC"; });
    act("[type=search]", one => { one.value = "no right  priorities"; });
    act("[type=search]", one => { one.value = ""; });
    act("[name=load]", one => { one.value = "sched"; });
    act("[name=load]", one => { one.value = ""; });
    act("[name=failed]", one => { one.checked = true; });
    location.hash = "#step-4";
    setTimeout(() => { said.push(left()); document.title = said.join("|"); }, 100);
    </script></body>"""
    file = tmp_path / "report.html"
    file.write_text(text.replace("</body>", acts))
    page, console = drawn(browser, file, tmp_path, "")
    assert console == ""
    assert "4|3|1234|2|1234|2|1234" in page.text


MEASURED = """<script>
addEventListener("load", () => {
    document.title = [...document.querySelectorAll("iframe")].map(measured).join(" | ");
});
const measured = frame => {
    const wrong = [], near = 1, page = frame.contentDocument;
    const name = one => one.textContent.trim().slice(0, 40);
    if (page.documentElement.scrollWidth > frame.clientWidth) wrong.push("the page is too wide");
    for (const one of page.querySelectorAll("#answer .command-line, #answer .callout, #answer li"))
        if (one.scrollWidth > one.clientWidth + near) wrong.push("cut: " + name(one));
    for (const code of page.querySelectorAll("#answer .command-line code")) {
        const button = code.parentElement.querySelector("button").getBoundingClientRect();
        for (const word of code.querySelectorAll("span")) for (const box of word.getClientRects())
            if (box.width && box.right > button.left + near && box.top < button.bottom - near &&
                button.width) wrong.push("below the button: " + name(word));
    }
    for (const svg of page.querySelectorAll("#answer svg[viewBox]")) {
        const room = svg.getBoundingClientRect();
        const texts = [...svg.querySelectorAll("text")]
            .map(one => [one, one.getBoundingClientRect()]);
        for (const [one, box] of texts) {
            if (box.left < room.left - near || box.right > room.right + near)
                wrong.push("outside: " + name(one));
            for (const [other, its] of texts)
                if (one !== other && box.left < its.right - near && its.left < box.right - near &&
                    box.top < its.bottom - 4 && its.top < box.bottom - 4)
                    wrong.push(name(one) + " on " + name(other));
        }
    }
    return "wrong: " + (wrong.join("; ") || "nothing") + "; texts " +
        page.querySelectorAll("#answer svg[viewBox] text").length + "; commands " +
        page.querySelectorAll("#answer .command-line button:not([hidden])").length;
};
</script>"""


INKED = """<script>
    const count = () => {
        const one = document.querySelector("figure[data-kind=time] canvas");
        const { data } = one.getContext("2d").getImageData(0, 0, one.width, one.height);
        let inked = 0;
        for (let k = 0; k < data.length; k += 4)
            if (data[k] === 29 && data[k + 1] === 92 && data[k + 2] === 136) inked++;
        document.title = "inked: " + inked;
    };
    const check = document.getElementById("selfcheck");
    new MutationObserver(() => setTimeout(count, 200)).observe(check, { childList: true });
</script></body>"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 3])
def test_samples_far_apart_are_drawn_over_time(browser: str, tmp_path: Path, number: int) -> None:
    """A value with no neighbour has no line: it was left out."""
    text = re.sub(
        r"<meta http-equiv=[^>]*>", "", rendered(made.run([made.step(0, made.apart(number))]))
    )
    file = tmp_path / "report.html"
    file.write_text(text.replace("</body>", INKED))
    page, _ = drawn(browser, file, tmp_path)
    found = re.search(r"inked: (\d+)", page.text)
    assert found and int(found[1]) >= 400, page.text[:100]
    widths = re.findall(r"a cell is (\S+?)[\s\u202f]s wide", page.text)
    assert widths and all(0.0004 < float(one) < 0.0006 for one in widths), widths


ROOM = """<script>
addEventListener("load", () => {
    const frame = document.querySelector("iframe"), page = frame.contentDocument, found = [];
    for (const one of page.querySelectorAll("details")) one.open = true;
    for (const head of page.querySelectorAll("thead th")) {
        const box = head.closest(".scroll"), first = head.parentElement.firstElementChild;
        if (["Reason", "Remedy", "Evidence"].includes(head.textContent) && !head.closest(".lead"))
            found.push(head.offsetWidth >= 140 &&
                head.offsetWidth + first.offsetWidth <= box.clientWidth);
    }
    document.title = found.length + " columns, " + found.filter(one => !one).length + " narrow";
});
</script>"""


@pytest.mark.slow
def test_on_a_narrow_screen_sentences_in_tables_have_room(browser: str, tmp_path: Path) -> None:
    """Next to the first column, which stays in view."""
    why = "not permitted, even to root: the kernel is locked down, or this is a container"
    run = made.evaluation(1, 500)
    names = ("interrupt-latency", "interrupt-to-thread", "mutex-inversion")
    for at, name in enumerate(names, len(run.steps)):
        run.steps.append(made.step(at, [], name, state="skipped", reason=why, remedy=why))
    setting = {"before": "0", "asked": "1", "effective": None, "reason": why}
    run.document["environment"] = {
        **made.ENVIRONMENT,
        "settings": {"/sys/kernel/debug/sched/fair_server/cpu0/runtime": setting},
    }
    file = tmp_path / "report.html"
    report.write([run], tmp_path / "inner.html")  # type: ignore[list-item]
    inner = re.sub(r"<meta http-equiv=[^>]*>", "", (tmp_path / "inner.html").read_text())
    frame = f'<iframe width="500" height="900" srcdoc="{escape(inner)}"></iframe>'
    file.write_text(f"<!DOCTYPE html><title>none</title>{frame}{ROOM}")
    page, _ = drawn(browser, file, tmp_path, "")
    found = re.search(r"(\d+) columns, (\d+) narrow", page.text)
    assert found, page.text[:200]
    assert int(found[1]) > 5 and found[2] == "0"


@pytest.mark.parametrize("which", ["evaluation", "fake", "dense", "right"])
@pytest.mark.slow
def test_the_answer_is_neither_cut_nor_overlapping(
    browser: str, tmp_path: Path, which: str
) -> None:
    """Measured in the fonts that are drawn: commands, boxes, and the labels of the picture."""
    values = np.concatenate([np.full(300, 5000), np.linspace(60_000, 99_000, 300)])
    series = made.FakeSeries(made.info(), np.arange(600), values.astype(np.int32))
    dense = made.run([made.step(0, [series], load="sched", budget_ns=90_000)])
    fake = made.run([made.step(0, [series], budget_ns=150_000)], target="fake")
    wide = made.FakeSeries(made.info(), np.arange(600), np.linspace(12e3, 243e3, 600).astype("i4"))
    right = made.run([made.step(0, [wide], budget_ns=150_000)])  # the budget is named at its left
    runs = {"dense": dense, "fake": fake, "right": right}
    text = evaluated(2) if which == "evaluation" else rendered(runs[which])
    text = re.sub(r"<meta http-equiv=[^>]*>", "", text)
    file = tmp_path / "frame.html"
    frames = framed(text, 400) + framed(text, 1280)
    file.write_text(f"<!doctype html><title>-</title>{MEASURED}{frames}")
    page, _ = drawn(browser, file, tmp_path, "")
    good = r"wrong: nothing; texts [1-9]\d*; commands [1-9]\d*"
    assert re.search(rf"{good} \| {good}", page.text), page.text[:500]


LETTERS = """<script>
addEventListener("load", () => {
    const page = document.querySelector("iframe").contentDocument;
    const high = one => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a;
    const all = [...page.querySelectorAll(".drawing text")].map(high);
    document.title = `${all.length} texts, the smallest ${Math.min(...all).toFixed(2)}; ` +
        `too wide: ${page.documentElement.scrollWidth - page.documentElement.clientWidth}`;
});
</script>"""


@pytest.mark.slow
def test_letters_of_drawings_are_readable_on_a_phone(browser: str, tmp_path: Path) -> None:
    """A wide picture is scrolled instead of made small."""
    text = re.sub(r"<meta http-equiv=[^>]*>", "", evaluated(2)).replace("<details", "<details open")
    assert 'viewBox="0 0 482 ' in text and 'viewBox="0 0 330 ' in text
    file = tmp_path / "frame.html"
    file.write_text(f"<!doctype html><title>-</title>{LETTERS}{framed(text, 400)}")
    page, _ = drawn(browser, file, tmp_path, "")
    found = re.search(r"(\d+) texts, the smallest ([\d.]+); too wide: 0", page.text)
    assert found, page.text[:200]
    assert int(found[1]) > 20 and float(found[2]) >= 9


LINES = """<script>
addEventListener("load", () => {
    const page = document.querySelector("iframe").contentDocument, lines = [];
    for (const one of page.querySelectorAll("summary .k-max, summary .k-median")) {
        const words = page.createRange();
        words.selectNodeContents([...one.childNodes].find(node => node.nodeType === 3));
        lines.push(words.getClientRects().length);
    }
    document.title = `lines: ${lines}; wide: ` +
        (page.documentElement.scrollWidth <= page.documentElement.clientWidth);
});
</script>"""


@pytest.mark.slow
@pytest.mark.parametrize("paper", [False, True])
def test_a_large_maximum_keeps_its_unit(browser: str, tmp_path: Path, paper: bool) -> None:
    """In the row of a step: seven digits, without a line break before the unit."""
    values = np.append(np.full(500, 1_234_567_890), 2_147_483_000).astype(np.int32)
    series = made.FakeSeries(made.info(), np.arange(501), values)
    text = re.sub(r"<meta http-equiv=[^>]*>", "", rendered(made.run([made.step(0, [series])])))
    if paper:
        text = text.replace("@media screen", "@media none").replace("@media print", "@media all")
    file = tmp_path / "frame.html"
    file.write_text(f"<!doctype html><title>-</title>{LINES}{framed(text, 688 if paper else 1280)}")
    page, _ = drawn(browser, file, tmp_path, "")
    assert "lines: 1,1; wide: true" in page.text, page.text[:200]


@pytest.mark.slow
def test_a_heading_is_printed_on_the_page_of_its_points(browser: str, tmp_path: Path) -> None:
    """In columns, the points moved to the next page without it, and left half of a page empty."""
    points = "".join(f"<li>point {at}</li>" for at in range(5))
    part = f'<section class="block"><h3>heading</h3><ul class="points">{points}</ul></section>'
    file, printed = tmp_path / "page.html", tmp_path / "page.pdf"
    style = (Path(html.__file__).parent / "static" / "report.css").read_text()
    file.write_text(f"<!doctype html><title>-</title><style>{style}</style>{part * 60}")
    words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
    words += [f"--user-data-dir={tmp_path / 'profile'}", f"--print-to-pdf={printed}"]
    subprocess.run([*words, file.as_uri()], capture_output=True, timeout=120, check=True)
    done = subprocess.run(["pdftotext", printed, "-"], capture_output=True, timeout=60, check=True)
    pages = [page.split() for page in done.stdout.decode().split("\f") if page.strip()]
    assert len(pages) > 5
    assert not [page for page in pages if page[-1] == "heading"]


@pytest.mark.slow
@pytest.mark.parametrize("limit", [8, 1024])
def test_the_controls_work(
    browser: str, tmp_path: Path, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hide, isolate and show series, zoom by key, change the scale: no error, pictures remain.
    ``limit``: the number of series beyond which the pictures over time have less of each."""
    monkeypatch.setattr(pictures, "_MANY", limit)
    text = re.sub(r"<meta http-equiv=[^>]*>", "", rendered(made.evaluation(10, 3000)))
    clicks = """<script>
    const act = () => {
    const all = [...document.querySelectorAll(".legend button")];
    const press = (kind, b) => b.dispatchEvent(new MouseEvent(kind, { bubbles: true }));
    for (const b of all) press("click", b);
    for (const b of all.slice(0, 10)) press("click", b);
    for (const b of document.querySelectorAll(".tools button")) press("click", b);
    for (const b of all.slice(0, 3)) press("dblclick", b);
    window.dispatchEvent(new Event("beforeprint")); window.dispatchEvent(new Event("afterprint"));
    for (const u of document.querySelectorAll(".uplot"))
        for (const key of ["+", "+", "ArrowLeft", "ArrowRight", "-", "0"])
            u.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    for (const s of document.querySelectorAll("figure select")) {
        s.selectedIndex = s.options.length - 1;
        s.dispatchEvent(new Event("change"));
    }
    for (const o of document.querySelectorAll(".u-over")) {
        const box = o.getBoundingClientRect();
        for (const part of [0.02, 0.5, 0.97])
            for (const kind of ["mouseenter", "mousemove"])
                o.dispatchEvent(new MouseEvent(kind, { bubbles: true,
                    clientX: box.left + part * box.width, clientY: box.top + part * box.height }));
    }
    for (const b of document.querySelectorAll(".legend .all")) press("click", b);
    document.title = [...document.querySelectorAll("[aria-pressed]")]
        .map(b => b.getAttribute("aria-pressed") === "true" ? "+" : "-").join("");
    };
    const check = document.getElementById("selfcheck");
    new MutationObserver(act).observe(check, { childList: true });
    </script></body>"""
    file = tmp_path / "report.html"
    file.write_text(text.replace("</body>", clicks))
    page, console = drawn(browser, file, tmp_path)
    assert "pictures: ok" in page.text
    assert console == ""
    assert sum(tag == "canvas" for tag, _ in page.tags) == pictures_of(page)
    assert "+" * 20 in page.text and "-" * 20 not in page.text


ACTING = """<script>
const drawn = [], put = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
    drawn.push(text); put.call(this, text, ...at);
};
const one = kind => document.querySelector(`figure[data-kind=${kind}]`);
const shown = (kind, part) => {
    const over = one(kind).querySelector(".u-over"), box = over.getBoundingClientRect();
    for (const what of ["mouseenter", "mousemove"])
        over.dispatchEvent(new MouseEvent(what, { bubbles: true,
            clientX: box.left + part * box.width, clientY: box.top + 0.5 * box.height }));
    return one(kind).querySelector(".readout").textContent;
};
const press = (kind, ...keys) => {
    for (const key of keys) one(kind).querySelector(".uplot")
        .dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    return later();
};
const later = () => new Promise(done => setTimeout(done, 300));  // uPlot draws and resizes later
const act = async () => {
    await later();
    document.title = `said: ${JSON.stringify(await ACTS)} .`;
};
addEventListener("load", () => new MutationObserver((_, self) => { self.disconnect(); act(); })
    .observe(document.getElementById("selfcheck"), { childList: true }));
</script>"""


def said(browser: str, scratch: Path, acts: str, *runs: Any) -> Any:
    """What an expression gives in the page of runs, all of whose pictures are drawn. It can call
    ``shown`` (the readout of a kind of picture, its cursor at a part of its width), await ``press``
    (keys), and read ``drawn``, the texts in the pictures."""
    source = report.Source(runs)
    text = html.render(source.analysis, source.comparison)
    text = re.sub(r"<meta http-equiv=[^>]*>", "", text)
    text = text.replace("<body", ACTING.replace("ACTS", acts) + "<body", 1)
    file = scratch / "report.html"
    file.write_text(text)
    page, console = drawn(browser, file, scratch)
    assert "pictures: ok" in page.text and console == ""
    found = re.search(r"said: (.*?) \.", " ".join(page.words).replace("\u202f", " "), re.S)
    assert found, page.text[:200]
    return json.loads(found[1])


def series_of(values: list[int], at: int = 0, **more: Any) -> made.FakeSeries:
    return made.FakeSeries(
        made.info(at, **{"cpu": at, **more}), np.arange(len(values)), np.array(values, np.int32)
    )


@pytest.mark.slow
def test_a_readout_is_that_of_the_bin_below_the_cursor(browser: str, tmp_path: Path) -> None:
    """With its ends told apart. The readout of the right half of a bin was that of the next one."""
    run = made.run([made.step(0, [series_of([5000] * 900 + [5001] * 70 + [5002] * 30)])])
    acts = "[0.05, 0.3, 0.36, 0.64, 0.69, 0.9].map(part => shown('histogram', part))"
    first, second, third = (
        f"{low} to {high} µs: {count} samples"
        for low, high, count in (
            ("5", "5.001", 900), ("5.001", "5.002", 70), ("5.002", "5.003", 30),
        )
    )  # fmt: skip
    assert said(browser, tmp_path, acts, run) == [first, first, second, second, third, third]


def parts(shape: str, text: str) -> tuple[str, ...]:
    found = re.fullmatch(shape, text)
    assert found, text
    return found.groups()


@pytest.mark.slow
def test_readouts_say_what_the_samples_are(browser: str, tmp_path: Path) -> None:
    """Each picture is checked against its samples. A single sample was called "1 samples"."""
    values = [5000] * 900 + [6000] * 99 + [9000]
    run = made.run([made.step(0, [series_of(values)])])
    kinds = ("histogram", "ccdf", "time", "heat", "around", "begin")
    acts = (
        f"Object.fromEntries({list(kinds)}.map(kind => [kind, "
        "[...Array(101).keys()].map(at => shown(kind, at / 100))]))"
    )
    found = said(browser, tmp_path, acts, run)
    assert set(found["histogram"]) <= {
        "5.00 to 6.00 µs: 900 samples", "6.00 to 7.00 µs: 99 samples", "7.00 to 8.00 µs: 0 samples",
        "8.00 to 9.00 µs: 0 samples", "9.00 to 10.0 µs: 1 sample",
    }  # fmt: skip
    assert found["histogram"][-1] == "9.00 to 10.0 µs: 1 sample"
    for text in found["ccdf"]:
        low, count = parts(r"≥ (.*) µs: (.*) of 1 000", text)
        assert int(count.replace(" ", "")) == sum(v >= float(low) * 1000 for v in values), text
    for text in found["time"] + found["heat"]:
        at, top = parts(r"(.*) s · .*max (.*) µs", text)
        here = values[max(round(float(at) * 1000) - 6, 0) : round(float(at) * 1000) + 6]
        assert float(top) * 1000 in here, text
    for text in found["around"]:
        shape = r"(.*) ms · due at (.*) ms · sample (.*): (.*) µs"
        apart, due, at, value = parts(shape, text)
        assert float(due) == int(at) == 999 + float(apart.replace("−", "-")), text
        assert float(value) * 1000 == values[int(at)], text
    for text in found["begin"]:
        at, value = parts(r"due at (.*) ms: (.*) µs", text)
        assert float(value) * 1000 == values[round(float(at))], text


@pytest.mark.slow
def test_a_readout_names_whose_periods_were_missed(browser: str, tmp_path: Path) -> None:
    values = np.full(1000, 5000, np.int32)
    index, late, gaps = made.with_stalls(values, {500: 400}, made.MS)
    other = made.FakeSeries(made.info(1, 1), index, late, gaps=gaps)
    run = made.run([made.step(0, [series_of([4000] * 1000), other])])
    found = said(browser, tmp_path, "[...Array(40).keys()].map(k => shown('time', k / 40))", run)
    missed = [one for one in found if "missed" in one]
    assert missed and all("CPU 0" in one and "missed by other series" in one for one in missed)


@pytest.mark.slow
def test_a_bin_with_no_neighbour_shows_its_min_and_median(browser: str, tmp_path: Path) -> None:
    """It showed the maximum alone, as if all samples were equal."""
    bursts = [np.arange(20) + number * 2000 for number in range(25)]
    values = np.tile(np.array([2000, 9000] * 10, np.int32), 25)
    gaps = tuple((int(one[-1]), 1980) for one in bursts[:-1])
    series = made.FakeSeries(made.info(), np.concatenate(bursts), values, gaps=gaps)
    acts = """(() => {
        const bars = [], context = CanvasRenderingContext2D.prototype, put = context.fillRect;
        context.fillRect = function (...at) { bars.push(at[3]); put.call(this, ...at); };
        return press("time", "0").then(() => bars);
    })()"""
    heights = said(browser, tmp_path, acts, made.run([made.step(0, [series])]))
    assert sum(height > 60 for height in heights) >= 20


@pytest.mark.slow
def test_the_pictures_round_as_the_tables_do(browser: str, tmp_path: Path) -> None:
    """A maximum of 100.5 µs was 100 in the table and 101 in the picture."""
    values = [-5, -4, 0, 1, 999, 1115, 1125, 1135, 1725, 2675, 9995, 9996, 12_250, 12_350, 12_345]
    values += [99_950, 99_949, 100_500, 101_500, 101_501, 1_000_500, 2**31 - 1, 2**40 + 500]
    source = report_script()
    numbers_of = source[source.index("/* --- numbers --- */") : source.index("const SUP")]
    rounded = f"(() => {{ {numbers_of} return {values}.map(v => show(v / 1000)); }})()"
    shares = [99.96, 99.9996, 99.99999999999999, 100.04, 100, 0.04, 0.0004, 0]
    percent = f"(() => {{ {numbers_of} return {shares}.map(v => show(v, true, '%')); }})()"
    acts = f"[{rounded}, {percent}, [...drawn, shown('begin', 0.99)]]"
    run = made.run([made.step(0, [series_of([100_500, 12_250, -4])])])
    texts, percentages, found = said(browser, tmp_path, acts, run)
    assert percentages == [numbers.shown(share, "%").text for share in shares]
    for value, text in zip(values, texts, strict=True):
        if not -5 < value < 0:
            assert text == numbers.shown(value, "ns").text.replace("\u202f", " "), value
    assert "max 100 µs" in found and "max 101 µs" not in found
    assert found[-1].endswith(": 0.00 µs")


def report_script() -> str:
    return (Path(html.__file__).parent / "static" / "report.js").read_text()


@pytest.mark.slow
def test_an_axis_across_zero_keeps_its_numbers(browser: str, tmp_path: Path) -> None:
    """Below 1 µs the axis had the number 0 alone, and none once enlarged."""
    run = made.run([made.step(0, [series_of(list(range(900)))])])
    acts = "(async () => [drawn.splice(0), (await press('histogram', '+', '+'), drawn)])()"
    before, after = said(browser, tmp_path, acts, run)
    assert {"0", "0.2", "0.4", "0.6", "0.8"} <= set(before)
    assert len(set(after) & {"0.35", "0.4", "0.45", "0.5"}) >= 2


@pytest.mark.slow
def test_a_picture_against_a_number_is_enlarged(browser: str, tmp_path: Path) -> None:
    series = [
        series_of([3000 + at * 100] * 50, at, cpu=0, labels={"waiters": str(2**at)})
        for at in range(6)
    ]
    acts = (
        "(async () => [shown('against', 0), await press('against', '+', '+'), "
        "shown('against', 0.01)])()"
    )
    run = made.run([made.step(0, [*series])])
    first, _, enlarged = said(browser, tmp_path, acts, run)
    assert first.startswith("waiters 1:") and enlarged.startswith("waiters 4:"), enlarged


@pytest.mark.slow
def test_counts_on_an_axis_are_powers_of_ten_as_on_paper(browser: str, tmp_path: Path) -> None:
    """They were written out from 10 000, on top of the name of the axis."""
    run = made.run([made.step(0, [series_of([5000] * 20_000 + [6000])])])
    found = said(browser, tmp_path, "drawn", run)
    assert {scales.power(10.0**at) for at in range(-4, 5)} <= {
        one.replace(" ", numbers.GAP) for one in found
    }
    assert "10000" not in found


@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 9])
def test_a_system_has_one_colour_in_tables_and_pictures(
    browser: str, tmp_path: Path, number: int
) -> None:
    """With nine, those of the pictures were others, and the first and the last had the same."""
    runs = [
        made.run(
            [made.step(0, [series_of(list(range(5000 + at, 5300 + at)))])],
            target=f"board-{at}", id=f"0192f0c4-6d1e-7aaa-8000-00000000000{at}", boot_id=f"b{at}",
        )
        for at in range(number)
    ]  # fmt: skip
    acts = """["legend button .swatch", "ends .swatch"].map(which =>
        [...document.querySelectorAll(".quantity ." + which)].map(one =>
        getComputedStyle(one)[which[0] === "l" ? "borderTopColor" : "backgroundColor"]))"""
    drawn_, listed = said(browser, tmp_path, acts, *runs)
    assert drawn_ == listed and len(set(listed)) == number


@pytest.mark.slow
def test_the_browsers_own_keys_are_left_to_it(browser: str, tmp_path: Path) -> None:
    """Text could not be enlarged with Ctrl + while a picture had the focus."""
    acts = """[{}, { ctrlKey: true }, { metaKey: true }, { altKey: true }].map(held => {
        const event = new KeyboardEvent("keydown",
            { key: "+", bubbles: true, cancelable: true, ...held });
        one("time").querySelector(".uplot").dispatchEvent(event);
        return event.defaultPrevented;
    })"""
    run = made.run([made.step(0, [series_of(list(range(5000, 5300)))])])
    assert said(browser, tmp_path, acts, run) == [True, False, False, False]


@pytest.mark.slow
def test_only_a_logarithmic_axis_is_offered_a_linear_scale(browser: str, tmp_path: Path) -> None:
    """On a linear one the button changed nothing but its own text."""
    acts = """(() => {
        const found = [...one("time").querySelectorAll(".tools button")].at(-1);
        const state = () => found.getClientRects().length ? found.textContent : "";
        const before = state();
        found.click();
        return [before, state()];
    })()"""
    wide = made.run([made.step(0, [series_of([3000, 90_000] * 500)])])
    assert said(browser, tmp_path, acts, wide) == ["Linear scale", "Logarithmic scale"]
    flat = made.run([made.step(0, [series_of([3000, 4000] * 500)])])
    before, _ = said(browser, tmp_path, acts, flat)
    assert before == ""


@pytest.mark.slow
@pytest.mark.parametrize("which", ["evaluation", "long"])
@pytest.mark.parametrize("wide", [688, 400, 1280])
def test_no_part_is_wider_than_the_paper_or_the_screen(
    browser: str, tmp_path: Path, wide: int, which: str
) -> None:
    """688 pixels are the width of the text on A4, all steps open. A browser prints the whole page
    smaller if one table is wider: text of 9.5 points had 6.3, and pictures were flattened."""
    names = [
        series_of(list(range(5000, 5400)), at, labels={"method": "m" * 250 + str(at)})
        for at in range(3)
    ]
    long = made.run([made.step(0, [*names], load="L" * 250)], label="W" * 250, target="t" * 250)
    text = evaluated(4) if which == "evaluation" else rendered(long)
    text = re.sub(r"<meta http-equiv=[^>]*>", "", text)
    text = text.replace("<details", "<details open")
    if wide == 688:
        text = text.replace("@media screen", "@media print").replace(
            "@media print {", "@media all {"
        )
    file = tmp_path / "frame.html"
    file.write_text(
        "<!doctype html><title>-</title><script>addEventListener('load', () => setTimeout(() => {"
        "const page = document.querySelector('iframe').contentDocument;"
        "document.title = `wide: ${page.documentElement.scrollWidth} of ${page.body.clientWidth} `"
        "+ page.querySelectorAll('canvas').length; }, 500));</script>" + framed(text, wide)
    )
    page, _ = drawn(browser, file, tmp_path, "")
    found = re.search(r"wide: (\d+) of (\d+) (\d+)", page.text)
    assert found and int(found[3]) > 3, page.text[:200]
    assert int(found[1]) <= int(found[2])


@pytest.mark.slow
def test_the_maximum_is_in_view_beside_the_contents(browser: str, tmp_path: Path) -> None:
    """On a screen of 1200 pixels, in a table with a column for each percentile."""
    values = np.random.default_rng(3).gamma(2, 900_000, 200_000).astype(np.int32)
    values[1000] = 79_990_005
    series = made.FakeSeries(made.info(), np.arange(200_000), values)
    text = re.sub(r"<meta http-equiv=[^>]*>", "", rendered(made.run([made.step(0, [series])])))
    text = text.replace("<details", "<details open")
    file = tmp_path / "frame.html"
    file.write_text(
        "<!doctype html><title>-</title><script>addEventListener('load', () => {"
        "const page = document.querySelector('iframe').contentDocument;"
        "document.title = 'in view: ' + [...page.querySelectorAll('.scroll')]"
        ".filter(one => one.textContent.includes('Below each percentile'))"
        ".map(one => [one.querySelectorAll('thead th').length, one.querySelector('td.peak')"
        ".getBoundingClientRect().right <= one.getBoundingClientRect().right]); });</script>"
        + framed(text, 1200)
    )
    page, _ = drawn(browser, file, tmp_path, "")
    assert re.search(r"in view: 1[1-9],true ", page.text), page.text[:300]


@pytest.mark.parametrize("lack", ["function", "data"])
@pytest.mark.slow
def test_pictures_that_cannot_be_decompressed(browser: str, tmp_path: Path, lack: str) -> None:
    """The page says so where the pictures would be, and its tables are whole."""
    text = re.sub(r"<meta http-equiv=[^>]*>", "", evaluated(2))
    if lack == "function":
        text = text.replace("<body", "<script>delete window.DecompressionStream</script><body", 1)
        reason = (
            "No pictures: this browser has no DecompressionStream. Open the report in Chrome 80"
        )
    else:
        text = re.sub(r'(id="data">.{200}).{4}', r"\1AAAA", text)
        reason = "No pictures: "
    file = tmp_path / "report.html"
    file.write_text(text)
    page, _ = drawn(browser, file, tmp_path)
    groups = sum("data-group" in attributes for _, attributes in page.tags)
    assert page.text.count(reason) == groups > 0
    assert "pictures: ok" not in page.text
    assert not any(tag == "canvas" for tag, _ in page.tags)


def odd_run() -> made.FakeRun:
    """Negative and constant values, one sample, other units, histograms alone."""
    early = made.FakeSeries(
        made.info(), np.arange(500), (np.arange(500, dtype=np.int32) - 100) * 40
    )
    constant = made.FakeSeries(
        made.info(1, name="flat", unit="count"), np.arange(50), np.full(50, 7, np.int32)
    )
    single = made.FakeSeries(made.info(2, name="one"), np.arange(1), np.array([0], np.int32))
    snapshot = stream.Histogram(
        9, 3, 50, 5, 100, 2150, 0, 0, 0, 7, np.array([[5, 30], [100, 20]], np.int64)
    )
    closed = made.FakeSeries(
        made.info(3, name="closed", histogram_only=True),
        np.arange(0),
        np.empty(0, np.int32),
        histogram=snapshot,
    )
    empty = made.FakeSeries(made.info(4, name="empty"), np.arange(0), np.empty(0, np.int32))
    return made.run([made.step(0, [early, constant, single, closed, empty])])


# --- files ---------------------------------------------------------------------------------------


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
