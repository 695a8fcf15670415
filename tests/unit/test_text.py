# SPDX-License-Identifier: Apache-2.0
"""Numbers, times and quantities as people read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgauge import text as numbers
from rtgauge.text import (
    bandwidth,
    count,
    duration,
    frequency,
    join,
    microseconds,
    per_hour,
    per_hour_beside,
    percent,
    plain,
    plural,
    size,
    time,
    to_the_ns,
)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "ns", "0"),
        (7, "ns", "0.007"),
        (370, "ns", "0.370"),
        (3214, "ns", "3.21"),
        (30_749, "ns", "30.7"),
        (146_499, "ns", "146"),
        (1_234_567, "ns", "1 235"),
        (-2500, "ns", "−2.50"),
        (-4, "ns", "0.00"),
        (-5, "ns", "−0.005"),
        (1234, "count", "1 234"),
        (12.345, "count", "12.3"),
        (99.96, "%", "99.96"),
        (99.9996, "%", "99.9996"),
        (100.04, "%", "100.04"),
        (100, "%", "100"),
        (-99.96, "%", "−99.96"),
        (0.07e9 * 1e-7 / 0.07, "%", "100.0"),  # 99.99999999999999
        (0.04, "%", "0.040"),
        (0.0004, "%", "0.0004"),
        (0, "%", "0"),
        (None, "ns", "–"),
    ],
)
def test_digits(value: float | None, unit: str, text: str) -> None:
    assert numbers.shown(value, unit).text.replace(numbers.GAP, " ") == text


def test_a_time_is_told_from_its_limit() -> None:
    found = [numbers.beside(value, 150_000) for value in (149_999, 150_000, 150_001, 151_000)]
    assert [one.replace(numbers.GAP, " ") for one in found] == [
        "149.999 µs", "150 µs", "150.001 µs", "151 µs",
    ]  # fmt: skip
    assert numbers.beside(150_001, None).replace(numbers.GAP, " ") == "150 µs"
    least = numbers.beside(numbers.AtLeast(150_001), 150_000)
    assert least.replace(numbers.GAP, " ") == "≥ 150 µs"


@pytest.mark.slow
@given(st.integers(-(2**62), 2**62))
def test_no_figure_is_off_by_more_than_its_last_digit(value: int) -> None:
    shown = numbers.shown(value, "ns")
    text = shown.text.replace(numbers.GAP, "").replace("−", "-")
    assert abs(float(text) - value / 1000) <= max(
        0.5001 * 10.0 ** -len(shown.decimals), abs(value) * 1e-12
    )


@pytest.mark.slow
@given(st.floats(1e-12, 0.49))
def test_one_in_so_many_is_never_too_good(value: float) -> None:
    text = numbers.probability(value).replace(numbers.GAP, "")
    assert 1 / int(text.removeprefix("1 in ")) >= value * (1 - 1e-9)


@pytest.mark.parametrize(
    ("seconds", "text", "up", "live"),
    [
        (0, "0 s", "0 s", "0.0 s"),
        (0.002, "2 ms", "2 ms", "0.0 s"),
        (0.0005, "0.500 ms", "0.500 ms", "0.0 s"),
        (0.0012341, "1.23 ms", "1.24 ms", "0.0 s"),
        (1.5, "1.5 s", "1.5 s", "1.5 s"),
        (3.004, "3 s", "3.01 s", "3.0 s"),
        (9.996, "10 s", "10 s", "10.0 s"),
        (9.5, "9.5 s", "9.5 s", "9.5 s"),
        (10.4, "10.4 s", "11 s", "10 s"),
        (59.2, "59.2 s", "1 min", "59 s"),
        (59.999, "60 s", "1 min", "1 min"),
        (60, "1 min", "1 min", "1 min"),
        (63.2, "1 min 3 s", "1 min 4 s", "1 min 3 s"),
        (119, "1 min 59 s", "1 min 59 s", "1 min 59 s"),
        (600.5, "10 min", "10 min 1 s", "10 min"),
        (3601, "1 h", "1 h 1 min", "1 h"),
        (7199.5, "2 h", "2 h", "2 h"),
        (86399, "24 h", "24 h", "24 h"),
        (90000, "1 d 1 h", "1 d 1 h", "1 d 1 h"),
        (194_400, "2 d 6 h", "2 d 6 h", "2 d 6 h"),
        (math.inf, "for ever", "for ever", "for ever"),
    ],
)
def test_durations(seconds: float, text: str, up: str, live: str) -> None:
    assert plain(duration(seconds)) == text
    assert plain(duration(seconds, up=True)) == up
    assert plain(duration(seconds, coarse=True)) == live


def test_an_unknown_duration_is_a_dash() -> None:
    assert duration(None) == "–"


_SECONDS = {"d": 86400, "h": 3600, "min": 60, "s": 1, "ms": 1e-3}


@given(st.floats(1e-3, 1e7))
def test_a_duration_rounded_up_is_never_too_short(seconds: float) -> None:
    words = plain(duration(seconds, up=True)).split()
    shown = sum(
        float(number) * _SECONDS[unit] for number, unit in zip(words[::2], words[1::2], strict=True)
    )
    assert shown >= seconds - 1e-9
    assert shown <= seconds * 1.05 + 1


def test_short_times_keep_three_digits() -> None:
    times = (0.5, 1, 41.67, 999.6, 1000, 3_333_333, 4_000_000, 1.5e9)
    assert [plain(time(ns)) for ns in times] == [
        "0.5 ns", "1 ns", "41.7 ns", "1 us", "1 us", "3.33 ms", "4 ms", "1.5 s",
    ]  # fmt: skip


def test_latencies_are_exact() -> None:
    assert [plain(microseconds(ns)) for ns in (150_000, 12_500, 1, 0, 10_000_000, -250)] == [
        "150 us", "12.5 us", "0.001 us", "0 us", "10 000 us", "-0.25 us",
    ]  # fmt: skip


def test_times_in_columns_have_all_decimals() -> None:
    assert [plain(to_the_ns(ns)) for ns in (150_000, 79_751_885, 1, 0, -1_250)] == [
        "150.000", "79 751.885", "0.001", "0.000", "-1.250",
    ]  # fmt: skip


def test_rates_round_to_the_cautious_side() -> None:
    assert per_hour(0.99991) == "1 an hour" and per_hour(2.9957) == "3 an hour"
    assert per_hour(0.012345) == "0.0124 an hour" and per_hour(0) == "0 an hour"
    assert per_hour(1) == "1 an hour" and per_hour(123.4) == "124 an hour"
    assert per_hour(3600) == "3\u202f600 an hour"
    assert per_hour(math.inf) == "any number an hour"


def test_a_bound_looks_as_it_is_next_to_the_rate_allowed() -> None:
    """``at most 12 episodes an hour, below 12 an hour``, after the run that the remedy asked for;
    ``at least 11.8, allowed: 11.9`` for a failure."""
    assert per_hour_beside(2.9957, 1) == ("3 an hour", "1 an hour")
    assert per_hour_beside(2.9957, 1, down=True) == ("2.99 an hour", "1 an hour")
    assert per_hour_beside(11.98293, 12) == ("11.99 an hour", "12 an hour")
    assert per_hour_beside(11.8182, 11.815, down=True) == ("11.818 an hour", "11.815 an hour")
    assert per_hour_beside(math.inf, 0.5) == ("any number an hour", "0.5 an hour")
    assert per_hour_beside(3, 0) == ("3 an hour", "0 an hour")
    assert per_hour_beside(1, 1) == ("1 an hour", "1 an hour")


@pytest.mark.slow
@given(st.floats(1e-9, 1e9), st.floats(0.9, 1.1), st.booleans())
def test_a_bound_has_the_order_and_the_side_of_its_value(
    allowed: float, part: float, down: bool
) -> None:
    bound = allowed * part
    texts = per_hour_beside(bound, allowed, down=down)
    one, other = (float(text.removesuffix(" an hour").replace(numbers.GAP, "")) for text in texts)
    assert (one > other) == (bound > allowed) and (one < other) == (bound < allowed)
    assert one <= bound if down else one >= bound
    assert other >= allowed and other - allowed <= allowed / 100


def test_other_quantities() -> None:
    assert [plain(bandwidth(rate)) for rate in (12.3, 11_250, 5.1e6)] == [
        "12 B/s", "11.2 kB/s", "5.1 MB/s",
    ]  # fmt: skip
    assert [plain(frequency(rate)) for rate in (5, 1000, 24e6, 1e9)] == [
        "5 Hz", "1 kHz", "24 MHz", "1 GHz",
    ]  # fmt: skip
    assert [plain(size(number)) for number in (120 << 10, 3 << 19)] == ["120 KiB", "1.5 MiB"]
    assert [plain(percent(share)) for share in (0.95, 0.0012, 1.0)] == ["95 %", "0.12 %", "100 %"]
    assert plain(percent(0.999999, 6)) == "99.9999 %"
    assert plain(percent(0.1 * 3 / 0.3)) == plain(percent(sum([0.1] * 10))) == "100 %"
    assert [plain(percent(share)) for share in (0.9996, 0.99612, 1.004, 0.0, 0.99)] == [
        "99.96 %", "99.6 %", "100.4 %", "0 %", "99 %",
    ]  # fmt: skip


def test_words_for_numbers() -> None:
    assert plain(count(3_600_000)) == "3 600 000" and plain(count(-1000)) == "-1 000"
    assert plural(1, "run") == "1 run" and plural(2, "run") == "2 runs"
    assert plain(plural(1000, "loss", "losses")) == "1 000 losses"
    assert [join(list("abc")[:n]) for n in range(4)] == ["", "a", "a and b", "a, b and c"]


def test_plain_text_is_ascii() -> None:
    text = f"≥{numbers.GAP}12{numbers.GAP}345.6{numbers.GAP}µs ±1 – {numbers.MINUS}2…"
    assert plain(text) == ">= 12 345.6 us +-1 - -2..." and plain(text).isascii()


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (99_994, "ns", "100.0"), (99_949, "ns", "99.9"), (100_000, "ns", "100"),
        (9_994, "ns", "9.99"), (10_000, "ns", "10.0"), (999, "ns", "0.999"), (1000, "ns", "1.00"),
        (100.4, "count", "100"), (99.94, "count", "99.9"), (5.0, "count", "5"),
        (0.5, "count", "0.500"),
        (-7, "count", "-7"), (0.0, "ns", "0"),
    ],
)  # fmt: skip
def test_the_number_of_digits_at_its_borders(value: float, unit: str, text: str) -> None:
    assert plain(numbers.shown(value, unit).text) == text


def _at_borders() -> list[tuple[str, str]]:
    return [
        (count(0), "0"), (count(-0.4), "-0"), (count(-1), "-1"), (count(999), "999"),
        (count(1000), "1 000"), (count(123456), "123 456"), (count(None), "-"),
        (size(2**20), "1.0 MiB"), (size(2**20 - 1), "1024 KiB"), (size(1536), "2 KiB"),
        (size(3 * 2**19), "1.5 MiB"),
        (bandwidth(1e6), "1 MB/s"), (bandwidth(999_999), "1000 kB/s"), (bandwidth(1000), "1 kB/s"),
        (bandwidth(999), "999 B/s"), (bandwidth(1234), "1.23 kB/s"),
        (numbers.probability(0), "none"), (numbers.probability(-1), "none"),
        (numbers.probability(0.5), "50 %"), (numbers.probability(0.51), "51 %"),
        (numbers.probability(0.9023), "91 %"), (numbers.probability(0.6301), "64 %"),
        (numbers.probability(0.9991), "99.91 %"), (numbers.probability(1.0), "100 %"),
        (numbers.probability(0.49), "1 in 2"), (numbers.probability(1 / 64), "1 in 64"),
        (numbers.probability(1 / 12_399), "1 in 12 000"),
        (numbers.probability(1e-9), "1 in 990 000 000"),
        (numbers.rate(None, "x"), "-"), (numbers.rate(99.94, "x"), "99.9 x/s"),
        (numbers.rate(100, "x"), "100 x/s"), (numbers.rate(12_345, ""), "12 300/s"),
        (numbers.rate(0.5, ""), "0.5/s"),
        (join([]), ""), (join(["a"]), "a"), (join(["a", "b"]), "a and b"),
        (join(["a", "b", "c"]), "a, b and c"),
        (plural(1, "run"), "1 run"), (plural(0, "run"), "0 runs"),
        (plural(2, "loss", "losses"), "2 losses"),
        (percent(0.95), "95 %"), (percent(0.00123), "0.12 %"), (percent(0.12345, 3), "12.3 %"),
        (duration(None), "-"), (duration(math.inf), "for ever"), (duration(-3), "0 s"),
        (duration(0), "0 s"), (duration(0.5), "500 ms"), (duration(1), "1 s"),
        (duration(1.25), "1.25 s"),
        (duration(59.94), "59.9 s"), (duration(60), "1 min"), (duration(61), "1 min 1 s"),
        (duration(9.96, coarse=True), "10.0 s"), (duration(10, coarse=True), "10 s"),
        (duration(0.04, coarse=True), "0.0 s"), (duration(10.2, coarse=True), "10 s"),
        (duration(10, up=True), "10 s"), (duration(10.2, up=True), "11 s"),
        (duration(9.5, up=True), "9.5 s"),
        (duration(3599.5, up=True), "1 h"), (duration(3600), "1 h"), (duration(7199), "2 h"),
        (duration(7199, up=True), "2 h"), (duration(9630), "2 h 40 min"),
        (duration(9601, up=True), "2 h 41 min"),
        (duration(86400), "1 d"), (duration(90000), "1 d 1 h"), (duration(172799), "2 d"),
        (time(999), "999 ns"), (time(999.6), "1 us"), (time(3333), "3.33 us"), (time(1e9), "1 s"),
        (time(1e6), "1 ms"), (time(0), "0 ns"),
        (frequency(24e6), "24 MHz"), (frequency(1e9), "1 GHz"), (frequency(999), "999 Hz"),
        (frequency(1000), "1 kHz"), (frequency(1), "1 Hz"), (frequency(0.25), "0.25 Hz"),
        (microseconds(-250), "-0.25 us"), (microseconds(0), "0 us"),
        (microseconds(10_000_000), "10 000 us"),
        (per_hour(0), "0 an hour"), (per_hour(math.inf), "any number an hour"),
        (per_hour(1), "1 an hour"),
        (per_hour(0.99991), "1 an hour"), (per_hour(0.012341), "0.0124 an hour"),
        (per_hour(0.0123412), "0.0124 an hour"), (per_hour(123.4), "124 an hour"),
    ]  # fmt: skip


def test_quantities_at_the_borders_of_their_units() -> None:
    for found, text in _at_borders():
        assert plain(found) == text


def test_exact_numbers_keep_their_digits() -> None:
    values = (132.9, 106.589, -3.835, 983670.0, 0.27, 30.0, 0.0, 1e-5, None)
    assert [numbers.plain(numbers.exact(value)) for value in values] == [
        "132.9", "106.589", "-3.835", "983 670", "0.27", "30", "0", "0.00001", "-",
    ]  # fmt: skip
