// SPDX-License-Identifier: Apache-2.0
/* The trace instance of --explain: its files, and the pages of its ring buffers. */
#include "system/tracing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/ioctl.h>

#include "base/value.h"
#include "trace.h"

/* Memory of all buffers: the trace and its snapshot. */
#define TRACING_MEMORY (64 << 20)
#define TRACING_KB_MIN 128
#define TRACING_KB_MAX 4096
#define TRACING_OTHER_KB "64" /* on CPUs that are not measured */

/* The first two are needed. Their order is that of the module's (kmod/trace.h). One text: a pointer
 * to each would take more room than its name. */
const char tracing_events[] = "sched/sched_switch\0"
			      "sched/sched_waking\0"
			      "irq/irq_handler_entry\0"
			      "irq/irq_handler_exit\0"
			      "irq/softirq_entry\0"
			      "irq/softirq_exit\0"
			      "timer/hrtimer_expire_entry\0"
			      "power/cpu_idle\0"
			      "irq_vectors/local_timer_entry\0"
			      "irq_vectors/local_timer_exit\0"
			      "irq_vectors/reschedule_entry\0"
			      "irq_vectors/reschedule_exit\0"
			      "irq_vectors/call_function_entry\0"
			      "irq_vectors/call_function_exit\0"
			      "irq_vectors/call_function_single_entry\0"
			      "irq_vectors/call_function_single_exit\0"
			      "irq_vectors/irq_work_entry\0"
			      "irq_vectors/irq_work_exit\0"
			      "ipi/ipi_entry\0"
			      "ipi/ipi_exit\0";

static const char *tracing_folder(void)
{
	static const char folders[][26] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };

	for (int i = 0; i < 2; i++) {
		char path[64];

		snprintf(path, sizeof(path), "%s/instances", folders[i]);
		if (!access(path, W_OK))
			return folders[i];
	}
	return NULL;
}

/* Not inlined: its path in each of its callers would double their size. */
static __attribute__((noinline)) int tracing_put(const struct tracing *tracing, const char *file,
						 const char *value)
{
	char path[208];

	snprintf(path, sizeof(path), "%s/%s", tracing->instance, file);
	return value_put(path, value);
}

/* @position: where the module has the content of @file. */
static int tracing_open_file(const struct tracing *tracing, const char *file, int64_t position)
{
	char path[208];
	int fd;

	if (tracing->module) {
		fd = fcntl(tracing->module, F_DUPFD_CLOEXEC, 0);
		if (fd >= 0)
			lseek(fd, position, SEEK_SET);
		return fd < 0 ? -errno : fd;
	}
	snprintf(path, sizeof(path), "%s/%s", tracing->instance, file);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* Size of each of the two buffers of a CPU. */
static int tracing_kb(const struct cpulist *cpus)
{
	int64_t bytes = value_memory_available() / 16;
	int kb;

	if (!bytes || bytes > TRACING_MEMORY)
		bytes = TRACING_MEMORY;
	kb = (int)bytes / 1024 / 2 / (cpulist_count(cpus) ?: 1);
	return kb < TRACING_KB_MIN ? TRACING_KB_MIN : kb > TRACING_KB_MAX ? TRACING_KB_MAX : kb;
}

static int tracing_size(const struct tracing *tracing, const struct cpulist *cpus)
{
	int err = tracing_put(tracing, "buffer_size_kb", TRACING_OTHER_KB);
	char size[12], file[48];

	snprintf(size, sizeof(size), "%d", tracing_kb(cpus));
	for (int cpu = cpulist_next(cpus, 0); cpu >= 0 && !err; cpu = cpulist_next(cpus, cpu + 1)) {
		snprintf(file, sizeof(file), "per_cpu/cpu%d/buffer_size_kb", cpu);
		err = tracing_put(tracing, file, size);
	}
	return err;
}

int tracing_fail(const struct tracing *tracing, struct message *msg, int err, const char *reason,
		 const char *remedy, const char *what)
{
	char level[VALUE_MAX];

	/* of which the kernel's errors are EPERM, EINVAL, and missing files */
	if (!tracing->module && err != -ENOMEM &&
	    !value_get("/sys/kernel/security/lockdown", level, NULL) &&
	    !strcmp(level, "confidentiality")) {
		reason = "the kernel is locked down (confidentiality)";
		remedy = "start the kernel with lockdown=integrity, which permits traces";
	}
	return message_set(msg, err, remedy, "%s: %s", what, reason);
}

int tracing_open(struct tracing *tracing, struct settings *settings, const struct cpulist *cpus,
		 struct message *msg)
{
	const char *folder = tracing_folder();
	int err = open(RTGAUGE_TRACE_DEVICE, O_RDONLY | O_CLOEXEC);

	tracing->module = err > 0 ? err : 0;
	if (!folder && !tracing->module)
		return tracing_fail(tracing, msg, -ENOENT, "there is no writable tracefs",
				    geteuid() ?
					    "run as root" :
					    "mount it: mount -t tracefs nodev "
					    "/sys/kernel/tracing (in a container, its host has to "
					    "provide it. A locked-down kernel forbids it)",
				    "the kernel's trace files cannot be reached");
	tracing->page_size = tracing->module ? RTGAUGE_TRACE_PAGE : (size_t)sysconf(_SC_PAGESIZE);
	tracing->pages = malloc(2 * tracing->page_size + TRACING_TEXT);
	if (!tracing->pages) {
		err = -ENOMEM;
		goto out;
	}
	tracing->text = (char *)tracing->pages + 2 * tracing->page_size;
	tracing->made = true;
	if (tracing->module)
		return 0;
	snprintf(tracing->instance, sizeof(tracing->instance), "%s/instances/rtgauge-%d-explain",
		 folder, (int)getpid());
	err = settings_make_instance(settings, tracing->instance);
	tracing->made = !err;
	if (!err)
		err = tracing_put(tracing, "tracing_on", "0");
	if (!err)
		err = tracing_put(tracing, "trace_clock", "mono");
	if (!err)
		err = tracing_size(tracing, cpus);
	if (err)
		goto out;
	/* the first one allocates the memory */
	tracing->swaps = !tracing_put(tracing, "snapshot", "1");
	tracing_release(tracing);
	return 0;
out:
	tracing_close(tracing);
	return tracing_fail(tracing, msg, err, value_reason(err),
			    err == -ENOMEM ? "free some memory" :
					     "run as root, on a kernel that is not locked down",
			    "cannot make a trace instance");
}

static int tracing_start_module(int module, const struct cpulist *cpus)
{
	struct rtgauge_trace_start start = { .room = (uint32_t)(tracing_kb(cpus) * 1024 /
								RTGAUGE_TRACE_EVENT) };
	int err = 0;

	for (int cpu = cpulist_next(cpus, 0); cpu >= 0 && !err; cpu = cpulist_next(cpus, cpu + 1)) {
		start.cpu = (uint32_t)cpu;
		err = ioctl(module, RTGAUGE_TRACE_START, &start);
	}
	return err ? -errno : 0;
}

int tracing_start(const struct tracing *tracing, const struct cpulist *cpus)
{
	char file[96];
	int number = 0;

	if (tracing->module)
		return tracing_start_module(tracing->module, cpus);
	for (const char *event = tracing_events; *event; event += strlen(event) + 1) {
		int err;

		snprintf(file, sizeof(file), "events/%s/enable", event);
		err = tracing_put(tracing, file, "1");
		if (err && number < 2)
			return err;
		number++;
	}
	return tracing_put(tracing, "tracing_on", "1");
}

void tracing_close(struct tracing *tracing)
{
	if (tracing->module)
		close(tracing->module);
	else if (tracing->made)
		tracing_put(tracing, "tracing_on", "0");
	tracing->module = 0;
	tracing->made = false;
	free(tracing->pages);
	tracing->pages = NULL;
}

/* Close @fd, of which the last read() returned @got. 0 at its end, else the error as -errno. */
static int tracing_end(int fd, ssize_t got)
{
	/* what the end of a buffer is, without blocking */
	int err = got < 0 && errno != EAGAIN ? -errno : 0;

	close(fd);
	return err;
}

int tracing_read(const struct tracing *tracing, const char *file, int number, const char *end)
{
	int fd = tracing_open_file(tracing, file,
				   RTGAUGE_TRACE_FORMAT + (int64_t)number * TRACING_TEXT);
	size_t used = 0;
	ssize_t got;
	int err;
	char *cut;

	if (fd < 0)
		return fd;
	while (used < TRACING_TEXT - 1 &&
	       (got = read(fd, tracing->text + used, TRACING_TEXT - 1 - used)) > 0)
		used += (size_t)got;
	err = tracing_end(fd, got);
	if (err)
		return err;
	tracing->text[used] = '\0';
	cut = end ? strstr(tracing->text, end) : NULL;
	return (int)(cut ? cut - tracing->text : (ssize_t)used);
}

int tracing_take(const struct tracing *tracing)
{
	if (tracing->module)
		return ioctl(tracing->module, RTGAUGE_TRACE_TAKE) ? -errno : 0;
	return tracing->swaps ? tracing_put(tracing, "snapshot", "1") :
				tracing_put(tracing, "tracing_on", "0");
}

void tracing_release(const struct tracing *tracing)
{
	if (tracing->module)
		return;
	/* its remaining events would be at the front of the next snapshot but one */
	if (tracing->swaps)
		tracing_put(tracing, "snapshot", "2");
	else
		tracing_put(tracing, "tracing_on", "1");
}

static bool tracing_wanted(const struct tracing_window *windows, int count, int cpu,
			   int64_t from_ns, int64_t to_ns)
{
	for (int i = 0; i < count; i++)
		if (windows[i].cpu == cpu && from_ns <= windows[i].to_ns &&
		    to_ns >= windows[i].from_ns)
			return true;
	return false;
}

/* A page begins with the time of its first event. */
static int64_t tracing_page_ns(const uint8_t *page)
{
	int64_t time_ns;

	memcpy(&time_ns, page, sizeof(time_ns));
	return time_ns;
}

int tracing_pages(const struct tracing *tracing, int cpu, const struct tracing_window *windows,
		  int count, int most,
		  void (*page)(void *arg, int number, const uint8_t *data, size_t size), void *arg)
{
	uint8_t *held = tracing->pages, *next = held + tracing->page_size, *other;
	int found = 0, number = 0, fd, err;
	ssize_t size = 0;
	char file[48];

	snprintf(file, sizeof(file), "per_cpu/cpu%d/%s", cpu,
		 tracing->swaps ? "snapshot_raw" : "trace_pipe_raw");
	fd = tracing_open_file(tracing, file, cpu * RTGAUGE_TRACE_CPU);
	if (fd < 0)
		return fd;
	/* a page ends where the next one begins, so one is held back */
	for (;; number++) {
		ssize_t got = read(fd, next, tracing->page_size);
		int64_t end_ns = got > 8 ? tracing_page_ns(next) : INT64_MAX;

		err = got > 8 ? 0 : tracing_end(fd, got);
		if (size && tracing_wanted(windows, count, cpu, tracing_page_ns(held), end_ns) &&
		    found++ < most) {
			while (size && !held[size - 1])
				size--;
			page(arg, number - 1, held, (size_t)size);
		}
		if (got <= 8)
			break;
		other = held;
		held = next;
		next = other;
		size = got;
	}
	return err ?: found;
}
