# SPDX-License-Identifier: Apache-2.0
"""Carries out a plan on targets: one agent for each step, its stream made durable as it comes.

Steps 6 to 8 of the path of a sample: the bytes that ``RunningAgent.read`` hands out go into the
run's folder as they are (``StreamFile.write``, synced at most a second later), and through
``StreamReader`` into the live view. When the step has ended, the folder seals them into Parquet.

Whatever happens, the samples that came are kept and the run says how it ended: complete,
interrupted (from outside), failed, or skipped (cannot run here).
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from types import FrameType
from typing import IO, Any, Final, Protocol

from rtgauge.audit import DEFAULT_PRIORITY, Finding, audit, environment_document
from rtgauge.catalogue import Catalogue
from rtgauge.engine.link import MARGIN, bandwidth_text, needed_bytes_per_s
from rtgauge.engine.live import LiveStep
from rtgauge.engine.pair import LogHosts, PairView, follow, paired, with_line
from rtgauge.errors import (
    ExitCode,
    RtgaugeError,
    StoreError,
    StreamError,
    TargetError,
    UsageError,
)
from rtgauge.facts import Facts
from rtgauge.facts.interpret import online_cpus
from rtgauge.plan import (
    LOG_HOST,
    Plan,
    PlannedStep,
    calibration_steps,
    check_texts,
    ends_ns,
    expected_ns,
)
from rtgauge.plan.disturb import disturb_words
from rtgauge.store import RunFolder, Store, load_failure, new_run_id
from rtgauge.stream import Environment, Header, Setting, StreamReader, Trailer
from rtgauge.target import (
    RunningAgent,
    Target,
    away_of,
    connection_of,
    facts_of,
    lost_of,
    open_target,
    pace_of,
    restore,
    taken_s,
)
from rtgauge.units import format_cpus, parse_cpus

__all__ = [
    "Limits",
    "Progress",
    "RunOutcome",
    "check_cpus",
    "execute",
    "read_facts",
    "schedule",
]

POLL_S: Final = 0.2
FEED_BYTES: Final = 1 << 16
MUCH_BYTES: Final = 1 << 23
# What follows the damage in a stream is kept for whoever wants to know what it was; not for ever.
DAMAGED_BYTES: Final = 1 << 26
STATES: Final = ("complete", "interrupted", "failed", "skipped")
# Signals by which someone ends an agent; others mean that it broke.
FROM_OUTSIDE: Final = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True)
class Limits:
    """How patient the host is, in seconds.

    A stream says something at least every 10 s (its clock records); before its first record the
    loads have to come up. ``overtime_s`` is what a step may take beyond a tenth over its time;
    ``calibration_s`` is the time of a calibration whose options do not say how long it takes,
    ``unknown_s`` that of any such step on a target that says nothing before the step's end.
    """

    first_s: float = 45.0
    silence_s: float = 20.0
    overtime_s: float = 60.0
    calibration_s: float = 300.0
    unknown_s: float = 30.0
    stop_s: float = 10.0
    kill_s: float = 10.0


@dataclass(frozen=True)
class RunOutcome:
    """How one run ended. ``exit_code`` knows nothing of budgets and verdicts yet."""

    id: str
    target: str
    state: str
    reason: str
    remedy: str
    exit_code: ExitCode


class Progress(Protocol):
    """Whoever watches a run."""

    def run_started(self, document: Mapping[str, Any], number: int, total: int) -> None:
        """A run begins, the ``number``-th of ``total``."""
        ...

    def step_started(self, live: LiveStep, number: int, total: int) -> None:
        """A step begins, the ``number``-th of the plan; 0 for a calibration added to it."""
        ...

    def step_went_on(self, live: LiveStep) -> None:
        """Called a few times a second while a step is measured."""
        ...

    def step_ended(self, live: LiveStep, entry: Mapping[str, Any]) -> None:
        """A step has ended; ``entry`` is what run.json says of it."""
        ...

    def run_ended(self, outcome: RunOutcome) -> None:
        """A run has ended."""
        ...

    def message(self, text: str) -> None:
        """Something to be said."""
        ...

    def beside(self, name: str) -> Progress:
        """Who watches one of several runs that are carried out at once; ``name``: its target. It
        is called from the thread of that run."""
        ...


class _Quiet:
    """Watches nothing."""

    def run_started(self, document: Mapping[str, Any], number: int, total: int) -> None: ...
    def step_started(self, live: LiveStep, number: int, total: int) -> None: ...
    def step_went_on(self, live: LiveStep) -> None: ...
    def step_ended(self, live: LiveStep, entry: Mapping[str, Any]) -> None: ...
    def run_ended(self, outcome: RunOutcome) -> None: ...
    def message(self, text: str) -> None: ...
    def beside(self, name: str) -> Progress:
        return self


class _Interruption:
    """Ctrl-C once: end in order and keep what there is. Twice: kill the agent."""

    def __init__(self) -> None:
        self.count = 0

    @property
    def asked(self) -> bool:
        return self.count > 0

    @property
    def urgent(self) -> bool:
        return self.count > 1

    def _signal(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1

    @contextlib.contextmanager
    def handling(self) -> Iterator[None]:
        """Catch SIGINT, SIGTERM and SIGHUP meanwhile (in the main thread only)."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self._signal)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def schedule(targets: int, repeat: int) -> list[tuple[int, int]]:
    """The runs of a study as (repeat, target), in their order: A B, B A, A B, … so that what
    drifts, and what a run leaves to the next, falls on all targets alike."""
    return [
        (turn, target)
        for turn in range(repeat)
        for target in (range(targets) if turn % 2 == 0 else reversed(range(targets)))
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

    ``at_once``: so many runs at a time, each on another target; only for targets that cannot
    disturb each other, as the emulated boards whose time is counted in instructions.
    ``reconnect_s``: for so long a connection that is lost is tried to be made again; None: as the
    targets have it.

    Gives the outcome of each run begun, in the order of the schedule; after one that was
    interrupted none is begun. Raises UsageError if the plan does not fit a target (nothing was
    started then), TargetError if one cannot be reached, StoreError if the store cannot be written
    (what came so far is kept).
    """
    watcher = progress or _Quiet()
    check_texts(plan)
    _settle(plan, targets)

    def patient(target: Target) -> Target:
        if reconnect_s is not None and hasattr(target, "reconnect_s"):
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
    prepared = [_prepare(plan, target, hosts) for target in targets]
    disturbs = [step.disturb for step in plan.steps]
    words = {
        target.name: disturb_words(disturbs, target, allowed=allow_disturb) for target in targets
    }
    turns = schedule(len(prepared), plan.repeat)
    study = new_run_id() if len(turns) > 1 else ""
    interruption = _Interruption()
    begun = [threading.Event() for _ in turns]

    @contextlib.contextmanager
    def in_turn(place: int) -> Iterator[None]:
        # Of runs at once the first target's is dated first: it is the one that others are
        # compared with.
        while place and turns[place][0] == 0 and not begun[place - 1].wait(POLL_S):
            pass
        yield
        begun[place].set()

    def carry_out(place: int, watcher: Progress) -> RunOutcome:
        repeat, number = turns[place]
        run = _Run(*prepared[number], hosts, store, watcher, limits)
        run.disturb_words = words[targets[number].name]
        try:
            return run.carry_out(study, repeat, place + 1, len(turns), interruption, in_turn(place))
        finally:
            begun[place].set()

    with interruption.handling():
        if min(at_once, len(prepared)) > 1:
            return _at_once(at_once, turns, carry_out, interruption, [
                watcher.beside(target.name) for target in targets
            ])  # fmt: skip
        outcomes: list[RunOutcome] = []
        for place in range(len(turns)):
            outcomes.append(carry_out(place, watcher))
            if interruption.asked:
                break
    return outcomes


def _at_once(
    most: int,
    turns: Sequence[tuple[int, int]],
    carry_out: Callable[[int, Progress], RunOutcome],
    interruption: _Interruption,
    watchers: Sequence[Progress],
) -> list[RunOutcome]:
    """The runs of a study, up to ``most`` at a time, one on each target. The first error is raised
    when the runs beside it have ended."""
    waiting = list(range(len(turns)))
    running: dict[Future[RunOutcome], int] = {}
    outcomes: dict[int, RunOutcome] = {}
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
                if error is None:
                    outcomes[place] = done.result()
                else:
                    errors.append(error)
    if errors:
        raise errors[0]
    return [outcomes[place] for place in sorted(outcomes)]


def _settle(plan: Plan, targets: Sequence[Target]) -> None:
    """Let targets that can be run in several ways choose theirs by what the plan asks for."""
    choosers = [target for target in targets if hasattr(target, "settle")]
    for target in choosers:
        target.settle(plan, [other.name for other in choosers if other is not target])


def read_facts(data: bytes) -> tuple[Header, dict[str, Any], list[Setting]]:
    """Header, facts and settings of the stream that an agent's ``environment`` wrote.

    Raises TargetError if it is none.
    """
    try:
        records = StreamReader().feed(data)
    except StreamError as error:
        raise TargetError(f"the agent's 'environment' is wrong: {error}", error.remedy) from None
    header = next((record for record in records if isinstance(record, Header)), None)
    if header is None:
        raise TargetError(
            "the agent's 'environment' wrote no stream", "check that it is an rtgauge-agent"
        )
    facts: dict[str, Any] = {}
    for record in records:
        if isinstance(record, Environment):
            facts.update(record.facts)
    return header, facts, [record for record in records if isinstance(record, Setting)]


def _prepare(plan: Plan, target: Target, hosts: LogHosts) -> tuple[Plan, Target, Catalogue]:
    """What is to be done on a target, with the log hosts' steps, and the target's catalogue, once
    the plan is known to fit it."""
    catalogue = Catalogue.from_json(target.describe())
    for step in plan.steps:
        entry = catalogue.measurement(step.measurement)
        for name, value in step.parameters.items():
            entry.normalise(name, value)
        catalogue.normalise_load(step.load)
    return paired(plan, target, hosts), target, catalogue


def _of_the_lab(finding: Finding, made: Mapping[str, str]) -> Finding:
    """On an emulated board that it is none of silicon is meant, and said where figures are."""
    if finding.check != "virtualisation":
        return finding
    what = f"emulated board of the lab, {made.get('mode')} mode"
    return replace(finding, found=what, level="note", why=made.get("meaning", ""), remedy="")


def _check_cpus(steps: Sequence[PlannedStep], facts: Mapping[str, Any], target: str) -> None:
    """UsageError if a step asks for a CPU that is not online there."""
    present = online_cpus(Facts(facts))
    if present is None:
        return
    for step in steps:
        for name, text in (("cpu", step.parameters.get("cpu")), ("load-cpu", step.load_cpu)):
            wanted = parse_cpus(text) if text else None
            missing = sorted((wanted or frozenset()) - present)
            if missing:
                raise UsageError(
                    f"measurement '{step.measurement}', option '{name}': "
                    f"target '{target}' has no CPU {missing[0]}",
                    f"the CPUs online there are {format_cpus(present)}",
                )


def check_cpus(plan: Plan, target: Target) -> None:
    """UsageError if the plan asks for a CPU that is not online on the target, before anything is
    done there."""
    if any(step.parameters.get("cpu") or step.load_cpu for step in plan.steps):
        _, facts, _ = read_facts(target.environment())
        _check_cpus(plan.steps, facts, target.name)


def _is_log_host(step: PlannedStep) -> bool:
    return step.measurement == LOG_HOST and bool(step.log_host)


def _own(steps: Sequence[PlannedStep]) -> list[PlannedStep]:
    """The steps without those that are carried out on a log host."""
    return [step for step in steps if not _is_log_host(step)]


def _log_host_document(target: Target) -> dict[str, Any]:
    """What a run records of a log host."""
    header, facts, settings = read_facts(target.environment())
    return {
        "target": target.name,
        "boot_id": header.boot_id,
        "environment": environment_document(facts, settings),
    }


def _has_log_host(step: PlannedStep) -> bool:
    return step.measurement != LOG_HOST and bool(step.log_host)


class _Held:
    """An interruption that is not to be seen yet: a board answers until its log host has ended."""

    def __init__(self, interruption: _Interruption) -> None:
        self._interruption = interruption
        self.held = False

    @property
    def asked(self) -> bool:
        return self._interruption.asked and (not self.held or self.urgent)

    @property
    def urgent(self) -> bool:
        return self._interruption.urgent

    def release(self) -> None:
        self.held = False


class _Together:
    """Watches a pair: whichever of the two goes on, both are shown."""

    def __init__(self, progress: Progress, view: PairView) -> None:
        self._progress, self._view = progress, view

    def step_went_on(self, _live: LiveStep) -> None:
        self._progress.step_went_on(self._view.renew())

    def message(self, text: str) -> None:
        self._progress.message(text)


def _cpus_measured(steps: Sequence[PlannedStep]) -> list[int] | None:
    """The CPUs that the steps name; None if one of them takes all."""
    union: set[int] = set()
    for step in steps:
        cpus = parse_cpus(step.parameters.get("cpu", "all"))
        if cpus is None:
            return None
        union |= cpus
    return sorted(union)


def _lowest_priority(steps: Sequence[PlannedStep]) -> int:
    """The lowest real-time priority at which a step measures."""
    texts = [step.parameters.get("priority", "") for step in steps]
    priorities = [int(text) for text in texts if re.fullmatch(r"[1-9][0-9]?", text)]
    return min(priorities, default=DEFAULT_PRIORITY)


@dataclass
class _Ended:
    """How a step ended."""

    state: str
    reason: str = ""
    remedy: str = ""
    wrong_usage: bool = False


class _Run:
    """One run: one plan on one target."""

    def __init__(
        self,
        plan: Plan,
        target: Target,
        catalogue: Catalogue,
        hosts: LogHosts,
        store: Store,
        progress: Progress,
        limits: Limits,
    ) -> None:
        self._plan = plan
        self._target = target
        self._catalogue = catalogue
        self._hosts = hosts
        self._store = store
        self._progress = progress
        self._limits = limits
        self._clock = target.clock
        self._wrong_usage = False
        self.disturb_words: Sequence[str] = ()
        self._settings: list[Setting] = []
        self._in_pairs: set[int] = set()  # log hosts' steps: carried out with the one before

    def carry_out(
        self,
        study: str,
        repeat: int,
        number: int,
        total: int,
        interruption: _Interruption,
        in_turn: contextlib.AbstractContextManager[None],
    ) -> RunOutcome:
        """The whole run, from the environment to the sealed samples. It is dated ``in_turn``."""
        environment = self._target.environment()
        header, self._facts, self._settings = read_facts(environment)
        measured = replace(self._plan, steps=tuple(_own(self._plan.steps)))
        calibrations = calibration_steps(measured, self._catalogue)
        steps = [*self._plan.steps, *calibrations]
        _check_cpus(_own(steps), self._facts, self._target.name)
        with in_turn:
            self._document = self._first_document(study, repeat, header, steps)
        began = self._clock.monotonic()
        with self._store.create(self._document) as self._folder:
            self._progress.run_started(self._document, number, total)
            return self._in_folder(environment, steps, began, interruption)

    def _in_folder(
        self,
        environment: bytes,
        steps: Sequence[PlannedStep],
        began: float,
        interruption: _Interruption,
    ) -> RunOutcome:
        # Calibrations come first in time and last in the list.
        order = [*range(len(self._plan.steps), len(steps)), *range(len(self._plan.steps))]
        try:
            self._folder.save_environment(environment)
            for index in order:
                if index in self._in_pairs:
                    continue
                if interruption.asked:
                    self._note(index, _Ended("skipped", "the run was stopped before this step"))
                    continue
                if lost_of(self._target) and not self._regained(interruption):
                    self._note(index, _Ended("skipped", "the connection was lost before this step"))
                    continue
                if _has_log_host(steps[index]):
                    self._in_pairs.add(index + 1)
                    both: tuple[_Ended, ...] = self._pair(
                        index, steps[index], steps[index + 1], interruption
                    )
                else:
                    both = (self._step(index, steps[index], interruption),)
                self._wrong_usage = self._wrong_usage or any(one.wrong_usage for one in both)
            self._finish(began, *self._state(interruption))
        except OSError as error:
            raise self._broken_store(began, StoreError(
                f"the store cannot be written: {error.strerror or error}",
                "free some space, then see what was kept with 'rtgauge runs'",
            )) from error  # fmt: skip
        except RtgaugeError as error:
            raise self._broken_store(began, error) from error
        outcome = RunOutcome(
            self._document["id"],
            self._target.name,
            self._document["state"],
            self._document["reason"],
            self._document["remedy"],
            self._exit_code(),
        )
        self._progress.run_ended(outcome)
        return outcome

    def _regained(self, interruption: _Interruption) -> bool:
        """Whether a target that was lost between two steps is there again."""
        patience_s = float(getattr(self._target, "reconnect_s", 0.0))
        if not patience_s:
            return False
        self._progress.message(
            f"{self._target.name}: {lost_of(self._target)}; "
            f"trying to connect again for {patience_s:.0f} s …"
        )
        why = self._target.regain(lambda: interruption.asked)  # type: ignore[attr-defined]
        if why:
            self._progress.message(f"{self._target.name}: {why}")
        return not why

    def _first_document(
        self, study: str, repeat: int, header: Header, steps: Sequence[PlannedStep]
    ) -> dict[str, Any]:
        self._cpus = _cpus_measured(_own(steps))
        return {
            "format": "rtgauge-run",
            "version": 1,
            "id": new_run_id(),
            "study": study,
            "label": self._plan.label,
            "repeat": repeat,
            "target": self._target.name,
            "boot_id": header.boot_id,
            "started": self._clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "duration_s": 0.0,
            "state": "running",
            "reason": "",
            "remedy": "",
            "plan": self._plan.document(),
            "environment": self._environment(),
            "findings": self._findings(None),
            "catalogue": json.loads(json.dumps(dict(self._catalogue.document))),
            "steps": [
                {
                    "step": index,
                    "measurement": step.measurement,
                    "parameters": dict(step.parameters),
                    # of a log host's step that of the board, which is what was measured
                    "load": loaded.load,
                    "load_command": loaded.load_command,
                    "disturb": step.disturb,
                    "budget_ns": step.budget_ns,
                    "rate_per_hour": step.rate_per_hour,
                    "role": step.role,
                    # What stands here if the host is killed before it comes to this step.
                    "state": "skipped",
                    "reason": "the run ended before this step",
                    "remedy": "",
                    "folder": f"steps/{index:03d}",
                    "duration_s": 0.0,
                }
                for index, step in enumerate(steps)
                for loaded in [steps[index - 1] if _is_log_host(step) else step]
            ],
        }

    def _environment(self) -> dict[str, Any]:
        """What was found there; of a board of the lab, what it was made of too, and of one that is
        elsewhere, how it is reached."""
        made, connection = facts_of(self._target), connection_of(self._target)
        return {
            **environment_document(self._facts, self._settings),
            **({"lab": made} if made else {}),
            **({"connection": connection} if connection else {}),
        }

    def _findings(self, settings: Sequence[Setting] | None) -> list[dict[str, Any]]:
        """The audit's findings for what is measured here, and with what the run itself set."""
        loaded = any(step.loads != "idle" for step in self._plan.steps)
        found = audit(
            self._facts,
            cpus=self._cpus,
            load_running=loaded,
            settings=settings,
            priority=_lowest_priority(_own(self._plan.steps)),
        )
        made = facts_of(self._target)
        return [asdict(_of_the_lab(one, made) if made else one) for one in found]

    def _note(self, index: int, ended: _Ended, duration_s: float = 0.0) -> dict[str, Any]:
        entry: dict[str, Any] = self._document["steps"][index]
        entry.update(
            state=ended.state,
            reason=ended.reason,
            remedy=ended.remedy,
            duration_s=round(duration_s, 3),
        )
        self._folder.write_document(self._document)
        return entry

    def _thin(self, step: PlannedStep) -> str:
        """Why the link to the target cannot carry this step's samples; empty if it can."""
        carries = float(getattr(self._target, "bandwidth", 0.0))
        if step.histogram_only or not carries:
            return ""
        online = online_cpus(Facts(self._facts)) or frozenset({0})
        needed = needed_bytes_per_s(step, self._catalogue, online)
        if carries >= needed * MARGIN:
            return ""
        return (
            f"histograms only: the samples need {bandwidth_text(needed)}, "
            f"the link carries {bandwidth_text(carries)}"
        )

    def _step(self, index: int, step: PlannedStep, interruption: _Interruption) -> _Ended:
        thin = self._thin(step)
        if thin:
            step = replace(step, histogram_only=True)
            self._progress.message(f"step {index + 1} ({step.measurement}): {thin}")
        time_s, samples_s = (
            None if end is None else end / 1e9 for end in ends_ns(step, self._catalogue)
        )
        live = LiveStep(step, time_s, samples_s)
        self._document["steps"][index].update(state="running", reason="")
        self._folder.write_document(self._document)
        total = len(self._plan.steps)
        self._progress.step_started(live, index + 1 if index < total else 0, total)
        began = self._clock.monotonic()
        words = [*step.arguments(), "--run", self._document["id"], "--step", str(index)]
        if step.disturb:
            words += self.disturb_words
        try:
            agent = self._target.start(words)
        except TargetError as error:
            ended = _Ended("failed", error.message, error.remedy)
        else:
            watch = _Watch(agent, live, self._target, self._limits, interruption, self._progress)
            with contextlib.closing(watch):
                ended = watch.run(self._folder, index)
            ended = self._sealed(index, ended)
        if thin and ended.state == "complete":
            ended.reason = "; ".join(part for part in (thin, ended.reason) if part)
        self._settings += live.settings
        self._document["environment"] = self._environment()
        entry = self._note(index, ended, self._clock.monotonic() - began)
        self._progress.step_ended(live, entry)
        return ended

    def _pair(
        self, index: int, board: PlannedStep, timing: PlannedStep, interruption: _Interruption
    ) -> tuple[_Ended, _Ended]:
        """A board's step and its log host's, at once; the log host's follows in the list."""
        total = len(self._plan.steps)
        host = self._hosts[timing.log_host]
        # a missed event is one of those asked for: the time they take is known beforehand
        expected = expected_ns(timing, host.catalogue)
        lives = (
            LiveStep(board, None),
            LiveStep(timing, None if expected is None else expected / 1e9),
        )
        view = PairView(*lives)
        held = _Held(interruption)
        together = _Together(self._progress, view)
        self._document["steps"][index].update(state="running", reason="")
        self._folder.write_document(self._document)
        self._progress.step_started(view, index + 1, total)
        began = self._clock.monotonic()
        watches: list[_Watch | None] = [None, None]
        failures: list[_Ended | None] = [None, None]

        def start(place: int, target: Target, step: PlannedStep) -> _Watch | None:
            number = index + place
            words = [*step.arguments(), "--run", self._document["id"], "--step", str(number)]
            if step.disturb:
                words += self.disturb_words
            try:
                agent = target.start(words)
            except TargetError as error:
                failures[place] = _Ended("failed", error.message, error.remedy)
                return None
            seen = held if place == 0 else interruption
            watch = _Watch(agent, lives[place], target, self._limits, seen, together)
            watches[place] = watch
            watch.begin(self._folder, number)
            return watch

        def start_timing() -> _Watch | None:
            entry = self._document["steps"][index + 1]
            try:
                step = with_line(timing, board, self._target)
                entry.update(
                    parameters=dict(step.parameters),
                    log_host=_log_host_document(host.target),
                    state="running",
                )
            except RtgaugeError as error:
                failures[1] = _Ended("failed", error.message, error.remedy)
                return None
            self._folder.write_document(self._document)
            held.held = True
            return start(1, host.target, step)

        there = False
        try:
            answering = start(0, self._target, board)
            if answering is not None:
                there = follow(answering, start_timing, held.release)
            ended = [
                failure or (watch.end() if watch is not None else None)
                for failure, watch in zip(failures, watches, strict=True)
            ]
        finally:
            for watch in watches:
                if watch is not None:
                    watch.close()
        both = list(_together(ended[0] or _Ended("skipped"), ended[1], there))
        took = self._clock.monotonic() - began
        self._settings += lives[0].settings
        self._document["environment"] = self._environment()
        for place, live in enumerate(lives):
            if watches[place] is not None:
                both[place] = self._sealed(index + place, both[place])
            entry = self._note(index + place, both[place], took)
            if place:
                self._progress.step_started(live, index + 2, total)
            self._progress.step_ended(live, entry)
        return both[0], both[1]

    def _sealed(self, index: int, ended: _Ended) -> _Ended:
        """How a step ended, once its samples are sealed."""
        try:
            self._folder.seal(index)
        except StreamError as error:  # of a newer version, say: it stays as it came
            return _Ended("failed", error.message, error.remedy)
        return ended

    def _state(self, interruption: _Interruption) -> tuple[str, str, str]:
        """State, reason and remedy of the run: the worst of its steps."""
        steps = self._document["steps"]
        for state in ("failed", "interrupted"):
            for step in steps:
                if step["state"] == state:
                    where = f"step {step['step'] + 1} ({step['measurement']}): "
                    return state, where + step["reason"], step["remedy"]
        if interruption.asked:
            return "interrupted", "stopped from outside", ""
        asked = steps[: len(self._plan.steps)]
        if all(step["state"] == "skipped" for step in asked):
            return "skipped", asked[0]["reason"], asked[0]["remedy"]
        return "complete", "", ""

    def _finish(self, began: float, state: str, reason: str, remedy: str) -> None:
        self._document["findings"] = self._findings(self._settings)
        self._document.update(
            state=state,
            reason=reason,
            remedy=remedy,
            duration_s=round(self._clock.monotonic() - began, 3),
        )
        self._folder.write_document(self._document)
        self._store.update(self._folder)

    def _broken_store(self, began: float, error: RtgaugeError) -> RtgaugeError:
        """Write down, as far as that is possible yet, that the run failed."""
        for step in self._document["steps"]:
            if step["state"] == "running":
                step.update(state="failed", reason=error.message, remedy=error.remedy)
        with contextlib.suppress(OSError, RtgaugeError):
            self._finish(began, "failed", error.message, error.remedy)
        return error

    def _exit_code(self) -> ExitCode:
        if self._wrong_usage:
            return ExitCode.USAGE
        return {
            "failed": ExitCode.FAILED,
            "interrupted": ExitCode.INTERRUPTED,
            "skipped": ExitCode.SKIPPED,
        }.get(self._document["state"], ExitCode.DONE)


class _Watch:
    """Follows one agent from its start to its end, whatever it does."""

    def __init__(
        self,
        agent: RunningAgent,
        live: LiveStep,
        target: Target,
        limits: Limits,
        interruption: _Interruption | _Held,
        progress: Progress | _Together,
    ) -> None:
        self._agent = agent
        self._live = live
        self._target = target
        self._clock = target.clock
        self._pace = pace_of(target)
        self._limits = limits
        self._interruption = interruption
        self._progress = progress
        self._reader = StreamReader()
        self._cleaner = contextlib.ExitStack()
        self._began = self._heard = self._looked = 0.0
        self._away_since: float | None = None
        self._away_s = 0.0
        self._absences = 0
        self._ended = False
        self._stopped_at: float | None = None
        self._killed = False
        self._write: Callable[[bytes], object]
        self._stored: IO[bytes]
        self._written = self._fed = 0
        self._end_at: int | None = None  # what was known to be written when the stream ended
        self._damaged = False
        self._refused = False
        self._blame = _Ended("complete")  # why the host itself ended the agent

    def run(self, folder: RunFolder, index: int) -> _Ended:
        """Read until the agent is gone; gives how the step ended."""
        self.begin(folder, index)
        while self.turn(POLL_S):
            pass
        return self.end()

    def begin(self, folder: RunFolder, index: int) -> None:
        """Before the first turn."""
        self._run_id = folder.id
        stream = folder.append_stream(index)
        self._cleaner.callback(stream.close)
        self._write = stream.write
        self._stored = self._cleaner.enter_context(stream.path.open("rb", buffering=0))
        self._cleaner.push(self._leave)
        self._began = self._heard = self._looked = self._clock.monotonic()

    def _leave(self, kind: object, _error: object, _trace: object) -> None:
        """The agent ends before its stream is closed, whatever happened."""
        if not self._ended:
            self._end_agent()

    def close(self) -> None:
        """Give back what is held; an agent that was not followed to its end is ended."""
        try:
            self._cleaner.__exit__(None, None, None)
        finally:
            self._agent.close()

    def end(self) -> _Ended:
        """How the step ended, once no turn is left."""
        code = self._end_agent()
        self._ended = True
        self._catch_up()
        self._cleaner.close()
        end = self._reader.finish()
        ended = self._judge(code, end.reason if end.dropped_bytes else "")
        failure = load_failure([self._live.died] if self._live.died else [])
        if failure is not None and ended.state in ("complete", "interrupted"):
            ended = _Ended("failed", *failure)
        if ended.state == "complete" and end.lost_records:
            ended.reason = f"{end.lost_records} records of the stream were lost on the way"
        elif ended.state == "complete" and self._absences and not ended.reason:
            times = "once" if self._absences == 1 else f"{self._absences} times"
            ended.reason = (
                f"the connection was lost {times}, for {self._away_s:.1f} s in all; "
                "the agent went on meanwhile"
            )
        return ended

    @property
    def ready(self) -> bool:
        """Whether the measurement has begun, as far as the stream was looked at."""
        return bool(self._live.series) and self._live.trailer is None

    def turn(self, timeout: float) -> bool:
        """Take in what comes in that time; whether the agent goes on.

        Bytes into the folder first: an agent that has to wait loses samples. The live view has its
        records from there, as fast as there is time for that.
        """
        self._interrupt()
        behind = self._fed < self._written
        data = self._agent.read(0.0 if behind else timeout)
        now = self._clock.monotonic()
        self._live.elapsed_s = now - self._began
        if data == b"":
            return False
        if data:
            self._heard = now
            self._write(data)
            self._written += len(data)
        if not data or now - self._looked >= POLL_S:
            self._looked = now
            self._feed()
            self._look_at_the_end()
        self._progress.step_went_on(self._live)
        self._look_for_the_connection(now)
        limit = self._limits.silence_s if self._written else self._limits.first_s
        limit *= max(self._pace.scale, 1.0)
        if self._pace.speaks and now - self._heard > limit:
            self._host_stops(f"the agent said nothing for {limit:.0f} s")
        if self._overtime(taken_s(self._agent, now - self._began) - self._away_s):
            self._host_stops("the agent did not end in its time")
        if self._stopped_at is not None and now - self._stopped_at > self._limits.stop_s:
            self._kill()
            return now - self._stopped_at <= self._limits.stop_s + self._limits.kill_s
        return True

    def _look_for_the_connection(self, now: float) -> None:
        """An agent that cannot be reached goes on: neither its silence nor its time counts."""
        away = away_of(self._agent)
        name = self._target.name
        if away and self._away_since is None:
            self._away_since = self._heard = now
            self._progress.message(f"{name}: {away}; the agent there goes on, connecting again …")
        elif away:
            self._away_s += now - self._heard
            self._heard = now
        elif self._away_since is not None:
            self._away_s += now - self._heard
            self._heard = now
            self._progress.message(
                f"{name}: connected again after {now - self._away_since:.0f} s; "
                "what was measured meanwhile comes now"
            )
            self._away_since = None
            self._absences += 1

    def _feed(self) -> bool:
        """Take in some of what was written and not looked at yet; whether there was any."""
        if self._fed >= self._written:
            return False
        data = self._stored.read(FEED_BYTES)
        self._fed = self._fed + len(data) if data else self._written
        if self._refused:
            return True
        try:
            for record in self._reader.feed(data):
                self._live.take(record)
        except StreamError as error:
            self._refused = True
            self._blame = _Ended("failed", error.message, error.remedy)
            self.stop()
        return True

    def _catch_up(self) -> None:
        """Take in all that came too fast to be looked at meanwhile."""
        if self._written - self._fed > MUCH_BYTES:
            self._progress.message("looking through what came faster than it could be shown …")
        while self._feed():
            pass

    def _look_at_the_end(self) -> None:
        """Stop an agent whose stream is damaged: nothing that it still says can be used."""
        if not self._reader.ended:
            return
        if self._end_at is None:
            self._end_at = self._fed
            if self._live.trailer is None:
                self._damaged = not self._refused
                self.stop()
        if self._written - self._end_at > DAMAGED_BYTES:
            self._kill()

    def _overtime(self, elapsed: float) -> bool:
        expected = self._live.expected_s
        if expected is None and not self._pace.speaks:
            expected = self._limits.unknown_s
        elif expected is None and self._live.step.role == "calibration":
            expected = self._limits.calibration_s
        if expected is None:
            return False
        return elapsed > expected * 1.1 * self._pace.scale + self._limits.overtime_s

    def _interrupt(self) -> None:
        if self._interruption.urgent:
            self._kill()
        if self._interruption.asked and self._stopped_at is None:
            self._progress.message(
                "stopping in order; what was measured is kept (Ctrl-C again kills the agent)"
                if self._pace.speaks
                else "stopping; the steps that have ended are kept, this one is lost"
            )
            self.stop()

    def _host_stops(self, reason: str) -> None:
        if self._stopped_at is None:
            self.stop()
            hint = getattr(self._target, "hint", "")
            self._blame = _Ended(
                "failed",
                reason,
                hint or "look at the target: is it overloaded, or did the agent break?",
            )

    def stop(self) -> None:
        """Ask for an end in order."""
        if self._stopped_at is None:
            self._stopped_at = self._clock.monotonic()
            self._agent.stop()

    def _kill(self) -> None:
        if not self._killed:
            self._killed = True
            if self._stopped_at is None:
                self._stopped_at = self._clock.monotonic()
            self._agent.kill()

    def _end_agent(self) -> int | None:
        """Wait for the agent's end; stop it, then kill it, if it takes too long."""
        code = self._agent.wait(self._limits.stop_s if not self._killed else self._limits.kill_s)
        if code is None and not self._killed:
            self._kill()
            code = self._agent.wait(self._limits.kill_s)
        unfinished = code == ExitCode.INTERRUPTED and self._live.trailer is None
        if code is not None and (code < 0 or unfinished):
            self._restore()
        return code

    def _restore(self) -> None:
        """Put settings back after a signal ended the agent, perhaps with its guardian."""
        try:
            number, processes = restore(self._target, self._run_id)
        except TargetError as error:
            self._progress.message(
                f"{self._target.name}: cannot tell whether the killed agent left settings "
                f"changed ({error.message}). Run 'rtgauge-agent restore' there"
            )
            return
        if number:
            self._progress.message(
                f"{self._target.name}: the agent and its guardian were killed. "
                f"rtgauge put back {number} settings that they had changed"
            )
        if processes:
            self._progress.message(
                f"{self._target.name}: killed {processes} processes that its loads had left running"
            )

    def _said(self) -> tuple[str, str]:
        """The agent's last words on stderr: what went wrong, and the remedy below it."""
        lines = [line.strip() for line in self._agent.messages().splitlines() if line.strip()]
        if not lines:
            return "", ""
        message = lines[0].removeprefix("rtgauge-agent: ")
        remedy = lines[1] if len(lines) > 1 else ""
        return message[:400], remedy.removeprefix("remedy: ")[:400]

    def _judge(self, code: int | None, broken: str) -> _Ended:  # noqa: PLR0911
        if code is None:
            return _Ended(
                "failed",
                "the agent cannot be ended",
                "end it on the target: kill -KILL its process",
            )
        trailer = self._live.trailer
        message, remedy = self._said()
        if self._blame.state != "complete":
            return self._blame
        if broken and self._damaged:
            return _damaged(broken)
        if trailer is not None:
            if trailer.state == "complete" and code not in (0, ExitCode.OVER_BUDGET):
                return _Ended("failed", message or f"the agent ended with code {code}", remedy)
            if trailer.state == "complete" and self._nothing_came(trailer):
                return _Ended(
                    "failed",
                    "not one sample came in the time there was",
                    "measure longer (--for), or find out why the target had nothing to measure",
                )
            state = trailer.state if trailer.state in STATES else "failed"
            usage = code == ExitCode.USAGE
            return _Ended(state, trailer.reason, trailer.remedy, usage)
        if self._interruption.urgent:
            return _Ended("interrupted", "the agent was killed; what it had sent is kept")
        if code == ExitCode.USAGE:
            return _Ended("failed", message or "the agent refused its arguments", remedy, True)
        if code == ExitCode.SKIPPED:
            return _Ended("skipped", message or "the agent cannot do this here", remedy)
        if code == ExitCode.INTERRUPTED:
            return _Ended("interrupted", message or "the agent was stopped", remedy)
        if code < 0:
            return self._judge_signal(-code)
        if broken:
            return _damaged(broken)
        default = f"the agent ended with code {code} in the middle of the step"
        return _Ended("failed", message or default, remedy or "see what the target's log says")

    @staticmethod
    def _nothing_came(trailer: Trailer) -> bool:
        """Periods that were missed and events without an answer are something; nothing is not."""
        return bool(trailer.series) and not any(one.count or one.missed for one in trailer.series)

    def _judge_signal(self, number: int) -> _Ended:
        name = signal.Signals(number).name if number in set(signal.Signals) else f"{number}"
        if self._killed:
            return _Ended("interrupted", "the agent did not stop when told, and was killed")
        if number in FROM_OUTSIDE:
            return _Ended(
                "interrupted", f"the agent was killed from outside ({name})", "run it once more"
            )
        return _Ended(
            "failed", f"the agent broke down ({name})", "report this, with the agent's version"
        )


def _together(board: _Ended, timing: _Ended | None, there: bool) -> tuple[_Ended, _Ended]:
    """How both sides of a pair ended, each in view of the other. ``there``: the board answered as
    long as it was asked."""
    if timing is None:
        said = board.reason or "it ended on its own"
        return board, _Ended("skipped", f"the board was not ready to answer: {said}", board.remedy)
    if not there and timing.state in ("complete", "interrupted"):
        said = board.reason or "its agent ended on its own"
        timing = _Ended("interrupted", f"the board ended in the middle: {said}", board.remedy)
        if board.state == "complete":
            board = _Ended("interrupted", "it ended before its log host")
    elif timing.state == "skipped" and board.state in ("complete", "interrupted"):
        board = _Ended("skipped", f"the log host cannot: {timing.reason}", timing.remedy)
    elif there and timing.state != "complete" and board.state in ("complete", "interrupted"):
        board = _Ended("interrupted", f"the log host ended: {timing.reason}", timing.remedy)
    return board, timing


def _damaged(reason: str) -> _Ended:
    text = reason if reason.startswith("the stream") else f"the stream is damaged: {reason}"
    return _Ended("failed", text, "run it once more")
