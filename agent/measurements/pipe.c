// SPDX-License-Identifier: Apache-2.0
/*
 * Pipes: 8 bytes written to one wake the thread that reads it. docs/measurements/pipe.md says what
 * exactly is timed.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "methods/handover.h"

struct pipe_object {
	int fds[HANDOVER_WAYS][2];
};

static int pipe_send(void *object, enum handover_way way)
{
	const struct pipe_object *o = object;
	uint64_t message = 1;

	return write(o->fds[way][1], &message, sizeof(message)) == sizeof(message) ? 0 : errno;
}

static int pipe_wait(void *object, enum handover_way way)
{
	const struct pipe_object *o = object;
	uint64_t message;

	return read(o->fds[way][0], &message, sizeof(message)) == sizeof(message) ? 0 : errno;
}

HANDOVER_KIND(pipe, pipe_send, pipe_wait)

static bool pipe_open(struct handover *h)
{
	struct pipe_object *o = h->object;

	for (int i = 0; i < HANDOVER_WAYS; i++)
		o->fds[i][0] = o->fds[i][1] = -1;
	for (int i = 0; i < HANDOVER_WAYS; i++)
		if (pipe2(o->fds[i], O_CLOEXEC))
			return handover_skip(h, "pipe2()", errno,
					     "allow more open files (ulimit -n)");
	return true;
}

static void pipe_close(struct handover *h)
{
	struct pipe_object *o = h->object;

	for (int i = 0; i < HANDOVER_WAYS * 2; i++)
		if (o->fds[i / 2][i % 2] >= 0)
			close(o->fds[i / 2][i % 2]);
}

static void pipe_judge(struct handover *h)
{
	handover_tell_waiters(h, pipe_send, pipe_wait);
}

static const struct handover_plan pipe_plan = {
	.kinds = { HANDOVER_ROW("", pipe) },
	.kind_count = 1,
	.object_size = sizeof(struct pipe_object),
	.open = pipe_open,
	.close = pipe_close,
	.judge = pipe_judge,
};

const struct measurement pipe_measurement = {
	.name = "pipe",
	.summary = "time to wake a thread through a pipe",
	HANDOVER_MEASUREMENT(pipe_plan),
	.options = handover_options,
	.series = { HANDOVER_SERIES("before write()", "after read()") },
	.tables = { HANDOVER_TABLES, { ORDER_TABLE, ORDER_MEANING } },
	.verdicts = { HANDOVER_VERDICT },
	.evaluate = { HANDOVER_EVALUATE },
	.not_on_cobalt = "pipes exist only on Linux",
};
