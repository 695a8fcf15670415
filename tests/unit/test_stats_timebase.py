# SPDX-License-Identifier: Apache-2.0
"""The base of time of an instrument against a search through all divisions."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np
import pytest

from rtgauge.stats import Base, Counts, bases, division

DIVISIONS: Final[list[int]] = [step * 10**power for power in range(13) for step in (1, 2, 5)]


def smallest(span: Fraction | int) -> int:
    return next(one for one in DIVISIONS if one >= span)


def expected(rows: list[list[int]]) -> tuple[Base, Base | None]:
    """The rule in words: the event lies one division from the left and 2 % are free at the right;
    all but the slowest of 200 answers of each row lie in the enlarged base, half a division free.
    """
    slowest = max(max(row) for row in rows)
    whole = smallest(Fraction(max(slowest + 1, 10) * 102, 100 * 9))
    low = min(min(row) for row in rows)
    high = max(sorted(row)[len(row) - len(row) // 200 - 1] for row in rows)
    bulk = smallest(Fraction(max(high - low + 1, 10), 9))
    if high >= low - low % bulk + Fraction(19, 2) * bulk:
        bulk = DIVISIONS[DIVISIONS.index(bulk) + 1]
    enlarged = Base(low - low % bulk, bulk) if bulk * 4 <= whole else None
    return Base(-whole, whole), enlarged


def found(rows: list[list[int]]) -> tuple[Base, Base | None]:
    chosen = bases([Counts.from_arrays([np.array(row, np.int64)]) for row in rows])
    assert chosen is not None
    return chosen


@pytest.mark.parametrize("size", [1, 2, 5, 10, 20, 50, 1000, 200_000, 5_000_000])
@pytest.mark.parametrize("off", [-2, -1, 0, 1])
def test_the_whole_base_at_the_border_of_a_division(size: int, off: int) -> None:
    slowest = max(size * 900 // 102 + off, 0)
    assert found([[0, slowest]])[0] == expected([[0, slowest]])[0]


@pytest.mark.parametrize("low", [1000, 1001, 1005, 1009, 1010, 1019, 1049, 1099])
def test_the_enlarged_base_at_every_width(low: int) -> None:
    for width in (*range(110), *range(170, 195)):
        rows = [[low] * 300 + [low + width] * 300 + [900_000]]
        assert found(rows) == expected(rows)


@pytest.mark.parametrize("seed", range(8))
def test_any_answers(seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(60):
        rows = [
            (
                int(10 ** random.uniform(0, 6))
                + random.exponential(10 ** random.uniform(0, 6), random.integers(1, 700))
            )
            .astype(int)
            .tolist()
            for _ in range(random.integers(1, 4))
        ]
        chosen, enlarged = found(rows)
        assert (chosen, enlarged) == expected(rows)
        for row in rows:
            assert max(row) < chosen.stop_ns
            if enlarged is not None:
                inside = sum(enlarged.start_ns <= one < enlarged.stop_ns for one in row)
                assert len(row) - inside <= len(row) // 200
                assert min(row) >= enlarged.start_ns


@pytest.mark.parametrize(("number", "shown"), [(199, False), (200, True), (201, True)])
def test_one_of_two_hundred_may_lie_beyond(number: int, shown: bool) -> None:
    rows = [[1000 + k % 50 for k in range(number - 1)] + [900_000]]
    assert (found(rows)[1] is not None) == shown


@pytest.mark.parametrize(("slowest", "shown"), [(800, False), (1000, True), (2000, True)])
def test_a_bulk_is_enlarged_from_four_times_on(slowest: int, shown: bool) -> None:
    """The bulk takes divisions of 50 ns; the whole takes 100 ns, 200 ns or 500 ns."""
    rows = [[100 + k % 440 for k in range(880)] + [slowest]]
    enlarged = found(rows)[1]
    assert enlarged == (Base(100, 50) if shown else None)


def test_no_answer_has_no_base() -> None:
    empty = Counts.from_arrays([])
    assert bases([empty]) is None and bases([]) is None
    only = Counts.from_arrays([np.array([5, 70])])
    assert bases([empty, only]) == bases([only])
    assert [division(span) for span in (0.1, 1, 1.5, 2, 5, 5.1, 10, 11)] == [
        1, 1, 2, 2, 5, 10, 10, 20,
    ]  # fmt: skip
