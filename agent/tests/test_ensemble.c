// SPDX-License-Identifier: Apache-2.0
/* Tests of ensemble.c: durations without the cost of a stamp, and sleeps as long as requested; of
 * cpu_power.c: the walk. Prints TAP. */
#include <stdint.h>

#include "base/clock.h"
#include "measurements/cpu_power.c"
#include "methods/ensemble.h"
#include "tap.h"

#define SLEEP_NS (20 * NSEC_PER_MSEC)

/* study(65) */
static void test_net(void)
{
	struct ensemble e = { .stamp_ns = 27 };

	tap_check(ensemble_net(&e, 1000) == 973, "a duration without the cost of a stamp");
	tap_check(ensemble_net(&e, 20) == -7, "a duration may be shorter than a stamp");
}

/* On 32-bit machines the kernel's first futex call has another struct of time than the C library:
 * it would come back at once, and a thread of real-time priority would keep the CPU. */
static void test_sleeps(void)
{
	int64_t from_ns = clock_now_ns(CLOCK_MONOTONIC);
	uint32_t word = 7;

	ensemble_sleep_on(&word, 7, SLEEP_NS);
	tap_check(clock_now_ns(CLOCK_MONOTONIC) - from_ns >= SLEEP_NS, "for its time");
	ensemble_sleep_on(&word, 8, 0);
	tap_check(true, "not at all while the word is another");
}

/* A walk that is longer than necessary evicts a small cache as well. */
static void test_walk(void)
{
	static struct step step;
	static struct cpu_power_state state = { .ensemble.step = &step, .last_level = 32 * 1024 };

	tap_check(power_map_walk(&state) && state.walk.bytes >= POWER_WALK_MIN / 2,
		  "a walk for a last level of 32 KiB: %lld bytes", (long long)state.walk.bytes);
	power_unmap(&state.walk);
}

/* Each test loop puts a time. */
static void test_room(void)
{
	tap_check(ensemble_room(800, 4) == 1600, "room for times of short test loops");
	tap_check(ensemble_room(1000000, 4) == 1004000, "the drain takes out the others");
}

int main(void)
{
	test_net();
	test_sleeps();
	test_walk();
	test_room();
	return tap_end();
}
