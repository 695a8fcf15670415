# SPDX-License-Identifier: Apache-2.0
"""Common steps of ``run`` and ``evaluate``: carry out a plan, show results, write reports."""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from rtgauge.cli.bisect import judge
from rtgauge.cli.brief import keep
from rtgauge.cli.options import named_store
from rtgauge.cli.output import (
    print_answers,
    print_comparison,
    print_error,
    print_json,
    print_results,
    say,
    show,
    unread,
)
from rtgauge.cli.project import project
from rtgauge.errors import ExitCode, RtgaugeError, UsageError

if TYPE_CHECKING:
    from rtgauge.engine.run import RunOutcome
    from rtgauge.plan import Plan
    from rtgauge.report import Cover, Source
    from rtgauge.store import Store
    from rtgauge.target import Target

__all__ = [
    "Talk",
    "as_root",
    "check_dry",
    "check_report",
    "execute_plan",
    "of_project",
    "say_unbuilt",
    "show_results",
    "unused_names",
]

#: Test of the agent (agent/run/modes.h), skipped where a core refused the step.
_ON_CORE: Final = "stays out-of-band"

Kind = Literal["", "evaluation", "xeno-test"]


def check_report(path: Path) -> None:
    """Raise UsageError or RtgaugeError before measuring if the report could not be written."""
    from rtgauge.report import format_of

    format_of(path)
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} for the report", "create it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise RtgaugeError(
            f"the report cannot be written: no permission to write to {path.parent.absolute()}",
            "name a file elsewhere with -o FILE, or change to another folder",
        )


def check_dry(plan: Plan, targets: Sequence[Target]) -> None:
    """Raise UsageError if the plan does not fit the targets, and say what will be built for them.
    Boots no board of the lab."""
    from rtgauge.engine.environment import check_cpus
    from rtgauge.engine.study import settle
    from rtgauge.plan import check_texts

    check_texts(plan)
    settle(plan, targets)
    for target in targets:
        check_cpus(plan, target)
    say_unbuilt(targets)


def say_unbuilt(targets: Sequence[Target]) -> None:
    """Say in a dry run what will be built for the targets."""
    from rtgauge.target.base import Previewable

    unbuilt = [one.unbuilt() for one in targets if isinstance(one, Previewable)]
    for what in dict.fromkeys(filter(None, unbuilt)):
        say(f"the run will first build {what} (once, takes a few minutes)")


def of_project(plan: Plan) -> Plan:
    """The plan with the file of the project, which is printed and recorded."""
    found = project()
    if found.path is None:
        return plan
    say(f"{found.path}" + (f": {found}" if str(found) else ""))
    return replace(plan, project=str(found.path))


def as_root(plan: Plan, given: Mapping[str, Any]) -> Plan:
    """The plan with load commands that run as root, if the user says so."""
    if not given["load_cmd_root"]:
        return plan
    steps = (
        step.with_option("load-cmd-root", True) if step.load_command else step
        for step in plan.steps
    )
    return replace(plan, steps=tuple(steps))


def unused_names(target: str, date: str, suffixes: Sequence[str]) -> list[Path]:
    """Names for the reports on a target in the current folder that no file has yet."""
    host = platform.node() if target == "local" else target
    host = re.sub(r"[^A-Za-z0-9.-]+", "-", host).strip("-.") or "target"
    for number in itertools.count(1):
        name = f"rtgauge-report-{host}-{date}" + (f"-{number}" if number > 1 else "")
        paths = [Path(name + suffix) for suffix in suffixes]
        if not any(path.exists() for path in paths):
            return paths
    raise AssertionError("unreachable")


@dataclass(frozen=True)
class Talk:
    """What is printed: ``quiet`` the answer and failures, ``view`` the live view, ``as_json`` the
    results as JSON. ``bisect``: the exit code is one for 'git bisect run'. ``store``: the
    store to name in printed commands; empty for the default."""

    quiet: bool
    view: bool
    as_json: bool
    bisect: bool = False
    store: str = ""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Talk:
        """As the options ask for."""
        view = not (given["quiet"] or given["no_progress"])
        bisect = given.get("exit") == "bisect"
        return cls(given["quiet"], view, given["json"], bisect, named_store())


def execute_plan(
    plan: Plan,
    targets: Sequence[Target],
    store: Store,
    *,
    allow_disturb: bool = False,
    reconnect_s: float | None = None,
    talk: Talk,
) -> list[RunOutcome]:
    """Carry out the plan on the targets, with progress on stderr."""
    from rtgauge.cli.progress import ConsoleProgress
    from rtgauge.engine.study import execute
    from rtgauge.target.base import pace_of

    at_once = 1
    if all(pace_of(target).independent for target in targets):
        at_once = min(len(os.sched_getaffinity(0)), len(targets))
    progress = ConsoleProgress(sys.stderr, steps=not talk.quiet, live=talk.view)
    with contextlib.closing(progress):
        return execute(
            plan,
            targets,
            store,
            progress,
            allow_disturb=allow_disturb,
            at_once=at_once,
            reconnect_s=reconnect_s,
        )


class _Interrupted(RtgaugeError):
    exit_code = ExitCode.INTERRUPTED


@contextlib.contextmanager
def _results_kept() -> Iterator[None]:
    """After Ctrl-C, say that the results are kept."""
    try:
        yield
    except KeyboardInterrupt:
        raise _Interrupted(
            "interrupted after the measurement",
            "the results are kept. Write the report: rtgauge report last -o FILE.html",
        ) from None


@_results_kept()
def show_results(
    store: Store,
    outcomes: Sequence[RunOutcome],
    reports: Sequence[Path],
    *,
    kind: Kind = "",
    before: Sequence[str] = (),
    cover: Cover,
    full: bool,
    talk: Talk,
) -> int:
    """Show the results of the runs and write the reports. Returns the exit code.

    ``cover``: what the first page of the reports shows. ``full``: PDFs are complete. ``before``:
    the ids of earlier runs that these complete, and that are shown with them. ``kind``:
    what decides that the runs count as skipped.
    """
    from rtgauge.report import Source, write
    from rtgauge.report.results.again import remedy_with_store
    from rtgauge.report.writing import UnwritableError

    stored = [store.get(one) for one in (*before, *(outcome.id for outcome in outcomes))]
    source = Source(stored, cover=cover, full=full)
    if any(path.suffix.lower() in (".html", ".pdf") for path in reports):
        _ = source.analysis  # one pass over the samples, for all reports
    document = source.model
    for run in document["runs"]:
        keep(store, run)
    with unread():
        if talk.as_json:
            print_json(document)
        elif talk.quiet:
            print_answers(document, talk.store)
        else:
            _print(source, talk.store)
    for report in reports:
        try:
            write(source, report)
        except RtgaugeError as error:
            kept = "run is" if len(stored) == 1 else f"{len(stored)} runs are"
            if not isinstance(error, UnwritableError):  # another file does not help
                remedy = f"{error.remedy}. The" if error.remedy else "the"
                raise RtgaugeError(error.message, f"{remedy} {kept} kept") from error
            names = " ".join(["last"] if len(stored) == 1 else [one.id for one in stored])
            raise RtgaugeError(
                error.message,
                f"the {kept} kept. Write the report elsewhere: "
                f"rtgauge report {names} -o FILE{report.suffix}",
            ) from error
        if talk.as_json:
            say(f"report: {report}")
        else:
            with unread():
                show(("\n" if report is reports[0] else "") + f"Report: {report}")
    for outcome in outcomes:
        if outcome.state != "complete":
            reason, remedy = outcome.reason or "no reason given", outcome.remedy
            failed = re.match(r"step \d+ \([^)]*\)(?=: )", reason)
            if failed and not (talk.quiet or talk.as_json):  # progress and results have the rest
                reason, remedy = failed[0], ""
            print_error(
                RtgaugeError(
                    f"run {outcome.id[:13]} {outcome.state}: {reason}",
                    remedy_with_store(remedy, talk.store),
                )
            )
    if talk.bisect:
        states = [(one.state, one.reason) for one in outcomes]
        stopped = any(one.stopped for one in outcomes)
        refused = _is_refused(document, kind)
        why = "the core refused the steps of xeno-test, so they measured Linux" if refused else ""
        return int(judge(document, states, stopped=stopped, refused=why))
    return int(_exit_code(outcomes, document, kind))


def _print(source: Source, store: str) -> None:
    """Print the results of the runs, or those of several targets side by side and their answers.
    Where nothing can be compared, both."""
    from rtgauge.report.results.again import with_store

    compared = source.comparison

    def comparison(before: str = "\n") -> None:
        show(f"{before}The targets side by side\n", bold=True)
        if isinstance(compared, str):
            show(compared)
        elif compared is not None:
            print_comparison(compared.document, source.model["runs"], store)

    if compared is None or isinstance(compared, str) or not compared.document["quantities"]:
        print_results(source.model, None if compared is None else comparison, store=store)
        return
    comparison("")
    study = source.model["runs"][0]["study"][:18]
    show(f"\nAll figures of each run: {with_store(f'rtgauge show {study}', store)}")
    show(f"To repeat this comparison: {with_store(f'rtgauge compare {study}', store)}")
    print_answers(source.model, store, together=False)


def _exit_code(outcomes: Sequence[RunOutcome], document: Mapping[str, Any], kind: Kind) -> ExitCode:
    """The first exit code that applies, in this order. An evaluation that could not measure what
    it is for counts as skipped, also if tasks without real-time priority exceeded its budget. So do
    the steps of xeno-test on a core that refused them."""
    from rtgauge.report.document.answer import State, answer_of, without_priority
    from rtgauge.report.results.labels import limitation

    codes = {outcome.exit_code for outcome in outcomes}
    for code in (ExitCode.USAGE, ExitCode.FAILED, ExitCode.INTERRUPTED):
        if code in codes:
            return code
    runs = document["runs"]
    judged = [run for run in runs if not (kind == "evaluation" and without_priority(run))]
    if any(one["result"] == "fail" for run in judged for one in run["verdicts"]) or any(
        one["result"] == "fail" and not limitation(one) for run in judged for one in run["tests"]
    ):
        return ExitCode.OVER_BUDGET
    if (
        _is_refused(document, kind)
        or codes == {ExitCode.SKIPPED}
        or (kind == "evaluation" and any(answer_of(run).state is State.UNMEASURED for run in runs))
    ):
        return ExitCode.SKIPPED
    return ExitCode.DONE


def _is_refused(document: Mapping[str, Any], kind: Kind) -> bool:
    """Whether a core refused the steps of xeno-test, which then measured Linux."""
    return kind == "xeno-test" and any(
        one["rule"] == _ON_CORE and one["result"] == "skipped"
        for run in document["runs"]
        for one in run["tests"]
    )
