# SPDX-License-Identifier: Apache-2.0
"""The incomplete gamma and beta functions against SciPy's, and where those are off against numbers
of 40 digits. (SciPy 1.17 is 3 % off in a far tail of a shape of 9 million.)"""

import math
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special as reference

from rtgauge.stats.special import (
    LARGE,
    _stirling_error,
    beta_inverse,
    beta_part,
    chi_square_quantile,
    gamma_inverse,
    gamma_part,
    normal_quantile,
    student_quantile,
)

CLOSE = 1e-12
SHAPES = (0.5, 1.0, 1.5, 2.0, 3.0, 7.25, 10.0, 16.0, 17.0, 50.0, 123.4, 1000.0)
CHANCES = (1e-6, 0.001, 0.025, 0.05, 0.1, 0.5, 0.9, 0.95, 0.975, 0.99, 0.999)


def test_the_logarithm_of_a_factorial_is_right_to_the_last_digit() -> None:
    """What Stirling's formula leaves of it, from 50 digits."""
    with localcontext(prec=50) as context:
        two_pi = 2 * Decimal("3.14159265358979323846264338327950288419716939937510582")
        for value in (*range(1, 60), 200, 1000):
            logarithm = context.ln(Decimal(math.factorial(value)))
            number = Decimal(value)
            stirling = (number + Decimal("0.5")) * number.ln() - number + two_pi.ln() / 2
            close = 5e-18 if value > 16 else 2e-14
            assert _stirling_error(value) == pytest.approx(
                float(logarithm - stirling), rel=0, abs=close
            )


@pytest.mark.parametrize("shape", SHAPES)
def test_the_gamma_function_and_its_inverse_are_those_of_scipy(shape: float) -> None:
    for chance in CHANCES:
        value = float(reference.gammaincinv(shape, chance))
        assert gamma_inverse(shape, chance) == pytest.approx(value, rel=CLOSE, abs=0)
        assert gamma_part(shape, value) == pytest.approx(
            float(reference.gammainc(shape, value)), rel=CLOSE, abs=0
        )


@pytest.mark.parametrize("first", [1, 2, 3, 10, 17, 100, 1000])
@pytest.mark.parametrize("second", [1, 2, 5, 40, 1000, 20_000])
def test_the_beta_function_and_its_inverse_are_those_of_scipy(first: int, second: int) -> None:
    for chance in CHANCES:
        value = float(reference.betaincinv(first, second, chance))
        found = beta_inverse(first, second, chance)
        assert found == pytest.approx(value, rel=CLOSE, abs=0)
        assert beta_part(first, second, found) == pytest.approx(chance, rel=CLOSE, abs=0)


@pytest.mark.parametrize(
    ("shape", "value", "part"),
    [
        (8720630.0, 8707291.0, 3.10391499169040125e-6),
        (1e6, 1.003e6, 0.998638259353782409),
        (1e6, 9.95e5, 2.74958035927007075e-7),
        (2.5e5, 2.5e5, 0.500265961526177825),
        (12345.5, 12000.0, 0.000856328421156867512),
    ],
)
def test_large_shapes_keep_their_digits(shape: float, value: float, part: float) -> None:
    """Numbers of mpmath, from the series with 40 digits."""
    assert gamma_part(shape, value) == pytest.approx(part, rel=CLOSE, abs=0)
    assert gamma_inverse(shape, part) == pytest.approx(value, rel=CLOSE, abs=0)


@pytest.mark.parametrize(
    ("first", "second", "value", "part"),
    [
        (1000, 155015692, 6.785e-06, 0.947463677075817181),
        (2, 203736, 1e-05, 0.604015998896828478),
        (21, 2274099, 1e-05, 0.670854509374061716),
        (1000, 10**9, 1.1e-06, 0.998940798384417802),
        (5 * 10**6, 5 * 10**6, 0.4995, 0.000782699216419815048),
        (10**6, 9 * 10**6 + 1, 0.1, 0.500154191430506394),
        (99990, 11, 0.9998, 0.0108059031600029435),
        (999000, 1001, 0.999, 0.508409368220764598),
    ],
)
def test_many_samples_keep_their_digits(first: int, second: int, value: float, part: float) -> None:
    """Numbers of mpmath, as above."""
    assert beta_part(first, second, value) == pytest.approx(part, rel=CLOSE, abs=0)
    assert beta_inverse(first, second, part) == pytest.approx(value, rel=CLOSE, abs=0)


@pytest.mark.slow
@given(st.integers(1, 60), st.integers(1, 60), st.floats(1e-9, 1 - 1e-9))
def test_the_beta_function_is_the_tail_of_a_binomial_distribution(
    first: int, second: int, value: float
) -> None:
    count = first + second - 1
    terms = [
        math.comb(count, k) * value**k * (1 - value) ** (count - k) for k in range(first, count + 1)
    ]
    # what is near 1 is 1 less the other tail
    assert beta_part(first, second, value) == pytest.approx(math.fsum(terms), rel=1e-11, abs=2e-16)


def test_nothing_is_below_0_and_all_below_1() -> None:
    assert beta_part(3, 4, 0.0) == 0.0
    assert beta_part(3, 4, 1.0) == 1.0


@pytest.mark.parametrize("freedom", [*range(1, 40), 100, 200])
@pytest.mark.parametrize("chance", [0.6, 0.9, 0.95, 0.975, 0.999])
def test_quantiles_are_those_of_scipy(freedom: int, chance: float) -> None:
    chi_square = float(reference.chdtri(freedom, 1 - chance))
    assert chi_square_quantile(freedom, chance) == pytest.approx(chi_square, rel=CLOSE, abs=0)
    student = float(reference.stdtrit(freedom, chance))
    assert student_quantile(freedom, chance) == pytest.approx(student, rel=CLOSE, abs=0)
    normal = float(reference.ndtri(chance))
    assert normal_quantile(chance) == pytest.approx(normal, rel=CLOSE, abs=0)


@pytest.mark.parametrize("chance", [0.0, 1.0, -0.1, 1.1])
def test_an_inverse_wants_a_probability(chance: float) -> None:
    with pytest.raises(ValueError):
        gamma_inverse(3, chance)


@pytest.mark.parametrize("number", [LARGE / 1.01, 1.01 * LARGE, 1e12, 1e15, 2.0**63])
@pytest.mark.parametrize("chance", [0.025, 0.05, 0.5, 0.95, 0.975])
def test_numbers_that_only_hostile_files_have(number: float, chance: float) -> None:
    """Each takes little time and memory, and is right to 1e-9."""
    close = 1e-9
    value = gamma_inverse(number, chance)
    assert value == pytest.approx(float(reference.gammaincinv(number, chance)), rel=close, abs=0)
    if number < 1e15:  # beyond, a double has too few digits for the chance
        assert gamma_part(number, value) == pytest.approx(chance, rel=1e-6)
    for first, second in ((5.0, number), (2 * number, 5.0)):
        found = beta_inverse(first, second, chance)
        expected = float(reference.betaincinv(first, second, chance))
        assert found == pytest.approx(expected, rel=close, abs=0)
    both = beta_inverse(number, 2 * number, chance)
    assert both == pytest.approx(1 / 3, rel=10 / math.sqrt(number))
    if number < 1e15:
        expected = float(reference.betaincinv(number, 2 * number, chance))
        assert both == pytest.approx(expected, rel=close, abs=0)
        both = beta_inverse(number, 2 * number, chance)
        assert beta_part(number, 2 * number, both) == pytest.approx(chance, rel=1e-4)
    assert student_quantile(int(number), 0.975) == pytest.approx(1.959963984540054, rel=1e-8)


@pytest.mark.parametrize("freedom", [9_999, 10_000, 10_001, 20_000, 10**6])
def test_student_with_many_degrees_of_freedom(freedom: int) -> None:
    for chance in (0.9, 0.95, 0.975, 0.995):
        expected = float(reference.stdtrit(freedom, chance))
        assert student_quantile(freedom, chance) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("freedom", [10_001, 20_000])
def test_third_term_of_student_with_many_degrees_of_freedom(freedom: int) -> None:
    """Against the probability of the tail, which a coefficient that is off by one changes more."""
    chance = 1 - 1e-4
    tail = float(reference.stdtr(freedom, -student_quantile(freedom, chance)))
    assert tail == pytest.approx(1 - chance, rel=2.5e-13, abs=0)


@pytest.mark.parametrize("chance", [1 - 1e-4, 1 - 1e-9])
def test_third_term_of_a_large_shape(chance: float) -> None:
    expected = float(reference.gammaincinv(1.1e10, chance))
    assert gamma_inverse(1.1e10, chance) == pytest.approx(expected, rel=1e-14, abs=0)
