// SPDX-License-Identifier: Apache-2.0
/*
 * What uncontended operations take with Xenomai's own library, which this is linked with: for each
 * a line of NAME and the picoseconds of a pair, the smallest mean of some batches. Where time is
 * executed instructions, these are their number times 1000.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define BATCH 500
#define BATCHES 20

void xenomai_init(int *count, char *const **words);
int __cobalt_pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *param);
int __cobalt_sem_init(sem_t *sem, int shared, unsigned int value);
int __cobalt_sem_wait(sem_t *sem);
int __cobalt_sem_post(sem_t *sem);
int __cobalt_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int __cobalt_pthread_mutex_lock(pthread_mutex_t *mutex);
int __cobalt_pthread_mutex_unlock(pthread_mutex_t *mutex);

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

#define PAIRS(name, acquire, release)                                             \
	do {                                                                      \
		int64_t least_ns = INT64_MAX;                                     \
		for (int i = 0; i < BATCHES; i++) {                               \
			int64_t from_ns = now_ns(), took_ns;                      \
			for (int k = 0; k < BATCH; k++) {                         \
				acquire;                                          \
				release;                                          \
			}                                                         \
			took_ns = now_ns() - from_ns;                             \
			least_ns = took_ns < least_ns ? took_ns : least_ns;       \
		}                                                                 \
		printf("%s\t%lld\n", name, (long long)(least_ns * 1000 / BATCH)); \
	} while (0)

int main(int argc, char *argv[])
{
	char *const *words = argv;
	struct sched_param param = { .sched_priority = 80 };
	pthread_mutex_t mutex;
	sem_t sem;

	xenomai_init(&argc, &words);
	if (__cobalt_pthread_setschedparam(pthread_self(), SCHED_FIFO, &param) ||
	    __cobalt_sem_init(&sem, 0, 1) || __cobalt_pthread_mutex_init(&mutex, NULL))
		return 1;
	PAIRS("semaphore", __cobalt_sem_wait(&sem), __cobalt_sem_post(&sem));
	PAIRS("mutex", __cobalt_pthread_mutex_lock(&mutex), __cobalt_pthread_mutex_unlock(&mutex));
	return 0;
}
