# SPDX-License-Identifier: Apache-2.0
"""What the commands write: results to stdout, everything else to stderr."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from rtgauge.errors import ExitCode, RtgaugeError
from rtgauge.facts import printable
from rtgauge.text import GAP, discard, duration, plain

__all__ = [
    "colored",
    "encodable",
    "encodable_lines",
    "format_seconds",
    "print_answers",
    "print_comparison",
    "print_error",
    "print_json",
    "print_results",
    "print_table",
    "print_trend",
    "print_tune",
    "say",
    "show",
    "unread",
    "width",
]

if TYPE_CHECKING:
    from rich.console import RenderableType

LEVELS = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "red"}
_GAP_KEPT = "\ue000"
_WHOLE = re.compile(r"(?<!\w)'[^']*'(?!\w)|(?<=: )(?<!^rtgauge: )(?:rtgauge|scripts/\S+|zcat) .*")
"""What has no line break: what is quoted, and a command at the end, because it may be copied."""


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document on stdout."""
    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    text = json.dumps(document, ensure_ascii=ascii_only, allow_nan=False, indent=1)
    # JSON leaves these unescaped. A terminal obeys them, and no encoding has half a pair.
    obeyed = "[\ud800-\udfff\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
    click.echo(re.sub(obeyed, lambda found: f"\\u{ord(found[0]):04x}", text))


def encodable(text: str, stream: TextIO) -> str:
    """The text with simple blanks, in what the stream's encoding can show."""
    encoding = stream.encoding or "utf-8"
    text = text.replace(GAP, " ")
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return plain(text).encode(encoding, "replace").decode(encoding)
    return text


def say(text: str) -> None:
    """A message for people, on stderr; on a terminal its lines are broken between words. Where it
    cannot be written any more, only the message is lost."""
    text = encodable(printable(text), sys.stderr)
    if sys.stderr.isatty():
        columns = max(shutil.get_terminal_size((80, 24)).columns, 20)
        text = "\n".join(_wrapped(line, columns) for line in text.split("\n"))
    try:
        click.echo(text, err=True)
    except OSError:
        discard(sys.stderr)


def passing(text: str) -> None:
    """A short line on a terminal's stderr, in place of the one before; an empty one clears it."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return
    try:
        sys.stderr.write(f"\r\x1b[K{encodable(printable(text), sys.stderr)}")
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def encodable_lines(text: str, indent: int) -> list[str]:
    """A text for stdout in indented lines that fit it."""
    words = encodable(printable(" ".join(text.replace(GAP, "\u00a0").split(" "))), sys.stdout)
    margin = " " * indent
    found = textwrap.wrap(
        words, max(width(), 40), initial_indent=margin, subsequent_indent=margin,
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip
    return [line.replace("\u00a0", " ") for line in found] or [""]


def _wrapped(line: str, columns: int) -> str:
    indent = " " * (len(line) - len(line.lstrip()))
    if len(line) <= columns:
        return line
    whole = _WHOLE.sub(lambda found: found[0].replace(" ", _GAP_KEPT), line.strip())
    return textwrap.fill(
        whole,
        columns,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_on_hyphens=False,
        break_long_words=False,
    ).replace(_GAP_KEPT, " ")


def show(text: str, **style: Any) -> None:
    """Something for people on stdout, in what its encoding can show; ``style`` as click's."""
    shown = encodable(printable(text), sys.stdout)
    click.echo(click.style(shown, **style) if style and colored() else shown)


def colored() -> bool:
    """Whether results have colours: on a terminal that shows them, unless NO_COLOR is set."""
    unwanted = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not unwanted


@contextlib.contextmanager
def unread() -> Iterator[None]:
    """For results that may have no reader any more (``| head``, a terminal that was closed): the
    command continues without them, because it has reports to write and an exit code."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def print_error(error: RtgaugeError, code: ExitCode | None = None) -> int:
    """The error in one line, the remedy in another; gives the exit code."""
    say(f"rtgauge: {' '.join(error.message.split())}")
    if error.remedy:
        say(f"  {' '.join(error.remedy.split())}")
    return int(error.exit_code if code is None else code)


def width() -> int:
    """Columns of the terminal; 80 without one."""
    return shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80


def print_results(
    document: Mapping[str, Any],
    comparison: Callable[[], None] | None = None,
    *,
    store: str = "",
) -> None:
    """The figures of a results model and its answer on stdout, and between them what ``comparison``
    prints; without one, what its runs have in common. ``store``: the store to name in printed
    commands; empty for the default."""
    from rtgauge.report.render import terminal

    _print_made(lambda: terminal.render(document, across=comparison is None))
    if comparison is not None:
        comparison()
    print_answers(document, store)


def print_answers(document: Mapping[str, Any], store: str = "", *, together: bool = True) -> None:
    """The answers of a results model on stdout. ``together``: with what all runs together prove."""
    from rtgauge.report.render import terminal

    _print_made(lambda: terminal.answers(document, store, together=together))


def _print_made(make: Callable[[], RenderableType]) -> None:
    from rtgauge.report import faults_as_errors
    from rtgauge.report.render import console

    encoding = sys.stdout.encoding or "utf-8"
    with faults_as_errors("the summary"):
        text = console.printed(make(), width(), color=colored(), encoding=encoding)
    click.echo(text, nl=False)


def print_comparison(
    document: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], store: str = ""
) -> None:
    """A comparison of runs of the results model on stdout. ``store``: the store to name in
    printed commands; empty for the default."""
    from rtgauge.report.document.answer import action_in_store
    from rtgauge.report.document.conclusion import decisive
    from rtgauge.report.document.next_steps import after_comparison
    from rtgauge.report.render import compare_text

    encoding = sys.stdout.encoding or "utf-8"
    at = decisive(document)
    actions = after_comparison(document, None if at is None else document["quantities"][at], runs)
    actions = [action_in_store(one, store) for one in actions]
    text = compare_text.terminal(
        document, width(), color=colored(), encoding=encoding, actions=actions
    )
    click.echo(text, nl=False)


def print_tune(document: Mapping[str, Any], *, planned: bool = False) -> None:
    """The result of a tune on stdout, or what it is going to measure."""
    from rich.console import Group

    from rtgauge.report.document import tuned
    from rtgauge.report.render import console

    def made() -> RenderableType:
        if planned:
            return Group(*console.render(tuned.plan_sections(document)))
        return Group(*console.render(tuned.shown_first(document)))

    _print_made(made)


def print_trend(document: Mapping[str, Any]) -> None:
    """A trend on stdout."""
    from rich.console import Group

    from rtgauge.report.document.trended import trend_document
    from rtgauge.report.render import console

    shown = trend_document(document, pictures=False)
    _print_made(lambda: Group(*console.render(shown.sections)))


def print_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    columns: int,
    colors: Mapping[str, str] | None = None,
) -> None:
    """Rows in columns as wide as they need; the last one takes the rest of ``columns``, and
    continues in further lines if that is not enough. ``colors``: those of the cells before it that
    have these texts."""
    rows = [[printable(re.sub(r"[ \t\r\n]+", " ", cell)) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head) - 1)]
    indent = sum(widths) + 2 * len(widths)
    for row in [head, *rows]:
        cells = [cell.ljust(size) for cell, size in zip(row, widths, strict=False)]
        lines = textwrap.wrap(
            row[-1], max(columns - indent, 10), break_on_hyphens=False, break_long_words=False
        ) or [""]
        shown = ("\n" + " " * indent).join(lines).replace("\u00a0", " ")
        if row is head:
            show("  ".join([*cells, shown]).rstrip(), bold=True)
            continue
        words = [encodable(one, sys.stdout) for one in [*cells, shown]]
        styles = [(colors or {}).get(text) for text in row[:-1]]
        words = [
            click.style(text, fg=color) if color and colored() else text
            for text, color in zip(words, [*styles, None], strict=True)
        ]
        click.echo("  ".join(words).rstrip())


def format_seconds(seconds: float) -> str:
    """A length of time as it passes, in ASCII: ``2.5 s``, ``3 min 20 s``, ``2 h 5 min``."""
    return plain(duration(seconds, coarse=True))
