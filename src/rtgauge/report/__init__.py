# SPDX-License-Identifier: Apache-2.0
"""Reports: the results model and what people see of it.

On the path of a sample: stored runs come in, and leave as a results model (``model``), a summary
for the terminal (``terminal``), one HTML file (``html``), a PDF (``pdf``), Markdown, JUnit XML or
KTAP. ``write`` picks the format from the file's suffix.

The names below are imported when they are first used, so that a command which needs one part of
this package does not load all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rtgauge.report.document.cover import Cover
    from rtgauge.report.render import html, junit, ktap, markdown, pdf, terminal
    from rtgauge.report.results import model
    from rtgauge.report.writing import (
        FORMATS,
        Source,
        faults_as_errors,
        format_of,
        write,
        write_trace,
        write_trend,
        write_tune,
    )

__all__ = [
    "FORMATS",
    "Cover",
    "Source",
    "faults_as_errors",
    "format_of",
    "html",
    "junit",
    "ktap",
    "markdown",
    "model",
    "pdf",
    "terminal",
    "write",
    "write_trace",
    "write_trend",
    "write_tune",
]


# Public names that are modules. The other public names are defined in ``writing``.
_MODULES: Final = {
    "html": "render.html",
    "junit": "render.junit",
    "ktap": "render.ktap",
    "markdown": "render.markdown",
    "model": "results.model",
    "pdf": "render.pdf",
    "terminal": "render.terminal",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{_MODULES[name]}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(import_module(f"{__name__}.writing"))[name]
