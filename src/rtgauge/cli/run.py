# SPDX-License-Identifier: Apache-2.0
"""The commands that measure: ``run``, ``log-host`` and ``evaluate``.

Their options come from tables: those of the measurement and of every run from the target's
catalogue, those of the host from ``rtgauge.options``. The words of the command line are first
searched for the target. Then a command with the options of this target parses them. So each
measurement has its own ``--help`` and error messages.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import pwd
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from rtgauge.catalogue import Catalogue, Option, RunOption
from rtgauge.cli.carry_out import check_report, execute_plan, show_results
from rtgauge.cli.options import open_store
from rtgauge.cli.output import format_seconds, say, show
from rtgauge.errors import ExitCode, RtgaugeError, UsageError, nearest
from rtgauge.options import HOST_OPTIONS
from rtgauge.plan import (
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
    from rtgauge.target import Target

__all__ = ["GUESS_NS", "evaluate", "is_no_plan", "log_host", "plan_path", "run", "targets_of"]

# Length of a step whose options do not say, where a length is estimated.
GUESS_NS = 2 * 10**9

# --- options -------------------------------------------------------------------------------------

HOST: Final[Mapping[str, RunOption]] = {option.name: option for option in HOST_OPTIONS}
# Options of the host that only one kind of command has.
_OF_PLAN: Final = "hours"
_OF_MEASUREMENT: Final = "thorough"
_METAVARS: Final = {"duration": "TIME", "integer": "N", "size": "SIZE", "cpus": "LIST"}
_PATHS: Final = {
    "FILE": click.Path(path_type=Path, dir_okay=False),
    "FOLDER": click.Path(path_type=Path, file_okay=False),
}


def _run_option(option: RunOption) -> click.Option:
    """An option of every run for the command line."""
    names = [*([option.short] if option.short else []), f"--{option.name}"]
    if option.type == "flag":
        return click.Option(names, is_flag=True, help=option.help)
    notation = option.values[0] if option.values else _METAVARS[option.type]
    default = f" [default {option.default}]" if option.default else ""
    return click.Option(
        names,
        multiple=option.several,
        metavar=notation,
        type=_PATHS.get(notation, click.STRING),
        help=option.help + default,
    )


def _measurement_option(option: Option) -> click.Option:
    """One option of a measurement for the command line."""
    flag: dict[str, Any] = {}
    if option.type == "flag":
        flag = {"is_flag": False, "flag_value": "yes"}
    default = f"; default {option.default}" if option.default else ""
    return click.Option(
        [f"--{option.name}"],
        multiple=option.type in ("enum", "enums"),
        metavar=_METAVARS.get(option.type, "VALUE"),
        help=f"{option.help} [{option.notation()}{default}]",
        **flag,
    )


def _of_every_run(catalogue: Catalogue | None, without: Sequence[str] = ()) -> list[RunOption]:
    """The options of ``run``, whatever it measures: the target's, where it is known, and ours."""
    agent = catalogue.run_options if catalogue is not None else ()
    options = [option for option in (*agent, *HOST_OPTIONS) if option.name not in without]
    options.sort(key=lambda option: option.name != "target")
    return [option for option in options if option.applies not in ("host", "file")]


def _common_options(catalogue: Catalogue) -> list[Option]:
    """The options that most measurements have."""
    found: dict[str, list[Option]] = {}
    for entry in catalogue.measurements.values():
        for option in entry.options:
            found.setdefault(option.name, []).append(option)
    return [same[0] for same in found.values() if 2 * len(same) > len(catalogue.measurements)]


class _RunCommand(click.Command):
    """A command with its own options and, in a section of their own, those of every run."""

    def __init__(
        self, title: str, own: list[click.Option], of_every_run: list[RunOption], **kwargs: Any
    ) -> None:
        run_options = [_run_option(option) for option in of_every_run]
        self._sections = {title: own, "Options of every run": run_options}
        super().__init__(params=[*own, *run_options], **kwargs)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, options in self._sections.items():
            records = [record for option in options if (record := option.get_help_record(ctx))]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


# --- the words of the command line ---------------------------------------------------------------


def _names(words: Sequence[str]) -> list[int]:
    """The places of words that may name the measurement or the plan, the likeliest first.

    These are the words that no option before them takes as a value, then those behind options that
    only the target knows.
    """
    valued = {
        name: option.type != "flag"
        for option in HOST_OPTIONS
        for name in (f"--{option.name}", option.short)
    }
    free, behind = [], []
    before = ""
    for place, word in enumerate(words):
        if word.startswith("-"):
            before = "" if "=" in word else word
            continue
        if not before or valued.get(before) is False:
            free.append(place)
        elif before not in valued:
            behind.append(place)
        before = ""
    return free + behind


def _named_targets(words: Sequence[str]) -> list[str]:
    """The targets that the command line names."""
    names = [word.partition("=")[2] for word in words if word.startswith("--target=")]
    return names + [value for word, value in itertools.pairwise(words) if word == "--target"]


def _named_plan(words: Sequence[str]) -> tuple[str, Path | None]:
    """The word in the place of a measurement or plan, and the plan that it means, if any."""
    word = next((words[place] for place in _names(words)), "")
    return word, plan_path(word) if word else None


def targets_of(words: Sequence[str]) -> list[str]:
    """The targets named on the command line, else those of the plan, else ``local``."""
    names = _named_targets(words)
    if not names:
        path = _named_plan(words)[1]
        names = list(plan_targets(path)) if path is not None and path.is_file() else []
    return names or ["local"]


def is_no_plan(words: Sequence[str]) -> str:
    """The word in the place of a plan if it does not mean one and no target is named, else an empty
    text."""
    word, path = _named_plan(words)
    return "" if path is not None or _named_targets(words) else word


def plan_path(word: str) -> Path | None:
    """The plan that the word means: a file, or a shipped plan by its name. None if it is neither.

    A word with a slash or the suffix .toml means a file, even if that is missing.
    """
    path = Path(word)
    if path.is_file():
        return path
    stem = path.stem if path.suffix == ".toml" and path.parent.name in ("", "plans") else word
    shipped = shipped_plans().get(stem)
    if shipped is not None:
        return shipped
    return path if path.suffix == ".toml" or "/" in word else None


# --- run -----------------------------------------------------------------------------------------


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Carry out one measurement, or a plan."""
    wants_help = any(word in ("--help", "-h") for word in words)
    places = _names(words)
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
        word, rest = words[place], [*words[:place], *words[place + 1 :]]
        path = None if word in catalogue.measurements else plan_path(word)
        if path is not None:
            command = _plan_command(ctx, path, catalogue, targets)
        elif word in catalogue.measurements:
            command = _measurement_command(ctx, word, catalogue, targets)
        else:
            raise UsageError(
                f"unknown measurement or plan '{word}'",
                nearest(word, [*catalogue.measurements, *shipped_plans()]),
            )
        with command.make_context(f"{ctx.command_path} {word}", rest) as inner:
            code = command.invoke(inner)
    return code if isinstance(code, int) else int(ExitCode.DONE)


@click.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def log_host(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Raise events on a line and time another machine's answers: the measurement of this name."""
    code = ctx.invoke(run, words=(str(ctx.info_name), *words))
    return code if isinstance(code, int) else int(ExitCode.DONE)


def _nothing_named() -> int:
    raise UsageError(
        "neither a measurement nor a plan is named", "'rtgauge describe' lists the measurements"
    )


def _general_help(ctx: click.Context, words: Sequence[str]) -> int:
    """Help without a measurement: the measurements, the plans and the common options."""
    from rtgauge.target import open_target  # noqa: PLC0415

    catalogue, name = None, targets_of(words)[0]
    with contextlib.suppress(RtgaugeError), contextlib.closing(open_target(name)) as target:
        catalogue = Catalogue.from_json(target.describe())
    common = _common_options(catalogue) if catalogue is not None else []
    command = _RunCommand(
        "Options of most measurements",
        [_measurement_option(option) for option in common],
        _of_every_run(catalogue),
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
    with formatter.section("\nShipped plans (or name a plan file of your own)"):
        formatter.write_dl([(name, plan_summary(path)) for name, path in shipped_plans().items()])
    if catalogue is not None:
        with formatter.section(f"Measurements of target '{name}'"):
            formatter.write_dl([(m.name, m.summary) for m in catalogue.measurements.values()])
    show(formatter.getvalue().rstrip())
    return int(ExitCode.DONE)


def _measurement_command(
    ctx: click.Context, name: str, catalogue: Catalogue, targets: Sequence[Target]
) -> click.Command:
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
        plan = Plan(name, tuple(steps), given["label"] or "", _repeat(given) or 1)
        return _carry_out(plan, targets, given)

    first = f"rtgauge run {name}" + (" --for 60s" if entry.has("for") else "")
    return _RunCommand(
        f"Options of {name}",
        [_measurement_option(option) for option in entry.options],
        _of_every_run(catalogue, without=[_OF_PLAN]),
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
        settings = _settings(given, catalogue, options)
        hours = _hours(given["hours"])
        if hours is not None and "for" in settings:
            raise UsageError(
                "both --hours and --for give the length of the plan", "leave one of them out"
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
            repeat=_repeat(given) or plan.repeat,
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
        "Options that override those of the steps that have them",
        [_measurement_option(option) for option in options.values()],
        _of_every_run(catalogue, without=[_OF_MEASUREMENT]),
        name=plan.name,
        callback=carry_out,
        help=f"Carry out the plan {path}.\n\n{summary}\b\nIts steps:\n{listing}",
        context_settings=ctx.parent.command.context_settings if ctx.parent else {},
    )


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


def _programs(step: PlannedStep) -> list[str]:
    """The programs outside rtgauge that a step runs as loads."""
    named = re.findall(r"(?:^|,)list:(?:[^,]*:)?program=([^,:]+)", step.load)
    return [*([step.load_command] if step.load_command else []), *named]


def _runs_as(target: Target, as_root: bool) -> str:
    """The user that such a program runs as on the target."""
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
    """Check the user's consent to a plan's programs, because its author may be somebody else.

    Raises UsageError if it runs programs on a target outside the lab without consent. With consent,
    prints each program and the user that it runs as.
    """
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
                f"the plan would run {what}, which needs your consent",
                "read the plan, then add --allow-load-cmd",
            )
        say(f"the plan runs {what}")


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


def _carry_out(plan: Plan, targets: Sequence[Target], given: Mapping[str, Any]) -> int:
    """Carry out the plan, then show and write the results. Returns the exit code."""
    for path in given["report"]:
        check_report(path)
    if given["load_cmd_root"]:
        steps = [
            step.with_option("load-cmd-root", True) if step.load_command else step
            for step in plan.steps
        ]
        plan = replace(plan, steps=tuple(steps))
    with open_store(given["store"]) as store:
        outcomes = execute_plan(
            plan,
            targets,
            store,
            allow_disturb=given["allow_disturb"],
            reconnect_s=_reconnect_s(given),
        )
        return show_results(store, outcomes, given["report"], given["json"])


def _host_value(given: Mapping[str, Any], name: str) -> str | None:
    """The value of an option of the host in its shortest notation. Raises UsageError."""
    text = given[name]
    try:
        return None if text is None else HOST[name].normalise(text)
    except ValueError as error:
        raise UsageError(f"--{name}: {error}", f"{name}: {HOST[name].help}") from None


def _repeat(given: Mapping[str, Any]) -> int | None:
    text = _host_value(given, "repeat")
    return None if text is None else int(text)


def _reconnect_s(given: Mapping[str, Any]) -> float | None:
    text = _host_value(given, "reconnect")
    return None if text is None else parse_duration(text) / 1e9


def _hours(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        raise UsageError(f"--hours: '{text}' is not a number", "give 8, or 0.5") from None


# --- evaluate ------------------------------------------------------------------------------------

# The options of an evaluation: of most measurements, of every run, and the host's.
_OF_EVALUATION: Final = (
    "for", "samples", "cpu", "priority", "load-cpu", "prepare", "target", "budget", "rate",
    "reconnect", "label", "thorough", "report", "json", "store",
)  # fmt: skip


@click.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def evaluate(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Evaluate a target: the whole catalogue, then the report."""
    from rtgauge.target import open_target  # noqa: PLC0415

    name = (_named_targets(words) or ["local"])[-1]
    with contextlib.closing(open_target(name)) as target:
        catalogue = Catalogue.from_json(target.describe())
        command = _evaluate_command(ctx, catalogue, target)
        with command.make_context(ctx.command_path, [*words]) as inner:
            code = command.invoke(inner)
    return code if isinstance(code, int) else int(ExitCode.DONE)


def _evaluate_command(ctx: click.Context, catalogue: Catalogue, target: Target) -> click.Command:
    """``evaluate`` with the options of this target."""
    common = [o for o in _common_options(catalogue) if o.name in _OF_EVALUATION]
    settings = [*(option.name for option in common), *catalogue.step_options()]

    def carry_out(**given: Any) -> int:
        from rtgauge.engine.environment import check_cpus  # noqa: PLC0415

        values = {name: given.get(name.replace("-", "_")) for name in settings}
        wanted = {name: "yes" if one is True else str(one) for name, one in values.items() if one}
        reconnect_s = _reconnect_s(given)
        plan = evaluation_plan(catalogue, settings=wanted, thorough=given["thorough"])
        plan = replace(plan, label=given["label"] or "")
        paths = given["report"] or _default_reports(
            target.name, target.clock.now().date().isoformat()
        )
        for path in paths:
            check_report(path)
        check_cpus(plan, target)
        _announce(plan, catalogue, target.name)
        with open_store(given["store"]) as store:
            outcomes = execute_plan(plan, [target], store, reconnect_s=reconnect_s)
            return show_results(store, outcomes, paths, given["json"])

    return _RunCommand(
        "Options of the steps that have them",
        [_measurement_option(option) for option in common],
        [option for option in _of_every_run(catalogue) if option.name in _OF_EVALUATION],
        name="evaluate",
        callback=carry_out,
        help="""Evaluate a target: the whole catalogue, then the report.

        --for applies to the steps that last for a time. The others end with their samples. Without
        -o, the reports are rtgauge-report-TARGET-DATE.html and .pdf in this folder.

        \b
        Examples:
          rtgauge evaluate
          rtgauge evaluate --for 10m --budget 150us -o board.html
          rtgauge evaluate --thorough --prepare --label "over night"
        """,
        context_settings=ctx.parent.command.context_settings if ctx.parent else {},
    )


def _announce(plan: Plan, catalogue: Catalogue, target: str) -> None:
    """Print the steps and their estimated lengths."""
    steps = [*calibration_steps(plan, catalogue), *plan.steps]
    lengths = [expected_ns(step, catalogue) for step in steps]
    total = sum(GUESS_NS if length is None else length for length in lengths) / 1e9
    say(f"evaluating {target}: {len(steps)} steps, about {format_seconds(total)}")
    for step, length in zip(steps, lengths, strict=True):
        shown = "a few seconds" if length is None else format_seconds(length / 1e9)
        say(f"  {describe_step(step)} ({shown})")


def _default_reports(target: str, date: str) -> list[Path]:
    """Unused names for the reports in the current folder: HTML, and PDF if it is available."""
    from rtgauge.report.render import pdf  # noqa: PLC0415

    suffixes = [".html"]
    try:
        pdf.check()
        suffixes.append(".pdf")
    except RtgaugeError as error:
        say(f"no PDF report: {error.message} ({error.remedy})")
    host = platform.node() if target == "local" else target
    host = re.sub(r"[^A-Za-z0-9.-]+", "-", host).strip("-.") or "target"
    for number in itertools.count(1):
        name = f"rtgauge-report-{host}-{date}" + (f"-{number}" if number > 1 else "")
        paths = [Path(name + suffix) for suffix in suffixes]
        if not any(path.exists() for path in paths):
            return paths
    raise AssertionError("unreachable")
