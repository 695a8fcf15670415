// SPDX-License-Identifier: Apache-2.0
/* Tests of grid.c, and of the end of events.c and irq_dispatch.c: every grid point is accounted for, as
 * a sample, missed or lost. Prints TAP. */
#include <stdarg.h>
#include <stdlib.h>

#include "methods/events.h"

static int test_ioctl(int fd, unsigned long request, ...);
static void test_message(struct step *step, int64_t now_ns, const char *text);

#define ioctl test_ioctl
#define step_message test_message
#include "methods/events.c"
#undef ioctl
#undef step_message
#include "measurements/irq_dispatch.c"

#include "drained.h"
#include "run/run.h"
#include "tap.h"

static struct rtgauge_status module; /* of the module's session */

static int test_ioctl(int fd, unsigned long request, ...)
{
	va_list ap;

	if (request != RTGAUGE_STATUS)
		abort();
	va_start(ap, request);
	*va_arg(ap, struct rtgauge_status *) = module;
	va_end(ap);
	return 0;
}

/* Which points of a session of the module are known to have no further sample at its end. */
static void test_end(struct step *step)
{
	struct events_session s = { .next = 10, .lost = 2 };

	module = (struct rtgauge_status){ .events = 10, .missed = 4, .lost = 2 };
	tap_check(events_next(&s, &module) == 14, "the handler passed over the last four");
	s.cut = true;
	tap_check(events_next(&s, &module) == 9,
		  "the thread may have been on its way to the last event");
	module.events = 13;
	module.lost = 5;
	tap_check(events_next(&s, &module) == 17, "not if the ring became full after that");
	step->stop = STEP_GOES_ON;
	tap_check(events_passed(step, &s) == 17, "a thread of user space saw the end");
	step->stop = STEP_STOP;
	tap_check(events_passed(step, &s) == 16, "or the step ended before");
}

static void test_message(struct step *step, int64_t now_ns, const char *text)
{
}

/* A handler on another CPU interrupts no thread of this one. */
static void test_dispatch(struct step *step)
{
	struct irq_dispatch_cpu cpu = { .session.setup.cpu = 1 };
	const struct interrupt interrupt = { .states = (char *)&cpu,
					     .size = sizeof(cpu),
					     .count = 1 };

	module = (struct rtgauge_status){ .events = 10 };
	tap_check(!irq_dispatch_account(step, &interrupt), "interrupts of the own CPU");
	module.other_cpu = 3;
	tap_check(irq_dispatch_account(step, &interrupt) == -EIO, "not: %s", step->msg.text);
}

int main(void)
{
	const struct series_info info = {
		.name = "latency", .unit = "ns", .interval_ns = 1000, .companion = -1
	};
	struct run run = { .step.series_count = 2 };
	struct step *step = &run.step;
	struct series series[2];
	struct grid grid = { .series = 0,
			     .dither = 1,
			     .own = true,
			     .interval_ns = 1000,
			     .start_ns = 5000,
			     .limit_ns = 900 };
	struct drained seen;

	series_init(&series[0], 0, &info, 1024);
	series_init(&series[1], 1, &info, 1024);
	step->series = series;
	grid_put(step, &grid, 7, 2, 100);
	tap_check(series[0].info.first_due_ns == 12000 && series[1].info.first_due_ns == 12000,
		  "the first sample says where the series begins");
	grid_put(step, &grid, 8, 2, 100);
	grid_put(step, &grid, 12, 2, 100); /* 9 to 11 missed */
	grid_put(step, &grid, 20, 7, 100); /* 5 of 13 to 19 lost, 2 missed */
	grid_put(step, &grid, 21, 9, 100); /* more said to be lost than there is room for */
	grid_end(step, &grid, 27, 12);	   /* 3 lost and 2 missed after the last sample */
	seen = drained_from(&series[0]);
	tap_check(seen.samples == 5 && grid.count == 5, "every sample is there");
	tap_check(seen.missed == 7, "points without a sample are missed");
	tap_check(seen.lost == 8 && seen.unknown == 8, "or lost, of an unknown size");
	tap_check(drained_from(&series[1]).samples == 20,
		  "every point has its offset, missed ones too");
	grid_put(step, &grid, 27, 12, 901);
	tap_check(step_stopped(step) && step->threshold_value == 901 && !step->threshold_series,
		  "what is above the limit ends the run");
	grid_put(step, &grid, 28, 12, 100);
	grid_end(step, &grid, 40, 12);
	tap_check(grid.count == 6 && !drained_from(&series[0]).missed,
		  "and is the last sample of its series");
	test_end(step);
	test_dispatch(step);
	return tap_end();
}
