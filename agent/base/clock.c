// SPDX-License-Identifier: Apache-2.0
/* Rests, and the frequency of the cycle counter. */
#include "base/clock.h"

#include <string.h>
#include <sys/resource.h>

/* How often the thread has given its CPU up. */
static long clock_sleeps(void)
{
	struct rusage usage = { .ru_nvcsw = 0 };

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

void clock_rest(int64_t ns)
{
	long before = clock_sleeps();

	do {
		struct timespec rest = clock_from_ns(ns);

		nanosleep(&rest, NULL);
		ns *= 2;
	} while (clock_sleeps() == before && ns < NSEC_PER_SEC);
}

int64_t clock_counter_hz(void)
{
	struct timespec pause = { .tv_nsec = 20 * NSEC_PER_MSEC };
	int64_t from_ns, to_ns;
	uint64_t from, to;

	if (!strcmp(clock_counter_name(), "none"))
		return 0;
	from_ns = clock_now_ns(CLOCK_MONOTONIC);
	from = clock_counter();
	nanosleep(&pause, NULL);
	to_ns = clock_now_ns(CLOCK_MONOTONIC);
	to = clock_counter();
	if (to_ns <= from_ns || to <= from)
		return 0;
	/* a long pause could overflow 64 bits with its cycles times 10^9 */
	return (int64_t)((double)(to - from) * NSEC_PER_SEC / (double)(to_ns - from_ns));
}
