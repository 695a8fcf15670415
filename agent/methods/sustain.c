// SPDX-License-Identifier: Apache-2.0
/* A search over periods: first in large steps, then by bisection. */
#include "methods/sustain.h"

static int64_t sustain_fineness(const struct sustain *search, int64_t period_ns)
{
	return period_ns / 32 > search->step_ns ? period_ns / 32 : search->step_ns;
}

int sustain_try(struct sustain *search, int64_t interrupts, int64_t *period_ns)
{
	struct sustain_try attempt = { .count = interrupts, .period_ns = *period_ns };

	if (search->count == SUSTAIN_TRIES_MAX || !search->attempt(search->arg, &attempt))
		return -1;
	search->tries[search->count++] = attempt;
	*period_ns = attempt.period_ns;
	return attempt.lost == 0 && !attempt.silent;
}

int64_t sustain_search(struct sustain *search, int64_t interrupts)
{
	int64_t good_ns = 0, bad_ns = 0;
	int64_t asked_ns = search->from_ns, period_ns;

	/* down by a quarter until some are lost, or up by doubling until none are */
	while (!good_ns || !bad_ns) {
		int held;

		period_ns = asked_ns;
		held = sustain_try(search, interrupts, &period_ns);
		if (held < 0)
			return 0;
		if (held)
			good_ns = period_ns;
		else
			bad_ns = period_ns;
		if (held && asked_ns <= search->shortest_ns)
			return good_ns;
		if (!held && asked_ns >= search->longest_ns)
			return 0;
		asked_ns = held ? asked_ns * 3 / 4 : asked_ns * 2;
		if (asked_ns < search->shortest_ns)
			asked_ns = search->shortest_ns;
		if (asked_ns > search->longest_ns)
			asked_ns = search->longest_ns;
	}
	/* the same period held once and once not */
	if (bad_ns >= good_ns)
		return sustain_confirm(search, interrupts, bad_ns);
	while (good_ns - bad_ns > sustain_fineness(search, good_ns)) {
		int64_t middle_ns = period_ns = bad_ns + (good_ns - bad_ns) / 2;
		int held = sustain_try(search, interrupts, &period_ns);

		if (held < 0)
			return 0;
		/* a source of coarse steps rounds it to a known one: there is nothing in between */
		if (period_ns >= good_ns || period_ns <= bad_ns)
			bad_ns = middle_ns;
		else if (held)
			good_ns = period_ns;
		else
			bad_ns = period_ns;
	}
	return good_ns;
}

int64_t sustain_confirm(struct sustain *search, int64_t interrupts, int64_t period_ns)
{
	for (;;) {
		int64_t tried_ns = period_ns;
		int held = sustain_try(search, interrupts, &tried_ns);

		if (held)
			return held > 0 ? tried_ns : 0;
		if (period_ns >= search->longest_ns)
			return 0;
		period_ns += sustain_fineness(search, period_ns);
	}
}

int sustain_phases(struct sustain *search, int64_t interrupts, int64_t *counts,
		   int64_t *shortest_ns)
{
	int phases = 0;

	for (int64_t count = SUSTAIN_FIRST;; count *= 10) {
		counts[phases] = count < interrupts ? count : interrupts;
		shortest_ns[phases] =
			phases ? sustain_confirm(search, counts[phases], shortest_ns[phases - 1]) :
				 sustain_search(search, counts[phases]);
		if (!shortest_ns[phases++] || count >= interrupts)
			return phases;
	}
}
