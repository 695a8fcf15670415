// SPDX-License-Identifier: Apache-2.0
/* The line that shows samples: as many pulses as samples, whatever other records
 * there are, and none without samples. */
#include <errno.h>
#include <string.h>

#include "catalogue.h"
#include "drained.h"
#include "run/mark.h"
#include "run/measurement.h"
#include "tap.h"

#define EDGES_MAX 10000

struct edges {
	int levels[EDGES_MAX];
	int count;
	int error;
};

static int edges_drive(struct line *line, int level)
{
	struct edges *edges = line->state;

	if (edges->count < EDGES_MAX)
		edges->levels[edges->count++] = level;
	return edges->error;
}

static const struct line_kind edges_kind = { .name = "edges", .drive = edges_drive };

static struct mark edges_mark(struct edges *edges)
{
	*edges = (struct edges){ .count = 0 };
	return (struct mark){ .line = { .kind = &edges_kind, .state = edges } };
}

static void pulse_mark(void *mark, int level)
{
	mark_drive(mark, level);
}

/* Up, down, up, …: so many pulses. */
static bool pulses(const struct edges *edges, int count)
{
	bool good = edges->count == 2 * count;

	for (int i = 0; i < edges->count; i++)
		good &= edges->levels[i] == (i % 2 == 0);
	return good;
}

/* The ring's position wraps on the way. */
static void test_samples(uint32_t position)
{
	const struct series_info info = { .name = "x", .unit = "ns", .companion = -1 };
	struct edges edges;
	struct mark mark = edges_mark(&edges);
	const struct series_pulse pulse = { .drive = pulse_mark, .arg = &mark };
	struct series s;
	int64_t found = 0;
	int put = 0;

	if (series_init(&s, 0, &info, 256)) {
		tap_check(false, "no memory");
		return;
	}
	s.head = s.tail = s.room_until = position;
	series_mark(&s, &pulse);
	for (int i = 0; i < 2000; i++) {
		series_put(&s, i % 97 == 0 ? INT64_MAX / 2 : i);
		put++;
		if (i % 5 == 0)
			series_missed(&s, 3);
		if (i % 7 == 0)
			series_lost(&s, 2);
		if (i % 11 == 0)
			series_time(&s, i);
		if (i % 40 == 39)
			found += drained_from(&s).samples;
	}
	tap_check(pulses(&edges, put), "a pulse for each of %d samples, from %u on: %d edges", put,
		  position, edges.count);
	found += drained_from(&s).samples;
	tap_check(s.histogram.count + s.lost >= put && found > put / 2,
		  "and each is in the series, or counted as lost");
	series_free(&s);
}

static void test_no_room(void)
{
	const struct series_info info = { .name = "x", .unit = "ns", .companion = -1 };
	struct edges edges;
	struct mark mark = edges_mark(&edges);
	const struct series_pulse pulse = { .drive = pulse_mark, .arg = &mark };
	struct series s;
	int put = 0;

	if (series_init(&s, 0, &info, 64)) {
		tap_check(false, "no memory");
		return;
	}
	series_mark(&s, &pulse);
	for (; s.lost_open < 10 && put < EDGES_MAX / 2; put++)
		series_put(&s, put);
	tap_check(s.lost_open == 10 && pulses(&edges, put),
		  "a sample without room in the ring is marked, too");
	series_free(&s);
}

static void test_spans(void)
{
	struct edges edges;
	struct mark mark = edges_mark(&edges);
	int64_t from_ns = mark_from_ns(&mark), to_ns = mark_to_ns(&mark);

	tap_check(!edges.count && to_ns >= from_ns, "off: nothing is driven");
	mark.on = true;
	from_ns = mark_from_ns(&mark);
	tap_check(edges.count == 1, "on: up with the stamp at the start");
	to_ns = mark_to_ns(&mark);
	tap_check(pulses(&edges, 1) && to_ns >= from_ns, "down with the one at the end");
	tap_check(!mark.error, "no error");
	edges.error = -EIO;
	mark_from_ns(&mark);
	edges.error = 0;
	mark_to_ns(&mark);
	tap_check(mark.error == EIO, "a write that fails is not forgotten");
}

static void test_what_marks(void)
{
	int none = 0, bad = 0;

	for (int i = 0; catalogue_measurements[i]; i++) {
		const struct mark_way *mark = catalogue_measurements[i]->mark;

		none += !mark;
		bad += mark && (!mark->rises[0] || !mark->falls[0]);
	}
	tap_check(none > 0 && !bad, "what is marked says when the line rises and falls");
}

static void test_notation(void)
{
	static const char *const wrong[] = { "gpio:17", "loopback:gpiochip0:1:2", "net:7", "17",
					     "" };
	const struct line_how how = { .marks = true };
	bool good = true;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct message why = { 0 };
		struct line line;

		good &= line_parse(&line, wrong[i], how, &why) == -EINVAL &&
			strstr(why.remedy, "gpio:CHIP:LINE");
		line_close(&line);
	}
	tap_check(good, "a line to mark on is gpio:CHIP:LINE, and nothing else");
}

int main(void)
{
	test_samples(0);
	test_samples(UINT32_MAX - 1000);
	test_samples(INT32_MAX - 1000U);
	test_no_room();
	test_spans();
	test_what_marks();
	test_notation();
	return tap_end();
}
