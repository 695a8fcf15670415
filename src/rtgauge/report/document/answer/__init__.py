# SPDX-License-Identifier: Apache-2.0
"""The answer: good enough or not, how sure, the likely cause, and what to do next.

It is on the last lines of the terminal, on the first screen and on the first page. It follows from
the results model alone, so that no sample has to be read. docs/reference/report.md, "The answer",
explains the states, the criterion for cycles and the order of the actions.

    data.py       a run, as the answer looks at it
    state.py      the state, and the title that gives it
    certainty.py  the observed maximum, and how sure it is
    cause.py      the cause of the maximum
    scope.py      what the figures hold for, and what was not measured
    commands.py   the commands that measure again
    actions.py    what to do next
    answered.py   the answer of a run, from all of these
    whole.py      an evaluation and the runs that resumed it as one run
    picture.py    its picture
    sections.py   the answer as blocks
"""

from rtgauge.report.document.answer.actions import ACTIONS, Action, on_hardware
from rtgauge.report.document.answer.answered import (
    Answer,
    action_in_store,
    answer_of,
    in_store,
    observed_steps,
)
from rtgauge.report.document.answer.certainty import OBSERVED, when_text
from rtgauge.report.document.answer.commands import BOARD
from rtgauge.report.document.answer.data import State, tests_of, without_priority
from rtgauge.report.document.answer.picture import answer_figure
from rtgauge.report.document.answer.scope import board_text
from rtgauge.report.document.answer.sections import action_blocks, answer_section, limits
from rtgauge.report.document.answer.whole import whole_of
from rtgauge.report.document.cycles import Cycle

__all__ = [
    "ACTIONS",
    "BOARD",
    "OBSERVED",
    "Action",
    "Answer",
    "Cycle",
    "State",
    "action_blocks",
    "action_in_store",
    "answer_figure",
    "answer_of",
    "answer_section",
    "board_text",
    "in_store",
    "limits",
    "observed_steps",
    "on_hardware",
    "tests_of",
    "when_text",
    "whole_of",
    "without_priority",
]
