/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measurements and loads: what each says of itself, and the one table of all of them.
 * docs/adding-a-measurement.md shows how one comes in.
 */
#ifndef RTGAUGE_CATALOGUE_H
#define RTGAUGE_CATALOGUE_H

#include "base/option.h"

struct run;
struct worker;
struct load;

/* A series as the catalogue describes it; ends with a NULL name. */
struct catalogue_series {
	const char *name;
	const char *unit;
	const char *meaning;
	const char *from;
	const char *to;
	const char *const *stages; /* in order, NULL at the end; may be NULL */
};

/* The stages of a series where they are others in a context; ends with a NULL series. */
struct catalogue_way {
	const char *series;
	const char *context;
	const char *const *stages; /* as above */
};

/* A table or a verdict; ends with a NULL name. */
struct catalogue_entry {
	const char *name;
	const char *meaning;
};

/* How `rtgauge evaluate` carries a measurement out; ends with a NULL load. */
struct catalogue_evaluate {
	const char *load;
	const char *parameters; /* "for=20s samples=1000" */
	const char *thorough;	/* those that are otherwise with --thorough; may be NULL */
};

/* Chapters of an evaluation, in the order of the catalogue. */
#define CHAPTER_TIMER "Timer latency"
#define CHAPTER_INTERRUPTS "Interrupts"
#define CHAPTER_RESPONSE "Response to external events"
#define CHAPTER_CALIBRATION "Calibration"
#define CHAPTER_TICK "Clock tick"
#define CHAPTER_THREADS "Threads"
#define CHAPTER_SEMAPHORES "Semaphores"
#define CHAPTER_MUTEXES "Mutexes"
#define CHAPTER_HANDOVER "Wake-ups and messages"
#define CHAPTER_KERNEL "Processes and memory"

/* What the line of --mark shows (mark.h). */
struct catalogue_mark {
	const char *rises;
	const char *falls;
	bool pulse; /* the series makes it; else the measurement calls mark_raise() and such */
};

extern const struct catalogue_mark catalogue_mark_spans; /* from the start stamp to the end stamp */
extern const struct catalogue_mark catalogue_mark_samples; /* a pulse behind each */

struct measurement {
	const char *name;
	const char *code; /* of the RTOS evaluation framework 2.9, or "" */
	const char *summary;
	const char *role;    /* "measurement" or "calibration" */
	const char *chapter; /* of an evaluation report: CHAPTER_... */
	const char *const *contexts;
	const struct option_info *options;
	const struct catalogue_series *series;
	const struct catalogue_way *ways; /* may be NULL */
	const struct catalogue_entry *tables;
	const struct catalogue_entry *verdicts;
	const struct catalogue_evaluate *evaluate;
	const struct catalogue_mark *mark; /* NULL: there is nothing to mark */
	/* Add series and workers (run.h). 0, -errno with the run's message, or RUN_SKIPPED. */
	int (*setup)(struct run *run);
	/* Settings of its own, after those of every run; run->settings is NULL where all are to be kept.
	 * May be NULL, like the two below. 0, -errno with the run's message, or RUN_SKIPPED. */
	int (*configure)(struct run *run);
	/* The workers are at the gate and the grids are placed: start what does not wait there. 0 or
	 * -errno with the run's message. */
	int (*start)(struct run *run);
	/* By the draining thread, each time before it empties the rings: put the samples that the kernel
	 * has gathered. */
	void (*collect)(struct run *run);
	/* All workers have ended, also where start() failed: let go of what keeps settings in use. May be
	 * NULL. */
	void (*stop)(struct run *run);
	/* A worker's prepare() was refused (worker->refused). 0: the others go on without it; else
	 * -errno or RUN_SKIPPED with the run's message. NULL if there is no prepare(). */
	int (*refused)(struct run *run, const struct worker *worker);
	/* After all workers have ended: tables and verdicts. May be NULL. 0 or -errno. */
	int (*finish)(struct run *run);
	void (*cleanup)(struct run *run); /* may be NULL */
};

/* NULL at their ends. */
extern const struct measurement *const catalogue_measurements[];
extern const struct load *const catalogue_loads[]; /* and profiles */

const struct measurement *catalogue_find(const char *name);
/* All names, separated by single spaces, into @buf. */
const char *catalogue_names(char *buf, size_t size);
/* The JSON document of docs/catalogue.md to stdout. */
void catalogue_describe(void);

#endif
