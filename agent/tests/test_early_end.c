// SPDX-License-Identifier: Apache-2.0
/* Tests of steps that end before all is measured: what counts, and what no test may pass without.
 * Prints TAP. */
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "judged.h"
#include "methods/ensemble.h"

static int test_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *),
		       void *arg);
static void test_message(struct step *step, int64_t now_ns, const char *text);
static int64_t test_number(const struct option_set *set, const char *name);
static bool test_start(struct ensemble_thread *thread);
static pid_t test_waitpid(pid_t pid, int *status, int options);

#define option_number test_number
#define step_verdict test_verdict
#define step_table_begin test_table
#define step_table_end test_table_end
#define step_message test_message
#include "methods/ensemble.c"
#include "methods/mutex_kind.c"
#include "methods/mutex_links.c"
#include "methods/order.c"
#include "measurements/idle_exit.c"
#include "measurements/mutex_chain.c"
#include "measurements/page_fault.c"
#define waitpid test_waitpid
#include "measurements/process_create.c"
#undef waitpid
#include "measurements/sem_lock.c"
#include "measurements/tick_cost.c"
#define ensemble_start test_start
#include "measurements/thread_switch.c"
#undef ensemble_start
#define pthread_create test_create
#include "measurements/thread_lifecycle.c"
#undef pthread_create
#undef option_number
#undef step_verdict
#undef step_table_begin
#undef step_table_end
#undef step_message

#include "drained.h"
#include "tap.h"

static struct step step = { .core = &core_linux };
static int64_t for_ns; /* the option */

static int64_t test_number(const struct option_set *set, const char *name)
{
	return strcmp(name, "for") ? 0 : for_ns;
}

static void test_message(struct step *of, int64_t now_ns, const char *text)
{
	snprintf(said, sizeof(said), "%s", text);
}

/* @untried: it is named as what the step did not come to. */
static void check_not_tried(const char *untried)
{
	tap_check(!strcmp(judged, "inconclusive") && strstr(said, untried) &&
			  strstr(advised, "--for"),
		  "%s: %s, %s", judged, said, advised);
}

static void test_first_round(void)
{
	struct ensemble e = { .step = &step };

	for_ns = 1;
	tap_check(ensemble_goes_on(&e), "the first round comes however short the time is");
	tap_check(!ensemble_goes_on(&e), "the second does not");
	for_ns = 0;
}

/* --- idle-exit --- */

static void test_idle_states(void)
{
	static struct idle_exit x = {
		.ensemble.step = &step,
		.held_us = -1,
		.count = 3,
		.states = { { .name = "POLL", .samples = 20, .entries = 20 },
			    { .name = "C1", .disabled = true },
			    { .name = "C6" } },
	};

	idle_verdict(&step, &x);
	check_not_tried("C6");
	x.states[2].samples = 20;
	idle_verdict(&step, &x);
	tap_check(strstr(said, "C6: 0 entries") != NULL, "tried, but not entered: %s", said);
	x.states[2].entries = 10;
	x.states[1] = x.states[0];
	idle_verdict(&step, &x);
	tap_check(!strcmp(judged, "pass"), "all entered");
}

/* A long pause does not keep a test loop going for much longer than --for. */
static void test_idle_time(void)
{
	const struct series_info info = { .interval_ns = 0 };
	static struct series series;
	static struct idle_exit x = {
		.ensemble.step = &step,
		.pause_ns = 100 * NSEC_PER_MSEC,
	};

	series_init(&series, 0, &info, 64);
	step.series = &series;
	x.ensemble.start_ns = clock_now_ns(CLOCK_MONOTONIC);
	for_ns = 50 * NSEC_PER_MSEC;
	idle_loop_once(&x, &x.states[0], IDLE_LOOP);
	for_ns = 0;
	tap_check(x.states[0].samples <= 1, "a test loop ends when the time is up: %lld",
		  (long long)x.states[0].samples);
	series_free(&series);
}

/* --- thread-lifecycle --- */

static struct lifecycle_state lifecycle = { .ensemble.step = &step, .ensemble.policy = SCHED_FIFO };
static int created, slow;

/* The thread of number @slow takes longer than a test loop may. */
static int test_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *),
		       void *arg)
{
	const struct timespec stall = clock_from_ns(LIFECYCLE_LOOP_NS + NSEC_PER_MSEC);

	if (++created == slow)
		nanosleep(&stall, NULL);
	return pthread_create(thread, attr, body, arg);
}

/* The samples of a test loop are as far apart as the CPU sleeps: 10 s with --pause 10s. */
static void test_idle_times(void)
{
	static struct series series;
	static struct idle_exit x = {
		.ensemble.step = &step,
		.states = { { .name = "C1" } },
		.count = 1,
		.pause_ns = 5 * NSEC_PER_MSEC,
	};
	const struct series_info info = { .name = "wake" };
	struct drained d;

	series_init(&series, 0, &info, 64);
	step.series = &series;
	idle_loop_once(&x, &x.states[0], 3);
	d = drained_from(&series);
	tap_check(d.blocks == 3 && d.due_ns[1] >= d.due_ns[0] + x.pause_ns &&
			  d.due_ns[2] >= d.due_ns[1] + x.pause_ns,
		  "each sample has its own time: %d blocks", d.blocks);
	step.series = NULL;
	series_free(&series);
}

static void test_slow_thread(void)
{
	struct lifecycle_measured *m = &lifecycle.kinds[LIFECYCLE_TERMINATED];
	struct ensemble_thread creator = { .ensemble = &lifecycle.ensemble, .state = &lifecycle };

	pthread_attr_init(&m->attr);
	lifecycle.scenario = LIFECYCLE_TERMINATED;
	lifecycle.count = LIFECYCLE_LOOP;
	slow = 1;
	lifecycle_creator(&creator);
	tap_check(created == 1 && lifecycle.done == 1,
		  "the slow thread that ends a test loop counts: %d of %d", lifecycle.done,
		  created);
	tap_check(lifecycle.create_ns[0] > LIFECYCLE_LOOP_NS, "with the time it took");
	pthread_attr_destroy(&m->attr);
}

static void test_scenarios(void)
{
	struct lifecycle_measured *kinds = lifecycle.kinds;

	memset(kinds, 0, sizeof(lifecycle.kinds));
	kinds[LIFECYCLE_NEVER].done = kinds[LIFECYCLE_TERMINATED].done = 100;
	lifecycle_verdict(&step, &lifecycle);
	check_not_tried("blocked");
	kinds[LIFECYCLE_BLOCKED].done = kinds[LIFECYCLE_BLOCKED].disturbed = 1;
	lifecycle_verdict(&step, &lifecycle);
	tap_check(!strcmp(judged, "inconclusive"), "no thread of a scenario was judged");
	kinds[LIFECYCLE_BLOCKED].done++;
	lifecycle_verdict(&step, &lifecycle);
	tap_check(!strcmp(judged, "pass"), "a thread of each scenario was judged");
}

/* --- mutex-chain and mutex-contended --- */

static void test_chains(void)
{
	static struct mutex_links links = {
		.ensemble.step = &step,
		.cases = { { .links = 1, .samples = 200, .ready = 200 },
			   { .links = 2, .samples = 10, .ready = 10 },
			   { .links = 4 } },
	};

	step.state = &links;
	mutex_links_verdict(&step, "", links.cases, 3);
	check_not_tried("a chain of 4 ");
	mutex_links_verdict(&step, "", &links.cases[2], 1);
	check_not_tried("a request for the mutex ");
	mutex_links_verdict(&step, "", links.cases, 2);
	tap_check(!strcmp(judged, "pass"), "all depths were tried");
	links.cases[0].ready--;
	links.cases[1].ready++;
	mutex_links_verdict(&step, "", links.cases, 2);
	tap_check(!strcmp(judged, "inconclusive"), "one too many does not make up for it");
}

/* A depth is left out because of the kernel's limit, or because there is no such mutex. */
static void test_refused_chains(void)
{
	static struct mutex_links links = {
		.ensemble.step = &step,
		.case_count = 2,
		.cases = { { .links = 1, .protocol = MUTEX_INHERIT, .refused = ENOTSUP },
			   { .links = 2, .protocol = MUTEX_INHERIT, .refused = EDEADLK } },
	};

	step.state = &links;
	results[0] = '\0';
	chain_finish(&step);
	tap_check(!strcmp(results, CHAIN_RULE ": skipped. ") && strstr(said, "inherit"),
		  "no such mutex: %s", said);
	links.cases[0].refused = EDEADLK;
	chain_finish(&step);
	tap_check(strstr(said, CHAIN_LOCK_DEPTH) != NULL, "no such chain: %s", said);
}

/* A stop ends a test loop whose rounds have no samples. */
static void test_stopped_rounds(void)
{
	struct mutex_links_case c = { .samples = 200, .begun = 400, .slept = 801 };

	tap_check(!mutex_links_double_switches(&c), "high slept twice in each round");
	c.slept += 200;
	tap_check(mutex_links_double_switches(&c) == 500, "and a third time in half of them");
	c = (struct mutex_links_case){ .slept = 2 };
	tap_check(!mutex_links_double_switches(&c), "no round");
}

/* --- thread-switch --- */

static void test_groups(void)
{
	static struct switch_state state = { .ensemble.step = &step, .group_count = 3 };
	static struct series series[3];

	step.series = series;
	for (int i = 0; i < state.group_count; i++) {
		state.groups[i].known = &switch_known[i];
		state.groups[i].series = i;
	}
	series[0].histogram.count = 100;
	state.orders[0].judged = 1;
	snprintf(state.groups[1].refused, sizeof(state.groups[1].refused), "no memory");
	switch_verdict(&step, &state);
	check_not_tried("128 threads");
	state.groups[0].out_of_turn = 1;
	switch_verdict(&step, &state);
	tap_check(!strcmp(judged, "fail"), "a failure stays one");
	state.groups[0].out_of_turn = 0;
	state.ensemble.error = -ETIMEDOUT;
	results[0] = '\0';
	switch_verdict(&step, &state);
	tap_check(!results[0], "a failed step says nothing of what was not tried");
	state.ensemble.error = 0;
	series[2].histogram.count = 100;
	state.orders[2].judged = 1;
	switch_verdict(&step, &state);
	tap_check(!strcmp(judged, "pass"), "all that were not refused were tried");
}

static bool test_start(struct ensemble_thread *thread)
{
	return ensemble_fail(thread->ensemble, -EAGAIN, "cannot start a thread");
}

/* A number of threads that is refused is not what a later failure reports. */
static void test_refused_group(void)
{
	static struct switch_state state = { .ensemble.step = &step };
	struct switch_group group = { .known = &switch_known[0] };

	memset(&step.msg, 0, sizeof(step.msg));
	tap_check(!switch_start(&state, &group) && group.refused[0] && !state.ensemble.error,
		  "a number of threads is refused: %s", group.refused);
	ensemble_fail(&state.ensemble, -ETIMEDOUT, "a later failure");
	tap_check(strstr(step.msg.text, "later") != NULL, "the step fails: %s", step.msg.text);
	memset(&step.msg, 0, sizeof(step.msg));
}

/* --- sem-lock --- */

static void test_semaphore(void)
{
	static struct sem_state state = {
		.rounds = { [SEM_BLOCKS] = { .order.rule = SEM_BLOCKS_RULE },
			    [SEM_RESCHEDULES] = { .order.rule = SEM_RESCHEDULES_RULE } },
	};
	static const struct order none = { .rule = "" };

	step.state = &state;
	order_round(&state.rounds[SEM_BLOCKS], &none, false, NULL);
	results[0] = '\0';
	tap_check(!sem_finish(&step), "the step ends after its first rule");
	tap_check(strstr(results, SEM_BLOCKS_RULE ": fail") &&
			  strstr(results, SEM_INCREMENTS_RULE ": inconclusive") &&
			  strstr(results, SEM_RESCHEDULES_RULE ": inconclusive") &&
			  strstr(results, SEM_MAXIMUM_RULE ": inconclusive"),
		  "which failed, and the others were not tried: %s", results);
	state.ensemble.error = -ETIMEDOUT;
	results[0] = '\0';
	tap_check(sem_finish(&step) == -ETIMEDOUT, "an error is the step's");
	tap_check(!strcmp(results, SEM_BLOCKS_RULE ": fail. "),
		  "without verdicts on what was not tried: %s", results);
	state.rounds[SEM_BLOCKS] = (struct order_rounds){ .order.rule = SEM_BLOCKS_RULE };
	order_round(&state.rounds[SEM_BLOCKS], &none, true, NULL);
	results[0] = '\0';
	sem_finish(&step);
	tap_check(!results[0], "or on a rule that held in too few rounds: %s", results);
}

/* --- tick-cost --- */

static void test_starved_part(void)
{
	static struct tick_cost_state state = { .samples = 1000 };
	struct tick_cost_part *other = &state.other;

	step.state = &state;
	other->policy = "other";
	other->done = 400;
	other->hits = 3;
	said[0] = judged[0] = '\0';
	tick_cost_tell(&step, other);
	tap_check(!said[0] && !judged[0], "a part that was not starved");
	other->refused = "it had to wait too long for the CPU";
	tick_cost_tell(&step, other);
	tap_check(strstr(said, "400 of 1000") && strstr(said, other->refused) && !judged[0],
		  "one that was starved after it had seen ticks: %s", said);
	other->done = 1000;
	said[0] = '\0';
	tick_cost_tell(&step, other);
	tap_check(!said[0] && !judged[0], "one that came to its end nevertheless");
}

static void *fifo_part(void *worker)
{
	tick_cost_fifo(worker);
	return NULL;
}

/* A turn of SCHED_OTHER has fewer loops on a busy CPU: as if it had some more to do. */
static void test_slow_part(void)
{
	const struct series_info info = { .interval_ns = 0 };
	static struct tick_cost_state state = { .ensemble.step = &step, .samples = 1000 };
	static struct series series[6];
	struct worker worker = { .step = &step, .state = &state };
	pthread_t fifo;

	step.series = series;
	for (int i = 0; i < 6; i++)
		series_init(&series[i], i, &info, 1 << 15);
	state.loop_ns = 10 * NSEC_PER_USEC;
	state.fifo.tick = 1;
	state.fifo.other = 2;
	state.other.loop = 3;
	state.other.tick = 4;
	state.other.other = 5;
	state.fifo.view.events = state.fifo.events;
	state.fifo.view.spans = state.fifo.spans;
	state.other.view.events = state.other.events;
	state.other.view.spans = state.other.spans;
	state.other.done = -2 * TICK_COST_TURN;
	pthread_create(&fifo, NULL, fifo_part, &worker);
	tick_cost_other(&worker);
	pthread_join(fifo, NULL);
	tap_check(state.fifo.done == state.samples && state.other.done == state.samples,
		  "both parts have their samples: %lld and %lld", (long long)state.fifo.done,
		  (long long)state.other.done);
	for (int i = 0; i < 6; i++)
		series_free(&series[i]);
}

/* --- process-create --- */

/* A parent with so much memory that a child takes 30 ms. */
static pid_t test_waitpid(pid_t pid, int *status, int options)
{
	const struct timespec slow = { .tv_nsec = 30 * NSEC_PER_MSEC };

	nanosleep(&slow, NULL);
	return waitpid(pid, status, options);
}

/* Between children, too, others get the CPU, and the step ends when its time is up. */
static void test_slow_children(void)
{
	static struct process_state state = { .ensemble.step = &step, .samples = 100 };
	struct worker worker = { .step = &step, .state = &state };
	const struct series_info info = { .name = "start" };
	struct series series[2];

	for (int i = 0; i < 2; i++)
		series_init(&series[i], i, &info, 64);
	state.series[0].life = 1;
	state.ran_ns = mmap(NULL, sizeof(*state.ran_ns), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	step.series = series;
	for_ns = 50 * NSEC_PER_MSEC;
	process_loop(&worker);
	for_ns = 0;
	tap_check(!state.ensemble.error && series[0].head && series[0].head < 10,
		  "a test loop of slow children ends when the time is up: %u words",
		  (unsigned int)series[0].head);
	step.series = NULL;
	munmap(state.ran_ns, sizeof(*state.ran_ns));
	for (int i = 0; i < 2; i++)
		series_free(&series[i]);
}

static void test_children(void)
{
	static struct process_state state = { .ensemble.step = &step };

	memset(&step.msg, 0, sizeof(step.msg));
	process_failed(&state, "exec", PROCESS_NOT_STARTED << 8);
	tap_check(state.ensemble.error && strstr(step.msg.text, "exec") &&
			  strstr(step.msg.text, "127") && strstr(step.msg.remedy, "/proc"),
		  "%s: %s", step.msg.text, step.msg.remedy);
	memset(&step.msg, 0, sizeof(step.msg));
	process_failed(&state, "fork", SIGKILL);
	tap_check(strstr(step.msg.text, "signal 9") && !strstr(step.msg.remedy, "/proc"), "%s: %s",
		  step.msg.text, step.msg.remedy);
	memset(&step.msg, 0, sizeof(step.msg));
}

/* --- page-fault --- */

/* One verdict of each rule. */
static void check_memory(const char *expected)
{
	results[0] = '\0';
	fault_finish(&step);
	tap_check(!strcmp(results, expected), "%s", results);
}

static void test_memory(void)
{
	static struct fault_state state = { .ensemble.step = &step };

	step.state = &state;
	for (int kind = 0; kind < FAULT_KINDS; kind++)
		state.kinds[kind].touches = kind != FAULT_COPY;
	state.kinds[FAULT_HUGE] = (struct fault_measured){ .refused = ENOSYS };
	check_memory(FAULT_FREE ": pass. " FAULT_ALL_MEASURED ": inconclusive. ");
	check_not_tried(fault_kinds[FAULT_COPY].name);
	state.kinds[FAULT_COPY] = state.kinds[FAULT_FILE] =
		(struct fault_measured){ .refused = ENOSPC };
	check_memory(FAULT_FREE ": pass. " FAULT_ALL_MEASURED ": skipped. ");
	state.kinds[FAULT_HUGE] = (struct fault_measured){ .touches = 1 };
	check_memory(FAULT_FREE ": pass. " FAULT_ALL_MEASURED ": skipped. ");
	tap_check(strstr(said, "a file in memory") != NULL, "which is a file: %s", said);
	state.kinds[FAULT_HUGE].others = 2;
	results[0] = said[0] = '\0';
	fault_tell_others(&step, &state.kinds[FAULT_HUGE]);
	tap_check(strstr(said, "2 of 3 accesses") != NULL, "%s", said);
	state.kinds[FAULT_HUGE].others = 0;
	state.kinds[FAULT_COPY] = state.kinds[FAULT_FILE] = state.kinds[FAULT_HUGE];
	check_memory(FAULT_FREE ": pass. ");
	state.kinds[FAULT_LOCKED].touches = 0;
	check_memory(FAULT_FREE ": inconclusive. ");
	check_not_tried("locked memory");
}

int main(void)
{
	test_first_round();
	test_idle_states();
	test_idle_time();
	test_idle_times();
	test_slow_thread();
	test_scenarios();
	test_chains();
	test_refused_chains();
	test_stopped_rounds();
	test_groups();
	test_refused_group();
	test_semaphore();
	test_starved_part();
	test_slow_part();
	test_children();
	test_slow_children();
	test_memory();
	cbor_free(&cbor);
	return tap_end();
}
