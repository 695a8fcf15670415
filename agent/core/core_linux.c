// SPDX-License-Identifier: Apache-2.0
/*
 * Tasks of Linux: SCHED_FIFO threads. This file makes the system calls itself, because some C
 * libraries have only stubs for the scheduling of a single thread.
 */
#include <limits.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/core.h"

static const char *linux_policy_name(int policy)
{
	switch (policy & ~SCHED_RESET_ON_FORK) {
	case SCHED_FIFO:
		return "fifo";
	case SCHED_RR:
		return "rr";
	case SCHED_OTHER:
		return "other";
	case SCHED_BATCH:
		return "batch";
	case SCHED_IDLE:
		return "idle";
	case 6:
		return "deadline";
	}
	return "unknown";
}

static void linux_place(pid_t tid, int priority)
{
	struct sched_param param = { .sched_priority = priority };

	syscall(SYS_sched_setscheduler, tid, priority > 0 ? SCHED_FIFO : SCHED_OTHER, &param);
}

static int linux_enter(int cpu, int priority)
{
	/* without real-time priority the kernel would round the due times by 50 us */
	prctl(PR_SET_TIMERSLACK, 1UL);
	if (cpu >= 0) {
		struct cpulist one = { { 0 } };

		cpulist_add(&one, cpu);
		cpulist_apply(&one, 0);
	}
	if (priority > 0)
		linux_place(0, priority);
	return 0;
}

static bool linux_look(pid_t tid, struct core_task *task)
{
	struct sched_param param;
	int policy = (int)syscall(SYS_sched_getscheduler, tid);

	task->cpus = (struct cpulist){ { 0 } };
	if (policy < 0 || syscall(SYS_sched_getparam, tid, &param) ||
	    syscall(SYS_sched_getaffinity, tid, sizeof(task->cpus.bits), task->cpus.bits) < 0)
		return false;
	task->policy = linux_policy_name(policy);
	task->priority = param.sched_priority;
	return true;
}

static bool linux_may_have(int priority)
{
	struct sched_param param = { .sched_priority = priority }, before;
	int policy_before = (int)syscall(SYS_sched_getscheduler, 0);

	if (policy_before < 0 || syscall(SYS_sched_getparam, 0, &before) ||
	    syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &param))
		return false;
	syscall(SYS_sched_setscheduler, 0, policy_before, &before);
	return true;
}

#if LONG_MAX == INT64_MAX
#define LINUX_SLEEP SYS_clock_nanosleep
static int64_t linux_now(void)
{
	struct timespec now = { 0, 0 };

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	return clock_to_ns(&now);
}
#else
/* The C library knows which call the kernel has for 64-bit times. */
#define LINUX_SLEEP 0
static int64_t linux_now(void)
{
	return clock_now_ns(CLOCK_MONOTONIC);
}
#endif

const struct core core_linux = {
	.name = "linux",
	.title = "Linux",
	.enter = linux_enter,
	.place = linux_place,
	.look = linux_look,
	.may_have = linux_may_have,
	.now = linux_now,
	.rest = clock_rest,
	.sleep_call = LINUX_SLEEP,
};
