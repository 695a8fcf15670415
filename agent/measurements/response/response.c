// SPDX-License-Identifier: Apache-2.0
/*
 * Response to an external event: an event comes in on a line, the answer goes out on another one.
 * This file has the options and chooses the way to measure. docs/measurements/response.md says what
 * exactly is timed.
 */
#include "measurements/response/response.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cbor.h"
#include "base/clock.h"
#include "methods/events.h"

#define RESPONSE_INTERVAL_MIN (50 * NSEC_PER_USEC)

#define RESPONSE_DEFERRED(context)                                      \
	{ "answer", context, "handler,wake-up,switch" },                \
		{ "wake-up", context, "handler,wake-up,switch" },       \
	{                                                               \
		"response", context, "interrupt,handler,wake-up,switch" \
	}

static const struct measurement_way response_ways[] = {
	{ "answer", "irq", "handler" },
	{ "response", "irq", "interrupt" },
	{ "answer", "softirq", "handler,softirq" },
	{ "wake-up", "softirq", "handler,softirq" },
	{ "response", "softirq", "interrupt,handler,softirq" },
	RESPONSE_DEFERRED("kernel"),
	RESPONSE_DEFERRED("workqueue"),
	RESPONSE_DEFERRED("threaded"),
	{ NULL, NULL, NULL },
};

static const struct option_info response_options[] = {
	{ "for", OPTION_DURATION, "0", 0, 0, NULL,
	  "duration; 0: until all samples are taken, or until stopped" },
	{ "samples", OPTION_INTEGER, "0", 0, INT64_MAX, NULL, "number of events; 0: no limit" },
	LINE_OPTIONS("edges of the input that count as events (with one kind alone, "
		     "every answer toggles the output)"),
	{ "context", OPTION_ENUMS, "user", 0, 0, "user irq " EVENTS_DEFERRED,
	  "what answers: a user thread, the interrupt handler, or what it defers its work to: a "
	  "kernel thread, a tasklet, a work queue, its threaded handler (one per step)" },
	{ "cpu", OPTION_CPUS, "all", 0, 0, NULL, "CPU that answers: the first of this list" },
	{ "priority", OPTION_INTEGER, "80", 0, 99, NULL, "SCHED_FIFO priority; 0: SCHED_OTHER" },
	{ "delay", OPTION_DURATION, "0", 0, 10 * NSEC_PER_SEC, NULL,
	  "delay of some answers, to test instruments; 0: none" },
	{ "delay-every", OPTION_INTEGER, "1000", 1, INT64_MAX, NULL,
	  "number of answers, one of which is delayed" },
	{ "interval", OPTION_DURATION, "1ms", RESPONSE_INTERVAL_MIN, 3600 * NSEC_PER_SEC, NULL,
	  "loopback: time from one event to the next" },
	{ "timeout", OPTION_DURATION, "0", 0, 3600 * NSEC_PER_SEC, NULL,
	  "loopback: how long an unanswered event holds the next one back. 0: ten intervals, at "
	  "least 100 ms, at most 1 s" },
	{ "dither", OPTION_ENUM, "no", 0, 0, "no yes",
	  "loopback: spread events evenly over their intervals" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

/* --- set-up --- */

static bool response_is_of_core(const char *context)
{
	return !strcmp(context, "user") || !strcmp(context, "irq") || !strcmp(context, "kernel");
}

static bool response_line_is_of_core(const struct line *line)
{
	return line->kind == &line_gpio && !line->pins.marked;
}

/* Whether the core can answer. 0 or STEP_SKIPPED. */
static int response_check_core(struct step *step, const struct response *r)
{
	if (!response_is_of_core(r->context))
		return step_skip(step, "this context exists only on Linux",
				 "choose --context irq, kernel or user, or --core linux");
	if (!response_line_is_of_core(&r->line))
		return step_skip(step,
				 "a core answers only on an output and an input of a GPIO chip",
				 "choose --line gpio:CHIP:OUT:IN, or --core linux");
	if (access(RTGAUGE_TASK_DEVICE, F_OK))
		return step_skip(step,
				 "the kernel module rtgauge is not loaded, or was built without "
				 "this core (no " RTGAUGE_TASK_DEVICE ")",
				 "build and load it: rtgauge module load, or give --core linux");
	return 0;
}

static bool response_on_cobalt(const struct step *step)
{
	struct message why = { 0 };
	struct line line;

	return option_number(&step->options, "context") == 1 &&
	       response_is_of_core(option_text(&step->options, "context")) &&
	       !access(RTGAUGE_TASK_DEVICE, F_OK) &&
	       !line_parse(&line, option_text(&step->options, "line"),
			   line_how(&step->options, false), &why) &&
	       response_line_is_of_core(&line);
}

static int response_choose_context(struct step *step, struct response *r)
{
	if (option_number(&step->options, "context") != 1)
		return message_set(&step->msg, -EINVAL, "measure each context in a step of its own",
				   "each event is answered once: contexts %s cannot be combined",
				   option_text(&step->options, "context"));
	r->context = option_text(&step->options, "context");
	if (step->core != &core_linux) {
		int err = response_check_core(step, r);

		if (err)
			return err;
	}
	if (!strcmp(r->context, "user") && step->core != &core_linux)
		r->way = &response_cobalt;
	else if (strcmp(r->context, "user"))
		r->way = &response_module;
	else
		r->way = r->line.kind->loops ? &response_loopback : &response_user;
	return 0;
}

static int response_choose_cpu(struct step *step, struct response *r)
{
	struct cpulist cpus;
	char text[16];
	int err = step_cpus(step, &cpus);

	if (err)
		return err;
	r->cpu = cpulist_next(&cpus, 0);
	snprintf(text, sizeof(text), "%d", r->cpu);
	return option_effective(&step->options, "cpu", text);
}

/* Options without a meaning on this line. */
static int response_check(struct step *step, const struct response *r)
{
	const struct option_set *options = &step->options;

	if (!r->line.kind->loops &&
	    (option_get(options, "interval")->given || option_get(options, "dither")->given))
		return message_set(
			&step->msg, -EINVAL, "give these options to the log host",
			"events come from outside: --interval and --dither apply only to --line loopback");
	if (r->line.kind->loops && r->delay_ns)
		return message_set(&step->msg, -EINVAL, "omit --delay",
				   "a loopback has no answers that could be delayed");
	if (!r->delay_ns && option_get(options, "delay-every")->given)
		return message_set(&step->msg, -EINVAL, "give --delay 5ms as well",
				   "--delay-every says how often answers are delayed, not by how "
				   "much");
	return r->line.kind->loops ? step_check_interval(step, r->interval_ns) : 0;
}

static void response_read(const struct step *step, struct response *r)
{
	const struct option_set *options = &step->options;
	int64_t samples = option_number(options, "samples");
	int64_t for_ns = option_number(options, "for");
	char delay[32];

	r->priority = (int)option_number(options, "priority");
	r->samples = samples ? samples : INT64_MAX;
	r->for_ns = for_ns ? for_ns : INT64_MAX;
	r->interval_ns = option_number(options, "interval");
	r->dither = option_number(options, "dither") != 0;
	r->delay_ns = option_number(options, "delay");
	r->delay_every = r->delay_ns ? option_number(options, "delay-every") : 0;
	r->toggles = r->line.how.edge != LINE_BOTH;
	snprintf(r->edge, sizeof(r->edge), "%s", option_text(options, "edge"));
	if (r->delay_every)
		snprintf(r->delayed, sizeof(r->delayed), "%s, 1 of %lld",
			 option_format_duration(r->delay_ns, delay, sizeof(delay)),
			 (long long)r->delay_every);
}

static int response_setup(struct step *step)
{
	struct response *r = step->state;
	int err = line_parse(&r->line, option_text(&step->options, "line"),
			     line_how(&step->options, false), &step->msg);

	if (err)
		return err == -ENODEV ? STEP_SKIPPED : err;
	response_read(step, r);
	err = response_check(step, r);
	/* what has no say here is not told as if it had */
	if (!err && !r->line.kind->loops)
		err = option_effective(&step->options, "interval", "");
	if (!err && !r->delay_ns)
		err = option_effective(&step->options, "delay-every", "");
	if (!err)
		err = response_choose_context(step, r);
	if (!err && r->way != &response_loopback)
		err = option_effective(&step->options, "timeout", "");
	if (!err)
		err = response_choose_cpu(step, r);
	return err ? err : r->way->setup(step, r);
}

/* --- the frame's functions --- */

static int response_start(struct step *step)
{
	struct response *r = step->state;
	char text[160];

	if (r->delayed[0]) {
		snprintf(text, sizeof(text),
			 "answers are delayed on purpose, by %s, so the samples are not results",
			 r->delayed);
		step_message(step, clock_now_ns(CLOCK_MONOTONIC) - step->start_ns, text);
	}
	return r->way->start ? r->way->start(step, r) : 0;
}

static void response_collect(struct step *step)
{
	struct response *r = step->state;

	if (r->way->collect)
		r->way->collect(step, r);
}

static void response_stop(struct step *step)
{
	struct response *r = step->state;

	if (r->way->stop)
		r->way->stop(r);
}

static void response_table(struct step *step, const struct response *r)
{
	static const struct step_column columns[] = {
		{ "seen", "count" },
		{ "answered", "count" },
		{ "lost", "count" },
		{ "repeated", "count" },
	};
	struct cbor *c = step_table_begin(step, "events", columns, 4, 1);

	cbor_array(c, 4);
	cbor_int(c, r->seen);
	cbor_int(c, r->answered);
	cbor_int(c, r->lost);
	cbor_int(c, r->repeated);
	step_table_end(step);
}

static int response_finish(struct step *step)
{
	struct response *r = step->state;
	int err = r->way->finish ? r->way->finish(step, r) : 0;

	response_table(step, r);
	if (err)
		return err;
	if (r->error)
		return message_set(&step->msg, -r->error, "check the state of the line",
				   "the line failed while it was %s: %s", r->failing,
				   strerror(r->error));
	/* where no other end was asked for, it is in order that somebody ends it */
	if (r->samples == INT64_MAX && r->for_ns == INT64_MAX)
		step_stop_is_end(step);
	return 0;
}

static void response_cleanup(struct step *step)
{
	struct response *r = step->state;

	if (r->way && r->way->cleanup)
		r->way->cleanup(r);
	line_close(&r->line);
}

const struct measurement response_measurement = {
	.name = "response",
	.summary =
		"response to an external event: from the edge on a line to the answer on another",
	.chapter = CHAPTER_RESPONSE,
	.contexts = "user kernel irq softirq workqueue threaded",
	.options = response_options,
	.series = {
		{ "wake-up", "ns", "time from the edge until the answering context runs",
		  "time stamp of the edge, taken by the kernel in its handler",
		  "its first clock reading", "handler,wake-up,switch,return to user" },
		{ "answer", "ns", "time from the edge until the answer is out",
		  "time stamp of the edge, taken by the kernel in its handler",
		  "the output was driven", "handler,wake-up,switch,return to user" },
		{ "turn-around", "ns",
		  "lines without time stamps: time from running until the answer is out",
		  "first clock reading in the answering context", "the output was driven", NULL },
		{ "response", "ns",
		  "loopback: time from the event until the answering context runs",
		  "just before the output is driven", "its first clock reading",
		  "interrupt,handler,wake-up,switch,return to user" },
		{ "dither", "ns", "offset of each event from its grid point", "grid point",
		  "due time", NULL },
	},
	.ways = response_ways,
	.tables = {
		{ "events",
		  "number of edges seen, answered, lost before they were seen, and without a "
		  "change of level" },
	},
	.verdicts = { { "every-event-answered", "loopback: each raised event came back in time" } },
	.answers = true,
	.on_cobalt = response_on_cobalt,
	.state_size = sizeof(struct response),
	.setup = response_setup,
	.start = response_start,
	.collect = response_collect,
	.stop = response_stop,
	.finish = response_finish,
	.cleanup = response_cleanup,
};
