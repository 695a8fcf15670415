/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line that shows an analyser where samples are taken (`--mark gpio:CHIP:LINE`): it rises before a
 * start stamp and falls after an end stamp, so that no write to it lies in what is timed. Where a
 * thread takes no start stamp of its own, because the event comes from elsewhere, it makes a pulse
 * behind the end stamp of each sample (series.h). docs/lines.md says which measurement does which.
 *
 * On the path of a sample it stands beside step 2. Without the option a stamp has one branch more, before
 * a start or after an end, and a sample of the other kind nothing.
 */
#ifndef RTGAUGE_MARK_H
#define RTGAUGE_MARK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "lines/line.h"

struct run;

struct mark {
	bool on; /* set before the measuring threads are started */
	bool taken;
	struct line line;
	int64_t least_ns; /* what a write costs the thread that opened it */
	int64_t median_ns;
	bool sleeps;	/* a write gives the CPU away */
	uint32_t error; /* errno of a write that failed */
};

/* For mark_raise() and such: where the line is there. */
void mark_drive(struct mark *mark, int level);

static inline void mark_raise(struct mark *mark)
{
	if (__builtin_expect(mark->on, 0))
		mark_drive(mark, 1);
}

static inline void mark_lower(struct mark *mark)
{
	if (__builtin_expect(mark->on, 0))
		mark_drive(mark, 0);
}

/* The stamp before what is timed, and the one after it. */
static inline int64_t mark_from_ns(struct mark *mark)
{
	mark_raise(mark);
	return clock_now_ns(CLOCK_MONOTONIC);
}

static inline int64_t mark_to_ns(struct mark *mark)
{
	int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	mark_lower(mark);
	return now_ns;
}

/* --- for run.c --- */

/* Read request->mark, and whether what is to be measured can be marked. 0, -errno or RUN_SKIPPED with
 * the run's message. */
int mark_parse(struct run *run);
/* Behind setup(): take the line, find out what a write costs, and choose the series. The same. */
int mark_open(struct run *run);
/* All workers are at the gate, and it is known which were refused. */
void mark_start(struct run *run);
/* All workers have ended: rest, put back, and tell the stream. -errno with a message if the line could
 * not be driven. */
int mark_close(struct run *run, struct message *msg);

#endif
