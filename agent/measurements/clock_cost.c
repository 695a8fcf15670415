// SPDX-License-Identifier: Apache-2.0
/*
 * Clock cost [CAL-P-TRC]: the cost of a time stamp and the resolution of each clock, on each
 * measured CPU. docs/measurements/clock-cost.md says what exactly is timed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "run/step.h"

/* The mean is that of batches: one reading may be shorter than what the clock resolves. */
#define CLOCK_COST_BATCH 1000
/* A clock that is slow to read takes seconds for many samples: others get the CPU in between. 128
 * CPUs that read an HPET wait 0.1 ms for each reading, so each batch counts. */
#define CLOCK_COST_RUN_NS (100 * NSEC_PER_MSEC)
#define CLOCK_COST_REST_NS NSEC_PER_MSEC

static const struct option_info clock_cost_options[] = {
	{ "for", OPTION_DURATION, "0", 0, 0, NULL, "time limit; 0: none" },
	{ "samples", OPTION_INTEGER, "20000", 1000, 1000000, NULL,
	  "pairs of readings of each clock" },
	{ "cpu", OPTION_CPUS, "all", 0, 0, NULL, "CPUs to measure on" },
	{ "priority", OPTION_INTEGER, "80", 0, 99, NULL, "SCHED_FIFO priority; 0: SCHED_OTHER" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

struct clock_cost_clock {
	const char *name;
	clockid_t id;
	bool counter; /* the cycle counter instead of a clock of the kernel */
};

static const struct clock_cost_clock clock_cost_clocks[] = {
	{ "CLOCK_MONOTONIC", CLOCK_MONOTONIC, false },
	{ "CLOCK_REALTIME", CLOCK_REALTIME, false },
	{ "counter", 0, true },
};

#define CLOCK_COST_CLOCKS ((int)(sizeof(clock_cost_clocks) / sizeof(clock_cost_clocks[0])))

struct clock_cost_result {
	int series; /* -1: the counter does not count in ns, it has batches only */
	int64_t readings;
	int64_t batches;
	int64_t sum_ps; /* of the batches' means */
	int64_t best_ps;
	int64_t step_ns; /* smallest difference above 0; 0: none seen */
};

struct clock_cost_thread {
	int cpu;
	int64_t samples;
	int64_t for_ns;
	struct clock_cost_result results[CLOCK_COST_CLOCKS];
};

struct clock_cost_state {
	struct clock_cost_thread *threads;
	int count;
	int clocks; /* with the cycle counter if the CPU has one */
};

/* Two readings, one right after the other, a batch of times. */
static void clock_cost_pairs(struct series *cost, clockid_t id, struct clock_cost_result *result)
{
	for (int i = 0; i < CLOCK_COST_BATCH; i++) {
		struct timespec first, second;
		int64_t difference_ns;

		clock_gettime(id, &first);
		clock_gettime(id, &second);
		difference_ns = clock_difference_ns(&second, &first);
		series_put(cost, difference_ns);
		if (difference_ns > 0 && (!result->step_ns || difference_ns < result->step_ns))
			result->step_ns = difference_ns;
	}
	result->readings += 2 * CLOCK_COST_BATCH;
}

/* A batch of readings, timed as a whole. */
static void clock_cost_batch(const struct clock_cost_clock *clock, struct clock_cost_result *result)
{
	int64_t from_ns, took_ps;
	struct timespec now;

	from_ns = clock_now_ns(CLOCK_MONOTONIC);
	if (clock->counter)
		for (int i = 0; i < CLOCK_COST_BATCH; i++)
			clock_counter();
	else
		for (int i = 0; i < CLOCK_COST_BATCH; i++)
			clock_gettime(clock->id, &now);
	took_ps = (clock_now_ns(CLOCK_MONOTONIC) - from_ns) * 1000 / CLOCK_COST_BATCH;
	result->readings += CLOCK_COST_BATCH;
	result->sum_ps += took_ps;
	if (!result->batches++ || took_ps < result->best_ps)
		result->best_ps = took_ps;
}

static void clock_cost_rest(int64_t *rested_ns)
{
	if (clock_now_ns(CLOCK_MONOTONIC) - *rested_ns <= CLOCK_COST_RUN_NS)
		return;
	clock_rest(CLOCK_COST_REST_NS);
	*rested_ns = clock_now_ns(CLOCK_MONOTONIC);
}

static void clock_cost_loop(struct worker *worker)
{
	struct clock_cost_thread *t = worker->state;
	struct step *step = worker->step;
	const struct clock_cost_state *state = step->state;
	int64_t start_ns = clock_now_ns(CLOCK_MONOTONIC);
	int64_t rested_ns = start_ns;

	for (int64_t done = 0; done < t->samples; done += CLOCK_COST_BATCH) {
		int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

		if (step_stopped(step) || (t->for_ns && now_ns - start_ns >= t->for_ns))
			return;
		for (int i = 0; i < state->clocks; i++) {
			struct clock_cost_result *result = &t->results[i];

			clock_cost_rest(&rested_ns);
			if (result->series >= 0) {
				series_time(&step->series[result->series],
					    clock_now_ns(CLOCK_MONOTONIC) - step->start_ns);
				clock_cost_pairs(&step->series[result->series],
						 clock_cost_clocks[i].id, result);
				clock_cost_rest(&rested_ns);
			}
			clock_cost_batch(&clock_cost_clocks[i], result);
		}
	}
}

static int clock_cost_add_thread(struct step *step, struct clock_cost_thread *t, int number)
{
	const struct clock_cost_state *state = step->state;
	struct series_info info = {
		.name = "cost",
		.context = "user",
		.unit = "ns",
		.cpu = t->cpu,
		.thread = number,
		.companion = -1,
	};

	for (int i = 0; i < state->clocks; i++) {
		t->results[i].series = -1;
		if (clock_cost_clocks[i].counter)
			continue;
		info.labels[0] = (struct series_label){ "clock", clock_cost_clocks[i].name };
		/* all samples, and the time of each batch */
		t->results[i].series =
			step_add_series(step, &info, (size_t)(t->samples + t->samples / 64 + 64));
		if (t->results[i].series < 0)
			return t->results[i].series;
	}
	number = step_add_worker(step, clock_cost_loop, t, t->cpu,
				 (int)option_number(&step->options, "priority"));
	return number < 0 ? number : 0;
}

static int clock_cost_setup(struct step *step)
{
	int64_t samples = option_number(&step->options, "samples");
	struct clock_cost_state *state = step->state;
	struct cpulist cpus;
	char text[24];
	int number = 0, err;

	err = step_cpus(step, &cpus);
	if (err)
		return err;
	samples = (samples + CLOCK_COST_BATCH - 1) / CLOCK_COST_BATCH * CLOCK_COST_BATCH;
	snprintf(text, sizeof(text), "%lld", (long long)samples);
	option_effective(&step->options, "samples", text);
	state->threads = step_alloc(step, (size_t)cpulist_count(&cpus), sizeof(*state->threads));
	if (!state->threads)
		return -ENOMEM;
	state->count = cpulist_count(&cpus);
	state->clocks = CLOCK_COST_CLOCKS - !strcmp(clock_counter_name(), "none");
	for (int cpu = cpulist_next(&cpus, 0); cpu >= 0; cpu = cpulist_next(&cpus, cpu + 1)) {
		struct clock_cost_thread *t = &state->threads[number];

		t->cpu = cpu;
		t->samples = samples;
		t->for_ns = option_number(&step->options, "for");
		err = clock_cost_add_thread(step, t, number++);
		if (err)
			return err;
	}
	return 0;
}

static int clock_cost_finish(struct step *step)
{
	static const struct step_column columns[] = {
		{ "clock", "" },
		{ "cpu", "" },
		{ "mean cost", "ps" },
		/* language-ok: name in streams */
		{ "least cost", "ps" },
		{ "smallest step", "ns" },
		{ "readings", "count" },
	};
	const struct clock_cost_state *state = step->state;
	struct cbor *c = step_table_begin(step, "clocks", columns, 6, state->count * state->clocks);

	for (int i = 0; i < state->count; i++) {
		const struct clock_cost_thread *t = &state->threads[i];

		for (int k = 0; k < state->clocks; k++) {
			const struct clock_cost_result *result = &t->results[k];

			cbor_array(c, 6);
			cbor_text(c, clock_cost_clocks[k].counter ? clock_counter_name() :
								    clock_cost_clocks[k].name);
			cbor_int(c, t->cpu);
			cbor_int(c, result->batches ? result->sum_ps / result->batches : 0);
			cbor_int(c, result->best_ps);
			cbor_int(c, result->step_ns);
			cbor_int(c, result->readings);
		}
	}
	step_table_end(step);
	return 0;
}

const struct measurement clock_cost_measurement = {
	.name = "clock-cost",
	.code = "CAL-P-TRC",
	.summary = "cost of a time stamp, and the resolution of each clock",
	.role = "calibration",
	.chapter = CHAPTER_CALIBRATION,
	.options = clock_cost_options,
	.series = {
		{ "cost", "ns", "time between two consecutive readings of a clock", "a reading",
		  "the next reading", NULL },
	},
	.tables = {
		{ "clocks", "mean cost of a reading from batches, and the smallest step observed" },
	},
	.not_on_cobalt = "it times the clock, which is the same for tasks of every core",
	.state_size = sizeof(struct clock_cost_state),
	.setup = clock_cost_setup,
	.finish = clock_cost_finish,
};
