// SPDX-License-Identifier: Apache-2.0
/*
 * The futex, on which all locks of the C library except spin locks are built, without the library:
 * within one process, and between processes. docs/measurements/futex.md says what exactly is timed.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "methods/handover.h"

/* A word each, in lines of their own. */
struct futex_object {
	struct {
		uint32_t word __attribute__((aligned(64)));
	} ways[HANDOVER_WAYS];
};

static inline __attribute__((always_inline)) int futex_send(void *object, enum handover_way way,
							    int scope)
{
	uint32_t *word = &((struct futex_object *)object)->ways[way].word;

	atomic_fetch_add(word, 1);
	return syscall(SYS_futex, word, FUTEX_WAKE | scope, 1, NULL, NULL, 0) < 0 ? errno : 0;
}

static inline __attribute__((always_inline)) int futex_wait(void *object, enum handover_way way,
							    int scope)
{
	uint32_t *word = &((struct futex_object *)object)->ways[way].word;

	while (!atomic_load_acquire(word))
		if (syscall(SYS_futex, word, FUTEX_WAIT | scope, 0, NULL, NULL, 0) &&
		    errno != EAGAIN && errno != EINTR)
			return errno;
	atomic_fetch_add(word, -1U);
	return 0;
}

static int futex_private_send(void *object, enum handover_way way)
{
	return futex_send(object, way, FUTEX_PRIVATE_FLAG);
}

static int futex_private_wait(void *object, enum handover_way way)
{
	return futex_wait(object, way, FUTEX_PRIVATE_FLAG);
}

static int futex_shared_send(void *object, enum handover_way way)
{
	return futex_send(object, way, 0);
}

static int futex_shared_wait(void *object, enum handover_way way)
{
	return futex_wait(object, way, 0);
}

HANDOVER_KIND(futex_private, futex_private_send, futex_private_wait)
HANDOVER_KIND(futex_shared, futex_shared_send, futex_shared_wait)

static bool futex_open(struct handover *h)
{
	struct futex_object *o = h->object;

	for (int i = 0; i < HANDOVER_WAYS; i++)
		atomic_store_release(&o->ways[i].word, 0);
	return true;
}

static void futex_close(struct handover *h)
{
	(void)h;
}

static void futex_judge(struct handover *h)
{
	handover_judge_waiters(h, futex_private_send, futex_private_wait, HANDOVER_FIFO_REMEDY);
}

static const struct option_info futex_options[] = {
	HANDOVER_OPTIONS,
	{ "scope", OPTION_ENUMS, "private,shared", 0, 0, "private shared",
	  "private to a process, or shared by processes" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

static const struct handover_plan futex_plan = {
	.label = "scope",
	.kinds = {
		HANDOVER_ROW("private", futex_private),
		HANDOVER_ROW("shared", futex_shared),
	},
	.kind_count = 2,
	.object_size = sizeof(struct futex_object),
	.open = futex_open,
	.close = futex_close,
	.judge = futex_judge,
};

const struct measurement futex_measurement = {
	.name = "futex",
	.summary = "time to wake a thread through a futex, and which thread wakes",
	HANDOVER_MEASUREMENT(futex_plan),
	.options = futex_options,
	.series = {
		HANDOVER_SERIES("before the word is set and FUTEX_WAKE called", "after FUTEX_WAIT"),
	},
	.tables = { HANDOVER_TABLES, { ORDER_TABLE, ORDER_MEANING } },
	.verdicts = { HANDOVER_VERDICT, HANDOVER_VERDICTS_WAITERS },
	.evaluate = { { "idle", "samples=500", "samples=50000" } },
	.not_on_cobalt = "futexes exist only on Linux",
};
