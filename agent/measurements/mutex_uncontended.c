// SPDX-License-Identifier: Apache-2.0
/*
 * Uncontended mutexes [MUT-P-ARN]: cost of pthread_mutex_lock() and pthread_mutex_unlock() when no
 * other thread wants the mutex, for each type. docs/measurements/mutex-uncontended.md says what
 * exactly is timed.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "methods/ensemble.h"
#include "methods/mutex_kind.h"
#include "methods/syscalls.h"

/* Mutexes in an array: they stay in the first-level cache, and none waits for its neighbour. */
#define MUTEX_BATCH 64
/* Samples of a test loop. */
#define MUTEX_LOOP 500

enum mutex_operation { MUTEX_ACQUIRE, MUTEX_RELEASE, MUTEX_PAIR, MUTEX_OPERATIONS };

struct mutex_type {
	const char *name;
	struct mutex_kind kind;
	int above; /* the ceiling is so much above the thread's priority */
	const char *operations[MUTEX_OPERATIONS]; /* rows of the table */
};

#define MUTEX_TYPE(name, type, protocol, robust, above)                               \
	{                                                                             \
		name, { type, protocol, robust }, above,                              \
		{                                                                     \
			name ": acquire", name ": release", name ": acquire, release" \
		}                                                                     \
	}
static const struct mutex_type mutex_types[] = {
	MUTEX_TYPE("normal", PTHREAD_MUTEX_NORMAL, MUTEX_NONE, 0, 0),
	MUTEX_TYPE("recursive", PTHREAD_MUTEX_RECURSIVE, MUTEX_NONE, 0, 0),
	MUTEX_TYPE("errorcheck", PTHREAD_MUTEX_ERRORCHECK, MUTEX_NONE, 0, 0),
	MUTEX_TYPE("inherit", PTHREAD_MUTEX_NORMAL, MUTEX_INHERIT, 0, 0),
	MUTEX_TYPE("protect", PTHREAD_MUTEX_NORMAL, MUTEX_PROTECT, 0, 0),
	MUTEX_TYPE("protect-raise", PTHREAD_MUTEX_NORMAL, MUTEX_PROTECT, 0, 1),
	MUTEX_TYPE("robust", PTHREAD_MUTEX_NORMAL, MUTEX_NONE, 1, 0),
};

#define MUTEX_TYPES ((int)(sizeof(mutex_types) / sizeof(mutex_types[0])))
#define MUTEX_ALL_MEASURED "every mutex type is measured"

struct mutex_measured {
	int acquire; /* series; -1: this type is not available */
	int release;
	int refused; /* errno */
	struct batch batches[MUTEX_OPERATIONS];
	pthread_mutex_t mutexes[MUTEX_BATCH];
};

struct mutex_state {
	struct ensemble ensemble;
	int64_t samples;
	struct mutex_measured types[MUTEX_TYPES];
};

static const struct option_info mutex_options[] = {
	ENSEMBLE_FOR,
	{ "samples", OPTION_INTEGER, "10000", 100, 10000000, NULL,
	  "single operations of each kind and type" },
	ENSEMBLE_CPU,
	ENSEMBLE_PRIORITY,
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

static int mutex_add(struct mutex_state *state, const struct mutex_type *type,
		     struct mutex_measured *m)
{
	/* a ceiling below its locker's priority is an error. SCHED_OTHER has priority 0. */
	int ceiling = (state->ensemble.priority ?: 1) + type->above;

	m->acquire = m->release = -1;
	for (int i = 0; i < MUTEX_OPERATIONS; i++)
		m->batches[i].operation = type->operations[i];
	for (int i = 0; i < MUTEX_BATCH && !m->refused; i++)
		m->refused = mutex_kind_init(&m->mutexes[i], &type->kind, ceiling);
	/* what can be made may still not be locked: that takes the ceiling's priority */
	if (!m->refused && type->kind.protocol == MUTEX_PROTECT &&
	    (!state->ensemble.priority || !state->ensemble.step->core->may_have(ceiling)))
		m->refused = EPERM;
	if (m->refused)
		return 0;
	if (type->above)
		state->ensemble.step->workers[0].raised = ceiling;
	m->acquire = ensemble_series(&state->ensemble, "acquire", "type", type->name,
				     state->samples, true);
	m->release = ensemble_series(&state->ensemble, "release", "type", type->name,
				     state->samples, true);
	return m->acquire < 0 ? m->acquire : m->release < 0 ? m->release : 0;
}

/* Single operations, each between two time stamps. */
static void mutex_singles(struct ensemble *e, const struct mutex_measured *m,
			  pthread_mutex_t *mutex, int64_t count)
{
	struct series *acquire = &e->step->series[m->acquire];
	struct series *release = &e->step->series[m->release];
	struct mark *mark = &e->step->mark;

	ensemble_loop(e, m->acquire);
	ensemble_loop(e, m->release);
	while (count-- > 0) {
		int64_t from_ns = mark_from_ns(mark), held_ns, before_ns;

		pthread_mutex_lock(mutex);
		held_ns = mark_to_ns(mark);
		series_put(acquire, ensemble_net(e, held_ns - from_ns));
		before_ns = mark_from_ns(mark);
		pthread_mutex_unlock(mutex);
		series_put(release, ensemble_net(e, mark_to_ns(mark) - before_ns));
	}
}

static void mutex_batches(const struct ensemble *e, struct mutex_measured *m, bool pairs_only)
{
	if (!pairs_only) {
		BATCH_TIME(&m->batches[MUTEX_ACQUIRE], e->stamp_ps, MUTEX_BATCH,
			   pthread_mutex_lock(&m->mutexes[batch_i]));
		BATCH_TIME(&m->batches[MUTEX_RELEASE], e->stamp_ps, MUTEX_BATCH,
			   pthread_mutex_unlock(&m->mutexes[batch_i]));
	}
	BATCH_TIME(&m->batches[MUTEX_PAIR], e->stamp_ps, MUTEX_LOOP, pthread_mutex_lock(m->mutexes);
		   pthread_mutex_unlock(m->mutexes));
}

static void mutex_loop(struct worker *worker)
{
	struct mutex_state *state = worker->state;

	for (int64_t done = 0; done < state->samples; done += MUTEX_LOOP)
		for (int i = 0; i < MUTEX_TYPES; i++) {
			struct mutex_measured *m = &state->types[i];
			int64_t left = state->samples - done;

			if (m->refused)
				continue;
			if (!ensemble_goes_on(&state->ensemble))
				return;
			mutex_singles(&state->ensemble, m, m->mutexes,
				      left < MUTEX_LOOP ? left : MUTEX_LOOP);
			/* raised by the first of several it stays so for the others */
			mutex_batches(&state->ensemble, m, mutex_types[i].above > 0);
		}
}

static int mutex_setup(struct step *step)
{
	struct mutex_state *state = step->state;
	int err;

	state->samples = option_number(&step->options, "samples");
	err = ensemble_setup(step, &state->ensemble, mutex_loop, 0, 1);
	for (int i = 0; i < MUTEX_TYPES && !err; i++)
		err = mutex_add(state, &mutex_types[i], &state->types[i]);
	return err;
}

static void mutex_acquire(void *mutex)
{
	pthread_mutex_lock(mutex);
}

static void mutex_release(void *mutex)
{
	pthread_mutex_unlock(mutex);
}

static void mutex_count_syscalls(struct mutex_state *state)
{
	struct syscalls_pair pairs[MUTEX_TYPES];
	int count = 0;

	for (int i = 0; i < MUTEX_TYPES; i++)
		if (!state->types[i].refused)
			pairs[count++] = (struct syscalls_pair){
				.kind = mutex_types[i].name,
				.acquire = mutex_acquire,
				.release = mutex_release,
				.object = state->types[i].mutexes,
				.excepted = mutex_types[i].above > 0,
			};
	syscalls_put(&state->ensemble, pairs, count);
}

static int mutex_finish(struct step *step)
{
	struct mutex_state *state = step->state;
	struct batch rows[MUTEX_TYPES * MUTEX_OPERATIONS];

	for (int i = 0; i < MUTEX_TYPES; i++) {
		memcpy(&rows[i * MUTEX_OPERATIONS], state->types[i].batches,
		       sizeof(state->types[i].batches));
		if (!state->types[i].refused)
			continue;
		mutex_kind_skipped(step, MUTEX_ALL_MEASURED, mutex_types[i].name,
				   state->types[i].refused);
	}
	batch_table(step, rows, MUTEX_TYPES * MUTEX_OPERATIONS);
	mutex_count_syscalls(state);
	return state->ensemble.error;
}

const struct measurement mutex_uncontended_measurement = {
	.name = "mutex-uncontended",
	.code = "MUT-P-ARN",
	.summary = "cost of an uncontended mutex",
	.chapter = CHAPTER_MUTEXES,
	.options = mutex_options,
	.series = {
		{ "acquire", "ns", "time of pthread_mutex_lock() on a free mutex",
		  "before the call", "after it", NULL },
		{ "release", "ns", "time of pthread_mutex_unlock() with no waiter",
		  "before the call", "after it", NULL },
	},
	.tables = {
		{ BATCH_TABLE, BATCH_MEANING },
		{ SYSCALLS_TABLE, SYSCALLS_MEANING },
	},
	.verdicts = {
		{ MUTEX_ALL_MEASURED, "a type that the C library does not have is skipped" },
		{ SYSCALLS_NONE,
		  "no lock and no unlock enters the kernel, except with protect-raise" },
	},
	.evaluate = { { "idle", "samples=10000", "samples=1000000" } },
	.mark = &mark_spans,
	.state_size = sizeof(struct mutex_state),
	.setup = mutex_setup,
	.finish = mutex_finish,
};
