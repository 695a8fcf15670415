# SPDX-License-Identifier: Apache-2.0
"""The command ``describe``: what a target can measure, as its agent says itself, and what a plan
would do there."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtgauge.catalogue import Catalogue, Load, Measurement, Option, Profile
from rtgauge.cli.help import command
from rtgauge.cli.main import COMMANDS
from rtgauge.cli.options import as_json, target_option
from rtgauge.cli.output import format_seconds, print_json, show, width
from rtgauge.cli.values import described
from rtgauge.cli.words import plan_path
from rtgauge.errors import UsageError, nearest
from rtgauge.plan import (
    GUESS_NS,
    Plan,
    PlannedStep,
    calibration_steps,
    describe_step,
    endless,
    expected_ns,
    plan_summary,
    read_plan,
    shipped_plans,
)
from rtgauge.text import join, plain

if TYPE_CHECKING:
    from rtgauge.target import Target

__all__ = ["describe", "describe_plan", "facts_of", "lengths_of"]

COLUMN = 30
LONGEST = 60


@command()
@click.argument("name", required=False, type=described())
@target_option
@as_json
def describe(name: str | None, target: str, as_json: bool) -> None:
    """Show what a target can measure, and under which loads.

    NAME is a measurement, a load, or the name or file of a plan. A measurement or load is described
    in full. A plan is shown with its steps, its targets and its length.
    """
    from rtgauge.target import open_target

    with contextlib.closing(open_target(target)) as opened:
        catalogue = Catalogue.from_json(opened.describe())
    entries: dict[str, Measurement | Load | Profile] = {
        **catalogue.profiles,
        **catalogue.loads,
        **catalogue.measurements,
    }
    path = None if name is None or name in entries else plan_path(name)
    if path is not None:
        describe_plan(read_plan(path, catalogue), catalogue, as_json=as_json, path=path)
        return
    if name in COMMANDS and name not in entries:
        raise UsageError(
            f"'{name}' is a command, not a measurement, load or plan",
            f"its options: rtgauge {name} --help"
            + (". Its steps: rtgauge evaluate --dry-run" if name == "evaluate" else ""),
        )
    if name is not None and name not in entries:
        raise UsageError(
            f"unknown measurement, load or plan '{name}'",
            nearest(name, [*entries, *shipped_plans()]),
        )
    if as_json:
        print_json(_document(catalogue, name))
        return
    formatter = click.HelpFormatter(width=80)
    if name is None:
        _overview(catalogue, formatter)
    else:
        _details(entries[name], catalogue, formatter)
    show(formatter.getvalue().rstrip())


def facts_of(targets: Sequence[Target]) -> list[dict[str, Any]]:
    """The facts of targets that tell which steps all of them will skip. None with a board of the
    lab, which skips none, and whose facts would take a boot."""
    from rtgauge.engine.environment import read_facts
    from rtgauge.target.base import Adaptable

    if any(isinstance(target, Adaptable) for target in targets):
        return []
    return [read_facts(target.environment())[1] for target in targets]


def lengths_of(
    steps: Sequence[PlannedStep], catalogue: Catalogue, facts: Sequence[Mapping[str, Any]]
) -> list[int | None]:
    """The length of each step in ns: None if it is not known, 0 if all targets will skip it."""
    from rtgauge.engine.environment import is_skipped

    return [
        0
        if facts and all(is_skipped(step, catalogue, one) for one in facts)
        else expected_ns(step, catalogue)
        for step in steps
    ]


def describe_plan(
    plan: Plan,
    catalogue: Catalogue,
    *,
    as_json: bool,
    path: Path | None = None,
    facts: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Print what a plan would do, and in what time. ``path``: its file. ``facts``: those of its
    targets, if they are known."""
    summary = plan_summary(path) if path is not None else ""
    steps = [*calibration_steps(plan, catalogue), *plan.steps]
    lengths = lengths_of(steps, catalogue, facts)
    total = plan.repeat * sum(GUESS_NS if one is None else one for one in lengths) / 1e9
    if as_json:
        told = [
            {**step.document(), "expected_s": None if length is None else length / 1e9}
            for step, length in zip(steps, lengths, strict=True)
        ]
        document = {**plan.document(), "summary": summary, "steps": told}
        print_json(
            {"format": "rtgauge-plan", "version": 1, **document, "file": str(path or ""),
             "expected_s": total}
        )  # fmt: skip
        return
    columns = width()

    def wrapped(text: str, indent: int = 0, first: str = "") -> None:
        show(
            textwrap.fill(
                text,
                columns,
                initial_indent=first or " " * indent,
                subsequent_indent=" " * (indent + (0 if first else 2)),
                break_on_hyphens=False,
            )
        )

    wrapped(f"{plan.name}: {summary}" if summary else plan.name)
    if path is not None:
        show(f"  {path}")
    show("")
    several = len(plan.targets) > 1
    order = " (interleaved, in a random order)" if several and plan.repeat > 1 else ""
    wrapped("Targets:  " + (", ".join(plan.targets) or "as given with --target (default: local)"))
    if plan.repeat > 1:
        wrapped(f"Repeats:  {plan.repeat}{order}")
    each = f"about {format_seconds(total)}"
    if several:
        each += f" on each target, {format_seconds(total * len(plan.targets))} in total"
    if any(name.partition(":")[0] == "lab" for name in plan.targets):
        each += ". Emulated boards take longer, because these times are on their own clocks"
    wrapped(f"Time:     {each}")
    show("")
    show("Steps, with their time:")
    shown = [
        "skipped"
        if length == 0
        else "endless"
        if endless(step, catalogue)
        else "?"
        if length is None
        else format_seconds(length / 1e9)
        for step, length in zip(steps, lengths, strict=True)
    ]
    widest = max(map(len, shown))
    for step, length in zip(steps, shown, strict=True):
        head = f"  {length.rjust(widest)}  "
        kind = "calibration: " if step.role == "calibration" else ""
        program = f" (command: '{plain(step.load_command)}')" if step.load_command else ""
        wrapped(f"{kind}{describe_step(step)}{program}", len(head), head)
    if "?" in shown:
        guess = format_seconds(GUESS_NS / 1e9)
        show(f"  {'?'.rjust(widest)}  the options give no length: {guess} are assumed for each")
    for reason, names in _skipped(plan, catalogue, facts).items():
        wrapped(f"{join(names)}: {reason}", 11, "  skipped  ")


def _skipped(
    plan: Plan, catalogue: Catalogue, facts: Sequence[Mapping[str, Any]]
) -> dict[str, list[str]]:
    """Why all targets will skip some measurements, with the remedies. ``facts``: in the order of
    the plan's targets."""
    from rtgauge.engine.environment import why_skipped

    found: dict[str, list[str]] = {}
    target = plan.targets[0] if plan.targets else ""
    for step in plan.steps:
        why = [why_skipped(step, catalogue, one, target) for one in facts]
        if why and why[0] is not None and None not in why:
            reason, remedy = why[0]
            names = found.setdefault(f"{reason} ({remedy})", [])
            names += [step.measurement] * (step.measurement not in names)
    return found


def _document(catalogue: Catalogue, name: str | None) -> dict[str, object]:
    """The catalogue; of one name: the catalogue with that entry alone."""
    document = dict(catalogue.document)
    if name is not None:
        for key in ("measurements", "loads", "profiles"):
            if key in document:
                document[key] = [entry for entry in document[key] if entry["name"] == name]
    return document


def _overview(catalogue: Catalogue, formatter: click.HelpFormatter) -> None:
    everything = catalogue.measurements.values()
    groups = {
        **_chapters([m for m in everything if m.role == "measurement"]),
        "Calibrations, carried out before every run": [
            (m.name, m.summary) for m in everything if m.role == "calibration"
        ],
        "Loads": [(load.name, load.summary) for load in catalogue.loads.values()],
        "Profiles (loads under one name)": [
            (profile.name, profile.summary) for profile in catalogue.profiles.values()
        ],
        "Options that every load has (such as sched:restart=5s)": _rows(catalogue.load_options),
    }
    for title, rows in groups.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows, col_max=COLUMN)


def _chapters(measurements: Sequence[Measurement]) -> dict[str, list[tuple[str, str]]]:
    """Under the chapters of an evaluation, in the order in which these first come."""
    chapters: dict[str, list[tuple[str, str]]] = {}
    for one in measurements:
        title = f"Measurements ({one.chapter.lower()})" if one.chapter else "Measurements"
        chapters.setdefault(title, []).append((one.name, one.summary))
    return chapters


def _rows(options: Sequence[Option]) -> list[tuple[str, str]]:
    rows = []
    for option in options:
        name, text = f"{option.name} ({option.notation()})", option.help
        if len(name) > LONGEST:  # click breaks the second column only
            name, text = option.name, f"{text} [{option.notation().replace('|', ' | ')}]"
        rows.append((name, text + (f" (default {option.default})" if option.default else "")))
    return rows


def _details(
    entry: Measurement | Load | Profile, catalogue: Catalogue, formatter: click.HelpFormatter
) -> None:
    code = f" [{entry.code}]" if isinstance(entry, Measurement) and entry.code else ""
    formatter.write_text(f"{entry.name}{code}: {entry.summary}")
    sections: dict[str, list[tuple[str, str]]] = {}
    if isinstance(entry, Profile):
        sections["Its loads"] = [
            (name, catalogue.loads[name].summary if name in catalogue.loads else "")
            for name in dict.fromkeys(part.partition(":")[0] for part in entry.mix.split(","))
            if name
        ]
    else:
        sections["Options"] = _rows(entry.options)
    if isinstance(entry, Load):
        sections["Options that every load has"] = _rows(catalogue.load_options)
    if isinstance(entry, Measurement):
        sections["Series"] = [
            (f"{s.name} ({s.unit})", " → ".join(s.stages) or s.meaning) for s in entry.series
        ]
        sections["Tables"] = [(table.name, table.meaning) for table in entry.tables]
        sections["Tests"] = [(rule.rule, rule.meaning) for rule in entry.verdicts]
        sections["The line of --mark"] = list(entry.mark.items())
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)
    if isinstance(entry, Profile):
        with formatter.section("The same, written out"):
            formatter.write_text(f"--load '{entry.mix.replace(',', ', ')}'")
