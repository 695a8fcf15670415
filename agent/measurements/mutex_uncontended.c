// SPDX-License-Identifier: Apache-2.0
/*
 * Uncontended mutexes [MUT-P-ARN]: what pthread_mutex_lock() and pthread_mutex_unlock() take when
 * nobody else wants the mutex, for each type. docs/measurements/mutex-uncontended.md says what
 * exactly is timed.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ensemble.h"

/* Mutexes in an array: they stay in the first-level cache, and none waits for its neighbour. */
#define MUTEX_BATCH 64
/* Samples of a test loop. */
#define MUTEX_LOOP 500

enum mutex_operation { MUTEX_ACQUIRE, MUTEX_RELEASE, MUTEX_PAIR, MUTEX_OPERATIONS };

struct mutex_kind {
	const char *name;
	int type;
	int protocol;
	int robust;
	const char *operations[MUTEX_OPERATIONS]; /* rows of the table */
};

static const struct mutex_kind mutex_kinds[] = {
#define MUTEX_KIND(name, type, protocol, robust)                                      \
	{                                                                             \
		name, type, protocol, robust,                                         \
		{                                                                     \
			name ": acquire", name ": release", name ": acquire, release" \
		}                                                                     \
	}
	MUTEX_KIND("normal", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, 0),
	MUTEX_KIND("recursive", PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, 0),
	MUTEX_KIND("errorcheck", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, 0),
	MUTEX_KIND("inherit", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, 0),
	MUTEX_KIND("protect", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_PROTECT, 0),
	MUTEX_KIND("robust", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, 1),
};

#define MUTEX_KINDS ((int)(sizeof(mutex_kinds) / sizeof(mutex_kinds[0])))
#define MUTEX_ALL_MEASURED "every mutex type is measured"

struct mutex_measured {
	int acquire; /* series; -1: this type is not to be had */
	int release;
	int refused; /* errno */
	struct batch batches[MUTEX_OPERATIONS];
	pthread_mutex_t mutexes[MUTEX_BATCH];
};

struct mutex_state {
	struct ensemble ensemble;
	int64_t samples;
	struct mutex_measured kinds[MUTEX_KINDS];
};

static const char *const mutex_contexts[] = { "user", NULL };

static const struct option_info mutex_options[] = {
	ENSEMBLE_FOR,
	{ "samples", OPTION_INTEGER, "10000", 100, 10000000, NULL,
	  "single operations of each kind and type" },
	ENSEMBLE_CPU,
	ENSEMBLE_PRIORITY,
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

static const struct catalogue_series mutex_series[] = {
	{ "acquire", "ns", "time of pthread_mutex_lock() on a free mutex", "before the call",
	  "after it", NULL },
	{ "release", "ns", "time of pthread_mutex_unlock() with no waiter", "before the call",
	  "after it", NULL },
	{ NULL, NULL, NULL, NULL, NULL, NULL },
};

static const struct catalogue_entry mutex_tables[] = {
	{ BATCH_TABLE, BATCH_MEANING },
	{ NULL, NULL },
};

static const struct catalogue_entry mutex_verdicts[] = {
	{ MUTEX_ALL_MEASURED, "a type that the C library does not have is skipped" },
	{ NULL, NULL },
};

static const struct catalogue_evaluate mutex_evaluate[] = {
	{ "idle", "samples=10000", "samples=1000000" },
	{ NULL, NULL, NULL },
};

/* 0 or an error number: what pthread_mutexattr and pthread_mutex_init say. */
static int mutex_init(pthread_mutex_t *mutex, const struct mutex_kind *kind, int ceiling)
{
	pthread_mutexattr_t attr;
	int err;

	pthread_mutexattr_init(&attr);
	err = pthread_mutexattr_settype(&attr, kind->type);
	err = err ?: pthread_mutexattr_setprotocol(&attr, kind->protocol);
	if (!err && kind->protocol == PTHREAD_PRIO_PROTECT)
		err = pthread_mutexattr_setprioceiling(&attr, ceiling);
	if (!err && kind->robust)
		err = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	err = err ?: pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	return err;
}

static int mutex_add(struct mutex_state *state, const struct mutex_kind *kind,
		     struct mutex_measured *m)
{
	/* a ceiling below its locker's priority is an error; SCHED_OTHER has none */
	int ceiling = state->ensemble.priority ?: 1;

	m->acquire = m->release = -1;
	for (int i = 0; i < MUTEX_OPERATIONS; i++)
		m->batches[i].operation = kind->operations[i];
	for (int i = 0; i < MUTEX_BATCH && !m->refused; i++)
		m->refused = mutex_init(&m->mutexes[i], kind, ceiling);
	/* what can be made may still not be locked */
	if (!m->refused && kind->protocol == PTHREAD_PRIO_PROTECT && !state->ensemble.priority)
		m->refused = EPERM;
	if (m->refused)
		return 0;
	m->acquire = ensemble_series(&state->ensemble, "acquire", "type", kind->name,
				     state->samples, true);
	m->release = ensemble_series(&state->ensemble, "release", "type", kind->name,
				     state->samples, true);
	return m->acquire < 0 ? m->acquire : m->release < 0 ? m->release : 0;
}

/* Single operations, each between two time stamps. */
static void mutex_singles(struct ensemble *e, const struct mutex_measured *m,
			  pthread_mutex_t *mutex, int64_t count)
{
	struct series *acquire = &e->run->series[m->acquire];
	struct series *release = &e->run->series[m->release];

	ensemble_loop(e, m->acquire);
	ensemble_loop(e, m->release);
	while (count-- > 0) {
		int64_t from_ns = clock_now_ns(CLOCK_MONOTONIC), held_ns, before_ns;

		pthread_mutex_lock(mutex);
		held_ns = clock_now_ns(CLOCK_MONOTONIC);
		series_put(acquire, ensemble_net(e, held_ns - from_ns));
		before_ns = clock_now_ns(CLOCK_MONOTONIC);
		pthread_mutex_unlock(mutex);
		series_put(release, ensemble_net(e, clock_now_ns(CLOCK_MONOTONIC) - before_ns));
	}
}

static void mutex_batches(const struct ensemble *e, struct mutex_measured *m)
{
	BATCH_TIME(&m->batches[MUTEX_ACQUIRE], e->stamp_ps, MUTEX_BATCH,
		   pthread_mutex_lock(&m->mutexes[batch_i]));
	BATCH_TIME(&m->batches[MUTEX_RELEASE], e->stamp_ps, MUTEX_BATCH,
		   pthread_mutex_unlock(&m->mutexes[batch_i]));
	BATCH_TIME(&m->batches[MUTEX_PAIR], e->stamp_ps, MUTEX_LOOP, pthread_mutex_lock(m->mutexes);
		   pthread_mutex_unlock(m->mutexes));
}

static void mutex_loop(struct worker *worker)
{
	struct mutex_state *state = worker->state;

	for (int64_t done = 0; done < state->samples; done += MUTEX_LOOP)
		for (int i = 0; i < MUTEX_KINDS; i++) {
			struct mutex_measured *m = &state->kinds[i];
			int64_t left = state->samples - done;

			if (m->refused)
				continue;
			if (!ensemble_goes_on(&state->ensemble))
				return;
			mutex_singles(&state->ensemble, m, m->mutexes,
				      left < MUTEX_LOOP ? left : MUTEX_LOOP);
			mutex_batches(&state->ensemble, m);
		}
}

static int mutex_setup(struct run *run)
{
	struct mutex_state *state = calloc(1, sizeof(*state));
	int err;

	run->state = state;
	if (!state)
		return message_set(&run->msg, -ENOMEM, "free some memory", "no memory");
	state->samples = option_number(&run->options, "samples");
	err = ensemble_setup(run, &state->ensemble, mutex_loop, 0, 0);
	for (int i = 0; i < MUTEX_KINDS && !err; i++)
		err = mutex_add(state, &mutex_kinds[i], &state->kinds[i]);
	return err;
}

static int mutex_finish(struct run *run)
{
	struct mutex_state *state = run->state;
	struct batch rows[MUTEX_KINDS * MUTEX_OPERATIONS];
	char evidence[160];

	for (int i = 0; i < MUTEX_KINDS; i++) {
		memcpy(&rows[i * MUTEX_OPERATIONS], state->kinds[i].batches,
		       sizeof(state->kinds[i].batches));
		if (!state->kinds[i].refused)
			continue;
		snprintf(evidence, sizeof(evidence), "a %s mutex: %s", mutex_kinds[i].name,
			 strerror(state->kinds[i].refused));
		run_verdict(run, MUTEX_ALL_MEASURED, "skipped", evidence,
			    "use a C library that has it, and real-time priority");
	}
	batch_table(run, rows, MUTEX_KINDS * MUTEX_OPERATIONS);
	return state->ensemble.error;
}

static void mutex_cleanup(struct run *run)
{
	free(run->state);
}

const struct measurement mutex_uncontended_measurement = {
	.name = "mutex-uncontended",
	.code = "MUT-P-ARN",
	.summary = "what a mutex costs that nobody else wants",
	.role = "measurement",
	.chapter = CHAPTER_MUTEXES,
	.contexts = mutex_contexts,
	.options = mutex_options,
	.series = mutex_series,
	.tables = mutex_tables,
	.verdicts = mutex_verdicts,
	.evaluate = mutex_evaluate,
	.setup = mutex_setup,
	.finish = mutex_finish,
	.cleanup = mutex_cleanup,
};
