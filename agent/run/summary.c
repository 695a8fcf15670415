// SPDX-License-Identifier: Apache-2.0
/* The summary for people, when the agent is used alone on a board. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "run/run.h"

/* One column: a value of the series in us with one digit, or as it is. */
static void summary_value(const struct series *s, int64_t value)
{
	char text[32];

	if (!strcmp(s->info.unit, "ns"))
		snprintf(text, sizeof(text), "%s%lld.%lld", value < 0 ? "-" : "",
			 (long long)((value < 0 ? -value : value) / 1000),
			 (long long)((value < 0 ? -value : value) % 1000 / 100));
	else
		snprintf(text, sizeof(text), "%lld", (long long)value);
	printf(" %9s", text);
}

static void summary_series(const struct series *s)
{
	const struct series_histogram *h = &s->histogram;
	char name[32], cpu[16];

	/* contexts are told apart where they are not all the user's */
	snprintf(name, sizeof(name), "%s%s%s%s%s", s->info.name,
		 strcmp(s->info.context, "user") ? " " : "",
		 strcmp(s->info.context, "user") ? s->info.context : "",
		 s->info.labels[0].name ? " " : "",
		 s->info.labels[0].name ? s->info.labels[0].value : "");
	snprintf(cpu, sizeof(cpu), s->info.cpu < 0 ? "-" : "%d", s->info.cpu);
	printf("%-24.24s %3s", name, cpu);
	if (!h->count) {
		printf("  no samples\n");
	} else {
		summary_value(s, h->min);
		summary_value(s, series_percentile(s, 50000));
		summary_value(s, series_percentile(s, 99900));
		summary_value(s, h->max > s->lost_max || !s->lost ? h->max : s->lost_max);
		printf(" %9lld\n", (long long)(h->count + s->lost));
	}
	if (s->missed)
		printf("    periods missed: %lld, overruns: %lld\n", (long long)s->missed,
		       (long long)s->overruns);
	/* the largest sample that a full ring lost is known */
	if (s->lost && s->lost_max == SERIES_UNKNOWN)
		printf("    samples without a value: %lld\n", (long long)s->lost);
	else if (s->lost)
		printf("    samples lost: %lld\n", (long long)s->lost);
}

void summary_print(const struct run *run)
{
	const struct measurement *m = run->request->measurement;
	const char *policy = run->step.worker_count ? run->step.workers[0].start.policy : "";

	printf("%s: %s\n", m->name, m->summary);
	printf("load %s%s%s%s; %lld.%lld s", run->request->loads,
	       run->request->load_command ? ", command" : "",
	       run->request->disturb ? ", disturbed on purpose by " : "",
	       run->request->disturb ? run->request->disturb : "",
	       (long long)(run->step.duration_ns / NSEC_PER_SEC),
	       (long long)(run->step.duration_ns % NSEC_PER_SEC / (100 * NSEC_PER_MSEC)));
	if (policy && policy[0])
		printf("; policy %s, priority %d", policy, run->step.workers[0].start.priority);
	printf("\n");
	if (run->step.worker_count &&
	    run->step.workers[0].priority > run->step.workers[0].start.priority)
		printf("NOT at real-time priority: run as root, or allow it (ulimit -r 99)\n");
	if (run->step.memory_unlocked)
		printf("memory is NOT locked: %s\n", strerror(run->step.memory_unlocked));
	if (run->undone)
		printf("settings restored after a killed agent: %d\n", run->undone);
	if (run->disturbed)
		printf("settings found changed during the step: %d\n", run->disturbed);
	printf("%-25s %3s %9s %9s %9s %9s %9s\n", "µs", "cpu", "min", "median", "99.9 %", "max",
	       "samples");
	for (int i = 0; i < run->step.series_count; i++)
		if (run->step.series[i].info.companion < 0)
			summary_series(&run->step.series[i]);
}
