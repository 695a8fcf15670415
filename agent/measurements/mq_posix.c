// SPDX-License-Identifier: Apache-2.0
/*
 * POSIX message queues: mq_send() wakes the thread in mq_receive(). Also which of several threads
 * receives, and which message comes first. docs/measurements/mq-posix.md says what exactly is
 * timed.
 */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "methods/handover.h"

#define MQ_SIZE 8
#define MQ_MESSAGES 4
#define MQ_ORDER "messages come by priority, those of one priority in the order sent"
#define MQ_REMEDY "give the messages priorities"

struct mq_object {
	mqd_t queues[HANDOVER_WAYS];
};

static int mq_posix_send(void *object, enum handover_way way)
{
	const struct mq_object *o = object;

	return mq_send(o->queues[way], "message", MQ_SIZE, 1) ? errno : 0;
}

static int mq_posix_wait(void *object, enum handover_way way)
{
	const struct mq_object *o = object;
	char message[MQ_SIZE];

	return mq_receive(o->queues[way], message, MQ_SIZE, NULL) < 0 ? errno : 0;
}

HANDOVER_KIND(mq_posix, mq_posix_send, mq_posix_wait)

/* Its name goes at once: nothing is left behind, however the agent ends. */
static mqd_t mq_make(int number)
{
	struct mq_attr attr = { .mq_maxmsg = MQ_MESSAGES, .mq_msgsize = MQ_SIZE };
	char name[32];
	mqd_t queue;

	snprintf(name, sizeof(name), "/rtgauge-%d-%d", (int)getpid(), number);
	queue = mq_open(name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600, &attr);
	if (queue != (mqd_t)-1)
		mq_unlink(name);
	return queue;
}

static bool mq_posix_open(struct handover *h)
{
	struct mq_object *o = h->object;

	for (int i = 0; i < HANDOVER_WAYS; i++)
		o->queues[i] = (mqd_t)-1;
	for (int i = 0; i < HANDOVER_WAYS; i++) {
		o->queues[i] = mq_make(i);
		if (o->queues[i] == (mqd_t)-1)
			return handover_skip(
				h, "mq_open()", errno,
				"use a kernel with CONFIG_POSIX_MQUEUE, or raise ulimit -q "
				"and /proc/sys/fs/mqueue/queues_max");
	}
	return true;
}

static void mq_posix_close(struct handover *h)
{
	struct mq_object *o = h->object;

	for (int i = 0; i < HANDOVER_WAYS; i++)
		if (o->queues[i] != (mqd_t)-1)
			mq_close(o->queues[i]);
}

/* Four are sent, of two priorities, or all of one; then all are received. */
static void mq_posix_order(struct handover *h)
{
	static const char *const expected[] = { "second of 9", "fourth of 9", "first of 1",
						"third of 1", NULL };
	static const char *const names[] = { "first of 1", "second of 9", "third of 1",
					     "fourth of 9" };
	bool ranked = option_number(&h->ensemble.step->options, "messages") == 0;
	struct handover_rule *rule = &h->rules[2];
	struct mq_object *o = h->object;
	const struct timespec past = { 0 };
	char message[MQ_SIZE] = "";

	rule->order.rule = MQ_ORDER;
	rule->remedy = MQ_REMEDY;
	if (handover_open(h)) {
		for (int i = 0; i < MQ_MESSAGES && !rule->unknown; i++) {
			message[0] = (char)i;
			if (mq_send(o->queues[0], message, MQ_SIZE, ranked && i % 2 ? 9 : 1))
				handover_refused(rule, "a message could not be sent", errno,
						 "end programs that need much memory, and "
						 "measure again");
		}
		for (int i = 0; i < MQ_MESSAGES; i++)
			if (mq_timedreceive(o->queues[0], message, MQ_SIZE, NULL, &past) == MQ_SIZE)
				order_mark(&rule->order, names[message[0] % MQ_MESSAGES],
					   "is received");
		rule->held = order_is(&rule->order, expected);
	}
	handover_close(h);
}

static void mq_posix_judge(struct handover *h)
{
	handover_judge_waiters(h, mq_posix_send, mq_posix_wait, HANDOVER_FIFO_REMEDY);
	if (!h->ensemble.error)
		mq_posix_order(h);
}

static const struct option_info mq_posix_options[] = {
	HANDOVER_OPTIONS,
	HANDOVER_MESSAGES,
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

static const struct handover_plan mq_posix_plan = {
	.kinds = { HANDOVER_ROW("", mq_posix) },
	.kind_count = 1,
	.object_size = sizeof(struct mq_object),
	.open = mq_posix_open,
	.close = mq_posix_close,
	.judge = mq_posix_judge,
};

const struct measurement mq_posix_measurement = {
	.name = "mq-posix",
	.summary = "time to wake a thread through a POSIX message queue, and which thread wakes",
	HANDOVER_MEASUREMENT(mq_posix_plan),
	.options = mq_posix_options,
	.series = { HANDOVER_SERIES("before mq_send()", "after mq_receive()") },
	.tables = { HANDOVER_TABLES, { ORDER_TABLE, ORDER_MEANING } },
	.verdicts = {
		HANDOVER_VERDICT,
		HANDOVER_VERDICTS_WAITERS,
		{ MQ_ORDER, "four messages of two priorities" },
	},
	.evaluate = { HANDOVER_EVALUATE },
};
