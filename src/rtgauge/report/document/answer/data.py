# SPDX-License-Identifier: Apache-2.0
"""A run of the results model, as the answer looks at it."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.document.cycles import Cycle, cycles
from rtgauge.report.results.labels import (
    TRACED,
    apart,
    carried_out,
    integers,
    is_response,
    limitation,
    ordinary_policies,
    peak,
    traced_alone,
    under_load,
    waits_for_answers,
    worst,
)

__all__ = ["NOT_RT", "Data", "State", "tests_of", "verdicts_of", "without_priority"]

Model = Mapping[str, Any]
NOT_RT: Final = ("full", "lazy", "voluntary", "none")


class State(enum.StrEnum):
    """Whether the system is good enough, as far as the run shows. Without a budget, its latency is
    called neither fit nor unfit: the run shows which cycles it supports, or that it is too late for
    all of them, or that the tests passed."""

    FIT = "fit"
    SUPPORTS = "no budget"
    PASSED = "tests passed"
    UNFIT = "not fit"
    LATE = "too late"
    UNPROVEN = "not proven"
    UNMEASURED = "not measured properly"


def tests_of(run: Model) -> list[Any]:
    """The tests of behaviour of a run."""
    return list(run["tests"])


def verdicts_of(run: Model) -> list[Any]:
    """The budgets of a run, held against the data."""
    return list(run["verdicts"])


def without_priority(run: Model) -> bool:
    """Whether a run measured latency, but only of tasks without real-time priority."""
    data = Data(run)
    return bool(data.due) and not data.real


class Data:
    """A run of the results model, as the answer looks at it."""

    def __init__(self, run: Model) -> None:
        self.run = run
        self.steps = {step["step"]: step for step in run["steps"]}
        self.apart = apart(run)
        self.asked = [step for step in carried_out(run) if step not in self.apart]
        self.measured = [step for step in self.asked if step["role"] == "measurement"]
        self.tests = tests_of(run)
        self.verdicts = verdicts_of(run)
        self.failed_tests = [
            test for test in self.tests if test["result"] == "fail" and not limitation(test)
        ]

    @functools.cached_property
    def empty(self) -> bool:
        """Whether the run has no samples, missed periods, events without an answer or tests,
        calibrations aside."""
        asked = {step["step"] for step in self.measured}
        due = any(
            one["count"] or one["missed"] or one["unanswered"]
            for one in self.run["series"]
            if one["step"] in asked
        )
        return not due and not self.tests

    @functools.cached_property
    def failed(self) -> bool:
        """Whether all steps failed without results."""
        return self.empty and all(step["state"] == "failed" for step in self.measured)

    @functools.cached_property
    def due(self) -> list[Any]:
        """The series of latencies: values in ns with a due time, of steps that measure."""
        return [
            one
            for one in self.run["series"]
            if self.steps[one["step"]]["role"] == "measurement"
            and one["unit"] == "ns"
            and one["interval_ns"] > 0
            and (is_response(one["name"], "ns") or not waits_for_answers(one["name"], "ns"))
            and peak(one) is not None
        ]

    @functools.cached_property
    def unanswered(self) -> set[int]:
        """The steps without any answer to an event, of measurements without one in any step. The
        answers that a log host lost, or that came late or in doubt, are answers, too."""
        answered = {
            one["measurement"]
            for one in self.due
            if one["count"] or one["lost"] or not one["unanswered"]
        }
        answered |= {
            self.steps[table["step"]]["measurement"]
            for table in self.run["tables"]
            if table["name"] == "answers"
            and any(row.get("ambiguous") or row.get("late") for row in integers(table))
        }
        return {one["step"] for one in self.due if one["measurement"] not in answered}

    @functools.cached_property
    def real(self) -> list[Any]:
        """Those with real-time priority."""
        ordinary = {
            step
            for step in {one["step"] for one in self.due}
            if ordinary_policies(self.run, self.steps[step])
        }
        return [one for one in self.due if one["step"] not in ordinary]

    @functools.cached_property
    def without_due(self) -> list[Any]:
        """The series of the same quantities without due times, such as those of ``nanosleep``. In a
        run without series of latencies: those of its only quantity."""
        found = [
            one
            for one in self.run["series"]
            if self.step(one)["role"] == "measurement"
            and one["unit"] == "ns"
            and not one["interval_ns"]
            and peak(one) is not None
            and not self.disturbed(one)
        ]
        quantities = {(one["measurement"], one["name"]) for one in self.best or found}
        if not self.best and len(quantities) > 1:
            return []
        return [one for one in found if (one["measurement"], one["name"]) in quantities]

    @functools.cached_property
    def ordinary_wanted(self) -> bool:
        """Whether budgets were asked for tasks without real-time priority (``--priority 0``)."""
        steps = [self.step(one) for one in self.due]
        return all(step["budget"] and step["asked"].get("priority") == "0" for step in steps)

    @functools.cached_property
    def proper(self) -> list[Any]:
        """Those with real-time priority and without an injection."""
        return [one for one in self.real if not self.disturbed(one)]

    @functools.cached_property
    def best(self) -> list[Any]:
        """The series that the answer is about: the proper ones, where there are any."""
        return self.proper or self.real or self.due

    @functools.cached_property
    def top(self) -> Any:
        """The series with the highest maximum; None without one."""
        at = worst(self.best)
        return None if at is None else self.best[at]

    @functools.cached_property
    def printed(self) -> tuple[int, int] | None:
        """The maximum that a program printed without a histogram, and its step, if no series has a
        higher one."""
        if "printed" not in self.run["environment"]:
            return None
        drawn = {one["step"] for one in self.due}
        found = [
            (row["max"], table["step"])
            for table in self.run["tables"]
            if table["name"] == "printed" and table["step"] not in drawn
            for row in integers(table)
            if "max" in row
        ]
        top = max(found, default=None)
        above = top is not None and (self.top is None or top[0] > (peak(self.top) or 0))
        return top if above else None

    @functools.cached_property
    def longest(self) -> Any:
        """The series with the highest maximum, or else that of all without due times; None without
        one."""
        at = None if self.top else worst(self.without_due)
        return self.top if at is None else self.without_due[at]

    @functools.cached_property
    def loaded(self) -> list[Any]:
        return [one for one in self.best if under_load(self.step(one))]

    @functools.cached_property
    def idle(self) -> list[Any]:
        return [
            one
            for one in self.best
            if self.step(one)["load"]["name"] == "idle" and not self.crowded(one)
        ]

    @functools.cached_property
    def traced(self) -> list[Any]:
        """Those of an idle system with the trace of ``--explain``."""
        return [one for one in self.best if traced_alone(self.step(one)) and not self.crowded(one)]

    @functools.cached_property
    def cycles(self) -> tuple[Cycle, ...]:
        """What the data support without a budget. Samples of a step that failed were not measured
        under its load, so they support nothing. Neither do events without any answer."""
        sound = [
            one
            for one in self.proper
            if self.step(one)["state"] != "failed" and one["step"] not in self.unanswered
        ]
        if not sound or any(step["budget"] for step in self.measured):
            return ()
        names = {self.step(one)["load"]["name"] for one in sound}
        loaded = any(under_load(self.step(one)) for one in sound)
        if loaded and "idle" in names:
            lacking = ""
        elif loaded or names & {"idle", TRACED}:
            lacking = f"not measured {'while idle' if loaded else 'under load'}"
        else:
            lacking = "measured under an unknown load"
        return tuple(cycles(sound, lacking, 0 if self.printed is None else self.printed[0]))

    def step(self, one: Model) -> Any:
        return self.steps[one["step"]]

    def disturbed(self, one: Model) -> bool:
        return bool(self.step(one)["load"].get("disturb"))

    def crowded(self, one: Model) -> bool:
        """Whether other programs kept the CPUs busy during a step without a load."""
        return "others" in self.step(one)["load"]

    def budgets(self, steps: Iterable[Model]) -> str:
        """The budgets of these steps in words."""
        found = dict.fromkeys(numbers.microseconds(step["budget"]["budget_ns"]) for step in steps)
        return ("the budget of " if len(found) == 1 else "the budgets of ") + numbers.join(
            list(found)
        )
