// SPDX-License-Identifier: Apache-2.0
/*
 * Uncontended semaphores [SEM-P-ARN]: cost of sem_wait() and sem_post() without a waiter, for
 * semaphores of one process and shared ones. docs/measurements/sem-uncontended.md says what exactly
 * is timed.
 */
#include <errno.h>
#include <semaphore.h>
#include <string.h>

#include "methods/ensemble.h"
#include "methods/syscalls.h"

/* Samples of a test loop, and operations of a batch. */
#define SEM_LOOP 500

enum sem_operation { SEM_ACQUIRE, SEM_RELEASE, SEM_PAIR, SEM_OPERATIONS };

static const char *const sem_rows[][SEM_OPERATIONS] = {
	{ "private: acquire", "private: release", "private: acquire, release" },
	{ "shared: acquire", "shared: release", "shared: acquire, release" },
};

#define SEM_KINDS 2

struct sem_measured {
	int acquire; /* series */
	int release;
	struct batch batches[SEM_OPERATIONS];
	sem_t sem;
};

struct sem_state {
	struct ensemble ensemble;
	int64_t samples;
	struct sem_measured kinds[SEM_KINDS]; /* [1]: process-shared */
};

static const struct option_info sem_options[] = {
	ENSEMBLE_FOR,
	{ "samples", OPTION_INTEGER, "10000", 100, 10000000, NULL,
	  "single operations of each kind" },
	ENSEMBLE_CPU,
	ENSEMBLE_PRIORITY,
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

/* Single operations, each between two time stamps. */
static void sem_singles(struct ensemble *e, struct sem_measured *m, int64_t count)
{
	struct series *acquire = &e->step->series[m->acquire];
	struct series *release = &e->step->series[m->release];
	struct mark *mark = &e->step->mark;

	ensemble_loop(e, m->acquire);
	ensemble_loop(e, m->release);
	while (count-- > 0) {
		int64_t from_ns = mark_from_ns(mark), held_ns, before_ns;

		sem_wait(&m->sem);
		held_ns = mark_to_ns(mark);
		series_put(acquire, ensemble_net(e, held_ns - from_ns));
		before_ns = mark_from_ns(mark);
		sem_post(&m->sem);
		series_put(release, ensemble_net(e, mark_to_ns(mark) - before_ns));
	}
}

/* The value goes up from 1 and back to it: no wait blocks. */
static void sem_batches(const struct ensemble *e, struct sem_measured *m)
{
	BATCH_TIME(&m->batches[SEM_RELEASE], e->stamp_ps, SEM_LOOP, sem_post(&m->sem));
	BATCH_TIME(&m->batches[SEM_ACQUIRE], e->stamp_ps, SEM_LOOP, sem_wait(&m->sem));
	BATCH_TIME(&m->batches[SEM_PAIR], e->stamp_ps, SEM_LOOP, sem_wait(&m->sem);
		   sem_post(&m->sem));
}

static void sem_loop(struct worker *worker)
{
	struct sem_state *state = worker->state;

	for (int64_t done = 0; done < state->samples; done += SEM_LOOP)
		for (int i = 0; i < SEM_KINDS; i++) {
			int64_t left = state->samples - done;

			if (!ensemble_goes_on(&state->ensemble))
				return;
			sem_singles(&state->ensemble, &state->kinds[i],
				    left < SEM_LOOP ? left : SEM_LOOP);
			sem_batches(&state->ensemble, &state->kinds[i]);
		}
}

static int sem_add(struct sem_state *state, int shared)
{
	struct sem_measured *m = &state->kinds[shared];
	const char *value = shared ? "yes" : "no";

	for (int i = 0; i < SEM_OPERATIONS; i++)
		m->batches[i].operation = sem_rows[shared][i];
	if (sem_init(&m->sem, shared, 1))
		return message_set(&state->ensemble.step->msg, -errno, "use another C library",
				   "cannot create a semaphore: %s", strerror(errno));
	m->acquire =
		ensemble_series(&state->ensemble, "acquire", "shared", value, state->samples, true);
	m->release =
		ensemble_series(&state->ensemble, "release", "shared", value, state->samples, true);
	return m->acquire < 0 ? m->acquire : m->release < 0 ? m->release : 0;
}

static int sem_setup(struct step *step)
{
	struct sem_state *state = step->state;
	int err;

	state->samples = option_number(&step->options, "samples");
	err = ensemble_setup(step, &state->ensemble, sem_loop, 0, 1);
	for (int i = 0; i < SEM_KINDS && !err; i++)
		err = sem_add(state, i);
	return err;
}

static void sem_acquire(void *sem)
{
	sem_wait(sem);
}

static void sem_release(void *sem)
{
	sem_post(sem);
}

static void sem_count_syscalls(struct sem_state *state)
{
	static const char *const names[SEM_KINDS] = { "private", "shared" };
	struct syscalls_pair pairs[SEM_KINDS];

	for (int i = 0; i < SEM_KINDS; i++)
		pairs[i] = (struct syscalls_pair){
			.kind = names[i],
			.acquire = sem_acquire,
			.release = sem_release,
			.object = &state->kinds[i].sem,
		};
	syscalls_put(&state->ensemble, pairs, SEM_KINDS);
}

static int sem_finish(struct step *step)
{
	struct sem_state *state = step->state;
	struct batch rows[SEM_KINDS * SEM_OPERATIONS];

	for (int i = 0; i < SEM_KINDS; i++)
		memcpy(&rows[i * SEM_OPERATIONS], state->kinds[i].batches,
		       sizeof(state->kinds[i].batches));
	batch_table(step, rows, SEM_KINDS * SEM_OPERATIONS);
	sem_count_syscalls(state);
	return state->ensemble.error;
}

const struct measurement sem_uncontended_measurement = {
	.name = "sem-uncontended",
	.code = "SEM-P-ARN",
	.summary = "cost of an uncontended semaphore",
	.chapter = CHAPTER_SEMAPHORES,
	.options = sem_options,
	.series = {
		{ "acquire", "ns", "time of sem_wait() on a value above 0", "before the call",
		  "after it", NULL },
		{ "release", "ns", "time of sem_post() with no waiter", "before the call",
		  "after it", NULL },
	},
	.tables = {
		{ BATCH_TABLE, BATCH_MEANING },
		{ SYSCALLS_TABLE, SYSCALLS_MEANING },
	},
	.verdicts = { { SYSCALLS_NONE, "neither sem_wait() nor sem_post() enters the kernel" } },
	.evaluate = { { "idle", "samples=10000", "samples=1000000" } },
	.mark = &mark_spans,
	.state_size = sizeof(struct sem_state),
	.setup = sem_setup,
	.finish = sem_finish,
};
