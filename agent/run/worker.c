// SPDX-License-Identifier: Apache-2.0
/*
 * Measuring threads: each is pinned, gets its priority, touches its stack, and waits at a gate. So
 * all of them start together, and the settings in effect are known before the first sample. A
 * process does the same for what exists once in each process. It is forked before any thread
 * starts.
 */
#include "run/worker.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/signals.h"
#include "core/core.h"
#include "loads/load.h"
#include "run/run.h"

/* Enough for a measuring loop and the C library below it; all of it is locked. The thread
 * sanitizer keeps state of its own there. */
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define WORKER_STACK (4 * 1024 * 1024)
#define WORKER_STACK_SMALL WORKER_STACK
#else
#define WORKER_STACK (96 * 1024)
#define WORKER_STACK_SMALL (32 * 1024)
#endif
#define WORKER_STACK_TOUCHED (64 * 1024)

/* Some architectures have a min size above that (128 KiB with glibc on arm64). */
static size_t worker_stack_at_least(long size)
{
	long least = sysconf(_SC_THREAD_STACK_MIN);

	return (size_t)(least > size ? least : size);
}

static size_t worker_stack_size(void)
{
	return worker_stack_at_least(WORKER_STACK);
}

size_t worker_small_stack_size(void)
{
	return worker_stack_at_least(WORKER_STACK_SMALL);
}

size_t workers_stacks_size(const struct run *run)
{
	return (size_t)run->step.worker_count * worker_stack_size() + run->step.stacks;
}

bool worker_look(const struct worker *worker, struct worker_placement *found)
{
	struct core_task task;

	if (!worker->step->core->look(worker->tid, &task))
		return false;
	found->policy = task.policy;
	found->priority = task.priority;
	found->strayed = worker->cpu >= 0 &&
			 (cpulist_count(&task.cpus) != 1 || !cpulist_has(&task.cpus, worker->cpu));
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

static const struct core *worker_core(const struct worker *worker)
{
	return worker->plain ? &core_linux : worker->step->core;
}

static void worker_measure(struct worker *worker)
{
	const struct core *core = worker_core(worker);

	if (core->begin)
		core->begin(&worker->modes);
	worker->loop(worker);
	if (core->end)
		core->end(&worker->modes, step_stopped(worker->step));
}

static void *worker_main(void *arg)
{
	struct worker *worker = arg;
	struct run *run = run_of(worker->step);

	worker->tid = (pid_t)syscall(SYS_gettid);
	prctl(PR_SET_NAME, "rtgauge-measure");
	worker->outside = -worker_core(worker)->enter(worker->cpu, worker->priority);
	worker_touch_stack();
	if (worker->prepare && !worker->outside)
		worker->refused = worker->prepare(worker);
	worker_look(worker, &worker->start);

	atomic_add_release(&run->ready, 1);
	while (!atomic_load_acquire(&run->go))
		syscall(SYS_futex, &run->go, FUTEX_WAIT, 0, NULL, NULL, 0);
	if (!worker->refused && !worker->outside) {
		worker->starved = step_stopped(&run->step);
		if (!worker->starved)
			worker_measure(worker);
	}
	worker->ended_ns = clock_now_ns(CLOCK_MONOTONIC);
	worker_look(worker, &worker->end);
	atomic_store_release(&worker->done, 1);
	eventfd_write(run->ended_fd, 1);
	return NULL;
}

/* The life of a measuring process; locks on memory do not come through fork(). */
static void __attribute__((noreturn)) worker_live(struct worker *worker, void (*forked)(void *run))
{
	struct run *run = run_of(worker->step);

	signal(SIGXCPU, SIG_DFL);
	forked(run);
	if (!run->step.memory_unlocked && mlockall(MCL_CURRENT | MCL_FUTURE))
		run->step.memory_unlocked = errno;
	for (int i = 0; i < run->step.series_count; i++)
		if (run->step.series[i].info.thread == worker->number)
			series_touch(&run->step.series[i]);
	worker_main(worker);
	/* until it is reaped: ending takes time, at this priority, while others still measure */
	for (;;)
		pause();
}

/* All in one process group, that of the first, so that the guardian can end them as one. */
static int worker_fork(struct worker *worker, void (*forked)(void *run), pid_t *group)
{
	struct run *run = run_of(worker->step);
	pid_t pid = load_fork();

	if (!pid)
		worker_live(worker, forked);
	if (pid < 0)
		return -errno;
	worker->tid = pid;
	worker->created = true;
	setpgid(pid, *group);
	if (*group)
		return 0;
	*group = pid;
	if (run->step.settings)
		settings_guard_group(run->step.settings, pid);
	return 0;
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

/* Processes first: what is forked from several threads has the locks of all of them. */
static int workers_create(struct run *run, void (*forked)(void *run), uint32_t *created)
{
	pid_t group = 0;
	int err = 0;

	for (int i = 0; i < run->step.worker_count && !err; i++) {
		if (!run->step.workers[i].process)
			continue;
		err = worker_fork(&run->step.workers[i], forked, &group);
		*created += !err;
	}
	for (int i = 0; i < run->step.worker_count && !err; i++) {
		if (run->step.workers[i].process || run->step.workers[i].foreign)
			continue;
		err = worker_create(&run->step.workers[i]);
		*created += !err;
	}
	return err;
}

/* Until @created workers are at the gate, or a process of them has died before it. Not by a futex:
 * its timeout is another struct where C library and kernel differ on the size of time. */
static int workers_await(struct run *run, uint32_t created)
{
	const struct timespec look = { .tv_nsec = NSEC_PER_MSEC };

	while (atomic_load_acquire(&run->ready) < created) {
		int err = workers_check(run, &run->step.msg);

		if (err)
			return err;
		nanosleep(&look, NULL);
	}
	return 0;
}

/* Threads of the kernel get their priority here, and it is read back. */
static void workers_place_foreign(struct run *run)
{
	for (int i = 0; i < run->step.worker_count; i++) {
		struct worker *worker = &run->step.workers[i];

		if (!worker->foreign || !worker->tid)
			continue;
		run->step.core->place(worker->tid, worker->priority);
		worker_look(worker, &worker->start);
	}
}

static int workers_verify(struct run *run)
{
	for (int i = 0; i < run->step.worker_count; i++) {
		const struct worker *worker = &run->step.workers[i];
		int err = 0;

		if (worker->start.strayed)
			return message_set(&run->step.msg, -ENODEV,
					   "keep the CPUs online, and in the cpuset of the caller",
					   "cannot bind a measuring thread to CPU %d", worker->cpu);
		if (worker->outside)
			return message_set(
				&run->step.msg, -worker->outside,
				"check the kernel's messages, or give --core linux",
				"cannot make a measuring thread a task of the %s core: %s",
				run->step.core->title, strerror(worker->outside));
		if (worker->refused)
			err = run->step.measurement->refused(&run->step, worker);
		if (err)
			return err;
	}
	return 0;
}

int workers_start(struct run *run, void (*forked)(void *run))
{
	sigset_t mask, before;
	uint32_t created = 0;
	int err;

	/* signals go to the main thread, but for the one that ends a wait */
	sigfillset(&mask);
	sigdelset(&mask, SIGNAL_WAKE);
	sigdelset(&mask, SIGXCPU);
	pthread_sigmask(SIG_SETMASK, &mask, &before);
	err = workers_create(run, forked, &created);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		message_set(
			&run->step.msg, err,
			"measure with fewer threads, or raise the limits (ulimit -u, ulimit -l, "
			"pids.max of the control group)",
			"cannot start %d measuring thread%s: %s", run->step.worker_count,
			run->step.worker_count == 1 ? "" : "s", strerror(-err));
	/* also those that were started before one that could not be */
	if (!err || created)
		err = workers_await(run, created) ?: err;
	if (!err)
		workers_place_foreign(run);
	return err ?: workers_verify(run);
}

void workers_open_gate(struct run *run)
{
	atomic_store_release(&run->go, 1);
	/* not the private kind: processes wait for this word, too */
	syscall(SYS_futex, &run->go, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

bool workers_done(const struct run *run)
{
	for (int i = 0; i < run->step.worker_count; i++)
		if (!atomic_load_acquire(&run->step.workers[i].done))
			return false;
	return true;
}

int64_t workers_ended_ns(const struct run *run)
{
	int64_t last_ns = 0;

	for (int i = 0; i < run->step.worker_count; i++)
		if (run->step.workers[i].ended_ns > last_ns)
			last_ns = run->step.workers[i].ended_ns;
	return last_ns;
}

int workers_check(struct run *run, struct message *msg)
{
	int result = 0;

	for (int i = 0; i < run->step.worker_count; i++) {
		struct worker *worker = &run->step.workers[i];
		siginfo_t info = { 0 };

		if (!worker->process || !worker->created || atomic_load_acquire(&worker->done))
			continue;
		/* not reaped here: its number stays taken as long as it may be signalled */
		if (waitid(P_PID, (id_t)worker->tid, &info, WEXITED | WNOHANG | WNOWAIT) ||
		    !info.si_pid || atomic_load_acquire(&worker->done))
			continue;
		worker->changed = true; /* there is nothing left to look at */
		atomic_store_release(&worker->done, 1);
		result = message_set(
			msg, -EIO,
			info.si_status == SIGXCPU ?
				"it never slept: use a longer interval or a lower priority" :
				"find out what ended it, and run again",
			"the measuring process of CPU %d was ended by signal %d", worker->cpu,
			info.si_status);
	}
	return result;
}

void workers_wake(struct run *run)
{
	for (int i = 0; i < run->step.worker_count; i++) {
		struct worker *worker = &run->step.workers[i];

		if (!worker->created || atomic_load_acquire(&worker->done))
			continue;
		if (!worker->process) {
			pthread_kill(worker->thread, SIGNAL_WAKE);
			continue;
		}
		kill(worker->tid, SIGNAL_WAKE);
		kill(worker->tid, SIGCONT); /* somebody may have stopped it alone */
	}
}

/* It is done, or has nothing to do. */
static void worker_reap(struct worker *worker)
{
	kill(worker->tid, SIGKILL);
	while (waitpid(worker->tid, NULL, 0) < 0 && errno == EINTR)
		;
}

void workers_join(struct run *run)
{
	pid_t group = 0;

	for (int i = 0; i < run->step.worker_count; i++) {
		struct worker *worker = &run->step.workers[i];

		if (worker->created && worker->process) {
			group = group ? group : worker->tid;
			worker_reap(worker);
		} else if (worker->created) {
			pthread_join(worker->thread, NULL);
		}
		worker->created = false;
		if (worker->stack)
			munmap(worker->stack, worker_stack_size());
		worker->stack = NULL;
	}
	if (group && run->step.settings)
		settings_release_group(run->step.settings, group);
}
