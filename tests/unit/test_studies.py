# SPDX-License-Identifier: Apache-2.0
"""The page about the coverage of the published studies follows from the tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import studies
from studies import Item, Proof

ITEMS = [
    Item(1, "at91sam", "A load"),
    Item(2, "at91sam", "A | figure"),
    Item(3, "bfh", "A claim", "another core"),
]


@pytest.mark.slow
def test_the_page_is_up_to_date() -> None:
    assert studies.main(["--check"]) == 0, "run tools/studies.py"


def test_the_items_are_numbered_without_a_gap_and_of_a_known_study() -> None:
    listed = studies.items()
    assert [item.number for item in listed] == list(range(1, 137))
    assert {item.study for item in listed} == set(studies.STUDIES)


def test_an_item_counts_by_its_tests() -> None:
    found = [
        Proof("unit/test_a.py::test_a", (1, 2), ""),
        Proof("unit/test_a.py::test_b", (1,), "the board"),
        Proof("lab/test_b.py::test_c", (3,), "the board"),
    ]
    text = studies.page(ITEMS, found)
    assert "| 1 | A load | yes | `unit/test_a.py::test_a` |  |\n" in text
    assert "| 2 | A \\| figure | yes | `unit/test_a.py::test_a` |  |\n" in text
    assert "| 3 | A claim | partly | `lab/test_b.py::test_c` | the board |\n" in text
    assert "| Real-time solutions on AT91SAM | 2 | 0 | 0 | 0 |\n" in text
    text = studies.page(ITEMS, [])
    assert "| 1 | A load | no |  |  |\n" in text
    assert "| 3 | A claim | outside |  | another core |\n" in text
    assert "| Interrupt, kernel and user compared | 0 | 0 | 0 | 1 |\n" in text


def test_an_item_that_is_not_listed_is_refused() -> None:
    with pytest.raises(ValueError, match="no item 4"):
        studies.page(ITEMS, [Proof("unit/test_a.py::test_a", (4,), "")])


@pytest.mark.parametrize("marker", ["study()", "study('4')", "study(4, why='x')"])
def test_a_marker_without_sense_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marker: str
) -> None:
    monkeypatch.setattr(studies, "ROOT", tmp_path)
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    test = tmp_path / "tests" / "unit" / "test_x.py"
    test.write_text(f"@pytest.mark.{marker}\ndef test_x() -> None: ...\n", encoding="utf-8")
    with pytest.raises(ValueError, match="test_x"):
        studies.proofs()
    test.write_text(
        "@pytest.mark.study(4, 5, lacks='a')\n@pytest.mark.slow\ndef test_x() -> None: ...\n",
        encoding="utf-8",
    )
    in_c = tmp_path / "agent" / "tests" / "test_y.c"
    in_c.parent.mkdir(parents=True)
    in_c.write_text('/* study(6, lacks="b") */\nstatic void test_y(void)\n{\n', encoding="utf-8")
    assert studies.proofs() == [
        Proof("agent/test_y.c::test_y", (6,), "b"),
        Proof("unit/test_x.py::test_x", (4, 5), "a"),
    ]
