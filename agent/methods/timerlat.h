/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of the kernel's timerlat tracer as trace_pipe has them:
 *
 *	<idle>-0       [000] d..h1..     1.980749: #7     context    irq timer_latency       728 ns
 *
 * Its columns differ by kernel and configuration, and the name of the task may hold anything, so a
 * line is read from its end.
 */
#ifndef RTGAUGE_TIMERLAT_H
#define RTGAUGE_TIMERLAT_H

#include <stddef.h>
#include <stdint.h>

enum timerlat_context { TIMERLAT_IRQ, TIMERLAT_THREAD, TIMERLAT_USER, TIMERLAT_LOST };

struct timerlat_event {
	enum timerlat_context context;
	int cpu;
	int64_t time_ns;    /* of the trace clock, in whole microseconds */
	int64_t number;	    /* of the activation, from 1; TIMERLAT_LOST: how many, 0: not known */
	int64_t latency_ns; /* from the due time on */
};

/* Read the line of @size letters, without its end. 0; -EINVAL: it is another one. */
int timerlat_parse(const char *line, size_t size, struct timerlat_event *event);

/* A CPU's events put on the grid of its timer. */
struct timerlat_grid {
	int64_t interval_ns;
	int64_t first_due_ns; /* of the trace clock, known from the first event of the handler */
	int64_t index;	      /* of the last event of the handler */
	int64_t number;	      /* its activation; 0: there was none */
	int64_t lost;	      /* activations of which there is no event */
};

/*
 * The grid point of an event, or -1 where it is not known. The tracer numbers activations, not
 * periods, and passes over periods that have gone by; so the due time decides, time less latency,
 * which is exact to the microsecond or so between a stamp and its record. A thread has the period
 * of its handler.
 */
int64_t timerlat_index(struct timerlat_grid *grid, const struct timerlat_event *event);

#endif
