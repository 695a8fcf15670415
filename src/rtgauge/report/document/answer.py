# SPDX-License-Identifier: Apache-2.0
"""The answer: good enough or not, how sure, the likely cause, and what to do next.

It is on the last lines of the terminal, on the first screen and on the first page. It follows from
the results model alone, so that no sample has to be read. docs/reference/report.md, "The answer",
explains the states, the criterion for cycles and the order of the actions.
"""

from __future__ import annotations

import enum
import functools
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.document.blocks import (
    Block,
    Bullets,
    Callout,
    Command,
    Figure,
    Heading,
    Line,
    Paragraph,
    Section,
    Span,
    Table,
    Tone,
    line,
)
from rtgauge.report.document.cycles import SHARE, Cycle, cycles, shortest
from rtgauge.report.document.tables import Cell, Grid, Row
from rtgauge.report.pictures.distribution import FAR, Curve, distribution
from rtgauge.report.results.again import lasting_command, step_command, times_answers
from rtgauge.report.results.labels import (
    Level,
    capital,
    carried_out,
    chapters,
    highest,
    is_response,
    lab_text,
    load_text,
    made_of_a_file,
    ordinary_policies,
    peak,
    series_labels,
    shell_command,
    step_name,
    waits_for_answers,
    without_command,
    worst,
)
from rtgauge.report.results.model import Analysis
from rtgauge.stats import Counts, duration_needed_s
from rtgauge.stats.verdict import DEFAULT_RATE_PER_HOUR
from rtgauge.units import format_duration

__all__ = [
    "ACTIONS",
    "BOARD",
    "OBSERVED",
    "Action",
    "Answer",
    "Cycle",
    "State",
    "action_blocks",
    "answer_figure",
    "answer_of",
    "answer_section",
    "board_text",
    "limits",
    "tests_of",
    "when_text",
]

Model = Mapping[str, Any]

ACTIONS: Final = 3
NAMES: Final = 4
"""Names in a list of findings or steps, beyond which the rest is counted."""
EXPLAIN: Final = "rtgauge explain"
ON_THE_BOARD: Final = "gives the figures of the hardware (root@board: its address)"
BOARD: Final = "ssh://root@board"
"""The target in commands that measure on a board in place of an emulated one."""
EVALUATION: Final = "evaluate"
"""The name of the plan that ``rtgauge evaluate`` carries out."""
FAKE: Final = "fake"
"""The target that plays an agent without a system."""
OBSERVED: Final = "Observed maximum "
_NOT_RT: Final = ("full", "lazy", "voluntary", "none")


class State(enum.StrEnum):
    """Whether the system is good enough, as far as the run shows."""

    FIT = "fit"
    UNFIT = "not fit"
    UNPROVEN = "not proven"
    UNMEASURED = "not measured properly"


@dataclass(frozen=True)
class Action:
    """Something to do next, as a command where there is one, and what it brings."""

    text: str
    command: str = ""
    gain: str = ""


@dataclass(frozen=True)
class Answer:
    """The answer of one run. Empty texts have nothing to say. ``cycles``: only without a budget;
    ``limitations``: why tests failed that fail on every system with this C library."""

    state: State
    tone: Tone
    title: str
    worst: Line
    sure: Line
    sure_command: str
    cause: Line
    cause_command: str
    audit: str
    cycles: tuple[Cycle, ...]
    actions: tuple[Action, ...]
    limitations: tuple[str, ...]
    missing: str = ""
    """What was not measured, and why."""
    scope: str = ""
    """What was measured, of a run without failed and skipped steps."""
    board: str = ""
    """What the time of an emulated board means."""
    cause_hint: str = ""
    """What the command of the cause does."""


def answer_of(run: Model) -> Answer:
    """The answer of a run of the results model."""
    data = _Data(run)
    state, tone, title = _state(data)
    sure, sure_command = _sure(data)
    if state is State.UNFIT:
        sure_command = ""  # no longer run makes it fit
    cause, cause_command = _cause(data)
    return Answer(
        state,
        tone,
        title,
        _worst(data),
        sure,
        sure_command,
        cause,
        cause_command,
        _audit(run, state),
        data.cycles,
        tuple(_actions(data, state, sure_command, cause_command))[:ACTIONS],
        tuple(dict.fromkeys(test["known_limitation"] for test in data.tests if _limitation(test))),
        _missing(data),
        _scope(data),
        board_text(run),
        _hint(data, cause_command),
    )


def board_text(run: Model) -> str:
    """What the time of an emulated board or of the fake target means, as a sentence; empty for
    others."""
    if run["target"].partition(":")[0] == FAKE:
        return "Fake target: the figures are made up and describe no system."
    text = lab_text(run["environment"])
    return f"{capital(text)}." if text else ""


# --- what the answer looks at --------------------------------------------------------------------


def tests_of(run: Model) -> list[Any]:
    """The tests of behaviour of a run."""
    return list(run["tests"])


def verdicts_of(run: Model) -> list[Any]:
    """The budgets of a run, held against the data."""
    return list(run["verdicts"])


def _limitation(test: Model) -> bool:
    return test["result"] == "fail" and test["known_limitation"] is not None


class _Data:
    """A run of the results model, as the answer looks at it."""

    def __init__(self, run: Model) -> None:
        self.run = run
        self.steps = {step["step"]: step for step in run["steps"]}
        self.measured = [step for step in carried_out(run) if step["role"] == "measurement"]
        self.tests = tests_of(run)
        self.verdicts = verdicts_of(run)
        self.failed_tests = [
            test for test in self.tests if test["result"] == "fail" and not _limitation(test)
        ]

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
            and (one["count"] or one["unanswered"])
        ]

    @functools.cached_property
    def real(self) -> list[Any]:
        """Those with real-time priority."""
        return [one for one in self.due if not ordinary_policies(self.run, self.steps[one["step"]])]

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
    def loaded(self) -> list[Any]:
        return [one for one in self.best if self.step(one)["load"]["name"] != "idle"]

    @functools.cached_property
    def idle(self) -> list[Any]:
        return [one for one in self.best if self.step(one)["load"]["name"] == "idle"]

    @functools.cached_property
    def cycles(self) -> tuple[Cycle, ...]:
        """What the data support without a budget. Samples of a step that failed were not measured
        under its load, so they support nothing."""
        sound = [one for one in self.proper if self.step(one)["state"] != "failed"]
        if not sound or any(step["budget"] for step in self.measured):
            return ()
        idle = [one for one in sound if self.step(one)["load"]["name"] == "idle"]
        return tuple(cycles(idle, [one for one in sound if one not in idle]))

    def step(self, one: Model) -> Any:
        return self.steps[one["step"]]

    def disturbed(self, one: Model) -> bool:
        return bool(self.step(one)["load"].get("disturb"))

    def budgets(self, steps: Iterable[Model]) -> str:
        """The budgets of these steps in words."""
        found = dict.fromkeys(numbers.microseconds(step["budget"]["budget_ns"]) for step in steps)
        return ("the budget of " if len(found) == 1 else "the budgets of ") + numbers.join(
            list(found)
        )


# --- the state -----------------------------------------------------------------------------------

_Found = tuple[State, Tone, str]


def _state(data: _Data) -> _Found:
    return _unmeasured(data) or _judged(data) or _unjudged(data)


def _unmeasured(data: _Data) -> _Found | None:
    """Why the run does not answer the question, if it does not."""
    states = [step["state"] for step in data.measured]
    skipped, failed = states.count("skipped"), states.count("failed")
    steps = carried_out(data.run)
    lost = sum(step["state"] == "skipped" for step in steps)
    empty = not (data.due or data.tests or data.verdicts or data.run["series"])
    if (states and failed == len(states)) or (empty and data.run["state"] == "failed"):
        why = "the run failed" if failed < 2 else f"all {failed} steps failed"
        return State.UNMEASURED, "fail", f"Not measured properly: {why}"
    if states and skipped == len(states):
        why = "the step was skipped" if skipped == 1 else "every step was skipped"
    elif empty:
        why = "the run has no samples"
    elif clock := _coarse_clock(data.run):
        why = f"the clock source, {clock}, advances by whole ticks"
    elif data.due and not data.real:
        why = "latency without real-time priority"
        if not any(step["budget"] for step in steps):
            why += " (and no budget given)"
    elif (data.real and not data.proper) or (data.verdicts and not _undisturbed(data)):
        why = "an injection disturbed the run on purpose"
    elif lost * 2 > len(steps):
        why = f"{lost} of {len(steps)} steps were skipped"
    else:
        why = "" if data.due or data.failed_tests else _lacking(data)
    return (State.UNMEASURED, "warn", f"Not measured properly: {why}") if why else None


def _coarse_clock(run: Model) -> str:
    """The clock source, if the audit found that it cannot show the latencies; else empty."""
    return next(
        (
            str(one["found"])
            for one in run["findings"]
            if (one["check"], one["level"]) == ("clock-source", "error")
        ),
        "",
    )


def _lacking(data: _Data) -> str:
    """Why an evaluation has no latency, from the first of its steps that did not complete."""
    if len({step["chapter"] for step in data.measured}) < 2:
        return ""
    broken = [step for step in data.measured if step["state"] in ("failed", "skipped")]
    return f"{broken[0]['measurement']} {broken[0]['state']}" if broken else ""


def _undisturbed(data: _Data) -> list[Any]:
    """The verdicts on steps without an injection."""
    return [one for one in data.verdicts if not data.steps[one["step"]]["load"].get("disturb")]


def _judged(data: _Data) -> _Found | None:
    """The state by the budgets and tests; None if there is nothing to judge by."""
    run, verdicts = data.run, _undisturbed(data)
    results = [verdict["result"] for verdict in verdicts]
    open_ = [step for step in data.measured if step["budget"] and step["state"] != "complete"]

    def whose(*wanted: str) -> list[Any]:
        return [data.steps[one["step"]] for one in verdicts if one["result"] in wanted]

    if "fail" in results:
        budgets = data.budgets(whose("fail"))
        return State.UNFIT, "fail", f"Not fit: {budgets} {_was(budgets)} exceeded"
    if data.failed_tests:
        many = len(data.failed_tests)
        rules = list(dict.fromkeys(test["rule"] for test in data.failed_tests))
        shown = ", ".join(rules[:2]) + (f" and {len(rules) - 2} more" if len(rules) > 2 else "")
        title = f"Not fit: {many} of {numbers.plural(len(data.tests), 'test')} failed ({shown})"
        return State.UNFIT, "fail", title
    # A run with a failed step has failed, whatever ended it.
    if run["state"] == "running" or "interrupted" in (
        run["state"],
        *(step["state"] for step in data.measured),
    ):
        how = "has not ended" if run["state"] == "running" else "was interrupted"
        what = f" for {data.budgets(whose('pass', 'inconclusive'))}" if results else ""
        return State.UNPROVEN, "warn", f"Not proven{what}: the run {how}"
    if "inconclusive" in results or open_:
        budgets = data.budgets([*whose("inconclusive"), *open_])
        return State.UNPROVEN, "warn", f"Not proven for {budgets}: {_open(data, verdicts, open_)}"
    if results:
        judged = whose("pass")
        if (above := _above(data, judged)) is not None:
            top, step = numbers.shown(peak(above), "ns").full, data.step(above)
            what = f"{step_name(run, step)}, {load_text(step['load'])}, took {top} without a budget"
            return State.UNPROVEN, "warn", f"Not proven for {data.budgets(judged)}: {what}"
        while_idle = all(step["load"]["name"] == "idle" for step in judged)
        where = ", while idle" if while_idle else ""
        return State.FIT, "pass", f"Fit for {data.budgets(judged)}{where}"
    return None


def _open(data: _Data, verdicts: Sequence[Model], steps: Sequence[Model]) -> str:
    """Why budgets are neither kept nor exceeded. ``steps``: those with a budget that did not
    complete."""
    open_ = [verdict for verdict in verdicts if verdict["result"] == "inconclusive"]
    doubts = [str(verdict["doubt"]) for verdict in open_ if verdict["doubt"]]
    if doubts:
        return max(doubts, key=doubts.count)
    if steps:
        return f"{steps[0]['measurement']} {_ENDED.get(steps[0]['state'], 'has not ended')}"
    if any(_exceeds(data, verdict) for verdict in open_):
        return "exceeded, but the run is too short to tell how often"
    return "never exceeded, but the run is too short"


_ENDED: Final = {"failed": "failed", "skipped": "was skipped", "interrupted": "was interrupted"}


def _above(data: _Data, judged: Sequence[Model]) -> Any:
    """The series with the highest maximum of the steps without a budget that exceed those of the
    others: of the same measurement where one has a budget. None if no series does."""
    above = [
        one
        for one in data.proper
        if not data.step(one)["budget"] and (peak(one) or 0) > _limit(one, judged)
    ]
    at = worst(above)
    return None if at is None else above[at]


def _limit(one: Model, judged: Sequence[Model]) -> int:
    """The budget, in ns, that a series of a step without one is held against."""
    of = [step for step in judged if step["measurement"] == one["measurement"]] or judged
    return min(int(step["budget"]["budget_ns"]) for step in of)


def _was(budgets: str) -> str:
    return "were" if budgets.startswith("the budgets") else "was"


def _exceeds(data: _Data, verdict: Model) -> bool:
    top = peak(data.run["series"][verdict["series"]])
    return top is not None and top > data.steps[verdict["step"]]["budget"]["budget_ns"]


def _unjudged(data: _Data) -> _Found:
    """The state without a budget."""
    if data.cycles:
        least, longest = shortest(data.cycles), data.cycles[-1]
        if least is not None:
            measured = min(one["interval_ns"] for one in data.proper)
            tone: Tone = "pass" if least.interval_ns <= measured else "warn"
            title = f"cycles of {numbers.time(least.interval_ns)} and longer"
            return State.FIT, tone, f"No budget given: the data support {title}"
        longest_text = numbers.time(longest.interval_ns)
        if longest.state == "exceeded":
            title = f"No budget given: the latency is too long even for a cycle of {longest_text}"
            return State.UNFIT, "fail", title
        return (
            State.UNPROVEN,
            "warn",
            f"No budget given: no cycle up to {longest_text} is proven ({longest.text})",
        )
    passed = [test for test in data.tests if test["result"] == "pass"]
    if passed and not data.due:
        return State.FIT, "pass", f"No budget given: {numbers.plural(len(passed), 'test')} passed"
    return State.UNPROVEN, "note", "No budget given: figures without a verdict"


# --- the maximum, and how sure --------------------------------------------------------------


def _worst(data: _Data) -> Line:
    one = data.top
    if one is None:
        return ()
    figure = Span(numbers.shown(peak(one), one["unit"]).full, strong=True)
    step = data.step(one)
    where = [_place(data, one), load_text(step["load"])]
    if policies := ordinary_policies(data.run, step):
        where.append(policies)
    if not one["unanswered"]:
        where.append(when_text(data.run, one))
    text = ", ".join(text for text in where if text)
    missing = one["unanswered"]
    if not missing:
        return line(OBSERVED, figure, f" ({text})")
    of = numbers.count(missing + one["count"])
    verb = "was" if missing == 1 else "were"
    more = f": {numbers.count(missing)} of {of} events {verb} not answered"
    return line(OBSERVED, figure, f" ({text}){more}")


def when_text(run: Model, one: Model) -> str:
    """The time of day of a maximum, with the date in a run of more than half a day; by a clock that
    was never set, or that of an emulated board, the time since the step began."""
    if one["max_at"] is None:
        return ""
    clock = one["max_at"]["clock"]
    if not clock or clock < "2000" or "lab" in run["environment"]:
        return f"{numbers.duration(one['max_at']['time_s'])} into the step"
    date, _, time = clock.removesuffix("Z").partition("T")
    return f"{f'{date} ' if (run['duration_s'] or 0) > 43200 else ''}{time} UTC"


def _place(data: _Data, one: Model) -> str:
    """The measurement, where there are several, and the label of a series."""
    words = []
    if len({other["measurement"] for other in data.best}) > 1:
        words.append(step_name(data.run, data.step(one)))
    if one["context"] not in ("user", ""):
        words.append(f"{one['context']} context")
    members = [other for other in data.best if other["step"] == one["step"]]
    if len(members) > 1:
        words.append(series_labels(members)[members.index(one)])
    elif one["cpu"] >= 0:
        words.append(f"CPU {one['cpu']}")
    return ", ".join(words)


def _sure(data: _Data) -> tuple[Line, str]:
    """How sure the answer is, and the command of the run that would make it surer."""
    if data.verdicts:
        return _sure_of_budget(data)
    one = data.top
    if one is None:
        return (), ""
    same = [other for other in data.best if other["step"] == one["step"]]
    things = "events" if waits_for_answers(one["name"], one["unit"]) else "wake-ups"
    total = sum(other["count"] + other["unanswered"] for other in same)
    bound = max((other["bound"] for other in same), key=lambda bound: bound["probability"])
    text = f"Measured: {numbers.count(total)} {things} in "
    text += f"{numbers.duration(bound['duration_s'])}."
    if bound["probability"] < 0.5:
        each = f" of each {'CPU' if all(o['cpu'] >= 0 for o in same) else 'series'}"
        text += (
            f" {numbers.percent(bound['confidence'])} sure: fewer than "
            f"{numbers.probability(bound['probability'])} {things}{each if len(same) > 1 else ''} "
            + ("have no answer." if one["unanswered"] else "exceed the maximum.")
        )
        if bound["effective_samples"] < bound["samples"]:
            text += (
                f" The late ones come in clusters, so {numbers.count(bound['samples'])} {things} "
                f"count as {numbers.count(bound['effective_samples'])} independent ones."
            )
    if bound["period_s"] is None:
        return line(text), ""
    text += f" Events rarer than one in {numbers.duration(bound['period_s'])} may have been missed."
    needed = duration_needed_s(DEFAULT_RATE_PER_HOUR, bound["confidence"])
    if bound["duration_s"] >= needed or not data.proper:  # no length mends the latter
        return line(text), ""
    what = "events without an answer" if one["unanswered"] else f"{things} above the maximum"
    text += f" {numbers.duration(needed, up=True)} needed to show that {what} are rarer than "
    text += f"{numbers.per_hour(DEFAULT_RATE_PER_HOUR)}."
    return line(text), lasting_command(data.run, data.step(one), needed, {})


def _sure_of_budget(data: _Data) -> tuple[Line, str]:
    """The verdict that decides: failed before inconclusive before passed, then by the maximum."""
    order = ("fail", "inconclusive", "pass")

    def rank(verdict: Model) -> tuple[int, float]:
        top = peak(data.run["series"][verdict["series"]])
        return order.index(verdict["result"]), -(top if top is not None else float("-inf"))

    verdict = min(data.verdicts, key=rank)
    one, step = data.run["series"][verdict["series"]], data.steps[verdict["step"]]
    same = [other for other in data.verdicts if other["step"] == verdict["step"]]
    text = f"{capital(verdict['evidence'])}."
    if len(same) > 1:
        series = [data.run["series"][other["series"]] for other in same]
        text = f"{capital(series_labels(series)[same.index(verdict)])}: {text}"
    if verdict["result"] == "fail" and not verdict["rate_per_hour"]:
        return line(f"{text} That is certain: one exceedance is enough."), ""
    if verdict["result"] != "inconclusive":
        return line(text), ""
    if verdict["needed_s"] is None or _exceeds(data, verdict):
        return line(f"{text} {capital(verdict['remedy'])}."), verdict["command"]
    rate, needed = step["budget"]["rate_per_hour"], verdict["needed_s"]
    kept = [other for other in same if not _exceeds(data, other)]
    total = sum(data.run["series"][other["series"]]["count"] for other in kept)
    things = "answers" if waits_for_answers(one["name"], one["unit"]) else "wake-ups"
    text = (
        f"0 of {numbers.count(total)} {things} above "
        f"{numbers.microseconds(verdict['budget_ns'])} in "
        f"{numbers.duration(one['bound']['duration_s'])}. "
        f"{numbers.percent(one['bound']['confidence'])} sure: at most "
        f"{numbers.per_hour(verdict['bound_per_hour'])} exceed it. "
        f"{numbers.duration(needed, up=True)} needed to show that exceedances are rarer than "
        f"{numbers.per_hour(DEFAULT_RATE_PER_HOUR if rate is None else rate)}."
    )
    return line(text), verdict["command"]


# --- the cause, and what limits the figures ------------------------------------------------------


def _cause(data: _Data) -> tuple[Line, str]:
    """The cause of the maximum, where a replay or a trace shows it, else the likely one. With the
    command that finds more."""
    if data.top is not None and (known := _explained(data.run, data.top)):
        return line(f"Cause: {known}."), ""
    return _likely(data)


def _likely(data: _Data) -> tuple[Line, str]:
    """The likely cause of the maximum as far as the observations tell, and the command that
    finds more."""
    one = data.top
    if one is None:
        return (), ""
    run, step = data.run, data.step(one)
    place = run["series"].index(one)
    by_rule: dict[str, str] = {}
    above_median = (one["max"] or 0) - (one["percentiles"].get("50") or 0)
    for observation in step["observations"]:
        if 2 * observation.get("reach", above_median) < above_median:
            continue  # periodic, but not what made the maximum
        if not observation["series"] or place in observation["series"]:
            by_rule.setdefault(observation["rule"], observation["text"])
    if policies := ordinary_policies(run, step):
        text = f"Likely cause: {policies}. Without real-time priority, other tasks run first."
        return line(text), _raised(data)
    if "disturbed" in by_rule:
        return line("Cause: the injection of this run."), step_command(run, step, {"disturb": ""})
    stop = lasting_command(run, step, 3599, {"stop-above": f"{_limit_us(one):.15g}us"})
    if "stop-above" not in step["parameters"]:
        stop = ""
    if (run["environment"].get("lab") or {}).get("mode") == "counted" and one["interval_ns"]:
        stop = f"{EXPLAIN} {run['id'][:13]}"
    for rule, words in (
        ("stolen time", "Possible cause: the hypervisor."),
        ("management interrupts", "Possible cause: the firmware."),
    ):
        if rule in by_rule:
            return line(f"{words} {by_rule[rule]}"), ""
    if one["first"] == one["max"] and "first sample" in by_rule:
        return line(f"Likely cause: cold caches. {by_rule['first sample']}"), ""
    if "second line" in by_rule:
        again = lasting_command(run, step, 119, {"dither": "yes"})
        text = f"Likely cause: something periodic. {by_rule['second line']}"
        return line(text), again if step["parameters"].get("dither") == "no" else stop
    other = _maximum(data.idle)
    if data.step(one)["load"]["name"] != "idle" and other and (peak(one) or 0) >= 3 * other:
        text = (
            f"The maximum depends on the load: while idle it is {numbers.shown(other, 'ns').full}"
        )
        if run["environment"]["realtime"] in _NOT_RT:
            text += ", and this kernel is not PREEMPT_RT: its longest sections delay every task"
        return line(text + "."), stop
    text = "The data do not show what caused the maximum."
    if not stop and waits_for_answers(one["name"], one["unit"]) and not made_of_a_file(run):
        where = "" if run["target"] in ("", "local") else f" --target {shlex.quote(run['target'])}"
        text += f" rtgauge run timer{where} --explain shows what makes tasks late."
    return line(text), stop


def _explained(run: Model, one: Model) -> str:
    """What a replay or a trace blames for the maximum of a series; empty unless requested."""
    for cause in run["causes"]:
        same = (cause["step"], cause["context"]) == (one["step"], one["context"])
        if same and cause["latency_ns"] == one["max"] and not cause["blame"].startswith("nobody"):
            return str(cause["blame"])
    return ""


def _limit_us(one: Model) -> float:
    """Nine tenths of a maximum: the next occurrence of its cause exceeds that, the body does
    not."""
    return max(float(f"{(one['max'] or 0) * 0.0009:.2g}"), 1)


def _hint(data: _Data, command: str) -> str:
    """What a command that stops at a late wake-up does; empty for others."""
    if command.startswith(EXPLAIN):
        return "replays the run and shows what took the time in the maximum"
    if "--stop-above" not in command:
        return ""
    limit = numbers.shown(round(_limit_us(data.top) * 1000), "ns").full
    return f"stops at the next wake-up later than {limit}, nine tenths of the maximum"


def _maximum(series: Sequence[Model]) -> int | None:
    at = worst(series)
    return None if at is None else peak(series[at])


def _audit(run: Model, state: State) -> str:
    """One line on what the audit of the configuration found; empty if it found nothing."""
    levels = ("error", "warning")
    found, room = [], NAMES
    for level in levels:
        names = [f["check"] for f in run["findings"] if f["level"] == level]
        shown = names[:room]
        room -= len(shown)
        if left := len(names) - len(shown):
            shown.append(f"{left} more")
        among = f" ({numbers.join(shown)})" if len(shown) > 1 or not left else ""
        found += [numbers.plural(len(names), level) + among] if names else []
    if not found:
        return ""
    text = f"Configuration audit: {numbers.join(found)}."
    if state is State.UNMEASURED:
        return text
    return f"{text} The figures hold for this configuration: measure again after a change."


def _missing(data: _Data) -> str:
    """The steps without results in one line, with the reason that most of them share."""
    steps = carried_out(data.run)
    broken = [step for step in steps if step["state"] in ("failed", "skipped")]
    if not broken:
        return ""
    text = f"Not measured: {len(broken)} of {numbers.plural(len(steps), 'step')} "
    text += f"({_names(data.run, broken)})"
    reasons = [step["reason"] for step in broken if step["reason"]]
    if not reasons:
        return f"{text}."
    most = max(reasons, key=reasons.count)
    mostly = "" if reasons.count(most) == len(broken) else "mostly because "
    return f"{text}: {mostly}{most.rstrip('.')}."


def _names(run: Model, steps: Sequence[Model]) -> str:
    """The measurements of some steps: all names, or where they are many, whole chapters first."""
    names = [str(step["measurement"]) for step in steps]
    said = []
    if len(set(names)) > NAMES:
        for chapter, members in chapters(run).items():
            if len(members) > 1 and all(step in steps for step in members):
                said.append(f"all {numbers.plural(len(members), 'step')} of {chapter.lower()}")
                names = [one for one in names if one not in {s["measurement"] for s in members}]
    for name in dict.fromkeys(names):
        said.append(name + (f" ×{many}" if (many := names.count(name)) > 1 else ""))
    return numbers.join(said)


def _scope(data: _Data) -> str:
    """What was measured, where no step failed or was skipped: the reader sees what was not."""
    states = {step["state"] for step in data.measured}
    if not states or states & {"failed", "skipped"}:
        return ""
    if len({step["chapter"] for step in data.measured}) > 1:
        every = len(carried_out(data.run))
        return f"All {every} steps were measured." if states == {"complete"} else ""
    planned = (data.run["plan"] or {}).get("steps")
    hosts = planned if isinstance(planned, list) else []
    own = [step for step in data.measured if not times_answers(hosts, step["step"])]
    names = list(dict.fromkeys(step["measurement"] for step in own or data.measured))
    text = f"Only the {numbers.join(names)} {'was' if len(names) == 1 else 'were'} measured"
    if data.best and not (data.idle and data.loaded):
        text += f", and only {'under load' if data.loaded else 'while idle'}"
    return f"{text}.{_unraised(data)}"


def _unraised(data: _Data) -> str:
    """How many events an interrupted step lacks, and how many had no answer; empty for others."""
    one = data.top
    if one is None or not waits_for_answers(one["name"], one["unit"]):
        return ""
    raised = one["count"] + one["unanswered"]
    asked = data.step(one)["parameters"].get("samples", "")
    text = f" All {numbers.count(raised)} events were answered."
    if one["unanswered"]:
        text = (
            f" {numbers.count(one['unanswered'])} of {numbers.count(raised)} events had no answer."
        )
    lacking = int(asked) - raised if asked.isdecimal() else 0
    if lacking > 0:
        of = f"{numbers.count(lacking)} of {numbers.count(int(asked))}"
        text += f" The run ended before the other {of}."
    return text


# --- what to do next -----------------------------------------------------------------------------


def _actions(data: _Data, state: State, longer: str, cause: str) -> Iterator[Action]:
    """What to do next, by expected gain."""
    run = data.run
    yield from _again(data, longer)
    found = sorted(
        (f for f in run["findings"] if Level.of(f["level"]) >= Level.WARNING and f["remedy"]),
        key=lambda finding: -Level.of(finding["level"]),
    )
    told = [finding for finding in found if finding["check"] == "privileges"]
    if data.due and not data.real:
        yield from _privileged(data, told)
    else:
        yield from _broken(data)
    yield from _undecided(data, state)
    kernel = [finding for finding in found if finding["check"] == "preemption"]
    if run["environment"]["realtime"] in _NOT_RT or kernel:
        text = kernel[0]["remedy"] if kernel else "boot a PREEMPT_RT kernel"
        yield Action(f"PREEMPT_RT kernel: {text}", "", "limits how long the kernel delays a task")
    for finding in found:
        if finding not in [*kernel, *told] and finding["level"] == "error":
            yield _remedy(finding)
    if state is State.UNFIT:
        yield from _causes(data, cause)
    if data.top is not None and not data.loaded:
        step = data.step(data.top)
        command = step_command(run, step, {"load": "sched:groups=4,cpu"})
        yield Action("Measure under load", command, "the longest latencies occur under load")
    settable = [finding for finding in found if "--prepare" in finding["remedy"]]
    if settable and data.top is not None and "prepare" not in data.step(data.top)["run_options"]:
        command = step_command(run, data.step(data.top), {}) + " --prepare"
        settings = numbers.plural(len(settable), "warning")
        yield Action(
            f"Tune the system for the run ({settings})", command, "less delay, less spread"
        )
    yield from _more_samples(data, longer)
    for finding in found:
        if finding["level"] != "error" and finding not in [*kernel, *settable, *told]:
            yield _remedy(finding)
    if state is not State.UNFIT:
        yield from _causes(data, cause)
    if least := shortest(data.cycles):
        budget = format_duration(least.interval_ns // SHARE)
        command = step_command(run, data.step(data.top), {"budget": budget})
        if command:
            yield Action("Set your own budget", command, "gives a verdict and an exit code")


def _causes(data: _Data, command: str) -> Iterator[Action]:
    """What finds the cause of the maximum. ``command``: that of the cause."""
    if data.top is None or not data.proper:
        return
    if command:
        yield Action("Find the cause", command, _hint(data, command))
    if data.loaded and not data.idle:
        idle = {"load": "", "load-cmd": "", "load-cpu": ""}
        idle_command = step_command(data.run, data.step(data.top), idle)
        yield Action("Measure the idle system", idle_command, "shows whether the load is the cause")


def _more_samples(data: _Data, longer: str) -> Iterator[Action]:
    """What makes the figures those of the hardware, and what makes them surer."""
    if "lab" in data.run["environment"] and data.top is not None:
        command = _on_the_board(data)
        yield Action("Measure on the board itself", command, ON_THE_BOARD)
    if longer and not _cut(data):
        if data.verdicts and all(verdict["needed_s"] is None for verdict in data.verdicts):
            yield Action("Take more samples", longer, "the budget can be judged")
        else:
            where = " of the emulated board" if "lab" in data.run["environment"] else ""
            yield Action("Measure longer", longer, f"shows or excludes rare late wake-ups{where}")


def _cut(data: _Data) -> bool:
    """Whether the run was interrupted."""
    return data.run["state"] != "running" and "interrupted" in (
        data.run["state"],
        *(step["state"] for step in data.measured),
    )


def _again(data: _Data, longer: str) -> Iterator[Action]:
    """What completes a run that was interrupted. ``longer``: the command of the run that also
    makes the answer surer, if any."""
    run = data.run
    if not _cut(data):
        return
    cut = [step for step in data.measured if step["state"] == "interrupted"]
    target = [] if run["target"] in ("", "local") else ["--target", run["target"]]
    if _is_evaluation(run):
        words = ["rtgauge", "evaluate", *target, "--resume", run["id"][:13]]
        yield Action("Resume the evaluation", shlex.join(words), "measures the steps that are left")
    elif longer:
        what = "for the budget" if data.verdicts else "to show rare events"
        gain = f"completes the measurement, long enough {what}"
        yield Action("Run it again, longer", longer, gain)
    elif left := cut or data.measured:
        yield Action("Run it again", step_command(run, left[0], {}), "completes the measurement")


def _privileged(data: _Data, found: Sequence[Model]) -> Iterator[Action]:
    """What gives the agent real-time priority. ``found``: the finding on privileges, if any."""
    remedy = without_command(found[0]["remedy"]) if found else ""
    text = capital(remedy) or "Measure again as root"
    yield Action(text, _raised(data), "shows the latency of a real-time task")
    if found and found[0]["command"]:
        text = "Or allow the user real-time priority"
        yield Action(text, found[0]["command"], "then no root is needed")


def _raised(data: _Data) -> str:
    """The command that measures again; on this machine as root."""
    run = data.run
    again = _evaluation(data, run["target"]) if _is_evaluation(run) else ""
    again = again or step_command(run, data.step(data.top), {})
    if not again or run["target"] not in ("", "local"):
        return again
    return f'sudo "$(command -v rtgauge)"{again.removeprefix("rtgauge")}'


def _evaluation(data: _Data, target: str) -> str:
    """The command of an evaluation of a target with the same budget."""
    words = ["rtgauge", "evaluate"]
    words += ["--target", target] if target not in ("", "local") else []
    if budget := min((s["budget"]["budget_ns"] for s in data.measured if s["budget"]), default=0):
        words += ["--budget", format_duration(budget)]
    return shlex.join(words)


def _is_evaluation(run: Model) -> bool:
    return (run["plan"] or {}).get("name") == EVALUATION


def _on_the_board(data: _Data) -> str:
    """The command that measures on a board what was measured on an emulated one."""
    environment = {name: one for name, one in data.run["environment"].items() if name != "lab"}
    board = {**data.run, "target": BOARD, "environment": environment}
    if not _is_evaluation(board):
        return step_command(board, data.step(data.top), {"disturb": ""})
    return _evaluation(data, BOARD)


def _undecided(data: _Data, state: State) -> Iterator[Action]:
    """What decides a budget that no longer run decides."""
    if state is not State.UNPROVEN:
        return
    for verdict in [one for one in data.verdicts if one["doubt"]][:1]:
        yield Action(capital(verdict["remedy"]), "", "the budget can be judged")
    judged = [data.steps[one["step"]] for one in _undisturbed(data) if one["result"] == "pass"]
    if judged and (above := _above(data, judged)) is not None:
        budget = format_duration(_limit(above, judged))
        command = step_command(data.run, data.step(above), {"budget": budget})
        yield Action("Give that step a budget, too", command, "its latency counts in the verdict")


def _broken(data: _Data) -> Iterator[Action]:
    """The remedy of most steps that failed or were skipped, and those of failed tests."""
    for test in data.failed_tests[:1]:
        if test["remedy"]:
            yield Action(capital(test["remedy"]), "", f"the test “{test['rule']}” passes")
    broken = [step for step in data.measured if step["state"] in ("failed", "skipped")]
    remedies = [step["remedy"] for step in broken if step["remedy"]]
    if remedies and len(broken) * 10 >= len(data.measured):
        most = max(remedies, key=remedies.count)
        number = numbers.plural(remedies.count(most), "more step")
        command = shell_command(most, data.run["target"])
        text = capital(without_command(most)) or "Correct what the steps lack"
        yield Action(text, command, f"measures {number}")


def _remedy(finding: Model) -> Action:
    remedy = finding["remedy"]
    what = f"{capital(finding['check'])}: {finding['found']}"
    text = capital(without_command(remedy))
    return Action(f"{what}. {text}" if text else what, finding["command"])


# --- its picture ---------------------------------------------------------------------------------


def answer_figure(analysis: Analysis, number: int) -> Figure | None:
    """The latency that the answer is about: its distributions idle and under each load, all CPUs
    merged, with the budget. None without a sample."""
    data = _Data(analysis.model["runs"][number])
    top = data.top
    if top is None:
        return None
    same = [
        (place, one)
        for place, one in enumerate(data.run["series"])
        if any(one is other for other in data.best)
        and (one["measurement"], one["name"], one["context"])
        == (top["measurement"], top["name"], top["context"])
    ]
    by_load: dict[str, list[tuple[int, Any]]] = {}
    for place, one in same:
        by_load.setdefault(load_text(data.step(one)["load"]), []).append((place, one))
    curves = [
        Curve(name, *_merged(analysis, number, members))
        for name, members in sorted(by_load.items(), key=lambda item: item[0] != "idle")
    ]
    budgets = {step["budget"]["budget_ns"] for _, one in same if (step := data.step(one))["budget"]}
    budget = min(budgets, default=None)
    svg = distribution(curves, top["unit"], top["name"], budget)
    if not svg:
        return None
    cpus = len({one["cpu"] for _, one in same})
    text = "; ".join(_curve_text(name, members) for name, members in by_load.items())
    caption = "How often each latency occurred"
    caption += f", {cpus} CPUs merged" if cpus > 1 else ""
    caption += ". Both axes are logarithmic, so a single late sample is visible. The ring marks "
    caption += "the maximum."
    if budget is not None:
        text += f". Budget {numbers.microseconds(budget)}"
        if budget > FAR * (peak(top) or 0):
            caption += f" The budget, {numbers.microseconds(budget)}, is far beyond the axis."
    return Figure(svg, f"Distribution of the {top['name']}", caption, f"{capital(text)}.")


def _merged(
    analysis: Analysis, number: int, members: Sequence[tuple[int, Model]]
) -> tuple[Counts, int | None]:
    """All samples of some series, and their maximum if it is a lower limit."""
    figures, places = analysis.figures[number], analysis.places[number]
    counts = Counts.merged([figures[places[place]].counts for place, _ in members])
    top = highest(peak(one) for _, one in members)
    return counts, int(top) if isinstance(top, numbers.AtLeast) else None


def _curve_text(name: str, members: Sequence[tuple[int, Model]]) -> str:
    total = sum(one["count"] for _, one in members)
    top = highest(peak(one) for _, one in members)
    return f"{name}: {numbers.count(total)} samples, max {numbers.shown(top, 'ns').full}"


# --- as blocks -----------------------------------------------------------------------------------


def answer_section(
    answer: Answer, figure: Figure | None, title: str = "", prefix: str = ""
) -> Section:
    """The answer as a section. ``title``: the name of the system, where there are several, and
    ``prefix`` that of its anchors."""
    blocks: list[Block] = []
    below = {action.command for action in answer.actions}
    for text, command, hint in (
        (line(Span(answer.board, "warn")) if answer.board else (), "", ""),
        (answer.worst, "", ""),
        (answer.sure, answer.sure_command, ""),
        (line(answer.missing or answer.scope), "", ""),
        (answer.cause, answer.cause_command, answer.cause_hint),
    ):
        alone = bool(command) and command not in below
        if any(span.text for span in text):
            more = line(f" This command {hint}:") if alone and hint else ()
            blocks.append(Paragraph((*text, *more)))
        if alone:
            blocks.append(Command(command))
    box = Callout(answer.tone, answer.title, tuple(blocks))
    after: list[Block] = [*limits(answer)]
    if figure is not None:
        after.append(figure)
    if answer.cycles:
        after.append(Table(_cycle_grid(answer.cycles)))
    after += action_blocks(answer.actions)
    return Section(title or "Answer", f"{prefix}answer", (box, *after), page=True)


def limits(answer: Answer) -> tuple[Block, ...]:
    """What limits an answer, in at most one paragraph: what the audit found, known limitations."""
    known = numbers.join(answer.limitations)
    said = [answer.audit]
    said.append(f"Known limitation of the C library: {known}." if known else "")
    text = " ".join(filter(None, said))
    return (Paragraph(line(text)),) if text else ()


def action_blocks(actions: Sequence[Action]) -> list[Block]:
    """What to do next, as a numbered list."""
    items = tuple(_item(action) for action in actions)
    return [Heading("What to do next"), Bullets(items, numbered=True)] if items else []


def _item(action: Action) -> tuple[Line, tuple[Block, ...]]:
    text = line(action.text, Span(f": {action.gain}" if action.gain else "", "dim"))
    return text, (Command(action.command),) if action.command else ()


_TONES: Final = {"supported": "ok", "exceeded": "bad", "not proven": ""}


def _cycle_grid(found: Sequence[Cycle]) -> Grid:
    rows = [
        Row(numbers.time(one.interval_ns), [Cell(one.state, cls=_TONES[one.state]), Cell(one.text)])
        for one in found
    ]
    return Grid(
        "Cycles that the data support",
        ["Cycle", "Data", "Why"],
        rows,
        f"The latency may take at most a fifth (1/{SHARE}) of the cycle.",
        "Cycles that the data support",
    )
