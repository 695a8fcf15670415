# SPDX-License-Identifier: Apache-2.0
"""Published figures of real-time Linux evaluations (published.csv, sources.md), as facts.

One row is one series of one measurement on one board, kernel and load; its names are those of the
catalogue. Nothing here is a ranking: other boards, other kernels, other loads.
"""

from __future__ import annotations

import csv
import functools
import importlib.resources
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

__all__ = ["Row", "read", "rows", "works"]


@dataclass(frozen=True)
class Row:
    """One published series. Times in us; None or empty: not published.

    ``max_bound`` ``lower``: the true maximum is above ``max_us``. ``value_us``: a single figure,
    where no distribution was published. ``labels``: the labels and options of the catalogue that
    the variant means.
    """

    source: str
    board: str
    cpu: str
    os: str
    kernel: str
    realtime: str
    measurement: str
    series: str
    variant: str
    context: str
    load: str
    tool: str
    command: str
    duration_s: float | None
    samples: int | None
    min_us: float | None
    avg_us: float | None
    max_us: float | None
    max_bound: str
    value_us: float | None
    generated: int | None
    lost: int | None
    verdict: str
    note: str
    labels: Mapping[str, str]


_FLOATS: Final = ("duration_s", "min_us", "avg_us", "max_us", "value_us")
_WHOLE: Final = ("samples", "generated", "lost")


def read(text: str) -> tuple[Row, ...]:
    """The rows of a text such as published.csv; ValueError names the first wrong row."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = []
    for number, raw in enumerate(csv.DictReader(lines, strict=True), 1):
        if None in raw or None in raw.values():
            raise ValueError(f"row {number} does not have one value for each column")
        values: dict[str, object] = dict(raw)
        try:
            for name in _FLOATS:
                values[name] = float(raw[name]) if raw[name] else None
            for name in _WHOLE:
                values[name] = int(raw[name]) if raw[name] else None
            pairs = (word.split("=") for word in raw["labels"].split())
            values["labels"] = MappingProxyType({name: text for name, text in pairs})
            row = Row(**values)  # type: ignore[arg-type]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"row {number}: {error}") from None
        if row.max_bound not in ("", "lower"):
            raise ValueError(f"row {number}: max_bound is '{row.max_bound}'")
        found.append(row)
    return tuple(found)


def _text(name: str) -> str:
    return importlib.resources.files(__name__).joinpath(name).read_text(encoding="utf-8")


@functools.cache
def rows() -> tuple[Row, ...]:
    """All published rows, in the order of the file."""
    return read(_text("published.csv"))


@functools.cache
def works() -> Mapping[str, str]:
    """Key of a source -> the work: authors, title, year."""
    found = {}
    for line in _text("sources.md").splitlines():
        if row := re.fullmatch(r"\| ([a-z][a-z0-9.-]*) \| (.+) \|", line):
            found[row[1]] = row[2]
    found.pop("key", None)
    return MappingProxyType(found)
