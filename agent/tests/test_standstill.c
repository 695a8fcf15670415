// SPDX-License-Identifier: Apache-2.0
/* Tests of measurements of behaviour: a round in which the process stood still does not count. The
 * threads are made up. Prints TAP. */
#include <errno.h>
#include <string.h>

#include "methods/ensemble.h"
#include "methods/order.h"

static bool test_goes_on(struct ensemble *e);
static bool test_start(struct ensemble_thread *thread);
static bool test_join(struct ensemble_thread *thread);
static bool test_await(struct ensemble *e, const uint32_t *word, uint32_t value);
static bool test_await_posts(struct ensemble *e, uint32_t *word, uint32_t value);
static int test_asleep(pid_t tid);

#define ensemble_goes_on test_goes_on
#define ensemble_start test_start
#define ensemble_join test_join
#define ensemble_await test_await
#define ensemble_await_posts test_await_posts
#define ensemble_asleep test_asleep
#include "measurements/mutex_inversion.c"
#include "measurements/sem_lock.c"
#include "measurements/thread_lifecycle.c"
#include "measurements/thread_rules.c"
#undef ensemble_goes_on
#undef ensemble_start
#undef ensemble_join
#undef ensemble_await
#undef ensemble_await_posts
#undef ensemble_asleep

#include "tap.h"

static struct step step;

/* What the threads of a round do, in turn: thread and act. */
static const char *const (*events)[2];
static const char *const (*good_events)[2];
static struct order *now;
static bool stands_still; /* in the first round */
static bool done;	  /* the threads of this round */
static bool gives_up;	  /* in the first round, after its events */
static int asleep;	  /* threads then, or -errno */
static struct lifecycle_state lifecycle = { .ensemble.step = &step, .scenario = LIFECYCLE_BLOCKED };

static bool test_goes_on(struct ensemble *e)
{
	done = false;
	return true;
}

static bool test_start(struct ensemble_thread *thread)
{
	return true;
}

static void test_events(void)
{
	for (int i = 0; events[i][0]; i++)
		order_mark(now, events[i][0], events[i][1]);
	events = good_events;
	done = true;
}

static bool test_await(struct ensemble *e, const uint32_t *word, uint32_t value)
{
	if (!gives_up)
		return true;
	gives_up = false;
	test_events();
	return false;
}

static int test_asleep(pid_t tid)
{
	return asleep;
}

static bool test_await_posts(struct ensemble *e, uint32_t *word, uint32_t value)
{
	return test_await(e, word, value);
}

/* The first thread that is joined stands for all. */
static bool test_join(struct ensemble_thread *thread)
{
	if (done)
		return true;
	test_events();
	if (stands_still)
		thread->ensemble->stalls++;
	lifecycle.kinds[LIFECYCLE_BLOCKED].wrong++;
	stands_still = false;
	return true;
}

static void begin(struct order *order, const char *const (*first)[2],
		  const char *const (*others)[2])
{
	now = order;
	events = first;
	good_events = others;
	stands_still = true;
}

static void check(const struct order_rounds *rounds, const char *what)
{
	tap_check(rounds->held && rounds->judged == ORDER_ROUNDS && rounds->repeated == 1 &&
			  !strcmp(rounds->disturbed, ENSEMBLE_STALLED),
		  "%s: %d rounds hold, and %d with a standstill is repeated", what, rounds->judged,
		  rounds->repeated);
}

/* clang-format off */
#define END { NULL, NULL }

static void test_rules(void)
{
	static const char *const wrong[][2] = {
		{ "creator", "" }, { "first", "" }, { "creator", "" }, { "first", "" },
		{ "second", "" }, { "second", "" }, { "low", "" }, END };
	static const char *const right[][2] = {
		{ "creator", "" }, { "first", "" }, { "first", "" }, { "second", "" },
		{ "second", "" }, { "creator", "" }, { "low", "" }, END };
	static struct rules_state state = { .ensemble.step = &step };
	static struct order_rounds rounds;
	const struct rules_case *yield = &rules_cases[RULES_CASES - 1];

	begin(&state.now, wrong, right);
	rules_carry_out(&state, yield, &rounds);
	check(&rounds, yield->rule);
}

static void test_semaphore(void)
{
	static const char *const wrong[][2] = {
		{ "high", "" }, { "low", "" }, { "low", "" }, { "high", "" }, END };
	static const char *const right[][2] = {
		{ "high", "" }, { "low", "" }, { "high", "" }, { "low", "" }, END };
	static struct sem_state state = { .ensemble.step = &step,
					  .high.ensemble = &state.ensemble,
					  .low.ensemble = &state.ensemble };

	begin(&state.now, wrong, right);
	sem_scenario(&state, SEM_RESCHEDULES);
	check(&state.rounds[SEM_RESCHEDULES], SEM_RESCHEDULES_RULE);
}

/* The conductor gave up. Only a high thread that sleeps where it must not is the semaphore's fault. */
static void test_given_up(void)
{
	static const struct {
		const char *what;
		const char *const events[5][2];
		int asleep;
		bool broken;
	} cases[] = {
		{ "high was kept from the CPU", { { "high", "P at 3" }, END }, 0, false },
		{ "high was not seen", { { "high", "P at 3" }, END }, -ESRCH, false },
		{ "high had not begun", { END }, 1, false },
		{ "P at 3 blocks", { { "high", "P at 3" }, END }, 1, true },
		{ "low was kept from the V", { { "high", "P at 0" }, END }, 1, false },
		{ "low was kept in the V",
		  { { "high", "P at 0" }, { "low", "V" }, END }, 1, false },
		{ "the V is lost",
		  { { "high", "P at 0" }, { "low", "V" }, { "low", SEM_GOES_ON }, END }, 1, true },
		{ "high was kept after the V",
		  { { "high", "P at 0" }, { "low", "V" }, { "low", SEM_GOES_ON }, END }, 0, false },
	};
	static const char *const right[][2] = {
		{ "high", "P at 0" }, { "low", "V" }, { "high", "has it" }, END };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		static struct sem_state state;
		const struct order_rounds *rounds = &state.rounds[SEM_BLOCKS];

		state = (struct sem_state){ .ensemble.step = &step,
					    .high.ensemble = &state.ensemble,
					    .low.ensemble = &state.ensemble };
		begin(&state.now, cases[i].events, right);
		stands_still = false;
		gives_up = true;
		asleep = cases[i].asleep;
		sem_scenario(&state, SEM_BLOCKS);
		tap_check(rounds->held != cases[i].broken && rounds->repeated == !cases[i].broken,
			  "%s: %d of %d rounds repeated", cases[i].what, rounds->repeated,
			  rounds->judged);
	}
}

static void test_inversion(void)
{
	static const char *const wrong[][2] = {
		{ "low", "has the mutex" }, { "high", INVERSION_WANTS }, { "middle", "runs" },
		{ "low", "releases it" }, { "high", "has the mutex" }, END };
	static const char *const right[][2] = {
		{ "low", "has the mutex" }, { "high", INVERSION_WANTS }, { "low", "releases it" },
		{ "high", "has the mutex" }, { "middle", "runs" }, END };
	static struct inversion_state state = { .ensemble.step = &step, .count = 1 };
	struct worker worker = { .state = &state };

	begin(&state.inversions[0].now, wrong, right);
	inversion_loop(&worker);
	check(&state.inversions[0].rounds, "priority inversion");
}
/* clang-format on */

/* A thread at the wrong time, in a test loop with a standstill and in one without. */
static void test_lifecycle(void)
{
	static const char *const none[][2] = { { NULL, NULL } };
	struct lifecycle_measured *m = &lifecycle.kinds[LIFECYCLE_BLOCKED];
	const struct series_info info = { .interval_ns = 0 };
	static struct series series;
	static struct order order;

	series_init(&series, 0, &info, 64);
	step.series = &series;
	begin(&order, none, none);
	m->wrong = 0;
	done = false;
	lifecycle_go(&lifecycle);
	tap_check(!m->wrong && m->disturbed == 1, "a thread is not judged");
	done = false;
	lifecycle_go(&lifecycle);
	tap_check(m->wrong == 1 && m->disturbed == 1, "the next one is");
	series_free(&series);
}

int main(void)
{
	test_rules();
	test_semaphore();
	test_given_up();
	test_inversion();
	test_lifecycle();
	return tap_end();
}
