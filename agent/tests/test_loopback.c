// SPDX-License-Identifier: Apache-2.0
/* Tests of the end of response_loopback.c, on a line that is made up here. Prints TAP. */
#include "measurements/response/response_loopback.c"

#include <string.h>

#include "run/run.h"
#include "tap.h"

static struct tap tap;
static struct run run;
static struct step *const step = &run.step;
static struct response response;
static struct loopback loopback;
static struct series series[1];
static int raised;
static int stop_at; /* the event after which the run is stopped from outside; 0: never */
static int answers; /* the first so many events come back */

static int drive(struct line *line, int level)
{
	(void)line;
	(void)level;
	raised++;
	if (raised <= answers)
		atomic_store_release(&loopback.came, (uint32_t)raised);
	if (raised == stop_at)
		atomic_store_release(&step->stop, STEP_STOP);
	return 0;
}

static const struct line_kind kind = { .name = "made-up", .drive = drive };

/* Events of those raised that are accounted for. */
static int64_t events(int samples, int stop, int back)
{
	struct worker worker = { .step = step, .state = &loopback };

	memset(&run, 0, sizeof(run));
	memset(&loopback, 0, sizeof(loopback));
	response = (struct response){
		.line = { .kind = &kind },
		.samples = samples,
		.for_ns = INT64_MAX,
		.interval_ns = NSEC_PER_MSEC,
	};
	step->series = series;
	step->start_ns = clock_now_ns(CLOCK_MONOTONIC);
	loopback.step = step;
	loopback.response = &response;
	loopback.wake = loopback.dither = -1;
	answers_begin(&loopback.limits, response.interval_ns, 0, true);
	raised = 0;
	stop_at = stop;
	answers = back;
	loopback_raise_loop(&worker);
	return loopback.events;
}

int main(void)
{
	tap_check(&tap, events(3, 0, 3) == 3, "all events come back");
	tap_check(&tap, events(3, 0, 2) == 3, "the last one never comes back: waited for");
	tap_check(&tap, !loopback.held_back, "which holds no other event back");
	tap_check(&tap, events(9, 3, 3) == 3, "stopped after an answer");
	tap_check(&tap, events(9, 3, 2) == 2, "stopped before the answer: not known");
	tap_check(&tap, events(9, 1, 0) == 0, "stopped before the first answer");
	return tap_end(&tap);
}
