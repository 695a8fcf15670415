// SPDX-License-Identifier: Apache-2.0
/*
 * What runs in the first process of a load, its leader: the load itself or, with a schedule or a
 * count, the starts and ends of its phases.
 */
#include "loads/set.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"

#define TURN_NS (10 * NSEC_PER_MSEC) /* how often work is counted for a turn */
#define FILES_MAX 65536
#define TIMER_SLACK_NS 50000UL /* the kernel's default */

/* --- for loads --- */

volatile unsigned long *load_counter(struct load_worker *worker, unsigned int number)
{
	if (number >= LOAD_COUNTERS_MAX)
		abort();
	if (number >= worker->shared->counters)
		worker->shared->counters = number + 1;
	return &worker->shared->counter[number].value;
}

const struct cpulist *load_cpus(const struct load_worker *worker)
{
	return worker->cpus;
}

void load_ready(struct load_worker *worker)
{
	atomic_store_release(&worker->shared->ready, 1);
}

void load_absent(struct load_worker *worker)
{
	atomic_store_release(&worker->shared->absent, 1);
	load_ready(worker);
	for (;;)
		pause();
}

/* --- the process --- */

/* Standard streams to nowhere, all others closed: the end of a pipe must not wait for a load. */
static int leave_files(void)
{
	int null = open("/dev/null", O_RDWR);
	long max;

	if (null < 0)
		return -errno;
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fd != null && dup2(null, fd) < 0)
			return -errno;
#ifdef SYS_close_range
	if (!syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0))
		return 0;
#endif
	max = sysconf(_SC_OPEN_MAX);
	/* the limit may be 10^9 in a container, which would take minutes */
	for (int fd = STDERR_FILENO + 1; fd < max && fd < FILES_MAX; fd++)
		close(fd);
	return 0;
}

static void leave_signals(void)
{
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL); /* fails for KILL, STOP and the C library's own */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* An ordinary process, the first to go when memory runs out. -EPERM: a policy that it may not
 * leave. A nice value that it may not leave is recorded. */
static int leave_priorities(struct shared *shared)
{
	const int priority = 0; /* a struct sched_param has this one member */
	int fd = open("/proc/self/oom_score_adj", O_WRONLY);

	if (fd >= 0) {
		if (write(fd, "1000", 4) < 0) {
			/* not permitted: the kernel's own choice remains */
		}
		close(fd);
	}
	/* The system call, because musl's function does nothing but fail. */
	syscall(SYS_sched_setscheduler, 0, 0 /* SCHED_OTHER */, &priority);
	setpriority(PRIO_PROCESS, 0, 0);
	prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
	shared->nice = getpriority(PRIO_PROCESS, 0);
	return syscall(SYS_sched_getscheduler, 0) > 0 ? -EPERM : 0;
}

#define LATE_PHASES 10

static int refuse_late(struct message *msg)
{
	return message_set(msg, -ETIMEDOUT, "reduce the load", "it was not ready after %lld s",
			   (long long)(LOAD_READY_NS / NSEC_PER_SEC));
}

/* Run the load until it ends. */
static int run_load(struct load_worker *worker)
{
	return worker->load->run(worker, &worker->options, &worker->shared->msg);
}

/* Whether the load is to work at @ns of its schedule, and in @change_ns when it is next to be
 * started or stopped. */
static bool scheduled_at(const struct load_worker *worker, int64_t ns, int64_t *change_ns)
{
	int64_t restart_ns = option_number(&worker->options, "restart");
	int64_t cycle_ns = option_number(&worker->options, "cycle");
	int64_t until_ns = option_number(&worker->options, "until");
	int64_t begin_ns = 0;
	int64_t end_ns = INT64_MAX;

	if (cycle_ns) {
		int64_t cycle_begin_ns = ns - ns % cycle_ns;

		begin_ns = cycle_begin_ns + option_number(&worker->options, "from");
		end_ns = cycle_begin_ns + (until_ns ? until_ns : cycle_ns);
		if (ns < begin_ns || ns >= end_ns) {
			*change_ns = ns < begin_ns ? begin_ns : begin_ns + cycle_ns;
			return false;
		}
	}
	*change_ns = end_ns;
	if (restart_ns && end_ns - ns > restart_ns - (ns - begin_ns) % restart_ns)
		*change_ns = ns + restart_ns - (ns - begin_ns) % restart_ns;
	return true;
}

/* Start the sub-leader, which is the load as long as the phase lasts. */
static int start_phase(struct load_worker *worker, pid_t *pid, struct message *msg)
{
	sigset_t none;

	*pid = load_fork();
	if (!*pid) {
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		_exit(-run_load(worker));
	}
	if (*pid > 0)
		return 0;
	*pid = 0;
	return message_set(msg, -errno, LOAD_MORE_PROCESSES, "cannot restart it: %s",
			   strerror(errno));
}

static int end_phase(struct load_worker *worker, pid_t *pid, struct message *msg)
{
	atomic_store_release(&worker->shared->ready, 0);
	kill(*pid, SIGKILL);
	*pid = 0;
	return load_end_children() ?
		       message_set(msg, -ETIMEDOUT, "see what they wait for in /proc/PID/stack",
				   "some of its processes could not be ended") :
		       0;
}

/* Wait for @ns, or until a child has ended: an error if it is @pid. */
static int watch_phase(pid_t pid, int64_t ns, struct message *msg)
{
	struct timespec ts = clock_from_ns(ns);
	siginfo_t info;
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigtimedwait(&child, NULL, &ts);
	for (;;) {
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) || !info.si_pid)
			return 0;
		if (info.si_pid == pid)
			return load_describe_end(NULL, &info, msg);
	}
}

/* Until @until_ns, and until what was started is ready. A load that is not ready before the ends of
 * LATE_PHASES in turn does not work at all. @until_ns 0: its end is not a time. */
static int keep_phase(struct load_worker *worker, pid_t pid, int64_t until_ns, struct message *msg)
{
	int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	int64_t late_ns = now_ns + LOAD_READY_NS;
	bool late = false;
	int err = 0;

	for (; !err; now_ns = clock_now_ns(CLOCK_MONOTONIC)) {
		bool starts = pid && !atomic_load_acquire(&worker->shared->ready);

		if (starts && now_ns > late_ns)
			return refuse_late(msg);
		late |= starts && until_ns && now_ns >= until_ns;
		if (now_ns >= until_ns && !starts) {
			if (pid)
				worker->late_phases = late ? worker->late_phases + 1 : 0;
			if (worker->late_phases < LATE_PHASES)
				return 0;
			return message_set(msg, -ETIMEDOUT, "give it longer phases",
					   "%d phases in a row ended before it was ready",
					   LATE_PHASES);
		}
		err = watch_phase(pid, starts ? LOAD_POLL_NS : until_ns - now_ns, msg);
		if (starts)
			late_ns += load_stalled_ns(now_ns, clock_now_ns(CLOCK_MONOTONIC));
	}
	return err;
}

uint64_t load_count_work(struct load_worker *worker)
{
	uint64_t work = 0;

	for (uint32_t i = 0; i < worker->counters; i++) {
		unsigned long now = worker->shared->counter[i].value;

		work += now - worker->seen[i];
		worker->seen[i] = now;
	}
	return work;
}

/* One turn: until the count is done, then the pause; and the next load's turn begins. */
static int take_turn(struct load_worker *worker, pid_t *pid, struct message *msg)
{
	uint64_t count = (uint64_t)option_number(&worker->options, "count");
	uint64_t done = 0;
	int err = *pid ? 0 : start_phase(worker, pid, msg);

	if (!err)
		err = keep_phase(worker, *pid, 0, msg);
	load_count_work(worker);
	while (!err && done < count) {
		err = watch_phase(*pid, TURN_NS, msg);
		done += load_count_work(worker);
	}
	if (!err)
		err = end_phase(worker, pid, msg);
	if (!err)
		err = keep_phase(worker, 0,
				 clock_now_ns(CLOCK_MONOTONIC) +
					 option_number(&worker->options, "rest"),
				 msg);
	if (!err)
		atomic_store_release(worker->turn, *worker->turn + 1);
	return err;
}

/* The leader of a load that takes turns with others. */
static int alternate(struct load_worker *worker, pid_t *pid, struct message *msg)
{
	int err = 0;

	worker->counters = worker->shared->counters;
	worker->seen = calloc(worker->counters, sizeof(*worker->seen));
	if (!worker->seen)
		err = load_out_of_memory(msg);
	while (!err) {
		if (atomic_load_acquire(worker->turn) % worker->turns == worker->place)
			err = take_turn(worker, pid, msg);
		else if (*pid)
			err = end_phase(worker, pid, msg);
		else
			err = watch_phase(0, TURN_NS, msg);
	}
	return err;
}

/* The leader of a load with a schedule. First all is started once, so that what cannot run is found
 * before anything is measured; the schedule begins when all loads of the set are ready. */
static int supervise(struct load_worker *worker, struct message *msg)
{
	struct shared *shared = worker->shared;
	bool first = true;
	int64_t change_ns;
	sigset_t child;
	pid_t pid;
	int err;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	err = start_phase(worker, &pid, msg);
	while (!err && !atomic_load_acquire(&shared->begun))
		err = watch_phase(pid, LOAD_POLL_NS, msg);
	if (!err && worker->turn)
		err = alternate(worker, &pid, msg);
	for (; !err; first = false) {
		bool works = scheduled_at(worker, clock_now_ns(CLOCK_MONOTONIC) - shared->origin_ns,
					  &change_ns);

		if (pid && !(works && first))
			err = end_phase(worker, &pid, msg);
		if (!err && works && !pid)
			err = start_phase(worker, &pid, msg);
		if (!err)
			err = keep_phase(worker, pid, shared->origin_ns + change_ns, msg);
	}
	return err;
}

void __attribute__((noreturn))
load_lead(struct load_worker *worker, pid_t agent, void (*forked)(void *arg), void *arg)
{
	struct message *msg = &worker->shared->msg;
	struct cpulist given;
	char name[16];
	int err;

	setpgid(0, 0);
	load_die_with(agent);
	if (forked)
		forked(arg);
	leave_signals();
	err = leave_files();
	if (err) {
		message_set(msg, err, "mount devtmpfs on /dev", "cannot open /dev/null: %s",
			    strerror(-err));
		_exit(-err);
	}
	if (leave_priorities(worker->shared)) {
		message_set(msg, -EPERM, "start the agent without chrt, or as root",
			    "not permitted to run as an ordinary process");
		_exit(EPERM);
	}
	snprintf(name, sizeof(name), "load/%s", worker->load->name);
	prctl(PR_SET_NAME, name);
	err = cpulist_apply(worker->cpus, 0);
	/* a cpuset takes others away without an error */
	if (!err && (cpulist_allowed(&given) || memcmp(&given, worker->cpus, sizeof(given))))
		err = -EINVAL;
	if (err)
		message_set(msg, err, "give other CPUs with --load-cpu",
			    "cannot run on the CPUs of the load: %s", strerror(-err));
	else
		err = option_number(&worker->options, "restart") || worker->turn ||
				      option_number(&worker->options, "cycle") ?
			      supervise(worker, msg) :
			      run_load(worker);
	_exit(err < 0 ? -err : 0);
}
