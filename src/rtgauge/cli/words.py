# SPDX-License-Identifier: Apache-2.0
"""The words of ``run`` and ``evaluate``, which are searched for the target and for the measurement
or plan before the target's options are known."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path

from rtgauge.options import HOST_OPTIONS
from rtgauge.plan import plan_targets, shipped_plans

__all__ = ["named_agent", "named_store", "named_targets", "names", "plan_path", "targets_of"]


def names(words: Sequence[str]) -> list[int]:
    """The places of words that may name the measurement or the plan, the likeliest first.

    These are the words that no option before them takes as a value, then those behind options that
    only the target knows.
    """
    return list(itertools.chain(*_places(words)))


def _places(words: Sequence[str]) -> tuple[list[int], list[int]]:
    """The places of words other than the values of options, and of those behind an option that only
    the target knows."""
    valued = {
        name: option.type != "flag"
        for option in HOST_OPTIONS
        for name in (f"--{option.name}", option.short)
    }
    free, behind = [], []
    before = ""
    for place, word in enumerate(words):
        if word.startswith("-"):
            before = "" if "=" in word else word
            continue
        if not before or valued.get(before) is False:
            free.append(place)
        elif before not in valued:
            behind.append(place)
        before = ""
    return free, behind


def _named(words: Sequence[str], option: str) -> list[str]:
    """The values that the command line gives to an option."""
    return [
        value if word == option else word.partition("=")[2]
        for word, value in itertools.zip_longest(words, words[1:], fillvalue="")
        if word == option or word.startswith(f"{option}=")
    ]


def named_targets(words: Sequence[str]) -> list[str]:
    """The targets that the command line names."""
    return _named(words, "--target")


def named_agent(words: Sequence[str]) -> Path | None:
    """The agent that the command line names, the last one if there are several."""
    found = _named(words, "--agent")
    return Path(found[-1]) if found else None


def named_store(words: Sequence[str]) -> str:
    """The store that the command line names; empty without one."""
    found = _named(words, "--store")
    return found[-1] if found else ""


def targets_of(words: Sequence[str], default: str = "local") -> list[str]:
    """The targets named on the command line, else those of the plan, else the ``default``."""
    found = named_targets(words)
    if not found:
        free, behind = _places(words)
        paths = [plan_path(words[place]) for place in free[:1] or behind]
        path = next((path for path in paths if path is not None and os.path.isfile(path)), None)
        found = [] if path is None else list(plan_targets(path))
    return found or [default]


def plan_path(word: str) -> Path | None:
    """The plan that the word means: a file, or a shipped plan by its name. None if it is neither.

    A word with a slash or the suffix .toml means a file, even if that is missing.
    """
    path = Path(word)
    if os.path.isfile(path):  # false in a folder that may not be searched
        return path
    stem = path.stem if path.suffix == ".toml" and path.parent.name in ("", "plans") else word
    shipped = shipped_plans().get(stem)
    if shipped is not None:
        return shipped
    return path if path.suffix == ".toml" or "/" in word else None
