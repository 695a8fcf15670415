# SPDX-License-Identifier: Apache-2.0
"""Causes: the model, its JSON form, and its way from the store into the results."""

import json
import re
from pathlib import Path

import pytest

import report_runs as made
from rtgauge.causes import CLASSES, Cause, Cost, Remedy, Segment, Task, causes_of, document_of
from rtgauge.errors import StoreError
from rtgauge.report.results.model import build, schema, validate
from rtgauge.store import CAUSES, StoredRun

OWNER = Task("sched", 77, "other")
CAUSE = Cause(
    step=0,
    series=2,
    context="user",
    index=1883,
    due_ns=1_883_000_000,
    latency_ns=95_111,
    segments=(
        Segment(0, 54, "interrupts-off", "exact", OWNER, "__check_object_size", ("a", "b")),
        Segment(54, 95_000, "lock", "exact", OWNER, "f", (), OWNER, (("f", 90_000), ("g", 5_000))),
    ),
    rest_ns=57,
    source="replay",
    blame="kernel code of an ordinary task ran on",
    cost=Cost(0, "none"),
    remedies=(Remedy("preempt=full", "rtgauge compare …"),),
)


def test_the_json_form_gives_the_causes_back() -> None:
    document = json.loads(json.dumps(document_of("0198", [CAUSE])))
    assert causes_of(document) == (CAUSE,)
    assert document["run"] == "0198"


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 2},
        {"causes": [{}]},
        {"causes": None},
        {"causes": [{"segments": [], "cost": {}, "remedies": []}]},
    ],
)
def test_damaged_and_newer_causes_are_refused(damage: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="causes"):
        causes_of({**document_of("0198", [CAUSE]), **damage})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("latency_ns", "95"),
        ("latency_ns", None),
        ("latency_ns", 95_112),
        ("index", 10**400),
        ("source", "oracle"),
        ("blame", None),
        ("segments", {}),
        ("cost", {"added_ns": [], "text": ""}),
        ("remedies", [{"text": 3}]),
        ("kind", "firmware"),
        ("certainty", "surely"),
        ("length_ns", 54.0),
        ("length_ns", 55),
        ("stack", "abc"),
        ("stack", [1]),
        ("functions", [["f", "x"]]),
        ("task", {"name": "a", "pid": 1, "policy": "fifo", "priority": "9"}),
    ],
)
def test_causes_that_no_source_writes_are_refused(name: str, value: object) -> None:
    """A report would end with a traceback, or show parts that do not add up."""
    document = json.loads(json.dumps(document_of("0198", [CAUSE])))
    cause = document["causes"][0]
    (cause if name in cause else cause["segments"][0])[name] = value
    with pytest.raises(ValueError, match=r"causes|invalid literal"):
        causes_of(document)


def test_the_schema_knows_exactly_the_classes_of_the_model() -> None:
    assert schema()["$defs"]["segment"]["properties"]["kind"]["enum"] == list(CLASSES)


def test_causes_of_a_run_reach_the_results_without_altering_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text("{}")
    run = StoredRun(folder, made.run([]).document)
    assert build([run])["runs"][0]["causes"] == []
    run.save_causes(document_of(run.id, [CAUSE]))
    document = build([run])
    validate(document)
    assert causes_of(document["runs"][0]) == (CAUSE,)
    assert sorted(path.name for path in folder.iterdir()) == [CAUSES, "run.json"]
    assert (folder / "run.json").read_text() == "{}"
    (folder / CAUSES).write_text('{"version": 9}')
    with pytest.raises(StoreError, match="version 9"):
        build([run])
    damaged = document_of(run.id, [CAUSE])
    damaged["causes"][0]["segments"] = 7
    (folder / CAUSES).write_text(json.dumps(damaged))
    with pytest.raises(StoreError, match=re.escape(str(folder / CAUSES))) as caught:
        build([run])
    assert "remove this file" in caught.value.remedy
