// SPDX-License-Identifier: Apache-2.0
/* Timer latency: functions that its methods share. */
#include "measurements/timer/timer_method.h"

/* Seconds of samples that a ring holds, and its maximum size in words. */
#define TIMER_RING_SECONDS 4
#define TIMER_RING_MAX (1 << 17)

int64_t timer_missed(struct step *step, struct series *latency, int64_t missed, int64_t periods,
		     int64_t samples, const struct timespec *now)
{
	/* periods after the end are not due any more */
	if (samples == 1 || missed < 0)
		missed = 0;
	if (missed > periods)
		missed = periods;
	if (missed)
		series_missed(latency, missed);
	return step_starved(step, clock_to_ns(now)) ? -1 : missed;
}

int timer_add_series(struct step *step, const char *context, const char *method, int cpu,
		     int thread, const struct timer_thread *common, int64_t first_due_ns,
		     int *latency, int *dither)
{
	int64_t words = TIMER_RING_MAX;
	bool dithered = common->dither >= 0; /* @dither may be that very field */
	struct series_info info = {
		.name = "latency",
		.context = context,
		.unit = "ns",
		.cpu = cpu,
		.thread = thread,
		.interval_ns = common->interval_ns,
		.first_due_ns = first_due_ns,
		.companion = -1,
		.labels = { { "method", method } },
	};

	if (common->method && common->method->relative)
		info.interval_ns = 0;
	if (TIMER_RING_SECONDS * NSEC_PER_SEC / common->interval_ns + 64 < words)
		words = TIMER_RING_SECONDS * NSEC_PER_SEC / common->interval_ns + 64;
	*dither = -1;
	*latency = step_add_series(step, &info, (size_t)words);
	if (*latency < 0 || !dithered)
		return *latency < 0 ? *latency : 0;
	info.name = "dither";
	info.companion = *latency;
	*dither = step_add_series(step, &info, (size_t)words);
	return *dither < 0 ? *dither : 0;
}
