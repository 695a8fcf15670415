// SPDX-License-Identifier: Apache-2.0
/*
 * Tests of the loads in loads/ through load.c, as the agent runs them: each works and counts, ends
 * when one of its processes does, refuses what cannot be, and leaves nothing. Prints TAP.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "catalogue.h"
#include "loads/load.h"
#include "tap.h"

extern const struct load load_sched;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define DEEP 3000      /* folders in folders */
#define WATCHDOG_S 300 /* ends a test that hangs, and with it its loads */

static const struct {
	const char *text;
	const char *unit;
	bool children; /* its leader has any that stay */
} works[] = {
	{ "net", "KiB", true },
	{ "net:burst=1ms:pause=1ms", "KiB", true },
	{ "net:burst=10s:pause=0", "KiB", true },
	{ "net:burst=1ms:pause=1h", "KiB", true }, /* a pause is not silent, so no stall */
	{ "copy", "copies", true },
	{ "copy:size=1:per-cpu=2", "copies", true },
	{ "walk", "entries", false },
	{ "walk:path=/proc/self:cross=yes", "entries", false },
	{ "walk:cross=yes:stat=no", "entries", false },
	{ "copy:size=512:per-cpu=0", "copies", false },
	{ "list", "programs", false },
	{ "list:program=/bin/sh", "programs", false },
	{ "cache", "lines", true },
	{ "cache:size=64KiB:per-cpu=2", "lines", true },
	{ "cache:size=1MiB:pattern=chase", "lines", true },
	{ "cache:size=1MiB:pattern=chase:per-cpu=0", "lines", false },
	{ "memory", "pages", true },
	{ "memory:size=64KiB", "pages", true },
	{ "fork", "processes", true },
	{ "timer", "timers", true },
	{ "timer:interval=1us:per-cpu=1", "timers", true },
};

static const struct {
	const char *text;
	const char *message;
	const char *remedy; /* NULL: whatever it is, there is one */
} refused[] = {
	{ "net:pause=7", "load net: pause '7' is not a duration", NULL },
	{ "net:peer=127.0.0.1", "load net: '127.0.0.1' is not the address of a peer",
	  "write ADDRESS/PORT, as in 192.168.0.10/9" },
	{ "net:peer=127.0.0.1/0", "load net: '127.0.0.1/0' is not the address of a peer", NULL },
	{ "net:peer=127.0.0.1/65536", "load net: '127.0.0.1/65536' is not the address of a peer",
	  NULL },
	{ "net:peer=127.0.0.1/9x", "load net: '127.0.0.1/9x' is not the address of a peer", NULL },
	{ "net:peer=127.0.0/9", "load net: '127.0.0/9' is not the address of a peer", NULL },
	{ "net:peer=1.2.3.4.5.6.7.8.9.10/9",
	  "load net: '1.2.3.4.5.6.7.8.9.10/9' is not the address of a peer", NULL },
	{ "copy:size=0", "load copy: size 0 is below its minimum 1", NULL },
	{ "copy:path=/nowhere", "load copy: cannot read /nowhere: No such file or directory",
	  "set path to a readable file that is not empty" },
	{ "copy:path=/dev/null", "load copy: cannot read /dev/null: No data available", NULL },
	{ "copy:path=/dev/tty",
	  "load copy: /dev/tty cannot be copied: it is a character device, a FIFO or a socket",
	  "set path to a file, a disk or /dev/zero" },
	{ "copy:path=/dev", "load copy: cannot read /dev: Is a directory",
	  "set path to a readable file that is not empty" },
	{ "walk:path=/nowhere", "load walk: cannot list /nowhere: No such file or directory",
	  "set path to a folder" },
	{ "list:program=/nowhere", "load list: /nowhere does not run",
	  "name a program by its path" },
	{ "list:program=/", "load list: / does not run", NULL },
	{ "cache:size=16KiB:pattern=chase",
	  "load cache: 16384 bytes of memory are too few, or cannot be allocated",
	  "give another size" },
	{ "cache:size=1KiB", "load cache: 1024 bytes of memory are too few, or cannot be allocated",
	  "give another size" },
	{ "fork:size=1KiB", "load fork: unknown option 'size'",
	  "choose from: per-cpu restart cycle from until count rest" },
	{ "disk:path=/nowhere", "load disk: cannot write in /nowhere: No such file or directory",
	  "reduce size, or set path to another folder" },
	{ "irq:per-cpu=1", "load irq: unknown option 'per-cpu'",
	  "choose from: restart cycle from until count rest" },
	{ "walk:path=/dev/null", "load walk: cannot list /dev/null: Not a directory", NULL },
	{ "sched:groups=2048:fds=2",
	  "load sched: 2048 groups of 2 receivers exceed the limit of 2048 receivers", NULL },
};

static uint32_t *all_receive; /* in every process: the observer of `sched` has seen it */

static void sleep_ms(int ms)
{
	struct timespec ts = clock_from_ns(ms * NSEC_PER_MSEC);

	nanosleep(&ts, NULL);
}

static bool no_children(void)
{
	return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
}

struct seen {
	uint64_t count;
	char unit[16];
	pid_t group;
};

static void see_work(void *arg, const char *load, const char *unit, uint64_t count, int64_t from_ns,
		     int64_t to_ns)
{
	struct seen *seen = arg;

	seen->count += count;
	snprintf(seen->unit, sizeof(seen->unit), "%s", unit);
}

static void see_started(void *arg, pid_t pgid)
{
	struct seen *seen = arg;

	seen->group = pgid;
}

/* Parse and start; NULL with the message if that failed. */
static struct load_set *start_of(const struct load *const *loads, const char *text,
				 const struct cpulist *cpus, struct seen *seen, struct message *msg)
{
	struct load_set *set;

	memset(seen, 0, sizeof(*seen));
	memset(msg, 0, sizeof(*msg));
	if (load_set_parse(&set, text, loads, msg))
		return NULL;
	if (!load_set_start(set, cpus, NULL, see_started, seen, msg))
		return set;
	load_set_free(set);
	return NULL;
}

static struct load_set *start(const char *text, const struct cpulist *cpus, struct seen *seen,
			      struct message *msg)
{
	return start_of(catalogue_loads, text, cpus, seen, msg);
}

/* Until @more has been counted, or the load has ended. The time stands still: nothing stalls. */
static int wait_for_work(struct load_set *set, struct seen *seen, uint64_t more,
			 struct message *msg)
{
	int err = 0;

	seen->count = 0;
	while (seen->count < more && !err) {
		sleep_ms(1);
		err = load_set_check(set, 0, see_work, seen, msg);
	}
	return err;
}

/* One child of a process, 0 without children, -1 if this kernel does not list them. */
static pid_t child_of(pid_t pid)
{
	char path[64];
	FILE *file;
	int child = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	file = fopen(path, "r");
	if (!file)
		return -1;
	if (fscanf(file, "%d", &child) != 1)
		child = 0;
	fclose(file);
	return child;
}

static void test_works(const char *text, const char *unit, bool children)
{
	struct seen seen;
	struct message msg;
	struct load_set *set = start(text, NULL, &seen, &msg);
	pid_t child;
	int err;

	if (!set)
		return (void)tap_check(false, "%s: %s", text, msg.text);
	err = wait_for_work(set, &seen, 1, &msg);
	if (!err)
		err = wait_for_work(set, &seen, 1, &msg);
	tap_check(!err && !strcmp(seen.unit, unit), "%s works, counted in %s%s%s", text, unit,
		  err ? ": " : "", msg.text);
	child = children ? child_of(seen.group) : -1;
	tap_check(!children || child, "%s has processes of its own", text);
	if (child > 0) {
		kill(child, SIGKILL);
		seen.count = 0;
		while (!load_set_check(set, 0, NULL, NULL, &msg))
			sleep_ms(1);
		tap_check(true, "%s ends with one of them: %s", text, msg.text);
	}
	tap_check(!load_set_stop(set) && no_children(), "all of %s stops", text);
	load_set_free(set);
}

static void test_refused_on(const struct cpulist *cpus, const char *text, const char *message,
			    const char *remedy)
{
	struct seen seen;
	struct message msg;
	struct load_set *set = start(text, cpus, &seen, &msg);

	tap_check(!set, "%s is refused", text);
	tap_check(!strcmp(msg.text, message), "%s", message);
	if (strcmp(msg.text, message))
		printf("# said: %s\n", msg.text);
	tap_check(remedy ? !strcmp(msg.remedy, remedy) : msg.remedy[0], "%s", msg.remedy);
	load_set_free(set);
	tap_check(no_children(), "and nothing of it is left");
}

static void test_refused(const char *text, const char *message, const char *remedy)
{
	test_refused_on(NULL, text, message, remedy);
}

static void test_irq(void)
{
	struct cpulist allowed;
	struct cpulist one = { 0 };

	cpulist_allowed(&allowed);
	cpulist_add(&one, cpulist_next(&allowed, 0));
	test_refused_on(&one, "irq", "load irq: interrupts between CPUs need at least two CPUs",
			"give it two CPUs or more with --load-cpu");
	if (cpulist_count(&allowed) < 2)
		return tap_skip("there is one CPU", "the load irq works");
	test_works("irq", "barriers", true);
}

static bool in_memory(const char *path)
{
	struct statfs fs;

	return !statfs(path, &fs) &&
	       ((uint32_t)fs.f_type == TMPFS_MAGIC || (uint32_t)fs.f_type == RAMFS_MAGIC);
}

static void test_disk(void)
{
	if (!in_memory("/dev/shm") || access("/dev/shm", W_OK))
		tap_skip("/dev/shm is not in memory or not writable",
			 "a file system in memory is refused");
	else
		test_refused("disk:path=/dev/shm",
			     "load disk: /dev/shm lies in memory, not on a disk",
			     "set path to a folder on a disk");
	if (in_memory("/var/tmp") || access("/var/tmp", W_OK))
		return tap_skip("/var/tmp is not on a disk", "the load disk works");
	test_works("disk:size=1MiB", "KiB", false);
	test_works("disk:size=100000:sync=64KiB", "KiB", false);
	test_refused("disk:size=1048576GiB",
		     "load disk: cannot write in /var/tmp: No space left on device",
		     "reduce size, or set path to another folder");
}

static void test_fifo(void)
{
	char folder[] = "/tmp/rtgauge-test-XXXXXX";
	char path[64];
	char text[80];
	char said[160];

	if (!mkdtemp(folder))
		return (void)tap_check(false, "no folder");
	snprintf(path, sizeof(path), "%s/fifo", folder);
	snprintf(text, sizeof(text), "copy:path=%s", path);
	snprintf(said, sizeof(said),
		 "load copy: %s cannot be copied: it is a character device, a FIFO or a socket",
		 path);
	if (mkfifo(path, 0600))
		return (void)tap_check(false, "no FIFO");
	test_refused(text, said, NULL);
	unlink(path);
	rmdir(folder);
}

/* Start @text under the limit @value of @resource; until it ends, or has worked. */
static int work_limited(const char *text, int resource, rlim_t value, struct message *msg)
{
	struct rlimit limit, less;
	struct seen seen;
	struct load_set *set;
	int err;

	getrlimit(resource, &limit);
	less = limit;
	less.rlim_cur = value < limit.rlim_max ? value : limit.rlim_max;
	setrlimit(resource, &less);
	set = start(text, NULL, &seen, msg);
	err = set ? wait_for_work(set, &seen, 5000, msg) : -EINVAL;
	load_set_free(set);
	setrlimit(resource, &limit);
	return err;
}

static void test_file_limit(void)
{
	struct message msg;

	if (in_memory("/var/tmp") || access("/var/tmp", W_OK))
		return tap_skip("/var/tmp is not on a disk", "a limit of file size");
	work_limited("disk", RLIMIT_FSIZE, 1 << 20, &msg);
	tap_check(!strcmp(msg.text, "load disk: cannot write in /var/tmp: File too large"), "%s",
		  msg.text);
}

/* Make a folder in a folder, and so on. */
static int dig(const char *path, int levels)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY);

	for (int i = 0; i < levels && fd >= 0; i++) {
		int next = mkdirat(fd, "d", 0700) ? -1 : openat(fd, "d", O_RDONLY | O_DIRECTORY);

		close(fd);
		fd = next;
	}
	return fd < 0 ? -1 : close(fd);
}

static void fill(const char *path, int levels)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY);

	for (int i = 0; i < levels && fd >= 0; i++) { /* to the bottom */
		int next = openat(fd, "d", O_RDONLY | O_DIRECTORY);

		close(fd);
		fd = next;
	}
	for (int i = 0; i < levels && fd >= 0; i++) { /* and up again */
		int next = openat(fd, "..", O_RDONLY | O_DIRECTORY);

		unlinkat(next, "d", AT_REMOVEDIR);
		close(fd);
		fd = next;
	}
	if (fd >= 0)
		close(fd);
	rmdir(path);
}

/* Deeper than the stack is: what is too deep is left out. */
static void test_deep_tree(void)
{
	char folder[] = "/tmp/rtgauge-test-XXXXXX";
	char text[80];
	struct rlimit files;
	struct message msg = { 0 };
	int err;

	getrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_max < DEEP + 64)
		return tap_skip("too few files may be open", "a deep tree");
	if (!mkdtemp(folder) || dig(folder, DEEP))
		return (void)tap_check(false, "no deep tree");
	snprintf(text, sizeof(text), "walk:path=%s", folder);
	if (files.rlim_cur < DEEP + 64)
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){ DEEP + 64, files.rlim_max });
	err = work_limited(text, RLIMIT_STACK, 768 << 10, &msg);
	setrlimit(RLIMIT_NOFILE, &files);
	tap_check(!err, "a tree deeper than the stack is walked%s%s", err ? ": " : "", msg.text);
	fill(folder, DEEP);
}

/* A peer that takes a connection, discards a little, and closes it. */
static void test_peer(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct load_set *set;
	struct seen seen;
	struct message msg;
	char text[64];
	char said[128];
	char block[4096];
	int taken;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) ||
	    getsockname(fd, (struct sockaddr *)&address, &size))
		return (void)tap_check(false, "no port to listen on");
	snprintf(text, sizeof(text), "net:peer=127.0.0.1/%d", ntohs(address.sin_port));
	snprintf(said, sizeof(said), "load net: cannot connect to %s: Connection refused",
		 text + strlen("net:peer="));
	test_refused(text, said, "start a server there that discards what it receives");
	listen(fd, 1);
	set = start(text, NULL, &seen, &msg);
	taken = set ? accept(fd, NULL, NULL) : -1;
	if (taken < 0) {
		load_set_free(set);
		return (void)tap_check(false, "%s: %s", text, msg.text);
	}
	for (int i = 0; i < 1000; i++)
		if (recv(taken, block, sizeof(block), 0) <= 0)
			break;
	tap_check(!wait_for_work(set, &seen, 1, &msg), "%s works", text);
	close(taken);
	tap_check(wait_for_work(set, &seen, UINT64_MAX, &msg) == -EIO, "it ends with its peer");
	tap_check(!strncmp(msg.text, "load net: the connection ended: ", 32), "%s", msg.text);
	load_set_free(set);
	tap_check(no_children(), "and nothing of it is left");
	close(fd);
}

/* ---- sched and cpu, by what the kernel says of their processes ---- */

/* The load `sched` with an observer, which sees that every receiver receives. */
static int run_observed_sched(struct load_worker *worker, const struct option_set *options,
			      struct message *msg)
{
	uint32_t counters =
		(uint32_t)(option_number(options, "groups") * option_number(options, "fds"));

	if (!load_fork()) {
		for (uint32_t i = 0; i < counters; i++)
			while (*load_counter(worker, i) < 1000)
				sleep_ms(1);
		atomic_store_release(all_receive, 1);
		for (;;)
			pause();
	}
	return load_sched.run(worker, options, msg);
}

/* Living processes of a group, as /proc has them; @pids gets the first of them. */
static int processes_of(pid_t pgid, pid_t *pids, int room)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	int count = 0;

	while (proc && (entry = readdir(proc))) {
		char path[300];
		char text[512] = "";
		char status = 'Z';
		int parent;
		int group = 0;
		char *end;
		FILE *file;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		end = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
		fclose(file);
		if (!end || sscanf(end + 1, " %c %d %d", &status, &parent, &group) != 3)
			continue;
		if (group != pgid || status == 'Z')
			continue;
		if (count < room)
			pids[count] = atoi(entry->d_name);
		count++;
	}
	if (proc)
		closedir(proc);
	return count;
}

static int threads_of(pid_t pid)
{
	char path[64];
	char line[128];
	int threads = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "Threads: %d", &threads);
	if (file)
		fclose(file);
	return threads;
}

static void check_stop(struct load_set *set)
{
	tap_check(!load_set_stop(set) && no_children(), "all of it stops");
	load_set_free(set);
}

static void test_sched(const char *transport, const char *kind, int groups, int fds, int size)
{
	struct load observed = load_sched;
	const struct load *const loads[] = { &observed, NULL };
	bool threads = !strcmp(kind, "thread");
	int members = 2 * groups * fds;
	struct load_set *set;
	struct message msg;
	struct seen seen;
	char text[128];
	char what[160];

	observed.name = "observed";
	observed.run = run_observed_sched;
	snprintf(text, sizeof(text), "observed:groups=%d:fds=%d:size=%d:transport=%s:kind=%s",
		 groups, fds, size, transport, kind);
	*all_receive = 0;
	set = start_of(loads, text, NULL, &seen, &msg);
	if (!set)
		return (void)tap_check(false, "%s: %s", text, msg.text);
	while (!atomic_load_acquire(all_receive) && !load_set_check(set, 0, NULL, NULL, &msg))
		sleep_ms(1);
	tap_check(atomic_load_acquire(all_receive), "%s: every receiver receives%s%s", text,
		  msg.text[0] ? ": " : "", msg.text);
	tap_check(!wait_for_work(set, &seen, 1, &msg) && !strcmp(seen.unit, "messages"),
		  "its messages are counted");
	snprintf(what, sizeof(what), "%d senders and receivers, a leader and the observer",
		 members);
	if (threads) /* a sanitizer may add a thread of its own */
		tap_check(processes_of(seen.group, NULL, 0) == 2 &&
				  threads_of(seen.group) >= members + 1,
			  "%s", what);
	else
		tap_check(processes_of(seen.group, NULL, 0) == members + 2, "%s", what);
	check_stop(set);
}

static void test_sched_loses_one(void)
{
	struct message msg;
	struct seen seen;
	struct load_set *set = start("sched:groups=1:fds=2", NULL, &seen, &msg);
	pid_t pids[8];
	int count, err;

	if (!set)
		return (void)tap_check(false, "sched: %s", msg.text);
	count = processes_of(seen.group, pids, (int)COUNT(pids));
	tap_check(count == 5, "a leader, two senders, two receivers");
	kill(pids[count > 0 && pids[0] == seen.group], SIGKILL);
	while (!(err = load_set_check(set, 0, NULL, NULL, &msg)))
		sleep_ms(1);
	tap_check(err == -EIO, "one that is killed is missed");
	tap_check(!strncmp(msg.text, "load sched: one of its ", 23), "%s", msg.text);
	load_set_free(set);
	tap_check(no_children(), "all of it is gone");
}

static void test_cpu(void)
{
	struct cpulist allowed;
	struct message msg;
	struct seen seen;
	struct load_set *set = start("cpu:per-cpu=2", NULL, &seen, &msg);
	pid_t pids[64];
	int pinned = 0;
	int count;
	int cpus;

	if (!set)
		return (void)tap_check(false, "cpu: %s", msg.text);
	cpulist_allowed(&allowed);
	cpus = cpulist_count(&allowed);
	count = processes_of(seen.group, pids, (int)COUNT(pids));
	tap_check(count == 2 * cpus + 1, "two processes for each CPU, and a leader");
	for (int i = 0; i < count && i < (int)COUNT(pids); i++) {
		cpu_set_t set_of;

		if (pids[i] != seen.group && !sched_getaffinity(pids[i], sizeof(set_of), &set_of))
			pinned += CPU_COUNT(&set_of) == 1;
	}
	tap_check(cpus > 31 || pinned == 2 * cpus, "each on one CPU alone");
	tap_check(!wait_for_work(set, &seen, 1, &msg) && !strcmp(seen.unit, "loops"),
		  "its loops are counted");
	check_stop(set);
}

/* Defaults of all loads at once, under an agent that is killed with -9: all of it dies. */
static void test_killed_agent(void)
{
	char text[256] = "";
	struct {
		uint32_t go;
		struct message msg;
	} *said = mmap(NULL, sizeof(*said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		       0);
	int reaped = 0;
	pid_t agent;

	if (said == MAP_FAILED)
		return (void)tap_check(false, "out of memory");
	for (size_t i = 0; i < COUNT(works); i++) {
		size_t used = strlen(text);

		if (!strchr(works[i].text, ':'))
			snprintf(text + used, sizeof(text) - used, "%s%s", used ? "," : "",
				 works[i].text);
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	agent = fork();
	if (!agent) {
		struct seen seen;

		atomic_store_release(&said->go, start(text, NULL, &seen, &said->msg) ? 2 : 1);
		for (;;)
			pause();
	}
	while (!atomic_load_acquire(&said->go))
		sleep_ms(1);
	tap_check(said->go == 2, "an agent started %s %s", text, said->msg.text);
	kill(agent, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		reaped++;
	tap_check(errno == ECHILD && reaped > 1, "killed, it takes all of them along");
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	munmap(said, sizeof(*said));
}

int main(int argc, char **argv)
{
	if (argc > 1) /* started by the load `list` in the agent's place */
		return strcmp(argv[1], "version");
	alarm(WATCHDOG_S);
	for (size_t i = 0; i < COUNT(works); i++)
		test_works(works[i].text, works[i].unit, works[i].children);
	for (size_t i = 0; i < COUNT(refused); i++)
		test_refused(refused[i].text, refused[i].message, refused[i].remedy);
	test_irq();
	test_disk();
	test_fifo();
	test_file_limit();
	test_deep_tree();
	test_peer();
	all_receive = mmap(NULL, sizeof(*all_receive), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (all_receive == MAP_FAILED)
		return 1;
	test_sched("socket", "process", 2, 3, 100);
	test_sched("pipe", "process", 2, 3, 100);
	test_sched("socket", "thread", 2, 3, 100);
	test_sched("pipe", "thread", 1, 2, 65536);
	test_sched("socket", "process", 1, 1, 65536);
	test_sched("pipe", "process", 1, 1, 1);
	test_sched_loses_one();
	test_cpu();
	test_killed_agent();
	return tap_end();
}
