# SPDX-License-Identifier: Apache-2.0
"""The command ``xeno-test``, and the table and picture of latencies by context."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from rtgauge.cli import main
from rtgauge.report.document.blocks import Figure, Table
from rtgauge.report.document.contexts import BARS, contexts_blocks
from rtgauge.target import fake

CHECKS: Final = ("smokey", "clock-warps", "core-switches")


@pytest.fixture
def xeno(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measurements of the plan on the fake target."""
    catalogue = json.loads(json.dumps(fake.CATALOGUE))
    timer = catalogue["measurements"][0]
    timer["contexts"] = ["irq", "kernel", "user"]
    timer["options"].append(
        {"name": "context", "type": "enums", "default": "user", "help": "contexts",
         "values": ["irq", "kernel", "user"]}
    )  # fmt: skip
    length = timer["options"][0]
    for name in CHECKS:
        catalogue["measurements"].append(
            {
                **catalogue["measurements"][1],
                "name": name,
                "code": "",
                "role": "measurement",
                "options": [] if name == "smokey" else [length],
                "series": [],
                "tables": [],
                "verdicts": [{"rule": f"rule of {name}", "meaning": "made-up"}],
            }
        )
    catalogue["profiles"].append({"name": "xeno-test", "summary": "made-up", "mix": "cpu,walk"})
    monkeypatch.setattr(fake.FakeTarget, "describe", lambda self: json.dumps(catalogue))
    init = fake.FakeTarget.__init__

    def made(self: Any, detail: str = "", **more: Any) -> None:
        init(self, detail, **{"catalogue": catalogue, **more})

    monkeypatch.setattr(fake.FakeTarget, "__init__", made)


def carry_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, Any, str]:
    store = ["--store", str(tmp_path / "store"), "--no-progress", "--json"]
    code = main(["xeno-test", *words, *store])
    said = capsys.readouterr()
    return code, json.loads(said.out) if said.out else None, said.err


@pytest.mark.slow
@pytest.mark.usefixtures("xeno")
@pytest.mark.parametrize(
    ("given", "checks", "latency"),
    [((), "30s", "15m"), (("--for", "20m"), "30s", "20m"), (("--for", "5s"), "5s", "5s")],
)
def test_length_is_that_of_the_latencies(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    given: tuple[str, ...],
    checks: str,
    latency: str,
) -> None:
    words = ("--target", "fake", "--interval", "10s", *given)  # few samples
    code, document, said = carry_out(tmp_path, capsys, *words)
    assert code == 0, said
    steps = document["runs"][0]["plan"]["steps"]
    assert [one["measurement"] for one in steps] == [*CHECKS, "timer"]
    lengths = [one["parameters"].get("for") for one in steps]
    assert lengths == [None, checks, checks, latency]
    assert [one["load"] for one in steps] == ["idle"] * 3 + ["xeno-test"]
    assert steps[3]["parameters"]["context"] == "irq,kernel,user"


@pytest.mark.usefixtures("xeno")
def test_help_has_the_lengths_of_the_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xeno-test", "--target", "fake", "--help-all"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"--for TIME [^[]*\[[^]]*default 30s or 15m\]", said), said


@pytest.mark.slow
@pytest.mark.usefixtures("xeno")
def test_failing_test_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--target", "fake:verdict-fails", "--for", "1s")
    code, document, _ = carry_out(tmp_path, capsys, *words)
    assert code == 3
    failed = {one["rule"] for one in document["runs"][0]["tests"] if one["result"] == "fail"}
    assert failed == {f"rule of {name}" for name in CHECKS}


@pytest.mark.slow
@pytest.mark.usefixtures("xeno")
def test_nothing_measured_is_not_a_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, document, _ = carry_out(tmp_path, capsys, "--target", "fake:skipped", "--for", "1s")
    assert code == 77
    assert document["runs"][0]["tests"] == []


@pytest.mark.slow
@pytest.mark.usefixtures("xeno")
def test_file_of_the_same_name_is_not_the_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "xeno-test").write_text("not a plan")
    monkeypatch.chdir(tmp_path)
    assert carry_out(tmp_path, capsys, "--target", "fake", "--for", "1s")[0] == 0


# --- the table and the picture --------------------------------------------------------------------


def series(step: int, context: str, samples: list[int], at_least: int | None = None) -> Any:
    values = np.array(samples)
    return {
        "step": step, "context": context, "unit": "ns", "interval_ns": 10**6,
        "count": len(samples), "min": int(values.min()), "mean": float(values.mean()),
        "max": int(values.max()), "max_at_least": at_least, "lost": 0,
    }  # fmt: skip


def run(label: str = "", core: str = "cobalt", name: str = "xeno-test", **more: Any) -> Any:
    made = {
        "target": "ssh://root@board",
        "label": label,
        "plan": {
            "name": name,
            "steps": [{"parameters": {}}, {"parameters": {"context": "irq,kernel,user"}}],
        },
        "environment": {"host": "board", "kernel": {"release": "6.6.0"}},
        "steps": [
            {"step": 0, "state": "complete", "reason": "", "load": {"name": "idle"}},
            {"step": 1, "state": "complete", "reason": "", "load": {"name": "xeno-test"},
             "core": core},
        ],
        "series": [],
        "tests": [],
    }  # fmt: skip
    return {**made, **more}


def table_of(model: Any) -> Table:
    table = contexts_blocks(model)[-1]
    assert isinstance(table, Table)
    return table


def rows(model: Any) -> list[list[str]]:
    table = table_of(model)
    return [[row.name, *(cell.text for cell in row.cells)] for row in table.grid.rows]


def test_figures_are_those_of_all_samples_of_a_context() -> None:
    """Several CPUs are one row: against the samples themselves."""
    first, second = [1_200, 3_400, 2_000], [900, 15_000, 1_000, 1_100, 4_000]
    found = run(series=[
        series(1, "user", first), series(1, "user", second), series(1, "irq", [400, 600]),
        series(1, "kernel", [1000]),
    ])  # fmt: skip
    both = np.array(first + second) / 1000
    assert rows({"runs": [found]}) == [
        ["ssh://root@board", "6.6.0, cobalt, xeno-test", "irq", "0.400", "0.500", "0.600", "2"],
        ["ssh://root@board", "6.6.0, cobalt, xeno-test", "kernel", "1.00", "1.00", "1.00", "1"],
        ["ssh://root@board", "6.6.0, cobalt, xeno-test", "user", f"{both.min():.3f}",
         f"{both.mean():.2f}", f"{both.max():.1f}", "8"],
    ]  # fmt: skip


def test_lost_samples_have_no_part_in_the_mean() -> None:
    first, second = series(1, "user", [1000] * 10), series(1, "user", [3000] * 10)
    first |= {"count": 100, "lost": 90}
    third = series(1, "irq", [1]) | {"lost": 1, "min": None, "mean": None, "max": None}
    found = rows({"runs": [run(series=[first, second, third])]})
    assert [row[2:] for row in found if row[2] == "user"] == [
        ["user", "1.00", "2.00", "3.00", "110"]
    ]
    assert [row[3:6] for row in found if row[2] == "irq"] == [["–", "–", "–"]]


def test_counts_that_contradict_each_other_end_no_report() -> None:
    one = series(1, "user", [1000] * 10) | {"lost": 10}
    [row] = [row for row in rows({"runs": [run(series=[one])]}) if row[2] == "user"]
    assert row[3:6] == ["1.00", "1.00", "1.00"]


@pytest.mark.study(37)
def test_configurations_are_rows_and_bars() -> None:
    one = [series(1, name, [1000, 2000]) for name in ("irq", "kernel", "user")]
    two = [series(1, name, [1000, 9000]) for name in ("irq", "kernel", "user")]
    model = {"runs": [run("thumb2", series=one), run("arm", core="linux", series=two)]}
    assert [row[1] for row in rows(model)] == [
        *["thumb2, cobalt, xeno-test"] * 3, *["arm, linux, xeno-test"] * 3
    ]  # fmt: skip
    _, figure, _ = contexts_blocks(model)
    assert isinstance(figure, Figure)
    assert figure.svg.count("fill-opacity") == 6
    assert "arm, linux, xeno-test, user" in figure.text
    assert "logarithmic" in figure.caption
    model["runs"][0]["series"] = [series(1, "user", [-5, 2000])]
    _, figure, _ = contexts_blocks(model)
    assert isinstance(figure, Figure)
    assert "logarithmic" not in figure.caption


def test_bars_that_are_not_drawn_are_counted() -> None:
    runs = [run(f"board {at}", series=[series(1, "user", [1000, 2000])]) for at in range(BARS + 2)]
    _, figure, _ = contexts_blocks({"runs": runs})
    assert isinstance(figure, Figure)
    assert f"The first {BARS} of {BARS + 2} are shown." in figure.caption


def test_missing_context_has_a_row_and_a_reason() -> None:
    why = {"step": 1, "result": "skipped", "evidence": "the module is not loaded"}
    model = {"runs": [run(series=[series(1, "user", [1500])], tests=[why])]}
    found = rows(model)
    assert [row[3:] for row in found[:2]] == [["–", "–", "–", "–"]] * 2
    assert "irq and kernel not measured: the module is not loaded" in table_of(model).grid.caption


def test_skipped_step_has_no_picture() -> None:
    found = run()
    found["steps"][1].update(state="skipped", reason="no Cobalt core")
    model = {"runs": [found]}
    assert not any(isinstance(block, Figure) for block in contexts_blocks(model))
    assert "no Cobalt core" in table_of(model).grid.caption


def test_figures_of_a_failed_step_say_so() -> None:
    """Its load may have died, and the figures be those of the idle system."""
    found = run(series=[series(1, "user", [1500])])
    found["steps"][1].update(state="failed", reason="load sched ended by itself")
    caption = table_of({"runs": [found]}).grid.caption
    assert "user of a step that failed: load sched ended by itself." in caption
    assert "irq and kernel not measured: load sched ended by itself." in caption


def test_lower_limit_stays_one() -> None:
    model = {"runs": [run(series=[series(1, "user", [1500], at_least=10**6)])]}
    assert rows(model)[2][5].startswith("≥")


def test_other_plans_have_no_table() -> None:
    timer = run(name="timer", series=[series(1, "user", [1])])
    assert contexts_blocks({"runs": [timer, run(plan={})]}) == []
