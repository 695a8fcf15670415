// SPDX-License-Identifier: Apache-2.0
/*
 * Response to an external event on a single board, its output wired to its input: one thread raises the
 * events, another of higher priority waits for them. The next event is held back until the last one
 * has come back or timed out. Step 2 of the path of a sample.
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "measurements/response/response.h"
#include "methods/answers.h"
#include "methods/grid.h"

/* Events whose time is kept: one may be answered so many later. */
#define LOOPBACK_EVENTS 64
/* Longest block of wake-ups that may have a single time. */
#define LOOPBACK_BLOCK_NS (10 * NSEC_PER_MSEC)
/* Number of events on a silent line after which the agent stops waiting for an answer. */
#define LOOPBACK_SILENT 8

struct loopback {
	struct response *response;
	struct step *step;
	int series;	 /* numbers */
	int wake;	 /* -1: the kernel stamps no edges */
	int dither;	 /* -1: none */
	uint32_t raised; /* events, modulo 2^32 */
	/* written before `raised` says so */
	int64_t raised_ns[LOOPBACK_EVENTS];
	int64_t moved_ns[LOOPBACK_EVENTS]; /* by which the grid was moved until then */

	/* of the thread that waits */
	int64_t next;	   /* the event expected to come back */
	uint32_t came;	   /* the same, modulo 2^32, for the thread that raises events */
	int64_t late;	   /* took longer than an interval */
	int64_t ambiguous; /* edges of the last event or of an earlier one */
	int64_t block_ns;  /* of the wake-ups since then, which have no grid */
	int64_t said_ns;   /* part of the moves that the series of responses has */

	/* of the thread that raises; valid once it has ended */
	int64_t events;
	int64_t held_up;
	int64_t held_back;
	struct answers limits; /* the timeouts */
	bool expired;	       /* an event timed out, but may still come back */
	int error;
};

static bool loopback_drive(struct loopback *l, int level)
{
	l->error = -line_drive(&l->response->line, level);
	return !l->error;
}

/* One event; with one edge alone the line returns half an interval later. */
static bool loopback_raise(struct step *step, struct loopback *l, int64_t index, int64_t due_ns,
			   int64_t moved_ns)
{
	const struct response *r = l->response;
	int level = r->toggles ? r->line.how.edge == LINE_RISING : !(index & 1);

	l->moved_ns[index % LOOPBACK_EVENTS] = moved_ns;
	l->raised_ns[index % LOOPBACK_EVENTS] = clock_now_ns(CLOCK_MONOTONIC);
	atomic_store_release(&l->raised, (uint32_t)(index + 1));
	if (!loopback_drive(l, level))
		return false;
	if (!r->toggles)
		return true;
	return step_sleep_until(step, due_ns + r->interval_ns / 2) && loopback_drive(l, !level);
}

/* The grid of @series was moved by @moved_ns so far; *said_ns of it are in the series. */
static void loopback_move(struct series *series, int64_t *said_ns, int64_t moved_ns)
{
	if (moved_ns != *said_ns)
		series_moved(series, moved_ns - *said_ns);
	*said_ns = moved_ns;
}

static bool loopback_hold(struct step *step, struct loopback *l, int64_t *grid_ns,
			  int64_t offset_ns)
{
	*grid_ns += l->response->interval_ns;
	l->held_back++;
	return step_sleep_until(step, *grid_ns + offset_ns);
}

/* Before event @index: wait until the previous one has come back or timed out. After a timeout the
 * next event that comes back is followed by a quiet line. False: end the loop. */
static bool loopback_await(struct step *step, struct loopback *l, int64_t index, int64_t *grid_ns,
			   int64_t offset_ns)
{
	int64_t until_ns = index ? l->raised_ns[(index - 1) % LOOPBACK_EVENTS] : 0;

	until_ns += l->limits.timeout_ns;
	while (atomic_load_acquire(&l->came) != (uint32_t)index) {
		if (index >= LOOPBACK_SILENT && !atomic_load_acquire(&l->came))
			return true;
		if (*grid_ns + offset_ns >= until_ns) {
			l->expired = true;
			return true;
		}
		if (!loopback_hold(step, l, grid_ns, offset_ns))
			return false;
	}
	until_ns = *grid_ns + offset_ns + l->limits.quiet_ns;
	while (l->expired && *grid_ns + offset_ns < until_ns) {
		if (!loopback_hold(step, l, grid_ns, offset_ns))
			return false;
	}
	l->expired = false;
	return true;
}

static void loopback_raise_loop(struct worker *worker)
{
	struct loopback *l = worker->state;
	struct response *r = l->response;
	struct step *step = worker->step;
	int64_t grid_ns = step->start_ns + step->series[l->series].info.first_due_ns;
	int64_t end_ns = r->for_ns == INT64_MAX ? INT64_MAX : grid_ns + r->for_ns;
	int64_t first_ns = grid_ns, dither_ns = 0, index = 0, held_back;
	bool ready = r->line.how.edge != LINE_FALLING || loopback_drive(l, 1);

	for (; ready && index < r->samples && grid_ns < end_ns;
	     index++, grid_ns += r->interval_ns) {
		int64_t offset_ns = r->dither ? grid_offset_ns(index, r->interval_ns) : 0;
		int64_t late_ns = clock_now_ns(CLOCK_MONOTONIC) - grid_ns - r->interval_ns;
		int64_t moved_ns;

		/* never faster than was asked for: those that are left come later */
		if (late_ns > 0) {
			grid_ns += late_ns;
			l->held_up++;
		}
		if (!step_sleep_until(step, grid_ns + offset_ns) ||
		    !loopback_await(step, l, index, &grid_ns, offset_ns))
			break;
		moved_ns = grid_ns - first_ns - index * r->interval_ns;
		if (l->dither >= 0) {
			loopback_move(&step->series[l->dither], &dither_ns, moved_ns);
			series_put(&step->series[l->dither], offset_ns);
		}
		if (!loopback_raise(step, l, index, grid_ns + offset_ns, moved_ns))
			break;
	}
	held_back = l->held_back;
	if (step_sleep_until(step, grid_ns + r->interval_ns))
		loopback_await(step, l, index, &grid_ns, 0);
	/* the wait for the last event holds no other one back */
	l->held_back = held_back;
	/* raised, but the loop ended before its outcome was known */
	if (index && step_stopped(step) && atomic_load_acquire(&l->came) != (uint32_t)index)
		index--;
	l->events = index;
	atomic_store_release(&step->stop, STEP_STOP);
}

/* The event that an edge to @level belongs to: the last one, or in both directions the one before it;
 * -1: none is open. */
static int64_t loopback_event(struct loopback *l, int level)
{
	uint32_t raised = atomic_load_acquire(&l->raised);
	/* counted on from the number that is due, in 32 bits */
	int64_t index = l->next + (int32_t)(raised - (uint32_t)l->next) - 1;

	if (!l->response->toggles && level != !(index & 1))
		index--;
	return index < l->next || (uint32_t)raised - (uint32_t)index > LOOPBACK_EVENTS ? -1 : index;
}

static void loopback_woke(struct step *step, struct loopback *l, const struct line_event *event)
{
	struct series *wake = &step->series[l->wake];

	if (event->seen_ns - l->block_ns >= LOOPBACK_BLOCK_NS) {
		l->block_ns = event->seen_ns;
		series_time(wake, event->seen_ns - step->start_ns);
	}
	series_put(wake, event->seen_ns - event->stamp_ns);
}

/* Record the sample of event @index, or that it is missing. */
static void loopback_came(struct step *step, struct loopback *l, int64_t index,
			  const struct line_event *event)
{
	struct series *response = &step->series[l->series];
	int64_t delay_ns = event->seen_ns - l->raised_ns[index % LOOPBACK_EVENTS];
	int64_t open = index - l->next;

	if (open)
		series_missed(response, open);
	loopback_move(response, &l->said_ns, l->moved_ns[index % LOOPBACK_EVENTS]);
	/* the level tells an event only from the previous one */
	if (open > !l->response->toggles) {
		l->ambiguous++;
		series_lost(response, 1);
	} else {
		l->late += delay_ns > l->response->interval_ns;
		l->response->answered++;
		series_put(response, delay_ns);
	}
	if (l->wake >= 0)
		loopback_woke(step, l, event);
	l->next = index + 1;
	atomic_store_release(&l->came, (uint32_t)l->next);
}

static void loopback_wait_loop(struct worker *worker)
{
	struct loopback *l = worker->state;
	struct response *r = l->response;
	struct step *step = worker->step;

	while (!step_stopped(step)) {
		struct line_event event;
		int64_t index;
		int got = line_wait(&r->line, LINE_FOREVER, &event);

		if (got == 0 || got == -EINTR)
			continue;
		if (got < 0) {
			r->error = -got;
			r->failing = "waited on";
			/* no event can come back any more */
			atomic_store_release(&step->stop, STEP_STOP);
			return;
		}
		r->seen++;
		r->lost += event.lost;
		if (event.lost && l->wake >= 0)
			series_lost(&step->series[l->wake], event.lost);
		index = loopback_event(l, event.level);
		if (index < 0) {
			r->repeated++;
			continue;
		}
		loopback_came(step, l, index, &event);
	}
}

static int loopback_add(struct step *step, struct response *r, struct loopback *l)
{
	int waits = step_add_worker(step, loopback_wait_loop, l, r->cpu, r->priority);
	int raises = waits < 0 ? waits :
				 step_add_worker(step, loopback_raise_loop, l, r->cpu,
						 r->priority > 1 ? r->priority - 1 : r->priority);

	if (raises < 0)
		return raises;
	l->series = response_add_series(step, r, "response", waits, r->interval_ns);
	if (l->series >= 0 && r->line.kind->stamps)
		l->wake = response_add_series(step, r, "wake-up", waits, 0);
	if (l->series >= 0 && r->dither)
		l->dither = response_add_series(step, r, "dither", raises, r->interval_ns);
	if (l->series < 0 || (r->line.kind->stamps && l->wake < 0) || (r->dither && l->dither < 0))
		return -ENOMEM;
	if (l->dither >= 0)
		step->series[l->dither].info.companion = l->series;
	return 0;
}

static int loopback_setup(struct step *step, struct response *r)
{
	struct loopback *l = step_alloc(step, 1, sizeof(*l));
	char text[32];
	int err;

	if (!l)
		return -ENOMEM;
	r->state = l;
	l->response = r;
	l->step = step;
	l->series = -1;
	l->wake = l->dither = -1;
	answers_begin(&l->limits, r->interval_ns, option_number(&step->options, "timeout"),
		      !r->toggles);
	option_format_duration(l->limits.timeout_ns, text, sizeof(text));
	err = option_effective(&step->options, "timeout", text);
	if (err)
		return err;
	if (r->samples == INT64_MAX && r->for_ns == INT64_MAX) {
		r->samples = RESPONSE_DEFAULT_EVENTS;
		snprintf(text, sizeof(text), "%d", RESPONSE_DEFAULT_EVENTS);
		err = option_effective(&step->options, "samples", text);
		if (err)
			return err;
	}
	err = line_open(&r->line, &step->msg);
	if (err)
		return err == -ENODEV ? STEP_SKIPPED : err;
	return loopback_add(step, r, l);
}

static int loopback_finish(struct step *step, struct response *r)
{
	const struct loopback *l = r->state;
	int64_t missed = l->events - r->answered - l->ambiguous;
	char evidence[160];

	if (l->error) {
		r->error = l->error;
		r->failing = "driven";
	}
	if (r->error)
		return 0;
	if (missed > 0)
		snprintf(
			evidence, sizeof(evidence),
			"%lld of %lld events did not come back, %lld of them at the end of the step",
			(long long)missed, (long long)l->events, (long long)(l->events - l->next));
	else if (l->late)
		snprintf(evidence, sizeof(evidence),
			 "%lld of %lld events took longer than an interval to come back",
			 (long long)l->late, (long long)l->events);
	else if (l->ambiguous)
		snprintf(evidence, sizeof(evidence),
			 "%lld of %lld events came back, and %lld may have", (long long)r->answered,
			 (long long)l->events, (long long)l->ambiguous);
	else
		snprintf(evidence, sizeof(evidence), "%lld event%s came back", (long long)l->events,
			 l->events == 1 ? "" : "s");
	step_verdict(step, "every-event-answered",
		     missed > 0 || l->late	? "fail" :
		     l->events && !l->ambiguous ? "pass" :
						  "inconclusive",
		     evidence,
		     "check the wiring from the output to the input, and raise --interval");
	if (l->ambiguous) {
		snprintf(evidence, sizeof(evidence),
			 "%lld event%s without a sample: the edge may belong to an earlier event",
			 (long long)l->ambiguous, l->ambiguous == 1 ? "" : "s");
		step_message(step, step->duration_ns, evidence);
	}
	if (l->held_back) {
		snprintf(evidence, sizeof(evidence),
			 "%lld interval%s without an event: the previous event had not come back",
			 (long long)l->held_back, l->held_back == 1 ? "" : "s");
		step_message(step, step->duration_ns, evidence);
	}
	if (!l->held_up)
		return 0;
	snprintf(evidence, sizeof(evidence),
		 "%lld event%s held up by an interval or more, which delayed later events",
		 (long long)l->held_up, l->held_up == 1 ? "" : "s");
	step_message(step, step->duration_ns, evidence);
	return 0;
}

/* Before the rings are emptied for the last time: those after the last that came back. */
static void loopback_stop(struct response *r)
{
	struct loopback *l = r->state;
	struct step *step = l->step;

	/* the last event came back after all */
	if (l->events < l->next)
		l->events = l->next;
	if (l->series >= 0 && l->events > l->next) {
		struct series *response = &step->series[l->series];

		loopback_move(response, &l->said_ns,
			      l->moved_ns[(l->events - 1) % LOOPBACK_EVENTS]);
		series_missed(response, l->events - l->next);
	}
}

const struct response_way response_loopback = {
	.setup = loopback_setup,
	.stop = loopback_stop,
	.finish = loopback_finish,
};
