# SPDX-License-Identifier: Apache-2.0
"""A study: a plan carried out on several targets, several times, interleaved."""

from __future__ import annotations

import contextlib
import random
import secrets
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, Final

from rtgauge.catalogue import Catalogue
from rtgauge.engine.environment import check_cpus
from rtgauge.engine.live import LiveStep
from rtgauge.engine.pair import LogHosts, paired
from rtgauge.engine.run import Progress, Run, RunOutcome
from rtgauge.engine.watch import Limits
from rtgauge.errors import TargetError, UsageError
from rtgauge.plan import Plan, check_texts
from rtgauge.signals import caught
from rtgauge.store import Store, new_run_id
from rtgauge.target import Target, open_target
from rtgauge.target.base import Adaptable, Disturbable, Reconnecting, Repeating
from rtgauge.text import plain, plural
from rtgauge.units import parse_cpus

__all__ = ["Interruption", "disturb_words", "execute", "schedule", "settle"]

POLL_S: Final = 0.2
ORDER_SEEDS: Final = 1 << 32


class _Quiet:
    """Shows nothing."""

    def run_started(self, document: Mapping[str, Any], number: int, total: int) -> None: ...
    def step_started(self, live: LiveStep, number: int, total: int) -> None: ...
    def step_went_on(self, live: LiveStep) -> None: ...
    def step_ended(self, live: LiveStep, entry: Mapping[str, Any]) -> None: ...
    def run_ended(self, outcome: RunOutcome) -> None: ...
    def message(self, text: str) -> None: ...
    def of_target(self, name: str) -> Progress:
        return self


class Interruption:
    """Ctrl-C once: end in an orderly way and keep the data. Twice: kill the agent."""

    def __init__(self) -> None:
        self.count = 0

    @property
    def asked(self) -> bool:
        return self.count > 0

    @property
    def urgent(self) -> bool:
        return self.count > 1

    def _signal(self) -> None:
        self.count += 1

    def handling(self) -> contextlib.AbstractContextManager[None]:
        """Catch SIGINT, SIGTERM and SIGHUP (in the main thread only)."""
        return caught((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), self._signal)


def schedule(targets: int, repeat: int, seed: int) -> list[tuple[int, int]]:
    """The runs of a study as (repeat, target), in their order: all targets once in each repeat, in
    a random order. So neither drift nor the effect of a run on the next one favours a target, and
    an exact test of the repeats holds. docs/formats/run-folder.md defines the order of a seed."""
    source = random.Random(seed)
    return [
        (turn, target)
        for turn in range(repeat)
        for _, target in sorted((source.random(), target) for target in range(targets))
    ]


def execute(
    plan: Plan,
    targets: Sequence[Target],
    store: Store,
    progress: Progress | None = None,
    limits: Limits | None = None,
    *,
    allow_disturb: bool = False,
    at_once: int = 1,
    reconnect_s: float | None = None,
) -> list[RunOutcome]:
    """Carry out a plan on each target, ``plan.repeat`` times, interleaved (``schedule``).

    ``at_once``: number of concurrent runs, each on another target. Only for targets that cannot
    disturb each other, such as emulated boards whose time is counted in instructions.
    ``reconnect_s``: seconds for which a lost connection is retried; None: the targets' default.

    Returns the outcome of each run that began, by repeat and then in the order of the targets.
    After an interrupted run no other begins. A target that can no longer be reached, or has lost a
    CPU, fails its run, and the study continues without it. Raises UsageError if the plan does not
    fit a target at the beginning (nothing was started then), or the only one later, TargetError if
    one cannot be reached at the beginning, or the only one later, StoreError if the store cannot be
    written (what came so far is kept).
    """
    watcher = progress or _Quiet()
    check_texts(plan)
    settle(plan, targets)

    def patient(target: Target) -> Target:
        if reconnect_s is not None and isinstance(target, Reconnecting):
            target.reconnect_s = reconnect_s
        return target

    for target in targets:
        patient(target)
    hosts = LogHosts(lambda name: patient(open_target(name)))
    with contextlib.closing(hosts):
        return _execute(
            plan, targets, hosts, store, watcher, limits or Limits(), allow_disturb, at_once
        )


def _execute(
    plan: Plan,
    targets: Sequence[Target],
    hosts: LogHosts,
    store: Store,
    watcher: Progress,
    limits: Limits,
    allow_disturb: bool,
    at_once: int,
) -> list[RunOutcome]:
    plan = replace(plan, targets=tuple(target.name for target in targets))
    prepared = [_prepare(plan, target, hosts) for target in targets]
    for target in targets if len(targets) > 1 else ():
        check_cpus(plan, target)
    disturbs = [step.text("disturb") for step in plan.steps]
    words = {
        target.name: disturb_words(disturbs, target, allowed=allow_disturb) for target in targets
    }
    seed = secrets.randbelow(ORDER_SEEDS) if plan.order_seed is None else plan.order_seed
    turns = schedule(len(prepared), plan.repeat, seed)
    study = plan.study or (new_run_id() if len(turns) > 1 else "")
    interruption = Interruption()
    lost: set[int] = set()  # targets that could not be reached any more
    ended: set[int] = set()  # places in the order

    def carry_out(place: int, watcher: Progress) -> RunOutcome | None:
        repeat, number = turns[place]
        target = targets[number]
        if number in lost:
            return None
        if isinstance(target, Repeating):
            target.begin_repeat(repeat)
        run = Run(*prepared[number], hosts, store, watcher, limits)
        run.disturb_words = words[target.name]
        if len(targets) > 1:
            run.order = {"seed": seed, "place": place % len(targets)}
            run.has_others = True
        outcome = run.carry_out(study, repeat, place + 1, len(turns), interruption)
        ended.add(place)
        if run.lost_target:
            lost.add(number)
            others = (turn[1] for at, turn in enumerate(turns) if at not in ended)
            if any(other not in lost for other in others) and not interruption.asked:
                named = "" if target.name in outcome.reason else f"{target.name}: "
                watcher.message(f"{named}{outcome.reason}. The study continues without this target")
        return outcome

    with _naming(study, store), interruption.handling():
        if min(at_once, len(prepared)) > 1:
            return _at_once(at_once, turns, carry_out, interruption, [
                watcher.of_target(target.name) for target in targets
            ])  # fmt: skip
        outcomes: dict[tuple[int, int], RunOutcome] = {}
        for place, turn in enumerate(turns):
            if (outcome := carry_out(place, watcher)) is not None:
                outcomes[turn] = outcome
            if interruption.asked:
                break
    return [outcomes[turn] for turn in sorted(outcomes)]


@contextlib.contextmanager
def _naming(study: str, store: Store) -> Iterator[None]:
    """Let the error of a target that ends a study name the runs that are kept."""
    try:
        yield
    except (TargetError, UsageError) as error:
        kept = sum(row.study == study for row in store.runs()) if study else 0
        if not kept:
            raise
        raise (TargetError if isinstance(error, TargetError) else UsageError)(
            error.message,
            f"{error.remedy + '. ' if error.remedy else ''}"
            f"{plain(plural(kept, 'run'))} of the study can be reported: "
            f"rtgauge report {study[:18]}",
        ) from error


def _at_once(
    most: int,
    turns: Sequence[tuple[int, int]],
    carry_out: Callable[[int, Progress], RunOutcome | None],
    interruption: Interruption,
    watchers: Sequence[Progress],
) -> list[RunOutcome]:
    """The runs of a study, up to ``most`` at a time, one on each target. The first error is raised
    when the other runs have ended."""
    waiting = list(range(len(turns)))
    running: dict[Future[RunOutcome | None], int] = {}
    outcomes: dict[tuple[int, int], RunOutcome] = {}
    errors: list[BaseException] = []
    with ThreadPoolExecutor(most, "run") as pool:
        while running or waiting:
            stopped = interruption.asked or errors
            for place in () if stopped else list(waiting):
                busy = {turns[other][1] for other in running.values()}
                number = turns[place][1]
                if len(running) < most and number not in busy:
                    waiting.remove(place)
                    running[pool.submit(carry_out, place, watchers[number])] = place
            if not running:
                break
            for done in wait(running, POLL_S, FIRST_COMPLETED).done:
                place = running.pop(done)
                error = done.exception()
                if error is not None:
                    errors.append(error)
                elif (outcome := done.result()) is not None:
                    outcomes[turns[place]] = outcome
    if errors:
        raise errors[0]
    return [outcomes[turn] for turn in sorted(outcomes)]


def settle(plan: Plan, targets: Sequence[Target]) -> None:
    """Let targets that can run in several ways choose by what the plan asks for."""
    named = [
        text for step in plan.steps for text in (step.parameters.get("cpu"), step.text("load-cpu"))
    ]
    highest = max((max(parse_cpus(text) or {0}) for text in named if text), default=0)
    for target in targets:
        if isinstance(target, Adaptable):
            others = [one for one in targets if isinstance(one, Adaptable) and one is not target]
            target.settle(highest, [one.name for one in others])


def disturb_words(disturbs: Sequence[str], target: Target, *, allowed: bool) -> list[str]:
    """The arguments of the agent for disturbed steps: where the module is, or that the user agrees.

    Raises UsageError where a target must not be disturbed.
    """
    if not any(disturbs):
        return []
    if isinstance(target, Disturbable):
        return ["--disturb-module", target.disturb_module]
    if not allowed:
        raise UsageError(
            f"target '{target.name}' is not a board of the lab, so it is not disturbed "
            "without your consent",
            "measure in the lab (--target lab:x86_64-rt), or consent with --allow-disturb",
        )
    return ["--allow-disturb"]


def _prepare(plan: Plan, target: Target, hosts: LogHosts) -> tuple[Plan, Target, Catalogue]:
    """The plan for a target with the steps of log hosts, the target, and its catalogue. Raises
    UsageError if the plan does not fit."""
    catalogue = Catalogue.from_json(target.describe())
    for step in plan.steps:
        entry = catalogue.measurement(step.measurement)
        for name, value in step.parameters.items():
            entry.normalise(name, value)
        catalogue.normalise_load(step.load)
    return paired(plan, target, hosts), target, catalogue
