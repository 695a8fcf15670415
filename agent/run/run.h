/* SPDX-License-Identifier: Apache-2.0 */
/* The runner: the request, and its private state. Measurements see step.h alone. */
#ifndef RTGAUGE_RUN_H
#define RTGAUGE_RUN_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "base/clock.h"
#include "run/explain.h"
#include "run/step.h"
#include "stream/stream.h"
#include "system/background.h"
#include "system/disturb.h"

#define RUN_LOADS_MAX 16

struct load;
struct load_set;
struct spool_state;

/* The options of the run, filled by the parser: catalogue_run_options has a row for each. */
struct run_request {
	const struct measurement *measurement;
	const struct measurement *on_cobalt;  /* what tasks of the Cobalt core run; or NULL */
	const struct load *const *load_table; /* NULL at its end */
	const char *loads;
	const char *load_command;   /* or NULL */
	const char *load_cpus;	    /* or NULL */
	const char *mark;	    /* or NULL: gpio:CHIP:LINE */
	const char *disturb;	    /* or NULL: KIND:LENGTH:PERIOD */
	const char *disturb_module; /* its file, or NULL: that of this kernel */
	const char *output;	    /* file, "-", or NULL: a summary for people */
	const char *prepare_only;   /* or NULL: items of --prepare */
	const char *irq_priority;   /* or NULL: priorities of the threads of interrupts */
	const char *run_id;
	const char *spool;		   /* or NULL: the socket through which a host attaches */
	const char *note;		   /* or NULL: a message at the beginning of the stream */
	const struct spool_state *spooled; /* or NULL: state of the spool */
	int64_t spool_size;		   /* 0: a share of the free memory */
	int64_t hold_ns;		   /* how long to measure without a host */
	int64_t step;
	int64_t explain_above_ns; /* 0: not given */
	int64_t core;		  /* RUN_CORE_... */
	bool control;
	bool histogram_only;
	bool keep_settings;
	bool prepare;
	bool load_command_root; /* it keeps the agent's rights */
	bool explain;
	bool allow_disturb; /* the user's consent, required outside the lab */
};

/* Values of the option `core`, and the places of those that bind to one core. */
#define RUN_CORES "auto linux cobalt"
#define RUN_CORE_LINUX 1
#define RUN_CORE_COBALT 2

/* Causes of a failure in the trailer (docs/formats/stream.md). */
#define RUN_BUSY "busy"
#define RUN_DISTURBED "disturbed"

struct run {
	struct step step; /* has to be first: run_of() */
	const struct run_request *request;
	struct stream stream;
	struct load_set *loads;
	pid_t groups[RUN_LOADS_MAX]; /* process groups of the loads */
	int group_count;
	void **memory; /* of step_alloc() */
	int memory_count;
	struct background background;
	struct disturb disturb;
	struct explain explain;
	struct message core_refused; /* why it is not the Cobalt core that there is; or empty */

	/* shared by workers and the drain */
	uint32_t go;		  /* the workers' gate: a futex */
	uint32_t ready;		  /* workers at the gate */
	int ended_fd;		  /* eventfd: a worker has ended; -1 except while measuring */
	uint32_t drained_ms;	  /* CLOCK_MONOTONIC of the last drain, in ms, modulo 2^32 */
	uint32_t late_ms;	  /* the same of the last time that a worker was late */
	uint32_t starved;	  /* the drain got no CPU time, and a worker has ended the step */
	uint32_t threshold_taken; /* by the first worker that exceeded it */

	/* how it went, for the summary and the trailer */
	const char *cause; /* of a failure that another try may not have: RUN_BUSY, ...; or NULL */
	bool verdict_failed;
	int undone;	  /* settings restored that an earlier, killed agent had left */
	int disturbed;	  /* settings that changed during the step */
	bool withheld;	  /* samples were kept from the stream at the last look */
	int64_t asked_ns; /* CLOCK_MONOTONIC at which a signal or the host asked for the end; 0: no */
	bool control_ended; /* the host has sent its one order, or has gone */
	bool host_gone;
	const char *end_state;
	char reason[384];
	char remedy[256];
	const char *command; /* that ends the remedy, or NULL */
};

static inline struct run *run_of(struct step *step)
{
	return (struct run *)step;
}

/* The time of an event that happens now, since the start of the step. */
static inline int64_t run_now_ns(const struct run *run)
{
	return clock_now_ns(CLOCK_MONOTONIC) - run->step.start_ns;
}

/* Whether people are to see a summary: the stream does not go to stdout. */
static inline bool run_has_summary(const struct run *run)
{
	return !run->request->output || strcmp(run->request->output, "-");
}

/* -EINVAL and -ERANGE mean a wrong command line, so an error found later becomes -EIO. */
static inline int run_failure(int err)
{
	return err == -EINVAL || err == -ERANGE ? -EIO : err;
}

/* End the step: the first call decides its state and reason; all workers end (step.c). */
void step_end(struct run *run, const char *state, const char *reason, const char *remedy);

/* Carry the request out. An exit code. @options is taken over. */
int run_execute(const struct run_request *request, struct option_set *options);
/* The header and all facts of this target, as a stream to @fd. 0 or -errno. */
int run_environment(int fd);

/* The summary for people, to stdout (summary.c). */
void summary_print(const struct run *run);

#endif
