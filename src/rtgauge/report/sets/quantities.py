# SPDX-License-Identifier: Apache-2.0
"""Quantities side by side: under other methods, loads and steps, or in other runs.

A quantity is all series of a measurement with one name and unit. A row is one of its steps, and
within a step each combination of the labels that distinguish its series (a method, a context).
Series of several CPUs and threads are one row. Maxima are shown but not ranked: one maximum says
nothing about the next run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from rtgauge import text as numbers
from rtgauge.report.results.again import step_command
from rtgauge.report.results.histogram import added
from rtgauge.report.results.labels import (
    LENGTHS,
    RESPONSE,
    chapters,
    highest,
    is_response,
    load_text,
    peak,
    target_name,
)

__all__ = ["CAUTION", "Row", "Table", "across", "answers", "command", "run_name", "title", "within"]

Document = Mapping[str, Any]

CAUTION: Final = (
    "Maxima are not ranked: a single maximum proves nothing about the next run. To decide whether "
    "two configurations differ, run each several times, in turn."
)


@dataclass(frozen=True)
class Row:
    """All series of one quantity in one step that share their labels.

    ``what`` tells the row from the others of its table; ``places`` are those of its series in the
    model of run number ``run``.
    """

    run: int
    step: int
    places: tuple[int, ...]
    what: str
    command: str
    duration_s: float | None
    count: int
    min: int | None
    mean: float | None
    max: int | None
    missed: int
    lost: int
    histogram: list[list[int]]
    state: str


@dataclass(frozen=True)
class Table:
    """The rows of one quantity; ``shared``: what they have in common where others differ."""

    measurement: str
    name: str
    unit: str
    rows: tuple[Row, ...]
    shared: str = ""


def run_name(runs: Sequence[Document], number: int) -> str:
    """The name of a run among several: its number, and its label or target. Both if the runs of
    several targets have labels of their own, and the target if they share one."""
    run = runs[number]
    label, target = str(run["label"] or ""), target_name(run)
    if len({target_name(one) for one in runs}) > 1:
        label = "" if len({one["label"] for one in runs}) == 1 else label
        words = [label, target]
    else:
        words = [label or target]
    return ", ".join([f"run {number + 1}", *filter(None, words)])


def command(run: Document, step: Document, labels: Mapping[str, str]) -> str:
    """The command line that carries out one row of a step. For an option with several values it
    contains the one that the row's labels name. Empty for a run made of a file."""
    asked = dict(step.get("asked") or {})
    options = {**step["parameters"], **asked}
    # A label may hold only part of an option, such as the kind of a line.
    asked.update(
        {
            key: value
            for key, value in labels.items()
            if key in options and value in str(options[key]).split(",")
        }
    )
    return step_command(run, {**step, "asked": asked}, {})


def within(model: Document, number: int) -> list[Table]:
    """The quantities of a run that have several rows. In an evaluation, only those of several
    steps: the tables of each step show its own rows."""
    whole = bool(chapters(model["runs"][number]))
    return [
        _table(model, key, members)
        for key, members in _members(model, [number]).items()
        if len({member[1] for member in members} if whole else members) > 1
    ]


def across(model: Document) -> list[Table]:
    """The quantities that several runs share, with the same labels, context and load."""
    found = []
    for key, members in _members(model, range(len(model["runs"]))).items():
        alike: dict[tuple[str, Labels, str, str], dict[Member, list[int]]] = {}
        for member, places in members.items():
            load = _step_of(model, member)["load"]
            same = (member[2], member[3], load_text(load), str(load.get("command")))
            alike.setdefault(same, {})[member] = places
        contexts = {member[2] for member in members}
        varying = {name for m in members for name, _ in m[3]}
        varying = {name for name in varying if len({dict(m[3]).get(name) for m in members}) > 1}
        for (context, labels, under, _), rows in alike.items():
            if len({number for number, *_ in rows}) > 1:
                words = [f"{context} context"] if len(contexts) > 1 and context else []
                words += [_labelled(name, text) for name, text in labels if name in varying]
                shared = ", ".join([*words, under])
                found.append(_table(model, key, rows, shared))
    return found


def answers(model: Document, which: Iterable[int]) -> Table | None:
    """All answers to events in these runs, a row for each run, kernel and context; None where there
    is one row at most."""
    rows: dict[Member, list[int]] = {}
    names: dict[str, None] = {}
    for (measurement, name, unit), members in _members(model, which).items():
        if is_response(name, unit):
            rows |= members
            names[measurement] = None
    if len(rows) < 2:
        return None
    table = _table(model, (" and ".join(names), RESPONSE, "ns"), rows)
    texts = [_answered(model, row, context) for row, (_, _, context, _) in
             zip(table.rows, rows, strict=True)]  # fmt: skip
    texts = [
        text if texts.count(text) == 1 else f"{text}, {run_name(model['runs'], row.run)}"
        for text, row in zip(texts, table.rows, strict=True)
    ]
    texts = [
        text if texts.count(text) == 1 else f"{text}, step {row.step + 1}"
        for text, row in zip(texts, table.rows, strict=True)
    ]
    named = tuple(
        replace(row, what=_marked(text, row.state))
        for row, text in zip(table.rows, texts, strict=True)
    )
    return replace(table, rows=named, shared="contexts and kernels")


def _answered(model: Document, row: Row, context: str) -> str:
    """Which kernel answered, on which core other than Linux, in which context, under which load."""
    run = model["runs"][row.run]
    step = next(one for one in run["steps"] if one["step"] == row.step)
    environment = run["environment"]
    kernel = str((environment.get("kernel") or {}).get("release") or "")
    words = [kernel or run_name(model["runs"], row.run)]
    words += [step["core"]] if step["core"] not in (None, "linux") else []
    words += [f"{context} context"] if context else []
    return ", ".join([*words, load_text(step["load"])])


Labels: TypeAlias = tuple[tuple[str, str], ...]
Member: TypeAlias = tuple[int, int, str, Labels]
"""Run, step, context and labels of a row."""


def _step_of(model: Document, member: Member) -> Document:
    steps = model["runs"][member[0]]["steps"]
    return next(step for step in steps if step["step"] == member[1])


def _members(
    model: Document, which: Iterable[int]
) -> dict[tuple[str, str, str], dict[Member, list[int]]]:
    """Quantity -> row -> the places of its series."""
    groups: dict[tuple[str, str, str], dict[Member, list[int]]] = {}
    for number in which:
        run = model["runs"][number]
        roles = {step["step"]: step["role"] for step in run["steps"]}
        for place, one in enumerate(run["series"]):
            if roles[one["step"]] != "measurement":
                continue
            key = (one["measurement"], one["name"], one["unit"])
            labels = tuple(sorted(one["labels"].items()))
            member = (number, one["step"], one["context"], labels)
            groups.setdefault(key, {}).setdefault(member, []).append(place)
    return groups


def _table(
    model: Document,
    key: tuple[str, str, str],
    members: Mapping[Member, list[int]],
    shared: str = "",
) -> Table:
    parts: dict[Member, dict[str, str]] = {}
    for member in members:
        number, _, context, labels = member
        step = _step_of(model, member)
        facts = {"run": run_name(model["runs"], number)}
        facts["context"] = f"{context} context" if context else ""
        facts |= {f"label {name}": _labelled(name, value) for name, value in labels}
        # An option that a label names, or whose value is the context, would only repeat it.
        facts |= {
            f"option {name}": f"{name} {value}"
            for name, value in step["parameters"].items()
            if name not in dict(labels) and name not in LENGTHS and value != context
        }
        facts["load"] = load_text(step["load"])
        parts[member] = facts
    names = list(dict.fromkeys(name for facts in parts.values() for name in facts))
    names.sort(key=lambda name: name == "load")
    varying = [n for n in names if len({facts.get(n) for facts in parts.values()}) > 1]
    texts = {
        member: ", ".join(facts[name] for name in varying if facts.get(name))
        for member, facts in parts.items()
    }
    if len(set(texts.values())) < len(texts):
        texts = {
            m: ", ".join(t for t in (text, f"step {m[1] + 1}") if t) for m, text in texts.items()
        }
    rows = [_row(model, member, places, texts[member]) for member, places in members.items()]
    return Table(*key, tuple(rows), shared)


def _labelled(name: str, value: str) -> str:
    """The value of a label, with its name if it is a number."""
    return f"{name} {value}" if value[:1].isdigit() else value


def _marked(what: str, state: str) -> str:
    """The name of a row, with the state of its step if the step is not complete."""
    return what if state == "complete" else f"{what} ({state})"


def _row(model: Document, member: Member, places: Sequence[int], what: str) -> Row:
    number, at, _, labels = member
    run = model["runs"][number]
    step = _step_of(model, member)
    series = [run["series"][place] for place in places]
    kept = [
        (one["mean"], one["bound"]["samples"] - one["unanswered"])
        for one in series
        if one["mean"] is not None
    ]
    total = sum(samples for _, samples in kept)
    return Row(
        run=number,
        step=at,
        places=tuple(places),
        what=_marked(what or f"step {at + 1}", step["state"]),
        command=command(run, step, dict(labels)),
        duration_s=max((one["bound"]["duration_s"] for one in series), default=None),
        count=sum(one["count"] for one in series),
        min=min((one["min"] for one in series if one["min"] is not None), default=None),
        mean=sum(mean * samples for mean, samples in kept) / total if total else None,
        max=highest(peak(one) for one in series),
        missed=sum(one["missed"] for one in series),
        lost=sum(one["lost"] for one in series),
        histogram=added([one.get("histogram") or [] for one in series]),
        state=step["state"],
    )


def title(table: Table) -> str:
    """The title of a table: ``timer: latency (µs)``."""
    unit = numbers.unit_name(table.unit)
    name = f"{table.measurement}: {table.name}" + (f" ({unit})" if unit else "")
    return f"{name}, {table.shared}" if table.shared else name
