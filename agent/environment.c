// SPDX-License-Identifier: Apache-2.0
/*
 * The facts of the target, read and passed on as they stand: the host makes sense of them.
 * docs/environment.md lists them. Before the first sample: they are the second record of a stream.
 *
 * One table says what is collected and how. Where a file exists once for each CPU, the CPUs with
 * the same content share one fact, its name holding their list: ".../cpu{0-3,8}/...".
 */
#include "environment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cbor.h"
#include "cpulist.h"
#include "version.h"

#define FACT_MAX 60000
#define PATH_ROOM 512
#define FIRST_BLOCK_MAX 16384 /* one processor's block is about 4 kB at most */
#define LINE_ROOM 1024
#define CPU_VALUE_MAX 256
#define IDLE_STATES_MAX 10 /* CPUIDLE_STATE_MAX of the kernel */
#define DEBUGFS "/sys/kernel/debug"
#define DEBUGFS_MAGIC 0x64626720

struct collector {
	int (*sink)(void *arg, const struct fact *fact);
	void *arg;
	bool everything;
	char *buffer;	     /* FACT_MAX + 1 bytes, for the content of one file */
	struct cpulist cpus; /* possible ones */
	struct utsname uts;
	int debugfs; /* root of a debugfs that is mounted nowhere, or -1 */
};

struct row {
	const char *name;
	int (*collect)(struct collector *c, const struct row *row);
	const char *detail;
	bool large; /* only with everything */
};

static int put(struct collector *c, const char *name, enum fact_type type, const char *data,
	       size_t size, int64_t number)
{
	struct fact fact = { name, type, data, size, number };

	return c->sink(c->arg, &fact);
}

static int put_integer(struct collector *c, const char *name, int64_t number)
{
	return put(c, name, FACT_INTEGER, NULL, 0, number);
}

static bool is_text(const char *data, size_t size)
{
	const uint8_t *s = (const uint8_t *)data;

	while (size) {
		size_t length = cbor_utf8(s, size);

		if (!length)
			return false;
		s += length;
		size -= length;
	}
	return true;
}

/* A text, or bytes where it is not UTF-8, without the newlines and zero bytes at its end. */
static int put_text(struct collector *c, const char *name, const char *data, size_t size)
{
	while (size && (data[size - 1] == '\n' || data[size - 1] == '\0'))
		size--;
	return put(c, name, is_text(data, size) ? FACT_TEXT : FACT_BYTES, data, size, 0);
}

static int put_string(struct collector *c, const char *name, const char *text)
{
	return put_text(c, name, text, strlen(text));
}

/* null; and where the file is there but cannot be read, a fact "NAME.error" that says why. */
static int put_null(struct collector *c, const char *name, int err)
{
	char full[PATH_ROOM + 8];
	int result = put(c, name, FACT_NULL, NULL, 0, 0);

	if (result || err == -ENOENT || err == -ENOTDIR)
		return result;
	snprintf(full, sizeof(full), "%s.error", name);
	return put_string(c, full, strerror(-err));
}

/* @size is what was read into the buffer, one byte more than a fact holds if there was more. */
static int put_content(struct collector *c, const char *name, ssize_t size, bool binary)
{
	char full[PATH_ROOM + 8];
	bool cut = size > FACT_MAX;
	int result;

	if (size < 0)
		return put_null(c, name, (int)size);
	if (cut) {
		size = FACT_MAX;
		/* not in the middle of a character */
		for (int i = 0; !binary && i < 4 && !is_text(c->buffer, size); i++)
			size--;
	}
	result = binary ? put(c, name, FACT_BYTES, c->buffer, size, 0) :
			  put_text(c, name, c->buffer, size);
	if (result || !cut)
		return result;
	snprintf(full, sizeof(full), "%s.cut", name);
	return put_integer(c, full, size);
}

/* Open a regular file so that nothing can block. */
static int open_file(const struct collector *c, const char *path)
{
	const int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
	const size_t prefix = sizeof(DEBUGFS "/") - 1;
	struct stat status;
	int fd;

	if (c->debugfs >= 0 && !strncmp(path, DEBUGFS "/", prefix))
		fd = openat(c->debugfs, path + prefix, flags);
	else
		fd = open(path, flags);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	return fd;
}

/* Up to @size bytes into @data; the number read or -errno. */
static ssize_t read_file(const struct collector *c, const char *path, char *data, size_t size)
{
	ssize_t used = 0;
	int fd = open_file(c, path);

	if (fd < 0)
		return fd;
	while ((size_t)used < size) {
		ssize_t got = read(fd, data + used, size - used);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			used = -errno;
		if (got <= 0)
			break;
		used += got;
	}
	close(fd);
	return used;
}

/* The lines that begin with one of @prefixes ("a|b"), into the buffer. */
static ssize_t read_lines(struct collector *c, const char *path, const char *prefixes)
{
	char chunk[2048], line[LINE_ROOM];
	size_t used = 0, length = 0;
	ssize_t got;
	int fd = open_file(c, path);

	if (fd < 0)
		return fd;
	while ((got = read(fd, chunk, sizeof(chunk))) > 0 || (got < 0 && errno == EINTR)) {
		for (ssize_t i = 0; i < got; i++) {
			const char *prefix = prefixes;

			if (length < sizeof(line))
				line[length++] = chunk[i];
			if (chunk[i] != '\n')
				continue;
			for (bool more = true; more;) {
				size_t size = strcspn(prefix, "|");

				if (size <= length && !memcmp(line, prefix, size) &&
				    used + length <= FACT_MAX + 1) {
					memcpy(c->buffer + used, line, length);
					used += length;
					break;
				}
				more = prefix[size] == '|';
				prefix += size + 1;
			}
			length = 0;
		}
	}
	if (got < 0)
		used = -errno;
	close(fd);
	return used;
}

/* The ways of collecting a row of the table. */

static int text(struct collector *c, const struct row *row)
{
	return put_content(c, row->name, read_file(c, row->name, c->buffer, FACT_MAX + 1), false);
}

/* Texts that each end in a zero byte, as the device tree has them: one on each line. */
static int strings(struct collector *c, const struct row *row)
{
	ssize_t size = read_file(c, row->name, c->buffer, FACT_MAX + 1);

	for (ssize_t i = 0; i + 1 < size; i++) {
		if (!c->buffer[i])
			c->buffer[i] = '\n';
	}
	return put_content(c, row->name, size, false);
}

static int lines(struct collector *c, const struct row *row)
{
	return put_content(c, row->name, read_lines(c, row->name, row->detail), false);
}

/* /proc/cpuinfo up to the second processor. */
static int first_block(struct collector *c, const struct row *row)
{
	ssize_t size = read_file(c, row->name, c->buffer, FIRST_BLOCK_MAX);

	if (size > 0) {
		char *end;

		c->buffer[size] = '\0';
		end = strstr(c->buffer, "\n\nprocessor");
		if (end)
			size = end - c->buffer;
	}
	return put_content(c, row->name, size, false);
}

/* 1 if it is there, whatever it is; it is not opened. */
static int exists(struct collector *c, const struct row *row)
{
	if (faccessat(AT_FDCWD, row->name, F_OK, 0))
		return put_null(c, row->name, -errno);
	return put_integer(c, row->name, 1);
}

static int link_text(struct collector *c, const struct row *row)
{
	ssize_t size = readlink(row->name, c->buffer, FACT_MAX);

	return put_content(c, row->name, size < 0 ? -errno : size, false);
}

/* The names in the folder of @pattern ("/folder/sched_*...") that match it, sorted. */
static ssize_t list_folder(const char *pattern, char ***names)
{
	const char *star = strchr(pattern, '*');
	const char *slash = star;
	char folder[PATH_ROOM];
	struct dirent *entry;
	size_t prefix, count = 0;
	DIR *dir;

	while (*slash != '/')
		slash--;
	prefix = star - slash - 1;
	snprintf(folder, sizeof(folder), "%.*s", (int)(slash - pattern), pattern);
	*names = NULL;
	dir = opendir(folder);
	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		char **grown, *name;
		size_t at;

		if (entry->d_name[0] == '.' || strncmp(entry->d_name, slash + 1, prefix))
			continue;
		grown = realloc(*names, (count + 1) * sizeof(**names));
		if (!grown)
			break;
		*names = grown;
		name = strdup(entry->d_name);
		if (!name)
			break;
		/* they are few, and qsort() would be a thirtieth of the agent */
		for (at = count++; at && strcmp(grown[at - 1], name) > 0; at--)
			grown[at] = grown[at - 1];
		grown[at] = name;
	}
	closedir(dir);
	return count;
}

static void free_names(char **names, ssize_t count)
{
	for (ssize_t i = 0; i < count; i++)
		free(names[i]);
	free(names);
}

/* The path of @pattern with the matching @name in the place of the component with the star. */
static void match_path(char *path, size_t size, const char *pattern, const char *name)
{
	const char *star = strchr(pattern, '*');
	const char *slash = star;

	while (*slash != '/')
		slash--;
	snprintf(path, size, "%.*s%s%s", (int)(slash + 1 - pattern), pattern, name, star + 1);
}

/* One fact for each file that matches; null for the pattern itself if none does. */
static int each(struct collector *c, const struct row *row)
{
	char **names;
	ssize_t count = list_folder(row->name, &names);
	int result = 0;

	if (count <= 0)
		result = put_null(c, row->name, count < 0 ? (int)count : -ENOENT);
	for (ssize_t i = 0; i < count && !result; i++) {
		char path[PATH_ROOM];

		match_path(path, sizeof(path), row->name, names[i]);
		result = put_content(c, path, read_file(c, path, c->buffer, FACT_MAX + 1), false);
	}
	free_names(names, count);
	return result;
}

/* All files of a folder in one fact named @detail: a line "name=content" for each. */
static int joined(struct collector *c, const struct row *row)
{
	char **names;
	ssize_t count = list_folder(row->name, &names);
	size_t used = 0;
	int result;

	for (ssize_t i = 0; i < count; i++) {
		char path[PATH_ROOM], content[LINE_ROOM];
		ssize_t size;

		match_path(path, sizeof(path), row->name, names[i]);
		size = read_file(c, path, content, sizeof(content));
		if (size < 0)
			continue;
		while (size && content[size - 1] == '\n')
			size--;
		if (used + strlen(names[i]) + size + 2 > FACT_MAX)
			break;
		used += sprintf(c->buffer + used, "%s=", names[i]);
		memcpy(c->buffer + used, content, size);
		used += size;
		c->buffer[used++] = '\n';
	}
	if (count > 0)
		result = put_content(c, row->detail, used, false);
	else
		result = put_null(c, row->detail, count < 0 ? (int)count : -ENOENT);
	free_names(names, count);
	return result;
}

struct cpu_value {
	int cpu; /* -1: has been put */
	int error;
	size_t size;
	char *data;
};

static bool same_value(const struct cpu_value *a, const struct cpu_value *b)
{
	return a->error == b->error && a->size == b->size &&
	       (!a->size || !memcmp(a->data, b->data, a->size));
}

/* Put values[first] under a name that holds all CPUs with that value. */
static int put_cpu_value(struct collector *c, const char *pattern, struct cpu_value *values,
			 size_t count, size_t first)
{
	const char *mark = strchr(pattern, '#');
	const size_t room = strlen(pattern) + 6 * (count - first) + 4; /* "4095," a CPU */
	struct cpu_value *value = &values[first];
	struct cpulist same = { 0 };
	char *name = malloc(room);
	bool several;
	int result;

	if (!name)
		return -ENOMEM;
	cpulist_add(&same, value->cpu);
	for (size_t i = first + 1; i < count; i++) {
		if (values[i].cpu >= 0 && same_value(value, &values[i])) {
			cpulist_add(&same, values[i].cpu);
			values[i].cpu = -1;
		}
	}
	several = cpulist_count(&same) > 1;
	result = snprintf(name, room, "%.*s%s", (int)(mark - pattern), pattern, several ? "{" : "");
	cpulist_format(&same, name + result, room - result);
	strcat(name, several ? "}" : "");
	strcat(name, mark + 1);
	if (!value->error)
		result = put_text(c, name, value->data, value->size);
	else if (strlen(name) < PATH_ROOM)
		result = put_null(c, name, value->error);
	else
		result = put(c, name, FACT_NULL, NULL, 0, 0);
	free(name);
	return result;
}

/* @found: set if any CPU has the file; when none has, only @always puts null. */
static int per_cpu_pattern(struct collector *c, const char *pattern, bool always, bool *found)
{
	const char *mark = strchr(pattern, '#');
	const size_t count = cpulist_count(&c->cpus);
	struct cpu_value *values = calloc(count, sizeof(*values));
	size_t n = 0;
	int result = 0;

	if (!values)
		return -ENOMEM;
	for (int cpu = cpulist_next(&c->cpus, 0); cpu >= 0 && n < count;
	     cpu = cpulist_next(&c->cpus, cpu + 1), n++) {
		char path[PATH_ROOM], content[CPU_VALUE_MAX];
		ssize_t size;

		snprintf(path, sizeof(path), "%.*s%d%s", (int)(mark - pattern), pattern, cpu,
			 mark + 1);
		size = read_file(c, path, content, sizeof(content));
		values[n].cpu = cpu;
		if (size < 0) {
			values[n].error = (int)size;
		} else if (size > 0) {
			values[n].data = malloc(size);
			if (!values[n].data) {
				result = -ENOMEM;
				break;
			}
			memcpy(values[n].data, content, size);
			values[n].size = size;
		}
		*found = *found || size != -ENOENT;
	}
	for (size_t i = 0; i < n && !result && (*found || always); i++) {
		if (values[i].cpu >= 0)
			result = put_cpu_value(c, pattern, values, n, i);
	}
	for (size_t i = 0; i < n; i++)
		free(values[i].data);
	free(values);
	return result;
}

/* A file of each CPU, '#' being its number. */
static int per_cpu(struct collector *c, const struct row *row)
{
	bool found = false;

	return per_cpu_pattern(c, row->name, true, &found);
}

/* A file of each idle state of each CPU, '@' being the state's number. */
static int per_state(struct collector *c, const struct row *row)
{
	bool found = true;
	int result = 0;

	for (int state = 0; state < IDLE_STATES_MAX && found && !result; state++) {
		char pattern[PATH_ROOM];

		snprintf(pattern, sizeof(pattern), "%s", row->name);
		*strchr(pattern, '@') = (char)('0' + state);
		found = false;
		result = per_cpu_pattern(c, pattern, state == 0, &found);
	}
	return result;
}

/* The kernel's configuration: what of it matters to real time, where it is not compressed. */
static int configuration(struct collector *c, const struct row *row)
{
	static const char *const texts[] = { "/boot/config-%s", "/lib/modules/%s/config" };
	int result =
		put_content(c, row->name, read_file(c, row->name, c->buffer, FACT_MAX + 1), true);

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && !result; i++) {
		char path[PATH_ROOM];

		snprintf(path, sizeof(path), texts[i], c->uts.release);
		result = put_content(c, path, read_lines(c, path, row->detail), false);
	}
	return result;
}

/* The words of the agent: what no file says. */

static int uname_word(struct collector *c, const struct row *row)
{
	(void)row;
	return put_string(c, "uname.sysname", c->uts.sysname)		?:
		       put_string(c, "uname.nodename", c->uts.nodename) ?:
		       put_string(c, "uname.release", c->uts.release)	?:
		       put_string(c, "uname.version", c->uts.version)	?:
		       put_string(c, "uname.machine", c->uts.machine);
}

static int libc_word(struct collector *c, const struct row *row)
{
	return put_string(c, row->name, version_libc());
}

static int cpus_word(struct collector *c, const struct row *row)
{
	struct cpulist online;

	if (cpulist_online(&online))
		return put_null(c, row->name, -ENOENT);
	return put_integer(c, row->name, cpulist_count(&online));
}

/*
 * The resolution that timers really have: 1 ns with high-resolution timers in use, a tick
 * without. The coarse clock's is always the tick.
 */
static int clock_word(struct collector *c, const struct row *row)
{
	const clockid_t clock = row->detail ? CLOCK_MONOTONIC_COARSE : CLOCK_MONOTONIC;
	struct timespec resolution;

	if (clock_getres(clock, &resolution))
		return put_null(c, row->name, -errno);
	return put_integer(c, row->name,
			   resolution.tv_sec * (int64_t)1000000000 + resolution.tv_nsec);
}

static int limits_word(struct collector *c, const struct row *row)
{
	static const struct {
		const char *name;
		int resource;
	} limits[] = { { "rtprio", RLIMIT_RTPRIO },
		       { "memlock", RLIMIT_MEMLOCK },
		       { "rttime", RLIMIT_RTTIME } };
	int result = 0;

	(void)row;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]) && !result; i++) {
		struct rlimit limit;
		char name[64];

		if (getrlimit(limits[i].resource, &limit))
			continue;
		snprintf(name, sizeof(name), "agent.rlimit_%s", limits[i].name);
		result = put_integer(
			c, name, limit.rlim_cur == RLIM_INFINITY ? -1 : (int64_t)limit.rlim_cur);
		if (result)
			break;
		strcat(name, "_hard");
		result = put_integer(
			c, name, limit.rlim_max == RLIM_INFINITY ? -1 : (int64_t)limit.rlim_max);
	}
	return result;
}

static int user_word(struct collector *c, const struct row *row)
{
	return put_integer(c, row->name, geteuid());
}

/*
 * Whether SCHED_FIFO can really be had, tried in a child: agent.fifo is 0 or the error number,
 * agent.fifo_priority the highest priority that was granted. By system call: musl's function
 * always fails. The child borrows our memory: fork() would make a copy of it on write, and the
 * measuring threads, whose rings have been touched by now, would fault once more on every page.
 */
static int fifo_word(struct collector *c, const struct row *row)
{
	enum { NO_PRIORITY = 100 }; /* exit status: a priority, or this plus the error */
	int status, err, result;
	pid_t child = vfork();

	if (child < 0)
		return put_null(c, row->name, -errno);
	if (!child) {
		err = EINVAL;
		for (int priority = 99; priority > 0; priority--) {
			struct sched_param param = { .sched_priority = priority };

			if (!syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &param))
				_exit(priority);
			err = errno;
		}
		_exit(NO_PRIORITY + (err < 100 ? err : 0));
	}
	do {
		result = waitpid(child, &status, 0);
	} while (result < 0 && errno == EINTR);
	if (result < 0 || !WIFEXITED(status))
		return put_null(c, row->name, -EIO);
	status = WEXITSTATUS(status);
	result = put_integer(c, row->name, status < NO_PRIORITY ? 0 : status - NO_PRIORITY);
	if (result || status >= NO_PRIORITY)
		return result;
	return put_integer(c, "agent.fifo_priority", status);
}

/* Opening it asks for nothing yet: only a written value holds the sleep states. */
static int dma_latency_word(struct collector *c, const struct row *row)
{
	int fd = open("/dev/cpu_dma_latency", O_WRONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return put_integer(c, row->name, errno);
	close(fd);
	return put_integer(c, row->name, 0);
}

/*
 * The scheduler shows the running preemption mode and the fair server only in debugfs. Where that
 * is not mounted, one is opened that is mounted nowhere, and gone when it is closed.
 */
static int debugfs_word(struct collector *c, const struct row *row)
{
	struct statfs status;
	int err = ENOSYS;

	if (!statfs(DEBUGFS, &status) && (unsigned long)status.f_type == DEBUGFS_MAGIC)
		return put_string(c, row->name, "mounted");
#ifdef SYS_fsopen
	int fs = (int)syscall(SYS_fsopen, "debugfs", 1 /* FSOPEN_CLOEXEC */);

	err = errno;
	if (fs >= 0) {
		if (!syscall(SYS_fsconfig, fs, 6 /* FSCONFIG_CMD_CREATE */, NULL, NULL, 0))
			c->debugfs = (int)syscall(SYS_fsmount, fs, 1 /* FSMOUNT_CLOEXEC */, 0);
		err = errno;
		close(fs);
	}
#endif
	return c->debugfs >= 0 ? put_string(c, row->name, "opened") : put_null(c, row->name, -err);
}

/*
 * The files of our own control group: of the cpu controller of version 1, and of version 2. In a
 * container the path may be the host's, then those of the root of what is mounted.
 */
static int cgroup_word(struct collector *c, const struct row *row)
{
	static const char *const files[] = { "cpu.rt_runtime_us", "cpu.rt_period_us", "cpu.max",
					     "cpuset.cpus.effective", "cpuset.cpus.partition" };
	ssize_t size = read_file(c, "/proc/self/cgroup", c->buffer, FACT_MAX);
	char path[PATH_ROOM], group[2][256] = { "", "" };
	int result;

	result = put_content(c, row->name, size, false);
	if (size <= 0 || result)
		return result;
	c->buffer[size] = '\0';
	for (char *line = c->buffer, *next; line; line = next) {
		char *controllers, *folder, *cpu;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		controllers = strchr(line, ':');
		folder = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!folder)
			continue;
		*folder++ = '\0';
		controllers++;
		cpu = strstr(controllers, "cpu");
		if (!*controllers)
			snprintf(group[1], sizeof(group[1]), "%s", folder);
		else if (cpu && (cpu == controllers || cpu[-1] == ',') &&
			 (cpu[3] == '\0' || cpu[3] == ','))
			snprintf(group[0], sizeof(group[0]), "%s", folder);
	}
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && !result; i++) {
		const bool second = i >= 2;
		const char *const folders[] = {
			second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu",
			second ? "/sys/fs/cgroup/unified" : "/sys/fs/cgroup/cpu,cpuacct",
		};
		char name[64];

		size = -ENOENT;
		for (int try = 0; try < 4 && size < 0; try++) {
			snprintf(path, sizeof(path), "%s%s/%s", folders[try % 2],
				 try < 2 ? group[second] : "", files[i]);
			size = read_file(c, path, c->buffer, FACT_MAX);
		}
		snprintf(name, sizeof(name), "agent.cgroup.%s", files[i]);
		result = put_content(c, name, size, false);
	}
	return result;
}

#define CPU "/sys/devices/system/cpu/"
#define KERNEL "/proc/sys/kernel/"

static const struct row table[] = {
	/* the kernel */
	{ "uname", uname_word, NULL, false },
	{ "/proc/version", text, NULL, false },
	{ "/proc/cmdline", text, NULL, false },
	{ "/sys/kernel/realtime", text, NULL, false },
	{ "agent.debugfs", debugfs_word, NULL, false },
	{ "/sys/kernel/debug/sched/preempt", text, NULL, false },
	{ "/proc/config.gz", configuration,
	  "CONFIG_PREEMPT|CONFIG_HZ|CONFIG_NO_HZ|CONFIG_HIGH_RES|CONFIG_TICK|CONFIG_GENERIC_CLOCK|"
	  "CONFIG_RCU|CONFIG_RT_|CONFIG_SCHED|CONFIG_FAIR_|CONFIG_CFS_|CONFIG_CPU_|CONFIG_CPUSETS|"
	  "CONFIG_IRQ|CONFIG_SMP|CONFIG_NUMA|CONFIG_LOCK|CONFIG_DEBUG_|CONFIG_PROVE|CONFIG_KASAN|"
	  "CONFIG_KCSAN|CONFIG_UBSAN|CONFIG_FUNCTION|CONFIG_FTRACE|CONFIG_OSNOISE|CONFIG_TIMERLAT|"
	  "CONFIG_HWLAT|CONFIG_PARAVIRT|CONFIG_KVM_GUEST|CONFIG_HYPERVISOR|CONFIG_TRANSPARENT|"
	  "CONFIG_X86_|CONFIG_INTEL_IDLE|CONFIG_GPIO_CDEV|CONFIG_GPIO_SIM|CONFIG_XENO|CONFIG_EVL|"
	  "CONFIG_DOVETAIL|CONFIG_IPIPE|CONFIG_CC_VERSION|CONFIG_LOCALVERSION",
	  true },
	{ KERNEL "tainted", text, NULL, false },
	{ KERNEL "random/boot_id", text, NULL, false },
	{ "/proc/uptime", text, NULL, false },
	{ "/proc/loadavg", text, NULL, false },
	{ "/sys/kernel/security/lockdown", text, NULL, false },
	{ "/proc/xenomai/version", text, NULL, false },
	{ "/dev/evl/control", exists, NULL, false },
	/* the scheduler */
	{ KERNEL "sched_*", each, NULL, false },
	{ "/sys/kernel/debug/sched/fair_server/cpu#/runtime", per_cpu, NULL, false },
	{ "/sys/kernel/debug/sched/fair_server/cpu#/period", per_cpu, NULL, false },
	{ "/sys/kernel/debug/sched/ext_server/cpu#/runtime", per_cpu, NULL, false },
	{ "/sys/kernel/sched_ext/state", text, NULL, false },
	{ KERNEL "timer_migration", text, NULL, false },
	{ KERNEL "numa_balancing", text, NULL, false },
	{ KERNEL "watchdog", text, NULL, false },
	{ KERNEL "nmi_watchdog", text, NULL, false },
	/* clocks and timers */
	{ "agent.clock_getres_ns", clock_word, NULL, false },
	{ "agent.clock_getres_coarse_ns", clock_word, "coarse", false },
	{ "/sys/devices/system/clocksource/clocksource0/current_clocksource", text, NULL, false },
	{ "/sys/devices/system/clocksource/clocksource0/available_clocksource", text, NULL, false },
	{ "/sys/devices/system/clockevents/clockevent#/current_device", per_cpu, NULL, false },
	/* the processor */
	{ "/proc/cpuinfo", first_block, NULL, false },
	{ "agent.cpus_online", cpus_word, NULL, false },
	{ CPU "online", text, NULL, false },
	{ CPU "possible", text, NULL, false },
	{ CPU "isolated", text, NULL, false },
	{ CPU "nohz_full", text, NULL, false },
	{ "/proc/irq/default_smp_affinity", text, NULL, false },
	{ "/sys/devices/virtual/workqueue/cpumask", text, NULL, false },
	{ "/sys/fs/cgroup/cpuset.cpus.isolated", text, NULL, false },
	{ CPU "smt/control", text, NULL, false },
	{ CPU "smt/active", text, NULL, false },
	{ CPU "cpu#/topology/thread_siblings_list", per_cpu, NULL, false },
	{ CPU "cpu#/cpu_capacity", per_cpu, NULL, false },
	{ "/sys/devices/system/node/online", text, NULL, false },
	{ CPU "vulnerabilities/*", joined, CPU "vulnerabilities", false },
	/* frequency and sleep */
	{ CPU "cpu#/cpufreq/scaling_driver", per_cpu, NULL, false },
	{ CPU "cpu#/cpufreq/scaling_governor", per_cpu, NULL, false },
	{ CPU "cpu#/cpufreq/scaling_min_freq", per_cpu, NULL, false },
	{ CPU "cpu#/cpufreq/scaling_max_freq", per_cpu, NULL, false },
	/* on some kernels each of these interrupts its CPU and sleeps for 10 ms */
	{ CPU "cpu#/cpufreq/scaling_cur_freq", per_cpu, NULL, true },
	{ CPU "intel_pstate/status", text, NULL, false },
	{ CPU "intel_pstate/no_turbo", text, NULL, false },
	{ CPU "amd_pstate/status", text, NULL, false },
	{ CPU "cpufreq/boost", text, NULL, false },
	{ CPU "cpuidle/current_driver", text, NULL, false },
	{ CPU "cpuidle/current_governor", text, NULL, false },
	{ CPU "cpuidle/current_governor_ro", text, NULL, false },
	{ CPU "cpu#/cpuidle/state@/name", per_state, NULL, false },
	{ CPU "cpu#/cpuidle/state@/latency", per_state, NULL, false },
	{ CPU "cpu#/cpuidle/state@/disable", per_state, NULL, false },
	{ CPU "cpu#/power/pm_qos_resume_latency_us", per_cpu, NULL, false },
	{ "agent.dma_latency", dma_latency_word, NULL, false },
	{ "/sys/class/thermal/thermal_zone*/type", each, NULL, false },
	{ "/sys/class/thermal/thermal_zone*/temp", each, NULL, false },
	/* memory */
	{ "/proc/meminfo", lines,
	  "MemTotal:|MemAvailable:|SwapTotal:|HugePages_Total:|Hugepagesize:", false },
	{ "/proc/swaps", text, NULL, false },
	{ "/sys/kernel/mm/transparent_hugepage/enabled", text, NULL, false },
	/* the machine, or what poses as one */
	{ "/sys/class/dmi/id/sys_vendor", text, NULL, false },
	{ "/sys/class/dmi/id/product_name", text, NULL, false },
	{ "/sys/class/dmi/id/board_name", text, NULL, false },
	{ "/sys/class/dmi/id/bios_vendor", text, NULL, false },
	{ "/sys/class/dmi/id/bios_version", text, NULL, false },
	{ "/sys/class/dmi/id/bios_date", text, NULL, false },
	{ "/proc/device-tree/model", strings, NULL, false },
	{ "/proc/device-tree/compatible", strings, NULL, false },
	{ "/proc/device-tree/hypervisor/compatible", strings, NULL, false },
	{ "/sys/hypervisor/type", text, NULL, false },
	{ "/proc/stat", lines, "cpu", false },
	/* containers */
	{ "/run/systemd/container", text, NULL, false },
	{ "/.dockerenv", exists, NULL, false },
	{ "/run/.containerenv", exists, NULL, false },
	{ "/proc/1/comm", text, NULL, false },
	{ "/proc/1/cgroup", text, NULL, false },
	{ "/proc/self/ns/pid", link_text, NULL, false },
	{ "/proc/self/ns/user", link_text, NULL, false },
	/* the agent, and what it may */
	{ "agent.libc", libc_word, NULL, false },
	{ "agent.uid", user_word, NULL, false },
	{ "agent.fifo", fifo_word, NULL, false },
	{ "agent.rlimit", limits_word, NULL, false },
	{ "/proc/self/status", lines,
	  "CapEff:|CapBnd:|NoNewPrivs:|Seccomp:|Cpus_allowed_list:", false },
	{ "/proc/self/cgroup", cgroup_word, NULL, false },
};

int environment_collect(bool everything, int (*sink)(void *arg, const struct fact *fact), void *arg)
{
	struct collector c = { .sink = sink, .arg = arg, .everything = everything, .debugfs = -1 };
	ssize_t size;
	int result = 0;

	c.buffer = malloc(FACT_MAX + 2);
	if (!c.buffer)
		return -ENOMEM;
	uname(&c.uts);
	size = read_file(&c, CPU "possible", c.buffer, FACT_MAX);
	c.buffer[size > 0 ? size : 0] = '\0';
	c.buffer[strcspn(c.buffer, "\n")] = '\0';
	if (cpulist_parse(&c.cpus, c.buffer) && cpulist_online(&c.cpus))
		cpulist_add(&c.cpus, 0);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]) && !result; i++) {
		if (!table[i].large || everything)
			result = table[i].collect(&c, &table[i]);
	}
	if (c.debugfs >= 0)
		close(c.debugfs);
	free(c.buffer);
	return result;
}
