# SPDX-License-Identifier: Apache-2.0
"""The command ``check``: obstacles to real time on a target, and their remedies."""

from __future__ import annotations

import contextlib
import shlex
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rtgauge.cli.help import command
from rtgauge.cli.options import as_json, target_option
from rtgauge.cli.output import LEVELS, print_json, say, show, unread, width
from rtgauge.cli.values import WholeNumber
from rtgauge.errors import ExitCode, RtgaugeError, UsageError

if TYPE_CHECKING:
    from rtgauge.audit import Finding

__all__ = ["check"]

#: Worst first: heading, and what it means.
_GROUPS = {
    "error": "Errors: results say little about what this hardware could do",
    "warning": "Warnings: latencies are longer, always or at times",
    "note": "Notes: worth knowing, or unknown",
    "ok": "Suitable for real time",
}
_WIDTH_MAX = 100


@command()
@target_option
@click.option(
    "--cpu",
    metavar="LIST",
    default="all",
    help="CPUs of the application, such as 2-3 (default: all).",
)
@click.option(
    "--priority",
    type=WholeNumber(1, 99),
    metavar="P",
    help="SCHED_FIFO priority of the application (default 80).",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Audit a kernel configuration instead: .config, config-RELEASE, config.gz.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FRAGMENT",
    help="With --config: fragment to write for merge_config.sh, with the options to change.",
)
@click.option("--strict", is_flag=True, help="Exit with 3 if there is a warning or an error.")
@as_json
def check(
    target: str,
    cpu: str,
    priority: int | None,
    config: Path | None,
    output: Path | None,
    strict: bool,
    as_json: bool,
) -> int:
    """Audit a target for obstacles to real time.

    Each finding says what was found, why it matters, and what to do. The worst findings come first.

    \b
      rtgauge check --cpu 2-3 --priority 80
      rtgauge check --config .config -o rt.config
    """
    if config is not None:
        given = click.get_current_context().get_parameter_source("target")
        if given is ParameterSource.COMMANDLINE or cpu != "all" or priority is not None:
            raise UsageError(
                "--config checks a file, not a target", "omit --target, --cpu and --priority"
            )
        return _check_config(config, output, strict, as_json)
    if output is not None:
        raise UsageError("-o applies only with --config", "rtgauge check --config FILE -o FRAGMENT")
    from rtgauge.audit import DEFAULT_PRIORITY, audit, realtime_model
    from rtgauge.engine.environment import read_facts
    from rtgauge.facts import Facts
    from rtgauge.facts.interpret import online_cpus
    from rtgauge.target import open_target
    from rtgauge.units import format_cpus

    cpus = _cpus(cpu)
    with contextlib.closing(open_target(target)) as opened:
        _, facts, _ = read_facts(opened.environment())
    online = online_cpus(Facts(facts))
    if online and (missing := sorted(set(cpus or ()) - online)):
        raise UsageError(
            f"--cpu: target '{target}' has no online CPU {missing[0]}",
            f"the CPUs online there are {format_cpus(online)}",
        )
    findings = audit(facts, cpus=cpus, priority=priority or DEFAULT_PRIORITY)
    document = {
        "format": "rtgauge-check",
        "version": 1,
        "target": target,
        "realtime": realtime_model(facts),
        "findings": [asdict(finding) for finding in findings],
    }
    with unread():
        if as_json:
            print_json(document)
        else:
            _print(findings)
    return _exit_code(findings, strict)


def _is_packed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _check_config(path: Path, output: Path | None, strict: bool, as_json: bool) -> int:
    from rtgauge.audit.kconfig import audit_config, read_config

    config = read_config(path)
    audited = audit_config(config)
    if output is not None:
        try:
            output.write_text(audited.fragment, encoding="utf-8")
        except OSError as error:
            raise RtgaugeError(
                f"cannot write {output}: {error.strerror}", "name another file with -o"
            ) from None
    document = {
        "format": "rtgauge-check",
        "version": 1,
        "config": str(path),
        "kernel": {"architecture": config.architecture, "release": config.release},
        "realtime": audited.model,
        "findings": [asdict(finding) for finding in audited.findings],
        "fragment": audited.fragment,
    }
    with unread():
        if as_json:
            print_json(document)
        else:
            _print(audited.findings)
            if audited.fragment and output is None:
                show(f"\n{audited.fragment.rstrip()}")
    if audited.fragment and not as_json:
        _say_merge(path, output)
    return _exit_code(audited.findings, strict)


def _say_merge(path: Path, output: Path | None) -> None:
    """How the options of a fragment get into the configuration."""
    place = shlex.quote(str(output.absolute())) if output is not None else "FRAGMENT"
    base, unpack = shlex.quote(str(path.absolute())), ""
    if _is_packed(path):  # the script reads plain text
        base, unpack = ".config", f"zcat {base} > .config && "
    merge = f"scripts/kconfig/merge_config.sh -m {base} {place} && make olddefconfig"
    say(f"run in the kernel's sources: {unpack}{merge}")


def _cpus(text: str) -> list[int] | None:
    from rtgauge.units import parse_cpus

    try:
        cpus = parse_cpus(text)
    except ValueError as error:
        raise UsageError(f"--cpu: {error}", "write the CPUs as 0,2-3, or all") from None
    return None if cpus is None else sorted(cpus)


def _exit_code(findings: Sequence[Finding], strict: bool) -> int:
    """Notes do not count: an unknown fact is not a fault of the system."""
    bad = any(finding.level in ("warning", "error") for finding in findings)
    return int(ExitCode.OVER_BUDGET if bad and strict else ExitCode.DONE)


def _print(findings: Sequence[Finding]) -> None:
    """The findings by level, each with its reason and, on a line of its own, its remedy."""
    from rtgauge.report.results.commands import sentence

    columns = min(width(), _WIDTH_MAX)
    for level, heading in _GROUPS.items():
        members = [finding for finding in findings if finding.level == level]
        if not members:
            continue
        show(heading, fg=LEVELS[level], bold=True)
        for finding in members:
            _show(f"{finding.check}: {finding.found}", columns, "  ", "    ")
            if level != "ok":
                _show(finding.why, columns, "    ", "    ", dim=True)
                remedy = sentence(finding.remedy, finding.command)
                if remedy:
                    _show(f"-> {remedy}", columns, "    ", "       ")
                if finding.command:
                    _show_command(finding.command, columns, "       " if remedy else "    -> ")
        show("")
    counts = {level: sum(f.level == level for f in findings) for level in _GROUPS}
    words = {"error": "errors", "warning": "warnings", "note": "notes", "ok": "ok"}
    texts = (
        f"{number} {level if number == 1 else words[level]}"
        for level, number in counts.items()
        if number
    )
    show(", ".join(texts))
    worst = min(findings, key=lambda finding: list(_GROUPS).index(finding.level))
    if worst.level in ("error", "warning"):
        _show(f"The worst finding is {worst.check}: {worst.found}", columns, "", "  ")


def _show_command(command: str, columns: int, first: str) -> None:
    """A command in one piece, so that it can be copied. A comment that makes it wider than
    ``columns`` continues below it."""
    words, _, comment = command.partition(" # ")
    if not comment or len(first + command) <= columns:
        show(f"{first}{command}")
        return
    show(f"{first}{words}")
    _show(comment, columns, "       # ", "       # ")


def _show(text: str, columns: int, first: str, further: str, **style: Any) -> None:
    lines = textwrap.wrap(
        text,
        columns,
        initial_indent=first,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )
    show("\n".join(lines), **style)
