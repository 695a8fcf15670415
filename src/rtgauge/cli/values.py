# SPDX-License-Identifier: Apache-2.0
"""Values of options and arguments that a shell can complete: targets, loads, runs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType

from rtgauge.errors import RtgaugeError, UsageError
from rtgauge.home import home

if TYPE_CHECKING:
    from rtgauge.catalogue import Catalogue

__all__ = [
    "Number",
    "WholeNumber",
    "boards",
    "described",
    "known_catalogue",
    "labels",
    "loads",
    "own_boards",
    "runs",
    "targets",
    "values",
]

_RUNS_SHOWN: Final = 50


class _Range:
    """A range in the words of the agent's options, instead of ``1<=x<=99``."""

    min: Any
    max: Any

    def _describe_range(self) -> str:
        return f"{self.min} or more" if self.max is None else f"{self.min} to {self.max}"


class WholeNumber(_Range, click.IntRange):
    """A whole number in a range with a lower end."""


class Number(_Range, click.FloatRange):
    """A number in a range with a lower end."""


class _Names(StringParamType):
    """A text that the shell can complete. ``names``: name → what it is. ``several``: a list."""

    def __init__(self, names: Callable[[], Mapping[str, str]], *, several: bool = False) -> None:
        self._names = names
        self._several = several

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        before, comma, begin = incomplete.rpartition(",") if self._several else ("", "", incomplete)
        found: Mapping[str, str] = {}
        with contextlib.suppress(RtgaugeError, OSError):
            found = self._names()
        return [
            CompletionItem(f"{before}{comma}{name}", help=text)
            for name, text in found.items()
            if name.startswith(begin)
        ]


def values(names: Iterable[str], *, several: bool = False) -> StringParamType:
    """One of these names, or a list of them."""
    known = dict.fromkeys(names, "")
    return _Names(lambda: known, several=several)


def targets() -> StringParamType:
    """A target: this machine, the lab's boards, and the hosts of the user's ssh configuration."""
    return _Names(_targets)


def boards() -> StringParamType:
    """A board of the lab."""
    return _Names(_boards)


def own_boards() -> StringParamType:
    """A board of the lab that the user added."""
    return _Names(_own_boards)


def loads(catalogue: Catalogue | None) -> StringParamType:
    """Loads and profiles, separated by commas."""
    found = {"idle": "no load"}
    if catalogue is not None:
        found |= {one.name: one.summary for one in catalogue.profiles.values()}
        found |= {one.name: one.summary for one in catalogue.loads.values()}
    return _Names(lambda: found, several=True)


def runs() -> StringParamType:
    """A run by ``last``, its label, number or id. A number is without its ``#``, which begins a
    comment in a shell."""
    return _Names(_runs)


def labels() -> StringParamType:
    """A label of stored runs."""
    return _Names(_labels)


def described() -> StringParamType:
    """A measurement, a load or a plan, as this machine's agent and folder have them."""
    return _Names(_described)


def _targets() -> dict[str, str]:
    from rtgauge.lab.boards import BOARDS
    from rtgauge.lab.registry import own_names

    found = {"local": "this machine", "fake": "a simulated target"}
    found.update((f"lab:{name}", "emulated board") for name in BOARDS)
    for name in ("x86_64-rt", "x86_64-stock", "arm64-rt", "arm64-stock"):
        found[f"lab:{name}"] = "emulated board, newest kernel"
    found.update((f"lab:{name}", "emulated board with your kernel") for name in own_names())
    with contextlib.suppress(OSError, UnicodeDecodeError, UsageError):
        text = (home() / ".ssh" / "config").read_text("utf-8")
        for line in re.findall(r"^\s*host[\s=]+(.+)$", text, re.M | re.I):
            for host in line.split():
                if not re.search(r"[*?!]", host):
                    found[f"ssh://{host}"] = "ssh configuration"
    return found


def _boards() -> dict[str, str]:
    from rtgauge.lab.registry import boards

    return dict.fromkeys(boards(), "emulated board")


def _own_boards() -> dict[str, str]:
    from rtgauge.lab.registry import own_names

    return dict.fromkeys(own_names(), "emulated board with your kernel")


def _labels() -> dict[str, str]:
    from rtgauge.cli.options import open_store

    with open_store(None) as store:
        return {row.label: row.target for row in store.runs() if row.label}


def known_catalogue() -> Catalogue:
    """What this machine's agent describes. RtgaugeError."""
    from rtgauge.catalogue import Catalogue
    from rtgauge.target.local import LocalTarget

    with contextlib.closing(LocalTarget()) as target:
        return Catalogue.from_json(target.describe())


def _described() -> dict[str, str]:
    from rtgauge.plan import shipped_plans

    known = known_catalogue()
    found = {
        one.name: one.summary
        for part in (known.measurements, known.loads, known.profiles)
        for one in part.values()
    }
    return found | dict.fromkeys([*shipped_plans(), *map(str, Path().glob("*.toml"))], "plan")


def _runs() -> dict[str, str]:
    from rtgauge.cli.options import open_store

    with open_store(None) as store:
        rows = store.runs()
    found = {"last": "the newest run"} if rows else {}
    found.update((row.label, f"label, {row.target}") for row in rows if row.label)
    shown = rows[:_RUNS_SHOWN]
    words = [" ".join(f"{one.started[:16]} {one.label} {one.headline}".split()) for one in shown]
    found.update((str(row.number), text) for row, text in zip(shown, words, strict=True))
    found.update((row.id[:13], text) for row, text in zip(shown, words, strict=True))
    return found
