# SPDX-License-Identifier: Apache-2.0
"""The commands ``run`` and ``log-host``: one measurement, or a plan.

The words of the command line are first searched for the target. Then a command with the options of
this target parses them. So each measurement has its own ``--help`` and error messages.
"""

from __future__ import annotations

import contextlib
import itertools
import shlex
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from rtgauge.catalogue import Catalogue, Measurement, Option
from rtgauge.cli.carry_out import (
    Talk,
    as_root,
    check_dry,
    check_report,
    execute_plan,
    of_project,
    show_results,
)
from rtgauge.cli.completion import words_of
from rtgauge.cli.consent import check_consent, outside
from rtgauge.cli.describe import describe_plan, facts_of
from rtgauge.cli.generated import (
    OF_MEASUREMENT,
    OF_PLAN,
    RunCommand,
    common_options,
    hours,
    measurement_option,
    of_every_run,
    order_seed,
    reconnect_s,
    repeat,
)
from rtgauge.cli.help import HELP_ALL, SETTINGS, command, wants_help
from rtgauge.cli.options import cover_of, open_store
from rtgauge.cli.output import show
from rtgauge.cli.project import project
from rtgauge.cli.words import named_agent, names, plan_path, targets_of
from rtgauge.errors import ExitCode, RtgaugeError, UsageError, nearest
from rtgauge.plan import (
    Plan,
    PlannedStep,
    describe_step,
    has_time_grid,
    plan_summary,
    planned_step,
    read_plan,
    scaled,
    shipped_plans,
    thorough_parameters,
)
from rtgauge.units import format_duration

if TYPE_CHECKING:
    from rtgauge.target import Target

__all__ = [
    "Task",
    "carry_out_plan",
    "catalogue_of",
    "command_for",
    "completed",
    "general_command",
    "log_host",
    "only_shown",
    "run",
    "run_words",
]

# Number of lines with a plan's steps in its help.
_STEPS_SHOWN: Final = 6

_GENERAL: Final = """Carry out a measurement or a plan, by name or file. Options: NAME --help.

\b
Examples:
  {command} timer --for 60s --load sched --budget 150us
  {command} timer-quick --label "before the update"
"""


def completed(
    _ctx: click.Context, words: Sequence[str], catalogue: Catalogue, task: Task | None = None
) -> tuple[click.Command, list[str], list[str]]:
    """What completes the words of ``run`` (``completion.Words``), or of another task."""
    if names(words):
        made, rest = command_for(words, catalogue, [], "rtgauge run", task=task)
        return made, rest, []
    known: list[str] = []
    if names([*words, "name"]):  # the next word is not the value of an option
        known = [*catalogue.measurements, *shipped_plans(), *map(str, Path().glob("*.toml"))]
    return general_command(catalogue, "rtgauge run", task), [*words], known


def _completed_log_host(
    ctx: click.Context, words: Sequence[str], catalogue: Catalogue
) -> tuple[click.Command, list[str], list[str]]:
    return completed(ctx, (str(ctx.info_name), *words), catalogue)


@command(**words_of(completed))
@click.pass_context
def run(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Carry out one measurement, or a plan."""
    return run_words(ctx, words)


@command(**words_of(_completed_log_host))
@click.pass_context
def log_host(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Raise events on a line and time another machine's answers: the measurement of this name."""
    return run_words(ctx, (str(ctx.info_name), *words), named=False)


@dataclass(frozen=True)
class Task:
    """What a command does with a plan. ``carry_out``: gets the plan, its targets and the values of
    all options, and returns the exit code. ``extra``: makes its own options, under their titles.
    ``without``: the options of every run that it does not have. ``help``: what it does, for a
    ``command``. ``examples``: options of examples. ``rare``: options that its short help omits.
    ``texts``: help texts of options of every run that mean something else to it."""

    carry_out: Callable[[Plan, Sequence[Target], Mapping[str, Any]], int]
    extra: Callable[[], Mapping[str, list[click.Option]]] = dict
    without: tuple[str, ...] = ()
    help: str = _GENERAL
    examples: tuple[str, ...] = ("", " --load cpu --label loaded")
    rare: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)


def run_words(
    ctx: click.Context,
    words: Sequence[str],
    *,
    named: bool = True,
    target: str = "",
    task: Task | None = None,
) -> int:
    """Carry out what the words of the command line ask for. Returns the exit code.

    ``named``: the usage line has the name of the measurement or plan after that of the command.
    ``target``: the default in place of the project's. ``task``: what is done with the plan; it is
    carried out by default.
    """
    target = target or project().target or "local"
    if not names(words):
        if wants_help(words) or not words:
            return _general_help(ctx, words, target, task)
        return _nothing_named()
    from rtgauge.target import open_target

    with contextlib.ExitStack() as stack:
        targets = []
        for name in dict.fromkeys(targets_of(words, target)):
            targets.append(open_target(name, named_agent(words)))
            stack.callback(targets[-1].close)
        catalogue = catalogue_of(targets[0], preview=only_shown(words))
        made, rest = command_for(
            words, catalogue, targets, ctx.command_path, named=named, task=task
        )
        if "--keep-settings" in words:
            made.defaults.pop("prepare", None)
        with made.make_context(made.name, rest, default_map=made.defaults) as inner:
            code = made.invoke(inner)
    return code if isinstance(code, int) else int(ExitCode.DONE)


def command_for(
    words: Sequence[str],
    catalogue: Catalogue,
    targets: Sequence[Target],
    path: str,
    *,
    named: bool = True,
    task: Task | None = None,
) -> tuple[RunCommand, list[str]]:
    """The command of the measurement or plan that the words name, and the other words.

    Its name is its path: that of the command, with the measurement or plan if ``named``. Raises
    UsageError.
    """
    task = task or Task(carry_out_plan)
    places = names(words)
    known = [p for p in places if words[p] in catalogue.measurements or plan_path(words[p])]
    place = known[0] if known else places[0]
    word, rest = words[place], [*words[:place], *words[place + 1 :]]
    usage = f"{path} {shlex.quote(word)}" if named else path
    if word in catalogue.measurements:
        return _measurement_command(usage, word, catalogue, targets, task), rest
    file = plan_path(word)
    if file is None:
        raise UsageError(
            f"unknown measurement or plan '{word}'",
            nearest(word, [*catalogue.measurements, *shipped_plans()]),
        )
    return _plan_command(usage, file, catalogue, targets, task), rest


def only_shown(words: Sequence[str]) -> bool:
    """Whether the words ask for a help text or a dry run."""
    return wants_help(words) or "--dry-run" in words


def catalogue_of(target: Target, *, preview: bool) -> Catalogue:
    """What a target describes. For a preview nothing is built or booted."""
    from rtgauge.target.base import Previewable

    if preview and isinstance(target, Previewable):
        return Catalogue.from_json(target.preview())
    return Catalogue.from_json(target.describe())


def _nothing_named() -> int:
    raise UsageError(
        "neither a measurement nor a plan is named", "'rtgauge describe' lists the measurements"
    )


def _general_help(ctx: click.Context, words: Sequence[str], default: str, task: Task | None) -> int:
    """Help without a measurement: the measurements, the plans and the common options."""
    from rtgauge.target import open_target

    catalogue, name = None, targets_of(words, default)[0]
    with contextlib.suppress(RtgaugeError), contextlib.closing(open_target(name)) as target:
        catalogue = catalogue_of(target, preview=True)
    made = general_command(catalogue, ctx.command_path, task)
    with click.Context(made, info_name=ctx.command_path, **SETTINGS) as inner:
        whole = inner.meta[HELP_ALL] = HELP_ALL in words
        show(made.get_help(inner))
    known = catalogue.measurements.values() if catalogue is not None else ()
    formatter = click.HelpFormatter(width=80)
    for title, entries in (
        ("Plans", {plan: plan_summary(path) for plan, path in shipped_plans().items()}),
        (f"Measurements of target '{name}'", {one.name: one.summary for one in known}),
    ):
        if whole:
            with formatter.section(title):
                formatter.write_dl([*entries.items()])
            continue
        listed = textwrap.fill(
            ", ".join(entries),
            80,
            initial_indent=f"{title}: ",
            subsequent_indent="  ",
            break_on_hyphens=False,
        )
        formatter.write(f"\n{listed}\n")
    show(formatter.getvalue().rstrip())
    return int(ExitCode.DONE)


def general_command(catalogue: Catalogue | None, path: str, task: Task | None = None) -> RunCommand:
    """``run`` without a measurement, or another task: the options that most of them have.
    ``path``: its name."""
    task = task or Task(carry_out_plan)
    own = common_options(catalogue) if catalogue is not None else []
    return RunCommand(
        "Options of most measurements",
        [measurement_option(option) for option in own],
        of_every_run(catalogue, task.without, task.texts),
        extra=task.extra(),
        name=path.rpartition(" ")[2],
        catalogue=catalogue,
        more_rare=("prepare", "rate", "repeat", "hours", "json", *task.rare),
        help=task.help.format(command=path),
        options_metavar="MEASUREMENT|PLAN [OPTIONS]",
    )


def _measurement_command(
    usage: str, name: str, catalogue: Catalogue, targets: Sequence[Target], task: Task
) -> RunCommand:
    """``run NAME`` with the options of that measurement."""
    entry = catalogue.measurement(name)

    def carry_out(**given: Any) -> int:
        settings = _settings(given, catalogue, {option.name: option for option in entry.options})
        if given["thorough"]:
            load = catalogue.normalise_load(given["load"] or "idle")
            for option, text in thorough_parameters(entry, load).items():
                settings.setdefault(option, [text])
        steps = [planned_step(catalogue, name, one) for one in _combinations(settings)]
        _load_for_its_cpus(settings, steps)
        plan = Plan(name, tuple(steps), given["label"] or "", repeat(given) or 1)
        return task.carry_out(plan, targets, given)

    if entry.has("line"):
        first = f"{usage} --line net:127.0.0.1:9000"
    else:
        first = usage + (" --for 60s" if entry.has("for") else "")
    return RunCommand(
        f"Options of {name}",
        [measurement_option(option) for option in entry.options],
        of_every_run(catalogue, [OF_PLAN, *task.without], task.texts),
        extra=task.extra(),
        name=usage,
        callback=carry_out,
        catalogue=catalogue,
        defaults={**project().of_runs(), **_defaults(entry)},
        help=f"{entry.summary}\n\n\b\nExamples:\n"
        + "\n".join(f"  {first}{more}" for more in task.examples),
    )


def _defaults(entry: Measurement) -> dict[str, Any]:
    """What the project gives to a measurement. A budget is for latencies on a time grid alone, as
    in an evaluation."""
    useful = {"load", "prepare"} | ({"budget", "rate"} if has_time_grid(entry) else set())
    return {name: value for name, value in project().measuring.items() if name in useful}


def _plan_command(
    usage: str, path: Path, catalogue: Catalogue, targets: Sequence[Target], task: Task
) -> RunCommand:
    """``run PLAN.toml``; options given override those of every step that has them."""
    plan = read_plan(path, catalogue)
    options = _plan_options(plan.steps, catalogue)

    def carry_out(**given: Any) -> int:
        settings = _settings(given, catalogue, options)
        length = hours(given["hours"])
        if length is not None and "for" in settings:
            raise UsageError(
                "both --hours and --for give the length of the plan", "omit one of them"
            )
        several = [name for name, values in settings.items() if len(values) > 1]
        if several:
            raise UsageError(
                f"--{several[0]} is given more than once for a plan", "write the steps in the plan"
            )
        wanted = {name: values[0] for name, values in settings.items()}
        sized = plan if length is None else scaled(plan, length, catalogue)
        changed = replace(
            sized,
            steps=tuple(_override(step, catalogue, wanted) for step in sized.steps),
            label=plan.label if given["label"] is None else given["label"],
            repeat=repeat(given) or plan.repeat,
        )
        _load_for_its_cpus(settings, changed.steps)
        theirs = {one for step in sized.steps for one in outside(step)}
        found = [one for step in changed.steps for one in outside(step) if one in theirs]
        if not given["dry_run"]:
            check_consent("the plan", "read the plan", found, targets, given)
        return task.carry_out(changed, targets, given)

    summary = plan_summary(path)
    summary = f"{summary}\n\n" if summary else ""
    lines = [
        line
        for step in plan.steps
        for line in textwrap.wrap(
            describe_step(step),
            76,
            initial_indent="  ",
            subsequent_indent="    ",
            break_on_hyphens=False,
        )
    ]
    if len(lines) > _STEPS_SHOWN:
        ready = path in shipped_plans().values()
        name = path.stem if ready else shlex.quote(str(path))
        lines[_STEPS_SHOWN:] = [f"  … all steps: rtgauge describe {name}"]
    listing = "\n".join(lines)
    return RunCommand(
        "Options that override the same options of the steps",
        [measurement_option(option) for option in options.values()],
        of_every_run(catalogue, [OF_MEASUREMENT, *task.without], task.texts),
        extra=task.extra(),
        shown=5,
        name=usage,
        callback=carry_out,
        catalogue=catalogue,
        defaults=project().of_runs(),
        help=f"Carry out the plan {path}.\n\n{summary}\b\nIts steps:\n{listing}",
    )


def _plan_options(steps: Sequence[PlannedStep], catalogue: Catalogue) -> dict[str, Option]:
    """The options of the steps, each with the values of the steps as its default."""
    options: dict[str, Option] = {}
    values: dict[str, list[str]] = {}
    for step in steps:
        for option in catalogue.measurement(step.measurement).options:
            options.setdefault(option.name, option)
            values.setdefault(option.name, []).append(
                step.parameters.get(option.name) or option.default
            )
    return {
        name: replace(option, default=" or ".join(filter(None, dict.fromkeys(values[name]))))
        for name, option in options.items()
    }


def _settings(
    given: Mapping[str, Any], catalogue: Catalogue, options: Mapping[str, Option]
) -> dict[str, list[str]]:
    """The options given for a step, as texts. Several texts make a step each."""
    settings: dict[str, list[str]] = {}
    for name in [*options, *catalogue.step_options()]:
        value = given.get(name.replace("-", "_"))
        if value is None or value == () or value is False:
            continue
        if not isinstance(value, tuple):
            settings[name] = ["yes" if value is True else str(value)]
        elif name not in options:
            settings[name] = [" ".join(map(str, value))]
        elif options[name].type == "enums":
            settings[name] = [",".join(map(str, value))]
        else:
            settings[name] = [str(one) for one in value]
    return settings


def _load_for_its_cpus(settings: Mapping[str, list[str]], steps: Sequence[PlannedStep]) -> None:
    """Raise UsageError where CPUs are named for a load that no step has."""
    if "load-cpu" in settings and all(step.loads == "idle" for step in steps):
        raise UsageError("--load-cpu needs a load", "add --load or --load-cmd")


def _combinations(settings: Mapping[str, list[str]]) -> Iterator[dict[str, str]]:
    """Each combination of the values given: an option given twice makes two steps."""
    for values in itertools.product(*settings.values()):
        yield dict(zip(settings, values, strict=True))


def _override(step: PlannedStep, catalogue: Catalogue, wanted: Mapping[str, str]) -> PlannedStep:
    """The step with the options that were given and that it can have."""
    entry = catalogue.measurement(step.measurement)
    options = catalogue.step_options()
    given = {
        name: text
        for name, text in wanted.items()
        if entry.has(name)
        or (name in options and (entry.answers or not options[name].applies_to("plan")))
    }
    if not entry.mark:
        given.pop("mark", None)
    if "rate" in given and "budget" not in given and step.budget_ns is not None:
        given["budget"] = format_duration(step.budget_ns)
    if "budget" in given and "rate" not in given and step.rate_per_hour is not None:
        changed = planned_step(catalogue, step.measurement, given)
        changed = replace(changed, rate_per_hour=step.rate_per_hour)
    else:
        changed = planned_step(catalogue, step.measurement, given)
    own = {name: changed.run[name] for name in given if name in changed.run}
    if own.get("prepare") or own.get("keep-settings"):  # the one given replaces the other
        own = {"prepare": False, "keep-settings": False, **own}
    return replace(
        step,
        parameters=MappingProxyType({**step.parameters, **changed.parameters}),
        run=MappingProxyType({**step.run, **own}),
        budget_ns=changed.budget_ns if "budget" in given else step.budget_ns,
        rate_per_hour=changed.rate_per_hour if "budget" in given else step.rate_per_hour,
        log_host=changed.log_host or step.log_host,
        log_line=changed.log_line or step.log_line,
        log_set=changed.log_set or step.log_set,
    )


def carry_out_plan(
    plan: Plan, targets: Sequence[Target], given: Mapping[str, Any], *, xeno: bool = False
) -> int:
    """Carry out the plan, then show and write the results. Returns the exit code. ``xeno``: it is
    77 if a core refused the steps, which then measured Linux."""
    for path in given["report"]:
        check_report(path)
    cover = cover_of(given)
    seed, reconnect = order_seed(given), reconnect_s(given)
    if given["dry_run"]:
        check_dry(plan, targets)
        catalogue = catalogue_of(targets[0], preview=True)
        planned = replace(plan, targets=tuple(target.name for target in targets))
        describe_plan(planned, catalogue, as_json=given["json"], facts=facts_of(targets))
        return int(ExitCode.DONE)
    plan = as_root(replace(of_project(plan), order_seed=seed), given)
    with open_store(given["store"], create=True) as store:
        outcomes = execute_plan(
            plan,
            targets,
            store,
            allow_disturb=given["allow_disturb"],
            reconnect_s=reconnect,
            talk=Talk.of(given),
        )
        return show_results(
            store,
            outcomes,
            given["report"],
            kind="xeno-test" if xeno else "",
            cover=cover,
            full=given["full"],
            talk=Talk.of(given),
        )
