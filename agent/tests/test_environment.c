// SPDX-License-Identifier: Apache-2.0
/*
 * Tests of environment.c: on this machine, against limits, and in a made-up root folder with the
 * files of a large server and of files that would hang, overflow or mislead. Prints TAP.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "system/environment.h"
#include "tap.h"

#define FACTS_MAX 20000
#define FACT_MAX 60000

struct facts {
	struct fact *list;
	size_t count;
	size_t size; /* of all names and values */
	size_t stop; /* the sink refuses after so many */
};

static int keep(void *arg, const struct fact *fact)
{
	struct facts *facts = arg;
	struct fact *copy = &facts->list[facts->count];
	char *data;

	if (facts->stop && facts->count == facts->stop)
		return 42;
	if (facts->count == FACTS_MAX)
		return -E2BIG;
	data = malloc(fact->size + 1);
	if (fact->size)
		memcpy(data, fact->data, fact->size);
	data[fact->size] = '\0';
	*copy = *fact;
	copy->name = strdup(fact->name);
	copy->data = data;
	facts->count++;
	facts->size += strlen(fact->name) + fact->size + 16;
	return 0;
}

static int collect(struct facts *facts, bool everything)
{
	facts->list = calloc(FACTS_MAX, sizeof(*facts->list));
	return environment_collect(everything, keep, facts);
}

static void drop(struct facts *facts)
{
	for (size_t i = 0; i < facts->count; i++) {
		free((void *)facts->list[i].name);
		free((void *)facts->list[i].data);
	}
	free(facts->list);
	memset(facts, 0, sizeof(*facts));
}

static const struct fact *find(const struct facts *facts, const char *name)
{
	for (size_t i = 0; i < facts->count; i++) {
		if (!strcmp(facts->list[i].name, name))
			return &facts->list[i];
	}
	return NULL;
}

static bool is_null(const struct facts *facts, const char *name)
{
	const struct fact *fact = find(facts, name);

	return fact && fact->type == FACT_NULL;
}

static bool is_text(const struct facts *facts, const char *name, const char *text)
{
	const struct fact *fact = find(facts, name);

	return fact && fact->type == FACT_TEXT && !strcmp(fact->data, text) &&
	       fact->size == strlen(text);
}

static bool is_integer(const struct facts *facts, const char *name, int64_t number)
{
	const struct fact *fact = find(facts, name);

	return fact && fact->type == FACT_INTEGER && fact->number == number;
}

/* What holds for all facts everywhere. */
static bool well_formed(const struct facts *facts)
{
	for (size_t i = 0; i < facts->count; i++) {
		const struct fact *fact = &facts->list[i];

		if (fact->size > FACT_MAX || !*fact->name)
			return false;
		if (fact->type == FACT_TEXT && fact->size && fact->data[fact->size - 1] == '\n')
			return false;
		if ((fact->type == FACT_NULL || fact->type == FACT_INTEGER) && fact->size)
			return false;
		for (size_t j = 0; j < i; j++) {
			if (!strcmp(fact->name, facts->list[j].name))
				return false;
		}
	}
	return true;
}

static int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

/* End a child: what it still holds does not count as a leak. */
static void leave(bool good)
{
	fflush(stdout);
	_exit(good ? 0 : 1);
}

/* Run @function in a child; its failures are ours. It may change what it likes there. */
static void in_child(const char *what, bool (*function)(void))
{
	int status = 0;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		alarm(20); /* a hang is a failure too */
		leave(function());
	}
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		tap_skip("this user may not", "%s", what);
	else
		tap_check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s", what);
}

/* In a child: say which expectation failed. */
static bool expect(bool good, const char *what)
{
	if (!good)
		printf("# failed: %s\n", what);
	return good;
}
#define EXPECT(condition) expect(condition, #condition)

static void test_this_machine(void)
{
	int before = open_files();
	struct facts facts = { 0 }, all = { 0 };
	struct timespec resolution;
	struct utsname uts;

	uname(&uts);
	clock_getres(CLOCK_MONOTONIC, &resolution);
	tap_check(collect(&facts, false) == 0, "collect");
	tap_check(collect(&all, true) == 0, "collect everything");
	tap_check(open_files() == before, "no file is left open");
	tap_check(well_formed(&facts) && well_formed(&all),
		  "names are unique, values within limits");
	tap_check(is_text(&facts, "uname.release", uts.release), "release");
	tap_check(is_text(&facts, "uname.machine", uts.machine), "machine");
	tap_check(is_integer(&facts, "agent.clock_getres_ns",
			     resolution.tv_sec * 1000000000LL + resolution.tv_nsec),
		  "resolution of the clock");
	tap_check(is_integer(&facts, "agent.cpus_online", sysconf(_SC_NPROCESSORS_ONLN)),
		  "number of CPUs");
	tap_check(is_integer(&facts, "agent.uid", geteuid()), "user");
	tap_check(find(&facts, "agent.fifo") != NULL, "SCHED_FIFO was tried");
	/* musl's function for this is a stub */
	tap_check(syscall(SYS_sched_getscheduler, 0) == SCHED_OTHER,
		  "and the caller was left as it was");
	tap_check(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "no child is left");
	tap_check(!find(&facts, "/proc/config.gz") && find(&all, "/proc/config.gz"),
		  "the configuration only with everything");
	drop(&facts);
	drop(&all);
}

static void test_stop(void)
{
	struct facts facts = { .stop = 17 };

	tap_check(collect(&facts, false) == 42 && facts.count == 17,
		  "the sink's refusal ends it and is returned");
	drop(&facts);
}

static bool without_files(void)
{
	struct rlimit limit = { 3, 3 };
	struct facts facts = { 0 };

	setrlimit(RLIMIT_NOFILE, &limit);
	return EXPECT(collect(&facts, true) == 0) && EXPECT(well_formed(&facts)) &&
	       EXPECT(is_null(&facts, "/proc/version")) &&
	       EXPECT(is_text(&facts, "/proc/version.error", strerror(EMFILE))) &&
	       EXPECT(find(&facts, "agent.clock_getres_ns") != NULL);
}

static bool without_children(void)
{
	struct facts facts = { 0 };

	signal(SIGCHLD, SIG_IGN);
	return EXPECT(collect(&facts, false) == 0) && EXPECT(is_null(&facts, "agent.fifo"));
}

static bool without_rights(void)
{
	struct rlimit limit = { 0, 0 };
	struct facts facts = { 0 };

	if (geteuid())
		_exit(77);
	setrlimit(RLIMIT_RTPRIO, &limit);
	if (setuid(65534))
		_exit(77);
	return EXPECT(collect(&facts, false) == 0) && EXPECT(well_formed(&facts)) &&
	       EXPECT(is_integer(&facts, "agent.fifo", EPERM)) &&
	       EXPECT(!find(&facts, "agent.fifo_priority")) &&
	       EXPECT(is_integer(&facts, "agent.rlimit_rtprio", 0)) &&
	       EXPECT(is_integer(&facts, "agent.uid", 65534));
}

static bool limited_priority(void)
{
	struct rlimit limit = { 7, 9 };
	struct facts facts = { 0 };

	if (geteuid() || setrlimit(RLIMIT_RTPRIO, &limit) || setuid(65534))
		_exit(77);
	if (sched_get_priority_max(SCHED_FIFO) < 7 || collect(&facts, false))
		return false;
	if (is_integer(&facts, "agent.fifo", EPERM))
		_exit(77); /* the control group grants no real-time runtime */
	return EXPECT(is_integer(&facts, "agent.fifo", 0)) &&
	       EXPECT(is_integer(&facts, "agent.fifo_priority", 7)) &&
	       EXPECT(is_integer(&facts, "agent.rlimit_rtprio", 7)) &&
	       EXPECT(is_integer(&facts, "agent.rlimit_rtprio_hard", 9));
}

/* A made-up root folder. */

static void put_file(const char *root, const char *path, const char *data, size_t size)
{
	char full[512];
	int fd;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *slash = strchr(full + strlen(root) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(full, 0755);
		*slash = '/';
	}
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
		printf("Bail out! cannot write %s: %s\n", full, strerror(errno));
		exit(1);
	}
	close(fd);
}

__attribute__((format(printf, 3, 4))) static void put_line(const char *root, const char *path,
							   const char *format, ...)
{
	char line[8192];
	va_list arguments;
	int size;

	va_start(arguments, format);
	size = vsnprintf(line, sizeof(line) - 1, format, arguments);
	va_end(arguments);
	line[size++] = '\n';
	put_file(root, path, line, size);
}

static void remove_tree(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char below[PATH_MAX];

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
		if (unlink(below))
			remove_tree(below);
	}
	if (dir)
		closedir(dir);
	rmdir(path);
}

/* Make a root folder with @fill and look at it with @look from inside, in a child. */
static bool in_root(void (*fill)(const char *root), bool (*look)(void))
{
	char root[] = "/tmp/rtgauge-test-XXXXXX";
	int status = 0;
	pid_t child;

	if (!mkdtemp(root))
		return false;
	fill(root);
	child = fork();
	if (!child) {
		alarm(20);
		if (chroot(root) && (unshare(CLONE_NEWUSER) || chroot(root)))
			_exit(77);
		if (chdir("/"))
			_exit(1);
		leave(look());
	}
	waitpid(child, &status, 0);
	remove_tree(root);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		_exit(77);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#define CPU "/sys/devices/system/cpu/"

/* A process as proc(5) has it, field by field. */
static void put_task(const char *root, int pid, const char *name, int parent, int priority,
		     int policy)
{
	char path[64], between[256] = "";

	for (int field = 5; field < 40; field++)
		strcat(between, field % 2 ? "4194560 " : "-1 ");
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	put_line(root, path, "%d (%s) S %d %s%d %d 0 0 0", pid, name, parent, between, priority,
		 policy);
}

/* A second thread that runs in real time, on some of the CPUs. */
static void put_thread(const char *root, int pid, int thread)
{
	char path[64], between[256] = "";

	for (int field = 5; field < 40; field++)
		strcat(between, field == 20 ? "2 " : "1 ");
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	put_line(root, path, "%d (sound) S 1 %s0 0 0", pid, between);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, pid);
	put_line(root, path, "%d (sound) S 1 %s0 0 0", pid, between);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, thread);
	put_line(root, path, "%d (data loop) S 1 %s95 1 0", thread, between);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, thread);
	put_line(root, path, "Name:\tdata loop\nCpus_allowed_list:\t2-3\nSeccomp: 0");
}

static void fill_server(const char *root)
{
	static const char *const states[] = { "POLL", "C1", "C1E", "C6" };
	char path[256], cpuinfo[100000];
	size_t size = 0;

	put_line(root, CPU "possible", "0-127");
	put_line(root, CPU "online", "0-127");
	for (int cpu = 0; cpu < 128; cpu++) {
		snprintf(path, sizeof(path), CPU "cpu%d/cpufreq/scaling_governor", cpu);
		put_line(root, path, "%s", cpu == 3 ? "performance" : "schedutil");
		snprintf(path, sizeof(path), CPU "cpu%d/cpufreq/scaling_cur_freq", cpu);
		put_line(root, path, "%d", 2000000 + 1000 * cpu);
		snprintf(path, sizeof(path), CPU "cpu%d/thermal_throttle/core_throttle_count", cpu);
		put_line(root, path, "9");
		snprintf(path, sizeof(path), CPU "cpu%d/topology/thread_siblings_list", cpu);
		put_line(root, path, "%d,%d", cpu % 64, cpu % 64 + 64);
		for (int state = 0; state < 4; state++) {
			snprintf(path, sizeof(path), CPU "cpu%d/cpuidle/state%d/name", cpu, state);
			put_line(root, path, "%s", states[state]);
			/* no two neighbours alike: the longest lists */
			snprintf(path, sizeof(path), CPU "cpu%d/cpuidle/state%d/disable", cpu,
				 state);
			put_line(root, path, "%d", cpu % 2);
		}
		size += snprintf(cpuinfo + size, sizeof(cpuinfo) - size,
				 "processor\t: %d\nmodel name\t: A server\nflags\t\t: %0500d\n\n",
				 cpu, 0);
	}
	put_file(root, "/proc/cpuinfo", cpuinfo, size);
	put_line(root, "/proc/sys/kernel/sched_rt_runtime_us", "-1");
	put_line(root, "/proc/sys/kernel/sched_zz", "z");
	put_line(root, "/proc/sys/kernel/sched_aa", "a");
	put_line(root, "/proc/sys/kernel/other", "x");
	put_line(root, CPU "vulnerabilities/meltdown", "Not affected");
	put_line(root, CPU "vulnerabilities/l1tf", "Mitigation: PTE Inversion");
	put_line(root, "/proc/irq/7/smp_affinity_list", "0-3");
	put_line(root, "/proc/irq/24/smp_affinity_list", "2");
	put_line(root, "/proc/irq/default_smp_affinity", "f");
	put_line(root, "/sys/kernel/irq/24/actions", "eth0-rx,eth1");
	put_task(root, 2, "kthreadd", 0, 0, 0);
	put_task(root, 31, "irq/24-a) b (c", 2, 50, SCHED_FIFO);
	put_task(root, 32, "deadline", 1, 0, SCHED_DEADLINE);
	put_task(root, 33, "two\nlines", 7, 1, SCHED_RR);
	put_task(root, 34, "batch", 7, 0, SCHED_BATCH);
	put_task(root, 41, "irqbalance", 1, 0, 0);
	put_task(root, 42, "tuned", 1, 0, 0);
	put_task(root, 43, "tuned", 1, 0, 0);
	put_thread(root, 50, 51);
	put_line(root, "/proc/35/stat", "35 (cut short) S 2 0");
	put_line(root, "/proc/36/stat", ")(");
	put_line(root, "/proc/meminfo", "MemTotal: 1 kB\nMemFree: 2 kB\nSwapTotal: 3 kB");
	put_line(root, "/proc/stat", "cpu  1 2\ncpu0 1 2\nintr %02000d\nctxt 5", 0);
}

static bool look_at_server(void)
{
	struct facts facts = { 0 };
	char name[128];
	const struct fact *cpuinfo, *fact;
	bool good = EXPECT(collect(&facts, true) == 0) && EXPECT(well_formed(&facts)) &&
		    EXPECT(facts.size < 100000);

	cpuinfo = find(&facts, "/proc/cpuinfo");
	good = EXPECT(cpuinfo && cpuinfo->size < 600 && strstr(cpuinfo->data, "A server") &&
		      !strstr(cpuinfo->data, "processor\t: 1")) &&
	       good;
	for (int core = 0; core < 64; core++) {
		char siblings[16];

		snprintf(name, sizeof(name), CPU "cpu{%d,%d}/topology/thread_siblings_list", core,
			 core + 64);
		snprintf(siblings, sizeof(siblings), "%d,%d", core, core + 64);
		good = EXPECT(is_text(&facts, name, siblings)) && good;
	}
	return EXPECT(is_text(&facts, CPU "cpu{0-2,4-127}/cpufreq/scaling_governor",
			      "schedutil")) &&
	       EXPECT(is_text(&facts, CPU "cpu3/cpufreq/scaling_governor", "performance")) &&
	       EXPECT(is_text(&facts, CPU "cpu127/cpufreq/scaling_cur_freq", "2127000")) &&
	       EXPECT(is_null(&facts, CPU "cpu{0-127}/cpufreq/scaling_driver")) &&
	       EXPECT(is_text(&facts, CPU "cpu{0-127}/cpuidle/state3/name", "C6")) &&
	       EXPECT(!find(&facts, CPU "cpu{0-127}/cpuidle/state4/name")) &&
	       EXPECT(is_null(&facts, CPU "cpu{0-127}/cpuidle/state0/latency")) &&
	       EXPECT(is_text(&facts, "/proc/sys/kernel/sched_aa", "a")) &&
	       EXPECT(is_text(&facts, "/proc/sys/kernel/sched_rt_runtime_us", "-1")) &&
	       EXPECT(!find(&facts, "/proc/sys/kernel/other")) &&
	       EXPECT((fact = find(&facts, CPU "vulnerabilities")) &&
		      strstr(fact->data, "l1tf=Mitigation: PTE Inversion") &&
		      strstr(fact->data, "meltdown=Not affected") && fact->size == 52) &&
	       EXPECT((fact = find(&facts, "/proc/irq/*/smp_affinity_list")) &&
		      strstr(fact->data, "7=0-3") && strstr(fact->data, "24=2") &&
		      !strstr(fact->data, "default") && fact->size == 10) &&
	       EXPECT(is_null(&facts, "/proc/irq/*/effective_affinity_list")) &&
	       EXPECT(is_text(&facts, "/sys/kernel/irq/*/actions", "24=eth0-rx,eth1")) &&
	       EXPECT(is_text(&facts, CPU "cpu{0-127}/thermal_throttle/core_throttle_count",
			      "9")) &&
	       EXPECT((fact = find(&facts, "agent.realtime_tasks")) && fact->size == 73 &&
		      strstr(fact->data, "1 50 2 ? irq/24-a) b (c") &&
		      strstr(fact->data, "6 0 1 ? deadline") && strstr(fact->data, "2 1 7 ? two") &&
		      strstr(fact->data, "1 95 1 2-3 data loop")) &&
	       EXPECT((fact = find(&facts, "agent.daemons")) && fact->size == 16 &&
		      strstr(fact->data, "irqbalance") && strstr(fact->data, "tuned")) &&
	       EXPECT(is_text(&facts, "/proc/meminfo", "MemTotal: 1 kB\nSwapTotal: 3 kB")) &&
	       EXPECT(is_text(&facts, "/proc/stat", "cpu  1 2\ncpu0 1 2")) && good;
}

static void fill_hostile(const char *root)
{
	static const char compatible[] = "vendor,board\0vendor,soc";
	static char big[200000];
	char path[256];
	struct utsname uts;

	uname(&uts);
	put_line(root, CPU "possible", "0-9999999999,oops");
	put_line(root, CPU "online", "junk");
	/* a pipe without a writer, a folder, a link to itself, bytes that are not text */
	snprintf(path, sizeof(path), "%s/proc", root);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/proc/version", root);
	mkfifo(path, 0644);
	snprintf(path, sizeof(path), "%s/proc/uptime", root);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/proc/swaps", root);
	if (symlink("swaps", path))
		exit(1);
	put_file(root, "/proc/cmdline", "a=\xff\xfe b\n", 7);
	put_file(root, "/proc/loadavg", "\xed\xa0\x80", 3); /* a surrogate */
	put_file(root, "/sys/kernel/realtime", "\n", 1);
	put_file(root, "/proc/cpuinfo", "", 0);
	put_file(root, "/proc/device-tree/compatible", compatible, sizeof(compatible));
	put_file(root, "/proc/device-tree/serial-number", "10000000abcdef01", 17);
	/* 59999 bytes, then a character of three bytes across the limit */
	memset(big, 'x', sizeof(big));
	memcpy(big + FACT_MAX - 1, "\xe2\x82\xac", 3);
	put_file(root, "/sys/class/dmi/id/product_name", big, sizeof(big));
	memcpy(big, "\x1f\x8b", 2);
	put_file(root, "/proc/config.gz", big, sizeof(big));
	/* lines without end, and far more of them than a fact holds */
	memcpy(big, "cpu", 3);
	put_file(root, "/proc/stat", big, sizeof(big));
	snprintf(path, sizeof(path), "/boot/config-%s", uts.release);
	for (size_t i = 0; i + 20 <= sizeof(big); i += 20)
		memcpy(big + i, "CONFIG_HZ_XXXXXXX=y\n", 20);
	put_file(root, path, big, sizeof(big));
	put_line(root, "/proc/self/cgroup", "::::\n1:cpu\n2:cpuset,cpu:/../..\n0::/%0400d", 0);
}

static bool look_at_hostile(void)
{
	struct facts facts = { 0 };
	const struct fact *fact;
	struct utsname uts;
	char path[256];

	uname(&uts);
	snprintf(path, sizeof(path), "/boot/config-%s", uts.release);
	if (!EXPECT(collect(&facts, true) == 0) || !EXPECT(well_formed(&facts)))
		return false;
	fact = find(&facts, path);
	return EXPECT(fact && fact->size > FACT_MAX - 20 && fact->size <= FACT_MAX) &&
	       EXPECT(is_null(&facts, "/proc/version") && find(&facts, "/proc/version.error")) &&
	       EXPECT(is_null(&facts, "/proc/uptime") && find(&facts, "/proc/uptime.error")) &&
	       EXPECT(is_text(&facts, "/proc/swaps.error", strerror(ELOOP))) &&
	       EXPECT(is_null(&facts, "/proc/meminfo") && !find(&facts, "/proc/meminfo.error")) &&
	       EXPECT((fact = find(&facts, "/proc/cmdline")) && fact->type == FACT_BYTES &&
		      fact->size == 6) &&
	       EXPECT((fact = find(&facts, "/proc/loadavg")) && fact->type == FACT_BYTES) &&
	       EXPECT(is_text(&facts, "/sys/kernel/realtime", "")) &&
	       EXPECT(is_text(&facts, "/proc/cpuinfo", "")) &&
	       EXPECT(is_text(&facts, "/proc/device-tree/compatible",
			      "vendor,board\nvendor,soc")) &&
	       EXPECT(is_text(&facts, "/proc/device-tree/serial-number", "10000000abcdef01")) &&
	       EXPECT((fact = find(&facts, "/sys/class/dmi/id/product_name")) &&
		      fact->type == FACT_TEXT && fact->size == FACT_MAX - 1) &&
	       EXPECT(is_integer(&facts, "/sys/class/dmi/id/product_name.cut", FACT_MAX - 1)) &&
	       EXPECT((fact = find(&facts, "/proc/config.gz")) && fact->type == FACT_BYTES &&
		      fact->size == FACT_MAX) &&
	       EXPECT(is_integer(&facts, "/proc/config.gz.cut", FACT_MAX));
}

static void fill_nothing(const char *root)
{
}

static bool look_at_nothing(void)
{
	struct facts facts = { 0 };

	return EXPECT(collect(&facts, true) == 0) && EXPECT(well_formed(&facts)) &&
	       EXPECT(is_null(&facts, "/proc/version")) &&
	       EXPECT(!find(&facts, "/proc/version.error")) &&
	       EXPECT(find(&facts, "uname.release") != NULL);
}

static bool server(void)
{
	return in_root(fill_server, look_at_server);
}

static bool hostile(void)
{
	return in_root(fill_hostile, look_at_hostile);
}

static bool nothing(void)
{
	return in_root(fill_nothing, look_at_nothing);
}

int main(void)
{
	test_this_machine();
	test_stop();
	in_child("without file descriptors", without_files);
	in_child("with SIGCHLD ignored", without_children);
	in_child("without rights", without_rights);
	in_child("with a limited priority", limited_priority);
	in_child("a server of 128 CPUs", server);
	in_child("files that hang, overflow or mislead", hostile);
	in_child("no /proc, no /sys", nothing);
	return tap_end();
}
