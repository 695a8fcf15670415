// SPDX-License-Identifier: Apache-2.0
/* Ordered pairs of CPUs. */
#include "methods/cpupair.h"

#include <errno.h>
#include <stdio.h>

#include "methods/stamp.h"

int cpupairs_choose(struct step *step, struct cpupairs *all)
{
	int64_t most = option_number(&step->options, "pairs");
	struct cpulist list;
	char reason[96];
	int *cpus, count, cpu = -1;
	int err = step_cpus(step, &list);

	if (err)
		return err;
	count = cpulist_count(&list);
	if (count < 2) {
		snprintf(reason, sizeof(reason),
			 "two CPUs are needed, but only CPU %d is available",
			 cpulist_next(&list, 0));
		return step_skip(step, reason, "name two CPUs that this process may use (--cpu)");
	}
	cpus = step_alloc(step, (size_t)count, sizeof(*cpus));
	all->possible = count * (count - 1);
	all->pairs = step_alloc(step, (size_t)(most < all->possible ? most : all->possible),
				sizeof(*all->pairs));
	if (!cpus || !all->pairs)
		return -ENOMEM;
	for (int i = 0; i < count; i++)
		cpus[i] = cpu = cpulist_next(&list, cpu + 1);
	for (int k = 0; k < all->possible && k < most; k++) {
		struct cpupair *pair = &all->pairs[all->count++];

		pair->from = cpus[k % count];
		pair->to = cpus[(k % count + k / count + 1) % count];
		snprintf(pair->labels[0], sizeof(pair->labels[0]), "CPU %d", pair->from);
		snprintf(pair->labels[1], sizeof(pair->labels[1]), "CPU %d", pair->to);
	}
	return 0;
}

int cpupairs_series(struct step *step, struct cpupair *pair, const char *name, int worker,
		    int64_t samples)
{
	struct series_info info = {
		.name = name,
		.context = "user",
		.unit = "ns",
		.cpu = pair->to,
		.thread = worker,
		.companion = -1,
		.net = true,
		.labels = { { "from", pair->labels[0] }, { "to", pair->labels[1] } },
	};
	/* what the drain takes out during the run needs no room */
	int64_t words = samples < 4000 ? samples : 4000;

	pair->series = step_add_series(step, &info, (size_t)words + 1000);
	return pair->series;
}

int cpupairs_prepare(struct worker *worker)
{
	struct step *step = worker->step;
	int64_t stamp_ns = (stamp_cost_ps() + 500) / 1000;

	for (int i = 0; i < step->series_count; i++)
		if (step->series[i].info.thread == worker->number)
			step->series[i].info.stamp_ns = stamp_ns;
	return 0;
}

bool cpupairs_sampled(const struct step *step, const struct cpupair *pair)
{
	const struct series *series = &step->series[pair->series];

	return series->histogram.count || series->lost;
}

static void cpupairs_without_sample(struct step *step, const struct cpupairs *all, int without,
				    const char *remedy)
{
	char evidence[96], possible[32] = "";

	if (all->count < all->possible)
		snprintf(possible, sizeof(possible), ", %d are possible", all->possible);
	snprintf(evidence, sizeof(evidence), "%d of %d pairs %s no sample%s", without, all->count,
		 without == 1 ? "has" : "have", possible);
	step_verdict(step, CPUPAIR_VERDICT, "inconclusive", evidence, remedy);
}

void cpupairs_verdict(struct step *step, const struct cpupairs *all, const char *remedy)
{
	char evidence[64], more[64];
	int without = 0;

	for (int i = 0; i < all->count; i++)
		without += !cpupairs_sampled(step, &all->pairs[i]);
	if (without) {
		cpupairs_without_sample(step, all, without, remedy);
	} else if (all->count < all->possible) {
		snprintf(evidence, sizeof(evidence), "%d of %d pairs", all->count, all->possible);
		snprintf(more, sizeof(more), "give --pairs %d, or fewer CPUs",
			 all->possible < CPUPAIR_MAX ? all->possible : CPUPAIR_MAX);
		step_verdict(step, CPUPAIR_VERDICT, "skipped", evidence, more);
	}
}
