// SPDX-License-Identifier: Apache-2.0
/* Starts and ends the processes of loads. None outlives the agent. */
#include "loads/set.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caller.h"
#include "base/procstat.h"

#define POLLS_TO_SEARCH 100 /* polls before those that do not end are searched for in /proc */
#define SWEEPS_MAX 1000

void load_die_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(ESRCH);
}

pid_t load_fork(void)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (!pid)
		load_die_with(parent);
	return pid;
}

int load_become_caller(pid_t parent)
{
	uid_t uid;
	gid_t gid;
	int err = caller_ids(&uid, &gid);

	if (err || uid == geteuid())
		return err;
	if (setgroups(0, NULL) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
		return -errno;
	/* the kernel clears the parent-death signal when the user changes */
	load_die_with(parent);
	return 0;
}

int load_describe_end(const struct load_worker *worker, const siginfo_t *info, struct message *msg)
{
	char subject[128] = "one of its processes";

	if (worker)
		snprintf(subject, sizeof(subject), "load %s", worker->label);
	if (info->si_code != CLD_EXITED)
		return message_set(msg, -EIO,
				   "find out what killed it: dmesg shows whether memory ran out",
				   "%s was killed by signal %d", subject, info->si_status);
	if (!info->si_status)
		return message_set(msg, -EIO, NULL, "%s ended by itself", subject);
	return message_set(msg, -info->si_status,
			   info->si_status == EAGAIN ? LOAD_MORE_PROCESSES : NULL, "%s failed: %s",
			   subject, strerror(info->si_status));
}

int load_watch(struct message *msg)
{
	siginfo_t info = { 0 };

	while (waitid(P_ALL, 0, &info, WEXITED))
		if (errno == ECHILD)
			pause();
	return load_describe_end(NULL, &info, msg);
}

void load_pause(void)
{
	struct timespec ts = clock_from_ns(LOAD_POLL_NS);

	nanosleep(&ts, NULL);
}

int load_find_children(pid_t *pids)
{
	DIR *dir = opendir("/proc");
	struct procstat stat;
	int count = 0;
	pid_t pid;

	while (dir && count < LOAD_CHILDREN_MAX && (pid = procstat_next(dir, &stat)))
		if (stat.parent == getpid())
			pids[count++] = pid;
	if (dir)
		closedir(dir);
	return count;
}

int load_kill_children(const pid_t *others, int other_count)
{
	pid_t pids[LOAD_CHILDREN_MAX];
	int count = load_find_children(pids);
	int killed = 0;

	for (int i = 0; i < count; i++) {
		int other = 0;

		while (other < other_count && others[other] != pids[i])
			other++;
		if (other < other_count)
			continue;
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, WNOHANG);
		killed++;
	}
	return killed;
}

int load_end_children(void)
{
	for (int polls = 1;; polls++) {
		pid_t pid;

		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
			;
		if (pid < 0 && errno == ECHILD)
			return 0;
		if (polls > LOAD_STOP_NS / LOAD_POLL_NS)
			return -ETIMEDOUT;
		if (polls % POLLS_TO_SEARCH == 0)
			load_kill_children(NULL, 0);
		load_pause();
	}
}

/* Whether the environment with which a process was executed contains @entry. */
static bool has_variable(pid_t pid, const char *entry, size_t size)
{
	char path[32], text[8192];
	size_t kept = 0;
	bool found = false;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	while (!found && (got = read(fd, text + kept, sizeof(text) - kept)) > 0) {
		size_t length = kept + (size_t)got;

		found = memmem(text, length, entry, size);
		kept = length < size - 1 ? length : size - 1;
		memmove(text, text + length - kept, kept);
	}
	close(fd);
	return found;
}

int load_sweep(const char *run_id)
{
	char entry[256];
	int length = snprintf(entry, sizeof(entry), LOAD_RUN_VARIABLE "=%s", run_id);
	int killed = 0, found = 1;

	if (!run_id[0] || length < 0 || (size_t)length >= sizeof(entry))
		return 0;
	/* repeat until none is left: they may fork during a pass */
	for (int pass = 0; found && pass < SWEEPS_MAX; pass++) {
		DIR *dir = opendir("/proc");
		struct procstat stat;
		pid_t pid;

		found = 0;
		/* including the NUL, so that a longer run id does not match */
		while (dir && (pid = procstat_next(dir, &stat)))
			if (pid != getpid() && stat.state != 'Z' &&
			    has_variable(pid, entry, (size_t)length + 1) && !kill(pid, SIGKILL))
				found++;
		if (dir)
			closedir(dir);
		killed = found > killed ? found : killed;
		if (found)
			load_pause();
	}
	return killed;
}
