// SPDX-License-Identifier: Apache-2.0
/* Telling processes apart by their start time, and killing whole groups of them. */
#include "procstat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STAT_SESSION 6
#define STAT_STARTED 22
#define KILL_ROUNDS 2000
#define KILL_PAUSE_NS 5000000

int procstat_read(pid_t pid, struct procstat *stat)
{
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
	for (field = 3; field < STAT_STARTED; field++) {
		at = strchr(at, ' ');
		if (!at)
			return -EIO;
		at++;
		if (field + 1 == STAT_SESSION - 1)
			stat->pgrp = (pid_t)strtol(at, NULL, 10);
		else if (field + 1 == STAT_SESSION)
			stat->session = (pid_t)strtol(at, NULL, 10);
	}
	stat->started = strtoull(at, NULL, 10);
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
	struct dirent *entry;
	int count = 0;
	pid_t pid;
	DIR *dir;

	dir = opendir("/proc");
	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		pid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (pid > 0 && !procstat_read(pid, &stat) && stat.pgrp == pgid &&
		    stat.session == session && stat.started >= started && running(&stat))
			count++;
	}
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
