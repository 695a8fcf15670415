/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells processes apart by their start time (field 22 of /proc/PID/stat), because the kernel reuses
 * process IDs.
 */
#ifndef RTGAUGE_PROCSTAT_H
#define RTGAUGE_PROCSTAT_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct procstat {
	char state; /* as in proc(5): 'R', 'S', … 'Z' */
	pid_t parent;
	pid_t pgrp;
	pid_t session;
	uint64_t cpu_ticks; /* CPU time, with that of the children that it has waited for */
	uint64_t started;   /* clock ticks since the machine started */
};

/* 0, -ESRCH without such a process, or -errno. */
int procstat_read(pid_t pid, struct procstat *stat);

/* The next process that @dir, opendir("/proc"), has; 0 at the end. */
pid_t procstat_next(DIR *dir, struct procstat *stat);

/* Whether the process @pid that started at @started still runs (a zombie does not). */
bool procstat_alive(pid_t pid, uint64_t started);

/*
 * Kill process group @pgid of @session, whose leader started at @started, until no process of it
 * runs any more; a group of later users of that number is left alone. 0, or -ETIMEDOUT when some
 * are still there after about 10 s (asleep in the kernel).
 */
int procstat_kill_group(pid_t pgid, pid_t session, uint64_t started);

#endif
