// SPDX-License-Identifier: Apache-2.0
/* Starts the processes of a load: functions that several loads share. */
#include "loads/start.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

pid_t start_process(struct message *msg)
{
	pid_t pid = load_fork();

	if (pid >= 0)
		return pid;
	pid = -errno;
	return message_set(msg, pid, "raise the limit of processes (ulimit -u)",
			   "cannot start a process: %s", strerror(-pid));
}

int start_on_each(struct load_worker *worker, int64_t per_cpu,
		  int (*work)(volatile unsigned long *done, const void *arg), const void *arg,
		  struct message *msg)
{
	const struct cpulist *cpus = load_cpus(worker);
	bool bound = per_cpu > 0;
	unsigned int number = 0;

	for (int cpu = cpulist_next(cpus, 0); cpu >= 0; cpu = cpulist_next(cpus, cpu + 1)) {
		struct cpulist one = { 0 };
		int err;

		/* processes inherit the affinity that the leader takes for that */
		cpulist_add(&one, cpu);
		err = bound ? cpulist_apply(&one, 0) : 0;
		if (err)
			return message_set(msg, err, "give other CPUs with --load-cpu",
					   "cannot run on CPU %d: %s", cpu, strerror(-err));
		for (int64_t i = 0; i < (bound ? per_cpu : 1); i++) {
			volatile unsigned long *done;
			pid_t pid;

			if (number >= LOAD_COUNTERS_MAX)
				return message_set(msg, -EINVAL, "set a smaller per-cpu",
						   "more than %d processes", LOAD_COUNTERS_MAX);
			done = load_counter(worker, number++);
			pid = start_process(msg);
			if (!pid)
				_exit(work(done, arg));
			if (pid < 0)
				return pid;
		}
		if (!bound)
			break;
	}
	cpulist_apply(cpus, 0);
	load_ready(worker);
	return load_watch(msg);
}
