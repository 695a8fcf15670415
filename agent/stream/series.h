/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A series: samples of one quantity.
 *
 * On the path of a sample this is step 3: the measuring thread puts it into a lock-free ring of
 * 32-bit words with one producer and one consumer; and step 4: the draining thread takes it out,
 * counts it in the histogram and hands blocks to the stream. What breaks the sequence of samples
 * (missed periods, loss, a move of the grid, a value beyond 32 bits) is in the same ring behind an
 * escape word, so that it cannot get out of step with the samples.
 */
#ifndef RTGAUGE_SERIES_H
#define RTGAUGE_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"

#define SERIES_SUB_BITS 7
#define SERIES_BUCKETS ((63 - SERIES_SUB_BITS + 1) << SERIES_SUB_BITS)
#define SERIES_LABELS 6
#define SERIES_ESCAPE INT32_MIN
/* The largest of the lost samples, if it is unknown. */
#define SERIES_UNKNOWN INT64_MIN
/* Maximum that one call puts into the ring: a loss, missed periods, a time or a move, a wide
 * sample. */
#define SERIES_WORDS_MAX 20

struct series_label {
	const char *name;
	const char *value;
};

/* Content of the stream's `series` record (docs/formats/stream.md). Strings live with the run. */
struct series_info {
	const char *name;
	const char *context;
	const char *unit;
	int cpu;
	int thread;
	bool tested; /* by threads that `thread` conducts; policy and priority are theirs */
	const char *policy;
	int priority;
	int64_t interval_ns;  /* 0: no time grid */
	int64_t first_due_ns; /* of grid point 0: in setup() from the opening of the gate, then
			       * from the start of the step; a loop that cannot choose it says
			       * it before its first sample; without a grid the time of the
			       * first sample, once it is drained */
	bool net;	      /* samples are durations without the cost of a time stamp */
	int64_t stamp_ns; /* that cost, where it was taken off: sample + this is the raw value */
	int companion;	  /* number of the series whose due times this one offsets, or -1 */
	bool unordered;	  /* samples come in no order: only their histogram is sent */
	struct series_label labels[SERIES_LABELS];
};

struct series_histogram {
	uint64_t *buckets; /* SERIES_BUCKETS for values >= 0, then as many for values < 0 */
	int64_t count;
	int64_t min;
	int64_t max;
	int64_t sum; /* stays at the nearest bound once it has left 64 bits */
};

/* Driven to 1 before each sample is put, and to 0 after it (run/mark.h). */
struct series_pulse {
	void (*drive)(void *arg, int level);
	void *arg;
};

struct series {
	/* written by the measuring thread */
	uint32_t head __attribute__((aligned(64)));
	uint32_t room_until; /* head may come this far without a look at tail */
	int32_t *ring;
	uint32_t mask;
	int64_t lost_open; /* lost, and not yet said in the ring */
	int64_t lost_open_max;
	int64_t missed_open;
	int64_t time_open_ns; /* of the samples from here on; SERIES_UNKNOWN: written */
	int64_t moved_open_ns;
	const struct series_pulse *pulse; /* or NULL */

	/* written by the draining thread */
	uint32_t tail __attribute__((aligned(64)));
	int number;
	struct series_info info;
	int64_t next_index;
	int64_t moved_ns;     /* by which the grid was moved so far */
	int64_t time_ns;      /* of the next block, without a grid */
	int64_t last_time_ns; /* of the last block so far */
	int64_t missed;
	int64_t lost;
	int64_t overruns;
	int64_t lost_max;
	bool max_is_new;
	int64_t max_index;
	int64_t max_moved_ns; /* moved_ns at the maximum */
	struct series_histogram histogram;
};

/* Contents of the ring, in order. `samples` have the ring's form (host byte order). */
struct series_sink {
	void (*samples)(void *arg, struct series *s, int64_t index, int64_t due_ns,
			const int32_t *values, size_t count);
	void (*missed)(void *arg, struct series *s, int64_t index, int64_t count);
	void (*lost)(void *arg, struct series *s, int64_t index, int64_t count, int64_t max);
	void (*wide)(void *arg, struct series *s, int64_t index, int64_t value);
	void *arg;
};

/* A ring of at least @words words (a power of two is made of it), all pages touched, in memory
 * that a measuring process shares with the agent. 0, -ENOMEM. */
int series_init(struct series *s, int number, const struct series_info *info, size_t words);
void series_free(struct series *s);
/* Write to every page of the ring, before the measuring thread or process starts. */
void series_touch(struct series *s);

/* From here on each sample makes a @pulse, which has to live as long as @s. All samples then take
 * the slow path. */
void series_mark(struct series *s, const struct series_pulse *pulse);

/* The measuring thread, when series_put() found no room or something out of the ordinary. */
void series_put_slow(struct series *s, int64_t value);
/* @count grid points after the last sample were skipped. */
void series_missed(struct series *s, int64_t count);
/* @count samples were lost before they came here. Their values are unknown. */
void series_lost(struct series *s, int64_t count);
/* The samples from here on were taken at @time_ns (series without a grid). */
void series_time(struct series *s, int64_t time_ns);
/* From here on the grid is @by_ns later than before. */
void series_moved(struct series *s, int64_t by_ns);

/* After the measuring thread has ended and the ring was drained: say what is still open. */
void series_flush(struct series *s);

/* Step 3 of the path of a sample. Never blocks: without room the sample is counted as lost. */
static inline void series_put(struct series *s, int64_t value)
{
	uint32_t head = s->head;

	if (__builtin_expect((int32_t)(s->room_until - head) < SERIES_WORDS_MAX ||
				     value != (int32_t)value || value == SERIES_ESCAPE,
			     0)) {
		series_put_slow(s, value);
		return;
	}
	s->ring[head & s->mask] = (int32_t)value;
	atomic_store_release(&s->head, head + 1);
}

/* When a sample of a series on a grid was due, where the grid was moved by @moved_ns. */
static inline int64_t series_due_ns(const struct series *s, int64_t index, int64_t moved_ns)
{
	return s->info.first_due_ns + index * s->info.interval_ns + moved_ns;
}

/* Step 4: take out all there is. Number of samples taken. */
int64_t series_drain(struct series *s, const struct series_sink *sink);

/* The bucket of a value, -SERIES_BUCKETS to SERIES_BUCKETS - 1 (docs/formats/stream.md,
 * `histogram`). */
int series_bucket(int64_t value);
/* The smallest and largest value of a bucket. */
int64_t series_bucket_low(int bucket);
int64_t series_bucket_high(int bucket);
/* Nearest-rank percentile from the histogram: the upper end of the bucket that holds it, @per_100k
 * in units of 1/100000. Exact below 256, else at most 1/128 too high; never above max. */
int64_t series_percentile(const struct series *s, int per_100k);

#endif
