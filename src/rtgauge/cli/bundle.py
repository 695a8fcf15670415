# SPDX-License-Identifier: Apache-2.0
"""``export`` and ``import``: runs as single files, to be mailed, archived, read in again."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from rtgauge.catalogue import CONTEXTS
from rtgauge.cli.help import command
from rtgauge.cli.options import as_json, find_run, open_store, store_option
from rtgauge.cli.output import print_json, say
from rtgauge.cli.values import WholeNumber
from rtgauge.errors import UsageError
from rtgauge.text import join, plain, plural, size

if TYPE_CHECKING:
    from rtgauge.capture import Wanted
    from rtgauge.capture.run import Imported as Capture
    from rtgauge.printed import Imported as Printed
    from rtgauge.store.bundle import Bundle

__all__ = ["export", "import_"]

ID_SHOWN = 13
VOLTS: Final = 1e6
EDGES: Final = ("both", "rising", "falling")
ANSWER_EDGES: Final = ("same", "inverted", "any", "rising", "falling")
_LEVELS: Final = ("threshold", "hysteresis", "samplerate")
_SYSTEM: Final = ("label", "name", "board", "kernel", "realtime", "load")
_BUNDLE: Final = "a bundle"
_MARKS: Final = "a recording of marks (--mark)"
_CAPTURE: Final = "a recording of events and answers (--event, --answer)"
_PRINTED: Final = "results of Xenomai's programs"
_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    _BUNDLE: (),
    _MARKS: ("mark", "of", "step", "series", "label", "name", *_LEVELS),
    _CAPTURE: (
        "event", "answer", "edge", "answer_edge", "interval", "longest", "answered_by", *_LEVELS,
        *_SYSTEM,
    ),
    _PRINTED: ("target", "cell", "xenomai", *_SYSTEM),
}  # fmt: skip
"""What a file is read as, and the options that apply to it, by the names of parameters."""


@command()
@click.argument("run", nargs=-1, metavar="[RUN] [FILE]")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@as_json
@store_option
def export(run: tuple[str, ...], force: bool, as_json: bool, place: str | None) -> None:
    """Pack a run, with all its samples, into one file.

    RUN is its number, the beginning of its id, or 'last' (default). Without RUN, FILE needs a
    suffix. The default is rtgauge-RUN.rtgauge. `rtgauge import FILE` imports it on any machine.

    \b
    Examples:
      rtgauge export
      rtgauge export last board-7.rtgauge
    """
    from rtgauge.store.bundle import export_run

    name, named = _run_and_file(run)
    with open_store(place) as store:
        found = find_run(store, name)
        file = named or Path(f"rtgauge-{found.id[:ID_SHOWN]}.rtgauge")
        if not file.parent.is_dir():
            raise UsageError(f"there is no folder {file.parent}", "create it first")
        if not force and os.path.lexists(file):
            raise UsageError(f"{file} already exists", "name another file, or add --force")
        bundle = export_run(found, file)
    if as_json:
        print_json(_document("rtgauge-exported", bundle, file))
    else:
        say(f"run {bundle.run[:ID_SHOWN]} is in {file} ({plain(size(bundle.packed_size))})")


def _run_and_file(words: Sequence[str]) -> tuple[str, Path | None]:
    """The run and the file that are meant. A single word with a suffix or folder is the file."""
    if len(words) > 2:
        raise UsageError("export takes a run and a file", "quote a name that contains spaces")
    if len(words) == 2:
        return words[0], Path(words[1])
    if not words:
        return "last", None
    path = Path(words[0])
    return ("last", path) if path.suffix or path.name != words[0] else (words[0], None)


@command(
    "import",
    groups={
        "Capture": (
            "event", "answer", "event-edge", "answer-edge", "threshold", "hysteresis",
            "samplerate", "interval", "longest", "mark", "of", "step", "series",
        ),
        "What was recorded": (
            "label", "name", "target", "board", "kernel", "realtime", "load", "answered-by",
            "cell", "xenomai",
        ),
    },
    rare=(
        "threshold", "hysteresis", "samplerate", "interval", "longest", "of", "step",
        "series", "target", "realtime", "load", "cell", "xenomai",
    ),
)  # fmt: skip
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--event", metavar="CHANNEL", help="Channel of the capture with the events.")
@click.option("--answer", metavar="CHANNEL", help="Channel of the capture with the answers.")
@click.option(
    "--event-edge",
    "--edge",
    "edge",
    type=click.Choice(EDGES),
    default="both",
    show_default=True,
    help="Which edges are events.",
)
@click.option(
    "--answer-edge",
    type=click.Choice(ANSWER_EDGES),
    help="Edges that answer (default: same direction if --event-edge is both, else any).",
)
@click.option("--threshold", type=float, metavar="VOLT", help="Threshold of an analogue line.")
@click.option("--hysteresis", type=float, metavar="VOLT", help="Total width of the hysteresis.")
@click.option(
    "--samplerate",
    metavar="RATE",
    help="Sample rate, instead of the file's: 24MHz. In a file of times, it gives their accuracy.",
)
@click.option("--interval", metavar="TIME", help="Time between events (default: as recorded).")
@click.option(
    "--longest",
    metavar="TIME",
    help="Longest possible delay of an answer. Pairs events with answers if the capture begins "
    "mid-run.",
)
@click.option(
    "--answered-by",
    type=click.Choice(CONTEXTS),
    help="Context that answered, if known.",
)
@click.option(
    "--mark",
    metavar="CHANNEL",
    help="Channel with the --mark line of a run.",
)
@click.option(
    "--of", default="last", metavar="RUN", help="The run that was marked (default: last)."
)
@click.option("--step", type=WholeNumber(min=1), help="The step that was marked, if several were.")
@click.option(
    "--series",
    default="",
    metavar="LIST",
    help="Series that were marked, such as acquire,release (default: those with as many samples as "
    "there are pulses).",
)
@click.option("--label", default="", metavar="TEXT", help="Label of the run.")
@click.option(
    "--name", default="", metavar="TEXT", help="System's name (default: the file's name)."
)
@click.option(
    "--target",
    default="",
    metavar="lab:BOARD",
    help="The emulated board that printed the output. The run can then be compared with its runs.",
)
@click.option("--board", default="", metavar="TEXT", help="The system's board or processor.")
@click.option("--kernel", default="", metavar="RELEASE", help="The system's kernel.")
@click.option(
    "--realtime",
    type=click.Choice(("preempt_rt", "full", "lazy", "voluntary", "none", "cobalt", "evl")),
    help="Real-time model of the system's kernel.",
)
@click.option(
    "--load",
    default="unknown",
    show_default=True,
    metavar="TEXT",
    help="Load during the recording, such as doload (idle: no load).",
)
@click.option(
    "--cell",
    metavar="TIME",
    help="Width of the cells of latency -h, if it is not 1us (option -B of latency).",
)
@click.option("--xenomai", default="", metavar="VERSION", help="Version of Xenomai (default: 3).")
@as_json
@store_option
def import_(file: Path, as_json: bool, place: str | None, **capture: Any) -> None:
    """Add an exported run, a capture, or results of Xenomai's programs to the store.

    A capture is a recording of events and their answers by a logic analyser or an oscilloscope
    (.sr, .vcd, .csv, and other formats of sigrok-cli). The output of Xenomai's latency (also of -h
    and -g), clocktest, switchtest and irqbench becomes a run with a step for each program.

    \b
    Examples:
      rtgauge import board-7.rtgauge
      rtgauge import night.sr --event D0 --answer D1 --answered-by irq
      rtgauge import marks.sr --mark D2 --of last
      rtgauge import latency.txt --name board-7 --load xeno-test
    """
    from rtgauge.capture import is_capture
    from rtgauge.printed import is_printed, read_head

    if capture["target"] and not (
        not (capture["mark"] or capture["event"] or capture["answer"])
        and is_printed(read_head(file))
    ):
        raise UsageError(
            "--target is only for results that Xenomai's programs printed on an emulated board",
            "omit --target",
        )
    if capture["mark"]:
        _import_marks(file, as_json, place, capture)
        return
    if not (capture["event"] or capture["answer"]) and is_printed(read_head(file)):
        _import_printed(file, as_json, place, capture)
        return
    if capture["event"] or capture["answer"] or is_capture(file):
        _import_capture(file, as_json, place, capture)
        return
    from rtgauge.store.bundle import import_bundle

    if file.is_file():  # else that is what is wrong
        _check_options(file, _BUNDLE, capture)
    with open_store(place, create=True) as store:
        bundle, new = import_bundle(store, file)
    if as_json:
        print_json({**_document("rtgauge-imported", bundle, file), "new": new})
    elif new:
        say(f"run {bundle.run[:ID_SHOWN]} is now in the store")
    else:
        say(f"run {bundle.run[:ID_SHOWN]} is already in the store, which is unchanged")


def _check_options(file: Path, kind: str, options: Mapping[str, Any]) -> None:
    """Raise UsageError for an option of the command line that does not apply to a file of that
    kind."""
    ctx = click.get_current_context()
    for name in options:
        given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in _OPTIONS[kind]:
            option = "--event-edge" if name == "edge" else f"--{name.replace('_', '-')}"
            kinds = join([one for one, names in _OPTIONS.items() if name in names])
            raise UsageError(
                f"{option} does not apply to {file}, which is read as {kind}",
                f"omit {option}. It is for {kinds}",
            )


def _import_capture(
    file: Path,
    as_json: bool,
    place: str | None,
    options: Mapping[str, Any],
) -> None:
    from rtgauge.capture import import_capture
    from rtgauge.report.results.again import with_store
    from rtgauge.store.made import earlier_import

    _check_options(file, _CAPTURE, options)
    wanted = _wanted(options)
    with open_store(place, create=True) as store:
        found = import_capture(store, file, wanted)
        earlier = earlier_import(store, found.run) if found.new else None
    told = {"events": found.events, "answered": found.answered, "path": str(file)}
    said = f"{plain(plural(found.events, 'event'))}, {found.answered} answered"
    if found.ambiguous:
        shown = with_store(f"rtgauge show {found.run[:ID_SHOWN]}", place or "")
        said += f". The answers to {found.ambiguous} of them may belong to other events: {shown}"
    _say_imported("rtgauge-imported-capture", found, earlier, told, said, as_json, place)


def _import_marks(file: Path, as_json: bool, place: str | None, options: Mapping[str, Any]) -> None:
    from rtgauge.capture import Marked, import_marks
    from rtgauge.store.made import earlier_import

    if options["event"] or options["answer"]:
        raise UsageError(
            "--mark compares a line with a run. --event and --answer make a run from two lines",
            "omit --mark, or --event and --answer",
        )
    _check_options(file, _MARKS, options)
    wanted = _wanted(options)
    names = tuple(name for name in options["series"].split(",") if name)
    with open_store(place) as store:
        run = find_run(store, options["of"])
        found = import_marks(
            store, file, Marked(options["mark"], run, options["step"], names), wanted
        )
        earlier = earlier_import(store, found.run) if found.new else None
    told = {"of": run.id, "pulses": found.events, "samples": found.answered, "path": str(file)}
    pulses, samples = plural(found.events, "pulse"), plural(found.answered, "sample")
    said = plain(f"{pulses} for {samples} of run {run.id[:ID_SHOWN]}")
    _say_imported("rtgauge-imported-marks", found, earlier, told, said, as_json, place)


def _import_printed(
    file: Path,
    as_json: bool,
    place: str | None,
    options: Mapping[str, Any],
) -> None:
    from rtgauge.printed import Told, import_printed
    from rtgauge.store.made import Subject, earlier_import

    _check_options(file, _PRINTED, options)
    tested = Subject(
        options["label"], options["board"], options["kernel"], options["realtime"] or "cobalt",
        _lab_board(options["target"]),
    )  # fmt: skip
    cell_ns = _times(options, "cell")["cell"]
    told = Told(tested, options["name"], options["load"], cell_ns, options["xenomai"])
    with open_store(place, create=True) as store:
        found = import_printed(store, file, told)
        earlier = earlier_import(store, found.run) if found.new else None
    results = {"results": list(found.results), "path": str(file)}
    said = f"steps: {', '.join(found.results)}"
    _say_imported("rtgauge-imported-results", found, earlier, results, said, as_json, place)


def _say_imported(
    kind: str,
    found: Capture | Printed,
    earlier: str | None,
    told: Mapping[str, Any],
    said: str,
    as_json: bool,
    place: str | None,
) -> None:
    """Print the run that was made of a file, as JSON ``told``, in words ``said``. ``earlier``: the
    run that an earlier version made of the same file. Both count as evidence."""
    from rtgauge.report.results.again import with_store

    if as_json:
        head = {"format": kind, "version": 1, "run": found.run, "new": found.new}
        print_json({**head, "earlier": earlier, **told})
        return
    where = "now in the store" if found.new else "already in the store, which is unchanged"
    say(f"run {found.run[:ID_SHOWN]} is {where}")
    say(said)
    if earlier is not None:
        same = f"an earlier version imported this file as run {earlier[:ID_SHOWN]}"
        remove = with_store(f"rtgauge delete {earlier[:ID_SHOWN]}", place or "")
        say(f"{same}. Remove it: {remove}")


def _lab_board(target: str) -> dict[str, str]:
    """Name and mode of the emulated board that a target names; empty without one."""
    if not target:
        return {}
    kind, _, detail = target.partition(":")
    if kind != "lab":
        raise UsageError(
            f"--target {target} is not an emulated board",
            "omit --target: it is only for emulated boards, whose times have another meaning. "
            "To name the system, give --name",
        )
    from rtgauge.target.lab import LabTarget

    board = LabTarget(detail)
    return {**board.facts, "board": board.board.name}


def _times(options: Mapping[str, Any], *names: str) -> dict[str, int | None]:
    """Options that are durations; None: not given. Raises UsageError for wrong ones."""
    from rtgauge.units import parse_duration

    times: dict[str, int | None] = dict.fromkeys(names)
    for name in names:
        if not options[name]:
            continue
        try:
            times[name] = time_ns = parse_duration(options[name])
        except ValueError as error:
            raise UsageError(f"--{name}: {error}", "give a time such as 30ms") from None
        if time_ns <= 0:
            raise UsageError(f"--{name}: the time must be above 0", "give a time such as 30ms")
    return times


def _wanted(options: Mapping[str, Any]) -> Wanted:
    """The options of a capture. Raises UsageError for wrong values."""
    from rtgauge.capture import Wanted
    from rtgauge.capture.session import parse_rate

    rate = None
    if options["samplerate"]:
        try:
            rate = parse_rate(options["samplerate"])
        except ValueError:
            raise UsageError(
                f"'{options['samplerate']}' is not a sample rate", "give a rate such as 24MHz"
            ) from None
    times = _times(options, "interval", "longest")
    for name in ("threshold", "hysteresis"):
        value = options[name]
        if value is not None and not (math.isfinite(value) and abs(value) < VOLTS):
            raise UsageError(
                f"--{name}: {value} V is not a voltage", "give a number of volts, such as 1.4"
            )
    if (options["hysteresis"] or 0) < 0:
        raise UsageError("--hysteresis: the width cannot be negative", "give a width such as 0.2")
    same = ("event", "answer", "edge", "answer_edge", "threshold", "hysteresis", "label", "name",
            "board", "kernel", "load")  # fmt: skip
    return Wanted(
        samplerate=rate,
        interval_ns=times["interval"],
        longest_ns=times["longest"],
        context=options["answered_by"] or "",
        realtime=options["realtime"] or "unknown",
        **{name: options[name] for name in same},
    )


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
