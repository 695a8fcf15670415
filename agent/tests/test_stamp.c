// SPDX-License-Identifier: Apache-2.0
/* Tests of stamp.c: what a batch's times come to, and the cost of a time stamp. Prints TAP. */
#include <stdio.h>

#include "methods/stamp.h"
#include "tap.h"

static void test_sums(void)
{
	struct batch batch = { .operation = "test" };

	/* 500 operations, 10 030 ns between two stamps that cost 30 ns: 20 ns each */
	batch_add(&batch, 500, 10030, 30000);
	tap_check(batch.batches == 1 && batch.operations == 500, "one batch of 500");
	tap_check(batch.sum_ps == 10000000, "its time without the stamp");
	tap_check(batch.least_ps == 20000, "its mean");
	batch_add(&batch, 500, 15030, 30000);
	tap_check(batch.least_ps == 20000, "a slower one is not the minimum");
	tap_check(batch.sum_ps == 25000000 && batch.operations == 1000, "but counts");
	/* of another size: the mean is of operations, not of batches */
	batch_add(&batch, 1, 40, 30000);
	tap_check(batch.least_ps == 10000 && batch.batches == 3, "a faster one is");
	tap_check(batch.sum_ps / batch.operations == 24985, "mean of all operations");
}

static void test_finer_than_the_clock(void)
{
	struct batch batch = { .operation = "test" };

	batch_add(&batch, 64, 30, 29500);
	tap_check(batch.least_ps == 7 && batch.sum_ps == 500, "less than a nanosecond");
	/* an empty loop can come out below the stamp's mean cost */
	batch_add(&batch, 64, 0, 29500);
	tap_check(batch.least_ps == -460 && batch.sum_ps == -29000, "or below nothing");
}

static void test_long(void)
{
	struct batch batch = { .operation = "test" };

	for (int i = 0; i < 1000; i++)
		batch_add(&batch, 1000000, 3600000000000, 0);
	tap_check(batch.sum_ps / batch.operations == 3600000000, "a thousand hours");
}

static void test_time(void)
{
	struct batch batch = { .operation = "test" };
	int64_t before_ns = clock_now_ns(CLOCK_MONOTONIC);
	int calls = 0, sum = 0;

	for (int i = 0; i < 3; i++)
		BATCH_TIME(&batch, 0, 100, calls++; sum += batch_i);
	tap_check(calls == 300 && sum == 3 * 4950, "each operation once, with its number");
	tap_check(batch.operations == 300 && batch.batches == 3, "all counted");
	tap_check(batch.sum_ps >= 0 &&
			  batch.sum_ps <= (clock_now_ns(CLOCK_MONOTONIC) - before_ns) * 1000,
		  "no more than has gone by");
}

static void test_cost(void)
{
	int64_t cost_ps = stamp_cost_ps();
	int64_t before_ns = clock_now_ns(CLOCK_MONOTONIC), after_ns = before_ns;

	tap_check(cost_ps > 0, "a stamp costs something");
	/* as many again cannot take less than the minimum of means, within the clock's steps */
	for (int i = 0; i < 100000; i++)
		after_ns = clock_now_ns(CLOCK_MONOTONIC);
	tap_check(cost_ps <= (after_ns - before_ns) * 1000 / 100000 * 3 / 2,
		  "%lld ps, 100000 in %lld ns", (long long)cost_ps,
		  (long long)(after_ns - before_ns));
}

int main(void)
{
	test_sums();
	test_finer_than_the_clock();
	test_long();
	test_time();
	test_cost();
	return tap_end();
}
