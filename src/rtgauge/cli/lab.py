# SPDX-License-Identifier: Apache-2.0
"""The commands ``lab list``, ``run``, ``shell`` and ``prune``: emulated boards."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from rtgauge.cli.completion import Words
from rtgauge.cli.help import HELP_ALL, SETTINGS, Command
from rtgauge.cli.options import as_json
from rtgauge.cli.output import print_json, print_table, say, show, width
from rtgauge.errors import UsageError, nearest

if TYPE_CHECKING:
    from rtgauge.catalogue import Catalogue

__all__ = ["lab"]

COMMANDS = ("list", "prune", "run", "shell")
NEWEST = "--newest"
TARGET = "lab:x86_64-rt"


class _Group(click.Group):
    """Says which command was meant."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS:
            raise UsageError(f"unknown command 'lab {args[0]}'", nearest(args[0], COMMANDS))
        return super().resolve_command(ctx, args)


@click.group(cls=_Group, context_settings=SETTINGS)
def lab() -> None:
    """Emulated boards: Debian's own kernels in QEMU, real-time and stock, on any machine.

    \b
    Examples:
      rtgauge lab list
      rtgauge lab run timer
      rtgauge lab run rt-vs-stock
      rtgauge run timer --target lab:x86_64-rt --target lab:x86_64-stock
      rtgauge lab run rt-vs-stock --newest
      rtgauge lab shell x86_64-rt-6.1
      rtgauge lab prune
    """


@lab.command("list", short_help="List the boards and what is missing.")
@click.option(NEWEST, is_flag=True, help="Fetch newer kernels for the boards that have one.")
@as_json
def list_boards(newest: bool, as_json: bool) -> None:
    """List the boards, the kernels in the cache, and what is missing."""
    if newest:
        _renew([name for name in _board_names() if _entry(name)["kernel"]])
    entries = [_entry(name) for name in _board_names()]
    if as_json:
        print_json({"format": "rtgauge-lab", "version": 1, "boards": entries})
        return
    rows = [
        (
            entry["name"],
            "RT" if entry["realtime"] else "stock",
            entry["kernel"] or "not fetched yet",
            "; ".join(entry["missing"]) or "nothing",
        )
        for entry in entries
    ]
    print_table(("BOARD", "KERNEL", "VERSION", "MISSING"), rows, width())
    show("")
    show("A name without a version, such as x86_64-rt, means the newest kernel.")
    show("A kernel is fetched when its board is first used, a newer one with --newest.")


def _board_names() -> list[str]:
    from rtgauge.lab import BOARDS  # noqa: PLC0415

    return list(BOARDS)


def _entry(name: str) -> dict[str, Any]:
    """What there is of one board, and what is missing for it."""
    from rtgauge.lab import BOARDS  # noqa: PLC0415
    from rtgauge.lab.kernels import known_kernel  # noqa: PLC0415

    board = BOARDS[name]
    kernel = known_kernel(board)
    missing = []
    if shutil.which(board.machine.qemu) is None:
        missing.append(f"{board.machine.qemu} (Debian's package {board.machine.qemu_package})")
    return {
        "name": name,
        "machine": board.machine.machine,
        "architecture": board.machine.architecture,
        "series": board.series,
        "realtime": board.realtime,
        "kernel": kernel.release if kernel is not None else "",
        "packages": dict(kernel.versions) if kernel is not None else {},
        "missing": missing,
    }


def _renew(names: Sequence[str]) -> None:
    """Fetch newer kernels for boards; Debian is asked once a day at most."""
    from rtgauge.lab import board, image  # noqa: PLC0415

    for one in dict.fromkeys(board(name) for name in names):
        image(one, newest=True, say=say)


@lab.command(short_help="Remove unused images, modules and kernels.")
@click.option(
    "--days",
    type=click.FloatRange(0, 3650),
    metavar="N",
    help="Remove what was not used for this many days (default 14).",
)
@as_json
def prune(days: float | None, as_json: bool) -> None:
    """Remove unused images, modules and kernels from the lab's cache.

    Removes images and modules that were not used for some days, and kernels that a newer one
    replaced. What is removed is rebuilt when it is needed. The kernels of the boards stay.
    """
    from rtgauge.lab.prune import DAYS, prune  # noqa: PLC0415

    removed = prune(DAYS if days is None else days, say=say)
    total = sum(one.size for one in removed)
    if as_json:
        entries = [{"path": one.path, "bytes": one.size} for one in removed]
        print_json({"format": "rtgauge-lab-prune", "version": 1, "removed": entries})
        return
    if not removed:
        show("Nothing in the lab's cache is unused.")
        return
    print_table(
        ("SIZE", "REMOVED"), [(f"{one.size / 1e6:.1f} MB", one.path) for one in removed], width()
    )
    show(f"\n{total / 1e6:.1f} MB are free again.")


def _completed(
    ctx: click.Context, words: Sequence[str], catalogue: Catalogue
) -> tuple[click.Command, list[str], list[str]]:
    from rtgauge.cli.run import completed  # noqa: PLC0415

    return completed(ctx, words, catalogue)


@lab.command(
    "run",
    short_help="Carry out a measurement or a plan on boards.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
    params=[Words(_completed)],
)
@click.pass_context
def run_plan(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Carry out a measurement or a plan on boards of the lab.

    The boards are those named with --target, those that the plan names, or lab:x86_64-rt. The
    options are those of 'rtgauge run'. --newest fetches newer kernels for the boards first.
    """
    from rtgauge.cli.run import run_words  # noqa: PLC0415
    from rtgauge.cli.words import targets_of  # noqa: PLC0415

    others = [name for name in targets_of(words, TARGET) if name.partition(":")[0] != "lab"]
    if others and {"--help", "-h", HELP_ALL}.isdisjoint(words):
        raise UsageError(
            f"target '{others[0]}' is not a board of the lab",
            'name boards with --target lab:BOARD, or in the plan: targets = ["lab:x86_64-rt"]. '
            "For other targets use 'rtgauge run'",
        )
    if NEWEST in words:
        words = tuple(word for word in words if word != NEWEST)
        boards = [name.partition(":")[2].partition(",")[0] for name in targets_of(words, TARGET)]
        _renew(boards)
    return run_words(ctx, words, target=TARGET)


@lab.command(short_help="Open a shell on a board's console.")
@click.argument("board")
def shell(board: str) -> int:
    """Start a board in plain mode with a shell on its console. 'exit' ends it.

    BOARD may have options after commas, like a target: x86_64-rt,cpus=2.
    """
    from rtgauge.target.lab import LabTarget  # noqa: PLC0415

    target = LabTarget(_plain(board))
    if not sys.stdin.isatty():
        raise UsageError(
            "a board's shell needs a terminal",
            f"without one, run a program on it: rtgauge run … --target lab:{board}",
        )
    words = target.shell_words()
    say("starting the board; 'exit' ends it, Ctrl-A X ends QEMU")
    sys.stdout.flush()
    os.execvp(words[0], words)


def _plain(board: str) -> str:
    """The board's words, in plain mode unless they say otherwise."""
    return board if "mode=" in board else f"{board},mode=plain"
