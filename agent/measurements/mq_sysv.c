// SPDX-License-Identifier: Apache-2.0
/*
 * System V message queues: msgsnd() wakes the thread in msgrcv(). Also which message comes first.
 * docs/measurements/mq-sysv.md says what exactly is timed.
 */
#include <errno.h>
#include <string.h>
#include <sys/msg.h>

#include "methods/handover.h"

#define MQ_TEXT 8
#define MQ_MESSAGES 4
#define MQ_ORDER "messages come by type, those of one type in the order sent"
#define MQ_REMEDY "give the messages types"

struct mq_object {
	int queues[HANDOVER_WAYS];
};

struct mq_message {
	long type;
	char text[MQ_TEXT];
};

static int mq_sysv_send(void *object, enum handover_way way)
{
	const struct mq_object *o = object;
	const struct mq_message message = { .type = 1 };

	return msgsnd(o->queues[way], &message, MQ_TEXT, 0) ? errno : 0;
}

static int mq_sysv_wait(void *object, enum handover_way way)
{
	const struct mq_object *o = object;
	struct mq_message message;

	return msgrcv(o->queues[way], &message, MQ_TEXT, 0, 0) < 0 ? errno : 0;
}

HANDOVER_KIND(mq_sysv, mq_sysv_send, mq_sysv_wait)

/* Remove a queue whose processes have all ended. */
static void mq_sysv_tidy(key_t key)
{
	int old = msgget(key, 0);
	struct msqid_ds state;

	if (old >= 0 && !msgctl(old, IPC_STAT, &state) && !handover_pid_lives(state.msg_lspid))
		msgctl(old, IPC_RMID, NULL);
}

static bool mq_sysv_open(struct handover *h)
{
	struct mq_object *o = h->object;

	for (int i = 0; i < HANDOVER_WAYS; i++)
		o->queues[i] = -1;
	handover_own_ipc(h);
	for (int i = 0; i < HANDOVER_WAYS; i++) {
		mq_sysv_tidy(HANDOVER_IPC_KEY + i);
		o->queues[i] = msgget(HANDOVER_IPC_KEY + i, IPC_CREAT | IPC_EXCL | 0600);
		if (o->queues[i] < 0)
			return handover_skip(h, "msgget()", errno, HANDOVER_IPC_REMEDY);
		/* from now on the queue names this process */
		if (mq_sysv_send(o, i) || mq_sysv_wait(o, i))
			return handover_fail(h, "msgsnd() and msgrcv()", errno);
	}
	return true;
}

static void mq_sysv_close(struct handover *h)
{
	const struct mq_object *o = h->object;

	for (int i = 0; i < HANDOVER_WAYS; i++)
		if (o->queues[i] >= 0)
			msgctl(o->queues[i], IPC_RMID, NULL);
}

/* Four are sent, of two types, or all of one; then all are received, the lowest type first. */
static void mq_sysv_judge(struct handover *h)
{
	static const char *const expected[] = { "second of 1", "fourth of 1", "first of 2",
						"third of 2", NULL };
	static const char *const names[] = { "first of 2", "second of 1", "third of 2",
					     "fourth of 1" };
	bool ranked = option_number(&h->ensemble.step->options, "messages") == 0;
	struct handover_rule *rule = &h->rules[1];
	const struct mq_object *o = h->object;
	struct mq_message message = { 0 };

	handover_tell_waiters(h, mq_sysv_send, mq_sysv_wait);
	if (h->ensemble.error)
		return;
	rule->order.rule = MQ_ORDER;
	rule->remedy = MQ_REMEDY;
	if (mq_sysv_open(h)) {
		for (int i = 0; i < MQ_MESSAGES && !rule->unknown; i++) {
			message.type = ranked && i % 2 ? 1 : 2;
			message.text[0] = (char)i;
			if (msgsnd(o->queues[0], &message, MQ_TEXT, IPC_NOWAIT))
				handover_refused(rule, "a message could not be sent", errno,
						 "raise kernel.msgmnb, or let another agent end "
						 "first");
		}
		while (msgrcv(o->queues[0], &message, MQ_TEXT, -2, IPC_NOWAIT) == MQ_TEXT)
			order_mark(&rule->order, names[message.text[0] % MQ_MESSAGES],
				   "is received");
		rule->held = order_is(&rule->order, expected);
	}
	mq_sysv_close(h);
}

static const struct option_info mq_sysv_options[] = {
	HANDOVER_OPTIONS,
	HANDOVER_MESSAGES,
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

static const struct handover_plan mq_sysv_plan = {
	.kinds = { HANDOVER_ROW("", mq_sysv) },
	.kind_count = 1,
	.object_size = sizeof(struct mq_object),
	.open = mq_sysv_open,
	.close = mq_sysv_close,
	.judge = mq_sysv_judge,
};

const struct measurement mq_sysv_measurement = {
	.name = "mq-sysv",
	.summary = "time to wake a thread through a System V message queue",
	HANDOVER_MEASUREMENT(mq_sysv_plan),
	.options = mq_sysv_options,
	.series = { HANDOVER_SERIES("before msgsnd()", "after msgrcv()") },
	.tables = { HANDOVER_TABLES, { ORDER_TABLE, ORDER_MEANING } },
	.verdicts = {
		HANDOVER_VERDICT,
		{ MQ_ORDER, "four messages of two types" },
	},
	.evaluate = { HANDOVER_EVALUATE },
	.not_on_cobalt = "System V queues exist only on Linux",
};
