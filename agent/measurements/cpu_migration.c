// SPDX-License-Identifier: Apache-2.0
/*
 * Migration: time in which sched_setaffinity() moves the calling thread to another CPU, until it
 * runs there. docs/measurements/cpu-migration.md says what exactly is timed.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "methods/cpupair.h"

/* Samples of a test loop; after each others get the CPU for a moment. */
#define MIGRATION_LOOP 100
#define MIGRATION_REST_NS (500 * NSEC_PER_USEC)

struct migration_state {
	struct cpupairs all;
	int64_t samples;
	int error;
};

static const struct option_info migration_options[] = {
	CPUPAIR_OPTIONS,
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

static bool migration_fail(struct step *step, int err, int cpu)
{
	struct migration_state *state = step->state;

	state->error = message_set(&step->msg, err ? err : -EIO,
				   "keep the CPUs online, and in the cpuset of the caller",
				   "cannot move to CPU %d: %s", cpu,
				   err ? strerror(-err) : "the thread runs on another CPU");
	return false;
}

/* Back and forth; the way forth is what is timed. */
static bool migration_loop_once(struct step *step, const struct cpupair *pair, int64_t count)
{
	struct series *series = &step->series[pair->series];
	struct cpulist from = { { 0 } }, to = { { 0 } };

	cpulist_add(&from, pair->from);
	cpulist_add(&to, pair->to);
	series_time(series, clock_now_ns(CLOCK_MONOTONIC) - step->start_ns);
	while (count-- > 0) {
		int err = cpulist_apply(&from, 0);
		int64_t from_ns, took_ns;

		if (err)
			return migration_fail(step, err, pair->from);
		from_ns = mark_from_ns(&step->mark);
		err = cpulist_apply(&to, 0);
		took_ns = mark_to_ns(&step->mark) - from_ns;
		if (err || sched_getcpu() != pair->to)
			return migration_fail(step, err, pair->to);
		series_put(series, took_ns - series->info.stamp_ns);
	}
	return true;
}

static void migration_loop(struct worker *worker)
{
	struct step *step = worker->step;
	struct migration_state *state = step->state;
	int64_t for_ns = option_number(&step->options, "for");
	int64_t start_ns = clock_now_ns(CLOCK_MONOTONIC);

	for (int64_t done = 0; done < state->samples; done += MIGRATION_LOOP)
		for (int i = 0; i < state->all.count; i++) {
			int64_t left = state->samples - done;

			if (step_stopped(step) ||
			    (for_ns && clock_now_ns(CLOCK_MONOTONIC) - start_ns >= for_ns))
				return;
			if (!migration_loop_once(step, &state->all.pairs[i],
						 left < MIGRATION_LOOP ? left : MIGRATION_LOOP))
				return;
			clock_rest(MIGRATION_REST_NS);
		}
}

static int migration_setup(struct step *step)
{
	struct migration_state *state = step->state;
	int err, worker;

	state->samples = option_number(&step->options, "samples");
	err = cpupairs_choose(step, &state->all);
	if (err)
		return err;
	/* not the frame's to pin: that it moves is what is measured */
	worker = step_add_worker(step, migration_loop, NULL, -1,
				 (int)option_number(&step->options, "priority"));
	if (worker < 0)
		return worker;
	step->workers[worker].prepare = cpupairs_prepare;
	for (int i = 0; i < state->all.count && err >= 0; i++)
		err = cpupairs_series(step, &state->all.pairs[i], "migrate", worker,
				      state->samples);
	return err < 0 ? err : 0;
}

static int migration_finish(struct step *step)
{
	struct migration_state *state = step->state;

	if (!state->error)
		cpupairs_verdict(step, &state->all, CPUPAIR_LONGER);
	return state->error;
}

const struct measurement cpu_migration_measurement = {
	.name = "cpu-migration",
	.summary = "time that a thread takes to move to another CPU",
	.chapter = CHAPTER_KERNEL,
	.options = migration_options,
	.series = {
		{ "migrate", "ns", "time in which a thread moves to another CPU",
		  "before sched_setaffinity(), on one CPU", "after it, on the other",
		  "system call,the stopper thread dequeues the thread,queued on the other CPU,"
		  "interrupt,switch" },
	},
	.verdicts = { { CPUPAIR_VERDICT, CPUPAIR_VERDICT_MEANING } },
	.evaluate = { { "idle", "samples=1000 pairs=8", "samples=100000 pairs=56" } },
	.mark = &mark_spans,
	.not_on_cobalt = "Linux moves tasks between CPUs, also those of the core",
	.state_size = sizeof(struct migration_state),
	.setup = migration_setup,
	.finish = migration_finish,
};
