# SPDX-License-Identifier: Apache-2.0
"""Markdown, JUnit XML and KTAP: complete, well-formed, and true to the results model."""

from __future__ import annotations

import copy
import dataclasses
import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.cells import cell_len

import report_runs as made
from rtgauge import report, stream
from rtgauge.report.document.blocks import (
    Block,
    Bullets,
    Callout,
    Command,
    Heading,
    Section,
    Table,
)
from rtgauge.report.document.summary import short
from rtgauge.report.render import junit, ktap, markdown
from rtgauge.report.results import model
from rtgauge.report.results.cases import cases_of

Document = dict[str, Any]

EVIL = "\x1b]0;x\x07\x00]]><script>&lt;|a|`b`*c*[d](e)\r\n# f\u202eg\ufffe\u2028_h_ ![i](j) $k$ ~l~"
HOSTILE = st.one_of(
    st.just(EVIL),
    st.text(max_size=15),
    st.text("# \n\r\t|<>&*_`[]()!\\$~-+.0123=:@\x00\x0b\x1b\ufffe\ufeff", max_size=12),
)


def evaluation() -> Document:
    """Every result and state that there is, in two runs."""
    return copy.deepcopy(_evaluation())


@functools.cache
def _evaluation() -> Document:
    document = model.build([made.evaluation(2, 3000), made.simple().run])  # type: ignore[list-item]
    run = document["runs"][0]
    for result in ("pass", "fail", "inconclusive", "skipped", "known"):
        test = {"step": 3, "measurement": "clock-cost", "rule": f"rule-{result}"}
        test |= {
            "result": result,
            "evidence": f"seen {result}",
            "remedy": f"do {result}",
            "command": "",
        }
        run["tests"].append({**test, "known_limitation": None})
    run["tests"][-1] |= {"result": "fail", "known_limitation": "no library does"}
    for number, state in enumerate(("failed", "interrupted", "skipped", "running"), 4):
        step = copy.deepcopy(run["steps"][2])
        step |= {"step": number, "state": state, "reason": f"why {state}", "remedy": "r"}
        run["steps"].append(step)
    model.validate(document)
    return document


@functools.cache
def _analysis() -> model.Analysis:
    return model.analyse([made.evaluation(2, 3000), made.simple().run])  # type: ignore[list-item]


def markdown_of(document: Document) -> str:
    return markdown.render(short(dataclasses.replace(_analysis(), model=document)))


@functools.cache
def _plain() -> str:
    return markdown_of(evaluation())


def hostile(texts: list[str]) -> Document:
    """Foreign text at every place where a target can put some."""
    document = evaluation()
    run = document["runs"][0]
    given = iter(texts * 1000)
    run |= {key: next(given) for key in ("label", "target", "reason", "remedy", "started", "id")}
    run["environment"]["kernel"]["release"] = next(given)
    run["environment"]["settings"] = {
        next(given): {"asked": next(given), "effective": next(given), "reason": next(given)}
    }
    for finding in run["findings"]:
        finding |= {key: next(given) for key in ("check", "found", "why", "remedy")}
    for step in run["steps"]:
        step |= {key: next(given) for key in ("measurement", "reason", "remedy")}
        step["load"]["name"] = next(given)
        step["parameters"] = {next(given): next(given)}
        step["events"] = [{"event": "message", "time_s": 1.5, "text": next(given)}]
    for series in run["series"]:
        series |= {"name": next(given), "labels": {next(given): next(given)}}
    for table in run["tables"]:
        table["name"] = next(given)
        table["columns"][0]["name"] = next(given)
        table["rows"][0][0] = next(given)
    for verdict in run["verdicts"]:
        verdict |= {key: next(given) for key in ("evidence", "remedy")}
    for test in run["tests"]:
        test |= {key: next(given) for key in ("rule", "evidence", "remedy")}
        if test["known_limitation"] is not None:
            test["known_limitation"] = next(given)
    model.validate(document)
    return document


def outcomes(document: Document) -> list[list[str]]:
    """What becomes of each case by docs/reference/report.md, written from that page alone: for each
    run the run itself, then for each step the step, its verdicts, its tests, its series without a
    verdict."""
    states = {"complete": "pass", "skipped": "skip"}
    results = {"pass": "pass", "fail": "fail", "inconclusive": "skip", "skipped": "skip"}
    found = []
    for run in document["runs"]:
        found.append([states.get(run["state"], "error")])
        for step in run["steps"]:
            number = step["step"]
            cases = [states.get(step["state"], "error")]
            verdicts = [one for one in run["verdicts"] if one["step"] == number]
            cases += [results[one["result"]] for one in verdicts]
            cases += [
                "skip" if one["known_limitation"] is not None else results[one["result"]]
                for one in run["tests"]
                if one["step"] == number
            ]
            judged = {one["series"] for one in verdicts}
            if step["budget"] and step["state"] == "complete" and not judged:
                cases.append("skip")
            cases += [
                "pass" if series["count"] else "skip"
                for place, series in enumerate(run["series"])
                if series["step"] == number and place not in judged
            ]
            found.append(cases)
    return found


def is_plain(text: str) -> bool:
    """Whether nothing is in it that a terminal obeys or that turns text around."""
    return not any(unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp") for one in text)


# --- JUnit XML ------------------------------------------------------------------------------------

XML_TOKEN = re.compile(r"\S+( \S+)*")
REQUIRED = {
    "package": XML_TOKEN,
    "id": re.compile(r"\d+"),
    "name": XML_TOKEN,
    "timestamp": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"),
    "hostname": XML_TOKEN,
    "tests": re.compile(r"\d+"),
    "failures": re.compile(r"\d+"),
    "errors": re.compile(r"\d+"),
    "skipped": re.compile(r"\d+"),
    "time": re.compile(r"\d+\.\d+"),
}


def check_junit(text: str) -> list[list[str]]:
    """The outcomes of each suite; AssertionError where it is not valid by Ant's schema."""
    root = ElementTree.fromstring(text.encode())
    assert root.tag == "testsuites" and not root.attrib
    found = []
    for number, suite in enumerate(root):
        assert suite.tag == "testsuite" and suite.attrib.keys() == REQUIRED.keys()
        for name, pattern in REQUIRED.items():
            assert pattern.fullmatch(suite.attrib[name]), (name, suite.attrib[name])
        assert suite.attrib["id"] == str(number)
        tags = [child.tag for child in suite]
        cases = [child for child in suite if child.tag == "testcase"]
        assert tags == ["properties", *["testcase"] * len(cases), "system-out", "system-err"]
        for one in suite[0]:
            assert one.tag == "property" and one.attrib.keys() == {"name", "value"}
        kinds = []
        for case in cases:
            assert case.attrib.keys() == {"classname", "name", "time"}
            assert XML_TOKEN.fullmatch(case.attrib["name"])
            assert case.attrib["classname"] == suite.attrib["name"]
            assert len(case) <= 1
            for child in case:
                attributes = {"skipped": {"message"}}.get(child.tag, {"message", "type"})
                assert child.attrib.keys() == attributes and child.attrib["message"]
            names = {"skipped": "skip", "error": "error", "failure": "fail"}
            kinds.append(names[case[0].tag] if len(case) else "pass")
        assert len({case.attrib["name"] for case in cases}) == len(cases)
        assert int(suite.attrib["tests"]) == len(kinds)
        for key, kind in (("failures", "fail"), ("errors", "error"), ("skipped", "skip")):
            assert int(suite.attrib[key]) == kinds.count(kind)
        found.append(kinds)
    return found


@pytest.mark.slow
def test_junit() -> None:
    document = evaluation()
    text = junit.render(document)
    assert check_junit(text) == outcomes(document)
    root = ElementTree.fromstring(text)
    (failure,) = root.findall(".//testcase[@name='rule-fail']/failure")
    # language-ok: evidence and remedy of a verdict
    assert failure.attrib == {"message": "seen fail; do fail", "type": "verdict"}
    assert failure.text == "seen fail; do fail"  # language-ok: as above
    (open_one,) = root.findall(".//testcase[@name='rule-inconclusive']/skipped")
    assert open_one.attrib["message"].startswith("inconclusive: seen inconclusive")
    told = "".join(one.text or "" for one in root.iter("system-out"))
    assert "error: preemption" in told and "max 28.0 µs" in told
    assert root[0].attrib["hostname"] == "local" and root[0].attrib["time"] == "63.200"


def test_without_a_requirement_nothing_fails() -> None:
    run = made.simple().run
    assert any(finding["level"] == "error" for finding in run.document["findings"])
    document = model.build([run])
    assert outcomes(document) == check_junit(junit.render(document)) == [["pass"], ["pass", "pass"]]
    (one,) = check_ktap(ktap.render(document))
    assert one.result == "ok" and not one.directive


@pytest.mark.parametrize("unit", [None, "count"])
def test_a_budget_that_was_not_judged_does_not_pass(unit: str | None) -> None:
    """A complete step without a series, or without one in the unit of a budget."""
    series = made.sampled(np.full(60, 7, np.int32), unit=unit or "ns")
    step = made.step(0, [series] if unit else [], budget_ns=150_000)
    runs: Any = [made.run([step], findings=[])]
    document = model.build(runs)
    assert document["runs"][0]["steps"][0]["state"] == "complete"
    kinds = ["pass", "skip", "pass"] if unit else ["pass", "skip"]
    assert outcomes(document) == check_junit(junit.render(document)) == [["pass"], kinds]
    (run,) = check_ktap(ktap.render(document))
    (_, one) = run.tests
    check_parents([run])
    (budget,) = [case for case in one.tests if case.directive]
    assert (
        budget.name.endswith("µs")
        and budget.name.startswith("budget 150")
        and "no series was judged" in budget.told
    )


# --- KTAP -----------------------------------------------------------------------------------------


@dataclass
class Test:
    """A result line and the tests nested in it."""

    __test__ = False
    result: str
    name: str
    directive: str
    told: str
    tests: list[Test] = field(default_factory=list)


def check_ktap(text: str) -> list[Test]:
    """A parser of KTAP, version 1, from the kernel's page; AssertionError where it is not."""
    lines = text.split("\n")
    assert lines.pop() == ""
    tests, rest = _tests(lines, "")
    assert not rest
    return tests


def _tests(lines: list[str], indent: str) -> tuple[list[Test], list[str]]:
    assert lines.pop(0) == f"{indent}KTAP version 1"
    plan = re.fullmatch(rf"{indent}1\.\.(\d+)", lines.pop(0))
    assert plan
    tests: list[Test] = []
    nested: list[Test] = []
    while lines and len(tests) < int(plan[1]):
        if lines[0] == f"{indent}  KTAP version 1":
            assert not nested
            nested, lines = _tests(lines, indent + "  ")
            continue
        line = lines.pop(0)
        assert line.startswith(indent) and line[len(indent)] != " ", line
        line = line.removeprefix(indent)
        assert is_plain(line), ascii(line)
        if line.startswith("# "):
            continue
        found = re.fullmatch(r"(ok|not ok) (\d+) ([^#]*?)(?: # (?:(SKIP|ERROR)\b ?)?(.*))?", line)
        assert found and int(found[2]) == len(tests) + 1, line
        tests.append(Test(found[1], found[3], found[4] or "", found[5] or "", nested))
        nested = []
    assert len(tests) == int(plan[1])
    return tests, lines


def kind_of(test: Test) -> str:
    kinds = {
        ("ok", ""): "pass",
        ("ok", "SKIP"): "skip",
        ("not ok", ""): "fail",
        ("not ok", "ERROR"): "error",
    }
    return kinds[test.result, test.directive]


def check_parents(tests: list[Test]) -> None:
    for test in tests:
        below = [kind_of(one) for one in test.tests]
        if below:
            assert (test.result == "not ok") == bool({"fail", "error"} & set(below))
            assert (test.directive == "SKIP") == (set(below) == {"skip"})
        check_parents(test.tests)


def kinds(tests: list[Test]) -> list[list[str]]:
    found = []
    for run in tests:
        found.append([kind_of(run.tests[0])])
        found += [[kind_of(case) for case in step.tests] for step in run.tests[1:]]
    return found


def test_ktap() -> None:
    document = evaluation()
    tests = check_ktap(ktap.render(document))
    assert kinds(tests) == outcomes(document)
    check_parents(tests)
    steps = {step.name: step for step in tests[0].tests}
    skipped = steps["step 3 round-robin, idle"]
    assert skipped.directive == "SKIP" and "no right to use real-time" in skipped.told
    rules = {case.name: case for case in steps["step 4 clock-cost, idle"].tests}
    # language-ok: evidence and remedy of a verdict
    assert kind_of(rules["rule-fail"]) == "fail" and rules["rule-fail"].told == "seen fail; do fail"
    assert rules["rule-inconclusive"].told.startswith("inconclusive: seen")


# --- Markdown -------------------------------------------------------------------------------------


def tables(text: str) -> list[list[str]]:
    blocks = text.strip().split("\n\n")
    return [block.split("\n") for block in blocks if block.startswith("|")]


def parsed(text: str) -> list[Any]:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def words(text: str) -> str:
    """What a reader sees of it, blanks alike."""
    parts = [
        child.content
        for token in parsed(text)
        for child in token.children or (token,)
        if child.type in ("text", "text_special", "code_inline", "fence")
    ]
    return " ".join(" ".join(parts).split())


@pytest.mark.slow
def test_markdown() -> None:
    document = evaluation()
    text = markdown_of(document)
    assert re.findall("^## .*", text, re.MULTILINE) == [
        "## Runs",
        "## local: bench board",
        "## Summary",
        "## local",
        "## Summary",
    ]
    head = text.partition("\n## ")[0]
    assert re.fullmatch(
        r"# Real-time evaluation of local\n\n2 runs.*, each .* with its set-up"
        r"(, sampled for [^;]*)?; 2026-11-21.*\n",
        head,
    )
    document["runs"] = document["runs"][:1]  # the chapters and the system are those of one run
    for one in document["bounds"]:
        one["series"] = [place for place in one["series"] if place[0] == 0]
    text = markdown_of(document)
    assert re.findall("^## .*", text, re.MULTILINE) == [
        "## Answer",
        "## Summary",
        "## Timer",
        "## Round-robin",
        "## Clock-cost",
        "## System",
    ]
    seen = words(text)
    run = document["runs"][0]
    for step in run["steps"]:
        if step["state"] in ("skipped", "failed"):
            assert f"{step['reason']}".capitalize() in seen
    assert "clock-cost (step 4): rule-fail. Seen fail. Do fail." in seen
    for finding in run["findings"]:
        if finding["level"] in ("error", "warning"):
            assert finding["remedy"] in seen
    assert re.search(r"\| timer: latency +\| +6 000 \|", text)
    assert len(tables(text)) > 5
    for table in tables(text):
        assert len({cell_len(line) for line in table}) == 1, "the columns are not in line"


# --- all ------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(texts=st.lists(HOSTILE, min_size=1, max_size=12))
@settings(max_examples=25)
def test_hostile_text_stays_text(texts: list[str]) -> None:
    document = hostile(texts)
    assert check_junit(junit.render(document)) == outcomes(document)
    tests = check_ktap(ktap.render(document))
    assert kinds(tests) == outcomes(document)
    check_parents(tests)
    tree = short(dataclasses.replace(_analysis(), model=document))
    text = markdown.render(tree)
    assert is_plain(text.replace("\n", ""))
    plain = parsed(_plain())
    tokens = parsed(text)
    allowed = {child.type for token in plain for child in token.children or ()}
    for token in tokens:
        assert token.type not in ("html_block", "code_block", "hr")
        assert not token.type.endswith("setext")
        for child in token.children or ():
            if child.type == "html_inline":  # it keeps an address or a name from being a link
                assert child.content == "<!-- -->"
                continue
            assert child.type in allowed | {"text_special"}, (child.type, child.content)
    drawn = list(blocks_of(tree.sections))
    for kind, types in (
        ("table_open", Table),
        ("fence", Command),
        ("blockquote_open", Callout),
        ("heading_open", Section | Heading),
    ):
        number = sum(isinstance(block, types) for block in drawn)
        title = kind == "heading_open"
        assert sum(token.type == kind for token in tokens) == number + title, kind


def blocks_of(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Section | Callout):
            yield from blocks_of(block.blocks)
        if isinstance(block, Bullets):
            yield from blocks_of(inner for _, more in block.items for inner in more)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".md", ".xml", ".tap"])
def test_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"report{suffix}"
    runs: Any = [made.evaluation(1, 2000)]
    report.write(runs, path)
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n") and "µs" in text
    assert text.encode() == report.FORMATS[suffix](report.Source(runs))


def test_nothing_was_measured() -> None:
    """A run that ended before its first step, a series without samples, or no run at all."""
    empty = made.sampled(np.arange(0, dtype=np.int32))
    odd = made.run([made.step(0, [empty], tables=[stream.Table(0, "none", (), ())])], started="")
    runs: Any = [made.run([], state="failed", reason="the board was lost"), odd]
    for document in (model.build(runs), model.build([])):
        assert check_junit(junit.render(document)) == outcomes(document)
        assert kinds(check_ktap(ktap.render(document))) == outcomes(document)
    assert "## local\n" in markdown.render(short(model.analyse(runs)))
    assert markdown.render(short(model.analyse([]))).startswith("# Real-time evaluation")
    assert "the board was lost" in junit.render(model.build(runs))
    assert cases_of(model.build(runs)["runs"][1]).groups[0].cases[1].why == "no sample was taken"


def test_a_bare_address_of_a_target_is_not_a_link_on_a_forge() -> None:
    """As GitHub's Markdown makes links of ``http://a`` and ``www.a`` without any mark."""
    shown = markdown.escape("see HTTPS://evil.example/x, www.evil.example, at 10:00 a.m.")
    assert shown == r"see HTTPS\://evil.example/x, www\.evil.example, at 10:00 a.m."


def test_a_mail_address_of_a_target_is_not_a_link_on_a_forge() -> None:
    """A backslash does not prevent this link, as a trial of GitHub's own library showed."""
    shown = markdown.escape(
        "mailto:a.b+c@d-e.f.org, _@x.y, ssh://root@board, fifo @ 1.5 ms, xmpp:@x.y"
    )
    assert shown == (
        r"mailto:a.b+c@<!-- -->d-e.f.org, \_@<!-- -->x.y, ssh\://root@board, fifo @ 1.5 ms, "
        r"xmpp:@<!-- -->x.y"
    )


def test_a_name_in_the_text_of_a_target_notifies_nobody() -> None:
    """In a comment, a forge makes a link of ``@name`` and tells that person."""
    assert markdown.escape("@all, (@a-b) root@board") == "@<!-- -->all, (@<!-- -->a-b) root@board"
