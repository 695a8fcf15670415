# SPDX-License-Identifier: Apache-2.0
"""The command ``rtgauge``: finds the subcommand, runs it, and turns errors into lines and codes.

Subcommands are imported when they are called, so that ``rtgauge --help`` is there at once.
"""

from __future__ import annotations

import difflib
import os
import resource
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module

import click
from click.shell_completion import CompletionItem

import rtgauge
from rtgauge.cli.bisect import BisectCode, asked, code_of_error
from rtgauge.cli.help import SETTINGS, VARIABLE
from rtgauge.cli.output import print_error
from rtgauge.cli.project import project
from rtgauge.errors import ExitCode, RtgaugeError, UsageError, nearest
from rtgauge.signals import caught

__all__ = ["main"]

# Address space that the largest report needs, in bytes (640 MiB were enough in a trial).
ADDRESS_SPACE = 896 << 20

# Name → module, attribute, and the line that `rtgauge --help` shows; in the order shown there.
COMMANDS = {
    "evaluate": ("evaluate", "evaluate", "Evaluate a target and write a report."),
    "run": ("run", "run", "Carry out one measurement, or a plan."),
    "xeno-test": ("xeno_test", "xeno_test", "Carry out the steps of Xenomai's xeno-test."),
    "tune": ("tune", "tune", "Find which settings and kernel arguments help."),
    "check": ("check", "check", "Audit the target for real-time obstacles."),
    "log-host": ("run", "log_host", "Raise events on a line and time another machine's answers."),
    "runs": ("store", "runs", "List the runs in the store."),
    "show": ("store", "show", "Show the results of a run."),
    "report": ("store", "report", "Write the report of one or more runs."),
    "explain": ("explain", "explain", "Show where the time of samples went."),
    "compare": ("compare", "compare", "Compare sets of runs."),
    "trend": ("trend", "trend", "Find changes over time in the runs of a label."),
    "delete": ("store", "delete", "Delete runs from the store."),
    "export": ("bundle", "export", "Export a run to a bundle."),
    "import": ("bundle", "import_", "Import a bundle or a capture into the store."),
    "lab": ("lab", "lab", "List emulated boards, run plans on them, open a shell."),
    "module": ("module", "module", "Build, load and unload the kernel module."),
    "agent": ("agent", "agent", "Print the path of the agent for another machine."),
    "completion": ("completion", "completion", "Print the script for completion in a shell."),
    "describe": ("describe", "describe", "Show what a target can measure."),
}


class _Commands(click.Group):
    """Imports a subcommand when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        _check_memory()
        module, attribute, _ = COMMANDS[cmd_name]
        command = getattr(import_module(f"rtgauge.cli.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [
            CompletionItem(name, help=entry[2])
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS:
            raise UsageError(f"unknown command '{args[0]}'", nearest(args[0], COMMANDS))
        on_target = args[0] in ("check", "describe")
        ctx.default_map = {args[0]: project().of_commands(on_target=on_target)}
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[2]) for name, entry in COMMANDS.items()])


@click.command(
    cls=_Commands,
    context_settings=SETTINGS,
    invoke_without_command=True,
    epilog="RUN is a run's number (12), the beginning of its id, or 'last'. Times take units: "
    "250us, 1.5ms, 10m. --help explains each command.",
)
@click.version_option(rtgauge.__version__, message="rtgauge %(version)s")
@click.option("--store", "place", metavar="PLACE", help="Show the state of this store.")
@click.pass_context
def cli(ctx: click.Context, place: str | None) -> None:
    """Evaluate the real-time behaviour of Linux systems.

    \b
    Examples:
      rtgauge evaluate
      rtgauge run timer --for 60s --load sched --budget 150us
      rtgauge report last -o report.html
    """
    if ctx.invoked_subcommand is None:
        _check_memory()
        import_module("rtgauge.cli.status").status(place)
    elif place is not None:
        name = ctx.invoked_subcommand
        if not _has_store(ctx, name):
            raise UsageError(f"the command {name} has no option --store", "omit --store")
        raise UsageError(
            f"--store is an option of the command {name}",
            f"put it after the command: rtgauge {name} --store {shlex.quote(place)}",
        )


def _has_store(ctx: click.Context, name: str) -> bool:
    """Whether a command has the option ``--store``. Commands that parse their own
    arguments always have it."""
    from rtgauge.cli.completion import Words

    assert isinstance(ctx.command, click.Group)
    found = ctx.command.get_command(ctx, name)
    params = found.params if found is not None else []
    return any(isinstance(one, Words) or "--store" in one.opts for one in params)


def _check_memory() -> None:
    """Refuse to start with little address space, where NumPy and typst hang or abort."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each of its threads takes a lot
    if limit < ADDRESS_SPACE:
        raise RtgaugeError(
            f"the address space is limited to {limit >> 20} MiB, but rtgauge "
            f"needs {ADDRESS_SPACE >> 20} MiB",
            f"raise it: ulimit -v {ADDRESS_SPACE >> 10}",
        )


def _open_standard_files() -> None:
    """Open /dev/null for each closed standard file. Otherwise the next file opened takes its number
    and receives what is printed."""
    for number, mode in enumerate(("r", "w", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            name = ("stdin", "stdout", "stderr")[number]
            if getattr(sys, name) is None:
                setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115


def _explain(error: click.ClickException) -> UsageError:
    """Turn an error of click into a UsageError."""
    ctx = getattr(error, "ctx", None)
    where = ctx.command_path if isinstance(ctx, click.Context) else "rtgauge"
    remedy = f"see {where} --help"
    if isinstance(error, click.NoSuchOption):
        known = ctx.command.get_params(ctx) if ctx else []
        names = [name for param in known for name in param.opts if name.startswith("--")]
        # Without the dashes, which make short names alike.
        plain = {name.lstrip("-"): name for name in [*names, "--help"]}
        close = difflib.get_close_matches(error.option_name.lstrip("-"), plain, n=1)
        remedy = f"did you mean '{plain[close[0]]}'?" if close else remedy
        return UsageError(f"unknown option '{error.option_name}'", remedy)
    message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    return UsageError(message, remedy)


def _in_store(error: RtgaugeError, words: list[str]) -> RtgaugeError:
    """The error, with the store that the command line names in the commands of its remedy."""
    if error.remedy:
        from rtgauge.cli.words import named_store
        from rtgauge.report.results.again import remedy_with_store

        error.remedy = remedy_with_store(error.remedy, named_store(words))
    return error


def _invoke(words: list[str]) -> object:
    """Carry out the command that the words name, or complete them for a shell."""
    if VARIABLE in os.environ:
        from rtgauge.cli.completion import complete

        return complete(cli, os.environ[VARIABLE])
    # Not click's own main(): that would turn a closed pipe into a failure.
    with cli.make_context("rtgauge", words) as ctx:
        return cli.invoke(ctx)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    _open_standard_files()
    words = list(sys.argv[1:] if arguments is None else arguments)
    # SIGTERM and SIGHUP end a command as Ctrl-C does, so that it removes what it made.
    ending = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) == signal.SIG_DFL
    ]
    with caught(ending, _interrupt):
        return _judged(words) if asked(words) else _main(words, int)


def _interrupt() -> None:
    raise KeyboardInterrupt


def _judged(words: list[str]) -> int:
    """The exit code of a command for ``git bisect run``."""
    try:
        return _main(words, code_of_error)
    except Exception:  # a bug: git would take the usual code of a traceback as bad
        traceback.print_exc()
        return int(BisectCode.STOP)


def _main(words: list[str], failed: Callable[[int], int]) -> int:
    """The exit code of a command line. ``failed`` turns that of an error into the one wanted."""
    try:
        code = _invoke(words)
        sys.stdout.flush()
        return int(code) if isinstance(code, int) else int(ExitCode.DONE)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return failed(ExitCode.USAGE)
    except click.ClickException as error:
        return failed(print_error(_explain(error)))
    except RtgaugeError as error:
        return failed(print_error(_in_store(error, words)))
    except (KeyboardInterrupt, click.Abort):
        return failed(print_error(RtgaugeError("interrupted"), ExitCode.INTERRUPTED))
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failed(ExitCode.DONE)
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        return failed(print_error(RtgaugeError(f"{what}{error.strerror or error}")))
