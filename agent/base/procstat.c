// SPDX-License-Identifier: Apache-2.0
/* Tells processes apart by their start time, and kills whole groups of them. */
#include "base/procstat.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Fields of /proc/PID/stat, as proc(5) numbers them. */
#define STAT_PARENT 4
#define STAT_GROUP 5
#define STAT_SESSION 6
#define STAT_USER_TIME 14 /* then of the kernel, and both of children */
#define STAT_STARTED 22
#define KILL_ROUNDS 2000
#define KILL_PAUSE_NS 5000000

int procstat_read(pid_t pid, struct procstat *stat)
{
	uint64_t fields[STAT_STARTED + 1];
	char text[1024];
	char *at;
	ssize_t size;
	int fd, field;

	snprintf(text, sizeof(text), "/proc/%d/stat", (int)pid);
	fd = open(text, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	size = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (size < 0)
		return -ESRCH;
	text[size] = '\0';
	/* the name, field 2, is in brackets and may hold anything, brackets too */
	at = strrchr(text, ')');
	if (!at || at[1] != ' ')
		return -EIO;
	at += 2;
	stat->state = *at;
	for (field = STAT_PARENT; field <= STAT_STARTED; field++) {
		at = strchr(at, ' ');
		if (!at)
			return -EIO;
		fields[field] = strtoull(++at, NULL, 10);
	}
	stat->parent = (pid_t)fields[STAT_PARENT];
	stat->pgrp = (pid_t)fields[STAT_GROUP];
	stat->session = (pid_t)fields[STAT_SESSION];
	stat->cpu_ticks = 0;
	for (field = STAT_USER_TIME; field < STAT_USER_TIME + 4; field++)
		stat->cpu_ticks += fields[field];
	stat->started = fields[STAT_STARTED];
	return 0;
}

pid_t procstat_next(DIR *dir, struct procstat *stat)
{
	struct dirent *entry;

	while ((entry = readdir(dir))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (pid > 0 && !procstat_read(pid, stat))
			return pid;
	}
	return 0;
}

static bool running(const struct procstat *stat)
{
	return stat->state != 'Z' && stat->state != 'X' && stat->state != 'x';
}

bool procstat_alive(pid_t pid, uint64_t started)
{
	struct procstat stat;

	return !procstat_read(pid, &stat) && stat.started == started && running(&stat);
}

/* How many processes of the group run; -errno without /proc. */
static int members(pid_t pgid, pid_t session, uint64_t started)
{
	struct procstat stat;
	int count = 0;
	DIR *dir;

	dir = opendir("/proc");
	if (!dir)
		return -errno;
	while (procstat_next(dir, &stat))
		if (stat.pgrp == pgid && stat.session == session && stat.started >= started &&
		    running(&stat))
			count++;
	closedir(dir);
	return count;
}

int procstat_kill_group(pid_t pgid, pid_t session, uint64_t started)
{
	const struct timespec pause = { .tv_nsec = KILL_PAUSE_NS };
	int round;

	if (pgid <= 1)
		return 0;
	for (round = 0; round < KILL_ROUNDS; round++) {
		if (members(pgid, session, started) <= 0)
			return 0;
		if (kill(-pgid, SIGKILL) && errno == ESRCH)
			return 0;
		nanosleep(&pause, NULL);
	}
	return -ETIMEDOUT;
}
