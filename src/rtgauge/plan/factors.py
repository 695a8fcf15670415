# SPDX-License-Identifier: Apache-2.0
"""Factors of ``tune``, each of which is off or on in a configuration of the target.

A factor is an item of ``--prepare`` by its name, ``governor=performance``, ``priority=N``, or else
one or several arguments for the kernel.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

from rtgauge.catalogue import Catalogue
from rtgauge.errors import UsageError
from rtgauge.plan.plan import Plan, PlannedStep

__all__ = ["Factor", "configured", "kernel_arguments", "kernel_parameter", "parse_factors"]

Kind = Literal["kernel", "setting", "priority"]

_ITEMS: Final = "prepare-only"
_PRIORITY: Final = "priority"
_GOVERNOR: Final = "governor"
_PERFORMANCE: Final = "performance"
_ARGUMENT: Final = re.compile(r"[A-Za-z0-9_][^\s'\"\\]*")
# Similarity (difflib's ratio) from which a word was meant to be the name of an item.
_LIKE: Final = 0.85


@dataclass(frozen=True)
class Factor:
    """Something to try. ``name``: as it was given. ``values``: arguments for the kernel, the item
    of ``--prepare``, or the priority."""

    name: str
    kind: Kind
    values: tuple[str, ...]


def parse_factors(words: Sequence[str], catalogue: Catalogue, plan: Plan) -> list[Factor]:
    """The factors that these words name. Raises UsageError for one that cannot be tried with the
    plan, and for two that exclude each other."""
    options = catalogue.step_options()
    items = options[_ITEMS].values if _ITEMS in options else ()
    found = [_factor(word.strip(), items, catalogue, plan) for word in words]
    _check_each(found, plan)
    return found


def _factor(word: str, items: Sequence[str], catalogue: Catalogue, plan: Plan) -> Factor:
    name, mark, value = word.partition("=")
    if name == _GOVERNOR and mark and value != _PERFORMANCE:
        raise UsageError(
            f"'{word}' cannot be tried: the only governor that a run sets is {_PERFORMANCE}",
            f"use --try {_GOVERNOR}, or the kernel argument cpufreq.default_governor={value}",
        )
    if word in items or (name == _GOVERNOR and mark and _GOVERNOR in items):
        return Factor(word, "setting", (name,))
    if name == _PRIORITY and mark:
        having = [
            entry
            for step in plan.steps
            if (entry := catalogue.measurement(step.measurement)).has(_PRIORITY)
        ]
        if not having:
            raise UsageError(
                f"'{word}' cannot be tried: no step of '{plan.name}' has a priority",
                "omit it",
            )
        return Factor(word, "priority", (having[0].normalise(_PRIORITY, value),))
    known = [_PRIORITY, *({_GOVERNOR} & set(items))] if mark else items
    close = difflib.get_close_matches(name, known, 1, _LIKE)
    if close:
        raise UsageError(
            f"'{name}' is not a setting of tune, but too similar to one to be a kernel argument",
            f"did you mean '{close[0]}{mark}{value}'?",
        )
    arguments = tuple(word.split())
    wrong = next((one for one in arguments if not _ARGUMENT.fullmatch(one)), None)
    if wrong is not None or not arguments:
        raise UsageError(
            f"'{wrong or word}' is not an argument for the kernel",
            "give --try ARGUMENT, --try priority=N, or an item of --prepare: " + ", ".join(items),
        )
    return Factor(" ".join(arguments), "kernel", arguments)


def kernel_parameter(argument: str) -> str:
    """Parameter that an argument sets. The kernel treats dashes and underscores alike."""
    return argument.partition("=")[0].replace("-", "_")


def _check_each(factors: Sequence[Factor], plan: Plan) -> None:
    """Raise UsageError for factors that repeat or exclude each other, or that the plan forbids."""
    seen: dict[str, Factor] = {}
    for factor in factors:
        for value in factor.values:
            key = f"{factor.kind} {kernel_parameter(value) if factor.kind == 'kernel' else ''}"
            key = f"setting {value}" if factor.kind == "setting" else key
            other = seen.setdefault(key, factor)
            if other is factor:
                continue
            if other.values == factor.values:
                raise UsageError(f"'{factor.name}' is given twice", "omit one of them")
            raise UsageError(
                f"'{other.name}' and '{factor.name}' cannot be combined: both set "
                f"{kernel_parameter(value) if factor.kind == 'kernel' else factor.kind}",
                "try each in a tune of its own, or set one of them in every run",
            )
    for step in plan.steps:
        for factor in factors:
            _check_step(factor, step)


def _check_step(factor: Factor, step: PlannedStep) -> None:
    if factor.kind == "setting":
        for option in ("prepare", "keep-settings", _ITEMS):
            if step.run.get(option):
                raise UsageError(
                    f"'{factor.name}' cannot be tried with --{option}, which determines that "
                    "setting in every run",
                    f"omit --{option}, also in the plan"
                    + (" and in rtgauge.toml" if option == "prepare" else ""),
                )
    if factor.kind == "priority" and step.parameters.get(_PRIORITY) == factor.values[0]:
        raise UsageError(
            f"'{factor.name}' is already the setting of '{step.measurement}' in every run",
            "try another priority",
        )


def kernel_arguments(factors: Iterable[Factor]) -> list[str]:
    """The arguments for the kernel of these factors, in their order."""
    return [value for factor in factors if factor.kind == "kernel" for value in factor.values]


def configured(plan: Plan, factors: Sequence[Factor], catalogue: Catalogue) -> Plan:
    """The plan with these factors on, except for the kernel arguments."""
    items = [value for factor in factors if factor.kind == "setting" for value in factor.values]
    priority = next((factor.values[0] for factor in factors if factor.kind == "priority"), "")
    steps = []
    for step in plan.steps:
        own = step.with_option(_ITEMS, ",".join(items)) if items else step
        if priority and catalogue.measurement(step.measurement).has(_PRIORITY):
            changed = {**step.parameters, _PRIORITY: priority}
            own = replace(own, parameters=MappingProxyType(changed))
        steps.append(own)
    return replace(plan, steps=tuple(steps))
