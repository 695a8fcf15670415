// SPDX-License-Identifier: Apache-2.0
/*
 * Response to an external event by a thread in user space: step 2 of the path of a sample. The line
 * is open before the stream's header is written, so a reader of the header may raise events.
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "measurements/response/response.h"

/* This many events, each so close to the last answer, leave other threads no time. Then the thread
 * pauses, and events that the kernel has no room for during the pause are counted as lost. */
#define RESPONSE_CLOSE_NS (50 * NSEC_PER_USEC)
#define RESPONSE_CLOSE_MAX 1000
#define RESPONSE_PAUSE_NS NSEC_PER_MSEC
/* Longest block of a series that may have a single time. */
#define RESPONSE_BLOCK_NS (10 * NSEC_PER_MSEC)

struct response_thread {
	struct response *response;
	int wake;   /* numbers of the series; -1: not measured */
	int answer; /* or turn-around */
	int64_t pauses;
};

/* A task of a core sleeps there. */
static void response_rest(const struct step *step, int64_t ns)
{
	if (step->core == &core_linux)
		step_sleep_until(step, clock_now_ns(CLOCK_MONOTONIC) + ns);
	else
		step->core->rest(ns);
}

/* The measuring loop; each variant is a function of its own, with nothing to be chosen in it. */
static inline __attribute__((always_inline)) void response_answer(struct worker *worker,
								  bool stamped, bool delays)
{
	struct response_thread *t = worker->state;
	struct response *r = t->response;
	struct step *step = worker->step;
	struct series *wake = stamped ? &step->series[t->wake] : NULL;
	struct series *answer = &step->series[t->answer];
	int64_t before_ns = 0, block_ns = 0, until_delay = r->delay_every;
	int output = 0, last = -1, close = 0;

	while (!step_stopped(step)) {
		struct line_event event;
		int64_t after_ns;
		int got = line_wait(&r->line, LINE_FOREVER, &event);

		if (got == 0 || got == -EINTR)
			continue;
		if (got < 0) {
			r->error = -got;
			r->failing = "waited on";
			return;
		}
		if (delays && --until_delay == 0) {
			response_rest(step, r->delay_ns);
			until_delay = r->delay_every;
		}
		output = r->toggles ? !output : event.level;
		got = line_drive(&r->line, output);
		after_ns = clock_now_ns(CLOCK_MONOTONIC);
		r->seen++;
		r->lost += event.lost;
		r->repeated += !r->toggles && event.level == last;
		last = event.level;
		if (got) {
			r->error = -got;
			r->failing = "driven";
			return;
		}
		r->answered++;
		if (event.seen_ns - block_ns >= RESPONSE_BLOCK_NS) {
			block_ns = event.seen_ns;
			if (stamped)
				series_time(wake, block_ns - step->start_ns);
			series_time(answer, block_ns - step->start_ns);
		}
		if (__builtin_expect(event.lost, 0)) {
			if (stamped)
				series_lost(wake, event.lost);
			series_lost(answer, event.lost);
		}
		if (stamped) {
			series_put(wake, event.seen_ns - event.stamp_ns);
			series_put(answer, after_ns - event.stamp_ns);
		} else {
			series_put(answer, after_ns - event.seen_ns);
		}
		close = event.seen_ns - before_ns < RESPONSE_CLOSE_NS ? close + 1 : 0;
		before_ns = after_ns;
		if (__builtin_expect(close == RESPONSE_CLOSE_MAX, 0)) {
			step->core->rest(RESPONSE_PAUSE_NS);
			t->pauses++;
			close = 0;
		}
		if (r->seen == r->samples)
			return;
	}
}

static void response_loop(struct worker *worker)
{
	response_answer(worker, true, false);
}

static void response_loop_delayed(struct worker *worker)
{
	response_answer(worker, true, true);
}

static void response_loop_unstamped(struct worker *worker)
{
	response_answer(worker, false, false);
}

static void response_loop_unstamped_delayed(struct worker *worker)
{
	response_answer(worker, false, true);
}

static int response_user_setup(struct step *step, struct response *r)
{
	bool stamped = r->line.kind->stamps;
	struct response_thread *t = step_alloc(step, 1, sizeof(*t));
	int worker, err;

	if (!t)
		return -ENOMEM;
	r->state = t;
	t->response = r;
	t->wake = -1;
	err = line_open(&r->line, &step->msg);
	if (err)
		return err == -ENODEV ? STEP_SKIPPED : err;
	if (stamped)
		worker = step_add_worker(step,
					 r->delay_every ? response_loop_delayed : response_loop, t,
					 r->cpu, r->priority);
	else
		worker = step_add_worker(step,
					 r->delay_every ? response_loop_unstamped_delayed :
							  response_loop_unstamped,
					 t, r->cpu, r->priority);
	if (worker < 0)
		return worker;
	if (stamped)
		t->wake = response_add_series(step, r, "wake-up", worker, 0);
	if (stamped && t->wake < 0)
		return t->wake;
	t->answer = response_add_series(step, r, stamped ? "answer" : "turn-around", worker, 0);
	return t->answer < 0 ? t->answer : 0;
}

static void response_user_collect(struct step *step, struct response *r)
{
	response_end_in_time(step, r);
}

static int response_user_finish(struct step *step, struct response *r)
{
	const struct response_thread *t = r->state;
	char text[160];

	if (t->pauses) {
		snprintf(text, sizeof(text),
			 "events came faster than they could be answered: %lld pause%s of 1 ms",
			 (long long)t->pauses, t->pauses == 1 ? "" : "s");
		step_message(step, step->duration_ns, text);
	}
	if (r->line.foreign) {
		snprintf(text, sizeof(text),
			 "%lld time%s something other than an event arrived on the line",
			 (long long)r->line.foreign, r->line.foreign == 1 ? "" : "s");
		step_message(step, step->duration_ns, text);
	}
	return 0;
}

const struct response_way response_user = {
	.setup = response_user_setup,
	.collect = response_user_collect,
	.finish = response_user_finish,
};
