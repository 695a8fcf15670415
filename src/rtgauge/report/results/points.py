# SPDX-License-Identifier: Apache-2.0
"""The strengths and concerns of a run in sentences, from the results model alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.results.labels import (
    KNOWN,
    Level,
    capital,
    carried_out,
    chapters,
    group_series,
    is_response,
    judged,
    ordinary,
    representative,
    series_labels,
    step_name,
    step_number,
    waits_for_answers,
)

__all__ = ["Point", "negative_points", "positive_points", "prepared", "verdict_of_run"]

Run = Mapping[str, Any]

UNDISTURBED: Final = "these are not the figures of the undisturbed system"


@dataclass(frozen=True)
class Point:
    """A sentence with its weight: ``pass``, ``note``, ``warn`` or ``fail``."""

    kind: str
    text: str
    note: str = ""


def _plural(number: int, one: str, many: str) -> str:
    return f"{numbers.count(number)} {one if number == 1 else many}"


def _where(run: Run, step: Mapping[str, Any]) -> str:
    return f"{step_name(run, step)} (step {step_number(step)})"


def _what_failed(run: Run) -> str:
    if asked := sum(verdict["result"] == "fail" for verdict in run["verdicts"]):
        return "Requirements were not met" if asked > 1 else "A requirement was not met"
    tests = sum(one["result"] == "fail" and not one["known_limitation"] for one in run["tests"])
    return "Some tests failed" if tests > 1 else "A test failed"


def _judged(run: Run, number: int) -> str:
    """A number of verdicts and tests by the words for what is among them."""
    if not run["verdicts"]:
        return _plural(number, "test", "tests")
    if run["tests"]:
        return _plural(number, "verdict or test", "verdicts and tests")
    return _plural(number, "verdict", "verdicts")


def verdict_of_run(run: Run) -> Point:
    """The headline of the report, and what it rests on."""
    results = [one["result"] for step in run["steps"] for one in judged(run, step["step"])]
    states = [step["state"] for step in carried_out(run)]
    failed, passed = results.count("fail"), results.count("pass")
    open_ones = results.count("inconclusive")
    broken = [step for step in run["steps"] if step["state"] == "failed"]
    reserve = _reserve(run)
    if run["state"] == "failed" or broken:
        reason = run["reason"] or (broken[0]["reason"] if broken else "")
        what = (
            "The run failed"
            if not broken or len(broken) == len(states)
            else "A part of the run failed"
        )
        return Point("fail", what, _sentence(reason) + _sentence(run["remedy"]) + reserve)
    if failed:
        return Point(
            "fail",
            _what_failed(run),
            f"{failed} of {_judged(run, len(results))} failed." + reserve,
        )
    if run["state"] in ("interrupted", "running"):
        what = "was interrupted" if run["state"] == "interrupted" else "has not ended"
        return Point(
            "warn",
            f"The run {what}",
            _sentence(run["reason"]) + "The report shows what was measured." + reserve,
        )
    if states and all(state == "skipped" for state in states):
        return Point("warn", "Nothing could be measured", _sentence(run["steps"][0]["reason"]))
    if open_ones:
        return Point(
            "warn",
            "Inconclusive",
            f"{open_ones} of {_judged(run, len(results))} "
            f"{'is' if open_ones == 1 else 'are'} inconclusive. None failed." + reserve,
        )
    skipped = states.count("skipped")
    if skipped * 4 >= len(states) > 1:
        reasons = [step["reason"] for step in carried_out(run) if step["state"] == "skipped"]
        return Point(
            "warn",
            f"Incomplete: {skipped} of {len(states)} steps were skipped",
            _sentence(max(reasons, key=reasons.count))
            + (f"{_judged(run, passed)} passed." if passed else "")
            + reserve,
        )
    if skipped:
        reserve = f" {_plural(skipped, 'step was', 'steps were')} skipped.{reserve}"
    if known := results.count(KNOWN):
        reserve = f" {_plural(known, 'known limitation', 'known limitations')}.{reserve}"
    if passed:
        met = "All tests passed" if not known else "All other tests passed"
        return Point(
            "pass",
            "All requirements were met" if run["verdicts"] else met,
            f"{_judged(run, passed)} passed." + reserve,
        )
    return Point(
        "note",
        "Measured without a requirement",
        "With a budget (--budget), each series gets a verdict." + reserve,
    )


def _reserve(run: Run) -> str:
    """What limits the figures: injections, and the number of errors and warnings; else empty."""
    disturbed = sum(bool(step["load"].get("disturb")) for step in carried_out(run))
    told = ""
    if disturbed:
        told = f" An injection disturbed {_plural(disturbed, 'step', 'steps')}: {UNDISTURBED}."
    levels = [finding["level"] for finding in run["findings"]]
    errors, warnings = levels.count("error"), levels.count("warning")
    found = [
        _plural(number, name, name + "s")
        for number, name in ((errors, "error"), (warnings, "warning"))
        if number
    ]
    if not found:
        return told
    verb = "limits" if errors + warnings == 1 else "limit"
    return f"{told} {numbers.join(found)} about the system {verb} what these figures show."


def _sentence(text: str) -> str:
    text = text.strip()
    if not text:
        return ""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".") + " "


def positive_points(run: Run) -> list[Point]:
    """Strengths: what was shown to hold."""
    points = []
    parts = chapters(run)
    for name, steps in parts.items():
        points += _chapter_points(run, name, steps)
    for step in () if parts else carried_out(run):
        where = _where(run, step)
        results = judged(run, step["step"])
        good = [v for v in results if v["result"] == "pass"]
        if good and len(good) == len(results):
            rules = list(dict.fromkeys(v["rule"] for v in good))
            text = f"{where}: {numbers.join(rules[:3])} held"
            text += "." if len(rules) < 4 else f", and {len(rules) - 3} more."
            note = good[0]["evidence"] if len(good) == 1 else f"{len(good)} verdicts"
            points.append(Point("pass", text, note))
        elif good:
            points.append(Point("pass", f"{where}: {len(good)} of {len(results)} verdicts passed."))
    grid = [one for one in run["series"] if one["interval_ns"] > 0 and one["count"]]
    if grid and not any(one["missed"] for one in grid):
        due = sum(one["count"] for one in grid)
        points.append(Point("pass", f"None of {numbers.count(due)} periods was missed."))
    streams = [step["stream"] for step in run["steps"] if step["stream"] is not None]
    if (
        run["series"]
        and streams
        and not any(one["lost"] for one in run["series"])
        and all(s["complete"] and not s["lost_records"] and not s["dropped_bytes"] for s in streams)
    ):
        whole = all(one["source"] == "samples" for one in run["series"])
        kept = "was kept" if whole else "counts, some in histograms only"
        points.append(Point("pass", f"Every sample {kept}, and no part of a stream was lost."))
    preparation = prepared(run)
    if preparation is not None and preparation.kind == "pass":
        points.append(preparation)
    good_checks = [f for f in run["findings"] if f["level"] == "ok"]
    if parts and len(good_checks) > 2:
        text = f"{len(good_checks)} checks found the system ready for real time."
        return [*points, Point("pass", text, numbers.join([f["check"] for f in good_checks]))]
    points += [Point("pass", f"{f['check']}: {f['found']}") for f in good_checks]
    return points


def _chapter_points(run: Run, name: str, steps: Sequence[Mapping[str, Any]]) -> list[Point]:
    """Strengths in a chapter of an evaluation: passed verdicts, and constant quantities."""
    points = []
    results = [one for step in steps for one in judged(run, step["step"])]
    good = [v for v in results if v["result"] == "pass"]
    if good:
        counted = [v for v in results if v["result"] != "skipped"]
        which = f"all {len(good)}" if len(good) == len(counted) > 1 else f"{len(good)}"
        if len(good) < len(counted):
            which += f" of {len(counted)}"
        what = "verdict" if which == "1" else "verdicts"
        places = dict.fromkeys(
            step_name(run, step) for step in steps if any(v["step"] == step["step"] for v in good)
        )
        points.append(Point("pass", f"{name}: {which} {what} passed.", numbers.join(list(places))))
    for step in steps:
        for observation in step["observations"]:
            if observation["rule"] == "steady":
                points.append(Point("pass", f"{_where(run, step)}: {observation['text']}"))
    return points


def negative_points(run: Run) -> list[Point]:
    """Concerns: what failed, was lost or limits the claims, the most severe first."""
    points = _broken_points(run)
    points += _verdict_points(run)
    for step in carried_out(run):
        where = _where(run, step)
        if words := ordinary(run, step):
            points.append(Point("fail", f"{where} was {words}."))
        if disturb := step["load"].get("disturb"):
            text = f"{where}: an injection ({disturb}) disturbed this step"
            points.append(Point("warn", f"{text}. {capital(UNDISTURBED)}."))
        members = [one for one in run["series"] if one["step"] == step["step"]]
        missed, lost = (sum(one[key] for one in members) for key in ("missed", "lost"))
        stream = step["stream"]
        if missed:
            due = missed + sum(one["count"] for one in members)
            answers = all(waits_for_answers(o["name"], o["unit"]) for o in members if o["missed"])
            text = (
                f"{numbers.count(missed)} of {_plural(due, 'event', 'events')} without an answer"
                if answers
                else f"{numbers.count(missed)} of {_plural(due, 'period', 'periods')} missed"
            )
            points.append(Point("warn", f"{where}: {text}."))
        if lost:
            responses = all(is_response(o["name"], o["unit"]) for o in members if o["lost"])
            text = (
                f"{_plural(lost, 'event', 'events')} without a sample, because the answers are "
                "ambiguous or were lost"
                if responses
                else f"{_plural(lost, 'sample', 'samples')} lost after they were taken"
            )
            points.append(Point("warn", f"{where}: {text}."))
        changed = [one["text"] for one in step["events"] if one["event"] == "setting"]
        if changed:
            points.append(
                Point(
                    "warn",
                    f"{where}: {_plural(len(changed), 'setting', 'settings')} changed during the "
                    "measurement.",
                    changed[0],
                )
            )
        if stream is not None and (
            stream["lost_records"] or stream["dropped_bytes"] or not stream["complete"]
        ):
            parts = []
            if stream["lost_records"]:
                parts.append(_plural(stream["lost_records"], "record lost", "records lost"))
            if stream["dropped_bytes"]:
                parts.append(_plural(stream["dropped_bytes"], "byte dropped", "bytes dropped"))
            if not stream["complete"]:
                parts.append("it ends early")
            points.append(
                Point(
                    "warn",
                    f"{where}: the stream is damaged: {numbers.join(parts)}.",
                    stream["reason"],
                )
            )
    for step in carried_out(run) if chapters(run) else ():
        points += [
            Point("warn", f"{_where(run, step)}: {observation['text']}")
            for observation in step["observations"]
            if observation["rule"] == "growth"
        ]
    preparation = prepared(run)
    if preparation is not None and preparation.kind != "pass":
        points.append(preparation)
    found = [f for f in run["findings"] if Level.of(f["level"]) >= Level.WARNING]
    for f in sorted(found, key=lambda f: -Level.of(f["level"])):
        kind = "fail" if f["level"] == "error" else "warn"
        points.append(Point(kind, f"{f['check']}: {f['found']}", f["remedy"]))
    return sorted(points, key=lambda point: point.kind != "fail")


def prepared(run: Run) -> Point | None:
    """Whether the target was prepared as asked (``--prepare``); None if that was not asked for."""
    steps = (run["plan"] or {}).get("steps") or ()
    settings = run["environment"]["settings"]
    if not settings or not any(step.get("prepare") for step in steps):
        return None
    reasons = [f"{name}: {one['reason']}" for name, one in settings.items() if one.get("reason")]
    done = f"{len(settings) - len(reasons)} of {_plural(len(settings), 'setting', 'settings')}"
    if not reasons:
        return Point("pass", f"--prepare: {done} as asked.")
    more = f", and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return Point("warn", f"--prepare: only {done} as asked.", reasons[0] + more)


def _broken_points(run: Run) -> list[Point]:
    """Steps that did not complete, grouped by their reason."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for step in carried_out(run):
        if step["state"] in ("failed", "interrupted", "skipped"):
            key = (step["state"], step["reason"] or "no reason recorded", step["remedy"])
            alike.setdefault(key, []).append(_where(run, step))
    points = []
    for (state, reason, remedy), places in alike.items():
        who = numbers.join(places)
        was = "" if state == "failed" else "was " if len(places) == 1 else "were "
        kind = "fail" if state == "failed" else "warn"
        points.append(Point(kind, f"{who} {was}{state}: {reason}", remedy))
    return points


def _verdict_points(run: Run) -> list[Point]:
    points = []
    for step in carried_out(run):
        where = _where(run, step)
        places = [p for p, one in enumerate(run["series"]) if one["step"] == step["step"]]
        names: dict[int, str] = {}
        for members in group_series(run["series"], places):
            names.update(
                zip(members, series_labels([run["series"][p] for p in members]), strict=True)
            )
        for result, kind in (("fail", "fail"), ("inconclusive", "warn"), (KNOWN, "warn")):
            found = [one for one in judged(run, step["step"]) if one["result"] == result]
            for rule in dict.fromkeys(v["rule"] for v in found):
                same = [v for v in found if v["rule"] == rule]
                whose = [names[v["series"]] for v in same if v["series"] in names]
                shown = numbers.join(
                    whose[:4] + ([f"{len(whose) - 4} more"] if len(whose) > 4 else [])
                )
                if len(whose) == len(places) > 2:
                    shown = f"all {len(whose)} series"
                word = {"fail": "failed", KNOWN: "failed, a known limitation"}.get(
                    result, "is inconclusive"
                )
                text = f"{where}: {rule} {word}" + (f" on {shown}" if shown else "")
                evidence, remedy = representative(same, run["series"], names)
                note = f"{_sentence(evidence)}{_sentence(remedy)}".strip()
                points.append(Point(kind, text + ".", note))
    return points
