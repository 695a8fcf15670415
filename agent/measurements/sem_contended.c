// SPDX-License-Identifier: Apache-2.0
/*
 * Contended semaphores [SEM-P-ARC]: time to block on a semaphore, and to release the highest
 * waiter, against the number of waiters. docs/measurements/sem-contended.md says what exactly is
 * timed. Each waiter is held at a gate. A keeper of lower priority opens the gates one by one and,
 * when all waiters wait, posts as often. On one CPU each open gate and each post gives the CPU to a
 * waiter, and the keeper continues when that waiter blocks again.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "methods/ensemble.h"

#define SEM_WAITERS_MAX 90
/* Rounds of a test loop: one keeper carries them out, for so long at most. */
#define SEM_LOOP 20
#define SEM_LOOP_NS (50 * NSEC_PER_MSEC)
/* Room in the ring of a series of all operations: more than what 200 ms bring. */
#define SEM_ALL_ROOM (1 << 16)

static const char sem_rule[] = "the highest waiter runs at once";

enum sem_arrival { SEM_INWARD, SEM_DESCENDING, SEM_ASCENDING };

/* Numbers of waiters that have series. The greatest number also has them. */
static const int sem_numbers[] = { 1, 2, 5, 10, 20, 40, 60, 90 };
#define SEM_NUMBERS ((int)(sizeof(sem_numbers) / sizeof(sem_numbers[0])))

struct sem_waiter {
	struct ensemble_thread thread;
	uint32_t gate;
	uint32_t waits;	   /* how often it was about to */
	uint32_t released; /* how often it was */
	int64_t from_ns;   /* before sem_wait() */
	int64_t to_ns;	   /* after it */
};

struct sem_series {
	int acquire;
	int release;
	char label[4];
};

/* One quantity at one number of waiters, of all rounds. */
struct sem_sum {
	int64_t sum_ns;
	int64_t least_ns;
	int64_t most_ns;
};

enum sem_quantity { SEM_ACQUIRE, SEM_RELEASE, SEM_QUANTITIES };

struct sem_state {
	struct ensemble ensemble;
	int64_t rounds;	    /* asked for */
	int64_t operations; /* of each kind, for the series of all */
	int64_t done;
	int count; /* of waiters */
	sem_t sem;
	uint32_t stop;
	struct ensemble_thread keeper;
	int64_t loop_ns; /* when the keeper began, relative to the start of the step */
	int loop_rounds; /* of one keeper: planned, then completed */
	char broken[96]; /* what did not happen at once, or "" */
	bool stalled;	 /* nothing ran for a while in the last test loop */
	uint32_t moved;	 /* how often the kernel may have moved a page of a waiter */
	struct sem_waiter waiters[SEM_WAITERS_MAX]; /* in the order of arrival */
	struct sem_waiter *ranks[SEM_WAITERS_MAX];  /* in that of priority, the highest first */
	struct sem_series series[SEM_WAITERS_MAX];  /* [n - 1]: with n waiters */
	struct sem_sum sums[SEM_WAITERS_MAX][SEM_QUANTITIES];
	int all[SEM_QUANTITIES]; /* series of the operations with any number of waiters */
	int64_t last_ns[SEM_WAITERS_MAX][SEM_QUANTITIES]; /* the last round, in net times */
	int64_t taken_ns[SEM_LOOP][SEM_WAITERS_MAX][SEM_QUANTITIES];
};

static const struct option_info sem_options[] = {
	ENSEMBLE_FOR,
	{ "samples", OPTION_INTEGER, "300", 10, 1000000, NULL,
	  "rounds, each with one sample for every number of waiters" },
	{ "operations", OPTION_INTEGER, "0", 0, 100000000, NULL,
	  "samples of acquire-all and of release-all, in place of --samples; 0: the "
	  "samples of all rounds" },
	ENSEMBLE_CPU,
	{ "priority", OPTION_INTEGER, "98", 0, 99, NULL,
	  "SCHED_FIFO priority of the highest thread, above all waiters" },
	ENSEMBLE_POLICY,
	{ "waiters", OPTION_INTEGER, "90", 1, SEM_WAITERS_MAX, NULL, "maximum number of waiters" },
	{ "arrival", OPTION_ENUM, "inward", 0, 0, "inward descending ascending",
	  "order in which the waiters arrive, by priority" },
	{ "shared", OPTION_FLAG, "no", 0, 0, NULL, "a semaphore that processes may share" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

/* --- threads under test --- */

static void sem_waiter_body(struct ensemble_thread *thread)
{
	struct sem_state *state = thread->state;
	struct sem_waiter *waiter = &state->waiters[thread->number];

	for (;;) {
		ensemble_gate(&waiter->gate);
		if (atomic_load_acquire(&state->stop))
			return;
		atomic_store_release(&waiter->gate, 0);
		waiter->from_ns = mark_from_ns(&state->ensemble.step->mark);
		atomic_store_release(&waiter->waits, waiter->waits + 1);
		sem_wait(&state->sem);
		waiter->to_ns = mark_to_ns(&state->ensemble.step->mark);
		atomic_store_release(&waiter->released, waiter->released + 1);
	}
}

static bool sem_keeper_broken(struct sem_state *state, uint32_t round, const char *what,
			      int waiters)
{
	snprintf(state->broken, sizeof(state->broken),
		 "round %u, number of waiters %d: the waiter %s at once", round, waiters, what);
	return false;
}

static bool sem_round(struct sem_state *state, int64_t (*taken_ns)[SEM_QUANTITIES], uint32_t round)
{
	for (int n = 1; n <= state->count; n++) {
		struct sem_waiter *waiter = &state->waiters[n - 1];
		int64_t now_ns;

		ensemble_open(&waiter->gate);
		now_ns = mark_to_ns(&state->ensemble.step->mark);
		if (atomic_load_acquire(&waiter->waits) != round ||
		    atomic_load_acquire(&waiter->released) == round)
			return sem_keeper_broken(state, round, "that was started did not wait", n);
		taken_ns[n - 1][SEM_ACQUIRE] = now_ns - waiter->from_ns;
	}
	for (int n = state->count; n > 0; n--) {
		struct sem_waiter *highest = state->ranks[state->count - n];
		int64_t from_ns = mark_from_ns(&state->ensemble.step->mark);

		sem_post(&state->sem);
		if (atomic_load_acquire(&highest->released) != round)
			return sem_keeper_broken(state, round, "to be released did not run", n);
		taken_ns[n - 1][SEM_RELEASE] = highest->to_ns - from_ns;
	}
	return true;
}

static void sem_keeper_body(struct ensemble_thread *thread)
{
	struct sem_state *state = thread->state;
	int64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + SEM_LOOP_NS;
	int done = 0;

	while (done < state->loop_rounds && clock_now_ns(CLOCK_MONOTONIC) < until_ns &&
	       !step_stopped(state->ensemble.step) &&
	       sem_round(state, state->taken_ns[done], (uint32_t)(state->done + done + 1)))
		done++;
	state->loop_rounds = done;
}

/* --- the conductor --- */

static void sem_take(struct sem_state *state, int n, enum sem_quantity quantity, int series)
{
	struct ensemble *e = &state->ensemble;
	struct sem_sum *sum = &state->sums[n - 1][quantity];

	if (series >= 0)
		series_time(&e->step->series[series], state->loop_ns);
	for (int i = 0; i < state->loop_rounds; i++) {
		int64_t took_ns = ensemble_net(e, state->taken_ns[i][n - 1][quantity]);

		if (!state->done && !i)
			sum->least_ns = sum->most_ns = took_ns;
		if (took_ns < sum->least_ns)
			sum->least_ns = took_ns;
		if (took_ns > sum->most_ns)
			sum->most_ns = took_ns;
		sum->sum_ns += took_ns;
		state->last_ns[n - 1][quantity] = took_ns;
		if (series >= 0)
			series_put(&e->step->series[series], took_ns);
	}
}

/* The operations of all rounds in their order: the waiters come one by one, and go one by one. */
static void sem_take_all(struct sem_state *state, enum sem_quantity quantity)
{
	struct ensemble *e = &state->ensemble;
	struct series *series = &e->step->series[state->all[quantity]];

	series_time(series, state->loop_ns);
	for (int i = 0; i < state->loop_rounds; i++) {
		int64_t left = state->operations - (state->done + i) * state->count;

		for (int k = 0; k < state->count && k < left; k++) {
			int n = quantity == SEM_ACQUIRE ? k : state->count - 1 - k;

			series_put(series, ensemble_net(e, state->taken_ns[i][n][quantity]));
		}
	}
}

static bool sem_keep(struct sem_state *state)
{
	int64_t left = state->rounds - state->done;
	uint32_t stalls = state->ensemble.stalls;

	state->loop_rounds = left < SEM_LOOP ? (int)left : SEM_LOOP;
	state->loop_ns = clock_now_ns(CLOCK_MONOTONIC) - state->ensemble.step->start_ns;
	if (!ensemble_start(&state->keeper) || !ensemble_join(&state->keeper))
		return false;
	/* waiters that were stopped wait again, in another order */
	state->stalled = state->ensemble.stalls != stalls;
	for (int n = 1; n <= state->count; n++) {
		sem_take(state, n, SEM_ACQUIRE, state->series[n - 1].acquire);
		sem_take(state, n, SEM_RELEASE, state->series[n - 1].release);
	}
	sem_take_all(state, SEM_ACQUIRE);
	sem_take_all(state, SEM_RELEASE);
	state->done += state->loop_rounds;
	return !state->broken[0] && state->done < state->rounds;
}

static void sem_loop(struct worker *worker)
{
	struct sem_state *state = worker->state;
	bool started = true;

	for (int i = 0; i < state->count && started; i++)
		started = ensemble_start(&state->waiters[i].thread);
	while (started && ensemble_goes_on(&state->ensemble) && sem_keep(state))
		;
	/* release waiters still at a gate, or after a failure at the semaphore */
	atomic_store_release(&state->stop, 1);
	for (int i = 0; i < state->count; i++) {
		ensemble_open(&state->waiters[i].gate);
		sem_post(&state->sem);
	}
	for (int i = 0; i < state->count; i++)
		if (ensemble_join(&state->waiters[i].thread))
			state->moved += ensemble_moved(&state->waiters[i].thread);
}

/* --- the frame --- */

static int sem_add(struct sem_state *state, int n)
{
	struct sem_series *series = &state->series[n - 1];
	int64_t room = ensemble_room(state->rounds, SEM_LOOP);
	bool shown = n == state->count;

	for (int i = 0; i < SEM_NUMBERS; i++)
		shown = shown || n == sem_numbers[i];
	series->acquire = series->release = -1;
	if (!shown)
		return 0;
	snprintf(series->label, sizeof(series->label), "%d", n);
	series->acquire =
		ensemble_series(&state->ensemble, "acquire", "waiters", series->label, room, true);
	series->release =
		ensemble_series(&state->ensemble, "release", "waiters", series->label, room, true);
	ensemble_tested(&state->ensemble, series->acquire, 1);
	ensemble_tested(&state->ensemble, series->release, 1);
	return series->acquire < 0 ? series->acquire : series->release < 0 ? series->release : 0;
}

/* The waiter that arrives as number @i, by priority: 0 is the highest. */
static int sem_rank(const struct sem_state *state, enum sem_arrival arrival, int i)
{
	int last = state->count - 1;

	switch (arrival) {
	case SEM_DESCENDING:
		return i;
	case SEM_ASCENDING:
		return last - i;
	case SEM_INWARD:
		break;
	}
	return i % 2 ? last - i / 2 : i / 2;
}

static int sem_add_all(struct sem_state *state)
{
	static const char *const names[SEM_QUANTITIES] = { "acquire-all", "release-all" };
	int64_t room = ensemble_room(state->operations, SEM_LOOP * state->count);

	if (room > SEM_ALL_ROOM)
		room = SEM_ALL_ROOM;
	for (int i = 0; i < SEM_QUANTITIES; i++) {
		state->all[i] = ensemble_series(&state->ensemble, names[i], NULL, NULL, room, true);
		ensemble_tested(&state->ensemble, state->all[i], 1);
		if (state->all[i] < 0)
			return state->all[i];
	}
	return 0;
}

static void sem_fill(struct sem_state *state, enum sem_arrival arrival)
{
	struct ensemble *e = &state->ensemble;
	int lowest = e->priority - 1 - state->count;

	state->keeper = (struct ensemble_thread){
		.ensemble = e,
		.body = sem_keeper_body,
		.state = state,
		.priority = lowest,
	};
	for (int i = 0; i < state->count; i++) {
		int rank = sem_rank(state, arrival, i);

		state->waiters[i].thread = (struct ensemble_thread){
			.ensemble = e,
			.body = sem_waiter_body,
			.state = state,
			.number = i,
			.priority = e->priority - 1 - rank,
		};
		state->ranks[rank] = &state->waiters[i];
	}
}

static int sem_setup(struct step *step)
{
	struct sem_state *state = step->state;
	int err;

	state->rounds = option_number(&step->options, "samples");
	state->count = (int)option_number(&step->options, "waiters");
	state->operations = option_number(&step->options, "operations");
	if (state->operations)
		state->rounds = (state->operations + state->count - 1) / state->count;
	else
		state->operations = state->rounds * state->count;
	if (sem_init(&state->sem, (int)option_number(&step->options, "shared"), 0))
		return message_set(&step->msg, -errno, "use another C library",
				   "cannot create a semaphore: %s", strerror(errno));
	err = ensemble_setup(step, &state->ensemble, sem_loop, state->count + 1, state->count + 1);
	if (err)
		return err;
	sem_fill(state, (enum sem_arrival)option_number(&step->options, "arrival"));
	for (int n = 1; n <= state->count && !err; n++)
		err = sem_add(state, n);
	return err ?: sem_add_all(state);
}

static void sem_tables_put(struct sem_state *state)
{
	static const struct step_column columns[] = {
		{ "waiters", "" },	  { "acquire, mean", "ns" }, { "acquire, least", "ns" },
		{ "acquire, max", "ns" }, { "release, mean", "ns" }, { "release, least", "ns" },
		{ "release, max", "ns" },
	};
	static const struct step_column loop[] = {
		{ "operation", "" },
		{ "acquire", "ns" },
		{ "release", "ns" },
	};
	struct step *step = state->ensemble.step;
	struct cbor *c = step_table_begin(step, "waiters", columns, 7, state->count);

	for (int n = 1; n <= state->count; n++) {
		cbor_array(c, 7);
		cbor_int(c, n);
		for (int quantity = 0; quantity < SEM_QUANTITIES; quantity++) {
			cbor_int(c, state->sums[n - 1][quantity].sum_ns / state->done);
			cbor_int(c, state->sums[n - 1][quantity].least_ns);
			cbor_int(c, state->sums[n - 1][quantity].most_ns);
		}
	}
	step_table_end(step);
	c = step_table_begin(step, "loop", loop, 3, state->count);
	for (int n = 1; n <= state->count; n++) {
		cbor_array(c, 3);
		cbor_int(c, n);
		cbor_int(c, state->last_ns[n - 1][SEM_ACQUIRE]);
		cbor_int(c, state->last_ns[state->count - n][SEM_RELEASE]);
	}
	step_table_end(step);
}

static int sem_finish(struct step *step)
{
	struct sem_state *state = step->state;
	const char *disturbed = !state->broken[0] ? NULL :
				state->stalled	  ? ENSEMBLE_STALLED :
				state->moved	  ? ENSEMBLE_DISTURBED :
						    NULL;
	char evidence[224];

	if (state->done)
		sem_tables_put(state);
	snprintf(evidence, sizeof(evidence), "rounds: %lld, waiters: %d%s%s%s%s",
		 (long long)state->done, state->count, state->broken[0] ? "; " : "", state->broken,
		 disturbed ? "; " : "", disturbed ?: "");
	if (disturbed)
		step_verdict(step, sem_rule, "inconclusive", evidence,
			     state->stalled ? "measure again" : ENSEMBLE_DISTURBED_REMEDY);
	else if (state->done || state->broken[0])
		step_verdict(step, sem_rule, state->broken[0] ? "fail" : "pass", evidence,
			     state->broken[0] ? "use SCHED_FIFO, and one CPU" : "");
	else
		ensemble_not_tried(&state->ensemble, sem_rule, "a round");
	return state->ensemble.error;
}

const struct measurement sem_contended_measurement = {
	.name = "sem-contended",
	.code = "SEM-P-ARC",
	.summary =
		"time to block on a semaphore, and to release the highest-priority one of up to 90 waiters",
	.needs = NEEDS_PRIORITIES,
	.chapter = CHAPTER_SEMAPHORES,
	.options = sem_options,
	.series = {
		{ "acquire", "ns",
		  "time to block on a semaphore, including the switch to the next thread",
		  "before sem_wait() in the last of the waiters", "the keeper runs",
		  "sem_wait,enqueue,switch" },
		{ "release", "ns", "time to release the waiter of highest priority",
		  "before sem_post() in the keeper", "the highest waiter runs",
		  "sem_post,wake-up,switch" },
		{ "acquire-all", "ns",
		  "acquire with each number of waiters, in the order of a test loop",
		  "before sem_wait() in the last of the waiters", "the keeper runs",
		  "sem_wait,enqueue,switch" },
		{ "release-all", "ns",
		  "release with each number of waiters, in the order of a test loop",
		  "before sem_post() in the keeper", "the highest waiter runs",
		  "sem_post,wake-up,switch" },
	},
	.tables = {
		{ "waiters", "mean, minimum and maximum times for each number of waiters" },
		{ "loop", "the last test loop, operation by operation" },
	},
	.verdicts = {
		{ sem_rule,
		  "each waiter runs at once when it is started, and when a post releases it" },
	},
	.evaluate = { { "idle", "samples=300", "samples=10000" } },
	.mark = &mark_spans,
	.state_size = sizeof(struct sem_state),
	.setup = sem_setup,
	.finish = sem_finish,
};
