# SPDX-License-Identifier: Apache-2.0
"""Consent to the programs that a plan runs as loads, because its author may be somebody else."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rtgauge.cli.output import say
from rtgauge.errors import UsageError
from rtgauge.plan import PlannedStep

if TYPE_CHECKING:
    from rtgauge.target import Target

__all__ = ["check_consent", "programs"]


def programs(step: PlannedStep) -> list[str]:
    """The programs outside rtgauge that a step runs as loads."""
    named = re.findall(r":program=([^,:]+)", step.load)  # of the load list, or of a profile with it
    return [*([step.load_command] if step.load_command else []), *named]


def check_consent(
    what: str, look: str, found: Sequence[str], targets: Sequence[Target], given: Mapping[str, Any]
) -> None:
    """Check the user's consent to the programs ``found`` of a plan, which is called ``what``.
    ``look``: how to see them.

    Raises UsageError if it runs programs on a target outside the lab without consent. With consent,
    prints each program and the user that it runs as.
    """
    from rtgauge.target.base import Disturbable

    places = [
        f"on {target.name} as {_runs_as(target, given.get('load_cmd_root', False))}"
        for target in targets
        if not isinstance(target, Disturbable)
    ]
    for program in dict.fromkeys(found) if places else ():
        text = f"'{program}' {', '.join(places)}"
        if not given["allow_load_cmd"]:
            raise UsageError(
                f"{what} would run {text}, which needs your consent",
                f"{look}, then add --allow-load-cmd",
            )
        say(f"{what} runs {text}")


def _runs_as(target: Target, as_root: bool) -> str:
    """The user that such a program runs as on the target."""
    if as_root:
        return "the agent's user (root where it is raised)"
    if target.name != "local":
        return "the user of the connection"
    try:
        user = int(os.environ["SUDO_UID"]) if os.geteuid() == 0 else os.geteuid()
    except (KeyError, ValueError):
        user = os.geteuid()
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
