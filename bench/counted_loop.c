// SPDX-License-Identifier: Apache-2.0
/*
 * A counted loop of acquire and release, for bench/uncontended.py: nothing else between two readings
 * of the thread's CPU time.
 *
 *     counted_loop KIND OPERATIONS CPU PRIORITY
 *
 * prints the ns that all of them took.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int make_mutex(pthread_mutex_t *mutex, const char *kind, int priority)
{
	pthread_mutexattr_t attr;
	int err = 0;

	pthread_mutexattr_init(&attr);
	if (!strcmp(kind, "recursive"))
		err = pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	else if (!strcmp(kind, "errorcheck"))
		err = pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	else if (!strcmp(kind, "robust"))
		err = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	else if (!strcmp(kind, "inherit"))
		err = pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	else if (!strncmp(kind, "protect", 7))
		err = pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_PROTECT) ||
		      pthread_mutexattr_setprioceiling(&attr,
						       priority + !strcmp(kind, "protect-raise"));
	else if (strcmp(kind, "normal"))
		err = 1;
	return err || pthread_mutex_init(mutex, &attr);
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
	long long from_ns;
	pthread_mutex_t mutex;
	pthread_t thread;
	cpu_set_t cpus;
	sem_t semaphore;

	if (operations < 1 || pthread_create(&thread, NULL, idle, NULL))
		return 2;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[3]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) ||
	    sched_setscheduler(0, SCHED_FIFO, &param)) {
		perror("counted_loop");
		return 1;
	}
	/* what the caller has to do for it, on the other half of the core perhaps, is over then */
	usleep(100000);
	if (!strcmp(argv[1], "semaphore")) {
		sem_init(&semaphore, 0, 1);
		from_ns = now_ns();
		for (long i = 0; i < operations; i++) {
			sem_wait(&semaphore);
			sem_post(&semaphore);
		}
	} else {
		if (make_mutex(&mutex, argv[1], param.sched_priority))
			return 2;
		from_ns = now_ns();
		for (long i = 0; i < operations; i++) {
			pthread_mutex_lock(&mutex);
			pthread_mutex_unlock(&mutex);
		}
	}
	printf("%lld\n", now_ns() - from_ns);
	return 0;
}
