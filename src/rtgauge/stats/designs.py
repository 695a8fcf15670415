# SPDX-License-Identifier: Apache-2.0
"""Which configurations to measure, so that the effects of several factors can be told apart.

Each factor is off or on. Up to three factors: all combinations, repeated. Beyond: a design of
Plackett and Burman (Biometrika 33, 1946), folded over: each of its rows is followed by its mirror
image, with every factor the other way. A row and its mirror are a block of two runs. The difference
within a block has neither the mean of the block nor any interaction of two factors in it, so drift
and such interactions leave the effects alone (Box & Wilson 1951).

The smallest design is taken that leaves ``SPARE`` degrees of freedom for the scatter of the runs.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["FACTORS_MAX", "FULL_MAX", "Design", "design", "plackett_burman"]

Levels = tuple[bool, ...]

FULL_MAX: Final = 3
"""Maximum number of factors of which all combinations are measured."""
FULL_RUNS: Final = 24
SPARE: Final = 5

# The first row of each design. The others are its cyclic shifts, and a row of all minus.
_ROWS: Final = {
    12: "++-+++---+-",
    20: "++--++++-+-+----++-",
    24: "+++++-+-++--++--+-+----",
}
FACTORS_MAX: Final = max(_ROWS) - SPARE


@dataclass(frozen=True)
class Design:
    """The runs of a design in their order: for each its block, and which factors are on.

    ``kind``: ``full`` or ``plackett-burman``. ``size``: the number of different rows before the
    fold, or of combinations.
    """

    kind: str
    size: int
    blocks: tuple[int, ...]
    rows: tuple[Levels, ...]


def plackett_burman(size: int) -> npt.NDArray[np.int_]:
    """The design of ``size`` runs for ``size - 1`` factors, with -1 and 1: its columns are
    orthogonal and balanced. KeyError for other sizes than 12, 20, 24."""
    first = np.array([1 if sign == "+" else -1 for sign in _ROWS[size]])
    rows = [np.roll(first, place) for place in range(size - 1)]
    return np.array([*rows, np.full(size - 1, -1)])


def design(factors: int, seed: int) -> Design:
    """The design for ``factors`` factors. ``seed`` determines the order of the blocks and of their
    runs. Raises ValueError for no or too many factors."""
    if not 1 <= factors <= FACTORS_MAX:
        raise ValueError(f"a design has 1 to {FACTORS_MAX} factors, not {factors}")
    order = random.Random(seed)
    groups: list[list[Levels]]
    if factors <= FULL_MAX:
        kind, size = "full", 2**factors
        every = list(itertools.product((False, True), repeat=factors))
        groups = [list(every) for _ in range(FULL_RUNS // size)]
    else:
        kind = "plackett-burman"
        size = next(size for size in sorted(_ROWS) if size >= factors + SPARE)
        table = plackett_burman(size)[:, :factors] > 0
        groups = [
            [tuple(map(bool, row)), tuple(not one for one in map(bool, row))] for row in table
        ]
        order.shuffle(groups)
    for group in groups:
        order.shuffle(group)
    return Design(
        kind,
        size,
        tuple(number for number, group in enumerate(groups) for _ in group),
        tuple(row for group in groups for row in group),
    )
