/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame of every measurement: set up, start the workers, drain, put back. A measurement adds
 * its series and workers in setup(); run.c does the rest.
 */
#ifndef RTGAUGE_RUN_H
#define RTGAUGE_RUN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/cpulist.h"
#include "base/message.h"
#include "run/mark.h"
#include "run/measurement.h"
#include "stream/series.h"
#include "stream/stream.h"
#include "system/background.h"
#include "system/disturb.h"
#include "system/settings.h"

#define RUN_SKIPPED 1
/* The trailer, one record, has to hold the totals of every series. */
#define RUN_SERIES_MAX 512
#define RUN_WORKERS_MAX 512
#define RUN_LOADS_MAX 16
/* Values of run.stop */
#define RUN_GOES_ON 0
#define RUN_STOP 1

struct load;
struct load_set;
struct run;
struct spool_state;

/* How the kernel has a measuring thread. */
struct worker_placement {
	const char *policy;
	int priority;
	bool strayed; /* it may run on other CPUs than its own */
};

/*
 * A measuring thread, or a process of its own. With `foreign` set it is a thread that the kernel has
 * (`tid`; 0: an interrupt handler alone, which is no thread): it is not started here, only placed and
 * watched, and the measurement's collect() says when it is done.
 */
struct worker {
	struct run *run;
	void (*loop)(struct worker *worker); /* the measuring loop */
	/* In the worker, before the gate: what may be refused. NULL, or 0 or -errno. */
	int (*prepare)(struct worker *worker);
	void *state;  /* the measurement's own */
	bool process; /* a process; it shares struct run, the workers and the series, no more */
	bool foreign; /* a thread of the kernel */
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
	bool changed; /* its CPUs or policy were changed underneath; said once */
	int refused;  /* what prepare() returned; if not 0, loop() is not called */
	uint32_t done;
	void *stack;
};

/* The options of the run, filled by the parser: catalogue_run_options has a row for each. */
struct run_request {
	const struct measurement *measurement;
	const struct load *const *load_table; /* NULL at its end */
	const char *loads;
	const char *load_command;   /* or NULL */
	const char *load_cpus;	    /* or NULL */
	const char *mark;	    /* or NULL: gpio:CHIP:LINE */
	const char *disturb;	    /* or NULL: KIND:LENGTH:PERIOD */
	const char *disturb_module; /* the file, or NULL: the one for this kernel is looked for */
	const char *output;	    /* file, "-", or NULL: a summary for people */
	const char *run_id;
	const char *spool;		   /* or NULL: the socket by which a host attaches */
	const char *note;		   /* or NULL: said at the beginning of the stream */
	const struct spool_state *spooled; /* or NULL: what the spool says */
	int64_t spool_size;		   /* 0: a share of the free memory */
	int64_t hold_ns;		   /* how long to measure without a host */
	int64_t step;
	bool control;
	bool histogram_only;
	bool keep_settings;
	bool prepare;
	bool load_command_root; /* it keeps the agent's rights */
	bool allow_disturb;	/* the user's consent, required outside the lab */
};

/* In shared memory, like the series and the workers: measuring processes have it too. They read
 * it; written by them are their worker and series, and the words that atomic.h is used for. */
struct run {
	const struct run_request *request;
	struct option_set options;
	struct stream stream;
	struct settings *settings;
	struct load_set *loads;
	struct background background;
	struct mark mark;
	struct disturb disturb;
	bool is_disturbed;	     /* the module is there */
	pid_t groups[RUN_LOADS_MAX]; /* process groups of the loads */
	int group_count;
	struct message msg;

	struct series *series;
	int series_count;
	struct worker *workers;
	int worker_count;
	size_t stacks;	  /* memory for the stacks of threads that workers start */
	int64_t spin_ns;  /* after which a thread that does not sleep is killed; 0: a second */
	int64_t start_ns; /* CLOCK_MONOTONIC at due time 0 */
	int64_t gate_ns; /* when the gate opens, as a due time; the first period is due a little later */
	uint32_t stop;	     /* RUN_STOP: workers end at once */
	uint32_t go;	     /* the workers' gate: a futex */
	uint32_t ready;	     /* workers at the gate */
	uint32_t drained_ms; /* CLOCK_MONOTONIC of the last drain, in ms, modulo 2^32 */
	uint32_t late_ms;    /* the same of the last time that a worker was late */
	uint32_t starved;    /* the drain got no CPU time, and a worker has ended the step */
	int ended_fd;	     /* eventfd: a worker has ended */
	void *state;	     /* the measurement's own */

	/* how it went, for the summary and the trailer */
	bool verdict_failed;
	int memory_unlocked;  /* errno of mlockall(), 0: memory is locked */
	int undone;	      /* settings that were put back for an agent that died earlier */
	int disturbed;	      /* settings that changed underneath */
	bool withheld;	      /* samples were kept from the stream at the last look */
	int64_t processes_ns; /* CPU time of measuring processes */
	int64_t duration_ns;
	int64_t asked_ns; /* CLOCK_MONOTONIC at which a signal or the host asked for the end; 0: no */
	bool control_ended; /* the host has given its one order, or has gone */
	bool host_gone;
	const char *end_state;
	char reason[384];
	char remedy[256];
	uint32_t threshold_taken; /* by the first worker that exceeded it */
	uint32_t threshold_hit;	  /* the two below are valid */
	int threshold_series;
	int64_t threshold_value;
};

/* --- for measurements, in setup() --- */

/* Add a series (-errno, or its number); @words: room in the ring, in samples. */
int run_add_series(struct run *run, const struct series_info *info, size_t words);
/* Add a worker: its number, or -errno with a message. Series name their worker by it. */
int run_add_worker(struct run *run, void (*loop)(struct worker *worker), void *state, int cpu,
		   int priority);
/* Add a worker that is a thread of the kernel, or with @tid 0 an interrupt handler. */
int run_add_foreign(struct run *run, pid_t tid, int cpu, int priority);
/* The CPUs of the option `cpu`: all of them online and allowed, or -EINVAL with a message. */
int run_cpus(struct run *run, struct cpulist *cpus);
/* Skip the measurement, with the reason and what to do about it: return run_skip(run, ...). */
int run_skip(struct run *run, const char *reason, const char *remedy);

/* --- for measuring loops --- */

static inline bool run_stopped(const struct run *run)
{
	return atomic_load_relaxed(&run->stop) != RUN_GOES_ON;
}

/* Sleep until CLOCK_MONOTONIC is @until_ns, whatever signals come; false: the run is to stop. */
bool run_sleep_until(const struct run *run, int64_t until_ns);

/*
 * To be asked off the fast path, when periods were missed or samples lost: whether the measuring
 * threads have kept everything else from running, the drain included, for RUN_STARVED_MS, in which
 * they were late again and again. If so the step is ended: real-time threads that together leave
 * no time would hang the machine.
 */
#define RUN_STARVED_MS 3000
#define RUN_LATE_MS 1000
bool run_starved(struct run *run, int64_t now_ns);

/* The sample just put exceeded the stop threshold: all workers end, the caller's loop too. */
void run_threshold(struct run *run, const struct series *series, int64_t value);

/* --- for start() --- */

/* When the first period of a grid is due. */
int64_t run_first_due_ns(const struct run *run);

/* --- for collect() --- */

/* A foreign worker has ended; from then on it is no longer looked at. */
void run_foreign_done(struct run *run, int number);
/* End the step as failed. */
void run_fail(struct run *run, const char *reason, const char *remedy);
/* What all rings have, to the stream: so that collect() can put more than they hold. */
void run_drain(struct run *run);

/* --- for finish() --- */

struct run_column {
	const char *name;
	const char *unit;
};

/* A table: begin, then for each row cbor_array() of its columns and the cells with cbor_int or
 * cbor_text, then end. */
struct cbor *run_table_begin(struct run *run, const char *name, const struct run_column *columns,
			     int column_count, int rows);
void run_table_end(struct run *run);
/* A verdict: pass, fail, inconclusive or skipped. A pass needs no @remedy: it is left out. */
void run_verdict(struct run *run, const char *rule, const char *result, const char *evidence,
		 const char *remedy);

/* The step has no end of its own, so that a stop on request or by a signal is its end in order. */
void run_stop_is_end(struct run *run);

/* Carry the request out. An exit code. @options is taken over. */
int run_execute(const struct run_request *request, struct option_set *options);
/* The header and all facts of this target, as a stream to @fd. 0 or -errno. */
int run_environment(int fd);

/* The summary for people, to stdout (summary.c). */
void summary_print(const struct run *run);

#endif
