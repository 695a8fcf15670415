# SPDX-License-Identifier: Apache-2.0
"""Statistics over samples and histograms: pure functions on numbers, no files, no clocks.

On the path of a sample: sealed samples (rtgauge.store) -> one pass here -> rtgauge.report.
docs/reference/statistics.md says what each method claims, and what it does not.
"""

from .bound import (
    Bound,
    bound_of_run,
    duration_needed_s,
    exceedance_bound,
    rate_bound,
    rate_lower_bound,
    samples_needed,
    shortest_period_s,
)
from .changes import changes, dependence, levels, normal_scores, penalty, settled
from .corrected import Corrected, GapOffsets, corrected, missed_values, values_at
from .counts import (
    SUB_BITS,
    Counts,
    CountsBuilder,
    bucket_high,
    bucket_low,
    bucket_of,
    fraction_of,
)
from .designs import FACTORS_MAX, FULL_MAX, Design, design, plackett_burman
from .effective import effective_of_maximum, effective_size, effective_sizes
from .effects import Effect, Interaction, effects, interactions
from .episodes import NEAR, EpisodesBuilder, groups
from .extrapolation import Extrapolation, Part, extrapolation
from .independence import Clustering, clustering, extremal_index
from .patterns import (
    Line,
    Pace,
    Slope,
    Valley,
    disturber,
    pace,
    placed,
    second_line,
    slope,
    valley,
)
from .percentiles import (
    interval_ranks,
    percentile_interval,
    percentile_intervals,
    percentile_names,
    percentile_table,
)
from .plots import Ccdf, Histogram, ccdf_points, histogram_points
from .rhythm import SAME_RATE, Comb, Exposure, aliases, comb, folded
from .shift import RUNS_LIMIT, Shift, blocks_needed, holm, paired_shift, runs_needed, shift
from .timebase import Base, bases, division
from .timeline import BINS, ExcursionsBuilder, HeatMap, Timeline, TimelineBuilder, bins_for
from .verdict import DEFAULT_PROBABILITY, DEFAULT_RATE_PER_HOUR, BudgetVerdict, verdict

__all__ = [
    "BINS",
    "DEFAULT_PROBABILITY",
    "DEFAULT_RATE_PER_HOUR",
    "FACTORS_MAX",
    "FULL_MAX",
    "NEAR",
    "RUNS_LIMIT",
    "SAME_RATE",
    "SUB_BITS",
    "Base",
    "Bound",
    "BudgetVerdict",
    "Ccdf",
    "Clustering",
    "Comb",
    "Corrected",
    "Counts",
    "CountsBuilder",
    "Design",
    "Effect",
    "EpisodesBuilder",
    "ExcursionsBuilder",
    "Exposure",
    "Extrapolation",
    "GapOffsets",
    "HeatMap",
    "Histogram",
    "Interaction",
    "Line",
    "Pace",
    "Part",
    "Shift",
    "Slope",
    "Timeline",
    "TimelineBuilder",
    "Valley",
    "aliases",
    "bases",
    "bins_for",
    "blocks_needed",
    "bound_of_run",
    "bucket_high",
    "bucket_low",
    "bucket_of",
    "ccdf_points",
    "changes",
    "clustering",
    "comb",
    "corrected",
    "dependence",
    "design",
    "disturber",
    "division",
    "duration_needed_s",
    "effective_of_maximum",
    "effective_size",
    "effective_sizes",
    "effects",
    "exceedance_bound",
    "extrapolation",
    "extremal_index",
    "folded",
    "fraction_of",
    "groups",
    "histogram_points",
    "holm",
    "interactions",
    "interval_ranks",
    "levels",
    "missed_values",
    "normal_scores",
    "pace",
    "paired_shift",
    "penalty",
    "percentile_interval",
    "percentile_intervals",
    "percentile_names",
    "percentile_table",
    "placed",
    "plackett_burman",
    "rate_bound",
    "rate_lower_bound",
    "runs_needed",
    "samples_needed",
    "second_line",
    "settled",
    "shift",
    "shortest_period_s",
    "slope",
    "valley",
    "values_at",
    "verdict",
]
