# SPDX-License-Identifier: Apache-2.0
"""The report as JUnit XML, for continuous integration.

Valid against the schema of Ant's reports, the strictest in use (`JUnit.xsd` of windyroad): a suite
for each run and one for each step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from rtgauge.report.results.cases import Case, RunCases, cases_of

__all__ = ["render", "render_cases"]

_ELEMENTS = {"fail": "failure", "error": "error", "skip": "skipped"}
_UNKNOWN_TIME = "1970-01-01T00:00:00"


def render(model: Mapping[str, Any]) -> str:
    """The XML document of a results model."""
    return render_cases(map(cases_of, model["runs"]))


def render_cases(runs: Iterable[RunCases]) -> str:
    """The XML document of the cases of runs."""
    root = ElementTree.Element("testsuites")
    for run in runs:
        _suite(root, run, "run", [run.case], run.seconds, run.findings)
        for group in run.groups:
            _suite(root, run, group.name, group.cases, group.seconds, ())
    ElementTree.indent(root)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        + ElementTree.tostring(root, encoding="unicode").replace("\r", "&#13;")
        + "\n"
    )


def _suite(
    root: ElementTree.Element,
    run: RunCases,
    name: str,
    cases: Sequence[Case],
    seconds: float,
    told: Iterable[str],
) -> None:
    outcomes = [case.outcome for case in cases]
    time = re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", run.started, re.ASCII)
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        {
            "id": str(len(root)),
            "package": run.id,
            "name": name,
            "timestamp": time[0] if time else _UNKNOWN_TIME,
            "hostname": run.target,
            "tests": str(len(cases)),
            "failures": str(outcomes.count("fail")),
            "errors": str(outcomes.count("error")),
            "skipped": str(outcomes.count("skip")),
            "time": f"{seconds:.3f}",
        },
    )
    properties = ElementTree.SubElement(suite, "properties")
    for key, value in run.facts:
        ElementTree.SubElement(properties, "property", {"name": key, "value": value})
    for case in cases:
        _case(suite, name, case)
    lines = [*told, *(f"{case.name}: {line}" for case in cases for line in case.lines)]
    ElementTree.SubElement(suite, "system-out").text = "\n".join(lines)
    ElementTree.SubElement(suite, "system-err")


def _case(suite: ElementTree.Element, group: str, case: Case) -> None:
    attributes = {"classname": group, "name": case.name, "time": "0"}
    element = ElementTree.SubElement(suite, "testcase", attributes)
    if case.outcome == "pass":
        return
    why = {"message": case.why}
    if case.outcome != "skip":
        why["type"] = "verdict" if case.outcome == "fail" else "state"
    ElementTree.SubElement(element, _ELEMENTS[case.outcome], why).text = case.why
