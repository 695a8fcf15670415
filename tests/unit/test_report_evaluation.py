# SPDX-License-Identifier: Apache-2.0
"""The report on an evaluation: chapters, pictures against a number, orders of events."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import report_runs as made
from report_pages import HOSTILE, Page
from rtgauge import stream
from rtgauge.report import pictures
from rtgauge.report.document.answer import answer_of
from rtgauge.report.document.summary import short
from rtgauge.report.render import html, junit, ktap, markdown, terminal
from rtgauge.report.results import model, sequences
from rtgauge.text import GAP
from test_report_browser import browser, drawn

__all__ = ["browser"]

CHAPTERS = ("Clock", "Threads", "Semaphores")


def _loops(values: np.ndarray[Any, Any], loop: int) -> np.ndarray[Any, Any]:
    began = np.concatenate(([0], np.cumsum(values[:-1] + 200)))
    return np.repeat(began[::loop], loop)[: len(values)]


def _series(number: int, label: int, count: int, name: str = "switch") -> made.FakeSeries:
    random = np.random.default_rng(number)
    values = random.normal(1500 + 5 * label, 40, count).astype(np.int64)
    values[count // 2 + 7] = 9000 + label
    info = made.info(number, name=name, interval_ns=0, labels={"threads": str(label)})
    due = _loops(values, 50)
    return made.FakeSeries(info, np.arange(count), values, due=due, chunk_rows=10**6)


def _order(*rows: tuple[str, int, str, str]) -> stream.Table:
    columns = (
        stream.Column("rule", ""), stream.Column("time", "ns"),
        stream.Column("thread", ""), stream.Column("event", ""),
    )  # fmt: skip
    return stream.Table(0, "order", columns, rows)


def evaluation(steps: int = 6, series: int = 4, count: int = 2000) -> made.FakeRun:
    """Steps of three chapters; the last one of each judges an order of events."""
    catalogue = {
        "measurements": [
            {"name": f"m{at}", "chapter": CHAPTERS[at * 3 // steps], "summary": f"measurement {at}"}
            for at in range(steps)
        ]
    }
    found = []
    for at in range(steps):
        result = "fail" if at == 1 else "pass"
        found.append(
            made.step(
                at,
                [_series(k, (2, 10, 128, 1000, 40, 90)[k], count) for k in range(series)],
                f"m{at}",
                tables=[_order(
                    ("in turn", 0, "low", "waits"), ("in turn", 2500, "high", "waits"),
                    ("in turn", 12_300, "high", "runs"),
                )],
                verdicts=[stream.Verdict(0, "in turn", result, "low, high", "")],
            )
        )  # fmt: skip
    plan = {"ratings": [{"subject": "documentation", "rating": 8, "reason": "complete"}]}
    return made.run(found, catalogue=catalogue, plan=plan)


def _model(run: made.FakeRun) -> dict[str, Any]:
    document = made.built(run)
    return document


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(html.render(model.analyse(cast(Any, [evaluation()]))))


@pytest.mark.slow
def test_steps_stand_in_chapters_without_a_score(page: Page) -> None:
    anchors = [a["id"] for _, a in page.tags if a.get("id")]
    parts = [one for one in anchors if one and re.fullmatch("chapter-[0-9]|step-[0-9]", one)]
    assert parts == [
        "chapter-1", "step-1", "step-2", "chapter-2", "step-3", "step-4",
        "chapter-3", "step-5", "step-6",
    ]  # fmt: skip
    linked = {a["href"] for t, a in page.tags if t == "a" and a.get("href")}
    assert {f"#{one}" for one in parts} <= linked
    assert {one[1:] for one in linked if one} <= set(anchors)
    assert "documentation 8 of 10 complete" in page.text
    assert page.text.count("of 10 ") == 1


def test_one_chapter_is_none() -> None:
    run = evaluation(2, 1, 100)
    for one in run.document["catalogue"]["measurements"]:
        one["chapter"] = "Threads"
    text = html.render(model.analyse(cast(Any, [run])))
    assert 'id="chapter-' not in text and 'class="toc"' not in text


@pytest.mark.slow
def test_skipped_tests_are_counted_beside_those_that_passed() -> None:
    run = evaluation(3, 1, 100)
    results = ("pass", "pass", "skipped")
    run.steps[2].verdicts = [
        stream.Verdict(at, f"rule {at}", result, "", "") for at, result in enumerate(results)
    ]
    lines = terminal.text(_model(run)).splitlines()
    (row,) = [one for one in lines if one.startswith(" 3 m2")]
    assert row.endswith(" 2 pass 1 skipped")
    many = ["inconclusive"] * 3 + ["pass"] * 12 + ["skipped"] * 2
    run.steps[2].verdicts = [
        stream.Verdict(at, f"rule {at}", result, "", "") for at, result in enumerate(many)
    ]
    lines = terminal.text(_model(run)).splitlines()
    (at,) = [at for at, one in enumerate(lines) if one.startswith(" 3 m2")]
    assert lines[at].endswith(" 3 inconclusive") and lines[at + 1].endswith(" 12 pass 2 skipped")


def test_a_quantity_stands_against_its_number(page: Page) -> None:
    data = page.data["step-1-q0"]["against"]
    assert (data["label"], data["lines"]) == ("threads", [""])
    assert data["x"] == [[2, 10, 128, 1000]]
    assert data["high"] == [[9002, 9010, 9128, 10_000]]
    assert [m > t for m, t in zip(data["tail"][0], data["middle"][0], strict=True)] == [True] * 4
    kinds = [a["data-kind"] for _, a in page.tags if a.get("data-kind")]
    assert kinds.count("against") == 6


def test_what_has_no_number_stands_against_none() -> None:
    def one(label: str) -> dict[str, Any]:
        return {
            "labels": {"n": label},
            "cpu": 0,
            "min": 1,
            "max": 9,
            "max_at_least": None,
            "percentiles": {},
        }

    assert pictures.against([one("1"), one("2"), one("many")]) is None
    assert pictures.against([one("1"), one("2")]) is None
    assert pictures.against([{**one("1"), "labels": {}}] * 3) is None
    found = pictures.against([one("4"), one("10"), one("2")])
    assert found is not None
    assert found["x"] == [[2, 4, 10]]  # as numbers
    assert pictures.against([{**one(n), "min": None} for n in "123"]) is None
    empty = pictures.against([{**one(n), "max": None} for n in "123"])
    assert empty is None


@pytest.mark.study(96)
def test_the_loop_of_the_largest_is_shown_whole(page: Page) -> None:
    window = page.data["step-1-q0"]["window"]
    assert window["loops"] is True
    around = window["around"][3]
    assert around["at"] == 7  # 1007 = 20 loops of 50, and seven
    run = evaluation(1, 1)
    (figures,) = model.analyse(cast(Any, [run])).figures[0].values()
    assert figures.around is not None
    assert len(figures.around.value) == 50
    true = np.cumsum(run.steps[0].series[0].value[1000:1050] + 200)
    placed = figures.around.due_ns - figures.around.due_ns[0]
    assert np.abs(placed[1:] - true[:-1]).max() < 5000


@pytest.mark.slow
def test_the_order_of_events_is_drawn_with_its_verdict(page: Page) -> None:
    run = _model(evaluation())["runs"][0]
    (one,) = sequences.sequences(run, 1)
    assert (one.rule, one.result, list(one.lanes)) == ("in turn", "fail", ["low", "high"])
    assert [(e.lane, e.time, e.what) for e in one.events] == [
        (0, "0", "waits"), (1, "2.50", "waits"), (1, "12.3", "runs"),
    ]  # fmt: skip
    shown = [a.get("aria-label") for t, a in page.tags if t == "svg"]
    assert "low waits at 0\u202fµs, high waits at 2.50\u202fµs, high runs at 12.3\u202fµs" in shown


def test_hostile_events_stay_text() -> None:
    run = evaluation(1, 1, 100)
    run.steps[0].tables = [_order((HOSTILE, 0, HOSTILE, HOSTILE), ("r", 5, "", ""))] * 2
    run.document["plan"] = {"ratings": [{"subject": HOSTILE, "rating": 3, "reason": HOSTILE}]}
    found = Page(html.render(model.analyse(cast(Any, [run]))))
    assert not any(name.startswith("on") for _, a in found.tags for name in a)
    assert len(found.blocks["script"]) == 3


def test_other_tables_are_no_order() -> None:
    columns = [{"name": name, "unit": ""} for name in ("rule", "time", "thread", "event")]
    assert not sequences.is_sequence({"columns": columns})


@pytest.mark.slow
def test_the_pictures_are_drawn(browser: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(html.render(model.analyse(cast(Any, [evaluation()]))), encoding="utf-8")
    page, console = drawn(browser, path, tmp_path)
    assert "pictures: ok" in page.text
    assert [a for _, a in page.tags if a.get("id") == "selfcheck" and "hidden" in a]
    assert console == ""


@pytest.mark.slow
def test_thirty_steps_stay_small() -> None:
    run = evaluation(30, 6, 2000)
    assert len(html.render(model.analyse(cast(Any, [run]))).encode()) < 3_000_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("skipped", "where"),
    [
        ((0, 1), "1 to 2 (m0, m1):"),
        ((1,), "2 m1:"),
        ((0, 2), "1, 3 (m0, m2):"),
        ((0, 1, 2, 3, 5), "1 to 4, 6 (m0, m1, m2, …):"),
    ],
)
def test_the_terminal_says_a_reason_once(skipped: tuple[int, ...], where: str) -> None:
    document = _model(evaluation(9))
    for at in skipped:
        document["runs"][0]["steps"][at] |= {"state": "skipped", "reason": "no right to it"}
    words = " ".join(terminal.text(document).split())
    assert words.count("no right to it") == 1
    assert f"{where} skipped: no right to it" in words


@pytest.mark.slow
@pytest.mark.parametrize("width", [60, 80])
def test_the_terminal_has_a_line_for_a_step(width: int) -> None:
    document = _model(evaluation())
    text = terminal.text(document, width)
    lines = text.splitlines()
    # a command is never broken, so that it can be copied
    assert all(len(line) <= width for line in lines if not line.lstrip().startswith("rtgauge "))
    assert set(CHAPTERS) <= {line.strip() for line in lines}
    assert text.count("of 10") == 1
    rows = [line for line in lines if re.match(r" \d m\d(?!:)", line)]
    assert len(rows) == 6
    assert all(re.search(r"\d µs( |$)", row) for row in rows)
    assert "2 m1: fail in turn: low, high" in text
    assert "documentation: 8 of 10 (complete)" in text
    assert re.search(r"median +max", text) if width == 80 else "median" not in text


@pytest.mark.slow
def test_the_terminal_ends_with_the_answer() -> None:
    """State, maximum, certainty, what limits the figures, and what to do next."""
    document = _model(evaluation())
    text = terminal.text(document)
    answer = answer_of(document["runs"][0])
    end = text[text.rindex("─" * 80) + 80 :]
    words = " ".join(end.split())
    order = [
        answer.title,
        "".join(span.text for span in answer.worst),
        "".join(span.text for span in answer.sure),
        answer.audit,
        "What to do next 1. ",
        *(action.text for action in answer.actions),
    ]
    places = [words.index(" ".join(part.replace(GAP, " ").split())) for part in order if part]
    assert places[0] == 0 and places == sorted(places) and len(places) > 4
    assert words.index(f"{len(answer.actions)}. ") and answer.actions
    for action in answer.actions:
        if action.command:
            assert action.command in [line.strip() for line in end.splitlines()]


@pytest.mark.slow
def test_other_formats_have_ratings_and_observations() -> None:
    document = _model(evaluation())
    text = markdown.render(short(model.analyse([evaluation()])))  # type: ignore[list-item]
    assert "## Threads" in text and "### Observations" in text
    assert re.search(r"\| documentation +\| 8 of 10 \| complete", text)
    assert "(step 3): Grows with threads: the median is" in text
    for one in (junit.render(document), ktap.render(document)):
        assert one.count("rating: ") == 1
        assert "rating: documentation 8 of 10, by the evaluator: complete" in one
        assert "observation: Grows with threads" in one
