// SPDX-License-Identifier: Apache-2.0
/*
 * Handing over a mutex: its owner unlocks it, and the waiting thread runs. Three mutexes are used,
 * so that each is unlocked only by its owner. docs/measurements/mutex-handover.md says what exactly
 * is timed.
 */
#include <pthread.h>

#include "methods/handover.h"

#define MUTEX_COUNT 3

/*
 * Before round i (modulo 3) the sender holds mutex i, the waiter i + 1 and i + 2. The waiter unlocks
 * i + 1 (BACK) and waits for i (THERE); the sender, which waited for i + 1, unlocks i, and next
 * waits for i + 2. So none tries to have again what it has just unlocked.
 */
struct mutex_object {
	pthread_mutex_t mutexes[MUTEX_COUNT];
	pthread_mutex_t alone;
	struct {
		int round;
	} __attribute__((aligned(64))) roles[HANDOVER_ROLES];
};

/* THERE, by the sender: the end of its round. BACK, by the waiter. */
static int mutex_send(void *object, enum handover_way way)
{
	struct mutex_object *o = object;
	int i;

	if (way == HANDOVER_ALONE)
		return pthread_mutex_unlock(&o->alone);
	if (way == HANDOVER_BACK)
		return pthread_mutex_unlock(
			&o->mutexes[(o->roles[HANDOVER_WAITER].round + 1) % MUTEX_COUNT]);
	i = o->roles[HANDOVER_SENDER].round;
	o->roles[HANDOVER_SENDER].round = (i + 1) % MUTEX_COUNT;
	return pthread_mutex_unlock(&o->mutexes[i]);
}

/* THERE, by the waiter: the end of its round. BACK, by the sender. */
static int mutex_wait(void *object, enum handover_way way)
{
	struct mutex_object *o = object;
	int i;

	if (way == HANDOVER_ALONE)
		return pthread_mutex_lock(&o->alone);
	if (way == HANDOVER_BACK)
		return pthread_mutex_lock(
			&o->mutexes[(o->roles[HANDOVER_SENDER].round + 1) % MUTEX_COUNT]);
	i = o->roles[HANDOVER_WAITER].round;
	o->roles[HANDOVER_WAITER].round = (i + 1) % MUTEX_COUNT;
	return pthread_mutex_lock(&o->mutexes[i]);
}

HANDOVER_KIND(mutex, mutex_send, mutex_wait)

static int mutex_attributes(pthread_mutexattr_t *attr, int kind)
{
	pthread_mutexattr_init(attr);
	return pthread_mutexattr_setprotocol(attr, kind ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE);
}

#ifdef ON_COBALT
#define mutex_probe NULL /* the core supports both */
#else
/* Without priority inheritance in the kernel, glibc refuses the mutex, and musl the attribute. */
static int mutex_probe(int kind)
{
	pthread_mutexattr_t attr;
	pthread_mutex_t mutex;
	int err = mutex_attributes(&attr, kind);

	err = err ?: pthread_mutex_init(&mutex, &attr);
	if (!err)
		pthread_mutex_destroy(&mutex);
	pthread_mutexattr_destroy(&attr);
	return err;
}
#endif

static bool mutex_open(struct handover *h)
{
	struct mutex_object *o = h->object;
	pthread_mutexattr_t attr;
	int err = mutex_attributes(&attr, h->kind);

	for (int i = 0; i < MUTEX_COUNT && !err; i++)
		err = pthread_mutex_init(&o->mutexes[i], &attr);
	err = err ?: pthread_mutex_init(&o->alone, &attr);
	pthread_mutexattr_destroy(&attr);
	if (err)
		return handover_skip(h, "a mutex with priority inheritance", err,
				     "use a C library and a kernel that support it");
	pthread_mutex_lock(&o->alone);
	o->roles[HANDOVER_SENDER].round = o->roles[HANDOVER_WAITER].round = 0;
	return true;
}

static void mutex_close(struct handover *h)
{
	struct mutex_object *o = h->object;

	pthread_mutex_unlock(&o->alone);
	pthread_mutex_destroy(&o->alone);
	for (int i = 0; i < MUTEX_COUNT; i++)
		pthread_mutex_destroy(&o->mutexes[i]);
}

/* The mutexes that it has before its round. */
static void mutex_hold(struct handover *h, enum handover_role role,
		       int (*operation)(pthread_mutex_t *mutex))
{
	struct mutex_object *o = h->object;
	int i = o->roles[role].round;

	if (role == HANDOVER_SENDER) {
		operation(&o->mutexes[i]);
		return;
	}
	operation(&o->mutexes[(i + 1) % MUTEX_COUNT]);
	operation(&o->mutexes[(i + 2) % MUTEX_COUNT]);
}

static void mutex_begin(struct handover *h, enum handover_role role)
{
	mutex_hold(h, role, pthread_mutex_lock);
}

static void mutex_end(struct handover *h, enum handover_role role)
{
	mutex_hold(h, role, pthread_mutex_unlock);
}

static const struct option_info mutex_options[] = {
	HANDOVER_OPTIONS,
	{ "protocol", OPTION_ENUMS, "none,inherit", 0, 0, "none inherit",
	  "protocol of the mutexes" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

static const struct handover_plan mutex_plan = {
	.label = "protocol",
	.kinds = {
		HANDOVER_ROW("none", mutex),
		HANDOVER_ROW("inherit", mutex),
	},
	.kind_count = 2,
	.object_size = sizeof(struct mutex_object),
	.probe = mutex_probe,
	.open = mutex_open,
	.close = mutex_close,
	.begin = mutex_begin,
	.end = mutex_end,
};

const struct measurement mutex_handover_measurement = {
	.name = "mutex-handover",
	.summary = "time to wake the thread that waits for a mutex",
	HANDOVER_MEASUREMENT(mutex_plan),
	.options = mutex_options,
	.series = {
		HANDOVER_SERIES("before pthread_mutex_unlock()", "after pthread_mutex_lock()"),
	},
	.tables = { HANDOVER_TABLES },
	.verdicts = { HANDOVER_VERDICT },
	.evaluate = { { "idle", "samples=500", "samples=50000" } },
};
