// SPDX-License-Identifier: Apache-2.0
/*
 * Page faults: time of the first access to a page, for each kind of memory, and whether locked
 * memory has page faults. docs/measurements/page-fault.md says what exactly is timed. The agent's
 * own memory is locked, and new mappings are present at once. The kind locked, which comes first,
 * uses this. Afterwards new mappings stay unlocked until the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/value.h"
#include "methods/ensemble.h"

/* Pages of a test loop. */
#define FAULT_LOOP 64
#define FAULT_LOOP_HUGE 4
/* The kernel maps so much of a cached file around a page that is read, on its default. */
#define FAULT_AROUND (64 * 1024)
#define FAULT_FREE "locked memory has no page faults"
#define FAULT_ALL_MEASURED "every kind of memory is measured"
#define FAULT_HUGE_SIZE "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size" /* since Linux 4.10 */
#define FAULT_HUGE_USE "/sys/kernel/mm/transparent_hugepage/enabled"

enum fault_kind_number {
	FAULT_ANONYMOUS,
	FAULT_AGAIN,
	FAULT_HUGE,
	FAULT_FILE,
	FAULT_COPY,
	FAULT_LOCKED,
	FAULT_KINDS
};

struct fault_kind {
	const char *name;
	bool writes;
};

static const struct fault_kind fault_kinds[FAULT_KINDS] = {
	[FAULT_ANONYMOUS] = { "anonymous", true }, [FAULT_AGAIN] = { "given-back", true },
	[FAULT_HUGE] = { "huge", true },	   [FAULT_FILE] = { "file", false },
	[FAULT_COPY] = { "copy", true },	   [FAULT_LOCKED] = { "locked", true },
};

struct fault_measured {
	int series;	/* -1: not available */
	int refused;	/* errno */
	int64_t others; /* touches that did not get the page that they were for */
	int64_t touches;
	int64_t faults;
};

struct fault_state {
	struct ensemble ensemble;
	int64_t samples;
	size_t page;
	size_t huge; /* 0: none */
	int file;    /* all of it in the page cache; -1: none */
	bool unlock;
	struct fault_measured kinds[FAULT_KINDS];
};

static const struct option_info fault_options[] = {
	ENSEMBLE_FOR,
	{ "samples", OPTION_INTEGER, "2000", 1, 10000000, NULL, "pages touched of each kind" },
	ENSEMBLE_CPU,
	ENSEMBLE_PRIORITY,
	{ "unlock", OPTION_FLAG, "no", 0, 0, NULL,
	  "leave the memory of kind 'locked' unlocked, so that its test fails" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

/* --- memory under test --- */

/* @size bytes that begin at a multiple of @align. NULL with errno. */
static char *fault_map(const struct fault_state *state, enum fault_kind_number kind, size_t size,
		       size_t align)
{
	bool of_file = kind == FAULT_FILE || kind == FAULT_COPY;
	int allowed = kind == FAULT_FILE ? PROT_READ : PROT_READ | PROT_WRITE;
	int flags = of_file ? MAP_PRIVATE : MAP_PRIVATE | MAP_ANONYMOUS;
	char *memory = mmap(NULL, size + align, allowed, flags, of_file ? state->file : -1, 0);
	char *begin;

	if (memory == MAP_FAILED)
		return NULL;
	/* what was mapped for the alignment alone goes */
	begin = memory + (align ? (align - (uintptr_t)memory % align) % align : 0);
	if (begin > memory)
		munmap(memory, (size_t)(begin - memory));
	if (memory + size + align > begin + size)
		munmap(begin + size, (size_t)(memory + align - begin));
	if (!of_file)
		madvise(begin, size, kind == FAULT_HUGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	return begin;
}

/* Faults of this thread so far. */
static int64_t fault_count(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_minflt + usage.ru_majflt;
}

/* A sanitizer would look at, and fault in, memory of its own at each access. */
#if defined(__clang__)
#define FAULT_PLAIN __attribute__((noinline, no_sanitize("address", "thread", "memory")))
#else
#define FAULT_PLAIN __attribute__((noinline, no_sanitize("address"), no_sanitize("thread")))
#endif

static FAULT_PLAIN int64_t fault_write(struct mark *mark, volatile char *at)
{
	int64_t from_ns = mark_from_ns(mark);

	*at = 1;
	return mark_to_ns(mark) - from_ns;
}

static FAULT_PLAIN int64_t fault_read(struct mark *mark, const volatile char *at)
{
	int64_t from_ns = mark_from_ns(mark);

	(void)*at;
	return mark_to_ns(mark) - from_ns;
}

/* No sample. */
static FAULT_PLAIN void fault_place(volatile char *at)
{
	*at = 1;
}

/* --- the loop --- */

static void fault_touch(struct fault_state *state, enum fault_kind_number kind, char *memory,
			size_t step, int count)
{
	struct fault_measured *m = &state->kinds[kind];
	struct ensemble *e = &state->ensemble;
	struct series *series = &e->step->series[m->series];
	struct mark *mark = &e->step->mark;
	int64_t before = fault_count();

	ensemble_loop(e, m->series);
	for (int i = 0; i < count; i++) {
		int64_t took_ns = fault_kinds[kind].writes ? fault_write(mark, &memory[i * step]) :
							     fault_read(mark, &memory[i * step]);

		series_put(series, ensemble_net(e, took_ns));
	}
	m->touches += count;
	m->faults += fault_count() - before;
}

/* Memory without a huge page faults again in its middle and is not sampled. */
static void fault_touch_huge(struct fault_state *state, char *memory, int count)
{
	struct fault_measured *m = &state->kinds[FAULT_HUGE];
	struct ensemble *e = &state->ensemble;

	ensemble_loop(e, m->series);
	for (int i = 0; i < count; i++) {
		char *page = &memory[i * state->huge];
		int64_t before = fault_count(), took_ns, faults;

		took_ns = fault_write(&e->step->mark, page);
		faults = fault_count() - before;
		fault_place(&page[state->huge / 2]);
		if (fault_count() - before != faults) {
			m->others++;
			continue;
		}
		series_put(&e->step->series[m->series], ensemble_net(e, took_ns));
		m->touches++;
		m->faults += faults;
	}
}

static bool fault_loop_once(struct fault_state *state, enum fault_kind_number kind, int count)
{
	size_t align = kind == FAULT_HUGE ? state->huge : 0;
	size_t step = kind == FAULT_HUGE ? state->huge :
		      kind == FAULT_FILE ? FAULT_AROUND :
					   state->page;
	size_t size = step * (size_t)count;
	char *memory = fault_map(state, kind, size, align);

	if (!memory)
		return ensemble_fail(&state->ensemble, -errno, "cannot map memory");
	if (kind == FAULT_AGAIN) {
		memset(memory, 1, size);
		madvise(memory, size, MADV_DONTNEED);
	}
	if (kind == FAULT_HUGE)
		fault_touch_huge(state, memory, count);
	else
		fault_touch(state, kind, memory, step, count);
	munmap(memory, size);
	return true;
}

/* All samples of the kinds from @first up to @end, a test loop of each in turn. */
static bool fault_loops(struct fault_state *state, int first, int end)
{
	for (int64_t done = 0; done < state->samples; done += FAULT_LOOP_HUGE)
		for (int kind = first; kind < end; kind++) {
			int loop = kind == FAULT_HUGE ? FAULT_LOOP_HUGE : FAULT_LOOP;
			int64_t left = state->samples - done;

			if (done % loop || state->kinds[kind].series < 0)
				continue;
			if (!ensemble_goes_on(&state->ensemble) ||
			    !fault_loop_once(state, kind, left < loop ? (int)left : loop))
				return false;
		}
	return true;
}

static void fault_loop(struct worker *worker)
{
	struct fault_state *state = worker->state;
	bool locks = !worker->step->memory_unlocked;
	bool goes_on = true;

	if (locks && !state->unlock)
		goes_on = fault_loops(state, FAULT_LOCKED, FAULT_KINDS);
	/* what is locked stays so, what is mapped from here on does not become so */
	if (locks && mlockall(MCL_CURRENT))
		munlockall();
	if (locks && state->unlock)
		goes_on = fault_loops(state, FAULT_LOCKED, FAULT_KINDS);
	if (goes_on)
		fault_loops(state, 0, FAULT_LOCKED);
	if (locks)
		mlockall(MCL_CURRENT | MCL_FUTURE);
}

/* --- setup --- */

/* A file in memory alone, all of it in the page cache. */
static int fault_make_file(struct fault_state *state)
{
	static const char block[4096] = { 1 };
	int fd = memfd_create("rtgauge", MFD_CLOEXEC);

	if (fd < 0)
		return errno;
	for (size_t i = 0; i < FAULT_LOOP * FAULT_AROUND / sizeof(block); i++)
		if (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block)) {
			close(fd);
			return ENOSPC;
		}
	state->file = fd;
	return 0;
}

static size_t fault_huge_size(void)
{
	char text[32] = "";
	int fd = open(FAULT_HUGE_SIZE, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	return (size_t)strtoul(text, NULL, 10);
}

static int fault_setup(struct step *step)
{
	struct fault_state *state = step->state;
	int err;

	state->page = (size_t)sysconf(_SC_PAGESIZE);
	state->samples = option_number(&step->options, "samples");
	state->unlock = option_number(&step->options, "unlock");
	state->huge = fault_huge_size();
	state->file = -1;
	err = ensemble_setup(step, &state->ensemble, fault_loop, 0, 0);
	if (err)
		return err;
	if (!state->huge)
		state->kinds[FAULT_HUGE].refused = ENOSYS;
	/* 512 MiB each, where small ones have 64 KiB */
	else if ((int64_t)state->huge * FAULT_LOOP_HUGE > value_memory_available() / 4)
		state->kinds[FAULT_HUGE].refused = ENOMEM;
	state->kinds[FAULT_FILE].refused = state->kinds[FAULT_COPY].refused =
		fault_make_file(state);
	for (int kind = 0; kind < FAULT_KINDS && err >= 0; kind++) {
		struct fault_measured *m = &state->kinds[kind];
		int loop = kind == FAULT_HUGE ? FAULT_LOOP_HUGE : FAULT_LOOP;

		m->series = -1;
		if (m->refused)
			continue;
		err = m->series = ensemble_series(&state->ensemble, "touch", "memory",
						  fault_kinds[kind].name,
						  ensemble_room(state->samples, loop), true);
	}
	return err < 0 ? err : 0;
}

/* --- results --- */

static void fault_table(struct step *step, const struct fault_state *state)
{
	static const struct step_column columns[] = {
		{ "memory", "" },
		{ "accesses", "count" },
		{ "page faults", "count" },
	};
	struct cbor *c = step_table_begin(step, "faults", columns, 3, FAULT_KINDS);

	for (int kind = 0; kind < FAULT_KINDS; kind++) {
		cbor_array(c, 3);
		cbor_text(c, fault_kinds[kind].name);
		cbor_int(c, state->kinds[kind].touches);
		cbor_int(c, state->kinds[kind].faults);
	}
	step_table_end(step);
}

static void fault_verdict_locked(struct step *step, const struct fault_measured *m)
{
	char evidence[96];

	if (step->memory_unlocked) {
		snprintf(evidence, sizeof(evidence), "the memory cannot be locked: %s",
			 strerror(step->memory_unlocked));
		step_verdict(step, FAULT_FREE, "skipped", evidence,
			     "raise the limit on locked memory (ulimit -l)");
		return;
	}
	snprintf(evidence, sizeof(evidence), "%lld access%s, %lld page fault%s",
		 (long long)m->touches, m->touches == 1 ? "" : "es", (long long)m->faults,
		 m->faults == 1 ? "" : "s");
	step_verdict(step, FAULT_FREE, m->faults ? "fail" : "pass", evidence,
		     m->faults ? "lock all memory: mlockall(MCL_CURRENT | MCL_FUTURE)" : "");
}

/* Reports huge pages that were left out. False: they were not. */
static bool fault_huge_skipped(struct step *step, const struct fault_state *state)
{
	const struct fault_measured *m = &state->kinds[FAULT_HUGE];
	const char *remedy =
		"use a kernel with CONFIG_TRANSPARENT_HUGEPAGE, which excludes PREEMPT_RT";
	char evidence[96] = "no transparent huge pages";

	if (m->touches || (!m->others && !m->refused))
		return false;
	if (m->refused == ENOMEM) {
		snprintf(evidence, sizeof(evidence),
			 "%d huge pages of %lld MiB need too much memory", FAULT_LOOP_HUGE,
			 (long long)(state->huge >> 20));
		remedy = "free some memory";
	} else if (m->refused && !access(FAULT_HUGE_USE, F_OK)) {
		snprintf(evidence, sizeof(evidence),
			 "the kernel does not give the size of its huge pages");
		remedy = "use a kernel with " FAULT_HUGE_SIZE " (Linux 4.10 and newer)";
	} else if (m->others) {
		snprintf(evidence, sizeof(evidence),
			 "the kernel provided none of the %lld requested huge pages",
			 (long long)m->others);
		remedy = "write madvise to " FAULT_HUGE_USE ", measure "
			 "without --prepare, or free some memory";
	}
	step_verdict(step, FAULT_ALL_MEASURED, "skipped", evidence, remedy);
	return true;
}

static void fault_verdict_file(struct step *step, const struct fault_state *state)
{
	int refused = state->kinds[FAULT_FILE].refused;
	char evidence[96];

	if (!refused)
		return;
	snprintf(evidence, sizeof(evidence), "a file in memory cannot be created: %s",
		 strerror(refused));
	step_verdict(step, FAULT_ALL_MEASURED, "skipped", evidence,
		     "a file in memory needs memfd_create() and 4 MiB");
}

/* The first kind that the step did not come to, or else one that is not available. Locked memory has
 * a test of its own. */
static void fault_verdict_all(struct step *step, const struct fault_state *state)
{
	char part[48];

	for (int kind = 0; kind < FAULT_LOCKED; kind++) {
		const struct fault_measured *m = &state->kinds[kind];

		if (m->touches || m->others || m->refused)
			continue;
		snprintf(part, sizeof(part), "memory of the kind %s", fault_kinds[kind].name);
		ensemble_not_tried(&state->ensemble, FAULT_ALL_MEASURED, part);
		return;
	}
	if (!fault_huge_skipped(step, state))
		fault_verdict_file(step, state);
}

/* Huge pages that were asked for and have no sample. */
static void fault_tell_others(struct step *step, const struct fault_measured *m)
{
	char text[128];

	if (!m->touches || !m->others)
		return;
	snprintf(text, sizeof(text),
		 "huge: %lld of %lld accesses %s no sample, because the kernel gave small pages",
		 (long long)m->others, (long long)(m->others + m->touches),
		 m->others == 1 ? "has" : "have");
	step_message(step, clock_now_ns(CLOCK_MONOTONIC) - step->start_ns, text);
}

static int fault_finish(struct step *step)
{
	struct fault_state *state = step->state;

	fault_table(step, state);
	fault_tell_others(step, &state->kinds[FAULT_HUGE]);
	if (state->kinds[FAULT_LOCKED].touches || step->memory_unlocked)
		fault_verdict_locked(step, &state->kinds[FAULT_LOCKED]);
	else
		ensemble_not_tried(&state->ensemble, FAULT_FREE, "locked memory");
	fault_verdict_all(step, state);
	return state->ensemble.error;
}

static void fault_cleanup(struct step *step)
{
	struct fault_state *state = step->state;

	if (state->file >= 0)
		close(state->file);
}

const struct measurement page_fault_measurement = {
	.name = "page-fault",
	.summary =
		"time of the first access to a page, and whether locked memory avoids page faults",
	.chapter = CHAPTER_KERNEL,
	.options = fault_options,
	.series = {
		{ "touch", "ns", "time of the first access to a page", "before the instruction",
		  "after it", NULL },
	},
	.tables = {
		{ "faults", "timed accesses, and page faults that the kernel counted in them" },
	},
	.verdicts = {
		{ FAULT_FREE, "first access to new memory of a process whose memory is locked" },
		{ FAULT_ALL_MEASURED, "a kind that is not available here is skipped" },
	},
	.evaluate = { { "idle", "samples=500", "samples=50000" } },
	.mark = &mark_spans,
	.not_on_cobalt = "a page fault takes a task off the core",
	.state_size = sizeof(struct fault_state),
	.setup = fault_setup,
	.finish = fault_finish,
	.cleanup = fault_cleanup,
};
