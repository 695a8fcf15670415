# SPDX-License-Identifier: Apache-2.0
"""Remarks by rules: each speaks where it should, and is silent where it should not."""

from __future__ import annotations

import math
import re
import types
from typing import Any, cast

import numpy as np
import pytest

import report_runs as made
from answers import text
from rtgauge import stats, stream
from rtgauge.report.document.answer import answer_of
from rtgauge.report.pictures.folded import folded_said
from rtgauge.report.results import model
from rtgauge.report.results.observations import (
    DRIFT_PAIRS,
    QUOTA,
    RULES,
    About,
    _drift,
    _interrupts,
)
from rtgauge.text import plain

US = 1000


def _loops(
    values: np.ndarray, loop: int = 200, between: int = 300, start: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """The times of the test loops that samples belong to, and when each was really taken."""
    began = start + np.concatenate(([0], np.cumsum(values[:-1] + between)))
    return np.repeat(began[::loop], loop)[: len(values)], began


def _series(number: int, values: np.ndarray, **more: Any) -> made.FakeSeries:
    due, _ = _loops(values)
    info = made.info(number, interval_ns=0, name=more.pop("name", "switch"), **more)
    values = values.astype(np.int64)
    return made.FakeSeries(info, np.arange(len(values)), values, due=due, chunk_rows=10**6)


def _said(*series: made.FakeSeries, **more: Any) -> dict[str, list[str]]:
    """Rule -> sentences on a step of these series."""
    run = made.run([made.step(0, list(series), **more)])
    document = made.built(run)
    found: dict[str, list[str]] = {}
    for one in document["runs"][0]["steps"][0]["observations"]:
        found.setdefault(one["rule"], []).append(one["text"].replace("\u202f", " "))
        assert all(0 <= place < len(series) for place in one["series"])
        assert ("reach" in one) is ("periodic" in one) is (one["rule"] == "second line")
        assert "maxima" in one or "periodic" not in one
    return found


def _body(seed: int, count: int = 4000, typical: int = 2000) -> np.ndarray:
    return np.random.default_rng(seed).normal(typical, typical / 50, count).astype(np.int64)


def test_an_even_series_gets_no_remark() -> None:
    assert _said(_series(0, _body(1))) == {}


@pytest.mark.study(77, 85)
def test_a_cold_first_sample_is_remarked() -> None:
    values = _body(2)
    values[0] = 24_000
    (text,) = _said(_series(0, values))["first sample"]
    assert "is 12 times the median of the rest: 24.0 µs against 2.00 µs." in text
    values[0] = 9_000
    assert "first sample" not in _said(_series(0, values))
    short = np.full(200, 20)
    short[0] = 900  # many times, but less than a microsecond
    assert "first sample" not in _said(_series(0, short))


def _grid(values: np.ndarray) -> made.FakeSeries:
    return made.FakeSeries(made.info(0), np.arange(len(values)), values.astype(np.int64))


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (3.0, "the median rises from 2."),
        (1 / 3, "the median falls from 1.9"),
        (1.4, ""),
        (1.0, ""),
    ],
)
def test_a_median_that_drifts_is_told(times: float, said: str) -> None:
    values = _body(3) * np.linspace(1, times, 4000)
    for series in (_grid(values), _series(0, values)):
        found = _said(series).get("drift", [])
        assert [said in one and "first tenth of the time" in one for one in found] == (
            [True] if said else []
        )
    # Up and down again, and a late step, are not a drift.
    wave = _body(3) * (1 + np.abs(np.linspace(-1, 1, 4000)))
    assert "drift" not in _said(_grid(wave))
    step = _body(3) * np.repeat((1, 3), (3600, 400))
    assert "drift" not in _said(_grid(step))
    assert "drift" not in _said(_grid(values[::40]))


def test_the_chance_of_a_drift_in_a_random_order() -> None:
    """By the number of orders of ten values with a number of inversions (Mahonian numbers)."""
    orders = [1]
    for size in range(2, 11):
        orders = [sum(orders[max(at - size + 1, 0) : at + 1])
                  for at in range(len(orders) + size - 1)]  # fmt: skip
    assert sum(orders) == math.factorial(10)
    few = sum(orders[: 45 - DRIFT_PAIRS + 1])
    assert few == 1717 and 2 * few / math.factorial(10) < 1e-3


@pytest.mark.slow
def test_samples_without_a_drift_have_none() -> None:
    """Two groups of equal size, whose medians are those of one or the other by chance, and bursts
    shorter than a tenth of the time. 500 series of each."""
    random = np.random.default_rng(7)
    found = 0
    for at in range(1000):
        upper = random.random(2000) < 0.5
        if at % 2:
            upper = np.repeat(random.random(100) < 0.5, 20)
        values = random.normal(2000, 40, 2000) * np.where(upper, 3, 1)
        builder = stats.TimelineBuilder(0, 1999 * made.MS, interval_ns=made.MS)
        builder.add(range(0, 2000 * made.MS, made.MS), values.astype(np.int64))
        tenths = builder.timeline().medians(10).tolist()
        quantity = types.SimpleNamespace(
            timed=True,
            figures=[types.SimpleNamespace(tenths=tenths, kept=2000)],
            whose=lambda *_: "",
        )
        found += bool([*_drift(cast(Any, quantity))])
    assert found <= 4  # 1 is expected at most, more than 4 in 0.4 % of cases


def test_no_ratio_to_a_median_below_the_cost_of_a_time_stamp() -> None:
    values = _body(2, typical=3)
    values[0] = 5_520
    (text,) = _said(_series(0, values, stamp_ns=27))["first sample"]
    assert "times" not in text and "is less than the cost of a time stamp" in text


def test_a_long_first_sample_among_many_as_long_is_not_remarked() -> None:
    values = _body(2)
    values[::20] = 24_000
    assert "first sample" not in _said(_series(0, values))


def test_the_first_sample_is_not_part_of_its_own_median() -> None:
    (text,) = _said(_series(0, np.array([9000, 1000, 2000])))["first sample"]
    assert "against 1.00 µs" in text  # of 1000 and 2000 the lower, by nearest rank


@pytest.mark.slow
@pytest.mark.parametrize(("hz", "named"), [(250, True), (137, False)])
def test_the_tick_is_a_second_line_with_its_period(hz: int, named: bool) -> None:
    values = _body(3, 400_000)
    _, began = _loops(values)
    ticks = np.arange(1e6, began[-1], 1e9 / hz - 3100)  # each delays all after it
    hit = np.unique(np.searchsorted(began, ticks) - 1)
    values[hit] += 3100
    (text,) = _said(_series(0, values))["second line"]
    assert f"every {1000 / hz:.3f} ms" in text
    assert re.search("are about 3[.](0[5-9]|1[0-5]) µs above", text)
    assert ("the tick (250 Hz)" in text) is named


@pytest.mark.slow
@pytest.mark.parametrize(("more_ns", "found"), [(10, False), (30, True)])
def test_one_step_of_the_clock_is_no_second_line(more_ns: int, found: bool) -> None:
    """A clock with steps of 10 ns, rounded to whole ns: 20, 21, 30, 31, …"""
    random = np.random.default_rng(6)
    values = 20 + random.integers(0, 2, 400_000)
    values[random.choice(len(values), 20, replace=False)] += 10
    _, began = _loops(values)
    hit = np.searchsorted(began, np.arange(1e6, began[-1], 1.2e6))
    values[hit] += more_ns
    assert ("second line" in _said(_series(0, values))) is found


@pytest.mark.slow
def test_samples_of_one_event_are_one_excursion() -> None:
    """A disturbance of 5 samples, every 4 ms."""
    values = _body(3, 200_000)
    _, began = _loops(values)
    hit = np.searchsorted(began, np.arange(1e6, began[-1] - 1e6, 4e6))
    for after in range(5):
        values[hit + after] += 3100
    run = made.run([made.step(0, [_series(0, values)])])
    (step,) = model.build(cast(Any, [run]))["runs"][0]["steps"]
    (found,) = [one for one in step["observations"] if one["rule"] == "second line"]
    number = found["periodic"]["excursions"]
    assert sum(found["periodic"]["fold"]) == number < 200
    assert found["text"].endswith("(samples within 200\u202fµs are one excursion).")


def _disturbed(cpu: int, period_ns: float, sweep: bool) -> made.FakeSeries:
    """10 000 wake-ups every ms, delayed by up to 200 us every period; with a tenth as many large
    ones at random."""
    random = np.random.default_rng([9, cpu])
    number = np.arange(10_000)
    offset = np.zeros(10_000, np.int64)
    if sweep:
        offset = np.rint(np.abs((number * 0.0193) % 1.0 - 0.5) * 1.99e6).astype(np.int64)
    due = number * made.MS + offset
    latency = 3500 + random.normal(0, 100, len(due))
    into = due % period_ns
    latency += np.where(into < 2e5, 2e5 - into, 0)
    latency[random.choice(10_000, 30, replace=False)] += 40_000
    companion = made.FakeSeries(made.info(2 * cpu + 1, cpu, companion=2 * cpu), number, offset)
    return made.FakeSeries(
        made.info(2 * cpu, cpu),
        number,
        latency.astype(np.int64),
        companion=companion if sweep else None,
    )


@pytest.mark.slow
@pytest.mark.parametrize("sweep", [True, False])
def test_a_disturber_is_timed_explained_and_named(sweep: bool) -> None:
    both = [_disturbed(cpu, 7.301e6, sweep) for cpu in (0, 1)]
    run = made.run([made.step(0, both, disturb="preempt_disable:200us:7.301ms")])
    document = made.built(run)
    observations = document["runs"][0]["steps"][0]["observations"]
    (found,) = [one for one in observations if one["rule"] == "second line"]
    periodic = found["periodic"]
    low, high = periodic["period_ci_ns"]
    if sweep:
        assert low <= 7.301e6 <= high and high - low < 1000
    else:
        assert low is high is None  # of several periods that look the same, none has an interval
    assert ("±" in found["text"]) is sweep
    assert periodic["period_ns"] == pytest.approx(7.301e6, rel=1e-5)
    assert periodic["share"] == pytest.approx(273 / 303, abs=0.06)
    assert [one["series"] for one in found["maxima"]] == [0, 1]
    for cpu, one in enumerate(found["maxima"]):
        words = f"On CPU {cpu}, samples about .* recur every 7.301.ms"
        words += "[.]" if sweep else ", or at another period that looks the same[.]"
        assert re.fullmatch(words, one["text"])
    injection = "the injection (preempt_disable:200us:7.301ms)"
    assert [one["series"] for one in found["late"]] == [0, 1]
    for cpu, one in enumerate(found["late"]):
        words = f"Most late wake-ups on CPU {cpu} [(]8..%[)] recur every 7.301.ms"
        words += "" if sweep else ", or at another period that looks the same"
        words += f"[.] Possible cause: {re.escape(injection) if sweep else 'something periodic'}[.]"
        assert re.fullmatch(words, one["text"])
        assert one["suspects"] == [injection] * sweep
    assert periodic["suspects"] == [injection] * sweep  # on the grid, other periods look alike
    assert len(periodic["fold"]) == 60 and sum(periodic["fold"][29:31]) > 230
    assert bool(periodic["aliases_ns"]) is ("--dither" in found["text"]) is not sweep
    assert "recur every 7.301" in found["text"]
    (mark,) = model.analyse(cast(Any, [run])).marks[0].values()
    assert mark.text.endswith(" or an alias") is not sweep
    assert ("This is the period of" in found["text"]) is sweep


@pytest.mark.slow
@pytest.mark.parametrize(
    ("others", "named"), [((30, 600), [0]), ((600, 30), [2]), ((600, 600), [])]
)
def test_a_rhythm_of_few_late_samples_is_not_that_of_most(
    others: tuple[int, int], named: list[int]
) -> None:
    """Each of two CPUs has 273 wake-ups of a rhythm and some others that are as late."""
    both = [_disturbed(cpu, (7.301e6, 11.77e6)[cpu], True) for cpu in (0, 1)]
    for one, number in zip(both, others, strict=True):
        random = np.random.default_rng(number)
        one.value[random.choice(10_000, number, replace=False)] += 150 * US
    (run,) = model.build(cast(Any, [made.run([made.step(0, both)])]))["runs"]
    (found,) = [o for o in run["steps"][0]["observations"] if o["rule"] == "second line"]
    assert [run["series"][one["series"]]["number"] for one in found["late"]] == named
    for one in found["late"]:
        assert f"on CPU {run['series'][one['series']]['cpu']} (" in one["text"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("away", "more_us", "named"), [(0, 1, True), (0, 300, False), (3, 1, False)]
)
def test_a_second_line_is_the_cause_of_its_own_samples_only(
    away: int, more_us: int, named: bool
) -> None:
    """The maximum of CPU 1 is at its rhythm or ``away`` from it, and that much above its others."""
    both = [_disturbed(cpu, 7.301e6, sweep=True) for cpu in (0, 1)]
    top = int(both[1].value.argmax())
    both[1].value[top + away] = both[1].value[top] + more_us * US
    (run,) = model.build(cast(Any, [made.run([made.step(0, both)])]))["runs"]
    (found,) = [o for o in run["steps"][0]["observations"] if o["rule"] == "second line"]
    assert [one["series"] for one in found["maxima"]] == ([0, 1] if named else [0])
    words = "Likely cause: something periodic. On CPU 1, samples about "
    assert text(answer_of(run).cause).startswith(words) is named


@pytest.mark.slow
@pytest.mark.parametrize("sweep", [True, False])
def test_the_true_period_is_among_those_told(sweep: bool) -> None:
    """Random periods: any, multiples of a tenth of the interval, and nearly multiples of it."""
    itself = told = number = 0
    for seed in range(21):
        random = np.random.default_rng([77, seed])
        tenths = random.uniform(20, 500)
        tenths = (tenths, round(tenths), round(tenths / 10) * 10 + random.uniform(-0.05, 0.05))[
            seed % 3
        ]
        true_ns = tenths * 1e5
        run = made.run([made.step(0, [_disturbed(0, true_ns, sweep)])])
        document = made.built(run)
        observations = document["runs"][0]["steps"][0]["observations"]
        found = [one for one in observations if one["rule"] == "second line"]
        if not found:  # the search may find none
            continue
        periodic, text = found[0]["periodic"], found[0]["text"]
        number += 1
        itself += periodic["period_ns"] == pytest.approx(true_ns, rel=1e-3)
        alike = [periodic["period_ns"], *periodic["aliases_ns"]]
        if not sweep:
            assert "whole fractions and multiples of all three" in text
            alike += [one * k for one in alike for k in range(2, 80)]
            alike += [one / k for one in alike[:3] for k in range(2, 80)]
        told += any(one == pytest.approx(true_ns, rel=1e-3) for one in alike)
    assert told == number >= 20
    assert (itself == number) is sweep


@pytest.mark.parametrize(
    ("facts", "period_s", "name"),
    [
        ({"vm/stat_interval": "1"}, 1.0, "vm.stat_interval"),
        ({"vm/stat_interval": "x"}, 1.0, ""),
        ({"kernel/soft_watchdog": "1"}, 4.0, "soft lockup detector"),
        ({"kernel/soft_watchdog": "0"}, 4.0, ""),
        ({"kernel/soft_watchdog": "1", "kernel/watchdog_thresh": "10"}, 4.0, "lockup"),
        ({"kernel/soft_watchdog": "1", "kernel/watchdog_thresh": "5"}, 2.0, "lockup"),
        ({"kernel/soft_watchdog": "1", "kernel/watchdog_thresh": "5"}, 4.0, ""),
        ({"kernel/soft_watchdog": "1", "kernel/watchdog_thresh": "0"}, 4.0, ""),
        ({"kernel/soft_watchdog": "1", "kernel/watchdog_thresh": None}, 4.0, ""),
        ({"kernel/soft_watchdog": "0", "kernel/watchdog_thresh": "5"}, 2.0, ""),
        ({"kernel/watchdog_thresh": "10"}, 4.0, ""),
    ],
)
def test_facts_that_fit_the_period_are_suspects(
    facts: dict[str, str | None], period_s: float, name: str
) -> None:
    known = {f"/proc/sys/{file}": value for file, value in facts.items()}
    about = About({"kernel": {"hz": 250}}, known, {}, {3: 17.0})
    comb = stats.Comb(period_s * 1e9, 0.0, 1e6, 40, 0.9, 0.9, 50.0, 100.0)
    assert len(about.suspects(comb)) == bool(name)
    assert name in " ".join(about.suspects(comb))
    interrupts = stats.Comb(1e9 / 17.01, 0.0, 1e6, 40, 0.9, 0.9, 50.0, 100.0)
    assert about.suspects(interrupts) == ["the interrupts of CPU 3 (about 17 a second)"]
    many = About({"kernel": {"hz": 250}}, known, {}, {3: 1234.0})
    fast = stats.Comb(1e9 / 1234.1, 0.0, 1e4, 40, 0.9, 0.9, 50.0, 100.0)
    assert many.suspects(fast) == ["the interrupts of CPU 3 (about 1\u202f230 a second)"]


@pytest.mark.parametrize(
    ("period_ms", "error_ns", "named"),
    [
        (4.015, 1.0, ""),
        (4.0003, 1.0, "tick"),  # two clocks differ by less than 100 ppm
        (4.0005, 1.0, ""),
        (4.0005, 600.0, "tick"),
        (4.015, 20_000.0, "tick"),
        (4.03, 1e6, ""),  # an interval that says nothing
        (1003.0, 1000.0, ""),
        (1000.05, 1000.0, "vm.stat_interval"),
        (1000.4, 5e5, "vm.stat_interval"),
        (4003.0, 1000.0, ""),
        (4000.3, 1000.0, "soft lockup detector"),
        (59.0, 1.0, "interrupts of CPU 3"),  # their rate is a mean
        (59.5, 1.0, ""),
        (99.9994, 1.0, "CPU quota"),
        (100.02, 1.0, ""),
    ],
)
def test_a_suspect_has_the_period_within_its_error(
    period_ms: float, error_ns: float, named: str
) -> None:
    known = {"/proc/sys/vm/stat_interval": "1", "/proc/sys/kernel/soft_watchdog": "1"}
    about = About({"kernel": {"hz": 250}}, known, {}, {3: 17.0})
    found = about.suspects(stats.Comb(period_ms * 1e6, 0.0, 1e5, 40, 0.9, 0.9, 50.0, error_ns))
    assert len(found) == bool(named) and named in " ".join(found)


@pytest.mark.parametrize(("mode", "named"), [("clock", [QUOTA]), ("counted", [])])
def test_a_board_that_counts_instructions_has_no_cpu_quota(mode: str, named: list[str]) -> None:
    about = About({"kernel": {"hz": 250}, "lab": {"mode": mode}}, {}, {}, {})
    assert about.suspects(stats.Comb(1e8, 0.0, 1e5, 40, 0.9, 0.9, 50.0, 100.0)) == named


@pytest.mark.slow
def test_aliases_next_to_the_interval_have_the_digits_that_tell_them_from_it() -> None:
    """A period of 7.3 s looked like 'others, such as 1 000 us and 1 000 us', the interval."""
    values = np.full(300_000, 5000) + np.arange(300_000) % 97
    values[13::7300] += 180_000
    (text,) = _said(made.sampled(values))["second line"]
    assert "others, such as 1 000.137005 us and 999.863032 us, or" in plain(text)


def test_hits_at_random_make_no_second_line() -> None:
    values = _body(4, 100_000)
    values[np.random.default_rng(4).choice(100_000, 300, replace=False)] += 3100
    assert "second line" not in _said(_series(0, values))


def test_two_groups_are_told_apart() -> None:
    values = _body(5)
    values[::10] += 6000
    (text,) = _said(_series(0, values))["two groups"]
    assert "10 % are about 8.0" in text
    assert "the others about 2.00 µs" in text


@pytest.mark.slow
@pytest.mark.parametrize("step", [122, 1000, 30_518])
def test_steps_of_a_coarse_clock_are_not_two_groups(step: int) -> None:
    """Latencies of one group were 77 % of 1 us, 'the others about 0 us'."""
    fine = np.random.default_rng(3).lognormal(np.log(1.3 * step), 0.35, 4000)
    values = (np.floor(fine / step) * step).astype(np.int64)
    assert len(np.unique(values)) > 2
    assert "two groups" not in _said(made.sampled(values))
    values[::9] += 4 * step  # with none in between
    values[values == 3 * step] = 0
    assert "two groups" in _said(made.sampled(values))


@pytest.mark.study(95)
def test_growth_with_a_numeric_label_is_sized() -> None:
    series = [
        _series(at, _body(at, 2000, 1000 + 40 * waiters), labels={"waiters": str(waiters)})
        for at, waiters in enumerate((1, 2, 5, 10, 20, 50, 90))
    ]
    (text,) = _said(*series)["growth"]
    assert text.startswith("Grows with waiters: the median is 1.0")
    assert "at 90, about 0.040 µs per waiter" in text
    assert re.search(r"\([0-9.]+ µs to [0-9.]+ µs, 95 %\)", text)
    (text,) = _said(*series[::3])["growth"]
    assert "over all pairs)" in text
    steady = [
        _series(at, _body(at), labels={"waiters": str(waiters)})
        for at, waiters in enumerate((1, 10, 90))
    ]
    (text,) = _said(*steady)["steady"]
    assert text.startswith("Hardly depends on waiters: the median is 2.0")
    words = [
        _series(at, _body(at, 2000, 1000 * (at + 1)), labels={"type": word})
        for at, word in enumerate(("normal", "robust", "inherit"))
    ]
    assert "growth" not in _said(*words)


@pytest.mark.slow
def test_growth_is_told_for_each_other_label() -> None:
    series = [
        _series(
            2 * at + fast,
            _body(at, 500, 1000 if fast else 500 * depth),
            labels={"depth": str(depth), "type": "fast" if fast else "slow"},
        )
        for at, depth in enumerate((1, 2, 4, 8))
        for fast in (0, 1)
    ]
    said = _said(*series)
    texts = said["steady"] + said["growth"]
    assert "Hardly depends on depth" in texts[0] and "(type fast)" in texts[0]
    assert "Grows with depth" in texts[1] and "(type slow)" in texts[1]


def test_what_grows_and_falls_is_not_said_to_grow() -> None:
    series = [
        _series(at, _body(at, 500, typical), labels={"threads": str(2 * at)})
        for at, typical in enumerate((1000, 3000, 900, 3100, 1000))
    ]
    assert "growth" not in _said(*series)


def test_a_wide_spread_is_remarked() -> None:
    values = np.random.default_rng(6).exponential(4000, 5000).astype(np.int64) + 100
    (text,) = _said(_series(0, values))["spread"]
    assert "times the median" in text


def test_batches_stand_against_single_operations() -> None:
    columns = (stream.Column("operation", ""), stream.Column("mean", "ps"))
    series = _series(0, np.full(300, 45), name="release", labels={"type": "robust"})

    def said(mean_ps: int, row: str = "robust: release") -> list[str]:
        table = stream.Table(0, "batches", columns, ((row, mean_ps),))
        return _said(series, tables=[table]).get("batches", [])

    assert "agree within" in said(44_000)[0]
    assert "robust: release: 0.045 µs against 0.015 µs" in said(15_000)[0]
    assert said(15_000, "normal: release") == []


def test_a_share_of_a_few_ticks_is_not_told() -> None:
    """Two ticks of 10 ms are 25 % of 80 ms."""

    def told(ticks: int) -> str:
        records = [
            stream.Ambience(0, at, (0,), (None,), (0,), (ns,), None, {})
            for at, ns in ((0, 0), (8 * 10**7, ticks * 10**7))
        ]
        return _said(_series(0, _body(7)), ambience=records)["stolen time"][0]

    few = told(2)
    assert "took 20 ms of 80 ms from CPU 0. This may" in few
    assert "%" not in few
    assert few.endswith("The kernel counts this time in steps of 10 ms.")
    assert "from CPU 0 (62 %). This may" in told(5)


@pytest.mark.study(76)
def test_stolen_time_and_firmware_are_remarked() -> None:
    def record(at: int, steal: int, smi: int | None) -> stream.Ambience:
        return stream.Ambience(0, at, (0, 1), (None, None), (0, 0), (steal, 0), smi, {})

    said = _said(_series(0, _body(7)), ambience=[record(0, 0, 0), record(10**9, 4 * 10**6, 1)])
    assert "took 4 ms of 1 s from CPU 0. This may" in said["stolen time"][0]
    assert said["management interrupts"][0].startswith("1 system management interrupt occurred")
    quiet = _said(_series(0, _body(7), cpu=1), ambience=[record(0, 0, 0), record(10**9, 10**8, 0)])
    assert quiet == {}


def test_time_in_which_nothing_was_counted_takes_no_part() -> None:
    def record(at: int, *counts: tuple[int, int] | None) -> stream.Ambience:
        interrupts, steal = counts
        return stream.Ambience(0, at * 10**9, (0, 1), (None, None), interrupts, steal, None, {})

    records = [record(0, (0, 0), (0, 0)), record(1, (250, 100), (4 * 10**6, 0))]
    failed = [record(2, None, None), record(3, None, None)]
    assert _interrupts(records + failed) == _interrupts(records) == {0: 250, 1: 100}
    assert _interrupts([*failed, record(4, (250, 100), (0, 0))]) == {0: 250, 1: 100}
    (said,) = _said(_series(0, _body(7)), ambience=records + failed)["stolen time"]
    assert "took 4 ms of 1 s from CPU 0. This may" in said


def test_rules_are_named_once() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)


def test_the_part_that_a_rhythm_explains_is_not_the_part_within_its_width() -> None:
    said = plain(folded_said({"share": 0.9, "excursions": 303, "width_ns": 200_000}))
    assert said.startswith("The rhythm explains 90 % of 303 excursions: those within 200 us of ")
    assert said.endswith("minus the number expected there by chance.")


def test_no_rule_breaks_a_line_before_a_percent_sign() -> None:
    assert [rule.name for rule in RULES if " %" in rule.says] == []
