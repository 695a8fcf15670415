# SPDX-License-Identifier: Apache-2.0
"""The user's home folder: HOME, else the one in /etc/passwd."""

from __future__ import annotations

from pathlib import Path

from rtgauge.errors import UsageError

__all__ = ["expanded", "home"]


def home() -> Path:
    """The home folder. UsageError for a user without one, as in some containers."""
    return expanded("~")


def expanded(path: str | Path) -> Path:
    """The path, with ``~`` and ``~user`` replaced. UsageError if there is no such folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = Path(path).parts[0][1:]
        if user:
            raise UsageError(
                f"the folder of {path} is unknown: this machine has no user {user}",
                "name an existing folder",
            ) from None
        raise UsageError(
            "the home folder is unknown: neither HOME nor /etc/passwd names one",
            "set HOME, as in HOME=/var/tmp rtgauge runs",
        ) from None
