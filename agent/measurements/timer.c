// SPDX-License-Identifier: Apache-2.0
/*
 * Timer latency: a periodic task sleeps until a due time; latency = time it runs - due time.
 *
 * Steps 1 and 2 of the path of a sample: the timer interrupt comes, the kernel wakes the thread
 * that waits in timer_wait(), and the first thing it does is to read the clock.
 * docs/measurements/timer.md says what exactly is timed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "run.h"

#define TIMER_PRIORITY_DEFAULT "80"
/* So many seconds of samples fit into a ring, within these limits. */
#define TIMER_RING_SECONDS 4
#define TIMER_RING_MAX (1 << 17)
/* The golden section's part of 2^32 over 32, made odd: the sweep crosses the period in 26 steps,
 * and never settles into a pattern with another period. */
#define TIMER_DITHER_STEP 0x04f1bbcdU
#define TIMER_DITHER_AUTO_NS (60 * NSEC_PER_SEC)

static const char *const timer_contexts[] = { "user", NULL };

static const char *const timer_stages[] = { "timer interrupt", "handler",	 "wake-up",
					    "switch",	       "return to user", NULL };

static const struct option_info timer_options[] = {
	{ "for", OPTION_DURATION, "10s", 0, 0, NULL,
	  "how long; 0: until the samples are there, or it is stopped" },
	{ "samples", OPTION_INTEGER, "0", 0, INT64_MAX, NULL,
	  "samples of each series; 0: until the time is up" },
	{ "interval", OPTION_DURATION, "1ms", 20 * NSEC_PER_USEC, 3600 * NSEC_PER_SEC, NULL,
	  "period of the task" },
	{ "cpu", OPTION_CPUS, "all", 0, 0, NULL, "CPUs to measure on, threads pinned to each" },
	{ "threads", OPTION_INTEGER, "1", 1, 64, NULL, "measuring threads on each CPU" },
	{ "priority", OPTION_INTEGER, TIMER_PRIORITY_DEFAULT, 0, 99, NULL,
	  "SCHED_FIFO priority; 0: SCHED_OTHER" },
	{ "context", OPTION_ENUM, "user", 0, 0, "user", "where the periodic task runs" },
	{ "method", OPTION_ENUM, "clock_nanosleep", 0, 0, "clock_nanosleep",
	  "how the task waits for its due time" },
	{ "dither", OPTION_ENUM, "auto", 0, 0, "auto yes no",
	  "spread due times evenly over their periods; auto: in runs over a minute" },
	{ "stop-above", OPTION_DURATION, "0", 0, 0, NULL,
	  "end at the first latency above this; 0: never" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

static const struct catalogue_series timer_series[] = {
	{ "latency", "ns", "how late the task runs after its due time", "due time",
	  "the task reads the clock", timer_stages },
	{ "dither", "ns", "offset of each due time from its grid point", "grid point", "due time",
	  NULL },
	{ NULL, NULL, NULL, NULL, NULL, NULL },
};

static const struct catalogue_evaluate timer_evaluate[] = {
	{ "idle", "for=65s" },
	{ "sched:groups=4,cpu", "for=80s" },
	{ NULL, NULL },
};

struct timer_thread {
	int latency; /* numbers of its series */
	int dither;  /* -1: none */
	int64_t interval_ns;
	int64_t periods; /* at most so many grid points */
	int64_t samples; /* at most so many samples */
	int64_t limit_ns;
};

struct timer_state {
	struct timer_thread *threads;
	int count;
};

/* Sleep until @due. 0, or EINTR when the run is to stop: other signals do not end the wait. */
static inline int timer_wait(const struct run *run, const struct timespec *due)
{
	int err;

	while ((err = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, due, NULL)) == EINTR &&
	       !run_stopped(run))
		;
	return err;
}

/* The measuring loop: due times on the grid. */
static void timer_loop(struct worker *worker)
{
	const struct timer_thread *t = worker->state;
	struct run *run = worker->run;
	struct series *latency = &run->series[t->latency];
	const struct timespec interval = clock_from_ns(t->interval_ns);
	struct timespec due = clock_from_ns(run->start_ns + latency->info.first_due_ns);
	int64_t periods = t->periods, samples = t->samples;

	while (!run_stopped(run)) {
		struct timespec now;
		int64_t late_ns;

		if (timer_wait(run, &due))
			return;
		clock_gettime(CLOCK_MONOTONIC, &now);
		late_ns = clock_difference_ns(&now, &due);
		series_put(latency, late_ns);
		if (__builtin_expect(late_ns > t->limit_ns, 0)) {
			run_threshold(run, latency, late_ns);
			return;
		}
		periods--;
		if (__builtin_expect(late_ns >= t->interval_ns || latency->lost_open, 0)) {
			int64_t missed = late_ns / t->interval_ns;

			/* those beyond the end are not due any more */
			if (samples == 1 || missed < 0)
				missed = 0;
			if (missed > periods)
				missed = periods;
			periods -= missed;
			due = clock_from_ns(clock_to_ns(&due) + missed * t->interval_ns);
			if (missed)
				series_missed(latency, missed);
			if (run_starved(run, clock_to_ns(&now)))
				return;
		}
		if (--samples <= 0 || periods <= 0)
			return;
		clock_advance(&due, &interval);
	}
}

/*
 * The offset of a grid point, from its number alone: a triangle wave that sweeps the period up and
 * down, and a little chance on top (Murmur3's finaliser), together within [0, interval). So every
 * phase of the period is met equally often, whatever period a disturbance has, and two due times
 * in turn are never closer together than 94 % of the interval. 32-bit arithmetic: it runs per sample.
 */
static inline int64_t timer_dither_ns(int64_t index, int64_t interval_ns)
{
	uint32_t phase = (uint32_t)index * TIMER_DITHER_STEP;
	uint32_t sweep = phase < 1U << 31 ? 2 * phase : 2 * (UINT32_MAX - phase);
	uint32_t chance = (uint32_t)index;
	uint64_t part;

	chance = (chance ^ chance >> 16) * 0x85ebca6b;
	chance = (chance ^ chance >> 13) * 0xc2b2ae35;
	chance ^= chance >> 16;
	/* 63/64 by the sweep, 1/64 by chance; as a part of 2^32 */
	part = (uint64_t)sweep - (sweep >> 6) + (chance >> 6);
	/* intervals are below 2^42 ns: take the part in two halves that fit 64 bits */
	return (int64_t)(((uint64_t)interval_ns >> 16) * part >> 16) +
	       (int64_t)((((uint64_t)interval_ns & 0xffff) * part) >> 32);
}

/* The measuring loop with dither: each due time lies somewhere within its period. */
static void timer_loop_dithered(struct worker *worker)
{
	const struct timer_thread *t = worker->state;
	struct run *run = worker->run;
	struct series *latency = &run->series[t->latency];
	struct series *dither = &run->series[t->dither];
	int64_t grid_ns = run->start_ns + latency->info.first_due_ns;
	int64_t index = 0, samples = t->samples;
	int64_t offset_ns = timer_dither_ns(index, t->interval_ns);

	while (!run_stopped(run)) {
		struct timespec due = clock_from_ns(grid_ns + offset_ns);
		int64_t now_ns, late_ns, missed = 0;

		if (timer_wait(run, &due))
			return;
		now_ns = clock_now_ns(CLOCK_MONOTONIC);
		late_ns = now_ns - clock_to_ns(&due);
		series_put(dither, offset_ns);
		series_put(latency, late_ns);
		if (__builtin_expect(late_ns > t->limit_ns, 0)) {
			run_threshold(run, latency, late_ns);
			return;
		}
		if (--samples <= 0)
			return;
		for (;;) {
			index++;
			grid_ns += t->interval_ns;
			offset_ns = timer_dither_ns(index, t->interval_ns);
			if (index >= t->periods || grid_ns + offset_ns > now_ns)
				break;
			series_put(dither, offset_ns);
			missed++;
		}
		if (__builtin_expect(missed > 0, 0))
			series_missed(latency, missed);
		if (__builtin_expect(missed > 0 || latency->lost_open, 0) &&
		    run_starved(run, now_ns))
			return;
		if (index >= t->periods)
			return;
	}
}

static int timer_add_thread(struct run *run, struct timer_thread *t, int cpu, int number, int all)
{
	const struct option_set *options = &run->options;
	int64_t interval_ns = t->interval_ns;
	int64_t words = TIMER_RING_SECONDS * NSEC_PER_SEC / interval_ns + 64;
	struct series_info info = {
		.name = "latency",
		.context = "user",
		.unit = "ns",
		.cpu = cpu,
		.thread = number,
		.interval_ns = interval_ns,
		/* threads are due one after the other, evenly over the period */
		.first_due_ns = interval_ns / all * number,
		.companion = -1,
		.labels = { { "method", option_text(options, "method") } },
	};

	if (words > TIMER_RING_MAX)
		words = TIMER_RING_MAX;
	t->latency = run_add_series(run, &info, (size_t)words);
	if (t->latency < 0)
		return t->latency;
	if (t->dither >= 0) {
		info.name = "dither";
		info.companion = t->latency;
		t->dither = run_add_series(run, &info, (size_t)words);
		if (t->dither < 0)
			return t->dither;
	}
	number = run_add_worker(run, t->dither >= 0 ? timer_loop_dithered : timer_loop, t, cpu,
				(int)option_number(options, "priority"));
	return number < 0 ? number : 0;
}

static bool timer_is_dithered(struct run *run)
{
	const char *asked = option_text(&run->options, "dither");
	int64_t for_ns = option_number(&run->options, "for");
	int64_t samples = option_number(&run->options, "samples");
	/* so many periods are longer than that, whatever else ends the run */
	int64_t many = TIMER_DITHER_AUTO_NS / option_number(&run->options, "interval");
	bool is_long = (!for_ns || for_ns > TIMER_DITHER_AUTO_NS) && (!samples || samples > many);
	bool dithered = !strcmp(asked, "yes") || (!strcmp(asked, "auto") && is_long);

	option_effective(&run->options, "dither", dithered ? "yes" : "no");
	return dithered;
}

static int timer_setup(struct run *run)
{
	const struct option_set *options = &run->options;
	int64_t interval_ns = option_number(options, "interval");
	int64_t for_ns = option_number(options, "for");
	int64_t samples = option_number(options, "samples");
	int64_t limit_ns = option_number(options, "stop-above");
	int per_cpu = (int)option_number(options, "threads");
	bool dithered = timer_is_dithered(run);
	struct timer_state *state;
	struct cpulist cpus;
	int number = 0, all, err;

	err = run_cpus(run, &cpus);
	if (err)
		return err;
	if (for_ns && for_ns < interval_ns)
		return message_set(&run->msg, -EINVAL,
				   "measure for longer, or at a shorter interval",
				   "not one period of %lld ns is due in %lld ns",
				   (long long)interval_ns, (long long)for_ns);
	all = cpulist_count(&cpus) * per_cpu;
	state = calloc(1, sizeof(*state));
	if (state)
		state->threads = calloc((size_t)all, sizeof(*state->threads));
	run->state = state;
	if (!state || !state->threads)
		return message_set(&run->msg, -ENOMEM, "measure fewer CPUs or threads",
				   "no memory for %d threads", all);
	for (int cpu = cpulist_next(&cpus, 0); cpu >= 0; cpu = cpulist_next(&cpus, cpu + 1)) {
		for (int i = 0; i < per_cpu; i++, number++) {
			struct timer_thread *t = &state->threads[number];

			t->interval_ns = interval_ns;
			t->periods = for_ns ? for_ns / interval_ns : INT64_MAX;
			t->samples = samples ? samples : INT64_MAX;
			t->limit_ns = limit_ns ? limit_ns : INT64_MAX;
			t->dither = dithered ? 0 : -1;
			err = timer_add_thread(run, t, cpu, number, all);
			if (err)
				return err;
		}
	}
	return 0;
}

static void timer_cleanup(struct run *run)
{
	struct timer_state *state = run->state;

	free(state->threads);
	free(state);
}

const struct measurement timer_measurement = {
	.name = "timer",
	.code = "",
	.summary = "latency of a periodic task: from its due time until it runs",
	.role = "measurement",
	.contexts = timer_contexts,
	.options = timer_options,
	.series = timer_series,
	.evaluate = timer_evaluate,
	.setup = timer_setup,
	.cleanup = timer_cleanup,
};
