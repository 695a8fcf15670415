// SPDX-License-Identifier: Apache-2.0
/* --explain: the part of the draining thread. */
#include "run/explain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "run/drain.h"
#include "run/run.h"

/* Time in a window before the due time and after the sample. */
#define EXPLAIN_BEFORE_NS (300 * NSEC_PER_USEC)
#define EXPLAIN_AFTER_NS (20 * NSEC_PER_USEC)
#define EXPLAIN_PAGES 256  /* of one snapshot */
#define EXPLAIN_PART 32768 /* bytes of a page in one record */
/* of a run: from then on only of new maxima */
#define EXPLAIN_PAGES_ABOVE 16384
/* The cost of the events: wake-ups without them, and with them. */
#define EXPLAIN_WAKES 101
#define EXPLAIN_WAKE_NS (200 * NSEC_PER_USEC)

static int explain_compare(const void *a, const void *b)
{
	const int64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* Median latency of a wake-up by a timer. */
static int64_t explain_wake_ns(void)
{
	int64_t late_ns[EXPLAIN_WAKES];

	for (int i = 0; i < EXPLAIN_WAKES; i++) {
		/* not on a grid: after a stall the next ones would be late, too */
		int64_t due_ns = clock_now_ns(CLOCK_MONOTONIC) + EXPLAIN_WAKE_NS;
		struct timespec due = { .tv_sec = due_ns / NSEC_PER_SEC,
					.tv_nsec = due_ns % NSEC_PER_SEC };

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
		late_ns[i] = clock_now_ns(CLOCK_MONOTONIC) - due_ns;
	}
	qsort(late_ns, EXPLAIN_WAKES, sizeof(late_ns[0]), explain_compare);
	return late_ns[EXPLAIN_WAKES / 2];
}

/* Start the trace, and measure what that costs, as the first measuring thread. */
static int explain_start(struct run *run, const struct cpulist *cpus)
{
	struct explain *explain = &run->explain;
	const struct worker *worker = run->step.workers;
	struct cpulist allowed;
	bool moved = !cpulist_allowed(&allowed);
	int err;

	core_linux.enter(worker->cpu, worker->priority);
	explain->without_ns = explain_wake_ns();
	err = tracing_start(&explain->tracing, cpus);
	explain->with_ns = explain_wake_ns();
	core_linux.place(0, 0);
	if (moved)
		cpulist_apply(&allowed, 0);
	return err;
}

void explain_open(struct run *run, const struct cpulist *cpus)
{
	struct explain *explain = &run->explain;
	int err;

	if (!run->request->explain && !run->request->explain_above_ns)
		return;
	if (tracing_open(&explain->tracing, run->step.settings, cpus, &explain->lost))
		return;
	err = explain_start(run, cpus);
	if (!err)
		return;
	tracing_fail(&explain->tracing, &explain->lost, err, strerror(-err),
		     err == -ENOMEM ? "free some memory, or measure fewer CPUs" :
				      "use a kernel with CONFIG_EVENT_TRACING",
		     err == -ENOMEM ? "the trace cannot be started" :
				      "the kernel has no scheduler events");
	tracing_close(&explain->tracing);
}

static struct cbor *explain_begin(struct run *run, const char *part, size_t more)
{
	struct cbor *c = stream_begin(&run->stream);

	cbor_map(c, 1 + more);
	cbor_put_text(c, "part", part);
	return c;
}

/* Puts integers into a record. @names: one after the other, then an empty one. A call for each
 * integer would take twice the space. */
static void explain_put(struct cbor *c, const char *names, const int64_t *values)
{
	for (; *names; names += strlen(names) + 1)
		cbor_put_int(c, names, *values++);
}

static void explain_end(struct run *run)
{
	stream_end(&run->stream, STREAM_TRACE);
}

static void explain_lost(struct run *run, const char *reason, const char *remedy)
{
	struct cbor *c = explain_begin(run, "lost", 2);

	cbor_put_text(c, "reason", reason);
	cbor_put_text(c, "remedy", remedy);
	explain_end(run);
}

/* @file of the instance, under the @name of an event. */
static void explain_text(struct run *run, const char *file, int number, const char *name)
{
	struct tracing *tracing = &run->explain.tracing;
	int size = tracing_read(tracing, file, number, "\nprint fmt:");
	struct message msg = { 0 };
	struct cbor *c;

	if (!size || size == -ENOENT)
		return; /* this kernel lacks the event */
	if (size < 0) {
		message_set(&msg, size, "repeat the run", "cannot read %s of the trace: %s", file,
			    strerror(-size));
		explain_lost(run, msg.text, msg.remedy);
		return;
	}
	c = explain_begin(run, "format", 2);
	cbor_put_text(c, "name", name);
	cbor_text(c, "data");
	cbor_bytes(c, tracing->text, (size_t)size);
	explain_end(run);
}

void explain_header(struct run *run)
{
	struct explain *explain = &run->explain;
	char file[96];
	int number = 0;

	if (explain->lost.text[0])
		explain_lost(run, explain->lost.text, explain->lost.remedy);
	if (!explain->tracing.made)
		return;
	explain_put(explain_begin(run, "cost", 2), "without_ns\0with_ns\0",
		    (int64_t[]){ explain->without_ns, explain->with_ns });
	explain_end(run);
	if (!explain->tracing.module)
		explain_text(run, "events/header_page", 0, "header_page");
	for (const char *event = tracing_events; *event; event += strlen(event) + 1) {
		snprintf(file, sizeof(file), "events/%s/format", event);
		explain_text(run, file, number++, event);
	}
}

static bool explain_wants(const struct run *run, const struct series *s)
{
	return run->explain.tracing.made && s->info.interval_ns && s->info.companion < 0 &&
	       !strcmp(s->info.unit, "ns");
}

/* The place of a sample in the list, or the number of those in it. */
static int explain_place(const struct explain *explain, const struct series *s, int64_t index)
{
	int i = 0;

	while (i < explain->count &&
	       (explain->samples[i].series != s || explain->samples[i].index != index))
		i++;
	return i;
}

static void explain_add(struct run *run, const struct series *s, int64_t index, int64_t moved_ns,
			int64_t value_ns)
{
	struct explain *explain = &run->explain;
	int i = explain_place(explain, s, index);

	if (i == EXPLAIN_SAMPLES) {
		/* in the place of the smallest one, if that is smaller */
		explain->dropped++;
		for (int j = i = 0; j < EXPLAIN_SAMPLES; j++)
			if (explain->samples[j].value_ns < explain->samples[i].value_ns)
				i = j;
		if (value_ns <= explain->samples[i].value_ns)
			return;
	}
	explain->samples[i] =
		(struct explain_sample){ s, index, series_due_ns(s, index, moved_ns), value_ns };
	explain->count += i == explain->count;
}

/* Whether the request asks for a sample, and there is no room in the stream for those above. */
static bool explain_full(const struct run *run, int64_t value_ns)
{
	int64_t above_ns = run->request->explain_above_ns;

	return above_ns && value_ns > above_ns && run->explain.pages >= EXPLAIN_PAGES_ABOVE;
}

void explain_maximum(struct run *run, const struct series *s)
{
	struct explain *explain = &run->explain;
	int64_t above_ns = run->request->explain_above_ns;

	if (!explain_wants(run, s) || explain_place(explain, s, s->max_index) < explain->count)
		return;
	/* one above the time was counted with its block, as it is not in the list */
	explain->dropped -= above_ns && s->histogram.max > above_ns;
	explain_add(run, s, s->max_index, s->max_moved_ns, s->histogram.max);
}

void explain_value(struct run *run, const struct series *s, int64_t index, int64_t value_ns)
{
	if (value_ns <= run->request->explain_above_ns || !explain_wants(run, s))
		return;
	if (explain_full(run, value_ns))
		run->explain.dropped++;
	else
		explain_add(run, s, index, s->moved_ns, value_ns);
}

/* The record of a sample, and its window. */
static void explain_sample(struct run *run, const struct explain_sample *sample,
			   struct tracing_window *window)
{
	const struct series_info *info = &sample->series->info;
	int64_t values[] = {
		run->explain.snapshots,
		sample->series->number,
		sample->index,
		sample->due_ns,
		sample->value_ns,
		info->cpu,
		info->thread < 0 ? 0 : run->step.workers[info->thread].tid,
	};

	explain_put(explain_begin(run, "sample", 7),
		    "snapshot\0series\0index\0due_ns\0value\0cpu\0thread\0", values);
	explain_end(run);
	window->cpu = info->cpu;
	window->from_ns = run->step.start_ns + sample->due_ns - EXPLAIN_BEFORE_NS;
	window->to_ns = run->step.start_ns + sample->due_ns + sample->value_ns + EXPLAIN_AFTER_NS;
	/* dither puts it somewhere in its period */
	for (int i = 0; i < run->step.series_count; i++)
		if (run->step.series[i].info.companion == sample->series->number)
			window->to_ns += info->interval_ns;
}

/* Where the pages go. */
struct explain_cpu {
	struct run *run;
	int cpu;
};

static void explain_page(void *arg, int number, const uint8_t *data, size_t size)
{
	const struct explain_cpu *to = arg;

	for (size_t at = 0, some; at < size; at += some) {
		struct cbor *c = explain_begin(to->run, "page", 5);

		some = size - at < EXPLAIN_PART ? size - at : EXPLAIN_PART;
		explain_put(
			c, "snapshot\0cpu\0number\0at\0",
			(int64_t[]){ to->run->explain.snapshots, to->cpu, number, (int64_t)at });
		cbor_text(c, "data");
		cbor_bytes(c, data + at, some);
		explain_end(to->run);
	}
}

void explain_take(struct run *run, int64_t since_ns)
{
	struct explain *explain = &run->explain;
	struct explain_cpu to = { .run = run, .cpu = -1 };
	int pages = 0, omitted = 0, count = explain->count, err;
	struct cpulist cpus = { { 0 } };
	struct cbor *c;

	if (explain->dropped) {
		cbor_put_int(explain_begin(run, "dropped", 1), "samples", explain->dropped);
		explain_end(run);
		explain->dropped = 0;
	}
	if (!count)
		return;
	err = tracing_take(&explain->tracing);
	since_ns += run->step.start_ns - EXPLAIN_BEFORE_NS;
	for (int i = 0; i < count; i++) {
		struct tracing_window *window = &explain->windows[i];

		explain_sample(run, &explain->samples[i], window);
		/* the next drain finds a sample that came since, and needs these pages */
		window[count] = (struct tracing_window){ window->cpu, since_ns, INT64_MAX };
	}
	if (err)
		count = 0;
	for (int i = 0; i < count; i++) {
		const struct tracing_window *window = &explain->windows[i];
		int found;

		if (window->cpu < 0 || cpulist_has(&cpus, window->cpu))
			continue;
		cpulist_add(&cpus, window->cpu);
		to.cpu = window->cpu;
		found = tracing_pages(&explain->tracing, to.cpu, explain->windows, 2 * count,
				      EXPLAIN_PAGES - pages, explain_page, &to);
		if (found < 0)
			err = found;
		else
			pages += found;
		if (pages > EXPLAIN_PAGES) {
			omitted += pages - EXPLAIN_PAGES;
			pages = EXPLAIN_PAGES;
		}
	}
	tracing_release(&explain->tracing);
	explain->pages += pages;
	c = explain_begin(run, "end", 4);
	explain_put(c, "snapshot\0pages\0omitted\0",
		    (int64_t[]){ explain->snapshots++, pages, omitted });
	cbor_put_text(c, "error", err ? strerror(-err) : "");
	explain_end(run);
	explain->count = 0;
}

void explain_close(struct run *run)
{
	tracing_close(&run->explain.tracing);
}
