// SPDX-License-Identifier: Apache-2.0
/*
 * Contended mutexes [MUT-P-ARC]: a thread of high priority wants the mutex of a thread of low
 * priority. Timed are the request until the low thread runs, and its release until the high thread
 * has the mutex. docs/measurements/mutex-contended.md has the details.
 */
#include <stdio.h>

#include "base/clock.h"
#include "methods/mutex_links.h"

/* Minimum number of rounds of 1000 with a second switch for the remark. */
#define CONTENDED_DOUBLE 100

#define CONTENDED_RULE(protocol) "the middle thread does not run in between (" protocol ")"
static const char *const contended_rules[MUTEX_PROTOCOLS] = {
	[MUTEX_NONE] = CONTENDED_RULE("none"),
	[MUTEX_INHERIT] = CONTENDED_RULE("inherit"),
	[MUTEX_PROTECT] = CONTENDED_RULE("protect"),
};

static const struct option_info contended_options[] = {
	ENSEMBLE_FOR,
	{ "samples", OPTION_INTEGER, "1000", 1, 10000000, NULL, "requests with each protocol" },
	ENSEMBLE_CPU,
	ENSEMBLE_PRIORITY,
	{ "protocol", OPTION_ENUMS, "inherit", 0, 0, MUTEX_PROTOCOL_VALUES,
	  "protocols of the mutex, measured in turn" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

#define CONTENDED_MEANING "a ready thread of middle priority waits until the high one has the mutex"
static int contended_setup(struct step *step)
{
	enum mutex_protocol protocols[MUTEX_PROTOCOLS];
	int err = mutex_links_setup(step, 1);
	int count = err ? 0 : mutex_kind_protocols(step, protocols);

	for (int i = 0; i < count && !err; i++)
		err = mutex_links_add(step, "protocol", mutex_protocol_names[protocols[i]],
				      protocols[i], 1);
	return err;
}

/* The kernel's counts of switches tell it: times of a switch and of a release do not, as both hold
 * more than that. */
static void contended_remark(struct step *step, const struct mutex_links_case *c)
{
	int times = mutex_links_double_switches(c);
	char text[192];

	if (times < CONTENDED_DOUBLE)
		return;
	snprintf(
		text, sizeof(text),
		"the release switches to the high thread twice (%s): in %d of every 1000 rounds it "
		"ran, had to wait again, and ran once more before it had the mutex",
		c->value, times < 1000 ? times : 1000);
	step_message(step, clock_now_ns(CLOCK_MONOTONIC) - step->start_ns, text);
}

static int contended_finish(struct step *step)
{
	const struct mutex_links *state = step->state;

	for (int i = 0; i < state->case_count; i++) {
		const struct mutex_links_case *c = &state->cases[i];

		if (c->refused)
			mutex_kind_skipped(step, contended_rules[c->protocol], c->value,
					   c->refused);
		else
			mutex_links_verdict(step, contended_rules[c->protocol], c, 1);
		contended_remark(step, c);
	}
	return state->ensemble.error;
}

const struct measurement mutex_contended_measurement = {
	.name = "mutex-contended",
	.code = "MUT-P-ARC",
	.summary = "time to get a mutex that a thread of lower priority holds",
	.needs = NEEDS_PRIORITIES,
	.chapter = CHAPTER_MUTEXES,
	.options = contended_options,
	.series = { MUTEX_LINKS_SERIES },
	.verdicts = {
		{ CONTENDED_RULE("none"), CONTENDED_MEANING },
		{ CONTENDED_RULE("inherit"), CONTENDED_MEANING },
		{ CONTENDED_RULE("protect"), CONTENDED_MEANING },
	},
	.evaluate = { { "idle", "protocol=inherit,protect samples=1000", "samples=100000" } },
	.mark = &mark_spans,
	.state_size = sizeof(struct mutex_links),
	.setup = contended_setup,
	.finish = contended_finish,
};
