/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guardian: a child of the agent that sleeps on a pipe until the agent has ended. Unless the
 * agent reported that all is in order, it then kills the loads and restores the settings in the
 * journal. It shares the agent's locks, so that no agent starts before it is done.
 */
#ifndef RTGAUGE_GUARDIAN_H
#define RTGAUGE_GUARDIAN_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/message.h"

struct guardian {
	pid_t pid;
	int pipe; /* the write end: the agent alone has it */
};

/*
 * Fork it, before any thread exists, and wait until it stands: in a session of its own, immune to
 * every signal but SIGKILL, with nothing open but the pipe and the descriptors @folder and
 * @journal (the journal's @name in that folder). 0 or -errno.
 */
int guardian_start(struct guardian *guardian, int folder, int journal, const char *name,
		   struct message *msg);

bool guardian_lives(const struct guardian *guardian);

/* All is in order: let it end, and wait for it. */
void guardian_end(struct guardian *guardian);

#endif
