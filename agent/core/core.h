/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real-time core that a measuring thread runs on. An ordinary thread calls enter() and is a task
 * of the core from then on. The measuring loops themselves are compiled for their core and call
 * nothing here.
 */
#ifndef RTGAUGE_CORE_H
#define RTGAUGE_CORE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/cpulist.h"

/* Scheduling of a task, as the core has it. */
struct core_task {
	const char *policy; /* "fifo", "rr", "other", "batch", "idle", "deadline" or "unknown" */
	int priority;
	struct cpulist cpus; /* that it may run on */
};

struct core {
	const char *name;
	/* Make the calling thread a task: pinned to @cpu (-1: not pinned), with real-time priority
	 * @priority (0: unchanged). What is refused shows in look(). */
	void (*enter)(int cpu, int priority);
	/* Give the thread @tid real-time priority @priority, or none with 0. */
	void (*place)(pid_t tid, int priority);
	/* False: there is no thread @tid any more. */
	bool (*look)(pid_t tid, struct core_task *task);
	/* Whether the calling thread may have real-time priority @priority; it stays as it is. */
	bool (*may_have)(int priority);
};

extern const struct core core_linux;

#endif
