/* SPDX-License-Identifier: Apache-2.0 */
/* The draining thread's records: from series, loads, settings and clocks. */
#ifndef RTGAUGE_DRAIN_H
#define RTGAUGE_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

struct run;

/* Header, environment, settings, series: once, before the first sample. */
void drain_header(struct run *run);
/* The same, unless it was written already. */
void drain_begin(struct run *run);
/* Take all samples out of the rings, and pass them on; a new maximum gets its event. */
void drain_samples(struct run *run, int64_t now_ns);
/* A snapshot of every histogram, or of those that are not @companions of others. */
void drain_histograms(struct run *run, bool companions);
void drain_clock(struct run *run);
void drain_trailer(struct run *run, int64_t duration_ns);

void drain_message(struct run *run, int64_t now_ns, const char *text);
void drain_setting_changed(struct run *run, int64_t now_ns, const char *name, const char *expected,
			   const char *found);
void drain_load_event(struct run *run, int64_t now_ns, const char *message);
void drain_threshold(struct run *run, int64_t now_ns);
/* As of load_set_check(); @arg: the run. */
void drain_work(void *arg, const char *load, const char *unit, uint64_t count, int64_t from_ns,
		int64_t to_ns);

#endif
