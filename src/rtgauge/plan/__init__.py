# SPDX-License-Identifier: Apache-2.0
"""Plans: which measurements, with which parameters, under which loads, how often.

A plan comes from a TOML file (``read``, docs/reference/plans.md), from the arguments of one
command, or from the catalogue itself (``evaluation``). Each is checked against the catalogue of the
target before anything is started there.
"""

from rtgauge.plan.choice import chapter_word, chosen, remaining
from rtgauge.plan.evaluation import (
    EVALUATION,
    XENO_TEST,
    calibration_steps,
    evaluation_plan,
    has_time_grid,
    thorough_parameters,
)
from rtgauge.plan.factors import (
    Factor,
    configured,
    kernel_arguments,
    kernel_parameter,
    parse_factors,
)
from rtgauge.plan.lengths import GUESS_NS, endless, ends_ns, expected_ns, scaled
from rtgauge.plan.plan import (
    Plan,
    PlannedStep,
    Point,
    Rating,
    check_texts,
    describe_step,
    planned_step,
)
from rtgauge.plan.read import plan_summary, plan_targets, read_plan, shipped_plans

__all__ = [
    "EVALUATION",
    "GUESS_NS",
    "XENO_TEST",
    "Factor",
    "Plan",
    "PlannedStep",
    "Point",
    "Rating",
    "calibration_steps",
    "chapter_word",
    "check_texts",
    "chosen",
    "configured",
    "describe_step",
    "endless",
    "ends_ns",
    "evaluation_plan",
    "expected_ns",
    "has_time_grid",
    "kernel_arguments",
    "kernel_parameter",
    "parse_factors",
    "plan_summary",
    "plan_targets",
    "planned_step",
    "read_plan",
    "remaining",
    "scaled",
    "shipped_plans",
    "thorough_parameters",
]
