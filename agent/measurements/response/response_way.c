// SPDX-License-Identifier: Apache-2.0
/* The answer to an external event: functions that its ways share. */
#include "base/clock.h"
#include "measurements/response/response.h"

#define RESPONSE_RING 16384

int response_add_series(struct step *step, const struct response *r, const char *name, int thread,
			int64_t interval_ns)
{
	struct series_info info = {
		.name = name,
		.context = r->context,
		.unit = "ns",
		.cpu = r->cpu,
		.thread = thread,
		.interval_ns = interval_ns,
		.companion = -1,
		.labels = { { "line", r->line.kind->name },
			    { "edge", r->edge },
			    { r->delayed[0] ? "delayed" : NULL, r->delayed } },
	};

	return step_add_series(step, &info, RESPONSE_RING);
}

void response_end_in_time(struct step *step, const struct response *r)
{
	int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC) - step->start_ns;

	if (r->for_ns != INT64_MAX && now_ns - step->gate_ns >= r->for_ns)
		atomic_store_release(&step->stop, STEP_STOP);
}
