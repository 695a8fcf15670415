/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POSIX on the Cobalt core, for tasks of the core in a bound process (core_cobalt.c). The functions
 * have the C library's names with the prefix cobalt_, and use its types. Operations without a
 * system call in Xenomai's library do not need one here.
 */
#ifndef RTGAUGE_COBALT_POSIX_H
#define RTGAUGE_COBALT_POSIX_H

#include <errno.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>

#include "base/atomic.h"
#include "core/cobalt.h"

/* --- semaphores --- */

struct cobalt_sem {
	uint32_t magic;
	int32_t place; /* of its state; negative: in the shared heap */
	uint32_t handle;
};

struct cobalt_sem_state {
	uint32_t value; /* negative: number of waiters */
	uint32_t flags;
};

_Static_assert(sizeof(struct cobalt_sem) <= sizeof(sem_t), "in place of it");

static inline uint32_t *cobalt_sem_value(sem_t *sem)
{
	const struct cobalt_sem *s = (const struct cobalt_sem *)(void *)sem;
	void *state = s->place < 0 ? cobalt_heaps.shared - s->place : cobalt_heaps.own + s->place;

	return &((struct cobalt_sem_state *)state)->value;
}

int cobalt_sem_init(sem_t *sem, int shared, unsigned int value);
int cobalt_sem_destroy(sem_t *sem);
int cobalt_sem_getvalue(sem_t *sem, int *value);
int cobalt_sem_timedwait(sem_t *sem, const struct timespec *until);

static inline int cobalt_sem_post(sem_t *sem)
{
	uint32_t *value = cobalt_sem_value(sem), seen;

	while ((int32_t)(seen = atomic_load_relaxed(value)) >= 0)
		if (atomic_compare_exchange(value, seen, seen + 1))
			return 0;
	return (int)syscall(COBALT_SEM_POST, sem);
}

static inline bool cobalt_sem_take(sem_t *sem)
{
	uint32_t *value = cobalt_sem_value(sem), seen;

	while ((int32_t)(seen = atomic_load_relaxed(value)) > 0)
		if (atomic_compare_exchange(value, seen, seen - 1))
			return true;
	return false;
}

static inline int cobalt_sem_wait(sem_t *sem)
{
	return cobalt_sem_take(sem) ? 0 : (int)syscall(COBALT_SEM_WAIT, sem);
}

static inline int cobalt_sem_trywait(sem_t *sem)
{
	if (cobalt_sem_take(sem))
		return 0;
	errno = EAGAIN;
	return -1;
}

/* --- mutexes --- */

struct cobalt_mutexattr {
	int type : 3;
	int protocol : 3;
	int shared : 1;
	int : 1;
	int ceiling : 8; /* one less */
};

_Static_assert(sizeof(struct cobalt_mutexattr) <= sizeof(pthread_mutexattr_t), "in place of it");

struct cobalt_mutex {
	uint32_t magic;
	uint32_t count;
	uint32_t place; /* of its state */
	uint32_t handle;
	struct cobalt_mutexattr attr;
};

_Static_assert(sizeof(struct cobalt_mutex) <= sizeof(pthread_mutex_t), "in place of it");

#define COBALT_MUTEX_SIGNALLED 1U /* a condition variable of it was signalled */

struct cobalt_mutex_state {
	uint32_t owner;
	uint32_t flags;
	uint32_t ceiling;
};

static inline struct cobalt_mutex_state *cobalt_mutex_state(const struct cobalt_mutex *mutex)
{
	return (struct cobalt_mutex_state *)(void *)((mutex->attr.shared ? cobalt_heaps.shared :
									   cobalt_heaps.own) +
						     mutex->place);
}

int cobalt_pthread_mutexattr_init(pthread_mutexattr_t *attr);
int cobalt_pthread_mutexattr_destroy(pthread_mutexattr_t *attr);
int cobalt_pthread_mutexattr_settype(pthread_mutexattr_t *attr, int type);
int cobalt_pthread_mutexattr_setprotocol(pthread_mutexattr_t *attr, int protocol);
int cobalt_pthread_mutexattr_setprioceiling(pthread_mutexattr_t *attr, int ceiling);
int cobalt_pthread_mutexattr_setrobust(pthread_mutexattr_t *attr, int robust);
int cobalt_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int cobalt_pthread_mutex_destroy(pthread_mutex_t *mutex);
/* Slow paths of the two functions below. */
int cobalt_mutex_lock(struct cobalt_mutex *mutex);
int cobalt_mutex_unlock(struct cobalt_mutex *mutex);

static inline int cobalt_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	struct cobalt_mutex *m = (struct cobalt_mutex *)(void *)mutex;
	const struct cobalt_self *self = &cobalt_self;

	if ((atomic_load_relaxed(&self->window->state) &
	     (COBALT_RELAXED | COBALT_WEAK | COBALT_DEBUGGED)) ||
	    m->attr.protocol == PTHREAD_PRIO_PROTECT ||
	    !atomic_compare_exchange(&cobalt_mutex_state(m)->owner, 0, self->handle))
		return cobalt_mutex_lock(m);
	m->count = 1;
	return 0;
}

static inline int cobalt_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	struct cobalt_mutex *m = (struct cobalt_mutex *)(void *)mutex;
	struct cobalt_mutex_state *state = cobalt_mutex_state(m);
	const struct cobalt_self *self = &cobalt_self;

	if (m->count > 1 || m->attr.protocol == PTHREAD_PRIO_PROTECT ||
	    (state->flags & COBALT_MUTEX_SIGNALLED) ||
	    (atomic_load_relaxed(&self->window->state) & (COBALT_WEAK | COBALT_DEBUGGED)) ||
	    !atomic_compare_exchange(&state->owner, self->handle, 0))
		return cobalt_mutex_unlock(m);
	return 0;
}

/* --- condition variables --- */

struct cobalt_cond {
	uint32_t magic;
	uint32_t place;
	uint32_t handle;
};

_Static_assert(sizeof(struct cobalt_cond) <= sizeof(pthread_cond_t), "in place of it");

struct cobalt_cond_state {
	uint32_t signals;
	uint32_t mutex; /* place of its state; all bits set: no waiter */
};

/* @attr: NULL. */
int cobalt_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr);
int cobalt_pthread_cond_destroy(pthread_cond_t *cond);
int cobalt_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);

/* Only marks: the unlock of the mutex, which the caller holds, wakes the waiter. */
static inline int cobalt_pthread_cond_signal(pthread_cond_t *cond)
{
	const struct cobalt_cond *c = (const struct cobalt_cond *)(void *)cond;
	struct cobalt_cond_state *state = (void *)(cobalt_heaps.own + c->place);
	uint32_t mutex = atomic_load_relaxed(&state->mutex);

	if (mutex == UINT32_MAX)
		return 0;
	((struct cobalt_mutex_state *)(void *)(cobalt_heaps.own + mutex))->flags |=
		COBALT_MUTEX_SIGNALLED;
	if (state->signals != UINT32_MAX)
		state->signals++;
	return 0;
}

/* --- message queues --- */

/* With O_CREAT. Leaves the core. */
mqd_t cobalt_mq_open(const char *name, int flags, mode_t mode, const struct mq_attr *attr);
int cobalt_mq_close(mqd_t queue);
int cobalt_mq_unlink(const char *name);
ssize_t cobalt_mq_timedreceive(mqd_t queue, char *message, size_t size, unsigned int *priority,
			       const struct timespec *until);

static inline int cobalt_mq_send(mqd_t queue, const char *message, size_t size,
				 unsigned int priority)
{
	return (int)syscall(COBALT_MQ_TIMEDSEND, queue, message, size, priority, NULL);
}

static inline ssize_t cobalt_mq_receive(mqd_t queue, char *message, size_t size,
					unsigned int *priority)
{
	ssize_t got = (ssize_t)size;

	return syscall(COBALT_MQ_TIMEDRECEIVE, queue, message, &got, priority, NULL) ? -1 : got;
}

/* --- signals --- */

static inline int cobalt_sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
	return (int)syscall(COBALT_SIGWAITINFO, set, info);
}

static inline int cobalt_sigtimedwait(const sigset_t *set, siginfo_t *info,
				      const struct timespec *timeout)
{
	return (int)syscall(COBALT_SIGTIMEDWAIT, set, info, timeout);
}

/* --- time and scheduling --- */

static inline int cobalt_sched_yield(void)
{
	return (int)syscall(COBALT_SCHED_YIELD);
}

static inline int cobalt_nanosleep(const struct timespec *rest, struct timespec *left)
{
	return (int)syscall(COBALT_CLOCK_NANOSLEEP, CLOCK_REALTIME, 0, rest, left);
}

static inline int cobalt_clock_nanosleep(clockid_t clock, int flags, const struct timespec *due,
					 struct timespec *left)
{
	return syscall(COBALT_CLOCK_NANOSLEEP, clock, flags, due, left) ? errno : 0;
}

/* The time slice of a task with SCHED_RR. */
int cobalt_sched_rr_get_interval(pid_t tid, struct timespec *slice);
/* Use of the CPU by the calling task. The core counts how often a task got the CPU, whatever it had waited for:
 * ru_nvcsw and ru_nivcsw both have that number; and its page faults. */
int cobalt_getrusage(int of, struct rusage *usage);
/* Whether the task waits for something. */
bool cobalt_waits(pid_t tid);

/* --- words: what tasks do with a futex on Linux --- */

/* Wait while *@word is @seen, for @timeout_ns at most (0: without a limit), or for less. */
void cobalt_word_wait(uint32_t *word, uint32_t seen, int64_t timeout_ns);
/* All that wait for it continue, in the order of their priorities. */
void cobalt_word_wake(const uint32_t *word);

#endif
