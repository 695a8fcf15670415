// SPDX-License-Identifier: Apache-2.0
/*
 * The order in which a semaphore releases its waiters [SEM-B-REL]: the highest priority first,
 * whatever the order of arrival, and of equal ones the longest waiter. Verdicts with their
 * evidence. docs/measurements/sem-order.md says how each can fail. A keeper of the lowest priority
 * opens one gate after the other, which sets the order of arrival. Then it posts, and waits after
 * each post until one waiter has been released.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "methods/ensemble.h"
#include "methods/order.h"

/* Each makes two marks. */
#define SEM_WAITERS_MAX 60
/* Without priorities it takes a moment until the one that was let through waits. */
#define SEM_MOMENT_NS NSEC_PER_MSEC

enum sem_arrival { SEM_ASCENDING, SEM_DESCENDING, SEM_MIXED, SEM_EQUAL, SEM_ARRIVALS };

struct sem_waiter {
	struct ensemble_thread thread;
	uint32_t gate;
	char name[16];
};

struct sem_state {
	struct ensemble ensemble;
	int count;
	sem_t sem;
	struct sem_waiter waiters[SEM_WAITERS_MAX]; /* the last one is the highest */
	int arrivals[SEM_WAITERS_MAX];		    /* numbers of waiters, the first first */
	struct ensemble_thread keeper;
	uint32_t arrived;
	uint32_t released;
	uint32_t ended;	  /* the keeper */
	struct order now; /* the current round */
	bool single;	  /* each post released exactly one waiter */
	bool kept;	  /* a wait ended in it, but the semaphore was not the cause */
	struct order_rounds rounds[SEM_ARRIVALS];
	char why[SEM_ARRIVALS][400]; /* of the recorded round */
};

static const struct option_info sem_options[] = {
	ENSEMBLE_FOR,
	ENSEMBLE_CPU,
	ENSEMBLE_PRIORITY,
	ENSEMBLE_POLICY,
	{ "waiters", OPTION_INTEGER, "10", 3, SEM_WAITERS_MAX, NULL, "number of waiting threads" },
	{ "shared", OPTION_FLAG, "no", 0, 0, NULL, "a semaphore that processes may share" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

#define SEM_RULE "highest waiter first, arrival "

/* --- threads under test --- */

static void sem_waiter_body(struct ensemble_thread *thread)
{
	struct sem_state *state = thread->state;

	ensemble_gate(&state->waiters[thread->number].gate);
	order_mark(&state->now, thread->name, "waits");
	atomic_add_release(&state->arrived, 1);
	sem_wait(&state->sem);
	order_mark(&state->now, thread->name, "has it");
	atomic_add_release(&state->released, 1);
}

/* Whether all waiters except @released of them sleep after another V. */
static bool sem_hangs(const struct sem_state *state, uint32_t released)
{
	uint32_t asleep = 0;

	for (int i = 0; i < state->count; i++)
		asleep += ensemble_asleep(state->waiters[i].thread.tid) > 0;
	return asleep + released == (uint32_t)state->count;
}

static bool sem_keep(struct sem_state *state, const struct ensemble_thread *thread)
{
	const struct timespec moment = clock_from_ns(SEM_MOMENT_NS);
	struct ensemble *e = thread->ensemble;
	uint32_t count = (uint32_t)state->count;

	for (uint32_t i = 0; i < count; i++) {
		ensemble_open(&state->waiters[state->arrivals[i]].gate);
		if (!ensemble_await_below(e, &state->arrived, i + 1)) {
			state->kept = true;
			return false;
		}
		if (e->policy == SCHED_OTHER)
			nanosleep(&moment, NULL);
	}
	for (uint32_t i = 0; i < count; i++) {
		/* a post that released two would show here, and that none was needed */
		if (atomic_load_acquire(&state->released) != i)
			return false;
		sem_post(&state->sem);
		if (!ensemble_await_below(e, &state->released, i + 1)) {
			state->kept = !sem_hangs(state, i);
			return false;
		}
	}
	return true;
}

static void sem_keeper_body(struct ensemble_thread *thread)
{
	struct sem_state *state = thread->state;

	state->single = sem_keep(state, thread);
	atomic_store_release(&state->ended, 1);
}

/* --- the conductor --- */

/* A step through all numbers below @count, each far from the one before, where there is one. */
static int sem_mixing_step(int count)
{
	int step = count * 2 / 3, a, b;

	do {
		step++;
		for (a = count, b = step; b;) {
			int rest = a % b;

			a = b;
			b = rest;
		}
	} while (a != 1);
	return step;
}

static void sem_arrange(struct sem_state *state, enum sem_arrival arrival)
{
	int count = state->count, step = sem_mixing_step(count);

	for (int i = 0; i < count; i++) {
		struct ensemble_thread *thread = &state->waiters[i].thread;

		thread->priority = state->ensemble.priority - 1;
		if (arrival != SEM_EQUAL)
			thread->priority -= count - 1 - i;
		state->arrivals[i] = arrival == SEM_ASCENDING  ? i :
				     arrival == SEM_DESCENDING ? count - 1 - i :
								 (i + 2) * step % count;
	}
}

/* Start all of them, wait until all have been released, join them. False: the step ends. */
static bool sem_carry_out(struct sem_state *state)
{
	bool started = ensemble_start(&state->keeper), ended, joined;

	for (int i = 0; i < state->count && started; i++)
		started = ensemble_start(&state->waiters[i].thread);
	/* the keeper may have run out of patience just before this one does */
	ended = started && (ensemble_await(&state->ensemble, &state->ended, 1) ||
			    ensemble_await(&state->ensemble, &state->ended, 1));
	if (!ended || !state->single)
		for (int i = 0; i < state->count; i++) {
			ensemble_open(&state->waiters[i].gate);
			sem_post(&state->sem);
		}
	joined = ensemble_join(&state->keeper);
	/* what it saw after the posts says nothing */
	state->kept |= !ended;
	for (int i = 0; i < state->count; i++)
		joined = ensemble_join(&state->waiters[i].thread) && joined;
	return joined && started;
}

/* Whether the waiters did @what in the order in which @expected gives their numbers. Appends the
 * observed order to @why. */
static bool sem_in_order(const struct sem_state *state, const char *what, const int *expected,
			 char *why, size_t size)
{
	const struct order *order = &state->now;
	bool held = true;
	int count = 0;

	for (int i = 0; i < order_count(order); i++) {
		const struct order_mark *mark = &order->marks[i];
		const char *due = state->waiters[expected[count % state->count]].name;
		size_t used = strlen(why);

		if (strcmp(mark->what, what))
			continue;
		held = held && !strcmp(mark->thread, due);
		snprintf(why + used, size - used, " %s", strrchr(mark->thread, ' ') + 1);
		count++;
	}
	return held && count == state->count;
}

/* Waiters that were stopped wait again, in another order. */
static const char *sem_disturbed(const struct sem_state *state, uint32_t stalls)
{
	if (state->ensemble.stalls != stalls)
		return ENSEMBLE_STALLED;
	if (state->kept)
		return ENSEMBLE_KEPT;
	for (int i = 0; i < state->count; i++)
		if (ensemble_disturbed(&state->waiters[i].thread))
			return ENSEMBLE_DISTURBED;
	return NULL;
}

/* One round. False: the step ends. */
static bool sem_round(struct sem_state *state, enum sem_arrival arrival, bool *more)
{
	char *why = state->why[arrival];
	size_t size = sizeof(state->why[arrival]);
	int falling[SEM_WAITERS_MAX];
	uint32_t stalls = state->ensemble.stalls;
	bool arrived, released;

	if (!ensemble_goes_on(&state->ensemble))
		return false;
	memset(&state->now, 0, sizeof(state->now));
	state->arrived = state->released = state->ended = 0;
	state->single = state->kept = false;
	for (int i = 0; i < state->count; i++) {
		falling[i] = state->count - 1 - i;
		state->waiters[i].gate = 0;
	}
	sem_init(&state->sem, (int)option_number(&state->ensemble.step->options, "shared"), 0);
	sem_arrange(state, arrival);
	if (!sem_carry_out(state))
		return false;
	/* a stop released the waiters, all at once */
	if (!state->single && step_stopped(state->ensemble.step))
		return false;

	snprintf(why, size, "arrived");
	arrived = sem_in_order(state, "waits", state->arrivals, why, size);
	snprintf(why + strlen(why), size - strlen(why), ", released");
	released = sem_in_order(state, "has it", arrival == SEM_EQUAL ? state->arrivals : falling,
				why, size);
	if (!state->single)
		snprintf(why + strlen(why), size - strlen(why), ", not one by each V");
	*more = order_round(&state->rounds[arrival], &state->now,
			    arrived && released && state->single, sem_disturbed(state, stalls));
	return true;
}

static void sem_loop(struct worker *worker)
{
	struct sem_state *state = worker->state;

	for (int i = 0; i < SEM_ARRIVALS; i++)
		for (bool more = true; more;)
			if (!sem_round(state, i, &more))
				return;
}

/* --- the frame --- */

static int sem_setup(struct step *step)
{
	struct sem_state *state = step->state;
	struct ensemble *e;
	int err;

	e = &state->ensemble;
	state->count = (int)option_number(&step->options, "waiters");
	err = ensemble_setup(step, e, sem_loop, state->count + 1, state->count + 1);
	state->keeper = (struct ensemble_thread){
		.ensemble = e,
		.body = sem_keeper_body,
		.state = state,
		.priority = e->priority - 1 - state->count,
	};
	for (int i = 0; i < state->count; i++) {
		struct sem_waiter *waiter = &state->waiters[i];

		snprintf(waiter->name, sizeof(waiter->name), "waiter %d", i + 1);
		waiter->thread = (struct ensemble_thread){
			.ensemble = e,
			.body = sem_waiter_body,
			.state = state,
			.name = waiter->name,
			.number = i,
			.waits = 2, /* at the gate, for the semaphore */
		};
	}
	return err;
}

static int sem_finish(struct step *step)
{
	struct sem_state *state = step->state;
	const struct order *orders[SEM_ARRIVALS];
	int count = 0;

	for (int i = 0; i < SEM_ARRIVALS; i++) {
		struct order_rounds *rounds = &state->rounds[i];

		rounds->order.rule = step->measurement->verdicts[i].name;
		if (rounds->judged)
			orders[count++] = &rounds->order;
		if (!state->ensemble.error || order_decided(rounds))
			order_rounds_verdict(
				step, rounds, state->why[i],
				"give each waiter a real-time policy and its own priority");
	}
	if (count)
		order_table(step, orders, count);
	return state->ensemble.error;
}

const struct measurement sem_order_measurement = {
	.name = "sem-order",
	.code = "SEM-B-REL",
	.summary = "which of its waiters a semaphore releases first",
	.needs = NEEDS_PRIORITIES,
	.chapter = CHAPTER_SEMAPHORES,
	.options = sem_options,
	.tables = { { ORDER_TABLE, ORDER_MEANING } },
	.verdicts = {
		[SEM_ASCENDING] = { SEM_RULE "ascending", "the highest waiter came last" },
		[SEM_DESCENDING] = { SEM_RULE "descending", "the highest waiter came first" },
		[SEM_MIXED] = { SEM_RULE "mixed", "the waiters came in another order" },
		[SEM_EQUAL] = { "equal waiters in order of arrival",
				"all have one priority: the one that waited longest is released" },
	},
	.evaluate = { { "idle", "", NULL } },
	.state_size = sizeof(struct sem_state),
	.setup = sem_setup,
	.finish = sem_finish,
};
