# SPDX-License-Identifier: Apache-2.0
"""``rtgauge tune``: which settings and kernel arguments help, by a designed experiment."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rtgauge.catalogue import Catalogue
from rtgauge.cli.carry_out import as_root, of_project, say_unbuilt
from rtgauge.cli.completion import words_of
from rtgauge.cli.consent import check_consent, outside
from rtgauge.cli.generated import order_seed, reconnect_s
from rtgauge.cli.help import TableOption, command
from rtgauge.cli.options import open_store
from rtgauge.cli.output import format_seconds, print_json, print_tune, say, show, unread
from rtgauge.cli.run import Task, catalogue_of, completed, run_words
from rtgauge.cli.values import WholeNumber
from rtgauge.cli.words import named_agent
from rtgauge.errors import ExitCode, StoreError, UsageError
from rtgauge.options import Reach
from rtgauge.plan import (
    GUESS_NS,
    Factor,
    Plan,
    describe_step,
    expected_ns,
    kernel_arguments,
    parse_factors,
)
from rtgauge.units import parse_duration

if TYPE_CHECKING:
    from rtgauge.engine.live import LiveStep
    from rtgauge.engine.run import RunOutcome
    from rtgauge.engine.study import Interruption
    from rtgauge.store import Store
    from rtgauge.target import Target

__all__ = ["task", "tune"]

BLOCKS: Final = 8
SEEDS: Final = 1_000_000
# Seconds that a boot and the rest of a run take, before one was measured.
BOOT_S: Final = 20.0
REBOOT_S: Final = 90.0
_LACKING: Final = ("repeat", "budget", "rate", "disturb", "allow-disturb", "quiet", "no-progress",
                   "title", "author", "serial", "meta", "logo", "full", "exit",
                   "dry-run")  # fmt: skip
_TEXTS: Final = {
    "target": "system under test: local, ssh://HOST, lab:BOARD or fake. The default is local. HOST "
    "may be USER@HOST:PORT. Replaces a plan's target",
    "order-seed": "seed of the random order of the runs, to repeat the order of an earlier tune",
    "report": "report to write. Its suffix selects the format: .html, .md, .json",
}
_RESUME: Final = "--resume"
_STORE: Final = "--store"
_CONSENT: Final = "--allow-load-cmd"
_GENERAL: Final = """Find which settings and kernel arguments help, by a designed experiment.
'{command} MEASUREMENT --help' shows the options of one measurement.

\b
Examples:
  {command} timer --load sched --try stat_interval --try priority=95
  {command} timer --for 2s --target lab:x86_64-stock --try preempt=full
"""


def _options() -> dict[str, list[click.Option]]:
    return {
        "Tuning": [
            TableOption(
                "--try",
                "tried",
                text="setting or kernel argument to try: an item of --prepare-only, priority=N, or "
                "kernel arguments",
                multiple=True,
                metavar="FACTOR",
            ),
            TableOption(
                "--boot-cmd",
                text="command that reboots the target. Its arguments are those for the kernel, or "
                "none to boot as usual",
                metavar="COMMAND",
                default="",
            ),
            TableOption(
                "--boot-timeout",
                text="timeout for the target to return after --boot-cmd",
                brackets=["default 10m"],
                metavar="TIME",
                default="10m",
            ),
            TableOption(
                "--blocks",
                text="number of blocks of the confirmation (two runs each)",
                brackets=[f"default {BLOCKS}"],
                metavar="N",
                type=WholeNumber(6, 100),
                default=BLOCKS,
            ),
            TableOption("--dry-run", text="print the configurations and the time", is_flag=True),
            TableOption(
                _RESUME,
                text="continue the last tune that was interrupted, or the tune STUDY",
                metavar="[STUDY]",
            ),
        ]
    }


def task(
    words: Sequence[str] = (), now: Sequence[str] = (), record: dict[str, Any] | None = None
) -> Task:
    """The task that these words ask for. ``record``: that of the tune to resume, ``now``: the words
    that are not from there."""
    return Task(
        lambda plan, targets, given: _carry_out(plan, targets, given, words, now, record),
        _options,
        _LACKING,
        _GENERAL,
        (" --try transparent_hugepage --try stat_interval", " --load sched --try priority=95"),
        ("boot-timeout", "blocks", "samples", "cpu", "priority", "label"),
        _TEXTS,
    )


def _completed(
    ctx: click.Context, words: Sequence[str], catalogue: Catalogue
) -> tuple[click.Command, list[str], list[str]]:
    return completed(ctx, words, catalogue, task())


@command(**words_of(_completed))
@click.pass_context
def tune(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Find which settings and kernel arguments help."""
    record: dict[str, Any] | None = None
    words = now = tuple(_separate(words))
    if _RESUME in words:
        words, record = _resumed(words)
    return run_words(ctx, words, task=task(words, now, record))


def _separate(words: Sequence[str]) -> Iterator[str]:
    """The words, with ``--resume=STUDY`` and ``--store=DIR`` as two."""
    for word in words:
        name, equals, value = word.partition("=")
        yield from (name, value) if equals and name in (_RESUME, _STORE) else (word,)


def _resumed(words: Sequence[str]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The words of the tune to resume, with those that were given now, and its record."""
    from rtgauge.store.tunes import find_tune

    place = words.index(_RESUME)
    rest = list(words[place + 1 :])
    study = rest.pop(0) if rest and not rest[0].startswith("-") else "last"
    rest = [*words[:place], *rest]
    stores = [value for word, value in itertools.pairwise(rest) if word == _STORE]
    with open_store(stores[-1] if stores else None) as store:
        record = find_tune(store, study)
    if record["state"] == "complete":
        raise UsageError(f"tune {record['study']} is complete", "start another one")
    recorded = [word for word in record["words"] if word != _CONSENT]
    agent = named_agent(recorded)
    if agent is not None and named_agent(rest) is None and _CONSENT not in rest:
        raise UsageError(  # before it describes the target
            f"the resumed tune would run the agent '{agent}', which needs your consent",
            f"inspect that program, then add {_CONSENT}",
        )
    return (*recorded, *rest), record


def _carry_out(
    plan: Plan,
    targets: Sequence[Target],
    given: Mapping[str, Any],
    words: Sequence[str],
    now: Sequence[str],
    record: dict[str, Any] | None,
) -> int:
    """Tune one target with the plan. Returns the exit code."""
    from rtgauge.engine.study import settle
    from rtgauge.engine.tune import screening
    from rtgauge.target.base import Bootable

    for path in given["report"]:
        _check_report(path)
    _check_times(given)
    if len(targets) != 1:
        raise UsageError("rtgauge tune measures one target at a time", "tune each target by itself")
    target = targets[0]
    plan = as_root(of_project(plan), given)
    catalogue = catalogue_of(target, preview=given["dry_run"])
    if not given["tried"]:
        raise UsageError("there is nothing to try", "name factors, such as --try preempt=full")
    factors = parse_factors(given["tried"], catalogue, plan)
    if isinstance(target, Bootable) or not kernel_arguments(factors):
        given = {**given, "boot_cmd": ""}  # it is not called
    settle(plan, targets)
    _check_target(target, factors, given["boot_cmd"])
    _check_disturbs(plan, target)
    _check_governor(target, factors)
    resumed = record is not None
    if record is None:
        seed = order_seed(given)
        seed = secrets.randbelow(SEEDS) if seed is None else seed
        design, rows = screening(len(factors), seed)
        record = _record(plan, target, factors, design, rows, given, words)
    else:
        _check_same(record, _asked(plan, target, factors, given), order_seed(given))
        record["boot_command"] = given["boot_cmd"]
    _announce(record, plan, target, catalogue, given)
    if given["dry_run"]:
        say_unbuilt(targets)
        if given["json"]:
            print_json(record)
        else:
            print_tune(record, planned=True)
        return int(ExitCode.DONE)
    if resumed:
        _check_consent(plan, target, given, now)
    if not record["booted"]:
        _check_present(target, factors)
    with open_store(given["store"], create=True) as store:
        _check_system(store, record, target)
        return _Tune(plan, target, factors, catalogue, store, given, record).carry_out()


def _check_consent(
    plan: Plan, target: Target, given: Mapping[str, Any], now: Sequence[str]
) -> None:
    """Check the user's consent to what the record of a tune reaches, because its author may be
    somebody else. ``now``: the words that the user gave."""
    found = _reached(plan, given)
    named = {word.partition("=")[0] for word in now}
    found = [one for one in found if f"--{one.option}" not in named]
    check_consent("the resumed tune", "read its record (--dry-run --json)", found, [target], given)


def _reached(plan: Plan, given: Mapping[str, Any]) -> list[Reach]:
    """What a tune reaches outside rtgauge."""
    found = [one for step in plan.steps for one in outside(step)]
    return found + [Reach("boot-cmd", "run", given["boot_cmd"])] * bool(given["boot_cmd"])


def _check_report(path: Path) -> None:
    from rtgauge.cli.carry_out import check_report

    check_report(path)
    if path.suffix.lower() not in (".html", ".md", ".json"):
        raise UsageError(f"a tune cannot be written as '{path.suffix}'", "use .html, .json or .md")


def _check_times(given: Mapping[str, Any]) -> None:
    """Raise UsageError for a wrong time, before anything is recorded."""
    reconnect_s(given)
    try:
        parse_duration(given["boot_timeout"])
    except ValueError as error:
        raise UsageError(
            f"--boot-timeout: {error}", "give a time with its unit, such as 10m"
        ) from None


def _check_target(target: Target, factors: Sequence[Factor], command: str) -> None:
    """Raise UsageError where the target cannot have these configurations."""
    from rtgauge.target.base import Bootable

    if isinstance(target, Bootable):
        if target.obstacle:
            raise UsageError(
                f"target '{target.name}' cannot be tuned: {target.obstacle}",
                "name the board alone, and omit CPUs above 0",
            )
        return
    kernel = [factor.name for factor in factors if factor.kind == "kernel"]
    if kernel and target.name == "local":
        raise UsageError(
            f"'{kernel[0]}' needs a reboot, and rtgauge runs on this machine",
            "tune it from another machine: --target ssh://HOST --boot-cmd COMMAND",
        )
    if kernel and not command:
        raise UsageError(
            f"'{kernel[0]}' needs a reboot of {target.name}, and rtgauge does not know how to "
            "reboot it",
            "give the command that reboots it: --boot-cmd COMMAND",
        )


def _check_disturbs(plan: Plan, target: Target) -> None:
    """Raise UsageError where the plan disturbs a target that needs the user's consent for that:
    tune has no option to give it."""
    from rtgauge.target.base import Disturbable

    if any(step.text("disturb") for step in plan.steps) and not isinstance(target, Disturbable):
        raise UsageError(
            f"target '{target.name}' is not a board of the lab, so rtgauge tune does not disturb "
            "it",
            "tune it in the lab (--target lab:x86_64-rt), or leave disturb out of the plan",
        )


def _check_governor(target: Target, factors: Sequence[Factor]) -> None:
    """Raise UsageError for the governor where the kernel does not control the frequency of the
    CPUs, unless arguments for the kernel are tried, too, which can change that."""
    from rtgauge.engine.environment import read_facts
    from rtgauge.facts import Facts
    from rtgauge.facts.interpret import GOVERNOR

    tried = [factor.name for factor in factors if factor.values == ("governor",)]
    if not tried or kernel_arguments(factors):
        return
    if Facts(read_facts(target.environment())[1]).per_cpu_absent(GOVERNOR):
        raise UsageError(
            f"'{tried[0]}' cannot be tried: the kernel of {target.name} does not control the "
            "frequency of its CPUs",
            "omit it. In a virtual machine, set the governor on the host",
        )


def _check_present(target: Target, factors: Sequence[Factor]) -> None:
    """Raise UsageError for an argument that the kernel already has."""
    from rtgauge.engine.boot import command_line
    from rtgauge.engine.environment import read_facts

    wanted = kernel_arguments(factors)
    present = command_line(read_facts(target.environment())[1]) if wanted else []
    for one in wanted:
        if one in present:
            raise UsageError(
                f"the kernel of {target.name} already has '{one}'",
                "omit it, or boot without it to try it",
            )


def _asked(
    plan: Plan, target: Target, factors: Sequence[Factor], given: Mapping[str, Any]
) -> dict[str, Any]:
    """What all runs of a tune share, as its record has it."""
    asked: dict[str, Any] = {
        "target": target.name,
        "label": given["label"] or "tune",
        "plan": plan.document(),
        "tried": [asdict(factor) for factor in factors],
        "confirm_blocks": given["blocks"],
    }
    stored: dict[str, Any] = json.loads(json.dumps(asked))
    return stored


def _check_same(record: Mapping[str, Any], asked: Mapping[str, Any], seed: int | None) -> None:
    """Raise UsageError if the runs that are left would not be those of the record."""
    names = {"tried": "--try", "confirm_blocks": "--blocks"}
    other = [names.get(name, name) for name, value in asked.items() if record[name] != value]
    if seed is not None and seed != record["design"]["seed"]:
        other.append("--order-seed")
    if other:
        raise UsageError(
            f"tune {record['study']} began with other values of {', '.join(other)}",
            "resume it with its original values, or start another tune",
        )


def _check_system(store: Store, record: Mapping[str, Any], target: Target) -> None:
    """Raise UsageError if the complete runs of a tune were measured on another machine or with
    another kernel. Its parameters may differ, because a tune tries some."""
    from rtgauge.cli.evaluate import BUILD, alike, system_here, system_of

    rows = record["configurations"]
    complete = {row["run"] for row in rows if row["state"] == "complete"}
    if not complete:
        return
    known = [row.id for row in store.runs() if row.id in complete and row.state != "unreadable"]
    if not known:
        return
    there, here = system_of(store.get(known[0]))[:BUILD], system_here(target)[:BUILD]
    if not alike(there, here):
        raise UsageError(
            f"tune {record['study']} was measured on another system "
            f"({', '.join(filter(None, there))}). Target '{target.name}' is "
            f"{', '.join(filter(None, here))}",
            "resume it on that machine with that kernel, or start another tune",
        )


def _record(
    plan: Plan,
    target: Target,
    factors: Sequence[Factor],
    design: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    given: Mapping[str, Any],
    words: Sequence[str],
) -> dict[str, Any]:
    from rtgauge.store import new_run_id
    from rtgauge.store.tunes import FORMAT, VERSION

    return {
        "format": FORMAT,
        "version": VERSION,
        "study": new_run_id(),
        "state": "running",
        **_asked(plan, target, factors, given),
        "words": list(words),
        "design": design,
        "boot_command": given["boot_cmd"],
        "booted": [],
        "dropped": {},
        "ignored": {},
        "configurations": list(rows),
    }


def _announce(
    record: Mapping[str, Any],
    plan: Plan,
    target: Target,
    catalogue: Catalogue,
    given: Mapping[str, Any],
) -> None:
    """Say what is going to be measured, and how long it takes."""
    runs = sum(row["state"] in ("waiting", "running") for row in record["configurations"])
    screened = all(row["phase"] == "screen" for row in record["configurations"])
    more = 2 * record["confirm_blocks"] if screened else 0
    each = _run_s(plan, target, catalogue, rebooted=bool(given["boot_cmd"]))
    length = format_seconds((runs + more) * each / _at_once(target))
    confirm = f", and {more} for the confirmation" if more else ""
    say(
        f"tuning {target.name} with {' and '.join(map(describe_step, plan.steps))}: "
        f"{runs} {'run' if runs == 1 else 'runs'}{confirm}, about {length}"
    )
    say(f"study {record['study']}, order seed {record['design']['seed']}")


def _run_s(plan: Plan, target: Target, catalogue: Catalogue, *, rebooted: bool) -> float:
    """Seconds that a run is expected to take."""
    from rtgauge.target.base import CROWDED, Bootable, pace_of

    measuring = sum(expected_ns(step, catalogue) or GUESS_NS for step in plan.steps) / 1e9
    boot = BOOT_S if isinstance(target, Bootable) else REBOOT_S if rebooted else 2.0
    return boot + measuring * max(1.0, pace_of(target).scale / CROWDED)


def _at_once(target: Target) -> int:
    from rtgauge.target.base import pace_of

    return len(os.sched_getaffinity(0)) if pace_of(target).independent else 1


class _Watcher:
    """Watches one run of a tune: keeps its first figure."""

    def __init__(self) -> None:
        self.figure = ""

    def run_started(self, document: Mapping[str, Any], number: int, total: int) -> None: ...
    def step_started(self, live: LiveStep, number: int, total: int) -> None: ...
    def step_went_on(self, live: LiveStep) -> None: ...

    def step_ended(self, live: LiveStep, entry: Mapping[str, Any]) -> None:
        from rtgauge.cli.progress import measured

        if not self.figure and entry["role"] == "measurement":
            self.figure = next(iter(measured(live)), "")

    def run_ended(self, outcome: RunOutcome) -> None: ...

    def message(self, text: str) -> None:
        say(text)

    def of_target(self, name: str) -> _Watcher:
        return self


class _Tune:
    """One tune from its first run, or the one that waits, to its result."""

    def __init__(
        self,
        plan: Plan,
        target: Target,
        factors: Sequence[Factor],
        catalogue: Catalogue,
        store: Store,
        given: Mapping[str, Any],
        record: dict[str, Any],
    ) -> None:
        self._plan = plan
        self._target = target
        self._factors = factors
        self._catalogue = catalogue
        self._store = store
        self._given = given
        self._record = record
        self._watchers: dict[int, _Watcher] = {}
        self._lock = threading.Lock()

    # --- observer of the runs ---

    def begins(self, row: dict[str, Any]) -> _Watcher:
        return self._watchers.setdefault(row["number"], _Watcher())

    def ended(self, row: dict[str, Any]) -> None:
        names = [self._factors[place].name for place in row["on"]]
        rows = self._record["configurations"]
        cut = row["state"] == "waiting"  # by Ctrl-C: its samples do not count
        done = sum(one["state"] in ("complete", "failed") for one in rows) + cut
        left = [one for one in rows if one["state"] in ("waiting", "running")]
        took = [one["duration_s"] for one in rows if one["state"] == "complete"]
        figure = self._watchers.pop(row["number"]).figure
        said = f"failed: {row['reason']}" if row["state"] == "failed" else figure
        said = "interrupted" if cut or not said else said
        if row["again"]:
            said += " (to be measured again)"
        text = f"[{done}/{len(rows)}] {' + '.join(names) or 'present'}: {said}"
        if took and left:
            rest = sum(took) / len(took) * len(left) / _at_once(self._target)
            text += f" ({format_seconds(rest)} left)"
        with self._lock:
            say(text)

    def message(self, text: str) -> None:
        with self._lock:
            say(text)

    # --- the whole ---

    def carry_out(self) -> int:
        from rtgauge.engine.study import Interruption
        from rtgauge.store.tunes import TuneFile

        interruption = Interruption()
        file = TuneFile(self._store, self._record["study"])
        with contextlib.closing(file), interruption.handling():
            before = file.read()
            if before and {**before, "boot_command": self._given["boot_cmd"]} != self._record:
                raise StoreError(
                    f"another process has continued tune {self._record['study']} in the meantime",
                    "resume it again",
                )
            self._record["state"] = "running"
            file.write(self._record)
            try:
                whole = self._measure(interruption, lambda: file.write(self._record))
            except BaseException:
                self._record["state"] = "failed"
                file.write(self._record)
                raise
            self._record["state"] = "complete" if whole else "interrupted"
            result = self._result()
            file.write(result)
        self._show(result)
        if not whole:
            from rtgauge.report.results.again import with_store

            resume = f"rtgauge tune --resume {self._record['study'][:18]}"
            if _reached(self._plan, self._given) or named_agent(self._record["words"]):
                resume += f" {_CONSENT}"
            say(f"interrupted: {with_store(resume, self._given['store'] or '')} continues it")
            return int(ExitCode.INTERRUPTED)
        measured_runs = any(row["state"] == "complete" for row in result["configurations"])
        return int(ExitCode.DONE if measured_runs else ExitCode.FAILED)

    def _measure(self, interruption: Interruption, save: Any) -> bool:
        """All runs, and the target as it was at the end; whether all were made."""
        from rtgauge.engine.tune import Tried, Tuner, confirmation
        from rtgauge.report.sets.tuned import helpful

        with self._booters() as booters:
            tuner = Tuner(
                self._record,
                Tried(self._plan, tuple(self._factors), self._catalogue),
                booters,
                self._store,
                self,
                interruption,
                save,
                self._patient,
            )
            try:
                whole = tuner.carry_out()
                rows = self._record["configurations"]
                if whole and all(row["phase"] == "screen" for row in rows):
                    best = helpful(self._result())
                    if best:
                        names = " + ".join(self._factors[place].name for place in best)
                        self.message(f"confirming {names} against the present configuration")
                        blocks = self._record["confirm_blocks"]
                        rows += confirmation(self._record, best, blocks)
                        save()
                        whole = tuner.carry_out()
                return whole
            finally:
                tuner.put_back()

    @contextlib.contextmanager
    def _booters(self) -> Iterator[list[Any]]:
        from rtgauge.engine.boot import Booter
        from rtgauge.engine.study import settle
        from rtgauge.target import open_target

        patience = parse_duration(self._given["boot_timeout"]) / 1e9

        def reopen(name: str) -> Target:
            return self._patient(open_target(name, self._given["agent"]))

        self._patient(self._target)
        more = [reopen(self._target.name) for _ in range(_at_once(self._target) - 1)]
        for one in more:
            settle(self._plan, [one])
        made = [
            Booter(one, self._given["boot_cmd"], patience, reopen) for one in (self._target, *more)
        ]
        try:
            yield made
        finally:
            for booter in made:
                booter.target.close()

    def _patient(self, target: Target) -> Target:
        """The target, whose lost connection is retried for the time of ``--reconnect``."""
        from rtgauge.target.base import Reconnecting

        reconnect = reconnect_s(self._given)
        if reconnect is not None and isinstance(target, Reconnecting):
            target.reconnect_s = reconnect
        return target

    def _result(self) -> dict[str, Any]:
        """The record with the effects that its runs show."""
        from rtgauge.report import model
        from rtgauge.report.sets.tuned import tuned

        ids = [row["run"] for row in self._record["configurations"] if row["state"] == "complete"]
        known = {row.id for row in self._store.runs()}
        runs = [self._store.get(one) for one in ids if one in known]
        return tuned(self._record, model.analyse(runs, pictures=False))

    def _show(self, result: dict[str, Any]) -> None:
        from rtgauge.report import write_tune

        as_json = self._given["json"]
        with unread():
            if as_json:
                print_json(result)
            else:
                print_tune(result)
        for path in self._given["report"]:
            write_tune(result, path)
            with unread():
                (say if as_json else show)(f"Report: {path}")
