# SPDX-License-Identifier: Apache-2.0
"""The command ``agent``: where the static agent for an architecture is, and how one is linked
against a board's own C library."""

from __future__ import annotations

import os
import platform
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from rtgauge.architectures import ARCHITECTURES, Architecture, architecture
from rtgauge.cli.help import command
from rtgauge.cli.options import as_json
from rtgauge.cli.output import print_json, say, show
from rtgauge.cli.values import values
from rtgauge.errors import UsageError
from rtgauge.lab.linked import Toolchain, link, of_sdk, of_sysroot, of_zig
from rtgauge.lab.programs import present, static_agent

__all__ = ["agent"]

HEAD: Final = {"format": "rtgauge-agent", "version": 1}


@command()
@click.option(
    "--arch", metavar="NAME", type=values(ARCHITECTURES), help="Architecture of the agent."
)
@click.option(
    "--libc",
    metavar="NAME",
    help="Link an agent against this C library with zig: glibc, glibc:VERSION or musl.",
)
@click.option(
    "--sdk",
    metavar="SCRIPT",
    type=click.Path(path_type=Path),
    help="Link an agent with the board's SDK: its environment script.",
)
@click.option(
    "--sysroot",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Link an agent with the headers and libraries in a copy of the board's root.",
)
@click.option("--cc", metavar="COMMAND", help="The compiler for --sysroot. The default is cc.")
@click.option(
    "--cflags",
    metavar="OPTIONS",
    help="Further options for the compiler, such as -mthumb. Reports list them.",
)
@click.option(
    "-o",
    "output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The agent to write. The default is rtgauge-agent-board.",
)
@as_json
def agent(
    arch: str | None,
    libc: str | None,
    sdk: Path | None,
    sysroot: Path | None,
    cc: str | None,
    cflags: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Print where the static agents are, or link an agent against a board's C library.

    rtgauge copies the static agent to a board by itself over SSH. --arch prints its path, so that
    you can copy it by hand. It needs no library and runs on every Linux of that architecture.

    The semaphores, mutexes and threads of the static agents are those of musl. To measure those of
    the board's own C library, link an agent against it and name it with --agent.

    \b
    Examples:
      rtgauge agent
      scp "$(rtgauge agent --arch armv5)" board:/tmp/rtgauge-agent
      rtgauge agent --arch arm64 --libc glibc:2.31 -o agent-glibc
      rtgauge agent --sdk /opt/poky/environment-setup-cortexa8 -o agent-board
      rtgauge agent --sysroot /srv/board --cflags=-marm -o agent-arm
      rtgauge evaluate --target ssh://root@board --agent agent-board
    """
    ways = {"--libc": libc, "--sdk": sdk, "--sysroot": sysroot}
    named = [name for name, value in ways.items() if value is not None]
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)} cannot be combined", "name one of them")
    if cc is not None and sysroot is None:
        raise UsageError(
            "--cc applies only with --sysroot",
            "add --sysroot, or omit --cc: --libc and --sdk set the compiler",
        )
    if named:
        chain = _toolchain(arch, libc, sdk, sysroot, cc)
        chain = replace(chain, options=_words(cflags or "", "--cflags"))
        written = output or Path("rtgauge-agent-board")
        say(f"building the agent with {chain.name} (half a minute)")
        made = link(chain, written)
        if as_json:
            about = {"path": str(written), "machine": str(made), "loader": made.loader}
            print_json({**HEAD, **about})
        else:
            show(f"{written}: for {made}, loaded by {made.loader or 'the kernel alone (static)'}")
        return
    for option, given in (("-o", output), ("--cflags", cflags)):
        if given is not None:
            raise UsageError(
                f"{option} applies only to a linked agent", "add --libc, --sdk or --sysroot"
            )
    if arch is not None:
        wanted = architecture(arch)
        found = str(static_agent(wanted, say))
        if as_json:
            print_json({**HEAD, **_document(wanted, found)})
        else:
            click.echo(found)
        return
    entries = [_document(one, str(present(one) or "") or None) for one in ARCHITECTURES.values()]
    if as_json:
        print_json({"format": "rtgauge-agents", "version": 1, "agents": entries})
        return
    for entry in entries:
        path = entry["path"] or "(built on request)"
        show(f"{entry['arch']:<9} {path}")


def _toolchain(
    arch: str | None, libc: str | None, sdk: Path | None, sysroot: Path | None, cc: str | None
) -> Toolchain:
    """The compiler that the options name. Raises UsageError, TargetError."""
    if libc is not None:
        return of_zig(architecture(arch or platform.machine()), libc)
    if arch is not None:
        raise UsageError(
            "--arch cannot be combined with --sdk or --sysroot",
            "omit --arch. Their compiler sets the architecture",
        )
    if sdk is not None:
        return of_sdk(sdk)
    assert sysroot is not None
    compiler = _words(cc or os.environ.get("CC", ""), "--cc" if cc else "CC") or ("cc",)
    return of_sysroot(sysroot, compiler)


def _words(text: str, name: str) -> tuple[str, ...]:
    """As a shell splits it. Raises UsageError."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(
            f"{name} cannot be split into words: {error}", "check its quotes"
        ) from None


def _document(one: Architecture, path: str | None) -> dict[str, Any]:
    return {
        "arch": one.name,
        "aliases": list(one.aliases),
        "byte_order": "big" if one.big_endian else "little",
        "path": path,
    }
