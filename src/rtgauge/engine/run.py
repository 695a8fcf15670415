# SPDX-License-Identifier: Apache-2.0
"""One run: a plan carried out on one target, one agent for each step, and the record of it.

When a step has ended, the folder seals its stream into Parquet (step 8 of the path of a sample).
Whatever happens, the samples that came are kept and the run says how it ended: complete,
interrupted (from outside), failed, or skipped (cannot run here).
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Protocol

from rtgauge.audit import DEFAULT_PRIORITY, Finding, audit, environment_document
from rtgauge.catalogue import Catalogue
from rtgauge.engine.environment import (
    check_lines,
    is_skipped,
    lacking,
    log_host_document,
    read_facts,
    require_cpus,
)
from rtgauge.engine.link import MARGIN, needed_bytes_per_s, pair_bytes_per_s
from rtgauge.engine.live import LiveStep
from rtgauge.engine.pair import Held, LogHosts, PairView, Together, follow, joined, with_line
from rtgauge.engine.sink import with_sink
from rtgauge.engine.watch import Ended, Limits, StepProgress, Stopping, Watch
from rtgauge.errors import (
    UNREACHED,
    ExitCode,
    RtgaugeError,
    StoreError,
    StreamError,
    TargetError,
    UsageError,
)
from rtgauge.facts import Facts
from rtgauge.facts.environment import settings_document
from rtgauge.facts.interpret import online_cpus
from rtgauge.plan import (
    GUESS_NS,
    Plan,
    PlannedStep,
    calibration_steps,
    endless,
    ends_ns,
    expected_ns,
)
from rtgauge.store import Store, new_run_id
from rtgauge.stream import Setting
from rtgauge.target import Target
from rtgauge.target.base import Emulated, Linked, Reconnecting, Replayable, lost_of
from rtgauge.text import bandwidth, duration, plain
from rtgauge.units import parse_cpus

__all__ = ["Progress", "Run", "RunOutcome"]

# Causes of a failure that another try may not have (docs/formats/stream.md, trailer).
BUSY: Final = "busy"
DISTURBED: Final = "disturbed"

BUSY_PAUSE_S: Final = 2.0


@dataclass(frozen=True)
class RunOutcome:
    """How one run ended. ``exit_code`` does not include budgets and verdicts. ``stopped``: the user
    stopped it."""

    id: str
    target: str
    state: str
    reason: str
    remedy: str
    exit_code: ExitCode
    stopped: bool = False


class Progress(StepProgress, Protocol):
    """Observer of a run."""

    def run_started(self, document: Mapping[str, Any], number: int, total: int) -> None:
        """A run begins, the ``number``-th of ``total``."""
        ...

    def step_started(self, live: LiveStep, number: int, total: int) -> None:
        """A step begins, the ``number``-th of the plan; 0 for a calibration added to it."""
        ...

    def step_ended(self, live: LiveStep, entry: Mapping[str, Any]) -> None:
        """A step has ended; ``entry`` is what run.json says of it."""
        ...

    def run_ended(self, outcome: RunOutcome) -> None:
        """A run has ended."""
        ...

    def of_target(self, name: str) -> Progress:
        """The observer of one of several concurrent runs, called from the thread of that run.
        ``name``: its target."""
        ...


def _of_the_lab(finding: Finding, made: Mapping[str, str]) -> Finding:
    """The finding for an emulated board, whose emulation is intended: a note with its mode."""
    if finding.check != "virtualisation":
        return finding
    what = f"emulated board of the lab, {made.get('mode')} mode"
    return replace(
        finding, found=what, level="note", why=made.get("meaning", ""), remedy="", command=""
    )


def _is_log_host(step: PlannedStep) -> bool:
    return bool(step.times and step.log_host)


def _own(steps: Sequence[PlannedStep]) -> list[PlannedStep]:
    """The steps without those that are carried out on a log host."""
    return [step for step in steps if not _is_log_host(step)]


def _ends_s(step: PlannedStep, catalogue: Catalogue) -> tuple[float | None, float | None]:
    """``ends_ns`` in seconds."""
    time_ns, samples_ns = ends_ns(step, catalogue)
    return time_ns and time_ns / 1e9, samples_ns and samples_ns / 1e9


def _thinned(ended: Ended, thin: str) -> Ended:
    """How a step ended, with the reason for histograms only, if any."""
    if not thin or ended.state != "complete":
        return ended
    return replace(ended, reason="; ".join(filter(None, (thin, ended.reason))))


def _has_log_host(step: PlannedStep) -> bool:
    return bool(step.log_host and not step.times)


def _cpus_measured(steps: Sequence[PlannedStep]) -> list[int] | None:
    """The CPUs that the steps name; None if one of them takes all."""
    union: set[int] = set()
    for step in steps:
        cpus = parse_cpus(step.parameters.get("cpu", "all"))
        if cpus is None:
            return None
        union |= cpus
    return sorted(union)


def _lowest_priority(steps: Sequence[PlannedStep], catalogue: Catalogue) -> int:
    """The lowest real-time priority at which a step measures."""
    texts = [
        step.parameters.get("priority", entry.option("priority").default)
        for step in steps
        if (entry := catalogue.measurement(step.measurement)).has("priority")
    ]
    priorities = [int(text) for text in texts if re.fullmatch(r"[1-9][0-9]?", text)]
    return min(priorities, default=DEFAULT_PRIORITY)


def _values(settings: Sequence[Setting]) -> set[tuple[str, str | None]]:
    """Each setting with its value in the record."""
    return {(name, one["effective"]) for name, one in settings_document(settings).items()}


class Run:
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
        #: Whether the study has other targets. Then a target that cannot be reached fails its run.
        self.has_others = False
        self.lost_target = False
        self.order: Mapping[str, int] = {}  # the run's place among those of its repeat
        self._found_settings: list[Setting] = []
        self._set: dict[int, tuple[PlannedStep, list[Setting]]] = {}  # by the steps so far
        self._recorded = self._values()
        self._in_pairs: set[int] = set()  # log hosts' steps: carried out with the one before
        self._started: set[int] = set()  # steps that have a stream
        self._busy = Ended("complete")  # a step that another agent prevented, to the end of busy_s
        self._lost = Ended("complete")  # the first step before which the connection stayed lost
        self._after_s: dict[int, float] = {}  # how long the steps after each one should measure

    def carry_out(
        self,
        study: str,
        repeat: int,
        number: int,
        total: int,
        interruption: Stopping,
    ) -> RunOutcome:
        """The whole run, from the environment to the sealed samples. If the study has
        no other target, raises TargetError if this one cannot be reached, and UsageError if it
        lacks a CPU or a line."""
        own = tuple(_own(self._plan.steps))
        steps = [*self._plan.steps]
        try:
            environment = self._target.environment()
            header, self._facts, self._found_settings = read_facts(environment)
            if not own or not all(is_skipped(one, self._catalogue, self._facts) for one in own):
                steps += calibration_steps(replace(self._plan, steps=own), self._catalogue)
            require_cpus(_own(steps), self._facts, self._target.name)
            check_lines(own, self._target)
            for step in filter(_is_log_host, steps):
                check_lines([step], self._hosts[step.log_host].target)
        except (TargetError, UsageError) as error:
            if not self.has_others:
                raise
            return self._without_target(study, repeat, number, total, error)
        self._document = self._first_document(study, repeat, header.boot_id, steps)
        began = self._clock.monotonic()
        with self._store.create(self._document) as self._folder:
            self._progress.run_started(self._document, number, total)
            self._tell_beforehand()
            return self._in_folder(environment, steps, began, interruption)

    def _without_target(
        self, study: str, repeat: int, number: int, total: int, error: RtgaugeError
    ) -> RunOutcome:
        """Record a run whose target cannot be reached, or lacks a CPU or a line."""
        self.lost_target = True
        self._facts = {}
        self._document = self._first_document(study, repeat, "", self._plan.steps)
        self._document["findings"] = []
        for step in self._document["steps"]:
            step.update(reason=f"the run could not begin: {error.message}", remedy=error.remedy)
        with self._store.create(self._document) as self._folder:
            self._progress.run_started(self._document, number, total)
            self._document.update(state="failed", reason=error.message, remedy=error.remedy)
            self._folder.write_document(self._document)
            self._store.update(self._folder)
        return self._outcome(stopped=False)

    def _outcome(self, *, stopped: bool) -> RunOutcome:
        outcome = RunOutcome(
            self._document["id"],
            self._target.name,
            self._document["state"],
            self._document["reason"],
            self._document["remedy"],
            self._exit_code(),
            stopped,
        )
        self._progress.run_ended(outcome)
        return outcome

    def _tell_beforehand(self) -> None:
        """Say what will be missing, and how to get it, before anything is measured."""
        steps = _own(self._plan.steps)
        findings, name = self._document["findings"], self._target.name
        found = lacking(steps, self._catalogue, self._facts, findings, name)
        for text, remedy in found:
            self._progress.message(f"{name}: {text}")
            if remedy:
                self._progress.message(f"  {remedy}")

    def _in_folder(
        self,
        environment: bytes,
        steps: Sequence[PlannedStep],
        began: float,
        interruption: Stopping,
    ) -> RunOutcome:
        # Calibrations come first in time and last in the list.
        order = [*range(len(self._plan.steps), len(steps)), *range(len(self._plan.steps))]
        after_s = 0.0
        for index in reversed(order):
            self._after_s[index] = after_s
            after_s += self._expected_s(steps[index])
        try:
            self._folder.save_environment(environment)
            for index in order:
                if index in self._in_pairs:
                    continue
                if interruption.asked:
                    self._note(index, Ended("skipped", UNREACHED))
                    continue
                if not self._reachable(steps[index], index, interruption):
                    self._note(index, Ended("skipped", "the connection was lost before this step"))
                    continue
                if self._busy.state != "complete":
                    self._note(index, Ended("skipped", self._busy.reason, self._busy.remedy))
                    continue
                if _has_log_host(steps[index]):
                    self._in_pairs.add(index + 1)
                    both: tuple[Ended, ...] = self._pair(
                        index, steps[index], steps[index + 1], interruption
                    )
                else:
                    both = (self._step(index, steps[index], interruption),)
                if both[0].state == "interrupted" and lost_of(self._target):
                    self._lost = both[0]  # its agent has retried the connection already
                self._wrong_usage = self._wrong_usage or any(one.wrong_usage for one in both)
            self._finish(began, *self._state(interruption))
        except OSError as error:
            raise self._broken_store(began, StoreError(
                f"the store cannot be written: {error.strerror or error}",
                "check its free space and its permissions. 'rtgauge runs' lists what was kept",
            )) from error  # fmt: skip
        except RtgaugeError as error:
            raise self._broken_store(began, error) from error
        return self._outcome(stopped=interruption.asked)

    def _expected_s(self, step: PlannedStep) -> float:
        """Seconds that a step should measure; 0 for one that will be skipped, and for a board whose
        log host determines the time."""
        if _has_log_host(step):
            return 0.0
        if not _is_log_host(step) and is_skipped(step, self._catalogue, self._facts):
            return 0.0
        catalogue = self._hosts[step.log_host].catalogue if _is_log_host(step) else self._catalogue
        return (expected_ns(step, catalogue) or GUESS_NS) / 1e9

    def _reachable(self, step: PlannedStep, index: int, interruption: Stopping) -> bool:
        """Whether the target can be reached, if need be after another attempt. Once that has
        failed, no further step is attempted."""
        why = "" if self._lost.reason else lost_of(self._target)
        if why:
            why = self._regain(why, interruption)
        if why:
            self._lost = Ended(
                "interrupted",
                f"the connection was lost before step {index + 1} ({step.measurement}): {why}",
                "check the target and the network, and start another run",
            )
        return not self._lost.reason

    def _regain(self, lost: str, interruption: Stopping) -> str:
        """Try to restore a connection lost between two steps; why that failed, or empty."""
        target = self._target
        if not isinstance(target, Reconnecting) or not target.reconnect_s:
            return lost
        self._progress.message(
            f"{target.name}: {lost}. Retrying the connection for {target.reconnect_s:.0f} s …"
        )
        why = target.regain(lambda: interruption.asked)
        if why:
            self._progress.message(f"{target.name}: {why}")
        return why

    def _first_document(
        self, study: str, repeat: int, boot_id: str, steps: Sequence[PlannedStep]
    ) -> dict[str, Any]:
        self._cpus = _cpus_measured(_own(steps))
        return {
            "format": "rtgauge-run",
            "version": 1,
            "id": new_run_id(),
            "study": study,
            "label": self._plan.label,
            "repeat": repeat,
            **({"order": dict(self.order)} if self.order else {}),
            "target": self._target.name,
            "boot_id": boot_id,
            "started": self._clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "duration_s": 0.0,
            "state": "running",
            "reason": "",
            "remedy": "",
            "plan": self._plan.document(),
            "environment": self._environment(),
            "findings": self._findings(),
            "catalogue": json.loads(json.dumps(dict(self._catalogue.document))),
            "steps": [
                {
                    "step": index,
                    "measurement": step.measurement,
                    "parameters": dict(step.parameters),
                    # of a log host's step that of the board, which is what was measured
                    "load": loaded.load,
                    "load_command": loaded.load_command,
                    "disturb": step.text("disturb"),
                    "run_options": step.run_options(),
                    "budget_ns": step.budget_ns,
                    "rate_per_hour": step.rate_per_hour,
                    "role": step.role,
                    # The state that remains if the host is killed before this step.
                    "state": "skipped",
                    "reason": "the run has not reached this step",
                    "remedy": "",
                    "command": "",
                    "folder": f"steps/{index:03d}",
                    "duration_s": 0.0,
                }
                for index, step in enumerate(steps)
                for loaded in [steps[index - 1] if _is_log_host(step) else step]
            ],
        }

    def _environment(self) -> dict[str, Any]:
        """Facts of the target, contents of an emulated one, and the connection to it."""
        document = environment_document(self._facts, [*self._found_settings, *self._settings()])
        if isinstance(self._target, Emulated):
            document["lab"] = dict(self._target.facts)
        if isinstance(self._target, Linked):
            document["connection"] = dict(self._target.connection)
        return document

    def _findings(self) -> list[dict[str, Any]]:
        """The audit's findings for what is measured here, and with what the run itself set."""
        loaded = any(step.loads != "idle" for step in self._plan.steps)
        found = audit(
            self._facts,
            cpus=self._cpus,
            load_running=loaded,
            settings=[*self._found_settings, *self._common_settings()],
            priority=_lowest_priority(_own(self._plan.steps), self._catalogue),
        )
        if isinstance(self._target, Emulated):
            found = [_of_the_lab(one, self._target.facts) for one in found]
        return [asdict(one) for one in found]

    def _settings(self) -> list[Setting]:
        """What the steps have set so far."""
        return [one for _, settings in self._set.values() for one in settings]

    def _common_settings(self) -> list[Setting]:
        """What the steps have set so far, without the settings that some of them left as found, or
        set to another value, because of their options, such as steps without ``prepare``. Before
        the first step, what the calibrations set."""
        changing = [one.name for one in self._catalogue.run_options if one.changes == "settings"]
        groups: dict[tuple[Any, ...], list[Setting]] = {}
        own = [index for index in self._set if index < len(self._plan.steps)]
        for step, settings in (self._set[index] for index in own or self._set):
            options = tuple(step.run.get(name) for name in ("keep-settings", *changing))
            groups.setdefault(options, []).extend(settings)
        values = [_values(group) for group in groups.values()]
        common = {name for name, _ in set.intersection(*values)} if values else set()
        return [one for group in groups.values() for one in group if one.name in common]

    def _record_settings(self) -> None:
        """Record what the steps set. The audit judges the system with it."""
        self._recorded = self._values()
        self._document.update(environment=self._environment(), findings=self._findings())

    def _values(self) -> tuple[set[tuple[str, str | None]], ...]:
        return _values(self._settings()), _values(self._common_settings())

    def _note(self, index: int, ended: Ended, duration_s: float = 0.0) -> dict[str, Any]:
        entry: dict[str, Any] = self._document["steps"][index]
        entry.update(
            state=ended.state,
            reason=ended.reason,
            remedy=ended.remedy,
            command=ended.command,
            duration_s=round(duration_s, 3),
        )
        self._keep_orders()
        self._folder.write_document(self._document)
        return entry

    def _keep_orders(self) -> None:
        """Keep what a replay needs, after each step: the run may be killed in a later one."""
        if isinstance(self._target, Replayable) and self._target.orders:
            self._document["orders"] = [list(words) for words in self._target.orders]

    def _fitting(
        self, index: int, step: PlannedStep, target: Target, needed: float
    ) -> tuple[PlannedStep, str]:
        """The step, with histograms only if the link to the target is too thin for its samples; and
        why, or empty. ``needed``: bytes per second."""
        carries = target.bandwidth if isinstance(target, Linked) else 0.0
        if step.flag("histogram-only") or not carries or carries >= needed * MARGIN:
            return step, ""
        thin = (
            f"histograms only: the samples need {plain(bandwidth(needed * MARGIN))} "
            f"with a reserve, but the link carries {plain(bandwidth(carries))}"
        )
        self._progress.message(f"step {index + 1} ({step.measurement}): {thin}")
        return step.with_option("histogram-only", True), thin

    def _online(self) -> frozenset[int]:
        return online_cpus(Facts(self._facts)) or frozenset({0})

    def _step(self, index: int, step: PlannedStep, interruption: Stopping) -> Ended:
        """One step on the target itself."""
        needed = needed_bytes_per_s(step, self._catalogue, self._online())
        step, thin = self._fitting(index, step, self._target, needed)
        time_s, samples_s = _ends_s(step, self._catalogue)
        without_end = endless(step, self._catalogue)
        skipped = is_skipped(step, self._catalogue, self._facts)
        if without_end and not skipped:
            self._progress.message(
                f"step {index + 1} ({step.measurement}) measures until you press Ctrl-C. "
                "To limit it, add --for 60s or --samples 1000"
            )
        new = functools.partial(LiveStep, step, time_s, samples_s, without_end)
        live = new()
        live.skipped = skipped
        began = self._begin(index, live)

        def once() -> Ended:
            nonlocal live
            if index in self._started:  # it was tried before
                live = new()
                self._folder.drop_stream(index)
                self._started.discard(index)
            with contextlib.ExitStack() as stack:
                watch = self._start(
                    stack, index, step, live, self._target, interruption, self._progress
                )
                if isinstance(watch, Ended):
                    return watch
                return watch.run(functools.partial(self._mark_measuring, index, live))

        def when_free() -> Ended:
            ended = once()
            return self._wait(ended, once, interruption, self._target)

        ended = when_free()
        if ended.cause == DISTURBED and not interruption.asked:
            ended = self._again(index, ended, when_free)
        return self._end(index, live, _thinned(ended, thin), began)

    def _wait(
        self, ended: Ended, once: Callable[[], Ended], interruption: Stopping, target: Target
    ) -> Ended:
        """Try a step until no other agent measures on the target, for ``busy_s`` at most. A step
        that another agent did not prevent is left as it is."""
        if ended.cause != BUSY:
            return ended
        limit = self._limits.busy_s
        self._progress.message(
            f"{target.name}: {ended.reason}. Waiting up to {plain(duration(limit))} for it "
            "(a step with --keep-settings does not wait) …"
        )
        began = self._clock.monotonic()
        waited = 0.0
        while ended.cause == BUSY and not interruption.asked:
            if waited >= limit:
                reason = f"{ended.reason}. Waited {plain(duration(waited))} for it to end"
                ended = Ended("failed", reason, ended.remedy)
                if target is self._target:
                    self._busy = ended
                return ended
            self._clock.sleep(BUSY_PAUSE_S)
            waited = self._clock.monotonic() - began
            ended = once()
        if ended.cause == BUSY:
            return Ended("skipped", UNREACHED)
        self._look_again()
        if ended.state == "complete":
            ended.reason = f"waited {plain(duration(waited))} for another agent"
        return ended

    def _look_again(self) -> None:
        """Read the environment again after another agent has ended: until now, the record has that
        agent's settings."""
        if lost_of(self._target):
            return
        with contextlib.suppress(TargetError):
            environment = self._target.environment()
            _, self._facts, _ = read_facts(environment)
            self._folder.save_environment(environment)

    def _correct(self, settings: Sequence[Setting]) -> None:
        """Replace facts by the values that a step found before it changed them. The environment may
        have been read with the settings of another agent, but the step was alone on the target."""
        for one in settings:
            if one.before is not None and isinstance(self._facts.get(one.name), str):
                self._facts[one.name] = one.before

    def _again(self, index: int, first: Ended, once: Callable[[], Ended]) -> Ended:
        """The second try of a step that the machine disturbed. Its data replace the first's."""
        entry = self._document["steps"][index]
        self._progress.message(
            f"step {index + 1} ({entry['measurement']}): {first.reason}. Trying once more …"
        )
        entry["first_try"] = {
            "state": first.state, "reason": first.reason, "remedy": first.remedy
        }  # fmt: skip
        self._folder.write_document(self._document)
        second = once()
        if second.state == "complete":
            why = f"repeated, because the first try failed: {first.reason}"
        elif second.state == "failed":
            why = f"{second.reason} (second try). The first try failed: {first.reason}"
        else:
            why = second.reason
        return replace(second, reason=why)

    def _pair(
        self, index: int, board: PlannedStep, timing: PlannedStep, interruption: Stopping
    ) -> tuple[Ended, Ended]:
        """A board's step and its log host's, at once; the log host's follows in the list."""
        host = self._hosts[timing.log_host]
        both = board, timing
        needed = pair_bytes_per_s(board, self._catalogue, timing, host.catalogue)
        targets = self._target, host.target
        fitting = [self._fitting(index + at, both[at], targets[at], needed[at]) for at in (0, 1)]
        (board, _), (timing, _) = fitting

        def new() -> tuple[LiveStep, LiveStep]:
            return LiveStep(board, None), LiveStep(timing, *_ends_s(timing, host.catalogue))

        lives = new()
        began = self._begin(index, PairView(*lives))
        ended: list[Ended] = []

        def once(busy: int) -> Ended:
            nonlocal lives, ended
            if index in self._started:  # it was tried before
                lives = new()
                for at in self._started & {index, index + 1}:
                    self._folder.drop_stream(at)
                    self._started.discard(at)
            ended = [*self._both(index, *lives, interruption)]
            return ended[busy]

        once(0)
        for at in (0, 1, 0, 1):  # either may become busy while the other is waited for
            found = self._wait(ended[at], functools.partial(once, at), interruption, targets[at])
            ended[at] = found  # once() has replaced the list
        ended = [_thinned(one, thin) for one, (_, thin) in zip(ended, fitting, strict=True)]
        first = self._end(index, lives[0], ended[0], began)
        lives[1].after_s = self._after_s[index + 1]
        self._progress.step_started(lives[1], index + 2, len(self._plan.steps))
        return first, self._end(index + 1, lives[1], ended[1], began)

    def _both(
        self, index: int, answering: LiveStep, raising: LiveStep, interruption: Stopping
    ) -> tuple[Ended, Ended]:
        """Carry out both sides of a pair once."""
        board, timing = answering.step, raising.step
        host = self._hosts[timing.log_host]
        held = Held(interruption)
        together = Together(self._progress, PairView(answering, raising))
        log: Watch | Ended | None = None

        def start_timing() -> Watch | None:
            nonlocal log
            entry = self._document["steps"][index + 1]
            try:
                step = with_line(timing, board, self._target)
                entry.update(
                    parameters=dict(step.parameters),
                    log_host=log_host_document(host.target),
                )
            except RtgaugeError as error:
                log = Ended("failed", error.message, error.remedy)
                return None
            self._mark_measuring(index, answering)
            self._mark_running(index + 1)
            held.held = True
            log = self._start(stack, index + 1, step, raising, host.target, interruption, together)
            return None if isinstance(log, Ended) else log

        there = False
        with contextlib.ExitStack() as stack:
            answers = self._start(stack, index, board, answering, self._target, held, together)
            if isinstance(answers, Watch):
                there = follow(answers, start_timing, held.release)
                answers = answers.end()
            if isinstance(log, Watch):
                log = log.end()
        return joined(answers, log, there)

    def _mark_running(self, index: int) -> None:
        self._document["steps"][index].update(state="running", reason="")
        self._folder.write_document(self._document)

    def _mark_measuring(self, index: int, live: LiveStep) -> None:
        """Record what a step has set, without waiting for its end, which may be days away. The step
        is already measuring, perhaps on this machine, so nothing is written if the record has the
        same settings."""
        if live.step.role == "calibration":
            return
        self._set[index] = live.step, live.settings
        self._correct(live.settings)
        if self._values() != self._recorded:
            self._record_settings()
            self._folder.write_document(self._document)

    def _begin(self, index: int, view: LiveStep) -> float:
        """Record and show that a step begins; when that was."""
        self._mark_running(index)
        total = len(self._plan.steps)
        view.after_s = self._after_s[index]
        self._progress.step_started(view, index + 1 if index < total else 0, total)
        return self._clock.monotonic()

    def _start(
        self,
        stack: contextlib.ExitStack,
        index: int,
        step: PlannedStep,
        live: LiveStep,
        target: Target,
        interruption: Stopping,
        progress: StepProgress,
    ) -> Watch | Ended:
        """Start the agent of a step, which ends with ``stack`` at the latest; or why it did not."""
        try:
            step = with_sink(stack, step, self._catalogue, target)
            words = [*step.arguments(), "--run", self._document["id"], "--step", str(index)]
            if step.text("disturb"):
                words += self.disturb_words
            agent = target.start(words)
        except TargetError as error:
            return Ended("failed", error.message, error.remedy)
        watch = Watch(agent, live, target, self._limits, interruption, progress)
        stack.enter_context(contextlib.closing(watch))
        watch.begin(self._folder, index)
        self._started.add(index)
        return watch

    def _end(self, index: int, live: LiveStep, ended: Ended, began: float) -> Ended:
        """Seal and record a step that has ended."""
        if index in self._started:
            try:
                self._folder.seal(index)
            except StreamError as error:  # such as a newer version: it stays as it came
                ended = Ended("failed", error.message, error.remedy)
        if live.has_results and not _is_log_host(live.step):
            self._set[index] = live.step, live.settings
            self._correct(live.settings)
        else:
            self._set.pop(index, None)
        self._record_settings()
        entry = self._note(index, ended, self._clock.monotonic() - began)
        self._progress.step_ended(live, entry)
        return ended

    def _state(self, interruption: Stopping) -> tuple[str, str, str]:
        """State, reason and remedy of the run: the worst of its steps."""
        steps = self._document["steps"]
        for state in ("failed", "interrupted"):
            for step in steps:
                if step["state"] == state:
                    where = f"step {step['step'] + 1} ({step['measurement']}): "
                    return state, where + step["reason"], step["remedy"]
        if interruption.asked:
            return "interrupted", "stopped by Ctrl-C or a signal", ""
        if self._lost.reason:
            return self._lost.state, self._lost.reason, self._lost.remedy
        asked = steps[: len(self._plan.steps)]
        if all(step["state"] == "skipped" for step in asked):
            return "skipped", asked[0]["reason"], asked[0]["remedy"]
        return "complete", "", ""

    def _finish(self, began: float, state: str, reason: str, remedy: str) -> None:
        self._keep_orders()
        self._document.update(
            state=state,
            reason=reason,
            remedy=remedy,
            duration_s=round(self._clock.monotonic() - began, 3),
        )
        self._folder.write_document(self._document)
        self._store.update(self._folder)

    def _broken_store(self, began: float, error: RtgaugeError) -> RtgaugeError:
        """Record that the run failed, as far as the store still allows it."""
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
