// SPDX-License-Identifier: Apache-2.0
/*
 * Measuring threads: each is pinned, given its priority, has its stack touched, and waits at a
 * gate, so that all of them start together and what took effect is known before the first sample.
 */
#include "worker.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "run.h"

/* Enough for a measuring loop and the C library below it; all of it is locked. The thread
 * sanitizer keeps state of its own there. */
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define WORKER_STACK (4 * 1024 * 1024)
#else
#define WORKER_STACK (96 * 1024)
#endif
#define WORKER_STACK_TOUCHED (64 * 1024)

static void worker_futex_wait(uint32_t *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void worker_futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

const char *worker_policy_name(int policy)
{
	switch (policy & ~SCHED_RESET_ON_FORK) {
	case SCHED_FIFO:
		return "fifo";
	case SCHED_RR:
		return "rr";
	case SCHED_OTHER:
		return "other";
	case SCHED_BATCH:
		return "batch";
	case SCHED_IDLE:
		return "idle";
	case 6:
		return "deadline";
	}
	return "unknown";
}

/* The policy and priority of a thread as the kernel has them. The system calls themselves: some C
 * libraries only have stubs for a thread's own scheduling. */
void worker_read_policy(pid_t tid, const char **policy, int *priority)
{
	struct sched_param param = { 0 };

	*policy = worker_policy_name((int)syscall(SYS_sched_getscheduler, tid));
	*priority = syscall(SYS_sched_getparam, tid, &param) ? 0 : param.sched_priority;
}

/* Touch the stack that the loop will use, so that it does not fault later. */
static __attribute__((noinline)) void worker_touch_stack(void)
{
	volatile char touched[WORKER_STACK_TOUCHED];

	for (size_t i = 0; i < sizeof(touched); i += 1024)
		touched[i] = 1;
	(void)touched[0];
}

static void *worker_main(void *arg)
{
	struct worker *worker = arg;
	struct run *run = worker->run;
	struct sched_param param = { .sched_priority = worker->priority };

	worker->tid = (pid_t)syscall(SYS_gettid);
	prctl(PR_SET_NAME, "rtgauge-measure");
	/* without real-time priority the kernel would round the due times by 50 us */
	prctl(PR_SET_TIMERSLACK, 1UL);
	if (worker->cpu >= 0) {
		struct cpulist one = { { 0 } };

		cpulist_add(&one, worker->cpu);
		cpulist_apply(&one, 0);
	}
	if (worker->priority > 0)
		syscall(SYS_sched_setscheduler, worker->tid, SCHED_FIFO, &param);
	worker_read_policy(worker->tid, &worker->policy, &worker->effective_priority);
	worker_touch_stack();

	__atomic_add_fetch(&run->ready, 1, __ATOMIC_RELEASE);
	worker_futex_wake(&run->ready);
	while (!atomic_load_acquire(&run->go))
		worker_futex_wait(&run->go, 0);
	if (!run_stopped(run))
		worker->loop(worker);
	atomic_store_release(&worker->done, 1);
	eventfd_write(run->ended_fd, 1);
	return NULL;
}

int workers_start(struct run *run)
{
	sigset_t all, before;
	int err = 0;
	uint32_t ready;

	/* signals go to the main thread, but for the one that ends a wait */
	sigfillset(&all);
	sigdelset(&all, WORKER_WAKE_SIGNAL);
	sigdelset(&all, SIGXCPU);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	for (int i = 0; i < run->worker_count && !err; i++) {
		struct worker *worker = &run->workers[i];
		pthread_attr_t attr;

		worker->stack = mmap(NULL, WORKER_STACK, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
		if (worker->stack == MAP_FAILED) {
			worker->stack = NULL;
			err = errno;
			break;
		}
		pthread_attr_init(&attr);
		pthread_attr_setstack(&attr, worker->stack, WORKER_STACK);
		err = pthread_create(&worker->thread, &attr, worker_main, worker);
		pthread_attr_destroy(&attr);
		worker->created = !err;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		return message_set(
			&run->msg, -err,
			"measure with fewer threads, or raise the limit of locked memory (ulimit -l)",
			"cannot start %d measuring threads: %s", run->worker_count, strerror(err));
	while ((ready = atomic_load_acquire(&run->ready)) < (uint32_t)run->worker_count)
		worker_futex_wait(&run->ready, ready);
	return 0;
}

void workers_open_gate(struct run *run)
{
	atomic_store_release(&run->go, 1);
	worker_futex_wake(&run->go);
}

bool workers_done(const struct run *run)
{
	for (int i = 0; i < run->worker_count; i++)
		if (!atomic_load_acquire(&run->workers[i].done))
			return false;
	return true;
}

void workers_wake(struct run *run)
{
	for (int i = 0; i < run->worker_count; i++)
		if (run->workers[i].created && !atomic_load_acquire(&run->workers[i].done))
			pthread_kill(run->workers[i].thread, WORKER_WAKE_SIGNAL);
}

void workers_join(struct run *run)
{
	for (int i = 0; i < run->worker_count; i++) {
		struct worker *worker = &run->workers[i];

		if (worker->created)
			pthread_join(worker->thread, NULL);
		worker->created = false;
		if (worker->stack)
			munmap(worker->stack, WORKER_STACK);
		worker->stack = NULL;
	}
}

bool worker_is_pinned(const struct worker *worker)
{
	unsigned long bits[CPULIST_MAX / (8 * sizeof(unsigned long))] = { 0 };
	struct cpulist now;
	long size = syscall(SYS_sched_getaffinity, worker->tid, sizeof(bits), bits);

	if (size < 0)
		return true; /* it has just ended */
	memcpy(now.bits, bits, sizeof(now.bits));
	return cpulist_count(&now) == 1 && cpulist_has(&now, worker->cpu);
}
