// SPDX-License-Identifier: Apache-2.0
/*
 * Creation and deletion of threads [THR-P-NEW], of threads that never run, that run and terminate,
 * and that run and block. docs/measurements/thread-lifecycle.md says what exactly is timed.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "methods/ensemble.h"
#include "run/worker.h"

/* Threads of a test loop; fewer where that takes too long. */
#define LIFECYCLE_LOOP 100
#define LIFECYCLE_LOOP_NS (200 * NSEC_PER_MSEC)
#define LIFECYCLE_LOOK_NS (20 * NSEC_PER_USEC)
/* Below the conductor's priority. */
#define LIFECYCLE_HIGH 1
#define LIFECYCLE_CREATOR 2
#define LIFECYCLE_LOW 3

#define LIFECYCLE_RULE "each thread runs when its scenario says"

enum lifecycle_scenario { LIFECYCLE_NEVER, LIFECYCLE_TERMINATED, LIFECYCLE_BLOCKED };

static const struct lifecycle_kind {
	const char *name;
	int level;
} lifecycle_kinds[] = {
	[LIFECYCLE_NEVER] = { "never-run", LIFECYCLE_LOW },
	[LIFECYCLE_TERMINATED] = { "terminated", LIFECYCLE_HIGH },
	[LIFECYCLE_BLOCKED] = { "blocked", LIFECYCLE_HIGH },
};

#define LIFECYCLE_KINDS ((int)(sizeof(lifecycle_kinds) / sizeof(lifecycle_kinds[0])))

struct lifecycle_measured {
	int create; /* series */
	int delete;
	int64_t done;
	int64_t wrong;	   /* ran when it was not to, or not when it was */
	int64_t disturbed; /* the same, because of a moved page or a standstill */
	pthread_attr_t attr;
};

/* How often a thread has slept, and how often it has touched a page that was not there. */
struct lifecycle_rest {
	int64_t slept;
	int64_t faults;
};

struct lifecycle_state {
	struct ensemble ensemble;
	int64_t samples;
	struct lifecycle_measured kinds[LIFECYCLE_KINDS];
	struct ensemble_thread creator;

	/* a test loop */
	enum lifecycle_scenario scenario;
	int count;
	int done;
	int64_t create_ns[LIFECYCLE_LOOP];
	int64_t delete_ns[LIFECYCLE_LOOP];

	/* the thread that is created: it runs */
	int64_t runs_ns;
	pid_t tid;
	bool moved;   /* the kernel moved a page of it */
	uint32_t ran; /* those above are valid */
};

static const struct option_info lifecycle_options[] = {
	ENSEMBLE_FOR,
	{ "samples", OPTION_INTEGER, "2000", 1, 1000000, NULL, "threads of each scenario" },
	ENSEMBLE_CPU,
	ENSEMBLE_PRIORITY,
	ENSEMBLE_POLICY,
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

/* The rests of the calling thread; none where memory is not locked. */
static struct lifecycle_rest lifecycle_look(const struct lifecycle_state *state)
{
	struct rusage usage = { .ru_minflt = 0 };

	if (!state->ensemble.step->memory_unlocked)
		getrusage(RUSAGE_THREAD, &usage);
	return (struct lifecycle_rest){ usage.ru_nvcsw, usage.ru_minflt + usage.ru_majflt };
}

/* A thread with locked memory that sleeps and has a page fault waits for a page that the kernel moves:
 * others run. A fault alone has other causes: the C library makes a stack accessible. */
static bool lifecycle_moved(struct lifecycle_rest before, struct lifecycle_rest after)
{
	return after.slept > before.slept && after.faults > before.faults;
}

/* --- the thread that is created --- */

static void *lifecycle_main(void *arg)
{
	int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	struct lifecycle_state *state = arg;
	struct ensemble *e = &state->ensemble;

	/* one that was not to run does so only while it is deleted */
	if (state->scenario != LIFECYCLE_NEVER)
		mark_lower(&e->step->mark);
	state->runs_ns = now_ns;
	state->tid = (pid_t)syscall(SYS_gettid);
	/* not where that would be a part of its deletion */
	if (state->scenario != LIFECYCLE_NEVER)
		state->moved = lifecycle_moved((struct lifecycle_rest){ 0 }, lifecycle_look(state));
	atomic_store_release(&state->ran, 1);
	if (state->scenario == LIFECYCLE_TERMINATED)
		return NULL;
	if (state->scenario == LIFECYCLE_BLOCKED)
		ensemble_change_priority(&state->creator, e->priority - LIFECYCLE_LOW);
	for (;;) {
		pthread_testcancel();
		pause();
	}
	return NULL;
}

/* --- the creator --- */

static void lifecycle_await(struct lifecycle_state *state, bool gone)
{
	const struct timespec look = clock_from_ns(LIFECYCLE_LOOK_NS);

	/* the conductor has a limit */
	while (!atomic_load_acquire(&state->ran) ||
	       (gone && !syscall(SYS_tgkill, getpid(), state->tid, 0)))
		nanosleep(&look, NULL);
}

static bool lifecycle_one(struct lifecycle_state *state, struct lifecycle_measured *m, int i)
{
	bool never = state->scenario == LIFECYCLE_NEVER;
	bool terminated = state->scenario == LIFECYCLE_TERMINATED;
	struct mark *mark = &state->ensemble.step->mark;
	struct lifecycle_rest before = lifecycle_look(state);
	int64_t from_ns, until_ns;
	bool wrong, moved = false;
	pthread_t thread;
	int err;

	state->moved = false;
	atomic_store_release(&state->ran, 0);
	from_ns = mark_from_ns(mark);
	err = pthread_create(&thread, &m->attr, lifecycle_main, state);
	until_ns = clock_now_ns(CLOCK_MONOTONIC);
	if (never)
		mark_lower(mark);
	if (err)
		return ensemble_fail(&state->ensemble, -err, "cannot start a thread");
	wrong = never == (atomic_load_acquire(&state->ran) != 0);
	if (wrong)
		moved = lifecycle_moved(before, lifecycle_look(state));
	if (!never) {
		lifecycle_await(state, terminated);
		until_ns = state->runs_ns;
	}
	if (wrong && (moved || state->moved))
		m->disturbed++;
	else if (wrong)
		m->wrong++;
	state->create_ns[i] = until_ns - from_ns;
	from_ns = mark_from_ns(mark);
	if (!terminated)
		pthread_cancel(thread);
	pthread_join(thread, NULL);
	state->delete_ns[i] = mark_to_ns(mark) - from_ns;
	return true;
}

static void lifecycle_creator(struct ensemble_thread *thread)
{
	struct lifecycle_state *state = thread->state;
	struct lifecycle_measured *m = &state->kinds[state->scenario];
	int64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + LIFECYCLE_LOOP_NS;

	/* in front of what else the CPU does */
	if (thread->ensemble->policy == SCHED_OTHER)
		setpriority(PRIO_PROCESS, 0, -20);
	state->done = 0;
	while (state->done < state->count) {
		if (!lifecycle_one(state, m, state->done))
			return;
		/* also the thread in whose time the loop's ends: the slowest one, if it took that */
		state->done++;
		if (clock_now_ns(CLOCK_MONOTONIC) > until_ns)
			return;
	}
}

/* --- the conductor --- */

static bool lifecycle_go(struct lifecycle_state *state)
{
	struct ensemble *e = &state->ensemble;
	struct lifecycle_measured *m = &state->kinds[state->scenario];
	uint32_t stalls = e->stalls;
	int64_t wrong = m->wrong;

	state->creator = (struct ensemble_thread){
		.ensemble = e,
		.body = lifecycle_creator,
		.state = state,
		.priority = e->priority - LIFECYCLE_CREATOR,
	};
	ensemble_loop(e, m->create);
	ensemble_loop(e, m->delete);
	if (!ensemble_start(&state->creator) || !ensemble_join(&state->creator))
		return false;
	for (int i = 0; i < state->done; i++) {
		series_put(&e->step->series[m->create], ensemble_net(e, state->create_ns[i]));
		series_put(&e->step->series[m->delete], ensemble_net(e, state->delete_ns[i]));
	}
	m->done += state->done;
	/* threads that were stopped continue in the order in which they are woken */
	if (e->stalls != stalls) {
		m->disturbed += m->wrong - wrong;
		m->wrong = wrong;
	}
	return true;
}

static void lifecycle_loop(struct worker *worker)
{
	struct lifecycle_state *state = worker->state;
	bool more = true;

	while (more) {
		more = false;
		for (int i = 0; i < LIFECYCLE_KINDS; i++) {
			int64_t left = state->samples - state->kinds[i].done;

			if (left <= 0)
				continue;
			state->scenario = (enum lifecycle_scenario)i;
			state->count = left < LIFECYCLE_LOOP ? (int)left : LIFECYCLE_LOOP;
			if (!ensemble_goes_on(&state->ensemble) || !lifecycle_go(state))
				return;
			more = true;
		}
	}
}

static int lifecycle_attributes(const struct ensemble *e, pthread_attr_t *attr, int level)
{
	struct sched_param param = { .sched_priority = e->priority - level };
	int err;

	if (e->policy == SCHED_OTHER)
		param.sched_priority = 0;
	pthread_attr_init(attr);
	err = pthread_attr_setstacksize(attr, worker_small_stack_size());
	err = err ?: pthread_attr_setinheritsched(attr, PTHREAD_EXPLICIT_SCHED);
	err = err ?: pthread_attr_setschedpolicy(attr, e->policy);
	return err ?: pthread_attr_setschedparam(attr, &param);
}

static int lifecycle_setup(struct step *step)
{
	struct lifecycle_state *state = step->state;
	struct ensemble *e;
	int err;

	e = &state->ensemble;
	state->samples = option_number(&step->options, "samples");
	err = ensemble_setup(step, e, lifecycle_loop, LIFECYCLE_LOW, 2);
	for (int i = 0; i < LIFECYCLE_KINDS && !err; i++) {
		const struct lifecycle_kind *kind = &lifecycle_kinds[i];
		struct lifecycle_measured *m = &state->kinds[i];

		err = -lifecycle_attributes(e, &m->attr, kind->level);
		if (err)
			return message_set(&step->msg, -EIO, "choose another policy or priority",
					   "cannot set the attributes of a thread: %s",
					   strerror(-err));
		m->create =
			ensemble_series(e, "create", "scenario", kind->name, state->samples, true);
		m->delete =
			ensemble_series(e, "delete", "scenario", kind->name, state->samples, true);
		err = m->create < 0 ? m->create : m->delete < 0 ? m->delete : 0;
		ensemble_tested(e, m->create, LIFECYCLE_CREATOR);
		ensemble_tested(e, m->delete, LIFECYCLE_CREATOR);
	}
	return err;
}

/* Takes all scenarios: each one has its own part in the rule. */
static void lifecycle_verdict(struct step *step, const struct lifecycle_state *state)
{
	int64_t wrong = 0, disturbed = 0;
	char evidence[320], untried[32] = "";
	bool judged = true;
	size_t used = 0;

	for (int i = 0; i < LIFECYCLE_KINDS; i++) {
		const struct lifecycle_measured *m = &state->kinds[i];

		wrong += m->wrong;
		disturbed += m->disturbed;
		judged = judged && m->done > m->disturbed;
		if (!m->done && !untried[0])
			snprintf(untried, sizeof(untried), "the scenario %s",
				 lifecycle_kinds[i].name);
		used += (size_t)snprintf(evidence + used, sizeof(evidence) - used,
					 "%s%s: %lld threads, %lld at the wrong time",
					 i ? "; " : "", lifecycle_kinds[i].name, (long long)m->done,
					 (long long)m->wrong);
	}
	if (disturbed)
		snprintf(evidence + used, sizeof(evidence) - used, "; %lld not judged: %s",
			 (long long)disturbed,
			 state->ensemble.stalls ? ENSEMBLE_STALLED : ENSEMBLE_DISTURBED);
	if (wrong)
		step_verdict(
			step, LIFECYCLE_RULE, "fail", evidence,
			"measure with --policy fifo: these times do not belong to the scenarios");
	else if (untried[0])
		ensemble_not_tried(&state->ensemble, LIFECYCLE_RULE, untried);
	else if (judged)
		step_verdict(step, LIFECYCLE_RULE, "pass", evidence, "");
	else
		step_verdict(step, LIFECYCLE_RULE, "inconclusive", evidence,
			     ENSEMBLE_DISTURBED_REMEDY);
}

static int lifecycle_finish(struct step *step)
{
	const struct lifecycle_state *state = step->state;

	lifecycle_verdict(step, state);
	return state->ensemble.error;
}

const struct measurement thread_lifecycle_measurement = {
	.name = "thread-lifecycle",
	.code = "THR-P-NEW",
	.summary = "time to create and to delete threads",
	.needs = NEEDS_PRIORITIES,
	.chapter = CHAPTER_THREADS,
	.options = lifecycle_options,
	.series = {
		{ "create", "ns",
		  "time to create a thread, up to its first instruction if it ever runs",
		  "before pthread_create()", "after it, or the first instruction of the thread",
		  NULL },
		{ "delete", "ns", "time to cancel and join a thread, or to join one that has ended",
		  "before pthread_cancel() or pthread_join()", "after pthread_join()", NULL },
	},
	.verdicts = {
		{ LIFECYCLE_RULE,
		  "before its creator continues, or not at all before it is deleted" },
	},
	.evaluate = { { "idle", "samples=2000", "samples=100000" } },
	.mark = &mark_spans,
	.not_on_cobalt = "Linux creates each thread, also those that become tasks of the core",
	.state_size = sizeof(struct lifecycle_state),
	.setup = lifecycle_setup,
	.finish = lifecycle_finish,
};
