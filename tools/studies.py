# SPDX-License-Identifier: Apache-2.0
"""Write docs/studies/coverage.md: which items of the published studies rtgauge repeats.

    .venv/bin/python tools/studies.py            # write the page
    .venv/bin/python tools/studies.py --check    # say whether it is up to date

tests/studies.csv lists the items. A test names those that it proves with
``@pytest.mark.study(4, 117)``, a test of the agent in C with ``/* study(4, 117) */`` in the line
above it. ``lacks="…"`` in the marker says what of them it leaves out. An item without a test counts
as not repeated, whatever rtgauge can do. One that needs more than Linux has the reason in the list.
"""

from __future__ import annotations

import ast
import csv
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["STUDIES", "Item", "Proof", "items", "page", "proofs"]

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "studies" / "coverage.md"
FOLDERS: Final = ("unit", "machine", "lab", "cross")
STATES: Final = ("yes", "partly", "no", "outside")
STUDIES: Final = {
    "at91sam": "Real-time solutions on AT91SAM",
    "gpioirqbench": "gpioirqbench",
    "eva-atom": "RTOS evaluation 2.9",
    "bfh": "Interrupt, kernel and user compared",
    "xenomai-3.4": "Xenomai benchmarks",
}
HEAD: Final = """\
<!-- SPDX-License-Identifier: Apache-2.0 -->
# Coverage of the published studies

Written by `tools/studies.py` from `tests/studies.csv` and the tests. *yes*: a test repeats the
item. *partly*: a test repeats it except for what the last column names. *no*: no test repeats it.
*outside*: the item needs what the last column names, which is not part of Linux.
"""


@dataclass(frozen=True)
class Item:
    """One measurement, load, procedure, figure or claim of a study. ``outside``: what it needs
    that is not part of Linux ("" for nothing)."""

    number: int
    study: str
    text: str
    outside: str = ""


@dataclass(frozen=True)
class Proof:
    """A test that repeats items: its place, and what it leaves out ("" for nothing)."""

    place: str
    numbers: tuple[int, ...]
    lacks: str


def items() -> list[Item]:
    """The items in the order of their numbers."""
    with (ROOT / "tests" / "studies.csv").open(encoding="utf-8", newline="") as file:
        return [
            Item(int(row["number"]), row["study"], row["item"], row["outside"])
            for row in csv.DictReader(file)
        ]


def _marked(name: str, source: str) -> Iterator[Proof]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef):
            continue
        for marker in node.decorator_list:
            if isinstance(marker, ast.Call) and ast.unparse(marker.func) == "pytest.mark.study":
                yield _proof(f"{name}::{node.name}", marker)


def _proof(place: str, marker: ast.Call) -> Proof:
    numbers = tuple(ast.literal_eval(word) for word in marker.args)
    if not numbers or not all(type(number) is int for number in numbers):
        raise ValueError(f"{place}: the marker 'study' takes numbers of items")
    named = {word.arg: ast.literal_eval(word.value) for word in marker.keywords}
    lacks = named.pop("lacks", "")
    if named or not isinstance(lacks, str):
        raise ValueError(f"{place}: the marker 'study' takes lacks=TEXT alone")
    return Proof(place, numbers, lacks)


_IN_C: Final = re.compile(r"^/\* (study\(.*\)) \*/\nstatic void (test_\w+)\(", re.MULTILINE)


def _marked_in_c(name: str, source: str) -> Iterator[Proof]:
    for marker, test in _IN_C.findall(source):
        call = ast.parse(marker, mode="eval").body
        assert isinstance(call, ast.Call)
        yield _proof(f"{name}::{test}", call)


def proofs() -> list[Proof]:
    """The tests that carry the marker, by place. Raises ValueError for a marker without sense."""
    tests = ROOT / "tests"
    in_c = [
        proof
        for path in sorted((ROOT / "agent" / "tests").glob("test_*.c"))
        for proof in _marked_in_c(f"agent/{path.name}", path.read_text(encoding="utf-8"))
    ]
    return in_c + [
        proof
        for folder in FOLDERS
        for path in sorted((tests / folder).glob("test_*.py"))
        for proof in _marked(f"{folder}/{path.name}", path.read_text(encoding="utf-8"))
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _row(item: Item, found: Sequence[Proof]) -> tuple[str, str]:
    """The state of an item and its row: complete proofs alone where there is one."""
    complete = [proof for proof in found if not proof.lacks]
    state = "yes" if complete else "partly" if found else "outside" if item.outside else "no"
    shown = complete or found
    places = "<br>".join(f"`{proof.place}`" for proof in shown)
    lacks = "; ".join(dict.fromkeys(proof.lacks for proof in shown if proof.lacks))
    if state == "outside":
        lacks = item.outside
    return state, f"| {item.number} | {_cell(item.text)} | {state} | {places} | {_cell(lacks)} |"


def page(listed: Sequence[Item], found: Sequence[Proof]) -> str:
    """The page. Raises ValueError if a test names an item that is not listed."""
    by_item: Mapping[int, list[Proof]] = {item.number: [] for item in listed}
    for proof in found:
        for number in proof.numbers:
            if number not in by_item:
                raise ValueError(f"{proof.place}: the studies have no item {number}")
            by_item[number].append(proof)
    counts = {study: dict.fromkeys(STATES, 0) for study in STUDIES}
    tables: dict[str, list[str]] = {study: [] for study in STUDIES}
    for item in listed:
        state, row = _row(item, by_item[item.number])
        counts[item.study][state] += 1
        tables[item.study].append(row)
    lines = [HEAD, f"| study | {' | '.join(STATES)} |", "| --- |" + " --: |" * len(STATES)]
    lines += [
        f"| {title} | " + " | ".join(str(n) for n in counts[study].values()) + " |"
        for study, title in STUDIES.items()
    ]
    for study, title in STUDIES.items():
        lines += ["", f"## {title}", ""]
        lines += ["| # | item | repeated | tests | lacks |", "| --: | --- | --- | --- | --- |"]
        lines += tables[study]
    return "\n".join(lines) + "\n"


def main(words: Sequence[str]) -> int:
    """Writes or checks the page; 1 if it is out of date, 2 for other words."""
    text = page(items(), proofs())
    match list(words):
        case []:
            PAGE.write_text(text, encoding="utf-8")
        case ["--check"]:
            if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
                print(f"{PAGE.relative_to(ROOT)} is out of date: run tools/studies.py")
                return 1
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
