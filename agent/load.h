/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads: what the target does besides the measurement. Each is one file in loads/ with one
 * `const struct load`, named in catalogue.c. A load runs in processes of its own, all in one
 * process group (of the load's leader), with SCHED_OTHER, and dies with the agent. It counts its
 * work in shared memory; the agent reads the counters and sees when it dies or stalls.
 */
#ifndef RTGAUGE_LOAD_H
#define RTGAUGE_LOAD_H

#include <stdint.h>
#include <sys/types.h>

#include "cpulist.h"
#include "message.h"
#include "option.h"

struct load_worker;

struct load {
	const char *name;
	const char *summary;
	const char *unit; /* of the work counted: "messages", "loops" */
	const struct option_info *options;
	/*
	 * Runs in the load's leader process until killed; forks or starts threads as it needs.
	 * Work is counted with load_count(). Returns -errno if it cannot run (message to stderr is
	 * not shown: use @msg, which lives in shared memory).
	 */
	int (*run)(struct load_worker *worker, const struct option_set *options,
		   struct message *msg);
};

/* For load->run: */

/* A counter of its own cache line, to be incremented by one process or thread alone. Number from
 * 0 to LOAD_COUNTERS_MAX-1; it may wrap, differences are taken modulo 2^32. */
#define LOAD_COUNTERS_MAX 2048
volatile uint32_t *load_counter(struct load_worker *worker, unsigned int number);
/* The CPUs the load may use. */
const struct cpulist *load_cpus(const struct load_worker *worker);
/* Call once when set up: the agent waits for it (10 s at most) before it starts to measure. */
void load_ready(struct load_worker *worker);

/* For run.c: the running loads of a step. */
struct load_set;

/* Read "sched:groups=4,cpu"; @loads is the table of all, NULL at its end. "idle" and "" are the
 * empty set. -EINVAL with the nearest name in @msg. */
int load_set_parse(struct load_set **set, const char *text, const struct load *const *loads,
		   struct message *msg);
/* Fork the leaders (before any thread exists), wait until all are ready. @forked is called in
 * each child first (to drop what it must not hold), @started in the agent with each group. */
int load_set_start(struct load_set *set, const struct cpulist *cpus, void (*forked)(void *arg),
		   void (*started)(void *arg, pid_t pgid), void *arg, struct message *msg);
/*
 * About once a second: @work is called for each load with the work done since the last call.
 * Returns 0, or -EIO with a message when a load has died, or has done nothing for 5 s.
 */
int load_set_check(struct load_set *set, int64_t now_ns,
		   void (*work)(void *arg, const char *load, const char *unit, uint64_t count,
				int64_t from_ns, int64_t to_ns),
		   void *arg, struct message *msg);
/* Kill all groups and wait for every process of them (also those that changed parents). */
void load_set_stop(struct load_set *set);
void load_set_free(struct load_set *set);

#endif
