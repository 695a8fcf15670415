// SPDX-License-Identifier: Apache-2.0
/*
 * How a semaphore locks [SEM-B-LCK]: P (sem_wait) blocks only at zero, V (sem_post) increments, V at
 * zero gives the CPU to the waiter, and the value has a maximum. Verdicts with their evidence.
 * docs/measurements/sem-lock.md says how each can fail.
 */
#include <errno.h>
#include <limits.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "methods/ensemble.h"
#include "methods/order.h"

/* The value from which P goes down to zero, and to which V goes up from it. */
#define SEM_VALUE 3
/* Time that high uses the CPU before it waits: a fair scheduler then owes low some. */
#define SEM_SPIN_NS (2 * NSEC_PER_MSEC)

enum sem_scenario { SEM_BLOCKS, SEM_RESCHEDULES, SEM_SCENARIOS };

#define SEM_BLOCKS_RULE "P blocks only at zero"
#define SEM_INCREMENTS_RULE "V increments"
#define SEM_RESCHEDULES_RULE "V at zero reschedules"
#define SEM_MAXIMUM_RULE "the value has a maximum"
#define SEM_LIBRARY_REMEDY "use another C library"
#define SEM_CONDUCTOR "conductor"
#define SEM_GOES_ON "goes on" /* language-ok: name in streams */

struct sem_state {
	struct ensemble ensemble;
	int shared;
	sem_t sem;
	struct ensemble_thread high, low;
	int value;	  /* with which the semaphore begins */
	uint32_t at_zero; /* high is about to wait at zero */
	uint32_t ended;	  /* of both threads */
	struct order now; /* the current round */
	bool kept;	  /* the conductor gave up in it, but the semaphore was not the cause */
	struct order_rounds rounds[SEM_SCENARIOS];
	bool complete;
	bool incremented;
	char increments[160];
	bool limited;
	char limits[200];
};

static const struct option_info sem_options[] = {
	ENSEMBLE_FOR,
	ENSEMBLE_CPU,
	ENSEMBLE_PRIORITY,
	ENSEMBLE_POLICY,
	{ "shared", OPTION_FLAG, "no", 0, 0, NULL, "a semaphore that processes may share" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

/* --- threads under test --- */

static void sem_high_body(struct ensemble_thread *thread)
{
	static const char *const waits[] = { "P at 0", "P at 1", "P at 2", "P at 3" };
	struct sem_state *state = thread->state;

	ensemble_spin(SEM_SPIN_NS);
	for (int value = state->value; value >= 0; value--) {
		order_mark(&state->now, thread->name, waits[value]);
		if (!value)
			atomic_store_release(&state->at_zero, 1);
		sem_wait(&state->sem);
	}
	order_mark(&state->now, thread->name, "has it");
	atomic_add_release(&state->ended, 1);
}

/* It posts once high waits at zero. That never comes if high blocks earlier. */
static void sem_low_body(struct ensemble_thread *thread)
{
	struct sem_state *state = thread->state;

	if (ensemble_await_below(thread->ensemble, &state->at_zero, 1)) {
		order_mark(&state->now, thread->name, "V");
		sem_post(&state->sem);
		order_mark(&state->now, thread->name, SEM_GOES_ON);
	}
	atomic_add_release(&state->ended, 1);
}

/* --- the conductor --- */

/* Whether high sleeps at a P that has to return: not before zero, and not after a V. */
static bool sem_hangs(const struct sem_state *state)
{
	return order_find(&state->now, "high", NULL) >= 0 &&
	       (order_find(&state->now, "high", "P at 0") < 0 ||
		order_find(&state->now, "low", SEM_GOES_ON) >= 0) &&
	       ensemble_asleep(state->high.tid) > 0;
}

/* Both threads through one round. False: the step ends. */
static bool sem_round(struct sem_state *state, int value)
{
	bool ended, completed;

	memset(&state->now, 0, sizeof(state->now));
	state->at_zero = state->ended = 0;
	state->value = value;
	sem_init(&state->sem, state->shared, (unsigned int)value);
	if (!ensemble_start(&state->low))
		return false;
	if (!ensemble_start(&state->high)) {
		atomic_store_release(&state->at_zero, 1);
		ensemble_join(&state->low);
		return false;
	}
	completed = ensemble_await(&state->ensemble, &state->ended, 2);
	state->kept = !completed && !sem_hangs(state);
	if (!completed) {
		order_mark(&state->now, SEM_CONDUCTOR, "gives up");
		for (int i = 0; i <= SEM_VALUE; i++)
			sem_post(&state->sem);
	}
	ended = ensemble_join(&state->high);
	ended = ensemble_join(&state->low) && ended;
	/* a round that a stop ended is not judged */
	return ended && (completed || !step_stopped(state->ensemble.step));
}

static bool sem_blocks(const struct order *order)
{
	int posted = order_find(order, "low", "V");

	return posted > order_find(order, "high", "P at 0") &&
	       order_find(order, "high", "has it") > posted &&
	       order_find(order, SEM_CONDUCTOR, NULL) < 0;
}

static bool sem_reschedules(const struct order *order)
{
	static const char *const turns[] = { "high", "low", "high", "low", NULL };

	return order_is(order, turns);
}

/* Threads that were stopped continue in the order in which the kernel wakes them. */
static const char *sem_disturbed(const struct sem_state *state, uint32_t stalls)
{
	if (state->ensemble.stalls != stalls)
		return ENSEMBLE_STALLED;
	if (state->kept)
		return ENSEMBLE_KEPT;
	return ensemble_disturbed(&state->high) ? ENSEMBLE_DISTURBED : NULL;
}

/* Rounds until one does not hold, which is then the evidence. False: the step ends. */
static bool sem_scenario(struct sem_state *state, enum sem_scenario scenario)
{
	bool more = true;

	while (more) {
		uint32_t stalls = state->ensemble.stalls;

		if (!ensemble_goes_on(&state->ensemble) ||
		    !sem_round(state, scenario == SEM_BLOCKS ? SEM_VALUE : 0))
			return false;
		more = order_round(&state->rounds[scenario], &state->now,
				   scenario == SEM_BLOCKS ? sem_blocks(&state->now) :
							    sem_reschedules(&state->now),
				   sem_disturbed(state, stalls));
	}
	return true;
}

/* As many V as P go through, none more; in between the value is counted. */
static void sem_increments(struct sem_state *state)
{
	char *text = state->increments;
	size_t size = sizeof(state->increments);
	int used = snprintf(text, size, "the value after each V is"), through = 0;

	state->incremented = true;
	sem_init(&state->sem, state->shared, 0);
	for (int i = 1; i <= SEM_VALUE; i++) {
		int value = -1;

		sem_post(&state->sem);
		sem_getvalue(&state->sem, &value);
		state->incremented = state->incremented && value == i;
		used += snprintf(text + used, size - (size_t)used, " %d", value);
	}
	while (through <= SEM_VALUE && !sem_trywait(&state->sem))
		through++;
	state->incremented = state->incremented && through == SEM_VALUE;
	snprintf(text + used, size - (size_t)used, "; then %d P of %d return without a wait",
		 through, SEM_VALUE + 1);
}

static void sem_maximum(struct sem_state *state)
{
	int below, at, err, value = -1;

	sem_init(&state->sem, state->shared, SEM_VALUE_MAX - 1);
	below = sem_post(&state->sem);
	at = sem_post(&state->sem);
	err = errno;
	sem_getvalue(&state->sem, &value);
	state->limited = !below && at && err == EOVERFLOW && value == SEM_VALUE_MAX;
	snprintf(
		state->limits, sizeof(state->limits),
		"V is %s at SEM_VALUE_MAX - 1 and %s%s at SEM_VALUE_MAX (%d), then the value is %d",
		below ? "refused" : "accepted", at ? "refused with " : "accepted",
		!at		 ? "" :
		err == EOVERFLOW ? "EOVERFLOW" :
				   strerror(err),
		SEM_VALUE_MAX, value);
}

static void sem_loop(struct worker *worker)
{
	struct sem_state *state = worker->state;

	for (int i = 0; i < SEM_SCENARIOS; i++)
		if (!sem_scenario(state, i))
			return;
	sem_increments(state);
	sem_maximum(state);
	state->complete = true;
}

/* --- the frame --- */

static int sem_setup(struct step *step)
{
	struct sem_state *state = step->state;
	struct ensemble *e;

	e = &state->ensemble;
	state->shared = (int)option_number(&step->options, "shared");
	state->rounds[SEM_BLOCKS].order.rule = SEM_BLOCKS_RULE;
	state->rounds[SEM_RESCHEDULES].order.rule = SEM_RESCHEDULES_RULE;
	e->priority = (int)option_number(&step->options, "priority");
	state->high = (struct ensemble_thread){
		.ensemble = e,
		.body = sem_high_body,
		.state = state,
		.name = "high",
		.waits = 1,
		.priority = e->priority - 1,
	};
	state->low = (struct ensemble_thread){
		.ensemble = e,
		.body = sem_low_body,
		.state = state,
		.name = "low",
		.priority = e->priority - 2,
	};
	return ensemble_setup(step, e, sem_loop, 2, 2);
}

/* What was found in rounds counts, even if the step ended before all rules were tried. */
static void sem_judge_rounds(struct step *step, enum sem_scenario scenario, const char *remedy)
{
	const struct sem_state *state = step->state;

	if (!state->ensemble.error || order_decided(&state->rounds[scenario]))
		order_rounds_verdict(step, &state->rounds[scenario], "", remedy);
}

static void sem_judge(struct step *step, const char *rule, bool held, const char *evidence)
{
	const struct sem_state *state = step->state;

	if (state->complete)
		step_verdict(step, rule, held ? "pass" : "fail", evidence, SEM_LIBRARY_REMEDY);
	else if (!state->ensemble.error)
		order_not_tried(step, rule);
}

static int sem_finish(struct step *step)
{
	struct sem_state *state = step->state;
	const struct order *orders[SEM_SCENARIOS];
	int count = 0;

	sem_judge_rounds(step, SEM_BLOCKS, SEM_LIBRARY_REMEDY);
	sem_judge(step, SEM_INCREMENTS_RULE, state->incremented, state->increments);
	sem_judge_rounds(step, SEM_RESCHEDULES,
			 "give the waiting threads a real-time policy and a higher priority");
#ifdef ON_COBALT
	if (!state->ensemble.error)
		step_verdict(step, SEM_MAXIMUM_RULE, "skipped",
			     "Xenomai's library counts without the core, and does not check the "
			     "maximum",
			     "give --core linux");
#else
	sem_judge(step, SEM_MAXIMUM_RULE, state->limited, state->limits);
#endif
	for (int i = 0; i < SEM_SCENARIOS; i++)
		if (state->rounds[i].judged)
			orders[count++] = &state->rounds[i].order;
	if (count)
		order_table(step, orders, count);
	return state->ensemble.error;
}

const struct measurement sem_lock_measurement = {
	.name = "sem-lock",
	.code = "SEM-B-LCK",
	.summary = "when a semaphore blocks, how it counts, when its waiter runs, and its maximum",
	.needs = NEEDS_PRIORITIES,
	.chapter = CHAPTER_SEMAPHORES,
	.options = sem_options,
	.tables = { { ORDER_TABLE, ORDER_MEANING } },
	.verdicts = {
		{ SEM_BLOCKS_RULE,
		  "sem_wait() at 3, 2 and 1 returns at once, at 0 it waits for a sem_post()" },
		{ SEM_INCREMENTS_RULE, "each sem_post() lets one sem_wait() through" },
		{ SEM_RESCHEDULES_RULE, "sem_post() gives the CPU to a waiter of higher priority" },
		{ SEM_MAXIMUM_RULE, "sem_post() at SEM_VALUE_MAX is refused" },
	},
	.evaluate = { { "idle", "", NULL } },
	.state_size = sizeof(struct sem_state),
	.setup = sem_setup,
	.finish = sem_finish,
};
