# SPDX-License-Identifier: Apache-2.0
"""Designs of experiments: orthogonality by brute force, and the construction published by Paley."""

import itertools
from collections import Counter

import numpy as np
import pytest

from rtgauge.stats.designs import FACTORS_MAX, Design, design, plackett_burman


def signs(found: Design) -> np.ndarray:
    return np.where(np.array(found.rows), 1, -1)


@pytest.mark.parametrize("size", [12, 20, 24])
def test_plackett_burman_designs_are_orthogonal_and_balanced(size: int) -> None:
    table = plackett_burman(size)
    assert table.shape == (size, size - 1)
    for first, second in itertools.combinations(range(size - 1), 2):
        dot = sum(int(a) * int(b) for a, b in zip(table[:, first], table[:, second], strict=True))
        assert dot == 0
    assert (table.sum(axis=0) == 0).all()


@pytest.mark.parametrize("size", [12, 20, 24])
def test_plackett_burman_designs_are_those_of_quadratic_residues(size: int) -> None:
    # Paley (1933): the circulant of the residues modulo a prime q = 3 modulo 4 is such a design.
    prime = size - 1
    residues = {number * number % prime for number in range(prime)}
    expected = [
        [1 if (column - row) % prime in residues else -1 for column in range(prime)]
        for row in range(prime)
    ]
    assert plackett_burman(size).tolist() == [*expected, [-1] * prime]


def test_the_design_of_12_runs_is_the_published_one() -> None:
    # Plackett & Burman, Biometrika 33 (1946), page 323: the first row of N = 12.
    assert "".join("-+"[int(one > 0)] for one in plackett_burman(12)[0]) == "++-+++---+-"


@pytest.mark.parametrize("factors", range(1, 4))
def test_up_to_three_factors_have_all_combinations_in_each_block(factors: int) -> None:
    found = design(factors, 7)
    assert found.kind == "full" and len(found.rows) == 24
    for block in set(found.blocks):
        rows = [row for row, one in zip(found.rows, found.blocks, strict=True) if one == block]
        assert sorted(rows) == sorted(itertools.product((False, True), repeat=factors))


@pytest.mark.parametrize("factors", range(4, FACTORS_MAX + 1))
def test_more_factors_are_folded_over_in_blocks_of_two(factors: int) -> None:
    found = design(factors, 7)
    assert found.kind == "plackett-burman"
    assert found.size >= factors + 5
    assert len(found.rows) == 2 * found.size
    assert set(Counter(found.blocks).values()) == {2}
    table = signs(found)
    for block in range(found.size):
        first, second = table[np.equal(found.blocks, block)]
        assert (first == -second).all()
    assert (table.T @ table == len(table) * np.eye(factors)).all()
    for one, other, third in itertools.product(range(factors), repeat=3):
        if other != third:  # effects are clear of all interactions of two factors
            assert (table[:, one] * table[:, other] * table[:, third]).sum() == 0


def test_the_number_of_runs_is_the_smallest_that_leaves_freedom() -> None:
    sizes = {factors: design(factors, 1).size for factors in (4, 7, 8, 15, 16, 19)}
    assert sizes == {4: 12, 7: 12, 8: 20, 15: 20, 16: 24, 19: 24}


def test_the_order_is_random_and_follows_from_the_seed() -> None:
    assert design(6, 3) == design(6, 3)
    assert design(6, 3).rows != design(6, 4).rows
    first = Counter(design(2, seed).rows[0] for seed in range(400))
    assert len(first) == 4 and min(first.values()) > 60
    ahead = Counter(
        sum(design(4, seed).rows[0]) > sum(design(4, seed).rows[1]) for seed in range(300)
    )
    assert min(ahead.values()) > 60
    # the row of all minus, the last of the table, is in any block
    lowest = Counter(design(4, seed).blocks[design(4, seed).rows.index((False,) * 4)]
                     for seed in range(300))  # fmt: skip
    assert set(lowest) == set(range(12))


@pytest.mark.parametrize("factors", [0, FACTORS_MAX + 1])
def test_no_and_too_many_factors_are_refused(factors: int) -> None:
    with pytest.raises(ValueError, match="factors"):
        design(factors, 1)
