# SPDX-License-Identifier: Apache-2.0
"""``rtgauge explain``: where the time of samples went."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from rtgauge.cli.help import command
from rtgauge.cli.options import as_json, find_run, named_store, open_store, store_option
from rtgauge.cli.output import encodable, passing, print_json, say, unread
from rtgauge.cli.values import WholeNumber
from rtgauge.errors import ExitCode, UsageError
from rtgauge.facts import printable
from rtgauge.text import count, plural
from rtgauge.units import parse_duration

if TYPE_CHECKING:
    from rtgauge.causes import Cause
    from rtgauge.causes.explain import Explained
    from rtgauge.store import Store, StoredRun

__all__ = ["explain"]

# Number of samples of each series whose common causes are listed.
WORST: Final = 20
# Number of series of which the worst sample is shown, unless samples are asked for.
SERIES_SHOWN: Final = 12


@command()
@click.argument("run", default="last", metavar="[RUN]")
@click.option(
    "--worst",
    type=WholeNumber(1, 100),
    metavar="N",
    help="Explain the N worst samples of each series.",
)
@click.option("--above", metavar="TIME", help="Explain the samples above a time.")
@click.option("--sample", metavar="CONTEXT:INDEX", help="Explain one sample.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Trace to write, for Perfetto. The suffix is .trace.json.",
)
@as_json
@store_option
def explain(
    run: str,
    worst: int | None,
    above: str | None,
    sample: str | None,
    output: Path | None,
    as_json: bool,
    place: str | None,
) -> int:
    """Show where the time of samples went, from the due time to the running task.

    A run with --explain has a trace, which shows its largest samples. Any other RUN must have been
    measured on an emulated board in counted mode: its image boots again with a recorder in QEMU
    and receives the same orders. Nothing is explained unless all samples equal those of the run.
    By default, the command explains the worst sample of each series, and prints what the 20 worst
    of each have in common.

    \b
    Examples:
      rtgauge explain last
      rtgauge explain last --worst 5
      rtgauge explain 12 --sample user:1883 --json
      rtgauge explain last --above 50us -o late.trace.json
    """
    from rtgauge.causes.explain import explain as explain_
    from rtgauge.causes.explain import keep, select, traced
    from rtgauge.report import write_trace
    from rtgauge.report.render.perfetto import SUFFIX, trace
    from rtgauge.report.results.gather import medians

    if sum(option is not None for option in (worst, above, sample)) > 1:
        raise UsageError(
            "--worst, --above and --sample cannot be combined", "give at most one of them"
        )
    if output is not None and not output.name.endswith(SUFFIX):
        raise UsageError(f"causes cannot be written to '{output.name}'", f"name it FILE{SUFFIX}")
    if output is not None and not output.parent.is_dir():
        raise UsageError(f"there is no folder {output.parent}", "create it first")
    with open_store(place) as store:
        found = _run_or_label(store, run)
        number = worst or WORST
        above_ns = None if above is None else _duration(above)
        place_of = None if sample is None else _sample(sample)
        new: Sequence[Cause] = ()
        explained = traced(found, worst=number, above_ns=above_ns, sample=place_of, medians=medians)
        if explained is None:
            samples = select(found, worst=number, above_ns=above_ns, sample=place_of, say=say)
            say(f"replaying run {found.id[:13]} (samples to explain: {len(samples)}) …")
            try:
                explained = explain_(found, samples, _say, medians=medians, tell=passing)
            finally:
                passing("")
            new = explained.causes
        brief = worst is None and above is None and sample is None
        with unread():
            if as_json:
                _print_json(found, explained)
            else:
                _print(found, explained, brief=brief)
        for loss in explained.losses:
            say(loss)
        if output is not None:
            write_trace(trace(explained.causes), output)
            say(f"the trace is in {output}")
        if new:  # at the end: a store without room does not cost the result
            keep(found, new)
    return ExitCode.DONE


def _say(text: str) -> None:
    """A message in place of the progress."""
    passing("")
    say(text)


def _run_or_label(store: Store, name: str) -> StoredRun:
    """The run that ``name`` means, or else the newest one with that label."""
    try:
        return find_run(store, name)
    except UsageError:
        labelled = [row for row in store.runs() if row.label == name]
        if not labelled:
            raise
        return store.get(labelled[0].id)


def _duration(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--above: {error}", "give a time with its unit, such as 50us") from None


def _sample(text: str) -> tuple[str, int]:
    found = re.fullmatch(r"([a-z][a-z0-9-]*):([0-9]{1,18})", text)
    if found is None:
        raise UsageError(
            f"'{text}' is not a sample", "name its context and index: --sample user:1883"
        )
    return found[1], int(found[2])


def _print_json(run: StoredRun, explained: Explained) -> None:
    from rtgauge.causes import document_of

    replay = {"samples": explained.compared, "seconds": round(explained.seconds, 3)}
    more = {"replay": replay} if explained.compared else {}
    print_json({**document_of(run.id, explained.causes), **more})


def _print(run: StoredRun, explained: Explained, *, brief: bool) -> None:
    """The tables. With ``brief``, only that of the worst sample of each series."""
    from rtgauge.report.render.causes_text import common, lines
    from rtgauge.report.results.again import with_store

    store = named_store()
    equal = f"replayed: all {count(explained.compared)} samples equal those of the run"
    note = equal if explained.compared else "traced"
    found = _first_of_each(explained.causes) if brief else list(explained.causes)
    shown = found[:SERIES_SHOWN] if brief else found
    for number, cause in enumerate(shown):
        if number:
            _show("")
        for line in lines(cause, _title(run, cause), note, store):
            _show(line)
    if left := len(found) - len(shown):
        _show("")
        command = with_store(f"rtgauge explain {run.id[:13]} --worst 1", store)
        _show(f"{plural(left, *2 * ('more series',))}: {command}")
    text = common(explained.causes)
    if text:
        _show("")
    for line in text:
        _show(line)


def _show(line: str) -> None:
    click.echo(encodable(printable(line), sys.stdout))


def _first_of_each(causes: Sequence[Cause]) -> list[Cause]:
    first: dict[tuple[int, int], Cause] = {}
    for one in causes:
        first.setdefault((one.step, one.series), one)
    return list(first.values())


def _series(run: StoredRun, cause: Cause) -> str:
    """The name of its series, with what distinguishes it from others of that name and context."""
    from rtgauge.report.results.labels import name_among

    step = next(one for one in run.steps if one.number == cause.step)
    infos = [one.info for one in step.series if one.info.companion is None]
    at = next(at for at, one in enumerate(infos) if one.series == cause.series)
    words = [
        {
            "name": one.name,
            "context": one.context,
            "cpu": one.cpu,
            "thread": one.thread,
            "labels": one.labels,
        }
        for one in infos
    ]
    return name_among(words, at)


def _title(run: StoredRun, cause: Cause) -> str:
    step = next(one for one in run.steps if one.number == cause.step)
    several = f", step {cause.step + 1}" if len(run.document.get("steps", ())) > 2 else ""
    return f"{step.document.get('measurement')} {_series(run, cause)}{several}"
