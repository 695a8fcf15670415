# SPDX-License-Identifier: Apache-2.0
"""Runs the stages of tools/stages.toml: ``run_stages.py LANE`` or ``run_stages.py STAGE...``.

A stage is a list of shell commands. Stages run side by side. Next to those that measure time
(``alone``), only stages run that leave them a processor (``with_alone``) or use what the others
leave (``spare``). A stage of a lane is skipped as unchanged when its input files, its declaration
and the versions of its tools are those of an earlier successful run. A stage that is named is
always run.

Successful runs are recorded in ``$RTGAUGE_STAGES``, by default in the user's cache folder, for a
week. The log of each stage is in build/check/. Tests are counted from the JUnit XML files that a
stage declares as its results. A command that exits with 77 skips its stage; the last line of its
output is the reason. Uses only the standard library and nothing of the product.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

ROOT: Final = Path(__file__).resolve().parents[1]
LANES: Final = ("quick", "test", "check", "nightly")
STAGE_S: Final = 2700.0
POLL_S: Final = 0.2
SPARE_NICE: Final = 10
END_S: Final = 10.0
KEPT_S: Final = 7 * 86400.0
SKIPPED: Final = 77
LOG_LINES_SHOWN: Final = 150
FAILURES_SHOWN: Final = 10
LINE_SHOWN: Final = 160


@dataclass(frozen=True)
class Counts:
    """Number of tests that passed, failed and were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def count_junit(text: str) -> Counts:
    """Count the test cases of a JUnit XML document. Raises ElementTree.ParseError."""
    passed = failed = skipped = 0
    for case in ElementTree.fromstring(text).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return Counts(passed, failed, skipped)


def failures_of(text: str) -> list[tuple[str, str]]:
    """The failed test cases of a JUnit XML document: the name of each, and the first line of its
    message. Raises ElementTree.ParseError."""
    found = []
    for case in ElementTree.fromstring(text).iter("testcase"):
        fault = next((one for one in case if one.tag in ("failure", "error")), None)
        if fault is not None:
            name = ".".join(case.get(key, "") for key in ("classname", "name")).strip(".")
            message = (fault.get("message") or fault.text or "").strip()
            found.append((name, message.partition("\n")[0][:LINE_SHOWN]))
    return found


@dataclass(frozen=True)
class Stage:
    """One table of stages.toml.

    ``inputs`` are git pathspecs, or ``@NAME`` for a list of the table ``[inputs]``; a stage without
    inputs is never skipped as unchanged. ``versions`` are commands whose output belongs to the
    inputs. ``results`` are globs of JUnit files. ``after`` names stages that have to end before
    this one starts. ``alone``: nothing else runs at the same time, except stages that are
    ``with_alone``, which use one processor and do not change settings of the machine, and one that
    is ``spare``. This one runs with a lower priority and next to any other stage, in addition to
    the permitted number. It does not change settings of the machine, and its tests assert no
    duration. They have time limits, which they may exceed on a machine that is busy for long.
    ``limit_s``: the stage fails if one of its commands takes longer.
    """

    name: str
    about: str
    lanes: tuple[str, ...]
    commands: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    alone: bool = False
    with_alone: bool = False
    spare: bool = False
    limit_s: float = STAGE_S


@dataclass(frozen=True)
class Outcome:
    """How a stage ended: ``ok``, ``FAILED`` or ``skipped``, with a note for its line."""

    state: str
    note: str
    counts: Counts = field(default_factory=Counts)
    unchanged: bool = False

    @property
    def failed(self) -> bool:
        """Whether the stage failed."""
        return self.state == "FAILED"


def read_stages(path: Path) -> dict[str, Stage]:
    """Read a list of stages. Raises ValueError for a name that is not defined or defined twice."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    named: dict[str, list[str]] = document.get("inputs", {})
    stages: dict[str, Stage] = {}
    for table in document["stage"]:
        lists = {key: tuple(value) for key, value in table.items() if isinstance(value, list)}
        stage = Stage(**{**table, **lists})
        inputs: list[str] = []
        for one in stage.inputs:
            if one.startswith("@") and one[1:] not in named:
                raise ValueError(f"stage '{stage.name}': [inputs] does not define '{one[1:]}'")
            inputs += named[one[1:]] if one.startswith("@") else [one]
        unknown = (set(stage.lanes) - set(LANES)) | (set(stage.after) - set(stages))
        if stage.name in stages or unknown:
            raise ValueError(f"stage '{stage.name}': defined twice, or names unknown {unknown}")
        stages[stage.name] = Stage(**{**table, **lists, "inputs": tuple(inputs)})
    return stages


def environment() -> dict[str, str]:
    """The environment of commands: .venv first in PATH, without the variables of a calling make,
    and without PYTHONDONTWRITEBYTECODE, so that compiled tests are kept between runs."""
    variables = dict(os.environ)
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "PYTHONDONTWRITEBYTECODE"):
        variables.pop(name, None)
    variables["PATH"] = f"{ROOT / '.venv' / 'bin'}:{variables.get('PATH', os.defpath)}"
    return variables


class Runner:
    """Runs stages in a checkout and records the successful ones in a folder."""

    def __init__(self, root: Path, records: Path, use_records: bool = True) -> None:
        self.root = root
        self.logs = root / "build" / "check"
        self.stopped = threading.Event()
        self._records = records
        self._use_records = use_records

    def digest(self, stage: Stage) -> str:
        """SHA-256 of all that the outcome of a stage depends on, as far as it is declared."""
        words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]
        listed = subprocess.run(
            [*words, *stage.inputs], cwd=self.root, capture_output=True, check=True, timeout=60
        )
        found = hashlib.sha256(repr((stage, os.uname()[2:])).encode())
        for name in sorted(set(listed.stdout.decode().split("\0")) - {""}):
            path = self.root / name
            try:
                mode, data = path.stat().st_mode, path.read_bytes()
            except (FileNotFoundError, IsADirectoryError):
                mode, data = 0, b"removed"
            found.update(f"{name}\0{mode}\0".encode())
            found.update(hashlib.sha256(data).digest())
        for command in stage.versions:
            done = subprocess.run(
                command, shell=True, cwd=self.root, env=environment(), capture_output=True,
                check=False, timeout=60,
            )  # fmt: skip
            found.update(done.stdout + done.stderr)
        return found.hexdigest()

    def carry_out(self, stage: Stage) -> Outcome:
        """Run a stage unless it is unchanged."""
        record = None
        if stage.inputs:
            record = self._records / f"{stage.name}-{self.digest(stage)[:32]}.json"
            if self._use_records and record.exists():
                age_s = time.time() - record.stat().st_mtime
                if age_s < KEPT_S:
                    counts = Counts(**json.loads(record.read_text(encoding="utf-8")))
                    note = f"(unchanged){f' {counts}' if stage.results else ''}"
                    return Outcome("ok", note, counts, unchanged=True)
        outcome = self._run(stage)
        # files that changed while the stage ran are not what it was run on
        if record and outcome.state == "ok" and record.stem.endswith(self.digest(stage)[:32]):
            with contextlib.suppress(OSError):
                record.parent.mkdir(parents=True, exist_ok=True)
                new = record.with_suffix(f".{os.getpid()}")
                new.write_text(json.dumps(vars(outcome.counts)), encoding="utf-8")
                new.replace(record)
        return outcome

    def _run(self, stage: Stage) -> Outcome:
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{stage.name}.log"
        log.write_text("")
        for pattern in stage.results:
            for path in self.root.glob(pattern):
                path.unlink()
        status, reason = 0, ""
        for command in stage.commands:
            try:
                status = self._command(command, log, stage.limit_s, stage.spare)
            except TimeoutError as error:
                status, reason = 1, str(error)
            if status:
                reason = reason or f"'{command.split(' ')[0]}' exited with {status}"
                break
        said = log.read_text(encoding="utf-8", errors="replace").splitlines()
        last = "" if not said or said[-1].startswith("+ ") else said[-1].strip()[:100]
        # meson test exits with the number of failed tests, which may be 77 too
        if status == SKIPPED and not any(any(self.root.glob(one)) for one in stage.results):
            return Outcome("skipped", last)
        counts = Counts()
        for pattern in stage.results:
            found = sorted(self.root.glob(pattern))
            if not found:
                return Outcome("FAILED", f"{reason}: no {pattern}".lstrip(": "), Counts(failed=1))
            for path in found:
                try:
                    counts += count_junit(path.read_text(encoding="utf-8"))
                except (OSError, UnicodeDecodeError, ElementTree.ParseError) as error:
                    return Outcome("FAILED", f"{path.name}: {error}", counts + Counts(failed=1))
        if counts.failed:
            return Outcome("FAILED", str(counts), counts)
        if status:
            more = Counts(failed=1) if stage.results else Counts()
            return Outcome("FAILED", f"{reason}", counts + more)
        if stage.results and counts == Counts():
            return Outcome("FAILED", "ran no test", Counts(failed=1))
        return Outcome("ok", str(counts) if stage.results else last, counts)

    def _command(self, command: str, log: Path, limit_s: float, spare: bool) -> int:
        """Run a command, its output to the log. Raises TimeoutError after ``limit_s``."""
        with log.open("a", encoding="utf-8") as kept:
            kept.write(f"+ {command}\n")
        process = subprocess.Popen(
            [*(("nice", "-n", str(SPARE_NICE)) if spare else ()), "bash", "-ec", command],
            cwd=self.root,
            env=environment(),
            bufsize=0,
            stdin=subprocess.DEVNULL,
            # not the log itself: tests that limit the size of files would hit that limit there
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        if spare:
            # where each session is a group of the scheduler, nice has no effect between sessions
            with contextlib.suppress(OSError):
                Path(f"/proc/{process.pid}/autogroup").write_text(str(SPARE_NICE))
        reader = threading.Thread(target=keep_output, args=(process, log), daemon=True)
        reader.start()
        ends = time.monotonic() + limit_s
        try:
            while process.poll() is None:
                if self.stopped.is_set():
                    raise TimeoutError("stopped")
                if time.monotonic() > ends:
                    raise TimeoutError(f"took more than {limit_s:.0f} s")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_S)
            return process.returncode
        finally:
            end(process)
            # a process that the command left behind may hold the pipe open
            reader.join(END_S)


def keep_output(process: subprocess.Popen[bytes], log: Path) -> None:
    """Append the output of a command to the log until it ends."""
    assert process.stdout is not None
    with log.open("ab") as kept, process.stdout as output:
        shutil.copyfileobj(output, kept)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a command and its process group: SIGINT first, so that pytest prints its failures, then
    SIGTERM, so that the others restore settings."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)


def show(runner: Runner, stage: Stage, outcome: Outcome, took_s: float) -> None:
    """Print the line of a stage and, if it failed, the end of its log."""
    print(f"{stage.name:<14} {outcome.state:<7} {took_s:6.1f} s  {outcome.note}", flush=True)
    if outcome.failed:
        log = runner.logs / f"{stage.name}.log"
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        if len(lines) > LOG_LINES_SHOWN:
            print(f"  | ... (complete: {log.relative_to(runner.root)})")
        for line in lines[-LOG_LINES_SHOWN:]:
            print(f"  | {line}")


def show_failures(runner: Runner, stage: Stage) -> None:
    """Print a line for each failed test of a stage. Unreadable results were reported before."""
    found: list[tuple[str, str]] = []
    for pattern in stage.results:
        for path in sorted(runner.root.glob(pattern)):
            with contextlib.suppress(OSError, UnicodeDecodeError, ElementTree.ParseError):
                found += failures_of(path.read_text(encoding="utf-8"))
    for name, message in found[:FAILURES_SHOWN]:
        print(f"  {stage.name}: {name}: {message}"[:LINE_SHOWN])
    if len(found) > FAILURES_SHOWN:
        print(f"  {stage.name}: and {len(found) - FAILURES_SHOWN} more")


def run_all(
    runner: Runner, stages: Sequence[Stage], jobs: int, fail_fast: bool
) -> dict[str, Outcome]:
    """Run stages, at most ``jobs`` at a time and a spare one, and print the line of each when it
    ends. A stage that waits to be alone holds back the stages after it."""
    waiting, done = list(stages), dict[str, Outcome]()
    running: dict[concurrent.futures.Future[Outcome], tuple[Stage, float]] = {}
    chosen = {stage.name for stage in stages}

    def next_stage() -> Stage | None:
        others = [one for one, _ in running.values() if not one.spare]
        held = any(one.alone for one in others)
        for stage in waiting:
            if (set(stage.after) & chosen) - set(done):
                continue
            if stage.spare and len(others) == len(running):
                return stage
            if stage.spare or len(others) == jobs:
                continue
            if stage.with_alone:
                return stage
            if stage.alone and all(one.with_alone for one in others):
                return stage
            if not stage.alone and not held:
                return stage
            held = held or stage.alone
        return None

    with concurrent.futures.ThreadPoolExecutor(jobs + 1) as pool:
        try:
            while waiting or running:
                while ready := next_stage():
                    waiting.remove(ready)
                    failed = [one for one in ready.after if one in done and done[one].failed]
                    if failed:
                        done[ready.name] = Outcome("skipped", f"{', '.join(failed)} failed")
                        show(runner, ready, done[ready.name], 0)
                        continue
                    future = pool.submit(runner.carry_out, ready)
                    running[future] = ready, time.monotonic()
                for future in concurrent.futures.wait(running, return_when="FIRST_COMPLETED").done:
                    stage, started = running.pop(future)
                    done[stage.name] = future.result()
                    show(runner, stage, done[stage.name], time.monotonic() - started)
                    if fail_fast and done[stage.name].failed:
                        runner.stopped.set()
                        waiting.clear()
        finally:
            runner.stopped.set()
    return done


def records_folder() -> Path:
    """Where successful runs are recorded."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    above = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    return Path(os.environ.get("RTGAUGE_STAGES") or above / "rtgauge" / "stages")


def main() -> int:
    """Run what is named. Returns 0 if no stage failed."""
    stages = read_stages(ROOT / "tools" / "stages.toml")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", nargs="*", metavar="LANE|STAGE", choices=[*LANES, *stages, []])
    parser.add_argument("--all", action="store_true", help="run unchanged stages too")
    parser.add_argument("--fail-fast", action="store_true", help="stop at the first failure")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    given = parser.parse_args()
    if not given.what:
        for stage in stages.values():
            print(f"{stage.name:<14} {', '.join(stage.lanes):<18} {stage.about}")
        return 0
    lanes = [one for one in given.what if one in LANES]
    chosen = [
        one for one in stages.values() if one.name in given.what or set(one.lanes) & set(lanes)
    ]
    records = records_folder()
    for old in records.glob("*-*"):
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > KEPT_S:
                old.unlink()
    runner = Runner(ROOT, records, use_records=bool(lanes) and not given.all)
    started = time.monotonic()
    done = run_all(runner, chosen, max(1, given.jobs), given.fail_fast)
    print(f"{' '.join(given.what)}: {len(done)} stages in {time.monotonic() - started:.0f} s")
    failed = [name for name, outcome in done.items() if outcome.failed]
    missing = [one.name for one in chosen if one.name not in done]
    for what, names in (("failed", failed), ("not run", missing)):
        if names:
            print(f"{what}: {', '.join(names)}")
    for name in failed:
        show_failures(runner, stages[name])
    counts = sum((one.counts for one in done.values()), Counts())
    kept = sum((one.counts for one in done.values() if one.unchanged), Counts())
    if kept.passed:
        print(f"{kept.passed} of these tests passed earlier, in stages that are unchanged:")
    if counts != Counts():
        print(counts)
    return 1 if failed or missing else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\ninterrupted")
