// SPDX-License-Identifier: Apache-2.0
/*
 * Tests of timer_signal.c: which signal of the interval timer belongs to which due time. The kernel
 * is made up here, with its timer, the one SIGALRM that it keeps, and wake-ups that come late.
 * Prints TAP.
 */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "measurements/timer/timer_method.h"

static int test_wait(siginfo_t *info);
static int test_clock(struct timespec *now);
static int64_t test_now_ns(void);
static int test_resolution(struct timespec *resolution);
static int test_left(struct itimerval *left);
static int test_pending(sigset_t *pending);

#define sigwaitinfo(set, info) ((void)(set), test_wait(info))
#define clock_gettime(id, now) test_clock(now)
#define clock_now_ns(id) test_now_ns()
#define clock_getres(id, resolution) test_resolution(resolution)
#define getitimer(which, left) test_left(left)
#define sigpending(pending) test_pending(pending)
#include "measurements/timer/timer_signal.c"
#undef sigwaitinfo
#undef clock_gettime
#undef clock_now_ns
#undef clock_getres
#undef getitimer
#undef sigpending

#include "tap.h"

#define PERIOD_NS (100 * NSEC_PER_USEC)
#define OFFSET_NS (15 * NSEC_PER_USEC) /* of the kernel's grid behind that of the agent */
#define READ_NS 200
#define SAMPLES 20000

/* The kernel. Its timer is set for @next_ns unless it has expired, and its signal was not taken. */
static struct {
	int64_t now_ns, next_ns;
	int64_t taken_ns; /* when the last signal was taken */
	int64_t foreign_ns, foreign_every_ns;
	int pending; /* 0, or the code of the pending signal, plus 1 */
	bool set;
	int64_t resolution_ns;
	int64_t late_from_ns, late_until_ns; /* of some wake-ups */
	int late_percent;
	int64_t held_ns; /* longest time from the signal to the clock reading */
	uint64_t random;
	bool refuses;
} kernel;

static int64_t any(int64_t below)
{
	kernel.random ^= kernel.random << 13;
	kernel.random ^= kernel.random >> 7;
	kernel.random ^= kernel.random << 17;
	return below > 0 ? (int64_t)(kernel.random % (uint64_t)below) : 0;
}

/* All that happens until then. */
static void run_until(int64_t until_ns)
{
	for (;;) {
		bool foreign = kernel.foreign_every_ns &&
			       (!kernel.set || kernel.foreign_ns < kernel.next_ns);
		int64_t at_ns = foreign ? kernel.foreign_ns : kernel.next_ns;

		if ((!foreign && !kernel.set) || at_ns > until_ns)
			break;
		if (!kernel.pending)
			kernel.pending = 1 + (foreign ? SI_USER : SI_KERNEL);
		if (foreign)
			kernel.foreign_ns +=
				kernel.foreign_every_ns / 2 + any(kernel.foreign_every_ns);
		else
			kernel.set = false;
	}
	kernel.now_ns = until_ns;
}

/* The thread sleeps and wakes up, some times late, unless a signal is pending already. */
static int test_wait(siginfo_t *info)
{
	int64_t takes_ns = 300;

	if (!kernel.pending) {
		takes_ns = 2 * NSEC_PER_USEC;
		if (any(100) < kernel.late_percent)
			takes_ns += kernel.late_from_ns +
				    any(kernel.late_until_ns - kernel.late_from_ns);
	}
	while (!kernel.pending)
		run_until(kernel.foreign_every_ns &&
					  (!kernel.set || kernel.foreign_ns < kernel.next_ns) ?
				  kernel.foreign_ns :
				  kernel.next_ns);
	run_until(kernel.now_ns + takes_ns);
	memset(info, 0, sizeof(*info));
	info->si_code = kernel.pending - 1;
	kernel.pending = 0;
	kernel.taken_ns = kernel.now_ns;
	while (!kernel.set) { /* hrtimer_forward() */
		kernel.next_ns += PERIOD_NS > kernel.resolution_ns ? PERIOD_NS :
								     kernel.resolution_ns;
		kernel.set = kernel.next_ns > kernel.now_ns;
	}
	run_until(kernel.now_ns + any(kernel.held_ns));
	return SIGALRM;
}

static int64_t test_now_ns(void)
{
	run_until(kernel.now_ns + READ_NS);
	return kernel.now_ns;
}

static int test_clock(struct timespec *now)
{
	*now = clock_from_ns(test_now_ns());
	return 0;
}

static int test_resolution(struct timespec *resolution)
{
	*resolution = clock_from_ns(kernel.resolution_ns);
	return 0;
}

static int test_left(struct itimerval *left)
{
	int64_t us = kernel.set ? (kernel.next_ns - kernel.now_ns) / NSEC_PER_USEC : 0;

	if (kernel.refuses) {
		errno = ENOSYS;
		return -1;
	}
	memset(left, 0, sizeof(*left));
	left->it_value = timer_timeval(us);
	left->it_interval = timer_timeval(PERIOD_NS / NSEC_PER_USEC);
	return 0;
}

static int test_pending(sigset_t *pending)
{
	sigemptyset(pending);
	if (kernel.pending)
		sigaddset(pending, SIGALRM);
	return 0;
}

struct counted {
	int early;   /* samples before the kernel's timer expired for them */
	int lost;    /* samples after it had expired once more */
	int64_t due; /* grid points up to the last sample */
};

/* As timer_grid() does, with the kernel as it is. */
static struct counted measure(int64_t (*passed)(const struct timer_thread *t,
						const struct timespec *due, int64_t late_ns,
						int64_t counted))
{
	static struct step step;
	struct timer_thread t = { .interval_ns = PERIOD_NS };
	struct counted counted = { 0 };
	int64_t due_ns = NSEC_PER_SEC;

	kernel.now_ns = due_ns - PERIOD_NS / 2;
	kernel.next_ns = due_ns + OFFSET_NS;
	kernel.foreign_ns = kernel.now_ns + any(kernel.foreign_every_ns);
	kernel.set = true;
	kernel.pending = 0;
	kernel.random = 1;
	for (int i = 0; i < SAMPLES; i++) {
		struct timespec due = clock_from_ns(due_ns), now;
		int64_t points = timer_itimer_wait(&t, &step, &due, &now);
		int64_t late_ns = clock_to_ns(&now) - due_ns;

		counted.early += kernel.taken_ns < due_ns + OFFSET_NS;
		counted.lost += kernel.late_percent == 0 && late_ns >= PERIOD_NS;
		if (late_ns >= PERIOD_NS)
			points = passed(&t, &due, late_ns, points);
		due_ns += points * PERIOD_NS;
		counted.due += points;
	}
	return counted;
}

static void test_delays(void)
{
	struct counted simply, found;

	kernel.resolution_ns = 1;
	kernel.late_percent = 30;
	kernel.held_ns = 3 * NSEC_PER_USEC;
	kernel.late_from_ns = 70 * NSEC_PER_USEC;
	kernel.late_until_ns = 100 * NSEC_PER_USEC;
	simply = measure(timer_passed);
	found = measure(timer_itimer_passed);
	tap_check(simply.early > SAMPLES / 100,
		  "delays of nearly a period, without a look at the timer: %d early", simply.early);
	tap_check(!found.early, "with it: %d early", found.early);
	kernel.late_from_ns = 0;
	kernel.late_until_ns = 1000 * NSEC_PER_USEC;
	found = measure(timer_itimer_passed);
	tap_check(!found.early, "delays of up to ten periods: %d early", found.early);
	kernel.held_ns = 0;
	kernel.late_percent = 0;
	found = measure(timer_itimer_passed);
	tap_check(!found.early && !found.lost && found.due == SAMPLES,
		  "without delays: each grid point has its sample");
}

static void test_foreign(void)
{
	struct counted found;

	kernel.resolution_ns = 1;
	kernel.held_ns = 0;
	kernel.late_percent = 0;
	kernel.foreign_every_ns = 170 * NSEC_PER_USEC;
	found = measure(timer_itimer_passed);
	tap_check(!found.early && !found.lost,
		  "signals of another program: %d early, %d a period late", found.early,
		  found.lost);
	kernel.late_percent = 30;
	kernel.late_until_ns = 300 * NSEC_PER_USEC;
	found = measure(timer_itimer_passed);
	tap_check(!found.early, "and delays: %d early", found.early);
	kernel.late_percent = 0;
	kernel.resolution_ns = 10 * NSEC_PER_MSEC;
	found = measure(timer_itimer_passed);
	tap_check(!found.early && found.due > 50 * SAMPLES,
		  "with timers of a low resolution: %d early", found.early);
}

static void test_refused(void)
{
	struct timer_thread t = { 0 };
	struct worker worker = { .state = &t };

	kernel.refuses = true;
	tap_check(timer_itimer_prepare(&worker) == -ENOSYS, "a kernel without interval timers");
}

int main(void)
{
	kernel.random = 1;
	test_delays();
	test_foreign();
	test_refused();
	return tap_end();
}
