# SPDX-License-Identifier: Apache-2.0
"""What to do after a comparison: decide it, find the cause, measure the hardware, guard it.

docs/reference/command-line.md, "Compare", has the order.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.document.answer import ACTIONS, BOARD, Action, answer_of, on_hardware
from rtgauge.report.document.answer.data import Data
from rtgauge.report.document.compared import is_judged
from rtgauge.report.results.again import step_command, wiring
from rtgauge.report.results.labels import made_of_a_file, peak
from rtgauge.report.sets.compare import is_one_of
from rtgauge.report.sets.decide import WITHIN

__all__ = ["after_comparison", "is_about", "worst_set"]

Model = Mapping[str, Any]

_SEED: Final = re.compile(r",seed=\d+(?=,|$)")
BLOCKS: Final = 6
"""Minimum number of blocks of a new study: fewer cannot prove a ratio."""
RUNS: Final = 4
"""Minimum number of runs of each set that are not in blocks: fewer cannot prove a ratio."""


def after_comparison(
    document: Model, quantity: Model | None, runs: Sequence[Model]
) -> list[Action]:
    """The actions after a comparison, the largest gain first. ``quantity``: the one that its
    conclusion is about. ``runs``: those of the results model."""
    by_id = {run["id"]: run for run in runs}
    sets = [[by_id[one] for one in each["runs"] if one in by_id] for each in document["sets"]]
    if quantity is None or not all(sets):
        return []
    return list(islice(_actions(document, quantity, sets), ACTIONS))


def _actions(document: Model, quantity: Model, sets: Sequence[Sequence[Model]]) -> Iterator[Action]:
    found = document["comparisons"]
    primary = next((one for one in found if one["primary"]), None)
    decided = primary is not None and primary["verdict"] not in ("not decided", "not enough runs")
    open_ = found if decided or primary is None else [primary]
    more = max((one["needed"] or 0 for one in open_), default=0)
    # Each repeat has a seed of its own: with one seed all are copies of the first.
    targets = list(dict.fromkeys(_SEED.sub("", run["target"]) for each in sets for run in each))
    # The runs of a label stay in its set.
    added = max((one["needed"] - min(one["runs"]) for one in open_ if one["needed"]), default=0)
    labels = _each_label(quantity, sets, max(added, RUNS)) if more or not decided else None
    more = max(more, BLOCKS) if more else 0  # a study is judged in blocks
    gain = "decides the open verdicts" if decided else "decides the comparison"
    repeat = Action("Measure more runs of each system", "", gain)
    labelled = all(run["label"] for each in sets for run in each)
    times = max(added, RUNS) if labelled else more
    if more and (commands := _each_core(quantity, sets, times)):
        text, (first, second) = "Measure more runs on each core", commands
        repeat = replace(repeat, text=text, command=first, again=second)
    elif more and len(targets) == len(sets):
        command = _study(quantity, sets, targets, more)
        repeat = Action(f"Repeat the study in {more} blocks", command, gain)
    elif labels:
        text, (first, second) = "Measure more runs under each label", labels
        repeat = replace(repeat, text=text, command=first, again=second)
    if (more or labels) and not decided:
        yield repeat
    worst = worst_set(document, quantity)
    run = max(sets[worst], key=lambda run: _maximum(quantity, run))
    answer = answer_of(run)
    if answer.cause_command and is_about(quantity, run):
        text = f"Find the cause on {document['sets'][worst]['letter']}"
        yield Action(text, answer.cause_command, answer.cause_hint)
    if any(one["emulated"] for one in document["sets"]):
        if commands := _each_core(quantity, sets, BLOCKS, BOARD):
            text = "Measure on the board itself, on each core"
            yield Action(text, commands[0], on_hardware(commands[0]), commands[1])
        else:
            command = _study(quantity, sets, [BOARD], BLOCKS)
            text = "Measure on the board itself, with each kernel"
            if command:
                yield Action(text, command, on_hardware(command))
    if more and decided:
        yield repeat
    judged = primary is not None and is_judged(primary)  # else the gate ends with 77
    if judged and (words := _selection(sets)):
        margin = numbers.percent(document["within"], 6)
        other = document["within"] != WITHIN
        option = ["--within", f"{document['within'] * 100:g}%"] if other else []
        command = shlex.join(["rtgauge", "compare", *words, *option, "--gate"])
        gain = f"exit code 3 if a system is worse by more than {margin}"
        yield Action("Check for regressions in CI", command, gain)


def _each_label(
    quantity: Model, sets: Sequence[Sequence[Model]], repeats: int
) -> tuple[str, str] | None:
    """The commands that measure more runs of two sets of one target that differ in their label.
    None for other sets."""
    labels = [{run["label"] or "" for run in each} for each in sets]
    names = [name for each in labels for name in each if len(each) == 1 and name]
    targets = {run["target"] for each in sets for run in each}
    if len(sets) != 2 or len(targets) > 1 or len(set(names)) != 2:
        return None
    if any(made_of_a_file(run) for each in sets for run in each):
        return None
    found = []
    same: dict[str, str] = {}  # maxima and rates of runs of different lengths are not compared
    for name, runs in zip(names, sets, strict=True):
        (step, *_) = _of(quantity, runs[0]) or [None]
        if step is None:
            return None
        if not same and (length := step["asked"].get("for")):
            same = {"for": str(length)}
        change = {**same, "label": name, "repeat": str(repeats)}
        found.append(step_command(runs[0], step, change))
    return (found[0], found[1]) if all(found) else None


def worst_set(document: Model, quantity: Model) -> int:
    """The place of the set to improve: the worse one if that is proven, else that with the highest
    max."""
    primary = next((one for one in document["comparisons"] if one["primary"]), None)
    if primary is not None and primary["verdict"] in ("better", "worse"):
        return int(primary["set"]) if primary["verdict"] == "worse" else 0
    rows = [row for row in quantity["rows"] if row["figures"]["max"] is not None]
    top = max(rows, key=lambda row: row["figures"]["max"], default=quantity["rows"][0])
    return int(top["set"])


def _of(quantity: Model, run: Model) -> list[Any]:
    """The steps of a run that measured a quantity."""
    return [
        step
        for step in run["steps"]
        if step["role"] == "measurement"
        and (step["measurement"], step["load"]["name"])
        == (quantity["measurement"], quantity["load"]["name"])
    ]


def is_about(quantity: Model, run: Model) -> bool:
    """Whether the maximum in the answer of a run, and so its cause, is one of that quantity."""
    top = Data(run).top
    return top is not None and is_one_of(quantity, run, top)


def _maximum(quantity: Model, run: Model) -> float:
    found = [one for one in run["series"] if is_one_of(quantity, run, one)]
    return max((peak(one) or 0 for one in found), default=0)


def _core(quantity: Model, runs: Sequence[Model]) -> str:
    """The core on which a set was measured; empty if the runs differ, or if it is not known, as in
    results of another program."""
    if any(map(made_of_a_file, runs)):
        return ""
    cores = {str(step["core"] or "") for run in runs for step in _of(quantity, run)}
    return cores.pop() if len(cores) == 1 else ""


def _each_core(
    quantity: Model, sets: Sequence[Sequence[Model]], repeats: int, board: str = ""
) -> tuple[str, str] | None:
    """The commands that repeat each of two sets on its core of one target, which a study cannot do:
    its steps have one core. None for other sets. ``board``: measure there instead."""
    cores = [_core(quantity, each) for each in sets]
    targets = {run["target"] for each in sets for run in each}
    if len(sets) != 2 or len(targets) > 1 or not all(cores) or cores[0] == cores[1]:
        return None
    found = []
    for core, runs in zip(cores, sets, strict=True):
        steps, run = _of(quantity, runs[0]), runs[0]
        if board:
            known = {name: one for name, one in run["environment"].items() if name != "lab"}
            run = {**run, "target": board, "environment": known}
        wires = wiring(run, steps[0]) if board else {}
        change = {**wires, "core": core, "label": runs[0]["label"] or core, "repeat": str(repeats)}
        found.append(step_command(run, steps[0], change))
    return (found[0], found[1]) if all(found) else None


def _study(
    quantity: Model, sets: Sequence[Sequence[Model]], targets: Sequence[str], blocks: int
) -> str:
    """The command of a study of some targets; empty where no single step can be repeated. Where the
    sets were measured on several cores, each target chooses its own."""
    runs = next((each for each in sets if not any(map(made_of_a_file, each))), sets[0])
    steps = _of(quantity, runs[0])
    if not steps or any(map(made_of_a_file, runs)):
        return ""
    if any(one.startswith(("capture:", "printed:")) for one in targets):
        return ""
    environment = {name: one for name, one in runs[0]["environment"].items() if name != "lab"}
    run, change = {**runs[0], "target": "local"}, {}
    if any(not target.startswith("lab:") for target in targets):
        run["environment"] = environment
    if targets == [BOARD]:
        change = wiring(run, steps[0])
    words = [word for target in targets for word in ("--target", target)]
    if len({core for each in sets if (core := _core(quantity, each))}) > 1:
        change = {**change, "core": ""}
    return step_command(run, steps[0], change, [*words, "--repeat", str(blocks)])


def _selection(sets: Sequence[Sequence[Model]]) -> list[str]:
    """The words that name the sets for ``compare``; empty where they would be too many."""
    studies = {run["study"] for each in sets for run in each}
    if len(studies) == 1 and None not in studies and "" not in studies:
        return [str(next(iter(studies)))[:18]]
    return [each[0]["id"][:13] for each in sets] if all(len(e) == 1 for e in sets) else []
