# SPDX-License-Identifier: Apache-2.0
"""The lab's tests fail where they have to: each is given what a board might have answered, once as
it should be and once for each way in which the instrument could be broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from lab import test_lab as truth
from lab_boots import Booted, Step
from rtgauge.stream import Event, Record, Samples, SeriesInfo, Table, Trailer

RT, STOCK = "x86_64-rt-6.12", "x86_64-stock-6.12"
QUIET = {"irq": 600, "kernel": 6500, "user": 8700}
THREADS = {"irq": 900, "kernel": 201_800, "user": 204_100}
ALL = {"irq": 199_900, "kernel": 204_500, "user": 206_700}
GONE = "first: there\nagent killed: gone\nsecond: there\nboth killed: there\nrestored: gone\n"


def step(
    maxima: Mapping[str, int], text: str = "", state: str = "complete", rows: Any = ()
) -> Step:
    """A step whose series have these maxima."""
    records: list[Record] = []
    for number, (context, largest) in enumerate(maxima.items()):
        info = SeriesInfo(
            number, number, "latency", context, 0, 0, "fifo", 80, {}, "ns", 1, 1_000_000, None,
            False,
        )  # fmt: skip
        values = np.array([4000, largest], np.int32)
        records += [info, Samples(10 + number, number, 0, 0, values, 0)]
    records.append(Event(20, "message", 5, None, {"text": text}))
    records.append(Table(21, "phases", (), rows))
    records.append(Trailer(22, state, "", "", 10, 22, (), 0))
    return Step(0, b"", "", tuple(records))


def booted(kind: str, maxima: Mapping[str, int], done: int = 281, **more: Any) -> list[Booted]:
    """A boot with the undisturbed step and one that was disturbed ``done`` times."""
    text = f"injected disturbances ({kind}): {done} (longest 200014 ns, periods without one: 0)"
    return [Booted({"undisturbed": step(QUIET), kind: step(maxima, text, **more)}, "")]


def said(text: str, code: int = 0) -> list[Booted]:
    """A boot whose one program said this."""
    return [Booted({"one": Step(code, text.encode(), "", ())}, text)]


def sched(*maxima: Mapping[str, int]) -> list[Booted]:
    """Boots with a step under load each."""
    return [Booted({"sched": step(one)}, "") for one in maxima]


def sustained(*rows: Sequence[Any]) -> list[Booted]:
    """Boots with a table of periods each."""
    return [Booted({"sustained": step(QUIET, rows=one)}, "") for one in rows]


def killed(text: str) -> list[Booted]:
    """A boot whose agents were killed."""
    return [Booted({"killed": Step(0, f"{text}ended: gone\n".encode(), "", ())}, "")]


FOUND = truth.test_a_disturbance_is_found_where_it_shows_and_nowhere_else
EQUAL = truth.test_two_runs_are_equal_bit_for_bit
BETTER = truth.test_rt_is_better_than_stock_under_load
QUIET_LOG = truth.test_the_kernel_has_nothing_to_complain_of
SAME = truth.test_the_shortest_interrupt_period_is_the_same_twice
ENDS = truth.test_a_disturbance_ends_with_its_agent_whatever_becomes_of_that
TAKES = truth.test_the_module_takes_what_it_may_and_refuses_the_rest
K, P, I = "kthread", "preempt_disable", "local_irq_save"  # noqa: E741


@pytest.mark.parametrize(
    ("test", "arguments"),
    [
        pytest.param(FOUND, (booted(K, THREADS), STOCK, K, "user"), id="stock"),
        pytest.param(FOUND, (booted(K, THREADS), STOCK, K, "irq"), id="stock-irq"),
        pytest.param(FOUND, (booted(K, QUIET), RT, K, "user"), id="rt"),
        pytest.param(FOUND, (booted(P, THREADS), RT, P, "kernel"), id="rt-preempt"),
        pytest.param(FOUND, (booted(I, ALL), RT, I, "irq"), id="rt-irq"),
        pytest.param(EQUAL, (booted(K, THREADS) * 2, RT, K), id="equal"),
        pytest.param(BETTER, (sched(QUIET, THREADS), "6.12", "user"), id="better"),
        pytest.param(QUIET_LOG, (said("rtgauge: here"), truth.KILLING), id="log"),
        pytest.param(SAME, (sustained([(1, 2)], [(1, 2)]),), id="sustained"),
        pytest.param(ENDS, (killed(GONE),), id="killed"),
        pytest.param(TAKES, (said("ok 1 - open\n"), "one"), id="interface"),
    ],
)
def test_what_is_right_holds(test: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    test(*arguments)


@pytest.mark.parametrize(
    ("test", "arguments"),
    [
        pytest.param(
            FOUND, (booted(K, {**THREADS, "user": 154_100}), STOCK, K, "user"), id="too-short"
        ),
        pytest.param(
            FOUND, (booted(K, {**THREADS, "user": 254_100}), STOCK, K, "user"), id="too-long"
        ),
        pytest.param(FOUND, (booted(K, QUIET), STOCK, K, "kernel"), id="not-seen"),
        pytest.param(FOUND, (booted(K, THREADS), RT, K, "user"), id="seen-on-rt"),
        pytest.param(FOUND, (booted(P, ALL), RT, P, "irq"), id="seen-in-the-interrupt"),
        pytest.param(FOUND, (booted(K, THREADS, 100), STOCK, K, "user"), id="too-few"),
        pytest.param(FOUND, (booted(K, THREADS, state="failed"), STOCK, K, "user"), id="failed"),
        pytest.param(FOUND, (booted(P, THREADS), STOCK, P, "nowhere"), id="no-such-context"),
        pytest.param(
            EQUAL, (booted(K, THREADS) + booted(K, {**THREADS, "user": 204_101}), RT, K), id="1-ns"
        ),
        pytest.param(EQUAL, (booted(K, THREADS) + booted(K, THREADS, 280), RT, K), id="event"),
        pytest.param(
            BETTER, (sched(QUIET, {**QUIET, "user": 17_000}), "6.12", "user"), id="2-times"
        ),
        pytest.param(
            QUIET_LOG,
            (said("rtgauge: here\n[1.0] WARNING: CPU: 0 PID: 1"), truth.KILLING),
            id="warning",
        ),
        pytest.param(QUIET_LOG, (said(""), truth.KILLING), id="no-log"),
        pytest.param(SAME, (sustained([(1, 2)], [(1, 3)]),), id="another-period"),
        pytest.param(SAME, (sustained([], []),), id="no-period"),
        pytest.param(
            ENDS, (killed(GONE.replace("killed: gone", "killed: there")),), id="guardian-sleeps"
        ),
        pytest.param(
            ENDS, (killed(GONE.replace("restored: gone", "restored: there")),), id="journal-forgets"
        ),
        pytest.param(TAKES, (said("ok 1 - open\nnot ok 2 - close\n"), "one"), id="not-ok"),
        pytest.param(TAKES, (said("ok 1 - open\n", 1), "one"), id="exit-code"),
        pytest.param(TAKES, (said(""), "one"), id="said-nothing"),
    ],
)
def test_what_is_broken_fails(test: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    with pytest.raises(AssertionError):
        test(*arguments)
