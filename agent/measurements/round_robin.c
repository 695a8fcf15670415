// SPDX-License-Identifier: Apache-2.0
/*
 * Round robin [THR-B-RR]: lengths and order of the time slices of SCHED_RR threads of one priority
 * that only use the CPU. docs/measurements/round-robin.md says how a slice is found.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/value.h"
#include "methods/ensemble.h"

#define ROBIN_THREADS_MAX 20
#define ROBIN_ROUNDS 3
/* Until there is one in which no thread slept. */
#define ROBIN_TESTS 3
#define ROBIN_TURNS_MAX (ROBIN_THREADS_MAX * ROBIN_ROUNDS)
/* The longest slice measured. A thread whose turn is a quarter longer gives up. */
#define ROBIN_SLICE_MAX_MS 2000
#define ROBIN_LIMIT_NS (2500 * NSEC_PER_MSEC)
/* With longer slices a test has two rounds. */
#define ROBIN_SLICE_ROUNDS_MS 266
/* Longer gaps between two readings of the clock are counted: as other threads' time, or, if the kernel
 * counted no context switch, as stolen (interrupts, a hypervisor). */
#define ROBIN_GAP_NS (100 * NSEC_PER_USEC)
/* Minimum time for a switch to another thread and back. */
#define ROBIN_SWITCH_NS NSEC_PER_USEC
#ifdef ON_COBALT
/* A thread that was preempted begins a new slice there. */
#define ROBIN_LOOK_NS NSEC_PER_SEC
#else
#define ROBIN_LOOK_NS (20 * NSEC_PER_MSEC)
#endif
#define ROBIN_TIMESLICE "/proc/sys/kernel/sched_rr_timeslice_ms"
#define ROBIN_TIMESLICE_MS 100

#define ROBIN_FAIR "round robin is fair"

struct robin_turn {
	int thread;
	int64_t start_ns; /* CLOCK_MONOTONIC, as read by the thread */
	int64_t end_ns;
	int64_t others_ns; /* in between: threads outside the round; not part of the slice */
	int64_t stolen_ns; /* in between, without a switch; the kernel may count it as part of the slice */
};

struct robin_state {
	struct ensemble ensemble;
	int threads;
	int rounds;
	int64_t samples;
	int64_t timeslice_ms; /* as the kernel has it set */
	int64_t tick_ns;
	int first; /* series */
	int later;

	/* a test: one of these after the other */
	uint32_t ready;
	uint32_t gate;
	uint32_t turns; /* begun */
	uint32_t stop;
	uint32_t slept;	  /* how often a thread slept in its turns */
	int complete;	  /* turns; by the thread that stops the others */
	int64_t stop_ns;  /* when it did */
	uint32_t gave_up; /* that thread, counted from 1, if it had the CPU for too long */
	int64_t quantum_ns;
	struct robin_turn turn[ROBIN_TURNS_MAX];
	struct ensemble_thread all[ROBIN_THREADS_MAX];

	/* of all tests */
	int tests;
	int judged;
	int64_t slices;
	int64_t least_ns;
	int64_t most_ns;
	char unfair[160];
	char disturbed[160];			  /* why the last such test was not judged */
	struct robin_turn shown[ROBIN_TURNS_MAX]; /* of the last test, or of an unfair one */
	int shown_count;
};

static const struct option_info robin_options[] = {
	ENSEMBLE_FOR,
	{ "samples", OPTION_INTEGER, "20", 1, 100000, NULL, "slices after the first round" },
	ENSEMBLE_CPU,
	ENSEMBLE_PRIORITY,
	{ "policy", OPTION_ENUM, "rr", 0, 0, "fifo rr other",
	  "scheduling policy of the threads under test" },
	{ "threads", OPTION_INTEGER, "10", 2, ROBIN_THREADS_MAX, NULL, "threads that take turns" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

/* --- the threads under test --- */

static int64_t robin_length(const struct robin_turn *turn)
{
	return turn->end_ns - turn->start_ns - turn->others_ns;
}

/* The first to find the test at its end ends it. */
static void robin_stop(struct robin_state *state, uint32_t complete, int gave_up)
{
	if (atomic_exchange(&state->stop, 1))
		return;
	state->stop_ns = clock_now_ns(CLOCK_MONOTONIC);
	state->complete = (int)complete;
	atomic_store_release(&state->gave_up, (uint32_t)gave_up);
	ensemble_open(&state->stop);
}

/* How often the kernel took the CPU from the thread for another one. */
static uint32_t robin_switches(void)
{
	uint32_t preempted;

	ensemble_slept(&preempted);
	return preempted;
}

/* After a gap. @switched: another thread had the CPU in it. */
static void robin_account(struct robin_turn *turn, int64_t gap_ns, bool switched)
{
	if (gap_ns > ROBIN_GAP_NS && switched)
		turn->others_ns += gap_ns;
	else if (gap_ns > ROBIN_GAP_NS)
		turn->stolen_ns += gap_ns;
}

/*
 * The count of turns shows whether another thread has run. A reading of the clock belongs to a turn only
 * if the count, read after it, is unchanged: the others may run at any time, also while this thread asks
 * for its switches. An interruption of that call is a gap of its own, and a switch may belong to
 * either gap.
 */
static void robin_take_turns(struct robin_state *state, int thread)
{
	int64_t switch_ns = ROBIN_SWITCH_NS + 4 * state->ensemble.stamp_ns;
	uint32_t wanted = (uint32_t)(state->threads * state->rounds);
	uint32_t next = 0; /* the count of turns as this thread's last one left it; 0: none yet */
	struct robin_turn *turn = NULL;
	uint32_t switches = 0;

	while (!atomic_load_relaxed(&state->stop)) {
		int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), gap_ns = 0;
		bool asks;

		if (!next || atomic_load_acquire(&state->turns) != next) {
			uint32_t mine = atomic_fetch_add(&state->turns, 1);

			if (mine >= wanted) {
				robin_stop(state, wanted, 0);
				return;
			}
			next = mine + 1;
			turn = &state->turn[mine];
			now_ns = clock_now_ns(CLOCK_MONOTONIC);
			*turn = (struct robin_turn){ .thread = thread, .start_ns = now_ns };
			asks = true;
		} else {
			gap_ns = now_ns - turn->end_ns;
			asks = gap_ns > switch_ns;
		}
		turn->end_ns = now_ns;
		if (asks) {
			uint32_t before = switches;
			int64_t asked_ns;
			bool whole;

			switches = robin_switches();
			asked_ns = clock_now_ns(CLOCK_MONOTONIC);
			whole = asked_ns - now_ns <= ROBIN_GAP_NS;
			robin_account(turn, gap_ns, whole && switches != before);
			if (whole && atomic_load_acquire(&state->turns) == next)
				turn->end_ns = asked_ns;
		}
		if (robin_length(turn) - turn->stolen_ns > ROBIN_LIMIT_NS)
			robin_stop(state, next - 1, thread + 1);
	}
}

/* The core does not tell a sleep from a preemption. What sleeps there has left the core. */
static uint32_t robin_sleeps(void)
{
#ifdef ON_COBALT
	return 0;
#else
	return ensemble_slept(NULL);
#endif
}

static void robin_body(struct ensemble_thread *thread)
{
	struct robin_state *state = thread->state;
	struct timespec quantum;
	uint32_t slept;

	/* in front of what else the CPU does */
	if (thread->ensemble->policy == SCHED_OTHER)
		setpriority(PRIO_PROCESS, 0, -20);
	if (!thread->number && !sched_rr_get_interval(thread->tid, &quantum))
		state->quantum_ns = clock_to_ns(&quantum);
	atomic_add_release(&state->ready, 1);
	ensemble_gate(&state->gate);
	slept = robin_sleeps();
	robin_take_turns(state, thread->number);
	atomic_fetch_add(&state->slept, robin_sleeps() - slept);
}

/* --- the conductor --- */

/* Start all, let them go together, and join them when one of them has ended it. */
static bool robin_carry_out(struct robin_state *state)
{
	struct ensemble *e = &state->ensemble;
	int64_t until_ns;
	bool fine = true;
	int started = 0;

	state->ready = state->gate = state->turns = state->stop = state->gave_up = 0;
	state->slept = 0;
	for (; started < state->threads && fine; started++) {
		state->all[started] = (struct ensemble_thread){
			.ensemble = e,
			.body = robin_body,
			.state = state,
			.number = started,
			.priority = e->priority - 1,
		};
		fine = ensemble_start(&state->all[started]);
	}
	fine = fine && ensemble_await(e, &state->ready, (uint32_t)state->threads);
	ensemble_loop(e, state->first);
	ensemble_open(&state->gate);
	until_ns = clock_now_ns(CLOCK_MONOTONIC) +
		   state->threads * (state->rounds + 1) * ROBIN_LIMIT_NS;
	while (fine && !atomic_load_acquire(&state->stop)) {
		if (step_stopped(e->step) || clock_now_ns(CLOCK_MONOTONIC) > until_ns)
			fine = false;
		else
			ensemble_sleep_on(&state->stop, 0, ROBIN_LOOK_NS);
	}
	robin_stop(state, 0, 0);
	for (int i = 0; i < started; i++)
		if (!ensemble_join(&state->all[i]))
			return false;
	return fine;
}

static int robin_compare(const void *a, const void *b)
{
	int64_t difference = *(const int64_t *)a - *(const int64_t *)b;

	return difference < 0 ? -1 : difference > 0;
}

/* Limits of a slice's length as the kernel counts it. */
struct robin_range {
	int64_t least_ns;
	int64_t most_ns;
};

/* A gap next to a turn, if longer than a switch, may belong to the slice: before the thread's first
 * reading of the clock or after its last. */
static int64_t robin_margin(int64_t gap_ns)
{
	return gap_ns > ROBIN_GAP_NS ? gap_ns : 0;
}

static struct robin_range robin_range(const struct robin_state *state, int i)
{
	const struct robin_turn *turn = &state->turn[i];
	int64_t after_ns = i + 1 < state->complete ? turn[1].start_ns : state->stop_ns;
	int64_t length_ns = robin_length(turn);

	return (struct robin_range){
		length_ns - turn->stolen_ns,
		length_ns + (i ? robin_margin(turn->start_ns - turn[-1].end_ns) : 0) +
			robin_margin(after_ns - turn->end_ns),
	};
}

/* The medians leave out the first round, because first slices can differ from the others. */
static struct robin_range robin_median(const struct robin_state *state)
{
	int64_t least[ROBIN_TURNS_MAX], most[ROBIN_TURNS_MAX];
	int count = 0;

	for (int i = state->threads; i < state->complete; i++) {
		struct robin_range range = robin_range(state, i);

		least[count] = range.least_ns;
		most[count++] = range.most_ns;
	}
	qsort(least, (size_t)count, sizeof(least[0]), robin_compare);
	qsort(most, (size_t)count, sizeof(most[0]), robin_compare);
	return (struct robin_range){ least[count / 2], most[count / 2] };
}

static bool robin_in_order(const struct robin_state *state, int i)
{
	const struct robin_turn *turn = state->turn;

	if (i >= state->threads)
		return turn[i].thread == turn[i - state->threads].thread;
	for (int k = 0; k < i; k++)
		if (turn[i].thread == turn[k].thread)
			return false;
	return true;
}

/*
 * Writes what is unfair in a test to state->unfair, or why the test cannot be judged to
 * state->disturbed. A test is not judged if a thread slept: its turns have nothing to sleep for, so the
 * kernel was moving a page that it touched, and the thread that moves it waits behind those under
 * test. Nor if the verdict depends on whether the kernel counted stolen time as part of a slice.
 */
static void robin_judge(struct robin_state *state)
{
	uint32_t gave_up = atomic_load_acquire(&state->gave_up);
	struct robin_range median;
	bool certain = true;

	if (state->slept) {
		snprintf(state->disturbed, sizeof(state->disturbed), ENSEMBLE_DISTURBED);
		return;
	}
	if (gave_up) {
		snprintf(state->unfair, sizeof(state->unfair),
			 "thread %u ran for %lld ms in one turn, then gave up", gave_up,
			 (long long)(ROBIN_LIMIT_NS / NSEC_PER_MSEC));
		return;
	}
	median = robin_median(state);
	for (int i = 0; i < state->complete; i++) {
		const struct robin_turn *turn = &state->turn[i];
		struct robin_range range = robin_range(state, i);
		bool in_order = robin_in_order(state, i);
		int64_t length_ns = robin_length(turn);

		if (in_order && range.least_ns >= median.most_ns * 3 / 4 - state->tick_ns &&
		    range.most_ns <= median.least_ns * 5 / 4 + state->tick_ns)
			continue;
		if (in_order && range.most_ns >= median.least_ns * 3 / 4 - state->tick_ns &&
		    range.least_ns <= median.most_ns * 5 / 4 + state->tick_ns) {
			snprintf(state->disturbed, sizeof(state->disturbed),
				 "round %d: interrupts or a hypervisor took %lld.%02lld ms in or "
				 "next to the slice of thread %d",
				 i / state->threads + 1,
				 (long long)((range.most_ns - range.least_ns) / NSEC_PER_MSEC),
				 (long long)((range.most_ns - range.least_ns) / 10000 % 100),
				 turn->thread + 1);
			certain = false;
			continue;
		}
		snprintf(state->unfair, sizeof(state->unfair),
			 "round %d: %sthread %d runs for %lld.%02lld ms, the median is %lld.%02lld "
			 "ms",
			 i / state->threads + 1, in_order ? "" : "out of order, ", turn->thread + 1,
			 (long long)(length_ns / NSEC_PER_MSEC),
			 (long long)(length_ns / 10000 % 100),
			 (long long)(median.most_ns / NSEC_PER_MSEC),
			 (long long)(median.most_ns / 10000 % 100));
		return;
	}
	state->judged += certain;
}

static void robin_put(struct robin_state *state, int count)
{
	struct step *step = state->ensemble.step;

	for (int i = 0; i < count; i++) {
		const struct robin_turn *turn = &state->turn[i];
		int64_t length_ns = robin_length(turn);
		struct series *series;

		series = &step->series[i < state->threads ? state->first : state->later];
		if (i >= state->threads && i % state->threads == 0)
			series_time(series, turn->start_ns - step->start_ns);
		series_put(series, length_ns);
		if (!state->slices++ || length_ns < state->least_ns)
			state->least_ns = length_ns;
		if (length_ns > state->most_ns)
			state->most_ns = length_ns;
	}
}

static void robin_loop(struct worker *worker)
{
	struct robin_state *state = worker->state;
	int64_t done = 0;

	while ((done < state->samples || (!state->judged && state->tests < ROBIN_TESTS)) &&
	       !state->unfair[0] && ensemble_goes_on(&state->ensemble)) {
		state->tests++;
		if (!robin_carry_out(state))
			return;
		robin_judge(state);
		robin_put(state, state->complete);
		memcpy(state->shown, state->turn, sizeof(state->shown));
		/* that of a thread that gave up has no end, but belongs to the picture */
		state->shown_count = state->complete + (state->gave_up != 0);
		done += state->threads * (state->rounds - 1);
	}
}

#ifdef ON_COBALT
static int robin_choose_rounds(struct robin_state *state)
{
	state->rounds = ROBIN_ROUNDS;
	return 0;
}
#else
static int robin_choose_rounds(struct robin_state *state)
{
	struct step *step = state->ensemble.step;
	char value[VALUE_MAX], reason[96];

	state->timeslice_ms = ROBIN_TIMESLICE_MS;
	if (!value_get(ROBIN_TIMESLICE, value, NULL))
		option_parse_integer(value, &state->timeslice_ms);
	state->rounds = ROBIN_ROUNDS - (state->timeslice_ms > ROBIN_SLICE_ROUNDS_MS);
	step->spin_ns = (state->rounds + 1) * ROBIN_LIMIT_NS;
	if (state->timeslice_ms <= ROBIN_SLICE_MAX_MS)
		return 0;
	snprintf(reason, sizeof(reason), "a slice of %lld ms is too long to measure",
		 (long long)state->timeslice_ms);
	return step_skip(step, reason, "set kernel.sched_rr_timeslice_ms to 100");
}
#endif

static int robin_setup(struct step *step)
{
	struct robin_state *state = step->state;
	int err;

	state->threads = (int)option_number(&step->options, "threads");
	state->samples = option_number(&step->options, "samples");
#ifndef ON_COBALT
	/* this clock advances in ticks */
	struct timespec tick;

	if (!clock_getres(CLOCK_MONOTONIC_COARSE, &tick))
		state->tick_ns = clock_to_ns(&tick);
#endif
	err = ensemble_setup(step, &state->ensemble, robin_loop, 1, state->threads);
	err = err ?: robin_choose_rounds(state);
	if (err)
		return err;
	state->first = ensemble_series(&state->ensemble, "slice", "round", "first",
				       state->samples + ROBIN_THREADS_MAX, false);
	state->later = ensemble_series(&state->ensemble, "slice", "round", "later",
				       state->samples + ROBIN_TURNS_MAX, false);
	err = state->first < 0 ? state->first : state->later < 0 ? state->later : 0;
	ensemble_tested(&state->ensemble, state->first, 1);
	ensemble_tested(&state->ensemble, state->later, 1);
	return err;
}

static void robin_put_settings(struct cbor *c, const struct robin_state *state)
{
	cbor_array(c, 2);
	cbor_text(c, "sched_rr_timeslice_ms");
	cbor_int(c, state->timeslice_ms * NSEC_PER_MSEC);
	cbor_array(c, 2);
	cbor_text(c, "tick");
	cbor_int(c, state->tick_ns);
}

static void robin_tables_put(struct step *step, const struct robin_state *state)
{
	static const struct step_column quantum[] = { { "source", "" }, { "time", "ns" } };
	static const struct step_column turns[] = {
		{ "round", "" },
		{ "thread", "" },
		{ "start", "ns" },
		{ "slice", "ns" },
		{ "others in between", "ns" },
		{ "stolen in between", "ns" },
	};
	/* the core has no setting of it, and no tick */
	bool of_linux = step->core == &core_linux;
	struct cbor *c = step_table_begin(step, "quantum", quantum, 2, of_linux ? 3 : 1);

	cbor_array(c, 2);
	cbor_text(c, "sched_rr_get_interval()");
	cbor_int(c, state->quantum_ns);
	if (of_linux)
		robin_put_settings(c, state);
	step_table_end(step);
	c = step_table_begin(step, "turns", turns, 6, state->shown_count);
	for (int i = 0; i < state->shown_count; i++) {
		const struct robin_turn *turn = &state->shown[i];

		cbor_array(c, 6);
		cbor_int(c, i / state->threads + 1);
		cbor_int(c, turn->thread + 1);
		cbor_int(c, turn->start_ns - state->shown[0].start_ns);
		cbor_int(c, robin_length(turn));
		cbor_int(c, turn->others_ns);
		cbor_int(c, turn->stolen_ns);
	}
	step_table_end(step);
}

static int robin_finish(struct step *step)
{
	const struct robin_state *state = step->state;
	char evidence[320];
	int used;

	if (state->ensemble.error)
		return state->ensemble.error;
	used = snprintf(evidence, sizeof(evidence),
			"%lld slices of %d threads, %lld.%02lld to %lld.%02lld ms",
			(long long)state->slices, state->threads,
			(long long)(state->least_ns / NSEC_PER_MSEC),
			(long long)(state->least_ns / 10000 % 100),
			(long long)(state->most_ns / NSEC_PER_MSEC),
			(long long)(state->most_ns / 10000 % 100));
	if (state->disturbed[0])
		snprintf(evidence + used, sizeof(evidence) - (size_t)used,
			 "; %d of %d tests not judged: %s", state->tests - state->judged,
			 state->tests, state->disturbed);
	if (state->unfair[0])
		step_verdict(step, ROBIN_FAIR, "fail", state->unfair,
			     "use SCHED_RR, the only real-time policy with time slices, and check "
			     "what else uses the CPU at that priority or above");
	else if (state->judged)
		step_verdict(step, ROBIN_FAIR, "pass", evidence, "");
	else
		step_verdict(
			step, ROBIN_FAIR, "inconclusive",
			state->disturbed[0] ? evidence : "no test was carried out",
			"re-run on an idle machine, keep the kernel from moving pages "
			"(khugepaged, compaction), and give each virtual CPU a host CPU of its own");
	robin_tables_put(step, state);
	return 0;
}

const struct measurement round_robin_measurement = {
	.name = "round-robin",
	.code = "THR-B-RR",
	.summary = "time slices of SCHED_RR threads of one priority",
	.needs = NEEDS_PRIORITIES,
	.chapter = CHAPTER_THREADS,
	.options = robin_options,
	.series = {
		{ "slice", "ns", "time in which a thread has the CPU",
		  "first reading of the clock after another thread ran",
		  "last reading before another thread runs", NULL },
	},
	.tables = {
		{ "quantum", "length of the slices according to the kernel" },
		{ "turns", "which thread ran, when and for how long, in a test" },
	},
	.verdicts = {
		{ ROBIN_FAIR, "each thread runs once a round, always in the same order, and "
			      "no slice differs from the median of the later rounds by more than "
			      "a quarter of this median plus a tick" },
	},
	.evaluate = { { "idle", "samples=20", "samples=200" } },
	.state_size = sizeof(struct robin_state),
	.setup = robin_setup,
	.finish = robin_finish,
};
