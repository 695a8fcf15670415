# SPDX-License-Identifier: Apache-2.0
"""Plans as TOML files (docs/reference/plans.md): where they are found, read and checked."""

from __future__ import annotations

import datetime
import difflib
import os
import stat
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import rtgauge
from rtgauge.catalogue import Catalogue, Option
from rtgauge.errors import OptionError, UsageError, nearest
from rtgauge.options import HOST_OPTIONS
from rtgauge.plan.lengths import HOURS_MAX, SHARE_MAX, is_positive, scaled
from rtgauge.plan.plan import Plan, PlannedStep, Point, Rating, planned_step

__all__ = ["plan_summary", "plan_targets", "read_plan", "shipped_plans"]

_TABLES: Final = ("plan", "step", "rating", "point", "notes")
_NOTES: Final = ("hardware", "support", "licence", "acronyms", "changes")
_RATING_KEYS: Final = ("subject", "rating", "reason")
_OF_PLANS: Final = tuple(option.name for option in HOST_OPTIONS if option.applies_to("plan"))
# Keys of [plan] that each step can have, too.
_OF_ALL_STEPS: Final = tuple(
    option.name for option in HOST_OPTIONS if option.applies == "step plan"
)
_PLAN_KEYS: Final = ("name", "summary", "targets", *_OF_PLANS)
_REPEAT: Final = next(option for option in HOST_OPTIONS if option.name == "repeat")
_EXAMPLE: Final = "a plan is a TOML file: `rtgauge describe timer-quick` names an example"
# A plan of 100 000 steps takes 5 MB.
PLAN_BYTES_MAX: Final = 16 << 20
RATING_MAX: Final = 10
NOT_APPLICABLE: Final = "N.A."
SUBJECT_LETTERS_MAX: Final = 60


def read_plan(path: Path, catalogue: Catalogue) -> Plan:
    """Read a plan file and check it against a target's catalogue.

    Raises UsageError that names file, step and key in one line.
    """
    return _plan(_document(path), path, catalogue)


def plan_summary(path: Path) -> str:
    """A plan's summary of itself in a line; empty without one, or if it is not a plan."""
    try:
        summary = _document(path)["plan"]["summary"]
    except (UsageError, KeyError, TypeError):
        return ""
    return summary if isinstance(summary, str) else ""


def plan_targets(path: Path) -> tuple[str, ...]:
    """The targets that a plan names, each once, in its order. They are needed before there is a
    catalogue to read the plan with. Raises UsageError as ``read_plan`` does."""
    head = _document(path).get("plan", {})
    return _targets(head, path) if isinstance(head, dict) else ()


def _targets(head: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    names = head.get("targets", [])
    if not isinstance(names, list) or not all(
        isinstance(name, str) and name.strip() for name in names
    ):
        raise UsageError(
            f"{path}, [plan], key 'targets': {_shown(names)} is not a list of targets",
            'write targets = ["lab:x86_64-rt", "lab:x86_64-stock"]',
        )
    stripped = [name.strip() for name in names]
    for name, times in Counter(stripped).items():
        if times > 1:
            raise UsageError(
                f"{path}, [plan], key 'targets': '{name}' is named twice",
                "raise 'repeat' to measure it more often",
            )
    return tuple(stripped)


def _plan_bytes(path: Path) -> bytes:
    # without waiting: opening a FIFO blocks until a program writes to it
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        why = "" if stat.S_ISREG(os.fstat(descriptor).st_mode) else "it is not a regular file"
        if not why:
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(PLAN_BYTES_MAX + 1)
            why = "" if len(data) <= PLAN_BYTES_MAX else f"it exceeds {PLAN_BYTES_MAX >> 20} MiB"
    finally:
        os.close(descriptor)
    if why:
        raise UsageError(f"{path} is not a plan: {why}", _EXAMPLE)
    return data


def _document(path: Path) -> dict[str, Any]:
    try:
        text = _plan_bytes(path).decode()
    except OSError as error:
        raise UsageError(
            f"plan {path} cannot be read: {error.strerror}", "check the path and its permissions"
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"plan {path} is not UTF-8 text", "save it in UTF-8") from None
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: a number of thousands of digits
        if path.suffix != ".toml":
            raise UsageError(f"{path} is not a plan", _EXAMPLE) from None
        raise UsageError(
            f"plan {path} is not TOML: {error}",
            "correct it. `rtgauge describe timer-quick` names an example",
        ) from None


def _plan(document: Mapping[str, Any], path: Path, catalogue: Catalogue) -> Plan:
    _known_keys(document, _TABLES, f"{path}")
    head = document.get("plan", {})
    if not isinstance(head, dict):
        raise UsageError(f"{path}: 'plan' is not a table", "write [plan]")
    _known_keys(head, _PLAN_KEYS, f"{path}, [plan]")
    for key in ("name", "summary", "label", *_OF_ALL_STEPS):
        if not isinstance(head.get(key, ""), str):
            raise UsageError(
                f"{path}, [plan], key '{key}': {_shown(head[key])} is not a string",
                f'write {key} = "..."',
            )
    repeat = head.get("repeat", 1)
    if type(repeat) is not int or not 1 <= repeat <= int(_REPEAT.max):
        raise UsageError(
            f"{path}, [plan], key 'repeat': {_shown(repeat)} is not a whole number "
            f"from 1 to {_REPEAT.max}",
            "write repeat = 3",
        )
    hours = head.get("hours")
    if hours is not None and not is_positive(hours, HOURS_MAX):
        raise UsageError(
            f"{path}, [plan], key 'hours': {_shown(hours)} is not a number above 0, up to "
            f"{HOURS_MAX:.0f}",
            "write hours = 8, or hours = 0.5",
        )
    entries = document.get("step", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{path}: 'step' is not a list of tables", "write each as [[step]]")
    if not entries:
        raise UsageError(f"{path}: the plan has no step", "add a [[step]] with a measurement")
    steps = tuple(
        _file_step(
            _with_log_host(entry, head, catalogue),
            f"{path}, step {number} of {len(entries)}",
            catalogue,
        )
        for number, entry in enumerate(entries, 1)
    )
    plan = Plan(
        head.get("name") or path.stem,
        steps,
        head.get("label", ""),
        repeat,
        ratings=_ratings(document, path),
        points=_points(document, path),
        notes=_notes(document, path),
        targets=_targets(head, path),
    )
    if hours is None and any(step.share is not None for step in steps):
        raise UsageError(
            f"{path}: steps have a share, but the plan has no hours to share",
            "give the length of the plan: hours = 8 below [plan]",
        )
    try:
        return plan if hours is None else scaled(plan, float(hours), catalogue)
    except UsageError as error:
        raise UsageError(f"{path}: {error}", error.remedy) from None


def _ratings(document: Mapping[str, Any], path: Path) -> tuple[Rating, ...]:
    """The evaluator's ratings, one for each subject, with reasons."""
    entries = document.get("rating", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{path}: 'rating' is not a list of tables", "write each as [[rating]]")
    ratings: list[Rating] = []
    subjects: set[str] = set()
    for number, entry in enumerate(entries, 1):
        where = f"{path}, rating {number} of {len(entries)}"
        _known_keys(entry, _RATING_KEYS, where)
        texts = {key: entry.get(key, "") for key in ("subject", "reason")}
        for key, text in texts.items():
            if not isinstance(text, str) or not text.strip():
                raise UsageError(
                    f"{where}: key '{key}' needs a non-empty string",
                    "name what is rated, and give the reason for the rating",
                )
        subject, reason = (" ".join(text.split()) for text in texts.values())
        if len(subject) > SUBJECT_LETTERS_MAX:
            raise UsageError(
                f"{where}: the subject is longer than {SUBJECT_LETTERS_MAX} letters",
                "shorten it, and write the details in the reason",
            )
        if subject in subjects:
            raise UsageError(f"{where}: '{subject}' is rated twice", "leave one of the ratings out")
        value = entry.get("rating")
        rated = type(value) in (int, float) and 0 <= value <= RATING_MAX  # false for nan
        if not rated and value != NOT_APPLICABLE:
            raise UsageError(
                f"{where}: key 'rating': {_shown(value)} is not a number from 0 to {RATING_MAX} "
                f'or "{NOT_APPLICABLE}"',
                f'write rating = 8, or rating = "{NOT_APPLICABLE}"',
            )
        ratings.append(Rating(subject, value, reason))
        subjects.add(subject)
    return tuple(ratings)


def _points(document: Mapping[str, Any], path: Path) -> tuple[Point, ...]:
    """What the evaluator says for and against the system."""
    entries = document.get("point", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{path}: 'point' is not a list of tables", "write each as [[point]]")
    points: list[Point] = []
    for number, entry in enumerate(entries, 1):
        where = f"{path}, point {number} of {len(entries)}"
        _known_keys(entry, ("for", "against"), where)
        if len(entry) != 1:
            raise UsageError(
                f"{where} has "
                + ("both 'for' and 'against'" if entry else "neither 'for' nor 'against'"),
                'write for = "..." or against = "..."',
            )
        ((favour, text),) = entry.items()
        if not isinstance(text, str) or not text.strip():
            raise UsageError(
                f"{where}: key '{favour}' needs a non-empty string", f'write {favour} = "..."'
            )
        points.append(Point(favour, " ".join(text.split())))
    return tuple(points)


def _notes(document: Mapping[str, Any], path: Path) -> dict[str, str]:
    """The evaluator's texts by their subjects, in the order of the report."""
    entries = document.get("notes", {})
    if not isinstance(entries, dict):
        raise UsageError(f"{path}: 'notes' is not a table", "write [notes]")
    _known_keys(entries, _NOTES, f"{path}, [notes]")
    for key, text in entries.items():
        if not isinstance(text, str) or not text.strip():
            raise UsageError(
                f"{path}, [notes]: key '{key}' needs a non-empty string", f'write {key} = "..."'
            )
    return {key: entries[key].strip() for key in _NOTES if key in entries}


def _shown(value: object) -> str:
    """A value of the file as a message shows it: in the notation of TOML."""
    try:
        text = _notation(value)
    except (ValueError, RecursionError):  # thousands of digits, or nested as deep
        return "this"
    return text if len(text) <= 60 else f"{text[:59]}…"


def _notation(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(map(_notation, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_notation(one)}' for key, one in value.items())}}}"
    return repr(value)


def shipped_plans() -> dict[str, Path]:
    """The plans shipped with this program, by name: in the package, or in the clone."""
    package = Path(rtgauge.__file__).parent
    for folder in (package / "plans", package.parent.parent / "plans"):
        found = sorted(folder.glob("*.toml"))
        if found:
            return {path.stem: path for path in found}
    return {}


def _known_keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise UsageError(f"{where}: unknown key '{key}'", nearest(key, known))


def _with_log_host(
    entry: Mapping[str, Any], head: Mapping[str, Any], catalogue: Catalogue
) -> Mapping[str, Any]:
    """The step with the log host of the plan, if it measures answers."""
    measurement = catalogue.measurements.get(str(entry.get("measurement")))
    if measurement is None or not measurement.answers:
        return entry
    return {**{key: head[key] for key in _OF_ALL_STEPS if head.get(key)}, **entry}


def _file_step(entry: Mapping[str, Any], where: str, catalogue: Catalogue) -> PlannedStep:
    name = entry.get("measurement")
    if name is None:
        for key in entry:
            if difflib.get_close_matches(key, ("measurement",), cutoff=0.6):
                raise UsageError(f"{where}: unknown key '{key}'", nearest(key, ("measurement",)))
    if not isinstance(name, str):
        problem = " is missing" if name is None else f": {_shown(name)} is not a string"
        raise UsageError(
            f"{where}: key 'measurement'{problem}", nearest("", catalogue.measurements)
        )
    share = entry.get("share")
    if share is not None and not is_positive(share, SHARE_MAX):
        raise UsageError(
            f"{where}, key 'share': {_shown(share)} is not a number above 0, up to 1e9",
            "write share = 1",
        )
    if share is not None and "for" in entry:
        raise UsageError(f"{where}: both 'share' and 'for' give the length", "omit one of them")
    settings: dict[str, str] = {}
    step = None
    for key, value in entry.items():
        if key in ("measurement", "share"):
            continue
        try:
            settings[key] = _text(value, _option(catalogue, name, key))
            if key != "rate":  # a rate is checked together with its budget
                planned_step(catalogue, name, {key: settings[key]})
        except (UsageError, ValueError) as error:
            remedy = error.remedy if isinstance(error, UsageError) else f'write {key} = "..."'
            what = error.problem if isinstance(error, OptionError) else error
            raise UsageError(f"{where}, key '{key}': {what}", remedy) from None
    try:
        step = planned_step(catalogue, name, settings)
    except UsageError as error:
        raise UsageError(f"{where}: {error}", error.remedy) from None
    if share is not None and not catalogue.measurement(name).has("for"):
        raise UsageError(
            f"{where}: measurement '{name}' has no length that could be set", "omit 'share'"
        )
    return replace(step, share=None if share is None else float(share))


def _option(catalogue: Catalogue, measurement: str, name: str) -> Option | None:
    entry = catalogue.measurements.get(measurement)
    return entry.option(name) if entry is not None and entry.has(name) else None


def _text(value: object, option: Option | None) -> str:
    """A value of a TOML file as the text that an option takes. Raises ValueError."""
    if isinstance(value, list) and option is not None and option.type == "enums":
        return ",".join(_text(one, None) for one in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    raise ValueError(f"{_shown(value)} is not a string, a whole number, true or false")
