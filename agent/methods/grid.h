/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A series whose samples have the number of their grid point. Points between two samples were
 * missed, or their samples were lost on the way.
 */
#ifndef RTGAUGE_GRID_H
#define RTGAUGE_GRID_H

#include <stdbool.h>
#include <stdint.h>

struct step;

/* Offset of the dithered due time of grid point @index, in [0, @interval_ns). */
int64_t grid_offset_ns(int64_t index, int64_t interval_ns);

struct grid {
	int series; /* its number, -1: not measured */
	int dither; /* the series of its due times' offsets, or -1 */
	bool own;   /* a measuring thread puts it, not the one that drains */
	int64_t interval_ns;
	int64_t start_ns; /* grid point 0, since the start of the step */
	int64_t limit_ns; /* a value above it ends the run */

	bool begun;
	int64_t next;  /* index after the last sample */
	int64_t lost;  /* of those lost, said here so far */
	int64_t count; /* samples put */
};

/*
 * Put the sample of grid point @index. @lost: how many have been lost in all; those since the last
 * sample count as such, the other points in between as missed. The first one says where the series
 * begins. The rings may be drained on the way, unless a measuring thread puts it.
 */
void grid_put(struct step *step, struct grid *grid, int64_t index, int64_t lost, int64_t value);
/*
 * At the end, when the points before @next are known to have no further sample: those after the last
 * sample were lost or missed. Without any sample, only those lost count.
 */
void grid_end(struct step *step, struct grid *grid, int64_t next, int64_t lost);

#endif
