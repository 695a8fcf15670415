# SPDX-License-Identifier: Apache-2.0
"""The command ``xeno-test``: the plan of this name, which has the steps of Xenomai's utility."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from rtgauge.catalogue import Catalogue
from rtgauge.cli.completion import words_of
from rtgauge.cli.help import command
from rtgauge.cli.run import Task, carry_out_plan, catalogue_of, completed, run_words
from rtgauge.plan import XENO_TEST, Plan, PlannedStep, has_time_grid, read_plan, shipped_plans
from rtgauge.units import parse_duration

if TYPE_CHECKING:
    from rtgauge.target import Target

__all__ = ["xeno_test"]


def _completed(
    ctx: click.Context, words: Sequence[str], catalogue: Catalogue
) -> tuple[click.Command, list[str], list[str]]:
    return completed(ctx, (str(shipped_plans()[XENO_TEST]), *words), catalogue)


@command(**words_of(_completed))
@click.pass_context
def xeno_test(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Carry out the steps of Xenomai's xeno-test."""
    plan = str(shipped_plans()[XENO_TEST])
    return run_words(ctx, (plan, *words), named=False, task=Task(_carry_out))


def _carry_out(plan: Plan, targets: Sequence[Target], given: Mapping[str, Any]) -> int:
    """Carry out the plan. ``--for`` is the length of the latencies. It can shorten the other
    steps, but not lengthen them."""
    if given["for"] is not None:
        catalogue = catalogue_of(targets[0], preview=given["dry_run"])
        shipped = read_plan(shipped_plans()[XENO_TEST], catalogue)
        steps = [
            _with_length(step, catalogue, whole.parameters.get("for"))
            for step, whole in zip(plan.steps, shipped.steps, strict=True)
        ]
        plan = replace(plan, steps=tuple(steps))
    return carry_out_plan(plan, targets, given, xeno=True)


def _with_length(step: PlannedStep, catalogue: Catalogue, usual: str | None) -> PlannedStep:
    """The step with the length given. One that does not measure latencies has its ``usual`` length
    if that is shorter."""
    length = step.parameters.get("for")
    if (
        length is None
        or usual is None
        or has_time_grid(catalogue.measurement(step.measurement))
        or parse_duration(length) <= parse_duration(usual)
    ):
        return step
    return replace(step, parameters=MappingProxyType({**step.parameters, "for": usual}))
