# SPDX-License-Identifier: Apache-2.0
"""Which runs a word on the command line means: a run, a study, a label, and of these a target's.

A,B,C            several of these together, as one set
RUN              a run's number (``12``, ``#12``), the beginning of its id, or ``last``
STUDY, LABEL     all runs of that study (the beginning of its id), or with that label
STUDY@TARGET     of these the runs on that target; LABEL@TARGET, too
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rtgauge.errors import UsageError, nearest
from rtgauge.store.numbers import run_number

if TYPE_CHECKING:
    from rtgauge.store import RunRow, Store

__all__ = ["Selection", "members", "select", "select_set", "study_of_last"]


@dataclass(frozen=True)
class Selection:
    """The runs that a word means, in the order in which they were carried out. ``whole``: all of a
    study or label, whatever their targets; else they are one set."""

    word: str
    runs: tuple[RunRow, ...]
    whole: bool

    @property
    def targets(self) -> list[str]:
        """Their targets, each once."""
        return list(dict.fromkeys(row.target for row in self.runs))


def select(rows: Sequence[RunRow], word: str) -> Selection:
    """What ``word`` means among all runs. Raises UsageError if that is nothing, or not clear."""
    ordered = sorted(rows, key=lambda row: (row.started, row.id))
    if not ordered:
        raise UsageError(
            "there are no runs in the store yet", "measure something: rtgauge run timer --for 10s"
        )
    if word == "last":
        return Selection(word, (ordered[-1],), False)
    found = _named(ordered, word)
    if found is not None:
        return found
    name, at, target = word.rpartition("@")
    whole = _named(ordered, name) if at and name and target else None
    if whole is not None:
        chosen = tuple(row for row in whole.runs if row.target == target)
        if not chosen:
            raise UsageError(
                f"'{name}' has no run on target '{target}'", nearest(target, whole.targets)
            )
        return Selection(word, chosen, False)
    labels = {row.label for row in ordered if row.label}
    remedy = nearest(word, labels) if labels else ""
    if not remedy.startswith("did you mean"):
        remedy = "`rtgauge runs` lists the runs with their labels"
    raise UsageError(f"there is no run, study or label '{word}'", remedy)


def select_set(rows: Sequence[RunRow], word: str) -> Selection:
    """As ``select``, or the runs of a list ``A,B,C`` together."""
    parts = [part for part in word.split(",") if part]
    if len(parts) < 2:
        return select(rows, word)
    try:
        return select(rows, word)  # a label, or the name of a target, may have a comma
    except UsageError:
        found = dict.fromkeys(row for part in parts for row in select(rows, part).runs)
        return Selection(word, tuple(found), False)


def _named(rows: Sequence[RunRow], word: str) -> Selection | None:
    begin = word.strip().lower()
    if not begin:
        return None
    labelled = tuple(row for row in rows if row.label == word)
    if labelled:
        return Selection(word, labelled, len(labelled) > 1)
    number = run_number(word)
    if number is not None and (same := [row for row in rows if row.number == number]):
        return Selection(word, (same[0],), False)
    studies = list(dict.fromkeys(r.study for r in rows if r.study.startswith(begin)))
    found = [row for row in rows if row.id.startswith(begin)]
    if len(studies) == 1:
        runs = members(rows, studies[0])
        if all(row in runs for row in found):
            return Selection(word, runs, True)
    if len(found) == 1 and not studies:
        return Selection(word, (found[0],), False)
    if not found and not studies:
        return None
    ids = [*(f"{study} (study)" for study in studies), *(row.id for row in found)]
    shown = ", ".join(ids[:3]) + (", …" if len(ids) > 3 else "")
    raise UsageError(
        f"{len(ids)} runs or studies begin with '{word}'",
        f"give more characters of the id: {shown}",
    )


def members(rows: Sequence[RunRow], study: str) -> tuple[RunRow, ...]:
    """The runs of a study in their order. An evaluation that was resumed belongs to the study that
    is named after it."""
    found = [row for row in rows if study in (row.study, row.id)]
    return tuple(sorted(found, key=lambda row: (row.started, row.id)))


def study_of_last(store: Store) -> Selection | None:
    """The study of the newest run, if that has one."""
    rows = store.runs()
    newest = select(rows, "last").runs[0]
    if not newest.study:
        return None
    return Selection(newest.study[:13], members(rows, newest.study), True)
