# SPDX-License-Identifier: Apache-2.0
"""``kill -9`` at random moments of real runs: what is lost, what is left behind.

    .venv/bin/python bench/kills.py --rounds 500 --seed 1

Each round is a true run (``rtgauge run timer`` with a load, with and without ``--prepare``) in
which one process is killed, drawn at random: the host, the agent, its guardian, the leader of the
load, another process of the load, agent and guardian together, or all of them. Afterwards

- settings are as before (for those who took the guardian along: after the agent's next start),
- no process is left, no journal in the state folder,
- the store opens, lists the run with a state that is true, and the run can be reported,
- what is kept ends at most a second before the kill.

The host of a round is a fork of this process, which has loaded all that it needs. Rounds change
the kernel's settings, so they follow one another, and nothing else may change these during a round.
With ``--shadow`` copies of the settings' files are bound over them in a mount namespace, so that
other agents do not matter and ``--jobs`` rounds can go side by side. What was violated is kept in
``--keep``, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from pairs import write_results

from rtgauge import report
from rtgauge.cli import main as rtgauge
from rtgauge.report.results import model
from rtgauge.store import Store, StoredRun
from rtgauge.target.local import find_agent

ROOT: Final = Path(__file__).resolve().parents[1]
MARK: Final = "RTGAUGE_KILLS_ROUND"
SECONDS: Final = 2.0
PERIODS: Final = round(SECONDS * 1000)
LIMIT_NS: Final = 1_000_000_000
NOTICED_MS: Final = 250  # a load's leader has to get CPU time to notice a death, as the agent has
LATE_MAX: Final = 5
HOST_TIMEOUT_S: Final = 60.0
GONE_TIMEOUT_S: Final = 30.0
SETTINGS: Final = (
    *("sched_rt_runtime_us", "soft_watchdog", "nmi_watchdog", "watchdog", "numa_balancing"),
    "timer_migration",
)
FILES: Final = (
    *(f"/proc/sys/kernel/{name}" for name in SETTINGS),
    "/proc/sys/vm/stat_interval",
    "/proc/sys/vm/compaction_proactiveness",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/ksm/run",
    "/sys/kernel/rcu_normal",
    "/sys/devices/virtual/workqueue/cpumask",
    "/proc/irq/default_smp_affinity",
)
GLOBS: Final = (
    ("/proc/irq", "*/smp_affinity_list"),
    ("/sys/devices/system/cpu/cpufreq", "policy*/*_*governor"),
    ("/sys/devices/system/cpu/cpufreq", "policy*/energy_performance_preference"),
    ("/sys/kernel/debug/sched/fair_server", "cpu*/runtime"),
)

HOST, AGENT, GUARDIAN, LEADER, LEAF = "host", "agent", "guardian", "load leader", "load process"
CHILD = "child of the agent"
MEASURER = "measuring process"
STARTING = "process that has no name yet"
VICTIMS: Final[dict[str, tuple[str, ...]]] = {
    HOST: (HOST,),
    AGENT: (AGENT,),
    GUARDIAN: (GUARDIAN,),
    LEADER: (LEADER,),
    LEAF: (LEAF,),
    MEASURER: (MEASURER,),
    "agent and guardian": (AGENT, GUARDIAN),
    "all": (HOST, AGENT, GUARDIAN),
}


class Violation(Exception):
    """Something is not as it must be after a kill."""


# Settings


def setting_files() -> list[Path]:
    """The files of all settings that a run may change, as far as they are here."""
    found = [Path(name) for name in FILES]
    for folder, pattern in GLOBS:
        found += sorted(Path(folder).glob(pattern))
    return [path for path in found if path.is_file()]


def chosen(text: str) -> str:
    """The value of a setting's file: the word in brackets, where it shows a choice."""
    text = text.strip()
    return text.partition("[")[2].partition("]")[0] if "[" in text else text


def settings() -> dict[str, str]:
    return {str(path): chosen(path.read_text()) for path in setting_files()}


def shadow_command(folder: Path, words: list[str]) -> list[str]:
    """``words`` in a mount namespace where copies in ``folder`` stand for the settings."""
    lines = []
    for number, path in enumerate(setting_files()):
        (folder / str(number)).write_text(chosen(path.read_text()) + "\n")
        lines.append(f'mount --bind "$0/{number}" {path} || exit 9')
    script = "\n".join([*lines, 'exec "$@"'])
    return ["unshare", "-m", "sh", "-c", script, str(folder), *words]


# Processes


def _marked(process: Path, mark: bytes) -> bool:
    return mark in (process / "environ").read_bytes().split(b"\0")


def processes(mark: str, host: int) -> dict[str, list[int]]:
    """Process ids by kind: those started in the round that ``mark`` names, zombies left out."""
    found: dict[str, list[int]] = {}
    stats: dict[int, tuple[int, str]] = {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if not _marked(process, mark.encode()):
                continue
            name, _, rest = (process / "stat").read_text().partition("(")[2].rpartition(")")
            state, parent, group = rest.split()[:3]
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if state in "ZX":
            continue
        pid = int(process.name)
        stats[pid] = (int(group), name)
        if name != "rtgauge-guard" and int(parent) == host and b"run" in words[1:2]:
            found.setdefault(AGENT, []).append(pid)
    agents = found.get(AGENT, [])
    for pid, (its_group, name) in stats.items():
        if pid in agents or pid == host:
            continue
        if name == "rtgauge-guard":
            kind = GUARDIAN
        elif its_group in agents:
            kind = CHILD
        elif name == "rtgauge-measure":
            kind = MEASURER
        elif pid == its_group:
            # a guardian leads a group, too, before it has its name
            kind = LEADER if name.startswith("load/") else STARTING
        else:
            kind = LEAF
        found.setdefault(kind, []).append(pid)
    return found


def wait_for_none(mark: str, kinds: tuple[str, ...] | None, what: str) -> None:
    limit = time.monotonic() + GONE_TIMEOUT_S
    while True:
        left = {
            kind: pids
            for kind, pids in processes(mark, -1).items()
            if kinds is None or kind in kinds
        }
        if not left:
            return
        if time.monotonic() > limit:
            raise Violation(f"{what}: {left} are left")
        time.sleep(0.02)


# A round


@dataclass
class Round:
    """What one round did and found."""

    number: int
    victim: str
    prepare: bool
    late: int = 0  # runs that were over before the moment drawn: drawn again
    state: str = ""
    lost_ms: float | None = None
    restored_later: int = 0  # settings that were still changed when the guardian had gone too
    violation: str = ""


@dataclass
class World:
    """Where the rounds of one process take place."""

    folder: Path
    seed: int
    keep: Path
    before: dict[str, str] = field(default_factory=settings)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def said(self) -> Path:
        return self.folder / "host.txt"


@contextlib.contextmanager
def host(world: World, mark: str, words: list[str]) -> Iterator[int]:
    """A fork that carries out ``rtgauge WORDS``; killed at the end if it still lives."""
    name, _, value = mark.partition("=")
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            os.setsid()
            os.environ[name] = value
            os.environ["RTGAUGE_STATE"] = str(world.state)
            with world.said.open("wb") as said:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
            code = rtgauge(words)
        finally:
            os._exit(code)
    try:
        yield pid
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def strike(one: Round, pid: int, mark: str, rng: random.Random) -> int:
    """Kill the drawn victim at the drawn moment. Gives the time (CLOCK_MONOTONIC), 0: too late."""
    kinds = VICTIMS[one.victim]
    delay: float | None = None
    while not ended(pid):
        found = processes(mark, pid) | {HOST: [pid]}
        if not all(kind in found for kind in kinds) or AGENT not in found:
            time.sleep(0.01)
            continue
        if delay is None:
            delay = rng.random() * SECONDS
            time.sleep(delay)
            continue
        moment = time.monotonic_ns()
        kill([rng.choice(found[kind]) for kind in kinds])
        return moment
    return 0


def kill(pids: Sequence[int]) -> None:
    """Kill the processes, and wait until they have ended. Until then they hold their locks, which
    takes longer than an agent waits for a lock if the machine is busy."""
    with contextlib.ExitStack() as handles:
        ending = []
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                ending.append(os.pidfd_open(pid))
                handles.callback(os.close, ending[-1])
        for handle in ending:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        limit = time.monotonic() + GONE_TIMEOUT_S
        for handle in ending:
            if not select.select([handle], [], [], max(limit - time.monotonic(), 0))[0]:
                raise Violation(f"killed processes do not end: {pids}")


def next_start(world: World, rng: random.Random) -> None:
    """The agent starts again: to restore only, or to measure."""
    agent = str(find_agent())
    words = rng.choice([["restore"], ["run", "timer", "--for", "20ms"]])
    environment = {**os.environ, "RTGAUGE_STATE": str(world.state)}
    done = subprocess.run(
        [agent, *words],
        env=environment, capture_output=True, text=True, timeout=HOST_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise Violation(f"the next start failed: {done.stderr}")


def check_system(world: World, one: Round, mark: str, rng: random.Random) -> None:
    """Settings, processes, journals."""
    wait_for_none(mark, (AGENT, GUARDIAN), "agent and guardian should have ended")
    if GUARDIAN in VICTIMS[one.victim] and one.victim != GUARDIAN:
        now = settings()
        one.restored_later = sum(now[name] != value for name, value in world.before.items())
        next_start(world, rng)
    wait_for_none(mark, None, "every process should have ended")
    now = settings()
    if now != world.before:
        changed = {
            name: f"{value} -> {now.get(name)}"
            for name, value in world.before.items()
            if now.get(name) != value
        }
        raise Violation(f"settings are not as before: {changed}")
    left = os.listdir(world.state) if world.state.exists() else []
    if left:
        raise Violation(f"left in the state folder: {left}")


def lost_ns(run: StoredRun, moment: int) -> int | None:
    """From the last sample that is kept until the kill; None where that says nothing: the step was
    over by then, or had not begun to measure."""
    for step in run.steps:
        header = step.header
        if step.document.get("measurement") != "timer" or header is None or step.trailer:
            continue
        # without any sample: measuring begins right after the header
        ends = [
            header.start_ns + one.totals.last_due_ns if one.count else header.clock.monotonic_ns
            for one in step.series
            if one.totals.count + one.totals.missed < PERIODS  # else all is there
        ]
        return moment - min(ends) if ends else None
    return None


def check_store(world: World, one: Round, moment: int, folder: Path) -> None:
    with Store.open(str(world.data)) as store:
        rows = store.runs()
        if len(rows) > 1:
            raise Violation(f"{len(rows)} runs are listed")
        if not rows:
            # killed before it had made the folder of its run
            if one.victim not in (HOST, "all"):
                raise Violation("the run is not listed")
            return
        run = store.get(rows[0].id)
        one.state = rows[0].state
        document = model.build([run])
        model.validate(document)
        source = report.Source([run])
        for make in report.FORMATS.values():
            make(source)
        check_state(one, run, moment)
        lost = lost_ns(run, moment)
        if lost is not None:
            one.lost_ms = max(lost, 0) / 1e6
            if lost > LIMIT_NS:
                raise Violation(f"{lost / 1e9:.3f} s before the kill are missing")
        store.delete(rows[0].id)
        if any(folder.iterdir()):
            raise Violation(f"left in the store: {os.listdir(folder)}")


def check_state(one: Round, run: StoredRun, moment: int) -> None:
    """Whether the state is what happened."""
    trailers = [step.trailer for step in run.steps]
    reasons = [str(step.document.get("reason", "")) for step in run.steps]
    complete = all(trailer is not None and trailer.state == "complete" for trailer in trailers)
    if one.state == "complete" and not complete:
        raise Violation("the run is called complete, a step of it is not")
    allowed = {
        HOST: ("interrupted", "complete"),
        GUARDIAN: ("complete",),
        LEADER: ("failed", "complete"),
        LEAF: ("failed", "complete"),
        MEASURER: ("failed", "complete"),
    }.get(one.victim, ("interrupted", "complete"))
    if one.state not in allowed:
        raise Violation(f"the state is {one.state}: {[reason for reason in reasons if reason]}")
    if one.victim not in (LEADER, LEAF, MEASURER):
        return
    told = "measuring process" if one.victim == MEASURER else "load"
    if one.state == "failed":
        if not any(told in reason for reason in reasons):
            raise Violation(f"the death of the {told} is not told: {reasons}")
        return
    for step in run.steps:
        if step.document.get("measurement") != "timer" or step.header is None:
            continue
        ends = [step.header.start_ns + series.totals.last_due_ns for series in step.series]
        before_ms = (min(ends) - moment) / 1e6
        if before_ms > NOTICED_MS:
            raise Violation(f"the {told} died {before_ms:.0f} ms before the end, unnoticed")


def kill_one(world: World, one: Round, mark: str, rng: random.Random) -> int:
    """A run, and a kill in it; when that was, 0 when the run was over before."""
    words = ["run", "timer", "--for", f"{SECONDS}s", "--interval", "1ms"]
    words += ["--load", "sched:groups=1", "--store", str(world.data)]
    if one.victim == MEASURER:  # the interval timer is a process's own, so it has one
        words += ["--method", "itimer"]
    if one.prepare:
        words += ["--prepare", "--cpu", "1"]
    with host(world, mark, words) as pid:
        moment = strike(one, pid, mark, rng)
        limit = time.monotonic() + HOST_TIMEOUT_S
        while not ended(pid):
            if time.monotonic() > limit:
                raise Violation("the host does not end")
            time.sleep(0.02)
    return moment


def carry_out(world: World, number: int) -> Round:
    rng = random.Random(f"{world.seed} {number}")
    one = Round(number, rng.choice(list(VICTIMS)), rng.random() < 0.5)
    mark = f"{MARK}={os.getpid()}-{number}"
    try:
        while not (moment := kill_one(world, one, mark, rng)):
            one.late += 1
            if one.late == LATE_MAX:
                raise Violation(f"{LATE_MAX} runs were over at once")
            shutil.rmtree(world.data, ignore_errors=True)
        check_system(world, one, mark, rng)
        check_store(world, one, moment, world.data / "runs")
    except Exception as error:
        one.violation = str(error) if isinstance(error, Violation) else repr(error)
        kept = world.keep / f"round-{number}"
        shutil.copytree(world.folder, kept, dirs_exist_ok=True)
        (kept / "round.json").write_text(json.dumps(asdict(one), indent=1) + "\n")
        shutil.rmtree(world.data, ignore_errors=True)
    return one


# The whole


def work(arguments: argparse.Namespace) -> int:
    """Rounds one after the other, each a line of JSON on stdout."""
    with tempfile.TemporaryDirectory(prefix="rtgauge-kills-", dir=memory()) as name:
        world = World(Path(name), arguments.seed, arguments.keep)
        world.state.mkdir(mode=0o700)
        for number in range(arguments.first + arguments.worker, arguments.rounds, arguments.jobs):
            print(json.dumps(asdict(carry_out(world, number))), flush=True)
    return 0


def memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def start(arguments: argparse.Namespace, number: int, folder: Path) -> subprocess.Popen[str]:
    words = [sys.executable, str(Path(__file__).resolve()), "--worker", str(number)]
    for name in ("rounds", "first", "seed", "jobs", "keep"):
        words += [f"--{name}", str(getattr(arguments, name))]
    if arguments.shadow:
        (folder / str(number)).mkdir()
        words = shadow_command(folder / str(number), words)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)


def summarise(rounds: list[Round]) -> list[dict[str, Any]]:
    """A case for each kind of victim; prints a line for each."""
    cases = []
    for victim in VICTIMS:
        these = [one for one in rounds if one.victim == victim]
        if not these:
            continue
        lost = [one.lost_ms for one in these if one.lost_ms is not None]
        violations = [f"round {one.number}: {one.violation}" for one in these if one.violation]
        states = Counter(one.state or "no run yet" for one in these if not one.violation)
        later = sum(one.restored_later > 0 for one in these)
        cases.append(
            {
                "name": victim,
                "rounds": len(these),
                "prepared": sum(one.prepare for one in these),
                "states": dict(states),
                "lost_ms_median": round(statistics.median(lost), 1) if lost else None,
                "lost_ms_max": round(max(lost), 1) if lost else None,
                "restored_at_next_start": later,
                "runs_over_before": sum(one.late for one in these),
                "violations": violations,
                "held": not violations,
            }
        )
        said = ", ".join(f"{state} {count}" for state, count in sorted(states.items()))
        print(
            f"{victim}: {len(these)} kills: {said}"
            + (f"; at most {max(lost):.0f} ms lost" if lost else "")
            + (f"; restored at the next start {later} times" if later else "")
            + f"; {len(violations)} violations"
        )
    return cases


def run_rounds(arguments: argparse.Namespace) -> list[Round]:
    rounds = []
    with tempfile.TemporaryDirectory(prefix="rtgauge-shadow-", dir=memory()) as name:
        workers = [start(arguments, number, Path(name)) for number in range(arguments.jobs)]
        try:
            for worker in workers:
                assert worker.stdout
                for line in worker.stdout:
                    one = Round(**json.loads(line))
                    rounds.append(one)
                    if one.violation:
                        print(
                            f"round {one.number} ({one.victim}): {one.violation}", file=sys.stderr
                        )
                if worker.wait() != 0:
                    raise SystemExit(f"a worker ended with {worker.returncode}")
        finally:
            for worker in workers:
                worker.terminate()
    return sorted(rounds, key=lambda one: one.number)


def facts(arguments: argparse.Namespace) -> Mapping[str, object]:
    return {
        "rounds": arguments.rounds - arguments.first,
        "seed": arguments.seed,
        "settings": "copies of the kernel's files" if arguments.shadow else "the kernel's own",
        "side_by_side": arguments.jobs,
        "measured": f"timer, {SECONDS} s, 1 ms, load sched:groups=1; half of them prepared",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="kill -9 at random moments of real runs")
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="begin at this round")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shadow", action="store_true", help="copies in the settings' place")
    parser.add_argument("--jobs", type=int, default=1, help="rounds side by side, with --shadow")
    parser.add_argument("--keep", type=Path, default=ROOT / "build" / "kills")
    parser.add_argument("--no-results", action="store_true", help="print only")
    parser.add_argument("--worker", type=int, default=-1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("the agent has to change settings: run it as root")
    if arguments.worker >= 0:
        return work(arguments)
    if arguments.jobs > 1 and not arguments.shadow:
        parser.error("side by side they would change each other's settings: give --shadow")
    cases = summarise(run_rounds(arguments))
    if not arguments.no_results:
        print(write_results("kills", facts(arguments), cases).name)
    return 0 if all(case["held"] for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
