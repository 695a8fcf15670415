// SPDX-License-Identifier: Apache-2.0
/*
 * Chains of mutexes: a thread of high priority wants a mutex whose owner waits for another mutex,
 * and so on. Timed are the request until the last owner runs, and its release until the high thread
 * has its mutex, against the length of the chain. docs/measurements/mutex-chain.md has the details.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/value.h"
#include "methods/mutex_links.h"

#define CHAIN_RULE "priority is inherited through the whole chain"
#define CHAIN_TABLE "chain"
#define CHAIN_LOCK_DEPTH "/proc/sys/kernel/max_lock_depth"

static const struct option_info chain_options[] = {
	ENSEMBLE_FOR,
	{ "samples", OPTION_INTEGER, "200", 1, 1000000, NULL, "requests at each depth" },
	ENSEMBLE_CPU,
	ENSEMBLE_PRIORITY,
	{ "depth", OPTION_INTEGER, "32", 1, MUTEX_LINKS_MAX, NULL,
	  "longest chain, measured together with all powers of two below it" },
	{ "protocol", OPTION_ENUM, "inherit", 0, 0, "none inherit", "protocol of the mutexes" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

/* The kernel follows no longer chain, and refuses the request. */
static int chain_limit(void)
{
	char value[VALUE_MAX];

	return value_get(CHAIN_LOCK_DEPTH, value, NULL) ? 1024 : atoi(value);
}

static int chain_add(struct step *step, int depth)
{
	struct mutex_links *state = step->state;
	char value[12];

	snprintf(value, sizeof(value), "%d", depth);
	if (depth <= chain_limit())
		return mutex_links_add(
			step, "depth", value,
			(enum mutex_protocol)option_number(&step->options, "protocol"), depth);
	state->cases[state->case_count++] =
		(struct mutex_links_case){ .links = depth, .refused = EDEADLK };
	return 0;
}

static int chain_setup(struct step *step)
{
	int deepest = (int)option_number(&step->options, "depth");
	int err = mutex_links_setup(step, deepest);

	for (int depth = 1; depth < deepest && !err; depth *= 2)
		err = chain_add(step, depth);
	return err ?: chain_add(step, deepest);
}

static void chain_table(struct step *step, const struct mutex_links_case *cases, int count)
{
	static const struct step_column columns[] = {
		{ "depth", "count" },	   { "acquire, mean", "ns" },  { "acquire, least", "ns" },
		{ "release, mean", "ns" }, { "release, least", "ns" }, { "samples", "count" },
		{ "middle ran", "count" },
	};
	struct cbor *c;
	int rows = 0;

	for (int i = 0; i < count; i++)
		rows += cases[i].samples > 0;
	c = step_table_begin(step, CHAIN_TABLE, columns, 7, rows);
	for (int i = 0; i < count; i++) {
		const struct mutex_links_case *one = &cases[i];

		if (!one->samples)
			continue;
		cbor_array(c, 7);
		cbor_int(c, one->links);
		cbor_int(c, one->acquire_sum_ns / one->samples);
		cbor_int(c, one->acquire_least_ns);
		cbor_int(c, one->release_sum_ns / one->samples);
		cbor_int(c, one->release_least_ns);
		cbor_int(c, one->samples);
		cbor_int(c, one->between);
	}
	step_table_end(step);
}

static int chain_finish(struct step *step)
{
	const struct mutex_links *state = step->state;
	int measured = state->case_count;
	char text[128];

	/* the deepest ones come last */
	while (measured && state->cases[measured - 1].refused)
		measured--;
	if (measured < state->case_count && state->cases[measured].refused != EDEADLK) {
		mutex_kind_skipped(step, CHAIN_RULE,
				   mutex_protocol_names[state->cases[measured].protocol],
				   state->cases[measured].refused);
	} else if (measured < state->case_count) {
		snprintf(text, sizeof(text), "a chain of %d or more cannot be built: %s is %d",
			 state->cases[measured].links, CHAIN_LOCK_DEPTH, chain_limit());
		step_verdict(step, CHAIN_RULE, "skipped", text, "write its default, 1024, to it");
	}
	if (measured)
		mutex_links_verdict(step, CHAIN_RULE, state->cases, measured);
	chain_table(step, state->cases, measured);
	return state->ensemble.error;
}

const struct measurement mutex_chain_measurement = {
	.name = "mutex-chain",
	.summary = "cost of priority inheritance through chains of mutexes, by their length",
	.needs = NEEDS_PRIORITIES,
	.chapter = CHAPTER_MUTEXES,
	.options = chain_options,
	.series = { MUTEX_LINKS_SERIES },
	.tables = {
		{ CHAIN_TABLE, "times by the length of the chain, and how often the middle "
			       "thread ran in between" },
	},
	.verdicts = {
		{ CHAIN_RULE,
		  "a ready thread of middle priority waits until the high one has its mutex" },
	},
	.evaluate = { { "idle", "samples=200", "samples=20000 depth=256" } },
	.mark = &mark_spans,
	.state_size = sizeof(struct mutex_links),
	.setup = chain_setup,
	.finish = chain_finish,
};
