# SPDX-License-Identifier: Apache-2.0
"""What a replay costs, whether replays are equal, and what is left of one that was killed.

    python bench/replay.py [--pairs N] [--replays N] [--kills N] [--board NAME] [--folder FOLDER]

- *time*: a run of a counted board and its explanation, in turns. The limit of the ratio is 1.5. The
  first explanation on a kernel also reads its names from the board, so it is measured apart, with a
  cache that lacks them.
- *equal*: replays of one run. Each compares all samples, and their causes have to be equal.
- *kills*: ``kill -9`` of the host or of QEMU at a random moment of a replay. Afterwards no process
  is left. After the next replay no folder is left, no lock is held, and the run is as it was.

With ``--folder`` the runs and counts are kept there, and the next call adds to them, so that much
can be done a part at a time. The results file keeps the cases that a call does not carry out.

The time is that of the processor, for the host and QEMU together, so that other work on the machine
matters little. The time on the clock is next to it.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pairs import RESULTS, Pair, summarise, write_results

from rtgauge.lab.cache import CACHE_VARIABLE, cache_folder

LIMIT: Final = 1.5
SAMPLES: Final = (300, 2000)
SHORT: Final = 300
MARK: Final = "RTGAUGE_REPLAY_ROUND"
GONE_S: Final = 20.0
LONGEST_S: Final = 600.0
PROGRAM: Final = "import sys; from rtgauge.cli import main; sys.exit(main())"


class Bench:
    """A store and folders of its own, and the cache of the lab without the names of kernels."""

    def __init__(self, folder: Path, board: str) -> None:
        self.folder = folder
        self.board = board
        self.store = folder / "store"
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True, exist_ok=True)
        self.cache = folder / "cache"
        self.cache.mkdir(exist_ok=True)
        for path in cache_folder().iterdir():
            own = self.cache / path.name
            if not path.name.startswith("names") and not own.is_symlink():
                own.symlink_to(path)

    def words(self, *words: str) -> list[str]:
        return [sys.executable, "-c", PROGRAM, *words, "--store", str(self.store), "--json"]

    def world(self) -> dict[str, str]:
        """The environment of a command."""
        more = {
            CACHE_VARIABLE: str(self.cache),
            "TMPDIR": str(self.temporary),
            MARK: str(os.getpid()),
        }
        return {**os.environ, **more}

    def ask(self, *words: str) -> tuple[bytes, float, float]:
        """What a command prints, its time of the processor and on the clock, in s."""
        began, before = time.monotonic(), cpu_s()
        done = subprocess.run(
            self.words(*words),
            env=self.world(),
            capture_output=True,
            timeout=LONGEST_S,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"rtgauge {' '.join(words)}: {done.stderr.decode()}")
        return done.stdout, cpu_s() - before, time.monotonic() - began

    def kept(self, name: str) -> dict[str, Any]:
        """What earlier calls found; empty at first."""
        path = self.folder / f"{name}.json"
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def keep(self, name: str, found: Mapping[str, object]) -> None:
        (self.folder / f"{name}.json").write_text(json.dumps(found))

    def run(self, samples: int, load: str = "sched") -> tuple[float, float]:
        words = ("--context", "irq,kernel,user", "--load", load, "--target", f"lab:{self.board}")
        return self.ask("run", "timer", "--samples", str(samples), *words)[1:]

    def use(self, name: str, load: str) -> None:
        """From now on a store of that name, with a run that the first call makes."""
        self.store = self.folder / name
        if not (self.store / "runs").exists():
            self.run(SHORT, load)

    def explain(self) -> tuple[float, float]:
        return self.ask("explain", "last")[1:]

    def forget_names(self) -> None:
        """As before the first replay on this kernel."""
        for path in (self.cache / "names").glob("*"):
            path.unlink()


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def times(bench: Bench, pairs: int, samples: int) -> Mapping[str, object]:
    """The ratio of a replay to its run, in turns."""
    whole, _ = bench.run(samples)
    bench.forget_names()
    first, _ = bench.explain()
    found, clock = [], []
    for number in range(pairs):
        ours_first = number % 2 == 0
        peer = (0.0, 0.0) if ours_first else bench.run(samples)
        ours = bench.explain()
        peer = bench.run(samples) if ours_first else peer
        found.append(Pair(ours[0], peer[0], ours_first))
        clock.append(ours[1] / peer[1])
        print(f"{samples} samples: {ours}, {peer}", file=sys.stderr, flush=True)
    return summarise(
        f"time of the processor, {samples} samples",
        found,
        at_most=LIMIT,
        details={
            "first_replay_ratio": round(first / whole, 3),
            "ratios_on_the_clock": [round(one, 3) for one in clock],
        },
    )


def equal(bench: Bench, replays: int) -> Mapping[str, object]:
    """Whether replays of one run agree in all samples and causes."""
    bench.use("equal", "sched:groups=1")
    kept = bench.kept("replays")
    seen, samples = Counter(kept.get("kinds", {})), set(kept.get("samples", ()))
    for _ in range(replays):
        document = json.loads(bench.ask("explain", "last", "--worst", "1")[0])
        samples.add(document.pop("replay")["samples"])
        seen[hashlib.sha256(json.dumps(document).encode()).hexdigest()] += 1
        bench.keep("replays", {"kinds": seen, "samples": sorted(samples)})
        print(f"replay {seen.total()}: {len(seen)} kinds", file=sys.stderr, flush=True)
    held = len(seen) == len(samples) == 1
    print(f"{seen.total()} replays of {samples} samples: {len(seen)} kinds")
    return {
        "name": "replays of one run are equal",
        "replays": seen.total(),
        "samples": max(samples),
        "different": len(seen) - 1,
        "held": held,
    }


def kills(bench: Bench, rounds: int, seed: int) -> Mapping[str, object]:
    """What is left of replays that were killed."""
    bench.use("kills", "idle")
    _, _, whole = bench.ask("explain", "last", "--worst", "1")
    before = contents(bench.store)
    kept = bench.kept("kills")
    faults, killed = list(kept.get("faults", ())), Counter(kept.get("killed", {}))
    for _ in range(rounds):
        draw = random.Random(seed + killed.total())
        who = draw.choice(("host", "QEMU"))
        fault = kill(bench, who, draw.uniform(0.0, whole))
        killed[who] += 1
        print(f"kill {killed.total()}: {who} {fault}", file=sys.stderr, flush=True)
        if fault:
            faults.append(f"round {killed.total()}, {who}: {fault}")
            print(faults[-1])
        bench.keep("kills", {"killed": killed, "faults": faults})
    bench.ask("explain", "last", "--worst", "1")
    left = [str(path) for path in left_folders(bench)]
    left += [f"held lock {path}" for path in held_locks(bench)]
    left += [] if contents(bench.store) == before else ["the run was changed"]
    print(f"{killed.total()} kills: {len(faults)} faults, left: {left}")
    return {
        "name": "replays that were killed",
        "killed": dict(killed),
        "faults": faults,
        "left": left,
        "held": not faults and not left,
    }


def kill(bench: Bench, who: str, after_s: float) -> str:
    """Kill one process of a replay. Gives what was wrong afterwards, or nothing."""
    words = bench.words("explain", "last", "--worst", "1")
    with subprocess.Popen(
        words, env=bench.world(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as host:
        time.sleep(after_s)
        victims = [host.pid] if who == "host" else [one for one in marked() if one != host.pid]
        for victim in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        _, said = host.communicate(timeout=LONGEST_S)
    until = time.monotonic() + GONE_S
    while (left := marked()) and time.monotonic() < until:
        time.sleep(0.05)
    if left:
        return f"processes are left: {left}"
    lines = said.decode().splitlines()
    if any(line.startswith("Traceback") for line in lines):
        return lines[-1]
    if who == "QEMU" and list(bench.temporary.glob(f"rtgauge-explain-{host.pid}-*")):
        return "the folder of the replay is left"
    return ""


def marked() -> list[int]:
    """The processes of this bench, but for itself."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if MARK.encode() + f"={os.getpid()}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def left_folders(bench: Bench) -> Iterator[Path]:
    """Folders of processes that have ended."""
    for parent, name in ((bench.temporary, "rtgauge-explain"), (Path("/dev/shm"), "rtgauge-lab")):
        for path in parent.glob(f"{name}-[0-9]*-*"):
            if not Path("/proc", path.name.split("-")[2]).exists():
                yield path


def held_locks(bench: Bench) -> Iterator[Path]:
    """Locks below the bench's own folders that a process holds."""
    for path in (one for one in bench.folder.rglob("*.lock") if not one.is_symlink()):
        with open(path, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                yield path


def contents(store: Path) -> Mapping[str, str]:
    """The files of the runs, without what explaining adds."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((store / "runs").rglob("*"))
        if path.is_file() and path.name != "causes.json"
    }


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--board", default="x86_64-stock")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of a run and a replay")
    parser.add_argument("--replays", type=int, default=50, help="replays that have to be equal")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--samples", type=int, nargs="+", default=SAMPLES, help="sizes of pairs")
    parser.add_argument("--folder", type=Path, help="keeps runs and counts for the next call")
    given = parser.parse_args(words)
    cases: list[Mapping[str, object]] = []
    with contextlib.ExitStack() as stack:
        folder = given.folder or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="rtgauge-bench-"))
        )
        bench = Bench(folder, given.board)
        if given.pairs:
            cases += [times(bench, given.pairs, samples) for samples in given.samples]
        if given.replays:
            cases.append(equal(bench, given.replays))
        if given.kills:
            cases.append(kills(bench, given.kills, given.seed))
    write_results("replay", {"board": given.board, "seed": given.seed}, with_others(cases))
    return 0 if all(case["held"] for case in cases) else 1


def with_others(cases: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """These cases, and those of the results so far that have other names."""
    path = RESULTS / "replay.json"
    found = json.loads(path.read_text())["cases"] if path.exists() else []
    named = {case["name"]: case for case in [*found, *cases]}
    return list(named.values())


if __name__ == "__main__":
    sys.exit(main())
