// SPDX-License-Identifier: Apache-2.0
/*
 * Wake-up across CPUs: a thread on one CPU wakes, with a futex, a thread that sleeps on another
 * CPU. docs/measurements/cpu-wakeup.md says what exactly is timed. There is a thread on each CPU.
 * Test loops of pairs take turns: one thread rings, one sleeps and stores the samples, the others
 * wait for their turn. If the sleeper was not yet asleep, the ring is counted without a sample, and
 * repeated.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "methods/cpupair.h"
#include "methods/ensemble.h"

/* Max samples of a test loop. */
#define WAKEUP_LOOP 100
/* Longest part of a test loop whose samples have a single time. */
#define WAKEUP_BLOCK_NS (10 * NSEC_PER_MSEC)
#define WAKEUP_LOOK_NS (20 * NSEC_PER_USEC)
#define WAKEUP_LOOKS 50
/* A turn that no test loop has: no thread gets another turn. */
#define WAKEUP_OVER INT32_MAX
/* A sleeper that is not back after so long does not come. */
#define WAKEUP_PATIENCE_NS (5 * NSEC_PER_SEC)

struct wakeup_bell {
	uint32_t rung __attribute__((aligned(64)));  /* how often: the futex */
	int64_t rung_ns;			     /* CLOCK_MONOTONIC just before */
	uint32_t returned;			     /* the ring whose FUTEX_WAKE has */
	uint32_t ready __attribute__((aligned(64))); /* for this ring the sleeper waits */
	uint32_t loops;				     /* test loops that the sleeper has finished */
	int64_t samples;
	int64_t early;	 /* rung before it slept */
	int64_t dropped; /* samples that were given up, because too many rings were early */
};

struct wakeup_state {
	struct step *step;
	struct cpupairs all;
	struct wakeup_bell *bells; /* of each pair */
	int64_t samples;
	int64_t pause_ns;
	int64_t loop; /* samples of a test loop */
	int64_t for_ns;
	uint32_t turn __attribute__((aligned(64))); /* number of the test loop: a futex */
	uint32_t lost;				    /* a sleeper did not wake; pair number + 1 */
};

static const struct option_info wakeup_options[] = {
	CPUPAIR_OPTIONS,
	{ "pause", OPTION_DURATION, "100us", 20 * NSEC_PER_USEC, NSEC_PER_SEC, NULL,
	  "minimum sleep before a wake-up" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

static int wakeup_futex(const uint32_t *word, int operation, uint32_t value)
{
	return syscall(SYS_futex, word, operation, value, NULL, NULL, 0) < 0 ? errno : 0;
}

static void wakeup_next_turn(struct wakeup_state *state, uint32_t turn)
{
	atomic_store_release(&state->turn, turn);
	wakeup_futex(&state->turn, FUTEX_WAKE_PRIVATE, INT32_MAX);
}

/* Whether it comes. */
static bool wakeup_await_turn(struct wakeup_state *state, uint32_t mine)
{
	for (;;) {
		uint32_t turn = atomic_load_acquire(&state->turn);

		if (step_stopped(state->step) || turn > mine)
			return false;
		if (turn == mine)
			return true;
		wakeup_futex(&state->turn, FUTEX_WAIT_PRIVATE, turn);
	}
}

/* After a ring that came too early: its FUTEX_WAKE may be held up, and would end the next sleep before
 * the next ring does. False: the step ends. */
static bool wakeup_await_return(const struct wakeup_state *state, const struct wakeup_bell *bell)
{
	const struct timespec look = clock_from_ns(WAKEUP_LOOK_NS);

	while (atomic_load_acquire(&bell->returned) != atomic_load_acquire(&bell->rung)) {
		if (step_stopped(state->step))
			return false;
		nanosleep(&look, NULL);
	}
	return true;
}

/* The one that is woken. */
static void wakeup_sleep(struct wakeup_state *state, int number, int64_t count)
{
	struct wakeup_bell *bell = &state->bells[number];
	struct series *series = &state->step->series[state->all.pairs[number].series];
	int64_t attempts = 4 * count + 100, block_ns = 0;

	while (count && attempts--) {
		uint32_t rung = atomic_load_acquire(&bell->rung);
		int64_t woken_ns;
		int err;

		atomic_store_release(&bell->ready, rung + 1);
		do {
			err = wakeup_futex(&bell->rung, FUTEX_WAIT_PRIVATE, rung);
			woken_ns = clock_now_ns(CLOCK_MONOTONIC);
			if (step_stopped(state->step))
				return;
		} while (atomic_load_acquire(&bell->rung) == rung);
		mark_lower(&state->step->mark);
		/* or already awake, because something else woke it */
		if (err || woken_ns < bell->rung_ns) {
			bell->early++;
			if (!wakeup_await_return(state, bell))
				return;
			continue;
		}
		if (bell->rung_ns - block_ns >= WAKEUP_BLOCK_NS) {
			block_ns = bell->rung_ns;
			series_time(series, block_ns - state->step->start_ns);
		}
		series_put(series, woken_ns - bell->rung_ns - series->info.stamp_ns);
		bell->samples++;
		count--;
	}
	bell->dropped += count;
	atomic_store_release(&bell->loops, bell->loops + 1);
}

/* The one that wakes. It sleeps in between, so that neither CPU is taken from others for long. */
static void wakeup_ring(struct wakeup_state *state, int number, uint32_t loops)
{
	struct wakeup_bell *bell = &state->bells[number];
	const struct timespec pause = clock_from_ns(state->pause_ns);
	const struct timespec look = clock_from_ns(WAKEUP_LOOK_NS);
	int64_t rung_ns = clock_now_ns(CLOCK_MONOTONIC);

	for (;;) {
		uint32_t next = atomic_load_relaxed(&bell->rung) + 1;
		int64_t from_ns = clock_now_ns(CLOCK_MONOTONIC);

		nanosleep(&pause, NULL);
		rung_ns += ensemble_late(from_ns, state->pause_ns);
		if (step_stopped(state->step) || atomic_load_acquire(&bell->loops) > loops)
			return;
		if (atomic_load_acquire(&bell->ready) != next) {
			if (clock_now_ns(CLOCK_MONOTONIC) - rung_ns < WAKEUP_PATIENCE_NS)
				continue;
			atomic_store_release(&state->lost, (uint32_t)number + 1);
			atomic_store_release(&state->step->stop, STEP_STOP);
			return;
		}
		bell->rung_ns = rung_ns = mark_from_ns(&state->step->mark);
		atomic_store_release(&bell->rung, next);
		wakeup_futex(&bell->rung, FUTEX_WAKE_PRIVATE, 1);
		atomic_store_release(&bell->returned, next);
		/* the last sample of a turn needs no pause behind it */
		for (int i = 0; i < WAKEUP_LOOKS && state->pause_ns > WAKEUP_LOOKS * WAKEUP_LOOK_NS;
		     i++) {
			if (atomic_load_acquire(&bell->loops) > loops)
				return;
			nanosleep(&look, NULL);
		}
	}
}

static void wakeup_loop(struct worker *worker)
{
	struct wakeup_state *state = worker->state;
	int64_t start_ns = clock_now_ns(CLOCK_MONOTONIC);
	uint32_t turn = 0, loops = 0;

	for (int64_t done = 0; done < state->samples; done += state->loop, loops++)
		for (int i = 0; i < state->all.count; i++, turn++) {
			const struct cpupair *pair = &state->all.pairs[i];
			int64_t left = state->samples - done;

			if (worker->cpu != pair->from && worker->cpu != pair->to)
				continue;
			if (!wakeup_await_turn(state, turn))
				return;
			if (worker->cpu == pair->to) {
				wakeup_sleep(state, i, left < state->loop ? left : state->loop);
				continue;
			}
			wakeup_ring(state, i, loops);
			if (state->for_ns &&
			    clock_now_ns(CLOCK_MONOTONIC) - start_ns >= state->for_ns)
				wakeup_next_turn(state, WAKEUP_OVER);
			else
				wakeup_next_turn(state, turn + 1);
		}
}

/* The worker of that CPU; -errno with a message. */
static int wakeup_worker(struct step *step, int cpu)
{
	int worker;

	for (int i = 0; i < step->worker_count; i++)
		if (step->workers[i].cpu == cpu)
			return i;
	worker = step_add_worker(step, wakeup_loop, step->state, cpu,
				 (int)option_number(&step->options, "priority"));
	if (worker >= 0)
		step->workers[worker].prepare = cpupairs_prepare;
	return worker;
}

/* Only between test loops is --for checked: their pauses take a second at most. */
static int64_t wakeup_loop_samples(int64_t pause_ns)
{
	int64_t samples = NSEC_PER_SEC / pause_ns;

	return samples < 1 ? 1 : samples < WAKEUP_LOOP ? samples : WAKEUP_LOOP;
}

static int wakeup_setup(struct step *step)
{
	struct wakeup_state *state = step->state;
	int err;

	*state = (struct wakeup_state){
		.step = step,
		.samples = option_number(&step->options, "samples"),
		.pause_ns = option_number(&step->options, "pause"),
		.for_ns = option_number(&step->options, "for"),
	};
	state->loop = wakeup_loop_samples(state->pause_ns);
	err = cpupairs_choose(step, &state->all);
	if (err)
		return err;
	state->bells = step_alloc(step, (size_t)state->all.count, sizeof(*state->bells));
	if (!state->bells)
		return -ENOMEM;
	for (int i = 0; i < state->all.count && err >= 0; i++) {
		struct cpupair *pair = &state->all.pairs[i];

		err = wakeup_worker(step, pair->from);
		err = err < 0 ? err : wakeup_worker(step, pair->to);
		err = err < 0 ? err : cpupairs_series(step, pair, "wake", err, state->samples);
	}
	return err < 0 ? err : 0;
}

static void wakeup_table(struct step *step, const struct wakeup_state *state)
{
	static const struct step_column columns[] = {
		{ "from", "" },
		{ "to", "" },
		{ "wake-ups", "count" },
		{ "early", "count" },
	};
	struct cbor *c = step_table_begin(step, "pairs", columns, 4, state->all.count);

	for (int i = 0; i < state->all.count; i++) {
		cbor_array(c, 4);
		cbor_text(c, state->all.pairs[i].labels[0]);
		cbor_text(c, state->all.pairs[i].labels[1]);
		cbor_int(c, state->bells[i].samples);
		cbor_int(c, state->bells[i].early);
	}
	step_table_end(step);
}

static void wakeup_tell_dropped(struct step *step, const struct wakeup_state *state)
{
	int64_t dropped = 0;
	char text[160];

	for (int i = 0; i < state->all.count; i++)
		dropped += state->bells[i].dropped;
	snprintf(text, sizeof(text),
		 "%lld sample%s not taken, because the thread to wake was awake: see the table of "
		 "pairs, and raise --pause",
		 (long long)dropped, dropped == 1 ? " was" : "s were");
	if (dropped)
		step_message(step, clock_now_ns(CLOCK_MONOTONIC) - step->start_ns, text);
}

/* For a pair without a sample: all of its calls were early, or the step ended before. */
static const char *wakeup_remedy(const struct step *step, const struct wakeup_state *state)
{
	for (int i = 0; i < state->all.count; i++)
		if (state->bells[i].dropped && !cpupairs_sampled(step, &state->all.pairs[i]))
			return "raise --pause";
	return CPUPAIR_LONGER;
}

static int wakeup_finish(struct step *step)
{
	struct wakeup_state *state = step->state;

	wakeup_table(step, state);
	wakeup_tell_dropped(step, state);
	if (!state->lost) {
		cpupairs_verdict(step, &state->all, wakeup_remedy(step, state));
		return 0;
	}
	return message_set(&step->msg, -EIO, "check what else runs there at a higher priority",
			   "the thread on %s did not run for 5 s",
			   state->all.pairs[state->lost - 1].labels[1]);
}

const struct measurement cpu_wakeup_measurement = {
	.name = "cpu-wakeup",
	.summary = "time to wake a thread on another CPU",
	.chapter = CHAPTER_KERNEL,
	.options = wakeup_options,
	.series = {
		{ "wake", "ns", "time to wake a thread on another CPU",
		  "before FUTEX_WAKE, on one CPU", "after FUTEX_WAIT, on the other",
		  "system call,wake-up,interrupt to the other CPU,exit from idle,switch,"
		  "return to user" },
	},
	.tables = { { "pairs", "wake-ups of each pair, and wake-ups before the thread slept" } },
	.verdicts = { { CPUPAIR_VERDICT, CPUPAIR_VERDICT_MEANING } },
	.evaluate = { { "idle", "samples=500 pairs=6", "samples=20000 pairs=56" } },
	.mark = &mark_spans,
	.not_on_cobalt =
		"wake-ups between CPUs are measured with futexes, which exist only on Linux",
	.state_size = sizeof(struct wakeup_state),
	.setup = wakeup_setup,
	.finish = wakeup_finish,
};
