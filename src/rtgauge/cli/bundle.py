# SPDX-License-Identifier: Apache-2.0
"""``export`` and ``import``: runs as single files, to be mailed, archived, read in again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rtgauge.cli.options import as_json, find_run, open_store, store_options
from rtgauge.cli.output import print_json, say
from rtgauge.errors import UsageError

if TYPE_CHECKING:
    from rtgauge.store.bundle import Bundle

__all__ = ["export", "import_"]

ID_SHOWN = 13


@click.command()
@click.argument("run")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace a file that is there already.")
@as_json
@store_options
def export(
    run: str, file: Path, force: bool, as_json: bool, store_url: str | None, data: Path | None
) -> None:
    """Pack a run, with all its samples, into one file.

    RUN is the beginning of its id, or 'last'. `rtgauge import FILE` reads it
    in again, on any machine.

    \b
    Example:
      rtgauge export last board-7.rtgauge
    """
    from rtgauge.store.bundle import export_run  # noqa: PLC0415

    if not file.parent.is_dir():
        raise UsageError(f"there is no folder {file.parent}", "make it first")
    if not force and os.path.lexists(file):
        raise UsageError(f"{file} is there already", "name another file, or add --force")
    with open_store(store_url, data) as store:
        bundle = export_run(find_run(store, run), file)
    if as_json:
        print_json(_document("rtgauge-exported", bundle, file))
    else:
        say(f"run {bundle.run[:ID_SHOWN]} is in {file} ({_size(bundle.packed_size)})")


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@as_json
@store_options
def import_(file: Path, as_json: bool, store_url: str | None, data: Path | None) -> None:
    """Put a run that was exported into the store.

    A run that is there already stays as it is.
    """
    from rtgauge.store.bundle import import_bundle  # noqa: PLC0415

    with open_store(store_url, data) as store:
        bundle, new = import_bundle(store, file)
    if as_json:
        print_json({**_document("rtgauge-imported", bundle, file), "new": new})
    elif new:
        say(f"run {bundle.run[:ID_SHOWN]} is in the store now")
    else:
        say(f"run {bundle.run[:ID_SHOWN]} is in the store already; nothing has changed")


def _document(name: str, bundle: Bundle, file: Path) -> dict[str, object]:
    return {
        "format": name,
        "version": 1,
        "run": bundle.run,
        "digest": bundle.digest,
        "files": len(bundle.entries),
        "bytes": bundle.size,
        "path": str(file),
    }


def _size(number: int) -> str:
    return f"{number / 2**20:.1f} MiB" if number >= 2**20 else f"{number / 2**10:.0f} KiB"
