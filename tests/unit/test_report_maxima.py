# SPDX-License-Identifier: Apache-2.0
"""Maxima in pictures, their legends and texts: a lower limit where events were not answered or
missed periods were later than all samples."""

from __future__ import annotations

import html
import itertools
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import report_runs as made
from answers import held_up, latency, text
from rtgauge.report.document.answer import answer_figure
from rtgauge.report.document.blocks import Bullets, Figure, Section
from rtgauge.report.document.conclusion import comparison_section
from rtgauge.report.document.drawn import drawn_views
from rtgauge.report.document.sides import sides
from rtgauge.report.document.summary import chapter_sections
from rtgauge.report.document.views import views
from rtgauge.report.pictures import figures
from rtgauge.report.pictures.distribution import Curve, axes_text, distribution
from rtgauge.report.pictures.drawing import FULL, HALF, Quantity, label_width
from rtgauge.report.pictures.figures import KINDS
from rtgauge.report.pictures.ranges import Range, ranges
from rtgauge.report.results import model
from rtgauge.report.sets import compare
from rtgauge.report.sets.compare import RunSet
from rtgauge.stats import Counts
from rtgauge.text import plain

LATE = "max >= 48 000 us"


def data_of(run: Any) -> dict[str, Any]:
    """What the pictures of the only quantity of a run are drawn from."""
    data: dict[str, Any]
    (data,) = views(model.analyse([run])).shared.data.values()
    return data


def drawn(data: dict[str, Any], kind: str) -> str:
    plot = KINDS[kind](Quantity(data), FULL, 150.0)
    assert plot is not None
    return plain(plot.svg())


def figure_of(section: Section) -> Figure:
    return next(one for one in section.blocks if isinstance(one, Figure) and "samples" in one.svg)


def test_pictures_of_chapters_and_steps_show_the_lower_limit_of_a_maximum() -> None:
    run: Any = made.run([made.step(0, [held_up()])], findings=[])
    (section,) = chapter_sections(model.analyse([run]), 0)
    figure = figure_of(section)
    assert LATE in plain(figure.text)
    assert LATE in plain(figure.svg)
    data = data_of(run)
    assert (data["max"], data["at_least"]) == ([48_000_000], [True])
    assert LATE in drawn(data, "histogram")
    assert LATE in drawn(data, "ccdf")
    assert "largest sample 5.00 us" in drawn(data, "time")
    assert "max 5" not in drawn(data, "time")


def test_pictures_of_chapters_mark_the_budget() -> None:
    """A maximum close above the budget has its digits, as in the table."""

    def figure(budget_ns: int) -> Figure:
        series = latency(150)
        series.value[0] = 150_040
        run: Any = made.run([made.step(0, [series], budget_ns=budget_ns)], findings=[])
        return figure_of(next(chapter_sections(model.analyse([run]), 0)))

    shown = figure(150_000)
    assert "budget 150 us" in plain(shown.svg) and "max 150.04 us" in plain(shown.svg)
    assert "max 150.04 us" in plain(shown.text)
    far = figure(10_000_000)
    assert "budget" not in far.svg
    assert plain(far.caption).endswith("The budget, 10 000 us, is far beyond the axis.")


def test_every_picture_has_a_maximum_that_was_lost() -> None:
    """The largest of the samples that the agent could not keep is known."""
    series = replace(latency(57), lost=((10_000, 1, 300_000),))
    run: Any = made.run([made.step(0, [series])], findings=[])
    analysis = model.analyse([run])
    figure = answer_figure(analysis, 0)
    assert figure is not None and "max 300 us" in plain(figure.text)
    assert "max 300 us" in plain(figure.svg)
    assert "max 300 us" in plain(figure_of(next(chapter_sections(analysis, 0))).svg)
    data = data_of(run)
    assert data["max"] == [300_000]
    assert all("max 300 us →" in drawn(data, kind) for kind in ("histogram", "ccdf"))
    assert "max shown 57.0 us" in drawn(data, "time")


def test_a_maximum_that_is_a_sample_is_named_so() -> None:
    data = data_of(made.run([made.step(0, [latency(57)])], findings=[]))
    assert (data["max"], data["at_least"]) == ([57_000], [False])
    assert all("max 57.0 us" in drawn(data, kind) for kind in ("histogram", "ccdf", "time"))


def test_the_last_answer_is_not_called_the_maximum_beside_unanswered_events() -> None:
    def said(gaps: tuple[tuple[int, int], ...]) -> str:
        series = replace(latency(57, 400, name="response"), gaps=gaps)
        return drawn(data_of(made.run([made.step(0, [series])], findings=[])), "persistence")

    assert "max 57.0 us" in said(())
    missing = said(((399, 1),))
    assert "slowest answer 57.0 us" in missing
    assert "max" not in missing


def test_values_against_an_option_show_the_lower_limit_of_a_maximum() -> None:
    series = [
        replace(held_up(), info=made.info(at, labels={"waiters": str(at)})) for at in (1, 2, 3)
    ]
    over = data_of(made.run([made.step(0, series)], findings=[]))["against"]
    assert over["high"] == [[48_000_000] * 3]
    assert over["at_least"] == [[True] * 3]


@pytest.mark.slow
def test_a_maximum_is_told_from_the_budget_that_it_rounds_to() -> None:
    series = latency(150)
    series.value[5000] += 1
    run: Any = made.run([made.step(0, [series], budget_ns=150_000)], findings=[])
    figure = answer_figure(model.analyse([run]), 0)
    assert figure is not None
    assert "max 150.001 us" in plain(figure.svg)
    assert "max 150.001 us. Budget 150 us" in plain(figure.text)
    data = data_of(run)
    assert all("150.001 us" in drawn(data, one) for one in ("histogram", "ccdf", "time", "around"))


def test_curves_are_told_apart_without_colour() -> None:
    counts = [Counts.from_arrays([np.array(row)]) for row in ([1000, 2000], [1500, 9000], [0, 5])]
    curves = [Curve(name, one) for name, one in zip(("idle", "sched", "net"), counts, strict=True)]
    svg = distribution(curves[:2], "ns", "latency")
    assert svg.count('stroke-dasharray="5 2.6"') == 2  # in the picture and in its key
    assert axes_text(curves[:2]) == "Both axes are logarithmic"
    assert axes_text(curves) == "The count axis is logarithmic"


@pytest.mark.parametrize("width", [HALF, 330.0])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "name",
    ["cpu", "scenario blocked", "load sched:groups=4,cpu", "CPU 0, clock CLOCK_MONOTONIC"],
)
def test_the_legend_has_all_names_in_full(name: str, number: int, width: float) -> None:
    """In rows, none of which reaches beyond the picture or into the next name. The picture is
    higher with more than two rows."""
    counts = Counts.from_arrays([np.array([1000, 2000])])
    names = [f"{name} {at}" for at in range(number)]
    svg = distribution([Curve(one, counts) for one in names], "ns", "latency", width=width)
    found = re.findall(r'x="([0-9.]+)" y="([0-9.]+)" [^>]*font-weight="600"[^>]*>([^<]*)<', svg)
    rows: dict[str, list[tuple[float, str]]] = {}
    for x, y, words in found:
        if words in names:
            rows.setdefault(y, []).append((float(x), words))
    assert sorted(words for row in rows.values() for _, words in row) == names
    for row in rows.values():
        for (x, words), (after, _) in itertools.pairwise([*row, (width + 19, "")]):
            assert x + label_width(words) < after - 19
    assert len(rows) == 1 or name != "cpu"
    alone = distribution([Curve("cpu", counts)], "ns", "latency", width=width)
    one, other = (float(re.findall(r'viewBox="0 0 [0-9.]+ ([0-9.]+)"', s)[0]) for s in (svg, alone))
    assert one - other == pytest.approx(11 * max(len(rows) - 2, 0))


def test_the_range_of_this_run_has_a_lower_limit_as_the_tables_do() -> None:
    bars = [Range("x", 1.0, None, 20.0, True, own, "g") for own in (True, False)]
    assert [words in plain(ranges(bars[:1])) for words in (">= 20.0", "> 20")] == [True, False]
    assert "> 20" in plain(html.unescape(ranges(bars[1:])))


@pytest.mark.slow
def test_a_side_of_a_comparison_shows_no_time_of_a_lower_limit() -> None:
    """The run with the highest maximum is that with the latest missed period."""
    steps = [[latency(20)], [latency(57)], [held_up()], [latency(90)]]
    runs: list[Any] = []
    for number, series in enumerate(steps):
        target = f"board{number > 1:d}"
        runs.append(
            made.run(
                [made.step(0, series)],
                id=f"0192f0c4-6d1e-7aaa-8000-00000000000{number}",
                target=target,
                boot_id=f"boot{number}",
                findings=[],
            )
        )
    analysis = model.analyse(runs)
    sets = [RunSet("board0", (0, 1)), RunSet("board1", (2, 3))]
    document = compare.compare(analysis, sets).document
    (bullets, *_) = sides(document, document["quantities"][0], analysis.model["runs"])
    assert isinstance(bullets, Bullets)
    first, second = (text(said) for said, _ in bullets.items)
    assert first.endswith("57.0 us (run 2, CPU 0, 5 s into the step)")
    assert second.endswith(">= 48 000 us (run 3, CPU 0)")


@pytest.mark.slow
@pytest.mark.parametrize("other", [30, 90])
def test_a_side_has_the_cause_of_its_own_quantity_alone(other: int) -> None:
    """The answer of a run is about its highest maximum, of any measurement."""
    runs: list[Any] = []
    for number in range(2):
        steps = [made.step(0, [latency(50 + number)])]
        steps.append(made.step(1, [latency(other, name="wake")], "cpu-wakeup"))
        name = f"0192f0c4-6d1e-7aaa-8000-00000000000{number}"
        runs.append(made.run(steps, id=name, target=f"board{number}", boot_id=name, findings=[]))
    analysis = model.analyse(runs)
    document = compare.compare(analysis, [RunSet(f"board{at}", (at,)) for at in range(2)]).document
    (quantity,) = [one for one in document["quantities"] if one["measurement"] == "timer"]
    late = [{"series": 0, "text": "Most recur.", "suspects": ["the tick"]}]
    for run in analysis.model["runs"]:
        found = {"rule": "second line", "text": "", "series": [0], "maxima": [], "late": late}
        run["steps"][0]["observations"] = [found]
    blocks = sides(document, quantity, analysis.model["runs"])
    assert ("B: the data do not show what caused the maximum" in repr(blocks)) is (other == 30)
    assert ("B: most recur." in repr(blocks)) is (other == 30)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("response", ("events without an answer", "events had no answer.")),
        ("latency", ("periods missed", "periods were missed.")),
    ],
)
def test_gaps_and_triangles_of_answers_are_events(name: str, words: tuple[str, str]) -> None:
    series = latency(57, 400, name=name)
    series.index[200:] += 3
    series.gaps = ((199, 3),)
    data = data_of(made.run([made.step(0, [series], "log-host")], findings=[]))
    below = drawn_views(data, 1, [], grid=True, answers=name == "response")
    said = {view["kind"]: view["caption"] for view in below}
    assert said["time"].endswith(f" Triangles: {words[0]} (filled, red).")
    assert any(caption.endswith(f"stay high. In gaps, {words[1]}") for caption in said.values())
    picture = figures.draw(data, {"kind": "time", "full": True, "caption": ""}, iter(()))
    assert picture is not None and f" Triangles: {words[0]} (filled)." in picture.caption


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [{"labels": {"method": "itimer"}}, {"labels": {"method": "x"}, "interval_ns": 500_000}]
)
def test_a_side_has_nothing_of_another_series_of_its_step(more: dict[str, Any]) -> None:
    """Series of one step may differ in their method or in their interval."""
    runs: list[Any] = []
    for number in range(3):
        own = latency(50 + number, labels={"method": "x"})
        other = latency(99 - 9 * number, cpu=1, **more)
        name = f"0192f0c4-6d1e-7aaa-8000-00000000000{number}"
        target = f"board{number > 0:d}"
        step = made.step(0, [own, other])
        runs.append(made.run([step], id=name, target=target, boot_id=name, findings=[]))
    analysis = model.analyse(runs)
    sets = [RunSet("board0", (0,)), RunSet("board1", (1, 2))]
    document = compare.compare(analysis, sets).document
    (quantity,) = [
        one
        for one in document["quantities"]
        if one["method"]["method"] == "x" and one["method"]["interval"].startswith("1")
    ]
    (bullets, *blocks) = sides(document, quantity, analysis.model["runs"])
    assert isinstance(bullets, Bullets)
    assert "52.0 us (run 3, CPU 0" in text(bullets.items[1][0])
    assert "do not show what caused" not in repr(blocks)


def five(loaded: made.FakeSeries) -> Figure:
    """The picture of a comparison of five systems, the last one with that series."""
    runs: list[Any] = []
    for number in range(5):
        series = loaded if number == 4 else latency(20 + number)
        runs.append(
            made.run(
                [made.step(0, [series])],
                id=f"0192f0c4-6d1e-7aaa-8000-00000000000{number}",
                target=f"board{number}",
                boot_id=f"boot{number}",
                findings=[],
            )
        )
    analysis = model.analyse(runs)
    sets = [RunSet(f"board{at}", (at,)) for at in range(5)]
    return figure_of(comparison_section(compare.compare(analysis, sets), analysis))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loaded", "top"), [(latency(90), "max 90.0 us"), (held_up(), LATE)], ids=["late", "held up"]
)
def test_of_five_systems_the_one_with_the_maximum_is_drawn(
    loaded: made.FakeSeries, top: str
) -> None:
    figure = five(loaded)
    said = plain(figure.svg)
    assert top in said
    assert "E (board4)" in said
    assert "A (board0)" not in said
    assert "Not drawn, because their maxima are lower: A (board0)." in plain(figure.caption)
