// SPDX-License-Identifier: Apache-2.0
/* Tests of yields.c: a thread that slept for a tick, and threads that did not. Prints TAP. */
#include "methods/yields.h"
#include "tap.h"

#define TICK_NS 4000000
#define ROUND_NS 1000000 /* 1000 threads at 1 us */

static void test_round(void)
{
	const int64_t lengths_ns[] = { 50, 0, 10, 4000, 30, 0, 20, 40 };
	int64_t sorted_ns[8] = { 0 };

	tap_check(yields_round(lengths_ns, 8, sorted_ns) == 40, "the median of what is there");
	for (int i = 1; i < 6; i++)
		tap_check(sorted_ns[i - 1] < sorted_ns[i], "length %d is in order", i);
	tap_check(yields_round(lengths_ns, 0, sorted_ns) == 0, "no yield has no round");
	tap_check(yields_round(&lengths_ns[1], 1, sorted_ns) == 0, "nor one of length 0");
}

static void test_waits(void)
{
	const int64_t usual_ns[] = { ROUND_NS, ROUND_NS + 100, ROUND_NS - 100 };
	const int64_t tail_ns[] = { ROUND_NS, 2 * ROUND_NS, ROUND_NS };
	const int64_t one_ns[] = { ROUND_NS, ROUND_NS + TICK_NS, ROUND_NS };
	const int64_t two_ns[] = { ROUND_NS + TICK_NS, ROUND_NS + TICK_NS, ROUND_NS };

	tap_check(yields_waited(usual_ns, 3, 1, ROUND_NS, TICK_NS) == 0,
		  "a round of 1 ms is not such a yield, although the thread was preempted");
	tap_check(yields_waited(tail_ns, 3, 1, ROUND_NS, TICK_NS) == 0,
		  "a preempted thread that was put at the tail did not sleep");
	tap_check(yields_waited(one_ns, 3, 1, ROUND_NS, TICK_NS) == 1, "a tick is a sleep");
	tap_check(yields_waited(one_ns, 3, 0, ROUND_NS, TICK_NS) == 0,
		  "a long yield alone does not count");
	tap_check(yields_waited(one_ns, 3, 9, ROUND_NS, TICK_NS) == 1,
		  "preemptions are no more of them");
	tap_check(yields_waited(two_ns, 3, 1, ROUND_NS, TICK_NS) == 1,
		  "nor is a yield that found no other thread");
	tap_check(yields_waited(two_ns, 3, 2, ROUND_NS, TICK_NS) == 2, "two sleeps");
}

int main(void)
{
	test_round();
	test_waits();
	return tap_end();
}
