// SPDX-License-Identifier: Apache-2.0
/* Ring and histogram of a series: steps 3 and 4 of the path of a sample. */
#include "stream/series.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/shared.h"

enum escape { ESCAPE_MISSED = 1, ESCAPE_LOST, ESCAPE_WIDE, ESCAPE_TIME, ESCAPE_MOVED };

/* The histogram lies behind the ring, in the same piece of shared memory. */
static size_t series_memory(size_t words)
{
	return words * sizeof(int32_t) + 2 * SERIES_BUCKETS * sizeof(uint64_t);
}

int series_init(struct series *s, int number, const struct series_info *info, size_t words)
{
	size_t size = 1024;

	while (size < words)
		size *= 2;
	memset(s, 0, sizeof(*s));
	s->ring = shared_alloc(series_memory(size));
	if (!s->ring)
		return -ENOMEM;
	s->histogram.buckets = (uint64_t *)(s->ring + size);
	s->mask = size - 1;
	s->room_until = size;
	s->number = number;
	s->time_open_ns = SERIES_UNKNOWN;
	s->info = *info;
	series_touch(s);
	return 0;
}

void series_mark(struct series *s, const struct series_pulse *pulse)
{
	s->pulse = pulse;
	s->room_until = s->head;
}

void series_touch(struct series *s)
{
	volatile int32_t *ring = s->ring;

	for (size_t i = 0; i <= s->mask; i += 1024)
		ring[i] = ring[i];
}

void series_free(struct series *s)
{
	shared_free(s->ring, series_memory((size_t)s->mask + 1));
	memset(s, 0, sizeof(*s));
}

static void series_word(struct series *s, uint32_t *head, uint32_t word)
{
	s->ring[(*head)++ & s->mask] = (int32_t)word;
}

static void series_escape(struct series *s, uint32_t *head, enum escape kind, int64_t value)
{
	series_word(s, head, (uint32_t)SERIES_ESCAPE);
	series_word(s, head, kind);
	series_word(s, head, (uint32_t)(uint64_t)value);
	series_word(s, head, (uint32_t)((uint64_t)value >> 32));
}

/* Room for the longest entry; what could not be reported before comes first. */
static bool series_make_room(struct series *s, uint32_t *head)
{
	uint32_t until = s->room_until;

	if ((int32_t)(until - s->head) < SERIES_WORDS_MAX)
		until = atomic_load_acquire(&s->tail) + s->mask + 1;
	/* with a pulse every sample comes to series_put_slow() */
	s->room_until = s->pulse ? s->head : until;
	if ((int32_t)(until - s->head) < SERIES_WORDS_MAX)
		return false;
	*head = s->head;
	if (s->lost_open) {
		series_escape(s, head, ESCAPE_LOST, s->lost_open);
		series_word(s, head, (uint32_t)(uint64_t)s->lost_open_max);
		series_word(s, head, (uint32_t)((uint64_t)s->lost_open_max >> 32));
		s->lost_open = 0;
	}
	if (s->missed_open) {
		series_escape(s, head, ESCAPE_MISSED, s->missed_open);
		s->missed_open = 0;
	}
	if (s->time_open_ns != SERIES_UNKNOWN) {
		series_escape(s, head, ESCAPE_TIME, s->time_open_ns);
		s->time_open_ns = SERIES_UNKNOWN;
	}
	if (s->moved_open_ns) {
		series_escape(s, head, ESCAPE_MOVED, s->moved_open_ns);
		s->moved_open_ns = 0;
	}
	return true;
}

static void series_store(struct series *s, int64_t value)
{
	uint32_t head;

	if (!series_make_room(s, &head)) {
		/* of a run with a sample of unknown value the largest stays unknown */
		if (!s->lost_open ||
		    (s->lost_open_max != SERIES_UNKNOWN && value > s->lost_open_max))
			s->lost_open_max = value;
		s->lost_open++;
		return;
	}
	if (value > INT32_MAX || value <= SERIES_ESCAPE) {
		series_escape(s, &head, ESCAPE_WIDE, value);
		value = value > 0 ? INT32_MAX : SERIES_ESCAPE + 1;
	}
	series_word(s, &head, (uint32_t)(int32_t)value);
	atomic_store_release(&s->head, head);
}

void series_put_slow(struct series *s, int64_t value)
{
	if (!s->pulse) {
		series_store(s, value);
		return;
	}
	s->pulse->drive(s->pulse->arg, 1);
	series_store(s, value);
	s->pulse->drive(s->pulse->arg, 0);
}

void series_missed(struct series *s, int64_t count)
{
	uint32_t head;

	s->missed_open += count;
	if (series_make_room(s, &head))
		atomic_store_release(&s->head, head);
}

void series_lost(struct series *s, int64_t count)
{
	uint32_t head;

	s->lost_open_max = SERIES_UNKNOWN;
	s->lost_open += count;
	if (series_make_room(s, &head))
		atomic_store_release(&s->head, head);
}

void series_time(struct series *s, int64_t time_ns)
{
	uint32_t head;

	s->time_open_ns = time_ns;
	if (series_make_room(s, &head))
		atomic_store_release(&s->head, head);
}

void series_moved(struct series *s, int64_t by_ns)
{
	uint32_t head;

	s->moved_open_ns += by_ns;
	if (series_make_room(s, &head))
		atomic_store_release(&s->head, head);
}

int series_bucket(int64_t value)
{
	int high;

	if (value < 0)
		return -1 - series_bucket(-1 - value);
	if (value < 2 << SERIES_SUB_BITS)
		return (int)value;
	high = 63 - __builtin_clzll((unsigned long long)value);
	return ((high - SERIES_SUB_BITS) << SERIES_SUB_BITS) +
	       (int)(value >> (high - SERIES_SUB_BITS));
}

int64_t series_bucket_low(int bucket)
{
	int shift;

	if (bucket < 0)
		return -1 - series_bucket_high(-1 - bucket);
	if (bucket < 2 << SERIES_SUB_BITS)
		return bucket;
	shift = (bucket >> SERIES_SUB_BITS) - 1;
	return (int64_t)(bucket - (shift << SERIES_SUB_BITS)) << shift;
}

int64_t series_bucket_high(int bucket)
{
	int shift;

	if (bucket < 0)
		return -1 - series_bucket_low(-1 - bucket);
	if (bucket < 2 << SERIES_SUB_BITS)
		return bucket;
	shift = (bucket >> SERIES_SUB_BITS) - 1;
	return series_bucket_low(bucket) + (((int64_t)1 << shift) - 1);
}

static void series_count(struct series *s, int64_t value, int64_t index)
{
	struct series_histogram *h = &s->histogram;
	int bucket = series_bucket(value);

	h->buckets[bucket >= 0 ? bucket : SERIES_BUCKETS - 1 - bucket]++;
	if (!h->count || value < h->min)
		h->min = value;
	if (!h->count || value > h->max) {
		h->max = value;
		s->max_is_new = true;
		s->max_index = index;
		s->max_moved_ns = s->moved_ns;
	}
	h->count++;
	if (__builtin_add_overflow(h->sum, value, &h->sum))
		h->sum = value > 0 ? INT64_MAX : INT64_MIN;
}

static int64_t series_value64(const struct series *s, uint32_t at)
{
	uint64_t low = (uint32_t)s->ring[at & s->mask];
	uint64_t high = (uint32_t)s->ring[(at + 1) & s->mask];

	return (int64_t)(high << 32 | low);
}

/* One escape at @tail; the number of words it takes. */
static uint32_t series_drain_escape(struct series *s, uint32_t tail, const struct series_sink *sink)
{
	int64_t value = series_value64(s, tail + 2);
	int64_t max;

	switch ((enum escape)s->ring[(tail + 1) & s->mask]) {
	case ESCAPE_MISSED:
		s->missed += value;
		s->overruns++;
		sink->missed(sink->arg, s, s->next_index - 1, value);
		s->next_index += value;
		return 4;
	case ESCAPE_LOST:
		max = series_value64(s, tail + 4);
		if (!s->lost || max == SERIES_UNKNOWN ||
		    (s->lost_max != SERIES_UNKNOWN && max > s->lost_max))
			s->lost_max = max;
		s->lost += value;
		sink->lost(sink->arg, s, s->next_index, value, max);
		s->next_index += value;
		return 6;
	case ESCAPE_WIDE:
		sink->wide(sink->arg, s, s->next_index, value);
		return 4;
	case ESCAPE_TIME:
		s->time_ns = value;
		return 4;
	case ESCAPE_MOVED:
		s->moved_ns += value;
		return 4;
	}
	abort();
}

int64_t series_drain(struct series *s, const struct series_sink *sink)
{
	uint32_t head = atomic_load_acquire(&s->head);
	uint32_t tail = s->tail;
	int64_t taken = 0;
	bool wide = false;
	int64_t wide_value = 0;

	while (tail != head) {
		uint32_t start = tail & s->mask;
		/* as far as the ring goes before it wraps */
		uint32_t end = head - tail > s->mask + 1 - start ? s->mask + 1 :
								   start + (head - tail);
		uint32_t at = start;

		if (s->ring[start] == SERIES_ESCAPE) {
			wide = s->ring[(tail + 1) & s->mask] == ESCAPE_WIDE;
			if (wide)
				wide_value = series_value64(s, tail + 2);
			tail += series_drain_escape(s, tail, sink);
			continue;
		}
		for (; at < end && s->ring[at] != SERIES_ESCAPE; at++) {
			series_count(s, wide ? wide_value : s->ring[at],
				     s->next_index + (at - start));
			wide = false;
		}
		if (!s->info.interval_ns) {
			s->last_time_ns = s->time_ns;
			if (s->histogram.count == (int64_t)(at - start)) /* the first of all */
				s->info.first_due_ns = s->time_ns;
		}
		sink->samples(sink->arg, s, s->next_index,
			      s->info.interval_ns ? series_due_ns(s, s->next_index, s->moved_ns) :
						    s->time_ns,
			      s->ring + start, at - start);
		s->next_index += at - start;
		taken += at - start;
		tail += at - start;
		atomic_store_release(&s->tail, tail);
	}
	atomic_store_release(&s->tail, tail);
	return taken;
}

int64_t series_percentile(const struct series *s, int per_100k)
{
	const struct series_histogram *h = &s->histogram;
	/* ceil(count * p), without leaving 64 bits */
	uint64_t count = (uint64_t)h->count;
	uint64_t rank = count / 100000 * (uint64_t)per_100k +
			(count % 100000 * (uint64_t)per_100k + 99999) / 100000;
	uint64_t seen = 0;

	if (rank < 1)
		rank = 1;
	for (int bucket = -SERIES_BUCKETS; bucket < SERIES_BUCKETS; bucket++) {
		seen += h->buckets[bucket >= 0 ? bucket : SERIES_BUCKETS - 1 - bucket];
		if (seen >= rank) {
			int64_t high = series_bucket_high(bucket);

			return high < h->max ? high : h->max;
		}
	}
	return h->max;
}

void series_flush(struct series *s)
{
	uint32_t head;

	if ((s->lost_open || s->missed_open || s->moved_open_ns) && series_make_room(s, &head))
		atomic_store_release(&s->head, head);
}
