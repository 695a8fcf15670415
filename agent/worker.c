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

/* Some architectures have a least size above that (128 KiB with glibc on arm64). */
static size_t worker_stack_size(void)
{
	long least = sysconf(_SC_THREAD_STACK_MIN);

	return least > WORKER_STACK ? (size_t)least : WORKER_STACK;
}

size_t workers_stacks_size(const struct run *run)
{
	return (size_t)run->worker_count * worker_stack_size();
}

static void worker_futex_wait(uint32_t *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void worker_futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static const char *worker_policy_name(int policy)
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

/* The system calls themselves: some C libraries only have stubs for a thread's own scheduling. */
bool worker_look(const struct worker *worker, struct worker_placement *found)
{
	struct sched_param param;
	struct cpulist cpus = { { 0 } };
	int policy = (int)syscall(SYS_sched_getscheduler, worker->tid);

	if (policy < 0 || syscall(SYS_sched_getparam, worker->tid, &param) ||
	    syscall(SYS_sched_getaffinity, worker->tid, sizeof(cpus.bits), cpus.bits) < 0)
		return false;
	found->policy = worker_policy_name(policy);
	found->priority = param.sched_priority;
	found->strayed = worker->cpu >= 0 &&
			 (cpulist_count(&cpus) != 1 || !cpulist_has(&cpus, worker->cpu));
	return true;
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
	worker_look(worker, &worker->start);
	worker_touch_stack();

	atomic_add_release(&run->ready, 1);
	worker_futex_wake(&run->ready);
	while (!atomic_load_acquire(&run->go))
		worker_futex_wait(&run->go, 0);
	if (!run_stopped(run))
		worker->loop(worker);
	worker_look(worker, &worker->end);
	atomic_store_release(&worker->done, 1);
	eventfd_write(run->ended_fd, 1);
	return NULL;
}

static int worker_create(struct worker *worker)
{
	size_t size = worker_stack_size();
	pthread_attr_t attr;
	int err;

	worker->stack = mmap(NULL, size, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (worker->stack == MAP_FAILED) {
		worker->stack = NULL;
		return -errno;
	}
	pthread_attr_init(&attr);
	err = pthread_attr_setstack(&attr, worker->stack, size);
	if (!err)
		err = pthread_create(&worker->thread, &attr, worker_main, worker);
	pthread_attr_destroy(&attr);
	worker->created = !err;
	return -err;
}

int workers_start(struct run *run)
{
	sigset_t mask, before;
	uint32_t ready, created = 0;
	int err = 0;

	/* signals go to the main thread, but for the one that ends a wait */
	sigfillset(&mask);
	sigdelset(&mask, WORKER_WAKE_SIGNAL);
	sigdelset(&mask, SIGXCPU);
	pthread_sigmask(SIG_SETMASK, &mask, &before);
	for (int i = 0; i < run->worker_count && !err; i++) {
		err = worker_create(&run->workers[i]);
		created += !err;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	while ((ready = atomic_load_acquire(&run->ready)) < created)
		worker_futex_wait(&run->ready, ready);
	if (err)
		return message_set(
			&run->msg, err,
			"measure with fewer threads, or raise the limits (ulimit -u, ulimit -l)",
			"cannot start %d measuring threads: %s", run->worker_count, strerror(-err));
	for (int i = 0; i < run->worker_count; i++)
		if (run->workers[i].start.strayed)
			return message_set(&run->msg, -ENODEV,
					   "keep the CPUs online, and in the cpuset of the caller",
					   "cannot bind a measuring thread to CPU %d",
					   run->workers[i].cpu);
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
			munmap(worker->stack, worker_stack_size());
		worker->stack = NULL;
	}
}
