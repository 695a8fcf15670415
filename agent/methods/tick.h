/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock tick as a busy loop sees it: short interruptions of the CPU on a grid of points in
 * time. Pure functions over these, and over what the kernel reports about its tick. Linux programs
 * the tick for absolute points of CLOCK_MONOTONIC, one period apart. The frequency is a whole
 * number of Hz, so the period is known to the nanosecond, and only the start of the grid has to be
 * found. Other interrupts, and time stolen by a hypervisor, do not lie on the grid.
 */
#ifndef RTGAUGE_TICK_H
#define RTGAUGE_TICK_H

#include <stdbool.h>
#include <stdint.h>

/* The frequencies that are looked for. */
#define TICK_HZ_MIN 12
#define TICK_HZ_MAX 2000
/* Fewer observed points do not make a grid: they occur by chance. */
#define TICK_POINTS_MIN 20
#define TICK_BINS 4096

/* The CPU was away from a loop for away_ns; that began within window_ns after from_ns. */
struct tick_event {
	int64_t from_ns;
	int64_t away_ns;
	int32_t window_ns;
	int tag;   /* the caller's own */
	int point; /* the point of the grid that it is the tick of, or -1 */
	int taken; /* by the grid found of this number, from 1; 0: by none */
};

/* A time that was observed without a break. */
struct tick_span {
	int64_t from_ns;
	int64_t to_ns;
};

/* What was observed; events and spans in the order of time, and events within spans. Events that
 * are taken or shorter than least_ns are left out. */
struct tick_view {
	struct tick_event *events;
	int event_count;
	const struct tick_span *spans;
	int span_count;
	int32_t least_ns;
};

/* Points at phase_ns + k * period_ns. */
struct tick_grid {
	int hz; /* if tick_find() found it */
	int64_t period_ns;
	int64_t phase_ns;     /* the first point that is not before the first span */
	int64_t tolerance_ns; /* so far from its point a tick may begin */
	int points;	      /* in the spans, where a tick could be seen */
	int hits;	      /* those with an event */
	int chance;	      /* so many of 1000 points would have one by chance */
};

/* The kernel's: 1 / resolution of CLOCK_MONOTONIC_COARSE. 0: it does not say. */
int tick_configured_hz(void);
/* The kernel's TICK_NSEC. */
int64_t tick_period_ns(int hz);
/* Whether @cpu is one that stops its tick while one thread runs there alone (NO_HZ_FULL). */
bool tick_stops(int cpu);

/* Lay a grid of this period where most events are, and count points and hits. The longest event
 * at a point is its tick, unless the CPU was away there: tick_event.point. @bins: TICK_BINS of them,
 * to work with. */
void tick_lay(struct tick_grid *grid, int64_t period_ns, const struct tick_view *view,
	      uint32_t *bins);
/* The same, but where that makes no grid, with the period within 200 ppm that has most hits: a timer
 * that counts by itself, as old ones do, does not keep to CLOCK_MONOTONIC. */
void tick_lay_near(struct tick_grid *grid, int64_t period_ns, const struct tick_view *view,
		   uint32_t *bins);
/* Whether there are so many hits that chance did not make them. */
bool tick_is_grid(const struct tick_grid *grid);
/* Whether a grid that tick_is_grid() does not find may be there: it has too few points, too many hits
 * by chance, or more hits than a grid that is not there. @other: another grid was found. */
bool tick_is_uncertain(const struct tick_grid *grid, bool other);
/* The grid of this period that the longest events keep to, be they a few of all: a hypervisor may
 * have a tick of the same period, which takes less from a thread than the kernel's. False: none. */
bool tick_lay_longest(struct tick_grid *grid, int64_t period_ns, struct tick_view *view,
		      uint32_t *bins);
/*
 * The grids of a whole number of Hz that the events keep to, @max at most: how many. Looked for
 * among all events, then, as long as that of @wanted_hz is not found, among longer ones only.
 * Takes tens of milliseconds and more: rest(arg) is called again and again.
 */
int tick_find(struct tick_grid *grids, int max, struct tick_view *view, int wanted_hz,
	      uint32_t *bins, void (*rest)(void *arg), void *arg);

/* Sort @values, and give their median; @spread: the distance between the quartiles. */
int32_t tick_median(int32_t *values, int count, int32_t *spread);

#endif
