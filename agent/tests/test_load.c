// SPDX-License-Identifier: Apache-2.0
/* Tests of load.c with loads that do exactly what a test asks of them. Prints TAP. */
#include "loads/load.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "loads/set.h"
#include "tap.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define WATCHDOG_S 120 /* ends a test that hangs, and with it its loads */

extern const struct load load_sched;
extern const struct load load_cpu;

/* What the loads of the tests and the tests share. */
struct board {
	uint32_t go;
	uint32_t done;
	uint32_t forked;
	uint32_t counters;
	unsigned long first; /* value of each counter when ready */
	unsigned long add;   /* what is added to counter i: this times i+1 */
	uint32_t starts;
	uint32_t fails_at;  /* the start that fails */
	uint32_t error;	    /* what `leaving` ends with */
	uint32_t survivors; /* processes of a phase that were there when the next one began */
	pid_t leader;
	pid_t child;
	pid_t grandchild;
	pid_t orphan;
	pid_t parent;
	pid_t group;
	int policy;
	int nice;
	int signals_changed;
	int signals_blocked;
	int files_open;
	int streams_null;
	int oom_score_adj;
	int death_signal;
	struct cpulist cpus;
	char name[16];
};

static struct board *board;

static void check_message(const struct message *msg, const char *text)
{
	tap_check(!strcmp(msg->text, text), "%s", text);
	if (strcmp(msg->text, text))
		printf("# said: %s\n", msg->text);
}

static void sleep_ms(int ms)
{
	struct timespec ts = clock_from_ns(ms * NSEC_PER_MSEC);

	nanosleep(&ts, NULL);
}

/* The watchdog ends what waits here for ever. */
static void wait_for(const uint32_t *flag)
{
	while (!atomic_load_acquire(flag))
		sleep_ms(1);
}

/* ---- loads for the tests ---- */

static int run_counting(struct load_worker *worker, const struct option_set *options,
			struct message *msg)
{
	for (uint32_t i = 0; i < board->counters; i++)
		*load_counter(worker, i) = board->first;
	load_ready(worker);
	wait_for(&board->go);
	for (uint32_t i = 0; i < board->counters; i++)
		*load_counter(worker, i) += board->add * (i + 1);
	atomic_store_release(&board->done, 1);
	return load_watch(msg);
}

static int run_failing(struct load_worker *worker, const struct option_set *options,
		       struct message *msg)
{
	return message_set(msg, -ENOSPC, "make room", "there is no room");
}

static int run_leaving(struct load_worker *worker, const struct option_set *options,
		       struct message *msg)
{
	load_ready(worker);
	wait_for(&board->go);
	return -(int)board->error;
}

/* A leader with a child with a child, all waiting. */
static int run_family(struct load_worker *worker, const struct option_set *options,
		      struct message *msg)
{
	pid_t pid;

	pid = load_fork();
	if (!pid) {
		pid = load_fork();
		if (!pid)
			for (;;)
				pause();
		board->grandchild = pid;
		atomic_store_release(&board->done, 1);
		for (;;)
			pause();
	}
	board->child = pid;
	wait_for(&board->done);
	load_ready(worker);
	return load_watch(msg);
}

/* A grandchild that survives its parent, as a careless load's would. */
static int run_orphan(struct load_worker *worker, const struct option_set *options,
		      struct message *msg)
{
	pid_t child = fork();

	if (!child) {
		pid_t grandchild = fork();

		if (grandchild) {
			board->orphan = grandchild;
			_exit(0);
		}
		for (;;)
			pause();
	}
	waitpid(child, NULL, 0);
	load_ready(worker);
	for (;;)
		pause();
}

/* A process that left its group, has no parent of the load's and ignores what can be ignored. */
static int run_deserter(struct load_worker *worker, const struct option_set *options,
			struct message *msg)
{
	pid_t child = fork();

	if (!child) {
		pid_t grandchild = fork();

		if (grandchild)
			_exit(0);
		setsid();
		for (int sig = 1; sig < NSIG; sig++)
			signal(sig, SIG_IGN);
		board->orphan = getpid();
		atomic_store_release(&board->done, 1);
		for (;;)
			pause();
	}
	waitpid(child, NULL, 0);
	wait_for(&board->done);
	load_ready(worker);
	for (;;)
		pause();
	return load_watch(msg);
}

/* One that never is ready, with a child. */
static int run_stuck(struct load_worker *worker, const struct option_set *options,
		     struct message *msg)
{
	if (load_fork())
		atomic_store_release(&board->go, 1);
	return load_watch(msg);
}

/* One that is ready once board->go is set. */
static int run_late(struct load_worker *worker, const struct option_set *options,
		    struct message *msg)
{
	atomic_store_release(&board->done, 1);
	wait_for(&board->go);
	load_ready(worker);
	return load_watch(msg);
}

static bool exists(pid_t pid)
{
	return pid && !kill(pid, 0);
}

/* Counts its starts, and what is still there of the phase before; has a deserter's child. */
static int run_phases(struct load_worker *worker, const struct option_set *options,
		      struct message *msg)
{
	volatile unsigned long *starts = load_counter(worker, 0);
	pid_t pid;

	board->survivors +=
		exists(board->leader) + exists(board->child) + exists(board->grandchild);
	board->leader = getpid();
	pid = load_fork();
	if (!pid) {
		pid = fork();
		if (!pid) {
			setsid();
			for (;;)
				pause();
		}
		board->grandchild = pid;
		atomic_store_release(&board->done, 1);
		for (;;)
			pause();
	}
	board->child = pid;
	wait_for(&board->done);
	board->done = 0;
	++*starts;
	board->starts++;
	if (board->starts == board->fails_at)
		return message_set(msg, -ENOSPC, "make room", "there is no room");
	load_ready(worker);
	return load_watch(msg);
}

static int read_number_from(const char *path)
{
	char text[32] = "";
	int fd = open(path, O_RDONLY);

	if (fd >= 0) {
		if (read(fd, text, sizeof(text) - 1) < 0)
			text[0] = '\0';
		close(fd);
	}
	return atoi(text);
}

static bool is_null(int fd)
{
	struct stat here;
	struct stat null;

	return !fstat(fd, &here) && !stat("/dev/null", &null) && here.st_rdev == null.st_rdev;
}

/* Writes down in what state a load begins. */
static int run_state(struct load_worker *worker, const struct option_set *options,
		     struct message *msg)
{
	sigset_t blocked;

	board->policy = (int)syscall(SYS_sched_getscheduler, 0); /* musl's function is a stub */
	board->nice = getpriority(PRIO_PROCESS, 0);
	board->parent = getppid();
	board->group = getpgrp();
	sigprocmask(SIG_SETMASK, NULL, &blocked);
	for (int sig = 1; sig < 32; sig++) {
		struct sigaction action;

		sigaction(sig, NULL, &action);
		board->signals_changed += action.sa_handler != SIG_DFL;
		board->signals_blocked += sigismember(&blocked, sig);
	}
	for (int fd = 0; fd < 3; fd++)
		board->streams_null += is_null(fd);
	for (int fd = 3; fd < 100; fd++)
		board->files_open += fcntl(fd, F_GETFD) >= 0;
	board->oom_score_adj = read_number_from("/proc/self/oom_score_adj");
	prctl(PR_GET_PDEATHSIG, &board->death_signal);
	prctl(PR_GET_NAME, board->name);
	cpulist_allowed(&board->cpus);
	load_ready(worker);
	return load_watch(msg);
}

static const struct option_info no_options[] = { { 0 } };
#define LOAD(its_name, its_unit)                                     \
	static const struct load its_name = { .name = #its_name,     \
					      .summary = "",         \
					      .unit = its_unit,      \
					      .options = no_options, \
					      .run = run_##its_name }
LOAD(counting, "steps");
LOAD(failing, "steps");
LOAD(leaving, "steps");
LOAD(family, "steps");
LOAD(orphan, "steps");
LOAD(state, "steps");
LOAD(deserter, "steps");
LOAD(stuck, "steps");
LOAD(late, "steps");
LOAD(phases, "starts");

static const struct load *const loads[] = { &counting, &failing,    &leaving,  &family,	  &orphan,
					    &state,    &load_sched, &load_cpu, &deserter, &stuck,
					    &phases,   &late,	    NULL };

/* ---- counting ---- */

struct seen {
	int calls;
	uint64_t count;
	int64_t from_ns;
	int64_t to_ns;
	char load[16];
	char unit[16];
	pid_t groups[8];
	int started;
};

/* What the load that was started last reported. */
static struct seen seen;
static struct message msg;

static void see_work(void *arg, const char *load, const char *unit, uint64_t count, int64_t from_ns,
		     int64_t to_ns)
{
	seen.calls++;
	seen.count = count;
	seen.from_ns = from_ns;
	seen.to_ns = to_ns;
	snprintf(seen.load, sizeof(seen.load), "%s", load);
	snprintf(seen.unit, sizeof(seen.unit), "%s", unit);
}

static void see_started(void *arg, pid_t pgid)
{
	seen.groups[seen.started++] = pgid;
}

static void see_forked(void *arg)
{
	atomic_store_release(&board->forked, (uint32_t)getpid());
}

/* Parse and start; NULL with the message if that failed. */
static struct load_set *try_start(const char *text, const struct cpulist *cpus)
{
	struct load_set *set;

	memset(&seen, 0, sizeof(seen));
	memset(&msg, 0, sizeof(msg));
	board->go = 0;
	board->done = 0;
	board->starts = 0;
	board->survivors = 0;
	board->leader = 0;
	board->child = 0;
	board->grandchild = 0;
	if (load_set_parse(&set, text, loads, &msg))
		return NULL;
	if (!load_set_start(set, cpus, see_forked, see_started, NULL, &msg))
		return set;
	load_set_free(set);
	return NULL;
}

/* A set that has to start: no later test runs without it. */
static struct load_set *started(struct load_set *set)
{
	if (!set) {
		printf("Bail out! %s\n", msg.text);
		exit(EXIT_FAILURE);
	}
	return set;
}

static struct load_set *start(const char *text)
{
	return started(try_start(text, NULL));
}

static void test_count(uint32_t counters, unsigned long first, unsigned long add)
{
	struct load_set *set;
	uint64_t expected = 0;
	int64_t now_ns;
	char what[80];

	board->counters = counters;
	board->first = first;
	board->add = add;
	for (uint32_t i = 0; i < counters; i++)
		expected += add * (i + 1);
	set = start("counting");
	now_ns = clock_now_ns(CLOCK_MONOTONIC);
	tap_check(!load_set_check(set, now_ns, see_work, NULL, &msg) && !seen.count,
		  "counts from before it was ready are not work");
	tap_check(seen.calls == 1 && seen.from_ns <= now_ns && seen.to_ns == now_ns &&
			  !strcmp(seen.load, "counting") && !strcmp(seen.unit, "steps"),
		  "work is reported with its load, unit and time");
	atomic_store_release(&board->go, 1);
	wait_for(&board->done);
	tap_check(!load_set_check(set, now_ns + 7, see_work, NULL, &msg), "the load continues");
	snprintf(what, sizeof(what), "%u counters from %lu by %lu: the sum is exact", counters,
		 first, add);
	tap_check(seen.count == expected, "%s", what);
	tap_check(seen.from_ns == now_ns && seen.to_ns == now_ns + 7, "times join without a gap");
	tap_check(!load_set_check(set, now_ns + 8, see_work, NULL, &msg) && !seen.count,
		  "work is counted once");
	tap_check(!load_set_stop(set), "it stops");
	tap_check(!load_set_check(set, now_ns + 9, see_work, NULL, &msg) && seen.calls == 3,
		  "what was stopped is not checked");
	load_set_free(set);
}

static void test_stall(void)
{
	struct load_set *set;
	int64_t ready_ns;

	board->counters = 1;
	set = start("counting");
	load_set_check(set, 0, see_work, NULL, &msg);
	ready_ns = seen.from_ns;
	tap_check(!load_set_check(set, ready_ns + 100 * NSEC_PER_SEC, NULL, NULL, &msg),
		  "one long pause of the machine is not a stall");
	load_set_free(set);

	set = start("counting");
	load_set_check(set, 0, see_work, NULL, &msg);
	ready_ns = seen.from_ns;
	for (int i = 1; i < 5; i++)
		tap_check(!load_set_check(set, ready_ns + i * NSEC_PER_SEC, NULL, NULL, &msg),
			  "below 5 s without work it may continue");
	tap_check(!load_set_check(set, ready_ns + 5 * NSEC_PER_SEC - 1, NULL, NULL, &msg),
		  "also 1 ns below 5 s");
	tap_check(load_set_check(set, ready_ns + 5 * NSEC_PER_SEC, NULL, NULL, &msg) == -EIO,
		  "5 s without work are a stall");
	check_message(&msg, "load counting has made no progress for 5 s");
	atomic_store_release(&board->go, 1);
	wait_for(&board->done);
	memset(&msg, 0, sizeof(msg));
	tap_check(!load_set_check(set, ready_ns + 6 * NSEC_PER_SEC, NULL, NULL, &msg),
		  "with work it is not a stall");
	tap_check(!load_set_check(set, ready_ns + 10 * NSEC_PER_SEC, NULL, NULL, &msg),
		  "and the time restarts");
	load_set_free(set);
}

/* ---- ends ---- */

static bool no_children(void)
{
	return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
}

static void test_failing(void)
{
	struct load_set *set;

	tap_check(!try_start("failing", NULL), "a load that cannot run does not start");
	check_message(&msg, "load failing: there is no room");
	tap_check(!strcmp(msg.remedy, "make room"), "the load's own remedy is shown");
	tap_check(no_children(), "nothing is left of it");
	memset(&msg, 0, sizeof(msg));
	tap_check(!load_set_parse(&set, "family,failing", loads, &msg),
		  "two loads, one of them fails");
	board->done = 0;
	tap_check(load_set_start(set, NULL, NULL, NULL, NULL, &msg) == -ENOSPC,
		  "the error is the load's");
	tap_check(no_children(), "nothing is left of the other one either");
	load_set_free(set);
}

/* Check until the load's end is seen. The time stands still: nothing can be a stall. */
static int check_until_end(struct load_set *set)
{
	int err;

	while (!(err = load_set_check(set, 0, NULL, NULL, &msg)))
		sleep_ms(1);
	return err;
}

/* The end of @set is an error: @text. */
static void check_end(struct load_set *set, const char *what, const char *text)
{
	tap_check(check_until_end(set) == -EIO, "%s", what);
	check_message(&msg, text);
	load_set_free(set);
}

static void check_stop(struct load_set *set, const char *what)
{
	tap_check(!load_set_stop(set) && no_children(), "%s", what);
	load_set_free(set);
}

static void test_deaths(void)
{
	struct load_set *set = start("leaving");

	tap_check(!load_set_check(set, 0, NULL, NULL, &msg), "a load that runs is not an error");
	atomic_store_release(&board->go, 1);
	tap_check(check_until_end(set) == -EIO, "a load that ends by itself is seen");
	check_message(&msg, "load leaving ended by itself");
	memset(&msg, 0, sizeof(msg));
	tap_check(load_set_check(set, 0, NULL, NULL, &msg) == -EIO, "and is seen again");
	check_message(&msg, "load leaving ended by itself");
	load_set_free(set);

	board->error = EAGAIN;
	set = start("leaving");
	atomic_store_release(&board->go, 1);
	tap_check(check_until_end(set) == -EIO, "one that ends with an error is seen");
	check_message(&msg, "load leaving failed: Resource temporarily unavailable");
	tap_check(!strcmp(msg.remedy, "raise the limit of processes (ulimit -u)"), "%s",
		  msg.remedy);
	load_set_free(set);
	board->error = 0;

	set = start("family");
	kill(seen.groups[0], SIGKILL);
	check_end(set, "a leader that is killed is seen", "load family was killed by signal 9");
	tap_check(no_children(), "its processes are gone");

	set = start("family");
	kill(board->child, SIGTERM);
	check_end(set, "a child that is killed is seen",
		  "load family: one of its processes was killed by signal 15");
	tap_check(no_children(), "all processes are gone");
}

static void test_stop(void)
{
	struct load_set *set;
	int reaper = -1;

	set = start("family,orphan");
	tap_check(seen.started == 2 && seen.groups[0] != seen.groups[1], "a group for each load");
	tap_check(getpgid(board->orphan) == seen.groups[1], "an orphan stays in its group");
	prctl(PR_GET_CHILD_SUBREAPER, &reaper);
	tap_check(reaper == 1, "while loads run, orphans come to the agent");
	tap_check(!load_set_stop(set), "all are stopped");
	tap_check(kill(board->orphan, 0) && errno == ESRCH, "the orphan is gone, not a zombie");
	tap_check(kill(board->child, 0) && errno == ESRCH, "so is a leader's child");
	tap_check(kill(board->grandchild, 0) && errno == ESRCH, "and its grandchild");
	tap_check(no_children(), "none is left");
	prctl(PR_GET_CHILD_SUBREAPER, &reaper);
	tap_check(reaper == 0, "afterwards orphans go where they went before");
	tap_check(!load_set_stop(set), "to stop twice does no harm");
	board->done = 0;
	tap_check(!load_set_start(set, NULL, NULL, NULL, NULL, &msg), "and it can be restarted");
	load_set_free(set);
	tap_check(no_children(), "to free it stops it");
}

static void test_deserter(void)
{
	struct load_set *set;
	pid_t other = fork(); /* as the guardian */

	if (!other)
		for (;;)
			pause();
	set = start("deserter,cpu");
	tap_check(getpgid(board->orphan) == board->orphan, "one left its group");
	tap_check(!load_set_stop(set), "all are stopped");
	tap_check(!exists(board->orphan), "the one that left, too");
	tap_check(!waitpid(other, NULL, WNOHANG), "a process outside the loads stays");
	load_set_free(set);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	tap_check(no_children(), "none is left");
}

/* The agent may have been started with many children. */
static void test_many_others(void)
{
	struct load_set *set;
	pid_t others[20];
	size_t stayed = 0;

	for (size_t i = 0; i < COUNT(others); i++) {
		others[i] = fork();
		if (!others[i])
			for (;;)
				pause();
	}
	set = try_start("cpu", NULL);
	tap_check(set && !load_set_stop(set), "loads with %zu other children", COUNT(others));
	load_set_free(set);
	for (size_t i = 0; i < COUNT(others); i++) {
		stayed += !waitpid(others[i], NULL, WNOHANG);
		kill(others[i], SIGKILL);
		waitpid(others[i], NULL, 0);
	}
	tap_check(stayed == COUNT(others), "%zu of them stay", stayed);
}

struct labels {
	char text[256];
};

static void see_label(void *arg, const char *load, const char *unit, uint64_t count,
		      int64_t from_ns, int64_t to_ns)
{
	struct labels *labels = arg;
	size_t used = strlen(labels->text);

	snprintf(labels->text + used, sizeof(labels->text) - used, "%s ", load);
}

/* Work of several loads with one name is told apart. */
static void test_labels(void)
{
	struct labels labels = { "" };
	struct load_set *set = start("cpu:per-cpu=2:restart=1h,cpu,counting:restart=1h");

	load_set_check(set, 0, see_label, &labels, &msg);
	tap_check(!strcmp(labels.text, "cpu:per-cpu=2:restart=1h cpu counting "), "%s",
		  labels.text);
	load_set_free(set);
}

/* ---- schedules ---- */

static void wait_for_starts(struct load_set *set, uint32_t starts)
{
	struct message msg = { 0 };

	while (*(volatile uint32_t *)&board->starts < starts &&
	       !load_set_check(set, 0, NULL, NULL, &msg))
		sleep_ms(1);
}

static void test_restart(const char *text)
{
	struct load_set *set = start(text);

	wait_for_starts(set, 4);
	tap_check(board->starts >= 4, "%s is restarted repeatedly", text);
	tap_check(!board->survivors, "after all of the phase before has gone");
	while (!seen.count && !load_set_check(set, 0, see_work, NULL, &msg))
		sleep_ms(1);
	tap_check(seen.count >= 1, "its work is counted on");
	tap_check(getpgid(board->leader) == seen.groups[0] || !exists(board->leader),
		  "all in the group of the first");
	check_stop(set, "all of it stops");
}

/* Work of the load @arg since the last check, added up. */
struct shares {
	uint64_t sched;
	uint64_t cpu;
};

static void see_share(void *arg, const char *load, const char *unit, uint64_t count,
		      int64_t from_ns, int64_t to_ns)
{
	struct shares *shares = arg;

	*(strcmp(load, "sched") ? &shares->cpu : &shares->sched) += count;
}

static void test_turns(void)
{
	struct shares shares = { 0 };
	struct load_set *set;
	uint64_t messages = 0;
	bool alone = false;
	int err = 0;

	set = start("sched:groups=1:fds=2:count=20000,cpu:count=4000000000");
	load_set_check(set, 0, see_share, &shares, &msg); /* both were started once */
	shares = (struct shares){ 0 };
	/* both work for a moment when they are started, for longer on a busy machine: wait until one
	   works alone */
	for (int i = 0; i < 4000 && !err && !alone; i++) {
		messages = shares.sched;
		shares.cpu = 0;
		for (int ms = 0; ms < 5 && !err; ms++) {
			err = load_set_check(set, 0, see_share, &shares, &msg);
			sleep_ms(1);
		}
		alone = !shares.cpu && shares.sched > messages;
	}
	tap_check(!err && alone, "one rests while the other works");
	/* on a busy machine the last messages may come after the first work of the other */
	for (int i = 0; alone && i < 10; i++) {
		messages = shares.sched;
		shares.cpu = 0;
		while (!err && !shares.cpu) {
			err = load_set_check(set, 0, see_share, &shares, &msg);
			sleep_ms(1);
		}
		if (shares.sched == messages)
			break;
	}
	tap_check(!err && shares.sched == messages, "and the other rests while it works");
	/* those that were done before the first check are not seen */
	tap_check(messages >= 15000, "its turn lasted until %llu messages were done",
		  (unsigned long long)messages);
	check_stop(set, "and nothing of them stays");

	set = start("sched:groups=1:fds=2:count=200,cpu:count=1:rest=1ms");
	shares = (struct shares){ 0 };
	while (!err && (shares.sched < 2000 || shares.cpu < 4)) {
		err = load_set_check(set, 0, see_share, &shares, &msg);
		sleep_ms(1);
	}
	tap_check(!err, "and the first begins again");
	load_set_free(set);
}

/* Check as if @seconds went by, once for each. */
static int check_seconds(struct load_set *set, int64_t from_ns, int seconds)
{
	int err = 0;

	for (int i = 1; i <= seconds && !err; i++)
		err = load_set_check(set, from_ns + i * NSEC_PER_SEC, NULL, NULL, &msg);
	return err;
}

static void test_pause(void)
{
	struct load_set *set = start("phases:cycle=2h:from=1h");
	int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	tap_check(board->starts == 1, "what begins later is tried at the start");
	while (exists(board->leader) || exists(board->child) || exists(board->grandchild))
		sleep_ms(1);
	load_set_check(set, now_ns, NULL, NULL, &msg);
	tap_check(!check_seconds(set, now_ns, 60), "a pause is not a stall");
	tap_check(board->starts == 1 && exists(seen.groups[0]), "the supervisor waits");
	load_set_free(set);
	tap_check(no_children(), "and ends on request");

	set = start("counting:restart=1h");
	load_set_check(set, now_ns, NULL, NULL, &msg);
	tap_check(check_seconds(set, now_ns, 60) == -EIO, "no work while it should is a stall");
	load_set_free(set);
}

static void test_phase_deaths(void)
{
	struct load_set *set;

	set = start("phases:restart=1h");
	kill(board->leader, SIGKILL);
	check_end(set, "a killed sub-leader is seen",
		  "load phases: one of its processes was killed by signal 9");
	tap_check(no_children(), "nothing is left of it");

	set = start("phases:restart=1h");
	kill(board->child, SIGKILL);
	check_end(set, "so is a killed child of it",
		  "load phases: one of its processes was killed by signal 9");

	set = start("phases:restart=1h");
	kill(seen.groups[0], SIGKILL);
	check_end(set, "and a killed supervisor", "load phases was killed by signal 9");
	tap_check(no_children() && !exists(board->grandchild), "nothing is left of it");

	board->fails_at = 2;
	set = start("phases:restart=10ms");
	check_end(set, "a start that fails later is seen", "load phases: there is no room");
	board->fails_at = 1;
	tap_check(!try_start("phases:restart=10ms", NULL), "one at once, too");
	check_message(&msg, "load phases: there is no room");
	tap_check(no_children(), "nothing is left of it");
	board->fails_at = 0;
}

/* ---- a command ---- */

static struct load_set *start_command(const char *text)
{
	struct load_set *set;

	memset(&seen, 0, sizeof(seen));
	memset(&msg, 0, sizeof(msg));
	if (load_set_parse(&set, "idle", loads, &msg))
		return NULL;
	if (!load_set_add_command(set, &load_command, text, false, &msg) &&
	    !load_set_start(set, NULL, NULL, see_started, NULL, &msg))
		return set;
	load_set_free(set);
	return NULL;
}

static void test_command(const char *text)
{
	struct load_set *set = started(start_command(text));

	while (seen.count < 50 && !load_set_check(set, 0, see_work, NULL, &msg))
		sleep_ms(10);
	tap_check(seen.count >= 50 && !strcmp(seen.load, "command"), "time counts: %s", text);
	check_stop(set, "all of it stops");
}

/* Its leader is in no group of its own: it is waited for all the same, also without /proc. */
static void test_command_without_proc(void)
{
	struct load_set *set;
	bool gone;

	if (geteuid() || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
		return tap_skip("it may not mount", "a command without /proc");
	set = started(start_command("exec sleep 7777"));
	mount("none", "/proc", "tmpfs", 0, NULL);
	load_set_stop(set);
	gone = no_children();
	umount2("/proc", MNT_DETACH);
	tap_check(gone, "nothing is left of a command where there is no /proc");
	load_set_free(set);
}

static void test_resting_command(void)
{
	struct load_set *set = started(start_command("exec sleep 7777"));
	int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	load_set_check(set, now_ns, NULL, NULL, &msg);
	tap_check(!check_seconds(set, now_ns, 60), "a command may rest");
	load_set_free(set);
	tap_check(no_children(), "and is stopped");
	tap_check(!start_command("echo 'a\tb' >&2; exit 9"),
		  "one that ends at once does not start");
	check_message(&msg, "load command: ended by itself with exit status 9: a?b");
	tap_check(no_children(), "nothing is left of it");
}

/* In the leader: no process more may be started. */
static void forbid_forks(void *arg)
{
	const struct rlimit none = { 0, 0 };

	setpriority(PRIO_PROCESS, 0, 0); /* of these tests, while it is allowed */
	setrlimit(RLIMIT_NPROC, &none);
	if (!geteuid() && setresuid(65534, 65534, 65534))
		_exit(EPERM);
}

static void test_no_fork(const char *text, const char *said)
{
	struct load_set *set;
	struct message msg = { 0 };

	if (load_set_parse(&set, text, loads, &msg))
		return (void)tap_check(false, "%s", msg.text);
	tap_check(load_set_start(set, NULL, forbid_forks, NULL, NULL, &msg) == -EAGAIN,
		  "%s cannot start without processes", text);
	tap_check(!strncmp(msg.text, said, strlen(said)), "%s", msg.text);
	tap_check(!strcmp(msg.remedy, "raise the limit of processes (ulimit -u)"), "remedy");
	tap_check(no_children(), "nothing is left of it");
	load_set_free(set);
}

/* In the leader: an agent without privileges that was started with nice. */
static void be_nice(void *arg)
{
	if (setpriority(PRIO_PROCESS, 0, 5) || (!geteuid() && setresuid(65534, 65534, 65534)))
		_exit(EPERM);
}

/* The same with a policy that it may not leave. */
static void be_idle(void *arg)
{
	const struct rlimit none = { 0, 0 };
	const struct sched_param zero = { 0 };

	setrlimit(RLIMIT_NICE, &none);
	if (syscall(SYS_sched_setscheduler, 0, 5 /* SCHED_IDLE */, &zero))
		_exit(EPERM);
	be_nice(arg);
}

static void test_nice(void)
{
	struct load_set *set;
	struct message msg = { 0 };

	if (load_set_parse(&set, "cpu", loads, &msg))
		return (void)tap_check(false, "%s", msg.text);
	tap_check(!load_set_start(set, NULL, NULL, NULL, NULL, &msg) && !load_set_nice(set),
		  "a load runs with nice 0");
	load_set_stop(set);
	tap_check(!load_set_start(set, NULL, be_nice, NULL, NULL, &msg) && load_set_nice(set) == 5,
		  "or with the nice value that it may not leave, and tells it");
	load_set_stop(set);
	tap_check(load_set_start(set, NULL, be_idle, NULL, NULL, &msg) == -EPERM,
		  "a load that would be idle is refused");
	check_message(&msg, "load cpu: not permitted to run as an ordinary process");
	load_set_free(set);
}

/* An agent that is killed while it waits for a load that is not ready. */
static void test_killed_start(const char *text)
{
	pid_t agent;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	board->go = 0;
	agent = fork();
	if (!agent) {
		try_start(text, NULL);
		_exit(0);
	}
	wait_for(&board->go);
	kill(agent, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		;
	tap_check(errno == ECHILD, "killed while %s starts, it takes all along", text);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}

static int start_late(void (*started)(void *arg, pid_t pgid), struct message *msg)
{
	struct load_set *set;
	int err = load_set_parse(&set, "late", loads, msg);

	if (err)
		return err;
	set->ready_ns = NSEC_PER_SEC;
	err = load_set_start(set, NULL, NULL, started, NULL, msg);
	load_set_free(set);
	return err;
}

static void stand_still(void *arg, pid_t pgid)
{
	raise(SIGSTOP);
}

static void check_standstill(void (*started)(void *arg, pid_t pgid), const char *when)
{
	struct message msg = { 0 };
	int status = -1;
	pid_t agent;

	board->go = 0;
	board->done = 0;
	agent = fork();
	if (!agent)
		_exit(-start_late(started, &msg));
	if (!started) {
		wait_for(&board->done);
		kill(agent, SIGSTOP);
	}
	waitpid(agent, &status, WUNTRACED);
	sleep_ms(1500);
	kill(agent, SIGCONT);
	sleep_ms(100);
	atomic_store_release(&board->go, 1);
	waitpid(agent, &status, 0);
	tap_check(!status, "an agent that stood still %s waits on: %d", when, status);
}

/* A load that is not ready in time, and an agent that stands still while it waits, or just before, as
 * all does in a virtual machine that its host suspends. */
static void test_late(void)
{
	struct message msg = { 0 };

	board->go = 0;
	tap_check(start_late(NULL, &msg) == -ETIMEDOUT, "a load may be late");
	check_message(&msg, "load late was not ready after 1 s");
	check_standstill(NULL, "while it waited");
	check_standstill(stand_still, "before it waited");
}

/* An agent that is killed with -9: its loads die with it. Their processes come to this one, which
 * waits for them; what stays alive ends in the watchdog. */
static void test_killed_agent(void)
{
	pid_t agent;
	int reaped = 0;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	board->forked = 0;
	agent = fork();
	if (!agent) {
		struct load_set *set =
			try_start("family,sched:groups=1:fds=2:restart=1h,cpu", NULL);

		board->forked = set ? 2 : 1;
		atomic_store_release(&board->go, 1);
		for (;;)
			pause();
	}
	board->go = 0;
	while (!atomic_load_acquire(&board->go))
		sleep_ms(1);
	tap_check(board->forked == 2, "an agent started its loads");
	kill(agent, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		reaped++;
	tap_check(errno == ECHILD && reaped >= 1 + 3 + 6 + 2, "killed, it takes all of them along");
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* ---- the state a load begins in ---- */

static void test_state(void)
{
	struct sched_param priority = { .sched_priority = 5 };
	struct cpulist one = { 0 };
	struct cpulist allowed;
	struct load_set *set;
	sigset_t term;
	int file = open("/dev/zero", O_RDONLY);
	int adjusted = read_number_from("/proc/self/oom_score_adj");

	cpulist_allowed(&allowed);
	cpulist_add(&one, cpulist_next(&allowed, 0));
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	if (syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &priority))
		printf("# not allowed to be SCHED_FIFO: that a load drops it is not tested\n");
	board->forked = 0;
	set = try_start("state", &one);
	priority.sched_priority = 0;
	syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &priority);
	sigprocmask(SIG_UNBLOCK, &term, NULL);
	signal(SIGPIPE, SIG_DFL);
	close(file);
	if (!set)
		return (void)tap_check(false, "%s", msg.text);
	tap_check(board->policy == SCHED_OTHER && board->nice == 0, "SCHED_OTHER, nice 0");
	tap_check(board->group == seen.groups[0], "in the reported group");
	tap_check(board->forked == (uint32_t)board->group, "forked() was called in the child");
	tap_check(board->parent == getpid(), "a child of the agent");
	tap_check(!board->signals_changed && !board->signals_blocked, "signals at their defaults");
	tap_check(board->streams_null == 3, "standard streams at /dev/null");
	tap_check(!board->files_open, "no other file is open");
	tap_check(board->oom_score_adj == 1000, "first to go when memory runs out");
	tap_check(read_number_from("/proc/self/oom_score_adj") == adjusted, "unlike the agent");
	tap_check(board->death_signal == SIGKILL, "dies with the agent");
	tap_check(!memcmp(&board->cpus, &one, sizeof(one)), "on the CPUs of the load");
	tap_check(!strcmp(board->name, "load/state"), "named as the load");
	load_set_free(set);
}

static void test_cpus(void)
{
	struct cpulist list = { 0 };

	cpulist_add(&list, CPULIST_MAX - 1);
	tap_check(!try_start("cpu", &list), "a CPU that is not online is refused");
	check_message(&msg, "the load cannot run on CPU 4095");
	tap_check(!strncmp(msg.remedy, "use online CPUs: ", 17), "%s", msg.remedy);
}

int main(void)
{
	alarm(WATCHDOG_S);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (board == MAP_FAILED)
		return 1;
	test_count(1, 0, 1);
	test_count(3, 0xfffffff0U, 100);
	test_count(3, ULONG_MAX - 15, 100);
	/* between two looks, and no more than fits where a counter has 32 bits */
	test_count(2, 0, (unsigned long)UINT32_MAX + 10);
	test_count(LOAD_COUNTERS_MAX, 0x80000000U, 0x00100001U);
	test_stall();
	test_failing();
	test_deaths();
	test_stop();
	test_deserter();
	test_many_others();
	test_labels();
	test_restart("phases:restart=10ms");
	test_restart("phases:cycle=20ms");
	test_restart("phases:cycle=30ms:from=10ms:until=20ms");
	test_restart("phases:cycle=30ms:restart=10ms");
	test_pause();
	test_turns();
	test_phase_deaths();
	test_no_fork("phases:restart=1h", "load phases: cannot restart it: ");
	test_no_fork("cpu", "load cpu: cannot start a process: ");
	test_command("while :; do :; done");
	test_command("i=0; while :; do (while [ $i -lt 9999 ]; do i=$((i+1)); done); done");
	test_command("(setsid sh -c 'while :; do :; done' &); exec sleep 7777");
	test_resting_command();
	test_nice();
	test_late();
	test_killed_start("stuck");
	test_killed_start("stuck:restart=1h");
	test_killed_agent();
	test_state();
	test_cpus();
	test_command_without_proc();
	return tap_end();
}
