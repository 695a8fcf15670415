// SPDX-License-Identifier: Apache-2.0
/*
 * Tick cost [CLK-P-DUR]: CPU time that the clock tick takes from a running thread. A SCHED_FIFO
 * thread and a SCHED_OTHER thread take turns to time a loop of constant work. Loops that contain a
 * tick are longer. docs/measurements/tick-cost.md says what exactly is timed, and how these loops
 * are found.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "methods/ensemble.h"
#include "methods/tick.h"

/* Max loops and length of a turn. The length is not a multiple of a tick's period, so that turns do
 * not all begin and end next to a tick. */
#define TICK_COST_TURN 4096
#define TICK_COST_TURN_NS (37300 * NSEC_PER_USEC)
/* Loops that stand for what is undisturbed around them. */
#define TICK_COST_CHUNK 128
/* A disturbed loop is longer than its neighbours by this at least. */
#define TICK_COST_LEAST_NS 300
/* After so many turns the ticks are looked for, if as many are to come; there is room for twice
 * that. */
#define TICK_COST_SPANS 32
#define TICK_COST_EVENTS (4 * TICK_COST_TURN)
#define TICK_COST_RING (1 << 18)
/* Minimum time between the recorded times of disturbed loops. */
#define TICK_COST_TIMES_NS NSEC_PER_MSEC
/* Words that these times take in a ring, over all turns between two searches for ticks. */
#define TICK_COST_TIMES_ROOM \
	(2 * TICK_COST_SPANS * (int)(TICK_COST_TURN_NS / TICK_COST_TIMES_NS + 1) * 4)
#define TICK_COST_SEEN "the tick is seen"

enum tick_cost_turn { TURN_FIFO, TURN_OTHER, TURN_END };

/* Results of loops of one kind. */
struct tick_cost_line {
	int64_t loops;
	int64_t longest_ns; /* above the undisturbed ones */
};

enum tick_cost_kind {
	LINE_NONE,
	LINE_TICK,
	LINE_TICK_SWITCH,
	LINE_OTHER,
	LINE_OTHER_SWITCH,
	LINES
};

/* The loops of one policy. */
struct tick_cost_part {
	const char *policy;
	bool measured;
	const char *refused;   /* why not */
	int loop, tick, other; /* series */
	int64_t done;
	int64_t chunk_sum_ns; /* of their medians */
	int64_t chunks;
	int64_t points;
	int64_t hits;
	int64_t chance_sum; /* of 1000, for each point */
	struct tick_cost_line lines[LINES];
	struct tick_view view;
	struct tick_event events[TICK_COST_EVENTS];
	struct tick_span spans[2 * TICK_COST_SPANS];
	uint32_t bins[TICK_BINS];
	/* a turn */
	long switches;
	int32_t begins_ns[TICK_COST_TURN]; /* since the turn began */
	int64_t took_ns[TICK_COST_TURN];   /* less than 0: with a switch to another thread */
	int32_t chunk[2 * TICK_COST_CHUNK];
};

struct tick_cost_state {
	struct ensemble ensemble;
	int64_t samples;
	int64_t period_ns;
	int64_t loop_ns; /* asked */
	int64_t look_ns; /* a longer loop may have had a switch in it */
	uint32_t work;	 /* steps of a loop */
	uint32_t turn;	 /* enum tick_cost_turn: a futex */
	uint32_t alone;	 /* SCHED_OTHER has no turns any more */
	struct tick_cost_part fifo, other;
};

static const struct option_info tick_cost_options[] = {
	ENSEMBLE_FOR,
	{ "samples", OPTION_INTEGER, "100000", 1000, 100000000, NULL, "loops with each policy" },
	{ "loop", OPTION_DURATION, "10us", 2 * NSEC_PER_USEC, NSEC_PER_MSEC, NULL,
	  "approximate length of an undisturbed loop" },
	ENSEMBLE_CPU,
	{ "priority", OPTION_INTEGER, "98", 0, 99, NULL,
	  "SCHED_FIFO priority of the real-time part; 0: SCHED_OTHER only" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

/* --- a turn --- */

/* The loop under test: nothing but registers. */
static __attribute__((noinline)) uint32_t tick_cost_work(uint32_t steps)
{
	uint32_t value = steps;

	while (steps--) {
		value ^= value << 13;
		value ^= value >> 17;
		value ^= value << 5;
		__asm__ volatile("" : "+r"(value));
	}
	return value;
}

static int64_t tick_cost_time_ns(uint32_t steps)
{
	int64_t least_ns = INT64_MAX;

	for (int i = 0; i < 5; i++) {
		int64_t from_ns = clock_now_ns(CLOCK_MONOTONIC), took_ns;

		tick_cost_work(steps);
		took_ns = clock_now_ns(CLOCK_MONOTONIC) - from_ns;
		if (took_ns < least_ns)
			least_ns = took_ns;
	}
	return least_ns;
}

static void tick_cost_calibrate(struct tick_cost_state *state)
{
	uint32_t steps = 64;
	int64_t took_ns, longer_ns = state->loop_ns / 8;

	for (took_ns = tick_cost_time_ns(steps); took_ns < state->loop_ns && steps < 1u << 30;
	     took_ns = tick_cost_time_ns(steps))
		steps *= 2;
	state->work = (uint32_t)(steps * state->loop_ns / took_ns) + 1;
	state->look_ns = state->loop_ns + (longer_ns > NSEC_PER_USEC ? longer_ns : NSEC_PER_USEC);
}

/* Whether the calling thread lost the CPU to another one since it was asked last. */
static bool tick_cost_switched(struct tick_cost_part *part)
{
	struct rusage usage;
	long switches;

	getrusage(RUSAGE_THREAD, &usage);
	switches = usage.ru_nivcsw + usage.ru_nvcsw - part->switches;
	part->switches += switches;
	return switches > 0;
}

/* Loop after loop, each from the end of the one before, so that no tick comes in between. */
static int tick_cost_turn(const struct tick_cost_state *state, struct tick_cost_part *part,
			  struct tick_span *span)
{
	int64_t left = state->samples - part->done, last_ns;
	int count = 0;

	tick_cost_switched(part);
	span->from_ns = last_ns = clock_now_ns(CLOCK_MONOTONIC);
	while (count < TICK_COST_TURN && count < left &&
	       last_ns - span->from_ns < TICK_COST_TURN_NS) {
		int64_t took_ns, now_ns;

		part->begins_ns[count] = (int32_t)(last_ns - span->from_ns);
		tick_cost_work(state->work);
		now_ns = clock_now_ns(CLOCK_MONOTONIC);
		took_ns = now_ns - last_ns;
		part->took_ns[count] = took_ns;
		if (took_ns > state->look_ns) {
			if (tick_cost_switched(part))
				part->took_ns[count] = -took_ns;
			now_ns = clock_now_ns(CLOCK_MONOTONIC);
		}
		last_ns = now_ns;
		count++;
	}
	span->to_ns = last_ns;
	return count;
}

/* A loop that is longer than its neighbours is an event. The others are the undisturbed line. */
static void tick_cost_chunk(struct tick_cost_part *part, const struct tick_span *span, int first,
			    int count)
{
	struct tick_cost_line *none = &part->lines[LINE_NONE];
	int32_t spread, median;
	int64_t margin_ns;

	for (int i = 0; i < count; i++) {
		int64_t took_ns = llabs(part->took_ns[first + i]);

		part->chunk[i] = took_ns > INT32_MAX ? INT32_MAX : (int32_t)took_ns;
	}
	median = tick_median(part->chunk, count, &spread);
	margin_ns = 4 * (int64_t)spread > TICK_COST_LEAST_NS ? 4 * (int64_t)spread :
							       TICK_COST_LEAST_NS;
	part->chunk_sum_ns += median;
	part->chunks++;
	for (int i = first; i < first + count; i++) {
		int64_t above_ns = llabs(part->took_ns[i]) - median;

		if (part->took_ns[i] > 0 && above_ns <= margin_ns) {
			none->loops++;
			if (above_ns > none->longest_ns)
				none->longest_ns = above_ns;
			continue;
		}
		part->events[part->view.event_count++] = (struct tick_event){
			.from_ns = span->from_ns + part->begins_ns[i],
			.window_ns = median,
			.away_ns = above_ns > 0 ? above_ns : 0,
			.tag = part->took_ns[i] < 0,
		};
	}
}

/* --- ticks among the events --- */

/* An event of half a period or more, unless it is another thread, is not the tick alone. */
static bool tick_cost_has_tick(const struct tick_cost_state *state, const struct tick_event *event)
{
	return event->point >= 0 && (event->tag || event->away_ns < state->period_ns / 2);
}

static void tick_cost_sort_event(struct step *step, struct tick_cost_part *part,
				 const struct tick_event *event, bool tick)
{
	enum tick_cost_kind kind = tick ? LINE_TICK : LINE_OTHER;
	struct tick_cost_line *line = &part->lines[kind + event->tag];

	line->loops++;
	if (event->away_ns > line->longest_ns)
		line->longest_ns = event->away_ns;
	if (!event->tag)
		series_put(&step->series[tick ? part->tick : part->other], event->away_ns);
}

static void tick_cost_settle(struct tick_cost_state *state, struct tick_cost_part *part)
{
	struct step *step = state->ensemble.step;
	struct tick_grid grid;
	int64_t timed_ns = 0;
	bool found;

	if (!part->view.span_count)
		return;
	found = state->period_ns &&
		tick_lay_longest(&grid, state->period_ns, &part->view, part->bins);
	if (found) {
		part->points += grid.points;
		part->hits += grid.hits;
		part->chance_sum += (int64_t)grid.chance * grid.points;
	}
	for (int i = 0; i < part->view.event_count; i++) {
		const struct tick_event *event = &part->events[i];

		if (!i || event->from_ns - timed_ns >= TICK_COST_TIMES_NS) {
			timed_ns = event->from_ns;
			series_time(&step->series[part->tick], timed_ns - step->start_ns);
			series_time(&step->series[part->other], timed_ns - step->start_ns);
		}
		tick_cost_sort_event(step, part, event, found && tick_cost_has_tick(state, event));
	}
	part->view.event_count = part->view.span_count = 0;
}

/* One turn of a policy. False: it has its samples. */
static bool tick_cost_take_turn(struct tick_cost_state *state, struct tick_cost_part *part)
{
	struct step *step = state->ensemble.step;
	struct series *loop = &step->series[part->loop];
	struct tick_span *span = &part->spans[part->view.span_count++];
	int count = tick_cost_turn(state, part, span), next;
	int64_t left = state->samples - part->done - count;

	series_time(loop, span->from_ns - step->start_ns);
	for (int i = 0; i < count; i++)
		series_put(loop, ensemble_net(&state->ensemble, llabs(part->took_ns[i])));
	for (int first = 0; first < count; first = next) {
		next = count - first < 2 * TICK_COST_CHUNK ? count : first + TICK_COST_CHUNK;
		tick_cost_chunk(part, span, first, next - first);
	}
	part->done += count;
	if (!left || part->view.event_count > TICK_COST_EVENTS - TICK_COST_TURN ||
	    part->view.span_count == 2 * TICK_COST_SPANS ||
	    (part->view.span_count == TICK_COST_SPANS &&
	     left > (int64_t)TICK_COST_SPANS * TICK_COST_TURN))
		tick_cost_settle(state, part);
	return left > 0;
}

/* --- the threads --- */

static void tick_cost_pass(struct tick_cost_state *state, enum tick_cost_turn turn)
{
	atomic_store_release(&state->turn, turn);
	syscall(SYS_futex, &state->turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Sleep while it is the turn of @of. False: ENSEMBLE_PATIENCE_NS have passed, or the step ends. */
static bool tick_cost_wait(struct tick_cost_state *state, enum tick_cost_turn of)
{
	int64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + ENSEMBLE_PATIENCE_NS;

	while (atomic_load_acquire(&state->turn) == of) {
		int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

		if (step_stopped(state->ensemble.step) || now_ns > until_ns)
			return false;
		ensemble_sleep_on(&state->turn, of, ENSEMBLE_PART_NS);
		until_ns += ensemble_stalled(&state->ensemble, now_ns, ENSEMBLE_PART_NS);
	}
	return true;
}

static void tick_cost_other(struct worker *worker)
{
	struct tick_cost_state *state = worker->state;
	bool more = true;

	while (more && !step_stopped(worker->step)) {
		if (!tick_cost_wait(state, TURN_FIFO))
			continue;
		if (atomic_load_acquire(&state->turn) == TURN_END)
			break;
		more = tick_cost_take_turn(state, &state->other);
		if (atomic_load_acquire(&state->alone))
			break;
		if (!more)
			atomic_store_release(&state->alone, 1);
		tick_cost_pass(state, TURN_FIFO);
	}
	tick_cost_settle(state, &state->other);
}

/* In turns until both have their samples; where the other thread does not get the CPU, or has all
 * it needs, without it. */
static void tick_cost_fifo(struct worker *worker)
{
	struct tick_cost_state *state = worker->state;
	bool more = true;

	tick_cost_calibrate(state);
	while ((more || !atomic_load_acquire(&state->alone)) &&
	       ensemble_goes_on(&state->ensemble)) {
		if (more)
			more = tick_cost_take_turn(state, &state->fifo);
		if (atomic_load_acquire(&state->alone))
			continue;
		tick_cost_pass(state, TURN_OTHER);
		if (tick_cost_wait(state, TURN_OTHER))
			continue;
		atomic_store_release(&state->alone, 1);
		if (!step_stopped(state->ensemble.step))
			state->other.refused = "it had to wait too long for the CPU";
	}
	tick_cost_pass(state, TURN_END);
	tick_cost_settle(state, &state->fifo);
}

/* Without real-time priority: the conductor is the SCHED_OTHER thread. */
static void tick_cost_single(struct worker *worker)
{
	struct tick_cost_state *state = worker->state;

	tick_cost_calibrate(state);
	while (ensemble_goes_on(&state->ensemble) && tick_cost_take_turn(state, &state->other))
		;
	tick_cost_settle(state, &state->other);
}

/* --- setup and finish --- */

static int tick_cost_add(struct tick_cost_state *state, struct tick_cost_part *part, int worker)
{
	int *const numbers[] = { &part->loop, &part->tick, &part->other };
	static const char *const names[] = { "loop", "tick", "other" };
	struct step *step = state->ensemble.step;
	int64_t room = state->samples < TICK_COST_RING ? state->samples : TICK_COST_RING;

	part->measured = true;
	part->view.events = part->events;
	part->view.spans = part->spans;
	for (int i = 0; i < 3; i++) {
		/* differences have no time stamp in them any more */
		int number = ensemble_series(&state->ensemble, names[i], "policy", part->policy,
					     i ? TICK_COST_EVENTS + TICK_COST_TIMES_ROOM : room,
					     i == 0);

		if (number < 0)
			return number;
		step->series[number].info.thread = worker;
		*numbers[i] = number;
	}
	return 0;
}

static int tick_cost_setup(struct step *step)
{
	struct tick_cost_state *state = step->state;
	int priority = (int)option_number(&step->options, "priority"), err, worker;
	bool fifo = priority && step->core->may_have(priority);

	state->samples = option_number(&step->options, "samples");
	state->loop_ns = option_number(&step->options, "loop");
	state->period_ns = tick_configured_hz() ? tick_period_ns(tick_configured_hz()) : 0;
	state->fifo.policy = "fifo";
	state->other.policy = "other";
	err = ensemble_setup(step, &state->ensemble, fifo ? tick_cost_fifo : tick_cost_single, 0,
			     0);
	if (err)
		return err;
	if (!fifo) {
		state->fifo.refused = priority ? "real-time priority is not permitted here" :
						 "priority 0 was asked for";
		return tick_cost_add(state, &state->other, 0);
	}
	worker = step_add_worker(step, tick_cost_other, state, state->ensemble.cpu, 0);
	if (worker < 0)
		return worker;
	err = tick_cost_add(state, &state->fifo, 0);
	return err ?: tick_cost_add(state, &state->other, worker);
}

static int64_t tick_cost_undisturbed_ns(const struct tick_cost_state *state,
					const struct tick_cost_part *part)
{
	return part->chunks ? ensemble_net(&state->ensemble, part->chunk_sum_ns / part->chunks) : 0;
}

/* A row for each line; those with a switch have no typical length. */
static void tick_cost_rows(const struct step *step, struct cbor *c,
			   const struct tick_cost_part *part)
{
	static const char *const names[LINES] = {
		[LINE_NONE] = "undisturbed",
		[LINE_TICK] = "tick",
		[LINE_TICK_SWITCH] = "tick, then another thread",
		[LINE_OTHER] = "no tick",
		[LINE_OTHER_SWITCH] = "no tick, another thread",
	};
	const int series[LINES] = { [LINE_TICK] = part->tick, [LINE_OTHER] = part->other };

	for (int i = 0; i < LINES; i++) {
		bool typical = i == LINE_TICK || i == LINE_OTHER;

		cbor_array(c, 5);
		cbor_text(c, part->policy);
		cbor_text(c, names[i]);
		cbor_int(c, part->lines[i].loops);
		cbor_int(c, typical ? series_percentile(&step->series[series[i]], 50000) : 0);
		cbor_int(c, part->lines[i].longest_ns);
	}
}

static void tick_cost_skipped(struct step *step, const struct tick_cost_part *part)
{
	char evidence[160];

	snprintf(evidence, sizeof(evidence), "%s: %s", part->policy,
		 part->refused ?: "no disturbance recurs at the period of the tick");
	step_verdict(step, TICK_COST_SEEN, "skipped", evidence,
		     "run as root with --priority 1 or more, take more samples, and use a CPU "
		     "that ticks (not in nohz_full)");
}

/* It has seen ticks, but not in all of its loops. */
static void tick_cost_cut_short(struct step *step, const struct tick_cost_part *part)
{
	const struct tick_cost_state *state = step->state;
	char text[192];

	snprintf(text, sizeof(text),
		 "policy %s has %lld of %lld loops: %s. End other programs on this CPU, and "
		 "measure again",
		 part->policy, (long long)part->done, (long long)state->samples, part->refused);
	step_message(step, clock_now_ns(CLOCK_MONOTONIC) - step->start_ns, text);
}

static void tick_cost_tell(struct step *step, const struct tick_cost_part *part)
{
	const struct tick_cost_state *state = step->state;

	if (!part->hits)
		tick_cost_skipped(step, part);
	else if (part->refused && part->done < state->samples)
		tick_cost_cut_short(step, part);
}

static int tick_cost_finish(struct step *step)
{
	static const struct step_column lines[] = {
		{ "policy", "" },      { "loops with", "" },	      { "loops", "count" },
		{ "longer by", "ns" }, { "longer by at most", "ns" },
	};
	static const struct step_column ticks[] = {
		{ "policy", "" },      { "undisturbed loop", "ns" }, { "period", "ns" },
		{ "points", "count" }, { "with a tick", "count" },   { "by chance", "count" },
	};
	struct tick_cost_state *state = step->state;
	const struct tick_cost_part *parts[] = { &state->fifo, &state->other };
	int rows = state->fifo.measured + state->other.measured;
	struct cbor *c = step_table_begin(step, "lines", lines, 5, rows * LINES);

	for (int i = 0; i < 2; i++)
		if (parts[i]->measured)
			tick_cost_rows(step, c, parts[i]);
	step_table_end(step);
	c = step_table_begin(step, "ticks", ticks, 6, rows);
	for (int i = 0; i < 2; i++) {
		if (!parts[i]->measured)
			continue;
		cbor_array(c, 6);
		cbor_text(c, parts[i]->policy);
		cbor_int(c, tick_cost_undisturbed_ns(state, parts[i]));
		cbor_int(c, state->period_ns);
		cbor_int(c, parts[i]->points);
		cbor_int(c, parts[i]->hits);
		cbor_int(c, (parts[i]->chance_sum + 500) / 1000);
	}
	step_table_end(step);
	for (int i = 0; i < 2; i++)
		tick_cost_tell(step, parts[i]);
	return state->ensemble.error;
}

const struct measurement tick_cost_measurement = {
	.name = "tick-cost",
	.code = "CLK-P-DUR",
	.summary = "CPU time that the clock tick takes from a running thread",
	.chapter = CHAPTER_TICK,
	.options = tick_cost_options,
	.series = {
		{ "loop", "ns", "time of a loop with constant work", "end of the previous loop",
		  "end of this loop", NULL },
		{ "tick", "ns", "additional time of a loop that contains a tick",
		  "undisturbed loop", "loop with a tick", NULL },
		{ "other", "ns",
		  "additional time of loops disturbed by something other than the tick",
		  "undisturbed loop", "disturbed loop", NULL },
	},
	.tables = {
		{ "lines",
		  "number of undisturbed loops, of those with a tick, and of those with another "
		  "disturbance" },
		{ "ticks", "points of the tick's grid, and those where a loop was disturbed" },
	},
	.verdicts = { { TICK_COST_SEEN, "skipped for a policy where no tick was found" } },
	.evaluate = { { "idle", "samples=100000 for=4s", "samples=3000000 for=3m" } },
	.not_on_cobalt = "the clock tick is that of Linux",
	.state_size = sizeof(struct tick_cost_state),
	.setup = tick_cost_setup,
	.finish = tick_cost_finish,
};
