// SPDX-License-Identifier: Apache-2.0
/*
 * The minimum cost of a hand-over through condition variables, in the arrangement of ptsematest:
 * two threads of one priority on one CPU, nothing kept but a sum. Prints the mean in microseconds.
 *
 * bare_condvar CPU PRIORITY INTERVAL_US HANDOVERS
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

struct turn {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	int ready;
};

static struct turn there = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 };
static struct turn back = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 };
static long count;
static struct timespec interval;
static struct timespec sent;

static void give(struct turn *turn, struct timespec *when)
{
	pthread_mutex_lock(&turn->mutex);
	turn->ready = 1;
	pthread_mutex_unlock(&turn->mutex);
	if (when)
		clock_gettime(CLOCK_MONOTONIC, when);
	pthread_cond_signal(&turn->cond);
}

static void await(struct turn *turn, struct timespec *when)
{
	pthread_mutex_lock(&turn->mutex);
	while (!turn->ready)
		pthread_cond_wait(&turn->cond, &turn->mutex);
	if (when)
		clock_gettime(CLOCK_MONOTONIC, when);
	turn->ready = 0;
	pthread_mutex_unlock(&turn->mutex);
}

static void *send_all(void *unused)
{
	for (long i = 0; i < count; i++) {
		await(&back, NULL);
		give(&there, &sent);
	}
	return unused;
}

static void *receive_all(void *unused)
{
	struct timespec woke;
	double sum_us = 0;

	for (long i = 0; i < count; i++) {
		nanosleep(&interval, NULL);
		give(&back, NULL);
		await(&there, &woke);
		sum_us += (double)(woke.tv_sec - sent.tv_sec) * 1e6 +
			  (double)(woke.tv_nsec - sent.tv_nsec) / 1e3;
	}
	printf("%.4f\n", sum_us / (double)count);
	return unused;
}

int main(int argc, char **argv)
{
	struct sched_param param = { 0 };
	pthread_t sender, receiver;
	cpu_set_t cpus;

	if (argc != 5)
		return 2;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[1]), &cpus);
	param.sched_priority = atoi(argv[2]);
	interval.tv_nsec = atol(argv[3]) * 1000;
	count = atol(argv[4]);
	if (mlockall(MCL_CURRENT | MCL_FUTURE) || sched_setaffinity(0, sizeof(cpus), &cpus) ||
	    sched_setscheduler(0, SCHED_FIFO, &param))
		return 1;
	if (pthread_create(&receiver, NULL, receive_all, NULL) ||
	    pthread_create(&sender, NULL, send_all, NULL))
		return 1;
	return pthread_join(receiver, NULL) || pthread_join(sender, NULL);
}
