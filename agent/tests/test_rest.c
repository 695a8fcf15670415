// SPDX-License-Identifier: Apache-2.0
/* Tests of rests, without which the kernel stops a thread of real-time priority (RLIMIT_RTTIME):
 * the thread sleeps in each, and a slow clock does not put them off. Prints TAP. */
#include <sys/resource.h>
#include <time.h>

static int test_gettime(clockid_t id, struct timespec *now);
static int test_nanosleep(const struct timespec *rest, struct timespec *left);

#define clock_gettime test_gettime
#define nanosleep test_nanosleep
#include "base/clock.c"
#undef nanosleep
#define clock_rest test_rest
void test_rest(int64_t ns);
#include "measurements/clock_cost.c"
#undef clock_rest
#undef clock_gettime

#include "tap.h"

static int64_t now_ns, reading_ns, rested_ns, longest_ns;
static int early, sleeps, rests;

static int test_gettime(clockid_t id, struct timespec *now)
{
	now_ns += reading_ns;
	*now = clock_from_ns(now_ns);
	return 0;
}

/* The first times, the time is over before the thread sleeps. */
static int test_nanosleep(const struct timespec *rest, struct timespec *left)
{
	sleeps++;
	if (early-- > 0)
		return 0;
	return nanosleep(rest, left);
}

void test_rest(int64_t ns)
{
	if (now_ns - rested_ns > longest_ns)
		longest_ns = now_ns - rested_ns;
	rests++;
	now_ns += ns;
	rested_ns = now_ns;
}

static long switches(void)
{
	struct rusage usage = { .ru_nvcsw = 0 };

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

static void test_sleeps(void)
{
	long before = switches();

	clock_rest(20 * NSEC_PER_MSEC); /* rarely over before it sleeps, also on a busy machine */
	tap_check(sleeps == 1 && switches() > before, "a rest is one sleep");
	early = 3;
	sleeps = 0;
	before = switches();
	clock_rest(NSEC_PER_MSEC);
	tap_check(sleeps == 4 && switches() > before,
		  "a rest that was over before the thread slept is repeated");
	early = 1000;
	sleeps = 0;
	clock_rest(NSEC_PER_MSEC);
	tap_check(sleeps > 4 && sleeps <= 10, "but not for ever");
}

/* 20 000 samples of each clock of a CPU, whose readings take the given time. */
static void measure(int64_t takes_ns)
{
	static struct series series[2];
	struct clock_cost_state state = { .clocks = CLOCK_COST_CLOCKS };
	struct step step = { .state = &state, .series = series };
	struct clock_cost_thread thread = { .samples = 20000 };
	struct worker worker = { .step = &step, .state = &thread };
	struct series_info info = { .name = "cost", .unit = "ns", .companion = -1 };

	for (int i = 0; i < CLOCK_COST_CLOCKS; i++)
		thread.results[i].series = clock_cost_clocks[i].counter ? -1 : i;
	for (int i = 0; i < 2; i++)
		series_init(&series[i], i, &info, 32768);
	reading_ns = takes_ns;
	rested_ns = now_ns;
	longest_ns = 0;
	rests = 0;
	clock_cost_loop(&worker);
	if (now_ns - rested_ns > longest_ns)
		longest_ns = now_ns - rested_ns;
	for (int i = 0; i < 2; i++)
		series_free(&series[i]);
}

int main(void)
{
	test_sleeps();
	measure(300);
	tap_check(!rests, "a fast clock is measured in one go");
	measure(140 * NSEC_PER_USEC);
	tap_check(rests > 50 &&
			  longest_ns < CLOCK_COST_RUN_NS + (2 * CLOCK_COST_BATCH + 8) * reading_ns,
		  "a slow one with rests between its batches");
	return tap_end();
}
