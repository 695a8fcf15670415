// SPDX-License-Identifier: Apache-2.0
/*
 * Noise: interruptions of a thread that only reads the clock, and whether the kernel knows of them.
 * A gap in which the kernel counted neither an interrupt nor a switch to another thread comes from
 * the hardware, the firmware or a hypervisor. docs/measurements/noise.md says what exactly is
 * timed.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "run/step.h"

/* Time in which a CPU is watched, and the break after it. */
#define NOISE_SPAN_NS (40 * NSEC_PER_MSEC)
#define NOISE_REST_NS (4 * NSEC_PER_MSEC)
#define NOISE_RING (1 << 14)
/* Bytes for the text of /proc/interrupts, which grows with CPUs and devices. */
#define NOISE_TEXT (1 << 16)
#define NOISE_TEXT_MAX (1 << 24)
#define NOISE_MSR_SMI_COUNT 0x34
/* LsSmiRx, PMCx02B: SMIs received (AMD, Processor Programming Reference, family 17h and later). */
#define NOISE_PMC_SMI 0x2b
/* The column of steal time behind the CPU's name in /proc/stat (proc(5)). */
#define NOISE_STEAL 8
#define NOISE_UNREAD UINT64_MAX

enum noise_kind { NOISE_HARDWARE, NOISE_INTERRUPT, NOISE_THREAD, NOISE_KINDS };

static const char *const noise_kinds[NOISE_KINDS] = { "hardware", "interrupt", "thread" };

/* Counters of the kernel and the processor. */
struct noise_counts {
	int64_t switches;    /* of the thread */
	uint64_t interrupts; /* NOISE_UNREAD: there may have been one */
	uint64_t smi;
};

struct noise_sum {
	int64_t gaps;
	int64_t sum_ns;
	int64_t most_ns;
};

struct noise_cpu {
	int cpu;
	int series[NOISE_KINDS];
	int interrupts_fd;
	int smi_fd;		    /* -1: SMIs are not counted */
	off_t smi_at;		    /* place in the file */
	const char *smi_how;	    /* or why not */
	struct noise_counts counts; /* the last ones */
	uint64_t smi_start;
	int64_t stolen_ticks; /* by /proc/stat; -1: not known */
	int64_t watched_ns;
	struct noise_sum sums[NOISE_KINDS];
	char *text;
	size_t text_size;
};

struct noise {
	struct noise_cpu *cpus;
	int count;
};

static const struct option_info noise_options[] = {
	{ "for", OPTION_DURATION, "10s", NSEC_PER_MSEC, 24 * 3600 * NSEC_PER_SEC, NULL,
	  "duration" },
	{ "above", OPTION_DURATION, "1us", 100, NSEC_PER_SEC, NULL,
	  "minimum time between two clock readings that counts as a gap" },
	{ "cpu", OPTION_CPUS, "all", 0, 0, NULL, "CPUs to watch, all at the same time" },
	{ "priority", OPTION_INTEGER, "80", 0, 99, NULL, "SCHED_FIFO priority; 0: SCHED_OTHER" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

/* --- counts --- */

/* The column of @cpu in /proc/interrupts, by the first line of @text, which then begins at its end, or
 * -1. */
static int noise_column(const char **text, int cpu)
{
	int column = 0, found = -1;
	char *end;

	for (; **text && **text != '\n'; (*text)++)
		if (!strncmp(*text, "CPU", 3)) {
			if (strtol(*text + 3, &end, 10) == cpu)
				found = column;
			column++;
			*text = end - 1;
		}
	return found;
}

/* The interrupts of @cpu in the text of /proc/interrupts: its column, of all lines that have it. */
static uint64_t noise_interrupts(const char *text, int cpu)
{
	int found = noise_column(&text, cpu);
	uint64_t sum = 0;
	char *end;

	while (found >= 0 && *text) {
		const char *line = ++text, *colon;
		uint64_t number = 0;
		int at = 0;

		text = strchr(line, '\n') ?: line + strlen(line);
		colon = memchr(line, ':', (size_t)(text - line));
		if (!colon || colon - line < 3 || !strncasecmp(colon - 3, "ERR", 3) ||
		    !strncmp(colon - 3, "MIS", 3))
			continue;
		for (line = colon + 1; at <= found; line = end, at++) {
			number = strtoull(line, &end, 10);
			/* a line that has one number for all CPUs */
			if (end == line || end > text)
				break;
		}
		if (at > found)
			sum += number;
	}
	return sum;
}

/* A file's text as far as it can be read. Returns whether that is all of it. */
static bool noise_read(int fd, char *text, size_t room)
{
	size_t used = 0;
	ssize_t size = -1;

	if (fd >= 0 && !lseek(fd, 0, SEEK_SET))
		while (used < room - 1 && (size = read(fd, text + used, room - 1 - used)) > 0)
			used += (size_t)size;
	text[used] = '\0';
	return !size;
}

/* Bytes for a file's text, with as many again for lines that come later; 0 if it is too long. */
static size_t noise_room(int fd)
{
	size_t size = 0;
	char text[4096];
	ssize_t more;

	while (fd >= 0 && size <= NOISE_TEXT_MAX && (more = read(fd, text, sizeof(text))) > 0)
		size += (size_t)more;
	if (2 * size > NOISE_TEXT_MAX)
		return 0;
	return 2 * size > NOISE_TEXT ? 2 * size : NOISE_TEXT;
}

/* SMIs so far. A reading that fails leaves the last count, and from then on SMIs are not counted. */
static uint64_t noise_smi(struct noise_cpu *c)
{
	uint64_t count = 0;
	ssize_t size;

	if (c->smi_fd < 0)
		return c->counts.smi;
	/* a performance counter has no position: it refuses pread() */
	size = c->smi_at ? pread(c->smi_fd, &count, sizeof(count), c->smi_at) :
			   read(c->smi_fd, &count, sizeof(count));
	if (size == sizeof(count))
		return c->smi_at ? (uint32_t)count : count;
	close(c->smi_fd);
	c->smi_fd = -1;
	c->smi_how = c->smi_at ? "not counted: a reading of MSR 0x34 failed" :
				 "not counted: a reading of performance counter 0x2b failed";
	return c->counts.smi;
}

static int64_t noise_switches(void)
{
	struct rusage usage = { .ru_nvcsw = 0 };

	getrusage(RUSAGE_THREAD, &usage);
	return (int64_t)usage.ru_nvcsw + usage.ru_nivcsw;
}

static struct noise_counts noise_look(struct noise_cpu *c)
{
	struct noise_counts counts = { .smi = noise_smi(c) };

	counts.switches = noise_switches();
	counts.interrupts = noise_read(c->interrupts_fd, c->text, c->text_size) ?
				    noise_interrupts(c->text, c->cpu) :
				    NOISE_UNREAD;
	return counts;
}

/* The next gap begins. Reading the interrupts takes time, and a switch or an SMI in that time does
 * not belong to the gap. */
static void noise_follow(struct noise_cpu *c, struct noise_counts counts)
{
	c->counts = counts;
	c->counts.smi = noise_smi(c);
	c->counts.switches = noise_switches();
}

/* An SMI that was counted decides: the interrupts that waited for its end were not the cause. */
static enum noise_kind noise_kind(const struct noise_counts *before,
				  const struct noise_counts *after)
{
	if (after->smi != before->smi)
		return NOISE_HARDWARE;
	if (after->switches != before->switches)
		return NOISE_THREAD;
	if (after->interrupts == NOISE_UNREAD)
		return NOISE_INTERRUPT;
	return after->interrupts != before->interrupts ? NOISE_INTERRUPT : NOISE_HARDWARE;
}

/* Stolen time of @cpu in USER_HZ by the text of /proc/stat, or -1. */
static int64_t noise_stolen(const char *text, int cpu)
{
	char name[16];

	snprintf(name, sizeof(name), "\ncpu%d ", cpu);
	text = strstr(text, name);
	if (!text)
		return -1;
	text += strlen(name);
	for (int i = 1; i < NOISE_STEAL; i++) {
		text += strspn(text, "0123456789");
		if (*text++ != ' ')
			return -1;
	}
	return strtoll(text, NULL, 10);
}

static int64_t noise_read_stolen(struct noise_cpu *c)
{
	int fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);

	noise_read(fd, c->text, c->text_size);
	if (fd >= 0)
		close(fd);
	return noise_stolen(c->text, c->cpu);
}

/* --- the measuring loop --- */

static void noise_gap(struct noise_cpu *c, const struct step *step, int64_t from_ns,
		      int64_t away_ns)
{
	struct noise_counts counts = noise_look(c);
	enum noise_kind kind = noise_kind(&c->counts, &counts);
	struct series *series = &step->series[c->series[kind]];
	struct noise_sum *sum = &c->sums[kind];

	noise_follow(c, counts);
	series_time(series, from_ns - step->start_ns);
	series_put(series, away_ns);
	sum->gaps++;
	sum->sum_ns += away_ns;
	if (away_ns > sum->most_ns)
		sum->most_ns = away_ns;
}

/* Read the clock and nothing else. What is counted after a gap is not watched. */
static void noise_span(struct noise_cpu *c, const struct step *step, int64_t above_ns,
		       int64_t until_ns)
{
	int64_t last_ns, from_ns;

	noise_follow(c, noise_look(c));
	last_ns = from_ns = clock_now_ns(CLOCK_MONOTONIC);
	while (last_ns < until_ns) {
		int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

		if (now_ns - last_ns > above_ns) {
			c->watched_ns += now_ns - from_ns;
			noise_gap(c, step, last_ns, now_ns - last_ns);
			now_ns = from_ns = clock_now_ns(CLOCK_MONOTONIC);
		}
		last_ns = now_ns;
	}
	c->watched_ns += last_ns - from_ns;
}

static void noise_loop(struct worker *worker)
{
	struct noise_cpu *c = worker->state;
	struct step *step = worker->step;
	int64_t above_ns = option_number(&step->options, "above"), stolen, last;
	int64_t now_ns, until_ns;

	stolen = noise_read_stolen(c);
	c->smi_start = c->counts.smi = noise_smi(c);
	now_ns = clock_now_ns(CLOCK_MONOTONIC);
	until_ns = now_ns + option_number(&step->options, "for");
	while (now_ns < until_ns && !step_stopped(step)) {
		int64_t span_ns = now_ns + NOISE_SPAN_NS;

		noise_span(c, step, above_ns, span_ns < until_ns ? span_ns : until_ns);
		now_ns = clock_now_ns(CLOCK_MONOTONIC);
		if (now_ns < until_ns) {
			clock_rest(NOISE_REST_NS);
			now_ns = clock_now_ns(CLOCK_MONOTONIC);
		}
	}
	last = noise_read_stolen(c);
	c->stolen_ticks = stolen < 0 || last < stolen ? -1 : last - stolen;
}

/* --- the frame --- */

static bool noise_is_amd(void)
{
	char text[64] = "";
	int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
	ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	return size > 0 && strstr(text, "AuthenticAMD");
}

/* Intel has a register that counts SMIs, AMD an event of its performance counters. */
static void noise_open_smi(struct noise_cpu *c)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_RAW,
		.size = sizeof(attr),
		.config = NOISE_PMC_SMI,
	};
	uint64_t count;
	char path[40];

	c->smi_at = NOISE_MSR_SMI_COUNT;
	c->smi_how = "MSR 0x34";
	snprintf(path, sizeof(path), "/dev/cpu/%d/msr", c->cpu);
	c->smi_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (c->smi_fd >= 0 && pread(c->smi_fd, &count, sizeof(count), c->smi_at) == sizeof(count))
		return;
	if (c->smi_fd >= 0)
		close(c->smi_fd);
	c->smi_at = 0;
	c->smi_how = "performance counter 0x2b";
	c->smi_fd = -1;
	if (noise_is_amd())
		c->smi_fd = (int)syscall(SYS_perf_event_open, &attr, -1, c->cpu, -1,
					 PERF_FLAG_FD_CLOEXEC);
	/* closed if it gives no count */
	if (c->smi_fd >= 0)
		noise_smi(c);
	if (c->smi_fd < 0)
		c->smi_how = noise_is_amd() ?
				     "not counted: no performance counter 0x2b (SMIs) here" :
				     "not counted: MSR 0x34 cannot be read (modprobe msr, as root)";
}

static int noise_add(struct step *step, struct noise_cpu *c, int cpu)
{
	struct series_info info = {
		.context = "user",
		.unit = "ns",
		.cpu = cpu,
		.thread = step->worker_count,
		.companion = -1,
	};
	const char *text;
	int worker;

	c->cpu = cpu;
	c->interrupts_fd = open("/proc/interrupts", O_RDONLY | O_CLOEXEC);
	c->text_size = noise_room(c->interrupts_fd);
	if (!c->text_size)
		return step_skip(step, "/proc/interrupts has more than 8 MiB", "");
	text = c->text = step_alloc(step, 1, c->text_size);
	if (!text)
		return -ENOMEM;
	/* a container may have an empty file there */
	noise_read(c->interrupts_fd, c->text, c->text_size);
	if (noise_column(&text, cpu) < 0)
		return step_skip(step,
				 "/proc/interrupts cannot be read or does not list the CPU, so the "
				 "causes of gaps are unknown",
				 "mount proc, allow more open files (ulimit -n), and measure "
				 "outside a container that hides this file");
	noise_open_smi(c);
	for (int i = 0; i < NOISE_KINDS; i++) {
		info.name = noise_kinds[i];
		c->series[i] = step_add_series(step, &info, NOISE_RING);
		if (c->series[i] < 0)
			return c->series[i];
	}
	worker = step_add_worker(step, noise_loop, c, cpu,
				 (int)option_number(&step->options, "priority"));
	return worker < 0 ? worker : 0;
}

static int noise_setup(struct step *step)
{
	struct noise *state = step->state;
	struct cpulist cpus;
	int err = step_cpus(step, &cpus), number = 0;

	if (err)
		return err;
	state->cpus = step_alloc(step, (size_t)cpulist_count(&cpus), sizeof(*state->cpus));
	if (!state->cpus)
		return -ENOMEM;
	state->count = cpulist_count(&cpus);
	for (int i = 0; i < state->count; i++)
		state->cpus[i].interrupts_fd = state->cpus[i].smi_fd = -1;
	for (int cpu = cpulist_next(&cpus, 0); cpu >= 0 && !err; cpu = cpulist_next(&cpus, cpu + 1))
		err = noise_add(step, &state->cpus[number++], cpu);
	return err;
}

static void noise_put_smi(struct cbor *c, const struct noise_cpu *cpu)
{
	if (cpu->smi_fd >= 0)
		cbor_int(c, (int64_t)(cpu->counts.smi - cpu->smi_start));
	else
		cbor_text(c, "not known");
	cbor_text(c, cpu->smi_how);
}

static int noise_finish(struct step *step)
{
	static const struct step_column columns[] = {
		{ "cpu", "" },	 { "gaps by", "" },   { "gaps", "count" }, { "sum", "ns" },
		{ "max", "ns" }, { "watched", "ns" }, { "share", "ppm" },
	};
	static const struct step_column counters[] = {
		{ "cpu", "" }, { "SMIs", "" }, { "SMIs counted by", "" }, { "stolen", "ns" }
	};
	const struct noise *state = step->state;
	struct cbor *c = step_table_begin(step, "noise", columns, 7, state->count * NOISE_KINDS);

	for (int i = 0; i < state->count * NOISE_KINDS; i++) {
		const struct noise_cpu *cpu = &state->cpus[i / NOISE_KINDS];
		const struct noise_sum *sum = &cpu->sums[i % NOISE_KINDS];
		int64_t watched_us = cpu->watched_ns / NSEC_PER_USEC;

		cbor_array(c, 7);
		cbor_int(c, cpu->cpu);
		cbor_text(c, noise_kinds[i % NOISE_KINDS]);
		cbor_int(c, sum->gaps);
		cbor_int(c, sum->sum_ns);
		cbor_int(c, sum->most_ns);
		cbor_int(c, cpu->watched_ns);
		cbor_int(c, watched_us ? sum->sum_ns * 1000 / watched_us : 0);
	}
	step_table_end(step);
	c = step_table_begin(step, "firmware and hypervisor", counters, 4, state->count);
	for (int i = 0; i < state->count; i++) {
		const struct noise_cpu *cpu = &state->cpus[i];

		cbor_array(c, 4);
		cbor_int(c, cpu->cpu);
		noise_put_smi(c, cpu);
		if (cpu->stolen_ticks < 0)
			cbor_text(c, "not known");
		else
			cbor_int(c, cpu->stolen_ticks * (NSEC_PER_SEC / sysconf(_SC_CLK_TCK)));
	}
	step_table_end(step);
	return 0;
}

static void noise_cleanup(struct step *step)
{
	const struct noise *state = step->state;

	for (int i = 0; i < state->count; i++) {
		if (state->cpus[i].interrupts_fd >= 0)
			close(state->cpus[i].interrupts_fd);
		if (state->cpus[i].smi_fd >= 0)
			close(state->cpus[i].smi_fd);
	}
}

const struct measurement noise_measurement = {
	.name = "noise",
	.summary = "time that hardware, firmware, hypervisor and kernel take from a polling thread",
	.chapter = CHAPTER_CALIBRATION,
	.options = noise_options,
	.series = {
		{ "hardware", "ns", "gaps without an interrupt and without another thread",
		  "a reading of the clock", "the next one", NULL },
		{ "interrupt", "ns",
		  "gaps in which the kernel counted an interrupt, or its count could not be read",
		  "a reading of the clock", "the next one", NULL },
		{ "thread", "ns", "gaps in which another thread ran", "a reading of the clock",
		  "the next one", NULL },
	},
	.tables = {
		{ "noise", "gaps of each CPU by their kind, and their share of the time watched" },
		{ "firmware and hypervisor",
		  "SMIs and stolen time of each CPU, where they are counted" },
	},
	.evaluate = { { "idle", "for=5s", "for=2m" } },
	.unseen_gaps = "hardware",
	.not_on_cobalt = "the kernel counts only what interrupts Linux threads",
	.state_size = sizeof(struct noise),
	.setup = noise_setup,
	.finish = noise_finish,
	.cleanup = noise_cleanup,
};
