// SPDX-License-Identifier: Apache-2.0
/*
 * The log host: raises events on a line and times the answers of another machine to them. Every event
 * is counted: answered, unanswered, or answered by an edge that may belong to another event
 * (answers.h). docs/measurements/log-host.md says what exactly is timed. Step 2 of the path of a
 * sample.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "lines/line.h"
#include "methods/answers.h"
#include "methods/events.h"
#include "methods/grid.h"
#include "run/step.h"

#define LOG_HOST_ANSWERED "every-event-answered"
#define LOG_HOST_DEFAULT_EVENTS 1000
#define LOG_HOST_INTERVAL_MIN (50 * NSEC_PER_USEC)
#define LOG_HOST_RING 16384
/* Numbers of events that are named as evidence. */
#define LOG_HOST_NAMED 8
/* More edges than that in one interval are a storm: the rest of it is not listened to. */
#define LOG_HOST_STORM 1000
#define LOG_HOST_SILENT \
	"check --line and the wiring, and run the response measurement on the other machine"

static const struct option_info log_host_options[] = {
	{ "for", OPTION_DURATION, "0", 0, 0, NULL, "duration; 0: until all samples are taken" },
	{ "samples", OPTION_INTEGER, "0", 0, INT64_MAX, NULL,
	  "number of events; 0: no limit, or 1000 without a time limit" },
	LINE_OPTIONS("edges that are raised as events (with one kind alone, the line "
		     "returns after half an interval, and every answer toggles the "
		     "input)"),
	{ "interval", OPTION_DURATION, "30ms", LOG_HOST_INTERVAL_MIN, 3600 * NSEC_PER_SEC, NULL,
	  "time from one event to the next" },
	{ "timeout", OPTION_DURATION, "0", 0, 3600 * NSEC_PER_SEC, NULL,
	  "how long an unanswered event holds the next one back. 0: ten intervals, at least 100 ms, "
	  "at most 1 s" },
	{ "dither", OPTION_ENUM, "no", 0, 0, "no yes",
	  "spread events evenly over their intervals" },
	{ "answered-by", OPTION_ENUM, "unknown", 0, 0, "unknown irq user " EVENTS_DEFERRED,
	  "the context in which the other machine answers" },
	{ "short-circuit", OPTION_INTEGER, "0", 0, INT64_MAX, NULL,
	  "number of events to measure the log host's own error, with the output wired to the input" },
	{ "cpu", OPTION_CPUS, "all", 0, 0, NULL, "CPU that raises events: the first of this list" },
	{ "priority", OPTION_INTEGER, "80", 0, 99, NULL, "SCHED_FIFO priority; 0: SCHED_OTHER" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

struct log_host {
	struct line line;
	char edge[16];
	enum line_edge raises; /* edges that are events; answers are edges in both directions */
	int cpu;
	int64_t interval_ns;
	int64_t events;
	int64_t for_ns;
	bool dithered;
	int series; /* numbers */
	int dither; /* -1: none */

	struct answers answers;
	int64_t mark_ns;  /* stamp of MARK for the open event; 0: not yet */
	int edges;	  /* since the event was raised */
	int64_t moved_ns; /* by which the grid moves before the open event */

	int64_t lost;
	int64_t unasked; /* edges before the first event */
	int64_t unmarked;
	int64_t held_up;   /* events that the log host delayed */
	int64_t held_back; /* events that waited for the answer to the previous one */
	int64_t storms;
	int64_t named[LOG_HOST_NAMED];
	int error;
	const char *failing;
};

/* --- the measuring loop --- */

/* Whether an edge of MARK at @at_ns is the open event, not the line's return to rest after it. */
static bool log_host_marks(const struct answers *a, int64_t at_ns)
{
	return at_ns >= a->raised_ns && (!a->back_ns || at_ns < a->back_ns);
}

static void log_host_answer(struct log_host *h, const struct line_event *event)
{
	int64_t answer_ns = event->stamp_ns ? event->stamp_ns : event->seen_ns;

	h->edges++;
	if (!h->answers.raised) { /* the other side opens its port, which moves the lines */
		h->unasked += event->lost + !event->mark;
		return;
	}
	h->lost += event->lost;
	if (event->mark) {
		if (!h->mark_ns && log_host_marks(&h->answers, answer_ns))
			h->mark_ns = answer_ns;
	} else {
		answers_edge(&h->answers, answer_ns, event->level);
	}
}

/* Take the next edge that comes before @until_ns. 1: taken, 0: none came, -1: end the loop. */
static int log_host_take(struct step *step, struct log_host *h, int64_t until_ns)
{
	struct line_event event;
	int got;

	if (h->edges >= LOG_HOST_STORM) {
		h->storms += h->edges == LOG_HOST_STORM;
		h->edges = LOG_HOST_STORM + 1;
		return step_sleep_until(step, until_ns) ? 0 : -1;
	}
	got = line_wait(&h->line, until_ns, &event);
	if (got == 1)
		log_host_answer(h, &event);
	else if (got == 0 && clock_now_ns(CLOCK_MONOTONIC) < until_ns)
		h->edges++; /* foreign input counts towards the limit, too */
	if (got < 0 && got != -EINTR) {
		h->error = -got;
		h->failing = "waited on";
		return -1;
	}
	return step_stopped(step) ? -1 : got == 1;
}

/* Take all edges until @until_ns; false: the loop is to end. */
static bool log_host_listen(struct step *step, struct log_host *h, int64_t until_ns)
{
	for (;;) {
		int got = log_host_take(step, h, until_ns);

		if (got < 0)
			return false;
		if (!got && clock_now_ns(CLOCK_MONOTONIC) >= until_ns)
			return true;
	}
}

/* Take all edges until @until_ns, and longer while the open event has no answer. False: end the
 * loop. */
static bool log_host_await(struct step *step, struct log_host *h, int64_t until_ns)
{
	int got;

	do {
		got = log_host_take(step, h, answers_until_ns(&h->answers, until_ns));
		if (got < 0)
			return false;
	} while (got || clock_now_ns(CLOCK_MONOTONIC) < answers_until_ns(&h->answers, until_ns));
	return true;
}

/* After a storm: take the edges that wait in the kernel, whose full buffer would lose the answer to
 * the next event. False: end the loop. */
static bool log_host_drain(struct step *step, struct log_host *h)
{
	int got = 1;

	if (h->edges < LOG_HOST_STORM)
		return true;
	h->edges = 0;
	while (got > 0 && h->edges < LOG_HOST_STORM)
		got = log_host_take(step, h, clock_now_ns(CLOCK_MONOTONIC));
	return got >= 0;
}

/* Take all edges until the next event may be raised at @next_ns, which moves on by whole intervals
 * while the open one has no answer. Before @own_ns the log host, not the answer, causes the delay.
 * False: end the loop. */
static bool log_host_settle(struct step *step, struct log_host *h, int64_t own_ns, int64_t *next_ns)
{
	bool held = false;

	for (;;) {
		int64_t until_ns = answers_until_ns(&h->answers, *next_ns);
		int got = log_host_take(step, h, until_ns);
		int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

		if (got < 0)
			return false;
		held |= until_ns > *next_ns && now_ns >= *next_ns;
		if (got || now_ns < until_ns)
			continue;
		if (!held)
			return log_host_drain(step, h);
		*next_ns += ((now_ns - *next_ns) / h->interval_ns + 1) * h->interval_ns;
		if (now_ns < own_ns)
			h->held_up++;
		else
			h->held_back++;
		held = false;
	}
}

/* Record the open event's sample, or that it is missing. */
static void log_host_close_event(struct step *step, struct log_host *h, int64_t most_ns)
{
	struct series *series = &step->series[h->series];

	if (h->mark_ns)
		h->answers.raised_ns = h->mark_ns;
	if (h->moved_ns) {
		series_moved(series, h->moved_ns);
		if (h->dither >= 0)
			series_moved(&step->series[h->dither], h->moved_ns);
	}
	switch (answers_close(&h->answers, most_ns)) {
	case ANSWERS_UNANSWERED:
		if (h->answers.unanswered <= LOG_HOST_NAMED)
			h->named[h->answers.unanswered - 1] = h->answers.raised - 1;
		series_missed(series, 1);
		break;
	case ANSWERS_AMBIGUOUS:
		series_lost(series, 1);
		break;
	case ANSWERS_ANSWERED:
		h->unmarked += h->line.pins.marked && !h->mark_ns;
		series_put(series, h->answers.answer_ns - h->answers.raised_ns);
		break;
	}
}

static bool log_host_drive(struct log_host *h, int level)
{
	h->error = -line_drive(&h->line, level);
	h->failing = "driven";
	return !h->error;
}

static bool log_host_raise(struct log_host *h, int level)
{
	h->mark_ns = 0;
	h->edges = 0;
	answers_raise(&h->answers, clock_now_ns(CLOCK_MONOTONIC), level);
	return log_host_drive(h, level);
}

static bool log_host_put_back(struct step *step, struct log_host *h, int level, int64_t at_ns)
{
	if (!log_host_await(step, h, at_ns))
		return false;
	answers_put_back(&h->answers, clock_now_ns(CLOCK_MONOTONIC));
	return log_host_drive(h, level);
}

/* One event, and all edges until the next may be raised at @next_ns. False: end the loop. */
static bool log_host_event(struct step *step, struct log_host *h, int64_t index, int64_t due_ns,
			   int64_t *next_ns)
{
	bool pulse = h->raises != LINE_BOTH;
	int level = pulse ? h->raises == LINE_RISING : !(index & 1);
	int64_t most_ns = *next_ns - due_ns;

	if (!log_host_raise(h, level))
		return false;
	if (pulse && !h->line.kind->messages &&
	    !log_host_put_back(step, h, !level, due_ns + h->interval_ns / 2))
		return false;
	/* late is what the other machine takes, not what this one took to raise the event */
	if (!log_host_settle(step, h, h->answers.raised_ns + most_ns, next_ns))
		return false;
	log_host_close_event(step, h, most_ns);
	return true;
}

static int64_t log_host_offset_ns(const struct log_host *h, int64_t index)
{
	return h->dithered ? grid_offset_ns(index, h->interval_ns) : 0;
}

static void log_host_loop(struct worker *worker)
{
	struct log_host *h = worker->state;
	struct step *step = worker->step;
	int64_t grid_ns = step->start_ns + step->series[h->series].info.first_due_ns;
	int64_t end_ns = h->for_ns == INT64_MAX ? INT64_MAX : grid_ns + h->for_ns;

	if (h->raises == LINE_FALLING && !h->line.kind->messages && !log_host_drive(h, 1))
		return;
	if (!log_host_listen(step, h, grid_ns + log_host_offset_ns(h, 0)))
		return;
	for (int64_t i = 0; i < h->events && grid_ns < end_ns; i++, grid_ns += h->interval_ns) {
		int64_t late_ns = clock_now_ns(CLOCK_MONOTONIC) - grid_ns - h->interval_ns;
		int64_t due_next_ns, next_ns;

		/* never faster than was asked for: those that are left come later */
		if (late_ns > 0) {
			grid_ns += late_ns;
			h->moved_ns += late_ns;
			h->held_up++;
		}
		due_next_ns = next_ns = grid_ns + h->interval_ns + log_host_offset_ns(h, i + 1);
		if (!log_host_event(step, h, i, grid_ns + log_host_offset_ns(h, i), &next_ns)) {
			/* raised, but the loop ended before its outcome was known */
			h->answers.raised--;
			return;
		}
		h->moved_ns = next_ns - due_next_ns;
		grid_ns += h->moved_ns;
		if (h->dither >= 0)
			series_put(&step->series[h->dither], log_host_offset_ns(h, i));
	}
	/* an answer after its timeout shows that another event may have been credited with it */
	if (h->answers.unanswered && h->answers.answered)
		log_host_listen(step, h, clock_now_ns(CLOCK_MONOTONIC) + h->answers.timeout_ns);
}

/* --- set-up --- */

static int log_host_choose_cpu(struct step *step, struct log_host *h)
{
	struct cpulist cpus;
	char text[16];
	int err = step_cpus(step, &cpus);

	if (err)
		return err;
	h->cpu = cpulist_next(&cpus, 0);
	snprintf(text, sizeof(text), "%d", h->cpu);
	return option_effective(&step->options, "cpu", text);
}

static int log_host_read(struct step *step, struct log_host *h)
{
	const struct option_set *options = &step->options;
	int64_t samples = option_number(options, "samples");
	int64_t for_ns = option_number(options, "for");
	int64_t circuit = option_number(options, "short-circuit");
	int64_t timeout_ns = option_number(options, "timeout");
	char text[32];
	int err;

	h->interval_ns = option_number(options, "interval");
	h->for_ns = for_ns ? for_ns : INT64_MAX;
	if (!samples && !for_ns && !circuit)
		samples = LOG_HOST_DEFAULT_EVENTS;
	if (circuit)
		samples = circuit;
	h->events = samples ? samples : INT64_MAX;
	h->dithered = option_number(options, "dither") != 0;
	snprintf(h->edge, sizeof(h->edge), "%s", option_text(options, "edge"));
	answers_begin(&h->answers, h->interval_ns, timeout_ns, h->raises == LINE_BOTH);
	snprintf(text, sizeof(text), "%lld", (long long)samples);
	err = step_check_interval(step, h->interval_ns) ?:
		      option_effective(&step->options, "samples", text);
	if (err)
		return err;
	option_format_duration(h->answers.timeout_ns, text, sizeof(text));
	return option_effective(&step->options, "timeout", text);
}

static int log_host_add_series(struct step *step, struct log_host *h, int worker)
{
	const char *by = option_text(&step->options, "answered-by");
	bool circuit = option_number(&step->options, "short-circuit") != 0;
	struct series_info info = {
		.name = circuit ? "own-error" : "response",
		.context = circuit		 ? "user" :
			   strcmp(by, "unknown") ? by :
						   "",
		.unit = "ns",
		.cpu = h->cpu,
		.thread = worker,
		.interval_ns = h->interval_ns,
		.companion = -1,
		.labels = { { "line", h->line.kind->name }, { "edge", h->edge } },
	};

	h->dither = -1;
	h->series = step_add_series(step, &info, LOG_HOST_RING);
	if (h->series < 0 || !h->dithered)
		return h->series < 0 ? h->series : 0;
	info.name = "dither";
	info.companion = h->series;
	h->dither = step_add_series(step, &info, LOG_HOST_RING);
	return h->dither < 0 ? h->dither : 0;
}

static int log_host_setup(struct step *step)
{
	struct log_host *h = step->state;
	struct line_how how = line_how(&step->options, true);
	int worker, err;

	h->raises = how.edge;
	how.edge = LINE_BOTH;
	err = line_parse(&h->line, option_text(&step->options, "line"), how, &step->msg);
	if (!err && h->line.kind->loops)
		return message_set(
			&step->msg, -EINVAL,
			"use a loopback with response. For --short-circuit, give the line as gpio:CHIP:OUT:IN",
			"a loopback has no other machine to answer");
	if (!err)
		err = log_host_read(step, h);
	if (!err)
		err = log_host_choose_cpu(step, h);
	if (!err)
		err = line_open(&h->line, &step->msg);
	if (err)
		return err == -ENODEV ? STEP_SKIPPED : err;
	worker = step_add_worker(step, log_host_loop, h, h->cpu,
				 (int)option_number(&step->options, "priority"));
	return worker < 0 ? worker : log_host_add_series(step, h, worker);
}

/* --- after --- */

static void log_host_table(struct step *step, const struct log_host *h)
{
	static const struct step_column columns[] = {
		{ "raised", "count" },	  { "answered", "count" }, { "unanswered", "count" },
		{ "late", "count" },	  { "double", "count" },   { "lost", "count" },
		{ "ambiguous", "count" },
	};
	const struct answers *a = &h->answers;
	struct cbor *c = step_table_begin(step, "answers", columns, 7, 1);

	cbor_array(c, 7);
	cbor_int(c, a->raised);
	cbor_int(c, a->answered);
	cbor_int(c, a->unanswered);
	cbor_int(c, a->late);
	cbor_int(c, a->doubled);
	cbor_int(c, h->lost);
	cbor_int(c, a->ambiguous);
	step_table_end(step);
}

/* "COUNT THINGS TEXT". */
static void log_host_message(struct step *step, int64_t count, const char *thing, const char *text)
{
	char line[200];

	if (!count)
		return;
	snprintf(line, sizeof(line), "%lld %s%s %s", (long long)count, thing, count == 1 ? "" : "s",
		 text);
	step_message(step, step->duration_ns, line);
}

/* Remedy for answers that did not come in time. */
static const char *log_host_remedy(const struct log_host *h, char *text, size_t size)
{
	const struct answers *a = &h->answers;
	char longest[48];

	if (!a->answered && !a->ambiguous && h->line.kind == &line_net)
		return LOG_HOST_SILENT ". If its last log host was killed, wait 10 s";
	if (!a->answered && !a->ambiguous)
		return LOG_HOST_SILENT;
	if (!a->late_max_ns)
		return "find out what delayed the target, or raise --interval";
	snprintf(text, size,
		 "find out what delayed the target, or raise --interval (an answer took %s)",
		 option_format_us(a->late_max_ns, longest, sizeof(longest)));
	return text;
}

static const char *log_host_result(const struct log_host *h)
{
	const struct answers *a = &h->answers;
	int64_t behind = a->unanswered + a->late;

	if (!a->raised || (behind && h->lost >= behind))
		return "inconclusive";
	return behind ? "fail" : a->ambiguous ? "inconclusive" : "pass";
}

static void log_host_verdict(struct step *step, const struct log_host *h)
{
	const struct answers *a = &h->answers;
	char evidence[400], remedy[160];
	int64_t named = a->unanswered < LOG_HOST_NAMED ? a->unanswered : LOG_HOST_NAMED;
	size_t used = (size_t)snprintf(evidence, sizeof(evidence), "%lld of %lld events answered%s",
				       (long long)(a->answered - a->answered_late),
				       (long long)a->raised, a->late ? " in time" : "");

	for (int64_t i = 0; i < named; i++)
		used += (size_t)snprintf(evidence + used, sizeof(evidence) - used, "%s%lld",
					 i ? ", " : ". Without an answer: number ",
					 (long long)h->named[i]);
	if (named < a->unanswered)
		used += (size_t)snprintf(evidence + used, sizeof(evidence) - used, ", ...");
	if (a->late)
		used += (size_t)snprintf(evidence + used, sizeof(evidence) - used, "; late: %lld",
					 (long long)a->late);
	if (a->ambiguous)
		used += (size_t)snprintf(evidence + used, sizeof(evidence) - used,
					 "; attributable to several events: %lld",
					 (long long)a->ambiguous);
	if ((a->unanswered || a->late) && h->lost)
		snprintf(evidence + used, sizeof(evidence) - used,
			 "; the log host lost %lld edge%s itself", (long long)h->lost,
			 h->lost == 1 ? "" : "s");
	step_verdict(step, LOG_HOST_ANSWERED, log_host_result(h), evidence,
		     log_host_remedy(h, remedy, sizeof(remedy)));
}

static int log_host_finish(struct step *step)
{
	const struct log_host *h = step->state;

	log_host_table(step, h);
	log_host_message(step, h->unasked, "edge", "before the first event");
	log_host_message(step, h->unmarked, "event",
			 "not stamped by MARK: the time before driving the line is used instead");
	log_host_message(step, h->held_up, "event",
			 "held up by the log host, which delayed later events");
	log_host_message(step, h->held_back, "event",
			 "held back until the previous one was answered or timed out");
	log_host_message(step, h->answers.ambiguous, "event",
			 "without a sample: the answer may belong to another event");
	log_host_message(step, h->storms, "interval",
			 "with too many edges, so the rest was ignored");
	log_host_message(step, h->line.merged, "edge",
			 "that the board saw as one with the next edge");
	log_host_message(step, h->line.foreign, "time",
			 "something other than an event arrived on the line");
	if (h->error)
		return message_set(&step->msg, -h->error, "check the state of the line",
				   "the line failed while it was %s: %s", h->failing,
				   strerror(h->error));
	log_host_verdict(step, h);
	return 0;
}

static void log_host_cleanup(struct step *step)
{
	struct log_host *h = step->state;

	line_close(&h->line);
}

const struct measurement log_host_measurement = {
	.name = "log-host",
	.summary = "times the answers of another machine to events that this one raises",
	.chapter = CHAPTER_RESPONSE,
	.contexts = "irq kernel user softirq workqueue threaded",
	.options = log_host_options,
	.series = {
		{ "response", "ns", "time from the event until the answer arrives",
		  "the kernel's time stamp of the line MARK, or just before the output is driven",
		  "the kernel's time stamp of the input, or the waiting thread runs",
		  "line,interrupt,handler,answer,line" },
		{ "own-error", "ns", "own error of the log host: its output is wired to its input",
		  "as response", "as response", NULL },
		{ "dither", "ns", "offset of each event from its grid point", "grid point",
		  "due time", NULL },
	},
	.tables = {
		{ "answers", "number of events raised, answered, unanswered and ambiguous, of "
			     "late answers, of edges that are not answers, and of answers that "
			     "the log host itself lost" },
	},
	.verdicts = {
		{ LOG_HOST_ANSWERED,
		  "each event was answered within the time to the next one, and within --timeout" },
	},
	.times = "response",
	.not_on_cobalt = "Linux raises the events and stamps the answers",
	.state_size = sizeof(struct log_host),
	.setup = log_host_setup,
	.finish = log_host_finish,
	.cleanup = log_host_cleanup,
};
