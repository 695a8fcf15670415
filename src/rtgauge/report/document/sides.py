# SPDX-License-Identifier: Apache-2.0
"""What a comparison says of each side alone: which system it is, whether it is good enough, its
maximum, what was measured, what caused the maximum of the side to improve, and its rhythm.

It follows from the answers of the runs (``answer``). The weakest answer of a set counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.document.answer import OBSERVED, Answer, State, answer_of, when_text
from rtgauge.report.document.blocks import Block, Bullets, Line, Paragraph, Span, line, plain_line
from rtgauge.report.document.cycles import Cycle, shortest, support_text, too_late
from rtgauge.report.document.next_steps import is_about, worst_set
from rtgauge.report.results.labels import capital, peak, worst
from rtgauge.report.sets.compare import is_one_of, set_facts

__all__ = ["sides"]

Model = Mapping[str, Any]

_ORDER: Final = (
    State.UNFIT,
    State.LATE,
    State.UNMEASURED,
    State.UNPROVEN,
    State.SUPPORTS,
    State.PASSED,
    State.FIT,
)


def sides(document: Model, quantity: Model, runs: Sequence[Model]) -> list[Block]:
    """The blocks on the sides of a comparison. ``quantity``: the one that the conclusion is about.
    ``runs``: those of the results model."""
    by_id = {run["id"]: (run, answer_of(run)) for run in runs}
    places = {run["id"]: number for number, run in enumerate(runs, 1)}
    items = []
    for row in quantity["rows"]:
        one = document["sets"][row["set"]]
        members = [by_id[run] for run in one["runs"] if run in by_id]
        if members:
            items.append((_side(one, row, quantity, members, places), ()))
    answers = [answer for _, answer in by_id.values()]
    found: list[Block] = [Bullets(tuple(items))] if items else []
    counts = list(dict.fromkeys(numbers.count(row["count"]) for row in quantity["rows"]))
    things = "sample" if counts == ["1"] else "samples"
    said = f"{numbers.join(counts)} {things}" + (" each" if len(counts) == 1 else "")
    budgets = any(step["budget"] for run in runs for step in run["steps"])
    said += "" if budgets else ". No budget given"
    said += ". The observed maxima do not decide which system is better: each is a single sample. "
    said += " ".join(dict.fromkeys(filter(None, (one.missing or one.scope for one in answers))))
    if meaning := _load(quantity, runs):
        said += f" Load {quantity['load']['name']} ({meaning})."
    found.append(Paragraph(line(said.strip())))
    place = worst_set(document, quantity)
    top = max(
        (by_id[run] for run in document["sets"][place]["runs"] if run in by_id),
        key=lambda member: _top(quantity, member[0])[0],
        default=None,
    )
    if top is not None and top[1].cause and is_about(quantity, top[0]):
        letter = document["sets"][place]["letter"]
        for said in filter(None, (plain_line(top[1].cause), top[1].rhythm)):
            found.append(Paragraph(line(f"{letter}: {said[0].lower()}{said[1:]}")))
    return found


def _load(quantity: Model, runs: Sequence[Model]) -> str:
    """What the load of a quantity does; empty when idle."""
    return next(
        (
            str(step["load"]["meaning"])
            for run in runs
            for step in run["steps"]
            if step["load"]["name"] == quantity["load"]["name"] and "meaning" in step["load"]
        ),
        "",
    )


def _side(
    one: Model,
    row: Model,
    quantity: Model,
    members: Sequence[tuple[Model, Answer]],
    places: Mapping[str, int],
) -> Line:
    """A side: its figures, and where its maximum is. ``places``: the number of each run."""
    maximum = numbers.shown(row["figures"]["max"], quantity["unit"], quantity["budget"]).full
    run, _ = max(members, key=lambda member: _top(quantity, member[0])[0])
    place = _top(quantity, run)[1]
    where = [] if place is None else [
        f"run {places[run['id']]}" if len(members) > 1 else "",
        f"CPU {place['cpu']}" if place["cpu"] >= 0 else "",
        # a lower limit is not that sample, and has no time
        when_text(run, place) if place["max_at_least"] is None else "",
    ]  # fmt: skip
    said = ", ".join(filter(None, where))
    good = _good_enough([answer for _, answer in members])
    return line(
        Span(f"{one['letter']}: {one['name']}", strong=True),
        f", {set_facts({**one, 'emulated': []})}. {good}. {OBSERVED}{maximum}",
        f" ({said})" if said else "",
    )


def _good_enough(answers: Sequence[Answer]) -> str:
    """The weakest of some answers, and the number of runs that have it. Without a budget: the
    cycles for which the system is too late, and those that the data support."""
    weakest = min(answers, key=lambda answer: (_ORDER.index(answer.state), -len(_late(answer))))
    if weakest.cycles:
        late = too_late(weakest.cycles) if shortest(weakest.cycles) else ""
        return capital("; ".join(filter(None, (late, support_text(weakest.cycles)))))
    many = Counter(answer.title for answer in answers)[weakest.title]
    share = "" if many == len(answers) else f" in {many} of {len(answers)} runs"
    return capital(weakest.title) + share


def _late(answer: Answer) -> list[Cycle]:
    """The cycles that the maximum exceeds."""
    return [one for one in answer.cycles if one.state == "exceeded"]


def _top(quantity: Model, run: Model) -> tuple[float, Any]:
    """The highest maximum of a quantity in a run, or its lower limit, and its series; None without
    one."""
    found = [one for one in run["series"] if is_one_of(quantity, run, one)]
    at = worst(found)
    return (0.0, None) if at is None else (float(peak(found[at]) or 0), found[at])
