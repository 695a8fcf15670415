# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have, so that they mean the same everywhere."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from rtgauge.cli.project import project
from rtgauge.errors import UsageError
from rtgauge.options import HOST_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rtgauge.report import Cover
    from rtgauge.store import Store, StoredRun

__all__ = [
    "as_json",
    "cover_of",
    "cover_options",
    "find_id",
    "find_run",
    "named_store",
    "open_store",
    "store_option",
    "target_option",
]

_COVER: Final = ("title", "author", "serial", "meta", "logo")

_F = TypeVar("_F", bound="Callable[..., Any]")


def as_json(function: _F) -> _F:
    """``--json``."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document on stdout."
    )(function)


def target_option(function: _F) -> _F:
    """``--target``, once."""
    return click.option(
        "--target",
        default="local",
        metavar="T",
        help="System under test: local (default), ssh://[USER@]HOST[:PORT], lab:BOARD, fake.",
    )(function)


def store_option(function: _F) -> _F:
    """``--store``."""
    return click.option(
        "--store",
        "place",
        metavar="PLACE",
        help="The store: a folder, a SQLite file, or postgresql://…?data=FOLDER.",
    )(function)


def cover_options(function: _F) -> _F:
    """The options of what a report's first page shows: ``cover_of`` reads them."""
    for name in reversed(_COVER):
        option = next(option for option in HOST_OPTIONS if option.name == name)
        function = click.option(
            f"--{name}",
            multiple=option.several,
            metavar=option.values[0],
            type=click.Path(path_type=Path, dir_okay=False) if name == "logo" else str,
            help=f"{option.help[0].upper()}{option.help[1:]}.",
        )(function)
    return function


def cover_of(given: Mapping[str, Any]) -> Cover:
    """What the first page of a report shows. Raises UsageError."""
    from rtgauge.report.document.cover import cover

    texts = {name: given[name] or "" for name in ("title", "author", "serial")}
    return cover(**texts, meta=given["meta"], logo=given["logo"])


@contextlib.contextmanager
def open_store(place: str | None, *, create: bool = False) -> Iterator[Store]:
    """The store at this place; by default the project's, else the user's. ``create``: for commands
    that add runs."""
    from rtgauge.store import Store

    with Store.open(place or project().of_commands().get("place"), create=create) as store:
        yield store


def named_store() -> str:
    """The store that the command line names. Empty if a later command finds the store by itself,
    and without a command line (completion)."""
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return ""
    for parameter in ("place", "store"):
        if ctx.get_parameter_source(parameter) is ParameterSource.COMMANDLINE:
            return str(ctx.params[parameter] or "")
    return ""


def find_run(store: Store, name: str) -> StoredRun:
    """The run that ``name`` means: the beginning of its id, or ``last``."""
    return store.get(find_id(store, name))


def find_id(store: Store, name: str) -> str:
    """The id of the run that ``name`` means, which need not be readable. Raises UsageError if it is
    also the label of another run, which is what it means to commands that take labels."""
    rows = store.runs()
    if name != "last":
        found = store.find(name)
        if any(row.label == name and row.id != found for row in rows):
            number = next(row.number for row in rows if row.id == found)
            listed = f"rtgauge runs --label {shlex.quote(name)}"
            raise UsageError(
                f"'{name}' is run #{number}, and also the label of another run",
                f"write '#{number}' for the run. `{listed}` lists the runs with that label",
            )
        return found
    if not rows:
        raise UsageError(
            "there are no runs in the store yet", "measure something: rtgauge run timer --for 10s"
        )
    return rows[0].id
