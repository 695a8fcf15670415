// SPDX-License-Identifier: Apache-2.0
/*
 * Timer latency of tasks of the Cobalt core: the methods of Linux by the core's own system calls.
 * Steps 1 and 2 of the path of a sample. No Linux system call between two samples: it would take
 * the task off the core. The clock is that of Linux, which is read without a system call.
 */
#include "core/core.h"

#if defined(__x86_64__) || defined(__aarch64__)
#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>

#include "core/cobalt.h"
#include "measurements/timer/timer_method.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* Revisions of Xenomai 3.3: the times of timers are of another call. */
#define TIMER_COBALT_TIME64 19

static bool timer_cobalt_time64(void)
{
	return cobalt_revision() >= TIMER_COBALT_TIME64;
}

/* --- sleeping --- */

/* Sleep until @due. 0, or not when the run is to stop. */
static inline int timer_cobalt_sleep(const struct step *step, const struct timespec *due)
{
	int err;

	while ((err = (int)syscall(COBALT_CLOCK_NANOSLEEP, CLOCK_MONOTONIC, TIMER_ABSTIME, due,
				   NULL)) &&
	       errno == EINTR && !step_stopped(step))
		;
	return err;
}

static inline int64_t timer_cobalt_wait(const struct timer_thread *t, const struct step *step,
					const struct timespec *due, struct timespec *now)
{
	(void)t;
	if (timer_cobalt_sleep(step, due))
		return 0;
	clock_gettime(CLOCK_MONOTONIC, now);
	return 1;
}

static void timer_cobalt_loop(struct worker *worker)
{
	timer_grid(worker, timer_cobalt_wait, timer_passed);
}

static inline bool timer_cobalt_once(const struct timer_thread *t, const struct step *step,
				     const struct timespec *due, int64_t *now_ns)
{
	(void)t;
	if (timer_cobalt_sleep(step, due))
		return false;
	*now_ns = clock_now_ns(CLOCK_MONOTONIC);
	return true;
}

static void timer_cobalt_dithered(struct worker *worker)
{
	timer_dithered(worker, timer_cobalt_once);
}

/* As nanosleep() of Xenomai's library does. */
static inline int timer_cobalt_rest(struct timespec *rest)
{
	return (int)syscall(COBALT_CLOCK_NANOSLEEP, CLOCK_REALTIME, 0, rest, rest);
}

static void timer_cobalt_relative(struct worker *worker)
{
	timer_relative(worker, timer_cobalt_sleep, timer_cobalt_rest);
}

/* --- a timer and its signal --- */

static int timer_cobalt_signal_prepare(struct worker *worker)
{
	struct timer_thread *t = worker->state;
	struct sigevent event;

	sigemptyset(&t->signals);
	sigaddset(&t->signals, SIGALRM);
	memset(&event, 0, sizeof(event));
	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = SIGALRM;
	event.sigev_notify_thread_id = worker->tid;
	return syscall(COBALT_TIMER_CREATE, CLOCK_MONOTONIC, &event, &t->fd) ? -errno : 0;
}

static inline bool timer_cobalt_take(const struct timer_thread *t, const struct step *step,
				     siginfo_t *info, struct timespec *now)
{
	long got;

	do {
		got = syscall(COBALT_SIGWAITINFO, &t->signals, info);
		clock_gettime(CLOCK_MONOTONIC, now);
	} while (got < 0 && errno == EINTR && !step_stopped(step));
	return got == SIGALRM;
}

static inline int64_t timer_cobalt_signal_wait(const struct timer_thread *t,
					       const struct step *step, const struct timespec *due,
					       struct timespec *now)
{
	siginfo_t info;

	(void)due;
	return timer_cobalt_take(t, step, &info, now) ? 1 + (int64_t)info.si_overrun : 0;
}

static void timer_cobalt_set(const struct timer_thread *t, const struct itimerspec *when)
{
	syscall(timer_cobalt_time64() ? COBALT_TIMER_SETTIME64 : COBALT_TIMER_SETTIME, t->fd,
		TIMER_ABSTIME, when, NULL);
}

static void timer_cobalt_signal_loop(struct worker *worker)
{
	const struct timer_thread *t = worker->state;
	const struct itimerspec grid = { .it_value = timer_first_due(worker->step, t),
					 .it_interval = clock_from_ns(t->interval_ns) };

	timer_cobalt_set(t, &grid);
	timer_grid(worker, timer_cobalt_signal_wait, timer_counted);
	syscall(COBALT_TIMER_DELETE, t->fd);
}

static inline bool timer_cobalt_signal_once(const struct timer_thread *t, const struct step *step,
					    const struct timespec *due, int64_t *now_ns)
{
	const struct itimerspec once = { .it_value = *due };
	struct timespec now;
	siginfo_t info;

	timer_cobalt_set(t, &once);
	if (!timer_cobalt_take(t, step, &info, &now))
		return false;
	*now_ns = clock_to_ns(&now);
	return true;
}

static void timer_cobalt_signal_dithered(struct worker *worker)
{
	const struct timer_thread *t = worker->state;

	timer_dithered(worker, timer_cobalt_signal_once);
	syscall(COBALT_TIMER_DELETE, t->fd);
}

/* --- a timer that is a file --- */

static int timer_cobalt_fd_prepare(struct worker *worker)
{
	struct timer_thread *t = worker->state;

	t->fd = (int)syscall(COBALT_TIMERFD_CREATE, CLOCK_MONOTONIC, TFD_CLOEXEC);
	return t->fd < 0 ? -errno : 0;
}

/* Unlike Linux, the core does not start a timer whose time has gone by. */
static bool timer_cobalt_fd_set(const struct timer_thread *t, const struct itimerspec *when)
{
	return !syscall(timer_cobalt_time64() ? COBALT_TIMERFD_SETTIME64 : COBALT_TIMERFD_SETTIME,
			t->fd, TFD_TIMER_ABSTIME, when, NULL);
}

/* Closing it would take the task off the core; the end of the process closes it. */
static void timer_cobalt_fd_stop(const struct timer_thread *t)
{
	const struct itimerspec never = { .it_value = { 0, 0 } };

	timer_cobalt_fd_set(t, &never);
}

static inline int64_t timer_cobalt_fd_read(const struct timer_thread *t, const struct step *step,
					   const struct timespec *due, struct timespec *now)
{
	uint64_t expired = 0;
	long got;

	(void)due;
	do {
		got = syscall(COBALT_READ, t->fd, &expired, sizeof(expired));
		clock_gettime(CLOCK_MONOTONIC, now);
	} while (got < 0 && errno == EINTR && !step_stopped(step));
	return got < 0 ? 0 : (int64_t)expired;
}

/* The first wake-up of a timer that was started late is that of the grid points that had gone by. */
static inline int64_t timer_cobalt_fd_wait(const struct timer_thread *t, const struct step *step,
					   const struct timespec *due, struct timespec *now)
{
	if (__builtin_expect(t->gone, 0)) {
		const struct timespec first = timer_first_due(step, t);

		if (!clock_difference_ns(due, &first)) {
			clock_gettime(CLOCK_MONOTONIC, now);
			return t->gone;
		}
	}
	return timer_cobalt_fd_read(t, step, due, now);
}

/* Start the timer at the first grid point to come. */
static bool timer_cobalt_fd_start(struct timer_thread *t, const struct step *step)
{
	struct itimerspec grid = { .it_value = timer_first_due(step, t),
				   .it_interval = clock_from_ns(t->interval_ns) };
	const int64_t first_ns = clock_to_ns(&grid.it_value);

	t->gone = 0;
	while (!timer_cobalt_fd_set(t, &grid)) {
		if (errno != ETIMEDOUT || step_stopped(step))
			return false;
		t->gone = (clock_now_ns(CLOCK_MONOTONIC) - first_ns) / t->interval_ns + 1;
		grid.it_value = clock_from_ns(first_ns + t->gone * t->interval_ns);
	}
	return true;
}

static void timer_cobalt_fd_loop(struct worker *worker)
{
	if (timer_cobalt_fd_start(worker->state, worker->step))
		timer_grid(worker, timer_cobalt_fd_wait, timer_counted);
	timer_cobalt_fd_stop(worker->state);
}

static inline bool timer_cobalt_fd_once(const struct timer_thread *t, const struct step *step,
					const struct timespec *due, int64_t *now_ns)
{
	const struct itimerspec once = { .it_value = *due };
	struct timespec now;

	if (!timer_cobalt_fd_set(t, &once))
		clock_gettime(CLOCK_MONOTONIC, &now);
	else if (!timer_cobalt_fd_read(t, step, due, &now))
		return false;
	*now_ns = clock_to_ns(&now);
	return true;
}

static void timer_cobalt_fd_dithered(struct worker *worker)
{
	const struct timer_thread *t = worker->state;

	timer_dithered(worker, timer_cobalt_fd_once);
	timer_cobalt_fd_stop(t);
}

/* --- the methods that the core has --- */

const struct timer_method timer_cobalt_methods[] = {
	{ .name = "clock_nanosleep", .loop = timer_cobalt_loop, .dithered = timer_cobalt_dithered },
	{ .name = "nanosleep", .loop = timer_cobalt_relative, .relative = true },
	{ .name = "timer",
	  .loop = timer_cobalt_signal_loop,
	  .dithered = timer_cobalt_signal_dithered,
	  .prepare = timer_cobalt_signal_prepare,
	  .refusal = "a timer",
	  .remedy = "raise CONFIG_XENO_OPT_NRTIMERS of the kernel" },
	{ .name = "timerfd",
	  .loop = timer_cobalt_fd_loop,
	  .dithered = timer_cobalt_fd_dithered,
	  .prepare = timer_cobalt_fd_prepare,
	  .refusal = "a timerfd",
	  .remedy = "raise CONFIG_XENO_OPT_SYS_HEAPSZ of the kernel" },
	{ .name = NULL },
};
#else
#include "measurements/timer/timer_method.h"

const struct timer_method timer_cobalt_methods[] = { { .name = NULL } };
#endif
