/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durations of short operations: the cost of a time stamp, measured on the same CPU, and batches,
 * whose mean is finer than the resolution of the clock. The method of CAL-P-TRC: the cost of a
 * stamp is the difference of two consecutive readings.
 */
#ifndef RTGAUGE_STAMP_H
#define RTGAUGE_STAMP_H

#include <stdint.h>

#include "base/clock.h"

struct step;

/* Cost of a time stamp to the calling thread in ps: the smallest of the means of several batches. */
int64_t stamp_cost_ps(void);

/* One operation, timed in batches. */
struct batch {
	const char *operation; /* as the table shows it */
	int64_t operations;
	int64_t batches;
	int64_t sum_ps;	  /* of all of them, without the time stamps */
	int64_t least_ps; /* min of the batches' means */
};

/* @count operations took @took_ns between two time stamps that cost @stamp_ps. */
void batch_add(struct batch *batch, int count, int64_t took_ns, int64_t stamp_ps);

/* Time @statement, @count times in a row, as one batch. The loop's own counting is included. */
#define BATCH_TIME(batch, stamp_ps, count, statement)                                             \
	do {                                                                                      \
		int64_t batch_from_ns = clock_now_ns(CLOCK_MONOTONIC);                            \
		for (int batch_i = 0; batch_i < (count); batch_i++) {                             \
			statement;                                                                \
		}                                                                                 \
		batch_add(batch, count, clock_now_ns(CLOCK_MONOTONIC) - batch_from_ns, stamp_ps); \
	} while (0)

/* In finish(): the table `batches` (operation, mean, min, operations) of those that were timed. */
void batch_table(struct step *step, const struct batch *batches, int count);
/* Description of that table in the `tables` of a measurement. */
#define BATCH_TABLE "batches"
#define BATCH_MEANING "mean time of an operation from batches, without the cost of the time stamps"

#endif
