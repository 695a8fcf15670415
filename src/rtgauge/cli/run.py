# SPDX-License-Identifier: Apache-2.0
"""The commands that measure: ``run`` and ``evaluate``.

The options of ``run MEASUREMENT`` come from the target's catalogue: the words are looked through
for target and measurement first, then a command with just the right options is made and given the
words. So every measurement has its own ``--help`` and its own error messages, and none is known
here by name.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import pwd
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from rtgauge.catalogue import Catalogue, Option
from rtgauge.cli.options import as_json, open_store, store_options, target_option
from rtgauge.cli.output import (
    format_seconds,
    print_comparison,
    print_error,
    print_json,
    print_results,
    say,
    show,
)
from rtgauge.errors import ExitCode, RtgaugeError, UsageError, nearest
from rtgauge.plan import (
    LOG_HOST,
    LOG_HOST_KEYS,
    REPEAT_MAX,
    RESPONSE,
    STEP_KEYS,
    Plan,
    PlannedStep,
    calibration_steps,
    describe_step,
    evaluation_plan,
    expected_ns,
    plan_summary,
    plan_targets,
    planned_step,
    read_plan,
    scaled,
    shipped_plans,
    thorough_parameters,
)
from rtgauge.units import format_duration, parse_duration

if TYPE_CHECKING:
    from rtgauge.engine.run import RunOutcome
    from rtgauge.report import Source
    from rtgauge.store import Store
    from rtgauge.target import Target

__all__ = ["evaluate", "is_no_plan", "log_host", "run", "targets_of"]

# What a step whose length nobody knows is taken to last, where a length is only being estimated.
GUESS_NS = 2 * 10**9


def _host_options() -> list[click.Option]:
    """The options of ``run`` that are the host's own, whatever is measured."""
    return [
        click.Option(
            ["--target"],
            multiple=True,
            metavar="T",
            help="The system under test: local (default), ssh://[USER@]HOST[:PORT], lab:BOARD, "
            "fake. Repeatable: interleaved (A B, B A, …). Of a plan that names targets: in their "
            "place.",
        ),
        click.Option(
            ["--load"],
            metavar="LOADS",
            help="What the target does meanwhile: NAME[:option=value…][,NAME…] (default idle: "
            "none added). A profile is a name too.",
        ),
        click.Option(["--load-cpu"], metavar="LIST", help="The CPUs of the load."),
        click.Option(
            ["--load-cmd"],
            metavar="COMMAND",
            help="A shell command of the target as a load: 'stress-ng --vm 2'.",
        ),
        click.Option(
            ["--load-cmd-root"],
            is_flag=True,
            help="Run the load command with the agent's rights instead of those of the user who "
            "called sudo.",
        ),
        click.Option(
            ["--allow-load-cmd"],
            is_flag=True,
            help="Let a plan run the programs that it names as loads on targets other than "
            "machines of the lab.",
        ),
        click.Option(
            ["--mark"],
            metavar="gpio:CHIP:LINE",
            help="An output of the target that is high while a sample is taken, for an analyser.",
        ),
        click.Option(
            ["--disturb"],
            metavar="KIND:LENGTH:PERIOD",
            help="Disturb the target on purpose, to see that it is found: "
            "preempt_disable:200us:7.301ms. On machines of the lab.",
        ),
        click.Option(
            ["--allow-disturb"],
            is_flag=True,
            help="Let a target that is no machine of the lab be disturbed.",
        ),
        click.Option(
            ["--budget"], metavar="TIME", help="The largest value allowed: gives a verdict."
        ),
        click.Option(
            ["--rate"],
            metavar="RATE",
            help="How often the budget may be exceeded, such as 1/h (default: never).",
        ),
        click.Option(
            ["--log-host"],
            metavar="TARGET",
            help="Of 'response': who raises the events and times the answers, another machine. "
            "A board of the lab with lines=outside has its own.",
        ),
        click.Option(
            ["--log-line"],
            metavar="LINE",
            help="The log host's lines, wired to the board's --line: its output first.",
        ),
        click.Option(
            ["--log-set"],
            metavar="NAME=VALUE",
            multiple=True,
            help="An option of the log host's own, such as cpu=1, priority=90 or timeout=5ms.",
        ),
        click.Option(
            ["--reconnect"],
            metavar="TIME",
            help="For so long a lost connection to a board is tried to be made again; its agent "
            "goes on meanwhile (default 10m; 0: it ends).",
        ),
        click.Option(["--label"], metavar="TEXT", help="A name for the run, to find it by."),
        click.Option(
            ["--repeat"],
            type=click.IntRange(1, REPEAT_MAX),
            metavar="N",
            help="Carry everything out N times.",
        ),
        click.Option(["--histogram-only"], is_flag=True, help="Keep histograms, not every sample."),
        click.Option(
            ["--keep-settings"], is_flag=True, help="Change none of the target's settings."
        ),
        click.Option(
            ["--prepare"],
            is_flag=True,
            help="Set for the run what real time needs and can be set; all is put back.",
        ),
        click.Option(
            ["-o", "--report"],
            type=click.Path(path_type=Path, dir_okay=False),
            multiple=True,
            metavar="FILE",
            help="Write a report as well; its suffix says which kind. Repeatable.",
        ),
        click.Option(["--json", "as_json"], is_flag=True, help="Print the results as JSON."),
        click.Option(["--store", "store_url"], metavar="URL", help="The store's database."),
        click.Option(
            ["--data"],
            type=click.Path(path_type=Path, file_okay=False),
            metavar="FOLDER",
            help="Where the folders of the runs are.",
        ),
    ]


def _plan_options() -> list[click.Option]:
    """The options of ``run`` that a plan alone has."""
    return [
        click.Option(
            ["--hours"],
            type=click.FLOAT,
            metavar="H",
            help="How long its steps with a share last together.",
        ),
    ]


def _thorough_option() -> click.Option:
    """The option of ``run MEASUREMENT`` that a plan has not."""
    return click.Option(
        ["--thorough"],
        is_flag=True,
        help="A long run: what the evaluation takes with --thorough, where nothing else is given.",
    )


def _measurement_option(option: Option) -> click.Option:
    """One option of a measurement for the command line."""
    several = option.type in ("enum", "enums")
    flag: dict[str, Any] = {}
    if option.type == "flag":
        flag = {"is_flag": False, "flag_value": "yes"}
    default = f"; default {option.default}" if option.default else ""
    return click.Option(
        [f"--{option.name}"],
        multiple=several,
        metavar={"duration": "TIME", "integer": "N", "size": "SIZE", "cpus": "LIST"}.get(
            option.type, "VALUE"
        ),
        help=f"{option.help} [{option.notation()}{default}]",
        **flag,
    )


class _RunCommand(click.Command):
    """A command whose help tells the measurement's options from the host's."""

    def __init__(self, title: str, own: list[click.Option], **kwargs: Any) -> None:
        self._title = title
        self._own = own
        self._host = _host_options()
        super().__init__(params=[*own, *self._host], **kwargs)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = {self._title: self._own, "Options of every run": self._host}
        for title, options in sections.items():
            records = [record for option in options if (record := option.get_help_record(ctx))]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _common_options() -> list[click.Option]:
    """What most measurements have; shown where no measurement was named yet."""
    return [
        click.Option(["--for"], metavar="TIME", help="How long to measure; 0: until Ctrl-C."),
        click.Option(["--samples"], metavar="N", help="How many samples of each series."),
        click.Option(["--interval"], metavar="TIME", help="The period, e.g. 100us."),
        click.Option(["--cpu"], metavar="LIST", help="The CPUs to measure on, e.g. 0-3,8."),
        click.Option(["--priority"], metavar="N", help="Real-time priority of the threads."),
        click.Option(["--dither"], metavar="yes|no", help="Move the due times about."),
    ]


def _words_of_host() -> tuple[set[str], set[str]]:
    """The host's options that take a value, and those that do not."""
    values: set[str] = set()
    flags: set[str] = set()
    for option in [*_host_options(), *_plan_options(), _thorough_option()]:
        (flags if option.is_flag else values).update(option.opts)
    for option in _common_options():
        values.update(option.opts)
    return values, flags


def _positional(words: Sequence[str]) -> Iterator[int]:
    """The places of the words that may be the measurement: neither options nor values of ours."""
    values, _ = _words_of_host()
    skip = False
    for place, word in enumerate(words):
        if skip:
            skip = False
        elif word in values:
            skip = True
        elif not word.startswith("-"):
            yield place


def targets_of(words: Sequence[str]) -> list[str]:
    """The targets named, on the command line or else in the plan; just ``local`` without any."""
    names = [word.partition("=")[2] for word in words if word.startswith("--target=")]
    names += [
        value for word, value in itertools.pairwise(words) if word == "--target"
    ]  # fmt: skip
    if not names:
        paths = (plan_path(words[place]) for place in _positional(words))
        path = next((path for path in paths if path is not None), None)
        names = list(plan_targets(path)) if path is not None and path.is_file() else []
    return names or ["local"]


def is_no_plan(words: Sequence[str]) -> str:
    """The word in the place of a plan that is none, where no target is named; empty if not so."""
    named = any(word == "--target" or word.startswith("--target=") for word in words)
    places = list(_positional(words))
    if named or not places or any(plan_path(words[place]) for place in places):
        return ""
    return words[places[0]]


def plan_path(word: str) -> Path | None:
    """The plan that the word means: a file, else a ready plan by its name; None if it is neither.

    A file that is not there is meant where the word has the looks of one.
    """
    path = Path(word)
    if path.is_file():
        return path
    stem = path.stem if path.suffix == ".toml" and path.parent.name in ("", "plans") else word
    shipped = shipped_plans().get(stem)
    if shipped is not None:
        return shipped
    return path if path.suffix == ".toml" or "/" in word else None


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Carry out one measurement, or a plan."""
    wants_help = any(word in ("--help", "-h") for word in words)
    places = list(_positional(words))
    if not places:
        return _general_help(ctx, words) if wants_help or not words else _nothing_named()
    from rtgauge.target import open_target  # noqa: PLC0415

    with contextlib.ExitStack() as stack:
        targets = []
        for name in dict.fromkeys(targets_of(words)):
            targets.append(open_target(name))
            stack.callback(targets[-1].close)
        catalogue = Catalogue.from_json(targets[0].describe())
        known = [p for p in places if words[p] in catalogue.measurements or plan_path(words[p])]
        place = known[0] if known else places[0]
        rest = [*words[:place], *words[place + 1 :]]
        path = None if words[place] in catalogue.measurements else plan_path(words[place])
        if path is not None:
            command = _plan_command(ctx, path, catalogue, targets)
        else:
            if words[place] not in catalogue.measurements:
                known_names = [*catalogue.measurements, *shipped_plans()]
                raise UsageError(
                    f"unknown measurement or plan '{words[place]}'",
                    nearest(words[place], known_names),
                )
            command = _measurement_command(ctx, words[place], catalogue, targets)
        with command.make_context(f"{ctx.command_path} {words[place]}", rest) as inner:
            code = command.invoke(inner)
    return code if isinstance(code, int) else int(ExitCode.DONE)


@click.command(
    LOG_HOST,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
    short_help="Raise events on a line and time another machine's answers.",
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def log_host(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Raise events on a line, and time the answers of another machine: ``run log-host``."""
    code = ctx.invoke(run, words=(LOG_HOST, *words))
    return code if isinstance(code, int) else int(ExitCode.DONE)


def _nothing_named() -> int:
    raise UsageError(
        "neither a measurement nor a plan is named", "see what there is: rtgauge describe"
    )


def _general_help(ctx: click.Context, words: Sequence[str]) -> int:
    """Help without a measurement: what there is to measure, and what is the same everywhere."""
    from rtgauge.target import open_target  # noqa: PLC0415

    command = _RunCommand(
        "Options of most measurements",
        _common_options(),
        name="run",
        help="""Carry out one measurement, or a plan.

        \b
        Examples:
          rtgauge run timer --for 60s --interval 200us --load sched
          rtgauge run timer --cpu 1 --priority 98 --budget 150us --rate 1/h
          rtgauge run timer --method nanosleep,timerfd --load doload --prepare
          rtgauge run timer-quick --label "before the update"
          rtgauge run timer-study --hours 8
        """,
        epilog="'rtgauge run MEASUREMENT --help' shows all options of one measurement.",
        options_metavar="MEASUREMENT|PLAN [OPTIONS]",
    )
    with click.Context(command, info_name=ctx.command_path, max_content_width=80) as inner:
        show(command.get_help(inner))
    formatter = click.HelpFormatter(width=80)
    with formatter.section("\nReady plans (a file of your own is a plan too)"):
        formatter.write_dl([(name, plan_summary(path)) for name, path in shipped_plans().items()])
    show(formatter.getvalue().rstrip())
    try:
        name = targets_of(words)[0]
        with contextlib.closing(open_target(name)) as target:
            catalogue = Catalogue.from_json(target.describe())
    except RtgaugeError:  # nothing to list them from: the help above has to do
        return int(ExitCode.DONE)
    formatter = click.HelpFormatter(width=80)
    with formatter.section(f"\nMeasurements of target '{name}'"):
        formatter.write_dl([(m.name, m.summary) for m in catalogue.measurements.values()])
    show(formatter.getvalue().rstrip())
    return int(ExitCode.DONE)


def _measurement_command(
    ctx: click.Context, name: str, catalogue: Catalogue, targets: Sequence[Target]
) -> click.Command:
    """``run NAME`` with the options of that measurement."""
    entry = catalogue.measurement(name)

    def carry_out(**given: Any) -> int:
        settings = _settings(given, {option.name: option for option in entry.options})
        if given["thorough"]:
            load = catalogue.normalise_load(given["load"] or "idle")
            for option, text in thorough_parameters(entry, load).items():
                settings.setdefault(option, [text])
        steps = [planned_step(catalogue, name, one) for one in _combinations(settings)]
        _load_for_its_cpus(settings, steps)
        plan = Plan(name, tuple(steps), given["label"] or "", given["repeat"] or 1)
        return _carry_out(plan, targets, given)

    first = f"rtgauge run {name}" + (" --for 60s" if entry.has("for") else "")
    return _RunCommand(
        f"Options of {name}",
        [*(_measurement_option(option) for option in entry.options), _thorough_option()],
        name=name,
        callback=carry_out,
        help=f"{entry.summary}\n\n\b\nExamples:\n  {first}\n  {first} --load cpu --label loaded",
        context_settings=ctx.parent.command.context_settings if ctx.parent else {},
    )


def _plan_command(
    ctx: click.Context, path: Path, catalogue: Catalogue, targets: Sequence[Target]
) -> click.Command:
    """``run PLAN.toml``; options given override those of every step that has them."""
    plan = read_plan(path, catalogue)
    options: dict[str, Option] = {}
    for step in plan.steps:
        for option in catalogue.measurement(step.measurement).options:
            options.setdefault(option.name, option)

    def carry_out(**given: Any) -> int:
        settings = _settings(given, options)
        hours = given["hours"]
        if hours is not None and "for" in settings:
            raise UsageError(
                "both --hours and --for say how long the plan lasts", "leave one of them out"
            )
        several = [name for name, values in settings.items() if len(values) > 1]
        if several:
            raise UsageError(
                f"--{several[0]} is given more than once for a plan", "write the steps in the plan"
            )
        wanted = {name: values[0] for name, values in settings.items()}
        sized = plan if hours is None else scaled(plan, hours, catalogue)
        changed = replace(
            sized,
            steps=tuple(_override(step, catalogue, wanted) for step in sized.steps),
            label=plan.label if given["label"] is None else given["label"],
            repeat=given["repeat"] or plan.repeat,
        )
        _load_for_its_cpus(settings, changed.steps)
        _consent(sized.steps, changed.steps, targets, given)
        return _carry_out(changed, targets, given)

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
    listing = "\n".join(lines)
    return _RunCommand(
        "Options that override those of every step that has them",
        [*_plan_options(), *(_measurement_option(option) for option in options.values())],
        name=plan.name,
        callback=carry_out,
        help=f"Carry out the plan {path}.\n\n{summary}\b\nIts steps:\n{listing}",
        context_settings=ctx.parent.command.context_settings if ctx.parent else {},
    )


def _settings(given: Mapping[str, Any], options: Mapping[str, Option]) -> dict[str, list[str]]:
    """What was given for a step, as texts: several only where each makes a step of its own."""
    settings: dict[str, list[str]] = {}
    for name in [*options, *STEP_KEYS[1:]]:
        key = name if name in given else name.replace("-", "_")
        value = given.get(key)
        if value is None or value == () or value is False:
            continue
        if not isinstance(value, tuple):
            settings[name] = ["yes" if value is True else str(value)]
        elif name == "log-set":
            settings[name] = [" ".join(map(str, value))]
        elif options[name].type == "enums":
            settings[name] = [",".join(map(str, value))]
        else:
            settings[name] = [str(one) for one in value]
    return settings


def _load_for_its_cpus(settings: Mapping[str, list[str]], steps: Sequence[PlannedStep]) -> None:
    """UsageError where CPUs are named for a load that no step has."""
    if "load-cpu" in settings and all(
        step.load == "idle" and not step.load_command for step in steps
    ):
        raise UsageError(
            "--load-cpu says where a load runs, but there is none", "add --load, or --load-cmd"
        )


def _programs(step: PlannedStep) -> list[str]:
    """The programs outside rtgauge that a step runs as its loads."""
    named = re.findall(r"(?:^|,)list:(?:[^,]*:)?program=([^,:]+)", step.load)
    return [*([step.load_command] if step.load_command else []), *named]


def _runs_as(target: Target, as_root: bool) -> str:
    """The user with whose rights such a program runs there."""
    if as_root:
        return "the agent's user (root where it is raised)"
    if target.name != "local":
        return "the user of the connection"
    try:
        user = int(os.environ["SUDO_UID"]) if os.geteuid() == 0 else os.geteuid()
    except (KeyError, ValueError):
        user = os.geteuid()
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _consent(
    planned: Sequence[PlannedStep],
    steps: Sequence[PlannedStep],
    targets: Sequence[Target],
    given: Mapping[str, Any],
) -> None:
    """The user of a plan may not be its author. UsageError if it runs programs on a target other
    than a machine of the lab without consent; with consent, prints each program and its user."""
    from rtgauge.target.base import Disturbable  # noqa: PLC0415

    theirs = {program for step in planned for program in _programs(step)}
    places = [
        f"on {target.name} as {_runs_as(target, given['load_cmd_root'])}"
        for target in targets
        if not isinstance(target, Disturbable)
    ]
    found = [program for step in steps for program in _programs(step) if program in theirs]
    for program in dict.fromkeys(found) if places else ():
        what = f"'{program}' {', '.join(places)}"
        if not given["allow_load_cmd"]:
            raise UsageError(
                f"the plan would run {what}: this needs your consent",
                "read the plan, then add --allow-load-cmd",
            )
        say(f"the plan runs {what}")


def _combinations(settings: Mapping[str, list[str]]) -> Iterator[dict[str, str]]:
    """Every combination of the values given: an option given twice makes two steps."""
    for values in itertools.product(*settings.values()):
        yield dict(zip(settings, values, strict=True))


def _override(step: PlannedStep, catalogue: Catalogue, wanted: Mapping[str, str]) -> PlannedStep:
    """The step with what was wanted in place of what it had, as far as it has it."""
    entry = catalogue.measurement(step.measurement)
    given = {name: text for name, text in wanted.items() if name in STEP_KEYS or entry.has(name)}
    if entry.name != RESPONSE:
        given = {name: text for name, text in given.items() if name not in LOG_HOST_KEYS}
    if not entry.mark:
        given.pop("mark", None)
    if "rate" in given and "budget" not in given and step.budget_ns is not None:
        given["budget"] = format_duration(step.budget_ns)
    if "budget" in given and "rate" not in given and step.rate_per_hour is not None:
        changed = planned_step(catalogue, step.measurement, given)
        changed = replace(changed, rate_per_hour=step.rate_per_hour)
    else:
        changed = planned_step(catalogue, step.measurement, given)
    return replace(
        step,
        parameters=MappingProxyType({**step.parameters, **changed.parameters}),
        load=changed.load if "load" in given else step.load,
        load_cpu=changed.load_cpu if "load-cpu" in given else step.load_cpu,
        load_command=changed.load_command if "load-cmd" in given else step.load_command,
        mark=changed.mark if "mark" in given else step.mark,
        disturb=changed.disturb if "disturb" in given else step.disturb,
        budget_ns=changed.budget_ns if "budget" in given else step.budget_ns,
        rate_per_hour=changed.rate_per_hour if "budget" in given else step.rate_per_hour,
        histogram_only=step.histogram_only or changed.histogram_only,
        keep_settings=(step.keep_settings or changed.keep_settings) and not changed.prepare,
        prepare=(step.prepare or changed.prepare) and not changed.keep_settings,
        log_host=changed.log_host or step.log_host,
        log_line=changed.log_line or step.log_line,
        log_set=changed.log_set or step.log_set,
    )


def _carry_out(plan: Plan, targets: Sequence[Target], given: Mapping[str, Any]) -> int:
    """Carry out the plan, then show, print and write what was asked for; gives the exit code."""
    for path in given["report"]:
        _check_report(path)
    if given["load_cmd_root"]:
        steps = [replace(step, load_command_root=bool(step.load_command)) for step in plan.steps]
        plan = replace(plan, steps=tuple(steps))
    with open_store(given["store_url"], given["data"]) as store:
        outcomes = _execute(
            plan,
            targets,
            store,
            allow_disturb=given["allow_disturb"],
            reconnect_s=_reconnect_s(given["reconnect"]),
        )
        return _results(store, outcomes, given["report"], given["as_json"])


def _check_report(path: Path) -> None:
    """Find out before measuring, not after, that the report cannot be written."""
    from rtgauge.report import format_of  # noqa: PLC0415

    format_of(path)
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} for the report", "make it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise RtgaugeError(
            f"the report cannot be written: no right to write into {path.parent.absolute()}",
            "name a file elsewhere with -o FILE, or change to another folder",
        )


def _reconnect_s(text: str | None) -> float | None:
    """The value of --reconnect; None if it was not given. Raises UsageError."""
    if text is None:
        return None
    try:
        return parse_duration(text) / 1e9
    except ValueError as error:
        raise UsageError(f"--reconnect: {error}", "give a time such as 10m, or 0") from None


def _execute(
    plan: Plan,
    targets: Sequence[Target],
    store: Store,
    *,
    allow_disturb: bool = False,
    reconnect_s: float | None = None,
) -> list[RunOutcome]:
    from rtgauge.cli.progress import ConsoleProgress  # noqa: PLC0415
    from rtgauge.engine.study import execute  # noqa: PLC0415
    from rtgauge.target.base import pace_of  # noqa: PLC0415

    at_once = 1
    if all(pace_of(target).independent for target in targets):
        at_once = min(len(os.sched_getaffinity(0)), len(targets))
    return execute(
        plan,
        targets,
        store,
        ConsoleProgress(sys.stderr),
        allow_disturb=allow_disturb,
        at_once=at_once,
        reconnect_s=reconnect_s,
    )


def _results(
    store: Store, outcomes: Sequence[RunOutcome], reports: Sequence[Path], as_json: bool
) -> int:
    """Show the results of the runs; the exit code, the first that applies."""
    from rtgauge.report import Source, write  # noqa: PLC0415

    stored = [store.get(outcome.id) for outcome in outcomes]
    source = Source(stored)
    if any(path.suffix.lower() in (".html", ".pdf") for path in reports):
        _ = source.analysis  # the one pass over the samples that all of them are made from
    document = source.model
    if as_json:
        print_json(document)
    else:
        _print(source)
    for report in reports:
        try:
            write(source, report)
        except RtgaugeError as error:
            kept = "run is" if len(stored) == 1 else f"{len(stored)} runs are"
            names = " ".join(["last"] if len(stored) == 1 else [one.id for one in stored])
            raise RtgaugeError(
                error.message,
                f"the {kept} kept; write the report elsewhere: "
                f"rtgauge report {names} -o FILE{report.suffix}",
            ) from error
        if as_json:
            say(f"the report is in {report}")
        else:
            show(("\n" if report is reports[0] else "") + f"Report: {report}")
    for outcome in outcomes:
        if outcome.state != "complete":
            print_error(
                RtgaugeError(
                    f"run {outcome.id[:13]} {outcome.state}: {outcome.reason or 'no reason given'}",
                    outcome.remedy,
                )
            )
    return int(_exit_code(outcomes, document))


def _print(source: Source) -> None:
    """The results of the runs; those of several targets in the end side by side."""
    compared = source.comparison
    print_results(source.model, across=compared is None)
    if compared is None:
        return
    study = source.model["runs"][0]["study"]
    show("\nThe targets side by side\n", bold=True)
    if isinstance(compared, str):
        show(compared)
        return
    print_comparison(compared.document)
    show(f"\nThe same again: rtgauge compare {study[:18]}")


def _exit_code(outcomes: Sequence[RunOutcome], document: Mapping[str, Any]) -> ExitCode:
    """The first that applies: usage, failed, interrupted, a verdict failed, all skipped, done."""
    codes = {outcome.exit_code for outcome in outcomes}
    for code in (ExitCode.USAGE, ExitCode.FAILED, ExitCode.INTERRUPTED):
        if code in codes:
            return code
    verdicts = [verdict for one in document["runs"] for verdict in one["verdicts"]]
    if any(verdict["result"] == "fail" for verdict in verdicts):
        return ExitCode.OVER_BUDGET
    if codes == {ExitCode.SKIPPED}:
        return ExitCode.SKIPPED
    return ExitCode.DONE


@click.command()
@target_option
@click.option(
    "--for",
    "for_",
    metavar="TIME",
    help="How long each step that lasts for a time measures; the others end with their samples.",
)
@click.option("--samples", metavar="N", help="How many samples of each series, in every step.")
@click.option("--thorough", is_flag=True, help="Long runs: more samples, and more time.")
@click.option("--cpu", metavar="LIST", help="The CPUs to measure on.")
@click.option("--priority", metavar="N", help="Real-time priority of the measuring threads.")
@click.option("--load-cpu", metavar="LIST", help="The CPUs of the loads.")
@click.option(
    "--prepare", is_flag=True, help="Set for the run what real time needs; all is put back."
)
@click.option(
    "--budget",
    metavar="TIME",
    help="The largest latency allowed: gives a verdict on each step with a time grid.",
)
@click.option(
    "--rate", metavar="RATE", help="How often it may be exceeded, such as 1/h (default: never)."
)
@click.option(
    "--reconnect",
    metavar="TIME",
    help="For so long a lost connection to a board is tried to be made again (default 10m).",
)
@click.option("--label", metavar="TEXT", default="", help="A name for the run, to find it by.")
@click.option(
    "-o",
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    multiple=True,
    help="The report, repeatable; its suffix says which kind (default: rtgauge-report-HOST-DATE "
    ".html and .pdf in this folder).",
)
@as_json
@store_options
def evaluate(  # noqa: PLR0913
    *,
    target: str,
    for_: str | None,
    samples: str | None,
    thorough: bool,
    cpu: str | None,
    priority: str | None,
    load_cpu: str | None,
    prepare: bool,
    budget: str | None,
    rate: str | None,
    reconnect: str | None,
    label: str,
    report: tuple[Path, ...],
    as_json: bool,
    store_url: str | None,
    data: Path | None,
) -> int:
    """Evaluate a target: the whole catalogue, then the report.

    \b
    Examples:
      rtgauge evaluate
      rtgauge evaluate --for 10m --budget 150us -o board.html
      rtgauge evaluate --thorough --prepare --label "over night"
    """
    from rtgauge.engine.environment import check_cpus  # noqa: PLC0415
    from rtgauge.target import open_target  # noqa: PLC0415

    wanted = {
        "for": for_,
        "samples": samples,
        "cpu": cpu,
        "priority": priority,
        "load-cpu": load_cpu,
        "prepare": "yes" if prepare else None,
        "budget": budget,
        "rate": rate,
    }
    reconnect_s = _reconnect_s(reconnect)
    with contextlib.closing(open_target(target)) as opened:
        catalogue = Catalogue.from_json(opened.describe())
        plan = replace(
            evaluation_plan(
                catalogue,
                settings={name: text for name, text in wanted.items() if text},
                thorough=thorough,
            ),
            label=label,
        )
        paths = report or _default_reports(target, opened.clock.now().date().isoformat())
        for path in paths:
            _check_report(path)
        check_cpus(plan, opened)
        _announce(plan, catalogue, target)
        with open_store(store_url, data) as store:
            outcomes = _execute(plan, [opened], store, reconnect_s=reconnect_s)
            return _results(store, outcomes, paths, as_json)


def _announce(plan: Plan, catalogue: Catalogue, target: str) -> None:
    """Say what is going to be done, and how long it will take."""
    steps = [*calibration_steps(plan, catalogue), *plan.steps]
    lengths = [expected_ns(step, catalogue) for step in steps]
    total = sum(GUESS_NS if length is None else length for length in lengths) / 1e9
    say(f"evaluating {target}: {len(steps)} steps, about {format_seconds(total)}")
    for step, length in zip(steps, lengths, strict=True):
        shown = "a few seconds" if length is None else format_seconds(length / 1e9)
        say(f"  {describe_step(step)} ({shown})")


def _default_reports(target: str, date: str) -> list[Path]:
    """Names for the reports that are not taken yet, in the current folder: HTML, and PDF where
    that can be made."""
    from rtgauge.report.render import pdf  # noqa: PLC0415

    suffixes = [".html"]
    try:
        pdf.check()
        suffixes.append(".pdf")
    except RtgaugeError as error:
        say(f"no PDF will be written: {error.message} ({error.remedy})")
    host = platform.node() if target == "local" else target
    host = re.sub(r"[^A-Za-z0-9.-]+", "-", host).strip("-.") or "target"
    for number in itertools.count(1):
        name = f"rtgauge-report-{host}-{date}" + (f"-{number}" if number > 1 else "")
        paths = [Path(name + suffix) for suffix in suffixes]
        if not any(path.exists() for path in paths):
            return paths
    raise AssertionError("unreachable")
