// SPDX-License-Identifier: Apache-2.0
/*
 * Counted loops of acquire and release, for bench/uncontended.py: nothing else between two readings
 * of a clock.
 *
 *     counted_loop KIND OPERATIONS CPU PRIORITY
 *         prints the ns that all of them took, by the thread's CPU time
 *     counted_loop KIND OPERATIONS CPU PRIORITY PAIRS
 *         and batches like those of the measurements, by their code (agent/methods/stamp.h): for each
 *         pair prints the mean of the batches and that of the loops, in ps
 *
 * A pair is so many operations of both: 40 batches, then a loop of as many operations, then a loop,
 * then 40 batches, and so on, so that what changes within milliseconds meets both alike.
 *
 * The loop counts down, which takes the two instructions that counting a batch takes; up to a limit
 * it would be three.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "methods/stamp.h"

/* As MUTEX_LOOP and SEM_LOOP. */
#define BATCH 500
#define BATCHES 40
/* With a system call in each operation a batch takes milliseconds. */
#define SLOW_BATCHES 4
/* What others of this CPU have, so often. */
#define REST_NS (50 * NSEC_PER_MSEC)
#define REST_PART 16

struct kind {
	int semaphores;
	int batches; /* of a turn */
	sem_t semaphore;
	pthread_mutex_t mutex;
};

static int make(struct kind *kind, const char *name, int priority)
{
	pthread_mutexattr_t attr;
	int err = 0;

	kind->semaphores = !strcmp(name, "semaphore");
	kind->batches = strcmp(name, "protect-raise") ? BATCHES : SLOW_BATCHES;
	if (kind->semaphores)
		return sem_init(&kind->semaphore, 0, 1);
	pthread_mutexattr_init(&attr);
	if (!strcmp(name, "recursive"))
		err = pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	else if (!strcmp(name, "errorcheck"))
		err = pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	else if (!strcmp(name, "robust"))
		err = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	else if (!strcmp(name, "inherit"))
		err = pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
#ifdef __GLIBC__ /* musl has no ceilings */
	else if (!strncmp(name, "protect", 7))
		err = pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_PROTECT) ||
		      pthread_mutexattr_setprioceiling(&attr,
						       priority + !strcmp(name, "protect-raise"));
#endif
	else if (strcmp(name, "normal"))
		err = 1;
	return err || pthread_mutex_init(&kind->mutex, &attr);
}

static int64_t loop(struct kind *kind, long operations, clockid_t clock)
{
	int64_t from_ns = clock_now_ns(clock);

	if (kind->semaphores)
		for (; operations; operations--) {
			sem_wait(&kind->semaphore);
			sem_post(&kind->semaphore);
		}
	else
		for (; operations; operations--) {
			pthread_mutex_lock(&kind->mutex);
			pthread_mutex_unlock(&kind->mutex);
		}
	return clock_now_ns(clock) - from_ns;
}

static void batches(struct kind *kind, struct batch *batch, int64_t stamp_ps)
{
	for (int i = 0; i < kind->batches; i++)
		if (kind->semaphores)
			BATCH_TIME(batch, stamp_ps, BATCH, sem_wait(&kind->semaphore);
				   sem_post(&kind->semaphore));
		else
			BATCH_TIME(batch, stamp_ps, BATCH, pthread_mutex_lock(&kind->mutex);
				   pthread_mutex_unlock(&kind->mutex));
}

static void pair(struct kind *kind, long operations, int64_t stamp_ps)
{
	int64_t loops_ns = 0, rested_ns = clock_now_ns(CLOCK_MONOTONIC);
	const int turn = kind->batches * BATCH;
	struct batch batch = { .operation = "" };
	long turns = operations / turn ?: 1;

	for (long i = 0; i < turns; i++) {
		if (i % 2)
			loops_ns += loop(kind, turn, CLOCK_MONOTONIC);
		batches(kind, &batch, stamp_ps);
		if (i % 2 == 0)
			loops_ns += loop(kind, turn, CLOCK_MONOTONIC);
		if (clock_now_ns(CLOCK_MONOTONIC) - rested_ns >= REST_NS) {
			usleep(REST_NS / REST_PART / NSEC_PER_USEC);
			rested_ns = clock_now_ns(CLOCK_MONOTONIC);
		}
	}
	printf("%lld %lld\n", (long long)(batch.sum_ps / batch.operations),
	       (long long)(loops_ns * 1000 / (turns * turn)));
}

/* So that the C library knows of two threads, as with the agent. */
static void *idle(void *arg)
{
	pause();
	return arg;
}

int main(int argc, char **argv)
{
	struct sched_param param = { .sched_priority = argc > 4 ? atoi(argv[4]) : 0 };
	long operations = argc > 4 ? atol(argv[2]) : 0;
	static struct kind kind;
	pthread_t thread;
	int64_t stamp_ps;
	cpu_set_t cpus;

	if (operations < 1 || pthread_create(&thread, NULL, idle, NULL))
		return 2;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[3]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) ||
	    syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &param)) { /* musl's own refuses */
		perror("counted_loop");
		return 1;
	}
	if (make(&kind, argv[1], param.sched_priority))
		return 2;
	/* what the caller has to do for it, on the other half of the core perhaps, is over then */
	usleep(100000);
	if (argc == 5) {
		printf("%lld\n", (long long)loop(&kind, operations, CLOCK_THREAD_CPUTIME_ID));
	} else {
		stamp_ps = stamp_cost_ps();
		for (int i = 0; i < atoi(argv[5]); i++)
			pair(&kind, operations, stamp_ps);
	}
#ifndef __GLIBC__
	/* where threads can be cancelled, as in the agent, musl's sem_wait() looks whether it was */
	pthread_cancel(thread);
#endif
	return 0;
}
