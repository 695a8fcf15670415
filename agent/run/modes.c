// SPDX-License-Identifier: Apache-2.0
/*
 * Whether the measuring threads stayed on their core while they were timed, according to the
 * counters of the core.
 */
#include "run/modes.h"

#include <stdio.h>

#include "run/run.h"

static const struct step_column modes_columns[] = {
	{ "thread", "" },	  { "switches", "count" }, { "faults", "count" },
	{ "signal", "count" },	  { "syscall", "count" },  { "fault", "count" },
	{ "inversion", "count" },
};

#define MODES_COLUMNS (int)(sizeof(modes_columns) / sizeof(modes_columns[0]))

/* What to do against the most frequent reason. Page faults are reported as switches, too. */
static const char *modes_remedy(const struct core_modes *all)
{
	static const char *const remedies[CORE_REASONS] = {
		[CORE_OTHER] =
			"the core reported no reason: see the kernel's messages (dmesg). The "
			"samples contain time under Linux",
		[CORE_SIGNAL] =
			"end the program that signals the agent, and measure again: the samples "
			"contain time under Linux",
		[CORE_SYSCALL] =
			"report it to the authors of rtgauge: a thread made a Linux system "
			"call while timed, so the samples contain time under Linux",
		[CORE_FAULT] =
			"build the kernel without the options that move pages (MIGRATION, "
			"COMPACTION, KSM), which rtgauge check names. The samples contain time "
			"under Linux",
		[CORE_INVERSION] =
			"report it to the authors of rtgauge: a thread left the core with a "
			"mutex that a task waits for, so the samples contain time under "
			"Linux",
	};
	int most = CORE_OTHER;

	for (int reason = CORE_SIGNAL; reason < CORE_REASONS; reason++)
		if (all->reasons[reason] > all->reasons[most])
			most = reason;
	return remedies[most == CORE_OTHER && all->faults ? CORE_FAULT : most];
}

void modes_put(struct run *run)
{
	struct step *step = &run->step;
	struct core_modes all = { 0 };
	char evidence[160];
	int64_t reported = 0;
	struct cbor *c;
	int tasks = 0;
	bool left;

	if (run->core_refused.text[0])
		step_verdict(step, MODES_RULE, "skipped", run->core_refused.text,
			     run->core_refused.remedy);
	for (int i = 0; i < step->worker_count; i++)
		tasks += !step->workers[i].plain;
	if (!step->core->begin || !tasks)
		return;
	c = step_table_begin(step, "modes", modes_columns, MODES_COLUMNS, tasks);
	for (int i = 0; i < step->worker_count; i++) {
		const struct core_modes *modes = &step->workers[i].modes;

		if (step->workers[i].plain)
			continue;
		cbor_array(c, (size_t)MODES_COLUMNS);
		cbor_int(c, i);
		cbor_int(c, modes->switches);
		cbor_int(c, modes->faults);
		for (int reason = CORE_SIGNAL; reason < CORE_REASONS; reason++)
			cbor_int(c, modes->reasons[reason]);
		for (int reason = CORE_OTHER; reason < CORE_REASONS; reason++) {
			all.reasons[reason] += modes->reasons[reason];
			reported += modes->reasons[reason];
		}
		all.switches += modes->switches;
		all.faults += modes->faults;
	}
	step_table_end(step);
	/* without counters the core still reports some of the switches, by their reasons */
	if (!step->core->counts() && !reported) {
		step_verdict(step, MODES_RULE, "inconclusive", CORE_NO_COUNTS, CORE_COUNTS_REMEDY);
		return;
	}
	if (!step->core->counts())
		all.switches = reported;
	left = all.switches || all.faults;
	snprintf(evidence, sizeof(evidence),
		 "threads of the %s core: %lld switch%s to Linux and %lld page fault%s while timed",
		 step->core->title, (long long)all.switches, all.switches == 1 ? "" : "es",
		 (long long)all.faults, all.faults == 1 ? "" : "s");
	step_verdict(step, MODES_RULE, left ? "fail" : "pass", evidence, modes_remedy(&all));
}
