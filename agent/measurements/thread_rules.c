// SPDX-License-Identifier: Apache-2.0
/*
 * The rules of thread scheduling [THR-B-NEW]: which thread runs when one is created or yields, and
 * the queue position of a thread whose priority is lowered. docs/measurements/thread-rules.md has
 * each rule.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>

#include "methods/ensemble.h"
#include "methods/order.h"

/* CPU time of a thread that lets another one come in between, if the kernel allows it: several
 * slices of SCHED_OTHER. */
#define RULES_SPIN_NS (20 * NSEC_PER_MSEC)
/* Below the conductor's priority. */
#define RULES_HIGH 1
#define RULES_MIDDLE 2
#define RULES_LOW 3

#define RULES_OTHERS 3
#define RULES_ENDS 8

struct rules_state;

/* A rule: what the creator does, its priority, and the threads that have to run in turn. */
struct rules_case {
	const char *rule;
	void (*creator)(struct ensemble_thread *thread);
	int level;
	const char *threads[RULES_ENDS];
};

struct rules_state {
	struct ensemble ensemble;
	struct ensemble_thread creator;
	struct ensemble_thread others[RULES_OTHERS];
	const struct rules_case *test; /* under way */
	int started;		       /* of the others */
	uint32_t stalls;	       /* of the ensemble, before the current round */
	struct order now;	       /* of the current round */
	struct order_rounds *rounds;   /* of each test */
};

static const struct option_info rules_options[] = {
	ENSEMBLE_FOR,
	ENSEMBLE_CPU,
	ENSEMBLE_PRIORITY,
	ENSEMBLE_POLICY,
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

#define RULES_LOWER "a new thread of lower priority waits"
#define RULES_EQUAL "a new thread of equal priority goes to the tail"
#define RULES_HIGHER "a new thread of higher priority runs at once"
#define RULES_YIELD "a yield lets all others of the same priority run"

/* --- the threads under test --- */

static void rules_mark(const struct ensemble_thread *thread, const char *what)
{
	struct rules_state *state = thread->state;

	order_mark(&state->now, thread->name, what);
}

/* CPU time: on a busy CPU SCHED_OTHER may leave nothing of 20 ms to any of the threads. Less than a
 * quantum, with SCHED_RR. */
static void rules_spin(const struct ensemble_thread *thread)
{
	int64_t until_ns = RULES_SPIN_NS;
	struct timespec quantum;

	if (thread->ensemble->policy == SCHED_RR && !sched_rr_get_interval(0, &quantum) &&
	    clock_to_ns(&quantum) / 4 < until_ns)
		until_ns = clock_to_ns(&quantum) / 4;
	until_ns += clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
	while (clock_now_ns(CLOCK_THREAD_CPUTIME_ID) < until_ns)
		;
}

static void rules_short(struct ensemble_thread *thread)
{
	rules_mark(thread, "runs");
}

static void rules_long(struct ensemble_thread *thread)
{
	rules_mark(thread, "runs");
	rules_spin(thread);
	rules_mark(thread, "ends");
}

static struct ensemble_thread *rules_create(struct ensemble_thread *creator, const char *name,
					    int level, void (*body)(struct ensemble_thread *thread))
{
	struct rules_state *state = creator->state;
	struct ensemble_thread *thread = &state->others[state->started++];

	*thread = (struct ensemble_thread){
		.ensemble = creator->ensemble,
		.body = body,
		.state = state,
		.name = name,
		.priority = creator->ensemble->priority - level,
	};
	ensemble_start(thread);
	return thread;
}

static void rules_lower(struct ensemble_thread *thread)
{
	rules_mark(thread, "creates");
	rules_create(thread, "low", RULES_LOW, rules_short);
	rules_spin(thread);
	rules_mark(thread, "ends");
}

static void rules_equal(struct ensemble_thread *thread)
{
	rules_mark(thread, "creates");
	rules_create(thread, "first", RULES_MIDDLE, rules_short);
	rules_create(thread, "second", RULES_MIDDLE, rules_short);
	rules_spin(thread);
	rules_mark(thread, "ends");
}

static void rules_higher(struct ensemble_thread *thread)
{
	rules_mark(thread, "creates");
	rules_create(thread, "high", RULES_HIGH, rules_long);
	rules_mark(thread, "goes on"); /* language-ok: name in streams */
}

static void rules_yield(struct ensemble_thread *thread)
{
	rules_create(thread, "low", RULES_LOW, rules_short);
	rules_create(thread, "first", RULES_MIDDLE, rules_long);
	rules_create(thread, "second", RULES_MIDDLE, rules_long);
	rules_mark(thread, "yields");
	sched_yield();
	rules_mark(thread, "goes on"); /* language-ok: name in streams */
}

/* A running thread lowers itself to the priority of one that waits. */
static void rules_lower_running(struct ensemble_thread *thread)
{
	rules_create(thread, "waiting", RULES_LOW, rules_short);
	rules_mark(thread, "is lowered");
	ensemble_change_priority(thread, thread->ensemble->priority - RULES_LOW);
	rules_mark(thread, "runs");
}

/* A thread that is ready is lowered to the priority of another one. */
static void rules_lower_ready(struct ensemble_thread *thread)
{
	struct sched_param param = { .sched_priority = thread->ensemble->priority - RULES_LOW };
	struct ensemble_thread *lowered;

	lowered = rules_create(thread, "lowered", RULES_MIDDLE, rules_short);
	rules_create(thread, "waiting", RULES_LOW, rules_short);
	rules_mark(thread, "lowers");
	if (lowered->created)
		pthread_setschedparam(lowered->thread, thread->ensemble->policy, &param);
}

static const struct rules_case rules_cases[] = {
	{ RULES_LOWER, rules_lower, RULES_MIDDLE, { "creator", "creator", "low" } },
	{ RULES_EQUAL, rules_equal, RULES_MIDDLE, { "creator", "creator", "first", "second" } },
	{ RULES_HIGHER, rules_higher, RULES_MIDDLE, { "creator", "high", "high", "creator" } },
	{ RULES_YIELD,
	  rules_yield,
	  RULES_MIDDLE,
	  { "creator", "first", "first", "second", "second", "creator", "low" } },
};

#define RULES_CASES ((int)(sizeof(rules_cases) / sizeof(rules_cases[0])))

/* Without a verdict, for each policy; the lowered thread's name differs. */
static const struct rules_lowering {
	const char *how;
	const char *lowered;
	int policy;
	struct rules_case test;
} rules_lowerings[] = {
	{ "running",
	  "creator",
	  SCHED_FIFO,
	  { "lowered while running, fifo", rules_lower_running, RULES_HIGH, { NULL } } },
	{ "running",
	  "creator",
	  SCHED_RR,
	  { "lowered while running, rr", rules_lower_running, RULES_HIGH, { NULL } } },
	{ "ready",
	  "lowered",
	  SCHED_FIFO,
	  { "lowered while ready, fifo", rules_lower_ready, RULES_HIGH, { NULL } } },
	{ "ready",
	  "lowered",
	  SCHED_RR,
	  { "lowered while ready, rr", rules_lower_ready, RULES_HIGH, { NULL } } },
};

#define RULES_LOWERINGS ((int)(sizeof(rules_lowerings) / sizeof(rules_lowerings[0])))
#define RULES_ALL (RULES_CASES + RULES_LOWERINGS)

/* SCHED_OTHER: in front of what else the CPU does, so that all end in time. Those that a thread
 * creates inherit it. */
static void rules_creator(struct ensemble_thread *thread)
{
	const struct rules_state *state = thread->state;

	if (thread->ensemble->policy == SCHED_OTHER)
		setpriority(PRIO_PROCESS, 0, -20);
	state->test->creator(thread);
}

/* --- the conductor --- */

/* One round of a test. False: the step ends. */
static bool rules_once(struct rules_state *state, const struct rules_case *test)
{
	struct ensemble *e = &state->ensemble;
	bool joined;

	if (!ensemble_goes_on(e))
		return false;
	memset(&state->now, 0, sizeof(state->now));
	state->test = test;
	state->started = 0;
	state->stalls = e->stalls;
	state->creator = (struct ensemble_thread){
		.ensemble = e,
		.body = rules_creator,
		.state = state,
		.name = "creator",
		.priority = e->priority - test->level,
	};
	if (!ensemble_start(&state->creator))
		return false;
	joined = ensemble_join(&state->creator);
	for (int i = 0; i < state->started && joined; i++)
		joined = ensemble_join(&state->others[i]);
	return joined;
}

/* Threads that were stopped continue in the order in which the kernel wakes them. */
static const char *rules_disturbed(const struct rules_state *state)
{
	bool disturbed = ensemble_disturbed(&state->creator);

	if (state->ensemble.stalls != state->stalls)
		return ENSEMBLE_STALLED;
	for (int i = 0; i < state->started; i++)
		disturbed = disturbed || ensemble_disturbed(&state->others[i]);
	return disturbed ? ENSEMBLE_DISTURBED : NULL;
}

/* Rounds of a rule, until one does not hold. A test without a rule: until one round is undisturbed.
 * False: the step ends. */
static bool rules_carry_out(struct rules_state *state, const struct rules_case *test,
			    struct order_rounds *rounds)
{
	bool rule = test->threads[0] != NULL, more = true;

	rounds->order.rule = test->rule;
	while (more) {
		if (!rules_once(state, test))
			return false;
		more = order_round(rounds, &state->now,
				   rule && order_is(&state->now, test->threads),
				   rules_disturbed(state));
	}
	return true;
}

static void rules_loop(struct worker *worker)
{
	struct rules_state *state = worker->state;
	int policy = state->ensemble.policy;

	for (int i = 0; i < RULES_CASES; i++)
		if (!rules_carry_out(state, &rules_cases[i], &state->rounds[i]))
			return;
	for (int i = 0; i < RULES_LOWERINGS; i++) {
		state->ensemble.policy = rules_lowerings[i].policy;
		if (!rules_carry_out(state, &rules_lowerings[i].test,
				     &state->rounds[RULES_CASES + i]))
			return;
	}
	state->ensemble.policy = policy;
}

static int rules_setup(struct step *step)
{
	struct rules_state *state = step->state;

	state->rounds = step_alloc(step, RULES_ALL, sizeof(*state->rounds));
	if (!state->rounds)
		return -ENOMEM;
	return ensemble_setup(step, &state->ensemble, rules_loop, RULES_LOW, RULES_OTHERS + 1);
}

static void rules_table_lowered(struct step *step, const struct rules_state *state)
{
	static const struct step_column columns[] = {
		{ "policy", "" },
		{ "lowered while", "" },
		{ "lands at", "" },
	};
	struct cbor *c = step_table_begin(step, "lowered", columns, 3, RULES_LOWERINGS);

	for (int i = 0; i < RULES_LOWERINGS; i++) {
		const struct order *order = &state->rounds[RULES_CASES + i].order;
		int lowered = order_find(order, rules_lowerings[i].lowered, "runs");
		int waiting = order_find(order, "waiting", "runs");

		cbor_array(c, 3);
		cbor_text(c, rules_lowerings[i].policy == SCHED_FIFO ? "fifo" : "rr");
		cbor_text(c, rules_lowerings[i].how);
		cbor_text(c, lowered < 0 || waiting < 0 ? "unknown" :
			     lowered < waiting		? "head" :
							  "tail");
	}
	step_table_end(step);
}

static int rules_finish(struct step *step)
{
	struct rules_state *state = step->state;
	const struct order *orders[RULES_ALL];
	int carried_out = 0;

	if (state->ensemble.error)
		return state->ensemble.error;
	while (carried_out < RULES_ALL && state->rounds[carried_out].order.rule) {
		orders[carried_out] = &state->rounds[carried_out].order;
		carried_out++;
	}
	for (int i = 0; i < RULES_CASES && i < carried_out; i++)
		order_rounds_verdict(
			step, &state->rounds[i], "",
			"use SCHED_FIFO or SCHED_RR, which have priorities (with these, the "
			"fault is in the kernel or the C library)");
	for (int i = carried_out; i < RULES_CASES; i++)
		order_not_tried(step, rules_cases[i].rule);
	if (carried_out == RULES_ALL)
		rules_table_lowered(step, state);
	order_table(step, orders, carried_out);
	return 0;
}

const struct measurement thread_rules_measurement = {
	.name = "thread-rules",
	.code = "THR-B-NEW",
	.summary = "which thread runs when one is created, yields or gets a lower priority",
	.needs = NEEDS_PRIORITIES,
	.chapter = CHAPTER_THREADS,
	.options = rules_options,
	.tables = {
		{ "lowered",
		  "position of a thread whose priority is lowered, among the threads of its new "
		  "priority" },
		{ ORDER_TABLE, ORDER_MEANING },
	},
	.verdicts = {
		{ RULES_LOWER, "until its creator ends" },
		{ RULES_EQUAL, "behind its creator, and those created before it" },
		{ RULES_HIGHER, "until it ends, after which its creator continues" },
		{ RULES_YIELD, "each until it ends, and none of lower priority" },
	},
	.evaluate = { { "idle", "", NULL } },
	.not_on_cobalt = "its threads change their priorities like Linux threads",
	.state_size = sizeof(struct rules_state),
	.setup = rules_setup,
	.finish = rules_finish,
};
