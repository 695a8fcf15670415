// SPDX-License-Identifier: Apache-2.0
/*
 * Timer latency by sleeping: clock_nanosleep until a due time, with SCHED_FIFO or inside a
 * SCHED_DEADLINE reservation, and nanosleep for a time. Steps 1 and 2 of the path of a sample: the
 * timer interrupt comes, the kernel wakes the waiting thread, and the thread reads the clock first.
 */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "measurements/timer/timer_method.h"

#define TIMER_SCHED_DEADLINE 6

/* Sleep until @due. 0, or EINTR when the run is to stop: other signals do not end the wait. */
static inline int timer_sleep(const struct step *step, const struct timespec *due)
{
	int err;

	while ((err = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, due, NULL)) == EINTR &&
	       !step_stopped(step))
		;
	return err;
}

static inline int64_t timer_sleep_wait(const struct timer_thread *t, const struct step *step,
				       const struct timespec *due, struct timespec *now)
{
	(void)t;
	if (timer_sleep(step, due))
		return 0;
	clock_gettime(CLOCK_MONOTONIC, now);
	return 1;
}

void timer_sleep_loop(struct worker *worker)
{
	timer_grid(worker, timer_sleep_wait, timer_passed);
}

static inline bool timer_sleep_once(const struct timer_thread *t, const struct step *step,
				    const struct timespec *due, int64_t *now_ns)
{
	(void)t;
	if (timer_sleep(step, due))
		return false;
	*now_ns = clock_now_ns(CLOCK_MONOTONIC);
	return true;
}

void timer_sleep_dithered(struct worker *worker)
{
	timer_dithered(worker, timer_sleep_once);
}

static inline int timer_sleep_rest(struct timespec *rest)
{
	return nanosleep(rest, rest);
}

void timer_relative_loop(struct worker *worker)
{
	timer_relative(worker, timer_sleep, timer_sleep_rest);
}

/*
 * Let the thread run on every CPU, which the kernel asks for, and reserve it its share of each
 * period. Within the loop each wake-up restarts the reservation: sched-deadline.rst, the
 * wake-up rule of its constant bandwidth server.
 */
int timer_reserve(struct worker *worker)
{
	const struct timer_thread *t = worker->state;
	struct {
		uint32_t size;
		uint32_t policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime_ns;
		uint64_t deadline_ns;
		uint64_t period_ns;
	} reservation = { .size = sizeof(reservation), .policy = TIMER_SCHED_DEADLINE };
	struct cpulist online;

	reservation.period_ns = (uint64_t)timer_reserved_period_ns(t->interval_ns);
	reservation.deadline_ns = reservation.period_ns;
	reservation.runtime_ns = (uint64_t)timer_reserved_ns(t->interval_ns, t->per_cpu);
	if (!cpulist_online(&online))
		cpulist_apply(&online, 0);
	return syscall(SYS_sched_setattr, 0, &reservation, 0) ? -errno : 0;
}
