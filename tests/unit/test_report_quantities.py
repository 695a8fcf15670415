# SPDX-License-Identifier: Apache-2.0
"""Methods, steps and runs side by side: figures against brute force, and nothing ranked."""

from __future__ import annotations

import dataclasses
import itertools
import re
import shlex
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import report_runs as made
from answers import latency
from report_pages import inflated
from rtgauge import stats, stream
from rtgauge.report.document.blocks import Table
from rtgauge.report.document.comparison import RowTable, _parts
from rtgauge.report.document.summary import short
from rtgauge.report.document.views import views
from rtgauge.report.pictures import sketch
from rtgauge.report.render import html, markdown, terminal
from rtgauge.report.results import histogram, model
from rtgauge.report.sets import quantities
from rtgauge.text import plain

VALUES = st.lists(st.integers(-(2**40), 2**40), max_size=60)


def counts_of(values: list[int]) -> stats.Counts:
    return stats.Counts.from_arrays([np.array(values, np.int64)])


def tallied(rows: histogram.Histogram, values: list[int]) -> None:
    """Each bin holds what lies in it; bins rise and hold all."""
    for low, high, count in rows:
        assert count == sum(low <= value <= high for value in values) > 0
    assert all(a[1] < b[0] for a, b in itertools.pairwise(rows))
    assert sum(row[2] for row in rows) == len(values)


@pytest.mark.slow
@given(st.lists(VALUES, max_size=4))
def test_small_histograms_hold_every_sample_and_can_be_added(lists: list[list[int]]) -> None:
    found = [histogram.histogram_of(counts_of(values)) for values in lists]
    for rows, values in zip(found, lists, strict=True):
        tallied(rows, values)
        assert len(rows) <= 50
    tallied(histogram.added(found), [value for values in lists for value in values])


def test_events_without_an_answer_have_no_part_in_the_mean() -> None:
    index = np.arange(10, dtype=np.int64)
    mostly = made.FakeSeries(
        made.info(1, 1, name="response"), index, np.full(10, 9000, np.int32), gaps=((9, 90),)
    )
    steps = [made.step(at, [latency(1, name="response"), mostly]) for at in (0, 1)]
    document = model.build([made.run(steps)])  # type: ignore[list-item]
    answered = [one for one in document["runs"][0]["series"] if one["step"] == 0]
    total = sum(one["mean"] * one["count"] for one in answered)
    (table,) = quantities.within(document, 0)
    row = table.rows[0]
    assert row.mean == pytest.approx(total / sum(one["count"] for one in answered))


def test_a_row_of_a_number_has_its_name() -> None:
    """The rows of thread-switch were "2", "10", "128"."""
    series = [
        made.FakeSeries(made.info(at, 0, labels={"threads": n}), np.arange(9), np.arange(9) + 1)
        for at, n in enumerate(("2", "128"))
    ]
    runs = [made.run([made.step(0, series)], id=f"0190c3a{at}") for at in (1, 2)]
    document = model.build(runs)  # type: ignore[arg-type]
    (table,) = quantities.within(document, 0)
    assert [row.what for row in table.rows] == ["threads 2", "threads 128"]
    shared = [one.shared for one in quantities.across(document)]
    assert shared == ["threads 2, idle", "threads 128, idle"]


@pytest.mark.slow
@given(st.lists(VALUES.filter(bool), min_size=1, max_size=3), st.integers(4, 30))
def test_every_bin_is_seen(lists: list[list[int]], columns: int) -> None:
    rows = [histogram.histogram_of(counts_of(values)) for values in lists]
    ends = sketch.extent(rows)
    for one in rows:
        text = sketch.blocks(one, ends, columns)
        assert len(text) == columns and text.strip() and "█" in text
        drawn, peak = sketch.path(one, ends)
        assert drawn.startswith("M") and peak is not None and -0.1 <= peak <= 96.1
    assert sketch.blocks([], ends, columns) == " " * columns
    assert sketch.path([], ends) == ("", None)


def methods_run(label: str, seed: int = 1) -> made.FakeRun:
    """Two methods on two CPUs in one step, then one of them under a load."""
    random = np.random.default_rng(seed)

    def series(methods: list[str]) -> list[made.FakeSeries]:
        return [
            made.sampled(
                random.integers(2000, 9000 + n * 5000, 900).astype(np.int32),
                n,
                n % 2,
                labels={"method": method},
            )
            for n, method in enumerate(method for method in methods for _ in range(2))
        ]

    asked = {"interval": "500us", "method": "nanosleep,timer fd"}
    header = made.header(0, "timer", "idle")
    method = stream.Parameter(asked["method"], asked["method"])
    header = dataclasses.replace(header, parameters={**header.parameters, "method": method})
    return made.run(
        [
            made.step(0, series(["nanosleep", "timer fd"]), parameters=asked, header=header),
            made.step(
                1,
                series(["nanosleep"]),
                parameters={"interval": "500us"},
                load="sched",
                load_command="stress; x",
            ),
            made.step(2, [], "round-robin", state="skipped"),
        ],
        label=label,
    )


@pytest.mark.study(26)
def test_methods_and_steps_stand_side_by_side() -> None:
    run = methods_run("bench")
    document = made.built(run)
    (table,) = quantities.within(document, 0)
    assert (table.measurement, table.name) == ("timer", "latency")
    texts = [row.what for row in table.rows]
    assert len(set(texts)) == 3
    assert "timer fd" in texts[1] and "load sched" in texts[2]
    groups = [run.steps[0].series[:2], run.steps[0].series[2:], run.steps[1].series]
    for row, members in zip(table.rows, groups, strict=True):
        values = [v for one in members for v in one.value.tolist()]
        assert (row.count, row.min, row.max) == (len(values), min(values), max(values))
        assert row.mean == pytest.approx(sum(values) / len(values), rel=1e-12)
        tallied(row.histogram, values)
    assert [shlex.split(row.command)[2:] for row in table.rows] == [
        ["timer", "--interval", "500us", "--method", "nanosleep"],
        ["timer", "--interval", "500us", "--method", "timer fd"],
        ["timer", "--interval", "500us", "--load", "sched", "--load-cmd", "stress; x"],
    ]


@pytest.mark.parametrize(
    ("gaps", "quantity", "shown"),
    [
        ({}, "Gap in user context", "50.0 us"),
        ({"unseen_gaps": "gap"}, "Period in user context", "4 000 us"),
    ],
)
def test_every_format_shows_the_same_quantity_of_a_step(
    gaps: dict[str, str], quantity: str, shown: str
) -> None:
    """The first with samples, in the context with the highest maximum. Where each quantity is the
    gaps with a cause, the one with the highest maximum."""
    values = {("gap", "irq"): 30_000, ("gap", "user"): 50_000, ("period", "user"): 4_000_000}
    series = [
        made.sampled(
            np.full(900, value, np.int32),
            number,
            name=name,
            context=context,
            interval_ns=0,
            due=np.arange(900, dtype=np.int64) * made.MS,
        )
        for number, ((name, context), value) in enumerate(values.items())
    ]
    series.insert(0, dataclasses.replace(series[0], info=made.info(3, name="none"),
                                         index=np.array([], np.int64), due=None,
                                         value=np.array([], np.int32)))  # fmt: skip
    run: Any = made.run([made.step(0, series, "tick-period"), *made.evaluation(1, 100).steps[1:2]])
    entries = [one | {"chapter": "Clock tick"} for one in made.CATALOGUE["measurements"]]
    entries.append(entries[0] | {"name": "tick-period", "series": []} | gaps)
    run.document["catalogue"] = made.CATALOGUE | {"measurements": entries}
    analysis = model.analyse([run])
    steps = [view["row"] for view in views(analysis).runs[0]["steps"]]
    (step,) = [row for row in steps if row.name == "tick-period"]
    assert (step.quantity, plain(step.max)) == (quantity, shown)
    (one,) = analysis.model["runs"]
    assert terminal._row(one, one["steps"][0]).quantity == quantity.split(maxsplit=1)[0].lower()
    (grid,) = [block.grid for block in short(analysis).sections[1].blocks
               if isinstance(block, Table) and block.grid.title == "Figures"]  # fmt: skip
    assert [plain(cell.text) for cell in grid.rows[0].cells[2:4]] == [shown, shown]
    assert ("the cause with the longest gap" in grid.caption) is bool(gaps)


def test_lost_samples_stand_in_every_table() -> None:
    """Side by side, and in the row of a step, missed periods were shown alone."""
    run = methods_run("bench")
    run.steps[1].series[0].lost = ((5, 7, 4000), (9, 2, 4000))
    analysis = model.analyse([run])  # type: ignore[list-item]
    assert [row.lost for row in quantities.within(analysis.model, 0)[0].rows] == [0, 0, 9]
    (table,) = views(analysis).runs[0]["side_by_side"]
    assert [line.cells[table.heads.index("Lost")].text for line in table.lines] == ["0", "0", "9"]
    assert [plain(view["row"].missed) for view in views(analysis).runs[0]["steps"]] == [
        "",
        "9 lost",
        "",
    ]
    text = terminal.text(analysis.model, 80)
    assert re.search(r"time +samples +min +mean +max +lost\b", text)


def test_one_row_is_not_beside_anything() -> None:
    document = model.build([made.simple().run])
    assert quantities.within(document, 0) == quantities.across(document) == []
    assert "side by side" not in html.render(model.analyse([made.simple().run]))


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (("farm", "farm"), ["run 1, local", "run 2, ssh:board"]),
        (("", ""), ["run 1, local", "run 2, ssh:board"]),
        (("new", "old"), ["run 1, new, local", "run 2, old, ssh:board"]),
        (("new", ""), ["run 1, new, local", "run 2, ssh:board"]),
    ],
)
def test_rows_of_several_targets_name_them(labels: tuple[str, str], names: list[str]) -> None:
    """A study gives the runs of all its targets one label."""
    runs = [
        {"label": label, "target": target, "environment": {}}
        for label, target in zip(labels, ("local", "ssh:board"), strict=True)
    ]
    assert [quantities.run_name(runs, number) for number in range(2)] == names
    alike = [{**run, "target": "local"} for run in runs]
    plain_names = [f"run {at}, {label or 'local'}" for at, label in enumerate(labels, 1)]
    assert [quantities.run_name(alike, number) for number in range(2)] == plain_names


def test_the_row_of_a_failed_step_says_so() -> None:
    """A board of a farm was lost: its figures are those of a part of the step."""
    good, bad = made.simple().run, made.simple().run
    bad.document["steps"][0]["state"] = "failed"
    (table, *_) = quantities.across(model.build([good, bad]))
    first, second = (row.what for row in table.rows)
    assert second == first.replace("run 1", "run 2") + " (failed)"


@pytest.mark.slow
def test_runs_stand_side_by_side_where_they_did_the_same() -> None:
    runs = [methods_run("first", 1), methods_run("second", 2), made.simple().run]
    analysis = model.analyse(runs)
    tables = quantities.across(analysis.model)
    assert [table.shared for table in tables] == [
        "nanosleep, idle",
        "timer fd, idle",
        "nanosleep, load sched,command “stress; x”",  # language-ok: shell code
    ]
    assert [[row.run for row in table.rows] for table in tables] == [[0, 1]] * 3
    assert [row.what for row in tables[0].rows] == ["run 1, first", "run 2, second"]
    page = html.render(analysis)
    data = inflated(re.findall(r'id="data">(.*?)</script>', page)[0])
    drawn = data["comparison-0"]
    assert drawn["labels"] == ["run 1, first", "run 2, second"]
    for place, run in enumerate(runs[:2]):
        values = [v for one in run.steps[0].series[:2] for v in one.value.tolist()]
        edges = drawn["histogram"]["edges"]
        assert drawn["histogram"]["counts"][place] == [
            sum(low <= v < high for v in values) for low, high in itertools.pairwise(edges)
        ]
        reached = drawn["ccdf"]["reached"][place]
        assert reached == [
            sum(v >= x for v in values) for x in drawn["ccdf"]["x"] if x <= max(values)
        ]
    assert "a single maximum proves nothing" in page and 'href="#comparison"' in page


def side_by_side(*series: made.FakeSeries) -> tuple[RowTable, dict[str, Any]]:
    """The table of a quantity that each of some runs has, and the data of its pictures."""
    runs: list[Any] = [
        made.run(
            [made.step(0, [one], "log-host")],
            id=f"0192f0c4-6d1e-7aaa-8000-00000000000{at}",
            findings=[],
        )
        for at, one in enumerate(series)
    ]
    shown = views(model.analyse(runs))
    assert shown.comparison is not None
    (table,) = shown.comparison["tables"]
    return table, shown.shared.data[table.figures]


def test_a_row_has_the_colour_of_its_line() -> None:
    """A row without samples has neither."""
    nothing = np.zeros(0, np.int64)
    table, data = side_by_side(
        made.FakeSeries(made.info(), nothing, nothing), latency(20), latency(30)
    )
    assert [line.swatch for line in table.lines] == ["", "0 2", "1 2"]
    assert [label.split(",")[0] for label in data["labels"]] == ["run 2", "run 3"]


def test_the_head_of_small_histograms_has_the_ends_of_their_axis() -> None:
    """The maximum may be a lower limit beyond all samples."""
    answers = dataclasses.replace(latency(57, 400, name="response"), gaps=((399, 1),))
    table, data = side_by_side(answers, answers)
    assert (plain(table.low), plain(table.high)) == ("5.00", "57.0 us")
    assert data["max"] == [1_000_000] * 2


@pytest.mark.slow
def test_the_same_in_eighty_columns_and_in_markdown() -> None:
    runs = [methods_run("first", 1), methods_run("second", 2)]
    document = model.build(runs)  # type: ignore[arg-type]
    for encoding in ("utf-8", "ascii"):
        text = terminal.text(document, 80, encoding=encoding)
        assert max(len(line) for line in text.splitlines()) <= 80
        text.encode(encoding)
        assert "2 runs side by side" in text and "proves nothing" in text
    text = markdown.render(short(model.analyse(runs)))  # type: ignore[arg-type]
    assert "## Runs\n" in text
    assert len(re.findall(r"^\| Run \d ", text, re.MULTILINE)) == 2


def test_a_small_histogram_keeps_its_gaps_in_markdown() -> None:
    run: Any = made.run([made.step(0, [latency(5000)])], findings=[])
    text = markdown.render(short(model.analyse([run])))
    assert re.search("█\u00a0{9,}▁ \\|", text)


def test_the_command_of_a_row_has_what_its_plan_says() -> None:
    series = [
        made.FakeSeries(
            made.info(at, 0, labels={"method": method}), np.arange(9) * made.MS, np.arange(9) + 1
        )
        for at, method in enumerate(["timer", "itimer"])
    ]
    planned = {"load_cpu": "1", "prepare": True, "mark": "gpio:gpiochip0:17"}
    run = made.run([made.step(0, series, load="cpu")])
    run.document["plan"] = {"steps": [planned]}
    rows = quantities.within(model.build([run]), 0)[0].rows  # type: ignore[list-item]
    assert rows[0].command.endswith("--load cpu --mark gpio:gpiochip0:17 --load-cpu 1 --prepare")
    run.document["plan"] = {"steps": []}
    assert quantities.within(model.build([run]), 0)[0].rows[0].command.endswith("--load cpu")  # type: ignore[list-item]


def test_the_command_of_a_row_is_one_that_can_be_given() -> None:
    """A label may be less than its option, and a flag has no value."""
    lines = {"line": "gpio:chip:1:2"}
    step: dict[str, Any] = {
        "measurement": "log-host",
        "asked": lines,
        "parameters": {**lines, "edge": "both"},
    }
    step |= {"step": 0, "budget": None, "run_options": {"load": "doload"}}
    labels = {"line": "gpio", "edge": "both"}
    run: dict[str, Any] = {"environment": {}, "target": "local", "plan": None, "imported": False}
    text = quantities.command(run, step, labels)
    assert text == "rtgauge run log-host --line gpio:chip:1:2 --edge both --load doload"
    kept = {**step, "run_options": {"keep-settings": True}}
    text = quantities.command(run, kept, labels)
    assert text == "rtgauge run log-host --line gpio:chip:1:2 --edge both --keep-settings"
    board = {**run, "target": "ssh://root@board"}
    judged = {**kept, "budget": {"budget_ns": 150_000, "rate_per_hour": None}}
    text = quantities.command(board, judged, labels)
    assert text.startswith("rtgauge run log-host --target ssh://root@board --line gpio:chip:1:2 ")
    assert text.endswith(" --edge both --budget 150us --keep-settings")


def test_the_command_of_a_row_of_a_board_has_its_label() -> None:
    """A board and its log host have one command, that of the board."""
    asked = {"line": "gpio:chip:1:2", "context": "irq,user"}
    board: dict[str, Any] = {
        "step": 0,
        "measurement": "response",
        "asked": asked,
        "parameters": asked,
    }
    board |= {"budget": None, "run_options": {}}
    host = {**board, "step": 1, "measurement": "log-host", "asked": {"interval": "2ms"}}
    run: dict[str, Any] = {"environment": {}, "target": "local", "imported": False}
    run["steps"] = [board, host]
    run["plan"] = {"steps": [{"parameters": {}}, {"parameters": {"answered-by": "user"}}]}
    text = quantities.command(run, board, {"context": "irq"})
    assert "--context irq" in text and "irq,user" not in text
    assert "--interval 2ms" in text and "--context irq,user" in quantities.command(run, host, {})


def test_the_comment_of_a_command_can_be_wrapped() -> None:
    comment = "# without --load-cmd of the imported run: read and add what you trust"
    parts = _parts(f"rtgauge run timer --interval 1ms --title 'a # b' --for 5s {comment}")
    command = ["rtgauge run timer", "--interval 1ms", "--title 'a # b'", "--for 5s"]
    assert parts == [*command, *comment.split()]


def test_the_command_of_a_row_has_the_options_that_the_step_was_given() -> None:
    series = [made.sampled(np.arange(9) + 1, at, at) for at in (0, 1)]
    steps = [made.step(number, series, load="cpu") for number in (0, 1)]
    for step in steps:
        step.document["run_options"] = {"load": "cpu", "load-cmd": "yes", "new-one": True}
    run = made.run(steps)
    run.document["plan"] = {"steps": [{"load": "net", "prepare": True}] * 2}
    document = made.built(run)
    rows = quantities.within(document, 0)[0].rows
    assert rows[0].command.endswith("--load cpu --load-cmd yes --new-one")
