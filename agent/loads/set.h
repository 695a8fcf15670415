/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The internals of a set of loads. parse.c reads it from text, load.c starts, checks and stops it
 * for the agent, leader.c runs in the first process of each load, and children.c starts and ends
 * processes.
 */
#ifndef RTGAUGE_SET_H
#define RTGAUGE_SET_H

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "loads/load.h"

#define LOAD_READY_NS (30 * NSEC_PER_SEC) /* boards of 100 MHz, and emulated ones, fork slowly */
#define LOAD_STOP_NS (5 * NSEC_PER_SEC)
#define LOAD_POLL_NS NSEC_PER_MSEC
#define LOAD_STALL_NS (100 * NSEC_PER_MSEC) /* the most that one poll counts of a wait */
#define LOAD_CHILDREN_MAX 256
#define LOAD_MORE_PROCESSES "raise the limit of processes (ulimit -u)"

/* Shared state of a load and the agent. One cache line for each counter. */
struct shared {
	uint32_t ready;	   /* it works; with a schedule: not so between its phases */
	uint32_t absent;   /* it cannot work here, and rests; msg says why */
	uint32_t begun;	   /* origin_ns is valid */
	int32_t nice;	   /* that the load may not leave, set before it is ready; else 0 */
	int64_t origin_ns; /* CLOCK_MONOTONIC at which the schedules of all loads begin */
	uint32_t counters; /* in use */
	uint32_t turn;	   /* in the first load with a count: number of turns that have ended */
	struct message msg;
	struct {
		volatile unsigned long value;
	} __attribute__((aligned(64))) counter[LOAD_COUNTERS_MAX];
};

struct load_worker {
	const struct load *load;
	char *label;		   /* what its work is recorded under, and messages call it */
	struct option_info *table; /* the load's options, and those of every load */
	struct option_set options;
	const struct cpulist *cpus;
	struct shared *shared;
	uint32_t *turn; /* NULL: works all the time, or by a schedule of times */
	uint32_t place; /* among the loads that take turns */
	uint32_t turns;
	size_t mapped;
	pid_t pid; /* of the leader, and number of its group; 0: not running */
	uint32_t counters;
	unsigned long *seen; /* the counters at the last check */
	int64_t checked_ns;
	int64_t reported_ns;
	uint64_t unreported;
	int64_t worked_ns;
	unsigned int idle_checks;
	int late_phases; /* of the leader: the last ones, all over before the load was ready */
};

struct load_set {
	struct load_worker *workers;
	size_t count;
	int64_t ready_ns; /* what all loads together may take until they are ready */
	struct cpulist cpus;
	int was_subreaper;
	pid_t others
		[LOAD_CHILDREN_MAX]; /* children that the agent had before: none of the loads' */
	int other_count;
};

static inline int load_out_of_memory(struct message *msg)
{
	return message_set(msg, -ENOMEM, "free some memory", "out of memory");
}

/* In a new child: die with @parent, also if it has gone already. */
void load_die_with(pid_t parent);
/* How a process ended, as waitid() has it, in words; @worker NULL: a process of the caller's load.
 * The error that it stands for. */
int load_describe_end(const struct load_worker *worker, const siginfo_t *info, struct message *msg);
void load_pause(void); /* for LOAD_POLL_NS */
/* Between two readings of the clock by a caller that polls: the time in which it stood still, together
 * with the machine (a virtual machine that its host suspends), or alone. A wait for a load is longer
 * by it. */
static inline int64_t load_stalled_ns(int64_t from_ns, int64_t to_ns)
{
	return to_ns - from_ns > LOAD_STALL_NS ? to_ns - from_ns - LOAD_STALL_NS : 0;
}
/* The children of the caller, as /proc has them: how many, LOAD_CHILDREN_MAX at most. */
int load_find_children(pid_t *pids);
/* Kill the children of the caller, but not @others. How many there were; some may be left. */
int load_kill_children(const pid_t *others, int other_count);
/* The life of a leader, after fork() in the agent @agent. */
void __attribute__((noreturn))
load_lead(struct load_worker *worker, pid_t agent, void (*forked)(void *arg), void *arg);
/* The work since the last call. */
uint64_t load_count_work(struct load_worker *worker);

#endif
