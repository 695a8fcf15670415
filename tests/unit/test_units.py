# SPDX-License-Identifier: Apache-2.0
"""The notation of values: what is printed is read back, and what is wrong is refused."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgauge.units import (
    CPU_MAX,
    format_cpus,
    format_duration,
    format_size,
    parse_cpus,
    parse_duration,
    parse_integer,
    parse_rate,
    parse_size,
    read_cpus,
    read_integer,
    read_mask,
)

UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9,
         "d": 86400 * 10**9}  # fmt: skip


@pytest.mark.slow
@given(st.integers(0, 10**5), st.integers(0, 3), st.sampled_from(sorted(UNITS)))
def test_duration_is_read_exactly(number: int, places: int, unit: str) -> None:
    text = f"{Decimal(number).scaleb(-places):f}"
    exact = Decimal(text) * UNITS[unit]
    if exact == int(exact):
        assert parse_duration(text + unit) == int(exact)
    else:
        with pytest.raises(ValueError, match="finer"):
            parse_duration(text + unit)


@given(st.integers(0, 2**63 - 1))
def test_duration_survives_its_own_notation(ns: int) -> None:
    assert parse_duration(format_duration(ns)) == ns


@given(st.integers(1, 2**62))
def test_duration_is_written_in_the_largest_unit_that_it_has_one_of(ns: int) -> None:
    """Minutes and larger only where that is a whole number."""
    (number, unit), *_ = re.findall(r"^([0-9.]+)([a-z]+)$", format_duration(ns))
    assert Decimal(number) >= 1
    larger = [size for size in UNITS.values() if UNITS[unit] < size <= ns]
    assert all(size > UNITS["s"] and ns % size for size in larger)


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0"), (250_000, "250us"), (1_500_000, "1.5ms"), (10**9, "1s"), (60 * 10**9, "1m"),
     (90 * 10**9, "90s"), (54 * 3600 * 10**9, "54h"), (3 * 86400 * 10**9, "3d"), (1, "1ns"),
     (200_000, "200us"), (7_301_000, "7.301ms"), (997_000, "997us")],
)  # fmt: skip
def test_durations_look_as_people_write_them(ns: int, text: str) -> None:
    assert format_duration(ns) == text


@pytest.mark.parametrize(
    "text",
    ["", "ms", "1", "-1ms", "1 parsec", "1e3ms", "0x10ms", "1.5.5s", "nan", "inf", "1ms2s",
     "99999999999999999999d", "9999999999999d", "0.5ns", "١ms"],
)  # fmt: skip
def test_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="'"):
        parse_duration(text)


def test_a_bare_zero_needs_no_unit() -> None:
    assert parse_duration("0") == parse_duration("0s") == 0


@given(st.integers(0, 2**50))
def test_size_survives_its_own_notation(size: int) -> None:
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize(("text", "size"), [("4096", 4096), ("64KiB", 65536), ("1.5GiB", 3 << 29)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "1KB", "-1", "1.5", "0x10", "1_000"])
def test_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="'"):
        parse_size(text)


@pytest.mark.parametrize("text", ["", "1.0", "0x1", "1_0", "9" * 19, "one", "²"])
def test_no_integer(text: str) -> None:
    with pytest.raises(ValueError, match="'"):
        parse_integer(text)


@pytest.mark.slow
@given(st.sets(st.integers(0, 4095), min_size=1, max_size=60))
def test_cpus_survive_their_own_notation(cpus: set[int]) -> None:
    text = format_cpus(cpus)
    assert parse_cpus(text) == frozenset(cpus)
    assert len(text.split(",")) == sum(cpu - 1 not in cpus for cpu in cpus)


def test_all_cpus() -> None:
    assert parse_cpus("all") is None
    assert parse_cpus("0-3,8") == frozenset({0, 1, 2, 3, 8})


@pytest.mark.parametrize(
    "text", ["", ",", "0-", "-1", "3-1", "4096", "0-99999", "a", "0,,1", "0 1"]
)
def test_no_cpus(text: str) -> None:
    with pytest.raises(ValueError, match="'"):
        parse_cpus(text)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("1/h", 1.0), ("2/d", 2 / 24), ("0.5/day", 0.5 / 24), ("1/10m", 6.0), ("3/s", 10800.0),
     ("0", 0.0)],
)  # fmt: skip
def test_rates_are_per_hour(text: str, rate: float) -> None:
    assert parse_rate(text) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize(
    "text", ["", "1", "h", "1/", "/h", "-1/h", "1/0s", "1/week", "1/h/h", f"1{'0' * 400}/h"]
)
def test_no_rate(text: str) -> None:
    with pytest.raises(ValueError, match="'"):
        parse_rate(text)


def test_lists_and_masks_of_cpus() -> None:
    assert read_cpus("0-3,8\n") == frozenset({0, 1, 2, 3, 8})
    assert read_cpus("") == read_cpus(" (null)") == frozenset()
    for bad in ("3-1", "0-99999", "4096", "a", "1,,2", "-1", "0-4294967295", "١"):
        assert read_cpus(bad) is None, bad
    assert read_mask("f") == frozenset({0, 1, 2, 3})
    assert read_mask("1,00000000") == frozenset({32})
    assert read_mask("80000000") == frozenset({31})
    for bad in ("", "x", "123456789", "-1", ",".join(["f"] * 200)):
        assert read_mask(bad) is None, bad


@pytest.mark.slow
@given(st.frozensets(st.integers(0, 4095)))
def test_lists_come_back(cpus: frozenset[int]) -> None:
    assert read_cpus(format_cpus(cpus)) == cpus
    mask = sum(1 << cpu for cpu in cpus)
    digits = f"{mask:x}"
    groups = [digits[max(0, end - 8) : end] for end in range(len(digits), 0, -8)][::-1]
    assert read_mask(",".join(groups)) == cpus


def test_lists_that_name_a_cpu_again_and_again_are_none() -> None:
    assert read_cpus("0-4095") == frozenset(range(CPU_MAX))
    assert read_cpus(",".join(["0-4095"] * 2)) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), (" 42\n", 42), ("-7", -7), (str(2**63 - 1), 2**63 - 1), (str(2**63), None),
     (None, None), ("", None), ("max", None), ("1.5", None), ("9" * 4000, None)],
)  # fmt: skip
def test_integers_of_a_target_are_read_or_none(text: str | None, value: int | None) -> None:
    assert read_integer(text) == value
