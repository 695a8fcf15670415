# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have, so that they mean the same everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from rtgauge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rtgauge.store import Store, StoredRun

__all__ = ["as_json", "find_id", "find_run", "open_store", "store_option", "target_option"]

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


def open_store(place: str | None) -> Store:
    """The store at this place; by default the user's."""
    from rtgauge.store import Store  # noqa: PLC0415

    return Store.open(place)


def find_run(store: Store, name: str) -> StoredRun:
    """The run that ``name`` means: the beginning of its id, or ``last``."""
    return store.get(find_id(store, name))


def find_id(store: Store, name: str) -> str:
    """The id of the run that ``name`` means, which need not be readable."""
    if name != "last":
        return store.find(name)
    rows = store.runs()
    if not rows:
        raise UsageError(
            "there are no runs in the store yet", "measure something: rtgauge run timer --for 10s"
        )
    return rows[0].id
