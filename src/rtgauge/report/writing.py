# SPDX-License-Identifier: Apache-2.0
"""Files of reports: the runs of a report, and the format that the suffix of a file names."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from rtgauge.errors import RtgaugeError, UsageError
from rtgauge.report.document import blocks, trended, tuned
from rtgauge.report.document.compared import comparison_cases
from rtgauge.report.document.cover import NO_COVER, Cover
from rtgauge.report.document.summary import short
from rtgauge.report.render import html, junit, ktap, markdown, pdf, pdf_full
from rtgauge.report.results import model
from rtgauge.report.results.cases import cases_of
from rtgauge.report.sets import compare
from rtgauge.store.files import replacing

if TYPE_CHECKING:
    from rtgauge.report.results.cases import RunCases
    from rtgauge.report.results.model import Analysis, Document
    from rtgauge.store import StoredRun

__all__ = [
    "FORMATS",
    "Source",
    "UnwritableError",
    "faults_as_errors",
    "format_of",
    "write",
    "write_trace",
    "write_trend",
    "write_tune",
]


class Source:
    """The runs of a report; one pass over their samples serves all its formats. ``paper``: the
    size of the pages of a PDF (``pdf.PAPERS``). ``sets``: the sets to compare; None: a set for each
    target. ``claims``: what their comparison is to decide. ``cover``: title, facts and logo for the
    first page. ``full``: write the complete PDF, not the short one."""

    def __init__(
        self,
        runs: Sequence[StoredRun],
        paper: str = "a4",
        sets: Sequence[compare.RunSet] | None = None,
        *,
        claims: compare.Claims | None = None,
        cover: Cover = NO_COVER,
        full: bool = False,
    ) -> None:
        self.runs = runs
        self.paper = paper
        self.sets = sets
        self.claims = claims or compare.Claims()
        self.cover = cover
        self.full = full

    @functools.cached_property
    def analysis(self) -> Analysis:
        """The model and what the pictures are drawn from."""
        return model.analyse(self.runs)

    @functools.cached_property
    def model(self) -> Document:
        """The results model."""
        return self._figures.model

    @functools.cached_property
    def _tables(self) -> Analysis:
        return model.analyse(self.runs, pictures=False)

    @property
    def _figures(self) -> Analysis:
        """The analysis. Data that only pictures need are added with the first picture."""
        return self.analysis if "analysis" in self.__dict__ else self._tables

    def compared(self) -> compare.Compared:
        """The comparison of the sets. Raises UsageError if they must not be compared."""
        figures = self._figures
        return compare.compare(figures, self._sets(figures.model["runs"]), self.claims)

    def _sets(self, runs: Sequence[Document]) -> Sequence[compare.RunSet]:
        return self.sets if self.sets is not None else compare.sets_by_target(runs)

    @functools.cached_property
    def comparison(self) -> compare.Compared | str | None:
        """The comparison of the sets, or why they are not compared; None for a single set."""
        if len(self._sets(self._figures.model["runs"])) < 2:
            return None
        try:
            return self.compared()
        except UsageError as error:
            return f"{error.message[:1].upper()}{error.message[1:]} ({error.remedy})."


def _json(source: Source) -> bytes:
    """The results model, or the comparison if sets were chosen."""
    return _as_text(source.model if source.sets is None else source.compared().document).encode()


def _as_text(document: Mapping[str, Any]) -> str:
    """A JSON document as the text of a file."""
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _of_cases(render: Callable[[Iterable[RunCases]], str]) -> Callable[[Source], bytes]:
    """A report of test cases: of the runs, or of the comparison if sets were chosen."""

    def made(source: Source) -> bytes:
        if source.sets is None:
            return render(map(cases_of, source.model["runs"])).encode()
        started = max(str(run["started"]) for run in source.model["runs"])
        return render([comparison_cases(source.compared().document, started)]).encode()

    return made


def _markdown(source: Source) -> bytes:
    return markdown.render(short(source._figures, source.comparison), source.cover).encode()


def _pdf(source: Source) -> bytes:
    if source.full:
        return pdf_full.render(source.analysis, source.paper, source.comparison, source.cover)
    document = short(source.analysis, source.comparison)
    return pdf.render(document, source.model["runs"], source.paper, source.cover)


FORMATS: Final[Mapping[str, Callable[[Source], bytes]]] = MappingProxyType(
    {
        ".html": lambda source: html.render(
            source.analysis, source.comparison, source.cover
        ).encode(),
        ".json": _json,
        ".md": _markdown,
        ".pdf": _pdf,
        ".tap": _of_cases(ktap.render_cases),
        ".xml": _of_cases(junit.render_cases),
    }
)
"""Suffix of a report's file -> what makes its bytes."""


def format_of(path: Path) -> str:
    """The suffix that names a report's format. Raises UsageError for an unknown one, and
    RtgaugeError if a package for it is missing."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(
            f"'{path.name}' does not have the suffix of a report format",
            "use one of " + ", ".join(sorted(FORMATS)),
        )
    if suffix == ".pdf":
        pdf.check()
    return suffix


class UnwritableError(RtgaugeError):
    """A file cannot be written where it was to be."""


@contextlib.contextmanager
def faults_as_errors(name: str) -> Iterator[None]:
    """Turn an exception of a renderer into an RtgaugeError of one line: a run that was accepted may
    still have any content. ``name``: the report or text."""
    try:
        yield
    except RtgaugeError:
        raise
    except Exception as error:
        raise RtgaugeError(
            f"cannot make {name} from the run: {type(error).__name__} in rtgauge",
            "try another format, and report this fault with the run that `rtgauge export` writes",
        ) from error


def write(source: Source | Sequence[StoredRun], path: Path) -> None:
    """Write the report on the runs to a file whose suffix names the format.

    The file is complete or does not exist: it is written under another name and renamed. Raises
    UsageError for an unknown suffix, and RtgaugeError if the report or the file cannot be written.
    """
    make = FORMATS[format_of(path)]
    with faults_as_errors(path.name):
        made = make(source if isinstance(source, Source) else Source(source))
    _write(made, path)


def write_tune(document: Document, path: Path) -> None:
    """Write the result of a tune to a file: .html, .md or .json. Raises RtgaugeError if that
    fails."""
    _write_document(document, tuned.document, path)


def write_trend(document: Document, path: Path) -> None:
    """Write a trend to a file: .html, .md or .json. Raises RtgaugeError if that fails."""
    _write_document(document, trended.trend_document, path)


def _write_document(
    document: Document, shown: Callable[[Document], blocks.Document], path: Path
) -> None:
    """Write a document by itself. ``shown``: what makes its blocks."""
    with faults_as_errors(path.name):
        suffix = path.suffix.lower()
        if suffix == ".json":
            made = _as_text(document)
        elif suffix == ".md":
            made = markdown.render(shown(document))
        else:
            made = html.page(shown(document))
    _write(made.encode(), path)


def write_trace(trace: Mapping[str, Any], path: Path) -> None:
    """Write a trace of events to a file. Raises RtgaugeError if that fails."""
    _write((json.dumps(trace, ensure_ascii=False) + "\n").encode(), path, "trace")


def _write(made: bytes, path: Path, what: str = "report") -> None:
    try:
        with replacing(path) as file:
            file.write(made)
    except OSError as error:
        raise UnwritableError(
            f"cannot write the {what} to {path}: {error.strerror or error}",
            "name another file with -o FILE",
        ) from error
