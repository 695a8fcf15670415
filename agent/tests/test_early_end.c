// SPDX-License-Identifier: Apache-2.0
/* Tests of steps that end before all is measured: what counts, and what no test may pass without.
 * Prints TAP. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "run/step.h"

static int test_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *),
		       void *arg);

#define pthread_create test_create
#include "measurements/thread_lifecycle.c"
#undef pthread_create

#include "tap.h"

static struct tap tap;
static struct step step;

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

static void test_slow_thread(void)
{
	struct lifecycle_measured *m = &lifecycle.kinds[LIFECYCLE_TERMINATED];
	struct ensemble_thread creator = { .ensemble = &lifecycle.ensemble, .state = &lifecycle };

	pthread_attr_init(&m->attr);
	lifecycle.scenario = LIFECYCLE_TERMINATED;
	lifecycle.count = LIFECYCLE_LOOP;
	slow = 1;
	lifecycle_creator(&creator);
	tap_check(&tap, created == 1 && lifecycle.done == 1,
		  "the slow thread that ends a test loop counts: %d of %d", lifecycle.done,
		  created);
	tap_check(&tap, lifecycle.create_ns[0] > LIFECYCLE_LOOP_NS, "with the time it took");
	pthread_attr_destroy(&m->attr);
}

int main(void)
{
	test_slow_thread();
	return tap_end(&tap);
}
