# SPDX-License-Identifier: Apache-2.0
"""The commands ``lab list``, ``run``, ``shell``, ``prune``, ``add``, ``remove`` and ``config``:
emulated boards."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtgauge.cli.completion import words_of
from rtgauge.cli.help import SETTINGS, Group, wants_help
from rtgauge.cli.options import as_json
from rtgauge.cli.output import print_json, print_table, say, show, width
from rtgauge.cli.values import Number, boards, own_boards, values
from rtgauge.errors import TargetError, UsageError, nearest

if TYPE_CHECKING:
    from rtgauge.catalogue import Catalogue
    from rtgauge.lab import Machine
    from rtgauge.lab.own import Given

__all__ = ["lab"]

NEWEST = "--newest"
TARGET = "lab:x86_64-rt"
_TEXTS = {
    "target": f"board: lab:BOARD. The default is that of the plan, or {TARGET}. Several are "
    "measured in turn, in a random order. Replaces a plan's targets"
}


@click.group(cls=Group, context_settings=SETTINGS)
def lab() -> None:
    """Run Debian's real-time and stock kernels, and kernels that you built, on emulated boards.

    The boards are QEMU machines. The host needs Debian or Ubuntu on x86-64 or arm64.

    \b
    Examples:
      rtgauge lab list
      rtgauge lab run timer
      rtgauge lab run rt-vs-stock
      rtgauge run timer --target lab:x86_64-rt --target lab:x86_64-stock
      rtgauge lab run rt-vs-stock --newest
      rtgauge lab shell x86_64-rt-6.1
      rtgauge lab add mine --kernel linux/arch/x86/boot/bzImage --build linux
      rtgauge run timer --target lab:mine
      rtgauge lab prune
    """


@lab.command("list", short_help="List the boards and what is missing.")
@click.option(NEWEST, is_flag=True, help="Fetch newer versions of the kernels in the cache.")
@as_json
def list_boards(newest: bool, as_json: bool) -> None:
    """List the boards, the kernels in the cache, and what is missing."""
    from rtgauge.lab import BOARDS

    if newest:
        _renew([entry["name"] for entry in map(_entry, BOARDS) if entry["kernel"]])
    entries = [_entry(name) for name in _board_names()]
    if as_json:
        print_json({"format": "rtgauge-lab", "version": 1, "boards": entries})
        return
    rows = [
        (
            entry["name"],
            _kind(entry),
            entry["kernel"] or ("unknown" if "own" in entry else "not fetched yet"),
            "; ".join(entry["missing"]) or "nothing",
        )
        for entry in entries
    ]
    print_table(("BOARD", "KERNEL", "VERSION", "MISSING"), rows, width())
    show("")
    show("A name without a version, such as x86_64-rt, means the newest kernel.")
    show("A kernel is fetched when its board is first used, a newer one with --newest.")


def _kind(entry: dict[str, Any]) -> str:
    if entry["realtime"]:
        return "RT"
    return "stock" if entry["series"] else "own"


def _board_names() -> list[str]:
    from rtgauge.lab import BOARDS
    from rtgauge.lab.registry import own_names

    return [*BOARDS, *own_names()]


def _entry(name: str) -> dict[str, Any]:
    """What there is of one board, and what is missing for it."""
    from rtgauge.lab import BOARDS
    from rtgauge.lab.kernels import known_kernel

    if name not in BOARDS:
        return _own_entry(name)
    board = BOARDS[name]
    kernel = known_kernel(board)
    return {
        "name": name,
        "machine": board.machine.machine,
        "architecture": board.machine.architecture,
        "series": board.series,
        "realtime": board.realtime,
        "kernel": kernel.release if kernel is not None else "",
        "packages": dict(kernel.versions) if kernel is not None else {},
        "missing": _no_qemu(board.machine),
    }


def _own_entry(name: str) -> dict[str, Any]:
    """The entry of a user's board. Its files are read."""
    from rtgauge.lab import board
    from rtgauge.lab.own import read

    entry: dict[str, Any] = {
        "name": name, "machine": "", "architecture": "", "series": "", "realtime": False,
        "kernel": "", "packages": {}, "missing": [],
    }  # fmt: skip
    try:
        found = board(name)
        own = found.own
        assert own is not None
        entry["machine"] = found.machine.machine
        entry["architecture"] = found.machine.architecture
        entry["missing"] = _no_qemu(found.machine)
        entry["own"] = {
            "kernel": str(own.kernel),
            "build": str(own.build or ""),
            "overlay": str(own.overlay or ""),
            "modules": [str(path) for path in own.modules],
            "arguments": list(own.arguments),
        }
        given = read(found)
        entry["realtime"], entry["kernel"] = given.realtime, given.release
        entry["missing"] += [need.words for need in given.lacks]
    except TargetError as error:
        entry["missing"].append(error.message)
    return entry


def _no_qemu(machine: Machine) -> list[str]:
    if shutil.which(machine.qemu) is not None:
        return []
    return [f"{machine.qemu} (Debian's package {machine.qemu_package})"]


def _renew(names: Sequence[str]) -> None:
    """Fetch newer kernels for boards; Debian is asked once a day at most."""
    from rtgauge.lab import board, image

    for one in dict.fromkeys(board(name) for name in names):
        image(one, newest=True, say=say)


_FILE = click.Path(path_type=Path)
_MACHINES = ("x86_64", "arm64")


@lab.command(short_help="Add a board with a kernel that you built.")
@click.argument("name")
@click.option(
    "--kernel", type=_FILE, required=True, metavar="FILE", help="bzImage, vmlinux or Image."
)
@click.option("--build", type=_FILE, metavar="DIR", help="Folder in which the kernel was built.")
@click.option(
    "--overlay", type=_FILE, metavar="DIR", help="Folder with files for the board's root."
)
@click.option(
    "--module",
    type=_FILE,
    multiple=True,
    metavar="FILE",
    help="A kernel module to load. Repeatable.",
)
@click.option("--argument", multiple=True, metavar="WORD", help="A kernel argument. Repeatable.")
@click.option(
    "--machine",
    type=values(_MACHINES),
    metavar="NAME",
    help="x86_64 or arm64 (default: the kernel's).",
)
def add(
    name: str,
    kernel: Path,
    build: Path | None,
    overlay: Path | None,
    module: tuple[Path, ...],
    argument: tuple[str, ...],
    machine: str | None,
) -> None:
    """Add the board lab:NAME, which boots a kernel that you built.

    Stores the names of the files, and each use reads the files again. With --build, the folder
    where 'make' built the kernel and its modules, the board has rtgauge's module, which the
    interrupt and kernel contexts need. The files of --overlay are copied into the board's root.

    \b
    Examples:
      rtgauge lab add mine --kernel linux/arch/x86/boot/bzImage --build linux
      rtgauge run timer --target lab:mine --context irq,kernel,user
    """
    from rtgauge.lab import Board
    from rtgauge.lab.boards import MACHINES, Own
    from rtgauge.lab.own import machine_of, read
    from rtgauge.lab.registry import KERNEL_ARGUMENT, check_name
    from rtgauge.lab.registry import add as keep

    check_name(name)
    if machine is not None and machine not in MACHINES:
        raise UsageError(f"the lab has no machine '{machine}'", nearest(machine, MACHINES))
    for word in argument:
        if not KERNEL_ARGUMENT.fullmatch(word):
            raise UsageError(
                f"'{word}' is not a kernel argument that an emulated board supports",
                "give one word, such as --argument isolcpus=1. Repeat --argument for several",
            )
    own = Own(
        kernel.absolute(),
        build.absolute() if build else None,
        overlay.absolute() if overlay else None,
        tuple(path.absolute() for path in module),
        argument,
    )
    chosen = MACHINES[machine] if machine else machine_of(name, own)
    made = Board(name, chosen, "", False, own)
    given = read(made)
    keep(made)
    show(f"Added lab:{name}: Linux {given.release} on {chosen.architecture}.")
    if given.config is None:
        show(
            "The kernel's configuration is unknown. Name its build folder with --build, or build "
            "it with CONFIG_IKCONFIG=y. Symbols that it needs: rtgauge lab config "
            f"{chosen.architecture}"
        )
    for need in given.lacks:
        show(f"The kernel lacks {need.words}.")
    if given.lacks:
        show(f"Lines for its .config: rtgauge lab config {chosen.architecture}")
    if (given.config or {}).get("XENOMAI") == "y":
        command = f"rtgauge run timer --target lab:{name} --core"
        show(
            f"The kernel has the Cobalt core. Measure its tasks: {command} cobalt. Linux tasks: "
            f"{command} linux"
        )
    if given.headers is None:
        show(_without_module(name, given))


def _without_module(name: str, given: Given) -> str:
    """What a board lacks without rtgauge's module, and how to get it."""
    config = given.config or {}
    lacks = "so it has no interrupt and no kernel context"
    if config.get("XENOMAI") == config.get("XENO_DRIVERS_TIMERBENCH") == "y":
        lacks = "so Xenomai's driver timerbench measures the interrupt and kernel contexts"
    remedy = f"run 'rtgauge lab remove {name}', then add the board again with --build"
    if given.board.own is not None and given.board.own.build is not None:
        remedy = "set CONFIG_MODULES=y and rebuild the kernel"
        if config.get("CC_IS_CLANG") == "y":
            remedy = "build the kernel with gcc"
    return f"The board has no rtgauge module, {lacks}. To add it: {remedy}"


@lab.command(short_help="Remove a board that you added.")
@click.argument("name", type=own_boards())
def remove(name: str) -> None:
    """Remove a board that 'lab add' made. Your files stay."""
    from rtgauge.lab.registry import remove

    remove(name)
    show(f"Removed lab:{name}. Your files stay.")


@lab.command(short_help="Print what a kernel needs for the lab.")
@click.argument("machine", type=values(_MACHINES))
def config(machine: str) -> None:
    """Print the lines of a kernel's .config that a board of MACHINE needs.

    \b
    Examples:
      rtgauge lab config x86_64 > lab.config
      scripts/kconfig/merge_config.sh .config lab.config
    """
    from rtgauge.lab.boards import MACHINES
    from rtgauge.lab.configured import fragment

    if machine not in MACHINES:
        raise UsageError(f"the lab has no machine '{machine}'", nearest(machine, MACHINES))
    click.echo(fragment(MACHINES[machine]), nl=False)


@lab.command(short_help="Remove what is no longer used from the cache.")
@click.option(
    "--days",
    type=Number(0, 3650),
    metavar="N",
    help="Remove what has not been used for this many days (default 14).",
)
@as_json
def prune(days: float | None, as_json: bool) -> None:
    """Remove what is no longer used from the lab's cache.

    Removes what was not used for 14 days: images, modules and the logs of their builds, kernels
    that a newer one replaced, copies of your kernels, packages left over from downloads, C
    libraries and the agents that are linked against them, and the recorder and the symbol names
    that `rtgauge explain` uses. The kernels of the lab's own boards stay. The next start of a board
    rebuilds its image. `rtgauge explain` can no longer replay a run of a removed kernel or image,
    unless a board still has it.
    """
    from rtgauge.lab.prune import DAYS, prune

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
    show(f"\n{total / 1e6:.1f} MB freed.")


def _completed(
    ctx: click.Context, words: Sequence[str], catalogue: Catalogue
) -> tuple[click.Command, list[str], list[str]]:
    from rtgauge.cli.run import completed

    return completed(ctx, words, catalogue)


@lab.command(
    "run",
    short_help="Carry out a measurement or a plan on boards.",
    **words_of(_completed),
)
@click.pass_context
def run_plan(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Carry out a measurement or a plan on boards of the lab.

    The boards are those named with --target, those that the plan names, or lab:x86_64-rt. The
    options are those of 'rtgauge run'. --newest fetches newer kernels for the boards first.
    """
    from rtgauge.cli.run import Task, carry_out_plan, only_shown, run_words
    from rtgauge.cli.words import targets_of

    others = [name for name in targets_of(words, TARGET) if name.partition(":")[0] != "lab"]
    if others and not wants_help(words):
        raise UsageError(
            f"target '{others[0]}' is not a board of the lab",
            'name boards with --target lab:BOARD, or in the plan: targets = ["lab:x86_64-rt"]. '
            "For other targets use 'rtgauge run'",
        )
    if NEWEST in words:
        words = tuple(word for word in words if word != NEWEST)
        names = [] if only_shown(words) else targets_of(words, TARGET)
        _renew([name.partition(":")[2].partition(",")[0] for name in names])
    return run_words(ctx, words, target=TARGET, task=Task(carry_out_plan, texts=_TEXTS))


@lab.command(short_help="Open a shell on a board's console.")
@click.argument("board", type=boards())
def shell(board: str) -> int:
    """Start a board with a shell on its console. 'exit' ends it.

    BOARD may have options after commas, like a target: x86_64-rt,cpus=2. The board runs in plain
    mode, unless mode=counted is one of the options.
    """
    from rtgauge.target.lab import LabTarget

    target = LabTarget(_plain(board))
    if not sys.stdin.isatty():
        raise UsageError(
            "a board's shell needs a terminal",
            f"without one, measure on it: rtgauge run … --target lab:{board}",
        )
    words = target.shell_words()
    say("starting the board. 'exit' ends it, and Ctrl-A X ends QEMU")
    sys.stdout.flush()
    os.execvp(words[0], words)


def _plain(board: str) -> str:
    """The board's words, in plain mode unless they say otherwise."""
    return board if "mode=" in board else f"{board},mode=plain"
