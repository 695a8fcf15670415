/* SPDX-License-Identifier: GPL-2.0-only */
/* What the programs for parallel and serial ports share. */
#ifndef RTGAUGE_TESTS_PORTS_H
#define RTGAUGE_TESTS_PORTS_H

#include <sys/ioctl.h>

#include "tap.h"

/* The program's own: drives the input of the module's port from the other port. */
static void drive(int far, bool high);

/* Edges without an end: the session ends. */
static void storm(int fd, struct rtgauge_setup setup, int far)
{
	struct rtgauge_start start = { 0 };
	struct rtgauge_status status = { 0 };

	setup.storm_edges = 3;
	CHECK(!ioctl(fd, RTGAUGE_SETUP, &setup) && !ioctl(fd, RTGAUGE_START, &start),
	      "a session that allows three edges");
	for (int i = 0; i < 6; i++)
		drive(far, i % 2 == 0);
	CHECK(!ioctl(fd, RTGAUGE_STATUS, &status) && status.state == RTGAUGE_STATE_FAILED &&
		      status.failure == RTGAUGE_FAILURE_STORM && status.events == 4,
	      "ends with the fourth");
}

/* Like fork(), with a pipe from the child to its parent: end is what each has of it. */
static pid_t fork_with_pipe(int *end)
{
	int ends[2];
	pid_t pid;

	if (pipe(ends) || (pid = fork()) < 0)
		exit(1);
	*end = ends[!pid];
	close(ends[pid != 0]);
	return pid;
}

/* The child's part: a session that answers, and says so by a byte. */
static void answer_until_killed(int fd, struct rtgauge_setup setup, int ready)
{
	struct rtgauge_start start = { 0 };

	if (!ioctl(fd, RTGAUGE_SETUP, &setup) && !ioctl(fd, RTGAUGE_START, &start) &&
	    write(ready, "", 1) == 1)
		for (;;)
			pause();
	_exit(1);
}

/* Kills the child once it answers: how many of the two things it should do it did. */
static int kill_answering(pid_t pid, int ready, int far, bool high)
{
	int good, status = 0;
	char byte;

	good = read(ready, &byte, 1) == 1;
	close(ready);
	drive(far, high);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return good + WIFSIGNALED(status);
}

#endif
