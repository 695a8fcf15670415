# SPDX-License-Identifier: Apache-2.0
"""The command ``check``: what on a target stands in the way of real time, and what to do."""

from __future__ import annotations

import contextlib
import textwrap
from dataclasses import asdict

import click

from rtgauge.cli.options import as_json, target_option
from rtgauge.cli.output import LEVELS, print_json, width
from rtgauge.errors import ExitCode

__all__ = ["check"]


@click.command()
@target_option
@click.option("--strict", is_flag=True, help="End with code 3 if there is a warning or an error.")
@as_json
def check(target: str, strict: bool, as_json: bool) -> int:
    """Look for what stands in the way of real time.

    Each finding says what was found, why it matters, and the remedy.
    """
    from rtgauge.audit import audit, realtime_model  # noqa: PLC0415
    from rtgauge.run import read_facts  # noqa: PLC0415
    from rtgauge.target import open_target  # noqa: PLC0415

    with contextlib.closing(open_target(target)) as opened:
        _, facts, _ = read_facts(opened.environment())
    findings = audit(facts)
    bad = any(finding.level in ("warning", "error") for finding in findings)
    if as_json:
        print_json(
            {
                "format": "rtgauge-check",
                "version": 1,
                "target": target,
                "realtime": realtime_model(facts),
                "findings": [asdict(finding) for finding in findings],
            }
        )
        return int(ExitCode.OVER_BUDGET if bad and strict else ExitCode.DONE)
    columns = min(width(), 100)
    for finding in findings:
        head = _wrapped(f"{finding.level:<8}{finding.check}: {finding.found}", columns, "")
        level = click.style(head[:8], fg=LEVELS.get(finding.level), bold=bad)
        click.echo(level + head[8:])
        if finding.level == "ok":
            continue
        for text in (finding.why, finding.remedy and f"remedy: {finding.remedy}"):
            if text:
                click.echo(_wrapped(text, columns, " " * 8))
    counts = {level: sum(f.level == level for f in findings) for level in LEVELS}
    click.echo(", ".join(f"{number} {level}" for level, number in counts.items() if number))
    return int(ExitCode.OVER_BUDGET if bad and strict else ExitCode.DONE)


def _wrapped(text: str, columns: int, indent: str) -> str:
    return textwrap.fill(
        text,
        columns,
        initial_indent=indent,
        subsequent_indent=" " * 8,
        break_long_words=False,
        break_on_hyphens=False,
    )
