// SPDX-License-Identifier: Apache-2.0
/*
 * Loads as processes: started apart from the agent, counted, watched, and never left behind. Not
 * on the path of a sample; what a load does to that path is what is measured.
 *
 * A leader and all its processes form one process group. Each of them is killed by the kernel when
 * its parent ends (PR_SET_PDEATHSIG), so that a killed agent takes its loads along; in an orderly
 * end the agent kills the group and, being its subreaper, waits for every process of it, and for
 * those that have left the group.
 */
#include "loads/load.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
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

#include "base/atomic.h"
#include "base/caller.h"
#include "base/clock.h"
#include "base/procstat.h"

#define READY_NS (30 * NSEC_PER_SEC) /* boards of 100 MHz, and emulated ones, fork slowly */
#define STALL_NS (5 * NSEC_PER_SEC)
#define STALL_CHECKS 3 /* so that a pause of the whole machine does not count as a stall */
#define STOP_NS (5 * NSEC_PER_SEC)
#define POLL_NS NSEC_PER_MSEC
#define TURN_NS (10 * NSEC_PER_MSEC) /* how often work is counted for a turn */
#define POLLS_TO_SEARCH 100 /* so often before those that do not end are looked for in /proc */
#define CHILDREN_MAX 256
#define SWEEPS_MAX 1000
#define SCHEDULE_MAX_NS (366 * 86400 * NSEC_PER_SEC)
#define TIMER_SLACK_NS 50000UL /* the kernel's default */
#define MORE_PROCESSES "raise the limit of processes (ulimit -u)"

/* What a load and the agent share. One cache line for each counter. */
struct shared {
	uint32_t ready;	   /* it works; with a schedule: not so between its phases */
	uint32_t begun;	   /* origin_ns is valid */
	int64_t origin_ns; /* CLOCK_MONOTONIC at which the schedules of all loads begin */
	uint32_t counters; /* in use */
	uint32_t turn;	   /* in the first load with a count: number of turns that have ended */
	struct message msg;
	struct {
		volatile uint32_t value;
	} __attribute__((aligned(64))) counter[LOAD_COUNTERS_MAX];
};

struct load_worker {
	const struct load *load;
	char *label;		   /* what its work is recorded under, and messages call it */
	struct option_info *table; /* the load's options, and those of every load */
	struct option_set options;
	const struct cpulist *cpus;
	struct shared *shared;
	uint32_t *turn; /* NULL: works all the time, or by a schedule of times */
	uint32_t place; /* among the loads that take turns */
	uint32_t turns;
	size_t mapped;
	pid_t pid; /* of the leader, and number of its group; 0: not running */
	uint32_t counters;
	uint32_t *seen; /* the counters at the last check */
	int64_t checked_ns;
	int64_t reported_ns;
	uint64_t unreported;
	int64_t worked_ns;
	unsigned int idle_checks;
};

struct load_set {
	struct load_worker *workers;
	size_t count;
	struct cpulist cpus;
	int was_subreaper;
	pid_t others[CHILDREN_MAX]; /* children that the agent had before: none of the loads' */
	int other_count;
};

const struct option_info load_options[] = {
	{ "restart", OPTION_DURATION, "0", 0, SCHEDULE_MAX_NS, NULL,
	  "interval at which the load is killed and restarted; 0: never" },
	{ "cycle", OPTION_DURATION, "0", 0, SCHEDULE_MAX_NS, NULL,
	  "length of a cycle, for from and until; 0: no cycle" },
	{ "from", OPTION_DURATION, "0", 0, SCHEDULE_MAX_NS, NULL, "start time in each cycle" },
	{ "until", OPTION_DURATION, "0", 0, SCHEDULE_MAX_NS, NULL,
	  "end time in each cycle; 0: end of the cycle" },
	{ "count", OPTION_INTEGER, "0", 0, UINT32_MAX, NULL,
	  "work of a turn: loads with a count take turns, in the order given; 0: works all the time" },
	{ "rest", OPTION_DURATION, "0", 0, SCHEDULE_MAX_NS, NULL, "pause after a turn by count" },
	{ 0 },
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

int load_become_caller(pid_t parent)
{
	uid_t uid;
	gid_t gid;
	int err = caller_ids(&uid, &gid);

	if (err || uid == geteuid())
		return err;
	if (setgroups(0, NULL) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
		return -errno;
	/* the kernel clears the parent-death signal when the user changes */
	die_with(parent);
	return 0;
}

/* How a child ended, as words; @status as of waitid(). */
static int describe_end(const struct load_worker *worker, const siginfo_t *info,
			struct message *msg)
{
	char subject[128] = "a process of it";

	if (worker)
		snprintf(subject, sizeof(subject), "load %s", worker->label);
	if (info->si_code != CLD_EXITED)
		return message_set(msg, -EIO,
				   "find out what killed it: dmesg shows if memory ran out",
				   "%s was killed by signal %d", subject, info->si_status);
	if (!info->si_status)
		return message_set(msg, -EIO, NULL, "%s ended by itself", subject);
	return message_set(msg, -info->si_status, info->si_status == EAGAIN ? MORE_PROCESSES : NULL,
			   "%s failed: %s", subject, strerror(info->si_status));
}

int load_watch(struct message *msg)
{
	siginfo_t info = { 0 };

	while (waitid(P_ALL, 0, &info, WEXITED))
		if (errno == ECHILD)
			pause();
	return describe_end(NULL, &info, msg);
}

static void sleep_ns(int64_t ns)
{
	struct timespec ts = clock_from_ns(ns);

	nanosleep(&ts, NULL);
}

/* The children of the caller, as /proc has them: how many, @room at most. */
static int find_children(pid_t *pids, int room)
{
	DIR *dir = opendir("/proc");
	struct procstat stat;
	int count = 0;
	pid_t pid;

	while (dir && count < room && (pid = procstat_next(dir, &stat)))
		if (stat.parent == getpid())
			pids[count++] = pid;
	if (dir)
		closedir(dir);
	return count;
}

/* Kill the children of the caller, but not @others. How many there were; some may be left. */
static int kill_children(const pid_t *others, int other_count)
{
	pid_t pids[CHILDREN_MAX];
	int count = find_children(pids, CHILDREN_MAX);
	int killed = 0;

	for (int i = 0; i < count; i++) {
		int other = 0;

		while (other < other_count && others[other] != pids[i])
			other++;
		if (other < other_count)
			continue;
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, WNOHANG);
		killed++;
	}
	return killed;
}

int load_end_children(void)
{
	for (int polls = 1;; polls++) {
		pid_t pid;

		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
			;
		if (pid < 0 && errno == ECHILD)
			return 0;
		if (polls > STOP_NS / POLL_NS)
			return -ETIMEDOUT;
		if (polls % POLLS_TO_SEARCH == 0)
			kill_children(NULL, 0);
		sleep_ns(POLL_NS);
	}
}

/* Whether the environment with which a process was executed contains @entry. */
static bool has_variable(pid_t pid, const char *entry, size_t size)
{
	char path[32], text[8192];
	size_t kept = 0;
	bool found = false;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	while (!found && (got = read(fd, text + kept, sizeof(text) - kept)) > 0) {
		size_t length = kept + (size_t)got;

		found = memmem(text, length, entry, size);
		kept = length < size - 1 ? length : size - 1;
		memmove(text, text + length - kept, kept);
	}
	close(fd);
	return found;
}

int load_sweep(const char *run_id)
{
	char entry[256];
	int length = snprintf(entry, sizeof(entry), LOAD_RUN_VARIABLE "=%s", run_id);
	int killed = 0, found = 1;

	if (!run_id[0] || length < 0 || (size_t)length >= sizeof(entry))
		return 0;
	/* repeat until none is left: they may fork during a pass */
	for (int pass = 0; found && pass < SWEEPS_MAX; pass++) {
		DIR *dir = opendir("/proc");
		struct procstat stat;
		pid_t pid;

		found = 0;
		/* including the NUL, so that a longer run id does not match */
		while (dir && (pid = procstat_next(dir, &stat)))
			if (pid != getpid() && stat.state != 'Z' &&
			    has_variable(pid, entry, (size_t)length + 1) && !kill(pid, SIGKILL))
				found++;
		if (dir)
			closedir(dir);
		killed = found > killed ? found : killed;
		if (found)
			sleep_ns(POLL_NS);
	}
	return killed;
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

static int refuse_schedule(const struct load_worker *worker, const char *remedy,
			   struct message *msg)
{
	return message_set(msg, -EINVAL, remedy, "load %s: there is no time from %s until %s",
			   worker->load->name, option_text(&worker->options, "from"),
			   option_text(&worker->options, "until"));
}

static int check_schedule(const struct load_worker *worker, struct message *msg)
{
	int64_t cycle_ns = option_number(&worker->options, "cycle");
	int64_t from_ns = option_number(&worker->options, "from");
	int64_t until_ns = option_number(&worker->options, "until");

	if (option_number(&worker->options, "count") &&
	    (cycle_ns || option_number(&worker->options, "restart")))
		return message_set(msg, -EINVAL, "omit either count, or restart and cycle",
				   "load %s: count cannot be combined with times",
				   worker->load->name);
	if (!cycle_ns && (from_ns || until_ns))
		return refuse_schedule(worker, "give the cycle that they are times of", msg);
	if (cycle_ns && (until_ns > cycle_ns || from_ns >= (until_ns ? until_ns : cycle_ns)))
		return refuse_schedule(worker, "give times of the cycle, the end after the start",
				       msg);
	return 0;
}

/* One more load in the set, all its options at their defaults; NULL without memory. */
static struct load_worker *add_worker(struct load_set *set, const struct load *load,
				      const char *text)
{
	struct load_worker *grown = realloc(set->workers, (set->count + 1) * sizeof(*grown));
	struct load_worker *worker;
	size_t own = 0;
	size_t common = 0;

	if (!grown)
		return NULL;
	set->workers = grown;
	worker = &grown[set->count];
	memset(worker, 0, sizeof(*worker));
	worker->load = load;
	while (load->options[own].name)
		own++;
	while (load_options[common].name)
		common++;
	worker->table = calloc(own + common + 1, sizeof(*worker->table));
	if (!worker->table)
		return NULL;
	memcpy(worker->table, load->options, own * sizeof(*worker->table));
	memcpy(worker->table + own, load_options, common * sizeof(*worker->table));
	worker->label = strdup(text);
	if (!worker->label || option_set_init(&worker->options, worker->table)) {
		free(worker->label);
		free(worker->table);
		return NULL;
	}
	set->count++;
	return worker;
}

static int parse_list(struct load_set *set, const char *text, const struct load *const *loads,
		      struct message *msg);

/* Whether a load has the option @name and its text does not give it a value. */
static bool leaves_open(const struct load_worker *worker, const char *name)
{
	const struct option_info *o = worker->table;
	char given[64];

	while (o->name && strcmp(o->name, name) != 0)
		o++;
	snprintf(given, sizeof(given), ":%s=", name);
	return o->name && !strstr(worker->label, given);
}

/* The loads of a profile. Each option in @rest goes to those that leave it open. */
static int parse_profile(struct load_set *set, const struct load *profile, char *rest,
			 const struct load *const *loads, struct message *msg)
{
	size_t first = set->count;
	int err = parse_list(set, profile->mix, loads, msg);

	while (rest && !err) {
		char *option = strsep(&rest, ":");
		size_t name = strcspn(option, "=");
		bool taken = false;

		for (size_t i = first; i < set->count && !err; i++) {
			char *copy = strdup(option);

			if (!copy)
				return out_of_memory(msg);
			copy[name] = '\0';
			if (leaves_open(&set->workers[i], copy)) {
				strcpy(copy, option);
				err = parse_options(&set->workers[i], copy, msg);
				taken = true;
			}
			free(copy);
		}
		if (!taken)
			return message_set(msg, -EINVAL, profile->mix,
					   "no load of %s takes '%.40s' in addition to its options",
					   profile->name, option);
	}
	for (size_t i = first; i < set->count && !err; i++)
		err = check_schedule(&set->workers[i], msg);
	return err;
}

static int parse_load(struct load_set *set, char *text, const struct load *const *loads,
		      struct message *msg)
{
	const struct load *const *found = loads;
	struct load_worker *worker;
	char *rest = text;
	char *name = strsep(&rest, ":");
	int err;

	while (*found && strcmp((*found)->name, name))
		found++;
	if (!strcmp(name, "idle"))
		return message_set(msg, -EINVAL, "omit it", "idle is not a load: it cannot %s",
				   rest ? "have options" : "run with others");
	if (!*found)
		return refuse_unknown(name, loads, msg);
	if ((*found)->mix)
		return parse_profile(set, *found, rest, loads, msg);
	if (rest)
		rest[-1] = ':';
	worker = add_worker(set, *found, text);
	if (!worker)
		return out_of_memory(msg);
	err = rest ? parse_options(worker, rest, msg) : 0;
	return err ? err : check_schedule(worker, msg);
}

static int parse_list(struct load_set *set, const char *text, const struct load *const *loads,
		      struct message *msg)
{
	char *copy = strdup(text);
	char *rest = copy;
	int err = copy ? 0 : out_of_memory(msg);

	while (rest && !err)
		err = parse_load(set, strsep(&rest, ","), loads, msg);
	free(copy);
	return err;
}

/* A load goes by its name; where several have that, by the text as asked. */
static void choose_labels(struct load_set *set)
{
	for (size_t i = 0; i < set->count; i++) {
		size_t same = 0;

		for (size_t j = 0; j < set->count; j++)
			same += set->workers[j].load == set->workers[i].load;
		if (same == 1)
			set->workers[i].label[strlen(set->workers[i].load->name)] = '\0';
	}
}

int load_set_parse(struct load_set **result, const char *text, const struct load *const *loads,
		   struct message *msg)
{
	struct load_set *set = calloc(1, sizeof(*set));
	int err = set ? 0 : out_of_memory(msg);

	*result = NULL;
	if (!err && *text && strcmp(text, "idle") != 0)
		err = parse_list(set, text, loads, msg);
	if (err) {
		load_set_free(set);
		return err;
	}
	choose_labels(set);
	*result = set;
	return 0;
}

int load_set_add_command(struct load_set *set, const struct load *command, const char *text,
			 bool as_root, struct message *msg)
{
	struct load_worker *worker = add_worker(set, command, command->name);
	int err;

	if (!worker)
		return out_of_memory(msg);
	err = option_set_parse(&worker->options, "text", text, msg);
	if (!err && as_root)
		err = option_set_parse(&worker->options, "user", "root", msg);
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

/* An ordinary process, the first to go when memory runs out. -EPERM: nice or a policy that it may
 * not leave. */
static int leave_priorities(void)
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
	return getpriority(PRIO_PROCESS, 0) || syscall(SYS_sched_getscheduler, 0) > 0 ? -EPERM : 0;
}

static int refuse_late(struct message *msg)
{
	return message_set(msg, -ETIMEDOUT, "ask for less of it", "it was not ready after %lld s",
			   (long long)(READY_NS / NSEC_PER_SEC));
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
	return message_set(msg, -errno, MORE_PROCESSES, "cannot restart it: %s", strerror(errno));
}

static int end_phase(struct load_worker *worker, pid_t *pid, struct message *msg)
{
	atomic_store_release(&worker->shared->ready, 0);
	kill(*pid, SIGKILL);
	*pid = 0;
	return load_end_children() ?
		       message_set(msg, -ETIMEDOUT, "look what they wait for: /proc/PID/stack",
				   "processes of it could not be ended") :
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
			return describe_end(NULL, &info, msg);
	}
}

/* Until @until_ns, and until what was started is ready. */
static int keep_phase(struct load_worker *worker, pid_t pid, int64_t until_ns, struct message *msg)
{
	int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	int64_t late_ns = now_ns + READY_NS;
	int err = 0;

	for (; !err; now_ns = clock_now_ns(CLOCK_MONOTONIC)) {
		bool starts = pid && !atomic_load_acquire(&worker->shared->ready);

		if (starts && now_ns > late_ns)
			return refuse_late(msg);
		if (now_ns >= until_ns && !starts)
			return 0;
		err = watch_phase(pid, starts ? POLL_NS : until_ns - now_ns, msg);
	}
	return err;
}

/* The work since the last call. */
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

/* One turn: until the count is done, then the pause; and the next load's turn begins. */
static int take_turn(struct load_worker *worker, pid_t *pid, struct message *msg)
{
	uint64_t count = (uint64_t)option_number(&worker->options, "count");
	uint64_t done = 0;
	int err = *pid ? 0 : start_phase(worker, pid, msg);

	if (!err)
		err = keep_phase(worker, *pid, 0, msg);
	count_work(worker);
	while (!err && done < count) {
		err = watch_phase(*pid, TURN_NS, msg);
		done += count_work(worker);
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
		err = out_of_memory(msg);
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
		err = watch_phase(pid, POLL_NS, msg);
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
	if (leave_priorities()) {
		message_set(msg, -EPERM, "start the agent without nice and chrt, or as root",
			    "may not run with nice 0, as an ordinary process");
		_exit(EPERM);
	}
	snprintf(name, sizeof(name), "load/%s", worker->load->name);
	prctl(PR_SET_NAME, name);
	err = cpulist_apply(worker->cpus, 0);
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

/* ---- the agent's side ---- */

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
			   said->remedy, "load %.100s: %.300s", worker->label, said->text);
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
	return worker->seen ? 0 : out_of_memory(msg);
}

static int wait_ready(struct load_worker *worker, int64_t until_ns, struct message *msg)
{
	siginfo_t info;

	while (!atomic_load_acquire(&worker->shared->ready)) {
		if (has_ended(worker, &info))
			return report_end(worker, &info, msg);
		if (clock_now_ns(CLOCK_MONOTONIC) > until_ns)
			return message_set(msg, -ETIMEDOUT, "ask for less of it",
					   "load %s was not ready after %lld s", worker->label,
					   (long long)(READY_NS / NSEC_PER_SEC));
		sleep_ns(POLL_NS);
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
		lead(worker, agent, forked, arg);
	if (worker->pid < 0) {
		err = -errno;
		worker->pid = 0;
		return message_set(msg, err, MORE_PROCESSES, "cannot start load %s: %s",
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
	int64_t origin_ns;
	int err;

	if (!set->count)
		return 0;
	err = choose_cpus(set, cpus, msg);
	if (err)
		return err;
	signal(SIGCHLD, SIG_DFL); /* one that is ignored would hide how a load ended */
	set->other_count = find_children(set->others, CHILDREN_MAX);
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
		err = wait_ready(&set->workers[i], until_ns, msg);
	if (err) {
		load_set_stop(set);
		return err;
	}
	origin_ns = clock_now_ns(CLOCK_MONOTONIC);
	for (size_t i = 0; i < set->count; i++) {
		struct load_worker *worker = &set->workers[i];

		count_work(worker);
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
	if (!atomic_load_acquire(&worker->shared->ready) || worker->load->rests) {
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
	return message_set(msg, -EIO, "give it a CPU with free time (--load-cpu)",
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
		count = count_work(worker);
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
		sleep_ns(POLL_NS);
	}
}

/* Kill what has left its group, and became a child of the agent when its parent ended. */
static int end_strays(const struct load_set *set, int64_t until_ns)
{
	if (set->other_count == CHILDREN_MAX)
		return 0; /* it is not known which are not ours */
	while (kill_children(set->others, set->other_count)) {
		if (clock_now_ns(CLOCK_MONOTONIC) > until_ns)
			return -ETIMEDOUT;
		sleep_ns(POLL_NS);
	}
	return 0;
}

int load_set_stop(struct load_set *set)
{
	int64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + STOP_NS;
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
