// SPDX-License-Identifier: Apache-2.0
/* The disturbance of a step that is injected on purpose (--disturb). */
#include "run/injection.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "run/drain.h"

/* The disturbed CPU: the first one that is measured. */
static int injection_cpu(const struct run *run)
{
	for (int i = 0; i < run->step.worker_count; i++)
		if (run->step.workers[i].cpu >= 0)
			return run->step.workers[i].cpu;
	return 0;
}

int injection_check(struct run *run)
{
	if (!run->request->disturb)
		return 0;
	if (geteuid() != 0)
		return step_skip(&run->step,
				 "--disturb loads a kernel module, which only root may do",
				 "run as root, or in the lab");
	return disturb_parse(&run->disturb, run->request->disturb, &run->step.msg);
}

int injection_start(struct run *run)
{
	int err;

	if (!run->request->disturb)
		return 0;
	err = disturb_insert(&run->disturb, run->request->disturb_module, injection_cpu(run),
			     run->step.settings, &run->step.msg);
	if (err == -ENOENT || err == -EPERM || err == -ENOSYS)
		return STEP_SKIPPED;
	return run_failure(err);
}

void injection_stop(struct run *run)
{
	struct disturb_counts counts;
	char text[200];
	int err;

	if (!run->request->disturb)
		return;
	if (!disturb_read(&counts)) {
		snprintf(
			text, sizeof(text),
			"injected disturbances (%s): %lld (longest %lld ns, periods without one: %lld)",
			run->disturb.kind, (long long)counts.done, (long long)counts.longest_ns,
			(long long)counts.late);
		drain_message(run, run_now_ns(run), text);
		if (!counts.done && run->step.duration_ns > 2 * run->disturb.period_ns)
			step_end(run, "failed", "the disturbance never happened",
				 "leave CPU time for it: use a lighter load or fewer threads");
	}
	err = disturb_remove(run->step.settings);
	if (!err)
		return;
	snprintf(text, sizeof(text), "cannot remove the module " DISTURB_MODULE ": %s",
		 strerror(-err));
	drain_message(run, run_now_ns(run), text);
	step_end(run, "failed", text, "remove it yourself: rmmod " DISTURB_MODULE);
}
