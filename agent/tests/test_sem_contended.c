// SPDX-License-Identifier: Apache-2.0
/* Tests of sem_contended.c: a round in which the process stood still does not fail the test. The
 * threads are made up. Prints TAP. */
#include <stdio.h>
#include <string.h>

#include "methods/ensemble.h"
#include "judged.h"
#include "tap.h"

static bool test_start(struct ensemble_thread *thread);
static bool test_join(struct ensemble_thread *thread);

#define ensemble_start test_start
#define ensemble_join test_join
#define step_verdict test_verdict
#include "measurements/sem_contended.c"
#undef ensemble_start
#undef ensemble_join
#undef step_verdict

static struct series series;
static struct step step = { .series = &series };
static struct sem_state state = { .ensemble.step = &step, .rounds = 1 };
static bool stands_still;

static bool test_start(struct ensemble_thread *thread)
{
	return true;
}

/* The keeper's round is broken. */
static bool test_join(struct ensemble_thread *thread)
{
	state.ensemble.stalls += stands_still;
	state.loop_rounds = 0;
	return sem_keeper_broken(&state, 1, "to be released did not run", 1) || true;
}

int main(void)
{
	const struct series_info info = { .interval_ns = 0 };

	series_init(&series, 0, &info, 64);
	step.state = &state;
	stands_still = true;
	sem_keep(&state);
	sem_finish(&step);
	tap_check(!strcmp(judged, "inconclusive") && strstr(said, ENSEMBLE_STALLED),
		  "a standstill: %s, %s", judged, said);
	stands_still = false;
	sem_keep(&state);
	sem_finish(&step);
	tap_check(!strcmp(judged, "fail"), "a later test loop without one: %s, %s", judged, said);
	series_free(&series);
	return tap_end();
}
