// SPDX-License-Identifier: Apache-2.0
/*
 * Tests of explain.c: which samples are kept for a snapshot, and that each other one is counted.
 * Prints TAP.
 */
#include <stdlib.h>
#include <string.h>

#include "run/explain.h"
#include "run/run.h"
#include "tap.h"

#define ABOVE 1000
#define SERIES 3
#define ROUNDS 2000
#define FULL (1 << 30) /* pages in the stream */

static struct run_request request = { .explain_above_ns = ABOVE };
static struct run run = { .request = &request };
static struct series series[SERIES];

static int64_t kept_max(void)
{
	int64_t max = INT64_MIN;

	for (int i = 0; i < run.explain.count; i++)
		if (run.explain.samples[i].value_ns > max)
			max = run.explain.samples[i].value_ns;
	return max;
}

/* A drain with @count samples of a series, as the draining thread finds them. The number of those
 * that are to be kept. */
static int drain(unsigned int *seed, int count, int64_t *max)
{
	int wanted = 0;

	*max = INT64_MIN;
	run.explain.count = 0;
	run.explain.dropped = 0;
	for (int n = 0; n < SERIES; n++) {
		int64_t before = series[n].histogram.max;

		for (int i = 0; i < count; i++) {
			int64_t value;

			*seed = *seed * 1664525 + 1013904223;
			/* now and then a new maximum */
			value = *seed >> 22 ? *seed >> 21 : series[n].histogram.max + 1;
			if (value > series[n].histogram.max) {
				series[n].histogram.max = value;
				series[n].max_index = series[n].next_index;
			}
			explain_value(&run, &series[n], series[n].next_index++, value);
			wanted += value > ABOVE;
			*max = value > *max ? value : *max;
		}
		if (series[n].histogram.max > before) {
			explain_maximum(&run, &series[n]);
			wanted += series[n].histogram.max <= ABOVE;
		}
	}
	return wanted;
}

static void test_counts(int64_t pages, const char *what)
{
	unsigned int seed = 7;
	bool counted = true, largest = true, some = false;

	run.explain.pages = pages;
	for (int n = 0; n < SERIES; n++)
		series[n].histogram.max = n * 400;
	for (int round = 0; round < ROUNDS; round++) {
		int64_t max;
		int wanted = drain(&seed, round % 30, &max);

		counted = counted && run.explain.count + run.explain.dropped == wanted;
		some = some || (run.explain.count && run.explain.dropped);
		if (pages < FULL && max > ABOVE)
			largest = largest && kept_max() == max;
		for (int i = 0; i < run.explain.count && pages == FULL; i++)
			largest = largest && run.explain.samples[i].value_ns ==
						     run.explain.samples[i].series->histogram.max;
	}
	tap_check(counted && some, "%s: each sample is kept or counted", what);
	tap_check(largest, "%s: the largest ones are kept", what);
}

/* The maximum of a series finds no room, because all samples of another one are larger. */
static void test_small_maximum(void)
{
	int wanted = 0;

	run.explain.count = 0;
	run.explain.dropped = 0;
	run.explain.pages = 0;
	for (int i = 0; i < EXPLAIN_SAMPLES + 2; i++, wanted++)
		explain_value(&run, &series[0], i, 10 * ABOVE);
	for (int i = 0; i < 2; i++, wanted++)
		explain_value(&run, &series[1], i, 2 * ABOVE + i);
	series[1].histogram.max = 2 * ABOVE + 1;
	series[1].max_index = 1;
	explain_maximum(&run, &series[1]);
	tap_check(run.explain.count == EXPLAIN_SAMPLES &&
			  run.explain.count + run.explain.dropped == wanted,
		  "a maximum without room is counted once");
}

int main(void)
{
	for (int n = 0; n < SERIES; n++) {
		series[n].info.unit = "ns";
		series[n].info.interval_ns = 1000;
		series[n].info.companion = -1;
	}
	explain_value(&run, &series[0], 0, 2 * ABOVE);
	tap_check(!run.explain.count, "nothing is kept without a trace");
	run.explain.tracing.made = true;
	test_counts(0, "room in the stream");
	test_counts(FULL, "no room in the stream");
	test_small_maximum();

	run.explain.count = 0;
	run.explain.dropped = 0;
	run.explain.pages = FULL;
	series[0].info.companion = 1;
	series[1].info.interval_ns = 0;
	series[2].info.unit = "1";
	for (int n = 0; n < SERIES; n++) {
		explain_value(&run, &series[n], 0, 2 * ABOVE);
		explain_maximum(&run, &series[n]);
	}
	tap_check(!run.explain.count && !run.explain.dropped,
		  "due times, operations and other units are not samples to explain");
	return tap_end();
}
