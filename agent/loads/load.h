/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads: what the target does during the measurement. Each is one file in loads/ with one
 * `const struct load`, named in catalogue.c. A load runs in processes of its own, all in one
 * process group (of the load's leader), with SCHED_OTHER, and dies with the agent. It counts its
 * work in shared memory; the agent reads the counters and sees when it dies or stalls.
 */
#ifndef RTGAUGE_LOAD_H
#define RTGAUGE_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cpulist.h"
#include "base/message.h"
#include "base/option.h"

struct load_worker;

struct load {
	const char *name;
	const char *summary;
	const char *unit; /* of the work counted: "messages", "loops" */
	const struct option_info *options;
	/*
	 * Runs in the load's leader process until killed; forks (load_fork) or starts threads as it
	 * needs. Returns -errno if it cannot run, or when one of its processes has died (stderr is
	 * /dev/null: what is wrong goes into @msg, which lives in shared memory).
	 */
	int (*run)(struct load_worker *worker, const struct option_set *options,
		   struct message *msg);
	/* NULL, or this is a profile: the loads that it stands for, as text. An option given to the
	 * profile goes to each load that has it and is not given it here. */
	const char *mix;
	bool rests;	     /* a phase without work is not a stall */
	const char *stalled; /* the remedy for one; NULL: a CPU with free time */
};

/* `--load-cmd`; it is not in the table of loads. */
extern const struct load load_command;

/* Options that every load has in addition to its own. */
extern const struct option_info load_options[];

/* For load->run: */

/* A counter of its own cache line, to be incremented by one process or thread alone. Number from
 * 0 to LOAD_COUNTERS_MAX-1; it may wrap. Ask for it in the leader and before load_ready(): the
 * agent then keeps mapped only what is in use. */
#define LOAD_COUNTERS_MAX 2048
volatile unsigned long *load_counter(struct load_worker *worker, unsigned int number);
/* The CPUs the load may use. */
const struct cpulist *load_cpus(const struct load_worker *worker);
/* fork() for loads: the child is killed when its parent ends. Children end with _exit(errno). */
pid_t load_fork(void);
/* In a child of load_fork(), before it executes a foreign program: drop all rights that the caller
 * (caller.h) does not have, including supplementary groups. 0 or -errno; on an error do not execute the program. */
int load_become_caller(pid_t parent);
/* Call once when set up: the agent waits for it (30 s at most) before it starts to measure. */
void load_ready(struct load_worker *worker);
/* In place of load_ready(): it cannot work here, and the step continues without it. The reason is in the
 * message of run(). Never returns. */
void __attribute__((noreturn)) load_absent(struct load_worker *worker);
/* After load_ready(): waits until one of the caller's children has died, which none ever should,
 * and returns -errno with a message. A caller without children waits for ever. */
int load_watch(struct message *msg);

/* Kill all children of the caller, and their children that it then inherits, and wait for their
 * end. The caller is a subreaper. 0, or -ETIMEDOUT after 5 s. */
int load_end_children(void);

/* Environment variable that marks programs started by a load with the run's id. */
#define LOAD_RUN_VARIABLE "RTGAUGE_RUN"

/* Kill all processes that loads of the run @run_id left: those executed with LOAD_RUN_VARIABLE in
 * their environment. Returns their number. */
int load_sweep(const char *run_id);

/* For run.c: the running loads of a step. */
struct load_set;

/* Read "sched:groups=4,cpu"; @loads is the table of all and of profiles, NULL at its end. "idle" and "" are the
 * empty set. -EINVAL with the nearest name in @msg. */
int load_set_parse(struct load_set **set, const char *text, const struct load *const *loads,
		   struct message *msg);
/* Add a load: @command (of loads/command.c) runs @text in a shell; its work is its CPU time. */
int load_set_add_command(struct load_set *set, const struct load *command, const char *text,
			 bool as_root, struct message *msg);
/*
 * Fork the leaders (before any thread exists), wait until all are ready. @forked is called in
 * each child first, to drop what it must not hold. All files but stdin, stdout and stderr are
 * closed after it anyway. @started is called in the agent with each group. Both may be NULL.
 * @cpus NULL: all that the agent may run on. 0 or -errno with a message, and then nothing runs any
 * more.
 */
int load_set_start(struct load_set *set, const struct cpulist *cpus, void (*forked)(void *arg),
		   void (*started)(void *arg, pid_t pgid), void *arg, struct message *msg);
/*
 * About once a second: @work, unless it is NULL, is called for each load with the work done since
 * its last call.
 * Returns 0, or -EIO with a message when a load has died, or has done nothing for 5 s.
 */
int load_set_check(struct load_set *set, int64_t now_ns,
		   void (*work)(void *arg, const char *load, const char *unit, uint64_t count,
				int64_t from_ns, int64_t to_ns),
		   void *arg, struct message *msg);
/* Kill all groups and wait for every process of them (also those that changed parents). 0, or
 * -ETIMEDOUT when one of them is still there after 5 s (it hangs in the kernel). */
int load_set_stop(struct load_set *set);
/* Why the load at @at, counted from 0, does not work here; @at moves behind it. False: no further
 * one. */
bool load_set_absent(const struct load_set *set, size_t *at, char *why, size_t size);
/* The nice value of the loads, once they have started: above 0 if they may not leave that of the
 * agent. */
int load_set_nice(const struct load_set *set);
void load_set_free(struct load_set *set);

#endif
