/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timer latency: what its methods share; step 2 of the path of a sample. A method is a way to wait
 * for a due time; each is one row of a table in timer.c, and has its loops in timer_sleep.c,
 * timer_signal.c or timer_fd.c.
 *
 * The two loops below are templates: every method that is measured in them is a function of its
 * own, with its way of waiting compiled into it, so that nothing is chosen while it runs.
 */
#ifndef RTGAUGE_TIMER_METHOD_H
#define RTGAUGE_TIMER_METHOD_H

#include <signal.h>
#include <stdbool.h>
#include <time.h>

#include "base/clock.h"
#include "methods/grid.h"
#include "run/step.h"

/* Interval at which a series without a grid records its time. */
#define TIMER_SAY_NS (100 * NSEC_PER_MSEC)

struct timer_kernel;

struct timer_method {
	const char *name;
	void (*loop)(struct worker *worker);
	void (*dithered)(struct worker *worker); /* NULL: its due times cannot be moved */
	int (*prepare)(struct worker *worker);	 /* as of struct worker */
	const char *refusal; /* what the kernel has refused when prepare() has failed … */
	const char *remedy;  /* … and what to do about it */
	bool relative;	     /* no grid: its period is sleep plus work */
	bool process;	     /* exists once per process */
	bool unpinned;
};

struct timer_thread {
	const struct timer_method *method;
	int latency; /* numbers of its series */
	int dither;  /* -1: none */
	int per_cpu; /* threads of the method on each CPU */
	int64_t interval_ns;
	int64_t for_ns;	 /* 0: no end */
	int64_t periods; /* maximum number of grid points */
	int64_t samples; /* maximum number of samples */
	int64_t limit_ns;
	bool aligned;	  /* due at the same time on all CPUs */
	sigset_t signals; /* to wait for */
	timer_t timer;
	int fd;	      /* of the timer; on Cobalt also the number of a timer with a signal */
	int64_t gone; /* on Cobalt: grid points that had gone by before the timer was started */
};

void timer_sleep_loop(struct worker *worker);
void timer_sleep_dithered(struct worker *worker);
void timer_relative_loop(struct worker *worker);
int timer_reserve(struct worker *worker);

int timer_signal_prepare(struct worker *worker);
void timer_signal_loop(struct worker *worker);
void timer_signal_dithered(struct worker *worker);
int timer_itimer_prepare(struct worker *worker);
void timer_itimer_loop(struct worker *worker);

int timer_fd_prepare(struct worker *worker);
void timer_fd_loop(struct worker *worker);
void timer_fd_dithered(struct worker *worker);

/*
 * The period of a reservation, and how much of it each thread may run: as much as leaves a part to
 * others and to the kernel's own reservations, as a thread that has used it up is held until the
 * next period. One sample can take more than a share below the minimum.
 */
#define TIMER_RESERVED_MAX_NS NSEC_PER_SEC
#define TIMER_RESERVED_MIN_NS (40 * NSEC_PER_USEC)

static inline int64_t timer_reserved_period_ns(int64_t interval_ns)
{
	return interval_ns < TIMER_RESERVED_MAX_NS ? interval_ns : TIMER_RESERVED_MAX_NS;
}

static inline int64_t timer_reserved_ns(int64_t interval_ns, int64_t per_cpu)
{
	return timer_reserved_period_ns(interval_ns) * 4 / 5 / per_cpu;
}

/* Off the fast path: @missed grid points went by, of which @periods were left. How many of them
 * were due; -1: the loop is to end. */
int64_t timer_missed(struct step *step, struct series *latency, int64_t missed, int64_t periods,
		     int64_t samples, const struct timespec *now);

/*
 * What contexts of the kernel are measured with: the module, the kernel's own tracer, or on Cobalt
 * Xenomai's driver timerbench. Its functions
 * are those of struct measurement; the frame calls them through timer.c.
 */
struct timer_backend {
	const char *name; /* the label `method` of its series */
	bool user;	  /* the user thread, too, waits for its timer */
	bool dither;	  /* its due times can be moved */
	bool apart;	  /* each context has its own timer */
	/* Whether it is there. 0, or -errno with reason and remedy. */
	int (*look)(const struct timer_thread *common, bool dithered, struct message *why);
	int (*setup)(struct step *step, struct timer_kernel *kernel);
	int (*configure)(struct step *step, struct timer_kernel *kernel); /* may be NULL */
	int (*start)(struct step *step, struct timer_kernel *kernel);
	void (*collect)(struct step *step, struct timer_kernel *kernel);
	void (*stop)(struct timer_kernel *kernel); /* may be NULL */
	void (*cleanup)(struct timer_kernel *kernel);
};

#define TIMER_IRQ 1
#define TIMER_KERNEL 2
#define TIMER_USER 4

struct timer_kernel {
	const struct timer_backend *backend;
	unsigned int contexts; /* that the backend measures */
	const struct timer_thread *common;
	const struct cpulist *cpus; /* in setup() */
	int timers;		    /* on each CPU */
	int slots;		    /* due times over the period, one after the other */
	void *state;
};

/* On the Cobalt core; the last one has no name. */
extern const struct timer_method timer_cobalt_methods[];

extern const struct timer_backend timer_module;
extern const struct timer_backend timer_module_cobalt;
extern const struct timer_backend timer_bench;
extern const struct timer_backend timer_tracer;

/* A series of @context on a grid and, with dither, its companion (else -1): -errno, or 0. */
int timer_add_series(struct step *step, const char *context, const char *method, int cpu,
		     int thread, const struct timer_thread *common, int64_t first_due_ns,
		     int *latency, int *dither);

/* A grid without a series yet. */
static inline struct grid timer_grid_of(const struct timer_thread *common)
{
	return (struct grid){ .series = -1,
			      .dither = -1,
			      .interval_ns = common->interval_ns,
			      .limit_ns = common->limit_ns };
}

static inline struct timespec timer_first_due(const struct step *step, const struct timer_thread *t)
{
	return clock_from_ns(step->start_ns + step->series[t->latency].info.first_due_ns);
}

/*
 * The measuring loop: due times on the grid. @wait sleeps until @due and reads the clock into
 * @now; 0: the run is to stop. What else it returns is what the kernel has counted, for @passed:
 * how many grid points have gone by when it was @late_ns by a period or more, @due included.
 */
static inline __attribute__((always_inline)) void
timer_grid(struct worker *worker,
	   int64_t (*wait)(const struct timer_thread *t, const struct step *step,
			   const struct timespec *due, struct timespec *now),
	   int64_t (*passed)(const struct timer_thread *t, const struct timespec *due,
			     int64_t late_ns, int64_t counted))
{
	const struct timer_thread *t = worker->state;
	struct step *step = worker->step;
	struct series *latency = &step->series[t->latency];
	const struct timespec interval = clock_from_ns(t->interval_ns);
	struct timespec due = timer_first_due(step, t);
	int64_t periods = t->periods, samples = t->samples;

	while (!step_stopped(step)) {
		struct timespec now;
		int64_t late_ns, counted;

		counted = wait(t, step, &due, &now);
		if (!counted)
			return;
		late_ns = clock_difference_ns(&now, &due);
		series_put(latency, late_ns);
		if (__builtin_expect(late_ns > t->limit_ns, 0)) {
			step_threshold(step, latency, late_ns);
			return;
		}
		periods--;
		if (__builtin_expect(late_ns >= t->interval_ns || latency->lost_open, 0)) {
			int64_t missed = passed(t, &due, late_ns, counted) - 1;

			missed = timer_missed(step, latency, missed, periods, samples, &now);
			if (missed < 0)
				return;
			periods -= missed;
			due = clock_from_ns(clock_to_ns(&due) + missed * t->interval_ns);
		}
		if (--samples <= 0 || periods <= 0)
			return;
		clock_advance(&due, &interval);
	}
}

/* The kernel counts by itself. */
static inline int64_t timer_counted(const struct timer_thread *t, const struct timespec *due,
				    int64_t late_ns, int64_t counted)
{
	(void)t;
	(void)due;
	(void)late_ns;
	return counted;
}

/* Only the thread itself counts: it continues at the first grid point after now. */
static inline int64_t timer_passed(const struct timer_thread *t, const struct timespec *due,
				   int64_t late_ns, int64_t counted)
{
	(void)due;
	(void)counted;
	return late_ns / t->interval_ns + 1;
}

/* The measuring loop with dither: each due time lies somewhere within its period. @wait sleeps
 * until @due and reads the clock into @now_ns; false: the run is to stop. */
static inline __attribute__((always_inline)) void
timer_dithered(struct worker *worker,
	       bool (*wait)(const struct timer_thread *t, const struct step *step,
			    const struct timespec *due, int64_t *now_ns))
{
	const struct timer_thread *t = worker->state;
	struct step *step = worker->step;
	struct series *latency = &step->series[t->latency];
	struct series *dither = &step->series[t->dither];
	int64_t grid_ns = step->start_ns + latency->info.first_due_ns;
	int64_t index = 0, samples = t->samples;
	int64_t offset_ns = grid_offset_ns(index, t->interval_ns);

	while (!step_stopped(step)) {
		struct timespec due = clock_from_ns(grid_ns + offset_ns);
		int64_t now_ns, late_ns, missed = 0;

		if (!wait(t, step, &due, &now_ns))
			return;
		late_ns = now_ns - clock_to_ns(&due);
		series_put(dither, offset_ns);
		series_put(latency, late_ns);
		if (__builtin_expect(late_ns > t->limit_ns, 0)) {
			step_threshold(step, latency, late_ns);
			return;
		}
		if (--samples <= 0)
			return;
		for (;;) {
			index++;
			grid_ns += t->interval_ns;
			offset_ns = grid_offset_ns(index, t->interval_ns);
			if (index >= t->periods || grid_ns + offset_ns > now_ns)
				break;
			series_put(dither, offset_ns);
			missed++;
		}
		if (__builtin_expect(missed > 0, 0))
			series_missed(latency, missed);
		if (__builtin_expect(missed > 0 || latency->lost_open, 0) &&
		    step_starved(step, now_ns))
			return;
		if (index >= t->periods)
			return;
	}
}

/* The measuring loop without a grid: what a sleep takes longer than it was asked to. @until sleeps
 * until the first due time; not 0: the run is to stop. @sleep sleeps for a time; not 0: a signal has
 * ended it, and the rest is left. */
static inline __attribute__((always_inline)) void
timer_relative(struct worker *worker,
	       int (*until)(const struct step *step, const struct timespec *due),
	       int (*sleep)(struct timespec *rest))
{
	const struct timer_thread *t = worker->state;
	struct step *step = worker->step;
	struct series *latency = &step->series[t->latency];
	const struct timespec asked = clock_from_ns(t->interval_ns);
	struct timespec first = timer_first_due(step, t);
	int64_t end_ns = t->for_ns ? clock_to_ns(&first) + t->for_ns : INT64_MAX;
	int64_t samples = t->samples, say_ns = 0, now_ns;

	if (until(step, &first))
		return;
	do {
		struct timespec before, now, rest = asked;
		int64_t late_ns;

		clock_gettime(CLOCK_MONOTONIC, &before);
		while (sleep(&rest))
			if (step_stopped(step))
				return;
		clock_gettime(CLOCK_MONOTONIC, &now);
		late_ns = clock_difference_ns(&now, &before) - t->interval_ns;
		now_ns = clock_to_ns(&now);
		if (now_ns >= say_ns) {
			series_time(latency, now_ns - step->start_ns);
			say_ns = now_ns + TIMER_SAY_NS;
		}
		series_put(latency, late_ns);
		if (__builtin_expect(late_ns > t->limit_ns, 0)) {
			step_threshold(step, latency, late_ns);
			return;
		}
		if (__builtin_expect(late_ns >= t->interval_ns || latency->lost_open, 0) &&
		    step_starved(step, now_ns))
			return;
	} while (--samples > 0 && now_ns < end_ns && !step_stopped(step));
}

#endif
