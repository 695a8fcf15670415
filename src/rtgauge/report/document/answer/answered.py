# SPDX-License-Identifier: Apache-2.0
"""The answer of a run: its state, figures, cause and actions."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from rtgauge.report.document.answer.actions import Action, actions_of, first_actions
from rtgauge.report.document.answer.cause import cause_of, hint_of, rhythm_of
from rtgauge.report.document.answer.certainty import (
    certainty_of,
    deciding,
    maximum_of,
    measured_of,
)
from rtgauge.report.document.answer.data import Data, Model, State
from rtgauge.report.document.answer.scope import audit_of, board_text, missing_of, scope_of
from rtgauge.report.document.answer.state import state_of
from rtgauge.report.document.blocks import Line, Tone
from rtgauge.report.document.cycles import Cycle
from rtgauge.report.results.again import with_store
from rtgauge.report.results.labels import limitation

__all__ = ["Answer", "action_in_store", "answer_of", "in_store", "observed_steps"]


@dataclass(frozen=True)
class Answer:
    """The answer of one run. Empty texts have nothing to say. ``cycles``: only without a budget;
    ``limitations``: why tests failed that fail on every system with this C library."""

    state: State
    tone: Tone
    title: str
    worst: Line
    sure: Line
    sure_command: str
    cause: Line
    cause_command: str
    audit: str
    cycles: tuple[Cycle, ...]
    actions: tuple[Action, ...]
    limitations: tuple[str, ...]
    missing: str = ""
    """What was not measured, and why."""
    scope: str = ""
    """What was measured, of a run without failed and skipped steps."""
    board: str = ""
    """What the time of an emulated board means."""
    cause_hint: str = ""
    """What the command of the cause does."""
    rhythm: str = ""
    """The rhythm of most late samples, and what may cause it."""
    measured: str = ""
    """The measurement of ``worst``, with its load."""


def action_in_store(action: Action, place: str) -> Action:
    """An action whose commands run in this shell, for the store at ``place``; empty for the usual
    one."""
    command, again = (_here(one, place) for one in (action.command, action.again))
    return replace(action, command=command, again=again)


def in_store(answer: Answer, place: str) -> Answer:
    """The answer with commands as in ``action_in_store``."""
    return replace(
        answer,
        sure_command=_here(answer.sure_command, place),
        cause_command=_here(answer.cause_command, place),
        actions=tuple(action_in_store(one, place) for one in answer.actions),
    )


def _here(command: str, place: str) -> str:
    command, called = with_store(command, place), Path(sys.argv[0])
    if called.name != "rtgauge" or shutil.which("rtgauge"):
        return command
    return command.replace('"$(command -v rtgauge)"', shlex.quote(str(called.absolute())))


def observed_steps(run: Model) -> set[int]:
    """The steps whose observations ``answer_of`` reads: those of the maximum and of the deciding
    verdict."""
    data = Data(run)
    decides = [deciding(data)["step"]] if data.verdicts else []
    return {*decides, *([] if data.top is None else [data.top["step"]])}


def answer_of(run: Model) -> Answer:
    """The answer of a run of the results model."""
    data = Data(run)
    state, tone, title = state_of(data)
    sure, sure_command = certainty_of(data)
    if state in (State.UNFIT, State.LATE):
        sure_command = ""  # no longer run makes it fit
    cause, cause_command = cause_of(data)
    rhythm = rhythm_of(data, cause)
    return Answer(
        state,
        tone,
        title,
        maximum_of(data),
        sure,
        sure_command,
        cause,
        cause_command,
        audit_of(run, state),
        data.cycles,
        first_actions(actions_of(data, state, sure_command, cause_command, rhythm)),
        tuple(dict.fromkeys(test["known_limitation"] for test in data.tests if limitation(test))),
        missing_of(data),
        scope_of(data),
        board_text(run),
        hint_of(data, cause_command),
        "" if rhythm is None else rhythm["text"],
        measured_of(data),
    )
