// SPDX-License-Identifier: Apache-2.0
/* The other duties of the draining thread: checks once a second, and regular records. */
#include "run/watch.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "loads/load.h"
#include "run/drain.h"
#include "run/worker.h"

/* After this time, records that come once a second at first come less often, so that the stream of
 * a run of days consists mainly of samples. */
#define WATCH_DETAIL_NS (600 * NSEC_PER_SEC)
#define WATCH_CLOCK_NS (10 * NSEC_PER_SEC)
#define WATCH_COARSE_SNAPSHOT_NS (60 * NSEC_PER_SEC)
#define WATCH_OFFLINE_LOOKS 100 /* 20 ms apart */
/* A thread that did not run in a shorter step may only have been about to. */
#define WATCH_STARVED_NS (100 * NSEC_PER_MSEC)

static bool watch_is_due(int64_t *due_ns, int64_t now_ns, int64_t interval_ns)
{
	if (now_ns < *due_ns)
		return false;
	*due_ns = now_ns + interval_ns;
	return true;
}

void watch_background(struct run *run, int64_t now_ns, bool still)
{
	background_read(&run->background, still);
	background_put(&run->background, now_ns - run->step.start_ns, stream_begin(&run->stream));
	stream_end(&run->stream, STREAM_AMBIENCE);
}

static void watch_setting(void *arg, const char *name, const char *expected, const char *found)
{
	struct run *run = arg;

	drain_setting_changed(run, clock_now_ns(CLOCK_MONOTONIC) - run->step.start_ns, name,
			      expected, found);
	run->disturbed++;
}

static void watch_policy(struct run *run, struct worker *worker,
			 const struct worker_placement *found, int64_t now_ns)
{
	char name[40], expected[32], is[32];

	if (!strcmp(found->policy, worker->start.policy) &&
	    (found->priority == worker->start.priority ||
	     (worker->raised && found->priority == worker->raised)))
		return;
	snprintf(name, sizeof(name), "policy of thread %d", worker->number);
	snprintf(expected, sizeof(expected), "%s:%d", worker->start.policy, worker->start.priority);
	snprintf(is, sizeof(is), "%s:%d", found->policy, found->priority);
	drain_setting_changed(run, now_ns, name, expected, is);
	run->disturbed++;
	worker->changed = true;
}

/* A CPU that goes offline loses its threads first. */
static bool watch_goes_offline(int cpu)
{
	const struct timespec look = { .tv_nsec = 20 * NSEC_PER_MSEC };
	struct cpulist online;

	for (int i = 0; i < WATCH_OFFLINE_LOOKS; i++) {
		if (!cpulist_online(&online) && !cpulist_has(&online, cpu))
			return true;
		nanosleep(&look, NULL);
	}
	return false;
}

static void watch_affinity(struct run *run, struct worker *worker,
			   const struct worker_placement *found, int64_t now_ns)
{
	char text[160];

	if (!found->strayed)
		return;
	worker->changed = true;
	atomic_store_release(&run->step.stop, STEP_STOP);
	if (watch_goes_offline(worker->cpu))
		snprintf(text, sizeof(text), "CPU %d went offline during the step", worker->cpu);
	else
		snprintf(text, sizeof(text),
			 "another program changed the CPU affinity of measuring thread %d",
			 worker->number);
	drain_message(run, now_ns, text);
	step_end(run, "failed", text,
		 "run again, and leave the CPUs and the affinity of threads unchanged");
}

void watch_workers(struct run *run, int64_t now_ns)
{
	for (int i = 0; i < run->step.worker_count; i++) {
		struct worker *worker = &run->step.workers[i];
		struct worker_placement found;

		if (worker->changed)
			continue;
		if (atomic_load_acquire(&worker->done))
			found = worker->end;
		else if (!(worker->foreign ? worker->tid : worker->created) ||
			 !worker_look(worker, &found))
			continue;
		watch_policy(run, worker, &found, now_ns);
		watch_affinity(run, worker, &found, now_ns);
	}
}

void watch_starved(struct run *run, int64_t now_ns)
{
	const struct step *step = &run->step;
	int starved = 0, measuring = 0;
	char text[128];

	for (int i = 0; i < step->worker_count; i++) {
		measuring += !step->workers[i].filler;
		starved += !step->workers[i].filler && step->workers[i].starved;
	}
	if (!starved || !step->opened || step->duration_ns < WATCH_STARVED_NS)
		return;
	snprintf(text, sizeof(text),
		 "%d of %d measuring threads got no CPU time until the step ended, after %lld ms",
		 starved, measuring, (long long)(step->duration_ns / NSEC_PER_MSEC));
	drain_message(run, now_ns, text);
}

void watch_loads(struct run *run, int64_t now_ns, bool reports)
{
	struct message msg = { 0 };

	if (!run->loads ||
	    !load_set_check(run->loads, now_ns, reports ? drain_work : NULL, run, &msg))
		return;
	drain_load_event(run, now_ns - run->step.start_ns, msg.text);
	step_end(run, "failed", msg.text, msg.remedy);
}

void watch_begin(struct watch *watch, const struct run *run)
{
	*watch = (struct watch){ .second_ns = run->step.start_ns + NSEC_PER_SEC,
				 .clock_ns = run->step.start_ns + WATCH_CLOCK_NS,
				 .snapshot_ns = run->step.start_ns + WATCH_CLOCK_NS };
}

void watch_duties(struct watch *watch, struct run *run, int64_t now_ns)
{
	bool detailed = now_ns - run->step.start_ns < WATCH_DETAIL_NS;
	bool reports;

	if (!watch_is_due(&watch->second_ns, now_ns, NSEC_PER_SEC))
		return;
	reports = watch_is_due(&watch->report_ns, now_ns, detailed ? NSEC_PER_SEC : WATCH_CLOCK_NS);
	watch_loads(run, now_ns, reports);
	watch_workers(run, now_ns - run->step.start_ns);
	if (run->step.settings)
		settings_verify(run->step.settings, watch_setting, run);
	if (reports)
		watch_background(run, now_ns, false);
	if (watch_is_due(&watch->clock_ns, now_ns, WATCH_CLOCK_NS))
		drain_clock(run);
	if (run->request->histogram_only ||
	    watch_is_due(&watch->snapshot_ns, now_ns,
			 detailed ? WATCH_CLOCK_NS : WATCH_COARSE_SNAPSHOT_NS))
		drain_histograms(run, false);
}
