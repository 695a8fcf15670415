# SPDX-License-Identifier: Apache-2.0
"""The command ``evaluate``: the whole catalogue on one target, then the report."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from rtgauge.catalogue import Catalogue
from rtgauge.cli.carry_out import (
    Talk,
    check_dry,
    check_report,
    execute_plan,
    of_project,
    show_results,
    unused_names,
)
from rtgauge.cli.completion import words_of
from rtgauge.cli.consent import check_consent, outside
from rtgauge.cli.describe import describe_plan, facts_of, lengths_of
from rtgauge.cli.generated import (
    RunCommand,
    common_options,
    measurement_option,
    of_every_run,
    reconnect_s,
)
from rtgauge.cli.help import TableOption, command
from rtgauge.cli.options import cover_of, find_id, open_store
from rtgauge.cli.output import format_seconds, say
from rtgauge.cli.project import project
from rtgauge.cli.run import catalogue_of, only_shown
from rtgauge.cli.selection import members
from rtgauge.cli.values import runs, values
from rtgauge.cli.words import named_agent, named_targets
from rtgauge.errors import ExitCode, RtgaugeError, UsageError
from rtgauge.facts import Facts, one_line
from rtgauge.options import EVALUATION_OPTIONS
from rtgauge.plan import (
    EVALUATION,
    GUESS_NS,
    Plan,
    calibration_steps,
    chapter_word,
    chosen,
    evaluation_plan,
    remaining,
)
from rtgauge.text import plural

if TYPE_CHECKING:
    from rtgauge.store import StoredRun
    from rtgauge.target import Target

__all__ = ["BUILD", "alike", "evaluate", "system_here", "system_of"]

# The options of an evaluation: of most measurements, of every run, and the host's.
_OF_EVALUATION: Final = (
    "for", "samples", "core", "cpu", "priority", "load", "load-cpu", "allow-load-cmd", "prepare",
    "target", "budget", "rate", "reconnect", "label", "thorough", "report", "json", "store",
    "title", "author", "serial", "meta", "logo", "full", "quiet", "no-progress", "agent",
)  # fmt: skip


_TARGET: Final = (
    "system under test: local, ssh://HOST, lab:BOARD or fake. The default is local. HOST may be "
    "USER@HOST:PORT"
)
#: Number of parts of a system that tell machines apart, and with those of the kernel's build.
_MACHINE: Final = 4
BUILD: Final = 6
_SERIAL: Final = "/proc/device-tree/serial-number"


def _completed(
    _ctx: click.Context, words: Sequence[str], catalogue: Catalogue
) -> tuple[click.Command, list[str], list[str]]:
    from rtgauge.target.local import LocalTarget

    return evaluate_command(catalogue, LocalTarget()), [*words], []


@command(**words_of(_completed))
@click.pass_context
def evaluate(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Evaluate a target: the whole catalogue, then the report."""
    from rtgauge.target import open_target

    names = list(dict.fromkeys(named_targets(words))) or [project().target or "local"]
    if len(names) > 1:
        raise UsageError(
            f"rtgauge evaluate measures one target at a time, not {names[0]} and {names[1]}",
            "evaluate each target by itself, then compare the runs: rtgauge compare",
        )
    with contextlib.closing(open_target(names[0], named_agent(words))) as target:
        catalogue = catalogue_of(target, preview=only_shown(words))
        made = evaluate_command(catalogue, target)
        with made.make_context(ctx.command_path, [*words], default_map=made.defaults) as inner:
            code = made.invoke(inner)
    return code if isinstance(code, int) else int(ExitCode.DONE)


def evaluate_command(catalogue: Catalogue, target: Target) -> RunCommand:
    """``evaluate`` with the options of this target."""
    common = [o for o in common_options(catalogue) if o.name in _OF_EVALUATION]
    settings = [*(option.name for option in common), *catalogue.step_options()]

    def carry_out(**given: Any) -> int:
        from rtgauge.engine.environment import check_cpus
        from rtgauge.engine.study import settle

        values = {name: given.get(name.replace("-", "_")) for name in settings}
        wanted = {name: "yes" if one is True else str(one) for name, one in values.items() if one}
        plan = evaluation_plan(catalogue, settings=wanted, thorough=given["thorough"])
        before: list[str] = []
        if given["resume"] is not None:
            _check_resumed(settings)
            plan, before = _resumed(given["resume"], given["store"], catalogue, target)
        if given["label"]:
            plan = replace(plan, label=given["label"])
        plan = chosen(plan, catalogue, given["only"], given["skip"])
        chosen_by = ("only", "skip") if before else EVALUATION_OPTIONS
        plan = replace(plan, options={**plan.options, **_options(given, chosen_by)})
        for path in given["report"]:
            check_report(path)
        cover, reconnect = cover_of(given), reconnect_s(given)
        if given["dry_run"]:
            check_dry(plan, [target])
            plan = replace(plan, targets=(target.name,))
            describe_plan(plan, catalogue, as_json=given["json"], facts=facts_of([target]))
            return int(ExitCode.DONE)
        paths = given["report"]
        if not paths:
            paths = _default_reports(target.name, target.clock.now().date().isoformat())
            check_report(paths[0])
        plan = of_project(plan)
        settle(plan, [target])
        check_cpus(plan, target)
        if before:
            found = [one for step in plan.steps for one in outside(step)]
            check_consent(
                "the resumed evaluation", "print its steps with --dry-run", found, [target], given
            )
        _announce(plan, catalogue, target)
        with open_store(given["store"], create=True) as store:
            outcomes = execute_plan(
                plan, [target], store, reconnect_s=reconnect, talk=Talk.of(given)
            )
            return show_results(
                store,
                outcomes,
                paths,
                kind="" if before else "evaluation",
                before=before,
                cover=cover,
                full=given["full"],
                talk=Talk.of(given),
            )

    return RunCommand(
        "Options of the steps that have them",
        [measurement_option(option) for option in common],
        [
            replace(one, help=_TARGET, several=False) if one.name == "target" else one
            for one in of_every_run(catalogue)
            if one.name in _OF_EVALUATION
        ],
        extra={"Steps": _step_options(catalogue)},
        catalogue=catalogue,
        defaults={
            **project().of_runs(),
            **{
                name: one
                for name, one in project().measuring.items()
                if name in _OF_EVALUATION and name != "load"
            },
        },
        name="evaluate",
        callback=carry_out,
        help="""Evaluate a target: the whole catalogue, then the report.

        --for applies to the steps with a duration. The others end after their samples. Without
        -o, the reports are rtgauge-report-TARGET-DATE.html and .pdf in this folder.

        \b
        Examples:
          rtgauge evaluate --budget 150us
          rtgauge evaluate --only timer,mutexes --dry-run
        """,
    )


def _options(given: Mapping[str, Any], names: Sequence[str]) -> dict[str, str | bool]:
    """The options of these names as the run of an evaluation records them."""
    found: dict[str, str | bool] = {}
    for name in names:
        value = given.get(name.replace("-", "_"))
        if isinstance(value, tuple):
            value = ",".join(value)
        if value:
            found[name] = True if value is True else str(value)
    return found


def _step_options(catalogue: Catalogue) -> list[click.Option]:
    """The options that choose the steps of an evaluation."""
    entries = [one for one in catalogue.measurements.values() if one.evaluate]
    names = [one.name for one in entries] + [chapter_word(one.chapter) for one in entries]
    type_ = values([name for name in names if name], several=True)
    some: dict[str, Any] = {"multiple": True, "metavar": "NAME", "type": type_}
    return [
        TableOption(
            "--only", text="chapters or measurements to carry out, such as timer,mutexes", **some
        ),
        TableOption("--skip", text="chapters or measurements to leave out", **some),
        TableOption("--dry-run", text="only print the steps with their lengths", is_flag=True),
        TableOption(
            "--resume",
            text="carry out the missing steps of the evaluation RUN (default: the last)",
            metavar="[RUN]",
            type=runs(),
            is_flag=False,
            flag_value="",
        ),
    ]


def _check_resumed(settings: Sequence[str]) -> None:
    """Raise UsageError if the command line changes the steps of a resumed evaluation."""
    ctx = click.get_current_context()
    for name in (*settings, "thorough"):
        source = ctx.get_parameter_source(name.replace("-", "_"))
        if source is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"--resume takes the options of the evaluation that it resumes, not --{name}",
                f"omit --{name}, or start a new evaluation without --resume",
            )


def _resumed(
    name: str, place: str | None, catalogue: Catalogue, target: Target
) -> tuple[Plan, list[str]]:
    """What an evaluation lacks, and the ids of its runs. ``name``: a run. Empty for the last
    evaluation of the target that was measured on the same machine with the same kernel and
    parameters, and not imported. Raises UsageError."""
    here = system_here(target)
    with open_store(place) as store:
        wanted = find_id(store, name) if name else ""
        rows = [row for row in store.runs() if row.state != "unreadable"]
        if wanted and all(row.id != wanted for row in rows):
            store.get(wanted)  # says why it cannot be read
        for row in rows:
            if row.id != wanted if name else row.target != target.name:
                continue
            study = [store.get(one.id) for one in members(rows, row.study or row.id)]
            run = next(one for one in study if one.id == row.id)
            if not _is_evaluation(run):
                continue
            if name:
                _check_here(run, target, here)
            elif run.imported or not _is_of(run, target, here):
                continue
            whole = [
                one.document
                for one in study
                if _is_evaluation(one)
                and (run.imported or not one.imported)
                and _is_of(one, target, here)
            ]
            if any(one.get("state") == "running" for one in whole):
                raise UsageError(
                    f"run {run.id[:13]} cannot be resumed: it is being carried out",
                    "wait until it ends",
                )
            return remaining(catalogue, whole), [str(one["id"]) for one in whole]
    if name:
        raise UsageError(
            f"nothing can be resumed: run {name} is not an evaluation", "omit --resume"
        )
    raise UsageError(
        f"nothing can be resumed: the store has no evaluation of {target.name} that was measured on"
        " its machine with its kernel and parameters (imported ones are not considered)",
        "omit --resume. To complete an imported evaluation, name its run",
    )


def _is_evaluation(run: StoredRun) -> bool:
    return (run.document.get("plan") or {}).get("name") == EVALUATION


def _system(environment: Mapping[str, Any], facts: Mapping[str, Any]) -> tuple[str, ...]:
    """What tells systems apart: name, processor, architecture and serial number of the machine
    (``_MACHINE``), release and build of the kernel (``BUILD``), and its parameters. An unknown
    serial number is empty, and so are unknown parameters."""
    from rtgauge.report.results.labels import kernel_parameters

    kernel, cpu = environment.get("kernel") or {}, environment.get("cpu") or {}
    serial = one_line(Facts(facts).text(_SERIAL) or "")
    host, model, machine, release, build = (
        str(one or "unknown")
        for one in (
            environment.get("host"),
            cpu.get("model"),
            kernel.get("machine"),
            kernel.get("release"),
            kernel.get("version"),
        )
    )
    serial = f"serial number {serial}" if serial else ""
    return host, model, machine, serial, release, build, kernel_parameters(kernel)


def system_here(target: Target) -> tuple[str, ...]:
    """What tells the system of the target from others, as ``system_of`` does for a run."""
    from rtgauge.audit import environment_document
    from rtgauge.engine.environment import read_facts

    _, facts, settings = read_facts(target.environment())
    return _system(environment_document(facts, settings), facts)


def system_of(run: StoredRun) -> tuple[str, ...]:
    """What tells the system of a run from others: the parts of the machine, of the kernel's build
    (all up to ``BUILD``), and the kernel's parameters."""
    return _system(run.document.get("environment") or {}, run.facts)


def alike(there: Sequence[str], here: Sequence[str]) -> bool:
    """Whether two systems, or parts of them, are the same as far as they are known."""
    return all(one == other or not (one and other) for one, other in zip(there, here, strict=True))


def _is_of(run: StoredRun, target: Target, here: tuple[str, ...]) -> bool:
    """Whether the run was measured on that system under the target's name."""
    return run.document.get("target") == target.name and alike(system_of(run), here)


def _check_here(run: StoredRun, target: Target, here: tuple[str, ...]) -> None:
    """Raise UsageError unless the run was measured on that system under the target's name."""
    other = str(run.document.get("target"))
    if other != target.name:
        raise UsageError(
            f"run {run.id[:13]} is an evaluation of target '{other}'", f"add --target {other}"
        )
    if _is_of(run, target, here):
        return
    there = system_of(run)
    how, has, where, parts = "on another machine", "is", "on that machine", slice(_MACHINE)
    if alike(there[:BUILD], here[:BUILD]):
        how, has, where = "with other kernel parameters", "has", "with its parameters"
        parts = slice(BUILD, None)
    elif alike(there[:_MACHINE], here[:_MACHINE]):
        how, has, where = "with another kernel", "has", "with that kernel"
        parts = slice(_MACHINE, BUILD)
    raise UsageError(
        f"run {run.id[:13]} was measured {how} ({', '.join(filter(None, there[parts]))}). "
        f"Target '{other}' {has} {', '.join(filter(None, here[parts]))}",
        f"resume it {where}, or begin a new evaluation without --resume",
    )


def _announce(plan: Plan, catalogue: Catalogue, target: Target) -> None:
    """Print how many steps there are and their estimated length."""
    aside = calibration_steps(plan, catalogue)
    lengths = lengths_of([*aside, *plan.steps], catalogue, facts_of([target]))
    total = sum(GUESS_NS if length is None else length for length in lengths) / 1e9
    chapters = {catalogue.measurement(step.measurement).chapter for step in plan.steps} - {""}
    parts = f" in {plural(len(chapters), 'chapter')}" if chapters else ""
    steps = plural(len(plan.steps), "step")
    steps += f" and {plural(len(aside), 'calibration')}" if aside else ""
    say(f"evaluating {target.name}: {steps}{parts}, about {format_seconds(total)}")


def _default_reports(target: str, date: str) -> list[Path]:
    """Unused names for the reports in the current folder: HTML, and PDF if it is available."""
    from rtgauge.report.render import pdf

    suffixes = [".html"]
    try:
        pdf.check()
        suffixes.append(".pdf")
    except RtgaugeError as error:
        say(f"no PDF report: {error.message} ({error.remedy})")
    return unused_names(target, date, suffixes)
