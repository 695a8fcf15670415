// SPDX-License-Identifier: Apache-2.0
/*
 * The load `timer`: many processes on each CPU of the load, each woken by its own timer at a high
 * rate. This causes timer interrupts, wake-ups and switches on CPUs that fall asleep in between
 * (docs/reference/loads.md).
 */
#include <errno.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "loads/start.h"

static const struct option_info timer_options[] = {
	{ "interval", OPTION_DURATION, "200us", NSEC_PER_USEC, NSEC_PER_SEC, NULL,
	  "sleep of each process" },
	START_PER_CPU("10"),
	{ 0 },
};

static int timer(volatile unsigned long *timers, const void *options)
{
	struct timespec interval = clock_from_ns(option_number(options, "interval"));

	prctl(PR_SET_TIMERSLACK, 1UL, 0, 0,
	      0); /* else the kernel puts several into one interrupt */
	while (!nanosleep(&interval, NULL))
		++*timers;
	return errno;
}

static int timer_run(struct load_worker *worker, const struct option_set *options,
		     struct message *msg)
{
	return start_on_each(worker, option_number(options, "per-cpu"), timer, options, msg);
}

const struct load load_timer = {
	.name = "timer",
	.summary = "many processes, each woken by a timer at a high rate",
	.unit = "timers",
	.options = timer_options,
	.run = timer_run,
};
