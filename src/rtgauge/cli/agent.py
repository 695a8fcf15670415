# SPDX-License-Identifier: Apache-2.0
"""The command ``agent``: where the static agent for an architecture is, to copy it by hand."""

from __future__ import annotations

from typing import Any

import click

from rtgauge.architectures import ARCHITECTURES, Architecture, architecture
from rtgauge.cli.help import command
from rtgauge.cli.options import as_json
from rtgauge.cli.output import print_json, say, show
from rtgauge.lab.programs import present, static_agent

__all__ = ["agent"]


@command()
@click.option("--arch", metavar="NAME", help="Print the path of this one alone.")
@as_json
def agent(arch: str | None, as_json: bool) -> None:
    """Say where the static agents are, one for each architecture.

    Over ssh the right one is chosen and copied by itself. To do that by hand: the path that --arch
    prints is that of a program without any need, which runs on every Linux of that architecture.

    \b
    Examples:
      rtgauge agent
      scp "$(rtgauge agent --arch armv5)" board:/tmp/rtgauge-agent
    """
    if arch is not None:
        wanted = architecture(arch)
        path = str(static_agent(wanted, say))
        if as_json:
            print_json(_document(wanted, path))
        else:
            click.echo(path)
        return
    entries = [_document(one, str(present(one) or "") or None) for one in ARCHITECTURES.values()]
    if as_json:
        print_json({"format": "rtgauge-agents", "version": 1, "agents": entries})
        return
    for entry in entries:
        path = entry["path"] or "(made when it is asked for)"
        show(f"{entry['arch']:<9} {path}")


def _document(one: Architecture, path: str | None) -> dict[str, Any]:
    return {
        "arch": one.name,
        "aliases": list(one.aliases),
        "byte_order": "big" if one.big_endian else "little",
        "path": path,
    }
