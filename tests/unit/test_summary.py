# SPDX-License-Identifier: Apache-2.0
"""The short report: its sections in order, their tables and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import report_runs as made
from rtgauge import stream
from rtgauge.report import Source
from rtgauge.report.document.blocks import (
    Block,
    Bullets,
    Callout,
    Command,
    Document,
    Facts,
    Figure,
    Heading,
    Section,
    Table,
    plain_line,
)
from rtgauge.report.document.summary import short
from rtgauge.report.render import terminal
from rtgauge.report.results import model
from rtgauge.report.results.labels import runs_text
from rtgauge.text import plain


def of(*runs: Any) -> Document:
    return short(model.analyse(list(runs)))


def within(blocks: tuple[Block, ...]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Section | Callout):
            yield from within(block.blocks)


def chaptered() -> Any:
    """The evaluation of the other tests, whose measurements have chapters."""
    run = made.evaluation(2, 3000)
    chapters = {"timer": "Timer latency", "round-robin": "Threads", "clock-cost": "Calibration"}
    entries = [one | {"chapter": chapters[one["name"]]} for one in made.CATALOGUE["measurements"]]
    run.document["catalogue"] = made.CATALOGUE | {"measurements": entries}
    return run


@pytest.mark.slow
def test_the_sections_stand_in_order() -> None:
    document = of(chaptered())
    assert [(one.title, one.page) for one in document.sections] == [
        ("Answer", True),
        ("Summary", True),
        ("Timer latency", True),
        ("Calibration", True),  # all of "Threads" was skipped
        ("System", False),
    ]
    assert document.title == "Real-time evaluation of local"
    assert "bench board" in document.subtitle
    assert "2026-11-21 10:00:00 UTC" in document.subtitle
    assert "PREEMPT_RT" in document.subtitle
    assert "load: idle and sched (sched: messages)" in document.subtitle


@pytest.mark.slow
def test_several_runs_have_anchors_of_their_own() -> None:
    document = of(made.evaluation(1, 1000), made.evaluation(1, 1000))
    anchors = [one.anchor for one in document.sections]
    assert len(set(anchors)) == len(anchors)
    assert {"r1-answer", "r2-answer"} <= set(anchors)


@pytest.mark.slow
def test_the_summary_has_the_system_a_row_for_each_step_and_what_is_missing() -> None:
    summary = of(chaptered()).sections[1]
    facts = next(block for block in summary.blocks if isinstance(block, Facts))
    assert {"Kernel", "Load", "Length"} <= {one.name for one in facts.items}
    tables = [block.grid for block in summary.blocks if isinstance(block, Table)]
    figures, _, lacking = tables
    assert [row.name for row in figures.rows] == [
        "timer: latency",
        "timer: latency",
        "clock-cost: cost",
    ]
    assert [row.name for row in lacking.rows] == ["round-robin"] and not lacking.title
    assert lacking.rows[0].cells[1].text == "No right to use real-time priorities"
    heads = [block.text for block in summary.blocks if isinstance(block, Heading)]
    assert heads == ["Strengths", "Concerns", "Steps without a valid result"]


@pytest.mark.slow
def test_the_rows_of_a_terminal_say_whose_median_they_have() -> None:
    document = model.build([chaptered()])
    series = [one for one in document["runs"][0]["series"] if one["step"] == 0]
    assert len(series) > 1
    for at, one in enumerate(series):
        one["max"], one["percentiles"] = 9000 - at, {"50": 1000 * (at + 1)}
    words = " ".join(terminal.text(document, 80).split())
    assert " timer latency 1.00 µs 9.00 µs " in words
    assert "The median is that of the series with the max." in words


@pytest.mark.slow
def test_a_chapter_has_its_quantities_and_a_picture() -> None:
    chapter = of(chaptered()).sections[2]
    grid = next(block.grid for block in chapter.blocks if isinstance(block, Table))
    assert [row.name for row in grid.rows] == [
        "timer: latency",
        "timer: latency, load sched",
    ]
    samples = [plain(row.cells[0].text) for row in grid.rows]
    assert samples[0] == "6 000"
    (figure,) = [block for block in chapter.blocks if isinstance(block, Figure)]
    assert "Idle: max" in figure.text
    assert "load sched: max" in figure.text


@pytest.mark.parametrize(("gaps", "name"), [({}, "hardware"), ({"unseen_gaps": "hardware"}, "irq")])
def test_a_picture_of_gaps_shows_the_cause_of_the_longest(gaps: dict[str, str], name: str) -> None:
    """All steps show the same cause, so that the loads can be compared."""
    steps = []
    for step, top in enumerate((1000, 9000)):
        series = [
            made.sampled(
                np.full(300, value, np.int32),
                number,
                name=cause,
                interval_ns=0,
                due=np.arange(300, dtype=np.int64) * made.MS,
            )
            for number, (cause, value) in enumerate({"hardware": 2000, "irq": top}.items())
        ]
        steps.append(made.step(step, series, "noise", load=("idle", "sched")[step]))
    run: Any = made.run(steps, findings=[])
    entry = {**made.CATALOGUE["measurements"][0], "name": "noise", "series": [], **gaps}
    run.document["catalogue"] = made.CATALOGUE | {"measurements": [entry]}
    (figure,) = [one for one in within(of(run).sections) if isinstance(one, Figure)
                 and one.title.startswith("noise: ")]  # fmt: skip
    assert figure.title == f"noise: {name}"
    assert "Idle: max" in figure.text and "load sched: max" in figure.text


def test_a_chapter_counts_lost_samples() -> None:
    kept = np.concatenate([np.arange(100), np.arange(140, 300)])
    for lost, counts in (((), None), (((100, 40, 9000),), ["40", "0"])):
        series = made.FakeSeries(made.info(), kept, kept.astype(np.int32) + 900, lost=lost)
        other = made.FakeSeries(made.info(), kept, kept.astype(np.int32) + 900)
        run = made.run([made.step(0, [series]), made.step(1, [other], load="sched")])
        (grid,) = [
            block.grid
            for section in of(run).sections
            for block in section.blocks
            if isinstance(block, Table) and block.grid.label == "Quantities"
        ]
        assert ("Lost" in grid.heads) == bool(lost)
        if counts is not None:
            at = grid.heads.index("Lost") - 1
            assert [row.cells[at].text for row in grid.rows] == counts
        assert {len(row.cells) for row in grid.rows} == {len(grid.heads) - 1}


def test_tables_of_several_runs_count_lost_samples_and_repeat_no_head() -> None:
    kept = np.concatenate([np.arange(100), np.arange(140, 300)])
    runs: list[Any] = []
    for number, lost in enumerate(((), ((100, 40, 9000),))):
        series = made.FakeSeries(made.info(), kept, kept.astype(np.int32) + 900, lost=lost)
        identity = {"id": f"0192f0c4-6d1e-7aaa-8000-00000000000{number}", "boot_id": str(number)}
        runs.append(made.run([made.step(0, [series])], target=f"ssh://board{number}", **identity))
    source = Source(runs)
    document = short(source.analysis, source.comparison)
    grids = [one.grid for one in within(document.sections) if isinstance(one, Table)]
    latency = next(grid for grid in grids if grid.label.startswith("Timer: latency"))
    at = latency.heads.index("Lost") - 1
    assert [row.cells[at].text for row in latency.rows] == ["0", "40"]
    first = short(source.analysis).sections[0]
    listed = next(one.grid for one in within(first.blocks) if isinstance(one, Table))
    at = listed.heads.index("Observed maximum") - 1
    assert [plain(row.cells[at].text)[:8] for row in listed.rows] == ["1.20 us ", "9.00 us "]


@pytest.mark.parametrize(
    ("length", "text"), [(3.0, "run of 3 s"), (4.0, "sampled for 3 s in a run of 4 s")]
)
def test_the_length_of_the_samples_is_said_if_the_run_was_longer(length: float, text: str) -> None:
    values = np.arange(3000, dtype=np.int32) + 900
    run = made.run([made.step(0, [made.sampled(values)])])
    run.document["duration_s"] = length
    parts = plain(of(run).subtitle).split("; ")
    assert text in parts


def test_a_failed_test_is_on_the_page_of_its_chapter() -> None:
    tests = [stream.Verdict(0, "order", "fail", "low came first", "use another lock")]
    document = of(made.run([made.step(0, [], "rules", verdicts=tests)]))
    (chapter,) = [one for one in document.sections if one.anchor.startswith("page-")]
    (bullets,) = [block for block in chapter.blocks if isinstance(block, Bullets)]
    said = "".join(span.text for span in bullets.items[0][0])
    assert said == "rules (step 1): order. Low came first. Use another lock."


def test_an_empty_run_has_an_answer_and_a_summary() -> None:
    titles = [one.title for one in of(made.run([], findings=[])).sections]
    assert titles == ["Answer", "Summary"]
    assert all(isinstance(block, Callout) for block in of(made.run([])).sections[0].blocks[:1])
    assert list(within(of(made.run([])).sections))


def side_by_side(*tops: int) -> Document:
    """The same measurement on systems with other tails, idle and under load."""
    runs: list[Any] = []
    for number, top in enumerate(tops):
        steps = []
        for at, load in enumerate(("idle", "sched")):
            values = np.full(20_000, 4000, np.int32)
            values[::50] = top * 1000 * (at + 1)
            series = made.sampled(values)
            steps.append(made.step(at, [series], load=load))
        identity = {"id": f"0192f0c4-6d1e-7aaa-8000-00000000000{number}", "boot_id": str(number)}
        runs.append(made.run(steps, target=f"ssh://board{number}", **identity))
    source = Source(runs)
    return short(source.analysis, source.comparison)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tops", "end"),
    [
        (
            (20, 50),
            "40.0 us on A (ssh://board0) and 100 us on B (ssh://board1): no difference is proven",
        ),
        (
            (50, 20),
            "100 us on A (ssh://board0) and 40.0 us on B (ssh://board1): no difference is proven",
        ),
        (
            (20, 20),
            "40.0 us on A (ssh://board0) and 40.0 us on B (ssh://board1): no difference is proven",
        ),
    ],
)
def test_a_comparison_begins_with_its_conclusion_under_load(
    tops: tuple[int, int], end: str
) -> None:
    first = side_by_side(*tops).sections[0]
    assert first.title == "Comparison"
    box = first.blocks[0]
    assert isinstance(box, Callout)
    said = plain(box.title).replace("\u00d7", "x")
    assert said == f"Under load sched, 99.9 % of the timer's latency samples stay within {end}"
    sides, measured, cause = box.blocks
    assert isinstance(sides, Bullets)
    words = [plain(plain_line(said)) for said, _ in sides.items]
    assert [one.partition(", ")[0] for one in words] == ["A: ssh://board0", "B: ssh://board1"]
    for one, top in zip(words, tops, strict=True):
        assert "1 boot. Too late for cycles of" in one
        assert f"Observed maximum {2.0 * top:.1f} us (CPU 0, " in one.replace("100 us", "100.0 us")
    assert "do not decide which system is better" in repr(measured)
    assert "B: " in repr(cause) or tops[0] >= tops[1]
    figure = next(block for block in first.blocks if isinstance(block, Figure))
    assert "A (ssh://board0)" in figure.svg
    titles = [block.grid.title for block in first.blocks if isinstance(block, Table)]
    assert "load sched" in titles[0]
    assert "Runs" not in titles and titles[-1].startswith("Bounds")


@pytest.mark.slow
def test_several_runs_of_one_system_begin_with_their_answers() -> None:
    source = Source([made.evaluation(1, 1000), made.evaluation(1, 1000)])  # type: ignore[list-item]
    first = short(source.analysis, source.comparison).sections[0]
    table, together = first.blocks
    assert isinstance(table, Table) and isinstance(together, Table)
    assert together.grid.title.startswith("Bounds")
    assert [row.name for row in table.grid.rows] == ["Run 1", "Run 2"]
    assert table.grid.rows[0].cells[2].text.startswith("Not ")


def test_why_systems_are_not_compared() -> None:
    first = short(model.analyse([]), "Measured in real time by the lab.").sections[0]
    box = first.blocks[0]
    assert isinstance(box, Callout)
    assert (box.tone, box.title) == ("warn", "The systems are not compared")


@pytest.mark.parametrize(
    ("lengths", "text"),
    [
        ((13.0, 13.0), "2 runs of timer, each 13 s with its set-up"),
        ((13.0, 75.0), "2 runs of timer, each 13 s to 1 min 15 s with its set-up"),
        ((None, None), "2 runs of timer"),
    ],
)
def test_several_runs_say_what_was_measured_and_for_how_long(
    lengths: tuple[float | None, ...], text: str
) -> None:
    step = {"step": 0, "role": "measurement", "measurement": "timer", "chapter": ""}
    runs: list[dict[str, object]] = [
        {"steps": [step], "series": [], "duration_s": length, "boot_id": "b"} for length in lengths
    ]
    # a target that was not reached: its run has no length
    lost = {**runs[0], "duration_s": 0.0, "boot_id": "", "target": "ssh:board", "environment": {}}
    more = runs_text([*runs, lost]).replace("\u202f", " ")
    assert more == text.replace("2 runs", "3 runs")
    assert runs_text(runs).replace("\u202f", " ") == text


@pytest.mark.slow
def test_commands_of_remedies_are_below_the_table_of_findings() -> None:
    command = "sysctl -w kernel.sched_rt_runtime_us=-1"
    findings = [
        {
            "check": check,
            "found": "x",
            "level": "warning",
            "why": "y",
            "remedy": remedy,
            "command": named,
        }
        for check, remedy, named in (
            ("throttling", command, command),
            ("swap", "add memory", ""),
            ("smt", command, command),
        )
    ]
    run = made.evaluation(1, 1000)
    run.document["findings"] = findings
    system = next(one for one in of(run).sections if one.title == "System")
    table, commands = system.blocks[:2]
    assert isinstance(table, Table) and isinstance(commands, Bullets)
    remedies = [row.cells[-1].text for row in table.grid.rows]
    assert remedies == ["the command below", "add memory", "the command below"]
    ((names, below),) = commands.items
    assert (plain_line(names), below) == ("Throttling and Smt", (Command(command),))
