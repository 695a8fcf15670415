# SPDX-License-Identifier: Apache-2.0
"""The blame of a cause, and what to try: for the command, reports and stored documents alike."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rtgauge.causes.blame import blame, host_of
from rtgauge.causes.orders import orderly, steps_of
from rtgauge.causes.remedies import System, remedies
from rtgauge.options import foreign_options, left_out_comment, option_words

if TYPE_CHECKING:
    from rtgauge.causes.model import Cause
    from rtgauge.store import StoredRun

__all__ = ["advised", "system_of"]

#: Targets of runs that were imported from a file. No command repeats them.
_FILES: Final = ("capture:", "printed:")
#: Options that a remedy does not repeat. ``tune`` has no injection.
_NOT_REPEATED: Final = (
    *("--disturb", "--disturb-module", "--allow-disturb"),
    *("--explain", "--explain-above"),
)


def advised(cause: Cause, median: float, system: System) -> Cause:
    """The cause with its blame and remedies. ``median``: of its series."""
    text, main = blame(cause.segments, cause.latency_ns, median)
    unseen = cause.unseen
    late = bool(text) and not text.startswith("nothing:")
    if late and system.host and "hypervisor" not in unseen:
        unseen = f"{unseen} Time that {system.host} took does not appear in a trace.".strip()
    found = remedies(main, system) if main else ()
    return replace(cause, blame=text, unseen=unseen, remedies=found)


def system_of(run: StoredRun, step: int) -> System:
    """The system, and the step as words of the command line, without defaults.

    The orders of an imported run are not used: only its steps were checked when it was imported.
    """
    document = run.document
    target = str(document.get("target") or "")
    steps: Sequence[Mapping[str, Any]] = document["steps"]
    entry = next((each for each in steps if each["step"] == step), {})
    options = _given(entry)
    foreign: set[str] = set()
    if run.imported and not target.startswith("lab:"):
        foreign = foreign_options(options)
    words = [] if run.imported else _ordered(document.get("orders"), step)
    if not words and entry.get("measurement") and not target.startswith(_FILES):
        words = [str(entry["measurement"])]
        for name, value in options.items():
            if name not in foreign:
                words += (f"--{name}",) if value is True else option_words(name, str(value))
    defaults = {(f"--{name}", text) for name, text in _defaults(document, words[:1])}
    kept: list[str] = []
    for option in _options(words):
        if option[0].partition("=")[0] not in _NOT_REPEATED and option not in defaults:
            kept += option
    environment = document.get("environment")
    environment = environment if isinstance(environment, dict) else {}
    kernel = environment.get("kernel")
    kernel = kernel if isinstance(kernel, dict) else {}
    without_effect = set(str(kernel.get("cmdline") or "").split())
    if kernel.get("preemption_dynamic") is not True:
        without_effect.add("preempt=full")
    boots = _boots(target, environment.get("lab"))
    if target.startswith("lab:") and not boots:
        kept = []
    return System(
        str(environment.get("realtime", "")),
        shlex.quote(target) if target else "",
        tuple(shlex.quote(word) for word in kept),
        str(entry.get("disturb") or ""),
        left_out_comment(
            [
                name
                for name, value in options.items()
                if name in foreign and value is not True and f"--{name}" not in _NOT_REPEATED
            ]
        ),
        machine=str(kernel.get("machine") or "x86_64"),
        without_effect=frozenset(without_effect),
        boots=boots,
        host=host_of(environment),
    )


def _boots(target: str, lab: object) -> bool:
    """Whether ``rtgauge tune`` boots the target itself, with the arguments that it tries."""
    counted = isinstance(lab, dict) and lab.get("mode") == "counted"
    return target.startswith("lab:") and counted and ",seed=" not in target


def _ordered(orders: object, step: int) -> list[str]:
    """The measurement of a step and its options, as a board received them. Empty without orders."""
    for words in orders if orderly(orders) else ():
        if words[0] == "run" and step in steps_of([words]):
            return words[3 : words.index("--run")]
    return []


def _options(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Each option with its value, if it has one, and each other word."""
    place = 0
    while place < len(words):
        size = 2 if words[place].startswith("--") and "=" not in words[place] else 1
        option = tuple(words[place : place + size])
        if len(option) > 1 and option[1].startswith("--"):
            option = option[:1]  # a flag
        yield option
        place += len(option)


def _defaults(document: Mapping[str, Any], measurement: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The options of a measurement and of every run with their defaults."""
    catalogue = document.get("catalogue")
    if not isinstance(catalogue, dict):
        return
    groups = [catalogue.get("run_options")]
    groups += [
        one.get("options")
        for one in catalogue.get("measurements") or ()
        if isinstance(one, dict) and one.get("name") in measurement
    ]
    for group in groups:
        for option in group if isinstance(group, list) else ():
            if isinstance(option, dict) and option.get("default"):
                yield str(option.get("name")), str(option["default"])


def _given(entry: Mapping[str, Any]) -> dict[str, str | bool]:
    """The options of a step. A flag has the value True."""
    groups = (entry.get("parameters"), entry.get("run_options"))
    pairs = [pair for group in groups if isinstance(group, dict) for pair in group.items()]
    return {
        name: value if value is True else str(value)
        for name, value in dict(pairs).items()
        if value not in (None, False, "")
    }
