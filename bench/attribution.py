# SPDX-License-Identifier: Apache-2.0
"""How often the import of a capture credits an answer to the wrong event, by simulation.

    PYTHONPATH=src python bench/attribution.py [--repetitions N] [--section NAME]

A board answers its events in order, each after a delay of a known distribution. Some answers are
lost; in some recordings, as many edges answer nothing. A recording is right if each answer is
credited to its event, marked if each one that is not is `ambiguous`, and otherwise wrong. Writes
bench/results/attribution.json. Nothing is measured: the figures are the same on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sections import Case, limited, main

from rtgauge.capture.edges import Edges
from rtgauge.capture.pairing import Recorded, pair

Float64 = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Float64]

REPETITIONS: Final = 500
SEED: Final = 28
STEP: Final = 1000.0
"""Samples of the recording from event to event."""
QUIET: Final = 20
"""Intervals before the first event and after the last one of a whole recording."""
AT_LEAST: Final = 20.0
"""Min number of samples from an answer to the next."""
WRONG: Final = 0.01


def quick(random: np.random.Generator, number: int) -> Float64:
    """All answers come before the next event."""
    return random.uniform(0.1, 0.9, number)


def stalls(random: np.random.Generator, number: int) -> Float64:
    """About three stalls of up to four intervals in 200 events."""
    hit = random.random(number) < 1 / 70
    return random.uniform(0.2, 0.3, number) + hit * random.uniform(0.5, 4, number)


def near(random: np.random.Generator, number: int) -> Float64:
    """Delays about a whole number of intervals, with little scatter."""
    return random.integers(1, 4) + random.uniform(-0.05, 0.05, number)


def uniform(random: np.random.Generator, number: int) -> Float64:
    """Any delay in a range of up to four intervals."""
    return random.uniform(0, 4) + random.uniform(0.2, 4) * random.random(number)


def exponential(random: np.random.Generator, number: int) -> Float64:
    """A shortest delay, and a long tail."""
    return random.uniform(0, 4) + random.exponential(random.uniform(0.1, 2), number)


def wandering(random: np.random.Generator, number: int) -> Float64:
    """Each delay is near the one before."""
    width = random.uniform(0.2, 4)
    walk = np.cumsum(random.uniform(-0.3, 0.3, number)) * width
    return random.uniform(0, 4) + np.abs((walk + width) % (2 * width) - width)


DELAYS: Final[Mapping[str, Draw]] = {
    "quick": quick,
    "stalls": stalls,
    "near": near,
    "uniform": uniform,
    "exponential": exponential,
    "wandering": wandering,
}


@dataclass(frozen=True)
class Scene:
    """How a recording is made. ``lost``: part of the events without an answer. ``stray``: for
    each of them, an edge that answers nothing. ``whole``: from before the first event until after
    the last answer, else from one event's interval to another's. ``both``: both edges are events,
    and an answer has the level of its event. ``shake``: scatter of the events, in intervals."""

    lost: float
    stray: bool
    whole: bool
    both: bool
    shake: float


def judged(random: np.random.Generator, draw: Draw, scene: Scene) -> str:
    """The outcome of a recording of 30 to 200 events: right, marked or wrong."""
    number = int(random.choice((30, 100, 200)))
    scatter = random.uniform(-scene.shake, scene.shake, number)
    events = (QUIET + np.arange(number) + scatter) * STEP
    levels = np.arange(number) % 2 == 0
    at = events + draw(random, number) * STEP
    order = np.arange(number) * AT_LEAST
    at = np.maximum.accumulate(at - order) + order
    answered = random.random(number) >= scene.lost
    stray = random.uniform(events[0], events[-1], scene.stray * int(np.sum(~answered)))
    edges = np.sort(np.concatenate((at[answered], stray)))
    changes = levels[answered] if scene.both else np.arange(len(edges)) % 2 == 0
    begin, end = 0.0, float(at[-1]) + QUIET * STEP
    if not scene.whole:
        begin, end = (events[number * k // 4] + random.uniform(0, STEP) for k in (1, 3))
    kept = (events >= begin) & (events < end)
    seen = (edges >= begin) & (edges < end)
    asked = Edges(events[kept] - begin, levels[kept])
    found = pair(
        asked,
        Edges(edges[seen] - begin, changes[seen]),
        asked.level if scene.both else None,
        Recorded(end - begin, STEP),
    )
    counted = int(kept.sum()) - found.cut
    truth = np.where(answered, at - events, np.nan)[kept][:counted]
    told = found.delay[:counted]
    credited = ~np.isnan(told)
    wrong = int(np.sum(credited & ~np.isclose(told, truth, rtol=0, atol=1e-6)))
    return "wrong" if wrong > found.ambiguous else "marked" if found.ambiguous else "right"


def _cases(draw: Draw, repetitions: int) -> list[Case]:
    cases = []
    for whole in (True, False):
        for lost, stray in ((0.0, False), (0.02, False), (0.1, False), (0.02, True)):
            random = np.random.default_rng(SEED)
            outcomes = []
            for number in range(repetitions):
                # after an edge that answers nothing, the level no longer shows the event
                both = not stray and number % 2 == 0
                shake = 0.3 if number % 3 == 0 else 0.0
                outcomes.append(judged(random, draw, Scene(lost, stray, whole, both, shake)))
            shares = {key: outcomes.count(key) / repetitions for key in ("right", "marked")}
            wrong = outcomes.count("wrong") / repetitions
            name = f"{'whole' if whole else 'mid-run'}, {100 * lost:g} % lost"
            cases.append({
                "case": name + (", as many stray edges" if stray else ""),
                "repetitions": repetitions,
                **shares,
                "wrong": wrong,
                "held": None if stray else limited(wrong, WRONG, repetitions),
            })  # fmt: skip
    return cases


def _section(draw: Draw) -> Callable[[int], list[Case]]:
    return lambda repetitions: _cases(draw, repetitions)


SECTIONS: Final = {name: _section(draw) for name, draw in DELAYS.items()}


if __name__ == "__main__":
    purpose = (__doc__ or "").partition("\n")[0]
    facts = {"seed": SEED, "limit": WRONG}
    sys.exit(main("attribution", purpose, SECTIONS, facts, REPETITIONS))
