# SPDX-License-Identifier: Apache-2.0
"""The report as KTAP, version 1 (the kernel's Documentation/dev-tools/ktap.rst).

There are three levels: runs, the run itself with its steps, and the cases of each step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rtgauge.report.results.cases import Case, RunCases, cases_of

__all__ = ["render", "render_cases"]

_VERSION = "KTAP version 1"


@dataclass(frozen=True, slots=True)
class _Test:
    name: str
    outcome: str
    why: str
    lines: tuple[str, ...] = ()
    tests: tuple[_Test, ...] = ()


def render(model: Mapping[str, Any]) -> str:
    """The KTAP text of a results model."""
    return render_cases(map(cases_of, model["runs"]))


def render_cases(runs: Iterable[RunCases]) -> str:
    """The KTAP text of the cases of runs."""
    return "\n".join(_results([_run(run) for run in runs], "")) + "\n"


def _run(run: RunCases) -> _Test:
    tests = [_leaf(run.case)]
    tests += [_parent(group.name, [_leaf(case) for case in group.cases]) for group in run.groups]
    facts = tuple(f"{name}: {value}" for name, value in run.facts)
    return _parent(run.name, tests, (*facts, *run.findings))


def _leaf(case: Case) -> _Test:
    return _Test(case.name, case.outcome, case.why, case.lines)


def _parent(name: str, tests: list[_Test], lines: tuple[str, ...] = ()) -> _Test:
    """A test with subtests: it fails if one of them fails, and is skipped if all are skipped."""
    outcomes = {test.outcome for test in tests}
    if outcomes & {"fail", "error"}:
        outcome, why = "fail", ""
    elif outcomes == {"skip"}:
        outcome, why = "skip", tests[0].why
    else:
        outcome, why = "pass", ""
    return _Test(name, outcome, why, lines, tuple(tests))


def _results(tests: list[_Test], indent: str) -> list[str]:
    text = [f"{indent}{_VERSION}", f"{indent}1..{len(tests)}"]
    for number, test in enumerate(tests, 1):
        if test.tests:
            text += _results(list(test.tests), indent + "  ")
        text += [f"{indent}# {test.name}: {line}" for line in test.lines]
        result = "not ok" if test.outcome in ("fail", "error") else "ok"
        directive = {"skip": "SKIP ", "error": "ERROR "}.get(test.outcome, "")
        name = test.name.replace("#", "_")  # a description must not contain #
        told = f" # {directive}{test.why}".rstrip() if directive or test.why else ""
        text.append(f"{indent}{result} {number} {name}{told}")
    return text
