# SPDX-License-Identifier: Apache-2.0
"""Reports: the results model and what people see of it.

On the path of a sample: stored runs come in, and leave as a results model (``model``), a summary
for the terminal (``terminal``), one HTML file (``html``), Markdown, JUnit XML or KTAP. ``write``
picks the format from the file's suffix.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from rtgauge.errors import RtgaugeError, UsageError
from rtgauge.report import html, junit, ktap, markdown, model, terminal

if TYPE_CHECKING:
    from rtgauge.store import StoredRun

__all__ = [
    "FORMATS",
    "format_of",
    "html",
    "junit",
    "ktap",
    "markdown",
    "model",
    "terminal",
    "write",
]


def _html(runs: Sequence[StoredRun]) -> str:
    return html.render(model.analyse(runs))


def _json(runs: Sequence[StoredRun]) -> str:
    return json.dumps(model.build(runs), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _from_model(
    render: Callable[[model.Document], str],
) -> Callable[[Sequence[StoredRun]], str]:
    return lambda runs: render(model.build(runs))


FORMATS: Final[Mapping[str, Callable[[Sequence[StoredRun]], str]]] = MappingProxyType(
    {
        ".html": _html,
        ".json": _json,
        ".md": _from_model(markdown.render),
        ".tap": _from_model(ktap.render),
        ".xml": _from_model(junit.render),
    }
)
"""Suffix of a report's file -> what makes its text."""


def format_of(path: Path) -> str:
    """The suffix that names a report's format; UsageError names the known ones."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        given = f"suffix '{path.suffix}'" if path.suffix else "no suffix"
        raise UsageError(
            f"'{path.name}' has {given}, which is no format of reports",
            "known are: " + ", ".join(sorted(FORMATS)),
        )
    return suffix


def write(runs: Sequence[StoredRun], path: Path) -> None:
    """Write the report on the runs to a file whose suffix names the format.

    The file is complete or not there: it is written under another name and renamed.
    """
    make = FORMATS[format_of(path)]
    text = make(runs)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        raise RtgaugeError(
            f"the report cannot be written to {path}: {error.strerror or error}",
            "name another file with -o FILE",
        ) from error
