// SPDX-License-Identifier: Apache-2.0
/* Tests of sem_order.c: a wait that ended is the semaphore's fault only if all waiters sleep. The
 * waiters are made up. Prints TAP. */
#include <string.h>

#include "methods/ensemble.h"
#include "methods/order.h"

static bool test_start(struct ensemble_thread *thread);
static bool test_join(struct ensemble_thread *thread);
static bool test_await(struct ensemble *e, const uint32_t *word, uint32_t value);
static bool test_await_below(struct ensemble *e, const uint32_t *word, uint32_t value);
static int test_asleep(pid_t tid);

#define ensemble_start test_start
#define ensemble_join test_join
#define ensemble_await test_await
#define ensemble_await_below test_await_below
#define ensemble_asleep test_asleep
#include "measurements/sem_order.c"
#undef ensemble_start
#undef ensemble_join
#undef ensemble_await
#undef ensemble_await_below
#undef ensemble_asleep

#include "tap.h"

#define WAITERS 3

static struct step step;
static struct sem_state state;
static uint32_t arrives, releases; /* so many come */
static int awake;		   /* so many of the others do not sleep */
static bool late;		   /* the keeper ends after the conductor has given up */
static int asked;

static bool test_start(struct ensemble_thread *thread)
{
	if (thread == &state.keeper && !late)
		thread->body(thread);
	return true;
}

static bool test_join(struct ensemble_thread *thread)
{
	if (thread == &state.keeper && late)
		thread->body(thread);
	return true;
}

static bool test_await(struct ensemble *e, const uint32_t *word, uint32_t value)
{
	return state.ended;
}

static bool test_await_below(struct ensemble *e, const uint32_t *word, uint32_t value)
{
	uint32_t most = word == &state.arrived ? arrives : releases;

	if (value > most)
		return false;
	atomic_store_release(word == &state.arrived ? &state.arrived : &state.released, value);
	return true;
}

/* The released ones have ended, the next @awake ones are not asleep. */
static int test_asleep(pid_t tid)
{
	return ++asked > (int)state.released + awake;
}

static const char *disturbed(void)
{
	state = (struct sem_state){ .ensemble.step = &step, .count = WAITERS };
	state.keeper = (struct ensemble_thread){ .ensemble = &state.ensemble,
						 .state = &state,
						 .body = sem_keeper_body };
	asked = 0;
	sem_init(&state.sem, 0, 0);
	sem_carry_out(&state);
	return sem_disturbed(&state, 0);
}

static void check(const char *what, bool single, bool expected)
{
	const char *found = disturbed();

	tap_check(state.single == single && expected == (found && !strcmp(found, ENSEMBLE_KEPT)),
		  "%s: %s", what, found ? found : "judged");
}

int main(void)
{
	arrives = releases = WAITERS;
	check("all are released", true, false);
	late = true;
	check("the keeper was kept", true, true);
	late = false;
	releases = 1;
	check("a V wakes no waiter", false, false);
	awake = 1;
	check("a waiter was kept after its V", false, true);
	arrives = 2;
	check("a waiter was kept before its P", false, true);
	return tap_end();
}
