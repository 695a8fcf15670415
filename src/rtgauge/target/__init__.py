# SPDX-License-Identifier: Apache-2.0
"""Targets: the systems under test, each reached through the same few methods (``base.py``).

Path of a sample: ``RunningAgent.read`` returns the bytes that the agent wrote, as they arrive, to
``rtgauge.engine.watch``.

A kind of target is one module of this package and one line in ``TARGETS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from rtgauge.errors import UsageError, nearest
from rtgauge.target.base import Pace, RunningAgent, Target

__all__ = ["TARGETS", "Pace", "RunningAgent", "Target", "open_target"]


# A kind of target is imported when one is opened: most commands need one kind, some none.


def _local(detail: str) -> Target:
    from rtgauge.target.local import LocalTarget  # noqa: PLC0415

    return LocalTarget(detail)


def _fake(detail: str) -> Target:
    from rtgauge.target.fake import FakeTarget  # noqa: PLC0415

    return FakeTarget(detail)


def _lab(detail: str) -> Target:
    from rtgauge.target.lab import LabTarget  # noqa: PLC0415

    return LabTarget(detail)


def _ssh(detail: str) -> Target:
    from rtgauge.target.ssh import SshTarget  # noqa: PLC0415

    return SshTarget(detail)


#: Kind of target (the part of its name before the first colon) → what opens one.
TARGETS: Final[Mapping[str, Callable[[str], Target]]] = {
    "local": _local,
    "fake": _fake,
    "lab": _lab,
    "ssh": _ssh,
}


def open_target(name: str) -> Target:
    """The target of that name: ``local``, ``ssh://user@host``, ``lab:BOARD``, ``fake``.

    Raises UsageError for an unknown kind, TargetError if it cannot be reached.
    """
    kind, _, detail = name.partition(":")
    if kind not in TARGETS:
        raise UsageError(f"unknown target '{name}'", nearest(kind, TARGETS))
    return TARGETS[kind](detail)
