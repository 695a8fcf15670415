/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for owned mutexes: a chain of threads of low priority, each of which has a mutex and
 * waits for that of the previous one, a thread of high priority that wants the last mutex, and a
 * ready thread of middle priority that must not run. One link is mutex-contended, more are
 * mutex-chain.
 */
#ifndef RTGAUGE_MUTEX_LINKS_H
#define RTGAUGE_MUTEX_LINKS_H

#include "methods/ensemble.h"
#include "methods/mutex_kind.h"

#define MUTEX_LINKS_MAX 256
#define MUTEX_LINKS_LOOP 200
/* Priorities: low, middle, high. */
#define MUTEX_LINKS_LEVELS 3
#define MUTEX_LINKS_CASES 16

/* One of those that are compared, and what was found. */
struct mutex_links_case {
	char value[12]; /* of its label */
	enum mutex_protocol protocol;
	int links;
	int acquire; /* series */
	int release;
	int refused; /* errno of what the C library refused */
	int64_t samples;
	int64_t acquire_sum_ns, acquire_least_ns;
	int64_t release_sum_ns, release_least_ns;
	bool stalled;	  /* a test loop did not end in time */
	int64_t early;	  /* low ran before high had asked */
	uint32_t ready;	  /* middle was, and ran at last */
	uint32_t between; /* middle ran before high had the mutex */
	int64_t begun;	  /* rounds, also of a test loop that a stop ended */
	uint32_t slept;	  /* how often high did, in these */
	uint32_t moved;	  /* how often the kernel may have moved a page of a thread */
};

/* The threads of one case. */
struct mutex_links_scene {
	int links;
	bool yields; /* low has high's priority by the ceiling: it has to let it run */
	int count;   /* samples of this loop */
	int at;	     /* that one */
	uint32_t go; /* loops that the conductor has let begin */
	uint32_t done;
	uint32_t stop;
	uint32_t ended;	  /* the first link has seen it */
	uint32_t formed;  /* the chain is, but for the last to wait */
	uint32_t back;	  /* of all threads, at their next turn */
	uint32_t waiting; /* high wants the mutex and has not got it */
	uint32_t ready;
	uint32_t between;
	uint32_t turns[MUTEX_LINKS_MAX + 2]; /* of links, high and middle */
	int64_t request_ns[MUTEX_LINKS_LOOP], runs_ns[MUTEX_LINKS_LOOP];
	int64_t unlock_ns[MUTEX_LINKS_LOOP], got_ns[MUTEX_LINKS_LOOP];
	pthread_mutex_t mutexes[MUTEX_LINKS_MAX];
	struct ensemble_thread threads[MUTEX_LINKS_MAX + 2];
};

struct mutex_links {
	struct ensemble ensemble;
	int64_t samples;
	int case_count;
	struct mutex_links_case cases[MUTEX_LINKS_CASES];
	struct mutex_links_scene scene;
};

#define MUTEX_LINKS_SERIES                                                                        \
	{ "acquire",                                                                              \
	  "ns",                                                                                   \
	  "time from the high thread's request until the low owner runs",                         \
	  "before pthread_mutex_lock(), high",                                                    \
	  "the owner's next instruction",                                                         \
	  NULL },                                                                                 \
	{                                                                                         \
		"release", "ns",                                                                  \
			"time from the low owner's release until the high thread has the mutex",  \
			"before pthread_mutex_unlock(), low", "after pthread_mutex_lock(), high", \
			NULL                                                                      \
	}

/* In setup(): the state, with room for @links at most. 0, -errno with a message, STEP_SKIPPED. */
int mutex_links_setup(struct step *step, int links);
/* A case, labelled @label with its value. 0 or -errno with a message. */
int mutex_links_add(struct step *step, const char *label, const char *value,
		    enum mutex_protocol protocol, int links);
/* In finish(): the verdict of @count cases, that middle ran in none of them. */
void mutex_links_verdict(struct step *step, const char *rule, const struct mutex_links_case *cases,
			 int count);
/* Times in 1000 rounds that high got the CPU by a release, had to wait again, and got it once more:
 * a release of two switches. 0: never. */
int mutex_links_double_switches(const struct mutex_links_case *c);

#endif
