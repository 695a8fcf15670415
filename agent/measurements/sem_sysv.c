// SPDX-License-Identifier: Apache-2.0
/*
 * System V semaphores: semop() of one thread releases another that waits in semop(). Also the order
 * of waiters. docs/measurements/sem-sysv.md says what exactly is timed.
 */
#include <errno.h>
#include <sys/sem.h>

#include "methods/handover.h"

struct sem_object {
	int set;
};

static int sem_operate(const struct sem_object *o, enum handover_way way, short by)
{
	struct sembuf operation = { .sem_num = (unsigned short)way, .sem_op = by };

	while (semop(o->set, &operation, 1))
		if (errno != EINTR)
			return errno;
	return 0;
}

static int sem_sysv_send(void *object, enum handover_way way)
{
	return sem_operate(object, way, 1);
}

static int sem_sysv_wait(void *object, enum handover_way way)
{
	return sem_operate(object, way, -1);
}

HANDOVER_KIND(sem_sysv, sem_sysv_send, sem_sysv_wait)

/* Whether the process that operated it last lives. */
static bool sem_sysv_used(int set)
{
	return handover_pid_lives(semctl(set, HANDOVER_THERE, GETPID));
}

static bool sem_sysv_open(struct handover *h)
{
	struct sem_object *o = h->object;
	int old, err;

	handover_own_ipc(h);
	old = semget(HANDOVER_IPC_KEY, 0, 0);
	if (old >= 0 && !sem_sysv_used(old))
		semctl(old, 0, IPC_RMID);
	o->set = semget(HANDOVER_IPC_KEY, HANDOVER_WAYS, IPC_CREAT | IPC_EXCL | 0600);
	if (o->set < 0)
		return handover_skip(h, "semget()", errno, HANDOVER_IPC_REMEDY);
	/* from now on GETPID names this process */
	err = sem_sysv_send(o, HANDOVER_THERE) ?: sem_sysv_wait(o, HANDOVER_THERE);
	return !err || handover_fail(h, "semop()", err);
}

static void sem_sysv_close(struct handover *h)
{
	const struct sem_object *o = h->object;

	if (o->set >= 0)
		semctl(o->set, 0, IPC_RMID);
}

static void sem_sysv_judge(struct handover *h)
{
	handover_tell_waiters(h, sem_sysv_send, sem_sysv_wait);
}

static const struct handover_plan sem_sysv_plan = {
	.kinds = { HANDOVER_ROW("", sem_sysv) },
	.kind_count = 1,
	.object_size = sizeof(struct sem_object),
	.open = sem_sysv_open,
	.close = sem_sysv_close,
	.judge = sem_sysv_judge,
};

const struct measurement sem_sysv_measurement = {
	.name = "sem-sysv",
	.summary = "time to wake a thread through a System V semaphore",
	HANDOVER_MEASUREMENT(sem_sysv_plan),
	.options = handover_options,
	.series = {
		HANDOVER_SERIES("before semop() that adds one", "after semop() that takes one"),
	},
	.tables = { HANDOVER_TABLES, { ORDER_TABLE, ORDER_MEANING } },
	.verdicts = { HANDOVER_VERDICT },
	.evaluate = { HANDOVER_EVALUATE },
	.not_on_cobalt = "System V semaphores exist only on Linux",
};
