// SPDX-License-Identifier: Apache-2.0
/*
 * The facts of the target, read and passed on unchanged: the host interprets them.
 * docs/formats/environment.md lists them. They are the second record of a stream, before the first
 * sample. A tree has the names of files, and a table has functions for facts that no file contains.
 * If a file exists for each CPU, the CPUs with the same content share one fact, whose name contains
 * their list: ".../cpu{0-3,8}/...".
 */
#include "system/environment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
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

#include "base/cbor.h"
#include "base/cpulist.h"
#include "base/version.h"
#include "rtgauge.h"

#define FACT_MAX 60000
#define PATH_ROOM 512
#define DEPTH_MAX 8	      /* of the tree */
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

/* A text, or bytes where it is not UTF-8, without the newlines at its end. */
static int put_text(struct collector *c, const char *name, const char *data, size_t size)
{
	while (size && data[size - 1] == '\n')
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

/*
 * @size is what was read into the buffer, one byte more than a fact holds if there was more. Texts
 * that each end in a zero byte, as the device tree has them, get a line each.
 */
static int put_content(struct collector *c, const char *name, ssize_t size)
{
	char full[PATH_ROOM + 8];
	ssize_t whole = size, text;
	int result;

	if (size < 0)
		return put_null(c, name, (int)size);
	if (size > FACT_MAX)
		size = FACT_MAX;
	/* a text is not cut in the middle of a character */
	text = size;
	while (whole > FACT_MAX && text > size - 4 && !is_text(c->buffer, text))
		text--;
	if (is_text(c->buffer, text)) {
		size = text;
		for (ssize_t i = 0; i < size; i++)
			c->buffer[i] = c->buffer[i] ?: '\n';
	}
	result = put_text(c, name, c->buffer, size);
	if (result || whole <= FACT_MAX)
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

/*
 * The lines that have one of @prefixes ("a|b") after their first @skip characters, into the buffer.
 */
static ssize_t read_lines(struct collector *c, const char *path, const char *prefixes, size_t skip)
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

				if (size + skip <= length && !memcmp(line + skip, prefix, size) &&
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

/* Append a line to the buffer, after @used bytes (negative: none yet), as far as a fact goes. */
__attribute__((format(printf, 3, 4))) static void put_line(struct collector *c, ssize_t *used,
							   const char *format, ...)
{
	va_list arguments;

	if (*used < 0)
		*used = 0;
	va_start(arguments, format);
	*used += vsnprintf(c->buffer + *used, FACT_MAX + 2 - *used, format, arguments);
	va_end(arguments);
	if (*used > FACT_MAX)
		*used = FACT_MAX + 1;
}

static int put_file(struct collector *c, const char *path)
{
	return put_content(c, path, read_file(c, path, c->buffer, FACT_MAX + 1));
}

/* /proc/cpuinfo up to the second processor. */
static int first_block(struct collector *c, const char *path)
{
	ssize_t size = read_file(c, path, c->buffer, FIRST_BLOCK_MAX);

	if (size > 0) {
		char *end;

		c->buffer[size] = '\0';
		end = strstr(c->buffer, "\n\nprocessor");
		if (end)
			size = end - c->buffer;
	}
	return put_content(c, path, size);
}

/*
 * The files that match @pattern, one of whose parts ends in a star: a fact for each, null for the
 * pattern itself if there is none. @together: one fact with a line "MATCH=content" for each, named
 * as the pattern is or, where the star stands for a file, as the folder.
 */
static int matching(struct collector *c, char *pattern, bool together)
{
	char path[PATH_ROOM], content[LINE_ROOM];
	char *star = strchr(pattern, '*');
	char *match = star;
	struct dirent *entry;
	ssize_t used = -ENOENT, size;
	int result = 0;
	DIR *dir;

	while (match[-1] != '/')
		match--;
	snprintf(path, sizeof(path), "%.*s", (int)(match - pattern), pattern);
	dir = opendir(path);
	if (!dir)
		used = -errno;
	while (dir && !result && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || strncmp(entry->d_name, match, star - match))
			continue;
		snprintf(path, sizeof(path), "%.*s%s%s", (int)(match - pattern), pattern,
			 entry->d_name, star + 1);
		if (!together) {
			used = 0;
			result = put_file(c, path);
			continue;
		}
		size = read_file(c, path, content, sizeof(content) - 1);
		if (size < 0) {
			used = used < 0 ? size : used;
			continue;
		}
		content[size] = '\0';
		content[strcspn(content, "\n")] = '\0';
		put_line(c, &used, "%s=%s\n", entry->d_name, content);
	}
	if (dir)
		closedir(dir);
	if (!together && !used)
		return result;
	if (together && !star[1])
		star[-1] = '\0';
	return put_content(c, pattern, used);
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

/* A file of each idle state of each CPU, '@' being the state's number. */
static int per_state(struct collector *c, char *pattern)
{
	char *mark = strchr(pattern, '@');
	bool found = true;
	int result = 0;

	for (int state = 0; state < IDLE_STATES_MAX && found && !result; state++) {
		*mark = (char)('0' + state);
		found = false;
		result = per_cpu_pattern(c, pattern, state == 0, &found);
	}
	return result;
}

/*
 * What is read, as a tree: NAME{BRANCH,BRANCH,...}. In a name '#' is the number of each CPU, '@' of
 * each idle state, '*' whatever is there. A mark at its end says how it is read:
 *	!	only with everything; before the other marks
 *	?	1 if it is there, whatever it is; it is not opened
 *	>	where the link leads to
 *	+	what the star stands for, all in one fact
 *	^	the first block
 *	|A|B	the lines that begin with A or B
 */
static const char tree[] =
	"/{"
	"proc/{"
	/* the kernel */
	"version,cmdline,uptime,loadavg,config.gz!,xenomai/{version,faults!,clock/coreclk!},"
	"sys/{kernel/{tainted,random/boot_id,sched_*,timer_migration,numa_balancing,watchdog,"
	"nmi_watchdog,soft_watchdog,watchdog_thresh,stack_tracer_enabled,latencytop,"
	"split_lock_mitigate!},"
	"vm/{stat_interval,compaction_proactiveness}},"
	/* the processor, interrupts, memory */
	"cpuinfo^,irq/{default_smp_affinity,*/{smp_affinity_list!+,effective_affinity_list!+}},"
	"meminfo|MemTotal:|MemAvailable:|Swap|HugePages_Total:|Hugepagesize:,swaps,stat|cpu,"
	"device-tree/{model,compatible,serial-number!,hypervisor/compatible},"
	/* containers, and what the agent may */
	"1/{comm,cgroup},"
	"self/{ns/{pid>,user>},"
	"status|CapEff:|CapBnd:|NoNewPrivs:|Seccomp:|Cpus_allowed_list:}},"
	"sys/{"
	"bus/pci/devices/*/{vendor!+,device!+,class!+},"
	"kernel/{realtime,rcu_normal,rcu_expedited,irq/*/actions!+,security/lockdown,"
	"debug/{sched_features,"
	"sched/{preempt,features,fair_server/cpu#/{runtime,period},ext_server/cpu#/runtime}},"
	"tracing/{current_tracer,tracing_on,events/enable!},iommu_groups/*/type!+,"
	"sched_ext/state,mm/{transparent_hugepage/{enabled,defrag},ksm/run}},"
	"module/{pcie_aspm/parameters/policy!,usbcore/parameters/autosuspend!,"
	"edac_core/parameters/edac_mc_poll_msec!,xenomai/parameters/{state!,smi!,allowed_group!}},"
	"devices/{"
	"system/{"
	"machinecheck/machinecheck0/check_interval!,edac/mc/mc0!?,"
	"clocksource/clocksource0/{current_clocksource,available_clocksource},"
	"clockevents/clockevent#/current_device,"
	"node/online,"
	"cpu/{online,possible,isolated,nohz_full,smt/{control,active},vulnerabilities/*+,"
	"intel_pstate/{status,no_turbo},amd_pstate/status,cpufreq/boost,"
	"cpuidle/current_{driver,governor,governor_ro},"
	"cpu0/cache/index*/{level!+,type!+,size!+},"
	"cpu#/{topology/thread_siblings_list,cpu_capacity,"
	/* on some kernels cur_freq interrupts its CPU and sleeps for 10 ms */
	"cpufreq/{scaling_{driver,governor,min_freq,max_freq,cur_freq!},"
	"energy_performance_preference!},"
	"cpuidle/state@/{name,latency,disable},"
	"power/{pm_qos_resume_latency_us,energy_perf_bias!},"
	"thermal_throttle/{core_throttle_count,package_throttle_count}}}},"
	"virtual/workqueue/cpumask},"
	"class/{thermal/thermal_zone*/{type,temp},"
	"net/*/queues/{rx-0/rps_cpus!+,tx-0/xps_cpus!+},"
	"dmi/id/{sys_vendor,product_name,board_name,bios_{vendor,version,date}}},"
	"fs/{cgroup/cpuset.cpus.isolated,resctrl!?,resctrl/{schemata!,*/cpus_list!+}},"
	"hypervisor/type},"
	"etc/tuned/active_profile!,run/{systemd/container,.containerenv?},.dockerenv?,dev/evl/control?}";

static int exists(struct collector *c, const char *path)
{
	if (faccessat(AT_FDCWD, path, F_OK, 0))
		return put_null(c, path, -errno);
	return put_integer(c, path, 1);
}

static int link_text(struct collector *c, const char *path)
{
	ssize_t size = readlink(path, c->buffer, FACT_MAX);

	return put_content(c, path, size < 0 ? -errno : size);
}

/* Xenomai 3.3 crashes when the file is read before the core was started. */
static bool crashes(struct collector *c, const char *path)
{
	static const char state[] = "/sys/module/xenomai/parameters/state";
	static const char stopped[] = "stopped";

	if (strcmp(path, "/proc/xenomai/clock/coreclk"))
		return false;
	return read_file(c, state, c->buffer, FACT_MAX) >= (ssize_t)strlen(stopped) &&
	       !strncmp(c->buffer, stopped, strlen(stopped));
}

/* A leaf of the tree: a path of @length characters with its marks. */
static int leaf(struct collector *c, char *path, size_t length)
{
	char *lines = strchr(path, '|');
	char *mark = path + length - 1;
	bool found = false;
	char how;

	if (lines) {
		*lines = '\0';
		return put_content(c, path, read_lines(c, path, lines + 1, 0));
	}
	how = strchr("?>+^", *mark) ? *mark : '\0';
	if (how)
		*mark-- = '\0';
	if (*mark == '!') {
		if (!c->everything)
			return 0;
		*mark = '\0';
	}
	if (strchr(path, '*'))
		return matching(c, path, how);
	if (strchr(path, '@'))
		return per_state(c, path);
	if (strchr(path, '#'))
		return per_cpu_pattern(c, path, true, &found);
	if (how == '?')
		return exists(c, path);
	if (how == '>')
		return link_text(c, path);
	if (crashes(c, path))
		return put_null(c, path, -ENOENT);
	return how ? first_block(c, path) : put_file(c, path);
}

static int files_word(struct collector *c)
{
	char path[PATH_ROOM], copy[PATH_ROOM];
	size_t branches[DEPTH_MAX] = { 0 }, length = 0;
	int depth = 0, result = 0;

	for (const char *s = tree; *s && !result; s++) {
		if (*s == '{') {
			branches[depth++] = length;
			continue;
		}
		if (*s != ',' && *s != '}') {
			path[length++] = *s;
			continue;
		}
		if (s[-1] != '}') {
			path[length] = '\0';
			strcpy(copy, path);
			result = leaf(c, copy, length);
		}
		if (*s == '}')
			depth--;
		length = depth ? branches[depth - 1] : 0;
	}
	return result;
}

/* The kernel's configuration where it is not compressed: what of it matters to real time. */
static int configuration_word(struct collector *c)
{
	static const char *const texts[] = { "/boot/config-%s", "/lib/modules/%s/config" };
	static const char options[] =
		"PREEMPT|HZ|NO_HZ|HIGH_RES|TICK|GENERIC_CLOCK|RCU|RT_|SCHED|FAIR_|CFS_|CPU_|"
		"CPUSETS|DYNAMIC_F|IRQ|SMP|NUMA|LOCK|DEBUG_|PROVE|KASAN|KCSAN|KMSAN|UBSAN|FUNCTION|FTRACE|"
		"OSNOISE|TIMERLAT|HWLAT|PARAVIRT|KVM_GUEST|HYPERVISOR|TRANSPARENT|X86_|"
		"INTEL_IDLE|GPIO_CDEV|GPIO_SIM|XENO|EVL|DOVETAIL|IPIPE|CC_VERSION|LOCALVERSION|"
		"SLUB_DEBUG|PAGE_POISON|KSM|SOFTLOCKUP|HARDLOCKUP|WQ_|LATENCYTOP|TRACE_IRQFLAGS|"
		"FAULT_INJECTION|GCOV|KCOV|CONTEXT_|PANIC|SWAP|MIGRATION|COMPACTION|ACPI_PROCESSOR|APM|"
		"KGDB|ARM_FCSE";
	int result = 0;

	for (size_t i = 0; c->everything && i < 2 && !result; i++) {
		char path[PATH_ROOM];

		snprintf(path, sizeof(path), texts[i], c->uts.release);
		result = put_content(c, path, read_lines(c, path, options, sizeof("CONFIG_") - 1));
	}
	return result;
}

/* The words of the agent: what no file says. */

static int uname_word(struct collector *c)
{
	return put_string(c, "uname.sysname", c->uts.sysname)		?:
		       put_string(c, "uname.nodename", c->uts.nodename) ?:
		       put_string(c, "uname.release", c->uts.release)	?:
		       put_string(c, "uname.version", c->uts.version)	?:
		       put_string(c, "uname.machine", c->uts.machine)	?:
		       put_string(c, "agent.libc", version_libc())	?:
		       put_integer(c, "agent.uid", geteuid());
}

static int cpus_word(struct collector *c)
{
	const char *name = "agent.cpus_online";
	struct cpulist online;

	if (cpulist_online(&online))
		return put_null(c, name, -ENOENT);
	return put_integer(c, name, cpulist_count(&online));
}

/*
 * The resolution that timers really have: 1 ns with high-resolution timers in use, a tick
 * without. The coarse clock's is always the tick.
 */
static int clock_word(struct collector *c)
{
	static const clockid_t clocks[] = { CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE };
	static const char *const names[] = { "agent.clock_getres_ns",
					     "agent.clock_getres_coarse_ns" };
	int result = 0;

	for (size_t i = 0; i < 2 && !result; i++) {
		struct timespec resolution;

		if (clock_getres(clocks[i], &resolution))
			result = put_null(c, names[i], -errno);
		else
			result = put_integer(c, names[i],
					     resolution.tv_sec * (int64_t)1000000000 +
						     resolution.tv_nsec);
	}
	return result;
}

static int limits_word(struct collector *c)
{
	static const struct {
		const char *name;
		int resource;
	} limits[] = { { "rtprio", RLIMIT_RTPRIO },
		       { "memlock", RLIMIT_MEMLOCK },
		       { "rttime", RLIMIT_RTTIME } };
	int result = 0;

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

/*
 * Whether SCHED_FIFO can really be had, tried in a child: agent.fifo is 0 or the error number,
 * agent.fifo_priority the highest priority that was granted. By system call: musl's function
 * always fails. The child borrows our memory: fork() would make a copy of it on write, and the
 * measuring threads, whose rings have been touched by now, would fault once more on every page.
 */
static int fifo_word(struct collector *c)
{
	static const char *const name = "agent.fifo";
	enum { NO_PRIORITY = 100 }; /* exit status: a priority, or this plus the error */
	int status, err, result;
	pid_t child = vfork();

	if (child < 0)
		return put_null(c, name, -errno);
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
		return put_null(c, name, -EIO);
	status = WEXITSTATUS(status);
	result = put_integer(c, name, status < NO_PRIORITY ? 0 : status - NO_PRIORITY);
	if (result || status >= NO_PRIORITY)
		return result;
	return put_integer(c, "agent.fifo_priority", status);
}

/* Opening it asks for nothing yet: only a written value holds the sleep states. */
static int dma_latency_word(struct collector *c)
{
	static const char *const name = "agent.dma_latency";
	int fd = open("/dev/cpu_dma_latency", O_WRONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return put_integer(c, name, errno);
	close(fd);
	return put_integer(c, name, 0);
}

#define NO_MODULES 95 /* EOPNOTSUPP, whose number is another one on MIPS */

static int module_word(struct collector *c)
{
	int err = access(RTGAUGE_DEVICE, R_OK | W_OK) ? errno : 0;

	if (err == ENOENT && access("/proc/modules", F_OK))
		err = NO_MODULES;
	return put_integer(c, "agent.module", err);
}

/*
 * The scheduler shows the running preemption mode and the fair server only in debugfs. Where that
 * is not mounted, one is opened that is mounted nowhere, and gone when it is closed.
 */
static int debugfs_word(struct collector *c)
{
	static const char *const name = "agent.debugfs";
	struct statfs status;
	int err = ENOSYS;

	if (!statfs(DEBUGFS, &status) && (unsigned long)status.f_type == DEBUGFS_MAGIC)
		return put_string(c, name, "mounted");
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
	return c->debugfs >= 0 ? put_string(c, name, "opened") : put_null(c, name, -err);
}

/*
 * The files of our own control group: of the cpu controller of version 1, and of version 2. In a
 * container the path may be the host's, then those of the root of what is mounted.
 */
static int cgroup_word(struct collector *c)
{
	static const char *const name = "/proc/self/cgroup";
	static const char *const files[] = {
		"cpu.rt_runtime_us",	"cpu.rt_period_us", "cpu.cfs_quota_us",
		"cpu.cfs_period_us",	"cpu.max",	    "cpuset.cpus.effective",
		"cpuset.cpus.partition"
	};
	ssize_t size = read_file(c, "/proc/self/cgroup", c->buffer, FACT_MAX);
	char path[PATH_ROOM], group[2][256] = { "", "" };
	int result;

	result = put_content(c, name, size);
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
		const bool second = i >= 4;
		const char *const folders[] = {
			second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu",
			second ? "/sys/fs/cgroup/unified" : "/sys/fs/cgroup/cpu,cpuacct",
		};
		char fact[64];

		size = -ENOENT;
		for (int try = 0; try < 4 && size < 0; try++) {
			snprintf(path, sizeof(path), "%s%s/%s", folders[try % 2],
				 try < 2 ? group[second] : "", files[i]);
			size = read_file(c, path, c->buffer, FACT_MAX);
		}
		snprintf(fact, sizeof(fact), "agent.cgroup.%s", files[i]);
		result = put_content(c, fact, size);
	}
	return result;
}

/* Fields of a task's stat, numbered as in proc(5). */
enum { PARENT = 4, THREADS = 20, PRIORITY = 40, POLICY = 41 };

struct task {
	char stat[LINE_ROOM];
	const char *name;
	long fields[POLICY + 1];
};

static bool read_task(const struct collector *c, const char *folder, struct task *task)
{
	char path[PATH_ROOM], *name, *end;
	ssize_t size;

	snprintf(path, sizeof(path), "%s/stat", folder);
	size = read_file(c, path, task->stat, sizeof(task->stat) - 1);
	task->stat[size > 0 ? size : 0] = '\0';
	name = strchr(task->stat, '(');
	end = strrchr(task->stat, ')');
	if (!name || !end)
		return false;
	*end = '\0';
	name[strcspn(name, "\n")] = '\0';
	task->name = name + 1;
	memset(task->fields, 0, sizeof(task->fields));
	end += 3; /* field 3, a letter */
	for (int field = PARENT; field <= POLICY && *end; field++)
		task->fields[field] = strtol(end + 1, &end, 10);
	return true;
}

/* A line about a task with a real-time policy. */
static void put_realtime(struct collector *c, ssize_t *used, const char *folder,
			 const struct task *task)
{
	static const char key[] = "\nCpus_allowed_list:\t";
	const long policy = task->fields[POLICY];
	char path[PATH_ROOM], status[4096], *cpus;
	ssize_t size;

	if (policy != SCHED_FIFO && policy != SCHED_RR && policy != SCHED_DEADLINE)
		return;
	snprintf(path, sizeof(path), "%s/status", folder);
	size = read_file(c, path, status, sizeof(status) - 1);
	status[size > 0 ? size : 0] = '\0';
	cpus = strstr(status, key);
	if (cpus) {
		cpus += sizeof(key) - 1;
		cpus[strcspn(cpus, "\n")] = '\0';
	}
	put_line(c, used, "%ld %ld %ld %s %s\n", policy, task->fields[PRIORITY],
		 task->fields[PARENT], cpus ?: "?", task->name);
}

/*
 * Other threads that run in real time: a line "POLICY PRIORITY PARENT CPUS NAME" for each
 * thread, those of the kernel (children of process 2) among them. And which programs are
 * there that move interrupts or change settings while others measure.
 */
static int tasks_word(struct collector *c)
{
	static const char *const daemons[] = { "irqbalance", "tuned", "thermald",
					       "power-profiles-" };
	enum { DAEMONS = sizeof(daemons) / sizeof(daemons[0]), TASKS_MAX = 20000 };
	char folder[PATH_ROOM / 2], running[64] = "";
	int left = c->everything ? TASKS_MAX : 0, result;
	ssize_t used = -ENOENT;
	struct dirent *entry;
	struct task task;
	DIR *dir = opendir("/proc");

	while (dir && left > 0 && (entry = readdir(dir))) {
		struct dirent *thread;
		DIR *threads = NULL;

		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		left--;
		snprintf(folder, sizeof(folder), "/proc/%.20s", entry->d_name);
		if (!read_task(c, folder, &task))
			continue;
		used = used < 0 ? 0 : used; /* /proc shows processes */
		for (int i = 0; i < DAEMONS; i++) {
			if (!strcmp(task.name, daemons[i]) && !strstr(running, daemons[i]))
				strcat(strcat(running, *running ? "\n" : ""), daemons[i]);
		}
		if (task.fields[THREADS] > 1) {
			strcat(folder, "/task");
			threads = opendir(folder);
		} else {
			put_realtime(c, &used, folder, &task);
		}
		while (threads && left > 0 && (thread = readdir(threads))) {
			if (thread->d_name[0] == '.')
				continue;
			left--;
			snprintf(folder, sizeof(folder), "/proc/%.20s/task/%.20s", entry->d_name,
				 thread->d_name);
			if (read_task(c, folder, &task))
				put_realtime(c, &used, folder, &task);
		}
		if (threads)
			closedir(threads);
	}
	if (dir)
		closedir(dir);
	if (!c->everything)
		return 0;
	result = put_content(c, "agent.realtime_tasks", used);
	if (!result && !left && used <= FACT_MAX)
		result = put_integer(c, "agent.realtime_tasks.cut", used);
	if (result)
		return result;
	return used < 0 ? put_null(c, "agent.daemons", used) :
			  put_string(c, "agent.daemons", running);
}

/* System management interrupts since the start: MSR_SMI_COUNT of Intel's processors. */
static int smi_word(struct collector *c)
{
	static const char *const name = "agent.smi_count";
	uint64_t count = 0;
	int fd = open("/dev/cpu/0/msr", O_RDONLY | O_CLOEXEC);
	int err = fd < 0 || pread(fd, &count, sizeof(count), 0x34) < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return err ? put_null(c, name, err) : put_integer(c, name, (uint32_t)count);
}

/* Arguments that the kernel does not know, as it reported while it started. */
static int unknown_word(struct collector *c)
{
	static const char *const name = "agent.unknown_parameters";
	static const char text[] = ";Unknown kernel command line parameters \"";
	char *record = c->buffer, *found = NULL, *end;
	bool whole = false, first = true;
	ssize_t got = 0;
	int fd, err;

	if (!c->everything)
		return 0;
	fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return put_null(c, name, -errno);
	while (!found && ((got = read(fd, record, FACT_MAX)) > 0 || (got < 0 && errno == EPIPE))) {
		record[got > 0 ? got : 0] = '\0';
		/* "priority,number,...": with record 0 the buffer has all since the start */
		end = strchr(record, ',');
		whole |= first && end && !strncmp(end, ",0,", 3);
		first = false;
		found = strstr(record, text);
	}
	err = got < 0 ? -errno : 0;
	close(fd);
	if (!found)
		return err && err != -EAGAIN ? put_null(c, name, err) :
		       whole		     ? put_string(c, name, "") :
					       put_null(c, name, -ENODATA);
	found += sizeof(text) - 1;
	end = strstr(found, "\", will be passed to user space");
	return put_text(c, name, found, end ? (size_t)(end - found) : strcspn(found, "\n"));
}

int environment_collect(bool everything, int (*sink)(void *arg, const struct fact *fact), void *arg)
{
	/* debugfs first: files are read through it */
	static int (*const words[])(struct collector * c) = {
		uname_word,  debugfs_word,     files_word,  configuration_word, cpus_word,
		clock_word,  dma_latency_word, module_word, limits_word,	fifo_word,
		cgroup_word, tasks_word,       smi_word,    unknown_word,
	};
	struct collector c = { .sink = sink, .arg = arg, .everything = everything, .debugfs = -1 };
	ssize_t size;
	int result = 0;

	c.buffer = malloc(FACT_MAX + 2);
	if (!c.buffer)
		return -ENOMEM;
	uname(&c.uts);
	size = read_file(&c, "/sys/devices/system/cpu/possible", c.buffer, FACT_MAX);
	c.buffer[size > 0 ? size : 0] = '\0';
	c.buffer[strcspn(c.buffer, "\n")] = '\0';
	if (cpulist_parse(&c.cpus, c.buffer) && cpulist_online(&c.cpus))
		cpulist_add(&c.cpus, 0);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && !result; i++)
		result = words[i](&c);
	if (c.debugfs >= 0)
		close(c.debugfs);
	free(c.buffer);
	return result;
}
