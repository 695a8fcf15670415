// SPDX-License-Identifier: Apache-2.0
/*
 * Loads as processes: starts, counts, watches and ends them. A leader and its processes form one
 * process group. The kernel kills each of them when its parent ends (PR_SET_PDEATHSIG), so loads
 * end with a killed agent. At an orderly end the agent kills the group. As its subreaper it waits
 * for every process of it, and for those that have left it.
 */
#include "loads/set.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"

#define STALL_NS (5 * NSEC_PER_SEC)
#define STALL_CHECKS 3 /* so that a pause of the whole machine does not count as a stall */

/* Has the leader ended? It is not reaped here: its number stays taken, so that the group can still
 * be killed without hitting a stranger. */
static bool has_ended(const struct load_worker *worker, siginfo_t *info)
{
	info->si_pid = 0;
	if (waitid(P_PID, (id_t)worker->pid, info, WEXITED | WNOHANG | WNOWAIT))
		return errno == ECHILD;
	return info->si_pid != 0;
}

/* The load's own message, else how its leader ended. */
static int report_end(struct load_worker *worker, const siginfo_t *info, struct message *msg)
{
	struct message *said = &worker->shared->msg;

	said->text[sizeof(said->text) - 1] = '\0';
	said->remedy[sizeof(said->remedy) - 1] = '\0';
	if (!said->text[0] || !info->si_pid)
		return load_describe_end(worker, info, msg);
	return message_set(msg,
			   info->si_code == CLD_EXITED && info->si_status ? -info->si_status : -EIO,
			   said->remedy, "load %.100s: %.300s", worker->label, said->text);
}

static int map_shared(struct load_worker *worker, struct message *msg)
{
	void *memory;

	worker->mapped = sizeof(struct shared);
	memory = mmap(NULL, worker->mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (memory == MAP_FAILED)
		return load_out_of_memory(msg);
	worker->shared = memory;
	return 0;
}

/* The loads with a count take turns by a number that they all see. */
static void share_turns(struct load_set *set)
{
	struct load_worker *first = NULL;
	uint32_t turns = 0;

	for (size_t i = 0; i < set->count; i++) {
		struct load_worker *worker = &set->workers[i];

		worker->turn = NULL;
		if (!option_number(&worker->options, "count") || !worker->shared)
			continue;
		first = first ? first : worker;
		worker->turn = &first->shared->turn;
		worker->place = turns++;
	}
	for (size_t i = 0; i < set->count; i++)
		set->workers[i].turns = turns;
}

/* Give back the counters that are not in use: the agent locks its memory. */
static int trim_shared(struct load_worker *worker, struct message *msg)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t used;

	worker->counters = worker->shared->counters;
	if (worker->counters > LOAD_COUNTERS_MAX)
		worker->counters = LOAD_COUNTERS_MAX;
	used = (size_t)((char *)&worker->shared->counter[worker->counters] -
			(char *)worker->shared);
	used = (used + page - 1) / page * page;
	if (used < worker->mapped && !munmap((char *)worker->shared + used, worker->mapped - used))
		worker->mapped = used;
	worker->seen = calloc(worker->counters ? worker->counters : 1, sizeof(*worker->seen));
	return worker->seen ? 0 : load_out_of_memory(msg);
}

/* Until @worker is ready, at most until @until_ns, which standstills since @seen_ns move. */
static int wait_ready(const struct load_set *set, struct load_worker *worker, int64_t *seen_ns,
		      int64_t *until_ns, struct message *msg)
{
	siginfo_t info;

	while (!atomic_load_acquire(&worker->shared->ready)) {
		int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

		*until_ns += load_stalled_ns(*seen_ns, now_ns);
		*seen_ns = now_ns;
		if (has_ended(worker, &info))
			return report_end(worker, &info, msg);
		if (now_ns > *until_ns)
			return message_set(msg, -ETIMEDOUT, "reduce the load",
					   "load %s was not ready after %lld s", worker->label,
					   (long long)(set->ready_ns / NSEC_PER_SEC));
		load_pause();
	}
	return trim_shared(worker, msg);
}

static int start_worker(struct load_worker *worker, void (*forked)(void *arg),
			void (*started)(void *arg, pid_t pgid), void *arg, struct message *msg)
{
	pid_t agent = getpid();
	int err;

	worker->pid = fork();
	if (!worker->pid)
		load_lead(worker, agent, forked, arg);
	if (worker->pid < 0) {
		err = -errno;
		worker->pid = 0;
		return message_set(msg, err, LOAD_MORE_PROCESSES, "cannot start load %s: %s",
				   worker->label, strerror(-err));
	}
	if (started)
		started(arg, worker->pid);
	return 0;
}

static int choose_cpus(struct load_set *set, const struct cpulist *cpus, struct message *msg)
{
	struct cpulist online;
	char list[64];
	char remedy[128];
	int err = cpus ? cpulist_online(&online) : cpulist_allowed(&set->cpus);

	if (err)
		return message_set(msg, err, "mount /proc and /sys",
				   "cannot determine the CPUs: %s", strerror(-err));
	if (!cpus)
		return 0;
	for (int cpu = cpulist_next(cpus, 0); cpu >= 0; cpu = cpulist_next(cpus, cpu + 1)) {
		if (cpulist_has(&online, cpu))
			continue;
		snprintf(remedy, sizeof(remedy), "use online CPUs: %s",
			 cpulist_format(&online, list, sizeof(list)));
		return message_set(msg, -EINVAL, remedy, "the load cannot run on CPU %d", cpu);
	}
	set->cpus = *cpus;
	return 0;
}

/* A set without any load is the idle system. */
static int refuse_all_absent(const struct load_set *set, struct message *msg)
{
	const struct load_worker *first = &set->workers[0];

	for (size_t i = 0; i < set->count; i++)
		if (!atomic_load_acquire(&set->workers[i].shared->absent))
			return 0;
	return message_set(msg, -ENODEV, first->shared->msg.remedy,
			   "none of the loads can run here. Load %.40s: %.150s", first->label,
			   first->shared->msg.text);
}

int load_set_start(struct load_set *set, const struct cpulist *cpus, void (*forked)(void *arg),
		   void (*started)(void *arg, pid_t pgid), void *arg, struct message *msg)
{
	int64_t seen_ns = clock_now_ns(CLOCK_MONOTONIC);
	int64_t until_ns = seen_ns + set->ready_ns;
	int64_t origin_ns;
	int err;

	if (!set->count)
		return 0;
	err = choose_cpus(set, cpus, msg);
	if (err)
		return err;
	signal(SIGCHLD, SIG_DFL); /* one that is ignored would hide how a load ended */
	set->other_count = load_find_children(set->others);
	prctl(PR_GET_CHILD_SUBREAPER, &set->was_subreaper);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (size_t i = 0; i < set->count && !err; i++)
		err = map_shared(&set->workers[i], msg);
	share_turns(set);
	for (size_t i = 0; i < set->count && !err; i++) {
		set->workers[i].cpus = &set->cpus;
		err = start_worker(&set->workers[i], forked, started, arg, msg);
	}
	for (size_t i = 0; i < set->count && !err; i++)
		err = wait_ready(set, &set->workers[i], &seen_ns, &until_ns, msg);
	if (!err)
		err = refuse_all_absent(set, msg);
	if (err) {
		load_set_stop(set);
		return err;
	}
	origin_ns = clock_now_ns(CLOCK_MONOTONIC);
	for (size_t i = 0; i < set->count; i++) {
		struct load_worker *worker = &set->workers[i];

		load_count_work(worker);
		worker->checked_ns = origin_ns;
		worker->reported_ns = origin_ns;
		worker->worked_ns = origin_ns;
		worker->idle_checks = 0;
		worker->shared->origin_ns = origin_ns;
		atomic_store_release(&worker->shared->begun, 1);
	}
	return 0;
}

static int check_worker(struct load_worker *worker, int64_t now_ns, uint64_t count,
			struct message *msg)
{
	siginfo_t info;

	if (has_ended(worker, &info)) {
		report_end(worker, &info, msg);
		return -EIO;
	}
	/* time between its phases is not time without work */
	if (!atomic_load_acquire(&worker->shared->ready) || worker->load->rests ||
	    atomic_load_acquire(&worker->shared->absent)) {
		worker->worked_ns += now_ns - worker->checked_ns;
		return 0;
	}
	if (count) {
		worker->worked_ns = now_ns;
		worker->idle_checks = 0;
		return 0;
	}
	worker->idle_checks++;
	if (now_ns - worker->worked_ns < STALL_NS || worker->idle_checks < STALL_CHECKS)
		return 0;
	return message_set(msg, -EIO,
			   worker->load->stalled ?: "give it a CPU with free time (--load-cpu)",
			   "load %s has made no progress for %lld s", worker->label,
			   (long long)((now_ns - worker->worked_ns) / NSEC_PER_SEC));
}

int load_set_check(struct load_set *set, int64_t now_ns,
		   void (*work)(void *arg, const char *load, const char *unit, uint64_t count,
				int64_t from_ns, int64_t to_ns),
		   void *arg, struct message *msg)
{
	int result = 0;

	for (size_t i = 0; i < set->count; i++) {
		struct load_worker *worker = &set->workers[i];
		uint64_t count;
		int err;

		if (!worker->pid)
			continue;
		count = load_count_work(worker);
		worker->unreported += count;
		if (work) {
			work(arg, worker->label, worker->load->unit, worker->unreported,
			     worker->reported_ns, now_ns);
			worker->reported_ns = now_ns;
			worker->unreported = 0;
		}
		err = check_worker(worker, now_ns, count, msg);
		worker->checked_ns = now_ns;
		if (err && !result)
			result = err;
	}
	return result;
}

/* Wait for the process @which, or for every process of the group -@which that is, or becomes, a child
 * of the agent. A process stops being a child only after its own children have become ours:
 * nothing slips through. */
static int reap(pid_t which, int64_t until_ns)
{
	for (;;) {
		pid_t pid = waitpid(which, NULL, WNOHANG);

		if (pid < 0 && errno == ECHILD)
			return 0;
		if (pid > 0 || (pid < 0 && errno == EINTR))
			continue;
		if (clock_now_ns(CLOCK_MONOTONIC) > until_ns)
			return -ETIMEDOUT;
		load_pause();
	}
}

/* Kill what has left its group, and became a child of the agent when its parent ended. */
static int end_strays(const struct load_set *set, int64_t until_ns)
{
	if (set->other_count == LOAD_CHILDREN_MAX)
		return 0; /* without it, foreign processes cannot be told apart */
	while (load_kill_children(set->others, set->other_count)) {
		if (clock_now_ns(CLOCK_MONOTONIC) > until_ns)
			return -ETIMEDOUT;
		load_pause();
	}
	return 0;
}

int load_set_stop(struct load_set *set)
{
	int64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + LOAD_STOP_NS;
	bool ran = false;
	int result = 0;

	for (size_t i = 0; i < set->count; i++)
		if (set->workers[i].pid) {
			kill(-set->workers[i].pid, SIGKILL);
			kill(set->workers[i].pid, SIGKILL); /* it may be in no group yet */
		}
	for (size_t i = 0; i < set->count; i++) {
		struct load_worker *worker = &set->workers[i];

		if (worker->pid) {
			ran = true;
			/* the leader of a command has left its group */
			if (reap(worker->pid, until_ns) || reap(-worker->pid, until_ns))
				result = -ETIMEDOUT;
			worker->pid = 0;
		}
		if (worker->shared)
			munmap(worker->shared, worker->mapped);
		worker->shared = NULL;
		free(worker->seen);
		worker->seen = NULL;
		worker->counters = 0;
	}
	if (ran && end_strays(set, until_ns))
		result = -ETIMEDOUT;
	if (ran)
		prctl(PR_SET_CHILD_SUBREAPER, set->was_subreaper);
	return result;
}

bool load_set_absent(const struct load_set *set, size_t *at, char *why, size_t size)
{
	while (*at < set->count) {
		const struct load_worker *worker = &set->workers[(*at)++];

		if (!worker->shared || !atomic_load_acquire(&worker->shared->absent))
			continue;
		snprintf(why, size, "without load %.60s: %.*s", worker->label,
			 (int)sizeof(worker->shared->msg.text) - 1, worker->shared->msg.text);
		return true;
	}
	return false;
}

int load_set_nice(const struct load_set *set)
{
	return set->count && set->workers[0].shared ? set->workers[0].shared->nice : 0;
}

void load_set_free(struct load_set *set)
{
	if (!set)
		return;
	load_set_stop(set);
	for (size_t i = 0; i < set->count; i++) {
		option_set_free(&set->workers[i].options);
		free(set->workers[i].label);
		free(set->workers[i].table);
	}
	free(set->workers);
	free(set);
}
