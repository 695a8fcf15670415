// SPDX-License-Identifier: Apache-2.0
/*
 * The load `cpu`: processes that compute and never sleep, on each CPU of the load. No system call,
 * no memory traffic: what it takes from a measurement is the CPU itself (docs/loads.md).
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "load.h"

#define STEPS_PER_LOOP 500000 /* about 1 ms on a CPU of 3 GHz */

static const struct option_info cpu_options[] = {
	{ "per-cpu", OPTION_INTEGER, "1", 1, 64, NULL, "busy processes on each CPU" },
	{ 0 },
};

/* One loop: a fixed number of steps, each integer (xorshift) and floating point, each depending on
 * the step before. */
static void compute(uint32_t *bits, double *number)
{
	uint32_t x = *bits;
	double y = *number;

	for (int i = 0; i < STEPS_PER_LOOP; i++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		y = y * 0.5 + (double)(x >> 8);
	}
	*bits = x;
	*number = y;
}

static void __attribute__((noreturn)) burn(volatile uint32_t *loops)
{
	volatile double kept; /* so that nothing is computed in vain */
	uint32_t bits = 1;
	double number = 0;

	for (;;) {
		compute(&bits, &number);
		kept = number;
		(void)kept;
		++*loops;
	}
}

/* Start @count processes on @cpu: they inherit the affinity that the leader takes for that. */
static int start_on(struct load_worker *worker, int cpu, int64_t count, unsigned int *number,
		    struct message *msg)
{
	struct cpulist one = { 0 };
	int err;

	cpulist_add(&one, cpu);
	err = cpulist_apply(&one, 0);
	if (err)
		return message_set(msg, err, "give other CPUs with --load-cpu",
				   "cannot run on CPU %d: %s", cpu, strerror(-err));
	for (; count > 0; count--) {
		volatile uint32_t *loops;
		pid_t pid;

		if (*number >= LOAD_COUNTERS_MAX)
			return message_set(msg, -EINVAL, "ask for fewer with per-cpu",
					   "more than %d processes", LOAD_COUNTERS_MAX);
		loops = load_counter(worker, (*number)++);
		pid = load_fork();
		if (!pid)
			burn(loops);
		if (pid < 0) {
			err = -errno;
			return message_set(msg, err, "raise the limit of processes (ulimit -u)",
					   "cannot start a process: %s", strerror(-err));
		}
	}
	return 0;
}

static int cpu_run(struct load_worker *worker, const struct option_set *options,
		   struct message *msg)
{
	const struct cpulist *cpus = load_cpus(worker);
	unsigned int number = 0;

	for (int cpu = cpulist_next(cpus, 0); cpu >= 0; cpu = cpulist_next(cpus, cpu + 1)) {
		int err = start_on(worker, cpu, option_number(options, "per-cpu"), &number, msg);

		if (err)
			return err;
	}
	cpulist_apply(cpus, 0);
	load_ready(worker);
	return load_watch(msg);
}

const struct load load_cpu = {
	.name = "cpu",
	.summary = "integer and floating-point work on every CPU",
	.unit = "loops",
	.options = cpu_options,
	.run = cpu_run,
};
