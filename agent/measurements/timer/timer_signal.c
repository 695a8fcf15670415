// SPDX-License-Identifier: Apache-2.0
/*
 * Timer latency of signals: a POSIX timer whose signal goes to the measuring thread, and the
 * interval timer of a process. The thread waits for the signals, without a handler. Steps 1 and 2
 * of the path of a sample.
 */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/signals.h"
#include "measurements/timer/timer_method.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* Number of tries to start the interval timer, to know its start as closely as possible. */
#define TIMER_STARTS_TRIED 8
#define TIMER_STARTS_MAX 200
#define TIMER_LOOKS_MAX 3

/* The signal that ends waits is waited for as well: sigwaitinfo() need not come back for one that
 * is handled (with musl it does not). */
static int timer_signals_block(struct timer_thread *t)
{
	sigemptyset(&t->signals);
	sigaddset(&t->signals, SIGALRM);
	sigaddset(&t->signals, SIGNAL_WAKE);
	return -pthread_sigmask(SIG_BLOCK, &t->signals, NULL);
}

/* A kernel without CONFIG_POSIX_TIMERS has no interval timer, and the thread would wait forever. */
int timer_itimer_prepare(struct worker *worker)
{
	struct itimerval left;

	return getitimer(ITIMER_REAL, &left) ? -errno : timer_signals_block(worker->state);
}

int timer_signal_prepare(struct worker *worker)
{
	struct timer_thread *t = worker->state;
	struct sigevent event;
	int err = timer_signals_block(t);

	if (err)
		return err;
	memset(&event, 0, sizeof(event));
	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = SIGALRM;
	event.sigev_notify_thread_id = worker->tid;
	return timer_create(CLOCK_MONOTONIC, &event, &t->timer) ? -errno : 0;
}

/* Wait for a signal, then read the clock. Whether it is SIGALRM. */
static inline bool timer_signal_next(const struct timer_thread *t, siginfo_t *info,
				     struct timespec *now)
{
	int got = sigwaitinfo(&t->signals, info);

	clock_gettime(CLOCK_MONOTONIC, now);
	return got == SIGALRM;
}

/* The codes of signals that programs send are 0 or negative, as is SI_TIMER, the code of POSIX
 * timers. */
static inline bool timer_signal_of_timer(const siginfo_t *info)
{
	return info->si_code > 0 || info->si_code == SI_TIMER;
}

/* Wait for the timer's signal, then read the clock; false: the run is to stop. */
static inline bool timer_signal_take(const struct timer_thread *t, const struct step *step,
				     siginfo_t *info, struct timespec *now)
{
	do {
		if (timer_signal_next(t, info, now) && timer_signal_of_timer(info))
			return true;
	} while (!step_stopped(step));
	return false;
}

/* --- a POSIX timer --- */

static inline int64_t timer_signal_wait(const struct timer_thread *t, const struct step *step,
					const struct timespec *due, struct timespec *now)
{
	siginfo_t info;

	(void)due;
	/* the kernel counts the grid points that went by until the signal was taken */
	return timer_signal_take(t, step, &info, now) ? 1 + (int64_t)info.si_overrun : 0;
}

void timer_signal_loop(struct worker *worker)
{
	const struct timer_thread *t = worker->state;
	const struct itimerspec grid = { .it_value = timer_first_due(worker->step, t),
					 .it_interval = clock_from_ns(t->interval_ns) };

	timer_settime(t->timer, TIMER_ABSTIME, &grid, NULL);
	timer_grid(worker, timer_signal_wait, timer_counted);
	timer_delete(t->timer);
}

static inline bool timer_signal_once(const struct timer_thread *t, const struct step *step,
				     const struct timespec *due, int64_t *now_ns)
{
	const struct itimerspec once = { .it_value = *due };
	struct timespec now;
	siginfo_t info;

	timer_settime(t->timer, TIMER_ABSTIME, &once, NULL);
	if (!timer_signal_take(t, step, &info, &now))
		return false;
	*now_ns = clock_to_ns(&now);
	return true;
}

void timer_signal_dithered(struct worker *worker)
{
	const struct timer_thread *t = worker->state;

	timer_dithered(worker, timer_signal_once);
	timer_delete(t->timer);
}

/* --- the interval timer of the process --- */

static struct timeval timer_timeval(int64_t us)
{
	struct timeval tv = { .tv_sec = us / 1000000, .tv_usec = us % 1000000 };

	return tv;
}

/* Stop it, and drop the signal of an expiry. */
static void timer_itimer_clear(void)
{
	const struct itimerval none = { { 0 }, { 0 } };
	const struct timespec at_once = { 0 };
	sigset_t alarm;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	setitimer(ITIMER_REAL, &none, NULL);
	while (sigtimedwait(&alarm, NULL, &at_once) > 0)
		continue;
}

/*
 * Start it so that it first expires at the due time: as it takes only a time from now on, the
 * kernel's grid begins between the two readings of the clock around the call, plus that time.
 * The earlier bound counts: latencies are never too small, and too large by no more than the call
 * takes. Retries as long as other tries were quicker.
 */
static void timer_itimer_start(const struct timer_thread *t, struct step *step)
{
	struct series *latency = &step->series[t->latency];
	int64_t due_ns = step->start_ns + latency->info.first_due_ns;
	int64_t best_ns = INT64_MAX;

	for (int i = 0; i < TIMER_STARTS_MAX; i++) {
		int64_t from_ns, took_ns, us;
		struct itimerval start;

		timer_itimer_clear();
		from_ns = clock_now_ns(CLOCK_MONOTONIC);
		us = (due_ns - from_ns) / 1000;
		/* late already: then a little later */
		if (us < 1)
			us = 1;
		start.it_value = timer_timeval(us);
		start.it_interval = timer_timeval(t->interval_ns / 1000);
		setitimer(ITIMER_REAL, &start, NULL);
		took_ns = clock_now_ns(CLOCK_MONOTONIC) - from_ns;
		latency->info.first_due_ns = from_ns + us * 1000 - step->start_ns;
		if (i >= TIMER_STARTS_TRIED && took_ns <= best_ns)
			return;
		if (us < 1000)
			return;
		if (took_ns < best_ns)
			best_ns = took_ns;
	}
}

/*
 * The time left until the timer expires, and the clock before and after. The kernel gives whole
 * microseconds: 0 also for a timer whose signal is pending, 1 us also for one that is due and has
 * not expired yet. Neither says where the timer is set.
 */
static int64_t timer_itimer_left(const struct timer_thread *t, int64_t *from_ns, int64_t *to_ns)
{
	struct itimerval left;
	int looks = 0;

	do {
		*from_ns = clock_now_ns(CLOCK_MONOTONIC);
		getitimer(ITIMER_REAL, &left);
		*to_ns = clock_now_ns(CLOCK_MONOTONIC);
	} while (*to_ns - *from_ns > t->interval_ns / 4 && ++looks < TIMER_LOOKS_MAX);
	return left.it_value.tv_sec * NSEC_PER_SEC + left.it_value.tv_usec * NSEC_PER_USEC;
}

/*
 * After a delay of a period or more, the thread continues at the first grid point after its clock
 * reading. The kernel's grid is up to one setitimer() later: the timer may still wait for the point
 * before, which then has not been missed.
 */
static int64_t timer_itimer_passed(const struct timer_thread *t, const struct timespec *due,
				   int64_t late_ns, int64_t counted)
{
	int64_t points = late_ns / t->interval_ns + 1, from_ns, to_ns, left_ns, next_ns;
	sigset_t pending;
	bool waits;

	(void)counted;
	if (points < 2)
		return points;
	next_ns = clock_to_ns(due) + points * t->interval_ns;
	left_ns = timer_itimer_left(t, &from_ns, &to_ns);
	if (left_ns <= NSEC_PER_USEC)
		/* it expires now: for the point before, unless this one is as near */
		waits = !sigpending(&pending) && !sigismember(&pending, SIGALRM) &&
			next_ns > to_ns + 2 * NSEC_PER_USEC;
	else
		waits = to_ns + left_ns < next_ns - t->interval_ns / 2;
	return points - waits;
}

/*
 * Whether the timer has expired although the signal is that of another program. The kernel keeps
 * one SIGALRM for the process: where another one is pending as the timer expires, the timer's is
 * dropped, and the thread takes the other one in its place. That sets the timer to the next grid
 * point. This cannot be seen at intervals below the resolution of the kernel's timers, which it
 * sets further ahead.
 */
static bool timer_itimer_replaced(const struct timer_thread *t, const struct timespec *due)
{
	int64_t from_ns, to_ns, left_ns;
	struct timespec resolution;

	clock_getres(CLOCK_MONOTONIC, &resolution);
	if (clock_to_ns(&resolution) > t->interval_ns)
		return false;
	left_ns = timer_itimer_left(t, &from_ns, &to_ns);
	return left_ns > NSEC_PER_USEC && from_ns + left_ns - clock_to_ns(due) > t->interval_ns / 2;
}

/*
 * A signal that is taken before the due time belongs to a grid point that has been counted, or to
 * another program: the thread was held up after it had taken the signal before, and the timer
 * expired once more. The kernel's grid is never before the agent's.
 */
static inline int64_t timer_itimer_wait(const struct timer_thread *t, const struct step *step,
					const struct timespec *due, struct timespec *now)
{
	siginfo_t info;

	do {
		if (timer_signal_next(t, &info, now) && clock_difference_ns(now, due) >= 0 &&
		    (timer_signal_of_timer(&info) || timer_itimer_replaced(t, due)))
			return 1;
	} while (!step_stopped(step));
	return 0;
}

void timer_itimer_loop(struct worker *worker)
{
	const struct timer_thread *t = worker->state;
	const struct itimerval none = { { 0 }, { 0 } };

	timer_itimer_start(t, worker->step);
	timer_grid(worker, timer_itimer_wait, timer_itimer_passed);
	setitimer(ITIMER_REAL, &none, NULL);
}
