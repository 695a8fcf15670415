/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step as its measurement sees it: what a measurement may read and call. setup() adds series and
 * workers; the runner (run.c) does the rest.
 */
#ifndef RTGAUGE_STEP_H
#define RTGAUGE_STEP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/cbor.h"
#include "base/cpulist.h"
#include "base/message.h"
#include "core/core.h"
#include "run/mark.h"
#include "run/measurement.h"
#include "stream/series.h"
#include "system/settings.h"

#define STEP_SKIPPED 1
/* The trailer, one record, has to hold the totals of every series. */
#define STEP_SERIES_MAX 512
#define STEP_WORKERS_MAX 512
/* Values of step.stop */
#define STEP_GOES_ON 0
#define STEP_STOP 1

struct step;

/* Scheduling of a measuring thread, as read from the kernel. */
struct worker_placement {
	const char *policy;
	int priority;
	bool strayed; /* it may run on other CPUs than its own */
};

/*
 * A measuring thread, or a process of its own. With `foreign` set it is a kernel thread
 * (`tid`; 0: an interrupt handler, which is not a thread). The runner does not start a foreign
 * worker; it places and watches it, and the measurement's collect() says when it has ended.
 */
struct worker {
	struct step *step;
	void (*loop)(struct worker *worker); /* the measuring loop */
	/* Called in the worker before the gate, for what the kernel may refuse. 0 or -errno. May be
	 * NULL. */
	int (*prepare)(struct worker *worker);
	void *state;  /* the measurement's own */
	bool process; /* a process, which shares only the step, its workers and its series */
	bool foreign; /* a kernel thread */
	bool plain;   /* a Linux task, whatever the step's core; its loop may enter() that */
	bool filler;  /* it only keeps the CPU busy: not a measuring thread */
	int cpu;      /* pinned to it; -1: not pinned */
	int priority; /* asked: SCHED_FIFO priority, 0: SCHED_OTHER */
	int raised;   /* the priority that what it measures gives it at times; 0: none */
	int number;

	struct worker_placement start; /* in effect, filled before loop() is called */
	struct worker_placement end;   /* valid once done */
	pthread_t thread;
	pid_t tid;
	bool created;
	bool changed;	  /* its CPUs or policy were changed from outside; reported once */
	int refused;	  /* result of prepare(); if not 0, loop() is not called */
	bool starved;	  /* loop() was not called: the step was stopped first; valid once done */
	int64_t ended_ns; /* CLOCK_MONOTONIC, valid once done. 0: it died */
	uint32_t done;
	void *stack;
	int outside;		 /* errno of its way into the core, 0: it is a task of the core */
	struct core_modes modes; /* valid once done */
};

/* In shared memory, as are its series and workers, because measuring processes use it too. They
 * write only their worker, their series, and the words that atomic.h accesses. */
struct step {
	const struct measurement *measurement;
	const struct core *core; /* that measuring threads run on */
	struct option_set options;
	struct message msg;
	struct settings *settings; /* NULL: all settings are kept */
	struct mark mark;
	struct series *series;
	int series_count;
	struct worker *workers;
	int worker_count;
	size_t stacks;		/* memory for the stacks of threads that workers start */
	int64_t spin_ns;	/* CPU time without sleep after which a thread is killed; 0: 1 s */
	int64_t start_ns;	/* CLOCK_MONOTONIC at due time 0 */
	int64_t gate_ns;	/* opening of the gate, as a due time */
	bool opened;		/* the gate was opened to measure, not to end the workers */
	int64_t duration_ns;	/* from the gate to the end of the workers; valid in finish() */
	uint32_t stop;		/* STEP_STOP: workers end at once */
	int memory_unlocked;	/* errno of mlockall(), 0: memory is locked */
	uint32_t threshold_hit; /* the two below are valid */
	int threshold_series;
	int64_t threshold_value;
	bool stuck;	   /* a thread never ended and still uses the memory: it is not freed */
	void *state;	   /* the measurement's own, of its state_size; NULL if that is 0 */
	int core_revision; /* of the interface of the core that it is bound to; 0: none */
};

/* --- for setup() --- */

/* Add a series (-errno, or its number); @words: room in the ring, in samples. */
int step_add_series(struct step *step, const struct series_info *info, size_t words);
/* Add a worker: its number, or -errno with a message. Series name their worker by it. */
int step_add_worker(struct step *step, void (*loop)(struct worker *worker), void *state, int cpu,
		    int priority);
/* Add a worker that is a kernel thread, or with @tid 0 an interrupt handler. */
int step_add_foreign(struct step *step, pid_t tid, int cpu, int priority);
/* The CPUs of the option `cpu`: all of them online and allowed, or -EINVAL with a message. */
int step_cpus(struct step *step, struct cpulist *cpus);
/* Whether the duration that the option `for` gives has room for an interval: 0, or -EINVAL with a
 * message. */
int step_check_interval(struct step *step, int64_t interval_ns);
/* Zeroed memory for @count objects of @size bytes, aligned to a page. The runner frees it after
 * cleanup(). NULL, with a message: return -ENOMEM. */
void *step_alloc(struct step *step, size_t count, size_t size);
/* Skip the measurement, with the reason and the remedy: return step_skip(step, ...). */
int step_skip(struct step *step, const char *reason, const char *remedy);
/* The same for @why, which something else has filled. */
int step_skip_for(struct step *step, const struct message *why);

/* --- for measuring loops --- */

static inline bool step_stopped(const struct step *step)
{
	return atomic_load_relaxed(&step->stop) != STEP_GOES_ON;
}

/* Sleep until CLOCK_MONOTONIC is @until_ns, whatever signals arrive; false: the step is to stop. */
bool step_sleep_until(const struct step *step, int64_t until_ns);

/*
 * To be called off the fast path, when periods were missed or samples lost: whether the measuring
 * threads have kept everything else from running, the drain included, for STEP_STARVED_MS in which
 * they were late again and again. If so the step is ended, because real-time threads that leave no
 * CPU time would hang the machine.
 */
#define STEP_STARVED_MS 3000
#define STEP_LATE_MS 1000
bool step_starved(struct step *step, int64_t now_ns);

/* The sample just put exceeded the stop threshold: all workers end, the caller's loop too. */
void step_threshold(struct step *step, const struct series *series, int64_t value);

/* --- for start() --- */

/* When the first period of a grid is due. */
int64_t step_first_due_ns(const struct step *step);

/* --- for collect() --- */

/* A foreign worker has ended; it is not watched any more. */
void step_foreign_done(struct step *step, int number);
/* End the step as failed. */
void step_fail(struct step *step, const char *reason, const char *remedy);
/* Pass the samples in all rings on to the stream, so that collect() can put more than they hold. */
void step_drain(struct step *step);

/* --- for finish(), and whenever no worker runs --- */

struct step_column {
	const char *name;
	const char *unit;
};

/* A table: begin, then for each row cbor_array() of its columns and the cells with cbor_int or
 * cbor_text, then end. */
struct cbor *step_table_begin(struct step *step, const char *name,
			      const struct step_column *columns, int column_count, int rows);
void step_table_end(struct step *step);
/* Why @rule fails on every system with this C library, or NULL. */
const char *step_known_limitation(const struct measurement *measurement, const char *rule);

/* A verdict: pass, fail, inconclusive or skipped. The remedy of a pass is left out. */
void step_verdict(struct step *step, const char *rule, const char *result, const char *evidence,
		  const char *remedy);
/* The verdict skipped for the reason @why. */
void step_verdict_skipped(struct step *step, const char *rule, const struct message *why);
/* A message in the stream; @now_ns since the start of the step. */
void step_message(struct step *step, int64_t now_ns, const char *text);

/* The step does not end by itself: a stop on request or by a signal completes it. */
void step_stop_is_end(struct step *step);

#endif
