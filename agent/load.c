// SPDX-License-Identifier: Apache-2.0
/*
 * Loads as processes: started apart from the agent, counted, watched, and never left behind. Not
 * on the path of a sample; what a load does to that path is what is measured.
 *
 * A leader and all its processes form one process group. Each of them is killed by the kernel when
 * its parent ends (PR_SET_PDEATHSIG), so that a killed agent takes its loads along; in an orderly
 * end the agent kills the group and, being its subreaper, waits for every process of it.
 */
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "atomic.h"
#include "clock.h"

#define READY_NS (10 * NSEC_PER_SEC)
#define STALL_NS (5 * NSEC_PER_SEC)
#define STALL_CHECKS 3 /* so that a pause of the whole machine is no stall */
#define STOP_NS (5 * NSEC_PER_SEC)
#define POLL_NS NSEC_PER_MSEC
#define TIMER_SLACK_NS 50000UL /* the kernel's default */

/* What a load and the agent share. One cache line for each counter. */
struct shared {
	uint32_t ready;
	uint32_t counters; /* in use */
	struct message msg;
	struct {
		volatile uint32_t value;
	} __attribute__((aligned(64))) counter[LOAD_COUNTERS_MAX];
};

struct load_worker {
	const struct load *load;
	struct option_set options;
	const struct cpulist *cpus;
	struct shared *shared;
	size_t mapped;
	pid_t pid; /* of the leader, and number of its group; 0: not running */
	uint32_t counters;
	uint32_t *seen; /* the counters at the last check */
	int64_t checked_ns;
	int64_t worked_ns;
	unsigned int idle_checks;
};

struct load_set {
	struct load_worker *workers;
	size_t count;
	struct cpulist cpus;
	int was_subreaper;
};

/* ---- for loads ---- */

volatile uint32_t *load_counter(struct load_worker *worker, unsigned int number)
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

/* In a new child: die with @parent, also if it has gone already. */
static void die_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(ESRCH);
}

pid_t load_fork(void)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (!pid)
		die_with(parent);
	return pid;
}

/* How a child ended, as words; @status as of waitid(). */
static int describe_end(const struct load_worker *worker, const siginfo_t *info,
			struct message *msg)
{
	char subject[64] = "a process of it";

	if (worker)
		snprintf(subject, sizeof(subject), "load %s", worker->load->name);
	if (info->si_code != CLD_EXITED)
		return message_set(msg, -EIO,
				   "find out who killed it: dmesg shows if memory ran out",
				   "%s was killed by signal %d", subject, info->si_status);
	if (!info->si_status)
		return message_set(msg, -EIO, NULL, "%s ended by itself", subject);
	return message_set(msg, -info->si_status, NULL, "%s failed: %s", subject,
			   strerror(info->si_status));
}

int load_watch(struct message *msg)
{
	siginfo_t info = { 0 };

	while (waitid(P_ALL, 0, &info, WEXITED))
		if (errno == ECHILD)
			pause();
	return describe_end(NULL, &info, msg);
}

/* ---- parsing ---- */

static int out_of_memory(struct message *msg)
{
	return message_set(msg, -ENOMEM, "free some memory", "out of memory");
}

static int refuse_unknown(const char *name, const struct load *const *loads, struct message *msg)
{
	char names[200] = "idle";
	char near[64];
	char remedy[sizeof(msg->remedy)];
	size_t used = strlen(names);

	for (; *loads && used < sizeof(names); loads++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, " %s", (*loads)->name);
	if (option_nearest(name, names, near, sizeof(near)))
		snprintf(remedy, sizeof(remedy), "did you mean '%s'?", near);
	else
		snprintf(remedy, sizeof(remedy), "known are: %s", names);
	return message_set(msg, -EINVAL, remedy, "unknown load '%.40s'", name);
}

/* Read "option=value" and what follows it, separated by colons. Writes into @text. */
static int parse_options(struct load_worker *worker, char *text, struct message *msg)
{
	char *rest = text;

	while (rest) {
		char *name = strsep(&rest, ":");
		char *value = strchr(name, '=');
		struct message inner = { 0 };
		int err;

		if (!value)
			return message_set(msg, -EINVAL, "write NAME:option=value",
					   "load %s: '%.40s' is not option=value",
					   worker->load->name, name);
		*value++ = '\0';
		err = option_set_parse(&worker->options, name, value, &inner);
		if (err)
			return message_set(msg, err, inner.remedy, "load %s: %s",
					   worker->load->name, inner.text);
	}
	return 0;
}

static int parse_load(struct load_set *set, char *text, const struct load *const *loads,
		      struct message *msg)
{
	struct load_worker *worker = &set->workers[set->count];
	const struct load *const *found = loads;
	char *rest = text;
	char *name = strsep(&rest, ":");

	while (*found && strcmp((*found)->name, name))
		found++;
	if (!strcmp(name, "idle"))
		return message_set(msg, -EINVAL, "leave it out", "idle is no load: it cannot %s",
				   rest ? "have options" : "run beside others");
	if (!*found)
		return refuse_unknown(name, loads, msg);
	worker->load = *found;
	if (option_set_init(&worker->options, worker->load->options))
		return out_of_memory(msg);
	set->count++;
	return rest ? parse_options(worker, rest, msg) : 0;
}

int load_set_parse(struct load_set **result, const char *text, const struct load *const *loads,
		   struct message *msg)
{
	struct load_set *set = calloc(1, sizeof(*set));
	char *copy = strdup(text);
	char *rest = copy;
	size_t commas = 0;
	int err = 0;

	*result = NULL;
	if (!set || !copy) {
		err = out_of_memory(msg);
		goto out_free_copy;
	}
	for (const char *at = text; *at; at++)
		commas += *at == ',';
	set->workers = calloc(commas + 1, sizeof(*set->workers));
	if (!set->workers) {
		err = out_of_memory(msg);
		goto out_free_copy;
	}
	if (!*text || !strcmp(text, "idle"))
		rest = NULL;
	while (rest && !err)
		err = parse_load(set, strsep(&rest, ","), loads, msg);
out_free_copy:
	free(copy);
	if (err)
		load_set_free(set);
	else
		*result = set;
	return err;
}

/* ---- the leader ---- */

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
	for (int fd = STDERR_FILENO + 1; fd < max; fd++)
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

/* An ordinary process, the first to go when memory runs out. */
static void leave_priorities(void)
{
	const int priority = 0; /* a struct sched_param has this one member */
	int fd = open("/proc/self/oom_score_adj", O_WRONLY);

	if (fd >= 0) {
		if (write(fd, "1000", 4) < 0) {
			/* not allowed here: then the kernel chooses as it does */
		}
		close(fd);
	}
	/* The system call, because musl's function does nothing but fail. */
	syscall(SYS_sched_setscheduler, 0, 0 /* SCHED_OTHER */, &priority);
	setpriority(PRIO_PROCESS, 0, 0);
	prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
}

/* The life of a leader, after fork() in the agent @agent. */
static void __attribute__((noreturn))
lead(struct load_worker *worker, pid_t agent, void (*forked)(void *arg), void *arg)
{
	struct message *msg = &worker->shared->msg;
	char name[16];
	int err;

	setpgid(0, 0);
	die_with(agent);
	if (forked)
		forked(arg);
	leave_signals();
	err = leave_files();
	if (err) {
		message_set(msg, err, "mount devtmpfs on /dev", "cannot open /dev/null: %s",
			    strerror(-err));
		_exit(-err);
	}
	leave_priorities();
	snprintf(name, sizeof(name), "load/%s", worker->load->name);
	prctl(PR_SET_NAME, name);
	err = cpulist_apply(worker->cpus, 0);
	if (err)
		message_set(msg, err, "give other CPUs with --load-cpu",
			    "cannot run on the CPUs of the load: %s", strerror(-err));
	else
		err = worker->load->run(worker, &worker->options, msg);
	_exit(err < 0 ? -err : 0);
}

/* ---- the agent's side ---- */

static void sleep_ns(int64_t ns)
{
	struct timespec ts = clock_from_ns(ns);

	nanosleep(&ts, NULL);
}

/* Has the leader ended? It is not reaped here: its number stays taken, so that the group can still
 * be killed without hitting a stranger. */
static bool has_ended(const struct load_worker *worker, siginfo_t *info)
{
	info->si_pid = 0;
	if (waitid(P_PID, (id_t)worker->pid, info, WEXITED | WNOHANG | WNOWAIT))
		return errno == ECHILD;
	return info->si_pid != 0;
}

/* What the load itself said, else how its leader ended. */
static int report_end(struct load_worker *worker, const siginfo_t *info, struct message *msg)
{
	struct message *said = &worker->shared->msg;

	said->text[sizeof(said->text) - 1] = '\0';
	said->remedy[sizeof(said->remedy) - 1] = '\0';
	if (!said->text[0] || !info->si_pid)
		return describe_end(worker, info, msg);
	return message_set(msg,
			   info->si_code == CLD_EXITED && info->si_status ? -info->si_status : -EIO,
			   said->remedy, "load %s: %.300s", worker->load->name, said->text);
}

static int map_shared(struct load_worker *worker, struct message *msg)
{
	void *memory;

	worker->mapped = sizeof(struct shared);
	memory = mmap(NULL, worker->mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (memory == MAP_FAILED)
		return out_of_memory(msg);
	worker->shared = memory;
	return 0;
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
	return worker->seen ? 0 : out_of_memory(msg);
}

static uint64_t count_work(struct load_worker *worker)
{
	uint64_t work = 0;

	for (uint32_t i = 0; i < worker->counters; i++) {
		uint32_t now = worker->shared->counter[i].value;

		work += (uint32_t)(now - worker->seen[i]);
		worker->seen[i] = now;
	}
	return work;
}

static int wait_ready(struct load_worker *worker, int64_t until_ns, struct message *msg)
{
	siginfo_t info;

	while (!atomic_load_acquire(&worker->shared->ready)) {
		if (has_ended(worker, &info))
			return report_end(worker, &info, msg);
		if (clock_now_ns(CLOCK_MONOTONIC) > until_ns)
			return message_set(msg, -ETIMEDOUT, "ask for less of it",
					   "load %s was not ready after %lld s", worker->load->name,
					   (long long)(READY_NS / NSEC_PER_SEC));
		sleep_ns(POLL_NS);
	}
	return trim_shared(worker, msg);
}

static int start_worker(struct load_worker *worker, void (*forked)(void *arg),
			void (*started)(void *arg, pid_t pgid), void *arg, struct message *msg)
{
	pid_t agent = getpid();
	int err = map_shared(worker, msg);

	if (err)
		return err;
	worker->pid = fork();
	if (!worker->pid)
		lead(worker, agent, forked, arg);
	if (worker->pid < 0) {
		err = -errno;
		worker->pid = 0;
		return message_set(msg, err, "raise the limit of processes (ulimit -u)",
				   "cannot start load %s: %s", worker->load->name, strerror(-err));
	}
	setpgid(worker->pid, worker->pid);
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
				   "cannot find out which CPUs there are: %s", strerror(-err));
	if (!cpus)
		return 0;
	for (int cpu = cpulist_next(cpus, 0); cpu >= 0; cpu = cpulist_next(cpus, cpu + 1)) {
		if (cpulist_has(&online, cpu))
			continue;
		snprintf(remedy, sizeof(remedy), "online are CPUs %s",
			 cpulist_format(&online, list, sizeof(list)));
		return message_set(msg, -EINVAL, remedy, "the load cannot run on CPU %d", cpu);
	}
	set->cpus = *cpus;
	return 0;
}

int load_set_start(struct load_set *set, const struct cpulist *cpus, void (*forked)(void *arg),
		   void (*started)(void *arg, pid_t pgid), void *arg, struct message *msg)
{
	int64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + READY_NS;
	int err;

	if (!set->count)
		return 0;
	err = choose_cpus(set, cpus, msg);
	if (err)
		return err;
	signal(SIGCHLD, SIG_DFL); /* one that is ignored would hide how a load ended */
	prctl(PR_GET_CHILD_SUBREAPER, &set->was_subreaper);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (size_t i = 0; i < set->count && !err; i++) {
		set->workers[i].cpus = &set->cpus;
		err = start_worker(&set->workers[i], forked, started, arg, msg);
	}
	for (size_t i = 0; i < set->count && !err; i++)
		err = wait_ready(&set->workers[i], until_ns, msg);
	if (err) {
		load_set_stop(set);
		return err;
	}
	for (size_t i = 0; i < set->count; i++) {
		struct load_worker *worker = &set->workers[i];

		count_work(worker);
		worker->checked_ns = clock_now_ns(CLOCK_MONOTONIC);
		worker->worked_ns = worker->checked_ns;
		worker->idle_checks = 0;
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
	if (count) {
		worker->worked_ns = now_ns;
		worker->idle_checks = 0;
		return 0;
	}
	worker->idle_checks++;
	if (now_ns - worker->worked_ns < STALL_NS || worker->idle_checks < STALL_CHECKS)
		return 0;
	return message_set(msg, -EIO, "leave it a CPU that is not used up, with --load-cpu",
			   "load %s has done nothing for %lld s", worker->load->name,
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
		count = count_work(worker);
		if (work)
			work(arg, worker->load->name, worker->load->unit, count, worker->checked_ns,
			     now_ns);
		worker->checked_ns = now_ns;
		err = check_worker(worker, now_ns, count, msg);
		if (err && !result)
			result = err;
	}
	return result;
}

/* Wait for every process of the group that is, or becomes, a child of the agent. A process is no
 * child any more only after its own children have become ours: nothing slips through. */
static int reap_group(pid_t pgid, int64_t until_ns)
{
	for (;;) {
		pid_t pid = waitpid(-pgid, NULL, WNOHANG);

		if (pid < 0 && errno == ECHILD)
			return 0;
		if (pid > 0 || (pid < 0 && errno == EINTR))
			continue;
		if (clock_now_ns(CLOCK_MONOTONIC) > until_ns)
			return -ETIMEDOUT;
		sleep_ns(POLL_NS);
	}
}

int load_set_stop(struct load_set *set)
{
	int64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + STOP_NS;
	bool ran = false;
	int result = 0;

	for (size_t i = 0; i < set->count; i++)
		if (set->workers[i].pid)
			kill(-set->workers[i].pid, SIGKILL);
	for (size_t i = 0; i < set->count; i++) {
		struct load_worker *worker = &set->workers[i];

		if (worker->pid) {
			ran = true;
			if (reap_group(worker->pid, until_ns))
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
	if (ran)
		prctl(PR_SET_CHILD_SUBREAPER, set->was_subreaper);
	return result;
}

void load_set_free(struct load_set *set)
{
	if (!set)
		return;
	if (set->workers)
		load_set_stop(set);
	for (size_t i = 0; i < set->count; i++)
		option_set_free(&set->workers[i].options);
	free(set->workers);
	free(set);
}
