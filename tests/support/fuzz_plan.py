# SPDX-License-Identifier: Apache-2.0
"""Fuzzing plans: true plans with some of their keys, values and tables changed.

    PYTHONPATH=src python tests/support/fuzz_plan.py --executions 10000000 --jobs 2 --seed 1

Each plan is read, and what it reaches outside rtgauge is found. One that is refused must be refused
with one line and a remedy. One in ``--follow`` of those that are accepted, and the first that are
refused for a reason, go through the commands: they are described as text and as JSON, and one in
``CARRIED_OUT`` of the accepted ones that are small is carried out on the fake target and shown in
the terminal, as Markdown and as JSON (one in ``OTHERS`` of these in the other formats, one in
``PDF`` as PDF). The plan that fails is written to ``--keep``.
"""

from __future__ import annotations

import copy
import json
import math
import os
import random
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any
from unittest import mock

import fuzzing
import streams
from fuzzing import Tally
from rtgauge import report
from rtgauge.catalogue import Catalogue, RunOption
from rtgauge.cli.consent import outside
from rtgauge.errors import RtgaugeError
from rtgauge.options import HOST_OPTIONS
from rtgauge.plan import Plan, plan_targets, read_plan
from rtgauge.target.fake import CATALOGUE, FAULTS

BLOCK = 2000
FOLLOW = 20
CARRIED_OUT = 1
OTHERS = 5
PDF = 40
STEPS = 8
PLANS = Path(__file__).resolve().parents[2] / "plans"
FIRST = (".md", ".json")
# "realtime" waits.
TARGETS = ("fake", *(f"fake:{name}" for name in FAULTS if name not in ("cpus", "exit", "realtime")))

TEXTS = ("a", "", " ", "\u202e", "a\nb", "\x1b[2J", "\0", "<b>", "A" * 300, "| |", "é", "%s", "'")
# Values of options by their notation, and by their type.
NOTATIONS: dict[str, tuple[Any, ...]] = {
    "LOADS": ("idle", "sched", "sched:groups=8,cpu", "doload", "net:cycle=14s:until=7s"),
    "COMMAND": ("stress-ng --vm 2", "true; false"),
    "gpio:CHIP:LINE": ("gpio:gpiochip0:17", "gpio:0:1"),
    "KIND:LENGTH:PERIOD": ("preempt_disable:200us:7.301ms",),
    "PRIORITY": ("40", "24=90,eth*=60,40", "eth0", "100", ""),
    "RATE": ("1/h", "2/d", "1/10m"),
    "TARGET": ("fake", "fake:late"),
    "LINE": ("gpio:gpiochip0:4:5", "a"),
    "NAME=VALUE": ("cpu=1", "priority=90", "cpu=1 priority=90"),
    "N": (1, 2, 0.5, 1e9),
}
TYPES: dict[str, tuple[Any, ...]] = {
    "flag": (True, False, "yes"),
    "duration": ("150us", "1ns", "1h", "", 3),
    "cpus": ("0", "1", "all"),
    "text": TEXTS,
    "integer": (1, 20),
}


def _of_option(option: RunOption) -> tuple[Any, ...]:
    if option.type in ("enum", "enums"):
        return option.values
    return NOTATIONS.get("".join(option.values), TYPES[option.type])


# The options that every step can have, and the one that only files have.
OF_EVERY_STEP = [
    option
    for option in (*Catalogue.from_document(dict(CATALOGUE)).run_options, *HOST_OPTIONS)
    if option.applies_to("step") or option.applies_to("file")
]
VALUES: dict[str, tuple[Any, ...]] = {
    **{option.name: _of_option(option) for option in OF_EVERY_STEP},
    "for": ("50ms", "1s", "0.2s", "10ms", "1h", "0"),
    "samples": (1, 20, "5", 300, "0"),
    "interval": ("1ms", "200us", "1000us", "20us", "1h"),
    "cpu": ("0", "1", "0-1", "all"),
    "priority": (80, "99", 1),
    "dither": (True, False, "yes"),
    "method": (["nanosleep", "timerfd"], "deadline", "timer,itimer", ["timer"]),
    "bobs": (1, 100),
    "string": ("64KiB", 1),
    "medium": ("water", "honey"),
    "context": (["irq", "user"], "kernel"),
    "edge": ("both", "rising"),
    "line": ("gpio:gpiochip0:1:2", ""),
}
PLAN_VALUES: dict[str, tuple[Any, ...]] = {
    "name": ("mine", *TEXTS),
    "summary": ("what it is about", *TEXTS),
    "label": ("kernel 6.12", *TEXTS),
    "targets": (["fake"], ["fake", "fake:late"], ["local"], ["lab:x86_64-rt", "fake"]),
    "repeat": (1, 1, 2, 3, 10_000),
    "hours": (0.001, 1, 24, 8784.0),
    "log-host": ("fake", "fake:late"),
    "log-line": ("gpio:gpiochip0:4:5",),
    "log-set": ("priority=90",),
}
RATING_VALUES: dict[str, tuple[Any, ...]] = {
    "subject": ("documentation", "support", "price", *TEXTS),
    "rating": (8, 7.5, 0, 10, "N.A."),
    "reason": ("answered within a day", *TEXTS),
}
OWN = {
    "timer": ("for", "samples", "interval", "cpu", "priority", "dither", "method"),
    "pendulum": ("for", "samples", "cpu", "bobs", "string", "medium"),
    "telescope": ("for", "samples"),
    "response": ("samples", "interval", "line", "context", "edge", "log-host", "log-line",
                 "log-set"),
    "log-host": ("samples", "interval", "line", "edge"),
    "clock-cost": ("cpu",),
}  # fmt: skip
# Not the log host's: only one measurement has them.
COMMON = [option.name for option in OF_EVERY_STEP if not option.applies_to("plan")]
ODD: tuple[Any, ...] = (
    True, -1, 0, 1, 2**63 - 1, 2**63, 10**400, 1e308, -0.5, math.nan, math.inf, "0-1", "1/0",
    "9" * 40, "1e400us", "5 parsecs", "٣", "-5us", "999999999999h", "fake", "idle,idle",
    "sched:groups=0", [], [[]], ["a", 1], ["nanosleep", "nanosleep"], {}, {"a": {"b": 1}}, [{}],
    "A" * 10_000, *TEXTS,
)  # fmt: skip


def _any(rng: random.Random, values: tuple[Any, ...]) -> Any:
    return copy.deepcopy(rng.choice(values))


def generated(rng: random.Random) -> dict[str, Any]:
    """A plan from keys and values that docs/reference/plans.md allows, some of which exclude each
    other."""
    found: dict[str, Any] = {
        "plan": {
            key: _any(rng, values) for key, values in PLAN_VALUES.items() if rng.random() < 0.3
        },
        "step": [],
    }
    for _ in range(rng.choice((1, 1, 2, 3))):
        name = rng.choice(("timer", "timer", "timer", *OWN))
        keys = [key for key in OWN[name] if rng.random() < 0.4]
        keys += [key for key in COMMON if rng.random() < 0.12]
        step = {key: _any(rng, VALUES[key]) for key in keys}
        if "share" in step:
            step.pop("for", None)
            found["plan"].setdefault("hours", 1)
        if "rate" in step:
            step.setdefault("budget", "150us")
        found["step"].append({"measurement": name, **step})
    if not any("share" in step for step in found["step"]):
        found["plan"].pop("hours", None)
    for subject in rng.sample(RATING_VALUES["subject"], rng.choice((0, 0, 0, 1, 2))):
        rating = {key: _any(rng, values) for key, values in RATING_VALUES.items()}
        found.setdefault("rating", []).append(rating | {"subject": subject})
    return found


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Each value of a document as the container it is in and its key there."""
    found: list[tuple[Any, Any]] = []
    entries = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in entries:
        found.append((document, key))
        if isinstance(value, dict | list):
            found += _places(value)
    return found


def mutate(document: dict[str, Any], rng: random.Random) -> None:
    """Change one thing of a plan, in place."""
    places = _places(document)
    if not places:
        return
    where, key = rng.choice(places)
    tables = [document, *(table[name] for table, name in places if isinstance(table[name], dict))]
    match rng.randrange(8):
        case 0:
            del where[key]
        case 1:
            where[key] = _any(rng, ODD)
        case 2 | 3:  # another value of this key
            known = {**PLAN_VALUES, **RATING_VALUES, **VALUES}.get(key)
            where[key] = _any(rng, known or ODD)
        case 4:
            added = rng.choice(list(VALUES))
            rng.choice(tables)[added] = _any(rng, VALUES[added])
        case 5:
            name = rng.choice(("intervall", "mesurement", "", "a.b", *VALUES, *PLAN_VALUES, *TEXTS))
            rng.choice(tables)[name] = _any(rng, ODD)
        case 6:
            other, there = rng.choice(places)
            where[key] = copy.deepcopy(other[there])
        case _:
            steps = document.get("step")
            if isinstance(steps, list) and steps:
                steps += [copy.deepcopy(rng.choice(steps)) for _ in range(rng.choice((1, 1, 20)))]


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_value(key)} = {_value(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"{value:d}" if isinstance(value, int) else f"{value!r}"


def toml(document: dict[str, Any]) -> str:
    """A document as TOML."""
    lines, tables = [], []
    for name, value in document.items():
        if isinstance(value, dict):
            heads, entries = f"[{_value(name)}]", [value]
        elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            heads, entries = f"[[{_value(name)}]]", value
        else:
            lines.append(f"{_value(name)} = {_value(value)}")
            continue
        for entry in entries:
            tables += [heads, *(f"{_value(key)} = {_value(one)}" for key, one in entry.items())]
    return "\n".join([*lines, *tables]) + "\n"


def make(rng: random.Random, shipped: list[dict[str, Any]]) -> bytes:
    """A plan, most of them with one or more changes."""
    document = copy.deepcopy(rng.choice(shipped)) if rng.random() < 0.2 else generated(rng)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 5))):
        mutate(document, rng)
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    data = toml(document).encode()
    sys.set_int_max_str_digits(limit)
    return streams.mutate(data, rng, [data]) if rng.random() < 0.05 else data


def _is_small(plan: Plan) -> bool:
    """Whether a plan is carried out in a moment, and on the fake target alone."""
    hosts = [step.log_host for step in plan.steps]
    return (
        len(plan.steps) * plan.repeat * max(len(plan.targets), 1) <= STEPS
        and set(hosts) <= {"", *TARGETS}
    )  # fmt: skip


def follow(path: Path, folder: Path, number: int, rng: random.Random) -> bool:
    """What can be done with a plan that was accepted; whether it was carried out."""
    code, text, _ = fuzzing.command("describe", path, "--target", "fake", "--json")
    assert code == 0
    json.loads(text)
    plan = read_plan(path, Catalogue.from_document(dict(CATALOGUE)))
    if number % CARRIED_OUT or not _is_small(plan):
        return False
    suffixes = [*FIRST]
    if number % (CARRIED_OUT * OTHERS) == 0:
        suffixes = [one for one in report.FORMATS if one != ".pdf"]
    if number % (CARRIED_OUT * PDF) == 0:
        suffixes.append(".pdf")
    words = ["--for", "20ms", "--samples", "20"]
    words = [word for word, has in zip(words, _has(plan), strict=True) if has]
    if not set(plan.targets) <= {*TARGETS} or not plan.targets:
        words += ["--target", rng.choice(("fake", "fake", rng.choice(TARGETS)))]
    words += [word for word in ("--allow-load-cmd", "--allow-disturb") if rng.random() < 0.9]
    for suffix in suffixes:
        words += ["-o", str(folder / f"report{suffix}")]
    code, text, errors = fuzzing.command("run", path, *words)
    if not text:  # refused, or a stream of the target cannot be read
        fuzzing.check_refusal(code, "\n".join(errors.splitlines()[-2:]))
        return False
    assert "Traceback" not in errors
    for suffix in suffixes:
        made = (folder / f"report{suffix}").read_bytes()
        if suffix == ".json":
            json.loads(made)
        elif suffix == ".md":
            fuzzing.check_text(made.decode())
    return True


def _has(plan: Plan) -> list[bool]:
    """Which of ``--for T --samples N`` the plan's steps have."""
    catalogue = Catalogue.from_document(dict(CATALOGUE))
    entries = [catalogue.measurement(step.measurement) for step in plan.steps]
    return [any(one.has(name) for one in entries) for name in ("for", "for", "samples", "samples")]


def read(path: Path, catalogue: Catalogue) -> str:
    """The bare reader: ``accepted``, or why a plan is refused."""
    try:
        plan_targets(path)
        plan = read_plan(path, catalogue)
    except RtgaugeError as error:
        assert error.remedy
        return re.sub(r"[^ -~]+", "?", fuzzing.plain(error.message.replace(str(path), "PLAN")))[
            :100
        ]
    json.dumps(plan.document())
    for step in plan.steps:
        step.arguments()
        outside(step)
    return "accepted"


def commands(path: Path, folder: Path, number: int, rng: random.Random) -> str:
    """What the commands do with a plan; AssertionError when it is not treated as it must be."""
    code, _, errors = fuzzing.command("describe", path, "--target", "fake")
    if code == 0:
        return "accepted and carried out" if follow(path, folder, number, rng) else "accepted"
    fuzzing.check_refusal(code, errors)
    message = errors.splitlines()[0].replace(str(path), "PLAN")
    return re.sub(r"[^ -~]+", "?", fuzzing.plain(message))[:100]


@fuzzing.fuzzer
def fuzz(tally: Tally, rng: random.Random, numbers: range, folder: Path, one_in: int) -> None:
    shipped = [tomllib.loads(path.read_text()) for path in sorted(PLANS.glob("*.toml"))]
    catalogue = Catalogue.from_document(dict(CATALOGUE))
    store, place = folder / "store", folder / "plan"
    environment = {"RTGAUGE_STORE": str(store), "HOME": str(folder)}
    with mock.patch("os.fsync"), mock.patch.dict(os.environ, environment):
        for number in numbers:
            data = make(rng, shipped)
            place.mkdir()
            path = place / "plan.toml"
            path.write_bytes(data)
            tally.begin(number, data)
            found = read(path, catalogue)
            seen = tally.outcomes[found]
            if seen % one_in == 0 if found == "accepted" else not seen:
                own = random.Random(data)  # no other plans if more are followed
                carried = commands(path, place, seen // one_in, own)
                assert carried.startswith("accepted") == (found == "accepted"), carried
                tally.thorough += carried == "accepted and carried out"
            tally.end(found)
            shutil.rmtree(place)
            shutil.rmtree(store / "runs", ignore_errors=True)


if __name__ == "__main__":
    sys.exit(fuzzing.run("plan", fuzz, 10_000, __file__, BLOCK, FOLLOW))
