// SPDX-License-Identifier: Apache-2.0
/* The GPIO line of --mark, for an analyser. */
#include "run/mark.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "run/run.h"

/* Writes of the level that the line already has: they cost the same, and cause no edge. */
#define MARK_WRITES 101

const struct mark_way mark_spans = {
	.rises = "before the stamp at the start of what is timed",
	.falls = "after the stamp at its end",
};

const struct mark_way mark_samples = {
	.rises = "when the thread runs, after its stamp",
	.falls = "right after that",
	.pulse = true,
};

void mark_drive(struct mark *mark, int level)
{
	int err = line_drive(&mark->line, level);

	if (__builtin_expect(err, 0))
		atomic_store_release(&mark->error, (uint32_t)-err);
}

static void mark_pulse(void *mark, int level)
{
	mark_drive(mark, level);
}

static int mark_skip(struct run *run, const char *reason, const char *remedy)
{
	return message_set(&run->step.msg, STEP_SKIPPED, remedy, "%s", reason);
}

int mark_parse(struct run *run)
{
	const struct measurement *m = run->request->measurement;
	char reason[160];
	int err;

	if (!run->request->mark)
		return 0;
	if (m->mark) {
		err = line_parse(&run->step.mark.line, run->request->mark,
				 (struct line_how){ .marks = true }, &run->step.msg);
		return err == -ENODEV ? STEP_SKIPPED : err;
	}
	snprintf(reason, sizeof(reason), "%s takes no time stamps that a line could mark: %s",
		 m->name,
		 !strcmp(m->chapter, CHAPTER_RESPONSE) ?
			 "it already uses two lines, its output and its input" :
		 !strcmp(m->chapter, CHAPTER_INTERRUPTS) ?
			 "the kernel takes them" :
			 "it times no single operation of a thread");
	return mark_skip(run, reason, "omit --mark");
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
	for (int i = 0; i < run->step.series_count; i++) {
		struct series *series = &run->step.series[i];
		int thread = series->info.thread;

		if (series->info.companion < 0 && thread >= 0 &&
		    !run->step.workers[thread].foreign && !run->step.workers[thread].refused)
			return series;
	}
	return NULL;
}

int mark_open(struct run *run)
{
	const struct measurement *m = run->request->measurement;
	struct mark *mark = &run->step.mark;
	struct series *series = NULL;
	int err;

	if (!run->request->mark)
		return 0;
	if (m->mark->pulse) {
		series = mark_series(run);
		if (!series)
			return mark_skip(run,
					 "the kernel takes the time stamps of these contexts, so "
					 "no thread could mark them",
					 "omit --mark, or measure --context user");
	}
	err = line_open(&mark->line, &run->step.msg);
	if (!err) {
		err = mark_cost(mark);
		if (err)
			message_set(&run->step.msg, err, "use another line",
				    "cannot drive the line '%.80s': %s", run->request->mark,
				    strerror(-err));
	}
	if (err)
		return err == -ENODEV ? STEP_SKIPPED : err;
	if (!series && mark->sleeps)
		return mark_skip(
			run, "a write to this line sleeps, so other threads would run in between",
			"use a GPIO line of the processor itself, or omit --mark");
	mark->taken = true;
	mark->on = !series;
	return 0;
}

void mark_start(struct run *run)
{
	struct series *series = run->step.mark.taken && !run->step.mark.on ? mark_series(run) :
									     NULL;

	if (series) {
		run->step.mark.pulse =
			(struct series_pulse){ .drive = mark_pulse, .arg = &run->step.mark };
		series_mark(series, &run->step.mark.pulse);
	}
}

int mark_close(struct run *run, char note[MARK_NOTE], struct message *msg)
{
	struct mark *mark = &run->step.mark;
	uint32_t error = atomic_load_acquire(&mark->error);

	note[0] = '\0';
	if (!mark->line.state)
		return 0;
	mark->on = false;
	line_drive(&mark->line, 0);
	line_close(&mark->line);
	if (!mark->taken)
		return 0; /* the message of mark_open() says why */
	snprintf(note, MARK_NOTE,
		 "marked on '%.80s': a write to the line took %lld ns (median, minimum %lld ns)",
		 run->request->mark, (long long)mark->median_ns, (long long)mark->least_ns);
	if (!error)
		return 0;
	return message_set(msg, -(int)error, "check the state of the line and its driver",
			   "a write to the line '%.80s' failed: %s", run->request->mark,
			   strerror((int)error));
}
