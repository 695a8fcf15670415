# SPDX-License-Identifier: Apache-2.0
"""Whether the samples of a step fit through the link to its target.

A thin link loses nothing that a fast one keeps: its agent sends histograms only, which hold every
value. To let the rings on the target overflow would lose samples at random.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from rtgauge.catalogue import Catalogue, Measurement
from rtgauge.plan import PlannedStep
from rtgauge.units import parse_cpus, parse_duration, parse_integer

__all__ = ["MARGIN", "needed_bytes_per_s", "pair_bytes_per_s"]

#: Factor between the rate of the link and the rate of the samples: the link is shared and varies.
MARGIN: Final = 1.5
#: A sample has four bytes (docs/formats/stream.md). A block has a head, and is closed after 250 ms.
SAMPLE_BYTES: Final = 4
BLOCKS_PER_S: Final = 4
BLOCK_BYTES: Final = 64
#: Rate of the other records: work of loads, clock readings, background activity.
REST_BYTES_PER_S: Final = 512
#: Longest time that samples without an interval may wait in the memory of the target.
WAIT_S: Final = 30.0


def needed_bytes_per_s(step: PlannedStep, catalogue: Catalogue, online: Set[int]) -> float:
    """Upper estimate of the bytes per second of a step's stream, from its options.

    With an interval that is a rate. Without, the number of samples is limited, and they may take
    ``WAIT_S`` on their way; of a step that says neither nothing is known, and that gives 0.
    """
    entry = catalogue.measurement(step.measurement)
    series = len(entry.series) * _threads(step, entry, online)
    interval_ns = _number(step, entry, "interval")
    limited = _number(step, entry, "samples")
    wait = 0.0
    if limited:
        wait = limited * series * SAMPLE_BYTES / WAIT_S + REST_BYTES_PER_S
    if not interval_ns:
        return wait
    blocks = min(BLOCKS_PER_S, 1e9 / interval_ns)
    rate = series * (SAMPLE_BYTES * 1e9 / interval_ns + BLOCK_BYTES * blocks) + REST_BYTES_PER_S
    return min(rate, wait) if wait else rate


def pair_bytes_per_s(
    board: PlannedStep, catalogue: Catalogue, timing: PlannedStep, of_log_host: Catalogue
) -> tuple[float, float]:
    """The same for a board that answers and for its log host, which raises the events."""
    entry = of_log_host.measurement(timing.measurement)
    events = {name: _value(timing, entry, name) for name in ("interval", "samples")}
    raised = replace(board, parameters=MappingProxyType({**board.parameters, **events}))
    one = frozenset({0})  # the first of the CPUs
    return needed_bytes_per_s(raised, catalogue, one), needed_bytes_per_s(timing, of_log_host, one)


def _threads(step: PlannedStep, entry: Measurement, online: Set[int]) -> int:
    """Number of series that run in parallel: CPUs, threads on each, values of list options."""
    cpus = parse_cpus(_value(step, entry, "cpu") or "0")
    number = len(online if cpus is None else cpus)
    if entry.has("threads") and entry.option("threads").type == "integer":
        number *= max(1, _number(step, entry, "threads"))
    for option in entry.options:
        if option.type == "enums":
            number *= len(_value(step, entry, option.name).split(","))
    return max(1, number)


def _value(step: PlannedStep, entry: Measurement, name: str) -> str:
    return step.parameters.get(name, entry.option(name).default) if entry.has(name) else ""


def _number(step: PlannedStep, entry: Measurement, name: str) -> int:
    text = _value(step, entry, name)
    if not text:
        return 0
    return parse_duration(text) if entry.option(name).type == "duration" else parse_integer(text)
