# SPDX-License-Identifier: Apache-2.0
"""Mutation testing of every listed module: which of its mutants do the tests notice?

    .venv/bin/python bench/mutation.py                    at most 150 mutants of each module
    .venv/bin/python bench/mutation.py --sample 100000    all of them, for hours
    .venv/bin/python bench/mutation.py --again            the survivors of that run alone
    .venv/bin/python bench/mutation.py --collect          the results of earlier runs

`tools/mutants.py` tries the mutants of each module that `tests/mutants.toml` lists, and writes what
it found into `build/mutants/`. A module without a result there is left out. Each module is a case,
within the limit if its tests kill 95 % of the mutants tried. Equivalent mutants are not tried.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

from pairs import write_results

ROOT: Final = Path(__file__).resolve().parents[1]
FOUND: Final = ROOT / "build" / "mutants"
LEAST: Final = 0.95


def modules() -> list[str]:
    """The modules listed."""
    return list(tomllib.loads((ROOT / "tests" / "mutants.toml").read_text())["modules"])


def place(module: str) -> Path:
    """Where the result of a module is."""
    return FOUND / f"{module.removesuffix('.py').replace('/', '-')}.json"


def again(module: str) -> Path:
    """Where the second result of its survivors is."""
    return place(module).with_suffix(".again.json")


def attempt(module: str, output: Path, *words: str) -> None:
    """Try mutants of a module. Fewer than 95 % killed, or stale entries, give code 1."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "mutants.py"), module, "--output", str(output),
         *words], check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1) or not output.exists():
        raise SystemExit(f"{module}: tools/mutants.py ended with {done.returncode}")


def read(module: str, path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())["modules"][module]
    return found


def outcome(module: str) -> dict[str, Any]:
    """The result of a module, with the second result of its survivors."""
    one = read(module, place(module))
    if not again(module).exists():
        return one
    other = read(module, again(module))
    return one | {
        "equivalent": one["equivalent"] + other["equivalent"],
        "tried": one["killed"] + other["tried"],
        "killed": one["killed"] + other["killed"],
        "alive": other["alive"],
    }


def case(module: str) -> dict[str, Any]:
    """The case of a module, with its survivors."""
    one = outcome(module)
    survivors = [
        f"{each['line']} [{each['function']}] {each['change']}  {each['text']}"
        for each in one["alive"]
    ]
    return {
        "name": module,
        "mutants": one["mutants"],
        "equivalent": one["equivalent"],
        "tried": one["tried"],
        "killed": one["killed"],
        "killed_by_time": one["timeout"],
        "survivors": survivors,
        "held": one["killed"] >= LEAST * one["tried"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="mutation testing of every listed module")
    parser.add_argument("--sample", type=int, default=150, help="mutants of each module, at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="try the survivors again")
    parser.add_argument("--collect", action="store_true", help="use the results of earlier runs")
    arguments = parser.parse_args()
    FOUND.mkdir(parents=True, exist_ok=True)
    there = [module for module in modules() if place(module).exists()]
    if arguments.again:
        for module in there:
            if read(module, place(module))["alive"]:
                attempt(module, again(module), "--survivors", str(place(module)))
    elif not arguments.collect:
        for module in modules():
            again(module).unlink(missing_ok=True)
            words = "--sample", str(arguments.sample), "--seed", str(arguments.seed)
            attempt(module, place(module), *words)
        there = modules()
    cases = [case(module) for module in there]
    tried, killed = (sum(one[key] for one in cases) for key in ("tried", "killed"))
    facts = {"sample": arguments.sample, "seed": arguments.seed, "tried": tried, "killed": killed}
    print(write_results("mutation", facts, cases).name)
    print(f"{killed} of {tried} mutants killed, {killed / tried:.1%}")
    return 0 if all(one["held"] for one in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
