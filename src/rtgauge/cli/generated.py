# SPDX-License-Identifier: Apache-2.0
"""Options and commands that are generated from tables: those of the measurements and of every run
from the target's catalogue, those of the host from ``rtgauge.options``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from rtgauge.catalogue import Catalogue, Option, RunOption
from rtgauge.cli.help import Command, TableOption
from rtgauge.cli.values import loads, values
from rtgauge.errors import UsageError
from rtgauge.options import GROUPS, HOST_OPTIONS
from rtgauge.units import parse_duration

__all__ = [
    "OF_MEASUREMENT",
    "OF_PLAN",
    "RunCommand",
    "common_options",
    "hours",
    "measurement_option",
    "of_every_run",
    "order_seed",
    "reconnect_s",
    "repeat",
    "run_option",
]

HOST: Final[Mapping[str, RunOption]] = {option.name: option for option in HOST_OPTIONS}
# Options of the host that only one kind of command has.
OF_PLAN: Final = "hours"
OF_MEASUREMENT: Final = "thorough"
# Number of a measurement's own options that the short help shows.
_OWN: Final = 12
_METAVARS: Final = {"duration": "TIME", "integer": "N", "size": "SIZE", "cpus": "LIST"}
_PATHS: Final = {
    "FILE": click.Path(path_type=Path, dir_okay=False),
    "FOLDER": click.Path(path_type=Path, file_okay=False),
}


def run_option(option: RunOption, catalogue: Catalogue | None = None) -> click.Option:
    """An option of every run for the command line. ``catalogue``: names its loads."""
    names = (option.short, f"--{option.name}")
    if option.type == "flag":
        return TableOption(*names, text=option.help, is_flag=True)
    if option.type == "enums":
        listed = ", ".join(option.values)
        return TableOption(
            *names,
            text=option.help,
            brackets=[listed],
            metavar="LIST",
            type=values(option.values, several=True),
        )
    if option.type == "enum":
        listed = "|".join(option.values)
        return TableOption(
            *names, text=option.help, metavar=listed, type=click.Choice(option.values)
        )
    notation = option.values[0] if option.values else _METAVARS[option.type]
    return TableOption(
        *names,
        text=option.help,
        brackets=[f"default {option.default}" if option.default else ""],
        multiple=option.several,
        metavar=notation,
        type=loads(catalogue) if notation == "LOADS" else _PATHS.get(notation, click.STRING),
    )


def measurement_option(option: Option) -> click.Option:
    """One option of a measurement for the command line."""
    more: dict[str, Any] = {}
    notation = option.notation()
    if notation in ("LIST", "TEXT", option.type.upper()):  # tells no more than the metavar
        notation = ""
    if option.type == "flag":
        more = {"is_flag": False, "flag_value": "yes", "type": values(("yes", "no"))}
    elif option.type in ("enum", "enums"):
        more = {"type": values(option.values, several=option.type == "enums")}
    return TableOption(
        f"--{option.name}",
        text=option.help,
        brackets=[f"default {option.default}" if option.default else "", notation],
        multiple=option.type in ("enum", "enums"),
        metavar=_METAVARS.get(option.type, "VALUE"),
        **more,
    )


def of_every_run(
    catalogue: Catalogue | None, without: Sequence[str] = (), texts: Mapping[str, str] = {}
) -> list[RunOption]:
    """The options of ``run``, whatever it measures: the target's, where it is known, and ours.
    ``texts``: help texts by name, for a command in which an option means something else."""
    agent = catalogue.run_options if catalogue is not None else ()
    options = [
        replace(option, help=texts.get(option.name, option.help))
        for option in (*agent, *HOST_OPTIONS)
        if option.name not in without
    ]
    options.sort(key=lambda option: option.name != "target")
    return [option for option in options if option.applies not in ("host", "file")]


def common_options(catalogue: Catalogue) -> list[Option]:
    """The options that most measurements have."""
    found: dict[str, list[Option]] = {}
    for entry in catalogue.measurements.values():
        for option in entry.options:
            found.setdefault(option.name, []).append(option)
    return [same[0] for same in found.values() if 2 * len(same) > len(catalogue.measurements)]


class RunCommand(Command):
    """A command with its own options under ``title``, and those of every run in their groups.

    ``more_rare``: options of every run that the short help omits for this command. ``shown``:
    number of its own options there. ``extra``: further options under their titles.
    ``defaults``: what the project gives for options by their names as parameters.
    """

    def __init__(
        self,
        title: str,
        own: list[click.Option],
        of_every_run: list[RunOption],
        more_rare: Sequence[str] = (),
        shown: int = _OWN,
        extra: Mapping[str, list[click.Option]] | None = None,
        catalogue: Catalogue | None = None,
        defaults: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.defaults = dict(defaults or {})
        groups = {
            title: [option.opts[0].removeprefix("--") for option in options]
            for title, options in {title: own, **(extra or {})}.items()
        }
        names = groups[title]
        for group in GROUPS:
            groups[group] = [option.name for option in of_every_run if option.group == group]
        super().__init__(
            params=[
                *own,
                *(option for options in (extra or {}).values() for option in options),
                *(run_option(option, catalogue) for option in of_every_run),
            ],
            groups=groups,
            rare={
                *(option.name for option in of_every_run if option.rare),
                *more_rare,
                *names[shown:],
            },
            **kwargs,
        )


def host_value(given: Mapping[str, Any], name: str) -> str | None:
    """The value of an option of the host in its shortest notation. Raises UsageError."""
    text = given[name.replace("-", "_")]
    try:
        return None if text is None else HOST[name].normalise(text)
    except ValueError as error:
        raise UsageError(f"--{name}: {error}", f"{name}: {HOST[name].help}") from None


def repeat(given: Mapping[str, Any]) -> int | None:
    text = host_value(given, "repeat") if "repeat" in given else None
    return None if text is None else int(text)


def reconnect_s(given: Mapping[str, Any]) -> float | None:
    text = host_value(given, "reconnect")
    return None if text is None else parse_duration(text) / 1e9


def order_seed(given: Mapping[str, Any]) -> int | None:
    text = host_value(given, "order-seed")
    return None if text is None else int(text)


def hours(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        raise UsageError(f"--hours: '{text}' is not a number", "give 8, or 0.5") from None
