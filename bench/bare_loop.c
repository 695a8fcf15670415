// SPDX-License-Identifier: Apache-2.0
/*
 * The minimum cost of a timer measurement: threads that wait with clock_nanosleep() and read the
 * clock, and do nothing with it. bench/timer.py compares with it.
 * usage: bare_loop INTERVAL_NS PERIODS PRIORITY CPU...
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct thread {
	pthread_t id;
	int cpu;
	int priority;
	long interval_ns;
	long periods;
	int64_t sum_ns;
};

static void *loop(void *arg)
{
	struct thread *t = arg;
	struct sched_param param = { .sched_priority = t->priority };
	struct timespec due, now;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(t->cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &param))
		fprintf(stderr, "bare_loop: no real-time priority\n");
	clock_gettime(CLOCK_MONOTONIC, &due);
	for (long i = 0; i < t->periods; i++) {
		due.tv_nsec += t->interval_ns;
		while (due.tv_nsec >= 1000000000) {
			due.tv_nsec -= 1000000000;
			due.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
		t->sum_ns += now.tv_nsec;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct thread threads[64];
	int count = argc - 4;
	int latency = open("/dev/cpu_dma_latency", O_WRONLY);
	int32_t none_us = 0;

	if (count < 1 || count > 64)
		return 2;
	mlockall(MCL_CURRENT | MCL_FUTURE);
	/* sleep states held, as the others do: they change what a wake-up costs */
	if (latency < 0 || write(latency, &none_us, sizeof(none_us)) != sizeof(none_us))
		fprintf(stderr, "bare_loop: sleep states are not held\n");
	for (int i = 0; i < count; i++) {
		threads[i] = (struct thread){ .cpu = atoi(argv[4 + i]),
					      .priority = atoi(argv[3]),
					      .interval_ns = atol(argv[1]),
					      .periods = atol(argv[2]) };
		pthread_create(&threads[i].id, NULL, loop, &threads[i]);
	}
	for (int i = 0; i < count; i++)
		pthread_join(threads[i].id, NULL);
	return 0;
}
