/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real-time core that a measuring thread runs on. An ordinary thread calls enter() and is then
 * a task of the core. The measuring loops themselves are compiled for their core and call nothing
 * here.
 */
#ifndef RTGAUGE_CORE_H
#define RTGAUGE_CORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cpulist.h"
#include "base/message.h"

/* Scheduling of a task, as the core has it. */
struct core_task {
	const char *policy; /* "fifo", "rr", "other", "batch", "idle", "deadline" or "unknown" */
	int priority;
	struct cpulist cpus; /* that it may run on */
};

/* Why a task left its core for Linux. */
enum core_reason {
	CORE_OTHER,
	CORE_SIGNAL,
	CORE_SYSCALL,
	CORE_FAULT,
	CORE_INVERSION,
	CORE_REASONS,
};

/* Events of a task while it is timed. */
struct core_modes {
	int64_t switches; /* times that it left the core for Linux */
	int64_t faults;	  /* page faults on the core */
	int64_t reasons[CORE_REASONS];
};

struct core {
	const char *name;
	const char *title; /* in messages */
	/* Bind this process to the core, whose revision of the interface goes to @revision. 0 or
	 * -errno with reason and remedy. NULL: nothing to bind. */
	int (*bind)(int *revision, struct message *why);
	/* Make the calling thread a task: pinned to @cpu (-1: not pinned), with real-time priority
	 * @priority (0: unchanged). 0 or -errno. What Linux refuses shows in look() instead. */
	int (*enter)(int cpu, int priority);
	/* Around what is timed, in the task: nothing in between may leave the core. end() adds to
	 * @modes; the switch by the signal that @stopped the task is not counted. NULL: Linux tasks. */
	void (*begin)(struct core_modes *modes);
	void (*end)(struct core_modes *modes, bool stopped);
	/* Whether the core counts the switches, page faults and calls of its tasks. After bind().
	 * NULL: Linux tasks. */
	bool (*counts)(void);
	/* Give the thread @tid real-time priority @priority, or none with 0. */
	void (*place)(pid_t tid, int priority);
	/* False: there is no thread @tid any more. */
	bool (*look)(pid_t tid, struct core_task *task);
	/* Whether the calling thread may have real-time priority @priority; it stays as it is. */
	bool (*may_have)(int priority);
	/* CLOCK_MONOTONIC by a system call of the core, in ns. */
	int64_t (*now)(void);
	/* Sleep for this time, or less. A task stays on the core. */
	void (*rest)(int64_t ns);
	/* The number of its clock_nanosleep() with the times of struct timespec; 0: on this
	 * architecture it has others. */
	long sleep_call;
	/* The setting by which it starts timers early, and the value for in time; NULL: none. */
	const char *gravity;
	const char *no_gravity;
};

extern const struct core core_linux;

/* Where counts() is false. */
#define CORE_NO_COUNTS "the core counts neither mode switches nor page faults"
#define CORE_COUNTS_REMEDY "build the kernel with CONFIG_XENO_OPT_STATS"

/* Architectures with a Cobalt core and 64-bit system calls. */
#if defined(__x86_64__) || defined(__aarch64__)
#define CORE_COBALT &core_cobalt
extern const struct core core_cobalt;
#else
#define CORE_COBALT NULL
#endif

#endif
