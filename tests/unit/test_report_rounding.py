# SPDX-License-Identifier: Apache-2.0
"""Rounded figures agree with the verdict, the limit or the figure next to them."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import report_runs as made
from answers import built, latency
from rtgauge.report.document.blocks import Paragraph, Table, plain_line
from rtgauge.report.document.compared import ratio, verdict_cells
from rtgauge.report.document.conclusion import comparison_section
from rtgauge.report.document.summary import _figures, _quantities, short, summary
from rtgauge.report.document.tables import Grid, figures_table
from rtgauge.report.document.views import views
from rtgauge.report.pictures import scales
from rtgauge.report.render import html, junit, ktap, markdown, terminal
from rtgauge.report.results import model
from rtgauge.report.sets import compare
from rtgauge.report.sets.compare import RunSet
from rtgauge.stream import Verdict
from rtgauge.text import plain, probability


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"), (0.0, "×0.00"), (0.0034, "×0.00340"), (1e-9, "×0.00000000100"),
        (0.0996, "×0.0996"), (0.1, "×0.10"), (0.9973, "×0.997"), (0.99996, "×0.99996"),
        (1.0, "×1.00"), (1.0000000002, "×1.00"), (1.0004, "×1.0004"), (4.7, "×4.70"),
        (12.34, "×12.3"), (123.4, "×123"),
    ],
)  # fmt: skip
def test_a_ratio_is_told_from_none_and_from_one(value: float | None, text: str) -> None:
    assert ratio(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0996, "×1.0996"),
        (1.1, "×1.10"),
        (1.1004, "×1.1004"),
        (1.02, "×1.02"),
        (0.9999, "×0.9999"),
    ],
)
def test_the_end_of_an_interval_is_told_from_the_margin(value: float, text: str) -> None:
    assert ratio(value, 1.1) == text


def decided(**more: Any) -> str:
    row = {"set": 0, "count": 1000, "runs": []}
    quantity = {"name": "timer", "unit": "ns", "tail": "99.9", "rows": [row, {**row, "set": 1}]}
    one = {
        "quantity": 0, "set": 1, "statistic": "50", "ratio": 1.05, "interval": [1.0, 1.1004],
        "p_adjusted": 0.2, "beyond": False, "verdict": "not decided", "needed": None,
        "runs": [6, 6], "matched": True, **more,
    }  # fmt: skip
    document = {
        "sets": [{"letter": "A", "boots": 1}, {"letter": "B", "boots": 1}],
        "within": 0.1,
        "quantities": [quantity],
    }
    return plain(" ".join(verdict_cells(document, one)))


def test_figures_of_a_verdict_do_not_contradict_it() -> None:
    assert "[1.00, 1.1004]" in decided()
    assert "[0.9089, 1.02]" in decided(interval=[0.9089, 1.02])
    assert "p 0.2, 6 blocks: not decided" in decided()
    assert "p 0.0504, 6 blocks: not decided" in decided(p_adjusted=0.0504)
    assert "p 0.0496, 6 blocks: B is worse" in decided(p_adjusted=0.0496, verdict="worse")
    assert "p 0.05, 6 blocks: B is worse" in decided(p_adjusted=0.05, verdict="worse")


@pytest.mark.slow
def test_a_comparison_counts_the_quantities_without_a_table() -> None:
    series = [latency(20, labels={"method": f"m{at}"}) for at in range(8)]
    series = [replace(one, info=replace(one.info, series=at)) for at, one in enumerate(series)]
    runs: list[Any] = [
        made.run(
            [made.step(0, series)], id=f"0192f0c4-6d1e-7aaa-8000-00000000000{number}",
            target=f"board{number}", boot_id=f"boot{number}", findings=[],
        )
        for number in range(2)
    ]  # fmt: skip
    analysis = model.analyse(runs)
    found = compare.compare(analysis, [RunSet(f"board{at}", (at,)) for at in range(2)])
    blocks = comparison_section(found, analysis).blocks
    assert len(found.document["quantities"]) == 8
    said = [plain_line(one.text) for one in blocks if isinstance(one, Paragraph)]
    assert "The JSON document has 2 more quantities." in said


@pytest.mark.slow
def test_a_summary_counts_the_maxima_that_it_leaves_out() -> None:
    steps = [made.step(at, [latency(20)], load=f"load{at}") for at in range(10)]
    run: Any = made.run(steps, findings=[])
    (part,) = views(model.analyse([run])).runs
    assert (len(part["cards"]), part["cards_left"]) == (8, 2)


def test_a_card_has_the_weakest_claim_of_its_series() -> None:
    """The series with the highest maximum has the most samples, and so the best claim."""
    run: Any = made.run([made.step(0, [latency(20, 8000), latency(9, 1000, 1)])], findings=[])
    analysis = model.analyse([run])
    (card,) = views(analysis).runs[0]["cards"]
    bounds = [one["bound"]["probability"] for one in analysis.model["runs"][0]["series"]]
    assert bounds[1] > bounds[0]
    said = plain(card["more"])
    assert said.startswith("9 000 wake-ups in 8 s. 95 % sure: at most ")
    assert f"at most {plain(probability(bounds[1]))} further wake-ups of each series" in said


def test_maxima_in_every_format_are_told_from_the_budget() -> None:
    series = latency(150)
    series.value[5000] += 1
    run: Any = made.run([made.step(0, [series], budget_ns=150_000)], findings=[])
    analysis = model.analyse([run])
    said = plain(markdown.render(short(analysis)))
    rows = [line for line in said.splitlines() if line.startswith("|") and " 150" in line]
    assert len(rows) == 3  # of the figures, the bounds and the chapter
    assert all("150.001" in line for line in rows)
    assert "max 150 us" not in said and said.count("max 150.001 us") == 2  # of the figures
    assert "max 150.001" in plain(ktap.render(analysis.model))
    assert "max 150.001" in plain(junit.render(analysis.model))
    (part,) = views(analysis).runs
    assert "150.001" in terminal.text(analysis.model, 100).split("latency (")[1]
    (group,) = part["steps"][0]["groups"]
    assert "150.001" in [cell.text for cell in group["table"].rows[0].cells]
    assert "over 10 s is 150.001 us." in plain(group["sentences"][0])


def interval_of(low: int, high: int) -> str:
    one: dict[str, Any] = built(made.run([made.step(0, [latency(90)])], findings=[]))["series"][0]
    one["percentile_ci"] = {"50": [low, high]}
    grid: Grid = figures_table([one], ["x"], [""], "ns")
    (cell,) = [cell for cell in grid.rows[0].cells if cell.note]
    return plain(cell.note)


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((5000, 5000), "+-0"),
        ((150_001, 150_400), "150.001 to 150.4"),
        ((5000, 6000), "5.00 to 6.00"),
    ],
)
def test_only_an_interval_without_width_is_zero(ends: tuple[int, int], text: str) -> None:
    assert interval_of(*ends).replace(" 0", "0") == text


@pytest.mark.parametrize(
    ("low", "high"), [(0.1234, 0.1236), (0.01, 0.0100004), (5.00001, 5.00002), (-0.5, 0.5)]
)
def test_every_tick_has_a_label_of_its_own(low: float, high: float) -> None:
    scale = scales.Scale("linear", low, high)
    labels = [scales.tick(value) for value in scale.ticks(5)]
    assert len(labels) > 2
    assert len(set(labels)) == len(labels)


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_the_page_labels_ticks_as_paper_does() -> None:
    script = Path(scales.__file__).parents[1] / "render/static/report.js"
    text = script.read_text("utf-8")
    part = text[text.index("const NARROW") : text.index("const SUP")]
    values = [0.0, 0.3, 0.12341, -0.5, 1.0, 1.5, 1_234_567.8, 12_345.0, 0.1 + 0.2]
    done = subprocess.run(
        ["node", "-e", f"{part}\nconsole.log({values!r}.map(tick).join('|'))"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.strip().split("|") == [scales.tick(value) for value in values]


@pytest.mark.parametrize(
    ("results", "text"),
    [
        (("pass", "pass"), "2 passed"),
        (("pass", "known"), "1 passed, 1 known limitation"),
        (("pass", "known", "inconclusive"), "1 of 3 passed, 1 known limitation, 1 inconclusive"),
        (("fail", "inconclusive", "pass"), "1 of 3 failed, 1 inconclusive"),
        (("pass", "skipped"), "1 passed, 1 skipped"),
        (("pass", "inconclusive", "skipped"), "1 of 2 passed, 1 inconclusive, 1 skipped"),
        (("fail", "pass", "skipped"), "1 of 2 failed, 1 skipped"),
        (("skipped",), "1 skipped"),
    ],
)
def test_the_summary_counts_tests_of_every_result(results: tuple[str, ...], text: str) -> None:
    analysis = model.analyse([_tested(results)])
    for test, result in zip(analysis.model["runs"][0]["tests"], results, strict=True):
        test["known_limitation"] = "of this C library" if result == "known" else None
    tables = [block.grid for block in summary(analysis, 0)[0].blocks if isinstance(block, Table)]
    (grid,) = [grid for grid in tables if grid.title == "Figures"]
    assert plain(grid.rows[0].cells[-1].text) == text


def _tested(results: tuple[str, ...]) -> Any:
    verdicts = [
        Verdict(at, f"rule {at}", "fail" if result == "known" else result, "seen", "")
        for at, result in enumerate(results)
    ]
    return made.run([made.step(0, [latency(90)], verdicts=verdicts)], findings=[])


@pytest.mark.slow
def test_numbers_of_series_have_their_thousands_apart() -> None:
    values = np.array([900, 1000], np.int32)
    series = [made.sampled(values, at, labels={"thread": str(at)}) for at in range(1001)]
    run: Any = made.run([made.step(0, series, budget_ns=5000)])
    analysis = model.analyse([run])
    page, shown = html.render(analysis), terminal.text(analysis.model)
    for text in (page, shown):
        assert not re.search(r"\b1001 (of|series)|of 1001\b|>1001<", text)
        assert "all 1 001 series" in " ".join(text.replace("\u202f", " ").split())
    assert "of 1\u202f001 series" in page


@pytest.mark.parametrize(("typical", "noted"), [(-2, True), (0, True), (-7, False), (20, False)])
def test_a_duration_of_zero_is_said_to_be_below_the_resolution(typical: int, noted: bool) -> None:
    values = np.full(200, typical, np.int32)
    info = made.info(interval_ns=0, stamp_ns=22, name="lock")
    series = made.FakeSeries(info, np.arange(200), values, due=np.arange(200) * made.MS)
    document = model.build([made.run([made.step(0, [series], "sem-lock")])])  # type: ignore[list-item]
    words = "0 or 0.00: below the resolution of the time stamps"
    (one,) = document["runs"][0]["series"]
    assert (words.replace(":", " ") in terminal.text(document, 80)) is noted
    table = figures_table([one], ["CPU 0"], [""], "ns")
    assert (f"{words}." in table.caption) is noted
    assert any(cell.text in ("0", "0.00") for cell in table.rows[0].cells[:2]) is noted
    grid = _quantities(document["runs"][0], document["runs"][0]["steps"])
    assert grid is not None and (f"{words}." in grid.caption) is noted
    assert (f"{words}." in _figures(document["runs"][0]).caption) is noted


@pytest.mark.parametrize("noted", [True, False])
def test_an_evaluation_notes_the_resolution_only_for_the_medians_that_it_shows(noted: bool) -> None:
    document = model.build([made.evaluation(2, 3000)])  # type: ignore[list-item]
    series = document["runs"][0]["series"]
    for step in document["runs"][0]["steps"]:
        step["chapter"] = f"chapter {step['step']}"
    one = max((one for one in series if one["step"] == 0), key=lambda one: one["max"])
    low = {"stamp_ns": 22, "percentiles": {**one["percentiles"], "50": -2}}
    if noted:
        one.update(low)
    else:
        series.append({**one, "name": "other", **low})
    assert ("below the resolution" in terminal.text(document, 80)) is noted
