// SPDX-License-Identifier: Apache-2.0
/*
 * Observe: the user's own threads, from waking to running, by the kernel's scheduling tracepoints:
 * with the probes of the kernel module, else in a trace instance of the agent's own. The threads are
 * neither stopped nor changed. docs/measurements/observe.md says what exactly is timed, and what it
 * costs them.
 *
 * On the path of a sample steps 1 and 2 are the kernel's (sched_waking, sched_switch); the draining
 * thread reads the module's records or the text of tracefs, and puts a sample for each pair (step 3).
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/value.h"
#include "run/step.h"
#include "trace.h"

#define OBSERVE_THREADS 1024
/* Buckets of a thread's histogram: 32 for each doubling, up to 2^40 ns. */
#define OBSERVE_SUB_BITS 5
#define OBSERVE_BUCKETS ((40 - OBSERVE_SUB_BITS + 1) << OBSERVE_SUB_BITS)
#define OBSERVE_RING (1 << 16)
#define OBSERVE_TEXT (64 * 1024)
/* Bytes of a reading, during which a kernel without preemption runs nothing else on the CPU. */
#define OBSERVE_PIECE 512
#define OBSERVE_READ_NS (5 * NSEC_PER_SEC)
#define OBSERVE_BUFFER_KB "1024"
/* At most: a program may create threads for ever. */
#define OBSERVE_LISTS 16
/* Records of a CPU's ring in the module. */
#define OBSERVE_ROOM 16384
#define OBSERVE_OTHERS 256
#define OBSERVE_NAME 16
/* Threads whose switches are compared with the kernel's own count. */
#define OBSERVE_COUNTED 4096
#define OBSERVE_STATUS 4096
#define OBSERVE_FLAGS " clone_flags="
#define OBSERVE_RULE "no event was lost"

enum observe_event { OBSERVE_LEAVES, OBSERVE_RUNS };

struct observe_thread {
	pid_t tid;
	char name[OBSERVE_NAME];
	int64_t waking_ns; /* 0: it is not waking */
	int64_t runs_ns;   /* when it last began to run, and when it last left the CPU */
	int64_t leaves_ns;
	int64_t from_ns; /* of its struct observe_count, as until_ns */
	int64_t until_ns;
	bool counted; /* the sample that ended at runs_ns */
	/* Events between the readings of the kernel's count: from the thread, and to it. One more is
	 * counted: of a switch that was under way at the last reading. */
	int64_t events[2];
	bool after[2];
	bool compared;	    /* its events with the kernel's count */
	int64_t unreported; /* switches without an event */
	int64_t count;
	int64_t sum_ns;
	int64_t most_ns;
	uint32_t buckets[OBSERVE_BUCKETS];
};

/* How often a thread left the CPU, as /proc counts it: at the beginning (0: it came later), and at
 * the end (-1: it has ended). */
struct observe_count {
	pid_t tid;
	int64_t from_ns;  /* CLOCK_MONOTONIC: just before the first reading */
	int64_t until_ns; /* just after the last one; 0: it has not been */
	int64_t first;
	int64_t last;
};

struct observe {
	pid_t pid;
	int series;
	int worker;
	int pipe;    /* of the trace instance, or the module's device */
	bool module; /* which of them */
	int64_t samples;
	int64_t taken;
	int64_t last_ns;  /* time of the last sample, when its thread began to run */
	int64_t until_ns; /* CLOCK_MONOTONIC; 0: no limit */
	int64_t lost;
	int64_t unknown; /* threads that ended before they were known, whose events are left out */
	int64_t refused; /* threads without a row */
	pid_t others[OBSERVE_OTHERS]; /* threads of other processes that were looked at last */
	pid_t gone
		[OBSERVE_OTHERS]; /* threads that had ended when they were looked at, the last ones */
	bool ended;		  /* the process has */
	bool recounted;		  /* the kernel's counts of the end are read */
	int count;
	struct observe_thread *threads;
	int counts_used;
	struct observe_count *counts;
	int64_t switches; /* by the kernel's count, and those of them without an event */
	int64_t unreported;
	char instance[96];
	size_t used; /* of the text: the beginning of a line */
	char text[OBSERVE_TEXT];
};

static const struct option_info observe_options[] = {
	{ "pid", OPTION_INTEGER, "0", 0, INT32_MAX, NULL, "process whose threads are observed" },
	{ "for", OPTION_DURATION, "10s", 0, 0, NULL,
	  "duration; 0: until the process ends, or until stopped" },
	{ "samples", OPTION_INTEGER, "0", 0, INT64_MAX, NULL,
	  "wake-ups of all observed threads; 0: no limit" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

/* --- histograms --- */

/* Log-linear: the bucket of a value from 0 on. */
static int observe_bucket(int64_t value_ns)
{
	uint64_t value = value_ns < 0 ? 0 : (uint64_t)value_ns;
	int shift = 0;

	while (value >> shift >= 2u << OBSERVE_SUB_BITS)
		shift++;
	shift = (shift << OBSERVE_SUB_BITS) + (int)(value >> shift);
	return shift < OBSERVE_BUCKETS ? shift : OBSERVE_BUCKETS - 1;
}

/* The largest value of a bucket. */
static int64_t observe_bucket_high(int bucket)
{
	int shift = (bucket >> OBSERVE_SUB_BITS) - 1;

	if (shift <= 0)
		return bucket;
	return ((bucket - ((int64_t)shift << OBSERVE_SUB_BITS) + 1) << shift) - 1;
}

/* Nearest-rank percentile: at most 1/32 too high, never above the maximum. */
static int64_t observe_percentile(const struct observe_thread *thread, int per_100)
{
	int64_t rank = (thread->count * per_100 + 99) / 100, seen = 0;

	for (int i = 0; i < OBSERVE_BUCKETS; i++) {
		seen += thread->buckets[i];
		if (seen >= rank && seen)
			return observe_bucket_high(i) < thread->most_ns ? observe_bucket_high(i) :
									  thread->most_ns;
	}
	return thread->most_ns;
}

/* --- threads --- */

static void observe_read_name(struct observe_thread *thread)
{
	char path[48], name[VALUE_MAX];

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)thread->tid);
	if (value_get(path, name, NULL))
		strcpy(name, "(ended)");
	snprintf(thread->name, sizeof(thread->name), "%.15s", name);
	for (char *at = thread->name; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
}

/* The row of a thread, or a free one. Open addressing: the places of 1024 threads in the order of
 * their first event would need a search for each event. */
static struct observe_thread *observe_row(const struct observe *state, pid_t tid)
{
	struct observe_thread *thread;
	unsigned at = (unsigned)tid;

	/* one is always free */
	do
		thread = &state->threads[at++ % OBSERVE_THREADS];
	while (thread->tid && thread->tid != tid);
	return thread;
}

/* False: all rows are taken but the one that stays free. */
static bool observe_add(struct observe *state, struct observe_thread *thread, pid_t tid)
{
	if (state->count == OBSERVE_THREADS - 1)
		return false;
	state->count++;
	thread->tid = tid;
	observe_read_name(thread);
	return true;
}

/* A row for a thread of the process; NULL: there is no room. */
static struct observe_thread *observe_take(struct observe *state, struct observe_thread *thread,
					   pid_t tid)
{
	if (!observe_add(state, thread, tid)) {
		state->refused++;
		return NULL;
	}
	for (int i = 0; i < state->counts_used; i++)
		if (state->counts[i].tid == tid) {
			thread->from_ns = state->counts[i].from_ns;
			thread->until_ns = state->counts[i].until_ns;
		}
	return thread;
}

/* Whether the thread was there when the observation began. One that was first seen at its end has
 * an ID that another process's thread may have had before. */
static bool observe_was_counted(const struct observe *state, pid_t tid)
{
	for (int i = 0; i < state->counts_used; i++)
		if (state->counts[i].tid == tid && state->counts[i].from_ns)
			return true;
	return false;
}

static struct observe_thread *observe_find(struct observe *state, pid_t tid)
{
	char path[64];
	pid_t *other = &state->others[(unsigned)tid % OBSERVE_OTHERS];
	struct observe_thread *thread = observe_row(state, tid);

	if (thread->tid)
		return thread;
	if (*other == tid)
		return NULL;
	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)state->pid, (int)tid);
	/* the module records no other process: a thread may have ended by now */
	if (!state->module && access(path, F_OK)) {
		snprintf(path, sizeof(path), "/proc/%d", (int)tid);
		if (access(path, F_OK)) {
			if (observe_was_counted(state, tid))
				return observe_take(state, thread, tid);
			other = &state->gone[(unsigned)tid % OBSERVE_OTHERS];
		}
		*other = tid;
		return NULL;
	}
	return observe_take(state, thread, tid);
}

/* --- events --- */

/* The number behind the last @key in [line, end), or -1. The name of a task before it may hold
 * anything. */
static int64_t observe_field(const char *line, const char *end, const char *key)
{
	size_t size = strlen(key);

	for (const char *at = end - size; at >= line; at--)
		if (!memcmp(at, key, size))
			return isdigit((unsigned char)at[size]) ? strtoll(at + size, NULL, 10) : -1;
	return -1;
}

/* "  name-12  [000] d..2.    12.345678: sched_waking: ..." gives the time in ns and where the event's
 * name begins; NULL: another line. */
static const char *observe_event(const char *line, const char *end, int64_t *time_ns)
{
	static const char *const names[] = { ": sched_waking: ", ": sched_switch: ",
					     ": task_newtask: " };

	for (const char *at = line; at < end; at++)
		for (int i = 0; i < 3; i++) {
			const char *from = at;
			int64_t seconds;

			if ((size_t)(end - at) < strlen(names[i]) ||
			    memcmp(at, names[i], strlen(names[i])))
				continue;
			while (from > line && (isdigit((unsigned char)from[-1]) || from[-1] == '.'))
				from--;
			seconds = strtoll(from, (char **)&from, 10);
			if (*from != '.' || at - from != 7)
				continue;
			*time_ns = seconds * NSEC_PER_SEC +
				   strtoll(from + 1, NULL, 10) * NSEC_PER_USEC;
			return at + 2;
		}
	return NULL;
}

static void observe_took(struct step *step, struct observe *state, struct observe_thread *thread,
			 int64_t took_ns)
{
	struct series *series = &step->series[state->series];

	thread->waking_ns = 0;
	thread->counted = true;
	if (state->samples && state->taken >= state->samples)
		return;
	/* two CPUs' events of one moment may come in either order */
	if (thread->runs_ns > state->last_ns)
		state->last_ns = thread->runs_ns;
	series_time(series, state->last_ns - step->start_ns);
	series_put(series, took_ns);
	thread->count++;
	thread->sum_ns += took_ns;
	if (took_ns > thread->most_ns)
		thread->most_ns = took_ns;
	thread->buckets[observe_bucket(took_ns)]++;
	state->taken++;
}

/* The reader looks at one CPU's events after the other's, so that a waking on one CPU may come after
 * the switch on another that it led to: the times decide. */
static void observe_waking(struct step *step, struct observe *state, int64_t tid, int64_t time_ns)
{
	struct observe_thread *thread = tid > 0 ? observe_find(state, (pid_t)tid) : NULL;

	if (!thread || thread->waking_ns)
		return;
	if (thread->runs_ns >= time_ns && !thread->counted)
		observe_took(step, state, thread, thread->runs_ns - time_ns);
	else if (thread->runs_ns < time_ns && thread->leaves_ns <= time_ns)
		thread->waking_ns = time_ns;
}

/* A switch has its event just after the kernel counted it. The trace rounds to 1 us. */
static void observe_count_event(struct observe_thread *thread, enum observe_event event,
				int64_t time_ns)
{
	if (time_ns + NSEC_PER_USEC <= thread->from_ns)
		return;
	if (thread->until_ns && time_ns > thread->until_ns + NSEC_PER_USEC) {
		if (thread->after[event])
			return;
		thread->after[event] = true;
	}
	thread->events[event]++;
}

static void observe_runs(struct step *step, struct observe *state, int64_t tid, int64_t time_ns)
{
	struct observe_thread *thread = tid > 0 ? observe_find(state, (pid_t)tid) : NULL;

	if (!thread)
		return;
	observe_count_event(thread, OBSERVE_RUNS, time_ns);
	thread->runs_ns = time_ns;
	thread->counted = false;
	if (thread->waking_ns)
		observe_took(step, state, thread, time_ns - thread->waking_ns);
}

/* A thread that was still running when it was woken did not have to wait for the CPU. */
static void observe_leaves(struct observe *state, int64_t tid, int64_t time_ns)
{
	struct observe_thread *thread = tid > 0 ? observe_find(state, (pid_t)tid) : NULL;

	if (!thread)
		return;
	thread->leaves_ns = time_ns;
	observe_count_event(thread, OBSERVE_LEAVES, time_ns);
	if (thread->waking_ns <= time_ns)
		thread->waking_ns = 0;
}

/* Wake-ups before them are no longer known. */
static void observe_lost(struct step *step, struct observe *state, int64_t lost)
{
	state->lost += lost;
	for (int i = 0; i < OBSERVE_THREADS; i++)
		state->threads[i].waking_ns = state->threads[i].runs_ns = 0;
	series_lost(&step->series[state->series], 1);
}

/* "CPU:0 [LOST 12 EVENTS]" */
static bool observe_is_lost(struct step *step, struct observe *state, const char *line,
			    const char *end)
{
	int64_t lost;

	if (end - line < 8 || memcmp(end - 8, " EVENTS]", 8) || memcmp(line, "CPU:", 4))
		return false;
	lost = observe_field(line, end, "[LOST ");
	observe_lost(step, state, lost > 0 ? lost : 1);
	return true;
}

/* The thread that ran during an event: "  name-12  [000] d..2.    12.345678: ". The name may hold
 * anything. 0: not found. */
static pid_t observe_current(const char *line, const char *event)
{
	const char *at = event - 2;

	while (at > line && (isdigit((unsigned char)at[-1]) || at[-1] == '.'))
		at--;
	while (at > line && at[-1] == ' ')
		at--;
	while (at > line && at[-1] != ' ')
		at--;
	while (at > line && at[-1] == ' ')
		at--;
	if (at == line || *--at != ']')
		return 0;
	while (at > line && isdigit((unsigned char)at[-1]))
		at--;
	if (at == line || *--at != '[')
		return 0;
	while (at > line && at[-1] == ' ')
		at--;
	while (at > line && isdigit((unsigned char)at[-1]))
		at--;
	return (pid_t)strtol(at, NULL, 10);
}

/* A thread of a thread of the process is of the process, even if it has ended by now. The trace also
 * has what processes create that the process started. */
static void observe_created(struct observe *state, const char *line, const char *event,
			    const char *end)
{
	int64_t tid = observe_field(event, end, " pid=");
	const char *flags = NULL;
	struct observe_thread *thread;
	pid_t *gone;

	for (const char *at = end - strlen(OBSERVE_FLAGS); !flags && at >= event; at--)
		if (!memcmp(at, OBSERVE_FLAGS, strlen(OBSERVE_FLAGS)))
			flags = at + strlen(OBSERVE_FLAGS);
	if (tid <= 0 || !flags || !(strtoull(flags, NULL, 16) & CLONE_THREAD) ||
	    !observe_find(state, observe_current(line, event)))
		return;
	gone = &state->gone[(unsigned)tid % OBSERVE_OTHERS];
	if (*gone == (pid_t)tid)
		state->unknown++;
	thread = observe_row(state, (pid_t)tid);
	if (!thread->tid)
		observe_take(state, thread, (pid_t)tid);
}

static void observe_line(struct step *step, struct observe *state, const char *line,
			 const char *end)
{
	const char *event;
	int64_t time_ns;

	if (observe_is_lost(step, state, line, end))
		return;
	event = observe_event(line, end, &time_ns);
	if (!event)
		return;
	if (!memcmp(event, "task_newtask", 12)) {
		observe_created(state, line, event, end);
		return;
	}
	if (!memcmp(event, "sched_waking", 12)) {
		observe_waking(step, state, observe_field(event, end, " pid="), time_ns);
		return;
	}
	observe_leaves(state, observe_field(event, end, " prev_pid="), time_ns);
	observe_runs(step, state, observe_field(event, end, " next_pid="), time_ns);
}

static void observe_lines(struct step *step, struct observe *state)
{
	char *line = state->text, *end;

	while ((end = memchr(line, '\n', state->used - (size_t)(line - state->text)))) {
		observe_line(step, state, line, end);
		line = end + 1;
	}
	state->used -= (size_t)(line - state->text);
	memmove(state->text, line, state->used);
	/* no line is as long as that */
	if (state->used > sizeof(state->text) - OBSERVE_PIECE)
		state->used = 0;
}

static void observe_record(struct step *step, struct observe *state,
			   const struct rtgauge_observed *record)
{
	if (record->lost)
		observe_lost(step, state, record->lost);
	if (record->kind == RTGAUGE_OBSERVED_WAKING)
		observe_waking(step, state, record->next, (int64_t)record->time_ns);
	if (record->kind != RTGAUGE_OBSERVED_SWITCH)
		return;
	observe_leaves(state, record->prev, (int64_t)record->time_ns);
	observe_runs(step, state, record->next, (int64_t)record->time_ns);
}

static void observe_records(struct step *step, struct observe *state)
{
	struct rtgauge_observed record;

	for (size_t at = 0; at < state->used; at += sizeof(record)) {
		memcpy(&record, state->text + at, sizeof(record));
		observe_record(step, state, &record);
	}
	state->used = 0;
}

/* --- the kernel's own count --- */

/* How often a thread left the CPU, voluntarily or not; -1: it has ended. */
static int64_t observe_read_count(const struct observe *state, pid_t tid)
{
	char path[64], text[2 * OBSERVE_STATUS];
	size_t used = 0;
	int64_t willing, forced;
	ssize_t size;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)state->pid, (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	/* the counts are near its end, behind a list of up to 65536 groups */
	while ((size = read(fd, text + used, OBSERVE_STATUS - 1)) > 0) {
		used += (size_t)size;
		if (used <= OBSERVE_STATUS)
			continue;
		memmove(text, text + used - OBSERVE_STATUS, OBSERVE_STATUS);
		used = OBSERVE_STATUS;
	}
	close(fd);
	text[used] = 0;
	willing = observe_field(text, text + used, "\nvoluntary_ctxt_switches:\t");
	forced = observe_field(text, text + used, "\nnonvoluntary_ctxt_switches:\t");
	return willing < 0 || forced < 0 ? -1 : willing + forced;
}

static void observe_count_thread(struct observe *state, pid_t tid)
{
	struct observe_count *count = state->counts;
	struct observe_thread *thread;
	int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), value = observe_read_count(state, tid);

	while (count < state->counts + state->counts_used && count->tid != tid)
		count++;
	if (value < 0 || count == state->counts + OBSERVE_COUNTED)
		return;
	if (count == state->counts + state->counts_used) {
		state->counts_used++;
		*count = (struct observe_count){ .tid = tid, .last = -1 };
		if (!state->recounted) {
			count->from_ns = now_ns;
			count->first = value;
		}
	}
	if (!state->recounted)
		return;
	count->last = value;
	count->until_ns = clock_now_ns(CLOCK_MONOTONIC);
	thread = observe_row(state, tid);
	if (thread->tid)
		thread->until_ns = count->until_ns;
}

/* Reads the counts of all threads: some 30 us for each, on a fast machine. */
static void observe_count_all(struct observe *state)
{
	struct dirent *entry;
	char path[32];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)state->pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			observe_count_thread(state, (pid_t)strtol(entry->d_name, NULL, 10));
	if (dir)
		closedir(dir);
}

/* Some kernels omit switches from the idle task, and report no loss. A thread comes to a CPU as often
 * as it leaves one, or once less if it ran at the first reading. */
static void observe_compare_counts(struct observe *state)
{
	for (int i = 0; i < state->counts_used; i++) {
		const struct observe_count *count = &state->counts[i];
		struct observe_thread *thread = observe_row(state, count->tid);
		int64_t switches = count->last - count->first,
			seen = thread->events[OBSERVE_RUNS] + 1;

		/* another thread has its ID now, or the count of a 32-bit system began again at 0 */
		if (count->last < count->first || (!thread->tid && state->refused))
			continue;
		if (seen > thread->events[OBSERVE_LEAVES])
			seen = thread->events[OBSERVE_LEAVES];
		state->switches += switches;
		thread->compared = true;
		if (switches <= seen)
			continue;
		state->unreported += switches - seen;
		if (thread->tid || observe_add(state, thread, count->tid))
			thread->unreported = switches - seen;
	}
}

/* Also if its parent has not collected it yet: then only its first thread is left, a zombie. */
static bool observe_has_ended(pid_t pid)
{
	char path[32], text[VALUE_MAX], *state;
	struct stat task;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	if (stat(path, &task))
		return true;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (value_get(path, text, NULL))
		return true;
	state = strrchr(text, ')');
	return task.st_nlink <= 3 && state && strchr("ZX", state[2]);
}

static int observe_put(const struct observe *state, const char *file, const char *value)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", state->instance, file);
	return value_put(path, value);
}

static bool observe_is_over(struct step *step, const struct observe *state)
{
	return step_stopped(step) || (state->samples && state->taken >= state->samples) ||
	       (state->until_ns && clock_now_ns(CLOCK_MONOTONIC) >= state->until_ns);
}

/* What the kernel counts now is in its buffer already. Without an end of the recording, threads that
 * switch more often than the agent can read would keep it reading for ever. */
static int observe_end_recording(struct observe *state)
{
	state->recounted = true;
	observe_count_all(state);
	if (state->module)
		return ioctl(state->pipe, RTGAUGE_TRACE_RECORD, 0) ? -errno : 0;
	return observe_put(state, "tracing_on", "0");
}

/* Reads until the buffer is empty or the observation over; at most for a few seconds, because the drain
 * has other duties. */
static bool observe_read(struct step *step, struct observe *state)
{
	int64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + OBSERVE_READ_NS;
	ssize_t size;

	while (clock_now_ns(CLOCK_MONOTONIC) < until_ns) {
		size = read(state->pipe, state->text + state->used,
			    state->module ? RTGAUGE_TRACE_PAGE : OBSERVE_PIECE);
		if (size < 0 && errno == EINTR)
			continue;
		if (size <= 0)
			return true;
		state->used += (size_t)size;
		if (state->module)
			observe_records(step, state);
		else
			observe_lines(step, state);
		step_drain(step);
		if (!state->recounted && observe_is_over(step, state))
			break;
	}
	return false;
}

static void observe_collect(struct step *step)
{
	struct observe *state = step->state;
	bool recounted = state->recounted, empty;

	if (atomic_load_acquire(&step->workers[state->worker].done))
		return;
	/* before the last reading, which then has all that it did */
	state->ended = observe_has_ended(state->pid);
	empty = observe_read(step, state);
	if (empty && (state->ended || recounted))
		step_foreign_done(step, state->worker);
	else if (!recounted && observe_is_over(step, state) && observe_end_recording(state))
		step_foreign_done(step, state->worker);
}

/* --- the frame --- */

static const char *observe_folder(void)
{
	static const char *const folders[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };
	char path[64];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/events/sched/sched_waking/enable", folders[i]);
		if (!access(path, W_OK))
			return folders[i];
	}
	return NULL;
}

static int observe_skip(struct step *step)
{
	return step_skip(step, "the kernel's scheduling tracepoints cannot be reached",
			 "run as root, and load the module rtgauge.ko or mount tracefs (mount -t "
			 "tracefs nodev /sys/kernel/tracing)");
}

static int observe_setup(struct step *step)
{
	struct observe *state = step->state;
	struct series_info info = {
		.name = "wake-to-run",
		.context = "user",
		.unit = "ns",
		.cpu = -1,
		.thread = -1,
		.companion = -1,
	};

	state->pipe = -1;
	state->pid = (pid_t)option_number(&step->options, "pid");
	state->samples = option_number(&step->options, "samples");
	if (!state->pid)
		return step_skip(step, "no process was given",
				 "give the ID of a running process (--pid)");
	if (observe_has_ended(state->pid))
		return message_set(&step->msg, -EINVAL,
				   "give the ID of a running process (pidof, ps)",
				   "there is no process %d", (int)state->pid);
	if (access(RTGAUGE_TRACE_DEVICE, R_OK) && !observe_folder())
		return observe_skip(step);
	state->threads = step_alloc(step, OBSERVE_THREADS, sizeof(*state->threads));
	state->counts = step_alloc(step, OBSERVE_COUNTED, sizeof(*state->counts));
	if (!state->threads || !state->counts)
		return -ENOMEM;
	state->series = step_add_series(step, &info, OBSERVE_RING);
	if (state->series < 0)
		return state->series;
	state->worker = step_add_foreign(step, 0, -1, 0);
	return state->worker < 0 ? state->worker : 0;
}

/* Adds to the threads that are traced. */
static int observe_write_threads(int fd, const char *text, size_t used)
{
	ssize_t written = write(fd, text, used);

	if (written < 0)
		return -errno;
	return written == (ssize_t)used ? 0 : -EIO;
}

/* All threads that it has now, with a sum that tells one set of them from another. In large writes,
 * because each one makes the kernel wait for all CPUs. */
static int observe_put_listed(struct observe *state, int fd, uint64_t *sum)
{
	char path[32];
	struct dirent *entry;
	int err = 0;
	size_t used = 0;
	DIR *dir;

	*sum = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)state->pid);
	dir = opendir(path);
	while (!err && dir && (entry = readdir(dir))) {
		uint64_t tid = strtoul(entry->d_name, NULL, 10);

		if (!tid)
			continue;
		*sum += tid * tid;
		used += (size_t)snprintf(state->text + used, 16, "%.12s ", entry->d_name);
		if (used < sizeof(state->text) - 16)
			continue;
		err = observe_write_threads(fd, state->text, used);
		used = 0;
	}
	if (dir)
		closedir(dir);
	if (!err && used)
		err = observe_write_threads(fd, state->text, used);
	return !err && !*sum ? -ESRCH : err;
}

/* The kernel adds the threads that these create from then on. Those that were created while they were
 * listed are in the next list, so it ends with two that are alike. */
static int observe_put_threads(struct observe *state)
{
	uint64_t sum = 0, last;
	char path[160];
	int err, fd;

	snprintf(path, sizeof(path), "%s/set_event_pid", state->instance);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (int i = 0; i < OBSERVE_LISTS; i++) {
		last = sum;
		err = observe_put_listed(state, fd, &sum);
		if (err || sum == last)
			break;
	}
	close(fd);
	return err;
}

/* The instance is removed as a whole, so its settings are not restored. */
static int observe_configure_instance(struct step *step)
{
	struct observe *state = step->state;
	char reason[200];
	int err;

	if (!observe_folder())
		return observe_skip(step);
	if (!step->settings)
		return step_skip(step, "creating a trace instance changes a setting",
				 "omit --keep-settings");
	snprintf(state->instance, sizeof(state->instance), "%s/instances/rtgauge-%d",
		 observe_folder(), (int)getpid());
	err = settings_make_instance(step->settings, state->instance);
	if (!err)
		err = observe_put(state, "tracing_on", "0");
	if (!err)
		err = observe_put(state, "trace_clock", "mono");
	if (!err)
		err = observe_put(state, "buffer_size_kb", OBSERVE_BUFFER_KB);
	if (!err)
		err = observe_put(state, "options/event-fork", "1");
	if (!err)
		err = observe_put_threads(state);
	if (!err)
		err = observe_put(state, "events/task/task_newtask/enable", "1");
	if (!err)
		err = observe_put(state, "events/sched/sched_waking/enable", "1");
	if (!err)
		err = observe_put(state, "events/sched/sched_switch/enable", "1");
	if (!err)
		return 0;
	if (err == -ESRCH)
		return err;
	snprintf(reason, sizeof(reason),
		 "cannot make a trace instance with scheduling events in %s: %s", observe_folder(),
		 value_reason(err));
	return step_skip(step, reason, "use a kernel of version 4.14 or newer, as root");
}

/* Closing the device removes the probes. */
static int observe_configure_module(struct observe *state)
{
	const struct rtgauge_trace_observe observe = { .pid = (uint32_t)state->pid,
						       .room = OBSERVE_ROOM };
	int err;

	state->pipe = open(RTGAUGE_TRACE_DEVICE, O_RDONLY | O_CLOEXEC);
	if (state->pipe < 0)
		return -errno;
	err = ioctl(state->pipe, RTGAUGE_TRACE_OBSERVE, &observe) ? -errno : 0;
	state->module = !err;
	if (!err)
		return 0;
	close(state->pipe);
	state->pipe = -1;
	return err;
}

static int observe_configure(struct step *step)
{
	struct observe *state = step->state;
	int err = observe_configure_module(state);

	if (err && err != -ESRCH)
		err = observe_configure_instance(step);
	if (err == -ESRCH)
		return message_set(&step->msg, err, "give the ID of a running process (pidof, ps)",
				   "process %d ended before it could be observed", (int)state->pid);
	step->series[state->series].info.labels[0] =
		(struct series_label){ "method", state->module ? "module" : "tracefs" };
	return err;
}

static int observe_start(struct step *step)
{
	struct observe *state = step->state;
	int64_t for_ns = option_number(&step->options, "for");
	char path[160];
	int err;

	if (state->module) {
		strcpy(path, RTGAUGE_TRACE_DEVICE);
		err = ioctl(state->pipe, RTGAUGE_TRACE_RECORD, 1) ? -errno : 0;
	} else {
		snprintf(path, sizeof(path), "%s/trace_pipe", state->instance);
		state->pipe = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		err = state->pipe < 0 ? -errno : observe_put(state, "tracing_on", "1");
	}
	if (err)
		return message_set(&step->msg, -EIO, "run again", "%s cannot be read: %s", path,
				   strerror(-err));
	observe_count_all(state);
	if (for_ns)
		state->until_ns = clock_now_ns(CLOCK_MONOTONIC) + for_ns;
	else
		step_stop_is_end(step);
	return 0;
}

static void observe_stop(struct step *step)
{
	struct observe *state = step->state;

	if (state->pipe >= 0)
		close(state->pipe);
	state->pipe = -1;
	observe_compare_counts(state);
	if (state->unreported)
		series_lost(&step->series[state->series], state->unreported);
}

static void observe_cell(struct cbor *c, const struct observe_thread *thread, int64_t value_ns)
{
	if (thread->count)
		cbor_int(c, value_ns);
	else
		cbor_text(c, "none");
}

static void observe_table(struct step *step, const struct observe *state)
{
	static const struct step_column columns[] = {
		{ "thread", "" },	{ "name", "" },	  { "wake-ups", "count" },
		{ "missing", "count" }, { "mean", "ns" }, { "median", "ns" },
		{ "99 %", "ns" },	{ "max", "ns" },
	};
	struct cbor *c;
	int rows = 0;

	for (int i = 0; i < OBSERVE_THREADS; i++)
		rows += state->threads[i].count || state->threads[i].unreported;
	c = step_table_begin(step, "threads", columns, 8, rows);
	for (int i = 0; i < OBSERVE_THREADS; i++) {
		const struct observe_thread *thread = &state->threads[i];

		if (!thread->count && !thread->unreported)
			continue;
		cbor_array(c, 8);
		cbor_int(c, thread->tid);
		cbor_text(c, thread->name);
		cbor_int(c, thread->count);
		cbor_int(c, thread->unreported);
		observe_cell(c, thread, thread->count ? thread->sum_ns / thread->count : 0);
		observe_cell(c, thread, observe_percentile(thread, 50));
		observe_cell(c, thread, observe_percentile(thread, 99));
		observe_cell(c, thread, thread->most_ns);
	}
	step_table_end(step);
}

static void observe_say(struct step *step, const char *text)
{
	step_message(step, clock_now_ns(CLOCK_MONOTONIC) - step->start_ns, text);
}

/* Threads with events, but without a count of the kernel to compare them with. */
static int observe_uncompared(const struct observe *state)
{
	int number = 0;

	for (int i = 0; i < OBSERVE_THREADS; i++)
		number += state->threads[i].tid && !state->threads[i].compared;
	return number;
}

static void observe_judge(struct step *step, const struct observe *state)
{
	int uncompared = observe_uncompared(state), used;
	const char *remedy = "";
	char text[200];

	used = snprintf(text, sizeof(text),
			"%lld of %lld switches that the kernel counted %s missing from its trace",
			(long long)state->unreported, (long long)state->switches,
			state->unreported == 1 ? "is" : "are");
	if (uncompared)
		snprintf(text + used, sizeof(text) - (size_t)used,
			 "; %d thread%s %s not compared with the kernel's count", uncompared,
			 uncompared == 1 ? "" : "s", uncompared == 1 ? "is" : "are");
	if (state->lost) {
		snprintf(text, sizeof(text),
			 "events lost because the kernel's buffer was full: %lld",
			 (long long)state->lost);
		remedy = "observe a process with fewer wake-ups, or on a machine with an idle CPU";
	} else if (state->refused) {
		snprintf(text, sizeof(text), "events left out because the table was full: %lld",
			 (long long)state->refused);
		remedy = "observe a process with fewer threads";
	} else if (!state->recounted) {
		snprintf(text, sizeof(text),
			 "the process ended before the kernel's count could be read");
		remedy = "observe it for a shorter time than it runs (--for)";
	} else if (state->unknown) {
		snprintf(text, sizeof(text),
			 "threads whose events were left out because they had ended: %lld",
			 (long long)state->unknown);
		remedy = "load the module rtgauge.ko, which records whose threads they are";
	} else if (state->unreported) {
		remedy = "keep the CPUs out of their idle states (idle=poll)";
	} else if (!state->switches) {
		remedy = "observe a process while it works, or for longer (--for)";
	}
	step_verdict(step, OBSERVE_RULE, *remedy ? "inconclusive" : "pass", text, remedy);
}

static int observe_finish(struct step *step)
{
	const struct observe *state = step->state;
	char text[160];

	observe_table(step, state);
	if (!state->module)
		observe_say(step,
			    "tracefs records the events, which lengthens the path from waking to "
			    "running by up to 2.6 us for each wake-up on boards of the lab. The "
			    "module rtgauge.ko lengthens it by less than 1 us");
	if (state->ended) {
		snprintf(text, sizeof(text), "process %d ended during the observation",
			 (int)state->pid);
		observe_say(step, text);
	}
	if (state->refused) {
		snprintf(text, sizeof(text),
			 "events left out because the table has room for only %d threads: %lld",
			 OBSERVE_THREADS - 1, (long long)state->refused);
		observe_say(step, text);
	}
	if (state->unknown) {
		snprintf(text, sizeof(text),
			 "threads whose events were left out because they had ended before the "
			 "events were read: %lld",
			 (long long)state->unknown);
		observe_say(step, text);
	}
	observe_judge(step, state);
	return 0;
}

const struct measurement observe_measurement = {
	.name = "observe",
	.summary = "time from waking to running, for the threads of a running program",
	.chapter = CHAPTER_KERNEL,
	.options = observe_options,
	.series = {
		{ "wake-to-run", "ns", "time from the wake-up of a thread until it runs",
		  "the kernel begins to wake the thread (sched_waking)",
		  "the kernel switches to it (sched_switch)", "wake-up,scheduler,switch" },
	},
	.tables = {
		{ "threads",
		  "wake-ups of each thread: number, missing switches, median, 99 % and max" },
	},
	.verdicts = { { OBSERVE_RULE, "the trace has every switch that the kernel counted" } },
	.observes = true,
	.not_on_cobalt = "it watches Linux programs",
	.state_size = sizeof(struct observe),
	.setup = observe_setup,
	.configure = observe_configure,
	.start = observe_start,
	.collect = observe_collect,
	.stop = observe_stop,
	.finish = observe_finish,
};
