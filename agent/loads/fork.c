// SPDX-License-Identifier: Apache-2.0
/*
 * The load `fork`: creates processes that end at once, and waits for them, on each CPU of the load.
 * This copies page tables and uses the locks of the process list (docs/reference/loads.md).
 */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loads/start.h"

static const struct option_info fork_options[] = {
	START_PER_CPU("1"),
	{ 0 },
};

static int fork_all(volatile unsigned long *forks, const void *nothing)
{
	(void)nothing;
	for (;;) {
		pid_t pid = load_fork();

		if (!pid)
			_exit(0);
		if (pid < 0 || waitpid(pid, NULL, 0) < 0)
			return errno;
		++*forks;
	}
}

static int fork_run(struct load_worker *worker, const struct option_set *options,
		    struct message *msg)
{
	return start_on_each(worker, option_number(options, "per-cpu"), fork_all, NULL, msg);
}

const struct load load_fork_exit = {
	.name = "fork",
	.summary = "processes that end at once",
	.unit = "processes",
	.options = fork_options,
	.run = fork_run,
};
