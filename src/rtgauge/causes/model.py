# SPDX-License-Identifier: Apache-2.0
"""The model of a cause: one sample, cut into segments, each with a class, a task and a stack.

The store keeps them in ``runs/ID/causes.json``, next to the run's own files, which it never alters.
They are not part of the run's bundle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import Any, Final, TypeVar

__all__ = [
    "CERTAINTIES",
    "CHOICE",
    "CLASSES",
    "FORMAT",
    "LATE",
    "SOURCES",
    "UNTIL",
    "VERSION",
    "Cause",
    "Cost",
    "Remedy",
    "Segment",
    "Task",
    "causes_of",
    "document_of",
    "plain",
]

FORMAT: Final = "rtgauge-causes"
VERSION: Final = 1
LIMIT: Final = 1 << 62
"""Upper limit of every number of a cause."""

CLASSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "hardware": "hardware or hypervisor",
        "interrupts-off": "interrupts off",
        "interrupt": "interrupt handler",
        "softirq": "softirq",
        "preemption-off": "not preempted",
        "higher-priority": "higher-priority task",
        "lock": "waiting for a lock",
        "operation": "the operation itself",
        "switch": "task switch",
        "return": "return to the task",
        "trace": "the trace itself",
    }
)
"""Class of a segment -> the words for people."""

LATE: Final = "late interrupt"
"""Function of a segment of ``hardware``: an interrupt came late, although interrupts were on."""
UNTIL: Final = "lower task until the switch"
"""Function of a segment of ``switch``: a task of lower priority ran on for longer than a switch
takes, but no longer than usual. The trace does not show whether it could be preempted."""
CHOICE: Final = "lower task chosen"
"""Function of a segment of ``switch``: the scheduler chose a task of lower priority."""

SOURCES: Final = ("replay", "tracefs", "module")
CERTAINTIES: Final = ("exact", "measured", "inferred")
"""``exact``: from the executed instructions. ``measured``: between two time stamps of the trace.
``inferred``: follows from what the trace has before and after, or from code of unknown names."""


@dataclass(frozen=True)
class Task:
    """A task of the target. ``policy`` as in a series (``fifo``, ``other``), empty if not known;
    ``priority``: the real-time priority, 0 for an ordinary task."""

    name: str
    pid: int = -1
    policy: str = ""
    priority: int = 0


@dataclass(frozen=True)
class Segment:
    """A stretch of a sample. ``begin_ns`` counts from the due time."""

    begin_ns: int
    length_ns: int
    kind: str
    """Its class, a key of ``CLASSES``."""
    certainty: str
    task: Task | None = None
    """The task that ran, or in whose context the kernel ran."""
    function: str = ""
    """Where most of the time was spent, or the handler of an interrupt or softirq."""
    stack: tuple[str, ...] = ()
    """Functions, the innermost first."""
    owner: Task | None = None
    """The task that held the lock."""
    functions: tuple[tuple[str, int], ...] = ()
    """The functions that ran, with their nanoseconds, the longest first."""


@dataclass(frozen=True)
class Remedy:
    """A remedy, and the command that shows whether it helps."""

    text: str
    command: str = ""


@dataclass(frozen=True)
class Cost:
    """What recording added to the measurement: ``added_ns`` to a sample (median), 0 for a replay,
    which does not affect the measurement."""

    added_ns: int
    text: str


@dataclass(frozen=True)
class Cause:
    """Where the time of one sample went. The lengths of the segments and ``rest_ns`` add up to
    ``latency_ns``."""

    step: int
    series: int
    """The number of the series in its step's stream."""
    context: str
    index: int
    due_ns: int
    """Since the step began: the due time, or the beginning of the test loop of an operation."""
    latency_ns: int
    segments: tuple[Segment, ...]
    rest_ns: int
    """Time that no segment covers."""
    source: str
    blame: str
    """One sentence: which class, task and function took most of the excess."""
    cost: Cost
    unseen: str = ""
    """What the source could not see of this sample, as text."""
    remedies: tuple[Remedy, ...] = ()


_Part = TypeVar("_Part", Cause, Segment, Task, Cost, Remedy)


def document_of(run: str, causes: Sequence[Cause]) -> dict[str, Any]:
    """The content of ``causes.json``."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "run": run,
        "causes": [plain(one) for one in causes],
    }


def plain(cause: Cause) -> dict[str, Any]:
    """A cause as in a JSON document, of maps and lists."""
    found = _listed(asdict(cause))
    assert isinstance(found, dict)
    return found


def _listed(value: object) -> object:
    if isinstance(value, dict):
        return {name: _listed(one) for name, one in value.items()}
    return [_listed(one) for one in value] if isinstance(value, tuple) else value


def causes_of(document: Mapping[str, Any]) -> tuple[Cause, ...]:
    """The causes in the content of ``causes.json``, and in a run of the results model.

    Raises ValueError if they are not of this version, or damaged.
    """
    if document.get("version", VERSION) != VERSION:
        raise ValueError(f"causes of version {document['version']}, not {VERSION}")
    try:
        return tuple(_cause(one) for one in document["causes"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"damaged causes: {error}") from None


def _cause(one: Mapping[str, Any]) -> Cause:
    found = Cause(
        **{
            **one,
            "segments": tuple(_segment(each) for each in _list(one["segments"])),
            "cost": _checked(Cost(**one["cost"])),
            "remedies": tuple(_checked(Remedy(**each)) for each in _list(one["remedies"])),
        }
    )
    if found.source not in SOURCES:
        raise ValueError(f"damaged causes: unknown source {found.source!r}")
    if sum(each.length_ns for each in found.segments) + found.rest_ns != found.latency_ns:
        raise ValueError(
            f"damaged causes: the parts of sample {found.index} do not add up to its latency"
        )
    return _checked(found)


def _segment(one: Mapping[str, Any]) -> Segment:
    found = Segment(
        **{
            **one,
            "task": _task(one["task"]),
            "owner": _task(one["owner"]),
            "stack": tuple(_list(one["stack"])),
            "functions": tuple((str(name), int(ns)) for name, ns in _list(one["functions"])),
        }
    )
    if found.kind not in CLASSES or found.certainty not in CERTAINTIES:
        raise ValueError(f"damaged causes: unknown class {found.kind!r}, {found.certainty!r}")
    if not all(isinstance(name, str) for name in found.stack):
        raise ValueError("damaged causes: a stack contains something other than names")
    return _checked(found)


def _task(one: Mapping[str, Any] | None) -> Task | None:
    return None if one is None else _checked(Task(**one))


def _list(value: object) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError("damaged causes: a list is missing")
    return value


def _checked(found: _Part) -> _Part:
    """The same object. Raises ValueError if a value is not a number or text as declared."""
    for one in fields(found):
        value = vars(found)[one.name]
        if (one.type == "int" and (type(value) is not int or abs(value) > LIMIT)) or (
            one.type == "str" and type(value) is not str
        ):
            raise ValueError(f"damaged causes: {one.name} is {value!r:.40}")
    return found
