// SPDX-License-Identifier: Apache-2.0
/*
 * Timer latency of timerfd: the kernel's timer runs by itself on an absolute grid, and read() says
 * how often it has expired. Steps 1 and 2 of the path of a sample.
 */
#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "measurements/timer/timer_method.h"

int timer_fd_prepare(struct worker *worker)
{
	struct timer_thread *t = worker->state;

	t->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	return t->fd < 0 ? -errno : 0;
}

/* How often it has expired since the last time; 0: the run is to stop. */
static inline int64_t timer_fd_read(const struct timer_thread *t, const struct step *step,
				    const struct timespec *due, struct timespec *now)
{
	uint64_t expired;
	ssize_t got;

	(void)due;
	do {
		got = read(t->fd, &expired, sizeof(expired));
		clock_gettime(CLOCK_MONOTONIC, now);
	} while (got < 0 && errno == EINTR && !step_stopped(step));
	return got < 0 ? 0 : (int64_t)expired;
}

void timer_fd_loop(struct worker *worker)
{
	const struct timer_thread *t = worker->state;
	const struct itimerspec grid = { .it_value = timer_first_due(worker->step, t),
					 .it_interval = clock_from_ns(t->interval_ns) };

	timerfd_settime(t->fd, TFD_TIMER_ABSTIME, &grid, NULL);
	timer_grid(worker, timer_fd_read, timer_counted);
	close(t->fd);
}

static inline bool timer_fd_once(const struct timer_thread *t, const struct step *step,
				 const struct timespec *due, int64_t *now_ns)
{
	const struct itimerspec once = { .it_value = *due };
	struct timespec now;

	timerfd_settime(t->fd, TFD_TIMER_ABSTIME, &once, NULL);
	if (!timer_fd_read(t, step, due, &now))
		return false;
	*now_ns = clock_to_ns(&now);
	return true;
}

void timer_fd_dithered(struct worker *worker)
{
	const struct timer_thread *t = worker->state;

	timer_dithered(worker, timer_fd_once);
	close(t->fd);
}
