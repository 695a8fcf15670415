/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPIO line that shows an analyser where samples are taken (`--mark gpio:CHIP:LINE`). It rises
 * before a start stamp and falls after an end stamp, so that no write to it is part of the timed
 * span. Where the event comes from elsewhere and a thread takes an end stamp only, the line makes a
 * pulse after each sample (series_mark()). docs/reference/lines.md lists what each measurement
 * does.
 *
 * It belongs to step 2 of the path of a sample. Without the option, a stamp costs one more branch,
 * before a start or after an end; a sample of the other kind costs nothing more.
 */
#ifndef RTGAUGE_MARK_H
#define RTGAUGE_MARK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "lines/line.h"
#include "stream/series.h"

struct message;
struct run;

/* Meaning of the line of --mark. */
struct mark_way {
	const char *rises;
	const char *falls;
	bool pulse; /* the series makes it; else the measurement calls mark_raise() and such */
};

extern const struct mark_way mark_spans;   /* from the start stamp to the end stamp */
extern const struct mark_way mark_samples; /* a pulse behind each */

struct mark {
	bool on; /* set before the measuring threads are started */
	bool taken;
	struct line line;
	struct series_pulse pulse;
	int64_t least_ns; /* cost of a write, in the thread that opened the line: minimum */
	int64_t median_ns;
	bool sleeps;	/* a write gives the CPU away */
	uint32_t error; /* errno of a write that failed */
};

/* For the functions below, when the line is open. */
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

#define MARK_NOTE 200

/* Read request->mark, and check that the measurement can be marked. 0, -errno or RUN_SKIPPED with
 * the run's message. */
int mark_parse(struct run *run);
/* After setup(): open the line, measure the cost of a write and choose the series. Returns as
 * mark_parse(). */
int mark_open(struct run *run);
/* To be called when all workers are at the gate, and it is known which of them were refused. */
void mark_start(struct run *run);
/* After all workers have ended: drive the line to 0 and restore it. @note: what the stream is to
 * say of it, or "". 0, or -errno with a message if the line could not be driven. */
int mark_close(struct run *run, char note[MARK_NOTE], struct message *msg);

#endif
