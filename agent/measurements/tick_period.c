// SPDX-License-Identifier: Apache-2.0
/*
 * Tick period [CLK-B-CFG]: whether the clock tick has the configured frequency. A thread that no
 * other thread may interrupt reads the clock in a loop. The tick is the part of the gaps that
 * recurs on a grid. docs/measurements/tick-period.md says how it is found.
 */
#include <errno.h>
#include <stdio.h>

#include "methods/ensemble.h"
#include "methods/tick.h"

/* A gap is longer than this, and than twice a reading of the clock. */
#define TICK_PERIOD_GAP_NS 500
#define TICK_PERIOD_LOOP_NS (40 * NSEC_PER_MSEC)
#define TICK_PERIOD_REST_NS (2 * NSEC_PER_MSEC)
#define TICK_PERIOD_SPANS 1024
#define TICK_PERIOD_FOR_MAX_NS (40 * NSEC_PER_SEC)
/* Minimum time between the recorded times of samples, and words that these take in a ring. */
#define TICK_PERIOD_TIMES_NS (10 * NSEC_PER_MSEC)
#define TICK_PERIOD_TIMES_ROOM (4 * TICK_PERIOD_FOR_MAX_NS / TICK_PERIOD_TIMES_NS)
/* Grids that are looked for: the tick, and other timers. */
#define TICK_PERIOD_GRIDS 3
#define TICK_PERIOD_RULE "the tick comes as configured"

struct tick_period_state {
	struct ensemble ensemble;
	int gap, period; /* series */
	int64_t samples;
	int64_t gap_ns;
	int64_t rested_ns;
	struct tick_view view;
	struct tick_event *events; /* the view's */
	struct tick_span spans[TICK_PERIOD_SPANS];
	uint32_t bins[TICK_BINS];
	int expected; /* Hz */
	struct tick_grid grids[TICK_PERIOD_GRIDS];
	int grid_count;
};

static const struct option_info tick_period_options[] = {
	{ "for", OPTION_DURATION, "1s", 100 * NSEC_PER_MSEC, TICK_PERIOD_FOR_MAX_NS, NULL,
	  "duration of the observation" },
	{ "samples", OPTION_INTEGER, "20000", 100, 1000000, NULL, "maximum number of gaps" },
	{ "expect", OPTION_INTEGER, "0", 0, TICK_HZ_MAX, NULL,
	  "expected frequency of the tick in Hz; 0: the kernel's configured frequency" },
	ENSEMBLE_CPU,
	ENSEMBLE_PRIORITY,
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

/* Read the clock and nothing else, as long as others can wait. */
static void tick_period_look(struct tick_period_state *state)
{
	struct series *gap = &state->ensemble.step->series[state->gap];
	struct tick_view *view = &state->view;
	struct tick_span *span = &state->spans[view->span_count++];
	int64_t last_ns, timed_ns;

	ensemble_loop(&state->ensemble, state->gap);
	span->from_ns = span->to_ns = last_ns = timed_ns = clock_now_ns(CLOCK_MONOTONIC);
	while (last_ns - span->from_ns < TICK_PERIOD_LOOP_NS &&
	       view->event_count < state->samples) {
		int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
		int64_t away_ns = ensemble_net(&state->ensemble, now_ns - last_ns);

		if (away_ns > state->gap_ns) {
			state->events[view->event_count++] = (struct tick_event){
				.from_ns = last_ns,
				.away_ns = away_ns,
				.point = -1,
			};
			if (last_ns - timed_ns >= TICK_PERIOD_TIMES_NS) {
				timed_ns = last_ns;
				series_time(gap, timed_ns - state->ensemble.step->start_ns);
			}
			series_put(gap, away_ns);
			now_ns = clock_now_ns(CLOCK_MONOTONIC);
		}
		span->to_ns = last_ns = now_ns;
	}
}

/* The search is long, too, for a thread that nothing may interrupt. */
static void tick_period_rest(void *arg)
{
	struct tick_period_state *state = arg;

	if (clock_now_ns(CLOCK_MONOTONIC) - state->rested_ns < TICK_PERIOD_LOOP_NS)
		return;
	clock_rest(TICK_PERIOD_REST_NS);
	state->rested_ns = clock_now_ns(CLOCK_MONOTONIC);
}

/* From tick to tick, if none between them is missing. */
static void tick_period_put(struct tick_period_state *state, int number)
{
	struct step *step = state->ensemble.step;
	struct series *period = &step->series[state->period];
	int64_t period_ns = state->grids[number].period_ns, last_ns = 0, timed_ns = 0;

	for (int i = 0; i < state->view.event_count; i++) {
		const struct tick_event *event = &state->events[i];
		int64_t since_ns = event->from_ns - last_ns;

		if (event->taken != number + 1 || since_ns < period_ns / 2)
			continue;
		if (last_ns && since_ns < period_ns * 3 / 2) {
			if (last_ns - timed_ns >= TICK_PERIOD_TIMES_NS) {
				timed_ns = last_ns;
				series_time(period, timed_ns - step->start_ns);
			}
			series_put(period, since_ns);
		} else {
			timed_ns = 0;
		}
		last_ns = event->from_ns;
	}
}

/* Sum of a grid's gaps, 0 if the grid does not have the expected frequency. The kernel's own tick
 * takes more than a hypervisor's. */
static int64_t tick_period_gaps_ns(const struct tick_period_state *state, int number)
{
	int64_t sum_ns = 0;

	if (state->grids[number].hz != state->expected)
		return 0;
	for (int i = 0; i < state->view.event_count; i++)
		/* what is longer is more than a tick */
		if (state->events[i].taken == number + 1 &&
		    state->events[i].away_ns < NSEC_PER_MSEC)
			sum_ns += state->events[i].away_ns;
	return sum_ns;
}

static void tick_period_loop(struct worker *worker)
{
	struct tick_period_state *state = worker->state;
	struct ensemble *e = &state->ensemble;
	int tick = 0;

	state->gap_ns = 2 * e->stamp_ns > TICK_PERIOD_GAP_NS ? 2 * e->stamp_ns : TICK_PERIOD_GAP_NS;
	while (state->view.span_count < TICK_PERIOD_SPANS &&
	       state->view.event_count < state->samples && ensemble_goes_on(e))
		tick_period_look(state);
	state->grid_count = tick_find(state->grids, TICK_PERIOD_GRIDS, &state->view,
				      state->expected, state->bins, tick_period_rest, state);
	for (int i = 0; i < state->grid_count; i++)
		if (tick_period_gaps_ns(state, i) > tick_period_gaps_ns(state, tick))
			tick = i;
	if (state->grid_count)
		tick_period_put(state, tick);
}

static int tick_period_setup(struct step *step)
{
	struct tick_period_state *state = step->state;
	int err;

	state->samples = option_number(&step->options, "samples");
	state->events = step_alloc(step, (size_t)state->samples, sizeof(*state->events));
	if (!state->events)
		return -ENOMEM;
	state->expected = (int)option_number(&step->options, "expect") ?: tick_configured_hz();
	state->view.events = state->events;
	state->view.spans = state->spans;
	err = ensemble_setup(step, &state->ensemble, tick_period_loop, 0, 0);
	if (err)
		return err;
	state->gap = ensemble_series(&state->ensemble, "gap", NULL, NULL,
				     state->samples + TICK_PERIOD_TIMES_ROOM, true);
	state->period = ensemble_series(&state->ensemble, "period", NULL, NULL,
					state->samples + TICK_PERIOD_TIMES_ROOM, false);
	return state->gap < 0 ? state->gap : state->period < 0 ? state->period : 0;
}

/* Pass, fail, or inconclusive. */
static const char *tick_period_result(const struct tick_grid *grids, int count, int expected)
{
	int configured = tick_configured_hz();
	const char *result = "fail";

	for (int i = 0; i < count; i++) {
		if (grids[i].hz == expected)
			return "pass";
		/* a timer of the same phase may hide a tick; the tick itself does not */
		if (grids[i].hz % expected == 0 && grids[i].hz != configured)
			result = "inconclusive";
	}
	return result;
}

/* If some ticks are late, the others may by chance form a grid of a fraction of the frequency. These
 * events count for the expected grid. */
static void tick_period_give_back(struct tick_period_state *state)
{
	for (int i = 0; i < state->view.event_count; i++) {
		struct tick_event *event = &state->view.events[i];

		if (event->taken && state->expected % state->grids[event->taken - 1].hz == 0)
			event->taken = 0;
	}
}

static void tick_period_verdict(struct step *step, struct tick_period_state *state)
{
	char evidence[256] = "no grid", *at = evidence + 7, *end = evidence + sizeof(evidence);
	bool stops = !option_number(&step->options, "expect") && tick_stops(state->ensemble.cpu);
	const char *result = tick_period_result(state->grids, state->grid_count, state->expected);
	struct tick_grid wanted;

	tick_period_give_back(state);
	tick_lay(&wanted, tick_period_ns(state->expected), &state->view, state->bins);
	for (int i = 0; i < state->grid_count; i++) {
		at = i ? at : evidence;
		at += snprintf(at, (size_t)(end - at), "%s%d Hz at %d of %d points", i ? ", " : "",
			       state->grids[i].hz, state->grids[i].hits, state->grids[i].points);
	}
	if (stops)
		at += snprintf(at, (size_t)(end - at), "; expected: none");
	else
		at += snprintf(at, (size_t)(end - at), "; expected: %d Hz%s", state->expected,
			       option_number(&step->options, "expect") ?
				       "" :
				       ", chosen when the kernel was built (CONFIG_HZ)");
	if (stops)
		result = result[0] == 'p' ? "fail" : "pass";
	/* a grid that was not found may be there all the same */
	if (result[0] == (stops ? 'p' : 'f') && tick_is_uncertain(&wanted, state->grid_count > 0)) {
		result = "inconclusive";
		if (wanted.points < TICK_POINTS_MIN)
			snprintf(at, (size_t)(end - at),
				 "; only %d of the %d points that a grid needs", wanted.points,
				 TICK_POINTS_MIN);
		else
			snprintf(at, (size_t)(end - at),
				 "; a gap at %d of its %d points, %d %% by chance",
				 wanted.hits < wanted.points ? wanted.hits : wanted.points,
				 wanted.points, wanted.chance / 10);
	}
	step_verdict(
		step, TICK_PERIOD_RULE, result, evidence,
		stops && wanted.points >= TICK_POINTS_MIN ?
			"find out what else runs on the CPU: its tick stops only while a single thread runs" :
			"measure longer (--for), on an idle CPU");
}

static int tick_period_finish(struct step *step)
{
	static const struct step_column columns[] = {
		{ "frequency", "Hz" }, { "period", "ns" },	  { "begins", "ns" },
		{ "points", "count" }, { "with a gap", "count" }, { "by chance", "%" },
	};
	struct tick_period_state *state = step->state;
	struct cbor *c = step_table_begin(step, "grids", columns, 6, state->grid_count);

	for (int i = 0; i < state->grid_count; i++) {
		const struct tick_grid *grid = &state->grids[i];

		cbor_array(c, 6);
		cbor_int(c, grid->hz);
		cbor_int(c, grid->period_ns);
		cbor_int(c, grid->phase_ns % grid->period_ns);
		cbor_int(c, grid->points);
		cbor_int(c, grid->hits);
		cbor_int(c, grid->chance / 10);
	}
	step_table_end(step);
	if (state->expected)
		tick_period_verdict(step, state);
	else
		step_verdict(step, TICK_PERIOD_RULE, "skipped",
			     "the kernel does not report the frequency of its tick",
			     "give the expected frequency, such as --expect 250");
	return state->ensemble.error;
}

const struct measurement tick_period_measurement = {
	.name = "tick-period",
	.code = "CLK-B-CFG",
	.summary = "whether the clock tick has its configured frequency",
	.chapter = CHAPTER_TICK,
	.options = tick_period_options,
	.series = {
		{ "gap", "ns", "time in which a loop that reads the clock did not run",
		  "the last reading before", "the first one after", NULL },
		{ "period", "ns", "time from one gap on the tick's grid to the next",
		  "a gap begins", "the next one begins", NULL },
	},
	.tables = { { "grids", "periodic causes of gaps: the tick, and other timers" } },
	.verdicts = {
		{ TICK_PERIOD_RULE,
		  "the gaps contain a grid of the configured frequency (no grid on "
		  "a CPU that stops its tick, nohz_full)" },
	},
	.evaluate = { { "idle", "for=1s", "for=20s" } },
	.not_on_cobalt = "the clock tick is that of Linux",
	.state_size = sizeof(struct tick_period_state),
	.setup = tick_period_setup,
	.finish = tick_period_finish,
};
