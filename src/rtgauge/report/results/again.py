# SPDX-License-Identifier: Apache-2.0
"""The commands that carry out a step of the results model again: as it was, longer, or changed.

A command is a whole line that a shell takes as it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rtgauge.options import foreign_options, left_out_comment, option_words
from rtgauge.report.results.labels import made_of_a_file
from rtgauge.units import format_duration

__all__ = [
    "deciding_command",
    "lasting_command",
    "option_words",
    "remedy_with_store",
    "requirement",
    "step_command",
    "times_answers",
    "wiring",
    "with_store",
    "without_foreign",
]

Model = Mapping[str, Any]

_CALLS: Final = ([["rtgauge"]], [["$(command -v rtgauge)"]])
"""The words that start rtgauge: as the first word, or as the second after sudo."""
_OPERATORS: Final = frozenset(("&&", "||", "|", ";", "&"))
_WITHOUT_STORE: Final = ("check", "describe", "lab", "module", "agent", "completion")
"""The commands of rtgauge that have no option --store."""
_IN_REMEDY: Final = re.compile(
    r"(?<!\w)'(rtgauge [^']*)'(?!\w)|`(rtgauge [^`]*)`|\((rtgauge [^()]*)\)"
    r"|(?<=: )(rtgauge (?:'[^']*'|[^'])*?)(?=\. [A-Z]|$)"
)
"""The commands in a remedy: quoted, in parentheses, or after a colon and up to the end of the
sentence."""
EVENTS: Final = ("for", "samples", "interval", "dither")
"""Options of a board's step that its log host carries out."""
_WIRING: Final = {
    "line": "gpio:gpiochip0:17:27",
    "log-host": "ssh://root@logger",
    "log-line": "gpio:gpiochip0:22:23:24",
}
"""The lines of a board and of its log host in commands, as in the README."""


def deciding_command(run: Model, verdict: Model) -> str:
    """The command of a run long enough to decide a verdict; empty if no length decides it."""
    step = next(step for step in run["steps"] if step["step"] == verdict["step"])
    if verdict["needed_s"] is not None:
        return lasting_command(run, step, verdict["needed_s"], {})
    if verdict["needed_samples"] is None or "samples" not in step["parameters"]:
        return ""
    limit = {"for": "0"} if step["parameters"].get("for", "0") not in ("", "0") else {}
    return step_command(run, step, {"samples": str(verdict["needed_samples"]), **limit})


def lasting_command(
    run: Model, step: Model, seconds: float, change: Mapping[str, str], more: Sequence[str] = ()
) -> str:
    """The command that repeats a step for that long, in minutes or in samples, rounded up; empty
    where its length cannot be chosen. ``change`` and ``more``: as in ``step_command``."""
    if "for" in step["parameters"] or "for" in (step.get("asked") or {}):
        minutes = -(-int(seconds + 1) // 60)
        length = {"for": format_duration(minutes * 60 * 10**9)}
        return step_command(run, step, {**length, **change}, more)
    series = [one for one in run["series"] if one["step"] == step["step"] and one["interval_ns"]]
    if "samples" not in step["parameters"] or not series:
        return ""
    samples = -(-int((seconds + 1) * 1e9) // max(one["interval_ns"] for one in series))
    return step_command(run, step, {"samples": str(samples), **change}, more)


def step_command(
    run: Model, step: Model, change: Mapping[str, str], more: Sequence[str] = ()
) -> str:
    """The command that carries out a step again, with other options and ``more`` words. A length
    replaces both lengths. A change to an empty text drops an option. Empty for a run made of a
    file. For an imported run, see ``without_foreign``."""
    if made_of_a_file(run):
        return ""
    step = _of_the_board(run, step)
    options = {name: str(value) for name, value in (step.get("asked") or {}).items()}
    if {"for", "samples"} & set(change):
        options = {name: text for name, text in options.items() if name not in ("for", "samples")}
    flags = [name for name, value in step["run_options"].items() if value is True]
    options |= {n: str(value) for n, value in step["run_options"].items() if value is not True}
    if step["budget"]:
        options |= requirement(step["budget"])
    options |= change
    options, left_out = without_foreign(run, options)
    if is_foreign(run):
        flags = [name for name in flags if name not in foreign_options(dict.fromkeys(flags, True))]
    if options.get("disturb") and "lab" not in run["environment"]:
        flags.append("allow-disturb")
    words = ["rtgauge", "run", step["measurement"]]
    if run["target"] not in ("", "local"):
        words += ["--target", run["target"]]
    for name, text in options.items():
        words += option_words(name, text) if text else []
    words += [f"--{name}" for name in flags if name not in change]
    return shlex.join([*words, *more]) + left_out


def without_foreign(run: Model, options: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """The options of a command without foreign ones, and a comment for its end with their names.

    See ``foreign_options``. On emulated boards they do no harm.
    """
    foreign = foreign_options(options) if is_foreign(run) else set()
    kept = {name: text for name, text in options.items() if name not in foreign}
    return kept, left_out_comment([name for name in options if name in foreign])


def is_foreign(run: Model) -> bool:
    """Whether a run is imported, and not of an emulated board."""
    return run["imported"] and not run["target"].startswith("lab:")


def requirement(budget: Model) -> dict[str, str]:
    """The options of a budget and its rate."""
    options = {"budget": format_duration(budget["budget_ns"])}
    if budget["rate_per_hour"] is not None:
        rate = f"{budget['rate_per_hour']:.15f}".rstrip("0").rstrip(".")
        options["rate"] = f"{rate}/h"  # without an exponent
    return options


def with_store(command: str, place: str) -> str:
    """A command with the store at ``place``. Other commands, and all of them if ``place`` is empty,
    are returned unchanged."""
    if not place:
        return command
    head, mark, comment = command.partition(" #")
    if (words := _words(head)) is None:  # the # is part of a word
        head, mark, comment = command, "", ""
        words = _words(head) or [""]
    name = next((words[at + 1] for at in (0, 1) if words[at : at + 1] in _CALLS[at]), "")
    uses_one = name[:1].isalpha() and name not in _WITHOUT_STORE
    if not uses_one or {"--store", "--help"} & set(words) or _OPERATORS & set(words):
        return command
    return f"{head.rstrip()} --store {shlex.quote(place)}{mark}{comment}"


def remedy_with_store(remedy: str, place: str) -> str:
    """The remedy of an error, with the store added to its commands by ``with_store``."""

    def changed(found: re.Match[str]) -> str:
        command = next(one for one in found.groups() if one is not None)
        return found[0].replace(command, with_store(command, place))

    return _IN_REMEDY.sub(changed, remedy)


def _words(command: str) -> list[str] | None:
    """The words and operators of a command, and an empty one; None if a quote is not closed."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return [*lexer, ""]
    except ValueError:
        return None


def _of_the_board(run: Model, step: Model) -> Model:
    """The steps of a board and of its log host as the one step that a command names: the board's,
    with the events and the budget of its log host. Any other step is returned unchanged. ``step``
    may be a changed copy of the run's."""
    planned = (run["plan"] or {}).get("steps")
    if not isinstance(planned, list):
        return step
    at = step["step"]
    steps = {one["step"]: one for one in run["steps"]} | {at: step}
    host = at if times_answers(planned, at) else at + 1
    if not times_answers(planned, host) or host - 1 not in steps or host not in steps:
        return step
    board, events = steps[host - 1], steps[host].get("asked") or {}
    asked = {**{name: events[name] for name in EVENTS if name in events}, **(board["asked"] or {})}
    pair = planned[host - 1]
    if isinstance(pair, Mapping) and pair.get("log_line"):  # else the emulated board has its own
        for key in ("log_host", "log_line", "log_set"):
            asked[key.replace("_", "-")] = pair.get(key) or ""
    return {**board, "asked": asked, "budget": steps[host]["budget"]}


def wiring(run: Model, step: Model) -> dict[str, str]:
    """The options of a step that replace the lines of an emulated board by those of a board and
    its log host. Empty for a step without a log host."""
    return {} if _of_the_board(run, step) is step else dict(_WIRING)


def times_answers(planned: Sequence[Any], at: int) -> bool:
    """Whether that step of a plan is the log host's of a pair."""
    one = planned[at] if 0 < at < len(planned) else None
    parameters = one.get("parameters") if isinstance(one, Mapping) else None
    return isinstance(parameters, Mapping) and "answered-by" in parameters
