// SPDX-License-Identifier: Apache-2.0
/* Policy and priority of a thread as a value. */
#include "base/schedule.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/procstat.h"

/* By their numbers in sched(7). The kernel has no policy 4. */
static const char *const policies[] = { "other", "fifo", "rr", "batch", NULL, "idle" };

#define POLICIES (int)(sizeof(policies) / sizeof(policies[0]))
#define POLICY_RESET_ON_FORK 0x40000000

bool schedule_named(const char *path)
{
	return !strncmp(path, SCHEDULE_THREAD, strlen(SCHEDULE_THREAD));
}

void schedule_name(pid_t tid, uint64_t started, const char *name, char *path, size_t room)
{
	snprintf(path, room, SCHEDULE_THREAD "%d:%llu:%s", (int)tid, (unsigned long long)started,
		 name);
}

/* The thread that @path names, if it still is that one. Thread ID or -errno. */
static pid_t schedule_find(const char *path)
{
	struct procstat stat;
	uint64_t started;
	char *end;
	long tid;
	int err;

	tid = strtol(path + strlen(SCHEDULE_THREAD), &end, 10);
	if (tid <= 0 || tid > INT32_MAX || *end != ':')
		return -EINVAL;
	started = strtoull(end + 1, &end, 10);
	if (*end != ':')
		return -EINVAL;
	err = procstat_read((pid_t)tid, &stat);
	if (err)
		return err == -ESRCH ? -ENOENT : err;
	return stat.started == started ? (pid_t)tid : -ENOENT;
}

int schedule_get(const char *path, char *value, size_t room)
{
	struct sched_param param = { 0 };
	pid_t tid = schedule_find(path);
	int policy;

	if (tid < 0)
		return tid;
	/* musl's functions are stubs */
	policy = (int)syscall(SYS_sched_getscheduler, tid);
	if (policy < 0 || syscall(SYS_sched_getparam, tid, &param))
		return errno == ESRCH ? -ENOENT : -errno;
	policy &= ~POLICY_RESET_ON_FORK;
	if (policy >= POLICIES || !policies[policy])
		return -EOPNOTSUPP;
	snprintf(value, room, "%s %d", policies[policy], param.sched_priority);
	return 0;
}

int schedule_put(const char *path, const char *value)
{
	struct sched_param param = { 0 };
	pid_t tid = schedule_find(path);
	const char *priority;
	int policy;
	char *end;

	if (tid < 0)
		return tid;
	priority = strchr(value, ' ');
	if (!priority)
		return -EINVAL;
	for (policy = 0; policy < POLICIES; policy++)
		if (policies[policy] && strlen(policies[policy]) == (size_t)(priority - value) &&
		    !strncmp(policies[policy], value, (size_t)(priority - value)))
			break;
	param.sched_priority = (int)strtol(priority + 1, &end, 10);
	if (policy == POLICIES || end == priority + 1 || *end)
		return -EINVAL;
	if (syscall(SYS_sched_setscheduler, tid, policy, &param))
		return errno == ESRCH ? -ENOENT : -errno;
	return 0;
}
