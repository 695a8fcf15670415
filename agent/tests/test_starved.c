// SPDX-License-Identifier: Apache-2.0
/* Tests of a measuring thread that gets no CPU time between the start and the stop of its step, and
 * of the length of a step. Prints TAP. */
#define drain_message take_message
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "run/run.h"

#include "measurements/timer/timer.c"
#include "run/run.c"
#include "run/watch.c"
#include "run/worker.c"

#include "core/core.h"
#include "drained.h"
#include "tap.h"

static struct run run;
static struct timer_state state;
static struct timer_thread thread;
static struct worker worker;
static struct series series[2];
static int64_t missed[2];

static void measure(struct worker *of)
{
	series_put(&of->step->series[0], 1);
}

static int refuse(struct worker *of)
{
	return -EPERM;
}

static char said[512];

void take_message(struct run *of, int64_t now_ns, const char *text)
{
	snprintf(said, sizeof(said), "%s", text);
}

/* What the end of a step of @duration_ms with these threads says. */
static const char *end_of(struct worker *workers, int count, int64_t duration_ms)
{
	run.step = (struct step){ .workers = workers,
				  .worker_count = count,
				  .opened = true,
				  .duration_ns = duration_ms * NSEC_PER_MSEC };
	said[0] = '\0';
	watch_starved(&run, run.step.duration_ns);
	return said;
}

/* The draining thread waited for the reader of the stream: it sees the end of the workers late. */
static void test_duration(void)
{
	static const struct measurement measurement;
	struct worker workers[] = { { .ended_ns = 7 * NSEC_PER_SEC },
				    { .ended_ns = 8 * NSEC_PER_SEC, .foreign = true },
				    { .ended_ns = 6 * NSEC_PER_SEC } };
	int64_t now_ns;

	run.step = (struct step){ .measurement = &measurement,
				  .workers = workers,
				  .worker_count = 3,
				  .start_ns = 2 * NSEC_PER_SEC,
				  .gate_ns = NSEC_PER_SEC };
	run_end_workers(&run);
	tap_check(run.step.duration_ns == 5 * NSEC_PER_SEC, "until the last worker ended");
	run.step.worker_count = 0;
	now_ns = run_end_workers(&run);
	tap_check(run.step.duration_ns == now_ns - NSEC_PER_SEC, "until now without one");
}

static void test_message(void)
{
	struct worker workers[] = { { .starved = true },
				    { .starved = true, .filler = true },
				    { .filler = true },
				    { .starved = false } };

	tap_check(!strcmp(end_of(workers, 4, 5000),
			  "1 of 2 measuring threads got no CPU time until the step ended, after "
			  "5000 ms"),
		  "the message: %s", said);
	tap_check(!*end_of(workers, 4, 99), "not of a step that was stopped at once");
	tap_check(!*end_of(workers + 1, 3, 5000), "not of threads that only fill a CPU");
	end_of(workers, 4, 5000);
	run.step.opened = false;
	said[0] = '\0';
	watch_starved(&run, 0);
	tap_check(!*said, "not of a step that does not measure");
}

static bool opened = true;
static int (*prepare)(struct worker *of);

/* A thread at 1 ms, whose first period was due @ago_ns ago, comes through its gate; then the step
 * ends. The periods that it has missed, -1: there is a sample. */
static int64_t let_in(bool stopped, int64_t ago_ns)
{
	struct step *step = &run.step;
	struct series_info info = { .interval_ns = NSEC_PER_MSEC, .companion = -1 };

	run.ended_fd = eventfd(0, EFD_CLOEXEC);
	run.go = 1;
	*step = (struct step){ .core = &core_linux, .state = &state, .series = series };
	step->workers = &worker;
	step->worker_count = 1;
	step->start_ns = clock_now_ns(CLOCK_MONOTONIC) - NSEC_PER_SEC;
	step->opened = opened;
	step->stop = stopped ? STEP_STOP : 0;
	worker = (struct worker){ .step = step, .loop = measure, .prepare = prepare, .cpu = -1 };
	info.first_due_ns = NSEC_PER_SEC - ago_ns;
	series_init(&series[0], 0, &info, 64);
	info.companion = 0;
	series_init(&series[1], 1, &info, 64);
	thread.dither = 1;
	state.threads = &thread;
	state.count = 1;
	worker_main(&worker);
	timer_stop(step);
	for (int i = 0; i < 2; i++) {
		const struct drained d = drained_from(&series[i]);

		missed[i] = d.missed - d.samples;
		series_free(&series[i]);
	}
	close(run.ended_fd);
	return missed[0];
}

static bool ended_in_step(void)
{
	return worker.ended_ns >= run.step.start_ns + NSEC_PER_SEC &&
	       worker.ended_ns <= clock_now_ns(CLOCK_MONOTONIC);
}

int main(void)
{
	int64_t count;

	thread = (struct timer_thread){ .interval_ns = NSEC_PER_MSEC, .periods = INT64_MAX };
	count = let_in(true, 500 * NSEC_PER_MSEC);
	tap_check(count > 500 && count < 100000, "all periods were missed: %lld", (long long)count);
	tap_check(missed[1] == count, "the companion has as many");
	thread.periods = 300;
	tap_check(let_in(true, 500 * NSEC_PER_MSEC) == 300, "those after the end were not due");
	tap_check(!let_in(true, -3600 * NSEC_PER_SEC), "none was due yet");
	tap_check(let_in(false, 500 * NSEC_PER_MSEC) == -1, "a thread that is let in measures");
	tap_check(ended_in_step(), "it says when it ended");
	worker = (struct worker){ .foreign = true };
	step_foreign_done(&run.step, 0);
	tap_check(ended_in_step(), "so does a kernel thread");
	prepare = refuse;
	tap_check(!let_in(true, 500 * NSEC_PER_MSEC),
		  "a thread that cannot be prepared has not missed a period");
	prepare = NULL;
	opened = false;
	tap_check(!let_in(true, 500 * NSEC_PER_MSEC),
		  "nor has a thread of a step that ends before it measures");
	test_message();
	test_duration();
	return tap_end();
}
