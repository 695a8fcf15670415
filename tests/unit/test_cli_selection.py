# SPDX-License-Identifier: Apache-2.0
"""Which runs a word of the command line means, and the sets that are compared."""

from __future__ import annotations

from typing import Any

import pytest

from rtgauge.cli.compare import arrange
from rtgauge.cli.selection import select, select_set
from rtgauge.errors import UsageError
from rtgauge.store import RunRow


def row(identity: str, study: str = "", label: str = "", target: str = "local") -> RunRow:
    return RunRow(identity, label, study, target, "complete", identity, 1.0, 1, "")


ROWS = [
    row("01aa-1", "01aa-0", "", "a"),
    row("01aa-2", "01aa-0", "", "b"),
    row("01ab-1", "", "before"),
    row("01ab-2", "", "before", "lab:x,y=z"),
    row("01ac-1", "01ac-0", "twice"),
    row("01ac-2", "01ac-0", "twice"),
    row("01ad-1"),
    row("01ad-2", "", "at@home"),
]


@pytest.mark.parametrize(
    ("word", "runs", "whole"),
    [
        ("last", ["01ad-2"], False),
        ("01aa", ["01aa-1", "01aa-2"], True),
        ("01aa-0", ["01aa-1", "01aa-2"], True),
        ("01aa-0@b", ["01aa-2"], False),
        ("01aa@a", ["01aa-1"], False),
        ("01aa-2", ["01aa-2"], False),
        ("before", ["01ab-1", "01ab-2"], True),
        ("before@lab:x,y=z", ["01ab-2"], False),
        ("twice", ["01ac-1", "01ac-2"], True),
        ("01AD-1", ["01ad-1"], False),
        ("at@home", ["01ad-2"], False),
    ],
)
def test_a_word_means(word: str, runs: list[str], whole: bool) -> None:
    found = select(ROWS, word)
    assert ([one.id for one in found.runs], found.whole) == (runs, whole)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("nothing", "no run, study or label 'nothing'"),
        ("", "no run"),
        ("01ad", "begin with '01ad'"),
        ("01a", "begin with '01a'"),
        ("01aa@c", "'01aa' has no run on target 'c'"),
    ],
)
def test_a_word_that_means_nothing(word: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        select(ROWS, word)


def no_plan(_row: RunRow) -> dict[str, Any]:
    return {}


def test_sets_are_made_of_targets() -> None:
    runs, sets = arrange([select(ROWS, "01aa")], no_plan)
    assert [(one.name, one.places) for one in sets] == [("a", (0,)), ("b", (1,))]
    runs, sets = arrange([select(ROWS, "01aa")], lambda _: {"targets": ["b", "a"]})
    assert [(one.name, one.places) for one in sets] == [("b", (0,)), ("a", (1,))]
    runs, sets = arrange([select(ROWS, "twice"), select(ROWS, "01ad-1")], no_plan)
    assert [one.id for one in runs] == ["01ac-1", "01ac-2", "01ad-1"]
    assert [one.places for one in sets] == [(0, 1), (2,)]
    runs, sets = arrange([select(ROWS, "01aa"), select(ROWS, "before")], no_plan)
    assert [one.name for one in sets] == [
        "a (01aa)", "b (01aa)", "local (before)", "lab:x,y=z (before)",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="two of the sets"):
        arrange([select(ROWS, "01aa"), select(ROWS, "01aa-2")], no_plan)


def test_a_list_is_one_set() -> None:
    chosen = select_set(ROWS, "01ac-1,01ac-2,01ac-1")
    assert [one.id for one in chosen.runs] == ["01ac-1", "01ac-2"]
    assert not chosen.whole
    assert select_set(ROWS, "01aa") == select(ROWS, "01aa")
    named = select_set(ROWS, "before@lab:x,y=z")  # the comma is the target's
    assert [one.target for one in named.runs] == ["lab:x,y=z"]
    _, sets = arrange([select_set(ROWS, "twice,before"), select_set(ROWS, "01ad-1")], no_plan)
    assert [one.name for one in sets] == ["twice,before", "local (01ad-1)"]
    with pytest.raises(UsageError, match="'nothing'"):
        select_set(ROWS, "01ac-1,nothing")
