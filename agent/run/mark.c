// SPDX-License-Identifier: Apache-2.0
/* The line that shows an analyser where samples are taken. */
#include "run/mark.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "run/drain.h"
#include "run/run.h"

/* Writes of the level that the line has already: they cost the same, and show nobody an edge. */
#define MARK_WRITES 101

void mark_drive(struct mark *mark, int level)
{
	int err = line_drive(&mark->line, level);

	if (__builtin_expect(err, 0))
		atomic_store_release(&mark->error, (uint32_t)-err);
}

int mark_parse(struct run *run)
{
	const struct measurement *m = run->request->measurement;
	char reason[160];
	int err;

	if (!run->request->mark)
		return 0;
	if (m->mark) {
		err = line_parse(&run->mark.line, run->request->mark,
				 (struct line_how){ .marks = true }, &run->msg);
		return err == -ENODEV ? RUN_SKIPPED : err;
	}
	snprintf(reason, sizeof(reason), "%s takes no stamps that a line could mark: %s", m->name,
		 !strcmp(m->chapter, CHAPTER_RESPONSE) ?
			 "its output and its input are lines already" :
		 !strcmp(m->chapter, CHAPTER_INTERRUPTS) ?
			 "the kernel takes them" :
			 "it times no single operation of a thread");
	return run_skip(run, reason, "leave --mark out");
}

static int mark_compare(const void *a, const void *b)
{
	const int64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static int mark_cost(struct mark *mark)
{
	int64_t took_ns[MARK_WRITES];
	struct rusage before, after;

	getrusage(RUSAGE_THREAD, &before);
	for (int i = 0; i < MARK_WRITES; i++) {
		int64_t from_ns = clock_now_ns(CLOCK_MONOTONIC);
		int err = line_drive(&mark->line, 0);

		took_ns[i] = clock_now_ns(CLOCK_MONOTONIC) - from_ns;
		if (err)
			return err;
	}
	getrusage(RUSAGE_THREAD, &after);
	mark->sleeps = after.ru_nvcsw - before.ru_nvcsw > MARK_WRITES / 2;
	qsort(took_ns, MARK_WRITES, sizeof(took_ns[0]), mark_compare);
	mark->least_ns = took_ns[0];
	mark->median_ns = took_ns[MARK_WRITES / 2];
	return 0;
}

/* The first series of the first thread that puts samples by itself. NULL: the kernel takes them all. */
static struct series *mark_series(struct run *run)
{
	for (int i = 0; i < run->series_count; i++) {
		struct series *series = &run->series[i];
		int thread = series->info.thread;

		if (series->info.companion < 0 && thread >= 0 && !run->workers[thread].foreign &&
		    !run->workers[thread].refused)
			return series;
	}
	return NULL;
}

int mark_open(struct run *run)
{
	const struct measurement *m = run->request->measurement;
	struct mark *mark = &run->mark;
	struct series *series = NULL;
	int err;

	if (!run->request->mark)
		return 0;
	if (m->mark->pulse) {
		series = mark_series(run);
		if (!series)
			return run_skip(run,
					"the kernel takes the stamps of these contexts: no thread "
					"could mark them",
					"leave --mark out, or measure --context user");
	}
	err = line_open(&mark->line, &run->msg);
	if (!err) {
		err = mark_cost(mark);
		if (err)
			message_set(&run->msg, err, "take another line",
				    "the line '%.80s' cannot be driven: %s", run->request->mark,
				    strerror(-err));
	}
	if (err)
		return err == -ENODEV ? RUN_SKIPPED : err;
	if (!series && mark->sleeps)
		return run_skip(run,
				"a write to the line sleeps: other threads would run in between",
				"take a line of the processor's own, or leave --mark out");
	mark->taken = true;
	mark->on = !series;
	return 0;
}

void mark_start(struct run *run)
{
	struct series *series = run->mark.taken && !run->mark.on ? mark_series(run) : NULL;

	if (series)
		series_mark(series, &run->mark);
}

int mark_close(struct run *run, struct message *msg)
{
	struct mark *mark = &run->mark;
	uint32_t error = atomic_load_acquire(&mark->error);
	char text[200];

	if (!mark->line.state)
		return 0;
	mark->on = false;
	line_drive(&mark->line, 0);
	line_close(&mark->line);
	if (!mark->taken)
		return 0; /* mark_open() has said why */
	snprintf(
		text, sizeof(text),
		"marked on '%.80s': a write to the line took %lld ns at least, %lld ns at the median",
		run->request->mark, (long long)mark->least_ns, (long long)mark->median_ns);
	drain_message(run, run->duration_ns, text);
	if (!error)
		return 0;
	return message_set(msg, -(int)error, "see what has become of the line",
			   "the line '%.80s' could not be driven: %s", run->request->mark,
			   strerror((int)error));
}
