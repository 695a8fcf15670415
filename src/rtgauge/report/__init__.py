# SPDX-License-Identifier: Apache-2.0
"""Reports: the results model and what people see of it.

On the path of a sample: stored runs come in, and leave as a results model (``model``), a summary
for the terminal (``terminal``), one HTML file (``html``), a PDF (``pdf``), Markdown, JUnit XML or
KTAP. ``write`` picks the format from the file's suffix.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from rtgauge.errors import RtgaugeError, UsageError
from rtgauge.report import html, junit, ktap, markdown, model, pdf, terminal

if TYPE_CHECKING:
    from rtgauge.store import StoredRun

__all__ = [
    "FORMATS",
    "Source",
    "format_of",
    "html",
    "junit",
    "ktap",
    "markdown",
    "model",
    "pdf",
    "terminal",
    "write",
]


class Source:
    """The runs of a report; one pass over their samples serves all its formats. ``paper``: the
    size of the pages of a PDF (``pdf.PAPERS``)."""

    def __init__(self, runs: Sequence[StoredRun], paper: str = "a4") -> None:
        self.runs = runs
        self.paper = paper

    @functools.cached_property
    def analysis(self) -> model.Analysis:
        """The model and what the pictures are drawn from."""
        return model.analyse(self.runs)

    @functools.cached_property
    def model(self) -> model.Document:
        """The results model."""
        return self.analysis.model if "analysis" in self.__dict__ else model.build(self.runs)


def _json(source: Source) -> bytes:
    text = json.dumps(source.model, ensure_ascii=False, indent=1, allow_nan=False)
    return f"{text}\n".encode()


def _from_model(render: Callable[[model.Document], str]) -> Callable[[Source], bytes]:
    return lambda source: render(source.model).encode()


FORMATS: Final[Mapping[str, Callable[[Source], bytes]]] = MappingProxyType(
    {
        ".html": lambda source: html.render(source.analysis).encode(),
        ".json": _json,
        ".md": _from_model(markdown.render),
        ".pdf": lambda source: pdf.render(source.analysis, source.paper),
        ".tap": _from_model(ktap.render),
        ".xml": _from_model(junit.render),
    }
)
"""Suffix of a report's file -> what makes its bytes."""


def format_of(path: Path) -> str:
    """The suffix that names a report's format; UsageError names the known ones, RtgaugeError says
    what is lacking here to make it."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        given = f"suffix '{path.suffix}'" if path.suffix else "no suffix"
        raise UsageError(
            f"'{path.name}' has {given}, which is no format of reports",
            "known are: " + ", ".join(sorted(FORMATS)),
        )
    if suffix == ".pdf":
        pdf.check()
    return suffix


def write(source: Source | Sequence[StoredRun], path: Path) -> None:
    """Write the report on the runs to a file whose suffix names the format.

    The file is complete or not there: it is written under another name and renamed.
    """
    make = FORMATS[format_of(path)]
    made = make(source if isinstance(source, Source) else Source(source))
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(made)
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
