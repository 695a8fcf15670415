# SPDX-License-Identifier: Apache-2.0
"""What to do next, by expected gain."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rtgauge import text as numbers
from rtgauge.errors import UNREACHED
from rtgauge.report.document.answer.cause import far_below, hint_of, unseen_checks
from rtgauge.report.document.answer.certainty import deciding
from rtgauge.report.document.answer.commands import (
    as_long,
    is_evaluation,
    on_the_board,
    raised_command,
    repeated_command,
    target_words,
)
from rtgauge.report.document.answer.data import NOT_RT, Data, Model, State
from rtgauge.report.document.answer.state import highest_above, limit_of, undisturbed
from rtgauge.report.document.cycles import SHARE, shortest
from rtgauge.report.results.again import step_command
from rtgauge.report.results.commands import sentence
from rtgauge.report.results.labels import Level, capital, things_of, traced_alone, under_load
from rtgauge.report.results.observations import QUOTA
from rtgauge.units import format_duration

__all__ = ["ACTIONS", "Action", "actions_of", "first_actions", "on_hardware"]

ACTIONS: Final = 3
_TRACE: Final = ("explain", "explain-above")
"""The options of a step that is traced."""
_HARDWARE: Final = "gives the figures of the hardware"


@dataclass(frozen=True)
class Action:
    """Something to do next, as a command where there is one, and what it brings."""

    text: str
    command: str = ""
    gain: str = ""
    again: str = ""
    """The command that measures again after it."""


def actions_of(
    data: Data, state: State, longer: str, cause: str, rhythm: Model | None
) -> Iterator[Action]:
    """What to do next, by expected gain. ``cause``: the command that finds the cause. ``rhythm``:
    that of most late samples."""
    run = data.run
    late = _late(data, state)
    again = [*_again(data, longer)]
    last = late and not is_evaluation(run)  # more samples do not make a late system fit
    yield from [] if last else again
    if data.failed or (state is State.UNMEASURED and data.unanswered):
        yield from _broken(data)
        return
    found = sorted(
        (f for f in run["findings"] if Level.of(f["level"]) >= Level.WARNING and f["remedy"]),
        key=lambda finding: -Level.of(finding["level"]),
    )
    told = [finding for finding in found if finding["check"] == "privileges"]
    if data.due and not data.real:
        yield from _privileged(data, told)
    elif not late:
        yield from _broken(data)
    yield from _undecided(data, state)
    kernel = [finding for finding in found if finding["check"] == "preemption"]
    crowded = any(map(data.crowded, data.best))
    checks = [*unseen_checks(data), *(["other-programs"] if late and crowded else [])]
    unseen = [finding for finding in found if finding["check"] in checks]
    for finding in unseen:
        yield _remedy(data, finding)
    yield from _quota(rhythm if late else None)
    if run["environment"]["realtime"] in NOT_RT or kernel:
        yield _kernel(data, kernel[0] if kernel else _BOOT_RT)
    for finding in found:
        if finding not in [*kernel, *told, *unseen] and finding["level"] == "error":
            yield _remedy(data, finding)
    if late:
        yield from _causes(data, cause)
        yield from _broken(data)
    yield from again if last else []
    if data.top is not None and not data.loaded and not data.crowded(data.top):
        step = data.step(data.top)
        untraced = dict.fromkeys(_TRACE, "")
        command = as_long(data, step, {**untraced, "load": "sched:groups=4,cpu"})
        yield Action("Measure under load", command, "the longest latencies occur under load")
    settable = [finding for finding in found if "--prepare" in finding["remedy"]]
    if settable and data.top is not None and "prepare" not in data.step(data.top)["run_options"]:
        command = step_command(run, data.step(data.top), {}, ["--prepare"])
        settings = numbers.plural(len(settable), "warning")
        yield Action(
            f"Prepare the system for the run ({settings})", command, "less delay, less spread"
        )
    yield from _more_samples(data, longer)
    for finding in found:
        if finding["level"] != "error" and finding not in [*kernel, *settable, *told, *unseen]:
            yield _remedy(data, finding)
    if not late:
        yield from _causes(data, cause)
    if least := shortest(data.cycles):
        budget = format_duration(least.interval_ns // SHARE)
        command = step_command(run, data.step(data.top), {"budget": budget})
        if command:
            yield Action("Set your own budget", command, "gives a verdict and an exit code")


def _quota(rhythm: Model | None) -> Iterator[Action]:
    """Where to look for a CPU quota whose period a rhythm has."""
    if rhythm is not None and QUOTA in rhythm["suspects"]:
        text = "Look for a CPU quota: cpu.max in the control groups of the target and of its host"
        yield Action(text, "", "shows or excludes this cause")


def _late(data: Data, state: State) -> bool:
    """Whether latencies are too long, and not failed tests alone make the system unfit."""
    exceeded = any(one["result"] == "fail" for one in undisturbed(data))
    return state is State.LATE or (state is State.UNFIT and exceeded)


def on_hardware(command: str) -> str:
    """What a command that measures on the board itself shows, and what to replace in it."""
    if "--log-host" not in command:
        return f"{_HARDWARE} (replace root@board with its address)"
    return f"{_HARDWARE} (replace root@board, root@logger and the lines with yours)"


def first_actions(actions: Iterable[Action]) -> tuple[Action, ...]:
    """The first actions with different commands, each command to measure again once."""
    found: list[Action] = []
    for action in actions:
        commands = {one.command for one in found if one.command}
        if action.command not in commands:
            known = action.again in commands | {one.again for one in found}
            found.append(replace(action, again="") if known else action)
        if len(found) == ACTIONS:
            break
    return tuple(found)


def _causes(data: Data, command: str) -> Iterator[Action]:
    """What finds the cause of the maximum. ``command``: that of the cause."""
    if data.top is None or not data.proper:
        return
    if command and not far_below(data):
        yield Action("Find the cause", command, hint_of(data, command))
    step = data.step(data.top)
    traced = traced_alone(step)
    if (under_load(step) or traced) and not (data.idle or any(map(data.crowded, data.best))):
        without = ("load", "load-cmd", "load-cpu", *_TRACE)
        idle_command = as_long(data, step, dict.fromkeys(without, ""))
        what, cause = ("without the trace", "trace") if traced else ("the idle system", "load")
        yield Action(f"Measure {what}", idle_command, f"shows whether the {cause} is the cause")


def _more_samples(data: Data, longer: str) -> Iterator[Action]:
    """What makes the figures those of the hardware, and what makes them surer."""
    if "lab" in data.run["environment"] and data.top is not None:
        verdict = deciding(data) if longer and data.verdicts else {"needed_s": None}
        undecided = data.steps[verdict["step"]] if verdict["needed_s"] else None
        text = "Measure on the board itself"
        text += ", long enough for a verdict" if undecided is not None else ""
        command = on_the_board(data, undecided)
        if command:
            yield Action(text, command, on_hardware(command))
    if longer and not _cut(data):
        if data.verdicts and all(verdict["needed_s"] is None for verdict in data.verdicts):
            yield Action("Take more samples", longer, "the budget can be judged")
        else:
            one = data.top
            rare = "wake-ups" if one is None else things_of(one)
            rare += " of the emulated board" if "lab" in data.run["environment"] else ""
            yield Action("Measure longer", longer, f"shows or excludes rare late {rare}")


def _cut(data: Data) -> bool:
    """Whether the run was interrupted."""
    return data.run["state"] != "running" and "interrupted" in (
        data.run["state"],
        *(step["state"] for step in data.measured),
    )


def _again(data: Data, longer: str) -> Iterator[Action]:
    """What completes a run that was interrupted. ``longer``: the command of the run that also
    makes the answer surer, if any."""
    run = data.run
    if not _cut(data):
        return
    cut = [step for step in data.measured if step["state"] == "interrupted"]
    if is_evaluation(run):
        words = ["rtgauge", "evaluate", *target_words(run), "--resume", run["id"][:13]]
        yield Action("Resume the evaluation", shlex.join(words), "measures the remaining steps")
    elif any(step["reason"] == UNREACHED for step in data.measured):
        yield Action("Repeat the command of this run", "", "measures the remaining steps")
    elif longer:
        what = "for the budget" if data.verdicts else "to show rare events"
        gain = f"completes the measurement, long enough {what}"
        yield Action("Run it again, longer", longer, gain)
    elif left := cut or data.measured:
        yield Action("Run it again", step_command(run, left[0], {}), "completes the measurement")


def _privileged(data: Data, found: Sequence[Model]) -> Iterator[Action]:
    """What gives the agent real-time priority. ``found``: the finding on privileges, if any."""
    remedy = found[0]["remedy"] if found and not found[0]["command"] else ""
    text = capital(remedy) or "Measure again as root"
    yield Action(text, raised_command(data), "shows the latency of a real-time task")
    if found and found[0]["command"]:
        text = "Or allow the user real-time priority, and log in again"
        yield Action(text, found[0]["command"], "then root privileges are not needed")


def _undecided(data: Data, state: State) -> Iterator[Action]:
    """What decides a budget that no longer run decides."""
    if state is not State.UNPROVEN:
        return
    # The rest of an interrupted step may give what its verdict lacks.
    whole = [one for one in data.verdicts if data.steps[one["step"]]["state"] != "interrupted"]
    for verdict in [one for one in whole if one["doubt"]][:1]:
        yield Action(capital(verdict["remedy"]), "", "the budget can be judged")
    judged = [data.steps[one["step"]] for one in undisturbed(data) if one["result"] == "pass"]
    if judged and (above := highest_above(data, judged)) is not None:
        budget = format_duration(limit_of(above, judged))
        command = step_command(data.run, data.step(above), {"budget": budget})
        yield Action("Give that step a budget, too", command, "its latency counts in the verdict")


def _broken(data: Data) -> Iterator[Action]:
    """The first remedy of a failed test, and that of most steps that failed or were skipped."""
    for test in [one for one in data.failed_tests if one["remedy"]][:1]:
        yield Action(capital(test["remedy"]), "", f"the test “{test['rule']}” can pass")
    steps = data.asked if data.empty else data.measured
    broken = [step for step in steps if step["state"] in ("failed", "skipped")]
    remedies = [step["remedy"] for step in broken if step["remedy"]]
    if remedies and len(broken) * 10 >= len(data.measured):
        most = max(remedies, key=remedies.count)
        number = numbers.plural(remedies.count(most), "step" if data.empty else "more step")
        command = next(step["command"] for step in broken if step["remedy"] == most)
        text = capital(sentence(most, command)) or "Provide what the steps lack"
        yield Action(text, command, f"{number} can be measured")


_INSTALLS: Final = ("apt install ", "pro enable ")
_STOCK: Final = "-stock"
"""What the name of an emulated board with a kernel without PREEMPT_RT has in place of ``-rt``."""
_BOOT_RT: Final = {"remedy": "boot a PREEMPT_RT kernel", "command": ""}


def _kernel(data: Data, finding: Model) -> Action:
    """How a PREEMPT_RT kernel gets there."""
    gain = "such a kernel delays tasks less"
    again = repeated_command(data)
    remedy, command = finding["remedy"].rstrip("."), finding["command"]
    if "lab" in data.run["environment"] and _STOCK in data.run["target"]:
        command = again.replace(_STOCK, "-rt")
        return Action("Measure the emulated board with its PREEMPT_RT kernel", command, gain)
    if command.startswith(_INSTALLS):
        text = "Install a PREEMPT_RT kernel (as root on the target), boot it and measure again"
        return Action(text, command, gain, again)
    where = " (run the command as root on a target with GRUB)" if command else ""
    return Action(f"{capital(remedy)}. Then measure again{where}", command, gain, again)


_UNTIL_BOOT: Final = ("sysctl -w ", "echo ", "for ", "cpupower ", "systemctl stop ", "swapoff ")


def _remedy(data: Data, finding: Model) -> Action:
    """The remedy of a finding, why, and what to measure again after it."""
    command = finding["command"]
    remedy = capital(sentence(finding["remedy"], command)).rstrip(".")
    parts = [finding["why"].rstrip("."), f"Finding {finding['check']}: {finding['found']}"]
    again = ""
    if command.startswith(_UNTIL_BOOT):
        run = "Run the command as root on the target, then measure again"
        remedy = f"{remedy}. {run}" if remedy else run
        parts.append("The effect of the command lasts until the next boot")
        again = repeated_command(data)
    return Action(remedy or "Run the command on the target", command, ". ".join(parts), again)
