// SPDX-License-Identifier: Apache-2.0
/*
 * Priority inversion [MUT-B-ARC]: a thread of low priority has a mutex, one of high priority wants
 * it, and one of middle priority, which has nothing to do with it, is ready to run. It must not
 * run before the high one has the mutex. docs/measurements/mutex-inversion.md
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "ensemble.h"
#include "order.h"
#include "mutex_kind.h"

/* What the low thread does with the mutex, and the middle thread for itself. */
#define INVERSION_WORK_NS (5 * NSEC_PER_MSEC)
/* Without priorities: longer than any scheduler leaves one of two threads the CPU. */
#define INVERSION_WORK_FAIR_NS (60 * NSEC_PER_MSEC)

enum inversion_role { INVERSION_LOW, INVERSION_MIDDLE, INVERSION_HIGH, INVERSION_THREADS };

static const char *const inversion_names[INVERSION_THREADS] = { "low", "middle", "high" };

/* One protocol. */
struct inversion {
	enum mutex_protocol protocol;
	int64_t work_ns;
	int refused;	  /* errno of what was refused, until low has the mutex */
	int high_refused; /* the same of high */
	bool ended;	  /* all threads did */
	struct order order;
	struct ensemble_thread threads[INVERSION_THREADS];
	pthread_mutex_t mutex;
	uint32_t ready;
	uint32_t gates[INVERSION_THREADS];
};

struct inversion_state {
	struct ensemble ensemble;
	int count;
	struct inversion inversions[MUTEX_PROTOCOLS];
};

#define INVERSION_RULE(protocol) "priority inversion is avoided (" protocol ")"
static const char *const inversion_rules[MUTEX_PROTOCOLS] = {
	[MUTEX_NONE] = INVERSION_RULE("none"),
	[MUTEX_INHERIT] = INVERSION_RULE("inherit"),
	[MUTEX_PROTECT] = INVERSION_RULE("protect"),
};

static const char *const inversion_contexts[] = { "user", NULL };

static const struct option_info inversion_options[] = {
	ENSEMBLE_FOR,
	ENSEMBLE_CPU,
	ENSEMBLE_PRIORITY,
	ENSEMBLE_POLICY,
	{ "protocol", OPTION_ENUMS, "inherit", 0, 0, MUTEX_PROTOCOL_VALUES,
	  "protocol of the mutex: one verdict for each" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

static const struct catalogue_entry inversion_tables[] = {
	{ ORDER_TABLE, ORDER_MEANING },
	{ NULL, NULL },
};

#define INVERSION_MEANING "no middle thread runs while the high one waits for the low one's mutex"
static const struct catalogue_entry inversion_verdicts[] = {
	{ INVERSION_RULE("none"), INVERSION_MEANING },
	{ INVERSION_RULE("inherit"), INVERSION_MEANING },
	{ INVERSION_RULE("protect"), INVERSION_MEANING },
	{ NULL, NULL },
};

static const struct catalogue_evaluate inversion_evaluate[] = {
	{ "idle", "protocol=inherit,protect", NULL },
	{ NULL, NULL, NULL },
};

/* --- the threads --- */

static void inversion_mark(struct inversion *inversion, int role, const char *what)
{
	order_mark(&inversion->order, inversion_names[role], what);
}

static void inversion_ready(struct inversion *inversion, int role)
{
	ensemble_post(&inversion->ready);
	ensemble_gate(&inversion->gates[role]);
}

static void inversion_low(struct ensemble_thread *thread)
{
	struct inversion *inversion = thread->state;

	inversion->refused = pthread_mutex_lock(&inversion->mutex);
	if (!inversion->refused)
		inversion_mark(inversion, INVERSION_LOW, "has the mutex");
	inversion_ready(inversion, INVERSION_LOW);
	if (inversion->refused)
		return;
	inversion_mark(inversion, INVERSION_LOW, "runs");
	ensemble_spin(inversion->work_ns);
	inversion_mark(inversion, INVERSION_LOW, "releases it");
	pthread_mutex_unlock(&inversion->mutex);
}

static void inversion_middle(struct ensemble_thread *thread)
{
	struct inversion *inversion = thread->state;

	inversion_ready(inversion, INVERSION_MIDDLE);
	if (inversion->refused)
		return;
	inversion_mark(inversion, INVERSION_MIDDLE, "runs");
	ensemble_spin(inversion->work_ns);
	inversion_mark(inversion, INVERSION_MIDDLE, "ends");
}

static void inversion_high(struct ensemble_thread *thread)
{
	struct inversion *inversion = thread->state;

	inversion_ready(inversion, INVERSION_HIGH);
	if (inversion->refused)
		return;
	inversion_mark(inversion, INVERSION_HIGH, "wants the mutex");
	inversion->high_refused = pthread_mutex_lock(&inversion->mutex);
	if (inversion->high_refused)
		return;
	inversion_mark(inversion, INVERSION_HIGH, "has the mutex");
	pthread_mutex_unlock(&inversion->mutex);
}

/* --- the conductor --- */

/* Start a thread, and let it come to its gate. */
static bool inversion_start(struct ensemble *e, struct inversion *inversion, int role)
{
	static void (*const bodies[])(struct ensemble_thread *) = { inversion_low, inversion_middle,
								    inversion_high };
	const struct timespec while_it_lies_down = { .tv_nsec = NSEC_PER_MSEC };
	struct ensemble_thread *thread = &inversion->threads[role];

	*thread = (struct ensemble_thread){
		.ensemble = e,
		.body = bodies[role],
		.state = inversion,
		.name = inversion_names[role],
		.number = role,
		.priority = e->priority - INVERSION_THREADS + role,
	};
	if (!ensemble_start(thread))
		return false;
	ensemble_await_posts(e, &inversion->ready, (uint32_t)role + 1);
	nanosleep(&while_it_lies_down, NULL);
	return true;
}

static void inversion_carry_out(struct ensemble *e, struct inversion *inversion)
{
	bool started = true;

	for (int role = 0; role < INVERSION_THREADS && started; role++)
		started = inversion_start(e, inversion, role);
	/* all are made ready at once: the conductor, above them, keeps the CPU meanwhile */
	order_mark(&inversion->order, "conductor", "lets all go");
	ensemble_open(&inversion->gates[INVERSION_HIGH]);
	ensemble_open(&inversion->gates[INVERSION_MIDDLE]);
	ensemble_open(&inversion->gates[INVERSION_LOW]);
	inversion->ended = started;
	for (int role = 0; role < INVERSION_THREADS; role++)
		inversion->ended &= ensemble_join(&inversion->threads[role]);
}

static void inversion_loop(struct worker *worker)
{
	struct inversion_state *state = worker->state;

	for (int i = 0; i < state->count; i++) {
		if (!ensemble_goes_on(&state->ensemble))
			return;
		if (!state->inversions[i].refused)
			inversion_carry_out(&state->ensemble, &state->inversions[i]);
	}
}

/* --- setup and finish --- */

static int inversion_setup(struct run *run)
{
	struct inversion_state *state = calloc(1, sizeof(*state));
	enum mutex_protocol protocols[MUTEX_PROTOCOLS];
	int err;

	run->state = state;
	if (!state)
		return message_set(&run->msg, -ENOMEM, "free some memory", "no memory");
	err = ensemble_setup(run, &state->ensemble, inversion_loop, INVERSION_THREADS,
			     INVERSION_THREADS);
	if (err)
		return err;
	state->count = mutex_kind_protocols(run, protocols);
	for (int i = 0; i < state->count; i++) {
		struct inversion *inversion = &state->inversions[i];
		struct mutex_kind kind = { PTHREAD_MUTEX_NORMAL, protocols[i], 0 };

		inversion->protocol = protocols[i];
		inversion->order.rule = inversion_rules[protocols[i]];
		inversion->work_ns = state->ensemble.policy == SCHED_OTHER ?
					     INVERSION_WORK_FAIR_NS :
					     INVERSION_WORK_NS;
		/* the ceiling is the priority of the highest that takes it */
		inversion->refused =
			mutex_kind_init(&inversion->mutex, &kind, state->ensemble.priority - 1);
		/* what can be made may still not be locked: a ceiling is a real-time priority */
		if (!inversion->refused && protocols[i] == MUTEX_PROTECT &&
		    state->ensemble.policy == SCHED_OTHER)
			inversion->refused = EINVAL;
	}
	return 0;
}

static void inversion_judge(struct run *run, const struct inversion *inversion)
{
	const struct order *order = &inversion->order;
	int wanted = order_find(order, "high", "wants the mutex");
	int had = order_find(order, "high", "has the mutex");
	int middle = order_find(order, "middle", "runs");
	int released = order_find(order, "low", "releases it");
	int refused = inversion->refused ?: inversion->high_refused;
	char text[1024];

	if (refused) {
		mutex_kind_skipped(run, order->rule, mutex_protocol_names[inversion->protocol],
				   refused);
		return;
	}
	if (!inversion->ended) {
		if (!order_count(order))
			order_not_tried(run, order->rule);
		return;
	}
	/* nothing could be inverted: the high thread came late */
	if (wanted < 0 || wanted > released) {
		run_verdict(run, order->rule, "inconclusive", order_text(order, text, sizeof(text)),
			    "measure with real-time priorities, on a CPU of its own");
		return;
	}
	order_verdict(run, order, middle > had,
		      middle > had ?
			      "the middle thread runs after the high one has the mutex" :
			      "the middle thread runs while the high one waits for the low one",
		      "make the mutex with PTHREAD_PRIO_INHERIT or PTHREAD_PRIO_PROTECT, and give "
		      "the threads real-time priorities");
}

static int inversion_finish(struct run *run)
{
	struct inversion_state *state = run->state;
	const struct order *orders[MUTEX_PROTOCOLS];

	for (int i = 0; i < state->count; i++) {
		orders[i] = &state->inversions[i].order;
		inversion_judge(run, &state->inversions[i]);
	}
	order_table(run, orders, state->count);
	return state->ensemble.error;
}

static void inversion_cleanup(struct run *run)
{
	struct inversion_state *state = run->state;

	if (!state || !state->ensemble.stuck)
		free(state);
}

const struct measurement mutex_inversion_measurement = {
	.name = "mutex-inversion",
	.code = "MUT-B-ARC",
	.summary = "whether a mutex keeps a middle thread from delaying a high one",
	.role = "measurement",
	.chapter = CHAPTER_MUTEXES,
	.contexts = inversion_contexts,
	.options = inversion_options,
	.tables = inversion_tables,
	.verdicts = inversion_verdicts,
	.evaluate = inversion_evaluate,
	.setup = inversion_setup,
	.finish = inversion_finish,
	.cleanup = inversion_cleanup,
};
