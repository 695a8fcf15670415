// SPDX-License-Identifier: Apache-2.0
/*
 * Clock warps: whether a clock ever goes backwards between two readings, on any CPUs, and whether
 * the clock of the core is that of Linux. docs/measurements/clock-warps.md explains how the offsets
 * follow from the readings.
 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "run/modes.h"
#include "run/step.h"

/* CPUs take turns to read, then rest, so that other threads can run. */
#define WARPS_RUN_NS (20 * NSEC_PER_MSEC)
#define WARPS_REST_NS (5 * NSEC_PER_MSEC)
/* Readings of a turn, at most: a CPU keeps the lock for some of them, so that it follows itself. */
#define WARPS_PAUSES 64U

#define WARPS_RULE "no clock goes backwards"
#define WARPS_SAME_RULE "the clock of the core is that of Linux"
#define WARPS_REMEDY                                                                               \
	"choose another clock source (/sys/devices/system/clocksource/clocksource0), or have the " \
	"firmware synchronise the counters of the CPUs"

static const struct option_info warps_options[] = {
	{ "for", OPTION_DURATION, "30s", NSEC_PER_MSEC, 24 * 3600 * NSEC_PER_SEC, NULL,
	  "duration" },
	{ "cpu", OPTION_CPUS, "all", 0, 0, NULL, "CPUs to measure on" },
	{ "priority", OPTION_INTEGER, "80", 0, 99, NULL, "SCHED_FIFO priority; 0: SCHED_OTHER" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

enum { WARPS_LINUX, WARPS_CORE, WARPS_CLOCKS };

/* Readings of one clock on a CPU. */
struct warps_seen {
	int64_t readings;
	int64_t warps;
	int64_t least_ns; /* step from the previous reading */
	int before;	  /* the worker that took the previous one */
	/* min of the steps from the first worker's reading to this one's, and the other way */
	int64_t after_first_ns, first_after_ns;
};

struct warps_state {
	struct warps_seen (*seen)[WARPS_CLOCKS]; /* of each worker */
	int64_t last_ns[WARPS_CLOCKS];
	int last; /* the worker that took these; -1: none yet */
	/* the core's clock minus that of Linux: bounds of a constant difference */
	int64_t least_ahead_ns, most_ahead_ns;
	uint32_t lock; /* held by the worker that reads */
};

static void warps_note(struct warps_state *state, int self, int clock, int64_t now_ns)
{
	struct warps_seen *seen = &state->seen[self][clock];
	int64_t step_ns = now_ns - state->last_ns[clock];

	seen->readings++;
	if (state->last < 0)
		return;
	seen->warps += step_ns < 0;
	if (step_ns < seen->least_ns) {
		seen->least_ns = step_ns;
		seen->before = state->last;
	}
	if (!state->last && step_ns < seen->after_first_ns)
		seen->after_first_ns = step_ns;
	if (!self && step_ns < state->seen[state->last][clock].first_after_ns)
		state->seen[state->last][clock].first_after_ns = step_ns;
}

/* Linux, core, Linux: no reading may be earlier than the previous one. */
static void warps_turn(struct warps_state *state, const struct core *core, int self)
{
	int64_t before_ns, core_ns, after_ns;

	while (atomic_exchange(&state->lock, 1))
		;
	before_ns = clock_now_ns(CLOCK_MONOTONIC);
	core_ns = core->now();
	after_ns = clock_now_ns(CLOCK_MONOTONIC);
	warps_note(state, self, WARPS_LINUX, before_ns);
	warps_note(state, self, WARPS_CORE, core_ns);
	state->seen[self][WARPS_LINUX].readings++;
	if (after_ns < before_ns)
		state->seen[self][WARPS_LINUX].warps++;
	if (after_ns - before_ns < state->seen[self][WARPS_LINUX].least_ns) {
		state->seen[self][WARPS_LINUX].least_ns = after_ns - before_ns;
		state->seen[self][WARPS_LINUX].before = self;
	}
	if (core_ns - after_ns > state->least_ahead_ns)
		state->least_ahead_ns = core_ns - after_ns;
	if (core_ns - before_ns < state->most_ahead_ns)
		state->most_ahead_ns = core_ns - before_ns;
	state->last_ns[WARPS_LINUX] = after_ns;
	state->last_ns[WARPS_CORE] = core_ns;
	state->last = self;
	atomic_store_release(&state->lock, 0);
}

static void warps_loop(struct worker *worker)
{
	struct step *step = worker->step;
	int64_t end_ns = clock_now_ns(CLOCK_MONOTONIC) + option_number(&step->options, "for");
	uint32_t random = (uint32_t)worker->number + 1;
	int64_t now_ns = 0;

	while (!step_stopped(step) && now_ns < end_ns) {
		int64_t rest_ns = clock_now_ns(CLOCK_MONOTONIC) + WARPS_RUN_NS;

		do {
			warps_turn(step->state, step->core, worker->number);
			random = random * 1664525U + 1013904223U;
			for (volatile uint32_t i = random >> 16 & (WARPS_PAUSES - 1); i; i--)
				;
			now_ns = clock_now_ns(CLOCK_MONOTONIC);
		} while (now_ns < rest_ns && now_ns < end_ns);
		step->core->rest(WARPS_REST_NS);
	}
}

static int warps_setup(struct step *step)
{
	struct warps_state *state = step->state;
	struct cpulist cpus;
	int err = step_cpus(step, &cpus), count;

	if (err)
		return err;
	count = cpulist_count(&cpus);
	state->seen = step_alloc(step, (size_t)count, sizeof(*state->seen));
	if (!state->seen)
		return -ENOMEM;
	state->last = -1;
	state->least_ahead_ns = INT64_MIN;
	state->most_ahead_ns = INT64_MAX;
	for (int i = 0; i < count; i++)
		for (int clock = 0; clock < WARPS_CLOCKS; clock++)
			state->seen[i][clock] = (struct warps_seen){
				.least_ns = INT64_MAX,
				.after_first_ns = INT64_MAX,
				.first_after_ns = INT64_MAX,
			};
	for (int cpu = cpulist_next(&cpus, 0); cpu >= 0 && err >= 0;
	     cpu = cpulist_next(&cpus, cpu + 1))
		err = step_add_worker(step, warps_loop, NULL, cpu,
				      (int)option_number(&step->options, "priority"));
	return err < 0 ? err : 0;
}

static const struct step_column warps_columns[] = {
	{ "cpu", "" },
	{ "clock", "" },
	{ "readings", "count" },
	{ "warps", "count" },
	{ "smallest", "ns" },
	{ "after", "" },
	{ "ahead at least", "ns" },
	{ "ahead at most", "ns" },
};

#define WARPS_COLUMNS (int)(sizeof(warps_columns) / sizeof(warps_columns[0]))

static void warps_put(struct cbor *c, int64_t value, bool known)
{
	if (known)
		cbor_int(c, value);
	else
		cbor_text(c, "");
}

static const char *warps_clock(const struct step *step, int clock)
{
	return clock == WARPS_LINUX	 ? "CLOCK_MONOTONIC" :
	       step->core == &core_linux ? "the system call" :
					   "the call of the core";
}

static void warps_table(struct step *step)
{
	const struct warps_state *state = step->state;
	struct cbor *c = step_table_begin(step, "warps", warps_columns, WARPS_COLUMNS,
					  step->worker_count * WARPS_CLOCKS);

	for (int i = 0; i < step->worker_count; i++)
		for (int clock = 0; clock < WARPS_CLOCKS; clock++) {
			const struct warps_seen *seen = &state->seen[i][clock];
			bool stepped = seen->least_ns != INT64_MAX;

			cbor_array(c, (size_t)WARPS_COLUMNS);
			cbor_int(c, step->workers[i].cpu);
			cbor_text(c, warps_clock(step, clock));
			cbor_int(c, seen->readings);
			cbor_int(c, seen->warps);
			warps_put(c, seen->least_ns, stepped);
			warps_put(c, stepped ? step->workers[seen->before].cpu : 0, stepped);
			warps_put(c, -seen->first_after_ns, seen->first_after_ns != INT64_MAX && i);
			warps_put(c, seen->after_first_ns, seen->after_first_ns != INT64_MAX && i);
		}
	step_table_end(step);
}

static int warps_finish(struct step *step)
{
	const struct warps_state *state = step->state;
	const struct warps_seen *worst = NULL;
	int64_t readings = 0, warps = 0;
	char evidence[256];
	int cpu = 0, which = 0;
	bool same;

	for (int i = 0; i < step->worker_count; i++)
		for (int clock = 0; clock < WARPS_CLOCKS; clock++) {
			const struct warps_seen *seen = &state->seen[i][clock];

			readings += seen->readings;
			warps += seen->warps;
			if (worst && seen->least_ns >= worst->least_ns)
				continue;
			worst = seen;
			cpu = step->workers[i].cpu;
			which = clock;
		}
	if (!worst || worst->least_ns == INT64_MAX)
		return 0; /* stopped before the second reading */
	warps_table(step);
	snprintf(evidence, sizeof(evidence),
		 "%lld of %lld readings on %d CPU%s are earlier than the previous one. "
		 "The smallest step is %lld ns, of %s on CPU %d after CPU %d",
		 (long long)warps, (long long)readings, step->worker_count,
		 step->worker_count == 1 ? "" : "s", (long long)worst->least_ns,
		 warps_clock(step, which), cpu, step->workers[worst->before].cpu);
	step_verdict(step, WARPS_RULE, warps ? "fail" : "pass", evidence, WARPS_REMEDY);
	same = state->least_ahead_ns <= 0 && state->most_ahead_ns >= 0;
	snprintf(evidence, sizeof(evidence),
		 "CLOCK_MONOTONIC read by a system call of the %s core, minus the same clock read "
		 "by the C library: at least %lld ns, at most %lld ns",
		 step->core->title, (long long)state->least_ahead_ns,
		 (long long)state->most_ahead_ns);
	step_verdict(step, WARPS_SAME_RULE, same ? "pass" : "fail", evidence, WARPS_REMEDY);
	return 0;
}

static bool warps_on_cobalt(const struct step *step)
{
	(void)step;
	return true;
}

const struct measurement clock_warps_measurement = {
	.name = "clock-warps",
	.summary =
		"whether a clock goes backwards between CPUs, and whether the core uses the clock of Linux",
	.chapter = CHAPTER_TICK,
	.options = warps_options,
	.tables = {
		{ "warps",
		  "readings of each clock on each CPU, the smallest step from the previous reading, "
		  "and by how much the CPU's clock is ahead of that of the first CPU, at least "
		  "and at most" },
	},
	.verdicts = {
		{ WARPS_RULE,
		  "no reading of a clock is earlier than the previous one, on any CPU" },
		{ WARPS_SAME_RULE, "each reading of the core lies between two readings of Linux" },
		{ MODES_RULE, MODES_MEANING },
	},
	.state_size = sizeof(struct warps_state),
	.setup = warps_setup,
	.on_cobalt = warps_on_cobalt,
	.finish = warps_finish,
};
