/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --explain: puts the kernel's trace around the largest samples into the stream. The measuring
 * threads do nothing for it: the draining thread sees a new maximum, then stops and reads the trace
 * of the sample's CPU (docs/formats/stream.md, `trace`).
 */
#ifndef RTGAUGE_EXPLAIN_H
#define RTGAUGE_EXPLAIN_H

#include <stdint.h>

#include "system/tracing.h"

struct run;
struct series;

#define EXPLAIN_SAMPLES 16 /* of one snapshot */

struct explain_sample {
	const struct series *series;
	int64_t index;
	int64_t due_ns;
	int64_t value_ns;
};

struct explain {
	struct tracing tracing;
	struct message lost; /* why nothing can be explained, else empty */
	int64_t without_ns;  /* median wake-up of a thread without events, and with them */
	int64_t with_ns;
	int64_t snapshots;
	int64_t pages;	 /* in the stream */
	int64_t dropped; /* samples for which there was no room, since the last snapshot */
	int count;	 /* samples to explain */
	struct explain_sample samples[EXPLAIN_SAMPLES];
	struct tracing_window windows[2 * EXPLAIN_SAMPLES];
};

/* After the settings, before the loads: make the instance for the measured CPUs, measure what its
 * events cost, start it. The stream contains the message of a failure, which does not end the run. */
void explain_open(struct run *run, const struct cpulist *cpus);
/* After the series of the header: formats of the events and their cost, or why there is no trace. */
void explain_header(struct run *run);
/* Explain the largest sample of @s, which is a new one. */
void explain_maximum(struct run *run, const struct series *s);
/* Explain the sample @index of @s if it is above the time that the request names. */
void explain_value(struct run *run, const struct series *s, int64_t index, int64_t value_ns);
/* After all series were drained: the trace of these samples, and of those that came since @since_ns
 * (since the start of the step), when the draining thread began to collect them. */
void explain_take(struct run *run, int64_t since_ns);
void explain_close(struct run *run);

#endif
