// SPDX-License-Identifier: Apache-2.0
/*
 * Condition variables: pthread_cond_signal() wakes the thread that waits, or one of several
 * waiters. docs/measurements/condvar.md says what exactly is timed.
 */
#include <pthread.h>

#include "methods/handover.h"

#define CONDVAR_REMEDY \
	"use a condition variable that respects priorities (librtpi), or one for each waiter"

/* The condition, with the mutex that guards it. */
struct condvar {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	int tokens;
};

struct condvar_object {
	struct condvar ways[HANDOVER_WAYS];
};

#ifndef ON_COBALT
/* The mutex is free again before the waiter is woken. */
static int condvar_arm(void *object, enum handover_way way)
{
	struct condvar *c = &((struct condvar_object *)object)->ways[way];

	pthread_mutex_lock(&c->mutex);
	c->tokens++;
	return pthread_mutex_unlock(&c->mutex);
}

static int condvar_send(void *object, enum handover_way way)
{
	return pthread_cond_signal(&((struct condvar_object *)object)->ways[way].cond);
}
#endif

static int condvar_wait(void *object, enum handover_way way)
{
	struct condvar *c = &((struct condvar_object *)object)->ways[way];
	int err = 0;

	pthread_mutex_lock(&c->mutex);
	while (!c->tokens && !err)
		err = pthread_cond_wait(&c->cond, &c->mutex);
	return err;
}

static int condvar_take(void *object, enum handover_way way)
{
	struct condvar *c = &((struct condvar_object *)object)->ways[way];

	c->tokens--;
	return pthread_mutex_unlock(&c->mutex);
}

/* With the mutex: only then POSIX promises predictable scheduling. */
static int condvar_queue_send(void *object, enum handover_way way)
{
	struct condvar *c = &((struct condvar_object *)object)->ways[way];

	pthread_mutex_lock(&c->mutex);
	c->tokens++;
	pthread_cond_signal(&c->cond);
	return pthread_mutex_unlock(&c->mutex);
}

#ifdef ON_COBALT
/* Cobalt's pthread_cond_signal() only marks: the unlock wakes the waiter. */
HANDOVER_ACTS(condvar, handover_nothing, condvar_queue_send, condvar_wait, condvar_take)
#else
HANDOVER_ACTS(condvar, condvar_arm, condvar_send, condvar_wait, condvar_take)
#endif

static int condvar_queue_wait(void *object, enum handover_way way)
{
	return condvar_wait(object, way) ?: condvar_take(object, way);
}

static bool condvar_open(struct handover *h)
{
	struct condvar_object *o = h->object;

	for (int i = 0; i < HANDOVER_WAYS; i++) {
		pthread_mutex_init(&o->ways[i].mutex, NULL);
		pthread_cond_init(&o->ways[i].cond, NULL);
		o->ways[i].tokens = 0;
	}
	return true;
}

static void condvar_close(struct handover *h)
{
	struct condvar_object *o = h->object;

	for (int i = 0; i < HANDOVER_WAYS; i++) {
		pthread_cond_destroy(&o->ways[i].cond);
		pthread_mutex_destroy(&o->ways[i].mutex);
	}
}

static void condvar_judge(struct handover *h)
{
	handover_judge_waiters(h, condvar_queue_send, condvar_queue_wait, CONDVAR_REMEDY);
}

/* docs/measurements/condvar.md */
static const struct measurement_entry condvar_limitations[] = {
#if defined(ON_COBALT)
/* the core follows priorities */
#elif defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 25)
	{ HANDOVER_LATER, "since 2.25, glibc first wakes the waiters that came before a signal" },
#endif
#else
	{ HANDOVER_FIRST,
	  "musl wakes waiters of a condition variable by arrival, not by priority" },
	{ HANDOVER_LATER,
	  "musl wakes waiters of a condition variable by arrival, not by priority" },
#endif
	{ NULL, NULL },
};

static const struct handover_plan condvar_plan = {
	.kinds = { HANDOVER_ROW("", condvar) },
	.kind_count = 1,
	.object_size = sizeof(struct condvar_object),
	.open = condvar_open,
	.close = condvar_close,
	.judge = condvar_judge,
};

const struct measurement condvar_measurement = {
	.name = "condvar",
	.summary = "time to wake a thread through a condition variable, and which thread wakes",
	HANDOVER_MEASUREMENT(condvar_plan),
	.options = handover_options,
	.series = { HANDOVER_SERIES("before pthread_cond_signal()", "after pthread_cond_wait()") },
	.tables = { HANDOVER_TABLES, { ORDER_TABLE, ORDER_MEANING } },
	.verdicts = { HANDOVER_VERDICT, HANDOVER_VERDICTS_WAITERS },
	.known_limitations = condvar_limitations,
	.evaluate = { HANDOVER_EVALUATE },
};
