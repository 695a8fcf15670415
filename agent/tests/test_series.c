// SPDX-License-Identifier: Apache-2.0
/* Tests of series.c: the ring against a model and under two threads, the histogram against brute
 * force. Prints TAP. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "drained.h"
#include "tap.h"

static const struct series_info grid_info = { .name = "test", .interval_ns = 10, .companion = -1 };

/* A small generator of its own, so that every run is the same (Marsaglia's xorshift, 2003). */
static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* What came out: one entry for each grid point. */
enum point_kind { POINT_NONE, POINT_SAMPLE, POINT_MISSED, POINT_LOST };

#define POINTS 400000

static struct {
	uint8_t kind[POINTS];
	int64_t value[POINTS];
	int64_t wide_index;
	int64_t wide_value;
	int64_t order_errors;
	int64_t next;
	int64_t lost_max;
} seen;

static void seen_point(int64_t index, enum point_kind kind, int64_t value)
{
	if (index != seen.next || index >= POINTS) {
		seen.order_errors++;
		return;
	}
	seen.kind[index] = kind;
	seen.value[index] = index == seen.wide_index ? seen.wide_value : value;
	seen.next++;
}

static void seen_samples(void *arg, struct series *s, int64_t index, int64_t due_ns,
			 const int32_t *values, size_t count)
{
	if (due_ns != s->info.first_due_ns + index * s->info.interval_ns)
		seen.order_errors++;
	for (size_t i = 0; i < count; i++)
		seen_point(index + (int64_t)i, POINT_SAMPLE, values[i]);
}

static void seen_missed(void *arg, struct series *s, int64_t index, int64_t count)
{
	for (int64_t i = 1; i <= count; i++)
		seen_point(index + i, POINT_MISSED, 0);
}

static void seen_lost(void *arg, struct series *s, int64_t index, int64_t count, int64_t max)
{
	if (max > seen.lost_max)
		seen.lost_max = max;
	for (int64_t i = 0; i < count; i++)
		seen_point(index + i, POINT_LOST, 0);
}

static void seen_wide(void *arg, struct series *s, int64_t index, int64_t value)
{
	seen.wide_index = index;
	seen.wide_value = value;
}

static const struct series_sink sink = { seen_samples, seen_missed, seen_lost, seen_wide, NULL };

/* A series on a grid, of which nothing was seen yet. */
static void begin(struct series *s, size_t words)
{
	memset(&seen, 0, sizeof(seen));
	seen.wide_index = -1;
	seen.lost_max = INT64_MIN;
	series_init(s, 0, &grid_info, words);
}

static int64_t random_value(uint64_t *state)
{
	switch (random_next(state) % 16) {
	case 0:
		return (int64_t)random_next(state); /* any 64 bits */
	case 1:
		return SERIES_ESCAPE;
	case 2:
		return (int64_t)INT32_MAX + 1;
	case 3:
		return -(int64_t)(random_next(state) % 5000);
	default:
		return (int64_t)(random_next(state) % 200000);
	}
}

/* As a ring is after so many words: its counters turn over after 2^32 of them. */
static void start_at(struct series *s, uint32_t words)
{
	s->head = words;
	s->tail = words;
	s->room_until = words + s->mask + 1;
}

/* Puts, missed periods and drains in random order: what comes out is what went in. */
static void test_model(uint32_t start)
{
	int64_t *model = calloc(POINTS, sizeof(*model));
	int64_t points = 0, wrong = 0, sum = 0, missed = 0;
	uint64_t state = 88172645463325252ULL;
	struct series s;

	begin(&s, 1024);
	start_at(&s, start);
	s.info.first_due_ns = 12345;
	while (points < POINTS - 2000) {
		int64_t value = random_value(&state);

		if (random_next(&state) % 50 == 0 && points) {
			int64_t count = 1 + (int64_t)(random_next(&state) % 9);

			series_missed(&s, count);
			for (int64_t i = 0; i < count; i++)
				model[points++] = INT64_MIN;
			missed += count;
		}
		model[points++] = value == INT64_MIN ? value + 1 : value;
		series_put(&s, model[points - 1]);
		if (random_next(&state) % 100 == 0)
			series_drain(&s, &sink);
		/* never so many between two drains that the ring is full */
		if ((uint32_t)(s.head - s.tail) > 900)
			series_drain(&s, &sink);
	}
	series_drain(&s, &sink);
	for (int64_t i = 0; i < points; i++) {
		bool sample = model[i] != INT64_MIN;

		wrong += seen.kind[i] != (sample ? POINT_SAMPLE : POINT_MISSED) ||
			 (sample && seen.value[i] != model[i]);
		sum += sample;
	}
	tap_check(seen.next == points, "from word %u on every grid point comes out: %lld", start,
		  (long long)points);
	tap_check(!seen.order_errors && !wrong, "in order, with its value, wide ones whole");
	tap_check(s.histogram.count == sum && s.missed == missed && s.lost == 0,
		  "counters agree with the model");
	free(model);
	series_free(&s);
}

/* A ring that is never drained loses, counts, keeps the maximum, and continues afterwards. */
static void test_loss(uint32_t start)
{
	struct series s;
	int64_t sampled = 0, missed = 0, lost = 0;

	begin(&s, 1024);
	start_at(&s, start);
	for (int i = 0; i < 5000; i++) {
		series_put(&s, i == 4000 ? 777777 : i);
		if (i == 4500)
			series_missed(&s, 7);
	}
	series_drain(&s, &sink);
	series_put(&s, 42);
	series_drain(&s, &sink);
	series_flush(&s);
	series_drain(&s, &sink);
	for (int64_t i = 0; i < seen.next; i++) {
		sampled += seen.kind[i] == POINT_SAMPLE;
		missed += seen.kind[i] == POINT_MISSED;
		lost += seen.kind[i] == POINT_LOST;
	}
	tap_check(sampled + lost == 5001 && missed == 7 && lost > 3000 && !seen.order_errors,
		  "5001 samples = %lld kept + %lld lost, and 7 missed periods", (long long)sampled,
		  (long long)lost);
	tap_check(seen.lost_max == 777777 && s.lost_max == 777777,
		  "the largest lost sample is known");
	tap_check(s.lost == lost && seen.value[seen.next - 1] == 42,
		  "samples after the loss are kept");
	series_free(&s);
}

static void test_loss_at_the_end(void)
{
	struct series s;

	begin(&s, 1024);
	for (int i = 0; i < 3000; i++)
		series_put(&s, i);
	series_drain(&s, &sink);
	tap_check(s.lost == 0, "what was lost last is not yet said by the drain");
	series_flush(&s);
	series_drain(&s, &sink);
	tap_check(s.histogram.count + s.lost == 3000 && seen.lost_max == 2999, "the flush says it");
	series_free(&s);
}

/* What is lost without a value and what is lost with one make up a run without a maximum. */
static void test_loss_unknown(void)
{
	for (int known_first = 0; known_first < 2; known_first++) {
		struct series s;

		begin(&s, 1024);
		while (!s.lost_open)
			series_put(&s, 100);
		if (known_first) {
			series_lost(&s, 2);
		} else {
			s.lost_open = 0;
			series_lost(&s, 2);
			series_put(&s, 100);
		}
		series_drain(&s, &sink);
		series_flush(&s);
		series_drain(&s, &sink);
		tap_check(s.lost == 3 && seen.lost_max == SERIES_UNKNOWN,
			  "a run of three lost samples has no maximum, the one with a value %s",
			  known_first ? "first" : "last");
		series_free(&s);
	}
}

/* Nor has the series, whichever run was first. */
static void test_losses_unknown(void)
{
	for (int known_first = 0; known_first < 2; known_first++) {
		struct series s;

		begin(&s, 1024);
		for (int i = 0; i < 2; i++) {
			if (i == known_first)
				series_lost(&s, 2);
			while (i != known_first && !s.lost_open)
				series_put(&s, 100);
			series_flush(&s);
			series_drain(&s, &sink);
			series_put(&s, 1);
			series_drain(&s, &sink);
		}
		tap_check(s.lost == 3 && s.lost_max == SERIES_UNKNOWN,
			  "the maximum of lost samples is unknown, the run with one %s",
			  known_first ? "first" : "last");
		series_free(&s);
	}
}

/*
 * Every entry at every place of the ring, its end and that of the counters included, with every
 * room that may be left: an escape is never cut, nor put over what was not taken out yet.
 */
static void test_every_place(void)
{
	int64_t wrong = 0, wide = 0;

	for (uint32_t place = 0; place < 1024 + 64; place++) {
		uint32_t filled = 990 + place % 40;
		struct series s;

		begin(&s, 1024);
		start_at(&s, UINT32_MAX - 1024 - 32 + place);
		for (uint32_t i = 0; i < filled; i++)
			series_put(&s, (int64_t)i);
		series_missed(&s, 5);
		series_put(&s, 1LL << 40);
		series_put(&s, -7);
		wrong += s.head - s.tail > 1024;
		series_drain(&s, &sink);
		series_put(&s, -(1LL << 40)); /* says what was lost and missed, if it was */
		series_drain(&s, &sink);
		wide += s.histogram.max == 1LL << 40 || s.lost_max == 1LL << 40;
		wrong += s.histogram.count + s.lost != filled + 3 || s.missed != 5;
		wrong += s.histogram.min != -(1LL << 40) || s.tail != s.head;
		wrong += seen.order_errors || seen.next != filled + 3 + 5;
		wrong += seen.value[seen.next - 1] != -(1LL << 40);
		series_free(&s);
	}
	tap_check(!wrong && wide == 1024 + 64, "any entry at any place, with any room");
}

struct busy {
	int64_t put; /* samples so far */
	int64_t missed;
};

/* Samples of every kind, told apart by their value. */
static void busy_put(struct busy *busy, struct series *s, int count)
{
	for (int i = 0; i < count; i++) {
		int64_t number = busy->put++;

		if (number % 5 == 0) {
			series_missed(s, 2);
			busy->missed += 2;
		}
		series_put(s, number % 3 ? number : (1LL << 40) + number);
	}
}

/* The measuring thread continues while a block is being taken out: there is room for some. */
static void busy_samples(void *arg, struct series *s, int64_t index, int64_t due_ns,
			 const int32_t *values, size_t count)
{
	struct busy *busy = arg;

	seen_samples(NULL, s, index, due_ns, values, count);
	busy_put(busy, s, 1 + (int)(index % 7));
}

/* A ring that is nearly full all the time, with any room from none to a little. */
static void test_little_room(void)
{
	struct busy busy = { 0 };
	const struct series_sink filling = { busy_samples, seen_missed, seen_lost, seen_wide,
					     &busy };
	int64_t kept = 0, wrong = 0, before = -1;
	struct series s;

	begin(&s, 1024);
	start_at(&s, UINT32_MAX - 50000);
	busy_put(&busy, &s, 1200);
	for (int i = 0; i < 300; i++)
		series_drain(&s, &filling);
	while (s.tail != s.head || s.lost_open || s.missed_open) {
		series_drain(&s, &sink);
		series_flush(&s);
	}
	for (int64_t i = 0; i < seen.next; i++) {
		int64_t number = seen.value[i] & ((1LL << 40) - 1);

		if (seen.kind[i] != POINT_SAMPLE)
			continue;
		kept++;
		wrong += number <= before || seen.value[i] != number + (number % 3 ? 0 : 1LL << 40);
		before = number;
	}
	tap_check(!wrong && !seen.order_errors, "with little room nothing is put over another");
	tap_check(kept + s.lost == busy.put && s.missed == busy.missed && s.lost > 0,
		  "%lld kept and %lld lost are all that were put", (long long)kept,
		  (long long)s.lost);
	series_free(&s);
}

/* A series without a grid: the time of a block precedes it. */
static void test_times(void)
{
	static const struct series_info info = { .name = "test", .companion = -1 };
	struct series s;

	series_init(&s, 0, &info, 1024);
	start_at(&s, UINT32_MAX - 3); /* the time itself stands across the turn */
	series_time(&s, 0x123456789abcdef0);
	series_put(&s, 1);
	series_drain(&s, &sink);
	tap_check(s.time_ns == 0x123456789abcdef0 && s.histogram.count == 1,
		  "a time of 64 bits comes out whole");
	series_touch(&s);
	tap_check(s.ring[(UINT32_MAX - 3) & s.mask] == SERIES_ESCAPE,
		  "touching the ring leaves it as it is");
	series_free(&s);
}

/* A time for which the ring has no room holds for the samples that follow the loss. */
static void test_time_after_loss(void)
{
	static const struct series_info info = { .name = "test", .companion = -1 };
	struct drained d;
	struct series s;

	series_init(&s, 0, &info, 1024);
	series_time(&s, 500); /* no sample has it */
	series_time(&s, 1000);
	for (int i = 0; i < 2000; i++)
		series_put(&s, i);
	series_time(&s, 2000);
	d = drained_from(&s);
	tap_check(d.blocks && d.due_ns[d.blocks - 1] == 1000,
		  "a full ring keeps the time of its samples");
	series_put(&s, 1);
	d = drained_from(&s);
	tap_check(s.lost && d.due_ns[0] == 2000, "a time is not lost with the samples before it");
	series_time(&s, 3000); /* no sample has it */
	drained_from(&s);
	tap_check(s.info.first_due_ns == 1000 && s.last_time_ns == 2000,
		  "the first and the last sample's time are known: %lld and %lld",
		  (long long)s.info.first_due_ns, (long long)s.last_time_ns);
	series_free(&s);
}

/* A grid that moves: what follows is due later, after a loss as well. */
static void test_grid_moved(void)
{
	struct drained d;
	struct series s;

	series_init(&s, 0, &grid_info, 1024);
	s.info.first_due_ns = 100;
	series_put(&s, 1);
	series_moved(&s, 7);
	series_put(&s, 5);
	series_missed(&s, 2);
	series_moved(&s, 20);
	series_moved(&s, 30);
	series_put(&s, 3);
	d = drained_from(&s);
	tap_check(d.blocks == 3 && d.due_ns[0] == 100, "a block ends where the grid moves");
	tap_check(d.due_ns[1] == 117 && d.due_ns[2] == 100 + 4 * 10 + 57,
		  "samples are due on the moved grid, by index: %lld, %lld", (long long)d.due_ns[1],
		  (long long)d.due_ns[2]);
	tap_check(series_due_ns(&s, s.max_index, s.max_moved_ns) == 117,
		  "the maximum is due on the grid as it was then");
	while (!s.lost_open)
		series_put(&s, 4);
	series_moved(&s, 1000);
	series_put(&s, 4);
	drained_from(&s);
	series_put(&s, 4);
	d = drained_from(&s);
	tap_check(s.lost == 2 && d.blocks == 1 &&
			  d.due_ns[0] == 100 + (s.next_index - 1) * 10 + 1057,
		  "a move is not lost with the samples around it");
	while (!s.lost_open)
		series_put(&s, 4);
	series_moved(&s, 1000);
	drained_from(&s);
	series_flush(&s);
	drained_from(&s);
	tap_check(s.moved_ns == 2057, "the flush says it");
	series_free(&s);
}

#define STRESS_SAMPLES 300000

static void *stress_producer(void *arg)
{
	struct series *s = arg;

	for (int i = 0; i < STRESS_SAMPLES; i++) {
		series_put(s, i);
		if (i % 1000 == 999)
			series_missed(s, 3);
	}
	return NULL;
}

/* Two threads, a small ring: nothing is invented, doubled or out of order. */
static void test_threads(void)
{
	int64_t samples = 0, lost = 0, missed = 0, wrong = 0, put = -1;
	pthread_t producer;
	struct series s;

	begin(&s, 1024);
	start_at(&s, UINT32_MAX - STRESS_SAMPLES / 2);
	pthread_create(&producer, NULL, stress_producer, &s);
	for (int i = 0; i < 3000; i++)
		series_drain(&s, &sink);
	pthread_join(producer, NULL);
	series_drain(&s, &sink);
	series_flush(&s);
	series_drain(&s, &sink);
	for (int64_t i = 0; i < seen.next; i++) {
		samples += seen.kind[i] == POINT_SAMPLE;
		lost += seen.kind[i] == POINT_LOST;
		missed += seen.kind[i] == POINT_MISSED;
		if (seen.kind[i] != POINT_SAMPLE)
			continue;
		wrong += seen.value[i] <= put;
		put = seen.value[i];
	}
	tap_check(samples + lost == STRESS_SAMPLES && missed == STRESS_SAMPLES / 1000 * 3,
		  "%d samples are kept or counted as lost", STRESS_SAMPLES);
	tap_check(!wrong && !seen.order_errors && samples > 0, "kept ones come in order");
	series_free(&s);
}

/* The bucket by the page's words, computed another way: by counting up through the octaves. */
static int64_t bucket_brute_force(int64_t value)
{
	uint64_t low = 256, width = 2;
	int64_t bucket = 256;

	if (value < 256)
		return value;
	for (; (uint64_t)value >= 2 * low; low *= 2, width *= 2)
		bucket += 128;
	return bucket + (int64_t)(((uint64_t)value - low) / width);
}

static void test_buckets(void)
{
	uint64_t state = 362436069ULL;
	int64_t wrong = 0, wide = 0;
	int previous;

	for (int i = 0; i < 200000; i++) {
		int64_t value = (int64_t)(random_next(&state) >> (1 + random_next(&state) % 63));
		int bucket = series_bucket(value);
		int64_t low = series_bucket_low(bucket), high = series_bucket_high(bucket);

		wrong += bucket != bucket_brute_force(value);
		wrong += value < low || value > high;
		wrong += series_bucket(low) != bucket || series_bucket(high) != bucket;
		wrong += series_bucket(-1 - value) != -1 - bucket;
		wrong += series_bucket_low(-1 - bucket) != -1 - high;
		wide += (high - low) > low / 128;
	}
	tap_check(!wrong, "buckets agree with brute force, and their ends with themselves");
	tap_check(!wide, "no bucket is wider than 1/128 of its values");
	tap_check(series_bucket(INT64_MAX) == SERIES_BUCKETS - 1 &&
			  series_bucket(INT64_MIN) == -SERIES_BUCKETS,
		  "the outermost values have the outermost buckets");
	previous = series_bucket(-5000);
	for (int64_t value = -4999; value < 5000; value++) {
		int bucket = series_bucket(value);

		wrong += bucket != previous && bucket != previous + 1;
		previous = bucket;
	}
	tap_check(!wrong, "buckets follow each other without a gap");
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void test_percentiles(void)
{
	static const int asked[] = { 1, 1000, 50000, 90000, 99000, 99900, 99999, 100000 };
	static int64_t values[20000];
	uint64_t state = 521288629ULL;
	int64_t wrong = 0, sum = 0;
	struct series s;

	begin(&s, 32768);
	for (int i = 0; i < 20000; i++) {
		values[i] = (int64_t)(random_next(&state) % 100000) - 300;
		sum += values[i];
		series_put(&s, values[i]);
	}
	series_drain(&s, &sink);
	qsort(values, 20000, sizeof(values[0]), compare);
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		int64_t exact = values[(20000LL * asked[i] + 99999) / 100000 - 1];
		int64_t got = series_percentile(&s, asked[i]);

		wrong += got < exact || got > exact + (exact < 0 ? 1 : exact) / 128 + 1;
	}
	tap_check(!wrong, "percentiles lie in the bucket of the exact ones");
	tap_check(s.histogram.min == values[0] && s.histogram.max == values[19999] &&
			  s.histogram.sum == sum,
		  "minimum, maximum and sum are exact");
	series_free(&s);
}

int main(void)
{
	test_model(0);
	test_model(UINT32_MAX - 1000);
	test_loss(0);
	test_loss(UINT32_MAX - 2000);
	test_every_place();
	test_little_room();
	test_times();
	test_time_after_loss();
	test_grid_moved();
	test_loss_at_the_end();
	test_loss_unknown();
	test_losses_unknown();
	test_threads();
	test_buckets();
	test_percentiles();
	return tap_end();
}
