# SPDX-License-Identifier: Apache-2.0
"""Options and commands that are generated from tables: those of the measurements and of every run
from the target's catalogue, those of the host from ``rtgauge.options``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from rtgauge.catalogue import Catalogue, Option, RunOption
from rtgauge.errors import UsageError
from rtgauge.options import HOST_OPTIONS
from rtgauge.units import parse_duration

__all__ = [
    "OF_MEASUREMENT",
    "OF_PLAN",
    "RunCommand",
    "common_options",
    "hours",
    "measurement_option",
    "of_every_run",
    "reconnect_s",
    "repeat",
    "run_option",
]

HOST: Final[Mapping[str, RunOption]] = {option.name: option for option in HOST_OPTIONS}
# Options of the host that only one kind of command has.
OF_PLAN: Final = "hours"
OF_MEASUREMENT: Final = "thorough"
_METAVARS: Final = {"duration": "TIME", "integer": "N", "size": "SIZE", "cpus": "LIST"}
_PATHS: Final = {
    "FILE": click.Path(path_type=Path, dir_okay=False),
    "FOLDER": click.Path(path_type=Path, file_okay=False),
}


def run_option(option: RunOption) -> click.Option:
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


def measurement_option(option: Option) -> click.Option:
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


def of_every_run(catalogue: Catalogue | None, without: Sequence[str] = ()) -> list[RunOption]:
    """The options of ``run``, whatever it measures: the target's, where it is known, and ours."""
    agent = catalogue.run_options if catalogue is not None else ()
    options = [option for option in (*agent, *HOST_OPTIONS) if option.name not in without]
    options.sort(key=lambda option: option.name != "target")
    return [option for option in options if option.applies not in ("host", "file")]


def common_options(catalogue: Catalogue) -> list[Option]:
    """The options that most measurements have."""
    found: dict[str, list[Option]] = {}
    for entry in catalogue.measurements.values():
        for option in entry.options:
            found.setdefault(option.name, []).append(option)
    return [same[0] for same in found.values() if 2 * len(same) > len(catalogue.measurements)]


class RunCommand(click.Command):
    """A command with its own options and, in a section of their own, those of every run."""

    def __init__(
        self, title: str, own: list[click.Option], of_every_run: list[RunOption], **kwargs: Any
    ) -> None:
        run_options = [run_option(option) for option in of_every_run]
        self._sections = {title: own, "Options of every run": run_options}
        super().__init__(params=[*own, *run_options], **kwargs)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, options in self._sections.items():
            records = [record for option in options if (record := option.get_help_record(ctx))]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def host_value(given: Mapping[str, Any], name: str) -> str | None:
    """The value of an option of the host in its shortest notation. Raises UsageError."""
    text = given[name]
    try:
        return None if text is None else HOST[name].normalise(text)
    except ValueError as error:
        raise UsageError(f"--{name}: {error}", f"{name}: {HOST[name].help}") from None


def repeat(given: Mapping[str, Any]) -> int | None:
    text = host_value(given, "repeat")
    return None if text is None else int(text)


def reconnect_s(given: Mapping[str, Any]) -> float | None:
    text = host_value(given, "reconnect")
    return None if text is None else parse_duration(text) / 1e9


def hours(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        raise UsageError(f"--hours: '{text}' is not a number", "give 8, or 0.5") from None
