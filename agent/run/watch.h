/* SPDX-License-Identifier: Apache-2.0 */
/* The other duties of the draining thread: checks once a second, and regular records. */
#ifndef RTGAUGE_WATCH_H
#define RTGAUGE_WATCH_H

#include "run/run.h"

/* When each duty is due next. */
struct watch {
	int64_t second_ns; /* checks */
	int64_t report_ns; /* background activity, and the work of loads */
	int64_t clock_ns;
	int64_t snapshot_ns;
};

void watch_begin(struct watch *watch, const struct run *run);
/* Do what is due at @now_ns. To be called several times a second. */
void watch_duties(struct watch *watch, struct run *run, int64_t now_ns);

/* A reading of the background activity; @still as in background_read(). */
void watch_background(struct run *run, int64_t now_ns, bool still);
/* End the step if a load has died or stalled; @reports: also record the work of each. */
void watch_loads(struct run *run, int64_t now_ns, bool reports);
/* Find measuring threads whose CPU went offline, or whose policy or affinity another program changed.
 * @now_ns since the start of the step. */
void watch_workers(struct run *run, int64_t now_ns);
/* At the end of a step: a message about measuring threads that got no CPU time during it, whose series
 * lack samples. @now_ns since the start of the step. */
void watch_starved(struct run *run, int64_t now_ns);

#endif
