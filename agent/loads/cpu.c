// SPDX-License-Identifier: Apache-2.0
/*
 * The load `cpu`: processes that compute and never sleep, on each CPU of the load. They make no
 * system call and no memory traffic, so they take only CPU time from a measurement
 * (docs/reference/loads.md).
 */
#include "loads/start.h"

#define STEPS_PER_LOOP 500000 /* about 1 ms on a CPU of 3 GHz */

static const struct option_info cpu_options[] = {
	START_PER_CPU("1"),
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

static int __attribute__((noreturn)) burn(volatile unsigned long *loops, const void *nothing)
{
	volatile double kept; /* so that the result of the work is used */
	uint32_t bits = 1;
	double number = 0;

	(void)nothing;
	for (;;) {
		compute(&bits, &number);
		kept = number;
		(void)kept;
		++*loops;
	}
}

static int cpu_run(struct load_worker *worker, const struct option_set *options,
		   struct message *msg)
{
	return start_on_each(worker, option_number(options, "per-cpu"), burn, NULL, msg);
}

const struct load load_cpu = {
	.name = "cpu",
	.summary = "integer and floating-point work on every CPU",
	.unit = "loops",
	.options = cpu_options,
	.run = cpu_run,
};
