# SPDX-License-Identifier: Apache-2.0
"""Published figures with those of a step: a table without rounding, and a picture of the ranges
on one axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rtgauge import text as numbers
from rtgauge.report.document.blocks import Figure
from rtgauge.report.document.tables import Cell, Grid, Row, span
from rtgauge.report.pictures.ranges import Range, ranges
from rtgauge.report.results.labels import (
    capital,
    group_series,
    highest,
    peak,
    quantity_name,
    realtime_text,
    series_labels,
    target_name,
)
from rtgauge.report.results.model import Document

__all__ = ["published_figure", "published_table"]

_KINDS: Final = {"preempt_rt": "PREEMPT_RT", "none": "stock", "xenomai": "Xenomai"}
"""Short names of the kinds of kernel in the picture."""


def published_table(run: Document, step: Document) -> Grid | None:
    """Published figures, and below each the figure measured here."""
    rows = step["published"]
    if not rows:
        return None
    what, cells = [], []
    for one in rows:
        what.append(", ".join(word for word in (one["name"], one["variant"]) if word))
        series = [run["series"][place] for place in one["series"]]
        length = []
        if one["samples"] is not None:
            length.append(f"{numbers.count(one['samples'])} samples")
        if one["duration_s"] is not None:
            length.append(numbers.duration(one["duration_s"]))
        most = numbers.exact(one["max_us"])
        if one["max_bound"] == "lower":
            most = f"above {most}"
        model = realtime_text({"realtime": one["realtime"]}) if one["realtime"] else ""
        if one["realtime"] == "xenomai":
            model = ""
        kernel = " ".join(text for text in (one["os"], one["kernel"]) if text)
        context = f"{one['context']} context" if one["context"] else ""
        cells.append(
            [
                _with_own(one["min_us"], "", _least(series)),
                _with_own(one["mean_us"], "", _mean(series)),
                _with_own(one["max_us"], most, highest(peak(own) for own in series)),
                _single(one, series),
                Cell(one["board"], note=one["cpu"], cls="words"),
                Cell(kernel or "–", note=model, cls="words"),
                Cell(
                    one["load"] or "–",
                    note=", ".join(word for word in (context, one["tool"], *length) if word),
                    cls="words",
                ),
                Cell(one["source"], note=one["note"], cls="words"),
            ]
        )
    works = "; ".join(dict.fromkeys(f"{one['source']}: {one['work']}" for one in rows))
    here = ' "here" is the figure of this run.' if any(one["series"] for one in rows) else ""
    heads = ["Min", "Mean", "Max", "Figure", "Board", "Kernel", "Load", "Source"]
    filled = [at for at in range(len(heads)) if any(row[at].text != "–" for row in cells)]
    return Grid(
        "Published figures",
        ["Published", *(heads[at] for at in filled)],
        [Row(name, [row[at] for at in filled]) for name, row in zip(what, cells, strict=True)],
        f"In µs.{here} {works}.",
    )


def _with_own(published: float | None, text: str, own: float | None) -> Cell:
    """A published figure (us) without rounding, and the figure of this run (ns)."""
    if published is None:
        return Cell("–")
    here = "" if own is None else f"here {numbers.shown(own, 'ns').text}"
    return Cell(text or numbers.exact(published), note=here)


def _single(one: Document, series: Sequence[Document]) -> Cell:
    """The single figure of a published row, what was lost, and the verdict."""
    if one["generated"] is not None:
        note = f"{numbers.count(one['lost'])} of {numbers.count(one['generated'])} lost"
        return Cell(numbers.exact(one["value_us"]), note=note)
    medians = [own["percentiles"]["50"] for own in series if "50" in own["percentiles"]]
    cell = _with_own(one["value_us"], "", None)
    if medians and one["value_us"] is not None:
        cell = Cell(cell.text, note=f"here {span(medians, 'ns')}".removesuffix(f"{numbers.GAP}µs"))
    if one["verdict"]:
        text = one["verdict"] if one["value_us"] is None else f"{cell.text}, {one['verdict']}"
        cell = Cell(text, note=cell.note)
    return cell


def _least(series: Sequence[Document]) -> int | None:
    return min((own["min"] for own in series if own["min"] is not None), default=None)


def _mean(series: Sequence[Document]) -> float | None:
    """The mean of all samples of the series."""
    filled = [own for own in series if own["mean"] is not None]
    # one with a mean has a sample, whatever its counts are
    kept = [max(own["count"] - own["lost"], 1) for own in filled]
    total = sum(own["mean"] * number for own, number in zip(filled, kept, strict=True))
    return total / sum(kept) if filled else None


# --- the picture ---------------------------------------------------------------------------------


def published_figure(run: Document, step: Document) -> Figure | None:
    """The published ranges and those of the step, from min to max on one axis, in the order of the
    step's quantities. None without a published range."""
    places = [at for at, one in enumerate(run["series"]) if one["step"] == step["step"]]
    rows: list[Range] = []
    for members in group_series(run["series"], places):
        if run["series"][members[0]]["unit"] != "ns":
            continue
        found = [
            one
            for one in step["published"]
            if one["max_us"] is not None and set(one["series"]) & set(members)
        ]
        labels = dict(
            zip(members, series_labels([run["series"][at] for at in members]), strict=True)
        )
        name = quantity_name(run["series"], members, places)
        for whose in dict.fromkeys(tuple(one["series"]) for one in found):
            label = "" if len(whose) == len(members) else ", ".join(labels[at] for at in whose)
            rows += _ranges(run, capital(name), label, whose, found)
    if not rows:
        return None
    caption = (
        "Each bar reaches from min to max. Its mark is the mean. The bars of this run are blue. "
        "A dotted line: the min is not published. An arrow: the true max is larger."
    )
    said = "; ".join(f"{one.name}: {_said(one)}" for one in rows)
    return Figure(ranges(rows), "Published ranges and this run", caption, f"{said}.")


def _ranges(
    run: Document, name: str, label: str, whose: Sequence[int], found: Sequence[Document]
) -> Iterator[Range]:
    """The range of some series, then the published ones that belong to them."""
    series = [run["series"][at] for at in whose]
    most = highest(peak(one) for one in series)
    least = _least(series)
    title = f"{name}, {label}" if label else name
    if most is not None and least is not None:
        mean = _mean(series)
        yield Range(
            f"{target_name(run)} (this run)", least / 1000, None if mean is None else mean / 1000,
            most / 1000, isinstance(most, numbers.AtLeast), own=True, group=title,
        )  # fmt: skip
    rows = [one for one in found if tuple(one["series"]) == tuple(whose)]
    varying = {key for key in ("variant", "load") if len({one[key] for one in rows}) > 1}
    for one in rows:
        words = [one["board"], _KINDS.get(one["realtime"], one["os"])]
        words += [one[key] for key in ("variant", "load") if key in varying]
        unique = dict.fromkeys(word for word in words if word and word.lower() != "xenomai")
        if one["realtime"] == "xenomai":
            unique = dict.fromkeys([one["board"], "Xenomai", *unique])
        yield Range(
            ", ".join(unique), one["min_us"], one["mean_us"], one["max_us"],
            one["max_bound"] == "lower", own=False, group=title,
        )  # fmt: skip


def _said(one: Range) -> str:
    least = "" if one.least is None else f"{numbers.exact(one.least)} to "
    limit = "" if not one.open else f"≥{numbers.GAP}" if one.own else "above "
    return f"{least}{limit}{numbers.exact(one.most)}{numbers.GAP}µs"
