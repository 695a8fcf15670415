# SPDX-License-Identifier: Apache-2.0
"""How long steps last: by their options, or by their shares of a plan's hours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from rtgauge.catalogue import Catalogue, Measurement
from rtgauge.errors import UsageError
from rtgauge.plan.plan import Plan, PlannedStep
from rtgauge.units import format_duration, parse_duration, parse_integer

__all__ = [
    "GUESS_NS",
    "HOURS_MAX",
    "SHARE_MAX",
    "endless",
    "ends_ns",
    "expected_ns",
    "is_positive",
    "lasts",
    "scaled",
]  # fmt: skip

GUESS_NS: Final = 2 * 10**9
"""Length of a step whose options do not say, where a length is estimated."""

HOURS_MAX: Final = 24.0 * 366
SHARE_MAX: Final = 1e9
_HOUR_MS: Final = 3_600_000
_SHORT_MS: Final = 10_000
"""Below it, lengths are rounded to whole milliseconds, otherwise to seconds."""


def is_positive(value: object, limit: float) -> bool:
    """Whether it is a number above 0, up to the limit."""
    return type(value) in (int, float) and 0 < value <= limit  # type: ignore[operator]


def scaled(plan: Plan, hours: float, catalogue: Catalogue) -> Plan:
    """The plan with ``hours`` divided among its steps by their shares. Steps without a share keep
    their length. Raises UsageError if no step has a share, or a step would be too short."""
    total = sum(step.share or 0 for step in plan.steps)
    if not total:
        raise UsageError("no step of the plan has a share", "give steps a share, as in share = 1")
    if not is_positive(hours, HOURS_MAX):
        raise UsageError(f"a plan cannot last {hours:g} hours", "give a number such as 8 or 0.5")
    steps = []
    left = 0.0  # hours that rounding took from the steps before, in ms
    for step in plan.steps:
        if step.share is None:
            steps.append(step)
            continue
        exact = hours * step.share / total * _HOUR_MS
        if exact < _SHORT_MS:
            milliseconds = round(exact)
        else:
            milliseconds = max(round((exact + left) / 1000) * 1000, 0)
            left += exact - milliseconds
        length = format_duration(milliseconds * 10**6)
        if milliseconds == 0:
            raise UsageError(
                f"{hours:g} h leaves no time for {step.measurement}",
                "raise 'hours', or the 'share' of the step",
            )
        entry = catalogue.measurement(step.measurement)
        lasting = {**step.parameters, "for": entry.normalise("for", length)}
        steps.append(replace(step, parameters=MappingProxyType(lasting)))
    return replace(plan, steps=tuple(steps), hours=hours)


def lasts(entry: Measurement, parameters: Mapping[str, str]) -> bool:
    """Whether a step with these parameters lasts for a time, instead of for its samples. Where it
    has both, the time is a limit for slow machines."""

    def value(name: str) -> str:
        return parameters.get(name, entry.option(name).default) or "0"

    if entry.has("samples") and parse_integer(value("samples")):
        return False
    return parse_duration(value("for")) > 0


def ends_ns(step: PlannedStep, catalogue: Catalogue) -> tuple[int | None, int | None]:
    """When a step's time is up, and when it has its samples if no period is missed. Each is None
    where the options do not say."""
    entry = catalogue.measurement(step.measurement)

    def value(name: str) -> str:
        if not entry.has(name):
            return ""
        return step.parameters.get(name, entry.option(name).default)

    time_ns = parse_duration(value("for")) if value("for") else 0
    samples = parse_integer(value("samples")) if value("samples") else 0
    interval_ns = parse_duration(value("interval")) if samples and value("interval") else 0
    return time_ns or None, samples * interval_ns or None


def endless(step: PlannedStep, catalogue: Catalogue) -> bool:
    """Whether a step measures until it is stopped: it takes samples, and its options limit neither
    their number nor the time. Without the option ``samples``, ``for`` is the limit of a measurement
    that ends by itself. So do a log host and a loopback, after a default number of events."""
    entry = catalogue.measurement(step.measurement)
    loopback = step.parameters.get("line", "").startswith("loopback:")
    if entry.times or (entry.answers and (step.log_host or loopback)):
        return False
    ends = [entry.option(name) for name in ("for", "samples") if entry.has(name)]
    values = [one.number(step.parameters.get(one.name, one.default) or "0") for one in ends]
    return entry.has("samples") and not any(values)


def expected_ns(step: PlannedStep, catalogue: Catalogue) -> int | None:
    """How long a step measures, by its options: until the earlier end, if it has two. None where
    the options do not say."""
    return min(filter(None, ends_ns(step, catalogue)), default=None)
