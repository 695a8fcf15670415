# SPDX-License-Identifier: Apache-2.0
"""The commands that measure again what the answer is about."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

from rtgauge.options import EVALUATION_OPTIONS
from rtgauge.report.document.answer.certainty import deciding
from rtgauge.report.document.answer.data import Data, Model
from rtgauge.report.results.again import (
    lasting_command,
    option_words,
    requirement,
    step_command,
    wiring,
    without_foreign,
)
from rtgauge.report.results.labels import made_of_a_file

__all__ = [
    "BOARD",
    "as_long",
    "is_evaluation",
    "on_the_board",
    "raised_command",
    "repeated_command",
    "target_words",
]

BOARD: Final = "ssh://root@board"
"""The target in commands that measure on a board in place of an emulated one."""
EVALUATION: Final = "evaluate"
"""The name of the plan that ``rtgauge evaluate`` carries out."""


def target_words(run: Model) -> list[str]:
    """The words that name the target of a run in a command."""
    return [] if run["target"] in ("", "local") else ["--target", run["target"]]


def raised_command(data: Data) -> str:
    """The command that measures again; on this machine as root."""
    run = data.run
    again = _evaluation(data, run["target"]) if is_evaluation(run) else ""
    again = again or step_command(run, data.step(data.top), {})
    if not again or run["target"] not in ("", "local"):
        return again
    return f'sudo "$(command -v rtgauge)"{again.removeprefix("rtgauge")}'


def _evaluation(data: Data, target: str) -> str:
    """The command of the same evaluation of a target."""
    words = ["rtgauge", "evaluate"]
    words += ["--target", target] if target not in ("", "local") else []
    options = _options(data)
    texts = {name: value for name, value in options.items() if value is not True}
    kept, left_out = without_foreign(data.run, texts)
    for name, value in options.items():
        if value is True:
            words += [f"--{name}"]
        elif name in kept:
            words += option_words(name, value)
    return shlex.join(words) + left_out


def _options(data: Data) -> dict[str, Any]:
    """The options of the evaluation: those that its run recorded, else those of its steps."""
    recorded = data.run["plan"].get("options")
    if isinstance(recorded, Mapping):
        found = {name: recorded.get(name) for name in EVALUATION_OPTIONS}
        flags = ("prepare", "thorough")
        return {
            n: o for n, o in found.items() if o and (type(o) is str or (o is True and n in flags))
        }
    options = {"core": core} if (core := _core_asked(data)) else {}
    budgets = [step["budget"] for step in data.measured if step["budget"]]
    if budgets:
        options |= requirement(min(budgets, key=lambda one: one["budget_ns"]))
    return options


def _core_asked(data: Data) -> str:
    """The core that every step was asked for; empty if it was chosen for each."""
    cores = {str(step["run_options"].get("core", "")) for step in data.measured + data.apart}
    return cores.pop() if len(cores) == 1 else ""


def is_evaluation(run: Model) -> bool:
    return (run["plan"] or {}).get("name") == EVALUATION


def on_the_board(data: Data, undecided: Model | None) -> str:
    """The command that measures on a board what was measured on an emulated one; empty for results
    of another program. ``undecided``: a step to measure alone, for as long as the verdict on it
    needs."""
    if made_of_a_file(data.run):
        return ""
    environment = {name: one for name, one in data.run["environment"].items() if name != "lab"}
    board = {**data.run, "target": BOARD, "environment": environment}
    if undecided is None and is_evaluation(board):
        return _evaluation(data, BOARD)
    step = data.step(data.top) if undecided is None else undecided
    change = {"disturb": "", **wiring(board, step)}
    if undecided is None:
        return step_command(board, step, change)
    return as_long(Data(board), step, change)


def as_long(data: Data, step: Model, change: Mapping[str, str]) -> str:
    """The command of a step with other options; as long as the verdict on it needs, where no
    shorter run decides that."""
    needed = max(
        (one["needed_s"] or 0 for one in data.verdicts if one["step"] == step["step"]), default=0
    )
    longer = lasting_command(data.run, step, needed, change) if needed else ""
    return longer or step_command(data.run, step, change)


def repeated_command(data: Data) -> str:
    """The command that measures again what the answer is about."""
    if data.due and not data.real:
        return raised_command(data)
    if is_evaluation(data.run):
        return _evaluation(data, data.run["target"])
    if data.top is None:
        return ""
    step = data.step(data.top)
    if data.verdicts and (verdict := deciding(data))["result"] == "fail":
        step = data.steps[verdict["step"]]
    return as_long(data, step, {})
