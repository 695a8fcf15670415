// SPDX-License-Identifier: Apache-2.0
/*
 * Priority inversion [MUT-B-ARC]: a thread of low priority has a mutex, one of high priority wants
 * it, and an unrelated one of middle priority is ready to run. The middle one must not run before
 * the high one has the mutex. All three are on one CPU, or low and middle are on another CPU than
 * high. docs/measurements/mutex-inversion.md has the details.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/cpulist.h"
#include "base/procstat.h"
#include "methods/ensemble.h"
#include "methods/mutex_kind.h"
#include "methods/order.h"

/* Work of the low thread with the mutex, and of the middle thread. */
#define INVERSION_WORK_NS (5 * NSEC_PER_MSEC)
/* Without priorities: longer than any scheduler leaves one of two threads the CPU. */
#define INVERSION_WORK_FAIR_NS (60 * NSEC_PER_MSEC)

enum inversion_role { INVERSION_LOW, INVERSION_MIDDLE, INVERSION_HIGH, INVERSION_THREADS };

#define INVERSION_CONDUCTOR "conductor"
#define INVERSION_GO "lets all go"
#define INVERSION_WANTS "wants the mutex"
#define INVERSION_WAITS "sees it wait"

static const char *const inversion_names[INVERSION_THREADS] = { "low", "middle", "high" };

enum inversion_place { INVERSION_ONE_CPU, INVERSION_TWO_CPUS, INVERSION_PLACES };

/* One protocol in one place. */
struct inversion {
	enum mutex_protocol protocol;
	enum inversion_place place;
	int owner_cpu; /* of low and middle */
	int64_t work_ns;
	int refused;	  /* errno of what was refused, until low has the mutex */
	int high_refused; /* the same of high */
	struct order now; /* the current round */
	struct order_rounds rounds;
	struct ensemble_thread threads[INVERSION_THREADS];
	pthread_mutex_t mutex;
	uint32_t unmoved; /* errno that kept a thread from the other CPU */
	uint32_t ready;
	uint32_t gates[INVERSION_THREADS];
};

struct inversion_state {
	struct ensemble ensemble;
	int count;
	int other_cpu; /* -1: none */
	struct inversion inversions[MUTEX_PROTOCOLS * INVERSION_PLACES];
};

#define INVERSION_RULE(protocol) "priority inversion is avoided (" protocol ")"
#define INVERSION_ACROSS(protocol) INVERSION_RULE(protocol ", owner on another CPU")
static const char *const inversion_rules[MUTEX_PROTOCOLS][INVERSION_PLACES] = {
	[MUTEX_NONE] = { INVERSION_RULE("none"), INVERSION_ACROSS("none") },
	[MUTEX_INHERIT] = { INVERSION_RULE("inherit"), INVERSION_ACROSS("inherit") },
	[MUTEX_PROTECT] = { INVERSION_RULE("protect"), INVERSION_ACROSS("protect") },
};

static const struct option_info inversion_options[] = {
	ENSEMBLE_FOR,
	ENSEMBLE_CPU,
	ENSEMBLE_PRIORITY,
	ENSEMBLE_POLICY,
	{ "protocol", OPTION_ENUMS, "inherit", 0, 0, MUTEX_PROTOCOL_VALUES,
	  "protocol of the mutex: one test for each" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

#define INVERSION_MEANING "no middle thread runs while the high one waits for the low one's mutex"
/* --- the threads --- */

static void inversion_mark(struct inversion *inversion, int role, const char *what)
{
	order_mark(&inversion->now, inversion_names[role], what);
}

static void inversion_ready(struct inversion *inversion, int role)
{
	ensemble_post(&inversion->ready);
	ensemble_gate(&inversion->gates[role]);
}

static void inversion_move(struct inversion *inversion, struct ensemble_thread *thread)
{
	int err = 0;

	if (inversion->place == INVERSION_TWO_CPUS)
		err = ensemble_move(thread, inversion->owner_cpu);
	if (err)
		atomic_store_release(&inversion->unmoved, (uint32_t)-err);
}

static void inversion_low(struct ensemble_thread *thread)
{
	struct inversion *inversion = thread->state;

	inversion_move(inversion, thread);
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

	inversion_move(inversion, thread);
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
	inversion_mark(inversion, INVERSION_HIGH, INVERSION_WANTS);
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
		.waits = role == INVERSION_HIGH ? 2 : 1, /* at the gate, for the mutex */
		.priority = e->priority - INVERSION_THREADS + role,
	};
	if (!ensemble_start(thread))
		return false;
	ensemble_await_posts(e, &inversion->ready, (uint32_t)role + 1);
	nanosleep(&while_it_lies_down, NULL);
	return true;
}

/* Wait until high sleeps after its request: then it can wait only for the mutex. */
static void inversion_await_high(struct ensemble *e, struct inversion *inversion)
{
	const struct timespec look = { .tv_nsec = NSEC_PER_MSEC };
	int64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + ENSEMBLE_PATIENCE_NS;
	struct procstat high;

	while (!step_stopped(e->step) && clock_now_ns(CLOCK_MONOTONIC) < until_ns) {
		nanosleep(&look, NULL);
		if (procstat_read(inversion->threads[INVERSION_HIGH].tid, &high))
			return;
		if (high.state == 'S' &&
		    order_find(&inversion->now, "high", INVERSION_WANTS) >= 0) {
			order_mark(&inversion->now, INVERSION_CONDUCTOR, INVERSION_WAITS);
			return;
		}
	}
}

/*
 * One CPU: all become ready at once, because the conductor has a higher priority and keeps the CPU until
 * it sleeps. Two CPUs: high waits for the mutex before low and middle have anything to do on theirs.
 */
static void inversion_let_go(struct ensemble *e, struct inversion *inversion)
{
	if (inversion->place == INVERSION_TWO_CPUS) {
		ensemble_open(&inversion->gates[INVERSION_HIGH]);
		inversion_await_high(e, inversion);
		ensemble_open(&inversion->gates[INVERSION_LOW]);
		ensemble_open(&inversion->gates[INVERSION_MIDDLE]);
		order_mark(&inversion->now, INVERSION_CONDUCTOR, INVERSION_GO);
		return;
	}
	order_mark(&inversion->now, INVERSION_CONDUCTOR, INVERSION_GO);
	ensemble_open(&inversion->gates[INVERSION_HIGH]);
	ensemble_open(&inversion->gates[INVERSION_MIDDLE]);
	ensemble_open(&inversion->gates[INVERSION_LOW]);
}

/* One round. False: the step ends. */
static bool inversion_round(struct ensemble *e, struct inversion *inversion)
{
	bool started = true, ended = true;

	memset(&inversion->now, 0, sizeof(inversion->now));
	inversion->ready = 0;
	memset(inversion->gates, 0, sizeof(inversion->gates));
	for (int role = 0; role < INVERSION_THREADS && started; role++)
		started = inversion_start(e, inversion, role);
	inversion_let_go(e, inversion);
	for (int role = 0; role < INVERSION_THREADS; role++)
		ended &= ensemble_join(&inversion->threads[role]);
	return started && ended;
}

/*
 * Whether the middle thread ran only after the high one had the mutex. On two CPUs: only after the low
 * one released it, because middle and high then run at once. @disturbed: why the round does not count,
 * or NULL.
 */
static bool inversion_judge(const struct inversion *inversion, const char **disturbed)
{
	bool across = inversion->place == INVERSION_TWO_CPUS;
	const struct order *order = &inversion->now;
	int wanted = order_find(order, across ? INVERSION_CONDUCTOR : "high",
				across ? INVERSION_WAITS : INVERSION_WANTS);
	int owned = order_find(order, "low", "has the mutex");
	int had = order_find(order, "high", "has the mutex");
	int middle = order_find(order, "middle", "runs");
	int released = order_find(order, "low", "releases it");
	int let_go = order_find(order, INVERSION_CONDUCTOR, INVERSION_GO);

	*disturbed = NULL;
	for (int role = 0; role < INVERSION_THREADS; role++)
		if (ensemble_disturbed(&inversion->threads[role]))
			*disturbed = ENSEMBLE_DISTURBED;
	/* no inversion was possible */
	if (wanted < 0 || owned < 0 || wanted < owned || wanted > released)
		*disturbed = "the high thread did not wait while the low one had the mutex";
	else if (middle < wanted)
		*disturbed = "the middle thread ran before the high one requested the mutex";
	else if (let_go > released)
		*disturbed =
			"the middle thread was started after the low one had released the mutex";
	else
		return middle > (across ? released : had);
	return false;
}

static void inversion_loop(struct worker *worker)
{
	struct inversion_state *state = worker->state;

	for (int i = 0; i < state->count; i++) {
		struct inversion *inversion = &state->inversions[i];
		const char *disturbed;
		bool more = true, held;

		while (more && !inversion->refused && !inversion->high_refused &&
		       !inversion->unmoved) {
			uint32_t stalls = state->ensemble.stalls;

			if (!ensemble_goes_on(&state->ensemble) ||
			    !inversion_round(&state->ensemble, inversion))
				return;
			held = inversion_judge(inversion, &disturbed);
			/* threads that were stopped continue in the order in which they are woken */
			if (state->ensemble.stalls != stalls)
				disturbed = ENSEMBLE_STALLED;
			more = order_round(&inversion->rounds, &inversion->now, held, disturbed);
		}
	}
}

/* --- setup and finish --- */

static void inversion_add(struct inversion_state *state, enum mutex_protocol protocol,
			  enum inversion_place place)
{
	struct inversion *inversion = &state->inversions[state->count++];
	struct mutex_kind kind = { PTHREAD_MUTEX_NORMAL, protocol, 0 };
	bool fair = state->ensemble.policy == SCHED_OTHER;

	inversion->protocol = protocol;
	inversion->place = place;
	inversion->owner_cpu = state->other_cpu;
	inversion->rounds.order.rule = inversion_rules[protocol][place];
	inversion->work_ns = fair ? INVERSION_WORK_FAIR_NS : INVERSION_WORK_NS;
	/* the ceiling is the highest priority of the threads that lock the mutex */
	inversion->refused =
		mutex_kind_init(&inversion->mutex, &kind, state->ensemble.priority - 1);
	/* a mutex that was created may refuse a lock: a ceiling is a real-time priority */
	if (!inversion->refused && protocol == MUTEX_PROTECT && fair)
		inversion->refused = EINVAL;
	if (place == INVERSION_TWO_CPUS && state->other_cpu < 0)
		inversion->unmoved = ENODEV;
}

/* High is on the last of the CPUs. Low and middle, if on another CPU, are on the first. */
static int inversion_setup(struct step *step)
{
	struct inversion_state *state = step->state;
	enum mutex_protocol protocols[MUTEX_PROTOCOLS];
	struct cpulist cpus;
	char text[32];
	int count, first, err;

	err = step_cpus(step, &cpus);
	if (err)
		return err;
	first = cpulist_next(&cpus, 0);
	err = ensemble_setup(step, &state->ensemble, inversion_loop, INVERSION_THREADS,
			     INVERSION_THREADS);
	if (err)
		return err;
	state->other_cpu = first == state->ensemble.cpu ? -1 : first;
	count = mutex_kind_protocols(step, protocols);
	for (int place = 0; place < INVERSION_PLACES; place++)
		for (int i = 0; i < count; i++)
			inversion_add(state, protocols[i], place);
	if (state->other_cpu < 0)
		return 0;
	snprintf(text, sizeof(text), "%d,%d", first, state->ensemble.cpu);
	return option_effective(&step->options, "cpu", text);
}

static void inversion_verdict(struct step *step, const struct inversion *inversion)
{
	const char *rule = inversion->rounds.order.rule;
	int refused = inversion->refused ?: inversion->high_refused;

	if (refused)
		mutex_kind_skipped(step, rule, mutex_protocol_names[inversion->protocol], refused);
	else if (inversion->owner_cpu < 0 && inversion->unmoved)
		step_verdict(step, rule, "skipped", "the owner needs a second CPU",
			     "give two CPUs: --cpu 0,1");
	else if (inversion->unmoved)
		step_verdict(step, rule, "skipped", "a thread cannot run on the other CPU",
			     "allow the agent to use both CPUs (taskset, cpusets)");
	else
		order_rounds_verdict(
			step, &inversion->rounds,
			inversion->rounds.held ?
				"the middle thread runs after the high one has the mutex" :
				"the middle thread runs while the high one waits for the low one",
			"create the mutex with PTHREAD_PRIO_INHERIT or PTHREAD_PRIO_PROTECT, and "
			"give the threads real-time priorities");
}

static int inversion_finish(struct step *step)
{
	struct inversion_state *state = step->state;
	const struct order *orders[MUTEX_PROTOCOLS * INVERSION_PLACES];

	for (int i = 0; i < state->count; i++) {
		struct inversion *inversion = &state->inversions[i];

		orders[i] = &inversion->rounds.order;
		if (!state->ensemble.error || order_decided(&inversion->rounds))
			inversion_verdict(step, inversion);
	}
	order_table(step, orders, state->count);
	return state->ensemble.error;
}

const struct measurement mutex_inversion_measurement = {
	.name = "mutex-inversion",
	.code = "MUT-B-ARC",
	.summary =
		"whether a mutex prevents a thread of middle priority from delaying one of high priority",
	.needs = NEEDS_PRIORITIES,
	.chapter = CHAPTER_MUTEXES,
	.options = inversion_options,
	.tables = { { ORDER_TABLE, ORDER_MEANING } },
	.verdicts = {
		{ INVERSION_RULE("none"), INVERSION_MEANING },
		{ INVERSION_RULE("inherit"), INVERSION_MEANING },
		{ INVERSION_RULE("protect"), INVERSION_MEANING },
		{ INVERSION_ACROSS("none"), INVERSION_MEANING },
		{ INVERSION_ACROSS("inherit"), INVERSION_MEANING },
		{ INVERSION_ACROSS("protect"), INVERSION_MEANING },
	},
	.evaluate = { { "idle", "protocol=inherit,protect", NULL } },
	.state_size = sizeof(struct inversion_state),
	.setup = inversion_setup,
	.finish = inversion_finish,
};
