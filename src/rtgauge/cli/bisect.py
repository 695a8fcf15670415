# SPDX-License-Identifier: Apache-2.0
"""Exit codes for ``git bisect run``: ``run … --exit bisect``, and that of ``xeno-test``.

git takes 0 as good, 125 as a commit that cannot be tested, 128 and more as the end of the
bisection, and everything else as bad. So a failure of any kind must not end with its usual code.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rtgauge.cli.output import say
from rtgauge.errors import ExitCode

__all__ = ["BisectCode", "asked", "code_of_error", "judge"]

_RUNS: Final = ("run", "log-host", "xeno-test")


class BisectCode(enum.IntEnum):
    """Exit codes for git. STOP ends the bisection, because every commit would give this result.
    INTERRUPTED ends it, because the user stopped the run: the code of a shell for SIGINT."""

    GOOD = 0
    BAD = 1
    UNTESTABLE = 125
    STOP = 128
    INTERRUPTED = 130


def asked(words: Sequence[str]) -> bool:
    """Whether a command line has the option, even with a wrong value."""
    return any(word in _RUNS for word in words[:2]) and any(
        word == "--exit" or word.startswith("--exit=") for word in words
    )


def code_of_error(code: int) -> BisectCode:
    """For what ended with an error of this usual exit code, after its message."""
    if code == ExitCode.USAGE:
        return _told(BisectCode.STOP, "correct the command and bisect again")
    if code == ExitCode.INTERRUPTED:
        return _told(BisectCode.INTERRUPTED, "")
    return _told(BisectCode.UNTESTABLE, "")


def judge(
    document: Mapping[str, Any],
    states: Sequence[tuple[str, str]],
    *,
    stopped: bool = False,
    refused: str = "",
) -> BisectCode:
    """For runs that came to an end: their results and, of each, its state and the reason for it.
    ``stopped``: the user stopped them. ``refused``: why they did not measure what they should.

    Bad: a budget was exceeded, or a test failed that is not a known limitation, in a step that did
    not fail and that had the real-time priority asked for. Good: everything that was asked for was
    measured, and nothing exceeded its budget. A run that is too short to prove its budget is good.
    Anything else that is not decided cannot be judged.
    """
    from rtgauge.report.results.labels import limitation, refused_part

    if stopped or refused:
        return _told(BisectCode.INTERRUPTED if stopped else BisectCode.UNTESTABLE, refused)
    runs = document["runs"]
    verdicts = [(run, one) for run in runs for one in run["verdicts"]]
    tests = [(run, one) for run in runs for one in run["tests"] if not limitation(one)]
    failed = [(run, one) for run, one in [*verdicts, *tests] if one["result"] == "fail"]
    bad = [one["evidence"] for run, one in failed if _as_asked(run, one["step"])]
    if bad:
        return _told(BisectCode.BAD, bad[0])
    for state, reason in states:
        if state != "complete":
            verb = "failed" if state == "failed" else f"was {state}"
            return _told(BisectCode.UNTESTABLE, f"the run {verb}: {reason}")
    for step in (step for run in runs for step in run["steps"]):
        if step["state"] != "complete":
            state = "failed" if step["state"] == "failed" else f"was {step['state']}"
            reason = f"{step['measurement']} {state}: {step['reason']}"
            return _told(BisectCode.UNTESTABLE, reason)
    for run, verdict in verdicts:
        if verdict["result"] != "pass" and not _within(run, verdict):
            return _told(BisectCode.UNTESTABLE, verdict["evidence"])
    undecided = [
        one["evidence"]
        for _, one in tests
        if one["result"] in ("inconclusive", "fail") or refused_part(one)
    ]
    if undecided:
        return _told(BisectCode.UNTESTABLE, undecided[0])
    if not verdicts and all(one["result"] != "pass" for _, one in tests):
        return _told(BisectCode.STOP, "nothing was judged. Add --budget, such as --budget 60us")
    return _told(BisectCode.GOOD, "")


def _as_asked(run: Mapping[str, Any], number: int) -> bool:
    """Whether a step did not fail, and had the real-time priority asked for. Otherwise its failures
    may be those of the machine or of the user's rights, not of the commit."""
    from rtgauge.report.results.labels import ordinary

    step = next(step for step in run["steps"] if step["step"] == number)
    return step["state"] != "failed" and not ordinary(run, step)


def _within(run: Mapping[str, Any], verdict: Mapping[str, Any]) -> bool:
    """Whether an undecided verdict only lacks length: no sample exceeded, none was lost or is of
    unknown value, and each event had an answer."""
    series = run["series"][verdict["series"]]
    unknown = series["lost"] or series["unanswered"] or verdict["unknown"]
    return verdict["rate_per_hour"] is None and not verdict["doubt"] and not unknown


def _told(code: BisectCode, why: str) -> BisectCode:
    words = {
        BisectCode.GOOD: "good",
        BisectCode.BAD: "bad",
        BisectCode.UNTESTABLE: "this commit cannot be judged",
        BisectCode.STOP: "the bisection ends",
        BisectCode.INTERRUPTED: "interrupted, the bisection ends",
    }
    say(f"bisect: {words[code]} (exit code {int(code)})" + (f": {why}" if why else ""))
    return code
