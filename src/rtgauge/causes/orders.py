# SPDX-License-Identifier: Apache-2.0
"""The orders of a stored run: what its emulated board received."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TypeGuard

__all__ = ["orderly", "steps_of"]


def orderly(orders: object) -> TypeGuard[list[list[str]]]:
    """Whether the orders of a run, which may be from elsewhere, are of the form that the lab gives
    them: each a list of words, and each step once."""
    if not isinstance(orders, list) or not all(
        isinstance(words, list) and words and all(isinstance(word, str) for word in words)
        for words in orders
    ):
        return False
    steps = [words[words.index("--step") :][1:2] for words in orders if "--step" in words]
    if any(not step or not re.fullmatch("[0-9]{1,6}", step[0]) for step in steps):
        return False
    return len({int(step[0]) for step in steps}) == len(steps) and all(map(_order, orders))


def _order(words: Sequence[str]) -> bool:
    if words[0] == "read":
        return len(words) == 2 and re.fullmatch("[0-9]{1,15}", words[1]) is not None
    if words[0] == "run":
        return len(words) > 1 and words[-1] != "--run" and ("--run" in words) == ("--step" in words)
    return words[0] == "put" and "--step" not in words


def steps_of(orders: Sequence[Sequence[str]]) -> Collection[int]:
    """The steps that orders carry out. Orders of a killed run lack the step in which it was killed,
    because they are written at the end of a step."""
    return {int(words[words.index("--step") + 1]) for words in orders if "--step" in words}
