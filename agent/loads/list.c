// SPDX-License-Identifier: Apache-2.0
/*
 * The load `list`: starts a small program and waits for its end, repeatedly, like a shell's loop
 * around `ls`: fork, exec, page faults, exit (docs/reference/loads.md).
 */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loads/start.h"

#define NOT_STARTED 127 /* as a shell says it */

static const struct option_info list_options[] = {
	{ "program", OPTION_TEXT, "", 0, 0, NULL,
	  "the program; empty: the agent's 'version' command" },
	{ 0 },
};

/* The agent may be the only program on a target. */
static int list_once(const char *program, struct message *msg)
{
	pid_t leader = getpid();
	pid_t pid = start_process(msg);
	int status;

	if (pid < 0)
		return pid;
	if (!pid) {
		if (*program) {
			if (!load_become_caller(leader))
				execl(program, program, NULL);
		} else {
			execl("/proc/self/exe", "rtgauge-agent", "version", NULL);
		}
		_exit(NOT_STARTED);
	}
	if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	    WEXITSTATUS(status) != NOT_STARTED)
		return 0;
	return message_set(msg, -ENOEXEC, "name a program by its path", "%.200s does not run",
			   *program ? program : "/proc/self/exe");
}

static int list_run(struct load_worker *worker, const struct option_set *options,
		    struct message *msg)
{
	const char *program = option_text(options, "program");
	volatile unsigned long *programs = load_counter(worker, 0);
	int err = list_once(program, msg);

	if (!err)
		load_ready(worker);
	while (!err) {
		err = list_once(program, msg);
		++*programs;
	}
	return err;
}

const struct load load_list = {
	.name = "list",
	.summary = "a small program started repeatedly, like a shell's loop around ls",
	.unit = "programs",
	.options = list_options,
	.run = list_run,
};
