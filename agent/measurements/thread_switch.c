// SPDX-License-Identifier: Apache-2.0
/*
 * Switches between threads [THR-P-SLS]: threads of one priority on one CPU yield in turn. Timed is
 * the span from the last instruction of one to the first of the next.
 * docs/measurements/thread-switch.md says what exactly is timed.
 */
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/value.h"
#include "methods/ensemble.h"
#include "methods/yields.h"
#include "run/worker.h"

#ifdef ON_COBALT
/* A yield of Cobalt that an interrupt cuts short has switched already. Then the task sleeps for a
 * tick of Linux. */
#define SWITCH_MAY_WAIT true
#define SWITCH_TRIES 3 /* of a test loop without such a yield */
#define SWITCH_REMEDY \
	"raise CONFIG_XENO_OPT_REGISTRY_NRSLOTS of the kernel: each thread needs a slot"
#else
#define SWITCH_MAY_WAIT false
#define SWITCH_TRIES 1
#define SWITCH_REMEDY                                                                           \
	"raise the limits of threads (ulimit -u, pids.max of the control group) and of locked " \
	"memory (ulimit -l), or free some memory"
#endif
#define SWITCH_COUNTS "2 10 128 1000"
#define SWITCH_GROUPS 4
#define SWITCH_THREADS_MAX 1000
/* Switches of a test loop, about. */
#define SWITCH_LOOP 500
#define SWITCH_LAPS_MIN 2
/* Approximate kernel memory of a thread: its kernel stack and its task. */
#define SWITCH_IN_KERNEL (24 * 1024)
#define SWITCH_SAMPLES_MAX (SWITCH_THREADS_MAX * SWITCH_LAPS_MIN)
/* Yields of a test loop whose lengths are kept. A thread yields once more than it comes round. */
#define SWITCH_YIELDS_MAX (SWITCH_MAY_WAIT ? SWITCH_THREADS_MAX * (SWITCH_LAPS_MIN + 1) : 1)
/* After so many the conductor sleeps until they are at the gate: to start them all takes a slow
 * machine more than the second after which a thread that did not sleep is ended. */
#define SWITCH_START 50

#define SWITCH_IN_TURN "the threads run in turn"
#define SWITCH_ALL_MEASURED "every number of threads is measured"

/* In the order of SWITCH_COUNTS. */
static const struct switch_known {
	int threads;
	const char *text;
	const char *operation;
} switch_known[] = {
	{ 2, "2", "switch, 2 threads" },
	{ 10, "10", "switch, 10 threads" },
	{ 128, "128", "switch, 128 threads" },
	{ 1000, "1000", "switch, 1000 threads" },
};

/* A number of threads that run at once. */
struct switch_group {
	const struct switch_known *known;
	int series;
	int64_t out_of_turn; /* switches, to another thread than before, or to the same */
	int64_t waits;	     /* yields that slept for a tick */
	bool halted;	     /* the threads did not come round in time */
	char refused[96];    /* why so many threads are not available, or "" */
	struct batch batch;
};

/* Whether the order of the threads of a group counts. */
struct switch_order {
	int64_t judged;	  /* test loops whose order counts */
	int64_t excused;  /* those with a yield that slept or a standstill: their order does not */
	int64_t repeated; /* batches with a thread that was preempted or slept */
	int64_t round_ns; /* between two returns of a thread: the smallest median of a test loop */
	bool halted;	  /* the threads did not come round in time, and one of them had slept */
};

struct switch_state {
	struct ensemble ensemble;
	int64_t samples;
	struct switch_group groups[SWITCH_GROUPS];
	int group_count;

	/* the test loop: set while the threads are at the gate */
	uint32_t gate;	     /* a number for each test loop */
	uint32_t first_gate; /* what it was before the threads were started */
	int threads;
	int laps;
	bool batched;
	bool ends;

	uint32_t lined_up; /* have begun the test loop */
	uint32_t halt;	   /* the threads are to go to the gate at once */
	uint32_t through;
	sem_t all_through;
	uint32_t last;	 /* thread that yielded last */
	int64_t left_ns; /* when */
	int64_t from_ns; /* of a batch */
	int64_t to_ns;
	int64_t out_of_turn;
	int64_t waits;
	int taken;
	int64_t taken_ns[SWITCH_SAMPLES_MAX];
	struct ensemble_thread all[SWITCH_THREADS_MAX];

	struct switch_order orders[SWITCH_GROUPS];

	/* of the test loop, on a core where a yield may wait */
	int64_t tick_ns; /* of Linux */
	int64_t yields_ns[SWITCH_YIELDS_MAX];
	int64_t sorted_ns[SWITCH_YIELDS_MAX];
	uint32_t more[SWITCH_MAY_WAIT ? SWITCH_THREADS_MAX : 1];
};

static const struct option_info switch_options[] = {
	ENSEMBLE_FOR,
	{ "samples", OPTION_INTEGER, "10000", 100, 10000000, NULL,
	  "switches for each number of threads" },
	ENSEMBLE_CPU,
	ENSEMBLE_PRIORITY,
	ENSEMBLE_POLICY,
	{ "threads", OPTION_ENUMS, "2,10,128,1000", 0, 0, SWITCH_COUNTS,
	  "number of threads that yield in turn" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

/* --- the threads under test --- */

/* @sampled: what comes next is a sample. Returns the time at which the thread left. */
static int64_t switch_away(struct switch_state *state, uint32_t number, bool sampled)
{
	int64_t left_ns;

	if (sampled)
		mark_raise(&state->ensemble.step->mark);
	state->left_ns = left_ns = clock_now_ns(CLOCK_MONOTONIC);
	atomic_store_release(&state->last, number);
	sched_yield();
	return left_ns;
}

/* A thread that slept got the CPU more often than it yielded. So did one that was preempted. @got:
 * how often before the loop. */
static void switch_count_more(struct switch_state *state, uint32_t number, uint32_t got,
			      uint32_t yields)
{
	uint32_t more = ensemble_slept(NULL) - got - yields;

	state->more[number] = (int32_t)more > 0 ? more : 0;
}

/* The first yield is for lining up: from then on each comes back from one. */
static void switch_single(struct switch_state *state, uint32_t number)
{
	uint32_t got = SWITCH_MAY_WAIT ? ensemble_slept(NULL) : 0;
	bool last_of_round = atomic_fetch_add(&state->lined_up, 1) + 1 == (uint32_t)state->threads;
	uint32_t before = number, yields = 0;
	int64_t *yields_ns = state->yields_ns;
	int64_t own_ns;

	if (SWITCH_MAY_WAIT)
		yields_ns += number * (uint32_t)(state->laps + 1);
	/* what the one before did here is done */
	atomic_load_acquire(&state->last);
	own_ns = switch_away(state, number, last_of_round);
	for (int lap = 0; lap < state->laps && !atomic_load_relaxed(&state->halt); lap++) {
		int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
		uint32_t last = atomic_load_acquire(&state->last);
		int64_t left_ns = state->left_ns;

		/* a system call: behind it another one may have yielded */
		mark_lower(&state->ensemble.step->mark);
		if (last == number || (before != number && last != before))
			state->out_of_turn++;
		if (last != number && state->taken < SWITCH_SAMPLES_MAX)
			state->taken_ns[state->taken++] = now_ns - left_ns;
		if (SWITCH_MAY_WAIT)
			yields_ns[yields++] = now_ns - own_ns;
		before = last;
		own_ns = switch_away(state, number, !last_of_round || lap + 1 < state->laps);
	}
	if (SWITCH_MAY_WAIT) {
		yields_ns[yields++] = clock_now_ns(CLOCK_MONOTONIC) - own_ns;
		switch_count_more(state, number, got, yields);
	}
}

/* Between two returns of the first thread all of them yield as often. */
static void switch_batched(struct switch_state *state, uint32_t number)
{
	uint32_t got = SWITCH_MAY_WAIT ? ensemble_slept(NULL) : 0;
	int lap;

	sched_yield();
	if (!number)
		state->from_ns = clock_now_ns(CLOCK_MONOTONIC);
	for (lap = 0; lap < state->laps && !atomic_load_relaxed(&state->halt); lap++)
		sched_yield();
	if (!number)
		state->to_ns = clock_now_ns(CLOCK_MONOTONIC);
	if (SWITCH_MAY_WAIT)
		switch_count_more(state, number, got, 1 + (uint32_t)lap);
}

static void switch_through(struct switch_state *state)
{
	if (atomic_fetch_add(&state->through, 1) + 1 == (uint32_t)state->threads)
		sem_post(&state->all_through);
}

static void switch_body(struct ensemble_thread *thread)
{
	struct switch_state *state = thread->state;
	uint32_t number = (uint32_t)thread->number;

	/* in front of what else the CPU does */
	if (thread->ensemble->policy == SCHED_OTHER)
		setpriority(PRIO_PROCESS, 0, -20);
	for (uint32_t seen = state->first_gate;; seen++) {
		switch_through(state);
		ensemble_wait(&state->gate, seen + 1);
		if (state->ends)
			return;
		if (state->batched)
			switch_batched(state, number);
		else
			switch_single(state, number);
	}
}

/* --- the conductor --- */

/* Without polling, which would disturb them. The semaphore's limit is a time of day, which may be
 * set during the wait. */
static bool switch_await(struct switch_state *state)
{
	int64_t end_ns = clock_now_ns(CLOCK_MONOTONIC) + ENSEMBLE_PATIENCE_NS;
	int64_t left_ns = ENSEMBLE_PATIENCE_NS;

	ensemble_release(&state->ensemble);
	while (left_ns > 0) {
		int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
		int64_t part_ns = left_ns < ENSEMBLE_PART_NS ? left_ns : ENSEMBLE_PART_NS;
		struct timespec until = clock_from_ns(clock_now_ns(CLOCK_REALTIME) + part_ns);
		bool through = !sem_timedwait(&state->all_through, &until);

		end_ns += ensemble_stalled(&state->ensemble, now_ns, part_ns);
		if (through)
			return true;
		left_ns = end_ns - clock_now_ns(CLOCK_MONOTONIC);
	}
	return false;
}

static void switch_open(struct switch_state *state)
{
	atomic_store_release(&state->through, 0);
	ensemble_post(&state->gate);
}

/* The yields of the test loop that slept for a tick. The round is that of the fastest loop, because
 * after a sleep of one of two threads all yields may sleep. In a batch each switch without a yield
 * counts. */
static int64_t switch_waits(struct switch_state *state, struct switch_order *order)
{
	int64_t waits = 0, round_ns;

	if (state->batched) {
		for (int i = 0; i < state->threads; i++)
			waits += state->more[i];
		return waits;
	}
	round_ns = yields_round(state->yields_ns, state->threads * (state->laps + 1),
				state->sorted_ns);
	if (!order->round_ns || round_ns < order->round_ns)
		order->round_ns = round_ns;
	for (int i = 0; i < state->threads; i++)
		waits += yields_waited(&state->yields_ns[i * (state->laps + 1)], state->laps + 1,
				       state->more[i], order->round_ns, state->tick_ns);
	return waits;
}

/* A test loop: all threads come round @laps times. While one of them sleeps for a tick, the others
 * are in another order. */
static bool switch_go(struct switch_state *state, struct switch_group *group, bool batched)
{
	struct switch_order *order = &state->orders[group - state->groups];
	int64_t out_of_turn = state->out_of_turn;
	uint32_t stalls = state->ensemble.stalls;
	bool halted, stalled;

	state->batched = batched;
	atomic_store_release(&state->lined_up, 0);
	state->taken = 0;
	state->waits = 0;
	if (SWITCH_MAY_WAIT && !batched)
		memset(state->yields_ns, 0, sizeof(state->yields_ns));
	switch_open(state);
	halted = !switch_await(state);
	if (halted) {
		atomic_store_release(&state->halt, 1);
		if (!switch_await(state))
			ensemble_fail(&state->ensemble, -ETIMEDOUT,
				      "a thread of the measurement did not end");
	}
	if (SWITCH_MAY_WAIT && !state->ensemble.error)
		state->waits = switch_waits(state, order);
	if (batched)
		order->repeated += state->waits > 0;
	else
		group->waits += state->waits;
	if (halted && !state->waits) {
		group->halted = true;
		return false;
	}
	if (halted) {
		order->halted = true;
		atomic_store_release(&state->halt, 0);
	}
	/* threads that were stopped continue in another order */
	stalled = state->ensemble.stalls != stalls;
	if (state->waits || stalled)
		state->out_of_turn = out_of_turn;
	if (!batched && (state->waits || stalled))
		order->excused++;
	else if (!batched)
		order->judged++;
	return !state->ensemble.error;
}

/* Ends the threads that wait at the gate. */
static void switch_end(struct switch_state *state, int started)
{
	state->ends = true;
	switch_open(state);
	for (int i = 0; i < started; i++)
		if (!ensemble_join(&state->all[i]))
			return;
}

/* Their stacks are locked: on a small board the kernel would end a process to make room. */
static bool switch_fits(struct switch_group *group)
{
	int64_t available = value_memory_available();
	int64_t needed =
		group->known->threads * (int64_t)(worker_small_stack_size() + SWITCH_IN_KERNEL);

	if (!available || needed <= available / 2)
		return true;
	snprintf(group->refused, sizeof(group->refused),
		 "%d threads need %lld MiB: too much of the %lld MiB that are free",
		 group->known->threads, (long long)(needed >> 20), (long long)(available >> 20));
	return false;
}

static bool switch_start(struct switch_state *state, struct switch_group *group)
{
	struct ensemble *e = &state->ensemble;
	bool fits;

	ensemble_pause(e);
	fits = switch_fits(group);
	ensemble_resume(e);
	if (!fits)
		return false;
	state->threads = group->known->threads;
	state->laps = SWITCH_LOOP / group->known->threads;
	if (state->laps < SWITCH_LAPS_MIN)
		state->laps = SWITCH_LAPS_MIN;
	state->ends = false;
	state->first_gate = atomic_load_acquire(&state->gate);
	atomic_store_release(&state->halt, 0);
	atomic_store_release(&state->through, 0);
	for (int i = 0; i < group->known->threads; i++) {
		state->all[i] = (struct ensemble_thread){
			.ensemble = e,
			.body = switch_body,
			.state = state,
			.number = i,
			.priority = e->priority - 1,
		};
		if (i % SWITCH_START == 0 && !ensemble_await(e, &state->through, (uint32_t)i))
			break;
		if (ensemble_start(&state->all[i]))
			continue;
		/* the other numbers can still be measured */
		snprintf(group->refused, sizeof(group->refused), "thread %d of %d: %s", i + 1,
			 group->known->threads, strerror(-e->error));
		e->error = 0;
		e->step->msg = (struct message){ 0 };
		switch_end(state, i);
		return false;
	}
	if (step_stopped(e->step))
		return false;
	if (switch_await(state))
		return true;
	return ensemble_fail(e, -ETIMEDOUT, "a thread of the measurement did not start");
}

static void switch_measure(struct switch_state *state, struct switch_group *group)
{
	struct ensemble *e = &state->ensemble;
	struct series *series = &e->step->series[group->series];
	int64_t left = state->samples;

	state->out_of_turn = 0;
	while (left > 0 && ensemble_goes_on(e)) {
		ensemble_loop(e, group->series);
		if (!switch_go(state, group, false))
			break;
		for (int i = 0; i < state->taken && i < left; i++)
			series_put(series, ensemble_net(e, state->taken_ns[i]));
		left -= state->laps * state->threads;
		/* a loop whose order counts takes the place of one with a sleep */
		for (int tries = 1; tries < SWITCH_TRIES && state->waits; tries++)
			if (!switch_go(state, group, false))
				break;
		if (group->halted)
			break;
		for (int tries = 0; tries < SWITCH_TRIES; tries++)
			if (!switch_go(state, group, true) || !state->waits)
				break;
		if (group->halted)
			break;
		if (state->waits)
			continue;
		batch_add(&group->batch, state->laps * state->threads,
			  state->to_ns - state->from_ns, e->stamp_ps);
	}
	group->out_of_turn = state->out_of_turn;
}

static void switch_loop(struct worker *worker)
{
	struct switch_state *state = worker->state;

	for (int i = 0; i < state->group_count; i++) {
		struct switch_group *group = &state->groups[i];

		if (!ensemble_goes_on(&state->ensemble))
			return;
		if (switch_start(state, group))
			switch_measure(state, group);
		if (state->ensemble.error)
			return;
		if (!group->refused[0])
			switch_end(state, group->known->threads);
	}
}

/* The option `threads`: the most at once. */
static int switch_choose(struct switch_state *state, const char *text)
{
	int most = 0;

	for (; *text; text += *text == ',') {
		size_t size = strcspn(text, ",");
		int known = (int)option_value_number(SWITCH_COUNTS, text, size);

		state->groups[state->group_count++].known = &switch_known[known];
		if (switch_known[known].threads > most)
			most = switch_known[known].threads;
		text += size;
	}
	return most;
}

static int switch_setup(struct step *step)
{
	struct switch_state *state = step->state;
	struct timespec tick = { 0, 0 };
	int most, err;

	clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
	state->tick_ns = clock_to_ns(&tick);
	sem_init(&state->all_through, 0, 0);
	state->samples = option_number(&step->options, "samples");
	most = switch_choose(state, option_text(&step->options, "threads"));
	err = ensemble_setup(step, &state->ensemble, switch_loop, 1, most);
	for (int i = 0; i < state->group_count && !err; i++) {
		struct switch_group *group = &state->groups[i];

		group->batch.operation = group->known->operation;
		group->series = ensemble_series(&state->ensemble, "switch", "threads",
						group->known->text, state->samples, true);
		if (group->series < 0)
			err = group->series;
		ensemble_tested(&state->ensemble, group->series, 1);
	}
	return err;
}

/* The first number of threads that the step did not come to, or 0. */
static int switch_untried(const struct switch_state *state)
{
	for (int i = 0; i < state->group_count; i++) {
		const struct switch_group *group = &state->groups[i];
		const struct switch_order *order = &state->orders[i];

		if (!group->refused[0] && !group->halted && !order->halted && !order->judged &&
		    !order->excused)
			return group->known->threads;
	}
	return 0;
}

static void switch_verdict(struct step *step, const struct switch_state *state)
{
	int untried = switch_untried(state);
	char evidence[640] = "", waits[48], repeated[64], group_name[32];
	int64_t switches = 0, out_of_turn = 0;
	bool blind = step->core->counts && !step->core->counts();
	bool halted = false, judged = true, failed;
	size_t used = 0;

	for (int i = 0; i < state->group_count; i++) {
		const struct switch_group *group = &state->groups[i];
		const struct switch_order *order = &state->orders[i];
		int64_t count = step->series[group->series].histogram.count;

		switches += count;
		out_of_turn += group->out_of_turn;
		halted = halted || group->halted;
		if (group->refused[0])
			continue;
		judged = judged && !order->halted && order->judged >= order->excused;
		snprintf(waits, sizeof(waits), ", yields that slept for a tick: %lld",
			 (long long)group->waits);
		snprintf(repeated, sizeof(repeated),
			 ", batches with a preemption or such a yield: %lld",
			 (long long)order->repeated);
		used += (size_t)snprintf(
			evidence + used, sizeof(evidence) - used,
			"%s%d threads: %lld switches, %lld out of turn%s%s%s", used ? "; " : "",
			group->known->threads, (long long)count, (long long)group->out_of_turn,
			group->waits ? waits : "", order->repeated ? repeated : "",
			group->halted || order->halted ? ", stopped after 1 s" : "");
	}
	if (!used)
		return;
	failed = out_of_turn || halted;
	snprintf(group_name, sizeof(group_name), "a group of %d threads", untried);
	if (failed && blind)
		step_verdict(step, SWITCH_IN_TURN, "inconclusive", evidence, CORE_COUNTS_REMEDY);
	else if (failed)
		step_verdict(
			step, SWITCH_IN_TURN, "fail", evidence,
			"measure with --policy fifo: these times do not belong to switches in turn");
	else if (untried)
		ensemble_not_tried(&state->ensemble, SWITCH_IN_TURN, group_name);
	else if (switches && judged)
		step_verdict(step, SWITCH_IN_TURN, "pass", evidence, "");
	else
		step_verdict(step, SWITCH_IN_TURN, "inconclusive", evidence,
			     switches ?
				     "measure again: too many test loops had such a yield, or the "
				     "machine stood still in them" :
				     "");
}

static int switch_finish(struct step *step)
{
	struct switch_state *state = step->state;
	struct batch rows[SWITCH_GROUPS];

	for (int i = 0; i < state->group_count; i++) {
		rows[i] = state->groups[i].batch;
		if (state->groups[i].refused[0])
			step_verdict(step, SWITCH_ALL_MEASURED, "skipped", state->groups[i].refused,
				     SWITCH_REMEDY);
	}
	switch_verdict(step, state);
	batch_table(step, rows, state->group_count);
	return state->ensemble.error;
}

const struct measurement thread_switch_measurement = {
	.name = "thread-switch",
	.code = "THR-P-SLS",
	.summary = "time to switch between threads of one priority",
	.needs = NEEDS_PRIORITIES,
	.chapter = CHAPTER_THREADS,
	.options = switch_options,
	.series = {
		{ "switch", "ns", "time of a switch to the next thread of the priority",
		  "before sched_yield() in one thread", "after it in the next one", NULL },
	},
	.tables = { { BATCH_TABLE, BATCH_MEANING } },
	.verdicts = {
		{ SWITCH_IN_TURN, "each after the same one, and none twice" },
		{ SWITCH_ALL_MEASURED,
		  "a number of threads that is not available here is skipped" },
	},
	.evaluate = { { "idle", "samples=10000", "samples=1000000" } },
	.mark = &mark_spans,
	.state_size = sizeof(struct switch_state),
	.setup = switch_setup,
	.finish = switch_finish,
};
