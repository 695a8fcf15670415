# SPDX-License-Identifier: Apache-2.0
"""``rtgauge.toml``: what a project gives in place of options that are not on the command line.

The file is in the current folder or above it, up to the user's home or the root. A plan's own
values precede those of the project, and options precede both.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rtgauge.errors import RtgaugeError, UsageError, nearest
from rtgauge.home import expanded
from rtgauge.options import reaches

__all__ = ["FILE", "Project", "project"]

FILE: Final = "rtgauge.toml"
ENVIRONMENT_VARIABLE: Final = "RTGAUGE_STORE"
_SIZE: Final = 64 * 1024

_KEYS: Final[Mapping[str, type]] = {
    "store": str, "target": str, "budget": str, "rate": str, "load": str, "prepare": bool,
    "report": dict,
}  # fmt: skip
_REPORT: Final[Mapping[str, type]] = {
    "title": str, "author": str, "serial": str, "logo": str, "meta": dict, "paper": str,
    "full": bool,
}  # fmt: skip
_KINDS: Final = {str: "a string", bool: "true or false", dict: "a table"}


@dataclass(frozen=True)
class Project:
    """What the file gives. ``measuring``: options of steps. ``report``: options of reports."""

    path: Path | None = None
    store: str | None = None
    target: str = ""
    measuring: Mapping[str, str | bool] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """What it gives to a run, in one line."""
        given = {**({"target": self.target} if self.target else {}), **self.measuring}
        return ", ".join(
            name if value is True else f"{name} {value}" for name, value in given.items()
        )

    def of_commands(self, *, on_target: bool = False) -> dict[str, Any]:
        """The defaults of the commands that no table generates, by the names of parameters.

        ``on_target``: for a command that works on a target, not one that filters by it.
        """
        target = {"target": self.target} if on_target and self.target else {}
        return {**self._place("place"), **target, **self.report}

    def of_runs(self) -> dict[str, Any]:
        """The defaults of every run, by the names of parameters."""
        return {**self._place("store"), **self.report}

    def _place(self, name: str) -> dict[str, str]:
        """The store, unless the environment names another one."""
        if self.store is None or os.environ.get(ENVIRONMENT_VARIABLE):
            return {}
        return {name: self.store}


def project() -> Project:
    """The project of the current folder, an empty one without a file. UsageError, RtgaugeError."""
    try:
        here, above = Path.cwd(), Path(os.path.expanduser("~"))
    except FileNotFoundError:
        raise RtgaugeError("the current folder was deleted", "change to another folder") from None
    for folder in (here, *here.parents):
        path = folder / FILE
        if os.path.isfile(path) and _is_ours(path):  # false where the folder may not be searched
            return _read(path)
        if folder == above:
            break
    return Project()


def _is_ours(path: Path) -> bool:
    """Whether the user, root, or the user who called sudo owns the file, and the link to it if it
    is one. In a folder such as /tmp others may put one."""
    ours = {0, os.geteuid(), int(os.environ.get("SUDO_UID", "0") or 0)}
    return {path.lstat().st_uid, path.stat().st_uid} <= ours


def _read(path: Path) -> Project:
    try:
        with path.open("rb") as file:
            text = file.read(_SIZE + 1)
        if len(text) > _SIZE:
            raise UsageError(f"{path} has more than {_SIZE} bytes", "keep only known keys in it")
        document = tomllib.loads(text.decode())
    except OSError as error:
        raise RtgaugeError(
            f"{path} cannot be read: {error.strerror or error}", "check its permissions"
        ) from error
    except ValueError as error:
        raise UsageError(f"{path} is not TOML: {error}", "correct it, or remove it") from None
    _check(path, "", document, _KEYS)
    report = dict(document.get("report", {}))
    _check(path, "report.", report, _REPORT)
    for name, value in report.get("meta", {}).items():
        if not isinstance(value, str):
            raise UsageError(f"{path}, key 'report.meta.{name}': a string is needed", "quote it")
    if "meta" in report:
        report["meta"] = [f"{name}={value}" for name, value in report["meta"].items()]
    if "logo" in report:
        report["logo"] = str(path.parent / report["logo"])
    for one in reaches({"load": document.get("load", "")}):
        raise UsageError(
            f"{path}, key 'load': a project file cannot {one.verb} {one.text}",
            f"name the {one.what or 'program'} on the command line, or in a plan",
        )
    store = document.get("store")
    if store is not None and "://" not in store:
        store = str(path.parent / expanded(store))
    measuring = {n: document[n] for n in ("budget", "rate", "load", "prepare") if document.get(n)}
    return Project(path, store, document.get("target", ""), measuring, report)


def _check(path: Path, table: str, document: Mapping[str, Any], keys: Mapping[str, type]) -> None:
    for name, value in document.items():
        if name not in keys:
            raise UsageError(f"{path}: unknown key '{table}{name}'", nearest(name, keys))
        if type(value) is not keys[name]:
            raise UsageError(
                f"{path}, key '{table}{name}': {value!r} is not {_KINDS[keys[name]]}",
                "see 'A project's defaults' in docs/reference/command-line.md",
            )
