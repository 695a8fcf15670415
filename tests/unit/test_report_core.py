# SPDX-License-Identifier: Apache-2.0
"""The real-time core that a step ran on, from the stream to the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rtgauge.cli import main
from rtgauge.report.results.labels import core_text, realtime_text


@pytest.mark.parametrize(
    ("realtime", "core", "model", "said"),
    [
        ("preempt_rt", None, "PREEMPT_RT", ""),
        ("cobalt", None, "Xenomai Cobalt, measured on Linux", ""),
        (
            "cobalt",
            {"name": "cobalt", "revision": 19},
            "Xenomai Cobalt",
            "tasks of the core cobalt, interface revision 19",
        ),
    ],
)
def test_words(realtime: str, core: object, model: str, said: str) -> None:
    environment = {"realtime": realtime, "core": core}
    assert (realtime_text(environment), core_text(environment)) == (model, said)


def test_older_document_names_no_core() -> None:
    assert core_text({"realtime": "cobalt"}) == ""


def test_runs_on_two_cores_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The core of each step is in the results, and does not keep series from being matched."""
    store = ["--store", str(tmp_path / "store")]
    for core in ("linux", "cobalt"):
        words = ["--target", "fake", "--core", core, "--label", core, "--no-progress"]
        assert main(["run", "timer", "--for", "1s", *words, *store]) == 0
    capsys.readouterr()
    for core, named in (("linux", None), ("cobalt", {"name": "cobalt", "revision": 19})):
        assert main(["show", core, "--json", *store]) == 0
        run = json.loads(capsys.readouterr().out)["runs"][0]
        assert run["environment"]["core"] == named
        assert {one["core"] for one in run["steps"] if one["measurement"] == "timer"} == {core}
    assert main(["compare", "linux", "cobalt", "--json", *store]) == 0
    assert json.loads(capsys.readouterr().out)["comparisons"]
