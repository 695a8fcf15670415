/* SPDX-License-Identifier: Apache-2.0 */
/* What a measurement is: its description and its functions. docs/internals/adding-a-measurement.md
 * adds one. */
#ifndef RTGAUGE_MEASUREMENT_H
#define RTGAUGE_MEASUREMENT_H

#include "base/option.h"

struct mark_way;
struct step;
struct worker;

/* A series as the catalogue describes it; ends with a NULL name. */
struct measurement_series {
	const char *name;
	const char *unit;
	const char *meaning;
	const char *from;
	const char *to;
	const char *stages; /* in order, separated by commas; may be NULL */
};

/* The stages of a series in a context where they differ; ends with a NULL series. */
struct measurement_way {
	const char *series;
	const char *context;
	const char *stages; /* as above */
};

/* A table or a verdict; ends with a NULL name. */
struct measurement_entry {
	const char *name;
	const char *meaning;
};

/* The steps of a measurement in `rtgauge evaluate`; ends with a NULL load. */
struct measurement_evaluate {
	const char *load;
	const char *parameters; /* "for=20s samples=1000" */
	const char *thorough;	/* parameters that differ with --thorough; may be NULL */
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

/* Requirement without which a step is skipped. `describe` prints it for the host. */
#define NEEDS_PRIORITIES "priorities" /* threads of several real-time priorities */
#define NEEDS_MODULE "module"	      /* the kernel module rtgauge */

struct measurement {
	const char *name;
	const char *code; /* of the RTOS evaluation framework 2.9; NULL: none */
	const char *summary;
	const char *role;     /* NULL: "measurement"; or "calibration" */
	const char *chapter;  /* of an evaluation report: CHAPTER_... */
	const char *needs;    /* NULL: nothing; or NEEDS_... */
	const char *contexts; /* separated by spaces; NULL: user */
	const struct option_info *options;
	/* Each of these tables has room for an empty row at its end. */
	struct measurement_series series[6];
	struct measurement_entry tables[4];
	struct measurement_entry verdicts[7];
	struct measurement_evaluate evaluate[4];
	const struct measurement_way *ways; /* may be NULL */
	/* Rules (name) that fail on every system with this C library, and why (meaning); may be
	 * NULL. */
	const struct measurement_entry *known_limitations;
	const struct mark_way *mark; /* NULL: there is nothing to mark */
	bool observes;	   /* programs of the user: settings of the system stay as they are */
	bool sleeps;	   /* it decides how deep CPUs sleep: sleep states are not held */
	bool answers;	   /* it answers events from outside, which another machine can raise */
	const char *times; /* the measurement whose answers it times, or NULL */
	const char *unseen_gaps; /* its series of gaps that the kernel did not see, or NULL */
	/* Why it is not measured on the Cobalt core; NULL where it is. */
	const char *not_on_cobalt;
	const void *method; /* what its method (methods/) needs of it, or NULL */
	size_t state_size;  /* of step->state, which the runner allocates (zeroed) and frees */
	/* Add series and workers (step.h). 0, -errno with the step's message, or STEP_SKIPPED. */
	int (*setup)(struct step *step);
	/* The functions below may be NULL. */

	/* Whether everything asked for can be measured on the Cobalt core, too. NULL: all or nothing
	 * (catalogue_on_cobalt()). */
	bool (*on_cobalt)(const struct step *step);

	/* Change further settings, after those of every run; step->settings is NULL where all are to
	 * be kept. Returns as setup(). */
	int (*configure)(struct step *step);
	/* The workers wait at the gate and the grids are placed: start what does not wait there. 0, or
	 * -errno with the step's message. */
	int (*start)(struct step *step);
	/* Called by the draining thread each time before it empties the rings: put the samples that
	 * the kernel has collected. */
	void (*collect)(struct step *step);
	/* All workers have ended, or start() has failed: release what keeps settings in use. */
	void (*stop)(struct step *step);
	/* A worker's prepare() has failed (worker->refused). 0: the others continue without it; else
	 * -errno or STEP_SKIPPED with the step's message. Needed where a worker has a prepare(). */
	int (*refused)(struct step *step, const struct worker *worker);
	/* After all workers have ended: tables and verdicts. 0 or -errno. */
	int (*finish)(struct step *step);
	/* Close and unmap what setup() opened, also where setup() has failed. The runner frees the
	 * memory of step_alloc() and of the state. */
	void (*cleanup)(struct step *step);
};

#endif
