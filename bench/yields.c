// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that yield, and nothing else: yields THREADS YIELDS CPU PRIORITY prints the elapsed ns
 * and the number of yields of all threads. Nothing of the agent is used here; only the stacks have
 * the same size, as caches tell apart how far from each other they lie.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static pthread_barrier_t barrier;
static long yields;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* All wait at the barrier, and continue when the last one has come. */
static void *yielder(void *arg)
{
	struct timespec *took = arg;

	pthread_barrier_wait(&barrier);
	/* lined up: from here on each comes back from a yield */
	sched_yield();
	clock_gettime(CLOCK_MONOTONIC, &took[0]);
	for (long i = 0; i < yields; i++)
		sched_yield();
	clock_gettime(CLOCK_MONOTONIC, &took[1]);
	return NULL;
}

static long long ns(const struct timespec *ts)
{
	return ts->tv_sec * 1000000000LL + ts->tv_nsec;
}

int main(int argc, char **argv)
{
	long threads = argc == 5 ? atol(argv[1]) : 0;
	struct sched_param param = { .sched_priority = argc == 5 ? atoi(argv[4]) : 0 };
	struct timespec(*took)[2] = calloc(threads ? threads : 1, sizeof(*took));
	pthread_t *ids = calloc(threads ? threads : 1, sizeof(*ids));
	long long least = 0;
	long stack = sysconf(_SC_THREAD_STACK_MIN);
	pthread_attr_t attr;
	cpu_set_t cpu;

	if (threads < 2 || !took || !ids)
		return 2;
	yields = atol(argv[2]);
	CPU_ZERO(&cpu);
	CPU_SET(atoi(argv[3]), &cpu);
	if (sched_setaffinity(0, sizeof(cpu), &cpu))
		fail("sched_setaffinity");
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		fail("mlockall");
	pthread_barrier_init(&barrier, NULL, threads);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, stack < 32768 ? 32768 : stack);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
	pthread_attr_setschedparam(&attr, &param);
	for (long i = 0; i < threads; i++)
		if (pthread_create(&ids[i], &attr, yielder, took[i]))
			fail("pthread_create");
	for (long i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	/* until the first one is done, before any of them ends: exactly @yields rounds */
	for (long i = 0; i < threads; i++)
		if (!least || ns(&took[i][1]) - ns(&took[i][0]) < least)
			least = ns(&took[i][1]) - ns(&took[i][0]);
	printf("%lld %ld\n", least, threads * yields);
	return 0;
}
