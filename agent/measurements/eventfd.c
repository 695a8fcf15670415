// SPDX-License-Identifier: Apache-2.0
/*
 * Event descriptors: a write() to one wakes the thread that reads it. docs/measurements/eventfd.md
 * says what exactly is timed.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "methods/handover.h"

struct eventfd_object {
	int fds[HANDOVER_WAYS];
};

static int eventfd_send(void *object, enum handover_way way)
{
	const struct eventfd_object *o = object;
	uint64_t one = 1;

	return write(o->fds[way], &one, sizeof(one)) == sizeof(one) ? 0 : errno;
}

static int eventfd_wait(void *object, enum handover_way way)
{
	const struct eventfd_object *o = object;
	uint64_t count;

	return read(o->fds[way], &count, sizeof(count)) == sizeof(count) ? 0 : errno;
}

HANDOVER_KIND(eventfd, eventfd_send, eventfd_wait)

static bool eventfd_open(struct handover *h)
{
	struct eventfd_object *o = h->object;

	for (int i = 0; i < HANDOVER_WAYS; i++)
		o->fds[i] = -1;
	for (int i = 0; i < HANDOVER_WAYS; i++) {
		o->fds[i] = eventfd(0, EFD_CLOEXEC);
		if (o->fds[i] < 0)
			return handover_skip(
				h, "eventfd()", errno,
				"use a kernel with CONFIG_EVENTFD, or allow more open files (ulimit -n)");
	}
	return true;
}

static void eventfd_close(struct handover *h)
{
	struct eventfd_object *o = h->object;

	for (int i = 0; i < HANDOVER_WAYS; i++)
		if (o->fds[i] >= 0)
			close(o->fds[i]);
}

static void eventfd_judge(struct handover *h)
{
	handover_tell_waiters(h, eventfd_send, eventfd_wait);
}

static const struct handover_plan eventfd_plan = {
	.kinds = { HANDOVER_ROW("", eventfd) },
	.kind_count = 1,
	.object_size = sizeof(struct eventfd_object),
	.open = eventfd_open,
	.close = eventfd_close,
	.judge = eventfd_judge,
};

const struct measurement eventfd_measurement = {
	.name = "eventfd",
	.summary = "time to wake a thread through an eventfd",
	HANDOVER_MEASUREMENT(eventfd_plan),
	.options = handover_options,
	.series = { HANDOVER_SERIES("before write()", "after read()") },
	.tables = { HANDOVER_TABLES, { ORDER_TABLE, ORDER_MEANING } },
	.verdicts = { HANDOVER_VERDICT },
	.evaluate = { HANDOVER_EVALUATE },
	.not_on_cobalt = "eventfds exist only on Linux",
};
