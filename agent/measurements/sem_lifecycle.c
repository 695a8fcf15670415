// SPDX-License-Identifier: Apache-2.0
/*
 * The life of a semaphore [SEM-P-NEW]: creation and deletion, with or without use in between.
 * Unnamed semaphores need no system call, named ones are files. docs/measurements/sem-lifecycle.md
 * says what exactly is timed.
 */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "methods/ensemble.h"

/* Semaphores of a batch, in an array; a power of two that stays in the first-level cache. */
#define SEM_BATCH 64
/* Batches and samples of a test loop. */
#define SEM_BATCHES 8
#define SEM_LOOP 100

#define SEM_ALL_MEASURED "every kind of semaphore is measured"

enum sem_operation { SEM_CREATE, SEM_DELETE, SEM_OPERATIONS };

struct sem_kind {
	const char *name;
	bool named;
	int shared;
	bool used;
	const char *operations[SEM_OPERATIONS]; /* rows of the table */
};

static const struct sem_kind sem_kinds[] = {
	{ "private", false, 0, false, { "private: create", "private: delete" } },
	{ "private", false, 0, true, { "private, used: create", "private, used: delete" } },
	{ "shared", false, 1, false, { "shared: create", "shared: delete" } },
	{ "shared", false, 1, true, { "shared, used: create", "shared, used: delete" } },
	{ "named", true, 1, false, { NULL, NULL } },
	{ "named", true, 1, true, { NULL, NULL } },
};

#define SEM_KINDS ((int)(sizeof(sem_kinds) / sizeof(sem_kinds[0])))

struct sem_measured {
	int create; /* series; -1: this kind is not available */
	int delete;
	struct batch batches[SEM_OPERATIONS];
};

struct sem_state {
	struct ensemble ensemble;
	int64_t samples;
	int refused;   /* errno of what a named one needs */
	char name[32]; /* of the named one */
	struct sem_measured kinds[SEM_KINDS];
	sem_t sems[SEM_BATCH];
};

static const struct option_info sem_options[] = {
	ENSEMBLE_FOR,
	{ "samples", OPTION_INTEGER, "2000", 100, 1000000, NULL, "semaphores of each kind" },
	ENSEMBLE_CPU,
	ENSEMBLE_PRIORITY,
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

static void sem_use(sem_t *sem)
{
	sem_post(sem);
	sem_wait(sem);
}

static void sem_put(const struct ensemble *e, int series, int64_t from_ns, int64_t to_ns)
{
	series_put(&e->step->series[series], ensemble_net(e, to_ns - from_ns));
}

static void sem_unnamed(struct sem_state *state, const struct sem_kind *kind,
			struct sem_measured *m, int64_t count)
{
	const struct ensemble *e = &state->ensemble;
	struct mark *mark = &e->step->mark;
	sem_t *sem = state->sems;

	while (count-- > 0) {
		int64_t from_ns = mark_from_ns(mark), to_ns;

		sem_init(sem, kind->shared, 0);
		to_ns = mark_to_ns(mark);
		sem_put(e, m->create, from_ns, to_ns);
		if (kind->used)
			sem_use(sem);
		from_ns = mark_from_ns(mark);
		sem_destroy(sem);
		to_ns = mark_to_ns(mark);
		sem_put(e, m->delete, from_ns, to_ns);
	}
}

static bool sem_named(struct sem_state *state, const struct sem_kind *kind, struct sem_measured *m,
		      int64_t count)
{
	const struct ensemble *e = &state->ensemble;
	struct mark *mark = &e->step->mark;

	while (count-- > 0) {
		int64_t from_ns = mark_from_ns(mark), to_ns;
		sem_t *sem = sem_open(state->name, O_CREAT | O_EXCL, 0600, 0);

		to_ns = mark_to_ns(mark);
		if (sem == SEM_FAILED) {
			state->refused = errno;
			return false;
		}
		sem_put(e, m->create, from_ns, to_ns);
		if (kind->used)
			sem_use(sem);
		from_ns = mark_from_ns(mark);
		sem_close(sem);
		sem_unlink(state->name);
		to_ns = mark_to_ns(mark);
		sem_put(e, m->delete, from_ns, to_ns);
	}
	return true;
}

static void sem_batches(struct sem_state *state, const struct sem_kind *kind,
			struct sem_measured *m)
{
	int64_t stamp_ps = state->ensemble.stamp_ps;

	for (int i = 0; i < SEM_BATCHES; i++) {
		/* the others were in the kernel: have the array in the cache again */
		memset(state->sems, 0, sizeof(state->sems));
		BATCH_TIME(&m->batches[SEM_CREATE], stamp_ps, SEM_BATCH,
			   sem_init(&state->sems[batch_i], kind->shared, 0));
		for (int k = 0; k < SEM_BATCH && kind->used; k++)
			sem_use(&state->sems[k]);
		BATCH_TIME(&m->batches[SEM_DELETE], stamp_ps, SEM_BATCH,
			   sem_destroy(&state->sems[batch_i]));
	}
}

static void sem_loop(struct worker *worker)
{
	struct sem_state *state = worker->state;
	struct ensemble *e = &state->ensemble;

	for (int64_t done = 0; done < state->samples; done += SEM_LOOP)
		for (int i = 0; i < SEM_KINDS; i++) {
			const struct sem_kind *kind = &sem_kinds[i];
			struct sem_measured *m = &state->kinds[i];
			int64_t left = state->samples - done;
			int64_t count = left < SEM_LOOP ? left : SEM_LOOP;

			if (kind->named && state->refused)
				continue;
			if (!ensemble_goes_on(e))
				return;
			ensemble_loop(e, m->create);
			ensemble_loop(e, m->delete);
			if (kind->named) {
				sem_named(state, kind, m, count);
			} else {
				sem_unnamed(state, kind, m, count);
				sem_batches(state, kind, m);
			}
		}
}

static int sem_add_series(struct sem_state *state, const char *name, const struct sem_kind *kind)
{
	struct series_info info = {
		.name = name,
		.context = "user",
		.unit = "ns",
		.cpu = state->ensemble.cpu,
		.companion = -1,
		.net = true,
		.labels = { { "kind", kind->name }, { "used", kind->used ? "yes" : "no" } },
	};

	return step_add_series(state->ensemble.step, &info, ensemble_words(state->samples));
}

static int sem_setup(struct step *step)
{
	struct sem_state *state = step->state;
	int err;

	state->samples = option_number(&step->options, "samples");
	snprintf(state->name, sizeof(state->name), "/rtgauge-%d", (int)getpid());
#ifdef ON_COBALT
	state->refused = ENOTSUP;
#else
	/* one that was killed may have left it, where process numbers come again soon */
	sem_unlink(state->name);
	/* both C libraries have them there; to make one would warm it up */
	if (access("/dev/shm", R_OK | W_OK | X_OK))
		state->refused = errno;
#endif
	err = ensemble_setup(step, &state->ensemble, sem_loop, 0, 0);
	for (int i = 0; i < SEM_KINDS && !err; i++) {
		const struct sem_kind *kind = &sem_kinds[i];
		struct sem_measured *m = &state->kinds[i];

		m->batches[SEM_CREATE].operation = kind->operations[SEM_CREATE];
		m->batches[SEM_DELETE].operation = kind->operations[SEM_DELETE];
		if (kind->named && state->refused)
			continue;
		m->create = sem_add_series(state, "create", kind);
		m->delete = sem_add_series(state, "delete", kind);
		err = m->create < 0 ? m->create : m->delete < 0 ? m->delete : 0;
	}
	return err;
}

static int sem_finish(struct step *step)
{
	struct sem_state *state = step->state;
	struct batch rows[SEM_KINDS * SEM_OPERATIONS];

	for (int i = 0; i < SEM_KINDS; i++)
		memcpy(&rows[i * SEM_OPERATIONS], state->kinds[i].batches,
		       sizeof(state->kinds[i].batches));
#ifdef ON_COBALT
	step_verdict(step, SEM_ALL_MEASURED, "skipped",
		     "a named semaphore: Linux opens it, and the task leaves the core",
		     "give --core linux");
#else
	if (state->refused) {
		char evidence[96];

		snprintf(evidence, sizeof(evidence), "a named semaphore: %s",
			 strerror(state->refused));
		step_verdict(step, SEM_ALL_MEASURED, "skipped", evidence,
			     "mount a tmpfs at /dev/shm that this user may write to");
	}
#endif
	batch_table(step, rows, SEM_KINDS * SEM_OPERATIONS);
	return state->ensemble.error;
}

const struct measurement sem_lifecycle_measurement = {
	.name = "sem-lifecycle",
	.code = "SEM-P-NEW",
	.summary = "time to create and to delete a semaphore",
	.chapter = CHAPTER_SEMAPHORES,
	.options = sem_options,
	.series = {
		{ "create", "ns", "time to create a semaphore", "before sem_init() or sem_open()",
		  "after it", NULL },
		{ "delete", "ns", "time to delete a semaphore",
		  "before sem_destroy() or sem_close()",
		  "after it (named semaphores: after sem_unlink())", NULL },
	},
	.tables = { { BATCH_TABLE, BATCH_MEANING } },
	.verdicts = {
		{ SEM_ALL_MEASURED, "named semaphores are skipped where they cannot be created" },
	},
	.evaluate = { { "idle", "samples=2000", "samples=50000" } },
	.mark = &mark_spans,
	.state_size = sizeof(struct sem_state),
	.setup = sem_setup,
	.finish = sem_finish,
};
