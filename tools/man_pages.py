# SPDX-License-Identifier: Apache-2.0
"""Write the man pages: rtgauge(1) and one for each command, from what ``--help-all`` shows.

    .venv/bin/python tools/man_pages.py build/man

The commands that tables generate are those of this machine's agent. The pages name the version and
no date, so that equal sources give equal pages.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

import rtgauge
from rtgauge.cli.evaluate import evaluate_command
from rtgauge.cli.generated import RunCommand
from rtgauge.cli.help import SETTINGS, Command
from rtgauge.cli.main import COMMANDS, cli
from rtgauge.cli.run import command_for, general_command
from rtgauge.cli.tune import task
from rtgauge.cli.values import known_catalogue
from rtgauge.plan import plan_summary, shipped_plans
from rtgauge.target.local import LocalTarget

EXIT: Final = {
    "0": "Done. Also if the data prove neither that a budget holds nor that it is exceeded.",
    "1": "Failed.",
    "2": "Wrong usage. Nothing was started.",
    "3": "A budget was exceeded, or a test failed that a system fit for real time passes.",
    "4": "Interrupted. What was measured is kept.",
    "77": "What was asked for could not be measured.",
}
VARIABLES: Final = {
    "RTGAUGE_STORE": "The store, as with --store.",
    "RTGAUGE_AGENT": "The agent for this machine.",
    "NO_COLOR": "No colours on the terminal.",
}
FILES: Final = {
    "rtgauge.toml": "Defaults of a project, in the current folder or above it.",
    "~/.local/share/rtgauge": "The store.",
    "~/.cache/rtgauge": "Kernels and images of the lab.",
}


def roff(text: str) -> str:
    """Text for groff: no character is taken for a request or an escape, or replaced."""
    text = text.replace("\\", "\\e")
    for plain, escape in (("-", "\\-"), ("'", "\\(aq"), ("`", "\\(ga"), ("^", "\\(ha"),
                          ("~", "\\(ti"), ("…", "\\&..."), ("µ", "\\(mc")):  # fmt: skip
        text = text.replace(plain, escape)
    return re.sub(r"^([.])", r"\\&\1", text, flags=re.M)


def page(name: str, what: str, body: Iterator[str]) -> str:
    """A page with its head."""
    lines = [
        '.\\" SPDX-License-Identifier: Apache-2.0',
        '.\\" Written by tools/man_pages.py.',
        f'.TH {roff(name.upper())} 1 "" "rtgauge {rtgauge.__version__}" "User Commands"',
        ".ad l\n.nr HY 0",
        ".SH NAME",
        f"{roff(name)} \\- {roff(what[:1].lower() + what[1:].rstrip('.'))}",
        *body,
    ]
    return "\n".join(line for line in lines if line) + "\n"


def entries(title: str, rows: dict[str, str], kind: str = ".SH") -> Iterator[str]:
    """A section with a term and its text for each row."""
    if not rows:
        return
    yield f"{kind} {roff(title)}" if " " not in title else f'{kind} "{roff(title)}"'
    for term, text in rows.items():
        yield f".TP\n\\fB{roff(term)}\\fR\n{roff(text)}"


def description(command: click.Command) -> Iterator[str]:
    """The help text of a command; what is not to be filled is an example."""
    paragraphs = textwrap.dedent(f"{' ' * 8}{command.help or ''}").strip().split("\n\n")
    yield ".SH DESCRIPTION"
    for number, paragraph in enumerate(paragraphs):
        lines = [line.strip() for line in paragraph.splitlines() if line.strip("\b ")]
        if not lines:
            continue
        if "\b" not in paragraph:
            yield (".PP\n" if number else "") + roff(" ".join(lines))
            continue
        if lines[0].endswith(":"):
            yield f'.SH "{roff(lines.pop(0)[:-1].upper())}"'
        yield ".EX\n" + roff("\n".join(lines)) + "\n.EE"


def options(command: click.Command, path: str, kind: str = ".SS") -> Iterator[str]:
    """The options of a command in their groups."""
    with click.Context(command, info_name=path, **SETTINGS) as context:
        groups = (
            command.grouped(context)
            if isinstance(command, Command)
            else {"Options": [one for one in command.get_params(context)]}
        )
        for title, params in groups.items():
            records = [record for one in params if (record := one.get_help_record(context))]
            yield from entries(title, dict(records), kind)


def synopsis(command: click.Command, path: str) -> Iterator[str]:
    """How the command is written."""
    with click.Context(command, info_name=path, **SETTINGS) as context:
        usage = " ".join(command.collect_usage_pieces(context))
    yield f".SH SYNOPSIS\n\\fB{roff(path)}\\fR {roff(usage)}"


def of_command(command: click.Command, path: str) -> Iterator[str]:
    """What the page of a command says."""
    yield from synopsis(command, path)
    yield from description(command)
    yield ".SH OPTIONS"
    yield from options(command, path)
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield f'.SH "{roff(f"{path} {name}".upper())}"'
            yield roff(" ".join((inner.help or "").split("\b")[0].split()))
            yield from options(inner, f"{path} {name}")
    yield ".SH SEE ALSO\n.BR rtgauge (1)"


def of_run(general: RunCommand) -> Iterator[str]:
    """What the page of ``run`` says: the common options, then those of each measurement."""
    catalogue = known_catalogue()
    yield from synopsis(general, "rtgauge run")
    yield from description(general)
    yield ".SH OPTIONS"
    yield from options(general, "rtgauge run")
    yield from entries("PLANS", {n: plan_summary(path) for n, path in shipped_plans().items()})
    yield ".SH MEASUREMENTS"
    for name, entry in catalogue.measurements.items():
        made, _ = command_for([name], catalogue, [], "rtgauge run")
        own = next(iter(made.groups))
        made.groups = {own: made.groups[own]}
        names = {f"--{one}" for one in made.groups[own]}
        made.params = [one for one in made.params if names & {*one.opts}]
        yield f'.SS "{roff(name)}"\n{roff(entry.summary)}'
        for text in options(made, "rtgauge run"):
            if not text.startswith(".SS"):
                yield text
    yield ".SH SEE ALSO\n.BR rtgauge (1)"


def of_rtgauge() -> Iterator[str]:
    """What rtgauge(1) says."""
    yield from synopsis(cli, "rtgauge")
    yield from description(cli)
    yield ".SH NOTATION\n" + roff(cli.epilog or "")
    yield from entries("COMMANDS", {name: entry[2] for name, entry in COMMANDS.items()})
    yield from entries("EXIT STATUS", EXIT)
    yield from entries("ENVIRONMENT", VARIABLES)
    yield from entries("FILES", FILES)
    yield ".SH SEE ALSO"
    yield ",\n".join(f".BR rtgauge\\-{roff(name)} (1)" for name in COMMANDS)


def pages() -> dict[str, str]:
    """The name of each page's file, and its text."""
    catalogue = known_catalogue()
    general = general_command(catalogue, "rtgauge run")
    log_host, _ = command_for(["log-host"], catalogue, [], "rtgauge", named=True)
    generated: dict[str, click.Command] = {
        "evaluate": evaluate_command(catalogue, LocalTarget()),
        "log-host": log_host,
        "tune": general_command(catalogue, "rtgauge tune", task()),
    }
    found = {
        "rtgauge.1": page(
            "rtgauge", "evaluate the real-time behaviour of Linux systems", of_rtgauge()
        )
    }
    with click.Context(cli, info_name="rtgauge", **SETTINGS) as context:
        for name, (*_, what) in COMMANDS.items():
            command = generated.get(name) or cli.get_command(context, name)
            assert command is not None
            body = of_run(general) if name == "run" else of_command(command, f"rtgauge {name}")
            found[f"rtgauge-{name}.1"] = page(f"rtgauge-{name}", what, body)
    return found


def main(arguments: list[str]) -> int:
    """Write all pages into the folder given."""
    if len(arguments) != 1:
        print("usage: man_pages.py FOLDER", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, "utf-8")
        print(folder / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
