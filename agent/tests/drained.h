/* SPDX-License-Identifier: Apache-2.0 */
/* What one drain takes out of the ring of a series. */
#ifndef RTGAUGE_DRAINED_H
#define RTGAUGE_DRAINED_H

#include "stream/series.h"

struct drained {
	int blocks;
	int64_t due_ns[8]; /* of the first blocks */
	int64_t samples, missed, lost, unknown;
};

static inline void drained_samples(void *arg, struct series *s, int64_t index, int64_t due_ns,
				   const int32_t *values, size_t count)
{
	struct drained *d = arg;

	if (d->blocks < 8)
		d->due_ns[d->blocks++] = due_ns;
	d->samples += (int64_t)count;
}

static inline void drained_missed(void *arg, struct series *s, int64_t index, int64_t count)
{
	((struct drained *)arg)->missed += count;
}

static inline void drained_lost(void *arg, struct series *s, int64_t index, int64_t count,
				int64_t max)
{
	struct drained *d = arg;

	d->lost += count;
	d->unknown += max == SERIES_UNKNOWN ? count : 0;
}

static inline void drained_wide(void *arg, struct series *s, int64_t index, int64_t value)
{
}

static inline struct drained drained_from(struct series *s)
{
	struct drained d = { 0 };
	const struct series_sink sink = { drained_samples, drained_missed, drained_lost,
					  drained_wide, &d };

	series_drain(s, &sink);
	return d;
}

#endif
