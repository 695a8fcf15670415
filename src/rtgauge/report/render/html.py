# SPDX-License-Identifier: Apache-2.0
"""The HTML report: one self-contained file that can be handed to a customer.

Step 11 of the path of a sample, the last. What ``document`` made of the results model becomes a
page and embedded data; static/report.js draws that data with uPlot. The page fetches nothing: a
content security policy forbids it and admits only the page's own two scripts and style, by hash.
Text from a target is escaped by the template, in the data by ``deflated``; both put a mark in place
of characters that would hide or reverse other text, figures included.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.resources
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape

from rtgauge import __version__
from rtgauge.facts import printable
from rtgauge.report.document.answer import answer_figure, answer_of, answer_section
from rtgauge.report.document.blocks import Block, Document, Section, Table
from rtgauge.report.document.conclusion import comparison_section, runs_section
from rtgauge.report.document.cover import NO_COVER, Cover
from rtgauge.report.document.evidence import extrapolation_section
from rtgauge.report.document.summary import summary, told
from rtgauge.report.document.tables import Grid
from rtgauge.report.document.views import Views, views
from rtgauge.report.results.commands import sentence
from rtgauge.report.results.model import Analysis
from rtgauge.report.results.observations import RULES
from rtgauge.report.results.published import CAUTION
from rtgauge.report.sets.compare import Compared

__all__ = ["deflated", "page", "render"]

UPLOT: Final = "1.6.32"


def deflated(data: object) -> str:
    """JSON in zlib's format as base64, which cannot end the script element that holds it."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    text = _ESCAPED.sub(_printable, text)
    return base64.b64encode(zlib.compress(text.encode("ascii"), 9)).decode("ascii")


_ESCAPED: Final = re.compile(r"(?:\\u[0-9a-f]{4})+|\\.|\x7f")


def _printable(found: re.Match[str]) -> str:
    """Characters of JSON with a mark for each that would hide or reverse others."""
    return json.dumps(printable(json.loads(f'"{found[0]}"')))[1:-1]


def differences(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of the pictures with places and times of samples as differences. The first value is
    unchanged. Most differences are equal, and equal digits compress well."""
    found = dict(data)
    for name, picture in data.items():
        window = picture.get("window")
        if window:
            kinds = {kind: [one and _steps(one) for one in window[kind]] for kind in _WINDOWS}
            found[name] = {**picture, "window": {**window, **kinds}}
    return found


_WINDOWS: Final = ("around", "begin")


def _steps(window: Mapping[str, Any]) -> dict[str, Any]:
    return {**window} | {
        name: [value - before for before, value in pairwise([0, *window[name]])]
        for name in ("index", "due_ns")
    }


def render(
    analysis: Analysis, compared: Compared | str | None = None, cover: Cover = NO_COVER
) -> str:
    """The report on the runs of an analysis, as one HTML document."""
    shown = views(analysis, compared)
    for name, figures in _drawn(shown):
        shared = shown.shared.data[name]
        shared["texts"] = [[figure["title"], figure["caption"]] for figure in figures]
    style = _file("uplot/uPlot.min.css") + "\n" + _file("report.css")
    uplot, script = _file("uplot/uPlot.iife.min.js"), _file("report.js")
    for text in (style, uplot, script):
        if re.search(r"</(script|style)|<!--", text, re.IGNORECASE):
            raise AssertionError("a static file would end its own element")
    return _template().render(
        version=__version__,
        uplot=UPLOT,
        title=cover.title or shown.title,
        head=shown.head,
        cover=cover,
        runs=[{**run, **_screens(analysis, number, run)} for number, run in enumerate(shown.runs)],
        comparison=shown.comparison,
        first=_with_model(
            runs_section(analysis) if compared is None else comparison_section(compared, analysis),
            analysis,
        ),
        style=Markup(style),
        uplot_script=Markup(uplot),
        script=Markup(script),
        data=deflated(differences(shown.shared.data)),
        caution=CAUTION,
        rules=RULES,
        csp=(
            "default-src 'none'; "
            f"script-src {_hash(uplot)} {_hash(script)}; style-src {_hash(style)}; "
            + ("img-src data:; " if cover.logo is not None else "")
            + "base-uri 'none'; form-action 'none'"
        ),
    )


def page(document: Document) -> str:
    """A document without data to draw, as one HTML document."""
    style = _file("report.css")
    return _template("document.html.j2").render(
        version=__version__,
        document=document,
        style=Markup(style),
        csp=f"default-src 'none'; style-src {_hash(style)}; base-uri 'none'; form-action 'none'",
    )


def _drawn(shown: Views) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    """The pictures that report.js draws, by the id of their data."""
    for run in shown.runs:
        for step in run["steps"]:
            yield from ((one["id"], one["figures"]) for one in step["groups"] if one["figures"])
    tables = [table for run in shown.runs for table in run["side_by_side"]]
    if shown.comparison is not None:
        tables += shown.comparison["tables"]
        if shown.comparison["sets"] is not None:
            tables += shown.comparison["sets"]["tables"]
    yield from ((table.figures, table.views) for table in tables if table.figures)


def _screens(analysis: Analysis, number: int, run: Mapping[str, Any]) -> dict[str, Any]:
    """The first screens of a run, and the page of each chapter by the chapter's name. The figures
    of all steps and the findings are not in them, as the page shows both below."""
    prefix = run["prefix"]
    model = analysis.model["runs"][number]
    answer = answer_of(model)
    whole, *pages = summary(analysis, number, prefix)
    return {
        "told": [*([f"“{model['label']}”"] if model["label"] else []), *told(model)],
        "sections": [
            answer_section(answer, answer_figure(analysis, number), prefix=prefix),
            _with_model(
                replace(whole, blocks=tuple(one for one in whole.blocks if not _of_steps(one))),
                analysis,
                alone=True,
            ),
            *(page for page in pages if page.anchor == f"{prefix}causes"),
        ],
        "pages": {
            page.title: page for page in pages if page.page and page.anchor != f"{prefix}causes"
        },
    }


def _with_model(section: Section, analysis: Analysis, *, alone: bool = False) -> Section:
    """A section with the folded extrapolation at its end: that of a single run (``alone``), or that
    of several."""
    model = extrapolation_section(analysis.model)
    if model is None or alone != (len(analysis.model["runs"]) == 1):
        return section
    return replace(section, blocks=(*section.blocks, model))


def _of_steps(block: Block) -> bool:
    return isinstance(block, Table) and block.grid.title == "Figures"


def _words(grid: Grid) -> list[bool]:
    """Which columns of a table, after that of the names, hold words rather than figures."""
    return [
        any(
            row.cells[at].text[:1].isalpha() or len(row.cells[at].text) > 24
            for row in grid.rows
            if at < len(row.cells)
        )
        for at in range(max((len(row.cells) for row in grid.rows), default=len(grid.heads)))
    ]


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _shown(value: object) -> object:
    """A value of the template. Markup and numbers are unchanged."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _unbroken(text: str) -> Markup:
    """Text whose ranges of numbers, such as ``CPUs 0-3``, and percentages stay on one line. It is
    copied as it is."""
    escaped = str(escape(printable(text)))
    return Markup(_WHOLE.sub(r'<span class="whole">\g<0></span>', escaped))


_WHOLE: Final = re.compile(r"(?<![\d-])\d{1,5}-\d{1,5}(?![\d-])|[\d.]+ %(?!\w)")


@functools.cache
def _file(name: str) -> str:
    folder = importlib.resources.files("rtgauge.report.render").joinpath("static")
    return folder.joinpath(*name.split("/")).read_text(encoding="utf-8").replace("\r\n", "\n")


@functools.cache
def _template(name: str = "report.html.j2") -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.PackageLoader("rtgauge.report.render"),
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = _unbroken
    environment.globals.update(
        kind=lambda block: type(block).__name__, words=_words, sentence=sentence
    )
    return environment.get_template(name)
