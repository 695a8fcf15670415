/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of a measurement that needs several, all on one CPU: on several CPUs no switch and no
 * inversion would occur. One of them, the conductor, is the frame's worker (step.h). It has the
 * highest priority, and only it puts samples into series. It creates the others, waits for them
 * with a limit, and joins them before its loop returns. Each wait has a limit, so a system that
 * misbehaves gives a verdict, not a hang.
 */
#ifndef RTGAUGE_ENSEMBLE_H
#define RTGAUGE_ENSEMBLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/option.h"
#include "methods/stamp.h"
#include "run/step.h"

/* No wait of a conductor is longer, apart from standstills: what takes so long, with real-time priority,
 * does not come. */
#define ENSEMBLE_PATIENCE_NS NSEC_PER_SEC
/* Such a wait has parts of ENSEMBLE_PART_NS. If a part ends late by more than ENSEMBLE_STALL_NS,
 * nothing ran: the process or the machine was stopped. */
#define ENSEMBLE_PART_NS (ENSEMBLE_PATIENCE_NS / 4)
#define ENSEMBLE_STALL_NS (100 * NSEC_PER_MSEC)
#define ENSEMBLE_STALLED "the process or the machine stood still for a while"
#define ENSEMBLE_KEPT "a thread that had nothing to wait for did not run for a second"

/* Rows for the option table of a measurement on one CPU. */
#define ENSEMBLE_FOR                                                           \
	{                                                                      \
		"for", OPTION_DURATION, "0", 0, 0, NULL, "time limit; 0: none" \
	}
#define ENSEMBLE_CPU                                                   \
	{                                                              \
		"cpu", OPTION_CPUS, "all", 0, 0, NULL,                 \
			"the CPU to measure on: the last of this list" \
	}
#define ENSEMBLE_PRIORITY                                                           \
	{                                                                           \
		"priority", OPTION_INTEGER, "80", 0, 99, NULL,                      \
			"SCHED_FIFO priority of the highest thread; 0: SCHED_OTHER" \
	}
/* The policy of the threads under test, where another one than SCHED_FIFO is of use. */
#define ENSEMBLE_POLICY                                               \
	{                                                             \
		"policy", OPTION_ENUM, "fifo", 0, 0, "fifo rr other", \
			"scheduling policy of the threads under test" \
	}

struct ensemble {
	struct step *step;
	int cpu;
	int policy;	  /* of the threads under test: SCHED_FIFO, or the option `policy` */
	int priority;	  /* the conductor's; the threads under test are below it */
	int64_t stamp_ps; /* the cost of a time stamp here; valid in the loop */
	int64_t stamp_ns; /* the same, rounded */
	int64_t start_ns; /* CLOCK_MONOTONIC when the loop began */
	int64_t rested_ns;
	int error;	 /* 0, or -errno or STEP_SKIPPED with the step's message */
	bool stuck;	 /* a thread did not end */
	uint32_t stalls; /* waits in which nothing ran for ENSEMBLE_STALL_NS */
	/* on a core (ensemble_cobalt.h) */
	int conductor;	   /* number of the worker */
	uint32_t releases; /* of threads that were started */
	uint32_t entered;  /* threads that are tasks of the core, or could not be */
};

/* A thread under test. Filled by the measurement but for the last five. */
struct ensemble_thread {
	struct ensemble *ensemble;
	void (*body)(struct ensemble_thread *thread);
	void *state;
	const char *name; /* in evidence */
	int number;
	int priority; /* of the ensemble's policy; 0: SCHED_OTHER */
	int waits;    /* how often its body waits of its own accord, at most */
	pthread_t thread;
	pid_t tid;
	bool created;
	int outside;	   /* as of struct worker */
	uint32_t releases; /* it waits for the next one */
	struct core_modes modes;
	uint32_t slept;	 /* how often its body waited; valid when joined */
	uint32_t faults; /* page faults in its body; valid when joined */
};

/* --- in setup() --- */

/*
 * Choose the CPU (the last of the option `cpu`), find out whether the priorities are permitted, and
 * add the conductor. @levels: so many priorities below the conductor's are needed (0: it runs as
 * SCHED_OTHER, too, and is labelled so); @threads: so many at once. worker->state in @loop is @e,
 * so let the measurement's state begin with it. 0, -errno with a message, or STEP_SKIPPED.
 */
int ensemble_setup(struct step *step, struct ensemble *e, void (*loop)(struct worker *worker),
		   int levels, int threads);
/*
 * A series of durations in ns, with a label unless @label is NULL; @samples: room in its ring;
 * @net: ensemble_net() is taken of its samples, and the stream says how much was taken off. Its
 * number, or -errno with a message.
 */
int ensemble_series(struct ensemble *e, const char *name, const char *label, const char *value,
		    int64_t samples, bool net);

/* Words of the longest ring: what the shortest operations make in about 200 ms, the interval of the
 * drain. More would be locked for nothing. What finds no room is counted as lost. */
#define ENSEMBLE_RING_MAX (1 << 20)

/* Words of a ring for @samples. */
static inline size_t ensemble_words(int64_t samples)
{
	samples += samples / 8 + 64;
	return (size_t)(samples < ENSEMBLE_RING_MAX ? samples : ENSEMBLE_RING_MAX);
}

/* The room that @samples take in test loops of @loop: each of these records its time. The drain
 * takes out what is more than 1000 test loops. */
static inline int64_t ensemble_room(int64_t samples, int loop)
{
	int64_t loops = samples / loop;

	return samples + 4 * (loops < 1000 ? loops : 1000);
}

/* Threads under test, @level below the conductor, carry out what @series measures: label it with their
 * policy and priority instead of the conductor's. A negative @series (an error) is ignored. */
void ensemble_tested(struct ensemble *e, int series, int level);

/* --- in the loop --- */

/* A duration between two time stamps, without the cost of one. */
static inline int64_t ensemble_net(const struct ensemble *e, int64_t duration_ns)
{
	return duration_ns - e->stamp_ns;
}

/* Begin a test loop: the samples of @series from here on were taken now. */
void ensemble_loop(struct ensemble *e, int series);
/*
 * Between test loops, at most 50 ms apart: whether to continue. Sleeps for a moment from time to time,
 * so that others get the CPU; no thread under test should be ready to run then.
 */
bool ensemble_goes_on(struct ensemble *e);
/* Whether the step is to end: for long test loops, which ask in between. */
bool ensemble_is_over(const struct ensemble *e);

/* Start a thread at its priority. False: the step ends with an error. */
bool ensemble_start(struct ensemble_thread *thread);
/* Let the threads run that were started. The waits below do it too: it is needed before others. */
void ensemble_release(struct ensemble *e);
/* Around what makes Linux system calls between two test loops: it is not timed on a core. */
void ensemble_pause(struct ensemble *e);
void ensemble_resume(struct ensemble *e);
/* Join it within ENSEMBLE_PATIENCE_NS. False: it is stuck, and the step ends with an error. */
bool ensemble_join(struct ensemble_thread *thread);
/*
 * Whether the machine made a joined thread wait although its body had nothing to wait for: the kernel
 * was moving a page that the thread touched (compaction, huge pages), though memory is locked. An
 * ordinary thread moves it, so other threads of the ensemble run in that time, out of their order. Then
 * the thread may find free what it would have waited for, and sleeps no more often than without that.
 */
bool ensemble_disturbed(const struct ensemble_thread *thread);
#define ENSEMBLE_DISTURBED "a thread slept because the kernel moved a page"
#define ENSEMBLE_DISTURBED_REMEDY \
	"keep the kernel from moving pages (khugepaged, compaction), and measure again"
/*
 * How often that may have happened to a joined thread: its page faults, as locked memory has no others.
 * 0 where memory is not locked. For threads whose waits are not known.
 */
static inline uint32_t ensemble_moved(const struct ensemble_thread *thread)
{
	return thread->ensemble->step->memory_unlocked ? 0 : thread->faults;
}
/* Sleep until *@word is at least @value; false when that does not come in ENSEMBLE_PATIENCE_NS.
 * A miss is not an error of the step: a verdict may follow from it. */
bool ensemble_await(struct ensemble *e, const uint32_t *word, uint32_t value);
/* The same for a word that ensemble_post() counts up: without polling it, which would disturb
 * what is timed. */
bool ensemble_await_posts(struct ensemble *e, uint32_t *word, uint32_t value);
/* After a wait from @from_ns that was to last @asked_ns at most: the time in which this thread did not
 * run, if it was long. It does not count as patience. */
static inline int64_t ensemble_late(int64_t from_ns, int64_t asked_ns)
{
	int64_t late_ns = clock_now_ns(CLOCK_MONOTONIC) - from_ns - asked_ns;

	return late_ns > ENSEMBLE_STALL_NS ? late_ns : 0;
}
/* The same in the conductor: nothing ran in that time. */
static inline int64_t ensemble_stalled(struct ensemble *e, int64_t from_ns, int64_t asked_ns)
{
	int64_t late_ns = ensemble_late(from_ns, asked_ns);

	if (late_ns)
		atomic_add_release(&e->stalls, 1);
	return late_ns;
}
/* Whether the thread waits for something; -errno: that cannot be found out. */
int ensemble_asleep(pid_t tid);
/* End the step as failed: `return ensemble_fail(...)` in a function that gives bool. */
bool ensemble_fail(struct ensemble *e, int err, const char *what);
/* In finish(): @rule cannot be judged, because the step ended before @part, one of those that it is
 * about. Says nothing if the step failed: its error says it all. */
void ensemble_not_tried(const struct ensemble *e, const char *rule, const char *part);

/* --- in threads under test --- */

/* As ensemble_await(). That others keep this thread from the CPU is not a standstill. */
bool ensemble_await_below(struct ensemble *e, const uint32_t *word, uint32_t value);
/* Move the calling thread to @cpu, which is not the ensemble's. 0 or -errno. */
int ensemble_move(struct ensemble_thread *thread, int cpu);
/* How often the calling thread has waited for something, and how often it was preempted (@preempted,
 * unless NULL). */
uint32_t ensemble_slept(uint32_t *preempted);
/* Wait for a gate, without a limit; ensemble_open() opens it for all. */
void ensemble_gate(uint32_t *gate);
void ensemble_open(uint32_t *gate);
/* Sleep while *@word is @seen, for @timeout_ns at most (0: without a limit), or for less. */
void ensemble_sleep_on(uint32_t *word, uint32_t seen, int64_t timeout_ns);
/* Count a word up, and wake all who wait for it. */
void ensemble_post(uint32_t *word);
/* Wait until it has come to @value, without a limit. */
void ensemble_wait(uint32_t *word, uint32_t value);
/* Use the CPU for so long. */
void ensemble_spin(int64_t duration_ns);
/* Change the calling thread's priority within the ensemble's policy (0: SCHED_OTHER). 0 or -errno. */
int ensemble_change_priority(struct ensemble_thread *thread, int priority);

#endif
