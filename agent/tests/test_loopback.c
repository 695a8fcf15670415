// SPDX-License-Identifier: Apache-2.0
/* Tests of the end of response_loopback.c, on a line that is made up here, and of the verdict of
 * response_module.c. Prints TAP. */
#include "judged.h"

#include "measurements/response/response.c"
#include "measurements/response/response_loopback.c"
#define step_verdict test_verdict
#include "measurements/response/response_module.c"
#undef step_verdict

#include <stdlib.h>
#include <string.h>

#include "drained.h"
#include "run/run.h"
#include "tap.h"

static struct run run;
static struct step *const step = &run.step;
static struct response response;
static struct loopback loopback;
static struct series series[2];
static int raised;
static int stop_at; /* the event after which the run is stopped from outside; 0: never */
static int answers; /* the first so many events come back */
static bool fails;  /* the line, from its first drive on */
static enum line_edge edge;
static bool dithers;

static int drive(struct line *line, int level)
{
	raised++;
	if (fails)
		return -EIO;
	if (raised <= answers)
		atomic_store_release(&loopback.came, (uint32_t)raised);
	if (raised == stop_at)
		atomic_store_release(&step->stop, STEP_STOP);
	return 0;
}

static int wait_for_edge(struct line *line, int64_t until_ns, struct line_event *event)
{
	return -ENODEV;
}

static const struct line_kind kind = { .name = "made-up", .wait = wait_for_edge, .drive = drive };

/* Events of those raised that are accounted for. */
static int64_t events(int samples, int stop, int back)
{
	struct worker worker = { .step = step, .state = &loopback };

	memset(&run, 0, sizeof(run));
	memset(&loopback, 0, sizeof(loopback));
	response = (struct response){
		.line = { .kind = &kind, .how.edge = edge },
		.samples = samples,
		.for_ns = INT64_MAX,
		.interval_ns = NSEC_PER_MSEC,
		.dither = dithers,
	};
	step->series = series;
	step->start_ns = clock_now_ns(CLOCK_MONOTONIC);
	loopback.step = step;
	loopback.response = &response;
	loopback.wake = -1;
	loopback.dither = dithers ? 1 : -1;
	answers_begin(&loopback.limits, response.interval_ns, 0, true);
	raised = 0;
	stop_at = stop;
	answers = back;
	loopback_raise_loop(&worker);
	return loopback.events;
}

/* Four events that come back, a second apart. */
static int came_next;

static int wait_for_answers(struct line *line, int64_t until_ns, struct line_event *event)
{
	int64_t due_ns;

	if (came_next == 4) {
		atomic_store_release(&step->stop, STEP_STOP);
		return 0;
	}
	due_ns = step->start_ns + (came_next + 1) * NSEC_PER_SEC;
	loopback.raised_ns[came_next++] = due_ns;
	atomic_store_release(&loopback.raised, (uint32_t)came_next);
	*event = (struct line_event){
		.stamp_ns = due_ns + 1000,
		.seen_ns = due_ns + 3000,
		.level = came_next & 1,
	};
	return 1;
}

/* The wake-ups have no grid: each block has a time of its own. */
static void test_times(void)
{
	static const struct line_kind answering = {
		.name = "made-up", .stamps = true, .wait = wait_for_answers, .drive = drive
	};
	const struct series_info infos[2] = {
		{ .name = "response", .unit = "ns", .interval_ns = NSEC_PER_SEC, .companion = -1 },
		{ .name = "wake-up", .unit = "ns", .companion = -1 },
	};
	struct series two[2];
	struct drained d;
	struct worker worker = { .step = step, .state = &loopback };
	bool right = true;

	memset(&run, 0, sizeof(run));
	memset(&loopback, 0, sizeof(loopback));
	response = (struct response){
		.line = { .kind = &answering },
		.interval_ns = NSEC_PER_SEC,
	};
	for (int i = 0; i < 2; i++)
		right &= !series_init(&two[i], i, &infos[i], 1024);
	step->series = two;
	step->start_ns = NSEC_PER_SEC;
	loopback.step = step;
	loopback.response = &response;
	loopback.wake = 1;
	loopback.dither = -1;
	loopback_wait_loop(&worker);
	d = drained_from(&two[1]);
	for (int i = 0; i < d.blocks; i++)
		right &= d.due_ns[i] == (i + 1) * NSEC_PER_SEC + 3000;
	tap_check(right && d.blocks == 4 && two[1].histogram.max == 2000,
		  "each wake-up has the time at which its event came back");
	for (int i = 0; i < 2; i++)
		series_free(&two[i]);
}

/* An event that is held back moves the grid. */
static void test_held_back(void)
{
	const struct series_info info = { .interval_ns = NSEC_PER_MSEC, .companion = -1 };
	struct drained d;
	bool right = true;

	for (int i = 0; i < 2; i++)
		series_init(&series[i], i, &info, 1024);
	dithers = true;
	events(3, 0, 1);
	dithers = false;
	for (int i = 0; i < 3; i++) {
		int64_t due_ns = step->start_ns + i * NSEC_PER_MSEC + loopback.moved_ns[i] +
				 grid_offset_ns(i, NSEC_PER_MSEC);

		right &= due_ns <= loopback.raised_ns[i];
		right &= i < 2 || due_ns >= loopback.raised_ns[i - 1] + loopback.limits.timeout_ns;
	}
	tap_check(right, "the grid is where the events are raised");
	d = drained_from(&series[1]);
	tap_check(d.samples == 3 &&
			  d.due_ns[d.blocks - 1] == 2 * NSEC_PER_MSEC + loopback.moved_ns[2],
		  "that of the offsets, too");
	memset(loopback.moved_ns, 0, sizeof(loopback.moved_ns));
	loopback.moved_ns[2] = 7;
	loopback.moved_ns[4] = 9;
	loopback.next = 0;
	loopback_came(step, &loopback, 0, &(struct line_event){ 0 });
	loopback_came(step, &loopback, 2, &(struct line_event){ 0 });
	loopback.events = 5;
	response.state = &loopback;
	loopback_stop(&response);
	d = drained_from(&series[0]);
	tap_check(d.blocks == 2 && d.due_ns[1] == 2 * NSEC_PER_MSEC + 7,
		  "an event that comes back is on the grid as it was when it was raised");
	tap_check(d.missed == 3 && series[0].moved_ns == 9, "those that do not come back, too");
	for (int i = 0; i < 2; i++)
		series_free(&series[i]);
}

/* The two threads end each other. */
static void test_failing_line(void)
{
	struct worker worker = { .step = step, .state = &loopback };

	fails = true;
	edge = LINE_FALLING;
	tap_check(!events(9, 0, 9) && raised == 1 && loopback.error == EIO,
		  "a line that cannot be driven to rest: no event is raised");
	memset(&run, 0, sizeof(run));
	loopback_wait_loop(&worker);
	tap_check(response.error == ENODEV && step_stopped(step),
		  "a line that cannot be waited on ends the step");
}

/* Ten events in a context of the kernel: @came have a sample, @lost no record, @missed are passed over.
 * @cut: the last one is cut off. */
static const char *judge_module(int64_t came, uint64_t lost, uint64_t missed, bool cut)
{
	struct module module = {
		.session = { .grid[MODULE_RESPONSE].count = came, .cut = cut },
		.status = { .events = 10 - missed, .lost = lost, .missed = missed },
		.ended = true,
	};
	struct response r = { .line = { .kind = &line_loopback }, .state = &module };

	module_finish(step, &r);
	return judged;
}

static void test_module(void)
{
	tap_check(!strcmp(judge_module(10, 0, 0, false), "pass"), "the module: %s", said);
	tap_check(!strcmp(judge_module(9, 0, 1, false), "fail"), "the module: %s", said);
	tap_check(!strcmp(judge_module(7, 2, 0, false), "fail"), "the module: %s", said);
	tap_check(!strcmp(judge_module(8, 2, 0, false), "inconclusive"), "the module: %s", said);
	tap_check(!strcmp(judge_module(9, 0, 0, true), "pass"), "the module: %s", said);
	tap_check(!strcmp(judge_module(8, 0, 0, true), "fail"), "the module: %s", said);
}

/* Events of a loopback in a context of the kernel. */
static void test_periods(void)
{
	struct response r = { .interval_ns = 30 * NSEC_PER_MSEC, .for_ns = INT64_MAX };

	tap_check(!module_periods(&r), "no duration: no limit");
	r.for_ns = 90 * NSEC_PER_MSEC;
	tap_check(module_periods(&r) == 3, "three intervals");
	r.for_ns = 90 * NSEC_PER_MSEC + 1;
	tap_check(module_periods(&r) == 4, "a fourth one begins");
	r.for_ns = 10 * NSEC_PER_MSEC;
	tap_check(module_periods(&r) == 1, "less than an interval is a limit");
}

/* An interval that is longer than the step. */
static void test_long_interval(void)
{
	struct response r = { .line = { .kind = &line_loopback }, .interval_ns = NSEC_PER_SEC };
	struct message why = { 0 };

	memset(&run, 0, sizeof(run));
	if (option_set_init(&step->options, response_options) ||
	    option_set_parse(&step->options, "for", "999ms", &why))
		exit(1);
	tap_check(response_check(step, &r) == -EINVAL && strstr(step->msg.text, "--for 999ms"),
		  "a loopback whose second event would be due after its end: %s", step->msg.text);
	r.line.kind = &line_net;
	tap_check(!response_check(step, &r), "on other lines the interval has no meaning");
	option_set_free(&step->options);
}

int main(void)
{
	tap_check(events(3, 0, 3) == 3, "all events come back");
	tap_check(events(3, 0, 2) == 3, "the last one never comes back: waited for");
	tap_check(!loopback.held_back, "which holds no other event back");
	tap_check(events(9, 3, 3) == 3, "stopped after an answer");
	tap_check(events(9, 3, 2) == 2, "stopped before the answer: not known");
	tap_check(events(9, 1, 0) == 0, "stopped before the first answer");
	test_times();
	test_held_back();
	test_failing_line();
	test_module();
	test_periods();
	test_long_interval();
	return tap_end();
}
