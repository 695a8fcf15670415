// SPDX-License-Identifier: Apache-2.0
/*
 * Tests of answers.c against a made-up responder whose every answer is known: whatever it delays,
 * drops, merges or doubles, no sample may be another number than the delay of its event. Time is a
 * number here. And of the stamps of log_host.c. Prints TAP.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "measurements/response/log_host.c"
#include "methods/answers.h"
#include "tap.h"

#define MS NSEC_PER_MSEC
#define INTERVAL (10 * MS)
#define EVENTS 300
#define EDGES 4096

/* How the responder answers. */
struct responder {
	const char *name;
	int64_t delay_ns;  /* the shortest delay */
	int64_t spread_ns; /* up to that much more */
	int drops;	   /* answers of 100 that never come */
	int doubles;	   /* answers of 100 that come twice */
	bool serial;	   /* takes the next event after it has answered the one before */
	bool line;    /* an edge only where the level changes; else every answer is a message */
	bool mirrors; /* with one edge: the level of the line, also when it is restored */
};

struct edge {
	int64_t at_ns;
	int level;
};

struct play {
	const struct responder *how;
	bool both;
	unsigned int seed;
	struct answers answers;
	struct edge edges[EDGES]; /* to come, in their order */
	int count;
	int output;
	int64_t free_ns;	  /* when a serial one is done */
	int64_t truth_ns[EVENTS]; /* -1: never answered */
	int64_t sample_ns[EVENTS];
	enum answers_fate fate[EVENTS];
};

static unsigned int play_random(struct play *p, unsigned int below)
{
	p->seed = p->seed * 1664525 + 1013904223;
	return below ? (p->seed >> 8) % below : 0;
}

static void play_edge(struct play *p, int64_t at_ns, int level)
{
	int at = p->count++;

	while (at && p->edges[at - 1].at_ns > at_ns) {
		p->edges[at] = p->edges[at - 1];
		at--;
	}
	p->edges[at] = (struct edge){ at_ns, level };
}

/* What the responder makes of an edge of its input; the delay of its answer, or -1. */
static int64_t play_responds(struct play *p, int64_t now_ns, int level, bool event)
{
	const struct responder *how = p->how;
	int64_t at_ns = how->serial && p->free_ns > now_ns ? p->free_ns : now_ns;
	int answer = p->both || how->mirrors ? level : !p->output;

	at_ns += how->delay_ns + play_random(p, (unsigned int)how->spread_ns);
	if (play_random(p, 100) < (unsigned int)how->drops)
		return -1;
	p->free_ns = at_ns;
	if (how->line && answer == p->output)
		return -1;
	p->output = answer;
	play_edge(p, at_ns, answer);
	if (event && play_random(p, 100) < (unsigned int)how->doubles)
		play_edge(p, at_ns + MS / 10 + play_random(p, 15 * MS), answer);
	return at_ns - now_ns;
}

/* Take the edges until the open event may be closed; when that is. */
static int64_t play_settle(struct play *p, int64_t next_ns)
{
	int64_t until_ns;

	while (until_ns = answers_until_ns(&p->answers, next_ns),
	       p->count && p->edges[0].at_ns <= until_ns) {
		if (next_ns < p->edges[0].at_ns)
			next_ns = p->edges[0].at_ns;
		answers_edge(&p->answers, p->edges[0].at_ns, p->edges[0].level);
		p->count--;
		memmove(p->edges, p->edges + 1, (size_t)p->count * sizeof(p->edges[0]));
	}
	return until_ns;
}

/* As the log host does it. */
static void play(struct play *p)
{
	int64_t due_ns = INTERVAL;

	answers_begin(&p->answers, INTERVAL, 0, p->both);
	for (int i = 0; i < EVENTS; i++) {
		int64_t next_ns = due_ns + INTERVAL, closed_ns;
		int level = p->both ? !(i & 1) : 1;

		answers_raise(&p->answers, due_ns, level);
		p->truth_ns[i] = play_responds(p, due_ns, level, true);
		if (!p->both && p->how->line) {
			closed_ns = play_settle(p, due_ns + INTERVAL / 2);
			answers_put_back(&p->answers, closed_ns);
			if (p->how->mirrors)
				play_responds(p, closed_ns, 0, false);
		}
		for (;;) {
			closed_ns = play_settle(p, next_ns);
			if (closed_ns <= next_ns)
				break;
			next_ns += ((closed_ns - next_ns) / INTERVAL + 1) * INTERVAL;
		}
		p->fate[i] = answers_close(&p->answers, INTERVAL);
		p->sample_ns[i] = p->answers.answer_ns - p->answers.raised_ns;
		due_ns = next_ns;
	}
}

struct outcome {
	int wrong, answered, unanswered, ambiguous, withheld;
	int64_t median_ns;
};

static int by_value(const void *a, const void *b)
{
	int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;

	return one < other ? -1 : one > other;
}

static struct outcome play_outcome(const struct responder *how, bool both, unsigned int seed)
{
	struct play *p = calloc(1, sizeof(*p));
	struct outcome found = { 0 };
	int64_t samples[EVENTS];

	p->how = how;
	p->both = both;
	p->seed = seed;
	play(p);
	for (int i = 0; i < EVENTS; i++) {
		bool answered = p->fate[i] == ANSWERS_ANSWERED;

		if (answered)
			samples[found.answered++] = p->sample_ns[i];
		found.unanswered += p->fate[i] == ANSWERS_UNANSWERED;
		found.ambiguous += p->fate[i] == ANSWERS_AMBIGUOUS;
		found.wrong += answered && p->sample_ns[i] != p->truth_ns[i];
		found.withheld += p->fate[i] != ANSWERS_ANSWERED && p->truth_ns[i] >= 0;
	}
	found.wrong += found.answered != p->answers.answered ||
		       found.unanswered != p->answers.unanswered ||
		       found.ambiguous != p->answers.ambiguous || p->answers.raised != EVENTS;
	qsort(samples, (size_t)found.answered, sizeof(samples[0]), by_value);
	found.median_ns = found.answered ? samples[found.answered / 2] : -1;
	free(p);
	return found;
}

/* Every constant delay up to the timeout is what is measured, with one edge and with both. */
static void test_constant_delays(void)
{
	for (int kind = 0; kind < 4; kind++) {
		bool both = kind & 1, line = kind & 2;
		int wrong = 0;

		for (int ms = 1; ms < 100; ms++) {
			struct responder how = {
				"", ms * MS - MS / 3, 0, 0, 0, false, line, false
			};
			struct outcome found = play_outcome(&how, both, 1);

			wrong += found.wrong || found.answered != EVENTS ||
				 found.median_ns != how.delay_ns;
		}
		tap_check(!wrong, "constant delays of 1 to 99 ms, %s, %s: %d wrong",
			  both ? "both edges" : "one edge", line ? "line" : "messages", wrong);
	}
}

/* What none of them may bring about is a number that is not the event's own. */
static void test_responders(void)
{
	static const struct responder responders[] = {
		{ "spread over three intervals", MS, 30 * MS, 0, 0, false, false, false },
		{ "serial, slower than the events", 13 * MS, 10 * MS, 0, 0, true, false, false },
		{ "small delays, a tenth dropped", MS, MS, 10, 0, false, false, false },
		{ "half dropped", MS, MS, 50, 0, false, false, false },
		{ "late, a tenth dropped", 13 * MS, MS, 10, 0, false, false, false },
		{ "a line, a tenth dropped", MS, MS, 10, 0, false, true, false },
		{ "a late line, a tenth dropped", 23 * MS, MS, 10, 0, false, true, false },
		{ "all dropped", MS, 0, 100, 0, false, false, false },
	};

	for (size_t i = 0; i < sizeof(responders) / sizeof(responders[0]); i++) {
		for (int both = 0; both < 2; both++) {
			struct outcome sum = { 0 };

			for (unsigned int seed = 1; seed <= 50; seed++) {
				struct outcome found = play_outcome(&responders[i], both, seed);

				sum.wrong += found.wrong;
				sum.ambiguous += found.ambiguous;
				sum.withheld += found.withheld;
			}
			tap_check(!sum.wrong && !sum.ambiguous && !sum.withheld,
				  "%s, %s: %d wrong, %d ambiguous, %d withheld", responders[i].name,
				  both ? "both edges" : "one edge", sum.wrong, sum.ambiguous,
				  sum.withheld);
		}
	}
}

/* Beyond the timeout a constant delay gives no sample. */
static void test_longer_than_the_timeout(void)
{
	for (int both = 0; both < 2; both++) {
		int wrong = 0;

		for (int ms = 111; ms < 400; ms++) {
			struct responder how = {
				"", ms * MS - MS / 3, 0, 0, 0, false, false, false
			};
			struct outcome found = play_outcome(&how, both, 1);

			wrong += found.wrong || found.answered;
		}
		tap_check(!wrong, "delays beyond the timeout, %s: %d with a sample",
			  both ? "both edges" : "one edge", wrong);
	}
}

/* Answers that come twice: events that several of them may belong to have no sample. */
static void test_doubles(void)
{
	static const struct responder all = { "", 5 * MS, 0, 0, 100, false, false, false };
	static const struct responder some = { "", 5 * MS, MS, 0, 5, false, false, false };
	struct outcome one = play_outcome(&all, false, 1), both = play_outcome(&all, true, 1);

	tap_check(one.ambiguous > EVENTS / 2 && !one.wrong,
		  "%d of %d events ambiguous with one edge, %d wrong", one.ambiguous, EVENTS,
		  one.wrong);
	tap_check(both.ambiguous && !both.wrong, "%d with both edges, %d wrong", both.ambiguous,
		  both.wrong);
	one = play_outcome(&some, false, 1);
	tap_check(one.ambiguous && !one.wrong, "a few: %d ambiguous, %d wrong", one.ambiguous,
		  one.wrong);
}

/* With one edge, a responder that follows the line back to rest. */
static void test_mirrors(void)
{
	int wrong = 0;

	for (int ms = 1; ms < 60; ms++) {
		struct responder how = { "", ms * MS - MS / 3, 0, 0, 0, false, true, true };
		struct outcome found = play_outcome(&how, false, 1);

		wrong += found.wrong;
		wrong += found.answered != EVENTS;
	}
	tap_check(!wrong, "a line that is mirrored, delays of 1 to 59 ms: %d wrong", wrong);
}

static void test_timeout(void)
{
	struct answers a;

	answers_begin(&a, INTERVAL, 0, true);
	tap_check(a.timeout_ns == 100 * MS, "ten intervals: %lld", (long long)a.timeout_ns);
	answers_begin(&a, MS, 0, true);
	tap_check(a.timeout_ns == 100 * MS, "at least 100 ms: %lld", (long long)a.timeout_ns);
	answers_begin(&a, 300 * MS, 0, true);
	tap_check(a.timeout_ns == 1000 * MS, "at most 1 s: %lld", (long long)a.timeout_ns);
	answers_begin(&a, 3600 * NSEC_PER_SEC, 0, true);
	tap_check(a.timeout_ns == 3600 * NSEC_PER_SEC, "never less than an interval: %lld",
		  (long long)a.timeout_ns);
	answers_begin(&a, INTERVAL, 5 * MS, true);
	tap_check(a.timeout_ns == 5 * MS, "as asked for: %lld", (long long)a.timeout_ns);
	answers_raise(&a, 0, 1);
	answers_edge(&a, 7 * MS, 1);
	tap_check(answers_close(&a, INTERVAL) == ANSWERS_ANSWERED && a.late == 1,
		  "an answer after the timeout is late, and a sample");
}

static void log_host_hears(struct log_host *h, bool mark, int level, int64_t at_ns)
{
	const struct line_event event = { .stamp_ns = at_ns, .level = level, .mark = mark };

	log_host_answer(h, &event);
}

/* One event with one edge, whose line moves at @driven_ns. Its own edge of MARK may be lost: its
 * sample. */
static int64_t log_host_sample_ns(struct log_host *h, bool marked, int64_t driven_ns)
{
	const struct series_info info = { .interval_ns = INTERVAL };
	struct series series;
	struct step step = { .series = &series };
	int64_t sample_ns;

	series_init(&series, 0, &info, 64);
	*h = (struct log_host){ .line.pins.marked = true };
	answers_begin(&h->answers, INTERVAL, 0, false);
	answers_raise(&h->answers, 100 * MS, 1);
	if (marked)
		log_host_hears(h, true, 1, driven_ns);
	log_host_hears(h, false, 1, driven_ns + 2 * MS);
	answers_put_back(&h->answers, driven_ns + 4 * MS);
	log_host_hears(h, true, 0, driven_ns + 5 * MS);
	log_host_close_event(&step, h, INTERVAL);
	sample_ns = series.ring[0];
	series_free(&series);
	return sample_ns;
}

static void test_marks(void)
{
	struct log_host h;

	tap_check(log_host_sample_ns(&h, true, 101 * MS) == 2 * MS && !h.unmarked,
		  "an event that MARK stamped");
	tap_check(log_host_sample_ns(&h, false, 101 * MS) == 3 * MS && h.unmarked == 1,
		  "the line's return to rest does not stamp the event");
	tap_check(log_host_sample_ns(&h, true, 115 * MS) == 2 * MS && !h.answers.late,
		  "an answer in time to an event that the log host drove late");
}

/* A peer that answers each event after 5 ms. */
static int64_t prompt_answer_ns; /* 0: none is to come */

static int prompt_drive(struct line *line, int level)
{
	prompt_answer_ns = clock_now_ns(CLOCK_MONOTONIC) + 5 * MS;
	return 0;
}

static int prompt_wait(struct line *line, int64_t until_ns, struct line_event *event)
{
	if (!prompt_answer_ns || clock_now_ns(CLOCK_MONOTONIC) < prompt_answer_ns) {
		clock_rest(MS);
		return 0;
	}
	*event = (struct line_event){ .stamp_ns = prompt_answer_ns, .level = 1 };
	prompt_answer_ns = 0;
	return 1;
}

/* The log host raises an event 2 ms before the next one is due. */
static void test_held_up(void)
{
	static const struct line_kind prompt = { .messages = true,
						 .wait = prompt_wait,
						 .drive = prompt_drive };
	const int64_t interval_ns = 300 * MS;
	const struct series_info info = { .interval_ns = interval_ns };
	struct log_host h = { .line.kind = &prompt, .interval_ns = interval_ns, .dither = -1 };
	struct series series;
	struct step step = { .series = &series };
	int64_t next_ns = clock_now_ns(CLOCK_MONOTONIC) + 2 * MS, first_next_ns = next_ns;
	bool closed;

	series_init(&series, 0, &info, 64);
	answers_begin(&h.answers, interval_ns, 0, true);
	closed = log_host_event(&step, &h, 0, next_ns - interval_ns, &next_ns);
	tap_check(closed && h.answers.answered == 1 && !h.answers.late,
		  "an answer in time to an event that the log host raised late: %lld late",
		  (long long)h.answers.late);
	tap_check(next_ns == first_next_ns + interval_ns && !h.held_back && h.held_up == 1,
		  "the log host, not the answer, delays the next one: %lld held back",
		  (long long)h.held_back);
	series_free(&series);
}

int main(void)
{
	test_timeout();
	test_constant_delays();
	test_responders();
	test_longer_than_the_timeout();
	test_doubles();
	test_mirrors();
	test_marks();
	test_held_up();
	return tap_end();
}
