# SPDX-License-Identifier: Apache-2.0
"""Carry out a tune: a plan in the configurations of a design, each in a run of one study.

Its record (docs/formats/tune.md) is kept in a file after each run, from which an interrupted tune
continues. A configuration that does not boot, or whose run fails, keeps its row, and is measured
once more at the end of its block. A factor that alone explains such failures is taken out of the
configurations that remain.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from rtgauge import stats
from rtgauge.catalogue import Catalogue
from rtgauge.engine.boot import Booter, check_booted, unknown_arguments
from rtgauge.engine.environment import read_facts
from rtgauge.engine.pair import LogHosts, paired
from rtgauge.engine.run import Progress, Run, RunOutcome
from rtgauge.engine.study import Interruption, disturb_words
from rtgauge.engine.watch import Limits
from rtgauge.errors import RtgaugeError, TargetError, UsageError
from rtgauge.facts import Fact
from rtgauge.plan import Factor, Plan, configured, kernel_arguments
from rtgauge.store import Store
from rtgauge.target import Target, open_target
from rtgauge.target.base import Repeating

__all__ = ["Observer", "Tried", "Tuner", "blamed", "confirmation", "screening"]

Document = dict[str, Any]

POLL_S: Final = 0.2
#: Failures of configurations that have nothing in common, after which a tune ends if none is good.
FAILURES: Final = 6
#: Failures that a factor has to explain alone before it is taken out, and good runs without it.
BLAMED: Final = 3
GOOD: Final = 2


class Observer(Protocol):
    """Observer of a tune."""

    def begins(self, row: Document) -> Progress:
        """A configuration is about to be measured; the observer of its run."""
        ...

    def ended(self, row: Document) -> None:
        """A configuration was measured, or failed."""
        ...

    def message(self, text: str) -> None:
        """Something that the user should know."""
        ...


def _row(number: int, phase: str, block: int, on: Sequence[int]) -> Document:
    return {
        "number": number,
        "phase": phase,
        "block": block,
        "on": list(on),
        "state": "waiting",
        "run": "",
        "reason": "",
        "remedy": "",
        "duration_s": 0.0,
        "again": False,
        "retry": False,
    }


def blamed(failed: Sequence[set[int]], good: Sequence[set[int]]) -> set[int]:
    """The factors that fail, from those that were on in each run that failed and each good one.

    A factor that was on in no good run is suspected. It fails if it was the only suspected one in
    three runs that failed, and there are two good runs. So failures by chance take out a factor
    that does nothing only if the first three runs with it fail.
    """
    suspected = set().union(*failed) - set().union(*good)
    alone = [one & suspected for one in failed]
    enough = len(good) >= GOOD
    return {factor for factor in suspected if enough and alone.count({factor}) >= BLAMED}


def screening(factors: int, seed: int) -> tuple[Document, list[Document]]:
    """The design for ``factors`` factors, and its configurations in order. Raises UsageError."""
    try:
        found = stats.design(factors, seed)
    except ValueError:
        raise UsageError(
            f"{factors} factors are too many for one tune",
            f"try at most {stats.FACTORS_MAX} at a time",
        ) from None
    rows = [
        _row(number, "screen", block, [place for place, on in enumerate(levels) if on])
        for number, (block, levels) in enumerate(zip(found.blocks, found.rows, strict=True))
    ]
    head = {"kind": found.kind, "size": found.size, "seed": seed, "blocks": max(found.blocks) + 1}
    return head, rows


def confirmation(document: Document, best: Sequence[int], blocks: int) -> list[Document]:
    """The configurations of the confirmation: in each block the present one and the best, in
    random order, with a seed that no block had before."""
    first = document["design"]["blocks"]
    number = len(document["configurations"])
    order = random.Random(document["design"]["seed"])
    return [
        _row(number + 2 * block + place, "confirm", first + block, on)
        for block in range(blocks)
        for place, on in enumerate(order.sample([[], best], 2))
    ]


@dataclass(frozen=True)
class Tried:
    """A tune: a plan, with factors off or on. ``catalogue``: that of the target."""

    plan: Plan
    factors: tuple[Factor, ...]
    catalogue: Catalogue


class Tuner:
    """Carries out the configurations of a tune that wait.

    ``booters``: those of equal targets that can measure at the same time, at least one. ``save``:
    keeps the document, called whenever it has changed. ``patient``: prepares a log host for lost
    connections, as the targets are.
    """

    def __init__(
        self,
        document: Document,
        tried: Tried,
        booters: Sequence[Booter],
        store: Store,
        observer: Observer,
        interruption: Interruption,
        save: Callable[[], None],
        patient: Callable[[Target], Target],
    ) -> None:
        self._document = document
        self._tried = tried
        self._factors = tried.factors
        self._booters = booters
        self._store = store
        self._observer = observer
        self._interruption = interruption
        self._save = save
        self._patient = patient
        self._lock = threading.Lock()
        self._kernel = any(factor.kind == "kernel" for factor in tried.factors)
        self._stopped = False
        self._in_a_row: list[Document] = []  # what has failed since a configuration worked

    @property
    def rows(self) -> list[Document]:
        """The configurations, in their order."""
        rows: list[Document] = self._document["configurations"]
        return rows

    def carry_out(self) -> bool:
        """Measure all configurations that wait; whether all were. Raises TargetError if the target
        fails whatever is tried, StoreError if the store cannot be written."""
        for row in self.rows:
            if row["state"] == "running":  # when the program was killed
                row["state"] = "waiting"
        with ThreadPoolExecutor(len(self._booters), "tune") as pool:
            workers = [pool.submit(self._work, booter) for booter in self._booters]
            while wait(workers, POLL_S).not_done:  # signals are handled in between
                pass
            for worker in workers:
                worker.result()
        return not any(row["state"] in ("waiting", "running") for row in self.rows)

    def put_back(self) -> None:
        """Boot with the present arguments again, if a command did otherwise, and check that the
        kernel has them. Says so if that fails."""
        if not self._document["booted"]:
            return
        self._observer.message("booting the present configuration again")
        try:
            self._boot_checked(self._booters[0], [], lambda: self._interruption.urgent)
        except RtgaugeError as error:
            self._observer.message(
                f"the target may still boot with {' '.join(self._document['booted'])}: "
                f"{error.message}. Run by hand: {self._document['boot_command']}"
            )

    def _work(self, booter: Booter) -> None:
        try:
            while (row := self._next()) is not None:
                self._measure(booter, row)
        except BaseException:
            self._stopped = True
            raise

    def _next(self) -> Document | None:
        with self._lock:
            if self._stopped or self._interruption.asked:
                return None
            waiting = [row for row in self.rows if row["state"] == "waiting"]
            row = min(waiting, key=lambda one: (one["block"], one["number"]), default=None)
            if row is not None:
                row["state"] = "running"
            return row

    def _booted(self, arguments: Iterable[str]) -> None:
        if self._document["boot_command"]:
            with self._lock:
                self._document["booted"] = list(arguments)
                self._save()

    def _measure(self, booter: Booter, row: Document) -> None:
        on = [self._factors[place] for place in row["on"]]
        watcher = self._observer.begins(row)
        began = time.monotonic()
        try:
            if isinstance(booter.target, Repeating):
                booter.target.begin_repeat(row["block"])
            self._boot(booter, on)
            outcome = self._run(booter.target, row, on, watcher)
            reason, remedy = outcome.reason, outcome.remedy
            state = "complete" if outcome.state == "complete" else "failed"
            row["run"] = outcome.id
        except (TargetError, UsageError) as error:
            state, reason, remedy = "failed", error.message, error.remedy
        with self._lock:
            if state == "failed" and self._interruption.asked:
                row.update(state="waiting", run="")
            else:
                row.update(
                    state=state,
                    reason=reason,
                    remedy=remedy,
                    duration_s=round(time.monotonic() - began, 1),
                )
                self._in_a_row = [*self._in_a_row, row] if state == "failed" else []
                self._blame()
                if state == "failed":
                    self._retry(row)
            self._save()
        self._observer.ended(row)

    def _boot(self, booter: Booter, on: Sequence[Factor]) -> None:
        """Boot with the arguments of the factors that are on, and check that the kernel has them
        and knows them."""
        if not self._kernel:
            return
        wanted = kernel_arguments(on)
        facts = self._boot_checked(booter, wanted, lambda: self._interruption.asked)
        with self._lock:
            for factor in on:
                told = unknown_arguments(facts, kernel_arguments([factor]))
                if told:
                    self._document["ignored"][factor.name] = " ".join(told)

    def _boot_checked(
        self, booter: Booter, wanted: Sequence[str], stop: Callable[[], bool]
    ) -> dict[str, Fact]:
        """Boot with these arguments. The record has what the target may have in the meantime."""
        self._booted(dict.fromkeys([*self._document["booted"], *wanted]))
        booter.boot(wanted, stop)
        _, facts, _ = read_facts(booter.target.environment())
        others = [one for one in kernel_arguments(self._factors) if one not in wanted]
        check_booted(facts, wanted, others)
        self._booted(wanted)
        return facts

    def _run(
        self, target: Target, row: Document, on: Sequence[Factor], watcher: Progress
    ) -> RunOutcome:
        catalogue = self._tried.catalogue
        plan = configured(self._tried.plan, on, catalogue)
        names = " + ".join(factor.name for factor in on) or "present"
        plan = replace(plan, label=f"{self._document['label']}: {names}")
        disturbed = [step.text("disturb") for step in plan.steps]
        hosts = LogHosts(lambda name: self._patient(open_target(name)))
        with contextlib.closing(hosts):
            prepared = paired(plan, target, hosts)
            run = Run(prepared, target, catalogue, hosts, self._store, watcher, Limits())
            run.disturb_words = disturb_words(disturbed, target, allowed=False)
            return run.carry_out(
                self._document["study"],
                row["block"],
                row["number"] + 1,
                len(self.rows),
                self._interruption,
            )

    def _retry(self, row: Document) -> None:
        """Measure a configuration that failed once more, at the end of its block."""
        if not row["again"] and not row.get("retry"):  # older records have no such key
            self._again(row, row["on"])["retry"] = True

    def _again(self, row: Document, on: Sequence[int]) -> Document:
        row["again"] = True
        fresh = _row(len(self.rows), row["phase"], row["block"], on)
        self.rows.append(fresh)
        return fresh

    def _blame(self) -> None:
        """Take out the factors that alone explain failures (``blamed``). Their failed
        configurations are measured again without them.

        Raises TargetError where configurations fail that have nothing in common, or the present one
        and several others in a row, which no factor explains.
        """
        out = {place for place, factor in enumerate(self._factors)
               if factor.name in self._document["dropped"]}  # fmt: skip
        rows = [row for row in self.rows if not out & set(row["on"])]
        failed = [set(row["on"]) for row in rows if row["state"] == "failed"]
        good = [set(row["on"]) for row in rows if row["state"] == "complete"]
        for place in blamed(failed, good):
            out.add(place)
            reason = next(row["reason"] for row in rows if place in row["on"] and
                          row["state"] == "failed")  # fmt: skip
            self._document["dropped"][self._factors[place].name] = reason
            self._observer.message(
                f"every configuration with {self._factors[place].name} failed, so the rest is "
                f"measured without it: {reason}"
            )
        self._without(out)
        if len(failed) >= FAILURES and not good and not set.intersection(*failed):
            row = next(row for row in rows if row["state"] == "failed")
            raise TargetError(
                f"{len(failed)} configurations failed, and none worked: {row['reason']}",
                row["remedy"],
            )
        if len(self._in_a_row) >= FAILURES and any(not row["on"] for row in self._in_a_row):
            row = self._in_a_row[-1]
            raise TargetError(
                f"{len(self._in_a_row)} configurations failed in a row, among them the present "
                f"one: {row['reason']}",
                row["remedy"],
            )

    def _without(self, out: set[int]) -> None:
        """Turn these factors off in what is still to be measured, and add what failed by them."""
        for row in list(self.rows):
            if not out & set(row["on"]):
                continue
            left = [place for place in row["on"] if place not in out]
            if row["state"] == "waiting":
                row.update(on=left, retry=False)
            elif row["state"] == "failed" and not row["again"]:
                self._again(row, left)
