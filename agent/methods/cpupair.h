/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordered pairs of CPUs, for measurements from one CPU to another. If there are more pairs than
 * requested, neighbours come first, so that as many CPUs as possible are included.
 */
#ifndef RTGAUGE_CPUPAIR_H
#define RTGAUGE_CPUPAIR_H

#include <stdint.h>

#include "base/option.h"
#include "run/step.h"

#define CPUPAIR_MAX 500

/* Rows for the option table of a measurement of pairs. */
#define CPUPAIR_OPTIONS                                                                       \
	{ "for", OPTION_DURATION, "0", 0, 0, NULL, "time limit; 0: none" },                   \
		{ "samples", OPTION_INTEGER, "1000", 1, 10000000, NULL, "samples per pair" }, \
		{ "cpu", OPTION_CPUS, "all", 0, 0, NULL, "CPUs to measure between" },         \
		{ "priority",                                                                 \
		  OPTION_INTEGER,                                                             \
		  "80",                                                                       \
		  0,                                                                          \
		  99,                                                                         \
		  NULL,                                                                       \
		  "SCHED_FIFO priority; 0: SCHED_OTHER" },                                    \
	{                                                                                     \
		"pairs", OPTION_INTEGER, "56", 1, CPUPAIR_MAX, NULL,                          \
			"maximum number of ordered pairs of CPUs, neighbours first"           \
	}
#define CPUPAIR_VERDICT "every pair of CPUs is measured"
#define CPUPAIR_VERDICT_MEANING \
	"skipped where there are more pairs than --pairs, inconclusive where a pair has no sample"

struct cpupair {
	int from;
	int to;
	int series;
	char labels[2][12];
};

struct cpupairs {
	struct cpupair *pairs;
	int count;
	int possible;
};

/* The pairs among the CPUs of the option `cpu`. 0, -errno with a message, or STEP_SKIPPED: there
 * is but one CPU. */
int cpupairs_choose(struct step *step, struct cpupairs *all);
/* A series of durations, net of a time stamp, that @worker puts. Its number, or -errno with a
 * message. */
int cpupairs_series(struct step *step, struct cpupair *pair, const char *name, int worker,
		    int64_t samples);
/* A worker's prepare(): its series are without the cost of a time stamp on its CPU. */
int cpupairs_prepare(struct worker *worker);
bool cpupairs_sampled(const struct step *step, const struct cpupair *pair);
#define CPUPAIR_LONGER "let the step run longer (--for), or measure fewer pairs (--pairs)"
/* In finish() of a step without an error: say what the step did not come to, or else what was left
 * out. @remedy: what helps if a pair has no sample. */
void cpupairs_verdict(struct step *step, const struct cpupairs *all, const char *remedy);

#endif
