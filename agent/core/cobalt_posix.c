// SPDX-License-Identifier: Apache-2.0
/* POSIX on the Cobalt core: functions that are too long for the header. */
#if defined(__x86_64__) || defined(__aarch64__)
#include "core/cobalt_posix.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define COBALT_SHARED 4U
#define COBALT_TRANSIENT 0xa0000000U /* bits of a handle in an owner word */
/* Max words that tasks wait for. Further ones are polled. */
#define COBALT_WORDS 1024U
#define COBALT_LOOK_NS (50 * NSEC_PER_USEC)

/* --- semaphores --- */

/* A semaphore that exists is replaced, as with the C library. */
int cobalt_sem_init(sem_t *sem, int shared, unsigned int value)
{
	unsigned int flags = shared ? COBALT_SHARED : 0;

	if (!syscall(COBALT_SEM_INIT, sem, flags, value))
		return 0;
	if (errno != EBUSY || syscall(COBALT_SEM_DESTROY, sem))
		return -1;
	return (int)syscall(COBALT_SEM_INIT, sem, flags, value);
}

int cobalt_sem_destroy(sem_t *sem)
{
	return (int)syscall(COBALT_SEM_DESTROY, sem);
}

int cobalt_sem_getvalue(sem_t *sem, int *value)
{
	int32_t seen = (int32_t)atomic_load_acquire(cobalt_sem_value(sem));

	*value = seen < 0 ? 0 : seen;
	return 0;
}

int cobalt_sem_timedwait(sem_t *sem, const struct timespec *until)
{
	return cobalt_sem_take(sem) ? 0 : (int)syscall(COBALT_SEM_TIMEDWAIT, sem, until);
}

/* --- mutexes --- */

static struct cobalt_mutexattr *cobalt_attr(pthread_mutexattr_t *attr)
{
	return (struct cobalt_mutexattr *)(void *)attr;
}

int cobalt_pthread_mutexattr_init(pthread_mutexattr_t *attr)
{
	memset(attr, 0, sizeof(*attr));
	return 0;
}

int cobalt_pthread_mutexattr_destroy(pthread_mutexattr_t *attr)
{
	(void)attr;
	return 0;
}

int cobalt_pthread_mutexattr_settype(pthread_mutexattr_t *attr, int type)
{
	cobalt_attr(attr)->type = type & 3;
	return 0;
}

int cobalt_pthread_mutexattr_setprotocol(pthread_mutexattr_t *attr, int protocol)
{
	cobalt_attr(attr)->protocol = protocol & 3;
	return 0;
}

int cobalt_pthread_mutexattr_setprioceiling(pthread_mutexattr_t *attr, int ceiling)
{
	if (ceiling < 1 || ceiling > 99)
		return EINVAL;
	cobalt_attr(attr)->ceiling = (signed char)(ceiling - 1);
	return 0;
}

int cobalt_pthread_mutexattr_setrobust(pthread_mutexattr_t *attr, int robust)
{
	(void)attr;
	return robust == PTHREAD_MUTEX_ROBUST ? ENOTSUP : 0;
}

int cobalt_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
	const struct cobalt_mutexattr plain = { 0 };
	const void *wanted = attr ? (const void *)attr : (const void *)&plain;

	if (!syscall(COBALT_MUTEX_INIT, mutex, wanted))
		return 0;
	if (errno != EBUSY || syscall(COBALT_MUTEX_DESTROY, mutex) ||
	    syscall(COBALT_MUTEX_INIT, mutex, wanted))
		return errno;
	return 0;
}

int cobalt_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
	return syscall(COBALT_MUTEX_DESTROY, mutex) ? errno : 0;
}

/* The ceiling is not taken at once: the core does it when it takes the CPU from the owner. One at a
 * time can wait for that. */
static bool cobalt_mutex_protect(struct cobalt_mutex *mutex)
{
	struct cobalt_window *window = cobalt_self.window;

	if (window->ceiling)
		return false;
	window->ceiling = mutex->handle;
	if (atomic_compare_exchange(&cobalt_mutex_state(mutex)->owner, 0, cobalt_self.handle))
		return true;
	window->ceiling = 0;
	return false;
}

int cobalt_mutex_lock(struct cobalt_mutex *mutex)
{
	const struct cobalt_self *self = &cobalt_self;
	uint32_t mode = COBALT_RELAXED | COBALT_WEAK | COBALT_DEBUGGED;
	int err = EINTR;

	if ((atomic_load_acquire(&cobalt_mutex_state(mutex)->owner) & ~COBALT_TRANSIENT) ==
	    self->handle) {
		if (mutex->attr.type == PTHREAD_MUTEX_ERRORCHECK)
			return EDEADLK;
		if (mutex->attr.type == PTHREAD_MUTEX_RECURSIVE) {
			mutex->count++;
			return 0;
		}
	}
	if (mutex->attr.protocol == PTHREAD_PRIO_PROTECT &&
	    !(atomic_load_relaxed(&self->window->state) & mode) && cobalt_mutex_protect(mutex))
		err = 0;
	while (err == EINTR)
		err = syscall(COBALT_MUTEX_LOCK, mutex) ? errno : 0;
	if (!err)
		mutex->count = 1;
	return err;
}

int cobalt_mutex_unlock(struct cobalt_mutex *mutex)
{
	struct cobalt_mutex_state *state = cobalt_mutex_state(mutex);
	const struct cobalt_self *self = &cobalt_self;
	uint32_t mode = COBALT_WEAK | COBALT_DEBUGGED;

	if ((atomic_load_acquire(&state->owner) & ~COBALT_TRANSIENT) != self->handle)
		return EPERM;
	if (mutex->count > 1) {
		mutex->count--;
		return 0;
	}
	if (mutex->attr.protocol == PTHREAD_PRIO_PROTECT &&
	    !(state->flags & COBALT_MUTEX_SIGNALLED) &&
	    !(atomic_load_relaxed(&self->window->state) & mode) &&
	    atomic_compare_exchange(&state->owner, self->handle, 0)) {
		self->window->ceiling = 0;
		return 0;
	}
	while (syscall(COBALT_MUTEX_UNLOCK, mutex))
		if (errno != EINTR)
			return errno;
	return 0;
}

/* --- condition variables --- */

int cobalt_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
	const uint32_t plain = 0; /* clock and sharing */

	(void)attr;
	if (!syscall(COBALT_COND_INIT, cond, &plain))
		return 0;
	if (errno != EBUSY || syscall(COBALT_COND_DESTROY, cond) ||
	    syscall(COBALT_COND_INIT, cond, &plain))
		return errno;
	return 0;
}

int cobalt_pthread_cond_destroy(pthread_cond_t *cond)
{
	return syscall(COBALT_COND_DESTROY, cond) ? errno : 0;
}

int cobalt_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	struct cobalt_mutex *m = (struct cobalt_mutex *)(void *)mutex;
	uint32_t count = m->count;
	int result = 0, err;

	err = syscall(COBALT_COND_WAIT_PROLOGUE, cond, mutex, &result, 0, NULL) ? errno : 0;
	while (err == EINTR)
		err = syscall(COBALT_COND_WAIT_EPILOGUE, cond, mutex) ? errno : 0;
	m->count = count;
	return err ?: -result;
}

/* --- message queues --- */

mqd_t cobalt_mq_open(const char *name, int flags, mode_t mode, const struct mq_attr *attr)
{
	return (mqd_t)syscall(COBALT_MQ_OPEN, name, flags, mode, attr);
}

int cobalt_mq_close(mqd_t queue)
{
	return (int)syscall(COBALT_MQ_CLOSE, queue);
}

int cobalt_mq_unlink(const char *name)
{
	return (int)syscall(COBALT_MQ_UNLINK, name);
}

ssize_t cobalt_mq_timedreceive(mqd_t queue, char *message, size_t size, unsigned int *priority,
			       const struct timespec *until)
{
	ssize_t got = (ssize_t)size;

	return syscall(COBALT_MQ_TIMEDRECEIVE, queue, message, &got, priority, until) ? -1 : got;
}

/* --- scheduling --- */

int cobalt_sched_rr_get_interval(pid_t tid, struct timespec *slice)
{
	struct {
		int32_t priority, unused;
		int64_t sec, nsec;
		int32_t more[8];
	} param;
	int policy;

	_Static_assert(sizeof(param) == sizeof(struct cobalt_priority), "as the core has it");
	if (syscall(COBALT_THREAD_GETSCHEDPARAM, tid, &policy, &param) || policy != SCHED_RR)
		return -1;
	slice->tv_sec = (time_t)param.sec;
	slice->tv_nsec = (long)param.nsec;
	return 0;
}

int cobalt_getrusage(int of, struct rusage *usage)
{
	struct cobalt_stat stat;

	(void)of;
	if (syscall(COBALT_THREAD_GETSTAT, 0, &stat))
		return -1;
	memset(usage, 0, sizeof(*usage));
	usage->ru_nvcsw = usage->ru_nivcsw = (long)stat.context_switches;
	usage->ru_minflt = (long)stat.faults;
	return 0;
}

bool cobalt_waits(pid_t tid)
{
	struct cobalt_stat stat;

	return !syscall(COBALT_THREAD_GETSTAT, tid, &stat) &&
	       (stat.state & (COBALT_PENDING | COBALT_DELAYED));
}

/* --- words --- */

/* A word that a task has waited for. Words stay here, because the core has no futex, and few
 * objects. */
struct cobalt_word {
	const uint32_t *word;
	uint32_t waiters; /* not yet woken */
	sem_t sem;
};

/* Only where a core is used, because all memory of the agent is locked. */
static struct cobalt_words {
	uint32_t places[COBALT_WORDS]; /* number of the word plus one, or 0; by its address */
	uint32_t count;
	struct cobalt_word words[COBALT_WORDS / 2];
} * cobalt_words;

int cobalt_words_prepare(void)
{
	if (!cobalt_words)
		cobalt_words = calloc(1, sizeof(*cobalt_words));
	return cobalt_words ? 0 : -ENOMEM;
}

/* The entry of a word. If the word has no entry: a new one with @add, else NULL. */
static struct cobalt_word *cobalt_word(const uint32_t *word, bool add)
{
	uint32_t place = (uint32_t)((uintptr_t)word >> 2) * 2654435761U >> 22;
	struct cobalt_words *all = cobalt_words;
	struct cobalt_word *mine = NULL;
	uint32_t number = 0;

	for (;; place = (place + 1) % COBALT_WORDS) {
		uint32_t seen = atomic_load_acquire(&all->places[place]);

		if (seen && all->words[seen - 1].word == word)
			break;
		if (seen)
			continue;
		if (!add)
			return NULL;
		if (!mine) {
			number = atomic_fetch_add(&all->count, 1);
			if (number >= COBALT_WORDS / 2)
				return NULL;
			mine = &all->words[number];
			if (cobalt_sem_init(&mine->sem, 0, 0))
				return NULL;
			mine->word = word;
		}
		if (atomic_compare_exchange(&all->places[place], 0, number + 1))
			return mine;
		/* check again what another task has stored there */
		place += COBALT_WORDS - 1;
	}
	if (mine)
		cobalt_sem_destroy(&mine->sem);
	return &all->words[atomic_load_acquire(&all->places[place]) - 1];
}

/* It no longer waits. A wake-up that came is consumed. */
static void cobalt_word_forgo(struct cobalt_word *entry)
{
	uint32_t waiters;

	do {
		waiters = atomic_load_acquire(&entry->waiters);
		if (!waiters) {
			while (cobalt_sem_wait(&entry->sem) && errno == EINTR)
				;
			return;
		}
	} while (!atomic_compare_exchange(&entry->waiters, waiters, waiters - 1));
}

void cobalt_word_wait(uint32_t *word, uint32_t seen, int64_t timeout_ns)
{
	const struct timespec look = clock_from_ns(COBALT_LOOK_NS);
	struct cobalt_word *entry = cobalt_word(word, true);
	struct timespec until;
	int err;

	if (!entry) {
		cobalt_nanosleep(&look, NULL);
		return;
	}
	atomic_add_release(&entry->waiters, 1);
	if (atomic_load_acquire(word) != seen) {
		cobalt_word_forgo(entry);
		return;
	}
	if (timeout_ns) {
		until = clock_from_ns(clock_now_ns(CLOCK_REALTIME) + timeout_ns);
		err = cobalt_sem_timedwait(&entry->sem, &until);
	} else {
		err = cobalt_sem_wait(&entry->sem);
	}
	if (err)
		cobalt_word_forgo(entry);
}

void cobalt_word_wake(const uint32_t *word)
{
	struct cobalt_word *entry = cobalt_word(word, false);

	for (uint32_t left = entry ? atomic_exchange(&entry->waiters, 0) : 0; left; left--)
		cobalt_sem_post(&entry->sem);
}
#endif
