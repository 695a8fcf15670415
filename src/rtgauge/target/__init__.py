# SPDX-License-Identifier: Apache-2.0
"""Targets: the systems under test, each reached through the same few methods (``base.py``).

Path of a sample: ``RunningAgent.read`` returns the bytes that the agent wrote, as they arrive, to
``rtgauge.engine.watch``.

A kind of target is one module of this package and one line in ``TARGETS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from rtgauge.errors import UsageError
from rtgauge.target.base import Pace, RunningAgent, Target

__all__ = ["TARGETS", "Pace", "RunningAgent", "Target", "open_target"]


# A kind of target is imported when one is opened: most commands need one kind, some none.


def _local(detail: str, agent: Path | None = None) -> Target:
    from rtgauge.target.local import LocalTarget  # noqa: PLC0415

    return LocalTarget(detail, agent)


def _fake(detail: str) -> Target:
    from rtgauge.target.fake import FakeTarget  # noqa: PLC0415

    return FakeTarget(detail)


def _lab(detail: str) -> Target:
    from rtgauge.target.lab import LabTarget  # noqa: PLC0415

    return LabTarget(detail)


def _ssh(detail: str, agent: Path | None = None) -> Target:
    from rtgauge.target.ssh import SshTarget  # noqa: PLC0415

    return SshTarget(detail, agent)


#: Kind of target (the part of its name before the first colon) → what opens one.
TARGETS: Final[Mapping[str, Callable[[str], Target]]] = {
    "local": _local,
    "fake": _fake,
    "lab": _lab,
    "ssh": _ssh,
}


#: The kinds of targets that take another agent than rtgauge's own.
_WITH_AGENT: Final[Mapping[str, Callable[[str, Path], Target]]] = {"local": _local, "ssh": _ssh}


def open_target(name: str, agent: Path | None = None) -> Target:
    """The target of that name: ``local``, ``ssh://user@host``, ``lab:BOARD``, ``fake``. With
    another ``agent`` in place of rtgauge's own, if given.

    Raises UsageError for an unknown kind, TargetError if it cannot be reached.
    """
    kind, _, detail = name.partition(":")
    if kind not in TARGETS:
        raise UsageError(
            f"unknown target '{name}'",
            "write local, ssh://HOST for a board, lab:BOARD for an emulated one, or fake",
        )
    if agent is None:
        return TARGETS[kind](detail)
    if kind not in _WITH_AGENT:
        raise UsageError(
            f"target '{name}' has an agent of its own", "omit --agent, or use local or ssh://"
        )
    return _WITH_AGENT[kind](detail, agent)
