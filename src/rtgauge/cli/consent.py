# SPDX-License-Identifier: Apache-2.0
"""Consent to what a plan reaches outside rtgauge, because its author may be somebody else:
programs, files, addresses and lines."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rtgauge.cli.output import say
from rtgauge.errors import UsageError
from rtgauge.options import Reach, reaches
from rtgauge.plan import PlannedStep

if TYPE_CHECKING:
    from rtgauge.target import Target

__all__ = ["check_consent", "outside"]


def outside(step: PlannedStep) -> list[Reach]:
    """What a step reaches outside rtgauge."""
    words = {name: str(value) for name, value in {**step.parameters, **step.run}.items()}
    return reaches({**words, "log-line": step.log_line})


def check_consent(
    plan: str,
    look: str,
    found: Sequence[Reach],
    targets: Sequence[Target],
    given: Mapping[str, Any],
) -> None:
    """Check the user's consent to what a plan reaches, ``found``. ``plan``: what messages call the
    plan; ``look``: how to see what it reaches.

    Raises UsageError if it reaches something outside the lab without consent. With consent, prints
    each program and the user that it runs as, and each other thing.
    """
    from rtgauge.target.base import Disturbable

    places = [target for target in targets if not isinstance(target, Disturbable)]
    for one in dict.fromkeys(found):
        if one.option == "boot-cmd":
            where = f"on this machine as {_name_of(os.geteuid())}"
        elif one.option == "log-line":
            where = "on the log host with the agent's rights"
        elif places:
            where = _where(one, places, given)
        else:
            continue
        text = f"{one.verb} {one.text} {where}"
        if not given["allow_load_cmd"]:
            raise UsageError(
                f"{plan} would {text}, which needs your consent",
                f"{look}, then add --allow-load-cmd",
            )
        first, _, more = text.partition(" ")
        say(f"{plan} {first}s {more}")


def _where(one: Reach, places: Sequence[Target], given: Mapping[str, Any]) -> str:
    """The targets, each with the user that a program runs as there."""
    if one.what:
        return ", ".join(f"on {target.name}" for target in places) + " with the agent's rights"
    as_root = given.get("load_cmd_root", False)
    return ", ".join(f"on {target.name} as {_runs_as(target, as_root)}" for target in places)


def _runs_as(target: Target, as_root: bool) -> str:
    """The user that such a program runs as on the target."""
    if as_root:
        return "the agent's user (root, if the agent has root privileges)"
    if target.name != "local":
        return "the user of the connection"
    try:
        user = int(os.environ["SUDO_UID"]) if os.geteuid() == 0 else os.geteuid()
    except (KeyError, ValueError):
        user = os.geteuid()
    return _name_of(user)


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
